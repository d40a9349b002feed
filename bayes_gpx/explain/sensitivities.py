"""How predictive distributions change with features: derivatives, and contrasts of levels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations
from numbers import Real
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Draws
from bayes_gpx.draws.averages import counts_of_rows
from bayes_gpx.draws.evaluate import jets
from bayes_gpx.draws.hyperparameter_draws import hyperparameter_draws
from bayes_gpx.draws.level_moves import at_levels, contrast_weights, level_deviation, own_levels
from bayes_gpx.draws.naming import origin, units_of, values_by_source
from bayes_gpx.draws.points import Points
from bayes_gpx.draws.questions import refuse_weight
from bayes_gpx.likelihoods.predictive import Information, Predictive
from bayes_gpx.numerics.jets import Jet
from bayes_gpx.validation import one_of

if TYPE_CHECKING:
    from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws
    from bayes_gpx.model.model import Model

STEP = 1e-4
"""Default step of finite differences, in standard deviations of the feature."""

PAIRED = ("obs", "feature", "feature_bis")
"""Dims of interactions; the second feature of a pair has a separate dim."""

type Numbers = Callable[[Any, Predictive], np.ndarray]
"""From a likelihood and predictions to the numbers of some features, or of some pairs."""


@dataclass(frozen=True)
class Picked:
    """Some of the user's columns of X: their names, and the positions of numbers and levels."""

    # `places` and `columns` are the positions of numerical columns among the names and among X's
    # columns; `levels` maps a categorical name to its position among the names.

    names: list[str]
    places: np.ndarray
    columns: np.ndarray
    levels: dict[str, int]

    @classmethod
    def of(cls, frame: Any, names: Sequence[str]) -> Picked:
        """Find columns of a Frame by name."""
        places = [k for k, name in enumerate(names) if name not in frame.levels]
        columns = [frame.columns.index(names[k]) for k in places]
        levels = {name: k for k, name in enumerate(names) if name in frame.levels}
        return cls(list(names), np.array(places, int), np.array(columns, int), levels)

    def placed(self, numbers: np.ndarray, *at: Any) -> np.ndarray:
        """Numbers (m, ...) at places among all names, one index for each axis; NaN elsewhere."""
        full = np.full((len(numbers), *[len(self.names)] * len(at)), np.nan)
        full[:, *np.ix_(*map(np.atleast_1d, at))] = numbers
        return full


@dataclass(frozen=True, eq=False)
class Measure:
    """Numbers for some of the picked features, or for some pairs of them."""

    # `where` are the points at which predictions are needed, and `order` is the number of their
    # derivatives. `numbers` are (m, picked) or (m, picked, picked) on the model's scale, NaN for
    # entries that another measure computes.

    where: Points
    order: int
    numbers: Numbers


def first_derivatives(where: Points, picked: Picked) -> Measure:
    """KL-diff of columns of numbers."""

    def numbers(likelihood: Any, found: Predictive) -> np.ndarray:
        first = change(likelihood.parameters(found))[0]
        return picked.placed(first[:, picked.columns], picked.places)

    return Measure(where, 1, numbers)


def second_derivatives(where: Points, picked: Picked, factor: float) -> Measure:
    """KL-diff^2 of pairs of columns of numbers."""

    def numbers(likelihood: Any, found: Predictive) -> np.ndarray:
        second = cast(np.ndarray, change(likelihood.parameters(found), factor)[1])
        own = second[:, picked.columns[:, None], picked.columns]
        return picked.placed(own, picked.places, picked.places)

    return Measure(where, 2, numbers)


def differences(model: Model, where: Points, picked: Picked, step: float) -> Measure:
    """KL-diff of columns of numbers by finite differences: how far a step moves the prediction."""
    if isinstance(step, bool) or not (isinstance(step, Real) and 0 < step < np.inf):
        raise ValueError(f"step is {step!r}. Pass a positive number.")
    m, count = len(where.X), len(picked.columns)
    sd = (model.training.X_deviations / model.training.X_scaling.scale)[picked.columns]
    steps = step * np.where(sd > 0, sd, 1.0)
    moves = np.zeros((count + 1, model.training.d))
    moves[np.arange(1, count + 1), picked.columns] = steps
    X = (where.X + moves[:, None]).reshape((-1, model.training.d))

    def numbers(likelihood: Any, found: Predictive) -> np.ndarray:
        here, *there = (found.at(slice(k * m, (k + 1) * m)) for k in range(count + 1))
        return picked.placed(_apart(likelihood, here, there).T / steps, picked.places)

    rows = np.tile(np.arange(m), count + 1)
    return Measure(where.take(rows).having(X=X), 0, numbers)


def contrasts(model: Model, where: Points, picked: Picked, column: str) -> Measure:
    """KL-diff of a categorical column: root mean square over its other levels."""
    m, weights = len(where.X), contrast_weights(model, where, column)
    own, rows = own_levels(model, where, column), np.arange(m)

    def numbers(likelihood: Any, found: Predictive) -> np.ndarray:
        here = found.at(own * m + rows)
        there = [found.at(slice(k * m, (k + 1) * m)) for k in range(len(weights))]
        square = _apart(likelihood, here, there) ** 2
        mean = (weights * square).sum(axis=0)
        return picked.placed(np.sqrt(mean)[:, None], picked.levels[column])

    return Measure(at_levels(model, where, [column]), 0, numbers)


def contrasts_of_derivatives(
    model: Model, where: Points, picked: Picked, column: str, factor: float
) -> Measure:
    """KL-diff^2 of a categorical column with each column of numbers."""
    m, weights = len(where.X), contrast_weights(model, where, column)
    own, rows, at = own_levels(model, where, column), np.arange(m), picked.levels[column]

    def numbers(likelihood: Any, found: Predictive) -> np.ndarray:
        square = np.zeros((m, len(picked.columns)))
        for *both, information in likelihood.parameters(found):
            firsts = (jet.first[:, picked.columns] for jet in both)
            firsts = (first.reshape((-1, m, len(picked.columns))) for first in firsts)
            known = information.reshape((-1, m))[own, rows]
            apart = (first - first[own, rows] for first in firsts)
            square += known[:, None] * np.einsum("lmk,lmk,lm->mk", *apart, weights)
        paired = _root(factor * square)[:, None]
        return _symmetric(picked.placed(paired, at, picked.places))

    return Measure(at_levels(model, where, [column]), 1, numbers)


def contrasts_of_contrasts(
    model: Model, where: Points, picked: Picked, columns: Sequence[str], factor: float
) -> Measure:
    """KL-diff^2 of two categorical columns."""
    m, rows = len(where.X), np.arange(len(where.X))
    weights = [contrast_weights(model, where, column) for column in columns]
    one, other = (own_levels(model, where, column) for column in columns)
    sizes, at = [len(w) for w in weights], [picked.levels[column] for column in columns]

    def numbers(likelihood: Any, found: Predictive) -> np.ndarray:
        square = np.zeros(m)
        for *both, information in likelihood.parameters(found):
            *values, known = (
                v.reshape((*sizes, m)) for v in (*(jet.value for jet in both), information)
            )
            apart = (
                value
                - value[one, :, rows].T
                - value[:, other, rows][:, None]
                + value[one, other, rows]
                for value in values
            )
            mean = np.einsum("abm,abm,am,bm->m", *apart, *weights)
            square += known[one, other, rows] * mean
        return _symmetric(picked.placed(_root(factor * square)[:, None, None], *at))

    return Measure(at_levels(model, where, columns), 0, numbers)


def of_pairs(
    model: Model, where: Points, picked: Picked, asked: np.ndarray, factor: float
) -> list[Measure]:
    """KL-diff^2 of all pairs that are asked for, a symmetric array (picked, picked) of truths."""
    numbers, found = picked.places, []
    if asked[numbers[:, None], numbers].any():
        found.append(second_derivatives(where, picked, factor))
    for column, at in picked.levels.items():
        if asked[at, numbers].any():
            found.append(contrasts_of_derivatives(model, where, picked, column, factor))
    for columns in combinations(picked.levels, 2):
        if asked[tuple(picked.levels[column] for column in columns)]:
            found.append(contrasts_of_contrasts(model, where, picked, columns, factor))
    return [replace(one, numbers=_only(asked, one.numbers)) for one in found]


def _only(asked: np.ndarray, numbers: Numbers) -> Numbers:
    """The same numbers, NaN where they are not asked for."""
    return lambda likelihood, found: np.where(asked, numbers(likelihood, found), np.nan)


def _apart(likelihood: Any, here: Predictive, there: Sequence[Predictive]) -> np.ndarray:
    """Root of twice the divergence from one prediction to each of several others, (others, m)."""
    divergences = np.stack([likelihood.divergence(here, other) for other in there])
    return np.sqrt(2.0 * np.maximum(divergences, 0.0))


def _symmetric(pairs: np.ndarray) -> np.ndarray:
    """Fill in pairs (m, k, k) that are NaN in one of their two orders."""
    return np.fmax(pairs, pairs.transpose((0, 2, 1)))


def measured(
    model: Model,
    idata: Draws,
    where: Points,
    name: str,
    picked: Picked,
    measures: Sequence[Measure],
    *,
    over: str,
    num_draws: int | None,
    keep: str,
    progressbar: bool,
) -> xr.Dataset:
    """Evaluate all measures at every draw, or for the mixture of draws, and name the results."""
    refuse_weight(model, "relevance and interactions")
    one_of("over", over, ("draws", "mixture"))
    one_of("keep", keep, ("draws", "summary"))
    hyper = hyperparameter_draws(model, idata, num_draws)
    asked = [
        _asked(model, hyper, where, name, picked, measure, over, keep, progressbar)
        for measure in measures
    ]
    found = reduce(xr.Dataset.fillna, asked)
    if over == "draws":
        found = found.assign_coords(chain=hyper.chain, draw=hyper.draw)
    found = found.assign_coords(obs=where.index)
    largest = max(one.attrs.pop("relative_jitter") for one in asked)
    attrs = {"over": over, "relative_jitter": largest, "samples": "new samples"}
    found.attrs.update(origin(model) | attrs)
    return found


def _asked(
    model: Model,
    hyper: HyperparameterDraws,
    where: Points,
    name: str,
    picked: Picked,
    measure: Measure,
    over: str,
    keep: str,
    progressbar: bool,
) -> xr.Dataset:
    likelihood, kept = model.specification.observation, _Kept(model, name, picked, where)
    mixture, largest = PredictiveMixture(), 0.0
    center = 0.0 if model.training.scales_y else model.training.y_scaling.center
    noise = _typical_noise(model)
    if over == "draws":
        kept.open((len(hyper.chain), len(hyper.draw)), keep)
    for at, theta, mean, variance, jitter in jets(
        model, hyper, measure.where, measure.order, progressbar=progressbar
    ):
        predicted = likelihood.predictive(mean.shifted(center), variance, {**theta, **noise})
        largest = max(largest, jitter)
        if over == "mixture":
            mixture.add(predicted)
        else:
            kept.add(at, measure.numbers(likelihood, predicted))
    if over == "mixture":
        found = kept.of_one(measure.numbers(likelihood, mixture.predictive()))
    else:
        found = kept.dataset()
    found.attrs["relative_jitter"] = largest
    return found


def _typical_noise(model: Model) -> dict[str, Any]:
    """With `noise_sd`, one noise sd for all rows: the root of the training rows' mean variance."""
    if model.specification.observation.exposure_name != "noise_sd":
        return {}
    training = model.training
    if not training.stored:
        raise ValueError(
            "Relevance takes the mean variance of the training rows' noise_sd, and a model of "
            "out-of-core data that was loaded has none of these rows. Compute it before bx.save."
        )
    each = cast(np.ndarray, training.scaled_exposure) ** 2  # of many out-of-core rows a sample
    weights = None if training.row_data is None else training.row_data.weights
    return {"noise_sd": np.sqrt(np.average(each, weights=weights))}


class _Kept:
    """What is kept of a measure's numbers, in user units and scaled: draws, means and sds."""

    def __init__(self, model: Model, name: str, picked: Picked, where: Points) -> None:
        self._name = name
        self._dims = ("obs", "feature") if name == "relevance" else PAIRED
        self._coords: dict[str, Any] = dict.fromkeys(self._dims[1:], picked.names)
        if name == "relevance":
            self._coords |= units_of(model.training, model.training.X, picked.names)
        self._of = "the feature" if name == "relevance" else "both features"
        self._attrs = {"units": f"per unit of {self._of}"}
        self._value = values_by_source(model.training.X, where.X_values, picked.names)
        self._counted = counts_of_rows(model, where)
        self._shape = (len(where.X), *[len(picked.names)] * (len(self._dims) - 1))
        per_unit, deviations = np.ones((2, len(picked.names)))
        per_unit[picked.places] = 1.0 / model.training.X_scaling.scale[picked.columns]
        deviations[picked.places] = model.training.X_deviations[picked.columns]
        for column, place in picked.levels.items():
            deviations[place] = level_deviation(model, column)
        scales = [per_unit, deviations * per_unit]
        if len(self._shape) == 3:
            scales = [np.multiply.outer(scale, scale) for scale in scales]
        self._scales = dict(zip((name, f"{name}_scaled"), scales, strict=True))

    def open(self, lead: tuple[int, int], keep: str) -> None:
        """Allocate arrays for draws; a mixture has none."""
        self._stores = {}
        if keep == "draws":
            self._stores = {name: np.empty((*lead, *self._shape)) for name in self._scales}
        self._average = np.empty((*lead, *self._shape[1:]))
        self._count, self._sums = 0, {name: np.zeros((2, *self._shape)) for name in self._scales}

    def _scaled(self, numbers: np.ndarray) -> dict[str, np.ndarray]:
        return {name: numbers * scale for name, scale in self._scales.items()}

    def add(self, at: tuple[int, int], numbers: np.ndarray) -> None:
        """Keep one draw's numbers (m, picked) or (m, picked, picked)."""
        self._count += 1
        for name, array in self._scaled(numbers).items():
            mean, squares = self._sums[name]
            shift = array - mean
            mean += shift / self._count
            squares += shift * (array - mean)
            if name in self._stores:
                self._stores[name][at] = array
        self._average[at] = np.average(array, axis=0, weights=self._counted)

    def dataset(self) -> xr.Dataset:
        """Draws, their means and standard deviations, and averages over observations."""
        variables = {
            name: (("chain", "draw", *self._dims), array) for name, array in self._stores.items()
        }
        known = 1.0 if np.prod(self._average.shape[:2]) > 1 else np.nan  # one draw has no spread
        for name, (mean, squares) in self._sums.items():
            variables[f"{name}_mean"] = self._dims, mean
            variables[f"{name}_sd"] = self._dims, known * np.sqrt(squares / self._count)
        variables[f"average_{self._name}"] = ("chain", "draw", *self._dims[1:]), self._average
        return self._named(variables)

    def of_one(self, numbers: np.ndarray) -> xr.Dataset:
        """The Dataset of one distribution, such as a mixture, which has no draws."""
        scaled = self._scaled(numbers)
        variables = {name: (self._dims, array) for name, array in scaled.items()}
        average = np.average(scaled[f"{self._name}_scaled"], axis=0, weights=self._counted)
        return self._named(variables | {f"average_{self._name}": (self._dims[1:], average)})

    def _named(self, variables: dict[str, Any]) -> xr.Dataset:
        named = xr.Dataset(variables | self._value, self._coords, self._attrs)
        named = named.set_coords("level") if "level" in named else named
        for name in named:
            if str(name).startswith((f"{self._name}_scaled", "average_")):
                named[name].attrs["units"] = f"per standard deviation of {self._of}"
        return named


class PredictiveMixture:
    """A new sample's y under the mixture over draws, within the family of each draw's."""

    # Means and probabilities are averaged, which for labels is the mixture itself. A squared scale
    # follows the law of total variance, differentiated: with M the mean of the draws' means m, V is
    # the mean of V + (m - M)^2, and its derivatives follow from covariances between m, m_d and m_de
    # over draws. The excess, 1 / nu or 1 / dispersion, is averaged.

    def __init__(self) -> None:
        self._count, self._excess = 0, 0.0
        self._means: list[list[np.ndarray]] = []
        self._within: list[np.ndarray] = []
        self._between: list[np.ndarray] = []

    def add(self, found: Predictive) -> None:
        """Add one draw's `Predictive`."""
        jets = [[part for part in jet if part is not None] for jet in found.means]
        if not self._count:
            self._means = [[np.zeros_like(part) for part in jet] for jet in jets]
            spread = [] if found.variance is None else self._means[0]
            self._within, self._between = ([0.0 * part for part in spread] for _ in range(2))
        self._count += 1
        self._excess += (found.excess - self._excess) / self._count
        shifts = []
        for jet, means in zip(jets, self._means, strict=True):
            shifts.append([part - old for part, old in zip(jet, means, strict=True)])
            for old, shift in zip(means, shifts[-1], strict=True):
                old += shift / self._count
        if found.variance is not None:
            self._spread(jets[0], found.variance, shifts[0])

    def _spread(
        self, mean: Sequence[np.ndarray], variance: Jet, shift: Sequence[np.ndarray]
    ) -> None:
        """Add one draw to V + (m - M)^2 and its derivatives, by Welford's update."""
        # In each product one factor is a deviation from the old mean, `shift`, and one from the
        # new.
        left = mean[0] - self._means[0][0]
        parts = zip(self._within, variance, self._between, shift, (1.0, 2.0, 2.0), strict=False)
        for within, part, between, step, factor in parts:
            within += part
            between += factor * left.reshape((-1, *[1] * (step.ndim - 1))) * step
        if len(shift) > 2:
            rest = mean[1] - self._means[0][1]
            self._between[2] += 2.0 * shift[1][:, :, None] * rest[:, None]

    def predictive(self) -> Predictive:
        """The mixture, as a `Predictive`."""
        spread = [(w + b) / self._count for w, b in zip(self._within, self._between, strict=True)]
        means = tuple(Jet(*jet) for jet in self._means)
        return Predictive(means, Jet(*spread) if spread else None, self._excess)


def change(
    parameters: Sequence[Information], factor: float = 1.0
) -> tuple[np.ndarray, np.ndarray | None]:
    """KL-diff sqrt(sum I_kl theta_k,d theta_l,d), and KL-diff^2 with theta_,de and a factor."""
    # For parameters theta_k with Fisher information I_kl, KL from p(x) to p(x + t e_d) is t^2 / 2
    # sum_kl I_kl theta_k,d theta_l,d to second order. The second, (m, d, d), is None without
    # second derivatives. See Paananen, Andersen and Vehtari, "Uncertainty-aware sensitivity
    # analysis using Renyi divergences" (2021), equations 2 and 3; the supplement has the latter
    # with a factor of 1.
    first = sum(known[:, None] * a.first * b.first for a, b, known in parameters)
    if any(jet.second is None for jet, _, _ in parameters):
        return _root(first), None
    second = sum(known[:, None, None] * a.second * b.second for a, b, known in parameters)
    return _root(first), _root(factor * second)


def _root(square: np.ndarray) -> np.ndarray:
    """Square root of a sum that is not negative but for rounding."""
    return np.sqrt(np.maximum(square, 0.0))
