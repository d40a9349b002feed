"""Answers that are not linear in f, on draws that are joint within each row.

What an answer about one row needs, such as f and its gradient at the nodes of a path, is jointly
normal. It is drawn from a factor of its covariance, row by row, for any kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy.linalg.lapack import dpstrf

from bayes_gpx.draws import questions
from bayes_gpx.draws.answers import of_draws
from bayes_gpx.draws.each_draw import each_draw
from bayes_gpx.draws.scales import Latent
from bayes_gpx.draws.views import LEVELS, AtCoalitions, AtRows, ByChainRule
from bayes_gpx.posteriors.softmax import across
from bayes_gpx.processes.operators import stack
from bayes_gpx.validation import count

if TYPE_CHECKING:
    import xarray as xr

    from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws
    from bayes_gpx.draws.points import Points
    from bayes_gpx.draws.protocols import ModelLike
    from bayes_gpx.draws.views import Asking
    from bayes_gpx.posteriors.base import OneDraw

TOGETHER = 256
"""Quantities whose covariance is computed in one call, for as many rows as have no more."""

LARGEST_ROW = 6000
"""Most quantities of one row that are drawn jointly: their covariance takes 288 MB."""


class TooManyQuantities(Exception):
    """An answer about one row needs more than `LARGEST_ROW` quantities."""


@dataclass(frozen=True)
class _Moments:
    """Mean and covariance of all that is asked of f at the rows: a build function."""

    operators: tuple[Callable, ...]

    def __call__(self, draw: OneDraw) -> list:
        each = [one(draw.asked) for one in self.operators]
        operator = stack(*each) if len(each) > 1 else each[0]
        if not draw.given.columns:
            q = draw.posterior()(operator)
            return [q.mean, q.cov]
        parts = [draw.posterior(label)(operator) for label in draw.given.labels]
        return [*across(parts, joint=True)]


def size_of_row(view: AtRows) -> int:
    """Number of quantities that an answer about one row needs."""
    return view.together * sum(_widths(view))


def _widths(view: AtRows) -> list[int]:
    """Number of quantities of each operator at a point, of all classes."""
    model = view.scale.model
    classes = model.specification.classes or 1
    return [classes * model.training.d**order for order in range(view.order + 1)]


def rows_apart(view: AtRows) -> bool:
    """Whether answers about one row need few enough quantities, and none of other rows' draws."""
    if not isinstance(view, ByChainRule | AtCoalitions):
        return False
    if isinstance(view, ByChainRule) and view.latent.total:
        view = replace(view, degree=LEVELS[1])
    return size_of_row(view) <= LARGEST_ROW


def drawn_by_row(
    model: ModelLike,
    hyper: HyperparameterDraws,
    view: AtRows,
    exact: Sequence[np.ndarray] | None,
    *,
    draws: int,
    seed: int | None,
    progressbar: bool,
    largest: float,
    **options: Any,
) -> xr.Dataset:
    """Answers on draws that are independent between rows; options as in `gathered`."""
    # Raises TooManyQuantities where a row turns out to need more than the `largest` number.
    count("draws", draws)
    if seed is not None:
        count("seed", seed, 0)
    each, entropy = draws if hyper.alone else 1, np.random.SeedSequence(seed).entropy
    asking = _Asking(model, hyper, each, cast(int, entropy), progressbar, largest)
    answers = view.answers(asking, len(hyper) * each, trials=0)
    told: dict[str, Any] = {"of": "draws", "joint": False, "exact": exact}
    return of_draws(model, view, hyper, each, answers, lambda: asking.jitter, **told, **options)


@dataclass(frozen=True, eq=False)
class _Values(AtRows):
    """Values of f at all rows, which count as points of one."""

    @property
    def together(self) -> int:
        return len(self.where.X)

    def of_functions(self, rows: slice, values: list[np.ndarray]) -> list[np.ndarray]:
        return values


def joint_values(
    model: ModelLike,
    hyper: HyperparameterDraws,
    where: Points,
    *,
    each: int,
    seed: int | None,
    progressbar: bool,
) -> np.ndarray:
    """Draws of f in user units, (chain, draw, m[, C]), joint over at most `LARGEST_ROW` values."""
    view = _Values(questions.value(model, smooth=True), where, Latent(model))
    entropy = cast(int, np.random.SeedSequence(seed).entropy)
    asking = _Asking(model, hyper, each, entropy, progressbar)
    f = np.concatenate([values for _, _, _, (values,) in asking([view], None)])
    f = f.reshape((len(hyper.chain), -1, *f.shape[1:]))
    return view.latent.factor * f + view.latent.offset + model.specification.observation.centers


class _Asking:
    """Draws of f at the points of views, as `AtRows.answers` asks for them."""

    # A row has random numbers of its own for each draw and each set of points, so answers do not
    # depend on the other rows.

    def __init__(
        self,
        model: ModelLike,
        hyper: HyperparameterDraws,
        each: int,
        entropy: int,
        progressbar: bool,
        largest: float = LARGEST_ROW,
    ) -> None:
        self._model, self._hyper, self._each, self._largest = model, hyper, each, largest
        self._entropy, self._progressbar, self.jitter = entropy, progressbar, 0.0

    def __call__(self, parts: Sequence[AtRows], numbers: Collection[int] | None) -> Asking:
        for k, part in enumerate(parts):
            yield from ((own, k, rows, found) for own, rows, found in self._about(part, numbers))

    def _about(
        self, view: AtRows, numbers: Collection[int] | None
    ) -> Iterator[tuple[np.ndarray, slice, list[np.ndarray]]]:
        if size_of_row(view) > self._largest:
            raise TooManyQuantities
        spread, t = view.spread(), view.together
        m = len(spread.X) // t
        size = max(1, TOGETHER // size_of_row(view))
        blocks = [slice(t * a, t * min(a + size, m)) for a in range(0, m, size)]
        chosen = None if numbers is None else {n // self._each for n in numbers}
        for number, _, points, _, (mean, cov), jitter in each_draw(
            self._model,
            self._hyper,
            _Moments(view.operators),
            spread.having(positions=None),
            blocks=blocks,
            only=chosen,
            description=f"Computing {view.question.name} of {m} rows, by draw",
            progressbar=self._progressbar,
        ):
            self.jitter = max(self.jitter, jitter)
            numbers_of = number * self._each + np.arange(self._each)
            kept = np.full(self._each, True)
            if numbers is not None:
                kept = np.isin(numbers_of, [*numbers])
            rows = slice(points.start // t, points.stop // t)
            places = _places(view, rows.stop - rows.start)
            each = [
                self._drawn(view, row, number, mean[own], cov[np.ix_(own, own)])[kept]
                for row, own in zip(range(rows.start, rows.stop), places, strict=True)
            ]
            own = view.of(self._hyper, np.full(kept.sum(), number))
            yield numbers_of[kept], rows, own.of_functions(rows, _by_operator(view, each))

    def _drawn(
        self, view: AtRows, row: int, number: int, mean: np.ndarray, cov: np.ndarray
    ) -> np.ndarray:
        """Draws (each, s) of the quantities of a row."""
        factor, order, rank, _ = dpstrf(cov, lower=1)
        place = row if view.where.rows is None else int(view.where.rows[row])
        key = number, place, view.together
        rng = np.random.default_rng(np.random.SeedSequence(self._entropy, spawn_key=key))
        # A rank that round-off changes adds numbers at the end, where pivots are negligible.
        normal = rng.standard_normal((rank, self._each))
        drawn = np.empty((self._each, len(mean)))
        drawn[:, order - 1] = (np.tril(factor)[:, :rank] @ normal).T
        return mean + drawn


def _places(view: AtRows, rows: int) -> list[np.ndarray]:
    """Where the quantities of each row are among those of some rows, operator by operator."""
    begin, found = 0, list[list[np.ndarray]]()
    for width in _widths(view):
        own = np.arange(rows * view.together * width) + begin
        found.append([*own.reshape((rows, -1))])
        begin += len(own)
    return [np.concatenate(parts) for parts in zip(*found, strict=True)]


def _by_operator(view: AtRows, drawn: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Draws (F, s) of each row as arrays (F, len L[, C]) of all rows for each operator."""
    ends = np.cumsum([width * view.together for width in _widths(view)])[:-1]
    parts = zip(*(np.split(one, ends, axis=1) for one in drawn), strict=True)
    joined = [np.concatenate(part, axis=1) for part in parts]
    classes = view.scale.model.specification.observation.class_shape
    return [v.reshape((len(v), -1, *classes)) if classes else v for v in joined]
