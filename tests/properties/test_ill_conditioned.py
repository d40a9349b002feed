"""A thousand problems that are hard on float64: answers are finite, and add up or are warned of."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx.explain.attributions import CompletenessWarning
from bayes_gpx.inference.log_density import Density

PROBLEMS, ROWS = 1000, 20
KERNELS = "expquad", "matern52", "matern32", "expquad + linear"
LARGEST_RESIDUAL = 1e-6
"""Of completeness, as a share of the largest difference, its sd added, or of the response's sd."""

QUIET = {"progressbar": False, "keep": "summary", "covariance": True}


def problem(rng):
    """Rows that repeat, nearly repeat, are collinear or far from 0; extreme hyperparameters."""
    X = rng.normal(size=(ROWS, 3))
    kind = rng.integers(5)
    if kind == 0:
        X[ROWS // 2 :] = X[: ROWS // 2]
    elif kind == 1:
        X[ROWS // 2 :] = X[: ROWS // 2] + 10.0 ** rng.uniform(-12, -4) * rng.normal(size=(10, 3))
    elif kind == 2:
        X[:, 2] = X[:, 0] - 2.0 * X[:, 1]
    elif kind == 3:
        X = X * 10.0 ** rng.uniform(-4, 4, size=3) + 10.0 ** rng.uniform(0, 6, size=3)
    else:
        X[:, 0] = np.round(X[:, 0])
        X[:, 1] = X[:, 0] ** 3
    y = np.sin(X[:, 0] / X[:, 0].std()) + 10.0 ** rng.uniform(-6, 0) * rng.normal(size=ROWS)
    y = 10.0 ** rng.uniform(-4, 4) * (y + 10.0 ** rng.uniform(0, 4))
    kernel = KERNELS[rng.integers(len(KERNELS))]
    model = bx.GPX(X, y, kernel=kernel) if rng.integers(2) else bx.GP(X, y, kernel=kernel)
    theta = {}
    for h in model.specification.hyperparameters:
        low, high = (-6, 0) if h.name in ("sigma", "sigma_w") else (-2, 3)
        low, high = (-2, 2) if "amplitude" in h.name else (low, high)
        theta[h.name] = 10.0 ** rng.uniform(
            low, high, size=model.training.size(h.dim) if h.dim else ()
        )
    new = X[:3] + X.std(axis=0) * rng.normal(size=(3, 3))
    return model, theta, new


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:X has columns that hold the same")  # rounded to -1, 0 and 1
@pytest.mark.parametrize("part", range(10))
def test_what_is_said_is_finite_and_adds_up_or_is_warned_of(part):
    rng = np.random.default_rng([part, 77])
    for _ in range(PROBLEMS // 10):
        model, theta, new = problem(rng)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            found = bx.attributions(model, theta, new, **QUIET)
            predicted = bx.predictions(model, theta, new, progressbar=False, keep="summary")
        for dataset in (found, predicted):
            for name, values in dataset.data_vars.items():
                assert np.isfinite(values.values).all(), (name, theta)
                assert not name.endswith("_sd") or (values.values >= 0).all(), (name, theta)
        reach = np.abs(found["difference_mean"]) + found["difference_sd"]
        size = max(model.training.y_scaling.scale, float(reach.max()))
        apart = np.abs(found["completeness_residual"].values).max() / size
        told = any(issubclass(w.category, CompletenessWarning) for w in warned)
        assert apart < LARGEST_RESIDUAL or told, (apart, theta)
        least = np.linalg.eigvalsh(found["attribution_cov"].values).min(axis=1)
        largest = np.abs(found["attribution_cov"].values).max(axis=(1, 2))
        assert told or (least >= -1e-6 * np.maximum(largest, size**2)).all(), theta


def test_a_gradient_keeps_its_digits_where_the_prior_is_wide():
    """Of Laplace's evidence with slopes of a prior sd of 1000, in the shape of the likelihood."""
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.normal(size=(40, 2)), np.ones(40)])
    y = np.exp(X @ [0.5, -0.3, 1.0]) * rng.weibull(1.5, size=40)
    options = {"kernel": "linear", "likelihood": "weibull", "scale": False}
    model = bx.GP(X, y, priors={"amplitude": 1e3}, **options)
    density, at, step = Density(model.objective, jacobian=True).value_and_slope(), 0.4, 1e-3
    above, below = (float(density(np.array([at + side]))[0]) for side in (step, -step))
    slope = np.asarray(density(np.array([at]))[1]).item()
    assert_allclose(slope, (above - below) / (2.0 * step), rtol=1e-4)
