"""Models given more rows, against models of all rows and quadrature over hyperparameters."""

import warnings

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

import bayes_gpx as bx

QUIET = {"progressbar": False}
rng = np.random.default_rng(sum(map(ord, "update")))
N, MORE = 25, 6
X = pd.DataFrame(rng.normal(size=(N + MORE, 2)), columns=["age", "dose"])
X["kind"] = pd.Categorical(rng.choice(["a", "b"], N + MORE))
Z = pd.DataFrame({"size": rng.normal(size=N + MORE)})
F = np.sin(X["age"]) + 0.5 * X["dose"]
Y = F + 0.2 * rng.normal(size=N + MORE)
GROUPS = np.array(["left", "right"] * N)[: N + MORE].copy()
GROUPS[-1] = "new"
THETA = {"lengthscale": [1.5, 1.2, 2.0], "amplitude": 1.1}
NOISE = {"sigma": 0.3}
COUNTS = rng.poisson(3.0 * np.exp(F))
DAYS = rng.uniform(1.0, 3.0, N + MORE)
PRIOR = pm.HalfNormal.dist(2.0)
CASES = {
    "GP": (bx.GP, Y, NOISE, {}),
    "inducing": (bx.GP, Y, NOISE, {"approximation": bx.Inducing(8)}),
    "GPX": (bx.GPX, Y, NOISE | {"sigma_w": 0.2}, {"intercept": True}),
    "GPX with Z": (bx.GPX, Y, NOISE | {"sigma_w": 0.0}, {"Z": Z}),
    "groups": (bx.GP, Y, NOISE | {"group_amplitude": 0.7}, {"groups": GROUPS}),
    "counts": (bx.GP, COUNTS, {}, {"likelihood": "poisson", "exposure": DAYS}),
    "labels": (bx.GP, np.where(Y > 0, "yes", "no"), {}, {"likelihood": "bernoulli"}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_result_is_the_model_of_all_rows(case):
    family, y, more, options = CASES[case]
    rows = {"Z", "groups", "exposure"} & options.keys()
    first = options | {name: options[name][:N] for name in rows}
    new = {"Z": "Z_new", "groups": "groups_new", "exposure": "exposure"}
    given = {new[name]: options[name][N:] for name in rows}
    theta = THETA | more
    model = family(X[:N], y[:N], scale=False, **first)
    known, same = model.update(theta, X[N:], y[N:], **given, **QUIET)
    assert same == theta
    whole = family(X, y, scale=False, **options)
    if "approximation" in options:  # whose points are chosen among the rows
        whole = whole.restored(
            whole.training, whole.specification, model.inducing, **known._settings
        )
    assert known.training.n == N + MORE
    asked = {"keep": "summary", "seed": 1, **QUIET}
    there = {"X_new": X[:3], "Z_new": Z[:3], "groups_new": ["new", "left", "other"]}
    there = {name: there[name] for name in ("X_new", *(given.keys() & there.keys()))}
    for function in (bx.predictions, bx.attributions):
        found, expected = (function(m, theta, **there, **asked) for m in (known, whole))
        for name in ("f_mean", "f_sd", "attribution_mean", "attribution_sd"):
            if name in expected:
                assert_allclose(found[name], expected[name], rtol=1e-7, atol=1e-9)


@pytest.fixture(scope="module")
def fitted():
    """A fit of the amplitude alone."""
    options = {"scale": False, "kernel": "expquad"}
    priors = {"lengthscale": 1.0, "sigma": 0.3, "amplitude": PRIOR}
    model = bx.GP(X[["age"]][:N], Y[:N], priors=priors, **options)
    return model, model.fit("laplace", draws=2000, seed=1, **QUIET)


def test_draws_are_those_of_the_posterior_of_all_rows(fitted):
    """Mean and sd of the amplitude by quadrature; in one update, and row by row."""
    model, idata = fitted
    x, grid = X["age"].values, np.linspace(0.05, 6.0, 800)
    unit = np.exp(-0.5 * (x[:, None] - x) ** 2)
    log_p = [multivariate_normal(cov=a**2 * unit + 0.09 * np.eye(len(x))).logpdf(Y) for a in grid]
    weight = np.exp(np.array(log_p) - max(log_p) - grid**2 / 8.0)
    mean = (weight @ grid) / weight.sum()
    sd = np.sqrt(weight @ (grid - mean) ** 2 / weight.sum())
    _, once = model.update(idata, X[["age"]][N:], Y[N:], seed=2, **QUIET)
    each, in_turn = model, idata
    for row in range(N, N + MORE):
        new = X[["age"]][row : row + 1], Y[row : row + 1]
        each, in_turn = each.update(in_turn, *new, seed=row, **QUIET)
    for found in (once, in_turn):
        amplitude = found["posterior"]["amplitude"]
        assert amplitude.shape == (1, 2000)
        assert_allclose(amplitude.mean(), mean, atol=0.1 * sd)
        assert_allclose(amplitude.std(), sd, rtol=0.1)
    assert once.attrs["convergence"] == "converged"
    assert each.training.X.index.tolist() == list(range(N + MORE))


def test_the_fit_can_be_explained_and_saved(fitted, tmp_path):
    model, idata = fitted[0].update(fitted[1], X[["age"]][N:], Y[N:], seed=2, **QUIET)
    bx.save(model, idata, tmp_path / "fit.nc")
    again = bx.load(tmp_path / "fit.nc", priors={"amplitude": PRIOR})
    found, expected = (
        bx.attributions(*both, obs=[N], num_draws=20, seed=1, **QUIET)["attribution_mean"]
        for both in (again, (model, idata))
    )
    assert_allclose(found, expected, rtol=1e-10)
    with pytest.raises(ValueError, match="belongs to another model: its"):
        bx.predictions(fitted[0], idata, **QUIET)


def test_rows_that_move_the_posterior_far_ask_for_a_fit(fitted):
    model, idata = fitted
    far = 40.0 * Y[N:]
    with pytest.warns(bx.ConvergenceWarning, match="New rows have moved the posterior.*model.fit"):
        _, found = model.update(idata, X[["age"]][N:], far, seed=2, **QUIET)
    assert found.attrs["convergence"] == "not converged"


def test_a_posterior_mode_stays(fitted):
    model, _ = fitted
    idata = model.fit("map", **QUIET)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, found = model.update(idata, X[["age"]][N:], Y[N:], **QUIET)
    assert_allclose(found["posterior"]["amplitude"], idata["posterior"]["amplitude"])


def test_what_cannot_be_added_is_refused():
    named = X.set_index(np.array([f"p{k}" for k in range(N + MORE)]))
    model, theta = bx.GP(named[:N], Y[:N].values), THETA | NOISE
    one, _ = model.update(theta, named[N:], Y[N:].values, **QUIET)
    assert one.training.X.index.tolist() == [f"p{k}" for k in range(N + MORE)]
    for new, said in (
        ((named[:2], Y[:2].values), "X_new has the label 'p0', which another row has"),
        ((named[N:].assign(kind="c"), Y[N:].values), "kind"),
        ((named[N:], Y[N:].values[:2]), "X has 6 rows and y_new has 2"),
    ):
        with pytest.raises(ValueError, match=said):
            model.update(theta, *new, **QUIET)
    weighted = bx.GP(X[:N], Y[:N], weights=rng.permutation(np.linspace(0.5, 1.5, N)))
    with pytest.raises(ValueError, match="update does not support rows with weights"):
        weighted.update(theta, X[N:], Y[N:], **QUIET)
    counts = bx.GP(X[:N], COUNTS[:N], likelihood="poisson", exposure=DAYS[:N])
    with pytest.raises(ValueError, match="exposure is missing"):
        counts.update(THETA, X[N:], COUNTS[N:], **QUIET)
    with pytest.raises(ValueError, match="exposure was given, but this model has none"):
        model.update(theta, named[N:], Y[N:].values, exposure=DAYS[N:], **QUIET)


def test_the_box_of_basis_functions_and_exposures_are_kept():
    """Rows that would move the box are refused, others are added; no exposure is assumed."""
    one = X[["age"]]
    theta = {"lengthscale": [0.8], "amplitude": 1.0, "sigma": 0.3}
    model = bx.GP(one[:N], Y[:N], scale=False, approximation=bx.HSGP(15))
    known, _ = model.update(theta, one[:2] * 0.9, Y[:2], **QUIET)
    whole = bx.GP(
        pd.concat([one[:N], one[:2] * 0.9]),
        [*Y[:N], *Y[:2]],
        scale=False,
        approximation=bx.HSGP(15),
    )
    found, expected = (
        bx.predictions(m, theta, one[:3], keep="summary", **QUIET)["f_mean"] for m in (known, whole)
    )
    assert_allclose(found, expected, rtol=1e-9)
    with pytest.raises(ValueError, match="1 rows outside of the range of the training rows"):
        model.update(theta, one[:1] + 9.0, Y[:1], **QUIET)
    counts = bx.GP(one[:N], COUNTS[:N], likelihood="poisson", exposure=np.full(N, 2.0))
    with pytest.raises(ValueError, match="exposure is missing"):
        counts.update({"lengthscale": [0.8], "amplitude": 1.0}, one[N:], COUNTS[N:], **QUIET)
    noisy = bx.GP(one[:N], Y[:N], noise_sd=np.full(N, 0.2))
    with pytest.raises(ValueError, match="update does not support noise_sd="):
        noisy.update({"lengthscale": [0.8], "amplitude": 1.0}, one[N:], Y[N:], **QUIET)
    with pytest.raises(ValueError, match="X_new has no rows"):
        model.update(theta, one[:0], Y[:0], **QUIET)
    named = bx.GP(one[:N].set_axis([f"p{k}" for k in range(N)]), Y[:N].values)
    for k in range(2):
        named, _ = named.update(theta, np.array([[0.1 * k]]), [0.0], **QUIET)
    assert named.training.X.index.tolist()[-2:] == [str(N), str(N + 1)]
