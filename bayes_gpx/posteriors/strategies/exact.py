"""Normal noise on all rows, and constraints as further ones."""

import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.likelihoods.base import Likelihood
from bayes_gpx.numerics.linear_algebra import cholesky, solve
from bayes_gpx.posteriors.base import Conditioning, Found
from bayes_gpx.posteriors.constraints import joint_logp, sites, with_sites
from bayes_gpx.posteriors.evidence.groups import Between
from bayes_gpx.posteriors.evidence.normal import left_out, normal_logp
from bayes_gpx.posteriors.evidence.sites import Sites, normal_sites
from bayes_gpx.posteriors.exact import noisy_covariance
from bayes_gpx.posteriors.strategies.collapsed import Collapsed, noise_of
from bayes_gpx.posteriors.strategies.on_rows import OnRows


class Exact(OnRows, Collapsed):
    """Normal noise on every row."""

    def parts(self, given: Conditioning, ridge: TensorLike = 0.0) -> list[Tensor]:
        return [self.covariance(given, ridge=ridge), *self.bounds(given)]

    def covariance(self, given: Conditioning, **added: TensorLike) -> Tensor:
        """Covariance of y and of constrained quantities, with the noise of either.

        `added` is a ridge or a jitter of `noisy_covariance`.
        """
        sd = self.noise_sd(given)
        if given.constraints is not None:
            sd = pt.concatenate([sd * pt.ones(given.y.shape[0]), given.constraints.sd])
        return noisy_covariance(given.process, given.known, sd, given.Z, **added)

    def noise_sd(self, given: Conditioning) -> TensorLike:
        """Standard deviation of what rows add to the latent values: a scalar, or (n,)."""
        return given.noise_sd

    def signature(self, likelihood: Likelihood) -> str:
        return "(m,m),(k),(k)" if self.constrained else "(n,n)"

    def joint_density(
        self, likelihood: Likelihood, y: Tensor, C: Tensor, *bounds: Tensor
    ) -> Tensor:  # noqa: N803
        return joint_logp(C, y, *bounds) if bounds else normal_logp(y, C)

    def constraint_covariance(self, *parts: Tensor) -> Tensor:
        C, low, _ = parts[-3:]
        n = C.shape[0] - low.shape[0]
        return C[n:, n:]

    def condition(self, given: Conditioning) -> Found:
        y, C, _ = self.seen(given)
        root = cholesky(C)
        return Found(solve(root, y), root)

    def seen(self, given: Conditioning) -> tuple[Tensor, Tensor, TensorLike]:
        """Observations and constraints as sites; their covariance; logs of the sites' factors."""
        C = self.covariance(given, jitter=given.jitter)
        if not self.constrained:
            return given.y, C, 0.0
        found = sites(C, given.y, *self.bounds(given))
        return *with_sites(C, given.y, found), found.log_factor

    def sites(self, given: Conditioning) -> tuple[Tensor, Sites]:
        y, C, log_factor = self.seen(given)
        prior = self.covariance(given, jitter=given.jitter)
        constraints = self.log_constraint(prior, *self.bounds(given))
        joint, *found = left_out(y, C)
        of_rows = (v[: given.y.shape[0]] for v in found)
        evidence, D = joint + log_factor - constraints, noise_of(given)
        if given.counts is None:
            return evidence, normal_sites(given.y, D, *of_rows)
        # Of rows with weights that deviate, y is observed of the smooth part.
        own = given.deviations
        return evidence, normal_sites(given.y, D + own / given.counts, *of_rows, rest=own)

    def between(self, given: Conditioning, sites: Sites) -> list[Between]:
        return [Between.of(self.seen(given)[1], given.y.shape[0])]
