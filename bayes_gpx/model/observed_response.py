"""The response in a PyMC model, with f integrated out or with sampled latent values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast
from weakref import ref

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.custom import CustomDistRV, CustomSymbolicDistRV
from pymc.distributions.shape_utils import _change_dist_size, rv_size_is_none
from pymc.logprob.abstract import _logcdf, _logprob
from pytensor.graph.basic import Constant
from pytensor.graph.replace import clone_replace

from bayes_gpx.aliases import Rename, Tensor, TensorLike
from bayes_gpx.data.row_data import CENSORING, RowData
from bayes_gpx.data.scaling import Scaling
from bayes_gpx.data.training import TrainingData
from bayes_gpx.likelihoods.own import Custom
from bayes_gpx.likelihoods.rows import tails_of
from bayes_gpx.model.latent_variables import latent_values, weighed_values
from bayes_gpx.model.specification import Specification
from bayes_gpx.numerics.row_sums import parameters_of, row_sums
from bayes_gpx.posteriors.base import Conditioning
from bayes_gpx.posteriors.constraints import sites, with_sites
from bayes_gpx.posteriors.evidence.sums import Sums
from bayes_gpx.posteriors.laplace import prior_covariance
from bayes_gpx.posteriors.strategies.by_group import ByGroup
from bayes_gpx.posteriors.strategies.choice import has_large_design
from bayes_gpx.posteriors.strategies.collapsed import Collapsed
from bayes_gpx.posteriors.strategies.exact import Exact
from bayes_gpx.posteriors.strategies.low_rank import FixedBasis, LowRankNormal
from bayes_gpx.posteriors.strategies.through_coefficients import block_of
from bayes_gpx.posteriors.strategies.variational import Variational
from bayes_gpx.system.warning import warn


def observe(
    specification: Specification,
    given: Conditioning,
    training: TrainingData,
    *,
    rename: Rename,
    ridge: TensorLike = 0.0,
    sums: Callable | None = None,
) -> list[Tensor]:
    """Add the response to the PyMC model on the stack; return the graphs of hyperparameters."""
    # In a hierarchy, f (and in a GPX the weights) are variables, and y is observed around f.
    # Otherwise a Gaussian likelihood integrates f out, and other likelihoods observe y around
    # whitened latent values. `rename` maps names of variables and dims to those in the model;
    # `ridge` is added to variances if f is integrated out; `sums` maps a response in user units to
    # `Sums` by name, for a strategy `by_sums`.
    if training.streamed:
        sums = cast(Callable, sums)
        return streamed(specification, given, training, rename=rename, ridge=ridge, sums=sums)
    if specification.hierarchical:
        return hierarchy(specification, given, training, rename=rename)
    if specification.normal:
        return collapsed(specification, given, training, rename=rename, ridge=ridge, sums=sums)
    return latent_response(specification, given, training, rename=rename)


def collapsed(
    specification: Specification,
    given: Conditioning,
    training: TrainingData,
    *,
    rename: Rename,
    ridge: TensorLike = 0.0,
    sums: Callable | None = None,
) -> list[Tensor]:
    """Add y with all but hyperparameters integrated out, exactly or by an approximate density."""
    strategy, scaling = cast(Collapsed, specification.strategy_of()), training.response_scaling
    draw = GENERATIVE.get(strategy) if specification.normal else None
    large = has_large_design(strategy, given)
    if large or strategy.by_sums:
        given = _unfolded(given)
    density = (_by_rows if large else _at_once)(strategy, given, ridge)
    if given.beyond is not None:
        pm.Potential(rename("weights"), given.beyond.sum())
    if given.constraints is not None:
        pm.Potential(rename("constraints"), strategy.log_constraint(*density.parts))

    def log_density(value: Any, *parts: Tensor) -> Tensor:
        if isinstance(strategy, FixedBasis) and sums is not None and isinstance(value, Constant):
            evidence = strategy.log_density_by_sums(Sums(**sums(value.data)), *parts[1:])
        else:
            y = (value - scaling.center) / scaling.scale
            if isinstance(value, Constant):  # rewrites would round otherwise than `scaled` does
                y = pt.constant(scaling.apply(value.data))
            evidence = density.log_density(y, *parts)
        return evidence - (training.log_units * pt.ones_like(value)).sum()

    def dist(*parts_and_size: Any) -> Tensor:
        return scaling.center + scaling.scale * cast(Callable, draw)(*parts_and_size)

    pm.modelcontext(None).collapsed = True  # of which `BoundModel` warns
    y = pm.CustomDist(
        rename("y"),
        *density.parts,
        logp=log_density,
        signature=f"{density.signature}->(n)",
        dims=rename(training.responses[0]),
        observed=training.y,
        class_name=RESPONSE,
        **({} if draw is None else {"dist": dist}),
    )
    _keep_with(y, log_density, len(density.parts))
    return density.parts


RESPONSE = "GaussianProcessResponse"
"""Name of the classes that PyMC makes for y, two for each model."""


def _keep_with(y: Any, log_density: Callable, number: int) -> None:
    """Let the data live as long as y, which has this log density of so many parameters.

    PyMC registers functions for the classes of each new distribution for as long as the program
    runs, and they refer to its parameters. PyTensor keeps the op.
    """
    op = y.owner.op
    first = 1 if isinstance(op, CustomSymbolicDistRV) else 2  # after the size, or rng and size
    op.log_density, op.params = _Held(log_density), slice(first, first + number)
    y.tag.log_density = log_density  # which copies of y have, too
    for kind in (*CustomDistRV.__subclasses__(), *CustomSymbolicDistRV.__subclasses__()):
        if kind.__name__ == RESPONSE and _logprob.dispatch(kind) is not _own_log_density:
            _logprob.register(kind, _own_log_density)
            _logcdf.register(kind, _not_of_all_rows)
            _change_dist_size.register(kind, _not_of_all_rows)


class _Held:
    """A function that something else keeps; a copy of this object in another process keeps it."""

    def __init__(self, function: Callable) -> None:
        self._function = ref(function)

    def __call__(self, *args: Any) -> Any:
        return cast(Callable, self._function())(*args)

    def __reduce__(self) -> tuple[Callable, tuple]:
        return partial, (self._function(),)


def _own_log_density(op: Any, values: Sequence, *inputs: Tensor, **_: Any) -> Tensor:
    return cast(Tensor, op.log_density(values[0], *inputs[op.params]))


def _not_of_all_rows(*_: Any, **__: Any) -> Tensor:
    raise NotImplementedError("The responses of all rows have no distribution function or size.")


def _unfolded(given: Conditioning) -> Conditioning:
    """The data as products with variables, which PyMC does not evaluate as constants."""
    # PyMC evaluates graphs of constants when it derives a density, but not graphs of variables. It
    # does not need the design of all rows there.
    one = pytensor.shared(1.0, "one")
    return replace(given, X=given.X * one, Z=None if given.Z is None else given.Z * one)


class Density(NamedTuple):
    """The density of y as a function of `parts`, with core shapes in `signature`."""

    parts: list
    signature: str
    log_density: Callable


def _at_once(strategy: Collapsed, given: Conditioning, ridge: TensorLike) -> Density:
    likelihood = given.likelihood
    log_density = partial(strategy.log_density, likelihood)
    return Density(strategy.parts(given, ridge), strategy.signature(likelihood), log_density)


def _by_rows(strategy: Collapsed, given: Conditioning, ridge: TensorLike) -> Density:
    """The density with the parts that y is drawn from, and the parts that it needs besides rows."""
    whole, y = _at_once(strategy, given, ridge), pt.as_tensor_variable(given.y).type()
    by_rows = cast(LowRankNormal | Variational, strategy).by_rows
    evidence, k = by_rows(replace(given, y=y), ridge), len(whole.parts)
    needed = parameters_of([evidence], [y])
    shapes = [",".join(f"k{i}{axis}" for axis in range(v.ndim)) for i, v in enumerate(needed)]

    def log_density(value: Any, *parts: Tensor) -> Tensor:
        own = dict(zip(needed, parts[k:], strict=True))
        return cast(Tensor, clone_replace(evidence, {y: value, **own}))

    signature = ",".join([whole.signature, *(f"({shape})" for shape in shapes)])
    return Density([*whole.parts, *needed], signature, log_density)


def _normal(C: Tensor, size: Any) -> Tensor:  # noqa: N803
    """Y (..., n) on the model's scale, from its covariance (n, n)."""
    return pm.MvNormal.dist(pt.zeros(C.shape[0]), C, size=size)


def _basis_with_constraints(
    F: Tensor, D: Tensor, _: Tensor, G: Tensor, V: Tensor, low: Tensor, high: Tensor, size: Any
) -> Tensor:  # noqa: N803
    """Y (..., n) on the model's scale given constraints, from both designs and variances."""
    design = pt.concatenate([F, G])
    C = pt.dot(design, design.T) + pt.diag(pt.concatenate([D, V]))
    return _normal_with_constraints(C, low, high, size)


def _normal_with_constraints(C: Tensor, low: Tensor, high: Tensor, size: Any) -> Tensor:  # noqa: N803
    """Y (..., n) on the model's scale given constraints, from their covariance (n + k, n + k)."""
    n = C.shape[0] - low.shape[0]
    constrained, noisy = with_sites(
        C[n:, n:], pt.zeros(0), sites(C[n:, n:], pt.zeros(0), low, high)
    )
    gain = pt.linalg.solve(noisy, C[n:, :n], assume_a="pos").T
    return pm.MvNormal.dist(
        pt.dot(gain, constrained), C[:n, :n] - pt.dot(gain, C[n:, :n]), size=size
    )


def _low_rank_normal(F: Tensor, D: Tensor, *others: Any) -> Tensor:  # noqa: N803
    """Y (..., n) on the model's scale, from a design (n, M) and variances (n,) around it."""
    size = others[-1]
    batch = () if rv_size_is_none(size) else tuple(size)
    coefficients = pm.Normal.dist(0.0, 1.0, size=(*batch, F.shape[1]))
    noise = pm.Normal.dist(0.0, 1.0, size=(*batch, F.shape[0]))
    return pt.dot(coefficients, F.T) + pt.sqrt(D) * noise


def _fixed_basis(F: Tensor, scales: Tensor, variance: Tensor, size: Any) -> Tensor:  # noqa: N803
    """Y (..., n) on the model's scale, from a design (n, M) and the variance around it."""
    return _low_rank_normal(F, variance * pt.ones(F.shape[0]), size)


def streamed(
    specification: Specification,
    given: Conditioning,
    training: TrainingData,
    *,
    rename: Rename,
    ridge: TensorLike,
    sums: Callable,
) -> list[Tensor]:
    """Add the log density of an out-of-core response from sums over its rows, as a potential."""
    # Sums are computed once, or again for each density.
    strategy = specification.strategy_of()
    if isinstance(strategy, FixedBasis):
        parts = strategy.scales_and_variance(given, ridge)
        evidence = strategy.log_density_by_sums(Sums(**sums(training.y)), *parts)
    else:
        evidence = cast(LowRankNormal | Variational, strategy).by_rows(given, ridge)
    block, rows = block_of(given)
    if block.beyond is not None:
        evidence = evidence + row_sums([block.beyond.sum()], rows)[0]
    units = training.totals.counted * np.log(training.response_scaling.scale)
    pm.Potential(rename("y"), evidence - units)
    return [evidence]


def _by_group(
    F: Tensor, E: Tensor, D: Tensor, unseen: Tensor, codes: Tensor, *others: Any
) -> Tensor:  # noqa: N803
    """Y (..., n) on the model's scale: as `_low_rank_normal`, with coefficients of each group."""
    size = others[-1]
    batch = () if rv_size_is_none(size) else tuple(size)
    groups = codes.astype("int64")
    own = pm.Normal.dist(0.0, 1.0, size=(*batch, groups.max() + 1, E.shape[1]))
    added = (pt.take(own, groups, axis=-2) * E).sum(axis=-1)
    return _low_rank_normal(F, D, size) + added


def _by_group_with_constraints(
    F: Tensor, E: Tensor, D: Tensor, unseen: Tensor, codes: Tensor, _: Tensor, *others: Any
) -> Tensor:  # noqa: N803
    """Y (..., n) on the model's scale given constraints, which are of no group."""
    G, V, low, high, size = others
    shared = pt.concatenate([F, G])
    C, n = pt.dot(shared, shared.T) + pt.diag(pt.concatenate([D, V])), F.shape[0]
    same = pt.eq(codes[:, None], codes)
    return _normal_with_constraints(C[:n, :n].inc(same * pt.dot(E, E.T)), low, high, size)


GENERATIVE: dict[Collapsed, Callable[..., Tensor]] = {
    Exact(): _normal,
    Exact(constrained=True): _normal_with_constraints,
    LowRankNormal(): _low_rank_normal,
    LowRankNormal(constrained=True): _basis_with_constraints,
    FixedBasis(): _fixed_basis,
    ByGroup(): _by_group,
    ByGroup(constrained=True): _by_group_with_constraints,
}
"""What draws y from the parts of a density, where that is y's own and not an approximation."""


def latent_response(
    specification: Specification,
    given: Conditioning,
    training: TrainingData,
    *,
    rename: Rename,
) -> list[Tensor]:
    """Add whitened latent values, and y around them."""
    # Basis functions have coefficients instead of latent values; a GPX adds the deviations of rows.
    # With inducing points the process itself is the model.
    scaling = training.response_scaling
    f = latent_values(specification, given, rename("y"), rename)
    return _around(given, training, scaling.center + scaling.scale * f, rename)


def hierarchy(
    specification: Specification,
    given: Conditioning,
    training: TrainingData,
    *,
    rename: Rename,
) -> list[Tensor]:
    """Add f (in a GPX also the weights) in user units, and y around f."""
    scaling = training.y_scaling
    if training.Z is None:
        f = latent_values(specification, given, rename("f"), rename)
        f = scaling.center + scaling.scale * f
    else:
        f = weighed_values(given, training, rename)
    classes = (rename("class"),) if given.columns else ()
    f = pm.Deterministic(rename("f"), f, dims=(rename("obs"), *classes))
    # Where y is not scaled, the exposure has the prior mean of f as a factor.
    return _around(given, training, f - (scaling.center - training.response_scaling.center), rename)


def _around(given: Conditioning, training: TrainingData, f: Tensor, rename: Rename) -> list[Tensor]:
    """Observe y around latent values (n,) or (n, C) in its units; return as `observe` does."""
    scale = cast(float, training.response_scaling.scale)
    theta = given.likelihood.in_units(given.theta, scale)
    options = {"dims": rename(training.responses[0]), "observed": training.y}
    exposure = None if given.exposure is None else given.exposure * scale  # as in `scaled`
    if training.row_data is not None:
        own = cast(Tensor, given.exposure)[:, 0] * scale
        exposure = pt.as_tensor(training.row_exposures(Scaling(0.0, 1.0), None))
        exposure = pt.set_subtensor(exposure[:, 0], own)
    given.likelihood.dist(rename("y"), f, theta, exposure, **options)
    return [prior_covariance(given.process, given.X, given.Z)]


MOST_CORRELATED = 5000
"""Latent values of classes that correlate, at most: a fit holds some matrices of all their pairs,
of 0.2 GiB each then, and an evaluation of its density takes some 20 seconds."""


def refuse_many(n: int, specification: Specification) -> None:
    """Raise for more latent values of classes that correlate than one matrix can hold of pairs."""
    C, rank = specification.classes or 1, specification.correlation
    if rank and n * C > MOST_CORRELATED:
        raise ValueError(
            f"{n} rows of {C} classes with correlation={rank} have {n * C} latent values that all "
            f"correlate, but at most {MOST_CORRELATED} are supported. Take fewer rows, or "
            "correlation=0, where classes are independent and approximation=bx.Inducing(m) is for "
            "any number of rows."
        )


MOST_WEIGHT = 1.01
"""A larger mean of weights makes the density of a small sigma grow without bound."""


def refuse_row_data(
    training: TrainingData, specification: Specification, priors: Mapping[str, Any]
) -> None:
    """Raise for weights and censoring that a model does not support."""
    rows, observation = cast(RowData, training.row_data), specification.observation
    given = "weights" if rows.weights is not None else "censoring"
    likelihood = f"likelihood={specification.likelihood!r}"
    processes = bool(observation.processes)  # a mean and a log sd, so y has an order
    sigma_w = priors.get("sigma_w", 1.0)  # a number is an array in a saved model
    no_deviations = isinstance(sigma_w, int | float | np.ndarray) and not np.any(sigma_w)
    around = specification.approximation is not None or specification.grouped
    # Of other models, p(y | g) with deviations integrated out has no closed form here.
    exact = specification.normal and rows.censoring is None and not specification.hierarchical
    for wrong, what, cure in (
        (
            rows.censoring is not None and bool(observation.class_shape) and not processes,
            f"{likelihood}, which has several latent values of a row, so no bounds of y",
            "Use one of a single latent value",
        ),
        (
            rows.censoring is not None and tails_of(observation) is None and not processes,
            f"{likelihood}: its y have no order, so no bounds of y",
            "For ordered categories use 'ordinal'",
        ),
        (
            given == "weights" and specification.family == "GPX" and not (no_deviations or exact),
            "a GPX whose rows deviate from its weight functions",
            "Pass priors={'sigma_w': 0}; or use normal noise, without bounds of y and a hierarchy",
        ),
        (
            specification.constraints is not None and around,
            "constraints and an approximation or groups",
            "Leave one of them out",
        ),
    ):
        if wrong:
            option = "censoring" if "bounds of y" in what else given
            raise ValueError(f"{option} was given with {what}. {cure}.")
    mean = 1.0 if rows.weights is None else float(rows.weights.mean())
    if observation.scaled and mean > MOST_WEIGHT and "sigma" not in priors:
        warn(
            f"weights have a mean of {mean:.3g}. They count as repeated rows with exactly the same "
            "y, of which a noise sd near 0 is the best explanation. Divide them by their mean, or "
            "give sigma a prior that keeps it away from 0."
        )


def check_response(
    training: TrainingData, observation: Any, priors: Mapping[str, Any] | None
) -> None:
    """Raise for a lower bound that no y is above, and warn of y far from a prior."""
    if isinstance(observation, Custom):
        observation.warn_if_far(training.response_moments, priors or {})
    rows = training.row_data
    if rows is None or rows.censoring is None:
        return
    exposure = np.ones(1) if training.exposure is None else training.exposure
    beyond = np.isin(rows.censoring, [CENSORING.index(kind) for kind in ("right", "interval")])
    wrong = np.flatnonzero(beyond & (training.y >= observation.highest_y(exposure)))
    if len(wrong):
        row = wrong[0]
        raise ValueError(
            f"censoring is {CENSORING[int(rows.censoring[row])]!r} at position {row}, where y is "
            f"{training.y[row]:g}, but no y is above that. Pass 'none' if y is known, or a lower "
            "number if y is at least this."
        )


def refuse_streamed(specification: Specification) -> None:
    """Raise for a model that needs all rows in memory, if data are out-of-core."""
    if specification.hierarchical:
        raise ValueError(
            "X is out-of-core data, but representation='hierarchy' has variables for each row. "
            "Pass representation='collapsed'."
        )
    if specification.approximation is None:
        raise ValueError(
            "X is out-of-core data, but the model has no approximation. Pass "
            "approximation=bx.HSGP(m), for few columns, or approximation=bx.Inducing(m). For other "
            "models take a sample of the rows into memory."
        )
