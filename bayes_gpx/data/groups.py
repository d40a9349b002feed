"""Groups of rows, each with deviations of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayes_gpx.data.categorical import as_text, is_missing, plain
from bayes_gpx.data.features import Frame, read_response


@dataclass(frozen=True, eq=False)
class Groups:
    """The group of each row: `codes` (n,) among the `labels` of known, then new groups."""

    codes: np.ndarray
    labels: tuple[str, ...]

    def rows(self, positions: np.ndarray | slice) -> Groups:
        """Groups of some rows, with the labels of all."""
        return replace(self, codes=self.codes[positions])


def read_groups(groups: Any, frame: Frame, name: str, known: tuple[str, ...] = ()) -> Groups:
    """Read a label for each row of the frame; unknown labels come after the known ones."""
    # Labels are compared as text, whole numbers without a decimal point. ValueError for another
    # number of rows, another index, missing labels and, without known groups, a single group.
    if isinstance(groups, str):
        raise ValueError(
            f"{name} is the text {groups!r}. Pass a label for each row, such as frame[{groups!r}]."
        )
    values = read_response(groups, frame, name, lambda column: np.asarray(column, dtype=object))
    for label, row in zip(values, frame.index, strict=True):
        if is_missing(label):
            raise ValueError(
                f"{name} has no label at row {plain(row)!r}. Give each row of an unknown group its "
                "own label, or drop these rows."
            )
    texts = [as_text(label) for label in values]
    labels = tuple(dict.fromkeys([*known, *texts]))
    if len(labels) < 2:
        raise ValueError(
            f"{name} has the one label {labels[0]!r}, but needs at least two groups. Leave groups "
            "out if all rows belong together."
        )
    place = {label: code for code, label in enumerate(labels)}
    return Groups(np.array([place[text] for text in texts], dtype=np.int64), labels)
