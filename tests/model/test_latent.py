"""Latent values that are sampled, posteriors of few values, and bounds: limits and agreement."""

import numpy as np
import pymc as pm
import pytensor
import pytest
import xarray as xr
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx.inference.diagnostics import ConvergenceWarning
from bayes_gpx.inference.log_density import Density
from bayes_gpx.numerics.compile_modes import MODE

RNG = np.random.default_rng(11)
N = 40
X = RNG.normal(size=(N, 2))
F = 2 * np.sin(1.5 * X[:, 0])
LABELS = np.where(F + RNG.logistic(size=N) > 0, "yes", "no")
COUNTS = RNG.poisson(np.exp(0.5 * F + 1))
NEW = np.array([[-1.0, 0.3], [0.8, -0.5], [0.1, 1.2]])
THETA = {"lengthscale": [0.9, 1.3], "amplitude": 1.4}
QUIET = {"progressbar": False}
KERNEL = 1.4**2 * pm.gp.cov.ExpQuad(2, ls=[0.9, 1.3])
PROCESS = bx.GaussianProcess(KERNEL)


def moments(q):
    """Mean and covariance of slopes, and of a value, at new points."""
    asked = [q(bx.operators.gradient(NEW)), q(bx.operators.evaluate(NEW))]
    outputs = [part for g in asked for part in (g.mean, g.cov)]
    return pytensor.function([], outputs, mode=MODE)()


def test_known_values_are_exact_observations_without_noise():
    f = RNG.normal(size=N)
    ours = moments(bx.posteriors.latent(PROCESS, X, f, jitter=1e-6))
    theirs = moments(bx.posteriors.exact(PROCESS, X, f, 1e-3 * 1.4))
    for one, other in zip(ours, theirs, strict=True):
        assert_allclose(one, other, atol=1e-6 * np.abs(other).max())


def test_the_posterior_of_inducing_values_is_any_posterior_of_them():
    U, sigma, y = X[:7], 0.3, F[:7] + 0.3 * RNG.normal(size=7)
    K = KERNEL(U).eval()
    S = K - K @ np.linalg.solve(K + sigma**2 * np.eye(7), K)
    a = K @ np.linalg.solve(K + sigma**2 * np.eye(7), y)
    ours = moments(bx.posteriors.sparse(PROCESS, U, a, np.linalg.cholesky(S)))
    theirs = moments(bx.posteriors.exact(PROCESS, U, y, sigma))
    for one, other in zip(ours, theirs, strict=True):
        assert_allclose(one, other, atol=1e-6 * np.abs(other).max())
    known = moments(bx.posteriors.sparse(PROCESS, U, a, np.zeros((7, 7))))
    for one, other in zip(known, moments(bx.posteriors.latent(PROCESS, U, a)), strict=True):
        assert_allclose(one, other, atol=1e-5 * np.abs(other).max())


def test_the_posterior_of_coefficients_is_linear_algebra():
    process = bx.expanded(PROCESS, bx.HSGP(6, 2.0), X)
    design = pytensor.function([], process.design(bx.operators.evaluate(NEW)), mode=MODE)()
    mean, root = RNG.normal(size=36), np.tril(RNG.normal(size=(36, 36)))
    *_, value, cov = moments(bx.posteriors.basis(process, mean, root))
    assert_allclose(value, design @ mean)
    assert_allclose(cov, design @ root @ root.T @ design.T)
    with pytest.raises(ValueError, match=r"bx\.expanded"):
        bx.posteriors.basis(PROCESS, mean, root)


def test_with_normal_noise_and_every_row_inducing_svgp_is_exact():
    y = F + 0.3 * RNG.normal(size=N)
    sparse = bx.GP(X, y, approximation=bx.Inducing(N + 5))
    start = {"lengthscale": 1.0, "amplitude": 1.0, "sigma": 0.3}
    idata = sparse.fit("svgp", start=start, **QUIET)
    exact = bx.GP(X, y).fit("map", start=start, **QUIET)
    assert_allclose(idata["sample_stats"]["lp"], exact["sample_stats"]["lp"], atol=1e-4)
    assert idata["elbo"]["elbo"].max() == idata["sample_stats"]["lp"].item()


@pytest.mark.parametrize(
    ("y", "likelihood"),
    [(LABELS, "bernoulli"), pytest.param(COUNTS, "poisson", marks=pytest.mark.slow)],
)
def test_basis_functions_and_inducing_points_tend_to_the_same_posterior(y, likelihood):
    roads = bx.Inducing(N), bx.HSGP(25, 3.0)
    models = [bx.GP(X, y, likelihood=likelihood, approximation=road) for road in roads]
    terms = [bx.log_likelihood(m, THETA, **QUIET) for m in models]
    for name in ("log_marginal_likelihood", "log_likelihood"):
        assert_allclose(terms[0][name], terms[1][name], atol=1e-4)
    asked = {"draws": 200, "seed": 0, **QUIET}
    shares = [bx.attributions(m, THETA, NEW, on="latent", **asked) for m in models]
    for name in ("attribution_mean", "attribution_sd"):
        assert_allclose(shares[0][name], shares[1][name], atol=1e-3)
    laplace = bx.GP(X, y, likelihood=likelihood)
    found = [bx.predictions(m, THETA, NEW, **asked)["f_mean"] for m in (laplace, models[0])]
    sd = bx.predictions(laplace, THETA, NEW, **asked)["f_sd"]
    assert (np.abs(found[0] - found[1]) < 0.25 * sd).all()


@pytest.mark.parametrize(
    "likelihood", [pytest.param("bernoulli", marks=pytest.mark.slow), "categorical"]
)
def test_the_moments_that_are_kept_are_the_posterior(likelihood):
    model = bx.GP(X, LABELS, likelihood=likelihood, approximation=bx.Inducing(9), scale=False)
    kept = model.fit("svgp", start={"lengthscale": 1.0, "amplitude": 1.0}, **QUIET)
    assert "laplace_information" not in kept.attrs
    theta = {name: kept["posterior"][name].values[0, 0] for name in ("lengthscale", "amplitude")}
    covariance = theta["amplitude"] ** 2 * pm.gp.cov.ExpQuad(2, ls=theta["lengthscale"])
    found = kept["variational"].to_dataset().isel(chain=0, draw=0)
    found = found.isel({"class": 1}) if likelihood == "categorical" else found
    parts = (found[name].values for name in ("U", "u_mean", "u_chol"))
    q = bx.posteriors.sparse(bx.GaussianProcess(covariance), *parts)
    asked = bx.derivatives(model, kept, NEW, on="latent", keep="summary", **QUIET)
    asked = asked.isel({"class": 1}) if likelihood == "categorical" else asked
    mean, cov, *_ = moments(q)
    assert_allclose(asked["derivative_mean"].values.ravel(), mean, atol=1e-6)
    assert_allclose(asked["derivative_sd"].values.ravel() ** 2, np.diag(cov), atol=1e-5)


def test_the_bound_stays_below_the_evidence():
    """Evidence by importance sampling from Laplace's posterior."""
    model = bx.GP(X, LABELS, likelihood="bernoulli", approximation=bx.Inducing(N))
    bound = bx.log_likelihood(model, THETA, **QUIET)["log_marginal_likelihood"].item()
    x = (X - X.mean(0)) / X.std(0)
    gaps = ((x[:, None] - x) / np.array([0.9, 1.3])) ** 2
    K = 1.4**2 * np.exp(-0.5 * gaps.sum(-1)) + 1e-9 * np.eye(N)
    sign, f = np.where(LABELS == "yes", 1.0, -1.0), np.zeros(N)
    for _ in range(30):
        p = 1 / (1 + np.exp(-f))
        W = np.diag(p * (1 - p))
        f = np.linalg.solve(np.eye(N) + K @ W, K @ (W @ f + (sign + 1) / 2 - p))
    cov = K - K @ np.linalg.solve(K + np.diag(1 / (p * (1 - p))), K)
    rng = np.random.default_rng(0)
    L, z = np.linalg.cholesky(cov + 1e-9 * np.eye(N)), rng.normal(size=(40_000, N))
    drawn = f + z @ L.T
    log_prior = -0.5 * (drawn * np.linalg.solve(K, drawn.T).T).sum(1)
    log_prior -= 0.5 * np.linalg.slogdet(K)[1]
    log_q = -0.5 * (z**2).sum(1) - np.log(np.diag(L)).sum()
    log_w = -np.logaddexp(0, -sign * drawn).sum(1) + log_prior - log_q
    evidence = np.log(np.mean(np.exp(log_w - log_w.max()))) + log_w.max()
    assert evidence - 0.3 < bound < evidence + 0.02


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "svgp"}, r"bx\.Inducing"),
        ({"method": "map", "latent": "sample"}, "Pass method='nuts'"),
        ({"method": "nuts", "latent": "draw"}, "latent"),
    ],
)
def test_a_fit_that_cannot_be_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        bx.GP(X, LABELS, likelihood="bernoulli").fit(**options, **QUIET)


def small():
    return bx.GP(X, LABELS, likelihood="bernoulli", ard=False, approximation=bx.Inducing(8))


@pytest.mark.slow
def test_minibatches_find_the_bound_of_all_rows():
    model = small()
    whole = model.fit("svgp", **QUIET)
    parts = model.fit("svgp", minibatch=20, steps=1500, seed=0, **QUIET)
    for name in ("lengthscale", "amplitude"):
        ratio = parts["posterior"][name].values / whole["posterior"][name].values
        assert 0.75 < ratio.item() < 1.35


def test_minibatches_that_cannot_be_or_do_not_arrive_say_so():
    model = small()
    with pytest.raises(ValueError, match="pass minibatch too"):
        model.fit("svgp", steps=10, **QUIET)
    with pytest.raises(ValueError, match="minibatch is 41"):
        model.fit("svgp", minibatch=N + 1, **QUIET)
    with pytest.warns(ConvergenceWarning, match="still grew"):
        far = {"lengthscale": 0.05, "amplitude": 0.2}
        model.fit("svgp", minibatch=20, steps=400, start=far, seed=0, **QUIET)


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["bernoulli", "poisson"])
def test_sampled_latent_values_agree_with_laplace(likelihood):
    y = LABELS if likelihood == "bernoulli" else COUNTS
    model = bx.GP(X, y, likelihood=likelihood, ard=False)
    options = {"draws": 5000, "tune": 2000, "chains": 2, "seed": 0, **QUIET}
    options["target_accept"] = 0.98
    sampled = model.fit("nuts", latent="sample", **options)
    marginal = model.fit("nuts", **options)
    assert [("laplace_information" in one.attrs) for one in (sampled, marginal)] == [False, True]
    assert sampled.attrs["r_hat_max"] < 1.02
    found = [bx.predictions(model, idata, NEW, seed=0, **QUIET) for idata in (sampled, marginal)]
    apart = np.abs(found[0]["f_mean"] - found[1]["f_mean"])
    assert (apart < 0.25 * found[0]["f_sd"]).all()
    assert sampled["log_likelihood"]["y"].sizes["obs"] == N


@pytest.mark.slow
def test_sampled_coefficients_agree_with_the_bound():
    """At fixed hyperparameters; and NUTS meets no wall where these are free."""
    theta = {"lengthscale": 1.5, "amplitude": 1.2, "sigma_w": 0.3}
    options = {"likelihood": "bernoulli", "ard": False, "approximation": bx.HSGP(6, 2.0)}
    chains = {"draws": 3000, "tune": 1000, "chains": 2, "seed": 0, **QUIET}
    model = bx.GPX(X, LABELS, priors=theta, **options)
    known = model.fit("nuts", latent="sample", **chains)
    found = [bx.predictions(model, idata, NEW, seed=0, **QUIET) for idata in (known, theta)]
    apart = np.abs(found[0]["f_mean"] - found[1]["f_mean"])
    assert (apart < 0.25 * found[0]["f_sd"]).all()
    ratio = found[1]["f_sd"] / found[0]["f_sd"]
    assert ((ratio > 0.8) & (ratio < 1.1)).all()
    model = bx.GPX(X, LABELS, **options)
    free = model.fit("nuts", latent="sample", **{**chains, "target_accept": 0.95})
    assert free.attrs["divergences"] == 0
    weights = bx.weights(model, free, seed=0, **QUIET)
    assert np.isfinite(weights["weight"]).all()


def sampled(model, **latent):
    """A fit with two equal draws of hyperparameters and of these latent values."""
    values = {name: v for name, v in THETA.items() if name in model.hyperparameters} | latent
    own = {"lengthscale": ["feature"], "amplitude": []}
    kept = {
        name: (
            ["chain", "draw", *own.get(name, [f"{name}_dim"])],
            np.stack([np.asarray(v)] * 2)[None],
        )
        for name, v in values.items()
    }
    labels = {"feature": list(model.training.X.columns)}
    return xr.DataTree.from_dict({"posterior": xr.Dataset(kept, labels)})


@pytest.mark.parametrize("m", [7, N])
def test_latent_values_sampled_beside_inducing_points_are_the_process(m):
    exact = bx.GP(X, LABELS, likelihood="bernoulli")
    points = bx.GP(X, LABELS, likelihood="bernoulli", approximation=bx.Inducing(m))
    white = RNG.normal(size=N)
    asked = {"seed": 0, **QUIET}
    ours, theirs = (
        bx.predictions(model, sampled(model, y_white=white), NEW, **asked)
        for model in (points, exact)
    )
    assert_allclose(ours["f_mean"], theirs["f_mean"])
    ours, theirs = (
        bx.log_likelihood(model, sampled(model, y_white=white), **QUIET)["log_likelihood"]
        for model in (points, exact)
    )
    assert_allclose(ours, theirs)


def test_samples_without_deviations_of_their_own_have_none():
    road = bx.HSGP(4, 2.0)
    model = bx.GPX(X, LABELS, likelihood="bernoulli", approximation=road, priors={"sigma_w": 0.0})
    white = RNG.normal(size=32)
    idata = sampled(model, y_white=white, y_own_white=RNG.normal(size=N))
    own = bx.predictions(model, idata, seed=0, **QUIET)
    new = bx.predictions(model, idata, X, seed=0, **QUIET)
    assert_allclose(own["f_mean"], new["f_mean"], atol=1e-8)
    assert_allclose(bx.contributions(model, idata, **QUIET)["contribution_sd"], 0.0, atol=1e-7)


def test_the_density_of_rows_without_features_has_a_slope():
    Z = X * (np.arange(N) % 3 > 0)[:, None]
    road, options = bx.HSGP(4, 2.0), {"likelihood": "bernoulli", "scale": False}
    model = bx.GPX(X, LABELS, Z, approximation=road, **options)
    point = model.pymc.initial_point()
    slope = model.pymc.compile_dlogp(mode=MODE)(point)
    assert np.isfinite(slope).all()


def test_the_trace_of_minibatches_is_the_objective_of_all_rows():
    y = 100.0 * (F + 0.3 * RNG.standard_t(4, size=N)) + 1000.0
    model = bx.GP(X, y, likelihood="student_t", ard=False, approximation=bx.Inducing(8))
    start = {"lengthscale": 1.0, "amplitude": 1.0, "sigma": 0.3, "nu": 4.0}
    whole = model.fit("svgp", start=start, **QUIET)
    start = {name: whole["posterior"][name].values[0, 0] for name in model.hyperparameters}
    options = {"minibatch": N, "steps": 60, "learning_rate": 1e-9, "start": start}
    parts = model.fit("svgp", **options, **QUIET)
    assert_allclose(parts["elbo"]["elbo"][-1], whole["elbo"]["elbo"].max(), atol=0.05)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_bound_of_heavy_tails_is_found_wherever_it_is_asked(seed):
    y = F + 0.3 * np.random.default_rng(seed).standard_t(2, size=N)
    model = bx.GP(X, y, likelihood="student_t", ard=False, approximation=bx.Inducing(8))
    density = Density(model.objective, jacobian=False)
    start = {"lengthscale": 1.0, "amplitude": 1.0, "sigma": 0.3, "nu": 4.0}
    evaluate, x = density.value_and_slope(), density.unconstrain(start)
    way = np.random.default_rng(1).normal(size=(12, len(x)))
    assert all(np.isfinite(evaluate(x + 0.3 * step)[0]) for step in way)


def test_a_model_without_anything_to_infer_says_so():
    for y, likelihood in ((F, "normal"), (LABELS, "bernoulli")):
        fixed = THETA | ({"sigma": 1.0} if likelihood == "normal" else {})
        model = bx.GP(X, y, likelihood=likelihood, priors=fixed)
        with pytest.raises(ValueError, match="All hyperparameters are fixed"):
            model.fit("map", **QUIET)


def test_weighed_features_at_inducing_points_are_kept():
    Z = RNG.normal(size=(N, 2))
    model = bx.GPX(X, LABELS, Z, likelihood="bernoulli", approximation=bx.Inducing(6))
    start = dict.fromkeys(model.hyperparameters, 1.0)
    kept = model.fit("svgp", start=start, **QUIET)["variational"]
    back = model.training.Z_scaling.apply(kept["U_Z"].values)
    assert_allclose(back, model.inducing["U_Z"])
    assert kept["z_feature"].size == 2


@pytest.mark.parametrize("kernel", ["named", "callable"])
def test_variables_of_a_surrounding_model_need_latent_values(kernel):
    with pm.Model() as outer:
        size = pm.HalfNormal("size")
        if kernel == "named":
            how = {"priors": {"amplitude": lambda name: pm.Deterministic(name, 2.0 * size)}}
        else:
            how = {"kernel": lambda d: size**2 * pm.gp.cov.ExpQuad(d, ls=pm.HalfNormal("ls"))}
        model = bx.GP(X, LABELS, likelihood="bernoulli", name="own", **how)
    with pytest.raises(ValueError, match=r"'size'.*pm\.sample"):
        model.fit("map", **QUIET)
    assert {"size", "own_y_white"} <= {rv.name for rv in outer.free_RVs}


def test_minibatches_start_at_the_priors_where_nothing_else_is_known():
    def kernel(d):
        return pm.HalfNormal("size") ** 2 * pm.gp.cov.Matern52(d, ls=pm.LogNormal("ls", 0, 1))

    model = bx.GP(X, COUNTS, likelihood="poisson", kernel=kernel, approximation=bx.Inducing(6))
    fit = model.fit("svgp", minibatch=20, steps=20, seed=0, **QUIET)
    assert fit["posterior"]["ls"].item() > 0
