"""The scripts of `models/`: what they write, and how they refuse what they cannot use."""

import runpy
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets
from numpy.testing import assert_allclose
from scipy.stats import norm

import bayes_gpx as bx
from bayes_gpx.data.datasets import IN_FOLDER
from bayes_gpx.model.model import Model

MODELS = Path(__file__).resolve().parents[2] / "models"
FIGURES = {
    "gpx_boston": {"predictions", "contributions", "weights"},
    "gpx_taipei_coefficients": {"predictions", "coefficients"},
    "gp_diabetes": {"predictions", "calibration", "lengthscales", "posterior_predictive"},
    "gpc_breast_cancer": {"calibration", "misclassified"},
    "gp_bike_poisson": {"coverage", "hours"},
    "gp_flights": {"delays", "distance", "carriers"},
    "gp_air_speed": {"airports"},
    "gp_time": {"forecast"},
    "gp_constraints": {"slopes"},
    "gp_outputs": {"speeds"},
    "gpc_grades": {"grades", "scores"},
}
TABLES = {
    "gpc_breast_cancer": {"misclassified", "scores"},
    "gp_bike_poisson": {"coverage", "hours", "scores"},
}
"""Beside the summary; the scripts that aren't here have scores alone."""
AUTHORS = {
    "gpc_grades": "Bonilla",
    "gpx": "Yoshikawa",
    "gpc": "Seitz",
    "gp_diabetes": "Yoshikawa",
    "gp_bike": "Paananen",
    "gp_flights": "Solin",
    "gp_air_speed": "Gelman",
    "gp_time": "Rasmussen",
    "gp_constraints": "Efron",
    "gp_outputs": "Journel",
}


@pytest.fixture
def run(tmp_path):
    """Call a script's main, with a folder for its results that is returned."""

    def call(name, *arguments, **settings):
        out = tmp_path / "deep" / "results"
        main = runpy.run_path(next(MODELS.rglob(f"{name}.py")))["main"]
        main.__globals__.update(settings)
        main(["--out", str(out), *arguments])
        return out

    return call


@pytest.fixture
def refused(run, monkeypatch, capsys):
    """Call a script that must stop before it fits; returns what it says."""
    monkeypatch.setattr(Model, "fit", lambda *_, **__: pytest.fail("the fit began"))

    def call(name, *arguments):
        with pytest.raises(SystemExit) as stop:
            run(name, *arguments)
        said = capsys.readouterr()
        assert stop.value.code == 2
        assert said.out == ""
        assert said.err.count("\n") == 1 and said.err.startswith(f"{name}.py: argument --")
        return said.err

    return call


def written(out, name):
    """Check a script's files; returns summary and scores."""
    figures = {f"{figure}.png" for figure in FIGURES[name]}
    tables = {f"{table}.csv" for table in TABLES.get(name, {"scores"}) | {"summary"}}
    assert {file.name for file in out.iterdir()} == figures | tables | {"fit.nc"}
    assert all((out / figure).stat().st_size > 10_000 for figure in figures)
    if "scores.csv" not in tables:
        return pd.read_csv(out / "summary.csv", index_col="hyperparameter"), None
    scores = pd.read_csv(out / "scores.csv", index_col="score")["value"]
    assert list(scores.index) == ["mse", "rmse", "r2", "coverage_90"]
    assert np.isfinite(scores).all()
    return pd.read_csv(out / "summary.csv", index_col="hyperparameter"), scores


@pytest.fixture
def few(monkeypatch):
    """A fourth of the rows of a data set, whichever a script loads."""
    whole = bx.datasets.load

    def load(*arguments, **options):
        data = whole(*arguments, **options)
        return data._replace(X=data.X[::4], y=data.y[::4])

    monkeypatch.setattr(bx.datasets, "load", load)


def test_files_agree_with_each_other(run, few, capsys):
    out = run("gp_diabetes", "--method", "map", "--seed", "3", "--data", "needs/none")
    summary, scores = written(out, "gp_diabetes")
    said = capsys.readouterr().out
    assert "23 held-out rows" in said and f"writing {out / 'fit.nc'}" in said
    model, idata = bx.load(out / "fit.nc")
    assert_allclose(summary.loc["sigma", "mode"], idata["posterior"]["sigma"].item())
    data = bx.datasets.load("diabetes")
    held_out = ~data.y.index.isin(model.training.X.index)
    predicted = bx.predictions(model, idata, data.X[held_out], seed=3, progressbar=False)
    observed = data.y[held_out].values
    assert_allclose(scores["mse"], np.mean((predicted["y_mean"] - observed) ** 2))
    assert_allclose(scores["r2"], 1 - scores["mse"] / np.var(observed))
    assert 0.8 < scores["coverage_90"] < 1


def test_the_fit_outlives_a_later_failure(run, few, monkeypatch, tmp_path):
    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr(bx, "predictions", fail)
    with pytest.raises(MemoryError):
        run("gp_diabetes", "--method", "map")
    left = tmp_path / "deep" / "results"
    assert {file.name for file in left.iterdir()} == {"fit.nc", "summary.csv"}
    bx.load(left / "fit.nc")


@pytest.mark.slow
def test_laplace_has_no_r_hat(run):
    summary, _ = written(run("gp_diabetes", "--method", "laplace", "--draws", "50"), "gp_diabetes")
    assert "r_hat" not in summary and summary.notna().all(axis=None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "largest_rmse"),
    [
        ("gp_diabetes", 70),
        pytest.param("gpx_boston", 5, marks=pytest.mark.data),
        pytest.param("gpx_taipei_coefficients", 9, marks=pytest.mark.data),
    ],
)
def test_nuts_with_few_draws(run, capsys, name, largest_rmse):
    summary, scores = written(run(name, "--draws", "20"), name)
    assert "r_hat" in summary
    assert scores["rmse"] < largest_rmse
    assert "do not trust these draws" in capsys.readouterr().out


@pytest.mark.slow
def test_flights_with_few_rows(run, monkeypatch):
    """Each model says more than the mean of all, and intervals hold what they claim."""
    data = bx.datasets.load("flights")
    some = data._replace(
        X=data.X[::15].reset_index(drop=True), y=data.y[::15].reset_index(drop=True)
    )
    monkeypatch.setattr(bx.datasets, "load", lambda *_, **__: some)
    out = run("gp_flights", "--method", "map", FEW=300, SCORED=3000, COMPARED=10)
    assert {file.stem for file in out.glob("*.png")} == FIGURES["gp_flights"]
    scores = pd.read_csv(out / "scores.csv", index_col="model")
    assert (
        scores.loc[["day and hour", "and distance"], "crps"] < scores["crps"]["mean of all"]
    ).all()
    assert scores["coverage_90"].drop("trees of 300 flights").between(0.85, 0.97).all()


@pytest.mark.slow
def test_air_speed_knows_airports_and_says_what_it_does_not(run):
    """Levels help with airports that were seen, and widen the prediction of those that were not."""
    out = run("gp_air_speed", "--method", "map", LEARNT=3, SCORED=4)
    assert {file.stem for file in out.glob("*.png")} == FIGURES["gp_air_speed"]
    scores = pd.read_csv(out / "scores.csv").pivot(index="model", columns="of")
    rmse, sd = scores["rmse"]["flights to seen airports"], scores["mean_sd"].iloc[0]
    assert rmse["a level for each airport"] < rmse["no groups"]
    assert sd["flights to new airports"] > sd["flights to seen airports"]


@pytest.mark.slow
def test_forecasts_of_bikes_are_better_than_last_season(run, monkeypatch):
    """Where the weather is known; so without statsmodels, which is no dependency."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    out = run("gp_time", ORIGINS=2, ROWS=200)
    assert {file.stem for file in out.glob("*.png")} == FIGURES["gp_time"]
    error = pd.read_csv(out / "scores.csv").pivot(index="model", columns="horizon")
    error = error["mean_absolute_error"].mean(axis=1)
    assert error["GPX, weather known"] < error["last season"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayes_gpx.ExtrapolationWarning")
def test_what_is_known_of_diabetes_helps(run):
    out = run("gp_constraints", "--method", "map", SPLITS=3)
    assert {file.stem for file in out.glob("*.png")} == FIGURES["gp_constraints"]
    scores = pd.read_csv(out / "scores.csv", index_col="model")
    assert scores["rmse"]["with constraints"] < scores["rmse"]["without"]
    assert scores["f_sd"]["with constraints"] < scores["f_sd"]["without"]
    assert scores["coverage_90"].between(0.85, 0.97).all()
    _, idata = bx.load(out / "fit_constraints.nc")
    assert (idata["constraints"]["violation"] < 0.2).all()
    labels = pd.read_csv(out / "labels.csv").groupby("model")["log_density"].mean()
    assert labels["with constraints"] > labels["without"] + 0.03


@pytest.mark.slow
def test_flights_to_one_city_tell_about_those_to_another(run):
    out = run("gp_outputs", "--method", "map")
    assert {file.stem for file in out.glob("*.png")} == FIGURES["gp_outputs"]
    scores = pd.read_csv(out / "scores.csv", index_col=["correlation", "city"])
    apart, together = scores.loc[0], scores.loc[1]
    assert together["rmse"]["Denver"] < 0.6 * apart["rmse"]["Denver"]
    assert together["rmse"]["Los Angeles"] < apart["rmse"]["Los Angeles"]
    assert together["log_density"]["Denver"] > apart["log_density"]["Denver"] + 0.5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayes_gpx.ExtrapolationWarning")
def test_the_order_of_grades_is_found_and_sharing_does_no_harm(run):
    out = run("gpc_grades", SPLITS=1, HELD_OUT=200)
    assert {file.stem for file in out.glob("*.png")} == FIGURES["gpc_grades"]
    scores = pd.read_csv(out / "scores.csv", index_col=["data", "correlation"])
    density = scores["log_predictive_density"].unstack()
    gain = density[[1, 2]].sub(density[0], axis=0)
    assert (gain.loc["diabetes"] > 0.02).all()
    assert (gain > -0.005).all(axis=None)
    model, idata = bx.load(out / "fit_1.nc")
    shared = idata["posterior"]["loading"].values.ravel()
    labels = [str(label) for label in model.training.labels]
    places = [labels.index(grade) for grade in ("mild", "moderate", "serious", "severe")]
    steps = np.diff(shared[places])
    assert (steps > 0).all() or (steps < 0).all()


def test_scores_of_normal_forecasts_of_flights():
    """The continuous ranked probability score is an integral of squared distances from a step."""
    score = runpy.run_path(MODELS / "regression" / "gp_flights.py")["score"]
    y, mean, sd = pd.Series([-12.0, 3.0, 250.0]), np.array([0.0, 4.0, 20.0]), 15.0
    t = np.linspace(-400, 700, 2_000_001)
    far = [norm.cdf(t, m, sd) - (t >= value) for m, value in zip(mean, y, strict=True)]
    crps = np.mean([np.sum(f**2) * (t[1] - t[0]) for f in far])
    found = score("one", mean, sd, y)
    assert_allclose(found["crps"], crps, rtol=1e-5)  # steps of 0.00055 at the jump
    assert_allclose(found["rmse"] ** 2, (144 + 1 + 230**2) / 3)
    assert found["coverage_90"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("name", FIGURES)
def test_arguments_that_make_no_sense(refused, name):
    assert "'0'; expected a whole number from 1" in refused(name, "--draws", "0")
    assert "'-1'; expected a whole number from 0" in refused(name, "--seed=-1")
    assert "to 4294967295" in refused(name, "--seed", str(2**64))
    assert "invalid choice: 'gibbs'" in refused(name, "--method", "gibbs")


def test_folders_that_cannot_be_written(refused, tmp_path):
    file = tmp_path / "file"
    file.touch()
    for out in (file, file / "below"):
        said = refused("gp_diabetes", "--out", str(out))
        assert f"--out: cannot write to {out}" in said


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("gpx_boston", "boston"),
        ("gpx_taipei_coefficients", "taipei"),
    ],
)
def test_data_that_cannot_be_used(refused, monkeypatch, tmp_path, name, data):
    monkeypatch.delenv("BAYES_GPX_DATA", raising=False)
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", Mock(side_effect=OSError("no network")))
    assert "No folder was named" in refused(name)
    assert "does not exist" in refused(name, "--data", str(tmp_path))
    file = tmp_path / next(iter(IN_FOLDER[data].files))
    file.parent.mkdir()
    file.write_text("a,b\n1,2\n")
    assert "SHA-256" in refused(name, "--data", str(tmp_path))


@pytest.mark.parametrize("name", FIGURES)
def test_help_teaches(run, capsys, name):
    with pytest.raises(SystemExit) as stop:
        run(name, "--help")
    assert stop.value.code == 0
    said = capsys.readouterr().out
    author = next(a for begins, a in AUTHORS.items() if name.startswith(begins))
    assert author in said and "--draws" in said
