"""Gaussian process priors: covariances of linear operators, for one hyperparameter draw.

A process answers three questions about operators L and M, each by its own cheap graph:
`covariance(L, M)`, the full matrix; `block(L)`, the covariance between the components of
each observation; `variance(L)`, the diagonal. The vector of an operator is obs-major and
component-minor.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytensor.tensor as pt

from bayes_gpx import covariances
from bayes_gpx.operators import AtPoints, Stack, Sum
from bayes_gpx.translation import from_pymc


class Process:
    """Bilinearity: what adding, scaling and stacking operators does to covariances."""

    def covariance(self, L, M):
        """Prior covariance matrix of L's values with M's, (len L, len M)."""
        if not isinstance(L, AtPoints):
            return _combine(L, [self.covariance(part, M) for part in _parts(L)], axis=0)
        if not isinstance(M, AtPoints):
            return _combine(M, [self.covariance(L, part) for part in _parts(M)], axis=1)
        return self._covariance(L, M)

    def variance(self, L):
        """Prior variance of each of L's values, (len L,)."""
        if isinstance(L, AtPoints):
            return self._variance(L)
        if isinstance(L, Stack):
            return pt.concatenate([self.variance(part) for part in L.parts])
        return pt.diagonal(self.covariance(L, L))

    def block(self, L):
        """Prior covariance between the components of each observation, (obs, c, c)."""
        if isinstance(L, AtPoints):
            return self._block(L)
        raise ValueError(
            "block is defined for one operator at points; a sum or stack of operators has no "
            "single component axis. Ask for `cov`, or for each operator's block."
        )

    def summed(self, L, M, weights):
        """Sum over M's values of their prior covariance with L's, times weights (m | 1, len M).

        Returns
        -------
        tensor (m, c)
            For a gradient or Hessian L, and M's values, without the matrix of covariances.
        """
        if isinstance(M, AtPoints) and M.kind == "evaluate" and L.kind in covariances.SLOPES:
            return self._summed(L, M, weights)
        m = pt.as_tensor_variable(L.X).shape[0]
        by_points = self.covariance(L, M).reshape((m, -1, weights.shape[1]))
        return (by_points * weights[:, None]).sum(axis=2)

    def cross(self, L):
        """Prior covariance of a gradient's or Hessian's components with f there, (m, c)."""
        return self._cross(L)


@dataclass(frozen=True)
class GaussianProcess(Process):
    """A zero-mean Gaussian process with a PyMC covariance function.

    Parameters
    ----------
    cov_func : pymc.gp.cov.Covariance
        Complete with its amplitude.
    """

    cov_func: Any

    @cached_property
    def kernel(self):
        """The covariance function as this package's kernel."""
        return from_pymc(self.cov_func)

    def _covariance(self, L, M):
        _refuse_weights(L, M)
        return covariances.covariance(self.kernel, L, M)

    def _variance(self, L):
        return _diagonals(self._block(L))

    def _block(self, L):
        _refuse_weights(L)
        return covariances.block(self.kernel, L)

    def _summed(self, L, M, weights):
        return covariances.summed(self.kernel, L, M, weights)

    def _cross(self, L):
        return covariances.cross(self.kernel, L)


@dataclass(frozen=True)
class WeightProcess(Process):
    """The GPX prior: f(x, z) = z' w(x), with a Gaussian process on each weight function.

    `w_l(x) = g_l(x) + eps_w,l`, g_l independent with covariance
    ``sum_s amplitude_sl^2 k_s(x, x')`` and `eps_w,l` noise of each sample's own weight
    [1]_ (equations 3 to 6).

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

    References
    ----------
    .. [1] Yoshikawa and Iwata, "Gaussian process regression with interpretable
       sample-wise feature weights", IEEE TNNLS 34 (2023), doi 10.1109/TNNLS.2021.3131234.
    """

    cov_func: Any
    sigma_w: Any = 0.0
    amplitude: Any = 1.0
    n_features: Any = None

    @cached_property
    def kernels(self):
        """The summands as this package's kernels."""
        return tuple(from_pymc(c) for c in _sequence(self.cov_func))

    @property
    def amplitudes(self):
        """One amplitude for each summand."""
        amplitudes = tuple(pt.as_tensor(a) for a in _sequence(self.amplitude))
        if len(amplitudes) != len(self.kernels):
            raise ValueError(
                f"{len(self.kernels)} covariance functions need as many amplitudes, "
                f"got {len(amplitudes)}."
            )
        return amplitudes

    def _covariance(self, L, M):
        if L.kind in covariances.KINDS or M.kind in covariances.KINDS:
            return covariances.weighed_covariance(self._summands, L, M)
        z_L, z_M = self._coefficients(L), self._coefficients(M)
        sums = L.kind == "evaluate", M.kind == "evaluate"
        shared, total = 0.0, 0.0
        for base, scale in self._sources(L, M):
            if scale.ndim == 0:
                shared += scale**2 * base
            else:
                total += _assemble(base, z_L * scale**2, z_M, *sums)
        return total if isinstance(shared, float) else total + _assemble(shared, z_L, z_M, *sums)

    @property
    def _summands(self):
        """Pairs of kernel and variances of the weights, (1,) or (p,)."""
        for kernel, amplitude in zip(self.kernels, self.amplitudes, strict=True):
            yield kernel, pt.atleast_1d(amplitude) ** 2

    def _sources(self, L, M):
        """Independent sources of the weights: covariance over points, sd over features."""
        for kernel, amplitude in zip(self.kernels, self.amplitudes, strict=True):
            yield _cross(kernel, L, M), amplitude
        same = _same_sample(L, M)
        if same is not None:
            yield same, pt.as_tensor(self.sigma_w)

    def _coefficients(self, L):
        """What multiplies each weight in L's components, (m, p) or (1, p)."""
        if L.kind != "weight":
            if L.Z is None:
                raise ValueError(f"{L.kind} of a WeightProcess needs Z, the features it weighs.")
            return _tensor(L.Z)
        if self.n_features is None:
            raise ValueError(
                "weight needs to know how many features there are: condition the process on "
                "data, or build it with WeightProcess(..., n_features=p)."
            )
        return pt.ones((1, self.n_features))

    def _each_variance(self, L):
        """Prior variance of the components before any sum over features, (m, p)."""
        x = _tensor(L.X)
        weight = pt.zeros((x.shape[0], 1)) + (0.0 if L.smooth else pt.as_tensor(self.sigma_w) ** 2)
        for kernel, amplitude in zip(self.kernels, self.amplitudes, strict=True):
            weight = weight + kernel.diag(x)[:, None] * amplitude**2
        return weight * self._coefficients(L) ** 2

    def _variance(self, L):
        if L.kind in covariances.KINDS:
            return _diagonals(self._block(L))
        each = self._each_variance(L)
        return each.sum(axis=1) if L.kind == "evaluate" else each.reshape((-1,))

    def _block(self, L):
        if L.kind in covariances.KINDS:
            return covariances.weighed_block(self._summands, L)
        if L.kind == "evaluate":
            return self._variance(L)[:, None, None]
        each = self._each_variance(L)
        return each[:, :, None] * pt.eye(each.shape[1])[None]

    def _summed(self, L, M, weights):
        return covariances.weighed_summed(self._summands, L, M, weights)

    def _cross(self, L):
        return covariances.weighed_cross(self._summands, L)


def _diagonals(block):
    return pt.diagonal(block, axis1=1, axis2=2).reshape((-1,))


def _refuse_weights(*operators):
    for operator in operators:
        if operator.kind in ("weight", "contribution"):
            raise ValueError(
                f"{operator.kind} is defined for a WeightProcess; a GaussianProcess has no "
                "weights. Ask for values or slopes, or use bx.GPX."
            )


def _assemble(base, left, right, sum_left, sum_right):
    """Spread `base` (m, n) over features: left (m | 1, p) and right (n | 1, p) multiply it."""
    m, n = base.shape
    if sum_left and sum_right:
        return base * pt.dot(left, right.T)
    if sum_right:
        return (base[:, None, :] * (left[:, :, None] * right.T[None])).reshape((-1, n))
    if sum_left:
        return (base[:, :, None] * (left[:, None, :] * right[None])).reshape((m, -1))
    p = left.shape[1]
    diagonal = base[:, :, None] * (left[:, None, :] * right[None])
    spread = diagonal[:, :, :, None] * pt.eye(p)
    return spread.transpose(0, 2, 1, 3).reshape((m * p, n * p))


def _cross(kernel, L, M):
    x = _tensor(L.X)
    return kernel.gram(x) if L.X is M.X else kernel.value(x, _tensor(M.X))


def _same_sample(L, M):
    """1 where rows of L and M are one sample, (m, n); None where no rows can be."""
    new_L, new_M = isinstance(L.sample, str), isinstance(M.sample, str)
    if L.smooth or M.smooth or new_L != new_M or (new_L and L.X is not M.X):
        return None
    if new_L:
        return pt.eye(_tensor(L.X).shape[0])
    rows, columns = pt.as_tensor(L.sample), pt.as_tensor(M.sample)
    return pt.eq(rows[:, None], columns[None, :]).astype("float64")


def _parts(operator):
    if isinstance(operator, Stack):
        return operator.parts
    if isinstance(operator, Sum):
        return operator.terms
    return (operator.operator,)


def _combine(operator, blocks, axis):
    if isinstance(operator, Stack):
        return pt.concatenate(blocks, axis=axis)
    if isinstance(operator, Sum):
        return sum(blocks[1:], start=blocks[0])
    return operator.factor * blocks[0]


def _sequence(value):
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _tensor(points):
    return pt.as_tensor_variable(points)
