"""How the panels of a figure are laid out, the same for every plot."""

from importlib.util import find_spec

from arviz_base import rcParams

from bayes_gpx.validation import one_of

BACKENDS = ("matplotlib", "bokeh", "plotly", "none")
"""What arviz_plots draws by; "none" runs everything and draws nothing."""

WITH_IMAGES = ("matplotlib", "plotly", "none")
"""Those of them through which arviz_plots draws images."""

WIDTH = 7.0
"""Width of a figure, in inches."""

DOTS, LETTER, GAP = 100, 0.085, 0.8
"""For plotly: dots per inch, width of a letter and smallest gap between panels, in inches."""


def lay_out(pc_kwargs, count, size, *, backend, above=0.0, narrowest=0.0, between=GAP, **figure):
    """Fill in columns and the figure's size in `pc_kwargs`, in place, unless they are given.

    `size` is (width, height) of one panel, `above` the height of a title of several lines,
    `narrowest` the smallest width of the figure, and `between` the space left of each panel, all in
    inches; plotly leaves little space, see `beside`. `figure` contains other arguments of the
    figure.
    """
    pc_kwargs.setdefault("col_wrap", 3)
    columns = min(count, pc_kwargs["col_wrap"])
    rows = -(-count // columns)
    width, height = max(narrowest, size[0] * columns), above + size[1] * rows
    figure |= {"figsize": (width, height), "figsize_units": "inches"}
    if backend == "matplotlib":
        figure["layout"] = "constrained"
    elif backend == "plotly":
        figure |= {"figsize": (DOTS * width, DOTS * height), "figsize_units": "dots"}
        if columns > 1:
            figure["plot_hspace"] = min(between / width, 0.5 / (columns - 1))
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


def add_title(pc, text):
    """Add a title, perhaps of several lines."""
    if pc.backend == "plotly":
        text = text.replace("\n", "<br>")
        pc.viz["figure"].item().update_layout(margin_t=100 + 40 * text.count("<br>"))
    pc.add_title(text)
