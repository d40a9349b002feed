"""From specification to a plain PyMC model."""

import functools
import gc
import weakref

import cloudpickle
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx.model.named_kernels import KERNELS
from bayes_gpx.numerics.compile_modes import MODE
from oracle import expquad, log_normal

FAST = {"mode": "FAST_COMPILE"}


def evidence(model, theta):
    return bx.log_likelihood(model, theta)["log_marginal_likelihood"].item()


@pytest.mark.parametrize(
    ("kernel", "names"),
    [
        ("expquad", ["lengthscale", "amplitude", "sigma"]),
        ("ratquad", ["lengthscale", "alpha", "amplitude", "sigma"]),
        ("periodic", ["lengthscale", "period", "amplitude", "sigma"]),
        ("polynomial", ["offset", "degree", "amplitude", "sigma"]),
        (
            "expquad*linear + expquad",
            ["expquad_lengthscale", "expquad2_lengthscale", "expquad_amplitude"]
            + ["expquad2_amplitude", "sigma"],
        ),
        (
            "matern52 * periodic",
            ["matern52_lengthscale", "periodic_lengthscale", "periodic_period"]
            + ["amplitude", "sigma"],
        ),
    ],
)
def test_names_of_hyperparameters(regression, kernel, names):
    X, _, y, _, _ = regression
    assert list(bx.GP(X, y, kernel=kernel).hyperparameters) == names


@pytest.mark.parametrize(
    ("kernel", "ard"),
    [
        *((kernel, True) for kernel in KERNELS),
        ("expquad", False),
        *(pytest.param(k, False, marks=pytest.mark.slow) for k in KERNELS if k != "expquad"),
    ],
)
def test_every_named_kernel_fits_and_predicts(regression, kernel, ard):
    X, _, y, X_new, _ = regression
    model = bx.GP(X, y, kernel=kernel, ard=ard)
    idata = model.fit("map", progressbar=False)
    assert idata["starts"]["converged"].any()
    found = bx.predictions(model, idata, X_new, draws=2, seed=1)
    assert np.isfinite(found["y_sd"]).all()
    lengthscale = idata["posterior"].get("lengthscale")
    assert lengthscale is None or lengthscale.dims[2:] == (("feature",) if ard else ())


def test_sum_and_product_of_kernels(regression):
    X, _, y, _, _ = regression
    x = ((X - X.mean()) / X.std(ddof=0)).values
    response = ((y - y.mean()) / y.std(ddof=0)).values
    theta = {
        "expquad_lengthscale": [0.8, 1.5],
        "expquad2_lengthscale": 3.0,
        "expquad_amplitude": 0.7,
        "expquad2_amplitude": 0.5,
        "sigma": 0.3,
    }
    K = 0.7**2 * expquad(x, x, np.array([0.8, 1.5])) * (x @ x.T) + 0.25 * expquad(x, x, 3.0)
    expected = log_normal(response, K + 0.09 * np.eye(14)) - 14 * np.log(y.std(ddof=0))
    assert_allclose(evidence(bx.GP(X, y, kernel="expquad * linear + expquad"), theta), expected)


def test_summands_of_a_gpx_have_amplitudes_by_feature(regression):
    X, Z, y, _, _ = regression
    model = bx.GPX(X, y, Z, kernel="expquad + linear", weight_prior="per_feature")
    theta = {
        "expquad_lengthscale": 1.1,
        "expquad_amplitude": [0.2, 0.4, 0.6],
        "linear_amplitude": [0.5, 0.1, 0.3],
        "sigma_w": 0.2,
        "sigma": 0.3,
    }
    x = ((X - X.mean()) / X.std(ddof=0)).values
    z = ((Z - Z.mean()) / Z.std(ddof=0)).values
    response = ((y - y.mean()) / y.std(ddof=0)).values
    K = expquad(x, x, 1.1) * (z @ np.diag([0.04, 0.16, 0.36]) @ z.T)
    K += (x @ x.T) * (z @ np.diag([0.25, 0.01, 0.09]) @ z.T)
    K += np.diag(0.04 * (z**2).sum(axis=1))
    expected = log_normal(response, K + 0.09 * np.eye(14)) - 14 * np.log(y.std(ddof=0))
    assert_allclose(evidence(model, theta), expected)


class Factory:
    def create_variable(self, name):
        return pm.Exponential(name, 2.0)


@pytest.mark.parametrize(
    "prior",
    [
        lambda name: pm.Exponential(name, 2.0),
        lambda: pm.Exponential("sigma", 2.0),
        lambda name, dims: pm.Exponential(name, 2.0, dims=dims),
        functools.partial(pm.Exponential, lam=2.0),
        Factory(),
    ],
)
def test_priors_may_be_any_callable(regression, prior):
    X, _, y, _, _ = regression
    model = bx.GP(X, y, priors={"sigma": prior})
    assert model._pymc["sigma"].owner.op.name == "exponential"


def test_a_scalar_prior_of_an_ard_kernel_is_broadcast(regression):
    X, _, y, _, _ = regression
    priors = {"lengthscale": lambda name: pm.LogNormal(name, 0.0, 1.0)}
    model = bx.GP(X, y, priors=priors)
    idata = model.fit("map", progressbar=False)
    assert idata["posterior"]["lengthscale"].ndim == 2
    found = bx.predictions(model, idata, draws=2, seed=1)
    theta = {name: values.item() for name, values in idata["posterior"].data_vars.items()}
    expected = bx.predictions(bx.GP(X, y), theta, draws=2, seed=1)
    assert_allclose(found["f_mean"], expected["f_mean"], rtol=1e-12)


def test_fixed_hyperparameters_are_not_inferred(regression):
    X, _, y, _, _ = regression
    model = bx.GP(X, y, priors={"sigma": 0.3, "lengthscale": [1.0, 2.0]})
    options = {"seed": 1, "log_likelihood": False, "progressbar": False}
    idata = model.fit("laplace", draws=100, **options)
    assert list(idata["posterior"].data_vars) == ["amplitude"]
    assert "laplace_information" not in idata.attrs
    assert "log_likelihood" not in idata.children
    theta = {"amplitude": float(idata["posterior"]["amplitude"][0, 0])}
    one = bx.predictions(model, theta, draws=2, seed=1)
    full = {**theta, "sigma": 0.3, "lengthscale": [1.0, 2.0]}
    assert_allclose(one["f_mean"], bx.predictions(bx.GP(X, y), full, draws=2)["f_mean"], rtol=1e-12)


def callable_kernel(d):
    scale = pm.HalfNormal("scale", 2.0)
    reach = pm.LogNormal("reach", 0.0, 1.0, dims="feature")
    return scale**2 * pm.gp.cov.ExpQuad(d, ls=reach) + 0.5 * pm.gp.cov.Linear(d, c=0.0)


def test_a_callable_kernel_brings_its_own_variables(regression):
    X, _, y, X_new, _ = regression
    model = bx.GP(X, y, kernel=callable_kernel)
    assert list(model.hyperparameters) == ["sigma", "scale", "reach"]
    idata = model.fit("laplace", draws=6, seed=1, progressbar=False)
    found = bx.predictions(model, idata, X_new, seed=1)
    peer = bx.GP(X, y, kernel="expquad + linear")
    one = {name: v[0, 3].values for name, v in idata["posterior"].data_vars.items()}
    theta = {
        "expquad_lengthscale": one["reach"],
        "expquad_amplitude": one["scale"],
        "linear_amplitude": np.sqrt(0.5),
        "sigma": one["sigma"],
    }
    single = {"sigma": one["sigma"], "scale": one["scale"], "reach": one["reach"]}
    expected = bx.predictions(peer, theta, X_new, draws=2, seed=1)
    again = bx.predictions(model, single, X_new, draws=2, seed=1)
    assert_allclose(again["f_mean"], expected["f_mean"], rtol=1e-10)
    assert found["f"].shape == (1, 6, 4)


def test_two_models_join_one_model_under_their_names(regression):
    X, Z, y, X_new, Z_new = regression
    with pm.Model() as joined:
        first = bx.GP(X, y, name="plain")
        second = bx.GPX(X, y, Z, name="weighted")
    assert first._pymc is joined and second._pymc is joined
    assert {"plain_sigma", "weighted_sigma_w", "plain_y"} <= set(joined.named_vars)
    assert joined.named_vars_to_dims["weighted_lengthscale"] == ("weighted_feature",)
    start = {"lengthscale": 1.0, "amplitude": 1.0, "sigma": 0.5}
    idata = first.fit("map", start=start, progressbar=False)
    alone = bx.GP(X, y)
    theta = {n: idata["posterior"][f"plain_{n}"].values[0, 0] for n in alone.hyperparameters}
    expected = bx.predictions(alone, theta, X_new, draws=2, seed=1)
    found = bx.predictions(first, idata, X_new, draws=2, seed=1)
    assert_allclose(found["f_mean"], expected["f_mean"], rtol=1e-12)
    assert bx.contributions(second, idata, X_new, Z_new, draws=2).sizes["feature"] == 3


def test_the_model_is_generative_in_user_units(regression):
    X, Z, y, _, _ = regression
    priors = {"lengthscale": 1e3, "amplitude": 1e-3, "sigma_w": 0.0, "sigma": 0.5}
    model = bx.GPX(X, y, Z, priors=priors)
    with pytensor.config.change_flags(mode=MODE):
        prior = pm.sample_prior_predictive(4000, model=model.pymc, random_seed=1)
    replicated = prior["prior_predictive"]["y"]
    assert replicated.dims == ("chain", "draw", "obs")
    assert_allclose(replicated.mean(), y.mean(), atol=5 * 0.5 * y.std() / np.sqrt(4000 * 14))
    assert_allclose(replicated.std(), 0.5 * y.std(ddof=0), rtol=0.02)
    assert_allclose(model.pymc.rvs_to_values[model.pymc["y"]].data, y)


def test_idata_of_pymcs_own_sampler_is_as_good(regression):
    X, _, y, X_new, _ = regression
    model = bx.GP(X, y)
    with pytensor.config.change_flags(mode=MODE):
        idata = pm.sample(
            20,
            tune=20,
            chains=2,
            cores=1,
            nuts_sampler="pymc",
            model=model.pymc,
            random_seed=1,
            progressbar=False,
            quiet=True,
        )
    assert bx.predictions(model, idata, X_new, seed=1)["f"].shape == (2, 20, 4)


def test_horseshoe_amplitudes_are_capped_products(regression):
    X, Z, y, _, _ = regression
    model = bx.GPX(X, y, Z, weight_prior="horseshoe")._pymc
    tau, local = model["amplitude_global"], model["amplitude_local"]
    given = {tau: pt.as_tensor(0.1), local: pt.as_tensor([1e-3, 1.0, 1e9])}
    graph = pytensor.graph.replace.graph_replace(model["amplitude"], given, strict=False)
    small, middle, large = pytensor.function([], graph, **FAST)()
    assert_allclose(small, 1e-4, rtol=1e-6)
    assert middle < 0.1
    assert_allclose(large, 2.0 / np.sqrt(3), rtol=1e-6)


def test_default_amplitude_scales_with_the_number_of_features(rng):
    y = rng.normal(size=30)
    sds = []
    for p in (1, 16):
        model = bx.GPX(rng.normal(size=(30, 2)), y, rng.normal(size=(30, p)))
        draws = pm.draw(model._pymc["amplitude"], 4000, random_seed=1, mode=MODE)
        sds.append(np.sqrt((draws**2).mean()))
    assert_allclose(sds[0] / sds[1], 4.0, rtol=0.1)


def test_importing_the_package_imports_nothing_heavy():
    import subprocess
    import sys

    code = (
        "import sys, bayes_gpx; print([m for m in ('pymc', 'arviz', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_names_exist():
    for name in bx.__all__:
        assert getattr(bx, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'magic'"):
        bx.magic  # noqa: B018


def test_units_of_a_column_do_not_matter(regression):
    """Results follow a change of units of X, Z and y."""
    X, Z, y, X_new, Z_new = regression
    theta = {"lengthscale": [0.9, 1.7], "amplitude": 0.8, "sigma_w": 0.3, "sigma": 0.4}
    model, other = (
        bx.GPX(X, y, Z),
        bx.GPX(X * 1000 + 7, 2 * y + 5.0, Z / 60 - 1),
    )
    found = bx.contributions(model, theta, X_new, Z_new, draws=2, seed=1)
    rescaled = bx.contributions(other, theta, X_new * 1000 + 7, Z_new / 60 - 1, draws=2, seed=1)
    assert_allclose(
        rescaled["contribution_mean"], 2 * found["contribution_mean"], rtol=1e-8, atol=1e-8
    )
    assert_allclose(rescaled["contribution_sd"], 2 * found["contribution_sd"], rtol=1e-8)


def test_a_callable_kernel_may_use_variables_around_it(regression):
    """Variables of the surrounding model, and a world that changes between models."""
    X, _, y, X_new, _ = regression
    with pm.Model():
        shared = pm.LogNormal("shared", 0.0, 1.0)
        model = bx.GP(X, y, kernel=lambda d: pm.gp.cov.Matern32(d, ls=shared))
    assert list(model.hyperparameters) == ["sigma", "shared"]
    theta = {"sigma": 0.3, "shared": 0.7}
    peer = {"sigma": 0.3, "lengthscale": 0.7, "amplitude": 1.0}
    expected = bx.predictions(bx.GP(X, y, kernel="matern32"), peer, X_new, keep="summary")
    found = bx.predictions(model, theta, X_new, keep="summary")
    assert_allclose(found["f_mean"], expected["f_mean"], rtol=1e-10)
    state = {"ls": 1.0}

    def kernel(d):
        return pm.gp.cov.Matern32(d, ls=state["ls"])

    first = bx.predictions(bx.GP(X, y, kernel=kernel), {"sigma": 0.3}, X_new, keep="summary")
    state["ls"] = 0.7
    second = bx.predictions(bx.GP(X, y, kernel=kernel), {"sigma": 0.3}, X_new, keep="summary")
    assert np.abs(first["f_mean"] - second["f_mean"]).max() > 0.1
    assert_allclose(second["f_mean"], expected["f_mean"], rtol=1e-10)


def test_horseshoe_takes_its_parts_or_its_whole(regression):
    X, Z, y, _, _ = regression
    priors = {"amplitude_global": lambda name: pm.HalfNormal(name, 0.1)}
    model = bx.GPX(X, y, Z, weight_prior="horseshoe", priors=priors)
    assert model._pymc["amplitude_global"].owner.op.name == "halfnormal"
    with pytest.raises(ValueError, match="either"):
        bx.GPX(X, y, Z, weight_prior="horseshoe", priors={**priors, "amplitude": 1.0})


def gibbs(d):
    narrow, slope = pm.HalfNormal("narrow"), pm.HalfNormal("slope")
    reach = lambda x, a, b: 0.1 + a + b * x**2  # noqa: E731
    return pm.HalfNormal("size") ** 2 * pm.gp.cov.Gibbs(d, reach, args=(narrow, slope))


def warped(d):
    bend, reach = pm.HalfNormal("bend"), pm.HalfNormal("reach")
    inner = pm.gp.cov.Matern52(d, ls=reach)
    return pm.gp.cov.WarpedInput(d, inner, warp_func=lambda x, a: pt.tanh(a * x), args=(bend,))


class OwnKernel(pm.gp.cov.Covariance):
    def __init__(self, input_dim, ls):
        super().__init__(input_dim)
        self.ls = ls

    def diag(self, X):
        return pt.ones(X.shape[0])

    def full(self, X, Xs=None):
        apart = X[:, None, :] - (X if Xs is None else Xs)[None, :, :]
        return pt.exp(-0.5 * ((apart / self.ls) ** 2).sum(axis=-1))


@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(gibbs, marks=pytest.mark.slow),
        warped,
        pytest.param(
            lambda d: OwnKernel(d, pm.HalfNormal("reach")), marks=pytest.mark.slow, id="own"
        ),
    ],
)
def test_nonstationary_and_user_written_kernels_learn(kernel):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (30, 1))
    truth = np.sin(2 * X[:, 0])
    y = truth + rng.normal(0, 0.1, 30)
    model = bx.GP(X, y, kernel=kernel)
    start = dict.fromkeys(model.hyperparameters, 0.5)
    idata = model.fit("map", start=start, progressbar=False)
    found = bx.predictions(model, idata, X, keep="summary")
    assert np.mean((found["f_mean"].values - truth) ** 2) < 0.1**2


def test_two_models_in_one_need_names():
    X = np.random.default_rng(1).normal(size=(12, 2))
    with pm.Model():
        bx.GP(X, X[:, 0])
        with pytest.raises(ValueError, match="has a 'X' already.*Pass a name="):
            bx.GP(X, X[:, 1])
        bx.GP(X, X[:, 1], name="second")


@pytest.mark.parametrize("approximation", [None, bx.HSGP(4), bx.Inducing(4)])
def test_data_are_freed_with_the_model(approximation):
    """PyMC keeps functions of each distribution for good, and they must not refer to data."""
    X, noise = np.random.default_rng(0).uniform(size=(2, 12, 2))
    model = bx.GP(X, X[:, 0] + noise[:, 0], approximation=approximation)
    idata = model.fit("map", progressbar=False)
    bx.attributions(model, idata, X[:2], keep="summary", progressbar=False)
    data = weakref.ref(model.training.X.values)
    del model
    gc.collect()
    assert data() is None


def test_a_pymc_model_is_sent_to_other_processes():
    """As PyMC's samplers do where processes are spawned; what arrives needs nothing from here."""
    X = np.random.default_rng(0).uniform(size=(8, 2))
    model = bx.GP(X, X[:, 0]).pymc
    expected = model.compile_logp()(model.initial_point())
    sent = cloudpickle.dumps(model)
    del model
    gc.collect()
    arrived = cloudpickle.loads(sent)
    assert arrived.compile_logp()(arrived.initial_point()) == expected
