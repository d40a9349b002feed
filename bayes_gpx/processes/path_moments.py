"""Moments of a radial profile along a straight path: scalars, whatever the dimension."""

# With scaled differences P = (baseline - xs) / lengthscale, Q = (x - xs) / lengthscale and D = Q -
# P, the path passes another point at the distance |P + t D|. A term (k, i, j) asks for the integral
# of (1 - t)^i t^j F_k(|P + t D|^2) over [0, 1]; F_k are the profile's derivatives.

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor
from bayes_gpx.kernels.profiles import TINY, RadialProfile
from bayes_gpx.kernels.stationary import Stationary
from bayes_gpx.numerics.quadrature import Rule, gauss_legendre, in_chunks, total_of

SLOPE_TERMS = ((1, 0, 0), (1, 0, 1))
"""Terms that the attributions of a kernel are made of."""

WEIGHED_SLOPE_TERMS = ((1, 2, 0), (1, 1, 1), (1, 0, 2), (0, 0, 0))
"""Terms of a kernel times a linear kernel, which is linear along the path."""

CLOSED: dict[tuple, Callable[..., Tensor]] = {
    (1, 0, 0): lambda even, first, second, level: even,
    (1, 0, 1): lambda even, first, second, level: first,
    (1, 0, 2): lambda even, first, second, level: second,
    (1, 1, 1): lambda even, first, second, level: first - second,
    (1, 2, 0): lambda even, first, second, level: even - 2.0 * first + second,
    (0, 0, 0): lambda even, first, second, level: level,
}
"""The terms by the integrals of `RadialProfile.of_path`."""

CLOSE, CLOSE_NODES = 0.5, 8
"""Closed forms of a path lose digits on paths shorter than half a lengthscale, where 8
Gauss-Legendre nodes are exact to round-off."""

SHORT, SHORT_NODES = 1.5, 24
"""The same length and nodes for prior variances of attributions."""

PAIR_NODES = 40
"""Gauss-Legendre nodes of one path on each side of its point nearest to another path, for
attributions at two points: enough for 1e-11 of the largest covariance."""

CORNER_NODES, FAR_CORNER_NODES = 10, 24
"""Gauss-Legendre nodes outward from the point that two paths share: near it, where a closed form
loses digits, and all the way, where there is none."""

AT_ONCE = 8
"""So many nodes are evaluated in one array: fewer make larger graphs, more take more memory."""

PANELS, PANEL_NODES = 4, 12
"""Panels, and Gauss-Legendre nodes in each, of a path for a kernel of unknown shape: exact for a
polynomial of degree 23 in each quarter of the path."""

WEIGHED_FAN_TERMS = (
    *((1, i, j) for i, j in ((0, 0), (1, 0), (0, 1), (1, 1), (2, 0))),
    *((2, 2 + i, j) for i in (0, 1) for j in (0, 1)),
    *((2, 1 + i, 1 + j) for i in (0, 1) for j in (0, 1)),
    (0, 0, 0),
)
"""Terms of `of_fan` for a kernel times a linear kernel, which is linear along each path."""


def along(
    profile: RadialProfile,
    D: Tensor,
    P: Tensor,
    Q: Tensor,
    terms: Sequence[tuple],
    nodes: Rule | None = None,
) -> list[Tensor]:
    """Moments along the paths, one array (m, n) for each term (k, i, j)."""
    # D is (m, d), P (d, n), or (m, d, n) with a baseline for each path, and Q (m, d, n). `nodes` is
    # a quadrature; by default the most exact known form.
    if nodes is None and profile.side_nodes is not None:
        sides = gauss_legendre(profile.side_nodes)
        return _from_foot(profile.radial, profile.step, sides, line_of(D, P, Q), terms)
    a, p2, q2 = pt.sqr(D).sum(axis=1)[:, None], pt.sqr(P).sum(axis=-2), pt.sqr(Q).sum(axis=1)

    def place(t: np.ndarray, w: np.ndarray) -> tuple[Any, Any, Tensor]:
        return t, w, pt.maximum((1 - t) * p2 + t * q2 - t * (1 - t) * a, 0.0)

    return _summed(profile.radial, nodes or gauss_legendre(PANEL_NODES, PANELS), place, terms)


def moments_along(
    kernel: Stationary,
    x: Tensor,
    baseline: Tensor,
    xs: Tensor,
    terms: Sequence[tuple],
    nodes: Rule | None = None,
) -> list[Tensor]:
    """Moments of a kernel along the paths from the baseline to x, (m, n) for each of `CLOSED`."""
    # The baseline is (d,) or (m, d). `nodes` is a quadrature; by default the most exact known form.
    closed = _closed_moments(kernel, x, baseline, xs) if nodes is None else None
    if closed is None:
        return along(kernel.profile, *differences(kernel, x, baseline, xs), terms, nodes)
    rows, known = closed
    there = differences(kernel, x[rows], baseline if baseline.ndim == 1 else baseline[rows], xs)
    by_nodes = along(kernel.profile, *there, terms, gauss_legendre(CLOSE_NODES))
    parts = [CLOSED[term](*known) for term in terms]
    return [far[rows].set(near) for far, near in zip(parts, by_nodes, strict=True)]


def _closed_moments(
    kernel: Stationary, x: Tensor, baseline: Tensor, xs: Tensor
) -> tuple[Tensor, tuple] | None:
    """Rows too short for the profile's closed form, and its values for all rows; None without."""
    first = pt.atleast_2d(baseline)
    center = first.mean(axis=0)
    start, stop, others = ((point - center) / kernel.lengthscale for point in (first, x, xs))
    D = stop - start
    r = pt.sqrt(pt.sqr(D).sum(axis=1))[:, None]
    short = r <= CLOSE
    length = pt.switch(short, 1.0, r)
    e = D / length
    there = pt.dot(e, others.T)
    onto = [(e * end).sum(axis=1)[:, None] - there for end in (start, stop)]
    apart = [kernel.squared(end, xs) for end in (first, x)]
    known = kernel.profile.of_path(length, *onto, *apart)
    return None if known is None else (short[:, 0].nonzero()[0], known)


def differences(
    kernel: Stationary, x: Tensor, baseline: Tensor, xs: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return D, P and Q of paths from the baseline to x, as `along` takes them."""
    scale = pt.atleast_1d(1.0 / kernel.lengthscale)[:, None]
    ends = scale * (baseline[..., None] - xs.T), scale * (x[:, :, None] - xs.T)
    return (x - baseline) / kernel.lengthscale, *ends


def _onto(D: Tensor, P: Tensor) -> Tensor:
    """Components of P, (d, n) or (m, d, n), along each row of D."""
    return pt.dot(D, P) if P.ndim == 2 else (D[:, None] @ P)[:, 0]


def of_length(profile: RadialProfile, a: Tensor) -> tuple[Tensor, Tensor]:
    """Return 2 a^2 int (1-t) t^2 F_2(a t^2) dt over [0, 1], and 1 - rho(r), at a = r^2, (m, 1)."""
    t, w = gauss_legendre(SHORT_NODES)
    short = pt.minimum(a, SHORT**2)
    s2 = short * t**2
    bent = (w * (1.0 - t) * t**2 * profile.radial(s2, 2)).sum(1, keepdims=True)
    bent = 2.0 * pt.sqr(short) * bent
    rise = short * (w * t * profile.radial(s2, 1)).sum(1, keepdims=True)
    r = pt.sqrt(pt.maximum(a, SHORT**2))
    far = a > SHORT**2
    bent = pt.switch(far, profile.long_bend(r), bent)
    return bent, pt.switch(far, 1.0 - profile.radial(a, 0), rise)


def of_two(profile: RadialProfile, a: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Double integrals over s and t in [0, 1], both along one path of squared length a, (m, 1)."""
    # Tensors (m,) of F_0, F_1, tau^2 F_2 and tau^2 F_1 at a tau^2, with tau = |t - s|; and of t s
    # times these.
    tau, stretch, w = profile.apart(pt.sqrt(pt.maximum(a, TINY)))
    s2, rest = a * pt.sqr(tau), 1.0 - tau
    first = profile.radial(s2, 1)
    profiles = (
        profile.radial(s2, 0),
        first,
        pt.sqr(tau) * profile.radial(s2, 2),
        pt.sqr(tau) * first,
    )

    def integrals(weight: Tensor) -> list[Tensor]:
        return [(w * stretch * weight * profile).sum(axis=1) for profile in profiles]

    return integrals(2.0 * rest), integrals(rest**2 * (2.0 / 3.0 * rest + tau))


class _Line(NamedTuple):
    """How a path D from P to Q, all relative to another point, passes that point."""

    a: Tensor  # |D|^2
    start: Tensor  # D'P
    end: Tensor  # D'Q
    left: Tensor  # share of the path before its foot, the point nearest to the other point
    right: Tensor  # share of the path after its foot
    least: Tensor  # squared distance at the foot


def line_of(D: Tensor, P: Tensor, Q: Tensor) -> "_Line":
    """The `_Line` of each path and other point, (m, n), for D, P and Q as `along` takes them."""
    a = pt.sqr(D).sum(axis=1)[:, None]
    return _line(P, Q, D[:, :, None], a, (_onto(D, P), _onto(D, Q)), axis=1)


def _line(
    P: Tensor, Q: Tensor, D: Tensor, a: Tensor, products: tuple[Tensor, Tensor], axis: int
) -> _Line:
    """The `_Line` from P to Q; D = Q - P. The foot is found from the nearer end, to save digits."""
    start, end = products
    length = pt.maximum(a, TINY)
    # PyTensor's clip takes ten times as long as these two.
    left, right = (pt.maximum(pt.minimum(v / length, 1.0), 0.0) for v in (-start, end))
    from_start, from_end = (pt.expand_dims(share, axis) for share in (left, right))
    foot = pt.switch(from_start < 0.5, P + from_start * D, Q - from_end * D)
    return _Line(a, start, end, left, right, pt.sqr(foot).sum(axis=axis))


def _summed(radial: Callable, nodes: Rule, place: Callable, terms: Sequence[tuple]) -> list[Tensor]:
    """Moments by a quadrature; `place` takes a node and weight to t, weight, squared distance."""
    parts = []
    for t, w in in_chunks(nodes, AT_ONCE, 2):
        t, w, s2 = place(t, w)
        profiles = {k: w * radial(s2, k) for k in {k for k, _, _ in terms}}
        parts.append([((1 - t) ** i * t**j * profiles[k]).sum(axis=0) for k, i, j in terms])
    return [total_of(column) for column in zip(*parts, strict=True)]


def _from_foot(
    radial: Callable, step: Callable, nodes: Rule, line: _Line, terms: Sequence[tuple]
) -> list[Tensor]:
    """Moments by nodes on both sides of the foot, where derivatives of a profile have a kink."""
    # One tensor for each term, of the shape that the line's parts are broadcast to.
    r, sides = pt.sqrt(pt.maximum(line.a, TINY)), []
    for side, room, bend in ((-1.0, line.left, -line.end), (1.0, line.right, line.start)):
        rise = 2.0 * pt.maximum(bend, 0.0)  # above 0 where the foot is an end

        def place(
            y: np.ndarray,
            w: np.ndarray,
            side: float = side,
            room: Tensor = room,
            rise: Tensor = rise,
        ) -> tuple[Any, Any, Tensor]:
            moved, stretch = step(room, r, line.least, y)
            s2 = line.least + moved * (rise + moved * line.a)
            return line.left + side * moved, w * stretch, s2

        sides.append(_summed(radial, nodes, place, terms))
    return [left + right for left, right in zip(*sides, strict=True)]


def of_pair(profile: RadialProfile, D: Tensor, E: Tensor) -> list[Tensor]:
    """Moments that the covariance of attributions at two points is made of, four of (m, n)."""
    # With v = D - t E, integrals over t in [0, 1] of M_1, M_2, t M_2 and t^2 M_2 at |v|^2, where
    # M_k(|v|^2) is the integral of p^(2k - 1) F_k(p^2 |v|^2) over p in [0, 1].
    apart = D[:, None] - E
    products = -pt.dot(D, E.T), -(apart * E).sum(axis=2)
    line = _line(D[:, None], apart, -E, pt.sqr(E).sum(axis=1), products, axis=2)
    terms = (((1, 0), 0, 0), ((2, 2), 0, 0), ((2, 2), 0, 1), ((2, 2), 0, 2))
    return _around_corner(profile, line, terms)


def of_fan(
    profile: RadialProfile, D: Tensor, terms: Sequence[tuple], nodes: Rule | None = None
) -> list[Tensor]:
    """Double integrals over each pair of paths that leave one point, (m, paths, paths) each."""
    # D (m, paths, d) are scaled ways from the common point to the ends. A term (k, i, j) is the
    # integral of s^i t^j F_k(|s D_b - t D_c|^2) over s and t in [0, 1]. `nodes` is a quadrature of
    # both, from the paths' ends to the common point.
    apart = D[:, :, None] - D[:, None]
    far = pt.sqr(D).sum(axis=2)
    ends = pt.broadcast_arrays(far[:, :, None], far[:, None])
    dot = 0.5 * (ends[0] + ends[1] - pt.sqr(apart).sum(axis=3))  # exact for a path with itself
    if nodes is not None:
        return _of_fan_by_rule(profile, ends, dot, terms, nodes)
    products = -dot, -(apart * D[:, None]).sum(axis=3)
    line = _line(D[:, :, None], apart, -D[:, None], ends[1], products, axis=3)
    line = _Line(*(part.reshape((D.shape[0], -1)) for part in line))
    asked = sorted({((k, i + j), 0, power) for k, i, j in terms for power in (i, j)})
    found = _around_corner(profile, line, asked)
    first = {term: part.reshape(dot.shape) for term, part in zip(asked, found, strict=True)}
    return [
        first[(k, i + j), 0, j] + first[(k, i + j), 0, i].dimshuffle(0, 2, 1) for k, i, j in terms
    ]


def _of_fan_by_rule(
    profile: RadialProfile, ends: Sequence[Tensor], dot: Tensor, terms: Sequence[tuple], nodes: Rule
) -> list[Tensor]:
    """As `of_fan`; `ends` are |D_b|^2 and |D_c|^2, `dot` is D_b'D_c, (m, paths, paths) each."""
    s, parts = 1.0 - nodes.t[:, None, None, None], []
    for t, w in zip(1.0 - nodes.t, nodes.w, strict=True):
        s2 = pt.maximum(s**2 * ends[0] + t**2 * ends[1] - 2.0 * s * t * dot, 0.0)
        weights = w * nodes.w[:, None, None, None]
        profiles = {k: weights * _off_kink(profile, s2, k) for k in {k for k, _, _ in terms}}
        parts.append([(s**i * t**j * profiles[k]).sum(axis=0) for k, i, j in terms])
    return [total_of(column) for column in zip(*parts, strict=True)]


def _off_kink(profile: RadialProfile, s2: Tensor, k: int) -> Tensor:
    """F_k, but 0 for F_2 where points meet: F_2 is multiplied by their squared distance."""
    return profile.radial(s2, k) if k < 2 else pt.switch(s2 > 0.0, profile.radial(s2, k), 0.0)


def _around_corner(profile: RadialProfile, line: _Line, terms: Sequence[tuple]) -> list[Tensor]:
    """Integrals over the triangle t < s of the unit square, by s = p and t = p theta."""
    # A term ((k, power), 0, j) asks for the integral over theta of theta^j times that over p of
    # p^(power + 1) F_k(p^2 s2), where s2 is the line's squared distance at theta.
    t, w = (part[:, None, None, None] for part in gauss_legendre(CORNER_NODES))
    y, rate = (part[:, None, None, None] for part in gauss_legendre(FAR_CORNER_NODES))

    def radial(s2: Tensor, term: tuple[int, int]) -> Tensor:
        k, power = term
        if power != 2 * k - 2:
            p = y**2  # dense near the corner, for long paths
            weights = 2.0 * y * rate * p ** (power + 1)
            return (weights * _off_kink(profile, s2 * p**2, k)).sum(axis=0)
        closed = profile.of_ray(s2, k)
        if closed is not None:
            return closed
        near, far = pt.minimum(s2, 1.0), pt.maximum(s2, 1.0)
        by_nodes = (w * t ** (power + 1) * _off_kink(profile, near * t**2, k)).sum(axis=0)
        rise = 1.0 - profile.radial(far, 0)
        closed = rise / far
        if k == 2:
            closed = (2.0 * rise - far * profile.radial(far, 1)) / pt.sqr(far)
        return pt.switch(s2 < 1.0, by_nodes, closed)

    return _from_foot(radial, _apart, gauss_legendre(PAIR_NODES), line, terms)


def _apart(room: Tensor, r: Tensor, least: Tensor, y: np.ndarray) -> tuple[Tensor, Tensor]:
    """Step kappa sinh(y^2) / r from the foot: dense at a kink, wide in algebraic tails."""
    kappa = pt.sqrt(least + 1.0)
    top = pt.arcsinh(room * r / kappa)
    grown = pt.expm1(top * y**2)  # gives sinh and cosh in half of their time
    back = grown / (1.0 + grown)
    rate = 2.0 * y * top * (1.0 + 0.5 * grown * back)
    return 0.5 * kappa / r * (grown + back), kappa / r * rate
