"""Data sets that scikit-learn can fetch from OpenML, compared with the values verified here."""

import hashlib
import warnings
from typing import NamedTuple

import pandas as pd


class Remote(NamedTuple):
    """A data set on OpenML."""

    data_id: int  # its number there
    columns: tuple  # this package's names of its columns, the response last
    sha256: str  # checksum of the values, see `digest`
    rows: slice = slice(None)  # rows to take
    labels: tuple | None = None  # values of the response to keep; None for all


REMOTE = {
    "boston": Remote(
        531,
        ("crim", "zn", "indus", "chas", "nox", "rm", "age", "dis", "rad", "tax", "ptratio")
        + ("black", "lstat", "medv"),
        "47fba745b3e9f2e4b48a6068a68d175c0eb16b6ed3d73a480034c6c7310c6128",
    ),
    "abalone": Remote(
        183,
        ("sex", "length", "diameter", "height", "whole_weight", "shucked_weight")
        + ("viscera_weight", "shell_weight", "rings"),
        "514e40ba8add63bcb0d1b0579bfd6fa5fba4d243b0f98a0280e3973726ba7585",
    ),
    "wine": Remote(
        40691,
        ("fixed_acidity", "volatile_acidity", "citric_acid", "residual_sugar", "chlorides")
        + ("free_sulfur_dioxide", "total_sulfur_dioxide", "density", "pH", "sulphates")
        + ("alcohol", "quality"),
        "65e91c41558aebcc94d9641d73ee022e3b638328838fdaa8ea21413c1de105fd",
    ),
    "mnist01": Remote(
        554,
        (*(f"p{row}_{column}" for row in range(28) for column in range(28)), "label"),
        "e02f5d9a616e42070a213b23e58ea2d0218e16bc32296c50301359632046cf67",
        slice(60_000, None),
        (0, 1),
    ),
}


def fetch(name: str) -> pd.DataFrame:
    """Fetch a data set of `REMOTE`: rows and columns as in the source, the response last."""
    # ImportError without scikit-learn, OSError if OpenML is unreachable, ValueError for other data.
    from sklearn.datasets import fetch_openml

    remote = REMOTE[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a failure is told by its error
        frame = fetch_openml(data_id=remote.data_id, as_frame=True, n_retries=1).frame
    frame = frame.iloc[remote.rows]
    if frame.shape[1] == len(remote.columns):
        frame = frame.set_axis(remote.columns, axis=1).apply(_plain)
        if remote.labels is not None:
            frame = frame[frame[remote.columns[-1]].isin(remote.labels)]
        frame = frame.reset_index(drop=True)
        if digest(frame) == remote.sha256:
            return frame
    raise ValueError(
        f"OpenML's data set {remote.data_id} holds other values than the {name} data that were "
        "verified for this package."
    )


def digest(frame: pd.DataFrame) -> str:
    """SHA-256 of a frame's values, for any names of its columns."""
    text = frame.apply(_plain).to_csv(index=False, header=False, lineterminator="\n")
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(column: pd.Series) -> pd.Series:
    """Numbers as floats, whatever they were stored as; words as they are."""
    try:
        return column.astype(float)
    except ValueError:
        return column.astype(str)
