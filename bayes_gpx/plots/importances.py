"""Measures of relevance in one panel, each as a share of its largest mean."""

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
from bayes_gpx.plots.layout import add_legend, add_title, backend_named, lay_out
from bayes_gpx.plots.selection import refuse_no_dataset, refuse_several, short
from bayes_gpx.plots.visuals import axis_labels, bars_across, names_down, points_across


def _names(da, target, *, names, **kwargs):
    """Names of the features, with a line between any two."""
    for row in range(1, len(names)):
        backend_from_object(target).hline(row - 0.5, target, **kwargs)
    return names_down(da, target, names=names)


def plot_importances(
    *datasets: xr.Dataset | Mapping[str, xr.Dataset],
    ci_prob: float | None = None,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot measures of relevance in one panel, each divided by its largest mean.

    Parameters
    ----------
    *datasets : xarray.Dataset
        Results of `bayes_gpx.relevance` (`average_relevance` is plotted) or
        `bayes_gpx.importances`, or any dataset with variables (feature) or (chain, draw, feature),
        such as the results of another package. Features are sorted by their average over the
        measures.
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
        found = xr.concat(list(parts.values()), dim).to_dataset(name="share")
        return found.sel(feature=order)

    sizes = sum(mean.sel(feature=features["feature"]) for mean in means.values())
    order = features["feature"].values[np.argsort(-sizes.values, kind="stable")]
    mean, names, count = stacked(means), [short(name) for name in order], len(means)
    backend = backend_named(backend)
    height = 0.8 + len(names) * (0.12 + 0.11 * count)
    lay_out(pc_kwargs, 1, height, backend=backend, above=0.6 + 0.2 * (count > 4))
    aes = {name: ["measure"] for name in ("color", "marker", "y")}
    half = min(0.36, 0.12 * (count - 1))
    places = np.linspace(-half, half, count)
    pc = PlotCollection.wrap(mean, aes=aes, backend=backend, y=places, **pc_kwargs)
    whole = {"data": mean.isel(measure=0, drop=True), "ignore_aes": "all", "store_artist": False}
    pc.map(_names, "names", names=names, color="#dddddd", width=0.8, **whole)
    if references:
        known = stacked(references).reindex(measure=list(means))
        bars = {"color": "gray", "width": 6, "alpha": 0.45}
        pc.map(bars_across, "null", data=known, ignore_aes={"color", "marker"}, **bars)
    pc.map(bars_across, "interval", data=stacked(intervals), ignore_aes={"marker"}, width=1.5)
    pc.map(points_across, "point_estimate", data=mean, size=25)
    pc.map(axis_labels, "xlabel", x="share of the largest", **whole)
    styles = {
        name: pc.get_aes_kwargs(["color", "marker"], "share", {"measure": name}) for name in means
    }
    add_legend(pc, {name.replace("_", " "): style for name, style in styles.items()})
    none = f"; one value, no interval: {', '.join(single)}" if single else ""
    none += "; gray: features without effect" if references else "; noise is above 0 too"
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
