"""Whatever priors are given, a model is built from them, or a sentence says which is wrong."""

import datetime

import numpy as np
import pymc as pm
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import bayes_gpx as bx
from bayes_gpx.testing import strategies
from examples import MORE

RNG = np.random.default_rng(4)
X, Y = RNG.normal(size=(12, 2)), RNG.normal(size=12)
SIZES = {"lengthscale": 2, "amplitude": None, "sigma": None, "sigma_w": None}

with pm.Model():
    MADE = pm.HalfNormal("made", 1.0)


def raises(name):
    raise LookupError("no such table")


WRONG = {
    "words": "HalfNormal",
    "nothing": None,
    "a truth value": True,
    "a complex number": 1j,
    "no number": np.nan,
    "infinity": np.inf,
    "below 0": -1.0,
    "too many": [1.0, 2.0, 3.0],
    "empty": [],
    "ragged": [[1.0], [1.0, 2.0]],
    "a matrix": np.ones((2, 2)),
    "a dict": {"sigma": 1.0},
    "a date": datetime.date(2026, 1, 1),
    "any object": object(),
    "a variable": MADE,
    "an expression": 2.0 * pm.HalfNormal.dist(1.0),
    "three values": pm.HalfNormal.dist(1.0, shape=3),
    "a vector": pm.Dirichlet.dist(np.ones(2)),
    "counts": pm.Poisson.dist(3.0),
    "any real number": pm.Normal.dist(0.0, 1.0),
    "partly below 0": pm.Uniform.dist(-1.0, 1.0),
    "without parameters": pm.Gamma,
    "a built-in type": int,
    "returns nothing": lambda name: None,
    "returns a number": lambda name: 1.0,
    "returns a distribution": lambda name: pm.HalfNormal.dist(1.0),
    "another name": lambda name: pm.HalfNormal("another", 1.0),
    "too many arguments": lambda name, other: pm.HalfNormal(name, 1.0),
    "keywords alone": lambda *, name: pm.HalfNormal(name, 1.0),
    "five values": lambda name: pm.HalfNormal(name, 1.0, shape=5),
    "an unknown dim": lambda name: pm.HalfNormal(name, 1.0, dims="nowhere"),
    "counts by name": lambda name: pm.Poisson(name, 3.0),
    "an error of its own": raises,
}

tried = settings(
    max_examples=6 * MORE,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


def mixed(wrong):
    """Priors of some hyperparameters, none or at least one of which is wrong."""
    each = {name: strategies.priors(size) for name, size in SIZES.items()}
    right = st.fixed_dictionaries({}, optional=each)
    if not wrong:
        return right
    kinds = st.dictionaries(st.sampled_from(list(SIZES)), st.sampled_from(list(WRONG)), min_size=1)
    return st.tuples(right, kinds)


@tried
@given(mixed(wrong=False))
def test_right_priors_are_taken(priors):
    model = bx.GPX(X, Y, priors=priors)
    drawn = {name for name, prior in priors.items() if not is_number(prior)}
    free = {str(variable) for variable in model.pymc.free_RVs}
    assert free == (SIZES.keys() - priors.keys()) | drawn
    for name in priors.keys() - drawn:
        expected = np.broadcast_to(priors[name], () if SIZES[name] is None else SIZES[name])
        np.testing.assert_array_equal(model.fixed[name], expected)


def is_number(prior):
    return isinstance(prior, float | list | np.ndarray)


@tried
@given(mixed(wrong=True))
def test_wrong_priors_are_told_by_name(drawn):
    priors, kinds = drawn
    with pytest.raises(ValueError, match="|".join(kinds)) as refused:
        bx.GPX(X, Y, priors=priors | {name: WRONG[kind] for name, kind in kinds.items()})
    assert "Pass" in str(refused.value) or "Wrap" in str(refused.value)


@pytest.mark.parametrize("kind", WRONG)
def test_each_is_wrong_by_itself(kind):
    with pytest.raises(ValueError, match="sigma"):
        bx.GPX(X, Y, priors={"sigma": WRONG[kind]})
