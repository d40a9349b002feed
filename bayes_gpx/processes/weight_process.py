"""The process of a GPX: a Gaussian process on the weight of each feature."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import pytensor.tensor as pt
from pymc.gp import cov

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.kernels.base import Kernel
from bayes_gpx.kernels.from_pymc import from_pymc
from bayes_gpx.numerics.sparse_products import columns_at, is_sparse, products, weighed_squares
from bayes_gpx.processes import covariance
from bayes_gpx.processes.base import KernelProcess, Process, diagonals
from bayes_gpx.processes.operators import (
    AtPoints,
    Contribution,
    Derivative,
    Gradient,
    OfSamples,
    Smooth,
    Value,
    Weight,
)


@dataclass(frozen=True)
class WeightProcess(KernelProcess):
    """Define the GPX prior: f(x, z) = z' w(x), with a Gaussian process on each weight.

    `w_l(x) = g_l(x) + eps_w,l`, with independent g_l of covariance ``sum_s amplitude_sl^2 k_s(x,
    x')`` and noise `eps_w,l` for each row [1]_ (equations 3 to 6).

    Parameters
    ----------
    cov_func : pymc.gp.cov.Covariance or sequence of them
        One covariance function, or the summands k_s.
    sigma_w : scalar or (p,)
        Standard deviation of `eps_w`, in units of f per unit of z.
    amplitude : scalar or (p,), or a sequence of them, one per summand
        Multiplies the weight functions, feature by feature.
    n_features : int or scalar tensor, optional
        p. Conditioning on data fills it in.
    counts : (n,), optional
        As how many rows each training sample counts. Its `eps_w` is then the mean of theirs.

    References
    ----------
    .. [1] Yoshikawa and Iwata, "Gaussian process regression with interpretable
       sample-wise feature weights", IEEE TNNLS 34 (2023), doi 10.1109/TNNLS.2021.3131234.
    """

    cov_func: cov.BaseCovariance | Sequence[cov.BaseCovariance]
    sigma_w: TensorLike = 0.0
    amplitude: TensorLike | Sequence[TensorLike] = 1.0
    n_features: int | Tensor | None = None
    counts: Tensor | None = None

    @cached_property
    def kernels(self) -> tuple[Kernel, ...]:
        """The summands as this package's kernels."""
        return tuple(from_pymc(c) for c in self.cov_funcs)

    @property
    def cov_funcs(self) -> tuple[cov.BaseCovariance, ...]:
        """The summands as PyMC's covariance functions."""
        return _sequence(self.cov_func)

    @property
    def amplitudes(self) -> tuple[Tensor, ...]:
        """One amplitude for each summand."""
        amplitudes = tuple(pt.as_tensor(a) for a in _sequence(self.amplitude))
        if len(amplitudes) != len(self.kernels):
            raise ValueError(
                f"{len(self.kernels)} covariance functions need as many amplitudes, "
                f"got {len(amplitudes)}."
            )
        return amplitudes

    def _covariance(self, L: AtPoints, M: AtPoints) -> Tensor:
        if isinstance(L, Smooth) or isinstance(M, Smooth):
            return covariance.weighed_covariance(self._summands, L, M)
        z_L, z_M = self._coefficients(L), self._coefficients(M)
        sums = isinstance(L, Value), isinstance(M, Value)
        shared, total = 0.0, 0.0
        for base, scale in self._sources(L, M):
            if scale.ndim == 0:
                shared += scale**2 * base
            else:
                total += _assemble(base, z_L * scale**2, z_M, *sums)
        if isinstance(shared, float):
            return pt.as_tensor(total)
        if isinstance(L, Contribution) and L.columns is not None:
            return _at_columns(shared, z_L, columns_at(z_M, L.columns))
        return total + _assemble(shared, z_L, z_M, *sums)

    @property
    def _summands(self) -> Iterator[tuple[Kernel, Tensor]]:
        """Pairs of kernel and variances of the weights, (1,) or (p,)."""
        for kernel, amplitude in zip(self.kernels, self.amplitudes, strict=True):
            yield kernel, pt.atleast_1d(amplitude) ** 2

    def _sources(self, L: Any, M: Any) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield independent sources of weights: covariance over points, and sd of each feature."""
        for kernel, amplitude in zip(self.kernels, self.amplitudes, strict=True):
            yield covariance.of_values(kernel, L, M), amplitude
        same = _same_sample(L, M)
        if same is not None:
            yield same / self.counts_at(M), pt.as_tensor(self.sigma_w)

    def counts_at(self, L: Any) -> Tensor | float:
        """As how many rows each training sample counts, (m,), or 1 for all."""
        known = self.counts is not None and not isinstance(L.sample, str)
        return cast(Tensor, self.counts)[L.sample] if known else 1.0

    def _coefficients(self, L: Any) -> Tensor:
        """What multiplies the weights in L's components: Z (m, p), or ones (1, p)."""
        if not isinstance(L, Weight):
            if L.Z is None:
                raise ValueError(f"{L.name} of a WeightProcess needs Z, the features it weighs.")
            return pt.as_tensor_variable(L.Z)
        if self.n_features is None:
            raise ValueError(
                "weight needs to know how many features there are: condition the process on "
                "data, or build it with WeightProcess(..., n_features=p)."
            )
        return pt.ones((1, self.n_features))

    def _each_variance(self, L: Any) -> Tensor:
        """Prior variance of the components before any sum over features, (m, p)."""
        return self._weight_variance(L) * self._coefficients(L) ** 2

    def _weight_variance(self, L: Any) -> Tensor:
        """Prior variance of the weights, (m, p), or (m, 1) if all have the same."""
        weight = pt.zeros_like(L.x[:, :1], "float64")
        if not L.smooth:
            count = self.counts_at(L)
            count = count if isinstance(count, float) else count[:, None]
            weight = weight + pt.as_tensor(self.sigma_w) ** 2 / count
        for kernel, amplitude in zip(self.kernels, self.amplitudes, strict=True):
            weight = weight + kernel.diag(L.x)[:, None] * amplitude**2
        return weight

    def _variance(self, L: AtPoints) -> Tensor:
        if isinstance(L, Smooth):
            return diagonals(self._block(L))
        if isinstance(L, Value) and is_sparse(z := self._coefficients(L)):
            return self._weight_variance(L)[:, 0] * weighed_squares(z, pt.ones(()))
        each = self._each_variance(L)
        return each.sum(axis=1) if isinstance(L, Value) else each.reshape((-1,))

    def _block(self, L: AtPoints) -> Tensor:
        if isinstance(L, Smooth):
            return covariance.weighed_block(self._summands, L)
        if isinstance(L, Value):
            return self._variance(L)[:, None, None]
        each = self._each_variance(L)
        return each[:, :, None] * pt.eye(each.shape[1])[None]

    def _summed(self, L: Derivative, M: Value, weights: Tensor) -> Tensor:
        return covariance.weighed_summed(self._summands, L, M, weights)

    def summed_slopes(self, L: Gradient, M: Gradient, weights: Tensor) -> Tensor:  # noqa: D102
        return covariance.weighed_summed_slopes(self._summands, L, M, weights)

    def cross(self, L: Derivative) -> Tensor:  # noqa: D102
        return covariance.weighed_cross(self._summands, L)


def _assemble(base: Tensor, left: Tensor, right: Tensor, sum_left: bool, sum_right: bool) -> Tensor:
    """Covariance of left_l w_l with right_l w_l, for independent w_l of covariance `base`."""
    # base (m, n), left (m | 1, p), right (n | 1, p). Each side is summed over l, or has p
    # components.
    m, n = base.shape
    if sum_left and sum_right:
        return base * products(left, right)
    if sum_right:
        return (base[:, None, :] * (left[:, :, None] * right.T[None])).reshape((-1, n))
    if sum_left:
        return (base[:, :, None] * (left[:, None, :] * right[None])).reshape((m, -1))
    p = left.shape[1]
    diagonal = base[:, :, None] * (left[:, None, :] * right[None])
    spread = diagonal[:, :, :, None] * pt.eye(p)
    return spread.transpose(0, 2, 1, 3).reshape((m * p, n * p))


def _at_columns(base: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """As `_assemble`, of q columns of each row: left (m, q) with all rows of right (m, q, n)."""
    return (base[:, None] * (left[:, :, None] * right)).reshape((-1, base.shape[1]))


def _same_sample(L: OfSamples, M: OfSamples) -> Tensor | None:
    """1 where rows of L and M are one sample, (m, n); None where no rows can be."""
    new_L, new_M = isinstance(L.sample, str), isinstance(M.sample, str)
    if L.smooth or M.smooth or new_L != new_M or (new_L and L.X is not M.X):
        return None
    if new_L:
        return pt.eye(L.x.shape[0])
    rows, columns = pt.as_tensor(L.sample), pt.as_tensor(M.sample)
    return pt.eq(rows[:, None], columns[None, :]).astype("float64")


def _sequence(value: Any) -> tuple:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def informed(gp: Process, Z: TensorLike | None) -> Process:
    """The process, told how many features there are."""
    if isinstance(gp, WeightProcess) and gp.n_features is None and Z is not None:
        return replace(gp, n_features=pt.as_tensor(Z).shape[1])
    return gp
