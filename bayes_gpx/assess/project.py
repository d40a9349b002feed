"""The smallest model that predicts as well as the whole one, found by projection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import numpy as np
import pandas as pd
import xarray as xr
from scipy.optimize import minimize

from bayes_gpx.aliases import Draws
from bayes_gpx.assess.projection import Reference, divergences, predictive, project_to, thinned
from bayes_gpx.data.row_data import counted
from bayes_gpx.draws.hyperparameter_draws import hyperparameter_draws, refuse_swapped
from bayes_gpx.draws.leave_one_out import averaged, held_out_log_likelihood, log_density_at
from bayes_gpx.explain.conditional_variance import conditional_variance
from bayes_gpx.explain.relevance import relevance
from bayes_gpx.inference.methods import METHODS
from bayes_gpx.model.examination import unexamined
from bayes_gpx.numerics.progress import progress_bar
from bayes_gpx.numerics.threads import on_cores
from bayes_gpx.system.tasks import in_turn
from bayes_gpx.validation import count, known_executor, names_among, one_of

if TYPE_CHECKING:
    from bayes_gpx.data.training import TrainingData
    from bayes_gpx.model.model import Model

LARGEST = 20
"""Features of the largest submodel, unless other sizes are asked for."""

ROUND_OFF = 1e-6
"""Nats that scores of the same model may differ by."""


@dataclass(frozen=True, eq=False)
class Projection:
    """Variable selection by projection, as returned by `bayes_gpx.project`.

    Attributes
    ----------
    table : pandas.DataFrame
        A row for each `size`, the number of features. `elpd` is the sum of the log predictive
        densities of all rows, each by a submodel found without its fold; `elpd_diff` is its
        difference from the reference, with standard error `se`. `kl` is the divergence, in nats, of
        the submodel's leave-one-out predictions from the reference's, averaged over rows and draws;
        of counts it is the divergence of Poisson or negative binomial distributions of their means.
        `feature` is the last feature that entered.
    inclusion : xarray.DataArray
        (fold, feature): the size at which the search of each fold includes a feature. For example,
        ``(inclusion <= size).mean("fold")`` is the proportion of folds with the feature in the
        submodel.
    path : list of str
        Features in the order of the search, with all rows.
    suggested : int or None
        The smallest size with an `elpd_diff` at most one standard error below 0; None if there is
        no such size.
    """

    table: pd.DataFrame
    inclusion: xr.DataArray
    path: list[str]
    suggested: int | None
    _submodels: dict[int, tuple[Model, xr.DataTree]] = field(repr=False)

    def submodel(self, size: int) -> tuple[Model, xr.DataTree]:
        """Return the submodel of the first features on the path, with its draws.

        Parameters
        ----------
        size : int
            One of the table's, at least 1.

        Returns
        -------
        model : GP
            The reference's kernel, priors, scaling and rows, with `size` of its features, in the
            order of the data. New rows need these columns; a frame may contain others too.
        idata : xarray.DataTree
            `posterior` contains the projections of the reference's draws; `sample_stats` contains
            their `kl`, and whether the optimizer `converged`. All explanation functions take this
            pair.

        Raises
        ------
        ValueError
            For a size that is not in the table, and for 0, because a model needs features.
        """
        if size not in self._submodels:
            raise ValueError(
                f"size is {size!r}. Pass one of {list(self._submodels)}, the sizes of bx.project "
                "that have features."
            )
        return self._submodels[size]

    def __repr__(self) -> str:
        """The suggestion in a sentence, and the table."""
        if self.suggested is None:
            found = "no size predicts as well as the reference, within one standard error"
        else:
            names = ", ".join(map(str, self.path[: self.suggested])) or "no feature"
            found = f"suggested size {self.suggested}: {names}"
        return f"Projection, {found}\n\n{self.table.round(3)}"


@on_cores
def project(
    model: Model,
    idata: Draws,
    *,
    path: Literal["relevance", "variance"] | Sequence[str] = "relevance",
    sizes: Sequence[int] | None = None,
    folds: int = 5,
    clusters: int = 20,
    executor: Executor | None = None,
    cores: int | None = None,
    seed: int | None = None,
    progressbar: bool = True,
) -> Projection:
    """Find the fewest features that predict as well as all of them.

    Use this variable selection by projection to choose a small model, and `relevance` to rank
    features of one model. The model with all features is the reference. A submodel has the same
    kernel and likelihood on the first features of a search path. Its hyperparameters minimize the
    Kullback-Leibler divergence, summed over rows, from the reference's leave-one-out predictive
    distributions [1]_. Cross-validation scores submodels and repeats the search without each fold.

    Parameters
    ----------
    model : GP or GPX
        With a kernel by name and one response, in memory.
    idata : xarray.DataTree or dict
        Its fit, or a dict of fixed hyperparameters, which all folds then share.
    path : "relevance", "variance" or list of str
        Order in which features enter, found again in each fold. "relevance" takes the average
        `bayes_gpx.relevance`. "variance" takes the variance of the mean prediction if a feature is
        drawn anew given the others ([2]_, "VAR"). A list fixes the order of some or all
        features.
    sizes : list of int, optional
        Numbers of features; by default from 0 to all features of the path, at most 20. Size 0
        predicts one normal distribution for all rows.
    folds : int
        Number of folds. The reference is refitted without each.
    clusters : int
        Number of evenly spaced reference draws that are projected and scored. Time is proportional
        to it, and grows with the cube of the number of rows.
    executor : concurrent.futures.Executor, optional
        Works on several folds at a time, for example Dask's ``client.get_executor()``.
    seed : int, optional
        Seed of the folds and of the fits.
    progressbar : bool
        Show progress.

    Returns
    -------
    Projection
        The table of sizes, the suggested size, and the submodels; `plot_project` draws the table.

    Raises
    ------
    ValueError
        For callable kernels, several outputs, groups, constraints and out-of-core rows; for
        likelihoods that `relevance` refuses; for an `idata` of another model, unknown features,
        sizes beyond the path, and more folds than rows; for "variance" if a search has no more rows
        than columns.

    Warns
    -----
    ConvergenceWarning
        If projections of some draws did not converge.

    References
    ----------
    .. [1] Piironen and Vehtari, "Projection predictive model selection for Gaussian processes"
       (2016).
    .. [2] Paananen, Piironen, Andersen and Vehtari, "Variable selection for Gaussian processes via
       sensitivity analysis of the posterior predictive distribution" (2019), for the paths.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(60, 3))
    >>> model = bx.GP(X, 2.0 * np.sin(X[:, 1]) + 0.3 * rng.normal(size=60))
    >>> idata = model.fit("map", progressbar=False)
    >>> found = bx.project(model, idata, seed=1, progressbar=False)
    >>> found.suggested, found.path[0]
    (1, 'x1')
    >>> small, draws = found.submodel(1)
    >>> bx.predictions(small, draws, X[:5, [1]], progressbar=False).sizes["obs"]
    5
    """
    _refuse(model, idata)
    names = list(model.training.X.sources)
    if isinstance(path, str):
        one_of("path", path, RANKED)
    else:
        path = names = names_among("path", path, names)
    chosen = _read_sizes(sizes, len(names))
    count("folds", folds, 2)
    if folds > model.training.n:
        raise ValueError(
            f"folds is {folds} for {model.training.n} rows. Pass at most one fold for each row."
        )
    if path == "variance":
        _refuse_few_rows(model.training, folds)
    count("clusters", clusters)
    if seed is not None:
        count("seed", seed, 0)
    known_executor(executor)
    entropy = cast(int, np.random.SeedSequence(seed).entropy)
    known, options = _refit(idata)
    search = _Search(model, known, options, path, chosen, folds, clusters, entropy)
    with progress_bar(progressbar) as progress:
        task = progress.add_task("Projecting with all rows, and without each fold", total=folds + 1)
        whole = search.found(model, idata)
        progress.advance(task)
        parts = []
        for part in in_turn(_without, search, ((k,) for k in range(folds)), executor):
            parts.append(part)
            progress.advance(task)
    table = _table(whole, parts, chosen)
    enough = table.index[table["elpd_diff"] + table["se"] > -ROUND_OFF]
    ranks = [[part.path.index(name) + 1 for name in whole.path] for part in parts]
    return Projection(
        table,
        xr.DataArray(
            ranks, {"fold": np.arange(folds), "feature": whole.path}, ["fold", "feature"], "size"
        ),
        whole.path,
        int(enough[0]) if len(enough) else None,
        whole.submodels,
    )


def _refuse(model: Model, idata: Draws) -> None:
    """Raise for what cannot be projected, or not refitted, before anything is computed."""
    refuse_swapped(model, idata)
    spec = model.specification
    model.training.refuse_outputs("project", "Fit a model of one column of y.")
    if spec.hierarchical or not isinstance(spec.kernel, str):
        kernel = spec.kernel if isinstance(spec.kernel, str) else "a function or a matrix"
        raise ValueError(
            f"The model has kernel={kernel} and representation={spec.representation!r}. Pass a "
            "model with a kernel by name, since a kernel of your own may need all columns, and the "
            "representation 'collapsed'."
        )
    if model.training.groups is not None:
        raise ValueError(
            "The model has groups, but the submodel without features has no levels of groups. Pass "
            "a model without groups."
        )
    if spec.constraints is not None:
        raise ValueError(
            "The model has constraints, which may be about features that submodels lack. Pass a "
            "model without constraints."
        )
    model.training.refuse_out_of_core(
        f"The {model.training.n} training rows are out-of-core data, which are not read again "
        "for each fold. Pass a model of a random sample of the rows in memory."
    )
    if model.joined:
        raise ValueError(
            "The model is part of a larger pm.Model, which submodels would lose. Pass a model "
            "built outside of other models."
        )
    hyperparameter_draws(model, idata)


def _read_sizes(sizes: Sequence[int] | None, most: int) -> list[int]:
    """Different numbers of features, in ascending order."""
    if sizes is None:
        return list(range(min(most, LARGEST) + 1))
    listed = np.ndim(sizes) == 1 and len(sizes)
    for size in sizes if listed else ():
        count("sizes", size, 0)
    if not listed or max(sizes) > most:
        raise ValueError(
            f"sizes is {sizes!r}. Pass a list of whole numbers from 0 to {most}, the number of "
            "features on the path."
        )
    return sorted({int(size) for size in sizes})


def _refit(idata: Draws) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Settings for fits to fewer rows: fixed hyperparameters, or options of `fit`."""
    if isinstance(idata, dict):
        return idata, {}
    posterior = idata["posterior"]
    method = posterior.attrs.get("inference_method")
    size = {"draws": posterior.sizes["draw"], "chains": posterior.sizes["chain"]}
    return None, {"method": method if method in METHODS else "nuts", "progressbar": False, **size}


@dataclass(frozen=True, eq=False)
class _Found:
    """A reference, a path, and the submodels on it, all of which score rows."""

    path: list[str]
    kl: dict[int, float]  # by size, for sizes above 0
    submodels: dict[int, tuple[Model, xr.DataTree]]  # by size, for sizes above 0
    constant: tuple[np.ndarray, np.ndarray]  # moments of f without features, as in `LeftOut`
    reference: tuple[Model, Draws]  # a GP with its thinned draws

    def scores(self, rows: TrainingData, sizes: Sequence[int]) -> np.ndarray:
        """Log densities of rows by submodels of k sizes, and last by the reference, (k + 1, m)."""
        return np.stack(
            [self._score(rows, size) for size in sizes] + [_score(*self.reference, rows)]
        )

    def _score(self, rows: TrainingData, size: int) -> np.ndarray:
        model, idata = self.reference
        if size:
            submodel, idata = self.submodels[size]
            return _score(submodel, idata, rows.only(submodel.training.X.sources))
        hyper = hyperparameter_draws(model, idata)
        return averaged(log_density_at(model, hyper, rows, *self.constant), rows.row_data)


def _score(model: Model, idata: Draws, rows: TrainingData) -> np.ndarray:
    terms = held_out_log_likelihood(model, idata, rows, progressbar=False)
    return averaged(terms, rows.row_data)


class _Part(NamedTuple):
    """What a fold tells: scores of its rows (sizes + 1, m), and the path found without them."""

    scores: np.ndarray
    path: list[str]


@dataclass(frozen=True, eq=False)
class _Search:
    """The arguments of a search, for all rows or without a fold, as sent to other processes."""

    model: Model
    known: dict[str, Any] | None  # from `_refit`, as `options`
    options: dict[str, Any]
    order: str | list[str]  # a criterion or the path itself
    sizes: list[int]
    folds: int
    clusters: int
    entropy: int  # all random numbers follow from it

    def found(self, model: Model, idata: Draws) -> _Found:
        """The path of a fit, and its projections."""
        some = thinned(idata, self.clusters)
        path = self.order
        if isinstance(path, str):
            path = _ranked(model, RANKED[path](model, some))
        reference = Reference.of(model, some)
        submodels = {k: project_to(reference, path[:k]) for k in self.sizes if k}
        kl = {k: float(tree["sample_stats"]["kl"].mean()) for k, (_, tree) in submodels.items()}
        constant, kl[0] = _constant(reference)
        return _Found(path, kl, submodels, constant, (model, some))

    def without(self, fold: int) -> _Part:
        """Search without a fold, and score the rows of the fold."""
        training, seeds = self.model.training, np.random.SeedSequence(self.entropy)
        own = np.random.default_rng(seeds).permutation(training.n) % self.folds
        rows, kept = np.flatnonzero(own == fold), np.flatnonzero(own != fold)
        model = self.model.of_rows(training.rows(kept))
        spawned = np.random.SeedSequence(self.entropy, spawn_key=(fold,))
        seed = int(np.random.default_rng(spawned).integers(2**31))
        with unexamined():
            fitted = model.fit(**self.options, seed=seed) if self.known is None else self.known
        found = self.found(model, fitted)
        return _Part(found.scores(training.rows(rows), self.sizes), found.path)


def _without(search: _Search, fold: int) -> _Part:
    return search.without(fold)


def _refuse_few_rows(training: TrainingData, folds: int) -> None:
    """Raise if the others tell each column altogether in the rows that a fold leaves."""
    left = training.n - -(-training.n // folds)
    if left <= training.d:
        raise ValueError(
            f"path='variance' has {training.d} columns and {left} rows without a fold, but needs "
            "more rows than columns. Use path='relevance'."
        )


def _average_relevance(model: Model, idata: Draws) -> np.ndarray:
    """By KL-diff, (features,)."""
    found = relevance(model, idata, keep="summary", progressbar=False)
    return found["average_relevance"].mean(["chain", "draw"]).values


def _average_variance(model: Model, idata: Draws) -> np.ndarray:
    """By the variance of the mean prediction, (features,)."""
    found = conditional_variance(model, idata, progressbar=False)
    return np.average(found, axis=0, weights=counted(model.training.row_data, model.training.n))


RANKED = {"relevance": _average_relevance, "variance": _average_variance}
"""Functions from a model and its fit to scores of features; the largest score enters first."""


def _ranked(model: Model, sizes: np.ndarray) -> list[str]:
    """All features, the one with the largest number first."""
    return [model.training.X.sources[k] for k in np.argsort(-sizes, kind="stable")]


def _constant(reference: Reference) -> tuple[tuple[np.ndarray, np.ndarray], float]:
    """Moments of the normal f without features closest to each draw, and the mean divergence."""
    # With equal normal noise all responses have the moments of the mixture over rows. Others
    # are optimized: the mean of f, and its variance where the response is f and noise, or any
    # function. Where it is a rate or a probability, the mean of f alone determines the closest
    # one. The divergence is averaged over rows and draws.
    model, moments, kls = reference.model, [], []
    for k, (_, theta) in enumerate(reference.hyper):
        aim = reference.predictive(k)
        found = _closest(model, aim, reference.mean[k], reference.spread[k], theta)
        own = predictive(model, _at_all_rows(model, found), theta)
        each = divergences(model, aim, own)
        kls.append(np.average(each, weights=counted(model.training.row_data, model.training.n)))
        moments.append(found)
    mean, spread = (np.stack(part) for part in zip(*moments, strict=True))
    return (mean, spread), float(np.mean(kls))


def _at_all_rows(
    model: Model, moments: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Moments of f at one row, repeated for all training rows."""
    mean, spread = (np.broadcast_to(v, (model.training.n, *np.shape(v))) for v in moments)
    return mean, spread


def _closest(
    model: Model, aim: Any, mean: np.ndarray, spread: np.ndarray, theta: Mapping[str, Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Moments of the f of all rows that is closest to the responses `aim` of a draw."""
    observation = model.specification.observation
    counts = counted(model.training.row_data, model.training.n)
    center = np.average(mean, axis=0, weights=counts)
    if observation.normal and not observation.exposed:
        return center, np.average(spread + (mean - center) ** 2, weights=counts)
    own = observation.mean_name is None or observation.any_shapes

    def moments(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if own:
            return x[0], np.exp(x[1])
        return x.reshape(center.shape), np.zeros(center.shape * 2)

    def apart(x: np.ndarray) -> float:
        found = predictive(model, _at_all_rows(model, moments(x)), theta)
        return float(np.average(divergences(model, aim, found), weights=counts))

    start = np.ravel(center)
    if own:
        start = np.append(start, np.log((spread + (mean - center) ** 2).mean()))
    return moments(minimize(apart, start, method="BFGS", options={"gtol": 1e-7}).x)


def _table(whole: _Found, parts: Sequence[_Part], sizes: Sequence[int]) -> pd.DataFrame:
    """Scores of all rows, by the part that each was left out in."""
    scores = np.concatenate([part.scores for part in parts], axis=1)
    apart = scores[:-1] - scores[-1]
    return pd.DataFrame(
        {
            "elpd": scores[:-1].sum(axis=1),
            "elpd_diff": apart.sum(axis=1),
            "se": np.sqrt(apart.shape[1]) * apart.std(axis=1, ddof=1),
            "kl": [whole.kl[size] for size in sizes],
            "feature": [whole.path[size - 1] if size else "" for size in sizes],
        },
        index=pd.Index(sizes, name="size"),
    )
