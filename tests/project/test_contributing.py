"""The additions of docs/contributing.md work, as they stand there, through the public API."""

import re
import sys
from pathlib import Path
from types import ModuleType

import arviz as az
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx.cli_arguments import Approximation
from bayes_gpx.inference.methods import METHODS
from bayes_gpx.likelihoods import KNOWN
from bayes_gpx.model.named_kernels import KERNELS
from bayes_gpx.processes.approximations import APPROXIMATIONS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "contributing.md"
QUIET = {"progressbar": False}
TABLES = KERNELS, KNOWN, METHODS, APPROXIMATIONS


@pytest.fixture(scope="module")
def page():
    """The page's code, run as one module."""
    page = ModuleType("contributed")
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "contributed", page)
        for table in TABLES:
            for name in table:
                patch.setitem(table, name, table[name])
        known = {id(table): set(table) for table in TABLES}
        exec(compile("\n".join(code), str(PAGE), "exec"), vars(page))
        yield page
        for table in TABLES:
            for name in set(table) - known[id(table)]:
                del table[name]


@pytest.fixture(scope="module")
def fitted(page):
    """Waiting times, by the page's kernel, likelihood and method of inference."""
    rng = np.random.default_rng(4)
    X = pd.DataFrame(rng.normal(size=(20, 2)), columns=["dose", "age"])
    y = pd.Series(rng.exponential(np.exp(1.0 + np.sin(X["dose"]))), name="hours")
    model = bx.GP(X, y, kernel="cauchy", likelihood="exponential")
    start = {"lengthscale": 1.0, "amplitude": 1.0}
    options = {"draws": 50, "chains": 2, "seed": 1, "scale": 0.2, "start": start}
    return model, model.fit("random_walk", **options, **QUIET)


def test_a_new_method_gives_what_arviz_reads(fitted):
    model, idata = fitted
    assert set(idata["posterior"].data_vars) == set(model.hyperparameters)
    assert idata["posterior"].attrs["inference_method"] == "random_walk"
    assert set(az.summary(idata, kind="stats").index) > {"amplitude"}
    assert idata["log_likelihood"].to_dataset().sizes["obs"] == 20


def test_a_new_likelihood_is_explained_on_its_own_scale(fitted):
    model, idata = fitted
    found = bx.predictions(model, idata, seed=1, **QUIET)
    assert (found["duration_mean"] > 0).all() and found["y"].dims == ("chain", "draw", "obs")
    frame = model.training.X
    X = pd.DataFrame(frame.values, columns=frame.columns)
    other = bx.GP(X, pd.Series(model.training.y, name="hours"), likelihood="exponential")
    theta = {"lengthscale": [1.0, 2.0], "amplitude": 1.0}
    shares = bx.attributions(other, theta, obs=[0], draws=20, seed=1, **QUIET)
    assert shares.attrs["units"] == "duration of hours"
    with pytest.raises(ValueError, match="Leave those rows out"):
        bx.GP(np.zeros((3, 1)) + [[1], [2], [3]], [1.0, -1.0, 2.0], likelihood="exponential")


def test_a_new_verb_is_the_difference_of_predictions(page, fitted, rng):
    model, idata = fitted
    X_new = pd.DataFrame(rng.normal(size=(3, 2)), columns=["dose", "age"])
    found = page.increments(model, idata, "dose", 0.5, X_new, seed=1, **QUIET)
    moved = X_new.assign(dose=X_new["dose"] + 0.5)
    options = {"on": "latent", "keep": "summary"} | QUIET
    there, here = (bx.predictions(model, idata, X, **options)["f_mean"] for X in (moved, X_new))
    assert_allclose(found["increment_mean"], there - here, atol=1e-10)
    pc = page.plot_increments(found, backend="none")
    assert "point_estimate" in pc.viz
    with pytest.raises(ValueError, match="unknown 'weight'"):
        page.increments(model, idata, "weight", 0.5, **QUIET)


def test_a_new_verb_moves_the_weighed_features_of_a_gpx_too(page, rng):
    X = pd.DataFrame(rng.normal(size=(15, 2)), columns=["dose", "age"])
    model = bx.GPX(X, X["dose"] * X["age"], scale=False)
    theta = {"lengthscale": 1.2, "amplitude": 0.9, "sigma": 0.2, "sigma_w": 0.1}
    found = page.increments(model, theta, "dose", 0.5, X[:3], seed=1, **QUIET)
    ends = (
        bx.predictions(model, theta, rows, keep="summary", **QUIET)["f_mean"]
        for rows in (X[:3].assign(dose=X["dose"][:3] + 0.5), X[:3])
    )
    there, here = ends
    assert_allclose(found["increment_mean"], there - here, atol=1e-10)
    with pytest.raises(ValueError, match="GPX"):
        page.plot_increments(model)


def test_what_was_fitted_with_additions_is_kept(fitted, tmp_path):
    model, idata = fitted
    bx.save(model, idata, tmp_path / "fit.nc")
    other, kept = bx.load(tmp_path / "fit.nc")
    options = {"obs": [0, 1], "seed": 3, "on": "latent"} | QUIET
    ours, theirs = (bx.derivatives(*fit, **options) for fit in (fitted, (other, kept)))
    assert_allclose(theirs["derivative_mean"], ours["derivative_mean"], rtol=1e-12)


def test_a_new_kernel_has_its_derivatives(fitted):
    X, y = np.linspace(0.0, 3.0, 12)[:, None], np.sin(np.linspace(0.0, 3.0, 12))
    model = bx.GP(X, y, kernel="cauchy + linear", scale=False)
    theta = {"cauchy_lengthscale": 1.0, "cauchy_amplitude": 1.0, "linear_amplitude": 0.5}
    options = {"on": "latent", "keep": "summary"} | QUIET
    slope = bx.derivatives(model, theta | {"sigma": 0.1}, [[1.0]], **options)
    near = bx.predictions(model, theta | {"sigma": 0.1}, [[1.0 - 1e-4], [1.0 + 1e-4]], **options)
    step = np.diff(near["f_mean"]) / 2e-4
    assert_allclose(slope["derivative_mean"].values.ravel(), step, rtol=1e-6)


def test_a_new_approximation_is_near_the_exact_process_and_is_kept(page, fitted, tmp_path):
    X, y = fitted[0].training.X, np.sin(fitted[0].training.X.values).sum(axis=1)
    X = pd.DataFrame(X.values, columns=X.columns)
    theta = {"lengthscale": 1.5, "amplitude": 1.0, "sigma": 0.3}
    kinds = (None, page.EvenFeatures(512), bx.RandomFeatures(512))
    exact, even, drawn = (
        bx.attributions(
            bx.GP(X, y, approximation=kind, scale=False), theta, X[:3], keep="summary", **QUIET
        )["attribution_mean"].values
        for kind in kinds
    )
    error = np.abs(even - exact).max()
    assert error < 0.02 and error < 0.5 * np.abs(drawn - exact).max()
    few = page.EvenFeatures(8)
    fixed = {"lengthscale": 1.5, "amplitude": 1.0}
    small = bx.GP(X, y, approximation=few, scale=False, priors=fixed)
    bx.save(small, small.fit("map", start=theta, **QUIET), tmp_path / "fit.nc")
    assert bx.load(tmp_path / "fit.nc")[0].of_features(["dose"]).specification.approximation == few
    assert Approximation().convert("even:8", None, None) == few


def test_a_name_entered_again_means_what_it_means_now(monkeypatch):
    """Functions that were compiled for what it meant before are not asked again."""
    X, y = np.linspace(0.0, 3.0, 12)[:, None], np.sin(np.linspace(0.0, 3.0, 12))
    theta = {"lengthscale": [1.0], "amplitude": 1.0, "sigma": 0.1}

    def sd(kernel):
        model = bx.GP(X, y, kernel=kernel, scale=False)
        return bx.predictions(model, theta, [[5.0]], keep="summary", **QUIET)["f_sd"].item()

    for named in ("expquad", "matern32"):
        monkeypatch.setitem(KERNELS, "mine", KERNELS[named])
        assert sd("mine") == sd(named)
