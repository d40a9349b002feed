"""Conditioning through coefficients: bases of strategies that use M of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.numerics.linear_algebra import solve_root
from bayes_gpx.posteriors.base import Conditioning, Found, Strategy
from bayes_gpx.posteriors.constraints import Constraints
from bayes_gpx.posteriors.evidence.groups import Between
from bayes_gpx.posteriors.evidence.row_bounds import AtRows, Rows
from bayes_gpx.posteriors.evidence.sites import Sites
from bayes_gpx.posteriors.evidence.step_graphs import of_class
from bayes_gpx.posteriors.low_rank import LowRank, LowRankDesign
from bayes_gpx.posteriors.prior_functions import Fresh, IndexedFunction, by_class, prior_function
from bayes_gpx.posteriors.strategies.collapsed import Collapsed
from bayes_gpx.processes.base import Process
from bayes_gpx.processes.basis_process import BasisProcess
from bayes_gpx.processes.class_process import SeparateProcesses
from bayes_gpx.processes.indexed_process import IndexedProcess
from bayes_gpx.processes.operators import Operator


class ThroughCoefficients(Strategy):
    """Conditioning on M coefficients, of basis functions or of inducing values."""

    def design(
        self,
        given: Conditioning,
        label: TensorLike | None = None,
        y: Tensor | None = None,
        sigma: TensorLike = 0.0,
    ) -> LowRankDesign:
        """What was observed, as it depends on the coefficients."""
        process = process_of(given, label)
        return LowRankDesign(process, y, sigma, given.X, given.Z, given.inducing, given.jitter)

    @abstractmethod
    def posterior(
        self, given: Conditioning, found: Found, label: TensorLike | None = None
    ) -> LowRank:
        """A `LowRank`."""

    def through(
        self, given: Conditioning, found: Found, label: TensorLike | None = None
    ) -> LowRank:
        """The posterior from a summary of the data; for out-of-core data, at new rows."""
        seen = self.design(given, label)
        if given.parts is not None:
            seen = replace(seen, X=None, y=None, Z=None)
        return LowRank(seen, found.alpha, found.root)

    def between(self, given: Conditioning, sites: Sites) -> list[Between]:
        """How rows vary together, for each class with an independent posterior."""
        F, root = self.design(given).F, self.condition(given).root
        if not given.columns:
            return [Between(solve_root(root, F.T))]
        return [Between(solve_root(root[c], of_class(F, c).T)) for c in range(*given.columns)]

    def by_design(
        self, given: Conditioning, of: Callable[[LowRankDesign, Tensor], Tensor], values: Tensor
    ) -> Tensor:
        """A function of the design and of values (k,) or (k, C); of each class with its own."""
        # A subclass's own design may have such values in it.
        design = partial(ThroughCoefficients.design, self, given)
        if not isinstance(given.process, SeparateProcesses):
            return of(design(), values)
        each = [of(design(c), values[:, c]) for c in given.labels]
        return pt.stack(each, axis=1)

    def update(self, given: Conditioning, found: Found, fresh: Fresh) -> Tensor:
        """Drawn coefficients; with inducing points, minus the prior function's coefficients."""
        basis = given.inducing is None and not isinstance(given.process, IndexedProcess)
        prior = None if basis else prior_function(given, fresh)
        normal = fresh.normal((found.alpha.shape[0], *given.columns))
        of_class = [self.posterior(given, found, label) for label in given.labels]
        if given.columns:
            drawn = pt.stack([q.drawn(normal[:, c]) for c, q in enumerate(of_class)], axis=1)
        else:
            drawn = of_class[0].drawn(normal)
        if prior is None:
            return drawn
        if isinstance(prior, IndexedFunction):
            return drawn - prior.coefficients(self.design(given))
        at_inducing = prior(cast(Operator, given.inducing))
        known = self.by_design(
            given, lambda seen, values: solve_root(seen.inducing_root, values), at_inducing
        )
        return drawn - known

    def function(
        self, given: Conditioning, update: Tensor, fresh: Fresh
    ) -> Callable[[Operator], Tensor]:
        if given.inducing is None and not isinstance(given.process, IndexedProcess):

            def of_basis(operator: Operator, seen: LowRankDesign, values: Tensor) -> Tensor:
                return by_class(cast(BasisProcess, seen.process).values, operator, values, given)

            return lambda operator: self.by_design(given, partial(of_basis, operator), update)
        prior = prior_function(given, fresh)
        if isinstance(prior, IndexedFunction):
            design = self.design(given)
            return lambda operator: prior(operator) + prior.moved(design, operator, update)

        def moved(operator: Operator, seen: LowRankDesign, values: Tensor) -> Tensor:
            return pt.dot(seen.design(operator), values)

        return lambda operator: (
            prior(operator) + self.by_design(given, partial(moved, operator), update)
        )

    def inducing_moments(self, given: Conditioning) -> list[Tensor]:
        """Mean of the inducing values, (M,) or (M, C), and a factor of their covariance.

        The factor is lower triangular, (M, M) or (C, M, M).
        """
        alpha, root, *_ = self.condition(given)
        mean = self.by_design(given, lambda seen, v: pt.dot(seen.inducing_root, v), alpha)
        each = []
        for label in given.labels:
            own = root if label is None else root[label]
            half = solve_root(own, self.design(given, label).inducing_root.T)
            each.append(pt.linalg.cholesky(pt.dot(half.T, half), lower=True, on_error="nan"))
        return [mean, pt.stack(each) if given.columns else each[0]]


class CollapsedCoefficients(ThroughCoefficients, Collapsed):
    """Conditioning on coefficients with a density of y: constraints see what rows share."""

    def constraint_parts(self, given: Conditioning, seen: LowRankDesign) -> list[Tensor]:
        """How constrained quantities depend on shared coefficients (k, M), and variances around it.

        And their bounds; nothing without constraints.
        """
        if not self.constrained:
            return []
        constraints, constrained = cast(Constraints, given.constraints), given.constrained
        G, V = seen.design(constrained), pt.constant(constraints.sd**2)
        if seen.rest:  # what inducing values leave of a constrained quantity is like noise
            left = given.process.variance(constrained) - pt.sqr(G).sum(axis=1)
            V = V + pt.maximum(left, 0.0)
        return [G, V, *self.bounds(given)]

    _best: Any
    """Log joint density of y and constraints or its bound, the best posterior, and `AtRows`."""

    def _of(self, given: Conditioning) -> Any:
        """The density of the data given any constraints, the best posterior, and `AtRows`."""
        parts, n = self.parts(given), given.y.shape[0]
        joint, best, at = self._best(given.likelihood, given.y, *parts)
        return joint - self.log_constraint(*parts), best, AtRows(*(v[:n] for v in at))

    def apart(self, parts: Sequence[Tensor]) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """What `parts` have of rows, and what they have of constraints."""
        return (parts[:-4], parts[-4:]) if self.constrained else (parts, ())

    @property
    def constraint_signature(self) -> str:
        """Core shapes of `constraint_parts`, as the end of a signature."""
        return ",(q,m),(q),(q),(q)" if self.constrained else ""

    def constraint_covariance(self, *parts: Tensor) -> Tensor:
        G, V = parts[-4:-2]
        return pt.dot(G, G.T) + pt.diag(V)


def process_of(given: Conditioning, label: TensorLike | None) -> Process:
    """The process of a class with a kernel of its own; otherwise the one of all classes."""
    process = given.process
    own = label is not None and isinstance(process, SeparateProcesses)
    return cast(SeparateProcesses, process).of(cast(TensorLike, label)) if own else process


def couples(given: Conditioning) -> bool:
    """Whether the data couple several classes."""
    return bool(given.columns) and not given.likelihood.processes


def refuse_parts(given: Conditioning) -> None:
    """Raise if leaving rows out needs all others in memory, and data are out-of-core."""
    if given.parts is not None:
        raise ValueError(
            "The training rows are out-of-core data, but leaving one out needs all others in "
            "memory. Use rows in memory, or sufficient statistics: HSGP with normal noise, in a "
            "GPX with sigma_w fixed at 0. Fit a sample of the rows."
        )


def block_of(given: Conditioning) -> tuple[Conditioning, Rows]:
    """Symbols of the observations in a block of rows, and their arrays or out-of-core rows."""
    names = [name for name in ("X", "Z", "y", "exposure") if getattr(given, name) is not None]
    if given.parts is not None:
        return given, {getattr(given, name): given.parts for name in names}
    arrays = {name: pt.as_tensor_variable(getattr(given, name)) for name in names}
    types = {name: v.type.clone(shape=(None, *v.type.shape[1:])) for name, v in arrays.items()}
    symbols = {name: own(name) for name, own in types.items()}
    block = replace(given, **symbols)
    own = {name: values[block.outputs] for name, values in given.noise.items()}
    rows = {symbols[name]: arrays[name] for name in names}
    return replace(block, theta=given.theta | own), rows
