"""Second derivatives of processes and models, against differences of first derivatives."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from test_derivative_processes import (
    FAMILIES,
    OPS,
    SETTINGS,
    STEP,
    THETA,
    D,
    M,
    Posed,
    evaluated,
    families,
)

import bayes_gpx as bx

QUIET = {"progressbar": False}


@pytest.fixture(params=SETTINGS)
def posed(request, rng):
    return Posed(request.param, rng)


def moved_gradients(x):
    """Points for central differences, and the matrix from gradients there to Hessians."""
    moves = [sign * STEP * np.eye(D)[i] for i in range(D) for sign in (1, -1)]
    points = np.concatenate([x + move for move in moves])
    differences = np.zeros((M, D, D, 2 * D, M, D))
    for i in range(D):
        for j in range(D):
            differences[np.arange(M), i, j, 2 * i, np.arange(M), j] = 0.5 / STEP
            differences[np.arange(M), i, j, 2 * i + 1, np.arange(M), j] = -0.5 / STEP
    return points, differences.reshape((M * D * D, -1))


def test_hessians_are_the_limit_of_differences_of_gradients(posed):
    hessian = posed.ask(OPS.hessian, posed.x)
    mean, cov, block, variance = evaluated(
        hessian.mean, hessian.cov, hessian.block, hessian.variance
    )
    points, differences = moved_gradients(posed.x)
    gradient = posed.ask(OPS.gradient, points)
    g_mean, g_cov = evaluated(gradient.mean, gradient.cov)
    scale = abs(cov).max()
    assert_allclose(mean, differences @ g_mean, atol=1e-6)
    assert_allclose(cov, differences @ g_cov @ differences.T, atol=1e-6 * scale)
    assert_allclose(variance, np.diag(cov), rtol=1e-9)
    size = D * D
    for i in range(M):
        own = slice(i * size, (i + 1) * size)
        assert_allclose(block[i], cov[own, own], atol=1e-12 * scale)
    pairs = block.reshape((M, D, D, D, D))
    assert_allclose(pairs, pairs.swapaxes(1, 2), atol=1e-12 * scale)


@pytest.mark.slow
def test_hessians_are_asked_jointly_with_what_they_are_derivatives_of(posed):
    """The covariance with each other operator is the difference of the gradient's with it."""
    z = [] if posed.setting == "GP" else [pt.as_tensor(posed.features(posed.x))]
    x, baseline = pt.as_tensor(posed.x), pt.as_tensor(posed.baseline)
    others = [
        OPS.hessian(x, *z, tied=posed.tied),
        OPS.evaluate(x, *z, smooth=True),
        OPS.gradient(x, *z, tied=posed.tied),
        OPS.difference(x, baseline, *z, tied=posed.tied),
    ]
    if posed.setting in ("GP", "Z is X, intercept"):
        others.append(OPS.integrated_gradient(x, baseline, *z, tied=posed.tied))
    process, n = posed.q.process, len(others)
    points, differences = moved_gradients(posed.x)
    there = [pt.as_tensor(posed.features(points))] if z else []
    moved = OPS.gradient(pt.as_tensor(points), *there, tied=posed.tied)
    ways = [process.covariance(others[0], other) for other in others]
    back = [process.covariance(other, others[0]) for other in others]
    steps = [process.covariance(moved, other) for other in others]
    found = evaluated(*ways, *back, *steps)
    for there, here, step in zip(found[:n], found[n : 2 * n], found[2 * n :], strict=True):
        scale = abs(there).max()
        assert_allclose(there, here.T, atol=1e-13 * scale)
        assert_allclose(there, differences @ step, atol=1e-6 * scale)
    together = OPS.stack(*others[:3])
    (joint,) = evaluated(process.covariance(together, together))
    eigenvalues = np.linalg.eigvalsh(joint)
    assert eigenvalues[0] > -1e-13 * eigenvalues[-1]


@pytest.mark.parametrize("which", FAMILIES)
def test_verb_answers_in_user_units(regression, which):
    X, *_, X_new, _ = regression
    for model, theta, z in list(families(regression))[which : which + 1]:
        found = bx.derivatives(model, theta, X_new, *z, order=2, draws=3, seed=1, **QUIET)
        mean = found["second_derivative_mean"].transpose("obs", "feature", "feature_bis").values
        for j, name in enumerate(X.columns):
            step = 1e-4 * X[name].std()
            ends = [
                bx.derivatives(
                    model,
                    theta,
                    X_new.assign(**{name: X_new[name] + s * step}),
                    *z,
                    keep="summary",
                    **QUIET,
                )["derivative_mean"].values
                for s in (1, -1)
            ]
            numeric = (ends[0] - ends[1]) / (2 * step)
            assert_allclose(mean[:, j], numeric, rtol=1e-5, atol=1e-6 * abs(mean).max())
        assert (found["second_derivative_sd"] > 0).all()
        assert found["second_derivative"].dims == ("chain", "draw", "obs", "feature", "feature_bis")
        for variable in ("second_derivative", "second_derivative_mean", "second_derivative_sd"):
            values = found[variable].values
            assert np.array_equal(values, values.swapaxes(-1, -2))
        assert found.attrs["units"].endswith("per unit of the feature and of feature_bis")
        assert list(found["feature_bis"].values) == list(X.columns)


@pytest.mark.parametrize("joint", [False, True])
def test_draws_have_the_stated_moments(regression, joint):
    X, _, y, X_new, _ = regression
    model, options = bx.GP(X, y), {"draws": 6000, "seed": 4, "order": 2, **QUIET}
    found = bx.derivatives(model, THETA, X_new[:3], joint=joint, **options)
    draws, sd = found["second_derivative"].values[0], found["second_derivative_sd"].values
    error = abs(draws.mean(axis=0) - found["second_derivative_mean"].values)
    assert (error < 5 * sd / np.sqrt(6000)).all()
    assert_allclose(draws.std(axis=0), sd, rtol=0.06)
    summary = bx.derivatives(model, THETA, X_new[:3], order=2, keep="summary", **QUIET)
    assert "second_derivative" not in summary
    for name in ("second_derivative_mean", "second_derivative_sd"):
        assert_allclose(summary[name], found[name], rtol=1e-9)


def test_features_pick_both_axes_and_draws_stream(regression, tmp_path):
    X, _, y, X_new, _ = regression
    model, options = bx.GP(X, y), {"draws": 20, "seed": 4, "order": 2, **QUIET}
    whole = bx.derivatives(model, THETA, X_new, **options)
    name = X.columns[1]
    one = bx.derivatives(model, THETA, X_new, features=[name], **options)
    turned = bx.derivatives(model, THETA, X_new, features=list(X.columns[::-1]), **options)
    for variable in ("second_derivative_mean", "second_derivative_sd"):
        picked = whole[variable].sel(feature=[name], feature_bis=[name])
        assert_allclose(one[variable], picked, rtol=1e-12)
        assert_allclose(turned[variable], whole[variable].values[:, ::-1, ::-1], rtol=1e-12)
    assert one["second_derivative"].shape == (1, 20, len(X_new), 1, 1)
    assert list(one["value"]["feature"].values) == [name]
    stored = bx.derivatives(model, THETA, X_new, path=tmp_path / "store.zarr", **options)
    assert stored["second_derivative"].dims == whole["second_derivative"].dims
    assert_allclose(stored["second_derivative"], whole["second_derivative"], rtol=1e-12)


def test_what_cannot_be_asked_is_refused(regression):
    X, _, y, _, _ = regression
    with pytest.raises(ValueError, match="covariance=True is for order=1"):
        bx.derivatives(bx.GP(X, y), THETA, order=2, covariance=True)
    for order in (0, 3, True, "2"):
        with pytest.raises(ValueError, match=r"order is .*. Pass 1 or 2"):
            bx.derivatives(bx.GP(X, y), THETA, order=order)
    with pytest.raises(ValueError, match="Matern32 has no Hessian.*Matern52"):
        bx.derivatives(bx.GP(X, y, kernel="matern32"), THETA, order=2, **QUIET)
    process = bx.GaussianProcess(pm.gp.cov.Matern32(D, ls=1.0))
    with pytest.raises(ValueError, match="Matern32 has no Hessian"):
        process.block(OPS.hessian(pt.zeros((1, D))))


def test_curvature_by_hand(rng):
    """One feature: the derivatives of the squared exponential, written out."""
    x, y = np.array([0.0, 1.0, 2.5]), np.array([1.0, -1.0, 0.5])
    model = bx.GP(x[:, None], y, scale=False)
    theta = {"lengthscale": [1.0], "amplitude": 1.0, "sigma": 0.5}
    new = rng.normal(size=(4, 1))
    found = bx.derivatives(model, theta, new, order=2, keep="summary", **QUIET)
    at = new - x
    K = np.exp(-0.5 * (x[:, None] - x) ** 2) + 0.25 * np.eye(3)
    bend = (at**2 - 1) * np.exp(-0.5 * at**2)
    mean = bend @ np.linalg.solve(K, y)
    assert_allclose(found["second_derivative_mean"][:, 0, 0], mean, atol=1e-10)
    variance = 3.0 - (bend * np.linalg.solve(K, bend.T).T).sum(axis=1)
    assert_allclose(found["second_derivative_sd"][:, 0, 0], np.sqrt(variance), rtol=1e-9)
