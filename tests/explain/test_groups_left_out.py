"""Groups left out together, against deletion in dense NumPy, refits, and Monte Carlo."""

import numpy as np
import pandas as pd
import pytensor.tensor as pt
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from scipy import optimize, special, stats

import bayes_gpx as bx
import oracle

QUIET = {"progressbar": False}
RNG = np.random.default_rng(12)
N = 18
X = RNG.normal(size=(N, 2))
Z = RNG.normal(2.0, 1.0, size=(N, 2))
Y = 10.0 + 4.0 * (np.sin(2 * X[:, 0]) + X[:, 1] + 0.4 * RNG.normal(size=N))
GROUPS = np.array(list("abcabcabcaabbbbbcd"))
NOISY = {"lengthscale": [0.8, 1.3], "amplitude": 3.1, "sigma": 1.4}
SIZED = {"lengthscale": [0.8, 1.3], "amplitude": 1.3}
U = X[:6] + 0.1
LARGE_K = pytest.mark.filterwarnings("ignore:Estimated shape parameter:UserWarning")


def covariance(A, B):
    return 3.1**2 * oracle.expquad(A, B, np.array([0.8, 1.3]))


def dense(kind):
    """Covariance of f at all rows, and of y around it."""
    K = covariance(X, X)
    if kind == "weights":
        return K * (Z @ Z.T), np.diag(1.4**2 + 0.3**2 * (Z**2).sum(axis=1))
    if kind == "inducing points":
        cross = covariance(X, U)
        inducing = covariance(U, U)
        inducing += 1e-10 * np.diag(inducing).mean() * np.eye(6)  # as the package has it
        K = cross @ np.linalg.solve(inducing, cross.T)
    return K, 1.4**2 * np.eye(N)


DENSE = {
    "exact": (bx.GP, {}, NOISY),
    "weights": (bx.GPX, {"Z": Z}, NOISY | {"sigma_w": 0.3}),
    "inducing points": (bx.GP, {"approximation": bx.Inducing(U)}, NOISY),
}


@pytest.mark.parametrize("kind", DENSE)
def test_a_group_is_predicted_as_if_its_rows_were_deleted(kind):
    family, options, theta = DENSE[kind]
    model = family(X, Y, scale=False, **options)
    found = bx.loo_predictions(model, theta, groups=GROUPS, **QUIET)
    (K, noise), unseen = dense(kind), 0.0
    if kind == "inducing points":  # what they do not know of a new row
        unseen = np.diag(covariance(X, X) - K)
    assert list(found["group"].values) == ["a", "b", "c", "d"]
    for label in "abcd":
        own = label == GROUPS
        C = (K + noise)[np.ix_(~own, ~own)]
        cross = K[np.ix_(own, ~own)]
        mean = cross @ np.linalg.solve(C, Y[~own])
        cov = (K + noise)[np.ix_(own, own)] - cross @ np.linalg.solve(C, cross.T)
        cov = cov + np.diag(np.broadcast_to(unseen, N)[own])
        sd = np.sqrt(np.diag(cov))
        joint = stats.multivariate_normal.logpdf(Y[own], mean, cov)
        rtol = 1e-9 if kind != "inducing points" else 1e-6  # inducing values' own jitter
        assert_allclose(found["y_mean"][own], mean, rtol=rtol)
        assert_allclose(found["y_sd"][own], sd, rtol=rtol)
        assert_allclose(found["elpd"][own], stats.norm.logpdf(Y[own], mean, sd), rtol=rtol)
        assert_allclose(found["pit"][own], stats.norm.cdf(Y[own], mean, sd), rtol=rtol)
        assert_allclose(found["elpd_group"].sel(group=label), joint, rtol=rtol)


@pytest.mark.parametrize(
    "approximation",
    [pytest.param(bx.RandomFeatures(12, seed=4), marks=pytest.mark.slow), bx.HSGP([2, 2], 2.0)],
)
def test_joint_densities_are_differences_of_refits(approximation, monkeypatch):
    """Of basis functions, in blocks of whole groups where rows enter by sums.

    Some groups have more rows than there are functions, others fewer.
    """
    from bayes_gpx.draws import each_draw

    monkeypatch.setattr(each_draw, "BLOCK_BYTES", 8 * 4 * 7)

    def made(rows):
        model = bx.GP(X[rows], Y[rows], scale=False, approximation=approximation)
        return model, bx.log_likelihood(model, NOISY, **QUIET)["log_marginal_likelihood"].item()

    # Corners of the data decide where the basis functions of an HSGP lie.
    extreme = np.isin(np.arange(N), [*X.argmin(axis=0), *X.argmax(axis=0)])
    groups = np.where(extreme, "z", GROUPS)
    model, whole = made(np.full(N, True))
    found = bx.loo_predictions(model, NOISY, groups=groups, **QUIET)
    for label in "abc":
        own = label == groups
        others, rest = made(~own)
        assert_allclose(found["elpd_group"].sel(group=label), whole - rest, rtol=1e-8)
        alone = bx.predictions(others, NOISY, X[own], keep="summary", **QUIET)
        assert_allclose(found["y_mean"][own], alone["y_mean"], rtol=1e-8)
        assert_allclose(found["y_sd"][own], alone["y_sd"], rtol=1e-8)


LABELS = np.where(Y > Y.mean(), 1, 0)
COUNTS = RNG.poisson(np.exp((Y - Y.mean()) / Y.std()))


def sigmoid(f, y):
    return -np.logaddexp(0.0, -np.where(y == 1, f, -f))


OTHERS = {
    "bernoulli": (LABELS, sigmoid),
    "poisson": (COUNTS, lambda f, y: y * f - np.exp(f) - special.gammaln(y + 1)),
}


@pytest.mark.parametrize("kind", [pytest.param("bernoulli", marks=pytest.mark.slow), "poisson"])
def test_other_likelihoods_remove_sites_together(kind):
    """Sites at the mode, which a general optimiser finds; joint densities by sampling."""
    y, logp = OTHERS[kind]
    K = 1.3**2 * oracle.expquad(X, X, np.array([0.8, 1.3])) + 1e-12 * np.eye(N)
    slopes = (lambda f: y - special.expit(f)) if kind == "bernoulli" else (lambda f: y - np.exp(f))
    root = np.linalg.cholesky(K)

    def lost(v):
        f = root @ v
        return 0.5 * v @ v - logp(f, y).sum(), v - root.T @ slopes(f)

    f = root @ optimize.minimize(lost, np.zeros(N), jac=True, tol=1e-13).x
    W = special.expit(f) * special.expit(-f) if kind == "bernoulli" else np.exp(f)
    centres = f + slopes(f) / W
    model = bx.GP(X, y, likelihood=kind, scale=False)
    found = bx.loo_predictions(model, SIZED, groups=GROUPS, seed=1, **QUIET)
    rng = np.random.default_rng(3)
    for label in "abcd":
        own = label == GROUPS
        C = (K + np.diag(1.0 / W))[np.ix_(~own, ~own)]
        gain = np.linalg.solve(C, K[np.ix_(~own, own)]).T
        mean = gain @ centres[~own]
        cov = K[np.ix_(own, own)] - gain @ K[np.ix_(~own, own)]
        draws = rng.multivariate_normal(mean, cov, size=100_000)
        density = np.exp(logp(draws, y[own]))
        elpd, error = np.log(density.mean(axis=0)), density.std(axis=0) / density.mean(axis=0)
        assert (np.abs(found["elpd"][own] - elpd) < 5 * error / np.sqrt(1e5)).all()
        together = np.exp(logp(draws, y[own]).sum(axis=1))
        joint = np.log(together.mean())
        error = 5 * together.std() / together.mean() / np.sqrt(1e5)
        near = 0.05 * own.sum()  # Laplace's approximation of the integral
        assert abs(found["elpd_group"].sel(group=label) - joint) < error + near
        at = f[own] - mean
        laplace = logp(f[own], y[own]).sum() - 0.5 * at @ np.linalg.solve(cov, at)
        laplace -= 0.5 * np.linalg.slogdet(np.eye(own.sum()) + cov * W[own])[1]
        if own.sum() > 1:  # a single row has no approximation
            assert_allclose(found["elpd_group"].sel(group=label), laplace, rtol=1e-6)


CLASSES = np.digitize(Y, np.quantile(Y, [0.35, 0.7]))


@pytest.mark.parametrize("correlation", [0, 1])
def test_classes_remove_the_sites_of_all_of_them_together(correlation):
    """Natural parameters of the joint mode less those of a group; terms by sampling."""
    loadings = np.array([[0.9], [-0.4], [0.6]])
    shared = 1.3**2 * np.eye(3) + correlation * loadings @ loadings.T
    theta = SIZED | ({"loading": loadings} if correlation else {})
    K = np.kron(oracle.expquad(X, X, np.array([0.8, 1.3])), shared)
    K += 1e-10 * np.eye(3 * N)
    hot = np.eye(3)[CLASSES]

    def lost(f):
        at = f.reshape((N, 3))
        slope = hot - special.softmax(at, axis=1)
        gain = (special.log_softmax(at, axis=1) * hot).sum()
        return 0.5 * f @ np.linalg.solve(K, f) - gain, np.linalg.solve(K, f) - slope.ravel()

    f = optimize.minimize(lost, np.zeros(3 * N), jac=True, method="BFGS", tol=1e-9).x
    p = special.softmax(f.reshape((N, 3)), axis=1)
    W = np.zeros((N, 3, N, 3))
    W[np.arange(N), :, np.arange(N)] = p[:, :, None] * np.eye(3) - p[:, :, None] * p[:, None]
    W, pull = W.reshape((3 * N, 3 * N)), (hot - p).ravel()
    model = bx.GP(X, CLASSES, likelihood="categorical", correlation=correlation, scale=False)
    found = bx.loo_predictions(model, theta, groups=GROUPS, seed=1, **QUIET)
    rng = np.random.default_rng(3)
    for label in "abcd":
        own = np.repeat(label == GROUPS, 3)
        sites = W * ~own
        cov = np.linalg.inv(np.linalg.inv(K) + sites)
        mean = (cov @ np.where(own, 0.0, W @ f + pull))[own]
        cov, at = cov[np.ix_(own, own)], f[own]
        labels = CLASSES[label == GROUPS]
        draws = rng.multivariate_normal(mean, cov, size=50_000).reshape((-1, len(labels), 3))
        density = special.softmax(draws, axis=2)[:, np.arange(len(labels)), labels]
        # The terms of classes are sums over 128 quasi-random points.
        assert_allclose(found["elpd"][label == GROUPS], np.log(density.mean(axis=0)), atol=0.05)
        joint = (special.log_softmax(at.reshape((-1, 3)), axis=1) * hot[label == GROUPS]).sum()
        joint -= 0.5 * (at - mean) @ np.linalg.solve(cov, at - mean)
        joint -= 0.5 * np.linalg.slogdet(np.eye(own.sum()) + cov @ W[np.ix_(own, own)])[1]
        if len(labels) > 1:
            assert_allclose(found["elpd_group"].sel(group=label), joint, rtol=1e-5)


def through_inducing(points):
    """Designs (n, M) of inducing values at these points, and the variances that they leave."""
    inducing = 1.3**2 * oracle.expquad(points, points, SIZED["lengthscale"])
    inducing += 1.3**2 * 1e-10 * np.eye(len(points))
    cross = 1.3**2 * oracle.expquad(X, points, SIZED["lengthscale"])
    F = np.linalg.solve(np.linalg.cholesky(inducing), cross.T).T
    return F, np.maximum(1.3**2 - (F**2).sum(axis=1), 0.0)


def alone_as_groups(model, theta):
    """Terms of rows; those of groups with one row each are the same."""
    alone = bx.loo_predictions(model, theta, groups=np.arange(N), seed=1, **QUIET)
    one = bx.loo_predictions(model, theta, seed=1, **QUIET)
    assert_allclose(alone["elpd_group"], one["elpd"], rtol=1e-6)
    return one["elpd"].values


def test_sites_of_an_approximation_leave_its_natural_parameters():
    """Of sites that have negative precisions.

    The sites follow from a row's mean and variance by the likelihood's expectations; the posterior
    that they lead to in the inducing values has these means and variances again.
    """
    y, theta = (Y - Y.mean()) / Y.std(), SIZED | {"sigma": 0.1, "nu": 2.0}
    model = bx.GP(X, y, likelihood="student_t", approximation=bx.Inducing(U), scale=False)
    rows = bx.predictions(model, theta, on="latent", keep="summary", **QUIET)
    mean, known = rows["f_mean"].values, rows["f_sd"].values ** 2
    F, rest = through_inducing(U)
    own = {name: pt.as_tensor(value) for name, value in theta.items()}
    expected = model.specification.observation.expected_log
    told = expected(*map(pt.as_tensor, (mean, np.sqrt(known), y)), own, pt.ones(N))
    logp, slope, tau = (v.eval() for v in told)
    assert (tau < 0.0).any()
    P = np.eye(6) + (F * tau[:, None]).T @ F
    cov = np.linalg.inv(P)
    assert_allclose((F @ cov * F).sum(axis=1) + rest, known, rtol=1e-5)
    assert_allclose(F @ cov @ F.T @ (slope + tau * mean), mean, rtol=1e-5, atol=1e-6)
    found = bx.loo_predictions(model, theta, groups=GROUPS, seed=1, **QUIET)
    height = logp + 0.5 * tau * (known - rest)
    for label in "abcd":
        own, rows = label == GROUPS, F[label == GROUPS]
        cavity = np.linalg.inv(P - (rows * tau[own][:, None]).T @ rows)
        S = rows @ cavity @ rows.T
        shift = S @ slope[own]
        center, spread = mean[own] - shift, np.diag(S) + rest[own]
        total = height[own].sum() - 0.5 * slope[own] @ shift
        total += 0.5 * np.linalg.slogdet(cov @ np.linalg.inv(cavity))[1]
        if own.sum() > 1:
            assert_allclose(found["elpd_group"].sel(group=label), total, rtol=1e-5)
        assert_allclose(found["y_mean"][own], center, rtol=1e-5)
        e = np.linspace(-9.0, 9.0, 20_001)
        f = center[:, None] + np.sqrt(spread)[:, None] * e
        density = np.trapezoid(stats.t.pdf(y[own][:, None], 2.0, f, 0.1) * stats.norm.pdf(e), e)
        assert_allclose(found["elpd"][own], np.log(density), rtol=1e-4)
    alone_as_groups(model, theta)


BY_PATIENT = GROUPS[::-1]


@pytest.mark.parametrize("grouped", [False, True])
def test_an_approximation_leaves_the_sites_of_all_classes_together(grouped):
    """Each row's expected information of all classes is taken from their joint precision."""
    theta, options = SIZED | ({"group_amplitude": 0.7} if grouped else {}), {}
    F, rest = through_inducing(U)
    if grouped:
        options["groups"] = BY_PATIENT
        F = np.hstack([F, 0.7 * (BY_PATIENT[:, None] == list("abcd"))])
    options |= {"likelihood": "categorical", "approximation": bx.Inducing(U), "scale": False}
    model = bx.GP(X, CLASSES, **options)
    rows = bx.predictions(model, theta, on="latent", keep="summary", **QUIET)
    mean, sd = rows["f_mean"].values, rows["f_sd"].values
    likelihood, known = model.specification.observation, sd**2 - rest[:, None]
    two = [pt.as_tensor(v) for v in (mean, sd)]
    told = likelihood.expected_information(*two).eval()
    logp, slope, _ = likelihood.expected_log(*two, pt.as_tensor(CLASSES), {}, pt.ones(N))
    height = logp.eval() + 0.5 * np.einsum("ncc,nc->n", told, known)
    slope, k = slope.eval(), F.shape[1]
    designs = np.einsum("nm,cd->ncdm", F, np.eye(3)).reshape((N, 3, 3 * k))
    P = np.eye(3 * k) + np.einsum("ncm,ncd,ndk->mk", designs, told, designs)
    found = bx.loo_predictions(model, theta, groups=GROUPS, seed=1, **QUIET)
    rng = np.random.default_rng(3)
    for label in "abcd":
        own = label == GROUPS
        part = designs[own]
        cavity = P - np.einsum("ncm,ncd,ndk->mk", part, told[own], part)
        shift = np.linalg.solve(cavity, (slope[own, :, None] * part).sum(axis=(0, 1)))
        total = height[own].sum() - 0.5 * (slope[own] * (part @ shift)).sum()
        total += 0.5 * (np.linalg.slogdet(cavity)[1] - np.linalg.slogdet(P)[1])
        if own.sum() > 1:
            assert_allclose(found["elpd_group"].sel(group=label), total, rtol=1e-6)
        cov = part @ np.linalg.inv(cavity) @ part.transpose(0, 2, 1)
        roots = np.linalg.cholesky(cov + rest[own, None, None] * np.eye(3))
        e = rng.normal(size=(50_000, own.sum(), 3))
        f = mean[own] - part @ shift + np.einsum("ncd,snd->snc", roots, e)
        density = special.softmax(f, axis=2)[:, np.arange(own.sum()), CLASSES[own]].mean(axis=0)
        assert_allclose(found["elpd"][own], np.log(density), atol=0.05)
    alone_as_groups(model, theta)


@pytest.mark.parametrize("grouped", [False, True])
def test_classes_left_out_by_importance_sampling(grouped):
    """Inducing points are all rows. Sites of separate classes would give terms that are too low."""
    theta, F = SIZED, through_inducing(X)[0]
    options = {"approximation": bx.Inducing(X), "likelihood": "categorical", "scale": False}
    if grouped:
        theta, options["groups"] = theta | {"group_amplitude": 0.7}, BY_PATIENT
        F = np.hstack([F, 0.7 * (BY_PATIENT[:, None] == list("abcd"))])
    model, hot = bx.GP(X, CLASSES, **options), np.eye(3)[CLASSES]
    k, rng = F.shape[1], np.random.default_rng(5)

    def lost(v):
        f = F @ v.reshape((k, 3))
        slope = v - (F.T @ (hot - special.softmax(f, axis=1))).ravel()
        return 0.5 * v @ v - (special.log_softmax(f, axis=1) * hot).sum(), slope

    mode = optimize.minimize(lost, np.zeros(3 * k), jac=True, tol=1e-10).x
    p = special.softmax(F @ mode.reshape((k, 3)), axis=1)
    W = p[:, :, None] * np.eye(3) - p[:, :, None] * p[:, None]
    P = np.eye(3 * k) + np.einsum("nm,ncd,nk->mckd", F, W, F).reshape((3 * k, 3 * k))
    e = rng.normal(size=(40_000, 3 * k))
    v = mode + np.linalg.solve(np.linalg.cholesky(P).T, e.T).T
    f = np.einsum("nm,smc->snc", F, v.reshape((-1, k, 3)))
    logp = special.log_softmax(f, axis=2)[:, np.arange(N), CLASSES]
    weights = logp.sum(axis=1) - 0.5 * (v**2 - e**2).sum(axis=1)
    weights -= special.logsumexp(weights)
    assert np.exp(-special.logsumexp(2.0 * weights)) > 5_000
    terms = -special.logsumexp(weights[:, None] - logp, axis=0)
    ours = alone_as_groups(model, theta)
    assert abs(ours - terms).max() < 0.1
    assert abs(ours.sum() - terms.sum()) < 0.3
    found = bx.loo_predictions(model, theta, groups=GROUPS, seed=1, **QUIET)
    for label in "abcd":
        joint = -special.logsumexp(weights - logp[:, label == GROUPS].sum(axis=1))
        assert abs(found["elpd_group"].sel(group=label).item() - joint) < 0.15


@pytest.mark.slow
def test_a_bound_of_a_group_is_near_the_difference_of_bounds():
    """Variational posteriors of random features, with and without the group."""

    def made(rows):
        options = {"likelihood": "bernoulli", "approximation": bx.RandomFeatures(8, seed=4)}
        return bx.GP(X[rows], LABELS[rows], scale=False, **options)

    def bound(model):
        return bx.log_likelihood(model, SIZED, **QUIET)["log_marginal_likelihood"].item()

    model = made(np.full(N, True))
    found = bx.loo_predictions(model, SIZED, groups=GROUPS, seed=1, **QUIET)
    for label in "abc":
        own = label == GROUPS
        others = made(~own)
        drawn = bx.predictions(others, SIZED, X[own], keep="summary", **QUIET)
        assert_allclose(found["probability_mean"][own], drawn["probability_mean"], atol=0.01)
        joint = found["elpd_group"].sel(group=label).item()
        assert abs(joint - (bound(model) - bound(others))) < 0.004 * own.sum()
    alone = bx.loo_predictions(model, SIZED, groups=np.arange(N), seed=1, **QUIET)
    one = bx.loo_predictions(model, SIZED, seed=1, **QUIET)
    assert_allclose(alone["elpd_group"], one["elpd"], rtol=1e-6)
    assert_allclose(alone["probability_mean"], one["probability_mean"], rtol=1e-6)


@pytest.mark.parametrize("likelihood", ["normal", "poisson"])
def test_groups_of_one_row_are_leave_one_out(likelihood):
    model = bx.GP(X, Y if likelihood == "normal" else COUNTS, likelihood=likelihood, scale=False)
    theta = NOISY if likelihood == "normal" else SIZED
    alone = bx.loo_predictions(model, theta, groups=np.arange(N), seed=1, **QUIET)
    found = bx.loo_predictions(model, theta, seed=1, **QUIET)
    for name in found:
        assert_allclose(alone[name], found[name], rtol=1e-6, atol=1e-9, err_msg=name)
    assert_allclose(alone["elpd_group"], found["elpd"], rtol=1e-6)


@pytest.mark.slow
@LARGE_K
@pytest.mark.filterwarnings("ignore:Weights of 6 draws are not smoothed")
def test_weights_are_those_of_the_joint_density():
    """Those of a group are importance ratios 1 / p(y_G | y_-G, theta), smoothed once."""
    model = bx.GP(X, Y)
    idata = model.fit("laplace", draws=60, seed=1, **QUIET)
    found = bx.loo_predictions(model, idata, groups=GROUPS, **QUIET)
    few = bx.loo_predictions(model, idata, groups=GROUPS, num_draws=6, **QUIET)
    posterior = idata["posterior"].to_dataset()
    for label in "abc":
        own = label == GROUPS
        weights = found["log_weights"].values[..., own]
        assert (weights == weights[..., :1]).all()
        assert np.unique(found["pareto_k"][own]).size == 1
        joint = []
        for draw in few["draw"].values:
            at = posterior.sel(chain=0, draw=draw)
            theta = {k: v.values for k, v in at.items() if k in model.hyperparameters}
            one = bx.loo_predictions(model, theta, groups=GROUPS, **QUIET)
            joint.append(one["elpd_group"].sel(group=label).item())
        expected = np.exp(-np.array(joint))
        expected /= expected.sum()
        assert_allclose(np.exp(few["log_weights"].values[0][:, own][:, 0]), expected, rtol=1e-8)
        total = np.log((expected * np.exp(joint)).sum())
        assert_allclose(few["elpd_group"].sel(group=label), total, rtol=1e-8)


def test_units_of_the_response_go_through():
    theta = {"lengthscale": [0.8, 1.3], "amplitude": 1.1, "sigma": 0.4}
    found = bx.loo_predictions(bx.GP(X, Y), theta, groups=GROUPS, seed=1, **QUIET)
    standard = (X - X.mean(0)) / X.std(0), (Y - Y.mean()) / Y.std()
    plain = bx.loo_predictions(bx.GP(*standard, scale=False), theta, groups=GROUPS, seed=1, **QUIET)
    size = np.array([(label == GROUPS).sum() for label in "abcd"])
    assert_allclose(found["elpd_group"], plain["elpd_group"] - size * np.log(Y.std()))


def test_a_column_may_name_the_groups():
    table = pd.DataFrame(X, columns=["u", "v"]).assign(site=pd.Categorical(GROUPS))
    model = bx.GP(table, Y, ard=False)
    theta = {"lengthscale": 1.0, "amplitude": 1.0, "sigma": 0.4}
    by_name = bx.loo_predictions(model, theta, groups="site", seed=1, **QUIET)
    by_value = bx.loo_predictions(model, theta, groups=table["site"], seed=1, **QUIET)
    assert by_name.identical(by_value)


def refused(message, groups, *fitted):
    with pytest.raises(ValueError, match=message):
        bx.loo_predictions(*(fitted or (bx.GP(X, Y, scale=False), NOISY)), groups=groups, **QUIET)


def test_refuses_what_groups_no_rows():
    refused("has 18 rows and groups has 17", GROUPS[1:])
    refused("one label 1", np.ones(N))
    refused(r"groups is missing in 1 rows, first in row 3", [*"abc", None, *"abcaabbbbbcabc"])
    refused("no column 'x2' in the model", "x2")
    named = bx.GP(pd.DataFrame(X, index=[f"row {i}" for i in range(N)]), Y, scale=False)
    moved = pd.Series(GROUPS, index=named.training.X.index[::-1])
    refused("index of groups differs", moved, named, NOISY)


def test_refuses_latent_values_that_were_sampled():
    """The density of a group, given f of the others, is an integral without a closed form."""
    model = bx.GP(X, LABELS, likelihood="bernoulli", scale=False)
    dims = {"y_white": ["obs"], "amplitude": [], "lengthscale": ["feature"]}
    values = {**SIZED, "y_white": RNG.normal(size=N)}
    drawn = {
        name: (["chain", "draw", *own], np.asarray(values[name])[None, None])
        for name, own in dims.items()
    }
    posterior = xr.Dataset(drawn, {"feature": ["x0", "x1"]})
    idata = xr.DataTree.from_dict({"posterior": posterior})
    refused("latent values were sampled", GROUPS, model, idata)
