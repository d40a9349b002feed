"""Conditioning on observations of any likelihood, by Laplace's approximation at the mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.numerics.linear_algebra import cholesky, plus_diagonal
from bayes_gpx.posteriors.evidence.laplace import laplace_mode
from bayes_gpx.posteriors.gaussian import Posterior
from bayes_gpx.processes.operators import evaluate
from bayes_gpx.processes.weight_process import informed

if TYPE_CHECKING:
    from bayes_gpx.likelihoods.base import ScalarLikelihood, Theta
    from bayes_gpx.processes.base import Process


def prior_covariance(
    gp: Process, X: TensorLike, Z: TensorLike | None = None, *, jitter: TensorLike = 0.0
) -> Tensor:
    """Covariance of the latent values at the observations, `eps_w` included, (n, n)."""
    u = evaluate(X, Z, sample="train")
    K = informed(gp, Z).covariance(u, u)
    return plus_diagonal(K, jitter * pt.diagonal(K).mean())


def laplace(
    gp: Process,
    X: TensorLike,
    y: TensorLike,
    likelihood: ScalarLikelihood,
    Z: TensorLike | None = None,
    *,
    theta: Theta | None = None,
    exposure: TensorLike | None = None,
    jitter: TensorLike = 0.0,
) -> Posterior:
    """Condition a process on observations by Laplace's approximation.

    The posterior is approximated by a normal distribution at its mode.

    Parameters
    ----------
    gp : GaussianProcess or WeightProcess
    X : array or tensor (n, d)
    y : array or tensor (n,)
        As the likelihood codes it.
    likelihood : ScalarLikelihood
        See `bayes_gpx.likelihoods`.
    Z : array or tensor (n, p), optional
        Features of a `WeightProcess`.
    theta : dict of tensors, optional
        Hyperparameters of the likelihood.
    exposure : array or tensor (n,), optional
        Exposure of counts.
    jitter : scalar
        Added to the latent values' variance, as a multiple of its mean.

    Raises
    ------
    ValueError
        If theta lacks a hyperparameter of the likelihood.

    Returns
    -------
    Posterior
        Call it with an operator for the posterior `Gaussian` of its values.

    Notes
    -----
    The slope of log p(y | f) at the mode is `alpha`, and C is (K + W^-1)^-1 with the information W
    at the mode. W is the observed information; if the likelihood is not log-concave, it is
    Fisher's, or for zero-inflated counts the observed one, kept above 0. The posterior of a
    classifier is skewed, and a normal approximation is not: its mode is nearer to the prior than
    the mean. The posterior has no gradient in hyperparameters: explain after fitting.

    References
    ----------
    Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006), section 3.4.
    """
    theta = {} if theta is None else theta
    missing = [name for name in likelihood.hyperparameters if name not in theta]
    if missing:
        raise ValueError(
            f"theta lacks {missing}. Pass all of {list(likelihood.hyperparameters)}, the "
            "likelihood's hyperparameters."
        )
    y = pt.as_tensor_variable(y)
    exposure = pt.ones(y.shape) if exposure is None else pt.as_tensor_variable(exposure)
    K = prior_covariance(gp, X, Z, jitter=jitter)
    alpha, W = laplace_mode(likelihood, K, y, theta, exposure)
    half = pt.sqrt(W)
    B = plus_diagonal(half[:, None] * K * half, 1.0)
    root = cholesky(B) / half[:, None]  # root root' = K + W^-1
    return Posterior(informed(gp, Z), evaluate(X, Z, sample="train"), y, alpha, root)
