"""Normal noise and basis functions that no hyperparameter changes: rows enter by sums alone.

The oracle is a multivariate normal with the covariance of all rows, from sines written anew.
"""

import tracemalloc

import mpmath
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

import bayes_gpx as bx
import oracle
from bayes_gpx.data import training
from bayes_gpx.inference.log_density import Density
from bayes_gpx.model import fixed_basis
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.posteriors.evidence.numba_forms import NATIVE_MODE
from bayes_gpx.posteriors.evidence.sums import Sums, sums_logp, sums_logp_and_slopes
from bayes_gpx.posteriors.strategies.low_rank import FixedBasis, LowRankNormal

rng = np.random.default_rng(4)
N = 40
X = rng.uniform(-2.0, 2.0, size=(N, 2))
Z = rng.normal(size=(N, 3))
y = np.sin(X[:, 0]) + 0.3 * X[:, 1] ** 2 + 0.1 * rng.normal(size=N)
X_new = rng.uniform(-1.5, 1.5, size=(5, 2))
HSGP = bx.HSGP((5, 4), 1.4)
THETA = {"lengthscale": [0.9, 1.3], "amplitude": 1.1, "sigma": 0.2}
PLAIN = {"scale": False, "approximation": HSGP}
QUIET = {"progressbar": False, "draws": 4, "seed": 1}


def sines(points, lengthscale):
    """Scaled products of sines of the squared exponential kernel, (m, 20)."""
    low, high = X.min(axis=0), X.max(axis=0)
    center, reach = 0.5 * (low + high), 0.5 * HSGP.c * (high - low)
    columns = []
    for i in range(1, 6):
        for j in range(1, 5):
            rate = 0.5 * np.pi * np.array([i, j]) / reach
            waves = np.sin(rate * (points - center + reach)) / np.sqrt(reach)
            power = 2 * np.pi * np.prod(lengthscale) * np.exp(-0.5 * sum((rate * lengthscale) ** 2))
            columns.append(waves.prod(axis=1) * np.sqrt(power))
    return np.stack(columns, axis=1)


@pytest.fixture(scope="module")
def gp():
    return bx.GP(X, y, **PLAIN)


def test_posteriors_are_those_of_all_rows(gp):
    assert gp.specification.strategy_of() == FixedBasis()
    F, F_new = (1.1 * sines(points, np.array([0.9, 1.3])) for points in (X, X_new))
    C = F @ F.T + 0.04 * np.eye(N)
    found = bx.predictions(gp, THETA, X_new, **QUIET)
    K = F_new @ F.T
    np.testing.assert_allclose(found["f_mean"], K @ np.linalg.solve(C, y), atol=1e-11)
    variance = (F_new**2).sum(axis=1) - (K * np.linalg.solve(C, K.T).T).sum(axis=1)
    np.testing.assert_allclose(found["f_sd"] ** 2, variance, atol=1e-11)


def test_leaves_each_row_out(gp):
    F = 1.1 * sines(X, np.array([0.9, 1.3]))
    C = F @ F.T + 0.04 * np.eye(N)
    found = bx.log_likelihood(gp, THETA, progressbar=False)
    evidence = oracle.log_normal(y, C)
    np.testing.assert_allclose(found["log_marginal_likelihood"], evidence, rtol=1e-11)
    precision = np.linalg.inv(C)
    own = np.diag(precision)
    terms = 0.5 * (np.log(own / (2 * np.pi)) - (precision @ y) ** 2 / own)
    np.testing.assert_allclose(found["log_likelihood"].squeeze(), terms, atol=1e-10)
    some = bx.log_likelihood(gp, THETA, obs=[3, 17], progressbar=False)
    assert some["obs"].values.tolist() == [3, 17]
    np.testing.assert_allclose(some["log_likelihood"].squeeze(), terms[[3, 17]], atol=1e-10)


GPX = {"sigma_w": 0.0}
MODELS = {
    "sum": lambda **o: bx.GP(X, y, kernel="expquad + linear", **o),
    "matern": lambda **o: bx.GP(X, y, kernel="matern52", ard=False, **o),
    "gpx": lambda **o: bx.GPX(X, y, priors=GPX, **o),
    "own z": lambda **o: bx.GPX(X, y, Z, priors=GPX, intercept=True, **o),
    "each": lambda **o: bx.GPX(X, y, Z, priors=GPX, weight_prior="per_feature", **o),
    "horseshoe": lambda **o: bx.GPX(X, y, Z, priors=GPX, weight_prior="horseshoe", **o),
    "fixed waves": lambda **o: bx.GP(X, y, priors={"lengthscale": 0.8}, **o | WAVES),
}
WAVES = {"approximation": bx.RandomFeatures(10)}


def on_all_rows(build, monkeypatch):
    """The same model by the strategy that passes over all rows."""
    with monkeypatch.context() as patched:
        patched.setattr("bayes_gpx.model.model.fixed_design", lambda *given: None)
        model = build(approximation=HSGP)
    assert model.specification.strategy_of() == LowRankNormal()
    return model


QUICK = "sum", "gpx"


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MODELS],
)
def test_says_what_a_pass_over_all_rows_says(name, monkeypatch):
    model, other = MODELS[name](approximation=HSGP), on_all_rows(MODELS[name], monkeypatch)
    assert model.specification.strategy_of() == FixedBasis()
    rng = np.random.default_rng(1)
    theta = {
        h.name: rng.uniform(0.5, 1.5, size=model.training.size(h.dim) if h.dim else ())
        for h in model.specification.hyperparameters
        if h.name not in model.fixed
    }
    verbs = [bx.predictions, bx.log_likelihood]
    verbs += [] if model.training.tied else [bx.attributions]  # by quadrature, compiled slowly
    verbs += [bx.weights, bx.contributions] if model.training.Z is not None else []
    for verb in verbs:
        options = {"progressbar": False} if verb is bx.log_likelihood else QUIET
        one, same = (verb(m, theta, **options) for m in (model, other))
        for variable in one.data_vars:
            if variable.endswith(("_mean", "_sd", "likelihood")):
                np.testing.assert_allclose(one[variable], same[variable], atol=1e-8)
    slopes = []
    for m in (model, other):
        density = Density(m.objective, jacobian=True)
        slopes.append(density.value_and_slope()(density.unconstrain({})))
    np.testing.assert_allclose(slopes[0][0], slopes[1][0], rtol=1e-10)
    np.testing.assert_allclose(slopes[0][1], slopes[1][1], rtol=1e-7, atol=1e-7)


def test_random_functions_are_the_same(gp, monkeypatch):
    other = on_all_rows(lambda **o: bx.GP(X, y, scale=False, **o), monkeypatch)
    options = {"draws": 3, "seed": 2, "progressbar": False}
    first, second = (
        bx.sample_functions(m, THETA, **options).predictions(X_new) for m in (gp, other)
    )
    np.testing.assert_allclose(first["f"], second["f"], atol=1e-9)


@pytest.mark.parametrize(
    "build",
    [
        lambda: bx.GPX(X, y, approximation=HSGP),
        lambda: bx.GP(X, y, approximation=bx.RandomFeatures(10)),
        lambda: bx.GP(X, y, approximation=HSGP, kernel=moving_center),
    ],
    ids=["deviations", "frequencies", "center"],
)
def test_passes_over_rows_where_hyperparameters_change_more_than_scales(build):
    assert build().specification.strategy_of() == LowRankNormal()


def moving_center(d):
    return pm.gp.cov.Linear(d, c=pm.Normal("middle"))


SCALES = rng.uniform(0.1, 2.0, size=20)


def sums_of(G, y):
    """Of the response itself."""
    n, square = (np.asarray(float(v)) for v in (len(y), y @ y))
    return Sums(G.T @ G, G.T @ y, square, n, np.zeros(G.shape[1]))


@pytest.mark.parametrize(
    "mode", [MODE, pytest.param(NATIVE_MODE, marks=pytest.mark.slow)], ids=["python", "native"]
)
def test_slopes_are_those_of_the_density(mode):
    G = sines(X, np.array([0.9, 1.3]))
    scales, variance = pt.dvector("scales"), pt.dscalar("variance")
    logp = sums_logp(Sums(*map(pt.constant, sums_of(G, y))), scales, variance)
    outputs = [logp, *pt.grad(logp, [scales, variance])]
    found = pytensor.function([scales, variance], outputs, mode=mode)

    def density(scales, variance):
        return oracle.log_normal(y, (G * scales**2) @ G.T + variance * np.eye(N))

    value, in_scales, in_variance = found(SCALES, 0.3)
    np.testing.assert_allclose(value, density(SCALES, 0.3), rtol=1e-11)
    step = 1e-5
    expected = [
        (density(SCALES + step * e, 0.3) - density(SCALES - step * e, 0.3)) / (2 * step)
        for e in np.eye(len(SCALES))
    ]
    np.testing.assert_allclose(in_scales, expected, rtol=1e-6, atol=1e-7)
    ends = density(SCALES, 0.3 + step), density(SCALES, 0.3 - step)
    np.testing.assert_allclose(in_variance, (ends[0] - ends[1]) / (2 * step), rtol=1e-6)


@pytest.mark.parametrize("noise", [1e-3, 1e-5, 1e-7])
def test_little_noise_leaves_the_digits(noise):
    """y'y less what is explained would cancel 6 to 14 digits of it."""
    mpmath.mp.dps = 60
    G = sines(X, np.array([0.9, 1.3]))
    nearly = G @ rng.normal(size=20) + noise * rng.normal(size=N)
    model = bx.GP(X, nearly, **PLAIN)
    F, variance = mpmath.matrix((1.1 * G).tolist()), mpmath.mpf(noise) ** 2
    inverse = (F * F.T + variance * mpmath.eye(N)) ** -1
    v = mpmath.matrix(nearly.tolist())
    square, determinant = (v.T * inverse * v)[0], mpmath.det(inverse)
    exact = float(-square / 2 + mpmath.log(determinant) / 2 - N * mpmath.log(2 * mpmath.pi) / 2)
    theta = THETA | {"sigma": noise}
    found = bx.log_likelihood(model, theta, progressbar=False)
    np.testing.assert_allclose(found["log_marginal_likelihood"], exact, atol=1e-5)


def test_what_is_no_covariance_has_no_density():
    sums = np.eye(2), np.ones(2), 1.0, 3.0, np.zeros(2)
    found = sums_logp_and_slopes(np.full(2, np.nan), 1.0, *sums)
    assert found[0] == -np.inf
    assert not found[1].any()


def test_other_responses_have_their_own_density(gp):
    """Of a constant response, and of a symbol; PyMC's tools put either in the place of y."""
    other = rng.normal(size=N)
    F = sines(X, np.array([0.9, 1.3]))
    given = {"lengthscale": np.array([0.9, 1.3]), "amplitude": 1.0, "sigma": 0.2}
    expected = oracle.log_normal(other, F @ F.T + 0.04 * np.eye(N))
    rvs = {gp.pymc[name]: value for name, value in given.items()}
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        held = pm.logp(gp.pymc["y"], pt.constant(other)).sum()
        np.testing.assert_allclose(held.eval(rvs, mode=MODE), expected, rtol=1e-10)
        symbol = pt.dvector("other")
        logp = pm.logp(gp.pymc["y"], symbol).sum()
        np.testing.assert_allclose(
            logp.eval(rvs | {symbol: other}, mode=MODE), expected, rtol=1e-10
        )


def test_prior_responses_vary_as_the_prior_says(gp):
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        fixed = pm.do(gp.pymc, {n: np.array(v) for n, v in THETA.items()})
        drawn = pm.draw(fixed["y"], draws=4000, random_seed=1, mode=MODE)
    F = 1.1 * sines(X, np.array([0.9, 1.3]))
    variance = (F**2).sum(axis=1) + 0.04
    np.testing.assert_allclose(drawn.var(axis=0) / variance, 1.0, atol=6 * np.sqrt(2 / 4000))


def test_threads_and_blocks(gp, monkeypatch):
    """The number of threads changes no bit, and the size of blocks no more than round-off."""
    monkeypatch.setattr(training, "TOGETHER", 7)
    found = []
    for threads in (1, 3):
        monkeypatch.setattr("os.cpu_count", lambda threads=threads: threads)
        monkeypatch.setattr("bayes_gpx.numerics.threads._Limit.threads", threads)
        found.append(fixed_basis.sums_over_rows(gp._design, gp.training))
    monkeypatch.setattr(fixed_basis, "BLOCK", 60)
    small = fixed_basis.sums_over_rows(gp._design, gp.training)
    for name, value in gp.sums.items():
        assert np.array_equal(found[0][name], found[1][name])
        np.testing.assert_allclose(found[0][name], value, atol=1e-10)
        np.testing.assert_allclose(small[name], value, atol=1e-10)


def test_no_array_holds_rows_times_functions():
    """100,000 rows and 100 functions would take 80 MB."""
    n = 100_000
    many = np.random.default_rng(1).uniform(-1.0, 1.0, size=(n, 2))
    model = bx.GP(many, many[:, 0], approximation=bx.HSGP(10))
    tracemalloc.start()
    model.fit(
        "map", progressbar=False, start={"lengthscale": [1.0, 1.0], "amplitude": 1.0, "sigma": 0.1}
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * n * 50
