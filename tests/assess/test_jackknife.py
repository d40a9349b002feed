"""Jackknife+ intervals: against refits in NumPy, and their coverage where the model is wrong."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx.assess.jackknife import order_statistics, place

QUIET = {"progressbar": False}
THETA = {"lengthscale": [1.3, 0.8], "amplitude": 0.9, "sigma": 0.5}
RNG = np.random.default_rng(11)
X = pd.DataFrame(RNG.normal([3.0, -1.0], [2.0, 0.5], (40, 2)), columns=["a", "b"])
Y = pd.Series(5 + np.sin(X["a"]) + X["b"] + 0.4 * RNG.standard_t(3, 40), name="y")
FIT, HELD, NEW = slice(0, 15), slice(15, 33), slice(33, 40)


def kernel(A, B, theta):
    gap = (A[:, None] - B) / np.ravel(theta["lengthscale"])
    return theta["amplitude"] ** 2 * np.exp(-0.5 * (gap**2).sum(axis=-1))


def predicted(rows, y, at, theta, fitted):
    """Posterior mean of f given some rows, with scales of the rows `fitted`."""
    center, scale = X[fitted].values.mean(axis=0), X[fitted].values.std(axis=0)
    level, spread = Y[fitted].mean(), Y[fitted].values.std()
    rows, at = (rows - center) / scale, (at - center) / scale
    K = kernel(rows, rows, theta) + theta["sigma"] ** 2 * np.eye(len(rows))
    return level + spread * kernel(at, rows, theta) @ np.linalg.solve(K, (y - level) / spread)


def by_refits(theta, fitted, held, prob):
    """Intervals by their definition, one refit for each row that is left out."""
    rows, at = X.values, X[NEW].values
    always = np.arange(40)[FIT] if held == HELD else np.arange(0)
    places = np.arange(40)[held]
    low, high, residuals = [], [], []
    for i in places:
        others = np.concatenate([always, places[places != i]])
        given = rows[others], Y.values[others]
        own = [predicted(*given, point, t, fitted) for t in theta for point in (rows[[i]], at)]
        left, new = np.mean(own[::2], axis=0), np.mean(own[1::2], axis=0)
        residuals.append(Y.values[i] - left[0])
        low.append(new - abs(residuals[-1]))
        high.append(new + abs(residuals[-1]))
    n, alpha = len(places), 1 - prob
    low, high = np.sort(low, axis=0), np.sort(high, axis=0)
    k = int(np.ceil((1 - alpha) * (n + 1) - 1e-9))  # q+ is the k-th smallest
    return np.stack([low[n - k], high[k - 1]], axis=1), np.array(residuals)


def drawn(thetas):
    """Draws of the hyperparameters, as a fit has them."""
    values = {
        name: (dims, np.stack([t[name] for t in thetas])[None])
        for name, dims in (
            ("lengthscale", ("chain", "draw", "feature")),
            ("amplitude", ("chain", "draw")),
            ("sigma", ("chain", "draw")),
        )
    }
    coords = {"chain": [0], "draw": np.arange(len(thetas)), "feature": ["a", "b"]}
    return xr.DataTree.from_dict({"posterior": xr.Dataset(values, coords)})


@pytest.mark.parametrize("prob", [0.9, 0.5])
def test_intervals_are_those_of_refits(prob):
    model = bx.GP(X[FIT], Y[FIT])
    thetas = [THETA, {"lengthscale": [0.7, 2.0], "amplitude": 1.4, "sigma": 0.3}]
    options = {"calibration": (X[HELD], Y[HELD]), "ci_prob": prob}
    found = bx.jackknife_plus(model, drawn(thetas), X[NEW], **options, **QUIET)
    ends, residuals = by_refits(thetas, FIT, HELD, prob)
    assert_allclose(found["jackknife_interval"], ends, rtol=1e-9)
    assert_allclose(found["left_out_residual"], residuals, rtol=1e-8)
    whole = np.arange(40)[:33]
    given = X.values[whole], Y.values[whole], X[NEW].values
    mean = np.mean([predicted(*given, t, FIT) for t in thetas], axis=0)
    assert_allclose(found["jackknife_mean"], mean, rtol=1e-9)
    assert found.attrs["guaranteed"] == pytest.approx(2 * prob - 1)
    assert found["obs"].values.tolist() == [*range(33, 40)]


def test_training_rows_are_left_out_without_other_rows():
    model, own = bx.GP(X[HELD], Y[HELD]), slice(15, 33)
    found = bx.jackknife_plus(model, THETA, X[NEW], **QUIET)
    places = np.arange(40)[own]
    residuals = []
    for i in places:
        others = places[places != i]
        given = X.values[others], Y.values[others], X.values[[i]]
        residuals.append(Y.values[i] - predicted(*given, THETA, HELD)[0])
    assert_allclose(found["left_out_residual"], residuals, rtol=1e-8)
    known = bx.loo_predictions(model, THETA, **QUIET)["residual"]
    assert_allclose(found["left_out_residual"], known, rtol=1e-8)
    given = [(X.values[o], Y.values[o]) for i in places for o in [places[places != i]]]
    each = np.array([predicted(*rows, X[NEW].values, THETA, HELD) for rows in given]).T
    size = np.abs(residuals)
    low, high = np.sort(each - size, axis=1), np.sort(each + size, axis=1)
    ends = np.stack([low[:, 0], high[:, -1]], axis=1)  # 90% of 18 rows: the outermost
    assert_allclose(found["jackknife_interval"], ends, rtol=1e-8)
    assert found.attrs["guaranteed"] == 0.0


@pytest.mark.parametrize("method", ["gpx", "inducing", "kernel"])
def test_other_models_are_conditioned_on_the_other_rows(method):
    """Their predictions from all rows are those of the model of all rows, on the same scale."""
    options = {"scale": False}
    theta = dict(THETA)
    if method == "gpx":
        theta["sigma_w"] = 0.2
    if method == "kernel":
        options["kernel"] = "matern52"
    if method == "inducing":
        options["approximation"] = bx.Inducing(X[:33].values)
    family = bx.GPX if method == "gpx" else bx.GP
    y = Y - 5
    part, whole = family(X[FIT], y[FIT], **options), family(X[:33], y[:33], **options)
    calibration = X[HELD], y[HELD]
    found = bx.jackknife_plus(part, theta, X[NEW], calibration=calibration, **QUIET)
    expected = bx.predictions(whole, theta, X[NEW], keep="summary", **QUIET)["f_mean"]
    tolerance = 1e-4 if method == "inducing" else 1e-8  # the jitter of the inducing points
    assert_allclose(found["jackknife_mean"], expected, rtol=tolerance, atol=tolerance)


def test_places_are_those_of_the_definition():
    for n in range(1, 60):
        for percent in (50, 80, 90, 95):
            k = -(-percent * (n + 1) // 100)  # exact in integers
            if k > n:
                with pytest.raises(ValueError, match="too few"):
                    place(percent / 100, n)
                continue
            assert place(percent / 100, n) == n + 1 - k
            predictions, size = RNG.normal(size=(3, n)), np.abs(RNG.normal(size=n))
            ends = order_statistics(predictions, size, place(percent / 100, n))
            low, high = np.sort(predictions - size), np.sort(predictions + size)
            assert_allclose(ends, np.stack([low[:, n - k], high[:, k - 1]], axis=1))


def test_coverage_is_guaranteed_where_the_model_is_wrong():
    """By simulation, with wrong hyperparameters and noise of heavy tails that grows with x."""
    rng, inside, normal = np.random.default_rng(3), [], []
    wrong = {"lengthscale": [0.3], "amplitude": 0.5, "sigma": 0.1}
    for _ in range(60):
        x = rng.uniform(-2, 2, (110, 1))
        noise = (0.1 + x[:, 0] ** 2) * rng.standard_t(2, 110)
        y = np.sin(3 * x[:, 0]) + noise
        model = bx.GP(x[:20], y[:20])
        given = {"calibration": (x[20:60], y[20:60])}
        found = bx.jackknife_plus(model, wrong, x[60:], **given, **QUIET)
        low, high = found["jackknife_interval"].values.T
        inside.append(((low <= y[60:]) & (y[60:] <= high)).mean())
        whole = bx.predictions(bx.GP(x[:60], y[:60]), wrong, x[60:], keep="summary", **QUIET)
        low, high = whole["y_interval"].values.T
        normal.append(((low <= y[60:]) & (y[60:] <= high)).mean())
    error = np.std(inside) / np.sqrt(len(inside))
    assert np.mean(inside) > 0.8 + 2 * error  # the guarantee of 1 - 2 alpha
    assert np.mean(inside) > 0.9 - 2 * error  # what is usual
    assert np.mean(normal) < 0.8


def test_models_without_such_intervals_are_refused():
    model = bx.GP(X, Y, likelihood="student_t")
    for other, what in (
        (model, "another likelihood"),
        (bx.GP(X, Y, groups=["p", "q"] * 20), "groups"),
        (bx.GPX(X, Y), "a GPX without calibration"),
        (bx.GPX(X[["a"]], Y, X[["b"]]), "a Z of its own"),
        (bx.GP(X, Y, approximation=bx.Inducing(5)), "an approximation without"),
        (bx.GP(X, pd.DataFrame({"y": Y, "z": Y})), "several outputs"),
    ):
        with pytest.raises(ValueError, match=what):
            bx.jackknife_plus(other, THETA, X[NEW], **QUIET)
    model = bx.GP(X[FIT], Y[FIT])
    with pytest.raises(ValueError, match="8 calibration rows, too few .* at least 9"):
        bx.jackknife_plus(model, THETA, X[NEW], calibration=(X[:8], Y[:8]), **QUIET)
    with pytest.raises(ValueError, match="y has shape"):
        bx.jackknife_plus(model, THETA, X[NEW], calibration=(X[:9], Y[:8]), **QUIET)
    exact = THETA | {"sigma": 1e-5}
    with pytest.raises(ValueError, match="noise is almost 0"):
        bx.jackknife_plus(model, exact, X[NEW], **QUIET)


def test_the_result_can_be_handed_over():
    model, calibration = bx.GP(X[FIT], Y[FIT]), (X[HELD], Y[HELD])
    found = bx.jackknife_plus(model, THETA, X[NEW], calibration=calibration, **QUIET)
    assert "90% jackknife+ predictive interval" in bx.describe(found)
    assert '"function": "jackknife_plus"' in bx.to_json(found, model=model, idata=THETA)


def test_rows_of_the_fit_are_no_calibration():
    model = bx.GP(X[FIT], Y[FIT])
    with pytest.raises(ValueError, match="15 rows that the model was fitted to, of 15"):
        bx.jackknife_plus(model, THETA, X[NEW], calibration=(X[FIT], Y[FIT]), **QUIET)
    with pytest.raises(ValueError, match="calibration is a DataFrame. Pass the rows and their"):
        bx.jackknife_plus(model, THETA, X[NEW], calibration=X[HELD], **QUIET)
    named = bx.GP(X[FIT].set_axis([*"abcdefghijklmno"]), Y[FIT].values)
    found = bx.jackknife_plus(named, THETA, X[NEW], ci_prob=0.8, **QUIET)
    assert found["calibration"].values.tolist() == [*"abcdefghijklmno"]
