"""Gather answers that are numbers without a variance: of random functions, or of single draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Draws
from bayes_gpx.draws.evaluate import DEPENDENCE
from bayes_gpx.draws.hyperparameter_draws import hyperparameter_draws
from bayes_gpx.draws.intervals import interval_probability
from bayes_gpx.draws.protocols import ModelLike
from bayes_gpx.draws.results import Result
from bayes_gpx.draws.stores import DrawStore, refuse_summaries
from bayes_gpx.draws.views import expectations
from bayes_gpx.validation import one_of

if TYPE_CHECKING:
    from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws
    from bayes_gpx.draws.questions import Question
    from bayes_gpx.draws.views import Answers, AtCoalitions, AtRows, ByChainRule


EXACT = "means exact over the normal approximation of f"
"""What attrs say of exact means."""


def gathered(
    model: ModelLike,
    view: AtRows,
    shape: tuple[int, int],
    answers: Answers,
    *,
    features: Sequence[str] | None = None,
    covariance: bool = False,
    keep: str = "draws",
    path: str | PathLike | None = None,
    ci_prob: float | None = None,
) -> tuple[xr.Dataset, Result]:
    """Gather answers about rows, `shape` (chains, answers in each): draws and their moments."""
    # Intervals are quantiles of the draws.
    one_of("keep", keep, ("draws", "summary"))
    result = Result(model, view.question, view.where, features=features, covariance=covariance)
    store = None if path is None else partial(DrawStore, path)
    result.begin(*shape, sampled=keep == "draws", store=store)
    for numbers, rows, (values, *total) in answers:
        result.add_draws(numbers, rows, values, total[0] if total else None)
    named = result.dataset().assign_attrs(ci_prob=interval_probability(ci_prob))
    return named, result


def of_draws(
    model: ModelLike,
    view: AtRows,
    hyper: HyperparameterDraws,
    each: int,
    answers: Answers,
    jitter: Callable[[], float],
    *,
    of: str,
    joint: bool,
    exact: Sequence[np.ndarray] | None,
    **options: Any,
) -> xr.Dataset:
    """Answers `of` functions, or of draws for each row, with `exact` means; options of `gathered`.

    The means are those of the quantity (m, c), and of its total (m,).
    """
    shape = len(hyper.chain), len(hyper.draw) * each
    dataset, result = gathered(model, view, shape, answers, **options)
    moments = f"of the {of}"
    if exact is not None:
        dataset = _with_means(dataset, view.question, exact)
        points = "class" in dataset.dims and model.specification.observation.labelled
        how = ", by quasi-random points, with errors below 0.001" if points else ""
        moments = f"{EXACT}{how}, sds and covariances of the {of}"
    attrs = {
        "relative_jitter": jitter(),
        "dependence": DEPENDENCE[joint].format("feature"),
        "samples": view.question.samples,
        "moments": moments,
    }
    return result.finished(dataset, hyper, each, attrs)


def _with_means(dataset: xr.Dataset, question: Question, exact: Sequence[np.ndarray]) -> xr.Dataset:
    """Insert exact means; their completeness residual counts like the draws' residual."""
    names = [question.name, *([question.total[0]] if question.total else [])]
    labels = {axis.dim: list(axis.labels) for axis in question.axes}
    lead = ("obs", "class") if "class" in dataset.dims else ("obs",)
    shape = *exact[0].shape[:-1], *map(len, labels.values())
    mean = xr.DataArray(exact[0].reshape(shape), labels, (*lead, *labels))
    mean = mean.sel({dim: dataset[dim].values for dim in labels})
    found = [mean, *(xr.DataArray(v, dims=lead) for v in exact[1:])]
    for name, values in zip(names, found, strict=True):
        dataset[f"{name}_mean"] = values.variable.transpose("obs", ..., *lead[1:])
    if question.total:
        missed = found[1].copy(data=np.abs(exact[0].sum(axis=-1) - exact[1])).variable
        dataset["completeness_residual"] = np.maximum(dataset["completeness_residual"], missed)
    return dataset


def of_each_draw(
    model: ModelLike,
    idata: Draws,
    view: ByChainRule | AtCoalitions,
    *,
    num_draws: int | None = None,
    seed: int | None = None,
    progressbar: bool = True,
    **options: Any,
) -> xr.Dataset:
    """The log variance: one value for each hyperparameter draw; options as in `gathered`."""
    unused = [name for name in ("draws", "joint") if options.pop(name, None)]
    if unused:
        raise ValueError(
            f"of='log_variance' is one number for each draw of the hyperparameters, without "
            f"{' and '.join(unused)}; leave them out."
        )
    refuse_summaries(options.get("path"), options.get("keep", "draws"))
    hyper = hyperparameter_draws(model, idata, num_draws)
    shape = len(hyper.chain), len(hyper.draw)
    answers = expectations(model, hyper, view, progressbar)
    found, result = gathered(model, view, shape, answers, **options)
    if len(hyper) == 1:  # one draw has no spread
        sds = [name for name in found if str(name).endswith(("_sd", "_cov"))]
        found = found.assign({name: found[name] * np.nan for name in sds})
    attrs = {
        "of": "log_variance",
        "dependence": DEPENDENCE[True].format("feature"),
        "samples": "new samples",
        "moments": "of the draws of the hyperparameters, given which it is one number",
    }
    return result.finished(found, hyper, 1, attrs)
