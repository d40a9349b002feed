"""What can be asked of a Gaussian process: descriptions of linear operators, no mathematics.

An operator names points and says what is wanted there. Operators add, scale and stack:
``evaluate(X) + -1.0 * evaluate(B)`` is a difference, ``stack(evaluate(X), weight(X))`` asks
for both jointly. Processes know the covariances (`bayes_gpx.processes.gaussian_process`).
"""

from dataclasses import dataclass
from typing import Any

import pytensor.tensor as pt

from bayes_gpx.numerics.quadrature import rule


class Operator:
    """A linear map from a Gaussian process to finitely many numbers."""

    def __add__(self, other):
        return Sum((self, other))

    def __rmul__(self, factor):
        return Scaled(factor, self)


@dataclass(frozen=True, eq=False)
class AtPoints(Operator):
    """One group of components at each of m points; see the functions below.

    Attributes
    ----------
    kind : str
        The name of one of those functions.
    X : array or tensor (m, d)
    Z : array or tensor (m, p) or None
    sample : "new" or integer tensor (m,)
        Which samples these are. Samples carry their own noise `eps_w`: integers are
        positions in the training set; "new" ones share noise only with operators over the
        very same `X` object. Identity decides, never the equality of coordinates.
    smooth : bool
        Leave the samples' own noise `eps_w` out.
    baseline : array or tensor (d,) or (B, d)
        Where the paths of an integrated gradient start; several are averaged over.
    nodes : Rule or None
        Quadrature along them; None for the most exact form known.
    tied : bool
        Z is X, perhaps with a last column of ones, and moves with it.
    """

    kind: str
    X: Any
    Z: Any = None
    sample: Any = "new"
    smooth: bool = False
    baseline: Any = None
    nodes: Any = None
    tied: bool = False


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


def gradient(X, Z=None, *, tied=False):
    """Derivatives df/dx_1, ..., df/dx_d at each row of X; of the smooth part z' g(x) in GPX.

    Parameters
    ----------
    X : array or tensor (m, d)
    Z : array or tensor (m, p), optional
        Features of a weight process, held while x varies.
    tied : bool
        Z is X, perhaps with a last column of ones, and varies with it.
    """
    return AtPoints("gradient", X, Z, smooth=True, tied=tied)


def hessian(X, Z=None, *, tied=False):
    """Second derivatives d^2 f / dx_i dx_j, (i, j) row-major, at each row of X; see `gradient`."""
    return AtPoints("hessian", X, Z, smooth=True, tied=tied)


def integrated_gradient(X, baseline, Z=None, *, method="exact", steps=None, tied=False):
    """Attributions of f(x) - f(baseline) to the features, at each row of X; see `gradient`.

    Of several baselines, the average: expected gradients. Covariances between attributions at
    different points are then integrated with 16 nodes for each path.

    Parameters
    ----------
    baseline : array or tensor (d,) or (B, d)
    method : {"exact", "gauss_legendre", "right", "trapezoid", "simpson"}
        "exact" is a closed form or a rule that follows the kernel's shape; the others are
        quadratures with `steps` steps, or nodes.
    """
    nodes = None if method == "exact" else rule(method, steps)
    return AtPoints(
        "integrated_gradient", X, Z, smooth=True, baseline=baseline, nodes=nodes, tied=tied
    )


def difference(X, baseline, Z=None, *, tied=False):
    """f(x) less the mean of f(baseline) at each row of X, the sum of `integrated_gradient`."""
    return AtPoints("difference", X, Z, smooth=True, baseline=baseline, tied=tied)


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
