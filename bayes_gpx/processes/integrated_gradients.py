"""Integrals of kernels along straight paths: what attributions are made of.

The attribution of feature i at x is ``(x_i - b_i) int_0^1 df/dx_i(b + t (x - b)) dt``, for a
baseline b. For a stationary kernel all that depends on the other point are two scalars, moments
of the kernel along the path, shared by all features. Closed forms hold for the squared
exponential; Matern and rational quadratic kernels are integrated outward from the path's point
nearest to the other point, where their derivatives have a kink; everything else by
Gauss-Legendre panels, cut at the kinks of all parts.

References
----------
Butler, Feng and Djuric, "Explainable learning with Gaussian processes" (2024).
"""

from functools import singledispatch

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.kernels.additive import ElementarySymmetric
from bayes_gpx.kernels.base import Kernel
from bayes_gpx.kernels.composite import Active, Power, Product, Sum
from bayes_gpx.kernels.elementary import Constant, Linear
from bayes_gpx.kernels.stationary import Stationary
from bayes_gpx.numerics.quadrature import few, gauss_legendre, total_of
from bayes_gpx.processes.path_moments import (
    PANEL_NODES,
    PANELS,
    SLOPE_TERMS,
    TINY,
    WEIGHED_SLOPE_TERMS,
    along,
    line_of,
    of_length,
    of_pair,
    of_two,
)

PIECE_NODES, DENSE = 28, 1.5
"""Of each piece of a path between two kinks, and how dense nodes are at its ends.

They integrate exponentials that fall by exp(-150) along a piece to 1e-11 of their height.
"""

PIECES = 6
"""That are evaluated in one array."""


@singledispatch
def cross(kernel: Kernel, x, baseline, xs, nodes=None):
    """Covariance of the attributions at x with values at xs, (m, d, n).

    Parameters
    ----------
    kernel : Kernel
    x : tensor (m, d)
    baseline : tensor (d,), or (m, d) for a baseline of each x
    xs : tensor (n, d)
    nodes : Rule, optional
        A quadrature; the most exact form known otherwise.
    """
    delta, parts = x - baseline, []
    kinks = [] if nodes else _kinks(kernel, x, baseline, xs)
    by_panels = few(nodes or gauss_legendre(PANEL_NODES, PANELS), 2, 3)
    for t, w in _by_pieces(kinks) if kinks else by_panels:
        slopes = kernel.derivative(baseline[..., None, :] + t * delta[:, None], xs, 1, 0)
        parts.append((w * slopes).sum(axis=0))
    return delta[:, :, None] * total_of(parts).dimshuffle(0, 2, 1)


def _kinks(kernel, x, baseline, xs):
    """Where on each path a part of the kernel is not smooth, in [0, 1]: a list of (m, n).

    Nowhere for the smooth, and for those of which that is not known here, such as a user's own.
    """
    if isinstance(kernel, Active):
        own = kernel.columns
        return _kinks(kernel.kernel, x[:, own], baseline[..., own], xs[:, own])
    if isinstance(kernel, ElementarySymmetric):
        columns = [
            [point[..., [i]] for point in (x, baseline, xs)] for i in range(len(kernel.parts))
        ]
        each = zip(kernel.parts, columns, strict=True)
        return [kink for part, points in each for kink in _kinks(part, *points)]
    if isinstance(kernel, Sum | Product):
        sides = kernel.left, kernel.right
        return [kink for side in sides for kink in _kinks(side, x, baseline, xs)]
    if isinstance(kernel, Power):
        return _kinks(kernel.kernel, x, baseline, xs)
    if isinstance(kernel, Stationary) and kernel.smoothness < np.inf and kernel.period is None:
        D, (P, Q) = (x - baseline) / kernel.lengthscale, _ends(kernel, x, baseline, xs)
        return [line_of(D, P, Q).left]
    return []


def _by_pieces(kinks):
    """Yield nodes and weights (pieces, m, n, 1) between kinks, dense at both ends of each piece."""
    still = pt.zeros_like(kinks[0])
    ends = pt.sort(pt.stack([still, *kinks, still + 1.0]), axis=0)[..., None]
    for first in range(0, len(kinks) + 1, PIECES):
        starts, stops = ends[first:-1][:PIECES], ends[first + 1 :][:PIECES]
        for y, w in zip(*gauss_legendre(PIECE_NODES), strict=True):
            place, width = np.tanh(DENSE * (2.0 * y - 1.0)) / np.tanh(DENSE), stops - starts
            rate = DENSE / np.tanh(DENSE) / np.cosh(DENSE * (2.0 * y - 1.0)) ** 2
            yield starts + 0.5 * (1.0 + place) * width, rate * w * width


@singledispatch
def block(kernel: Kernel, x, baseline, nodes=None):
    """Prior covariance between the attributions of each x, (m, d, d); as `cross`.

    Without given nodes, each triangle of the unit square on its own: kernels have kinks where
    both paths meet.
    """
    delta, parts = x - baseline, []
    outer = nodes or gauss_legendre(PANEL_NODES, PANELS)
    for t, w in few(outer, 2, 3):
        inner_t, inner_w = outer.t[:, None, None], outer.w[:, None, None]
        if nodes is None:
            inner_t, inner_w = t * inner_t, t * inner_w
        mixed = kernel.derivative(baseline + t * delta, baseline + inner_t * delta, 1, 1)
        parts.append(((w * inner_w)[..., None] * mixed).sum(axis=(0, 1)))
    total = total_of(parts)
    if nodes is None:
        total = total + total.dimshuffle(0, 2, 1)
    return delta[:, :, None] * delta[:, None, :] * total


@singledispatch
def between(kernel: Kernel, x, xs, baseline, nodes=None):
    """Prior covariance of the attributions at x with those at xs, (m, d, n, d); as `cross`.

    Without given nodes, each triangle of the unit square on its own, split where one path comes
    nearest to the other: there, and at their common start, a kernel may have its kink.
    """
    delta, others, parts = (x - baseline)[:, None], (xs - baseline)[None], []
    if nodes is None:
        outer, inner = gauss_legendre(PANEL_NODES, 2), gauss_legendre(2 * PANEL_NODES)
        product = (delta * others).sum(axis=2, keepdims=True)
        lengths = [pt.sqr(way).sum(axis=2, keepdims=True) for way in (others, delta)]
        feet = [product / pt.switch(pt.eq(length, 0.0), 1.0, length) for length in lengths]
        near, far = (_to_foot(inner, pt.clip(foot, 0.0, 1.0)) for foot in feet)
    else:
        outer, at = nodes, [part[:, None, None, None] for part in nodes]
    for t, w in few(outer, 1, 3):
        if nodes is not None:
            parts_of_square = ((t, *at),)
        else:
            parts_of_square = (t, t * near[0], t * near[1]), (t * far[0], t, t * far[1])
        for first, second, weight in parts_of_square:
            here, there = baseline + first * delta, baseline + second * others
            mixed = kernel.derivative(here, there, 1, 1)
            parts.append(((w * weight)[..., None] * mixed).sum(axis=0))
    total = total_of(parts) * delta[..., None] * others[:, :, None]
    return total.dimshuffle(0, 2, 1, 3)


def _to_foot(nodes, foot):
    """Nodes and weights in [0, 1], dense on both sides of a place for each pair, (k, m, n, 1)."""
    y, w = (part[:, None, None, None] for part in nodes)
    apart, weight, left = pt.sqr(y), 2.0 * y * w, 1.0 - foot
    return (
        pt.concatenate([foot - foot * apart, foot + left * apart]),
        pt.concatenate([foot * weight, left * weight]),
    )


@between.register
def _(kernel: Sum, x, xs, baseline, nodes=None):
    left, right = (between(part, x, xs, baseline, nodes) for part in (kernel.left, kernel.right))
    return left + right


@between.register
def _(kernel: Constant, x, xs, baseline, nodes=None):
    return pt.zeros((*tuple(x.shape), *tuple(xs.shape)))


@between.register
def _(kernel: Product, x, xs, baseline, nodes=None):
    for factor, other in ((kernel.left, kernel.right), (kernel.right, kernel.left)):
        if isinstance(factor, Constant):
            return factor.variance * between(other, x, xs, baseline, nodes)
    return between.dispatch(Kernel)(kernel, x, xs, baseline, nodes)


@between.register
def _(kernel: Active, x, xs, baseline, nodes=None):
    own = kernel.columns
    part = between(kernel.kernel, x[:, own], xs[:, own], baseline[own], nodes)
    if np.array_equal(own, np.arange(x.type.shape[-1] or 0)):
        return part
    by_features = pt.zeros((x.shape[1], x.shape[1], x.shape[0], xs.shape[0]))
    placed = by_features[own[:, None], own].set(part.dimshuffle(1, 3, 0, 2))
    return placed.dimshuffle(2, 0, 3, 1)


@between.register
def _(kernel: Stationary, x, xs, baseline, nodes=None):
    kernel._require((0,))
    if kernel.period is not None or nodes is not None:
        return between.dispatch(Kernel)(kernel, x, xs, baseline, nodes)
    D, E = (x - baseline) / kernel.lengthscale, (xs - baseline) / kernel.lengthscale
    (own, *first), (other, *second) = (of_pair(kernel.profile, *pair) for pair in ((D, E), (E, D)))
    straight = own + other.T
    both, ends = first[1] + second[1].T, (first[0] + second[2].T, first[2] + second[0].T)
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


@cross.register
def _(kernel: Sum, x, baseline, xs, nodes=None):
    left, right = (cross(part, x, baseline, xs, nodes) for part in (kernel.left, kernel.right))
    return left + right


@block.register
def _(kernel: Sum, x, baseline, nodes=None):
    return block(kernel.left, x, baseline, nodes) + block(kernel.right, x, baseline, nodes)


@cross.register
def _(kernel: Constant, x, baseline, xs, nodes=None):
    return pt.zeros((*tuple(x.shape), xs.shape[0]))


@block.register
def _(kernel: Constant, x, baseline, nodes=None):
    return pt.zeros((*tuple(x.shape), x.shape[1]))


@cross.register
def _(kernel: Product, x, baseline, xs, nodes=None):
    for factor, other in ((kernel.left, kernel.right), (kernel.right, kernel.left)):
        if isinstance(factor, Constant):
            return factor.variance * cross(other, x, baseline, xs, nodes)
        if isinstance(factor, Active) and isinstance(factor.kernel, Linear):
            atoms = atoms_of(other, np.arange(x.type.shape[1]))
            if atoms is not None:
                return _weighed(atoms, factor, x, baseline, xs, nodes)
    return cross.dispatch(Kernel)(kernel, x, baseline, xs, nodes)


def atoms_of(kernel, columns):
    """Stationary summands as (variance, kernel, columns); None where there are others."""
    if isinstance(kernel, Stationary):
        return None if kernel.period is not None else [(1.0, kernel, columns)]
    if isinstance(kernel, Active):
        return atoms_of(kernel.kernel, columns[kernel.columns])
    if isinstance(kernel, Sum):
        parts = [atoms_of(part, columns) for part in (kernel.left, kernel.right)]
        return None if None in parts else parts[0] + parts[1]
    if isinstance(kernel, Product):
        for factor, other in ((kernel.left, kernel.right), (kernel.right, kernel.left)):
            if isinstance(factor, Constant) and (atoms := atoms_of(other, columns)) is not None:
                return [(factor.variance * v, k, c) for v, k, c in atoms]
    return None


def _weighed(atoms, linear, x, baseline, xs, nodes):
    """Attributions of stationary kernels times a linear one, which changes along the path too."""
    own, weights, center = linear.columns, linear.kernel.weights, linear.kernel.center
    there = weights * (xs[:, own] - center)
    start, end = pt.dot(baseline[..., own] - center, there.T), pt.dot(x[:, own] - center, there.T)
    total = pt.zeros((*tuple(x.shape), xs.shape[0]))
    for variance, kernel, columns in atoms:
        kernel._require((0,))
        D = (x[:, columns] - baseline[..., columns]) / kernel.lengthscale
        P, Q = _ends(kernel, x[:, columns], baseline[..., columns], xs[:, columns])
        early, middle, late, level = along(kernel.profile, D, P, Q, WEIGHED_SLOPE_TERMS, nodes)
        near, far = early * start + middle * end, middle * start + late * end
        slope = P * near[:, None] + Q * far[:, None]
        total = total[:, columns].inc(-variance * D[:, :, None] * slope)
        moved = (x - baseline)[:, own]
        total = total[:, own].inc(variance * moved[:, :, None] * there.T * level[:, None])
    return total


@block.register
def _(kernel: Product, x, baseline, nodes=None):
    for factor, other in ((kernel.left, kernel.right), (kernel.right, kernel.left)):
        if isinstance(factor, Constant):
            return factor.variance * block(other, x, baseline, nodes)
        if isinstance(factor, Active) and isinstance(factor.kernel, Linear) and nodes is None:
            atoms = atoms_of(other, np.arange(x.type.shape[1]))
            if atoms is not None:
                return _weighed_block(atoms, factor, x, baseline)
    return block.dispatch(Kernel)(kernel, x, baseline, nodes)


def _weighed_block(atoms, linear, x, baseline):
    """As `_weighed`, the prior covariance: the linear kernel is bilinear in both paths' t."""
    own, weights, d = linear.columns, linear.kernel.weights, x.type.shape[1]
    start, moved = baseline[..., own] - linear.kernel.center, (x - baseline)[:, own]
    gained = weights * pt.sqr(moved)
    even, product = (weights * start * (start + moved)).sum(axis=1), gained.sum(axis=1)
    total = pt.zeros((x.shape[0], d, d))
    for variance, kernel, columns in atoms:
        kernel._require((0,))
        squares = pt.sqr((x[:, columns] - baseline[..., columns]) / kernel.lengthscale)
        plain, mixed = of_two(kernel.profile, squares.sum(axis=1, keepdims=True))
        straight, bent = (even * plain[k] + product * mixed[k] for k in (1, 2))
        within = (squares * straight[:, None])[:, :, None] * pt.eye(len(columns)) - (
            squares[:, :, None] * squares[:, None, :] * bent[:, None, None]
        )
        across = -0.5 * squares[:, :, None] * (gained * plain[3][:, None])[:, None, :]
        level = (gained * plain[0][:, None])[:, :, None] * pt.eye(len(own))
        for part, rows, others in (
            (within, columns, columns),
            (across, columns, own),
            (across.dimshuffle(0, 2, 1), own, columns),
            (level, own, own),
        ):
            total = total[:, rows[:, None], others].inc(variance * part)
    return total


@cross.register
def _(kernel: Active, x, baseline, xs, nodes=None):
    own = kernel.columns
    part = cross(kernel.kernel, x[:, own], baseline[..., own], xs[:, own], nodes)
    if np.array_equal(own, np.arange(x.type.shape[-1] or 0)):
        return part
    return pt.zeros((*tuple(x.shape), xs.shape[0]))[:, own].set(part)


@block.register
def _(kernel: Active, x, baseline, nodes=None):
    own = kernel.columns
    part = block(kernel.kernel, x[:, own], baseline[..., own], nodes)
    if np.array_equal(own, np.arange(x.type.shape[-1] or 0)):
        return part
    return pt.zeros((*tuple(x.shape), x.shape[1]))[:, own[:, None], own].set(part)


@cross.register
def _(kernel: Stationary, x, baseline, xs, nodes=None):
    kernel._require((0,))
    if kernel.period is not None:
        return cross.dispatch(Kernel)(kernel, x, baseline, xs, nodes)
    D = (x - baseline) / kernel.lengthscale
    P, Q = _ends(kernel, x, baseline, xs)
    near, far = along(kernel.profile, D, P, Q, SLOPE_TERMS, nodes)
    slope = P * near[:, None] + Q * far[:, None]
    return -D[:, :, None] * slope


def _ends(kernel, x, baseline, xs):
    """Scaled differences of the paths' ends from the other points, as `along` takes them."""
    scale = pt.atleast_1d(1.0 / kernel.lengthscale)[:, None]
    return scale * (baseline[..., None] - xs.T), scale * (x[:, :, None] - xs.T)


@block.register
def _(kernel: Stationary, x, baseline, nodes=None):
    kernel._require((0,))
    if kernel.period is not None:
        return block.dispatch(Kernel)(kernel, x, baseline, nodes)
    D = (x - baseline) / kernel.lengthscale
    squares, a = pt.sqr(D), pt.sqr(D).sum(axis=1, keepdims=True)
    if nodes is None:
        bent, rise = of_length(kernel.profile, a)
        shares = squares / pt.maximum(a, TINY)
        own = shares * (bent + 2.0 * rise)
        return own[:, :, None] * pt.eye(D.shape[1]) - (
            shares[:, :, None] * shares[:, None, :] * bent[:, :, None]
        )
    apart, index = np.unique(
        np.abs(nodes.t[:, None] - nodes.t).round(14).ravel(), return_inverse=True
    )
    weights = np.bincount(index, np.multiply.outer(nodes.w, nodes.w).ravel())
    s2 = a * apart**2
    straight = (weights * kernel.profile.radial(s2, 1)).sum(axis=1, keepdims=True)
    bent = (weights * apart**2 * kernel.profile.radial(s2, 2)).sum(axis=1)
    return (squares * straight)[:, :, None] * pt.eye(D.shape[1]) - (
        squares[:, :, None] * squares[:, None, :] * bent[:, None, None]
    )
