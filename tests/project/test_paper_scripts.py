"""The mathematics that scripts of `models/` do themselves, against other roads to it."""

import importlib

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm, poisson, t as student_t

import bayes_gpx as bx


@pytest.fixture
def script():
    """Import a script by name."""
    return importlib.import_module


@pytest.fixture
def tracts(rng):
    """A standardised data set with structure, and hyperparameters."""
    X = pd.DataFrame(rng.standard_normal((30, 3)), columns=list("abc"))
    y = pd.Series(np.sin(X["a"]) + X["b"] * X["c"] + 0.1 * rng.standard_normal(30), name="y")
    return X, y, {"lengthscale": 1.7, "amplitude": 1.3, "sigma": 0.4}


@pytest.mark.parametrize("frequency", [1.5, 2.0])
def test_true_attributions_are_path_integrals(script, frequency):
    t = np.array([0.0, 0.3, 4.0, 10.0])
    found = script("butler_figure1").true_attributions(frequency, t)
    slopes = {
        "x1": lambda u: np.cos(u) * np.sin(frequency * u),
        "x2": lambda u: frequency * np.sin(u) * np.cos(frequency * u),
    }
    for feature, slope in slopes.items():
        expected = [quad(slope, 0, end, epsabs=1e-12)[0] for end in t]
        assert_allclose(found[feature], expected, atol=1e-10)


def test_mixture_over_seeds_has_the_moments_of_its_density(script, rng):
    seeds = pd.DataFrame(
        {"ridge": "any", "M": 10, "mean": rng.normal(0.7, 0.3, 7), "sd": rng.uniform(0.05, 0.4, 7)}
    )

    def pdf(x):
        return norm.pdf(x, seeds["mean"], seeds["sd"]).mean()

    mean = quad(lambda x: x * pdf(x), -5, 5, limit=200)[0]
    square = quad(lambda x: (x - mean) ** 2 * pdf(x), -5, 5, limit=200)[0]
    found = script("butler_figure5").compared(seeds.set_index(["ridge", "M"]), 0.5, 0.1).iloc[0]
    assert_allclose(found[["mixture_mean", "mixture_sd"]].tolist(), [mean, np.sqrt(square)])
    assert_allclose(found["rms_error"] ** 2, found["sd_of_means"] ** 2 + (mean - 0.5) ** 2)


def test_needed_partitions_are_enough(script, tracts):
    """Places are tried one by one, here."""
    X, y, theta = tracts
    figure, wine = script("butler_figure4"), script("butler_wine")
    model, zero = bx.GP(X, y, scale=False), pd.Series(0.0, X.columns)
    found = figure.needed(model, theta, X, zero, 2, wine.right(4)).set_index("fraction")
    options = {"baseline": zero, "keep": "summary", "progressbar": False}
    needed = []
    for k in (0, 15):
        given = model, theta, X.iloc[[k]]
        exact = bx.attributions(*given, **options)["attribution_mean"]
        far = [0]
        for L in 2 ** np.arange(3):
            own = script("script").summed(*given, method="right", steps=int(L), **options)
            error = abs(own["attribution_mean"] - exact).max().item()
            far.append(L if error > 0.01 * y.std(ddof=0) else 0)
        needed.append(max(2 * max(far), 1))
    expected = [np.median(needed), np.mean(needed), max(needed)]
    assert_allclose(found.loc[1.0, ["median", "mean", "largest"]], expected)
    assert found["mean"].is_monotonic_increasing and found["mean"].iloc[0] < found["mean"].iloc[-1]


def test_ranks_of_errors(script):
    figure = script("butler_figure6")
    found = pd.DataFrame(
        {"obs": 1, "feature": list("abc"), "mean": [1.1, 2.4, -3.3], "exact_mean": [1, 2, -3.0]}
    )
    ranks = figure.ranked(found, pd.Series([1.0, 3.0, 2.0], list("abc")))
    ranks = ranks.set_index(["of", "with"])["value"]
    # Errors 0.1, 0.4 and 0.3, of sizes 1, 2 and 3.
    assert_allclose(ranks["relevance", "absolute error"], 1)
    assert_allclose(ranks["size", "absolute error"], 0.5)


def test_path_gradients_are_averages_of_derivatives(script, tracts):
    boston, (X, y, theta) = script("seitz_boston"), tracts
    model = bx.GP(X, y, scale=False, ard=False)
    found = boston.explained(model, theta)
    slopes = [
        bx.derivatives(model, theta, X * g / 10, keep="summary", progressbar=False)
        for g in range(1, 11)
    ]
    along = np.mean([own["derivative_mean"].values for own in slopes], axis=0)
    table = boston.average(*found[boston.PATH])
    assert_allclose(table["mean"], along.mean(axis=0), rtol=1e-9)
    assert_allclose(table["size"], np.abs(along).mean(axis=0), rtol=1e-9)
    table = boston.average(*found[boston.INTEGRATED])
    assert_allclose(table["mean"], (along * X.values).mean(axis=0), rtol=1e-9)
    table = boston.average(*found[boston.LINEAR])
    last = slopes[-1]
    assert_allclose(table["mean"], (last["derivative_mean"].values * X.values).mean(axis=0))
    spread = (last["derivative_sd"].values * X.values) ** 2
    assert_allclose(table["variance"], spread.mean(axis=0))


def test_without_S_is_what_inducing_points_cannot_see(script, tracts):
    boston, (X, y, theta) = script("seitz_boston"), tracts
    U, x = X.values[:4], X.values[20]
    model = bx.GP(X, y, scale=False, ard=False, approximation=bx.Inducing(U))
    found = boston.explained(model, boston.without_S(theta))
    _, integrated = (variance.sel(obs=[20]) for variance in found[boston.INTEGRATED])
    gradients = boston.average(*(own.sel(obs=[20]) for own in found[boston.PATH]))
    gradients = gradients.set_index("feature")["variance"]
    length, size = theta["lengthscale"], theta["amplitude"] ** 2

    def k(a, b):
        apart = (a[:, None] - b[None]) / length
        return size * np.exp(-0.5 * (apart**2).sum(axis=-1)), apart

    path = np.arange(1, 11)[:, None] / 10 * x
    prior, apart = k(path, path)
    cross, to_points = k(path, U)
    for j, feature in enumerate(X):
        K_dd = prior * (1 - apart[..., j] ** 2) / length**2
        K_du = -cross * to_points[..., j] / length
        left = K_dd - K_du @ np.linalg.solve(k(U, U)[0], K_du.T)
        variance = integrated.sel(feature=feature).item()
        # What is left of the noise is of relative size KNOWN^2.
        assert_allclose(variance, x[j] ** 2 * left.mean(), rtol=1e-5)
        assert_allclose(gradients[feature], left.mean(), rtol=1e-5)


def test_climb_ends_at_a_maximum_of_the_evidence(script, tracts):
    X, y, _ = tracts
    found = script("butler").climb(X, y)

    def negative(theta):
        apart = (X.values[:, None] - X.values[None]) / theta["lengthscale"]
        K = theta["amplitude"] ** 2 * np.exp(-0.5 * (apart**2).sum(axis=-1))
        C = K + theta["sigma"] ** 2 * np.eye(len(X))
        return -multivariate_normal(np.zeros(len(X)), C, allow_singular=True).logpdf(y)

    theta = found.hyperparameters
    assert_allclose(found.negative_log_evidence, negative(theta), rtol=1e-8)
    for name, value in theta.items():
        for factor in (0.9, 1.1):
            for j in range(np.size(value)):
                moved = np.array(value, dtype=float)
                moved.flat[j] *= factor
                assert negative(theta | {name: moved}) > found.negative_log_evidence - 1e-6


def test_distinct_optima_are_close_and_differ(script):
    wpbc, Optimum = script("butler_figure2"), script("butler").Optimum
    found = wpbc.distinct([Optimum({}, value) for value in (5.0, 3.001, 3.0, 4.2, 9.0, 4.21)])
    assert [optimum.negative_log_evidence for optimum in found] == [3.0, 4.2]


def test_exact_interval_of_one_normal(script, tracts):
    X, y, theta = tracts
    model = bx.GP(X, y, scale=False, ard=False)
    options = {"obs": [3, 5], "progressbar": False}
    exact = script("script").attribution_table(
        bx.attributions(model, theta, keep="summary", **options), fit="exact"
    )
    drawn = script("script").attribution_table(
        bx.attributions(model, theta, draws=20_000, seed=1, **options)
    )
    assert list(exact["obs"]) == [3, 3, 3, 5, 5, 5] and (exact["fit"] == "exact").all()
    # Monte Carlo error of a 5% quantile of 20,000 draws: 0.015 sd.
    for end in ("low", "high"):
        assert (np.abs(exact[end] - drawn[end]) / exact["sd"]).max() < 0.06


def test_peers_of_known_functions(script, rng):
    peers = script("peers")
    X = rng.normal(size=(40, 3))
    X[:, :2] -= X[:, :2].mean(axis=0)
    b = np.array([1.0, -2.0, 0.5])
    linear = peers.mean_predictions(lambda X: X @ b, X)
    assert_allclose(peers.pd_variation(linear, X), np.abs(b) * X.std(axis=0, ddof=1))

    def product(X):
        return 3 * X[:, 0] * X[:, 1] + np.sin(X[:, 2])

    depend = peers.mean_predictions(product, X)
    found = peers.h_statistics(depend, X)
    assert_allclose(found[0, 1], 1.0, rtol=1e-9)
    assert_allclose([found[0, 2], found[1, 2]], 0.0, atol=1e-7)
    found = peers.pd_interactions(depend, X)
    grid = np.quantile(X, np.arange(0.1, 0.95, 0.1), axis=0)
    # The sd over one feature is 3 |other| sd(own).
    own, size = grid.std(axis=0, ddof=1), np.abs(grid).std(axis=0, ddof=1)
    expected = 1.5 * (own[0] * size[1] + own[1] * size[0])
    assert_allclose(found[0, 1], expected, rtol=1e-9)
    assert_allclose([found[0, 2], found[1, 2]], 0.0, atol=1e-12)


def test_dependence_of_products_is_that_of_predictions(script, rng):
    peers = script("peers")
    X, c, lengthscale = (
        rng.normal(size=(30, 4)),
        rng.normal(size=30),
        np.array([0.7, 1.0, 2.0, 1e9]),
    )

    def predict(Z):
        apart = (Z[:, None] - X) / lengthscale
        return np.exp(-0.5 * (apart**2).sum(axis=2)) @ c

    fast, slow = peers.product_dependence(X, lengthscale, c), peers.mean_predictions(predict, X)
    for columns in ([0], [2], [0, 1], [1, 3]):
        places = rng.normal(size=(9, len(columns)))
        assert_allclose(fast(columns, places), slow(columns, places), rtol=1e-10, atol=1e-12)
    # The last column is switched off: what is left of it is round-off.
    expected = peers.h_statistics(slow, X)
    found = peers.h_statistics(fast, X)
    assert_allclose([found[p] for p in found], [expected[p] for p in found], atol=1e-7)
    nothing = np.where(np.arange(4) < 1, lengthscale, 1e9)
    assert peers.h_statistics(peers.product_dependence(X, nothing, c), X)[2, 3] == 0


def test_rate_is_a_share_of_divergences(script, rng):
    """By draws of the other coefficients, and densities of their own and given that one is 0."""
    X, root = rng.normal(size=(9, 3)), 0.4 * rng.normal(size=(9, 9))
    mean, covariance = rng.normal(size=9), root @ root.T
    solved = np.linalg.solve(X.T @ X, X.T)
    b, cov = solved @ mean, solved @ covariance @ solved.T
    found = []
    for j in range(3):
        others = [k for k in range(3) if k != j]
        precision = np.linalg.inv(cov)[np.ix_(others, others)]
        pull = np.linalg.inv(cov)[others, j] * b[j]
        given = multivariate_normal(
            b[others] + np.linalg.solve(precision, pull), np.linalg.inv(precision)
        )
        own = multivariate_normal(b[others], cov[np.ix_(others, others)])
        drawn = own.rvs(200_000, random_state=j)
        found.append((own.logpdf(drawn) - given.logpdf(drawn)).mean())
    shares = script("peers").rate(X, mean, covariance)
    assert_allclose(shares, np.array(found) / sum(found), atol=0.01)


def test_predictive_density_of_counts(script, rng):
    bike = script("kl_figure5")
    X = pd.DataFrame(rng.normal(size=(25, 2)), columns=["a", "b"])
    y = pd.Series(rng.poisson(np.exp(1 + X["a"])), name="y")
    model = bx.GP(X, y, likelihood="poisson")
    theta = {"lengthscale": [1.0, 2.0], "amplitude": 1.0}
    found = bike.mlpd(model, theta, X[:3], y[:3])
    moments = bx.predictions(model, theta, X[:3], on="latent", keep="summary", progressbar=False)
    logs = []
    for mean, sd, k in zip(moments["f_mean"].values, moments["f_sd"].values, y[:3], strict=True):

        def joint(f, mean=mean, sd=sd, k=k):
            return poisson.pmf(k, np.exp(f)) * norm.pdf(f, mean, sd)

        logs.append(np.log(quad(joint, mean - 8 * sd, mean + 8 * sd, epsabs=1e-14)[0]))
    assert_allclose(found, np.mean(logs), rtol=1e-7)


def test_dependence_of_a_log_rate(script, rng):
    X = pd.DataFrame(3 * rng.normal(size=(20, 3)), columns=list("abc"))
    model = bx.GP(X, rng.poisson(np.exp(1 + np.sin(X["a"]))), likelihood="poisson")
    values = {
        "lengthscale": (("chain", "draw", "feature"), [[[1.0, 2.0, 1.5]]]),
        "amplitude": (("chain", "draw"), [[1.2]]),
    }
    draws = xr.Dataset(values, {"chain": [0], "draw": [0], "feature": list("abc")})
    idata = xr.DataTree.from_dict({"posterior": draws})

    def predict(Z):
        options = {"on": "latent", "keep": "summary", "progressbar": False}
        return bx.predictions(model, idata, Z, **options)["f_mean"].values

    slow = script("peers").mean_predictions(predict, X.values)
    fast = script("kl_figure5").dependence(model, idata)
    places = rng.normal(size=(6, 2))
    apart = fast([0, 2], places) - slow([0, 2], places)
    assert_allclose(apart, apart[0], atol=1e-6)  # a constant
    assert np.ptp(fast([0, 2], places)) > 0.1


def test_terms_of_the_simulated_model(script, rng):
    """Their variances by quadrature, and which pairs of variables bend together."""
    simulation = script("kl_simulation")
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    first, second = (grid.ravel() for grid in np.meshgrid(0.4 * nodes, 0.4 * nodes))
    both = np.outer(weights, weights).ravel()
    pairs = {0: (0, 5), 1: (3, 10), 2: (9, 11)}
    for k in range(11):
        i, j = pairs[k - 8] if k >= 8 else (k, 8)
        X = np.zeros((len(first), 12))
        X[:, i], X[:, j] = first, second
        term = simulation.terms(X)[:, k]
        assert_allclose([both @ term, both @ term**2], [0, 1], atol=1e-10)
    x, step = 0.4 * rng.normal(size=12), 1e-3 * np.eye(12)

    def mean(move):
        return simulation.terms((x + move)[None]).sum()

    for i, j in simulation.PAIRS:
        bend = (mean(step[i] + step[j]) - mean(step[i]) - mean(step[j]) + mean(0)) / 1e-6
        assert_allclose(bend, 1 / 0.16 if (i, j) in pairs.values() else 0, atol=1e-6)


def test_simulated_rows_are_standardised_and_noisy(script):
    simulation = script("kl_simulation")
    rows = simulation.simulate(20_000, 3)
    assert_allclose(
        [rows.X.mean(), rows.y.mean(), rows.X.std(), rows.y.std()], [0, 0, 1, 1], atol=1e-12
    )
    # Eleven terms of variance 1, and noise: what the terms leave of y.
    left = np.linalg.lstsq(simulation.terms(0.4 * rows.X), rows.y)[1] / 20_000
    assert_allclose(left, 0.36 / 11.36, rtol=0.05)


def test_relevance_of_the_measures(script):
    """RATE and KL-diff of a fit are those of its posterior, by another road."""
    simulation, peers = script("kl_simulation"), script("peers")
    data = simulation.simulate(20, 1)
    theta = {"lengthscale": np.full(12, 4.0), "amplitude": 1.0, "sigma": 0.3}
    model = bx.GP(data.X, data.y, scale=False)
    found = simulation.of_variables(data, model, theta)
    f = bx.predictions(model, theta, draws=20_000, joint=True, seed=0, progressbar=False)[
        "f"
    ].values.reshape((-1, 20))
    expected = peers.rate(data.X, f.mean(axis=0), np.cov(f.T))
    assert_allclose(found["RATE"], expected, atol=0.02)
    pairs = simulation.of_pairs(data, model, theta)

    def predict(X):
        options = {"keep": "summary", "progressbar": False}
        return bx.predictions(model, theta, X, **options)["f_mean"].values

    expected = peers.h_statistics(peers.mean_predictions(predict, data.X), data.X)
    assert_allclose(pairs["H-statistic"], list(expected.values()), rtol=1e-6)


def test_terms_of_the_linear_model(script, rng):
    """Second derivatives of the divergence of Student's t; normal ones in the package."""
    figure = script("kl_figure1")
    X, y = figure.simulate(4)
    beta, inverse, s2 = figure.fitted(X, y)
    place = np.array([1.3, -0.4])

    def predictive(x):
        return student_t(8, x @ beta, np.sqrt(s2 * (1 + x @ inverse @ x)))

    here = predictive(place)
    grid = here.mean() + here.std() * np.sinh(np.linspace(-9, 9, 20_001))
    for d in (0, 1):
        step = 1e-3 * np.eye(2)[d]
        there = (predictive(place + sign * step).logpdf(grid) for sign in (1, -1))
        apart = [np.trapezoid(here.pdf(grid) * (here.logpdf(grid) - t), grid) for t in there]
        found = np.hypot(*figure.terms(X, y, place[None], d)).item()
        assert_allclose(found, np.sqrt(sum(apart)) / 1e-3, rtol=1e-4)
        variance, change = s2 * (1 + place @ inverse @ place), 2 * s2 * (inverse @ place)[d]
        normal = np.sqrt(beta[d] ** 2 / variance + change**2 / (2 * variance**2))
        assert_allclose(figure.package(X, y, place[None])[0, d], normal, rtol=1e-5)


@pytest.mark.data
def test_the_paper_optimum_of_taipei(script):
    taipei, butler = script("butler_figure3"), script("butler")
    data = bx.datasets.load("taipei")
    order = butler.permuted(len(data.y))
    X, y = script("script").z_scores(data.X).iloc[order], data.y.iloc[order]
    assert X.index[-taipei.HELD_OUT] == 261
    found = butler.climb(X[: -taipei.HELD_OUT], y[: -taipei.HELD_OUT])
    evidence, *lengthscales, off, amplitude, sigma = taipei.STATED.values()
    assert_allclose(found.negative_log_evidence, evidence, atol=0.005)
    theta = found.hyperparameters
    assert_allclose(theta["lengthscale"][:5], lengthscales, rtol=2e-3)
    assert theta["lengthscale"][5] > butler.OFF and off == np.inf
    assert_allclose([theta["amplitude"], theta["sigma"]], [amplitude, sigma], rtol=1e-3)


@pytest.mark.data
def test_the_best_optimum_of_wpbc(script):
    data = bx.datasets.load("wpbc")
    X, y = script("script").z_scores(data.X).iloc[1:], data.y.iloc[1:]
    found = script("butler").climb(X, y, reach=30, signal=3)
    assert_allclose(found.negative_log_evidence, 732.55, atol=0.005)


def test_scores_and_the_most_wrong_of_known_probabilities(script):
    cancer = script("gpc_breast_cancer")
    p, second = np.array([0.9, 0.2, 0.7, 0.4]), np.array([True, True, False, False])
    found = cancer.score(p, second)
    assert_allclose(found["accuracy"], 0.5)
    expected = np.log([0.9, 0.2, 0.3, 0.6]).mean()
    assert_allclose(found["log_predictive_density"], expected)
    assert_allclose(found["brier"], np.mean([0.01, 0.64, 0.49, 0.16]))
    probability = xr.DataArray(p, {"obs": list("abcd")}, ["obs"])
    assert cancer.most_wrong(probability, second) == "b"


def test_days_differ_in_the_hour_and_the_kind_of_day_alone(script):
    X = pd.DataFrame({"hr": [1.0, 5.0], "weekday": [2, 4], "workingday": [1, 0], "hum": [0.2, 0.4]})
    days = script("gp_bike_poisson").through_the_day(X)
    assert list(days["hr"][:24]) == list(range(24)) and len(days) == 48
    assert (days["hum"] == X["hum"].mean()).all()
    assert set(zip(days["weekday"], days["workingday"], strict=True)) == {(3, 1), (0, 0)}


def test_derivatives_of_softmax(script, rng):
    given = script("seitz_equation39").softmax_derivatives
    f, step = rng.normal(size=(4, 3)), 1e-4
    found = given(f)
    assert_allclose(found[0].sum(axis=-1), 1)
    for i in range(3):
        up, down = (given(f + sign * step * np.eye(3)[i]) for sign in (1, -1))
        for order in (0, 1):
            slope = (up[order] - down[order]) / (2 * step)
            assert_allclose(found[order + 1][..., i], slope, atol=1e-8)
        assert_allclose(found[3][..., i], (up[2] - down[2])[..., i] / (2 * step), atol=1e-8)


def test_expected_gradients_of_softmax(script, rng):
    """By draws; and the expansion's error is of second order in the posterior's covariance."""
    equation = script("seitz_equation39")
    mean, slopes = rng.normal(size=(2, 3)), rng.normal(size=(2, 1, 3))
    variance, covariance = np.full((2, 3), 0.5), 0.3 * rng.normal(size=(2, 1, 3))
    exact = equation.exactly(mean, variance, slopes, covariance)
    noise = rng.normal(size=(100_000, 2, 3))
    f, slope = mean + np.sqrt(0.5) * noise, slopes[:, 0] + covariance[:, 0] / np.sqrt(0.5) * noise
    gradients = np.einsum("mncj,mnj->mnc", equation.softmax_derivatives(f)[1], slope)
    error = gradients.std(axis=0) / np.sqrt(len(gradients))
    assert (np.abs(gradients.mean(axis=0) - exact[:, 0]) < 4.5 * error).all()
    errors = []
    for size in (1e-2, 1e-3):
        given = mean, size * variance, slopes, size * covariance
        errors.append(np.abs(equation.expanded(*given) - equation.exactly(*given)).max())
    assert 50 < errors[0] / errors[1] < 200


def test_expected_gradients_of_two_labels_are_the_packages(script, rng):
    equation = script("seitz_equation39")
    X = pd.DataFrame(rng.normal(size=(15, 2)), columns=["a", "b"])
    model = bx.GP(X, X["a"] > 0.3, likelihood="bernoulli", scale=False)
    theta = {"lengthscale": [1.0, 2.0], "amplitude": 2.0}
    exact = equation.exactly(*equation.moments(model, theta))
    own = bx.derivatives(model, theta, keep="summary", progressbar=False)["derivative_mean"]
    assert_allclose(exact[..., 0], own.transpose("obs", "feature").values, atol=1e-6)
    assert_allclose(exact[..., 1], -exact[..., 0])


def test_what_speaks_for_one_label_speaks_against_the_other(script):
    mnist = script("seitz_mnist")
    own = xr.DataArray(np.arange(-2.0, 4.0).reshape((2, 3)), dims=("obs", "feature"))
    found = xr.Dataset({"attribution_mean": own}, attrs={"labels": ["one", "zero"]})
    assert_allclose(mnist.of_one(found, "zero", ("one", "zero")), own)
    assert_allclose(mnist.of_one(found, "one", ("one", "zero")), -own)
    image = np.zeros((28, 28))
    image[10:18, 10:18] = 1
    image[0, 0] = 64
    assert mnist.middle(image.ravel()) == 0.5
