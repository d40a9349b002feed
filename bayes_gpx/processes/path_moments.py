"""Moments of a stationary kernel along a straight path: scalars, whatever the dimension.

With scaled differences P = (baseline - xs) / lengthscale, Q = (x - xs) / lengthscale and D = Q - P,
the path passes another point at the distance |P + t D|. A term (k, i, j) asks for the integral of
``(1 - t)^i t^j F_k(|P + t D|^2)`` over [0, 1]; F_k are the kernel's radial derivatives.
"""

from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.numerics.quadrature import few, gauss_legendre, total_of

SLOPE_TERMS = ((1, 1, 0), (1, 0, 1))
"""What the attributions of a kernel need."""
WEIGHED_SLOPE_TERMS = ((1, 2, 0), (1, 1, 1), (1, 0, 2), (0, 0, 0))
"""What they need if the kernel is multiplied by a function that is linear along the path."""

TINY = 1e-300
CLOSE = 0.05
"""Path lengths (in lengthscales) up to which the squared exponential is integrated by nodes."""

SHORT = 1.5
"""Path lengths up to which prior variances are integrated by nodes."""

PAIR_NODES = 40
"""On each side of the foot, where attributions at two points meet."""

TOGETHER = 8
"""Nodes that are evaluated in one array."""

PANELS, PANEL_NODES = 4, 12
"""Of kernels without a form of their own."""

CLIP = {"ExpQuad": 8.6, "Matern52": 18.5, "Matern32": 24.0}
GRADING = {"ExpQuad": 1, "Matern52": 2, "Matern32": 3}
SIDE_NODES = {"ExpQuad": 32, "Matern52": 24, "Matern32": 48, "RatQuad": 32}


def along(kernel, D, P, Q, terms, nodes=None):
    """Moments along the paths, one array (m, n) for each term.

    Parameters
    ----------
    kernel : Stationary
    D : tensor (m, d)
    P : tensor (d, n), or (m, d, n) for a baseline of each path
    Q : tensor (m, d, n)
    terms : tuple of (k, i, j)
    nodes : Rule, optional
        A quadrature; the most exact form known otherwise.
    """
    if nodes is None and kernel.name == "ExpQuad" and terms == SLOPE_TERMS:
        return _expquad(kernel, D, P, Q)
    if nodes is None and kernel.name in SIDE_NODES:
        return _outward(kernel, line_of(D, P, Q), terms)
    a, p2, q2 = pt.sqr(D).sum(axis=1)[:, None], pt.sqr(P).sum(axis=-2), pt.sqr(Q).sum(axis=1)

    def place(t, w):
        return t, w, pt.maximum((1 - t) * p2 + t * q2 - t * (1 - t) * a, 0.0)

    return _summed(kernel.radial, nodes or gauss_legendre(PANEL_NODES, PANELS), place, terms)


def _onto(D, P):
    """Components of P, (d, n) or (m, d, n), along each row of D."""
    return pt.dot(D, P) if P.ndim == 2 else (D[:, :, None] * P).sum(axis=1)


def of_length(kernel, a):
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


def of_two(kernel, a):
    """Double integrals over a path of length sqrt(a) and itself, a (m, 1), for tau = |t - s|.

    Returns
    -------
    plain, mixed : lists of tensors (m,)
        Integrals of F_0, F_1, tau^2 F_2 and tau^2 F_1; and of t s times them.
    """
    tau, stretch, w = _stretched_apart(kernel, pt.sqrt(pt.maximum(a, TINY)))
    s2, rest = a * pt.sqr(tau), 1.0 - tau
    first = kernel.radial(s2, 1)
    profiles = (
        kernel.radial(s2, 0),
        first,
        pt.sqr(tau) * kernel.radial(s2, 2),
        pt.sqr(tau) * first,
    )
    plain, mixed = 2.0 * rest, rest**2 * (2.0 / 3.0 * rest + tau)
    return tuple(
        [(w * stretch * weight * profile).sum(axis=1) for profile in profiles]
        for weight in (plain, mixed)
    )


def _stretched_apart(kernel, r):
    """Distances tau in [0, 1] of two points of a path: short steps near 0, long ones far off."""
    y, w = gauss_legendre(24, 4)
    scale = 1.0 if kernel.alpha is None else pt.sqrt(2.0 * kernel.alpha)
    top = pt.arcsinh(r / scale)
    return scale * pt.sinh(top * y) / r, scale * top * pt.cosh(top * y) / r, w


def _bent_by_panels(kernel, r):
    """As the first of `of_length`."""
    tau, stretch, w = _stretched_apart(kernel, r)
    values = w * stretch * (1.0 - tau) * pt.sqr(tau) * kernel.radial(pt.sqr(r * tau), 2)
    return 2.0 * r**4 * values.sum(axis=1, keepdims=True)


def _bent_expquad(kernel, r):
    return r * np.sqrt(2.0 * np.pi) * pt.erf(r * np.sqrt(0.5)) + 4.0 * pt.expm1(-0.5 * pt.sqr(r))


def _bent_matern52(kernel, r):
    z = np.sqrt(5.0) * r
    return 4.0 / 3.0 * z - 4.0 + pt.exp(-z) * (4.0 + z * (8.0 + 2.0 * z) / 3.0)


def _bent_matern32(kernel, r):
    z = np.sqrt(3.0) * r
    return 2.0 * z - 4.0 + pt.exp(-z) * (4.0 + 2.0 * z)


class _Line(NamedTuple):
    """Squared length of a path, and of its point nearest to another one: where it is, how near.

    `left` and `right` are its shares of the path to the start and to the end; `start` and `end` the
    products of the differences from the other point there with the path's own.
    """

    a: Any
    start: Any
    end: Any
    left: Any
    right: Any
    least: Any


def line_of(D, P, Q):
    """Line of each path and other point, (m, n), for D, P and Q as `along` takes them."""
    a = pt.sqr(D).sum(axis=1)[:, None]
    return _line(P, Q, D[:, :, None], a, (_onto(D, P), _onto(D, Q)), axis=1)


def _line(P, Q, D, a, products, axis):
    """Line from P to Q, D = Q - P; from the nearer end, as a long one tells no digits of it."""
    start, end = products
    length = pt.maximum(a, TINY)
    left, right = pt.clip(-start / length, 0.0, 1.0), pt.clip(end / length, 0.0, 1.0)
    from_start, from_end = (pt.expand_dims(share, axis) for share in (left, right))
    foot = pt.switch(from_start < 0.5, P + from_start * D, Q - from_end * D)
    return _Line(a, start, end, left, right, pt.sqr(foot).sum(axis=axis))


def _summed(radial, nodes, place, terms):
    """Sum over nodes, a few at a time; `place` says where on the path a node lies, and how far."""
    parts = []
    for t, w in few(nodes, TOGETHER, 2):
        t, w, s2 = place(t, w)
        profiles = {k: w * radial(s2, k) for k in {k for k, _, _ in terms}}
        parts.append([((1 - t) ** i * t**j * profiles[k]).sum(axis=0) for k, i, j in terms])
    return [total_of(column) for column in zip(*parts, strict=True)]


def _expquad(kernel, D, P, Q):
    """Closed form with erf and erfcx, from the end of the path nearer to each other point."""
    r = pt.sqrt(pt.sqr(D).sum(axis=1))[:, None]
    short = r <= CLOSE
    length = pt.switch(short, 1.0, r)
    e = D / length
    u0, u1 = _onto(e, P), _onto(e, Q)
    swapped = u0 + u1 < 0
    v0, v1 = pt.switch(swapped, -u1, u0), pt.switch(swapped, -u0, u1)
    span = length * (v0 + v1) / 2.0
    om = -pt.expm1(-span)
    outside = v0 >= 0
    foot = pt.switch(outside, 0.0, pt.switch(swapped, u1, u0))[:, None] * e[:, :, None]
    residual = pt.sqr(pt.switch(swapped[:, None], Q, P) - foot).sum(axis=1)
    scale = pt.exp(-0.5 * residual) / pt.sqr(length)
    half = np.sqrt(0.5)
    w0, w1 = pt.maximum(v0, 0.0) * half, pt.maximum(v1, 0.0) * half
    tail = pt.erfcx(w0) - pt.exp(-span) * pt.erfcx(w1)
    middle = pt.erf(v1 * half) + pt.erf(-v0 * half)
    G = np.sqrt(np.pi / 2.0) * pt.switch(outside, tail, middle)
    E = om * pt.switch(outside, 1.0, pt.exp(-0.5 * pt.sqr(v0)))
    farther, nearer = (E - v0 * G) * scale, (v1 * G - E) * scale
    near, far = pt.switch(swapped, farther, nearer), pt.switch(swapped, nearer, farther)
    by_nodes = along(kernel, D, P, Q, SLOPE_TERMS, gauss_legendre(8))
    return [pt.switch(short, *pair) for pair in zip(by_nodes, (near, far), strict=True)]


def _outward(kernel, line, terms):
    """Integrate from the foot of the perpendicular outward, nodes dense where the kink is."""
    step = _graded if kernel.name in CLIP else _stretched
    nodes = gauss_legendre(SIDE_NODES[kernel.name])
    return _from_foot(kernel, kernel.radial, step, nodes, line, terms)


def _from_foot(kernel, radial, step, nodes, line, terms):
    """Sum over nodes on both sides of the path's point that is nearest to the other point."""
    r, sides = pt.sqrt(pt.maximum(line.a, TINY)), []
    for side, room, bend in ((-1.0, line.left, -line.end), (1.0, line.right, line.start)):
        rise = 2.0 * pt.maximum(bend, 0.0)  # above 0 where the nearest point is an end

        def place(y, w, side=side, room=room, rise=rise):
            moved, stretch = step(kernel, room, r, line.least, y)
            s2 = line.least + moved * (rise + moved * line.a)
            return line.left + side * moved, w * stretch, s2

        sides.append(_summed(radial, nodes, place, terms))
    return [left + right for left, right in zip(*sides, strict=True)]


def of_pair(kernel, D, E):
    """Moments that the covariance of attributions at two points is made of, (m, n) each.

    With v = D - t E: the integral over [0, 1] of M_1(|v|^2), and those of 1, t and t^2 times
    M_2(|v|^2), where M_k is the integral of p^(2k - 1) F_k(p^2 |v|^2) over p in [0, 1].
    """
    apart = D[:, None] - E
    products = -pt.dot(D, E.T), -(apart * E).sum(axis=2)
    line = _line(D[:, None], apart, -E, pt.sqr(E).sum(axis=1), products, axis=2)
    terms = (((1, 0), 0, 0), ((2, 2), 0, 0), ((2, 2), 0, 1), ((2, 2), 0, 2))
    return _around_corner(kernel, line, terms)


def of_fan(kernel, D, terms, nodes=None):
    """Double integrals over each pair of paths that leave one point, (m, paths, paths) each.

    Parameters
    ----------
    kernel : Stationary
    D : tensor (m, paths, d)
        Scaled ways from the common point to the paths' ends.
    terms : tuple of (k, i, j)
        Ask for the integral of ``s^i t^j F_k(|s D_b - t D_c|^2)`` over s and t in [0, 1].
    nodes : Rule, optional
        A quadrature of both, from the paths' ends to the common point.
    """
    apart = D[:, :, None] - D[:, None]
    far = pt.sqr(D).sum(axis=2)
    ends = pt.broadcast_arrays(far[:, :, None], far[:, None])
    dot = 0.5 * (ends[0] + ends[1] - pt.sqr(apart).sum(axis=3))  # exact for a path with itself
    if nodes is not None:
        return _of_fan_by_rule(kernel, ends, dot, terms, nodes)
    products = -dot, -(apart * D[:, None]).sum(axis=3)
    line = _line(D[:, :, None], apart, -D[:, None], ends[1], products, axis=3)
    line = _Line(*(part.reshape((D.shape[0], -1)) for part in line))
    asked = sorted({((k, i + j), 0, power) for k, i, j in terms for power in (i, j)})
    found = _around_corner(kernel, line, asked)
    first = {term: part.reshape(dot.shape) for term, part in zip(asked, found, strict=True)}
    return [
        first[(k, i + j), 0, j] + first[(k, i + j), 0, i].dimshuffle(0, 2, 1) for k, i, j in terms
    ]


def _of_fan_by_rule(kernel, ends, dot, terms, nodes):
    s, parts = 1.0 - nodes.t[:, None, None, None], []
    for t, w in zip(1.0 - nodes.t, nodes.w, strict=True):
        s2 = pt.maximum(s**2 * ends[0] + t**2 * ends[1] - 2.0 * s * t * dot, 0.0)
        weights = w * nodes.w[:, None, None, None]
        profiles = {k: weights * _off_kink(kernel, s2, k) for k in {k for k, _, _ in terms}}
        parts.append([(s**i * t**j * profiles[k]).sum(axis=0) for k, i, j in terms])
    return [total_of(column) for column in zip(*parts, strict=True)]


def _off_kink(kernel, s2, k):
    """F_k, and 0 for F_2 where points meet, as it comes with their distance squared."""
    return kernel.radial(s2, k) if k < 2 else pt.switch(s2 > 0.0, kernel.radial(s2, k), 0.0)


def _around_corner(kernel, line, terms):
    """Integrals over the triangle t < s of the unit square, by s = p and t = p theta.

    A term ((k, power), 0, j) asks for ``theta^j`` times that of ``p^(power + 1) F_k`` over p.
    """
    t, w = (part[:, None, None, None] for part in gauss_legendre(10))
    y, rate = (part[:, None, None, None] for part in gauss_legendre(24))

    def radial(s2, term):
        k, power = term
        if power != 2 * k - 2:
            p = y**2  # dense near the corner, for long paths
            return (2.0 * y * rate * p ** (power + 1) * _off_kink(kernel, s2 * p**2, k)).sum(axis=0)
        near, far = pt.minimum(s2, 1.0), pt.maximum(s2, 1.0)
        by_nodes = (w * t ** (power + 1) * _off_kink(kernel, near * t**2, k)).sum(axis=0)
        rise = 1.0 - kernel.radial(far, 0)
        closed = rise / far
        if k == 2:
            closed = (2.0 * rise - far * kernel.radial(far, 1)) / pt.sqr(far)
        return pt.switch(s2 < 1.0, by_nodes, closed)

    return _from_foot(kernel, radial, _apart, gauss_legendre(PAIR_NODES), line, terms)


def _apart(kernel, room, r, least, y):
    """Step kappa sinh(y^2) / r from the foot: dense at a kink, wide in algebraic tails."""
    kappa = pt.sqrt(least + 1.0)
    top = pt.arcsinh(room * r / kappa)
    rate = 2.0 * y * kappa * top * pt.cosh(top * y**2)
    return kappa * pt.sinh(top * y**2) / r, rate / r


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


LONG = {"ExpQuad": _bent_expquad, "Matern52": _bent_matern52, "Matern32": _bent_matern32}
