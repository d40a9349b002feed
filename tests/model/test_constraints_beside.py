"""Constraints beside groups and beside inducing points: dense formulas, limits, exact models."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal, norm

import bayes_gpx as bx
import oracle
from bayes_gpx.inference.log_density import Density
from bayes_gpx.model.constraints import Increasing, Slope, Value
from bayes_gpx.numerics.compile_modes import MODE

RNG = np.random.default_rng(3)
X = pd.DataFrame({"dose": RNG.uniform(-1, 1, 12), "age": RNG.normal(size=12)})
G = np.array(list("aabbccaabbcc"))
Y = 0.8 * X["dose"] - 0.3 * X["age"] + (G == "a") - (G == "b") + RNG.normal(0, 0.3, 12)
X_NEW, G_NEW = X.iloc[:4] + 0.3, np.array(["a", "b", "new", "c"])
LENGTHS, AMPLITUDE, LEVEL, SIGMA = np.array([0.9, 1.4]), 1.1, 0.6, 0.3
PLAIN = {"lengthscale": LENGTHS, "amplitude": AMPLITUDE, "sigma": SIGMA}
THETA = PLAIN | {"group_amplitude": LEVEL}
QUIET = {"progressbar": False, "keep": "summary"}


def k(left, right):
    return AMPLITUDE**2 * oracle.expquad(np.asarray(left), np.asarray(right), LENGTHS)


def test_what_is_stated_of_groups_is_about_the_function_that_they_share():
    """A stated slope is one more normal observation, of a function without any level."""
    at, sd = X[:1] + 0.1, 0.05
    known = [Slope("dose", mean=2.0, sd=sd, at=at), Value(at, 0.5, 0.1)]
    model = bx.GP(X, Y, groups=G, scale=False, constraints=known)
    step, rows = 1e-4, X.to_numpy()
    ends = [at.to_numpy() + np.array([[s * step, 0.0]]) for s in (1.0, -1.0)]
    points = np.concatenate([rows, *ends, at.to_numpy()])
    observed = np.zeros((14, len(points)))  # y, the slope as a difference, and the value
    observed[:12, :12], observed[13, 14] = np.eye(12), 1.0
    observed[12, 12:14] = np.array([0.5, -0.5]) / step
    same = np.pad((G[:, None] == G).astype(float), (0, 2))
    C = observed @ k(points, points) @ observed.T + LEVEL**2 * same
    C += np.diag([*[SIGMA**2] * 12, sd**2, 0.1**2])
    cross = k(X_NEW, points) @ observed.T
    cross[:, :12] += LEVEL**2 * (G_NEW[:, None] == G)
    expected = cross @ np.linalg.solve(C, [*Y, 2.0, 0.5])
    variance = AMPLITUDE**2 + LEVEL**2 - (cross * np.linalg.solve(C, cross.T).T).sum(axis=1)
    found = bx.predictions(model, THETA, X_NEW, groups_new=G_NEW, **QUIET)
    assert_allclose(found["f_mean"], expected, rtol=1e-5, atol=1e-6)
    assert_allclose(found["f_sd"], np.sqrt(variance), rtol=1e-5)


@pytest.mark.parametrize("likelihood", ["normal", "bernoulli"])
def test_bounds_beside_groups_without_amplitude(likelihood):
    y, known = (Y if likelihood == "normal" else (Y > 0).astype(int)), [Increasing("dose", at=3)]
    options = {"likelihood": likelihood, "constraints": known, "scale": False}
    plain = {n: v for n, v in PLAIN.items() if likelihood == "normal" or n != "sigma"}
    model, without = bx.GP(X, y, groups=G, **options), bx.GP(X, y, **options)
    theta = plain | {"group_amplitude": 0.0}
    found = bx.predictions(model, theta, X_NEW, groups_new=G_NEW, **QUIET)
    expected = bx.predictions(without, plain, X_NEW, **QUIET)
    for name in ("f_mean", "f_sd"):
        assert_allclose(found[name], expected[name], rtol=1e-7, atol=1e-9)
    rising = bx.derivatives(
        model, plain | {"group_amplitude": LEVEL}, X_NEW, groups_new=G_NEW, on="latent", **QUIET
    )
    free = bx.GP(X, y, groups=G, likelihood=likelihood, scale=False)
    others = bx.derivatives(
        free, plain | {"group_amplitude": LEVEL}, X_NEW, groups_new=G_NEW, on="latent", **QUIET
    )
    slopes = [of["derivative_mean"].sel(feature="dose").values for of in (rising, others)]
    assert slopes[0].min() > slopes[1].min()


def test_random_functions_keep_what_is_stated_of_all_groups():
    """Also where no group is asked for, as constraints do."""
    known = [Slope("dose", mean=2.0, sd=0.05, at=X[:1])]
    model = bx.GP(X, Y, groups=G, scale=False, constraints=known)
    functions = bx.sample_functions(model, THETA, draws=200, seed=1, progressbar=False)
    log_density = functions.log_constraints().values.mean()
    expected = -0.5 * np.log(2 * np.pi * 0.05**2) - 0.5  # of a normal number given its own law
    assert abs(log_density - expected) < 0.3


def test_a_constraint_of_huge_sd_is_none():
    known = [Slope("dose", mean=2.0, sd=1e6, at=X[:2])]
    model = bx.GP(X, Y, groups=G, scale=False, constraints=known)
    found = bx.predictions(model, THETA, X_NEW, groups_new=G_NEW, **QUIET)
    expected = bx.predictions(
        bx.GP(X, Y, groups=G, scale=False), THETA, X_NEW, groups_new=G_NEW, **QUIET
    )
    for name in ("f_mean", "f_sd"):
        assert_allclose(found[name], expected[name], rtol=1e-7)


@pytest.mark.parametrize("kind", ["GP", "GPX"])
def test_inducing_points_at_rows_and_constraints_are_exact(kind):
    """Values that constraints are about have an inducing point each, and slopes have two near."""
    family, theta = (bx.GP, PLAIN) if kind == "GP" else (bx.GPX, PLAIN | {"sigma_w": 0.2})
    at = X[:2] + 0.15
    values = [Value(at, [0.5, 0.1], 0.1)]
    ends = pd.concat([at + [step, 0.0] for step in (-0.01, 0.01)])
    for known, points, close in (
        (values, [X, at], 1e-6),
        ([*values, Slope("dose", low=0.0, at=at)], [X, at, ends], 2e-3),
    ):
        if kind == "GPX" and len(known) > 1:
            continue
        inducing = bx.Inducing(pd.concat(points).to_numpy())
        options = {"constraints": known, "scale": False}
        model = family(X, Y, approximation=inducing, **options)
        exact = family(X, Y, **options)
        found, expected = (bx.predictions(m, theta, X_NEW, **QUIET) for m in (model, exact))
        for name in ("f_mean", "f_sd"):
            assert_allclose(found[name], expected[name], rtol=0, atol=close)
        densities = [
            bx.log_likelihood(m, theta, progressbar=False)["log_marginal_likelihood"].item()
            for m in (model, exact)
        ]
        assert_allclose(*densities, atol=10 * close)
        left = [bx.loo_predictions(m, theta, progressbar=False) for m in (model, exact)]
        assert_allclose(left[0]["elpd"], left[1]["elpd"], atol=10 * close)


AT = X[:2] + 0.15
STATED = [Increasing("dose", at=3), Value(AT, [0.5, 0.1], 0.1)]
NEAR = np.concatenate([X, AT, *(AT + [step, 0.0] for step in (-0.01, 0.01))])
COUNTS = RNG.poisson(np.exp(Y))
APPROXIMATIONS = {"inducing": bx.Inducing(NEAR), "basis": bx.HSGP([6, 6], 2.5)}


def same_moments(models, thetas, rtol):
    fits = list(zip(models, thetas, strict=True))
    for verb, name in ((bx.predictions, "f"), (bx.derivatives, "derivative")):
        each = []
        for model, theta in fits:
            own = {} if model.training.groups is None else {"groups_new": G_NEW}
            each.append(verb(model, theta, X_NEW, on="latent", **QUIET, **own))
        for moment in ("mean", "sd"):
            both = (of[f"{name}_{moment}"] for of in each)
            assert_allclose(*both, rtol=rtol, atol=rtol)
    parts = [bx.log_likelihood(*fit, progressbar=False) for fit in fits]
    for name in ("log_marginal_likelihood", "log_likelihood"):
        assert_allclose(parts[0][name], parts[1][name], rtol=10 * rtol)


@pytest.mark.parametrize(
    ("kind", "grouped"),
    [
        # Groups and approximations take turns in the quick tests.
        pytest.param(kind, grouped, marks=pytest.mark.slow if (k + grouped) % 2 else ())
        for k, kind in enumerate(APPROXIMATIONS)
        for grouped in (False, True)
    ],
)
def test_sites_of_rows_with_almost_normal_noise_are_those_of_normal_noise(kind, grouped):
    """Student's t with many degrees of freedom, whose rows have a variational posterior.

    Expectations by quadrature are exact to about 1e-6 there.
    """
    options = {"constraints": STATED, "approximation": APPROXIMATIONS[kind], "scale": False}
    options |= {"groups": G} if grouped else {}
    theta = THETA if grouped else PLAIN
    models = [bx.GP(X, Y, likelihood=of, **options) for of in ("student_t", "normal")]
    same_moments(models, [theta | {"nu": 1e7}, theta], 1e-5)


@pytest.mark.parametrize(
    "likelihood", ["normal", pytest.param("poisson", marks=pytest.mark.slow), "student_t"]
)
def test_groups_without_amplitude_keep_constraints_beside_an_approximation(likelihood):
    y = COUNTS if likelihood == "poisson" else Y
    options = {"likelihood": likelihood, "constraints": STATED, "scale": False}
    options["approximation"] = APPROXIMATIONS["basis"]
    names = {"normal": ("sigma",), "student_t": ("sigma", "nu"), "poisson": ()}[likelihood]
    known = PLAIN | {"nu": 4.0}
    theta = {n: v for n, v in known.items() if n not in ("sigma", "nu") or n in names}
    models = [bx.GP(X, y, groups=G, **options), bx.GP(X, y, **options)]
    same_moments(models, [theta | {"group_amplitude": 0.0}, theta], 1e-6)


def test_inducing_points_at_rows_and_constraints_are_exact_with_groups():
    options = {"groups": G, "constraints": STATED[1:], "scale": False}
    points = bx.Inducing(np.concatenate([X, AT]))
    models = [bx.GP(X, Y, approximation=a, **options) for a in (points, None)]
    same_moments(models, [THETA, THETA], 1e-5)
    labels = (Y > 0).astype(int)
    options |= {"constraints": STATED, "likelihood": "bernoulli"}
    models = [bx.GP(X, labels, approximation=a, **options) for a in (bx.Inducing(NEAR), None)]
    theta = {n: v for n, v in THETA.items() if n != "sigma"}
    means = [
        bx.predictions(m, theta, X_NEW, groups_new=G_NEW, on="latent", **QUIET)["f_mean"]
        for m in models
    ]
    assert_allclose(*means, atol=0.02)  # two approximations of rows: a bound, and propagation


@pytest.mark.parametrize(
    "kind", ["normal", "normal with groups", pytest.param("poisson", marks=pytest.mark.slow)]
)
def test_pymc_differentiates_the_density_with_constraints(kind):
    """As its own samplers do."""
    options = {"groups": G} if kind == "normal with groups" else {}
    y = COUNTS if kind == "poisson" else Y
    likelihood = "poisson" if kind == "poisson" else "normal"
    model = bx.GP(
        X, y, likelihood=likelihood, constraints=[Increasing("dose", at=3)],
        approximation=bx.Inducing(4), **options,
    )  # fmt: skip
    objective = model.objective
    point = objective.initial_point()
    logp, slope = objective.compile_logp(mode=MODE), objective.compile_dlogp(mode=MODE)(point)
    names = [v.name for v in objective.value_vars]
    flat = np.concatenate([np.ravel(point[name]) for name in names])

    def at(x):
        ends = np.cumsum([np.size(point[name]) for name in names])[:-1]
        parts = zip(names, np.split(x, ends), strict=True)
        return logp({name: part.reshape(np.shape(point[name])) for name, part in parts})

    for i, own in enumerate(slope):
        ends = [at(flat + sign * 1e-5 * np.eye(len(flat))[i]) for sign in (1.0, -1.0)]
        assert_allclose(own, (ends[0] - ends[1]) / 2e-5, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("grouped", [False, True])
def test_densities_of_constraints_beside_counts_have_these_slopes(grouped):
    options = {"groups": G} if grouped else {}
    model = bx.GP(
        X, COUNTS, likelihood="poisson", constraints=STATED, approximation=bx.HSGP([4, 4], 2.0),
        **options,
    )  # fmt: skip
    density = Density(model.objective, jacobian=True)
    evaluate = density.value_and_slope()
    x = density.unconstrain({}) + 0.3
    slope = evaluate(x)[1].copy()
    for i in range(len(x)):
        ends = [evaluate(x + s * 1e-4 * np.eye(len(x))[i])[0] for s in (1.0, -1.0)]
        assert_allclose(slope[i], (ends[0] - ends[1]) / 2e-4, rtol=1e-4, atol=1e-5)


def test_a_constraint_of_huge_sd_is_none_beside_counts():
    known = [Slope("dose", mean=2.0, sd=1e6, at=X[:2]), Slope("age", low=-1e6, at=2)]
    options = {"likelihood": "poisson", "approximation": bx.HSGP([4, 4], 2.0), "scale": False}
    theta = {n: v for n, v in PLAIN.items() if n != "sigma"}
    models = [bx.GP(X, COUNTS, constraints=own, **options) for own in (known, ())]
    same_moments(models, [theta, theta], 1e-6)


def test_sampled_coefficients_determine_what_constraints_are_about():
    """The potential of a model of counts, from values of the function of these coefficients."""
    theta, sd = {n: v for n, v in PLAIN.items() if n != "sigma"}, 0.5
    known = [Value(X[:3] + 0.1, [0.4, 0.2, -0.1], sd)]
    model = bx.GP(
        X, COUNTS, likelihood="poisson", constraints=known, approximation=bx.HSGP([4, 4], 2.0),
        priors=theta, scale=False,
    )  # fmt: skip
    white = RNG.normal(size=16)
    (value,) = model.pymc.value_vars
    potential = model.pymc.compile_logp(vars=[model.pymc["constraints"]], mode=MODE)(
        {value.name: white}
    )
    posterior = xr.Dataset({"y_white": (("chain", "draw", "coefficient"), white[None, None])})
    idata = xr.DataTree.from_dict({"posterior": posterior})
    values = bx.predictions(model, idata, X[:3] + 0.1, on="latent", **QUIET)["f_mean"]
    assert_allclose(potential, norm.logpdf([0.4, 0.2, -0.1], values, sd).sum(), rtol=1e-6)


@pytest.mark.slow
def test_y_given_constraints_and_groups_is_drawn_from_their_joint_distribution():
    known = [Value(AT, [1.5, -0.4], 0.05)]
    options = {"groups": G, "constraints": known, "scale": False}
    model = bx.GP(X, Y, approximation=bx.Inducing(NEAR), priors=THETA, **options)
    y = pm.draw(model.pymc["y"], 4000, random_seed=1, mode=MODE)
    both = np.concatenate([X, AT])
    C = k(both, both) + np.diag([*[SIGMA**2] * 12, *[0.05**2] * 2])
    C[:12, :12] += LEVEL**2 * (G[:, None] == G)
    gain = np.linalg.solve(C[12:, 12:], C[12:, :12]).T
    mean, cov = gain @ [1.5, -0.4], C[:12, :12] - gain @ C[12:, :12]
    assert (np.abs(y.mean(axis=0) - mean) < 5 * np.sqrt(np.diag(cov) / 4000)).all()
    error = np.sqrt((cov**2 + np.outer(np.diag(cov), np.diag(cov))) / 4000)
    assert (np.abs(np.cov(y.T) - cov) < 5.5 * error).all()


def test_few_inducing_points_are_titsias_bound_with_constrained_values_among_them():
    """Their posterior is exact, however little the points say of them."""
    U, at, sd = X.to_numpy()[:5] + 0.2, X.to_numpy()[6:8] - 0.1, 0.1
    model = bx.GP(
        X, Y, scale=False, constraints=[Value(at, [0.5, 0.1], sd)], approximation=bx.Inducing(U)
    )
    points = np.vstack([U, at])
    root = np.linalg.cholesky(k(points, points) + 1e-10 * AMPLITUDE**2 * np.eye(7))
    F, G_of, new = (np.linalg.solve(root, k(points, rows)).T for rows in (X, at, X_NEW))
    left = [AMPLITUDE**2 - (design**2).sum(axis=1) for design in (F, new)]
    assert min(map(np.max, left)) > 0.01
    design, values = np.vstack([F, G_of]), np.array([*Y, 0.5, 0.1])
    C = design @ design.T + np.diag([*[SIGMA**2] * 12, *[sd**2] * 2])
    joint = multivariate_normal(np.zeros(14), C).logpdf(values)
    alone = multivariate_normal(np.zeros(2), C[12:, 12:]).logpdf(values[12:])
    expected = joint - alone - 0.5 * (left[0] / SIGMA**2).sum()
    found = bx.log_likelihood(model, PLAIN, progressbar=False)["log_marginal_likelihood"].item()
    assert_allclose(found, expected, rtol=1e-7)
    gain = np.linalg.solve(C, design @ new.T).T
    posterior = bx.predictions(model, PLAIN, X_NEW, **QUIET)
    assert_allclose(posterior["f_mean"], gain @ values, rtol=1e-6)
    variance = (new**2).sum(axis=1) - (gain * (design @ new.T).T).sum(axis=1) + left[1]
    assert_allclose(posterior["f_sd"], np.sqrt(variance), rtol=1e-6)


def test_slopes_hold_where_they_are_stated_beside_few_inducing_points():
    at, sd = X[:2], 0.01
    stated = [Slope("dose", mean=0.8, sd=sd, at=at)]
    model = bx.GP(X, Y, scale=False, constraints=stated, approximation=bx.Inducing(3))
    found = bx.derivatives(model, PLAIN, at, features=["dose"], **QUIET)
    assert_allclose(found["derivative_mean"], 0.8, atol=2 * sd)
    assert (found["derivative_sd"] <= sd * (1 + 1e-6)).all()


def test_svgp_keeps_the_values_at_points_beside_constraints():
    stated = [Slope("dose", mean=0.8, sd=0.01, at=X[:2])]
    model = bx.GP(X, Y, scale=False, constraints=stated, approximation=bx.Inducing(3))
    idata = model.fit("svgp", progressbar=False)
    of_u = idata["variational"].isel(chain=0, draw=0)
    found = bx.predictions(model, idata, of_u["U"].values, **QUIET)
    assert_allclose(of_u["u_mean"], found["f_mean"], rtol=1e-6)
    own = (of_u["u_chol"] ** 2).sum("inducing_bis")
    assert_allclose(np.sqrt(own), found["f_sd"], rtol=1e-4)
