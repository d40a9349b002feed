"""Families of predictive distributions: their Fisher information, and how far apart two are."""

# In NumPy, for parameters that vary with x. Distributions of a family differ by `excess`, which
# does not vary with x: 0 for a normal or a Poisson, which Student's t or a negative binomial tend
# to as it goes to 0.

from typing import Any, NamedTuple, cast

import numpy as np
from scipy.special import digamma, gammaln, polygamma

from bayes_gpx.numerics.jets import Jet

STEP, WIDTH, DROP = 0.2, 0.5, 40.0
"""The trapezoid rule for Student's t, in arcsinh(t / sqrt(nu)): its step is at most STEP and
WIDTH / sqrt(nu), and it ends where the integrand has fallen to exp(-DROP) of its peak."""

NEAR = 1e-3
"""Share of its argument below which a move of the gamma function takes a series."""


class Predictive(NamedTuple):
    """The distribution of a new row's y at m points, by jets of its parameters."""

    means: tuple[Jet, ...]  # location or mean of y, or the probability of each class
    variance: Jet | None = None  # squared scale, if it is a separate parameter
    # 1 / nu of Student's t, 1 / dispersion of counts, with `inflation` if there is one, and the
    # precision of proportions; else 0. For other likelihoods, the hyperparameters.
    excess: Any = 0.0

    def at(self, rows: slice | np.ndarray) -> "Predictive":
        """The same at some points, without derivatives."""
        means = tuple(Jet(jet.value[rows]) for jet in self.means)
        variance = None if self.variance is None else Jet(self.variance.value[rows])
        return Predictive(means, variance, self.excess)


type Information = tuple[Jet, Jet, np.ndarray]
"""Two parameters, or one twice, and their Fisher information (m,)."""


def _alone(jet: Jet, information: np.ndarray) -> Information:
    """A parameter that is not correlated with others."""
    return jet, jet, information


class Located:
    """Normal and Student-t distributions."""

    def parameters(self, found: Predictive) -> tuple[Information, ...]:
        """Location and squared scale, each with its Fisher information (m,)."""
        variance, q = cast(Jet, found.variance), 3.0 * found.excess
        location = (1.0 + found.excess) / (variance.value * (1.0 + q))
        scale = 0.5 / (variance.value**2 * (1.0 + q))
        return _alone(found.means[0], location), _alone(variance, scale)

    def divergence(self, here: Predictive, there: Predictive) -> np.ndarray:
        """Kullback-Leibler divergence from one to another of the same excess, (m,)."""
        own, other = (cast(Jet, found.variance).value for found in (here, there))
        scale, growth = np.sqrt(own), (other - own) / own
        shift = there.means[0].value - here.means[0].value
        if here.excess == 0.0:
            return 0.5 * (np.log1p(growth) - growth / (1.0 + growth) + shift**2 / other)
        nu = 1.0 / here.excess
        z, weights = _student_nodes(nu)
        square, far = z**2 / nu, growth / (1.0 + growth)
        shift = shift[:, None]
        moved = shift * (shift - 2.0 * scale[:, None] * z) / (nu * other[:, None])
        further = (moved - square * far[:, None]) / (1.0 + square)
        return 0.5 * np.log1p(growth) + 0.5 * (nu + 1.0) * np.log1p(further) @ weights


def _student_nodes(nu: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes for expectations over Student's t; equal steps in arcsinh(t / sqrt(nu))."""
    drop = DROP / nu
    end = drop + np.log1p(np.sqrt(-np.expm1(-2.0 * drop)))
    count = int(np.ceil(end / min(STEP, WIDTH / np.sqrt(nu))))
    v = end / count * np.arange(-count, count + 1)
    log_cosh = np.logaddexp(v, -v) - np.log(2.0)
    weights = np.exp(-nu * log_cosh)
    return np.sqrt(nu) * np.sinh(v), weights / weights.sum()


class Counted:
    """Poisson and negative binomial distributions."""

    def parameters(self, found: Predictive) -> tuple[Information, ...]:
        """The mean with its Fisher information (m,)."""
        mu = found.means[0].value
        return (_alone(found.means[0], 1.0 / (mu * (1.0 + found.excess * mu))),)

    def divergence(self, here: Predictive, there: Predictive) -> np.ndarray:
        """Kullback-Leibler divergence from one to another of the same excess, (m,)."""
        mu, other, q = here.means[0].value, there.means[0].value, here.excess
        move, spread = other - mu, 1.0 + q * mu
        if q == 0.0:
            return mu * _above_log(move / mu)
        # Terms of the size of the divergence, however large the means are.
        apart = move / spread * (move / other) - mu * _above_log(-move / (other * spread))
        return apart - _above_log(q * move / spread) / q


class Inflated:
    """Counts with zeros of their own."""

    def parameters(self, found: Predictive) -> tuple[Information, ...]:
        """The mean of all counts with its Fisher information (m,)."""
        q, inflation = found.excess
        share = 1.0 - inflation
        rate = found.means[0].value / share
        zeros, spread = np.exp(_log_zeros(rate, q)), 1.0 + q * rate
        rest = share * (1.0 / (rate * spread) - zeros / spread**2)
        information = rest + (share * zeros / spread) ** 2 / (inflation + share * zeros)
        return (_alone(found.means[0], information / share**2),)

    def divergence(self, here: Predictive, there: Predictive) -> np.ndarray:
        """Kullback-Leibler divergence from one to another of the same excess, (m,)."""
        # That of the other counts, with their zeros replaced by all zeros.
        q, inflation = here.excess
        share = 1.0 - inflation
        rates = [found.means[0].value / share for found in (here, there)]
        others = [Predictive((Jet(rate),), None, q) for rate in rates]
        own, moved = (_log_zeros(rate, q) for rate in rates)
        zeros, gap = np.exp(own), moved - own
        all_zeros, there_zeros = (inflation + share * np.exp(v) for v in (own, moved))
        apart = share * (Counted().divergence(*others) + zeros * gap)
        rise = -share * np.sign(gap) * np.exp(np.maximum(own, moved)) * np.expm1(-np.abs(gap))
        near = np.log1p(np.maximum(rise / all_zeros, -0.5))
        fallen = there_zeros < 0.5 * all_zeros
        return apart - all_zeros * np.where(fallen, np.log(there_zeros / all_zeros), near)


def _log_zeros(rate: np.ndarray, q: float) -> np.ndarray:
    """Log probability of 0 of counts with the variance rate + q rate^2."""
    return -rate if q == 0.0 else -np.log1p(q * rate) / q


class Proportioned:
    """Beta distributions of a common precision."""

    def parameters(self, found: Predictive) -> tuple[Information, ...]:
        """Mean and complement, each with its share of their common Fisher information (m,)."""
        each = zip(found.means, _shapes(found), strict=True)
        return tuple(_alone(jet, found.excess**2 * polygamma(1, shape)) for jet, shape in each)

    def divergence(self, here: Predictive, there: Predictive) -> np.ndarray:
        """Kullback-Leibler divergence from one to another of the same excess, (m,)."""
        pairs = zip(_shapes(here), _shapes(there), strict=True)
        first, second = (_above_tangent(*pair) for pair in pairs)
        return first + second


def _above_tangent(a: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """How far the log of the gamma function at `moved` lies above its tangent at a."""
    move = moved - a
    near = move**2 * (
        polygamma(1, a) / 2.0
        + move
        * (polygamma(2, a) / 6.0 + move * (polygamma(3, a) + move * polygamma(4, a) / 5) / 24)
    )
    far = gammaln(moved) - gammaln(a) - move * digamma(a)
    return np.where(np.abs(move) < NEAR * a, near, far)


def _shapes(found: Predictive) -> tuple[np.ndarray, np.ndarray]:
    """Parameters of beta distributions."""
    mean, complement = (jet.value for jet in found.means)
    return found.excess * mean, found.excess * complement


class Labelled:
    """One of several labels."""

    def parameters(self, found: Predictive) -> tuple[Information, ...]:
        """Probabilities, each with its share of their common Fisher information (m,)."""
        return tuple(_alone(jet, _over(1.0, jet.value)) for jet in found.means)

    def divergence(self, here: Predictive, there: Predictive) -> np.ndarray:
        """Kullback-Leibler divergence from one to another, (m,)."""
        both = [(a.value, b.value) for a, b in zip(here.means, there.means, strict=True)]
        return sum(p * _above_log(_over(moved - p, p)) for p, moved in both)


def _above_log(t: np.ndarray) -> np.ndarray:
    """Return t - log(1 + t), never negative."""
    return t - np.log1p(t)


def _over(a: np.ndarray | float, p: np.ndarray) -> np.ndarray:
    """Quotient by probabilities, 0 for those that are too small for a number."""
    return np.divide(a, p, out=np.zeros_like(p), where=p > 0.0)
