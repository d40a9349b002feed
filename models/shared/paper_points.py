"""Plot a table: our numbers as filled points, and the published ones as hollow points."""

import matplotlib.pyplot as plt
import numpy as np

COLUMNS = 4
WIDE = 8
"""A panel's axis can be logarithmic if its numbers differ by more than this factor."""

APART = 0.18
"""Vertical distance between the points of a method, in rows."""

BEYOND = 1e4
"""Published numbers above this value are bounds, drawn as an arrow at the edge of the panel."""

LETTERS = 60
"""Number of letters that fit in a line of the legend."""

ROOM = 1.3
"""Factor between the numbers of a logarithmic panel and its edges."""


def plot(table, label, *, panel="data", reading=None, log=False):
    """Plot one panel per data set and one row per method, with standard deviations.

    `table` contains method, mean, sd, published_mean, published_sd, and the columns named by
    `panel` and, if there are several numbers for one published number, by `reading`. `log` allows
    logarithmic axes for numbers that differ much. Panels without a number of ours are left out.
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
        bound = first["published_mean"] > BEYOND
        known, said = first[~bound], {"label": "published", "color": "black", "mfc": "white"}
        numbers = known["published_mean"], known["published_sd"]
        _points(axis, *numbers, known["at"], fmt="D", **said)
        for at_bound, least in zip(first["at"][bound], first["published_mean"][bound], strict=True):
            _at_the_edge(axis, at_bound, f">10$^{{{np.log10(least):.0f}}}$")
        for k, (title, whole) in enumerate(readings.items()):
            part = own.loc[own.index.intersection(whole.index)]
            places = at[part.index] + APART * (k + 1)
            _points(axis, part["mean"], part["sd"], places, label=title, fmt="o", color=f"C{k}")
        axis.set(title=name, yticks=range(len(methods)), yticklabels=methods)
        numbers = own[["mean", "published_mean"]].stack()
        numbers = numbers[numbers < BEYOND]
        if log and numbers.max() > WIDE * numbers.min():
            axis.set(xscale="log", xlim=(numbers.min() / ROOM, numbers.max() * ROOM))
    axes[0, 0].set_ylim(len(methods) - 0.5, -0.5)
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    handles, labels = axes[0, 0].get_legend_handles_labels()
    together = len(labels) if sum(map(len, labels)) < LETTERS else 3
    figure.legend(handles, labels, loc="outside upper center", ncols=together)
    figure.supxlabel(label, fontsize="medium")
    return figure


def _at_the_edge(axis, at, text):
    """Draw an arrow for a number beyond the right edge."""
    style = {"xycoords": axis.get_yaxis_transform(), "textcoords": "offset points", "va": "center"}
    arrow = {"arrowstyle": "->", "color": "black"}
    axis.annotate(text, (1.0, at), (-22, 0), ha="right", fontsize=8, arrowprops=arrow, **style)


def _points(axis, mean, sd, at, **style):
    axis.errorbar(mean, at, xerr=sd.fillna(0.0), markersize=5, linewidth=1, **style)
