"""Real data by name, with units and source."""

from typing import NamedTuple

import pandas as pd

from bayes_gpx.specification import one_of


class Data(NamedTuple):
    """A regression data set."""

    X: pd.DataFrame
    """Features (n, d)."""
    y: pd.Series
    """Response (n,), named."""
    units: dict
    """Unit of each column and of the response; "" where the source gives none."""
    source: str
    """Where it comes from and how to cite it."""


def _diabetes():
    try:
        from sklearn.datasets import load_diabetes
    except ImportError as missing:
        raise ImportError(
            "The diabetes data come with scikit-learn: pip install 'bayes_gpx[data]'."
        ) from missing
    bunch = load_diabetes(as_frame=True, scaled=False)
    named = {
        "age": ("age", "years"),
        "sex": ("sex", "coded 1, 2"),
        "bmi": ("bmi", "kg/m²"),
        "bp": ("blood_pressure", "mm Hg"),
        "s1": ("total_cholesterol", "mg/dl"),
        "s2": ("ldl", "mg/dl"),
        "s3": ("hdl", "mg/dl"),
        "s4": ("cholesterol_hdl_ratio", ""),
        "s5": ("log_triglycerides", "log(mg/dl)"),
        "s6": ("glucose", "mg/dl"),
    }
    X = bunch.data.rename(columns={old: new for old, (new, _) in named.items()})
    y = bunch.target.rename("progression")
    units = dict(named.values()) | {"progression": "score after one year"}
    source = (
        "B. Efron, T. Hastie, I. Johnstone, R. Tibshirani, Least Angle Regression, Annals of "
        "Statistics 32 (2004) 407-499; 442 patients, as shipped with scikit-learn."
    )
    return Data(X, y, units, source)


LOADERS = {"diabetes": _diabetes}


def load(name):
    """Load a data set.

    Parameters
    ----------
    name : {"diabetes"}

    Returns
    -------
    Data
        `X` (frame), `y` (series), `units` (dict) and `source`.

    Raises
    ------
    ValueError
        For an unknown name.
    ImportError
        If the library that ships the data is not installed.
    """
    one_of("name", name, LOADERS)
    return LOADERS[name]()
