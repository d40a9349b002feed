"""Attributions of the response against several rows of a baseline, which count equally."""

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
    """Of every function, also where only one row at a time fits into memory."""
    monkeypatch.setattr("bayes_gpx.draws.views.LARGEST_AVERAGE", 1)
    model = bx.GP(X, Y[likelihood], likelihood=likelihood)
    found = bx.attributions(model, THETA, X[:4], baseline=X[5:8], **OPTIONS)
    own = OPTIONS | {"joint": True}  # by functions, as with several baselines
    each = [bx.attributions(model, THETA, X[:4], baseline=X[k], **own) for k in (5, 6, 7)]
    for name in ("attribution", "difference", "attribution_mean", "difference_mean"):
        assert_allclose(found[name], sum(one[name] for one in each) / 3, atol=1e-9)
    functions = bx.sample_functions(model, THETA, draws=2, seed=1, progressbar=False)
    own = functions.attributions(X[:4], baseline=X[5:8], on="response")
    ends = [functions.predictions(rows)["f"].values for rows in (X[:4], X[5:8])]
    p = [expit(f) if likelihood == "bernoulli" else softmax(f, axis=-1) for f in ends]
    whole = p[0] - p[1].mean(axis=2, keepdims=True)
    assert_allclose(own["attribution"].sum("feature"), whole, atol=1e-7)
