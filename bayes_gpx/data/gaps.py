"""Imputation of missing values of a data file from the training rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

IMPUTED = "imputed"
"""The attribute of a fit that says how many values were filled in."""

IMPUTED_CELLS = "imputed_cells"
"""The attribute that says which: as JSON, the columns of each row, by the row's label."""

WAYS = ("median", "indicator")
"""Ways to fill in; the second also marks the rows by a column of 0 and 1."""


@dataclass(frozen=True)
class Imputation:
    """What takes the place of missing values, learned on training rows."""

    how: str  # "median" or "indicator"
    # for each feature the median of numbers and dates, or the most frequent category
    values: dict[str, Any]
    # features with an indicator of missing values: those that lack some in training rows
    marked: tuple[str, ...] = ()

    @classmethod
    def learned(cls, table: Any, how: str) -> Imputation:
        """Learn from the features of training rows; raises if an indicator's name is taken."""
        gaps = table.isna().any()
        marked = tuple(gaps.index[gaps]) if how == "indicator" else ()
        if taken := [indicator_of(name) for name in marked if indicator_of(name) in table]:
            raise ValueError(
                f"--impute indicator adds columns named {', '.join(taken)}, which the table has "
                "already. Rename them, or use --impute median."
            )
        return cls(how, {name: _typical(table[name]) for name in table}, marked)

    @classmethod
    def read(cls, kept: dict[str, Any]) -> Imputation:
        """What `kept` wrote."""
        return cls(kept["how"], kept["values"], tuple(kept["marked"]))

    def kept(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)

    @property
    def indicators(self) -> list[str]:
        """Names of the columns that it adds."""
        return [indicator_of(name) for name in self.marked]

    def filled(self, table: Any) -> Any:
        """Fill in, and add the indicators."""
        columns = {name: _filled(table[name], self.values[name]) for name in table}
        columns |= {indicator_of(name): table[name].isna().astype(float) for name in self.marked}
        return pd.DataFrame(columns, index=table.index)

    def told(self, gaps: Any, what: str) -> str | None:
        """Say how many values were filled in, where, and by what; None for no gaps."""
        counts = gaps.sum()
        if not counts.sum():
            return None
        by = [f"{counts[k]} in {k} ({_short(self.values[k])})" for k in counts.index[counts > 0]]
        unmarked = [name for name in counts.index[counts > 0] if name not in self.marked]
        values = f"{counts.sum()} missing value{'s' if counts.sum() > 1 else ''}"
        told = (
            f"Filled in {values} in {gaps.any(axis=1).sum()} of {len(gaps)} "
            f"rows of {what}, by medians or most frequent categories of the training rows: "
            f"{', '.join(by)}."
        )
        if self.how == "indicator" and self.marked:
            told += f" Marked in {', '.join(self.indicators)}."
        if self.how == "indicator" and unmarked:
            told += f" Not marked, because no training row lacks it: {', '.join(unmarked)}."
        return told


def indicator_of(name: str) -> str:
    """Name of the column that is 1 where another lacks a value."""
    return f"{name}_missing"


def gaps_in_words(gaps: Any) -> Sequence[str]:
    """Names of the columns that each row lacks, joined by semicolons."""
    names = np.array(gaps.columns, dtype=object)
    return ["; ".join(names[row]) for row in gaps.to_numpy()]


def _typical(column: pd.Series) -> str | float:
    """A value in the middle as JSON holds it: the median, or the most frequent category."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return str(column.mode().iloc[0])
    middle: Any = column.median()
    return middle.isoformat() if column.dtype.kind == "M" else float(middle)


def _filled(column: pd.Series, value: Any) -> pd.Series:
    if isinstance(column.dtype, pd.CategoricalDtype):
        words = ["" if pd.isna(word) else str(word) for word in column]
        words = [value if gap else word for gap, word in zip(column.isna(), words, strict=True)]
        levels = dict.fromkeys([*map(str, column.cat.categories), value])
        return pd.Series(pd.Categorical(words, list(levels)), index=column.index)
    return column.fillna(pd.Timestamp(value) if column.dtype.kind == "M" else value)


def _short(value: str | float) -> str:
    return value.removesuffix("T00:00:00") if isinstance(value, str) else f"{value:.6g}"
