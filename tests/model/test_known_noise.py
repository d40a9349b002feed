"""Rows whose noise has a known standard deviation."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import bayes_gpx as bx
import known_draws
from bayes_gpx.cli import main
from bayes_gpx.inference.log_density import Density

QUIET = {"progressbar": False}
N, M, EXTRA = 14, 3, 0.3
rng = np.random.default_rng(sum(map(ord, "noise_sd")))
X = pd.DataFrame(rng.normal(size=(N, 2)), columns=["dose", "age"])
Z = pd.DataFrame(rng.normal(size=(N, 2)), columns=["a", "b"])
Y = pd.Series(3.0 + 2.0 * np.sin(X["dose"]) + Z["a"] + 0.3 * rng.normal(size=N), name="y")
SD = rng.uniform(0.2, 1.5, size=N)
X_NEW = pd.DataFrame(rng.uniform(-0.7, 0.7, size=(M, 2)), columns=X.columns)
Z_NEW = pd.DataFrame(rng.normal(size=(M, 2)), columns=Z.columns)
SD_NEW = np.array([0.1, 1.0, 2.0])
GROUPS = np.array(list("aabbccddaabbcd"))
KERNEL = {"lengthscale": [0.8, 1.5], "amplitude": 1.3}
WEIGHTS = KERNEL | {"sigma_w": 0.4}
AT = np.column_stack([X, Z])[:5]
WALL = bx.constraints.Value(pd.DataFrame({"dose": [0.0], "age": [0.0]}), 3.0, sd=0.1)

MODELS = {
    "exact": ("GP", {}, {}),
    "constraints": ("GP", {"constraints": [WALL]}, {}),
    "inducing": ("GP", {"approximation": bx.Inducing(X.iloc[:5])}, {}),
    "basis": ("GP", {"approximation": bx.HSGP(4)}, {}),
    "fixed basis": ("GP", {"approximation": bx.HSGP(4), "priors": {"lengthscale": [0.8, 1.5]}}, {}),
    "basis, constraints": ("GP", {"approximation": bx.HSGP(4), "constraints": [WALL]}, {}),
    "groups": ("GP", {"groups": GROUPS}, {"group_amplitude": 0.5}),
    "groups, basis": (
        "GP",
        {"groups": GROUPS, "approximation": bx.HSGP(3)},
        {"group_amplitude": 0.5},
    ),
    "weights": ("GPX", {}, {"sigma_w": 0.4}),
    "weights, inducing": ("GPX", {"approximation": bx.Inducing(AT)}, {"sigma_w": 0.4}),
    "weights, basis": ("GPX", {"approximation": bx.HSGP(4)}, {"sigma_w": 0.4}),
}
each_model = pytest.mark.parametrize("name", MODELS)
LONG = ("basis, constraints", "fixed basis", "groups, basis", "weights, inducing")


def both(name, sd=0.7, scale=True):
    """One model with constant known noise, and one with a fixed sigma; and hyperparameters."""
    family, options, more = MODELS[name]
    data = (X, Y) if family == "GP" else (X, Y, Z)
    make = getattr(bx, family)
    known = make(*data, noise_sd=np.full(N, sd), scale=scale, **options)
    sigma = sd / known.training.y_scaling.scale
    options = options | {"priors": options.get("priors", {}) | {"sigma": sigma}}
    theta = {k: v for k, v in (KERNEL | more).items() if k not in known.fixed}
    return known, make(*data, scale=scale, **options), theta


def new_rows(model):
    """Arguments for rows that the model has not seen."""
    own = [X_NEW] if model.training.Z is None else [X_NEW, Z_NEW]
    return own, {} if model.training.groups is None else {"groups_new": ["a", "b", "new"]}


def agree(found, expected, rtol=1e-9):
    assert set(found.data_vars) == set(expected.data_vars)
    for variable in found.data_vars:
        if found[variable].dtype.kind == "f" and "residual" not in variable:
            assert_allclose(found[variable], expected[variable], rtol=rtol, atol=1e-9)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in LONG)) for n in MODELS]
)
def test_constant_noise_is_a_fixed_sigma(name):
    known, fixed, theta = both(name)
    assert "sigma" not in known.hyperparameters
    options = {"seed": 1, **QUIET}
    rows, groups = new_rows(known)
    agree(bx.predictions(known, theta, **options), bx.predictions(fixed, theta, **options))
    made = bx.predictions(known, theta, *rows, noise_sd=np.full(M, 0.7), **groups, **options)
    agree(made, bx.predictions(fixed, theta, *rows, **groups, **options))
    agree(*(bx.loo_predictions(m, theta, **options) for m in (known, fixed)), rtol=1e-8)
    agree(*(bx.log_likelihood(m, theta, **QUIET) for m in (known, fixed)))
    agree(*(bx.attributions(m, theta, baseline="mean", **options) for m in (known, fixed)))


@each_model
def test_constant_noise_has_the_density_of_a_fixed_sigma(name):
    known, fixed, theta = both(name)
    own = {known.posterior_names[k]: np.asarray(v, "float64") for k, v in theta.items()}
    found, expected = (Density(m.objective, jacobian=True) for m in (known, fixed))
    x = found.unconstrain(own)
    (height, slope), (there, expected_slope) = (d.value_and_slope()(x) for d in (found, expected))
    assert np.isfinite(height)
    assert_allclose(height, there, rtol=1e-9)
    assert_allclose(slope, expected_slope, rtol=1e-7, atol=1e-9)


def covariance(A, B, la=None, lb=None, theta=KERNEL):
    """Prior covariance of f between rows, in a GPX of their smooth parts; scale=False."""
    apart = (A.to_numpy()[:, None] - B.to_numpy()) / np.asarray(theta["lengthscale"])
    K = float(theta["amplitude"]) ** 2 * np.exp(-0.5 * (apart**2).sum(-1))
    return K if la is None else K * (la.to_numpy() @ lb.to_numpy().T)


@pytest.mark.parametrize("extra", [0.0, EXTRA])
@pytest.mark.parametrize("family", ["GP", "GPX"])
def test_each_row_has_its_own_noise(family, extra):
    z, z_new = (Z, Z_NEW) if family == "GPX" else (None, None)
    own = np.zeros(N) if z is None else 0.4**2 * (Z**2).sum(axis=1).to_numpy()
    own_new = np.zeros(M) if z is None else 0.4**2 * (Z_NEW**2).sum(axis=1).to_numpy()
    C = covariance(X, X, z, z) + np.diag(own + SD**2 + extra**2)
    across, prior = covariance(X_NEW, X, z_new, z), covariance(X_NEW, X_NEW, z_new, z_new)
    mean = across @ np.linalg.solve(C, Y)
    cov = prior - across @ np.linalg.solve(C, across.T) + np.diag(own_new)
    data, rows = ((X, Y), (X_NEW,)) if z is None else ((X, Y, Z), (X_NEW, Z_NEW))
    priors = {"sigma": extra} if extra else {}
    model = getattr(bx, family)(*data, noise_sd=SD, scale=False, priors=priors)
    theta = KERNEL if family == "GP" else WEIGHTS
    found = bx.predictions(model, theta, *rows, noise_sd=SD_NEW, seed=1, draws=4000, **QUIET)
    total = np.sqrt(np.diag(cov) + SD_NEW**2 + extra**2)
    assert_allclose(found["f_mean"], mean, rtol=1e-9)
    assert_allclose(found["f_sd"], np.sqrt(np.diag(cov)), rtol=1e-9)
    assert_allclose(found["y_mean"], mean, rtol=1e-9)
    assert_allclose(found["y_sd"], total, rtol=1e-9)
    assert found.attrs["likelihood"] == "normal"
    expected = stats.norm(mean[:, None], total[:, None]).ppf([0.05, 0.95])
    assert_allclose(found["y_interval"], expected, rtol=1e-6)
    assert_allclose(found["y"].std(("chain", "draw")), total, rtol=5.0 / np.sqrt(2 * 4000))
    evidence = bx.log_likelihood(model, theta, **QUIET)
    joint = stats.multivariate_normal(np.zeros(N), C).logpdf(Y)
    assert_allclose(evidence["log_marginal_likelihood"].item(), joint, rtol=1e-9)
    left = bx.loo_predictions(model, theta, seed=1, **QUIET)
    for i in range(N):
        rest = np.arange(N) != i
        gain = np.linalg.solve(C[np.ix_(rest, rest)], C[rest, i])
        sd = np.sqrt(C[i, i] - gain @ C[rest, i])
        one = stats.norm(gain @ Y[rest], sd)
        assert_allclose(left["elpd"][i], one.logpdf(Y[i]), rtol=1e-8)
        assert_allclose(left["y_sd"][i], sd, rtol=1e-8)
        assert_allclose(left["pit"][i], one.cdf(Y[i]), rtol=1e-7)


@pytest.mark.parametrize("approximation", [bx.Inducing(X), bx.HSGP([25, 25], 3.0)])
def test_approximations_have_the_noise_of_each_row(approximation):
    options = {"noise_sd": SD, "scale": False}
    exact, other = (bx.GP(X, Y, approximation=own, **options) for own in (None, approximation))
    for explain in (bx.predictions, bx.loo_predictions):
        found, expected = (explain(m, KERNEL, seed=1, **QUIET) for m in (other, exact))
        assert_allclose(found["y_mean"], expected["y_mean"], rtol=1e-4)
        assert_allclose(found["y_sd"], expected["y_sd"], rtol=1e-4)


def test_a_prior_of_sigma_adds_a_variance():
    model = bx.GP(X, Y, noise_sd=SD, scale=False, priors={"sigma": pm.HalfNormal.dist(1.0)})
    assert list(model.hyperparameters) == ["lengthscale", "amplitude", "sigma"]
    theta = KERNEL | {"sigma": EXTRA}
    C = covariance(X, X) + np.diag(SD**2 + EXTRA**2)
    found = bx.log_likelihood(model, theta, **QUIET)["log_marginal_likelihood"]
    assert_allclose(found.item(), stats.multivariate_normal(np.zeros(N), C).logpdf(Y), rtol=1e-9)


def test_a_hierarchy_observes_y_with_the_noise_of_each_row():
    model = bx.GP(X, Y, noise_sd=SD, representation="hierarchy")
    y = model.pymc["y"].owner
    sd = y.op.dist_params(y)[1]
    assert_allclose(sd.eval(mode="FAST_COMPILE"), SD, rtol=1e-12)


def test_new_rows_without_noise_have_no_y():
    model = bx.GP(X, Y, noise_sd=SD)
    found = bx.predictions(model, KERNEL, X_NEW, seed=1, **QUIET)
    assert not {"y", "y_mean", "y_sd", "y_interval"} & set(found)
    assert_allclose(found["response_mean"], found["f_mean"])
    with pytest.raises(ValueError, match="noise_sd"):
        bx.sample_posterior_predictive(model, KERNEL, X_NEW, **QUIET)
    tree = bx.sample_posterior_predictive(model, KERNEL, X_NEW, noise_sd=SD_NEW, seed=1, **QUIET)
    assert tree["predictions"]["y"].shape == (1, 1000, M)


def test_rows_keep_their_noise_in_files(tmp_path):
    model = bx.GP(X, Y, noise_sd=SD, priors={"sigma": 0.2})
    idata = model.fit("map", **QUIET)
    bx.save(model, idata, tmp_path / "fit.nc")
    again, there = bx.load(tmp_path / "fit.nc")
    agree(*(bx.predictions(*own, seed=1, **QUIET) for own in ((model, idata), (again, there))))
    assert_allclose(again.training.exposure, SD)


@pytest.mark.parametrize("approximation", [bx.Inducing(X.iloc[:5]), bx.HSGP(4)])
def test_out_of_core_rows_name_a_column(approximation, tmp_path):
    frames = [X.assign(y=Y, spread=SD).iloc[k : k + 5] for k in range(0, N, 5)]
    options = {"approximation": approximation, "scale": False}
    held = bx.GP(X, Y, noise_sd=SD, **options)
    model = bx.GP(frames, "y", noise_sd="spread", **options)
    assert list(model.training.X.columns) == ["dose", "age"]
    agree(
        *(bx.predictions(m, KERNEL, X_NEW, noise_sd=SD_NEW, seed=1, **QUIET) for m in (model, held))
    )
    agree(*(bx.relevance(m, KERNEL, X_NEW, **QUIET) for m in (model, held)))
    idata = known_draws.known(model, [KERNEL])
    bx.save(model, idata, tmp_path / "fit.nc")
    with pytest.raises(ValueError, match="has none of these rows"):
        bx.relevance(*bx.load(tmp_path / "fit.nc"), X_NEW, **QUIET)


def test_fits_learn_with_the_noise_of_each_row():
    model = bx.GP(X, Y, noise_sd=SD)
    idata = model.fit("laplace", draws=120, seed=1, **QUIET)
    theta = idata["posterior"].to_dataset().isel(chain=0, draw=7)
    assert set(theta.data_vars) == {"lengthscale", "amplitude"}
    unit = Y.std(ddof=0)
    rows, y = (X - X.mean()) / X.std(ddof=0), (Y - Y.mean()) / unit
    P = np.linalg.inv(covariance(rows, rows, theta=theta) + np.diag((SD / unit) ** 2))
    var = 1.0 / np.diag(P)
    expected = stats.norm(y - (P @ y) * var, np.sqrt(var)).logpdf(y) - np.log(unit)
    found = idata["log_likelihood"]["y"].isel(chain=0, draw=7)
    assert_allclose(found, expected, rtol=1e-7)


def test_the_command_takes_a_column_of_noise(tmp_path):
    X.assign(y=Y, error=SD).to_csv(tmp_path / "data.csv", index=False)
    words = ["fit", f"{tmp_path}/data.csv", "--target", "y", "--model", "gp", "--method", "map"]
    assert main([*words, "--noise-sd", "error", "--out", f"{tmp_path}/run", "--quiet"]) == 0
    model, _ = bx.load(f"{tmp_path}/run/fit.nc")
    assert list(model.training.X.sources) == ["dose", "age"]
    assert_allclose(model.training.exposure, SD)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"noise_sd": SD, "likelihood": "student_t"}, "noise_sd"),
        ({"noise_sd": -SD}, "noise_sd is -.* at position 0, but must be above 0"),
        ({"noise_sd": SD[:3]}, "noise_sd"),
        ({"noise_sd": np.where(SD > 1.0, np.nan, SD)}, "noise_sd"),
    ],
)
def test_wrong_noise_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        bx.GP(X, Y, **wrong)


def test_what_has_no_known_noise_is_refused():
    with pytest.raises(ValueError, match="noise_sd"):
        bx.GP(X, pd.DataFrame({"u": Y, "v": Y[::-1].to_numpy()}), noise_sd=SD)
    model = bx.GP(X, Y, noise_sd=SD)
    with pytest.raises(ValueError, match="noise_sd has shape"):
        bx.predictions(model, KERNEL, X_NEW, noise_sd=[1.0], **QUIET)
    with pytest.raises(ValueError, match="training samples have their own"):
        bx.predictions(model, KERNEL, noise_sd=SD, **QUIET)
    with pytest.raises(ValueError, match="noise_sd was given with by"):
        bx.predictions(model, KERNEL, X_NEW, noise_sd=SD_NEW, by=True, **QUIET)
    with pytest.raises(ValueError, match="y_new was given for a model with noise_sd"):
        model.training.read_observed(X_NEW, None, Y[:M], model.specification.observation)


@pytest.mark.parametrize("name", ["exact", "inducing", "weights"])
def test_relevance_with_equal_noise_is_that_of_its_sigma(name):
    known, plain, theta = both(name)
    for function, variable in ((bx.relevance, "relevance"), (bx.interactions, "interaction")):
        found, expected = (
            function(*own, obs=[0, 3], **QUIET)[variable]
            for own in ((known, theta), (plain, theta))
        )
        assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("extra", [0.0, 0.3])
def test_relevance_takes_the_mean_variance_of_the_noise(extra):
    """Against the divergence of two predictions next to each other."""
    priors = {"sigma": extra} if extra else {}
    model = bx.GP(X, Y, noise_sd=SD, scale=False, priors=priors)
    found = bx.relevance(model, KERNEL, X_NEW, **QUIET)["relevance"].values[0, 0]
    own, step = {"noise_sd": np.full(M, np.sqrt(np.mean(SD**2)))}, 1e-4
    for j, column in enumerate(X):
        moved = (X_NEW.assign(**{column: X_NEW[column] + s}) for s in (-step, step))
        ends = [bx.predictions(model, KERNEL, at, **own, **QUIET) for at in moved]
        (m, v), (n, w) = ((end["y_mean"].values, end["y_sd"].values ** 2) for end in ends)
        divergence = 0.5 * (v / w - 1.0 - np.log(v / w) + (m - n) ** 2 / w)
        assert_allclose(np.sqrt(2.0 * divergence) / (2.0 * step), found[:, j], rtol=1e-4)


def left_out(ls, amplitude, columns):
    """Means and variances of each f without its row, with a prior mean of 0."""
    D = (X[columns].to_numpy()[:, None] - X[columns].to_numpy()) / ls
    K = amplitude**2 * np.exp(-0.5 * (D**2).sum(axis=2))
    C = np.linalg.inv(K + np.diag(SD**2))
    own = 1.0 / np.diag(C)
    return Y.to_numpy() - own * (C @ Y.to_numpy()), own - SD**2


def test_projections_keep_the_noise_of_each_row():
    """Against the divergence of dense leave-one-out predictions, which no neighbor lowers."""
    model = bx.GP(X, Y, noise_sd=SD, scale=False)
    idata = model.fit("map", **QUIET)
    theta = {n: idata["posterior"][n].values[0, 0] for n in ("lengthscale", "amplitude")}
    aim = left_out(theta["lengthscale"], theta["amplitude"], ["dose", "age"])

    def apart(ls, amplitude):
        mean, spread = left_out(ls, amplitude, ["dose"])
        v, w = aim[1] + SD**2, spread + SD**2
        return np.mean(0.5 * (v / w - 1.0 - np.log(v / w) + (aim[0] - mean) ** 2 / w))

    projection = bx.project(model, idata, path=["dose", "age"], folds=2, **QUIET)
    submodel, fit = projection.submodel(1)
    ls, amplitude = (fit["posterior"][n].values.ravel()[0] for n in ("lengthscale", "amplitude"))
    assert_allclose(projection.table["kl"][1], apart(ls, amplitude), rtol=1e-5)
    assert projection.table["kl"].is_monotonic_decreasing
    for move in (0.97, 1.03):
        assert apart(ls * move, amplitude) >= apart(ls, amplitude) - 1e-9
        assert apart(ls, amplitude * move) >= apart(ls, amplitude) - 1e-9
