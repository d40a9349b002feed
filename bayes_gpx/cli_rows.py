"""Rows and baselines that are explained by a fit, read from sheets."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from bayes_gpx.system.warning import ExtrapolationWarning, warn
from bayes_gpx.validation import one_of

if TYPE_CHECKING:
    import pandas as pd

    from bayes_gpx.data.row_source import RowSource
    from bayes_gpx.likelihoods.base import Likelihood
    from bayes_gpx.model.model import Model


def kind_of(observation: Likelihood) -> str:
    """What kind of column a likelihood predicts, in words."""
    if observation.labelled:
        return "two labels" if observation.classes is None else "labels"
    return "counts" if observation.exposed else "numbers"


def rows_of(
    model: Model,
    path: str | Path,
    drop_missing: bool,
    say: Callable[[str], object],
    *,
    target: bool = False,
) -> pd.DataFrame:
    """Read rows that the model can explain; with `target` also that column, if the sheet has it."""
    from bayes_gpx.data.sheets import Wanted, columns_of, read_sheet

    known = model.training.X
    wanted = [
        Wanted(
            name, "category" if name in known.levels else "numbers", levels=known.levels.get(name)
        )
        for name in known.sources
    ]
    sheet, name = read_sheet(path), str(model.training.y_name)
    if target and name in sheet and (drop_missing or sheet[name].notna().all()):
        wanted.append(Wanted(name, kind_of(model.specification.observation), target=True))
    rows, dropped = columns_of(sheet, wanted, str(path), drop_missing=drop_missing)
    if dropped is not None:
        say(dropped)
    return rows


def warn_outside(model: Model, rows: pd.DataFrame) -> None:
    """Warn if some rows lie outside of the training data, instead of each verb by itself."""
    from bayes_gpx.draws.points import points, rows_outside

    told = rows_outside(model, points(model, rows))
    if told is not None:
        warn(told, ExtrapolationWarning)
    warnings.simplefilter("ignore", ExtrapolationWarning)


def baseline_of(
    model: Model, given: str, drop_missing: bool, say: Callable[[str], object]
) -> str | pd.DataFrame:
    """Read a baseline: the name of one, or the rows of a sheet."""
    from bayes_gpx.draws.points import BASELINES
    from bayes_gpx.explain.attributions import MOST_BASELINES

    if given in BASELINES:
        return given
    if not Path(given).is_file():
        raise click.UsageError(
            f"--baseline {given}: no file of that name; expected {', '.join(BASELINES)}, or a CSV "
            "or Parquet file."
        )
    rows = rows_of(model, given, drop_missing, say)
    if len(rows) > MOST_BASELINES:
        raise ValueError(
            f"{given} has {len(rows)} rows; expected at most {MOST_BASELINES} to average over."
        )
    return rows


def rows_to_fit(
    data: Path,
    target: str,
    features: Sequence[str],
    categorical: Sequence[str],
    observation: Any,
    drop_missing: bool,
    say: Callable[[str], None],
) -> tuple[pd.DataFrame, pd.Series, list[str]]:
    """X, y and the names of the features in a sheet that a model is to learn from.

    Raises
    ------
    click.UsageError, ValueError
        For columns that are not there, or hold something else than they should.
    """
    from bayes_gpx.data.sheets import Wanted, columns_of, read_sheet

    sheet = read_sheet(data)
    others = [column for column in sheet.columns if column != target] if target in sheet else []
    names = list(features or others)
    if target in names:
        raise click.UsageError(f"{target} is both the target and a feature.")
    if outside := [name for name in categorical if name in sheet and name not in names]:
        raise click.UsageError(f"{', '.join(outside)} is categorical but no feature.")
    unknown = [name for name in categorical if name not in names]
    wanted = [Wanted(target, kind_of(observation), target=True, fitted=observation.scaled)]
    for name in (*names, *unknown):
        kind = "category" if name in categorical else "numbers"
        wanted.append(Wanted(name, kind, fitted=True))
    table, dropped = columns_of(sheet, wanted, str(data), drop_missing=drop_missing)
    if dropped is not None:
        say(dropped)
    return table[names], table[target], names


def parts_to_fit(
    data: str,
    target: str,
    features: Sequence[str],
    categorical: Sequence[str],
    observation: Any,
    drop_missing: bool,
) -> tuple[RowSource, str, list[str]]:
    """What is read in parts, with the names of the target and of the features."""
    if categorical or drop_missing:
        raise click.UsageError(
            "--categorical and --drop-missing are for single files; of files that are read in "
            "parts, declare categories by the columns' type, and leave incomplete rows out."
        )
    from bayes_gpx.data.row_source import FileRows, row_source

    source = cast(FileRows, row_source(data))
    names = list(features or (name for name in source.names if name != target))
    for name in (target, *names):
        one_of("column", name, source.names)
    return replace(source, columns=(*names, target)), target, names
