"""What can be asked of a Gaussian process: descriptions of linear operators, no mathematics.

An operator names points and says what is wanted there. Operators add, scale and stack:
``evaluate(X) + -1.0 * evaluate(B)`` is a difference, ``stack(evaluate(X), weight(X))`` asks
for both jointly. Processes know the covariances (`bayes_gpx.processes`).
"""

from dataclasses import dataclass
from typing import Any

import pytensor.tensor as pt


class Operator:
    """A linear map from a Gaussian process to finitely many numbers."""

    def __add__(self, other):
        return Sum((self, other))

    def __rmul__(self, factor):
        return Scaled(factor, self)


@dataclass(frozen=True, eq=False)
class AtPoints(Operator):
    """One group of components at each of m points; see `evaluate`, `weight`, `contribution`.

    Attributes
    ----------
    kind : {"evaluate", "weight", "contribution"}
    X : array or tensor (m, d)
    Z : array or tensor (m, p) or None
    sample : "new" or integer tensor (m,)
        Which samples these are. Samples carry their own noise `eps_w`: integers are
        positions in the training set; "new" ones share noise only with operators over the
        very same `X` object. Identity decides, never the equality of coordinates.
    smooth : bool
        Leave the samples' own noise `eps_w` out.
    """

    kind: str
    X: Any
    Z: Any = None
    sample: Any = "new"
    smooth: bool = False


@dataclass(frozen=True, eq=False)
class Sum(Operator):
    """The sum of operators that have the same number of components."""

    terms: tuple


@dataclass(frozen=True, eq=False)
class Scaled(Operator):
    """A multiple of an operator; `factor` is a number or a scalar tensor."""

    factor: Any
    operator: Operator


@dataclass(frozen=True, eq=False)
class Stack(Operator):
    """Operators one after the other, in one vector."""

    parts: tuple


def stack(*operators):
    """Ask for several operators jointly, in this order."""
    return Stack(operators)


def evaluate(X, Z=None, *, sample="new", smooth=False):
    """Value f(x) at each row of X (m, d); for a weight process z' w(x), with Z (m, p)."""
    return AtPoints("evaluate", X, Z, _identity(sample, X), smooth)


def weight(X, *, sample="new", smooth=False):
    """Weights w_1(x), ..., w_p(x) at each row of X; components obs-major, feature-minor."""
    return AtPoints("weight", X, None, _identity(sample, X), smooth)


def contribution(X, Z, *, sample="new", smooth=False):
    """Contributions z_l w_l(x) at each row of X and Z; they sum to `evaluate(X, Z)`."""
    return AtPoints("contribution", X, Z, _identity(sample, X), smooth)


def _identity(sample, X):
    """Turn "train" (row i is training sample i) into positions."""
    if not isinstance(sample, str):
        return sample
    if sample == "train":
        return pt.arange(X.shape[0])
    if sample == "new":
        return sample
    raise ValueError(
        f"sample is {sample!r}; expected 'new', 'train' or the positions of training samples."
    )
