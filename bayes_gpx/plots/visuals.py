"""Visuals of a panel, through the backends of arviz_plots."""

from collections.abc import Callable, Mapping, Sequence
from textwrap import fill
from typing import Any

import matplotlib as mpl
import numpy as np
import xarray as xr
from arviz_plots.plot_collection import backend_from_object
from matplotlib.colors import ListedColormap, to_hex, to_rgb
from matplotlib.dates import AutoDateLocator, date2num, num2date

from bayes_gpx.data.dates import origin_of
from bayes_gpx.plots.layout import Layer, Scale
from bayes_gpx.plots.selection import covers_zero, digits, short, with_units

type Text = str | Callable[[xr.DataArray], str]
"""A text, or how it follows from the variable in a panel."""


SIGNED, UNSIGNED = "RdBu_r", "viridis"
"""Colors for numbers on both sides of 0, and on one; color-blind readers distinguish them too."""

ON_WHITE = ListedColormap(mpl.colormaps[UNSIGNED](np.linspace(0.0, 0.75, 256)))
"""The same without its brightest, for points on white; they have the outline `EDGE`."""

EDGE = "#767676"
"""Gray outline of points, at a contrast of 4.5 to white."""

POSITIVE, NEGATIVE = "#b2182b", "#2166ac"
"""Colors of effects by sign, as in `SIGNED`."""

SIGNS = {"rises": {"color": POSITIVE}, "falls": {"color": NEGATIVE}}
"""Entries of a legend."""

CERTAIN, UNCERTAIN = 0.9, 0.3
"""Opacity of a bar, by whether its interval excludes 0."""

REFERENCE = {"color": "gray", "linestyle": "C1", "alpha": 0.6}
"""Style of a line at 0, or at another number that means no effect."""


def pale(color: str) -> str:
    """A color at the opacity of uncertain effects, on white."""
    return to_hex(tuple(1.0 - UNCERTAIN * (1.0 - np.array(to_rgb(color)))))


MINUS = "\N{MINUS SIGN}"

MOST_DATES = 4
FORMS = {1500.0: "%Y", 90.0: "%Y-%m", 4.0: "%Y-%m-%d", 0.0: "%m-%d %H:%M"}
"""Most dates along an axis, and how they are written, by the days that the axis spans at least."""

ROOM = 4
"""Letters of room that the name of a level needs along an axis."""

LETTERS = 64, 40, 24
"""Letters of the name of an axis in one line, with one, two, and more panels side by side."""

LONG, MOST_PLACES = 1e7, 6
"""Numbers of this size and above, or with more decimals, are written with an exponent."""


def few_numbers(da: xr.DataArray, target: Any, *, most: int = 5) -> None:
    """Have so few numbers along x that long numbers do not touch."""
    if hasattr(target, "locator_params"):  # matplotlib's panels; arviz_plots has no name for it
        narrow = target.get_subplotspec().get_gridspec().ncols > 2
        target.locator_params("x", nbins=3 if narrow else most)
        low, high = target.get_xlim()
        largest = max(abs(low), abs(high))
        if not 1e-4 <= largest < 1e6 and largest < 100.0 * abs(high - low):
            # Their power would stand below the axis, on its name. Four digits tell them apart.
            target.xaxis.set_major_formatter(lambda x, _: f"{x:.4g}".replace("-", MINUS))


def decimals(*numbers: float) -> int:
    """Decimals that two digits of the largest number need."""
    largest = np.abs(numbers).max()
    return max(0, 1 - int(np.floor(np.log10(largest)))) if largest > 0 else 0


def written(*numbers: float, plus: bool = False) -> list[str]:
    """Numbers with as many decimals as two digits of the largest need; `plus` signs the first."""
    places = decimals(*numbers)
    form = ".3g" if np.abs(numbers).max() >= LONG or places > MOST_PLACES else f".{places}f"
    texts = [f"{round(float(number), places) + 0.0:{form}}" for number in numbers]
    texts[0] = f"+{texts[0]}" if plus and numbers[0] > 0 else texts[0]
    return [text.replace("-", MINUS) for text in texts]


def level_names(value: xr.DataArray) -> dict[float, str]:
    """Names by position: of levels, or of the values of a column that has one or two."""
    if "level" in value.coords and (value["level"] != "").any():
        named = zip(value.values.ravel(), value["level"].values.ravel(), strict=True)
        return {float(position): str(name) for position, name in named if name}
    few = np.unique(value.values[np.isfinite(value.values)])
    return {float(number): digits(number) for number in few} if len(few) <= 2 else {}


def continuous(value: xr.DataArray) -> xr.DataArray:
    """Whether values of each feature or component are numbers along an axis, without names."""
    (dim,) = {"feature", "component"} & set(value.dims)
    numbers = [not level_names(value.sel({dim: name})) for name in value[dim].values]
    return xr.DataArray(numbers, {dim: value[dim].values}, [dim])


def spacing(names: Mapping[float, str]) -> float:
    """Distance between the positions of names."""
    return float(np.diff(sorted(names)).min()) if len(names) > 1 else 1.0


def places_along(value: xr.DataArray) -> np.ndarray:
    """Positions of values (n,) along an axis; values of one level are next to each other."""
    names, places = level_names(value), value.values.astype(float)
    for position in names:
        level = value.values == position
        shifts = np.linspace(-0.25, 0.25, level.sum()) if level.sum() > 1 else np.zeros(1)
        # At random: rows may be in an order, which would look like a trend.
        places[level] += np.random.default_rng(0).permutation(shifts) * spacing(names)
    return places


def ticks_along(da: xr.DataArray, target: Any) -> None:
    """Have names of levels below an axis along values, or few numbers."""
    names = level_names(da)
    if not names and (dates := _dates_along(da)):
        return backend_from_object(target).xticks(*dates, target)
    if not names:
        return few_numbers(da, target)
    backend, edge = backend_from_object(target), 0.5 * spacing(names)
    texts = [short(name, 14) for _, name in sorted(names.items())]
    # If there are many levels, every second or third is named: even aslant, names need room.
    some = slice(None, None, -(-ROOM * len(texts) // _letters_below(target)))
    backend.xticks(sorted(names)[some], texts[some], target)
    backend.xlim((min(names) - edge, max(names) + edge), target)


def _dates_along(value: xr.DataArray) -> tuple[np.ndarray, list[str]] | None:
    """Places of dates among days since another date, and their texts; None for other numbers."""
    origin = origin_of(str(value["unit"].item())) if "unit" in value.coords else None
    seen = value.values[np.isfinite(value.values)]
    if origin is None or not seen.size:
        return None
    begun, low, high = float(date2num(origin)), seen.min(), seen.max()
    locator = AutoDateLocator(minticks=2, maxticks=MOST_DATES)
    at = np.asarray(locator.tick_values(*num2date([begun + low, begun + high])))
    at = at[(at >= begun + low) & (at <= begun + high)]
    form = next(form for span, form in FORMS.items() if high - low >= span)
    return at - begun, [f"{day:{form}}" for day in num2date(at)]


def with_gaps(rows: np.ndarray) -> np.ndarray:
    """Rows (n, m) one after another, with NaN after each, which interrupts a line."""
    return np.column_stack([rows, np.full(len(rows), np.nan)]).ravel()


def interval_bars(
    at: np.ndarray, bounds: np.ndarray, target: Any, *, across: bool = False, **kwargs: Any
) -> Any:
    """Draw intervals (n, 2) as one line with gaps; `across` lays them along x."""
    ends, places = with_gaps(bounds), np.repeat(np.asarray(at, float), 3)
    pair = (ends, places) if across else (places, ends)
    return backend_from_object(target).line(*pair, target, **kwargs)


def bars_across(da: xr.DataArray, target: Any, *, y: float = 0.0, **kwargs: Any) -> Any:
    """Draw intervals (item, ci_bound) from left to right, at y and below, if any is known."""
    bounds = da.transpose(..., "ci_bound").values
    if np.isfinite(bounds).any():
        return interval_bars(y + np.arange(len(bounds)), bounds, target, across=True, **kwargs)


def points_across(da: xr.DataArray, target: Any, *, y: float = 0.0, **kwargs: Any) -> Any:
    """Draw a point for each item, at y and below."""
    return backend_from_object(target).scatter(da.values, y + np.arange(da.size), target, **kwargs)


def sized_bars(
    da: xr.DataArray,
    target: Any,
    *,
    interval: xr.DataArray,
    half: float,
    start: np.ndarray | float = 0.0,
    y: int = 0,
    color: str | None = None,
    connected: bool = False,
) -> Any:
    """Draw bars from `start`, red or blue by sign, pale if the interval contains 0."""
    backend, starts = backend_from_object(target), np.broadcast_to(start, da.shape)
    rows = zip(starts, da.values, covers_zero(interval).values, strict=True)
    for row, (begin, size, unsure) in enumerate(rows, y):
        artist = backend.fill_between_y(
            np.array([begin, begin + size]),
            np.full(2, row - half),
            np.full(2, row + half),
            target,
            color=color or (POSITIVE if size >= 0 else NEGATIVE),
            alpha=UNCERTAIN if unsure else CERTAIN,
        )
        if connected:  # to the bar of the next row, which begins where this one ends
            ends, rows_between = np.full(2, begin + size), np.array([row, row + 1.0])
            backend.line(ends, rows_between, target, color="gray", width=1)
    return artist


def _along(
    da: xr.DataArray, x: xr.DataArray, joined: bool, most: float
) -> tuple[np.ndarray, np.ndarray]:
    """Known positions along x (n,), ascending if a line joins them, and the rows of `da`."""
    known = np.isfinite(x.values)
    x, rows = x[known], da.transpose(*x.dims, ...).values[known]
    if joined or x.size > most:
        order = np.argsort(x.values, kind="stable")
        if not joined:
            order = order[np.linspace(0, x.size - 1, int(most)).round().astype(int)]
        x, rows = x[order], rows[order]
    return (x.values if joined else places_along(x)), rows


def intervals_along(
    da: xr.DataArray,
    target: Any,
    *,
    x: xr.DataArray,
    joined: bool = False,
    most: float = np.inf,
    width: float | None = None,
    **kwargs: Any,
) -> Any:
    """Draw intervals at x: a band if they are joined, else bars, at most so many."""
    at, bounds = _along(da, x, joined, most)
    if not joined:
        return interval_bars(at, bounds, target, width=width, **kwargs)
    return backend_from_object(target).fill_between_y(at, *bounds.T, target, **kwargs)


def means_along(
    da: xr.DataArray,
    target: Any,
    *,
    x: xr.DataArray,
    joined: bool = False,
    most: float = np.inf,
    size: float = 8,
    **kwargs: Any,
) -> Any:
    """Draw means at x: a line if they are joined, else points, at most so many."""
    at, mean = _along(da, x, joined, most)
    backend = backend_from_object(target)
    if not joined:
        return backend.scatter(at, mean, target, size=size, **kwargs)
    return backend.line(at, mean, target, width=2, **kwargs)


def _letters_below(target: Any) -> int:
    """Letters that fit below a panel, where it is known how many stand side by side."""
    if not hasattr(target, "get_subplotspec"):
        return 1000
    return LETTERS[min(target.get_subplotspec().get_gridspec().ncols, 3) - 1]


def label_axes(
    da: xr.DataArray,
    target: Any,
    *,
    x: Text | None = None,
    y: str | None = None,
    title: Text | None = None,
    **kwargs: Any,
) -> Any:
    """Name the axes, the vertical one once in a row, with the numbers that panels share."""
    backend, first, letters = backend_from_object(target), True, _letters_below(target)
    if title is not None:
        backend.title(title(da) if callable(title) else title, target, **kwargs)
    if hasattr(target, "tick_params"):  # matplotlib's, which hide numbers above empty places
        target.tick_params(labelbottom=True)
        first = target.get_subplotspec().is_first_col()
    if y is not None and first:
        backend.ylabel(y, target)
    if x is not None:
        said = x(da) if callable(x) else x
        return backend.xlabel(said if "\n" in said else fill(said, letters), target)


def value_axis(
    value: xr.DataArray, y: str, title: Text | None = None, *, named: bool = True
) -> list[Layer]:
    """Layers that name an axis of values, with names of levels, and the vertical axis."""
    below = with_units(value, dated=True) if named else None
    texts = {"x": below, "y": y, "title": title}
    return [("", ticks_along, value, {}), ("labels", label_axes, value, texts)]


def names_down(
    da: xr.DataArray, target: Any, *, names: Sequence[str], edge: float | None = 0.6
) -> Any:
    """Write names left of a panel, from the top, with room up to an `edge` around them."""
    backend = backend_from_object(target)
    if edge is not None:
        backend.ylim((len(names) - (1.0 - edge), -edge), target)
    return backend.yticks(np.arange(len(names)), names, target)


def names_across(
    da: xr.DataArray, target: Any, *, names: Sequence[Any], upright: bool = False
) -> Any:
    """Write names below a panel, from the left."""
    backend, rotation = backend_from_object(target), 90 if upright else 0
    return backend.xticks(np.arange(len(names)), names, target, rotation=rotation)


def texts_down(
    da: xr.DataArray, target: Any, *, x: float, y: int = 0, horizontal_align: str, size: float
) -> Any:
    """Write a column of texts at x, from y down."""
    backend, style = backend_from_object(target), {"horizontal_align": horizontal_align}
    for row, text in enumerate(da.values, y):
        artist = backend.text(x, row, text, target, size=size, **style)
    return artist


def colors_of(values: np.ndarray, scale: Scale) -> np.ndarray:
    """Hexadecimal colors of numbers; those beyond the ends of the scale have its last colors."""
    inside = np.clip(values.ravel(), scale.norm.vmin, scale.norm.vmax)
    return np.array([to_hex(color) for color in scale.rgb(inside)]).reshape(values.shape)


def colored_points(
    x: np.ndarray,
    y: np.ndarray,
    color: np.ndarray,
    target: Any,
    *,
    hollow: bool = False,
    edge: str | None = None,
    **kwargs: Any,
) -> Any:
    """Draw points, each in its own color (n,); `edge` is the outline of filled points."""
    backend = backend_from_object(target)
    one_by_one = backend.__name__.endswith("bokeh")  # which takes one color at a time
    groups = [color == one for one in np.unique(color)] if one_by_one else [slice(None)]
    for group in groups:
        own = color[group][0] if one_by_one else color[group]
        if hollow:
            painted = {"facecolor": "#ffffff", "edgecolor": own}
        else:
            painted = {"color": own} if edge is None else {"facecolor": own, "edgecolor": edge}
        artist = backend.scatter(x[group], y[group], target, **painted, **kwargs)
    return artist


def cells(rgb: np.ndarray, target: Any, *, lines: int = 1, **kwargs: Any) -> Any:
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


def is_plotly(target: Any) -> bool:
    """Whether a panel is of the backend plotly."""
    return backend_from_object(target).__name__.endswith("plotly")
