"""Optimize the positions of inducing points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.replace import graph_replace
from scipy.optimize import minimize

from bayes_gpx.aliases import Draws, Tensor
from bayes_gpx.draws.hyperparameter_draws import hyperparameter_draws, refuse_swapped
from bayes_gpx.numerics.compile_modes import BUFFERED_MODE
from bayes_gpx.numerics.threads import ThreadedFunction, blas_threads
from bayes_gpx.posteriors.base import Conditioning, inducing_operator
from bayes_gpx.processes.approximations import Inducing
from bayes_gpx.validation import count

if TYPE_CHECKING:
    from bayes_gpx.model.model import Model


def optimise_inducing(model: Model, idata: Draws, *, steps: int = 100) -> Inducing:
    """Optimize the positions of a model's inducing points.

    The points maximize the bound on the marginal likelihood, with the hyperparameters fixed at a
    fit's. Build a model with the new points, and fit it again::

        points = bx.optimise_inducing(model, idata)
        better = bx.GP(X, y, approximation=points)
        idata = better.fit("map", start=idata)

    Parameters
    ----------
    model : GP or GPX
        With inducing points, from which the optimizer starts.
    idata : xarray.DataTree or dict
        A fit, of which the medians are used, or a dict of fixed hyperparameters.
    steps : int
        Most steps of L-BFGS.

    Returns
    -------
    Inducing
        The points, in user units. Their bound is never below the bound at the start.

    Raises
    ------
    ValueError
        For a model without inducing points, out-of-core data, and idata that do not fit the model.

    References
    ----------
    Titsias, "Variational learning of inducing variables in sparse Gaussian processes" (2009),
    section 3.
    """
    refuse_swapped(model, idata)
    if not isinstance(model.specification.approximation, Inducing):
        raise ValueError(
            f"The model's approximation is {model.specification.approximation}. Use "
            "bx.Inducing(m), with points that can be moved."
        )
    model.training.refuse_out_of_core(
        "The training rows are out-of-core data. Move the points of a model of a sample of the "
        "rows, and pass the result as approximation=."
    )
    count("steps", steps)
    hyper = hyperparameter_draws(model, idata)
    theta = {name: np.median(v, axis=(0, 1)) for name, v in hyper.values.items()}
    start = _free(model)
    slope_of = _bound_and_slope(model, theta, start.shape)

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = slope_of(flat.reshape(start.shape))
        finite = np.isfinite(value) and np.isfinite(slope).all()
        return (-value, -slope.ravel()) if finite else (np.inf, np.zeros(flat.size))

    with np.errstate(all="ignore"):
        begun = np.isfinite(objective(start.ravel())[0])
    if not begun:
        raise ValueError(
            "The bound is not finite at the model's own points with the medians of this fit. Use "
            "hyperparameters of moderate size, and sigma well above 0."
        )
    with blas_threads(model.training.n), np.errstate(all="ignore"):
        found = minimize(
            objective, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": steps}
        )
    points, training = found.x.reshape(start.shape), model.training
    d = training.d
    moved = points[:, :d] * training.X_scaling.scale + training.X_scaling.center
    if points.shape[1] > d:
        width = points.shape[1] - d
        own = training.Z_scaling
        weighed = points[:, d:] * own.scale[:width] + own.center[:width]
        moved = np.hstack([moved, weighed])
    return Inducing(moved, model.specification.approximation.seed)


def _free(model: Model) -> np.ndarray:
    """Coordinates that can move: the points' columns of X and, if Z is separate, of Z."""
    training, U = model.training, model.inducing["U"]
    if training.Z is None or training.z_is_x:
        return U
    return np.hstack([U, model.inducing["U_Z"][:, : training.p - training.intercept]])


def _bound_and_slope(
    model: Model, theta: Mapping[str, np.ndarray], shape: tuple[int, ...]
) -> ThreadedFunction:
    """Return a compiled function from the points to the bound and its gradient."""
    training, points = model.training, pt.tensor("points", shape=shape, dtype="float64")
    data = {name: pt.constant(v) for name, v in training.scaled().items()}
    U, U_Z = points[:, : training.d], None
    if training.Z is not None:
        weighed = U if training.z_is_x else points[:, training.d :]
        ones = pt.ones((shape[0], int(training.intercept)))
        U_Z = pt.concatenate([weighed, ones], axis=1)
    held = {name: pt.constant(v) for name, v in theta.items()}
    specification = model.specification
    X, Z = data["X"], data.get("Z")
    process = specification.prior(held, training.d, model.called_kernel, None, training.p)
    rest = data["y"], Z, data.get("exposure"), inducing_operator(U, U_Z)
    given = Conditioning(process, specification.conditioned, held, X, *rest)
    bound = specification.strategy_of().leave_one_out(given).evidence
    own = {rv: held[rv.name] for rv in model.own_variables}
    slope = cast(Tensor, pt.grad(bound, points))
    outputs = graph_replace([bound, slope], own, strict=False)
    return ThreadedFunction([points], outputs, mode=BUFFERED_MODE, trust_input=True)
