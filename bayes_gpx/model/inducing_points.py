"""Inducing points: initial positions among the data, and variational fits of their values."""

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pymc as pm
import xarray as xr
from scipy.cluster.vq import ClusterError, kmeans2

from bayes_gpx.aliases import Draws, Tensor
from bayes_gpx.data.scaling import Scaling
from bayes_gpx.data.training import TrainingData
from bayes_gpx.draws.each_draw import at_training_rows
from bayes_gpx.inference.stochastic import BoundByRows
from bayes_gpx.model.specification import Specification
from bayes_gpx.posteriors.base import Conditioning, OneDraw
from bayes_gpx.posteriors.evidence.variational import CERTAIN
from bayes_gpx.posteriors.minibatch import batch_of, bound_of
from bayes_gpx.posteriors.strategies.through_coefficients import ThroughCoefficients
from bayes_gpx.posteriors.strategies.variational import Variational
from bayes_gpx.processes.approximations import Approximation, Inducing, refuse_large
from bayes_gpx.system.warning import FitWarning, warn

LARGEST_CLUSTERED = 10_000
"""Rows among which k-means looks for inducing points."""


def inducing_points(
    training: TrainingData, approximation: Approximation | None
) -> dict[str, np.ndarray]:
    """Inducing points on the model's scale: dict of `U` and, for a GPX, `U_Z`; else empty."""
    if approximation is None:
        return {}
    refuse_large(approximation, training.d)
    if not isinstance(approximation, Inducing):
        return {}
    data, d = training.scaled(), training.d
    apart = training.Z is not None and not training.z_is_x
    weighed = data["Z"][:, : training.p - training.intercept] if apart else data["X"][:, :0]
    if isinstance(approximation.m, tuple):
        points = np.array(approximation.m)
        width = d + weighed.shape[1]
        if points.shape[1] != width:
            raise ValueError(
                f"Inducing points have {points.shape[1]} columns, but must have {width}, in user "
                "units."
            )
        X = Z = training.X_scaling.apply(points[:, :d])
        if apart:
            own, columns = cast(Scaling, training.Z_scaling), slice(weighed.shape[1])
            center, scale = np.asarray(own.center), np.asarray(own.scale)
            Z = (points[:, d:] - center[columns]) / scale[columns]
    else:
        centers = _centers(
            np.hstack([data["X"], weighed]), cast(int, approximation.m), approximation.seed
        )
        X, Z = centers[:, :d], centers[:, d:] if apart else centers
    if training.Z is None:
        return {"U": X}
    return {"U": X, "U_Z": np.hstack([Z, np.ones((len(Z), int(training.intercept)))])}


def _centers(rows: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Centers (m, columns) of clusters of the rows, or all different rows if they are no more."""
    rng = np.random.default_rng(seed)
    different = np.unique(rows, axis=0)
    if count >= len(different):
        return different
    kept = rng.permutation(len(different))
    some = different[kept[: max(LARGEST_CLUSTERED, count)]]
    try:
        return kmeans2(some, count, minit="++", missing="raise", rng=rng)[0]
    except ClusterError:
        return some[:count]


def inducing_values(model: Any, idata: Draws, progressbar: bool) -> xr.Dataset:
    """Posterior moments of inducing values, on the model's scale, and points in user units."""
    # The points are `U`, and `U_Z` of weighed features.
    (mean, chol), hyper, _ = at_training_rows(model, idata, _moments, progressbar=progressbar)
    count = len(model.inducing["U"])  # constrained quantities are after these
    mean, chol = mean[:, :, :count], chol[..., :count, :count]
    training, lead = model.training, ("chain", "draw")
    coords: dict[str, Any] = {"chain": hyper.chain, "draw": hyper.draw}
    observation = model.specification.observation
    classes = (observation.class_dim,) if observation.class_shape else ()
    if classes:
        coords[observation.class_dim] = list(observation.processes or training.labels)
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


def _moments(draw: OneDraw) -> list[Tensor]:
    return cast(ThroughCoefficients, draw.strategy).inducing_moments(draw.given)


def bound_by_rows(model: Any, minibatch: int) -> BoundByRows:
    """The model's bound as an estimate from `minibatch` rows, a `BoundByRows`."""
    data, likelihood = model.training, model.specification.conditioned
    data.refuse_out_of_core(
        f"minibatch is {minibatch}, but the training rows are out-of-core data. Leave "
        "minibatch out: each step then passes over all rows."
    )
    if model.specification.constraints is not None:
        raise ValueError(
            f"minibatch is {minibatch}, but the model has constraints, which are fitted together "
            "with all rows. Leave minibatch out to use all rows."
        )
    if minibatch > data.n or model.specification.normal:
        raise ValueError(
            f"minibatch is {minibatch} with {data.n} rows and "
            f"likelihood={model.specification.likelihood!r}, but can be at most the number of "
            "rows, with noise that is not normal. Leave minibatch out to use all rows."
        )
    if model.specification.deviating:
        warn(
            "Minibatches do not learn deviations of weights, and sigma_w is estimated too small. "
            "Pass priors={'sigma_w': 0.0}, or leave minibatch out.",
            FitWarning,
        )
    batch, bound = batch_of(likelihood), []

    def observe(
        specification: Specification, given: Conditioning, training: TrainingData, **_: Any
    ) -> list[Tensor]:
        strategy = replace(specification, deviating=False).strategy_of()
        expected, *others = bound_of(cast(Variational, strategy), given, batch)
        units = np.broadcast_to(training.log_units, (training.n,)).sum()
        bound.extend([expected - units, *others])
        return bound

    with pm.Model(model=None) as objective:
        model.build(observe, pm.Data)
    scaled = data.scaled()
    rows = {batch.y: scaled["y"], batch.exposure: scaled["exposure"]}
    for name, frame in (("X", data.X), ("Z", data.Z)):
        if model.in_model(name) in objective.named_vars:
            rows[objective[model.in_model(name)]] = frame.values
    sizes = minibatch, len(model.inducing["U"]), likelihood.classes or 1
    start = CERTAIN if likelihood.processes else 1.0
    return BoundByRows(objective, bound, batch, rows, sizes, start)
