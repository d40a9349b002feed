"""Processes that are sums of basis functions with standard normal coefficients."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, cast

import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.processes.base import Process, bilinear, placed
from bayes_gpx.processes.basis_functions import (
    Basis,
    Expanding,
    JoinedBasis,
    TimesFeatures,
    along_path,
    basis_of,
    is_constant,
)
from bayes_gpx.processes.gaussian_process import GaussianProcess
from bayes_gpx.processes.indexed_process import IndexedProcess
from bayes_gpx.processes.operators import (
    AtPoints,
    Attribution,
    Components,
    Composite,
    Contribution,
    Gradient,
    Hessian,
    IntegratedGradient,
    OfFeatures,
    Operator,
    Smooth,
    Value,
    Weight,
)
from bayes_gpx.processes.weight_process import WeightProcess


@dataclass(frozen=True)
class BasisProcess(Process):
    """f(x) = phi(x)' beta, or weights w_l(x) = amplitude_l phi(x)' beta_l plus `eps_w,l`."""

    # Independent summands, each with one amplitude or one for each feature.
    sources: Sequence[tuple[Basis, TensorLike]]
    # The noise `eps_w` of each row's weights, as a weight process without kernels; None for a plain
    # process.
    own: WeightProcess | None = None
    place: tuple[int, int] | None = None  # among components, as in `GaussianProcess`

    def design(self, L: Operator) -> Tensor:
        """Matrix from coefficients to the values of L, (len L, M), without samples' own noise."""
        if isinstance(L, Composite):
            return L.assembled([self.design(part) for part in L.parts], axis=0)
        designs = [self._design(basis, amplitude, L) for basis, amplitude in self.sources]
        return pt.concatenate(designs, axis=1)

    def parted(self) -> tuple["BasisProcess", Tensor]:
        """The process of the functions without their scales, and the scales, (M,)."""
        # They belong to the coefficients, in their order: its design times the scales is this
        # one's.
        parts = [(*basis.parted(), amplitude) for basis, amplitude in self.sources]
        rows = 1 if self.own is None else self._n_features(None)
        scales = [
            ((_column(amplitude) * own) * pt.ones((rows, 1))).ravel() for _, own, amplitude in parts
        ]
        functions = tuple((basis, 1.0) for basis, *_ in parts)
        return replace(self, sources=functions), pt.concatenate(scales)

    def values(self, L: Operator, coefficients: Tensor) -> Tensor:
        """Values (len L,) of L for these coefficients (M,)."""
        if not isinstance(L, Gradient | Weight):
            return pt.dot(self.design(L), coefficients)
        # The `design` of a gradient, or of weights, is not formed.
        each, start, x = [], 0, L.x
        for basis, amplitude in self.sources:
            rows = 1 if self.own is None else self._n_features(L)
            count = rows * basis.value(x[:1]).shape[1]
            own = coefficients[start : start + count].reshape((rows, -1))
            own, start = _column(amplitude) * own, start + count
            if isinstance(L, Weight):
                each.append(pt.dot(basis.value(x), own.T))
                continue
            each.append(basis.slope(x, own if self.own is None else pt.dot(L.Z, own)))
            if L.tied:
                each.append(pt.dot(basis.value(x), own.T)[:, : x.type.shape[1]])
        return reduce(add, each).reshape((-1,))

    def _design(self, basis: Basis, amplitude: TensorLike, L: Any) -> Tensor:
        """The columns of `design` that belong to one of the sources, (len L, columns)."""
        if self.own is None:
            if self.place and isinstance(L, Components):
                by_points = placed(_values(basis, L), self.place, 1)
            else:
                by_points = rows_of(basis, L)
            return (amplitude * by_points).reshape((-1, by_points.shape[-1]))
        if L.tied:
            p = L.Z.type.shape[1]
            parts = rows_of(TimesFeatures(basis, p), L)
            parts = parts.reshape((parts.shape[0], parts.shape[1], p, -1))
        else:
            parts = rows_of(basis, L)[:, :, None]
            if not isinstance(L, Weight):
                parts = parts * pt.as_tensor_variable(L.Z)[:, None, :, None]
            if isinstance(L, OfFeatures):
                parts = parts * pt.eye(self._n_features(L))[None, :, :, None]
        weighed = parts * _column(amplitude)
        return weighed.reshape((weighed.shape[0] * weighed.shape[1], -1))

    def _n_features(self, L: Any) -> Any:
        if L is not None and not isinstance(L, Weight):
            return pt.as_tensor_variable(L.Z).shape[1]
        known = n_features(self)
        if known is None:
            raise ValueError("weight needs to know how many features there are; give n_features.")
        return known

    def covariance(self, L: Operator, M: Operator) -> Tensor:
        """Prior covariance matrix of L's values with M's, (len L, len M)."""
        shared = pt.dot(self.design(L), self.design(M).T)
        if self.own is None or not (L.own_noise and M.own_noise):
            return shared
        return shared + bilinear(self._own_covariance, L, M)

    def _own_covariance(self, L: Operator, M: Operator) -> Tensor:
        """Covariance of the samples' own noise, of two operators at points."""
        if L.own_noise and M.own_noise:
            return cast(WeightProcess, self.own).covariance(L, M)
        return pt.zeros((self.design(L).shape[0], self.design(M).shape[0]))

    def variance(self, L: Operator) -> Tensor:
        """Prior variance of each of L's values, (len L,)."""
        return pt.sqr(self.design(L)).sum(axis=1) + self._noise("variance", L)

    def block(self, L: AtPoints) -> Tensor:
        """Prior covariance between the components of each observation, (obs, c, c)."""
        parts = by_observation(self.design(L), L)
        return parts @ parts.transpose(0, 2, 1) + self._noise("block", L)

    def cross(self, L: Smooth) -> Tensor:
        """Prior covariance of a gradient's or Hessian's components with f there, (m, c)."""
        values = self.design(Value(L.X, L.Z, smooth=True))
        return (by_observation(self.design(L), L) * values[:, None]).sum(axis=2)

    def summed_slopes(self, L: Gradient, M: Gradient, weights: Tensor) -> Tensor:
        """Sum over M's points of weights (m | 1, n) times covariances of gradients, (m, d, d)."""
        ours, theirs = (by_observation(self.design(of), of) for of in (L, M))
        return ours @ pt.tensordot(weights, theirs, 1).transpose(0, 2, 1)

    def _noise(self, what: str, *operators: Operator) -> Any:
        if self.own is None or not all(L.own_noise for L in operators):
            return 0.0
        return getattr(self.own, what)(*operators)


def expanded(process: Process, approximation: Expanding, X: TensorLike) -> Any:
    """Replace the kernels of a process by basis functions.

    Parameters
    ----------
    process : GaussianProcess, WeightProcess or IndexedProcess
    approximation : Expansion, or an object with a method `basis`
    X : tensor (n, d)
        Training points, without codes.

    Returns
    -------
    BasisProcess; or IndexedProcess of such
    """
    X = pt.as_tensor_variable(X)
    if isinstance(process, IndexedProcess):
        parts = (
            replace(part, process=expanded(part.process, approximation, X))
            for part in process.parts
        )
        return replace(process, parts=tuple(parts))
    if isinstance(process, BasisProcess):
        return process
    if not isinstance(process, WeightProcess):
        process = cast(GaussianProcess, process)
        basis = basis_of(process.kernel, approximation, X)
        return BasisProcess(((basis, 1.0),), place=process.place)
    bases = (basis_of(kernel, approximation, X) for kernel in process.kernels)
    own = WeightProcess((), process.sigma_w, (), process.n_features)
    return BasisProcess(tuple(zip(bases, process.amplitudes, strict=True)), own)


def counting(process: Process, counts: Tensor) -> Process:
    """The process with each training sample counted as so many rows, as in `WeightProcess`."""
    if isinstance(process, IndexedProcess):
        parts = (replace(part, process=counting(part.process, counts)) for part in process.parts)
        return replace(process, parts=tuple(parts))
    if isinstance(process, BasisProcess) and process.own is not None:
        return replace(process, own=replace(process.own, counts=counts))
    return replace(process, counts=counts) if isinstance(process, WeightProcess) else process


def counts_of(process: Process) -> Tensor | None:
    """As how many rows each training sample counts, (n,); None where no row deviates."""
    weights = _of_weights(process)
    return None if weights is None else weights.counts


def own_variances(process: Process, L: Any) -> Tensor | None:
    """Variances of `eps_w` at the rows of L: (p,), (1,), or by row (m, p | 1); None without any."""
    if isinstance(process, IndexedProcess):
        found = []
        for part in process.parts:
            own = None if part.separate else own_variances(part.process, L)
            loadings = part.loadings(L) if own is not None else None
            found.append(own if loadings is None else pt.sqr(loadings)[:, None] * own)
        known = [own for own in found if own is not None]
        return reduce(add, known) if known else None
    weights = _of_weights(process)
    if weights is None:
        return None
    own, count = pt.atleast_1d(pt.as_tensor(weights.sigma_w)) ** 2, weights.counts_at(L)
    return own if isinstance(count, float) else own / count[:, None]


def n_features(process: Process) -> int | Tensor | None:
    """Number of features that a process weighs; None where it does not know."""
    weights = _of_weights(process)
    return None if weights is None else weights.n_features


def _of_weights(process: Process) -> WeightProcess | None:
    """The process of weights that a process is or has; None where features have no weights."""
    if isinstance(process, IndexedProcess):
        return _of_weights(process.parts[0].process)
    weights = process.own if isinstance(process, BasisProcess) else process
    return weights if isinstance(weights, WeightProcess) else None


def _column(amplitude: TensorLike) -> Tensor:
    """One amplitude, or one for each feature, as a column (1 | p, 1)."""
    return pt.atleast_1d(pt.as_tensor(amplitude))[:, None]


def by_observation(design: Tensor, L: AtPoints) -> Tensor:
    """Rows of a design as (obs, components, M)."""
    return design.reshape((L.x.shape[0], -1, design.shape[1]))


def rows_of(basis: Basis, L: AtPoints) -> Tensor:
    """What an operator at points does to each basis function, (m, c, M)."""
    if type(L) in ROWS:
        return ROWS[type(L)](basis, L)
    return by_observation(_flat(basis, cast(Operator, L.opened(L))), L)


def _flat(basis: Basis, L: Operator) -> Tensor:
    """As `rows_of` for any operator, (len L, M)."""
    if isinstance(L, Composite):
        return L.assembled([_flat(basis, part) for part in L.parts], axis=0)
    rows = rows_of(basis, cast(AtPoints, L))
    return rows.reshape((-1, rows.shape[-1]))


def _values(basis: Basis, L: AtPoints) -> Tensor:
    return basis.value(L.x)[:, None]


def _second_derivatives(basis: Basis, L: AtPoints) -> Tensor:
    second = basis.hessian(L.x)
    return second.reshape((second.shape[0], -1, second.shape[-1]))


def _attributions(basis: Basis, L: Attribution) -> Tensor:
    if L.nodes is None:
        return basis.attribution(L.x, L.start)
    return along_path(basis.gradient, L.x, L.start, L.nodes)


def _components(basis: Basis, L: AtPoints) -> Tensor:
    """Each component has separate functions; all constant components are the last one."""
    parts = basis.parts if isinstance(basis, JoinedBasis) else (basis,)
    own = [_values(part, L) for part in parts]
    varying = [k for k, part in enumerate(parts) if not is_constant(part)]
    components = [[k] for k in varying]
    if len(varying) < len(parts):
        components.append([k for k in range(len(parts)) if k not in varying])

    def among_all(members: list[int]) -> Tensor:
        rows = [own[k] if k in members else pt.zeros_like(own[k]) for k in range(len(parts))]
        return pt.concatenate(rows, axis=-1)

    return pt.concatenate([among_all(members) for members in components], axis=1)


ROWS = {
    Value: _values,
    Components: _components,
    Weight: _values,
    Contribution: _values,
    Gradient: lambda basis, L: basis.gradient(L.x),
    Hessian: _second_derivatives,
    IntegratedGradient: _attributions,
}
"""Design (m, c, M) of a basis for operators at points; others are opened until found here."""
