"""Rewrites of the package's compilation modes."""

import numpy as np
import pytensor
import pytensor.tensor as pt
from numpy.testing import assert_allclose
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Sum

from bayes_gpx.numerics.compile_modes import MODE


def test_sums_of_products_share_their_products_and_keep_their_value(rng):
    A, B, D = pt.dmatrices("A", "B", "D")
    s = pt.dscalar("s")
    sums = [(A * B * D).sum(), (s * A * B * pt.exp(D) / s**2).sum(), (A * B).sum(axis=0).sum()]
    function = pytensor.function([A, B, D, s], sums, mode=MODE)
    a, b, d = rng.normal(size=(3, 4, 5))
    expected = [np.einsum("ij,ij,ij", a, b, d), (a * b * np.exp(d)).sum() / 0.7, (a * b).sum()]
    assert_allclose(function(a, b, d, 0.7), expected, rtol=1e-12)
    nodes = function.maker.fgraph.toposort()
    products = [n for n in nodes if isinstance(n.op, Elemwise) and n.inputs[:2] == [A, B]]
    assert len(products) == 1
    assert not any(isinstance(n.op, Sum) and n.op.axis is None for n in nodes)


def test_sums_over_broadcast_factors_are_left_alone(rng):
    A, b = pt.dmatrix("A"), pt.drow("b")
    function = pytensor.function([A, b], (A * b).sum(), mode=MODE)
    values, row = rng.normal(size=(3, 4)), rng.normal(size=(1, 4))
    assert_allclose(function(values, row), (values * row).sum(), rtol=1e-12)
