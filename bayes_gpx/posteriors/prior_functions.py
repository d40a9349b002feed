"""Random functions of a prior: random Fourier features with new frequencies for each function.

Mean and covariance over functions are the prior's, for any number of waves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.numerics.linear_algebra import solve_root
from bayes_gpx.processes.basis_functions import waves
from bayes_gpx.processes.basis_process import BasisProcess, expanded
from bayes_gpx.processes.class_process import ClassProcess
from bayes_gpx.processes.indexed_process import IndexedProcess, Part, by_rows
from bayes_gpx.processes.operators import Composite
from bayes_gpx.processes.random_products import RandomFunctions, random_functions

if TYPE_CHECKING:
    from bayes_gpx.kernels.base import Kernel
    from bayes_gpx.kernels.profiles import SpectralProfile
    from bayes_gpx.posteriors.base import Conditioning
    from bayes_gpx.posteriors.low_rank import LowRankDesign
    from bayes_gpx.processes.basis_functions import Basis
    from bayes_gpx.processes.operators import AtPoints, Operator, Value

WAVES = 512
"""Sines and cosines that a prior function is made of, unless asked for more or fewer."""


class Fresh:
    """Random frequencies and coefficients, reproducible from the same generators in the same order.

    `waves` is the number of sines and cosines for each summand of the kernel.
    """

    def __init__(self, waves: int, changing: Mapping[str, Any]) -> None:
        self.m, self._rng, self._of_groups = waves, changing["rng"], changing["rng_of_groups"]

    def of_groups(self, shape: tuple) -> Tensor:
        """Standard normals (groups, ...): those of one group are equal for any number of groups."""
        return pt.random.normal(size=shape, rng=self._of_groups, return_next_rng=True)[1]

    def normal(self, shape: tuple) -> Tensor:
        """Standard normals."""
        return self._next(pt.random.normal, shape)

    def basis(self, profile: SpectralProfile, lengthscale: Tensor, X: Tensor, number: int) -> Basis:
        """As of `RandomFeatures`: for `expanded`, this is such an approximation."""
        half = self.m // 2
        normal = self.normal((X.type.shape[1], half))
        return waves(profile, lengthscale, normal, self._next(pt.random.uniform, (half,)))

    def functions(self, kernel: Kernel, d: int) -> Basis:
        """Random functions of a kernel of d columns that has no basis functions."""
        made = random_functions(kernel, lambda number: self.normal((number, self.m)), d)
        return RandomFunctions(made, self.m)

    def _next(self, distribution: Callable, shape: tuple) -> Tensor:
        self._rng, drawn = distribution(size=shape, rng=self._rng, return_next_rng=True)
        return drawn


def prior_function(given: Conditioning, fresh: Fresh) -> Callable[[Operator], Tensor]:
    """A function of the prior, to be called with an operator.

    Several classes have one function each, with shared waves and separate coefficients, which
    correlate as the classes do.
    """
    if isinstance(given.process, ClassProcess):
        return _correlated_function(given, fresh)
    if isinstance(given.process, IndexedProcess):
        return IndexedFunction(given, fresh)
    # Any points tell how many functions there are; of rows in parts there is but a block's symbol.
    at = cast("Value", given.smooth if given.parts is None else given.inducing)
    basis = expanded(given.process, fresh, at.X)
    count = basis.design(at).shape[1]
    coefficients = fresh.normal((count, *given.columns))
    return lambda operator: by_class(basis.values, operator, coefficients, given)


def _correlated_function(given: Conditioning, fresh: Fresh) -> Callable[[Operator], Tensor]:
    each = [
        (prior_function(replace(given, process=part), fresh), mixing)
        for part, mixing in cast(ClassProcess, given.process).mixing()
    ]
    return lambda operator: sum(pt.dot(apart(operator), mixed) for apart, mixed in each)


class IndexedFunction:
    """A function of the prior of a process of rows with codes, to be called with an operator."""

    # Groups that no training row has get functions in the order of their codes, whatever operators
    # ask for them.

    def __init__(self, given: Conditioning, fresh: Fresh) -> None:
        self._given, self._fresh = given, fresh
        self._process = cast(IndexedProcess, given.process)
        at: Value = self._process.bare(given.smooth)
        self.parts: list[tuple[Part, BasisProcess, Tensor, Any]] = []  # the last None: of groups
        for part in self._process.parts:
            basis = expanded(part.process, fresh, at.X)
            count = basis.design(at).shape[1]
            shared = None if part.separate else fresh.normal((count, *given.columns))
            self.parts.append((part, basis, count, shared))

    def of_groups(self, groups: Tensor) -> list[Tensor]:
        """Coefficients (groups, count[, C]) of each part of groups' own."""
        counts = [count for part, _, count, _ in self.parts if part.separate]
        if not counts:
            return []
        drawn, first, found = self._drawn(groups, sum(counts)), 0, []
        for count in counts:
            found.append(drawn[:, first : first + count])
            first = first + count
        return found

    def coefficients(self, design: LowRankDesign) -> Tensor:
        """The function's coefficients in such a design, shared ones first: (k,) or (k, C)."""
        own = iter(self.of_groups(design.codes.max() + 1))
        found: list[list[Tensor]] = [[], []]
        for (part, basis, _, shared), (_, seen) in zip(self.parts, design.parts, strict=True):
            weights = next(own) if part.separate else shared
            if not isinstance(part.process, BasisProcess):
                weights = self._of_inducing(basis, seen.inducing_root, weights, part.separate)
            found[part.separate].append(weights)
        if found[1]:
            columns = pt.concatenate(found[1], axis=1)
            found[0].append(columns.reshape((-1, *self._given.columns)))
        return pt.concatenate(found[0])

    def _of_inducing(
        self, basis: BasisProcess, root: Tensor, weights: Tensor, separate: bool
    ) -> Tensor:
        """Whitened values at inducing points for coefficients (count, ...) or (G, count, ...)."""
        by_count = weights.swapaxes(0, 1) if separate else weights
        u = cast("Operator", self._given.inducing)
        values = pt.dot(basis.design(u), by_count.reshape((by_count.shape[0], -1)))
        found = solve_root(root, values)
        found = found.reshape((found.shape[0], *tuple(by_count.shape)[1:]))
        return found.swapaxes(0, 1) if separate else found

    def moved(self, design: LowRankDesign, operator: Operator, update: Tensor) -> Tensor:
        """What coefficients as of `coefficients` add to an operator's values; 0 for new groups."""
        if isinstance(operator, Composite):
            return operator.assembled(
                [self.moved(design, part, update) for part in operator.parts], axis=0
            )
        if not any(part.separate for part, *_ in self.parts):
            return pt.dot(design.design(operator), update)
        F, E, G = design.design(operator), design.of_groups(operator), design.codes.max() + 1
        u = update[F.shape[1] :].reshape((G, E.shape[1], *self._given.columns))
        places = pt.minimum(self._process.group(cast("AtPoints", operator)), G)
        own = pt.concatenate([u, pt.zeros((1, *tuple(u.shape)[1:]))])[places]
        return pt.dot(F, update[: F.shape[1]]) + of_each_row(E, own)

    def _drawn(self, groups: Tensor, count: TensorLike) -> Tensor:
        return self._fresh.of_groups((groups, count, *self._given.columns))

    def __call__(self, operator: Operator) -> Tensor:
        """Values (len,), or (len, C) of classes."""
        if isinstance(operator, Composite):
            return operator.assembled([self(part) for part in operator.parts], axis=0)
        at = cast("AtPoints", operator)
        bare, codes = self._process.bare(at), self._process.group(at)
        groups = pt.maximum(codes.max() + 1, 1)  # none, where constraints are of no group
        own = iter(self.of_groups(groups))
        total: Any = 0.0
        for part, basis, _, shared in self.parts:
            if part.separate:
                found = of_each_row(basis.design(bare), next(own)[codes])
            else:
                found = by_class(basis.values, bare, shared, self._given)
            loadings = part.loadings(at)
            if loadings is not None:
                found = by_rows(found.reshape((codes.shape[0], -1)), loadings).reshape(found.shape)
            total = total + found
        return total


def of_each_row(design: Tensor, coefficients: Tensor) -> Tensor:
    """Values (m c,) or (m c, C), from a design (m c, k) and each row's coefficients (m, k[, C])."""
    by_row = design.reshape((coefficients.shape[0], -1, design.shape[1]))
    if coefficients.ndim == 2:
        return (by_row * coefficients[:, None]).sum(axis=2).ravel()
    # PyTensor types the arguments of matmul as NumPy's.
    found = pt.matmul(by_row, coefficients)  # type: ignore[arg-type]
    return found.reshape((-1, coefficients.shape[2]))


def by_class(
    values: Callable[[Operator, Tensor], Tensor],
    operator: Operator,
    weights: Tensor,
    given: Conditioning,
) -> Tensor:
    """Values of an operator for weights (k,), or as columns for weights (k, C) of classes."""
    if weights.ndim == 1:
        return values(operator, weights)
    return pt.stack([values(operator, weights[:, c]) for c in given.labels], axis=1)
