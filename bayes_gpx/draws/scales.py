"""Scales that a question can be on: f itself, the mean response, or the log of a variance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.draws.intervals import BLOCK_NUMBERS
from bayes_gpx.draws.protocols import ModelLike
from bayes_gpx.draws.questions import Question, latent_units, refuse_weight
from bayes_gpx.likelihoods.events import in_words
from bayes_gpx.likelihoods.softmax_expectations import expected_probabilities
from bayes_gpx.numerics.jets import Jet, expectation
from bayes_gpx.numerics.threads import ThreadedFunction
from bayes_gpx.validation import one_of

if TYPE_CHECKING:
    from bayes_gpx.aliases import Tensor
    from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws
    from bayes_gpx.likelihoods.base import Likelihood, ScalarLikelihood, VectorLikelihood

LEAST = 1e-30
"""Least variance of f in quadratures over f."""

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

    def given(self, theta: Mapping[str, Any]) -> Latent:
        """The same for a draw of the hyperparameters."""
        return self

    def of_draws(self, hyper: HyperparameterDraws, numbers: np.ndarray) -> Latent:
        """The same for functions (F,) of these draws of the hyperparameters."""
        return self

    def panels(self, degree: int) -> int:
        """Panels of the quadrature along paths for moments by polynomials of that degree."""
        return degree // 4 if degree > 8 else 1

    def values(self, f: np.ndarray) -> np.ndarray:
        """S(f) of functions, at f (...,), or (..., C)."""
        return f

    def expected(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """E S(f) of normal f, of the shape of the mean."""
        return mean

    def expected_values(self, mean: Jet, variance: Jet) -> np.ndarray:
        """E S(f) of normal f (m,), or (m, C), from jets of the model's f."""
        if self.several:
            return np.stack([jet.value for jet in self.of_classes(mean, variance)], axis=1)
        return self.expected(mean.value + self.center, variance.value)

    def of_classes(self, mean: Jet, variance: Jet) -> tuple[Jet, ...]:
        """E S(f) of each of several classes, from jets of f with last dims (C,) and (C, C)."""
        return tuple(Jet(m, m_d) for m, m_d in _each_class(mean))


@dataclass(frozen=True, eq=False)
class Response(Latent):
    """The mean response S(f): a probability, or a rate."""

    # With `taylor` its expectations are by expansion around the mean of f, to second order. `theta`
    # are hyperparameters that the response depends on, each (...), or (F, ...) of F functions.

    taylor: bool = False
    theta: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    def question(self, latent: Question) -> Question:
        """In units of the response."""
        units = latent.units.replace(latent_units(self.model), response_units(self.model), 1)
        attrs, factor = {**latent.attrs, "scale": "response"}, latent.factor
        if self.model.training.scales_y:
            factor = factor / self.model.training.y_scaling.scale
        return replace(latent, units=units, factor=factor, nonlinear=False, attrs=attrs)

    def given(self, theta: Mapping[str, Any]) -> Response:
        """The same for a draw of the hyperparameters."""
        return replace(self, **self._observation.shaping(theta))

    def of_draws(self, hyper: HyperparameterDraws, numbers: np.ndarray) -> Response:
        """The same for functions of these draws of the hyperparameters."""
        known = _shaping_draws(self.model, hyper)
        each = {name: v.reshape((-1, *v.shape[2:]))[numbers] for name, v in known.items()}
        return replace(self, theta=each)

    def _theta(self, f: np.ndarray) -> list[np.ndarray]:
        """Hyperparameters of the response for each f (F m, ...), one after the other."""
        known = {}
        for name, h in self._observation.hyperparameters.items():
            if name in self.theta:
                value, own = np.asarray(self.theta[name]), int(h.dim is not None)
                repeated = value.ndim > own  # functions with the same rows
                known[name] = np.repeat(value, len(f) // len(value), axis=0) if repeated else value
        return by_element(self._observation, known, f.shape)

    @property
    def center(self) -> float:
        """What f is centred at; of several classes, and where y is scaled, at 0."""
        training = self.model.training
        return 0.0 if self.several or training.scales_y else training.y_scaling.center

    @property
    def _observation(self) -> ScalarLikelihood | VectorLikelihood:
        return self.model.specification.response

    def values(self, f: np.ndarray) -> np.ndarray:
        """S(f) of functions, at f (...,), or (..., C)."""
        if self.several:
            return mean_response(self._observation, f)
        return self._responses(f)[0]

    def _responses(self, f: np.ndarray) -> list[np.ndarray]:
        """S, S' and S'' at f."""
        found = _compiled_response(self._observation)(f.ravel(), *self._theta(f))
        return [part.reshape(f.shape) for part in found]

    def slopes(self, f: np.ndarray) -> np.ndarray:
        """S'(f) (m, t), or the derivatives (m, t, C, C) of each probability in each f."""
        if self.several:
            return cast("VectorLikelihood", self._observation).slopes(f)
        return self._responses(f)[1]

    def expected(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """E S(f) of normal f, of the shape of the mean."""
        known = self._theta(mean)
        (found,) = self._expectations[0](mean.ravel(), variance.ravel(), *known)
        return found.reshape(mean.shape)

    def expected_slopes(self, mean: np.ndarray, variance: np.ndarray) -> list[np.ndarray]:
        """E S'(f) and E S''(f) of normal f."""
        known = self._theta(mean)
        found = self._expectations[1](mean.ravel(), np.maximum(variance, 0.0).ravel(), *known)
        return [part.reshape(mean.shape) for part in found]

    def second_derivatives(
        self, f: np.ndarray, gradients: np.ndarray, hessians: np.ndarray
    ) -> np.ndarray:
        """S' f_de + S'' f_d f_e (m, [C,] d^2), from f (m[, C]), (m, d[, C]) and (m, d^2[, C])."""
        if not self.several:
            _, slope, bend = self._responses(f[:, None])
            crossed = gradients[:, :, None] * gradients[:, None]
            return slope * hessians + bend * crossed.reshape(hessians.shape)
        likelihood = cast("VectorLikelihood", self._observation)
        return likelihood.second_derivatives(f, gradients, hessians)

    def of_classes(self, mean: Jet, variance: Jet) -> tuple[Jet, ...]:
        """Expected responses."""
        return cast("VectorLikelihood", self._observation).expected_jets(mean, variance)

    def expected_bends(self, mean: Jet, variance: Jet) -> np.ndarray:
        """Second derivatives of E S(f) of normal f, (m, [C,] d, d)."""
        if self.several:
            each = [cast(np.ndarray, jet.second) for jet in self.of_classes(mean, variance)]
            return np.stack(each, axis=1)
        mean = mean.shifted(self.center)
        moments = mean.value, np.maximum(variance.value, 0.0)
        found = _rates(self._observation)(*moments, *self._theta(mean.value))
        return cast(np.ndarray, expectation(mean, variance, found[0], found[1:]).second)

    @property
    def _expectations(self) -> list[ThreadedFunction]:
        return _response(self._observation, self.taylor)


@dataclass(frozen=True, eq=False)
class LogVariance(Latent):
    """The log of the variance of f, or `of_y` a new row's y; of each class by itself."""

    of_y: bool = field(default=False, kw_only=True)
    theta: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    smooth: ClassVar = False  # the deviations of a new sample are part of its variance

    def question(self, latent: Question) -> Question:
        """Without units."""
        of = "y" if self.several else self.model.training.y_name
        units = f"log of the variance of {of if self.of_y else 'f'}"
        return replace(latent, factor=np.ones(len(latent.factor)), units=units, nonlinear=False)

    def given(self, theta: Mapping[str, Any]) -> LogVariance:
        """The same for a draw of the hyperparameters; raises if y has no variance then."""
        if self.of_y and not self.several:
            observation = self.model.specification.observation
            if not np.isfinite(observation.variance(np.zeros(1), theta)).all():
                own = {name: float(theta[name]) for name in observation.hyperparameters}
                raise ValueError(
                    f"of='log_variance': the variance of y is infinite with {own}. Pass "
                    "on='latent', for the variance of f."
                )
        return replace(self, theta=theta)

    @property
    def center(self) -> float:
        """What f is centred at, for a response that is not f itself."""
        training = self.model.training
        return 0.0 if training.scales_y or self.several else training.y_scaling.center

    @property
    def _around_f(self) -> bool:
        """Whether the variance is that of f, and perhaps a constant."""
        return not self.of_y or self.model.specification.observation.mean_name is None

    def panels(self, degree: int) -> int:
        """As many as degrees for a variance of f, which has sharp minima close to the data."""
        return degree if self._around_f else super().panels(degree)

    def expected(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """The logs of the variances."""
        # A variance that is 0 up to round-off has no logarithm. The message names the training row
        # with the median distance from the center: f of a linear kernel, or of a GPX with Z = X, is
        # known for certain at the center alone.
        found = self._variance(mean, variance)[0]
        if (found > (ROUND_OFF * found.max() if self._around_f else 0.0)).all():
            return np.log(found)
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
        """Slopes in the mean, T_m / T, and twice the slopes in the variance, T_V / T."""
        total, *slopes = self._variance(mean, variance)
        total = np.maximum(total, np.finfo(float).tiny)
        return [slopes[0] / total, 2.0 * slopes[1] / total]

    def _variance(
        self, mean: np.ndarray, variance: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The variance T where f ~ N(mean, variance), and its slopes in both."""
        observation = self.model.specification.observation
        if not self._around_f:
            return _marginal_variance(observation, mean, variance, self.theta)
        noise = observation.variance(mean, self.theta) if self.of_y else 0.0
        return variance + noise, np.zeros_like(mean), np.ones_like(mean)

    def of_classes(self, mean: Jet, variance: Jet) -> tuple[Jet, ...]:
        """Of the f of each class, or of its indicator, p (1 - p)."""
        if not self.of_y:
            first = None if variance.first is None else _diagonal(variance.first)
            return tuple(
                Jet(self.expected(V, V), None if V_d is None else V_d / V[:, None])
                for V, V_d in _each_class(Jet(_diagonal(variance.value), first))
            )
        each, found = expected_probabilities(mean, variance), []
        for k, own in enumerate(each):
            p, others = own.value, sum(jet.value for j, jet in enumerate(each) if j != k)
            rate = (1.0 / p - 1.0 / others)[:, None]
            slope = None if own.first is None else rate * own.first
            found.append(Jet(np.log(p) + np.log(others), slope))
        return tuple(found)


def log_variance(model: ModelLike, on: str) -> LogVariance:
    """The log of the variance of y, on the response scale, or of f."""
    one_of("on", on, ("response", "latent"))
    refuse_weight(model, "log variances")
    if on == "response" and model.specification.observation.processes:
        raise ValueError(
            "of='log_variance' was given, but the standard deviation of y is a process of the "
            "model. Leave `of` out to explain it, or pass on='latent' for the variances of f."
        )
    return LogVariance(model, of_y=on == "response")


def _diagonal(covariances: np.ndarray) -> np.ndarray:
    """Variances (..., C) of each class."""
    return np.diagonal(covariances, axis1=-2, axis2=-1)


def _each_class(jet: Jet) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """Values (m,) and derivatives (m, d) of each class."""
    for c in range(jet.value.shape[-1]):
        yield jet.value[:, c], None if jet.first is None else jet.first[..., c]


def _marginal_variance(
    observation: ScalarLikelihood, mean: np.ndarray, variance: np.ndarray, theta: Mapping[str, Any]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Variance of y where f ~ N(mean, variance), and its slopes in both."""
    # With v(f) and S(f) the variance and mean of y given f, T = E h(f) with h = v + (S - E S)^2.
    # By Stein's identity, T_m = E h' = E z h / sd and T_V = E h'' / 2 = E (z^2 - 1) h / (2 V), for
    # f = m + sd z; h(m) is subtracted first, which changes neither.
    z = np.linspace(-20.0, 20.0, 201)
    weights = np.exp(-0.5 * z**2)
    weights /= weights.sum()
    found = np.empty((3, mean.size))
    size = BLOCK_NUMBERS // len(z)
    for rows in (slice(first, first + size) for first in range(0, mean.size, size)):
        m, V = mean.ravel()[rows, None], np.maximum(variance.ravel()[rows], LEAST)
        f = np.hstack([m, m + np.sqrt(V)[:, None] * z])
        S = mean_response(observation, f, theta=theta)
        h = observation.variance(f, theta) + (S - (S[:, 1:] @ weights)[:, None]) ** 2
        apart = h[:, 1:] - h[:, :1]
        found[0, rows] = h[:, 1:] @ weights
        found[1, rows] = apart @ (weights * z) / np.sqrt(V)
        found[2, rows] = apart @ (weights * (z**2 - 1.0)) / (2.0 * V)
    total, in_mean, in_variance = found.reshape((3, *mean.shape))
    return total, in_mean, in_variance


def response_units(model: ModelLike) -> str:
    """Units of the mean response; of two classes, they name the one with this probability."""
    specification, labels = model.specification, model.training.labels
    units = specification.response.response_units
    if labels is not None and specification.classes is None and specification.event is None:
        units = in_words("probability", labels[1])
    return model.training.said_of_y(units)


def scale_attrs(model: ModelLike, on_response: bool) -> dict[str, str]:
    """What attrs say of the scale of a result: units, and whether it is of the mean response."""
    if on_response:
        return {"units": response_units(model), "scale": "response"}
    return {"units": latent_units(model)}


def mean_response(
    observation: Likelihood,
    f: np.ndarray,
    exposure: np.ndarray | float = 1.0,
    theta: Mapping[str, Any] | None = None,
) -> np.ndarray:
    """Mean response for draws f (..., obs), or with a last dim of classes."""
    # `theta` has hyperparameters that the response depends on, with the first dims of f, or none.
    classes = observation.class_shape
    wide = np.broadcast_to(exposure, f.shape[: f.ndim - len(classes)]).ravel()
    known = by_element(observation, theta or {}, f.shape)
    return _mean_response(observation)(f.reshape(-1, *classes), wide, *known).reshape(f.shape)


def unscaled(model: ModelLike, f: np.ndarray) -> np.ndarray:
    """Values of f on the likelihood's scale, from those in user units."""
    scaling = model.training.y_scaling
    if model.training.scales_y:
        return (f - scaling.center) / scaling.scale
    return f - model.specification.observation.centers


def by_element(
    observation: Likelihood, theta: Mapping[str, Any], shape: tuple[int, ...]
) -> list[np.ndarray]:
    """Hyperparameters that the response depends on for each element of f of a shape, flat."""
    # They have the first dims of f, or none, and then their own.
    found = []
    for name in observation.shaped_by:
        value, own = np.asarray(theta[name]), int(observation.hyperparameters[name].dim is not None)
        lead, last = value.shape[: value.ndim - own], value.shape[value.ndim - own :]
        value = value.reshape((*lead, *[1] * (len(shape) - len(lead)), *last))
        found.append(np.broadcast_to(value, (*shape, *last)).reshape((-1, *last)))
    return found


def of_functions(model: ModelLike, hyper: HyperparameterDraws, draws: int) -> dict[str, np.ndarray]:
    """Hyperparameters (chain, draw, ...) that the response depends on, for each of more draws."""
    known = _shaping_draws(model, hyper)
    return {name: np.repeat(v, draws // v.shape[1], axis=1) for name, v in known.items()}


def _shaping_draws(model: ModelLike, hyper: HyperparameterDraws) -> dict[str, np.ndarray]:
    """The same for the draws themselves; of several outputs, of the one to explain."""
    spec, values = model.specification, hyper.values
    own = {n: v[..., model.training.code] for n, v in spec.noise_of_outputs(values).items()}
    return {name: own.get(name, values[name]) for name in spec.response.shaped_by}


def by_row(observation: Likelihood) -> dict[str, Tensor]:
    """Symbols of the hyperparameters that the response depends on, one for each f."""
    known = observation.symbols()
    return {n: pt.tensor(n, shape=(None,) * (1 + known[n].ndim)) for n in observation.shaped_by}


def symbols_of_normal(observation: Likelihood) -> tuple[Tensor, Tensor]:
    """Mean and variance (k,) of normal f; for several classes mean (k, C) and root (k, C, C)."""
    if observation.class_shape:
        return pt.dmatrix("mean"), pt.dtensor3("root")
    return pt.dvector("mean"), pt.dvector("variance")


@lru_cache(maxsize=8)
def _mean_response(observation: Likelihood) -> ThreadedFunction:
    f = pt.dmatrix("f") if observation.class_shape else pt.dvector("f")
    exposure, theta = pt.dvector("exposure"), by_row(observation)
    found = observation.response(f, exposure, **observation.shaping(theta))
    return ThreadedFunction([f, exposure, *theta.values()], found.value)


@lru_cache(maxsize=8)
def _compiled_response(observation: Likelihood) -> ThreadedFunction:
    """Function from f (k,) to the mean response, its slope and its second derivative."""
    f, theta = pt.dvector("f"), by_row(observation)
    found = observation.response(f, **observation.shaping(theta))
    return ThreadedFunction([f, *theta.values()], list(found), trust_input=True)


@lru_cache(maxsize=8)
def _rates(observation: ScalarLikelihood) -> ThreadedFunction:
    """Function from mean and variance (k,) of f to E S and the expectations of its derivatives."""
    (m, V), theta = pt.dvectors("m", "V"), by_row(observation)
    known = observation.shaping(theta)
    outputs = [observation.expected(m, V, **known).value, *observation.rates(m, V, **known)]
    return ThreadedFunction([m, V, *theta.values()], outputs, trust_input=True)


@lru_cache(maxsize=8)
def _response(
    observation: ScalarLikelihood | VectorLikelihood, taylor: bool
) -> list[ThreadedFunction]:
    """Functions from mean and variance (k,) of f to [E S], and to [E S', E S'']."""
    (m, V), theta = pt.dvectors("m", "V"), by_row(observation)
    known = observation.shaping(theta)
    if not taylor:
        value, *slopes = observation.expected(m, V, **known)
    else:
        # E S = S + V / 2 S'', E S' = S' + V / 2 S''', E S'' = S''.
        S, first, second = observation.response(m, **known)
        value, slopes = S + 0.5 * V * second, [first, second]
        slopes[0] = first + 0.5 * V * pt.grad(cast("Tensor", second).sum(), m)
    inputs = [m, V, *theta.values()]
    return [ThreadedFunction(inputs, outputs, trust_input=True) for outputs in ([value], slopes)]
