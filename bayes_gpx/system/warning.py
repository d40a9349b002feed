"""Warnings that name the user's line, however deep in the package their cause is found."""

import warnings
from pathlib import Path

PACKAGE = str(Path(__file__).parents[1])


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn where this package was called."""
    warnings.warn(message, category, stacklevel=2, skip_file_prefixes=(PACKAGE,))
