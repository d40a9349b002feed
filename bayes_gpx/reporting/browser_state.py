"""The state of a fit that a browser computes from: f at chosen rows, at thinned draws.

Each draw keeps the posterior of f at chosen rows R, which may be inducing points. Between them f
has the prior's conditional distribution, given its values at R. With all training rows, or all
inducing points, that is the model's posterior; otherwise it is an approximation, whose error is
measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytensor.tensor as pt
from scipy.linalg import cholesky, lapack, solve_triangular

from bayes_gpx.aliases import Draws, Tensor
from bayes_gpx.draws.each_draw import each_draw
from bayes_gpx.draws.graphs import Structure
from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws, hyperparameter_draws
from bayes_gpx.draws.points import Points
from bayes_gpx.posteriors.base import BESIDE
from bayes_gpx.processes.operators import evaluate
from bayes_gpx.reporting.kernel_form import Form, form_of_process

if TYPE_CHECKING:
    from bayes_gpx.data.features import Frame
    from bayes_gpx.model.model import Model
    from bayes_gpx.posteriors.base import Asked, OneDraw

LARGEST = 1_000_000
"""Most bytes of the roots of covariances of all draws, two for each number."""

CANDIDATES = 1500
"""Most training rows that rows are chosen from, at random."""

POINTS = 1000
"""Random points at which errors are measured."""

TRIED = (25, 50, 75, 100, 125, 150, 175, 200, 300)
"""Numbers of rows that are tried, until the errors are `SMALL`."""

SMALL = 0.03, 0.02
"""Largest errors of means, in posterior sds, and of sds, at which no more rows are tried."""

LEAST = 1e-9
"""Rows are chosen until others vary less than this, relative to the largest variance."""

JITTER = 1e-10
"""Added to prior variances, relative to their mean."""

INPUTS = {"U": "X", "U_Z": "Z"}
"""Columns of inducing points, and the inputs of rows that have their place."""

REACH = 8.0
"""The response is tabulated to so many sds of f around its means at the random points."""


@dataclass(frozen=True)
class _PriorAtRows:
    """Prior covariance of f at rows: a build function."""

    specification: Any
    called: Any
    d: int

    def process(self, theta: Any) -> Any:
        """The prior process without an approximation."""
        return self.specification.process(theta, self.d, self.called)

    def __call__(self, draw: OneDraw) -> list[Tensor]:
        rows = _values(cast("Asked", draw.asked))
        return [self.process(draw.given.theta).covariance(rows, rows)]


@dataclass(frozen=True)
class _Moments(_PriorAtRows):
    """Moments at chosen rows, the second question's, and at points; the kernel's numbers."""

    p: int

    def __call__(self, draw: OneDraw) -> list[Tensor]:
        """Mean and covariance at R, prior there; mean, variance, prior with R, prior variance."""
        process, q = self.process(draw.given.theta), draw.posterior()
        asked = cast("Asked", draw.asked)
        rows, at = _values(asked.beside), _values(asked)
        known, found = q(rows), q(at)
        outputs = [known.mean, known.cov, process.covariance(rows, rows)]
        outputs += [found.mean, found.variance, process.covariance(at, rows), process.variance(at)]
        if self.specification.family == "GPX":
            deviation = self.specification.deviation_sd(draw.given.theta)
            outputs.append(pt.broadcast_to(pt.as_tensor(deviation), (self.p,)))
        return outputs + form_of_process(process, self.d, self.p)[1]


def _values(asked: Asked) -> Any:
    return evaluate(asked["X"], asked["Z"], smooth=True)


@dataclass(frozen=True, eq=False)
class DrawState:
    """One draw, on the model's scale; see `moments_at` for beta and factor."""

    theta: dict[str, Any]
    numbers: list[np.ndarray]
    deviation: np.ndarray  # sds (p,) of deviations from the weights of a GPX, or none
    beta: np.ndarray  # (m,)
    factor: np.ndarray  # (m, m), lower triangular


@dataclass(frozen=True, eq=False)
class State:
    """What the browser is given of the posterior, and the errors against the model's posterior."""

    form: Form
    rows: np.ndarray  # (m, d + p)
    draws: list[DrawState]
    errors: tuple[float, float]  # largest error of a mean, in sds, and of an sd, relative to it
    reach: tuple[float, float]  # range of f to tabulate the response for
    jitter: float = JITTER


def inputs_of(model: Model, X: np.ndarray, Z: np.ndarray | None) -> dict[str, np.ndarray]:
    """Inputs of rows, from the columns of X and of a separate Z on the model's scale."""
    training = model.training
    if training.Z is None:
        return {"X": X}
    if training.z_is_x:
        Z = np.column_stack([X, np.ones(len(X))]) if training.intercept else X
    return {"X": X, "Z": cast(np.ndarray, Z)}


def state_of(model: Model, idata: Draws, draws: int, rng: np.random.Generator) -> State:
    """The state of a fit, with as many rows as its errors need."""
    training = model.training
    hyper = hyperparameter_draws(model, idata, draws)
    rows = np.arange(len(training.X))
    if len(rows) > CANDIDATES:
        rows = np.sort(rng.choice(rows, CANDIDATES, replace=False))
    X = training.X_scaling.apply(training.X.values[rows])
    Z = None if training.Z is None else training.Z_scaling.apply(training.Z.values[rows])
    candidates = inputs_of(model, X, Z)
    if model.inducing:  # f there is all that the approximation knows
        candidates = {INPUTS[name]: U for name, U in model.inducing.items()}
    size = min(len(candidates["X"]), int((LARGEST / len(hyper)) ** 0.5))
    chosen = _chosen(model, hyper, candidates, size)
    known = {name: values[chosen] for name, values in candidates.items()}
    shuffled = [
        _shuffled(frame, values, rng)
        for frame, values in ((training.X, X), (training.Z, Z))
        if frame is not None and values is not None
    ]
    at = inputs_of(model, shuffled[0], shuffled[-1])
    return _with_errors(model, hyper, known, at)


def _shuffled(frame: Frame, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Random points: each source's values are those of a random row, independently."""
    found = np.empty((POINTS, values.shape[1]))
    for source in range(len(frame.sources)):
        own = np.flatnonzero(frame.groups == source)
        found[:, own] = values[rng.integers(len(values), size=POINTS)][:, own]
    return found


def _chosen(
    model: Model, hyper: HyperparameterDraws, candidates: dict[str, np.ndarray], size: int
) -> np.ndarray:
    """Rows that leave the least prior variance of the others, chosen one after the other."""
    # The pivots of Cholesky's method, for the average over draws of the prior correlations.
    build = _PriorAtRows(model.specification, model.called_kernel, model.training.d)
    total = np.zeros((len(candidates["X"]),) * 2)
    for *_, (K,), _ in _each(model, hyper, build, candidates):
        total += K / np.diagonal(K).max()
    _, pivots, rank, _ = lapack.dpstrf(total, tol=LEAST * np.diagonal(total).max(), lower=1)
    return pivots[: min(rank, size)] - 1


def _each(
    model: Model,
    hyper: HyperparameterDraws,
    build: Any,
    inputs: dict[str, np.ndarray],
    beside: dict[str, np.ndarray] | None = None,
) -> Any:
    """Evaluate a build function at all rows together, for each draw."""
    common = {f"{BESIDE}{name}": values for name, values in (beside or {}).items()}
    n = len(inputs["X"])
    where = Points(inputs, inputs["X"], inputs.get("Z"), np.arange(n), common=common)
    return each_draw(model, hyper, build, where, size_of=lambda known: n)


def _with_errors(
    model: Model,
    hyper: HyperparameterDraws,
    known: dict[str, np.ndarray],
    at: dict[str, np.ndarray],
) -> State:
    spec, training = model.specification, model.training
    build = _Moments(spec, model.called_kernel, training.d, training.p)
    found = [
        (theta, [np.array(array) for array in arrays])
        for _, theta, _, _, arrays, _ in _each(model, hyper, build, at, known)
    ]
    exact = mixture([arrays[3] for _, arrays in found], [arrays[4] for _, arrays in found])
    most = len(known["X"])
    for size in (*(tried for tried in TRIED if tried < most), most):
        kept = [_kept(arrays[:3], size) for _, arrays in found]
        own = [
            moments_at(beta, factor, root, arrays[5][:, :size], arrays[6])
            for (beta, factor, root), (_, arrays) in zip(kept, found, strict=True)
        ]
        mean, sd = mixture([m for m, _ in own], [v for _, v in own])
        errors = np.abs(mean - exact[0]) / exact[1], np.abs(sd / exact[1] - 1.0)
        largest = float(errors[0].max()), float(errors[1].max())
        if largest[0] <= SMALL[0] and largest[1] <= SMALL[1]:
            break
    first = 7 + (spec.family == "GPX")
    draws = [
        DrawState(dict(theta), arrays[first:], arrays[7] if first > 7 else np.zeros(0), *pair[:2])
        for (theta, arrays), pair in zip(found, kept, strict=True)
    ]
    wide = [REACH * np.sqrt(arrays[6].max()) for _, arrays in found]
    reach = (
        min(float(a[3].min()) - r for (_, a), r in zip(found, wide, strict=True)),
        max(float(a[3].max()) + r for (_, a), r in zip(found, wide, strict=True)),
    )
    rows = np.hstack([values[:size] for values in known.values()])
    return State(form_of(model, hyper), rows, draws, largest, reach)


def form_of(model: Model, hyper: HyperparameterDraws) -> Form:
    """Form of the kernel, which no draw changes."""
    training = model.training
    theta = {
        name: pt.tensor(name, dtype="float64", shape=(None,) * ndim)
        for name, ndim in Structure.of(model, hyper).hyperparameters
    }
    process = model.specification.process(theta, training.d, model.called_kernel)
    return form_of_process(process, training.d, training.p)[0]


def _kept(arrays: Sequence[np.ndarray], size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whitened mean and root of the covariance at the first rows, and the root of their prior."""
    mean, cov, K = arrays[0][:size], arrays[1][:size, :size], arrays[2][:size, :size]
    jitter = JITTER * np.diagonal(K).mean() * np.eye(size)
    root = cholesky(K + jitter, lower=True)
    half = solve_triangular(root, cov + jitter, lower=True)
    S = solve_triangular(root, half.T, lower=True)
    factor = cholesky(0.5 * (S + S.T) + 1e-12 * np.eye(size), lower=True)
    return solve_triangular(root, mean, lower=True), factor, root


def moments_at(
    beta: np.ndarray, factor: np.ndarray, root: np.ndarray, K: np.ndarray, prior: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance (k,) of linear functions, from covariances (k, m) and prior variances."""
    # With v = L^-1 c: v' beta, and prior - v'v + (F'v)'(F'v).
    v = solve_triangular(root, K.T, lower=True)
    rooted = factor.T @ v
    return v.T @ beta, prior - (v**2).sum(axis=0) + (rooted**2).sum(axis=0)


def mixture(
    means: Sequence[np.ndarray], variances: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd of equal mixtures."""
    mean = np.mean(means, axis=0)
    second = np.mean(np.array(variances) + np.square(means), axis=0)
    return mean, np.sqrt(np.maximum(second - mean**2, 0.0))
