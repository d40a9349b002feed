"""Likelihoods for rows with weights, and for rows with bounds in place of values of y.

They stand for the model's likelihood when a posterior is conditioned on the training rows. Weights
and bounds are further columns of the exposure, (n, 1 + k): each likelihood takes the last ones and
passes on the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.data.row_data import CENSORING
from bayes_gpx.likelihoods.base import Exposure, Response, ScalarLikelihood, Theta
from bayes_gpx.likelihoods.derived import CLEAR, Tails
from bayes_gpx.likelihoods.tails import KEPT_POSITIVE, Slopes, kept_positive
from bayes_gpx.numerics.gaussian_expectations import moments, nodes, nodes_with_kinks, wide_nodes
from bayes_gpx.numerics.special import log_ndtr, log_ndtr_within, log_normal, log_sum_exp


@dataclass(frozen=True)
class _OfRows:
    """A likelihood that changes some parts of another one."""

    likelihood: Any
    core_shape: ClassVar[str] = "(n,e)"
    taken: ClassVar[int]  # last columns of the exposure
    suffix: ClassVar[str]  # of the name of the term that it adds to a PyMC model

    def __getattr__(self, name: str) -> Any:
        """All else is the other's."""
        if name.startswith("__") or name == "likelihood":
            raise AttributeError(name)
        return getattr(self.likelihood, name)

    def exposures(self) -> Tensor:
        """Exposures (n, 1 + k), as an input of graphs."""
        return pt.dmatrix("exposure")

    def _rest(self, exposure: Any) -> Any:
        """The exposure of the other likelihood."""
        columns = exposure[..., : -self.taken]
        return columns if isinstance(self.likelihood, _OfRows) else columns[..., 0]

    def highest(self, f: Tensor, y: Tensor, theta: Theta, exposure: Any) -> TensorLike:
        """The f of the highest log density of a value y."""
        return cast(Tensor, self.likelihood.highest(f, y, theta, self._rest(exposure)))

    def expected(self, mean: Any, spread: Any, exposure: Exposure = None, **known: Any) -> Response:
        """Expected mean response."""
        rest = None if exposure is None else self._rest(exposure)
        return cast(Response, self.likelihood.expected(mean, spread, rest, **known))

    def cumulative_predictive(
        self, y: Tensor, mean: Tensor, variance: Tensor, theta: Theta, exposure: Any
    ) -> Tensor:
        """Probability of at most y where f ~ N(mean, variance)."""
        given = y, mean, variance, theta, self._rest(exposure)
        return cast(Tensor, self.likelihood.cumulative_predictive(*given))

    def dist(self, name: str, f: Tensor, theta: Theta, exposure: Any, **kwargs: Any) -> Tensor:
        """Return y as a variable of the PyMC model at hand, which draws plain y."""
        rest, own = self._rest(exposure), cast(Any, self)
        y = self.likelihood.dist(name, f, theta, rest, **kwargs)
        given = f, pt.as_tensor(kwargs["observed"]), theta
        more = own.logp(*given, exposure) - self.likelihood.logp(*given, rest)
        pm.Potential(f"{name}_{self.suffix}", more.sum())
        return cast(Tensor, y)


@dataclass(frozen=True)
class Weighted(_OfRows):
    """Each row's log density is multiplied by its weight, the last column of the exposure."""

    taken = 1
    suffix = "weighted"

    def _parts(self, exposure: Any) -> tuple[Tensor, Any]:
        return exposure[..., -1], self._rest(exposure)

    def sd(self, theta: Theta, exposure: Any) -> Any:
        """Standard deviation of noise that gives y as much influence as its weight."""
        weights, rest = self._parts(exposure)
        return self.likelihood.sd(theta, rest) / pt.sqrt(weights)

    def beyond_normal(self, theta: Theta, exposure: Any, deviations: TensorLike = 0.0) -> Tensor:
        """Log of p(y | f)^w over the normal density with noise `sd`, (n,).

        In a GPX of p(y | g)^w, with variances (n,) of the rows' deviations.
        """
        weights, rest = self._parts(exposure)
        variance = pt.sqr(self.likelihood.sd(theta, rest)) + deviations
        return 0.5 * ((1.0 - weights) * pt.log(2.0 * np.pi * variance) - pt.log(weights))

    def logp(self, f: Tensor, y: Tensor, theta: Theta, exposure: Any) -> Tensor:
        """Weighted log density of y given f."""
        weights, rest = self._parts(exposure)
        return cast(Tensor, weights * self.likelihood.logp(f, y, theta, rest))

    def derivatives(self, f: Tensor, y: Tensor, theta: Theta, exposure: Any) -> tuple[Tensor, ...]:
        """Derivatives of `logp` in f."""
        weights, rest = self._parts(exposure)
        return weighed(weights, self.likelihood.derivatives(f, y, theta, rest))

    def fisher(self, f: Tensor, theta: Theta, exposure: Any) -> Tensor:
        """Weighted information about f."""
        weights, rest = self._parts(exposure)
        return weighed(weights, [self.likelihood.fisher(f, theta, rest)])[0]

    def laplace_information(
        self, f: Tensor, y: Tensor, theta: Theta, exposure: Any
    ) -> tuple[Tensor, ...]:
        """Weighted information about f, of values or of bounds, and its slope."""
        weights, rest = self._parts(exposure)
        return tuple(weights * v for v in self.likelihood.laplace_information(f, y, theta, rest))

    def steps(self, f: Tensor, y: Tensor, theta: Theta, exposure: Any) -> Tensor:
        """Curvature for Newton's steps."""
        weights, rest = self._parts(exposure)
        return cast(Tensor, weights * self.likelihood.steps(f, y, theta, rest))

    def expected_log(
        self, mean: Tensor, sd: Tensor, y: Tensor, theta: Theta, exposure: Any
    ) -> tuple[Tensor, ...]:
        """E `logp` for f ~ N(mean, sd^2), with its slopes."""
        weights, rest = self._parts(exposure)
        return weighed(weights, self.likelihood.expected_log(mean, sd, y, theta, rest))

    def weighed_nodes(
        self, y: Tensor, mean: Tensor, variance: Tensor, theta: Theta, exposure: Any
    ) -> tuple[Tensor, Tensor]:
        """Nodes of f ~ N(mean, variance), and logs of weights that have p(y | f)^w in them."""
        weights, rest = self._parts(exposure)
        f, logs = self.likelihood.weighed_nodes(y, mean, variance, theta, rest)
        once = self.likelihood.logp(f, y[:, None], theta, rest[:, None])
        return f, logs + (weights[:, None] - 1.0) * once

    log_predictive = ScalarLikelihood.log_predictive
    posterior_moments = ScalarLikelihood.posterior_moments

    def score(self, y: Tensor, mean: Tensor, spread: Tensor, theta: Theta, exposure: Any) -> Tensor:
        """The weight times the log density of one y."""
        weights, rest = self._parts(exposure)
        return cast(Tensor, weights * self.likelihood.score(y, mean, spread, theta, rest))


@dataclass(frozen=True)
class Censored(_OfRows):
    """In some rows y is only known to be at most a bound, above a bound, or between two.

    The last two columns of the exposure are the upper end of an interval (in other rows, some
    number above y) and the code of the kind of row. The likelihood has tails; see `tails_of`. Log
    probabilities of intervals are concave in f where the log density of y is.
    """

    kinds: tuple[str, ...]  # which of `CENSORING` the rows have, without "none"
    taken = 2
    suffix = "censored"
    normal = False
    ordered = False  # a censored y is not compared with its prediction

    @property
    def information_at_mode(self) -> str:
        """Which information about f Laplace's approximation takes, in words."""
        own: str = self.likelihood.information_at_mode
        return f"{own}; of bounds {KEPT_POSITIVE}" if own == "Fisher" else own

    def _bounds(self, f: Tensor, y: Tensor, theta: Theta, exposure: Any) -> tuple[Tensor, Slopes]:
        """Which rows have bounds, and log probabilities of these with slopes."""
        rows = _bounded(exposure)
        f, y, exposure = f[rows], y[rows], exposure[rows]
        upper, code, rest = exposure[..., -2], exposure[..., -1], self._rest(exposure)
        tails = cast(Tails, tails_of(self.likelihood))
        below, above = tails(f, y, theta, rest)
        found = {"left": below, "right": above}
        if "interval" in self.kinds:
            # Structural zeros are in no interval, and the difference would lose its digits in them.
            inside = getattr(self.likelihood, "tails_of_counts", tails)
            below, above = inside(f, y, theta, rest)
            within, beyond = inside(f, upper, theta, rest)
            # The difference of the smaller tails keeps its digits.
            low = pt.lt(within[0], above[0])
            both = ((within, above), (below, beyond))
            inner, outer = (Slopes(*_either(low, *v)) for v in both)
            found["interval"] = inner.but_not(outer)
        first, *others = self.kinds or ("left",)
        own = found[first]
        for kind in others:
            own = Slopes(*_either(pt.eq(code, CENSORING.index(kind)), found[kind], own))
        return rows, own

    def logp(self, f: Tensor, y: Tensor, theta: Theta, exposure: Any) -> Tensor:
        """Log density of y given f, or log probability of its bounds."""
        rows, found = self._bounds(f, y, theta, exposure)
        own = self.likelihood.logp(f, *self._of_values(y, theta, exposure))
        return pt.set_subtensor(own[rows], found.value)

    def derivatives(self, f: Tensor, y: Tensor, theta: Theta, exposure: Any) -> tuple[Tensor, ...]:
        """First three derivatives of `logp` in f."""
        rows, found = self._bounds(f, y, theta, exposure)
        own = self.likelihood.derivatives(f, *self._of_values(y, theta, exposure))
        return _with(own, rows, found[1:])

    def _of_values(self, y: Tensor, theta: Theta, exposure: Any) -> tuple[Tensor, Theta, Any]:
        """Arguments of the likelihood; a bound, which may be far away, becomes a possible y."""
        # The unused branch of a choice must be finite too, or its gradient is NaN.
        possible = np.float64(self.likelihood.possible_y)
        own = pt.switch(pt.eq(exposure[..., -1], 0), y, possible)
        return cast(Tensor, own), theta, self._rest(exposure)

    def laplace_information(
        self, f: Tensor, y: Tensor, theta: Theta, exposure: Any
    ) -> tuple[Tensor, ...]:
        """The likelihood's own, and the observed information of a bound, kept above 0."""
        rows, found = self._bounds(f, y, theta, exposure)
        own = self.likelihood.laplace_information(f, *self._of_values(y, theta, exposure))
        return _with(own, rows, kept_positive(*found[1:]))

    def steps(self, f: Tensor, y: Tensor, theta: Theta, exposure: Any) -> Tensor:
        """Curvature for Newton's steps: of a bound, observed where it is clearly positive."""
        rows, found = self._bounds(f, y, theta, exposure)
        most = pt.sqr(found.first)
        observed = pt.switch(-found.second > CLEAR * most, -found.second, most)
        own = self.likelihood.steps(f, *self._of_values(y, theta, exposure))
        return pt.set_subtensor(own[rows], observed)

    def weighed_nodes(
        self, y: Tensor, mean: Tensor, variance: Tensor, theta: Theta, exposure: Any
    ) -> tuple[Tensor, Tensor]:
        """Nodes of f ~ N(mean, variance), and logs of weights that have p(y | f) in them."""
        log_p = lambda f: self.logp(f, y[:, None], theta, exposure[:, None])  # noqa: E731
        if not self.likelihood.concave:
            return wide_nodes(log_p, mean, variance)
        # A bound has no highest log probability.
        slope = self.derivatives(mean, y, theta, exposure)[0]
        highest = self.likelihood.highest(mean, y, theta, self._rest(exposure))
        peak = pt.switch(pt.eq(exposure[:, -1], 0), highest, np.inf)
        if not self.likelihood.smooth:
            ends = y, exposure[:, -2]
            return nodes_with_kinks(log_p, mean, variance, slope, peak, ends)
        return nodes(log_p, mean, variance, slope, peak)

    # The likelihood itself may have a closed form where y is known.

    def expected_log(
        self, mean: Tensor, sd: Tensor, y: Tensor, theta: Theta, exposure: Any
    ) -> tuple[Tensor, ...]:
        """E `logp` for f ~ N(mean, sd^2), with its slopes."""
        rows = _bounded(exposure)
        known = self.likelihood.expected_log(mean, sd, *self._of_values(y, theta, exposure))
        given = mean[rows], sd[rows], y[rows], theta, exposure[rows]
        return _with(known, rows, ScalarLikelihood.expected_log(cast(Any, self), *given))

    def log_predictive(
        self, y: Tensor, mean: Tensor, variance: Tensor, theta: Theta, exposure: Any
    ) -> Tensor:
        """Log density of y, or log probability of its bounds, where f ~ N(mean, variance)."""
        rows, (value, *rest) = _bounded(exposure), self._of_values(y, theta, exposure)
        known = self.likelihood.log_predictive(value, mean, variance, *rest)
        given = y[rows], mean[rows], variance[rows], theta, exposure[rows]
        own = ScalarLikelihood.log_predictive(cast(Any, self), *given)
        return pt.set_subtensor(known[rows], own)

    score = log_predictive

    def posterior_moments(
        self, y: Tensor, mean: Tensor, variance: Tensor, theta: Theta, exposure: Any
    ) -> tuple[Tensor, ...]:
        """Mean and variance of f given y or its bounds where f ~ N(mean, variance) before."""
        rows, (value, *rest) = _bounded(exposure), self._of_values(y, theta, exposure)
        known = self.likelihood.posterior_moments(value, mean, variance, *rest)
        given = y[rows], mean[rows], variance[rows], theta, exposure[rows]
        return _with(known, rows, moments(*self.weighed_nodes(*given)))


@dataclass(frozen=True)
class CensoredProcesses(Censored):
    """The same for a normal y whose mean and log sd are processes; f is (n, 2), or (n, K, 2).

    There are no second derivatives, which Laplace's approximation would need.
    """

    def _of_bounds(self, z: Tensor, width: Tensor, code: Tensor) -> tuple[Tensor, ...]:
        """Log probabilities of bounds of a standard normal variable, and slopes.

        From z of y, and from the widths of intervals. The slopes are in the mean, for a sd of 1,
        and in the log sd.
        """
        found: dict[str, tuple[Tensor, ...]] = {}
        for kind, side in (("left", 1.0), ("right", -1.0)):
            value = log_ndtr(side * z)
            rate = side * pt.exp(log_normal(z, 0.0, 1.0) - value)
            found[kind] = value, -rate, -z * rate
        if "interval" in self.kinds:
            found["interval"] = _within(z, width)
        first, *others = self.kinds or ("left",)
        own = found[first]
        for kind in others:
            own = _either(pt.eq(code, CENSORING.index(kind)), found[kind], own)
        return own

    def _standardized(self, f: Tensor, y: Tensor, exposure: Any) -> tuple[Tensor, ...]:
        """Z of y, widths of intervals, and codes; and the precisions' square roots."""
        m, s = self.likelihood.centers
        scale = pt.exp(-(f[..., 1] + s))
        z, width = scale * (y - f[..., 0] - m), scale * (exposure[..., -2] - y)
        return z, width, exposure[..., -1], scale

    def logp(self, f: Tensor, y: Tensor, theta: Theta, exposure: Any) -> Tensor:
        """Log density of y given f, or log probability of its bounds."""
        rows = _bounded(exposure)
        *given, _ = self._standardized(f[rows], y[rows], exposure[rows])
        own = self.likelihood.logp(f, y, theta)
        return pt.set_subtensor(own[rows], self._of_bounds(*given)[0])

    def expected_log(
        self, mean: Tensor, sd: Tensor, y: Tensor, theta: Theta, exposure: Any
    ) -> tuple[Tensor, ...]:
        """E `logp` for f ~ N(mean, sd^2), with its slopes; of bounds by nodes of both processes."""
        rows, known = _bounded(exposure), self.likelihood.expected_log(mean, sd, y, theta)
        x, weights = NODES_OF_BOTH
        f = mean[rows][:, None] + sd[rows][:, None] * x
        *given, scale = self._standardized(f, y[rows][:, None], exposure[rows][:, None])
        value, in_mean, in_log_sd = self._of_bounds(*given)
        slopes = pt.stack([scale * in_mean, in_log_sd], axis=-1)
        found = (
            pt.dot(value, weights),
            (weights[:, None] * slopes).sum(axis=1),
            -(weights[:, None] * x * slopes).sum(axis=1) / sd[rows],
        )
        return _with(known, rows, found)

    def log_predictive(
        self, y: Tensor, mean: Tensor, variance: Tensor, theta: Theta, exposure: Any
    ) -> Tensor:
        """Log density of y, or log probability of its bounds; `variance` is a root (n, 2, 2)."""
        rows, known = _bounded(exposure), self.likelihood.log_predictive(y, mean, variance)
        given = mean[rows], variance[rows]
        apart, spread, weights = self.likelihood.given_log_sd(y[rows], *given)
        sd, wide = pt.sqrt(spread), exposure[rows, -2] - y[rows]
        value, *_ = self._of_bounds(apart / sd, wide[:, None] / sd, exposure[rows, -1][:, None])
        return pt.set_subtensor(known[rows], log_sum_exp(value + np.log(weights)))

    score = log_predictive


NARROW, FAR_END = 1e-2, 1e3
"""A probability of a narrower interval, for z of about 1, would lose digits as a difference; and an
end beyond which nothing is left."""


def _within(z: Tensor, width: Tensor) -> tuple[Tensor, ...]:
    """`CensoredProcesses._of_bounds` of the interval from z on."""
    narrow = width * (1.0 + pt.abs(z)) < NARROW
    # The unused branch of a choice must be finite too, or its gradient is NaN.
    end = pt.minimum(z + pt.switch(narrow, 1.0, width), pt.maximum(z, 0.0) + FAR_END)
    value = log_ndtr_within(z, end)
    low, high = (pt.exp(log_normal(v, 0.0, 1.0) - value) for v in (z, end))
    wide = value, low - high, z * low - end * high
    # Around the middle, up to the fourth power of the width.
    small = pt.switch(narrow, width, NARROW)
    middle, twelfth = z + small / 2.0, pt.sqr(small) / 12.0
    bend = pt.switch(narrow, (pt.sqr(middle) - 1.0) * twelfth / 2.0, 0.0)
    value = pt.log(small) + log_normal(middle, 0.0, 1.0) + pt.log1p(bend)
    in_log_sd = pt.sqr(middle) - 1.0 - (2.0 * pt.sqr(middle) - 1.0) * twelfth
    return _either(narrow, (value, middle * (1.0 - twelfth), in_log_sd), wide)


_GRID = np.linspace(-6.0, 6.0, 25)
_PAIRS = np.stack(np.meshgrid(_GRID, _GRID, indexing="ij"), axis=-1).reshape((-1, 2))
_DENSITY = np.exp(-0.5 * (_PAIRS**2).sum(axis=1))
NODES_OF_BOTH = _PAIRS, _DENSITY / _DENSITY.sum()
"""Nodes (K, 2) of two standard normal variables, and their weights (K,), by trapezoids."""


def tails_of(likelihood: Any) -> Tails | None:
    """The function of logs of the probabilities of at most y, and of more than y, with slopes in f.

    Hazards take `log_tails` alone; other likelihoods have `tails`. None where there is neither.
    """
    return getattr(likelihood, "log_tails", None) or getattr(likelihood, "tails", None)


def _either(which: Tensor, one: Sequence, other: Sequence) -> tuple[Tensor, ...]:
    return tuple(pt.switch(which, *both) for both in zip(one, other, strict=True))


def _bounded(exposure: Any) -> Tensor:
    """Positions of rows with bounds; the exposure is (n, k), or (n, 1, k) beside nodes of f."""
    code = exposure[..., -1]
    return pt.nonzero(pt.neq(code if code.ndim == 1 else code[:, 0], 0))[0]


def _with(known: Sequence[Tensor], rows: Tensor, found: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The same with others in some rows."""
    return tuple(pt.set_subtensor(v[rows], w) for v, w in zip(known, found, strict=True))


def weighed(weights: Tensor, each: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Arrays times the weight of each row, which may have several latent values."""
    return tuple(pt.shape_padright(weights, v.ndim - weights.ndim) * v for v in each)


def unweighted(likelihood: Any) -> tuple[Any, bool]:
    """A likelihood without the weights of rows, and whether it had them."""
    weighted = isinstance(likelihood, Weighted)
    return (likelihood.likelihood if weighted else likelihood), weighted


def rows_of(likelihood: Any, y: Tensor, exposure: Tensor) -> list[Tensor]:
    """The data of a search for a mode: y, and weights if there are any."""
    return [y, exposure[:, -1]] if unweighted(likelihood)[1] else [y]
