"""The hierarchy of a model in PyMC: weights, f and y as variables, whose density is the model's."""

import pickle

import numpy as np
import pymc as pm
import pytensor
import pytest
import scipy.stats as st
import xarray as xr
from numpy.testing import assert_allclose
from scipy.special import expit, log_softmax

import bayes_gpx as bx
from bayes_gpx.numerics.compile_modes import MODE
from oracle import expquad, log_normal, matern52

RNG = np.random.default_rng(18)
N, P = 9, 2
X = RNG.normal([1.0, -3.0], [2.0, 0.5], size=(N, 2))
Z = RNG.normal([5.0, 0.0], [1.0, 3.0], size=(N, P))
F = 2.0 * np.sin(X[:, 0]) * (Z[:, 0] - 5.0) + 0.3 * Z[:, 1]
Y = 100.0 + 8.0 * F + RNG.normal(size=N)
LABELS = (F + RNG.logistic(size=N) > 0).astype(int)
COUNTS = RNG.poisson(np.exp(0.3 * F + 1.0))
NEW = X[:3] + 0.1
QUIET = {"progressbar": False}
SHARED = {"lengthscale": [0.8, 1.7], "amplitude": 1.3, "sigma_w": 0.4}
BY_FEATURE = {
    "matern52_lengthscale": 1.1,
    "matern52_amplitude": [0.7, 1.2],
    "linear_amplitude": [0.5, 0.2],
    "sigma_w": 0.4,
}


@pytest.mark.parametrize("kind", ["hierarchy", "counts"])
def test_a_fit_that_leaves_out_terms_of_the_user_says_so(kind):
    options = {"representation": "hierarchy"} if kind == "hierarchy" else {"likelihood": "poisson"}
    with pm.Model() as larger:
        part = bx.GP(X, COUNTS, name="main", **options)
        pm.Normal("apart", observed=[1.0])  # tells nothing about the model
    idata = part.fit("map", **QUIET)
    with larger:
        pm.Potential("more", -3.0 * larger["main_amplitude"])
    with pytest.warns(UserWarning, match=r"leaves out \['more'\].*pm.sample\(model=model.pymc\)"):
        again = part.fit("map", **QUIET)
    assert_allclose(idata["posterior"]["main_amplitude"], again["posterior"]["main_amplitude"])


def test_terms_are_part_of_a_fit_whose_function_is_integrated_out():
    amplitudes = []
    for more in (0.0, -30.0):
        model = bx.GP(X, Y)
        with model.pymc:
            pm.Potential("more", more * model.pymc["amplitude"])
        amplitudes.append(model.fit("map", **QUIET)["posterior"]["amplitude"].item())
    assert amplitudes[1] < amplitudes[0] / 2


def scaled(values):
    return (values - values.mean(0)) / values.std(0)


def evaluated(model, names, white):
    """Variables of a PyMC model as functions of its whitened ones, flat, all of these in turn."""
    inputs = [rv for rv in model.free_RVs if rv.name.endswith("white")]
    sizes = [int(np.prod(rv.shape.eval(mode=MODE))) for rv in inputs]
    values = model.replace_rvs_by_values([model[name] for name in names])
    given = [model.rvs_to_values[rv] for rv in inputs]
    call = pytensor.function(given, values, mode=MODE, on_unused_input="ignore")
    shapes = [tuple(rv.shape.eval(mode=MODE)) for rv in inputs]
    found = []
    for row in white(sum(sizes)):
        parts = np.split(row, np.cumsum(sizes)[:-1])
        found.append(call(*[p.reshape(s) for p, s in zip(parts, shapes, strict=True)]))
    return [np.array(values) for values in zip(*found, strict=True)]


def affine(model, names):
    """Of each variable its value at 0, and the covariance of its values, flat, a priori."""
    found = evaluated(model, names, lambda size: np.vstack([np.zeros(size), np.eye(size)]))
    for values in found:
        steps = (values[1:] - values[0]).reshape((len(values) - 1, -1))
        yield values[0], steps.T @ steps


def test_weights_and_their_sum_have_the_prior_of_the_paper():
    model = bx.GPX(X, Y, Z, representation="hierarchy", priors={**SHARED, "sigma": 0.2})
    (g, of_g), (eps, of_eps), (w, of_w), (f, of_f) = affine(model.pymc, ["g", "eps_w", "w", "f"])
    unit = Y.std() / Z.std(0)
    K = 1.3**2 * expquad(scaled(X), scaled(X), np.array([0.8, 1.7]))
    assert_allclose(of_g, np.kron(K, np.diag(unit**2)), rtol=1e-6, atol=1e-6 * unit.max() ** 2)
    assert_allclose(of_eps, np.kron(np.eye(N), np.diag((0.4 * unit) ** 2)), atol=1e-12)
    assert_allclose(of_w, of_g + of_eps, atol=1e-9)
    each = scaled(Z) @ scaled(Z).T
    assert_allclose(of_f, Y.std() ** 2 * each * (K + 0.4**2 * np.eye(N)), rtol=1e-6, atol=1e-5)
    assert not np.any(g) and not np.any(eps) and not np.any(w)
    assert_allclose(f, Y.mean())
    assert {v: model.pymc.named_vars_to_dims[v] for v in ("g", "eps_w", "w", "f", "y")} == {
        **dict.fromkeys(("g", "eps_w", "w"), ("obs", "z_feature")),
        **dict.fromkeys(("f", "y"), ("obs",)),
    }


@pytest.mark.parametrize("options", [{}, {"approximation": bx.HSGP(5, 2.0)}])
def test_weights_without_noise_have_no_eps_w(options):
    """Draws that are all 0 have no R-hat, and ArviZ warns of them."""
    theta = {**SHARED, "sigma": 0.2, "sigma_w": 0.0}
    model = bx.GPX(X, Y, Z, representation="hierarchy", priors=theta, **options)
    named = ["X", "Z", "g_white", "g", "w", "f", "y"]
    assert sorted(model.pymc.named_vars) == sorted(named)
    white = lambda size: RNG.normal(size=(3, size))  # noqa: E731
    g, w, f = evaluated(model.pymc, ["g", "w", "f"], white)
    assert_allclose(w, g)
    assert_allclose(f, Y.mean() + ((Z - Z.mean(0)) * g).sum(axis=2))
    assert g.std() > 0


def test_f_is_the_sum_of_weights_times_features():
    model = bx.GPX(X, Y, Z, representation="hierarchy", priors={**SHARED, "sigma": 0.2})
    white = lambda size: RNG.normal(size=(3, size))  # noqa: E731
    g, eps_w, w, f = evaluated(model.pymc, ["g", "eps_w", "w", "f"], white)
    assert_allclose(w, g + eps_w)
    assert_allclose(f, Y.mean() + ((Z - Z.mean(0)) * w).sum(axis=2))


GP_THETA = {"lengthscale": [0.8, 1.7], "amplitude": 1.3}
MODELS = {
    "GP": (bx.GP, GP_THETA, {}),
    "GPX": (bx.GPX, SHARED, {}),
    "not scaled": (bx.GPX, SHARED, {"scale": False}),
    "a sum, by feature": (
        bx.GPX,
        BY_FEATURE,
        {"kernel": "matern52 + linear", "ard": False, "weight_prior": "per_feature"},
    ),
    "horseshoe": (bx.GPX, {**SHARED, "amplitude": [0.7, 1.2]}, {"weight_prior": "horseshoe"}),
    "basis functions": (bx.GP, GP_THETA, {"approximation": bx.HSGP(5, 2.0)}),
    "weighed basis functions": (bx.GPX, SHARED, {"approximation": bx.HSGP(5, 2.0)}),
    "random functions by feature": (
        bx.GPX,
        {**SHARED, "amplitude": [0.7, 1.2]},
        {"approximation": bx.RandomFeatures(8, seed=1), "weight_prior": "per_feature"},
    ),
}


@pytest.mark.parametrize("kind", MODELS)
def test_the_density_of_y_is_the_collapsed_one(kind):
    """Integrated over the latent values by linear algebra, since f is affine in them."""
    family, theta, options = MODELS[kind]
    theta, data = {**theta, "sigma": 0.2}, (X, Y, Z) if family is bx.GPX else (X, Y)
    model = family(*data, representation="hierarchy", priors=theta, **options)
    ((mean, of_f),) = affine(model.pymc, ["f"])
    noise = 0.2 if "scale" in options else 0.2 * Y.std()
    found = log_normal(Y - mean, of_f + noise**2 * np.eye(N))
    alone = family(*data, **options)
    expected = bx.log_likelihood(alone, theta, **QUIET)["log_marginal_likelihood"].item()
    assert_allclose(found, expected, atol=1e-5)


def test_summands_of_weights_add_up():
    _, theta, options = MODELS["a sum, by feature"]
    theta = {**theta, "sigma": 0.2}
    model = bx.GPX(X, Y, Z, representation="hierarchy", priors=theta, **options)
    ((_, of_g),) = affine(model.pymc, ["g"])
    x = scaled(X)
    smooth, rising = matern52(x, x, 1.1), x @ x.T
    by_feature = of_g.reshape((N, P, N, P))
    for p, unit in enumerate(Y.std() / Z.std(0)):
        of_p = theta["matern52_amplitude"][p] ** 2 * smooth
        of_p = of_p + theta["linear_amplitude"][p] ** 2 * rising
        assert_allclose(by_feature[:, p, :, p], unit**2 * of_p, atol=1e-5 * unit**2)
    assert not by_feature[:, 0, :, 1].any()


EXPOSURE = RNG.uniform(1.0, 3.0, size=N)
THREE = np.arange(N) % 3
AROUND_F = {
    "normal": (Y, {"sigma": 0.2}, {}, lambda f: st.norm.logpdf(Y, f, 0.2 * Y.std())),
    "student_t": (
        Y,
        {"sigma": 0.2, "nu": 3.0},
        {},
        lambda f: st.t.logpdf(Y, 3.0, f, 0.2 * Y.std()),
    ),
    "bernoulli": (LABELS, {}, {}, lambda f: st.bernoulli.logpmf(LABELS, expit(f))),
    "probit": (
        LABELS,
        {},
        {"likelihood": "bernoulli", "link": "probit"},
        lambda f: st.bernoulli.logpmf(LABELS, st.norm.cdf(f)),
    ),
    "poisson": (
        COUNTS,
        {},
        {"exposure": EXPOSURE},
        lambda f: st.poisson.logpmf(COUNTS, EXPOSURE * np.exp(f)),
    ),
    "negative_binomial": (
        COUNTS,
        {"dispersion": 2.5},
        {},
        lambda f: st.nbinom.logpmf(COUNTS, 2.5, 2.5 / (2.5 + np.exp(f))),
    ),
    "categorical": (THREE, {}, {}, lambda f: log_softmax(f, axis=1)[np.arange(N), THREE]),
}


@pytest.mark.parametrize("likelihood", AROUND_F)
@pytest.mark.parametrize("family", [bx.GP, bx.GPX])
def test_y_is_observed_around_f(likelihood, family):
    y, noise, options, density = AROUND_F[likelihood]
    theta = (SHARED if family is bx.GPX else GP_THETA) | noise
    options = {"likelihood": likelihood, **options, "priors": theta}
    model = family(X, y, representation="hierarchy", **options).pymc
    white = {rv.name: RNG.normal(size=rv.shape.eval(mode=MODE)) for rv in model.free_RVs}
    values = model.replace_rvs_by_values([model["f"]])
    terms = model.logp(vars=[model["y"]], sum=False)
    call = pytensor.function(model.continuous_value_vars, [*values, *terms], mode=MODE)
    f, found = call(*[white[model.values_to_rvs[v].name] for v in model.continuous_value_vars])
    assert_allclose(found, density(f), rtol=1e-9)
    assert f.shape == ((N, 3) if likelihood == "categorical" else (N,))


def test_the_graph_is_the_one_of_the_paper():
    model = bx.GPX(X, Y, Z, representation="hierarchy").pymc
    arrows = {line.strip() for line in pm.model_to_mermaid(model).splitlines()}
    ways = ["g --> w", "eps_w --> w", "w --> f", "Z --> f", "f --> y", "sigma --> y", "X --> g"]
    assert {*ways, "lengthscale --> g", "sigma_w --> eps_w"} <= arrows
    assert not {"g --> y", "w --> y", "lengthscale --> y"} & arrows


def fit_of(model, theta, **sampled):
    """A fit with two draws of hyperparameters and of latent variables (draw, ...)."""
    own = {"lengthscale": ["feature"]}
    kept = {
        name: (["chain", "draw", *own.get(name, [])], np.array([[value] * 2]))
        for name, value in theta.items()
    }
    for name, values in sampled.items():
        kept[name] = (
            ["chain", "draw", *(f"{name}_{i}" for i in range(values.ndim - 1))],
            values[None],
        )
    labels = {"feature": list(model.training.X.columns)}
    return xr.DataTree.from_dict({"posterior": xr.Dataset(kept, labels)})


@pytest.mark.parametrize("likelihood", ["bernoulli", "poisson"])
def test_sampled_weights_are_explained_as_they_were_sampled(likelihood):
    """Given f at the rows, weights are Gaussian: linear algebra, in the units of y per z."""
    y = LABELS if likelihood == "bernoulli" else COUNTS
    options = {"likelihood": likelihood, "representation": "hierarchy"}
    model, f = bx.GPX(X, y, Z, **options), RNG.normal(size=(2, N))
    fit = fit_of(model, SHARED, f=f)
    values = bx.predictions(model, fit, on="latent", seed=0, **QUIET)
    assert_allclose(values["f"].values[0], f, atol=1e-3)
    found = bx.weights(model, fit, seed=0, **QUIET)
    K = 1.3**2 * expquad(scaled(X), scaled(X), np.array([0.8, 1.7])) + 0.4**2 * np.eye(N)
    z = scaled(Z)
    center = model.training.y_scaling.center
    solved = np.linalg.solve(K * (z @ z.T), (f - center).mean(0))
    expected = np.einsum("ij,jl,j->il", K, z, solved) / Z.std(0)
    assert_allclose(found["weight_mean"], expected, rtol=1e-5, atol=1e-5)


def test_sampled_coefficients_are_explained_as_they_were_sampled():
    road = {"likelihood": "bernoulli", "approximation": bx.HSGP(4, 2.0)}
    model = bx.GPX(X, LABELS, Z, representation="hierarchy", **road)
    theta = {**SHARED, "sigma_w": 0.4}
    model_at = bx.GPX(X, LABELS, Z, representation="hierarchy", priors=theta, **road)
    rng = np.random.default_rng(1)
    whites = []

    def white(size):
        whites.append(rng.normal(size=(2, size)))
        return whites[0]

    g, w, f = evaluated(model_at.pymc, ["g", "w", "f"], white)
    names = [rv.name for rv in model_at.pymc.free_RVs]
    assert names == ["g_white", "eps_w_white"]
    fit = fit_of(model, theta, g_white=whites[0][:, : 16 * P], f=f)
    smooth = bx.weights(model, fit, smooth=True, seed=0, **QUIET)["weight"]
    assert_allclose(smooth.values[0], g, atol=1e-6)
    values = bx.predictions(model, fit, on="latent", seed=0, **QUIET)["f"]
    assert_allclose(values.values[0], f, atol=1e-6)
    sums = bx.contributions(model, fit, seed=0, **QUIET)["contribution"].sum("feature")
    assert_allclose(sums.values[0], f, atol=1e-6)


def test_a_fit_is_that_of_the_collapsed_model():
    priors = {name: SHARED[name] for name in ("lengthscale", "sigma_w")}
    for options in ({}, {"likelihood": "bernoulli"}):
        y, options = LABELS if options else Y, {**options, "priors": priors}
        found = bx.GPX(X, y, Z, representation="hierarchy", **options).fit("map", **QUIET)
        expected = bx.GPX(X, y, Z, **options).fit("map", **QUIET)
        xr.testing.assert_identical(
            found["posterior"].to_dataset().drop_attrs(),
            expected["posterior"].to_dataset().drop_attrs(),
        )


def test_the_representation_is_kept(tmp_path):
    model = bx.GPX(X, Y, Z, representation="hierarchy")
    idata = model.fit("map", **QUIET)
    bx.save(model, idata, tmp_path / "fit.nc")
    loaded, _ = bx.load(tmp_path / "fit.nc")
    for other in (loaded, pickle.loads(pickle.dumps(model))):
        assert other.pymc.named_vars.keys() == model.pymc.named_vars.keys()
        assert other.signature == model.signature
    assert "hierarchy" in model.signature
    with pytest.raises(ValueError, match="another model"):
        bx.weights(bx.GPX(X, Y, Z), idata, **QUIET)
    with pytest.raises(ValueError, match="representation: unknown 'flat'"):
        bx.GP(X, Y, representation="flat")


def test_pymc_samples_the_prior_and_replicates_given_f():
    model = bx.GPX(X, Y, Z, representation="hierarchy", priors={**SHARED, "sigma": 0.2})
    options = {"random_seed": 1, "compile_kwargs": {"mode": "FAST_COMPILE"}}
    prior = pm.sample_prior_predictive(4000, model=model.pymc, **options)
    y = prior["prior_predictive"]["y"].values[0]
    K = 1.3**2 * expquad(scaled(X), scaled(X), np.array([0.8, 1.7])) + 0.4**2 * np.eye(N)
    of_y = Y.var() * (K * (scaled(Z) @ scaled(Z).T) + 0.2**2 * np.eye(N))
    scale = np.sqrt(np.outer(np.diag(of_y), np.diag(of_y)))
    # Standard errors of correlations are at most sqrt(2 / 4000) = 0.022.
    assert_allclose(np.cov(y.T) / scale, of_y / scale, atol=0.1)
    assert prior["prior"]["w"].dims == ("chain", "draw", "obs", "z_feature")
    kept = xr.DataTree.from_dict({"posterior": prior["prior"].to_dataset().isel(draw=slice(200))})
    again = pm.sample_posterior_predictive(kept, model=model.pymc, progressbar=False, **options)
    left = again["posterior_predictive"]["y"] - kept["posterior"]["f"]
    assert_allclose(left.std(), 0.2 * Y.std(), rtol=0.1)


def test_a_larger_model_can_use_the_weights():
    with pm.Model() as larger:
        model = bx.GPX(X, Y, Z, name="own", representation="hierarchy")
        total = larger["own_w"].sum(axis=1)
        pm.Normal("elsewhere", total + larger["own_f"], 1.0, observed=np.zeros(N))
    density = larger.compile_logp(mode=MODE)(larger.initial_point())
    assert np.isfinite(density)
    assert set(model.posterior_names.values()) < {rv.name for rv in larger.free_RVs}
    with pytest.warns(UserWarning, match="leaves out .'elsewhere'"):
        assert np.isfinite(model.fit("map", **QUIET)["posterior"]["own_sigma"])


def test_latent_values_of_normal_noise_are_sampled_from_a_hierarchy_alone():
    with pytest.raises(ValueError, match="representation='hierarchy'"):
        bx.GP(X, Y).fit("nuts", latent="sample", **QUIET)


CHAINS = {"draws": 3000, "tune": 1500, "chains": 2}


def lognormal(center):
    return lambda name: pm.LogNormal(name, np.log(center), 0.4)


PRIORS = {
    "lengthscale": 1.0,
    "amplitude": lognormal(1.0),
    "sigma_w": 0.3,
    "sigma": lognormal(0.3),
}


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["fit", "pymc"])
def test_both_representations_have_one_posterior(sampler):
    """Hyperparameters and weights sampled in the hierarchy, and from the collapsed density."""
    model = bx.GPX(X, Y, Z, representation="hierarchy", priors=PRIORS)
    if sampler == "fit":
        found = model.fit("nuts", latent="sample", seed=1, target_accept=0.95, **CHAINS, **QUIET)
    else:
        options = {"random_seed": 1, "target_accept": 0.95, "cores": 1, "quiet": True}
        found = pm.sample(model=model.pymc, **CHAINS, **options)
    alone = bx.GPX(X, Y, Z, priors=PRIORS)
    expected = alone.fit("nuts", seed=2, **CHAINS, **QUIET)
    for name in ("amplitude", "sigma"):
        one, other = (np.log(tree["posterior"][name]) for tree in (found, expected))
        # Monte Carlo errors at effective sizes of 1000: 0.03 sd of means, 0.02 of sds.
        assert abs(one.mean() - other.mean()) < 0.15 * other.std()
        assert abs(one.std() / other.std() - 1.0) < 0.1
    weights = bx.weights(alone, expected, seed=0, num_draws=1000, **QUIET)
    sampled = found["posterior"]["w"]
    apart = sampled.mean(("chain", "draw")).values - weights["weight_mean"].values
    assert (np.abs(apart) < 0.15 * weights["weight_sd"].values).all()
    ratio = sampled.std(("chain", "draw")).values / weights["weight_sd"].values
    assert ((ratio > 0.9) & (ratio < 1.1)).all()
    at = {"seed": 0, "num_draws": 1000, **QUIET}
    ours = bx.predictions(model, found, NEW, Z[:3], **at)
    theirs = bx.predictions(alone, expected, NEW, Z[:3], **at)
    assert (np.abs(ours["f_mean"] - theirs["f_mean"]) < 0.1 * theirs["f_sd"]).all()


@pytest.mark.slow
def test_both_representations_of_labels_have_one_posterior():
    """Latent values sampled as sums of weights, and whitened as such."""
    priors = {name: PRIORS[name] for name in ("lengthscale", "amplitude", "sigma_w")}
    options = {"likelihood": "bernoulli", "priors": priors}
    models = [bx.GPX(X, LABELS, Z, representation=r, **options) for r in ("hierarchy", "collapsed")]
    fits = [m.fit("nuts", latent="sample", seed=1, **CHAINS, **QUIET) for m in models]
    found, expected = (
        bx.weights(m, fit, seed=0, num_draws=2000, **QUIET)
        for m, fit in zip(models, fits, strict=True)
    )
    sd = expected["weight_sd"]
    assert (np.abs(found["weight_mean"] - expected["weight_mean"]) < 0.15 * sd).all()
    assert (np.abs(found["weight_sd"] / sd - 1.0) < 0.1).all()
    sampled = fits[0]["posterior"]["w"].mean(("chain", "draw")).values
    assert (np.abs(sampled - found["weight_mean"].values) < 0.15 * sd.values).all()
    terms = [bx.log_likelihood(m, f, **QUIET) for m, f in zip(models, fits, strict=True)]
    one, other = (t["log_likelihood"].mean(("chain", "draw")) for t in terms)
    assert np.abs(one - other).max() < 0.03
