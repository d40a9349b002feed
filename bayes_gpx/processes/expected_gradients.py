"""Attributions averaged over several baselines: all paths of one x, a fan that it shares.

The attribution of a path is that of the reversed path with its sign changed. Reversed, all paths
start at x, so each pair of them is integrated outward from the point where they meet. With the
ways V_b = b - x, their covariance is the double integral over s and t of
``V_bi V_cj Cov(df/dx_i(x + s V_b), df/dx_j(x + t V_c))``.

References
----------
Erion, Janizek, Sturmfels, Lundberg and Lee, "Improving performance of deep learning models with
axiomatic attribution priors and expected gradients" (2021).
"""

from functools import singledispatch

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.kernels.base import Kernel
from bayes_gpx.kernels.composite import Active, Product, Sum
from bayes_gpx.kernels.elementary import Constant, Linear
from bayes_gpx.kernels.stationary import Stationary
from bayes_gpx.numerics.quadrature import few, gauss_legendre, total_of
from bayes_gpx.processes import integrated_gradients
from bayes_gpx.processes.operators import averaged, every_path
from bayes_gpx.processes.path_moments import PANEL_NODES, of_fan

TOGETHER = 8
"""Nodes of one path that are evaluated in one array, (nodes, m, baselines, baselines, d, d)."""

# Terms (k, i, j) of `of_fan`: what averaged attributions need of a kernel, and of one that is
# multiplied by a function that is linear along each path.
FAN_TERMS = ((1, 0, 0), (2, 2, 0), (2, 1, 1))
WEIGHED_FAN_TERMS = (
    *((1, i, j) for i, j in ((0, 0), (1, 0), (0, 1), (1, 1), (2, 0))),
    *((2, 2 + i, j) for i in (0, 1) for j in (0, 1)),
    *((2, 1 + i, 1 + j) for i in (0, 1) for j in (0, 1)),
    (0, 0, 0),
)


def cross(kernel, x, baselines, xs, nodes=None):
    """Covariance of averages of attributions at x with values at xs, (m, d, n).

    Parameters
    ----------
    kernel : Kernel
    x : tensor (m, d)
    baselines : tensor (B, d)
    xs : tensor (n, d)
    nodes : Rule, optional
        A quadrature; the most exact form known otherwise.
    """
    parts = integrated_gradients.cross(kernel, *every_path(x, baselines), xs, nodes)
    return averaged(parts, x, baselines)


def block(kernel, x, baselines, nodes=None):
    """Prior covariance between the averages of attributions of each x, (m, d, d); as `cross`."""
    total = _of_pairs(kernel, x, baselines - x[:, None], nodes)
    return total / pt.sqr(baselines.shape[0])


@singledispatch
def _of_pairs(kernel: Kernel, x, V, nodes):
    """Sum over all pairs of paths, (m, d, d), for ways V (m, B, d)."""
    rule, total = nodes or gauss_legendre(PANEL_NODES, 2), []
    ways = V[:, :, None, :, None] * V[:, None, :, None, :]
    for t, w in zip(*rule, strict=True):
        for others, weights in few(rule, TOGETHER, 4):
            s, others, weights = (
                (1 - t, 1 - others, w * weights) if nodes else (t, t * others, w * t * weights)
            )
            here, there = (
                x[:, None, None] + s * V[:, :, None],
                x[:, None, None] + others * V[:, None],
            )
            mixed = kernel.derivative(here, there, 1, 1)
            total.append((weights[..., None] * mixed * ways).sum(axis=(0, 2, 3)))
    total = total_of(total)
    return total if nodes else total + total.dimshuffle(0, 2, 1)


@_of_pairs.register
def _(kernel: Sum, x, V, nodes):
    return _of_pairs(kernel.left, x, V, nodes) + _of_pairs(kernel.right, x, V, nodes)


@_of_pairs.register
def _(kernel: Constant, x, V, nodes):
    return pt.zeros((x.shape[0], x.shape[1], x.shape[1]))


@_of_pairs.register
def _(kernel: Active, x, V, nodes):
    own = kernel.columns
    part = _of_pairs(kernel.kernel, x[:, own], _columns(V, own), nodes)
    return pt.zeros((x.shape[0], x.shape[1], x.shape[1]))[:, own[:, None], own].set(part)


@_of_pairs.register
def _(kernel: Product, x, V, nodes):
    for factor, other in ((kernel.left, kernel.right), (kernel.right, kernel.left)):
        if isinstance(factor, Constant):
            return factor.variance * _of_pairs(other, x, V, nodes)
        if isinstance(factor, Active) and isinstance(factor.kernel, Linear):
            atoms = integrated_gradients.atoms_of(other, np.arange(x.type.shape[1]))
            if atoms is not None:
                return _weighed(atoms, factor, x, V, nodes)
    return _of_pairs.dispatch(Kernel)(kernel, x, V, nodes)


@_of_pairs.register
def _(kernel: Stationary, x, V, nodes):
    kernel._require((0,))
    if kernel.period is not None:
        return _of_pairs.dispatch(Kernel)(kernel, x, V, nodes)
    D = V / kernel.lengthscale
    return _stationary(D, *of_fan(kernel.profile, D, FAN_TERMS, nodes))


def _stationary(D, straight, ends, both):
    """Contract the moments of pairs (m, B, B), all symmetric but `ends`, with the paths' ways."""
    squares, products = pt.sqr(D), _outer(D, D)
    own = (D * pt.matmul(straight, D)).sum(axis=1)
    bent = _contracted(squares, D * pt.matmul(ends, D))
    across = _contracted(squares, pt.matmul(both, squares))
    across = across + (products * _through(both, products)).sum(axis=1)
    return own[:, :, None] * pt.eye(D.shape[2]) - bent - bent.dimshuffle(0, 2, 1) + across


def _weighed(atoms, linear, x, V, nodes):
    """Stationary kernels times a linear one, which is bilinear in s and t."""
    own, weights, d = linear.columns, linear.kernel.weights, x.type.shape[1]
    y, U = x[:, own] - linear.kernel.center, _columns(V, own)
    here, there = weights * y, weights * U
    level, slope = (here * y).sum(axis=1)[:, None, None], (U * here[:, None]).sum(axis=2)
    bilinear = pt.matmul(U, there.dimshuffle(0, 2, 1))
    total = pt.zeros((x.shape[0], d, d))
    for variance, kernel, columns in atoms:
        kernel._require((0,))
        D = _columns(V, columns) / kernel.lengthscale
        M = dict(
            zip(WEIGHED_FAN_TERMS, of_fan(kernel.profile, D, WEIGHED_FAN_TERMS, nodes), strict=True)
        )
        within = _stationary(
            D,
            *(
                level * M[k, i, j]
                + slope[:, :, None] * M[k, i + 1, j]
                + slope[:, None] * M[k, i, j + 1]
                + bilinear * M[k, i + 1, j + 1]
                for k, i, j in FAN_TERMS
            ),
        )
        moved = pt.matmul(M[1, 1, 0], here[:, None] * U)
        across = (
            _contracted(D * pt.matmul(M[1, 1, 0], D), here[:, None] * U)
            + (_outer(D, U) * _through(M[1, 1, 1], _outer(D, there))).sum(axis=1)
            - _contracted(pt.sqr(D), moved + U * pt.matmul(M[1, 2, 0], there))
        )
        flat = (there * pt.matmul(M[0, 0, 0], U)).sum(axis=1)
        for part, rows, others in (
            (within, columns, columns),
            (across, columns, own),
            (across.dimshuffle(0, 2, 1), own, columns),
            (flat[:, :, None] * pt.eye(len(own)), own, own),
        ):
            total = total[:, rows[:, None], others].inc(variance * part)
    return total


def _columns(V, own):
    """Some features of the ways, in a known number."""
    return pt.specify_shape(V[:, :, own], (None, None, len(own)))


def _outer(left, right):
    """Products of features of each path, (m, B, c, c')."""
    return left[..., :, None] * right[..., None, :]


def _through(moments, products):
    """Sum over the second path of each pair."""
    flat = products.reshape((products.shape[0], products.shape[1], -1))
    return pt.matmul(moments, flat).reshape(products.shape)


def _contracted(left, right):
    return pt.matmul(left.dimshuffle(0, 2, 1), right)
