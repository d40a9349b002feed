"""Explanations and reports by the command, which are what the verbs say."""

import json
import os
import re
from functools import partial

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx import cli
from bayes_gpx.export import tables
from bayes_gpx.reporting import report
from bayes_gpx.system.tasks import cores

MOMENTS = ("mean", "sd", "lower", "upper")


def test_units_are_kept_from_the_fit_to_tables(tmp_path, capsys):
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(rng.uniform(1, 2, (12, 3)), columns=["weight", "power", "mpg"])
    frame.to_csv(tmp_path / "cars.csv", index=False)
    units = ["--units", "weight=lb", "mpg=miles per gallon"]
    options = ["--target", "mpg", "--model", "gp", "--method", "map", "--out", f"{tmp_path}/run"]
    given = ["fit", f"{tmp_path}/cars.csv", *options]
    assert cli.main([*given, *units]) == 0
    for command, own in (("predict", {}), ("explain", {"weight": "lb"})):
        out = tmp_path / f"{command}.csv"
        rows = [f"{tmp_path}/run", f"{tmp_path}/cars.csv"]
        assert cli.main([command, *rows, "--out", str(out)]) == 0
        table = pd.read_csv(out)
        assert set(table["response_unit"]) == {"miles per gallon"}
        if own:
            known = table.drop_duplicates("feature").set_index("feature")["unit"].dropna()
            assert known.to_dict() == own
    for wrong, match in (("wieght=lb", "weight"), ("weight", "pass a column and its unit")):
        with pytest.raises(SystemExit):
            cli.main([*given, "--force", "--units", wrong])
        assert match in capsys.readouterr().err


def test_predictions_are_at_the_exposures_of_the_file(tmp_path, capsys):
    """The columns that the fit was given are read again, and the command says if one is missing."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"dose": rng.normal(size=20), "hours": rng.uniform(1, 20, 20)})
    frame["falls"] = rng.poisson(0.2 * frame["hours"])
    frame.to_csv(tmp_path / "falls.csv", index=False)
    options = "--target falls --exposure hours --likelihood poisson --model gp --method map".split()
    assert cli.main(["fit", f"{tmp_path}/falls.csv", *options, "--out", f"{tmp_path}/run"]) == 0
    out, tables = tmp_path / "out.csv", []
    for name in ("hours", "dose"):
        frame[["dose", name]].T.drop_duplicates().T.to_csv(tmp_path / "new.csv", index=False)
        assert (
            cli.main(["predict", f"{tmp_path}/run", f"{tmp_path}/new.csv", "--out", f"{out}"]) == 0
        )
        tables.append(pd.read_csv(out))
        told = "no column hours, so predictions are for exposure of 1" in capsys.readouterr().out
        assert told == (name == "dose")
    given, without = tables
    assert_allclose(given["rate_mean"], frame["hours"] * without["rate_mean"], rtol=1e-6)
    assert (given["y_upper"] > 1.5 * without["y_upper"]).any()


def test_rows_may_all_have_the_same_trials(tmp_path, capsys):
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"dose": rng.normal(size=20), "many": 5, "when": "2024-01-01"})
    frame["hits"] = rng.binomial(5, 0.4, 20)
    frame.to_csv(tmp_path / "hits.csv", index=False)
    options = "--target hits --features dose --likelihood binomial --model gp --method map".split()
    fit = ["fit", f"{tmp_path}/hits.csv", *options, "--out", f"{tmp_path}/run"]
    assert cli.main([*fit, "--trials", "many"]) == 0
    model, idata = bx.load(tmp_path / "run" / "fit.nc")
    assert (model.training.exposure == 5).all()
    with pytest.raises(SystemExit):
        cli.main([*fit, "--force", "--trials", "when"])
    said = "'when' holds dates, such as 2024-01-01 in row 1: expected numbers.\n"
    assert capsys.readouterr().err.endswith(said)


def test_explained_rows_are_what_the_verbs_say(folder):
    out = folder / "explained.csv"
    assert cli.main(["explain", f"{folder}/run", f"{folder}/new.csv", "--out", str(out)]) == 0
    found = pd.read_csv(out)
    columns = [f"{q}_{m}" for q in ("weight", "contribution", "attribution") for m in MOMENTS]
    ends = ["offset", "prediction_mean", "baseline_mean", "response_unit"]
    assert list(found) == ["row", "feature", "value", *columns, "weight_deviation_sd", *ends]
    assert (
        found["row"].tolist() == [1, 1, 2, 2, 3, 3] and found["feature"].tolist() == ["a", "c"] * 3
    )
    model, idata = bx.load(folder / "run" / "fit.nc")
    new = pd.read_csv(folder / "new.csv")
    asked = {"draws": 4000, "seed": 1, "progressbar": False}
    functions = partial(bx.weights, smooth=True)
    for name, verb in (
        ("weight", functions),
        ("contribution", bx.contributions),
        ("attribution", bx.attributions),
    ):
        expected = verb(model, idata, new, **asked)
        for moment in ("mean", "sd"):
            assert_allclose(found[f"{name}_{moment}"], expected[f"{name}_{moment}"].values.ravel())
        for k, end in enumerate(("lower", "upper")):
            exact = expected[f"{name}_interval"].isel(ci_bound=k).values.ravel()
            assert_allclose(found[f"{name}_{end}"], exact)
    apart = bx.weights(model, idata, new, **asked)["weight_sd"] ** 2
    apart -= functions(model, idata, new, **asked)["weight_sd"] ** 2
    assert_allclose(found["weight_deviation_sd"] ** 2, apart.values.ravel())
    predicted = bx.predictions(model, idata, new, **asked)
    assert_allclose(found["prediction_mean"], np.repeat(predicted["y_mean"].values, 2))
    rows = pd.read_csv(folder / "predictions.csv")
    moments = [f"{q}_{m}" for q in ("f", "smooth", "y") for m in MOMENTS]
    assert list(rows) == ["row", *moments, "response_unit"]
    for name in moments:
        quantity, _, moment = name.partition("_")
        if moment in ("mean", "sd"):
            assert_allclose(rows[name], predicted[name])
        else:
            assert_allclose(rows[name], predicted[f"{quantity}_interval"].sel(ci_bound=moment))


def test_differences_are_divided_by_shapley_values_where_asked(folder, tmp_path):
    out = tmp_path / "e.csv"
    words = ["explain", f"{folder}/run", f"{folder}/new.csv", "--out", str(out), "--quiet"]
    assert cli.main([*words, "--attribution", "shapley"]) == 0
    model, idata = bx.load(folder / "run" / "fit.nc")
    options = {"keep": "summary", "progressbar": False}
    expected = bx.shapley_values(model, idata, pd.read_csv(folder / "new.csv"), **options)
    found = pd.read_csv(out)["attribution_mean"]
    assert_allclose(found, expected["attribution_mean"].values.ravel())


def test_no_seed_changes_exact_numbers_and_parquet_is_read(folder, tmp_path):
    told = []
    for sheet, seed in (("new.csv", "1"), ("new.parquet", "1"), ("new.csv", "2")):
        out = tmp_path / "e.csv"
        words = ["explain", f"{folder}/run", f"{folder}/{sheet}", "--out", str(out), "--seed", seed]
        assert cli.main([*words, "--quiet"]) == 0
        told.append(out.read_text())
    assert told[0] == told[1] == told[2]


def test_the_number_of_cores_is_for_the_whole_command(folder, tmp_path, monkeypatch):
    taken = []
    monkeypatch.setattr(
        "bayes_gpx.numerics.threads.cores", lambda: taken.append(cores()) or taken[-1]
    )
    monkeypatch.setattr("bayes_gpx.numerics.threads.PARALLEL_FROM", 1)
    out = str(tmp_path / "explained.csv")
    cli.main(["explain", f"{folder}/run", f"{folder}/new.csv", "--out", out, "--cores", "3"])
    assert set(taken) == {3}
    assert cores() == os.cpu_count()


def test_rows_far_from_the_data_are_told_once(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tables, "CHUNK", 2)
    far = pd.read_csv(folder / "new.csv").assign(a=[1e3, 5.0, 1e3])
    far.to_csv(tmp_path / "far.csv", index=False)
    words = ["explain", f"{folder}/run", f"{tmp_path}/far.csv", "--out", f"{tmp_path}/e.csv"]
    cli.main([*words, "--quiet"])
    said = capsys.readouterr().err
    assert said.startswith("Warning: 2 of 3 rows leave the training data: a in 2")
    assert said.count("Warning") == 1


def test_rows_come_in_blocks_and_stay_when_interrupted(folder, tmp_path, monkeypatch, refused):
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
    assert refused(*words)[0] == 130
    pd.testing.assert_frame_equal(pd.read_csv(out), whole[:4])


def test_a_baseline_from_a_table_is_averaged_over(folder, tmp_path, refused):
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
    many = tmp_path / "many.csv"
    pd.concat([pd.read_csv(folder / "data.csv")] * 3).to_csv(many, index=False)
    code, said = refused(*words, "--baseline", many)
    assert code == 1 and "72 rows, but can have at most 50" in said


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
    options = {"smooth": True, "keep": "summary", "progressbar": False}
    weights = bx.weights(model, idata, new, **options)["weight_mean"]
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


def test_report_writes_where_it_says(folder, capsys, monkeypatch):
    monkeypatch.setattr(report, "SECTIONS", report.SECTIONS[:1])
    assert cli.main(["report", f"{folder}/run"]) == 0
    assert f"wrote {folder}/run/report.html" in capsys.readouterr().out
    text = (folder / "run" / "report.html").read_text()
    assert report.SECTIONS[0].title in text and '<a href="what_if.html">' in text
    assert "What if: price" in (folder / "run" / "what_if.html").read_text()


def test_what_if_starts_from_rows_of_a_file(folder, capsys):
    data = pd.read_csv(folder / "data.csv")
    data[:3].to_csv(folder / "three.csv", index=False)
    page = folder / "page.html"
    told = ["what-if", f"{folder}/run", f"{folder}/three.csv", "--out", str(page), "--seed", "1"]
    assert cli.main(told) == 0
    assert f"wrote {page}" in capsys.readouterr().out
    text = page.read_text(encoding="utf-8")
    shown = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])
    assert len(shown["points"]) == 3 and len(shown["draws"]) <= 20


def test_a_report_scores_rows_that_have_the_target(folder, capsys, monkeypatch):
    chosen = [section for section in report.SECTIONS if section.key == "checks"]
    monkeypatch.setattr(report, "SECTIONS", chosen)
    data = pd.read_csv(folder / "data.csv")
    said = ["leave-one-out", "5 observations that were held out"]
    for name, rows in (("without", data.drop(columns="price")[:5]), ("with", data[:5])):
        rows.to_csv(folder / f"{name}.csv", index=False)
        out = folder / f"{name}.html"
        told = ["report", f"{folder}/run", f"{folder}/{name}.csv", "--out", str(out)]
        assert cli.main(told) == 0
        scored = "predictions are scored there" in capsys.readouterr().out
        assert scored == (name == "with")
        assert [words in out.read_text() for words in said] == [not scored, scored]


@pytest.mark.parametrize(
    "words",
    [
        ["predict", "run", "new.csv", "--out", "new.csv"],
        ["explain", "run", "new.csv", "--out", "new.csv"],
        ["explain", "run", "new.csv", "--out", "told.csv", "--predictions", "new.csv"],
        ["report", "run", "new.csv", "--out", "new.csv"],
        ["report", "run", "--out", "run/fit.nc"],
        ["what-if", "run", "--out", "run/fit.nc"],
        ["next", "run", "new.csv", "--out", "new.csv"],
    ],
)
def test_no_command_writes_over_what_it_reads(words, folder, tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "fit.nc").write_bytes(b"a fit")
    before = (folder / "new.csv").read_bytes()
    (tmp_path / "new.csv").write_bytes(before)
    code, said = refused(*words)
    assert code == 2 and "which the command reads. Name another file" in said
    assert (tmp_path / "new.csv").read_bytes() == before
    assert (tmp_path / "run" / "fit.nc").read_bytes() == b"a fit"
