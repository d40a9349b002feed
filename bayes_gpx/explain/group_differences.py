"""Differences between groups of rows, with their posterior."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import xarray as xr

from bayes_gpx.draws.intervals import BOUNDS, interval_probability

DRAWS = ["chain", "draw"]


def group_differences(found: xr.Dataset, *, size: float = 0.0) -> xr.Dataset:
    """Compare groups of rows in pairs, with the probability of a gap beyond a size.

    Use it on a result with ``by=``. Draws are joint over groups, so the difference between two
    groups is often more certain than either group.

    Parameters
    ----------
    found : xarray.Dataset
        A result with draws and two or more groups in the dim `by`: of `predictions`,
        `derivatives`, `slopes`, `attributions`, `contributions`, `weights`, `comparisons` or
        `partial_dependence`.
    size : float
        Size that a gap must exceed to matter, in the unit of the result.

    Returns
    -------
    xarray.Dataset
        ====================================  =====================  ===========
        variable                              dims                   unit
        ====================================  =====================  ===========
        `group_difference`                    chain, draw, pair      the result's
        `group_difference_mean`, `_sd`        pair                   the result's
        `group_difference_interval`           pair, ci_bound         the result's
        `group_difference_above`              pair                   probability
        `group_difference_below`              pair                   probability
        ====================================  =====================  ===========

        Each pair is "a - b", with its groups in the coordinates `first` and `second`. `_above` is
        the probability of a difference of more than `size`, and `_below` of less than ``-size``.
        Other dims, such as feature, follow `pair`. The mean is that of the result's means; the
        others are those of the draws.

    Raises
    ------
    ValueError
        For a Dataset without draws of two or more groups, or a negative `size`.

    Notes
    -----
    The groups differ in the rows that they have, too: a gap between predictions is not the effect
    of the group. `comparisons` changes one feature and keeps the rows.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.random.default_rng(1).normal(size=(60, 2))
    >>> model = bx.GP(X, X[:, 0] * (X[:, 1] > 0), scale=False)
    >>> theta = {"lengthscale": [1.0, 1.0], "amplitude": 1.0, "sigma": 0.1}
    >>> side = np.where(X[:, 1] > 0, "right", "left")
    >>> sloped = bx.slopes(model, theta, by=side, seed=1, progressbar=False)
    >>> gap = bx.group_differences(sloped, size=0.2)
    >>> gap["pair"].values.tolist()
    ['left - right']
    >>> gap["group_difference_below"].sel(feature="x0").values
    array([1.])
    """
    if not size >= 0.0:
        raise ValueError(f"size is {size}. Pass the size of a gap that matters, 0 or more.")
    drawn = [str(n) for n in found.data_vars if {*DRAWS, "by"} <= {*found[n].dims}]
    if not drawn or found.sizes["by"] < 2:
        raise ValueError(
            "The dataset has no draws of two or more groups. Pass a result with by= and "
            "keep='draws', such as bx.slopes(..., by='region')."
        )
    name, prob = drawn[0], interval_probability(None, found)
    labels = found["by"].values
    first, second = map(list, zip(*combinations(range(len(labels)), 2), strict=True))

    def gap(values: xr.DataArray) -> xr.DataArray:
        """First minus second group, of each pair."""
        left, right = (values.isel(by=xr.DataArray(k, dims="pair")) for k in (first, second))
        apart = left.drop_vars("by") - right.drop_vars("by")
        return apart.transpose(*(d for d in DRAWS if d in apart.dims), "pair", ...)

    apart = gap(found[name])
    mean = gap(found[f"{name}_mean"]) if f"{name}_mean" in found else apart.mean(DRAWS)
    tails = apart.quantile([0.5 - prob / 2, 0.5 + prob / 2], DRAWS).rename(quantile="ci_bound")
    variables = {
        "group_difference": apart,
        "group_difference_mean": mean,
        "group_difference_sd": apart.std(DRAWS),
        "group_difference_interval": tails.transpose(..., "ci_bound"),
        "group_difference_above": (apart > size).mean(DRAWS),
        "group_difference_below": (apart < -size).mean(DRAWS),
    }
    pairs = [f"{labels[a]} - {labels[b]}" for a, b in zip(first, second, strict=True)]
    coords: dict[str, Any] = {
        "pair": pairs,
        "first": ("pair", labels[first]),
        "second": ("pair", labels[second]),
    }
    result = xr.Dataset({n: v.drop_vars("ci_bound", errors="ignore") for n, v in variables.items()})
    result = result.assign_coords(coords | {"ci_bound": BOUNDS})
    of = name.replace("_", " ")
    return result.assign_attrs(found.attrs | {"ci_prob": prob, "size": float(size), "gap_of": of})
