"""Draws of the hyperparameters for an explanation function, checked against its model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Draws
from bayes_gpx.draws.protocols import ModelLike
from bayes_gpx.posteriors.base import CONSTRAINED, LATENT
from bayes_gpx.validation import count

if TYPE_CHECKING:
    from bayes_gpx.posteriors.constraints import Constraints


PROBES = ("kernel_probe", "covariance")
"""Parts of a signature that fits of version 0.1 lack."""

LONGEST = 200
"""Characters of a part of a signature in a message."""


@dataclass(frozen=True, eq=False)
class HyperparameterDraws:
    """Hyperparameters on the model's scale.

    Attributes
    ----------
    values
        Arrays (chain, draw, ...) in the model's order; last latent values, where they were sampled
        and noise is not normal, or noisy values between the bounds of constraints.
    chain, draw
        Labels.
    alone
        Whether the fit holds a single draw.
    """

    values: dict
    chain: np.ndarray
    draw: np.ndarray
    alone: bool

    def __iter__(self) -> Iterator[tuple[tuple[int, int], dict[str, np.ndarray]]]:
        """Pairs of (chain, draw) positions and the dict of hyperparameters there."""
        for at in np.ndindex(len(self.chain), len(self.draw)):
            yield at, {name: np.asarray(values[at]) for name, values in self.values.items()}

    def __len__(self) -> int:
        return len(self.chain) * len(self.draw)

    def place(self, number: int) -> tuple[int, int]:
        """Positions of the chain and of the draw with this number."""
        return divmod(number, len(self.draw))


def hyperparameter_draws(
    model: ModelLike, idata: Draws, num_draws: int | None = None
) -> HyperparameterDraws:
    """Hyperparameters of every draw of a fit or of fixed ones, thinned evenly to `num_draws`."""
    if num_draws is not None:
        count("num_draws", num_draws)
    if isinstance(idata, dict):
        fixed = model.fixed_hyperparameters(idata)
        values = {name: fixed[name][None, None] for name in model.hyperparameters}
        return HyperparameterDraws(values, np.arange(1), np.arange(1), True)
    refuse_other_model(model, idata)
    posterior = idata["posterior"].to_dataset().transpose("chain", "draw", ...)
    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    kept = draws if num_draws is None else min(num_draws // chains, draws)
    if not kept:
        raise ValueError(
            f"num_draws is {num_draws} for {chains} chains. Pass at least one for each chain."
        )
    posterior = posterior.isel(draw=np.linspace(0, draws - 1, kept).round().astype(int))
    known = {h.name: h for h in model.specification.hyperparameters}
    values = {}
    for name in model.hyperparameters:
        if name in model.fixed:
            own = model.fixed[name]
            value = np.broadcast_to(own, (chains, kept, *own.shape))
        else:
            value = posterior[model.posterior_names[name]].values
            if name in known:
                value = _of_each(value, known[name], model)
        if not np.isfinite(value).all():
            raise ValueError(f"idata holds draws of {name} that are not finite; drop them.")
        values[name] = np.asarray(value, dtype="float64")
    if all(sampled in posterior for sampled in model.latent_names.values()):
        latent = {name: posterior[kept].values for name, kept in model.latent_names.items()}
        if LATENT in latent:
            latent[LATENT] = model.training.y_scaling.apply(latent[LATENT])
        if CONSTRAINED in latent:
            bounded = cast(
                "Constraints", cast("Constraints", model.specification.constraints).bounded
            )
            latent[CONSTRAINED] = (latent[CONSTRAINED] - bounded.center) / bounded.unit
        values |= latent
    chain, draw = posterior["chain"].values, posterior["draw"].values
    return HyperparameterDraws(values, chain, draw, chains * draws == 1)


def _short(value: Any) -> str:
    """A component of a signature, cut to a readable length."""
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _of_each(value: np.ndarray, h: Any, model: ModelLike) -> np.ndarray:
    """Values (chain, draw, *sizes) of one for all (chain, draw), or one for each of X's sources."""
    training, dims = model.training, h.dims
    if value.ndim == 2:
        sizes = [model.specification.size(dim, training) for dim in dims]
        return np.broadcast_to(
            value.reshape((*value.shape, *[1] * len(sizes))), (*value.shape, *sizes)
        )
    if h.dim == "feature" and value.shape[-1] == training.sources[0]:
        return value[..., training.X.groups]
    return value


def refuse_swapped(model: ModelLike, idata: Draws | None) -> None:
    """Raise if the model argument is no model, or if model and idata are swapped."""
    # The first line of every explanation function, before it reads anything of the model.
    if hasattr(model, "training"):
        return
    if hasattr(idata, "training"):
        raise ValueError("model and idata are swapped. Pass the model first, then its idata.")
    raise ValueError(
        f"model is a {type(model).__name__}. Pass a bx.GP or bx.GPX, and then the idata that its "
        "fit returned."
    )


def refuse_other_model(model: ModelLike, idata: Draws) -> None:
    """Raise if a DataTree is not a fit of this model, as far as its contents tell."""
    if isinstance(idata, dict):
        raise ValueError(
            "idata is a dict of fixed hyperparameters, without a group `posterior`, which this "
            "function needs. Pass the DataTree of model.fit or pm.sample; if there is nothing to "
            "fit, fix fewer hyperparameters."
        )
    if "posterior" not in getattr(idata, "children", {}):
        raise ValueError(
            f"idata is a {type(idata).__name__} without a group `posterior`. Pass the DataTree of "
            "model.fit or pm.sample, or a dict of fixed hyperparameters."
        )
    posterior = idata["posterior"]
    if not {"chain", "draw"} <= set(posterior.sizes):
        raise ValueError(
            f"idata.posterior has dims {list(posterior.sizes)}, but must have chain, draw."
        )
    difference = next(_differences(model, cast("xr.DataTree", idata)), None)
    if difference is not None:
        raise ValueError(
            f"idata belongs to another model: {difference}. Pass the idata that this model's fit "
            "returned."
        )


def _differences(model: ModelLike, idata: xr.DataTree) -> Iterator[str]:
    """Yield, in words, how a DataTree differs from a fit of the model."""
    own = json.loads(model.signature)
    written = json.loads(idata.attrs.get(model.signature_key, model.signature))
    for name in dict.fromkeys([*own, *written]):
        if name in PROBES and name not in written:  # a file of version 0.1
            continue
        if own.get(name) != written.get(name):
            known, found = (_short(said.get(name)) for said in (own, written))
            yield f"its {name} is {found}, but must be {known}"
    posterior, names = idata["posterior"].to_dataset(), model.posterior_names
    inferred = [names[n] for n in model.hyperparameters if n not in model.fixed]
    missing = [name for name in inferred if name not in posterior]
    if missing:
        yield f"it lacks {missing}, and has {list(posterior.data_vars)}"
        return
    columns = {"feature": {model.training.X.sources, model.training.X.columns}}
    if model.training.Z is not None:
        columns["z_feature"] = {model.training.Z.columns}
    for h in model.specification.hyperparameters:
        if h.name in model.fixed or h.dim not in columns or h.each is not None:
            continue
        draws = posterior[names[h.name]]
        labels = draws.coords.get(draws.dims[-1]) if draws.ndim == 3 else None
        allowed = columns[h.dim]  # files of version 0.1 have a value for each indicator
        expected = min(allowed, key=len)
        if draws.ndim == 3 and draws.shape[-1] not in map(len, allowed):
            yield f"{h.name} has {draws.shape[-1]} values, but must have {len(expected)}"
        elif labels is not None and (said := tuple(map(str, labels.values))) not in allowed:
            yield f"{h.name} is labelled {list(said)}, but must be {list(expected)}"
    training = model.training
    data = training.scaled() | {"y": training.y, "X": training.X.values}
    if training.Z is not None:
        data["Z"] = training.Z.values
    if training.groups is not None:
        data["group"] = training.groups.codes
    for group, name in (
        ("observed_data", "y"),
        ("constant_data", "X"),
        ("constant_data", "Z"),
        ("constant_data", "exposure"),
        ("constant_data", "group"),
    ):
        if name not in data or group not in idata.children:
            continue
        stored, kept = idata[group].to_dataset(), model.in_model(name)
        if kept in stored and not np.array_equal(stored[kept].values, data[name]):
            yield f"its {name} differs"
