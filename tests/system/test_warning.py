"""Warnings name the line that called the package."""

import numpy as np
import pytest

import bayes_gpx as bx
from bayes_gpx.explain.attributions import CompletenessWarning


def test_a_warning_from_deep_inside_names_the_users_line():
    X = np.linspace(-2.0, 2.0, 8)[:, None]
    model = bx.GP(X, np.sin(X[:, 0]), scale=False)
    theta = {"lengthscale": [0.3], "amplitude": 1.0, "sigma": 0.1}
    with pytest.warns(CompletenessWarning) as caught:
        bx.attributions(model, theta, method="right", steps=1, progressbar=False)
    assert {warning.filename for warning in caught} == {__file__}
