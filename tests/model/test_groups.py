"""Groups of rows: levels and weight functions of their own, against dense NumPy."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy.stats import multivariate_normal

import bayes_gpx as bx
import oracle

RNG = np.random.default_rng(22)
X = pd.DataFrame(RNG.normal(size=(15, 2)), columns=["age", "dose"])
G = np.array(list("aabbccddaabbccd"))
Y = np.sin(X["age"]) * X["dose"] + (G == "a") - (G == "c") + 0.1 * RNG.normal(size=15)
X_NEW, G_NEW = X.to_numpy()[:5] + 0.2, np.array(["a", "c", "new", "other", "new"])
LENGTHS, AMPLITUDE, OWN, SIGMA, SIGMA_W = np.array([0.9, 1.4]), 1.3, 0.7, 0.3, 0.25
GP_THETA = {"lengthscale": LENGTHS, "amplitude": AMPLITUDE, "group_amplitude": OWN, "sigma": SIGMA}
GPX_THETA = GP_THETA | {"sigma_w": SIGMA_W}
QUIET = {"progressbar": False, "keep": "summary"}
EXACT = {"rtol": 1e-9, "atol": 1e-9}


def same(left, right):
    return (np.asarray(left)[:, None] == np.asarray(right)[None]).astype(float)


def k(left, right):
    return oracle.expquad(np.asarray(left), np.asarray(right), LENGTHS)


def levels(left, groups, right, others):
    """Covariance of f(x) + u_g."""
    return AMPLITUDE**2 * k(left, right) + OWN**2 * same(groups, others)


def weights(left, groups, right, others):
    """Covariance of one weight g(x) + v_g(x)."""
    return (AMPLITUDE**2 + OWN**2 * same(groups, others)) * k(left, right)


def conditioned(prior, cross, C, y=Y):
    """Mean and covariance of what has such a prior and covariance with y, whose own is C."""
    return cross @ np.linalg.solve(C, y), prior - cross @ np.linalg.solve(C, cross.T)


def covariance_of_y():
    return levels(X, G, X, G) + SIGMA**2 * np.eye(15)


def covariance_of_weighed_y():
    z = np.column_stack([X, np.ones(15)])
    own = weights(X, G, X, G) + SIGMA_W**2 * np.eye(15)
    return own * (z @ z.T) + SIGMA**2 * np.eye(15)


@pytest.fixture(scope="module")
def gp():
    return bx.GP(X, Y, groups=G, scale=False)


@pytest.fixture(scope="module")
def gpx():
    return bx.GPX(X, Y, groups=pd.Series(G, X.index), intercept=True, scale=False)


def test_levels_of_known_and_new_groups(gp):
    found = bx.predictions(gp, GP_THETA, X_NEW, groups_new=G_NEW, **QUIET)
    prior, cross = levels(X_NEW, G_NEW, X_NEW, G_NEW), levels(X_NEW, G_NEW, X, G)
    mean, cov = conditioned(prior, cross, covariance_of_y())
    np.testing.assert_allclose(found["f_mean"], mean, **EXACT)
    np.testing.assert_allclose(found["f_sd"], np.sqrt(np.diag(cov)), **EXACT)
    np.testing.assert_allclose(found["y_sd"], np.sqrt(np.diag(cov) + SIGMA**2), **EXACT)
    found = bx.predictions(gp, GP_THETA, obs=[0, 6], **QUIET)
    rows = [0, 6]
    prior = levels(X.loc[rows], G[rows], X.loc[rows], G[rows])
    mean, cov = conditioned(prior, levels(X.loc[rows], G[rows], X, G), covariance_of_y())
    np.testing.assert_allclose(found["f_mean"], mean, **EXACT)
    np.testing.assert_allclose(found["f_sd"], np.sqrt(np.diag(cov)), **EXACT)


def test_rows_of_one_new_group_share_its_level(gp):
    twice = np.repeat(X_NEW[:1], 3, axis=0)
    options = {"joint": True, "seed": 1, "draws": 400, "progressbar": False}
    found = bx.predictions(gp, GP_THETA, twice, groups_new=["e", "e", "h"], **options)
    f = found["f"].values[0]
    np.testing.assert_allclose(f[:, 0], f[:, 1], atol=1e-5)
    # The levels of two new groups are independent; four standard errors of a standard deviation.
    np.testing.assert_allclose((f[:, 2] - f[:, 0]).std(), np.sqrt(2) * OWN, rtol=4 / np.sqrt(800))


def test_slopes_have_no_level_but_know_that_responses_have(gp):
    found = bx.derivatives(gp, GP_THETA, X_NEW, groups_new=G_NEW, **QUIET)
    C = covariance_of_y()
    apart = X_NEW[:, None] - X.to_numpy()[None]
    cross = -(AMPLITUDE**2) * k(X_NEW, X)[..., None] * apart / LENGTHS**2
    for j in range(2):
        mean, cov = conditioned(np.eye(5) * AMPLITUDE**2 / LENGTHS[j] ** 2, cross[..., j], C)
        np.testing.assert_allclose(found["derivative_mean"][:, j], mean, **EXACT)
        np.testing.assert_allclose(found["derivative_sd"][:, j], np.sqrt(np.diag(cov)), **EXACT)
    elsewhere = bx.derivatives(gp, GP_THETA, X_NEW, groups_new=G_NEW[::-1], **QUIET)
    np.testing.assert_allclose(elsewhere["derivative_mean"], found["derivative_mean"], **EXACT)


@pytest.mark.parametrize("verb", [bx.attributions, bx.shapley_values])
def test_attributions_sum_to_differences_within_a_group(gp, verb):
    baseline = np.array([0.1, -0.4])
    found = verb(gp, GP_THETA, X_NEW, groups_new=G_NEW, baseline=baseline, **QUIET)
    start = np.tile(baseline, (5, 1))
    cross = levels(X_NEW, G_NEW, X, G) - levels(start, G_NEW, X, G)
    prior = 2 * AMPLITUDE**2 * np.eye(5) * (1 - k(X_NEW, start))
    mean, cov = conditioned(prior, cross, covariance_of_y())
    np.testing.assert_allclose(found["attribution_mean"].sum("feature"), mean, **EXACT)
    np.testing.assert_allclose(found["difference_sd"], np.sqrt(np.diag(cov)), **EXACT)


def test_weights_of_known_and_new_groups(gpx):
    found = bx.weights(gpx, GPX_THETA, X_NEW, groups_new=G_NEW, covariance=True, **QUIET)
    together = bx.weights(gpx, GPX_THETA, X_NEW, groups_new=G_NEW, joint=True, **QUIET)
    z, C = np.column_stack([X, np.ones(15)]), covariance_of_weighed_y()
    prior = weights(X_NEW, G_NEW, X_NEW, G_NEW) + SIGMA_W**2 * np.eye(5)
    for j in range(3):
        mean, cov = conditioned(prior, weights(X_NEW, G_NEW, X, G) * z[:, j], C)
        np.testing.assert_allclose(found["weight_mean"][:, j], mean, **EXACT)
        np.testing.assert_allclose(found["weight_sd"][:, j], np.sqrt(np.diag(cov)), **EXACT)
        np.testing.assert_allclose(found["weight_cov"][:, j, j], np.diag(cov), **EXACT)
        np.testing.assert_allclose(together["weight_sd"][:, j], found["weight_sd"][:, j], **EXACT)


def test_contributions_of_training_samples_have_their_own_deviations(gpx):
    found = bx.contributions(gpx, GPX_THETA, **QUIET)
    z, C = np.column_stack([X, np.ones(15)]), covariance_of_weighed_y()
    prior = weights(X, G, X, G) + SIGMA_W**2 * np.eye(15)
    for j in range(3):
        mean, cov = conditioned(prior, prior * z[:, j], C)
        sd = np.abs(z[:, j]) * np.sqrt(np.diag(cov))
        np.testing.assert_allclose(found["contribution_mean"][:, j], z[:, j] * mean, **EXACT)
        np.testing.assert_allclose(found["contribution_sd"][:, j], sd, **EXACT)


def test_amplitudes_of_each_feature_have_group_amplitudes():
    model = bx.GPX(X, Y, groups=G, weight_prior="per_feature", scale=False)
    amplitude, own = np.array([1.3, 0.5]), np.array([0.2, 0.9])
    theta = GPX_THETA | {"amplitude": amplitude, "group_amplitude": own}
    found = bx.weights(model, theta, X_NEW, groups_new=G_NEW, smooth=True, **QUIET)
    z, K = X.to_numpy(), k(X, X)
    each = [a**2 + o**2 * same(G, G) for a, o in zip(amplitude, own, strict=True)]
    C = sum(K * part * np.outer(z[:, j], z[:, j]) for j, part in enumerate(each))
    C += np.diag(SIGMA_W**2 * (z**2).sum(axis=1) + SIGMA**2)
    for j in range(2):
        cross = (amplitude[j] ** 2 + own[j] ** 2 * same(G_NEW, G)) * k(X_NEW, X) * z[:, j]
        prior = np.eye(5) * (amplitude[j] ** 2 + own[j] ** 2)
        mean, cov = conditioned(prior, cross, C)
        np.testing.assert_allclose(found["weight_mean"][:, j], mean, **EXACT)
        np.testing.assert_allclose(found["weight_sd"][:, j], np.sqrt(np.diag(cov)), **EXACT)


def test_slopes_of_a_gpx_are_those_of_a_group(gpx):
    """By central differences of the dense posterior, z moving with x."""
    h, C = 1e-3, covariance_of_weighed_y()
    z = np.column_stack([X, np.ones(15)])
    found = bx.derivatives(gpx, GPX_THETA, X_NEW, groups_new=G_NEW, **QUIET)
    relevance = bx.relevance(gpx, GPX_THETA, X_NEW, groups_new=G_NEW, progressbar=False)
    for j in range(2):
        ends = [X_NEW + side * h * np.eye(2)[j] for side in (1, -1, 0)]
        rows = np.vstack(ends)
        groups, z_rows = np.tile(G_NEW, 3), np.column_stack([rows, np.ones(15)])
        prior = weights(rows, groups, rows, groups) * (z_rows @ z_rows.T)
        mean, cov = conditioned(prior, weights(rows, groups, X, G) * (z_rows @ z.T), C)
        step = (np.eye(5, 15) - np.eye(5, 15, 5)) / (2 * h)
        sd = np.sqrt(np.diag(step @ cov @ step.T))
        # The next term of the difference is h^2 / 6 times a third derivative.
        np.testing.assert_allclose(found["derivative_mean"][:, j], step @ mean, atol=2e-5)
        np.testing.assert_allclose(found["derivative_sd"][:, j], sd, rtol=2e-5)
        noisy = np.diag(cov) + SIGMA**2 + SIGMA_W**2 * (z_rows**2).sum(axis=1)
        slope = step @ noisy
        kl = np.sqrt((step @ mean) ** 2 / noisy[10:] + slope**2 / (2 * noisy[10:] ** 2))
        np.testing.assert_allclose(relevance["relevance"].values[0, 0, :, j], kl, rtol=1e-4)


@pytest.mark.parametrize(
    ("kind", "theta", "C"),
    [
        (bx.GP, GP_THETA, covariance_of_y()),
        (
            lambda *given, **options: bx.GPX(*given, intercept=True, **options),
            GPX_THETA,
            covariance_of_weighed_y(),
        ),
    ],
)
def test_density_of_the_data_and_groups_left_out(kind, theta, C):
    model = kind(X, Y, groups=G, scale=False, priors=theta)
    density = multivariate_normal(np.zeros(15), C).logpdf(Y)
    found = bx.log_likelihood(model, {}, progressbar=False)["log_marginal_likelihood"]
    np.testing.assert_allclose(found.item(), density, rtol=1e-9)
    mean, sd = np.zeros(15), np.zeros(15)
    for group in "abcd":
        out = group == G
        found = conditioned(C[out][:, out], C[out][:, ~out], C[~out][:, ~out], Y[~out])
        mean[out], sd[out] = found[0], np.sqrt(np.diag(found[1]))
    left = bx.loo_predictions(model, {}, groups=G, progressbar=False)
    np.testing.assert_allclose(left["y_mean"], mean, **EXACT)
    np.testing.assert_allclose(left["y_sd"], sd, **EXACT)


@pytest.mark.parametrize(("kind", "theta"), [(bx.GP, GP_THETA), (bx.GPX, GPX_THETA)])
def test_without_amplitude_there_are_no_groups(kind, theta):
    plain = {name: value for name, value in theta.items() if name != "group_amplitude"}
    model, without = kind(X, Y, groups=G), kind(X, Y)
    found = bx.predictions(
        model, plain | {"group_amplitude": 0.0}, X_NEW, groups_new=G_NEW, **QUIET
    )
    expected = bx.predictions(without, plain, X_NEW, **QUIET)
    for name in ("f_mean", "f_sd", "y_sd"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-10)


def test_a_group_for_each_row_is_noise():
    noisy = {name: value for name, value in GP_THETA.items() if name != "group_amplitude"}
    noisy["sigma"] = np.hypot(SIGMA, OWN)
    found = bx.predictions(
        bx.GP(X, Y, groups=np.arange(15)), GP_THETA, X_NEW, groups_new=np.arange(20, 25), **QUIET
    )
    expected = bx.predictions(bx.GP(X, Y), noisy, X_NEW, **QUIET)
    for name in ("y_mean", "y_sd"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-9)


def test_labels_by_a_kernel_of_indicators():
    """a^2 [g = g'] is a linear kernel of indicators of groups, which a function can be."""
    y = np.digitize(Y, [-0.5, 0.5])
    theta = {name: value for name, value in GP_THETA.items() if name != "sigma"}
    model = bx.GP(X, y, groups=G, likelihood="categorical", scale=False)
    found = bx.predictions(model, theta, X_NEW, groups_new=G_NEW, **QUIET)

    def kernel(d):
        smooth = AMPLITUDE**2 * pm.gp.cov.ExpQuad(d, ls=LENGTHS, active_dims=[0, 1])
        return smooth + OWN**2 * pm.gp.cov.Linear(d, c=0.0, active_dims=range(2, d))

    names = [*"abcd", "new", "other"]
    held, new = np.column_stack([X, same(G, names)]), np.column_stack([X_NEW, same(G_NEW, names)])
    other = bx.GP(held, y, kernel=kernel, likelihood="categorical", scale=False)
    expected = bx.predictions(other, {}, new, **QUIET)
    for variable in ("f_mean", "f_sd", "probability_mean"):
        np.testing.assert_allclose(found[variable], expected[variable], rtol=1e-7, atol=1e-9)


def test_groups_are_fitted_saved_and_loaded(tmp_path):
    def prior(name):
        return pm.HalfNormal(name, 0.5)

    model = bx.GPX(X, Y, groups=G, priors={"group_amplitude": prior})
    idata = model.fit("map", progressbar=False)
    assert "group_amplitude" in idata["posterior"]
    bx.save(model, idata, tmp_path / "fit.nc")
    loaded, again = bx.load(tmp_path / "fit.nc", priors=model.priors)
    found = bx.predictions(model, idata, X_NEW, groups_new=G_NEW, **QUIET)
    expected = bx.predictions(loaded, again, X_NEW, groups_new=G_NEW, **QUIET)
    np.testing.assert_array_equal(found["f_mean"], expected["f_mean"])
    assert "4, each with weight functions of its own" in repr(loaded)
    other = bx.GPX(X, Y, groups=G[::-1])
    with pytest.raises(ValueError, match="another model"):
        bx.predictions(other, idata, **QUIET)


def test_rows_in_parts_keep_their_groups(gp):
    labels = pd.Series(G_NEW)
    expected = bx.predictions(gp, GP_THETA, X_NEW, groups_new=labels, **QUIET)
    with ThreadPoolExecutor(1) as executor:
        found = bx.predictions(
            gp, GP_THETA, X_NEW, groups_new=labels, executor=executor, keep="summary"
        )
    np.testing.assert_array_equal(found["f_mean"], expected["f_mean"])


def test_verbs_that_move_x_hold_the_group(gpx):
    """A comparison is the difference of two predictions, in the group of each row."""
    options = {"groups_new": G_NEW, **QUIET}
    found = bx.comparisons(gpx, GPX_THETA, X_NEW, variables={"age": (0.0, 1.0)}, **options)
    ends = []
    for value in (0.0, 1.0):
        moved = X_NEW.copy()
        moved[:, 0] = value
        ends.append(bx.predictions(gpx, GPX_THETA, moved, **options)["f_mean"].values)
    np.testing.assert_allclose(found["comparison_mean"][:, 0], ends[1] - ends[0], atol=1e-9)
    functions = bx.sample_functions(gpx, GPX_THETA, draws=5, seed=1, progressbar=False)
    assert functions.predictions(X_NEW, groups_new=G_NEW)["f"].shape == (1, 5, 5)
    by_mean = bx.relevance(
        gpx, GPX_THETA, X_NEW, groups_new=G_NEW, method="finite_difference", progressbar=False
    )
    exact = bx.relevance(gpx, GPX_THETA, X_NEW, groups_new=G_NEW, progressbar=False)
    np.testing.assert_allclose(by_mean["relevance"], exact["relevance"], rtol=0.05)


def test_labels_are_compared_as_text():
    numbers = np.array([3, 3, 5, 5, 3] * 3)
    model = bx.GP(X, Y, groups=numbers)
    assert model.training.groups.labels == ("3", "5")
    found = model.training.read_groups([3.0, 5.0, 7.5], model.training.X.rows(slice(3)))
    assert found.codes.tolist() == [0, 1, 2]


@pytest.mark.parametrize("obs", [None, [1, 4]])
def test_features_are_taken_away_within_the_group(gp, obs):
    options = {"baseline": "mean", **QUIET}
    for rows in ({}, {"X_new": X_NEW, "groups_new": G_NEW}):
        shares = bx.attributions(gp, GP_THETA, **rows, obs=obs, **options)
        lost = bx.metrics.sufficiency(gp, GP_THETA, shares, **rows, kept=[0, 2], progressbar=False)
        # All features at the baseline: what is lost is the difference that attributions sum to.
        np.testing.assert_allclose(lost.sel(kept=0), shares["difference_mean"], atol=1e-9)
        np.testing.assert_allclose(lost.sel(kept=2), 0.0, atol=1e-9)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ("ward", "the text 'ward'"),
        (G[:4], "X has 15 rows and groups has 4"),
        (np.repeat("a", 15), "the one label 'a'"),
        ([None, *G[1:]], "no label at row 0"),
        (pd.Series(G, X.index[::-1]), "The index of groups differs"),
    ],
)
def test_unusable_groups_are_refused(groups, message):
    with pytest.raises(ValueError, match=message):
        bx.GP(X, Y, groups=groups)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (bx.GPX, {"weight_prior": "horseshoe"}, "weight_prior='shared'"),
        (bx.GPX, {"representation": "hierarchy"}, "representation='collapsed'"),
        (bx.GPX, {"kernel": lambda d: pm.gp.cov.ExpQuad(d, 1.0)}, "a kernel by its name"),
    ],
)
def test_models_that_cannot_have_groups_say_so(kind, options, message):
    with pytest.raises(ValueError, match=message):
        kind(X, Y, groups=G, **options)


def test_new_rows_need_groups_where_the_model_has_them(gp):
    without = bx.GP(X, Y)
    with pytest.raises(ValueError, match="pass groups_new"):
        bx.predictions(gp, GP_THETA, X_NEW)
    with pytest.raises(ValueError, match="without X_new"):
        bx.predictions(gp, GP_THETA, groups_new=G_NEW)
    with pytest.raises(ValueError, match="this model has no groups"):
        bx.predictions(without, GP_THETA, X_NEW, groups_new=G_NEW)
    with pytest.raises(ValueError, match="a model without groups"):
        bx.project(gp, GP_THETA)
    with pytest.raises(ValueError, match="sobol_first, which needs a model without groups"):
        bx.importances(gp, GP_THETA, measures=["sobol_first"], progressbar=False)


def test_slopes_of_a_level_are_those_of_the_function(gp):
    """A level has no slope, so its random functions have those of the function without it."""
    options = {"measures": ["mean_absolute_derivative"], "draws": 50, "seed": 1}
    held = bx.importances(gp, GP_THETA, X_NEW, groups_new=G_NEW, progressbar=False, **options)
    moved = bx.importances(
        gp, GP_THETA, X_NEW, groups_new=list("dbnac"), progressbar=False, **options
    )
    np.testing.assert_allclose(
        held["mean_absolute_derivative"], moved["mean_absolute_derivative"], rtol=1e-10
    )
