"""Warnings that name the user's line, however deep in the package their cause is found."""

import warnings
from pathlib import Path

PACKAGE = str(Path(__file__).parents[1])


class ExtrapolationWarning(UserWarning):
    """Rows to predict or explain leave the training data.

    A verb gives it once for each call, where one of the rows of X_new or Z_new lies outside of a
    column's range in the training data by more than `bayes_gpx.draws.points.MARGIN` of it. It then
    counts all rows that lie outside, by however little. Filter it where you extrapolate on purpose:
    ``warnings.simplefilter("ignore", bx.ExtrapolationWarning)``.
    """


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn where this package was called."""
    warnings.warn(message, category, stacklevel=2, skip_file_prefixes=(PACKAGE,))
