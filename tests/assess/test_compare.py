"""Comparisons of models, and averages of their explanations."""

import sys
import warnings

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import bayes_gpx as bx
import oracle
from bayes_gpx.assess.compare import _baselines
from bayes_gpx.inference.diagnostics import diagnose
from bayes_gpx.reporting.fit import Fit

rng = np.random.default_rng(8)
N = 24
X = rng.uniform(-2.0, 2.0, size=(N, 2))
y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=N)
X_NEW = rng.uniform(-1.5, 1.5, size=(5, 2))
Y_NEW = np.sin(2.0 * X_NEW[:, 0]) + 0.1 * rng.normal(size=5)
QUIET = {"progressbar": False, "seed": 1}

pytestmark = [
    pytest.mark.filterwarnings("ignore:The posterior is far from its Laplace"),
    pytest.mark.filterwarnings("ignore:The largest Pareto k"),
    pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto"),
]


@pytest.fixture(scope="module")
def models():
    found = {}
    for kernel in ("expquad", "linear", "matern52"):
        model = bx.GP(X, y, kernel=kernel)
        found[kernel] = model, model.fit("laplace", draws=200, **QUIET)
    return found


@pytest.fixture(scope="module")
def frame(models):
    return bx.compare(models, X_new=X_NEW, y_new=Y_NEW)


def test_scores_are_arviz_own(models, frame):
    scored = {name: idata for name, (_, idata) in models.items()}
    expected = az.compare(scored, round_to="none")
    assert frame.index.tolist() == expected.index.tolist()
    for column in ("elpd", "se", "elpd_diff", "dse", "weight"):
        np.testing.assert_allclose(frame[column], expected[column], atol=1e-8)
    for name, idata in scored.items():
        khat = az.loo(idata, pointwise=True).pareto_k.max()
        np.testing.assert_allclose(frame.loc[name, "khat"], khat)
    az.plot_compare(frame, backend="none")


@pytest.mark.parametrize("copies", [3, 10, 40])
def test_scores_of_few_and_of_repeated_draws(models, copies):
    """Copies of one draw score as this draw does, and Pareto k says that they show no tail."""
    some = {}
    for name, (model, idata) in models.items():
        one = idata["posterior"].to_dataset().isel(draw=np.zeros(copies, int))
        tree = xr.DataTree.from_dict({"posterior": one.assign_coords(draw=np.arange(copies))})
        tree.attrs.update(idata.attrs)
        some[name] = model, tree
    found = bx.compare(some)
    alone = bx.compare({name: (m, idata.isel(draw=[0])) for name, (m, idata) in models.items()})
    np.testing.assert_allclose(found["elpd"], alone.loc[found.index, "elpd"], rtol=1e-8)
    assert np.isinf(found["khat"]).all()


def test_chunks_of_dask_are_loaded(models):
    """Of two chains: statistics of one are those of NumPy's arrays."""

    def in_two_chains(group):
        halves = [group.isel(draw=slice(100 * k, 100 * k + 100)) for k in range(2)]
        halves = [half.assign_coords(draw=range(100), chain=[k]) for k, half in enumerate(halves)]
        return xr.concat(halves, "chain")

    names = ("posterior", "log_likelihood", "sample_stats")
    cut = {
        name: (model, xr.DataTree.from_dict({n: in_two_chains(fit[n].to_dataset()) for n in names}))
        for name, (model, fit) in models.items()
    }
    lazy = {name: (model, fit.chunk({"draw": 40})) for name, (model, fit) in cut.items()}
    found, expected = bx.compare(lazy), bx.compare(cut)
    np.testing.assert_allclose(found["elpd"], expected["elpd"], rtol=1e-12)
    assert diagnose(Fit(*lazy["linear"]).idata).draws == 200


def test_the_number_of_cores_changes_no_score(models, frame):
    again = bx.compare(models, X_new=X_NEW, y_new=Y_NEW, cores=2)
    pd.testing.assert_frame_equal(again, frame)
    with pytest.raises(ValueError, match="cores"):
        bx.compare(models, cores=0)
    one, other = (bx.power_scaling(*models["linear"], cores=k) for k in (1, 2))
    xr.testing.assert_identical(one["log_likelihood"], other["log_likelihood"])


def test_held_out_densities_are_mixtures_over_draws(models, frame):
    """Of a normal for each draw, from kriging formulas written anew."""
    model, idata = models["expquad"]
    posterior, training = idata["posterior"].to_dataset(), model.training
    scaled = training.scaled()
    new = training.X_scaling.apply(X_NEW)
    terms = []
    for draw in range(200):
        theta = posterior.isel(chain=0, draw=draw)
        lengthscale, size = theta["lengthscale"].values, float(theta["amplitude"]) ** 2
        noise = float(theta["sigma"]) ** 2
        kernel = oracle.expquad
        K = size * kernel(scaled["X"], scaled["X"], lengthscale) + noise * np.eye(N)
        cross = size * kernel(new, scaled["X"], lengthscale)
        mean = cross @ np.linalg.solve(K, scaled["y"])
        variance = size + noise - (cross * np.linalg.solve(K, cross.T).T).sum(axis=1)
        mean = training.y_scaling.center + training.y_scaling.scale * mean
        variance = training.y_scaling.scale**2 * variance
        terms.append(-0.5 * ((Y_NEW - mean) ** 2 / variance + np.log(2 * np.pi * variance)))
    each = np.log(np.mean(np.exp(terms), axis=0))
    np.testing.assert_allclose(frame.loc["expquad", "held_out"], each.sum(), rtol=1e-8)
    error = np.sqrt(5) * each.std(ddof=1)
    np.testing.assert_allclose(frame.loc["expquad", "held_out_se"], error, rtol=1e-8)


def test_one_row_held_out_has_no_standard_error(models):
    few = {name: models[name] for name in ("expquad", "linear")}
    found = bx.compare(few, X_new=X_NEW[:1], y_new=Y_NEW[:1])
    assert np.isfinite(found["held_out"]).all() and found["held_out_se"].isna().all()


def test_densities_are_compared_with_densities_and_probabilities_with_probabilities():
    """With a constant f the scores are those of SciPy's distributions, of y in its own units."""
    counts = np.random.default_rng(4).poisson(9.0, N) + 1.0
    mean, sd, fits = counts.mean(), counts.std(), {}
    hyperparameters = {"normal": {"sigma": 1.0}, "gamma": {"shape": 5.0}, "poisson": {}}
    for likelihood, own in hyperparameters.items():
        rounded = {"resolution": 0.0} if likelihood == "normal" else {}
        priors = {"amplitude": 1e-6} | own
        model = bx.GP(X, counts, likelihood=likelihood, priors=priors, **rounded)
        fits[likelihood] = model, model.fit("map", **QUIET)
    for discrete in ("normal", "gamma"):
        with pytest.raises(ValueError, match=f"'{discrete}' and 'poisson': one has probabilities"):
            bx.compare({name: fits[name] for name in (discrete, "poisson")})
    found = bx.compare({name: fits[name] for name in ("normal", "gamma")})["elpd"]
    np.testing.assert_allclose(
        found["normal"], stats.norm(mean, sd).logpdf(counts).sum(), rtol=1e-5
    )
    expected = stats.gamma(5.0, scale=mean / 5.0).logpdf(counts).sum()
    np.testing.assert_allclose(found["gamma"], expected, rtol=1e-5)


def test_models_with_a_large_pareto_k_are_named(models, monkeypatch):
    model, fit = models["expquad"]
    y_far = y.copy()
    y_far[3] += 5.0
    far = bx.GP(X, y_far, priors=model.fixed)
    outlying = far, far.fit("laplace", draws=100, **QUIET)
    with pytest.warns(UserWarning, match=r"largest Pareto k is \S+ for 'outlying', ") as said:
        frame = bx.compare({"outlying": outlying, "same": outlying})
    (khat,) = set(frame["khat"])
    assert len(said) == 1 and f"{khat:.2g} for 'same'" in str(said[0].message)
    monkeypatch.setattr(sys.modules["bayes_gpx.assess.compare"], "LARGEST_K", khat)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bx.compare({"outlying": outlying, "same": outlying})


def test_notes_say_what_differences_are(frame):
    assert frame.iloc[0]["note"] == "predicts best"
    assert abs(frame["elpd_diff"].iloc[1]) < 4
    assert "less than 4" in frame.iloc[1]["note"]
    assert frame.index[2] == "linear"
    assert frame.iloc[2]["note"].startswith("predicts worse; with 24 rows")
    assert set(frame["fit"]) == {"laplace"}


@pytest.mark.slow
def test_labels_are_scored_by_their_codes():
    labels = np.where(y > 0, "up", "down")
    found = {}
    for kernel in ("expquad", "linear"):
        model = bx.GP(X, labels, kernel=kernel, likelihood="bernoulli")
        found[kernel] = model, model.fit("laplace", draws=100, **QUIET)
    new = np.where(Y_NEW > 0, "up", "down")
    frame = bx.compare(found, X_new=X_NEW, y_new=new)
    model, idata = found["expquad"]
    given = bx.predictions(model, idata, X_NEW, keep="summary", progressbar=False)
    chance = given["probability_mean"].values
    own = np.where(new == "up", chance, 1.0 - chance)
    np.testing.assert_allclose(frame.loc["expquad", "held_out"], np.log(own).sum(), rtol=1e-6)


@pytest.mark.parametrize(("family", "groups"), [(bx.GP, None), (bx.GPX, None), (bx.GP, 4)])
def test_baselines_are_regressions_refitted_without_each_row(family, groups):
    """Bayesian regression on the other rows, by its coefficients, at the fitted sds."""
    codes = np.arange(N) % (groups or 1)
    model = family(X, y, groups=codes if groups else None)
    fits = {"smooth": (model, model.fit("map", **QUIET))}
    frame = bx.compare(fits, baselines=True)
    assert set(frame.index) == {"smooth", "linear model", "mean only"}
    assert frame["khat"].isna().all()
    assert frame["note"].str.contains("scores are too high").all()
    inputs, scale = (X - X.mean(axis=0)) / X.std(axis=0), y.std()
    scaled = (y - y.mean()) / scale
    for name, (_, fit) in _baselines(fits).items():
        theta = {key: value.item() for key, value in fit["posterior"].data_vars.items()}
        sds = np.array([theta["level"], *[theta.get("slope", 0.0)] * 2])
        levels = theta.get("group_amplitude", 0.0) * (codes[:, None] == np.unique(codes))
        assert levels.any() == (groups is not None and name == "linear model")
        design = np.column_stack([np.column_stack([np.ones(N), inputs]) * sds, levels])
        total = -N * np.log(scale)
        for row in range(N):
            rest = np.delete(design, row, axis=0)
            precision = np.eye(len(rest.T)) + rest.T @ rest / theta["sigma"] ** 2
            mean = np.linalg.solve(precision, rest.T @ np.delete(scaled, row)) / theta["sigma"] ** 2
            spread = design[row] @ np.linalg.solve(precision, design[row]) + theta["sigma"] ** 2
            total += stats.norm(design[row] @ mean, np.sqrt(spread)).logpdf(scaled[row])
        np.testing.assert_allclose(frame.loc[name, "elpd"], total, rtol=1e-8)


def test_baselines_are_fitted_as_the_model_is(models):
    frame = bx.compare({"smooth": models["expquad"]}, baselines=True)
    assert set(frame["fit"]) == {"laplace"}
    assert frame.loc["mean only", "elpd"] < frame.loc["smooth", "elpd"]
    known = bx.GP(X, y, priors={"sigma": 0.4})
    fits = {"known": (known, known.fit("map", **QUIET))}
    assert all(model.fixed["sigma"] == 0.4 for model, _ in _baselines(fits).values())


def test_baselines_of_weights_at_a_place_learn_from_the_weighed_columns():
    Z, Z_new = np.cos(X), np.cos(X_NEW)
    model = bx.GPX(X, y, Z, intercept=True)
    fits = {"by place": (model, model.fit("map", **QUIET))}
    frame = bx.compare(fits, baselines=True, X_new=X_NEW, Z_new=Z_new, y_new=Y_NEW)
    plain = bx.GP(Z, y)
    same = bx.compare({"plain": (plain, plain.fit("map", **QUIET))}, baselines=True)
    names = ["linear model", "mean only"]
    np.testing.assert_allclose(frame.loc[names, "elpd"], same.loc[names, "elpd"], rtol=1e-4)
    assert frame["held_out"].notna().all()


def test_baselines_of_labels_know_their_shares():
    model = bx.GP(X, np.where(y > 0, "up", "down"), likelihood="bernoulli")
    fits = {"smooth": (model, model.fit("map", **QUIET))}
    frame = bx.compare(fits, baselines=True)
    share = (np.sum(y > 0) - (y > 0)) / (N - 1)  # of "up" in the other rows
    own = np.where(y > 0, share, 1 - share)
    np.testing.assert_allclose(frame.loc["mean only", "elpd"], np.log(own).sum(), rtol=0.05)


@pytest.mark.slow
def test_baselines_of_draws_by_pymc_are_sampled(models):
    model, idata = models["expquad"]
    drawn = xr.DataTree.from_dict({"posterior": idata["posterior"].to_dataset()})
    del drawn["posterior"].attrs["inference_method"]
    drawn.attrs["seed"] = "1"  # which the samples of the baselines have, too
    frame = bx.compare({"smooth": (model, drawn)}, baselines=True)
    assert set(frame["fit"]) == {"pm.sample"}
    assert (frame["khat"].drop("smooth") < 0.7).all()


def refused(models, message, **options):
    with pytest.raises(ValueError, match=message):
        bx.compare(models, **options)


def test_refuses_what_cannot_be_compared(models):
    pair = models["expquad"]
    refused({"alone": pair}, "fewer than two")
    refused({"a": pair, "b": pair[0]}, "no pair")
    refused(models, "y_new is missing", X_new=X_NEW)
    other = bx.GP(X[1:], y[1:])
    rows = {"a": pair, "b": (other, other.fit("laplace", draws=100, **QUIET))}
    refused(rows, "different rows")
    with pytest.raises(ValueError, match="the name of a baseline"):
        bx.compare({"mean only": pair}, baselines=True)
    with pytest.raises(ValueError, match="models is empty"):
        bx.compare({}, baselines=True)
    table = bx.GP(X, np.column_stack([y, y]))
    many = {"table": (table, table.fit("map", **QUIET))}
    with pytest.raises(ValueError, match="needs one response"):
        bx.compare(many, baselines=True)
    moved = bx.GP(X, y + 1.0)
    refused({"a": pair, "b": (moved, moved.fit("laplace", draws=100, **QUIET))}, "same y")
    mode = bx.GP(X, y)
    refused({"a": pair, "b": (mode, mode.fit("map", **QUIET))}, "Use the same method")


@pytest.mark.parametrize(
    ("options", "others", "named"),
    [
        ({}, {"weights": np.full(N, 0.5)}, "different weights"),
        ({}, {"censoring": ["right", *["none"] * (N - 1)]}, "different censoring"),
        (
            {"censoring": ["interval", *["none"] * (N - 1)], "width": 1.0},
            {"censoring": ["interval", *["none"] * (N - 1)], "width": 2.0},
            "different upper ends",
        ),
    ],
)
def test_densities_of_other_observations_are_not_compared(options, others, named):
    def fitted(given):
        width = given.get("width")
        own = y if width is None else np.column_stack([y, y])
        if width is not None:
            own[0, 1] += width
        model = bx.GP(X, own, **{k: v for k, v in given.items() if k != "width"})
        return model, model.fit("map", **QUIET)

    refused({"one": fitted(options), "other": fitted(others)}, named)
    if not options:
        same = {k: np.ones(N) if k == "weights" else ["none"] * N for k in others}
        frame = bx.compare({"one": fitted(options), "other": fitted(same)})
        np.testing.assert_allclose(*frame["elpd"], rtol=1e-6)


def test_averages_are_mixtures(models):
    options = {"obs": [0, 3], "progressbar": False, "seed": 2, "covariance": True}
    results = [bx.attributions(*fitted, **options) for fitted in models.values()]
    weights = np.array([2.0, 0.0, 6.0])
    found, share = bx.combined(results, weights), weights / 8.0
    means = np.stack([r["attribution_mean"] for r in results])
    sds = np.stack([r["attribution_sd"] for r in results])
    mean = np.tensordot(share, means, 1)
    variance = np.tensordot(share, sds**2 + means**2, 1) - mean**2
    np.testing.assert_allclose(found["attribution_mean"], mean)
    np.testing.assert_allclose(found["attribution_sd"] ** 2, variance, atol=1e-12)
    spread = np.tensordot(share, (means - mean) ** 2, 1)
    np.testing.assert_allclose(found["attribution_between"] ** 2, spread, atol=1e-12)
    diagonal = np.diagonal(found["attribution_cov"], axis1=-2, axis2=-1)
    np.testing.assert_allclose(diagonal, variance, atol=1e-12)
    assert found.sizes["draw"] == 200
    drawn = found["attribution"].values.reshape((200, -1))
    own = [r["attribution"].values.reshape((200, -1)) for r in results]
    counts = [sum((one == each).all(axis=1).any() for one in drawn) for each in own]
    assert counts == [50, 0, 150]
    plain, even = bx.combined(results), bx.combined(results, [1, 1, 1])
    xr.testing.assert_allclose(plain["attribution_mean"], even["attribution_mean"])
    for wrong in ([1.0], [1.0, -1.0, 1.0], [0.0, 0.0, 0.0], [np.nan, 1.0, 1.0]):
        with pytest.raises(ValueError, match="weights"):
            bx.combined(results, wrong)


def test_one_draw_needs_no_weights_for_the_order_of_rows():
    """The scores of a fit by MAP add up to the density of later rows given the earlier ones."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20, 1))
    y, sigma = X[:, 0] + 0.1 * rng.normal(size=20), 0.3
    priors = {"lengthscale": 1.2, "amplitude": 0.9, "sigma": sigma}
    model = bx.GP(X, y, scale=False, priors={**priors, "amplitude": pm.HalfNormal.dist(1.0)})
    idata = model.fit("map", progressbar=False)
    other = bx.GP(X, y, scale=False, kernel="linear")
    fits = {"one": (model, idata), "other": (other, other.fit("map", progressbar=False))}
    found = bx.compare(fits, order=np.arange(20), start=5)
    amplitude = idata["posterior"]["amplitude"].item()
    C = amplitude**2 * np.exp(-0.5 * ((X - X.T) / 1.2) ** 2) + sigma**2 * np.eye(20)
    both = [stats.multivariate_normal(np.zeros(k), C[:k, :k]).logpdf(y[:k]) for k in (20, 5)]
    np.testing.assert_allclose(found.loc["one", "elpd"], both[0] - both[1], rtol=1e-6)
