"""A model is bound to the rows that it was built with."""

import numpy as np
import pymc as pm
import pytest

import bayes_gpx as bx


def test_data_are_kept_with_the_fit_and_cannot_be_set(regression):
    X, Z, y, *_ = regression
    model = bx.GPX(X, y, Z)
    for name, values in (("X", X), ("Z", Z)):
        np.testing.assert_array_equal(model.pymc[name].data, values)
        for other in (values + 1.0, values[:3]):
            with pytest.raises(TypeError, match=f"{name} cannot be set.*X_new"):
                pm.set_data({name: other.to_numpy()}, model=model.pymc)
    idata = model.fit("map", progressbar=False)
    assert idata["constant_data"]["Z"].dims == ("obs", "z_feature")
    np.testing.assert_array_equal(idata["constant_data"]["X"], X)


def test_other_data_of_a_larger_model_can_be_set(regression):
    X, _, y, *_ = regression
    with bx.GP(X, y).pymc as own:
        pm.Data("elsewhere", [1.0, 2.0])
    pm.set_data({"elsewhere": [3.0]}, model=own)
    assert own["elsewhere"].get_value() == [3.0]
    with pm.Model() as larger:
        bx.GP(X, y)
    with pytest.raises(TypeError, match="`X`"):
        pm.set_data({"X": X.to_numpy() + 1.0}, model=larger)


@pytest.mark.parametrize(
    ("likelihood", "exposed"),
    [
        pytest.param("student_t", False, marks=pytest.mark.slow),
        ("bernoulli", False),
        ("poisson", True),
    ],
)
def test_only_what_takes_an_exposure_has_one(regression, likelihood, exposed):
    X, *_ = regression
    y = np.arange(len(X)) % 2
    model = bx.GP(X, y, likelihood=likelihood)
    assert ("exposure" in model.pymc.named_vars) == exposed
    idata = model.fit("map", start=dict.fromkeys(model.hyperparameters, 1.0), progressbar=False)
    assert ("exposure" in idata["constant_data"]) == exposed
