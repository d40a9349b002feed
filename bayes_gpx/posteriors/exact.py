"""Exact conditioning on noisy observations: C = (K + noise)^-1, alpha = C y."""

import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.numerics.linear_algebra import cholesky, plus_diagonal, solve
from bayes_gpx.posteriors.gaussian import Posterior
from bayes_gpx.processes.base import Process
from bayes_gpx.processes.operators import Operator, evaluate
from bayes_gpx.processes.weight_process import informed


def noisy_covariance(
    gp: Process,
    X: TensorLike | Operator,
    sigma: TensorLike,
    Z: TensorLike | None,
    *,
    ridge: TensorLike = 0.0,
    jitter: TensorLike = 0.0,
) -> Tensor:
    """Covariance K_uu + (sigma^2 + ridge) I of y, (n, n), and `jitter` times its mean diagonal."""
    u = _observed(X, Z)
    K = informed(gp, Z).covariance(u, u)
    noise = pt.as_tensor(sigma) ** 2 + ridge
    return plus_diagonal(K, noise + jitter * (pt.diagonal(K).mean() + noise))


def _observed(X: TensorLike | Operator, Z: TensorLike | None) -> Operator:
    return X if isinstance(X, Operator) else evaluate(X, Z, sample="train")


def exact(
    gp: Process,
    X: TensorLike | Operator,
    y: TensorLike,
    sigma: TensorLike,
    Z: TensorLike | None = None,
    *,
    jitter: TensorLike = 0.0,
) -> Posterior:
    """Condition a process on observations with a Gaussian likelihood.

    Parameters
    ----------
    gp : GaussianProcess or WeightProcess
    X : array or tensor (n, d), or Operator
        Training points, or any operator with observed values.
    y : array or tensor (n,)
        Observed values, zero prior mean.
    sigma : scalar or tensor (n,)
        Noise standard deviation, in units of y; one for each value if they differ.
    Z : array or tensor (n, p), optional
        Features of a `WeightProcess`.
    jitter : scalar
        Added to the covariance of y, as a multiple of its mean diagonal.

    Returns
    -------
    Posterior
        Call it with an operator for the posterior `Gaussian` of its values.

    Notes
    -----
    For a `WeightProcess` the covariance of y is Yoshikawa and Iwata's equation 13, and the
    posterior of weights follows from n-sized solves with `Cov(w_l(x), y_i)`.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc as pm
    >>> import bayes_gpx as bx
    >>> X = np.linspace(0.0, 3.0, 20)[:, None]
    >>> gp = bx.GaussianProcess(pm.gp.cov.ExpQuad(1, ls=1.0))
    >>> q = bx.posteriors.exact(gp, X, np.sin(X[:, 0]), sigma=0.01)
    >>> slope = q(bx.operators.gradient(np.array([[1.0]])))
    >>> slope.mean.eval().round(2)  # cos(1)
    array([0.54])
    """
    y = pt.as_tensor_variable(y)
    root = cholesky(noisy_covariance(gp, X, sigma, Z, jitter=jitter))
    return Posterior(informed(gp, Z), _observed(X, Z), y, solve(root, y), root)
