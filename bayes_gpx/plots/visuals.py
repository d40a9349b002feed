"""What plots draw in a panel, through the backends of arviz_plots."""

import matplotlib as mpl
import numpy as np
from arviz_plots.plot_collection import backend_from_object
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize, to_hex, to_rgb
from matplotlib.ticker import MaxNLocator

from bayes_gpx.plots.selection import short

SIGNED, UNSIGNED = "RdBu_r", "viridis"
"""Colours for numbers on both sides of 0, and on one; told apart by the colour-blind too."""

ON_WHITE = ListedColormap(mpl.colormaps[UNSIGNED](np.linspace(0.0, 0.75, 256)))
"""The same without its brightest, for points on white; they have the outline `EDGE`."""

EDGE = "#767676"
"""Gray outline of points, at a contrast of 4.5 to white."""

POSITIVE, NEGATIVE = "#b2182b", "#2166ac"
"""Colors of effects by sign, as in `SIGNED`."""

CERTAIN, UNCERTAIN = 0.9, 0.3
"""Opacity of a bar, by whether its interval excludes 0."""


def pale(color):
    """A color at the opacity of uncertain effects, on white."""
    return to_hex(1.0 - UNCERTAIN * (1.0 - np.array(to_rgb(color))))


MOST_TICKS = 5
"""Most ticks of a color bar; numbers with many digits then do not touch."""


def vertical_zero(da, target, *, at=0.0, **kwargs):
    """Draw a line where x is 0, or `at` another value."""
    return backend_from_object(target).vline(at, target, **kwargs)


def horizontal_zero(da, target, *, at=0.0, **kwargs):
    """Draw a line where y is 0, or `at` another value."""
    return backend_from_object(target).hline(at, target, **kwargs)


def few_numbers(target):
    """Have so few numbers along x that long numbers do not touch."""
    if hasattr(target, "locator_params"):  # matplotlib's panels; arviz_plots has no name for it
        narrow = target.get_subplotspec().get_gridspec().ncols > 2
        target.locator_params("x", nbins=3 if narrow else 5)


def decimals(*numbers):
    """Decimals that two digits of the largest number need."""
    largest = np.abs(numbers).max()
    return max(0, 1 - int(np.floor(np.log10(largest)))) if largest > 0 else 0


def written(*numbers, plus=False):
    """Numbers with as many decimals as two digits of the largest need; `plus` signs the first."""
    places = decimals(*numbers)
    texts = [f"{round(float(number), places) + 0.0:.{places}f}" for number in numbers]
    texts[0] = f"+{texts[0]}" if plus and numbers[0] > 0 else texts[0]
    return [text.replace("-", "\N{MINUS SIGN}") for text in texts]


def level_names(value):
    """Names by position: of levels, or of the values of a column that has one or two."""
    if "level" in value.coords and (value["level"] != "").any():
        named = zip(value.values.ravel(), value["level"].values.ravel(), strict=True)
        return {float(position): str(name) for position, name in named if name}
    few = np.unique(value.values[np.isfinite(value.values)])
    return {float(number): format(number, ".4g") for number in few} if len(few) <= 2 else {}


def spacing(names):
    """Distance between the positions of names."""
    return float(np.diff(sorted(names)).min()) if len(names) > 1 else 1.0


def places_along(value):
    """Positions of values (n,) along an axis; values of one level are next to each other."""
    names, places = level_names(value), value.values.astype(float)
    for position in names:
        own = value.values == position
        apart = np.linspace(-0.25, 0.25, own.sum()) if own.sum() > 1 else 0.0
        places[own] += apart * spacing(names)
    return places


def ticks_along(value, target):
    """Have names of levels below an axis, or few numbers."""
    names = level_names(value)
    if not names:
        return few_numbers(target)
    backend, edge = backend_from_object(target), 0.5 * spacing(names)
    texts = [short(name, 14) for _, name in sorted(names.items())]
    backend.xticks(sorted(names), texts, target)
    backend.xlim((min(names) - edge, max(names) + edge), target)


def interval_bars(at, bounds, target, *, across=False, **kwargs):
    """Draw intervals (n, 2) as one line with gaps; `across` lays them along x."""
    gap = np.full(len(at), np.nan)
    ends = np.column_stack([bounds, gap]).ravel()
    places = np.repeat(np.asarray(at, float), 3)
    pair = (ends, places) if across else (places, ends)
    return backend_from_object(target).line(*pair, target, **kwargs)


def names_down(da, target, *, names, **kwargs):
    """Write names left of a panel, from the top."""
    backend = backend_from_object(target)
    backend.ylim((len(names) - 0.4, -0.6), target)
    return backend.yticks(np.arange(len(names)), names, target, **kwargs)


def bars_across(da, target, *, y=0.0, **kwargs):
    """Draw intervals (item, ci_bound) from left to right, at y and below, if any is known."""
    bounds = da.transpose(..., "ci_bound").values
    if np.isfinite(bounds).any():
        return interval_bars(y + np.arange(len(bounds)), bounds, target, across=True, **kwargs)


def points_across(da, target, *, y=0.0, **kwargs):
    """Draw a point for each item, at y and below."""
    return backend_from_object(target).scatter(da.values, y + np.arange(da.size), target, **kwargs)


def _along(da, x, joined, most):
    """Positions along x (n,), in ascending order if a line joins them, and the rows of `da`."""
    order, rows = np.arange(x.size), da.transpose(*x.dims, ...).values
    if joined or (most is not None and len(order) > most):
        order = np.argsort(x.values, kind="stable")
    if joined:
        return x.values[order], rows[order]
    if most is not None and len(order) > most:
        order = order[np.linspace(0, len(order) - 1, most).round().astype(int)]
    return places_along(x[order]), rows[order]


def intervals_along(da, target, *, x, joined=False, most=None, width=None, **kwargs):
    """Draw intervals at x: a band if they are joined, else bars, at most so many."""
    at, bounds = _along(da, x, joined, most)
    if not joined:
        return interval_bars(at, bounds, target, width=width, **kwargs)
    return backend_from_object(target).fill_between_y(at, *bounds.T, target, **kwargs)


def means_along(da, target, *, x, joined=False, most=None, size=8, **kwargs):
    """Draw means at x: a line if they are joined, else points, at most so many."""
    at, mean = _along(da, x, joined, most)
    backend = backend_from_object(target)
    if not joined:
        return backend.scatter(at, mean, target, size=size, **kwargs)
    return backend.line(at, mean, target, width=2, **kwargs)


def axis_labels(da, target, *, x=None, y=None, **kwargs):
    """Name the axes, the vertical one once in a row, with the numbers that panels share."""
    backend, first = backend_from_object(target), True
    if hasattr(target, "tick_params"):  # matplotlib's, which hide numbers above empty places
        target.tick_params(labelbottom=True)
        first = target.get_subplotspec().is_first_col()
    if y is not None and first:
        backend.ylabel(y, target, **kwargs)
    if x is not None:
        return backend.xlabel(x, target, **kwargs)


def colours(values, low, high, cmap):
    """Hexadecimal colours of numbers, on a scale from low to high."""
    scale = Normalize(low, high, clip=True)
    values = np.asarray(values, float)
    rgb = mpl.colormaps.get_cmap(cmap)(scale(values.ravel()))
    return np.array([to_hex(colour) for colour in rgb]).reshape(values.shape)


def coloured_points(x, y, colour, target, *, hollow=False, edge=None, **kwargs):
    """Draw points, each in its own color (n,); `edge` is the outline of filled points."""
    backend = backend_from_object(target)
    one_by_one = backend.__name__.endswith("bokeh")  # which takes one colour at a time
    groups = [colour == one for one in np.unique(colour)] if one_by_one else [slice(None)]
    for group in groups:
        own = colour[group][0] if one_by_one else colour[group]
        if hollow:
            painted = {"facecolor": "#ffffff", "edgecolor": own}
        else:
            painted = {"color": own} if edge is None else {"facecolor": own, "edgecolor": edge}
        artist = backend.scatter(x[group], y[group], target, **painted, **kwargs)
    return artist


def symmetric(values):
    """Scale with 0 in its middle."""
    limit = float(np.abs(values).max()) or 1.0
    return Normalize(-limit, limit)


def from_zero(values):
    """Scale from 0 to the largest of numbers that are not negative."""
    return Normalize(0.0, float(np.max(values)) or 1.0)


def cells(rgb, target, *, lines=1, **kwargs):
    """Draw an image (rows, columns, 3), its first row on top; each cell has this many `lines`."""
    if isinstance(target, list):  # the backend that draws nothing
        target.append({"function": "cells", "rgb": rgb})
        return target[-1]
    if is_plotly(target):
        height = {"y0": 0.5 / lines - 0.5, "dy": 1.0 / lines}
        picture = target.add_image(z=np.uint8(np.round(255 * rgb)), hoverinfo="skip", **height)
        target.update_yaxes(scaleanchor=False if kwargs.get("aspect") == "auto" else None)
        return picture
    extent = (-0.5, rgb.shape[1] - 0.5, len(rgb) / lines - 0.5, -0.5)
    return target.imshow(rgb, interpolation="nearest", extent=extent, **kwargs)


def is_plotly(target):
    """Whether a panel is of the backend plotly."""
    return backend_from_object(target).__name__.endswith("plotly")


def line_break(target):
    """What begins a line of a text in a panel."""
    return "<br>" if is_plotly(target) else "\n"


def colour_bar(pc, norm, cmap, label, *, axes=None, ticks=None, **kwargs):
    """Add a color bar to a figure of matplotlib or plotly; other backends have none.

    `axes` are the panels next to it, all by default; `ticks` maps positions to text; `kwargs` are
    passed to matplotlib.
    """
    figure = pc.viz["figure"].item()
    if pc.backend == "plotly":
        _plotly_bar(figure, norm, cmap, label, axes, ticks)
    if pc.backend != "matplotlib":
        return
    if axes is None:
        axes = [a for a in pc.viz["plot"].values.ravel() if a is not None]
    bar = figure.colorbar(ScalarMappable(norm, cmap), ax=axes, label=label, **kwargs)
    if ticks is None:
        bar.locator = MaxNLocator(MOST_TICKS)
    else:
        bar.set_ticks(list(ticks), labels=list(ticks.values()))


def _plotly_bar(figure, norm, cmap, label, axes, ticks):
    """Add a colour bar by invisible points: next to its panel, or to the right of earlier bars."""
    shades = mpl.colormaps.get_cmap(cmap)(np.linspace(0.0, 1.0, 33))
    bar = {"title": {"text": label, "side": "right"}, "nticks": MOST_TICKS, "thickness": 14}
    if ticks is not None:
        bar |= {"tickvals": list(ticks), "ticktext": list(ticks.values())}
    if axes is None:
        bar["x"] = 1.02 + 0.14 * sum(
            trace.marker.showscale is True for trace in figure.data if trace.type == "scatter"
        )
    else:
        across = next(axes[0].select_xaxes()).domain
        up = next(axes[0].select_yaxes()).domain
        bar |= {"x": across[1], "y": sum(up) / 2, "len": up[1] - up[0]}
    marker = {"colorscale": [*map(to_hex, shades)], "cmin": norm.vmin, "cmax": norm.vmax}
    marker |= {"color": [norm.vmin], "showscale": True, "colorbar": bar}
    figure.add_scatter(x=[None], y=[None], mode="markers", marker=marker, showlegend=False)
