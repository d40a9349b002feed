"""Normal noise on all rows."""

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.likelihoods.base import Likelihood
from bayes_gpx.posteriors.base import Conditioning, Found
from bayes_gpx.posteriors.evidence.groups import Between
from bayes_gpx.posteriors.evidence.normal import left_out, normal_logp
from bayes_gpx.posteriors.evidence.sites import Sites, normal_sites
from bayes_gpx.posteriors.exact import exact, noisy_covariance
from bayes_gpx.posteriors.strategies.collapsed import Collapsed, noise_of
from bayes_gpx.posteriors.strategies.on_rows import OnRows


class Exact(OnRows, Collapsed):
    """Normal noise on every row."""

    def parts(self, given: Conditioning, ridge: TensorLike = 0.0) -> list[Tensor]:
        return [self._covariance(given, ridge=ridge)]

    def _covariance(self, given: Conditioning, **added: TensorLike) -> Tensor:
        """Covariance of y."""
        return noisy_covariance(given.process, given.X, given.noise_sd, given.Z, **added)

    def signature(self, likelihood: Likelihood) -> str:
        return "(n,n)"

    def log_density(self, likelihood: Likelihood, y: Tensor, C: Tensor) -> Tensor:  # noqa: N803
        return normal_logp(y, C)

    def condition(self, given: Conditioning) -> Found:
        sigma, jitter = given.noise_sd, given.jitter
        q = exact(given.process, given.X, given.y, sigma, given.Z, jitter=jitter)
        return Found(q.alpha, q.root)

    def sites(self, given: Conditioning) -> tuple[Tensor, Sites]:
        logp, alpha, precision = left_out(given.y, self._covariance(given, jitter=given.jitter))
        return logp, normal_sites(given.y, noise_of(given), alpha, precision)

    def between(self, given: Conditioning, sites: Sites) -> list[Between]:
        C = self._covariance(given, jitter=given.jitter)
        return [Between.of(C, given.y.shape[0])]
