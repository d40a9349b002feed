"""Which features and pairs matter most: averages, ranks, other measures, and submodels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import arviz_stats  # noqa: F401
import matplotlib as mpl
import numpy as np
import xarray as xr
from arviz_plots import PlotCollection
from arviz_plots.plot_collection import backend_from_object
from arviz_plots.visuals import hline, labelled_title, vline

from bayes_gpx.aliases import Backend
from bayes_gpx.assess.project import Projection
from bayes_gpx.draws.intervals import BOUNDS, interval_probability
from bayes_gpx.plots.layout import WITH_IMAGES, Layer, add_legend, backend_named, beside, draw
from bayes_gpx.plots.selection import (
    NO_INTERVAL,
    refuse_no_dataset,
    refuse_several,
    short,
    shortened,
)
from bayes_gpx.plots.visuals import (
    REFERENCE,
    bars_across,
    cells,
    decimals,
    is_plotly,
    label_axes,
    names_across,
    names_down,
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

BESIDE = ("_mc_error", "_refitted", "_p")
"""Suffixes of variables that accompany a measure."""


def _without_effect(null: xr.DataArray) -> xr.DataArray:
    """From the smallest of the replicates to their 95% quantile, (ci_bound, feature)."""
    ends = [null.min("null"), null.reduce(np.quantile, "null", q=0.95)]
    return xr.concat(ends, xr.Variable("ci_bound", BOUNDS))


def _matrix(
    da: xr.DataArray,
    target: Any,
    *,
    largest: float,
    form: str,
    size: float = 8,
    triangle: bool = False,
) -> Any:
    """Draw shades of a matrix relative to the largest number, with its numbers if they are few."""
    shares = da.values / (largest or 1.0)
    rgb = mpl.colormaps[SHADES](DARKEST * np.nan_to_num(shares))[..., :3]
    rgb[np.isnan(shares)] = ABSENT
    if triangle:
        rgb[np.triu_indices(len(rgb), 1)] = 1.0
    image, backend = cells(rgb, target, aspect="auto"), backend_from_object(target)
    middle = "middle" if is_plotly(target) else "center"
    style = {"horizontal_align": "center", "vertical_align": middle, "size": size}
    for (i, j), share in np.ndenumerate(shares):
        if share >= LEAST and max(shares.shape) <= MOST_NUMBERS:
            color = "white" if share > DARK else "black"
            backend.text(j, i, format(da.values[i, j], form), target, color=color, **style)
    return image


def _ranked(
    ranked: Any, name: str, max_features: Any, backend: Backend | None
) -> tuple[bool, Backend]:
    """Whether the ranks of a result come from one draw, without probabilities; and the backend."""
    refuse_no_dataset(ranked, "bx.ranking")
    if name not in ranked or "probability_rank" not in ranked:
        raise ValueError(f"The dataset has no {name} with ranks. Pass the result of bx.ranking.")
    count("max_features", max_features)
    return bool(ranked["probability_rank"].isnull().all()), backend_named(backend, WITH_IMAGES)


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
    alone, backend = _ranked(ranked, "average_relevance_mean", max_features, backend)
    order = np.argsort(ranked["rank_mean"].values, kind="stable")[:max_features]
    chosen = ranked.isel(feature=order, rank=slice(max_features))
    m, known = len(order), ranked.sizes["feature"]
    panels = ["average"] if alone else ["average", "rank"]

    def in_panel(array: xr.DataArray, name: str = "average") -> xr.DataArray:
        """Put an array into one panel; those of nothing but NaN are skipped."""
        return array.expand_dims(panel=[name]).reindex(panel=panels)

    mean = in_panel(chosen["average_relevance_mean"]).rename("relevance")
    names = shortened(chosen["feature"].values, 24)
    rows = {"names": names, "edge": 0.5}
    layers: list[Layer] = [
        ("point_estimate", points_across, mean, {"color": "C0"}),
        ("", names_down, mean, rows),
        ("xlabel", label_axes, mean, {"x": "relevance per sd of the feature"}),
    ]
    interval, reference = NO_INTERVAL, "without effect it is above 0, too"
    if not alone:
        interval = f"{ranked.attrs['ci_prob']:.0%} intervals and ranks over hyperparameters"
        bounds = in_panel(chosen["average_relevance_interval"])
        ranks = in_panel(chosen["probability_rank"], "rank").transpose(..., "feature", "rank")
        numbers = chosen["rank"].values.tolist() if m <= MOST_NUMBERS else []
        matrix = {"largest": 1.0, "form": ".2f", "size": 8 if m <= MOST_BESIDE else 6}
        layers = [
            ("interval", bars_across, bounds, {"color": "C0", "width": 3}),
            *layers,
            ("ranks", _matrix, ranks, matrix),
            ("", names_across, ranks, {"names": numbers}),
            ("", names_down, ranks, rows),
            ("rank_label", label_axes, ranks, {"x": "rank, with its probability"}),
        ]
    if "relevance_null" in chosen:
        reference = "gray: features without effect"
        null = in_panel(_without_effect(chosen["relevance_null"]))
        layers.insert(0, ("null", bars_across, null, {"color": "gray", "width": 9, "alpha": 0.45}))
    some = f", first {m} of {known} features" if m < known else ""
    return draw(
        mean,
        layers,
        f"Relevance, averaged over observations{some}: {interval}; {reference}",
        pc_kwargs,
        backend=backend,
        cols=["panel"],
        height=0.9 + 0.27 * m,
        between=beside(names),
        sharey=True,
    )


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
        Number of pairs that count as the strongest, at most all but one.
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
    alone, backend = _ranked(ranked, "average_interaction_mean", max_features, backend)
    count("top", top)
    top = min(top, max(ranked.sizes["rank"] - 1, 1))
    mean = ranked["average_interaction_mean"].values
    first, second = ranked["first"].values, ranked["second"].values
    strongest = np.argsort(-mean, kind="stable")
    every = dict.fromkeys(np.column_stack([first, second])[strongest].ravel())
    names = list(every)[: max_features and max(max_features, 2)]
    m, labels = len(names), shortened(names, 24)

    numbers, largest = {"mean": mean}, float(np.nanmax(mean))
    titles = {"mean": "average, per sd of both", "top": f"probability: among the first {top}"}
    styles = {"mean": {"largest": largest, "form": f".{decimals(largest)}f"}}
    if not alone:
        numbers["top"] = ranked["probability_top"].sel(rank=top).values
        styles["top"] = {"largest": 1.0, "form": ".2f"}
    square = np.full((len(numbers), m, m), np.nan)
    for a, b, *values in zip(first, second, *numbers.values(), strict=True):
        if a in names and b in names:
            i, j = sorted([names.index(a), names.index(b)])
            square[:, j, i] = values
    coords = {"panel": [*numbers], "feature": names[1:], "feature_bis": names[:-1]}
    matrices = xr.DataArray(square[:, 1:, :-1], coords, [*coords], "interaction")

    upright = max(map(len, labels)) > 4
    columns = {"names": labels[:-1], "upright": upright}
    layers: list[Layer] = []
    for k, (name, style) in enumerate(styles.items()):
        one = matrices.where(matrices["panel"] == name)  # panels of nothing but NaN are skipped
        layers += [
            (f"map_{k}", _matrix, one, {"triangle": True, **style}),
            ("", names_across, one, columns),
            ("", names_down, one, {"names": labels[1:], "edge": 0.5}),
            (f"title_{k}", labelled_title, one, {"text": titles[name]}),
        ]
    some = f", {m} of {len(every)} features" if m < len(every) else ""
    some += "; gray: not requested" if matrices[0].notnull().sum() < m * (m - 1) / 2 else ""
    why = f"; {NO_PROBABILITIES}" if alone else ""
    pc_kwargs.setdefault("col_wrap", 2 if m <= MOST_BESIDE else 1)
    return draw(
        matrices,
        layers,
        f"Interactions, averaged over observations{some}{why}",
        pc_kwargs,
        backend=backend,
        cols=["panel"],
        height=0.6 + 0.08 * max(map(len, labels)) * upright + 0.27 * m,
        between=beside(labels),
        sharex=True,
        sharey=True,
    )


def _measures(dataset: xr.Dataset) -> dict[str, xr.DataArray]:
    """Measures with one number for each feature, or for each draw and feature, by name."""
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


def _separators(da: xr.DataArray, target: Any, **kwargs: Any) -> None:
    """Draw a line between any two features."""
    for row in range(1, da.size):
        backend_from_object(target).hline(row - 0.5, target, **kwargs)


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
    means: dict[str, xr.DataArray] = {}
    intervals, references, single = {}, {}, []
    dataset: Any
    for dataset in datasets:
        refuse_no_dataset(dataset, "bx.relevance or bx.importances")
        for name, measure in _measures(dataset).items():
            samples = [dim for dim in measure.dims if dim != "feature"]
            mean = measure.mean(samples)
            largest = float(mean.max()) or 1.0
            means[name] = mean / largest
            if samples and bool((measure.max(samples) > measure.min(samples)).any()):
                intervals[name] = measure.azstats.eti(prob=prob, dim=samples) / largest
            else:
                intervals[name] = mean.expand_dims(ci_bound=BOUNDS) * np.nan
                single.append(name.replace("_", " "))
            null = dataset.get(f"{name.removeprefix('average_')}_null")
            if null is not None:
                references[name] = _without_effect(null) / largest
    features = next(iter(means.values()), xr.DataArray([]))
    for name, mean in means.items():
        if set(mean["feature"].values) != set(features["feature"].values):
            raise ValueError(
                f"{name} and {next(iter(means))} have different features. Pass results for the "
                "same features."
            )
    if not means:
        raise ValueError("No dataset was given. Pass results of bx.relevance, bx.importances.")
    sizes: Any = sum(mean.sel(feature=features["feature"]) for mean in means.values())
    order = features["feature"].values[np.argsort(-sizes.values, kind="stable")]

    def stacked(arrays: dict[str, xr.DataArray]) -> xr.DataArray:
        dim = xr.Variable("measure", list(arrays))
        return xr.concat(list(arrays.values()), dim).sel(feature=order)

    mean, number = stacked(means).rename("share"), len(means)
    whole, ignored = mean.isel(measure=0, drop=True), {"ignore_aes": "all"}
    gray = {"color": "gray", "width": 6, "alpha": 0.45, "ignore_aes": {"color", "marker"}}
    effectless: list[Layer] = []
    if references:
        known = stacked(references).reindex(measure=list(means))
        effectless.append(("null", bars_across, known, gray))
    thin = {"width": 1.5, "ignore_aes": {"marker"}}
    names = shortened(order)
    half = min(0.36, 0.12 * (number - 1))
    none = f"; one value, no interval: {', '.join(single)}" if single else ""
    none += (
        "; gray: features without effect"
        if references
        else "; without effect they are above 0, too"
    )
    pc = draw(
        mean,
        [
            ("", _separators, whole, {"color": "#dddddd", "width": 0.8, **ignored}),
            ("", names_down, whole, {"names": names, **ignored}),
            *effectless,
            ("interval", bars_across, stacked(intervals), thin),
            ("point_estimate", points_across, mean, {"size": 25}),
            ("", label_axes, whole, {"x": "share of the largest", **ignored}),
        ],
        f"Measures of relevance, {prob:.0%} intervals{none}",
        pc_kwargs,
        backend=backend,
        height=0.8 + len(names) * (0.12 + 0.11 * number),
        above=0.6 + 0.2 * (number > 4),
        aes={name: ["measure"] for name in ("color", "marker", "y")},
        y=np.linspace(-half, half, number),
    )
    keys = {name.replace("_", " "): {"measure": name} for name in means}
    add_legend(
        pc, {key: pc.get_aes_kwargs(["color", "marker"], "share", at) for key, at in keys.items()}
    )
    return pc


def plot_project(
    found: Projection, *, backend: Backend | None = None, **pc_kwargs: Any
) -> PlotCollection:
    """Plot the scores of all submodels, from small to large.

    Each line is the difference of the expected log predictive density (elpd) from the model with
    all features, with one standard error to both sides. A dotted line marks the suggested size.

    Parameters
    ----------
    found : Projection
        A result of `bayes_gpx.project`.
    backend : {"matplotlib", "plotly", "bokeh", "none"}, optional
    **pc_kwargs
        Passed to ``PlotCollection.wrap``.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        For anything but a result of `bayes_gpx.project`.
    """
    if not isinstance(found, Projection):
        raise ValueError(
            f"The plot was given a {type(found).__name__}. Pass the Projection that bx.project "
            "returned."
        )
    table = found.table
    suggested: list[Layer] = []
    names = [
        f"{size}: + {short(feature)}" if size else "0: no feature"
        for size, feature in table["feature"].items()
    ]
    difference = table["elpd_diff"].to_xarray()
    one_error = table["se"].to_xarray() * xr.DataArray([-1.0, 1.0], dims="ci_bound")
    if found.suggested is not None:
        row = table.index.tolist().index(found.suggested)
        suggested.append(("suggested", hline, row, {"color": "C1", "linestyle": "C2"}))
    what = "difference of elpd from all features, in nats"
    said = "none" if found.suggested is None else str(found.suggested)
    return draw(
        difference,
        [
            ("reference", vline, 0.0, REFERENCE),
            *suggested,
            ("", names_down, difference, {"names": names}),
            ("interval", bars_across, difference + one_error, {"width": 3, "color": "C0"}),
            ("point_estimate", points_across, difference, {"color": "C0"}),
            ("labels", label_axes, difference, {"x": what}),
        ],
        f"Submodels by number of features, suggested: {said}",
        pc_kwargs,
        backend=backend,
        height=0.7 + 0.25 * len(names),
    )
