"""One erratum with its numbers, and helpers shared by several papers."""

from dataclasses import dataclass

import numpy as np
from numpy.linalg import solve

TOLERANCE = 1e-6
"""Tolerance of relative differences; finite differences are accurate to about 1e-8 here."""

MISSED = 1e-3
"""A printed formula counts as wrong if its relative error exceeds this value."""


@dataclass(frozen=True)
class Case:
    """One row of a table; a printed formula may give a complex number."""

    equation: str
    quantity: str
    printed: complex
    corrected: float
    independent: float
    by: str

    def __post_init__(self):
        size = max(abs(self.independent), 1e-12)
        if abs(self.corrected - self.independent) > TOLERANCE * size:
            raise AssertionError(f"The corrected form is off: {self}")
        if abs(self.printed - self.independent) < MISSED * size:
            raise AssertionError(f"The printed form is right: {self}")


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper, and the paper's own numbers that contradict it."""

    place: str
    sentence: str
    numbers: str
    contradicted: bool

    def __post_init__(self):
        if not self.contradicted:
            raise AssertionError(f"The numbers bear the sentence out: {self}")


def expquad(X, Xs):
    """Squared exponential with lengthscale 1 and amplitude 1."""
    return np.exp(-0.5 * ((X[:, None] - Xs[None]) ** 2).sum(-1))


def slope(function, x, axis=0, step=1e-5):
    """Central difference along one axis."""
    e = step * np.eye(len(x))[axis]
    return (function(x + e) - function(x - e)) / (2 * step)


def given(cov, asked, known):
    """Conditional covariance of some variables given others, from the joint covariance."""
    gain = solve(cov[np.ix_(known, known)], cov[np.ix_(known, asked)])
    return cov[np.ix_(asked, asked)] - cov[np.ix_(asked, known)] @ gain
