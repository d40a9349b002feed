"""Models whose noise is not normal: fits, files, leave-one-out terms, and what is refused."""

import itertools

import arviz as az
import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx.inference.log_density import Density
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.posteriors.evidence.laplace import FindsMode

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


EACH = [(likelihood, bx.GP) for likelihood in RESPONSES if likelihood != "bernoulli"] + [
    pytest.param("bernoulli", bx.GP, marks=pytest.mark.slow),
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
    idata = model.fit("map", start=dict.fromkeys(model.hyperparameters, 1.0), **QUIET)
    bx.save(model, idata, tmp_path / "fit.nc")
    loaded, kept = bx.load(tmp_path / "fit.nc")
    own = "Fisher" if likelihood == "student_t" else "observed"
    assert kept.attrs["laplace_information"] == own
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


def test_modes_of_a_fit_are_not_searched_for_again(monkeypatch):
    """Covariances and scaled responses of the density are an explanation's to the last bit."""
    y, *_ = RESPONSES["student_t"]
    model = bx.GP(X, 3.0 + 0.7 * y, likelihood="student_t")
    density = Density(model.objective, jacobian=True)
    at = density.unconstrain({"sigma": 0.3, "nu": 5.0})
    assert np.isfinite(density.height(at))
    monkeypatch.setattr(FindsMode, "climb", None)  # a search would fail
    theta = {name: density.expand()(at)[name] for name in model.hyperparameters}
    assert np.isfinite(bx.log_likelihood(model, theta, **QUIET)["log_likelihood"]).all()


@pytest.mark.filterwarnings("ignore:The posterior is far from its Laplace")
@pytest.mark.parametrize(
    ("method", "draws"), [("map", 1), pytest.param("laplace", 150, marks=pytest.mark.slow)]
)
def test_a_classifier_learns(method, draws):
    grid = np.array([[-1.0, 0.0], [1.0, 0.0]])
    model = bx.GP(X, LABELS, likelihood="bernoulli")
    start = dict.fromkeys(model.hyperparameters, 1.0)
    idata = model.fit(method, draws=draws, seed=0, start=start, **QUIET)
    found = bx.predictions(model, idata, grid, seed=0, **QUIET)
    assert found.attrs["labels"] == ["ill", "well"]
    well = found["probability_mean"].values
    assert well[0] > 0.65 and well[1] < 0.4
    if method == "laplace":
        terms = idata["log_likelihood"]["y"]
    else:
        theta = {name: idata["posterior"][name].values[0, 0] for name in model.hyperparameters}
        terms = bx.log_likelihood(model, theta, **QUIET)["log_likelihood"]
    assert terms.shape == (1, draws, N)
    assert -N * np.log(2) < terms.mean(("chain", "draw")).sum() < 0


@pytest.mark.slow
def test_nuts_on_the_laplace_marginal():
    model = bx.GP(X, LABELS, likelihood="bernoulli", ard=False)
    idata = model.fit("nuts", draws=1000, tune=500, chains=2, seed=0, **QUIET)
    assert idata.attrs["r_hat_max"] < 1.01
    drawn = _contrast(bx.predictions(model, idata, X, seed=0, **QUIET)["probability"])
    found = drawn.mean().item()
    assert_allclose(found, _contrast_by_quadrature(model), atol=4 * az.mcse(drawn).item())


def _contrast(probability):
    """How much more probable the label is where the function is low than where it is high."""
    return probability[..., F < -1].mean("obs") - probability[..., F > 1].mean("obs")


def _contrast_by_quadrature(model, points=12):
    """The posterior mean of the contrast, on a grid of logarithms; 24 x 24 points are 1e-4 off."""
    density = model.objective.compile_logp(mode=MODE)
    grids = np.linspace(*np.log([0.1, 60]), points), np.linspace(*np.log([0.005, 8]), points)
    at = [np.array(pair) for pair in itertools.product(*grids)]
    logp = np.array([density({"lengthscale_log__": u, "amplitude_log__": v}) for u, v in at])
    weights = np.exp(logp - logp.max())
    found = [
        _contrast(
            bx.predictions(
                model,
                {"lengthscale": np.exp(u), "amplitude": np.exp(v)},
                X,
                keep="summary",
                **QUIET,
            )["probability_mean"]
        )
        for u, v in at
    ]
    return np.average(found, weights=weights)


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
        drawn = pm.sample_prior_predictive(20, random_seed=0, compile_kwargs={"mode": MODE})
    assert drawn["prior_predictive"]["y"].shape == (1, 20, N)
    assert "y_white" in drawn["prior"]
    assert np.isfinite(model.pymc.compile_logp(mode=MODE)(model.pymc.initial_point()))


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
        (COUNTS, {"likelihood": "poisson", "exposure": np.zeros(N)}, "exposure is 0 at position 0"),
    ],
)
def test_bad_responses_are_refused(y, options, message):
    with pytest.raises(ValueError, match=message):
        bx.GP(X, y, **options)


def explained(likelihood, family=bx.GP, **options):
    y, theta = (LABELS, THETA) if likelihood == "bernoulli" else (COUNTS, THETA)
    theta = theta | ({"sigma_w": 0.1} if family is bx.GPX else {})
    return family(X, y, likelihood=likelihood, scale=False, **options), theta


@pytest.mark.parametrize(
    "likelihood", ["bernoulli", pytest.param("poisson", marks=pytest.mark.slow)]
)
def test_derivatives_of_the_response_average_to_those_of_its_mean(likelihood):
    model, theta = explained(likelihood)
    found = bx.derivatives(model, theta, X[:3], draws=600, seed=0, **QUIET)
    name = RESPONSES[likelihood][2]
    of_y = "that y = well" if name == "probability" else "of y"
    assert found.attrs["units"] == f"{name} {of_y} per unit of the feature"
    for j in range(2):
        move = 1e-4 * np.eye(2)[j]
        ahead, behind = (
            bx.predictions(model, theta, X[:3] + s * move, keep="summary", **QUIET) for s in (1, -1)
        )
        slope = (ahead[f"{name}_mean"] - behind[f"{name}_mean"]).values / 2e-4
        error = found["derivative_mean"].values[:, j] - slope
        assert np.all(np.abs(error) < 5 * found["derivative_sd"].values[:, j] / np.sqrt(600))


@pytest.mark.parametrize("family", [bx.GP, bx.GPX])
def test_each_function_has_the_chain_rule_and_complete_attributions(family):
    options = {"intercept": True} if family is bx.GPX else {}
    model, theta = explained("poisson", family, **options)
    functions = bx.sample_functions(model, theta, draws=4, seed=1, **QUIET)
    rate = np.exp(functions.predictions(X[:3])["f"])
    latent = functions.derivatives(X[:3], on="latent")["derivative"]
    assert_allclose(functions.derivatives(X[:3])["derivative"], rate * latent, rtol=1e-10)
    start = np.array([0.3, -0.2])
    shares = functions.attributions(X[:3], baseline=start)
    there = np.exp(functions.predictions(start[None])["f"].values)
    assert_allclose(shares["attribution"].sum("feature"), rate - there, rtol=1e-6, atol=1e-6)


def test_attributions_of_a_probability():
    model, theta = explained("bernoulli")
    options = {"draws": 200, "seed": 0, **QUIET}
    found = bx.attributions(model, theta, X[:3], baseline=X[5], **options)
    both = bx.predictions(model, theta, X[[0, 1, 2, 5]], keep="summary", **QUIET)
    p = both["probability_mean"].values
    error = found["difference_mean"].values - (p[:3] - p[3])
    assert np.all(np.abs(error) < 5 * found["difference_sd"].values / np.sqrt(200))
    assert found["completeness_residual"].max() < 1e-6
    assert found.attrs["units"] == "probability that y = well" and found.attrs["moments"]
    named = bx.attributions(model, theta, X[:3], baseline={"a": X[5], "b": X[6]}, **options)
    assert named["attribution_mean"].dims == ("obs", "feature", "baseline")


def own_kernel(d):
    """A kernel without random functions."""
    return pm.gp.cov.WarpedInput(d, cov_func=pm.gp.cov.ExpQuad(d, ls=1.5), warp_func=lambda x: x)


def test_what_cannot_be_asked_says_so():
    model = bx.GP(X, LABELS, likelihood="bernoulli")
    with pytest.raises(ValueError, match="method is 'right'.*as many as are needed"):
        bx.attributions(model, THETA, X[:2], method="right", steps=9, **QUIET)
    own = bx.GP(X, LABELS, likelihood="bernoulli", kernel=own_kernel)
    with pytest.raises(ValueError, match="no random functions.*on='latent'"):
        bx.slopes(own, {}, X[:2], **QUIET)
    with pytest.raises(ValueError, match="exposure was given"):
        bx.predictions(model, THETA, X[:2], exposure=[1.0, 1.0])
    counts = bx.GP(X, COUNTS, likelihood="poisson")
    with pytest.raises(ValueError, match="exposure has shape"):
        bx.predictions(counts, THETA, X[:2], exposure=[1.0])
