"""A Gaussian variational posterior of a process's coefficients, and the bound that it reaches.

Latent values are ``f = F v + rest``: coefficients v, standard normal a priori, and independent
normal remainders. q(v) = N(m, P^-1) maximises the bound on the log evidence (ELBO), by natural
gradients, which for normal noise arrive in one step; the remainders keep their prior. At the
maximum the bound's derivatives in F and in the remainders' variances need no others.

References
----------
Hensman, Matthews and Ghahramani, "Scalable variational Gaussian process classification" (2015);
Khan and Lin, "Conjugate-computation variational inference" (2017), for the steps.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.graph.replace import clone_replace
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.sparse.linalg import LinearOperator, cg

from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.numerics.gaussian_expectations import standard_nodes
from bayes_gpx.numerics.threads import Copies
from bayes_gpx.posteriors.evidence.newton import ascend

STEPS, HALVINGS = 100, 30
"""Most steps to the maximum of the bound, and most halvings of one step."""

TOLERANCE = 1e-9
"""Precision of the latent values' means and variances, as a share of their size."""

LARGEST_MISS = 1e-4
"""Largest difference of coefficients and precisions from their fixed point, likewise."""

SOLVED = 1e-8
"""Share of a Newton step's right-hand side that conjugate gradients may leave as a residual."""

LEAST_SHARE = 0.45
"""Least share that is taken of the precisions' steps, however much these swing to and fro."""

LEAST_SD = 1e-6
"""Least standard deviation of a latent value: expectations divide by it."""

BLOCK = 2**18
"""Most numbers in an array over observations and nodes."""

KEPT = 2**22
"""Numbers in F up to which it is kept from step to step, 32 MB; more are computed anew."""


class _State(NamedTuple):
    """A variational posterior, and what follows from it.

    Coefficients (C, M), precisions P and root (C, M, M); mean, variance, slope and W (n, C);
    information (n, C, C), with one class None. From these follow the bound's derivative in the
    coefficients' share of the latent values, `pull` (C, M), and what the precisions are at the
    maximum, `aim` (C, M, M). `swing` is the precisions' last step, None before there was one, and
    `damping` the share of their next step that is tried first.
    """

    bound: float
    apart: float
    coefficients: np.ndarray
    P: np.ndarray
    root: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    slope: np.ndarray
    W: np.ndarray
    information: np.ndarray | None
    pull: np.ndarray
    aim: np.ndarray
    damping: float = 1.0
    swing: np.ndarray | None = None


class Search:
    """Search for the variational posterior with the highest bound, by sums over blocks of rows.

    Parameters
    ----------
    likelihood : object
        See `bayes_gpx.likelihoods`.
    """

    def __init__(self, likelihood):
        self.likelihood, self.classes = likelihood, likelihood.classes or 1

    @property
    def rows(self):
        """Rows of a block, for arrays over its rows and the nodes of a quadrature."""
        return max(1, BLOCK // standard_nodes(self.likelihood.classes)[0].size)

    @cached_property
    def _own(self):
        return Copies(lambda: self._compiled)

    @cached_property
    def _compiled(self):
        several = bool(self.likelihood.class_shape)
        wide = pt.dmatrix if several else pt.dvector
        mean, sd, y, exposure = wide("mean"), wide("sd"), pt.dvector("y"), pt.dvector("exposure")
        own = [pt.dscalar(name) for name in self.likelihood.hyperparameters]
        theta = dict(zip(self.likelihood.hyperparameters, own, strict=True))
        outputs = [*self.likelihood.expected_log(mean, sd, y, theta, exposure)]
        if several:
            outputs.append(self.likelihood.expected_information(mean, sd))
        options = {"mode": MODE, "on_unused_input": "ignore", "trust_input": True}
        return [pytensor.function([mean, sd, y, exposure, *own], outputs, **options)]

    def highest(self, blocks, *others):
        """The best variational posterior for the observations in `others`; None without any.

        `blocks` makes iterators over blocks of rows: a slice, F (b, M) and rest (b,). Searched
        from this thread's last posterior on, a matter of time alone where there is one optimum;
        from the prior where there may be several, and where none was found.
        """
        M, C = next(blocks())[1].shape[1], self.classes
        starts = [(np.zeros((C, M)), np.tile(np.eye(M), (C, 1, 1)))]
        last = self._own.last if self.likelihood.concave else None
        if last is not None and last[0].shape == (C, M):
            starts.insert(0, last)
        for start in starts:
            state = self._climb(start, blocks, others)
            if state is not None:
                self._own.last = state.coefficients, state.P
                return state
        return None

    def _climb(self, start, blocks, others):
        state = self._at(*start, blocks, others)
        if state is None:
            return None
        given = self._at, blocks, others
        there, state = ascend(state, _direction, _step, given, STEPS, HALVINGS, TOLERANCE)
        arrived = there and _apart(state.coefficients, state.pull) <= LARGEST_MISS
        return state if arrived and _apart(state.P, state.aim) <= LARGEST_MISS else None

    def _at(self, coefficients, P, blocks, others):
        """What N(coefficients, P^-1) implies; None where it is none or has no finite bound.

        Coefficients (C, M) and precisions P (C, M, M).
        """
        try:
            root = np.linalg.cholesky(P)
        except np.linalg.LinAlgError:
            return None
        eye = np.eye(P.shape[1])
        inverse = [solve_triangular(L, eye, lower=True, check_finite=False) for L in root]
        gap = (coefficients**2).sum() - coefficients.size + sum((K**2).sum() for K in inverse)
        gap += 2.0 * sum(np.log(np.diag(L)).sum() for L in root)
        expected, found = 0.0, []
        pull, aim = np.zeros(coefficients.shape), np.tile(eye, (len(P), 1, 1))
        for block, F, rest in blocks():
            mean = F @ coefficients.T
            variance = np.stack([((F @ K.T) ** 2).sum(axis=1) for K in inverse], axis=1)
            local = self._expect(mean, variance + rest[:, None], block, others)
            logp, slope, W, _ = local
            expected += logp.sum()
            if not np.isfinite(expected):
                return None
            pull += slope.T @ F
            for own, w in zip(aim, W.T, strict=True):
                own += _weighed(F, w)
            found.append((mean, variance, *local[1:]))
        mean, variance, slope, W, information = zip(*found, strict=True)
        several = information[0] is not None
        arrays = (np.concatenate(v) for v in (mean, variance, slope, W))
        information = np.concatenate(information) if several else None
        bound = expected - 0.5 * gap
        if not np.isfinite(bound):
            return None
        return _State(bound, np.inf, coefficients, P, root, *arrays, information, pull, aim)

    def _expect(self, mean, variance, block, others):
        """Sum of E[log p(y | f)], and its derivatives as `expected_log` gives them, (b, C)."""
        (y, exposure), own, C = (v[block] for v in others[:2]), others[2:], self.likelihood.classes
        sd = np.sqrt(np.maximum(variance, LEAST_SD**2))
        two = (np.ascontiguousarray(v if C else v[:, 0]) for v in (mean, sd))
        logp, slope, W, *information = self._own.functions[0](*two, y, exposure, *own)
        W = np.maximum(W, 0.0) if self.likelihood.concave else W
        slope, W = (v.reshape((len(y), -1)) for v in (slope, W))
        return logp, slope, W, information[0] if C else None


def _weighed(F, w):
    """F' diag(w) F, (M, M); where w is nowhere negative, with half of the products."""
    if (w < 0.0).any():
        return (F * w[:, None]).T @ F
    half = F * np.sqrt(w)[:, None]
    return half.T @ half


def _parts(F, rest, size):
    """Blocks of rows of F (n, M) and rest (n,)."""
    for first in range(0, len(F), size):
        block = slice(first, first + size)
        yield block, F[block], rest[block]


class VariationalBound(Op):
    """(F, rest, y, exposure, *hyperparameters) -> bound, and what its gradient is made of.

    F (n, M) is the design of the coefficients in the latent values, `rest` (n,) the remainders'
    variances. Outputs, after the bound: its derivatives in F and in `rest`; the coefficients' mean
    and the root of their precision; then at the observations the slope of E[log p(y | f)] in f's
    mean, -2 times that in f's variance, and that variance without `rest`. With several classes,
    whose posteriors are independent, these have a dimension more: coefficients (C, M), root
    (C, M, M), and the last three (n, C). Where the bound is not finite, or its maximum not found,
    it is -inf and the gradient zero. Only the bound is differentiable.

    Parameters
    ----------
    likelihood : object
        See `bayes_gpx.likelihoods`.
    """

    __props__ = ("likelihood",)
    interpreted = True

    def __init__(self, likelihood):
        self.likelihood = likelihood

    def make_node(self, F, rest, y, exposure, *hyperparameters):  # noqa: D102
        inputs = [pt.as_tensor_variable(v) for v in (F, rest, y, exposure, *hyperparameters)]
        more = len(self.likelihood.class_shape)
        types = [2, 1, 1 + more, 2 + more, *[1 + more] * 3]
        outputs = [pt.dscalar(), *(pt.tensor(shape=(None,) * k, dtype="float64") for k in types)]
        return Apply(self, inputs, outputs)

    @cached_property
    def search(self):
        """How the best posterior is found."""
        return Search(self.likelihood)

    def perform(self, node, inputs, output_storage):  # noqa: D102
        F, rest, *others = (np.asarray(v, "float64") for v in inputs)
        with np.errstate(all="ignore"):
            state = self.search.highest(lambda: _parts(F, rest, self.search.rows), *others)
            found = self._failed(F) if state is None else self._outputs(F, state)
        for storage, value in zip(output_storage, found, strict=True):
            storage[0] = np.asarray(value)

    def _failed(self, F):
        (n, M), C = F.shape, self.likelihood.classes or 1
        shapes = (C, M), (C, M, M), *[(n, C)] * 3
        empty = [np.zeros(shape) for shape in shapes]
        return -np.inf, np.zeros((n, M)), np.zeros(n), *self._squeezed(*empty)

    def _outputs(self, F, state):
        half = [solve_triangular(L, F.T, lower=True, check_finite=False) for L in state.root]
        back = [
            solve_triangular(L, h, lower=True, trans="T")
            for L, h in zip(state.root, half, strict=True)
        ]
        in_F = state.slope @ state.coefficients
        in_F -= sum(w[:, None] * b.T for w, b in zip(state.W.T, back, strict=True))
        kept = state.coefficients, state.root, state.slope, state.W, state.variance
        return state.bound, in_F, -0.5 * state.W.sum(axis=1), *self._squeezed(*kept)

    def _squeezed(self, coefficients, root, *vectors):
        if self.likelihood.class_shape:
            return coefficients, root, *vectors
        return coefficients[0], root[0], *(v[:, 0] for v in vectors)

    def pullback(self, inputs, outputs, cotangents):  # noqa: D102
        if any(not isinstance(c.type, DisconnectedType) for c in cotangents[1:]):
            raise NotImplementedError(
                "Of the variational posterior only the bound is differentiable. Explain after "
                "fitting, or draw coefficients in the model."
            )
        weight, (F, rest, y, exposure, *hyperparameters) = cotangents[0], inputs
        unknown = [DisconnectedType()() for _ in (y, exposure)]
        slopes = [weight * outputs[1], weight * outputs[2], *unknown]
        if not hyperparameters:
            return slopes
        coefficients, variance = outputs[3], outputs[7]
        spread = rest[:, None] if self.likelihood.class_shape else rest
        sd = pt.sqrt(pt.maximum(variance + spread, LEAST_SD**2))
        own = [pt.scalar(h.name, dtype="float64") for h in hyperparameters]
        theta = dict(zip(self.likelihood.hyperparameters, own, strict=True))
        mean = pt.dot(F, coefficients.T)
        logp = self.likelihood.expected_log(mean, sd, y, theta, exposure)[0]
        found = pt.grad(logp.sum(), own, consider_constant=[mean, sd])
        found = clone_replace(found, dict(zip(own, hyperparameters, strict=True)))
        return [*slopes, *(weight * slope for slope in found)]

    def connection_pattern(self, node):  # noqa: D102
        connected = [True, True, False, False, *[True] * (len(node.inputs) - 4)]
        return [[own] * len(node.outputs) for own in connected]

    def infer_shape(self, node, shapes):  # noqa: D102
        n, M = shapes[0]
        classes = self.likelihood.class_shape
        last = [(n, *classes)] * 3
        return [(), (n, M), (n,), (*classes, M), (*classes, M, M), *last]

    def __getstate__(self):
        """Without what threads hold."""
        return {"likelihood": self.likelihood}

    def __setstate__(self, state):
        """Begin anew."""
        self.__init__(**state)


class BestCoefficients(Op):
    """(*parameters, y, exposure, *hyperparameters, *rows) -> bound, coefficients' mean and root.

    As `VariationalBound`, where F and `rest` follow from rows and are not kept for all rows if they
    are large. Nothing is differentiable: at the maximum the bound's derivatives need no others than
    those at this posterior.

    Parameters
    ----------
    likelihood : object
        See `bayes_gpx.likelihoods`.
    graph : RowGraph
        Its outputs are F (b, M) and `rest` (b,) of a block of rows.
    """

    __props__ = ("likelihood", "graph")
    interpreted = True

    def __init__(self, likelihood, graph):
        self.likelihood, self.graph = likelihood, graph

    def make_node(self, *inputs):  # noqa: D102
        k, own = len(self.graph.parameters), 2 + len(self.likelihood.hyperparameters)
        inner = self.graph.typed([*inputs[:k], *inputs[k + own :]])
        others = [pt.as_tensor_variable(v) for v in inputs[k : k + own]]
        more = len(self.likelihood.class_shape)
        outputs = [pt.tensor(shape=(None,) * n, dtype="float64") for n in (0, 1 + more, 2 + more)]
        return Apply(self, [*inner[:k], *others, *inner[k:]], outputs)

    @cached_property
    def search(self):
        """How the best posterior is found."""
        return Search(self.likelihood)

    def perform(self, node, inputs, output_storage):  # noqa: D102
        k, own = len(self.graph.parameters), 2 + len(self.likelihood.hyperparameters)
        others = [np.asarray(v, "float64") for v in inputs[k : k + own]]
        kept = None

        def blocks():
            if kept is not None:
                return iter(kept)
            made = self.graph.blocks(*inputs[:k], *inputs[k + own :])
            return ((block, *parts) for block, parts in made)

        with np.errstate(all="ignore"):
            made = blocks()
            first = next(made)
            M = first[1].shape[1]
            if len(others[0]) * M <= KEPT:
                kept = [first, *made]
            state = self.search.highest(blocks, *others)
        C = self.likelihood.classes or 1
        if state is None:
            found = -np.inf, np.zeros((C, M)), np.tile(np.eye(M), (C, 1, 1))
        else:
            found = state.bound, state.coefficients, state.root
        if not self.likelihood.class_shape:
            found = found[0], found[1][0], found[2][0]
        for storage, value in zip(output_storage, found, strict=True):
            storage[0] = np.asarray(value)

    def connection_pattern(self, node):  # noqa: D102
        return [[False] * 3 for _ in node.inputs]

    def __getstate__(self):
        """Without what threads hold."""
        return {"likelihood": self.likelihood, "graph": self.graph}

    def __setstate__(self, state):
        """Begin anew."""
        self.__init__(**state)


def _direction(state, given):
    """Steps of the coefficients (C, M) and precisions (C, M, M); see `ascend`."""
    try:
        return True, (_newton(state, given[1]), state.aim - state.P)
    except np.linalg.LinAlgError:
        return False, None


def _step(state, way, share, given):
    """The state a share of a direction further."""
    at, *others = given
    coefficients = state.coefficients + share * way[0]
    tried = at(coefficients, state.P + share * state.damping * way[1], *others)
    if tried is None:
        return False, None
    swing = tried.P - state.P
    apart = max(_apart(state.mean, tried.mean), _apart(state.variance, tried.variance))
    damping = _damping(state.damping, share, swing, state.swing)
    return True, tried._replace(apart=apart, damping=damping, swing=swing)


def _newton(state, blocks):
    """Step of the coefficients (C, M) towards the maximum, with the curvature of all classes.

    By conjugate gradients from the steps that classes would take apart, so that nothing of size
    (C M)^2 is formed.
    """
    slope = state.pull - state.coefficients
    if len(state.aim) == 1:
        return _uphill(state.aim[0], state.P[0], slope[0])[None]
    roots = [cho_factor(one, lower=True, check_finite=False) for one in state.aim]

    def curved(v):
        total = np.zeros(slope.shape)
        for block, F, _ in blocks():
            f = F @ v.reshape(slope.shape).T
            total += np.matmul(state.information[block], f[:, :, None])[:, :, 0].T @ F
        return v + total.ravel()

    def apart(v):
        each = zip(roots, v.reshape(slope.shape), strict=True)
        return np.concatenate([cho_solve(root, one, check_finite=False) for root, one in each])

    shape = (slope.size, slope.size)
    joint, near = (LinearOperator(shape, matvec=f, dtype=float) for f in (curved, apart))
    step, _ = cg(joint, slope.ravel(), rtol=SOLVED, atol=0.0, maxiter=slope.size, M=near)
    return step.reshape(slope.shape)


def _uphill(curvature, metric, slope):
    """A Newton step (M,); where the bound is not concave, one that goes uphill by this metric."""
    try:
        root = cho_factor(curvature, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        root = cho_factor(metric, lower=True, check_finite=False)
    return cho_solve(root, slope, check_finite=False)


def _damping(damping, share, moved, before):
    """Share that the precisions' next steps begin with: less where they swing to and fro.

    If a step is rho times the last one, damping / (1 - rho) would have led to the end at once.
    """
    if before is None or share < 1.0:
        return damping
    rho = (moved * before).sum() / max((before**2).sum(), 1e-300)
    return float(np.clip(damping / max(1.0 - rho, 1e-300), LEAST_SHARE, 1.0))


def _apart(old, new):
    return np.abs(new - old).max() / (1.0 + np.abs(new).max())


class Fitted(NamedTuple):
    """What `VariationalBound` finds, by name."""

    bound: pt.TensorVariable
    coefficients: pt.TensorVariable
    root: pt.TensorVariable
    slope: pt.TensorVariable
    W: pt.TensorVariable
    variance: pt.TensorVariable


def variational(likelihood, F, rest, y, theta, exposure):
    """The best Gaussian posterior of coefficients for symbolic arguments, a `Fitted`."""
    own = [theta[name] for name in likelihood.hyperparameters]
    bound, _, _, *rest_of = VariationalBound(likelihood)(F, rest, y, exposure, *own)
    return Fitted(bound, *rest_of)
