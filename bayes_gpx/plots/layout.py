"""How the panels of a figure are laid out, the same for every plot."""

from importlib import import_module
from importlib.util import find_spec
from textwrap import wrap
from typing import Any

from arviz_base import rcParams

from bayes_gpx.validation import one_of

BACKENDS = ("matplotlib", "bokeh", "plotly", "none")
"""What arviz_plots draws by; "none" runs everything and draws nothing."""

WITH_IMAGES = ("matplotlib", "plotly", "none")
"""Those of them through which arviz_plots draws images."""

WIDTH = 7.0
"""Width of a figure, in inches."""

HEIGHTS = {1: 3.4, 2: 2.5, 3: 2.0, 4: 1.8}
"""Height of a panel with two axes, in inches, by the number of columns."""

POINTS, LINE = 10, 88
"""Size of letters, in points, and the most letters of them in a line of a title."""

DOTS, LETTER, GAP = 100, 0.085, 0.8
"""For plotly: dots per inch, width of a letter and smallest gap between panels, in inches."""

BELOW: dict[str, dict[str, Any]] = {
    "matplotlib": {"loc": "outside lower center", "ncols": 4, "frameon": False, "fontsize": 9},
    "plotly": {"legend_orientation": "h", "legend_y": -0.15},
    "bokeh": {"side": "below", "orientation": "horizontal"},
}
"""How each backend places a legend below the panels."""


def columns_for(count):
    """Three columns, or two or four if one panel were alone in the last row."""
    return next((c for c in (3, 2, 4) if count % c != 1), 3) if count > 1 else 1


def lay_out(pc_kwargs, count, height=None, *, backend, above=0.5, between=GAP, **figure):
    """Fill in columns and the figure's size in `pc_kwargs`, in place, unless they are given.

    `height` is the height of a panel, `above` the height of the title, and `between` the space left
    of each panel, all in inches; plotly leaves little space, see `beside`. `figure` contains other
    arguments of the figure.
    """
    columns = min(count, pc_kwargs.setdefault("col_wrap", columns_for(count)))
    height = above + -(-count // columns) * (height or HEIGHTS.get(columns, HEIGHTS[4]))
    figure |= {"figsize": (WIDTH, height), "figsize_units": "inches"}
    if backend == "matplotlib":
        figure["layout"] = "constrained"
    elif backend == "plotly":
        figure |= {"figsize": (DOTS * WIDTH, DOTS * height), "figsize_units": "dots"}
        if columns > 1:
            figure["plot_hspace"] = min(between / WIDTH, 0.5 / (columns - 1))
    pc_kwargs.setdefault("figure_kwargs", figure)


def backend_named(name, able=BACKENDS):
    """Check a backend's name and whether it is installed; ArviZ's `plot.backend` by default."""
    backend = rcParams["plot.backend"] if name is None else name
    one_of("backend", backend, able)
    if backend != "none" and find_spec(backend) is None:
        raise ValueError(f"backend={backend!r} is not installed: pip install {backend}.")
    return backend


def beside(names):
    """Room for names left of a panel, in inches."""
    return GAP + LETTER * max(map(len, names), default=0)


def add_legend(pc, styles):
    """Name what is drawn, below the panels; `styles` has properties of lines by name."""
    if pc.backend in BELOW:
        draw = import_module(f"arviz_plots.backend.{pc.backend}").legend
        place = BELOW[pc.backend] | {"legend_dim": (), "update_visuals": False}
        alpha = "opacity" if pc.backend == "plotly" else "alpha"
        drawn = [{alpha if k == "alpha" else k: v for k, v in s.items()} for s in styles.values()]
        if pc.backend != "matplotlib":  # whose legends alone have markers
            drawn = [{k: v for k, v in style.items() if k != "marker"} for style in drawn]
        draw(pc, drawn, list(styles), **place)


def add_title(pc, text):
    """Add a caption, in lines that fit the usual width, and give all letters one size."""
    text = "\n".join(wrapped for line in text.split("\n") for wrapped in wrap(line, LINE))
    if pc.backend == "plotly":
        text = text.replace("\n", "<br>")
        margin = 80 + 20 * text.count("<br>")
        pc.viz["figure"].item().update_layout(margin_t=margin, title={"x": 0.01, "font_size": 14})
    pc.add_title(text)
    if pc.backend != "matplotlib":
        return
    pc.viz["figure_title"].item().set(x=0.01, ha="left", size=POINTS, weight="normal")
    for axes in pc.viz["figure"].item().axes:
        axes.tick_params(labelsize=POINTS - 1)
        for label in (axes.title, axes.xaxis.label, axes.yaxis.label):
            label.set(size=min(label.get_size(), POINTS), weight="normal")
