"""Predictions, weights and explanations along features, with one panel for each feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from arviz_plots import PlotCollection
from arviz_plots.plot_collection import backend_from_object
from arviz_plots.visuals import hline

from bayes_gpx.aliases import Backend, Labels
from bayes_gpx.draws.intervals import interval_of, interval_probability
from bayes_gpx.draws.naming import of_processes, units_of_result
from bayes_gpx.plots.layout import backend_named, draw
from bayes_gpx.plots.selection import (
    MOST_PANELS,
    MOST_ROWS,
    ONE_AXIS,
    ONE_UNIT,
    QUANTITIES,
    about,
    in_panels,
    panel_features,
    refuse_no_dataset,
    refuse_several,
    required,
    short,
    shown,
)
from bayes_gpx.plots.visuals import (
    REFERENCE,
    continuous,
    intervals_along,
    level_names,
    means_along,
    spacing,
    value_axis,
    with_gaps,
)
from bayes_gpx.validation import count, names_among

MOST_SINGLE, MOST_GROUPS, NEIGHBORS = 40, 10, 10
"""Most rows with an interval each; more are drawn in so many groups of so many rows at least."""

MOST_POINTS = 200
"""Points with intervals in a panel; of more rows, so many are shown, evenly spaced."""

WIDEST = 28
"""Letters of a panel's title in one line."""


def _rug(da: xr.DataArray, target: Any, *, bottom: xr.DataArray, **kwargs: Any) -> Any:
    """Mark values at the bottom, but not the levels of a category."""
    if not level_names(da):
        ends = np.full(da.size, bottom.item())
        return backend_from_object(target).scatter(da.values, ends, target, marker="|", **kwargs)


def plot_dependence(
    dataset: xr.Dataset,
    *,
    obs: Labels | None = None,
    features: Sequence[str] | None = None,
    max_features: int | None = 6,
    ci_prob: float | None = None,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot explanations against the value of the feature.

    Use it for attributions, contributions, weights, slopes or relevance. Each feature, of each
    class or baseline, has a panel. Each row is a point with its interval, above a rug of the
    values. For a categorical column, the points of a level are next to each other, above the name
    of the level. If points scatter at equal values of the feature, it interacts with other
    features; the intervals show the uncertainty.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.attributions`, `contributions`, `weights`, `derivatives` or
        `relevance`, with or without draws.
    obs : list of labels, optional
        Rows to plot, all by default. If there are more than 1000, a random 1000 of them are shown,
        and the title states this.
    features : list of str, optional
        By default the features with the largest mean absolute attribution or contribution. For
        weights, derivatives and relevance, with units that differ between features, the first ones.
    max_features : int
        Number of features to plot by default.
    ci_prob : float, optional
        Probability of the intervals; by default the dataset's. Intervals are equal-tailed if the
        dataset has draws, and normal otherwise.
    backend : {"matplotlib", "plotly", "bokeh", "none"}, optional
    **pc_kwargs
        Passed to ``PlotCollection.wrap``.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        For a dataset of another function or without `value`, several outputs, more than 24 panels,
        and unknown rows or features.
    """
    found = shown(
        dataset,
        (*QUANTITIES, "relevance"),
        obs=obs,
        features=features,
        max_features=max_features,
        most_rows=MOST_ROWS,
        ci_prob=ci_prob,
        apart="feature",
    )
    name, value, interval = found.attrs["name"], found["value"], found["interval"]
    one_unit = name in ONE_UNIT
    low, high = interval.min(("obs", "ci_bound")), interval.max(("obs", "ci_bound"))
    if one_unit:
        low, high = low.min().broadcast_like(low), high.max()
    bottom = low - 0.05 * (high - low)
    along = {"x": value, "color": "C0"}
    bars = along | {"alpha": float(np.clip(15.0 / found.sizes["obs"] ** 0.7, 0.08, 0.6))}
    return draw(
        found["mean"].rename(name),
        [
            ("reference", hline, 0.0, REFERENCE),
            ("credible_interval", intervals_along, interval, {"width": 1.0, **bars}),
            ("point_estimate", means_along, found["mean"], along),
            ("rug", _rug, value, {"bottom": bottom, "color": "gray", "alpha": 0.6}),
            *value_axis(value, name),
        ],
        f"{found.attrs['title']} [{units_of_result(dataset)}]: mean and {found.attrs['interval']}",
        pc_kwargs,
        backend=backend,
        cols=["feature"],
        sharey=one_unit,
    )


def _curves(da: xr.DataArray, target: Any, *, value: xr.DataArray, **kwargs: Any) -> Any:
    """Draw the curve of each row, or its points at the levels of a category."""
    lines, backend = da.transpose("obs", "step").values, backend_from_object(target)
    if names := level_names(value):
        x = value.values + spacing(names) * np.linspace(-0.2, 0.2, len(lines))[:, None]
        style = {"color": kwargs["color"], "alpha": kwargs["alpha"], "size": 6}
        return backend.scatter(x.ravel(), lines.ravel(), target, **style)
    x = with_gaps(np.tile(value.values, (len(lines), 1)))
    return backend.line(x, with_gaps(lines), target, **kwargs)


def plot_partial_dependence(
    dataset: xr.Dataset,
    *,
    features: Sequence[str] | None = None,
    max_curves: int = 50,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot partial dependence with its band, and the curves of single rows.

    Each feature, of each class, has a panel. A categorical column has points at its levels instead
    of curves, and intervals instead of the band.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.partial_dependence`.
    features : list of str, optional
        Features to plot, in this order; all by default.
    max_curves : int
        If there are more rows, this many curves are shown, evenly spaced.
    backend : {"matplotlib", "plotly", "bokeh", "none"}, optional
    **pc_kwargs
        Passed to ``PlotCollection.wrap``.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        For a dataset of another function, and unknown features.
    """
    required(dataset, "bx.partial_dependence", "partial_dependence_band", "bands", ONE_AXIS)
    count("max_curves", max_curves)
    known = dataset["feature"].values.tolist()
    names = names_among("features", known if features is None else features, known)
    n = dataset.sizes["obs"]
    rows = np.unique(np.linspace(0, n - 1, min(n, max_curves)).round().astype(int))
    chosen = in_panels(dataset.sel(feature=names).isel(obs=rows), "feature")
    mean, value = chosen["partial_dependence_mean"], chosen["value"]
    band = chosen["partial_dependence_band"]
    along = {"x": value, "joined": continuous(value), "color": "C0"}
    gray = {"color": "gray", "alpha": 0.35, "width": 0.8}
    some = f"{len(rows)} of {n} observations" if len(rows) < n else "single observations"
    units, prob = units_of_result(dataset), dataset.attrs["ci_prob"]
    level = "mean response" if dataset.attrs.get("scale") == "response" else "f"
    level = "mean or sd" if of_processes(dataset) and level != "f" else level
    return draw(
        mean.rename("f"),
        [
            ("ice", _curves, chosen["ice_mean"], {"value": value, **gray}),
            ("band", intervals_along, band, {"width": 3, "alpha": 0.35, **along}),
            ("point_estimate", means_along, mean, {"size": 30, **along}),
            *value_axis(value, "weight" if about(dataset) else level),
        ],
        f"Partial dependence{about(dataset)} [{units}], {prob:.0%} band; gray: {some}",
        pc_kwargs,
        backend=backend,
        cols=["feature"],
        sharey=not of_processes(dataset),
    )


def plot_components(
    dataset: xr.Dataset,
    *,
    components: Sequence[str] | None = None,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot components of f, each against the first feature that it varies with.

    A component of a single feature is a curve with its band, through the rows of the dataset. Other
    components are points with intervals. Titles state shares of variance.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.components`.
    components : list of str, optional
        Components to plot, in this order. By default all but constants; if there are more than 24,
        the components with the largest shares.
    backend : {"matplotlib", "plotly", "bokeh", "none"}, optional
    **pc_kwargs
        Passed to ``PlotCollection.wrap``.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        For a dataset of another function, and unknown or constant components.
    """
    required(dataset, "bx.components", "component_mean", "components", ONE_AXIS)
    varying = dataset["component"].values[dataset["along"].values != ""].tolist()
    names = names_among("components", varying if components is None else components, varying)
    some = ""
    if len(names) > MOST_PANELS:
        share = abs(dataset["share"].sel(component=names))
        size = -share.mean([dim for dim in share.dims if dim != "component"]).values
        kept = np.sort(np.argsort(size, kind="stable")[:MOST_PANELS])
        some = f" ({MOST_PANELS} of {len(names)})"
        names = [names[k] for k in kept]
    dataset = in_panels(dataset.sel(component=names), "component")
    names = dataset["component"].values.tolist()
    prob, backend = dataset.attrs["ci_prob"], backend_named(backend)
    ends = interval_of(dataset.drop_vars("component"), "component", prob)
    ends = ends.assign_coords(component=dataset["component"]).sel(component=names)
    chosen = dataset.sel(component=names)
    value = dataset["value"].sel(feature=chosen["along"])

    def title_of(da: xr.DataArray) -> str:
        """The component's name, unless it is its feature's, and its share of variance."""
        one = chosen.sel(component=da["component"].item())
        name = "" if one["component"] == one["along"] else short(one["component"], 2 * WIDEST)
        share = one["share"]
        said = (
            "" if share.isnull() else f"{100 * share.item():z.0f}%".replace("-", "\N{MINUS SIGN}")
        )
        if len(name) > WIDEST - 6:
            name = name.replace(":", ":<br>" if backend == "plotly" else ":\n", 1)
        return f"{name} ({said})" if name and said else name or said

    mean, units = chosen["component_mean"], units_of_result(dataset)
    joined = chosen["alone"] & continuous(value)
    along = {"x": value, "joined": joined, "most": MOST_POINTS, "color": "C0"}
    return draw(
        mean.rename("f"),
        [
            ("zero", hline, 0.0, {"color": "gray", "width": 0.8}),
            ("band", intervals_along, ends, {"alpha": 0.35, "width": 0.8, **along}),
            ("point_estimate", means_along, mean, along),
            *value_axis(value, "component", title_of),
        ],
        f"Components{some} [{units}], {prob:.0%} intervals; above: shares of variance",
        pc_kwargs,
        backend=backend,
        cols=["component"],
        sharey=not of_processes(dataset),
    )


def plot_weights(
    dataset: xr.Dataset,
    *,
    features: Sequence[str] | None = None,
    max_features: int | None = 6,
    ci_prob: float | None = None,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot each weight against the value of its feature.

    If only this feature varies over the rows, the weight is a curve with a band. If others vary
    too, up to 40 rows are points with their intervals. More rows are gray points: the line is their
    average over at least 10 rows with similar values, and the band contains all intervals of these
    rows. A column of two values has one average and one interval for each value.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.weights`, with `value`. For a curve, compute weights with
        ``smooth=True`` at points along one feature, with the others fixed.
    features : list of str, optional
        Features to plot, at most 24. By default the largest: the mean absolute weight times the
        standard deviation of the feature.
    max_features : int, optional
        Number of features to plot by default; None for all, up to 24.
    ci_prob : float, optional
        Probability of the equal-tailed intervals; by default the dataset's.
    backend : {"matplotlib", "plotly", "bokeh", "none"}, optional
    **pc_kwargs
        Passed to ``PlotCollection.wrap``.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        If the dataset has no weights or no values of features, for unknown features, and for more
        than 24 features.

    References
    ----------
    Yoshikawa and Iwata, IEEE TNNLS 34 (2023), section V.
    """
    refuse_no_dataset(dataset, "bx.weights")
    if "weight_mean" not in dataset or "value" not in dataset:
        raise ValueError(
            "The dataset has no weights with their `value`. Pass the result of bx.weights, with "
            "Z_new if Z differs from X."
        )
    refuse_several(dataset["weight_mean"])
    if max_features is not None:
        count("max_features", max_features)
    weighed = dataset["value"].where(dataset["weight_mean"].notnull())
    size = abs(dataset["weight_mean"]).mean("obs") * weighed.std("obs")
    known = dataset["feature"].values[np.argsort(-size.values, kind="stable")].tolist()
    most = min(max_features or MOST_PANELS, MOST_PANELS)
    names, some = panel_features(dataset, features, known, most)
    prob = interval_probability(ci_prob, dataset)
    mean, value = dataset["weight_mean"].sel(feature=names), weighed.sel(feature=names)
    ends = interval_of(dataset.sel(feature=names), "weight", prob)
    drawn = [
        _averaged(mean.sel(one), ends.sel(one), value.sel(one), _varies_alone(dataset, one))
        for one in ({"feature": name} for name in names)
    ]
    averaged = xr.concat(drawn, xr.Variable("feature", names), join="outer")
    style = {"joined": averaged["joined"], "color": "C0"}
    band = {"x": averaged["at"], "alpha": 0.3, "width": 2, **style}
    gray = {"x": value, "color": "gray", "alpha": 0.35, "size": 5}
    title = f"Weights{some} [{units_of_result(dataset)}]: mean and {prob:.0%} interval"
    if averaged["grouped"].any():
        title += "; gray: rows; line: their average at similar values; band: all their intervals"
    return draw(
        mean.rename("weight"),
        [
            ("reference", hline, 0.0, REFERENCE),
            ("rows", means_along, mean.where(averaged["grouped"]), gray),
            ("credible_interval", intervals_along, averaged["ends"], band),
            ("point_estimate", means_along, averaged["mean"], {"x": averaged["value"], **style}),
            *value_axis(value, "weight"),
        ],
        title,
        pc_kwargs,
        backend=backend,
        cols=["feature"],
    )


def _varies_alone(dataset: xr.Dataset, one: dict[str, Any]) -> bool:
    """Whether no other feature varies over the rows that have a weight of this one."""
    along = dataset.attrs.get("along")  # several results put together have the first one's
    if along is not None and along not in dataset["feature"].values:
        return False
    known = dataset["weight_mean"].sel(one).notnull()
    others = dataset["value"].drop_sel(one).where(known)
    return not bool((others.max("obs") > others.min("obs")).any())


def _averaged(
    mean: xr.DataArray, ends: xr.DataArray, value: xr.DataArray, alone: bool
) -> xr.Dataset:
    """Average rows (obs,) that are drawn together, and take the outer ends of their intervals."""
    low, high = ends.transpose("ci_bound", ...).values
    arrays = {"value": value.values, "mean": mean.values, "low": low, "high": high}
    rows = pd.DataFrame(arrays).dropna(subset="value").sort_values("value", kind="stable")
    names, x = level_names(value), rows["value"]
    if not names and (alone or len(rows) <= MOST_SINGLE):
        group, joined = np.arange(len(rows)), alone
    else:
        shares = np.linspace(0.0, 1.0, min(MOST_GROUPS, len(rows) // NEIGHBORS) + 1)
        cuts = sorted(names)[1:] if names else np.unique(x.quantile(shares[1:-1]))
        group, joined = np.searchsorted(cuts, x, side="right"), not names
    columns = {"value": "mean", "mean": "mean", "low": "min", "high": "max"}
    groups = rows.groupby(group).agg(columns).reset_index(drop=True)
    found = groups[["value", "mean"]].rename_axis("group").to_xarray()
    at = groups["value"].to_numpy(copy=True)
    if joined and len(at):  # a band reaches to the outermost rows
        at[[0, -1]] = x.iloc[[0, -1]]
    return found.assign(
        at=("group", at),
        ends=(("group", "ci_bound"), groups[["low", "high"]]),
        joined=joined,
        grouped=len(groups) < len(rows),
    )
