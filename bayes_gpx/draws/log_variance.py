"""The log variance of predictions, divided among features: of f, or of a new y."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Draws
from bayes_gpx.draws.answers import gathered
from bayes_gpx.draws.coalition_values import ResponseShapley
from bayes_gpx.draws.evaluate import DEPENDENCE, finished
from bayes_gpx.draws.hyperparameter_draws import hyperparameter_draws
from bayes_gpx.draws.protocols import ModelLike
from bayes_gpx.draws.quantities import Quantity
from bayes_gpx.draws.response_means import by_draw
from bayes_gpx.draws.response_scale import ResponseQuantity, fine
from bayes_gpx.numerics.jets import Jet
from bayes_gpx.validation import one_of

ROUND_OFF = 16 * np.finfo(float).eps
"""Largest variance that counts as 0, relative to the largest variance."""


@dataclass(frozen=True, eq=False)
class _LogVariance(ResponseQuantity):
    """What both ways to divide it share.

    Attributes
    ----------
    of_y : bool
        Whether observation noise is part of the variance.
    """

    of_y: bool = field(kw_only=True)

    @property
    def smooth(self) -> bool:
        """No: the deviations of a new sample are part of its variance."""
        return False

    @property
    def quantity(self) -> Quantity:
        """As `latent`, without units."""
        latent = self.latent
        units = f"log of the variance of {self.model.training.y_name if self.of_y else 'f'}"
        return replace(latent, factor=np.ones(len(latent.factor)), units=units, bends=False)

    def noise(self, theta: Mapping[str, Any]) -> float:
        """Variance of the noise, where it counts."""
        return float(theta["sigma"]) ** 2 if self.of_y else 0.0

    def refuse_certain(self, variance: np.ndarray) -> None:
        """Raise if a variance is 0 up to round-off, since its logarithm is infinite.

        The message names the training row with the median distance from the center: f of a linear
        kernel, or of a GPX with Z = X, is known for certain at the center alone.
        """
        if (variance > ROUND_OFF * variance.max()).all():
            return
        training = self.model.training
        row = "a row of the data"
        if training.stored:
            apart = np.square(training.X_scaling.apply(training.X.values)).sum(axis=1)
            row = f"row {int(np.argsort(apart)[len(apart) // 2])} of the training data"
        raise ValueError(
            "of='log_variance': the variance of f is 0 at the baseline or at a point of the "
            f"explanation, and its logarithm is infinite. Pass another baseline, such as {row}, or "
            "explain the variance of a new y (on='response')."
        )


@dataclass(frozen=True, eq=False)
class LogVarianceGradients(_LogVariance):
    """Integrated gradients of the log variance."""

    def expected(
        self, mean: Jet, variance: Jet, response: Callable[..., Any] | None
    ) -> list[np.ndarray]:
        """Shares (m, d) and differences (m,), of one draw."""
        across, w = fine(self.degree, self.degree)
        V = variance.value.reshape((-1, self.together))
        self.refuse_certain(V[:, [0, -1]])
        V_d = cast(np.ndarray, variance.first).reshape((*V.shape, -1))
        between = np.maximum(V @ across.T, np.finfo(float).tiny)
        shares = self._way * np.einsum("mf,mfd->md", w / between, across @ V_d)
        return [shares, self._between(np.log(V[:, [0, -1]]), slice(None))]


@dataclass(frozen=True, eq=False)
class LogVarianceShapley(_LogVariance, ResponseShapley):
    """Shapley values of the log variance."""

    def values(self, mean: Jet, variance: Jet, response: Callable[..., Any]) -> np.ndarray:
        """Log variances (m s,) at all points."""
        self.refuse_certain(variance.value)
        return np.log(variance.value)


def is_of_y(model: ModelLike, on: str) -> bool:
    """Whether the variance is of y, rather than of f.

    Raises ValueError for several classes, and for y with a non-Gaussian likelihood.
    """
    one_of("on", on, ("response", "latent"))
    specification = model.specification
    if specification.classes is not None:
        raise ValueError(
            "of='log_variance' with likelihood='categorical': several classes have no one "
            "variance. Use another likelihood, such as 'bernoulli' of one class against the others."
        )
    if on == "response" and not specification.normal:
        raise ValueError(
            f"of='log_variance' with likelihood={specification.likelihood!r}: the variance of y is "
            "divided only for likelihood='normal'. Pass on='latent', for the variance of f."
        )
    return on == "response"


def explained(
    model: ModelLike,
    idata: Draws,
    asked: LogVarianceGradients | LogVarianceShapley,
    *,
    num_draws: int | None = None,
    seed: int | None = None,
    progressbar: bool = True,
    **options: Any,
) -> xr.Dataset:
    """One value for each hyperparameter draw; options as in `gathered`.

    Raises ValueError for options of conditional draws, which do not exist here.
    """
    unused = [name for name in ("draws", "joint") if options.pop(name, None)]
    if unused:
        raise ValueError(
            f"of='log_variance' is one number for each draw of the hyperparameters, without "
            f"{' and '.join(unused)}; leave them out."
        )
    hyper = hyperparameter_draws(model, idata, num_draws)
    shape = len(hyper.chain), len(hyper.draw)
    answers, quantity = by_draw(model, hyper, asked, None, progressbar), asked.quantity
    found, place = gathered(model, quantity, asked.where, shape, answers, **options)
    if len(hyper) == 1:  # one draw has no spread
        sds = [name for name in found if str(name).endswith(("_sd", "_cov"))]
        found = found.assign({name: found[name] * np.nan for name in sds})
    attrs = {
        "of": "log_variance",
        "dependence": DEPENDENCE[True].format("feature"),
        "samples": "new samples",
        "moments": "of the draws of the hyperparameters, given which it is one number",
    }
    sampled = options.get("keep", "draws") == "draws"
    return finished(found, model, quantity, hyper, 1, sampled, place, attrs)
