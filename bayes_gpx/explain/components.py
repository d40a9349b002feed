"""Components: the parts of f that belong to each summand of a kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, cast

import pytensor.tensor as pt
import xarray as xr

from bayes_gpx.aliases import Column, Draws, Labels, Table
from bayes_gpx.draws import questions
from bayes_gpx.draws.evaluate import evaluate
from bayes_gpx.draws.naming import recorded
from bayes_gpx.draws.questions import responds
from bayes_gpx.explain.answered import answered, documented
from bayes_gpx.kernels.additive import ElementarySymmetric
from bayes_gpx.kernels.normal_form import Term
from bayes_gpx.kernels.summands import CONSTANT, Summand, summands
from bayes_gpx.numerics.threads import on_cores
from bayes_gpx.posteriors.component_variances import measure_of, orthogonal
from bayes_gpx.processes.gaussian_process import GaussianProcess
from bayes_gpx.system.warning import ExtrapolationWarning, warn
from bayes_gpx.validation import count

if TYPE_CHECKING:
    from bayes_gpx.draws.points import Points
    from bayes_gpx.kernels.base import Kernel
    from bayes_gpx.model.model import Model

GROUP = "group"
"""Name of the level of a row's group, which is a component of its own."""

FAR = 5.0
"""Most sds between the mean of a column's measure and the training mean without a warning."""

MOST_COMPONENTS = 500
"""Largest number of components with a joint covariance at every row."""


@recorded
@documented
@on_cores
def components(
    model: Model,
    idata: Draws,
    X_new: Table | None = None,
    *,
    groups_new: Column | None = None,
    order: int = 2,
    obs: Labels | None = None,
    on: Literal["latent", "response"] = "latent",
    draws: int = 1000,
    num_draws: int | None = None,
    features: Sequence[str] | None = None,
    covariance: bool = False,
    joint: bool = False,
    keep: Literal["draws", "summary"] = "draws",
    path: str | PathLike | None = None,
    cores: int | None = None,
    seed: int | None = None,
    progressbar: bool = True,
    ci_prob: float | None = None,
) -> xr.Dataset:
    """Divide f into components, one for each summand of the kernel.

    Use components for a kernel that is a sum, such as a trend, a season and the rest, and
    `contributions` for a GPX. Given the data, components are jointly normal for every draw of the
    hyperparameters, in closed form. They add up to f.

    Parameters
    ----------
    model : GP
        Multiples of sums are expanded. `Additive` kernels are expanded into the effect of each
        feature, the interaction of each pair, and so on. Other products, such as ``periodic *
        expquad``, are one component.
    idata : xarray.DataTree or dict
        A fit, or a dict of fixed hyperparameters on the model's scale.
    X_new : frame or array (m, d), optional
        New rows; None for the training rows.
    order : int
        Highest order of the interactions in `Additive` kernels that become separate components. The
        component `remainder` is the sum of all higher orders.
    on : {"latent", "response"}
        Components are defined for f; "response" is not supported for classes and counts.

    Returns
    -------
    xarray.Dataset
        ================================  ================================  ==========
        variable                          dims                              unit
        ================================  ================================  ==========
        `components`                      chain, draw, obs, component       f
        `component_mean`, `_sd`           obs, component                    f
        `component_interval`              obs, component, ci_bound          f
        `component_cov`                   obs, component, component_bis     f squared
        `f`, with moments                 [chain, draw,] obs                f
        `share`                           component                         proportion
        `completeness_residual`           obs                               f
        `completeness_residual_variance`  obs                               f squared
        `value`                           obs, feature                      x
        ================================  ================================  ==========

        `share` is the covariance, over rows, of the component's mean with the mean of f, divided by
        the variance of the mean of f. Shares add up to 1. A negative share means that the component
        works against the others.

        Components have the names of the kernel's summands, or of features (``age``, ``age:bmi``).
        `group` is the level of the row's group, and `constant` contains the mean of y or a
        process's intercept. The coordinate `along` names the first feature that a component varies
        with; `alone` is true if it is the only one.

    Raises
    ------
    ValueError
        For a `GPX`, an `order` that is not a positive whole number, the response of classes and
        counts, and more than 500 components.

    Warns
    -----
    ExtrapolationWarning
        If new rows leave the training data.

    Notes
    -----
    If the data cannot distinguish two components, such as two trends, both have a large variance
    and their covariance is negative [1]_.

    References
    ----------
    .. [1] Duvenaud, "Automatic model construction with Gaussian processes" (2014), chapter 2.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.linspace(0.0, 6.0, 40)[:, None]
    >>> model = bx.GP(X, np.sin(4.0 * X[:, 0]) + X[:, 0], kernel="linear + expquad", scale=False)
    >>> theta = {"linear_amplitude": 1.0, "expquad_lengthscale": [0.4], "expquad_amplitude": 1.0}
    >>> theta["sigma"] = 0.01
    >>> found = bx.components(model, theta, [[3.0]], keep="summary", progressbar=False)
    >>> found["component_mean"].to_series().round(2).to_dict()
    {(0, 'linear'): 2.95, (0, 'expquad'): -0.49}
    """
    return answered(partial(_components, order=order), locals())


def _components(
    model: Model, idata: Draws, where: Points, *, order: int, **options: Any
) -> xr.Dataset:
    """Components at some points, of one output."""
    if responds(model, options.get("on", "response")):
        raise ValueError(
            f"The response of likelihood={model.specification.likelihood!r} is not linear in f, "
            "and components exist only for f. Pass on='latent'."
        )
    parts, names = components_of(model, order)
    found = evaluate(model, idata, questions.component(model, names, order), where, **options)
    X = model.training.X
    seen = {
        name: list(dict.fromkeys(X.sources[X.groups[c]] for c in part.columns))
        for name, part in zip(names, parts, strict=False)
    }
    along = [seen.get(name, []) for name in found["component"].values]
    return found.assign_coords(
        along=("component", [own[0] if own else "" for own in along]),
        alone=("component", [len(own) == 1 for own in along]),
    )


def components_of(model: Model, order: int) -> tuple[list[Summand], tuple[str, ...]]:
    """The summands of a model's kernel, and their names, each a different one."""
    count("order", order)
    parts = summands(kernel_of(model), model.training.d, order)
    if len(parts) > MOST_COMPONENTS:
        raise ValueError(
            f"The kernel has {len(parts)} summands, but can have at most {MOST_COMPONENTS}. Pass a "
            f"smaller order than {order}, which makes one remainder of all higher orders."
        )
    named, seen = _own_names(model), Counter[str]()
    names = named or [part.called(*_columns(model)) for part in parts]
    if model.specification.grouped:  # after those of the kernel, as `IndexedProcess` has them
        names = [*names, GROUP]
    if model.specification.processes:  # each has an intercept
        names = [*names, CONSTANT]
    unique = []
    for name in names:
        free = name
        while free in unique or (free != name and free in names):
            seen[name] += 1
            free = f"{name} {seen[name] + 1}"
        unique.append(free)
    return parts, tuple(unique)


def _columns(model: Model) -> tuple[Sequence[str], dict[tuple[int, ...], str]]:
    """Names of X's columns, and the names of those that are together one of the user's."""
    X = model.training.X
    each = {tuple(map(X.columns.index, X.of_source(name))): name for name in X.levels}
    return X.columns, each


def kernel_of(model: Model) -> Kernel:
    """The kernel of a GP, with symbols for its hyperparameters."""
    specification = model.specification
    if specification.family != "GP":
        raise ValueError(
            "A GPX is a sum of contributions, one for each feature, and has no other components. "
            "Use bx.contributions."
        )
    return kernels_of(model)[0]


def kernels_of(model: Model) -> tuple[Kernel, ...]:
    """The kernel of a GP, or the kernels of the weights of a GPX, as `kernel_of`."""
    specification, training = model.specification, model.training
    sizes = {"feature": (training.d,), "z_feature": (training.p,), None: ()}
    known = (h for h in specification.hyperparameters if h.dim in sizes)
    theta = {h.name: pt.tensor(shape=sizes[h.dim]) for h in known}
    process = specification.process(theta, training.d, model.called_kernel)
    return (process.kernel,) if isinstance(process, GaussianProcess) else process.kernels


def orthogonal_kernel(model: Model) -> Term:
    """The orthogonal additive term of a model's kernel, for numerical columns; see `orthogonal`.

    Warns if the measure of a column is far from the training rows.
    """
    training, spec = model.training, model.specification
    if spec.processes or spec.correlation:
        what = f"likelihood={spec.likelihood!r}" if spec.processes else "correlation="
        raise ValueError(
            f"The kernel must be orthogonal, bx.Additive(..., measure=...), but {what} takes "
            "kernels by name only. Use bx.importances or bx.shapley_values."
        )
    if spec.grouped:
        raise ValueError(
            "The model has groups, and their levels have no distribution that a variance could be "
            "divided over. Use bx.components, or fit a model without groups."
        )
    if training.X.levels:
        raise ValueError(
            f"The columns {list(training.X.levels)} are categories, and their indicators are no "
            "independent features. Pass columns of numbers."
        )
    term = orthogonal(kernel_of(model), training.d)
    parts = cast(ElementarySymmetric, term.kernel).parts
    center = training.X_scaling.apply(training.moments.mean[None])[0]
    sd = training.X_deviations / training.X_scaling.scale
    columns = range(training.d) if term.columns is None else term.columns
    for column, part in zip(columns, parts, strict=True):
        points, weights = measure_of(part)
        if abs(points @ weights - center[column]) > FAR * (sd[column] or 1.0):
            warn(
                f"The measure of {training.X.columns[column]!r} has its mean at "
                f"{points @ weights:.3g}, more than {FAR:g} sds from the training mean, "
                f"{center[column]:.3g} on the model's scale. With scale=True rows that are a "
                "measure must be standardised as X is.",
                ExtrapolationWarning,
            )
    return term


def _own_names(model: Model) -> list[str]:
    """Names of summands as the user wrote them; none for a callable kernel."""
    if model.specification.levels is not None:
        return ["precomputed"]
    return [
        " * ".join(factor.prefix.rstrip("_") or factor.kind for factor in summand)
        for summand in model.specification.summands
    ]
