"""Explanations of a weight are those of its weight function, by covariances written anew."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.testing import assert_allclose

import bayes_gpx as bx
import matrix_of_calls as matrix
import oracle
from known_draws import known, scattered

QUIET = {"progressbar": False}
SUMMARY = QUIET | {"keep": "summary"}
EXACT = {"rtol": 1e-10, "atol": 1e-12}
rng = np.random.default_rng(3)
N, D = 30, 4
X = pd.DataFrame(rng.normal([5.0, -2.0, 0.0, 9.0], [2.0, 0.5, 1.0, 3.0], (N, D)))
X.columns = ["lat", "lon", "age", "far"]
Z = pd.DataFrame(rng.normal([3.0, 100.0], [1.0, 20.0], (N, 2)), columns=["rooms", "area"])
y = (np.sin(X["lat"]) * Z["rooms"] + 0.1 * X["age"] * Z["area"] + X["lon"]).rename("price")
THETA = {
    "lengthscale": np.array([1.1, 0.8, 1.7, 1.3]),
    "amplitude": np.array([0.9, 0.5, 0.7]),
    "sigma_w": 0.2,
    "sigma": 0.3,
}
NEW = pd.DataFrame([[4.0, -1.8, 0.3, 8.0], [6.5, -2.4, -0.9, 12.0]], columns=X.columns)


@pytest.fixture(scope="module")
def model():
    return bx.GPX(X, y, Z, intercept=True, weight_prior="per_feature")


class Dense:
    """Posterior of L g_l for a column l of Z, from one covariance of all rows, in user units."""

    def __init__(self, column):
        self.l = [*Z.columns, "intercept"].index(column)
        self.center, self.scale = X.to_numpy().mean(0), X.to_numpy().std(0)
        self.X = self.scaled(X.to_numpy())
        own = Z.to_numpy()
        self.Z = np.column_stack([(own - own.mean(0)) / own.std(0), np.ones(N)])
        amplitude, lengthscale = THETA["amplitude"], THETA["lengthscale"]
        K = oracle.expquad(self.X, self.X, lengthscale)
        self.C = K * ((self.Z * amplitude**2) @ self.Z.T)
        self.C += np.diag((self.Z**2).sum(1) * THETA["sigma_w"] ** 2 + THETA["sigma"] ** 2)
        self.y = (y.to_numpy() - y.to_numpy().mean()) / y.to_numpy().std()
        self.unit = y.to_numpy().std() / [*own.std(0), 1.0][self.l]

    def scaled(self, rows):
        return (np.asarray(rows, float) - self.center) / self.scale

    def _posterior(self, with_y, own):
        with_y = with_y * THETA["amplitude"][self.l] ** 2 * self.Z[:, self.l]
        own = own * THETA["amplitude"][self.l] ** 2
        gain = np.linalg.solve(self.C, with_y.T).T
        return gain @ self.y * self.unit, (own - gain @ with_y.T) * self.unit**2

    def values(self, rows):
        rows = self.scaled(rows)
        kernel = oracle.expquad
        ls = THETA["lengthscale"]
        return self._posterior(kernel(rows, self.X, ls), kernel(rows, rows, ls))

    def gradients(self, rows):
        """Mean (m, d) and covariance (m d, m d), per unit of x."""
        rows, per_unit = self.scaled(rows), np.tile(1.0 / self.scale, len(rows))
        with_y, _ = oracle.expquad_slopes(rows, self.X, THETA["lengthscale"])
        _, own = oracle.expquad_slopes(rows, rows, THETA["lengthscale"])
        mean, cov = self._posterior(with_y, own)
        return mean * per_unit, cov * np.outer(per_unit, per_unit)


def of_row(moments, A):
    """Moments of a linear map of joint ones."""
    mean, cov = moments
    return A @ mean, A @ cov @ A.T


def path_map(row, start, nodes=60):
    """Nodes on a path, and the map from gradients there to attributions."""
    t, w = np.polynomial.legendre.leggauss(nodes)
    t, w, way = (t + 1) / 2, w / 2, row - start
    return start + t[:, None] * way, np.concatenate([np.diag(way) * share for share in w], axis=1)


def coalition_map(row, start):
    """Points of all coalitions, and the map from values there to Shapley values."""
    masks = np.array([*itertools.product([0, 1], repeat=len(row))])
    place = {tuple(mask): k for k, mask in enumerate(masks)}
    A = np.zeros((len(row), len(masks)))
    for i in range(len(row)):
        for mask in masks[masks[:, i] == 0]:
            size, joined = mask.sum(), mask.copy()
            joined[i] = 1
            share = math.factorial(size) * math.factorial(len(row) - size - 1)
            share /= math.factorial(len(row))
            A[i, place[tuple(joined)]] += share
            A[i, place[tuple(mask)]] -= share
    return start + masks * (row - start), A


COLUMNS = ["rooms", "intercept"]


@pytest.mark.parametrize("column", COLUMNS)
def test_derivatives_of_a_weight_equal_the_dense_posterior(model, column):
    found = bx.derivatives(model, THETA, NEW, of=("weight", column), covariance=True, **SUMMARY)
    mean, cov = Dense(column).gradients(NEW)
    assert_allclose(found["derivative_mean"].values.ravel(), mean, **EXACT)
    blocks = cov.reshape((2, D, 2, D))[[0, 1], :, [0, 1]]
    assert_allclose(found["derivative_cov"], blocks, rtol=1e-10, atol=1e-10 * np.abs(cov).max())


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("function", [bx.attributions, bx.shapley_values])
def test_attributions_of_a_weight_equal_the_dense_posterior(model, column, function):
    options = {"of": ("weight", column), "covariance": True}
    found = function(model, THETA, NEW, **options, **SUMMARY)
    dense, start = Dense(column), X.to_numpy().mean(0)
    for k, row in enumerate(NEW.to_numpy()):
        if function is bx.attributions:
            nodes, A = path_map(row, start)
            mean, cov = of_row(dense.gradients(nodes), A)
        else:
            points, A = coalition_map(row, start)
            mean, cov = of_row(dense.values(points), A)
        size = np.abs(cov).max()
        assert_allclose(found["attribution_mean"][k], mean, **EXACT)
        assert_allclose(found["attribution_cov"][k], cov, rtol=1e-10, atol=1e-10 * size)
        ends = of_row(dense.values([row, start]), np.array([[1.0, -1.0]]))
        assert_allclose(found["difference_mean"][k], ends[0][0], **EXACT)
        assert_allclose(found["difference_sd"][k] ** 2, ends[1][0, 0], rtol=1e-9)


def test_comparisons_of_a_weight_equal_the_dense_posterior(model):
    options = {"of": ("weight", "rooms"), "covariance": True, "by": True}
    found = bx.comparisons(model, THETA, NEW, variables={"lat": (4.0, 6.0)}, **options, **SUMMARY)
    moved = [NEW.assign(lat=end).to_numpy() for end in (6.0, 4.0)]
    average = np.array([[0.5, 0.5, -0.5, -0.5]])
    mean, cov = of_row(Dense("rooms").values(np.concatenate(moved)), average)
    assert_allclose(found["comparison_mean"].values.ravel(), mean, **EXACT)
    assert_allclose(found["comparison_sd"].values.ravel() ** 2, cov.ravel(), rtol=1e-10)
    assert found.attrs["units"] == "price per unit of rooms"


def test_ratios_of_a_weight_are_those_of_joint_draws(model):
    options = {"of": ("weight", "rooms"), "comparison": "ratio", "draws": 4000, "seed": 1}
    found = bx.comparisons(model, THETA, NEW, variables={"lat": (4.0, 6.0)}, **options, **QUIET)
    for k in range(len(NEW)):
        ends = [NEW.iloc[[k]].assign(lat=end).to_numpy()[0] for end in (4.0, 6.0)]
        mean, cov = Dense("rooms").values(ends)
        low, high = rng.multivariate_normal(mean, cov, 100_000).T
        expected = np.mean(high / low > 0.5)
        drawn = np.mean(found["comparison"].isel(obs=k) > 0.5)
        assert abs(drawn - expected) < 4 * np.sqrt(expected * (1 - expected) / 4000)


def test_slopes_of_a_weight_are_averages_of_its_derivatives(model):
    found = bx.slopes(model, THETA, NEW, of=("weight", "rooms"), seed=1, **QUIET)
    mean, cov = of_row(Dense("rooms").gradients(NEW), np.tile(np.eye(D) / 2, 2))
    assert_allclose(found["average_slope_mean"], mean, **EXACT)
    assert_allclose(found["average_slope_sd"] ** 2, np.diag(cov), rtol=1e-10)


def test_with_a_constant_z_of_one_column_they_are_those_of_a_gp():
    options = {"scale": False}
    gpx = bx.GPX(X, y, np.ones((N, 1)), **options)
    gp, theta = bx.GP(X, y, **options), {**THETA, "amplitude": 0.9}
    of_gp = {name: value for name, value in theta.items() if name != "sigma_w"}
    one = {"of": ("weight", "z0"), "covariance": True, **SUMMARY}
    for function in (bx.derivatives, bx.attributions, bx.shapley_values):
        found = function(gpx, theta | {"sigma_w": 0.0}, NEW, **one)
        xr.testing.assert_allclose(
            found, function(gp, of_gp, NEW, covariance=True, **SUMMARY), rtol=1e-10
        )


GPXS = [name for name in matrix.builders() if name.startswith("GPX")]
QUICK = ("GPX", "GPX groups", "GPX labels")


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in GPXS]
)
def test_every_model_explains_the_weights_that_it_has(name):
    model, theta = matrix.model(name)
    column = model.training.Z.columns[0]
    rows = pd.DataFrame(matrix.rows()[0][:2] * 0.9)
    options = {**SUMMARY, "of": ("weight", column)}
    groups = {} if model.training.groups is None else {"groups_new": [1, 9]}

    def weights(*tables, **by):
        """Smooth weights of tables of rows one below the other."""
        given = {name: np.tile(labels, len(tables)) for name, labels in groups.items()}
        if not model.training.z_is_x:
            given["Z_new"] = np.ones((2 * len(tables), 2))
        every = pd.concat(tables, ignore_index=True)
        found = bx.weights(model, theta, every, smooth=True, **given, **by, **SUMMARY)
        return found.sel(feature=column, drop=True)

    ends = [rows.assign(a=end) for end in (0.6, -0.4)]
    contrast = pd.DataFrame({"first": [1.0, 0.0, -1.0, 0.0], "second": [0.0, 1.0, 0.0, -1.0]})
    compared = bx.comparisons(model, theta, rows, variables={"a": (-0.4, 0.6)}, **groups, **options)
    both = weights(*ends)["weight_mean"].values
    values = compared["comparison_mean"].isel(contrast=0).values
    assert_allclose(values, both[:2] - both[2:], rtol=1e-7, atol=1e-9)
    if not model.training.sparse:
        own = weights(*ends, by=contrast)
        sd = compared["comparison_sd"].isel(contrast=0)
        assert_allclose(sd, own["weight_sd"], rtol=1e-6)

    steps = [rows.assign(b=rows["b"] + step) for step in (1e-4, -1e-4)]
    both = weights(*steps)["weight_mean"].values
    slopes = bx.derivatives(model, theta, rows, **groups, **options)["derivative_mean"]
    assert_allclose(slopes.sel(feature="b"), (both[:2] - both[2:]) / 2e-4, rtol=1e-5, atol=1e-6)

    both = weights(rows, rows * 0.0)["weight_mean"].values
    found = bx.attributions(
        model, theta, rows, baseline="zero", covariance=True, **groups, **options
    )
    assert_allclose(
        found["attribution_mean"].sum("feature"), both[:2] - both[2:], rtol=1e-7, atol=1e-9
    )
    total = found["attribution_cov"].sum(["feature", "feature_bis"])
    assert_allclose(total, found["difference_sd"] ** 2, rtol=1e-6, atol=1e-12)
    assert found.attrs["weight"] == column
    assert found.attrs["scale"] == "latent"
    units = np.ravel(found.coords["units"] if "output" in found.dims else found.attrs["units"])
    assert all(text.endswith(f"per unit of {column}") for text in units)


def test_averages_of_a_weights_attributions_are_exact(model):
    found = bx.attributions(model, THETA, NEW, of=("weight", "area"), by=True, **SUMMARY)
    start, dense = X.to_numpy().mean(0), Dense("area")
    paths = [path_map(row, start) for row in NEW.to_numpy()]
    nodes, A = np.concatenate([p[0] for p in paths]), np.concatenate([p[1] for p in paths], axis=1)
    mean, cov = of_row(dense.gradients(nodes), A / 2)
    assert_allclose(found["attribution_mean"].values[0], mean, **EXACT)
    assert_allclose(found["attribution_sd"].values[0] ** 2, np.diag(cov), rtol=1e-9)


@pytest.fixture(scope="module")
def drawn():
    """A model with one amplitude, and a fit of three draws."""
    model = bx.GPX(X, y, Z, intercept=True)
    return model, known(model, scattered({**THETA, "amplitude": 0.9}, 3))


def test_a_loaded_fit_explains_weights_as_before(drawn, tmp_path):
    model, fit = drawn
    bx.save(model, fit, tmp_path / "fit.nc")
    again, loaded = bx.load(tmp_path / "fit.nc")
    options = {"of": ("weight", "rooms"), "covariance": True, **SUMMARY}
    for function in (bx.derivatives, bx.attributions):
        expected = function(model, fit, NEW, **options)
        found = function(again, loaded, NEW, **options)
        xr.testing.assert_allclose(found, expected, rtol=1e-12)


def test_stores_of_two_weights_are_not_mixed_up(drawn, tmp_path):
    model, fit = drawn
    options = {"seed": 1, "draws": 3, **QUIET}
    for column in COLUMNS:
        of = ("weight", column)
        found = bx.attributions(model, fit, of=of, path=tmp_path / "draws.zarr", **options)
        expected = bx.attributions(model, fit, of=of, **options)
        xr.testing.assert_allclose(found.load(), expected, rtol=1e-10)


def test_partial_dependence_of_a_weight_averages_its_function(model):
    view, options = model.of_weight("rooms"), {"features": ["lat"], "steps": 3, "draws": 5}
    found = bx.partial_dependence(view, THETA, NEW, seed=1, **options, **QUIET)
    for step, value in enumerate(found["value"].values[0]):
        mean, cov = of_row(Dense("rooms").values(NEW.assign(lat=value)), np.full((1, 2), 0.5))
        at = {"feature": 0, "step": step}
        assert_allclose(found["partial_dependence_mean"].isel(at), mean[0], **EXACT)
        assert_allclose(found["partial_dependence_sd"].isel(at) ** 2, cov[0, 0], rtol=1e-9)


def test_a_weight_of_classes_stays_on_the_latent_scale():
    model, theta = matrix.model("GPX labels")
    rows, of = pd.DataFrame(matrix.rows()[0][:2]), {"of": ("weight", "a"), **SUMMARY}
    found = bx.derivatives(model, theta, rows, **of)
    xr.testing.assert_identical(found, bx.derivatives(model, theta, rows, on="latent", **of))
    assert found.attrs["units"] == "log odds of y per unit of a per unit of the feature"
    assert "derivative_interval" in found


def test_a_column_of_levels_has_a_weight_for_each_level():
    kind = pd.Categorical(np.resize(["flat", "house"], N))
    model = bx.GPX(X, y, Z[["rooms"]].assign(kind=kind))
    theta = {**THETA, "amplitude": 0.9}
    found = bx.comparisons(
        model, theta, NEW, variables="age", of=("weight", "kind=house"), **SUMMARY
    )
    ends = [NEW.assign(age=NEW["age"] + step) for step in (X["age"].std(ddof=0), 0.0)]
    given = {"Z_new": pd.DataFrame({"rooms": 1.0, "kind": kind[:2]}), "smooth": True, **SUMMARY}
    high, low = (bx.weights(model, theta, rows, **given)["weight_mean"] for rows in ends)
    expected = (high - low).sel(feature="kind=house")
    assert_allclose(found["comparison_mean"].isel(contrast=0), expected, rtol=1e-9)
    with pytest.raises(ValueError, match=r"unknown 'kind'. Pass one of .*kind=house"):
        bx.derivatives(model, theta, NEW, of=("weight", "kind"), **SUMMARY)


def test_requests_without_a_weight_are_refused(model):
    for of, message in (
        (("weight", "price"), "unknown 'price'. Pass one of .*rooms"),
        (("slope", "rooms"), r"Pass a name, or \('weight', column\)"),
        (["weight", "rooms"], r"Pass a name, or \('weight', column\)"),
    ):
        with pytest.raises(ValueError, match=message):
            bx.attributions(model, THETA, NEW, of=of, **SUMMARY)
    for function in (bx.slopes, bx.comparisons, bx.derivatives, bx.predictions):
        with pytest.raises(ValueError, match="of: unknown 'log_variance'. Pass one of .*survival"):
            function(model, THETA, NEW, of="log_variance", **QUIET)
    with pytest.raises(ValueError, match="at is 1.0, but of is"):
        bx.slopes(model, THETA, NEW, of=("weight", "rooms"), at=1.0, **QUIET)
    with pytest.raises(ValueError, match="a GP has no weights. Pass a bx.GPX"):
        bx.derivatives(bx.GP(X, y), {}, NEW, of=("weight", "rooms"), **SUMMARY)


@pytest.mark.parametrize("function", [bx.predictions, bx.contributions, bx.relevance])
def test_what_is_about_y_has_no_weight(model, function):
    with pytest.raises(ValueError, match="are about y, but the model is of the weight of 'rooms'"):
        function(model.of_weight("rooms"), THETA, **SUMMARY)


def test_derivatives_explain_events_by_of_and_at():
    model = bx.GP(X, np.exp(y / y.std()), likelihood="weibull")
    theta = {"lengthscale": np.ones(D), "amplitude": 1.0, "shape": 2.0}
    options = {"draws": 5, "seed": 1, **SUMMARY}
    found = bx.derivatives(model, theta, NEW, of="survival", at=1.5, **options)
    expected = bx.derivatives(model.of_event("survival", 1.5), theta, NEW, **options)
    xr.testing.assert_identical(found, expected)


def test_metrics_of_predictions_refuse_explanations_of_a_weight(model):
    found = bx.attributions(model, THETA, of=("weight", "rooms"), draws=5, seed=1, **QUIET)
    with pytest.raises(ValueError, match="explains the weight of rooms, and the metric"):
        bx.metrics.faithfulness(model, THETA, found)
