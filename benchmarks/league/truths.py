"""Data sets whose every explanation is known: random functions of four columns and a treatment.

A data set has columns a, b, c and d, which are standard normal, and the treatment t of 0 or 1. Each
run draws other functions: sines, sigmoids, parabolas and lines, none of which comes from the prior
of a Gaussian process. All truths are averages or differences of the function over given rows, or
its derivatives by central differences.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from math import factorial

import numpy as np
import pandas as pd
from scipy.special import expit

ROWS, FEW = 120, 25
NAMES = list("abcd")
COLUMNS = [*NAMES, "t"]
STEP = 1e-5
"""Of central differences."""

BACKGROUND = 40
"""Rows that effect curves and Shapley values of peers average over."""

WELL_SPECIFIED = (
    "additive",
    "interactions",
    "null features",
    "correlated features",
    "classes",
    "counts",
    "few rows",
)
MISSPECIFIED = ("rough", "heteroscedastic", "outliers", "skewed noise", "shifted rows")
TRUTHS = WELL_SPECIFIED + MISSPECIFIED
FAMILIES = {"classes": "bernoulli", "counts": "poisson"}
MEANS: dict[str, Callable] = {"normal": np.asarray, "bernoulli": expit, "poisson": np.exp}


@dataclass
class Data:
    """Rows to fit, other rows to explain, and the function behind both."""

    X: pd.DataFrame
    y: np.ndarray
    new: pd.DataFrame
    f: Callable
    family: str

    @property
    def baseline(self):
        """The row that attributions start from: means, without the treatment."""
        return self.X.mean().to_frame().T.assign(t=0.0)

    @property
    def background(self):
        """Rows that effect curves and Shapley values of peers average over."""
        return self.X.iloc[:BACKGROUND]

    @property
    def grid(self):
        """Seven values (feature, step) from the least to the greatest of each column but t."""
        return np.linspace(self.background[NAMES].min(), self.background[NAMES].max(), 7).T

    def mean(self, x):
        """The mean response."""
        return MEANS[self.family](self.f(x))


def curve(rng):
    """A random smooth function of one column, of sd near 1."""
    kind, sign = rng.integers(4), rng.choice([-1, 1])
    w, c = rng.uniform(0.8, 2), rng.normal() / 2
    return [
        lambda x: 1.4 * sign * np.sin(w * x + c),
        lambda x: 1.3 * sign * np.tanh(w * (x - c)),
        lambda x: sign * ((x - c) ** 2 - 1) / 1.5,
        lambda x: sign * x,
    ][kind]


def kinked(rng):
    """A random polygon with a corner every third of a standard deviation."""
    corners = np.arange(-5, 5, 1 / 3)
    heights = np.cumsum(rng.normal(size=len(corners)))
    return lambda x: np.interp(x, corners, heights - heights.mean())


def made(truth, run):
    """The data set of a run."""
    rng = np.random.default_rng([TRUTHS.index(truth), run])
    n = FEW if truth == "few rows" else ROWS
    rho = 0.8 if truth == "correlated features" else 0.0
    covariance = np.full((4, 4), rho) + (1 - rho) * np.eye(4)

    def rows(count, shift=0.0):
        x = rng.multivariate_normal(np.full(4, shift), covariance, count)
        chosen = expit(x[:, 0]) if truth == "correlated features" else np.full(count, 0.5)
        return pd.DataFrame(np.column_stack([x, rng.uniform(size=count) < chosen]), columns=COLUMNS)

    parts = [kinked(rng) if truth == "rough" else curve(rng) for _ in NAMES]
    sizes = rng.uniform(0.5, 1.5, 4) * (np.arange(4) == 0 if truth == "null features" else 1)
    effect, product = rng.choice([-1, 1]) * rng.uniform(0.5, 1.5), curve(rng)
    interacting = truth in ("interactions", "classes")

    def raw(x):
        total = sum(s * g(x[:, j]) for j, (s, g) in enumerate(zip(sizes, parts, strict=True)))
        if interacting:
            return total + x[:, 0] * product(x[:, 1]) + effect * (1 + x[:, 2]) * x[:, 4]
        return total + effect * x[:, 4]

    probe = rows(5000).to_numpy()
    family = FAMILIES.get(truth, "normal")
    level, sd = {"normal": (0.0, 1.0), "bernoulli": (0.0, 2.0), "poisson": (1.0, 0.7)}[family]
    center, scale = raw(probe).mean(), raw(probe).std() / sd

    def f(x):
        return level + (raw(np.asarray(x, float)) - center) / scale

    X = rows(n)
    new = rows(10, 1.5 if truth == "shifted rows" else 0.0)
    return Data(X, respond(truth, X.to_numpy(), f, family, rng), new, f, family)


def respond(truth, x, f, family, rng):
    """Responses of rows; the noise of normal ones has half the sd of f."""
    if family == "bernoulli":
        return (rng.uniform(size=len(x)) < expit(f(x))).astype(float)
    if family == "poisson":
        return rng.poisson(np.exp(f(x))).astype(float)
    noise = rng.normal(size=len(x))
    if truth == "heteroscedastic":
        noise *= np.exp(0.8 * x[:, 0] - 0.64)  # the mean square is 1
    if truth == "outliers":
        noise *= np.where(rng.uniform(size=len(x)) < 0.05, 10, 1)
    if truth == "skewed noise":
        noise = (rng.exponential(size=len(x)) ** 1.5 - 1.3293) / 2.0577
    return f(x) + 0.5 * noise


def gradient(g, x):
    """Derivatives (row, feature) of g at rows, also by the treatment."""
    steps = STEP * np.eye(x.shape[1])
    return np.stack([(g(x + h) - g(x - h)) / (2 * STEP) for h in steps], axis=1)


def effect_curves(g, rows, data):
    """Average of g over rows, (feature, step), with a column at each value of the grid."""
    x = rows.to_numpy()
    found = np.empty(data.grid.shape)
    for j, values in enumerate(data.grid):
        for k, value in enumerate(values):
            moved = x.copy()
            moved[:, j] = value
            found[j, k] = g(moved).mean()
    return found


def centered_curves(g, data):
    """`effect_curves` less their averages over the training rows."""
    x = data.X.to_numpy()
    found = effect_curves(g, data.X, data)
    for j in range(len(NAMES)):
        moved = np.repeat(x[None], len(x), axis=0)
        moved[:, :, j] = x[:, None, j]
        found[j] -= g(moved.reshape(-1, x.shape[1])).mean()
    return found


def integrated_gradients(g, data):
    """Attributions (row, feature) of the new rows relative to the baseline."""
    x, start = data.new.to_numpy(), data.baseline.to_numpy()
    t, w = np.polynomial.legendre.leggauss(400)
    points = start + (t[:, None, None] + 1) / 2 * (x - start)
    slopes = gradient(g, points.reshape(-1, x.shape[1])).reshape(points.shape)
    return (x - start) * np.einsum("q,qnd->nd", w / 2, slopes)


def shapley(g, data, background):
    """Shapley values (row, feature) of the new rows, averaged over background rows."""
    x, starts = data.new.to_numpy(), background.to_numpy()
    n, d = x.shape
    found = np.zeros((n, d))

    def value(moved):
        rows = np.repeat(starts[None], n, axis=0)
        rows[:, :, moved] = x[:, None, moved]
        return g(rows.reshape(-1, d)).reshape(n, -1).mean(axis=1)

    known = {s: value(list(s)) for k in range(d + 1) for s in combinations(range(d), k)}
    for j in range(d):
        for others, before in known.items():
            if j in others:
                continue
            size = len(others)
            weight = factorial(size) * factorial(d - size - 1) / factorial(d)
            found[:, j] += weight * (known[tuple(sorted((*others, j)))] - before)
    return found


def treated_effects(g, rows):
    """Differences of g between t = 1 and t = 0."""
    x = rows.to_numpy()
    with_t, without = x.copy(), x.copy()
    with_t[:, -1], without[:, -1] = 1, 0
    return g(with_t) - g(without)


def own_curves(g, data):
    """Mean absolute value of each centered curve at the training rows' own values."""
    x, found = data.X.to_numpy(), []
    for j in range(len(NAMES)):
        moved = np.repeat(x[None], len(x), axis=0)
        moved[:, :, j] = x[:, None, j]
        values = g(moved.reshape(-1, x.shape[1])).reshape(len(x), -1).mean(axis=1)
        found.append(np.abs(values - values.mean()).mean())
    return np.array(found)
