"""Normal noise on all rows."""

import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.likelihoods.base import Likelihood
from bayes_gpx.posteriors.base import Collapsed, Conditioning, Found, GroupsLeft, LeftOut
from bayes_gpx.posteriors.evidence.groups import Precision, groups_left_out
from bayes_gpx.posteriors.evidence.normal import leave_one_out, normal_logp
from bayes_gpx.posteriors.exact import exact, noisy_covariance
from bayes_gpx.posteriors.strategies.left_out import groups_of_normal, with_normal_noise
from bayes_gpx.posteriors.strategies.on_rows import OnRows


class Exact(OnRows, Collapsed):
    """Normal noise on every row."""

    def parts(self, given: Conditioning, ridge: TensorLike = 0.0) -> list[Tensor]:
        sigma = given.theta["sigma"]
        return [noisy_covariance(given.process, given.X, sigma, given.Z, ridge=ridge)]

    def signature(self, likelihood: Likelihood) -> str:
        return "(n,n)"

    def log_density(self, likelihood: Likelihood, y: Tensor, C: Tensor) -> Tensor:  # noqa: N803
        return normal_logp(y, C)

    def condition(self, given: Conditioning) -> Found:
        sigma, jitter = given.theta["sigma"], given.jitter
        q = exact(given.process, given.X, given.y, sigma, given.Z, jitter=jitter)
        return Found(q.alpha, q.root)

    def leave_one_out(self, given: Conditioning) -> LeftOut:
        sigma, jitter = given.theta["sigma"], given.jitter
        C = noisy_covariance(given.process, given.X, sigma, given.Z, jitter=jitter)
        return with_normal_noise(given, *leave_one_out(given.y, C))

    def leave_groups_out(self, given: Conditioning, groups: Tensor) -> GroupsLeft:
        sigma, jitter = given.theta["sigma"], given.jitter
        precision = Precision.of(
            noisy_covariance(given.process, given.X, sigma, given.Z, jitter=jitter)
        )
        alpha = pt.dot(precision.H.T, pt.dot(precision.H, given.y))
        return groups_of_normal(given, *groups_left_out(precision, alpha, groups))
