"""Means of what is asked of the mean response, over all draws: exact, or by Taylor expansion."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytensor
import pytensor.tensor as pt

from bayes_gpx.arguments import hyperparameter_draws
from bayes_gpx.draws import jets
from bayes_gpx.jets import Jet
from bayes_gpx.modes import MODE

TRIALS = 3
"""Draws of the hyperparameters by which the polynomials along paths are chosen."""


def means(model, idata, asked, *, num_draws=None, taylor=False, progressbar=True):
    """Means over draws of what a `Bent` asks for, where f is normal given each of them.

    Parameters
    ----------
    asked : Bent
    taylor : bool
        By expansion of the response around the mean of f to second order, instead of exactly:

            E S(f) = S + V / 2 S''      E S'(f) = S' + V / 2 S'''      E S''(f) = S''

    Returns
    -------
    array (m, d) and, for attributions, the difference (m,); in user units

    References
    ----------
    Seitz, "Gradient-based explanations for Gaussian process regression and classification
    models" (2022), equation 35 with sigma' m_d + V / 2 sigma''' m_d + Cov(f_d, f) sigma'' on its
    right.
    """
    hyper = hyperparameter_draws(model, idata, num_draws)
    functions = _response(model.specification.observation, taylor)

    def response(m, V, *, slopes):
        found = [part.reshape(m.shape) for part in functions[slopes](m.ravel(), V.ravel())]
        return found if slopes else found[0]

    def each(parts, draws, shown):
        """Yield what each draw says of every part."""
        spread = [part.spread(part.where) for _, part in parts]
        where = replace(spread[0], X=np.concatenate([s.X for s in spread]), baseline=None)
        if where.Z is not None:
            where = replace(where, Z=np.concatenate([s.Z for s in spread]))
        ends = np.cumsum([0, *(len(s.X) for s in spread)])
        for _, _, mean, variance, _ in jets(model, draws, where, 1, smooth=True, progressbar=shown):
            found = []
            for (_, part), a, b in zip(parts, ends[:-1], ends[1:], strict=True):
                own = [Jet(jet.value[a:b], jet.first[a:b]) for jet in (mean, variance)]
                found.append(part.expected(*own, response))
            yield found

    def trial(part):
        few = [found for (found,) in each([(None, part)], _few(hyper), False)]
        return [np.stack(column) for column in zip(*few, strict=True)]

    parts, m = asked.parts(trial), len(asked.where.X)
    factor = asked.quantity.factor
    totals = [np.zeros((m, len(factor))), np.zeros(m)]
    for found in each(parts, hyper, progressbar):
        for (rows, _), own in zip(parts, found, strict=True):
            for total, column in zip(totals, own, strict=False):
                total[rows] += column / len(hyper)
    if not asked.latent.total:
        return [totals[0] * factor]
    return [totals[0] * factor, totals[1] * factor[0]]


def _few(hyper):
    """Some draws, the first and the last among them."""
    at = np.unique(np.linspace(0, len(hyper.draw) - 1, TRIALS).round().astype(int))
    values = {name: array[:, at] for name, array in hyper.values.items()}
    return replace(hyper, values=values, draw=hyper.draw[at])


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
    options = {"mode": MODE, "on_unused_input": "ignore", "trust_input": True}
    return [pytensor.function([m, V], outputs, **options) for outputs in ([value], slopes)]
