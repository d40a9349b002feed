"""Read the training data of a model: from tables in memory, or from out-of-core data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
import pandas as pd

from bayes_gpx.data.features import Frame, read_features, read_response, units_of, with_intercept
from bayes_gpx.data.groups import read_groups
from bayes_gpx.data.moments import Moments
from bayes_gpx.data.out_of_core import Names, OutOfCore, Rows, Seen, seen_of_both, seen_of_part
from bayes_gpx.data.outputs import Outputs, read_outputs
from bayes_gpx.data.response import Reader, ordered_levels, read_exposure, read_resolution
from bayes_gpx.data.row_data import read_row_data, split_interval, warn_of_little
from bayes_gpx.data.row_source import RowSource, row_source
from bayes_gpx.data.scaling import (
    Scaling,
    no_scaling,
    response_scaling,
    standard_scaling,
    warn_of_copies,
)
from bayes_gpx.data.sparse import read_weighed, sparse_scaling
from bayes_gpx.data.training import TrainingData, refuse_apart


def read_training(
    X: Any,
    y: Any,
    observation: Reader,
    Z: Any,
    *,
    weighs: bool,
    exposure: Any = None,
    intercept: bool = False,
    scale: bool = True,
    levels: tuple[str, ...] | None = None,
    groups: Any = None,
    scalings: tuple[Scaling, Scaling, Scaling | None] | None = None,
    resolution: Any = None,
    weights: Any = None,
    censoring: Any = None,
) -> TrainingData:
    """Read the training data of a model."""
    # `weighs`: features have weights, Z or X itself. `intercept` adds a constant 1 with a weight,
    # without centering or scaling. `levels` are the allowed labels of X's one column, which are not
    # scaled. `groups` has a label for each row. `scalings` are frozen scalings of X, y and Z.
    # `resolution` is the rounding step of each response, by default found from the values.
    # `weights` and `censoring` have a value for each row.
    y, upper = split_interval(y, censoring)
    if len(getattr(X, "shape", ())) == 1 and len(getattr(y, "shape", ())) == 2:
        raise ValueError(
            f"X has shape {X.shape} and y has {y.shape}: are they swapped? Pass X (rows, features) "
            "and then y (rows,)."
        )
    frame = read_features(X, "X", levels=levels, dates={})
    if weighs and Z is None and levels is not None:
        raise ValueError(
            "X holds labels, which have no weights. Pass the features to weigh as Z, (rows, "
            "features)."
        )
    outputs, labels = None, None
    exposure = read_exposure(exposure, frame, observation)
    if observation.classes is None and len(getattr(y, "shape", np.shape(y))) == 2:
        known = None if scalings is None else scalings[1]
        options = {"scale": scale, "exposure": exposure, "scaling": known}
        outputs, labels = read_outputs(y, frame, observation, **options)
        response = outputs.y
    else:
        response, labels = _read_response(y, frame, observation)
    if exposure is not None:
        observation.refuse(response, exposure if outputs is None else exposure[outputs.rows])
    row_data = read_row_data(frame, response, weights, censoring, upper)
    if row_data is not None:
        warn_of_little(row_data)
    counted = None if row_data is None else row_data.weights
    values = response  # without bounds, of which many may be the same
    if row_data is not None and row_data.censoring is not None:
        values = response[row_data.censoring == 0]
    if row_data is not None and outputs is not None:
        raise ValueError(
            "weights or censoring was given, and y is a table of outputs. Fit one model for each."
        )
    weighed = None
    if weighs:
        weighed = frame if Z is None else read_weighed(Z, "Z", dates={})
        refuse_apart(frame, weighed, "X", "Z")
    if scalings is None:
        scaling = standard_scaling if scale else no_scaling
        y_scaling = Scaling(0.0, 1.0)
        if outputs is not None:
            y_scaling = outputs.scaling
        elif scale and observation.scaled:
            y_scaling = response_scaling(Moments.of(response, counted))
        elif scale and observation.exposed:
            y_scaling = Scaling(observation.center(response, exposure, counted), 1.0)
        of_x = scaling if levels is None else no_scaling
        x_moments = Moments.of(frame.values, counted)
        scalings = of_x(frame, "X", x_moments), y_scaling, None
        warn_of_copies(frame, "X", x_moments)
        if weighed is not None:
            if weighed.sparse:
                of_z = sparse_scaling(weighed, "Z", scale=scale)
                warn_of_copies(weighed, "Z")
            else:
                z_moments = Moments.of(weighed.values, counted)
                of_z = scaling(weighed, "Z", z_moments)
                if Z is not None:
                    warn_of_copies(weighed, "Z", z_moments)
            scalings = (*scalings[:2], of_z)
        if intercept:
            scalings = (*scalings[:2], unscaled_last(cast(Scaling, scalings[2])))
    return TrainingData(
        frame,
        with_intercept(weighed) if intercept and weighed is not None else weighed,
        response,
        str(getattr(y, "name", None) or "y"),
        *scalings,
        z_is_x=Z is None,
        intercept=intercept,
        labels=None if labels is None else tuple(labels),
        exposure=exposure,
        scales_y=observation.scaled,
        groups=None if groups is None else read_groups(groups, frame, "groups"),
        outputs=outputs,
        resolution=resolution_of_y(resolution, values, outputs, observation),
        row_data=row_data,
        units={**units_of(X, "x"), **units_of(Z, "z"), **units_of(y, "y")},
    )


def resolution_of_y(
    given: Any, response: np.ndarray, outputs: Outputs | None, observation: Reader
) -> np.ndarray | float:
    """Resolution of the response, or of each output; 0 if noise has no separate scale."""
    if not observation.scaled:
        if given is not None:
            raise ValueError(
                f"resolution is {given!r}, but this likelihood has no noise in units of y; leave "
                "it out."
            )
        return 0.0
    if outputs is not None:
        return read_resolution(given, [v[~np.isnan(v)] for v in outputs.values.T])
    return float(read_resolution(given, [response])[0])


def _read_response(y: Any, frame: Frame, observation: Reader) -> tuple[np.ndarray, Any]:
    """Response (n,), and its labels or None."""
    if observation.normal:
        return read_response(y, frame), None
    return read_response(y, frame, read=observation.read)


def unscaled_last(scaling: Scaling) -> Scaling:
    """The scaling, with one more column that it leaves alone."""
    return Scaling(np.append(scaling.center, 0.0), np.append(scaling.scale, 1.0))


def read_out_of_core(
    source: RowSource,
    y: Any,
    observation: Reader,
    Z: Sequence[str] | None,
    *,
    weighs: bool,
    exposure: str | None = None,
    intercept: bool = False,
    scale: bool = True,
    resolution: Any = None,
    weights: str | None = None,
    censoring: str | None = None,
) -> TrainingData:
    """Read the moments of a data set, in one pass, and a sample of its rows."""
    upper = None
    if censoring is not None and isinstance(y, list | tuple) and len(y) == 2:
        y, upper = y
    # `y` and `exposure` are names of columns; `Z` names columns with weights if they are not X's.
    # The `center` of `observation` takes one row, of mean count and exposure. `resolution` is found
    # from the sample by default.
    if not isinstance(y, str):
        raise ValueError(
            f"y is a {type(y).__name__}. For out-of-core data, pass the name of a column, a str; "
            "with the name of a column as censoring=, a list of two names is for both ends of "
            "intervals."
        )
    if Z is not None and not (
        isinstance(Z, list | tuple) and Z and all(isinstance(name, str) for name in Z)
    ):
        raise ValueError(
            f"Z is a {type(Z).__name__}. For out-of-core data, pass a list of names of columns, "
            "each a str."
        )
    if Z is not None and y in Z:
        raise ValueError(f"Z names {y!r}, which is the response. Pass other columns.")
    taken = [y, *(Z or ())]
    beside = {"exposure": exposure, "weights": weights, "censoring": censoring, "y": upper}
    for option, name in beside.items():
        if not isinstance(name, str | None):
            raise ValueError(
                f"{option} is a {type(name).__name__}. For out-of-core data, pass the name of a "
                "column, a str."
            )
        if name is not None and name in taken:
            raise ValueError(
                f"{option} names {name!r}, as y, Z or another option does. Pass another column."
            )
        taken.append(name)
    known: dict[str, Any] = {"weights": weights, "censoring": censoring, "upper": upper}
    names = Names(y, None if Z is None else tuple(Z), exposure, weighs, observation, **known)
    seen = source.reduce(partial(seen_of_part, names), seen_of_both)
    types = {name: pd.CategoricalDtype([*own]) for name, own in seen.levels.items()}
    if seen.labels is not None:
        order = ordered_levels(seen.sample[names.y])
        found = pd.Categorical(seen.labels, order, ordered=True) if order else seen.labels
        names = replace(names, labels=tuple(cast(np.ndarray, observation.read(found)[1])))
    drawn = seen.sample.astype(dict.fromkeys(types, str)).astype(types)
    sample = names.read(drawn, dates=seen.origins)
    X, weighed, rows = sample.X, sample.Z, sample.row_data
    values = sample.y  # without bounds, of which many may be the same
    if rows is not None and rows.censoring is not None:
        values = values[rows.censoring == 0]
    scaling = standard_scaling if scale else no_scaling
    own = None
    if weighed is not None:
        own = scaling(weighed, "Z", seen.of(weighed.columns))
        own = unscaled_last(own) if intercept else own
    return TrainingData(
        X,
        with_intercept(weighed) if intercept and weighed is not None else weighed,
        sample.y,
        y,
        scaling(X, "X", seen.of(X.columns)),
        _response_scaling(observation, names, seen, sample) if scale else Scaling(0.0, 1.0),
        own,
        z_is_x=Z is None,
        intercept=intercept,
        labels=names.labels,
        exposure=sample.exposure,
        scales_y=observation.scaled,
        beyond=OutOfCore(seen.of(X.columns), source, names, seen.rows, seen.of([y]), seen.totals),
        resolution=resolution_of_y(resolution, values, None, observation),
        row_data=rows,
    )


def _response_scaling(observation: Reader, names: Names, seen: Seen, sample: Rows) -> Scaling:
    """Scaling of a response from its moments, or of f if there is an exposure."""
    if observation.scaled:
        return response_scaling(seen.of([names.y]))
    if not observation.exposed:
        return Scaling(0.0, 1.0)
    if observation.level is not None:  # no moment tells a quantile
        weights = None if sample.row_data is None else sample.row_data.weights
        return Scaling(observation.center(sample.y, sample.exposure, weights), 1.0)
    exposure = np.ones(1) if names.exposure is None else seen.of([names.exposure]).mean
    return Scaling(observation.center(seen.of([names.y]).mean, exposure), 1.0)


def read_data(
    X: Any,
    y: Any,
    observation: Reader,
    Z: Any = None,
    *,
    weighs: bool,
    intercept: bool = False,
    scale: bool,
    exposure: Any,
    resolution: Any,
    **options: Any,
) -> TrainingData:
    """Read the training data of a model: a table as `read_training`, or as `read_out_of_core`."""
    ends = isinstance(options.get("censoring"), str) and isinstance(y, list | tuple)
    ends = ends and len(y) == 2 and all(isinstance(name, str) for name in y)
    source = row_source(X, by_name=ends or isinstance(y, str))
    if source is not None and options.get("groups") is not None:
        raise ValueError(
            "X is out-of-core data, and groups was given. Pass rows in memory, or leave groups out."
        )
    known: dict[str, Any] = {"weighs": weighs, "intercept": intercept, "scale": scale}
    known |= {"exposure": exposure, "resolution": resolution}
    if source is None and isinstance(y, str):
        raise ValueError(
            f"y is the str {y!r}, which names a column of out-of-core data, but X is a table in "
            f"memory. Pass the values of the column {y!r} as y, and X without it."
        )
    if source is None:
        return read_training(X, y, observation, Z, **known, **options)
    known |= {name: options.get(name) for name in ("weights", "censoring")}
    return read_out_of_core(source, y, observation, Z, **known)
