"""Several responses of each row, possibly with missing values."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bayes_gpx.data.features import MINIMUM_ROWS, Frame, read_responses
from bayes_gpx.data.moments import Moments
from bayes_gpx.data.scaling import Scaling, response_scaling
from bayes_gpx.validation import one_of


@dataclass(frozen=True, eq=False)
class Outputs:
    """The responses of n rows: q outputs, with observed values as cells."""

    # Cells are in the order of the rows and, within a row, of the outputs.

    names: tuple[str, ...]
    values: np.ndarray  # (n, q) in user units; NaN if missing
    scaling: Scaling  # centers and scales (q,)
    index: np.ndarray  # labels of the rows (n,)
    asked: int | None = None  # position of the one output to explain

    @cached_property
    def observed(self) -> np.ndarray:
        """Which of the values are there, (n, q)."""
        return ~np.isnan(self.values)

    @property
    def y(self) -> np.ndarray:
        """The cells' values, (N,)."""
        return self.values[self.observed]

    @cached_property
    def rows(self) -> np.ndarray:
        """Each cell's row, (N,)."""
        return np.nonzero(self.observed)[0]

    @cached_property
    def codes(self) -> np.ndarray:
        """Each cell's output, (N,)."""
        return np.nonzero(self.observed)[1]

    @property
    def labels(self) -> list[str]:
        """Names of the cells."""
        pairs = zip(self.rows, self.codes, strict=True)
        return [f"{self.names[code]}[{self.index[row]}]" for row, code in pairs]

    @property
    def scaling_of_cells(self) -> Scaling:
        """Scaling of the cells' values, (N,)."""
        center, scale = np.asarray(self.scaling.center), np.asarray(self.scaling.scale)
        return Scaling(center[self.codes], scale[self.codes])

    def asking(self, name: str) -> "Outputs":
        """The same outputs, with one output to explain."""
        one_of("output", name, self.names)
        return replace(self, asked=self.names.index(name))

    def at(self, positions: np.ndarray | slice) -> "Outputs":
        """Those of some of the rows alone, with the scaling of all."""
        return replace(self, values=self.values[positions], index=self.index[positions])

    def table(self, cells: np.ndarray) -> np.ndarray:
        """Convert numbers of the cells (..., N) to all outputs (..., n, q), NaN at gaps."""
        found = np.full((*cells.shape[:-1], *self.values.shape), np.nan)
        found[..., self.observed] = cells
        return found


def read_outputs(
    Y: Any,
    frame: Frame,
    observation: Any,
    *,
    scale: bool,
    exposure: np.ndarray | None = None,
    scaling: Scaling | None = None,
) -> tuple[Outputs, Any]:
    """Read a table of responses, one row for each row of the frame X; and their labels, or None."""
    # ValueError for anything but what the likelihood takes, and gaps; for another number of rows or
    # another index than X's; and for an output with fewer than three observed values or, if scaled,
    # a constant one.
    read = observation.read if observation.labelled else None
    values, names, labels = read_responses(Y, frame, read)
    for name, column in zip(names, values.T, strict=True):
        known = np.count_nonzero(~np.isnan(column))
        if known < MINIMUM_ROWS:
            raise ValueError(
                f"y, column {name!r}, has {known} observed values, but needs at least "
                f"{MINIMUM_ROWS}. Drop this output."
            )
        if not observation.normal and not observation.labelled:
            observation.read(column[~np.isnan(column)])
    if scaling is None and scale and (observation.scaled or observation.exposed):
        each = []
        for name, column in zip(names, values.T, strict=True):
            seen = ~np.isnan(column)
            if observation.scaled:
                each.append(response_scaling(Moments.of(column[seen]), f"y, column {name!r},"))
            else:
                exposed = None if exposure is None else exposure[seen]
                each.append(Scaling(observation.center(column[seen], exposed), 1.0))
        scaling = Scaling(np.array([s.center for s in each]), np.array([s.scale for s in each]))
    elif scaling is None:
        scaling = Scaling(np.zeros(len(names)), np.ones(len(names)))
    return Outputs(names, values, scaling, frame.index), labels
