"""Results made of draws that are joint over rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Draws
from bayes_gpx.draws import questions
from bayes_gpx.draws.averages import summarised
from bayes_gpx.draws.evaluate import evaluate
from bayes_gpx.draws.hyperparameter_draws import hyperparameter_draws
from bayes_gpx.draws.naming import origin
from bayes_gpx.draws.points import Points
from bayes_gpx.draws.questions import responds
from bayes_gpx.draws.random_functions import on_response, values_at
from bayes_gpx.draws.scales import scale_attrs
from bayes_gpx.validation import count

if TYPE_CHECKING:
    from bayes_gpx.model.model import Model


def drawn_at(
    model: Model,
    idata: Draws,
    where: Points,
    on: str,
    rows: Mapping[str, Sequence[Any] | np.ndarray],
    *,
    draws: int = 1000,
    num_draws: int | None = None,
    exposure: np.ndarray | float = 1.0,
    smooth: bool = True,
    **shown: Any,
) -> xr.DataArray:
    """Draws (chain, draw, *rows[, class]) of f or the mean response; `rows` are dims and labels."""
    count("draws", draws)
    hyper = hyperparameter_draws(model, idata, num_draws)
    deviates = not smooth and any(np.any(theta.get("sigma_w", 0.0)) for _, theta in hyper)
    if deviates:  # no random function has deviations of rows, which raise the mean of exp(f)
        shown |= {"draws": draws, "num_draws": num_draws, "joint": True, "on": "latent"}
        f = evaluate(model, idata, questions.value(model), where, **shown)["f"].values
        f = on_response(model, hyper, f, exposure) if responds(model, on) else f
    else:
        f = values_at(model, hyper, where, on, draws=draws, exposure=exposure, **shown)
    coords: dict[str, Any] = {"chain": hyper.chain, "draw": hyper.draw, **rows}
    if hyper.alone:
        coords["draw"] = np.arange(draws)
    if f.ndim > 3:
        coords["class"] = list(model.class_labels(responds(model, on)))
    return xr.DataArray(f.reshape([len(labels) for labels in coords.values()]), coords, [*coords])


def result_of(
    model: Model, on: str, name: str, drawn: xr.DataArray, covariance: bool, keep: str, prob: float
) -> xr.Dataset:
    """A result with draws, their summaries and what they are."""
    attrs = origin(model) | scale_attrs(model, responds(model, on)) | {"moments": "of the draws"}
    found = summarised(name, drawn, covariance, keep, prob)
    return found.assign_attrs(attrs | found.attrs)
