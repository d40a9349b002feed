"""Covariances of values, gradients, Hessians and attributions.

Of a process with one kernel, or of the smooth part z' g(x) of a weight process. Components are
obs-major: all of the first point's, then the second's.
"""

from dataclasses import replace
from functools import reduce

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.kernels.composite import Active, Product, Sum
from bayes_gpx.kernels.elementary import Linear
from bayes_gpx.numerics.quadrature import few, gauss_legendre, total_of
from bayes_gpx.processes import expected_gradients, integrated_gradients

SLOPES = ("gradient", "hessian")
KINDS = ("gradient", "hessian", "integrated_gradient", "difference")
ORDER = {"evaluate": 0, "gradient": 1, "hessian": 2}
PATH_NODES = 16
"""Nodes of each path where attributions meet other slopes."""


def covariance(kernel, L, M):
    """Covariance of the components of L with those of M, (m c, n c')."""
    if L.kind == "difference":
        value = replace(L, kind="evaluate", baseline=None)
        starts = replace(value, X=_baselines(L))
        return covariance(kernel, value, M) - covariance(kernel, starts, M).mean(axis=0)
    if M.kind == "difference":
        return covariance(kernel, M, L).T
    x, xs = (pt.as_tensor_variable(operator.X) for operator in (L, M))
    if L.kind == M.kind == "evaluate":
        return kernel.gram(x) if L.X is M.X else kernel.value(x, xs)
    if L.kind == "integrated_gradient" and M.kind == "evaluate":
        part = _averaging(L).cross(kernel, x, pt.as_tensor_variable(L.baseline), xs, L.nodes)
        return part.reshape((-1, xs.shape[0]))
    if L.kind == M.kind == "integrated_gradient" and expected_gradients not in (
        _averaging(L),
        _averaging(M),
    ):
        if L.baseline is not M.baseline or L.nodes is not M.nodes:
            raise ValueError("Attributions asked jointly must share their baseline and method.")
        part = integrated_gradients.between(
            kernel, x, xs, pt.as_tensor_variable(L.baseline), L.nodes
        )
        return part.reshape((-1, part.shape[2] * part.shape[3]))
    if L.kind == "integrated_gradient":
        return _along(kernel, L, M)
    if M.kind == "integrated_gradient":
        return covariance(kernel, M, L).T
    orders = ORDER[L.kind], ORDER[M.kind]
    jet = kernel.derivative(x[:, None], xs[None], *orders)
    m, n, d = x.shape[0], xs.shape[0], x.shape[1]
    by_rows = jet.reshape((m, n, d ** orders[0], d ** orders[1])).dimshuffle(0, 2, 1, 3)
    return by_rows.reshape((m * d ** orders[0], n * d ** orders[1]))


def _along(kernel, L, M):
    """Attributions as weighted sums of gradients at nodes of their paths."""
    x, baseline = pt.as_tensor_variable(L.X), pt.as_tensor_variable(L.baseline)
    every = _averaging(L) is expected_gradients
    ends, starts = expected_gradients.every_path(x, baseline) if every else (x, baseline)
    delta, parts = ends - starts, []
    nodes = L.nodes or gauss_legendre(PATH_NODES)
    together = 1 if M.kind == "integrated_gradient" else len(nodes.t)
    for t, w in few(nodes, together, 2):
        at = (starts + t * delta).reshape((-1, x.type.shape[1]))
        slopes = covariance(kernel, replace(L, kind="gradient", X=at, baseline=None, nodes=None), M)
        parts.append((w * slopes.reshape((len(t), -1, slopes.shape[1]))).sum(axis=0))
    total = delta.reshape((-1, 1)) * total_of(parts)
    if not every:
        return total
    by_paths = total.reshape((delta.shape[0], -1))
    return expected_gradients.averaged(by_paths, x, baseline).reshape((-1, total.shape[1]))


def _averaging(L):
    """The room of L's attributions: one path to each point, or a fan of paths from baselines."""
    return (
        expected_gradients if pt.as_tensor_variable(L.baseline).ndim == 2 else integrated_gradients
    )


def _baselines(L):
    """Baselines as rows, (B, d)."""
    return pt.atleast_2d(pt.as_tensor_variable(L.baseline))


def summed(kernel, L, M, weights):
    """Sum over M's values of their covariance with L's, times weights (m | 1, n), (m, c).

    Of a gradient or Hessian L and values M, without the matrix of these covariances.
    """
    x, xs = (pt.as_tensor_variable(operator.X) for operator in (L, M))
    return kernel.summed(x, xs, weights, ORDER[L.kind]).reshape((x.shape[0], -1))


def cross(kernel, L):
    """Covariance of the components of a gradient or Hessian with f at the same point, (m, c)."""
    x = pt.as_tensor_variable(L.X)
    return kernel.derivative(x, x, ORDER[L.kind], 0).reshape((x.shape[0], -1))


def block(kernel, L):
    """Covariance between the components of each point, (m, c, c)."""
    x = pt.as_tensor_variable(L.X)
    if L.kind == "evaluate":
        return kernel.diag(x)[:, None, None]
    if L.kind == "difference":
        starts = _baselines(L)
        among = kernel.derivative(starts[:, None], starts, 0, 0).mean()
        apart = kernel.diag(x) + among - 2.0 * kernel.derivative(x[:, None], starts, 0, 0).mean(1)
        return apart[:, None, None]
    if L.kind == "integrated_gradient":
        return _averaging(L).block(kernel, x, pt.as_tensor_variable(L.baseline), L.nodes)
    order = ORDER[L.kind]
    c = x.shape[1] ** order
    return kernel.derivative(x, x, order, order).reshape((-1, c, c))


def weighed_covariance(summands, L, M):
    """As `covariance`, of z' g(x); summands are pairs of kernel and weight variances."""
    for operator in (L, M):
        if operator.kind not in ("evaluate", *KINDS):
            raise ValueError(
                f"{operator.kind} is not asked jointly with slopes; ask for each on its own."
            )
    if L.tied or M.tied:
        joined, other = _joined(L, M), _joined(M, L)
        if L.baseline is M.baseline:
            other = replace(other, baseline=joined.baseline)
        whole = covariance(_side_by_side(summands, L, M), joined, other)
        return _fold(M, _fold(L, whole).T).T
    z_L, z_M = pt.as_tensor_variable(L.Z), pt.as_tensor_variable(M.Z)
    m, n = z_L.shape[0], z_M.shape[0]
    total = 0.0
    for kernel, variances in summands:
        part, scale = covariance(kernel, L, M), pt.dot(z_L * variances, z_M.T)
        spread = part.reshape((m, part.shape[0] // m, n, part.shape[1] // n))
        total = total + (spread * scale[:, None, :, None]).reshape(part.shape)
    return total


def weighed_summed(summands, L, M, weights):
    """As `summed`, of z' g(x)."""
    if L.tied:
        whole = summed(_side_by_side(summands, L), _joined(L), _joined(M, L), weights)
        return pt.dot(whole, _folding(L).T)
    z_L, z_M = pt.as_tensor_variable(L.Z), pt.as_tensor_variable(M.Z)
    return sum(
        summed(kernel, L, M, weights * pt.dot(z_L * variances, z_M.T))
        for kernel, variances in summands
    )


def weighed_cross(summands, L):
    """As `cross`, of z' g(x)."""
    if L.tied:
        return pt.dot(cross(_side_by_side(summands, L), _joined(L)), _folding(L).T)
    z = pt.as_tensor_variable(L.Z)
    return sum(
        cross(kernel, L) * (z**2 * variances).sum(axis=1)[:, None] for kernel, variances in summands
    )


def weighed_block(summands, L):
    """As `block`, of z' g(x)."""
    if L.tied:
        folding = _folding(L)
        return pt.matmul(
            pt.matmul(folding, block(_side_by_side(summands, L), _joined(L))), folding.T
        )
    z = pt.as_tensor_variable(L.Z)
    return sum(
        block(kernel, L) * (z**2 * variances).sum(axis=1)[:, None, None]
        for kernel, variances in summands
    )


def _side_by_side(summands, *operators):
    """Kernel of z' g(x) on points that hold the columns of x and, after them, those of z."""
    d, p = _widths(*operators)
    products = [
        Product(
            Active(kernel, np.arange(d)),
            Active(Linear(pt.zeros(p), variances * pt.ones(p)), d + np.arange(p)),
        )
        for kernel, variances in summands
    ]
    return reduce(Sum, products)


def _widths(*operators):
    """Return the numbers of columns of X and of Z, which tied operators know."""
    tied = next(operator for operator in operators if operator.tied)
    return tied.X.type.shape[1], tied.Z.type.shape[1]


def _joined(L, other=None):
    """Ask the same at points of X and Z side by side."""
    d, p = _widths(L, *([] if other is None else [other]))
    if not L.tied and L.kind != "evaluate":
        raise ValueError(f"{L.kind} with Z held is not asked jointly with one whose Z is X.")
    X = pt.concatenate([L.X, pt.specify_shape(L.Z, (None, p))], axis=1)
    if L.baseline is None:
        return replace(L, X=X)
    baseline = pt.as_tensor_variable(L.baseline)
    ones = pt.ones((*tuple(baseline.shape)[:-1], p - d))
    return replace(L, X=X, baseline=pt.concatenate([baseline, baseline, ones], axis=-1))


def _folding(L):
    """Matrix from slopes along x and z to slopes along both at once."""
    if not L.tied or L.kind == "difference":
        return np.eye(1)
    d, p = _widths(L)
    once = np.hstack([np.eye(d), np.eye(d, p)])
    return np.kron(once, once) if L.kind == "hessian" else once


def _fold(L, whole):
    folding = _folding(L)
    by_points = whole.reshape((-1, folding.shape[1], whole.shape[1]))
    return pt.matmul(folding, by_points).reshape((-1, whole.shape[1]))
