"""Attributions averaged over several baselines, with a fan of paths from each x."""

# The attribution of a path is minus the attribution of the reversed path. Reversed, all paths start
# at x, so each pair of them is integrated outward from the point where they meet. With the ways V_b
# = b - x, their covariance is the double integral over s and t of V_bi V_cj Cov(df/dx_i(x + s V_b),
# df/dx_j(x + t V_c)).
# Erion, Janizek, Sturmfels, Lundberg and Lee, "Improving performance of deep learning models with
# axiomatic attribution priors and expected gradients" (2021).

import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor
from bayes_gpx.kernels.base import Kernel
from bayes_gpx.kernels.normal_form import Term, sum_over_terms
from bayes_gpx.kernels.stationary import Stationary
from bayes_gpx.numerics.quadrature import (
    MOST_CHUNKS,
    Rule,
    gauss_legendre,
    in_chunks,
    squared,
    total_of,
)
from bayes_gpx.processes import integrated_gradients
from bayes_gpx.processes.integrated_gradients import Form, with_linear
from bayes_gpx.processes.operators import averaged, every_path
from bayes_gpx.processes.path_moments import PANEL_NODES, WEIGHED_FAN_TERMS, of_fan

TOGETHER = 8
"""Fewest pairs of nodes in one array, (pairs, m, baselines, baselines, d, d)."""

FAN_TERMS = ((1, 0, 0), (2, 2, 0), (2, 1, 1))
"""Terms of `of_fan` that averaged attributions of a kernel are made of."""


def in_an_array(steps: int) -> int:
    """How many pairs of nodes are in one array, with so many nodes of each path."""
    return max(TOGETHER, steps**2 // MOST_CHUNKS)


def cross(
    kernel: Kernel, x: Tensor, baselines: Tensor, xs: Tensor, nodes: Rule | None = None
) -> Tensor:
    """Covariance of averages of attributions at x (m, d) with values at xs (n, d), (m, d, n)."""
    # `nodes` is a quadrature; by default the most exact known form.
    ends, starts = every_path(x, baselines)
    parts = integrated_gradients.cross(kernel, ends, starts, xs, nodes)
    return averaged(parts, x, baselines)


def block(kernel: Kernel, x: Tensor, baselines: Tensor, nodes: Rule | None = None) -> Tensor:
    """Prior covariance between the averaged attributions of each x, (m, d, d); see `cross`."""
    total = _of_pairs(kernel, x, baselines - x[:, None], nodes)
    return total / pt.sqr(baselines.shape[0])


def _of_pairs(kernel: Kernel, x: Tensor, V: Tensor, nodes: Rule | None) -> Tensor:
    """Sum over all pairs of paths, (m, d, d), for ways V (m, B, d)."""

    def part_of(term: Term) -> Tensor:
        if term.linear is not None:
            return _weighed(term, x, V, nodes)
        form: Form = _by_moments if term.stationary else _by_nodes
        part = form(term.kernel, term.of(x), term.of(V), nodes)
        return term.among(part, x.shape[1], 1, 2)

    shape = *tuple(x.shape), x.shape[1]
    return sum_over_terms(kernel, x.type.shape[1], part_of, shape, weighed=True)


def _by_nodes(kernel: Kernel, x: Tensor, V: Tensor, nodes: Rule | None) -> Tensor:
    """As `_of_pairs`, for any kernel; without given nodes, over one triangle of the unit square."""
    rule, parts = nodes or gauss_legendre(PANEL_NODES, 2), []
    ways = V[:, :, None, :, None] * V[:, None, :, None, :]
    for s, t, w in in_chunks(squared(rule), TOGETHER, 4):
        s, t, w = (1 - s, 1 - t, w) if nodes else (s, s * t, s * w)
        here = x[:, None, None] + s * V[:, :, None]
        there = x[:, None, None] + t * V[:, None]
        mixed = kernel.derivative(here, there, 1, 1)
        parts.append((w[..., None] * mixed * ways).sum(axis=(0, 2, 3)))
    total = total_of(parts)
    return total if nodes else total + total.dimshuffle(0, 2, 1)


def _by_moments(kernel: Stationary, x: Tensor, V: Tensor, nodes: Rule | None) -> Tensor:
    """As `_of_pairs`, for a stationary kernel."""
    kernel._require((0,))
    D = V / kernel.lengthscale
    return _stationary(D, *of_fan(kernel.profile, D, FAN_TERMS, nodes))


def _stationary(D: Tensor, straight: Tensor, ends: Tensor, both: Tensor) -> Tensor:
    """Contract moments like `FAN_TERMS`', (m, B, B), with ways D; `ends` alone is not symmetric."""
    squares, products = pt.sqr(D), _outer(D, D)
    own = (D * (straight @ D)).sum(axis=1)
    bent = _contracted(squares, D * (ends @ D))
    across = _contracted(squares, both @ squares)
    across = across + (products * _through(both, products)).sum(axis=1)
    return own[:, :, None] * pt.eye(D.shape[2]) - bent - bent.dimshuffle(0, 2, 1) + across


def _weighed(term: Term, x: Tensor, V: Tensor, nodes: Rule | None) -> Tensor:
    """As `_of_pairs`, for a kernel times a linear one, which is bilinear in s and t."""
    kernel, linear, line = term.factors
    kernel._require((0,))
    y, U, weights = linear.of(x) - line.center, linear.of(V), line.weights
    here, there = weights * y, weights * U
    level, slope = (here * y).sum(axis=1)[:, None, None], (U * here[:, None]).sum(axis=2)
    bilinear = U @ there.dimshuffle(0, 2, 1)
    D = term.of(V) / kernel.lengthscale
    found = of_fan(kernel.profile, D, WEIGHED_FAN_TERMS, nodes)
    M = dict(zip(WEIGHED_FAN_TERMS, found, strict=True))
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
    moved = M[1, 1, 0] @ (here[:, None] * U)
    across = (
        _contracted(D * (M[1, 1, 0] @ D), here[:, None] * U)
        + (_outer(D, U) * _through(M[1, 1, 1], _outer(D, there))).sum(axis=1)
        - _contracted(pt.sqr(D), moved + U * (M[1, 2, 0] @ there))
    )
    flat = (there * (M[0, 0, 0] @ U)).sum(axis=1)
    flat = flat[:, :, None] * pt.eye(flat.shape[1])
    return with_linear(term, x.shape[1], within, across, flat)


def _outer(left: Tensor, right: Tensor) -> Tensor:
    """Products of two features' ways along each path, (m, B, c, c')."""
    return left[..., :, None] * right[..., None, :]


def _through(moments: Tensor, products: Tensor) -> Tensor:
    """Sum over second paths of moments (m, B, B) times products (m, B, c, c'), (m, B, c, c')."""
    flat = products.reshape((products.shape[0], products.shape[1], -1))
    return (moments @ flat).reshape(products.shape)


def _contracted(left: Tensor, right: Tensor) -> Tensor:
    return left.dimshuffle(0, 2, 1) @ right
