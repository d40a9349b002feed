"""Ranks of features, and of pairs of them, with their probabilities."""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy.stats import rankdata

from bayes_gpx.draws.intervals import BOUNDS, interval_probability
from bayes_gpx.validation import one_output


def ranking(found: xr.Dataset, *, ci_prob: float | None = None) -> xr.Dataset:
    """Rank features, or pairs of features, with the probability of each rank.

    Use it on the result of `relevance` or `interactions`. Features are ranked for every draw, by
    their average relevance over rows, per standard deviation of the feature. The difference between
    two features is often more certain than either value.

    Parameters
    ----------
    found : xarray.Dataset
        The result of `relevance` or `interactions`, with ``over="draws"``.
    ci_prob : float, optional
        Probability of the intervals, with equal tails; 90% by default.

    Returns
    -------
    xarray.Dataset
        ==================================  =======================  ===============
        variable                            dims                     unit
        ==================================  =======================  ===============
        `average_relevance`                 chain, draw, feature     per sd of x
        `average_relevance_mean`, `_sd`     feature                  per sd of x
        `average_relevance_interval`        feature, ci_bound        per sd of x
        `probability_rank`                  feature, rank            probability
        `probability_top`                   feature, rank            probability
        `rank_mean`                         feature                  rank
        `probability_above`                 feature, feature_bis     probability
        ==================================  =======================  ===============

        Rank 1 is the most relevant. `probability_top` is the probability to be among the first
        `rank` features, and `probability_above` to be more relevant than `feature_bis`. Equal
        features share the best of their ranks. A single hyperparameter draw has no uncertainty:
        sds, intervals and probabilities are NaN.

        For `interactions`, the variables describe `average_interaction`, with a dim `pair`,
        labelled "a : b", instead of feature, and the coordinates `first` and `second`. The
        result also contains the reference distributions of `found`, if it has any.

    Raises
    ------
    ValueError
        For a Dataset without draws, such as one with ``over="mixture"``.

    Notes
    -----
    Relevance is a property of the predictive distribution, so only the hyperparameters vary between
    its draws. The probabilities do not include that another function drawn for the same
    hyperparameters, or other rows of the population, might rank the features differently.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.random.default_rng(1).normal(size=(60, 2))
    >>> model = bx.GP(X, X[:, 0] * X[:, 1] + X[:, 0], scale=False)
    >>> theta = {"lengthscale": [2.0, 2.0], "amplitude": 2.0, "sigma": 0.05}
    >>> ranked = bx.ranking(bx.relevance(model, theta, progressbar=False))
    >>> ranked["rank_mean"].values
    array([1., 2.])
    """
    one_output(found)
    prob = interval_probability(ci_prob)
    name = next((n for n in ("average_relevance", "average_interaction") if n in found), None)
    if name is None or not {"chain", "draw"} <= set(found[name].dims):
        raise ValueError(
            "The Dataset has no average_relevance or average_interaction over draws. Pass the "
            "result of bx.relevance or bx.interactions with over='draws'."
        )
    average = found[name] if name == "average_relevance" else _by_pair(found[name])
    item = average.dims[-1]
    values = average.values
    size, samples = values.shape[-1], (0, 1)
    ranks = rankdata(-values, method="min", axis=-1).astype(int)
    each = np.stack([(ranks == k + 1).mean(axis=samples) for k in range(size)], axis=-1)
    above = np.stack([(values > values[..., [k]]).mean(axis=samples) for k in range(size)], axis=-1)
    tails = np.quantile(values, [0.5 - prob / 2, 0.5 + prob / 2], axis=samples).T
    sd, known = values.std(axis=samples), 1.0 if values[..., 0].size > 1 else np.nan
    by_rank, of = (item, "rank"), "the feature" if item == "feature" else "both features"
    ranked = xr.Dataset(
        {
            name: average,
            f"{name}_mean": (item, values.mean(axis=samples)),
            f"{name}_sd": (item, known * sd),
            f"{name}_interval": ((item, "ci_bound"), known * tails),
            "probability_rank": (by_rank, known * each),
            "probability_top": (by_rank, known * np.minimum(each.cumsum(axis=1), 1.0)),
            "rank_mean": (item, ranks.mean(axis=samples)),
            "probability_above": ((item, f"{item}_bis"), known * above),
        },
        {f"{item}_bis": average[item].values, "rank": np.arange(1, size + 1), "ci_bound": BOUNDS},
        found.attrs | {"ci_prob": prob, "units": f"per standard deviation of {of}"},
    )
    for variable in ranked:
        if not str(variable).startswith(name):
            ranked[variable].attrs["units"] = "rank" if variable == "rank_mean" else "probability"
    for part in ("null", "refitted", "p"):
        reference = f"{name.removeprefix('average_')}_{part}"
        if reference not in found:
            continue
        own = found[reference]
        if item == "pair":
            own = own.sel(feature=average["first"], feature_bis=average["second"])
            own = own.drop_vars(["feature", "feature_bis"])
        ranked[reference] = own
    return ranked


def _by_pair(average: xr.DataArray) -> xr.DataArray:
    """Averages (chain, draw, pair) of the requested pairs."""
    names = average["feature"].values
    rows, columns = np.triu_indices(len(names), 1)
    asked = average.values[..., rows, columns]
    known = ~np.isnan(asked).all(axis=(0, 1))
    first, second = names[rows[known]], names[columns[known]]
    labels = [f"{a} : {b}" for a, b in zip(first, second, strict=True)]
    coords = {
        "chain": average["chain"],
        "draw": average["draw"],
        "pair": labels,
        "first": ("pair", first),
        "second": ("pair", second),
    }
    return xr.DataArray(asked[..., known], coords, ("chain", "draw", "pair"))
