"""Warnings that name the user's line, not a line of the package."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

PACKAGE = str(Path(__file__).parents[1])

_COLLECTED: ContextVar[tuple[list[str], ...]] = ContextVar("_COLLECTED", default=())


class ExtrapolationWarning(UserWarning):
    """Rows to predict or explain leave the training data.

    Each explanation function gives it once for each call, if a row of X_new or Z_new lies outside a
    column's range in the training data by more than 0.3 of the range. It gives it too if, of five
    or more rows, more than half lie outside of the range, as in a forecast, or more than a tenth by
    more than a tenth of it. It counts all rows outside. Filter it where you extrapolate on
    purpose:
    ``warnings.simplefilter("ignore", bx.ExtrapolationWarning)``.
    """


class FitWarning(UserWarning):
    """Warn of a fit with problems, such as a noise of 0, and suggest fixes.

    ``model.fit`` gives it once, with all findings. The attribute `examination` of the fit contains
    the same text, and so do the command line and the report.
    """


class PosteriorPredictiveWarning(UserWarning):
    """PyMC is about to draw responses from functions that have not seen the data.

    ``pm.sample_posterior_predictive`` gives it for ``model.pymc``, where the function is integrated
    out or its sampled values are not in the fit. Use `bayes_gpx.sample_posterior_predictive`.
    """


def warn(
    message: str, category: type[Warning] = UserWarning, *, through: tuple[str, ...] = ()
) -> None:
    """Warn at the caller of this package, or of the packages in the folders `through`."""
    for texts in _COLLECTED.get():
        texts.append(f"{category.__name__}: {message}")
    warnings.warn(message, category, stacklevel=2, skip_file_prefixes=(PACKAGE, *through))


@contextmanager
def collected() -> Iterator[list[str]]:
    """Collect the warnings that this package gives within the context, even if filtered out."""
    # Those of other threads and processes are not collected.
    texts: list[str] = []
    token = _COLLECTED.set((*_COLLECTED.get(), texts))
    try:
        yield texts
    finally:
        _COLLECTED.reset(token)
