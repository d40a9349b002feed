"""Which row moved an explanation: random functions with their densities, for ArviZ's influence."""

from __future__ import annotations

import xarray as xr

from bayes_gpx.explain.sample_functions import FUNCTIONS, RandomFunctions
from bayes_gpx.export.long_form import DRAWS

LEFT_OUT = "left_out"
"""Dim of the rows whose influence is asked for, beside `obs`, those that are explained."""


def influence_tree(functions: RandomFunctions, found: xr.Dataset) -> xr.DataTree:
    """Explanations by random functions, with what ArviZ needs to say which row moved them.

    ``az.loo_influence(tree, group="posterior")`` says by how many standard deviations an
    explanation moves when a training row is left out, without any refit: functions are reweighed by
    ``1 / p(y_i | f(x_i), theta)``. ``az.loo_expectations(tree, group="posterior")`` says where it
    moves to. The draws of a fit hold hyperparameters alone and cannot be reweighed in this way, for
    their explanations are conditional means given all rows.

    Parameters
    ----------
    functions : RandomFunctions
        What `bayes_gpx.sample_functions` returned; a thousand functions or more.
    found : xarray.Dataset
        What one of its methods returned; or anything computed of that for each function, with its
        attributes (``.assign_attrs(found.attrs)``).

    Returns
    -------
    xarray.DataTree
        `posterior`, the variables of `found` that have draws, and `log_likelihood`, in which the
        training rows are along `left_out`. Where the model has constraints, also `log_prior`, with
        the log probability of each constraint given the functions, along `constraint`:
        ``az.psense(tree, group_coords={"constraint": "Increasing dose"})`` says how much an
        explanation would change if that constraint counted a little more or less.

    Raises
    ------
    ValueError
        If `found` is not of these functions or has no draws, or the kernel has no random functions.

    Notes
    -----
    With normal noise and no approximation the weights are exact; otherwise they reweigh what stands
    for the posterior, such as Laplace's approximation. They can be trusted as far as the Pareto k
    that comes with them: above 0.7, as for an outlier that few functions come near, the shift is
    understated. A refit is the exact road there: ``model.of_rows(rest)`` with ``rest, _ =
    bx.SamplingWrapper(model, idata).sel_observations(i)``, fitted and explained again.

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
            f"functions is a {type(functions).__name__}; expected what bx.sample_functions "
            "returned."
        )
    terms = functions.log_likelihood()
    if not isinstance(found, xr.Dataset) or found.attrs.get(FUNCTIONS) != terms.attrs[FUNCTIONS]:
        raise ValueError(
            "found is not of these functions; expected the Dataset that one of their methods "
            "returned, such as functions.derivatives(X_new), or what was computed of it, with its "
            "attributes: .assign_attrs(found.attrs)."
        )
    drawn = [name for name in found.data_vars if set(found[name].dims) >= DRAWS]
    if not drawn:
        raise ValueError(
            f"found has no draws, only {list(found.data_vars)}; expected one number for each "
            "function, along chain and draw."
        )
    density = terms.rename(obs=LEFT_OUT).to_dataset(name="y")
    groups = {"posterior": found[drawn], "log_likelihood": density}
    if functions.constrained:
        groups["log_prior"] = functions.log_constraints().to_dataset(name="constraints")
    return xr.DataTree.from_dict(groups)
