"""Views of rows on a scale: at the rows, along the path to them, or at coalitions."""

# Answers that are not linear in f are computed on random functions, and their means exactly: by the
# chain rule at a row or at nodes along a path, or from values at coalitions. For each function, the
# components add up to the difference of both ends.

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import batched
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np

from bayes_gpx.aliases import Draws
from bayes_gpx.data.sparse import stacked
from bayes_gpx.draws import questions
from bayes_gpx.draws.evaluate import jets
from bayes_gpx.draws.hyperparameter_draws import hyperparameter_draws
from bayes_gpx.draws.points import Points
from bayes_gpx.draws.protocols import ModelLike
from bayes_gpx.draws.questions import Question, ShapleyOperator
from bayes_gpx.draws.scales import Latent
from bayes_gpx.numerics.coalitions import Coalitions, Orders, coalitions
from bayes_gpx.numerics.quadrature import chebyshev, gauss_legendre, interpolation

if TYPE_CHECKING:
    from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws
    from bayes_gpx.numerics.jets import Jet

LEVELS = (8, 16, 32, 64, 128)
"""Degrees of the polynomials that approximate f, or its moments, along a path."""

TRIALS = 8
"""Number of functions or draws that choose the degrees."""

CLOSE, NEAR = 1e-9, 1e-7
"""Shares of the largest difference that attributions may miss in all: in trials, and later."""

LARGEST_AVERAGE = 2**26
"""Bytes of attributions of all functions that an average over baselines adds up at a time."""

type Answers = Iterator[tuple[np.ndarray, np.ndarray, list[np.ndarray]]]
"""Numbers of functions or draws (F,), positions of rows (k,), and answers: components (F, k, c), or
(F, k, C, c) of several classes, and perhaps their sum (F, k), or (F, k, C)."""

type Asking = Iterator[tuple[np.ndarray, int, slice, list[np.ndarray]]]
"""As `Answers`, with the position of the view that was asked, and a slice of its rows."""


@dataclass(frozen=True, eq=False)
class AtRows:
    """A linear question at rows, which functions are asked as it is; and what every view has."""

    latent: Question
    where: Points
    scale: Latent
    order: ClassVar = 0
    """Order of the derivatives of f that expectations need."""

    @property
    def question(self) -> Question:
        """On the scale."""
        return self.scale.question(self.latent)

    @property
    def together(self) -> int:
        """How many points each row is looked at from."""
        return 1

    @property
    def operators(self) -> tuple[Callable, ...]:
        """What is asked of f at the points."""
        total = self.latent.total
        return (self.latent.operator, *(total[1:] if total else ()))

    def of(self, hyper: HyperparameterDraws, numbers: np.ndarray) -> Self:
        """The same for functions of these draws of the hyperparameters."""
        return replace(self, scale=self.scale.of_draws(hyper, numbers))

    def spread(self) -> Points:
        """All points of the first row, then of the second row."""
        return self.where

    def of_functions(self, rows: slice, values: list[np.ndarray]) -> list[np.ndarray]:
        """Answers of F functions about some rows, from their numbers at the points, (F, ...)."""
        first, *total = values
        F, c = len(first), self.latent.width
        if not self.scale.several:
            return [first.reshape((F, -1, c)), *total]
        return [np.moveaxis(first.reshape((F, -1, c, first.shape[-1])), 2, 3), *total]

    def answers(self, ask: Callable[..., Iterator], count: int, trials: int = TRIALS) -> Answers:
        """Yield numbers, rows and answers of `count` functions or draws."""
        # `ask` maps a list of views and numbers (None for all) to numbers, position in the list, a
        # slice of rows, and the answers.
        rows = np.arange(len(self.where.X))
        return ((numbers, rows[own], found) for numbers, _, own, found in ask([self], None))

    def _at(self, X: np.ndarray) -> Points:
        """Points where each row is at several X, (m, ..., d)."""
        together, training = self.together, self.scale.model.training
        X = X.reshape((-1, X.shape[-1]))
        kept = {n: v for n, v in self.where.inputs.items() if n != "start"}
        rows = np.repeat(np.arange(len(self.where.X)), together)
        inputs = {n: v[rows] for n, v in kept.items()}
        inputs["X"] = X
        if training.tied:
            inputs["Z"] = np.hstack([X, np.ones((len(X), int(training.intercept)))])
        return replace(self.where, inputs=inputs, common={})


@dataclass(frozen=True, eq=False)
class ByChainRule(AtRows):
    """Derivatives at rows, or attributions along paths: slopes of S times slopes of f."""

    degree: int = LEVELS[0]
    order: ClassVar = 1

    @property
    def together(self) -> int:
        """Nodes of a path, or the row itself."""
        return self.degree + 1 if self.latent.total else 1

    @property
    def operators(self) -> tuple[Callable, ...]:
        """Values and gradients of f."""
        model = self.scale.model
        value = questions.value(model, smooth=True)
        return value.operator, questions.derivative(model).operator

    def spread(self) -> Points:
        """All nodes on the path of the first row, then of the second row."""
        if not self.latent.total:
            return self.where
        t, way = chebyshev(self.degree)[:, None], self._way[:, None]
        return self._at(self.where.X[:, None] - (1.0 - t) * way)

    def answers(self, ask: Callable[..., Iterator], count: int, trials: int = TRIALS) -> Answers:
        """As in `AtRows`, each answer with the degree that it needs."""
        # Some of the functions, if any, choose a degree for each row. Then all are evaluated. If
        # attributions still miss their sum, the row of this function is evaluated again with the
        # next degree.
        if not self.latent.total:
            yield from super().answers(ask, count, trials)
            return
        few = np.unique(np.linspace(0, count - 1, trials).round().astype(int))
        parts, largest = [(np.arange(len(self.where.X)), LEVELS[0])], 0.0
        if trials:
            parts, largest = self._parts(ask, few)
        asked, numbers = [self._of(*part) for part in parts], None
        wanted, later = dict[int, np.ndarray](), dict[int, dict]()
        for degree in (None, *LEVELS):
            if degree is not None:  # the first pass, without a degree, is over all rows
                wanted = later.pop(degree, {})
                if not wanted:
                    continue
                numbers = set(wanted)
                parts = [(np.unique(np.concatenate([*wanted.values()])), degree)]
                asked = [self._of(*parts[0])]
            for own_numbers, k, own, found in ask(asked, numbers):
                rows, level = parts[k][0][own], parts[k][1]
                largest = largest if trials else max(largest, np.abs(found[1]).max())
                good = (_missed(*found) <= NEAR * largest) | (level == LEVELS[-1])
                if not trials:  # draws of a row are made again together, or the rough ones go
                    good = np.broadcast_to(good.all(axis=0), good.shape)
                if good.all() and not wanted:
                    yield own_numbers, rows, found
                    continue
                due = np.full(good.shape, True)
                if wanted:
                    due = np.stack([np.isin(rows, wanted[number]) for number in own_numbers])
                for number, again in zip(own_numbers, due & ~good, strict=True):
                    if again.any():
                        following = later.setdefault(LEVELS[LEVELS.index(level) + 1], {})
                        before = following.get(number, rows[:0])
                        following[number] = np.append(before, rows[again])
                patterns, which = np.unique(due & good, axis=0, return_inverse=True)
                for place, use in enumerate(patterns):
                    if use.any():
                        same = which == place
                        yield own_numbers[same], rows[use], [part[same][:, use] for part in found]

    def _of(self, rows: np.ndarray, degree: int) -> ByChainRule:
        """The same of some rows, by polynomials of another degree."""
        return replace(self, where=self.where.take(rows), degree=degree)

    def _parts(
        self, ask: Callable[..., Asking], few: np.ndarray
    ) -> tuple[list[tuple[np.ndarray, int]], float]:
        """Rows with the degree that a few functions or draws need, and the largest difference."""
        left, parts, largest = np.arange(len(self.where.X)), [], 0.0
        for degree in LEVELS:
            missed = np.zeros(len(left))
            for _, _, own, (shares, difference) in ask([self._of(left, degree)], set(few)):
                worst = _missed(shares, difference).max(axis=0)
                missed[own] = np.maximum(missed[own], worst)
                largest = max(largest, np.abs(difference).max())
            done = (missed <= CLOSE * largest) | (degree == LEVELS[-1])
            if done.any():
                parts.append((left[done], degree))
            left = left[~done]
            if not len(left):
                break
        return parts, largest

    def of_functions(self, rows: slice, values: list[np.ndarray]) -> list[np.ndarray]:
        """Slopes of S times slopes of f, at the row or along the path; and the difference."""
        # From values and gradients of f at t points for each of k rows, (F, k t) and (F, k t d).
        # For several classes, each probability varies with every f.
        scale, t = cast(Any, self.scale), self.together
        F = len(values[0])
        if scale.several:
            f = values[0].reshape((-1, t, values[0].shape[-1]))
            gradients = values[1].reshape((*f.shape[:2], -1, f.shape[2]))
            if not self.latent.total:
                shares = np.einsum("mcj,mdj->mcd", scale.slopes(f[:, 0]), gradients[:, 0])
                return [shares.reshape((F, -1, *shares.shape[1:]))]
            across, w = _fine(self.degree, self.degree // 2)
            S = scale.slopes(across @ f).transpose(1, 2, 3, 0)
            inside = np.einsum("fcjm,f,ft->tcjm", S, w, across, optimize=True)
            shares = np.einsum("tcjm,mtdj->mcd", inside, gradients, optimize=True)
            way = self._way[rows][:, None]
        else:
            f = values[0].reshape((-1, t)) + scale.center
            gradients = values[1].reshape((*f.shape, -1))
            if not self.latent.total:
                slopes = (scale.slopes(f)[..., None] * gradients)[:, 0]
                return [slopes.reshape((F, -1, slopes.shape[-1]))]
            across, w = _fine(self.degree, self.degree // 2)
            slope = (w * scale.slopes(f @ across.T)) @ across
            shares = np.einsum("mk,mkd->md", slope, gradients)
            way = self._way[rows]
        ends = scale.values(f[:, [0, -1]])
        shares, ends = (v.reshape((F, -1, *v.shape[1:])) for v in (shares, ends))
        return [way * shares, self._between(ends, rows)]

    def expected(self, mean: Jet, variance: Jet) -> list[np.ndarray]:
        """Means of `of_functions` for normal f: E[dS(f)/dx_d] = m_d E S'(f) + V_d / 2 E S''(f)."""
        # By Stein's identity, from jets at the points of `spread`, on the model's scale; for
        # several classes by quasi-random points. Seitz, "Gradient-based explanations for Gaussian
        # process regression and classification models" (2022), equation 34, with Cov(f_d, f) for
        # its second kernel; its equation 35, the Taylor expansion, with sigma' m_d + V / 2 sigma'''
        # m_d + Cov(f_d, f) sigma'' on its right.
        scale, t = cast(Any, self.scale), self.together
        every = slice(None)
        across, w = _fine(self.degree, scale.panels(self.degree))
        if scale.several:
            found = scale.of_classes(mean, variance)
            slopes = np.stack([cast(np.ndarray, jet.first) for jet in found], axis=1)
            if not self.latent.total:
                return [slopes]
            slopes = slopes.reshape((-1, t, *slopes.shape[1:]))
            shares = self._way[:, None] * np.einsum("k,mkcd->mcd", w @ across, slopes)
            value = np.stack([jet.value for jet in found], axis=1)
            ends = value.reshape(slopes.shape[:3])[:, [0, -1]]
            return [shares, self._between(ends[None], every)[0]]
        m, V = (jet.value.reshape((-1, t)) for jet in (mean, variance))
        m_d = cast(np.ndarray, mean.first).reshape((*m.shape, -1))
        half_V_d = 0.5 * cast(np.ndarray, variance.first).reshape((*m.shape, -1))
        m = m + scale.center
        if not self.latent.total:
            slope, bend = scale.expected_slopes(m, V)
            return [(slope[..., None] * m_d + bend[..., None] * half_V_d)[:, 0]]
        ends = scale.expected(m[:, [0, -1]], V[:, [0, -1]])
        slope, bend = scale.expected_slopes(m @ across.T, V @ across.T)
        shares = np.einsum("mk,mkd->md", (w * slope) @ across, m_d)
        shares += np.einsum("mk,mkd->md", (w * bend) @ across, half_V_d)
        return [self._way * shares, self._between(ends[None], every)[0]]

    def _between(self, ends: np.ndarray, rows: slice) -> np.ndarray:
        """Difference of both ends (F, m, 2[, C]) of paths; exactly 0 for paths of no length."""
        moved = self._way[rows].any(axis=1)
        apart = ends[:, :, 1] - ends[:, :, 0]
        return np.where(moved.reshape((-1, *[1] * (apart.ndim - 2))), apart, 0.0)

    @property
    def _way(self) -> np.ndarray:
        start = self.where.inputs.get("start", self.where.baseline)
        return self.where.X - cast(np.ndarray, start)


@dataclass(frozen=True, eq=False)
class OverBaselines(ByChainRule):
    """Attributions along the paths from several baselines to each row, averaged."""

    # Functions and expectations are asked path by path, which keeps within memory however many
    # baselines there are; joint draws of a row need the nodes of all its paths.

    def answers(self, ask: Callable[..., Iterator], count: int, trials: int = TRIALS) -> Answers:
        """As in `ByChainRule`, where each pair of a row and a baseline is a row of functions."""
        if not trials:
            yield from super().answers(ask, count, trials)
            return
        B, width = self.where.paths, 8 * count * self.latent.width
        for block in batched(range(len(self.where.X)), max(1, LARGEST_AVERAGE // width)):
            rows, total = np.array(block), list[np.ndarray]()
            each = replace(self, where=self.where.take(rows))._each
            for numbers, own, found in each.answers(ask, count):
                shapes = [(count, len(rows), *part.shape[2:]) for part in found]
                total = total or [np.zeros(shape) for shape in shapes]
                for sums, part in zip(total, found, strict=True):
                    np.add.at(sums, (numbers[:, None], own // B), part / B)
            yield np.arange(count), rows, total

    @property
    def together(self) -> int:
        """Nodes of all paths."""
        return self.where.paths * super().together

    @property
    def _each(self) -> ByChainRule:
        """Every path by itself, those to the first row first."""
        starts, m = cast(np.ndarray, self.where.baseline), len(self.where.X)
        pairs = self.where.take(np.repeat(np.arange(m), len(starts)))
        pairs = pairs.having(start=np.tile(starts, (m, 1)))
        return ByChainRule(self.latent, pairs, self.scale, self.degree)

    def spread(self) -> Points:
        """All nodes of the first row, path by path, then of the second row."""
        return self._each.spread()

    def of_functions(self, rows: slice, values: list[np.ndarray]) -> list[np.ndarray]:
        """As in `ByChainRule`, averaged over paths."""
        B = self.where.paths
        found = self._each.of_functions(slice(rows.start * B, rows.stop * B), values)
        return [part.reshape((len(part), -1, B, *part.shape[2:])).mean(axis=2) for part in found]


@dataclass(frozen=True, eq=False)
class BySecondChainRule(ByChainRule):
    """Second derivatives at rows: S'(f) f_de + S''(f) f_d f_e."""

    order: ClassVar = 2

    @property
    def operators(self) -> tuple[Callable, ...]:
        """Values, gradients and Hessians of f."""
        return (*super().operators, self.latent.operator)

    def of_functions(self, rows: slice, values: list[np.ndarray]) -> list[np.ndarray]:
        """From values, gradients and Hessians of f at k rows, (F, k), (F, k d) and (F, k d^2)."""
        scale, (f, gradients, hessians) = cast(Any, self.scale), values
        classes = f.shape[2:]
        f = f.reshape((-1, *classes)) + scale.center
        gradients = gradients.reshape((len(f), -1, *classes))
        hessians = hessians.reshape((len(f), -1, *classes))
        found = scale.second_derivatives(f, gradients, hessians)
        return [found.reshape((len(values[0]), -1, *found.shape[1:]))]

    def expected(self, mean: Jet, variance: Jet) -> list[np.ndarray]:
        """Means of `of_functions` for normal f: second derivatives of E S(f)."""
        found = cast(Any, self.scale).expected_bends(mean, variance)
        return [found.reshape((*found.shape[:-2], -1))]


def by_chain_rule(latent: Question, where: Points, scale: Latent) -> ByChainRule:
    """The chain rule of first or second order, or along the paths from one baseline or several."""
    rule = ByChainRule
    if len(latent.axes) == 2:
        rule = BySecondChainRule
    elif latent.total and np.ndim(cast(np.ndarray, where.baseline)) == 2:
        rule = OverBaselines
    return rule(latent, where, scale)


@dataclass(frozen=True, eq=False)
class AtCoalitions(AtRows):
    """Shapley values as sums of values at coalitions, which `latent` has in its operator."""

    @property
    def among(self) -> Coalitions:
        """The coalitions that are gone through."""
        operator = cast(ShapleyOperator, self.latent.operator)
        return coalitions(operator.players, cast(Orders, operator.orders))

    @property
    def together(self) -> int:
        """A point for each coalition and baseline."""
        return self.latent.points * self.where.paths

    @property
    def operators(self) -> tuple[Callable, ...]:
        """Values of f."""
        return (questions.value(self.scale.model, smooth=True).operator,)

    def spread(self) -> Points:
        """All coalitions of the first row, from each baseline, then of the second row."""
        starts = np.atleast_2d(cast(np.ndarray, self.where.baseline))
        return self._at(np.where(self.among.masks, self.where.X[:, None, None], starts[:, None]))

    def of_functions(self, rows: slice, values: list[np.ndarray]) -> list[np.ndarray]:
        """Shares and differences, from values of f at all points, (F, k s) or (F, k s, C)."""
        (f,) = values
        found = self.scale.values(f.reshape((-1, *f.shape[2:])) + self.scale.center)
        shared = self._shared(self._by_coalition(found))
        return [part.reshape((len(f), -1, *part.shape[1:])) for part in shared]

    def expected(self, mean: Jet, variance: Jet) -> list[np.ndarray]:
        """Means of the results of `of_functions` for normal f."""
        return self._shared(self.expected_values(mean, variance))

    def expected_values(self, mean: Jet, variance: Jet) -> np.ndarray:
        """Expected values (m, [C,] s) of coalitions."""
        return self._by_coalition(self.scale.expected_values(mean, variance))

    def _by_coalition(self, values: np.ndarray) -> np.ndarray:
        """Values (m, [C,] s) of coalitions, averaged over baselines, from all points."""
        by_row = values.reshape((-1, self.where.paths, self.latent.points, *values.shape[1:]))
        return np.moveaxis(by_row.mean(axis=1), 1, -1)

    def _shared(self, of_coalitions: np.ndarray) -> list[np.ndarray]:
        masks = self.among.masks
        none, whole = (np.flatnonzero(end)[0] for end in (~masks.any(axis=1), masks.all(axis=1)))
        shares = of_coalitions @ self.among.shares.T
        return [shares, of_coalitions[..., whole] - of_coalitions[..., none]]


def _missed(shares: np.ndarray, difference: np.ndarray) -> np.ndarray:
    """How far the shares of each row are from adding up, (F, k), for the worst class."""
    apart = np.abs(shares.sum(axis=-1) - difference)
    return apart.reshape((*apart.shape[:2], -1)).max(axis=2)


@lru_cache(maxsize=16)
def _fine(degree: int, panels: int) -> tuple[np.ndarray, np.ndarray]:
    """Matrix from a polynomial's values to its values at nodes of a quadrature, and the weights."""
    t, w = gauss_legendre(16, panels)
    return interpolation(degree, t), w


def expectations(
    model: ModelLike,
    hyper: HyperparameterDraws,
    view: ByChainRule | AtCoalitions,
    progressbar: bool,
    read: Callable[[Any, Jet, Jet], list[np.ndarray]] = lambda part, *jets: part.expected(*jets),
) -> Answers:
    """Yield number of a draw (1,), rows, and what is `read` of normal f there: the means."""

    def ask(parts: Sequence[ByChainRule | AtCoalitions], numbers: Collection[int] | None) -> Asking:
        spread = [part.spread() for part in parts]
        inputs = {n: stacked([s.inputs[n] for s in spread]) for n in spread[0].inputs}
        where = replace(spread[0], inputs=inputs, common={})
        ends = np.cumsum([0, *(len(s.X) for s in spread)])
        chosen = [*range(len(hyper))] if numbers is None else sorted(numbers)
        shown = progressbar and numbers is None
        moments = jets(
            model,
            hyper,
            where,
            view.order,
            smooth=view.scale.smooth,
            only=chosen,
            progressbar=shown,
        )
        for number, (_, theta, mean, variance, _) in zip(chosen, moments, strict=True):
            scale = view.scale.given(theta)
            for k, part in enumerate(parts):
                here = slice(ends[k], ends[k + 1])
                own = [jet.at(here) for jet in (mean, variance)]
                found = read(replace(part, scale=scale), *own)
                yield np.array([number]), k, slice(None), [v[None] for v in found]

    yield from view.answers(ask, len(hyper))


def means(
    model: ModelLike,
    idata: Draws,
    view: ByChainRule | AtCoalitions,
    *,
    num_draws: int | None = None,
    progressbar: bool = True,
) -> list[np.ndarray]:
    """Means over draws of an answer, for f normal given each draw, in user units."""
    # Components (m, c) and their sum (m,) if there is one; for several classes (m, C, c) and (m,
    # C).
    hyper, question = hyperparameter_draws(model, idata, num_draws), view.question
    shape = (len(view.where.X), *model.specification.observation.class_shape)
    totals = [np.zeros((*shape, len(question.factor))), np.zeros(shape)]
    for _, rows, (shares, *between) in expectations(model, hyper, view, progressbar):
        for total, column in zip(totals, [question.mixed(shares, -1), *between], strict=False):
            total[rows] += column[0] / len(hyper)
    if not view.latent.total:
        return [totals[0] * question.factor]
    return [totals[0] * question.factor, totals[1] * question.factor[0]]
