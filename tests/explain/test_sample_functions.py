"""Random functions: their moments are the posterior's, and each is one smooth function."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal

import bayes_gpx as bx
import oracle
from bayes_gpx.draws import each_draw

RNG = np.random.default_rng(3)
X, X_NEW = RNG.normal(size=(25, 2)), RNG.normal(size=(4, 2))
Y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.2 * RNG.normal(size=25)
THETA = {"lengthscale": [0.9, 1.5], "amplitude": 1.1, "sigma": 0.3}
OWN = {"sigma_w": 0.2}
DRAWS = 800


def own_kernel(d):
    """A kernel without random functions."""
    return pm.gp.cov.WarpedInput(d, cov_func=pm.gp.cov.ExpQuad(d, ls=1.5), warp_func=lambda x: x)


MODELS = {
    "expquad": (bx.GP, {}, {}),
    "matern52": (bx.GP, {"kernel": "matern52"}, {}),
    "matern32": (bx.GP, {"kernel": "matern32"}, {}),
    "ratquad": (bx.GP, {"kernel": "ratquad"}, {"alpha": 1.3}),
    "inducing": (bx.GP, {"approximation": bx.Inducing(9)}, {}),
    "features": (bx.GP, {"approximation": bx.RandomFeatures(40)}, {}),
    "gpx": (bx.GPX, {}, OWN),
    "gpx inducing": (bx.GPX, {"approximation": bx.Inducing(12)}, OWN),
    "gpx features": (bx.GPX, {"approximation": bx.RandomFeatures(40), "intercept": True}, OWN),
    "periodic": (bx.GP, {"kernel": "periodic"}, {"period": 3.0}),
}


def posed(name):
    family, options, more = MODELS[name]
    return family(X, Y, scale=False, **options), THETA | more


def functions_of(name, **options):
    model, theta = posed(name)
    options = {"draws": DRAWS, "waves": 32, "seed": 5, "progressbar": False} | options
    return model, theta, bx.sample_functions(model, theta, **options)


def assert_moments(draws, mean, cov):
    """Mean and covariance of draws (draw, k), within five standard errors."""
    n, variance = len(draws), np.diag(cov)
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 5 * np.sqrt(variance / n) + 1e-12)
    spread = np.sqrt((np.multiply.outer(variance, variance) + cov**2) / n)
    assert np.all(np.abs(np.cov(draws.T) - cov) < 7 * spread + 1e-12)


@pytest.mark.parametrize("family", ["gp", "gpx"])
def test_moments_are_those_of_a_dense_joint_normal(family):
    """At two places at once, against NumPy; u and the asked values in one covariance."""
    both = np.vstack([X, X_NEW])
    K = 1.1**2 * oracle.expquad(both, both, np.array(THETA["lengthscale"]))
    noise = np.full(25, 0.3**2)
    if family == "gpx":
        K = K * (both @ both.T)
        noise = noise + 0.2**2 * (X**2).sum(axis=1)
    seen, asked = K[:25, :25] + np.diag(noise), K[25:, :25]
    mean = asked @ np.linalg.solve(seen, Y)
    cov = K[25:, 25:] - asked @ np.linalg.solve(seen, asked.T)
    _, _, functions = functions_of({"gp": "expquad"}.get(family, family))
    found = functions.predictions(X_NEW)
    assert found["f"].dims == ("chain", "draw", "obs") and found.sizes["draw"] == DRAWS
    assert_moments(found["f"].values[0], mean, cov)


SLOW = MODELS.keys() - {"expquad", "features"}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in MODELS]
)
def test_moments_are_those_of_the_verbs(name):
    """But for slopes of a Matern 3/2, whose waves have slopes without a fourth moment."""
    model, theta, functions = functions_of(name)
    options = {"keep": "summary", "covariance": True, "progressbar": False}
    verbs = {"derivatives": "derivative", "attributions": "attribution"}
    if name == "matern32":
        del verbs["derivatives"]
    for verb, variable in verbs.items():
        drawn = getattr(functions, verb)(X_NEW)[variable].values[0]
        exact = getattr(bx, verb)(model, theta, X_NEW, **options)
        for i in range(len(X_NEW)):
            mean, cov = (exact[f"{variable}_{what}"].values[i] for what in ("mean", "cov"))
            assert_moments(drawn[:, i], mean, cov)


@pytest.mark.parametrize(
    "name",
    [
        *("expquad", "inducing"),
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("matern52", "gpx", "gpx features")),
    ],
)
def test_every_answer_is_of_the_same_function(name):
    """Slopes are differences of values; attributions are the paper's sum of slopes along a path."""
    _, _, functions = functions_of(name, draws=3)

    def f(points):
        return functions.predictions(points)["f"].values[0]

    step = 1e-5
    slopes = functions.derivatives(X_NEW)["derivative"].values[0]
    for j in range(2):
        move = step * np.eye(2)[j]
        differences = (f(X_NEW + move) - f(X_NEW - move)) / (2 * step)
        assert_allclose(slopes[..., j], differences, rtol=1e-6, atol=1e-7)
    start = np.array([0.2, -0.4])
    found = functions.attributions(X_NEW, baseline=start)
    t, w = np.polynomial.legendre.leggauss(30)
    total = sum(
        0.5
        * v
        * functions.derivatives(start + 0.5 * (1 + u) * (X_NEW - start))["derivative"].values[0]
        for u, v in zip(t, w, strict=True)
    )
    assert_allclose(found["attribution"].values[0], (X_NEW - start) * total, rtol=1e-4, atol=1e-6)
    difference = f(X_NEW) - f(start[None])
    assert_allclose(found["difference"].values[0], difference, atol=1e-9)
    assert_allclose(found["attribution"].values[0].sum(axis=-1), difference, atol=1e-6)


def test_a_new_group_is_the_same_in_every_answer():
    """Wherever its label stands among those of the others; r has another level than p."""
    model = bx.GP(X, Y, scale=False, groups=np.arange(25) % 3)
    theta = THETA | {"group_amplitude": 5.0}
    functions = bx.sample_functions(model, theta, draws=50, seed=1, progressbar=False)
    rows = np.full((2, 2), 9.0)
    first = functions.predictions(rows[:1], groups_new=["p"])["f"].values[..., 0]
    later = functions.predictions(rows, groups_new=["r", "p"])["f"].values
    assert_allclose(later[..., 1], first, rtol=1e-10)
    assert abs(later[..., 0] - first).mean() > 1.0


def test_weights_make_up_the_values():
    model, theta, functions = functions_of("gpx", draws=5)
    weights = functions.weights(X_NEW)["weight"].values[0]
    f = functions.predictions(X_NEW)["f"].values[0]
    assert_allclose((weights * X_NEW).sum(axis=-1), f, atol=1e-10)


def test_functions_go_through_data_without_noise():
    model = bx.GP(X, Y, scale=False)
    theta = THETA | {"sigma": 1e-4}
    functions = bx.sample_functions(model, theta, draws=20, waves=64, seed=1, progressbar=False)
    error = functions.predictions()["f"].values[0] - Y
    assert np.abs(error).max() < 1e-3


def test_second_derivatives():
    model, theta, functions = functions_of("expquad", draws=3)
    second = functions.derivatives(X_NEW, order=2)["second_derivative"]
    assert second.dims[-2:] == ("feature", "feature_bis")
    step = 1e-5 * np.eye(2)
    for j in range(2):
        ahead, behind = (functions.derivatives(X_NEW + s * step[j]) for s in (1, -1))
        moved = (ahead["derivative"] - behind["derivative"]) / 2e-5
        assert_allclose(second.values[..., j], moved.values, rtol=1e-5, atol=1e-6)


def test_one_function_for_each_draw_in_user_units():
    frame_X, y = 100 + 20 * X, 1000 + 50 * Y
    model = bx.GP(frame_X, y)
    rng = np.random.default_rng(0)
    posterior = {
        "lengthscale": rng.uniform(0.8, 1.5, size=(2, 300, 2)),
        "amplitude": rng.uniform(0.8, 1.2, size=(2, 300)),
        "sigma": rng.uniform(0.2, 0.4, size=(2, 300)),
    }
    group = xr.Dataset(
        {
            name: (("chain", "draw", "feature")[: values.ndim], values)
            for name, values in posterior.items()
        },
        {"chain": [0, 1], "draw": np.arange(300), "feature": list(model.training.X.columns)},
    )
    idata = xr.DataTree.from_dict({"posterior": group})
    functions = bx.sample_functions(model, idata, num_draws=200, seed=0, progressbar=False)
    found = functions.derivatives(frame_X[:3])
    assert found["derivative"].shape == (2, 100, 3, 2)
    exact = bx.derivatives(model, idata, frame_X[:3], keep="summary", progressbar=False)
    apart = found["derivative"].mean(("chain", "draw")) - exact["derivative_mean"]
    assert np.all(np.abs(apart) < 5 * exact["derivative_sd"] / np.sqrt(200))
    assert found.attrs["units"] == exact.attrs["units"]


def test_seeds_and_blocks(monkeypatch):
    _, _, functions = functions_of("expquad", draws=4)
    whole = functions.predictions(X)["f"].values
    monkeypatch.setattr(each_draw, "BLOCK_BYTES", 1)
    assert_allclose(functions.predictions(X)["f"].values, whole, atol=1e-10)
    _, _, again = functions_of("expquad", draws=4)
    assert_array_equal(again.predictions(X_NEW)["f"], functions.predictions(X_NEW)["f"])
    _, _, other = functions_of("expquad", draws=4, seed=6)
    assert np.abs(other.predictions(X_NEW)["f"] - functions.predictions(X_NEW)["f"]).min() > 1e-4


def test_kernels_without_waves_are_drawn_jointly():
    model = bx.GP(X, Y, kernel=own_kernel, scale=False)
    functions = bx.sample_functions(model, {"sigma": 0.3}, draws=10, progressbar=False)
    assert functions.joint
    found = functions.predictions(X_NEW)
    assert "joint over features and observations" in found.attrs["dependence"]


def test_what_is_refused():
    model, theta = posed("expquad")
    with pytest.raises(ValueError, match="waves is 3. Pass an even number"):
        bx.sample_functions(model, theta, waves=3)
    with pytest.raises(ValueError, match="draws is 0"):
        bx.sample_functions(model, theta, draws=0)
    functions = bx.sample_functions(model, theta, draws=2, progressbar=False)
    with pytest.raises(ValueError, match="weights are defined for GPX"):
        functions.weights(X_NEW)
    with pytest.raises(ValueError, match="order is 3"):
        functions.derivatives(X_NEW, order=3)
    with pytest.raises(ValueError, match="1 columns, but must have 2"):
        functions.predictions(X_NEW[:, :1])
