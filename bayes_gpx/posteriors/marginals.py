"""Where noise is not normal: what stands in for the evidence, and the posteriors that go with it.

Laplace's approximation at the mode; through coefficients, the bound of the best Gaussian posterior
of them; or latent values that are sampled.
"""

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.numerics.linear_algebra import cholesky, solve_root
from bayes_gpx.posteriors.evidence.laplace import laplace_sites
from bayes_gpx.posteriors.evidence.softmax import softmax_laplace
from bayes_gpx.posteriors.evidence.variational import variational
from bayes_gpx.posteriors.gaussian import Posterior
from bayes_gpx.posteriors.laplace import laplace, prior_covariance
from bayes_gpx.posteriors.latent import latent
from bayes_gpx.posteriors.low_rank import LowRank
from bayes_gpx.posteriors.softmax import Coupled
from bayes_gpx.posteriors.strategies import OWN_WHITE, WHITE, seen_through
from bayes_gpx.processes.operators import evaluate

LATENT_JITTER = 1e-8
"""Added to the covariance of latent values that are drawn, as a multiple of its mean diagonal."""


def conditioned(specification, process, theta, s):
    """Return `alpha` and `root` of the posterior, of all classes together."""
    observation, seen = specification.observation, seen_through(specification, process, theta, s)
    if WHITE in theta:
        return _sampled(process, theta[WHITE], seen, s)
    if seen is not None:
        found = variational(observation, seen.F, seen.unseen + seen.D, s.y, theta, s.exposure)
        return _where_found(found.bound, found.coefficients.T, found.root)
    if observation.classes is not None:
        K = prior_covariance(process, s.X, s.Z, jitter=s.jitter)
        found = softmax_laplace(observation, K, s.y)
        return _where_found(found.logp, found.alpha, found.root)
    options = {"theta": theta, "exposure": s.exposure, "jitter": s.jitter}
    q = laplace(process, s.X, s.y, observation, s.Z, **options)
    return q.alpha, q.root


def _where_found(evidence, *arrays):
    """The arrays, NaN where no posterior was found."""
    return [pt.switch(pt.isinf(evidence), np.nan, array) for array in arrays]


def _sampled(process, white, seen, s):
    if seen is not None:
        return white, pt.zeros((white.shape[0], 1))
    K = prior_covariance(process, s.X, s.Z, jitter=LATENT_JITTER)
    q = latent(process, s.X, pt.dot(cholesky(K), white), s.Z, jitter=LATENT_JITTER)
    return q.alpha, q.root


def again(specification, process, theta, s, label=None):
    """The posterior, of one class, from `alpha` and `root` of all."""
    seen, alpha, root = seen_through(specification, process, theta, s, label), s.alpha, s.root
    if label is not None:
        if seen is None and WHITE not in theta:
            return coupled(process, s).of(label)
        alpha, root = alpha[:, label], root[label] if root.ndim == 3 else root
    if seen is None:
        return Posterior(process, evaluate(s.X, s.Z, sample="train"), s.y, alpha, root)
    if WHITE in theta:
        return LowRank(seen, alpha, None, root)
    return LowRank(seen, alpha, root)


def coupled(process, s):
    """The joint posterior of classes that Laplace's approximation couples."""
    return Coupled(process, evaluate(s.X, s.Z, sample="train"), s.alpha, s.root, s.y)


def left_out(specification, process, theta, s):
    """As `collapsed.left_out`: each observation's site is taken out of the posterior.

    Vehtari et al., "Bayesian leave-one-out cross-validation approximations for Gaussian latent
    variable models" (2016), section 3.3. Of sampled latent values the evidence is log p(y | f), and
    what f_i is given the others follows from the prior.
    """
    observation, seen = specification.observation, seen_through(specification, process, theta, s)
    if WHITE in theta:
        f, mean, spread = _sampled_cavity(process, theta, seen, s)
        evidence = observation.logp(f, s.y, theta, s.exposure).sum()
    elif seen is not None:
        rest = seen.unseen + seen.D
        found = variational(observation, seen.F, rest, s.y, theta, s.exposure)
        known = found.variance / (1.0 - found.W * found.variance)
        mean = pt.dot(seen.F, found.coefficients.T) - known * found.slope
        evidence, spread = found.bound, known + (rest if known.ndim == 1 else rest[:, None])
    elif observation.classes is None:
        K = prior_covariance(process, s.X, s.Z, jitter=s.jitter)
        found = laplace_sites(observation, K, s.y, theta, s.exposure)
        evidence, spread = found.logp, found.variance / found.left
        mean = found.f - spread * found.alpha
    else:
        evidence, mean, spread = _coupled_cavity(observation, process, s)
    if observation.classes is None:
        terms = observation.log_predictive(s.y, mean, spread, theta, s.exposure)
        return [evidence, terms, mean, spread]
    if spread.ndim == 2:
        spread = pt.sqrt(spread)[:, :, None] * pt.eye(observation.classes)
    return [evidence, observation.log_predictive(s.y, mean, spread), mean, spread]


def _coupled_cavity(observation, process, s):
    """Evidence, and means (n, C) and square roots (n, C, C) of f_i without its own site."""
    K = prior_covariance(process, s.X, s.Z, jitter=s.jitter)
    found = softmax_laplace(observation, K, s.y)
    f = pt.dot(K, found.alpha)
    information, eye = observation.fisher(f), pt.eye(observation.classes)
    cavity = pt.linalg.solve(eye - pt.matmul(found.covariance, information), found.covariance)
    mean = f - (cavity * found.alpha[:, None, :]).sum(axis=2)
    root = pt.linalg.cholesky(cavity + 1e-12 * eye, lower=True, on_error="nan")
    return found.logp, mean, root


def _sampled_cavity(process, theta, seen, s):
    """Sampled f, and mean and variance of f_i given the others, (n,) or (n, C) each.

    Given coefficients, f_i is known but for the samples' own deviations.
    """
    f, white = _sampled_values(process, theta, seen, s), theta[WHITE]
    if seen is not None:
        own = seen.D if OWN_WHITE in theta else pt.zeros(s.X.shape[0])
        mean = pt.dot(seen.F, white)
    else:
        root = cholesky(prior_covariance(process, s.X, s.Z, jitter=LATENT_JITTER))
        inverse = solve_root(root, pt.eye(root.shape[0]))
        own = 1.0 / pt.sqr(inverse).sum(axis=0)
        pull = pt.dot(inverse.T, white)
        mean = f - (own if f.ndim == 1 else own[:, None]) * pull
    return f, mean, own if f.ndim == 1 else own[:, None] * pt.ones_like(f)


def _sampled_values(process, theta, seen, s):
    """Latent values at the observations (n,) or (n, C), from whitened ones."""
    if seen is None:
        K = prior_covariance(process, s.X, s.Z, jitter=LATENT_JITTER)
        return pt.dot(cholesky(K), theta[WHITE])
    smooth = pt.dot(seen.F, theta[WHITE])
    if OWN_WHITE not in theta:
        return smooth
    spread = pt.sqrt(seen.D)
    return smooth + (spread if smooth.ndim == 1 else spread[:, None]) * theta[OWN_WHITE]
