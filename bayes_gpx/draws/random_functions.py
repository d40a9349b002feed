"""Random functions of a posterior: drawn once, and asked for quantities at any points."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Draws
from bayes_gpx.draws import questions
from bayes_gpx.draws.answers import of_draws
from bayes_gpx.draws.averages import of_groups, summarised, summed
from bayes_gpx.draws.each_draw import each_draw, rows_within
from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws, hyperparameter_draws
from bayes_gpx.draws.intervals import interval_probability
from bayes_gpx.draws.naming import values_by_source
from bayes_gpx.draws.protocols import ModelLike
from bayes_gpx.draws.questions import responds
from bayes_gpx.draws.row_draws import (
    LARGEST_ROW,
    TooManyQuantities,
    drawn_by_row,
    joint_values,
    rows_apart,
)
from bayes_gpx.draws.scales import Latent, mean_response, of_functions, unscaled
from bayes_gpx.draws.stores import refuse_foreign, refuse_summaries
from bayes_gpx.draws.views import AtCoalitions, AtRows, ByChainRule, means
from bayes_gpx.posteriors.pathwise import Evaluate, Update
from bayes_gpx.posteriors.prior_functions import WAVES
from bayes_gpx.processes.basis_functions import SPECTRAL, NoBasis
from bayes_gpx.validation import count

if TYPE_CHECKING:
    from bayes_gpx.draws.points import Points
    from bayes_gpx.draws.turns import Case
    from bayes_gpx.draws.views import Asking
    from bayes_gpx.posteriors.base import OneDraw
    from bayes_gpx.posteriors.constraints import Constraints


@dataclass(frozen=True, eq=False)
class Functions:
    """Random functions of a posterior, `each` for every draw of the hyperparameters."""

    # `updates` are from `bayes_gpx.posteriors.pathwise.Update`, one for each function, and
    # `jitters` what they took; `entropy` is the seed of all functions.

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

    def of_draw(self, number: int) -> range:
        """Positions of the functions of a hyperparameter draw."""
        return range(number * self.each, (number + 1) * self.each)

    def cases(self, number: int) -> list[Case]:
        """What the functions of a hyperparameter draw are evaluated with."""
        return [
            (
                k,
                {
                    "jitter": np.asarray(self.jitters[k]),
                    **self.generators(k),
                    "update": self.updates[k],
                },
            )
            for k in self.of_draw(number)
        ]

    def generators(self, number: int) -> dict[str, np.random.Generator]:
        """What a function is drawn from: frequencies and coefficients, and those of groups' own."""
        keys = {"rng": (number,), "rng_of_groups": (number, 1)}
        seed = partial(np.random.SeedSequence, self.entropy)
        return {k: np.random.default_rng(seed(spawn_key=key)) for k, key in keys.items()}


@contextmanager
def or_else(needed: str, instead: str) -> Iterator[None]:
    """Say in the refusal of a model without random functions who needs them, and an alternative."""
    try:
        yield
    except NoBasis as none:
        raise ValueError(f"{none} {needed} need them; {instead}.") from none


def draw_functions(
    model: ModelLike,
    idata: Draws | HyperparameterDraws,
    *,
    draws: int,
    num_draws: int | None = None,
    waves: int,
    seed: int | None,
    progressbar: bool,
) -> Functions:
    """Draw functions from the posterior; see `Functions`."""
    count("draws", draws)
    if seed is not None:
        count("seed", seed, 0)
    if model.training.sparse:
        raise NoBasis(
            "A model with a sparse Z has no random functions, which need all features of each row. "
            "Fit with Z.toarray()."
        )
    hyper = idata
    if not isinstance(hyper, HyperparameterDraws):
        hyper = hyperparameter_draws(model, hyper, num_draws)
    each = draws if hyper.alone else 1
    entropy = cast(int, np.random.SeedSequence(seed).entropy)
    functions = Functions(model, hyper, each, waves, [], [], entropy)

    def cases(number: int) -> list[Case]:
        return [(k, functions.generators(k)) for k in functions.of_draw(number)]

    try:
        for *_, (update,), jitter in each_draw(
            model,
            hyper,
            Update(waves),
            cases=cases,
            description="Drawing functions",
            progressbar=progressbar,
        ):
            functions.updates.append(np.array(update))
            functions.jitters.append(jitter)
    except NoBasis as none:
        raise NoBasis(
            "The model has no random functions. Use a kernel of sums, products and whole powers of "
            f"{', '.join(SPECTRAL)}, Periodic, Linear and Constant, or bx.Additive."
        ) from none
    return functions


def answer(
    functions: Functions,
    view: AtRows,
    *,
    features: Sequence[str] | None = None,
    covariance: bool = False,
    keep: str = "draws",
    path: str | PathLike | None = None,
    progressbar: bool = True,
    exact: Sequence[np.ndarray] | None = None,
    ci_prob: float | None = None,
) -> xr.Dataset:
    """Ask all functions about rows; options and result as in `evaluate`."""
    # Moments are computed over functions, except for `exact` means: of the quantity (m, c), and of
    # its total (m,).
    model = functions.model

    def ask(parts: Sequence[AtRows], numbers: Collection[int] | None) -> Asking:
        for k, part in enumerate(parts):
            for own, rows, found in _evaluated(functions, part, progressbar, numbers):
                yield (
                    own,
                    k,
                    rows,
                    part.of(functions.hyper, own // functions.each).of_functions(rows, found),
                )

    return of_draws(
        model,
        view,
        functions.hyper,
        functions.each,
        view.answers(ask, len(functions.updates)),
        lambda: max(functions.jitters),
        of="functions",
        joint=True,
        exact=exact,
        features=features,
        covariance=covariance,
        keep=keep,
        path=path,
        ci_prob=ci_prob,
    )


def log_statements(functions: Functions) -> np.ndarray:
    """Log probability or density of constraints given each function, (chain, draw, k)."""
    each = each_draw(
        functions.model,
        functions.hyper,
        _AtConstraints(functions.waves),
        cases=functions.cases,
        conditioned=False,
    )
    return np.reshape([np.array(v) for *_, (v,), _ in each], (*functions.shape, -1))


@dataclass(frozen=True)
class _AtConstraints:
    """Log probability of constraints given a random function: a build function."""

    waves: int

    def __call__(self, draw: OneDraw) -> list:
        constraints = cast("Constraints", draw.given.constraints)
        operator = draw.given.constrained
        (values,) = Evaluate(self.waves, (lambda asked: operator,))(draw)
        return [constraints.log_probability(values)]


def values(
    functions: Functions,
    where: Points,
    on: str,
    *,
    progressbar: bool,
    exposure: np.ndarray | float = 1.0,
) -> np.ndarray:
    """Values of functions (chain, draw, m), or (chain, draw, m, C): of f or the mean response."""
    model = functions.model
    view = AtRows(questions.value(model, smooth=True), where, Latent(model))
    f = answer(functions, view, progressbar=progressbar)["f"].values
    return on_response(model, functions.hyper, f, exposure) if responds(model, on) else f


def on_response(
    model: ModelLike,
    hyper: HyperparameterDraws,
    f: np.ndarray,
    exposure: np.ndarray | float = 1.0,
) -> np.ndarray:
    """Mean responses at draws of f (chain, draw, m[, C])."""
    observation = model.specification.response
    known = of_functions(model, hyper, f.shape[1])
    return mean_response(observation, unscaled(model, f), exposure, known)


def by_draws(
    model: ModelLike,
    idata: Draws,
    view: AtRows,
    *,
    draws: int = 1000,
    num_draws: int | None = None,
    seed: int | None = None,
    progressbar: bool = True,
    joint: bool = False,
    **options: Any,
) -> xr.Dataset:
    """Draw what answers need, for each row by itself; or functions, which all rows share."""
    shown: dict[str, Any] = {"draws": draws, "seed": seed, "progressbar": progressbar}
    if view.where.by is not None:
        return _averages(model, idata, view, num_draws=num_draws, **shown, **options)
    refuse_summaries(options.get("path"), options.get("keep", "draws"))
    if options.get("path") is not None:
        refuse_foreign(options["path"])
    exact = None
    if isinstance(view, ByChainRule | AtCoalitions):
        exact = means(model, idata, view, num_draws=num_draws, progressbar=progressbar)
    hyper = hyperparameter_draws(model, idata, num_draws)
    by_row = partial(drawn_by_row, model, hyper, view, exact, **shown, **options)
    apart = not joint and rows_apart(view)
    if apart and hyper.alone:  # a single function takes less time than a covariance
        with suppress(TooManyQuantities):
            return by_row(largest=LARGEST_ROW)
    try:
        functions = draw_functions(model, hyper, waves=WAVES, **shown)
    except NoBasis:
        if apart:
            return by_row(largest=np.inf)
        raise
    return answer(functions, view, progressbar=progressbar, exact=exact, **options)


def _averages(
    model: ModelLike,
    idata: Draws,
    view: AtRows,
    *,
    covariance: bool = False,
    keep: str = "draws",
    path: str | PathLike | None = None,
    ci_prob: float | None = None,
    **options: Any,
) -> xr.Dataset:
    """Averages over rows: of the answers of each function, and of exact means."""
    if path is not None:
        raise ValueError("path was given with by, but averages are small. Leave path out.")
    where, prob = view.where, interval_probability(ci_prob)
    alone = replace(view, where=replace(where, by=None).having(weights=None))
    rows = by_draws(model, idata, alone, joint=True, **options)
    parts = [rows.drop_dims(["obs", "chain", "draw"])]
    for name, of_rows in rows.items():
        if "obs" in of_rows.dims and "draw" in of_rows.dims:
            own = covariance and name == view.question.name
            part = summarised(str(name), summed(of_rows, where.by), own, keep, prob)
            part[f"{name}_mean"] = summed(rows[f"{name}_mean"], where.by)
            parts.append(part)
        elif str(name).startswith("completeness"):
            apart = where.by._replace(values=np.abs(where.by.values))  # errors may add up
            parts.append(summed(of_rows, apart).to_dataset(name=name))
    names, averages = rows["feature"].values.tolist(), of_groups(where)
    values = values_by_source(model.training.X, averages.X_values, names)
    parts.append(xr.Dataset(values).rename(obs="by"))
    found = xr.merge(parts, compat="override", join="override", combine_attrs="override")
    found = found.set_coords("level") if "level" in found else found
    return found.assign_attrs(rows.attrs | {"ci_prob": prob})


def values_at(
    model: ModelLike,
    hyper: HyperparameterDraws,
    where: Points,
    on: str,
    *,
    draws: int,
    seed: int | None = None,
    progressbar: bool = True,
    exposure: np.ndarray | float,
) -> np.ndarray:
    """Values (chain, draw, m[, C]) of f or the mean response, joint over all rows."""
    shown: dict[str, Any] = {"seed": seed, "progressbar": progressbar}
    few = len(where.X) * (model.specification.classes or 1) <= LARGEST_ROW

    def jointly() -> np.ndarray:
        f = joint_values(model, hyper, where, each=draws if hyper.alone else 1, **shown)
        return on_response(model, hyper, f, exposure) if responds(model, on) else f

    if few and hyper.alone:
        return jointly()
    try:
        functions = draw_functions(model, hyper, draws=draws, waves=WAVES, **shown)
    except NoBasis:
        if few:
            return jointly()
        raise
    return values(functions, where, on, progressbar=progressbar, exposure=exposure)


def _evaluated(
    functions: Functions, view: AtRows, progressbar: bool, only: Collection[int] | None
) -> Iterator[tuple[np.ndarray, slice, list[np.ndarray]]]:
    """Yield positions of functions, or `only` of some, rows, and their values at their points."""
    # As many functions at a time as their values fill a block of memory.
    where, together = view.spread().having(positions=None), view.together
    training = functions.model.training
    longest = max(training.n, functions.waves * (1 if training.Z is None else training.p))
    row = 8 * view.latent.width * where.paths * longest * together

    def cases(number: int) -> list[Case]:
        return [case for case in functions.cases(number) if only is None or case[0] in only]

    numbers, values, place = list[int](), list[list[np.ndarray]](), slice(0)

    def together_so_far() -> tuple[np.ndarray, slice, list[np.ndarray]]:
        return np.array(numbers), place, [np.stack(part) for part in zip(*values, strict=True)]

    for _, _, rows, number, found, _ in each_draw(
        functions.model,
        functions.hyper,
        Evaluate(functions.waves, view.operators),
        where,
        size_of=lambda _: together * rows_within(row),
        cases=cases,
        conditioned=False,
        only=None if only is None else {number // functions.each for number in only},
        description="Following functions",
        progressbar=progressbar,
    ):
        own = slice(rows.start // together, rows.stop // together)
        most = rows_within(sum(part.nbytes for part in found))
        if numbers and (own != place or len(numbers) == most):
            yield together_so_far()
            numbers, values = [], []
        place = own
        numbers.append(number)
        values.append([np.array(part) for part in found])
    if numbers:
        yield together_so_far()
