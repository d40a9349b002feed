"""Store explanations with the draws of their fit, in one DataTree."""

from __future__ import annotations

import xarray as xr

from bayes_gpx.export.long_form import DRAWS, equally_weighed
from bayes_gpx.model.storage import GROUP

SUMMARY = "{}_summary"
"""Name of the group for variables of an explanation without draws.

ArviZ applies its functions to every variable of a group and of all groups inside it.
"""


def attach(idata: xr.DataTree, **found: xr.Dataset) -> xr.DataTree:
    """Add explanations to a copy of the fit, each in a separate group.

    ArviZ then reads them like the posterior: ``az.summary(tree, group="contributions")``,
    ``az.plot_forest(tree, group="contributions")``, ``az.plot_ridge``. `bayes_gpx.save` writes them
    with the fit. Without `attach`, name the variables with draws, as in ``az.hdi(found,
    var_names=["attribution"])``, because ArviZ cannot reduce the others.

    Parameters
    ----------
    idata : xarray.DataTree
        A fit by ``model.fit`` or ``pm.sample``, or a result of `attach`.
    **found : xarray.Dataset
        Explanations with draws, by the names of their groups.

    Returns
    -------
    xarray.DataTree
        A copy of `idata`; the original is unchanged. The group of each keyword contains the
        variables with draws. A second group, such as `attributions_summary`, contains the others,
        such as exact means and the features' values, and descriptive coordinates, such as `unit`.

    Raises
    ------
    ValueError
        If a group of that name exists, or a result has no draws or is not a Dataset.

    Examples
    --------
    >>> import numpy as np
    >>> import arviz as az
    >>> import bayes_gpx as bx
    >>> X = np.random.default_rng(1).normal(size=(20, 2))
    >>> model = bx.GP(X, X[:, 0] ** 2, priors={"sigma": 0.1})
    >>> idata = model.fit("map", progressbar=False)
    >>> shares = bx.attributions(model, idata, obs=[0], draws=50, seed=1, progressbar=False)
    >>> tree = bx.attach(idata, attributions=shares)
    >>> list(az.summary(tree, group="attributions", kind="stats").index)
    ['attribution[0, x0]', 'attribution[0, x1]', 'difference[0]']
    """
    if not isinstance(idata, xr.DataTree):
        raise ValueError(
            f"idata is a {type(idata).__name__}. Pass the DataTree of model.fit or pm.sample, "
            "which explanations are added to."
        )
    tree = idata.copy()
    for group, result in found.items():
        _refuse_taken(tree, group)
        if not isinstance(result, xr.Dataset):
            raise ValueError(
                f"{group} is a {type(result).__name__}. Pass the Dataset that an explanation "
                "function returned."
            )
        result = equally_weighed(result)
        drawn = [name for name in result.data_vars if set(result[name].dims) >= DRAWS]
        if not drawn:
            raise ValueError(
                f"{group} has no draws, only {list(result.data_vars)}. Pass the result of an "
                "explanation function with keep='draws'."
            )
        # ArviZ joins variables, and can't where one has a coordinate that another lacks.
        described = [name for name in result.coords if name not in result.dims]
        tree[group] = xr.DataTree(result[drawn].drop_vars(described, errors="ignore"))
        rest = result.drop_vars([*drawn, *DRAWS])
        if rest.data_vars or described:
            beside = SUMMARY.format(group)
            _refuse_taken(tree, beside)
            tree[beside] = xr.DataTree(rest)
    return tree


def _refuse_taken(tree: xr.DataTree, group: str) -> None:
    if group in tree.children or group == GROUP:
        raise ValueError(
            f"There is a group {group!r} already, among {[*tree.children, GROUP]}. Pass another "
            f"name, or a fit without it: idata.drop_nodes({group!r})."
        )
