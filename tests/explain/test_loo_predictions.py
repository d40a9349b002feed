"""Leave-one-out predictions, against deletion and refitting, quadrature, and uniform PITs."""

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from scipy import integrate, stats

import bayes_gpx as bx

QUIET = {"progressbar": False}
RNG = np.random.default_rng(31)
N = 30
X = RNG.normal(size=(N, 2))
Z = RNG.normal(2.0, 1.0, size=(N, 2))
Y = 10.0 + 4.0 * (np.sin(2 * X[:, 0]) + X[:, 1] + 0.4 * RNG.normal(size=N))
NOISY = {"lengthscale": [0.8, 1.3], "amplitude": 3.1, "sigma": 1.4}
ROWS = [0, 7, 29]
LARGE_K = pytest.mark.filterwarnings("ignore:Estimated shape parameter:UserWarning")

EXACT = {
    "exact": (bx.GP, {}, NOISY),
    "weights": (bx.GPX, {"Z": Z}, NOISY | {"sigma_w": 0.3}),
    "inducing points": (bx.GP, {"approximation": bx.Inducing(X[:6] + 0.1)}, NOISY),
    "random features": (bx.GP, {"approximation": bx.RandomFeatures(12, seed=4)}, NOISY),
    "weights through inducing points": (
        bx.GPX,
        {"approximation": bx.Inducing(X[:6] + 0.1)},
        NOISY | {"sigma_w": 0.3},
    ),
}


@pytest.mark.parametrize("kind", EXACT)
def test_leaving_out_is_deleting_and_refitting(kind):
    family, options, theta = EXACT[kind]
    found = bx.loo_predictions(family(X, Y, scale=False, **options), theta, **QUIET)
    for row in ROWS:
        kept = np.arange(N) != row
        others = {k: v[kept] if k == "Z" else v for k, v in options.items()}
        model = family(X[kept], Y[kept], scale=False, **others)
        new = (X[[row]], Z[[row]]) if "Z" in options else (X[[row]],)
        alone = bx.predictions(model, theta, *new, keep="summary", **QUIET)
        mean, sd = alone["y_mean"].item(), alone["y_sd"].item()
        assert_allclose(found["y_mean"][row], mean, rtol=1e-8)
        assert_allclose(found["y_sd"][row], sd, rtol=1e-8)
        assert_allclose(found["elpd"][row], stats.norm.logpdf(Y[row], mean, sd), rtol=1e-8)
        assert_allclose(found["pit"][row], stats.norm.cdf(Y[row], mean, sd), rtol=1e-8)
        assert_allclose(found["residual"][row], Y[row] - mean, atol=1e-8)
        spread = found["y"].isel(obs=row).std().item()
        assert abs(spread / sd - 1) < 5 / np.sqrt(2 * 1000)
    assert np.isnan(found["pareto_k"]).all()


def test_units_of_the_response_go_through():
    """With scaling, by the same model in standard units."""
    theta = {"lengthscale": [0.8, 1.3], "amplitude": 1.1, "sigma": 0.4}
    found = bx.loo_predictions(bx.GP(X, Y), theta, seed=1, **QUIET)
    standard = (X - X.mean(0)) / X.std(0), (Y - Y.mean()) / Y.std()
    plain = bx.loo_predictions(bx.GP(*standard, scale=False), theta, seed=1, **QUIET)
    assert_allclose(found["pit"], plain["pit"])
    assert_allclose(found["elpd"], plain["elpd"] - np.log(Y.std()))
    for name in ("y", "y_mean"):
        assert_allclose(found[name], Y.mean() + Y.std() * plain[name])
    for name in ("y_sd", "residual"):
        assert_allclose(found[name], Y.std() * plain[name], atol=1e-12)
    named = pd.Series(Y, name="yield").astype(float)
    named.attrs["units"] = "kg"
    assert bx.loo_predictions(bx.GP(X, named), theta, **QUIET).attrs["units"] == "kg"


@pytest.fixture(scope="module")
def fitted():
    model = bx.GP(X, Y)
    return model, model.fit("laplace", draws=100, seed=1, **QUIET)


@LARGE_K
def test_weights_are_those_of_psis(fitted):
    """And every number is the weighted one, computed anew from single draws."""
    found, expected = bx.loo_predictions(*fitted, seed=1, **QUIET), az.loo(fitted[1])
    assert_allclose(found["elpd"].sum(), expected.elpd, rtol=1e-12)
    assert_allclose(found["elpd"], expected.elpd_i, rtol=1e-10)
    assert_allclose(found["pareto_k"], expected.pareto_k)
    weights = np.exp(found["log_weights"].values[0])
    assert_allclose(weights.sum(axis=0), 1.0)
    assert (weights.std(axis=0) * 100 > 0.01).all()
    model, idata = fitted
    posterior, each = idata["posterior"].to_dataset(), []
    for draw in range(100):
        theta = {k: v.values[0, draw] for k, v in posterior.items() if k in model.hyperparameters}
        each.append(bx.loo_predictions(model, theta, **QUIET))
    pit, mean, sd = (np.stack([e[n] for e in each]) for n in ("pit", "y_mean", "y_sd"))
    assert_allclose(found["pit"], (weights * pit).sum(0), rtol=1e-10)
    total = (weights * mean).sum(0)
    assert_allclose(found["y_mean"], total, rtol=1e-10)
    second = (weights * (sd**2 + (mean - total) ** 2)).sum(0)
    assert_allclose(found["y_sd"], np.sqrt(second), rtol=1e-10)


def test_few_draws_have_weights_without_smoothing(fitted):
    with pytest.warns(UserWarning, match="Weights of 12 draws are not smoothed"):
        found = bx.loo_predictions(*fitted, num_draws=12, **QUIET)
    assert np.isnan(found["pareto_k"]).all()
    terms = bx.log_likelihood(*fitted, num_draws=12, **QUIET)["log_likelihood"]
    weights = np.exp(-terms) / np.exp(-terms).sum(("chain", "draw"))
    assert_allclose(np.exp(found["log_weights"]), weights, rtol=1e-10)


@LARGE_K
def test_thinned_draws_and_seeds(fitted):
    found = bx.loo_predictions(*fitted, num_draws=50, seed=3, **QUIET)
    assert found["y"].sizes == {"chain": 1, "draw": 50, "obs": N}
    again = bx.loo_predictions(*fitted, num_draws=50, seed=3, **QUIET)
    assert found.identical(again)


def test_a_cavity_of_sampled_latent_values_is_that_of_the_prior():
    """f_i given the other latent values, by the dense formula; y_i by integration over it."""
    n, theta = 7, {"lengthscale": [0.6], "amplitude": 1.3}
    x = np.linspace(-2, 2, n)[:, None]
    counts = np.array([0, 2, 1, 5, 3, 0, 1])
    model = bx.GP(x, counts, likelihood="poisson", scale=False)
    K = 1.3**2 * np.exp(-((x - x.T) ** 2) / (2 * 0.6**2))
    root = np.linalg.cholesky(K + 1e-8 * 1.3**2 * np.eye(n))
    white = RNG.normal(size=(2, 3, n))
    variables = {
        k: (("chain", "draw", *["feature"] * np.ndim(v)), np.full((2, 3, *np.shape(v)), v))
        for k, v in theta.items()
    }
    posterior = xr.Dataset(variables | {"y_white": (("chain", "draw", "obs"), white)})
    idata = xr.DataTree.from_dict(
        {"posterior": posterior.assign_coords(chain=[0, 1], draw=[0, 1, 2], feature=["x0"])}
    )
    found = bx.log_likelihood(model, idata, **QUIET)["log_likelihood"].values
    K = root @ root.T
    for chain, draw in np.ndindex(2, 3):
        f = root @ white[chain, draw]
        for i in range(n):
            rest = np.arange(n) != i
            gain = np.linalg.solve(K[np.ix_(rest, rest)], K[rest, i])
            mean, sd = gain @ f[rest], np.sqrt(K[i, i] - gain @ K[rest, i])
            expected = integrate.quad(
                lambda z, m=mean, s=sd, y=counts[i]: (
                    stats.norm.pdf(z) * stats.poisson.pmf(y, np.exp(m + s * z))
                ),
                -9,
                9,
            )[0]
            assert_allclose(found[chain, draw, i], np.log(expected), rtol=1e-6)


def test_labels_have_probabilities_and_no_pit():
    labels = np.where(Y > Y.mean(), "high", "low")
    theta = {"lengthscale": [0.8, 1.3], "amplitude": 1.1}
    model = bx.GP(X, labels, likelihood="bernoulli")
    found = bx.loo_predictions(model, theta, seed=0, **QUIET)
    assert "pit" not in found
    own = np.where(labels == "low", found["probability_mean"], 1 - found["probability_mean"])
    assert_allclose(found["elpd"], np.log(own), rtol=1e-6)
    assert_allclose(found["residual"], (labels == "low") - found["probability_mean"])
    three = np.digitize(Y, np.quantile(Y, [0.3, 0.7]))
    found = bx.loo_predictions(bx.GP(X, three, likelihood="categorical"), theta, seed=0, **QUIET)
    assert found["probability_mean"].dims == ("obs", "class")
    assert_allclose(found["probability_mean"].sum("class"), 1.0)
    own = found["probability_mean"].values[np.arange(N), three]
    assert_allclose(found["elpd"], np.log(own), rtol=1e-6)
    shares = (found["y"] == found["class"]).mean(("chain", "draw"))
    assert np.abs(shares - found["probability_mean"]).max() < 5 * 0.5 / np.sqrt(1000)


def simulated(kind, rng, x, theta):
    """Responses drawn from the model itself."""
    K = theta["amplitude"] ** 2 * np.exp(-((x - x.T) ** 2) / (2 * theta["lengthscale"][0] ** 2))
    f = np.linalg.cholesky(K + 1e-10 * np.eye(len(x))) @ rng.normal(size=len(x))
    if kind == "normal":
        return f + theta["sigma"] * rng.normal(size=len(x))
    return rng.poisson(np.exp(f))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normal", "poisson"])
def test_the_pit_of_one_row_is_uniform_over_data_sets(kind, rng):
    x = np.linspace(0, 4, 12)[:, None]
    theta = {"lengthscale": [0.7], "amplitude": 0.9} | ({"sigma": 0.5} if kind == "normal" else {})
    pits = []
    for number in range(500):
        model = bx.GP(x, simulated(kind, rng, x, theta), likelihood=kind, scale=False)
        pits.append(bx.loo_predictions(model, theta, seed=number, **QUIET)["pit"].values[4])
    assert stats.kstest(pits, "uniform").pvalue > 0.01
    assert abs(np.std(pits) - 12**-0.5) < 0.02


@pytest.mark.slow
@LARGE_K
@pytest.mark.filterwarnings("ignore::bayes_gpx.inference.diagnostics.ConvergenceWarning")
def test_weighted_pits_are_uniform_over_data_sets(rng):
    """With hyperparameters drawn from the prior that fits use, and the weights of their draws."""
    x, pits = np.linspace(0, 4, 20)[:, None], []
    priors = {
        "lengthscale": lambda name: pm.LogNormal(name, 0.0, 0.4),
        "amplitude": lambda name: pm.LogNormal(name, 0.0, 0.4),
        "sigma": lambda name: pm.LogNormal(name, -0.7, 0.4),
    }
    for number in range(500):
        length, amplitude, sigma = np.exp([0.0, 0.0, -0.7] + 0.4 * rng.normal(size=3))
        theta = {"lengthscale": [length], "amplitude": amplitude, "sigma": sigma}
        model = bx.GP(x, simulated("normal", rng, x, theta), scale=False, ard=False, priors=priors)
        idata = model.fit("laplace", draws=200, seed=number, **QUIET)
        pits.append(bx.loo_predictions(model, idata, seed=number, **QUIET)["pit"].values[4])
    assert stats.kstest(pits, "uniform").pvalue > 0.01


def test_pits_of_one_data_set_pass_a_test_that_allows_for_their_dependence(rng):
    """Ten features and 200 rows drawn from the model: replications that saw y_i do not."""
    many = rng.normal(size=(200, 10))
    square = ((many[:, None] - many[None]) ** 2).sum(-1)
    f = np.linalg.cholesky(np.exp(-square / 18) + 1e-9 * np.eye(200)) @ rng.normal(size=200)
    model = bx.GP(many, f + 0.3 * rng.normal(size=200), ard=False, scale=False)
    theta = {"lengthscale": 3.0, "amplitude": 1.0, "sigma": 0.3}
    found = bx.loo_predictions(model, theta, seed=1, **QUIET)["pit"]
    assert abs(found.std() - 12**-0.5) < 0.03
    assert found.azstats.uniformity_test(dim="obs", method="pot_c")[0] > 0.05
    seen = bx.predictive_checks(model, theta, seed=1, **QUIET)
    drawn, observed = seen["posterior_predictive"]["y"], seen["observed_data"]["y"]
    assert (drawn <= observed).mean(("chain", "draw")).std() < 0.24


@LARGE_K
def test_draws_that_repeat_leave_no_tail_and_say_so(fitted):
    model, idata = fitted
    posterior = idata["posterior"].to_dataset().isel(draw=slice(40))
    rarest = int(idata["log_likelihood"]["y"].isel(obs=5, draw=slice(40)).argmin("draw").item())
    many = xr.concat([posterior.isel(draw=[rarest] * 60), posterior], "draw")
    tree = xr.DataTree.from_dict({"posterior": many})
    found = bx.loo_predictions(model, tree, seed=1, **QUIET)
    assert np.isinf(found["pareto_k"][5]) and np.isfinite(found["elpd"]).all()
    assert_allclose(np.exp(found["log_weights"]).sum(("chain", "draw")), 1.0)


@pytest.mark.filterwarnings("ignore:Weights of .+ draws are not smoothed")
def test_spread_of_rates_does_not_hang_on_how_many_draws_there_are():
    counts = RNG.poisson(np.exp((Y - Y.mean()) / Y.std()))
    model, theta = bx.GP(X, counts, likelihood="poisson"), {"lengthscale": [0.8, 1.3]}
    few = {"amplitude": 1.1}
    single = bx.loo_predictions(model, theta | few, seed=1, **QUIET)
    draws = xr.Dataset(
        {
            "lengthscale": (("chain", "draw", "feature"), np.full((1, 2, 2), [0.8, 1.3])),
            "amplitude": (("chain", "draw"), np.full((1, 2), 1.1)),
        },
        {"chain": [0], "draw": [0, 1], "feature": ["x0", "x1"]},
    )
    tree = xr.DataTree.from_dict({"posterior": draws})
    double = bx.loo_predictions(model, tree, seed=2, **QUIET)
    assert_allclose(single["rate_mean"], double["rate_mean"])
    assert_allclose(single["rate_sd"], double["rate_sd"], rtol=0.5)


def test_bounds_do_not_count_as_covered_responses():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(12, 1)), rng.weibull(2.0, 12)
    known = np.where(np.arange(12) < 3, "right", "none")
    model = bx.GP(X, y, likelihood="weibull", censoring=known)
    found = bx.loo_predictions(model, model.fit("map", progressbar=False), progressbar=False)
    with pytest.raises(ValueError, match="the intervals is unknown"):
        bx.metrics.coverage(found, y)


@LARGE_K
def test_coverage_of_rows_left_out_takes_their_own_responses(fitted):
    found = bx.loo_predictions(*fitted, num_draws=40, seed=1, **QUIET)
    inside = (np.abs(2 * found["pit"] - 1) <= 0.9).mean()
    assert_allclose(bx.metrics.coverage(found, Y, 0.9), inside)
    with pytest.raises(ValueError, match="y differs from the responses that were left out"):
        bx.metrics.coverage(found, Y + 1.0, 0.9)
