"""What-if contrasts: the prediction at one value of a variable rather than at another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import batched
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import pytensor.tensor as pt
import xarray as xr

from bayes_gpx.aliases import Column, Draws, Labels, Table, Tensor
from bayes_gpx.data.categorical import as_text
from bayes_gpx.data.dates import days_since, holds_dates, read_date
from bayes_gpx.data.features import Frame
from bayes_gpx.draws import questions
from bayes_gpx.draws.averages import By, by_rows, summed
from bayes_gpx.draws.evaluate import evaluate
from bayes_gpx.draws.intervals import interval_probability
from bayes_gpx.draws.naming import recorded
from bayes_gpx.draws.points import Points, at_other_x, points, refuse_outside, rows_outside
from bayes_gpx.draws.questions import Axis, responds
from bayes_gpx.draws.random_functions import or_else
from bayes_gpx.explain.answered import Of, chosen, documented, has_outputs, of_each_output, of_views
from bayes_gpx.explain.joint_draws import drawn_at, result_of
from bayes_gpx.numerics.sparse_products import rows_at
from bayes_gpx.numerics.threads import on_cores
from bayes_gpx.processes import operators
from bayes_gpx.system.warning import ExtrapolationWarning, warn
from bayes_gpx.validation import one_of

if TYPE_CHECKING:
    from bayes_gpx.data.training import TrainingData
    from bayes_gpx.draws.questions import Question
    from bayes_gpx.model.model import Model
    from bayes_gpx.posteriors.base import Asked

type End = tuple[str, np.ndarray]
"""A value of a variable, as text and as what X's columns hold."""


@recorded
@documented
@of_views
@on_cores
def comparisons(
    model: Model,
    idata: Draws,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    *,
    variables: str | Sequence[str] | Mapping[str, str | Sequence[Any]] | None = None,
    comparison: Literal["difference", "ratio", "lift"] = "difference",
    groups_new: Column | None = None,
    obs: Labels | None = None,
    by: By = None,
    on: Literal["response", "latent"] = "response",
    of: Of = "value",
    at: float | str | Sequence[float | str] | None = None,
    ci_prob: float | None = None,
    draws: int = 1000,
    num_draws: int | None = None,
    covariance: bool = False,
    keep: Literal["draws", "summary"] = "draws",
    cores: int | None = None,
    seed: int | None = None,
    progressbar: bool = True,
) -> xr.Dataset:
    """Compare predictions at two values of a variable, all else being equal.

    A comparison describes the model, not the response after somebody changes the variable.

    Parameters
    ----------
    model : GP or GPX
        In a GPX, predictions are z' g(x), and variables are columns of X. If Z was given, z is
        fixed.
    idata : xarray.DataTree or dict
        A fit, or a dict of fixed hyperparameters on the model's scale.
    X_new, Z_new : frame or array (m, d), (m, p), optional
        Rows in which the variable is changed; None for the training rows.
    variables : str, list of str, or dict, optional
        Names of variables, all by default: numbers and dates rise by their standard deviation in
        the training rows, or between their two values, and levels are compared with the first.

        In a dict, for each variable a value and those to compare it with: ``{"bmi": (30, 25)}``
        gives the prediction at 25 minus the prediction at 30. Dates are text or dates. Or one of:
        "+sd"; "+1" or another step, in days for dates; "iqr", between quartiles; "minmax", between
        the extremes of the training rows; "pairwise", all pairs of levels.
    comparison : {"difference", "ratio", "lift"}
        "lift" is the difference divided by the first prediction.
    by : True, str, list of str, series or frame, optional
        Average over rows, as for `derivatives`.

    Returns
    -------
    xarray.Dataset
        ============================  ==============================  ==========
        variable                      dims                            unit
        ============================  ==============================  ==========
        `comparison`                  chain, draw, obs, contrast      y
        `comparison_mean`, `_sd`      obs, contrast                   y
        `comparison_interval`         obs, contrast, ci_bound         y
        `comparison_cov`              obs, contrast, contrast_bis     y squared
        ============================  ==============================  ==========

        `contrast` is a text such as "bmi 30 → 25" or "bmi +1 sd"; its parts are the coordinates
        `variable`, `low` and `high`. With `by`, the dim `by` replaces `obs`. Ratios and lifts have
        no unit. Draws are joint over contrasts and rows. Means, sds and intervals are exact for
        differences of f, and those of the draws for ratios, lifts, probabilities and rates.

    Raises
    ------
    ValueError
        For unknown variables or levels, values that are not finite, too many rows and contrasts to
        draw jointly, and rows or idata that do not fit the model.

    Warns
    -----
    ExtrapolationWarning
        If the values of a comparison lie far outside of the training data.

    References
    ----------
    Arel-Bundock, Greifer and Heiss, "How to interpret statistical models using marginaleffects for
    R and Python" (2024).

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.linspace(0.0, 3.0, 20)[:, None]
    >>> model = bx.GP(X, X[:, 0] ** 2, scale=False)
    >>> theta = {"lengthscale": [2.0], "amplitude": 5.0, "sigma": 0.01}
    >>> found = bx.comparisons(model, theta, variables={"x0": (1.0, 2.0)}, by=True, seed=1)
    >>> round(found["comparison_mean"].item(), 2), found["contrast"].item()
    (3.0, 'x0 1 → 2')
    """
    if has_outputs(model, idata):
        return of_each_output(comparisons, locals())
    options = chosen(locals())
    one_of("comparison", comparison, COMPARISONS)
    contrasts = read_contrasts(model.training, variables)
    where = points(model, X_new, Z_new, groups_new=groups_new, obs=obs)
    for contrast in contrasts:
        for end in (0, 1):
            moved = contrast.at(where.X_values, end)
            refuse_outside(model, moved, f"variables, {contrast.label}")
            told = rows_outside(model, replace(where, X_values=moved))
            if told is not None:
                warn(f"{contrast.label}: {told}", ExtrapolationWarning)
    one_of("keep", keep, ("draws", "summary"))
    where = by_rows(model, where, by)
    options["ci_prob"] = prob = interval_probability(ci_prob)
    options.pop("on", None)
    if responds(model, on) or comparison != "difference":
        with or_else("Comparisons of the response", "or pass on='latent'"):
            found = _by_draws(model, idata, where, contrasts, on, comparison, **options)
    else:
        quantity, where = of_contrasts(model, where, contrasts)
        found = evaluate(model, idata, quantity, where, on="latent", joint=True, **options)
    named = {part: ("contrast", [getattr(c, part) for c in contrasts]) for part in PARTS}
    return found.assign_coords(named).assign_attrs(comparison=comparison)


COMPARISONS = {
    "difference": lambda low, high: high - low,
    "ratio": lambda low, high: high / low,
    "lift": lambda low, high: high / low - 1.0,
}
"""How two predictions are compared, by name."""

PARTS = ("variable", "low", "high")
"""Coordinates that describe a contrast."""


@dataclass(frozen=True, eq=False)
class _Contrast:
    """Two values of a variable as texts, and X's columns at each, in user units (2, columns).

    With `moves` these are steps, which are added to the value that a row has.
    """

    variable: str
    low: str
    high: str
    columns: np.ndarray
    ends: np.ndarray
    moves: bool = False

    @property
    def label(self) -> str:
        if self.moves:
            return f"{self.variable} {self.high}"
        return f"{self.variable} {self.low} → {self.high}"

    def at(self, X: np.ndarray, end: int) -> np.ndarray:
        """Rows with the variable at its first or second value."""
        moved = X.copy()
        moved[:, self.columns] = self.ends[end] + (moved[:, self.columns] if self.moves else 0.0)
        return moved


def read_contrasts(training: TrainingData, variables: Any) -> list[_Contrast]:
    """Every contrast that is asked for."""
    frame = training.X
    if variables is None:
        variables = frame.sources
    names = [variables] if isinstance(variables, str) else variables
    if not isinstance(names, Mapping):
        names = dict.fromkeys(names, "")
    if not names:
        raise ValueError(
            f"variables is {variables!r}. Pass a name, or a dict of two values for each variable, "
            f"such as {{{frame.sources[0]!r}: (first, second)}}."
        )
    found = []
    for name, given in names.items():
        one_of("variables", name, frame.sources)
        columns = np.flatnonzero(np.isin(frame.columns, frame.of_source(name)))
        if isinstance(given, str):
            found += _by_word(training, name, given, columns)
        elif np.ndim(given) != 1 or len(given) < 2:
            raise ValueError(
                f"variables: {name!r} has {given!r}. Pass two values, the second to be compared "
                f"with the first, or one of {[*WORDS, '+1', 'pairwise']}."
            )
        else:
            first, *others = (_end(frame, name, value) for value in given)
            found += [_pair(name, first, other, columns) for other in others]
    return found


def _pair(name: str, first: End, second: End, columns: np.ndarray) -> _Contrast:
    """The contrast of two values, each as text and as what X's columns hold."""
    return _Contrast(name, first[0], second[0], columns, np.array([first[1], second[1]]))


WORDS = {
    "+sd": lambda training, j: [training.moments.sd[j]],
    "iqr": lambda training, j: np.quantile(training.X.values[:, j], [0.25, 0.75]),
    "minmax": lambda training, j: [training.moments.low[j], training.moments.high[j]],
}
"""A step, or two values of a column in the training rows, by their name."""


def _by_word(training: TrainingData, name: str, word: str, columns: np.ndarray) -> list[_Contrast]:
    """Contrasts by a word; "" is the default: an sd, the other value, or levels and the first."""
    frame, where = training.X, f"variables: {name!r} has {word!r}"
    if name in frame.levels:
        levels = [_end(frame, name, level) for level in frame.levels[name]]
        if word not in ("", "pairwise"):
            raise ValueError(f"{where}, but is a category. Pass 'pairwise', or two of its levels.")
        firsts = levels if word else levels[:1]
        return [
            _pair(name, first, other, columns)
            for k, first in enumerate(firsts)
            for other in levels[k + 1 :]
        ]
    if not word:
        word = "minmax" if _of_two_values(training, columns[0]) else "+sd"
    if word in WORDS:
        ends = WORDS[word](training, columns[0])
    else:
        try:
            ends = [float(word)] if word[:1] in "+-" else []
        except ValueError:
            ends = []
    if not len(ends) or not np.isfinite(ends).all():
        raise ValueError(f"{where}. Pass one of {list(WORDS)}, a step such as '+1', or two values.")
    if len(ends) == 2:
        low, high = ((_said(frame, name, end), np.array([end])) for end in ends)
        return [_pair(name, low, high, columns)]
    said = "+1 sd" if word == "+sd" else word
    return [_Contrast(name, "", said, columns, np.array([[0.0], [ends[0]]]), moves=True)]


def _of_two_values(training: TrainingData, column: int) -> bool:
    # Of out-of-core rows there is a sample, or the medians alone after `bx.load`.
    return not training.streamed and len(np.unique(training.X.values[:, column])) == 2


def switched(training: TrainingData) -> list[str]:
    """Columns that contrasts take from one value to another by default, and not by an sd."""
    frame = training.X
    columns = zip(frame.sources, np.unique(frame.groups, return_index=True)[1], strict=True)
    return [n for n, first in columns if n in frame.levels or _of_two_values(training, first)]


def _said(frame: Frame, name: str, number: float) -> str:
    """A number of a column as text; a whole day as its date."""
    if name in frame.origins and float(number).is_integer():
        return str(frame.origins[name] + np.timedelta64(int(number), "D"))
    return repr(float(number)).removesuffix(".0")


def _end(frame: Frame, name: str, value: Any) -> End:
    """A value as text, and as what X's columns hold."""
    if name in frame.levels:
        text = str(value) if str(value) in frame.levels[name] else as_text(value)
        one_of(f"variables, levels of {name!r}", text, frame.levels[name])
        return text, np.eye(len(frame.levels[name]))[frame.levels[name].index(text)]
    where, dated = f"variables: {name!r}", name in frame.origins
    if dated and (date := read_date(value, where)) is not None:
        return str(date), days_since([date], frame.origins[name])
    try:
        number = np.nan if holds_dates([value]) else float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        wanted = (
            "date, such as '2011-03-01', or a finite number of days" if dated else "finite number"
        )
        raise ValueError(f"{where} has {value!r}. Pass a {wanted}.")
    whole = isinstance(value, int | np.integer)
    return str(int(number)) if whole else repr(number).removesuffix(".0"), np.array([number])


@dataclass(frozen=True)
class _Changes:
    """Differences of f between rows with some columns at one value and at another.

    `pairs` are numbers of ends, of which `baseline` holds two rows: 1 for columns that are replaced
    rather than moved, and the values.
    """

    tied: bool
    pairs: tuple[tuple[int, int], ...]

    def __call__(self, asked: Asked) -> operators.Operator:
        # All rows at all ends are points of one operator: a graph of few nodes, for any contrasts.
        x, ends = asked["X"], max(map(max, self.pairs)) + 1
        d = x.type.shape[1]
        given = asked["baseline"].reshape((-1, 2, 1, d))
        X, rows = x * (1.0 - given[:, 0]) + given[:, 1], pt.tile(pt.arange(x.shape[0]), ends)
        beside = {n: rows_at(asked[n], rows) for n in ("Z", "group") if asked[n] is not None}
        moved = asked.at(X=X.reshape((-1, d)), **beside)
        Z = moved.Z_along if self.tied else moved["Z"]
        values = operators.evaluate(moved.points, Z, smooth=True)
        return operators.Combination((values,), self._combined)

    def _combined(self, values: Tensor) -> Tensor:
        low, high = map(list, zip(*self.pairs, strict=True))
        ends = values.reshape((max(*low, *high) + 1, -1, values.shape[1]))
        apart = (ends[high] - ends[low]).transpose(1, 0, 2)
        # Obs-major: (m, contrasts, k) flattened in its first two axes.
        return apart.reshape((-1, values.shape[1]))


def of_contrasts(
    model: Model, where: Points, contrasts: list[_Contrast]
) -> tuple[Question, Points]:
    """Contrasts of f, as a question, and the points that it is asked at."""
    training, rows = model.training, []
    for contrast in contrasts:
        own = np.isin(np.arange(training.d), contrast.columns)
        center = training.X_scaling.center if contrast.moves else 0.0
        for end in (0, 1):
            at = contrast.at(np.full((1, training.d), center), end)
            scaled = own * training.X_scaling.apply(at)[0]
            rows.append([own & (not contrast.moves), scaled])
    # Contrasts share ends, such as the rows as they are.
    ends, number = np.unique(np.array(rows, float), axis=0, return_inverse=True)
    quantity = replace(
        questions.value(model, smooth=True),
        name="comparison",
        operator=_Changes(training.tied, tuple(cast(Any, batched(number.ravel().tolist(), 2)))),
        axes=(Axis("contrast", tuple(contrast.label for contrast in contrasts)),),
        table=None,
        factor=np.full(len(contrasts), training.f_scaling.scale),
        offset=0.0,
    )
    asked = where.having(positions=None)
    ends = ends.reshape((-1, training.d))
    return quantity, replace(asked, common=asked.common | {"baseline": ends})


def _by_draws(
    model: Model,
    idata: Draws,
    where: Points,
    contrasts: list[_Contrast],
    on: str,
    comparison: str,
    *,
    covariance: bool = False,
    keep: str = "draws",
    ci_prob: float,
    **shown: Any,
) -> xr.Dataset:
    """Contrasts of the mean response, on draws that are joint over rows."""
    ends = [contrast.at(where.X_values, end) for contrast in contrasts for end in (0, 1)]
    moved = np.stack(ends, axis=1).reshape((-1, where.X_values.shape[1]))
    there = at_other_x(model, where, moved, np.repeat(np.arange(len(where.X)), len(ends)))
    labels = [contrast.label for contrast in contrasts]
    dims: dict[str, Any] = {"obs": where.index, "contrast": labels, "end": [0, 1]}
    drawn = drawn_at(model, idata, there, on, dims, **shown)
    apart = COMPARISONS[comparison](*(drawn.sel(end=end, drop=True) for end in (0, 1)))
    apart = apart if where.by is None else summed(apart, where.by)
    found = result_of(model, on, "comparison", apart, covariance, keep, ci_prob)
    return found if comparison == "difference" else found.assign_attrs(units=comparison)
