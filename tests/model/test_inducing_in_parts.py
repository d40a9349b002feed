"""Inducing points, and other coefficients, of data in parts: the numbers of a table in memory."""

import pickle

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal

import bayes_gpx as bx
from bayes_gpx.data import training
from bayes_gpx.inference.log_density import Density
from bayes_gpx.model import fitting
from bayes_gpx.numerics import row_sums
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.system import memory
from frame_parts import Frames

rng = np.random.default_rng(sum(map(ord, "inducing in parts")))
N = 90
FRAME = pd.DataFrame(
    {
        "far": 1e3 + rng.normal(size=N),
        "b": rng.uniform(size=N),
        "colour": pd.Categorical(rng.choice(["red", "blue"], N), categories=["red", "blue"]),
        "y": rng.normal(size=N),
    }
)
NUMBERS, X = FRAME[["far", "b", "y"]], FRAME[["far", "b"]]
POINTS = X.values[::9]
THETA = {"lengthscale": [0.7, 1.1], "amplitude": 1.2, "sigma": 0.3}
QUIET = {"progressbar": False, "draws": 3, "seed": 1}


@pytest.fixture(autouse=True)
def few_rows_in_a_block(monkeypatch):
    monkeypatch.setattr(row_sums, "ROWS", 16)


def both(frame=NUMBERS, **options):
    """A model of parts, and one of the table."""
    given = {"approximation": bx.Inducing(POINTS)} | options
    return bx.GP(Frames(frame), "y", **given), bx.GP(frame.drop(columns="y"), frame["y"], **given)


def at(model, theta=THETA):
    """Log density and slopes."""
    density = Density(model.objective, jacobian=True)
    return density.value_and_slope()(density.unconstrain(theta))


def agree(one, other, tolerance=1e-9):
    for name in one.data_vars:
        if name.endswith(("_mean", "_sd", "_interval")):
            np.testing.assert_allclose(one[name], other[name], rtol=tolerance, atol=tolerance)


MODELS = {
    "inducing": {},
    "random features": {"approximation": bx.RandomFeatures(10)},
    "categories": {"frame": FRAME, "approximation": bx.Inducing(6)},
}


@pytest.mark.parametrize("name", MODELS)
def test_densities_and_slopes_are_those_of_a_table(name):
    found, expected = ([*at(model, {"sigma": 0.3})] for model in both(**MODELS[name]))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-11)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-9, atol=1e-8)


def test_the_density_is_titsias_bound():
    model, _ = both(scale=False)
    scales, sigma = np.array([0.7, 1.1]), 0.3

    def k(one, other):
        return 1.44 * np.exp(-0.5 * cdist(one / scales, other / scales, "sqeuclidean"))

    K_uu = k(POINTS, POINTS)
    K_uu += 1e-10 * 1.44 * np.eye(len(POINTS))
    K_un = k(POINTS, X.values)
    Q = K_un.T @ np.linalg.solve(K_uu, K_un)
    bound = multivariate_normal.logpdf(FRAME["y"], np.zeros(N), Q + sigma**2 * np.eye(N))
    bound -= 0.5 * (N * 1.44 - np.trace(Q)) / sigma**2
    (potential,) = model.pymc.potentials
    given = {model.variables[name]: np.array(value) for name, value in THETA.items()}
    np.testing.assert_allclose(potential.eval(given, mode=MODE), bound, rtol=1e-8)


@pytest.mark.parametrize("verb", [bx.predictions, bx.attributions, bx.derivatives])
def test_verbs_say_what_they_say_of_a_table(verb):
    model, table = both()
    agree(verb(model, THETA, X[:4], **QUIET), verb(table, THETA, X[:4], **QUIET))
    whole = verb(model, THETA, keep="summary", **QUIET)
    assert whole.sizes["obs"] == N
    agree(whole, verb(table, THETA, X, keep="summary", **QUIET))


def test_weights_of_columns_by_name():
    points = FRAME[["b", "far"]].values[::9]  # the columns of X, then those of Z
    options = {"approximation": bx.Inducing(points), "priors": {"sigma_w": 0.0}, "intercept": True}
    model = bx.GPX(Frames(NUMBERS), "y", ["far"], **options)
    table = bx.GPX(FRAME[["b"]], FRAME["y"], FRAME[["far"]], **options)
    theta = {"lengthscale": [1.1], "amplitude": 1.2, "sigma": 0.3}
    np.testing.assert_allclose(at(model, theta)[0], at(table, theta)[0], rtol=1e-11)
    new = FRAME[["b"]][:4], FRAME[["far"]][:4]
    for verb in (bx.weights, bx.contributions):
        agree(verb(model, theta, *new, **QUIET), verb(table, theta, *new, **QUIET))
    agree(
        bx.contributions(model, theta, keep="summary", **QUIET),
        bx.contributions(table, theta, FRAME[["b"]], FRAME[["far"]], keep="summary", **QUIET),
    )


@pytest.mark.parametrize("held", [0, 2**25])
@pytest.mark.parametrize("approximation", [bx.HSGP(4, 1.5), bx.Inducing(POINTS)])
def test_densities_know_deviations_of_single_rows(approximation, held, monkeypatch):
    """Their noise grows with the length of z, which is x here."""
    monkeypatch.setattr(training, "HELD", held)
    model = bx.GPX(Frames(NUMBERS), "y", approximation=approximation)
    table = bx.GPX(X, FRAME["y"], approximation=approximation)
    theta = THETA | {"sigma_w": 0.4}
    (value, slopes), (expected, own) = at(model, theta), at(table, theta)
    np.testing.assert_allclose(value, expected, rtol=1e-11)
    np.testing.assert_allclose(slopes, own, rtol=1e-8, atol=1e-8)


def test_a_loaded_fit_explains_new_rows_with_deviations(tmp_path):
    model = bx.GPX(Frames(NUMBERS), "y", approximation=bx.HSGP(4, 1.5))
    idata = model.fit("map", start=THETA | {"sigma_w": 0.4}, progressbar=False)
    bx.save(model, idata, tmp_path / "fit.nc")
    again, kept = bx.load(tmp_path / "fit.nc")
    for verb in (bx.weights, bx.predictions):
        found, given = (verb(*fit, X[:4], **QUIET) for fit in ((again, kept), (model, idata)))
        assert found.equals(given)


def test_fits_of_both_agree_and_so_do_their_inducing_values(monkeypatch):
    model, table = both()
    expected = table.fit("svgp", progressbar=False, start=THETA)
    monkeypatch.setattr(fitting, "DRAWS_WORTH_LOO", 1)  # of rows in parts there are no such terms
    found = model.fit("svgp", progressbar=False, start=THETA)
    assert "log_likelihood" not in found.children
    for name, value in expected["posterior"].items():
        np.testing.assert_allclose(found["posterior"][name], value, rtol=1e-5)
    one, other = (idata["variational"] for idata in (found, expected))
    for name in ("u_mean", "u_chol", "U"):
        np.testing.assert_allclose(one[name], other[name], rtol=1e-4, atol=1e-4)
    drawn = [
        bx.sample_functions(m, THETA, draws=2, seed=3, progressbar=False).predictions(X[:3])
        for m in (model, table)
    ]
    np.testing.assert_allclose(*(functions["f"] for functions in drawn), atol=1e-8)


def test_threads_change_no_bit(monkeypatch):
    found = []
    for threads in (1, 3):
        monkeypatch.setattr("os.cpu_count", lambda threads=threads: threads)
        monkeypatch.setattr("bayes_gpx.numerics.threads._Limit.threads", threads)
        row_sums._pool_of.cache_clear()
        found.append(at(both()[0]))
    assert found[0][0] == found[1][0]
    assert np.array_equal(found[0][1], found[1][1])


def test_rows_are_read_by_densities_and_once_for_each_draw(monkeypatch):
    frames = Frames(NUMBERS)
    monkeypatch.setattr(training, "HELD", 0)
    model = bx.GP(frames, "y", approximation=bx.Inducing(POINTS))
    density = Density(model.objective, jacobian=True)
    x, before = density.unconstrain(THETA), frames.passes
    assert before <= 3  # what X is, moments and a sample: compiling reads nothing
    density.value_and_slope()(x)
    assert frames.passes == before + 2  # the best posterior; the bound with its slopes
    for verb in (bx.predictions, bx.derivatives):
        verb(model, THETA, X[:4], **QUIET)
        assert frames.passes == before + 3
    bx.predictions(model, THETA | {"sigma": 0.4}, X[:4], **QUIET)
    assert frames.passes == before + 4


def test_few_rows_are_read_once_and_not_sent_along():
    frames = Frames(NUMBERS)
    model = bx.GP(frames, "y", approximation=bx.Inducing(POINTS))
    before, value = frames.passes, at(model)[0]
    assert frames.passes == before + 1
    assert "_held" in vars(model.training)
    again = pickle.loads(pickle.dumps(model))  # noqa: S301
    assert "_held" not in vars(again.training)
    assert at(again)[0] == value


def made_up(number):
    """A fit with so many draws."""
    values = {
        name: (("chain", "draw", "feature")[: np.ndim(value)], value)
        for name, fixed in THETA.items()
        for value in [np.multiply.outer(rng.uniform(0.8, 1.2, (1, number)), fixed)]
    }
    coords = {"chain": [0], "draw": range(number), "feature": ["far", "b"]}
    return xr.DataTree.from_dict({"posterior": xr.Dataset(values, coords)})


def test_files_hold_what_the_rows_say_at_each_draw(tmp_path, monkeypatch):
    model, _ = both(approximation=bx.Inducing(6))
    idata = made_up(3)
    bx.save(model, idata, tmp_path / "fit.nc")
    passes = model.training.beyond.source.iterable.passes
    monkeypatch.setattr(model.training.beyond.source.iterable, "parts", None)
    again, kept = bx.load(tmp_path / "fit.nc")
    assert again.training.X.values.shape == (1, 2)
    assert again.training.n == N
    np.testing.assert_array_equal(again.inducing["U"], model.inducing["U"])
    for verb in (bx.predictions, bx.attributions):
        found = verb(again, kept, X[:4], progressbar=False, seed=1)
        assert found.equals(verb(model, idata, X[:4], progressbar=False, seed=1))
    assert model.training.beyond.source.iterable.passes == passes
    bx.save(again, kept, tmp_path / "again.nc")
    for ask in (
        lambda: bx.predictions(again, THETA, X[:4], **QUIET),
        lambda: again.fit("map", **QUIET),
    ):
        with pytest.raises(ValueError, match="not saved with the fit"):
            ask()


def test_draws_that_do_not_fit_into_memory_are_refused(monkeypatch):
    model, _ = both()
    monkeypatch.setattr(memory, "available", lambda: 100)
    with pytest.raises(ValueError, match="for each draw.*kept of 0 draws.*Pass num_draws="):
        bx.predictions(model, THETA, X[:4], **QUIET)


def test_what_needs_rows_at_hand_is_refused():
    model, _ = both()
    with pytest.raises(ValueError, match="leaving one out needs all others"):
        bx.log_likelihood(model, THETA, progressbar=False)
    idata = model.fit("map", start=THETA, progressbar=False)
    with pytest.raises(ValueError, match="not left out one by one.* Compare fits of a sample"):
        bx.compare({"one": (model, idata), "other": (model, idata)})
    with pytest.raises(ValueError, match="are out-of-core data. Move the points"):
        bx.optimise_inducing(model, THETA)
