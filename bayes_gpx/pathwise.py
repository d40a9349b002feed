"""Random functions of a posterior: a prior function, moved by what the data say of it.

Matheron's rule: with f drawn from the prior, and noise e from its distribution,

    f(.) + K_.u (alpha - C (f(u) + e))

is a draw from the posterior, as a function (alpha = C y, where noise is normal). The prior
function is a sum of random waves, whose frequencies are drawn anew for each function, so that
mean and covariance over functions are those of the posterior, whatever the number of waves.

References
----------
Wilson et al., "Efficiently sampling functions from Gaussian process posteriors" (2020).
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytensor.tensor as pt

from bayes_gpx.collapsed import again, seen_through
from bayes_gpx.conditioning import solve, solve_root
from bayes_gpx.covariances import SLOPES
from bayes_gpx.expansions import BasisProcess, expanded
from bayes_gpx.operators import evaluate

WAVES = 512
"""Sines and cosines that a prior function is made of, unless asked for more or fewer."""


class _Fresh:
    """Frequencies and coefficients from a symbolic generator, the same whenever it is the same."""

    def __init__(self, m, rng):
        self.m, self._rng = m, rng

    def normal(self, shape):
        """Standard normals."""
        return self._next(pt.random.normal, shape)

    def standard(self, number, shape):
        """As that of `RandomFeatures`."""
        normal = self.normal(shape)
        return normal, self._next(pt.random.uniform, (shape[-1],))

    def _next(self, distribution, shape):
        self._rng, drawn = distribution(size=shape, rng=self._rng, return_next_rng=True)
        return drawn


@dataclass(frozen=True)
class Prior:
    """A function of the prior: its values at an operator.

    Parameters
    ----------
    waves : int
        Sines and cosines for each summand of the kernel.
    """

    waves: int

    def of(self, process, s):
        """The function that the generator `s.rng` stands for, and the generator thereafter."""
        fresh = _Fresh(self.waves, s.rng)
        basis = expanded(process, fresh, s.X)
        count = basis.design(_seen(s)).shape[1]
        coefficients = fresh.normal((count,))
        return lambda operator: basis.values(operator, coefficients), fresh


@dataclass(frozen=True)
class Settle:
    """What moves a prior function to the posterior, as numbers: a build function.

    With basis functions instead, their coefficients.
    """

    waves: int

    def __call__(self, specification, process, theta, s):
        """Return the vector that `Follow` takes as `move`."""
        posterior = again(specification, process, theta, s)
        if isinstance(process, BasisProcess):
            normal = _Fresh(self.waves, s.rng).normal(posterior.alpha.shape)
            return [posterior.alpha + _spread(posterior.root, normal)]
        prior, fresh = Prior(self.waves).of(process, s)
        seen = seen_through(specification, process, theta, s)
        if seen is not None:
            normal = fresh.normal(posterior.alpha.shape)
            values = posterior.alpha + _spread(posterior.root, normal)
            return [values - solve_root(seen.inducing_root, prior(seen.inducing))]
        noise = pt.sqr(posterior.root).sum(axis=1) - process.variance(_seen(s))
        error = pt.sqrt(pt.maximum(noise, 0.0)) * fresh.normal(s.y.shape)
        return [posterior.alpha - solve(posterior.root, prior(_seen(s)) + error)]


@dataclass(frozen=True)
class Follow:
    """A random function's values at operators of its smooth part: a build function.

    Attributes
    ----------
    waves : int
    operators : tuple of callable
        From the namespace of symbols to an Operator.
    """

    waves: int
    operators: tuple[Callable, ...]

    def __call__(self, specification, process, theta, s):
        """Return a vector for each operator."""
        s.sample = "new"
        asked = [operator(s) for operator in self.operators]
        if isinstance(process, BasisProcess):
            return [process.values(operator, s.move) for operator in asked]
        prior, _ = Prior(self.waves).of(process, s)
        seen = seen_through(specification, process, theta, s)

        def reached(operator):
            if seen is not None:
                return pt.dot(seen.design(operator), s.move)
            if operator.kind in SLOPES:
                return process.summed(operator, _seen(s), s.move[None]).reshape((-1,))
            return pt.dot(process.covariance(operator, _seen(s)), s.move)

        return [prior(operator) + reached(operator) for operator in asked]


def _seen(s):
    """The smooth part of the process at the training points."""
    return evaluate(s.X, s.Z, smooth=True)


def _spread(root, normal):
    """A draw of N(0, (root root')^-1)."""
    return pt.linalg.solve_triangular(root, normal, lower=True, trans="T")
