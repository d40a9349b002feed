"""Constraints are conditioning: dense joint normals, with derivatives of kernels in closed form."""

import numpy as np
import pandas as pd
import pytensor
import pytest
from numpy.polynomial.hermite_e import hermeval
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

import bayes_gpx as bx
from bayes_gpx.draws.left_out_together import densities_of_groups
from bayes_gpx.model.constraints import Curvature, Interaction, Slope, Value, Weight
from bayes_gpx.numerics.compile_modes import MODE

QUIET = {"progressbar": False, "seed": 1}
HERE = pd.DataFrame({"dose": [0.2, 1.4, 2.2], "age": [31.0, 44.0, 52.0]})
NEW = pd.DataFrame({"dose": [0.7, 1.9], "age": [35.0, 40.0]})


class Functional:
    """A sum of coef times the derivative, of orders `alpha`, of the l-th function at x."""

    def __init__(self, *terms):
        self.terms = terms

    def covariance(self, other, kernel):
        return sum(
            c * b * kernel(x, alpha, other_x, beta)
            for c, i, x, alpha in self.terms
            for b, j, other_x, beta in other.terms
            if i == j
        )


def squared_exponential(lengthscale, amplitude):
    """Covariance of derivatives of f: Hermite polynomials times the kernel."""

    def kernel(x, alpha, xs, beta):
        t, found = (np.asarray(x) - np.asarray(xs)) / lengthscale, amplitude**2
        for k, (a, b) in enumerate(zip(alpha, beta, strict=True)):
            n = a + b
            found *= (-1) ** (b + n) * hermeval(t[k], [0] * n + [1]) / lengthscale[k] ** n
        return found * np.exp(-0.5 * t @ t)

    return kernel


def gram(left, right, kernel):
    return np.array([[one.covariance(other, kernel) for other in right] for one in left])


def value(x):
    return Functional((1.0, 0, x, (0, 0)))


def derivative(x, *alpha):
    return Functional((1.0, 0, x, alpha))


class Dense:
    """A joint normal of what is seen, with noise, in user units."""

    def __init__(self, seen, values, noise, kernel):
        self.seen, self.kernel, self.values = seen, kernel, np.array(values)
        self.C = gram(seen, seen, kernel) + np.diag(noise)

    def posterior(self, asked):
        K = gram(asked, self.seen, self.kernel)
        cov = gram(asked, asked, self.kernel) - K @ np.linalg.solve(self.C, K.T)
        return K @ np.linalg.solve(self.C, self.values), cov

    def density(self, own):
        C, values = self.C[np.ix_(own, own)], self.values[own]
        return multivariate_normal(np.zeros(len(values)), C).logpdf(values)


@pytest.fixture(scope="module")
def problem():
    """A model with every kind of constraint, its hyperparameters, and the dense joint normal."""
    rng = np.random.default_rng(12)
    X = pd.DataFrame({"dose": rng.uniform(0, 2.5, 9), "age": rng.uniform(25, 60, 9)})
    y = pd.Series(40 + 5 * np.sqrt(X["dose"]) + 0.1 * X["age"] + rng.normal(0, 1, 9), name="y")
    constraints = [
        Slope("dose", mean=3.0, sd=0.7, at=HERE),
        Value(HERE, [43.0, 48.0, 52.0], [0.5, 1.0, 2.0]),
        Curvature("dose", mean=-1.0, sd=0.4, at=HERE[:2]),
        Interaction("dose", "age", sd=0.02, at=HERE[1:]),
        Slope("age", mean=0.1, sd=0.05, at=HERE[:1]),
    ]
    model = bx.GP(X, y, constraints=constraints)
    theta = {"lengthscale": [1.1, 1.7], "amplitude": 1.3, "sigma": 0.4}
    scale, center = y.std(ddof=0), y.mean()
    lengthscale = np.array(theta["lengthscale"]) * X.std(ddof=0).to_numpy()
    rows, here = X.to_numpy(), HERE.to_numpy()
    seen = [
        *map(value, rows),
        *(derivative(x, 1, 0) for x in here),
        *map(value, here),
        *(derivative(x, 2, 0) for x in here[:2]),
        *(derivative(x, 1, 1) for x in here[1:]),
        derivative(here[0], 0, 1),
    ]
    values = [*(y - center), 3, 3, 3, *(np.array([43, 48, 52]) - center), -1, -1, 0, 0, 0.1]
    sds = [0.7] * 3 + [0.5, 1.0, 2.0] + [0.4] * 2 + [0.02] * 2 + [0.05]
    noise = np.array([*[0.4 * scale] * 9, *sds]) ** 2
    dense = Dense(seen, values, noise, squared_exponential(lengthscale, 1.3 * scale))
    return model, theta, dense, center


def test_predictions_and_derivatives_are_those_of_the_joint_normal(problem):
    model, theta, dense, center = problem
    mean, cov = dense.posterior([*map(value, NEW.to_numpy())])
    found = bx.predictions(model, theta, NEW, **QUIET)
    assert_allclose(found["f_mean"], center + mean, rtol=1e-9)
    assert_allclose(found["f_sd"] ** 2, np.diag(cov), rtol=1e-9)
    asked = [derivative(x, *order) for x in NEW.to_numpy() for order in np.eye(2, dtype=int)]
    mean, cov = dense.posterior(asked)
    found = bx.derivatives(model, theta, NEW, covariance=True, **QUIET)
    assert_allclose(found["derivative_mean"].values.ravel(), mean, rtol=1e-9)
    for i in range(2):
        own = slice(2 * i, 2 * i + 2)
        assert_allclose(found["derivative_cov"][i], cov[own, own], rtol=1e-9, atol=1e-12)


def test_rows_are_left_out_of_the_joint_normal(problem):
    model, theta, dense, _ = problem
    found = bx.log_likelihood(model, theta, progressbar=False)
    every = np.arange(len(dense.values))
    assert_allclose(
        found["log_marginal_likelihood"].item(),
        dense.density(every) - dense.density(every[9:]),
        rtol=1e-9,
    )
    terms = [dense.density(every) - dense.density(np.delete(every, i)) for i in range(9)]
    assert_allclose(found["log_likelihood"].values.ravel(), terms, rtol=1e-9)


def test_groups_are_left_out_of_the_joint_normal(problem):
    model, theta, dense, _ = problem
    groups = np.array([0, 0, 1, 1, 2, 2, 2, 3, 3])
    found = densities_of_groups(model, theta, groups, progressbar=False).values.ravel()
    every = np.arange(len(dense.values))
    for label, joint in enumerate(found):
        left = np.delete(every, np.flatnonzero(groups == label))
        assert_allclose(joint, dense.density(every) - dense.density(left), rtol=1e-9)


def test_the_density_of_hyperparameters_has_that_of_the_constraints(problem):
    model, theta, dense, _ = problem
    pymc, moves = model.pymc, model.pymc.rvs_to_transforms
    inferred = {model.posterior_names[name]: np.asarray(v, float) for name, v in theta.items()}
    assert {type(moves[rv]).__name__ for rv in pymc.free_RVs} == {"LogTransform"}
    point = [np.log(inferred[rv.name]) for rv in pymc.free_RVs]
    terms = [pymc.logp(vars=[term]) for term in (pymc["y"], pymc["constraints"])]
    of_y, of_constraints = pytensor.function(pymc.value_vars, terms, mode=MODE)(*point)
    every = np.arange(len(dense.values))
    own = dense.density(every) - dense.density(every[9:])
    assert_allclose(of_y, own, rtol=1e-9)
    units = np.log([s.unit for s in model.specification.constraints.statements]).sum()
    assert_allclose(of_constraints - units, dense.density(every[9:]), rtol=1e-9)


def test_attributions_of_constrained_quantities_add_up(problem):
    model, theta, *_ = problem
    found = bx.attributions(model, theta, NEW, baseline=HERE[:1], **QUIET)
    f = bx.predictions(model, theta, pd.concat([NEW, HERE[:1]]), **QUIET)["f_mean"].values
    assert_allclose(found["attribution_mean"].sum("feature"), f[:2] - f[2], rtol=1e-9)
    assert (found["completeness_residual"] < 1e-9).all()


def test_random_functions_have_the_moments_of_the_joint_normal(problem):
    model, theta, dense, center = problem
    functions = bx.sample_functions(model, theta, draws=400, **QUIET)
    f = functions.predictions(NEW)["f"].values.reshape((400, 2))
    mean, cov = dense.posterior([*map(value, NEW.to_numpy())])
    sd = np.sqrt(np.diag(cov))
    assert (np.abs(f.mean(axis=0) - center - mean) < 4 * sd / np.sqrt(400)).all()
    assert_allclose(f.std(axis=0), sd, rtol=4 / np.sqrt(800))


@pytest.mark.parametrize("tied", [True, False])
def test_weights_and_slopes_of_a_gpx_are_those_of_the_joint_normal(rng, tied):
    X = pd.DataFrame({"a": rng.normal(size=8), "b": rng.normal(size=8)})
    Z = X if tied else pd.DataFrame({"c": rng.normal(size=8), "d": rng.normal(size=8)})
    y = pd.Series(X["a"] * Z.iloc[:, 0] + rng.normal(0, 0.3, 8))
    here, of_here = np.array([[0.3, -0.2], [-0.5, 0.4]]), np.array([[1.1, 0.2], [-0.3, 0.8]])
    names = [*X.columns] if tied else [*X.columns, *Z.columns]
    at = pd.DataFrame(here if tied else np.hstack([here, of_here]), columns=names)
    model = bx.GPX(
        X, y, None if tied else Z, intercept=tied, scale=False,
        constraints=[
            Slope("a", mean=0.5, sd=0.2, at=at),
            Weight(names[-2], mean=0.7, sd=0.1, at=at),
            Value(at, 0.3, 0.2),
        ],
    )  # fmt: skip
    theta = {"lengthscale": [0.9, 1.4], "amplitude": 1.2, "sigma": 0.3, "sigma_w": 0.2}

    def features(x, z):
        return np.append(x, 1.0) if tied else z

    def of(x, z, *alpha):
        """z'g(x), or its first derivative; z moves with x where it is x."""
        terms = [(c, k, x, alpha) for k, c in enumerate(features(x, z))]
        if tied and sum(alpha):
            terms.append((1.0, alpha.index(1), x, (0, 0)))
        return Functional(*terms)

    def weight(k, x):
        return Functional((1.0, k, x, (0, 0)))

    rows, own = X.to_numpy(), Z.to_numpy()
    seen = [of(x, z, 0, 0) for x, z in zip(rows, own, strict=True)]
    seen += [of(x, z, 1, 0) for x, z in zip(here, of_here, strict=True)]
    seen += [weight(0, x) for x in here]
    seen += [of(x, z, 0, 0) for x, z in zip(here, of_here, strict=True)]
    lengths = [features(x, z) @ features(x, z) for x, z in zip(rows, own, strict=True)]
    noise = [*(0.3**2 + 0.2**2 * np.array(lengths)), *[0.04] * 2, *[0.01] * 2, *[0.04] * 2]
    kernel = squared_exponential(np.array([0.9, 1.4]), 1.2)
    dense = Dense(seen, [*y, 0.5, 0.5, 0.7, 0.7, 0.3, 0.3], noise, kernel)
    new, of_new = np.array([[0.1, 0.9]]), np.array([[0.4, -1.0]])
    asked = () if tied else (pd.DataFrame(of_new, columns=Z.columns),)
    table = pd.DataFrame(new, columns=X.columns), *asked
    p = 3 if tied else 2
    mean, cov = dense.posterior([weight(k, new[0]) for k in range(p)])
    found = bx.weights(model, theta, *table, smooth=True, covariance=True, **QUIET)
    assert_allclose(found["weight_mean"].values.ravel(), mean, rtol=1e-9)
    assert_allclose(found["weight_cov"][0], cov, rtol=1e-9, atol=1e-12)
    found = bx.contributions(model, theta, *table, **QUIET)["contribution_mean"].values[0]
    assert_allclose(found, mean * features(new[0], of_new[0]), rtol=1e-9)
    mean, cov = dense.posterior([of(new[0], of_new[0], *order) for order in np.eye(2, dtype=int)])
    found = bx.derivatives(model, theta, *table, covariance=True, **QUIET)
    assert_allclose(found["derivative_mean"].values.ravel(), mean, rtol=1e-9)
    assert_allclose(found["derivative_cov"][0], cov, rtol=1e-9, atol=1e-12)
