"""The `repr` of a model says what it is made of."""

import re

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import bayes_gpx as bx


def tables(model):
    """The lines of a model's repr: labels -> words, and hyperparameters -> (dims, prior)."""
    title, rows, priors = repr(model).split("\n\n")
    rows = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in rows.splitlines())
    head, *lines = priors.splitlines()
    start, end = head.index("dims"), head.index("prior")
    found = {line[:start].strip(): (line[start:end].strip(), line[end:]) for line in lines}
    return title, rows, found


def test_structure_and_priors_are_those_that_were_given(regression):
    X, Z, y, *_ = regression
    priors = {"sigma": 0.1, "lengthscale": [2.0, 0.5], "sigma_w": lambda n: pm.HalfNormal(n, 0.25)}
    model = bx.GPX(X, y, Z, weight_prior="per_feature", priors=priors, representation="hierarchy")
    title, rows, found = tables(model)
    assert title.startswith("GPX: ")
    assert rows["Response"] == "pressure" and rows["Rows"] == "14"
    assert rows["Features"] == "2: age, dose" and rows["Weighed features"] == "3: a, b, c"
    assert rows["Kernel"] == "expquad" and rows["Likelihood"] == "normal"
    assert rows["Approximation"] == "none" and rows["Representation"] == "hierarchy"
    assert list(found) == list(model.hyperparameters)
    assert found["lengthscale"] == ("feature", "fixed at 2, 0.5")
    assert found["sigma"] == ("", "fixed at 0.1")
    assert found["sigma_w"] == ("", "HalfNormal(0, 0.25)")
    assert found["amplitude"][0] == "z_feature"
    assert not any(line.endswith(" ") for line in repr(model).splitlines())


def test_priors_that_were_made_outside_of_a_model_are_named_too(regression):
    X, _, y, *_ = regression
    model = bx.GP(X, y, priors={"sigma": pm.HalfNormal.dist(0.25)})
    assert tables(model)[2]["sigma"] == ("", "HalfNormal(0, 0.25)")


def test_what_is_not_there_is_not_said(regression):
    X, _, y, *_ = regression
    labels = np.where(y > y.mean(), "high", "low")
    road = bx.Inducing(4)
    model = bx.GP(X, labels, kernel="linear", likelihood="bernoulli", approximation=road)
    _, rows, _ = tables(model)
    assert not {"Weighed features", "Weights", "Lengthscales"} & rows.keys()
    assert rows["Approximation"] == repr(road) and rows["Representation"] == "collapsed"
    assert rows["Scale of hyperparameters"] == "the features standardised"
    many = pd.DataFrame(np.random.default_rng(1).normal(size=(14, 9)), columns=list("abcdefghi"))
    assert tables(bx.GP(many, y))[1]["Features"] == "9: a, b, c, d, e, f, ..."


@pytest.mark.parametrize("name", ["", "own"])
def test_names_are_those_of_the_pymc_model(regression, name):
    X, Z, y, *_ = regression
    with pm.Model():
        model = bx.GPX(X, y, Z, weight_prior="horseshoe", name=name)
    found, prefix = tables(model)[2], f"{name}_" if name else ""
    made_of = f"made of {prefix}amplitude_local, {prefix}amplitude_global"
    assert found["amplitude"] == (f"{prefix}z_feature", made_of)


def test_variables_of_a_callable_kernel_are_listed(regression):
    X, _, y, *_ = regression

    def kernel(d):
        return pm.HalfNormal("size", 2.0) ** 2 * pm.gp.cov.Matern52(d, ls=1.0)

    _, rows, found = tables(bx.GP(X, y, kernel=kernel))
    assert rows["Kernel"] == "a function" and found["size"] == ("", "HalfNormal(0, 2)")


@pytest.mark.parametrize(
    ("prior", "said"),
    [
        (pm.Gamma.dist(2, 0.5), "Gamma(2, 0.5)"),
        (pm.Gamma.dist(mu=2, sigma=1), "Gamma(4, 2)"),
        (pm.Gamma.dist([2, 4], [0.5, 8]), "Gamma([2, 4], [0.5, 8])"),
        (pm.Exponential.dist(4), "Exponential(4)"),
        (pm.LogNormal.dist([0, 1], 1), "LogNormal([0, 1], 1)"),
        (pm.Truncated.dist(pm.Gamma.dist(2, 0.5), 0.2, 4), "TruncatedGamma(2, 0.5, 0.2, 4)"),
        (pm.Truncated.dist(pm.Exponential.dist(4), 0.2), "TruncatedExponential(4, 0.2, inf)"),
    ],
)
def test_priors_have_the_numbers_that_they_were_given(prior, said):
    """Rates in place of the scales that PyMC keeps, and none of "<constant>"."""
    model = bx.GP(np.eye(9)[:, :2], np.arange(9.0), priors={"lengthscale": prior})
    assert ["lengthscale", "feature", said] in [
        line.split(maxsplit=2) for line in repr(model).split("\n")
    ]
