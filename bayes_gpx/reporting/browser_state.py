"""The state of a fit that a browser computes from: f at chosen rows, at thinned draws.

Each draw keeps the posterior of f at chosen rows R, which may be inducing points. Between them f
has the prior's conditional distribution, given its values at R. With all training rows, or all
inducing points, that is the model's posterior; otherwise it is an approximation, and its error is
measured. f of several outputs or classes is one function of points with a last column of codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytensor.tensor as pt
from scipy.linalg import cholesky, lapack, solve_triangular

from bayes_gpx.aliases import Draws, Tensor
from bayes_gpx.draws.each_draw import each_draw
from bayes_gpx.draws.graphs import Structure
from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws, hyperparameter_draws
from bayes_gpx.draws.points import Points
from bayes_gpx.numerics.threads import blas_threads
from bayes_gpx.posteriors.base import BESIDE
from bayes_gpx.posteriors.softmax import across
from bayes_gpx.processes.class_process import ClassProcess
from bayes_gpx.processes.operators import evaluate
from bayes_gpx.reporting.kernel_form import Form, form_of_process

if TYPE_CHECKING:
    from bayes_gpx.data.features import Frame
    from bayes_gpx.model.model import Model
    from bayes_gpx.posteriors.base import Asked, OneDraw

LARGEST = 1_000_000
"""Most bytes of the roots of covariances of all draws, two for each number."""

CANDIDATES = 1500
"""Most values of f at training rows that rows are chosen from, at random."""

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
    """Prior covariance of f at rows: a build function. Classes are within rows."""

    specification: Any
    called: Any
    d: int
    p: int

    def process(self, theta: Any) -> Any:
        """The prior process without an approximation."""
        spec = replace(self.specification, approximation=None)
        return spec.prior(theta, self.d, self.called, None, self.p)

    def covariance(self, process: Any, ours: Any, theirs: Any) -> Any:
        """Prior covariances, of independent classes too."""
        K, classes = process.covariance(ours, theirs), self.specification.classes
        apart = classes is not None and not isinstance(process, ClassProcess)
        return pt.linalg.kron(K, pt.eye(classes)) if apart else K

    def __call__(self, draw: OneDraw) -> list[Tensor]:
        rows = _values(cast("Asked", draw.asked))
        return [self.covariance(self.process(draw.given.theta), rows, rows)]


@dataclass(frozen=True)
class _Moments(_PriorAtRows):
    """Moments at chosen rows, the second question's, and at points; the kernel's numbers."""

    def __call__(self, draw: OneDraw) -> list[Tensor]:
        """Mean and covariance at R, prior there; mean, variance, prior with R, prior variance."""
        spec, theta = self.specification, draw.given.theta
        process, asked = self.process(theta), cast("Asked", draw.asked)
        rows, at = _values(asked.beside), _values(asked)
        outputs = [*_posterior(draw, rows, joint=True), self.covariance(process, rows, rows)]
        outputs += [*_posterior(draw, at, joint=False), self.covariance(process, at, rows)]
        prior = process.variance(at)
        apart = spec.classes is not None and not isinstance(process, ClassProcess)
        outputs.append(pt.repeat(prior, spec.classes) if apart else prior)
        if spec.family == "GPX":
            sds = [spec.deviation_sd(own) for own in _each_output(spec, theta)]
            outputs.append(pt.stack([pt.broadcast_to(pt.as_tensor(sd), (self.p,)) for sd in sds]))
        return outputs + self.form(process)[1]

    def form(self, process: Any) -> tuple[Form, list[Tensor]]:
        """The covariance as plain data."""
        spec = self.specification
        p = self.p if spec.family == "GPX" else 0
        return form_of_process(process, self.d, p, spec.codes, spec.classes)


def _posterior(draw: OneDraw, operator: Any, *, joint: bool) -> Sequence[Tensor]:
    """Means, and variances or the joint covariance; classes are within rows."""
    each = [draw.posterior(label)(operator) for label in draw.given.labels]
    if len(each) == 1:
        return each[0].mean, each[0].cov if joint else each[0].variance
    mean, cov = across(each, joint)
    return mean, cov if joint else pt.diagonal(cov, axis1=1, axis2=2).ravel()


def _each_output(spec: Any, theta: Any) -> list[dict[str, Any]]:
    """Hyperparameters of each output; of one function those of all."""
    own = [h.name for h in spec.hyperparameters if h.each == "output"]
    return [theta | {n: theta[n][o] for n in own} for o in range(spec.outputs or 0)] or [theta]


def _values(asked: Asked) -> Any:
    return evaluate(asked.points, asked["Z"], smooth=True)


@dataclass(frozen=True, eq=False)
class DrawState:
    """One draw, on the model's scale; see `moments_at` for beta and factor."""

    theta: dict[str, Any]
    numbers: list[np.ndarray]
    deviation: np.ndarray  # sds (q, p) of deviations from the weights of a GPX, by output; or none
    beta: np.ndarray  # (m,)
    factor: np.ndarray  # (m, m), lower triangular


@dataclass(frozen=True, eq=False)
class State:
    """What the browser is given of the posterior, and the errors against the model's posterior."""

    form: Form
    rows: np.ndarray  # (m, d + p + c), with the codes of group, output or class last
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


def several(model: Model) -> range | list[int]:
    """Codes of the outputs or classes that f has a value of at each row; of one function [0]."""
    outputs = model.training.outputs
    if outputs is None:
        return range(model.specification.classes or 1)
    return range(len(outputs.names)) if outputs.asked is None else [outputs.asked]


def _coded(
    model: Model, inputs: dict[str, np.ndarray], groups: np.ndarray | None
) -> dict[str, np.ndarray]:
    """Inputs with the codes of groups, and with a row for each output."""
    codes = [] if groups is None else [groups]
    if model.training.outputs is not None:
        outputs = several(model)
        codes = [*np.repeat(codes, len(outputs), axis=-1), np.tile(outputs, len(inputs["X"]))]
        inputs = {name: np.repeat(values, len(outputs), axis=0) for name, values in inputs.items()}
    if not len(codes):
        return inputs
    return inputs | {"group": codes[0] if len(codes) == 1 else np.stack(codes, axis=1)}


def state_of(model: Model, idata: Draws, draws: int, rng: np.random.Generator) -> State:
    """The state of a fit, with as many rows as its errors need."""
    training, width = model.training, len(several(model))
    hyper = hyperparameter_draws(model, idata, draws)
    rows = np.arange(len(training.X))
    if len(rows) > CANDIDATES // width:
        rows = np.sort(rng.choice(rows, CANDIDATES // width, replace=False))
    X = training.X_scaling.apply(training.X.values[rows])
    Z = None if training.Z is None else training.Z_scaling.apply(training.Z.values[rows])
    groups = None if training.groups is None else training.groups.codes[rows]
    candidates = inputs_of(model, X, Z)
    spec = model.specification
    if model.inducing and not spec.codes and spec.constraints is None:  # f there is all it knows
        candidates, known = {INPUTS[name]: U for name, U in model.inducing.items()}, None
    else:
        known = groups
    candidates = _coded(model, candidates, known)
    size = int((LARGEST / len(hyper)) ** 0.5 / width)
    chosen = _chosen(model, hyper, candidates, max(size, 1))
    if training.outputs is not None:
        chosen = (chosen[:, None] * width + np.arange(width)).ravel()
    kept = {name: values[chosen] for name, values in candidates.items()}
    shuffled = [
        _shuffled(frame, values, rng)
        for frame, values in ((training.X, X), (training.Z, Z))
        if frame is not None and values is not None
    ]
    at = inputs_of(model, shuffled[0], shuffled[-1])
    drawn = None if groups is None else rng.choice(groups, POINTS)
    with blas_threads(len(rows)):
        return _with_errors(model, hyper, kept, _coded(model, at, drawn))


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
    training, width = model.training, len(several(model))
    build = _PriorAtRows(model.specification, model.called_kernel, training.d, training.p)
    total: Any = 0.0
    for *_, (K,), _ in _each(model, hyper, build, candidates):
        m = len(K) // width
        total = total + np.einsum("icjc->ij", K.reshape((m, width, m, width))) / K.max()
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
    spec, training, width = model.specification, model.training, len(several(model))
    build = _Moments(spec, model.called_kernel, training.d, training.p)
    found = [
        (theta, [np.array(array) for array in arrays])
        for _, theta, _, _, arrays, _ in _each(model, hyper, build, at, known)
    ]
    exact = mixture([arrays[3] for _, arrays in found], [arrays[4] for _, arrays in found])
    most = len(found[0][1][0])
    for size in (*(tried * width for tried in TRIED if tried * width < most), most):
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
        DrawState(theta, arrays[first:], arrays[7] if first > 7 else np.zeros((1, 0)), *pair[:2])
        for (_, theta), (_, arrays), pair in zip(hyper, found, kept, strict=True)
    ]
    wide = [REACH * np.sqrt(arrays[6].max()) for _, arrays in found]
    reach = (
        min(float(a[3].min()) - r for (_, a), r in zip(found, wide, strict=True)),
        max(float(a[3].max()) + r for (_, a), r in zip(found, wide, strict=True)),
    )
    rows = columns_of(model, known)[:size]
    return State(form_of(model, hyper), rows, draws, largest, reach)


def columns_of(model: Model, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """Points of rows, with codes last, and each row once for each class."""
    found, classes = np.column_stack([*inputs.values()]), model.specification.classes
    if classes is None:
        return found
    return np.column_stack([np.repeat(found, classes, 0), np.tile(np.arange(classes), len(found))])


def form_of(model: Model, hyper: HyperparameterDraws) -> Form:
    """Form of the kernel, which no draw changes."""
    training = model.training
    theta = {
        name: pt.tensor(name, dtype="float64", shape=(None,) * ndim)
        for name, ndim in Structure.of(model, hyper).hyperparameters
    }
    build = _Moments(model.specification, model.called_kernel, training.d, training.p)
    return build.form(build.process(theta))[0]


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
