"""Laplace's approximation for several classes, whose latent values the data couple.

C independent processes with one covariance K (n, n) and a softmax. With W = A A' the information
at the mode, A_i = diag(sqrt p_i) (I - sqrt p_i sqrt p_i'), and B = I + A' (K x I) A = R R', the
posterior is the prior conditioned through C = A B^-1 A'. Vectors over observations and classes are
observation-major. Everything is dense: memory grows with (n C)^2.

References
----------
Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006), sections 3.5 and 5.5.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from scipy.linalg import solve_triangular

from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.numerics.threads import Copies
from bayes_gpx.posteriors.evidence.newton import ascend

LARGEST = 6000
"""Most observations times classes that a model may have."""

STEPS, HALVINGS = 200, 30
"""Most Newton steps to the joint mode, and most halvings of one step."""

TOLERANCE = 1e-11
"""Precision of the joint mode, as a share of the latent values' size."""

LARGEST_MISS = 1e-5
"""Largest difference of f and K times the slope, equal at the mode, as a share of f's size."""


def factor(p, eye=np.eye):
    """A, with A A' = diag(p) - p p' for each observation: (n, C) -> (n, C, C)."""
    root = p**0.5
    return root[:, :, None] * (eye(p.shape[1]) - root[:, :, None] * root[:, None, :])


class _State(NamedTuple):
    """Latent values f (n, C) with alpha = K^-1 f; log p(y | f), its slope and probabilities."""

    height: float
    apart: float
    f: np.ndarray
    alpha: np.ndarray
    logp: np.ndarray
    slope: np.ndarray
    p: np.ndarray


def _direction(state, given):
    """Newton's step of alpha and f, (n, C) each; see `ascend`."""
    K, A = given[0], factor(state.p)
    try:
        R, _ = _root(K, A)
    except np.linalg.LinAlgError:
        return False, None
    p, f = state.p, state.f
    b = p * (f - (p * f).sum(axis=1, keepdims=True)) + state.slope
    way = b - _against(R, A, K @ b) - state.alpha
    return True, (way, K @ way)


def _step(state, way, share, given):
    """The state a share of a direction further."""
    _, y, local = given
    alpha, f = state.alpha + share * way[0], state.f + share * way[1]
    logp, slope, p = local(np.ascontiguousarray(f), y)
    height = logp - 0.5 * (alpha * f).sum()
    apart = np.abs(f - state.f).max() / (1.0 + np.abs(f).max())
    return True, _State(height, apart, f, alpha, logp, slope, p)


class SoftmaxLaplace(Op):
    """(K, y) -> log evidence, and what its gradient is made of.

    y (n,) are codes. Outputs, after the log evidence: its derivative in K; alpha (n, C), the slope
    of log p(y | f) at the mode, with f = K alpha; R (n C, n C); the posterior covariances of each
    observation's latent values (n, C, C). Where no mode is found the log evidence is -inf and the
    gradient zero. Only the log evidence is differentiable.

    Parameters
    ----------
    likelihood : Categorical
    """

    __props__ = ("likelihood",)
    interpreted = True

    def __init__(self, likelihood):
        self.likelihood = likelihood

    def make_node(self, K, y):  # noqa: D102
        types = [pt.dscalar, pt.dmatrix, pt.dmatrix, pt.dmatrix, pt.dtensor3]
        inputs = [pt.as_tensor_variable(v) for v in (K, y)]
        return Apply(self, inputs, [kind() for kind in types])

    @cached_property
    def _own(self):
        return Copies(lambda: self._compiled)

    @cached_property
    def _compiled(self):
        f, y, M = pt.dmatrix("f"), pt.dvector("y"), pt.dtensor3("M")
        options = {"mode": MODE, "trust_input": True}
        own = self.likelihood
        local = [own.logp(f, y).sum(), own.derivatives(f, y)[0], own.response(f).value]
        return (
            pytensor.function([f, y], local, **options),
            pytensor.function([f, M], own.contracted(f, M), **options),
        )

    def perform(self, node, inputs, output_storage):  # noqa: D102
        K, y = (np.asarray(v, "float64") for v in inputs)
        with np.errstate(all="ignore"):
            mode = self._mode(K, y) if np.isfinite(K).all() else None
            found = self._failed(len(K)) if mode is None else self._evidence(K, *mode)
        for storage, value in zip(output_storage, found, strict=True):
            storage[0] = np.asarray(value)

    def _failed(self, n):
        C = self.likelihood.classes
        shapes = (n, n), (n, C), (n * C, n * C), (n, C, C)
        return -np.inf, *(np.zeros(shape) for shape in shapes)

    def _evidence(self, K, f, alpha, logp, p):
        """All outputs, at the mode f, with alpha = K^-1 f and probabilities p, (n, C) each."""
        (n, C), A = f.shape, factor(p)
        R, inner = _root(K, A)
        inverse = solve_triangular(R, np.eye(n * C), lower=True, check_finite=False)
        summed = ((inverse.T @ inverse) * inner).reshape((n, C, n, C)).sum(axis=(1, 3))
        known = inverse @ _spread(K, A)
        known = known.reshape((n * C, n, C)).transpose(1, 2, 0)
        cov = np.diag(K)[:, None, None] * np.eye(C) - known @ known.transpose(0, 2, 1)
        pull = -0.5 * self._own.functions[1](f, cov)
        moved = pull - _against(R, A, K @ pull)
        in_K = (0.5 * alpha + moved) @ alpha.T
        in_K = 0.5 * (in_K + in_K.T) - 0.5 * summed
        evidence = logp - 0.5 * (alpha * f).sum() - np.log(np.diag(R)).sum()
        return evidence, in_K, alpha, R, cov

    def _mode(self, K, y):
        """Mode f with alpha = K^-1 f, log density and probabilities there; None without one."""
        local = self._own.functions[0]
        f = np.zeros((len(K), self.likelihood.classes))
        found = local(f, y)
        state = _State(found[0], np.inf, f, f, *found)
        arrived, state = ascend(state, _direction, _step, (K, y, local), STEPS, HALVINGS, TOLERANCE)
        f = state.f
        missed = np.abs(f - K @ state.slope).max() / (1.0 + np.abs(f).max())
        found = arrived and missed <= LARGEST_MISS
        return (f, state.alpha, state.logp, state.p) if found else None

    def pullback(self, inputs, outputs, cotangents):  # noqa: D102
        if any(not isinstance(c.type, DisconnectedType) for c in cotangents[1:]):
            raise NotImplementedError(
                "Of Laplace's approximation only the log evidence is differentiable, not the mode "
                "or the posterior. Explain after fitting, or draw latent values in the model."
            )
        return [cotangents[0] * outputs[1], DisconnectedType()()]

    def connection_pattern(self, node):  # noqa: D102
        return [[known] * len(node.outputs) for known in (True, False)]

    def infer_shape(self, node, shapes):  # noqa: D102
        n, C = shapes[0][0], self.likelihood.classes
        return [(), (n, n), (n, C), (n * C, n * C), (n, C, C)]

    def __getstate__(self):
        """Without what threads hold."""
        return {"likelihood": self.likelihood}

    def __setstate__(self, state):
        """Begin anew."""
        self.__init__(**state)


def _root(K, A):
    """R and B - I over K, (n C, n C): the inner products A_i' A_j."""
    n, C, _ = A.shape
    columns = A.transpose(1, 0, 2).reshape((C, n * C))
    inner = columns.T @ columns
    B = (inner.reshape((n, C, n, C)) * K[:, None, :, None]).reshape((n * C, n * C))
    B.ravel()[:: n * C + 1] += 1.0
    return np.linalg.cholesky(B), inner


def _spread(K, A):
    """A' (K x I), (n C, n C)."""
    n, C, _ = A.shape
    return (A.transpose(0, 2, 1)[:, :, None] * K[:, None, :, None]).reshape((n * C, n * C))


def _against(R, A, v):
    """C v for v (n, C)."""
    inner = np.einsum("nck,nc->nk", A, v).ravel()
    half = solve_triangular(R, inner, lower=True, check_finite=False)
    back = solve_triangular(R, half, lower=True, trans="T", check_finite=False)
    return np.einsum("nck,nk->nc", A, back.reshape(v.shape))


class CoupledSites(NamedTuple):
    """What Laplace's approximation finds for several classes."""

    logp: pt.TensorVariable
    alpha: pt.TensorVariable
    root: pt.TensorVariable
    covariance: pt.TensorVariable


def softmax_laplace(likelihood, K, y):
    """Laplace's approximation for symbolic arguments, `CoupledSites`."""
    logp, _, alpha, root, covariance = SoftmaxLaplace(likelihood)(K, y)
    return CoupledSites(logp, alpha, root, covariance)
