"""A new response y for a non-Gaussian likelihood: draws, and exact means over draws."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.draws.normals import blocks, variances
from bayes_gpx.draws.scales import by_element, by_row, mean_response, symbols_of_normal, unscaled
from bayes_gpx.likelihoods.softmax_expectations import points, probabilities
from bayes_gpx.numerics.threads import ThreadedFunction

if TYPE_CHECKING:
    from bayes_gpx.draws.protocols import ModelLike
    from bayes_gpx.likelihoods.base import ScalarLikelihood
    from bayes_gpx.likelihoods.heteroscedastic import HeteroscedasticNormal


class NewResponses:
    """A new response y and its mean, for a `Result` of f to gather; counts have `exposure` (m,)."""

    def __init__(self, model: ModelLike, exposure: np.ndarray) -> None:
        self._model = model
        self._training, self._observation = model.training, model.specification.observation
        self._mean = model.specification.response
        self.exposure, self.of_mean = exposure, self._mean.mean_name is not None
        self.name: str = self._mean.mean_name or "y"
        if self._observation.processes:  # moments of y and of its parameters are exact
            self.of_mean, self.name = False, "y"
        self._classes: tuple[int, ...] = self._observation.class_shape
        self.width = self._classes[0] if self._classes else 1

    def shapes(self, lead: tuple[int, int, int]) -> dict[str, tuple[int, ...]]:
        """Shapes of the arrays of draws (chain, draw, m), by name."""
        return {"y": lead} | ({self.name: (*lead, *self._classes)} if self.of_mean else {})

    def moments(
        self, mean: np.ndarray, second: np.ndarray, rows: slice, theta: Mapping[str, Any]
    ) -> tuple[np.ndarray, np.ndarray | float]:
        """Mean and variance of the response at a draw: the expected mean response is certain."""
        if self._observation.processes:
            own = cast("HeteroscedasticNormal", self._observation)
            return own.moments(mean, cast(np.ndarray, blocks(second)))
        if not self.of_mean:
            likelihood = cast("ScalarLikelihood", self._observation)
            unit = self._training.y_scaling.scale
            noise = unit**2 * likelihood.variance(0.0, theta)
            return mean + unit * likelihood.shift(theta), variances(second) + noise
        if self._classes:
            return probabilities(mean, cast(np.ndarray, blocks(second))), 0.0
        unit = self._training.y_scaling.scale if self._training.scales_y else 1.0
        f = unscaled(self._model, mean[:, 0]), variances(second)[:, 0] / unit**2
        known, found = by_element(self._mean, theta, f[0].shape), _expectation(self._mean)
        return found(*f, self.exposure[rows], *known)[:, None], 0.0

    def sample(
        self, rows: slice, f: np.ndarray, theta: Mapping[str, Any], rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Draws by name, from draws of f (draw, k) or (draw, k, C)."""
        scale, exposure = self._training.y_scaling.scale, self.exposure[rows]
        f = f - self._observation.centers
        found = {"y": self._observation.draw(f / scale, theta, rng, exposure) * scale}
        if self.of_mean:
            found[self.name] = mean_response(self._mean, unscaled(self._model, f), exposure, theta)
        return found

    @property
    def exposed(self) -> str | None:
        """What the likelihood calls its exposure, or None."""
        return self._observation.exposure_name if self._observation.exposed else None

    @property
    def bounded(self) -> bool:
        """Whether bounds of the mean response are the mean responses at bounds of f."""
        return not self._mean.shaped_by

    def mean_at(self, f: np.ndarray) -> np.ndarray:
        """Mean response at f (m, ...): of bounds of f its own, because it grows with f."""
        return mean_response(self._mean, f.T, self.exposure).T

    @property
    def attrs(self) -> dict[str, Any]:
        """What the result's attrs say of the moments, and of labels."""
        if not self.of_mean:
            return {}
        how = "exact"
        if self._classes:
            how = f"by {points(self.width)} quasi-random points, with errors below 0.001"
        attrs = {"moments": f"means {how} over the normal approximation of f, sds of the draws"}
        labels = self._training.labels
        return attrs if labels is None else attrs | {"labels": [str(label) for label in labels]}


@lru_cache(maxsize=8)
def _expectation(observation: ScalarLikelihood) -> ThreadedFunction:
    """Function from moments of normal f, and exposure, to the mean response E S(f)."""
    inputs, theta = [*symbols_of_normal(observation), pt.dvector("exposure")], by_row(observation)
    found = observation.expected(*inputs, **observation.shaping(theta))
    return ThreadedFunction([*inputs, *theta.values()], found.value)
