"""Weights against the value of their own feature, with bands, one panel for each feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import arviz_stats  # noqa: F401
import numpy as np
import xarray as xr
from arviz_base import rcParams
from arviz_plots import PlotCollection
from arviz_plots.plot_collection import backend_from_object

from bayes_gpx.aliases import Backend
from bayes_gpx.plots.layout import add_title, backend_named, lay_out
from bayes_gpx.plots.selection import panel_features, refuse_several
from bayes_gpx.plots.visuals import few_numbers, horizontal_zero


def _band(da, target, *, value, **kwargs):
    order = np.argsort(value.values)
    bounds = da.transpose("obs", "ci_bound").values[order]
    return backend_from_object(target).fill_between_y(
        value.values[order], bounds[:, 0], bounds[:, 1], target, **kwargs
    )


def _curve(da, target, *, value, **kwargs):
    order = np.argsort(value.values)
    return backend_from_object(target).line(value.values[order], da.values[order], target, **kwargs)


def _labels(da, target, **kwargs):
    few_numbers(target)
    backend = backend_from_object(target)
    backend.ylabel("weight", target, **kwargs)
    return backend.xlabel(da["feature"].item(), target, **kwargs)


def plot_weights(
    dataset: xr.Dataset,
    *,
    features: Sequence[str] | None = None,
    ci_prob: float | None = None,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot each weight against its own feature's value, as a curve with a band.

    Parameters
    ----------
    dataset : xarray.Dataset
        What `bayes_gpx.weights` returned, with draws and `value`, at points along a curve:
        one feature varies, the others are held. Ask for them with ``smooth=True``, and
        ``joint=True`` for a smooth band.
    features : list of str, optional
        At most 24, by default the first ones.
    ci_prob : float, optional
        Probability of the equal-tailed bands; ArviZ's ``stats.ci_prob`` by default.
    backend : {"matplotlib", "plotly", "bokeh", "none"}, optional
    **pc_kwargs
        Passed on to ``PlotCollection.wrap``.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        If the dataset holds no draws of weights or no feature values, for unknown features, and for
        more than 24.

    References
    ----------
    Yoshikawa and Iwata, IEEE TNNLS 34 (2023), section V.
    """
    if "weight" not in dataset or "value" not in dataset:
        raise ValueError(
            "The dataset has no draws of `weight` with their `value`; expected the result of "
            "bx.weights with keep='draws', and with Z_new where Z differs from X."
        )
    refuse_several(dataset["weight"])
    features, some = panel_features(dataset, features)
    chosen = dataset.sel(feature=features)
    draws, value = chosen[["weight"]], chosen["value"]
    prob = rcParams["stats.ci_prob"] if ci_prob is None else ci_prob
    backend = backend_named(backend)
    lay_out(pc_kwargs, draws.sizes["feature"], (4.2, 3.2), backend=backend)
    pc = PlotCollection.wrap(draws, cols=["feature"], backend=backend, **pc_kwargs)
    mean = chosen[["weight_mean"]].rename(weight_mean="weight")
    band = xr.Dataset({"weight": draws["weight"].azstats.eti(prob=prob, dim=["chain", "draw"])})
    pc.map(horizontal_zero, "reference", data=mean, color="gray", linestyle="C1", alpha=0.6)
    pc.map(_band, "credible_interval", data=band, value=value, color="C0", alpha=0.3)
    pc.map(_curve, "point_estimate", data=mean, value=value, color="C0", width=2)
    pc.map(_labels, "labels", data=mean)
    add_title(pc, f"Weight{some}, {dataset.attrs['units']}: mean and {prob:.0%} band")
    return pc
