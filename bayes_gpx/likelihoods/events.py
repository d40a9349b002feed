"""Probabilities of events, hazards and quantiles of y, which take the place of its mean."""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.utils import MethodNotDefined

from bayes_gpx.aliases import Tensor
from bayes_gpx.likelihoods.base import Exposure, Response, ScalarLikelihood, Theta
from bayes_gpx.numerics.gaussian_expectations import NODES_OF_A_SIDE, SDS

_Z = np.linspace(-SDS, SDS, 321)
_NODES = _Z, np.exp(-0.5 * _Z**2) / np.exp(-0.5 * _Z**2).sum()
"""Nodes and weights: a probability may fall from 1 to 0 in a twentieth of the sd of f."""


KINDS = {
    "survival": "probability that {y} > {at}",
    "probability": "probability that {y} = {at}",
    "hazard": "hazard at {y} = {at}",
    "quantile": "quantile {at} of {y}",
}
"""Events by name, in words with places for the name of y and for a value."""

NEEDED = {"hazard": ("log_tails", "log_survival"), "quantile": ("quantile",)}
"""Methods that only some likelihoods have."""


def in_words(kind: str, at: object) -> str:
    """An event in words, with a place for the name of y."""
    return KINDS[kind].format(y="{y}", at=str(at).replace("{", "{{").replace("}", "}}"))


@dataclass(frozen=True)
class Event:
    """P(y > at), or another of `KINDS`, for a likelihood of which all else is the same."""

    likelihood: ScalarLikelihood
    kind: str
    at: float
    center: float = 0.0  # of y, where the likelihood is of a scaled y
    scale: float = 1.0

    def __getattr__(self, name: str) -> Any:
        """All else is the likelihood's."""
        if name.startswith("__") or name == "likelihood":
            raise AttributeError(name)
        return getattr(self.likelihood, name)

    def __str__(self) -> str:
        """The event in words that are the same in every process."""
        return f"{self.kind} at {self.at!r}"

    @property
    def mean_name(self) -> str:
        """What results call it."""
        return self.kind

    reported = mean_name

    @property
    def response_units(self) -> str:
        """In words."""
        names = getattr(self.likelihood, "names", ())
        return in_words(self.kind, names[int(self.at)] if names else f"{self.at:g}")

    @property
    def shaped_by(self) -> tuple[str, ...]:
        """All hyperparameters."""
        return (*self.likelihood.hyperparameters,)

    def shaping(self, theta: Theta) -> dict[str, Any]:
        """The argument `theta`."""
        return {"theta": {name: theta[name] for name in self.shaped_by}}

    def _value(self, f: Tensor, exposure: Exposure, theta: Theta) -> Tensor:
        of = self.likelihood
        if self.kind == "quantile":
            return self.center + self.scale * cast(Any, of).quantile(self.at, f, theta, exposure)
        # A number of PyTensor's own type would be one of single precision.
        place = np.asarray((self.at - self.center) / self.scale, "float64")
        at = pt.full_like(f, pt.as_tensor(place))
        if self.kind == "probability":
            return pt.exp(of.logp(f, at, theta, exposure))
        if hasattr(of, "log_tails"):
            beyond = of.log_tails(f, at, theta, exposure)[1].value
        elif hasattr(of, "log_survival"):
            beyond = of.log_survival(f, at, theta, exposure)
        else:
            return 1.0 - of.cumulative(f, at, theta, exposure)
        if self.kind == "survival":
            return pt.exp(beyond)
        return pt.exp(of.logp(f, at, theta, exposure) - beyond) / self.scale

    def response(
        self, f: Tensor, exposure: Exposure = None, theta: Theta | None = None
    ) -> Response:
        """The probability, with two derivatives in f."""
        value = self._value(f, exposure, theta or {})
        try:
            slope = _slope(value, f)
            return Response(value, slope, _slope(slope, f))
        except MethodNotDefined:
            raise ValueError(
                f"of is {self.kind!r}, but PyTensor has no second derivative of the distribution "
                "function of y, as of pm.Beta. Take a share of draws of y from bx.predictions "
                "instead, or a likelihood of bayes_gpx."
            ) from None

    def expected(
        self,
        mean: Tensor,
        variance: Tensor,
        exposure: Exposure = None,
        theta: Theta | None = None,
    ) -> Response:
        """Its expectation and those of its derivatives where f ~ N(mean, variance)."""
        sd = pt.sqrt(variance)
        z, weights = _NODES if self.likelihood.smooth else self._around_kink(mean, sd)
        f = mean[:, None] + sd[:, None] * z
        beside = {name: self._column(name, v) for name, v in (theta or {}).items()}
        found = self.response(f, None if exposure is None else exposure[:, None], beside)
        return Response(*((v * weights).sum(axis=1) for v in found))

    def _around_kink(self, mean: Tensor, sd: Tensor) -> tuple[Tensor, Tensor]:
        """Nodes of a standard normal variable and weights, (n, K), on both sides of f = `at`."""
        place = np.float64((self.at - self.center) / self.scale)
        kink = pt.clip((place - mean) / pt.maximum(sd, 1e-150), -SDS, SDS)[:, None]
        x, own = np.polynomial.legendre.leggauss(NODES_OF_A_SIDE)
        sides = [(SDS + kink) / 2.0, (SDS - kink) / 2.0]
        z = [half * (x + 1.0) + start for half, start in zip(sides, (-SDS, kink), strict=True)]
        both = pt.concatenate(z, axis=1), pt.concatenate([half * own for half in sides], axis=1)
        return both[0], both[1] * pt.exp(-0.5 * pt.sqr(both[0])) / np.sqrt(2.0 * np.pi)

    def _column(self, name: str, value: Any) -> Tensor:
        """A hyperparameter of each row beside nodes (n, K) of f."""
        vector = self.likelihood.hyperparameters[name].dim is not None
        value = pt.as_tensor(value)
        return value[..., None, :] if vector else value[..., None]

    def rates(self, mean: Tensor, variance: Tensor, theta: Theta | None = None) -> list[Tensor]:
        """Expected first four derivatives where f ~ N(mean, variance)."""
        found = [cast(Tensor, v) for v in self.expected(mean, variance, theta=theta)[1:]]
        while len(found) < 4:
            found.append(_slope(found[-1], mean))
        return found


def _slope(value: Tensor, at: Tensor) -> Tensor:
    """Derivative, elementwise; 0 where nothing depends on it, as with a quantile that is linear."""
    return cast(Tensor, pt.grad(value.sum(), at, disconnected_inputs="ignore"))
