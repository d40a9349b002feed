"""Slopes: averages, probabilities and bands of derivatives, against explicit joint normals."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from scipy.optimize import brentq
from scipy.stats import norm

import bayes_gpx as bx
from known_draws import known
from oracle import expquad, expquad_slopes

LENGTHSCALE, AMPLITUDE, SIGMA = np.array([0.9, 1.6]), 1.3, 0.3
THETA = {"lengthscale": LENGTHSCALE, "amplitude": AMPLITUDE, "sigma": SIGMA}
SCALED = {"lengthscale": [0.9, 1.7], "amplitude": 0.8, "sigma": 0.4}
DRAWS, M, D = 4000, 7, 2
QUIET = {"seed": 1, "progressbar": False}


def joint_normal(x, y, new, lengthscale):
    """Mean and covariance of all gradients at `new`, obs-major."""
    C = AMPLITUDE**2 * expquad(x, x, lengthscale) + SIGMA**2 * np.eye(len(x))
    with_values, _ = expquad_slopes(new, x, lengthscale)
    _, prior = expquad_slopes(new, new, lengthscale)
    gain = AMPLITUDE**2 * np.linalg.solve(C, with_values.T).T
    return gain @ y, AMPLITUDE**2 * (prior - gain @ with_values.T)


@pytest.fixture(scope="module")
def posed():
    rng = np.random.default_rng(5)
    x, new = rng.normal(size=(12, D)), rng.normal(size=(M, D))
    y = np.sin(x[:, 0]) + 0.3 * rng.normal(size=12)
    mean, cov = joint_normal(x, y, new, LENGTHSCALE)
    return bx.GP(x, y, scale=False), new, mean, cov


@pytest.fixture(scope="module")
def found(posed):
    model, new, _, _ = posed
    return bx.slopes(model, THETA, new, draws=DRAWS, rope=(-0.2, 0.3), ci_prob=0.9, **QUIET)


def near(probability):
    """Tolerance of a share of the draws: five standard errors."""
    return 5 * np.sqrt(probability * (1 - probability) / DRAWS).max()


def test_averages_follow_the_joint_normal(posed, found):
    *_, mean, cov = posed
    average = np.kron(np.ones(M) / M, np.eye(D))
    expected, sd = average @ mean, np.sqrt(np.diag(average @ cov @ average.T))
    assert_allclose(found["average_slope_mean"], expected, atol=1e-10)
    # Five standard errors of a standard deviation: 5 / sqrt(2 DRAWS).
    assert_allclose(found["average_slope_sd"], sd, rtol=0.056)
    independent = np.sqrt(np.diag(average @ np.diag(np.diag(cov)) @ average.T))
    assert (abs(independent / sd - 1) > 0.2).any()
    error = found["average_slope"].mean(["chain", "draw"]).values - expected
    assert (abs(error) < 5 * sd / np.sqrt(DRAWS)).all()
    positive = norm.cdf(expected / sd)
    assert_allclose(found["probability_positive"], positive, atol=near(positive))
    inside = norm.cdf((0.3 - expected) / sd) - norm.cdf((-0.2 - expected) / sd)
    assert_allclose(found["probability_in_rope"], inside, atol=near(inside))


def test_derivatives_have_signs_one_by_one(posed, found):
    *_, mean, cov = posed
    positive = norm.cdf(mean / np.sqrt(np.diag(cov))).reshape((M, D))
    assert_allclose(found["derivative_probability_positive"], positive, atol=near(positive))


def test_bands_cover_what_they_say(posed, found):
    """90 % of fresh draws: one by one in pointwise intervals, as whole curves in the other band."""
    *_, mean, cov = posed
    rng = np.random.default_rng(6)
    fresh = rng.multivariate_normal(mean, cov, 20_000, method="eigh").reshape((-1, M, D))

    def inside(band):
        low, high = found[band].sel(ci_bound="lower"), found[band].sel(ci_bound="upper")
        return (low.values < fresh) & (fresh < high.values)

    # Five standard errors of the quantile and of the fresh share together.
    tolerance = 5 * np.sqrt(0.09 * (1 / DRAWS + 1 / 20_000))
    assert_allclose(inside("band_pointwise").mean(axis=0), 0.9, atol=tolerance)
    assert_allclose(inside("band_simultaneous").all(axis=1).mean(axis=0), 0.9, atol=tolerance)
    assert (inside("band_pointwise").all(axis=1).mean(axis=0) < 0.8).all()
    over_features = inside("band_simultaneous_features").all(axis=2).mean(axis=0)
    assert_allclose(over_features, 0.9, atol=tolerance)
    assert (inside("band_pointwise").all(axis=2).mean(axis=0) < 0.88).all()


def test_bands_lie_around_the_mean_and_in_each_other(posed, found):
    middle = found["derivative_mean"]
    for band in ("band_pointwise", "band_simultaneous", "band_simultaneous_features"):
        assert_allclose(found[band].mean("ci_bound"), middle, atol=1e-12)
        assert found[band].dims == ("obs", "feature", "ci_bound")
    wide, narrow = (
        found[f"band_{name}"].diff("ci_bound") for name in ("simultaneous", "pointwise")
    )
    assert (wide >= narrow).all()
    c = (wide.squeeze() / found["derivative_sd"]).values / 2
    assert_allclose(c, np.broadcast_to(c[0], c.shape))
    across = found["band_simultaneous_features"].diff("ci_bound").squeeze()
    assert (across >= narrow.squeeze()).all()
    ratio = (across / found["derivative_sd"]).values / 2
    assert_allclose(ratio[:, 0], ratio[:, 1])
    model, new, _, _ = posed
    less = bx.slopes(model, THETA, new, draws=DRAWS, ci_prob=0.5, **QUIET)
    assert (less["band_simultaneous"].diff("ci_bound") < wide).all()
    default = bx.slopes(model, THETA, new, draws=20, **QUIET)
    assert default.attrs["ci_prob"] == 0.9
    assert "rope" not in default and "derivative" not in default


def test_bands_hold_what_they_should_of_several_fits(posed):
    """Over draws of the hyperparameters too, against the two normals of two fits."""
    model, new, _, _ = posed
    each = np.array([1.0, 2.0])
    posterior = xr.Dataset(
        {
            "lengthscale": (("chain", "draw", "feature"), np.multiply.outer(each, [LENGTHSCALE])),
            "amplitude": (("chain", "draw"), np.full((2, 1), AMPLITUDE)),
            "sigma": (("chain", "draw"), np.full((2, 1), SIGMA)),
        },
        {"chain": range(2), "draw": range(1), "feature": list(model.training.X.columns)},
    ).isel(draw=np.zeros(500, int))
    idata = xr.DataTree.from_dict({"posterior": posterior.assign_coords(draw=range(500))})
    found = bx.slopes(model, idata, new, ci_prob=0.9, **QUIET)
    assert found["average_slope"].dims == ("chain", "draw", "feature")
    x, y = model.training.X.values, model.training.y
    normals = [joint_normal(x, y, new, LENGTHSCALE * scale) for scale in each]
    average = np.kron(np.ones(M) / M, np.eye(D))
    means = np.stack([average @ mean for mean, _ in normals])
    within = np.mean([np.diag(average @ cov @ average.T) for _, cov in normals], axis=0)
    assert_allclose(found["average_slope_mean"], means.mean(axis=0), atol=1e-10)
    # Five standard errors of a standard deviation from 1000 draws.
    assert_allclose(found["average_slope_sd"], np.sqrt(within + means.var(axis=0)), rtol=0.12)
    rng = np.random.default_rng(7)
    fresh = np.concatenate(
        [rng.multivariate_normal(mean, cov, 10_000, method="eigh") for mean, cov in normals]
    ).reshape((-1, M, D))
    low, high = found["band_simultaneous"].transpose("ci_bound", ...).values
    inside = ((low < fresh) & (fresh < high)).all(axis=1).mean(axis=0)
    assert_allclose(inside, 0.9, atol=5 * np.sqrt(0.09 * (1 / 1000 + 1 / 20_000)))


def test_one_observation_needs_no_wider_band(posed):
    model, new, _, _ = posed
    one = bx.slopes(model, THETA, new[:1], draws=DRAWS, **QUIET)
    c, exact = _factors(one)
    # Five standard errors of a quantile over draws: sqrt(0.9 * 0.1 / DRAWS) / (2 phi(1.645)).
    assert_allclose(c, exact, atol=5 * 0.0047 / 0.206)


def _factors(found):
    """By how many sds the simultaneous and the pointwise band extend to either side."""
    for name in ("simultaneous", "pointwise"):
        width = found[f"band_{name}"].diff("ci_bound").squeeze("ci_bound")
        yield width / found["derivative_sd"] / 2


@pytest.mark.parametrize("verb", ["slopes", "path_slopes"])
def test_pointwise_bands_are_quantiles_of_the_mixture_of_fits(posed, verb):
    """By root finding, between two fits whose normals lie apart, at another probability."""
    model, new, _, _ = posed
    thetas = [THETA | {"lengthscale": LENGTHSCALE * scale} for scale in (1.0, 3.0)]
    asked = (new, None) if verb == "slopes" else (new[:1], None)
    options = {"baseline": new[1], "steps": 2} if verb == "path_slopes" else {}
    one, other = (
        getattr(bx, verb)(model, known(model, thetas), *asked, ci_prob=0.6, **options, **QUIET | s)
        for s in ({}, {"seed": 2})
    )
    assert one.attrs["ci_prob"] == 0.6
    x, y = model.training.X.values, model.training.y
    places = one["value"].values
    normals = [joint_normal(x, y, places, theta["lengthscale"]) for theta in thetas]
    means = np.stack([mean for mean, _ in normals])
    sds = np.stack([np.sqrt(np.diag(cov)) for _, cov in normals])
    for bound, share in (("lower", 0.2), ("upper", 0.8)):
        found = one["band_pointwise"].sel(ci_bound=bound)
        assert_allclose(other["band_pointwise"].sel(ci_bound=bound), found, rtol=1e-12)
        for end, m, s in zip(found.values.ravel(), means.T, sds.T, strict=True):
            ends = m.min() - 9 * s.max(), m.max() + 9 * s.max()
            below = brentq(_share_left, *ends, args=(m, s, share), xtol=1e-12)
            assert_allclose(end, below, rtol=1e-7, atol=1e-9)


def _share_left(x, means, sds, share):
    return norm.cdf(x, means, sds).mean() - share


def test_a_straight_line_needs_no_wider_band(rng):
    """Its derivative is the same everywhere, so one interval says all."""
    x = rng.normal(size=(9, 1))
    model = bx.GP(x, x[:, 0] + 0.3 * rng.normal(size=9), kernel="linear")
    values = {name: np.full((1,) * ndim, 0.9) for name, ndim in model.hyperparameters.items()}
    theta = {name: v if v.ndim else float(v) for name, v in values.items()}
    found = bx.slopes(model, theta, draws=DRAWS, **QUIET)
    c, exact = _factors(found)
    assert_allclose(c, exact, atol=5 * 0.0049 / 0.222)
    # Five standard errors of a standard deviation: 5 / sqrt(2 DRAWS).
    assert_allclose(found["average_slope_sd"], found["derivative_sd"].mean("obs"), rtol=0.056)


def test_a_feature_without_derivative_has_a_band_of_no_width(regression):
    X, _, y, X_new, _ = regression

    def of_age(d):
        return pm.gp.cov.ExpQuad(d, ls=1.0, active_dims=[0])

    found = bx.slopes(bx.GP(X, y, kernel=of_age), {"sigma": 0.3}, X_new, rope=(0, 1), **QUIET)
    assert not any(found[name].isnull().any() for name in found)
    dose = found.sel(feature="dose")
    bands = ("band_pointwise", "band_simultaneous", "band_simultaneous_features")
    for name in (*bands, "average_slope", "probability_positive"):
        assert (dose[name] == 0).all()
    assert dose["probability_in_rope"] == 1
    assert (found["derivative_sd"].sel(feature="age") > 0).all()


def test_units_do_not_matter(regression):
    """Not even where one feature is counted in units of 1e-10 of the other's."""
    X, _, y, X_new, _ = regression
    units = np.array([1.0, 1e10])
    here = bx.slopes(bx.GP(X, y), SCALED, X_new, rope=(-1.0, 2.0), **QUIET)
    ropes = {"dose": (-1e-10, 2e-10), "age": (-1.0, 2.0)}
    there = bx.slopes(bx.GP(X * units, y), SCALED, X_new * units, rope=ropes, **QUIET)
    bands = ("band_simultaneous", "band_simultaneous_features")
    for name in ("average_slope", "average_slope_sd", *bands, "rope"):
        factor = here[name].feature.copy(data=units)
        assert_allclose(there[name] * factor, here[name], rtol=1e-5, atol=1e-6)
    for name in ("probability_in_rope", "probability_positive"):
        assert_allclose(there[name], here[name], atol=1e-3)


def test_what_varies_alone_is_named(regression):
    X, Z, y, X_new, Z_new = regression
    theta = {**SCALED, "sigma_w": 0.3}
    grid = X_new.assign(age=5.0)
    held = Z_new.iloc[[0] * 4].set_axis(Z_new.index)
    for model, arguments, along in (
        (bx.GP(X, y), (SCALED, grid), "dose"),
        (bx.GP(X, y), (SCALED, X_new), None),
        (bx.GP(X, y), (SCALED, grid.iloc[:1]), None),
        (bx.GPX(X, y), (theta, grid), "dose"),
        (bx.GPX(X, y, Z), (theta, grid, held), "dose"),
        (bx.GPX(X, y, Z), (theta, grid, Z_new), None),
    ):
        found = bx.slopes(model, *arguments, features=["age"], draws=5, **QUIET)
        assert found.attrs.get("along") == along
        assert list(found["feature"].values) == ["age"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rope": 0.1}, "rope is 0.1. Pass"),
        ({"rope": (1.0, -1.0)}, "low <= high"),
        ({"rope": (np.nan, 1.0)}, "low <= high"),
        ({"rope": (0.0, 1.0, 2.0)}, "low <= high"),
        ({"rope": {"age": (0, 1)}}, r"region for each of \['age', 'dose'\]"),
        ({"rope": {"age": (0, 1), "dose": (0, 1), "x": (0, 1)}}, "'x'"),
        ({"rope": {"age": (0, 1), "dose": "wide"}}, "low <= high"),
        ({"features": ["dosage"]}, "features: unknown 'dosage'"),
        ({"features": "age"}, "list of different names"),
        ({"ci_prob": 1.0}, "ci_prob is 1.0"),
        ({"ci_prob": "89"}, "ci_prob is '89'"),
        ({"obs": [99]}, "no rows labelled"),
    ],
)
def test_nonsense_is_refused(regression, options, message):
    X, _, y, X_new, _ = regression
    with pytest.raises(ValueError, match=message):
        bx.slopes(bx.GP(X, y), SCALED, X_new, **options, **QUIET)


WORLDS = 2000


@pytest.mark.slow
def test_simultaneous_bands_cover_the_whole_true_derivative():
    """Truth and data from the prior, hyperparameters known."""
    rng = np.random.default_rng(2026)
    grid = np.linspace(-2, 2, 25)[:, None]
    theta = {"lengthscale": 0.8, "amplitude": AMPLITUDE, "sigma": SIGMA}
    held = {"pointwise": 0, "simultaneous": 0}
    for world in range(WORLDS):
        x = rng.uniform(-2, 2, (12, 1))
        with_values, of_slopes = expquad_slopes(grid, x, 0.8)[0], expquad_slopes(grid, grid, 0.8)[1]
        joint = np.block([[expquad(x, x, 0.8), with_values.T], [with_values, of_slopes]])
        values, vectors = np.linalg.eigh(joint)
        drawn = vectors @ (np.sqrt(np.maximum(values, 0)) * rng.normal(size=len(values)))
        f, truth = AMPLITUDE * drawn[:12], AMPLITUDE * drawn[12:]
        model = bx.GP(x, f + SIGMA * rng.normal(size=12), ard=False, scale=False)
        found = bx.slopes(
            model, theta, grid, draws=2000, ci_prob=0.9, seed=world, progressbar=False
        )
        for name in held:
            low, high = found[f"band_{name}"].values[:, 0].T
            held[name] += bool(((low < truth) & (truth < high)).all())
    # The bounds are three standard errors of 2000 worlds to either side.
    assert 0.88 < held["simultaneous"] / WORLDS < 0.92, held
    assert held["pointwise"] / WORLDS < 0.8, held


@pytest.mark.slow
def test_bands_over_features_cover_the_whole_true_gradient():
    """Truth and data from the prior, hyperparameters known, at one place in three features."""
    rng = np.random.default_rng(2027)
    lengthscale, here = np.array([0.9, 1.4, 2.0]), np.array([[0.2, -0.3, 0.1]])
    theta = {"lengthscale": lengthscale, "amplitude": AMPLITUDE, "sigma": SIGMA}
    held = {"pointwise": 0, "simultaneous_features": 0}
    for world in range(WORLDS):
        x = rng.uniform(-2, 2, (12, 3))
        with_values = expquad_slopes(here, x, lengthscale)[0]
        of_slopes = expquad_slopes(here, here, lengthscale)[1]
        joint = np.block([[expquad(x, x, lengthscale), with_values.T], [with_values, of_slopes]])
        drawn = np.linalg.cholesky(joint + 1e-12 * np.eye(15)) @ rng.normal(size=15)
        f, truth = AMPLITUDE * drawn[:12], AMPLITUDE * drawn[12:]
        model = bx.GP(x, f + SIGMA * rng.normal(size=12), scale=False)
        found = bx.slopes(
            model, theta, here, draws=2000, ci_prob=0.9, seed=world, progressbar=False
        )
        for name in held:
            low, high = found[f"band_{name}"].values[0].T
            held[name] += bool(((low < truth) & (truth < high)).all())
    # The bounds are three standard errors of 2000 worlds to either side.
    assert 0.88 < held["simultaneous_features"] / WORLDS < 0.92, held
    assert held["pointwise"] / WORLDS < 0.85, held
