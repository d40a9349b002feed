"""A new response y around f, where noise is not normal: its draws, and exact means over draws."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pytensor.tensor as pt

from bayes_gpx.draws.mixtures import Conditional, Mixture
from bayes_gpx.draws.response_scale import mean_response
from bayes_gpx.draws.results import under_one_name
from bayes_gpx.numerics.linear_algebra import sqrt_psd
from bayes_gpx.numerics.threads import ThreadedFunction

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr

    from bayes_gpx.draws.protocols import ModelLike


class NewResponses:
    """A new response y and its mean, gathered with f over draws and blocks of rows.

    `exposure` (m,) is for counts; else 1.
    """

    def __init__(self, model: ModelLike, exposure: np.ndarray) -> None:
        self._training, self._observation = model.training, model.specification.observation
        self.exposure, self._name = exposure, self._observation.mean_name
        self._classes = self._observation.class_shape
        size = (len(exposure), *(self._classes or (1,)))
        self._moments, self._drawn = Mixture(size, False), Mixture(size, False)

    def shapes(self, shape: tuple[int, int, int]) -> dict[str, tuple[int, ...]]:
        """Shapes of the arrays of draws (chain, draw, m), by name."""
        of_mean = {self._name: (*shape, *self._classes)} if self._name else {}
        return {"y": shape} | of_mean

    @property
    def sums(self) -> list[np.ndarray]:
        """The arrays of all that was added so far."""
        return [*self._moments.sums, *self._drawn.sums]

    def add(self, rows: slice, part: Conditional, theta: Mapping[str, Any]) -> None:
        """Add one hyperparameter draw, with f as a `Conditional`."""
        if self._name is None:
            noise = self._training.y_scaling.scale**2 * self._observation.variance(0.0, theta)
            self._moments.add(rows, part.mean, part.variance + noise)
            return
        if self._classes:
            f = part.mean, sqrt_psd(part.cov)
        else:
            f = part.mean[:, 0], part.variance[:, 0]
        expected = _expectation(self._observation)(*f, self.exposure[rows])
        self._moments.add(rows, expected.reshape((len(expected), -1)), 0.0)

    def sample(
        self, rows: slice, f: np.ndarray, theta: Mapping[str, Any], rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Draws by name, from draws of f (draw, k) or (draw, k, C)."""
        scale, exposure = self._training.y_scaling.scale, self.exposure[rows]
        found = {"y": self._observation.draw(f / scale, theta, rng, exposure) * scale}
        if self._name is not None:
            found[self._name] = mean_response(self._observation, f, exposure)
            for mean in found[self._name]:
                self._drawn.add(rows, mean.reshape((len(mean), -1)), 0.0)
        return found

    def named(self, dataset: xr.Dataset, held: Mapping[str, np.ndarray]) -> xr.Dataset:
        """Add the gathered results to f's Dataset; `held` are the arrays in memory, by name."""
        dims = dataset["f_mean"].dims
        own = {"y": dims[:1], self._name: dims}
        found = {name: (("chain", "draw", *own[name]), held[name]) for name in own if name in held}
        mean, sd, _ = self._moments.moments()
        if self._name is not None:
            sd = self._drawn.moments()[1]
        shape = dataset["f_mean"].shape
        name = self._name or "y"
        if self._observation.exposed:
            found["exposure"] = dims[:1], self.exposure
        found |= {
            f"{name}_mean": (dims, mean.reshape(shape)),
            f"{name}_sd": (dims, sd.reshape(shape)),
        }
        if self._name is not None and "f_interval" in dataset:  # the mean response grows with f
            ends = mean_response(self._observation, dataset["f_interval"].values.T, self.exposure)
            found[f"{name}_interval"] = (*dims, "ci_bound"), ends.T
        return dataset.assign(found | under_one_name(found, name))

    @property
    def attrs(self) -> dict[str, Any]:
        """What the result's attrs say of the moments, and of labels."""
        if self._name is None:
            return {}
        how = "by 128 quasi-random points" if self._classes else "exact"
        attrs = {"moments": f"means {how} over the normal approximation of f, sds of the draws"}
        labels = self._training.labels
        return attrs if labels is None else attrs | {"labels": [str(label) for label in labels]}


@lru_cache(maxsize=8)
def _expectation(observation):
    """Function from moments of f, and exposure, to the mean response.

    f has mean and variance (k,); for several classes mean (k, C) and root (k, C, C).
    """
    if observation.class_shape:
        moments = pt.dmatrix("mean"), pt.dtensor3("root")
    else:
        moments = pt.dvectors("mean", "variance")
    inputs = [*moments, pt.dvector("exposure")]
    return ThreadedFunction(inputs, observation.expected(*inputs).value)
