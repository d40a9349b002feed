"""Random functions of a prior: random Fourier features with new frequencies for each function.

Mean and covariance over functions are the prior's, for any number of waves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor
from bayes_gpx.numerics.linear_algebra import cholesky
from bayes_gpx.processes.basis_process import expanded
from bayes_gpx.processes.class_process import ClassProcess

if TYPE_CHECKING:
    from bayes_gpx.posteriors.base import Conditioning
    from bayes_gpx.processes.operators import Operator

WAVES = 512
"""Sines and cosines that a prior function is made of, unless asked for more or fewer."""


class Fresh:
    """Random frequencies and coefficients, reproducible from the same generator in the same order.

    `waves` is the number of sines and cosines for each summand of the kernel.
    """

    def __init__(self, waves, rng):
        self.m, self._rng = waves, rng

    def normal(self, shape):
        """Standard normals."""
        return self._next(pt.random.normal, shape)

    def standard(self, number, shape):
        """As `RandomFeatures.standard`: for `expanded`, this is such an approximation."""
        normal = self.normal(shape)
        return normal, self._next(pt.random.uniform, (shape[-1],))

    def _next(self, distribution, shape):
        self._rng, drawn = distribution(size=shape, rng=self._rng, return_next_rng=True)
        return drawn


def prior_function(given, fresh):
    """A function of the prior, to be called with an operator.

    Several classes have one function each, with shared waves and separate coefficients, which
    correlate as the classes do.
    """
    if isinstance(given.process, ClassProcess):
        return _correlated_function(given, fresh)
    # Any points tell how many functions there are; of rows in parts there is but a block's symbol.
    at = given.smooth if given.parts is None else given.inducing
    basis = expanded(given.process, fresh, at.X)
    count = basis.design(at).shape[1]
    coefficients = fresh.normal((count, *given.columns))
    return lambda operator: by_class(basis.values, operator, coefficients, given)


def _correlated_function(given, fresh):
    parts = []
    for part, shared in given.process.each():
        basis = expanded(part, fresh, given.X)
        count = basis.design(given.smooth).shape[1]
        coefficients = pt.dot(fresh.normal((count, *given.columns)), cholesky(shared).T)
        parts.append((basis, coefficients))
    return lambda operator: sum(by_class(b.values, operator, own, given) for b, own in parts)


def by_class(
    values: Callable[[Operator, Tensor], Tensor],
    operator: Operator,
    weights: Tensor,
    given: Conditioning,
) -> Tensor:
    """Values of an operator for weights (k,), or as columns for weights (k, C) of classes."""
    if weights.ndim == 1:
        return values(operator, weights)
    return pt.stack([values(operator, weights[:, c]) for c in given.labels], axis=1)
