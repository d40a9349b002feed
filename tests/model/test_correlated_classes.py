"""Models of classes that correlate: against dense NumPy, and by the limit of independent ones."""

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose
from pytensor.compile.mode import Mode
from scipy.special import softmax

import bayes_gpx as bx
import oracle
from bayes_gpx.inference.log_density import Density

RNG = np.random.default_rng(4)
N = 30
X, NEW = RNG.normal(size=(N, 2)), RNG.normal(size=(3, 2))
CODES = np.argmax(
    np.stack([2 * np.sin(1.5 * X[:, 0]), X[:, 1], np.zeros(N)], axis=1) + RNG.gumbel(size=(N, 3)),
    axis=1,
)
LABELS = np.array(["ash", "beech", "cedar"])[CODES]
ALONE = {"lengthscale": [0.9, 1.3], "amplitude": 0.7}
LOADING = np.array([[1.1], [-0.8], [0.2]])
THETA = ALONE | {"loading": LOADING}
ZERO = ALONE | {"loading": 0.0 * LOADING}
B = 0.49 * np.eye(3) + LOADING @ LOADING.T
QUIET = {"progressbar": False}
EXACT = {"rtol": 1e-8, "atol": 1e-9}


def model_of(correlation=1, **options):
    options = {"scale": False, **options}
    return bx.GP(X, LABELS, likelihood="categorical", correlation=correlation, **options)


@pytest.fixture(scope="module")
def model():
    return model_of()


@pytest.fixture(scope="module")
def truth():
    """Weights, and a matrix of what the data take, of all latent values; the evidence."""
    K = np.kron(oracle.expquad(X, X, ALONE["lengthscale"]), B)
    evidence, slope, W, cov = oracle.softmax_laplace(K, CODES, 3)
    return evidence, slope.ravel(), W @ np.linalg.inv(np.eye(len(K)) + K @ W), W, cov


def between(left, right):
    return np.kron(oracle.expquad(left, right, ALONE["lengthscale"]), B)


def test_density_and_predictions_are_those_of_a_dense_newton(model, truth):
    evidence, slope, inside, *_ = truth
    found = bx.log_likelihood(model, THETA, **QUIET)
    assert_allclose(found["log_marginal_likelihood"].item(), evidence, rtol=1e-10)
    found = bx.predictions(model, THETA, NEW, on="latent", keep="summary", **QUIET)
    cross = between(NEW, X)
    cov = between(NEW, NEW) - cross @ inside @ cross.T
    assert found["f_mean"].dims == ("obs", "class")
    assert_allclose(found["f_mean"].values.ravel(), cross @ slope, **EXACT)
    assert_allclose(found["f_sd"].values.ravel(), np.sqrt(np.diag(cov)), **EXACT)
    asked = {"draws": 4000, "seed": 1, **QUIET}
    found = bx.predictions(model, THETA, NEW, **asked)
    joint = bx.predictions(model, THETA, NEW, joint=True, **asked)
    whole = np.linalg.cholesky(cov + 1e-12 * np.eye(9)) @ np.random.default_rng(0).normal(
        size=(9, 400_000)
    )
    p = softmax((cross @ slope + whole.T).reshape((-1, 3, 3)), axis=2)
    for of in (found, joint):
        assert_allclose(of["probability_mean"], p.mean(axis=0), atol=4e-3)
        of_f = np.cov(of["f"].values[0].reshape((4000, 9)).T)
        blocks = slice(None) if of is joint else np.kron(np.eye(3), np.ones((3, 3))) > 0
        assert_allclose(of_f[blocks], cov[blocks], atol=7 * cov.max() / np.sqrt(4000))


def test_slopes_and_attributions_are_those_of_a_dense_newton(model, truth):
    _, slope, inside, *_ = truth
    found = bx.derivatives(model, THETA, NEW, on="latent", keep="summary", **QUIET)
    step = 1e-4
    for j in range(2):
        high, low = NEW + step * np.eye(2)[j], NEW - step * np.eye(2)[j]
        cross = (between(high, X) - between(low, X)) / (2 * step)
        assert_allclose(found["derivative_mean"][:, j].values.ravel(), cross @ slope, atol=1e-6)
        prior = between(high, high) - 2 * between(high, low) + between(low, low)
        variance = np.diag(prior / (4 * step**2) - cross @ inside @ cross.T)
        assert_allclose(found["derivative_sd"][:, j].values.ravel() ** 2, variance, atol=1e-5)
    start = np.tile([0.1, -0.4], (3, 1))
    cross = between(NEW, X) - between(start, X)
    prior = between(NEW, NEW) + between(start, start) - 2 * between(NEW, start)
    variance = np.diag(0.5 * (prior + prior.T) - cross @ inside @ cross.T)
    for verb in (bx.attributions, bx.shapley_values):
        found = verb(model, THETA, NEW, baseline=start[0], on="latent", keep="summary", **QUIET)
        assert found["attribution_mean"].dims == ("obs", "feature", "class")
        assert_allclose(
            found["attribution_mean"].sum("feature").values.ravel(), cross @ slope, **EXACT
        )
        assert_allclose(found["difference_sd"].values.ravel() ** 2, variance, **EXACT)


def test_a_row_is_predicted_without_its_site(model, truth):
    """By random latent values of what is left once a row's site is taken out."""
    _, slope, _, W, cov = truth
    terms = bx.log_likelihood(model, THETA, **QUIET)["log_likelihood"].values.ravel()
    f, e = between(X, X) @ slope, np.random.default_rng(1).normal(size=(200_000, 3))
    for i in range(0, N, 7):
        at = slice(3 * i, 3 * i + 3)
        apart = np.linalg.inv(np.linalg.inv(cov[at, at]) - W[at, at])
        centre = f[at] - apart @ slope[at]
        p = softmax(centre + e @ np.linalg.cholesky(apart).T, axis=1)[:, CODES[i]].mean()
        assert_allclose(terms[i], np.log(p), atol=0.02)


OF_RESPONSE = {"keep": "summary", "seed": 1, **QUIET}
VERBS = {
    bx.predictions: OF_RESPONSE,
    bx.relevance: QUIET,
    bx.attributions: OF_RESPONSE | {"draws": 60, "on": "response"},
    bx.derivatives: OF_RESPONSE | {"draws": 60},
    bx.shapley_values: OF_RESPONSE | {"draws": 60, "on": "response"},
    bx.interactions: QUIET,
}
QUICK = bx.predictions, bx.relevance


@pytest.mark.parametrize(
    "verb",
    [v if v in QUICK else pytest.param(v, marks=pytest.mark.slow) for v in VERBS],
)
def test_classes_that_share_nothing_are_independent(verb):
    """Whatever is computed in closed form; functions are drawn by other random numbers."""
    ours, theirs = (
        verb(model_of(rank), theta, NEW, **VERBS[verb]) for rank, theta in ((1, ZERO), (0, ALONE))
    )
    for name in theirs:
        if verb in QUICK or not name.endswith("_sd"):
            assert_allclose(ours[name], theirs[name], atol=2e-9, err_msg=name)


def test_the_evidence_without_correlation_is_that_of_independent_classes():
    ours, theirs = (
        bx.log_likelihood(model_of(rank), theta, **QUIET) for rank, theta in ((1, ZERO), (0, ALONE))
    )
    for name in ours:
        assert_allclose(ours[name], theirs[name], atol=1e-10)


@pytest.mark.slow
def test_the_response_is_explained_for_classes_that_correlate(model):
    """Probabilities add up to 1, so that what moves them adds up to 0; and to the difference."""
    asked = {"draws": 40, "seed": 1, **QUIET}
    shares = bx.attributions(model, THETA, NEW, **asked)
    assert_allclose(shares["attribution"].sum("class"), 0.0, atol=1e-9)
    assert_allclose(shares["attribution"].sum("feature"), shares["difference"], atol=1e-6)
    ends = [
        bx.predictions(model, THETA, x, keep="summary", **QUIET)["probability_mean"]
        for x in (NEW, [X.mean(axis=0)])
    ]
    expected = ends[0].values - ends[1].values
    assert_allclose(shares["difference_mean"].values, expected, atol=1e-8)
    slopes = bx.derivatives(model, THETA, NEW, **asked)
    step = 1e-4
    for j in range(2):
        high, low = (
            bx.predictions(model, THETA, NEW + sign * step * np.eye(2)[j], **QUIET)
            for sign in (1, -1)
        )
        rate = (high["probability_mean"] - low["probability_mean"]) / (2 * step)
        assert_allclose(slopes["derivative_mean"][:, j], rate, atol=1e-6)


@pytest.mark.slow
def test_functions_are_draws_of_the_posterior_of_classes_that_correlate():
    model, draws = model_of(kernel="expquad + linear", ard=False), 1500
    theta = {
        "expquad_lengthscale": 1.1,
        "expquad_amplitude": 0.7,
        "expquad_loading": LOADING,
        "linear_amplitude": 0.5,
        "linear_loading": LOADING[::-1],
    }
    functions = bx.sample_functions(model, theta, draws=draws, waves=128, seed=0, **QUIET)
    f = functions.predictions(NEW)["f"].values[0]
    exact = bx.predictions(model, theta, NEW, on="latent", draws=4000, seed=3, **QUIET)
    sd = exact["f_sd"].values
    assert_allclose(f.mean(axis=0), exact["f_mean"], atol=5 * sd.max() / np.sqrt(draws))
    assert_allclose(f.std(axis=0), sd, rtol=5 / np.sqrt(2 * draws) + 0.02)
    for at in range(len(NEW)):
        ours, theirs = (np.cov(v[:, at].T) for v in (f, exact["f"].values[0]))
        assert_allclose(ours, theirs, atol=7 * sd[at].max() ** 2 / np.sqrt(draws))
    slopes = functions.derivatives(NEW, on="latent")["derivative"].values[0]
    exact = bx.derivatives(model, theta, NEW, on="latent", keep="summary", **QUIET)
    sd = exact["derivative_sd"].values
    assert_allclose(slopes.mean(0), exact["derivative_mean"], atol=5 * sd.max() / np.sqrt(draws))
    assert_allclose(slopes.std(axis=0), sd, rtol=0.1)


def test_the_density_of_hyperparameters_has_its_gradient(model):
    evaluate = Density(model.objective, jacobian=True).value_and_slope()
    at = 0.1 * np.arange(6) - 0.2
    slope = evaluate(at)[1].copy()
    for k in range(6):
        way = 1e-5 * np.eye(6)[k]
        rate = (evaluate(at + way)[0] - evaluate(at - way)[0]) / 2e-5
        assert_allclose(slope[k], rate, rtol=1e-6, atol=1e-8)


def test_a_fit_tells_how_classes_correlate_and_is_kept(tmp_path):
    model = model_of(ard=False, scale=True)
    idata = model.fit("map", **QUIET)
    drawn = idata["posterior"].to_dataset().squeeze(("chain", "draw"))
    W = drawn["loading"].values
    expected = float(drawn["amplitude"]) ** 2 * np.eye(3) + W @ W.T
    assert drawn["output_covariance"].dims == ("class", "class_bis")
    assert drawn["class_bis"].values.tolist() == ["ash", "beech", "cedar"]
    assert_allclose(drawn["output_covariance"], expected)
    H = np.eye(3) - 1 / 3
    assert_allclose(drawn["output_covariance_centred"], H @ expected @ H, atol=1e-12)
    bx.save(model, idata, tmp_path / "fit.nc")
    loaded, kept = bx.load(tmp_path / "fit.nc")
    asked = {"draws": 10, "seed": 0, **QUIET}
    ours = bx.predictions(model, idata, NEW, **asked)["probability"]
    assert_allclose(bx.predictions(loaded, kept, NEW, **asked)["probability"], ours)
    with pytest.raises(ValueError, match="another model"):
        bx.predictions(model_of(2, ard=False, scale=True), idata, NEW, **asked)
    assert "Functions that classes share" in repr(model)


def test_the_model_in_pymc_draws_labels_and_their_covariance():
    """Of one factor, whose product with itself PyTensor gets wrong; see `squared`."""
    model = model_of().pymc
    variables = [model[name] for name in ("y", "output_covariance", "loading")]
    mode = Mode(linker="py", optimizer="fast_run")
    y, covariance, W = pm.draw(variables, random_seed=1, mode=mode)
    assert y.shape == (N,) and set(y) <= {0, 1, 2}
    own = covariance - W @ W.T
    assert_allclose(own, own[0, 0] * np.eye(3), atol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"approximation": bx.Inducing(5)}, "classes correlate. Use approximation=None"),
        ({"kernel": lambda d: None}, "a kernel by its name"),
        ({"representation": "hierarchy"}, "representation='collapsed'"),
        ({"correlation": 4}, "at most as many shared functions as there are classes"),
        ({"correlation": -1}, "Pass a whole number of at least 0"),
        ({"correlation": 0.5}, "whole number of at least 0"),
        ({"correlation": None}, "whole number of at least 0"),
    ],
)
def test_what_does_not_go_with_correlation_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        model_of(**options)


def test_more_latent_values_than_one_matrix_holds_are_refused():
    x = np.linspace(0.0, 1.0, 1700)
    with pytest.raises(ValueError, match=r"5100 latent values.*correlation=0.*Inducing"):
        bx.GP(x[:, None], np.arange(1700) % 3, likelihood="categorical", correlation=1)
    with pytest.raises(ValueError, match="likelihood='categorical'"):
        bx.GP(X, CODES > 0, likelihood="bernoulli", correlation=1)


@pytest.mark.parametrize(
    "grouped", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["alone", "with groups"]
)
def test_components_of_correlated_classes_are_those_of_a_dense_newton(grouped):
    linear = np.array([[0.4], [0.9], [-0.3]])
    theta = {"linear_amplitude": 0.3, "linear_loading": linear, "expquad_loading": LOADING}
    theta |= {f"expquad_{name}": value for name, value in ALONE.items()}
    of, at = np.arange(N) % 4, np.array([2, 0, 9])
    each = {
        "linear": lambda A, B, *_: np.kron(A @ B.T, 0.09 * np.eye(3) + linear @ linear.T),
        "expquad": lambda A, B, *_: between(A, B),
    }
    options = {"kernel": "linear + expquad"}
    if grouped:
        each["group"] = lambda A, B, a, b: np.kron(a[:, None] == b, 0.36 * np.eye(3))
        theta["group_amplitude"], options["groups"] = 0.6, of
    K = sum(k(X, X, of, of) for k in each.values())
    _, slope, W, _ = oracle.softmax_laplace(K, CODES, 3)
    inside = W @ np.linalg.inv(np.eye(len(K)) + K @ W)
    asked = {"covariance": True, "keep": "summary"} | ({"groups_new": at} if grouped else {})
    found = bx.components(model_of(**options), theta, NEW, **asked, **QUIET)
    assert found["component"].values.tolist() == list(each)
    cross = np.stack([k(NEW, X, at, of) for k in each.values()])
    mean = (cross @ slope.ravel()).reshape((len(each), 3, 3))
    cov = -np.einsum("aij,jk,blk->aibl", cross, inside, cross)
    for a, k in enumerate(each.values()):
        cov[a, :, a] += k(NEW, NEW, at, at)
    own = np.arange(9)
    within = cov[:, own, :, own].reshape((3, 3, len(each), len(each)))  # obs, class, components
    dims = "obs", "class", "component"
    assert_allclose(found["component_mean"].transpose(*dims), mean.transpose(1, 2, 0), **EXACT)
    assert_allclose(found["component_cov"].transpose(*dims, ...), within, **EXACT)
    assert found["completeness_residual_variance"].max() < 1e-10


@pytest.mark.slow
def test_a_report_has_all_its_parts(tmp_path):
    model = model_of(ard=False, scale=True)
    idata = model.fit("map", **QUIET)
    written = bx.report(model, idata, path=tmp_path / "report.html", seed=1).read_text()
    assert "could not be made" not in written
    assert "loading[beech, 0]" in written
