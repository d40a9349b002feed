"""From a table to explanations and a report, by the commands that a user types."""

import csv
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx import cli
from bayes_gpx.data.sheets import read_sheet
from bayes_gpx.export import tables
from bayes_gpx.inference import nuts
from bayes_gpx.inference.diagnostics import ConvergenceWarning
from bayes_gpx.reporting import report
from bayes_gpx.system.files import replaced, writable

COMMAND = str(Path(sys.executable).parent / "bayes-gpx")
MOMENTS = ("mean", "sd", "lower", "upper")


def typed(*words):
    return subprocess.run([COMMAND, *map(str, words)], capture_output=True, text=True)


def test_a_reader_that_has_seen_enough_is_no_error():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [COMMAND, "datasets"], stdout=write, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(write)
    assert done.stderr == "" and done.returncode == 1


def refused(capsys, *words):
    """Exit code and message of a command that is refused."""
    with pytest.raises(SystemExit) as stop:
        cli.main([str(word) for word in words])
    return stop.value.code, capsys.readouterr().err


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of 24 rows, its first 3 rows as Parquet too, and a fit by the real command."""
    rng = np.random.default_rng(3)
    folder = tmp_path_factory.mktemp("typed")
    frame = pd.DataFrame(rng.normal([5, -2, 1], [2, 0.3, 1], (24, 3)), columns=list("abc"))
    frame["price"] = 10 + 3 * np.sin(frame["a"]) + rng.normal(0, 0.3, 24)
    frame["kind"] = np.where(frame["price"] > 10, "dear", "cheap")
    frame.to_csv(folder / "data.csv", index=False)
    frame[["c", "a"]][:3].to_csv(folder / "new.csv", index=False)
    frame[["a", "c"]][:3].to_parquet(folder / "new.parquet")
    options = ("--target", "price", "--features", "a", "c", "--method", "map", "--seed", "5")
    done = typed("fit", folder / "data.csv", *options, "--out", folder / "run")
    assert done.returncode == 0, done.stderr
    assert "24 rows, 2 features: a, c." in done.stdout
    return folder


def test_the_run_is_a_fit_like_any_other(folder):
    model, idata = bx.load(folder / "run" / "fit.nc")
    data = pd.read_csv(folder / "data.csv")
    again = bx.GPX(data[["a", "c"]], data["price"])
    assert model.specification == again.specification
    fitted = again.fit("map", progressbar=False)
    for name in ("lengthscale", "amplitude", "sigma"):
        assert_allclose(idata["posterior"][name], fitted["posterior"][name], rtol=1e-4)
    assert idata.attrs["seed"] == "5"


def test_explained_rows_are_what_the_verbs_say(folder):
    out = folder / "explained.csv"
    assert cli.main(["explain", f"{folder}/run", f"{folder}/new.csv", "--out", str(out)]) == 0
    found = pd.read_csv(out)
    each = ("weight", "contribution", "attribution", "prediction")
    assert list(found) == ["row", "feature", "value"] + [f"{q}_{m}" for q in each for m in MOMENTS]
    assert (
        found["row"].tolist() == [1, 1, 2, 2, 3, 3] and found["feature"].tolist() == ["a", "c"] * 3
    )
    model, idata = bx.load(folder / "run" / "fit.nc")
    new = pd.read_csv(folder / "new.csv")
    asked = {"draws": 4000, "seed": 1, "progressbar": False}
    for verb in (bx.weights, bx.contributions, bx.attributions):
        name, expected = verb.__name__[:-1], verb(model, idata, new, **asked)
        for moment in ("mean", "sd"):
            assert_allclose(found[f"{name}_{moment}"], expected[f"{name}_{moment}"].values.ravel())
        low, high = expected[name].quantile([0.055, 0.945], ["chain", "draw"]).values
        noise = 0.2 * found[f"{name}_sd"]  # of quantiles of 1000 draws, some 4 standard errors
        assert (np.abs(found[f"{name}_lower"] - low.ravel()) < noise).all()
        assert (np.abs(found[f"{name}_upper"] - high.ravel()) < noise).all()
    predicted = bx.predictions(model, idata, new, **asked)
    assert_allclose(found["prediction_mean"], np.repeat(predicted["y_mean"].values, 2))


def test_the_seed_decides_and_parquet_is_read(folder, tmp_path):
    told = []
    for sheet, seed in (("new.csv", "1"), ("new.parquet", "1"), ("new.csv", "2")):
        out = tmp_path / "e.csv"
        words = ["explain", f"{folder}/run", f"{folder}/{sheet}", "--out", str(out), "--seed", seed]
        assert cli.main([*words, "--quiet"]) == 0
        told.append(out.read_text())
    assert told[0] == told[1] != told[2]


def test_rows_far_from_the_data_are_told_once(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tables, "CHUNK", 2)
    far = pd.read_csv(folder / "new.csv").assign(a=[1e3, 5.0, 1e3])
    far.to_csv(tmp_path / "far.csv", index=False)
    words = ["explain", f"{folder}/run", f"{tmp_path}/far.csv", "--out", f"{tmp_path}/e.csv"]
    cli.main([*words, "--quiet"])
    said = capsys.readouterr().err
    assert said.startswith("Warning: 2 of 3 rows leave the training data: a in 2")
    assert said.count("Warning") == 1


def test_rows_come_in_blocks_and_stay_when_interrupted(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tables, "CHUNK", 2)
    out = tmp_path / "e.csv"
    words = ["explain", f"{folder}/run", f"{folder}/new.csv", "--out", str(out)]
    cli.main(words)
    whole = pd.read_csv(out)
    assert whole["row"].tolist() == [1, 1, 2, 2, 3, 3]
    whole_blocks = tables.explained

    def stopped(*args, **kwargs):
        yield next(iter(whole_blocks(*args, **kwargs)))
        raise KeyboardInterrupt

    monkeypatch.setattr(tables, "explained", stopped)
    assert refused(capsys, *words)[0] == 130
    pd.testing.assert_frame_equal(pd.read_csv(out), whole[:4])


def test_a_baseline_from_a_table_is_averaged_over(folder, tmp_path, capsys):
    out, run = tmp_path / "e.csv", tmp_path / "run"
    fit = ["fit", f"{folder}/data.csv", "--target", "price", "--features", "a", "--model", "gp"]
    cli.main([*fit, "--method", "map", "--out", str(run), "--quiet"])
    words = ["explain", str(run), f"{folder}/new.csv", "--out", str(out)]
    cli.main([*words, "--baseline", f"{folder}/new.csv"])
    model, idata = bx.load(run / "fit.nc")
    new = pd.read_csv(folder / "new.csv")[["a"]]
    found = bx.attributions(model, idata, new, baseline=new, progressbar=False)
    expected = found["attribution_mean"].values.ravel()
    assert_allclose(pd.read_csv(out)["attribution_mean"], expected, rtol=1e-8)
    code, said = refused(capsys, *words, "--baseline", folder / "data.csv")
    assert code == 1 and "24 rows; expected at most 20" in said


def test_report_writes_where_it_says(folder, capsys, monkeypatch):
    monkeypatch.setattr(report, "SECTIONS", report.SECTIONS[:1])
    assert cli.main(["report", f"{folder}/run"]) == 0
    assert f"wrote {folder}/run/report.html" in capsys.readouterr().out
    assert "Model card" in (folder / "run" / "report.html").read_text()


def test_quiet_says_nothing(folder, tmp_path, capsys):
    options = ["--target", "kind", "--features", "a", "--likelihood", "bernoulli", "--model", "gp"]
    where = ["--method", "map", "--out", str(tmp_path / "labels"), "--quiet"]
    assert cli.main(["fit", f"{folder}/data.csv", *options, *where]) == 0
    said = capsys.readouterr()
    assert said.out == said.err == ""
    cli.main(
        ["explain", str(tmp_path / "labels"), f"{folder}/new.csv", "--out", f"{tmp_path}/e.csv"]
    )
    found = pd.read_csv(tmp_path / "e.csv")
    assert found["prediction_mean"].between(0, 1).all() and "weight_mean" not in found


def test_data_sets_are_listed_and_written(tmp_path, capsys):
    assert cli.main(["datasets"]) == 0
    assert "diabetes" in capsys.readouterr().out
    assert cli.main(["datasets", "diabetes", "--out", str(tmp_path / "d.csv")]) == 0
    assert "mg/dl" in capsys.readouterr().out
    written = pd.read_csv(tmp_path / "d.csv")
    assert written.shape == (442, 11) and written.columns[-1] == "progression"


def test_what_is_wrong_is_said_with_its_cure(folder, tmp_path, capsys, monkeypatch):
    fit = ["fit", folder / "data.csv", "--out", tmp_path / "run", "--target"]
    cases = [
        (1, "'pricee' (did you mean 'price'?)", [*fit, "pricee", "--features", "a"]),
        (1, "'price_' (did you mean 'price'?)", [*fit, "a", "--features", "b", "price_"]),
        (1, "'kind' holds words, such as 'dear' in row 1: --categorical kind", [*fit, "price"]),
        (2, "both the target and a feature", [*fit, "a", "--features", "a", "c"]),
        (2, "does not exist", ["fit", tmp_path / "no.csv", "--target", "a", "--out", tmp_path]),
        (2, "Missing option '--target'", ["fit", folder / "data.csv", "--out", tmp_path]),
        (2, "holds no fit.nc", ["explain", tmp_path, folder / "new.csv", "--out", "e.csv"]),
        (1, "expected one of", ["datasets", "diabetis"]),
        (2, "no file of that name", ["report", folder / "run", "--baseline", "avg"]),
        (1, "--kernel: unknown 'rbf'", [*fit, "price", "--features", "a", "--kernel", "rbf"]),
        (2, "Did you mean 'nuts'?", [*fit, "price", "--method", "mcmc"]),
        (2, "needs --inducing M", [*fit, "price", "--features", "a", "--method", "SVGP"]),
        (
            2,
            "new.csv is a file; expected the folder",
            ["explain", folder / "new.csv", folder / "run", "--out", tmp_path / "e.csv"],
        ),
        (
            2,
            "run is a folder; expected a CSV",
            ["fit", folder / "run", "--target", "a", "--out", tmp_path / "run"],
        ),
        (
            2,
            "Put it first: --features takes",
            [
                "fit",
                "--target",
                "price",
                "--features",
                "a",
                folder / "data.csv",
                "--out",
                tmp_path / "run",
            ],
        ),
    ]
    for code, message, words in cases:
        stopped, said = refused(capsys, *words)
        assert stopped == code and message in said, (words, said)
    (tmp_path / "empty.csv").write_text("")
    assert "cannot be read as a table" in refused(
        capsys, "fit", tmp_path / "empty.csv", "--target", "a", "--out", tmp_path / "run"
    )[1]  # fmt: skip
    assert not (tmp_path / "run").exists()

    def absent(*_):
        raise ImportError("no pyarrow")

    monkeypatch.setattr(pd, "read_parquet", absent)
    words = ["explain", folder / "run", folder / "new.parquet", "--out", tmp_path / "e.csv"]
    code, said = refused(capsys, *words)
    assert code == 1 and "pip install pyarrow, or save it as CSV" in said


def test_gaps_are_refused_with_their_row(folder, tmp_path, capsys):
    frame = pd.read_csv(folder / "new.csv")
    frame.loc[1, "c"] = np.nan
    frame.to_csv(tmp_path / "gaps.csv", index=False)
    words = ["explain", folder / "run", tmp_path / "gaps.csv", "--out", tmp_path / "e.csv"]
    code, said = refused(capsys, *words)
    assert code == 1 and "'c' lacks 1 value, the first in row 2: --drop-missing" in said
    assert cli.main([*map(str, words), "--drop-missing"]) == 0
    assert "Left out 1 of 3 rows" in capsys.readouterr().out
    whole = pd.read_csv(tmp_path / "e.csv")
    assert whole["row"].unique().tolist() == [1, 3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,c,price\n1,2,3,4\n5,6,7,8\n9,1,2,3\n", "more fields than the 3 names"),
        ("a,c,price\n1,2,3,4,5\n5,6,7,8,9\n9,1,2,3,4\n", "more fields than the 3 names"),
        ("a,price,price\n1,2,3\n5,6,7\n9,1,2\n", r"repeated column names ['price']"),
        ("a,c,a.1,a,price\n1,2,3,4,5\n5,6,7,8,9\n9,1,2,3,4\n", r"repeated column names ['a']"),
    ],
    ids=["one more", "two more", "target twice", "feature twice"],
)
def test_tables_whose_names_do_not_fit_are_refused(text, message, tmp_path, capsys):
    (tmp_path / "odd.csv").write_text(text)
    words = ["fit", tmp_path / "odd.csv", "--target", "price", "--out", tmp_path / "run"]
    code, said = refused(capsys, *words, "--method", "map")
    assert code == 1 and "odd.csv" in said and message in said
    assert not (tmp_path / "run").exists()


def test_commas_at_the_ends_of_rows_shift_nothing(tmp_path):
    (tmp_path / "odd.csv").write_text("a,c,price\n1,2,3,\n5,6,7,\n")
    assert read_sheet(tmp_path / "odd.csv").to_dict("list") == {
        "a": [1, 5], "c": [2, 6], "price": [3, 7],
    }  # fmt: skip


def test_spreadsheets_find_no_formulas_in_what_is_written():
    names = ["=1+1", "+a", "-a", "@a", "\ta", "\ra", "a=1"]
    frame = pd.DataFrame([names, names], columns=names).assign(
        kind=pd.Categorical(["=a", "b"]), mean=[-1.5, 2.0], row=[-1, 1]
    )
    told = tables.as_csv(frame).decode()
    for cell in next(csv.reader([told.splitlines()[0]])):
        assert not cell.startswith(tables.FORMULA)
    read = pd.read_csv(io.BytesIO(tables.as_csv(frame)))
    assert read["a=1"].tolist() == ["a=1", "a=1"] and read["kind"].tolist() == ["'=a", "b"]
    for name in names[:-1]:
        assert read[f"'{name}"].tolist() == [f"'{n}" for n in [name] * 2]
    assert read["mean"].tolist() == [-1.5, 2.0] and read["row"].tolist() == [-1, 1]


def test_a_category_has_one_line_and_its_level_is_its_value(tmp_path, capsys):
    rng = np.random.default_rng(8)
    frame = pd.DataFrame({"size": rng.normal(size=24), "kind": list("rgb") * 8})
    frame["price"] = frame["size"] + (frame["kind"] == "g") + rng.normal(0, 0.1, 24)
    frame.loc[5, "kind"] = None
    frame.to_csv(tmp_path / "d.csv", index=False)
    where = [str(tmp_path / name) for name in ("d.csv", "run", "e.csv")]
    words = ["fit", where[0], "--target", "price", "--categorical", "kind", "--method", "map"]
    cli.main([*words, "--out", where[1], "--drop-missing"])
    said = capsys.readouterr().out
    assert f"Left out 1 of 24 rows of {where[0]}, with missing values: 1 in kind." in said
    cli.main(["explain", where[1], where[0], "--out", where[2], "--drop-missing", "--quiet"])
    found = pd.read_csv(where[2])
    assert len(found) == 23 * 2 and found["feature"].tolist() == ["size", "kind"] * 23
    rows = frame.drop(index=5)
    kinds = found[found["feature"] == "kind"]
    assert kinds["value"].tolist() == rows["kind"].tolist() and not found.isna().any(axis=None)
    model, idata = bx.load(tmp_path / "run" / "fit.nc")
    new = rows.assign(kind=rows["kind"].astype("category"))
    weights = bx.weights(model, idata, new, keep="summary", progressbar=False)["weight_mean"]
    own = [float(weights[i].sel(feature=f"kind={k}")) for i, k in enumerate(rows["kind"])]
    assert_allclose(kinds["weight_mean"], own, rtol=1e-9)


def test_explained_features_are_no_formulas(tmp_path):
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"=HYPERLINK(1)": rng.normal(size=12)})
    X.assign(y=np.sin(X.iloc[:, 0])).to_csv(tmp_path / "d.csv", index=False)
    where = [str(tmp_path / name) for name in ("d.csv", "run", "e.csv")]
    fit = ["fit", where[0], "--target", "y", "--model", "gp", "--method", "map", "--out", where[1]]
    cli.main([*fit, "--quiet"])
    cli.main(["explain", where[1], where[0], "--out", where[2], "--quiet"])
    assert set(pd.read_csv(where[2])["feature"]) == {"'=HYPERLINK(1)"}


def test_a_report_scores_rows_that_have_the_target(folder, capsys, monkeypatch):
    chosen = [section for section in report.SECTIONS if section.key == "checks"]
    monkeypatch.setattr(report, "SECTIONS", chosen)
    data = pd.read_csv(folder / "data.csv")
    said = ["leave-one-out", "5 rows that were held out"]
    for name, rows in (("without", data.drop(columns="price")[:5]), ("with", data[:5])):
        rows.to_csv(folder / f"{name}.csv", index=False)
        out = folder / f"{name}.html"
        told = ["report", f"{folder}/run", f"{folder}/{name}.csv", "--out", str(out)]
        assert cli.main(told) == 0
        scored = "predictions are scored there" in capsys.readouterr().out
        assert scored == (name == "with")
        assert [words in out.read_text() for words in said] == [not scored, scored]


@pytest.mark.parametrize("command", ["fit", "explain", "report", "datasets", "demo"])
def test_help_teaches(command, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main([command, "--help"])
    said = capsys.readouterr().out
    assert stop.value.code == 0 and "Usage: bayes-gpx" in said
    assert command == "demo" or f"bayes-gpx {command}" in said.partition("Options")[0]


def test_help_is_quick():
    code = "import sys; import bayes_gpx.cli; print({'pymc', 'arviz', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_draws_that_an_interruption_left_are_whole():
    values = np.arange(24.0).reshape((3, 8))
    values[0, 5:], values[1, 6:], values[2] = np.nan, np.nan, np.nan
    both = np.stack([values, values], axis=-1)
    both[1, 5:, 0] = np.nan
    posterior = xr.Dataset({"a": (("chain", "draw"), values), "b": (("chain", "draw", "k"), both)})
    tree = xr.DataTree.from_dict({"posterior": posterior, "sample_stats": posterior[["a"]]})
    with pytest.warns(ConvergenceWarning, match="5 of 8 draws are kept, of 2 of 3 chains"):
        kept = nuts._drawn(tree, 8)
    for group in ("posterior", "sample_stats"):
        assert np.array_equal(kept[group]["a"], values[:2, :5])
    with pytest.raises(KeyboardInterrupt):
        nuts._drawn(tree.isel(chain=[2]), 8)


@pytest.mark.filterwarnings("ignore:The posterior is far from its Laplace")
def test_an_earlier_fit_stays_until_the_new_one_is_complete(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("bayes_gpx.inference.laplace.FEWEST_PROPOSED", 100)
    run, model_fit = tmp_path / "run", bx.GP.fit
    words = ["fit", folder / "data.csv", "--target", "price", "--features", "a", "--model", "gp"]
    words += ["--out", run, "--draws", 5, "--quiet"]
    cli.main([*map(str, words), "--method", "map"])
    earlier = (run / "fit.nc").read_bytes()
    code, said = refused(capsys, *words)
    assert code == 2 and "--force" in said

    def sampling(draws):
        """Have NUTS return so many draws, or be interrupted."""

        def fit(self, method, **options):
            assert (run / "fit.nc").read_bytes() == earlier
            if method == "nuts" and not draws:
                raise KeyboardInterrupt
            instead = {"nuts": "laplace"}.get(method, method)
            return model_fit(self, instead, draws=draws or 1, seed=1, progressbar=False)

        monkeypatch.setattr(bx.GP, "fit", fit)

    for draws, kept in ((0, 1), (3, 3), (0, 3)):  # by MAP, by NUTS so far, and no MAP in its place
        sampling(draws)
        code, said = refused(capsys, *words, "--force")
        assert code == 130 and [line[:11] for line in said.splitlines()] == ["Interrupted"]
        assert (run / "fit.nc").read_bytes() == earlier
        assert bx.load(run / "interrupted.nc")[1]["posterior"].sizes["draw"] == kept
    (run / "interrupted.nc").unlink()
    sampling(5)
    cli.main([*map(str, words), "--force"])
    assert bx.load(run / "fit.nc")[1]["posterior"].sizes["draw"] == 5
    assert [p.name for p in run.iterdir()] == ["fit.nc"]


def test_where_nothing_can_be_written_nothing_is_computed(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("bayes_gpx.model.storage.load", lambda *_: pytest.fail("the fit was read"))
    monkeypatch.setattr(
        "bayes_gpx.data.datasets.load", lambda *_, **__: pytest.fail("data were read")
    )
    out = ["--out", tmp_path / "nowhere" / "file"]
    for words in (
        ["explain", folder / "run", folder / "new.csv"],
        ["report", folder / "run"],
        ["datasets", "diabetes"],
    ):
        code, said = refused(capsys, *words, *out)
        assert code == 1 and "cannot be written" in said


def test_what_fails_on_the_way_leaves_the_earlier_file(folder, tmp_path, monkeypatch, capsys):
    out, whole_blocks = tmp_path / "out", tables.explained
    out.write_text("earlier")

    def stopped(*args, **kwargs):
        yield next(iter(whole_blocks(*args, **kwargs)))
        raise ValueError("stopped")

    monkeypatch.setattr(tables, "explained", stopped)
    words = ["explain", folder / "run", folder / "new.csv", "--out", out]
    assert refused(capsys, *words, "--quiet") == (1, "Error: stopped\n")
    monkeypatch.setattr(report, "SECTIONS", [])
    monkeypatch.setattr(report, "_html", lambda *_: [][0])
    with pytest.raises(IndexError):
        bx.report(*bx.load(folder / "run" / "fit.nc"), path=out)
    assert out.read_text() == "earlier" and [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_link_a_pipe_and_permissions_stay_what_they_are(folder, tmp_path):
    real, link, pipe = tmp_path / "real.csv", tmp_path / "link.csv", tmp_path / "pipe"
    real.touch(mode=0o600)
    link.symlink_to(real)
    cli.main(["datasets", "iris", "--out", str(link)])
    assert link.is_symlink() and len(real.read_text().splitlines()) == 151
    assert real.stat().st_mode & 0o777 == 0o600
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True)
    with replaced(writable(pipe)) as file:
        file.write(b"told")
    assert reader.communicate()[0] == "told" and pipe.is_fifo()


def test_an_interruption_before_anything_is_done_leaves_nothing(
    folder, tmp_path, monkeypatch, capsys
):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(bx.GPX, "fit", stopped)
    words = ["fit", folder / "data.csv", "--target", "price", "--features", "a"]
    assert refused(capsys, *words, "--out", tmp_path / "run") == (130, "Interrupted.\n")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_an_interrupted_fit_keeps_what_is_done(folder, tmp_path):
    words = ["fit", folder / "data.csv", "--target", "price", "--features", "a", "--model", "gp"]
    words += ["--draws", 1_000_000, "--tune", 100, "--chains", 2]
    for wait, at_least in ((0.2, 1), (20, 50)):
        run = tmp_path / f"run{wait}"
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen([COMMAND, *map(str, words), "--out", str(run)], **pipes)
        next(line for line in process.stdout if line.startswith("Sampling"))
        time.sleep(wait)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=300)
        assert process.returncode == 130, said
        foreseen = ("Sampling 2 chains", "Warning: Interrupted", "Warning: Do not trust")
        told = [line for line in said[1].splitlines() if not line.startswith(foreseen)]
        assert [line[:11] for line in told] == ["Interrupted"]
        _, idata = bx.load(run / "fit.nc")
        assert idata["posterior"].sizes["draw"] >= at_least
