"""A Gaussian variational posterior of a process's coefficients, with its bound.

Latent values are ``f = F v + rest``: coefficients v, standard normal a priori, and independent
normal remainders. q(v) = N(m, P^-1) maximizes the ELBO by natural gradients, which converge in one
step for a Gaussian likelihood; the remainders keep their prior. A step needs only sums and maxima
over rows, so data may be out-of-core.

References
----------
Hensman, Matthews and Ghahramani, "Scalable variational Gaussian process classification" (2015);
Khan and Lin, "Conjugate-computation variational inference" (2017), for the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from scipy.linalg import block_diag, cho_factor, cho_solve, solve_triangular
from scipy.sparse.linalg import LinearOperator, cg

from bayes_gpx.numerics.row_sums import RowGraph, RowParts
from bayes_gpx.numerics.threads import Copies, MadeAnew
from bayes_gpx.posteriors.evidence.intervals import WithoutGradient
from bayes_gpx.posteriors.evidence.newton import (
    CERTAIN,
    Past,
    ascend,
    at_mode,
    mixed_direction,
    mixed_step,
)
from bayes_gpx.posteriors.evidence.step_graphs import StepGraphs

TOLERANCE = 1e-10
"""Precision of the latent values' means and variances, as a share of their size."""

LARGEST_MISS = 1e-4
"""Largest difference of coefficients and precisions from their fixed point, likewise."""

SOLVED = 1e-8
"""Share of a Newton step's right-hand side that conjugate gradients may leave as a residual."""

PAIRED = 512
"""Most coefficients of all classes for which a Newton step computes their curvature as a matrix:
this then takes less time than some hundred products with it."""

KEPT = 2**22
"""Most numbers in F, 32 MB, for which it is kept between steps; otherwise it is recomputed."""


class _State(NamedTuple):
    """A variational posterior, and quantities that follow from it, also with one class."""

    bound: float
    apart: float  # distance of the latent values from the previous state
    coefficients: np.ndarray  # (C, M)
    P: np.ndarray  # (C, M, M), precisions
    root: np.ndarray  # (C, M, M), of P
    inverse: np.ndarray  # (C, M, M), of the root
    pull: np.ndarray  # (C, M), the bound's derivative in the coefficients through latent values
    aim: np.ndarray  # (C, M, M), the precisions at the maximum
    # The rows' information about several classes, (b, C, C) of each block, or its sum in
    # `StepGraphs`.
    information: Sequence[np.ndarray] | np.ndarray = ()
    past: Past = ()

    @property
    def point(self) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and precisions; see `newton.mixed_direction`."""
        return self.coefficients, self.P


class Search:
    """Search for the variational posterior with the highest bound; arguments as in `StepGraphs`."""

    def __init__(self, likelihood: Any, graph: RowGraph) -> None:
        self.likelihood, self.graph, self.classes = likelihood, graph, likelihood.classes or 1
        self._own, self._graphs = Copies(tuple), dict[tuple[bool, bool], StepGraphs]()

    def highest(
        self, columns: int, parameters: Sequence, theta: Sequence, rows: Sequence
    ) -> _State | None:
        """The best variational posterior of `columns` coefficients; None if none was found.

        `parameters` and `rows` belong to the graph, `theta` are hyperparameters of the likelihood.
        With one optimum the search starts at this thread's last posterior, to save time. It starts
        at the prior if there may be several, and after a failure, and then at the mode.
        """
        seen = self._seen(columns, parameters, theta, rows)
        shape = self.classes, columns
        prior = np.zeros(shape), np.tile(np.eye(columns), (self.classes, 1, 1))
        starts: list[Callable] = [lambda: prior, partial(at_mode, *prior, seen)]
        if self.likelihood.processes:
            starts.insert(0, partial(_at_center, *prior, seen))
        last = self._own.last if self.likelihood.concave else None
        if last is not None and last[0].shape == shape:
            starts.insert(0, lambda: last)
        for start in starts:
            state = _climb(start(), seen)
            if state is not None:
                self._own.last = state.coefficients, state.P
                return state
        return None

    def _seen(self, columns: int, parameters: Sequence, theta: Sequence, rows: Sequence) -> _Seen:
        """The rows as they are, or with all F at hand, if these are few numbers."""
        in_parts = not isinstance(rows[0], np.ndarray)
        made_anew = [*self.graph.outputs] != [*self.graph.rows]
        at_hand = made_anew and not in_parts and len(rows[0]) * columns <= KEPT
        graphs = self._graphs_of(at_hand, in_parts or self.classes * columns <= PAIRED)
        if not at_hand:
            return _Seen(graphs, parameters, theta, rows)
        blocks = (found for _, found in self.graph.blocks(*parameters, *rows))
        return _Seen(graphs, [], theta, [*map(np.concatenate, zip(*blocks, strict=True))])

    def _graphs_of(self, at_hand: bool, coupled: bool) -> StepGraphs:
        graph, key = self.graph, (at_hand, coupled)
        if key not in self._graphs:
            if at_hand:
                made = [v.type() for v in graph.outputs]
                graph = RowGraph([], [], made, made, graph.size)
            self._graphs[key] = StepGraphs(self.likelihood, graph, coupled)
        return self._graphs[key]


class _Seen(NamedTuple):
    """Rows, and their graphs for a search."""

    graphs: StepGraphs
    parameters: Sequence
    theta: Sequence
    rows: Sequence

    def at(
        self, coefficients: np.ndarray, P: np.ndarray, before: _State | None = None
    ) -> _State | None:
        """What N(coefficients, P^-1) implies; None where it is none or has no finite bound."""
        try:
            root = np.linalg.cholesky(P)
        except np.linalg.LinAlgError:
            return None
        eye = np.eye(P.shape[1])
        each = [solve_triangular(L, eye, lower=True, check_finite=False) for L in root]
        inverse = np.stack(each)
        gap = (coefficients**2).sum() - coefficients.size + (inverse**2).sum()
        gap += 2.0 * sum(np.log(np.diag(L)).sum() for L in root)
        q = coefficients, inverse
        last = q if before is None else (before.coefficients, before.inverse)
        known = *self.parameters, *q, *last, *self.theta
        total: Any = self.graphs.sums.total(*known, *self.rows)
        expected, pull, aim, changes, *told = total
        bound = expected - 0.5 * gap
        if not np.isfinite(bound):
            return None
        apart = (changes[::2] / (1.0 + changes[1::2])).max()
        return _State(bound, apart, coefficients, P, root, inverse, pull, aim + eye, *told)

    def step(self, state: _State) -> tuple[np.ndarray, np.ndarray]:
        """The plain step of coefficients and precisions."""
        return _newton(state, self), state.aim - state.P

    def curvature(self, state: _State) -> Callable[[np.ndarray], np.ndarray]:
        """Function from v (C, M) to its product with the bound's curvature."""
        information = np.concatenate(state.information)

        def curved(v: np.ndarray) -> np.ndarray:
            given = *self.parameters, v, *self.rows, information
            return v + self.graphs.curved.total(*given)[0]

        return curved


def _at_center(center: np.ndarray, P: np.ndarray, seen: _Seen) -> tuple[np.ndarray, np.ndarray]:
    """The prior mean, and the precisions that rows imply where latent values are hardly uncertain.

    A log standard deviation that is as uncertain as a priori makes residuals improbable without
    bound, and steps from there end nowhere.
    """
    state = seen.at(center, CERTAIN * P)
    return center, P if state is None else state.aim


def _climb(start: tuple[np.ndarray, np.ndarray], seen: _Seen) -> _State | None:
    state = seen.at(*start)
    if state is None:
        return None
    there, state = ascend(state, mixed_direction, mixed_step, seen, TOLERANCE)
    arrived = there and _apart(state.coefficients, state.pull) <= LARGEST_MISS
    return state if arrived and _apart(state.P, state.aim) <= LARGEST_MISS else None


class BestCoefficients(MadeAnew, WithoutGradient):
    """(columns, *parameters, *hyperparameters, *rows) -> bound, coefficients' mean and root.

    `columns` is the number of coefficients, the columns of F. Outputs are the ELBO, -inf if its
    maximum is not found; the mean of the coefficients (M,) and the root (M, M) of their precision.
    Several classes have independent posteriors, (C, M) and (C, M, M). Nothing is differentiable: at
    the maximum the bound's derivatives are those at a fixed posterior. `parts` has the rows, which
    are then no inputs; see `bayes_gpx.numerics.row_sums.RowSums`.
    """

    __props__ = ("likelihood", "graph", "parts")
    interpreted = True

    def __init__(self, likelihood: Any, graph: RowGraph, parts: RowParts | None = None) -> None:
        self.likelihood, self.graph, self.parts = likelihood, graph, parts

    def _sorted(self, inputs: Sequence) -> tuple[Sequence, Sequence, Sequence]:
        """Parameters, hyperparameters and rows."""
        k = len(self.graph.parameters)
        own = k + len(self.likelihood.hyperparameters)
        return inputs[:k], inputs[k:own], inputs[own:]

    def make_node(self, columns: Any, *inputs: Any) -> Apply:  # noqa: D102
        parameters, theta, rows = self._sorted(inputs)
        inner, k = self.graph.typed([*parameters, *rows]), len(parameters)
        theta = [pt.as_tensor_variable(v) for v in theta]
        more = len(self.likelihood.class_shape)
        outputs = [pt.tensor(shape=(None,) * n, dtype="float64") for n in (0, 1 + more, 2 + more)]
        columns = pt.as_tensor_variable(columns)
        return Apply(self, [columns, *inner[:k], *theta, *inner[k:]], outputs)

    @cached_property
    def search(self) -> Search:
        """How the best posterior is found."""
        return Search(self.likelihood, self.graph)

    def perform(self, node: Apply, inputs: Sequence, output_storage: Sequence[list]) -> None:  # noqa: D102
        columns, C = int(inputs[0]), self.likelihood.classes or 1
        parameters, theta, rows = self._sorted(inputs[1:])
        theta = [np.asarray(v, "float64") for v in theta]
        rows = rows if self.parts is None else [self.parts] * len(self.graph.rows)
        with np.errstate(all="ignore"):
            state = self.search.highest(columns, parameters, theta, rows)
        if state is None:
            found = -np.inf, np.zeros((C, columns)), np.tile(np.eye(columns), (C, 1, 1))
        else:
            found = state.bound, state.coefficients, state.root
        if not self.likelihood.class_shape:
            found = found[0], found[1][0], found[2][0]
        for storage, value in zip(output_storage, found, strict=True):
            storage[0] = np.asarray(value)

    def do_constant_folding(self, fgraph: Any, node: Apply) -> bool:
        """Not for out-of-core rows: compiling reads nothing."""
        return self.parts is None


def _newton(state: _State, seen: _Seen) -> np.ndarray:
    """Step of the coefficients (C, M) towards the maximum, with the curvature of all classes.

    Many classes and columns use conjugate gradients, starting at the steps of separate classes, and
    form nothing of size (C M)^2. Each product takes a pass over the rows, which is too slow for
    out-of-core data.
    """
    slope = state.pull - state.coefficients
    if len(state.aim) == 1:
        return _uphill(state.aim[0], state.P[0], slope[0])[None]
    if seen.graphs.coupled:
        curvature, metric = state.information + np.eye(slope.size), block_diag(*state.aim)
        return _uphill(curvature, metric, slope.ravel()).reshape(slope.shape)
    roots = [cho_factor(one, lower=True, check_finite=False) for one in state.aim]
    curved = seen.curvature(state)

    def apart(v: np.ndarray) -> np.ndarray:
        each = zip(roots, v.reshape(slope.shape), strict=True)
        return np.concatenate([cho_solve(root, one, check_finite=False) for root, one in each])

    def joint(v: np.ndarray) -> np.ndarray:
        return curved(v.reshape(slope.shape)).ravel()

    return solved_jointly(joint, apart, slope.ravel()).reshape(slope.shape)


def solved_jointly(joint: Callable, apart: Callable, slope: np.ndarray) -> np.ndarray:
    """A Newton step for the curvature of all classes, by products with it, `joint`.

    `apart` solves for the curvature without couplings of classes, and gives the step where the
    joint curvature is not positive.
    """
    shape = (slope.size, slope.size)
    whole, near = (LinearOperator(shape, matvec=f, dtype=float) for f in (joint, apart))
    step, _ = cg(whole, slope, rtol=SOLVED, atol=0.0, maxiter=slope.size, M=near)
    return step if (step * slope).sum() > 0.0 else apart(slope)


def _uphill(curvature: np.ndarray, metric: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """A Newton step (M,); where the bound is not concave, one that goes uphill by this metric."""
    # Of the curvature the upper half is there.
    try:
        root = cho_factor(curvature, check_finite=False)
    except np.linalg.LinAlgError:
        root = cho_factor(metric, check_finite=False)
    return cho_solve(root, slope, check_finite=False)


def _apart(old: np.ndarray, new: np.ndarray) -> float:
    return np.abs(new - old).max() / (1.0 + np.abs(new).max())
