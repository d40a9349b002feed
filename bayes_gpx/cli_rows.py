"""Rows of CSV and Parquet files, to learn from or to explain, with the roles of their columns."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal, cast

import click

from bayes_gpx.system.warning import ExtrapolationWarning, warn
from bayes_gpx.validation import meant, one_of

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from bayes_gpx.data.features import Frame
    from bayes_gpx.data.gaps import Imputation
    from bayes_gpx.data.row_source import RowSource
    from bayes_gpx.export.tables import Beside
    from bayes_gpx.likelihoods.base import Likelihood
    from bayes_gpx.model.model import Model


def kind_of(observation: Likelihood) -> str:
    """What kind of column a likelihood predicts, in words."""
    if observation.labelled:
        return "two labels" if observation.classes is None else "labels"
    return "counts" if observation.discrete else "numbers"


@dataclass(frozen=True)
class Roles:
    """Columns that are no features, and what takes the place of missing values; kept with a fit."""

    id: str | None = None
    groups: str | None = None
    imputation: Imputation | None = None
    known: Mapping[str, str] = field(default_factory=dict)  # of exposure, trials or noise_sd

    def kept(self) -> dict[str, str]:
        """As attributes of a fit."""
        held = {"id": self.id, "groups": self.groups, "known": dict(self.known)}
        imputed = None if self.imputation is None else self.imputation.kept()
        return {ROLES: json.dumps(held | {"imputation": imputed})}

    def imputed(self, rows: Read, path: str | Path) -> dict[str, str]:
        """Attributes that say how many values of the rows were filled in, and which."""
        from bayes_gpx.data.gaps import IMPUTED, IMPUTED_CELLS

        if self.imputation is None or rows.gaps is None:
            return {}
        told = self.imputation.told(rows.gaps, Path(path).name)
        names = zip(map(str, rows.X.index), rows.gaps.to_numpy(), strict=True)
        cells = {label: [*rows.gaps.columns[row]] for label, row in names if row.any()}
        return {IMPUTED: told or "", IMPUTED_CELLS: json.dumps(cells)}

    @classmethod
    def of(cls, idata: xr.DataTree) -> Roles:
        """Of a fit; none where it was made in Python."""
        from bayes_gpx.data.gaps import Imputation

        held = json.loads(idata.attrs.get(ROLES, "{}"))
        imputed = held.get("imputation")
        imputation = None if imputed is None else Imputation.read(imputed)
        return cls(held.get("id"), held.get("groups"), imputation, held.get("known", {}))


ROLES = "bayes_gpx_columns"
"""The attribute of a fit that holds the roles of columns, as JSON."""


@dataclass(frozen=True)
class Read:
    """Rows of a sheet, numbered as in the file."""

    X: pd.DataFrame  # features, filled in
    y: pd.Series | None = None
    groups: pd.Series | None = None
    ids: pd.Series | None = None
    gaps: pd.DataFrame | None = None  # which features were missing, where a fit fills them in
    known: Mapping[str, pd.Series] = field(default_factory=dict)  # exposure, weights, ...

    def beside(self) -> Beside:
        """Columns that tables show next to each row."""
        from bayes_gpx.export.tables import Beside

        return Beside(self.ids, self.y, self.groups, self.gaps)

    def named(self) -> Read:
        """The same rows, named by their ids if they have any."""
        if self.ids is None:
            return self
        ids = self.ids.to_numpy()
        y = None if self.y is None else self.y.set_axis(ids)
        groups = None if self.groups is None else self.groups.set_axis(ids)
        known = {name: values.set_axis(ids) for name, values in self.known.items()}
        return replace(self, X=self.X.set_axis(ids), y=y, groups=groups, known=known)


def rows_of(
    model: Model,
    roles: Roles,
    path: str | Path,
    drop_missing: bool,
    say: Callable[[str], object],
    *,
    target: Literal["scored", "carried"] | None = None,
    baseline: bool = False,
    measured: bool = False,
) -> Read:
    """Rows that the model can explain, and other columns, if the sheet has them."""
    # The `target` is read too if it is "scored", only if it is whole, or "carried", as it stands.
    # `baseline` says that features alone are wanted, and `measured` that exposures, trials and
    # known noise are wanted too.
    from bayes_gpx.data.sheets import Wanted, columns_of, read_sheet

    frame, imputed = model.training.X, roles.imputation
    added = [] if imputed is None else imputed.indicators
    features = [name for name in frame.sources if name not in added]
    wanted = [
        Wanted(name, _kind_of_feature(frame, name), levels=frame.levels.get(name),
               filled=imputed is not None)
        for name in features
    ]  # fmt: skip
    sheet, name = read_sheet(path), str(model.training.y_name)
    if roles.groups is not None and not baseline:
        wanted.append(Wanted(roles.groups, "group"))
    if roles.id is not None and not baseline:
        if roles.id in sheet:
            wanted.append(Wanted(roles.id, "id"))
        else:
            say(f"{path} has no column {roles.id}, so that rows have their numbers alone.")
    if target == "carried" and name in sheet:
        wanted.append(Wanted(name, "any", target=True, filled=True))
    elif target == "scored" and name in sheet and (drop_missing or sheet[name].notna().all()):
        wanted.append(Wanted(name, kind_of(model.specification.observation), target=True))
    known = {role: column for role, column in roles.known.items() if measured and column in sheet}
    wanted += [Wanted(column, "numbers") for column in known.values()]
    for role, column in roles.known.items():
        if measured and column not in sheet:
            without = "y is left out" if role == "noise_sd" else f"predictions are for {role} of 1"
            say(f"{path} has no column {column}, so {without}.")
    table, dropped = columns_of(sheet, wanted, str(path), drop_missing=drop_missing)
    if dropped is not None:
        say(dropped)
    X, gaps = _filled(table[features], imputed, path, say)
    beside = {role: table[column] for role, column in known.items()}
    return Read(X, table.get(name), table.get(roles.groups), table.get(roles.id), gaps, beside)


def _kind_of_feature(known: Frame, name: str) -> str:
    if name in known.levels:
        return "category"
    return "dates" if name in known.origins else "numbers"


def _filled(
    X: pd.DataFrame, imputation: Imputation | None, path: str | Path, say: Callable[[str], object]
) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Features without gaps, and where the gaps were."""
    if imputation is None:
        return X, None
    gaps = X.isna()
    if (told := imputation.told(gaps, str(path))) is not None:
        say(told)
    return imputation.filled(X), gaps


def warn_outside(model: Model, rows: Read) -> str | None:
    """Warn if some rows lie outside of the training data, once for all functions; return it."""
    from bayes_gpx.draws.points import points, rows_outside

    told = rows_outside(model, points(model, rows.X, groups_new=rows.groups))
    if told is not None:
        warn(told, ExtrapolationWarning)
    warnings.simplefilter("ignore", ExtrapolationWarning)
    return told


def baseline_of(
    model: Model, roles: Roles, given: str, drop_missing: bool, say: Callable[[str], object]
) -> str | pd.DataFrame:
    """Read a baseline: the name of one, or the rows of a sheet."""
    from bayes_gpx.draws.points import BASELINES
    from bayes_gpx.explain.attributions import MOST_BASELINES

    if given in BASELINES:
        return given
    if not Path(given).is_file():
        raise click.UsageError(
            f"--baseline {given}: no file of that name. Pass {', '.join(BASELINES)}, or a CSV or "
            "Parquet file."
        )
    rows = rows_of(model, roles, given, drop_missing, say, baseline=True).X
    if len(rows) > MOST_BASELINES:
        raise ValueError(
            f"{given} has {len(rows)} rows, but can have at most {MOST_BASELINES} to average over."
        )
    return rows


def rows_to_fit(
    data: Path,
    target: str,
    chosen: Chosen,
    observation: Any,
    drop_missing: bool,
    impute: str | None,
    say: Callable[[str], object],
) -> tuple[Read, Roles]:
    """Rows to learn from, and the roles of their columns; raises for wrong columns."""
    from bayes_gpx.data.features import units_of
    from bayes_gpx.data.gaps import Imputation
    from bayes_gpx.data.sheets import Wanted, columns_of, numbers_rows, read_sheet

    sheet = read_sheet(data)
    names = chosen.features_of(target, list(sheet.columns))
    wanted = [Wanted(target, kind_of(observation), target=True, fitted=True)]
    for name in names:
        kind = "category" if name in chosen.categorical else "numbers"
        wanted.append(Wanted(name, kind, fitted=True, filled=impute is not None))
    if chosen.id is not None:
        wanted.append(Wanted(chosen.id, "id", fitted=True))
    if chosen.groups is not None:
        wanted.append(Wanted(chosen.groups, "group", fitted=True))
    for role, column in chosen.beside.items():
        wanted.append(Wanted(column, "labels" if role == "censoring" else "numbers", beside=True))
    table, dropped = columns_of(sheet, wanted, str(data), drop_missing=drop_missing)
    if dropped is not None:
        say(dropped)
    for name in names:
        if not chosen.features and name not in chosen.categorical and numbers_rows(sheet[name]):
            warn(
                f"{name} looks like a number or name of the rows, not like a feature. Pass --id "
                f"{quote(name)} to name rows by it, or --exclude {quote(name)}; list it in "
                "--features if it is a feature."
            )
    for name in chosen.categorical:
        levels, n = table[name].nunique(), len(table)
        if 2 * levels > n:
            warn(
                f"{name} has {levels} different values in {n} rows, so the model can learn little "
                f"about each. Pass --exclude {quote(name)} to leave it out, or --id {quote(name)} "
                "to name rows by it."
            )
    imputation = None if impute is None else Imputation.learned(table[names], impute)
    X, gaps = _filled(table[names], imputation, data, say)
    known = {name: table[column] for name, column in chosen.beside.items()}
    rows = Read(X, table[target], table.get(chosen.groups), table.get(chosen.id), gaps, known)
    rows = rows.named()
    rows.X.attrs["units"] = {c: u for c, u in units_of(sheet, target).items() if c in [*X, target]}
    return rows, Roles(chosen.id, chosen.groups, imputation, chosen.known)


def units_given(pairs: Sequence[str], columns: Sequence[str]) -> dict[str, str]:
    """Units by column, from texts such as bmi=kg/m²."""
    found = {}
    for pair in pairs:
        column, equals, unit = pair.partition("=")
        if not equals or not unit.strip():
            raise click.UsageError(f"--units {pair}: pass a column and its unit, as in age=years.")
        one_of("--units", column, columns)
        found[column] = unit.strip()
    return found


@dataclass(frozen=True)
class Chosen:
    """Columns that the user names, by what they are for."""

    features: Sequence[str] = ()
    categorical: Sequence[str] = ()
    exclude: Sequence[str] = ()
    id: str | None = None
    groups: str | None = None
    beside: Mapping[str, str] = field(default_factory=dict)  # of exposure, weights, ...

    @property
    def known(self) -> dict[str, str]:
        """Those that predictions of new rows need too."""
        needed = "exposure", "trials", "noise_sd"
        return {role: column for role, column in self.beside.items() if role in needed}

    def features_of(self, target: str, columns: list[str]) -> list[str]:
        """Features: those that were named, or all columns without another role."""
        # Raises for a column that has two roles, and for one to exclude that is not there.
        roles: dict[str, str] = {}
        given: list[tuple[str, str | None]]
        given = [("the target", target), ("the id", self.id), ("the groups", self.groups)]
        given += [(f"the {role}", name) for role, name in self.beside.items()]
        given += [("excluded", name) for name in self.exclude]
        given += [("a feature", name) for name in self.features]
        for role, name in given:
            if name is not None and roles.setdefault(name, role) != role:
                raise click.UsageError(f"{name} is both {roles[name]} and {role}.")
        for name in self.exclude:
            if name not in columns:
                raise click.UsageError(
                    f"--exclude {name}: there is no such column.{meant('column', name, columns)}"
                )
        names = list(self.features or (c for c in columns if c not in roles))
        for name in self.categorical:
            if name in columns and name not in names:
                raise click.UsageError(f"{name} is categorical but no feature.")
        return names + [name for name in self.categorical if name not in names]


def parts_to_fit(
    data: str, target: str, chosen: Chosen, drop_missing: bool, impute: str | None
) -> tuple[RowSource, str, list[str]]:
    """What is read in parts, with the names of the target and of the features."""
    if drop_missing or impute or chosen.categorical or chosen.id or chosen.groups:
        raise click.UsageError(
            "--categorical, --id, --groups, --impute and --drop-missing are for single files. For "
            "out-of-core data, declare categories by the columns' type, and leave incomplete rows "
            "out."
        )
    from bayes_gpx.data.row_source import FileRows, row_source

    source = cast(FileRows, row_source(data))
    names = chosen.features_of(target, list(source.names))
    beside = chosen.beside.values()
    for name in (target, *names, *beside):
        one_of("column", name, source.names)
    return replace(source, columns=(*names, target, *beside)), target, names
