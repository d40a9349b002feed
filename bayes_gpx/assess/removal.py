"""Predictions of observations with some of their features put at the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Column, Draws, Table
from bayes_gpx.data.features import INTERCEPT, Frame
from bayes_gpx.draws.points import points
from bayes_gpx.draws.questions import responds
from bayes_gpx.draws.scales import response_units
from bayes_gpx.explain.predictions import predictions

if TYPE_CHECKING:
    from bayes_gpx.model.model import Model


REMOVABLE = ("attribution", "contribution")
"""Explanations that quantify the loss of a prediction without a feature."""

ASKED: dict[str, Any] = {"keep": "summary", "draws": 2, "seed": 0}
"""Options of predictions; only their means are used."""

ROWS = 20_000
"""Most rows that are predicted at a time."""


class Without:
    """Mean responses of observations with some of their features put at the baseline."""

    def __init__(
        self,
        model: Model,
        idata: Draws,
        dataset: xr.Dataset,
        X_new: Table | None,
        Z_new: Table | None,
        groups_new: Column | None,
        num_draws: int | None,
        progressbar: bool,
    ) -> None:
        name, training = explanation_in(dataset, REMOVABLE), model.training
        weighed = training.p - training.intercept
        Z = None if training.z_is_x else training.Z
        self._of_z = Z is not None and name == "contribution"
        frame = training.X
        if Z is not None and self._of_z:
            training.refuse_sparse("Setting features of contributions to other values")
            frame = Z.first(weighed)
        _refuse_other(model, dataset, frame, name)
        self.features = list(frame.columns)
        chosen = dataset.sel(feature=self.features)
        self.mean = chosen[f"{name}_mean"]
        self._start = chosen[_start(dataset, name)].values
        every = points(model, X_new, Z_new, groups_new=groups_new)
        chosen_rows = dataset["obs"].values
        obs = None if every.index.tolist() == chosen_rows.tolist() else chosen_rows
        where = points(model, X_new, Z_new, groups_new=groups_new, obs=obs)
        own = None if where.Z_values is None else where.Z_values[:, :weighed]
        self._rows = where.X_values
        if own is not None and self._of_z:
            self._rows = own
        if not np.array_equal(self._rows, chosen["value"].transpose("obs", "feature").values):
            raise ValueError(
                "The dataset explains samples with other values. Pass X_new and Z_new as you "
                "passed them to the explanation function, or some of them by labels that do not "
                "repeat."
            )
        self._X, self._Z = where.X_values, None if Z is None else own
        self._groups = None
        if training.groups is not None:
            labels = training.groups.labels if X_new is None else np.asarray(groups_new)
            self._groups = np.asarray(labels)[
                where.inputs["group"] if X_new is None else where.rows
            ]
        self._name = "response_mean" if _of_response(model, dataset) else "f_mean"
        options: dict[str, Any] = ASKED | {"num_draws": num_draws, "progressbar": progressbar}
        self._ask = partial(predictions, model, idata, **options)

    def __call__(self, present: np.ndarray) -> xr.DataArray:
        """Mean responses, (variant, obs[, class]), with only the features in `present` kept."""
        # `present` has shape (variant, 1 or obs, feature).
        some = max(1, ROWS // len(self._rows))
        parts = [self._of(present[k : k + some]) for k in range(0, len(present), some)]
        return xr.concat(parts, "variant")

    def _of(self, present: np.ndarray) -> xr.DataArray:
        changed = np.where(present, self._rows, self._start)
        variants, m, p = changed.shape
        X, Z = (None if v is None else np.tile(v, (variants, 1)) for v in (self._X, self._Z))
        changed = changed.reshape((variants * m, p))
        asked = (X, changed) if self._of_z else (changed, Z)
        groups = None if self._groups is None else np.tile(self._groups, variants)
        found = self._ask(*asked, groups_new=groups)
        mean = found[self._name]
        if "class" in self.mean.coords:
            mean = mean.sel({"class": self.mean["class"]})
        values = mean.values.reshape((variants, m, *mean.shape[1:]))
        coords = {"obs": self.mean["obs"]} | {d: mean[d] for d in mean.dims[1:]}
        return xr.DataArray(values, coords, ("variant", *mean.dims))


def _start(dataset: xr.Dataset, name: str) -> str:
    if name == "contribution":
        return "center"
    return "baseline_value" if "baseline_value" in dataset else "baseline"


def _of_response(model: Model, dataset: xr.Dataset) -> bool:
    """Whether a dataset is of probabilities or rates, not of latent values."""
    return responds(model, "response") and dataset.attrs["units"] == response_units(model)


def _refuse_other(model: Model, dataset: xr.Dataset, frame: Frame, name: str) -> None:
    weight = dataset.attrs.get("weight")
    if dataset.attrs.get("of") == "log_variance" or weight:
        explained = f"the weight of {weight}" if weight else "the log variance"
        raise ValueError(
            f"The dataset explains {explained}, and the metric compares explanations with "
            "changes of the mean response. Pass attributions with of='value'."
        )
    if _start(dataset, name) not in dataset:
        raise ValueError(
            f"The dataset has no baseline (method {dataset.attrs.get('method')!r}), so no feature "
            "can be put there. Pass the result of bx.attributions, or of bx.shapley_values with "
            "another method."
        )
    if frame.levels:
        raise ValueError(
            f"The columns {sorted(frame.levels)} are categorical, and have no value to be put at a "
            "baseline. Use columns of numbers."
        )
    start = dataset[_start(dataset, name)]
    if start.dims != ("feature",):
        raise ValueError(
            f"The dataset has several baselines, {start.dims}. Choose one, for example by "
            "dataset.sel(baseline=...)."
        )
    held = dataset["feature"].values.tolist()
    if set(held) - {INTERCEPT} != set(frame.columns) - {INTERCEPT}:
        raise ValueError(
            f"The dataset is of the features {held}. Pass attributions of all of "
            f"{list(frame.columns)}, and no others."
        )
    if model.specification.family == "GPX" and _of_response(model, dataset):
        raise ValueError(
            "Attributions of a GPX are of its smooth part, but predictions of probabilities and "
            "rates are not. Pass attributions with on='latent'."
        )


def explanation_in(dataset: xr.Dataset, names: Sequence[str]) -> str:
    """Which of the explanations a dataset holds, by observation and with values of features."""
    held = [name for name in names if f"{name}_mean" in dataset]
    if not held or "obs" not in dataset.dims:
        verbs = " or ".join(f"bx.{name}s" for name in names)
        raise ValueError(
            f"The dataset has no {' or '.join(names)} over observations. Pass the result of "
            f"{verbs}, a single observation as dataset.isel(obs=[0])."
        )
    if "value" not in dataset:
        raise ValueError("The dataset has no `value`. Pass Z_new to the explanation function, too.")
    return held[0]
