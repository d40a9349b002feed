"""Random functions of periodic, product, power and additive kernels, and their derivatives."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx.kernels.additive import Additive
from bayes_gpx.kernels.from_pymc import from_pymc
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.processes.basis_functions import NoBasis
from bayes_gpx.processes.random_products import random_functions

cov = pm.gp.cov
DRAWS = 200
RNG = np.random.default_rng(4)
X = RNG.normal(size=(4, 2))
LS = np.array([0.7, 1.4])
KERNELS = {
    "periodic": lambda: cov.Periodic(2, period=np.array([1.0, 2.5]), ls=LS),
    "sharp periodic": lambda: cov.Periodic(2, period=2.0, ls=0.05),
    "polynomial": lambda: cov.Polynomial(2, c=np.array([0.2, -0.1]), d=2, offset=0.8),
    "cubic": lambda: cov.Polynomial(2, c=0.0, d=3, offset=0.5),
    "wave times line": lambda: cov.Matern32(2, ls=LS) * cov.Linear(2, c=0.3),
    "season that changes": lambda: cov.ExpQuad(2, ls=2.0) * cov.Periodic(2, period=1.5, ls=1.0),
    "sum in a product": lambda: (cov.ExpQuad(2, ls=LS) + 0.5) * cov.RatQuad(2, ls=1.0, alpha=1.5),
    "one column": lambda: cov.ExpQuad(2, ls=1.0, active_dims=[1]) * cov.Linear(2, c=0.0),
    "additive": lambda: Additive(2, LS, variances=np.array([0.9, 0.4])),
    "orthogonal": lambda: Additive(2, LS, variances=np.array([0.9, 0.4]), measure="gaussian"),
}
"""Kernels of two columns."""


def drawn(kernel, h, parts=3):
    rng = np.random.default_rng(9)
    x = pt.dmatrix("x")
    functions = random_functions(kernel, lambda d: pt.constant(rng.normal(size=(d, h))), 2)
    jet = functions(pt.specify_shape(x, (None, 2)))
    return pytensor.function([x], list(jet.parts[:parts]), mode=MODE)


@pytest.mark.parametrize("name", KERNELS)
def test_products_of_values_have_the_kernel_as_mean(name):
    kernel = from_pymc(KERNELS[name]())
    (value,) = drawn(kernel, 60_000, parts=1)(X)
    products = value[:, None] * value[None]
    gap = np.abs(products.mean(axis=2) - kernel.gram(pt.constant(X)).eval(mode=MODE))
    assert (gap < 5.5 * products.std(axis=2) / np.sqrt(60_000)).all()
    few = drawn(kernel, 5)
    for d in range(2):
        step = 1e-5 * np.eye(2)[d]
        above, below = (few(X + sign * step) for sign in (1.0, -1.0))
        assert_allclose(few(X)[1][:, d], (above[0] - below[0]) / 2e-5, rtol=1e-5, atol=1e-6)
        assert_allclose(few(X)[2][:, d], (above[1] - below[1]) / 2e-5, rtol=1e-5, atol=1e-5)


def test_powers_that_are_no_products_have_no_functions():
    for degree in (2.5, 9.0):
        kernel = from_pymc(cov.Polynomial(2, c=0.0, d=degree, offset=0.5))
        assert np.isnan(drawn(kernel, 3)(X)[0]).all()
    with pytest.raises(NoBasis, match="Exponential"):
        random_functions(from_pymc(cov.Exponential(2, ls=1.0)), lambda d: pt.ones((d, 3)), 2)


def test_posterior_functions_have_the_moments_of_the_posterior():
    """Through Matheron's rule, also for slopes and attributions along paths."""
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(12, 2))
    y = np.sin(3.0 * rows[:, 0]) + rows[:, 1]
    model = bx.GP(rows, y, kernel="expquad * periodic + linear", scale=False)
    theta = {
        "expquad_lengthscale": [2.0, 2.0], "periodic_lengthscale": [1.0, 1.0],
        "periodic_period": 2.1, "expquad_amplitude": 1.0, "linear_amplitude": 0.7,
        "sigma": 0.2,
    }  # fmt: skip
    theta = {name: theta[name] for name in model.hyperparameters}
    functions = bx.sample_functions(model, theta, draws=DRAWS, waves=64, seed=2, progressbar=False)
    asked = {"keep": "summary", "progressbar": False}
    for found, exact, name in (
        (functions.predictions(X), bx.predictions(model, theta, X, **asked), "f"),
        (functions.derivatives(X), bx.derivatives(model, theta, X, **asked), "derivative"),
        (functions.attributions(X), bx.attributions(model, theta, X, **asked), "attribution"),
    ):
        values = found[name].values[0]
        error = exact[f"{name}_sd"].values / np.sqrt(DRAWS)
        gap = np.abs(values.mean(axis=0) - exact[f"{name}_mean"].values)
        assert (gap < 5.5 * error + 1e-9).all()
        assert_allclose(values.std(axis=0), exact[f"{name}_sd"], rtol=0.25, atol=1e-9)
