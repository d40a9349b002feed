"""Several baselines: averages of attributions, against quadrature and single baselines."""

import sys
from functools import partial

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from test_derivative_processes import THETA, WEIGHED, Posed, evaluated
from test_integrated_gradients import KERNELS, D

import bayes_gpx as bx
from bayes_gpx.draws.stores import WRITTEN
from bayes_gpx.kernels.from_pymc import from_pymc
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.numerics.quadrature import rule
from bayes_gpx.processes import expected_gradients, integrated_gradients

LENGTHSCALE = np.array([0.8, 1.5, 1.0])
QUIET = {"seed": 1, "progressbar": False}
SUMMARY = {"keep": "summary", "progressbar": False}
EXACT = ["ExpQuad", "Matern32", "times linear", "Matern52", "RatQuad", "sum on columns"]
OTHERS = ["Periodic", "Polynomial"]


def slow(*names):
    """Parameters that take long to compile, for the slow tests."""
    return [pytest.param(name, marks=pytest.mark.slow) for name in names]


def compiled(name, nodes=None):
    """Function of x, baselines and xs: cross and block of the average, and of the first alone."""
    x, baselines, xs = (pt.tensor(n, dtype="float64", shape=(None, D)) for n in ("x", "b", "xs"))
    kernel = from_pymc(KERNELS[name](pt.as_tensor(LENGTHSCALE)))
    outputs = [
        expected_gradients.cross(kernel, x, baselines, xs, nodes),
        expected_gradients.block(kernel, x, baselines, nodes),
        integrated_gradients.cross(kernel, x, baselines[0], xs, nodes),
        integrated_gradients.block(kernel, x, baselines[0], nodes),
    ]
    return kernel, pytensor.function([x, baselines, xs], outputs, mode=MODE)


def posed_points(rng):
    """Points, of which one is a baseline, another one lies beyond it on a line, others anywhere."""
    x, baselines, xs = rng.normal(size=(4, D)), rng.normal(size=(4, D)), rng.normal(size=(5, D))
    baselines[1] = x[0]
    baselines[2] = x[1] + 2.5 * (baselines[0] - x[1])
    return x, baselines, xs


FIRST = {
    "ExpQuad": lambda s2: np.exp(-s2 / 2),
    "Matern52": lambda s2: 5 / 3 * (1 + np.sqrt(5 * s2)) * np.exp(-np.sqrt(5 * s2)),
}
SECOND = {
    "ExpQuad": lambda s2: np.exp(-s2 / 2),
    "Matern52": lambda s2: 25 / 3 * np.exp(-np.sqrt(5 * s2)),
}


@pytest.mark.parametrize("name", ["ExpQuad", *slow("Matern52")])
def test_the_covariance_is_the_double_integral(rng, name):
    """From the baselines, where the kernel has no kink, in steps that shrink towards x."""
    _, function = compiled(name)
    x, baselines = rng.normal(size=(2, D)), rng.normal(size=(3, D))
    _, block, *_ = function(x, baselines, x)
    t, w = np.polynomial.legendre.leggauss(16)
    ends = np.concatenate([[0.0], 1 - 0.25 ** np.arange(1, 12), [1.0]])
    steps = np.diff(ends)[:, None]
    t, w = (ends[:-1, None] + steps * (t + 1) / 2).ravel(), (steps * w / 2).ravel()
    for point, found in zip(x, block, strict=True):
        way = point - baselines
        where = baselines[:, None] + t[:, None] * way[:, None]
        expected = np.zeros((D, D))
        for b in range(3):
            for c in range(3):
                if b == c:
                    continue
                u = (where[b][:, None] - where[c][None]) / LENGTHSCALE
                s2 = (u**2).sum(-1)
                weights = np.multiply.outer(w, w)
                straight = (weights * FIRST[name](s2)).sum() * np.eye(D)
                bent = np.einsum("st,sti,stj->ij", weights * SECOND[name](s2), u, u)
                sides = way[b] / LENGTHSCALE, way[c] / LENGTHSCALE
                expected += np.multiply.outer(*sides) * (straight - bent) / 9
        alone = [function(point[None], baselines[[b]], x)[3][0] / 9 for b in range(3)]
        assert_allclose(found, expected + sum(alone), atol=1e-11)


@pytest.mark.parametrize("name", ["ExpQuad", *slow(*sorted({*EXACT, *OTHERS} - {"ExpQuad"}))])
def test_averages_of_any_kernel(rng, name):
    """Sums, single and repeated baselines, and their order, at points that meet and line up."""
    kernel, function = compiled(name)
    x, baselines, xs = posed_points(rng)
    cross, block, *_ = function(x, baselines, xs)
    K = kernel.gram(pt.as_tensor(np.vstack([x, baselines, xs]))).eval(mode=MODE)
    gained = np.hstack([np.eye(4), np.full((4, 4), -0.25)])
    # Kernels with no form of their own are integrated by nodes.
    close = 1e-10 if name in EXACT else 1e-8
    assert_allclose(cross.sum(axis=1), gained @ K[:8, 8:], atol=close)
    whole = gained @ K[:8, :8] @ gained.T
    assert_allclose(block.sum(axis=(1, 2)), np.diag(whole), atol=close)
    assert_allclose(block, block.transpose(0, 2, 1), atol=1e-12)
    assert np.linalg.eigvalsh(block).min() > -close
    singles = [function(x, baselines[[b]], xs) for b in range(4)]
    assert_allclose(cross, np.mean([single[2] for single in singles], axis=0), atol=1e-12)
    assert_allclose(singles[3][1], singles[3][3], atol=close)
    assert_allclose(function(x, baselines[[3, 3, 3]], xs)[1], singles[3][3], atol=close)
    assert_allclose(function(x, baselines[::-1], xs)[1], block, atol=1e-11)


@pytest.mark.parametrize("method", ["right", *slow("gauss_legendre")])
@pytest.mark.parametrize("name", ["Matern32", "product", "times linear"])
def test_given_nodes_are_those_of_each_path(rng, name, method):
    """In all forms: by distances along the paths, with a linear factor, and by derivatives."""
    x, baselines, xs = posed_points(rng)
    _, function = compiled(name, rule(method, 3))
    singles = [function(x, baselines[[b]], xs) for b in range(4)]
    _, block, *_ = function(x, baselines[[3, 3]], xs)
    assert_allclose(block, singles[3][3], atol=1e-11)
    cross, *_ = function(x, baselines, xs)
    assert_allclose(cross, np.mean([single[2] for single in singles], axis=0), atol=1e-12)


@pytest.fixture(params=["Z held", *slow("GP", *WEIGHED[1:])])
def posed(request, rng):
    return Posed(request.param, rng)


def test_operators_average_baselines(posed, rng):
    """Mean, block and difference against those of values, and jointly with values."""
    baselines, m = rng.normal(size=(2, 2)), len(posed.x)
    operators = bx.operators
    parts = posed.ask(operators.integrated_gradient, posed.x, baselines)
    whole = posed.ask(operators.difference, posed.x, baselines)
    singles = [posed.ask(operators.integrated_gradient, posed.x, b) for b in baselines]
    values = posed.ask(operators.evaluate, posed.x)
    joint = operators.stack(parts.operator, whole.operator, values.operator)
    block, total, variance, cov, *means = evaluated(
        parts.block,
        whole.mean,
        whole.variance,
        posed.q(joint).cov,
        *[asked.mean for asked in (parts, *singles)],
    )
    assert_allclose(means[0], np.mean(means[1:], axis=0), atol=1e-12)
    assert_allclose(means[0].reshape((m, -1)).sum(axis=1), total, atol=1e-11)
    assert_allclose(block.sum(axis=(1, 2)), variance, atol=1e-9)
    assert_allclose(cov, cov.T, atol=1e-10)
    of_parts, of_whole, of_values = np.split(np.arange(len(cov)), [2 * m, 3 * m])
    sums = np.kron(np.eye(m), np.ones(2))
    among = cov[np.ix_(of_parts, of_parts)]
    assert_allclose(np.einsum("icid->icd", among.reshape((m, 2, m, 2))), block, atol=1e-8)
    for others in (of_whole, of_values):
        expected = cov[np.ix_(of_whole, others)]
        assert_allclose(sums @ cov[np.ix_(of_parts, others)], expected, atol=1e-9)
    assert_allclose(np.diag(cov)[of_whole], variance, atol=1e-12)


def models(regression):
    X, Z, y, X_new, Z_new = regression
    yield bx.GP(X, y), THETA, (X_new,)
    yield bx.GPX(X, y), {**THETA, "sigma_w": 0.2}, (X_new,)
    yield bx.GPX(X, y, Z), {**THETA, "sigma_w": 0.2}, (X_new, Z_new)


@pytest.mark.parametrize("which", [0, *slow(1, 2)])
def test_attributions_average_baselines(regression, which):
    rows = regression[0].iloc[:3]
    for model, theta, new in list(models(regression))[which : which + 1]:
        found = bx.attributions(model, theta, *new, baseline=rows, covariance=True, **SUMMARY)
        singles = [
            bx.attributions(model, theta, *new, baseline=row, **SUMMARY) for row in rows.values
        ]
        for name in ("attribution_mean", "difference_mean"):
            expected = np.mean([single[name] for single in singles], axis=0)
            assert_allclose(found[name], expected, atol=1e-9)
        total = np.sqrt(found["attribution_cov"].sum(["feature", "feature_bis"]))
        assert_allclose(total, found["difference_sd"], rtol=1e-9)
        assert (found["difference_sd"] < singles[0]["difference_sd"]).any()
        assert found["baseline"].dims == ("baseline_row", "feature")
        assert_allclose(found["baseline"], rows)
        assert found.attrs["baseline"] == "given"
        one = bx.attributions(model, theta, *new, baseline=rows.values[[0, 0]], **SUMMARY)
        for name in ("attribution_mean", "attribution_sd", "difference_sd"):
            assert_allclose(one[name], singles[0][name], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("ard", [*slow(True), False])
@pytest.mark.parametrize("B", [*slow(1), 3])
@pytest.mark.parametrize("tied", [False, *slow(True)])
def test_one_feature_gets_the_whole_difference(regression, ard, tied, B):
    X, _, y, X_new, _ = regression
    model = (bx.GPX if tied else bx.GP)(X[["age"]], y, ard=ard)
    values = {name: np.full((1,) * ndim, 0.9) for name, ndim in model.hyperparameters.items()}
    theta = {name: v if v.ndim else float(v) for name, v in values.items()}
    found = bx.attributions(model, theta, X_new, baseline=X[["age"]][:B], **SUMMARY)
    for name in ("mean", "sd"):
        parts = found[f"attribution_{name}"].sel(feature="age")
        assert_allclose(parts, found[f"difference_{name}"], rtol=1e-6)


@pytest.mark.parametrize("tied", [False, *slow(True)])
@pytest.mark.parametrize(
    "approximation", [*slow(bx.RandomFeatures(20)), bx.HSGP(5), *slow(bx.Inducing(6))]
)
def test_approximations_average_baselines_too(regression, approximation, tied):
    X, _, y, X_new, _ = regression
    model = (bx.GPX if tied else bx.GP)(X, y, approximation=approximation)
    theta = {**THETA, "sigma_w": 0.2} if tied else THETA
    rows = X.values[:3]
    found = bx.attributions(model, theta, X_new, baseline=rows, covariance=True, **SUMMARY)
    singles = [bx.attributions(model, theta, X_new, baseline=row, **SUMMARY) for row in rows]
    for name in ("attribution_mean", "difference_mean"):
        expected = np.mean([single[name] for single in singles], axis=0)
        assert_allclose(found[name], expected, atol=1e-8)
    total = np.sqrt(found["attribution_cov"].sum(["feature", "feature_bis"]))
    assert_allclose(total, found["difference_sd"], rtol=1e-7)


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("B", [1, 3])
def test_attributions_do_not_depend_on_units_or_origin(regression, scale, B):
    X, _, y, X_new, _ = regression
    factor, shift = np.array([250.0, 0.003]), np.array([-40.0, 7.0])
    baseline = X.values[:B].squeeze()
    theta = {**THETA, "lengthscale": np.array([0.9, 1.7])}
    there_theta = theta | {} if scale else theta | {"lengthscale": theta["lengthscale"] * factor}
    here, there = (
        bx.attributions(
            bx.GP(X * a + c, y - y.mean(), scale=scale),
            hyper,
            X_new * a + c,
            baseline=baseline * a + c,
            covariance=True,
            **SUMMARY,
        )
        for a, c, hyper in ((1.0, 0.0, theta), (factor, shift, there_theta))
    )
    for name in ("attribution_mean", "attribution_cov", "difference_mean", "difference_sd"):
        assert_allclose(there[name], here[name], atol=1e-10 * float(np.abs(here[name]).max()))


def test_named_baselines_lie_side_by_side(regression):
    X, _, y, X_new, _ = regression
    model, options = bx.GP(X, y), {"draws": 4, "covariance": True, **QUIET}
    old = np.where(X["age"] > 5, "old", "young")
    named = {label: rows.mean() for label, rows in X.groupby(old)} | {"both": X.iloc[:2]}
    found = bx.attributions(model, THETA, X_new, baseline=named, **options)
    assert list(found["baseline"].values) == ["old", "young", "both"]
    assert found["attribution"].dims == ("chain", "draw", "obs", "feature", "baseline")
    assert found["baseline_value"].dims == ("feature", "baseline")
    assert found["value"].dims == ("obs", "feature")
    for label, baseline in named.items():
        alone = bx.attributions(model, THETA, X_new, baseline=baseline, **options)
        picked = found.sel(baseline=label)
        for name in ("attribution_mean", "attribution_cov", "difference_sd"):
            assert_allclose(picked[name], alone[name], atol=1e-10)
        value = baseline.mean() if isinstance(baseline, pd.DataFrame) else baseline
        assert_allclose(picked["baseline_value"], value)
    assert_allclose(found["attribution"].sum("feature"), found["difference"], atol=1e-9)
    assert found.attrs["dependence"].endswith("independent between baselines")
    noise = found["attribution"] - found["attribution_mean"]
    assert not np.allclose(noise.sel(baseline="old"), noise.sel(baseline="young"))
    again = bx.attributions(model, THETA, X_new, baseline=named, **options)
    xr.testing.assert_identical(again, found)
    with pytest.raises(ValueError, match="Choose one of them"):
        bx.plot_waterfall(found.isel(obs=[0]))
    bx.plot_attributions(found, backend="none")
    for chosen in (found.sel(baseline="old"), bx.attributions(model, THETA, X_new, **options)):
        bx.plot_attributions(chosen, backend="none")


@pytest.mark.parametrize("rows", [1, 2])
def test_a_store_holds_all_that_is_returned(regression, tmp_path, rows):
    X, _, y, X_new, _ = regression
    options = {"baseline": X.values[:rows], "method": "gauss_legendre", "steps": 30}
    options |= {"features": ["dose"], "draws": 6, **QUIET}
    path = tmp_path / "draws.zarr"
    held = bx.attributions(bx.GP(X, y), THETA, X_new, **options)
    returned = bx.attributions(bx.GP(X, y), THETA, X_new, path=path, **options)
    with xr.open_zarr(path, chunks=None) as stored:
        xr.testing.assert_identical(stored.load(), returned.load())
        assert stored.attrs["steps"] == 30 and stored.attrs["method"] == "gauss_legendre"
        xr.testing.assert_allclose(stored, held)
        assert set(stored.variables) == set(held.variables)
        assert stored.attrs == held.attrs | {WRITTEN: stored.attrs[WRITTEN]}


def test_a_crowd_of_baselines_is_averaged_over_by_functions(regression, monkeypatch):
    X, _, y, X_new, _ = regression
    model, start = bx.GP(X, y), X.values[:5] + np.arange(5)[:, None]
    exact = bx.attributions(model, THETA, X_new, baseline=start, keep="summary", **QUIET)
    monkeypatch.setattr(sys.modules["bayes_gpx.explain.attributions"], "MOST_BASELINES", 4)
    options = {"baseline": start, "draws": 400, "covariance": True, **QUIET}
    found = bx.attributions(model, THETA, X_new, **options)
    assert found.attrs["moments"] == "of the functions"
    error = (found["attribution_mean"] - exact["attribution_mean"]) / exact["attribution_sd"]
    assert np.abs(error).max() < 5 / np.sqrt(400)
    assert_allclose(found["attribution_sd"], exact["attribution_sd"], rtol=5 / np.sqrt(800))
    assert_allclose(found["attribution"].sum("feature"), found["difference"], atol=1e-8)
    assert found["attribution_cov"].dims == ("obs", "feature", "feature_bis")
    assert found["completeness_residual"].max() < 1e-6 * exact["difference_sd"].max()
    with pytest.raises(ValueError, match="baseline has 5 rows.*at most 4 for this kernel"):
        warped = partial(pm.gp.cov.WarpedInput, warp_func=lambda x: x)
        own = bx.GP(X, y, kernel=lambda d: warped(d, cov_func=pm.gp.cov.ExpQuad(d, ls=1.0)))
        bx.attributions(own, {"sigma": 0.3}, X_new, baseline=start, **QUIET)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"baseline": np.zeros((0, 2))}, "baseline has 0 rows"),
        ({"baseline": [[1.0, 2.0], [3.0, np.nan]]}, "baseline, column 'dose'"),
        ({"baseline": np.zeros((2, 3))}, "baseline has 3 columns"),
        ({"baseline": pd.DataFrame({"age": [1.0, 2.0]})}, "baseline lacks"),
        ({"baseline": np.zeros((2, 2)), "joint": True}, "average over 2 baselines"),
        ({"baseline": {}}, "empty dict"),
        ({"baseline": {"dose": 3.0}}, r"X.iloc\[\[0\]\].assign\(\*\*\{'dose': ...\}\)"),
        ({"baseline": {"a": "middle"}}, r"baseline\['a'\]: unknown 'middle'"),
        ({"baseline": {"a": [1.0]}}, r"baseline\['a'\] has 1 columns"),
        ({"baseline": {"a": "mean"}, "path": "draws.zarr"}, "a store holds one"),
    ],
)
def test_nonsense_is_refused(regression, options, message):
    X, _, y, X_new, _ = regression
    with pytest.raises(ValueError, match=message):
        bx.attributions(bx.GP(X, y), THETA, X_new, **options, **QUIET)
