"""Likelihoods that PyMC's densities define: derivatives, expectations and draws follow from them.

A subclass of `Derived` gives the distribution of y and its mean, and all else is derived. Closed
forms replace parts of it where they are known to be faster.
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Any, NamedTuple, cast

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from pymc.logprob.utils import local_remove_check_parameter
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import graph_replace, vectorize_graph
from pytensor.graph.rewriting.basic import in2out
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.random.type import RandomGeneratorType, random_generator_type
from pytensor.tensor.rewriting.ofg import inline_ofg_node

from bayes_gpx.aliases import Tensor
from bayes_gpx.data.response import SUPPORTS, read_within
from bayes_gpx.likelihoods.base import Exposure, Response, ScalarLikelihood, Theta, column
from bayes_gpx.likelihoods.predictive import Information, Predictive
from bayes_gpx.likelihoods.tails import Slopes, both_tails, summed_tail
from bayes_gpx.numerics.gaussian_expectations import (
    NODES,
    SDS,
    WIDE,
    half_line,
    narrowed,
    trapezoid,
)
from bayes_gpx.numerics.jets import Jet
from bayes_gpx.numerics.special import log_sum_exp
from bayes_gpx.numerics.threads import ThreadedFunction

FARTHEST = 30.0
"""The log density is a straight line beyond these values of f, of both signs, so nothing overflows.
A rate is 1e-13 or 1e13 times its center there. Where the line would rise, it is level: a density
without a bound would draw a fit to infinite amplitudes."""

CLEAR = 0.1
"""Share of the expected curvature above which a step takes the observed curvature."""

FIRST, MORE = 141, 140
"""Sums over counts have all of the first counts, and equal steps beyond: to some 1e-4."""

LOWEST = -1e10
"""Stands for the log of 0 in sums over counts that may all be impossible."""

AT_ONCE, MIXED_AT_ONCE = 2000, 50
"""Variances of y are computed for so many rows at once, and densities with f integrated out."""

NEGLIGIBLE = 1e-12
"""Probability of a y that says nothing of how far two distributions are apart."""


type Tails = Callable[..., tuple[Slopes, Slopes]]


class Template(NamedTuple):
    """Scalars f, y, exposure and hyperparameters, and functions of them."""

    inputs: tuple[Tensor, ...]
    logp: tuple[Tensor, ...]  # with its three derivatives in f
    response: tuple[Tensor, ...]  # with its two derivatives in f
    cumulative: tuple[Tensor, ...]  # empty where PyMC has none


class Derived(ScalarLikelihood):
    """A scalar likelihood from a distribution of PyMC.

    Attributes
    ----------
    support : str
        Which y are possible, one of `SUPPORTS`.
    """

    support: str

    @abstractmethod
    def distribution(self, f: Tensor, exposure: Tensor, theta: Theta) -> Tensor:
        """Distribution of y given f, elementwise, as from ``pm.Gamma.dist``."""

    @abstractmethod
    def mean(self, f: Tensor, exposure: Tensor) -> Tensor:
        """Mean of y given f."""

    def log_density(self, f: Tensor, y: Tensor, exposure: Tensor, theta: Theta) -> Tensor:
        """Log density of y given f, all of them scalars."""
        value = pt.cast(y, "int64") if self.discrete else y
        return cast(Tensor, pm.logp(self.distribution(f, exposure, theta), value))

    # What other likelihoods state in their class, this one computes, which mypy does not allow for.

    @property
    def discrete(self) -> bool:  # type: ignore[override]
        """Whether y are whole numbers."""
        return SUPPORTS[self.support].whole

    @property
    def possible_y(self) -> float:  # type: ignore[override]
        """A y that is possible."""
        return 0.5 if self.support == "unit" else 1.0

    @property
    def ordered(self) -> bool:  # type: ignore[override]
        """Whether PyMC has the distribution function."""
        return len(_template(self).cumulative) > 0

    @property
    def any_shapes(self) -> bool:  # type: ignore[override]
        """Whether the divergence is the general one, and no family's."""
        return type(self).divergence is Derived.divergence

    def read(self, y: ArrayLike, labels: ArrayLike | None = None) -> tuple[np.ndarray, None]:
        """Return y if it is in the support; raise with the first row that is not."""
        return read_within(y, self.support, self.called), None

    def logp(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Log density of y given f."""
        near, (logp, slope) = self._near(2, f, y, theta, exposure)
        return pt.switch(pt.eq(near, f), logp, logp + pt.minimum((f - near) * slope, 0.0))

    def derivatives(
        self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """First three derivatives of `logp` in f."""
        near, (_, slope, second, third) = self._near(4, f, y, theta, exposure)
        inside, beyond = pt.eq(near, f), f - near
        slope = pt.switch(beyond * slope > 0.0, 0.0, slope)
        return slope, pt.switch(inside, second, 0.0), pt.switch(inside, third, 0.0)

    def _near(
        self, number: int, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure
    ) -> tuple[Tensor, list[Tensor]]:
        """F within the bounds, and the log density and its derivatives there."""
        near = f if self.support == "real" else pt.clip(f, -FARTHEST, FARTHEST)
        parts = _template(self).logp[:number]
        return near, self._applied(parts, near, y, theta, exposure)

    def _applied(
        self, outputs: tuple[Tensor, ...], f: Tensor, y: Any, theta: Theta, exposure: Exposure
    ) -> list[Tensor]:
        """Outputs of the template for arrays that broadcast with f."""
        # Python's numbers would be single precision.
        own = self.hyperparameters if theta else ()
        known = [pt.as_tensor(theta[name], dtype="float64") for name in own]
        given = [f, y, 1.0 if exposure is None else pt.cast(exposure, "float64"), *known]
        inputs: Any = dict(zip(_template(self).inputs, map(pt.as_tensor, given), strict=False))
        return [v + pt.zeros_like(f) for v in vectorize_graph(list(outputs), inputs)]

    def cumulative(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Probability of at most y given f."""
        near = f if self.support == "real" else pt.clip(f, -FARTHEST, FARTHEST)
        return self._applied(_template(self).cumulative, near, y, theta, exposure)[0]

    def cumulative_predictive(
        self, y: Tensor, mean: Tensor, variance: Tensor, theta: Theta, exposure: Exposure = None
    ) -> Tensor:
        """Probability of at most y where f ~ N(mean, variance)."""
        z = np.linspace(-SDS, SDS, NODES)
        weights = np.exp(-0.5 * z**2)
        f = mean[:, None] + pt.sqrt(variance)[:, None] * z
        below = self.cumulative(f, y[:, None], theta, column(exposure))
        return pt.dot(below, weights / weights.sum())

    def fisher(self, f: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Expected information about f: the expected square of the slope, by sums over y."""
        y, weights = self._over_y(self._given(f, theta, exposure), f)
        slope = self.derivatives(f[:, None], y, theta, column(exposure))[0]
        return (weights * pt.sqr(slope)).sum(axis=1)

    def steps(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Curvature for Newton's steps: observed where `logp` curves down clearly, else expected.

        The expected alone converges slowly where the observed is far larger or smaller.
        """
        expected = self.fisher(f, theta, exposure)
        observed = -self.derivatives(f, y, theta, exposure)[1]
        return pt.switch(observed > CLEAR * expected, observed, expected)

    def _given(self, f: Tensor, theta: Theta, exposure: Exposure) -> Callable[[Tensor], Tensor]:
        """Log densities of y (n, K) given f (n,)."""
        return lambda y: self.logp(f[:, None], y, theta, column(exposure))

    def _over_y(self, log_p: Callable[[Tensor], Tensor], like: Tensor) -> tuple[Tensor, Tensor]:
        """Possible y of n rows, shaped as `like`, and their probabilities, (n, K)."""
        low, high = pt.full_like(like, -WIDE), pt.full_like(like, WIDE)
        if self.discrete:
            _, top = narrowed(lambda u: _known(log_p(pt.floor(pt.exp(u)))) + u, 0.0 * low, high)
            y, widths = _counts_up_to(pt.exp(top))
            return y, widths * pt.exp(_known(log_p(y)))
        to_y, log_rate = _SCALES[self.support]
        height = lambda u: _known(log_p(to_y(u)) + log_rate(u))  # noqa: E731
        u, log_weights = trapezoid(height, low, high)
        return to_y(u), pt.exp(log_weights)

    def tails(
        self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None
    ) -> tuple[Slopes, Slopes]:
        """Logs of the probabilities of at most y, and of more than y, given f: sums over y."""
        every = pt.broadcast_arrays(f, y, pt.ones_like(f) if exposure is None else exposure)
        at, bound, own = (v.ravel()[:, None] for v in every)
        log_p = lambda y: _known(self.logp(at, y, theta, own))  # noqa: E731
        found = []
        for side in (-1.0, 1.0):
            y, log_weights = self._beyond(log_p, bound, side)
            found.append(summed_tail(log_weights, self.derivatives(at, y, theta, own)))
        low = found[0].value < found[1].value
        tail = (pt.switch(low, *both).reshape(every[0].shape) for both in zip(*found, strict=True))
        return both_tails(Slopes(*tail), low.reshape(every[0].shape), self.concave)

    def _beyond(
        self, log_p: Callable[[Tensor], Tensor], bound: Tensor, side: float
    ) -> tuple[Tensor, Tensor]:
        """Y up to a bound (n, 1), or with side 1 beyond it, and log weights, (n, K)."""
        if self.discrete:
            return _counts_beyond(log_p, bound, side)
        to_y, log_rate = _SCALES[self.support]
        height = lambda u: _known(log_p(to_y(u)) + log_rate(u))  # noqa: E731
        u, log_weights = half_line(height, _INVERSES[self.support](bound), side)
        return to_y(u), log_weights

    def response(self, f: Tensor, exposure: Exposure = None) -> Response:
        """Mean of y, with two derivatives."""
        return Response(*self._applied(_template(self).response, f, 0.0, {}, exposure))

    def variance(
        self, f: ArrayLike, theta: Theta, exposure: ArrayLike | None = None
    ) -> np.ndarray | float:
        """Variance of y given f, by sums over y."""
        given = np.broadcast_arrays(np.asarray(f, "float64"), 1.0 if exposure is None else exposure)
        flat, known = [np.ravel(v) for v in given], [theta[name] for name in self.hyperparameters]
        own, found = _variance(self), np.empty(given[0].size)
        for first in range(0, found.size, AT_ONCE):
            rows = slice(first, first + AT_ONCE)
            found[rows] = own(*(np.asarray(v[rows], "float64") for v in flat), *known)
        return found.reshape(given[0].shape)

    def predictive(self, mean: Jet, variance: Jet, theta: Theta) -> Predictive:
        """Distribution of y at exposure 1 for f ~ N(mean, variance), jets: its parameters."""
        known = [np.asarray(theta[name], "float64") for name in self.hyperparameters]
        return Predictive((mean,), variance, np.array(known))

    def parameters(self, found: Predictive) -> tuple[Information, ...]:
        """Pairs of the mean and the variance of f, with their Fisher information (m,)."""
        _, weights, _, *scores = _at_moments(_predicted(self), found)
        mean, variance = found.means[0], cast(Jet, found.variance)
        own, crossed, other = (
            (weights * a * b).sum(axis=1) for a, b in combinations_with_replacement(scores, 2)
        )
        return (mean, mean, own), (mean, variance, 2.0 * crossed), (variance, variance, other)

    def divergence(self, here: Predictive, there: Predictive) -> np.ndarray:
        """Kullback-Leibler divergence from one to another, by sums over y, (m,)."""
        y, weights, own, *_ = _at_moments(_predicted(self), here)
        ratio = _at_moments(_log_predicted(self), there, y)[0] - own
        far = (np.abs(ratio) * (weights > NEGLIGIBLE)).max(axis=1) > 1.0
        # The same for distributions, without differences of numbers that are nearly equal; but of
        # one far away, y do not reach all of it.
        near = np.expm1(np.where(far[:, None], 0.0, ratio)) - ratio
        return (weights * np.where(far[:, None], -ratio, near)).sum(axis=1)

    def draw(
        self,
        f: np.ndarray,
        theta: Theta,
        rng: np.random.Generator,
        exposure: ArrayLike | None = None,
    ) -> np.ndarray:
        """Random y given f, drawn by PyMC, and never an end of the support."""
        known = [theta[name] for name in self.hyperparameters]
        given = np.broadcast_arrays(f, 1.0 if exposure is None else exposure, *known)
        function, number = _draw(self)
        seeds = [np.random.default_rng(rng.integers(2**63)) for _ in range(number)]
        flat = [np.array(v, "float64").ravel() for v in given]
        found = function(*flat, *seeds).astype("float64").reshape(np.shape(given[0]))
        own = SUPPORTS[self.support]
        return np.clip(found, np.nextafter(own.low, np.inf), np.nextafter(own.high, -np.inf))

    def dist(
        self, name: str, f: Tensor, theta: Theta, exposure: Exposure = None, **kwargs: Any
    ) -> Tensor:
        """Return y as a variable of the PyMC model at hand."""
        one = pt.as_tensor(1.0 if exposure is None else exposure)
        made = self.distribution(f, pt.cast(one, "float64"), theta)
        if isinstance(kwargs.get("dims"), str):  # of which PyMC would take the letters
            kwargs["dims"] = (kwargs["dims"],)
        return cast(Tensor, pm.modelcontext(None).register_rv(made, name, **kwargs))


_INSIDE = np.array([1e-300, np.nextafter(1.0, 0.0)])


def log_odds(p: Tensor) -> Tensor:
    """Log odds of probabilities, finite for 0 and 1."""
    near = pt.clip(p, *_INSIDE)
    return pt.log(near) - pt.log1p(-near)


_SCALES: dict[str, Any] = {
    "real": (pt.sinh, lambda u: pt.log(pt.cosh(u))),
    "positive": (pt.exp, lambda u: u),
    "unit": (
        lambda u: pt.clip(pt.sigmoid(u), *_INSIDE),
        lambda u: -pt.softplus(u) - pt.softplus(-u),
    ),
}
"""For each support, y as a function of a real number, and the log of its derivative."""

_INVERSES: dict[str, Any] = {
    "real": pt.arcsinh,
    "positive": pt.log,
    "unit": log_odds,
}
"""The inverses of those functions."""


def _counts_beyond(
    log_p: Callable[[Tensor], Tensor], bound: Tensor, side: float
) -> tuple[Tensor, Tensor]:
    """Counts up to a bound (n, 1), or with side 1 beyond it, and log probabilities, (n, K)."""

    # Zeros are a node by themselves: of zero-inflated counts they may be far from all others.
    def counted(distance: Tensor) -> tuple[Tensor, Tensor]:
        y = bound + distance + 1.0 if side > 0.0 else bound - distance
        possible = pt.maximum(y, np.float64(1.0))
        log_weights = pt.switch(y < 1.0, -np.inf, log_p(possible))
        return possible, pt.maximum(log_weights, np.float64(LOWEST))

    low, high = pt.zeros_like(bound[:, 0]), pt.full_like(bound[:, 0], WIDE)
    height = lambda u: counted(pt.floor(pt.expm1(u)))[1] + u  # noqa: E731
    low, high = (pt.expm1(end) for end in narrowed(height, low, high, zooms=4))
    start = pt.maximum(pt.floor(low), np.float64(0.0))
    distances, widths = _counts_up_to(high - start)
    y, log_weights = counted(start[:, None] + distances)
    log_weights = log_weights + pt.log(widths)
    if side > 0.0:
        return y, log_weights
    zero = pt.zeros_like(bound)
    return pt.concatenate([zero, y], axis=1), pt.concatenate([log_p(zero), log_weights], axis=1)


def _counts_up_to(top: Tensor) -> tuple[Tensor, Tensor]:
    """Whole numbers from 0 to a number (n,), and how many each of them stands for, (n, K)."""
    half = pt.maximum(pt.ceil((top - FIRST) / MORE / 2.0 - 0.5), 0.0)[:, None]
    step = 2.0 * half + 1.0  # odd, so that a step has a number in its middle
    beyond = FIRST + half + step * np.arange(MORE)
    first = pt.zeros_like(step) + np.arange(float(FIRST))
    widths = pt.concatenate([pt.ones_like(first), step + pt.zeros_like(beyond)], axis=1)
    return pt.concatenate([first, beyond], axis=1), widths


def _known(log_density: Tensor) -> Tensor:
    """Log densities, with -inf for a NaN: the y is impossible."""
    return pt.switch(pt.isnan(log_density), -np.inf, log_density)


@lru_cache(maxsize=32)
def _template(of: Derived) -> Template:
    f, y, exposure = pt.dscalars("f", "y", "exposure")
    theta = of.symbols()
    logp: list[Any]
    response: list[Any]
    logp, response = [of.log_density(f, y, exposure, theta)], [of.mean(f, exposure)]
    for found, number in ((logp, 3), (response, 2)):
        for _ in range(number):
            found.append(pt.grad(found[-1], f, disconnected_inputs="ignore"))
    value = pt.cast(y, "int64") if of.discrete else y
    try:
        cumulative = [pt.exp(pm.logcdf(of.distribution(f, exposure, theta), value))]
    except NotImplementedError:
        cumulative = []
    inputs = [f, y, exposure, *theta.values()]
    graph = FunctionGraph(inputs, [*logp, *response, *cumulative], clone=True)
    # Parameters that are no numbers of their domain give a NaN, which searches for a mode refuse.
    # Graphs within graphs, as of mixtures, would be evaluated row by row.
    for node in graph.toposort():
        if isinstance(node.op, OpFromGraph):
            graph.replace_all(zip(node.outputs, inline_ofg_node(node), strict=True))
    in2out(local_remove_check_parameter).rewrite(graph)
    outputs: Any = tuple(graph.outputs)
    return Template(cast(Any, tuple(graph.inputs)), outputs[:4], outputs[4:7], outputs[7:])


def _symbols(of: Derived) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    return (
        pt.dvector("f"),
        pt.dvector("exposure"),
        of.symbols(),
    )


@lru_cache(maxsize=8)
def _variance(of: Derived) -> ThreadedFunction:
    f, exposure, theta = _symbols(of)
    y, weights = of._over_y(of._given(f, theta, exposure), f)
    off = y - of.response(f, exposure).value[:, None]
    found = (weights * pt.sqr(off)).sum(axis=1)
    return ThreadedFunction([f, exposure, *theta.values()], found)


def _log_mixed(
    of: Derived, y: Tensor, mean: Tensor, variance: Tensor, theta: Theta
) -> tuple[Tensor, Tensor, Tensor]:
    """Log density of y (n, K) where f ~ N(mean, variance), and its slopes in the two."""
    m, v = ((part[:, None] + pt.zeros_like(y)).ravel() for part in (mean, variance))
    y, shape = y.ravel(), y.shape
    f, log_weights = of.weighed_nodes(y, m, v, theta)
    found = log_sum_exp(log_weights)
    weights = pt.exp(log_weights - found[:, None])
    slope, second, _ = of.derivatives(f, y[:, None], theta)
    parts = found, (weights * slope).sum(axis=1), 0.5 * (weights * (second + slope**2)).sum(axis=1)
    return cast(Any, tuple(part.reshape(shape) for part in parts))


def _moments(of: Derived) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    return pt.dvector("mean"), pt.dvector("variance"), of.symbols()


@lru_cache(maxsize=8)
def _predicted(of: Derived) -> ThreadedFunction:
    mean, variance, theta = _moments(of)
    y, weights = of._over_y(lambda y: _log_mixed(of, y, mean, variance, theta)[0], mean)
    outputs = [y, weights, *_log_mixed(of, y, mean, variance, theta)]
    return ThreadedFunction([mean, variance, *theta.values()], outputs)


@lru_cache(maxsize=8)
def _log_predicted(of: Derived) -> ThreadedFunction:
    (mean, variance, theta), y = _moments(of), pt.dmatrix("y")
    found = _log_mixed(of, y, mean, variance, theta)[:1]
    return ThreadedFunction([mean, variance, *theta.values(), y], list(found))


def _at_moments(
    function: ThreadedFunction, found: Predictive, *more: np.ndarray
) -> list[np.ndarray]:
    """Results of a function of moments of f, a few rows at a time."""
    moments = found.means[0].value, cast(Jet, found.variance).value
    parts = []
    for first in range(0, len(moments[0]), MIXED_AT_ONCE):
        rows = slice(first, first + MIXED_AT_ONCE)
        given = [np.ascontiguousarray(v[rows]) for v in (*moments, *more)]
        parts.append(function(*given[:2], *found.excess, *given[2:]))
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


@lru_cache(maxsize=8)
def _draw(of: Derived) -> tuple[ThreadedFunction, int]:
    f, exposure, theta = _symbols(of)
    theta = {name: pt.dvector(name) for name in theta}
    made = of.distribution(f, exposure, theta)
    known = [v for v in graph_inputs([made]) if isinstance(v.type, RandomGeneratorType)]
    seeds = [random_generator_type() for _ in known]
    made = cast(Tensor, graph_replace(made, dict(zip(known, seeds, strict=True))))
    return ThreadedFunction([f, exposure, *theta.values(), *seeds], made), len(seeds)
