"""The log density of y from sufficient statistics: Gaussian likelihood, fixed basis functions.

y is N(0, G S^2 G' + v I), with a design G (n, M) independent of hyperparameters and a diagonal S.
The density then needs only G'G, G'y and y'y, and costs O(M^3) for any n. If y is nearly a
combination of G's columns, y'y less the explained part has few digits left, and the sums are taken
over residuals r = y - G b of some coefficients b. With more functions than rows, round-off
of G'G still loses digits there.

References
----------
Solin and Sarkka, "Hilbert space methods for reduced-rank Gaussian process regression" (2020),
section 3.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.posteriors.evidence.factors import factor, inverse, solve


class Sums(NamedTuple):
    """Sums over rows of a design G (n, M) and a response y (n,)."""

    gram: TensorLike  # (M, M), G'G
    cross: TensorLike  # (M,), G'r
    square: TensorLike  # r'r
    n: TensorLike  # number of rows, a float
    start: TensorLike  # (M,), b


def sums_logp_and_slopes(
    scales: np.ndarray,
    variance: float,
    gram: np.ndarray,
    cross: np.ndarray,
    square: float,
    n: float,
    start: np.ndarray,
) -> tuple[float, np.ndarray, float]:
    """Return log p(y) with its derivatives in `scales` (M,) and `variance` ().

    If round-off leaves no factor, the log density is -inf and the slopes are zero.
    """
    weigh = scales / np.sqrt(variance)
    there, upper = factor(gram, weigh)
    if not there:
        return -np.inf, np.zeros(len(scales)), 0.0
    diagonal = np.diag(upper).copy()
    # Steps from b, the second of which removes the round-off of the first. Nothing is subtracted
    # from y'y: the coefficients minimize `squares`, which their own round-off hardly changes.
    coefficients, pull = np.zeros(len(scales)), cross + np.dot(gram, start)
    for _ in range(2):
        step = weigh * pull / np.sqrt(variance) - coefficients
        coefficients = coefficients + solve(upper, step)
        apart = start - scales * coefficients
        beyond = np.dot(gram, apart)
        pull = cross + beyond
    residual = square + 2.0 * np.sum(apart * cross) + np.sum(apart * beyond)
    squares = residual / variance + np.sum(coefficients**2)
    logp = -0.5 * (n * np.log(2 * np.pi * variance) + squares) - np.log(diagonal).sum()
    precision, left = inverse(upper)
    in_scales = (coefficients * pull - np.dot(precision * gram, scales)) / variance
    used = len(scales) - left.sum()
    in_variance = 0.5 * (residual / variance - n + used) / variance
    return logp, in_scales, in_variance


class SumsEvidence(Op):
    """(scales, variance, *`Sums`) -> log p(y), its slopes in the first two.

    If there is no factor the log density is -inf and the slopes are zero. Only the first output is
    differentiable, in scales and variance.
    """

    __props__ = ()
    by_sums = True

    def make_node(self, *inputs: Any) -> Apply:  # noqa: D102
        known = [pt.as_tensor_variable(v) for v in inputs]
        return Apply(self, known, [pt.dscalar(), pt.dvector(), pt.dscalar()])

    def perform(self, node: Apply, inputs: Sequence, output_storage: Sequence[list]) -> None:  # noqa: D102
        known: Any = [np.asarray(v, "float64") for v in inputs]
        found = sums_logp_and_slopes(*known)
        for storage, value in zip(output_storage, found, strict=True):
            storage[0] = np.asarray(value)

    def pullback(self, inputs: Sequence, outputs: Sequence, cotangents: Sequence) -> list:  # noqa: D102
        weight = cotangents[0]
        constant = [DisconnectedType()() for _ in inputs[2:]]
        return [weight * outputs[1], weight * outputs[2], *constant]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:  # noqa: D102
        return [[place < 2] * 3 for place in range(len(node.inputs))]

    def infer_shape(self, node: Apply, shapes: Sequence[tuple]) -> list[tuple]:  # noqa: D102
        return [(), shapes[0], ()]


def sums_logp(sums: Sums, scales: Tensor, variance: TensorLike) -> Tensor:
    """Log N(y | 0, G S^2 G' + v I), from sums: `scales` (M,) is S's diagonal, `variance` is v."""
    logp, *_ = SumsEvidence().make_node(scales, variance, *sums).outputs
    return cast(Tensor, logp)
