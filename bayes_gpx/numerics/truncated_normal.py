"""Draws of normals between bounds, by an exact Hamiltonian walk."""

import numpy as np

STEPS = 30
"""Quarter periods that a walk takes. One after another, means of values that are almost linearly
dependent, with bounds three standard deviations away, were correlated by 0.2; after five no more.
"""

INSET = 0.1
"""How far inside its bounds a walk starts, in sds, or in their distance where that is smaller."""

BATCH_BYTES = 32 * 2**20
"""Size of the covariances of those walks that take their steps together."""


def truncated_normal(
    mean: np.ndarray,
    cov: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw from N(mean (D, k), cov (D, k, k)) between `low` and `high` (k,), one draw from each."""
    # In the potential -log N(x | mean, cov), with velocities drawn from N(0, cov), paths are
    # ellipses, x(t) - mean = (x(0) - mean) cos t + v(0) sin t, and reach bounds at known times.
    # There the velocity is reflected, v - 2 cov_i v_i / cov_ii. No step is ever rejected: Pakman
    # and Paninski, "Exact Hamiltonian Monte Carlo for truncated multivariate Gaussians" (2014),
    # sections 2 and 3.1. Each of the `STEPS` is a quarter period. Without bounds one step ends at
    # an independent draw. `cov` is positive definite, and bounds may be infinite.
    sd = np.sqrt(np.diagonal(cov, axis1=1, axis2=2))
    inset = INSET * np.minimum(sd, high - low)
    x = np.clip(mean, low + inset, high - inset) - mean
    size = max(1, BATCH_BYTES // (8 * mean.shape[1] ** 2))
    for first in range(0, len(mean), size):
        own = slice(first, first + size)
        bounds, root = (low - mean[own], high - mean[own]), np.linalg.cholesky(cov[own])
        for _ in range(STEPS):
            normal = rng.standard_normal((*x[own].shape, 1))
            x[own] = _quarter_period(x[own], (root @ normal)[..., 0], cov[own], *bounds)
    return np.clip(mean + x, low, high)  # the bounds but for round-off


def _quarter_period(
    x: np.ndarray, v: np.ndarray, cov: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """Positions (D, k) a quarter of a period later, from positions and velocities."""
    moving, left = np.arange(len(x)), np.full(len(x), 0.5 * np.pi)
    while len(moving):
        at, speed = x[moving], v[moving]
        times = _times_to(at, speed, low[moving], high[moving])
        wall = times.argmin(axis=1)
        own = np.arange(len(moving))
        time = np.minimum(times[own, wall], left[moving])
        cos, sin = np.cos(time)[:, None], np.sin(time)[:, None]
        x[moving], v[moving] = at * cos + speed * sin, speed * cos - at * sin
        reached = times[own, wall] < left[moving]
        left[moving] -= time
        moving, wall = moving[reached], wall[reached]
        back = 2.0 * v[moving, wall] / cov[moving, wall, wall]
        v[moving] -= back[:, None] * cov[moving, :, wall]
    return x


def _times_to(x: np.ndarray, v: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Times in (0, 2 pi] at which ``x cos t + v sin t`` leaves its bounds, infinite if never."""
    radius, phase = np.hypot(x, v), np.arctan2(v, x)
    found = np.full(x.shape, np.inf)
    for bound, sign in ((high, 1.0), (low, -1.0)):
        reaches = sign * bound < radius
        share = np.clip(np.where(reaches, bound, 0.0) / np.where(reaches, radius, 1.0), -1.0, 1.0)
        # Up through `high` before the maximum, at time `phase`, and down through `low` after it.
        since = np.mod(sign * np.arccos(share) - phase, 2.0 * np.pi)
        found = np.minimum(found, np.where(reaches, 2.0 * np.pi - since, np.inf))
    return found
