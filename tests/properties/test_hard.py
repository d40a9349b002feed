"""Data and hyperparameters that break naive code work here: jitter is adaptive and reported."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx.numerics.linear_algebra import JITTERS, sqrt_psd, with_jitter


@pytest.mark.parametrize("lengthscale", [1e-3, 1e3])
@pytest.mark.parametrize("kernel", ["expquad", "matern32", "ratquad"])
def test_extreme_lengthscales(regression, lengthscale, kernel):
    X, Z, y, X_new, Z_new = regression
    theta = {"lengthscale": lengthscale, "amplitude": 1.0, "sigma_w": 0.1, "sigma": 0.1}
    theta |= {"alpha": 1.0} if kernel == "ratquad" else {}
    model = bx.GPX(X, y, Z, kernel=kernel)
    found = bx.contributions(model, theta, X_new, Z_new, draws=5, seed=1)
    assert np.isfinite(found["contribution"]).all()
    assert (found["contribution_sd"] > 0).all()


@pytest.mark.parametrize("sigma", [1e-3, 1e-9])
def test_duplicated_rows(regression, sigma):
    X, _, y, X_new, _ = regression
    rows = np.repeat(np.arange(14), 3)
    X, y = X.iloc[rows].reset_index(drop=True), y.iloc[rows].reset_index(drop=True)
    theta = {"lengthscale": 5.0, "amplitude": 10.0, "sigma": sigma}
    found = bx.predictions(bx.GP(X, y), theta, X_new, draws=5, seed=1)
    assert np.isfinite(found["f"]).all()
    assert found.attrs["relative_jitter"] < 1e-6
    if sigma == 1e-9:
        assert found.attrs["relative_jitter"] > 0


@pytest.mark.filterwarnings("ignore::bayes_gpx.inference.diagnostics.ConvergenceWarning")
def test_duplicated_rows_without_noise_are_fitted(regression):
    X, _, y, X_new, _ = regression
    rows = np.repeat(np.arange(14), 2)
    X, y = X.iloc[rows].reset_index(drop=True), y.iloc[rows].reset_index(drop=True)
    model = bx.GP(X, y, priors={"sigma": 1e-9})
    idata = model.fit("laplace", draws=100, seed=1, progressbar=False)
    assert 0 < idata.attrs["relative_jitter"] < 1e-6
    assert np.isfinite(idata["log_likelihood"]["y"]).all()
    found = bx.predictions(model, idata, X.iloc[:4], keep="summary")
    assert_allclose(found["f_mean"], y[:4], rtol=1e-3)


def test_jitter_is_zero_where_none_is_needed(regression):
    X, _, y, X_new, _ = regression
    theta = {"lengthscale": 1.0, "amplitude": 1.0, "sigma": 0.3}
    assert bx.predictions(bx.GP(X, y), theta, X_new, draws=2).attrs["relative_jitter"] == 0.0


def test_two_groups_of_identical_points(rng):
    X = np.repeat([[0.0], [1.0]], 10, axis=0)
    y = np.repeat([1.0, 3.0], 10) + rng.normal(0, 0.1, 20)
    model = bx.GP(X, y)
    idata = model.fit("map", progressbar=False)
    found = bx.predictions(model, idata, [[0.0], [1.0]], draws=2, seed=1)
    assert_allclose(found["f_mean"], [y[:10].mean(), y[10:].mean()], atol=0.1)
    laplace = model.fit("laplace", draws=100, seed=1, progressbar=False)
    assert np.isfinite(bx.predictions(model, laplace, seed=1)["y_sd"]).all()


def test_far_away_points_have_the_prior(regression):
    X, Z, y, _, _ = regression
    theta = {"lengthscale": 0.5, "amplitude": 0.8, "sigma_w": 0.3, "sigma": 0.2}
    model = bx.GPX(X, y, Z)
    found = bx.weights(model, theta, X.iloc[:3] + 1e6, Z.iloc[:3], draws=2, seed=1)
    unit = y.std(ddof=0) / Z.std(ddof=0).values
    assert_allclose(found["weight_mean"], np.zeros((3, 3)), atol=1e-12)
    prior = np.sqrt(0.8**2 + 0.3**2) * unit
    assert_allclose(found["weight_sd"], np.tile(prior, (3, 1)), rtol=1e-10)


def test_offset_columns_lose_nothing(regression):
    X, _, y, X_new, _ = regression
    theta = {"lengthscale": [2.0, 0.4], "amplitude": 10.0, "sigma": 1.0}
    plain = bx.predictions(bx.GP(X, y - y.mean(), scale=False), theta, X_new, draws=2)
    far = bx.GP(X + 1e6, y - y.mean(), scale=False)
    moved = bx.predictions(far, theta, X_new + 1e6, draws=2)
    # 1e6 eats ten digits of a coordinate before the package sees it.
    assert_allclose(moved["f_mean"], plain["f_mean"], rtol=1e-7)


def test_density_fails_softly(regression):
    """Hyperparameters that no float64 factor survives have density zero, not an error."""
    from bayes_gpx.inference.log_density import Density

    X, _, y, _, _ = regression
    density = Density(bx.GP(X, y)._pymc, jacobian=True)
    at = density.unconstrain({"lengthscale": 1e200, "amplitude": 1e160, "sigma": 1e-300})
    value, slope = density.value_and_slope()(at)
    assert value == -np.inf and not slope.any()


def test_jitter_grows_until_all_is_finite():
    tried = []

    def attempt(jitter):
        tried.append(jitter)
        return [np.array(1.0 if jitter > 1e-10 else np.nan)]

    _, jitter = with_jitter(attempt)
    assert tried == [0.0, *JITTERS[: JITTERS.index(jitter) + 1]]
    assert_allclose(jitter, 1e-9)
    with pytest.raises(ValueError, match="not positive definite.*check them"):
        with_jitter(lambda jitter: [np.array(np.nan)])


def test_square_roots_keep_exact_zeros():
    A = np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
    root = sqrt_psd(A)
    assert_allclose(root @ root.T, A, atol=1e-15)
    assert not root[2].any()


def test_square_roots_keep_components_of_tiny_units():
    C = np.array([[2.0, 1.0, 0.5], [1.0, 2.0, 0.0], [0.5, 0.0, 1.0]])
    units = np.array([1e10, 1.0, 1e-10])
    root = sqrt_psd(C * np.multiply.outer(units, units)) / units[:, None]
    assert_allclose(root @ root.T, C, atol=1e-14)


def test_draws_of_a_singular_covariance_do_not_hang_on_round_off():
    rng = np.random.default_rng(1)
    A, z = rng.normal(size=(48, 16)) * np.geomspace(1.0, 1e-2, 16), rng.normal(size=48)
    first, second = (sqrt_psd(B @ B.T) @ z for B in (A, A[:, rng.permutation(16)]))
    assert_allclose(first, second, rtol=0, atol=1e-11)


def test_square_roots_of_large_singular_covariances_are_exact():
    """Of 300 places whose squared exponential covariance has a numerical rank of about 60."""
    places = np.random.default_rng(2).normal(size=(300, 2))
    apart = ((places[:, None] - places) ** 2).sum(axis=-1)
    covariance = 4.0 * np.exp(-apart / 8)
    root = sqrt_psd(covariance)
    assert_allclose(root @ root.T, covariance, atol=1e-11)
    assert (root != 0).any(axis=0).sum() < 150
    assert np.isnan(sqrt_psd(np.full((3, 3), np.nan))).all()
    alike = sqrt_psd(np.ones((5, 5)))
    assert_allclose(np.ptp(alike @ np.ones(5)), 0.0, atol=1e-15)
