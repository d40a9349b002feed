"""Which features and pairs matter most: averages with intervals, and probabilities of ranks."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
import xarray as xr
from arviz_plots import PlotCollection
from arviz_plots.plot_collection import backend_from_object

from bayes_gpx.aliases import Backend
from bayes_gpx.plots.layout import WITH_IMAGES, add_title, backend_named, beside, lay_out
from bayes_gpx.plots.selection import NO_INTERVAL, refuse_no_dataset, short
from bayes_gpx.plots.visuals import (
    axis_labels,
    bars_across,
    cells,
    decimals,
    interval_bars,
    is_plotly,
    points_across,
)
from bayes_gpx.validation import count

SHADES, DARKEST, ABSENT = "Blues", 0.75, 0.85
"""Colors from 0, white, to the largest; and the gray of pairs that were not requested."""

MOST_NUMBERS, MOST_BESIDE = 12, 8
"""Most rows of a matrix with numbers in its cells, and of two matrices next to each other."""

NO_PROBABILITIES = "no probabilities: one draw of the hyperparameters"

LEAST, DARK = 0.005, 0.75
"""Proportions of the largest value above which numbers are written, and written in white."""


def _references(da, target, **kwargs):
    """From the smallest of the replicates to their 95 % quantile, one bar for each feature."""
    drawn = da.transpose("null", "feature").values
    ends = np.stack([drawn.min(axis=0), np.quantile(drawn, 0.95, axis=0)], axis=1)
    return interval_bars(np.arange(len(ends)), ends, target, across=True, **kwargs)


def _shades(da, target, *, dims, largest, triangle=False, **kwargs):
    shares = da.transpose(*dims).values / (largest.item() or 1.0)
    rgb = mpl.colormaps[SHADES](DARKEST * np.nan_to_num(shares))[..., :3]
    rgb[np.isnan(shares)] = ABSENT
    if triangle:
        rgb[np.triu_indices(len(rgb), 1)] = 1.0
    return cells(rgb, target, aspect="auto", **kwargs)


def _numbers(da, target, *, dims, largest, form, size=8, **kwargs):
    backend, values = backend_from_object(target), da.transpose(*dims).values
    if max(values.shape) > MOST_NUMBERS:
        return
    middle = "middle" if is_plotly(target) else "center"
    kwargs |= {"horizontal_align": "center", "vertical_align": middle, "size": size}
    for (i, j), value in np.ndenumerate(values):
        share = value / (largest.item() or 1.0)
        if share >= LEAST:
            color = "white" if share > DARK else "black"
            backend.text(j, i, format(value, form), target, color=color, **kwargs)


def _ticks(da, target, *, rows=None, columns=None, upright=False, **kwargs):
    backend = backend_from_object(target)
    if columns is not None:
        rotation = 90 if upright else 0
        backend.xticks(np.arange(len(columns)), columns, target, rotation=rotation, **kwargs)
    if rows is not None:
        backend.ylim((len(rows) - 0.5, -0.5), target)
        return backend.yticks(np.arange(len(rows)), rows, target, **kwargs)


def _title(da, target, *, text, **kwargs):
    return backend_from_object(target).title(text, target, **kwargs)


def _held(ranked, name, max_features, backend):
    if name not in ranked or "probability_rank" not in ranked:
        raise ValueError(f"The dataset has no {name} with ranks. Pass the result of bx.ranking.")
    count("max_features", max_features)
    backend = backend_named(backend, WITH_IMAGES)
    return backend


def _alone(ranked):
    """Whether the ranks come from one draw, without probabilities."""
    return bool(ranked["probability_rank"].isnull().all())


def plot_relevance(
    ranked: xr.Dataset,
    *,
    max_features: int | None = 20,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot the average relevance of features, and the probability of each rank.

    Features are in the order of their mean ranks, with intervals. A single hyperparameter draw
    gives no intervals and no probabilities, so only the averages are shown. Relevance is never 0.
    If it has a reference distribution (``bx.relevance(null=True)``), gray bars show the relevance
    of features without any effect, up to the 95% quantile of the replicates.

    Parameters
    ----------
    ranked : xarray.Dataset
        A result of `bayes_gpx.ranking`, for `bayes_gpx.relevance`.
    max_features : int
        Number of features to plot, in this order.
    backend : {"matplotlib", "plotly", "none"}, optional
    **pc_kwargs
        Passed to ``PlotCollection.wrap``.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        For a dataset of another function, and for a backend that cannot draw images.
    """
    refuse_no_dataset(ranked, "bx.ranking")
    backend = _held(ranked, "average_relevance_mean", max_features, backend)
    order = np.argsort(ranked["rank_mean"].values, kind="stable")[:max_features]
    chosen = ranked.isel(feature=order, rank=slice(max_features))
    m, alone = len(order), _alone(ranked)
    panels = ["average"] if alone else ["average", "rank"]

    def panel(variable, name):
        found = xr.Dataset({"relevance": chosen[variable]}).expand_dims(panel=[name])
        return found.reindex(panel=panels)  # panels of nothing but NaN are skipped

    mean, ranks = panel("average_relevance_mean", "average"), panel("probability_rank", "rank")
    names = [short(name, 24) for name in chosen["feature"].values]
    room = {"between": beside(names), "sharey": True}
    lay_out(pc_kwargs, len(panels), 0.9 + 0.27 * m, backend=backend, **room)
    pc = PlotCollection.wrap(mean, cols=["panel"], backend=backend, **pc_kwargs)
    intervals = panel("average_relevance_interval", "average")
    if "relevance_null" in chosen:
        null = panel("relevance_null", "average")
        pc.map(_references, "null", data=null, color="gray", width=9, alpha=0.45)
    if not alone:
        pc.map(bars_across, "interval", data=intervals, color="C0", width=3)
    pc.map(points_across, "point_estimate", data=mean, color="C0")
    pc.map(_ticks, "names", data=mean, store_artist=False, rows=names)
    pc.map(axis_labels, "xlabel", data=mean, x="relevance per sd of the feature")
    if not alone:
        drawn = {"data": ranks, "dims": ("feature", "rank"), "largest": xr.DataArray(1.0)}
        pc.map(_shades, "ranks", **drawn)
        size = 8 if m <= MOST_BESIDE else 6
        pc.map(_numbers, "probabilities", store_artist=False, form=".2f", size=size, **drawn)
        numbers = chosen["rank"].values if m <= MOST_NUMBERS else np.empty(0)
        pc.map(_ticks, "rank_names", data=ranks, store_artist=False, rows=names, columns=numbers)
        pc.map(axis_labels, "rank_label", data=ranks, x="rank, with its probability")
    left = ranked.sizes["feature"] - m
    some = f", first {m} of {m + left} features" if left else ""
    prob = f"{ranked.attrs['ci_prob']:.0%}"
    interval = NO_INTERVAL if alone else f"{prob} intervals and ranks over hyperparameters"
    known = "relevance_null" in chosen
    reference = "; gray: features without effect" if known else "; noise is never at 0"
    add_title(pc, f"Relevance, averaged over observations{some}: {interval}{reference}")
    return pc


def plot_interactions(
    ranked: xr.Dataset,
    *,
    top: int = 3,
    max_features: int | None = 12,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot average interactions of pairs, and their ranks.

    The second panel is the probability of each pair to be one of the strongest. Features are in the
    order of their strongest interactions. Each pair has one cell; pairs that were not requested are
    gray. A single hyperparameter draw gives no probabilities, so only the averages are shown.

    Parameters
    ----------
    ranked : xarray.Dataset
        A result of `bayes_gpx.ranking`, for `bayes_gpx.interactions`.
    top : int
        Number of pairs that count as the strongest.
    max_features : int
        Number of features to plot, in this order.
    backend : {"matplotlib", "plotly", "none"}, optional
    **pc_kwargs
        Passed to ``PlotCollection.wrap``.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        For a dataset of another function, and for a backend that cannot draw images.
    """
    refuse_no_dataset(ranked, "bx.ranking")
    backend = _held(ranked, "average_interaction_mean", max_features, backend)
    count("top", top)
    top = min(top, ranked.sizes["rank"])
    mean = ranked["average_interaction_mean"].values
    first, second = ranked["first"].values, ranked["second"].values
    strongest = np.argsort(-mean, kind="stable")
    every = dict.fromkeys(np.column_stack([first, second])[strongest].ravel())
    names = list(every)[: max_features and max(max_features, 2)]

    alone, numbers = _alone(ranked), {"mean": mean}
    if not alone:
        numbers["top"] = ranked["probability_top"].sel(rank=top).values

    def panel(values, name):
        square = np.full((len(names), len(names)), np.nan)
        for a, b, value in zip(first, second, values, strict=True):
            if a in names and b in names:
                i, j = sorted([names.index(a), names.index(b)])
                square[j, i] = value
        dims = ("panel", "feature", "feature_bis")
        coords = {"panel": [name], "feature": names[1:], "feature_bis": names[:-1]}
        found = xr.Dataset({"interaction": (dims, square[None, 1:, :-1])}, coords)
        return found.reindex(panel=[*numbers])  # panels of nothing but NaN are skipped

    panels = [panel(values, name) for name, values in numbers.items()]
    m, labels = len(names), [short(name, 24) for name in names]
    largest = xr.DataArray([np.nanmax(mean), 1.0])
    pc_kwargs.setdefault("col_wrap", 2 if m <= MOST_BESIDE else 1)
    upright = max(map(len, labels)) > 4
    height = 0.6 + 0.08 * max(map(len, labels)) * upright + 0.27 * m
    room = {"between": beside(labels), "sharex": True, "sharey": True}
    lay_out(pc_kwargs, len(panels), height, backend=backend, **room)
    pc = PlotCollection.wrap(panels[0], cols=["panel"], backend=backend, **pc_kwargs)
    titles = ["average, per sd of both", f"probability: among the first {top}"]
    forms = [f".{decimals(np.nanmax(mean))}f", ".2f"]
    for k, data in enumerate(panels):
        drawn = {"data": data, "dims": ("feature", "feature_bis"), "largest": largest[k]}
        pc.map(_shades, f"map_{k}", triangle=True, **drawn)
        pc.map(_numbers, f"numbers_{k}", store_artist=False, form=forms[k], **drawn)
        ticks = {"rows": labels[1:], "columns": labels[:-1], "upright": upright}
        pc.map(_ticks, f"names_{k}", data=data, store_artist=False, **ticks)
        pc.map(_title, f"title_{k}", data=data, text=titles[k])
    left = len(every) - m
    some = f", {m} of {m + left} features" if left else ""
    requested = int(panels[0]["interaction"].notnull().sum())
    some += "; gray: not requested" if requested < m * (m - 1) / 2 else ""
    why = f"; {NO_PROBABILITIES}" if alone else ""
    add_title(pc, f"Interactions, averaged over observations{some}{why}")
    return pc
