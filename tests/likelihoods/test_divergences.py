"""KL-diff and KL-diff^2 of every likelihood against the divergence itself, with 40 digits."""

from functools import partial

import mpmath as mp
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from scipy import special, stats

import bayes_gpx as bx
from bayes_gpx.explain.sensitivities import change
from bayes_gpx.likelihoods import classification, named
from bayes_gpx.likelihoods.predictive import Predictive
from bayes_gpx.numerics.jets import Jet

QUIET = {"progressbar": False}
THETA = {"sigma": 0.7, "nu": 3.3, "dispersion": 1.8, "inflation": 0.3, "precision": 4.5}
H = mp.mpf(10) ** -9
"""Of central differences; their error is below 1e-16."""

CASES = [
    ("normal", None, 0.0),
    ("student_t", None, 0.0),
    ("bernoulli", "logit", 0.0),
    ("bernoulli", "logit", 30.0),
    ("bernoulli", "probit", 0.0),
    ("bernoulli", "probit", -14.0),
    ("bernoulli", "probit", 30.0),
    ("poisson", None, 0.0),
    ("negative_binomial", None, 0.0),
    ("zero_inflated_poisson", None, 0.0),
    ("zero_inflated_negative_binomial", None, 0.0),
    ("binomial", "probit", 0.0),
    ("beta", None, 0.0),
    ("asymmetric_laplace", None, 0.0),
]


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(40):
        yield


def mean(a, b, far=0):
    return mp.mpf("0.3") + far + 0.7 * a - 0.4 * b + 0.5 * a * b + 0.2 * a**2


def variance(a, b):
    return mp.mpf("0.4") + 0.1 * mp.exp(a) + 0.2 * b * a + 0.3 * b + 0.1 * b**2


def jet(function):
    """Value and derivatives at 0 of a function of two features."""
    first = [mp.diff(function, (0, 0), order) for order in ((1, 0), (0, 1))]
    aa, ab, bb = (mp.diff(function, (0, 0), order) for order in ((2, 0), (1, 1), (0, 2)))
    return Jet(
        np.array([float(function(0, 0))]),
        np.array([first], float),
        np.array([[[aa, ab], [ab, bb]]], float),
    )


def parameters(name, link, m, v):
    """Parameters of y's distribution where f ~ N(m, v), as the issue of them: no shared code."""
    if name in ("normal", "student_t"):
        return m, v + mp.mpf(THETA["sigma"]) ** 2
    if name == "asymmetric_laplace":  # of the median
        return m, v + 4 * mp.mpf(THETA["sigma"]) ** 2
    if name not in ("bernoulli", "binomial", "beta"):
        return (mp.exp(m + v / 2),)
    if link == "probit":
        u = m / mp.sqrt(1 + v)
        return (mp.erfc(-u / mp.sqrt(2)) / 2,)
    sd = mp.sqrt(v)
    if m > 5:  # as 1 - E, so that a small difference to 1 keeps its digits
        return (1 - _trapezoid(lambda z: 1 / (1 + mp.exp(m + sd * z))),)
    return (_trapezoid(lambda z: 1 / (1 + mp.exp(-m - sd * z))),)


def _trapezoid(g):
    """E g(z) for standard normal z."""
    step = mp.mpf(1) / 8
    nodes = [step * k for k in range(-112, 113)]
    return step * mp.fsum(mp.npdf(z) * g(z) for z in nodes)


def divergence(name, here, there):
    """Kullback-Leibler divergence by its definition: an integral or a sum over y."""
    if name in ("normal", "asymmetric_laplace"):
        (m, v), (k, w) = here, there
        return (mp.log(w / v) + (v + (m - k) ** 2) / w - 1) / 2
    if name == "student_t":
        nu = mp.mpf(THETA["nu"])
        (m, v), (k, w) = here, there
        constant = mp.gamma((nu + 1) / 2) / mp.gamma(nu / 2) / mp.sqrt(nu * mp.pi)

        def integrand(t):
            x = mp.sinh(t)  # log10 of what is left out: 3.3 * 40 / 2.3
            p = constant * (1 + x**2 / nu) ** (-(nu + 1) / 2)
            moved = 1 + (m + mp.sqrt(v) * x - k) ** 2 / (nu * w)
            gap = mp.log(w / v) / 2 + (nu + 1) / 2 * mp.log(moved / (1 + x**2 / nu))
            return p * gap * mp.cosh(t)

        step = mp.mpf(1) / 16
        return step * mp.fsum(integrand(step * i) for i in range(-480, 481))
    if name == "beta":
        (p,), (q,), phi = here, there, mp.mpf(THETA["precision"])
        constant = mp.beta(phi * q, phi - phi * q) / mp.beta(phi * p, phi - phi * p)
        power = phi * (p - q)

        def integrand(t):  # over the log odds of y
            y, rest = 1 / (1 + mp.exp(-t)), 1 / (1 + mp.exp(t))
            density = y ** (phi * p) * rest ** (phi - phi * p)
            return density * (mp.log(constant) + power * t)

        step = mp.mpf(1) / 16
        total = step * mp.fsum(integrand(step * i) for i in range(-1600, 1601))
        return total / mp.beta(phi * p, phi - phi * p)
    if name in ("bernoulli", "binomial"):
        (p,), (q,) = here, there
        return p * mp.log(p / q) + (1 - p) * mp.log((1 - p) / (1 - q))
    (mu,), (other,) = here, there
    a = mp.mpf(THETA["dispersion"])

    def log_p(y, mu):
        if name.startswith("zero_inflated"):
            inflation = mp.mpf(THETA["inflation"])
            p = (1 - inflation) * mp.exp(log_of_others(y, mu / (1 - inflation)))
            return mp.log(p + (inflation if y == 0 else 0))
        return log_of_others(y, mu)

    def log_of_others(y, mu):
        if name.endswith("poisson"):
            return y * mp.log(mu) - mu - mp.loggamma(y + 1)
        constant = mp.loggamma(y + a) - mp.loggamma(a) - mp.loggamma(y + 1)
        return constant + a * mp.log(a / (a + mu)) + y * mp.log(mu / (a + mu))

    return mp.fsum(mp.exp(log_p(y, mu)) * (log_p(y, mu) - log_p(y, other)) for y in range(200))


@pytest.mark.parametrize(("name", "link", "far"), CASES)
def test_both_measures_are_what_the_divergence_says(name, link, far):
    likelihood = named(name, link)
    m = partial(mean, far=far)
    found = likelihood.predictive(jet(m), jet(variance), THETA)
    first, second = change(likelihood.parameters(found), 2.0)
    with mp.workdps(40 if not far else 250 + 40):

        def of(a, b):
            return parameters(name, link, m(a, b), variance(a, b))

        here, h = of(0, 0), H / 10 ** (0 if not far else 60)
        for d, (a, b) in enumerate(((h, 0), (0, h))):
            both = divergence(name, here, of(a, b)) + divergence(name, here, of(-a, -b))
            assert_allclose(first[0, d], float(mp.sqrt(both) / h), rtol=1e-8)
        corners = [of(h * i, h * j) for i, j in ((1, 1), (-1, -1), (1, -1), (-1, 1))]
        mixed = [(p + q - r - s) / (4 * h * h) for p, q, r, s in zip(*corners, strict=True)]
        # The divergence along the direction of the mixed derivatives: the sum with all I_kl.
        size = h * min(here[-1], 1 - here[-1]) if name in ("bernoulli", "binomial") else h
        unit = size / mp.sqrt(mp.fsum(p**2 for p in mixed))
        ends = [[p + s * unit * q for p, q in zip(here, mixed, strict=True)] for s in (1, -1)]
        along = sum(divergence(name, here, end) for end in ends) / unit**2
        assert_allclose(second[0, 0, 1], float(mp.sqrt(2 * along)), rtol=1e-8)
        assert second[0, 0, 1] == second[0, 1, 0]


@pytest.mark.parametrize(("name", "link", "far"), CASES)
def test_divergences_near_and_far(name, link, far):
    likelihood = named(name, link)
    for step, rtol in ((1e-4, 1e-9), (0.5, 1e-12)):
        ms = [mean(0, 0, far), mean(step, 0, far)]
        vs = [variance(0, 0), variance(step, 0)]
        arrays = [Jet(np.array(values, float)) for values in (ms, vs)]
        found = likelihood.predictive(*arrays, THETA)
        near = likelihood.divergence(found.at(slice(0, 1)), found.at(slice(1, 2)))[0]
        with mp.workdps(300):
            exact = [
                parameters(name, link, mp.mpf(m), mp.mpf(v))
                for m, v in zip(*(jet.value for jet in arrays), strict=True)
            ]
            assert_allclose(near, float(divergence(name, *exact)), rtol=rtol)


@pytest.mark.parametrize(("precision", "move"), [(1e6, 4e-9), (1e8, 1e-8), (1e8, 1e-3)])
def test_divergences_of_nearly_equal_proportions(precision, move):
    pair = [
        Predictive((Jet(np.array([m])), Jet(np.array([1 - m]))), None, precision)
        for m in (0.5, 0.5 + move)
    ]
    found = named("beta").divergence(*pair)[0]
    with mp.workdps(60):
        (a, b), (c, d) = (
            [mp.mpf(precision) * mp.mpf(jet.value[0]) for jet in one.means] for one in pair
        )
        apart = mp.loggamma(c) - mp.loggamma(a) + mp.loggamma(d) - mp.loggamma(b)
        apart -= (c - a) * mp.digamma(a) + (d - b) * mp.digamma(b)
    assert_allclose(found, float(apart), rtol=1e-6)


def test_predictive_distributions_of_draws_share_their_functions():
    likelihood, draws = named("beta"), [THETA, THETA | {"precision": 9.0}]
    for theta in draws:
        likelihood.predictive(jet(mean), jet(variance), theta)
    made = classification.expected.cache_info().misses
    for theta in draws:
        likelihood.predictive(jet(mean), jet(variance), theta)
    assert classification.expected.cache_info().misses == made


@pytest.mark.parametrize(
    ("name", "inflation"),
    [("negative_binomial", 0.0), ("zero_inflated_poisson", 1e-9), ("zero_inflated_poisson", 0.3)],
)
@pytest.mark.parametrize("logs", [(2.0, 8.0), (8.0, 2.0), (8.0, 7.0), (36.0, 35.5)])
def test_divergences_of_large_counts(name, inflation, logs):
    """Where zeros have underflown, and where means have more digits than the divergence."""
    excess = np.array([0.0, inflation]) if name.startswith("zero") else 1 / 1.8
    here, there = (Predictive((Jet(np.exp([v])),), None, excess) for v in logs)
    found = named(name).divergence(here, there)[0]
    with mp.workdps(60):
        mu, other = (mp.mpf(np.exp(v)) for v in logs)
        if name == "negative_binomial":
            a = mp.mpf(1.8)
            apart = mu * mp.log(mu / other) + (mu + a) * mp.log((a + other) / (a + mu))
        else:
            share = 1 - mp.mpf(inflation)
            rates = mu / share, other / share
            zeros = [inflation + share * mp.exp(-rate) for rate in rates]
            p = mp.exp(-rates[0])
            of_others = rates[0] * mp.log(mu / other) - rates[0] + rates[1]
            apart = share * (of_others - p * (rates[1] - rates[0]))
            apart += zeros[0] * mp.log(zeros[0] / zeros[1])
        assert_allclose(found, float(apart), rtol=1e-9)


def test_probabilities_of_several_labels():
    """For C labels, from jets of their probabilities; with two, what a Bernoulli has."""
    categorical = named("categorical")

    def softmax(a, b):
        f = [0.4 * a - b, a * b + 0.3, mp.mpf(-2) + b**2 - a]
        return [mp.exp(v) / sum(map(mp.exp, f)) for v in f]

    jets = tuple(jet(lambda a, b, c=c: softmax(a, b)[c]) for c in range(3))
    first, second = change(categorical.parameters(Predictive(jets)))

    def apart(p, q):
        return mp.fsum(a * mp.log(a / b) for a, b in zip(p, q, strict=True))

    here = softmax(0, 0)
    for d, (a, b) in enumerate(((H, 0), (0, H))):
        both = apart(here, softmax(a, b)) + apart(here, softmax(-a, -b))
        assert_allclose(first[0, d], float(mp.sqrt(both) / H), rtol=1e-8)
    mixed = [mp.diff(lambda a, b, c=c: softmax(a, b)[c], (0, 0), (1, 1)) for c in range(3)]
    ends = [[p + s * H * q for p, q in zip(here, mixed, strict=True)] for s in (1, -1)]
    along = sum(apart(here, end) for end in ends)
    assert_allclose(second[0, 0, 1], float(mp.sqrt(along) / H), rtol=1e-8)
    there = softmax(0.2, 0.1)
    pair = [Predictive(tuple(Jet(np.array([float(value)])) for value in p)) for p in (here, there)]
    assert_allclose(categorical.divergence(*pair), float(apart(here, there)), rtol=1e-13)
    two = Predictive((jets[0], Jet(1 - jets[0].value, -jets[0].first, -jets[0].second)))
    p = jets[0].value[0]
    assert_allclose(
        change(categorical.parameters(two))[0][0],
        abs(jets[0].first[0]) / np.sqrt(p * (1 - p)),
        rtol=1e-12,
    )


def test_limits():
    """Student-t tends to normal, negative binomial to Poisson; certain labels stay finite."""
    m, v = jet(mean), jet(variance)
    pairs = {"student_t": ("normal", {"nu": 1e9}), "negative_binomial": ("poisson", {})}
    for name, (limit, given) in pairs.items():
        theta = {**THETA, "dispersion": 1e9, **given}
        found, other = (
            change(named(kind).parameters(named(kind).predictive(m, v, theta)))
            for kind in (name, limit)
        )
        for near, exact in zip(found, other, strict=True):
            assert_allclose(near, exact, rtol=1e-7)
    for link in ("logit", "probit"):
        likelihood = named("bernoulli", link)
        for u in (-800.0, -60.0, 60.0, 800.0):
            sure = likelihood.predictive(m.shifted(u), v, THETA)
            for values in change(likelihood.parameters(sure)):
                assert np.isfinite(values).all()
                assert (values < 1e-8).all()
            apart = likelihood.divergence(sure.at(slice(None)), sure.at(slice(None)))
            assert_allclose(apart, 0.0, atol=1e-15)
    logit = named("bernoulli")
    none = Jet(np.zeros(1), np.zeros((1, 2)), np.zeros((1, 2, 2)))
    p = 1 / (1 + np.exp(-0.3))
    slope = change(logit.parameters(logit.predictive(m, none, THETA)))[0]
    assert_allclose(slope, np.abs(m.first) * np.sqrt(p * (1 - p)), rtol=1e-12)


MODELS = [
    *("student_t", "asymmetric_laplace", "bernoulli", "probit", "binomial", "beta"),
    *("poisson", "negative_binomial", "zero_inflated_poisson"),
]


@pytest.fixture(scope="module")
def posterior():
    """Three draws that no sampler had to make."""
    spread = np.array([[0.7, 1.0, 1.4]])
    values = {
        "amplitude": spread,
        "sigma": 0.4 * spread,
        "nu": 3 / spread,
        "dispersion": 2 * spread,
        "inflation": 0.2 * spread,
        "precision": 4 * spread,
    }
    values["sigma_w"] = 0.3 / spread
    variables = {name: (("chain", "draw"), value) for name, value in values.items()}
    lengths = spread[..., None] * [0.9, 1.6]
    variables["lengthscale"] = ("chain", "draw", "feature"), lengths
    return xr.Dataset(variables, {"chain": [0], "draw": range(3), "feature": ["a", "b"]})


def build(name, posterior, kind=bx.GP, **options):
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.normal([1.0, -3.0], [2.0, 0.5], (15, 2)), columns=["a", "b"])
    f = np.sin(X["a"]) + (X["b"] + 3.0) * X["a"]
    link = "probit" if name == "probit" else None
    name = "bernoulli" if link else name
    y = f + 0.3 * rng.standard_t(3, 15)
    if name == "bernoulli":
        y = np.where(y > 0, "yes", "no")
    elif name == "binomial":
        options["trials"] = rng.integers(2, 6, 15)
        y = rng.binomial(options["trials"], 1 / (1 + np.exp(-0.3 * f)))
    elif name == "beta":
        y = 1 / (1 + np.exp(-y))
    elif name not in ("student_t", "asymmetric_laplace"):
        y = rng.poisson(5 * np.exp(0.3 * f))
    model = kind(X, y, likelihood=name, link=link, **options)
    known = [h for h in posterior.data_vars if h in model.hyperparameters]
    new = pd.DataFrame(rng.normal([1.0, -3.0], [2.0, 0.5], (3, 2)), columns=["a", "b"])
    return model, xr.DataTree.from_dict({"posterior": posterior[known]}), new


def information_of_inflated(mean, inflation):
    """Expected square of the score in the mean, which is a difference, as a sum over counts."""
    y = np.arange(200)[:, None]

    def log_p(mean):
        p = (1 - inflation) * stats.poisson.pmf(y, mean / (1 - inflation))
        return np.log(np.where(y == 0, inflation + p, np.maximum(p, 1e-300)))

    step = 1e-5 * mean
    score = (log_p(mean + step) - log_p(mean - step)) / (2 * step)
    return (np.exp(log_p(mean)) * score**2).sum(axis=0)


def by_differences(model, idata, X, excess):
    """Both measures by differences of what `predictions` says of new samples."""
    name = model.specification.observation.mean_name
    step = 1e-3 * X.std().values

    def at(i, j):
        moved = X + [i * step[0], j * step[1]]
        found = bx.predictions(model, idata, moved, keep="summary", **QUIET)
        if name is not None:
            return found[f"{name}_mean"].values[None]
        return np.stack([found["f_mean"], found["f_sd"] ** 2])

    here = at(0, 0)
    first = [
        (8 * (at(*e) - at(*-e)) - (at(*(2 * e)) - at(*(-2 * e)))) / (12 * s)
        for e, s in zip(np.eye(2), step, strict=True)
    ]
    mixed = (at(1, 1) - at(1, -1) - at(-1, 1) + at(-1, -1)) / (4 * step[0] * step[1])
    if name == "probability" or model.specification.likelihood == "binomial":
        information = [1 / (here[0] * (1 - here[0]))]
    elif name == "mean":
        information = [
            excess**2 * special.polygamma(1, excess * np.array([here[0], 1 - here[0]])).sum(0)
        ]
    elif model.specification.likelihood == "zero_inflated_poisson":
        information = [information_of_inflated(here[0], excess)]
    elif name == "rate":
        information = [1 / (here[0] + excess * here[0] ** 2)]
    else:
        sd = float(model.training.y_scaling.scale)
        nu, v = 1 / excess[0], here[1] + excess[1] * sd**2
        information = [(nu + 1) / ((nu + 3) * v), nu / (2 * (nu + 3) * v**2)]

    def norm(parts):
        return np.sqrt(sum(i * p**2 for i, p in zip(information, parts, strict=True)))

    return np.stack([norm(part) for part in first], axis=1), norm(mixed)


OPTIONS = [
    *[(name, {}) for name in MODELS if name != "bernoulli"],
    pytest.param("bernoulli", {}, marks=pytest.mark.slow),
    pytest.param("poisson", {"approximation": bx.Inducing(6)}, marks=pytest.mark.slow),
    pytest.param("probit", {"approximation": bx.HSGP(5, 4.0)}, marks=pytest.mark.slow),
    ("bernoulli", {"kind": bx.GPX}),
]


@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_models_answer_for_their_own_predictions(name, options, posterior):
    """Those of a GPX with `eps_w` of their own, whose spread changes with z, which is x."""
    model, idata, new = build(name, posterior, **options)
    for draws in ([1], [0, 1, 2]):
        some = idata.isel(draw=draws)
        each = some["posterior"].to_dataset()
        excess = 0.0
        if name == "negative_binomial":
            excess = float((1 / each["dispersion"]).mean())
        elif name == "student_t":
            excess = float((1 / each["nu"]).mean()), float((each["sigma"] ** 2).mean())
        elif name == "asymmetric_laplace":
            excess = 1e-12, 4 * float((each["sigma"] ** 2).mean())
        elif name in ("beta", "zero_inflated_poisson"):
            excess = float(each["precision" if name == "beta" else "inflation"].mean())
        first, second = by_differences(model, some, new, excess)
        found = bx.relevance(model, some, new, over="mixture", **QUIET)
        pairs = bx.interactions(model, some, new, over="mixture", **QUIET)
        assert_allclose(found["relevance"], first, rtol=1e-6)
        assert_allclose(pairs["interaction"][:, 0, 1], second, rtol=1e-4, atol=1e-6)
        step = {"method": "finite_difference", "step": 1e-5}
        near = bx.relevance(model, some, new, over="mixture", **step, **QUIET)
        assert_allclose(near["relevance"], first, rtol=1e-3)
    alone = bx.relevance(model, idata, new, **QUIET)["relevance"][:, [1]]
    one = bx.relevance(model, idata.isel(draw=[1]), new, over="mixture", **QUIET)
    # To what is left of the search for the posterior's mode.
    assert_allclose(alone[0, 0], one["relevance"], rtol=1e-7)


def test_a_process_that_is_not_differentiable_is_refused_for_any_likelihood(posterior):
    def rough(d):
        return pm.gp.cov.Exponential(d, ls=1.0)

    model, *_ = build("poisson", posterior, kernel=rough)
    for verb in (bx.relevance, bx.interactions):
        with pytest.raises(ValueError, match="Exponential has no (gradient|Hessian).*Use Matern"):
            verb(model, {}, **QUIET)
    model, idata, new = build("bernoulli", posterior, kernel="matern32")
    assert (bx.interactions(model, idata, new, **QUIET)["interaction"][..., 0, 1] > 0).all()
