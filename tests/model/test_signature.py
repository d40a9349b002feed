"""What tells the fits, files and stores of one model from those of another."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr

import bayes_gpx as bx
from bayes_gpx.draws import each_draw, results, stores
from known_draws import known

RNG = np.random.default_rng(3)
X = pd.DataFrame(RNG.normal(size=(20, 2)), columns=["a", "b"])
Z = pd.DataFrame(RNG.normal(size=(20, 2)), columns=["u", "v"])
Y = pd.Series(np.sin(X["a"]) + 0.1 * RNG.normal(size=20), name="y")
QUIET = {"progressbar": False}


def fit_of(model, theta):
    """A fit of one draw, signed by its model."""
    idata = known(model, [theta])
    idata.attrs[model.signature_key] = model.signature
    return idata


def kernel(factor, family=pm.gp.cov.ExpQuad, prior=pm.HalfNormal):
    """A callable of the same name, whatever it does."""

    def own(d):
        return factor * family(d, ls=prior("reach", 2.0, shape=d))

    return own


def test_fits_of_another_callable_kernel_are_refused(tmp_path):
    model = bx.GP(X, Y, kernel=kernel(1.0))
    idata = fit_of(model, {"reach": [1.0, 2.0], "sigma": 0.3})
    bx.predictions(model, idata, X, **QUIET)
    for other in (kernel(100.0), kernel(1.0, pm.gp.cov.Matern52)):
        with pytest.raises(ValueError, match="another model: its kernel_probe is"):
            bx.predictions(bx.GP(X, Y, kernel=other), idata, X, **QUIET)
    # The same kernel with another prior of its variable explains the same draws.
    same = bx.GP(X, Y, kernel=kernel(1.0, prior=pm.HalfCauchy))
    expected = bx.predictions(model, idata, X, keep="summary", **QUIET)
    xr.testing.assert_allclose(bx.predictions(same, idata, X, keep="summary", **QUIET), expected)
    bx.save(model, idata, tmp_path / "fit.nc")
    with pytest.raises(ValueError, match="kernel_probe"):
        bx.load(tmp_path / "fit.nc", kernel=kernel(2.0))
    bx.load(tmp_path / "fit.nc", kernel=kernel(1.0))


def test_a_store_is_not_finished_with_another_kernel(tmp_path, monkeypatch):
    monkeypatch.setattr(stores, "PAUSE", 0.0)
    monkeypatch.setattr(each_draw, "BLOCK_BYTES", 2000)  # some rows a block
    sample, left = results.Result.sample, [3]

    def stopped(self, *arguments):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return sample(self, *arguments)

    path, theta = tmp_path / "draws.zarr", {"reach": [1.0, 2.0], "sigma": 0.3}
    options = {"seed": 1, "draws": 50, "path": path, **QUIET}
    with monkeypatch.context() as stopping, pytest.raises(KeyboardInterrupt):
        stopping.setattr(results.Result, "sample", stopped)
        bx.predictions(bx.GP(X, Y, kernel=kernel(1.0)), theta, X, **options)
    with pytest.raises(ValueError, match="unfinished store of other arguments"):
        bx.predictions(bx.GP(X, Y, kernel=kernel(100.0)), theta, X, **options)
    bx.predictions(bx.GP(X, Y, kernel=kernel(1.0)), theta, X, **options)


def test_fits_of_another_precomputed_covariance_are_refused():
    words, y = ["pain", "paint", "saint"], np.array([1.0, 1.2, 2.0])
    K = np.array([[1.0, 0.8, 0.4], [0.8, 1.0, 0.6], [0.4, 0.6, 1.0]])
    one, other = (bx.Precomputed(pd.DataFrame(k, words, words)) for k in (K, K @ K))
    model = bx.GP(words, y, kernel=one)
    idata = fit_of(model, {"amplitude": 1.0, "sigma": 0.3})
    bx.predictions(model, idata, **QUIET)
    with pytest.raises(ValueError, match="another model: its covariance is"):
        bx.predictions(bx.GP(words, y, kernel=other), idata, **QUIET)


def test_fits_with_another_z_are_refused():
    model = bx.GPX(X, Y, Z)
    idata = model.fit("map", **QUIET)
    with pytest.raises(ValueError, match="another model: its Z differ"):
        bx.predictions(bx.GPX(X, Y, Z + 1.0), idata, **QUIET)


def test_fits_of_version_0_1_without_a_probe_are_taken():
    model = bx.GP(X, Y, kernel=kernel(1.0))
    idata = fit_of(model, {"reach": [1.0, 2.0], "sigma": 0.3})
    written = model.signature
    start = written.index('"kernel_probe"')
    idata.attrs[model.signature_key] = written[:start] + written[written.index("]", start) + 3 :]
    bx.predictions(model, idata, X, **QUIET)
