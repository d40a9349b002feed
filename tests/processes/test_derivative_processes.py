"""Derivatives and attributions of processes and models, against differences of values."""

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx.explain.attributions import CompletenessWarning
from bayes_gpx.numerics.compile_modes import MODE
from oracle import expquad

OPS = bx.operators
D, M, STEP = 2, 3, 1e-4
WEIGHED = ("Z held", "Z is X", "Z is X, intercept")


def evaluated(*graphs):
    return pytensor.function([], list(graphs), mode=MODE)()


class Posed:
    """A conditioned process, and operators at new points, by name of the setting."""

    def __init__(self, setting, rng):
        self.setting = setting
        x, y, self.x = rng.normal(size=(9, D)), rng.normal(size=9), rng.normal(size=(M, D))
        self.baseline, self.z = rng.normal(size=D), rng.normal(size=3)
        self.tied = setting.startswith("Z is X")
        kernel = pm.gp.cov.ExpQuad(D, ls=[0.8, 1.4])
        if setting == "GP":
            kernel = kernel + pm.gp.cov.RatQuad(D, ls=1.2, alpha=0.6)
            process, Z = bx.GaussianProcess(kernel), None
        else:
            Z = rng.normal(size=(9, 3)) if setting == "Z held" else self.features(x)
            amplitude = rng.uniform(0.5, 1.5, Z.shape[1])
            process = bx.WeightProcess(kernel, sigma_w=0.3, amplitude=amplitude)
            Z = pt.as_tensor(Z)
        self.q = bx.posteriors.exact(process, pt.as_tensor(x), y, 0.4, Z)

    def features(self, x):
        if self.setting == "Z held":
            return np.tile(self.z, (len(x), 1))
        return x if self.setting == "Z is X" else np.hstack([x, np.ones((len(x), 1))])

    def ask(self, operator, x, *baseline):
        z = [] if self.setting == "GP" else [pt.as_tensor(self.features(x))]
        options = {"smooth": True} if operator is OPS.evaluate else {"tied": self.tied}
        return self.q(operator(pt.as_tensor(x), *baseline, *z, **options))


SETTINGS = ["GP", *WEIGHED[:2], pytest.param(WEIGHED[2], marks=pytest.mark.slow)]
DEAR = [WEIGHED[0], *(pytest.param(n, marks=pytest.mark.slow) for n in ("GP", *WEIGHED[1:]))]


@pytest.fixture(params=SETTINGS)
def posed(request, rng):
    return Posed(request.param, rng)


def test_gradients_are_the_limit_of_differences(posed):
    gradient = posed.ask(OPS.gradient, posed.x)
    mean, cov, block, variance = evaluated(
        gradient.mean, gradient.cov, gradient.block, gradient.variance
    )
    moves = [sign * STEP * np.eye(D)[i] for i in range(D) for sign in (1, -1)]
    moved = np.concatenate([posed.x + move for move in moves])
    values = posed.ask(OPS.evaluate, moved)
    f_mean, f_cov = evaluated(values.mean, values.cov)
    differences = np.zeros((M, D, 2 * D, M))
    for i in range(D):
        differences[np.arange(M), i, 2 * i, np.arange(M)] = 0.5 / STEP
        differences[np.arange(M), i, 2 * i + 1, np.arange(M)] = -0.5 / STEP
    differences = differences.reshape((M * D, -1))
    assert_allclose(mean, differences @ f_mean, atol=1e-6)
    # Round-off of a covariance of 1, 1e-16, over the squared step.
    assert_allclose(cov, differences @ f_cov @ differences.T, atol=1e-6)
    assert_allclose(variance, np.diag(cov), rtol=1e-9)
    for i in range(M):
        assert_allclose(block[i], cov[i * D : (i + 1) * D, i * D : (i + 1) * D], atol=1e-12)


def test_hessian_means_are_the_limit_of_gradients(posed):
    steps = STEP * np.concatenate([np.eye(D), -np.eye(D)])
    moved = (posed.x[:, None] + steps).reshape((-1, D))
    hessian, gradient = posed.ask(OPS.hessian, posed.x), posed.ask(OPS.gradient, moved)
    mean, slopes = evaluated(hessian.mean, gradient.mean)
    above, below = np.split(slopes.reshape((M, 2 * D, D)), 2, axis=1)
    assert_allclose(mean.reshape((M, D, D)), (above - below) / (2 * STEP), atol=1e-6)


@pytest.mark.parametrize("posed", DEAR, indirect=True)
def test_attributions_add_up_to_differences(posed):
    parts = posed.ask(OPS.integrated_gradient, posed.x, posed.baseline)
    whole = posed.ask(OPS.difference, posed.x, posed.baseline)
    mean, cov, block, variance, total, total_cov, total_variance = evaluated(
        parts.mean, parts.cov, parts.block, parts.variance, whole.mean, whole.cov, whole.variance
    )
    ends = posed.ask(OPS.evaluate, np.vstack([posed.x, posed.baseline]))
    f_mean, f_cov = evaluated(ends.mean, ends.cov)
    gained = np.hstack([np.eye(M), -np.ones((M, 1))])
    assert_allclose(total, gained @ f_mean, atol=1e-12)
    assert_allclose(total_cov, gained @ f_cov @ gained.T, atol=1e-12)
    assert_allclose(total_variance, np.diag(total_cov), atol=1e-12)
    assert_allclose(mean.reshape((M, D)).sum(axis=1), total, atol=1e-12)
    by_points = cov.reshape((M, D, M, D))
    assert_allclose(by_points.sum(axis=(1, 3)), total_cov, atol=1e-9)
    assert_allclose(np.einsum("icid->icd", by_points), block, atol=1e-9)
    assert_allclose(variance, np.einsum("icc->ic", block).ravel(), atol=1e-14)


def test_attributions_are_integrals_of_gradients(posed):
    (mean,) = evaluated(posed.ask(OPS.integrated_gradient, posed.x, posed.baseline).mean)
    t, w = np.polynomial.legendre.leggauss(20)
    points = [posed.baseline + (s + 1) / 2 * (posed.x - posed.baseline) for s in t]
    gradients = evaluated(posed.ask(OPS.gradient, np.concatenate(points)).mean)
    integral = np.einsum("q,qmd->md", w / 2, np.reshape(gradients, (20, M, D)))
    assert_allclose(mean.reshape((M, D)), (posed.x - posed.baseline) * integral, atol=1e-12)


@pytest.mark.parametrize("posed", DEAR, indirect=True)
def test_slopes_and_values_are_asked_jointly(posed):
    """Covariances between operators are transposes of each other, and jointly PSD."""
    x, z = pt.as_tensor(posed.x), []
    if posed.setting != "GP":
        z = [pt.as_tensor(posed.features(posed.x))]
    options = {"tied": posed.tied}
    asked = OPS.stack(
        OPS.evaluate(x, *z, smooth=True),
        OPS.gradient(x, *z, **options),
        OPS.integrated_gradient(x, posed.baseline, *z, **options),
        OPS.difference(x, posed.baseline, *z, **options),
    )
    (cov,) = evaluated(posed.q(asked).cov)
    assert_allclose(cov, cov.T, atol=1e-10)
    assert np.linalg.eigvalsh(cov).min() > -1e-8
    f, gradient = slice(0, M), slice(M, M + M * D)
    attribution, difference = slice(M + M * D, M + 2 * M * D), slice(M + 2 * M * D, None)
    summed = cov[attribution].reshape((M, D, -1)).sum(axis=1)
    assert_allclose(summed, cov[difference], atol=1e-8)
    assert abs(cov[f, gradient]).max() > 1e-3


def test_an_observed_derivative_is_an_observation():
    """Conditioned on f' = 2 x and on f(0) = 0, f is x^2; inside a PyMC model."""
    x = np.linspace(-1, 1, 9)[:, None]
    at, grid = pt.as_tensor(x), pt.as_tensor(np.linspace(-0.8, 0.8, 5)[:, None])
    with pm.Model():
        lengthscale = pm.LogNormal("lengthscale")
        process = bx.GaussianProcess(4.0 * pm.gp.cov.ExpQuad(1, ls=lengthscale))
        seen = OPS.stack(OPS.gradient(at), OPS.evaluate(pt.zeros((1, 1))))
        q = bx.posteriors.exact(process, seen, np.append(2 * x.ravel(), 0.0), 1e-3)
        f = pm.Deterministic("f", q(OPS.evaluate(grid)).mean)
        slope = pt.grad(f.sum(), lengthscale)
    found, slope = pytensor.function([lengthscale], [f, slope], mode=MODE)(1.5)
    assert_allclose(found, np.linspace(-0.8, 0.8, 5) ** 2, atol=1e-2)
    assert np.isfinite(slope)


THETA = {"lengthscale": [0.9, 1.7], "amplitude": 0.8, "sigma": 0.4}


def families(regression):
    X, Z, y, _, _ = regression
    theta = {**THETA, "sigma_w": 0.3}
    yield bx.GP(X, y), THETA, ()
    yield bx.GPX(X, y), theta, ()
    yield bx.GPX(X, y, intercept=True), theta, ()
    yield bx.GPX(X, y, Z), theta, (regression[4],)


FAMILIES = [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow), 3]
"""Of `families`: a GP and a GPX of features of its own are quick."""


@pytest.mark.parametrize("which", FAMILIES)
def test_verbs_answer_in_user_units(regression, which):
    X, *_, X_new, _ = regression
    options = {"keep": "summary", "progressbar": False}
    for model, theta, z in list(families(regression))[which : which + 1]:
        slopes = bx.derivatives(model, theta, X_new, *z, **options)
        shares = bx.attributions(model, theta, X_new, *z, **options)
        center = X.mean().to_frame().T
        held = [frame.iloc[[0]] for frame in z]
        for j, name in enumerate(X.columns):
            step = 1e-4 * X[name].std()
            up, down = (X_new.assign(**{name: X_new[name] + s * step}) for s in (1, -1))
            ends = [
                bx.predictions(model, theta, end, *z, **options)["f_mean"] for end in (up, down)
            ]
            numeric = (ends[0] - ends[1]).values / (2 * step)
            assert_allclose(slopes["derivative_mean"][:, j], numeric, rtol=1e-5, atol=1e-6)
        if not z:
            f = bx.predictions(model, theta, X_new, **options)["f_mean"].values
            start = bx.predictions(model, theta, center, *held, **options)["f_mean"].values
            assert_allclose(shares["difference_mean"], f - start, atol=1e-9)
        assert_allclose(
            shares["attribution_mean"].sum("feature"), shares["difference_mean"], atol=1e-9
        )
        assert (shares["completeness_residual"] < 1e-9).all()
        assert (shares["completeness_residual_variance"] < 1e-8).all()
        assert_allclose(shares["baseline"], X.mean())
        assert (slopes["derivative_sd"] > 0).all()


def test_draws_of_attributions_sum_to_draws_of_the_difference(regression):
    X, _, y, X_new, _ = regression
    options = {"draws": 4000, "seed": 3, "progressbar": False}
    found = bx.attributions(bx.GP(X, y), THETA, X_new, covariance=True, **options)
    total = found["attribution"].sum("feature")
    assert_allclose(total.transpose(*found["difference"].dims), found["difference"], atol=1e-10)
    draws = found["attribution"].values[0]
    error = np.abs(draws.mean(axis=0) - found["attribution_mean"].values)
    assert (error < 5 * found["attribution_sd"].values / np.sqrt(4000)).all()
    one = bx.attributions(bx.GP(X, y), THETA, X_new, features=["dose"], **options)
    assert_allclose(one["attribution"][..., 0], draws[None, ..., 1], atol=1e-12)
    assert_allclose(one["difference"], found["difference"], atol=1e-12)


def test_attributions_do_not_depend_on_units(regression):
    X, _, y, X_new, _ = regression
    other, other_new = 32 + 1.8 * X, 32 + 1.8 * X_new
    options = {"keep": "summary", "progressbar": False}
    here = bx.attributions(bx.GP(X, y), THETA, X_new, **options)
    there = bx.attributions(bx.GP(other, y), THETA, other_new, **options)
    for name in ("attribution_mean", "attribution_sd", "difference_mean", "difference_sd"):
        assert_allclose(there[name], here[name], rtol=1e-10, atol=1e-10)


def test_a_feature_that_does_not_matter_gets_nothing(regression):
    X, _, y, X_new, _ = regression
    theta = {**THETA, "lengthscale": [0.9, 1e8]}
    found = bx.attributions(bx.GP(X, y), theta, X_new, keep="summary", progressbar=False)
    assert (np.abs(found["attribution_mean"].sel(feature="dose")) < 1e-6).all()
    assert (found["attribution_sd"].sel(feature="dose") < 1e-6).all()


def test_symmetric_features_share_alike(rng):
    X = rng.normal(size=(20, 2))
    X = pd.DataFrame(np.vstack([X, X[:, ::-1]]), columns=["a", "b"])
    y = X.sum(axis=1) ** 2
    model = bx.GP(X, y, ard=False, scale=False)
    theta = {"lengthscale": 1.1, "amplitude": 1.0, "sigma": 0.1}
    point, options = [[1.3, 1.3]], {"baseline": "zero", "keep": "summary", "progressbar": False}
    found = bx.attributions(model, theta, point, **options)
    a, b = found["attribution_mean"].values[0]
    assert a == pytest.approx(b, rel=1e-9)


def test_baselines(regression):
    X, _, y, X_new, _ = regression
    model, options = bx.GP(X, y), {"keep": "summary", "progressbar": False}
    row = X_new.iloc[1]
    at_itself = bx.attributions(model, THETA, X_new, baseline=row[["dose", "age"]], **options)
    assert (at_itself["attribution_mean"][1] == 0).all()
    assert (at_itself["attribution_sd"][1] == 0).all()
    for baseline, expected in (
        ("mean", X.mean()),
        ("median", X.median()),
        ("zero", 0 * X.mean()),
        (row.values, row),
        (X_new.iloc[[1]], row),
    ):
        found = bx.attributions(model, THETA, X_new, baseline=baseline, **options)
        assert_allclose(found["baseline"], expected)


@pytest.mark.filterwarnings("ignore::bayes_gpx.explain.attributions.CompletenessWarning")
@pytest.mark.parametrize(
    ("method", "steps", "closeness"),
    [("right", 200, 0.3), ("trapezoid", 300, 1e-3), ("simpson", 100, 1e-5)]
    + [("gauss_legendre", 30, 1e-9)],
)
def test_quadratures_approach_the_exact_form(regression, method, steps, closeness):
    X, _, y, X_new, _ = regression
    model, options = bx.GP(X, y), {"keep": "summary", "progressbar": False}
    exact = bx.attributions(model, THETA, X_new, **options)
    found = bx.attributions(model, THETA, X_new, method=method, steps=steps, **options)
    for name in ("attribution_mean", "attribution_sd"):
        assert_allclose(found[name], exact[name], atol=closeness)


def test_a_season_over_many_periods_is_attributed_whole(rng):
    """Along a path on which one feature changes, its attribution is the difference."""
    X = np.column_stack([np.linspace(0.0, 9.0, 60), rng.normal(size=60)])
    model = bx.GP(
        X, np.sin(2 * np.pi * X[:, 0]) + X[:, 1], kernel="periodic * expquad", scale=False
    )
    theta = {"periodic_lengthscale": [0.8, 3.0], "periodic_period": 1.0, "amplitude": 2.0}
    theta |= {"expquad_lengthscale": [9.0, 2.0], "sigma": 0.2}
    moved = X[7] - [0.0, 0.3] + [8.9, 0.3]
    found = bx.attributions(model, theta, moved[None], baseline=X[7:8], progressbar=False)
    assert_allclose(found["attribution_mean"][0], [found["difference_mean"][0], 0.0], atol=1e-9)
    assert_allclose(found["attribution_sd"][0], [found["difference_sd"][0], 0.0], atol=1e-7)
    assert found.attrs["method"] == "gauss_legendre" and found["difference_sd"] > 0.05


def test_a_season_is_attributed_whole_on_average():
    """With one feature, an attribution is the difference."""
    X = np.linspace(0.0, 9.0, 40)[:, None]
    model = bx.GP(X, np.sin(2 * np.pi * X[:, 0]), kernel="periodic", scale=False)
    theta = {"lengthscale": [0.8], "period": 1.0, "amplitude": 2.0, "sigma": 0.2}
    options = {"baseline": X[:2] - 0.1, "by": True, "progressbar": False}
    found = bx.attributions(model, theta, X[[30, 33]], **options)
    for part in ("mean", "sd"):
        own = found[f"attribution_{part}"].squeeze("feature")
        assert_allclose(own, found[f"difference_{part}"], rtol=1e-6)
    assert found.attrs["steps"] > 24 and found["difference_sd"] > 0.01


def test_attributions_that_do_not_add_up_say_so(regression):
    X, _, y, X_new, _ = regression
    with pytest.warns(CompletenessWarning, match="of attributions miss") as warned:
        bx.attributions(
            bx.GP(X, y), THETA, X_new, method="right", steps=3, keep="summary", progressbar=False
        )
    messages = [str(warning.message) for warning in warned]
    assert "The means" in messages[0] and "The variances" in messages[1]


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("way", [0.0, 1e-12, 1e-8, 1e-5])
def test_round_off_in_a_difference_is_no_incompleteness(rng, way, scale):
    """On a short path an attribution is the slope times the way; f(x) - f(b) is lost in f(x)."""
    X = rng.normal(size=(60, 2))
    y = 50.0 * (X[:, 0] * X[:, 1] + X[:, 0])
    model = bx.GP(X, y, kernel="matern52", scale=scale)
    theta = {"lengthscale": [2.0, 2.0], "amplitude": 2.0 if scale else 100.0}
    theta["sigma"] = theta["amplitude"] / 40.0
    start, options = np.array([[1e-3, -2e-3]]), {"keep": "summary", "progressbar": False}
    found = bx.attributions(model, theta, start + way, baseline=start[0], **options)
    slope = bx.derivatives(model, theta, start + way / 2, **options)
    for moment in ("mean", "sd"):
        expected = way * slope[f"derivative_{moment}"]
        # atol: round-off in coordinates, times slopes
        assert_allclose(found[f"attribution_{moment}"], expected, rtol=1e-7, atol=1e-13)


@pytest.mark.parametrize("kernel", ["expquad", "matern32"])
def test_a_cluster_far_away_changes_nothing(rng, kernel):
    """Attributions in one of two clusters 1e6 lengthscales apart are those of the cluster alone."""
    near = np.round(rng.normal(size=(20, 3)) * 2**20) / 2**20  # so that moving it is exact
    far, y = near + 2.0**21, rng.normal(size=20)
    theta = {"lengthscale": np.full(3, 2.0), "amplitude": 2.0, "sigma": 1e-3}
    options = {"keep": "summary", "covariance": True, "progressbar": False}
    alone, both = (
        bx.GP(X, np.tile(y, len(X) // 20), kernel=kernel, scale=False)
        for X in (near, np.vstack([far, near[::-1] - 2.0**21, near]))
    )
    expected = bx.attributions(alone, theta, near[:5] + 0.25, baseline=near[6], **options)
    found = bx.attributions(both, theta, far[:5] + 0.25, baseline=far[6], **options)
    for name in ("attribution_mean", "attribution_cov", "difference_sd"):
        # round-off over sigma^2 = 1e-6
        assert_allclose(found[name], expected[name], rtol=1e-6, atol=1e-8)
    assert (np.diagonal(found["attribution_cov"], axis1=1, axis2=2) > 0).all()


@pytest.mark.slow
def test_matern_and_its_kin_have_attributions(regression):
    X, _, y, X_new, _ = regression
    for kernel in ("matern52", "matern32", "ratquad", "linear", "expquad * linear", "periodic"):
        model = bx.GP(X, y, kernel=kernel)
        values = {name: np.full((2,) * ndim, 0.9) for name, ndim in model.hyperparameters.items()}
        theta = {name: v if v.ndim else float(v) for name, v in values.items()}
        found = bx.attributions(model, theta, X_new, keep="summary", progressbar=False)
        assert (found["completeness_residual"] < 1e-7).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"baseline": "middle"}, "baseline: unknown 'middle'"),
        ({"baseline": [1.0]}, "baseline has 1"),
        ({"baseline": [1.0, np.nan]}, "baseline"),
        ({"method": "exactly"}, "method: unknown 'exactly'"),
        ({"method": "right", "steps": 0}, "steps is 0"),
        ({"method": "simpson", "steps": 3}, "even"),
        ({"steps": 4}, "leave it out"),
        ({"features": ["dosage"]}, "dose"),
    ],
)
def test_nonsense_is_refused(regression, options, message):
    X, _, y, X_new, _ = regression
    with pytest.raises(ValueError, match=message):
        bx.attributions(bx.GP(X, y), THETA, X_new, progressbar=False, **options)


def test_kernels_that_are_not_smooth_enough_are_refused(regression):
    X, _, y, X_new, _ = regression

    def rough(d):
        return pm.gp.cov.Exponential(d, ls=1.0)

    for verb in (bx.derivatives, bx.attributions):
        with pytest.raises(ValueError, match="Matern32"):
            verb(bx.GP(X, y, kernel=rough), {"sigma": 0.3}, X_new, progressbar=False)


def test_derivatives_by_hand(rng):
    """One feature, no scaling: k' and k'' of the squared exponential, written out."""
    x, y, new = rng.normal(size=(6, 1)), rng.normal(size=6), rng.normal(size=(3, 1))
    model = bx.GP(x, y, scale=False, ard=False)
    theta = {"lengthscale": 0.7, "amplitude": 1.3, "sigma": 0.2}
    found = bx.derivatives(model, theta, new, keep="summary", progressbar=False)
    K = 1.69 * expquad(x, x, 0.7) + 0.04 * np.eye(6)
    slope = 1.69 * -(new - x.T) / 0.49 * expquad(new, x, 0.7)
    assert_allclose(found["derivative_mean"][:, 0], slope @ np.linalg.solve(K, y), atol=1e-10)
    variance = 1.69 / 0.49 - np.einsum("ij,ji->i", slope, np.linalg.solve(K, slope.T))
    assert_allclose(found["derivative_sd"][:, 0], np.sqrt(variance), rtol=1e-9)
