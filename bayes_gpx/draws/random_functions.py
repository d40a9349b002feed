"""Random functions of a posterior: drawn once, and asked for quantities at any points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Draws
from bayes_gpx.draws import evaluate as one_to_all, quantities
from bayes_gpx.draws.answers import gathered
from bayes_gpx.draws.averages import refuse_averages
from bayes_gpx.draws.compiled import Structure, compiled, data_of
from bayes_gpx.draws.each_draw import factors_of, symbols_of
from bayes_gpx.draws.evaluate import DEPENDENCE, finished, keep_freed_memory
from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws, hyperparameter_draws
from bayes_gpx.draws.protocols import ModelLike
from bayes_gpx.draws.response_means import means
from bayes_gpx.draws.response_scale import LatentQuantity, ResponseQuantity, mean_response, responds
from bayes_gpx.draws.stores import refuse_foreign
from bayes_gpx.numerics.progress import progress_bar
from bayes_gpx.numerics.threads import blas_threads
from bayes_gpx.posteriors.pathwise import Evaluate, Update
from bayes_gpx.posteriors.prior_functions import WAVES
from bayes_gpx.processes.basis_functions import SPECTRAL, NoBasis
from bayes_gpx.validation import count

if TYPE_CHECKING:
    from bayes_gpx.draws.points import Points

EXACT = "means exact over the normal approximation of f"
"""What attrs say of exact means."""


@dataclass(frozen=True, eq=False)
class Functions:
    """Random functions of a posterior, `each` for every draw of the hyperparameters.

    `updates` are from `bayes_gpx.posteriors.pathwise.Update`, one for each function; `jitters`
    belong to the hyperparameter draws; `entropy` is the seed of all functions.
    """

    model: ModelLike
    hyper: HyperparameterDraws
    each: int
    waves: int
    updates: list
    jitters: list
    entropy: int

    @property
    def shape(self) -> tuple[int, int]:
        """Chains, and functions in each."""
        return len(self.hyper.chain), len(self.hyper.draw) * self.each

    def generator(self, number: int) -> np.random.Generator:
        """What the frequencies and coefficients of a function are drawn from."""
        return np.random.default_rng(np.random.SeedSequence(self.entropy, spawn_key=(number,)))


@contextmanager
def or_else(needed: str, instead: str) -> Iterator[None]:
    """Say in the refusal of a model without random functions who needs them, and an alternative."""
    try:
        yield
    except NoBasis as none:
        raise ValueError(f"{none} {needed} need them; {instead}.") from none


def draw_functions(
    model: ModelLike,
    idata: Draws,
    *,
    draws: int,
    num_draws: int | None,
    waves: int,
    seed: int | None,
    progressbar: bool,
) -> Functions:
    """Draw functions from the posterior; see `Functions`."""
    count("draws", draws)
    if seed is not None:
        count("seed", seed, 0)
    hyper = hyperparameter_draws(model, idata, num_draws)
    structure = Structure.of(model, hyper)
    data = data_of(model, structure)
    each = draws if hyper.alone else 1
    entropy = cast(int, np.random.SeedSequence(seed).entropy)
    functions = Functions(model, hyper, each, waves, [], [], entropy)
    factorise = factors_of(model, structure, data)
    names = ("jitter", "alpha", "root", "rng", *data)
    try:
        update_of = compiled(structure, Update(waves), names).given(*data.values())
    except NoBasis as none:
        raise NoBasis(
            "The model has no random functions. Use a kernel of sums and multiples of "
            f"{', '.join(SPECTRAL)}, Linear and Constant, and no groups."
        ) from none
    keep_freed_memory()
    with blas_threads(model.training.n), progress_bar(progressbar) as progress:
        for _, theta in progress.track(hyper, total=len(hyper), description="Drawing functions"):
            given = list(theta.values())
            (alpha, root), jitter = factorise(given)
            functions.jitters.append(jitter)
            for _ in range(each):
                rng = functions.generator(len(functions.updates))
                (update,) = update_of(*given, np.asarray(jitter), alpha, root, rng)
                functions.updates.append(np.array(update))
    return functions


def answer(
    functions: Functions,
    asked: LatentQuantity | ResponseQuantity,
    where: Points,
    *,
    features: Sequence[str] | None = None,
    covariance: bool = False,
    keep: str = "draws",
    path: str | PathLike | None = None,
    progressbar: bool = True,
    exact: Sequence[np.ndarray] | None = None,
    ci_prob: float | None = None,
) -> xr.Dataset:
    """Evaluate a request for all functions at points; options and result as in `explain`.

    Moments are computed over functions, except for `exact` means: of the quantity (m, c), and of
    its total (m,). For requests see `bayes_gpx.draws.response_scale`.
    """
    model, each, quantity = functions.model, functions.each, asked.quantity
    answers = _answers(functions, asked, where, progressbar)
    dataset, place = gathered(
        model,
        quantity,
        where,
        functions.shape,
        answers,
        features=features,
        covariance=covariance,
        keep=keep,
        path=path,
        ci_prob=ci_prob,
    )
    attrs = {
        "relative_jitter": max(functions.jitters),
        "dependence": DEPENDENCE[True].format("feature"),
        "samples": quantity.samples,
        "moments": "of the functions",
    }
    if exact is not None:
        dataset = with_means(dataset, quantity, exact)
        how = ", by quasi-random points" if "class" in dataset.dims else ""
        attrs["moments"] = f"{EXACT}{how}, sds and covariances of the functions"
    return finished(dataset, model, quantity, functions.hyper, each, keep == "draws", place, attrs)


def log_statements(functions: Functions) -> np.ndarray:
    """Log probability or density of constraints given each function, (chain, draw, k)."""
    structure, found = Structure.of(functions.model, functions.hyper), []
    data = data_of(functions.model, structure)
    names = ("jitter", "rng", "update", *data)
    draws = [
        (theta, np.asarray(jitter))
        for (_, theta), jitter in zip(functions.hyper, functions.jitters, strict=True)
    ]
    ask = compiled(structure, _AtConstraints(functions.waves), names).given(*data.values())
    with blas_threads(functions.model.training.n):
        for number, update in enumerate(functions.updates):
            theta, jitter = draws[number // functions.each]
            (values,) = ask(*theta.values(), jitter, functions.generator(number), update)
            found.append(np.array(values))
    return np.reshape(found, (*functions.shape, -1))


@dataclass(frozen=True)
class _AtConstraints:
    """Log probability of constraints given a random function: a build function."""

    waves: int

    def __call__(self, draw):
        constraints = draw.given.constraints
        operator = constraints.operator
        (values,) = Evaluate(self.waves, (lambda asked: operator,))(draw)
        return [constraints.log_probability(values)]


def values(functions: Functions, where: Points, on: str, *, progressbar: bool) -> np.ndarray:
    """Values of functions (chain, draw, m), or (chain, draw, m, C): of f or the mean response."""
    model = functions.model
    asked = LatentQuantity(quantities.value(model, smooth=True))
    f = answer(functions, asked, where, progressbar=progressbar)["f"].values
    return mean_response(model.specification.observation, f) if responds(model, on) else f


def by_functions(
    model: ModelLike,
    idata: Draws,
    asked: LatentQuantity | ResponseQuantity,
    where: Points,
    *,
    draws: int = 1000,
    num_draws: int | None = None,
    seed: int | None = None,
    progressbar: bool = True,
    joint: bool = False,
    **options: Any,
) -> xr.Dataset:
    """Draw functions and ask them; they are joint over observations in any case."""
    refuse_averages(where)
    if options.get("path") is not None:
        refuse_foreign(options["path"])
    functions = draw_functions(
        model,
        idata,
        draws=draws,
        num_draws=num_draws,
        waves=WAVES,
        seed=seed,
        progressbar=progressbar,
    )
    where, exact = replace(where, positions=None), None
    if isinstance(asked, ResponseQuantity):
        exact = means(model, idata, asked, num_draws=num_draws, progressbar=progressbar)
    return answer(functions, asked, where, progressbar=progressbar, exact=exact, **options)


def with_means(dataset, quantity, exact):
    """Insert exact means; their completeness residual counts like the draws' residual."""
    names = [quantity.name, *([quantity.total[0]] if quantity.total else [])]
    labels = {"feature": list(quantity.components)}
    dims = ("obs", "class", "feature") if "class" in dataset.dims else ("obs", "feature")
    mean = xr.DataArray(exact[0], labels, dims).sel(feature=dataset["feature"].values)
    found = [mean, *(xr.DataArray(v, dims=dims[:-1]) for v in exact[1:])]
    for name, values in zip(names, found, strict=True):
        order = [dim for dim in ("obs", "feature", "class") if dim in values.dims]
        dataset[f"{name}_mean"] = values.variable.transpose(*order)
    if quantity.total:
        missed = found[1].copy(data=np.abs(exact[0].sum(axis=-1) - exact[1])).variable
        dataset["completeness_residual"] = np.maximum(dataset["completeness_residual"], missed)
    return dataset


def _answers(functions, asked, where, progressbar):
    """Yield position of a function, rows of `where`, and the function's answer."""
    c = asked.quantity.width
    if isinstance(asked, LatentQuantity):
        for number, rows, found in _evaluated(functions, asked, c, where, progressbar):
            yield number, rows, asked.combine(rows, found)
        return

    def ask(parts, numbers):
        for k, part in enumerate(parts):
            for number, rows, found in _evaluated(
                functions, part, c, part.where, progressbar, numbers
            ):
                yield number, k, rows, part.combine(rows, found)

    yield from asked.answers(ask, len(functions.updates))


def _evaluated(functions, asked, width, where, progressbar, only=None):
    """Yield position of a function, or `only` of some, rows of `where`, and its values there."""
    where, together = asked.spread(where), asked.together
    structure = Structure.of(functions.model, functions.hyper)
    data = data_of(functions.model, structure)
    at_points, start = symbols_of(where)
    common = data | start
    names = ("jitter", "rng", "update", *common, *at_points)
    staged = compiled(structure, Evaluate(functions.waves, asked.operators), names)
    m, paths = len(where.X), len(np.atleast_2d(where.baseline)) if start else 1
    training = functions.model.training
    longest = max(training.n, functions.waves * (1 if training.Z is None else training.p))
    size = together * max(1, one_to_all.BLOCK_BYTES // (8 * width * paths * longest * together))
    keep_freed_memory()
    with blas_threads(functions.model.training.n), progress_bar(progressbar) as progress:
        blocks = [slice(first, min(first + size, m)) for first in range(0, m, size)]
        for rows in progress.track(blocks, total=len(blocks), description="Following functions"):
            values = staged.given(*common.values(), *[v[rows] for v in at_points.values()])
            first = 0
            for (_, theta), jitter in zip(functions.hyper, functions.jitters, strict=True):
                for number in range(first, first + functions.each):
                    if only is not None and number not in only:
                        continue
                    rng, update = functions.generator(number), functions.updates[number]
                    found = values(*theta.values(), np.asarray(jitter), rng, update)
                    own = slice(rows.start // together, rows.stop // together)
                    yield number, own, found
                first += functions.each
