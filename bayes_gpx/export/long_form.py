"""Explanations as data frames in long form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from bayes_gpx.draws.intervals import interval_of, interval_probability
from bayes_gpx.draws.naming import RESPONSE
from bayes_gpx.inference.laplace import resampled

if TYPE_CHECKING:
    import pandas as pd

LEADING = ("row", "feature", "feature_bis", "class", "baseline", "value", "unit", "level")


DRAWS = {"chain", "draw"}

PARTS = ("_mean", "_sd", "_interval", "_cov", "_band")
"""Ends of names of variables that belong to another one."""

LEFT_OUT = "baseline", "completeness"
"""Beginnings of names: the same value in all rows, and the accuracy of a computation."""


def to_pandas(dataset: xr.Dataset, *, ci_prob: float | None = None) -> pd.DataFrame:
    """Convert an explanation to long form: a line for each row and feature.

    Use it for spreadsheets, databases and grammars of graphics. Polars reads the result with
    ``pl.from_pandas``.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of an explanation function, with or without draws.
    ci_prob : float, optional
        Probability of the intervals; by default the dataset's. Intervals are equal-tailed if the
        dataset has draws; otherwise they come from the mean and sd as if normal.

    Returns
    -------
    pandas.DataFrame
        `row`, the label of the row (from the index of `X_new` if it had one); `feature` and any
        other dims (class, baseline, ...); `value` of the feature, with `unit` if units are known
        and `level` if there are categorical features; and for each quantity _mean, _sd, _lower and
        _upper. Other variables of these dims, such as probabilities, have their own names, and
        quantities without a feature, such as `difference`, are repeated for each feature. A
        quantity of one draw has no sd.

    Raises
    ------
    ValueError
        For a dataset without draws and means, and an invalid `ci_prob`.
    """
    prob = interval_probability(ci_prob, dataset)
    dataset = equally_weighed(dataset).drop_vars("baseline_level", errors="ignore")
    means = [str(name).removesuffix("_mean") for name in dataset if str(name).endswith("_mean")]
    means = [name for name in means if name != RESPONSE]  # which another name has
    drawn = [str(name) for name in dataset if DRAWS <= set(dataset[name].dims)]
    if "labels" in dataset.attrs:  # y are codes of labels
        drawn = [name for name in drawn if name != "y"]
    columns: dict[str, xr.DataArray] = {}
    for name in dict.fromkeys([*drawn, *means]):
        columns |= _moments(dataset, name, prob)
    own = [str(n) for n in dataset if not (str(n).endswith(PARTS) or DRAWS & {*dataset[n].dims})]
    own = [name for name in own if not name.startswith(LEFT_OUT)]
    if not columns and "bayes_gpx" in dataset.attrs:
        columns |= {name: dataset[name] for name in own[:1]}
    if not columns:
        raise ValueError(
            f"The dataset has no draws and no means, but {list(dataset)}. Pass the result of an "
            "explanation function, such as bx.attributions."
        )
    dims = dict.fromkeys(dim for column in columns.values() for dim in column.dims)
    for other in own:
        if other != RESPONSE and dims.keys() >= set(dataset[other].dims):
            columns[other] = dataset[other]
    order = sorted(dims, key=lambda dim: {"obs": 0, "feature": 1}.get(str(dim), 2))
    frame = xr.Dataset(columns).to_dataframe(order).reset_index().rename(columns={"obs": "row"})
    axes = [column for column in frame if column not in columns and column not in LEADING]
    lead = [column for column in LEADING if column in frame] + axes
    return frame[lead + [column for column in frame if column not in lead]]


def equally_weighed(dataset: xr.Dataset, seed: int = 0) -> xr.Dataset:
    """Draws of equal weight, in place of the weighted draws of `loo_predictions`."""
    if "log_weights" not in dataset:
        return dataset
    rng, found = np.random.default_rng(seed), dataset.drop_vars("log_weights")
    log_weights = dataset["log_weights"].transpose("chain", "draw", ...)
    flat = np.exp(log_weights.values).reshape((log_weights[..., 0].size, -1))
    for name, own in [*found.items()]:
        if {*own.dims} == {*log_weights.dims}:
            own = own.transpose(*log_weights.dims)
            columns = zip(own.values.reshape(flat.shape).T, flat.T, strict=True)
            drawn = np.stack([y[resampled(w, len(y), rng)] for y, w in columns], axis=1)
            found[name] = own.copy(data=drawn.reshape(own.shape))
    return found


def mean_of(dataset: xr.Dataset, name: str) -> xr.DataArray:
    """Mean of a quantity's draws; of a new response, the mean response if the dataset has it."""
    exact = [f"{mean}_mean" for mean in ("rate", "mean") if f"{mean}_mean" in dataset]
    if name == "y" and exact and dataset["y"].dims[2:] == dataset[exact[0]].dims:
        return dataset[exact[0]]
    return dataset[name].mean(["chain", "draw"], keep_attrs=True)


def _moments(dataset: xr.Dataset, name: str, prob: float) -> dict[str, xr.DataArray]:
    """Mean, sd and ends of the interval of a quantity, as far as they are known."""
    found = {"mean": dataset.get(f"{name}_mean"), "sd": dataset.get(f"{name}_sd")}
    if name in dataset and {*dataset[name].dims} >= DRAWS:
        draws = dataset[name]
        several = draws.sizes["chain"] * draws.sizes["draw"] > 1
        if found["mean"] is None:
            found["mean"] = mean_of(dataset, name)
        if found["sd"] is None and several:
            found["sd"] = draws.std(["chain", "draw"])
    if found["sd"] is not None or f"{name}_interval" in dataset:
        ends = interval_of(dataset, name, prob)
        found |= {end: ends.sel(ci_bound=end, drop=True) for end in ("lower", "upper")}
    return {f"{name}_{k}": array.drop_attrs() for k, array in found.items() if array is not None}
