"""The step that a response was recorded to, and the least noise that follows from it."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import halfnorm

import bayes_gpx as bx
from bayes_gpx.data.response import MOST_STEPS, resolution_of
from bayes_gpx.numerics.compile_modes import MODE
from examples import MORE
from frame_parts import Frames

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(24, 2)), columns=["a", "b"])
Y = np.sin(X["a"].to_numpy()) + 0.3 * RNG.normal(size=24)


@settings(deadline=None, max_examples=60 * MORE)
@given(
    steps=st.lists(st.integers(0, MOST_STEPS), min_size=3, max_size=30, unique=True),
    size=st.floats(1e-3, 1e3),
    first=st.floats(-1e3, 1e3),
)
def test_the_step_divides_all_differences_and_is_the_largest(steps, size, first):
    found = resolution_of(first + size * np.array(steps))
    assert found == pytest.approx(size * np.gcd.reduce(np.diff(np.sort(steps))), rel=1e-4)


def test_numbers_that_are_not_rounded_have_no_step():
    assert all(resolution_of(RNG.normal(size=n)) == 0.0 for n in (3, 4, 5, 20, 500) * 20)
    assert resolution_of(np.arange(MOST_STEPS + 2.0)) == 0.0
    assert resolution_of(np.log1p(np.arange(9.0))) == 0.0
    assert resolution_of(np.zeros(5)) == 0.0
    assert resolution_of(np.array([-1.0, 1.0, 1.0])) == 0.0  # labels, as regressions code them


@pytest.mark.parametrize("likelihood", ["normal", "student_t"])
@pytest.mark.parametrize("scale", [True, False])
def test_noise_is_no_less_than_the_rounding_error(likelihood, scale):
    y = np.round(2.0 * Y) / 2.0
    model = bx.GP(X, y, likelihood=likelihood, scale=scale)
    least = 0.5 / np.sqrt(12.0) / (y.std() if scale else 1.0)
    drawn = pm.draw(model.variables["sigma"], 2000, random_seed=1, mode=MODE)
    assert drawn.min() >= least and drawn.min() < 1.05 * least
    expected = halfnorm.expect(lambda s: s, lb=least, conditional=True)
    assert drawn.mean() == pytest.approx(expected, abs=5 * drawn.std() / np.sqrt(2000))
    assert "recorded in steps of 0.5" in repr(model)


def test_the_step_can_be_given_and_left_out():
    own = bx.GP(X, Y, resolution=0.2).training.least_noise
    assert own == pytest.approx(0.2 / np.sqrt(12.0) / Y.std())
    y = np.round(Y)
    halfnormal = [bx.GP(X, y, resolution=0), bx.GP(X, Y)]
    assert all("HalfNormal" in repr(model).splitlines()[-1] for model in halfnormal)
    chosen = bx.GP(X, y, priors={"sigma": pm.HalfNormal.dist(0.5)})
    assert "HalfNormal(0, 0.5)" in repr(chosen).splitlines()[-1]


def test_each_output_has_its_own():
    table = pd.DataFrame({"whole": np.round(Y * 3), "real": Y, "halves": np.round(4 * Y) / 2})
    table.iloc[3, 0] = np.nan
    model = bx.GP(X, table)
    np.testing.assert_allclose(model.training.resolution, [1.0, 0.0, 0.5])
    drawn = pm.draw(model.variables["sigma"], 500, random_seed=1, mode=MODE).min(axis=0)
    assert (drawn >= np.array([1.0, 0.0, 0.5]) / np.sqrt(12.0) / np.nanstd(table, axis=0)).all()
    assert list(bx.GP(X, table, resolution=[0, 1, 2]).training.resolution) == [0.0, 1.0, 2.0]
    with pytest.raises(ValueError, match=r"resolution is \[1, 2\].*one for each output"):
        bx.GP(X, table, resolution=[1, 2])


@pytest.mark.parametrize("given", [-1, np.nan, "fine", [1, 2]])
def test_what_is_no_step_is_refused(given):
    with pytest.raises(ValueError, match="resolution is .*. Pass None, to find it"):
        bx.GP(X, Y, resolution=given)


def test_counts_and_labels_have_none():
    with pytest.raises(ValueError, match="resolution is 1, but this likelihood has no noise in"):
        bx.GP(X, np.arange(24), likelihood="poisson", resolution=1)
    assert bx.GP(X, np.arange(24), likelihood="poisson").training.resolution == 0.0


def test_a_file_and_rows_in_parts_keep_it(tmp_path):
    y = np.round(Y, 1)
    model = bx.GP(X, y, priors={"lengthscale": 1.0, "amplitude": 1.0})
    idata = model.fit("map", progressbar=False)
    bx.save(model, idata, tmp_path / "fit.nc")
    again, _ = bx.load(tmp_path / "fit.nc")
    assert again.training.resolution == model.training.resolution == pytest.approx(0.1)

    streamed = bx.GP(Frames(X.assign(y=y)), "y", approximation=bx.HSGP(4))
    assert streamed.training.resolution == pytest.approx(0.1)
    assert streamed.training.least_noise == pytest.approx(model.training.least_noise)


@pytest.mark.filterwarnings("ignore:The best start of the optimiser did not converge")
@pytest.mark.parametrize("family", [bx.GP, bx.GPX])
def test_repeated_rows_of_a_rounded_response_do_not_make_noise_vanish(family):
    rng = np.random.default_rng(3)
    once = rng.normal(size=(30, 3))
    y = np.round(2 * (once[:, 0] + 0.7 * rng.normal(size=30))) / 2
    x, y = np.tile(once, (2, 1)), np.tile(y, 2)
    priors = {"sigma_w": 0.0} if family is bx.GPX else {}
    fits = {
        resolution: family(x, y, resolution=resolution, priors=priors).fit(
            "map", seed=0, progressbar=False
        )
        for resolution in (None, 0)
    }
    sigma = {r: float(f["posterior"]["sigma"].squeeze()) * y.std() for r, f in fits.items()}
    assert sigma[None] > 0.5 / np.sqrt(12) and sigma[0] < 0.01
    assert "30 of 60 rows are repeated" in fits[None].attrs["examination"]
