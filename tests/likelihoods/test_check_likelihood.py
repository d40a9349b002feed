"""The check for writers of likelihoods: what is right passes, and what is wrong is named."""

from dataclasses import dataclass, replace

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from bayes_gpx.likelihoods import KNOWN, named
from bayes_gpx.likelihoods.base import column
from bayes_gpx.likelihoods.counts import Poisson
from bayes_gpx.numerics.gaussian_expectations import standard_nodes
from bayes_gpx.testing import check_likelihood

LABELS, COUNTS, REALS = (0.0, 1.0), (0.0, 1.0, 7.0), (0.3, -2.0)
POSITIVE = (0.2, 1.0, 4.0)
RESPONSES = dict.fromkeys(("normal", "student_t", "asymmetric_laplace"), REALS)
RESPONSES |= {"bernoulli": LABELS, "beta": (0.02, 0.5, 0.9)}
RESPONSES["heteroscedastic_normal"] = REALS
RESPONSES["ordinal"] = (0.0, 1.0, 2.0, 3.0)
RESPONSES |= dict.fromkeys(("lognormal", "gamma", "weibull", "loglogistic"), POSITIVE)
THETA = {
    "student_t": {"sigma": 1.3, "nu": 9.0},
    "lognormal": {"sigma": 0.4},
    "gamma": {"shape": 3.0},
    "weibull": {"shape": 2.0},
    "loglogistic": {"shape": 4.5},
    "beta": {"precision": 30.0},
    "zero_inflated_poisson": {"inflation": 0.3},
    "zero_inflated_negative_binomial": {"inflation": 0.3, "dispersion": 2.0},
}
"""With these y has four moments, and a density that the check's grid resolves."""


SLOW = ("beta", "gamma", "lognormal", "loglogistic", "weibull", "heteroscedastic_normal")
SLOW += ("zero_inflated_negative_binomial",)
CASES = [
    pytest.param(n, k, marks=[pytest.mark.slow] if n in SLOW else [])
    for n, links in KNOWN.items()
    for k in links
]


@pytest.mark.parametrize(("name", "link"), CASES)
def test_every_likelihood_passes(name, link):
    likelihood, y = named(name, link), RESPONSES.get(name, COUNTS)
    if likelihood.labelled and likelihood.classes is not None:
        likelihood, y = replace(likelihood, classes=3), (0.0, 1.0, 2.0)
    check_likelihood(likelihood, y, THETA.get(name))


def times(method, factor, place=None):
    """A Poisson likelihood of which one method's output, or one of several, is multiplied."""

    def changed(self, *args, **kwargs):
        found = getattr(Poisson, method)(self, *args, **kwargs)
        if place is None:
            return factor * found
        parts = [factor * v if k == place else v for k, v in enumerate(found)]
        return type(found)(*parts) if hasattr(found, "_fields") else tuple(parts)

    return dataclass(frozen=True)(type("Wrong", (Poisson,), {method: changed}))()


@pytest.mark.parametrize(
    ("method", "factor", "place", "said"),
    [
        ("logp", 2.0, None, "Derivative 1 of logp"),
        ("derivatives", -1.0, 0, "Derivative 1 of logp"),
        ("derivatives", 2.0, 1, "Derivative 2 of logp"),
        ("derivatives", -1.0, 2, "Derivative 3 of logp"),
        ("fisher", 2.0, None, "expected squared slope of logp"),
        ("response", 1.01, 1, "slope of the mean response"),
        ("response", 1.01, 2, "curvature of the mean response"),
        ("draw", 2.0, None, "expected slope of logp|mean of draws"),
        ("variance", 1.1, None, "variance of draws"),
        ("expected", 1.001, 0, "expected value of the response"),
        ("expected", -1.0, 1, "expected slope of the response"),
        ("expected_log", 1.01, 0, "E logp"),
        ("expected_log", -1.0, 1, "slope of E logp"),
        ("expected_log", 0.5, 2, "-2 times"),
        ("log_predictive", 1.01, None, "predictive density"),
        ("posterior_moments", 1.001, 0, "mean of f given y"),
        ("posterior_moments", 1.001, 1, "variance of f given y"),
        ("cumulative_predictive", 0.9, None, "cumulative predictive"),
    ],
)
def test_what_is_wrong_of_a_likelihood_is_named(method, factor, place, said):
    with pytest.raises(AssertionError, match=f"{said}.* expected .*differ by"):
        check_likelihood(times(method, factor, place), COUNTS)


def test_a_likelihood_too_narrow_for_the_nodes_is_named_with_its_y_and_the_cure():
    @dataclass(frozen=True)
    class Plain(Poisson):
        def weighed_nodes(self, y, mean, variance, theta, exposure=None):
            x, weights = standard_nodes()
            f = mean[:, None] + pt.sqrt(variance)[:, None] * x
            return f, self.logp(f, y[:, None], theta, column(exposure)) + np.log(weights)

    check_likelihood(Plain(), COUNTS)
    said = r"predictive density at y = 300, f ~ N\(.*\), is .* Override `weighed_nodes`"
    with pytest.raises(AssertionError, match=said):
        check_likelihood(Plain(), (0.0, 300.0))


def test_densities_must_be_normalised_finite_and_as_concave_as_they_say():
    @dataclass(frozen=True)
    class Shifted(Poisson):
        def logp(self, f, y, theta=None, exposure=None):
            return Poisson.logp(self, f, y, theta, exposure) + 0.2

    with pytest.raises(AssertionError, match="share of a number among draws"):
        check_likelihood(Shifted(), COUNTS)

    @dataclass(frozen=True)
    class Lost(Poisson):
        def logp(self, f, y, theta=None, exposure=None):
            return pt.switch(f > 50.0, -np.inf, Poisson.logp(self, f, y, theta, exposure))

    with pytest.raises(AssertionError, match=r"not finite at f = 100"):
        check_likelihood(Lost(), COUNTS)

    @dataclass(frozen=True)
    class Other(Poisson):
        def dist(self, name, f, theta=None, exposure=None, **kwargs):
            return pm.Poisson(name, mu=pt.exp(f), **kwargs)

    with pytest.raises(AssertionError, match="log density of PyMC's variable"):
        check_likelihood(Other(), COUNTS)

    concave = type(named("student_t"))
    with pytest.raises(AssertionError, match="declared concave"):
        check_likelihood(
            type("Concave", (concave,), {"concave": True})(), (0.3,), THETA["student_t"]
        )
    with pytest.raises(AssertionError, match="theta has"):
        check_likelihood(named("normal"), REALS, {"scale": 1.0})


@pytest.mark.parametrize(
    ("method", "factor", "said"),
    [
        ("fisher", 2.0, "derivative of probabilities|negative Hessian"),
        ("contracted", -1.0, "contracted"),
        ("expected_information", 2.0, "E fisher"),
        ("log_predictive", 1.2, "predictive probability"),
    ],
)
def test_what_is_wrong_of_several_latent_values_is_named(method, factor, said):
    kind = type(named("categorical"))

    def changed(self, *args, **kwargs):
        return factor * getattr(kind, method)(self, *args, **kwargs)

    def derivatives(self, f, y, theta=None, exposure=None):
        gradient, _ = kind.derivatives(self, f, y)
        return gradient, kind.fisher(self, f)

    methods = {method: changed, "derivatives": derivatives}
    wrong = dataclass(frozen=True)(type("Wrong", (kind,), methods))(classes=3)
    with pytest.raises(AssertionError, match=said):
        check_likelihood(wrong, (0.0, 1.0, 2.0))
