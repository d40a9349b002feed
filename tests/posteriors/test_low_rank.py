"""Conditioning through coefficients, against conditioning on all rows and dense formulas."""

import mpmath as mp
import numba
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy.stats import multivariate_normal

import bayes_gpx as bx
from bayes_gpx.inference.log_density import Density
from bayes_gpx.likelihoods import named
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.posteriors.base import Conditioning
from bayes_gpx.posteriors.evidence.normal import (
    low_rank_left_out,
    low_rank_logp,
    low_rank_logp_and_slopes,
)
from bayes_gpx.posteriors.exact import exact
from bayes_gpx.posteriors.strategies.low_rank import LowRankNormal
from bayes_gpx.processes import operators
from bayes_gpx.processes.basis_process import expanded
from oracle import expquad

rng = np.random.default_rng(11)
n, d, p = 25, 2, 3
X, Z, y = rng.normal(size=(n, d)), rng.normal(size=(n, p)), rng.normal(size=n)
X_new, Z_new = rng.normal(size=(4, d)), rng.normal(size=(4, p))
baseline = np.array([0.2, -0.3])
fixed = {name: pt.as_tensor(value) for name, value in {"X": X, "Z": Z, "y": y}.items()}
x_new, z_new, start = (pt.as_tensor(v) for v in (X_new, Z_new, baseline))
x_tied = pt.as_tensor(X)
cov_func = 1.3 * pm.gp.cov.Matern52(d, ls=[0.8, 1.2]) + 0.2 * pm.gp.cov.Linear(d, c=0.0)
GP = bx.GaussianProcess(cov_func)
GPX = bx.WeightProcess(
    [pm.gp.cov.ExpQuad(d, ls=0.9), pm.gp.cov.Matern32(d, ls=1.1)],
    sigma_w=0.4,
    amplitude=[np.array([0.9, 0.5, 1.1]), 0.7],
    n_features=p,
)
TIED = bx.WeightProcess(cov_func, sigma_w=0.3, n_features=d)
SIGMA = 0.3
BASES = {"features": bx.RandomFeatures(30, seed=1), "sines": bx.HSGP(5, 1.5)}
positions = pt.as_tensor(np.array([3, 0, 17]))
rows = positions.data


def conditioned(process, z, inducing=None):
    """Posterior through coefficients, with normal noise."""
    known = named("normal"), {"sigma": pt.as_tensor(SIGMA)}, fixed["X"], fixed["y"], z
    given = Conditioning(process, *known, inducing=inducing)
    return LowRankNormal().posterior(given, LowRankNormal().condition(given))


def gp_operators():
    return [
        operators.evaluate(x_new),
        operators.gradient(x_new),
        operators.integrated_gradient(x_new, start),
        operators.integrated_gradient(x_new, start, method="trapezoid", steps=7),
        operators.difference(x_new, start),
        operators.stack(operators.evaluate(x_new), operators.gradient(x_new)),
    ]


def gpx_operators():
    x, z = pt.as_tensor(X[rows]), pt.as_tensor(Z[rows])
    return [
        operators.evaluate(x_new, z_new),
        operators.weight(x_new),
        operators.contribution(x_new, z_new),
        operators.weight(x_new, smooth=True),
        operators.evaluate(x, z, sample=positions),
        operators.weight(x, sample=positions),
        operators.contribution(x, z, sample=positions),
        operators.gradient(x_new, z_new),
        operators.integrated_gradient(x_new, start, z_new),
        operators.difference(x_new, start, z_new),
    ]


def tied_operators():
    return [
        operators.gradient(x_new, x_new, tied=True),
        operators.integrated_gradient(x_new, start, x_new, tied=True),
        operators.difference(x_new, start, x_new, tied=True),
    ]


def moments(posteriors, asked, *, joint=True):
    """Mean, variance, block (of plain operators) and cov by each posterior, evaluated."""
    graphs = []
    for q in posteriors:
        found = [q(operator) for operator in asked]
        graphs += [g.mean for g in found] + [g.variance for g in found]
        graphs += [g.cov for g in found if joint]
        graphs += [
            g.block for g, o in zip(found, asked, strict=True) if isinstance(o, operators.AtPoints)
        ]
    values = pytensor.function([], graphs, mode=MODE)()
    half = len(values) // 2
    return zip(values[:half], values[half:], strict=True)


SLOW = pytest.mark.slow
KINDS = {
    "gp": (GP, gp_operators, None),
    "gpx": (GPX, gpx_operators, fixed["Z"]),
    "tied": (TIED, tied_operators, x_tied),
}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("gp", "sines"),
        ("gpx", "features"),
        pytest.param("gp", "features", marks=SLOW),
        pytest.param("gpx", "sines", marks=SLOW),
        *(pytest.param("tied", name, marks=SLOW) for name in BASES),
    ],
)
def test_basis_functions_agree_with_their_kernel_on_all_rows(kind, name):
    prior, asked, z = KINDS[kind]
    process = expanded(prior, BASES[name], fixed["X"])
    few = conditioned(process, z)
    every = exact(process, fixed["X"], fixed["y"], SIGMA, z)
    for found, expected in moments((few, every), asked(), joint=kind != "tied"):
        np.testing.assert_allclose(found, expected, atol=1e-9 * max(1.0, abs(expected).max()))


@pytest.mark.parametrize(
    ("kind", "joint"),
    [
        ("gp", False),
        *(pytest.param(k, k != "tied", marks=SLOW) for k in KINDS),
    ],
)
def test_inducing_points_at_all_rows_are_exact(kind, joint):
    prior, asked, z = KINDS[kind]
    inducing = operators.evaluate(fixed["X"], z, smooth=True)
    few = conditioned(prior, z, inducing)
    every = exact(prior, fixed["X"], fixed["y"], SIGMA, z)
    for found, expected in moments((few, every), asked(), joint=joint):
        np.testing.assert_allclose(found, expected, atol=1e-6 * max(1.0, abs(expected).max()))


def test_inducing_points_follow_titsias():
    """Equation 6 of Titsias (2009), by dense matrices and inverses."""
    U = X[:6] + 0.1
    k = pytensor.function([], [
        GP.kernel.gram(pt.as_tensor(U)),
        GP.kernel.value(pt.as_tensor(U), fixed["X"]),
        GP.kernel.value(pt.as_tensor(U), x_new),
        GP.kernel.gram(x_new),
    ], mode=MODE)()  # fmt: skip
    K_UU, K_UX, K_UL, K_LL = k
    A = np.linalg.inv(K_UU + K_UX @ K_UX.T / SIGMA**2)
    mean = K_UL.T @ A @ K_UX @ y / SIGMA**2
    cov = K_LL - K_UL.T @ (np.linalg.inv(K_UU) - A) @ K_UL
    q = conditioned(GP, None, operators.evaluate(U, smooth=True))(operators.evaluate(x_new))
    found = pytensor.function([], [q.mean, q.cov, q.variance], mode=MODE)()
    np.testing.assert_allclose(found[0], mean, atol=1e-7)
    np.testing.assert_allclose(found[1], cov, atol=1e-7)
    np.testing.assert_allclose(found[2], np.diag(cov), atol=1e-7)


def test_density_of_low_rank_and_its_slopes():
    F, D = rng.normal(size=(12, 4)), rng.uniform(0.1, 1.0, size=12)
    value = rng.normal(size=12)
    f, noise, v = pt.dmatrix("F"), pt.dvector("D"), pt.dvector("y")
    logp = low_rank_logp(v, f, noise)
    function = pytensor.function([f, noise, v], [logp, *pt.grad(logp, [f, noise, v])], mode=MODE)

    def dense(F, D, value):
        return multivariate_normal(np.zeros(12), F @ F.T + np.diag(D)).logpdf(value)

    found, *slopes = function(F, D, value)
    np.testing.assert_allclose(found, dense(F, D, value), rtol=1e-12)
    arguments = [F, D, value]
    for which, slope in enumerate(slopes):
        for at in np.ndindex(slope.shape):
            moved = []
            for step in (1e-5, -1e-5):
                changed = [a.copy() for a in arguments]
                changed[which][at] += step
                moved.append(dense(*changed))
            np.testing.assert_allclose(slope[at], (moved[0] - moved[1]) / 2e-5, atol=1e-6)


def test_leave_one_out_of_low_rank():
    F, D = rng.normal(size=(12, 4)), rng.uniform(0.1, 1.0, size=12)
    value = rng.normal(size=12)
    C = F @ F.T + np.diag(D)
    logp, alpha, precision = pytensor.function(
        [], low_rank_left_out(pt.as_tensor(value), pt.as_tensor(F), pt.as_tensor(D)), mode=MODE
    )()
    mean, variance = value - alpha / precision, 1.0 / precision
    np.testing.assert_allclose(logp, multivariate_normal(np.zeros(12), C).logpdf(value))
    for i in range(12):
        rest = np.arange(12) != i
        gain = np.linalg.solve(C[np.ix_(rest, rest)], C[rest, i])
        np.testing.assert_allclose(mean[i], gain @ value[rest], atol=1e-12)
        np.testing.assert_allclose(variance[i], C[i, i] - gain @ C[rest, i], atol=1e-12)


MODELS = {
    "gp": lambda a: bx.GP(X, y, approximation=a),
    "gpx": lambda a: bx.GPX(X, y, Z, approximation=a, intercept=True),
    "tied": lambda a: bx.GPX(X, y, approximation=a, weight_prior="per_feature"),
}


def around_the_prior(model, size=5):
    """Unconstrained points near the priors' centres."""
    density = Density(model.pymc, jacobian=True)
    x = density.unconstrain({})
    return density, x + 0.5 * rng.normal(size=(size, len(x)))


@pytest.mark.parametrize("kind", ["gp", *(pytest.param(k, marks=SLOW) for k in ("gpx", "tied"))])
def test_bound_is_never_above_the_exact_density(kind):
    full, points = around_the_prior(MODELS[kind](None))
    few = Density(MODELS[kind](bx.Inducing(6)).pymc, jacobian=True)
    every = Density(MODELS[kind](bx.Inducing(n)).pymc, jacobian=True)
    for x in points:
        exact_density = full.value_and_slope()(x)[0]
        assert few.value_and_slope()(x)[0] <= exact_density + 1e-7
        np.testing.assert_allclose(every.value_and_slope()(x)[0], exact_density, atol=1e-4)


def test_the_bound_is_that_of_titsias():
    """Equation 9 of Titsias (2009): the density under the approximate prior, less a penalty."""
    U = X[:6] + 0.1
    model = bx.GP(X, y, approximation=bx.Inducing(U), scale=False)
    theta = {"lengthscale": [0.8, 1.2], "amplitude": 1.1, "sigma": SIGMA}
    found = bx.log_likelihood(model, theta, progressbar=False)["log_marginal_likelihood"].item()
    K_UX, K_UU = (1.1**2 * expquad(U, other, [0.8, 1.2]) for other in (X, U))
    Q = K_UX.T @ np.linalg.solve(K_UU, K_UX)
    density = multivariate_normal(np.zeros(n), Q + SIGMA**2 * np.eye(n)).logpdf(y)
    penalty = (n * 1.1**2 - np.trace(Q)) / (2 * SIGMA**2)
    assert penalty > 1.0
    np.testing.assert_allclose(found, density - penalty, atol=1e-5)


ROADS = bx.Inducing(6), bx.HSGP(3), bx.RandomFeatures(20)
QUICK = [("gp", ROADS[0]), ("gpx", ROADS[1]), ("tied", ROADS[2])]


@pytest.mark.parametrize(
    ("kind", "approximation"),
    [
        pytest.param(k, a, marks=() if (k, a) in QUICK else SLOW, id=f"{k}-{type(a).__name__}")
        for k in MODELS
        for a in ROADS
    ],
)
def test_gradients_of_densities(kind, approximation):
    density, points = around_the_prior(MODELS[kind](approximation), 2)
    evaluate = density.value_and_slope()
    for x in points:
        moves = 1e-5 * np.eye(len(x))
        expected = [(evaluate(x + m)[0] - evaluate(x - m)[0]) / 2e-5 for m in moves]
        np.testing.assert_allclose(evaluate(x)[1], expected, rtol=1e-5, atol=1e-5)


def test_evidence_is_the_density_of_the_response():
    """The density of basis functions, in user units, by the dense covariance of y."""
    model = MODELS["gpx"](bx.RandomFeatures(20))
    theta = {"lengthscale": 1.1, "amplitude": 0.7, "sigma_w": 0.2, "sigma": 0.4}
    found = bx.log_likelihood(model, theta, progressbar=False)["log_marginal_likelihood"].item()
    scaled, data = model.training.scaled(), model.training
    process = expanded(
        bx.WeightProcess(0.7**2 * pm.gp.cov.ExpQuad(d, ls=1.1), sigma_w=0.2, n_features=data.p),
        bx.RandomFeatures(20),
        pt.specify_shape(pt.as_tensor(scaled["X"]), (n, d)),
    )
    u = operators.evaluate(pt.as_tensor(scaled["X"]), pt.as_tensor(scaled["Z"]), sample="train")
    K = process.covariance(u, u).eval(mode=MODE)
    C = data.y_scaling.scale**2 * (K + 0.4**2 * np.eye(n))
    expected = multivariate_normal(np.full(n, data.y_scaling.center), C).logpdf(y)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize(
    "compile",
    [pytest.param(lambda f: f, id="python"), pytest.param(numba.njit, id="numba", marks=SLOW)],
)
def test_noise_below_round_off_has_no_density(compile):
    # Of rank 2, so that what is left of the unit matrix is lost against F F' / D.
    F = rng.normal(size=(30, 2)) @ rng.normal(size=(2, 8))
    density, value = compile(low_rank_logp_and_slopes), rng.normal(size=30)
    logp, *slopes = density(1e6 * F, np.full(30, 1e-12), value)
    assert logp == -np.inf and all((slope == 0).all() for slope in slopes)
    assert np.isfinite(density(F, np.ones(30), value)[0])


@pytest.mark.parametrize("columns", [9, 5])
def test_noise_far_below_the_response(columns):
    """Round-off must not make the density large, nor its slopes; against 60 digits."""
    F = rng.normal(size=(8, columns))
    y = F @ rng.normal(size=columns)
    G, value = mp.matrix(F.tolist()), mp.matrix(y.tolist())
    for sd in (1e-2, 1e-4, 1e-6):
        with mp.workdps(60):
            precision = (G * G.T + mp.mpf(sd) ** 2 * mp.eye(8)) ** -1
            alpha = precision * value
            squares = (value.T * alpha)[0] - mp.log(mp.det(precision)) + 8 * mp.log(2 * mp.pi)
            in_D = [float(alpha[i] ** 2 - precision[i, i]) / 2 for i in range(8)]
            in_F = (alpha * (alpha.T * G) - precision * G).tolist()
        found, in_design, slope, _ = low_rank_logp_and_slopes(F, np.full(8, sd**2), y)
        share = 1e-4 if sd > 1e-6 else 1e-2
        np.testing.assert_allclose(found, float(-squares / 2), rtol=1e-4)
        np.testing.assert_allclose(slope, in_D, rtol=share)
        exact = np.array(in_F, float)
        np.testing.assert_allclose(in_design, exact, atol=share * np.abs(exact).max())


@pytest.mark.slow
@pytest.mark.parametrize("approximation", [bx.Inducing(6), bx.RandomFeatures(20)])
def test_machine_code_gives_the_same_density(approximation):
    model = MODELS["gp"](approximation)._pymc
    few, many = (Density(model, jacobian=True, long_run=many) for many in (False, True))
    x = few.unconstrain({}) + 0.2
    for found, expected in zip(many.value_and_slope()(x), few.value_and_slope()(x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-8)
