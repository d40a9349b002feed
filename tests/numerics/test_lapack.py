"""Inverses by blocks of columns, beside NumPy's."""

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
