"""Bounds of a y whose mean and log sd are processes, against SciPy's probabilities."""

import mpmath
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import bayes_gpx as bx
from bayes_gpx.inference.log_density import Density
from bayes_gpx.likelihoods.heteroscedastic import HeteroscedasticNormal
from bayes_gpx.likelihoods.rows import CENSORING, CensoredProcesses, _within
from bayes_gpx.numerics.compile_modes import MODE

CENTERS = np.array([3.0, np.log(2.0) - 0.7])
PLAIN = HeteroscedasticNormal(log_sd=-0.7, y_mean=3.0, y_sd=2.0)
KINDS = ("left", "right", "interval")
LIKELIHOOD = CensoredProcesses(PLAIN, KINDS)
RNG = np.random.default_rng(3)
Y = np.array([2.0, 4.0, 3.5, 1.0, -40.0, 60.0, 2.9, 9.0])
UPPER = np.array([2.0, 4.0, 3.5, 2.5, -40.0, 60.0, 2.9001, 40.0])
KNOWN = np.array(["none", "left", "right", "interval", "left", "right", "interval", "interval"])
F = RNG.normal(size=(len(Y), 2)) * [1.0, 0.4]
Z = pt.constant(np.array([-30.0, -3.0, -0.2, 0.0, 1.0, 5.0, 20.0]))
N = 30
X = np.sort(RNG.uniform(-2.0, 2.0, size=(N, 1)), axis=0)
VALUES = np.sin(2.0 * X[:, 0]) + np.exp(X[:, 0] / 2.0 - 1.0) * RNG.normal(size=N)
QUIET = {"keep": "summary", "progressbar": False}


def exposure():
    return np.stack([np.ones(len(Y)), UPPER, [CENSORING.index(kind) for kind in KNOWN]], axis=1)


def log_p(f, at=slice(None)):
    """By SciPy, f (..., 2), of rows."""
    m, s = np.moveaxis(f + CENTERS, -1, 0)
    low, high, sd = Y[at] - m, UPPER[at] - m, np.exp(s)
    low, high = low / sd, high / sd
    mirrored = low > 0.0
    ends = np.where(mirrored, -high, low), np.where(mirrored, -low, high)
    above = stats.norm.logcdf(ends[1])
    with np.errstate(divide="ignore"):
        within = above + np.log(-np.expm1(stats.norm.logcdf(ends[0]) - above))
    every = {
        "none": stats.norm.logpdf(low) - s,
        "left": stats.norm.logcdf(low),
        "right": stats.norm.logsf(low),
        "interval": within,
    }
    return np.choose([CENSORING.index(k) for k in KNOWN[at]], [every[k] for k in CENSORING])


def test_log_probabilities_are_those_of_scipy():
    f = pt.dmatrix()
    given = pt.constant(Y), {}, pt.constant(exposure())
    found = pytensor.function([f], LIKELIHOOD.logp(f, *given), mode=MODE)
    assert_allclose(found(F), log_p(F), rtol=1e-9)


@pytest.mark.parametrize("width", [1e-9, 1e-4, 3e-3, 0.05, 4.0, 1e9])
def test_intervals_of_any_width_have_the_probabilities_of_exact_arithmetic(width):
    """With slopes in the mean and in the log sd, by exact differences."""
    found = pytensor.function([], list(_within(Z, pt.constant(width))), mode=MODE)()
    with mpmath.workdps(60):
        for k, z in enumerate(Z.data):

            def log_probability(m, s, z=z):
                scale = mpmath.exp(-s)
                low, high = scale * (z - m), scale * (z + mpmath.mpf(width) - m)
                sides = (-high, -low) if low > 0 else (low, high)
                return mpmath.log(mpmath.ncdf(sides[1]) - mpmath.ncdf(sides[0]))

            exact = [log_probability(0, 0)]
            exact += [mpmath.diff(log_probability, (0, 0), n) for n in ((1, 0), (0, 1))]
            given = [float(v[k]) for v in found]
            assert_allclose(given, [float(v) for v in exact], rtol=1e-8, atol=1e-7)


def test_expectations_of_narrow_intervals_are_finite():
    """Also where the log sd is hardly known, so that an interval may be next to nothing."""
    end = np.array([1e-4, 0.01, 1e300])
    known = np.stack([np.ones(3), end, np.full(3, CENSORING.index("interval"))], axis=1)
    given = pt.zeros((3, 2)), pt.constant(np.full((3, 2), 6.0)), pt.zeros(3), {}, pt.constant(known)
    for found in pytensor.function([], list(LIKELIHOOD.expected_log(*given)), mode=MODE)():
        assert np.isfinite(found).all()


def test_expectations_are_integrals():
    """With slopes in means, and in variances."""
    sd = np.array([0.6, 0.3])
    mean, spread = pt.dmatrix(), pt.dmatrix()
    expected = LIKELIHOOD.expected_log(mean, spread, pt.constant(Y), {}, pt.constant(exposure()))
    found = pytensor.function([mean, spread], list(expected), mode=MODE)
    value, slope, W = found(F, sd + 0.0 * F)
    x, weights = np.polynomial.hermite_e.hermegauss(40)
    pairs = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1).reshape((-1, 1, 2))
    weights = np.outer(weights, weights).ravel() / weights.sum() ** 2

    def integral(mean, sd):
        return weights @ log_p(mean + sd * pairs)

    assert_allclose(value, integral(F, sd), rtol=1e-6)
    for c, step in enumerate(1e-4 * np.eye(2)):
        difference = (integral(F + step, sd) - integral(F - step, sd)) / 2e-4
        assert_allclose(slope[:, c], difference, rtol=1e-5, atol=1e-5)
        by_variance = (integral(F, sd + step) - integral(F, sd - step)) / 2e-4 / (2.0 * sd[c])
        assert_allclose(W[:, c], -2.0 * by_variance, rtol=1e-4, atol=1e-4)


def test_predictive_probabilities_are_integrals():
    """Where both processes are correlated."""
    root = np.array([[0.7, 0.0], [0.3, 0.5]])
    roots = pt.constant(np.broadcast_to(root, (len(Y), 2, 2)))
    given = pt.constant(Y), pt.constant(F), roots, {}, pt.constant(exposure())
    found = pytensor.function([], LIKELIHOOD.score(*given), mode=MODE)()
    x, weights = np.polynomial.hermite_e.hermegauss(80)
    pairs = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1).reshape((-1, 2)) @ root.T
    weights = np.outer(weights, weights).ravel() / weights.sum() ** 2
    near = np.array([1, 2, 3, 6, 7])  # the other bounds are e^-100, far from any node
    density = weights @ np.exp(log_p(F[near] + pairs[:, None], near))
    assert_allclose(found[near], np.log(density), rtol=1e-4)


def model(kinds, upper=None, **options):
    y = VALUES if upper is None else np.stack([VALUES, upper], axis=1)
    options = {"approximation": bx.Inducing(8, seed=1)} | options
    return bx.GP(X, y, likelihood="heteroscedastic_normal", censoring=kinds, **options)


def test_a_density_with_bounds_has_the_gradient_of_its_differences():
    kinds = np.array(["none"] * 3 + ["right", "left", "interval", "none"] * 6 + ["none"] * 3)
    upper = np.where(kinds == "interval", VALUES + 0.3, VALUES)
    density = Density(model(kinds, upper).objective, jacobian=True)
    height, x = density.value_and_slope(), density.unconstrain({}) + 0.1
    steps = 1e-4 * np.eye(len(x))
    differences = [(height(x + step)[0] - height(x - step)[0]) / 2e-4 for step in steps]
    assert_allclose(height(x)[1], differences, rtol=1e-5, atol=1e-5)


def test_a_bound_that_says_nothing_is_no_row():
    kinds = np.array(["none"] * (N - 5) + ["left"] * 5)
    points = {"approximation": bx.Inducing(X[::4]), "scale": False}
    bounded = bx.GP(
        X,
        np.where(kinds == "left", 1e6, VALUES),
        likelihood="heteroscedastic_normal",
        censoring=kinds,
        **points,
    )
    fewer = bx.GP(X[:-5], VALUES[:-5], likelihood="heteroscedastic_normal", **points)
    theta = {"lengthscale": [[0.8], [1.7]], "amplitude": [1.0, 0.6]}
    found = [bx.predictions(one, theta, X[::7], **QUIET) for one in (bounded, fewer)]
    for name in ("f_mean", "f_sd"):
        assert_allclose(found[0][name], found[1][name], atol=1e-6)


def test_a_narrow_interval_is_its_width_times_the_density():
    """Log densities differ by the log of the width, whatever the hyperparameters are."""
    h, kinds = 1e-4, np.array(["none"] * (N - 1) + ["interval"])
    low = np.where(kinds == "interval", VALUES - h / 2.0, VALUES)
    options = {"likelihood": "heteroscedastic_normal", "approximation": bx.Inducing(X[::4])}
    options |= {"scale": False}
    y = np.stack([low, low + h * (kinds == "interval")], axis=1)
    models = bx.GP(X, y, censoring=kinds, **options), bx.GP(X, VALUES, **options)
    heights = [Density(one.objective, jacobian=True).value_and_slope() for one in models]
    for x in 0.2 * np.random.default_rng(1).normal(size=(2, 4)):
        (narrow, its_slope), (exact, slope) = (height(x) for height in heights)
        assert_allclose(narrow - exact, np.log(h), atol=1e-5)
        assert_allclose(its_slope, slope, atol=1e-4)


def test_laplace_is_refused_with_its_alternatives():
    kinds = ["left"] + ["none"] * (N - 1)
    exact = model(kinds, approximation=None)
    theta = {"lengthscale": [[0.8], [1.7]], "amplitude": [1.0, 0.6]}
    with pytest.raises(ValueError, match=r"no bounds of y. Pass approximation=bx.Inducing"):
        bx.predictions(exact, theta, X[:2], **QUIET)


def test_sampled_latent_values_have_the_density_of_bounds():
    """At the first point all of them are 0, so each y has the prior mean and sd."""
    kinds = np.array(["left", "right"] + ["none"] * (N - 2))
    bounded, plain = (model(kinds, approximation=None) for kinds in (kinds, None))
    assert [term.name for term in bounded.pymc.potentials] == ["y_censored"]
    points = [one.pymc.initial_point() for one in (bounded, plain)]
    pairs = zip((bounded, plain), points, strict=True)
    found = [one.pymc.compile_logp(mode=MODE)(point) for one, point in pairs]
    centers = [one.specification.observation.centers for one in (bounded, plain)]
    noises = [stats.norm(center, np.exp(log_sd)) for center, log_sd in centers]
    sides = noises[0].logcdf(VALUES[0]) + noises[0].logsf(VALUES[1])
    known = sides + noises[0].logpdf(VALUES[2:]).sum() - noises[1].logpdf(VALUES).sum()
    assert_allclose(found[0] - found[1], known, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of few draws
def test_sampled_functions_are_near_the_best_normals():
    kinds = np.array(["none"] * 3 + ["right", "left", "none"] * 8 + ["none"] * 3)
    amplitude = {"amplitude": np.array([1.0, 0.6])}
    options = {"likelihood": "heteroscedastic_normal", "censoring": kinds}
    exact = bx.GP(X, VALUES, **options, priors=amplitude)
    sampling = {"draws": 500, "tune": 500, "chains": 2, "seed": 1, "progressbar": False}
    idata = exact.fit("nuts", latent="sample", **sampling)
    theta = {"lengthscale": idata["posterior"]["lengthscale"].mean(["chain", "draw"]).values}
    best = bx.GP(X, VALUES, **options, approximation=bx.Inducing(X))
    expected = bx.predictions(best, theta | amplitude, X[::6], **QUIET)
    found = bx.predictions(exact, idata, X[::6], **QUIET)
    apart = (found["f_mean"] - expected["f_mean"]) / expected["f_sd"]
    assert abs(apart).max() < 0.7
    assert abs(apart).mean() < 0.35
