"""A fit as a DataTree: posterior, sample statistics and optima, with named dims."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from arviz_base import dict_to_dataset
from pymc.backends.arviz import find_constants, find_observations

from bayes_gpx.inference.diagnostics import NOT_CONVERGED

UNFINISHED = (
    "The best start of the optimiser did not converge; see the group `starts`. "
    "Pass another start=, such as a fit of some of the rows, or tighter priors."
)
"""Said of a mode that may not be one."""


def of_one(
    model: pm.Model,
    values: Mapping[str, Any],
    height: float,
    trace: np.ndarray,
    optima: Sequence[Any],
) -> xr.DataTree:
    """The DataTree of one draw, with the objective's value `height` there and its trace."""
    draws = {k: np.asarray(v)[None, None] for k, v in values.items()}
    tree = as_tree(model, draws, {"lp": np.array([[height]])}, optima)
    found = xr.Dataset({"elbo": ("step", trace)})
    tree["elbo"] = xr.DataTree(found.assign_attrs(units="bound plus log prior density, nats"))
    return tree


def as_tree(
    model: pm.Model, draws: Mapping[str, Any], stats: Mapping[str, Any], optima: Sequence[Any]
) -> xr.DataTree:
    """Assemble the DataTree of `draws` (chain, draw, ...) with the model's dims and coordinates."""
    # `stats` are arrays (chain, draw), at least one, and `optima` one for each starting point of an
    # optimizer; may be empty.
    own: dict[str, Any] = {
        "coords": {k: list(v) for k, v in model.coords.items() if v is not None},
        "dims": {k: list(v) for k, v in model.named_vars_to_dims.items()},
    }
    attrs = {"inference_library": "bayes_gpx", "inference_library_version": version("bayes_gpx")}
    sampled = own | {"sample_dims": ["chain", "draw"], "attrs": attrs}
    groups = {
        "posterior": dict_to_dataset(draws, **sampled),
        "sample_stats": dict_to_dataset(stats, **sampled),
        "observed_data": dict_to_dataset(find_observations(model), sample_dims=[], **own),
        "constant_data": dict_to_dataset(find_constants(model), sample_dims=[], **own),
        "starts": xr.Dataset(
            {
                "log_density": ("start", [o.log_density for o in optima]),
                "converged": ("start", [o.converged for o in optima]),
                "evaluations": ("start", [o.evaluations for o in optima]),
            }
        ),
    }
    tree = xr.DataTree.from_dict(groups)
    if optima and not max(optima, key=lambda o: o.log_density).converged:
        tree.attrs.update(convergence=NOT_CONVERGED, convergence_summary=UNFINISHED)
    return tree


def name_method(tree: xr.DataTree, method: str) -> None:
    """Write the name of the inference method into the attributes of a posterior."""
    for name in ("posterior", "sample_stats"):
        tree[name].attrs["inference_method"] = method
