"""Sparse variational fits: the bound from some rows, and the posterior of the inducing values."""

import numpy as np
import pymc as pm
import xarray as xr

from bayes_gpx.draws.each_draw import at_training_rows
from bayes_gpx.inference.stochastic import BoundByRows
from bayes_gpx.posteriors.minibatch import batch_of, bound_of


def inducing_values(model, idata, progressbar):
    """Posterior moments of the values at the inducing points, on the model's scale.

    The points are in user units: `U`, and `U_Z` of weighed features.
    """
    (mean, chol), hyper, _ = at_training_rows(model, idata, _moments, progressbar=progressbar)
    training, lead = model.training, ("chain", "draw")
    coords = {"chain": hyper.chain, "draw": hyper.draw}
    classes = ("class",) if model.specification.observation.class_shape else ()
    if classes:
        coords["class"] = list(training.labels)
    found = {
        "u_mean": ((*lead, "inducing", *classes), mean),
        "u_chol": ((*lead, *classes, "inducing", "inducing_bis"), chol),
    }
    placed = {"U": (training.X, training.X_scaling, "feature")}
    placed["U_Z"] = training.Z, training.Z_scaling, "z_feature"
    for name, points in model.inducing.items():
        frame, scaling, dim = placed[name]
        found[name] = ("inducing", dim), points * scaling.scale + scaling.center
        coords[dim] = list(frame.columns)
    return xr.Dataset(found, coords)


def _moments(draw):
    return draw.strategy.inducing_moments(draw.given)


def bound_by_rows(model, minibatch):
    """The model's bound as an estimate from `minibatch` rows, a `BoundByRows`."""
    data, likelihood = model.training, model.specification.observation
    if data.streamed:
        raise ValueError(
            f"minibatch is {minibatch}, but the training rows are out-of-core data. Leave "
            "minibatch out: each step then passes over all rows."
        )
    if minibatch > data.n or model.specification.normal:
        raise ValueError(
            f"minibatch is {minibatch} with {data.n} rows and "
            f"likelihood={model.specification.likelihood!r}, but can be at most the number of "
            "rows, with noise that is not normal. Leave minibatch out to use all rows."
        )
    batch, bound = batch_of(likelihood.class_shape), []

    def observe(specification, given, training, **_):
        expected, *others = bound_of(specification.strategy_of(), given, batch)
        bound.extend([expected - training.n * np.log(training.response_scaling.scale), *others])
        return bound

    with pm.Model(model=None) as objective:
        model.build(observe, pm.Data)
    scaled = data.scaled()
    rows = {batch.y: scaled["y"], batch.exposure: scaled["exposure"]}
    for name, frame in (("X", data.X), ("Z", data.Z)):
        if model.in_model(name) in objective.named_vars:
            rows[objective[model.in_model(name)]] = frame.values
    sizes = minibatch, len(model.inducing["U"]), likelihood.classes or 1
    return BoundByRows(objective, bound, batch, rows, sizes)
