"""Tables as people have them: ids, dates, groups and missing values, through all commands."""

import io
import json
import os
import subprocess

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx import cli
from bayes_gpx.cli_rows import Roles
from bayes_gpx.reporting import report

DOSE = "dose (mg/kg), "


def run(*words):
    assert cli.main([str(word) for word in words]) == 0


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    """Visits of patients with an id, a date before 1678, gaps and odd names; and a fit of them."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"visit": 100 + np.arange(30)})
    frame["patient"] = np.repeat([7, 8, 9], 10)
    frame["day"] = (np.datetime64("1500-01-01") + rng.permutation(30)).astype(str)
    frame[DOSE] = rng.normal(size=30).round(3)
    frame["kind"] = rng.permutation(["a", "b", "b"] * 10)
    frame["note"] = [f"seen on day {k}" for k in range(30)]
    frame["pain"] = frame[DOSE] + 0.5 * (frame["patient"] - 8) + 10 + 0.3 * rng.normal(size=30)
    frame.loc[[2, 5], DOSE] = np.nan
    frame.loc[[5, 11], "kind"] = None
    folder = tmp_path_factory.mktemp("visits")
    frame.to_csv(folder / "visits.csv", index=False)
    roles = ["--id", "visit", "--groups", "patient", "--exclude", "note", "--categorical", "kind"]
    how = ["--impute", "indicator", "--model", "gp", "--method", "map", "--out", folder / "run"]
    run("fit", folder / "visits.csv", "--target", "pain", *roles, *how, "--quiet")
    return folder, frame


def test_a_fit_reads_what_python_reads(visits):
    folder, frame = visits
    model, idata = bx.load(folder / "run" / "fit.nc")
    assert model.training.X.sources == ("day", DOSE, "kind", f"{DOSE}_missing", "kind_missing")
    assert model.training.X.index.tolist() == frame["visit"].tolist()
    assert set(model.training.groups.labels) == {"7", "8", "9"}
    days = frame["day"].to_numpy("datetime64[D]")
    assert_allclose(model.training.X.values[:, 0], (days - days[0]).astype(int))
    dose = frame[DOSE].fillna(frame[DOSE].median())
    assert_allclose(model.training.X.values[:, 1], dose)
    X = pd.DataFrame({"day": days.astype("datetime64[us]"), DOSE: dose})
    X["kind"] = frame["kind"].fillna("b").astype("category")
    for name in (DOSE, "kind"):
        X[f"{name}_missing"] = frame[name].isna().astype(float)
    again = bx.GP(X, frame["pain"], groups=frame["patient"]).fit("map", progressbar=False)
    assert_allclose(idata["sample_stats"]["lp"], again["sample_stats"]["lp"], rtol=1e-5)
    assert Roles.of(idata).id == "visit"
    told = "Filled in 4 missing values in 3 of 30 rows of visits.csv, by medians or most frequent"
    assert idata.attrs["imputed"].startswith(told)
    first, second, third = frame["visit"].astype(str)[[2, 5, 11]]
    cells = {first: [DOSE], second: [DOSE, "kind"], third: ["kind"]}
    assert json.loads(idata.attrs["imputed_cells"]) == cells


@pytest.fixture(scope="module")
def explained(visits, tmp_path_factory):
    """New rows in another order, one with a date and a category missing; what is written."""
    folder, frame = visits
    out = tmp_path_factory.mktemp("explained")
    new = frame.iloc[[5, 3, 12, 29]].assign(day=["1500-01-20", None, "1500-01-03", "1500-01-09"])
    new.to_csv(out / "new.csv", index=False)
    with pytest.MonkeyPatch.context() as patched, io.StringIO() as said:
        patched.setattr("click.echo", lambda line, **_: print(line, file=said))
        run("explain", folder / "run", out / "new.csv", "--out", out / "explained.csv")
        told = said.getvalue()
    run("predict", folder / "run", out / "new.csv", "--out", out / "again.csv", "--quiet")
    tables = [pd.read_csv(out / f"{name}.csv") for name in ("explained", "predictions", "again")]
    return new, told, *tables


def test_files_can_be_joined_and_checked(explained):
    new, _, found, predictions, again = explained
    pd.testing.assert_frame_equal(predictions, again)
    assert list(predictions)[:5] == ["row", "id", "group", "observed", "filled_in"]
    assert predictions["row"].tolist() == [1, 2, 3, 4]
    assert predictions["id"].tolist() == new["visit"].tolist()
    assert predictions["group"].tolist() == new["patient"].tolist()
    assert predictions["observed"].tolist() == new["pain"].tolist()
    each = found.groupby("row")
    assert found["id"].tolist() == np.repeat(new["visit"], 5).tolist()
    total = each["attribution_mean"].sum() + each["baseline_mean"].first()
    assert_allclose(total, predictions["y_mean"], rtol=1e-9)
    assert_allclose(each["prediction_mean"].first(), predictions["f_mean"])
    assert (predictions["y_sd"] > predictions["f_sd"]).all()


def test_what_was_filled_in_is_said_and_marked(explained):
    new, told, found, predictions, _ = explained
    assert "Filled in 3 missing values in 2 of 4 rows of " in told
    assert f"1 in day (1500-01-15T12:00:00), 1 in {DOSE} (" in told and "1 in kind (b)" in told
    assert "Marked in " in told and "no training row lacks it: day." in told
    assert predictions["filled_in"].fillna("").tolist() == [f"{DOSE}; kind", "day", "", ""]
    marked = found[found["filled_in"]]
    assert marked["row"].tolist() == [1, 1, 2]
    assert marked["feature"].tolist() == [DOSE, "kind", "day"]
    assert found["value"].tolist()[0] == "1500-01-20" and found["value"].tolist()[2] == "b"


def test_a_report_names_rows_by_their_ids(visits, tmp_path, monkeypatch):
    folder, frame = visits
    few = [section for section in report.SECTIONS if section.key in ("card", "observations")]
    monkeypatch.setattr(report, "SECTIONS", few)
    frame.iloc[20:].fillna({"kind": "a"}).to_csv(tmp_path / "new.csv", index=False)
    for new in ([], [tmp_path / "new.csv"]):
        run("report", folder / "run", *new, "--out", tmp_path / "r.html", "--quiet")
        text = (tmp_path / "r.html").read_text()
        assert "could not be made" not in text
        ids = frame["visit"].astype(str) if not new else frame["visit"].astype(str)[20:]
        shown = [
            k for k, one in enumerate(frame["visit"]) if f"Observation {one}: prediction" in text
        ]
        assert len(shown) == 3 and set(frame["visit"].astype(str)[shown]) <= set(ids)
        for k in shown:
            assert f"Observed pain: {frame['pain'][k]:.6g}." in text
            assert f"Group: {frame['patient'][k]}." in text


def test_labels_are_predicted_by_their_names(tmp_path, capsys):
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"a": rng.normal(size=36)})
    frame["two"] = np.where(frame["a"] > 0, "yes", "no")
    frame["three"] = np.select([frame["a"] < -0.4, frame["a"] < 0.4], ["low", "mid"], "top")
    frame["count"] = rng.poisson(np.exp(frame["a"]))
    frame.to_csv(tmp_path / "d.csv", index=False)
    new = frame[:12]
    new.to_csv(tmp_path / "new.csv", index=False)
    likelihoods = {"two": "bernoulli", "three": "categorical", "count": "poisson"}
    for target, likelihood in likelihoods.items():
        how = ["--features", "a", "--likelihood", likelihood, "--model", "gp", "--method", "map"]
        run(
            "fit",
            tmp_path / "d.csv",
            "--target",
            target,
            *how,
            "--out",
            tmp_path / target,
            "--quiet",
        )
        words = [tmp_path / target, tmp_path / "new.csv", "--out", tmp_path / f"{target}.csv"]
        run("explain", *words, "--quiet")
        found, rows = (
            pd.read_csv(tmp_path / name) for name in (f"{target}.csv", f"{target}_predictions.csv")
        )
        assert rows["observed"].tolist() == new[target].tolist() and len(rows) == 12
        keys = ["row"] + (["class"] if target == "three" else [])
        each = found.groupby(keys)
        total = each["attribution_mean"].sum() + each["baseline_mean"].first()
        mean = each["prediction_mean"].first()
        assert_allclose(total, mean, atol=1e-6)
        if target == "two":
            assert "will be replaced" not in capsys.readouterr().err
            new[:1].to_csv(tmp_path / "new.csv", index=False)
            run("explain", *words)
            new.to_csv(tmp_path / "new.csv", index=False)
            assert "two_predictions.csv will be replaced; --predict" in "".join(capsys.readouterr())
            assert_allclose(mean, rows["probability_yes_mean"])
            assert (rows["predicted"] == rows["observed"]).mean() > 0.9
        elif target == "three":
            wide = rows[[f"probability_{label}_mean" for label in ("low", "mid", "top")]]
            assert_allclose(wide.sum(axis=1), 1.0, rtol=1e-9)
            assert_allclose(mean, wide.to_numpy().ravel())
            assert {"f_low_mean", "f_top_upper", "probability_mid_sd"} <= set(rows)
        else:
            assert_allclose(mean, rows["rate_mean"])
            # of draws of a new count, whose variance is that of the rate and its mean
            variance = rows["rate_sd"] ** 2 + rows["rate_mean"]
            assert_allclose(rows["y_sd"] ** 2, variance, rtol=0.35)


def test_columns_that_number_rows_are_told(tmp_path, capsys):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {"patient_id": rng.permutation(12), "record": np.arange(12), "a": rng.normal(size=12)}
    )
    frame.assign(y=np.sin(frame["a"])).to_csv(tmp_path / "d.csv", index=False)
    how = ["--target", "y", "--model", "gp", "--method", "map", "--quiet", "--force"]
    told = {
        (): ["patient_id", "record"],
        ("--exclude", "record"): ["patient_id"],
        ("--exclude", "record", "patient_id"): [],
        ("--id", "record", "--exclude", "patient_id"): [],
        ("--features", "a", "record"): [],
        ("--categorical", "patient_id"): ["record"],
    }
    for words, names in told.items():
        run("fit", tmp_path / "d.csv", *how, *words, "--out", tmp_path / "run")
        said = capsys.readouterr().err
        assert said.count("looks like a number or name") == len(names)
        for name in names:
            assert f"Warning: {name} looks like" in said and f"--exclude {name}" in said
        many = "patient_id has 12 different values in 12 rows"
        assert (many in said) == ("--categorical" in words)


def test_roles_that_clash_are_refused(visits, refused, tmp_path):
    folder, _ = visits
    fit = ["fit", folder / "visits.csv", "--target", "pain", "--out", tmp_path / "run"]
    cases = [
        (2, "visit is both the id and excluded", ["--id", "visit", "--exclude", "visit"]),
        (
            2,
            "patient is both the groups and a feature",
            ["--groups", "patient", "--features", "patient"],
        ),
        (2, "pain is both the target and the id", ["--id", "pain"]),
        (2, "no such column. Did you mean 'note'?", ["--exclude", "notes"]),
        (1, "'patient' holds 7 in rows 1 and 2: an id names one row", ["--id", "patient"]),
        (1, "no column 'visits' (did you mean 'visit'?)", ["--id", "visits"]),
        (1, "--impute median fills them in", ["--exclude", "note"]),
    ]
    for code, message, words in cases:
        stopped, said = refused(*fit, *words)
        assert stopped == code and message in said, (words, said)
    words = [
        "explain",
        folder / "run",
        folder / "visits.csv",
        "--out",
        tmp_path / "e.csv",
    ]
    assert "Pass two files" in refused(*words, "--predictions", tmp_path / "e.csv")[1]
    pd.read_csv(folder / "visits.csv").drop(columns="patient").to_csv(
        tmp_path / "n.csv", index=False
    )
    words = ["predict", folder / "run", tmp_path / "n.csv", "--out", tmp_path / "p.csv"]
    assert "no column 'patient'" in refused(*words)[1]


def test_rows_without_the_id_keep_their_numbers(visits, tmp_path, capsys):
    folder, frame = visits
    frame[:3].drop(columns=["visit", "pain"]).to_csv(tmp_path / "new.csv", index=False)
    run("predict", folder / "run", tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    assert "has no column visit" in capsys.readouterr().out
    found = pd.read_csv(tmp_path / "p.csv")
    assert list(found)[:3] == ["row", "group", "filled_in"] and found["row"].tolist() == [1, 2, 3]


def test_explanations_go_to_a_pipe_alone(visits, tmp_path):
    folder, _ = visits
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE, text=True)
    words = ["explain", folder / "run", folder / "visits.csv", "--out", tmp_path / "pipe"]
    run(*words, "--quiet")
    assert reader.communicate()[0].startswith("row,id,group,observed,feature")
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_next_rows_are_those_of_python(folder, tmp_path, capsys):
    """About other rows than the training rows; the file has every candidate."""
    pool = pd.DataFrame({"a": [5.0, 2.0, 8.0, 6.0], "c": [1.0, -1.0, 2.0, 0.0]})
    pool.to_csv(tmp_path / "pool.csv", index=False)
    how = ["--question", "attributions", "--rows", folder / "new.csv", "--baseline", "zero"]
    out = tmp_path / "next.csv"
    run("next", folder / "run", tmp_path / "pool.csv", *how, "--size", "2", "--out", out)
    told, table = capsys.readouterr().out, pd.read_csv(out)
    model, idata = bx.load(folder / "run" / "fit.nc")
    options = {"question": "attributions", "X_new": pd.read_csv(folder / "new.csv")}
    found = bx.next_rows(model, idata, pool, size=2, baseline="zero", progressbar=False, **options)
    assert_allclose(table["score"], found["score"])
    first, second = found["selected"].values + 1  # rows of a file are numbered from 1
    assert table.set_index("row")["step"].dropna().to_dict() == {first: 1, second: 2}
    assert f"1. row {first}: score" in told
    assert f"{found['sd_after'].values.mean():.3g} after them" in told


def test_next_rows_with_ids_and_groups(visits, tmp_path, capsys):
    folder, frame = visits
    frame[20:].to_csv(tmp_path / "pool.csv", index=False)
    out = tmp_path / "next.csv"
    run("next", folder / "run", tmp_path / "pool.csv", "--question", "maximum", "--out", out)
    told, table = capsys.readouterr().out, pd.read_csv(out)
    assert table["id"].tolist() == frame["visit"][20:].tolist()
    assert set(table["group"]) == {9}
    chosen = table[table["step"] == 1]
    assert chosen["score"].item() == table["score"].max()
    assert f"1. row {chosen['row'].item()} ({chosen['id'].item()}): score" in told


def test_rows_are_not_for_the_best(folder, refused):
    words = "next", folder / "run", folder / "data.csv", "--rows", folder / "new.csv"
    code, told = refused(*words, "--question", "minimum")
    assert code == 2 and "--rows is not for --question minimum" in told
