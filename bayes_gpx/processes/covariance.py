"""Covariances of values, gradients, Hessians and attributions, for every pair of operators."""

# The process has one kernel or, if a name contains `weighed`, is the smooth part z' g(x) of a
# weight process. Components are obs-major: all of the first point's, then the second's.

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial, reduce
from itertools import product
from operator import add
from typing import Any

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor
from bayes_gpx.kernels.base import Kernel
from bayes_gpx.kernels.composite import Active, Product, Sum
from bayes_gpx.kernels.elementary import LinearKernel
from bayes_gpx.kernels.summands import summands, varying
from bayes_gpx.numerics.sparse_products import weighed_products, weighed_squares
from bayes_gpx.processes import expected_gradients, integrated_gradients, shapley
from bayes_gpx.processes.base import bilinear, by_pairs
from bayes_gpx.processes.operators import (
    AtPoints,
    Components,
    Contribution,
    Derivative,
    Difference,
    ExpectedGradient,
    FromBaseline,
    Gradient,
    Hessian,
    IntegratedGradient,
    Moved,
    OfFeatures,
    Operator,
    ShapleyValue,
    Value,
    Varying,
)
from bayes_gpx.processes.players import Linear, factors, split


def covariance(kernel: Kernel, L: Operator, M: Operator) -> Tensor:
    """Covariance of the components of L with the components of M, (m c, n c')."""
    return bilinear(partial(_of_pair, kernel), L, M)


def _of_pair(kernel: Kernel, L: AtPoints, M: AtPoints) -> Tensor:
    pair = type(L), type(M)
    if pair in PAIRS:
        return PAIRS[pair](kernel, L, M)
    if pair[::-1] in PAIRS:
        return PAIRS[pair[::-1]](kernel, M, L).T
    return _opened(kernel, L, M)


def _opened(kernel: Kernel, L: AtPoints, M: AtPoints) -> Tensor:
    """As `covariance`, with one of the two opened up as a combination of other operators."""
    # Quadratures come last: they are used only if the other one cannot be opened exactly.
    for first, second in sorted([(L, M), (M, L)], key=lambda pair: pair[0].by_quadrature):
        finer = first.opened(second)
        if finer is not None:
            found = covariance(kernel, finer, second)
            return found if first is L else found.T
    raise ValueError(f"There is no covariance of {L.name} with {M.name}, nor of combinations.")


def of_values(kernel: Kernel, L: AtPoints, M: AtPoints) -> Tensor:
    """Matrix of the kernel at the points of L and M, (m, n), whatever they ask for there."""
    return kernel.gram(L.x) if L.X is M.X else kernel.value(L.x, M.x)


def _of_derivatives(kernel: Kernel, L: Value | Derivative, M: Value | Derivative) -> Tensor:
    x, xs, orders = L.x, M.x, (L.axes, M.axes)
    jet = kernel.derivative(x[:, None], xs[None], *orders)
    m, n, d = x.shape[0], xs.shape[0], x.shape[1]
    by_rows = jet.reshape((m, n, d ** orders[0], d ** orders[1])).dimshuffle(0, 2, 1, 3)
    return by_rows.reshape((m * d ** orders[0], n * d ** orders[1]))


def _of_attributions_and_values(kernel: Kernel, L: IntegratedGradient, M: Value) -> Tensor:
    part = integrated_gradients.cross(kernel, L.x, L.start, M.x, L.nodes)
    return part.reshape((-1, M.x.shape[0]))


def _of_attributions(kernel: Kernel, L: IntegratedGradient, M: IntegratedGradient) -> Tensor:
    if L.start.ndim == 2 or M.start.ndim == 2:
        return _opened(kernel, L, M)
    if L.baseline is not M.baseline or L.nodes is not M.nodes:
        raise ValueError("Attributions asked jointly must share their baseline and method.")
    part = integrated_gradients.between(kernel, L.x, M.x, L.start, L.nodes)
    return part.reshape((-1, part.shape[2] * part.shape[3]))


def _of_shapley_and_values(kernel: Kernel, L: ShapleyValue, M: Value) -> Tensor:
    products = _products(kernel, L)
    if products is None:
        return covariance(kernel, L.opened(M), M)
    part = shapley.cross(products, L.x, pt.atleast_2d(L.start), M.x)
    return shapley.among_columns(part, L.players, 1).reshape((-1, M.x.shape[0]))


def _products(kernel: Kernel, *operators: ShapleyValue) -> list[Linear] | None:
    """The kernel as a sum of products over players; None where coalitions are gone through."""
    if any(L.among is not None for L in operators):
        return None
    return factors(kernel, operators[0].players)


def _of_shapley(kernel: Kernel, L: ShapleyValue, M: ShapleyValue) -> Tensor:
    products = _products(kernel, L, M)
    if products is None or L.players != M.players:
        return covariance(kernel, L.opened(M), M.opened(L))
    starts = [pt.atleast_2d(operator.start) for operator in (L, M)]
    points = L.x[:, None, None, None], starts[0][:, None, None], M.x[:, None], starts[1]
    part = shapley.paired(products, *points).mean(axis=(1, 3)).dimshuffle(0, 2, 1, 3)
    part = shapley.among_columns(part, L.players, 1, 3)
    return part.reshape((-1, part.shape[2] * part.shape[3]))


def _block_of_shapley(kernel: Kernel, L: ShapleyValue) -> Tensor:
    products, starts = _products(kernel, L), pt.atleast_2d(L.start)
    if L.among is not None:
        return _block_of_any(kernel, L)
    if products is None:
        return shapley.block_by_coalitions(kernel, L.x, starts, L.players)
    x = L.x[:, None, None]
    part = shapley.paired(products, x, starts[:, None], x, starts).mean(axis=(1, 2))
    return shapley.among_columns(part, L.players, 1, 2)


def _of_moved_and_values(kernel: Kernel, L: Moved, M: Value) -> Tensor:
    pairs = split(kernel, L.x.type.shape[1], L.columns)
    if pairs is None:
        return covariance(kernel, L.opened(M), M)
    # What stays is summed before it meets the places, so the kernel is never evaluated at every
    # place of every point.
    each = (L.summed(rest.value(L.x, M.x))[:, None] * own.value(L.to, M.x) for own, rest in pairs)
    return reduce(add, each).reshape((-1, M.x.shape[0]))


def _of_moved(kernel: Kernel, L: Moved, M: Moved) -> Tensor:
    pairs = split(kernel, L.x.type.shape[1], L.columns)
    if pairs is None or L.columns != M.columns:
        return covariance(kernel, L.opened(M), M.opened(L))

    def of_pair(own: Kernel, rest: Kernel) -> Tensor:
        stays = M.summed(L.summed(of_values(rest, L, M)).T).T
        return stays[:, None, :, None] * own.value(L.to, M.to)[:, None]

    part = reduce(add, (of_pair(*pair) for pair in pairs))
    return part.reshape((-1, part.shape[2] * part.shape[3]))


def _of_components_and_others(kernel: Kernel, L: Components, M: AtPoints) -> Tensor:
    parts = _of_summands(kernel, L, M)
    return parts.reshape((-1, parts.shape[2]))


def _of_components(kernel: Kernel, L: Components, M: AtPoints) -> Tensor:
    parts = _of_summands(kernel, L, Value(M.X))
    whole = parts[..., None] * pt.eye(parts.shape[1])[:, None]
    return whole.reshape((-1, whole.shape[2] * whole.shape[3]))


def _of_summands(kernel: Kernel, L: Components, M: AtPoints) -> Tensor:
    """Covariance of each summand at L's points with another operator of it, (m, c, len M)."""
    parts, value = summands(kernel, L.x.type.shape[1], L.order), Value(L.X)
    return pt.stack([covariance(part.kernel, value, M) for part in parts], axis=1)


def _of_varying_and_others(kernel: Kernel, L: AtPoints, M: AtPoints) -> Tensor:
    other = Value(M.X) if isinstance(M, Varying) else M
    return covariance(varying(kernel, L.x.type.shape[1]), Value(L.X), other)


def _block_of_varying(kernel: Kernel, L: AtPoints) -> Tensor:
    return varying(kernel, L.x.type.shape[1]).diag(L.x)[:, None, None]


def _block_of_components(kernel: Kernel, L: Components) -> Tensor:
    parts = summands(kernel, L.x.type.shape[1], L.order)
    variances = pt.stack([part.kernel.diag(L.x) for part in parts], axis=1)
    return variances[:, :, None] * pt.eye(len(parts))


POINTWISE = Value, Gradient, Hessian

PAIRS: dict[tuple[type, ...], Callable[..., Tensor]] = {
    **dict.fromkeys(product(POINTWISE, repeat=2), _of_derivatives),
    (Value, Value): of_values,
    (IntegratedGradient, Value): _of_attributions_and_values,
    (IntegratedGradient, IntegratedGradient): _of_attributions,
    **dict.fromkeys(product((Varying,), (*POINTWISE, Varying)), _of_varying_and_others),
    **dict.fromkeys(product((Components,), POINTWISE), _of_components_and_others),
    (Components, Components): _of_components,
    (ShapleyValue, Value): _of_shapley_and_values,
    (ShapleyValue, ShapleyValue): _of_shapley,
    (Moved, Value): _of_moved_and_values,
    (Moved, Moved): _of_moved,
}
"""Prior covariances of two operators, either first; other pairs are opened up until found here."""


def summed(kernel: Kernel, L: Derivative, M: Value, weights: Tensor) -> Tensor:
    """Sum over M's values of weights (m | 1, n) times their covariances with L, (m, c)."""
    # The matrix of these covariances, of a gradient or Hessian L with values M, is not formed.
    return kernel.summed(L.x, M.x, weights, (0,) * L.axes).reshape((L.x.shape[0], -1))


def summed_slopes(kernel: Kernel, L: Gradient, M: Gradient, weights: Tensor) -> Tensor:
    """Sum over M's points of weights (m | 1, n) times covariances of gradients, (m, d, d)."""
    return kernel.summed(L.x, M.x, weights, (0, 1))


def cross(kernel: Kernel, L: Derivative) -> Tensor:
    """Covariance of the components of a gradient or Hessian with f at the same point, (m, c)."""
    return kernel.derivative(L.x, L.x, L.axes, 0).reshape((L.x.shape[0], -1))


def block(kernel: Kernel, L: AtPoints) -> Tensor:
    """Covariance between the components of each point, (m, c, c)."""
    return BLOCKS.get(type(L), _block_of_any)(kernel, L)


def _block_of_any(kernel: Kernel, L: AtPoints) -> Tensor:
    whole, m = covariance(kernel, L, L), L.x.shape[0]
    own = pt.arange(m)
    return whole.reshape((m, whole.shape[0] // m, m, -1))[own, :, own]


def _block_of_derivatives(kernel: Kernel, L: Derivative) -> Tensor:
    c = L.x.shape[1] ** L.axes
    return kernel.derivative(L.x, L.x, L.axes, L.axes).reshape((-1, c, c))


def _block_of_differences(kernel: Kernel, L: Difference) -> Tensor:
    x, starts = L.x, pt.atleast_2d(L.start)
    among = kernel.derivative(starts[:, None], starts, 0, 0).mean()
    apart = kernel.diag(x) + among - 2.0 * kernel.derivative(x[:, None], starts, 0, 0).mean(1)
    return apart[:, None, None]


BLOCKS: dict[type, Callable[..., Tensor]] = {
    Value: lambda kernel, L: kernel.diag(L.x)[:, None, None],
    Gradient: _block_of_derivatives,
    Hessian: _block_of_derivatives,
    Difference: _block_of_differences,
    IntegratedGradient: lambda k, L: integrated_gradients.block(k, L.x, L.start, L.nodes),
    ExpectedGradient: lambda k, L: expected_gradients.block(k, L.x, L.start, L.nodes),
    Components: _block_of_components,
    Varying: _block_of_varying,
    ShapleyValue: _block_of_shapley,
}
"""Prior covariances within each point that need no covariances between points."""


type Weighed = Iterable[tuple[Kernel, Tensor]]
"""Kernels of the weight functions, each with the variances of the features' weights, (1 | p,)."""


def weighed_covariance(summands: Weighed, L: Any, M: Any) -> Tensor:
    """As `covariance`, of z' g(x); summands are pairs of a kernel and its weights' variances."""
    L, M = _as_values(L, M), _as_values(M, L)
    if L.tied or M.tied:
        joined, other = _joined(L, M), _joined(M, L)
        if isinstance(L, FromBaseline) and isinstance(M, FromBaseline) and L.baseline is M.baseline:
            other = replace(other, baseline=joined.baseline)
        whole = covariance(_side_by_side(summands, L, M), joined, other)
        return _fold(M, _fold(L, whole).T).T
    z_L, z_M = pt.as_tensor_variable(L.Z), pt.as_tensor_variable(M.Z)
    each = (
        by_pairs(covariance(kernel, L, M), weighed_products(z_L, variances, z_M))
        for kernel, variances in summands
    )
    return reduce(add, each)


def _as_values(L: Any, other: Any) -> Any:
    """Smooth weights and contributions as values z' g(x), each at a z of one feature alone."""
    if not isinstance(L, OfFeatures):
        return L
    # The other operator, of the smooth part, has all features.
    p, m = other.Z.type.shape[1], L.x.shape[0]
    only = pt.tile(pt.eye(p), (m, 1))
    if isinstance(L, Contribution):
        only = only * pt.repeat(pt.as_tensor_variable(L.Z), p, axis=0)
    at = pt.specify_shape(pt.repeat(L.x, p, axis=0), (None, L.x.type.shape[1]))
    return Value(at, pt.specify_shape(only, (None, p)), smooth=True)


def weighed_summed(summands: Weighed, L: Any, M: Any, weights: Tensor) -> Tensor:
    """As `summed`, of z' g(x)."""
    if L.tied:
        whole = summed(_side_by_side(summands, L), _joined(L), _joined(M, L), weights)
        return pt.dot(whole, _folding(L).T)
    z_L, z_M = pt.as_tensor_variable(L.Z), pt.as_tensor_variable(M.Z)
    each = (
        summed(kernel, L, M, weights * weighed_products(z_L, variances, z_M))
        for kernel, variances in summands
    )
    return reduce(add, each)


def weighed_summed_slopes(summands: Weighed, L: Any, M: Any, weights: Tensor) -> Tensor:
    """As `summed_slopes`, of z' g(x)."""
    if L.tied:
        joined = _joined(L, M), _joined(M, L)
        whole = summed_slopes(_side_by_side(summands, L, M), *joined, weights)
        return _folding(L) @ whole @ _folding(M).T
    z_L, z_M = pt.as_tensor_variable(L.Z), pt.as_tensor_variable(M.Z)
    each = (
        summed_slopes(kernel, L, M, weights * weighed_products(z_L, variances, z_M))
        for kernel, variances in summands
    )
    return reduce(add, each)


def weighed_cross(summands: Weighed, L: Any) -> Tensor:
    """As `cross`, of z' g(x)."""
    if L.tied:
        return pt.dot(cross(_side_by_side(summands, L), _joined(L)), _folding(L).T)
    return _at_points(summands, L, cross)


def weighed_block(summands: Weighed, L: Any) -> Tensor:
    """As `block`, of z' g(x)."""
    if L.tied:
        folding = _folding(L)
        return folding @ block(_side_by_side(summands, L), _joined(L)) @ folding.T
    return _at_points(summands, L, block)


def _at_points(summands: Weighed, L: Any, of_kernel: Callable[..., Tensor]) -> Tensor:
    """Sum over kernels of (m, ...) covariances within points, times z' diag(variances) z there."""
    z, each = pt.as_tensor_variable(L.Z), []
    for kernel, variances in summands:
        part = of_kernel(kernel, L)
        scale = weighed_squares(z, variances)
        each.append(part * pt.expand_dims(scale, list(range(1, part.ndim))))
    return reduce(add, each)


def _side_by_side(summands: Weighed, *operators: Any) -> Kernel:
    """Kernel of z' g(x) on points with the columns of x, followed by the columns of z."""
    d, p = _widths(*operators)
    products: list[Kernel] = [
        Product(
            Active(kernel, np.arange(d)),
            Active(LinearKernel(pt.zeros(p), variances * pt.ones(p)), d + np.arange(p)),
        )
        for kernel, variances in summands
    ]
    return reduce(Sum, products)


def _widths(*operators: Any) -> tuple[int, int]:
    """Return d and p, the numbers of columns of X and of Z; tied operators know them."""
    tied = next(operator for operator in operators if operator.tied)
    return tied.X.type.shape[1], tied.Z.type.shape[1]


def _joined(L: Any, other: Any = None) -> Any:
    """The operator at points that hold X and Z side by side, for the kernel of `_side_by_side`."""
    d, p = _widths(L, *([] if other is None else [other]))
    if not (L.tied or isinstance(L, Value)):
        raise ValueError(
            f"{L.name} with Z held has no covariance with an operator that takes X as Z."
        )
    joined = replace(L, X=pt.concatenate([L.X, pt.specify_shape(L.Z, (None, p))], axis=1))
    if isinstance(L, Moved):
        columns = *L.columns, *(d + c for c in L.columns)
        return replace(joined, places=pt.concatenate([L.to, L.to], axis=1), columns=columns)
    if not isinstance(L, FromBaseline):
        return joined
    if isinstance(L, ShapleyValue):  # a feature of x and of z is one player; the one stays
        players = [(*own, *(d + c for c in own)) for own in L.players]
        players[0] += tuple(range(2 * d, d + p))
        among = None if L.among is None else L.among.beside(p)
        joined = replace(joined, players=tuple(players), among=among)
    ones = pt.ones((*tuple(L.start.shape)[:-1], p - d))
    return replace(joined, baseline=pt.concatenate([L.start, L.start, ones], axis=-1))


def _folding(L: Any) -> np.ndarray:
    """Matrix (d^axes, (d + p)^axes) that adds slopes along x and along z, as z moves with x."""
    if not L.axes:
        return np.eye(1)
    d, p = _widths(L)
    return reduce(np.kron, [np.hstack([np.eye(d), np.eye(d, p)])] * L.axes)


def _fold(L: Any, whole: Tensor) -> Tensor:
    """Add slopes along x and z in the rows of a matrix, L's components at points of both."""
    folding = _folding(L)
    by_points = whole.reshape((-1, folding.shape[1], whole.shape[1]))
    return (folding @ by_points).reshape((-1, whole.shape[1]))
