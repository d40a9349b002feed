"""A likelihood of somebody else's: its class and one name, and every verb knows it."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx.cli import main
from bayes_gpx.likelihoods import KNOWN
from bayes_gpx.likelihoods.base import DefaultPrior, Response, ScalarLikelihood
from bayes_gpx.testing import check_likelihood

QUIET = {"progressbar": False}
START = {"lengthscale": 1.0, "amplitude": 1.0, "shape": 4.0}


@dataclass(frozen=True)
class Gamma(ScalarLikelihood):
    """Positive numbers of mean exp(f) and variance exp(2 f) / shape."""

    units = "log mean of {y}"
    mean_name = "mean"
    hyperparameters = {"shape": DefaultPrior(lambda name: pm.Gamma(name, alpha=2.0, beta=0.5))}

    def logp(self, f, y, theta, exposure=None):
        a = theta["shape"]
        return a * pt.log(a * y) - a * f - a * y * pt.exp(-f) - pt.gammaln(a) - pt.log(y)

    def derivatives(self, f, y, theta, exposure=None):
        pull = theta["shape"] * y * pt.exp(-f)
        return pull - theta["shape"], -pull, pull

    def fisher(self, f, theta, exposure=None):
        return theta["shape"] + 0.0 * f

    def response(self, f, exposure=None):
        return Response(pt.exp(f), pt.exp(f), pt.exp(f))

    def variance(self, f, theta, exposure=None):
        return np.exp(2.0 * f) / theta["shape"]

    def cumulative(self, f, y, theta, exposure=None):
        return pt.gammainc(theta["shape"], theta["shape"] * y * pt.exp(-f))

    def draw(self, f, theta, rng, exposure=None):
        return rng.gamma(theta["shape"], np.exp(f) / theta["shape"])

    def dist(self, name, f, theta, exposure=None, **kwargs):
        return pm.Gamma(name, alpha=theta["shape"], beta=theta["shape"] * pt.exp(-f), **kwargs)


@pytest.fixture(autouse=True)
def known(monkeypatch):
    monkeypatch.setitem(KNOWN, "gamma", {"log": Gamma()})


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(40, 1))
    return X, rng.gamma(6.0, np.exp(np.sin(X[:, 0])) / 6.0)


def test_it_says_no_wrong():
    check_likelihood(Gamma(), [0.2, 1.0, 4.0], {"shape": 6.0})


def test_it_is_fitted_and_explained(data):
    X, y = data
    model = bx.GP(X, y, likelihood="gamma")
    idata = model.fit("map", start=START, **QUIET)
    assert set(model.variables) == {"lengthscale", "amplitude", "shape"}
    found = bx.predictions(model, idata, **QUIET)
    truth = np.exp(np.sin(X[:, 0]))
    assert np.corrcoef(np.log(found["mean_mean"]), np.log(truth))[0, 1] > 0.9
    theta = {name: idata["posterior"][name].values[0, 0] for name in model.hyperparameters}
    left_out = bx.loo_predictions(model, theta, seed=1, **QUIET)
    assert 0.35 < left_out["pit"].mean() < 0.65
    assert_allclose(left_out["mean_mean"], truth, rtol=0.5)
    shares = bx.attributions(model, idata, X[:2], on="response", draws=5, **QUIET)
    assert shares.attrs["units"] == "mean of y"
    step, asked = 1e-4, {"on": "response", "draws": 5, "keep": "summary", **QUIET}
    second = bx.derivatives(model, idata, X[:2], order=2, **asked)["second_derivative_mean"]
    ends = [bx.derivatives(model, idata, X[:2] + s * step, **asked) for s in (1, -1)]
    slopes = [end["derivative_mean"].values[:, 0] for end in ends]
    assert_allclose(second[:, 0, 0], (slopes[0] - slopes[1]) / (2 * step), rtol=1e-6)
    with pytest.raises(ValueError, match=r"which Gamma does not have"):
        bx.relevance(model, idata, X[:2], **QUIET)
    sparse = bx.GP(X, y, likelihood="gamma", approximation=bx.Inducing(8))
    kept = sparse.fit("svgp", start=START, **QUIET)
    assert_allclose(
        bx.predictions(sparse, kept, **QUIET)["mean_mean"], found["mean_mean"], rtol=0.2
    )


@pytest.mark.parametrize("fixed", [{}, {"shape": 4.0}])
def test_a_y_without_a_density_is_named_with_its_row(data, fixed):
    X, y = data
    frame = pd.DataFrame(X, columns=["x"], index=[f"p{k}" for k in range(len(X))])
    y = np.where(np.isin(np.arange(len(y)), (7, 9)), [-2.5], y)
    model = bx.GP(frame, y, likelihood="gamma", priors=fixed)
    with pytest.raises(ValueError, match=r"y is -2.5 at obs p7, .*'gamma'.*, as for 1 more\. "):
        model.fit("map", start=START, **QUIET)


def test_priors_are_named_where_each_y_has_a_density(data):
    X, y = data
    improper = lambda name: pm.CustomDist(name, logp=lambda value: -np.inf * value)  # noqa: E731
    model = bx.GP(X, y, likelihood="gamma", priors={"shape": improper})
    with pytest.raises(ValueError, match="not finite at any start.*priors"):
        model.fit("map", start=START, **QUIET)


def test_the_command_line_takes_it(data, tmp_path, capsys):
    X, y = data
    rows = "\n".join(f"{a},{b}" for a, b in zip(X[:, 0], y, strict=True))
    (tmp_path / "data.csv").write_text(f"x,y\n{rows}\n")
    words = ["fit", f"{tmp_path}/data.csv", "--target", "y", "--model", "gp", "--method", "map"]
    main([*words, "--likelihood", "gamma", "--out", f"{tmp_path}/run", "--quiet"])
    model, idata = bx.load(f"{tmp_path}/run/fit.nc")
    assert model.specification.likelihood == "gamma" and "shape" in idata["posterior"]
