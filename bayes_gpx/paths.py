"""Integrals of kernels along straight paths: what attributions are made of.

The attribution of feature i at x is ``(x_i - b_i) int_0^1 df/dx_i(b + t (x - b)) dt``, for a
baseline b. For a stationary kernel all that depends on the other point are two scalars, moments
of the kernel along the path, shared by all features. Closed forms hold for the squared
exponential; Matern and rational quadratic kernels are integrated outward from the path's point
nearest to the other point, where their derivatives have a kink; everything else by
Gauss-Legendre panels.

References
----------
Butler, Feng and Djuric, "Explainable learning with Gaussian processes" (2024).
"""

from functools import singledispatch

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.kernels import Active, Constant, Kernel, Product, Stationary, Sum
from bayes_gpx.quadrature import gauss_legendre

TINY = 1e-300
CLOSE = 0.25
"""Path lengths (in lengthscales) up to which the squared exponential is integrated by nodes."""

SHORT = 1.5
"""Path lengths up to which prior variances are integrated by nodes."""

TOGETHER = 8
"""Nodes that are evaluated in one array."""

PANELS, PANEL_NODES = 4, 12
"""Of kernels without a form of their own."""

CLIP = {"Matern52": 18.5, "Matern32": 24.0}
GRADING = {"Matern52": 2, "Matern32": 3}
SIDE_NODES = {"Matern52": 24, "Matern32": 48, "RatQuad": 32}


@singledispatch
def cross(kernel: Kernel, x, baseline, xs, nodes=None):
    """Covariance of the attributions at x with values at xs, (m, d, n).

    Parameters
    ----------
    kernel : Kernel
    x : tensor (m, d)
    baseline : tensor (d,)
    xs : tensor (n, d)
    nodes : Rule, optional
        A quadrature; the most exact form known otherwise.
    """
    delta, parts = x - baseline, []
    for t, w in _few(nodes or gauss_legendre(PANEL_NODES, PANELS), TOGETHER, 3):
        slopes = kernel.derivative(baseline + t * delta[:, None], xs, 1, 0)
        parts.append((w * slopes).sum(axis=0))
    return delta[:, :, None] * total_of(parts).dimshuffle(0, 2, 1)


@singledispatch
def block(kernel: Kernel, x, baseline, nodes=None):
    """Prior covariance between the attributions of each x, (m, d, d); as `cross`.

    Without given nodes, each triangle of the unit square on its own: kernels have kinks where
    both paths meet.
    """
    delta, parts = x - baseline, []
    outer = nodes or gauss_legendre(PANEL_NODES, PANELS)
    for t, w in _few(outer, 2, 3):
        inner_t, inner_w = outer.t[:, None, None], outer.w[:, None, None]
        if nodes is None:
            inner_t, inner_w = t * inner_t, t * inner_w
        mixed = kernel.derivative(baseline + t * delta, baseline + inner_t * delta, 1, 1)
        parts.append(((w * inner_w)[..., None] * mixed).sum(axis=(0, 1)))
    total = total_of(parts)
    if nodes is None:
        total = total + total.dimshuffle(0, 2, 1)
    return delta[:, :, None] * delta[:, None, :] * total


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
    return cross.dispatch(Kernel)(kernel, x, baseline, xs, nodes)


@block.register
def _(kernel: Product, x, baseline, nodes=None):
    for factor, other in ((kernel.left, kernel.right), (kernel.right, kernel.left)):
        if isinstance(factor, Constant):
            return factor.variance * block(other, x, baseline, nodes)
    return block.dispatch(Kernel)(kernel, x, baseline, nodes)


@cross.register
def _(kernel: Active, x, baseline, xs, nodes=None):
    own = kernel.columns
    part = cross(kernel.kernel, x[:, own], baseline[own], xs[:, own], nodes)
    if np.array_equal(own, np.arange(x.type.shape[-1] or 0)):
        return part
    return pt.zeros((*tuple(x.shape), xs.shape[0]))[:, own].set(part)


@block.register
def _(kernel: Active, x, baseline, nodes=None):
    own = kernel.columns
    part = block(kernel.kernel, x[:, own], baseline[own], nodes)
    if np.array_equal(own, np.arange(x.type.shape[-1] or 0)):
        return part
    return pt.zeros((*tuple(x.shape), x.shape[1]))[:, own[:, None], own].set(part)


@cross.register
def _(kernel: Stationary, x, baseline, xs, nodes=None):
    kernel._require((0,))
    if kernel.period is not None:
        return cross.dispatch(Kernel)(kernel, x, baseline, xs, nodes)
    D = (x - baseline) / kernel.lengthscale
    P = (baseline - xs) / kernel.lengthscale
    Q = (x[:, None] - xs) / kernel.lengthscale
    if nodes is None:
        near, far = EXACT.get(kernel.name, _by_panels)(kernel, D, P, Q)
    else:
        near, far = _by_nodes(kernel, D, P, Q, nodes)
    slope = P.T * near[:, None] + Q.dimshuffle(0, 2, 1) * far[:, None]
    return -D[:, :, None] * slope


@block.register
def _(kernel: Stationary, x, baseline, nodes=None):
    kernel._require((0,))
    if kernel.period is not None:
        return block.dispatch(Kernel)(kernel, x, baseline, nodes)
    D = (x - baseline) / kernel.lengthscale
    squares, a = pt.sqr(D), pt.sqr(D).sum(axis=1, keepdims=True)
    if nodes is None:
        bent, rise = _of_length(kernel, a)
        shares = squares / pt.maximum(a, TINY)
        own = shares * (bent + 2.0 * rise)
        return own[:, :, None] * pt.eye(D.type.shape[1]) - (
            shares[:, :, None] * shares[:, None, :] * bent[:, :, None]
        )
    apart, index = np.unique(
        np.abs(nodes.t[:, None] - nodes.t).round(14).ravel(), return_inverse=True
    )
    weights = np.bincount(index, np.multiply.outer(nodes.w, nodes.w).ravel())
    s2 = a * apart**2
    straight = (weights * kernel.radial(s2, 1)).sum(axis=1, keepdims=True)
    bent = (weights * apart**2 * kernel.radial(s2, 2)).sum(axis=1)
    return (squares * straight)[:, :, None] * pt.eye(D.type.shape[1]) - (
        squares[:, :, None] * squares[:, None, :] * bent[:, None, None]
    )


def _of_length(kernel, a):
    """Return 2 a^2 int (1-t) t^2 F_2(a t^2) dt over [0, 1], and 1 - rho, for a = r^2, (m, 1)."""
    t, w = gauss_legendre(24)
    short = pt.minimum(a, SHORT**2)
    s2 = short * t**2
    bent = 2.0 * pt.sqr(short) * (w * (1.0 - t) * t**2 * kernel.radial(s2, 2)).sum(1, keepdims=True)
    rise = short * (w * t * kernel.radial(s2, 1)).sum(1, keepdims=True)
    r = pt.sqrt(pt.maximum(a, SHORT**2))
    long = LONG.get(kernel.name, _bent_by_panels)(kernel, r)
    far = a > SHORT**2
    return pt.switch(far, long, bent), pt.switch(far, 1.0 - kernel.radial(a, 0), rise)


def _bent_by_panels(kernel, r):
    """As the first of `_of_length`, in u = scale sinh y: short steps near 0, long ones far off."""
    t, w = gauss_legendre(24, 4)
    scale = 1.0 if kernel.alpha is None else pt.sqrt(2.0 * kernel.alpha)
    top = pt.arcsinh(r / scale)
    u, stretch = scale * pt.sinh(top * t), scale * top * pt.cosh(top * t)
    values = w * stretch * (1.0 - u / r) * pt.sqr(u) * kernel.radial(pt.sqr(u), 2)
    return 2.0 * r * values.sum(axis=1, keepdims=True)


def _bent_expquad(kernel, r):
    return r * np.sqrt(2.0 * np.pi) * pt.erf(r * np.sqrt(0.5)) + 4.0 * pt.expm1(-0.5 * pt.sqr(r))


def _bent_matern52(kernel, r):
    z = np.sqrt(5.0) * r
    return 4.0 / 3.0 * z - 4.0 + pt.exp(-z) * (4.0 + z * (8.0 + 2.0 * z) / 3.0)


def _bent_matern32(kernel, r):
    z = np.sqrt(3.0) * r
    return 2.0 * z - 4.0 + pt.exp(-z) * (4.0 + 2.0 * z)


def _by_nodes(kernel, D, P, Q, nodes):
    """Moments int (1-t) F_1 and int t F_1 at fixed nodes, (m, n) each."""
    a, p2, q2 = pt.sqr(D).sum(axis=1)[:, None], pt.sqr(P).sum(axis=1), pt.sqr(Q).sum(axis=2)
    return _summed(kernel, nodes, lambda t, w: (t, w), p2, q2, a)


def _few(nodes, together, ndim):
    """Some nodes and weights at a time, on an axis of their own before `ndim` others."""
    for start in range(0, len(nodes.t), together):
        yield tuple(part[start : start + together].reshape((-1, *[1] * ndim)) for part in nodes)


def total_of(parts):
    """Sum as a product with ones, since NumPy adds no more than 32 arrays in one operation."""
    return pt.tensordot(pt.ones(len(parts)), pt.stack(parts), axes=1)


def _summed(kernel, nodes, place, p2, q2, a):
    """Sum the moments over nodes, a few at a time; `place` says where a node lies on the path."""
    near, far = [], []
    for t, w in _few(nodes, TOGETHER, 2):
        t, w = place(t, w)
        s2 = pt.maximum((1 - t) * p2 + t * q2 - t * (1 - t) * a, 0.0)
        profile = w * kernel.radial(s2, 1)
        near.append(((1 - t) * profile).sum(axis=0))
        far.append((t * profile).sum(axis=0))
    return total_of(near), total_of(far)


def _by_panels(kernel, D, P, Q):
    return _by_nodes(kernel, D, P, Q, gauss_legendre(PANEL_NODES, PANELS))


def _expquad(kernel, D, P, Q):
    """Closed form with erf and erfcx, from the end of the path nearer to each other point."""
    r = pt.sqrt(pt.sqr(D).sum(axis=1))[:, None]
    short = r <= CLOSE
    length = pt.switch(short, 1.0, r)
    e = D / length
    u0, u1 = pt.dot(e, P.T), (e[:, None] * Q).sum(axis=2)
    swapped = u0 + u1 < 0
    v0, v1 = pt.switch(swapped, -u1, u0), pt.switch(swapped, -u0, u1)
    span = length * (v0 + v1) / 2.0
    om = -pt.expm1(-span)
    outside = v0 >= 0
    foot = pt.switch(outside, 0.0, pt.switch(swapped, u1, u0))[..., None] * e[:, None]
    residual = pt.sqr(pt.switch(swapped[..., None], Q, P[None]) - foot).sum(axis=2)
    scale = pt.exp(-0.5 * residual) / pt.sqr(length)
    half = np.sqrt(0.5)
    w0, w1 = pt.maximum(v0, 0.0) * half, pt.maximum(v1, 0.0) * half
    tail = pt.erfcx(w0) - pt.exp(-span) * pt.erfcx(w1)
    middle = pt.erf(v1 * half) + pt.erf(-v0 * half)
    G = np.sqrt(np.pi / 2.0) * pt.switch(outside, tail, middle)
    E = om * pt.switch(outside, 1.0, pt.exp(-0.5 * pt.sqr(v0)))
    farther, nearer = (E - v0 * G) * scale, (v1 * G - E) * scale
    near, far = pt.switch(swapped, farther, nearer), pt.switch(swapped, nearer, farther)
    few = _by_nodes(kernel, D, P, Q, gauss_legendre(12))
    return pt.switch(short, few[0], near), pt.switch(short, few[1], far)


def _outward(kernel, D, P, Q):
    """Integrate from the foot of the perpendicular outward, nodes dense where the kink is."""
    a, p2, q2 = pt.sqr(D).sum(axis=1)[:, None], pt.sqr(P).sum(axis=1), pt.sqr(Q).sum(axis=2)
    foot = pt.clip(-pt.dot(D, P.T) / pt.maximum(a, TINY), 0.0, 1.0)
    least = pt.maximum((1 - foot) * p2 + foot * q2 - foot * (1 - foot) * a, 0.0)
    r = pt.sqrt(pt.maximum(a, TINY))
    step = _graded if kernel.name in CLIP else _stretched
    near, far = 0.0, 0.0
    for side, room in ((-1.0, foot), (1.0, 1.0 - foot)):

        def place(y, w, side=side, room=room):
            moved, stretch = step(kernel, room, r, least, y)
            return foot + side * moved, w * stretch

        nodes = gauss_legendre(SIDE_NODES[kernel.name])
        parts = _summed(kernel, nodes, place, p2, q2, a)
        near, far = near + parts[0], far + parts[1]
    return near, far


def _graded(kernel, room, r, least, y):
    """Step room y^q from the foot, cut where the exponential has died, and its rate."""
    power = GRADING[kernel.name]
    reach = pt.minimum(room, CLIP[kernel.name] / r)
    return reach * y**power, reach * (power * y ** (power - 1))


def _stretched(kernel, room, r, least, y):
    """Step kappa sinh(y) / r from the foot, for the rational quadratic's algebraic tails."""
    clip = pt.sqrt(2.0 * kernel.alpha * pt.expm1(41.5 / (kernel.alpha + 1.0)))
    kappa = pt.sqrt(least + 2.0 * kernel.alpha)
    top = pt.arcsinh(pt.minimum(room * r, clip) / kappa)
    return kappa * pt.sinh(top * y) / r, kappa * top * pt.cosh(top * y) / r


EXACT = {"ExpQuad": _expquad, "Matern52": _outward, "Matern32": _outward, "RatQuad": _outward}
LONG = {"ExpQuad": _bent_expquad, "Matern52": _bent_matern52, "Matern32": _bent_matern32}
