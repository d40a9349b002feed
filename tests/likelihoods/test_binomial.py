"""Successes among trials: so many labels of one row."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from scipy import stats

import bayes_gpx as bx
from bayes_gpx.cli import main

QUIET = {"progressbar": False}
THETA = {"lengthscale": [0.8, 1.5], "amplitude": 1.3}
rng = np.random.default_rng(sum(map(ord, "binomial")))
X = pd.DataFrame(rng.normal(size=(12, 2)), columns=["dose", "age"])
TRIALS = rng.integers(1, 5, size=12)
Y = rng.binomial(TRIALS, 0.4)
LINKS = pytest.mark.parametrize("link", ["logit", "probit"])


def labels_of_trials():
    """A row for each trial, the successes first."""
    rows = np.repeat(np.arange(12), TRIALS)
    order = np.concatenate([np.arange(count) for count in TRIALS])
    return rows, (order < Y[rows]).astype(int)


@LINKS
@pytest.mark.parametrize("approximation", [None, bx.Inducing(X.iloc[:6])])
def test_trials_are_so_many_labels(link, approximation):
    rows, labels = labels_of_trials()
    options = {"link": link, "scale": False, "approximation": approximation}
    several = bx.GP(X, Y, likelihood="binomial", trials=TRIALS, **options)
    each = bx.GP(X.iloc[rows].reset_index(drop=True), labels, likelihood="bernoulli", **options)
    new = X.iloc[:4] + 0.3
    found, expected = (
        bx.attributions(model, THETA, new, baseline=[0.0, 0.0], seed=1, **QUIET)
        for model in (several, each)
    )
    for name in ("attribution_mean", "attribution_sd"):
        assert_allclose(found[name], expected[name], rtol=1e-6, atol=1e-9)
    at, there = (
        bx.predictions(model, THETA, new, keep="summary", **QUIET) for model in (several, each)
    )
    assert_allclose(at["f_sd"], there["f_sd"], rtol=1e-7)
    assert_allclose(at["rate_mean"], there["probability_mean"], rtol=1e-7)


def test_predictions_are_of_all_trials():
    model = bx.GP(X, Y, likelihood="binomial", trials=TRIALS)
    one = bx.predictions(model, THETA, X, seed=1, **QUIET)
    many = bx.predictions(model, THETA, X, trials=np.full(12, 9), seed=1, **QUIET)
    assert_allclose(many["rate_mean"], 9 * one["rate_mean"])
    assert_allclose(many["trials"], 9)
    assert many["y"].max() <= 9 and one["y"].max() == 1
    p = stats.logistic.cdf(one["f"].values)
    assert_allclose(one["rate"], p, rtol=1e-10)
    assert_allclose(bx.predictions(model, THETA, **QUIET)["trials"], TRIALS)


def test_a_saved_model_keeps_its_trials(tmp_path):
    model = bx.GP(X, Y, likelihood="binomial", trials=TRIALS)
    idata = model.fit("map", **QUIET)
    bx.save(model, idata, tmp_path / "fit.nc")
    again, kept = bx.load(tmp_path / "fit.nc")
    assert_allclose(again.training.exposure, TRIALS)
    fits = (again, kept), (model, idata)
    found, expected = (bx.loo_predictions(*both, **QUIET) for both in fits)
    xr.testing.assert_allclose(found["elpd"], expected["elpd"])


@pytest.mark.parametrize(
    "trials, said",
    [
        (None, r"y is 2 of 1 trials at position \d+\. Pass trials="),
        (TRIALS + 0.5, r"y is \d of \d\.5 trials at position 0\. .* a whole number"),
        (0 * TRIALS, "trials is 0 at position 0, but must be above 0"),
        (5, r"trials is 5\. Pass a value for each row of X"),
    ],
)
def test_wrong_trials_are_refused(trials, said):
    y = np.where(TRIALS > 1, 2, Y)
    with pytest.raises(ValueError, match=said):
        bx.GP(X, y, likelihood="binomial", trials=trials)


def test_only_this_likelihood_takes_trials():
    with pytest.raises(ValueError, match="trials was given, .* only with likelihood='binomial'"):
        bx.GP(X, Y, likelihood="poisson", trials=TRIALS)
    with pytest.raises(ValueError, match="exposure was given, .*='poisson'"):
        bx.GP(X, Y, likelihood="binomial", exposure=TRIALS)


def test_the_command_takes_trials(tmp_path, capsys):
    table = X.assign(cured=Y, treated=TRIALS)
    table.to_csv(tmp_path / "data.csv", index=False)
    words = ["fit", f"{tmp_path}/data.csv", "--target", "cured", "--model", "gp", "--method", "map"]
    words += ["--likelihood", "binomial", "--trials", "treated", "--out", f"{tmp_path}/run"]
    assert main([*words, "--quiet"]) == 0
    model, _ = bx.load(f"{tmp_path}/run/fit.nc")
    assert list(model.training.X.sources) == ["dose", "age"]
    assert_allclose(model.training.exposure, TRIALS)
    without = [word for word in words if word not in ("--trials", "treated")]
    with pytest.raises(SystemExit):
        main([*without, "--exclude", "treated", "--force", "--quiet"])
    assert "Pass --trials COLUMN" in capsys.readouterr().err
