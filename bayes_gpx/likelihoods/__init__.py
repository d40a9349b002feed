"""How the response varies around the process: one small class each.

All of them know, elementwise and for one draw of the hyperparameters,

- ``logp(f, y, theta, exposure)``, the log density of y given the latent value f, both (n,);
- ``derivatives(f, y, theta, exposure)``, its first three derivatives in f;
- ``fisher(f, theta, exposure)``, the expected information about f;
- ``response(f, exposure)``, the mean of y given f with two derivatives in f, and
  ``expected(mean, variance, exposure)``, their expectations where f ~ N(mean, variance);
- ``log_predictive(y, mean, variance, theta, exposure)``, the log density of y where
  f ~ N(mean, variance); where y is `ordered`, ``cumulative_predictive``, the probability of at most
  y, with the same arguments;
- ``draw(f, theta, rng, exposure)``, random y given f, in NumPy;
- ``dist(name, f, theta, exposure, **kwargs)``, y as a variable of the PyMC model at hand;
- ``read(y, labels)``, y checked and encoded, with its labels where it has any;
- ``center(y, exposure)``, the prior mean of f that fits the size of y.

For relevance they also know of y's predictive distribution at new points, in NumPy and with
derivatives in x (`bayes_gpx.numerics.jets`): what it is where f ~ N(mean, variance) (`predictive`)
and, from their family in `bayes_gpx.likelihoods.predictive`, which parameters it has, each with its
Fisher information (`parameters`), and how far apart two of them are (`divergence`).

theta is a dict of hyperparameters, tensors of floats. `Categorical` has C latent values and
matrices instead.
"""

from bayes_gpx.likelihoods.classification import Bernoulli, Categorical
from bayes_gpx.likelihoods.continuous import Normal, StudentT
from bayes_gpx.likelihoods.counts import NegativeBinomial, Poisson
from bayes_gpx.likelihoods.links import Logit, Probit

KNOWN = {
    "normal": {"identity": Normal()},
    "student_t": {"identity": StudentT()},
    "bernoulli": {"logit": Bernoulli(Logit()), "probit": Bernoulli(Probit())},
    "categorical": {"softmax": Categorical()},
    "poisson": {"log": Poisson()},
    "negative_binomial": {"log": NegativeBinomial()},
}
"""Every likelihood by name and link; the first link is the default."""

LIKELIHOODS = tuple(KNOWN)


def named(name, link=None):
    """Return a likelihood by its name and link.

    Raises
    ------
    ValueError
        For an unknown name, or a link that this likelihood does not have.
    """
    if name not in KNOWN:
        raise ValueError(f"likelihood: unknown {name!r}; expected one of {list(KNOWN)}.")
    links = KNOWN[name]
    if link is None:
        return next(iter(links.values()))
    if link not in links:
        raise ValueError(
            f"link is {link!r}; likelihood={name!r} expects one of {list(links)}. Leave it out "
            f"for {next(iter(links))!r}."
        )
    return links[link]
