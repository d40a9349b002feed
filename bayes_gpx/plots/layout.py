"""How layers are drawn in the panels of a figure, with its caption, legend and color bars."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from textwrap import wrap
from typing import Any, NamedTuple, cast

import matplotlib as mpl
import numpy as np
import xarray as xr
from arviz_base import rcParams
from arviz_plots import PlotCollection
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, Normalize, to_hex
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator, MaxNLocator

from bayes_gpx.aliases import Backend
from bayes_gpx.plots.selection import IN_A_ROW
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

BETWEEN, SHORT = 6, 10
"""Letters between the titles of two panels next to each other, and in the shortest line."""

SLANTED = 3
"""Letters of room that a slanted name below a panel needs."""

SURE = 0.5
"""Share of a line that panels next to each other have for their titles in any layout."""

MARGIN, LINE_HEIGHT = 8, 0.17
"""Dots between titles that are next to each other, and the height of a line, in inches."""

DOTS, LETTER, GAP = 100, 0.085, 0.8
"""For plotly: dots per inch, width of a letter and smallest gap between panels, in inches."""

MOST_TICKS = 5
"""Most ticks of a color bar; numbers with many digits then do not touch."""

BELOW: dict[str, dict[str, Any]] = {
    "matplotlib": {"loc": "outside lower center", "ncols": 4, "frameon": False, "fontsize": 9},
    "plotly": {"legend_orientation": "h", "legend_y": -0.15},
    "bokeh": {"side": "below", "orientation": "horizontal"},
}
"""How each backend places a legend below the panels."""

type Layer = tuple[str, Callable[..., Any], xr.DataArray | float, Mapping[str, Any]]
"""Name in `PlotCollection.viz` or "", visual, variable or a number for each panel, aesthetics."""

type Styles = dict[str, dict[str, Any]]
"""Properties of lines by their name in a legend."""


class Scale(NamedTuple):
    """Colors of numbers."""

    norm: Normalize
    cmap: str | Colormap

    def rgb(self, values: np.ndarray) -> np.ndarray:
        """Colors (..., 3); numbers beyond the ends have the last colors."""
        return mpl.colormaps.get_cmap(self.cmap)(self.norm(values))[..., :3]


class Bar(NamedTuple):
    """A color bar next to one panel, chosen by its coordinates, or next to all of them."""

    scale: Scale
    label: str | None
    panel: dict[str, Any] | None = None
    ticks: dict[float, str] | None = None
    options: Mapping[str, Any] = {}  # of matplotlib


def draw(
    data: xr.DataArray,
    layers: Iterable[Layer],
    title: str,
    pc_kwargs: dict[str, Any],
    *,
    backend: Backend | None,
    cols: Sequence[str] = (),
    height: float | None = None,  # of a panel, in inches, like the next two
    above: float = 0.5,  # for the caption
    between: float = GAP,  # left of each panel; plotly leaves little space, see `beside`
    sharex: bool = False,
    sharey: bool = False,
    legend: Styles | None = None,
    bars: Iterable[Bar] = (),
    **wrapped: Any,
) -> PlotCollection:
    """Draw layers in panels along `cols`, with a caption, a legend and color bars."""
    backend = backend_named(backend)
    panels = math.prod(data.sizes[dim] for dim in cols)
    together = data[cols[0]].attrs.get(IN_A_ROW) if cols else None
    usual = together if together in HEIGHTS else columns_for(panels)
    columns = min(panels, pc_kwargs.setdefault("col_wrap", usual))
    height = above + -(-panels // columns) * (height or HEIGHTS.get(columns, HEIGHTS[4]))
    figure: dict[str, Any] = {"sharex": sharex, "sharey": sharey}
    figure |= {"figsize": (WIDTH, height), "figsize_units": "inches"}
    if backend == "matplotlib":
        figure["layout"] = "constrained"
    elif backend == "plotly":
        figure |= {"figsize": (DOTS * WIDTH, DOTS * height), "figsize_units": "dots"}
        if columns > 1:
            figure["plot_hspace"] = min(between / WIDTH, 0.5 / (columns - 1))
    sized = "figure_kwargs" in pc_kwargs
    pc_kwargs.setdefault("figure_kwargs", figure)
    pc = PlotCollection.wrap(data.to_dataset(), list(cols), backend=backend, **wrapped, **pc_kwargs)
    known = data.notnull().any([dim for dim in data.dims if dim not in cols])
    for name, visual, variable, aesthetics in layers:
        if not isinstance(variable, xr.DataArray):
            variable = xr.where(known, variable, np.nan)
        drawn = variable.rename(data.name).to_dataset()
        pc.map(visual, name, data=drawn, store_artist=bool(name), **aesthetics)
    for bar in bars:
        color_bar(pc, bar)
    if legend is not None:
        add_legend(pc, legend)
    add_title(pc, title, grows=not sized)
    return pc


def columns_for(count: int) -> int:
    """Three columns, or two or four if one panel were alone in the last row."""
    return next((c for c in (3, 2, 4) if count % c != 1), 3) if count > 1 else 1


def backend_named(name: Backend | None, able: Sequence[str] = BACKENDS) -> Backend:
    """Check a backend's name and whether it is installed; ArviZ's `plot.backend` by default."""
    backend = rcParams["plot.backend"] if name is None else name
    one_of("backend", backend, able)
    if backend != "none" and find_spec(backend) is None:
        raise ValueError(f"backend={backend!r} is not installed: pip install {backend}.")
    return cast(Backend, backend)


def beside(names: Iterable[str]) -> float:
    """Room for names left of a panel, in inches."""
    return GAP + LETTER * max(map(len, names), default=0)


def room_right(texts: xr.DataArray, names: Iterable[str], columns: int) -> float:
    """Room for small texts right of the data of a panel, as a share of the data's width."""
    panel = (WIDTH - beside(names)) / columns - 0.15
    taken = min(0.7, 0.8 * LETTER * max(map(len, texts.values.ravel())) / panel)
    return taken / (1.0 - taken)


def add_legend(pc: PlotCollection, styles: Styles) -> None:
    """Name what is drawn, below the panels."""
    if pc.backend in BELOW:
        legend = import_module(f"arviz_plots.backend.{pc.backend}").legend
        place = BELOW[pc.backend] | {"legend_dim": (), "update_visuals": False}
        alpha = "opacity" if pc.backend == "plotly" else "alpha"
        drawn = [{alpha if k == "alpha" else k: v for k, v in s.items()} for s in styles.values()]
        if pc.backend != "matplotlib":  # whose legends alone have markers
            drawn = [{k: v for k, v in style.items() if k != "marker"} for style in drawn]
        legend(pc, drawn, list(styles), **place)


def add_title(pc: PlotCollection, text: str, *, grows: bool) -> None:
    """Add a caption, in lines that fit the usual width, and give all letters one size.

    With `grows`, the figure becomes higher where titles take more lines.
    """
    text = "\n".join(wrapped for line in text.split("\n") for wrapped in wrap(line, LINE))
    if pc.backend == "plotly":
        text = text.replace("\n", "<br>")
        margin = 80 + 20 * text.count("<br>")
        pc.viz["figure"].item().update_layout(margin_t=margin, title={"x": 0.01, "font_size": 14})
    pc.add_title(text)
    if pc.backend != "matplotlib":
        return
    pc.viz["figure_title"].item().set(x=0.01, ha="left", size=POINTS, weight="normal")
    figure = pc.viz["figure"].item()
    for axes in figure.axes:
        axes.tick_params(labelsize=POINTS - 1)
        for label in (axes.title, axes.xaxis.label, axes.yaxis.label):
            label.set(size=min(label.get_size(), POINTS), weight="normal")
        if (place := axes.get_subplotspec()) is not None:
            grid = place.get_gridspec()
            across = max(LINE // grid.ncols - BETWEEN, SHORT)
            up = max(int(figure.get_figheight() / grid.nrows / LETTER), SHORT)
            _wrap(axes.yaxis.label, up)
            if grid.ncols == 1:
                _wrap(axes.title, across)
            named = isinstance(axes.xaxis.get_major_locator(), FixedLocator)
            levels = axes.get_xticklabels() if named else []
            if len(levels) > across // SLANTED:  # upright names need less room
                levels = [level for level in levels if not level.get_rotation()]
            if sum(len(level.get_text()) + 1 for level in levels) > across:
                for level in levels:
                    level.set(rotation=25, ha="right", rotation_mode="anchor")
    for written in figure.findobj(Text):
        if "$" in written.get_text():  # of a name: not a formula
            written.set_parse_math(False)
    added = _wrap_to_panels(figure)
    if grows:
        figure.set_figheight(figure.get_figheight() + LINE_HEIGHT * added)


def _wrap(label: Text, letters: int) -> None:
    """Break the lines of a label between words."""
    lines = label.get_text().split("\n")
    wrapped = (wrap(line, letters, break_long_words=False) for line in lines)
    label.set_text("\n".join(chain.from_iterable(wrapped)))


def _wrap_to_panels(figure: Any) -> int:
    """Break titles and names of axes that reach into others; return the number of added lines."""
    # Matplotlib leaves no room for them, and how wide they are is known after a layout.
    long, added = [], Counter[int]()
    for axes in figure.axes:
        place = axes.get_subplotspec()
        columns = 1 if place is None else place.get_gridspec().ncols
        for label in (axes.title, axes.xaxis.label) if columns > 1 else ():
            if max(map(len, label.get_text().split("\n"))) > SURE * LINE / columns:
                long.append((label, place.rowspan.start))
    if not long:
        return 0
    figure.draw_without_rendering()
    boxes = [axes.get_window_extent() for axes in figure.axes if axes.get_subplotspec() is not None]
    centers = np.unique([round(0.5 * (box.x0 + box.x1)) for box in boxes])
    apart = np.diff(centers).min() if len(centers) > 1 else figure.bbox.width
    for label, row in long:
        box = label.get_window_extent()
        center = 0.5 * (box.x0 + box.x1)
        room = min(apart, 2.0 * center, 2.0 * (figure.bbox.width - center)) - MARGIN
        if box.width > room:
            lines = label.get_text().split("\n")
            _wrap(label, max(int(max(map(len, lines)) * room / box.width), SHORT))
            more = label.get_text().count("\n") + 1 - len(lines)
            added[row] = max(added[row], more)
    return added.total()


def symmetric(values: xr.DataArray, cmap: str) -> Scale:
    """Scale with 0 in its middle."""
    limit = float(np.abs(values).max()) or 1.0
    return Scale(Normalize(-limit, limit), cmap)


def around_or_between(values: xr.DataArray, signed: str, unsigned: str) -> Scale:
    """Scale with 0 in its middle; or between numbers of one sign, if 0 is far from them."""
    low, high = float(values.min()), float(values.max())
    if low < high and min(abs(low), abs(high)) > high - low and low * high > 0.0:
        return Scale(Normalize(low, high), unsigned)
    return symmetric(values, signed)


def from_zero(values: xr.DataArray, cmap: str) -> Scale:
    """Scale from 0 to the largest of numbers that are not negative."""
    return Scale(Normalize(0.0, float(values.max()) or 1.0), cmap)


def color_bar(pc: PlotCollection, bar: Bar) -> None:
    """Add a color bar to a figure of matplotlib or plotly; other backends have none."""
    figure, ticks = pc.viz["figure"].item(), bar.ticks
    targets = pc.viz["plot"].sel(bar.panel or {}).values.ravel()
    targets = [target for target in targets if target is not None]
    if pc.backend == "matplotlib":
        mappable, letters = ScalarMappable(*bar.scale), LINE
        if bar.options.get("location") != "bottom":
            rows = 1 if bar.panel is None else targets[0].get_subplotspec().get_gridspec().nrows
            letters = max(int(0.8 * figure.get_figheight() / rows / LETTER), SHORT)
        label = "\n".join(wrap(bar.label or "", letters))
        drawn = figure.colorbar(mappable, ax=targets, label=label, **bar.options)
        if ticks is None:
            drawn.locator = MaxNLocator(MOST_TICKS)
        else:
            drawn.set_ticks(list(ticks), labels=list(ticks.values()))
    elif pc.backend == "plotly":
        _plotly_bar(figure, bar, targets[0])


def _plotly_bar(figure: Any, bar: Bar, target: Any) -> None:
    """Add a color bar by invisible points: next to its panel, or to the right of earlier bars."""
    norm, cmap = bar.scale
    shades = mpl.colormaps.get_cmap(cmap)(np.linspace(0.0, 1.0, 33))
    drawn: dict[str, Any] = {"title": {"text": bar.label, "side": "right"}}
    drawn |= {"nticks": MOST_TICKS, "thickness": 14}
    if bar.ticks is not None:
        drawn |= {"tickvals": list(bar.ticks), "ticktext": list(bar.ticks.values())}
    if bar.panel is None:
        drawn["x"] = 1.02 + 0.14 * sum(
            trace.marker.showscale is True for trace in figure.data if trace.type == "scatter"
        )
    else:
        across, up = next(target.select_xaxes()).domain, next(target.select_yaxes()).domain
        drawn |= {"x": across[1], "y": sum(up) / 2, "len": up[1] - up[0]}
    marker: dict[str, Any] = {"colorscale": [*map(to_hex, shades)], "colorbar": drawn}
    marker |= {"cmin": norm.vmin, "cmax": norm.vmax, "color": [norm.vmin], "showscale": True}
    figure.add_scatter(x=[None], y=[None], mode="markers", marker=marker, showlegend=False)
