"""Shapley values that average over a measure, from the components of f."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Draws
from bayes_gpx.draws import questions
from bayes_gpx.draws.evaluate import evaluate
from bayes_gpx.draws.questions import is_nonlinear
from bayes_gpx.explain.attributions import warn_if_incomplete
from bayes_gpx.explain.components import components_of, orthogonal_kernel
from bayes_gpx.kernels.additive import ElementarySymmetric

if TYPE_CHECKING:
    from bayes_gpx.draws.points import Points
    from bayes_gpx.draws.questions import Question
    from bayes_gpx.model.model import Model


def by_components(
    model: Model, idata: Draws, where: Points, baseline: Any, of: str, **options: Any
) -> xr.Dataset:
    """Shapley values of the game that averages over the measure of an orthogonal kernel."""
    # Not supported: a baseline, the log variance, the response of classes and counts, categorical
    # columns, and kernels without a measure.
    if not (isinstance(baseline, str) and baseline == "mean"):
        raise ValueError(
            "baseline was given with method='fanova', which averages over the kernel's measure "
            "instead. Leave baseline out, and pass rows as the measure, on the model's scale: "
            "bx.Additive(..., measure=rows)."
        )
    if of != "value":
        raise ValueError(
            f"of={of!r} was given with method='fanova', which divides f. Pass method='exact'."
        )
    quantity, on = _divided(model), options.get("on", "response")
    if is_nonlinear(model, quantity, on):
        raise ValueError(
            f"The response of likelihood={model.specification.likelihood!r} is not linear in f, "
            "and components exist only for f. Pass on='latent'."
        )
    found = evaluate(model, idata, quantity, where, **options)
    warn_if_incomplete(model, found, on)
    return found


def _divided(model: Model) -> Question:
    """Each component of f, divided evenly among its features."""
    d, order = model.training.d, cast(ElementarySymmetric, orthogonal_kernel(model).kernel).order
    parts, _ = components_of(model, order)
    shares = [[(c in p.columns) / max(len(p.columns), 1) for p in parts] for c in range(d)]
    return questions.fanova_shapley_value(model, np.array(shares), order)
