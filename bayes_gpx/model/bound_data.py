"""Data of a model in PyMC: named constants with dims, since a model is bound to its rows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, cast

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayes_gpx.aliases import Rename, Tensor
from bayes_gpx.data.outputs import Outputs
from bayes_gpx.data.scaling import Scaling
from bayes_gpx.data.training import TrainingData
from bayes_gpx.numerics.sparse_products import constant
from bayes_gpx.processes.indexed_process import in_groups
from bayes_gpx.system.warning import PosteriorPredictiveWarning, warn


def bound_data(name: str, values: np.ndarray, *, dims: Sequence[str]) -> Tensor:
    """Add data to the model on the stack as constants, which ``pm.set_data`` cannot change."""
    # `dims` has a name for each axis of `values`. They are found in `constant_data`.
    model = pm.modelcontext(None)
    variable = pt.constant(np.array(values), name=model.name_for(name))
    model.register_data_var(variable, dims=tuple(dims))
    return variable


class BoundModel(pm.Model):
    """A `pymc.Model` that says what to do where PyMC's own functions would mislead."""

    collapsed = False  # whether the function is integrated out of the density of y

    @property
    def basic_RVs(self) -> list:  # noqa: N802
        """Free and observed variables, as of `pymc.Model`."""
        # PyMC has no hook for posterior predictive sampling, but its function asks for these when
        # it compiles. So it is known by the frame that asks; a PyMC that works otherwise gives no
        # warning.
        asking = cast(FrameType, inspect.currentframe()).f_back
        if asking is not None and asking.f_code is pm.sample_posterior_predictive.__code__:
            self._warn_of_prior_draws(asking.f_locals)
        return super().basic_RVs

    def _warn_of_prior_draws(self, asked: Mapping[str, Any]) -> None:
        """Warn where y is drawn, and from a function that does not come from the draws."""
        if not set(self.observed_RVs) & set(asked.get("vars_to_evaluate", ())):
            return
        drawn_anew = set(self.free_RVs) - set(asked.get("vars_in_trace", ()))
        if self.collapsed or drawn_anew:
            warn(
                "pm.sample_posterior_predictive draws y from the prior of the function, because "
                "the draws hold hyperparameters alone. Use bx.sample_posterior_predictive(model, "
                "idata), which draws y given the data.",
                PosteriorPredictiveWarning,
                through=(str(Path(pm.__file__).parent),),
            )

    def set_data(self, name: str, values: Any, coords: dict[str, Sequence] | None = None) -> None:
        """Refuse new values of bound data; set others as `pymc.Model` does."""
        if isinstance(self[name], pt.TensorConstant):
            raise TypeError(
                f"{name} cannot be set: y and the scaling of the data belong to the rows that the "
                "model was built with. Pass new rows to the verbs, as in bx.predictions(model, "
                "idata, X_new), or build a model of the other data."
            )
        super().set_data(name, values, coords)


def add_points(data: TrainingData, rename: Rename, enter: Callable[..., Tensor]) -> tuple[Any, Any]:
    """Put X and Z into the model on the stack as data, and return them on the model's scale."""
    obs, feature, z_feature = rename("obs"), rename("feature"), rename("z_feature")
    model = pm.modelcontext(None)
    model.add_coord(feature, list(data.X.sources))
    if data.X.levels:
        feature = rename("indicator")
        model.add_coord(feature, list(data.X.columns))
    if data.streamed:
        if data.Z is not None:
            model.add_coord(z_feature, list(data.Z.columns))
        return None, None
    model.add_coord(obs, data.X.index)
    x = enter(rename("X"), data.X.values, dims=(obs, feature))
    x = data.X_scaling.apply(pt.specify_shape(x, (None, data.d)))
    if data.Z is None:
        return x, None
    model.add_coords({z_feature: list(data.Z.columns)})
    if data.z_is_x and not data.intercept:
        return x, x
    scaling = cast(Scaling, data.Z_scaling)
    if data.Z.sparse:  # `constant_data` could only contain it as an array
        return x, constant(scaling.apply(data.Z.values))
    z = enter(rename("Z"), data.Z.values, dims=(obs, z_feature))
    return x, scaling.apply(z)


def add_cells(
    x: Tensor, z: Tensor | None, outputs: Outputs, rename: Rename, enter: Callable[..., Tensor]
) -> tuple[Tensor, Tensor | None]:
    """X of each response with the code of its output, and Z, from those of each row."""
    cell = rename("cell")
    pm.modelcontext(None).add_coord(cell, outputs.labels)
    rows = enter(rename("cell_row"), outputs.rows, dims=(cell,))
    codes = enter(rename("cell_output"), outputs.codes, dims=(cell,))
    return in_groups(x[rows], codes), None if z is None else z[rows]


def name_functions(
    data: TrainingData, dim: str, labels: Sequence, correlation: int, rename: Rename
) -> None:
    """Add names of outputs, or labels of classes, and numbers of shared functions to the model."""
    model = pm.modelcontext(None)
    names = [str(label) for label in labels]
    if data.outputs is not None:
        dim, names = "output", list(data.outputs.names)
    model.add_coord(rename(dim), names)
    if data.outputs is not None or correlation:
        model.add_coord(rename(f"{dim}_bis"), names)
        model.add_coord(rename("factor"), range(correlation))
