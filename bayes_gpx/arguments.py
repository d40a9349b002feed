"""What a verb is given: samples to explain, and draws of the hyperparameters."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Points:
    """Samples to explain, on the model's scale, with what names them.

    Attributes
    ----------
    X, Z : array
        Z is None where none is needed.
    positions : integer array or None
        Positions in the training set; None for new samples.
    X_values, Z_values : array
        The same in user units.
    index : array
        Labels of the rows.
    """

    X: np.ndarray
    Z: np.ndarray | None
    positions: np.ndarray | None
    X_values: np.ndarray
    Z_values: np.ndarray | None
    index: np.ndarray


def points(model, X_new=None, Z_new=None, *, obs=None, needs_z=True):
    """New samples, or training samples (X_new=None); `obs` picks some of them by label."""
    if X_new is None:
        if Z_new is not None:
            raise ValueError("Z_new was given without X_new; pass both, or neither.")
        X, Z = model.training.X, model.training.Z
    else:
        X, Z = model.training.read_new(X_new, Z_new, needs_z=needs_z)
    rows = _rows(X.index, obs)
    scaled_Z = None if Z is None else model.training.Z_scaling.apply(Z.values[rows])
    return Points(
        model.training.X_scaling.apply(X.values[rows]),
        scaled_Z,
        rows if X_new is None else None,
        X.values[rows],
        None if Z is None else Z.values[rows],
        X.index[rows],
    )


def _rows(index, obs):
    if obs is None:
        return np.arange(len(index))
    wanted = np.atleast_1d(np.asarray(obs))
    rows = [np.flatnonzero(index == label) for label in wanted]
    missing = [label for label, found in zip(wanted, rows, strict=True) if not len(found)]
    if missing or not len(wanted):
        raise ValueError(
            f"obs: no rows labelled {missing}; expected labels of the index, such as {index[:3]}."
        )
    return np.concatenate(rows)


def hyperparameter_draws(model, idata, num_draws=None):
    """Hyperparameters of every draw, checked to belong to the model.

    Parameters
    ----------
    idata : xarray.DataTree or dict
        A fit of this model, or fixed hyperparameters (one draw).
    num_draws : int, optional
        Thin evenly to at most this many.

    Returns
    -------
    dict of arrays (chain, draw, ...), in the model's order
    """
    if isinstance(idata, dict):
        fixed = model.fixed_hyperparameters(idata)
        return {name: fixed[name][None, None] for name in model.hyperparameters}
    if "posterior" not in getattr(idata, "children", {}):
        raise ValueError(
            "idata has no group `posterior`; expected the DataTree of model.fit or pm.sample, or "
            "a dict of fixed hyperparameters."
        )
    _refuse_other_model(model, idata)
    posterior = idata["posterior"]
    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    keep = np.arange(draws)
    if num_draws is not None:
        if num_draws < chains:
            raise ValueError(f"num_draws is {num_draws}; expected at least one for each chain.")
        keep = np.unique(np.linspace(0, draws - 1, min(num_draws // chains, draws)).round()).astype(
            int
        )
    dims = {h.name: h.dim for h in model.specification.hyperparameters}
    values = {}
    for name in model.hyperparameters:
        if name in model.fixed:
            fixed = model.fixed[name]
            value = np.broadcast_to(fixed, (chains, len(keep), *fixed.shape))
        else:
            value = posterior[model.posterior_name(name)].values[:, keep]
            if dims.get(name) and value.ndim == 2:
                value = np.repeat(value[..., None], model.training.size(dims[name]), axis=-1)
        values[name] = np.asarray(value, dtype="float64")
    return values


def _refuse_other_model(model, idata):
    written = idata.attrs.get(model.signature_key, model.signature)
    posterior = idata["posterior"]
    inferred = [model.posterior_name(n) for n in model.hyperparameters if n not in model.fixed]
    missing = [n for n in inferred if n not in posterior]
    cure = "Pass the idata that this model's fit returned."
    if missing or written != model.signature:
        raise ValueError(
            f"idata belongs to another model: expected {model.signature} with variables "
            f"{inferred}, got {written} with {list(posterior.data_vars)}. {cure}"
        )
    for h in model.specification.hyperparameters:
        if h.name in model.fixed or h.dim is None:
            continue
        found = posterior[model.posterior_name(h.name)].shape[2:]
        expected = (model.training.size(h.dim),)
        if found not in ((), expected):
            raise ValueError(
                f"idata belongs to another model: {h.name} has shape {found}, expected "
                f"{expected}. {cure}"
            )
    observed = idata["observed_data"] if "observed_data" in idata.children else {}
    y_name = model.posterior_name("y")
    if y_name in observed and not np.array_equal(observed[y_name].values, model.training.y):
        raise ValueError(f"idata belongs to another model: its observed y differ. {cure}")
