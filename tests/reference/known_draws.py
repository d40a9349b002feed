"""Fits whose draws of the hyperparameters are given, where no sampler has to make them."""

import numpy as np
import xarray as xr


def known(model, thetas):
    """A fit of a model that holds one draw for each dict of hyperparameters."""
    features = list(model.training.X.sources)
    posterior = {}
    for name in model.hyperparameters:
        values = np.array([[theta[name] for theta in thetas]], dtype=float)
        dims = ["feature"] if values.shape[2:] == (len(features),) else []
        dims = dims or [f"{name}_dim_{k}" for k in range(values.ndim - 2)]
        posterior[name] = ("chain", "draw", *dims), values
    coords = {"chain": [0], "draw": range(len(thetas)), "feature": features}
    return xr.DataTree.from_dict({"posterior": xr.Dataset(posterior, coords)})


def scattered(theta, draws):
    """Dicts of hyperparameters around a given one, each log-normal with standard deviation 0.2."""
    rng = np.random.default_rng(1)
    return [
        {name: value * rng.lognormal(0.0, 0.2, np.shape(value)) for name, value in theta.items()}
        for _ in range(draws)
    ]


def tree_of(theta, features=("dose",), chains=1, draws=1):
    """A fit whose draws all are `theta`."""
    values = {k: np.broadcast_to(v, (chains, draws, *np.shape(v))) for k, v in theta.items()}
    dims = {"lengthscale": ["feature"]}
    posterior = xr.Dataset(
        {k: (("chain", "draw", *dims.get(k, [])), v) for k, v in values.items()},
        {"chain": range(chains), "draw": range(draws), "feature": list(features)},
    )
    stats = xr.Dataset({"lp": (("chain", "draw"), np.zeros((chains, draws)))})
    return xr.DataTree.from_dict({"posterior": posterior, "sample_stats": stats})
