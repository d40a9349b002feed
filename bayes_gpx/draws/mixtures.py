"""Conditional normals in user units, and the mixture of them over hyperparameter draws."""

from __future__ import annotations

from functools import cached_property
from typing import cast

import numpy as np

from bayes_gpx.likelihoods.predictive import Predictive
from bayes_gpx.numerics.jets import Jet
from bayes_gpx.numerics.linear_algebra import sqrt_psd


class Conditional:
    """A quantity's normal distribution for one hyperparameter draw, in user units.

    `mean` (m * c,) is obs-major, on the model's scale. `second` is the "variance" (m * c,), "block"
    (m, c, c) or "cov" (m * c, m * c), as named by `moment`. `picked` are the requested components.
    `quantity` has the factor to user units, and the numbers that add up to one component.
    """

    def __init__(self, mean, second, moment, picked, quantity):
        c, self._moment = quantity.width, moment
        factor, add = quantity.factor[picked], quantity.mixed
        offset = np.broadcast_to(quantity.offset, len(quantity.factor))[picked]
        self.mean = add(mean.reshape((-1, c)), 1)[:, picked] * factor + offset
        if moment == "variance":
            self._second = second.reshape((-1, c))[:, picked] * factor**2
        elif moment == "block":
            block = add(add(second, 1), 2)
            self._second = block[:, picked][:, :, picked] * np.multiply.outer(factor, factor)
        else:
            m = len(self.mean)
            full = add(add(second.reshape((m, c, m, c)), 1), 3)[:, picked][..., picked]
            self._second = full * factor[:, None, None] * factor

    @property
    def cov(self):
        """Covariance within each observation, (m, c, c); None where only variances are known."""
        if self._moment == "variance":
            return None
        return self._second if self._moment == "block" else np.einsum("icid->icd", self._second)

    @property
    def variance(self):
        """Variances (m, c)."""
        if self._moment == "variance":
            return self._second
        return np.maximum(np.einsum("icc->ic", self.cov), 0.0)

    @cached_property
    def _root(self):
        if self._moment == "variance":
            return np.sqrt(self._second)
        if self._moment == "block":
            return sqrt_psd(self._second)
        size = self.mean.size
        return sqrt_psd(self._second.reshape((size, size)))

    def moments(self, kept):
        """Mean, variance and covariance (or None) of some components."""
        cov = None if self.cov is None else self.cov[:, kept][:, :, kept]
        return self.mean[:, kept], self.variance[:, kept], cov

    def sample(self, normal):
        """Turn standard normals (draw, m, c) into draws."""
        if self._moment == "variance":
            return self.mean + self._root * normal
        if self._moment == "block":
            return self.mean + np.einsum("mij,dmj->dmi", self._root, normal)
        return self.mean + (normal.reshape((len(normal), -1)) @ self._root.T).reshape(normal.shape)


class Beside:
    """f and its smooth part z' g at the same rows, for one hyperparameter draw, in user units.

    ``f_i = s_i + d_i`` with deviations d_i of variance D_i, independent of each other. The data
    inform d_i only through f_i, as a normal site of precision W_i (0 at a new row), so

        f_i | s_i ~ N(E f_i + u_i (s_i - E s_i), D_i u_i),    u_i = 1 / (1 + D_i W_i)

    independently over rows. Both variances determine u_i: ``Var f_i = u_i^2 Var s_i + D_i u_i``.

    Parameters
    ----------
    mean, second : arrays (m,), and (m,) or (m, m)
        Moments of s, on the model's scale.
    deviations : array (m,)
        The D_i, on the model's scale.
    moment : {"variance", "cov"}
    quantity : Quantity
        The quantity f.
    part : Conditional
        f.
    """

    def __init__(self, mean, second, deviations, moment, quantity, part):
        self.smooth = Conditional(mean, second, moment, np.arange(1), quantity)
        self._f, D = part.mean, np.maximum(deviations, 0.0)[:, None] * quantity.factor**2
        root = np.sqrt(D**2 + 4.0 * self.smooth.variance * part.variance)
        # A form without cancellation; where nothing varies, any u will do.
        u = np.divide(2.0 * part.variance, D + root, np.ones_like(D), where=D + root > 0)
        self._u = np.minimum(u, 1.0)
        self._sd = np.sqrt(D * self._u)

    def sample(self, normal, other):
        """Turn standard normals (draw, m, 1), twice, into draws of s and of f."""
        smooth = self.smooth.sample(normal)
        return smooth, self._f + self._u * (smooth - self.smooth.mean) + self._sd * other


class Mixture:
    """Exact moments of a quantity (obs, component) over all its conditionals.

    With `covariance` also the covariance between the components of each row.
    """

    def __init__(self, shape: tuple[int, int], covariance: bool) -> None:
        self._count = np.zeros(shape[0], int)
        self._mean, self._within, self._between = (np.zeros(shape) for _ in range(3))
        self._cov = np.zeros((*shape, shape[1])) if covariance else None

    @property
    def sums(self) -> list[np.ndarray]:
        """The arrays of all that was added so far."""
        own = [self._count, self._mean, self._within, self._between]
        return own if self._cov is None else [*own, self._cov]

    def add(
        self,
        rows: slice,
        mean: np.ndarray,
        variance: np.ndarray | float,
        cov: np.ndarray | None = None,
    ) -> None:
        """Add one conditional's moments for some rows (a slice)."""
        self._count[rows] += 1
        shift = mean - self._mean[rows]
        self._mean[rows] += shift / self._count[rows][:, None]
        remaining = mean - self._mean[rows]
        self._between[rows] += shift * remaining
        self._within[rows] += variance
        if self._cov is not None:
            self._cov[rows] += cast(np.ndarray, cov) + shift[:, :, None] * remaining[:, None, :]

    def moments(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Mean, standard deviation and covariance (or None), by the law of total variance."""
        n = self._count[:, None]
        sd = np.sqrt((self._within + self._between) / n)
        return self._mean, sd, None if self._cov is None else self._cov / n[..., None]


class PredictiveMixture:
    """A new sample's y under the mixture over draws, within the family of each draw's.

    Means and probabilities are averaged, which for labels is the mixture itself. A squared scale
    follows the law of total variance, differentiated: with M the mean of the draws' means m, V is
    the mean of ``V + (m - M)^2``, and its derivatives follow from covariances between m, m_d and
    m_de over draws. The excess, 1 / nu or 1 / dispersion, is averaged.
    """

    def __init__(self):
        self._count, self._excess, self._means, self._within, self._between = 0, 0.0, [], [], []

    def add(self, found: Predictive) -> None:
        """Add one draw's `Predictive`."""
        jets = [[part for part in jet if part is not None] for jet in found.means]
        if not self._count:
            self._means = [[np.zeros_like(part) for part in jet] for jet in jets]
            spread = [] if found.variance is None else self._means[0]
            self._within, self._between = ([0.0 * part for part in spread] for _ in range(2))
        self._count += 1
        self._excess += (found.excess - self._excess) / self._count
        shifts = []
        for jet, means in zip(jets, self._means, strict=True):
            shifts.append([part - old for part, old in zip(jet, means, strict=True)])
            for old, shift in zip(means, shifts[-1], strict=True):
                old += shift / self._count
        if found.variance is not None:
            self._spread(jets[0], found.variance, shifts[0])

    def _spread(self, mean, variance, shift):
        """Add one draw to ``V + (m - M)^2`` and its derivatives, by Welford's update.

        In each product one factor is a deviation from the old mean, `shift`, and one from the new.
        """
        left = mean[0] - self._means[0][0]
        parts = zip(self._within, variance, self._between, shift, (1.0, 2.0, 2.0), strict=False)
        for within, part, between, step, factor in parts:
            within += part
            between += factor * left.reshape((-1, *[1] * (step.ndim - 1))) * step
        if len(shift) > 2:
            rest = mean[1] - self._means[0][1]
            self._between[2] += 2.0 * shift[1][:, :, None] * rest[:, None]

    def predictive(self) -> Predictive:
        """The mixture, as a `Predictive`."""
        spread = [(w + b) / self._count for w, b in zip(self._within, self._between, strict=True)]
        means = tuple(Jet(*jet) for jet in self._means)
        return Predictive(means, Jet(*spread) if spread else None, self._excess)
