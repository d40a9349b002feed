"""Conditioning on latent values themselves, such as draws of them, without uncertainty."""

import pytensor.tensor as pt

from bayes_gpx.aliases import TensorLike
from bayes_gpx.numerics.linear_algebra import cholesky, plus_diagonal, solve
from bayes_gpx.posteriors.gaussian import Posterior
from bayes_gpx.processes.base import Process
from bayes_gpx.processes.operators import Operator, evaluate
from bayes_gpx.processes.weight_process import informed


def latent(
    gp: Process,
    X: TensorLike | Operator,
    f: TensorLike,
    Z: TensorLike | None = None,
    *,
    jitter: TensorLike = 0.0,
) -> Posterior:
    """Condition a process on its values.

    Parameters
    ----------
    gp : GaussianProcess or WeightProcess
    X : array or tensor (n, d), or Operator
        Points, or any operator with known values.
    f : array or tensor (n,)
        Values there, including `eps_w` of these rows, zero prior mean.
    Z : array or tensor (n, p), optional
        Features of a `WeightProcess`.
    jitter : scalar
        Added to the values' variance, as a multiple of its mean.

    Returns
    -------
    Posterior
        Call it with an operator for the posterior `Gaussian` of its values.
    """
    u, f = X if isinstance(X, Operator) else evaluate(X, Z, sample="train"), pt.as_tensor(f)
    K = informed(gp, Z).covariance(u, u)
    root = cholesky(plus_diagonal(K, jitter * pt.diagonal(K).mean()))
    return Posterior(informed(gp, Z), u, f, solve(root, f), root)
