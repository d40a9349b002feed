"""Averages over rows by `by=`, against dense covariances of all rows written anew."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx
import oracle

QUIET = {"progressbar": False}
SUMMARY = QUIET | {"keep": "summary"}
THETA = {"lengthscale": [1.1, 0.7], "amplitude": 1.2, "sigma": 0.3}
N = 18
rng = np.random.default_rng(6)
X = pd.DataFrame({"dose": rng.normal(size=N), "age": rng.normal(size=N)})
y = np.sin(2 * X["dose"]) * X["age"] + 0.2 * rng.normal(size=N)
GROUPS = np.resize(["north", "south", "west"], N)
WEIGHTS = np.stack([(GROUPS == g) / (GROUPS == g).sum() for g in ("north", "south", "west")])


@pytest.fixture(scope="module")
def model():
    return bx.GP(X, y, scale=False)


def posterior(points):
    """Mean and covariance of f at points, by the covariance of all rows."""

    def kernel(a, b):
        return 1.2**2 * oracle.expquad(a, b, np.array([1.1, 0.7]))

    rows = X.to_numpy()
    noisy, cross = kernel(rows, rows) + 0.3**2 * np.eye(N), kernel(points, rows)
    mean = cross @ np.linalg.solve(noisy, y)
    return mean, kernel(points, points) - cross @ np.linalg.solve(noisy, cross.T)


def agrees(found, name, mean, cov, **tolerance):
    """Means and sds of groups, and the covariance of their joint draws."""
    assert_allclose(np.ravel(found[f"{name}_mean"]), mean, **tolerance)
    assert_allclose(np.ravel(found[f"{name}_sd"]), np.sqrt(np.diag(cov)), **tolerance)


def test_averages_of_f_are_those_of_the_dense_posterior(model):
    mean, cov = posterior(X.to_numpy())
    for by, weights in ((GROUPS, WEIGHTS), (True, np.full((1, N), 1 / N))):
        found = bx.predictions(model, THETA, by=by, on="latent", **SUMMARY)
        agrees(found, "f", weights @ mean, weights @ cov @ weights.T, rtol=1e-9)
    drawn = bx.predictions(model, THETA, by=GROUPS, on="latent", draws=4000, seed=1, **QUIET)
    apart = np.cov(drawn["f"].values[0].T)
    expected = WEIGHTS @ cov @ WEIGHTS.T
    assert_allclose(apart, expected, atol=0.1 * np.abs(expected).max())
    assert drawn["by"].values.tolist() == ["north", "south", "west"]
    assert_allclose(drawn["value"], WEIGHTS @ X.to_numpy())


def test_a_contrast_of_groups_is_a_frame_of_weights(model):
    mean, cov = posterior(X.to_numpy())
    contrast = pd.DataFrame({"north - south": WEIGHTS[0] - WEIGHTS[1]})
    found = bx.predictions(model, THETA, by=contrast, on="latent", **SUMMARY)
    w = contrast.to_numpy().T
    agrees(found, "f", w @ mean, w @ cov @ w.T, rtol=1e-8)


def test_average_slopes_are_limits_of_differences(model):
    """Central differences of f with a step of 1e-4, from one dense posterior."""
    step = 1e-4
    found = bx.derivatives(model, THETA, by=GROUPS, covariance=True, **SUMMARY)
    for j, name in enumerate(X.columns):
        ends = np.concatenate([X.to_numpy() + s * step * np.eye(2)[j] for s in (1, -1)])
        mean, cov = posterior(ends)
        w = np.hstack([WEIGHTS, -WEIGHTS]) / (2 * step)
        one = found.sel(feature=name)
        assert_allclose(one["derivative_mean"], w @ mean, rtol=1e-6)
        assert_allclose(one["derivative_sd"], np.sqrt(np.diag(w @ cov @ w.T)), rtol=1e-5)
    variance = np.einsum("gjj->gj", found["derivative_cov"].values)
    assert_allclose(np.sqrt(variance), found["derivative_sd"], rtol=1e-9)


def test_average_attributions_are_integrals_of_slopes(model):
    """By Gauss-Legendre quadrature of differences along all paths."""
    step, start = 1e-4, np.array([0.2, -0.1])
    baseline = pd.DataFrame([start], columns=X.columns)
    found = bx.attributions(model, THETA, baseline=baseline, by=GROUPS, **SUMMARY)
    nodes, parts = np.polynomial.legendre.leggauss(12)
    change = X.to_numpy() - start
    for j, name in enumerate(X.columns):
        points, weights = [], []
        for node, part in zip((nodes + 1) / 2, parts / 2, strict=True):
            along = start + node * change
            for sign in (1, -1):
                points.append(along + sign * step * np.eye(2)[j])
                weights.append(sign * part * WEIGHTS * change[:, j] / (2 * step))
        mean, cov = posterior(np.concatenate(points))
        w = np.hstack(weights)
        one = found.sel(feature=name)
        assert_allclose(one["attribution_mean"], w @ mean, rtol=1e-5, atol=1e-7)
        assert_allclose(one["attribution_sd"], np.sqrt(np.diag(w @ cov @ w.T)), rtol=1e-4)
    assert_allclose(found["attribution_mean"].sum("feature"), found["difference_mean"], atol=1e-9)
    w = WEIGHTS
    ends = np.vstack([X.to_numpy(), start])
    mean, cov = posterior(ends)
    w = np.hstack([WEIGHTS, -np.ones((3, 1))])
    agrees(found, "difference", w @ mean, w @ cov @ w.T, rtol=1e-8)


@pytest.mark.parametrize(
    "approximation", [bx.HSGP([6, 6], 2.0), bx.RandomFeatures(20, seed=1), bx.Inducing(6)]
)
def test_averages_of_approximations_are_those_of_joint_draws(approximation):
    model = bx.GP(X, y, approximation=approximation)
    drawn = bx.derivatives(model, THETA, joint=True, draws=4000, seed=1, **QUIET)
    found = bx.derivatives(model, THETA, by=GROUPS, **SUMMARY)
    mean = np.tensordot(WEIGHTS, drawn["derivative_mean"].values, 1)
    assert_allclose(found["derivative_mean"], mean, atol=1e-8)
    averages = np.tensordot(drawn["derivative"].values[0], WEIGHTS, (1, 1))
    assert_allclose(found["derivative_sd"].values.T, averages.std(axis=0), rtol=0.06)


def test_averages_of_weights_and_contributions():
    model, theta = bx.GPX(X, y), THETA | {"sigma_w": 0.2}
    for function, name in ((bx.weights, "weight"), (bx.contributions, "contribution")):
        rows = function(model, theta, joint=True, draws=4000, seed=1, **QUIET)
        found = function(model, theta, by=GROUPS, **SUMMARY)
        mean = np.tensordot(WEIGHTS, rows[f"{name}_mean"].values, 1)
        assert_allclose(found[f"{name}_mean"], mean, atol=1e-9)
        averages = np.tensordot(rows[name].values[0], WEIGHTS, (1, 1))
        assert_allclose(found[f"{name}_sd"].values.T, averages.std(axis=0), rtol=0.06)


def test_approximate_weight_functions_are_averaged_without_deviations():
    model = bx.GPX(X, y, approximation=bx.HSGP([5, 5], 2.0))
    theta = THETA | {"sigma_w": 0.2}
    rows = bx.weights(model, theta, smooth=True, **SUMMARY)["weight_mean"]
    found = bx.weights(model, theta, smooth=True, by=GROUPS, **SUMMARY)["weight_mean"]
    assert_allclose(found, WEIGHTS @ rows.values, atol=1e-9)
    for function in (bx.predictions, bx.weights, bx.contributions):
        with pytest.raises(ValueError, match="leave deviations out"):
            function(model, theta, by=GROUPS, on="latent", **SUMMARY)


def test_columns_name_groups():
    frame = X.assign(
        kind=pd.Categorical(np.resize(["b", "a"], N)), day=pd.date_range("2024-01-01", periods=N)
    )
    frame["half"] = np.resize([0.0, 1.0, 1.0], N)
    model, theta = bx.GP(frame, y), THETA | {"lengthscale": 1.0}
    found = bx.predictions(model, theta, by="kind", on="latent", **SUMMARY)
    assert found["by"].values.tolist() == ["a", "b"]
    rows = bx.predictions(model, theta, on="latent", **SUMMARY)["f_mean"]
    own = frame["kind"].to_numpy() == "a"
    assert_allclose(found["f_mean"][0], rows[own].mean())
    both = bx.predictions(model, theta, by=["kind", "half"], on="latent", **SUMMARY)
    assert both["by"].values.tolist() == ["a, 0.0", "a, 1.0", "b, 0.0", "b, 1.0"]
    some = bx.predictions(model, theta, by=GROUPS, obs=[0, 1, 3], on="latent", **SUMMARY)
    assert some["by"].values.tolist() == ["north", "south"]
    assert_allclose(some["f_mean"][0], rows[[0, 3]].mean())
    days = bx.predictions(model, theta, by="day", obs=[0, 1], on="latent", **SUMMARY)
    assert days["by"].values.tolist() == ["2024-01-01", "2024-01-02"]


def test_averages_that_are_not_linear_are_refused(model):
    labels = bx.GP(X, y > 0, likelihood="bernoulli")
    theta = {k: v for k, v in THETA.items() if k != "sigma"}
    for function in (bx.predictions, bx.derivatives, bx.attributions):
        with pytest.raises(ValueError, match="by averages f, not the response"):
            function(labels, theta, by=True, **QUIET)
    with pytest.raises(ValueError, match="against one baseline"):
        bx.attributions(model, THETA, by=True, of="log_variance", **QUIET)
    with pytest.raises(ValueError, match="averages are small"):
        bx.derivatives(model, THETA, by=True, path="somewhere", **QUIET)
    with pytest.raises(ValueError, match="by: unknown 'does'"):
        bx.derivatives(model, THETA, by="does", **QUIET)
    with pytest.raises(ValueError, match="by has 5 values"):
        bx.derivatives(model, THETA, by=np.arange(5), **QUIET)
    with pytest.raises(ValueError, match="by is 3"):
        bx.derivatives(model, THETA, by=3, **QUIET)
    with pytest.raises(ValueError, match="by has 2 missing labels"):
        bx.derivatives(model, THETA, by=[np.nan, None, *GROUPS[2:]], **QUIET)
    uneven = pd.DataFrame({"a": np.ones(N), "b": np.zeros(N)})
    scaled = bx.GP(X, y + 5.0)
    with pytest.raises(ValueError, match="sum to 0 up to 18"):
        bx.predictions(scaled, THETA, by=uneven, on="latent", **QUIET)


def test_probabilities_are_averaged_by_joint_draws():
    labels = bx.GP(X, y > 0, likelihood="bernoulli")
    theta = {k: v for k, v in THETA.items() if k != "sigma"}
    options = {"variables": {"dose": (0.0, 1.0)}, "draws": 200, "seed": 1, **QUIET}
    rows = bx.comparisons(labels, theta, **options)
    found = bx.comparisons(labels, theta, by=GROUPS, **options)
    averages = np.tensordot(rows["comparison"].values[0, :, :, 0], WEIGHTS, (1, 1))
    assert_allclose(found["comparison"].values[0, :, :, 0], averages, rtol=1e-9)
    panel = bx.plot_comparisons(found, backend="matplotlib").viz["plot"].item()
    names = [tick.get_text() for tick in panel.get_yticklabels()]
    assert names == [f"dose 0 → 1, {group}" for group in ("north", "south", "west")]


def test_averages_are_plotted_as_rows_once_renamed(model):
    found = bx.attributions(model, THETA, by=GROUPS, draws=50, seed=1, **QUIET)
    for plot in (bx.plot_attributions, bx.plot_heatmap):
        with pytest.raises(ValueError, match=r"rename\(by='obs'\)"):
            plot(found, backend="none")
    panels = bx.plot_attributions(found.rename(by="obs"), backend="matplotlib").viz["plot"]
    assert panels["obs"].values.tolist() == ["north", "south", "west"]
    assert set(bx.to_pandas(found)["by"]) == {"north", "south", "west"}
