"""Attributions of the response against several rows of a baseline, which count equally."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, softmax

import bayes_gpx as bx

RNG = np.random.default_rng(2)
X = RNG.normal(size=(25, 2))
F = np.sin(X[:, 0]) + X[:, 1]
Y = {"bernoulli": (F > 0) * 1, "categorical": np.digitize(F, [-0.5, 0.5])}
THETA = {"lengthscale": [1.0, 1.2], "amplitude": 1.0}
OPTIONS = {"progressbar": False, "seed": 3, "draws": 20, "keep": "draws"}


@pytest.mark.parametrize("likelihood", Y)
def test_they_are_means_of_attributions_against_each(likelihood, monkeypatch):
    """Of every function; and of joint draws within a row, where these are few."""
    model = bx.GP(X, Y[likelihood], likelihood=likelihood)
    many = OPTIONS | {"draws": 400, "keep": "summary"}
    by_row = bx.attributions(model, THETA, X[:4], baseline=X[5:8], **many)
    monkeypatch.setattr("bayes_gpx.draws.row_draws.LARGEST_ROW", 10)
    monkeypatch.setattr("bayes_gpx.draws.views.LARGEST_AVERAGE", 1)  # one row at a time
    by_function = bx.attributions(model, THETA, X[:4], baseline=X[5:8], **many)
    assert "of the draws" in by_row.attrs["moments"]
    assert "of the functions" in by_function.attrs["moments"]
    assert_allclose(by_row["attribution_mean"], by_function["attribution_mean"], rtol=1e-9)
    assert_allclose(by_row["attribution_sd"], by_function["attribution_sd"], rtol=0.2)
    found = bx.attributions(model, THETA, X[:4], baseline=X[5:8], **OPTIONS)
    own = OPTIONS | {"joint": True}  # by functions, too
    each = [bx.attributions(model, THETA, X[:4], baseline=X[k], **own) for k in (5, 6, 7)]
    for name in ("attribution", "difference", "attribution_mean", "difference_mean"):
        assert_allclose(found[name], sum(one[name] for one in each) / 3, atol=1e-9)
    functions = bx.sample_functions(model, THETA, draws=2, seed=1, progressbar=False)
    own = functions.attributions(X[:4], baseline=X[5:8], on="response")
    ends = [functions.predictions(rows)["f"].values for rows in (X[:4], X[5:8])]
    p = [expit(f) if likelihood == "bernoulli" else softmax(f, axis=-1) for f in ends]
    whole = p[0] - p[1].mean(axis=2, keepdims=True)
    assert_allclose(own["attribution"].sum("feature"), whole, atol=1e-7)


def test_averages_over_many_paths_are_by_functions(monkeypatch):
    """Within Monte Carlo errors of the exact covariances, which would take gigabytes."""
    model = bx.GP(X, F)
    theta = THETA | {"sigma": 0.3}
    options = {"baseline": X[5:8], "by": np.arange(6) % 2, "progressbar": False, "seed": 1}
    exact = bx.attributions(model, theta, X[:6], **options)
    monkeypatch.setattr(sys.modules["bayes_gpx.explain.attributions"], "MOST_AVERAGED", 30)
    found = bx.attributions(model, theta, X[:6], **options)
    assert "functions" in found.attrs["moments"] and "functions" not in exact.attrs.get(
        "moments", ""
    )
    error = (found["attribution_mean"] - exact["attribution_mean"]) / exact["attribution_sd"]
    assert np.abs(error).max() < 5 / np.sqrt(1000)
    assert_allclose(found["attribution_sd"], exact["attribution_sd"], rtol=5 / np.sqrt(2000))


def test_rows_that_turn_out_to_need_many_quantities_are_asked_of_functions(monkeypatch, tmp_path):
    """Also where draws of earlier rows are written already."""
    for module in ("row_draws", "random_functions"):
        monkeypatch.setattr(f"bayes_gpx.draws.{module}.LARGEST_ROW", 60)
    model = bx.GP(X, Y["bernoulli"], likelihood="bernoulli", scale=False)
    rough = {"lengthscale": [0.1, 5.0], "amplitude": 1.0}
    options = OPTIONS | {"baseline": X[:1]}
    store = tmp_path / "store.zarr"
    found = bx.attributions(model, rough, X[[0, 1]], path=store, **options)
    again = bx.attributions(model, rough, X[[0, 1]], **options)
    assert "of the functions" in found.attrs["moments"]
    assert_allclose(found["attribution"], again["attribution"], rtol=1e-12)
    assert [*tmp_path.iterdir()] == [store]
    calm = bx.attributions(model, THETA, X[[0, 1]], **options)
    assert "of the draws" in calm.attrs["moments"]
