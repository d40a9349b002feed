"""Squared distances as one operation, in Python and in machine code."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx.density import MODE, Density
from bayes_gpx.distances import squared_distances
from bayes_gpx.native import NATIVE_MODE


@pytest.mark.parametrize("mode", [MODE, NATIVE_MODE], ids=["python", "native"])
@pytest.mark.parametrize("one", [True, False])
def test_distances_and_their_pullback(rng, mode, one):
    A, B, G = rng.normal(size=(5, 3)), rng.normal(size=(4, 3)), rng.normal(size=(5, 4))
    if one:
        B, G = A, rng.normal(size=(5, 5))
    a, b = pt.dmatrix(), pt.dmatrix()
    distances = squared_distances(a) if one else squared_distances(a, b)
    slopes = pt.grad((G * distances).sum(), [a] if one else [a, b])
    function = pytensor.function([a, b], [distances, *slopes], mode=mode, on_unused_input="ignore")
    found, *slopes = function(A, B)
    apart = A[:, None] - B[None]
    assert_allclose(found, (apart**2).sum(axis=2), atol=1e-14)
    left, right = 2 * (G[..., None] * apart).sum(axis=1), -2 * (G[..., None] * apart).sum(axis=0)
    for slope, expected in zip(slopes, [left + right] if one else [left, right], strict=True):
        assert_allclose(slope, expected, atol=1e-13)
    if one:
        assert (np.diagonal(found) == 0).all()


def test_round_off_is_clipped():
    A = 1e8 + np.array([[0.0], [1.0], [1.0]])
    for points in ((A,), (A, A.copy())):
        assert (squared_distances(*points).eval(mode=MODE) >= 0).all()


@pytest.mark.parametrize("weight_prior", ["shared", "horseshoe"])
def test_machine_code_gives_the_same_density(regression, weight_prior):
    X, Z, y, _, _ = regression
    model = bx.GPX(X, y, Z, kernel="matern52 + linear", weight_prior=weight_prior)._pymc
    few, many = (Density(model, jacobian=True, many=many) for many in (False, True))
    x = few.unconstrain({}) + 0.2
    value, slope = few.value_and_slope()(x)
    found, gradient = many.value_and_slope()(x)
    assert_allclose(found, value, rtol=1e-12)
    assert_allclose(gradient, slope, rtol=1e-9, atol=1e-9)
