"""A figure of a table: our numbers as filled points beside the published ones, which are hollow."""

import matplotlib.pyplot as plt

COLUMNS = 4
WIDE = 8
"""Factor between a panel's numbers from which its axis may be logarithmic."""

APART = 0.18
"""Vertical distance between the points of a method, in rows."""


def plot(table, label, *, panel="data", reading=None, log=False):
    """A panel for each data set, a row for each method, with standard deviations.

    Panels without a number of ours are left out.

    Parameters
    ----------
    table : DataFrame
        method, mean, sd, published_mean, published_sd, and the columns that are named.
    label : str
        Of the common axis.
    panel : str
        Column that tells panels apart.
    reading : str, optional
        Column that tells several numbers of ours for one published number apart.
    log : bool
        Logarithmic axes where numbers differ much.
    """
    panels = [own for own in table.groupby(panel, sort=False) if own[1]["mean"].notna().any()]
    methods = list(table["method"].unique())
    readings = (
        {"ours": table} if reading is None else dict(list(table.groupby(reading, sort=False)))
    )
    columns = min(COLUMNS, len(panels))
    lines = -(-len(panels) // columns)
    figure, axes = plt.subplots(
        lines,
        columns,
        figsize=(3 * columns + 1, lines * (len(methods) * 0.12 * (2 + len(readings)) + 0.8) + 0.6),
        sharey=True,
        layout="constrained",
        squeeze=False,
    )
    for axis, (name, own) in zip(axes.flat, panels, strict=False):
        at = own["method"].map(methods.index) - APART * len(readings) / 2
        first = own.assign(at=at).drop_duplicates("method")
        numbers = first["published_mean"], first["published_sd"]
        _points(axis, *numbers, first["at"], label="published", fmt="D", color="black", mfc="white")
        for k, (title, whole) in enumerate(readings.items()):
            part = own.loc[own.index.intersection(whole.index)]
            places = at[part.index] + APART * (k + 1)
            _points(axis, part["mean"], part["sd"], places, label=title, fmt="o", color=f"C{k}")
        axis.set(title=name, yticks=range(len(methods)), yticklabels=methods)
        numbers = own[["mean", "published_mean"]].stack()
        if log and numbers.max() > WIDE * numbers.min():
            axis.set_xscale("log")
    axes[0, 0].set_ylim(len(methods) - 0.5, -0.5)
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    figure.supxlabel(label, fontsize="medium")
    return figure


def _points(axis, mean, sd, at, **style):
    axis.errorbar(mean, at, xerr=sd.fillna(0.0), markersize=5, linewidth=1, **style)
