"""Normal sites: what stands for the likelihood of each row in a Gaussian posterior."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor
from bayes_gpx.numerics.special import log_normal


class Sites(NamedTuple):
    """Normal sites of n rows, at the posterior that they lead to.

    A site is ``exp(height + slope (f - mean) - tau (f - mean)^2 / 2)``. It may have any sign of
    tau. Its natural parameters are tau and slope + tau mean; slope and mean are stored instead,
    because they could not be recovered from these where a row is informative. Arrays are (n,),
    (n, C) for C classes with independent posteriors; for coupled classes tau, variance and left
    are (n, C, C).
    """

    mean: Tensor  # of f given all rows
    slope: Tensor
    tau: Tensor
    variance: Tensor  # of f given all rows
    left: Tensor  # 1 - variance tau, which is computed without this difference where that is small
    height: Tensor  # (n,), of all classes together
    # Variances (n,), or (n, C), that a row has besides, and that `variance` does not contain.
    rest: Any = 0.0
    unseen: Any = None  # those of them that add to normal noise, where inducing points leave some

    def cavity(self) -> tuple[Tensor, Tensor]:
        """Mean of f_i given the other rows, and its variance; of coupled classes a square root.

        The site is taken out of the posterior: Vehtari et al., "Bayesian leave-one-out
        cross-validation approximations for Gaussian latent variable models" (2016), section 3.3.
        """
        if self.tau.ndim == 3:
            cov = pt.linalg.solve(self.left, self.variance)
            return self.mean - (cov * self.slope[:, None]).sum(axis=2), self.class_root(cov)
        spread = self.variance / self.left
        return self.mean - spread * self.slope, spread + self.by_class(self.rest)

    def by_class(self, of_rows: Any) -> Any:
        """Numbers of rows (n,) in the shape of `mean`."""
        own = pt.as_tensor(of_rows)
        return own[..., None] if own.ndim < self.mean.ndim == 2 else own

    def class_root(self, cov: Tensor) -> Tensor:
        """Square roots (n, C, C) of covariances, which need not be of full rank, and `rest`."""
        own = cov + (self.by_class(self.rest)[..., None] + 1e-12) * pt.eye(cov.shape[-1])
        return pt.linalg.cholesky(own, lower=True, on_error="nan")


def normal_sites(y: Tensor, D: Tensor, alpha: Tensor, precision: Tensor, **more: Any) -> Sites:  # noqa: N803
    """Sites of rows with normal noise of variance D (n,): exact.

    `alpha` (n,) is the precision of y times y, and `precision` (n,) the diagonal of this matrix.
    """
    left, mean = D * precision, y - D * alpha
    variance = D * pt.maximum(1.0 - left, 0.0)
    return Sites(mean, alpha, 1.0 / D, variance, left, log_normal(y, mean, D), **more)
