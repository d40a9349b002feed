"""Measures of relevance next to each other, each as a share of its largest mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import arviz_stats  # noqa: F401
import numpy as np
import xarray as xr
from arviz_plots import PlotCollection
from arviz_plots.plot_collection import backend_from_object

from bayes_gpx.aliases import Backend
from bayes_gpx.draws.intervals import BOUNDS, interval_probability
from bayes_gpx.plots.layout import add_title, backend_named, beside, lay_out
from bayes_gpx.plots.selection import refuse_no_dataset, refuse_several, short
from bayes_gpx.plots.visuals import axis_labels, interval_bars


def _bars(da, target, **kwargs):
    bounds = da.transpose("feature", "ci_bound").values
    if np.isfinite(bounds).all():
        return interval_bars(np.arange(len(bounds)), bounds, target, across=True, **kwargs)


def _points(da, target, *, names, **kwargs):
    backend, at = backend_from_object(target), np.arange(da.size)
    backend.ylim((da.size - 0.5, -0.5), target)
    backend.yticks(at, names, target)
    return backend.scatter(da.values, at, target, **kwargs)


def _title(da, target, **kwargs):
    name = str(da["measure"].item()).replace("_", " ")
    return backend_from_object(target).title(name, target, **kwargs)


def plot_importances(
    *datasets: xr.Dataset | Mapping[str, xr.Dataset],
    ci_prob: float | None = None,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot measures of relevance together, each divided by its largest mean.

    Parameters
    ----------
    *datasets : xarray.Dataset
        Results of `bayes_gpx.relevance` (`average_relevance` is plotted) or
        `bayes_gpx.importances`, or any dataset with variables (feature) or (chain, draw, feature),
        such as the results of another package. Features are in the order of the first dataset.
    ci_prob : float, optional
        Probability of the equal-tailed intervals; 90% by default. Measures that do not vary over
        draws have no interval.
    backend : {"matplotlib", "plotly", "bokeh", "none"}, optional
    **pc_kwargs
        Passed to ``PlotCollection.wrap``.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        If a dataset has no such variable, or features that differ from the first dataset's.
    """
    prob = interval_probability(ci_prob)
    means, intervals, references, single = {}, {}, {}, []
    for dataset in datasets:
        refuse_no_dataset(dataset, "bx.relevance or bx.importances")
        held = _measures(dataset)
        for name, measure in held.items():
            samples = [dim for dim in measure.dims if dim != "feature"]
            mean = measure.mean(samples)
            largest = float(mean.max()) or 1.0
            means[name] = mean / largest
            varies = samples and float(measure.std(samples).max()) > 0
            wide = measure.azstats.eti(prob=prob, dim=samples) if varies else mean + EMPTY
            intervals[name] = wide / largest
            null = dataset.get(f"{name.removeprefix('average_')}_null")
            if null is not None:
                ends = np.stack([null.min("null"), null.quantile(0.95, "null")], axis=-1)
                coords = {"feature": null["feature"].values, "ci_bound": BOUNDS}
                bounds = xr.DataArray(ends, coords, ["feature", "ci_bound"])
                references[name] = bounds / largest
            single += [] if varies else [name.replace("_", " ")]
    features = next(iter(means.values()), xr.DataArray([]))
    for name, mean in means.items():
        if set(mean["feature"].values) != set(features["feature"].values):
            raise ValueError(
                f"{name} and {next(iter(means))} have different features. Pass results for the "
                "same features."
            )
    if not means:
        raise ValueError("No dataset was given. Pass results of bx.relevance, bx.importances.")

    def stacked(parts):
        dim = xr.Variable("measure", list(parts))
        return xr.concat(list(parts.values()), dim).to_dataset(name="share")

    mean, names = stacked(means), [short(name) for name in features["feature"].values]
    backend = backend_named(backend)
    height, room = 1.0 + 0.24 * len(names), beside(names)
    lay_out(pc_kwargs, len(means), height, backend=backend, between=room)
    pc = PlotCollection.wrap(mean, cols=["measure"], backend=backend, **pc_kwargs)
    if references:
        beside_them = stacked(references).reindex(measure=list(means))
        pc.map(_bars, "null", data=beside_them, color="gray", width=9, alpha=0.45)
    pc.map(_bars, "interval", data=stacked(intervals), color="C0", width=3)
    pc.map(_points, "point_estimate", data=mean, color="C0", names=names)
    pc.map(_title, "title", data=mean)
    pc.map(axis_labels, "xlabel", data=mean, x="share of the largest")
    none = f"\none value, no interval: {', '.join(single)}" if single else ""
    none += "\ngray: features without effect" if references else "\nnoise is above 0 too"
    add_title(pc, f"Measures of relevance, {prob:.0%} intervals{none}")
    return pc


BESIDE = ("_mc_error", "_refitted", "_p")
"""Suffixes of variables that accompany a measure."""


def _measures(dataset):
    if "average_relevance" in dataset:
        return {"relevance": dataset["average_relevance"]}
    known = ({"feature"}, {"chain", "draw", "feature"})
    for value in dataset.values():
        if set(value.dims) - {"class"} in known:
            refuse_several(value)
    held = {
        str(name): value
        for name, value in dataset.items()
        if set(value.dims) in known and not str(name).endswith(BESIDE)
    }
    if not held:
        raise ValueError(
            "The dataset has no measure with dims (feature) or (chain, draw, feature). Pass the "
            "result of bx.relevance or bx.importances."
        )
    return held


EMPTY = xr.DataArray([np.nan, np.nan], {"ci_bound": ["lower", "upper"]}, ["ci_bound"])
