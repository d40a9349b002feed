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

from bayes_gpx import lapack
from bayes_gpx.modes import MODE
from bayes_gpx.threads import Copies

_LOWER = np.frombuffer(b"L", np.uint8)

STEPS, HALVINGS = 200, 30
TOLERANCE = 1e-11
"""Of the mode, as a share of the latent values' size."""

LARGEST_MISS = 1e-5
"""Of f from K times the slope there, which it equals at the mode; as a share of f's size."""

NEAR = 1e-2
"""Of the mode: from here on steps share one Cholesky factor, while each is a tenth of the last."""

LEAST_KNOWN = 1e-6
"""Share of a variance that an observation takes away, below which it is not told from 1 - share."""

FLAT = 1e-200
"""Least information of an observation; below it an observation says nothing."""


class _Search:
    """The search for modes under one likelihood, which each thread begins where its last one ended.

    That is a matter of time alone: a log-concave likelihood has one mode. Others begin at 0.
    """

    def __init__(self, likelihood):
        self.likelihood = likelihood

    @cached_property
    def _own(self):
        return Copies(lambda: self._compiled)

    @property
    def local(self):
        """What `_compiled` holds, for the running thread."""
        return self._own.functions[0]

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
        return [pytensor.function([f, y, exposure, *hyperparameters], outputs, **options)]

    def mode(self, K, rest):
        """Mode f of the posterior, with alpha = K^-1 f; None where there is none to be found."""
        found = None
        if np.isfinite(K).all():
            with np.errstate(all="ignore"):
                found = self._climb(K, rest)
        self._own.last = None if found is None else found[1]
        return found

    def _start(self, K, rest):
        n = len(K)
        f = alpha = np.zeros(n)
        found = self.local(f, *rest)
        last = self._own.last
        if self.likelihood.concave and last is not None and len(last) == n:
            tried = K @ last
            again = self.local(tried, *rest)
            if again[0] - 0.5 * last @ tried > found[0]:
                return tried, last, again
        return f, alpha, found

    def _climb(self, K, rest):
        f, alpha, (logp, slope, _, _, W) = self._start(K, rest)
        height, moved, factor = logp - 0.5 * alpha @ f, np.inf, None
        if not np.isfinite(height):
            return None
        for _ in range(STEPS):
            if factor is None:
                root_W = np.sqrt(np.maximum(W, FLAT))
                factor = _factor(K, root_W)
                if factor is None:
                    return None
            gap = slope - alpha
            way = gap - root_W * _solve(factor, root_W * (K @ gap))
            along, share = K @ way, 1.0
            for _ in range(HALVINGS):
                tried = alpha + share * way, f + share * along
                found = self.local(tried[1], *rest)
                higher = found[0] - 0.5 * tried[0] @ tried[1]
                if higher >= height - 1e-12 * (1.0 + abs(height)):
                    break
                share *= 0.5
            else:
                break
            before, moved = moved, np.abs(tried[1] - f).max()
            (alpha, f), (_, slope, _, _, W), height = tried, found, higher
            size = 1.0 + np.abs(f).max()
            if moved <= TOLERANCE * size:
                break
            near = self.likelihood.concave and share == 1.0 and moved < NEAR * size
            if not (near and moved < 0.1 * before):
                factor = None
        missed = np.abs(f - K @ slope).max()
        return (f, alpha) if missed <= LARGEST_MISS * (1.0 + np.abs(f).max()) else None


class _FindsMode(Op):
    """(K, y, exposure, *hyperparameters) -> what is found at the mode.

    Parameters
    ----------
    likelihood : object
        Elementwise; see `bayes_gpx.likelihoods`.
    """

    __props__ = ("likelihood",)
    interpreted = True
    outputs: tuple

    def __init__(self, likelihood):
        self.likelihood = likelihood
        self._search = _Search(likelihood)

    def make_node(self, K, y, exposure, *hyperparameters):  # noqa: D102
        inputs = [pt.as_tensor_variable(v) for v in (K, y, exposure, *hyperparameters)]
        return Apply(self, inputs, [kind() for kind in self.outputs])

    def perform(self, node, inputs, output_storage):  # noqa: D102
        K, *rest = inputs
        K, rest = np.asarray(K), [np.asarray(v, "float64") for v in rest]
        for storage, value in zip(output_storage, self.found(K, rest), strict=True):
            storage[0] = np.asarray(value)

    def __getstate__(self):
        """Without what threads hold."""
        return {"likelihood": self.likelihood}

    def __setstate__(self, state):
        """Begin anew."""
        self.__init__(**state)


class LaplaceMode(_FindsMode):
    """The slope of log p(y | f), which is K^-1 f, and the information, at the mode; else NaN."""

    outputs = (pt.dvector, pt.dvector)

    def found(self, K, rest):  # noqa: D102
        mode = self._search.mode(K, rest)
        if mode is None:
            return np.full((2, len(K)), np.nan)
        _, slope, W, *_ = self._search.local(mode[0], *rest)
        return slope, np.maximum(W, FLAT)

    def infer_shape(self, node, shapes):  # noqa: D102
        return [shapes[1]] * 2


class LaplaceEvidence(_FindsMode):
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

    outputs = (pt.dscalar, pt.dmatrix, *[pt.dvector] * 6)

    def found(self, K, rest):  # noqa: D102
        with np.errstate(all="ignore"):
            mode = self._search.mode(K, rest)
            known = None if mode is None else self._at(K, *mode, rest)
        return (-np.inf, np.zeros_like(K), *np.zeros((6, len(K)))) if known is None else known

    def _at(self, K, f, alpha, rest):
        logp, slope, W, third, _ = self._search.local(f, *rest)
        root_W = np.sqrt(np.maximum(W, FLAT))
        factor = _factor(K, root_W)
        if factor is None:
            return None
        log_root = np.log(np.diag(factor)).sum()
        R, left = _inverse(factor)
        known = 1.0 - left
        variance, small = known / np.maximum(W, FLAT), np.flatnonzero(known < LEAST_KNOWN)
        if len(small):
            columns = root_W[:, None] * K[:, small]
            again = _factor(K, root_W)
            half = solve_triangular(again, columns, trans="T", check_finite=False)
            variance[small] = np.diag(K)[small] - (half**2).sum(axis=0)
        R *= root_W
        R *= root_W[:, None]
        pull = 0.5 * variance * third
        moved = pull - R @ (K @ pull)
        u = 0.25 * alpha + 0.5 * moved
        in_K = np.stack([u, alpha], axis=1) @ np.stack([alpha, u])
        R *= 0.5
        in_K -= R
        evidence = logp - 0.5 * alpha @ f - log_root
        return evidence, in_K, f, slope, np.maximum(W, FLAT), variance, K @ moved, left

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


def _factor(K, root_W):
    """Upper triangular U with U'U = I + W^1/2 K W^1/2; None where there is none."""
    n = len(K)
    factor = K * root_W
    factor *= root_W[:, None]
    factor.ravel()[:: n + 1] += 1.0
    order, info = np.array(n, np.int32), np.zeros((), np.int32)
    k = order.ctypes.data
    # C's upper triangle is Fortran's lower one.
    lapack.potrf(_LOWER.ctypes.data, k, factor.ctypes.data, k, info.ctypes.data)
    return factor if info == 0 and np.isfinite(factor[-1, -1]) else None


def _solve(factor, b):
    b = np.array(b)
    order, one, info = (np.array(v, np.int32) for v in (len(b), 1, 0))
    u, k = _LOWER.ctypes.data, order.ctypes.data
    where = factor.ctypes.data, k, b.ctypes.data, k, info.ctypes.data
    lapack.potrs(u, k, one.ctypes.data, *where)
    return b


def _inverse(factor):
    """(U'U)^-1, and a copy of its diagonal; U is overwritten."""
    order, info = np.array(len(factor), np.int32), np.zeros((), np.int32)
    k = order.ctypes.data
    lapack.potri(_LOWER.ctypes.data, k, factor.ctypes.data, k, info.ctypes.data)
    diagonal = np.diag(factor).copy()
    whole = np.triu(factor)
    whole += np.triu(factor, 1).T
    return whole, diagonal


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


def laplace_mode(likelihood, K, y, theta, exposure):
    """Alpha and W (n,) at the mode; no gradient."""
    own = [theta[name] for name in likelihood.hyperparameters]
    return LaplaceMode(likelihood)(K, y, exposure, *own)


def laplace_evidence(likelihood, K, y, theta, exposure):
    """Log evidence, a scalar graph, with alpha and W (n,) at the mode; see `laplace_sites`."""
    found = laplace_sites(likelihood, K, y, theta, exposure)
    return found.logp, found.alpha, found.W
