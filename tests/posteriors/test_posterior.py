"""Every posterior quantity equals conditioning the explicit joint of all outputs."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from pytensor.graph.replace import graph_replace

import bayes_gpx as bx
from bayes_gpx.numerics.compile_modes import MODE
from oracle import Joint, expquad

# Two Cholesky-based roads in float64, conditioning below 1e4.
TOLERANCE = {"rtol": 1e-9, "atol": 1e-10}

LENGTHSCALE, SIGMA = np.array([0.9, 1.7]), 0.4
VARIANTS = {
    "Z = X": {"own_z": False},
    "Z != X": {"own_z": True},
    "intercept": {"own_z": True, "intercept": True},
    "per_feature": {"own_z": True, "weight_prior": "per_feature"},
    "horseshoe": {"own_z": True, "weight_prior": "horseshoe"},
    "user scale": {"own_z": True, "scale": False},
}


class Case:
    """A GPX at fixed hyperparameters, its oracle, and the way to user units."""

    def __init__(self, regression, own_z, **options):
        X, Z, y, X_new, Z_new = regression
        self.model = bx.GPX(X, y, Z if own_z else None, **options)
        self.new = (X_new, Z_new) if own_z else (X_new,)
        p = self.model.training.p
        by_feature = options.get("weight_prior", "shared") != "shared"
        amplitude = np.linspace(0.5, 1.3, p) if by_feature else 0.8
        sigma_w = 0.3 * (amplitude if options.get("weight_prior") == "horseshoe" else 1.0)
        scaled = options.get("scale", True)
        self.lengthscale = LENGTHSCALE if scaled else LENGTHSCALE * X.std(ddof=0).values
        self.theta = {
            "lengthscale": self.lengthscale,
            "amplitude": amplitude,
            "sigma_w": 0.3,
            "sigma": SIGMA,
        }

        def standard(A, like):
            return (A - like.mean()) / like.std(ddof=0) if scaled else A

        self.x = standard(np.vstack([X, X_new]), _Columns(X))
        self.y = standard(y.values, _Columns(y))
        self.y_scale = y.std(ddof=0) if scaled else 1.0
        self.offset = y.mean() if scaled else 0.0
        weighed, like = (np.vstack([Z, Z_new]), Z) if own_z else (np.vstack([X, X_new]), X)
        z = standard(weighed, _Columns(like))
        self.z_scale = like.std(ddof=0).values if scaled else np.ones(z.shape[1])
        self.center = like.mean().values if scaled else np.zeros(z.shape[1])
        if options.get("intercept"):
            z = np.column_stack([z, np.ones(len(z))])
            self.z_scale, self.center = np.append(self.z_scale, 1.0), np.append(self.center, 0.0)
        self.z = z
        K = expquad(self.x, self.x, self.lengthscale)
        self.joint = Joint(K, z, len(y), amplitude=amplitude, sigma_w=sigma_w, sigma=SIGMA)


class _Columns:
    def __init__(self, frame):
        self.mean = lambda: frame.mean().values if frame.ndim == 2 else frame.mean()
        self.std = lambda ddof: (
            frame.std(ddof=ddof).values if frame.ndim == 2 else frame.std(ddof=ddof)
        )


@pytest.fixture(params=VARIANTS, scope="module")
def case(request, regression):
    return Case(regression, **VARIANTS[request.param])


@pytest.fixture(params=["new", "train"], scope="module")
def asked(request, case):
    """Positional arguments of the verbs, and the oracle's rows."""
    return (case.new, case.joint.new) if request.param == "new" else ((), case.joint.train)


def blocks(cov, m):
    """Covariance within each observation, out of a full obs-major covariance."""
    c = len(cov) // m
    return np.einsum("icid->icd", cov.reshape((m, c, m, c)))


@pytest.mark.parametrize("smooth", [False, True])
def test_weights_equal_the_joint(case, asked, smooth):
    arguments, rows = asked
    name = "smooth_weight" if smooth else "weight"
    mean, cov = case.joint.posterior(name, rows, case.y)
    found = bx.weights(
        case.model, case.theta, *arguments, smooth=smooth, covariance=True, draws=2, seed=1
    )
    unit = case.y_scale / case.z_scale
    m = found.sizes["obs"]
    assert_allclose(found["weight_mean"], mean.reshape((m, -1)) * unit, **TOLERANCE)
    expected = blocks(cov, m) * unit[:, None] * unit
    scale = np.sqrt(np.einsum("icc,idd->icd", expected, expected))
    assert_allclose(found["weight_cov"] / scale, expected / scale, **TOLERANCE)
    assert_allclose(found["weight_sd"] ** 2, np.einsum("icc->ic", expected), rtol=1e-9)


def test_contributions_equal_the_joint(case, asked):
    arguments, rows = asked
    mean, cov = case.joint.posterior("contribution", rows, case.y)
    found = bx.contributions(case.model, case.theta, *arguments, covariance=True, draws=2, seed=1)
    m = found.sizes["obs"]
    assert_allclose(found["contribution_mean"], mean.reshape((m, -1)) * case.y_scale, **TOLERANCE)
    expected = blocks(cov, m) * case.y_scale**2
    assert_allclose(found["contribution_cov"], expected, rtol=1e-9, atol=1e-9 * case.y_scale**2)
    assert_allclose(found["center"], case.center, rtol=1e-12)


@pytest.mark.parametrize("quantity", ["f", "y"])
def test_predictions_equal_the_joint(case, asked, quantity):
    arguments, rows = asked
    mean, cov = case.joint.posterior(
        quantity if quantity == "f" or rows == case.joint.new else "f", rows, case.y
    )
    extra = SIGMA**2 if quantity == "y" and rows == case.joint.train else 0.0
    found = bx.predictions(case.model, case.theta, *arguments, draws=2, seed=1)
    assert_allclose(found[f"{quantity}_mean"], mean * case.y_scale + case.offset, rtol=1e-9)
    sd = case.y_scale * np.sqrt(np.diag(cov) + extra)
    assert_allclose(found[f"{quantity}_sd"], sd, rtol=1e-9)


def test_contributions_and_offset_are_the_prediction(case, asked):
    arguments, _ = asked
    parts = bx.contributions(case.model, case.theta, *arguments, covariance=True, draws=2, seed=1)
    whole = bx.predictions(case.model, case.theta, *arguments, draws=2, seed=1)
    total = parts["contribution_mean"].sum("feature") + parts["offset"]
    assert_allclose(total, whole["f_mean"], rtol=1e-12)
    noise = (SIGMA * case.y_scale) ** 2
    variance = parts["contribution_cov"].sum(["feature", "feature_bis"]) + noise
    assert_allclose(variance, whole["y_sd"] ** 2, rtol=1e-10)
    weights = bx.weights(case.model, case.theta, *arguments, draws=2, seed=1)
    product = weights["weight_mean"] * (parts["value"] - parts["center"])
    assert_allclose(product, parts["contribution_mean"], rtol=1e-10, atol=1e-10)


def test_log_likelihood_equals_conditioning_on_all_but_one(case):
    found = bx.log_likelihood(case.model, case.theta)
    log_scale = np.log(case.y_scale)
    expected = case.joint.leave_one_out(case.y) - log_scale
    assert_allclose(found["log_likelihood"].squeeze(), expected, rtol=1e-9, atol=1e-9)
    evidence = case.joint.log_evidence(case.y) - len(case.y) * log_scale
    assert_allclose(found["log_marginal_likelihood"].item(), evidence, rtol=1e-10)


def test_model_density_is_the_full_hierarchy(case):
    """The collapsed y of the PyMC model has g, eps_w and eps_y integrated out."""
    model = case.model._pymc
    logp = pm.logp(model["y"], model.rvs_to_values[model["y"]])
    given = {model[name]: pt.as_tensor(np.asarray(v, float)) for name, v in case.theta.items()}
    found = pytensor.function([], graph_replace(logp, given, strict=False), mode=MODE)()
    evidence = case.joint.log_evidence(case.y) - len(case.y) * np.log(case.y_scale)
    assert_allclose(found, evidence, rtol=1e-10)


def test_core_inside_a_model_of_ones_own(case):
    """Operators stack, add and scale; means and covariances are those of the joint."""
    joint = case.joint
    x, z = case.x[joint.new], case.z[joint.new]
    x_train, z_train = case.x[joint.train], case.z[joint.train]
    amplitude, sigma_w = case.theta["amplitude"], 0.3
    if case.model.specification.weight_prior == "horseshoe":
        sigma_w = 0.3 * amplitude
    process = bx.WeightProcess(
        pm.gp.cov.ExpQuad(2, ls=case.lengthscale), sigma_w=sigma_w, amplitude=amplitude
    )
    q = bx.posteriors.exact(process, x_train, case.y, SIGMA, z_train)
    ops = bx.operators
    asked = ops.stack(
        ops.evaluate(x, z), ops.weight(x), ops.contribution(x_train, z_train, sample="train")
    )
    posterior = q(asked)
    parts = [("f", joint.new), ("weight", joint.new), ("contribution", joint.train)]
    rows = np.concatenate([joint.rows[n][s].reshape((-1, len(joint.covariance))) for n, s in parts])
    joint.rows["stacked"] = rows
    mean, cov = joint.posterior("stacked", slice(None), case.y)
    found = pytensor.function([], [posterior.mean, posterior.cov, posterior.variance], mode=MODE)()
    assert_allclose(found[0], mean, **TOLERANCE)
    assert_allclose(found[1], cov, **TOLERANCE)
    assert_allclose(found[2], np.diag(cov), rtol=1e-9, atol=1e-12)
    difference = q(ops.evaluate(x[:2], z[:2]) + -2.0 * ops.evaluate(x[2:], z[2:]))
    combine = np.hstack([np.eye(2), -2 * np.eye(2)])
    f_mean, f_cov = joint.posterior("f", joint.new, case.y)
    found = pytensor.function([], [difference.mean, difference.cov], mode=MODE)()
    assert_allclose(found[0], combine @ f_mean, **TOLERANCE)
    assert_allclose(found[1], combine @ f_cov @ combine.T, **TOLERANCE)


def test_any_operator_may_be_observed(rng):
    """Weights seen with noise at some points predict the response at others."""
    x, z = rng.normal(size=(5, 2)), rng.normal(size=(3, 2))
    x_new = rng.normal(size=(3, 2))
    process = bx.WeightProcess(pm.gp.cov.ExpQuad(2, ls=1.1), sigma_w=0.2, n_features=2)
    ops, values = bx.operators, rng.normal(size=10)
    q = bx.posteriors.exact(process, ops.weight(x, smooth=True), values, 0.3)
    posterior = q(ops.evaluate(x_new, z))
    found = pytensor.function([], [posterior.mean, posterior.cov], mode=MODE)()
    K_uu = np.kron(expquad(x, x, 1.1), np.eye(2)) + 0.09 * np.eye(10)
    K_Lu = np.concatenate(
        [np.kron(k, w)[None] for k, w in zip(expquad(x_new, x, 1.1), z, strict=True)]
    )
    K_LL = expquad(x_new, x_new, 1.1) * (z @ z.T) + np.diag(0.04 * (z**2).sum(axis=1))
    gain = np.linalg.solve(K_uu, K_Lu.T).T
    assert_allclose(found[0], gain @ values, **TOLERANCE)
    assert_allclose(found[1], K_LL - gain @ K_Lu.T, **TOLERANCE)
