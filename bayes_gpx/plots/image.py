"""Features that are pixels: each observation as an image, next to its explanation's mean and sd."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import xarray as xr
from arviz_base import rc_context
from arviz_plots import PlotCollection
from arviz_plots.plot_collection import backend_from_object
from matplotlib.colors import Normalize

from bayes_gpx.aliases import Backend, Labels
from bayes_gpx.plots.layout import WIDTH, WITH_IMAGES, add_title, backend_named, lay_out
from bayes_gpx.plots.selection import (
    MOST_PANELS,
    layered,
    panel_rows,
    refuse_no_dataset,
    short,
    shown,
)
from bayes_gpx.plots.visuals import SIGNED, UNSIGNED, cells, colour_bar, from_zero, symmetric

LAYERS = ("value", "mean", "sd")

BAR = 0.12
"""Height of a colour bar, in inches."""


def _image(da, target, *, shape, scales, name):
    norm, cmap = scales[da["layer"].item()]
    backend = backend_from_object(target)
    label = {"value": f"obs {short(da['obs'], 12)}", "mean": name, "sd": "its sd"}
    backend.title(label[da["layer"].item()], target, size=9)
    backend.remove_ticks(target, axis="both")
    return cells(mpl.colormaps[cmap](norm(da.values.reshape(shape)))[..., :3], target)


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
    rows = panel_rows(dataset, obs)
    found = shown(dataset.isel(obs=rows))
    name = found.attrs["name"]
    layers = layered(found, LAYERS).transpose("obs", "layer", "feature")
    data = xr.Dataset({name: layers})
    ends = float(found["value"].min()), float(found["value"].max())
    scales = {
        "value": (Normalize(*ends), "gray_r"),
        "mean": (symmetric(found["mean"]), SIGNED),
        "sd": (from_zero(found["sd"]), UNSIGNED),
    }
    columns = pc_kwargs.setdefault("col_wrap", 3 if len(rows) < 3 else 6)
    high = WIDTH / max(columns, 6) * shape[0] / shape[1] + 0.3
    lay_out(pc_kwargs, 3 * len(rows), high, backend=backend, above=2.3)
    with rc_context({"plot.max_subplots": 3 * MOST_PANELS}):
        pc = PlotCollection.wrap(data, cols=["obs", "layer"], backend=backend, **pc_kwargs)
    pc.map(_image, "image", data=data, shape=shape, scales=scales, name=name)
    labels = {"value": "value of the feature", "mean": found.attrs["label"], "sd": "its sd"}
    images = high * -(-3 * len(rows) // columns)
    bar = {"location": "bottom", "shrink": 0.7, "pad": 0.02}
    bar |= {"fraction": BAR / images, "aspect": 0.7 * WIDTH / BAR}
    for layer in reversed(LAYERS):
        norm, cmap = scales[layer]
        colour_bar(pc, norm, cmap, labels[layer], **bar)
    add_title(pc, found.attrs["title"])
    return pc
