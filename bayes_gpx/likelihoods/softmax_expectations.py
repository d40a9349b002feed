"""Expected probabilities of several classes, E softmax(f), and their derivatives in x."""

# In NumPy, for normal f, by quasi-random points: f = m + R z with R R' = V. Derivatives are exact
# for this sum over points.

from typing import Any, cast

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import softmax

from bayes_gpx.numerics.gaussian_expectations import standard_nodes
from bayes_gpx.numerics.jets import Jet

LEAST = 1e-12
"""Added to variances of f before a Cholesky factor, as a share of the largest."""

STEP = 1e-4
"""Step of differences of first derivatives; smaller where f changes faster than x."""


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
    z, weights = standard_nodes(C)
    z = z.T
    scale = np.abs(variance).max(axis=(1, 2))[:, None, None]
    R = np.linalg.cholesky(variance + (LEAST * scale + 1e-300) * np.eye(C))
    p = softmax(mean[:, None] + z @ R.transpose(0, 2, 1), axis=-1)
    value = weights @ p
    if mean_first is None:
        return value, None, None
    # The derivative of R is R Phi(R^-1 V' R^-T), Phi the lower triangle with half the diagonal.
    inverse = np.stack([solve_triangular(root, np.eye(C), lower=True) for root in R])[:, None]
    inner = inverse @ variance_first @ inverse.transpose(0, 1, 3, 2)
    half = np.tril(inner) - 0.5 * inner * np.eye(C)
    turned = R[:, None] @ half
    first = np.empty(mean_first.shape)
    for d in range(first.shape[1]):
        slope = mean_first[:, d, None] + z @ turned[:, d].transpose(0, 2, 1)
        pulled = p * slope
        first[:, d] = weights @ (pulled - p * pulled.sum(axis=-1, keepdims=True))
    return value, first, np.abs(inner).max(axis=(0, 2, 3))
