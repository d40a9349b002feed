"""The one formula: a Gaussian process conditioned on what was seen of it.

For any linear operator L and observed quantities u,

    mean = K_Lu alpha          cov = K_LL - K_Lu C K_uL

`alpha` and `C` come from a posterior (`bayes_gpx.posteriors`). C is never formed: it is
`root^-T root^-1` with a triangular root. Cholesky factors and jitter live in this file alone.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.operators import Operator
from bayes_gpx.processes import Process, WeightProcess

JITTERS = tuple(10.0**k for k in range(-14, -3))
"""What `factor` is tried with, in turn, after 0: multiples of the mean diagonal."""


def cholesky(C):
    """Lower Cholesky factor of C (n, n); all NaN where C is not positive definite."""
    return pt.linalg.cholesky(C, lower=True, on_error="nan")


def solve_root(root, B):
    """root^-1 B for a lower triangular root."""
    return pt.linalg.solve_triangular(root, B, lower=True)


def solve(root, B):
    """C^-1 B for C = root root'."""
    return pt.linalg.solve_triangular(root, solve_root(root, B), lower=True, trans="T")


def with_jitter(attempt):
    """Call ``attempt(jitter)`` with 0, then with growing jitter, until all is finite.

    Parameters
    ----------
    attempt : callable
        Takes the relative jitter, returns a sequence of arrays.

    Returns
    -------
    arrays, jitter

    Raises
    ------
    ValueError
        If the largest jitter does not help.
    """
    for jitter in (0.0, *JITTERS):
        arrays = attempt(jitter)
        if all(np.isfinite(array).all() for array in arrays):
            return arrays, jitter
    raise ValueError(
        "The covariance of the observations is not positive definite, even with "
        f"{JITTERS[-1]:g} of its mean diagonal added. Expected finite hyperparameters of "
        "moderate size; check them for values such as 0, inf or 1e150."
    )


def sqrt_psd(covariance):
    """Square root A of covariances (..., c, c), A A' = covariance.

    A Cholesky factor, or eigenvectors where a covariance is singular: components without variance
    stay exactly without, and round-off below 0 counts as 0. Taken of correlations: beside a
    component of huge units, a small one would be lost in round-off.
    """
    sd = np.sqrt(np.maximum(np.diagonal(covariance, axis1=-2, axis2=-1), 0.0))
    scale = np.where(sd > 0, sd, 1.0)
    correlation = covariance / scale[..., :, None] / scale[..., None, :]
    try:
        return sd[..., None] * np.linalg.cholesky(correlation)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(correlation)
    return sd[..., None] * vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]


@dataclass(frozen=True, eq=False)
class Gaussian:
    """The posterior of an operator's values: symbolic, for one hyperparameter draw.

    Attributes
    ----------
    mean : tensor (c m,)
        Obs-major, component-minor.
    variance : tensor (c m,)
        The diagonal of `cov`, computed without it; never negative.
    block : tensor (m, c, c)
        Covariance between the components of each observation, computed without `cov`.
    cov : tensor (c m, c m)
    """

    process: Process
    operator: Operator
    u: Operator
    alpha: Any
    root: Any

    @cached_property
    def K_Lu(self):  # noqa: D102, N802
        return self.process.covariance(self.operator, self.u)

    @cached_property
    def mean(self):  # noqa: D102
        return pt.dot(self.K_Lu, self.alpha)

    @cached_property
    def mean_alone(self):
        """`mean` of a gradient or Hessian, computed without `K_Lu`."""
        return self.process.summed(self.operator, self.u, self.alpha[None]).reshape((-1,))

    def cross(self, value):
        """Covariance (m, c) of a gradient's or Hessian's components with f at the same points.

        `value` is the posterior of these f. Computed without `K_Lu`.
        """
        gain = solve(self.root, value.K_Lu.T).T
        return self.process.cross(self.operator) - self.process.summed(self.operator, self.u, gain)

    @cached_property
    def _explained(self):
        return solve_root(self.root, self.K_Lu.T)

    @cached_property
    def variance(self):  # noqa: D102
        explained = (self._explained**2).sum(axis=0)
        return pt.maximum(self.process.variance(self.operator) - explained, 0.0)

    @cached_property
    def block(self):  # noqa: D102
        prior = self.process.block(self.operator)
        n = self._explained.shape[0]
        explained = self._explained.T.reshape((prior.shape[0], prior.shape[1], n))
        return prior - pt.matmul(explained, explained.transpose(0, 2, 1))

    @cached_property
    def cov(self):  # noqa: D102
        prior = self.process.covariance(self.operator, self.operator)
        return prior - pt.dot(self._explained.T, self._explained)


@dataclass(frozen=True, eq=False)
class Projected:
    """As `Gaussian`, where data were seen through M standard normal coefficients only.

    The operator's values are `design` times the coefficients, whose posterior is
    N(coefficients, (root root')^-1) or N(coefficients, spread spread'), and what no coefficient
    knows of, `rest`.

    Attributes
    ----------
    process : Process
    operator : Operator
    seen : object
        Its ``design(L)`` is what multiplies the coefficients in L's values, (c m, M);
        ``summed(L, W)`` the sums of that over coefficients times weights (m | 1, M), (m, c).
    coefficients : tensor (M,)
    root : tensor (M, M) or None
    rest : bool
        Whether the process varies beyond its coefficients.
    spread : tensor (M, k) or None
        In the place of `root`.
    """

    process: Process
    operator: Operator
    seen: Any
    coefficients: Any
    root: Any
    rest: bool
    spread: Any = None

    @cached_property
    def design(self):  # noqa: D102
        return self.seen.design(self.operator)

    @cached_property
    def mean(self):  # noqa: D102
        return pt.dot(self.design, self.coefficients)

    @cached_property
    def mean_alone(self):
        """`mean` of a gradient or Hessian, computed without `design`."""
        return self.seen.summed(self.operator, self.coefficients[None]).reshape((-1,))

    def cross(self, value):
        """Covariance (m, c) of a gradient's or Hessian's components with f at the same points.

        `value` is the posterior of these f. Computed without `design`.
        """
        known = self.spread is not None
        left = pt.dot(value._left.T, self.spread.T) if known else solve(self.root, value.design.T).T
        if not self.rest:
            return self.seen.summed(self.operator, left)
        known = self.seen.summed(self.operator, value.design - left)
        return self.process.cross(self.operator) - known

    @cached_property
    def _left(self):
        if self.spread is not None:
            return pt.dot(self.spread.T, self.design.T)
        return solve_root(self.root, self.design.T)

    @cached_property
    def variance(self):  # noqa: D102
        left = pt.sqr(self._left).sum(axis=0)
        if not self.rest:
            return left
        known = pt.sqr(self.design).sum(axis=1)
        return left + pt.maximum(self.process.variance(self.operator) - known, 0.0)

    @cached_property
    def block(self):  # noqa: D102
        obs = pt.as_tensor_variable(self.operator.X).shape[0]
        left = self._left.T.reshape((obs, -1, self._left.shape[0]))
        within = pt.matmul(left, left.transpose(0, 2, 1))
        if not self.rest:
            return within
        known = self.design.reshape((obs, -1, self.design.shape[1]))
        prior = self.process.block(self.operator)
        return within + prior - pt.matmul(known, known.transpose(0, 2, 1))

    @cached_property
    def cov(self):  # noqa: D102
        left = pt.dot(self._left.T, self._left)
        if not self.rest:
            return left
        prior = self.process.covariance(self.operator, self.operator)
        return left + prior - pt.dot(self.design, self.design.T)


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior of a process that was seen through the operator u.

    Call it with an operator to get that operator's posterior, a `Gaussian`.

    Attributes
    ----------
    process : Process
    u : Operator
    y : tensor (n,)
    alpha : tensor (n,)
    root : tensor (n, n)
        Lower triangular, with C = root^-T root^-1.
    """

    process: Process
    u: Operator
    y: Any
    alpha: Any
    root: Any

    def __call__(self, operator):
        """Posterior of the operator's values, a `Gaussian`."""
        return Gaussian(self.process, operator, self.u, self.alpha, self.root)


def informed(gp, Z):
    """The process, told how many features there are."""
    if isinstance(gp, WeightProcess) and gp.n_features is None and Z is not None:
        return replace(gp, n_features=pt.as_tensor(Z).shape[1])
    return gp
