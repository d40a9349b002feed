"""Elementwise likelihoods compiled, and their textbook formulas for mpmath numbers."""

from functools import cache

import mpmath as mp
import numpy as np
import pytensor
import pytensor.tensor as pt

from bayes_gpx.likelihoods import named
from bayes_gpx.numerics.compile_modes import MODE

THETA = {"sigma": 0.7, "nu": 3.3, "dispersion": 1.8}
EXPOSURE = 2.5

ELEMENTWISE = [
    ("normal", "identity", (0.3,)),
    ("student_t", "identity", (0.3, -35.0)),
    ("bernoulli", "logit", (0.0, 1.0)),
    ("bernoulli", "probit", (0.0, 1.0)),
    ("poisson", "log", (0.0, 1.0, 300.0)),
    ("negative_binomial", "log", (0.0, 1.0, 300.0)),
]

KINDS = [case[:2] for case in ELEMENTWISE]
KINDS_BY_NAME = dict(KINDS)
TAKES_EXPOSURE = ("poisson", "negative_binomial")


@cache
def function(name, link, what):
    """Compile one method of a likelihood; a function of its arrays, theta and the exposure."""
    likelihood = named(name, link)
    arrays = {
        "given": ["f", "y"],
        "alone": ["f"],
        "response": ["f"],
        "expected": ["mean", "variance"],
        "log_predictive": ["y", "mean", "variance"],
        "posterior_moments": ["y", "mean", "variance"],
        "cumulative_predictive": ["y", "mean", "variance"],
    }[what]
    arrays = [pt.dvector(array) for array in arrays]
    theta = {key: pt.dscalar(key) for key in THETA}
    exposure = pt.dvector("exposure")
    used = exposure if name in TAKES_EXPOSURE else None
    if what == "given":
        logp = likelihood.logp(*arrays, theta, used)
        derivatives = likelihood.derivatives(*arrays, theta, used)
        slopes = [
            pt.grad(total.sum(), list(theta.values()), disconnected_inputs="ignore")
            for total in (logp, derivatives[0], derivatives[1])
        ]
        outputs = [logp, *derivatives, *[slope for of_one in slopes for slope in of_one]]
    elif what == "alone":
        outputs = [likelihood.fisher(*arrays, theta, used)]
    elif what.endswith("predictive"):
        outputs = [getattr(likelihood, what)(*arrays, theta, used)]
    elif what == "posterior_moments":
        outputs = [*likelihood.posterior_moments(*arrays, theta, used)]
    else:
        outputs = list(getattr(likelihood, what)(*arrays, used))
    inputs = [*arrays, *theta.values(), exposure]
    compiled = pytensor.function(inputs, outputs, mode=MODE, on_unused_input="ignore")

    def call(*values, exposure=EXPOSURE, **theta):
        values = np.broadcast_arrays(*[np.atleast_1d(np.asarray(v, float)) for v in values])
        hyper = [np.asarray(value, float) for value in {**THETA, **theta}.values()]
        return compiled(*values, *hyper, np.full(len(values[0]), float(exposure)))

    return call


def log_density(name, link, y, f, **theta):
    """Log density of y given f from textbook formulas, for mpmath numbers."""
    sigma, nu, a = (mp.mpf(value) for value in {**THETA, **theta}.values())
    y, f = mp.mpf(y), mp.mpmathify(f)
    if name == "normal":
        return -mp.log(sigma * mp.sqrt(2 * mp.pi)) - ((y - f) / sigma) ** 2 / 2
    if name == "student_t":
        constant = mp.gamma((nu + 1) / 2) / mp.gamma(nu / 2) / mp.sqrt(nu * mp.pi) / sigma
        return mp.log(constant) - (nu + 1) / 2 * mp.log(1 + ((y - f) / sigma) ** 2 / nu)
    if name == "bernoulli":
        z = f if y else -f
        return -mp.log(1 + mp.exp(-z)) if link == "logit" else mp.log(mp.erfc(-z / mp.sqrt(2)) / 2)
    mu = EXPOSURE * mp.exp(f)
    if name == "poisson":
        return y * mp.log(mu) - mu - mp.log(mp.factorial(y))
    return _log_choose(y, a) + a * mp.log(a / (a + mu)) + y * mp.log(mu / (a + mu))


@mp.memoize
def _log_choose(y, a):
    return mp.loggamma(y + a) - mp.loggamma(a) - mp.loggamma(y + 1)


def mean_response(name, link, f):
    """Mean of y given f from textbook formulas, for mpmath numbers."""
    if name == "bernoulli":
        return 1 / (1 + mp.exp(-f)) if link == "logit" else mp.erfc(-f / mp.sqrt(2)) / 2
    return EXPOSURE * mp.exp(f) if name in TAKES_EXPOSURE else f
