"""Ordered categories, such as ratings: cumulative logit and probit models."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from pymc.distributions.shape_utils import rv_size_is_none
from pymc.distributions.transforms import ordered
from scipy.special import gammaln

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.data.moments import Moments
from bayes_gpx.data.response import read_categories, refuse_categories
from bayes_gpx.likelihoods.base import DefaultPrior, Exposure, Response, ScalarLikelihood, Theta
from bayes_gpx.likelihoods.classification import Logit, Probit, expected
from bayes_gpx.likelihoods.predictive import Labelled, Predictive
from bayes_gpx.likelihoods.tails import Slopes
from bayes_gpx.numerics.gaussian_expectations import nodes
from bayes_gpx.numerics.jets import Jet, expectation

FAR = 1e10
"""Takes the place of the infinite ends of the first and the last category."""


@dataclass(frozen=True)
class Ordinal(Labelled, ScalarLikelihood):
    """P(y <= k) = F(cutpoint_k - f), F the inverse of the link; y are `first`, `first` + 1, ...

    The mean response is the expected category. A priori, with f = 0, all probabilities of the
    categories that add up to 1 are equally probable (Betancourt's induced Dirichlet prior).
    """

    link: Logit | Probit
    first: int = 0
    count: int = 4
    known: bool = False  # whether these are the categories of the training data
    names: tuple[str, ...] = ()  # of the codes 0, 1, ..., if y is an ordered categorical

    mean_name = "mean"
    discrete = True
    shaped_by = ("cutpoint",)

    @property
    def response_units(self) -> str:
        """The codes that named categories have."""
        own = [name.replace("{", "{{").replace("}", "}}") for name in self.names]
        codes = f" ({own[0]} = 0 to {own[-1]} = {len(own) - 1})" if own else ""
        return f"expected category of {{y}}{codes}"

    @property
    def units(self) -> str:  # type: ignore[override]
        """Units of f."""
        return f"{self.link.units} of a higher {{y}}"

    @property
    def hyperparameters(self) -> Mapping[str, DefaultPrior]:  # type: ignore[override]
        """Cutpoints, in rising order."""
        prior = partial(_cutpoints, self.link, self.count)
        return {"cutpoint": DefaultPrior(prior, dim="between")}

    @property
    def coords(self) -> dict[str, list[str]]:
        """Names of cutpoints, by the categories that they divide."""
        codes = range(self.first, self.first + self.count)
        categories = [self.names[k] if self.names else str(k) for k in codes]
        each = zip(categories[:-1], categories[1:], strict=True)
        return {"between": [f"{low}|{high}" for low, high in each]}

    def read(
        self, y: ArrayLike, labels: ArrayLike | None = None
    ) -> tuple[np.ndarray, tuple[str, ...] | None]:
        """Return whole numbers, or codes of an ordered categorical and their names."""
        y, names = read_categories(y, self.first, self.count if self.known else 0, self.names)
        return y, names or None

    def settled(self, of_y: Moments, scale: bool = True) -> dict[str, Any]:
        """The first category and their number, if they are not known yet."""
        if self.known:
            return {}
        low, high = int(of_y.low[0]), int(of_y.high[0])
        refuse_categories(low, high)
        return {"first": low, "count": high - low + 1, "known": True}

    @property
    def possible_y(self) -> float:  # type: ignore[override]
        """A y that is possible."""
        return float(self.first)

    def highest_y(self, exposure: np.ndarray) -> np.ndarray:
        """The highest category."""
        return np.full(len(exposure), self.first + self.count - 1.0)

    @property
    def _categories(self) -> Tensor:
        return pt.as_tensor(self.first + np.arange(float(self.count)))

    def _ends(self, f: TensorLike, y: Tensor, theta: Theta) -> tuple[Tensor, Tensor]:
        """Bounds of the category of y, less f."""
        near = pt.clip(y, np.float64(self.first - 1), np.float64(self.first + self.count))
        code, cutpoints = pt.cast(near, "int64") - self.first, theta["cutpoint"]
        return _end(cutpoints, code - 1) - f, _end(cutpoints, code) - f

    def logp(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Log probability of y given f."""
        return self.link.log_between(*self._ends(f, y, theta))

    def derivatives(
        self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """First three derivatives of `logp` in f."""
        first, second, third = self.link.slopes_between(*self._ends(f, y, theta))
        return -first, second, -third

    def fisher(self, f: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Expected information about f."""
        each = f[..., None], self._categories
        slope, _, _ = self.derivatives(*each, theta)
        return (pt.exp(self.logp(*each, theta)) * pt.sqr(slope)).sum(axis=-1)

    def response(
        self, f: Tensor, exposure: Exposure = None, theta: Theta | None = None
    ) -> Response:
        """Expected category, with two derivatives."""
        return self._added(self.link.response(_above(f, theta)))

    def expected(
        self,
        mean: Tensor,
        variance: Tensor,
        exposure: Exposure = None,
        theta: Theta | None = None,
    ) -> Response:
        """Expected category and derivatives where f ~ N(mean, variance)."""
        return self._added(self.link.expected(*_wide(mean, variance, theta)), mean)

    def rates(self, mean: Tensor, variance: Tensor, theta: Theta | None = None) -> list[Tensor]:
        """Expected first four derivatives of the expected category where f ~ N(mean, variance)."""
        found = self.link.rates(*_wide(mean, variance, theta))
        return [v.reshape((mean.shape[0], -1)).sum(axis=1) for v in found]

    def _added(self, each: Response, like: Tensor | None = None) -> Response:
        """The expected category from the probabilities of being above each cutpoint."""
        parts: list[Any] = [*each]
        if like is not None:
            parts = [v.reshape((like.shape[0], -1)) for v in parts]
        value, slope, curvature = (v.sum(axis=-1) for v in parts)
        return Response(self.first + value, slope, curvature)

    def cumulative(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Probability of at most y given f."""
        return self.link.response(self._ends(f, y, theta)[1]).value

    def tails(
        self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None
    ) -> tuple[Slopes, Slopes]:
        """Logs of the probabilities of at most y, and of more than y, given f."""
        end = self._ends(f, y, theta)[1]
        below, above = (
            Slopes(self.link.log_probability(z), *self.link.slopes(z)) for z in (end, -end)
        )
        return below.along(-1.0), above

    def cumulative_predictive(
        self, y: Tensor, mean: Tensor, variance: Tensor, theta: Theta, exposure: Exposure = None
    ) -> Tensor:
        """Probability of at most y where f ~ N(mean, variance)."""
        return self.link.expected(self._ends(mean, y, theta)[1], variance).value

    def weighed_nodes(
        self, y: Tensor, mean: Tensor, variance: Tensor, theta: Theta, exposure: Exposure = None
    ) -> tuple[Tensor, Tensor]:
        """Nodes of f ~ N(mean, variance), and logs of weights that have p(y | f) in them."""
        slope, middle = self.derivatives(mean, y, theta)[0], sum(self._ends(0.0, y, theta)) / 2.0
        log_p = lambda f: self.logp(f, y[:, None], theta)  # noqa: E731
        return nodes(log_p, mean, variance, slope, middle)

    def variance(
        self, f: ArrayLike, theta: Theta, exposure: ArrayLike | None = None
    ) -> np.ndarray | float:
        """Variance of y given f."""
        # The square of a code k is the sum of the first k odd numbers.
        above = self._above(f, theta)
        return above @ (2.0 * np.arange(self.count - 1) + 1.0) - above.sum(axis=-1) ** 2

    def _above(self, f: ArrayLike, theta: Theta) -> np.ndarray:
        """Probabilities of being above each cutpoint, in NumPy, (..., K - 1)."""
        return self.link.probability(np.asarray(f)[..., None] - np.asarray(theta["cutpoint"]))

    def predictive(self, mean: Jet, variance: Jet, theta: Theta) -> Predictive:
        """Probabilities of the categories where f ~ N(mean, variance), jets."""
        whole = _less(mean, mean).shifted(1.0)
        above = [whole]
        for cutpoint in np.asarray(theta["cutpoint"]):
            _, p, *rates = expected(self.link)(mean.value - cutpoint, variance.value)
            above.append(expectation(mean, variance, p, rates))
        above.append(whole.shifted(-1.0))
        return Predictive(tuple(map(_less, above[:-1], above[1:])))

    def draw(
        self,
        f: np.ndarray,
        theta: Theta,
        rng: np.random.Generator,
        exposure: ArrayLike | None = None,
    ) -> np.ndarray:
        """Random y given f."""
        above = self._above(f, theta)
        return self.first + (rng.random((*np.shape(f), 1)) < above).sum(axis=-1).astype("float64")

    def dist(
        self, name: str, f: Tensor, theta: Theta, exposure: Exposure = None, **kwargs: Any
    ) -> Tensor:
        """Return y as a variable of the PyMC model at hand."""
        log_p = self.logp(f[:, None], self._categories, theta)
        made = pm.Categorical.dist(logit_p=log_p) + self.first
        return cast(Tensor, pm.modelcontext(None).register_rv(made, name, **kwargs))


def _less(jet: Jet, other: Jet) -> Jet:
    """Difference of two jets."""
    parts: list[Any] = [None if a is None else a - b for a, b in zip(jet, other, strict=True)]
    return Jet(*parts)


def _end(cutpoints: Tensor, code: Tensor) -> Tensor:
    """The cutpoint of a code, far away below the first and above the last one."""
    count = cutpoints.shape[-1]
    if cutpoints.ndim == 1:
        own = cutpoints[pt.clip(code, 0, count - 1)]
    else:  # each row has its own
        own = (cutpoints * pt.eq(code[..., None], pt.arange(count))).sum(axis=-1)
    return pt.switch(pt.lt(code, 0), -FAR, pt.switch(pt.ge(code, count), FAR, own))


def _above(f: Tensor, theta: Theta | None) -> Tensor:
    """How far f (...,) is above each cutpoint, (..., K - 1)."""
    assert theta is not None
    return f[..., None] - theta["cutpoint"]


def _wide(mean: Tensor, variance: Tensor, theta: Theta | None) -> tuple[Tensor, Tensor]:
    """Means (n,) less each cutpoint, and variances, one after the other."""
    above = _above(mean, theta)
    return above.ravel(), (variance[:, None] + pt.zeros_like(above)).ravel()


def _cutpoints(link: Logit | Probit, count: int, name: str, dims: Any) -> Tensor:
    """Cutpoints under which, at f = 0, all probabilities of the categories are as probable."""

    def logp(value: Tensor, _: Tensor) -> Tensor:
        rising = pt.all(pt.gt(pt.diff(value), 0.0))
        total = gammaln(count) + pt.log(link.response(value).slope).sum()
        return pt.switch(rising, total, -np.inf)

    def dist(_: Tensor, size: Any) -> Tensor:
        batch = () if rv_size_is_none(size) else tuple(size)
        parts = pm.Exponential.dist(1.0, size=(*batch, count))
        below = pt.cumsum(parts, axis=-1)
        return link.inverse(below[..., :-1] / below[..., -1:])

    even = link.inverse(pt.as_tensor(np.arange(1, count) / count))
    return pm.CustomDist(
        name,
        np.zeros(count - 1),
        logp=logp,
        dist=dist,
        signature="(c)->(c)",
        dims=dims,
        support_point=lambda *_: even,
        transform=ordered,
    )
