"""Factors, solutions and inverses by LAPACK's address, next to NumPy's."""

import gc

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose

from bayes_gpx.numerics import lapack
from bayes_gpx.posteriors.evidence import numba_forms  # noqa: F401  teaches numba LAPACK


@pytest.mark.parametrize("n", [1, 2, lapack.TOGETHER, lapack.TOGETHER + 1, 250, lapack.MANY])
def test_triangle_of_the_inverse(n):
    rng = np.random.default_rng(n)
    A = rng.normal(size=(n, n)) + 3 * np.sqrt(n) * np.eye(n)
    C = A @ A.T / n
    below = rng.normal(size=(n, n))
    upper = np.triu(np.linalg.cholesky(C).T) + np.tril(below, -1)
    again = upper.copy()
    lapack.invert(upper)
    assert_allclose(np.triu(upper), np.triu(np.linalg.inv(C)), rtol=1e-10, atol=1e-12)
    assert np.array_equal(np.tril(upper, -1), np.tril(below, -1))

    numba.njit(lambda upper: lapack.invert(upper))(again)
    assert_allclose(again, upper, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("n", [1, 2, 7])
def test_roots_are_triangles_whose_product_is_the_covariance(n, lower, rng):
    A = rng.normal(size=(n, n + 2))
    covariance = A @ A.T
    before = covariance.copy()
    root = lapack.root(covariance, lower=lower)
    assert np.array_equal(covariance, before)
    assert np.array_equal(root, np.tril(root) if lower else np.triu(root))
    assert_allclose(root @ root.T if lower else root.T @ root, covariance, rtol=1e-12, atol=1e-14)
    assert np.isnan(lapack.root(-covariance, lower=lower)).all()


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("shape", [(5,), (5, 1), (5, 3)])
def test_solutions_of_triangles(shape, lower, unit, order, rng):
    """The other triangle is not read, nor is the diagonal of a unit triangle."""
    whole = np.array(rng.normal(size=(5, 5)) + 3.0 * np.eye(5), order=order)
    triangle = np.tril(whole) if lower else np.triu(whole)
    if unit:
        np.fill_diagonal(triangle, 1.0)
    B = rng.normal(size=shape)
    found = lapack.solved(whole, B, lower=lower, unit=unit)
    assert found.shape == shape
    assert_allclose(triangle @ found, B, rtol=1e-10, atol=1e-12)
    singular = whole.copy()
    singular[2, 2] = 0.0
    assert np.isnan(lapack.solved(singular, B, lower=lower, unit=unit)).all() == (not unit)


def test_calls_leave_nothing_to_the_search_for_garbage(rng):
    A, B = np.eye(4), rng.normal(size=(4, 2))
    lapack.solved(A, B, lower=True, unit=False)  # finds the routines
    gc.freeze()  # what other tests left
    for _ in range(10):
        lapack.solved(A, B, lower=True, unit=False)
    assert gc.collect() == 0
