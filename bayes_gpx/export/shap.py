"""Attributions as shap's own type."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Labels
from bayes_gpx.draws.naming import units_of_result
from bayes_gpx.plots.selection import ONE_UNIT, at_baseline, shown


def to_shap(
    dataset: xr.Dataset,
    *,
    predictions: xr.Dataset | None = None,
    obs: Labels | None = None,
    ci_prob: float | None = None,
) -> Any:
    """Convert attributions or contributions for the plots of the shap package.

    shap adds one number for each feature of a row to a base value. The numbers are posterior means,
    with the ends of their intervals as bounds.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.attributions` or `bayes_gpx.contributions`, with or without draws,
        for all features.
    predictions : xarray.Dataset, optional
        A result of `bayes_gpx.predictions` for the same rows. The base values of attributions are
        then the prediction at the baseline, on the scale of the attributions: f, a probability, or
        a rate for an exposure of 1. In a GPX they include the effect of each row's deviation.
        Without predictions the base values are 0, and the values add up to the difference from the
        baseline. Contributions contain their `offset`.
    obs : label or list of labels, optional
        Only these rows.
    ci_prob : float, optional
        Probability of the intervals; by default the dataset's. Intervals are equal-tailed if the
        dataset has draws; otherwise they come from the mean and sd as if normal.

    Returns
    -------
    shap.Explanation
        `values`, `data`, `lower_bounds`, `upper_bounds` (obs, feature), `base_values` (obs),
        `feature_names`, and `output_names`, the units.

    Raises
    ------
    ImportError
        If shap is not installed.
    ValueError
        For a dataset of another function, attributions of some features only, several baselines,
        unknown rows, and predictions for other rows or another class, for contributions, or for the
        log variance.

    References
    ----------
    Lundberg and Lee, "A unified approach to interpreting model predictions" (2017).
    """
    found = shown(dataset, ONE_UNIT, obs=obs, ci_prob=ci_prob)
    mean, rows = found["mean"].values, found["row"].values
    if "difference_mean" in dataset:
        _refuse_incomplete(dataset)
    base = np.zeros(len(mean))
    if predictions is not None:
        base = at_baseline(dataset, predictions).values[rows]
    elif "offset" in dataset:
        base = np.full(len(mean), float(dataset["offset"]))
    try:
        import shap
    except ImportError as missing:
        raise ImportError(
            "to_shap needs the package shap, which is not installed; `pip install shap`."
        ) from missing
    return shap.Explanation(
        values=mean,
        base_values=base,
        data=found["value"].values,
        feature_names=[str(feature) for feature in found["feature"].values],
        output_names=units_of_result(dataset),
        lower_bounds=found["interval"].sel(ci_bound="lower").values,
        upper_bounds=found["interval"].sel(ci_bound="upper").values,
    )


def _refuse_incomplete(dataset: xr.Dataset) -> None:
    """Raise if attributions do not add up, beyond what quadrature leaves over."""
    total = dataset["difference_mean"]
    missing = np.abs(dataset["attribution_mean"].sum("feature") - total)
    allowed = dataset["completeness_residual"] + 1e-6 * np.abs(total).max()
    if (missing > allowed).any():
        raise ValueError(
            "The attributions do not add up to the difference, so some features are left out. "
            "Leave `features` out of bx.attributions."
        )
