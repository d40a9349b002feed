"""Means of quantities of the mean response, over all draws: exact, or by Taylor expansion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Draws
from bayes_gpx.draws.evaluate import jets
from bayes_gpx.draws.hyperparameter_draws import hyperparameter_draws
from bayes_gpx.draws.points import refuse_classes
from bayes_gpx.draws.protocols import ModelLike
from bayes_gpx.numerics.threads import ThreadedFunction

if TYPE_CHECKING:
    from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws
    from bayes_gpx.draws.response_scale import ResponseQuantity


def means(
    model: ModelLike,
    idata: Draws,
    asked: ResponseQuantity,
    *,
    num_draws: int | None = None,
    taylor: bool = False,
    progressbar: bool = True,
) -> list[np.ndarray]:
    """Means over draws of a `ResponseQuantity`, for f normal given each draw.

    With `taylor`, the response is expanded around the mean of f to second order, instead of
    exactly:

        E S(f) = S + V / 2 S''      E S'(f) = S' + V / 2 S'''      E S''(f) = S''

    Returns components (m, c) and, for attributions, the difference (m,); for several classes (m, C,
    c) and (m, C); in user units.

    References
    ----------
    Seitz, "Gradient-based explanations for Gaussian process regression and classification models"
    (2022), equation 35 with sigma' m_d + V / 2 sigma''' m_d + Cov(f_d, f) sigma'' on its right.
    """
    hyper = hyperparameter_draws(model, idata, num_draws)
    observation = model.specification.observation
    if not observation.class_shape:
        functions = _response(observation, taylor)
    elif taylor:
        refuse_classes(model, "method='taylor'")

    def response(m, V, *, slopes):
        found = [part.reshape(m.shape) for part in functions[slopes](m.ravel(), V.ravel())]
        return found if slopes else found[0]

    m, quantity = len(asked.where.X), asked.quantity
    factor = quantity.factor
    shape = (m, *observation.class_shape)
    totals = [np.zeros((*shape, len(factor))), np.zeros(shape)]
    for _, rows, (shares, *between) in by_draw(model, hyper, asked, response, progressbar):
        for total, column in zip(totals, [quantity.mixed(shares, -1), *between], strict=False):
            total[rows] += column / len(hyper)
    if not asked.latent.total:
        return [totals[0] * factor]
    return [totals[0] * factor, totals[1] * factor[0]]


def by_draw(
    model: ModelLike,
    hyper: HyperparameterDraws,
    asked: ResponseQuantity,
    response: Any,
    progressbar: bool,
) -> Iterator[tuple[int, np.ndarray, list[np.ndarray]]]:
    """Yield number of a draw, rows, and the expectation of `asked` there for a normal f.

    For `response` see `ResponseQuantity.expected`; None if the response is not needed.
    """

    def ask(parts, numbers):
        spread = [part.spread(part.where) for part in parts]
        where = replace(spread[0], X=np.concatenate([s.X for s in spread]), baseline=None)
        if where.Z is not None:
            where = replace(where, Z=np.concatenate([s.Z for s in spread]))
        if where.group is not None:
            where = replace(where, group=np.concatenate([s.group for s in spread]))
        ends = np.cumsum([0, *(len(s.X) for s in spread)])
        chosen = [*range(len(hyper))] if numbers is None else sorted(numbers)
        shown = progressbar and numbers is None
        options = {"smooth": asked.smooth, "only": chosen, "progressbar": shown}
        found = jets(model, hyper, where, asked.order, **options)
        for number, (_, theta, mean, variance, _) in zip(chosen, found, strict=True):
            variance = variance.shifted(asked.noise(theta))
            for k, part in enumerate(parts):
                here = slice(ends[k], ends[k + 1])
                own = [jet.at(here) for jet in (mean, variance)]
                yield number, k, slice(None), part.expected(*own, response)

    yield from asked.answers(ask, len(hyper))


@lru_cache(maxsize=8)
def _response(observation, taylor):
    """Functions from mean and variance (k,) of f to [E S], and to [E S', E S'']."""
    m, V = pt.dvectors("m", "V")
    if not taylor:
        value, *slopes = observation.expected(m, V)
    else:
        S, first, second = observation.response(m)
        value, slopes = S + 0.5 * V * second, [first, second]
        slopes[0] = first + 0.5 * V * pt.grad(second.sum(), m)
    return [ThreadedFunction([m, V], outputs, trust_input=True) for outputs in ([value], slopes)]
