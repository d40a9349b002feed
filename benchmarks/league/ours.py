"""Answers of bayes_gpx, each by one call, with the package's defaults.

Laplace's approximation gives a thousand draws of the hyperparameters. A hundred of them explain
where each has exact moments, and two hundred where each gives one random function. The GPX has no
deviations of single rows, because effects of a treatment are not defined with them.
"""

import warnings

from answer import Answer
from truths import NAMES

import bayes_gpx as bx

QUIET = {"seed": 1, "progressbar": False}
EXACT, FUNCTIONS = 100, 200


def answers(data, family, method):
    """All answers of a model, the findings about its fit, and whether rows lie beyond the data."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        priors = {"sigma_w": 0.0} if family is bx.GPX else {}
        model = family(data.X, data.y, likelihood=data.family, priors=priors)
        fit = model.fit(method, **QUIET)
        found = list(explained(model, fit, data))
    said = [" ".join(line.split()[:5]) for line in fit.attrs.get("examination", "").splitlines()]
    return found, said, any(w.category is bx.ExtrapolationWarning for w in caught)


def explained(model, fit, data):
    """The answers of a fitted model."""
    new, start = data.new, {"baseline": data.baseline}
    given = {"num_draws": EXACT, "keep": "summary", **QUIET}
    sampled = {"num_draws": FUNCTIONS, "draws": FUNCTIONS, "on": "latent", **QUIET}
    latent = given | {"on": "latent"}

    steps = {"features": NAMES, "steps": data.grid.shape[1]}
    # The grid reaches from the least to the greatest value of the rows that are averaged over.
    found = bx.partial_dependence(model, fit, data.background, **steps, **sampled)
    mean, band = found["partial_dependence_mean"], found["partial_dependence_band"]
    yield answer("curve", "curve", mean, band)

    found = bx.slopes(model, fit, features=NAMES, num_draws=EXACT, **QUIET)
    yield of(found, "average slope", "average slope", "average_slope")

    found = bx.derivatives(model, fit, new, features=NAMES, **latent)
    yield of(found, "slope", "slope", "derivative")

    found = bx.attributions(model, fit, new, **start, **latent)
    yield of(found, "attribution", "attribution", "attribution")

    found = bx.shapley_values(model, fit, new, **start, **latent)
    yield of(found, "Shapley value", "Shapley value of a row", "attribution")

    found = bx.treatment_effects(model, fit, treatment="t", **given)
    yield of(found, "average effect", "average effect", "ate")

    found = bx.treatment_effects(model, fit, new, treatment="t", **latent)
    yield of(found, "effect", "effect", "effect")

    measure = "mean_absolute_derivative"
    found = bx.importances(model, fit, data.background, measures=[measure], **sampled)[measure]
    draws = found.sel(feature=NAMES).stack(sample=("chain", "draw"))
    yield Answer.of_sizes(measure, draws.transpose("sample", "feature").values)


def of(found, estimand, truth, name):
    """An answer from the moments of a variable."""
    return answer(estimand, truth, found[f"{name}_mean"], found[f"{name}_interval"])


def answer(estimand, truth, mean, interval):
    """An answer from a mean and an interval."""
    low, high = (interval.sel(ci_bound=end).values for end in ("lower", "upper"))
    return Answer(estimand, truth, mean.values, low, high)
