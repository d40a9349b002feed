"""Processes of several outputs: linear combinations of independent processes, one for each."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from bayes_gpx.aliases import Tensor
from bayes_gpx.processes.base import KernelProcess, by_pairs
from bayes_gpx.processes.grouped_process import without_codes
from bayes_gpx.processes.operators import AtPoints, Derivative, Value


@dataclass(frozen=True)
class OutputProcess(KernelProcess):
    """Mixtures of independent functions: ``f_o(x) = sum_j mixing[o, j] g_j(x)``."""

    # The linear model of coregionalization; `parts` are the priors of g_j. Operators take
    # `bayes_gpx.processes.grouped_process.in_groups`: points with the code of their output as the
    # last column, which is fixed while x varies.

    parts: Sequence[KernelProcess]
    mixing: Tensor

    def shares(self, L: AtPoints) -> list[Tensor]:
        """Mixing coefficients of each part in the outputs of L's points, (m,) each."""
        codes = L.x[:, -1].astype("int64")
        return [self.mixing[:, j][codes] for j in range(len(self.parts))]

    def _shared(self, *operators: AtPoints) -> Iterator[tuple]:
        """Each part, with its mixing coefficients at the points of every operator."""
        return zip(self.parts, *map(self.shares, operators), strict=True)

    def _covariance(self, L: AtPoints, M: AtPoints) -> Tensor:
        ours, theirs = without_codes(L), without_codes(M)
        each = (
            by_pairs(part.covariance(ours, theirs), left[:, None] * right)
            for part, left, right in self._shared(L, M)
        )
        return reduce(add, each)

    def _summed_parts(self, L: AtPoints, of_part: Callable[[KernelProcess, Any], Tensor]) -> Tensor:
        """Sum over the parts of a function of L (m, ...), times squared mixing coefficients."""
        bare, each = without_codes(L), []
        for part, share in self._shared(L):
            own = of_part(part, bare)
            each.append(own * (share**2).reshape((-1, *[1] * (own.ndim - 1))))
        return reduce(add, each)

    def _variance(self, L: AtPoints) -> Tensor:
        m = L.x.shape[0]
        by_points = self._summed_parts(L, lambda part, x: part.variance(x).reshape((m, -1)))
        return by_points.reshape((-1,))

    def _block(self, L: AtPoints) -> Tensor:
        return self._summed_parts(L, lambda part, bare: part.block(bare))

    def cross(self, L: Derivative) -> Tensor:  # noqa: D102
        return self._summed_parts(L, lambda part, bare: part.cross(bare))

    def _summed(self, L: Derivative, M: Value, weights: Tensor) -> Tensor:
        ours, theirs = without_codes(L), without_codes(M)
        each = (
            part.summed(ours, theirs, weights * right) * left[:, None]
            for part, left, right in self._shared(L, M)
        )
        return reduce(add, each)
