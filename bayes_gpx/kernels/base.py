"""Covariance functions: values and exact derivatives, as a tree of frozen kernels."""

# They are symbolic expressions in the hyperparameters of a PyMC model
# (`bayes_gpx.kernels.from_pymc`), and k(x, x') is computed in two ways. Matrices of values (`gram`,
# `value`) come from inner products (`bayes_gpx.kernels.distance`), without an array that has both
# point axes and the feature axis. All else (`diag`, `derivative`) comes from differences x - x',
# exact at coincident points and far from the origin. PyMC's clipped squared distance is never
# differentiated.
# Derivatives are asked for by `slots`: one entry for each derivative, 0 for x and 1 for x', zeros
# first. Each slot adds an axis (d,) to the result.

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import NamedTuple, cast

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.replace import vectorize_graph

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.kernels.tensor_products import Slots, TensorProduct, summed

HIGHEST_ORDER = 2
"""Kernels are differentiated at most twice in each point: for Hessians, the highest asked for."""

CURES = {1: ("gradient", "Matern32"), 2: ("Hessian", "Matern52 or ExpQuad")}
"""By the order of a derivative: the derivative's name, and kernels that are smooth enough."""


class Pairs(NamedTuple):
    """Points x and xs (..., d) in pairs by broadcasting; with `matrix`, each row with each row."""

    x: Tensor
    xs: Tensor
    matrix: bool = False

    @classmethod
    def of(cls, x: TensorLike, xs: TensorLike, matrix: bool = False) -> "Pairs":
        """Points as tensors."""
        first = pt.as_tensor_variable(x)
        return cls(first, first if xs is x else pt.as_tensor_variable(xs), matrix)

    def map(self, function: Callable) -> "Pairs":
        """The pairs of a function of the points; points that are one object stay so."""
        x = function(self.x)
        return Pairs(x, x if self.xs is self.x else function(self.xs), self.matrix)


class Kernel(ABC):
    """Covariance function k(x, x') of a scalar Gaussian process over points with d features."""

    @property
    def smoothness(self) -> float:
        """How many times the process is mean-square differentiable: 0, 1, 2 or math.inf."""
        parts = (part for part in vars(self).values() if isinstance(part, Kernel))
        return min((part.smoothness for part in parts), default=math.inf)

    def gram(self, X: Tensor) -> Tensor:
        """Covariance (n, n) of the points X (n, d) with themselves, exact on the diagonal."""
        return self.value(X, X)

    def value(self, X: Tensor, Xs: Tensor) -> Tensor:
        """Covariance (n, m) of the points X (n, d) with the points Xs (m, d)."""
        value = cast(Tensor, self._jet(Pairs.of(X, Xs, matrix=True), ()))  # values are not None
        return value if value.ndim else pt.full((X.shape[0], Xs.shape[0]), value)

    def diag(self, X: Tensor) -> Tensor:
        """Variance (n,) at the points X (n, d)."""
        return self.derivative(X, X, 0, 0)

    def derivative(self, x: TensorLike, xs: TensorLike, i: int, j: int) -> Tensor:
        """d^i/dx^i d^j/dx'^j k(x, x') of paired points (..., d): (..., d repeated i + j times)."""
        # Built from differences. The orders i and j are at most 2; (0, 0) is the value. Axes of x
        # come first, in units of k per unit of each feature.
        order = i + j
        if max(i, j) > HIGHEST_ORDER:
            raise ValueError(
                f"Kernels are differentiated {HIGHEST_ORDER} times in each point, not {i} and {j}."
            )
        pairs = Pairs.of(x, xs)
        jet = self._jet(pairs, (0,) * i + (1,) * j)
        *batch, d = pt.add(pairs.x, pairs.xs).broadcastable
        if jet is not None and jet.broadcastable == (*batch, *[d] * order):
            return jet
        *batch, d = pt.broadcast_shape(pairs.x, pairs.xs)
        return pt.broadcast_to(0.0 if jet is None else jet, (*batch, *[d] * order))

    def summed(self, x: Tensor, xs: Tensor, weights: Tensor, slots: Slots) -> Tensor:
        """Sum over n of weights (m | 1, n) times derivatives of k(x_m, xs_n), (m, d, ...)."""
        # One or two slots. Most kernels use matrix products, not an array of all derivatives.
        terms = self._terms(Pairs(x[:, None], xs[None]), slots)
        shape = (x.shape[0], *[x.shape[1]] * len(slots))
        total = reduce(add, (summed(term, weights) for term in terms), pt.zeros(()))
        return pt.broadcast_to(total, shape)

    @abstractmethod
    def _jet(self, pairs: Pairs, slots: Slots) -> Tensor | None:
        """Derivative (..., d repeated) in these slots, perhaps still to be broadcast; None is 0."""

    def _terms(self, pairs: Pairs, slots: Slots) -> list[TensorProduct]:
        """The terms of `_jet`, see `bayes_gpx.kernels.tensor_products`."""
        jet = self._jet(pairs, slots)
        return [] if jet is None else [[(jet, tuple(range(len(slots))))]]

    def _require(self, slots: Slots, once: bool = False) -> None:
        """Raise unless the process has these derivatives or, with `once`, k itself has them."""
        order = max(slots.count(0), slots.count(1))
        if order > self.smoothness and not (once and len(slots) <= 2 * self.smoothness):
            noun, cure = CURES[order]
            note = ", by finite differences (take (x - xs)**2, not square_dist)"
            note = note if getattr(self, "measured", False) else ""
            raise ValueError(
                f"{name_of(self)} has no {noun}: its process is differentiable {self.smoothness} "
                f"times{note}. Use {cure}, for example."
            )


def name_of(kernel: Kernel) -> str:
    """What messages call a kernel."""
    return getattr(kernel, "name", type(kernel).__name__)


def autodiff(
    function: Callable, points: Sequence[Tensor], slots: Slots, shape: tuple[int, ...] = ()
) -> Tensor:
    """Derivative in slots of a function of single points, with values of this shape."""
    # Vectorized over batches of points; also over the rows of each Jacobian, one gradient for all.
    cells = [pt.tensor(shape=point.type.shape[-1:]) for point in points]
    result = function(*cells)
    for slot in slots:
        probe, identity = pt.tensor(shape=shape), np.eye(math.prod(shape)).reshape(shape * 2)
        row = pt.grad((probe * result).sum(), cells[slot], disconnected_inputs="ignore")
        result = vectorize_graph(cast(Tensor, row), {probe: pt.constant(identity)})
        shape += cells[slot].type.shape
    return vectorize_graph(result, dict(zip(cells, points, strict=True)))
