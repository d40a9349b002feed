"""Quadrature on [0, 1]: Gauss-Legendre, and the rules of the papers; interpolation there."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor

METHODS = ("gauss_legendre", "right", "trapezoid", "simpson")


class Rule(NamedTuple):
    """Nodes t and weights w of a quadrature on [0, 1]."""

    t: np.ndarray
    w: np.ndarray


def gauss_legendre(n: int, panels: int = 1) -> Rule:
    """Gauss-Legendre nodes on [0, 1], n in each of equal panels."""
    t, w = np.polynomial.legendre.leggauss(n)
    starts = np.arange(panels)[:, None]
    return Rule(((starts + (t + 1) / 2) / panels).ravel(), np.tile(w / 2 / panels, panels))


def chebyshev(n: int) -> np.ndarray:
    """Chebyshev points of [0, 1] for polynomials of degree n, from 0 to 1, (n + 1,)."""
    return np.sin(0.5 * np.pi * np.arange(n + 1) / n) ** 2


def interpolation(n: int, at: np.ndarray) -> np.ndarray:
    """Matrix from a polynomial's values at `chebyshev(n)` to its values `at` other points."""
    # By the barycentric formula; none of `at` may be one of the Chebyshev points.
    weights = (-1.0) ** np.arange(n + 1)
    weights[[0, -1]] /= 2
    shares = weights / (np.asarray(at)[:, None] - chebyshev(n))
    return shares / shares.sum(axis=1, keepdims=True)


def rule(method: str, steps: int | None) -> Rule:
    """Nodes of a method by name, with `steps` intervals or Gauss-Legendre nodes."""
    if method not in METHODS:
        raise ValueError(f"Unknown method {method!r}. Pass 'exact' or one of {METHODS}.")
    least = 2 if method == "simpson" else 1
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < least or steps % least:
        kind = "an even number, 2 or more" if least == 2 else "a whole number, 1 or more"
        raise ValueError(f"steps is {steps!r}; method {method!r} expects {kind}.")
    t, w = np.linspace(0.0, 1.0, steps + 1), np.full(steps + 1, 1.0 / steps)
    if method == "right":
        return Rule(t[1:], w[1:])
    if method == "trapezoid":
        w[[0, -1]] /= 2
        return Rule(t, w)
    if method == "simpson":
        w *= np.where(np.arange(steps + 1) % 2, 4.0, 2.0) / 3.0
        w[[0, -1]] = 1.0 / (3.0 * steps)
        return Rule(t, w)
    return gauss_legendre(steps)


MOST_CHUNKS = 24


def in_chunks(nodes: Sequence[np.ndarray], size: int, ndim: int) -> Iterator[tuple]:
    """Yield `size` nodes and weights at a time, on an axis before `ndim` axes of length 1."""
    # Chunks of many nodes are larger, because each chunk is compiled as a piece of the graph.
    size = max(size, -(-len(nodes[0]) // MOST_CHUNKS))
    for start in range(0, len(nodes[0]), size):
        yield tuple(part[start : start + size].reshape((-1, *[1] * ndim)) for part in nodes)


def squared(nodes: Rule) -> tuple[np.ndarray, ...]:
    """The rule for the unit square: both places and the weight of each pair of nodes."""
    pairs = [part.ravel() for part in np.meshgrid(nodes.t, nodes.t, indexing="ij")]
    return *pairs, np.outer(nodes.w, nodes.w).ravel()


def total_of(parts: Sequence[Tensor]) -> Tensor:
    """Sum as a product with ones, since NumPy adds no more than 32 arrays in one operation."""
    return pt.tensordot(pt.ones(len(parts)), pt.stack(parts), axes=1)
