"""How the response varies around the process: one small class each, under the bases of `base`."""

from typing import Any

from bayes_gpx.likelihoods.base import Likelihood
from bayes_gpx.likelihoods.binomial import Binomial
from bayes_gpx.likelihoods.classification import Bernoulli, Categorical, Logit, Probit
from bayes_gpx.likelihoods.continuous import KnownNoise as KnownNoise, Normal, StudentT
from bayes_gpx.likelihoods.counts import NegativeBinomial, Poisson
from bayes_gpx.likelihoods.heteroscedastic import HeteroscedasticNormal
from bayes_gpx.likelihoods.ordinal import Ordinal
from bayes_gpx.likelihoods.own import custom as custom
from bayes_gpx.likelihoods.positive import Gamma, LogLogistic, LogNormal, Weibull
from bayes_gpx.likelihoods.proportions import Beta
from bayes_gpx.likelihoods.quantiles import asymmetric_laplace as asymmetric_laplace
from bayes_gpx.likelihoods.zero_inflated import ZeroInflatedNegativeBinomial, ZeroInflatedPoisson
from bayes_gpx.validation import one_of

KNOWN: dict[str, dict[str, Likelihood]] = {
    "normal": {"identity": Normal()},
    "student_t": {"identity": StudentT()},
    "heteroscedastic_normal": {"identity": HeteroscedasticNormal()},
    "bernoulli": {"logit": Bernoulli(Logit()), "probit": Bernoulli(Probit())},
    "binomial": {"logit": Binomial(Logit()), "probit": Binomial(Probit())},
    "categorical": {"softmax": Categorical()},
    "ordinal": {"logit": Ordinal(Logit()), "probit": Ordinal(Probit())},
    "poisson": {"log": Poisson()},
    "negative_binomial": {"log": NegativeBinomial()},
    "zero_inflated_poisson": {"log": ZeroInflatedPoisson()},
    "zero_inflated_negative_binomial": {"log": ZeroInflatedNegativeBinomial()},
    "lognormal": {"log": LogNormal()},
    "gamma": {"log": Gamma()},
    "weibull": {"log": Weibull()},
    "loglogistic": {"log": LogLogistic()},
    "beta": {"logit": Beta()},
    "asymmetric_laplace": {"identity": asymmetric_laplace()},
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


def exposure_of(likelihood: Likelihood, **given: Any) -> Any:
    """Return the one of `exposure`, `trials`, `noise_sd` that a likelihood takes, or None.

    Raises
    ------
    ValueError
        If another is given, or one to a likelihood that takes none, with those that do.
    """
    for name, values in given.items():
        if values is not None and not (likelihood.exposed and likelihood.exposure_name == name):
            links = {key: next(iter(each.values())) for key, each in KNOWN.items()}
            able = [k for k, own in links.items() if own.exposed and own.exposure_name == name]
            if name == "noise_sd":
                raise ValueError(
                    "noise_sd was given, but is used only with likelihood='normal', and for "
                    "predictions only if the model was built with noise_sd. Leave it out."
                )
            or_own = ", or one of your own with mean exposure * exp(f)"
            raise ValueError(
                f"{name} was given, but is used only with likelihood="
                f"{' or '.join(map(repr, able))}{or_own if name == 'exposure' else ''}. Leave it "
                "out."
            )
    return given[likelihood.exposure_name]
