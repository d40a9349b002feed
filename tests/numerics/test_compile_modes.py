"""Rewrites of the package's compilation modes."""

from functools import partial

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from pytensor.compile.mode import Mode
from pytensor.link.basic import PerformLinker
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Sum

from bayes_gpx.numerics.compile_modes import BUFFERED_MODE, MODE, DirectLinker


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


def test_elementwise_operations_are_those_of_pytensor() -> None:
    """Also sums of several arrays, whole numbers, choices, and arrays with one element."""
    x, y, n = pt.dmatrix("x"), pt.dscalar("y"), pt.lmatrix("n")
    graphs = [x + y + x * n, x * y * n, x > n, -n, pt.exp(y), pt.switch(x > n, x, y)]
    graphs += [pt.exp(n.astype("int8"))]  # NumPy alone would take its exponential in half precision
    graphs += [pt.polygamma(2, x), pt.tri_gamma(x), pt.clip(x, y, 1.0), pt.clip(x, 1.0, y)]
    graphs += [pt.cast(x, "int64"), pt.cast(n, "float64"), pt.switch(pt.gt(x, 1.0), x, 0.0)]
    given = np.linspace(0.1, 2.0, 6).reshape((2, 3)), np.array(0.3), np.arange(6).reshape((2, 3))
    compiled = partial(pytensor.function, [x, y, n], graphs)
    plain = Mode(linker=PerformLinker(), optimizer=None)
    for mode in (MODE, BUFFERED_MODE, Mode(linker=DirectLinker(), optimizer=None)):
        results = (compiled(mode=either)(*given) for either in (mode, plain))
        for found, expected in zip(*results, strict=True):
            assert isinstance(found, np.ndarray) and found.dtype == expected.dtype
            assert_allclose(found, expected, rtol=1e-14)


def test_a_stack_of_many_arrays_is_summed() -> None:
    """PyTensor would make one operation of them, with more operands than it computes by NumPy."""
    x = pt.dvector("x")
    parts = [pt.exp(x / k) for k in range(1, 41)]
    total = pytensor.function([x], pt.stack(parts).sum(axis=0), mode=MODE)
    value = np.array([0.3, -1.2])
    expected = sum(np.exp(value / k) for k in range(1, 41))
    np.testing.assert_allclose(total(value), expected, rtol=1e-14)


def test_arrays_of_other_shapes_are_refused() -> None:
    x, y = pt.dvectors("xy")
    added = pytensor.function([x, y], x + y, mode=MODE)
    with pytest.raises(ValueError, match="Runtime broadcasting not allowed"):
        added(np.ones(3), np.ones(1))


def test_triangles_of_single_precision_are_left_to_pytensor(rng):
    A, b = pt.fmatrix("A"), pt.fvector("b")
    root = pt.linalg.cholesky(A, lower=True)
    outputs = [root, pt.linalg.solve_triangular(root, b, lower=True)]
    function = pytensor.function([A, b], outputs, mode=MODE)
    half = rng.normal(size=(4, 6))
    covariance, right = (half @ half.T).astype("float32"), rng.normal(size=4).astype("float32")
    expected = np.linalg.cholesky(covariance)
    found, solution = function(covariance, right)
    assert found.dtype == solution.dtype == "float32"
    assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert_allclose(expected @ solution, right, rtol=1e-3, atol=1e-4)
