"""Equation 19 of Yoshikawa and Iwata under every reading that its text allows.

A reading fixes the inputs and the distance of the ball, the standardization of weights, the
features z in the denominator, and the value of a row without neighbors.
"""

from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

RADIUS, NEAREST = 0.05, 10
SCALES = ("standardised", "min-max", "raw")
"""Scales of inputs and of features z."""

BALLS = {
    "|x - x'| / m": lambda apart, m: apart / m,
    "|x - x'| / sqrt(m)": lambda apart, m: apart / np.sqrt(m),
    "|x - x'|^2 / m": lambda apart, m: apart**2 / m,
}
"""Distances that are compared with the radius; the first is printed."""

EVERYONE, TEN = "all others", f"{NEAREST} nearest"
EMPTY = ("left out", "0")
"""Value of a row without neighbors."""


def by_feature(w):
    return _standardised(w, axis=0)


def by_row(w):
    return _standardised(w, axis=1)


def together(w):
    return _standardised(w, axis=None)


def as_they_are(w):
    return w


WEIGHTS = {
    "by feature": by_feature,
    "together": together,
    "by row": by_row,
    "not": as_they_are,
}
"""Standardizations of weights."""


class Reading(NamedTuple):
    ball: str
    inputs: str
    empty: str
    weights: str
    z: str


PRINTED = Reading("|x - x'| / m", "standardised", "left out", "by feature", "standardised")

READINGS = [
    Reading(*one)
    for one in [
        *product(BALLS, SCALES, EMPTY, WEIGHTS, SCALES),
        *product((EVERYONE, TEN), SCALES[:1], EMPTY[:1], WEIGHTS, SCALES),
    ]
]


def stabilities(test, spread, weights):
    """Yield each reading, the proportion of rows with a neighbor, and equation 19's mean by method.

    `test` is standardized, `spread` (m,) is the divisor of X, and `weights` maps methods to arrays
    (rows, p). The mean is NaN if no row has a neighbor.
    """
    same = test.Z is test.X
    inputs = {name: _apart(_scaled(test.X, spread, name)) for name in SCALES}
    features = inputs if same else dict.fromkeys(SCALES, _apart(test.Z))
    changes = {
        (kind, method): _apart(how(w))
        for kind, how in WEIGHTS.items()
        for method, w in weights.items()
    }
    for reading in READINGS:
        divisor = features[reading.z]
        pairs = _neighbours(reading, inputs[reading.inputs], test.X.shape[1]) & (divisor > 0)
        found = pairs.any(axis=1)
        quotient = np.divide(1.0, divisor, out=np.zeros_like(divisor), where=pairs)
        means = {}
        for method in weights:
            largest = (changes[reading.weights, method] * quotient).max(axis=1)
            counted = largest if reading.empty == "0" else largest[found]
            means[method] = counted.mean() if found.any() else np.nan
        yield reading, found.mean(), means


def _neighbours(reading, apart, m):
    others = ~np.eye(len(apart), dtype=bool)
    if reading.ball == EVERYONE:
        return others
    if reading.ball == TEN:
        place = np.argsort(np.argsort(np.where(others, apart, np.inf), axis=1), axis=1)
        return others & (place < NEAREST)
    return others & (BALLS[reading.ball](apart, m) < RADIUS)


def _scaled(X, spread, name):
    if name == "raw":
        return X * spread
    if name == "min-max":
        reach = np.ptp(X, axis=0)
        return X / np.where(reach > 0, reach, 1.0)
    return X


def _standardised(w, axis):
    spread = w.std(axis=axis, keepdims=True)
    return (w - w.mean(axis=axis, keepdims=True)) / np.where(spread > 0, spread, 1.0)


def _apart(rows):
    return cdist(rows, rows)
