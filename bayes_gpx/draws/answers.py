"""Gather numbers without a variance: values of random functions, or of single draws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from bayes_gpx.draws.evaluate import by_class, joined
from bayes_gpx.draws.intervals import interval_probability
from bayes_gpx.draws.mixtures import Conditional
from bayes_gpx.draws.protocols import ModelLike
from bayes_gpx.draws.results import ResultBuilder
from bayes_gpx.draws.stores import Memory, Store
from bayes_gpx.validation import one_of

if TYPE_CHECKING:
    from bayes_gpx.draws.points import Points
    from bayes_gpx.draws.quantities import Quantity


def gathered(
    model: ModelLike,
    quantity: Quantity,
    where: Points,
    shape: tuple[int, int],
    answers: Iterable[tuple[int, Any, Sequence[np.ndarray]]],
    *,
    features: Sequence[str] | None = None,
    covariance: bool = False,
    keep: str = "draws",
    path: str | PathLike | None = None,
    ci_prob: float | None = None,
) -> tuple[xr.Dataset, Memory | Store]:
    """Gather answers about a quantity at points: their draws, means, sds and covariances.

    `shape` is the number of chains, and of answers in each. `answers` yields the number of an
    answer, rows of `where`, and components with their total, if any. Intervals are quantiles of the
    draws.
    """
    one_of("keep", keep, ("draws", "summary"))
    c, m, sampled = quantity.width, len(where.X), keep == "draws"
    streamed = path if sampled else None
    builders = by_class(model, streamed, lambda: ResultBuilder(quantity, features, m, covariance))
    shapes = [g.shapes((*shape, m)) if sampled else {} for g in builders]
    place = Memory(shapes, None) if streamed is None else Store(streamed, shapes[0], None)
    for number, rows, (mean, *total) in answers:
        size, kept = np.size(mean) // (c * len(builders)), (*divmod(number, shape[1]), rows)
        none = np.zeros((size, c, c))  # an answer is a normal without variance
        for label, own in enumerate(builders):
            of_all = mean, *total
            of_one, *its_total = of_all if len(builders) == 1 else (v[:, label] for v in of_all)
            part = Conditional(np.ravel(of_one), none, "block", own.drawn, quantity)
            own.add(rows, part, None, [*its_total, np.zeros(size)])
            if not sampled:
                continue
            certain = np.zeros((1, 1, *part.mean.shape))
            for name, array in own.sample(part, None, certain).items():
                place.arrays[label][name][kept] = array[0]
    found = joined(model, builders, where, place)
    return found.assign_attrs(ci_prob=interval_probability(ci_prob)), place
