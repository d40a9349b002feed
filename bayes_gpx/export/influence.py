"""Influence of rows on an explanation: random functions with their log densities, for ArviZ."""

from __future__ import annotations

import xarray as xr

from bayes_gpx.explain.sample_functions import FUNCTIONS, RandomFunctions
from bayes_gpx.export.long_form import DRAWS

LEFT_OUT = "left_out"
"""Dim of the rows that are left out; `obs` is the dim of the explained rows."""


def influence_tree(functions: RandomFunctions, found: xr.Dataset) -> xr.DataTree:
    """Prepare explanations for ArviZ to find the most influential training rows.

    ``az.loo_influence(tree, group="posterior")`` estimates by how many standard deviations an
    explanation moves if a training row is left out. It does not refit: it weighs functions by ``1 /
    p(y_i | f(x_i), theta)``. ``az.loo_expectations(tree, group="posterior")`` estimates the new
    value. Use random functions: the draws of a fit contain only hyperparameters and cannot be
    reweighed, since their explanations are conditional means given all rows.

    Parameters
    ----------
    functions : RandomFunctions
        A result of `bayes_gpx.sample_functions`, with a thousand functions or more.
    found : xarray.Dataset
        A result of one of its methods, or a value computed from it for each function, with its
        attributes (``.assign_attrs(found.attrs)``).

    Returns
    -------
    xarray.DataTree
        `posterior`, the variables of `found` that have draws, and `log_likelihood`, with training
        rows along `left_out`. Models with constraints add `log_prior`, the log probability of each
        constraint given the functions, along `constraint`. ``az.psense(tree,
        group_coords={"constraint": "Increasing dose"})`` then shows how an explanation would change
        if the constraint had slightly more or less weight.

    Raises
    ------
    ValueError
        If `found` does not belong to these functions or has no draws, or the kernel has no random
        functions.

    Notes
    -----
    The weights are exact for a Gaussian likelihood without approximation. Otherwise they reweigh an
    approximate posterior, such as Laplace's. Check the Pareto k that ArviZ returns: above 0.7, for
    example for an outlier that few functions come near, the shift is understated. A refit is then
    exact: ``model.of_rows(rest)`` with ``rest, _ = bx.SamplingWrapper(model,
    idata).sel_observations(i)``, fitted and explained again.

    References
    ----------
    Vehtari, Simpson, Gelman, Yao and Gabry, "Pareto smoothed importance sampling" (2024).

    Examples
    --------
    >>> import numpy as np
    >>> import arviz as az
    >>> import bayes_gpx as bx
    >>> X = np.linspace(0.0, 3.0, 30)[:, None]
    >>> y = np.sin(X[:, 0]) + np.where(np.arange(30) == 9, 0.6, 0.0)
    >>> model = bx.GP(X, y, scale=False)
    >>> theta = {"lengthscale": [1.0], "amplitude": 1.0, "sigma": 0.3}
    >>> functions = bx.sample_functions(model, theta, draws=1000, seed=1, progressbar=False)
    >>> tree = bx.influence_tree(functions, functions.predictions([[1.0]]))
    >>> shift, _ = az.loo_influence(tree, group="posterior", var_names="f")
    >>> int(shift["f"].values.argmax())
    9
    """
    if not isinstance(functions, RandomFunctions):
        raise ValueError(
            f"functions is a {type(functions).__name__}. Pass the result of bx.sample_functions."
        )
    terms = functions.log_likelihood()
    if not isinstance(found, xr.Dataset) or found.attrs.get(FUNCTIONS) != terms.attrs[FUNCTIONS]:
        raise ValueError(
            "found is not of these functions. Pass the Dataset that one of their methods returned, "
            "such as functions.derivatives(X_new), or a result computed from it, with its "
            "attributes: .assign_attrs(found.attrs)."
        )
    drawn = [name for name in found.data_vars if set(found[name].dims) >= DRAWS]
    if not drawn:
        raise ValueError(
            f"found has no draws, only {list(found.data_vars)}. Pass one number for each function, "
            "along chain and draw."
        )
    density = terms.rename(obs=LEFT_OUT).to_dataset(name="y")
    groups = {"posterior": found[drawn], "log_likelihood": density}
    if functions.constrained:
        groups["log_prior"] = functions.log_constraints().to_dataset(name="constraints")
    return xr.DataTree.from_dict(groups)
