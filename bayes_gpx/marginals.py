"""Where noise is not normal: what stands in for the evidence, and the posteriors that go with it.

Laplace's approximation at the mode; through coefficients, the bound of the best Gaussian posterior
of them; or latent values that are sampled.
"""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayes_gpx.conditioning import Posterior, cholesky
from bayes_gpx.laplace import laplace_evidence, laplace_sites
from bayes_gpx.operators import evaluate
from bayes_gpx.posteriors.laplace import laplace, prior_covariance
from bayes_gpx.posteriors.latent import latent
from bayes_gpx.posteriors.low_rank import LowRank
from bayes_gpx.posteriors.softmax import Coupled
from bayes_gpx.softmax import softmax_laplace
from bayes_gpx.variational import variational
from bayes_gpx.views import OWN_WHITE, WHITE, seen_through

LATENT_JITTER = 1e-8
"""Added to the covariance of latent values that are drawn, as a multiple of its mean diagonal."""


def marginal(specification, process, theta, s, *, ridge, scaling, name, class_dim=None, **observed):
    """Add what stands in for the response's evidence to the PyMC model on the context stack.

    What `fit` works on where noise is not normal: its only random variables are hyperparameters.
    Arguments are those of `bayes_gpx.collapsed.observe`.
    """
    observation = specification.observation
    seen = seen_through(specification, process, theta, s)
    if seen is None:
        K = prior_covariance(process, s.X, s.Z)
        own = pt.arange(K.shape[0])
        parts, signature = [K[own, own].inc(ridge)], "(n,n)"
    else:
        parts, signature = [seen.F, seen.unseen + seen.D + ridge], "(n,m),(n)"
    names = observation.hyperparameters

    def logp(value, *given):
        *parts, exposure = given[: len(given) - len(names)]
        known = dict(zip(names, given[len(given) - len(names) :], strict=True))
        y = (value - scaling.center) / scaling.scale
        evidence = _evidence(observation, parts, y, known, exposure)
        return evidence - value.shape[0] * np.log(scaling.scale)

    pm.CustomDist(
        name,
        *parts,
        s.exposure,
        *(theta[n] for n in names),
        logp=logp,
        signature=f"{signature},(n){',()' * len(names)}->(n)",
        **observed,
    )


def _evidence(observation, parts, y, theta, exposure):
    if len(parts) > 1:
        return variational(observation, *parts, y, theta, exposure).bound
    if observation.classes is not None:
        return softmax_laplace(observation, *parts, y).logp
    return laplace_evidence(observation, *parts, y, theta, exposure)[0]


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
    """Evidence or what stands in for it, and the log density of each y_i given the others.

    Each observation's site is taken out of the Gaussian posterior: Vehtari et al., "Bayesian
    leave-one-out cross-validation approximations for Gaussian latent variable models" (2016),
    section 3.3. Of sampled latent values: log p(y | f), and its terms at each draw.
    """
    observation, seen = specification.observation, seen_through(specification, process, theta, s)
    if WHITE in theta:
        terms = observation.logp(_sampled_values(process, theta, seen, s), s.y, theta, s.exposure)
        return terms.sum(), terms
    if seen is not None:
        rest = seen.unseen + seen.D
        found = variational(observation, seen.F, rest, s.y, theta, s.exposure)
        mean = pt.dot(seen.F, found.coefficients.T)
        known = found.variance / (1.0 - found.W * found.variance)
        rest = rest if observation.classes is None else rest[:, None]
        return found.bound, _predictive(
            observation, mean - known * found.slope, known + rest, theta, s
        )
    K = prior_covariance(process, s.X, s.Z, jitter=s.jitter)
    if observation.classes is None:
        found = laplace_sites(observation, K, s.y, theta, s.exposure)
        variance = found.variance / found.left
        return found.logp, _predictive(
            observation, found.f - variance * found.alpha, variance, theta, s
        )
    found = softmax_laplace(observation, K, s.y)
    f = pt.dot(K, found.alpha)
    information, eye = observation.fisher(f), pt.eye(observation.classes)
    cavity = pt.linalg.solve(eye - pt.matmul(found.covariance, information), found.covariance)
    mean = f - (cavity * found.alpha[:, None, :]).sum(axis=2)
    root = pt.linalg.cholesky(cavity + 1e-12 * eye, lower=True, on_error="nan")
    return found.logp, observation.log_predictive(s.y, mean, root)


def _predictive(observation, mean, variance, theta, s):
    if observation.classes is None:
        return observation.log_predictive(s.y, mean, variance, theta, s.exposure)
    root = pt.sqrt(variance)[:, :, None] * pt.eye(observation.classes)
    return observation.log_predictive(s.y, mean, root)


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


def generative(
    specification, process, theta, s, *, scaling, name, dims, class_dim=None, **observed
):
    """Add whitened latent values, and y around them, to the PyMC model on the context stack.

    With basis functions their coefficients take the place of the latent values, and in a GPX there
    are the samples' own deviations too. With inducing points the process itself is the model.

    Returns
    -------
    list of the graphs that hyperparameters enter by
    """
    observation, several = specification.observation, specification.classes
    classes = () if several is None else (class_dim,)
    seen = seen_through(specification, process, theta, s) if s.U is None else None
    sampled = {}
    if seen is None:
        sampled[WHITE] = pm.Normal(f"{name}_{WHITE}", dims=(dims, *classes))
        entries = [prior_covariance(process, s.X, s.Z)]
    else:
        shape = (seen.F.shape[1], *(() if several is None else (several,)))
        sampled[WHITE] = pm.Normal(f"{name}_{WHITE}", shape=shape)
        entries = [seen.F]
        if seen.own_variances is not None:
            sampled[OWN_WHITE] = pm.Normal(f"{name}_{OWN_WHITE}", dims=(dims, *classes))
            entries.append(seen.D)
    f = scaling.center + scaling.scale * _sampled_values(process, theta | sampled, seen, s)
    own = theta | ({"sigma": scaling.scale * theta["sigma"]} if "sigma" in theta else {})
    observation.dist(name, f, own, s.exposure, dims=dims, **observed)
    return entries
