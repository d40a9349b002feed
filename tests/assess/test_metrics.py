"""Metrics of explanations: known values, other roads to them, limits, and refusals."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import xarray as xr
from numpy.testing import assert_allclose
from scipy.stats import binom, pearsonr

import bayes_gpx as bx
from bayes_gpx.assess import metrics, removal
from known_draws import known, scattered

QUIET = {"progressbar": False}
SUMMARY = {"keep": "summary", **QUIET}
RNG = np.random.default_rng(5)
X = pd.DataFrame(RNG.normal([1.0, -20.0, 0.0], [1.0, 5.0, 0.2], (30, 3)), columns=list("abc"))
Z = pd.DataFrame(RNG.normal(3.0, 2.0, (30, 2)), columns=["u", "v"])
Y = np.sin(X["a"]) + 0.1 * X["b"] * X["a"] + X["c"]
NEW = X.iloc[:6] + 0.1
GP = {"lengthscale": [1.0, 2.0, 3.0], "amplitude": 1.3, "sigma": 0.2}
GPX = GP | {"sigma_w": 0.1}


def predicted(m, draws=1999, seed=0):
    """Draws around 0 whose scale no observation shares with another."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(1, draws, m)) * (1.0 + np.arange(m))
    return xr.Dataset({"y": (("chain", "draw", "obs"), y)}, {"obs": np.arange(m)})


@pytest.mark.parametrize("prob", [0.5, 0.9])
def test_coverage_counts_responses_within_quantiles(prob):
    found, y = predicted(40), np.random.default_rng(1).normal(size=40) * (1.0 + np.arange(40))
    low, high = np.quantile(found["y"].values[0], [0.5 - prob / 2, 0.5 + prob / 2], axis=0)
    assert_allclose(metrics.coverage(found, y, prob), np.mean((low <= y) & (y <= high)))


def test_draws_that_equal_a_count_lie_half_below():
    """Of 10 draws 0 to 9, 4 are below 4 and one is it: 0.45 below, an interval of 0.1 and more."""
    drawn = np.arange(10.0).reshape((1, 10, 1)) * np.ones(2)
    drawn = xr.Dataset({"y": (("chain", "draw", "obs"), drawn)}, {"obs": [0, 1]})
    assert_allclose(metrics.coverage(drawn, [4, 9], [0.05, 0.15, 0.85, 0.95]), [0, 0.5, 0.5, 1])


def test_coverage_of_counts_is_the_probability_where_their_distribution_is_right():
    rng, probs = np.random.default_rng(2), np.array([0.25, 0.5, 0.9])
    drawn = rng.poisson(30.0, (2, 500, 4000)).astype(float)
    drawn = xr.Dataset({"y": (("chain", "draw", "obs"), drawn)}, {"obs": np.arange(4000)})
    found = metrics.coverage(drawn, rng.poisson(30.0, 4000), probs)
    assert found.dims == ("ci_prob",)
    assert_allclose(found, probs, atol=0.02 + 4 * binom(4000, 0.5).std() / 4000)
    assert metrics.coverage(drawn, rng.negative_binomial(3, 3 / 33, 4000), 0.9) < 0.6


def test_coverage_says_what_it_cannot_use():
    found = predicted(3)
    with pytest.raises(ValueError, match="keep='draws'"):
        metrics.coverage(found.drop_vars("y"), [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="label"):
        metrics.coverage(found.assign_attrs(labels=["a", "b"]), [0, 1, 1])
    with pytest.raises(ValueError, match="index of y differs"):
        metrics.coverage(found, pd.Series([1.0, 2.0, 3.0], index=[2, 1, 0]))
    with pytest.raises(ValueError, match="index of y differs"):
        metrics.coverage(found, xr.DataArray([1.0, 2.0, 3.0], {"obs": [0, 2, 1]}, ["obs"]))
    with pytest.raises(ValueError, match=r"isel\(obs=\[0\]\)"):
        metrics.coverage(found.isel(obs=0), [1.0])
    with pytest.raises(ValueError, match="holds words, such as 'a'"):
        metrics.coverage(found, ["a", "b", "c"])
    with pytest.raises(ValueError, match="one value for each"):
        metrics.coverage(found, [1.0, 2.0])
    with pytest.raises(ValueError, match="1 missing value"):
        metrics.coverage(found, [1.0, np.nan, 2.0])
    with pytest.raises(ValueError, match="between 0 and 1"):
        metrics.coverage(found, [1.0, 2.0, 3.0], [0.5, 90])


def moved(model, theta, X_new, Z_new, start, column, *, of_z):
    """Change of the latent mean when one column of each row goes to the start, row by row."""
    other = (Z_new if of_z else X_new).copy()
    other[column] = start[column]
    ask = dict(X_new=X_new, Z_new=other) if of_z else dict(X_new=other, Z_new=Z_new)
    before = bx.predictions(model, theta, X_new, Z_new, **SUMMARY)["f_mean"].values
    return before - bx.predictions(model, theta, **ask, **SUMMARY)["f_mean"].values


CASES = {
    "attributions of a GP": (bx.GP(X, Y), GP, bx.attributions, None),
    "attributions of a GPX": (bx.GPX(X, Y), GPX, bx.attributions, None),
    "contributions, X weighed": (bx.GPX(X, Y, intercept=True), GPX, bx.contributions, None),
    "attributions, Z held": (bx.GPX(X, Y, Z), GPX, bx.attributions, Z.iloc[:6]),
    "contributions of Z": (bx.GPX(X, Y, Z, intercept=True), GPX, bx.contributions, Z.iloc[:6]),
}


@pytest.mark.parametrize("case", CASES)
def test_faithfulness_is_the_correlation_with_what_removal_changes(case):
    model, theta, verb, Z_new = CASES[case]
    dataset = verb(model, theta, NEW, Z_new, **SUMMARY)
    found = metrics.faithfulness(model, theta, dataset, NEW, Z_new, **QUIET)
    of_z = case == "contributions of Z"
    columns = list(Z if of_z else X)
    start = dict(zip(columns, (Z if of_z else X).mean(), strict=True))
    drops = [moved(model, theta, NEW, Z_new, start, c, of_z=of_z) for c in columns]
    name = "contribution" if verb is bx.contributions else "attribution"
    means = dataset[f"{name}_mean"].sel(feature=columns).values
    expected = [
        pearsonr(mean, drop)[0] for mean, drop in zip(means, np.transpose(drops), strict=True)
    ]
    assert_allclose(found, expected, atol=1e-9)
    assert found.dims == ("obs",)
    assert_allclose(found["obs"], NEW.index)


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_lost_with_all_features_and_all_without_any(case):
    model, theta, verb, Z_new = CASES[case]
    dataset = verb(model, theta, NEW, Z_new, **SUMMARY)
    found = metrics.sufficiency(model, theta, dataset, NEW, Z_new, **QUIET)
    p = 2 if case == "contributions of Z" else 3
    assert_allclose(found["kept"], np.arange(p + 1))
    assert_allclose(found.sel(kept=p), 0.0, atol=1e-12)
    if verb is bx.attributions:
        assert_allclose(found.sel(kept=0), dataset["difference_mean"], atol=1e-8)
    elif case == "contributions of Z":
        whole = dataset["contribution_mean"].drop_sel(feature="intercept").sum("feature")
        assert_allclose(found.sel(kept=0), whole, atol=1e-9)


def test_what_is_kept_is_the_largest():
    model, theta, verb, _ = CASES["attributions of a GP"]
    dataset = verb(model, theta, NEW, **SUMMARY)
    found = metrics.sufficiency(model, theta, dataset, NEW, kept=[1], **QUIET)
    rows, largest = NEW.copy(), abs(dataset["attribution_mean"]).argmax("feature").values
    for row, kept in enumerate(largest):
        others = [c for c in range(3) if c != kept]
        rows.iloc[row, others] = X.mean().iloc[others]
    before, after = (bx.predictions(model, theta, x, **SUMMARY)["f_mean"] for x in (NEW, rows))
    assert_allclose(found.sel(kept=1), before - after, atol=1e-9)


@pytest.mark.parametrize("on", ["response", "latent"])
def test_of_several_classes_each_is_asked_apart(on):
    labels = np.array(list("pqr"))[np.digitize(Y, np.quantile(Y, [0.3, 0.7]))]
    model = bx.GP(X, labels, likelihood="categorical")
    theta = {"lengthscale": [1.0, 2.0, 3.0], "amplitude": 2.0}
    options = {"draws": 100, "seed": 0, "on": on, **QUIET}
    dataset = bx.attributions(model, theta, NEW, **options)
    faithful = metrics.faithfulness(model, theta, dataset, NEW, **QUIET)
    lost = metrics.sufficiency(model, theta, dataset, NEW, kept=[0, 1, 3], **QUIET)
    assert faithful.dims == ("obs", "class") and lost.dims == ("kept", "obs", "class")
    # Means of probabilities are by quasi-random points.
    near = 2e-2 if on == "response" else 1e-8
    assert_allclose(lost.sel(kept=0), dataset["difference_mean"], atol=near)
    assert_allclose(lost.sel(kept=3), 0.0, atol=1e-12)
    name = "f_mean" if on == "latent" else "probability_mean"
    which = abs(dataset["attribution_mean"].sel({"class": "r"})).argmax("feature").values
    rows = pd.DataFrame([X.mean()] * 6)
    rows.index = NEW.index
    for row, kept in enumerate(which):
        rows.iloc[row, kept] = NEW.iloc[row, kept]
    before, after = (
        bx.predictions(model, theta, x, draws=2, seed=0, **SUMMARY)[name].sel({"class": "r"})
        for x in (NEW, rows)
    )
    assert_allclose(lost.sel({"kept": 1, "class": "r"}), before - after, atol=1e-9)


def test_stability_is_the_largest_change_by_distance():
    model, theta, *_ = CASES["attributions of a GPX"]
    dataset = bx.weights(model, theta, **SUMMARY)
    found = metrics.stability(dataset, neighbours=4)
    sd = X.std(ddof=0).values
    x, w = X.values / sd, dataset["weight_mean"].values * sd
    for i in range(len(X)):
        apart = np.linalg.norm(x - x[i], axis=1)
        near = np.argsort(apart)[1:5]
        ratios = np.linalg.norm(w[near] - w[i], axis=1) / apart[near]
        assert_allclose(found[i], ratios.max(), rtol=1e-9)
    assert_allclose(metrics.stability(dataset, 1000), metrics.stability(dataset, 29))


def test_stability_of_a_sparse_table_is_that_of_its_zeros():
    """What a sparse table leaves out has no contribution, and none is 0."""
    words = np.where(RNG.uniform(size=(30, 4)) < 0.4, Z["u"].to_numpy()[:, None], 0.0)
    tables = pd.DataFrame(words, columns=list("pqrs")), scipy.sparse.csr_array(words)
    found = [
        bx.contributions(bx.GPX(X, Y, table, scale=False, weight_prior="shared"), GPX, **SUMMARY)
        for table in tables
    ]
    for options in ({}, {"radius": np.inf}):
        dense, sparse = (metrics.stability(each, **options) for each in found)
        assert_allclose(sparse, dense, rtol=1e-9)


def test_stability_passes_over_neighbours_with_the_same_values():
    value = np.array([[0.0], [0.0], [0.0], [2.0]])
    mean = np.array([[[1.0, 5.0]], [[1.5, 5.0]], [[1.0, 5.0]], [[4.0, 7.0]]])
    dataset = xr.Dataset(
        {
            "value": (("obs", "feature"), value),
            "attribution_mean": (("obs", "feature", "class"), mean),
        }
    )
    found = metrics.stability(dataset, 3)
    sd = value.std()
    expected = np.array([[3.0, 2.0], [2.5, 2.0], [3.0, 2.0], [3.0, 2.0]]) * sd / 2.0
    assert found.dims == ("obs", "class")
    assert_allclose(found, expected)
    assert np.isnan(metrics.stability(dataset, 1).values[:2]).all()


def test_a_chosen_class_is_compared_with_itself():
    labels = np.array(list("pqr"))[np.digitize(Y, np.quantile(Y, [0.3, 0.7]))]
    model = bx.GP(X, labels, likelihood="categorical")
    theta = {"lengthscale": [1.0, 2.0, 3.0], "amplitude": 2.0}
    dataset = bx.attributions(model, theta, NEW, draws=50, seed=0, **QUIET)
    for metric in (metrics.faithfulness, metrics.sufficiency):
        whole = metric(model, theta, dataset, NEW, **QUIET)
        for chosen in ("r", ["r", "p"]):
            some = metric(model, theta, dataset.sel({"class": chosen}), NEW, **QUIET)
            assert_allclose(some, whole.sel({"class": chosen}), atol=1e-12)


def test_metrics_average_over_the_draws_that_are_asked_for():
    model = bx.GP(X, Y)
    idata = known(model, scattered({**GP, "lengthscale": np.array(GP["lengthscale"])}, 12))
    differences = []
    for number in (None, 3):
        dataset = bx.attributions(model, idata, NEW, num_draws=number, **SUMMARY)
        options = {"kept": 0, "num_draws": number, **QUIET}
        found = metrics.sufficiency(model, idata, dataset, NEW, **options)
        assert_allclose(found.sel(kept=0), dataset["difference_mean"], atol=1e-8)
        differences.append(found.values)
    assert np.abs(differences[0] - differences[1]).max() > 1e-6


def test_large_questions_are_asked_in_parts(monkeypatch):
    model, theta, verb, _ = CASES["attributions of a GP"]
    dataset = verb(model, theta, NEW, **SUMMARY)
    whole = metrics.sufficiency(model, theta, dataset, NEW, **QUIET)
    monkeypatch.setattr(removal, "ROWS", 13)
    assert_allclose(metrics.sufficiency(model, theta, dataset, NEW, **QUIET), whole, atol=1e-12)


def test_derivatives_and_constant_features_have_their_scale():
    value = np.array([[0.0, 3.0], [2.0, 3.0]])
    mean = np.array([[1.0, 0.0], [4.0, 5.0]])
    dims = ("obs", "feature")
    for name, expected in (("derivative", 3.0 * 1.0 / 2.0), ("attribution", np.hypot(3, 5) / 2)):
        dataset = xr.Dataset({"value": (dims, value), f"{name}_mean": (dims, mean)})
        assert_allclose(metrics.stability(dataset), [expected] * 2)  # sds are 1 and 0


def test_a_metric_says_what_it_cannot_use():
    model, theta, verb, _ = CASES["attributions of a GP"]
    dataset = verb(model, theta, NEW, **SUMMARY)
    with pytest.raises(ValueError, match="other values"):
        metrics.faithfulness(model, theta, dataset, NEW + 1.0, **QUIET)
    some = verb(model, theta, NEW, features=["a", "b"], **SUMMARY)
    with pytest.raises(ValueError, match="all of"):
        metrics.faithfulness(model, theta, some, NEW, **QUIET)
    several = verb(model, theta, NEW, baseline=X.iloc[:2], **SUMMARY)
    with pytest.raises(ValueError, match="several baselines"):
        metrics.sufficiency(model, theta, several, NEW, **QUIET)
    for kept in ([4], [1, 1], []):
        with pytest.raises(ValueError, match="at most 3"):
            metrics.sufficiency(model, theta, dataset, NEW, kept=kept, **QUIET)
    with pytest.raises(ValueError, match="and no others"):
        metrics.faithfulness(bx.GP(X[["a", "b"]], Y), theta, dataset, NEW, **QUIET)
    with pytest.raises(ValueError, match="over observations"):
        metrics.faithfulness(model, theta, dataset.isel(obs=0), NEW, **QUIET)
    counted = bx.GPX(X, np.arange(30) % 4, likelihood="poisson")
    known = {name: value for name, value in GPX.items() if name != "sigma"}
    rates = bx.attributions(counted, known, NEW, draws=5, seed=0, **QUIET)
    with pytest.raises(ValueError, match="on='latent'"):
        metrics.faithfulness(counted, known, rates, NEW, **QUIET)
    slopes = bx.derivatives(model, theta, NEW, **SUMMARY)
    with pytest.raises(ValueError, match="no attribution or contribution"):
        metrics.faithfulness(model, theta, slopes, NEW, **QUIET)
    with pytest.raises(ValueError, match="two or more"):
        metrics.stability(dataset.isel(obs=[0]))
    with pytest.raises(ValueError, match="no weight or"):
        metrics.stability(predicted(3))
    varying = CASES["attributions, Z held"][0]
    with pytest.raises(ValueError, match="Z_new"):
        metrics.stability(bx.weights(varying, GPX, NEW, **SUMMARY))
    kinds = pd.DataFrame({"size": X["a"], "kind": pd.Categorical(["p", "q", "r"] * 10)})
    known = bx.GP(kinds, Y)
    values = {"lengthscale": [1.0, 1.0, 1.0, 1.0], "amplitude": 1.0, "sigma": 0.2}
    dataset = bx.attributions(known, values, **SUMMARY)
    with pytest.raises(ValueError, match="categorical"):
        metrics.faithfulness(known, values, dataset, **QUIET)
    with pytest.raises(ValueError, match="categorical"):
        metrics.stability(dataset)


def test_explanations_that_no_drop_of_a_prediction_measures_are_refused():
    model = bx.GP(X, Y)
    of_variance = bx.attributions(model, GP, NEW, of="log_variance", **QUIET)
    rows = (X.to_numpy() - X.to_numpy().mean(axis=0)) / X.to_numpy().std(axis=0)
    additive = bx.GP(X, Y, kernel=lambda d: bx.Additive(d, 1.0, measure=rows))
    theta = {"sigma": 0.2}
    fanova = bx.shapley_values(additive, theta, NEW, method="fanova", **SUMMARY)
    for metric in (metrics.faithfulness, metrics.sufficiency):
        with pytest.raises(ValueError, match="explains the log variance.*of='value'"):
            metric(model, GP, of_variance, NEW, **QUIET)
        with pytest.raises(ValueError, match="no baseline.*'fanova'"):
            metric(additive, theta, fanova, NEW, **QUIET)
