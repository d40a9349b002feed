"""Explanations as colors: a heatmap of observations, images of pixels and maps of places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from arviz_base import rc_context
from arviz_plots import PlotCollection
from arviz_plots.visuals import remove_ticks
from matplotlib.colors import Normalize
from matplotlib.patches import Patch

from bayes_gpx.aliases import Backend, Labels, Table
from bayes_gpx.data.features import Frame, read_features, refuse_misaligned
from bayes_gpx.draws.naming import units_of_result
from bayes_gpx.plots.layout import (
    BELOW,
    WIDTH,
    WITH_IMAGES,
    Bar,
    Scale,
    around_or_between,
    backend_named,
    draw,
    from_zero,
    symmetric,
)
from bayes_gpx.plots.selection import (
    MOST_PANELS,
    MOST_ROWS,
    ONE_UNIT,
    covers_zero,
    refuse_no_dataset,
    short,
    shortened,
    shown,
    whole,
)
from bayes_gpx.plots.visuals import (
    SIGNED,
    UNCERTAIN,
    UNSIGNED,
    cells,
    colored_points,
    colors_of,
    few_numbers,
    label_axes,
    names_across,
    names_down,
)

HATCHED, GRAY = np.arange(9) % 3 == 1, 0.7
"""Which lines of a cell of uncertain sign are gray; its other lines have a pale color."""

MOST_LABELS = 40
"""Most observations with a label each below a heatmap."""

ACROSS = 58
"""Letters of labels that fit below a heatmap, including those of its longest feature name."""

UPRIGHT = 0.6
"""How many upright labels fit into the width of one of these letters."""

BAR = 0.12
"""Height of a color bar below images, in inches."""

LIGHT, DARK = "#bbbbbb", "#222222"
"""Outlines of places with an uncertain sign, and of the other places."""


def _hatched(da: xr.DataArray, target: Any, *, scale: Scale, uncertain: xr.DataArray) -> Any:
    """Draw colors of numbers (feature, obs), pale between gray lines where they are uncertain."""
    rgb = scale.rgb(da.values)[:, None]
    lines = np.where(HATCHED[:, None, None], GRAY, 1.0 - UNCERTAIN * (1.0 - rgb))
    rgb = np.where(uncertain.values[:, None, :, None], lines, rgb)
    return cells(rgb.reshape(-1, da.sizes["obs"], 3), target, lines=len(HATCHED), aspect="auto")


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
    words = found.attrs
    name = words["name"]
    if "difference_mean" in dataset:
        total = dataset["difference_mean"]
    else:
        total = dataset[f"{name}_mean"].sum("feature")
    order = np.argsort(total.values[found["row"].values], kind="stable")
    found = found.isel(obs=order).transpose("feature", "obs", ...)
    mean, m = found["mean"], found.sizes["obs"]
    scale = symmetric(mean, SIGNED)
    names = shortened(mean["feature"].values)
    labels = [short(label) for label in mean["obs"].values] if m <= MOST_LABELS else []
    longest = max(map(len, labels), default=0)
    room = ACROSS - max(map(len, names))
    upright = longest * m > room
    every = -(-m // int(UPRIGHT * room)) if upright else 1
    labels = [label if k % every == 0 else "" for k, label in enumerate(labels)]
    total_name = whole(name, dataset) if name == "attribution" else "f(x)"
    hatched = f"hatched: the {words['interval']} contains 0"
    uncertain = covers_zero(found["interval"])
    pc = draw(
        mean.rename(name),
        [
            ("map", _hatched, mean, {"scale": scale, "uncertain": uncertain}),
            ("", names_down, mean, {"names": names, "edge": None}),
            ("", names_across, mean, {"names": labels, "upright": upright}),
            ("xlabel", label_axes, mean, {"x": f"observations, in the order of {total_name}"}),
        ],
        f"{words['title']}; {hatched}",
        pc_kwargs,
        backend=backend,
        height=max(1.8, 1.0 + 0.25 * len(names)),
        above=0.5 + (0.11 * longest if upright else 0.0),
        bars=[Bar(scale, words["label"], options={"aspect": 30})],
    )
    if backend == "matplotlib":
        entry = Patch(facecolor="white", edgecolor=str(GRAY), hatch="---", label=hatched)
        pc.viz["figure"].item().legend(handles=[entry], **BELOW[backend])
    return pc


def _layers_of(found: xr.Dataset, names: Sequence[str]) -> xr.DataArray:
    """Variables along a new dim `layer`."""
    dim = xr.DataArray(list(names), dims="layer", name="layer")
    arrays = [found[name] for name in names]
    return xr.concat(arrays, dim, coords="minimal", compat="override").rename(found.attrs["name"])


def _image(da: xr.DataArray, target: Any, *, shape: Sequence[int], scales: dict[str, Scale]) -> Any:
    """Draw pixels in the colors of their layer."""
    return cells(scales[da["layer"].item()].rgb(da.values.reshape(shape)), target)


def plot_image(
    dataset: xr.Dataset,
    shape: Sequence[int],
    *,
    obs: Labels | None = None,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot explanations of pixels: the image, the mean and the sd.

    All rows share the color scales; the scale of the mean is centered at 0.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.weights`, `contributions`, `attributions` or `derivatives`, with or
        without draws.
    shape : tuple (rows, columns)
        Shape of the image; the features are its pixels, row by row.
    obs : list of labels, optional
        Rows to plot, at most 24; by default the first six.
    backend : {"matplotlib", "plotly", "none"}, optional
    **pc_kwargs
        Passed to ``PlotCollection.wrap``.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        For a dataset of another function or without `value`, a shape that does not match the number
        of features, and a backend that cannot draw images.

    References
    ----------
    Yoshikawa and Iwata, IEEE TNNLS 34 (2023), Figure 3.
    """
    backend = backend_named(backend, WITH_IMAGES)
    refuse_no_dataset(dataset, "bx.attributions or bx.contributions")
    features = dataset.sizes.get("feature")
    if len(shape) != 2 or math.prod(shape) != features:
        raise ValueError(
            f"shape is {tuple(shape)} for {features} features. Pass (rows, columns) with as many "
            "pixels."
        )
    found = shown(dataset, obs=obs, panels=True)
    value, words, count = found["value"], found.attrs, found.sizes["obs"]
    scales = {
        "value": Scale(Normalize(float(value.min()), float(value.max())), "gray_r"),
        "mean": symmetric(found["mean"], SIGNED),
        "sd": from_zero(found["sd"], UNSIGNED),
    }

    def title_of(da: xr.DataArray) -> str:
        titles = {
            "value": f"observation\n{short(da['obs'], 12)}",
            "mean": words["name"],
            "sd": "its sd",
        }
        return titles[da["layer"].item()]

    data = _layers_of(found, list(scales)).transpose("obs", "layer", "feature")
    columns = pc_kwargs.setdefault("col_wrap", 3 if count < 3 else 6)
    height = WIDTH / max(columns, 6) * shape[0] / shape[1] + 0.3
    images = height * -(-3 * count // columns)
    bar = {"location": "bottom", "shrink": 0.7, "pad": 0.02}
    bar |= {"fraction": BAR / images, "aspect": 0.7 * WIDTH / BAR}
    labels = {"sd": "its sd", "mean": words["label"], "value": "value of the feature"}
    with rc_context({"plot.max_subplots": 3 * MOST_PANELS}):
        return draw(
            data,
            [
                ("", label_axes, data, {"title": title_of, "size": 9}),
                ("", remove_ticks, data, {"axis": "both"}),
                ("image", _image, data, {"shape": shape, "scales": scales}),
            ],
            words["title"],
            pc_kwargs,
            backend=backend,
            cols=["obs", "layer"],
            height=height,
            above=2.3,
            bars=[Bar(scales[layer], labels[layer], options=bar) for layer in labels],
        )


def _places(
    da: xr.DataArray, target: Any, *, at: np.ndarray, unsure: xr.DataArray, scales: dict[Any, Scale]
) -> Any:
    """Draw places in the colors of the numbers there; those with an uncertain sign first."""
    layer, feature = da["layer"].item(), da["feature"].item()
    color = colors_of(da.values, scales[layer, feature])
    artist, style = None, {"size": 300 / len(at) ** 0.5, "width": 0.7}
    for drawn, edge in ((unsure, LIGHT), (~unsure, LIGHT if layer == "sd" else DARK)):
        if drawn.any():
            x, y = at[drawn.values].T
            artist = colored_points(x, y, color[drawn.values], target, edge=edge, **style)
    return artist


def plot_map(
    dataset: xr.Dataset,
    places: Table,
    *,
    features: Sequence[str] | None = None,
    max_features: int | None = 3,
    ci_prob: float | None = None,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot maps of weights or other explanations, with the mean above the sd.

    A place has a dark outline if the interval excludes 0, and a light one if it includes 0. Colors
    of means are blue below 0 and red above. If all means are of one sign, and differ by less than
    they are far from 0, colors go from the smallest to the largest.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.weights`, `derivatives`, `attributions` or `contributions`, with or
        without draws. Compute weights with ``smooth=True``, which leaves out the noise of each row.
    places : table or array (obs, 2)
        Horizontal and vertical position of each row, such as longitude and latitude.
    features : list of str, optional
        Features from left to right. By default the features with the largest mean absolute
        attribution or contribution, or the first ones if units differ between features.
    max_features : int
        Number of features to plot by default.
    ci_prob : float, optional
        Probability of the intervals; by default the dataset's. Intervals are equal-tailed if the
        dataset has draws, and normal otherwise.
    backend : {"matplotlib", "plotly", "bokeh", "none"}, optional
        Bokeh has no color bars.
    **pc_kwargs
        Passed to ``PlotCollection.wrap``.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        For a dataset of another function, unknown features, and places that are not two columns
        with one line for each row.

    References
    ----------
    Fotheringham, Brunsdon and Charlton, "Geographically Weighted Regression" (2002): coefficients
    that vary over places.
    """
    found = shown(
        dataset, features=features, max_features=max_features, ci_prob=ci_prob, valued=False
    )
    at, words = _read_places(places, dataset["obs"].values), found.attrs
    data = _layers_of(found, ["mean", "sd"]).transpose("layer", "feature", "obs")
    scales, bars = {}, []
    for feature in found["feature"].values:
        one = found.sel(feature=feature)
        scales["mean", feature] = around_or_between(one["mean"], SIGNED, UNSIGNED)
        scales["sd", feature] = from_zero(one["sd"], UNSIGNED)
    for (layer, feature), scale in scales.items():
        panel = {"layer": layer, "feature": feature}
        bars.append(Bar(scale, None, panel, options={"location": "right", "shrink": 0.8}))

    def title_of(da: xr.DataArray) -> str:
        return f"{short(da['feature'], 24)}: {da['layer'].item()}"

    number, (across, up) = found.sizes["feature"], at.columns
    drawn = {"at": at.values, "unsure": covers_zero(found["interval"]), "scales": scales}
    pc_kwargs.setdefault("col_wrap", number)
    return draw(
        data,
        [
            ("places", _places, data, drawn),
            ("", few_numbers, data, {"most": 3}),
            ("labels", label_axes, data, {"title": title_of, "size": 10, "x": across, "y": up}),
        ],
        f"{words['title']} [{units_of_result(dataset)}]; dark outline: the {words['interval']} "
        "excludes 0",
        pc_kwargs,
        backend=backend,
        cols=["layer", "feature"],
        height=0.6 + 0.7 * WIDTH / max(number, 2),
        between=1.4,
        bars=bars,
    )


def _read_places(places: Table, index: np.ndarray) -> Frame:
    """Two columns of numbers with a row for each observation."""
    frame = read_features(places, "places", minimum_rows=1)
    if frame.levels:
        raise ValueError(
            f"places has the categorical columns {list(frame.levels)}. Pass two columns of "
            "numbers, such as longitude and latitude."
        )
    if len(frame.columns) != 2 or len(frame) != len(index):
        raise ValueError(
            f"places has {len(frame)} rows and {len(frame.columns)} columns. Pass 2 columns with a "
            f"row for each of the dataset's {len(index)} observations."
        )
    if frame.labelled:
        refuse_misaligned(index, frame.index, "the dataset", "places")
    return frame
