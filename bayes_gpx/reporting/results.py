"""Results of a report: a fit, its rows, and each explanation function called once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
import xarray as xr

from bayes_gpx.aliases import Column, Draws, Labels, Table
from bayes_gpx.assess.compare import compare, refuse_incomparable
from bayes_gpx.draws.hyperparameter_draws import hyperparameter_draws
from bayes_gpx.draws.intervals import interval_probability
from bayes_gpx.draws.naming import of_mean, origin
from bayes_gpx.draws.points import points, read_baseline, read_observed, rows_labelled
from bayes_gpx.explain import (
    comparisons,
    components,
    contributions,
    interactions,
    loo_predictions,
    partial_dependence,
    predictions,
    ranking,
    relevance,
    slopes,
    weights,
)
from bayes_gpx.explain.components import components_of
from bayes_gpx.explain.imputation import combined
from bayes_gpx.explain.null import replicates
from bayes_gpx.export.arviz import sample_posterior_predictive
from bayes_gpx.export.long_form import equally_weighed
from bayes_gpx.export.tables import ATTRIBUTION_METHODS
from bayes_gpx.kernels.summands import CONSTANT
from bayes_gpx.reporting.fit import Fit

if TYPE_CHECKING:
    from bayes_gpx.data.features import Frame
    from bayes_gpx.model.model import Model


OWN = "this model"
"""Name of the report's model among others."""

MOST_ROWS = 100
"""Rows that averages are taken over, at random where there are more."""

MOST_DRAWS, DRAWS_OF_CURVES = 100, 50
"""Most hyperparameter draws in a report, and of its curves, which need the covariance of thousands
of places for each draw."""

LEFT_OUT_DRAWS = 1000
"""Most hyperparameter draws for leave-one-out predictions."""

LATENT_DRAWS = 1000
"""Conditional draws where there is one draw of the hyperparameters."""

MOST_JOINT = 400
"""Slopes that are drawn jointly: rows times features."""

MOST_CURVES = 6
"""Most features with partial dependence."""

MOST_PAIRED = 12
"""Most features with all pairs; beyond, the pairs of the more relevant half are used."""


STATED = "left_out held_out predicted predicted_chosen attributed contributed_chosen sloped".split()
STATED += ["contrasted", "ranked", "ranked_pairs", "averaged"]
"""Results that sentences state; the file of a report contains them as JSON."""

QUICK_NULL = 150, 10
"""Rows and features up to which the reference for relevance takes half a minute at most."""


class Findings(Fit):
    """Results that the sections of a report share, each computed when first asked for."""

    # `model`, `idata`, `X_new` and `baseline` are as the explanation functions take them,
    # `attribution` one of `bayes_gpx.export.tables.ATTRIBUTION_METHODS`. `y_new` (m,) are responses
    # at the new samples, labels as their codes; `others` further models and their fits by name;
    # `prob` is the probability of all intervals.

    def __init__(
        self,
        model: Model,
        idata: Draws,
        X_new: Table | None,
        Z_new: Table | None,
        *,
        groups_new: Column | None = None,
        y_new: Column | None,
        obs: Labels | None,
        baseline: Any,
        seed: int,
        attribution: str = "integrated_gradients",
        others: dict[str, tuple[Model, xr.DataTree]] | None = None,
        ci_prob: float | None = None,
        null: int | bool | None = None,
    ) -> None:
        self.attribution = attribution
        super().__init__(model, idata)
        self.X_new = X_new
        self._samples: dict[str, Any] = {"X_new": X_new, "Z_new": Z_new, "groups_new": groups_new}
        self._obs, self.baseline, self.seed = obs, baseline, seed
        self.units = model.training.units
        self.others = {} if others is None else others
        if self.others:
            self._refuse_unlike()
        self.prob = interval_probability(ci_prob)
        self._null = null
        self.facts: dict[str, Any] = {}  # numbers of sentences that no result has
        self.where = points(model, **self._samples)
        read_baseline(model, baseline)
        self._y_given = y_new
        self.y_new = None if y_new is None else self._observed(y_new)
        if obs is not None:
            rows_labelled(self.where.index, obs)
        index = self.where.index
        labels, count = np.unique(index, return_counts=True)
        once = np.isin(index, labels[count == 1])
        if not once.any():
            raise ValueError(
                "All labels of the observations repeat. Give at least some observations labels "
                "that do not repeat."
            )
        rows = np.flatnonzero(once)
        if len(rows) > MOST_ROWS:
            rows = np.sort(np.random.default_rng(seed).choice(rows, MOST_ROWS, replace=False))
        self.some = index[rows]

    def _refuse_unlike(self) -> None:
        """Raise unless the other models are of the same rows, response and columns."""
        if not isinstance(self.others, dict) or OWN in self.others:
            raise ValueError(
                f"others is {self.others!r}. Pass a dict of (model, idata) by name, with no name "
                f"{OWN!r}."
            )
        refuse_incomparable(self.models)
        own = _columns(self.model)
        for name, (model, _) in self.others.items():
            if _columns(model) != own:
                raise ValueError(
                    f"others[{name!r}] is a {model.specification.family} of {_columns(model)}. "
                    f"Pass the same kind of model of the same columns, {own}, because explanations "
                    "must have the same features."
                )

    def results(self) -> dict[str, xr.Dataset]:
        """The results that sentences state, as far as they were computed, by name."""
        # Curves and weights at many rows are only drawn and tabulated.
        found = {name: vars(self)[name] for name in STATED if name in vars(self)}
        training = self.model.training
        observed = {"left_out": training.y, "held_out": self.y_new}
        for name in observed.keys() & found.keys():
            y = observed[name]
            y = y if training.labels is None else np.array(training.labels)[y.astype(int)]
            found[name] = found[name].assign_coords(observed=("obs", y))
        if "sloped" in found:
            of_column = dict(zip(training.X.columns, training.moments.sd, strict=True))
            sds = [of_column[name] for name in found["sloped"]["feature"].values]
            found["sloped"] = found["sloped"].assign_coords(training_sd=("feature", sds))
        return found

    @property
    def models(self) -> dict[str, tuple[Model, Any]]:
        """The report's model and the others, with their fits, by name."""
        return {OWN: (self.model, self.idata), **self.others}

    @property
    def unscored(self) -> bool:
        """Whether a fit has a single draw, which importance weights cannot correct."""
        return any(hyperparameter_draws(*fitted).alone for fitted in self.models.values())

    @cached_property
    def compared(self) -> pd.DataFrame:
        """Scores of the models by rows that were left out, and their weights."""
        held_out: dict[str, Any] = self._samples | {"y_new": self._y_given}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of Pareto k, which the frame has
            frame = compare(self.models, **(held_out if self._y_given is not None else {}))
        return frame.assign(weight=frame["weight"].round(3))  # as a reader wants to see them

    @property
    def share_name(self) -> str:
        """What `explained` calls a feature's share."""
        return "contribution" if self.by_place else "attribution"

    @cached_property
    def explained_by_models(self) -> dict[str, xr.Dataset]:
        """What `explained` is of each model, by its name; without draws."""
        options: dict[str, Any] = {
            **self.thinned,
            "obs": self.chosen,
            "keep": "summary",
            "progressbar": False,
        }
        options["ci_prob"] = self.prob
        verb = contributions if self.by_place else ATTRIBUTION_METHODS[self.attribution]
        if not self.by_place:
            options["baseline"] = self.baseline
        return {
            name: of_mean(verb(model, idata, **self._samples, **options))
            for name, (model, idata) in self.models.items()
        }

    @cached_property
    def averaged(self) -> xr.Dataset:
        """The average of these, by the weights of `compared`."""
        weights = None if self.unscored else self.compared["weight"][[*self.models]].tolist()
        return combined(list(self.explained_by_models.values()), weights)

    def _observed(self, y_new: Column) -> np.ndarray:
        """Responses at the new samples, labels as their codes, (m,)."""
        if self.X_new is None:
            raise ValueError("y_new was given without X_new. Pass both, or neither.")
        if self.model.training.censored:
            raise ValueError(
                "y_new was given for a model with censoring=, but a report cannot know which new "
                "responses are bounds. Leave y_new out, and score them with "
                "bx.metrics.concordance and bx.metrics.brier_score."
            )
        exposure = self.model.training.exposure
        if exposure is not None and (exposure != 1.0).any():
            name = self.model.specification.observation.exposure_name
            raise ValueError(
                f"y_new was given for a model with {name}=, but a report has no {name} of new "
                "observations. Leave y_new out, and score them with bx.predictions(..., "
                f"{name}=...) and bx.metrics.coverage."
            )
        labels = self.model.training.labels
        attrs = origin(self.model) | ({} if labels is None else {"labels": [*map(str, labels)]})
        rows = xr.Dataset(coords={"obs": self.where.index}, attrs=attrs)
        return read_observed(rows, y_new).values

    def known_of(self, label: Any) -> Iterator[str]:
        """What was observed in a row and its group, in words; nothing where neither is known."""
        (row, *_), training = np.flatnonzero(self.where.index == label), self.model.training
        y, groups = self.y_new, self._samples["groups_new"]
        if self.X_new is None:
            own = training.groups
            y, groups = training.y, None if own is None else np.array(own.labels)[own.codes]
        if y is not None:
            said = training.labels or getattr(self.model.specification.observation, "names", ())
            value = said[int(y[row])] if said else f"{y[row]:.6g}"
            if self.X_new is None and training.row_data is not None:
                value = training.row_data.bounds_in_words(row, value)
            unit = self.units.get(training.y_name)
            yield f"Observed {training.y_name}: {value}{f' {unit}' if unit else ''}."
        if groups is not None:
            yield f"Group: {np.asarray(groups)[row]}."

    @property
    def how_chosen(self) -> str:
        """A sentence on the observations that are explained."""
        if self._obs is not None:
            return "The observations below were chosen by whoever asked for this report."
        rows, known = len(self.some), len(self.where.index)
        whole = (
            f"{rows} observations"
            if rows == known
            else f"{rows} of {known} observations, drawn at random"
        )
        what = "probability" if self.classes else "prediction"
        lowest = f"The observations below have the lowest, a middle and the highest {what}"
        return f"{lowest} among {whole}."

    @property
    def classes(self) -> bool:
        """Whether the response has more than two labels."""
        return self.model.training.labels is not None and bool(self.model.specification.classes)

    @property
    def second(self) -> str | None:
        """The second of two classes, with the reported probability, as text; else None."""
        labels = self.model.training.labels
        return str(labels[1]) if labels is not None and len(labels) == 2 else None

    @property
    def of_second(self) -> str:
        """A sentence that names this label, after a space; or nothing."""
        return f" Shown is the probability of {self.second}." if self.second else ""

    @property
    def mean_name(self) -> str:
        """What predictions call the mean response."""
        return self.model.specification.observation.reported

    @property
    def thinned(self) -> dict[str, Any]:
        """Most draws of the hyperparameters that verbs are asked for."""
        return {"num_draws": max(MOST_DRAWS, len(self.hyper.chain))}

    @property
    def sampled(self) -> dict[str, Any]:
        """Options of verbs that take draws."""
        return {
            **self.thinned,
            "draws": LATENT_DRAWS,
            "seed": self.seed,
            "ci_prob": self.prob,
            "progressbar": False,
        }

    def unit(self, name: str) -> str:
        """Unit of a column in brackets, or nothing."""
        unit = self.units.get(name, "")
        return f" [{unit}]" if unit else ""

    def _of(self, verb: Callable[..., xr.Dataset], **options: Any) -> xr.Dataset:
        """What a verb says of the samples."""
        return verb(self.model, self.idata, **self._samples, **options)

    @cached_property
    def replicated(self) -> xr.DataTree:
        """Responses replicated at the training rows, and the observed ones."""
        options: dict[str, Any] = {"seed": self.seed, "progressbar": False, **self.thinned}
        return sample_posterior_predictive(self.model, self.idata, joint=False, **options)

    @cached_property
    def left_out(self) -> xr.Dataset:
        """Predictions of the training rows, each from the others."""
        most = max(LEFT_OUT_DRAWS, len(self.hyper.chain))
        options: dict[str, Any] = {"num_draws": most, "seed": self.seed, "progressbar": False}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of Pareto k, told by another section
            return loo_predictions(self.model, self.idata, **options)

    @cached_property
    def replicated_left_out(self) -> np.ndarray:
        """Responses drawn for each row from the others, with equal weights, (draws, obs)."""
        found = equally_weighed(self.left_out, self.seed)["y"]
        return found.stack(sample=["chain", "draw"]).transpose("sample", ...).values

    @cached_property
    def held_out(self) -> xr.Dataset:
        """Predictions of all new rows, to compare with their observed responses."""
        return self._of(predictions, **self.sampled)

    @cached_property
    def predicted(self) -> xr.Dataset:
        """Predictions of the rows that averages are taken over."""
        return self._of(predictions, obs=self.some, **self.sampled)

    @cached_property
    def chosen(self) -> np.ndarray:
        """Labels of the observations that are explained: lowest, middle, highest prediction."""
        if self._obs is not None:
            return np.atleast_1d(self._obs)
        mean = self.predicted["response_mean"]
        if self.classes:
            mean = mean.max("class")
        order = np.argsort(mean.values, kind="stable")
        picked = dict.fromkeys(order[[0, len(order) // 2, -1]].tolist())
        return self.some[list(picked)]

    @cached_property
    def predicted_chosen(self) -> xr.Dataset:
        """Predictions of the observations that are explained."""
        return self._of(predictions, obs=self.chosen, **self.sampled)

    @cached_property
    def attributed(self) -> xr.Dataset:
        """Attributions of the observations that are explained."""
        options = {"baseline": self.baseline, **self.sampled}
        return self._of(ATTRIBUTION_METHODS[self.attribution], obs=self.chosen, **options)

    @property
    def by_place(self) -> bool:
        """Whether features in Z, separate from X, explain predictions, rather than X itself."""
        training = self.model.training
        return training.Z is not None and not training.tied

    @property
    def frame(self) -> Frame:
        """The table of the features that explain predictions: Z if `by_place`, else X."""
        training = self.model.training
        return cast("Frame", training.Z) if self.by_place else training.X

    @property
    def explained(self) -> xr.Dataset:
        """What explains their mean: contributions of Z, or attributions of X."""
        return self.contributed_chosen if self.by_place else of_mean(self.attributed)

    @cached_property
    def contributed_chosen(self) -> xr.Dataset:
        """Contributions in the observations that are explained."""
        return self._of(contributions, obs=self.chosen, **self.sampled)

    @cached_property
    def contributed(self) -> xr.Dataset:
        """Contributions in some rows, of a GPX."""
        return self._of(contributions, obs=self.some, **self.sampled)

    @cached_property
    def weighed(self) -> xr.Dataset:
        """The weight functions of a GPX, in some rows, without the rows' own deviations."""
        return self._of(weights, obs=self.some, smooth=True, **self.sampled)

    def driven(self, name: str) -> xr.Dataset:
        """Attributions of a weight function to the features of X, in some rows; without draws."""
        options = {**self.thinned, "keep": "summary", "progressbar": False, "ci_prob": self.prob}
        options |= {"of": ("weight", name), "baseline": self.baseline, "obs": self.some}
        return self._of(ATTRIBUTION_METHODS[self.attribution], **options)

    @property
    def summed(self) -> bool:
        """Whether f is a sum of several components that vary."""
        specification = self.model.specification
        if specification.family != "GP" or specification.grouped:
            return False
        return sum(part.name != CONSTANT for part in components_of(self.model, 1)[0]) > 1

    @cached_property
    def components(self) -> xr.Dataset:
        """Components of f in some rows; for interactions, the components of two features."""
        order = 2 if self.model.training.d <= MOST_PAIRED else 1
        options = {**self.thinned, "keep": "summary", "progressbar": False, "ci_prob": self.prob}
        return components(self.model, self.idata, self.X_new, order=order, obs=self.some, **options)

    @property
    def numbers(self) -> list[str]:
        """Columns of X that hold numbers, along which there are slopes."""
        frame = self.model.training.X
        return [name for name in frame.sources if name not in frame.levels]

    @cached_property
    def curves(self) -> xr.Dataset:
        """Partial dependence on the most relevant columns, over some rows."""
        features = list(self.model.training.X.sources)
        if len(features) > MOST_CURVES and not self.comparable:
            features = features[:MOST_CURVES]
        elif len(features) > MOST_CURVES:
            order = np.argsort(-self.ranked["average_relevance_mean"].values)[:MOST_CURVES]
            features = self.ranked["feature"].values[order].tolist()
        options = {"seed": self.seed, "progressbar": False, "ci_prob": self.prob}
        options["num_draws"] = max(DRAWS_OF_CURVES, len(self.hyper.chain))
        return self._of(partial_dependence, obs=self.some, features=features, **options)

    @cached_property
    def contrasted(self) -> xr.Dataset:
        """Each number a sd higher, and each level against the first, on average over some rows."""
        found = self._of(comparisons, obs=self.some, by=True, **self.sampled)
        return found.squeeze("by", drop=True)

    @cached_property
    def sloped(self) -> xr.Dataset:
        """Average slopes over some rows."""
        few = max(2, MOST_JOINT // self.model.training.d)
        rows = self.some[:: -(-len(self.some) // few)]
        return self._of(slopes, obs=rows, **self.sampled)

    @property
    def comparable(self) -> bool:
        """Whether predictive distributions have a divergence, which relevance needs."""
        observation = self.model.specification.observation
        if observation.any_shapes:  # by sums over y and f, which take minutes
            return False
        return bool(observation.class_shape or observation.comparable)

    @cached_property
    def replicates(self) -> int:
        """Replicates of the reference for relevance: 19 by default where refits are quick."""
        training = self.model.training
        if self._null is not None:
            return replicates(self._null)
        replaceable = not (training.streamed or self.model.joined)
        rows, features = QUICK_NULL
        few = training.n <= rows and len(training.X.sources) <= features
        return replicates(replaceable and few)

    @cached_property
    def ranked(self) -> xr.Dataset:
        """Features by relevance."""
        options = {**self.thinned, "keep": "summary", "progressbar": False, "seed": self.seed}
        options["null"] = self.replicates or None
        return ranking(self._of(relevance, obs=self.some, **options), ci_prob=self.prob)

    @cached_property
    def ranked_pairs(self) -> xr.Dataset:
        """Pairs of features by interaction."""
        few = len(self.model.training.X.sources) <= MOST_PAIRED
        options = {**self.thinned, "keep": "summary", "progressbar": False, "seed": self.seed}
        options["null"] = self._null  # only where asked for: each refit compiles its density
        pairs = None if few else "screened"
        found = self._of(interactions, obs=self.some, pairs=pairs, **options)
        return ranking(found, ci_prob=self.prob)


def _columns(model: Model) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """What a model explains: the columns of its tables."""
    training = model.training
    return training.X.sources, None if training.Z is None else training.Z.sources
