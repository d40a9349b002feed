"""How the response varies around the process: one small class each, under the bases of `base`."""

from typing import Any

from bayes_gpx.likelihoods.base import Likelihood
from bayes_gpx.likelihoods.classification import Bernoulli, Categorical, Logit, Probit
from bayes_gpx.likelihoods.continuous import Normal, StudentT
from bayes_gpx.likelihoods.counts import NegativeBinomial, Poisson
from bayes_gpx.likelihoods.own import custom as custom
from bayes_gpx.likelihoods.positive import Gamma, LogLogistic, LogNormal, Weibull
from bayes_gpx.likelihoods.proportions import Beta
from bayes_gpx.likelihoods.zero_inflated import ZeroInflatedNegativeBinomial, ZeroInflatedPoisson
from bayes_gpx.validation import one_of

KNOWN: dict[str, dict[str, Likelihood]] = {
    "normal": {"identity": Normal()},
    "student_t": {"identity": StudentT()},
    "bernoulli": {"logit": Bernoulli(Logit()), "probit": Bernoulli(Probit())},
    "categorical": {"softmax": Categorical()},
    "poisson": {"log": Poisson()},
    "negative_binomial": {"log": NegativeBinomial()},
    "zero_inflated_poisson": {"log": ZeroInflatedPoisson()},
    "zero_inflated_negative_binomial": {"log": ZeroInflatedNegativeBinomial()},
    "lognormal": {"log": LogNormal()},
    "gamma": {"log": Gamma()},
    "weibull": {"log": Weibull()},
    "loglogistic": {"log": LogLogistic()},
    "beta": {"logit": Beta()},
}
"""Every likelihood by name and link; the first link is the default."""


def named(name: str | Likelihood, link: str | None = None) -> Likelihood:
    """Return a likelihood by its name and link; a likelihood itself has no link.

    Raises
    ------
    ValueError
        For an unknown name, or a link that this likelihood does not have.
    """
    if isinstance(name, Likelihood):
        if link is not None:
            raise ValueError(f"link is {link!r}, but likelihood is {name!r}. Leave link out.")
        return name
    one_of("likelihood", name, KNOWN)
    links = KNOWN[name]
    if link is None:
        return next(iter(links.values()))
    if link not in links:
        raise ValueError(
            f"link is {link!r}; likelihood={name!r} expects one of {list(links)}. Leave it out "
            f"for {next(iter(links))!r}."
        )
    return links[link]


def refuse_exposure(exposure: Any, likelihood: Likelihood) -> None:
    """Raise if an exposure is given to a likelihood that takes none, and name those that do."""
    if exposure is not None and not likelihood.exposed:
        able = [name for name, links in KNOWN.items() if any(x.exposed for x in links.values())]
        raise ValueError(
            f"exposure was given, but is used only with likelihood={' or '.join(map(repr, able))}, "
            "or one of your own with mean exposure * exp(f). Leave it out."
        )
