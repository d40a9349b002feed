"""Processes of several outputs: linear combinations of independent processes, one for each."""

from collections.abc import Sequence
from dataclasses import dataclass

from pytensor.tensor.variable import TensorVariable

from bayes_gpx.processes.base import KernelProcess
from bayes_gpx.processes.grouped_process import without_codes
from bayes_gpx.processes.operators import AtPoints


@dataclass(frozen=True)
class OutputProcess(KernelProcess):
    """Mixtures of independent functions: ``f_o(x) = sum_j mixing[o, j] g_j(x)``.

    The linear model of coregionalization; `parts` are the priors of g_j. Operators take
    `bayes_gpx.processes.grouped_process.in_groups`: points with the code of their output as the
    last column, which is fixed while x varies.
    """

    parts: Sequence[KernelProcess]
    mixing: TensorVariable

    def shares(self, L: AtPoints) -> list[TensorVariable]:
        """Mixing coefficients of each part in the outputs of L's points, (m,) each."""
        codes = L.x[:, -1].astype("int64")
        return [self.mixing[:, j][codes] for j in range(len(self.parts))]

    def _weighed(self, L):
        return zip(self.parts, self.shares(L), strict=True)

    def _covariance(self, L, M):
        ours, theirs, total = without_codes(L), without_codes(M), 0.0
        for (part, left), (_, right) in zip(self._weighed(L), self._weighed(M), strict=True):
            K = part.covariance(ours, theirs)
            m, n = L.x.shape[0], M.x.shape[0]
            by_points = K.reshape((m, K.shape[0] // m, n, K.shape[1] // n))
            by_points = by_points * (left[:, None] * right)[:, None, :, None]
            total = total + by_points.reshape(K.shape)
        return total

    def _summed_parts(self, L, of_part):
        """Sum over the parts of a function of L (m, ...), times squared mixing coefficients."""
        bare, total = without_codes(L), 0.0
        for part, share in self._weighed(L):
            own = of_part(part, bare)
            total = total + own * (share**2).reshape((-1, *[1] * (own.ndim - 1)))
        return total

    def _variance(self, L):
        m = L.x.shape[0]
        by_points = self._summed_parts(L, lambda part, x: part.variance(x).reshape((m, -1)))
        return by_points.reshape((-1,))

    def _block(self, L):
        return self._summed_parts(L, lambda part, bare: part.block(bare))

    def cross(self, L):  # noqa: D102
        return self._summed_parts(L, lambda part, bare: part.cross(bare))

    def _summed(self, L, M, weights):
        ours, theirs, total = without_codes(L), without_codes(M), 0.0
        for (part, left), (_, right) in zip(self._weighed(L), self._weighed(M), strict=True):
            total = total + part.summed(ours, theirs, weights * right) * left[:, None]
        return total
