"""Integrals of kernels along straight paths, for attributions."""

# The attribution of feature i at x is (x_i - b_i) int_0^1 df/dx_i(b + t (x - b)) dt, for a baseline
# b: Butler, Feng and Djuric, "Explainable learning with Gaussian processes" (2024). For a
# stationary kernel the other point enters only through two scalars, moments of the kernel along the
# path, shared by all features. The squared exponential has closed forms. Matern and rational
# quadratic kernels are integrated outward from the path's point nearest to the other point, where
# their derivatives have a kink. All other kernels use Gauss-Legendre panels, cut at the kinks of
# all parts.

from collections.abc import Callable, Iterator, Sequence
from typing import cast

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor
from bayes_gpx.kernels.base import Kernel
from bayes_gpx.kernels.normal_form import Term, leaves, sum_over_terms
from bayes_gpx.kernels.stationary import Stationary
from bayes_gpx.numerics.quadrature import Rule, gauss_legendre, in_chunks, squared, total_of
from bayes_gpx.processes.path_moments import (
    PANEL_NODES,
    PANELS,
    SLOPE_TERMS,
    TINY,
    WEIGHED_FAN_TERMS,
    WEIGHED_SLOPE_TERMS,
    differences,
    line_of,
    moments_along,
    of_fan,
    of_length,
    of_pair,
    of_two,
)

PIECE_NODES, DENSE = 28, 1.5
"""Number of nodes in each piece of a path between two kinks, and the slope of the tanh that makes
them denser at its ends: exponentials that fall by exp(-150) along it are integrated to 1e-11 of
their height."""

type Form = Callable[..., Tensor]
"""A formula of one term, for stationary kernels or by nodes."""

PIECES = 6
"""So many pieces are evaluated in one array, for memory's sake."""


def cross(
    kernel: Kernel, x: Tensor, baseline: Tensor, xs: Tensor, nodes: Rule | None = None
) -> Tensor:
    """Covariance of the attributions at x (m, d) with values at xs (n, d), (m, d, n)."""
    # The baseline is (d,), or (m, d) with one for each x. `nodes` is a quadrature; by default the
    # most exact known form.

    def part_of(term: Term) -> Tensor:
        if term.linear is not None:
            return _weighed_cross(term, x, baseline, xs, nodes)
        form: Form = _stationary_cross if term.stationary else _cross_by_nodes
        part = form(term.kernel, *map(term.of, (x, baseline, xs)), nodes)
        return term.among(part, x.shape[1], 1)

    shape = *tuple(x.shape), xs.shape[0]
    return sum_over_terms(kernel, x.type.shape[1], part_of, shape, weighed=True)


def _cross_by_nodes(
    kernel: Kernel, x: Tensor, baseline: Tensor, xs: Tensor, nodes: Rule | None
) -> Tensor:
    """As `cross`, of any kernel."""
    delta, parts = x - baseline, []
    kinks = [] if nodes else _kinks(kernel, x, baseline, xs)
    by_panels = in_chunks(nodes or gauss_legendre(PANEL_NODES, PANELS), 2, 3)
    for t, w in _by_pieces(kinks) if kinks else by_panels:
        slopes = kernel.derivative(baseline[..., None, :] + t * delta[:, None], xs, 1, 0)
        parts.append((w * slopes).sum(axis=0))
    return delta[:, :, None] * total_of(parts).dimshuffle(0, 2, 1)


def _kinks(kernel: Kernel, x: Tensor, baseline: Tensor, xs: Tensor) -> list[Tensor]:
    """Places in [0, 1] on each path where a part of the kernel is not smooth: a list of (m, n)."""
    # One for each rough stationary kernel; none for unknown parts, such as a user's kernel.
    rough = [leaf for leaf in leaves(kernel) if leaf.stationary and leaf.kernel.smoothness < np.inf]
    scaled = (
        differences(cast(Stationary, leaf.kernel), *map(leaf.of, (x, baseline, xs)))
        for leaf in rough
    )
    return [line_of(*differences).left for differences in scaled]


def _by_pieces(kinks: list[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield nodes and weights (pieces, m, n, 1) between kinks, dense at both ends of each piece."""
    still = pt.zeros_like(kinks[0])
    ends = pt.sort(pt.stack([still, *kinks, still + 1.0]), axis=0)[..., None]
    for first in range(0, len(kinks) + 1, PIECES):
        starts, stops = ends[first:-1][:PIECES], ends[first + 1 :][:PIECES]
        for y, w in zip(*gauss_legendre(PIECE_NODES), strict=True):
            place, width = np.tanh(DENSE * (2.0 * y - 1.0)) / np.tanh(DENSE), stops - starts
            rate = DENSE / np.tanh(DENSE) / np.cosh(DENSE * (2.0 * y - 1.0)) ** 2
            yield starts + 0.5 * (1.0 + place) * width, rate * w * width


def _stationary_cross(
    kernel: Stationary, x: Tensor, baseline: Tensor, xs: Tensor, nodes: Rule | None
) -> Tensor:
    """As `cross`, by two moments of each path."""
    kernel._require((0,))
    level, far = moments_along(kernel, x, baseline, xs, SLOPE_TERMS, nodes)
    start, moved = baseline[..., None] - xs.T, x - baseline
    ways = start * level[:, None] + moved[:, :, None] * far[:, None]
    return -(moved / pt.sqr(kernel.lengthscale))[:, :, None] * ways


def _weighed_cross(
    term: Term, x: Tensor, baseline: Tensor, xs: Tensor, nodes: Rule | None
) -> Tensor:
    """As `cross`, for a kernel times a linear one, which changes along the path too."""
    kernel, linear, line = term.factors
    kernel._require((0,))
    there = line.weights * (linear.of(xs) - line.center)
    start, end = (pt.dot(linear.of(point) - line.center, there.T) for point in (baseline, x))
    ends = term.of(x), term.of(baseline), term.of(xs)
    early, middle, late, level = moments_along(kernel, *ends, WEIGHED_SLOPE_TERMS, nodes)
    near, far = early * start + middle * end, middle * start + late * end
    D, P, Q = differences(kernel, *ends)
    bent = -D[:, :, None] * (P * near[:, None] + Q * far[:, None])
    risen = linear.of(x - baseline)[:, :, None] * there.T * level[:, None]
    d = x.shape[1]
    return term.among(bent, d, 1) + linear.among(risen, d, 1)


def block(kernel: Kernel, x: Tensor, baseline: Tensor, nodes: Rule | None = None) -> Tensor:
    """Prior covariance between the attributions of each x, (m, d, d); see `cross`."""

    def part_of(term: Term) -> Tensor:
        if term.linear is not None:
            return _weighed_block(term, x, baseline)
        form: Form = _stationary_block if term.stationary else _block_by_nodes
        part = form(term.kernel, term.of(x), term.of(baseline), nodes)
        return term.among(part, x.shape[1], 1, 2)

    shape = *tuple(x.shape), x.shape[1]
    return sum_over_terms(kernel, x.type.shape[1], part_of, shape, weighed=nodes is None)


def _block_by_nodes(kernel: Kernel, x: Tensor, baseline: Tensor, nodes: Rule | None) -> Tensor:
    """As `block`, for any kernel, by quadrature."""
    delta, parts = x - baseline, []
    outer = nodes or gauss_legendre(PANEL_NODES, PANELS)
    for t, w in in_chunks(outer, 2, 3):
        inner_t, inner_w = outer.t[:, None, None], outer.w[:, None, None]
        # Over one triangle of the unit square, which is symmetric: kernels have kinks on the
        # diagonal, where both points meet.
        if nodes is None:
            inner_t, inner_w = t * inner_t, t * inner_w
        mixed = kernel.derivative(baseline + t * delta, baseline + inner_t * delta, 1, 1)
        parts.append(((w * inner_w)[..., None] * mixed).sum(axis=(0, 1)))
    total = total_of(parts)
    if nodes is None:
        total = total + total.dimshuffle(0, 2, 1)
    return delta[:, :, None] * delta[:, None, :] * total


def _stationary_block(
    kernel: Stationary, x: Tensor, baseline: Tensor, nodes: Rule | None
) -> Tensor:
    """As `block`, by moments of the distance between two points of a path."""
    kernel._require((0,))
    D = (x - baseline) / kernel.lengthscale
    squares, a = pt.sqr(D), pt.sqr(D).sum(axis=1, keepdims=True)
    if nodes is None:
        bent, rise = of_length(kernel.profile, a)
        shares = squares / pt.maximum(a, TINY)
        return _across_features(shares, shares * (bent + 2.0 * rise), bent[:, 0])
    apart, index = np.unique(
        np.abs(nodes.t[:, None] - nodes.t).round(14).ravel(), return_inverse=True
    )
    weights = np.bincount(index, np.multiply.outer(nodes.w, nodes.w).ravel())
    s2 = a * apart**2
    straight = (weights * kernel.profile.radial(s2, 1)).sum(axis=1, keepdims=True)
    bent = (weights * apart**2 * kernel.profile.radial(s2, 2)).sum(axis=1)
    return _across_features(squares, squares * straight, bent)


def _across_features(squares: Tensor, own: Tensor, bent: Tensor) -> Tensor:
    """Covariances own_i delta_ij - squares_i squares_j bent of features, (m, d, d)."""
    outer = squares[:, :, None] * squares[:, None, :]
    return own[:, :, None] * pt.eye(squares.shape[1]) - outer * bent[:, None, None]


def _weighed_block(term: Term, x: Tensor, baseline: Tensor) -> Tensor:
    """As `block`, for a kernel times a linear one, which is bilinear in both places on the path."""
    (kernel, linear, line), d = term.factors, x.shape[1]
    kernel._require((0,))
    weights, start = line.weights, linear.of(baseline) - line.center
    moved = linear.of(x - baseline)
    gained = weights * pt.sqr(moved)
    even, product = (weights * start * (start + moved)).sum(axis=1), gained.sum(axis=1)
    squares = pt.sqr(term.of(x - baseline) / kernel.lengthscale)
    plain, mixed = of_two(kernel.profile, squares.sum(axis=1, keepdims=True))
    straight, bent = (even * plain[k] + product * mixed[k] for k in (1, 2))
    within = _across_features(squares, squares * straight[:, None], bent)
    across = -0.5 * squares[:, :, None] * (gained * plain[3][:, None])[:, None, :]
    level = (gained * plain[0][:, None])[:, :, None] * pt.eye(gained.shape[1])
    return with_linear(term, d, within, across, level)


def with_linear(
    term: Term, d: int | Tensor, within: Tensor, across: Tensor, level: Tensor
) -> Tensor:
    """Sum of covariances within a term's features, across to its linear part's, within those."""
    _, linear, _ = term.factors
    across = term.among(linear.among(across, d, 2), d, 1)
    return (
        term.among(within, d, 1, 2)
        + across
        + across.dimshuffle(0, 2, 1)
        + linear.among(level, d, 1, 2)
    )


def between(
    kernel: Kernel, x: Tensor, xs: Tensor, baseline: Tensor, nodes: Rule | None = None
) -> Tensor:
    """Prior covariance of attributions at x with attributions at xs, (m, d, n, d)."""

    def part_of(term: Term) -> Tensor:
        if term.linear is not None:
            return _weighed_between(term, x, xs, baseline)
        closed = term.stationary and nodes is None
        form: Form = _stationary_between if closed else _between_by_nodes
        part = form(term.kernel, *map(term.of, (x, xs, baseline)), nodes)
        return term.among(part, x.shape[1], 1, 3)

    shape = *tuple(x.shape), *tuple(xs.shape)
    return sum_over_terms(kernel, x.type.shape[1], part_of, shape, weighed=nodes is None)


def _between_by_nodes(
    kernel: Kernel, x: Tensor, xs: Tensor, baseline: Tensor, nodes: Rule | None
) -> Tensor:
    """As `between`, of any kernel."""
    delta, others, pieces = (x - baseline)[:, None], (xs - baseline)[None], list[tuple]()
    # Each triangle of the unit square is integrated separately and split where one path is nearest
    # to the other: there, and at their common start, a kernel may have a kink.
    if nodes is None:
        outer, inner = gauss_legendre(PANEL_NODES, 2), gauss_legendre(2 * PANEL_NODES)
        product = (delta * others).sum(axis=2, keepdims=True)
        lengths = [pt.sqr(way).sum(axis=2, keepdims=True) for way in (others, delta)]
        feet = [product / pt.switch(pt.eq(length, 0.0), 1.0, length) for length in lengths]
        near, far = (_to_foot(inner, pt.maximum(pt.minimum(foot, 1.0), 0.0)) for foot in feet)
        for t, w in in_chunks(outer, 1, 3):
            pieces.append((t, t * near[0], w * t * near[1]))
            pieces.append((t * far[0], t, w * t * far[1]))
    else:
        pieces.extend(in_chunks(squared(nodes), len(nodes.t), 3))
    parts = []
    for first, second, weight in pieces:
        here, there = baseline + first * delta, baseline + second * others
        mixed = kernel.derivative(here, there, 1, 1)
        parts.append((weight[..., None] * mixed).sum(axis=0))
    total = total_of(parts) * delta[..., None] * others[:, :, None]
    return total.dimshuffle(0, 2, 1, 3)


def _to_foot(nodes: Rule, foot: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes and weights in [0, 1], (k, m, n, 1), dense on both sides of each pair's foot."""
    y, w = (part[:, None, None, None] for part in nodes)
    apart, weight, left = pt.sqr(y), 2.0 * y * w, 1.0 - foot
    return (
        pt.concatenate([foot - foot * apart, foot + left * apart]),
        pt.concatenate([foot * weight, left * weight]),
    )


def _stationary_between(
    kernel: Stationary, x: Tensor, xs: Tensor, baseline: Tensor, nodes: Rule | None
) -> Tensor:
    """As `between`, by moments of each pair of paths."""
    kernel._require((0,))
    D, E = (x - baseline) / kernel.lengthscale, (xs - baseline) / kernel.lengthscale
    (own, *first), (other, *second) = (of_pair(kernel.profile, *pair) for pair in ((D, E), (E, D)))
    straight = own + other.T
    both, ends = first[1] + second[1].T, (first[0] + second[2].T, first[2] + second[0].T)
    return _of_ways(D, E, straight, both, ends)


def _of_ways(
    D: Tensor, E: Tensor, straight: Tensor, both: Tensor, ends: Sequence[Tensor]
) -> Tensor:
    """Contract moments (m, n) of F_1, s t F_2, s^2 F_2 and t^2 F_2 with ways D and E."""
    across = (slice(None), None, slice(None), None)
    D_i, D_j = D[:, :, None, None], D[:, None, None]
    E_i, E_j = E.T[None, :, :, None], E[None, None]
    bent = (
        D_i * D_j * ends[0][across]
        + E_i * E_j * ends[1][across]
        - (D_i * E_j + E_i * D_j) * both[across]
    )
    same = pt.eye(D.shape[1])[None, :, None]
    return D_i * E_j * (same * straight[across] - bent)


def _weighed_between(term: Term, x: Tensor, xs: Tensor, baseline: Tensor) -> Tensor:
    """As `between`, for a kernel times a linear one, by moments of paths from one point."""
    (kernel, linear, line), d = term.factors, x.shape[1]
    kernel._require((0,))
    start = linear.of(baseline) - line.center
    weights = line.weights * pt.ones_like(start)  # may be one for all
    U, V = linear.of(x - baseline), linear.of(xs - baseline)
    D, E = (term.of(points - baseline) / kernel.lengthscale for points in (x, xs))
    m = x.shape[0]
    own, other = (slice(None), slice(None)) if x is xs else (slice(None, m), slice(m, None))
    ways = D if x is xs else pt.concatenate([D, E])
    found = of_fan(kernel.profile, ways[None], WEIGHED_FAN_TERMS)
    fan = dict(zip(WEIGHED_FAN_TERMS, found, strict=True))

    def moment(k: int, i: int, j: int) -> Tensor:
        """The integral of s^i t^j F_k, (m, n)."""
        if (k, i, j) in fan:
            return fan[k, i, j][0, own, other]
        return fan[k, j, i][0, other, own].T

    # The linear kernel is level + s slope + t slope' + s t bent.
    level, bent = (weights * pt.sqr(start)).sum(), (U * weights) @ V.T
    slopes = (U @ (weights * start))[:, None], V @ (weights * start)

    def within(k: int, i: int, j: int) -> Tensor:
        """The integral of s^i t^j F_k times the linear kernel."""
        return (
            level * moment(k, i, j)
            + slopes[0] * moment(k, i + 1, j)
            + slopes[1] * moment(k, i, j + 1)
            + bent * moment(k, i + 1, j + 1)
        )

    part = _of_ways(D, E, within(1, 0, 0), within(2, 1, 1), (within(2, 2, 0), within(2, 0, 2)))
    total = term.among(part, d, 1, 3)
    # One derivative of the kernel, along one path, and one of the linear one, along the other.
    column = (slice(None), None, slice(None), None)
    D_i, E_i = D[:, :, None, None], E.T[None, :, :, None]
    far, near = (D_i * moment(1, *at)[column] for at in ((1, 0), (2, 0)))
    back, aside = (E_i * moment(1, *at)[column] for at in ((0, 1), (1, 1)))
    moved = (far - back) * start + (near - aside) * U[:, None, None]
    across = -D_i * (weights * V)[None, None] * moved
    total = total + term.among(linear.among(across, d, 3), d, 1)
    D_j, E_j = D[:, None, None], E[None, None]
    U_i, V_i = U[:, :, None, None], V.T[None, :, :, None]
    start_i, weights_i = (
        pt.as_tensor(start)[None, :, None, None],
        pt.as_tensor(weights)[None, :, None, None],
    )
    far, near = (D_j * moment(1, *at)[column] for at in ((1, 0), (1, 1)))
    back, aside = (E_j * moment(1, *at)[column] for at in ((0, 1), (0, 2)))
    moved = (far - back) * start_i + (near - aside) * V_i
    across = U_i * weights_i * E_j * moved
    total = total + term.among(linear.among(across, d, 1), d, 3)
    flat = U_i * weights_i * V_i * moment(0, 0, 0)[column]
    flat = flat * pt.eye(U.shape[1])[None, :, None]
    return total + linear.among(flat, d, 1, 3)
