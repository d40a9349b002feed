"""Laplace's approximation to the evidence where y is not normal around f, with its gradient.

The mode of p(f | y) by damped Newton steps, and the log evidence of the normal approximation
there, with derivatives in the prior covariance and in the likelihood's hyperparameters that take
the mode's own move into account.

References
----------
Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006), algorithms 3.1 and 5.1;
Hartmann and Vanhatalo, "Laplace approximation and natural gradient for Gaussian process regression
with heteroscedastic Student-t model" (2019), for Fisher's information in place of a curvature
that may be negative.
"""

import threading
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.graph.replace import clone_replace
from scipy.linalg import solve_triangular

from bayes_gpx.modes import MODE

_COPYING = threading.Lock()

STEPS, HALVINGS = 200, 30
TOLERANCE = 1e-11
"""Of the mode, as a share of the latent values' size."""

LARGEST_MISS = 1e-5
"""Of f from K times the slope there, which it equals at the mode; as a share of f's size."""

FLAT = 1e-200
"""Least information of an observation; below it an observation says nothing."""


class LaplaceEvidence(Op):
    """(K, y, exposure, *hyperparameters) -> log evidence, and what its gradient is made of.

    K (n, n) is the prior covariance of the latent values f at the observations. Outputs, after the
    log evidence: its derivative in K; the mode f; alpha, the slope of log p(y | f) there; W, the
    information there; the posterior variances of f; the pull of the mode on the evidence; and the
    share of each prior variance that the other observations leave, 1 - W variance, (n,) each. Where
    no mode is found the log evidence is -inf and the gradient zero. Only the log evidence is
    differentiable.

    Parameters
    ----------
    likelihood : object
        Elementwise; see `bayes_gpx.likelihoods`.
    """

    __props__ = ("likelihood",)
    interpreted = True

    def __init__(self, likelihood):
        self.likelihood = likelihood
        self._own = threading.local()

    def make_node(self, K, y, exposure, *hyperparameters):  # noqa: D102
        inputs = [pt.as_tensor_variable(v) for v in (K, y, exposure, *hyperparameters)]
        vectors = [pt.dvector() for _ in range(6)]
        return Apply(self, inputs, [pt.dscalar(), pt.dmatrix(), *vectors])

    @property
    def _local(self):
        """The running thread's copy of `_compiled`: PyTensor's functions serve one at a time."""
        if not hasattr(self._own, "local"):
            with _COPYING:
                self._own.local = self._compiled.copy()
        return self._own.local

    @cached_property
    def _compiled(self):
        """Function from f, y, exposure and hyperparameters to log densities and derivatives."""
        f, y, exposure = pt.dvector("f"), pt.dvector("y"), pt.dvector("exposure")
        hyperparameters = [pt.dscalar(name) for name in self.likelihood.hyperparameters]
        theta = dict(zip(self.likelihood.hyperparameters, hyperparameters, strict=True))
        logp = self.likelihood.logp(f, y, theta, exposure)
        slope, curvature, third = self.likelihood.derivatives(f, y, theta, exposure)
        steps = -curvature
        if not self.likelihood.concave:
            curvature, third = -self.likelihood.fisher(f, theta, exposure), pt.zeros_like(f)
            steps = self.likelihood.steps(f, y, theta, exposure)
        outputs = [logp.sum(), slope, -curvature, third, steps]
        options = {"mode": MODE, "on_unused_input": "ignore", "trust_input": True}
        return pytensor.function([f, y, exposure, *hyperparameters], outputs, **options)

    def perform(self, node, inputs, output_storage):  # noqa: D102
        K, *rest = inputs
        with np.errstate(all="ignore"):
            found = self._evidence(np.asarray(K), [np.asarray(v, "float64") for v in rest])
        for storage, value in zip(output_storage, found, strict=True):
            storage[0] = np.asarray(value)

    def _evidence(self, K, rest):
        n = len(K)
        failed = -np.inf, np.zeros_like(K), *np.zeros((6, n))
        if not np.isfinite(K).all():
            return failed
        mode = self._mode(K, rest)
        if mode is None:
            return failed
        f, alpha = mode
        logp, slope, W, third, _ = self._local(f, *rest)
        root_W = np.sqrt(np.maximum(W, FLAT))
        B = root_W[:, None] * K * root_W
        B.ravel()[:: n + 1] += 1.0
        L = _cholesky(B)
        if L is None:
            return failed
        inverse = np.linalg.inv(L)
        inverse = inverse.T @ inverse
        R = root_W[:, None] * inverse * root_W
        left = np.diag(inverse).copy()
        half = solve_triangular(L, root_W[:, None] * K, lower=True, check_finite=False)
        told = W * np.diag(K) > 0.5
        known = (1.0 - left) / np.where(told, W, 1.0)
        variance = np.where(told, known, np.diag(K) - (half**2).sum(axis=0))
        pull = 0.5 * variance * third
        moved = pull - R @ (K @ pull)
        evidence = logp - 0.5 * alpha @ f - np.log(np.diag(L)).sum()
        in_K = np.multiply.outer(0.5 * alpha + moved, alpha)
        in_K = 0.5 * (in_K + in_K.T) - 0.5 * R
        return evidence, in_K, f, slope, np.maximum(W, FLAT), variance, K @ moved, left

    def _mode(self, K, rest):
        """Mode f of the posterior, with alpha = K^-1 f; None where there is none to be found."""
        n = len(K)
        alpha = f = np.zeros(n)
        logp, slope, _, _, W = self._local(f, *rest)
        height = logp
        if not np.isfinite(height):
            return None
        for _ in range(STEPS):
            root_W = np.sqrt(np.maximum(W, FLAT))
            B = root_W[:, None] * K * root_W
            B.ravel()[:: n + 1] += 1.0
            L = _cholesky(B)
            if L is None:
                return None
            b = W * f + slope
            half = solve_triangular(L, root_W * (K @ b), lower=True, check_finite=False)
            back = solve_triangular(L, half, lower=True, trans="T", check_finite=False)
            way = b - root_W * back - alpha
            along, share = K @ way, 1.0
            for _ in range(HALVINGS):
                tried = alpha + share * way, f + share * along
                found = self._local(tried[1], *rest)
                higher = found[0] - 0.5 * tried[0] @ tried[1]
                if higher >= height - 1e-12 * (1.0 + abs(height)):
                    break
                share *= 0.5
            else:
                break
            moved = np.abs(tried[1] - f).max()
            (alpha, f), (_, slope, _, _, W), height = tried, found, higher
            if moved <= TOLERANCE * (1.0 + np.abs(f).max()):
                break
        missed = np.abs(f - K @ slope).max()
        return (f, alpha) if missed <= LARGEST_MISS * (1.0 + np.abs(f).max()) else None

    def pullback(self, inputs, outputs, cotangents):  # noqa: D102
        if any(not isinstance(c.type, DisconnectedType) for c in cotangents[1:]):
            raise NotImplementedError(
                "Of Laplace's approximation only the log evidence is differentiable, not the mode "
                "or the posterior. Explain after fitting, or draw latent values in the model."
            )
        weight, (_, y, exposure, *hyperparameters) = cotangents[0], inputs
        unknown = [DisconnectedType()() for _ in (y, exposure)]
        if not hyperparameters:
            return [weight * outputs[1], *unknown]
        f, variance, pull = outputs[2], outputs[5], outputs[6]
        names, own = self.likelihood.hyperparameters, [pt.scalar(h.name) for h in hyperparameters]
        theta = dict(zip(names, own, strict=True))
        slope, curvature, _ = self.likelihood.derivatives(f, y, theta, exposure)
        if not self.likelihood.concave:
            curvature = -self.likelihood.fisher(f, theta, exposure)
        local = (
            self.likelihood.logp(f, y, theta, exposure) + pull * slope + 0.5 * variance * curvature
        )
        slopes = pt.grad(local.sum(), own, consider_constant=[f, variance, pull])
        slopes = clone_replace(slopes, dict(zip(own, hyperparameters, strict=True)))
        return [weight * outputs[1], *unknown, *(weight * s for s in slopes)]

    def connection_pattern(self, node):  # noqa: D102
        told = [True, False, False, *[True] * (len(node.inputs) - 3)]
        return [[known] * len(node.outputs) for known in told]

    def infer_shape(self, node, shapes):  # noqa: D102
        return [(), shapes[0], *[shapes[1]] * 6]

    def __getstate__(self):
        """Without what threads hold."""
        return {"likelihood": self.likelihood}

    def __setstate__(self, state):
        """Begin anew."""
        self.__init__(**state)


def _cholesky(B):
    try:
        return np.linalg.cholesky(B)
    except np.linalg.LinAlgError:
        return None


class Sites(NamedTuple):
    """What Laplace's approximation finds: log evidence, and vectors at the mode f."""

    logp: pt.TensorVariable
    f: pt.TensorVariable
    alpha: pt.TensorVariable
    W: pt.TensorVariable
    variance: pt.TensorVariable
    left: pt.TensorVariable


def laplace_sites(likelihood, K, y, theta, exposure):
    """Laplace's approximation for symbolic arguments.

    Parameters
    ----------
    likelihood : object
    K : tensor (n, n)
    y : tensor (n,)
    theta : dict of tensors
        The likelihood's hyperparameters, and perhaps others.
    exposure : tensor (n,)

    Returns
    -------
    Sites
        Of which only the log evidence is differentiable.
    """
    own = [theta[name] for name in likelihood.hyperparameters]
    logp, _, f, alpha, W, variance, _, left = LaplaceEvidence(likelihood)(K, y, exposure, *own)
    return Sites(logp, f, alpha, W, variance, left)


def laplace_evidence(likelihood, K, y, theta, exposure):
    """Log evidence, a scalar graph, with alpha and W (n,) at the mode; see `laplace_sites`."""
    found = laplace_sites(likelihood, K, y, theta, exposure)
    return found.logp, found.alpha, found.W
