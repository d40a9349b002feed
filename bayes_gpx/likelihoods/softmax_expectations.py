"""Expected probabilities of several classes, E softmax(f), and their derivatives in x."""

# In NumPy, for normal f, by quasi-random points: f = m + R z with R R' = V. Derivatives are exact
# for this sum over points.

from typing import Any, cast

import numpy as np
from scipy.linalg import solve_triangular

from bayes_gpx.numerics.gaussian_expectations import standard_nodes
from bayes_gpx.numerics.jets import Jet

FEW_CLASSES, POINTS = 3, (2048, 8192)
"""Quasi-random points of up to three classes, and of more.

For up to ten classes, and standard deviations of f up to 3, the largest error of a probability is
below 1e-3 (`benchmarks/class_probabilities.py`).
"""

NUMBERS = 2**18
"""Most numbers of an array: larger ones do not stay in a processor's cache."""

LEAST = 1e-12
"""Added to variances of f before a Cholesky factor, as a share of the largest."""

STEP = 1e-4
"""Step of differences of first derivatives; smaller where f changes faster than x."""


def points(classes: int) -> int:
    """How many points the probabilities of so many classes are averaged over."""
    return POINTS[classes > FEW_CLASSES]


def expected_probabilities(mean: Jet, variance: Jet) -> tuple[Jet, ...]:
    """Jets of each class's expected probability, from jets of f with last dims (C,) and (C, C)."""
    if mean.first is None:
        value = _at(mean.value, variance.value)[0]
        return tuple(Jet(value[:, c]) for c in range(value.shape[1]))
    value, first, rates = _at(mean.value, variance.value, mean.first, variance.first)
    if mean.second is None:
        return tuple(Jet(value[:, c], first[..., c]) for c in range(value.shape[1]))
    second = np.empty((*first.shape[:2], *first.shape[1:]))
    for e in range(first.shape[1]):
        h = STEP / max(1.0, np.abs(mean.first[:, e]).max(), rates[e])
        ends = []
        for t in (h, -h):
            (m, m_d), (V, V_d) = (_moved(jet, e, t) for jet in (mean, variance))
            ends.append(_at(m, V, m_d, V_d)[1])
        second[:, :, e] = (ends[0] - ends[1]) / (2.0 * h)
    second = 0.5 * (second + second.transpose(0, 2, 1, 3))
    return tuple(Jet(value[:, c], first[..., c], second[..., c]) for c in range(value.shape[1]))


def probabilities(mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Expected probabilities (..., C) of f ~ N(mean, covariance), (..., C) and (..., C, C)."""
    C = mean.shape[-1]
    found = _at(mean.reshape((-1, C)), covariance.reshape((-1, C, C)))[0]
    return found.reshape(mean.shape)


def _moved(jet: Jet, e: int, t: float) -> tuple[np.ndarray, np.ndarray]:
    """Taylor expansions of the value and its first derivatives, a way t along feature e."""
    value, first, second = cast(tuple[np.ndarray, np.ndarray, np.ndarray], jet)
    return value + t * first[:, e] + 0.5 * t**2 * second[:, e, e], first + t * second[:, e]


def _at(
    mean: np.ndarray,
    variance: np.ndarray,
    mean_first: np.ndarray | None = None,
    variance_first: np.ndarray | None = None,
) -> tuple[np.ndarray, Any, Any]:
    """Expected probabilities (m, C), derivatives (m, d, C), and relative rates of V (d,)."""
    C = mean.shape[1]
    size = max(1, NUMBERS // (points(C) * C))
    if len(mean) > size:
        rows = [slice(first, first + size) for first in range(0, len(mean), size)]
        jets: Any = mean, variance, mean_first, variance_first
        parts: list[Any] = [[None if v is None else v[own] for v in jets] for own in rows]
        found = [_of_rows(*part) for part in parts]
    else:
        found = [_of_rows(mean, variance, mean_first, variance_first)]
    values, firsts, rates = zip(*found, strict=True)
    if mean_first is None:
        return np.concatenate(values), None, None
    return np.concatenate(values), np.concatenate(firsts), np.max(rates, axis=0)


def _of_rows(
    mean: np.ndarray, variance: np.ndarray, mean_first: Any, variance_first: Any
) -> tuple[np.ndarray, Any, Any]:
    """As `_at`, of as many rows as memory holds."""
    C = mean.shape[1]
    z, weights = standard_nodes(C, points(C))
    scale = np.abs(variance).max(axis=(1, 2))[:, None, None]
    R = np.linalg.cholesky(variance + (LEAST * scale + 1e-300) * np.eye(C))
    p = R @ z
    p += mean[:, :, None]
    p -= p.max(axis=1, keepdims=True)
    np.exp(p, out=p)
    p /= p.sum(axis=1, keepdims=True)
    value = p @ weights
    if mean_first is None:
        return value, None, None
    # The derivative of R is R Phi(R^-1 V' R^-T), Phi the lower triangle with half the diagonal.
    inverse = np.stack([solve_triangular(root, np.eye(C), lower=True) for root in R])[:, None]
    inner = inverse @ variance_first @ inverse.transpose(0, 1, 3, 2)
    half = np.tril(inner) - 0.5 * inner * np.eye(C)
    turned = R[:, None] @ half
    # sum w p_c (s_c - sum_j p_j s_j) with s = m' + R' z needs sums of p and p p' only, times 1 and
    # z, and these serve all features.
    factors = weights * np.concatenate([np.ones((1, len(weights))), z])
    alone = p @ factors.T  # (m, C, 1 + C)
    both = np.stack([(p[:, c, None] * p) @ factors.T for c in range(C)], axis=1)  # (m, C, C, 1 + C)
    slopes = np.concatenate([mean_first[..., None], turned], axis=3)  # (m, d, C, 1 + C)
    first = np.einsum("mck,mdck->mdc", alone, slopes) - np.einsum("mcjk,mdjk->mdc", both, slopes)
    return value, first, np.abs(inner).max(axis=(0, 2, 3))
