"""Sobol indices: the proportion of f's variance from each component."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytensor.tensor as pt
import xarray as xr

from bayes_gpx.aliases import Draws
from bayes_gpx.draws.each_draw import at_training_rows
from bayes_gpx.draws.hyperparameter_draws import refuse_swapped
from bayes_gpx.draws.naming import origin, recorded
from bayes_gpx.explain.components import components_of, orthogonal_kernel
from bayes_gpx.kernels.summands import REMAINDER
from bayes_gpx.numerics.threads import on_cores
from bayes_gpx.posteriors.component_variances import component_variances

if TYPE_CHECKING:
    from bayes_gpx.model.model import Model
    from bayes_gpx.posteriors.base import OneDraw


@dataclass(frozen=True)
class _Variances:
    order: int

    def __call__(self, draw: OneDraw) -> list:
        """Variances, of several classes with the class as the first axis."""
        strategy, given = draw.strategy, draw.given
        found = strategy.condition(given)
        posteriors = (strategy.posterior(given, found, label) for label in given.labels)
        each = [component_variances(cast(Any, q(given.smooth)), self.order) for q in posteriors]
        return (
            [pt.stack(values) for values in zip(*each, strict=True)] if given.columns else each[0]
        )


@recorded
@on_cores
def sobol_indices(
    model: Model,
    idata: Draws,
    *,
    order: int = 2,
    num_draws: int | None = None,
    cores: int | None = None,
    progressbar: bool = True,
) -> xr.Dataset:
    """Compute the proportion of the variance of f due to each component.

    Use Sobol indices with an orthogonal additive kernel, ``bx.Additive(..., measure=...)``, for
    which they have a closed form; for other kernels use `importances`. They refer to the product of
    the kernel's measures, so features are independent even if they are correlated in the data. The
    variances of the components add up to the variance of f.

    Parameters
    ----------
    model : GP
        Its kernel is one `Additive` with a measure, optionally times a constant and plus constants.
        Supported: exact inference, Laplace's approximation, and inducing points.
    idata : xarray.DataTree or dict
        A fit, or a dict of fixed hyperparameters on the model's scale.
    order : int
        Highest order of the interactions with a separate index; `remainder` is the index of all
        higher orders together.
    num_draws : int, optional
        Thin the hyperparameter draws evenly to at most this many.
    progressbar : bool
        Show progress.

    Returns
    -------
    xarray.Dataset
        ==================  ========================  ======================
        variable            dims                      unit
        ==================  ========================  ======================
        `sobol`             chain, draw, component    proportion of variance
        `total`             chain, draw, feature      proportion of variance
        `shapley_effect`    chain, draw, feature      proportion of variance
        `variance`          chain, draw               f squared
        ==================  ========================  ======================

        Several classes add a last dim `class`.

        `sobol` is E[V_u] / E[V] for each hyperparameter draw: expectations are over f given the
        data, and V, the variance of f, excludes its constant. `variance` is E[V]. `total` adds all
        components that contain the feature. `shapley_effect` divides each component evenly among
        its features, so these effects add up to 1; it is missing if there is a `remainder`. Each
        variable also has `_mean` and `_sd` over draws.

    Raises
    ------
    ValueError
        For other kernels, groups and constraints.

    Notes
    -----
    V_u is an integral of a square, so its expectation includes the uncertainty of f. This term
    compensates for means that are too smooth: with few data, indices are close to the prior's
    indices.

    References
    ----------
    Sobol, "Sensitivity estimates for nonlinear mathematical models" (1993); Durrande, Ginsbourger,
    Roustant and Carraro, "ANOVA kernels and RKHS of zero mean functions for model-based sensitivity
    analysis" (2013); Owen, "Sobol' indices and Shapley value" (2014), for the last.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.random.default_rng(1).normal(size=(80, 2))
    >>> def kernel(d):
    ...     return 40.0 * bx.Additive(d, 5.0, 2, measure="gaussian")
    >>> model = bx.GP(X, 2.0 * X[:, 0] + X[:, 0] * X[:, 1], kernel=kernel, scale=False)
    >>> found = bx.sobol_indices(model, {"sigma": 0.01}, progressbar=False)
    >>> found["sobol_mean"].to_series().round(2).to_dict()  # variances 4, 0 and 1
    {'x0': 0.8, 'x1': 0.0, 'x0:x1': 0.2}
    """
    refuse_swapped(model, idata)
    additive, d = orthogonal_kernel(model), model.training.d
    if model.specification.constraints is not None:
        raise ValueError(
            "sobol_indices of a model with constraints are not available. Use a model without "
            "constraints."
        )
    parts, names = components_of(model, order)
    (each, whole, without), hyper, jitter = at_training_rows(
        model, idata, _Variances(order), num_draws=num_draws, progressbar=progressbar
    )
    effects = {name: part for name, part in zip(names, parts, strict=True) if part.effect}
    shares, labels = each / whole[..., None], list(effects)
    members = np.array([[c in own.columns for own in effects.values()] for c in range(d)], float)
    total = np.zeros((*whole.shape, d))
    total[..., np.arange(d) if additive.columns is None else additive.columns] = (
        1.0 - without / whole[..., None]
    )
    variables: dict[str, Any] = {"total": (("feature",), total)}
    if any(part.name == REMAINDER for part in parts):
        labels += [n for n, part in zip(names, parts, strict=True) if part.name == REMAINDER]
        shares = np.concatenate([shares, 1.0 - shares.sum(-1, keepdims=True)], axis=-1)
    else:
        variables["shapley_effect"] = ("feature",), shares @ (members / members.sum(axis=0)).T
    variables["sobol"] = ("component",), shares
    variables["variance"] = (), whole * float(model.training.y_scaling.scale) ** 2
    named: dict[str, Any] = {}
    several = () if model.specification.classes is None else ("class",)
    for name, (own, values) in variables.items():
        dims = *several, *own
        named[name] = ("chain", "draw", *dims), values
        named[f"{name}_mean"] = dims, values.mean(axis=(0, 1))
        spread = 1.0 if not hyper.alone else np.nan  # one draw has no spread
        named[f"{name}_sd"] = dims, spread * values.std(axis=(0, 1))
    coords = {"chain": hyper.chain, "draw": hyper.draw, "component": labels}
    coords["feature"] = list(model.training.X.columns)
    if several:
        coords["class"] = list(model.class_labels(False))
    found = xr.Dataset(named, coords, origin(model) | {"relative_jitter": float(jitter)})
    return found.transpose(..., *several)
