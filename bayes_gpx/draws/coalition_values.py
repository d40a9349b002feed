"""Values of f or the mean response at coalitions, with Shapley values as their sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

import numpy as np

from bayes_gpx.aliases import Draws
from bayes_gpx.draws import quantities
from bayes_gpx.draws.points import Points
from bayes_gpx.draws.quantities import Quantity, ShapleyOperator
from bayes_gpx.draws.response_means import means
from bayes_gpx.draws.response_scale import ResponseQuantity, mean_response
from bayes_gpx.likelihoods.softmax_expectations import expected_probabilities
from bayes_gpx.numerics.coalitions import Coalitions, Orders, coalitions
from bayes_gpx.numerics.jets import Jet


@dataclass(frozen=True, eq=False)
class ResponseShapley(ResponseQuantity):
    """Shapley values of the mean response: from values at coalitions, not slopes along a path.

    Attributes
    ----------
    latent : Quantity
        Shapley values of f by coalitions.
    """

    order: ClassVar = 0

    @property
    def among(self) -> Coalitions:
        """The coalitions that are gone through."""
        operator = cast(ShapleyOperator, self.latent.operator)
        return coalitions(operator.players, cast(Orders, operator.orders))

    @property
    def together(self) -> int:
        """Points for each observation."""
        return self.latent.points * len(self._starts)

    @property
    def _starts(self):
        return np.atleast_2d(cast(np.ndarray, self.where.baseline))

    @property
    def operators(self) -> tuple[Callable, ...]:
        """Values of f."""
        return (quantities.value(self.model, smooth=True).operator,)

    def spread(self, where: Points) -> Points:
        """All coalitions of the first row, from each baseline, then of the second row."""
        X = np.where(self.among.masks, where.X[:, None, None], self._starts[:, None])
        return self.at(where, X)

    def answers(
        self, ask: Callable[..., Iterator], count: int
    ) -> Iterator[tuple[int, np.ndarray, list[np.ndarray]]]:
        """Yield number, rows and answers of functions or draws; see `ResponseQuantity`."""
        rows = np.arange(len(self.where.X))
        yield from ((number, rows[own], found) for number, _, own, found in ask([self], None))

    def combine(self, rows: slice, values: list[np.ndarray]) -> list[np.ndarray]:
        """Shares (k, d) and differences (k,), or (k, C, d) and (k, C), of the response to f."""
        (f,), classes = values, self.model.specification.classes
        f = f if classes else f + self._center
        mean = mean_response(self.model.specification.observation, f[None, None])[0, 0]
        return self._shared(mean)

    def expected(self, mean: Jet, variance: Jet, response: Callable[..., Any]) -> list[np.ndarray]:
        """Means of what `combine` gives, where f is normal."""
        return self._shared(self.values(mean, variance, response))

    def values(self, mean: Jet, variance: Jet, response: Callable[..., Any]) -> np.ndarray:
        """Expected responses (m s,), or (m s, C), at all points."""
        if self.model.specification.classes is not None:
            return np.stack([jet.value for jet in expected_probabilities(mean, variance)], axis=1)
        return response(mean.value + self._center, variance.value, slopes=False)

    def by_coalition(self, values: np.ndarray) -> np.ndarray:
        """Values (m, [C,] s) of coalitions, averaged over baselines, from all points."""
        paths = self.together // self.latent.points
        by_row = values.reshape((-1, paths, self.latent.points, *values.shape[1:]))
        return np.moveaxis(by_row.mean(axis=1), 1, -1)

    def _shared(self, values):
        of_coalitions = self.by_coalition(values)
        shares = of_coalitions @ self.among.shares.T
        none, whole = (np.flatnonzero(found)[0] for found in _ends(self.among.masks))
        return [shares, of_coalitions[..., whole] - of_coalitions[..., none]]


@dataclass(frozen=True, eq=False)
class LatentShapley(ResponseShapley):
    """Shapley values of f itself."""

    @property
    def quantity(self) -> Quantity:
        """As `latent`."""
        return self.latent

    def combine(self, rows: slice, values: list[np.ndarray]) -> list[np.ndarray]:
        """Shares (k, d) and differences (k,), or (k, C, d) and (k, C), of f."""
        return self._shared(values[0])

    def values(self, mean: Jet, variance: Jet, response: Callable[..., Any]) -> np.ndarray:
        """Means of f (m s,), or (m s, C), at all points."""
        return mean.value


@dataclass(frozen=True, eq=False)
class _CoalitionMeans(ResponseShapley):
    """Means over draws of the values at coalitions; other means are sums of these."""

    asked: ResponseShapley = field(kw_only=True)

    @property
    def quantity(self):
        factor = np.full(self.latent.points, self.asked.quantity.factor[0])
        return replace(self.asked.quantity, factor=factor, mixes=None)

    @property
    def smooth(self):
        return self.asked.smooth

    def noise(self, theta):
        return self.asked.noise(theta)

    def expected(self, mean, variance, response):
        values = self.by_coalition(self.asked.values(mean, variance, response))
        return [values, values[..., 0]]


def monte_carlo_errors(
    model: Any, idata: Draws, asked: ResponseShapley, **options: Any
) -> np.ndarray:
    """Standard errors (m, [C,] players) of mean Shapley values from random orders.

    For the options see `means`.
    """
    each = _CoalitionMeans(model, asked.latent, asked.where, asked=asked)
    return asked.among.errors(means(model, idata, each, **options)[0])


def _ends(masks):
    """The empty and the full coalition."""
    return ~masks.any(axis=1), masks.all(axis=1)
