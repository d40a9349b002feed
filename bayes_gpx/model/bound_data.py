"""Data of a model in PyMC: named constants with dims, since a model is bound to its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor


def bound_data(name: str, values: np.ndarray, *, dims: Sequence[str]) -> Tensor:
    """Put data into the model on the context stack, as `pymc.Data` does, but for good.

    They are a node of the model's graph and are found in `constant_data`; ``pm.set_data`` refuses
    them.

    Parameters
    ----------
    name : str
    values : array
    dims : sequence of str, one for each axis of `values`

    Returns
    -------
    TensorConstant
    """
    model = pm.modelcontext(None)
    variable = pt.constant(np.array(values), name=model.name_for(name))
    model.register_data_var(variable, dims=tuple(dims))
    return variable


class BoundModel(pm.Model):
    """A `pymc.Model` that says what to do where its data are to be replaced."""

    def set_data(self, name: str, values: Any, coords: dict[str, Sequence] | None = None) -> None:
        """Refuse new values of bound data; set others as `pymc.Model` does."""
        if isinstance(self[name], pt.TensorConstant):
            raise TypeError(
                f"{name} cannot be set: y and the scaling of the data belong to the rows that the "
                "model was built with. Pass new rows to the verbs, as in bx.predictions(model, "
                "idata, X_new), or build a model of the other data."
            )
        super().set_data(name, values, coords)
