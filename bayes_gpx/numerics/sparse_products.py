"""Products of rows of Z, which may be sparse: only entries other than 0 are multiplied."""

from typing import Any, cast

import pytensor.sparse as ps
import pytensor.tensor as pt
import scipy.sparse as sps
from pytensor.sparse.type import SparseTensorType

from bayes_gpx.aliases import Tensor

SPARSE = SparseTensorType("csr", "float64")
"""Type of the symbol of a sparse Z."""


def constant(values: sps.csr_array) -> Any:
    """A sparse matrix as a constant of graphs."""
    return ps.as_sparse_variable(sps.csr_matrix(values))


def is_sparse(z: Any) -> bool:
    """Whether a symbol stands for a sparse matrix."""
    return isinstance(z.type, SparseTensorType)


def products(left: Tensor, right: Tensor) -> Tensor:
    """Scalar products of all rows of both, (m, n)."""
    if is_sparse(left):
        return ps.dense_from_sparse(ps.dot(left, right.T))
    return pt.dot(left, right.T)


def weighed_products(left: Tensor, variances: Tensor, right: Tensor) -> Tensor:
    """Products left diag(variances) right', (m, n); a sparse left has one variance for all."""
    if is_sparse(left):
        return variances.sum() * products(left, right)
    return pt.dot(left * variances, right.T)


def weighed_squares(z: Tensor, variances: Tensor) -> Tensor:
    """The diagonal (m,) of `weighed_products` of rows with themselves."""
    if is_sparse(z):
        return variances.sum() * ps.sp_sum(ps.sqr(z), axis=1)
    return (z**2 * variances).sum(axis=1)


def rows_at(values: Tensor, rows: Tensor) -> Tensor:
    """Rows of a matrix or vector by their numbers; of a sparse one they are sparse."""
    return cast(Tensor, ps.get_item_list(values, rows) if is_sparse(values) else values[rows])


def columns_at(z: Tensor, columns: Tensor) -> Tensor:
    """Columns of a sparse z (n, p) by their numbers (m, q), as an array (m, q, n)."""
    found = ps.dense_from_sparse(ps.get_item_list(z.T, columns.ravel()))
    return found.reshape((*tuple(columns.shape), -1))
