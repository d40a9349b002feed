"""One draw becomes all: moments, seeds, blocks, compilation."""

import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal

import bayes_gpx as bx
from bayes_gpx.draws import each_draw, graphs, turns

THETA = {"lengthscale": [0.9, 1.7], "amplitude": 0.8, "sigma_w": 0.3, "sigma": 0.4}


@pytest.fixture(scope="module")
def model(regression):
    X, Z, y, _, _ = regression
    return bx.GPX(X, y, Z)


@pytest.fixture(scope="module")
def several(model):
    """A posterior of 2 x 3 draws that no sampler had to make."""
    rng = np.random.default_rng(4)
    jitter = np.exp(rng.normal(0, 0.3, (2, 3)))
    posterior = xr.Dataset(
        {
            "lengthscale": (("chain", "draw", "feature"), jitter[..., None] * [0.9, 1.7]),
            "amplitude": (("chain", "draw"), 0.8 * jitter),
            "sigma_w": (("chain", "draw"), 0.3 / jitter),
            "sigma": (("chain", "draw"), 0.4 * jitter),
        },
        {"chain": range(2), "draw": range(3), "feature": ["age", "dose"]},
    )
    return xr.DataTree.from_dict({"posterior": posterior})


def each(several):
    posterior = several["posterior"]
    for chain in range(2):
        for draw in range(3):
            one = posterior.isel(chain=chain, draw=draw)
            yield {name: values.values for name, values in one.data_vars.items()}


@pytest.mark.parametrize("verb", ["weight", "contribution"])
def test_moments_are_those_of_the_mixture(model, several, regression, verb):
    *_, X_new, Z_new = regression
    function = getattr(bx, f"{verb}s")
    found = function(model, several, X_new, Z_new, covariance=True, seed=1)
    singles = [
        function(model, theta, X_new, Z_new, covariance=True, draws=2, seed=1)
        for theta in each(several)
    ]
    means = np.stack([s[f"{verb}_mean"] for s in singles])
    covs = np.stack([s[f"{verb}_cov"] for s in singles])
    assert_allclose(found[f"{verb}_mean"], means.mean(axis=0), rtol=1e-12)
    spread = means - means.mean(axis=0)
    total = covs.mean(axis=0) + np.einsum("kic,kid->icd", spread, spread) / 6
    assert_allclose(found[f"{verb}_cov"], total, rtol=1e-9, atol=1e-12)
    assert_allclose(found[f"{verb}_sd"] ** 2, np.einsum("icc->ic", total), rtol=1e-10)
    assert found[verb].dims == ("chain", "draw", "obs", "feature")
    assert found[verb].shape == (2, 3, 4, 3)


def test_summary_moments_equal_those_beside_draws(model, several):
    kept = bx.contributions(model, several, covariance=True, seed=1)
    summary = bx.contributions(model, several, keep="summary", covariance=True)
    plain = bx.contributions(model, several, keep="summary")
    assert "contribution" not in summary
    for name in ("contribution_mean", "contribution_sd", "contribution_cov"):
        assert_allclose(summary[name], kept[name], rtol=1e-10, atol=1e-12)
    assert_allclose(plain["contribution_sd"], kept["contribution_sd"], rtol=1e-9)


@pytest.mark.parametrize("joint", [False, True])
def test_draws_have_the_stated_moments(model, regression, joint):
    *_, X_new, Z_new = regression
    n = 40_000
    found = bx.contributions(
        model, THETA, X_new, Z_new, draws=n, covariance=True, joint=joint, seed=3
    )
    values = found["contribution"].values[0]
    # Monte Carlo: the largest of 12 standardised errors stays below 5 in all but 1e-5 of seeds.
    error = (values.mean(axis=0) - found["contribution_mean"]) / found["contribution_sd"]
    assert np.abs(error).max() < 5 / np.sqrt(n)
    cov = np.einsum("kic,kid->icd", values - values.mean(axis=0), values - values.mean(axis=0)) / n
    scale = found["contribution_sd"].values
    correlation = (cov - found["contribution_cov"]) / (scale[:, :, None] * scale[:, None, :])
    assert np.abs(correlation).max() < 6 / np.sqrt(n)


def test_joint_draws_are_joint_over_observations(model, regression):
    *_, X_new, Z_new = regression
    X_twice, Z_twice = X_new.iloc[[0, 0]], Z_new.iloc[[0, 0]]
    options = {"draws": 4000, "smooth": True, "seed": 1}
    together = bx.weights(model, THETA, X_twice, Z_twice, joint=True, **options)["weight"]
    apart = bx.weights(model, THETA, X_twice, Z_twice, **options)["weight"]
    # One function at one place twice: equal up to the square root of round-off.
    assert_allclose(together[0, :, 0], together[0, :, 1], atol=1e-5 * float(together.std()))
    correlation = np.corrcoef(apart[0, :, 0, 0], apart[0, :, 1, 0])[0, 1]
    assert abs(correlation) < 5 / np.sqrt(4000)


def test_noise_of_predictions(model):
    found = bx.predictions(model, THETA, draws=20_000, seed=1)
    noise = (found["y"] - found["f"]).values
    sigma = 0.4 * model.training.y_scaling.scale
    assert_allclose(noise.std(), sigma, rtol=0.01)
    assert_allclose(found["y_sd"] ** 2, found["f_sd"] ** 2 + sigma**2, rtol=1e-10)


def test_same_seed_same_numbers_and_blocks_change_no_moment(model, several, monkeypatch):
    first = bx.contributions(model, several, seed=7)
    assert_array_equal(
        first["contribution"], bx.contributions(model, several, seed=7)["contribution"]
    )
    assert (first["contribution"] != bx.contributions(model, several, seed=8)["contribution"]).all()
    monkeypatch.setattr(each_draw, "BLOCK_BYTES", 8 * 14 * 3 * 3)
    blocked = bx.contributions(model, several, seed=7)
    head = {"obs": slice(0, 3)}
    assert_allclose(
        blocked["contribution"].isel(head), first["contribution"].isel(head), rtol=1e-12
    )
    assert_allclose(blocked["contribution_mean"], first["contribution_mean"], rtol=1e-10)
    assert_allclose(blocked["contribution_sd"], first["contribution_sd"], rtol=1e-10)


def test_nothing_is_compiled_twice(regression):
    """Neither new points nor a second model of the same kind compile anything."""
    X, Z, y, X_new, Z_new = regression
    kernel = "matern32"
    bx.weights(bx.GPX(X, y, Z, kernel=kernel), THETA, X_new, Z_new, draws=2)
    before = graphs._compiled.cache_info().misses
    second = bx.GPX(X[2:], 3 * y[2:], Z[2:], kernel=kernel, priors={"sigma": 0.2})
    theta = {k: v for k, v in THETA.items() if k != "sigma"}
    bx.weights(second, theta, X_new[:1], Z_new[:1], draws=2)
    assert graphs._compiled.cache_info().misses == before


def test_thinning_features_and_subsets(model, several):
    everything = bx.contributions(model, several, seed=1)
    thinned = bx.contributions(model, several, num_draws=4, seed=1)
    assert thinned["contribution"].shape[:2] == (2, 2)
    with pytest.raises(ValueError, match="at least one for each chain"):
        bx.contributions(model, several, num_draws=1)
    two = bx.contributions(model, several, features=["c", "a"], covariance=True, seed=1)
    picked = everything.sel(feature=["c", "a"])
    assert_allclose(two["contribution_mean"], picked["contribution_mean"], rtol=1e-12)
    assert_allclose(two["value"], picked["value"])
    assert_allclose(two["center"], picked["center"])
    assert two["contribution_cov"].shape == (14, 2, 2)


def test_draws_stream_to_a_store(model, several, tmp_path):
    options = {"seed": 1, "covariance": True}
    inside = bx.contributions(model, several, **options)
    outside = bx.contributions(model, several, path=tmp_path / "draws.zarr", **options)
    for name in ("contribution", "contribution_mean", "contribution_cov"):
        assert_allclose(outside[name], inside[name], rtol=0)
        assert outside[name].dims == inside[name].dims
    assert list(outside["feature"].values) == ["a", "b", "c"]
    assert_allclose(outside["center"], inside["center"])
    single = bx.predictions(model, THETA, draws=5, path=tmp_path / "f.zarr", seed=1)
    assert_allclose(single["y"], bx.predictions(model, THETA, draws=5, seed=1)["y"], rtol=0)


def test_only_a_new_path_or_an_earlier_store_is_written(model, several, tmp_path):
    folder = tmp_path / "thesis"
    folder.mkdir()
    (folder / "chapter.txt").write_text("years of work")
    with pytest.raises(ValueError, match="left as it is"):
        bx.predictions(model, several, path=folder)
    assert (folder / "chapter.txt").read_text() == "years of work"
    for _ in range(2):
        bx.predictions(model, several, path=tmp_path / "again.zarr", seed=1)


def test_labels_of_draws_come_back(model, several):
    part = several.isel(draw=slice(1, 3))
    found = bx.predictions(model, part, seed=1)
    assert list(found["draw"].values) == [1, 2]
    one = bx.predictions(model, several.isel(chain=[1]), num_draws=1, seed=1)
    assert one["f"].shape[:2] == (1, 1) and list(one["chain"].values) == [1]
    terms = bx.log_likelihood(model, several, num_draws=2)["log_likelihood"]
    assert terms.shape == (2, 1, 14)


def test_observations_by_label_list_or_mask(model):
    everything = bx.predictions(model, THETA, keep="summary")["f_mean"]
    mask = np.arange(14) % 5 == 1
    for obs in (mask, [1, 6, 11]):
        found = bx.predictions(model, THETA, obs=obs, keep="summary")["f_mean"]
        assert list(found["obs"].values) == [1, 6, 11]
        assert_allclose(found, everything[mask], rtol=1e-10)
    assert bx.predictions(model, THETA, obs=3, keep="summary").sizes["obs"] == 1


def test_only_the_draw_that_needs_jitter_gets_some(regression, monkeypatch):
    X, _, y, X_new, _ = regression
    rows = np.repeat(np.arange(14), 2)
    X, y = X.iloc[rows].reset_index(drop=True), y.iloc[rows].reset_index(drop=True)
    posterior = xr.Dataset(
        {
            "lengthscale": (("chain", "draw", "feature"), [[[1.0, 1.0], [5.0, 5.0]]]),
            "amplitude": (("chain", "draw"), [[1.0, 10.0]]),
            "sigma": (("chain", "draw"), [[0.3, 1e-9]]),
        },
        {"feature": ["age", "dose"]},
    )
    tree = xr.DataTree.from_dict({"posterior": posterior})
    jitters = []
    original = turns.with_jitter

    def recorded(attempt):
        arrays, jitter = original(attempt)
        jitters.append(jitter)
        return arrays, jitter

    monkeypatch.setattr(turns, "with_jitter", recorded)
    found = bx.predictions(bx.GP(X, y), tree, X_new, seed=1)
    assert jitters[0] == 0.0 < jitters[1] == found.attrs["relative_jitter"]
