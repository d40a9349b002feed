"""Laplace's approximation: its evidence, gradient, mode and posterior, by other roads."""

import pickle

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.optimize import minimize
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

import bayes_gpx as bx
import oracle
from bayes_gpx.likelihoods import named
from bayes_gpx.likelihoods.classification import Categorical
from bayes_gpx.likelihoods.continuous import Normal
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.numerics.threads import begin_turn
from bayes_gpx.posteriors.evidence import laplace as laplace_module
from bayes_gpx.posteriors.evidence.correlated import correlated_laplace
from bayes_gpx.posteriors.evidence.factors import signed_factor, signed_solve
from bayes_gpx.posteriors.evidence.laplace import (
    FindsMode,
    LaplaceEvidence,
    LaplaceHeight,
    climb,
    laplace_evidence,
    local_graph,
)
from bayes_gpx.posteriors.evidence.numba_forms import NATIVE_MODE
from bayes_gpx.posteriors.evidence.processes import processes_laplace
from bayes_gpx.posteriors.evidence.softmax import softmax_laplace

RNG = np.random.default_rng(4)
N = 30
X = RNG.normal(size=(N, 2))
F = 2 * np.sin(2 * X[:, 0])
SQUARES = ((X[:, None] - X[None]) ** 2).sum(-1)
EXPOSURE = RNG.uniform(0.5, 2.0, size=N)
CASES = {
    "logit": (named("bernoulli"), (F + RNG.logistic(size=N) > 0) * 1.0, {}),
    "probit": (named("bernoulli", "probit"), (F + RNG.normal(size=N) > 0) * 1.0, {}),
    "poisson": (named("poisson"), RNG.poisson(EXPOSURE * np.exp(F)) * 1.0, {}),
    "negative_binomial": (
        named("negative_binomial"),
        RNG.poisson(EXPOSURE * np.exp(F) * RNG.gamma(2, 0.5, size=N)) * 1.0,
        {"dispersion": 2.0},
    ),
    "student_t": (
        named("student_t"),
        F + 0.2 * RNG.standard_t(3, size=N),
        {"sigma": 0.3, "nu": 4.0},
    ),
    # Their information, which is not the observed one, changes with f.
    "zero_inflated_poisson": (
        named("zero_inflated_poisson"),
        RNG.poisson(EXPOSURE * np.exp(F)) * (RNG.random(N) < 0.7) * 1.0,
        {"inflation": 0.3},
    ),
    "beta": (named("beta"), 1.0 / (1.0 + np.exp(RNG.logistic(size=N) - F)), {"precision": 3.0}),
}


def evidence_of(name):
    """Function of the logs of amplitude, lengthscale and the likelihood's hyperparameters."""
    likelihood, y, theta = CASES[name]
    logs = pt.dvector("logs")
    K = pt.exp(2 * logs[0]) * pt.exp(-0.5 * SQUARES / pt.exp(2 * logs[1]))
    own = {h: pt.exp(logs[2 + i]) for i, h in enumerate(theta)}
    logp, alpha, W = laplace_evidence(likelihood, K, y, own, EXPOSURE)
    outputs = [logp, pt.grad(logp, logs), alpha, W, K]
    start = np.concatenate([[0.5, -0.2], np.log(list(theta.values()))])
    return pytensor.function([logs], outputs, mode=MODE), start


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_differences_of_the_evidence(name):
    function, start = evidence_of(name)
    for at in (start, start + 0.5, start - 0.4):
        moves = 1e-5 * np.eye(len(at))
        expected = [(function(at + m)[0] - function(at - m)[0]) / 2e-5 for m in moves]
        assert_allclose(function(at)[1], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Numba will use object mode:UserWarning")  # trigamma functions
@pytest.mark.parametrize("name", CASES)
def test_machine_code_finds_the_same(name):
    """Also where observations say next to nothing, and where there is no mode."""
    likelihood, y, theta = CASES[name]
    inputs = [pt.dmatrix("K"), pt.dvector("y"), pt.dvector("exposure"), *pt.dscalars(len(theta))]
    found = LaplaceEvidence(likelihood)(*inputs)
    plain, native = (pytensor.function(inputs, found, mode=mode) for mode in (MODE, NATIVE_MODE))
    own = [np.asarray(value) for value in theta.values()]
    for amplitude in (1e-4, 0.5, 3.0, np.nan):
        K = amplitude**2 * np.exp(-0.5 * SQUARES)
        both = (function(K, y, EXPOSURE, *own) for function in (plain, native))
        for one, other in zip(*both, strict=True):
            assert_allclose(other, one, rtol=1e-9, atol=1e-10 * (1.0 + abs(one).max()))
    assert one.shape == (N,) and not one.any()


@pytest.mark.parametrize("name", CASES)
def test_the_mode_is_where_an_optimiser_finds_it(name):
    """And the evidence is the density there, and the log determinant, by dense matrices."""
    likelihood, y, theta = CASES[name]
    function, start = evidence_of(name)
    logp, _, alpha, W, K = function(start)
    f = pt.dvector("f")
    own = {h: pt.constant(v) for h, v in theta.items()}
    local = likelihood.logp(f, y, own, EXPOSURE).sum()
    density = pytensor.function([f], [local, pt.grad(local, f)], mode=MODE)
    root = np.linalg.cholesky(K + 1e-12 * np.eye(N))

    def objective(white):
        value, slope = density(root @ white)
        return 0.5 * white @ white - value, white - root.T @ slope

    found = minimize(objective, np.zeros(N), jac=True, method="BFGS", options={"gtol": 1e-9})
    mode = root @ found.x
    assert_allclose(K @ alpha, mode, atol=2e-5)
    expected = -found.fun - 0.5 * np.linalg.slogdet(np.eye(N) + K * W)[1]
    assert_allclose(logp, expected, rtol=1e-7)


CODES = np.repeat(np.arange(3), N // 3) * 1.0
EVIDENCES = {
    "labels": lambda K: laplace_evidence(*CASES["logit"][:1], K, CASES["logit"][1], {}, EXPOSURE),
    "classes": lambda K: softmax_laplace(Categorical(classes=3), K, CODES),
    "correlated classes": lambda K: correlated_laplace(
        Categorical(classes=3), K[None], pt.constant(np.eye(3)[None] + 0.5), CODES
    ),
    "mean and sd": lambda K: processes_laplace(
        named("heteroscedastic_normal"), pt.stack([K, 0.5 * K]), CASES["student_t"][1]
    ),
}


@pytest.mark.parametrize("name", EVIDENCES)
def test_an_evidence_without_its_gradient_costs_no_more_than_it_needs(name):
    K = pt.dmatrix("K")
    logp = EVIDENCES[name](K)[0]
    alone = pytensor.function([K], logp, mode=MODE)
    both = pytensor.function([K], [logp, pt.grad(logp, K)], mode=MODE)
    used, full = (
        [node.op for node in f.maker.fgraph.toposort() if isinstance(node.op, FindsMode)]
        for f in (alone, both)
    )
    assert [type(op) for op in used] == [op.alone for op in full] and len(used) == 1
    value = 2.0 * np.exp(-0.5 * SQUARES) + 1e-8 * np.eye(N)
    assert_allclose(alone(value), both(value)[0], rtol=1e-12)
    assert alone(np.full((N, N), np.nan)) == -np.inf


@pytest.mark.parametrize("name", EVIDENCES)
def test_outputs_have_the_shapes_that_are_inferred(name):
    K = pt.dmatrix("K")
    node = EVIDENCES[name](K)[0].owner
    numbers = pytensor.function([K], node.outputs, mode=MODE)(np.eye(N))
    shapes = [[*v.shape] for v in node.inputs]
    inferred = [pt.as_tensor([0, *shape])[1:] for shape in node.op.infer_shape(node, shapes)]
    found = pytensor.function([K], inferred, mode=MODE, on_unused_input="ignore")(np.eye(N))
    assert [v.shape for v in numbers] == [tuple(shape) for shape in found]


@pytest.mark.parametrize("name", ["student_t", "zero_inflated_poisson", "beta"])
def test_a_density_that_is_not_concave_takes_few_steps_to_its_mode(name):
    """By steps of the expected information alone, two of the three take 32 evaluations."""
    likelihood, y, theta = CASES[name]
    K, calls = np.exp(-0.5 * SQUARES), []
    local = pytensor.function(*local_graph(likelihood), mode=MODE, on_unused_input="ignore")

    def counted(*given):
        calls.append(given)
        return local(*given)

    rest = [y, EXPOSURE, *theta.values()]
    arrived, f, alpha = climb(counted, K, rest, np.zeros(N), concave=False)
    slope = local(f, *rest)[1]
    assert arrived and len(calls) < 12
    assert_allclose(f, K @ slope, rtol=1e-9, atol=1e-10)
    assert_allclose(alpha, slope, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", [12, 40, 61, 77])
def test_a_search_ends_at_a_maximum(seed):
    """Not at a saddle point, where outliers make the log posterior curve up on the way."""
    rng, n = np.random.default_rng(seed), 20
    x = np.sort(rng.uniform(-2, 2, size=n))
    y = np.sin(x) + 0.1 * rng.normal(size=n)
    y[rng.integers(0, n, 4)] += 5.0 * rng.normal(size=4)
    K = 0.64 * np.exp(-0.5 * ((x[:, None] - x) / 1.2) ** 2) + 1e-9 * np.eye(n)
    local = pytensor.function(
        *local_graph(named("student_t")), mode=MODE, on_unused_input="ignore", trust_input=True
    )
    rest = [y, np.ones(n), np.array(0.025), np.array(1.3)]
    arrived, f, _ = climb(local, K, rest, np.zeros(n), concave=False)
    root = np.linalg.cholesky(K)
    whitened = np.eye(n) + root.T @ (local(f, *rest)[5][:, None] * root)
    assert arrived and np.linalg.eigvalsh(whitened)[0] > 0.0


def test_normal_noise_is_exact():
    y, sigma = F + 0.3 * RNG.normal(size=N), 0.3
    K = np.exp(-0.5 * SQUARES)
    C = K + sigma**2 * np.eye(N)
    logp, alpha, W = (
        v.eval(mode=MODE)
        for v in laplace_evidence(
            Normal(), pt.constant(K), pt.constant(y), {"sigma": pt.constant(sigma)}, np.ones(N)
        )
    )
    assert_allclose(logp, oracle.log_normal(y, C), rtol=1e-10)
    assert_allclose(alpha, np.linalg.solve(C, y), rtol=1e-6, atol=1e-8)
    assert_allclose(W, sigma**-2)


def test_a_classifier_agrees_with_scikit_learns():
    labels = np.where(CASES["logit"][1] > 0, "yes", "no")
    theta = {"lengthscale": [0.8, 1.3], "amplitude": 1.5}
    model = bx.GP(X, labels, likelihood="bernoulli", scale=False)
    kernel = ConstantKernel(1.5**2) * RBF([0.8, 1.3])
    peer = GaussianProcessClassifier(kernel, optimizer=None).fit(X, labels)
    fitted = bx.log_likelihood(model, theta, progressbar=False)["log_marginal_likelihood"]
    assert_allclose(fitted.item(), peer.log_marginal_likelihood_value_, rtol=1e-6)
    new = RNG.normal(size=(6, 2))
    found = bx.predictions(model, theta, new, draws=4000, seed=0, progressbar=False)
    base = peer.base_estimator_
    kx = base.kernel_(base.X_train_, new)
    assert_allclose(found["f_mean"], kx.T @ (base.y_train_ - base.pi_), rtol=1e-6, atol=1e-6)
    # scikit-learn approximates this integral by five error functions, to 1e-3.
    assert_allclose(found["probability_mean"], peer.predict_proba(new)[:, 1], atol=2e-3)
    assert found.attrs["labels"] == ["no", "yes"]
    error = found["probability"].mean(("chain", "draw")) - found["probability_mean"]
    assert np.all(np.abs(error) < 5 * found["probability_sd"] / np.sqrt(4000))
    assert_allclose(found["y"].mean(("chain", "draw")), found["probability_mean"], atol=0.05)


@pytest.mark.parametrize("name", ["logit", "poisson"])
def test_explanations_of_f_are_those_of_the_dense_posterior(name):
    """N(K alpha, K - K (K + W^-1)^-1 K), here and away from the data."""
    _, y, _ = CASES[name]
    kind = {"logit": "bernoulli", "poisson": "poisson"}[name]
    options = {"exposure": EXPOSURE} if kind == "poisson" else {}
    model = bx.GP(X, y.astype(int), likelihood=kind, scale=False, **options)
    theta = {"lengthscale": [0.8, 0.8], "amplitude": 1.5}
    function, _ = evidence_of(name)
    *_, alpha, W, K = function(np.log([1.5, 0.8]))
    new = RNG.normal(size=(4, 2))
    K_new = 1.5**2 * oracle.expquad(new, X, np.array([0.8, 0.8]))
    cov = 1.5**2 * oracle.expquad(new, new, np.array([0.8, 0.8])) - K_new @ np.linalg.solve(
        K + np.diag(1 / W), K_new.T
    )
    found = bx.predictions(model, theta, new, on="latent", keep="summary", progressbar=False)
    assert_allclose(found["f_mean"], K_new @ alpha, rtol=1e-8, atol=1e-9)
    assert_allclose(found["f_sd"], np.sqrt(np.diag(cov)), rtol=1e-8)
    shares = bx.attributions(model, theta, new, on="latent", keep="summary", progressbar=False)
    start = bx.predictions(
        model, theta, X.mean(axis=0)[None], on="latent", keep="summary", progressbar=False
    )
    difference = found["f_mean"].values - start["f_mean"].values
    assert_allclose(shares["attribution_mean"].sum("feature"), difference, atol=1e-8)


def test_random_functions_follow_the_latent_posterior():
    labels = CASES["logit"][1].astype(int)
    model = bx.GPX(X, labels, likelihood="bernoulli", scale=False, intercept=True)
    theta = {"lengthscale": [0.8, 1.3], "amplitude": 1.0, "sigma_w": 0.3}
    functions = bx.sample_functions(model, theta, draws=800, waves=32, seed=2, progressbar=False)
    new = RNG.normal(size=(5, 2))
    drawn = functions.derivatives(new, on="latent")["derivative"].values[0]
    exact = bx.derivatives(model, theta, new, on="latent", keep="summary", progressbar=False)
    error = drawn.mean(axis=0) - exact["derivative_mean"]
    assert np.all(np.abs(error) < 5 * exact["derivative_sd"] / np.sqrt(800))
    assert_allclose(drawn.std(axis=0), exact["derivative_sd"], rtol=0.12)


def test_counts_are_centred_at_their_mean_rate():
    y = CASES["poisson"][1]
    model = bx.GP(X, y, likelihood="poisson", exposure=EXPOSURE)
    far = np.full((1, 2), 1e3)
    theta = {"lengthscale": [0.5, 0.5], "amplitude": 0.1}
    found = bx.predictions(model, theta, far, draws=10, progressbar=False)
    mean_rate = y.sum() / EXPOSURE.sum()
    assert_allclose(found["f_mean"], np.log(mean_rate))
    assert_allclose(found["rate_mean"], mean_rate * np.exp(0.1**2 / 2), rtol=1e-8)
    twice = bx.predictions(model, theta, far, exposure=[2.0], draws=10, progressbar=False)
    assert_allclose(twice["rate_mean"], 2 * found["rate_mean"])
    several = {"exposure": [9.0, 2.0], "obs": [1], "draws": 10, "progressbar": False}
    picked = bx.predictions(model, theta, np.repeat(far, 2, axis=0), **several)
    assert_allclose(picked["rate_mean"], twice["rate_mean"])


def test_a_matrix_that_is_no_covariance_has_no_evidence():
    likelihood, y, _ = CASES["logit"]
    K = np.full((N, N), np.nan)
    found = LaplaceEvidence(likelihood)(K, y, np.ones(N))
    logp, in_K, *_ = [v.eval(mode=MODE) for v in found]
    assert logp == -np.inf and (in_K == 0).all()


@pytest.mark.parametrize(("nu", "sigma"), [(1.0, 0.02), (2.0, 0.05), (0.8, 0.3)])
def test_outliers_far_from_normal_have_their_mode(nu, sigma):
    """Heavy tails and outliers, where Fisher's information oversteps."""
    likelihood = named("student_t")
    y = F + sigma * RNG.normal(size=N)
    y[::6] += 5.0
    theta = {"sigma": pt.constant(np.float64(sigma)), "nu": pt.constant(np.float64(nu))}
    scale = pt.dscalar("scale")
    K = scale * (np.exp(-0.5 * SQUARES) + 1e-6 * np.eye(N))
    logp, alpha, _ = laplace_evidence(likelihood, K, y, theta, np.ones(N))
    outputs = [logp, pt.grad(logp, scale), K, alpha]
    function = pytensor.function([scale], outputs, mode=MODE)
    value, slope, K, alpha = function(1.0)
    assert np.isfinite(value)
    f = pt.dvector("f")
    at_mode = likelihood.derivatives(f, y, theta, None)[0].eval({f: K @ alpha}, mode=MODE)
    assert_allclose(at_mode, alpha, rtol=1e-3, atol=1e-3 * np.abs(alpha).max())
    ahead, behind = function(1.0 + 1e-5)[0], function(1.0 - 1e-5)[0]
    assert_allclose(slope, (ahead - behind) / 2e-5, rtol=1e-3)


def test_only_the_evidence_is_differentiable():
    likelihood, y, _ = CASES["logit"]
    scale = pt.dscalar("scale")
    _, alpha, _ = laplace_evidence(likelihood, scale * np.eye(N), y, {}, np.ones(N))
    with pytest.raises(NotImplementedError, match="only the log evidence is differentiable"):
        pt.grad(alpha.sum(), scale)


def test_the_operation_can_be_copied():
    op = pickle.loads(pickle.dumps(LaplaceEvidence(named("poisson"))))
    found = op(np.eye(2), np.array([1.0, 3.0]), np.ones(2))[0].eval(mode=MODE)
    assert np.isfinite(found)


@pytest.mark.parametrize("amplitude", [1e-9, 1e6])
def test_terms_left_out_of_extreme_priors_are_finite(amplitude):
    labels = CASES["logit"][1].astype(int)
    model = bx.GP(X, labels, likelihood="bernoulli", scale=False)
    theta = {"lengthscale": [0.8, 0.8], "amplitude": amplitude}
    terms = bx.log_likelihood(model, theta, progressbar=False)["log_likelihood"]
    assert np.isfinite(terms).all()
    if amplitude < 1:
        assert_allclose(terms, np.log(0.5), rtol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_what_was_asked_before_does_not_matter(name):
    """A search begins where the thread's last one ended: only the time it takes depends on that."""
    likelihood, y, theta = CASES[name]
    K = 1.5**2 * np.exp(-0.5 * SQUARES)
    other = 400.0 * np.exp(-0.5 * SQUARES / 0.2**2)
    rest = [y, EXPOSURE, *(np.float64(v) for v in theta.values())]
    fresh = LaplaceEvidence(likelihood).found(K, rest)
    used = LaplaceEvidence(likelihood)
    for before in (other, np.eye(N) * 1e-6, K + 1e-3, np.full((N, N), np.nan)):
        used.found(before, rest)
        for one, another in zip(used.found(K, rest), fresh, strict=True):
            assert_allclose(one, another, rtol=1e-9, atol=1e-9)


def test_each_mode_is_searched_for_once():
    likelihood, y, _ = CASES["logit"]
    search, calls = LaplaceEvidence(likelihood)._search, []
    local = search.local
    search._own.functions = (lambda *given: calls.append(given) or local(*given),)
    covariances = [np.exp(-0.5 * SQUARES / length**2) * 9.0 for length in (0.5, 1.0, 2.0)]
    rounds = []
    for _ in range(2):  # explanations come back to their draws, in the same turns
        begin_turn()
        before = len(calls)
        found = [search.mode(K, [y, EXPOSURE])[0] for K in covariances]
        rounds.append((found, len(calls) - before))
    (first, searched), (second, known) = rounds
    assert_array_equal(second, first)
    assert known == 0 < searched
    apart = search.mode(covariances[0], [1.0 - y, EXPOSURE])[0]
    assert_allclose(apart, -first[0], rtol=1e-9)


@pytest.mark.parametrize("name", ["logit", "student_t"])
def test_balanced_features_have_modes_of_their_own(name):
    """Each row of both covariances has the same numbers, in other places."""
    likelihood, y, theta = CASES[name]
    rest = [y, EXPOSURE, *(np.float64(v) for v in theta.values())]
    first, second = np.arange(N) < N // 2, np.arange(N) % 2 == 0
    pair = [np.where(v[:, None] == v, 4.0, 1.0) for v in (first, second)]
    assert_array_equal(*(K.sum(axis=1) for K in pair))
    op = LaplaceEvidence(likelihood)
    for K in pair:
        f = op.found(K, rest)[2]
        slope = op._search.local(f, *rest)[1]
        assert_allclose(f, K @ slope, rtol=1e-8)


def test_modes_of_any_size_are_forgotten_in_time(monkeypatch):
    monkeypatch.setattr(laplace_module, "REMEMBERED", 8 * 100)
    modes = laplace_module._Modes()
    for k, n in enumerate([5, 5, 5, 40, 3, 45, 60]):
        modes.keep(str(k), [np.zeros(n), np.zeros(n)])
        assert modes.held == sum(part.nbytes for mode in modes.values() for part in mode)
        assert modes.held <= 800
    assert [*modes] == []
    modes.keep("one", [np.zeros(5)])
    assert [*modes] == ["one"]


@pytest.mark.parametrize("name", ["student_t", "zero_inflated_poisson", "beta"])
def test_operations_share_modes_whose_searches_always_begin_at_0(name):
    likelihood, y, theta = CASES[name]
    K = 0.7 * np.exp(-0.5 * SQUARES / 0.77**2)
    rest = [y, EXPOSURE, *(np.float64(v) for v in theta.values())]
    height = LaplaceHeight(likelihood).found(K, rest)[0]
    other = LaplaceEvidence(likelihood)
    other._search._climb = None  # a search would fail
    assert_allclose(other.found(K, rest)[0], height, rtol=1e-12)


def test_a_search_goes_on_where_the_last_one_ended():
    """With the same prior but for round-off, the mode is there already: nothing is climbed."""
    likelihood, y, _ = CASES["logit"]
    search, calls = LaplaceEvidence(likelihood)._search, []
    local = search.local
    search._own.functions = (lambda *given: calls.append(given) or local(*given),)
    K = 9.0 * np.exp(-0.5 * SQUARES)
    search.mode(K, [y, EXPOSURE])
    first = len(calls)
    search.mode(K * (1.0 + 1e-12), [y, EXPOSURE])
    assert first > 5
    assert len(calls) - first == 4  # at 0, where the last one ended, and two steps from there


def test_information_of_either_sign_is_solved_for():
    """Where the posterior curves down in all directions; elsewhere it is refused."""
    rng = np.random.default_rng(1)
    K = 9.0 * np.exp(-0.5 * SQUARES) + 0.1 * np.eye(N)
    W, b = rng.uniform(0.2, 2.0, N), rng.normal(size=N)
    for negative in (0, 3):
        W[:negative] = -0.1
        there, *known = signed_factor(K, W)
        assert there
        expected = np.linalg.solve(np.eye(N) + W[:, None] * K, b)
        assert_allclose(signed_solve(K, *known, b), expected, rtol=1e-9)
    W[:3] = -50.0
    assert np.linalg.eigvalsh(np.linalg.inv(K) + np.diag(W))[0] < 0.0
    assert not signed_factor(K, W)[0]


def test_a_density_as_steep_as_a_double_exponential_has_a_mode_and_integrals():
    """No search from f = 0 arrives at the mode, and no nodes around it see the density of y."""
    drawn = np.random.default_rng(6).weibull(50.0, size=N)
    shape, y = np.float64(50.0), np.exp(F) * drawn
    likelihood, theta = named("weibull"), {"shape": pt.as_tensor(shape)}
    K = 9.0 * np.exp(-0.5 * SQUARES) + 1e-3 * np.eye(N)
    outputs = laplace_evidence(likelihood, pt.as_tensor(K), pt.as_tensor(y), theta, np.ones(N))
    logp, alpha, _ = pytensor.function([], outputs, mode=MODE)()
    slope = likelihood.derivatives(pt.as_tensor(K @ alpha), pt.as_tensor(y), theta)[0]
    # Round-off in f of 1e-11 is one of 1e-6 in K times its slopes.
    assert_allclose(K @ slope.eval(mode=MODE), K @ alpha, atol=1e-5)
    assert np.isfinite(logp)
    mean, variance = np.array([1.44, 0.0]), np.array([0.46, 4.0])
    given = pt.as_tensor(y[:2]), pt.as_tensor(mean), pt.as_tensor(variance), theta
    found = likelihood.log_predictive(*given).eval(mode=MODE)
    f = np.linspace(-5.0, 20.0, 1_000_001)
    scale = np.exp(f) / stats.weibull_min(50.0).mean()
    for k in range(2):
        with np.errstate(over="ignore", invalid="ignore"):
            terms = np.nan_to_num(stats.weibull_min(50.0, scale=scale).pdf(y[k]))
        integral = terms @ stats.norm(mean[k], variance[k] ** 0.5).pdf(f) * (f[1] - f[0])
        assert_allclose(found[k], np.log(integral), rtol=1e-8)
