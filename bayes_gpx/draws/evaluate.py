"""A linear question at every draw: moments, samples and names; and moments with derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import batched
from os import PathLike
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Draws, Tensor
from bayes_gpx.draws.averages import BLOCK, averaged, in_blocks, of_groups
from bayes_gpx.draws.each_draw import each_draw, rows_within
from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws, hyperparameter_draws
from bayes_gpx.draws.intervals import interval_probability
from bayes_gpx.draws.protocols import ModelLike
from bayes_gpx.draws.questions import is_nonlinear
from bayes_gpx.draws.results import Result
from bayes_gpx.draws.stores import DrawStore, refuse_summaries
from bayes_gpx.draws.turns import ONCE, Case
from bayes_gpx.numerics.jets import Jet
from bayes_gpx.posteriors.predictive_derivatives import ClassSensitivity, Sensitivity
from bayes_gpx.posteriors.softmax import across
from bayes_gpx.processes.base import MOST_SUMS
from bayes_gpx.processes.expected_gradients import TOGETHER, in_an_array
from bayes_gpx.system.digests import digest
from bayes_gpx.validation import count, one_of

if TYPE_CHECKING:
    from bayes_gpx.draws.new_responses import NewResponses
    from bayes_gpx.draws.points import Points
    from bayes_gpx.draws.questions import Question
    from bayes_gpx.posteriors.base import Asked, OneDraw
    from bayes_gpx.posteriors.gaussian import Gaussian

LARGEST_JOINT = 5000
"""Most quantities that are drawn jointly."""


@dataclass(frozen=True)
class _PosteriorMoments:
    """Posterior moments of an operator: the build function of an explanation.

    `second` is the operator of a total. With `beside` it is the operator without deviations; its
    prior variances come last, and its covariance is computed with the covariance of the quantity.
    """

    operator: Callable
    moment: str
    second: Callable | None
    across: bool = False
    beside: bool = False

    def __call__(self, draw: OneDraw) -> list[Tensor]:
        """Return mean (m c,) and the moment; of a second, mean and variance (m,). Or `across`."""
        operator = self.operator(draw.asked)
        if self.across:
            each = [draw.posterior(label)(operator) for label in draw.given.labels]
            return [*across(each, self.moment == "cov")]
        q = draw.posterior(draw.changing.get("label"))
        posterior = q(operator)
        outputs = [posterior.mean, getattr(posterior, self.moment)]
        if self.second is not None:
            without = self.second(draw.asked)
            second, prior = q(without), draw.given.process
            joint = self.beside and self.moment == "cov"
            outputs += [second.mean, second.cov if joint else second.variance]
            if self.beside:
                outputs.append(prior.variance(operator) - prior.variance(without))
        return outputs


@dataclass(frozen=True)
class _Between:
    """Covariances of two blocks of rows, of an operator and of any `second`: a build function."""

    operator: Callable
    second: Callable | None

    def __call__(self, draw: OneDraw) -> list[Tensor]:
        q, found = draw.posterior(draw.changing.get("label")), []
        for of in filter(None, (self.operator, self.second)):
            ours, theirs = (q(of(half)) for half in cast("Asked", draw.asked).halves)
            found.append(cast("Gaussian", ours).between(cast("Gaussian", theirs)))
        return found


def evaluate(
    model: ModelLike,
    idata: Draws,
    question: Question,
    where: Points,
    *,
    draws: int = 1000,
    num_draws: int | None = None,
    features: Sequence[str] | None = None,
    covariance: bool = False,
    joint: bool = False,
    keep: str = "draws",
    on: str = "response",
    path: str | PathLike | None = None,
    seed: int | None = None,
    progressbar: bool = True,
    response: NewResponses | None = None,
    noise_sd: np.ndarray | None = None,
    ci_prob: float | None = None,
) -> xr.Dataset:
    """Posterior of a linear quantity at points, for every hyperparameter draw.

    Parameters
    ----------
    model : Model
    idata : xarray.DataTree or dict
        A fit of this model, or a dict of fixed hyperparameters.
    question : Question
    where : Points
    draws : int
        Number of conditional draws if there is a single hyperparameter draw. Otherwise each
        hyperparameter draw gives one.
    num_draws : int, optional
        Thin the hyperparameter draws evenly to at most this many.
    features : list of str, optional
        Only these components.
    covariance : bool
        Also the covariance between components, `name_cov`.
    joint : bool
        Draw all rows jointly.
    keep : {"draws", "summary"}
    on : {"response", "latent"}
        The mean response or f, which are equal for a Gaussian likelihood.
    path : str or path, optional
        Stream the draws to a new zarr store, instead of keeping them in memory. It grows in `path`
        with ".unfinished" added; missing values are NaN. A repeated call continues an interrupted
        one, with the same numbers; derivatives and attributions of the response of classes and
        counts start again. A finished store replaces an earlier store. Files that the package did
        not write are left alone and refused.
    seed : int, optional
    progressbar : bool
    response : NewResponses, optional
        A new response around the quantity, which is f.
    noise_sd : array (m,), optional
        Known noise of a noisy question at each row, on the model's scale.
    ci_prob : float, optional
        Probability of the intervals; 90% by default.

    Returns
    -------
    xarray.Dataset
        The variables of the explanation function and, for each quantity, `name_interval` (...,
        ci_bound): equal-tailed quantiles of the mixture of normals over hyperparameter draws (at
        most 400 of them), independent of the seed. Quantities that are not linear in f have no
        interval, nor do results in memory with very many rows; pass a `path` for these.

    Notes
    -----
    `bayes_gpx.predictions`, `weights`, `contributions`, `derivatives`, `attributions` and
    `shapley_values` take `executor` too: a `concurrent.futures.Executor`, for Dask
    ``client.get_executor()``. Its workers explain more than 16,384 rows in chunks of 512 to 16,384
    rows, such that draws and moments of a chunk take about 128 MiB, or the memory of 512 rows if
    this is more. Draws then need a `path` that all workers can write to; it is optional with
    ``keep="summary"``. `obs` and `joint` are not supported. Out-of-core training rows are explained
    in chunks without an executor as well. For fewer rows, workers take blocks of hyperparameter
    draws of about 0.3 seconds, and the results are combined here; they equal the results without an
    executor, except for round-off. `seed` gives the same draws for any number of workers. For
    classes and counts, where each posterior is found starting from the previous draw's, they agree
    to about nine digits.
    """
    one_of("keep", keep, ("draws", "summary"))
    one_of("on", on, ("response", "latent"))
    if is_nonlinear(model, question, on):
        response_name = model.specification.response.mean_name
        raise ValueError(
            f"{question.name} of the {response_name} cannot be drawn jointly with others. "
            f"Pass on='latent' to draw it for f, in units of {question.units}."
        )
    count("draws", draws)
    if seed is not None:
        count("seed", seed, 0)
    refuse_summaries(path, keep)
    prob = interval_probability(ci_prob)
    hyper = hyperparameter_draws(model, idata, num_draws)
    sampled, named, paired, row = keep == "draws", where, False, question.width
    if where.by is not None:
        _refuse_averages(model, question, where, path, response)
        if question.is_gradient and len(where.by.labels) <= MOST_SUMS:
            row = math.ceil(math.sqrt(row))  # covariances of pairs of features are never formed
        paired = len(where.X) > 1 and len(where.X) * row > BLOCK
        paired = paired and not (question.sums or model.specification.expanded)
        question = averaged(question, where.by)
        named, joint = of_groups(where), True
    m, each = len(named.index), draws if hyper.alone else 1
    if joint and m * question.width > LARGEST_JOINT:
        raise ValueError(
            f"{m * question.width} quantities would be drawn jointly; at most {LARGEST_JOINT} can "
            "be. Explain fewer observations at a time with obs=."
        )
    result = Result(
        model, question, named, features=features, covariance=covariance, response=response
    )
    store = None
    if path is not None:
        asked = _asked(model, hyper, question, where, features, covariance, joint, each, seed)
        asked = asked if response is None else digest(asked, response.exposure)
        asked = asked if noise_sd is None else digest(asked, noise_sd)
        along = question.axes[0].dim if question.axes else "feature"
        store = partial(DrawStore, path, asked=asked, along=along, together=each)
    result.begin(len(hyper.chain), len(hyper.draw) * each, seed, sampled=sampled, store=store)
    result.keep_for_intervals(len(hyper), prob)
    observation: Any = model.specification.observation
    by_variance = not question.axes or not (sampled or covariance or question.total)
    by_variance = by_variance and not question.jointly and question.mixes is None
    moment = "cov" if joint else "variance" if by_variance else "block"
    second = (question.total or question.beside or (None, None))[1]
    build = _PosteriorMoments(
        question.operator, moment, second, question.jointly, question.beside is not None
    )
    cases: Sequence[Case] = [(k, {"label": np.asarray(k)}) for k in range(len(result.classes))]
    told: dict[str, Any] = {"cases": cases or ONCE, "progressbar": progressbar}
    told["description"] = f"Computing {question.name} of {m} row{'s' * (m > 1)}, by draw"
    if paired:
        found = _each_sum(model, hyper, build, where, width=row, **told)
    else:
        size_of = partial(_rows_of_block, model, question, where, moment, each)
        found = each_draw(model, hyper, build, where, size_of=size_of, begun=result.done, **told)
    with closing(found):  # a loop that is interrupted would hold its limit of BLAS' threads
        for number, theta, rows, label, (mean, second, *other), jitter in found:
            last = rows.stop == len(where.X)
            rows = rows if where.by is None else slice(0, m)  # noqa: PLW2901
            part = question.in_units(mean, second, result.drawn, label)
            more: dict[str, Any] = {}
            noise: Any = 0.0
            if question.noisy:
                own_noise = None if noise_sd is None else noise_sd[rows]
                noise = question.factor[0] * observation.sd(theta, own_noise)
            if question.total:
                more["total"] = other
            elif question.beside:
                smooth, variance, deviations = other
                smooth = question.in_units(smooth, variance, result.drawn)
                more["beside"] = *smooth, np.maximum(deviations, 0.0)[:, None] * question.factor**2
            more |= {"noise": noise, "theta": theta, "number": number}
            result.add(rows, part, label=label, jitter=jitter, **more)
            if not sampled and response is None:
                continue
            at, which = hyper.place(number), (label,) if result.classes else ()
            key = np.random.SeedSequence(result.entropy, spawn_key=(*at, rows.start, *which))
            rng = np.random.default_rng(key)
            sources = 1 + (question.noisy is not None) + ("beside" in more)
            normal = rng.standard_normal((sources, each, *part[0].shape))
            drawn = result.sample(part, normal, noise, more.get("beside"))
            if response is not None:
                drawn |= result.sample_responses(rows, drawn[question.name], theta, rng)
            if not sampled:
                continue
            own = slice(at[1] * each, (at[1] + 1) * each)
            result.write((at[0], own, rows), drawn, label)
            result.keep((number + 1, 0) if last else (number, rows.stop))
    between = ", joint over classes" if question.jointly else ""
    between = ", independent between classes" if result.classes else between
    along = question.axes[0].dim if question.axes else "feature"
    attrs = {
        "dependence": DEPENDENCE[joint].format("feature" if question.jointly else along) + between,
        "samples": question.samples or SAMPLES["positions" not in where.inputs],
    }
    if response is not None:
        attrs |= response.attrs
    dataset = result.finished(result.dataset(), hyper, each, attrs)
    if where.by is None:
        return dataset
    renamed = {"obs": "by", "obs_bis": "by_bis"}
    return dataset.rename({dim: name for dim, name in renamed.items() if dim in dataset.dims})


def _each_sum(
    model: ModelLike,
    hyper: HyperparameterDraws,
    build: _PosteriorMoments,
    where: Points,
    *,
    width: int,
    cases: Sequence[Case],
    **options: Any,
) -> Generator[tuple]:
    """As `each_draw`, of sums over more rows than a block: sums over blocks and pairs of them.

    A covariance of sums is the sum of the covariances of all pairs of blocks, so the covariance of
    all rows is never formed.
    """
    filled, blocks, pairs = in_blocks(where, width)
    quiet = options | {"progressbar": False}
    alone = each_draw(model, hyper, build, filled, blocks=blocks, cases=cases, **quiet)
    between = _Between(build.operator, build.second)
    others = each_draw(model, hyper, between, filled, blocks=pairs, cases=cases, **options)
    sizes = (len(cases) * len(part) for part in (blocks, pairs))
    for own, beyond in zip(*map(batched, (alone, others), sizes), strict=True):
        for k, (number, theta, _, label, _, jitter) in enumerate(own[: len(cases)]):
            mean, cov, *total = _summed(own[k :: len(cases)])
            more, *of_total = _summed(beyond[k :: len(cases)])
            if total:
                total[1] += 2.0 * np.diagonal(of_total[0])
            found = [mean, cov + more + more.T, *total]
            yield number, theta, slice(0, len(where.X)), label, found, jitter


def _summed(items: Sequence[tuple]) -> list[np.ndarray]:
    """Sums over blocks of each of their arrays."""
    return [np.sum(parts, axis=0) for parts in zip(*(item[4] for item in items), strict=True)]


def _refuse_averages(
    model: ModelLike,
    question: Question,
    where: Points,
    path: str | PathLike | None,
    response: NewResponses | None,
) -> None:
    """Raise for averages that are not linear, too large, or to be stored."""
    if path is not None:
        raise ValueError("path was given with by, but averages are small. Leave path out.")
    if response is not None:
        raise ValueError("by averages f, not the response. Pass on='latent', or leave by out.")
    spec = model.specification
    deviates = spec.family == "GPX" and question.samples is None
    if deviates and spec.approximation is not None:
        raise ValueError(
            f"by is not offered for {question.name} of a GPX with an approximation, which keeps no "
            "joint deviations of rows. Use bx.weights(smooth=True), bx.derivatives or "
            "bx.attributions, which leave deviations out."
        )
    size = _summed_size(question, where)
    if size > LARGEST_JOINT and spec.approximation is None:
        raise ValueError(
            f"by needs the covariance of {size} quantities, at most {LARGEST_JOINT} for this "
            "model. Average over fewer rows by obs=, or fit with an approximation, such as "
            "bx.Inducing(...) or bx.HSGP(...), whose averages have no such limit."
        )


def _summed_size(question: Question, where: Points) -> int:
    """How many quantities an average sums, whose covariances it needs."""
    return len(where.X) * (1 if question.sums else question.width)


def _asked(
    model: ModelLike, hyper: HyperparameterDraws, question: Question, where: Points, *options: Any
) -> str:
    """Digest of all that decides what `evaluate` computes."""
    training, operator = model.training, question.operator
    arrays = [*training.scaled().values(), training.X.values, training.y]
    arrays += [*hyper.values.values(), hyper.chain, hyper.draw, question.factor]
    arrays += [*where.inputs.values(), *where.common.values(), where.index]
    said = getattr(operator, "__qualname__", None) or repr(operator)
    described = [model.signature, question.name, said, question.attrs, version("bayes_gpx")]
    described += [str(model.specification.event), str(training.weight)]
    return digest(*arrays, *described, options)


DEPENDENCE = {
    False: "joint over {}s within an observation, independent between observations",
    True: "joint over {}s and observations",
}
"""What attrs say of how draws belong together: of draws for each observation, and of joint ones."""

SAMPLES = {True: "new samples, with fresh eps_w", False: "training samples, with their own eps_w"}
"""What attrs say of the samples that a result is about: whether they are new ones."""


def _rows_of_block(
    model: ModelLike, question: Question, where: Points, moment: str, each: int, known: int
) -> int:
    """How many rows a block has, where alpha has the length `known`.

    The blocks depend on the model and the question alone, never on how many rows are asked for:
    their first rows are part of the seeds.
    """
    if moment == "cov":
        return len(where.X)
    if question.points > 1 and not model.specification.expanded:
        return 1  # all pairs of one row's points
    c, paths = question.width, where.paths
    at_once = in_an_array(question.attrs.get("steps", 0))
    pairs = at_once * paths**2 * max(c**2, TOGETHER) if paths > 1 else 0
    squares = 16 * c**2 if len(question.axes) == 2 else 0
    points = max(c, question.points) * paths
    return rows_within(8 * max(points * max(known, each), pairs, squares))


def row_means(
    model: ModelLike, hyper: HyperparameterDraws, question: Question, where: Points, **options: Any
) -> np.ndarray:
    """Means of a question's numbers in each row, (m, width, C), over draws, in user units."""
    build = _PosteriorMoments(question.operator, "mean", None)
    labels = range(model.specification.classes or 1)
    cases = [(k, {"label": np.asarray(k)}) for k in labels] if len(labels) > 1 else ONCE
    total = np.zeros((len(labels), len(where.X), question.width))
    size_of = partial(_rows_of_block, model, question, where, "mean", 1)
    told: dict[str, Any] = {"cases": cases, "size_of": size_of, **options}
    for _, _, rows, label, (mean, _), _ in each_draw(model, hyper, build, where, **told):
        total[label, rows] += mean.reshape((-1, question.width)) / len(hyper)
    every = np.arange(question.width)
    pairs = enumerate(total)
    return np.stack([question.in_units(m, m.ravel(), every, k)[0] for k, m in pairs], axis=-1)


def joint_moments(
    model: ModelLike,
    hyper: HyperparameterDraws,
    question: Question,
    where: Points,
    progressbar: bool,
) -> Iterator[tuple[Mapping[str, Any], np.ndarray, np.ndarray]]:
    """Yield hyperparameters, mean (m,) and covariance (m, m) of f at new rows, in user units."""
    build = _PosteriorMoments(question.operator, "cov", None)
    new, told = where.having(positions=None), f"Computing {question.name}, by draw"
    options: dict[str, Any] = {"size_of": lambda known: len(where.X), "progressbar": progressbar}
    for _, theta, _, _, (mean, cov), _ in each_draw(
        model, hyper, build, new, description=told, **options
    ):
        center, spread = question.in_units(mean, cov, np.arange(1))
        yield theta, center[:, 0], spread[:, 0, :, 0]


def jets(
    model: ModelLike,
    hyper: HyperparameterDraws,
    where: Points,
    order: int,
    *,
    smooth: bool = False,
    only: Collection[int] | None = None,
    progressbar: bool = True,
) -> Iterator[tuple[tuple[int, int], Mapping[str, Any], Jet, Jet, float]]:
    """Yield mean and variance of f, with derivatives up to `order`, for each draw of `hyper`.

    With `smooth` only the smooth part, with `only` the draws at these positions. Yields (chain,
    draw), the hyperparameters, jets of mean and variance on the model's scale (with a last dim of
    classes, and two for their covariances), and the jitter.
    """
    kind = Sensitivity if model.specification.classes is None else ClassSensitivity
    new, parts = where.having(positions=None), []
    for number, theta, rows, _, found, jitter in each_draw(
        model,
        hyper,
        kind(order, model.training.tied, smooth),
        new,
        size_of=lambda known: rows_within(8 * known * model.training.d**order),
        only=only,
        description="Means of the response, by draw",
        progressbar=progressbar,
    ):
        parts.append([np.array(part) for part in found])
        if rows.stop == len(where.X):
            whole = [np.concatenate(part) for part in zip(*parts, strict=True)]
            yield hyper.place(number), theta, Jet(*whole[::2]), Jet(*whole[1::2]), jitter
            parts = []
