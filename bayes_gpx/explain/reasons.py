"""Reasons for a prediction: the features with the largest attributions, with probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import xarray as xr
from scipy.stats import rankdata

from bayes_gpx.draws.intervals import interval_of, interval_probability
from bayes_gpx.numerics.linear_algebra import sqrt_psd
from bayes_gpx.validation import count, one_of

NORMALS = 20_000
"""Draws of the joint normal variable of a result without draws."""

SCORES: dict[str, Callable] = {
    "either": np.abs,
    "positive": lambda values: values,
    "negative": lambda values: -values,
}
"""What the features are ranked by: the size of their attributions, or how far they go one way."""


def reasons(
    found: xr.Dataset,
    *,
    size: int = 4,
    sign: Literal["either", "positive", "negative"] = "either",
) -> xr.Dataset:
    """Rank the features of each row by their attributions, with probabilities.

    Use it for reason codes, such as the principal reasons of an adverse decision: with
    ``sign="negative"`` only features that lower the prediction are reasons. Attributions are often
    too uncertain to say which is the largest, so each reason comes with the probability that it is
    among the first. `ranking` ranks the features of a model.

    Parameters
    ----------
    found : xarray.Dataset
        The result of `attributions`, `shapley_values` or `contributions`, with draws, or with
        ``keep="summary"`` and ``covariance=True``. With ``by=`` it has the reasons of groups.
    size : int
        How many reasons are given for each row.
    sign : {"either", "positive", "negative"}
        Rank by the size of attributions, or by how far they raise or lower the prediction.

    Returns
    -------
    xarray.Dataset
        ======================  ====================  ===========
        variable                dims                  unit
        ======================  ====================  ===========
        `reason`                obs, rank             feature
        `reason_mean`           obs, rank             y
        `reason_interval`       obs, rank, ci_bound   y
        `reason_probability`    obs, rank             probability
        `probability_top`       obs, feature, rank    probability
        ======================  ====================  ===========

        `reason` is ordered by the mean attributions. `reason_mean` and `reason_interval` are those
        of its attribution, and `reason_probability` is the probability that it is among the first
        `size` of its row. `probability_top` is the probability of each feature to be among the
        first `rank`. An attribution of another sign is no reason: `reason` is then empty, and its
        numbers are NaN. For classes, the dims end in `class`.

    Raises
    ------
    ValueError
        For a Dataset without such attributions, or without draws and covariances.

    Notes
    -----
    Without draws, the probabilities come from 20,000 draws of a normal variable with the mean and
    covariance of the result. They err by less than 0.01, and ignore that a mixture over draws of
    the hyperparameters is not normal.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.random.default_rng(1).normal(size=(60, 2))
    >>> model = bx.GP(X, 2 * X[:, 0] - X[:, 1], scale=False)
    >>> theta = {"lengthscale": [3.0, 3.0], "amplitude": 3.0, "sigma": 0.1}
    >>> options = {"seed": 1, "baseline": "zero", "progressbar": False}
    >>> explained = bx.attributions(model, theta, [[1.0, 1.0]], **options)
    >>> bx.reasons(explained, size=2)["reason"].values.tolist()
    [['x0', 'x1']]
    >>> bx.reasons(explained, size=2, sign="negative")["reason"].values.tolist()
    [['x1', '']]
    """
    one_of("sign", sign, SCORES)
    count("size", size)
    name = next((n for n in ("attribution", "contribution") if f"{n}_mean" in found), None)
    if name is None or "feature" not in found[f"{name}_mean"].dims:
        raise ValueError(
            f"The dataset has only the variables {list(found)}. Pass the result of "
            "bx.attributions, bx.shapley_values or bx.contributions."
        )
    mean = found[f"{name}_mean"]
    lead = [str(dim) for dim in mean.dims if dim != "feature"]
    mean, size = mean.transpose(*lead, "feature"), min(size, found.sizes["feature"])
    score = SCORES[sign]
    # Of a sparse Z, a row has no contribution of the features that it lacks.
    drawn = score(_draws(found, name, lead))
    counts = drawn > 0.0 if sign != "either" else ~np.isnan(drawn)
    drawn = np.where(np.isnan(drawn), -np.inf, drawn)
    ranks = rankdata(-drawn, method="min", axis=-1)
    places = np.arange(1, size + 1)
    top = np.stack([((ranks <= k) & counts).mean(axis=0) for k in places], axis=-1)
    scored = score(mean.values)
    scored = np.where(np.isnan(scored), -np.inf, scored)
    order = np.argsort(-scored, axis=-1, kind="stable")[..., :size]
    least = 0.0 if sign != "either" else -np.inf
    real = np.take_along_axis(scored, order, -1) > least
    prob = interval_probability(None, found)
    ends = interval_of(found, name, prob).transpose(*lead, "feature", "ci_bound").values

    def picked(values: np.ndarray) -> np.ndarray:
        """Values (..., feature) of the reasons, NaN where there is none."""
        return np.where(real, np.take_along_axis(values, order, -1), np.nan)

    names = mean["feature"].values.astype(str)
    ranked = (*lead, "rank")
    result = xr.Dataset(
        {
            "reason": (ranked, np.where(real, names[order], "")),
            "reason_mean": (ranked, picked(mean.values)),
            "reason_interval": (
                (*ranked, "ci_bound"),
                np.stack([picked(ends[..., k]) for k in (0, 1)], axis=-1),
            ),
            "reason_probability": (ranked, picked(top[..., -1])),
            "probability_top": ((*lead, "feature", "rank"), top),
        },
        {dim: found[dim] for dim in (*lead, "feature") if dim in found.coords}
        | {"rank": places, "ci_bound": ["lower", "upper"]},
        found.attrs | {"ci_prob": prob, "size": size, "sign": sign},
    )
    for variable in ("reason_probability", "probability_top"):
        result[variable].attrs["units"] = "probability"
    if "class" not in lead:
        return result
    return result.transpose(..., "class").transpose(..., "ci_bound", missing_dims="ignore")


def _draws(found: xr.Dataset, name: str, lead: list[str]) -> np.ndarray:
    """Draws (draw, ..., feature) of a result, or of the normal variable with its moments."""
    if name in found:
        return (
            found[name].stack(sample=["chain", "draw"]).transpose("sample", *lead, "feature").values
        )
    if f"{name}_cov" not in found or "feature_bis" not in found[f"{name}_cov"].dims:
        raise ValueError(
            "The dataset has neither draws nor covariances of features. Pass a result with "
            "keep='draws', or with covariance=True."
        )
    mean = found[f"{name}_mean"].transpose(*lead, "feature").values
    cov = found[f"{name}_cov"].transpose(*lead, "feature", "feature_bis").values
    normal = np.random.default_rng(0).standard_normal((NORMALS, *mean.shape))
    return mean + np.einsum("...ij,s...j->s...i", sqrt_psd(cov), normal)
