"""Scales that a question can be on: f itself, the mean response, or the log of a variance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import pytensor.tensor as pt
from scipy.special import softmax

from bayes_gpx.draws.protocols import ModelLike
from bayes_gpx.draws.questions import Question, latent_units
from bayes_gpx.likelihoods.softmax_expectations import expected_probabilities
from bayes_gpx.numerics.jets import Jet, expectation
from bayes_gpx.numerics.threads import ThreadedFunction
from bayes_gpx.validation import one_of

if TYPE_CHECKING:
    from bayes_gpx.aliases import Tensor
    from bayes_gpx.likelihoods.base import Likelihood, ScalarLikelihood, VectorLikelihood

ROUND_OFF = 16 * np.finfo(float).eps
"""Largest variance that counts as 0, relative to the largest variance."""


@dataclass(frozen=True, eq=False)
class Latent:
    """f itself; and what every scale S(f) has. `center` is added to the model's f before S."""

    # `smooth` is whether a GPX's own deviations of new samples are left out.

    model: Any
    smooth: ClassVar = True

    @property
    def several(self) -> bool:
        """Whether f has a column for each of several classes."""
        return self.model.specification.classes is not None

    @property
    def center(self) -> float:
        """What f is centred at."""
        return 0.0

    def question(self, latent: Question) -> Question:
        """A question about f, on this scale."""
        return latent

    def noise(self, theta: Mapping[str, Any]) -> float:
        """Variance of the noise that is added to f, on the model's scale."""
        return 0.0

    def panels(self, degree: int) -> int:
        """Panels of the quadrature along paths for moments by polynomials of that degree."""
        return degree // 4 if degree > 8 else 1

    def values(self, f: np.ndarray) -> np.ndarray:
        """S(f) of functions, at f (...,), or (..., C)."""
        return f

    def expected(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """E S(f) of normal f, of the shape of the mean."""
        return mean


@dataclass(frozen=True, eq=False)
class Response(Latent):
    """The mean response S(f): a probability, or a rate."""

    # With `taylor` its expectations are by expansion around the mean of f, to second order.

    taylor: bool = False

    def question(self, latent: Question) -> Question:
        """In units of the response."""
        units = latent.units.replace(latent_units(self.model), response_units(self.model), 1)
        attrs = {**latent.attrs, "scale": "response"}
        return replace(latent, units=units, nonlinear=False, attrs=attrs)

    @property
    def center(self) -> float:
        """What f is centred at; of several classes at 0."""
        return 0.0 if self.several else self.model.training.y_scaling.center

    @property
    def _observation(self) -> ScalarLikelihood | VectorLikelihood:
        return self.model.specification.observation

    def values(self, f: np.ndarray) -> np.ndarray:
        """S(f) of functions, at f (...,), or (..., C)."""
        return mean_response(self._observation, f)

    def slopes(self, f: np.ndarray) -> np.ndarray:
        """S'(f) (m, t), or the derivatives (m, t, C, C) of each probability in each f."""
        if self.several:
            p = softmax(f, axis=-1)
            return p[..., :, None] * (np.eye(f.shape[-1]) - p[..., None, :])
        return _compiled_response(self._observation)(f)[1]

    def expected(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """E S(f) of normal f, of the shape of the mean."""
        (found,) = self._expectations[0](mean.ravel(), variance.ravel())
        return found.reshape(mean.shape)

    def expected_slopes(self, mean: np.ndarray, variance: np.ndarray) -> list[np.ndarray]:
        """E S'(f) and E S''(f) of normal f."""
        found = self._expectations[1](mean.ravel(), np.maximum(variance, 0.0).ravel())
        return [part.reshape(mean.shape) for part in found]

    def second_derivatives(
        self, f: np.ndarray, gradients: np.ndarray, hessians: np.ndarray
    ) -> np.ndarray:
        """S' f_de + S'' f_d f_e (m, [C,] d^2), from f (m[, C]), (m, d[, C]) and (m, d^2[, C])."""
        if not self.several:
            _, slope, bend = _compiled_response(self._observation)(f[:, None])
            crossed = gradients[:, :, None] * gradients[:, None]
            return slope * hessians + bend * crossed.reshape(hessians.shape)
        # With E and Cov over classes with probabilities p: p_c times h_c - E h, h the Hessian, and
        # times the product of g_d,c - E g_d with g_e,c - E g_e less Cov(g_d, g_e).
        p = softmax(f, axis=-1)[:, None]
        centered = gradients - (p * gradients).sum(axis=-1, keepdims=True)
        crossed = (centered[:, :, None] * centered[:, None]).reshape(hessians.shape)
        inside = hessians + crossed
        return (p * (inside - (p * inside).sum(axis=-1, keepdims=True))).transpose(0, 2, 1)

    def expected_jets(self, mean: Jet, variance: Jet) -> tuple[Jet, ...]:
        """E S(f) of normal f and its first two derivatives, of each class, or alone."""
        if self.several:
            return expected_probabilities(mean, variance)
        mean = mean.shifted(self.center)
        found = _rates(self._observation)(mean.value, np.maximum(variance.value, 0.0))
        return (expectation(mean, variance, found[0], found[1:]),)

    @property
    def _expectations(self) -> list[ThreadedFunction]:
        return _response(self._observation, self.taylor)


@dataclass(frozen=True, eq=False)
class LogVariance(Latent):
    """The log of the variance of f, or `of_y` with its noise: it has no slope in the mean of f."""

    of_y: bool = field(default=False, kw_only=True)
    smooth: ClassVar = False  # the deviations of a new sample are part of its variance

    def question(self, latent: Question) -> Question:
        """Without units."""
        units = f"log of the variance of {self.model.training.y_name if self.of_y else 'f'}"
        return replace(latent, factor=np.ones(len(latent.factor)), units=units, nonlinear=False)

    def noise(self, theta: Mapping[str, Any]) -> float:
        """Variance of the noise, where it counts."""
        return float(theta["sigma"]) ** 2 if self.of_y else 0.0

    def panels(self, degree: int) -> int:
        """As many as degrees: a variance close to the data has a sharp minimum."""
        return degree

    def expected(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """The logs of the variances."""
        # A variance that is 0 up to round-off has no logarithm. The message names the training row
        # with the median distance from the center: f of a linear kernel, or of a GPX with Z = X, is
        # known for certain at the center alone.
        if (variance > ROUND_OFF * variance.max()).all():
            return np.log(variance)
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

    def expected_slopes(self, mean: np.ndarray, variance: np.ndarray) -> list[np.ndarray]:
        """Slopes in the mean, 0, and twice those in the variance: d log V = (2 / V) dV / 2."""
        return [np.zeros_like(mean), 2.0 / np.maximum(variance, np.finfo(float).tiny)]


def is_of_y(model: ModelLike, on: str) -> bool:
    """Whether a log variance is of y, rather than of f."""
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


def response_units(model: ModelLike) -> str:
    """Units of the mean response."""
    return f"{model.specification.observation.mean_name} of {model.training.y_name}"


def mean_response(
    observation: Likelihood, f: np.ndarray, exposure: np.ndarray | float = 1.0
) -> np.ndarray:
    """Mean response for draws f (..., obs), or with a last dim of classes."""
    classes = observation.class_shape
    wide = np.broadcast_to(exposure, f.shape[: f.ndim - len(classes)]).ravel()
    return _mean_response(observation)(f.reshape(-1, *classes), wide).reshape(f.shape)


def symbols_of_normal(observation: Likelihood) -> tuple[Tensor, Tensor]:
    """Mean and variance (k,) of normal f; for several classes mean (k, C) and root (k, C, C)."""
    if observation.class_shape:
        return pt.dmatrix("mean"), pt.dtensor3("root")
    return pt.dvector("mean"), pt.dvector("variance")


@lru_cache(maxsize=8)
def _mean_response(observation: Likelihood) -> ThreadedFunction:
    f = pt.dmatrix("f") if observation.class_shape else pt.dvector("f")
    exposure = pt.dvector("exposure")
    return ThreadedFunction([f, exposure], observation.response(f, exposure).value)


@lru_cache(maxsize=8)
def _compiled_response(observation: Likelihood) -> ThreadedFunction:
    """Function from f (m, k) to the mean response, its slope and its second derivative."""
    f = pt.dmatrix("f")
    return ThreadedFunction([f], list(observation.response(f)), trust_input=True)


@lru_cache(maxsize=8)
def _rates(observation: ScalarLikelihood) -> ThreadedFunction:
    """Function from mean and variance (k,) of f to E S and the expectations of its derivatives."""
    m, V = pt.dvectors("m", "V")
    outputs = [observation.expected(m, V).value, *observation.rates(m, V)]
    return ThreadedFunction([m, V], outputs, trust_input=True)


@lru_cache(maxsize=8)
def _response(
    observation: ScalarLikelihood | VectorLikelihood, taylor: bool
) -> list[ThreadedFunction]:
    """Functions from mean and variance (k,) of f to [E S], and to [E S', E S'']."""
    m, V = pt.dvectors("m", "V")
    if not taylor:
        value, *slopes = observation.expected(m, V)
    else:
        # E S = S + V / 2 S'', E S' = S' + V / 2 S''', E S'' = S''.
        S, first, second = observation.response(m)
        value, slopes = S + 0.5 * V * second, [first, second]
        slopes[0] = first + 0.5 * V * pt.grad(cast("Tensor", second).sum(), m)
    return [ThreadedFunction([m, V], outputs, trust_input=True) for outputs in ([value], slopes)]
