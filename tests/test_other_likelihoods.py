"""Models whose noise is not normal: fits, files, leave-one-out terms, and what is refused."""

import arviz as az
import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx

RNG = np.random.default_rng(8)
N = 60
X = RNG.normal(size=(N, 2))
F = 2 * np.sin(1.5 * X[:, 0])
LABELS = np.where(F + RNG.logistic(size=N) > 0, "ill", "well")
COUNTS = RNG.poisson(np.exp(0.5 * F + 1))
THETA = {"lengthscale": [0.8, 1.5], "amplitude": 1.5}
QUIET = {"progressbar": False}
RESPONSES = {
    "bernoulli": (LABELS, {"link": "probit"}, "probability"),
    "poisson": (COUNTS, {"exposure": RNG.uniform(1, 2, size=N)}, "rate"),
    "negative_binomial": (COUNTS, {}, "rate"),
    "student_t": (F + 0.1 * RNG.standard_t(3, size=N), {}, "f"),
}


EACH = [(likelihood, bx.GP) for likelihood in RESPONSES] + [
    ("bernoulli", bx.GPX),
    *(
        pytest.param(likelihood, bx.GPX, marks=pytest.mark.slow)
        for likelihood in ("poisson", "negative_binomial", "student_t")
    ),
]


@pytest.mark.parametrize(("likelihood", "family"), EACH)
def test_a_fit_is_explained_and_kept(likelihood, family, tmp_path):
    y, options, name = RESPONSES[likelihood]
    model = family(X, y, likelihood=likelihood, **options)
    idata = model.fit(**QUIET)
    bx.save(model, idata, tmp_path / "fit.nc")
    loaded, kept = bx.load(tmp_path / "fit.nc")
    asked = {"draws": 50, "seed": 1, **QUIET}
    found = bx.predictions(model, idata, X[:4], **asked)
    assert {"f", "y", name, f"{name}_mean", f"{name}_sd"} <= set(found.data_vars)
    assert_allclose(bx.predictions(loaded, kept, X[:4], **asked)[name], found[name])
    options = {"keep": "summary", "on": "latent", **QUIET}
    shares = bx.attributions(model, idata, X[:4], **options)
    assert np.isfinite(shares["attribution_sd"]).all()
    if family is bx.GPX:
        added = bx.contributions(model, idata, X[:4], keep="summary", **QUIET)
        total = added["contribution_mean"].sum("feature") + added["offset"]
        assert_allclose(total, found["f_mean"], atol=1e-8)


def test_a_classifier_learns():
    grid = np.array([[-1.0, 0.0], [1.0, 0.0]])
    model = bx.GP(X, LABELS, likelihood="bernoulli")
    idata = model.fit("laplace", draws=150, seed=0, **QUIET)
    found = bx.predictions(model, idata, grid, seed=0, **QUIET)
    assert found.attrs["labels"] == ["ill", "well"]
    well = found["probability_mean"].values
    assert well[0] > 0.65 and well[1] < 0.4
    loo = az.loo(idata)
    assert -N * np.log(2) < loo.elpd < 0


@pytest.mark.slow
def test_nuts_on_the_laplace_marginal():
    model = bx.GP(X, LABELS, likelihood="bernoulli", ard=False)
    idata = model.fit("nuts", draws=200, tune=300, chains=2, seed=0, **QUIET)
    assert idata.attrs["r_hat_max"] < 1.05
    found = bx.predictions(model, idata, X, seed=0, **QUIET)
    right = (found["probability_mean"] > 0.5) == (LABELS == "well")
    assert right.mean() > 0.75


@pytest.mark.parametrize(("likelihood", "most"), [("bernoulli", 0.02), ("poisson", 0.1)])
def test_leave_one_out_terms_are_those_of_models_without_the_row(likelihood, most):
    y = LABELS if likelihood == "bernoulli" else COUNTS
    options = {"likelihood": likelihood, "scale": False}
    terms = bx.log_likelihood(bx.GP(X, y, **options), THETA, **QUIET)["log_likelihood"].values
    for i in range(0, N, 12):
        rest = np.arange(N) != i
        model = bx.GP(X[rest], y[rest], **options)
        found = bx.predictions(model, THETA, X[i : i + 1], on="latent", keep="summary", **QUIET)
        f = found["f_mean"].item() + found["f_sd"].item() * np.linspace(-8, 8, 2001)
        weights = np.exp(-0.5 * np.linspace(-8, 8, 2001) ** 2)
        if likelihood == "bernoulli":
            density = 1 / (1 + np.exp(-f if y[i] == "well" else f))
        else:
            density = np.exp(pm.logp(pm.Poisson.dist(np.exp(f)), y[i]).eval())
        expected = np.log((weights * density).sum() / weights.sum())
        assert abs(terms[0, 0, i] - expected) < most


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", RESPONSES)
def test_the_model_is_generative(likelihood):
    y, options, _ = RESPONSES[likelihood]
    model = bx.GP(X, y, likelihood=likelihood, **options)
    with model.pymc:
        drawn = pm.sample_prior_predictive(20, random_seed=0)
    assert drawn["prior_predictive"]["y"].shape == (1, 20, N)
    assert "y_white" in drawn["prior"]
    assert np.isfinite(model.pymc.compile_logp()(model.pymc.initial_point()))


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        (np.repeat("ill", N), {"likelihood": "bernoulli"}, "ill"),
        (np.arange(N) % 3, {"likelihood": "bernoulli"}, "two"),
        (COUNTS - 5, {"likelihood": "poisson"}, "-"),
        (COUNTS + 0.5, {"likelihood": "poisson"}, "fractional at position 0"),
        (LABELS, {}, "y"),
        (LABELS, {"likelihood": "bernoulli", "link": "log"}, "link is 'log'"),
        (LABELS, {"likelihood": "bernouli"}, "Did you mean 'bernoulli'"),
        (LABELS, {"likelihood": "bernoulli", "exposure": np.ones(N)}, "exposure was given"),
        (COUNTS, {"exposure": np.ones(N)}, "exposure was given"),
        (COUNTS, {"likelihood": "poisson", "exposure": np.zeros(N)}, "not above 0"),
        (LABELS, {"likelihood": "bernoulli", "approximation": bx.Inducing(5)}, "normal noise"),
    ],
)
def test_bad_responses_are_refused(y, options, message):
    with pytest.raises(ValueError, match=message):
        bx.GP(X, y, **options)


def test_what_is_not_there_yet_says_so():
    model = bx.GP(X, LABELS, likelihood="bernoulli")
    for verb in (bx.derivatives, bx.attributions):
        with pytest.raises(ValueError, match="of the probability is not there yet.*on='latent'"):
            verb(model, THETA, X[:2], **QUIET)
    with pytest.raises(ValueError, match="exposure was given"):
        bx.predictions(model, THETA, X[:2], exposure=[1.0, 1.0])
    counts = bx.GP(X, COUNTS, likelihood="poisson")
    with pytest.raises(ValueError, match="exposure has shape"):
        bx.predictions(counts, THETA, X[:2], exposure=[1.0])
