"""Explanations in groups of the fit, as ArviZ, files and verbs' own plots read them."""

import arviz as az
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.testing import assert_allclose

import bayes_gpx as bx
from known_draws import known, scattered

QUIET = {"progressbar": False}


@pytest.fixture(scope="module")
def fitted(regression):
    X, Z, y, *_ = regression
    rows = [f"row {i}" for i in range(len(X))]
    X, y = X.set_axis(rows), y.set_axis(rows)
    colour = pd.Categorical(["red", "blue"] * (len(X) // 2))
    model = bx.GPX(X, y, Z.set_axis(rows).assign(colour=colour), kernel="matern52", ard=False)
    theta = {"lengthscale": 1.0, "amplitude": 1.0, "sigma_w": 0.2, "sigma": 0.3}
    return model, known(model, scattered(theta, 60))


@pytest.fixture(scope="module")
def found(fitted):
    rows = ["row 2", "row 5"]
    return {
        "contributions": bx.contributions(*fitted, obs=rows, seed=1, **QUIET),
        "shares": bx.attributions(*fitted, obs=rows, num_draws=30, seed=1, **QUIET),
    }


@pytest.fixture(scope="module")
def tree(fitted, found):
    return bx.attach(fitted[1], **found)


def test_the_fit_itself_stays_as_it_is(fitted, found, tree):
    assert not set(found) & set(fitted[1].children)
    beside = {f"{group}_summary" for group in found}
    assert set(tree.children) == set(fitted[1].children) | set(found) | beside
    xr.testing.assert_identical(tree["posterior"].to_dataset(), fitted[1]["posterior"].to_dataset())
    assert tree.attrs == fitted[1].attrs


def test_nothing_of_a_result_is_lost(found, tree):
    for group, result in found.items():
        held = tree[group]
        together = xr.merge([held.to_dataset(), tree[f"{group}_summary"].to_dataset()])
        xr.testing.assert_equal(together, result)
        assert held["obs"].values.tolist() == ["row 2", "row 5"]
        assert held.attrs["units"] == result.attrs["units"]


def test_arviz_summarises_and_plots_them(found, tree):
    table = az.summary(tree, group="contributions", kind="stats", round_to="none")
    drawn = found["contributions"]["contribution"]
    for i, row in enumerate(drawn["obs"].values):
        for j, feature in enumerate(drawn["feature"].values):
            line = table.loc[f"contribution[{row}, {feature}]"]
            assert_allclose(line["mean"], drawn[:, :, i, j].mean())
    plots = az.plot_forest, az.plot_ridge
    for plot in plots:
        pc = plot(tree, group="contributions", backend="none")
        labels = pc.viz["obs_label"]["contribution"]
        assert labels["obs"].values.tolist() == ["row 2", "row 5"]
    summary = az.summary(tree, group="shares", kind="stats")
    assert "difference[row 5]" in summary.index and "attribution[row 2, dose]" in summary.index


def test_they_are_saved_with_the_fit(fitted, tree, tmp_path):
    bx.save(fitted[0], tree, tmp_path / "fit.nc")
    model, kept = bx.load(tmp_path / "fit.nc")
    for group in ("contributions", "shares", "contributions_summary", "posterior"):
        xr.testing.assert_identical(kept[group].to_dataset(), tree[group].to_dataset())
    assert np.isfinite(bx.weights(model, kept, num_draws=2, seed=1, **QUIET)["weight"]).all()


@pytest.mark.parametrize(
    ("group", "message"),
    [("posterior", "already"), ("shares", "drop_nodes"), ("bayes_gpx", "name")],
)
def test_groups_that_exist_are_refused(found, tree, group, message):
    with pytest.raises(ValueError, match=message):
        bx.attach(tree, **{group: found["shares"]})


def test_a_group_in_the_place_of_the_summary_is_refused(fitted, found):
    with pytest.raises(ValueError, match="'shares_summary' already"):
        bx.attach(fitted[1], shares_summary=found["contributions"], shares=found["shares"])


def test_what_holds_no_draws_is_refused(fitted, found):
    model, idata = fitted
    summary = bx.weights(model, idata, obs=["row 2"], keep="summary", **QUIET)
    with pytest.raises(ValueError, match="keep='draws'"):
        bx.attach(idata, weights=summary)
    with pytest.raises(ValueError, match="is a DataArray"):
        bx.attach(idata, weights=found["shares"]["attribution"])
    with pytest.raises(ValueError, match="idata is a dict"):
        bx.attach({"sigma": 1.0}, shares=found["shares"])


@pytest.mark.parametrize("dim", ["class", "output"])
def test_classes_and_outputs_are_labels_of_arviz_too(dim):
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.normal(size=(15, 2)), columns=["age", "dose"])
    if dim == "class":
        words = np.array(["low", "middle", "high"])[np.digitize(X["age"], [-0.5, 0.5])]
        model = bx.GP(X, words, likelihood="categorical")
        idata = known(model, scattered({"lengthscale": np.ones(2), "amplitude": 1.0}, 8))
    else:
        table = pd.DataFrame({"weight": X["age"] ** 2, "size": X["dose"]})
        model = bx.GP(X, table)
        theta = {"lengthscale": np.ones((2, 2)), "amplitude": np.ones(2), "sigma": np.ones(2)}
        idata = known(model, scattered(theta, 8))
    found = {
        "attributions": bx.attributions(model, idata, obs=[0, 1], seed=1, **QUIET),
        "slopes": bx.slopes(model, idata, obs=[0, 1], seed=1, **QUIET),
        "predictions": bx.predictions(model, idata, obs=[0, 1], seed=1, **QUIET),
    }
    tree = bx.attach(idata, **found)
    for group, result in found.items():
        together = xr.merge([tree[group].to_dataset(), tree[f"{group}_summary"].to_dataset()])
        xr.testing.assert_equal(together, result)
    table = az.summary(tree, group="attributions", kind="stats", round_to="none")
    name = found["attributions"][dim].values[1]
    drawn = found["attributions"]["attribution"].sel({"obs": 1, "feature": "dose", dim: name})
    assert_allclose(table.loc[f"attribution[1, dose, {name}]"]["mean"], drawn.mean())
