"""Effects of a treatment are linear in f: exact by row, on average, among treated, in groups."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx.explain.treatment_effects import _robustness, _robustness_value
from known_draws import known, scattered
from oracle import expquad

QUIET = {"progressbar": False}
N = 24
THETA = {"lengthscale": np.array([1.3, 0.9, 2.0]), "amplitude": 1.1, "sigma": 0.3}
OF_WEIGHTS = {"lengthscale": np.array([1.3, 0.9]), "amplitude": 0.8, "sigma": 0.3}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(N, 2)), columns=["a", "b"], index=range(5, 5 + N))
    treated = (rng.uniform(size=N) < 1 / (1 + np.exp(-X["a"]))).astype(float).rename("drug")
    y = X["b"] + treated * (1 + X["a"]) + 0.2 * rng.normal(size=N)
    return X, treated, y.rename("y"), np.where(X["b"] > 0, "high", "low")


def mixture(moments):
    """Mean and covariance of equally weighed normals (mean, covariance)."""
    means, covs = (np.array(part) for part in zip(*moments, strict=True))
    return means.mean(0), covs.mean(0) + np.cov(means.T, bias=True).reshape(covs.shape[1:])


def standardised(values):
    return (values - values.mean(0)) / values.std(0)


def conditioned(K, K_u, K_L, y, sigma):
    """Mean and covariance of quantities with the prior covariance K_L, K_u with f at the rows."""
    A = np.linalg.solve(K + sigma**2 * np.eye(len(y)), K_u.T)
    return A.T @ y, K_L - K_u @ A


def gp_effects(data, thetas):
    """Effects of a GP, with the covariance of all rows: differences of f at both arms."""
    X, treated, y, _ = data
    rows = np.column_stack([X, treated])
    s, y_scaled = rows.std(0), standardised(y.to_numpy())
    scaled = standardised(rows)
    arms = [(np.column_stack([X, np.full(N, t)]) - rows.mean(0)) / s for t in (1.0, 0.0)]
    every = np.concatenate(arms)
    L = np.hstack([np.eye(N), -np.eye(N)])
    moments = []
    for theta in thetas:
        K, K_u, K_all = (
            theta["amplitude"] ** 2 * expquad(A, B, theta["lengthscale"])
            for A, B in ((scaled, scaled), (every, scaled), (every, every))
        )
        mean, cov = conditioned(K, L @ K_u, L @ K_all @ L.T, y_scaled, theta["sigma"])
        moments.append((y.std(ddof=0) * mean, y.std(ddof=0) ** 2 * cov))
    return mixture(moments)


def gpx_effects(data, thetas):
    """Effects of a GPX: the weight of the treatment, with the covariance of all rows."""
    X, treated, y, _ = data
    Z = np.column_stack([standardised(treated.to_numpy()), np.ones(N)])
    scaled, y_scaled = standardised(X.to_numpy()), standardised(y.to_numpy())
    unit, moments = y.std(ddof=0) / treated.std(ddof=0), []
    for theta in thetas:
        k = theta["amplitude"] ** 2 * expquad(scaled, scaled, theta["lengthscale"])
        mean, cov = conditioned(k * (Z @ Z.T), k * Z[:, 0], k, y_scaled, theta["sigma"])
        moments.append((unit * mean, unit**2 * cov))
    return mixture(moments)


def models(data, family):
    """A model, hyperparameters of several draws, and the oracle of its effects."""
    X, treated, y, _ = data
    if family == "GP":
        return bx.GP(X.assign(drug=treated), y), scattered(THETA, 3), gp_effects
    model = bx.GPX(X, y, treated.to_frame(), intercept=True, priors={"sigma_w": 0})
    return model, scattered(OF_WEIGHTS, 3), gpx_effects


def fit_of(model, thetas):
    return known(model, [{**theta, "sigma_w": 0.0} for theta in thetas])


@pytest.mark.parametrize("family", ["GP", "GPX"])
def test_effects_and_their_averages_are_exact(data, family):
    """Rows, all rows, treated rows and groups, with covariance, over hyperparameter draws."""
    _, treated, _, labels = data
    model, thetas, oracle = models(data, family)
    fit, told = fit_of(model, thetas), {"treatment": "drug", "keep": "summary", **QUIET}
    mean, cov = oracle(data, thetas)
    found = bx.treatment_effects(model, fit, **told)
    assert_allclose(found["effect_mean"], mean, rtol=1e-9)
    assert_allclose(found["effect_sd"], np.sqrt(np.diag(cov)), rtol=1e-9)
    for name, own in (("ate", np.ones(N)), ("att", treated.to_numpy())):
        w = own / own.sum()
        assert_allclose(found[f"{name}_mean"], w @ mean, rtol=1e-9)
        assert_allclose(found[f"{name}_sd"], np.sqrt(w @ cov @ w), rtol=1e-9)
    by = bx.treatment_effects(model, fit, by=labels, covariance=True, **told)
    W = np.array([(labels == group) / (labels == group).sum() for group in ("high", "low")])
    assert by["by"].values.tolist() == by["by_bis"].values.tolist() == ["high", "low"]
    assert_allclose(by["effect_mean"], W @ mean, rtol=1e-9)
    assert_allclose(by["effect_cov"], W @ cov @ W.T, rtol=1e-9)
    xr.testing.assert_allclose(by["att_sd"], found["att_sd"], rtol=1e-12)
    assert found.attrs["contrast"] == "drug 0 → 1"


@pytest.mark.parametrize("family", ["GP", "GPX"])
def test_overlap_is_the_variance_that_data_remove_of_the_lesser_arm(data, family):
    """Against dense conditioning; far from all rows nothing is removed, and none has support."""
    X, treated, y, _ = data
    model, (theta, *_), _ = models(data, family)
    rows = pd.concat([X, pd.DataFrame({"a": [50.0], "b": [50.0]}, index=[99])])
    Z = pd.DataFrame({"drug": [*treated, 1.0]}, index=rows.index)
    asked = (rows.join(Z),) if family == "GP" else (rows, Z)
    with pytest.warns(bx.ExtrapolationWarning):
        found = bx.treatment_effects(
            model, fit_of(model, [theta]), *asked, treatment="drug", keep="summary", **QUIET
        )
    own, new = X.to_numpy(), rows.to_numpy()
    left = []
    for t in (0.0, 1.0):
        if family == "GP":
            own, new = np.column_stack([X, treated]), np.column_stack([rows, np.full(N + 1, t)])
            z = z_new = np.array([[1.0]])
        else:
            units = treated.mean(), treated.std(ddof=0)
            z = np.column_stack([standardised(treated.to_numpy()), np.ones(N)])
            z_new = np.array([[(t - units[0]) / units[1], 1.0]])
        a, b = ((rows - own.mean(0)) / own.std(0) for rows in (own, new))
        k = theta["amplitude"] ** 2 * expquad(a, a, theta["lengthscale"]) * (z @ z.T)
        k_new = theta["amplitude"] ** 2 * expquad(b, a, theta["lengthscale"]) * (z_new @ z.T)
        prior = theta["amplitude"] ** 2 * (z_new @ z_new.T).item()
        removed = np.linalg.solve(k + theta["sigma"] ** 2 * np.eye(N), k_new.T)
        left.append(1.0 - np.einsum("ij,ji->i", k_new, removed) / prior)
    assert_allclose(found["overlap"], 1.0 - np.max(left, axis=0), atol=1e-10)
    assert_allclose(found["overlap"].values[-1], 0.0, atol=1e-12)
    assert not found["supported"].values[-1] and found["supported"].values[:N].any()
    assert (found["supported"].values == (found["overlap"].values >= 0.5)).all()


def test_rows_of_unusual_propensity_lack_support(data):
    X, treated, y, _ = data
    propensity = np.linspace(0.02, 0.98, N)
    rows = X.assign(propensity=propensity, drug=treated)
    theta = THETA | {"lengthscale": np.full(4, 30.0)}
    found = bx.treatment_effects(bx.GP(rows, y), theta, treatment="drug", keep="summary", **QUIET)
    assert (found["overlap"] > 0.9).all()
    usual = (propensity >= 0.1) & (propensity <= 0.9)
    assert (found["supported"].values == usual).all()


def test_draws_of_averages_belong_to_the_rows_if_joint(data):
    """The mean of the rows' effects, draw by draw; and draws have the exact moments."""
    model, thetas, _ = models(data, "GP")
    treated = data[1].to_numpy() > 0
    options = {"treatment": "drug", "seed": 1, "draws": 4000, **QUIET}
    found = bx.treatment_effects(model, thetas[0], joint=True, **options)
    assert_allclose(found["ate"], found["effect"].mean("obs"), rtol=1e-12)
    assert_allclose(found["att"], found["effect"].values[..., treated].mean(-1), rtol=1e-12)
    alone = bx.treatment_effects(model, thetas[0], **options)
    for each in (found, alone):
        for name in ("ate", "att", "effect"):
            draws, sd = each[name].squeeze("chain"), each[f"{name}_sd"]
            # four standard errors of a mean and of an sd of 4000 normals
            assert (abs(draws.mean("draw") - each[f"{name}_mean"]) < 4.5 * sd / 4000**0.5).all()
            assert (abs(draws.std("draw") / sd - 1.0) < 4.5 / 8000**0.5).all()


def test_numbers_have_an_effect_per_unit(data):
    """Of a GP the derivative, of a GPX the weight; thousandths have a thousandth of the effect."""
    X, _, y, _ = data
    dose = pd.Series(np.random.default_rng(7).uniform(0, 3, N), X.index, name="dose")
    told = {"treatment": "dose", "keep": "summary", **QUIET}
    model = bx.GP(X.assign(dose=dose), y)
    found = bx.treatment_effects(model, THETA, **told)
    slope = bx.derivatives(model, THETA, features=["dose"], keep="summary", **QUIET)
    assert_allclose(found["effect_mean"], slope["derivative_mean"][:, 0], rtol=1e-12)
    assert_allclose(found["effect_sd"], slope["derivative_sd"][:, 0], rtol=1e-12)
    average = bx.derivatives(model, THETA, features=["dose"], by=True, keep="summary", **QUIET)
    assert_allclose(found["ate_sd"], average["derivative_sd"].item(), rtol=1e-12)
    assert found.attrs["units"] == "y per unit of dose" and "att_mean" not in found
    finer = bx.treatment_effects(bx.GP(X.assign(dose=1000 * dose), y), THETA, **told)
    assert_allclose(1000 * finer["ate_mean"], found["ate_mean"], rtol=1e-9)
    weighed = bx.GPX(X, y, dose.to_frame(), intercept=True, priors={"sigma_w": 0})
    found = bx.treatment_effects(weighed, OF_WEIGHTS, **told)
    weight = bx.weights(
        weighed,
        OF_WEIGHTS,
        smooth=True,
        units="original",
        features=["dose"],
        keep="summary",
        **QUIET,
    )
    assert_allclose(found["effect_mean"], weight["weight_mean"][:, 0], rtol=1e-9)
    assert_allclose(found["effect_sd"], weight["weight_sd"][:, 0], rtol=1e-9)


@pytest.mark.parametrize("family", ["GP", "GPX of X", "GPX"])
def test_categories_have_the_effect_of_their_second_level(data, family):
    """In X against comparisons; in Z against the difference of two weights."""
    X, treated, y, _ = data
    drug = pd.Series(pd.Categorical.from_codes(treated.astype(int), ["no", "yes"]), X.index)
    told = {"treatment": "drug", "keep": "summary", **QUIET}
    theta = {"lengthscale": np.array([1.3, 0.9]), "amplitude": 0.9, "sigma": 0.3}
    if family == "GPX":
        model = bx.GPX(X, y, drug.to_frame("drug"), priors={"sigma_w": 0})
        weight = bx.weights(model, theta, smooth=True, units="original", covariance=True, **QUIET)
        difference = np.array([-1.0, 1.0, 0.0])
        mean = weight["weight_mean"].values @ difference
        sd = np.sqrt(difference @ weight["weight_cov"].values @ difference)
    else:
        rows, both = X.assign(drug=drug), {"lengthscale": np.array([1.3, 0.9, 2.0, 2.0])}
        more = {} if family == "GP" else {"priors": {"sigma_w": 0}}
        model = (bx.GP if family == "GP" else bx.GPX)(rows, y, **more)
        theta = theta | both
        compared = bx.comparisons(model, theta, variables={"drug": ("no", "yes")}, **QUIET)
        mean, sd = (compared[f"comparison_{part}"].values[:, 0] for part in ("mean", "sd"))
    found = bx.treatment_effects(model, theta, **told)
    assert_allclose(found["effect_mean"], mean, rtol=1e-9, atol=1e-12)
    assert_allclose(found["effect_sd"], sd, rtol=1e-9)
    assert found.attrs["contrast"] == "drug no → yes"


@pytest.mark.parametrize("family", ["GP", "GPX"])
def test_effects_on_a_probability_are_differences_of_probabilities(data, family):
    """Rows against exact means at both arms, within Monte Carlo error; averages by draw."""
    X, treated, y, labels = data
    up = (y > y.median()).to_numpy()
    rows, Z = (X.assign(drug=treated), None) if family == "GP" else (X, treated.to_frame())
    theta = {k: v for k, v in (THETA if family == "GP" else OF_WEIGHTS).items() if k != "sigma"}
    if family == "GP":
        model = bx.GP(rows, up, likelihood="bernoulli")
    else:
        more = {"intercept": True, "priors": {"sigma_w": 0}}
        model = bx.GPX(rows, up, Z, likelihood="bernoulli", **more)
    options = {"draws": 3000, "seed": 1, **QUIET}
    found = bx.treatment_effects(model, theta, treatment="drug", **options)
    ends = []
    for t in (1.0, 0.0):
        asked = (rows.assign(drug=t),) if family == "GP" else (rows, Z.assign(drug=t))
        ends.append(bx.predictions(model, theta, *asked, keep="summary", **QUIET))
    exact = (ends[0] - ends[1])["probability_mean"]
    error = found["effect"].std(["chain", "draw"]).values / 3000**0.5
    assert (abs(found["effect_mean"].values - exact.values) < 4.5 * error).all()
    assert_allclose(found["ate"], found["effect"].mean("obs"), rtol=1e-12)
    assert_allclose(found["ate_sd"], found["ate"].std(), rtol=1e-12)
    by = bx.treatment_effects(model, theta, treatment="drug", by=labels, covariance=True, **options)
    groups = by["effect"].values[0]
    assert_allclose(by["effect_cov"], np.cov(groups.T, bias=True), rtol=1e-9)
    assert_allclose(groups[:, 0], found["effect"].values[0][:, labels == "high"].mean(1), rtol=1e-9)
    assert found.attrs["units"] == by.attrs["units"] != "y"
    assert "robustness_value" not in found
    latent = bx.treatment_effects(
        model, theta, treatment="drug", on="latent", keep="summary", **QUIET
    )
    assert_allclose(latent["effect_mean"], (ends[0] - ends[1])["f_mean"], rtol=1e-8)


def test_a_confounder_as_strong_as_the_robustness_value_explains_the_effect_away():
    """By least squares with a confounder built to have both partial R squared equal to it."""
    rng = np.random.default_rng(2)
    basis = np.linalg.qr(rng.normal(size=(50, 3)))[0]
    d, e, other = basis.T
    y = 0.7 * d + 1.9 * e
    df = 50 - 1
    t = 0.7 / (1.9 / np.sqrt(df))
    value = _robustness_value(t / np.sqrt(df))
    hidden = np.sqrt(value) * d + np.sqrt(value * (1 - value)) * e + (1 - value) * other
    found = np.linalg.lstsq(np.column_stack([d, hidden]), y)[0]
    assert_allclose(found[0], 0.0, atol=1e-12)


def test_a_row_of_weight_two_is_as_robust_as_two_rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=24), "t": np.tile([0, 1], 12)})
    y = X["a"] + 0.2 * X["t"] + 0.3 * rng.normal(size=24)
    weights = np.tile([1, 2, 1], 8)
    copies = np.repeat(np.arange(24), weights)
    theta = {"lengthscale": [1.2, 1.0], "amplitude": 1.0, "sigma": 1.0}
    fixed = {"priors": theta}
    models = bx.GP(X, y, weights=weights, **fixed), bx.GP(X.take(copies), y.take(copies), **fixed)
    weighed, repeated = (
        bx.treatment_effects(m, {}, treatment="t", keep="summary", progressbar=False)
        for m in models
    )
    for name in ("ate_mean", "ate_sd", "robustness_value", "robustness_value_interval"):
        assert_allclose(weighed[name], repeated[name], rtol=1e-8)


def test_robustness_values_of_the_published_example():
    """Darfur, Cinelli and Hazlett (2020), Table 1: 0.097 (0.023), df 783: 13.9% and 7.6%."""
    mean, sd = 0.0973, 0.02326
    bounds = xr.DataArray([mean - 1.963 * sd, mean + 1.963 * sd], dims="ci_bound")
    for sign in (1.0, -1.0):
        found = _robustness(
            {
                "ate_mean": sign * xr.DataArray(mean),
                "ate_sd": sd,
                "ate_interval": np.sort(sign * bounds) + 0 * bounds,
            },
            783,
        )
        assert round(found["robustness_value"].item(), 3) == 0.139
        assert round(found["robustness_value_interval"].item(), 3) == 0.076
    found = _robustness(
        {
            "ate_mean": xr.DataArray(0.1),
            "ate_sd": 1.0,
            "ate_interval": xr.DataArray([-1.5, 1.7], dims="ci_bound"),
        },
        783,
    )
    assert found["robustness_value_interval"].item() == 0.0


def test_a_treatment_may_have_levels_without_rows():
    """The effect is that of the two levels that occur."""
    rng = np.random.default_rng(2)
    x, treated = rng.normal(size=30), np.tile(["no", "yes"], 15)
    y = x + (treated == "yes") + 0.1 * rng.normal(size=30)
    found = {}
    for levels in (["no", "yes"], ["no", "other", "yes"]):
        X = pd.DataFrame({"x": x, "drug": pd.Categorical(treated, levels)})
        theta = {"lengthscale": np.ones(2), "amplitude": 1.0, "sigma": 0.1}
        model = bx.GP(X, y, scale=False)
        found[len(levels)] = bx.treatment_effects(model, theta, treatment="drug", seed=1)
    assert_allclose(found[3]["ate_mean"], found[2]["ate_mean"], rtol=1e-9)
    assert "no → yes" in str(found[3].attrs)


def test_a_permuted_treatment_has_no_effect(data):
    """90% intervals of 40 placebos cover 0 in 31 or more, and the real one is far from 0."""
    rng = np.random.default_rng(11)
    X = pd.DataFrame(rng.normal(size=(80, 2)), columns=["a", "b"])
    drug = (rng.uniform(size=80) < 1 / (1 + np.exp(-X["a"]))).astype(float)
    y = X["a"] + 1.0 * drug + 0.3 * rng.normal(size=80)
    told = {"treatment": "drug", "keep": "summary", **QUIET}
    theta = {"lengthscale": np.array([2.0, 3.0, 2.0]), "amplitude": 1.5, "sigma": 0.3}

    def interval(treated):
        model = bx.GP(X.assign(drug=treated), y)
        return bx.treatment_effects(model, theta, **told)["ate_interval"].values

    low, high = interval(drug)
    assert 0.0 < low < 1.0 < high
    placebos = [interval(rng.permutation(drug)) for _ in range(40)]
    # of 40 intervals of 90%, fewer than 31 cover with a probability of 0.2%
    assert sum(low < 0.0 < high for low, high in placebos) >= 31


def refused(data, case):
    X, treated, y, _ = data
    rows, theta = X.assign(drug=treated), THETA
    if case == "sigma_w is not 0":
        return bx.GPX(X, y, treated.to_frame()), OF_WEIGHTS | {"sigma_w": 0.1}, {}
    if case == "is a column of X and of Z":
        model = bx.GPX(rows, y, treated.to_frame(), priors={"sigma_w": 0})
        return model, theta, {}
    if case == "has 3 different values":
        rows["drug"] = pd.Categorical(np.resize(["a", "b", "c"], N))
        return bx.GP(rows, y), theta | {"lengthscale": np.ones(5)}, {}
    if case == "pass on='latent'":
        model = bx.GP(rows.assign(drug=np.arange(N)), y > 0, likelihood="bernoulli")
        return model, {"lengthscale": np.ones(3), "amplitude": 1.0}, {}
    if case == "covariance":
        return bx.GP(rows, y), theta, {"covariance": True}
    return bx.GP(rows, y), theta, {"treatment": "drag"}


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("sigma_w is not 0", r"priors=\{\"sigma_w\": 0\}"),
        ("is a column of X and of Z", "Leave it out of X"),
        ("has 3 different values", "bx.comparisons"),
        ("pass on='latent'", "Pass on='latent'"),
        ("covariance", "joint=True"),
        ("unknown", "'drag'"),
    ],
)
def test_what_is_refused(data, case, message):
    model, theta, more = refused(data, case)
    with pytest.raises(ValueError, match=message):
        bx.treatment_effects(model, theta, **({"treatment": "drug"} | more), **QUIET)


def build(data, family):
    """A model of each structure, with the treatment in X, or in Z."""
    X, treated, y, _ = data
    rows, label = X.assign(drug=treated), np.digitize(y, [-0.5, 1.0])
    weighed = {"intercept": True, "priors": {"sigma_w": 0}}
    table = pd.DataFrame({"y": y, "z": y - X["a"]})
    return {
        "counts": lambda: bx.GP(rows, label, likelihood="poisson"),
        "classes": lambda: bx.GP(rows, label, likelihood="categorical"),
        "correlated": lambda: bx.GP(rows, label, likelihood="categorical", correlation=1),
        "noise process": lambda: bx.GP(rows, y, likelihood="heteroscedastic_normal"),
        "inducing": lambda: bx.GP(rows, y, approximation=bx.Inducing(8)),
        "outputs": lambda: bx.GP(rows, table, correlation=1),
        "groups": lambda: bx.GP(rows, y, groups=np.arange(N) % 4),
        "GPX of X": lambda: bx.GPX(rows, y, priors={"sigma_w": 0}),
        "GPX of classes": lambda: bx.GPX(
            X, label, treated.to_frame(), likelihood="categorical", **weighed
        ),
    }[family]()


@pytest.mark.slow
@pytest.mark.parametrize(
    "family",
    [
        *("counts", "classes", "correlated", "noise process", "inducing", "outputs", "groups"),
        *("GPX of X", "GPX of classes"),
    ],
)
def test_effects_of_every_structure_are_differences_of_predictions(data, family):
    """Of the latent means at both arms; and no row far away has support."""
    X, treated, _, labels = data
    model = build(data, family)
    sizes = {"factor": 1, "component": 1}
    theta = {
        name: np.full([sizes.get(d) or len(model.pymc.coords[d]) for d in model.dims_of(name)], 1.5)
        for name in model.hyperparameters
        if name not in model.fixed
    }
    far = pd.concat([X, X.iloc[:1] + 60.0]).reset_index(drop=True)
    Z = pd.DataFrame({"drug": [*treated, 1.0]})
    more = {"groups_new": [*np.arange(N) % 4, 0]} if family == "groups" else {}
    told = {"on": "latent", "keep": "summary", **more, **QUIET}

    def rows(drug):
        own = Z if drug is None else Z.assign(drug=drug)
        return (far, own) if family == "GPX of classes" else (far.join(own),)

    with pytest.warns(bx.ExtrapolationWarning):
        found = bx.treatment_effects(model, theta, *rows(None), treatment="drug", **told)
        ends = [bx.predictions(model, theta, *rows(drug), **told)["f_mean"] for drug in (1.0, 0.0)]
    assert_allclose(found["effect_mean"], (ends[0] - ends[1]).values, atol=1e-12)
    assert_allclose(found["ate_mean"], found["effect_mean"].mean("obs"), atol=1e-12)
    assert (found["overlap"] > -1e-9).all() and (found["overlap"] < 1.0).all()
    if family != "groups":  # whose levels are known everywhere
        assert_allclose(found["overlap"].isel(obs=-1), 0.0, atol=1e-9)
    drawn = bx.treatment_effects(
        model, theta, treatment="drug", by=labels, draws=20, seed=1, **QUIET
    )
    assert drawn["effect"].sizes["by"] == 2 and np.isfinite(drawn["effect"]).all()


def test_effects_on_uncorrelated_outputs_are_those_of_separate_models(data):
    """Also where one output lacks some responses, which robustness values count."""
    X, treated, y, _ = data
    rows, gaps = X.assign(drug=treated), np.arange(N) % 6 == 5
    table = pd.DataFrame({"y": y, "z": (y - X["a"]).mask(gaps)})
    both = bx.GP(rows, table, correlation=1, scale=False)
    theta = {name: np.array([value, value]) for name, value in THETA.items()}
    theta |= {"loading": np.zeros((2, 1)), "factor_lengthscale": THETA["lengthscale"][None]}
    told = {"treatment": "drug", "keep": "summary", **QUIET}
    found = bx.treatment_effects(both, theta, **told)
    for name, there in (("y", ~np.zeros(N, bool)), ("z", ~gaps)):
        alone = bx.GP(rows[there], table[name][there], scale=False)
        expected = bx.treatment_effects(alone, THETA, rows, **told)
        own = found.sel(output=name)
        for part in ("ate_mean", "ate_sd", "robustness_value", "robustness_value_interval"):
            assert_allclose(own[part], expected[part], rtol=1e-8)


def test_rows_count_by_their_weights_and_the_direction_is_told(data):
    """Averages of the rows' effects, of all and of the treated; levels in their declared order."""
    X, treated, y, _ = data
    weights = np.linspace(0.5, 1.5, N)
    arm = pd.Categorical(np.where(treated > 0, "drug", "none"), categories=["none", "drug"])
    model = bx.GP(X.assign(arm=arm), y, weights=weights)
    found = bx.treatment_effects(model, THETA, treatment="arm", **QUIET)
    effect, own = found["effect_mean"].values, treated.values * weights
    assert_allclose(found["ate_mean"], weights @ effect / weights.sum())
    assert_allclose(found["att_mean"], own @ effect / own.sum())
    every = bx.treatment_effects(model, THETA, treatment="arm", by=True, **QUIET)
    assert_allclose(every["effect_mean"], [found["ate_mean"]])
    assert "the average effect of arm (arm none → drug) over the rows" in bx.describe(found)
