"""The log density of a zero-mean multivariate normal and its gradient, in one LAPACK pass.

The evidence of an exact Gaussian process is this density at the training response. The
pullback needs `K^-1` once (n³/3 flops beyond the Cholesky factor) where
differentiating through the factor would cost a product and two triangular solves (3 n³).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from bayes_gpx.aliases import Tensor
from bayes_gpx.numerics import lapack
from bayes_gpx.numerics.upper_blocks import UpperOp

ROWS = 512
"""Rows in a block of a low-rank density, which fits into the processor's cache."""


def _address(array: np.ndarray) -> int:
    return array.ctypes.data


class _Factored:
    """Log N(y | 0, C), C^-1 y, and a Cholesky factor of C for further calls of LAPACK.

    A matrix that is not positive definite has log density -inf. The factor may be written over one
    that is no longer needed.
    """

    def __init__(self, C: np.ndarray, y: np.ndarray, over: np.ndarray | None = None) -> None:
        n = y.shape[0]
        # C's upper triangle is Fortran's lower one; the other stays zero throughout.
        self.factor = np.zeros((n, n)) if over is None or over.shape != (n, n) else over
        self.alpha, self.logp = np.array(y), -np.inf
        self.diagonal = self.factor.ravel()[:: n + 1]
        self._order, self._info = np.array(n, np.int32), np.zeros((), np.int32)
        C, k = np.ascontiguousarray(C), _address(self._order)
        lapack.lacpy(_address(lapack.LOWER), k, k, _address(C), k, _address(self.factor), k)
        self._call(lapack.potrf)
        if self._info != 0 or not np.isfinite(self.diagonal[-1]):
            return
        half_logdet, one = np.log(self.diagonal).sum(), np.array(1, np.int32)
        i, root, alpha = map(_address, (self._info, self.factor, self.alpha))
        lapack.potrs(_address(lapack.LOWER), k, _address(one), root, k, alpha, k, i)
        self.logp = -0.5 * (y @ self.alpha) - half_logdet - 0.5 * n * np.log(2 * np.pi)

    def invert(self) -> None:
        """Replace the factor's triangle by the triangle of C^-1."""
        lapack.invert(self.factor)

    def invert_factor(self) -> None:
        """Replace the factor's triangle by its inverse, transposed."""
        self._call(lapack.trtri, _address(lapack.PLAIN))

    def add_square(self) -> None:
        """Add alpha alpha' to the factor's triangle."""
        k, one, unit = _address(self._order), np.array(1, np.int32), np.array(1.0)
        alpha, root = _address(self.alpha), _address(self.factor)
        lapack.syr(_address(lapack.LOWER), k, _address(unit), alpha, _address(one), root, k)

    def _call(self, routine: Callable, *more: int) -> None:
        k, i = _address(self._order), _address(self._info)
        routine(_address(lapack.LOWER), *more, k, _address(self.factor), k, i)


def normal_logp_and_slopes(
    C: np.ndarray, y: np.ndarray, over: np.ndarray | None
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return log N(y | 0, C) with its derivatives in C's upper triangle (n, n) and -y (n,).

    A matrix that is not positive definite has log density -inf and zero slopes. The derivatives may
    overwrite those in `over`, the last call's.
    """
    found = _Factored(C, y, over)
    if found.logp == -np.inf:
        return -np.inf, np.zeros_like(found.factor), np.zeros_like(found.alpha)
    found.invert()
    found.factor *= -1.0
    found.add_square()
    found.diagonal *= 0.5
    return found.logp, found.factor, found.alpha


class NormalEvidence(UpperOp):
    """(C, y) -> log N(y | 0, C), its derivative in C, and C^-1 y.

    C (n, n) is taken as symmetric and only its upper triangle is read: the derivative is zero below
    the diagonal, and twice as large above it as if both triangles counted. If C is not positive
    definite the log density is -inf and the gradient zero. Only the first output is differentiable.
    """

    __props__ = ()

    def make_node(self, C: Any, y: Any) -> Apply:  # noqa: D102
        C, y = pt.as_tensor_variable(C), pt.as_tensor_variable(y)
        slope = pt.tensor(dtype="float64", shape=C.type.shape)
        return Apply(self, [C, y], [pt.dscalar(), slope, pt.dvector()])

    def perform(self, node: Apply, inputs: Sequence, output_storage: Sequence[list]) -> None:  # noqa: D102
        C, y = inputs
        logp, slope, alpha = normal_logp_and_slopes(C, y, output_storage[1][0])
        output_storage[0][0] = np.asarray(logp)
        output_storage[1][0] = slope
        output_storage[2][0] = alpha

    def pullback(self, inputs: Sequence, outputs: Sequence, cotangents: Sequence) -> list:  # noqa: D102
        weight = cotangents[0]
        return [weight * outputs[1], -weight * outputs[2]]

    def infer_shape(self, node: Apply, shapes: Sequence[tuple]) -> list[tuple]:  # noqa: D102
        return [(), shapes[0], shapes[1]]


def terms_left_out(slope: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Log density of each y_i given the others, (n,), from the results of `NormalEvidence`.

    `slope` (n,) are derivatives of log N(y | 0, C) in C's diagonal, half of ``alpha_i^2 -
    (C^-1)_ii``, with alpha = C^-1 y. NaN if (C^-1)_ii is lost in round-off. Rasmussen and Williams,
    "Gaussian Processes for Machine Learning" (2006), equations 5.10 to 5.12.
    """
    precision = alpha**2 - 2.0 * slope
    precision[precision <= 0.0] = np.nan
    return 0.5 * (np.log(precision / (2.0 * np.pi)) - alpha**2 / precision)


def normal_logp(y: Tensor, C: Tensor) -> Tensor:
    """Log density of y (n,) under N(0, C), a scalar graph with an analytic pullback."""
    found: Any = NormalEvidence()(C, y)
    return found[0]


class NormalLeftOut(Op):
    """(C, y) -> log N(y | 0, C), C^-1 y, and the diagonal of C^-1.

    As `NormalEvidence`, in two thirds of its time, because it needs only this diagonal. If C is not
    positive definite the log density is -inf and the rest zero.
    """

    __props__ = ()

    def make_node(self, C: Any, y: Any) -> Apply:  # noqa: D102
        C, y = pt.as_tensor_variable(C), pt.as_tensor_variable(y)
        return Apply(self, [C, y], [pt.dscalar(), pt.dvector(), pt.dvector()])

    def perform(self, node: Apply, inputs: Sequence, output_storage: Sequence[list]) -> None:  # noqa: D102
        found = _Factored(*inputs)
        precision = np.zeros_like(found.alpha)
        if found.logp == -np.inf:
            found.alpha[:] = 0.0
        else:
            found.invert_factor()
            precision = np.einsum("ij,ij->i", found.factor, found.factor)
        for storage, value in zip(
            output_storage, (found.logp, found.alpha, precision), strict=True
        ):
            storage[0] = np.asarray(value)

    def pullback(self, inputs: Sequence, outputs: Sequence, cotangents: Sequence) -> list:  # noqa: D102
        weights = (
            pt.zeros_like(own) if isinstance(one.type, DisconnectedType) else one
            for own, one in zip(outputs, cotangents, strict=True)
        )
        slopes: Any = NormalLeftOutSlopes()(*inputs, *weights)
        return slopes

    def infer_shape(self, node: Apply, shapes: Sequence[tuple]) -> list[tuple]:  # noqa: D102
        return [(), shapes[1], shapes[1]]


class NormalLeftOutSlopes(Op):
    """Derivatives in C (n, n) and y (n,) of a weighted sum of the outputs of `NormalLeftOut`.

    (C, y, w, a, q) -> derivatives of ``w log N(y | 0, C) + a' C^-1 y + sum_i q_i (C^-1)_ii``, zero
    if C is not positive definite.
    """

    __props__ = ()

    def make_node(self, C: Any, y: Any, w: Any, a: Any, q: Any) -> Apply:  # noqa: D102
        inputs = [pt.as_tensor_variable(v) for v in (C, y, w, a, q)]
        return Apply(self, inputs, [pt.dmatrix(), pt.dvector()])

    def perform(self, node: Apply, inputs: Sequence, output_storage: Sequence[list]) -> None:  # noqa: D102
        C, y, w, a, q = inputs
        found = _Factored(C, y)
        if found.logp == -np.inf:
            in_C, in_y = np.zeros_like(found.factor), np.zeros_like(found.alpha)
        else:
            found.invert()
            inverse = found.factor + np.triu(found.factor, 1).T
            in_y = inverse @ a - w * found.alpha
            in_C = (inverse * -q) @ inverse - 0.5 * w * inverse
            outer = np.multiply.outer(0.5 * in_y, found.alpha)
            in_C -= outer
            in_C -= outer.T
            in_C -= 0.5 * w * np.multiply.outer(found.alpha, found.alpha)
        output_storage[0][0], output_storage[1][0] = in_C, in_y

    def infer_shape(self, node: Apply, shapes: Sequence[tuple]) -> list[tuple]:  # noqa: D102
        return [*shapes[:2]]


def left_out(y: Tensor, C: Tensor) -> list[Tensor]:
    """Log N(y | 0, C), alpha = C^-1 y, and the diagonal of C^-1, (n,) each.

    Given the others, y_i has the mean ``y_i - alpha_i / (C^-1)_ii`` and the variance ``1 /
    (C^-1)_ii``. The log density is -inf if C is not positive definite. See `terms_left_out` for a
    reference.
    """
    found: Any = NormalLeftOut()(C, y)
    return found


def low_rank_logp_and_slopes(
    F: np.ndarray, D: np.ndarray, y: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Return log N(y | 0, F F' + diag(D)) with its derivatives in F (n, M), D and -y (n,).

    If D is so small relative to F F' that round-off leaves no factor, the log density is -inf and
    the slopes are zero.
    """
    n, M = F.shape
    slope, in_D, alpha = np.zeros((n, M)), np.zeros(n), np.zeros(n)
    if not np.all((D > 0) & np.isfinite(D)) or not np.all(np.isfinite(F)):
        return -np.inf, slope, in_D, alpha
    constant = 0.5 * n * np.log(2 * np.pi)
    if n <= M:
        # The matrix of rows is the smaller one, and keeps its digits where D is tiny.
        part = np.ascontiguousarray(F)
        C = np.dot(part, part.T) + np.diag(D)
        try:
            precision, factor = np.linalg.inv(C), np.linalg.cholesky(C)
        except Exception:  # numba knows no narrower one
            return -np.inf, slope, in_D, alpha
        alpha = np.dot(precision, y)
        in_D = 0.5 * (alpha**2 - np.diag(precision))
        slope = alpha.reshape((-1, 1)) * np.dot(alpha, part) - np.dot(precision, part)
        logp = -0.5 * np.dot(y, alpha) - np.log(np.diag(factor)).sum() - constant
        return logp, slope, in_D, alpha
    inner, right = np.eye(M), np.zeros(M)
    for start in range(0, n, ROWS):
        rows = slice(start, start + ROWS)
        part = np.ascontiguousarray(F[rows])
        weighed = part / D[rows].reshape((-1, 1))
        inner += np.dot(weighed.T, part)
        right += np.dot(weighed.T, y[rows])
    if not np.all(np.isfinite(inner)):
        return -np.inf, slope, in_D, alpha
    try:
        factor = np.linalg.cholesky(inner)
        whiten = np.linalg.inv(factor)
    except Exception:  # numba knows no narrower one
        return -np.inf, slope, in_D, alpha
    # Products with the factor's inverse keep the digits that those with its square would lose.
    coefficients = np.dot(whiten.T, np.dot(whiten, right))
    coefficients += np.dot(whiten.T, np.dot(whiten, right - np.dot(inner, coefficients)))
    for start in range(0, n, ROWS):
        rows = slice(start, start + ROWS)
        part = np.ascontiguousarray(F[rows])
        white = np.dot(part, whiten.T)
        alpha[rows] = (y[rows] - np.dot(part, coefficients)) / D[rows]
        precision = (1.0 - (white**2).sum(axis=1) / D[rows]) / D[rows]
        in_D[rows] = 0.5 * (alpha[rows] ** 2 - precision)
        gain = np.dot(white, whiten) / D[rows].reshape((-1, 1))
        slope[rows] = alpha[rows].reshape((-1, 1)) * coefficients - gain
    half_logdet = np.log(np.diag(factor)).sum() + 0.5 * np.log(D).sum()
    # The coefficients minimize this sum, so their round-off hardly changes it; that of y' alpha may
    # be of any size where D is tiny.
    squares = np.sum(alpha**2 * D) + np.sum(coefficients**2)
    logp = -0.5 * squares - half_logdet - constant
    return logp, slope, in_D, alpha


class LowRankEvidence(Op):
    """(F, D, y) -> log N(y | 0, F F' + diag(D)), its derivatives in F and D, and alpha.

    alpha is the inverse covariance times y. Time grows with n M², memory with n M.
    """

    __props__ = ()

    def make_node(self, F: Any, D: Any, y: Any) -> Apply:  # noqa: D102
        F, D, y = (pt.as_tensor_variable(v) for v in (F, D, y))
        return Apply(self, [F, D, y], [pt.dscalar(), pt.dmatrix(), pt.dvector(), pt.dvector()])

    def perform(self, node: Apply, inputs: Sequence, output_storage: Sequence[list]) -> None:  # noqa: D102
        for storage, value in zip(output_storage, low_rank_logp_and_slopes(*inputs), strict=True):
            storage[0] = np.asarray(value)

    def pullback(self, inputs: Sequence, outputs: Sequence, cotangents: Sequence) -> list:  # noqa: D102
        weight = cotangents[0]
        return [weight * outputs[1], weight * outputs[2], -weight * outputs[3]]

    def infer_shape(self, node: Apply, shapes: Sequence[tuple]) -> list[tuple]:  # noqa: D102
        return [(), *shapes]


def low_rank_logp(y: Tensor, F: Tensor, D: Tensor) -> Tensor:
    """Log density of y (n,) under N(0, F F' + diag(D)), a scalar graph."""
    found: Any = LowRankEvidence()(F, D, y)
    return found[0]


def low_rank_left_out(y: Tensor, F: Tensor, D: Tensor) -> list[Tensor]:
    """As `left_out`, under N(0, F F' + diag(D))."""
    found: Any = LowRankEvidence()(F, D, y)
    logp, _, slope, alpha = found
    return [logp, alpha, alpha**2 - 2.0 * slope]
