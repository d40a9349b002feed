"""Components against dense conditioning of each summand's own covariance, in plain NumPy."""

from itertools import combinations

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx
import oracle

RNG = np.random.default_rng(5)
X = pd.DataFrame(RNG.normal(size=(25, 3)), columns=["age", "bmi", "dose"])
X_NEW = pd.DataFrame(RNG.normal(size=(4, 3)), columns=X.columns)
Y = 3.0 + np.sin(X["age"]) * X["bmi"] + 0.5 * X["dose"] + 0.1 * RNG.normal(size=25)
LS, SIGMA = np.array([0.9, 1.1, 1.4]), 0.2
QUIET = {"progressbar": False, "seed": 1}


def additive_summands(order=3, variances=(1.0, 0.5, 0.25), size=0.8**2):
    """Covariances of each effect of an additive kernel, by name, from subsets."""

    def effect(chosen):
        def k(A, B):
            each = [oracle.expquad(A[:, [i]], B[:, [i]], LS[i]) for i in chosen]
            return size * variances[len(chosen) - 1] * np.prod(each, axis=0)

        return k

    return {
        ":".join(X.columns[list(chosen)]): effect(chosen)
        for r in range(1, order + 1)
        for chosen in combinations(range(3), r)
    }


def constant(variance):
    return lambda A, B: np.full((len(A), len(B)), variance)


def dense(summands, A, train=None, y=None):
    """Means (m, c) and covariances (m, c, m, c) of the summands, given noisy y of their sum."""
    train, y = X.to_numpy() if train is None else train, Y.to_numpy() if y is None else y
    ks = list(summands.values())
    C = np.linalg.inv(sum(k(train, train) for k in ks) + SIGMA**2 * np.eye(len(train)))
    mean = np.stack([k(A, train) @ C @ y for k in ks], axis=1)
    cov = np.array([[-k(A, train) @ C @ t(A, train).T for t in ks] for k in ks])
    for s, k in enumerate(ks):
        cov[s, s] += k(A, A)
    return mean, cov.transpose(2, 0, 3, 1)


def additive_kernel(d):
    effects = bx.Additive(d, LS, 3, [1.0, 0.5, 0.25])
    return 0.8**2 * effects + pm.gp.cov.Constant(4.0)


def test_every_effect_is_its_conditional_and_they_add_up():
    model = bx.GP(X, Y, kernel=additive_kernel, scale=False)
    found = bx.components(
        model, {"sigma": SIGMA}, X_NEW, order=3, covariance=True, joint=True, **QUIET
    )
    summands = additive_summands() | {"constant": constant(4.0)}
    mean, cov = dense(summands, X_NEW.to_numpy())
    assert found["component"].values.tolist() == list(summands)
    assert_allclose(found["component_mean"], mean, atol=1e-9)
    own = np.arange(len(X_NEW))
    assert_allclose(found["component_cov"], cov[own, :, own], atol=1e-9)
    f = bx.predictions(model, {"sigma": SIGMA}, X_NEW, **QUIET)
    assert_allclose(found["component_mean"].sum("component"), f["f_mean"], atol=1e-12)
    both = found["component_cov"].sum(["component", "component_bis"])
    assert_allclose(both, f["f_sd"] ** 2, atol=1e-12)
    assert_allclose(found["f_mean"], f["f_mean"], atol=1e-12)
    assert_allclose(found["components"].sum("component"), found["f"], atol=1e-12)
    assert found["completeness_residual"].max() < 1e-12
    # Joint draws have the dense covariance: of 1000 draws within five standard errors.
    draws = found["components"].values.reshape((1000, -1))
    size = mean.size
    whole = cov.reshape((size, size))
    spread = np.sqrt((np.outer(np.diag(whole), np.diag(whole)) + whole**2) / 999.0)
    assert (np.abs(np.cov(draws.T) - whole) < 5.0 * spread + 1e-12).all()


def test_higher_orders_are_one_remainder():
    model = bx.GP(X, Y, kernel=additive_kernel, scale=False)
    found = bx.components(model, {"sigma": SIGMA}, X_NEW, order=1, covariance=True, **QUIET)
    every = additive_summands()
    several = [k for name, k in every.items() if ":" in name]
    summands = {name: k for name, k in every.items() if ":" not in name}
    summands["remainder"] = lambda A, B: sum(k(A, B) for k in several)
    mean, cov = dense(summands | {"constant": constant(4.0)}, X_NEW.to_numpy())
    assert found["component"].values.tolist() == [*summands, "constant"]
    assert_allclose(found["component_mean"], mean, atol=1e-9)
    own = np.arange(len(X_NEW))
    assert_allclose(found["component_cov"], cov[own, :, own], atol=1e-9)
    assert found["along"].values.tolist() == ["age", "bmi", "dose", "age", ""]
    assert found["alone"].values.tolist() == [True, True, True, False, False]


def test_named_kernels_in_user_units_with_the_mean_of_y():
    model = bx.GP(X, Y, kernel="expquad + linear * periodic + expquad")
    theta = {"periodic_lengthscale": [1.0] * 3, "periodic_period": 3.0, "sigma": SIGMA}
    theta |= {"expquad_lengthscale": LS, "expquad2_lengthscale": 2.0 * LS}
    theta |= {"expquad_amplitude": 0.7, "linear_amplitude": 0.3, "expquad2_amplitude": 0.4}
    found = bx.components(model, theta, X_NEW, covariance=True, **QUIET)
    summands = {
        "expquad": lambda A, B: 0.49 * oracle.expquad(A, B, LS),
        "linear * periodic": lambda A, B: 0.09 * (A @ B.T) * oracle.periodic(A, B, np.ones(3), 3.0),
        "expquad2": lambda A, B: 0.16 * oracle.expquad(A, B, 2.0 * LS),
    }
    low, width = X.mean().to_numpy(), X.std(ddof=0).to_numpy()
    scaled, new = (X.to_numpy() - low) / width, (X_NEW.to_numpy() - low) / width
    size = Y.std(ddof=0)
    mean, cov = dense(summands, new, train=scaled, y=((Y - Y.mean()) / size).to_numpy())
    assert found["component"].values.tolist() == [*summands, "constant"]
    assert_allclose(found["component_mean"][:, :3], size * mean, atol=1e-9)
    assert_allclose(found["component_mean"][:, 3], Y.mean())
    assert (found["component_sd"][:, 3] == 0.0).all()
    own = np.arange(len(X_NEW))
    assert_allclose(found["component_cov"][:, :3, :3], size**2 * cov[own, :, own], atol=1e-9)
    assert_allclose(found["share"].sum(), 1.0)


def test_callable_kernels_are_named_by_type_and_feature():
    def kernel(d):
        age = pm.gp.cov.ExpQuad(d, ls=1.0, active_dims=[0])
        season = pm.gp.cov.Periodic(d, period=2.0, ls=1.0, active_dims=[2])
        slow = pm.gp.cov.Matern52(d, ls=3.0, active_dims=[2])
        both = pm.gp.cov.Constant(1.0) + (age + season * slow) + pm.gp.cov.Constant(2.0)
        return 0.5 * both + pm.gp.cov.Linear(d, c=0.0) + age

    model = bx.GP(X, Y, kernel=kernel)
    found = bx.components(model, {"sigma": SIGMA}, X_NEW, **QUIET)
    names = ["ExpQuad(age)", "Periodic(dose) * Matern52(dose)", "Linear", "ExpQuad(age) 2"]
    assert found["component"].values.tolist() == [*names, "constant"]
    assert found["along"].values.tolist() == ["age", "dose", "age", "age", ""]
    assert found["completeness_residual"].max() < 1e-12


@pytest.mark.parametrize("approximation", [bx.Inducing(X[["age"]]), bx.HSGP(25, 3.0)])
def test_approximations_that_are_near_exact_have_the_same_components(approximation):
    one = X[["age"]]
    theta = {"linear_amplitude": 0.5, "expquad_lengthscale": [0.8], "expquad_amplitude": 1.1}
    theta["sigma"] = 0.5
    options = {"kernel": "linear + expquad", "scale": False}
    models = [bx.GP(one, Y, approximation=a, **options) for a in (None, approximation)]
    asked = X_NEW[["age"]].clip(one.min(), one.max(), axis=1)
    exact, near = (bx.components(m, theta, asked, covariance=True, **QUIET) for m in models)
    assert_allclose(near["component_mean"], exact["component_mean"], atol=1e-5)
    assert_allclose(near["component_cov"], exact["component_cov"], atol=1e-5)
    assert near["completeness_residual"].max() < 1e-9


def test_of_labels_they_are_parts_of_the_latent_function():
    model = bx.GP(X, Y > 3.0, likelihood="bernoulli", kernel="linear + expquad")
    theta = {"linear_amplitude": 0.5, "expquad_lengthscale": LS, "expquad_amplitude": 1.1}
    found = bx.components(model, theta, X_NEW, covariance=True, **QUIET)
    f = bx.predictions(model, theta, X_NEW, on="latent", **QUIET)
    assert_allclose(found["component_mean"].sum("component"), f["f_mean"], atol=1e-12)
    both = found["component_cov"].sum(["component", "component_bis"])
    assert_allclose(both, f["f_sd"] ** 2, atol=1e-12)


def test_draws_of_a_store_have_the_dim_of_components(tmp_path):
    model = bx.GP(X, Y, kernel="linear + expquad")
    theta = {"linear_amplitude": 0.5, "expquad_lengthscale": LS, "expquad_amplitude": 1.1}
    theta["sigma"] = SIGMA
    options = {"draws": 5, **QUIET}
    kept = bx.components(model, theta, X_NEW, path=tmp_path / "store", **options)
    held = bx.components(model, theta, X_NEW, **options)
    assert kept["components"].dims == ("chain", "draw", "obs", "component")
    assert_allclose(kept["components"], held["components"])


def test_what_has_no_components_is_refused():
    theta = {"lengthscale": LS, "amplitude": 1.0, "sigma": SIGMA}
    with pytest.raises(ValueError, match="Use bx.contributions"):
        bx.components(bx.GPX(X, Y), theta | {"sigma_w": 0.1}, **QUIET)
    with pytest.raises(ValueError, match="no distribution .* a model without groups"):
        kernel = lambda d: bx.Additive(d, 1.0, 2, measure="gaussian")  # noqa: E731
        grouped = bx.GP(X, Y, groups=np.arange(25) % 3, kernel=kernel)
        bx.sobol_indices(grouped, {"sigma": SIGMA, "group_amplitude": 0.3})
    with pytest.raises(ValueError, match="order"):
        bx.components(bx.GP(X, Y), theta, order=0, **QUIET)
    wide = RNG.normal(size=(6, 40))
    model = bx.GP(wide, Y[:6], kernel=lambda d: bx.Additive(d, 1.0, 2))
    with pytest.raises(ValueError, match="820 summands, but can have at most 500"):
        bx.components(model, {"sigma": SIGMA}, **QUIET)


def test_of_one_row_there_is_nothing_to_share():
    theta = {"lengthscale": LS, "amplitude": 1.0, "sigma": SIGMA}
    found = bx.components(bx.GP(X, Y), theta, X_NEW[:1], keep="summary", **QUIET)
    assert found["component"].values.tolist() == ["expquad", "constant"]
    assert found["share"].isnull().all()
    assert found.attrs["dependence"].startswith("joint over components within")


@pytest.mark.parametrize("approximation", ["none", "inducing", "basis"])
def test_the_level_of_a_group_is_one_more_component(approximation):
    """Dense formulas; an inducing point at each row is exact, and basis functions nearly."""
    rng = np.random.default_rng(3)
    rows, new = rng.normal(size=(14, 2)), 0.5 * rng.normal(size=(3, 2))
    groups, asked = np.arange(14) % 4, np.array([0, 2, 9])
    y = rows[:, 0] + np.sin(rows[:, 1]) + 2.0 * (groups == 0)
    chosen = {"none": None, "inducing": bx.Inducing(rows), "basis": bx.HSGP([24, 24], 3.0)}
    options = {"kernel": "expquad + linear", "approximation": chosen[approximation]}
    model = bx.GP(rows, y, groups=groups, scale=False, **options)
    theta = {
        "expquad_lengthscale": [1.0, 1.2], "expquad_amplitude": 1.1, "linear_amplitude": 0.8,
        "sigma": 0.3, "group_amplitude": 0.7,
    }  # fmt: skip
    found = bx.components(
        model, theta, new, groups_new=asked, keep="summary", covariance=True, progressbar=False
    )
    assert list(found["component"].values) == ["expquad", "linear", "group"]

    def parts(left, right, ours, theirs):
        curved = 1.1**2 * oracle.expquad(left, right, np.array([1.0, 1.2]))
        line = 0.8**2 * left @ right.T
        return np.stack([curved, line, 0.7**2 * (ours[:, None] == theirs)])

    C = parts(rows, rows, groups, groups).sum(axis=0) + 0.3**2 * np.eye(14)
    cross = parts(new, rows, asked, groups)
    mean = np.einsum("cmn,n->mc", cross, np.linalg.solve(C, y))
    prior = np.einsum("cmm->mc", parts(new, new, asked, asked))[:, :, None] * np.eye(3)
    cov = prior - np.einsum(
        "cmn,dmn->mcd", cross, np.linalg.solve(C, cross.transpose(0, 2, 1)).transpose(0, 2, 1)
    )
    close = {"none": 1e-9, "inducing": 1e-6, "basis": 4e-3}[approximation]
    assert_allclose(found["component_mean"], mean, atol=close)
    assert_allclose(found["component_cov"], cov, atol=close)
    assert_allclose(found["component_mean"].sum("component"), found["f_mean"], atol=1e-9)
    assert found["completeness_residual_variance"].max() < 1e-9


def test_a_category_is_one_feature_of_components():
    """Its indicators have one name and one axis, with the names of its levels."""
    rng = np.random.default_rng(6)
    X = pd.DataFrame({"a": rng.normal(size=12), "kind": pd.Categorical(list("uvw") * 4)})
    model = bx.interaction_model(bx.GP(X, rng.normal(size=12)), [("a", "kind")])
    theta = {name: np.ones(v.eval().shape) for name, v in model.variables.items()}
    found = bx.components(model, theta, obs=[0, 1, 2], draws=5, **QUIET)
    names = ["ExpQuad(a)", "ExpQuad(kind)", "ExpQuad", "constant"]
    assert found["component"].values.tolist() == names
    assert found["along"].values.tolist() == ["a", "kind", "a", ""]
    assert found["alone"].values.tolist() == [True, True, False, False]
    assert found["feature"].values.tolist() == ["a", "kind"]
    assert found["level"].sel(feature="kind").values.tolist() == ["u", "v", "w"]
    axes = bx.plot_components(found, backend="matplotlib").viz["plot"]
    panel = axes.sel(component="ExpQuad(kind)").item()
    assert [text.get_text() for text in panel.get_xticklabels()] == ["u", "v", "w"]
