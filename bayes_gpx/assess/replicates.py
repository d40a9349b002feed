"""Replicates of the data from known truths, refits to them, and ranks of the truths."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import pymc as pm
import xarray as xr

from bayes_gpx.aliases import Draws
from bayes_gpx.data.features import Frame
from bayes_gpx.data.row_data import observed_until
from bayes_gpx.data.training import TrainingData
from bayes_gpx.draws import questions
from bayes_gpx.draws.each_draw import each_draw
from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws, hyperparameter_draws
from bayes_gpx.draws.leave_one_out import log_likelihood
from bayes_gpx.draws.points import from_baseline, points
from bayes_gpx.draws.questions import Question
from bayes_gpx.explain.attributions import attributions
from bayes_gpx.explain.derivatives import derivatives
from bayes_gpx.explain.predictions import predictions
from bayes_gpx.explain.relevance import relevance
from bayes_gpx.explain.weights import contributions, weights
from bayes_gpx.model.examination import unexamined
from bayes_gpx.numerics.linear_algebra import sqrt_psd
from bayes_gpx.posteriors.base import Asked, OneDraw
from bayes_gpx.processes.operators import stack


def _attribution(model: Any) -> Question:
    return questions.attribution(model, "mean", "exact", None)


LINEAR: dict[str, tuple[Callable, Callable]] = {
    "f": (questions.value, predictions),
    "derivative": (questions.derivative, derivatives),
    "attribution": (_attribution, attributions),
    "weight": (questions.weight, weights),
    "contribution": (questions.contribution, contributions),
}
"""Quantities that are linear in the process: name, quantity and explanation function."""

NOT_THERE = 1e-10
"""Share of a covariance's largest eigenvalue below which others are round-off."""

OF_WEIGHTS = "weight", "contribution"
"""Those of a GPX alone."""


@dataclass(frozen=True)
class _JointMoments:
    """Build function: moments of f at all rows and of an operator at some, before data or after."""

    operators: tuple[Callable, Callable]
    rows: tuple[int, ...]
    posterior: bool

    def __call__(self, draw: OneDraw) -> list:
        """Mean and covariance of the posterior, or the covariance alone of the prior."""
        asked, f, other = cast(Asked, draw.asked), *self.operators
        by_row = {name: v for name, v in asked.inputs.items() if name != "baseline"}
        some = asked.at(**{name: v[np.array(self.rows)] for name, v in by_row.items()})
        L = stack(f(asked), other(some))
        if self.posterior:
            found = draw.posterior()(L)
            return [found.mean, found.cov]
        return [draw.given.process.covariance(L, L)]


@dataclass(frozen=True, eq=False)
class Truth:
    """What generated a replicate."""

    theta: dict[str, np.ndarray]  # hyperparameters, on the model's scale
    # In user units at the rows that are looked at, by the names of `LINEAR`, and `y`: another
    # response there.
    values: dict[str, np.ndarray]
    replicate: np.ndarray  # the response (n,), in user units


@dataclass
class Replicates:
    """Draw truths for a model, and refit the model to recover them."""

    model: Any
    method: str
    rows: np.ndarray  # positions at which quantities are computed
    draws: int = 99  # among which each truth is ranked
    posterior: xr.DataTree | None = None  # of which truths are drawn, or from the prior
    # From (model, idata), or (model, a dict of true hyperparameters), to a Dataset with dims chain
    # and draw.
    quantities: Callable | None = None
    times: np.ndarray | None = None  # (n,), when the observation of each row ends
    options: Mapping[str, Any] = field(default_factory=dict)  # passed to ``model.fit``

    @property
    def names(self) -> list[str]:
        """Linear quantities that the model has, of those that its method claims to know."""
        if self.method == "svgp":
            return ["f"]
        training, lacking = self.model.training, set[str]()
        if training.Z is None:
            lacking |= {*OF_WEIGHTS}
        if self.model.specification.levels is not None:  # between which there is nothing
            lacking |= {"derivative", "attribution"}
        if set(training.X.sources) <= set(training.X.levels):
            lacking.add("derivative")
        return [name for name in LINEAR if name not in lacking]

    @property
    def sampled_latent(self) -> bool:
        """Whether refits sample latent values too."""
        return self.options.get("latent") == "sample"

    def run(self, entropy: int, number: int) -> dict[str, dict[str, np.ndarray]]:
        """Draw a truth, refit, and rank it: dicts of arrays `pit`, `truth` and `runs`."""
        rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(number,)))
        seed, begun = int(rng.integers(2**31)), time.perf_counter()
        truth = self.truth(rng, seed)
        model, offset = self.refitted_model(truth.replicate)
        options: Any = {"log_likelihood": self.quantities is not None} | dict(self.options)
        with unexamined():
            idata = model.fit(self.method, seed=seed, progressbar=False, **options)
        truths, found = self._both(model, idata, truth, self.rows + offset, seed)
        pit = {name: rank(found[name], truths[name], rng) for name in truths}
        said = {
            name: np.asarray(idata.attrs.get(name, np.nan), "float64")
            for name in ("r_hat_max", "ess_min", "divergences", "khat")
        }
        said["seconds"] = np.asarray(time.perf_counter() - begun)
        return {"pit": pit, "truth": truths, "runs": said}

    def truth(self, rng: np.random.Generator, seed: int) -> Truth:
        """Hyperparameters, functions and responses that belong together."""
        model, training = self.model, self.model.training
        hyper = hyperparameter_draws(model, self._drawn_hyperparameters(rng, seed), None)
        (_, theta), *_ = [*hyper]
        f: Any = None
        values, classes = {}, model.specification.classes
        columns = () if classes is None else (classes,)
        shape_of_f = (training.n, *columns)
        for name in self.names:
            asked = self._asked[name]
            mean, cov = self._joint(hyper, asked.operator)
            size = len(self.rows) * asked.width
            if f is None:  # of all classes together, where they have a joint covariance
                joint = len(cov) > training.n + size
                shape = (training.n * len(cov) // (training.n + size),) if joint else shape_of_f
                f = _drawn(mean[: shape[0]], cov[: shape[0], : shape[0]], shape, rng)
            part = _given(f, mean, cov, rng)
            values[name] = _in_units(part.reshape((len(self.rows), asked.width, *columns)), asked)
        f = f.reshape(shape_of_f)
        observation, exposure = model.specification.observation, training.scaled_exposure
        scaling = training.response_scaling
        both = [
            scaling.center + scaling.scale * observation.draw(f[None], theta, rng, exposure)[0]
            for _ in range(2)
        ]
        values["y"] = both[1][self.rows]
        return Truth(theta, values, both[0])

    def refitted_model(self, y: np.ndarray) -> tuple[Any, int]:
        """The model of a replicate, on the original scale, and how many rows stand before it."""
        # With a posterior, the observed rows come first.
        training = self.model.training
        if self.times is not None:
            y, row_data = observed_until(self.times, y)
            return self.model.of_rows(replace(training, y=y, row_data=row_data)), 0
        if self.posterior is None:
            return self.model.of_rows(replace(training, y=y)), 0
        return self.model.of_rows(_twice(training, y)), training.n

    @cached_property
    def _asked(self) -> dict[str, Question]:
        return {name: LINEAR[name][0](self.model) for name in self.names}

    def _drawn_hyperparameters(self, rng: np.random.Generator, seed: int) -> dict[str, Any]:
        """A dict of one draw, from the prior or from the posterior."""
        if self.posterior is None:
            names = list(self.model.variables)
            drawn = pm.draw(list(self.model.variables.values()), random_seed=seed)
            return dict(zip(names, drawn, strict=True))
        hyper = hyperparameter_draws(self.model, self.posterior, None)
        at = tuple(rng.integers(size) for size in (len(hyper.chain), len(hyper.draw)))
        inferred = [n for n in self.model.hyperparameters if n not in self.model.fixed]
        return {name: hyper.values[name][at] for name in inferred}

    def _joint(
        self, hyper: HyperparameterDraws, operator: Callable
    ) -> tuple[np.ndarray, np.ndarray]:
        """Joint mean and covariance, on the model's scale, of f at all rows and of the quantity."""
        model, posterior = self.model, self.posterior is not None
        where = from_baseline(model, points(model), "mean")
        where = where.having(positions=None) if posterior else where
        both = questions.value(model).operator, operator
        build = _JointMoments(both, tuple(self.rows.tolist()), posterior)
        (*_, found, _), *_ = each_draw(
            model, hyper, build, where, size_of=lambda _: len(where.X), conditioned=posterior
        )
        mean, cov = found if posterior else (np.zeros(len(found[0])), found[0])
        return mean, cov

    def _both(
        self, model: Any, idata: Draws, truth: Truth, rows: np.ndarray, seed: int
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Truths and draws of every quantity, by name."""
        chosen: dict[str, Any] = {"num_draws": self.draws, "progressbar": False}
        obs = model.training.X.index[rows]
        truths, found = {}, {}
        for name in self.names:
            options = {"on": "latent"} if name in ("derivative", "attribution") else {}
            said = LINEAR[name][1](
                model, idata, obs=obs, draws=self.draws, seed=seed, **options, **chosen
            )
            truths[name], found[name] = truth.values[name], _flat(said[name])
            if name == "derivative":  # which indicators of categories do not have
                labels = list(self._asked[name].labels)
                truths[name] = truths[name][:, [labels.index(k) for k in said["feature"].values]]
            if name == "f":
                truths["y"], found["y"] = truth.values["y"], _flat(said["y"])
        if self.method == "svgp":
            return {"f": truths["f"]}, {"f": found["f"]}
        hyper = hyperparameter_draws(model, idata, self.draws)
        inferred = [n for n in model.hyperparameters if n not in model.fixed]
        for name in inferred:
            truths[name] = truth.theta[name]
            found[name] = hyper.values[name].reshape((-1, *truth.theta[name].shape))
        known = {name: truth.theta[name] for name in inferred}
        if not self.sampled_latent:
            both = [log_likelihood(model, one, **chosen) for one in (known, idata)]
            evidence = [_flat(one["log_marginal_likelihood"]) for one in both]
            truths["log_likelihood"], found["log_likelihood"] = evidence[0][0], evidence[1]
            if model.specification.classes is None and model.specification.observation.comparable:
                both = [relevance(model, one, obs=obs, **chosen) for one in (known, idata)]
                truths["relevance"] = _flat(both[0]["relevance"])[0]
                found["relevance"] = _flat(both[1]["relevance"])
        if self.quantities is not None:
            own = [self.quantities(model, one) for one in (known, idata)]
            for name in own[0].data_vars:
                truths[name], found[name] = (_flat(v[name]) for v in own)
                truths[name] = truths[name][0]
        return {k: np.asarray(v, "float64") for k, v in truths.items()}, found


def rank(draws: np.ndarray, truth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Position of a truth (...) among draws (S, ...), uniform on (0, 1) if it is one of them."""
    # The rank among S + 1 values, ties broken at random, and a uniform number within its step.
    less, equal = (draws < truth).sum(axis=0), (draws == truth).sum(axis=0)
    place = less + np.floor(rng.uniform(size=np.shape(truth)) * (equal + 1))
    return (place + rng.uniform(size=np.shape(truth))) / (len(draws) + 1)


def _drawn(
    mean: np.ndarray, cov: np.ndarray, shape: tuple[int, ...], rng: np.random.Generator
) -> np.ndarray:
    """Values (n,) or (n, C), each class by itself."""
    noise = sqrt_psd(cov) @ rng.standard_normal(shape)
    return noise + (mean if noise.ndim == 1 else mean[:, None])


def _given(
    f: np.ndarray, mean: np.ndarray, cov: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Values (k,) or (k, C) given the first n of a joint distribution, f (n,) or (n, C): drawn."""
    n = len(f)
    sizes, axes = np.linalg.eigh(cov[:n, :n])
    kept = sizes > NOT_THERE * sizes.max()
    gain = (cov[n:, :n] @ axes[:, kept] / sizes[kept]) @ axes[:, kept].T
    left = cov[n:, n:] - gain @ cov[:n, n:]
    apart = f - (mean[:n] if f.ndim == 1 else mean[:n, None])
    center = gain @ apart
    own = mean[n:] if f.ndim == 1 else mean[n:, None]
    return own + center + sqrt_psd(0.5 * (left + left.T)) @ rng.standard_normal(center.shape)


def _flat(values: xr.DataArray) -> np.ndarray:
    """Draws (S, ...) of a DataArray, chains one after the other."""
    array = values.transpose("chain", "draw", ...).values
    return array.reshape((-1, *array.shape[2:]))


def _in_units(part: np.ndarray, quantity: Question) -> np.ndarray:
    """Values (rows, width[, C]) on the model's scale as components in user units, as verbs do."""
    mixed = quantity.mixed(part, 1)
    by_component = (1, -1, *(1,) * (mixed.ndim - 2))
    factor = np.reshape(quantity.factor, by_component)
    offset = (
        np.reshape(quantity.offset, by_component) if np.ndim(quantity.offset) else quantity.offset
    )
    values = factor * mixed + offset + (0.0 if quantity.by_class is None else quantity.by_class)
    return values if quantity.axes else values[:, 0]


def _twice(training: TrainingData, y: np.ndarray) -> TrainingData:
    """The observed rows, and the same rows once more with another response."""

    def both(frame: Frame | None) -> Any:
        if frame is None:
            return None
        index = np.arange(2 * len(frame))
        return replace(frame, values=np.tile(frame.values, (2, 1)), index=index)

    exposure = None if training.exposure is None else np.tile(training.exposure, 2)
    groups = training.groups and training.groups.rows(np.tile(np.arange(training.n), 2))
    y = np.concatenate([training.y, y])
    X, Z = both(training.X), both(training.Z)
    return replace(training, X=X, Z=Z, y=y, exposure=exposure, groups=groups)
