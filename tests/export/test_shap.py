"""What shap is handed: values that add up to f, and intervals around them."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx

THETA = {"lengthscale": [0.9, 1.7], "amplitude": 0.8, "sigma": 0.4}
OPTIONS = {"draws": 100, "seed": 2, "progressbar": False}


@pytest.fixture(autouse=True)
def shap(monkeypatch):
    """A stand-in whose explanation is what it is given."""
    module = ModuleType("shap")
    module.Explanation = SimpleNamespace
    monkeypatch.setitem(sys.modules, "shap", module)


@pytest.fixture(scope="module")
def explained(regression):
    X, _, y, X_new, _ = regression
    model = bx.GP(X, y)
    return (
        model,
        bx.attributions(model, THETA, X_new, **OPTIONS),
        bx.predictions(model, THETA, X_new, **OPTIONS),
    )


def test_attributions_come_with_their_intervals(explained, regression):
    _, found, _ = explained
    given = bx.to_shap(found, ci_prob=0.8)
    assert_allclose(given.values, found["attribution_mean"])
    low, high = np.quantile(found["attribution"].values[0], [0.1, 0.9], axis=0)
    assert_allclose(given.lower_bounds, low)
    assert_allclose(given.upper_bounds, high)
    assert_allclose(given.data, regression[3])
    assert given.feature_names == ["age", "dose"]
    assert given.output_names == "pressure"
    assert_allclose(given.base_values, np.zeros(4))


def test_with_predictions_the_base_is_f_at_the_baseline(explained):
    model, found, predicted = explained
    given = bx.to_shap(found, predictions=predicted)
    baseline = model.training.X.values.mean(axis=0)[None]
    at_baseline = bx.predictions(model, THETA, baseline, **OPTIONS)["f_mean"].item()
    assert_allclose(given.base_values, np.full(4, at_baseline), rtol=1e-9)
    assert_allclose(given.base_values + given.values.sum(axis=1), predicted["f_mean"], rtol=1e-6)
    some = bx.to_shap(found, predictions=predicted, obs=[3, 1])
    assert_allclose(some.values, given.values[[3, 1]])
    assert_allclose(some.base_values, given.base_values[[3, 1]])


def test_own_deviations_of_training_samples_are_part_of_the_base(regression):
    X, Z, y, _, _ = regression
    model, theta = bx.GPX(X, y, Z), THETA | {"sigma_w": 0.3}
    found = bx.attributions(model, theta, keep="summary", progressbar=False)
    f = bx.predictions(model, theta, keep="summary", progressbar=False)
    given = bx.to_shap(found, predictions=f, obs=X.index[[5, 2]])
    assert_allclose(given.base_values + given.values.sum(axis=1), f["f_mean"][[5, 2]])
    assert abs(np.diff(given.base_values).item()) > 0.1


@pytest.mark.parametrize("likelihood", ["bernoulli", "poisson"])
def test_the_base_is_on_the_scale_of_the_attributions(regression, likelihood):
    """f(baseline) on the response scale, by a prediction there; with rates for one exposure."""
    X, _, y, X_new, _ = regression
    counts = np.round(np.exp(0.3 * (y - y.mean()))).astype(int)
    response = counts if likelihood == "poisson" else (y > y.mean()).astype(int)
    counted = likelihood == "poisson"
    exposed = {"exposure": np.linspace(0.5, 2.0, len(X))} if counted else {}
    model = bx.GP(X, response, likelihood=likelihood, **exposed)
    theta = {"lengthscale": [0.9, 1.7], "amplitude": 0.8}
    found = bx.attributions(model, theta, X_new, **OPTIONS)
    exposures = {"exposure": [1.0, 3.0, 0.2, 2.0]} if counted else {}
    predicted = bx.predictions(model, theta, X_new, **exposures, **OPTIONS)
    baseline = model.training.X.values.mean(axis=0)[None]
    there = bx.predictions(model, theta, baseline, **OPTIONS)
    given = bx.to_shap(found, predictions=predicted)
    assert_allclose(given.base_values, np.full(4, there["response_mean"].item()), rtol=1e-6)
    assert given.base_values.min() > 0
    latent = bx.attributions(model, theta, X_new, on="latent", **OPTIONS)
    given = bx.to_shap(latent, predictions=predicted)
    assert_allclose(given.base_values, np.full(4, there["f_mean"].item()), rtol=1e-6)
    with pytest.raises(ValueError, match="both on the response scale or both on='latent'"):
        latent_alone = bx.predictions(model, theta, X_new, on="latent", **OPTIONS)
        bx.to_shap(found, predictions=latent_alone)


def test_the_base_of_a_class_is_its_own(regression):
    X, _, y, X_new, _ = regression
    labels = np.array(list("abc"))[np.digitize(y, np.quantile(y, [0.3, 0.6]))]
    model = bx.GP(X, labels, likelihood="categorical")
    theta = {"lengthscale": [0.9, 1.7], "amplitude": 0.8}
    found = bx.attributions(model, theta, X_new, **OPTIONS).sel({"class": "b"})
    predicted = bx.predictions(model, theta, X_new, **OPTIONS)
    given = bx.to_shap(found, predictions=predicted.sel({"class": "b"}))
    whole = given.base_values + given.values.sum(axis=1)
    assert_allclose(whole, predicted["probability_mean"].sel({"class": "b"}), rtol=1e-6)
    with pytest.raises(ValueError, match="dim 'class'"):
        bx.to_shap(found, predictions=predicted)
    with pytest.raises(ValueError, match="of class 'a' and the dataset is of 'b'"):
        bx.to_shap(found, predictions=predicted.sel({"class": "a"}))


def test_the_log_variance_has_no_base_in_predictions(explained, regression):
    model, _, predicted = explained
    options = {"of": "log_variance", "progressbar": False}
    found = bx.attributions(model, THETA, regression[3], **options)
    assert_allclose(bx.to_shap(found).base_values, np.zeros(4))
    with pytest.raises(ValueError, match="log variance, which they do not contain"):
        bx.to_shap(found, predictions=predicted)


def test_contributions_bring_their_offset(regression):
    X, Z, y, X_new, Z_new = regression
    model = bx.GPX(X, y, Z)
    theta = THETA | {"sigma_w": 0.3}
    found = bx.contributions(model, theta, X_new, Z_new, keep="summary", progressbar=False)
    given = bx.to_shap(found)
    f = bx.predictions(model, theta, X_new, Z_new, **OPTIONS)["f_mean"]
    assert_allclose(given.base_values + given.values.sum(axis=1), f)
    half = (given.upper_bounds - given.lower_bounds) / 2
    # 1.644854 is the 95 % point of a normal, which a single draw of the hyperparameters leaves.
    assert_allclose(half, 1.644854 * found["contribution_sd"], rtol=1e-6)
    with pytest.raises(ValueError, match="contributions bring their own offset"):
        bx.to_shap(found, predictions=f.to_dataset())


def test_what_shap_cannot_take_is_refused(explained):
    model, found, predicted = explained
    with pytest.raises(ValueError, match="Pass the result of bx.attributions or"):
        bx.to_shap(predicted)
    with pytest.raises(ValueError, match="The obs of predictions differ"):
        bx.to_shap(found, predictions=predicted.isel(obs=[1, 0, 2, 3]))
    with pytest.raises(ValueError, match="some features are left out"):
        bx.to_shap(found.isel(feature=[0]))
    with pytest.raises(ValueError, match="dim 'baseline'"):
        bx.to_shap(found.drop_vars("baseline").expand_dims(baseline=["a"]).assign(found[["value"]]))


def test_without_shap_the_error_names_the_cure(explained, monkeypatch):
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(ImportError, match="pip install shap"):
        bx.to_shap(explained[1])
