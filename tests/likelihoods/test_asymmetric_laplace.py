"""Quantile regression: closed forms, posteriors and optima against independent numbers."""

import numpy as np
import pandas as pd
import pytensor
import pytensor.tensor as pt
import pytest
from mpmath import mp, mpf, quad
from numpy.testing import assert_allclose
from scipy import optimize, stats

import bayes_gpx as bx
from bayes_gpx.likelihoods import asymmetric_laplace
from bayes_gpx.likelihoods.rows import Weighted
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.reporting.page import number
from bayes_gpx.reporting.results import Findings
from bayes_gpx.reporting.sections import summary
from bayes_gpx.testing import check_likelihood

QUIET = {"progressbar": False}


def check_loss(e, quantile):
    return np.where(e > 0, quantile * e, (quantile - 1) * e).sum()


@pytest.mark.parametrize("quantile", [0.3, 0.95])
def test_the_density_is_scipys_with_its_moments(quantile):
    likelihood, sigma = asymmetric_laplace(quantile=quantile), 0.7
    kappa = np.sqrt(quantile / (1 - quantile))
    exact = stats.laplace_asymmetric(kappa, 0.4, sigma / np.sqrt(quantile * (1 - quantile)))
    y = np.array([-30.0, -0.5, 0.4, 0.6, 9.0])
    f, theta = pt.as_tensor(np.full(5, 0.4)), {"sigma": pt.as_tensor(np.float64(sigma))}
    found = [
        likelihood.logp(f, pt.as_tensor(y), theta),
        likelihood.cumulative(f, pt.as_tensor(y), theta),
    ]
    logp, below = pytensor.function([], found, mode=MODE)()
    assert_allclose(logp, exact.logpdf(y), rtol=1e-12)
    assert_allclose(below, exact.cdf(y), rtol=1e-12)
    assert_allclose(exact.cdf(0.4), quantile)
    assert_allclose(0.4 + likelihood.shift({"sigma": sigma}), exact.mean())
    assert_allclose(likelihood.variance(0.0, {"sigma": sigma}), exact.var())


def test_the_check_passes_for_a_quantile_far_out():
    check_likelihood(asymmetric_laplace(quantile=0.9), (0.3, -2.0))


@pytest.mark.parametrize("quantile", [0.5, 0.9])
def test_moments_given_y_are_integrals_however_narrow(quantile):
    """From priors that the response barely moves to ones that its kink cuts in two."""
    cases = [(0.1, 0.0, 1.0, 0.5), (3.0, 0.0, 1e-4, 1.0), (-6.0, 0.5, 4.0, 0.01)]
    cases += [(2.0, -1.0, 100.0, 0.3), (50.0, 0.0, 1.0, 0.02), (-0.2, -0.2, 1e4, 1e-3)]
    y, mean, variance, sigma = np.array(cases).T
    columns = [pt.dvector() for _ in range(4)]
    likelihood, theta = asymmetric_laplace(quantile=quantile), {"sigma": columns[3]}
    outputs = [
        likelihood.log_predictive(*columns[:3], theta),
        *likelihood.posterior_moments(*columns[:3], theta),
        likelihood.cumulative_predictive(*columns[:3], theta),
    ]
    found = pytensor.function(columns, outputs, mode=MODE)(y, mean, variance, sigma)
    for k, case in enumerate(cases):
        assert_allclose([v[k] for v in found], integrals(quantile, *case), rtol=1e-9)


def integrals(quantile, y, mean, variance, sigma):
    """Log density and distribution function of y, mean and variance of f given y, in 40 digits."""
    with mp.workdps(40):
        tau, y, mean, variance, s = (mpf(float(v)) for v in (quantile, y, mean, variance, sigma))
        sd = mp.sqrt(variance)

        def height(f):
            rate = tau if f < y else tau - 1
            return -rate * (y - f) / s - (f - mean) ** 2 / (2 * variance)

        def below(f):
            left = tau * mp.exp((1 - tau) * (y - f) / s)
            return left if f > y else 1 - (1 - tau) * mp.exp(-tau * (y - f) / s)

        # The mass is around a center that the rate shifts, or at the kink.
        places = {y}
        for at in (mean, mean + variance * tau / s, mean - variance * (1 - tau) / s):
            places |= {at + k * sd for k in range(-12, 13, 2)}
        for width in (s / tau, s / (1 - tau)):
            places |= {y + k * width for k in (-60, -12, -3, -1, 1, 3, 12, 60)}
        places = sorted(places)
        top = max(map(height, places))  # because `quad` ends at an absolute error

        def integral(h):
            return quad(lambda f: h(f) * mp.exp(height(f) - top), places)

        total = integral(lambda f: 1)
        center = integral(lambda f: f) / total
        spread = integral(lambda f: (f - center) ** 2) / total
        share = quad(lambda f: below(f) * mp.npdf(f, mean, sd), places)
        factor = mp.log(tau * (1 - tau) / s) - mp.log(2 * mp.pi * variance) / 2
        return [float(v) for v in (mp.log(total) + top + factor, center, spread, share)]


def test_a_weighted_density_is_one_of_a_smaller_scale():
    """p^2 is another asymmetric Laplace density, of half the scale, times a constant."""
    y, mean, variance = (np.array(v) for v in ([0.3, -2.0, 1.0], [0.0, 0.5, 1.0], [1.0, 0.2, 3.0]))
    given = [pt.as_tensor(v) for v in (y, mean, variance)]
    likelihood, exposure = asymmetric_laplace(quantile=0.7), np.tile([1.0, 2.0], (3, 1))
    own, half = ({"sigma": pt.as_tensor(np.float64(v))} for v in (0.4, 0.2))
    twice = Weighted(likelihood)
    found = [
        twice.log_predictive(*given, own, pt.as_tensor(exposure)),
        *twice.posterior_moments(*given, own, pt.as_tensor(exposure)),
    ]
    expected = [
        likelihood.log_predictive(*given, half),
        *likelihood.posterior_moments(*given, half),
    ]
    *found, density, mean, variance = pytensor.function([], [*found, *expected], mode=MODE)()
    constant = 2.0 * np.log(0.3 * 0.7 / 0.4) - np.log(0.3 * 0.7 / 0.2)
    assert_allclose(found, [density + constant, mean, variance], rtol=1e-8)


def test_the_posterior_is_that_of_random_functions():
    """Expectation propagation's moments are those of importance sampling, to some percent of sd."""
    rng = np.random.default_rng(4)
    X, theta = np.array([[-1.0], [-0.2], [0.1], [0.9]]), {"sigma": 0.4}
    y, new = np.array([0.3, -0.8, 0.2, 1.5]), np.array([[0.0], [0.5]])
    likelihood = asymmetric_laplace(quantile=0.7)
    model = bx.GP(X, y, likelihood=likelihood, scale=False)
    fixed = {"lengthscale": [1.0], "amplitude": 1.3, **theta}
    found = bx.predictions(model, fixed, new, keep="summary", **QUIET)
    points = np.vstack([X, new])
    K = 1.69 * np.exp(-0.5 * (points - points.T) ** 2) + 1e-12 * np.eye(6)
    f = rng.normal(size=(400_000, 6)) @ np.linalg.cholesky(K).T
    e = y - f[:, :4]
    logs = -np.where(e > 0, 0.7 * e, -0.3 * e).sum(axis=1) / 0.4
    weights = np.exp(logs - logs.max())
    evidence = np.log(weights.mean()) + logs.max() + 4 * np.log(0.7 * 0.3 / 0.4)
    weights /= weights.sum()
    mean = weights @ f[:, 4:]
    sd = np.sqrt(weights @ (f[:, 4:] - mean) ** 2)
    assert_allclose(found["f_mean"], mean, atol=0.03 * sd.max())
    assert_allclose(found["f_sd"], sd, rtol=0.03)
    said = bx.log_likelihood(model, fixed, **QUIET)["log_marginal_likelihood"]
    assert_allclose(said, evidence, atol=0.02)


def test_a_straight_line_is_that_of_the_linear_program():
    """With noise of a small scale, the posterior mean has the least check loss to 1e-4 of it."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2))
    y = X @ [1.0, -0.5] + np.exp(0.4 * X[:, 0]) * rng.normal(size=60)
    for quantile in (0.5, 0.8):
        columns = np.hstack([X, -X, np.eye(60), -np.eye(60)])
        costs = np.concatenate([np.zeros(4), np.full(60, quantile), np.full(60, 1 - quantile)])
        best = optimize.linprog(costs, A_eq=columns, b_eq=y, bounds=(0, None)).fun
        likelihood = asymmetric_laplace(quantile=quantile)
        model = bx.GP(X, y, kernel="linear", likelihood=likelihood, scale=False)
        found = bx.predictions(model, {"amplitude": 100.0, "sigma": 1e-3}, keep="summary", **QUIET)
        loss = check_loss(y - found["f_mean"].values, quantile)
        assert best <= loss <= best * (1 + 1e-4)


def test_a_quantile_is_kept_in_files_and_explained_in_units_of_y(tmp_path):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(30, 1))
    y = 100 + 5 * X[:, 0] + rng.gumbel(size=30)
    model = bx.GP(X, y, likelihood=asymmetric_laplace(quantile=0.8))
    theta = {"lengthscale": [2.0], "amplitude": 1.0, "sigma": 0.1}
    options = {"keep": "summary", **QUIET}
    found = bx.predictions(model, theta, **options)
    # The mean of y is that of random y around f, and f its quantile.
    unit = y.std() * 0.1
    assert_allclose(found["y_mean"] - found["f_mean"], unit * (1 / 0.8 - 1 / 0.2), rtol=1e-9)
    median = bx.predictions(model, theta, of="quantile", at=0.5, **options)
    assert_allclose(found["f_mean"] - median["quantile_mean"], unit * np.log(1.6) / 0.2, rtol=1e-6)
    own = bx.predictions(model, theta, of="quantile", at=0.8, **options)
    assert_allclose(own["quantile_mean"], found["f_mean"], rtol=1e-9)
    with pytest.raises(ValueError, match=r"of is 'hazard', which .*quantile=0.8"):
        model.of_event("hazard", 100.0)
    bx.save(model, model.fit("map", **QUIET), tmp_path / "m.nc")
    loaded, _ = bx.load(tmp_path / "m.nc")
    assert loaded.specification.likelihood == asymmetric_laplace(quantile=0.8)
    expected = bx.predictions(loaded, theta, **options)
    assert_allclose(found["f_mean"], expected["f_mean"], rtol=1e-12)


def test_rows_left_out_have_the_mean_of_their_draws():
    """Of y, not of its quantile: the noise has another mean."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(12, 1))
    model = bx.GP(X, X[:, 0] + rng.gumbel(size=12), likelihood=asymmetric_laplace(quantile=0.8))
    theta = {"lengthscale": [1.5], "amplitude": 1.0, "sigma": 0.1}
    found = bx.loo_predictions(model, theta, seed=1, **QUIET)
    drawn = found["y"].stack(sample=("chain", "draw"))
    error = found["y_sd"] / np.sqrt(drawn.sizes["sample"])
    assert (np.abs(drawn.mean("sample") - found["y_mean"]) < 5 * error).all()
    assert_allclose(drawn.std("sample"), found["y_sd"], rtol=0.2)


@pytest.mark.parametrize("wrong", [90.0, "0.9"])
def test_a_quantile_is_a_probability(wrong):
    with pytest.raises(ValueError, match="quantile is .*90?.*. Pass a number between 0 and 1"):
        asymmetric_laplace(quantile=wrong)


def test_rounding_bounds_the_sd_of_noise():
    """Of numbers rounded to 1 it is at least that of rounding, which is far above `sigma`."""
    X = np.linspace(0.0, 6.0, 120)[:, None]
    y = np.round(20 + 2 * np.sin(X[:, 0]) + 3 * np.random.default_rng(0).normal(size=120))
    likelihood = asymmetric_laplace(quantile=0.98)
    model = bx.GP(X, y, likelihood=likelihood)
    idata = model.fit("map", **QUIET)
    assert "examination" not in idata.attrs or "rounding" not in idata.attrs["examination"]
    sigma = idata["posterior"]["sigma"].item() * y.std()
    assert np.sqrt(likelihood.variance(0.0, {"sigma": sigma})) > np.sqrt(1 / 12)
    assert sigma < 0.2  # of the scale of the check loss, where rounding has an sd of 0.29


def test_results_and_reports_are_of_the_quantile(rng):
    X = pd.DataFrame({"a": rng.uniform(0.0, 3.0, 30)})
    cost = pd.Series(X["a"] + rng.gamma(2.0, 1.0, 30), name="cost")
    model = bx.GP(X, cost, likelihood=bx.likelihoods.asymmetric_laplace(quantile=0.8))
    theta = {"lengthscale": [2.0], "amplitude": 1.0, "sigma": 0.3}
    found = bx.predictions(model, theta, seed=1, progressbar=False)
    first = f"Observation 0: {number(found['f_mean'].values[0])} ["
    assert "quantile(x), the value of the model's function" in bx.describe(found)
    assert first in bx.describe(found)
    plotted = bx.plot_predictions(found, cost, backend="matplotlib").viz["figure"].item()
    assert "quantile dark" in plotted.get_suptitle()
    # Of a function that is known, the quantile is the same with a row and without it.
    known = theta | {"amplitude": 1e-6}
    level = bx.predictions(model, known, **QUIET)["f_mean"].values[0]
    for X_new, y_new in ((None, None), (X[:9] + 0.1, cost[:9] + 1.0)):
        options = {"obs": None, "baseline": "mean", "seed": 1, "y_new": y_new}
        (said,) = summary._error(Findings(model, known, X_new, None, **options))
        share = ((cost if y_new is None else y_new) < level).mean()
        assert 0.2 < share < 0.95
        rows = "left-out" if y_new is None else "held-out"
        expected = f"of the 0.8 quantile: {share:.0%} of the {rows} observations lie below it."
        assert said.text.endswith(expected)
