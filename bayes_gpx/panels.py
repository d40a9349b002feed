"""How the panels of a figure are laid out, the same for every plot."""


def lay_out(pc_kwargs, count, size, *, backend, above=0.0, narrowest=0.0, **figure):
    """Fill in what `PlotCollection.wrap` is not told: columns and the figure's size.

    Parameters
    ----------
    pc_kwargs : dict
        Changed in place; what it holds already stays.
    count : int
        Number of panels.
    size : tuple (width, height)
        Of one panel, in inches.
    backend : str
    above : float
        Height for a title of several lines, in inches.
    narrowest : float
        Least width of the figure, in inches.
    **figure
        Other arguments of the figure.
    """
    pc_kwargs.setdefault("col_wrap", 3)
    columns = min(count, pc_kwargs["col_wrap"])
    rows = -(-count // columns)
    if backend == "matplotlib":
        figure["layout"] = "constrained"
    figsize = max(narrowest, size[0] * columns), above + size[1] * rows
    pc_kwargs.setdefault("figure_kwargs", {"figsize": figsize, "figsize_units": "inches", **figure})
