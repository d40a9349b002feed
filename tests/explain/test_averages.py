"""Averages over rows by `by=`, against dense covariances of all rows written anew."""

import json

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from scipy import stats

import bayes_gpx as bx
import marginaleffects_values
import oracle
from bayes_gpx.draws import averages, evaluate
from known_draws import known

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


def test_averages_count_training_rows_as_often_as_their_weights():
    """As averages of a table that has these rows so many times; new rows count once."""
    times = np.arange(N) % 3 + 1
    model = bx.GP(X, y, scale=False, weights=times / times.mean())
    for by in (True, GROUPS):
        found = bx.predictions(model, THETA, by=by, on="latent", **SUMMARY)
        rows = np.repeat(np.arange(N), times)
        again = by if by is True else GROUPS[rows]
        repeated = bx.predictions(model, THETA, X.iloc[rows], by=again, on="latent", **SUMMARY)
        for name in ("f_mean", "f_sd", "value"):
            assert_allclose(found[name], repeated[name], rtol=1e-9)


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
    variance = np.einsum("gjgj->gj", found["derivative_cov"].values)
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


def test_groups_of_several_columns_stay_apart_where_joined_names_are_equal():
    cells = {"kind": np.resize(["a", "a, b"], N), "day": np.repeat(["b, c", "c"], N // 2)}
    frame = X.assign(**{name: pd.Categorical(values) for name, values in cells.items()})
    found = bx.predictions(
        bx.GP(frame, y), THETA | {"lengthscale": 1.0}, by=["kind", "day"], **SUMMARY
    )
    assert found["by"].values.tolist() == [
        "'a', 'b, c'", "'a', 'c'", "'a, b', 'b, c'", "'a, b', 'c'"
    ]  # fmt: skip


def test_averages_of_the_response_are_those_of_draws_of_the_dense_posterior(model):
    """P(y > .1) on draws of f at rows, at the baseline, and at rows a little to each side."""
    h, at, rows = 1e-3, 0.1, X.to_numpy()
    steps = [sign * h * unit for unit in np.eye(2) for sign in (1.0, -1.0)]
    points = np.vstack([rows, rows.mean(axis=0), *(rows + step for step in steps)])
    mean, cov = posterior(points)
    f = np.random.default_rng(1).multivariate_normal(mean, cov, 20_000, method="eigh")
    p = stats.norm.cdf((f - at) / 0.3)
    own, start, *moved = p[:, :N], p[:, N:][:, :1], *np.split(p[:, N + 1 :], 4, axis=1)
    slopes = np.stack([(moved[j] - moved[j + 1]) / (2 * h) for j in (0, 2)], axis=-1)
    event = {"of": "survival", "at": at, "draws": 1000, "seed": 1, "by": GROUPS}
    shares = bx.attributions(model, THETA, **event, **QUIET)
    for found, name, draws in (
        (bx.predictions(model, THETA, **event, **QUIET), "survival", own @ WEIGHTS.T),
        (shares, "difference", (own - start) @ WEIGHTS.T),
        (
            bx.derivatives(model, THETA, **event, **QUIET),
            "derivative",
            np.einsum("sij,gi->sgj", slopes, WEIGHTS),
        ),
    ):
        assert found["by"].values.tolist() == ["north", "south", "west"]
        sd, error = found[f"{name}_sd"].values, draws.std(axis=0) / np.sqrt(1000)
        assert_allclose(sd, draws.std(axis=0), rtol=0.12)
        assert (np.abs(found[f"{name}_mean"] - draws.mean(axis=0)) < 5.0 * error).all()
        ends = np.quantile(draws, [0.05, 0.95], axis=0)
        assert_allclose(
            np.moveaxis(found[f"{name}_interval"].values, -1, 0), ends, atol=0.3 * sd.max()
        )
    assert_allclose(shares["attribution_mean"].sum("feature"), shares["difference_mean"], rtol=1e-6)
    assert_allclose(shares["attribution"].sum("feature"), shares["difference"], atol=1e-6)


def test_averages_of_answers_are_averages_of_answers_that_are_drawn_together():
    labels = bx.GP(X.assign(kind=pd.Categorical(GROUPS)), y > 0, likelihood="bernoulli")
    theta = {"lengthscale": 1.0, "amplitude": 1.2}
    options = {"draws": 50, "seed": 3, "covariance": True, **QUIET}
    found = bx.attributions(labels, theta, by=GROUPS, **options)
    rows = bx.attributions(labels, theta, joint=True, draws=50, seed=3, **QUIET)
    own = {
        name: rows[name].values[..., GROUPS == "south", :].mean(axis=-2)
        for name in ("attribution", "attribution_mean")
    }
    south = found.sel(by="south")
    for name, expected in own.items():
        assert_allclose(south[name], expected, rtol=1e-12)
    gap = pd.DataFrame({"gap": np.where(GROUPS == "south", 1.0, -1.0)})
    missed = bx.attributions(labels, theta, by=gap, **options)["completeness_residual"]
    assert_allclose(missed, rows["completeness_residual"].sum())  # errors may add up
    apart = found["attribution"].stack(part=["by", "feature"]).values[0]
    expected = np.cov(apart.T, ddof=0)
    cov = found["attribution_cov"].transpose("by", "feature", "by_bis", "feature_bis")
    assert np.abs(cov.values.reshape(expected.shape) - expected).max() < 0.1 * expected.max()
    assert south["level"].values.tolist() == ["", "", "south"]
    assert_allclose(south["value"][:2], X[GROUPS == "south"].mean())
    brief = bx.attributions(labels, theta, by=GROUPS, keep="summary", **options)
    xr.testing.assert_identical(brief, found.drop_dims(["chain", "draw"]))


def test_expected_counts_are_averaged_at_the_exposures_of_their_rows():
    """With a function that is known to be constant, whatever the rows."""
    exposure = np.arange(1.0, N + 1.0)
    counts = np.random.default_rng(2).poisson(2.0 * exposure)
    theta = {"lengthscale": [1.0, 1.0], "amplitude": 1e-6}
    model = bx.GP(X, counts, likelihood="poisson", exposure=exposure)
    found = bx.predictions(model, theta, by=GROUPS, seed=1, **QUIET)
    rows = bx.predictions(model, theta, seed=1, **SUMMARY)["rate_mean"]
    assert_allclose(found["rate_mean"], WEIGHTS @ rows.values, rtol=1e-5)
    assert_allclose(found["rate_mean"] / (WEIGHTS @ exposure), rows[0] / exposure[0], rtol=1e-5)
    assert_allclose(found["rate"].mean(["chain", "draw"]), found["rate_mean"], rtol=1e-5)
    new = bx.predictions(model, theta, X, by=True, exposure=2.0 * exposure, seed=1, **SUMMARY)
    assert_allclose(new["response_mean"], 2.0 * rows.mean(), rtol=1e-5)
    assert "Average over observations, north: " in bx.describe(found)
    labels = bx.GP(X, y > 0, likelihood="bernoulli")
    known = bx.predictions(labels, theta, by=GROUPS, seed=1, **SUMMARY)
    assert "the probability of True at x" in bx.describe(known)
    assert "(unit: y)" in bx.describe(found)
    assert found.attrs["units"] == "y" and known.attrs["units"] == "probability that y = True"
    assert_allclose(found["value"], WEIGHTS @ X)
    bx.plot_predictions(found.rename(by="obs"), backend="none")


@pytest.mark.parametrize("likelihood", ["student_t", "asymmetric_laplace"])
def test_averages_without_a_mean_response_are_of_f(likelihood):
    model = bx.GP(X, y, likelihood=likelihood)
    theta = THETA | ({"nu": 5.0} if likelihood == "student_t" else {})
    found = bx.predictions(model, theta, by=GROUPS, **SUMMARY)
    rows = bx.predictions(model, theta, seed=1, **SUMMARY)["f_mean"]
    assert_allclose(found["f_mean"], WEIGHTS @ rows.values, rtol=1e-10)


@pytest.mark.parametrize("approximation", [None, bx.Inducing(8)])
def test_deviations_of_rows_raise_the_average_rate(approximation):
    """A rate is not linear in f, so deviations do not average out."""
    counts, hours = np.random.default_rng(2).poisson(3.0, N), np.linspace(0.5, 2.0, N)
    options = {"likelihood": "poisson", "exposure": hours, "approximation": approximation}
    model = bx.GPX(X, counts, X, **options)
    theta = {"lengthscale": [2.0, 2.0], "amplitude": 0.3, "sigma_w": 0.5}
    found = bx.predictions(model, theta, by=GROUPS, seed=1, **QUIET)
    rows = bx.predictions(model, theta, **SUMMARY)
    assert_allclose(found["rate_mean"], WEIGHTS @ rows["rate_mean"].values, rtol=1e-10)
    drawn = found["rate"].values[0]
    error = drawn.std(axis=0) / np.sqrt(1000)
    assert (np.abs(drawn.mean(axis=0) - found["rate_mean"].values) < 5.0 * error).all()
    smooth = bx.predictions(model, theta | {"sigma_w": 1e-6}, by=GROUPS, seed=1, **SUMMARY)
    assert (np.abs(found["rate_mean"] - smooth["rate_mean"]) > 10.0 * error).any()


def test_averages_over_many_baselines_are_those_of_parts_of_them(model):
    many, some = rng.normal(size=(52, 2)), X.index[:2]
    found = bx.attributions(model, THETA, by=True, baseline=many, obs=some, seed=1, **SUMMARY)
    halves = [
        bx.attributions(model, THETA, by=True, baseline=own, obs=some, **SUMMARY)
        for own in np.split(many, 2)
    ]
    expected = 0.5 * sum(half["attribution_mean"] for half in halves)
    error = found["attribution_sd"] / np.sqrt(1000)
    assert (np.abs(found["attribution_mean"] - expected) < 5.0 * error).all()


def test_averages_that_are_not_offered_are_refused(model):
    with pytest.raises(ValueError, match="of='survival' is about y"):
        bx.predictions(model, THETA, of="survival", at=0.0, on="latent", **QUIET)
    with pytest.raises(ValueError, match="averages are few"):
        bx.predictions(model, THETA, of="survival", at=0.0, by=True, path="somewhere", **QUIET)
    with pytest.raises(ValueError, match="averages are small"):
        bx.derivatives(model, THETA, of="survival", at=0.0, by=True, path="somewhere", **QUIET)
    with pytest.raises(ValueError, match="against one baseline"):
        bx.attributions(model, THETA, by=True, of="log_variance", **QUIET)
    with pytest.raises(ValueError, match="steps was given, but method 'exact' has none"):
        bx.attributions(model, THETA, of="log_variance", steps=10, **QUIET)
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


def test_averages_beside_rows_are_plotted_one_by_one(model):
    slopes = bx.slopes(model, THETA, by=GROUPS, draws=20, seed=1, **QUIET)
    curves = bx.partial_dependence(model, THETA, by=GROUPS, steps=3, **QUIET)
    for plot, found in ((bx.plot_slopes, slopes), (bx.plot_partial_dependence, curves)):
        with pytest.raises(ValueError, match=r"Choose one, such as dataset.sel\(by='north'\)"):
            plot(found)
        plot(found.sel(by="north"), backend="none")


def test_averages_are_plotted_as_rows_once_renamed(model):
    found = bx.attributions(model, THETA, by=GROUPS, draws=50, seed=1, **QUIET)
    for plot in (bx.plot_attributions, bx.plot_heatmap):
        with pytest.raises(ValueError, match=r"dataset.rename\(by='obs'\)"):
            plot(found, backend="none")
    with pytest.raises(ValueError, match=r"expand_dims\('by'\).rename\(by='obs'\)"):
        bx.plot_waterfall(found.isel(by=0), backend="none")
    panels = bx.plot_attributions(found.rename(by="obs"), backend="matplotlib").viz["plot"]
    assert panels["obs"].values.tolist() == ["north", "south", "west"]
    assert set(bx.to_pandas(found)["by"]) == {"north", "south", "west"}


def test_covariances_of_averages_are_those_of_the_dense_posterior(model):
    _, cov = posterior(X.to_numpy())
    found = bx.predictions(model, THETA, by=GROUPS, on="latent", covariance=True, **SUMMARY)
    assert found["f_cov"].dims == ("by", "by_bis")
    assert_allclose(found["f_cov"], WEIGHTS @ cov @ WEIGHTS.T, atol=1e-12)


def test_covariances_of_averages_add_up_over_draws(model):
    """Within and between draws of the hyperparameters."""
    thetas = [THETA, THETA | {"amplitude": 0.7}, THETA | {"sigma": 0.6}]
    options = {"by": GROUPS, "covariance": True, **SUMMARY}
    each = [bx.attributions(model, theta, **options) for theta in thetas]
    means = np.stack([one["attribution_mean"].values.ravel() for one in each])
    covs = [one["attribution_cov"].values.reshape(2 * [means.shape[1]]) for one in each]
    found = bx.attributions(model, known(model, thetas), **options)["attribution_cov"]
    assert found.dims == ("by", "feature", "by_bis", "feature_bis")
    expected = np.mean(covs, axis=0) + np.cov(means.T, bias=True)
    assert_allclose(found.values.reshape(expected.shape), expected, atol=1e-12)


CATEGORICAL = {"lengthscale": [1.1, 0.7], "amplitude": 1.2}
PAIRED = {
    "attributions": (lambda: bx.GP(X, y, kernel="matern52"), THETA, {}),
    "predictions": (lambda: bx.GP(X, y, groups=GROUPS), THETA | {"group_amplitude": 0.4}, {}),
    "contributions": (lambda: bx.GPX(X, y), THETA | {"sigma_w": 0.2}, {}),
    "comparisons": (lambda: bx.GP(X, y, approximation=bx.Inducing(6)), THETA, {}),
    "derivatives": (
        lambda: bx.GP(X, GROUPS, likelihood="categorical"),
        CATEGORICAL,
        {"on": "latent"},
    ),
    "predictions of correlated classes": (
        lambda: bx.GP(X, GROUPS, likelihood="categorical", correlation=1),
        CATEGORICAL | {"loading": 0.5 * np.ones((3, 1))},
        {"on": "latent"},
    ),
}


@pytest.mark.parametrize(
    "verb",
    [pytest.param(v, marks=pytest.mark.slow if v == "attributions" else ()) for v in PAIRED],
)
def test_pairs_of_blocks_are_all_rows(verb, monkeypatch):
    """Blocks that do not divide the rows, so that the last one is filled up."""
    make, theta, options = PAIRED[verb]
    model, ask = make(), getattr(bx, verb.split()[0])
    options = options | {"by": GROUPS, "covariance": True, **SUMMARY}
    whole = ask(model, theta, **options)
    for module in (averages, evaluate):
        monkeypatch.setattr(module, "BLOCK", 9)
    xr.testing.assert_allclose(ask(model, theta, **options), whole, rtol=1e-10, atol=1e-12)


def test_an_average_of_one_row_is_this_row(monkeypatch):
    model = bx.GPX(X, y)
    theta = THETA | {"sigma_w": 0.2}
    whole = bx.contributions(model, theta, obs=[0], by=True, **SUMMARY)
    monkeypatch.setattr(evaluate, "BLOCK", 0)
    xr.testing.assert_identical(bx.contributions(model, theta, obs=[0], by=True, **SUMMARY), whole)


def test_inducing_points_have_no_limit(monkeypatch):
    monkeypatch.setattr(evaluate, "LARGEST_JOINT", 10)
    exact, few = bx.GP(X, y), bx.GP(X, y, approximation=bx.Inducing(6))
    assert bx.derivatives(few, THETA, by=True, **SUMMARY)["derivative_sd"].values.all()
    with pytest.raises(ValueError, match=r"covariance of 36 quantities, at most 10.*bx.Inducing"):
        bx.derivatives(exact, THETA, by=True, **SUMMARY)


def test_average_slopes_have_exact_moments(model):
    found = bx.slopes(model, THETA, by=GROUPS, seed=1, covariance=True, **QUIET)
    expected = bx.derivatives(model, THETA, by=GROUPS, covariance=True, **SUMMARY)
    for part in ("mean", "sd", "interval", "cov"):
        assert_allclose(found[f"average_slope_{part}"], expected[f"derivative_{part}"], rtol=1e-10)
    every = bx.slopes(model, THETA, seed=1, **QUIET)
    assert every["average_slope_interval"].dims == ("feature", "ci_bound")
    assert_allclose(every["average_slope_mean"], every["derivative_mean"].mean("obs"), rtol=1e-10)


def test_average_slopes_of_probabilities_are_averages_of_draws():
    model = bx.GP(X, np.where(y > 0, "high", "low"), likelihood="bernoulli")
    found = bx.slopes(model, CATEGORICAL, by=GROUPS, draws=50, seed=1, **QUIET)
    rows = bx.derivatives(model, CATEGORICAL, joint=True, draws=50, seed=1, **QUIET)
    expected = np.einsum("gi,cdif->cdgf", WEIGHTS, rows["derivative"].values)
    assert_allclose(found["average_slope"], expected, rtol=1e-10)
    assert_allclose(found["average_slope_mean"], WEIGHTS @ rows["derivative_mean"].values)


def test_partial_dependence_of_f_is_that_of_the_dense_posterior(model):
    found = bx.partial_dependence(model, THETA, by=GROUPS, steps=3, **QUIET)
    assert found.attrs["moments"] == "exact"
    for j, name in enumerate(X.columns):
        own = found.sel(feature=name)
        for k, place in enumerate(own["value"].values):
            points = X.to_numpy().copy()
            points[:, j] = place
            mean, cov = posterior(points)
            assert_allclose(own["partial_dependence_mean"][:, k], WEIGHTS @ mean, rtol=1e-9)
            sd = np.sqrt(np.diag(WEIGHTS @ cov @ WEIGHTS.T))
            assert_allclose(own["partial_dependence_sd"][:, k], sd, rtol=1e-7)
            assert_allclose(own["ice_mean"][:, k], mean, rtol=1e-9)
    drawn = own["partial_dependence"].values[0]
    assert_allclose(drawn.std(axis=0), own["partial_dependence_sd"], rtol=0.4)


def test_the_curve_of_one_row_is_along_the_training_rows(model):
    found = bx.partial_dependence(model, THETA, obs=[3], steps=4, **QUIET)
    ends = [X.iloc[:, 0].min(), X.iloc[:, 0].max()]
    assert_allclose(found["value"].values[0], np.linspace(*ends, 4))


def test_steps_are_as_fine_as_the_lengthscales():
    model, span = bx.GP(X, y, scale=False), np.ptp(X.values[:, 0])
    for short, steps in ((span, 20), (span / 10, 50), (span / 1000, 200)):
        theta = THETA | {"lengthscale": [short, 30.0]}
        for rows in ([3], None):
            found = bx.partial_dependence(model, theta, obs=rows, **QUIET)
            assert found["value"].notnull().sum("step").values.tolist() == [steps, 20]
    wave, fast = bx.GP(X, y, kernel="periodic", scale=False), PERIODIC | {"period": span / 8}
    assert bx.partial_dependence(wave, fast, obs=[3], **QUIET).sizes["step"] == 80


def test_partial_dependence_averages_over_draws(model):
    thetas = [THETA, THETA | {"lengthscale": [0.4, 2.0], "sigma": 0.5}]
    each = [bx.partial_dependence(model, theta, steps=3, **QUIET) for theta in thetas]
    found = bx.partial_dependence(model, known(model, thetas), steps=3, **QUIET)
    for name in ("ice_mean", "partial_dependence_mean"):
        assert_allclose(found[name], (each[0][name] + each[1][name]) / 2, rtol=1e-9)


def test_partial_dependence_by_functions_agrees(model):
    exact = bx.partial_dependence(model, THETA, by=GROUPS, steps=3, **QUIET)
    options = {"keep": "draws", "draws": 500, "seed": 1, **QUIET}
    drawn = bx.partial_dependence(model, THETA, by=GROUPS, steps=3, **options)
    error = 5 * exact["partial_dependence_sd"] / np.sqrt(500)
    assert (abs(exact["partial_dependence_mean"] - drawn["partial_dependence_mean"]) < error).all()
    assert drawn.attrs["moments"] == "of the functions"
    one = bx.partial_dependence(bx.GP(X, y, kernel="periodic"), PERIODIC, steps=3, **QUIET)
    assert one["partial_dependence_mean"].dims == ("feature", "step")


PERIODIC = {"lengthscale": [1.0, 1.0], "period": 2.0, "amplitude": 1.0, "sigma": 0.3}


def test_average_effects_of_a_linear_model_are_those_of_marginaleffects():
    """With least squares' own sigma, and priors so wide that they say nothing.

    An amplitude of 1e3 moves the results by 1e-8; at 1e4 the round-off of sds reaches 1e-5.
    """
    rows, response, region = marginaleffects_values.rows()
    stored = json.loads(marginaleffects_values.STORED.read_text())
    model = bx.GP(rows, response, kernel="linear")
    theta = {"amplitude": 1e3, "sigma": stored["sigma"] / response.std(ddof=0)}
    slopes = bx.slopes(model, theta, seed=1, features=["age", "dose"], **QUIET)
    by_region = bx.slopes(model, theta, seed=1, by=region, features=["dose"], **QUIET)
    variables = {"dose": (-1.0, 2.0)}
    comparison = bx.comparisons(model, theta, variables=variables, by=True, **SUMMARY)
    # Here the intercept is uncertain too.
    other = bx.GP(rows, response, kernel=wide, scale=False)
    noise = {"sigma": stored["sigma"]}
    predictions = bx.predictions(other, noise, by=region, on="latent", **SUMMARY)
    found = {
        "slopes": (slopes, "average_slope"),
        "slopes by region": (by_region, "average_slope"),
        "comparison": (comparison, "comparison"),
        "predictions": (predictions, "f"),
    }
    for key, (ours, name) in found.items():
        # The standard errors of slopes are numerical derivatives there, right to four digits.
        tolerance = 1e-4 if "slopes" in key else 1e-6
        assert_allclose(np.ravel(ours[f"{name}_mean"]), stored[key]["estimate"], rtol=1e-6)
        assert_allclose(np.ravel(ours[f"{name}_sd"]), stored[key]["std_error"], rtol=tolerance)
    exactly = stored["comparison"]["std_error"][0] / 3.0
    assert_allclose(slopes["average_slope_sd"].sel(feature="dose"), exactly, rtol=1e-6)


def wide(d):
    """Coefficients and an intercept with prior sds of 1e3."""
    return 1e6 * (pm.gp.cov.Linear(d, c=np.zeros(d)) + pm.gp.cov.Constant(1.0))
