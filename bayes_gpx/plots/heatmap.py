"""Attributions of many observations as a matrix of colours: features by observations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import xarray as xr
from arviz_plots import PlotCollection
from arviz_plots.plot_collection import backend_from_object
from matplotlib.patches import Patch

from bayes_gpx.aliases import Backend, Labels
from bayes_gpx.plots.layout import BELOW, WITH_IMAGES, add_title, backend_named, lay_out
from bayes_gpx.plots.selection import MOST_ROWS, ONE_UNIT, covers_zero, short, shown, whole
from bayes_gpx.plots.visuals import SIGNED, UNCERTAIN, axis_labels, cells, colour_bar, symmetric

HATCHED, GRAY = np.arange(9) % 3 == 1, 0.7
"""Which lines of a cell of uncertain sign are gray; its other lines have a pale color."""

MOST_LABELS = 40


def _map(da, target, *, norm, uncertain):
    rgb = mpl.colormaps[SIGNED](norm(da.transpose("feature", "obs").values))[:, None, :, :3]
    uncertain = uncertain.transpose("feature", "obs").values[:, None, :, None]
    lines = np.where(HATCHED[:, None, None], GRAY, 1.0 - UNCERTAIN * (1.0 - rgb))
    rgb = np.where(uncertain, lines, rgb).reshape(-1, da.sizes["obs"], 3)
    return cells(rgb, target, lines=len(HATCHED), aspect="auto")


def _names(da, target, *, dim, places, names, **kwargs):
    backend = backend_from_object(target)
    draw = backend.yticks if dim == "feature" else backend.xticks
    return draw(places, names, target, **kwargs)


def plot_heatmap(
    dataset: xr.Dataset,
    *,
    obs: Labels | None = None,
    features: Sequence[str] | None = None,
    max_features: int | None = 20,
    ci_prob: float | None = None,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot the attributions of many rows as colors, hatched if the sign is uncertain.

    Columns are rows of data, in the order of the sum over all features; lines are features. Cells
    with an interval that includes 0 are pale with gray lines.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.attributions` or `bayes_gpx.contributions`, with or without draws.
    obs : list of labels, optional
        Rows to plot, all by default. If there are more than 1000, a random 1000 of them are shown,
        and the title states this.
    features, max_features, ci_prob
        As in `plot_beeswarm`.
    backend : {"matplotlib", "plotly", "none"}, optional
    **pc_kwargs
        Passed to ``PlotCollection.wrap``.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        As in `plot_beeswarm`, and for a backend that cannot draw images.
    """
    backend = backend_named(backend, WITH_IMAGES)
    found = shown(
        dataset,
        ONE_UNIT,
        obs=obs,
        features=features,
        max_features=max_features,
        most_rows=MOST_ROWS,
        ci_prob=ci_prob,
    )
    name = found.attrs["name"]
    if "difference_mean" in dataset:
        total = dataset["difference_mean"]
    else:
        total = dataset[f"{name}_mean"].sum("feature")
    total = total.values[found["row"].values]
    found = found.isel(obs=np.argsort(total, kind="stable"))
    mean = found[["mean"]].rename(mean=name)
    count, m = found.sizes["feature"], found.sizes["obs"]
    few = m <= MOST_LABELS
    observations = [short(label) for label in found["obs"].values] if few else []
    longest = max(map(len, observations), default=0)
    upright = longest * m > 50
    above = 0.5 + (0.11 * longest if upright else 0.0)
    lay_out(pc_kwargs, 1, max(1.8, 1.0 + 0.25 * count), backend=backend, above=above)
    pc = PlotCollection.wrap(mean, backend=backend, **pc_kwargs)
    norm = symmetric(mean[name])
    pc.map(_map, "map", data=mean, norm=norm, uncertain=covers_zero(found["interval"]))
    names = [short(feature) for feature in found["feature"].values]
    drawn = {"places": np.arange(count), "names": names, "dim": "feature"}
    pc.map(_names, "features", data=mean, store_artist=False, **drawn)
    drawn = {"places": np.arange(len(observations)), "names": observations, "dim": "obs"}
    drawn["rotation"] = 90 if upright else 0
    pc.map(_names, "observations", data=mean, store_artist=False, **drawn)
    total_name = whole(name, dataset) if name == "attribution" else "f(x)"
    axis = f"observations, in the order of {total_name}"
    pc.map(axis_labels, "xlabel", data=mean, x=axis)
    colour_bar(pc, norm, SIGNED, found.attrs["label"], aspect=30)
    hatched = f"hatched: the {found.attrs['interval']} contains 0"
    add_title(pc, f"{found.attrs['title']}; {hatched}")
    if backend == "matplotlib":
        entry = Patch(facecolor="white", edgecolor=str(GRAY), hatch="---", label=hatched)
        pc.viz["figure"].item().legend(handles=[entry], **BELOW[backend])
    return pc
