"""What is saved comes back, in another process too."""

import subprocess
import sys

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from numpy.testing import assert_array_equal

import bayes_gpx as bx
from known_draws import known

THETA = {"lengthscale": [1.0, 1.0], "amplitude": 1.0, "sigma": 0.3, "sigma_w": 0.2}

SCRIPT = """
import sys, numpy as np, bayes_gpx as bx
model, idata = bx.load(sys.argv[1])
X_new, Z_new = np.load(sys.argv[2]).values()
np.save(sys.argv[3], bx.contributions(model, idata, X_new, Z_new, seed=5)["contribution"])
"""


def test_a_fresh_process_explains_the_same(regression, tmp_path):
    X, Z, y, X_new, Z_new = regression
    labels = [f"patient {i}" for i in range(len(y))]
    model = bx.GPX(
        X.set_axis(labels), y.set_axis(labels), Z, weight_prior="per_feature",
        intercept=True, priors={"sigma": 0.3},
    )  # fmt: skip
    idata = model.fit("map", seed=1, progressbar=False)
    bx.save(model, idata, tmp_path / "gpx.nc")
    np.savez(tmp_path / "new.npz", X_new=X_new, Z_new=Z_new)
    paths = [str(tmp_path / name) for name in ("gpx.nc", "new.npz", "out.npy")]
    subprocess.run([sys.executable, "-c", SCRIPT, *paths], check=True)
    expected = bx.contributions(model, idata, X_new, Z_new, seed=5)
    assert_array_equal(np.load(paths[2]), expected["contribution"])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["gpx.nc", "new.npz", "out.npy"]


def test_everything_comes_back(regression, tmp_path):
    X, Z, y, _, _ = regression
    model = bx.GPX(X, y, kernel="matern52 + linear", ard=False, scale=False, name="first")
    start = dict.fromkeys(model.hyperparameters, 1.0)
    idata = model.fit("map", start=start, progressbar=False)
    # A group with a variable of its name, and of another group's.
    idata["pressure"] = xr.Dataset({"pressure": ("row", [1.0, 2.0]), "posterior": 3.0})
    bx.save(model, idata, tmp_path / "m.nc")
    loaded, again = bx.load(tmp_path / "m.nc")
    assert loaded.specification == model.specification
    assert loaded.signature == model.signature
    assert loaded.training.y_name == "pressure"
    assert_array_equal(loaded.training.X.values, model.training.X.values)
    for group in idata.children:
        xr.testing.assert_identical(again[group].to_dataset(), idata[group].to_dataset())
    assert again.attrs == idata.attrs


def test_callables_are_asked_for_again(regression, tmp_path):
    X, _, y, _, _ = regression

    def kernel(d):
        return pm.HalfNormal("size") ** 2 * pm.gp.cov.Matern32(d, ls=np.ones(d))

    priors = {"sigma": lambda name: pm.HalfNormal(name, 0.5)}
    model = bx.GP(X, y, kernel=kernel, priors=priors)
    idata = model.fit("map", progressbar=False)
    bx.save(model, idata, tmp_path / "m.nc")
    with pytest.raises(ValueError, match="callable kernel; pass kernel= again"):
        bx.load(tmp_path / "m.nc")
    with pytest.raises(ValueError, match=r"callable priors for \['sigma'\]"):
        bx.load(tmp_path / "m.nc", kernel=kernel)
    loaded, again = bx.load(tmp_path / "m.nc", kernel=kernel, priors=priors)
    expected = bx.predictions(model, idata, draws=3, seed=1)
    assert_array_equal(bx.predictions(loaded, again, draws=3, seed=1)["y"], expected["y"])


@pytest.mark.parametrize("given", [3, None])
def test_what_is_no_path_is_refused(regression, given):
    model = bx.GPX(regression[0], regression[2])
    with pytest.raises(ValueError, match=f"path is a {type(given).__name__}. Pass the name of"):
        bx.load(given)
    with pytest.raises(ValueError, match=f"path is a {type(given).__name__}. Pass the name of"):
        bx.save(model, known(model, [THETA]), given)


def test_other_files_are_refused(tmp_path):
    xr.Dataset({"a": 1}).to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match="Pass a file written by bx.save"):
        bx.load(tmp_path / "other.nc")
    (tmp_path / "text.nc").write_text("no netCDF")
    with pytest.raises(ValueError, match="not a netCDF file"):
        bx.load(tmp_path / "text.nc")
    with pytest.raises(FileNotFoundError):
        bx.load(tmp_path / "nowhere.nc")


def test_only_a_models_own_fit_is_saved_where_there_is_a_place(regression, tmp_path):
    X, _, y, _, _ = regression
    model = bx.GP(X, y)
    idata = model.fit("map", progressbar=False)
    with pytest.raises(ValueError, match="belongs to another model"):
        bx.save(bx.GP(X, y, ard=False), idata, tmp_path / "m.nc")
    for path in (tmp_path, tmp_path / "missing" / "m.nc"):
        with pytest.raises(ValueError, match="cannot be written"):
            bx.save(model, idata, path)
    bx.save(model, idata, tmp_path / "m.nc")
    with pytest.raises(ValueError, match="leave kernel= out"):
        bx.load(tmp_path / "m.nc", kernel=lambda d: None)
    with pytest.raises(ValueError, match="in .* already"):
        bx.load(tmp_path / "m.nc", priors={"sigma": 9.0})
