"""The variational bound: its value, gradient and posterior, by other roads."""

from types import SimpleNamespace

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import gammaln
from scipy.stats import multivariate_normal

from bayes_gpx.likelihoods import named
from bayes_gpx.likelihoods.classification import Categorical
from bayes_gpx.likelihoods.heteroscedastic import HeteroscedasticNormal
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.numerics.row_sums import RowGraph
from bayes_gpx.posteriors.evidence import variational as evidence
from bayes_gpx.posteriors.evidence.newton import _mixed
from bayes_gpx.posteriors.evidence.row_bounds import variational
from bayes_gpx.posteriors.evidence.variational import Search, _newton, _Seen

RNG = np.random.default_rng(7)
N, M = 25, 4
F = RNG.normal(size=(N, M))
REST = RNG.uniform(0.1, 0.4, size=N)
TRUE = F @ RNG.normal(size=M) * 0.6
EXPOSURE = RNG.uniform(0.5, 2.0, size=N)
CASES = {
    "normal": (named("normal"), TRUE + 0.3 * RNG.normal(size=N), {"sigma": 0.4}),
    "student_t": (named("student_t"), TRUE + RNG.standard_t(4, size=N), {"sigma": 0.7, "nu": 5.0}),
    "logit": (named("bernoulli"), (TRUE + RNG.logistic(size=N) > 0) * 1.0, {}),
    "probit": (named("bernoulli", "probit"), (TRUE + RNG.normal(size=N) > 0) * 1.0, {}),
    "poisson": (named("poisson"), RNG.poisson(EXPOSURE * np.exp(TRUE)) * 1.0, {}),
    "negative_binomial": (
        named("negative_binomial"),
        RNG.poisson(EXPOSURE * np.exp(TRUE)) * 1.0,
        {"dispersion": 2.0},
    ),
    "categorical": (Categorical(3), RNG.integers(0, 3, size=N) * 1.0, {}),
    "processes": (HeteroscedasticNormal(), TRUE + RNG.normal(size=N) * np.exp(F[:, 0] / 2), {}),
}
OF_EACH = RNG.normal(size=(N, 2, M)), RNG.uniform(0.1, 0.4, size=(N, 2))


def design_of(name):
    """F and the remainders' variances: of all classes, or of each, with a kernel of its own."""
    return OF_EACH if name == "processes" else (F, REST)


def compiled(name):
    """Function of F, rest and the logs of hyperparameters to the bound, gradients and q."""
    likelihood, y, theta = CASES[name]
    design, rest = (pt.tensor(shape=(None,) * v.ndim) for v in design_of(name))
    logs = pt.dvector("logs")
    own = {h: pt.exp(logs[i]) for i, h in enumerate(theta)}
    found = variational(likelihood, design, rest, y, own, EXPOSURE)
    slopes = pt.grad(found.bound, [design, rest, logs], disconnected_inputs="ignore")
    inputs, start = [design, rest, logs], np.log(list(theta.values()))
    outputs = [found.bound, *slopes, *found.found]
    return pytensor.function(inputs, outputs, mode=MODE, on_unused_input="ignore"), start


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_differences_of_the_bound(name):
    function, logs = compiled(name)
    given = *design_of(name), logs
    found = function(*given)
    for which, at in enumerate(given):
        if not at.size:
            continue
        way, step = np.random.default_rng(1).normal(size=at.shape), 1e-5
        ends = []
        for sign in (1, -1):
            moved = [*given]
            moved[which] = at + sign * step * way
            ends.append(function(*moved)[0])
        difference = (ends[0] - ends[1]) / (2 * step)
        assert_allclose((found[1 + which] * way).sum(), difference, rtol=2e-6, atol=2e-6)


def test_with_normal_noise_the_bound_is_that_of_titsias():
    function, logs = compiled("normal")
    bound, *_, coefficients, root = function(F, REST, logs)
    y, noise = CASES["normal"][1], 0.4**2
    evidence = multivariate_normal(np.zeros(N), F @ F.T + noise * np.eye(N)).logpdf(y)
    assert_allclose(bound, evidence - REST.sum() / (2 * noise), rtol=1e-10)
    precision = np.eye(M) + F.T @ F / noise
    assert_allclose(root @ root.T, precision, rtol=1e-8)
    assert_allclose(coefficients, np.linalg.solve(precision, F.T @ y / noise), rtol=1e-8)


def elbo(parameters, y, z, log_p):
    """ELBO of a logit model by fixed draws z of coefficients and remainders, in plain NumPy."""
    m, L = parameters[:M], np.zeros((M, M))
    L[np.tril_indices(M)] = parameters[M:]
    f = (m + z[0] @ L.T) @ F.T + z[1] * np.sqrt(REST)
    gap = (L**2).sum() + m @ m - M - 2 * np.log(np.abs(np.diag(L))).sum()
    values = log_p(f, y).sum(axis=1)
    return values.mean() - gap / 2, values.std() / np.sqrt(len(values))


@pytest.mark.parametrize("name", ["logit", "poisson"])
def test_no_other_gaussian_has_a_larger_bound(name):
    function, logs = compiled(name)
    bound, *_, coefficients, root = function(F, REST, logs)
    y = CASES[name][1]
    log_p = {
        "logit": lambda f, y: -np.logaddexp(0, -(2 * y - 1) * f),
        "poisson": lambda f, y: (
            y * (f + np.log(EXPOSURE))
            - EXPOSURE * np.exp(f)
            - np.array([_log_factorial(k) for k in y])
        ),
    }[name]
    rng = np.random.default_rng(3)
    z = [rng.normal(size=(20_000, k)) for k in (M, N)]
    z = [np.concatenate([part, -part]) for part in z]
    L = np.linalg.cholesky(np.linalg.inv(root @ root.T))
    own = np.concatenate([coefficients, L[np.tril_indices(M)]])
    ours, error = elbo(own, y, z, log_p)
    assert_allclose(bound, ours, atol=5 * error)

    def objective(p):
        return -elbo(p, y, z, log_p)[0]

    best = minimize(objective, own, method="L-BFGS-B", options={"maxiter": 3})
    assert -best.fun - ours < error


def _log_factorial(k):
    return np.log(np.arange(1, int(k) + 1)).sum()


def test_two_classes_differ_like_one_logit():
    y = CASES["logit"][1]
    inputs = [pt.as_tensor(v) for v in (F, 1e-12 * REST, y)]
    found = variational(Categorical(2), *inputs, {}, EXPOSURE)
    slope = pytensor.function([], found.seen.slope, mode=MODE)()
    assert_allclose(slope.sum(axis=1), 0.0, atol=1e-10)
    assert slope.shape == (N, 2)


@pytest.mark.parametrize(
    "name", ["logit", "categorical", pytest.param("student_t", marks=pytest.mark.slow)]
)
def test_the_result_does_not_depend_on_what_came_before(name):
    function, logs = compiled(name)
    logs = logs - 3.0
    first = function(F, REST, logs)
    function(30.0 * F[::-1], 5.0 * REST, logs)
    for one, other in zip(first, function(F, REST, logs), strict=True):
        assert_allclose(one, other, rtol=1e-6, atol=1e-7)


def test_what_is_not_finite_is_refused_quietly():
    function, logs = compiled("poisson")
    bound, in_F, in_rest, *_ = function(1e6 * F, REST, logs)
    assert np.isfinite(bound) or bound == -np.inf
    bound, in_F, *_ = function(np.nan * F, REST, logs)
    assert bound == -np.inf and not in_F.any()


def test_many_coefficients_of_many_classes_solve_what_holds_at_the_maximum():
    """Coefficients are F' times slopes, precisions I + F' W F, where labels all but separate."""
    rng, C = np.random.default_rng(0), 6
    design = 2.0 * rng.normal(size=(300, 60))
    y = (design @ rng.normal(size=(60, C))).argmax(axis=1) * 1.0
    found = variational(Categorical(C), design, np.full(300, 0.1), y, {}, np.ones(300))
    outputs = [found.bound, *found.found, found.seen.slope, found.seen.W]
    bound, coefficients, root, slope, W = pytensor.function([], outputs, mode=MODE)()
    assert np.isfinite(bound)
    assert_allclose(coefficients, slope.T @ design, atol=1e-6 * np.abs(coefficients).max())
    expected = np.eye(60) + np.einsum("nc,nm,nk->cmk", W, design, design)
    assert_allclose(root @ root.transpose(0, 2, 1), expected, rtol=1e-6, atol=1e-6)
    assert np.abs(coefficients.sum(axis=0)).max() < 1e-6  # softmax tells differences alone


def search_of(likelihood, coupled=True):
    """A search by blocks of seven rows, whose F and all else are at hand."""
    rows = [pt.dmatrix(), pt.dvector(), pt.dvector(), pt.dvector()]
    search = Search(likelihood, RowGraph([], [], rows, rows))
    graphs = search._graphs_of(False, coupled)
    graphs.sums.size = graphs.curved.size = 7
    return search


def test_a_search_that_ends_nowhere_begins_anew_at_the_prior():
    likelihood, y, _ = CASES["poisson"]
    given = M, [], [], [F, REST, y, EXPOSURE]
    expected, search = search_of(likelihood).highest(*given), search_of(likelihood)
    far = 100.0 * np.random.default_rng(1).normal(size=(1, M)), np.eye(M)[None]
    search._own.last = far
    with np.errstate(all="ignore"):
        assert search._seen(*given).at(*far) is not None
        found = search.highest(*given)
    assert_allclose(found.coefficients, expected.coefficients, rtol=1e-7)


def test_a_steep_density_is_found_from_the_mode():
    """Under the prior no number is as large as the expectation of this Weibull hazard."""
    rng, k, rest = np.random.default_rng(1), 6.0, 0.01 * REST
    design = 0.3 * rng.normal(size=(N, 2 * N))  # more columns than rows: rank matters
    y = np.exp(design @ rng.normal(size=2 * N)) * rng.weibull(k, size=N)
    given = 2 * N, [], [np.float64(k)], [design, rest, y, np.ones(N)]
    with np.errstate(all="ignore"):
        found = search_of(named("weibull")).highest(*given)
    covariance = np.linalg.inv(found.P[0])
    mean = design @ found.coefficients[0]
    variance = np.einsum("nm,mk,nk->n", design, covariance, design) + rest
    hazard = np.exp(k * (np.log(y) + gammaln(1.0 + 1.0 / k) - mean) + k**2 * variance / 2.0)
    assert_allclose(found.coefficients[0], design.T @ (k * (hazard - 1.0)), rtol=1e-5, atol=1e-5)
    expected = np.eye(2 * N) + (design.T * k**2 * hazard) @ design
    assert_allclose(found.P[0], expected, rtol=1e-5, atol=1e-5)


def test_states_say_how_far_apart_their_latent_values_are():
    likelihood, y, _ = CASES["poisson"]
    seen = search_of(likelihood)._seen(M, [], [], [F, REST, y, EXPOSURE])
    rng = np.random.default_rng(4)
    before, moments = None, []
    for m in rng.normal(size=(2, 1, M)):
        P = np.eye(M) + np.cov(rng.normal(size=(M, 9)))
        before = seen.at(m, P[None], before)
        moments.append((F @ m[0], np.einsum("nm,mk,nk->n", F, np.linalg.inv(P), F)))
    apart = [
        abs(now - then).max() / (1 + abs(now).max()) for then, now in zip(*moments, strict=True)
    ]
    assert_allclose(before.apart, max(apart), rtol=1e-12)


@pytest.mark.parametrize("coupled", [False, True])
def test_newton_steps_solve_the_joint_system_of_all_classes(coupled, monkeypatch):
    rng, C = np.random.default_rng(1), 3
    p = rng.dirichlet(np.ones(C), size=N)
    information = p[:, :, None] * np.eye(C) - p[:, :, None] * p[:, None]
    told = np.einsum("nm,nab,nk->ambk", F, information, F).reshape((C * M, C * M))
    coefficients, slope = rng.normal(size=(C, M)), rng.normal(size=(N, C))
    state = SimpleNamespace(
        coefficients=coefficients,
        information=np.triu(told) if coupled else [information],
        pull=slope.T @ F,
        aim=np.eye(M) + np.einsum("nm,nc,nk->cmk", F, p, F),
    )
    monkeypatch.setattr(evidence, "PAIRED", C * M if coupled else 0)
    search = search_of(Categorical(C), coupled)
    step = _newton(state, search._seen(M, [], [], [F, REST, F[:, 0], EXPOSURE]))
    expected = np.linalg.solve(np.eye(C * M) + told, (slope.T @ F - coefficients).ravel())
    assert_allclose(step.ravel(), expected, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize("changes", [3, 6])
def test_mixed_steps_lead_to_the_smallest_step_of_a_linear_map(changes):
    """To its fixed point from as many changes as there are numbers, as GMRES does."""
    rng, size = np.random.default_rng(3), 6
    A, b = 2.0 * rng.normal(size=(size, size)), rng.normal(size=size)
    points = rng.normal(size=(changes + 1, size))
    steps = points @ A.T + b - points
    found = points[-1] + _mixed([*zip(points, steps, strict=True)], 2)
    units = np.repeat([1.0, np.abs(points[-1, 2:]).max()], [2, 4])  # precisions have their own
    turns, last = np.diff(steps, axis=0) / units, steps[-1] / units
    best = points[-1] - np.linalg.lstsq(turns.T, last)[0] @ np.diff(points, axis=0)
    assert_allclose(found, A @ best + b, rtol=1e-8)
    if changes == size:
        assert_allclose(found, np.linalg.solve(np.eye(size) - A, b), rtol=1e-8)


def test_what_all_rows_tell_is_the_sum_of_what_each_tells():
    C, y = 3, np.arange(N) % 3 * 1.0
    at = np.random.default_rng(2).normal(size=(C, M)), np.tile(2.0 * np.eye(M), (C, 1, 1))
    rows = [F, REST, y, EXPOSURE]
    each, whole = (
        _Seen(search_of(Categorical(C), coupled)._graphs_of(False, coupled), [], [], rows).at(*at)
        for coupled in (False, True)
    )
    told = np.concatenate(each.information)
    expected = np.einsum("nm,nab,nk->ambk", F, told, F).reshape((C * M, C * M))
    assert_allclose(np.triu(whole.information), np.triu(expected), rtol=1e-12, atol=1e-12)
    assert whole.bound == each.bound


def test_a_precision_without_a_factor_leaves_no_bound():
    design = 1e16 * np.outer(RNG.normal(size=40), np.ones(5))
    found = variational(
        Categorical(2), design, np.full(40, 0.1), np.arange(40) % 2 * 1.0, {}, np.ones(40)
    )
    assert found.bound.eval(mode=MODE) == -np.inf
