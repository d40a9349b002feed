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

from bayes_gpx.numerics.linear_algebra import solve, solve_root
from bayes_gpx.posteriors.collapsed import again
from bayes_gpx.posteriors.marginals import coupled
from bayes_gpx.posteriors.strategies import WHITE, seen_through
from bayes_gpx.processes.basis_process import BasisProcess, expanded
from bayes_gpx.processes.operators import Derivative, evaluate

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

    def of(self, process, s, classes=()):
        """The function that the generator `s.rng` stands for, and the generator thereafter.

        With classes, one for each, of the same waves with coefficients of their own.
        """
        fresh = _Fresh(self.waves, s.rng)
        basis = expanded(process, fresh, s.X)
        count = basis.design(_seen(s)).shape[1]
        coefficients = fresh.normal((count, *classes))
        return lambda operator: _each(basis.values, operator, coefficients, classes), fresh


@dataclass(frozen=True)
class Settle:
    """What moves a prior function to the posterior, as numbers: a build function.

    With basis functions instead, their coefficients.
    """

    waves: int

    def __call__(self, specification, process, theta, s):
        """Return what `Follow` takes as `move`: a vector, or one for each class."""
        number = specification.classes
        classes = () if number is None else (number,)
        labels = (None,) if number is None else range(number)
        of_class = [again(specification, process, theta, s, label) for label in labels]

        def drawn(normal):
            if number is None:
                return of_class[0].drawn(normal)
            return pt.stack([q.drawn(normal[:, c]) for c, q in enumerate(of_class)], axis=1)

        if isinstance(process, BasisProcess):
            normal = _Fresh(self.waves, s.rng).normal((s.alpha.shape[0], *classes))
            return [drawn(normal)]
        prior, fresh = Prior(self.waves).of(process, s, classes)
        seen = seen_through(specification, process, theta, s)
        if seen is not None:
            normal = fresh.normal((s.alpha.shape[0], *classes))
            return [drawn(normal) - solve_root(seen.inducing_root, prior(seen.inducing))]
        values = prior(_seen(s))
        couples = number is not None and WHITE not in theta
        observed = (
            process.variance(evaluate(s.X, s.Z, sample="train"))
            if couples
            else pt.sqr(s.root).sum(axis=1)
        )
        noise = pt.sqrt(pt.maximum(observed - process.variance(_seen(s)), 0.0))
        noise = noise if number is None else noise[:, None]
        values = values + noise * fresh.normal((s.y.shape[0], *classes))
        if couples:
            normal = fresh.normal((s.root.shape[0],))
            return [s.alpha - coupled(process, s).told(values, normal)]
        return [s.alpha - solve(s.root, values)]


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
        classes = () if specification.classes is None else (specification.classes,)
        if isinstance(process, BasisProcess):
            return [_each(process.values, operator, s.move, classes) for operator in asked]
        prior, _ = Prior(self.waves).of(process, s, classes)
        seen = seen_through(specification, process, theta, s)

        def summed(operator, move):
            return process.summed(operator, _seen(s), move[None]).reshape((-1,))

        def reached(operator):
            if seen is not None:
                return pt.dot(seen.design(operator), s.move)
            if isinstance(operator, Derivative):
                return _each(summed, operator, s.move, classes)
            return pt.dot(process.covariance(operator, _seen(s)), s.move)

        return [prior(operator) + reached(operator) for operator in asked]


def _seen(s):
    """The smooth part of the process at the training points."""
    return evaluate(s.X, s.Z, smooth=True)


def _each(values, operator, weights, classes):
    """Values of an operator for weights (k,), or as columns for those of each class (k, C)."""
    if not classes:
        return values(operator, weights)
    return pt.stack([values(operator, weights[:, c]) for c in range(*classes)], axis=1)
