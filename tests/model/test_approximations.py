"""Models with an approximation: fits, files, verbs and refusals as a user meets them."""

import numpy as np
import pytest

import bayes_gpx as bx
from bayes_gpx.inference.log_density import Density
from bayes_gpx.model.inducing_points import inducing_points

rng = np.random.default_rng(2)
X = rng.uniform(-2.0, 2.0, size=(60, 2))
y = np.sin(X[:, 0]) + 0.3 * X[:, 1] ** 2 + 0.1 * rng.normal(size=60)
X_new = rng.uniform(-1.5, 1.5, size=(7, 2))
THETA = {"lengthscale": [1.2, 1.5], "amplitude": 1.1, "sigma": 0.2}
QUIET = {"progressbar": False, "draws": 4, "seed": 1}
ALL = [bx.Inducing(20), bx.HSGP(12, 3.0), bx.RandomFeatures(60)]
NAMES = [type(a).__name__ for a in ALL]


@pytest.mark.parametrize("approximation", ALL, ids=NAMES)
def test_fits_files_and_verbs(approximation, tmp_path):
    model = bx.GP(X, y, approximation=approximation)
    idata = model.fit("map", start=THETA, progressbar=False)
    bx.save(model, idata, tmp_path / "fit.nc")
    again, kept = bx.load(tmp_path / "fit.nc")
    assert again.specification == model.specification
    for verb in (bx.predictions, bx.derivatives, bx.attributions):
        first, second = (verb(m, i, X_new, **QUIET) for m, i in ((model, idata), (again, kept)))
        assert first.equals(second)
    np.testing.assert_allclose(
        second["attribution"].sum("feature"), second["difference"], atol=1e-10
    )
    assert float(second["completeness_residual_variance"].max()) < 1e-10


@pytest.mark.parametrize("likelihood", ["normal", "bernoulli"])
def test_densities_have_slopes_where_sines_have_no_power_left(likelihood):
    """At lengthscales so long that the spectral density of the faster sines is 0 in float64."""
    labels = y if likelihood == "normal" else (y > np.median(y)).astype(int)
    model = bx.GP(X, labels, likelihood=likelihood, approximation=bx.HSGP(12, 1.5))
    density = Density(model.objective, jacobian=True)
    value_and_slope = density.value_and_slope()
    x = density.unconstrain({"lengthscale": np.array([40.0, 3.0])})
    steps = 1e-5 * np.eye(len(x))
    expected = [(value_and_slope(x + s)[0] - value_and_slope(x - s)[0]) / 2e-5 for s in steps]
    np.testing.assert_allclose(value_and_slope(x)[1], expected, rtol=1e-4, atol=1e-4)
    assert (np.abs(expected) > 1e-3).any()


@pytest.mark.parametrize("approximation", ALL, ids=NAMES)
def test_training_samples_of_gpx(approximation):
    model = bx.GPX(X, y, approximation=approximation)
    theta = {**THETA, "sigma_w": 0.3}
    found = bx.contributions(model, theta, covariance=True, **QUIET)
    predicted = bx.predictions(model, theta, **QUIET)
    total = found["contribution_mean"].sum("feature") + found["offset"]
    np.testing.assert_allclose(total, predicted["f_mean"], atol=1e-10)
    spread = found["contribution_cov"].sum(("feature", "feature_bis"))
    np.testing.assert_allclose(spread, predicted["f_sd"] ** 2, atol=1e-10)


def exact_and(approximation, verb, name):
    pair = [
        verb(bx.GP(X, y, approximation=a), THETA, X_new, **QUIET) for a in (None, approximation)
    ]
    scale = float(abs(pair[0][f"{name}_mean"]).max())
    return (
        max(float(abs(pair[1][n] - pair[0][n]).max()) for n in (f"{name}_mean", f"{name}_sd"))
        / scale
    )


@pytest.mark.parametrize(
    "verb, name",
    [(bx.predictions, "f"), (bx.derivatives, "derivative"), (bx.attributions, "attribution")],
)
def test_more_of_it_is_nearer_to_the_exact_model(verb, name):
    """HSGP and inducing points to round-off; random features as the root of their number."""
    assert exact_and(bx.HSGP(30, 5.0), verb, name) < 1e-6
    assert exact_and(bx.Inducing(60), verb, name) < 1e-6
    errors = [
        np.mean([exact_and(bx.RandomFeatures(m, seed), verb, name) for seed in range(2)])
        for m in (100, 1600)
    ]
    assert errors[1] < 0.5 * errors[0] < 0.2


def test_inducing_points_in_user_units():
    shifted = 100.0 + 10.0 * X
    points = shifted[::6]
    model = bx.GP(shifted, y, approximation=bx.Inducing(points))
    scaled = model.training.X_scaling.apply(points)
    np.testing.assert_allclose(model.inducing["U"], scaled)
    weighed = bx.GPX(X, y, Z=shifted, intercept=True, approximation=bx.Inducing(5))
    assert weighed.inducing["U_Z"].shape == (5, 3)
    assert (weighed.inducing["U_Z"][:, 2] == 1).all()
    assert len(inducing_points(model.training, bx.Inducing(500))["U"]) == 60


def test_a_fit_is_a_start():
    model = bx.GP(X, y, approximation=bx.Inducing(20))
    first = model.fit("map", start=THETA, progressbar=False)
    second = model.fit("map", start=first, progressbar=False)
    assert second["starts"].to_dataset().sizes["start"] == 1
    for name, value in first["posterior"].data_vars.items():
        np.testing.assert_allclose(second["posterior"][name], value, rtol=1e-2)
    with pytest.raises(ValueError, match="lacks"):
        model.fit("map", start={"sigma": 0.1})


def build(approximation, **options):
    return bx.GP(X, y, approximation=approximation, **options)


@pytest.mark.parametrize(
    "refused, message",
    [
        (lambda: build("sparse"), "Pass None, bx.Inducing"),
        (lambda: bx.RandomFeatures(0), "at least 2"),
        (lambda: bx.RandomFeatures(7), "even"),
        (lambda: bx.HSGP(10, 1.0), "above 1"),
        (lambda: bx.Inducing(np.array([[np.nan, 1.0]])), "finite"),
        (lambda: build(bx.HSGP(80)), "6400 basis functions"),
        (lambda: build(bx.HSGP((4, 4, 4))), "one for each of 2"),
        (lambda: build(bx.Inducing(np.ones((3, 5)))), "5 columns, but must have 2"),
        (lambda: build(bx.RandomFeatures(10), kernel="periodic"), "no basis functions"),
        (
            lambda: bx.predictions(build(bx.HSGP(5)), THETA, X_new + 9.0, **QUIET),
            "outside of HSGP's box",
        ),
        (
            lambda: bx.attributions(build(bx.HSGP(5)), THETA, X_new, baseline=[9.0, 0.0], **QUIET),
            "outside of HSGP's box",
        ),
    ],
)
def test_refusals(refused, message):
    with pytest.raises(ValueError, match=message):
        refused()
