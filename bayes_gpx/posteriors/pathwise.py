"""Random functions of a posterior: a prior function, corrected by the data.

Matheron's rule: with f drawn from the prior, and noise e from its distribution,

    f(.) + K_.u (alpha - C (f(u) + e))

is a draw from the posterior, as a function (alpha = C y for a Gaussian likelihood).

References
----------
Wilson et al., "Efficiently sampling functions from Gaussian process posteriors" (2020).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from bayes_gpx.aliases import Tensor
from bayes_gpx.posteriors.base import Asked, Found, OneDraw
from bayes_gpx.posteriors.prior_functions import Fresh
from bayes_gpx.processes.operators import Operator


@dataclass(frozen=True)
class Update:
    """What moves a prior function to the posterior, as numbers: a build function."""

    waves: int  # sines and cosines for each summand of the kernel

    def __call__(self, draw: OneDraw) -> list[Tensor]:
        """Return what `Evaluate` takes as `update`: a vector, or one for each class."""
        fresh = Fresh(self.waves, draw.changing)
        return [draw.strategy.update(draw.given, cast(Found, draw.found), fresh)]


@dataclass(frozen=True)
class Evaluate:
    """A random function's values at operators of its smooth part: a build function."""

    waves: int  # as of `Update`
    operators: tuple[Callable[[Asked], Operator], ...]

    def __call__(self, draw: OneDraw) -> list[Tensor]:
        """Return a vector for each operator."""
        fresh = Fresh(self.waves, draw.changing)
        function = draw.strategy.function(draw.given, draw.changing["update"], fresh)
        return [function(operator(cast(Asked, draw.asked))) for operator in self.operators]
