"""Processes that are sums of basis functions with standard normal coefficients."""

from dataclasses import dataclass, replace
from typing import Any

import pytensor.tensor as pt

from bayes_gpx.numerics.quadrature import gauss_legendre, total_of
from bayes_gpx.processes.base import Process
from bayes_gpx.processes.basis_functions import basis_of
from bayes_gpx.processes.covariance import KINDS
from bayes_gpx.processes.expected_gradients import averaged, every_path
from bayes_gpx.processes.operators import AtPoints, Scaled, Stack
from bayes_gpx.processes.weight_process import WeightProcess

PATH_NODES, PATH_PANELS = 16, 4
"""Quadrature along paths on which z changes with x."""


@dataclass(frozen=True)
class BasisProcess(Process):
    """f(x) = phi(x)' beta, or weights w_l(x) = amplitude_l phi(x)' beta_l plus `eps_w,l`.

    Parameters
    ----------
    sources : sequence of (Basis, scalar or (p,))
        Independent summands, each with its amplitude or the features' amplitudes.
    own : WeightProcess, optional
        The noise `eps_w` of each sample's own weights, as a weight process without kernels; None
        for a plain process.
    """

    sources: Any
    own: Any = None

    def design(self, L):
        """Values of L at each basis function, (len L, M), without samples' own noise."""
        if isinstance(L, Stack):
            return pt.concatenate([self.design(part) for part in L.parts])
        if isinstance(L, Scaled):
            return L.factor * self.design(L.operator)
        if not isinstance(L, AtPoints):
            first, *rest = (self.design(term) for term in L.terms)
            return sum(rest, start=first)
        designs = [self._design(basis, amplitude, L) for basis, amplitude in self.sources]
        return pt.concatenate(designs, axis=1)

    def values(self, L, coefficients):
        """Values of L for these coefficients (M,); of a gradient without its design."""
        if not isinstance(L, AtPoints) or L.kind != "gradient":
            return pt.dot(self.design(L), coefficients)
        total, start, x = 0.0, 0, _tensor(L.X)
        for basis, amplitude in self.sources:
            rows = 1 if self.own is None else _tensor(L.Z).shape[1]
            count = rows * basis.value(x[:1]).shape[1]
            own = coefficients[start : start + count].reshape((rows, -1))
            own, start = pt.atleast_1d(amplitude)[:, None] * own, start + count
            total = total + basis.slope(x, own if self.own is None else pt.dot(L.Z, own))
            if L.tied:
                total = total + pt.dot(basis.value(x), own.T)[:, : x.type.shape[1]]
        return total.reshape((-1,))

    def _design(self, basis, amplitude, L):
        if self.own is None:
            by_points = _each_baseline(_held, basis, L)
            return (amplitude * by_points).reshape((-1, by_points.shape[-1]))
        if L.tied and L.kind in KINDS:
            parts = _each_baseline(_moving, basis, L)
        else:
            parts = _each_baseline(_held, basis, L)[:, :, None]
            if L.kind != "weight":
                parts = parts * _tensor(L.Z)[:, None, :, None]
            if L.kind in ("weight", "contribution"):
                parts = parts * pt.eye(self._n_features(L))[None, :, :, None]
        weighed = parts * pt.atleast_1d(amplitude)[:, None]
        return weighed.reshape((weighed.shape[0] * weighed.shape[1], -1))

    def _n_features(self, L):
        if L.kind != "weight":
            return _tensor(L.Z).shape[1]
        if self.own.n_features is None:
            raise ValueError("weight needs to know how many features there are; give n_features.")
        return self.own.n_features

    def covariance(self, L, M):
        """Prior covariance matrix of L's values with M's, (len L, len M)."""
        shared = pt.dot(self.design(L), self.design(M).T)
        return shared + self._noise("covariance", L, M)

    def variance(self, L):
        """Prior variance of each of L's values, (len L,)."""
        return pt.sqr(self.design(L)).sum(axis=1) + self._noise("variance", L)

    def block(self, L):
        """Prior covariance between the components of each observation, (obs, c, c)."""
        parts = by_observation(self.design(L), L)
        return pt.matmul(parts, parts.transpose(0, 2, 1)) + self._noise("block", L)

    def _noise(self, what, *operators):
        if self.own is None or any(not has_own_noise(L) for L in operators):
            return 0.0
        return getattr(self.own, what)(*operators)


def expanded(process, approximation, X):
    """The process with basis functions in the place of its kernels.

    Parameters
    ----------
    process : GaussianProcess or WeightProcess
    approximation : HSGP, RandomFeatures, or what draws frequencies as that does
    X : tensor (n, d)
        Training points.

    Returns
    -------
    BasisProcess
    """
    X = _tensor(X)
    if not isinstance(process, WeightProcess):
        return BasisProcess(((basis_of(process.kernel, approximation, X), 1.0),))
    bases = (basis_of(kernel, approximation, X) for kernel in process.kernels)
    own = WeightProcess((), process.sigma_w, (), process.n_features)
    return BasisProcess(tuple(zip(bases, process.amplitudes, strict=True)), own)


def has_own_noise(L):
    """Whether an operator of a weight process may include the samples' own `eps_w`."""
    return not isinstance(L, AtPoints) or not (L.kind in KINDS or L.smooth)


def own_variances(process):
    """Variances of `eps_w`, (1,) or (p,); None where there is no such noise."""
    weights = process.own if isinstance(process, BasisProcess) else process
    if not isinstance(weights, WeightProcess):
        return None
    return pt.atleast_1d(pt.as_tensor(weights.sigma_w)) ** 2


def by_observation(design, L):
    """Rows of a design as (obs, components, M)."""
    return design.reshape((_tensor(L.X).shape[0], -1, design.shape[1]))


def _each_baseline(rows_of, basis, L):
    """What L does to basis functions, averaged over the baselines of attributions."""
    if L.kind != "integrated_gradient" or _tensor(L.baseline).ndim == 1:
        return rows_of(basis, L)
    x, baselines = _tensor(L.X), _tensor(L.baseline)
    ends, starts = every_path(x, baselines)
    return averaged(rows_of(basis, replace(L, X=ends, baseline=starts)), x, baselines)


def _baselines(L):
    """Baselines as rows, (B, d)."""
    return pt.atleast_2d(_tensor(L.baseline))


def _held(basis, L):
    """What L does to each basis function, z held: (m, c, M)."""
    x = _tensor(L.X)
    if L.kind == "difference":
        return (basis.value(x) - basis.value(_baselines(L)).mean(axis=0))[:, None]
    if L.kind == "gradient":
        return basis.gradient(x)
    if L.kind == "hessian":
        second = basis.hessian(x)
        return second.reshape((second.shape[0], -1, second.shape[-1]))
    if L.kind == "integrated_gradient":
        if L.nodes is None:
            return basis.attribution(x, _tensor(L.baseline))
        return _averaged(L, basis.gradient)
    return basis.value(x)[:, None]


def _averaged(L, slopes, nodes=None):
    """Integral of slopes (m, d, ...) along L's paths, times the way in each feature."""
    x, baseline = _tensor(L.X), _tensor(L.baseline)
    delta, nodes = x - baseline, nodes or L.nodes
    parts = [w * slopes(baseline + t * delta) for t, w in zip(nodes.t, nodes.w, strict=True)]
    return pt.expand_dims(delta, list(range(2, parts[0].ndim))) * total_of(parts)


def _moving(basis, L):
    """What L does to z_l times each basis function where z is x: (m, c, p, M)."""
    x, (d, p) = _tensor(L.X), (L.X.type.shape[1], L.Z.type.shape[1])
    step = pt.eye(d, p)

    def values(points):
        return _features(points, p)[:, :, None] * basis.value(points)[:, None]

    def slopes(points):
        held = _features(points, p)[:, None, :, None] * basis.gradient(points)[:, :, None]
        return held + step[None, :, :, None] * basis.value(points)[:, None, None]

    if L.kind == "difference":
        return (values(x) - values(_baselines(L)).mean(axis=0))[:, None]
    if L.kind == "gradient":
        return slopes(x)
    if L.kind == "integrated_gradient":
        return _averaged(L, slopes, L.nodes or gauss_legendre(PATH_NODES, PATH_PANELS))
    slope = basis.gradient(x)
    mixed = step[None, :, None, :, None] * slope[:, None, :, None]
    held = _features(x, p)[:, None, None, :, None] * basis.hessian(x)[:, :, :, None]
    second = held + mixed + mixed.transpose(0, 2, 1, 3, 4)
    return second.reshape((second.shape[0], -1, *second.shape[3:]))


def _features(points, p):
    """Z where it is X: the points, and a column of ones if Z has an intercept."""
    d = points.type.shape[1]
    if p == d:
        return points
    return pt.concatenate([points, pt.ones((points.shape[0], p - d))], axis=1)


def _tensor(points):
    return pt.as_tensor_variable(points)
