"""Kernels against NumPy and mpmath: values, derivatives, gradients of hyperparameters, refusals."""

import functools
import math

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pymc.gp import cov
from pytensor.tensor.elemwise import Elemwise

import oracle
from bayes_gpx.kernels.from_pymc import from_pymc
from bayes_gpx.numerics.compile_modes import MODE

ARD = np.array([0.7, 1.3, 2.0])
TWO = [2, 0]
CENTER = np.array([0.3, -0.2, 0.5])
ORDERS = [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (0, 2)]


def pair(function, *parameters, columns=None):
    """An oracle kernel with its parameters, on some of the columns."""

    def at(x, xs, m=np):
        if columns is not None:
            x, xs = x[..., columns], xs[..., columns]
        return function.pair(x, xs, *parameters, m=m)

    return at


def plus(*pairs):
    return lambda x, xs, m=np: sum(p(x, xs, m) for p in pairs)


def times(*pairs):
    return lambda x, xs, m=np: math.prod(p(x, xs, m) for p in pairs)


def power(base, exponent):
    return lambda x, xs, m=np: base(x, xs, m) ** exponent


def lengthscale(x):
    """Written for PyTensor (n, 1), NumPy (..., 1) and mpmath (1,)."""
    return 0.5 + 0.3 / (1.0 + x[..., 0] ** 2)


def warp(x):
    """Three features to two, with curvature."""
    return [x[..., 0] + 0.3 * x[..., 1] ** 2, x[..., 1] * x[..., 2] - x[..., 0]]


def warped(inner):
    return lambda x, xs, m=np: inner(*(np.stack(warp(p), axis=-1) for p in (x, xs)), m)


def warped_input(inner):
    return cov.WarpedInput(3, inner, lambda X: pt.stack(warp(X), axis=-1))


EXPQUAD, MATERN52 = pair(oracle.expquad, ARD), pair(oracle.matern52, ARD)
SMOOTH = math.inf
CASES = {
    "expquad": (cov.ExpQuad(3, ls=ARD), EXPQUAD, SMOOTH),
    "expquad isotropic": (cov.ExpQuad(3, ls=0.9), pair(oracle.expquad, 0.9), SMOOTH),
    "expquad columns": (
        cov.ExpQuad(3, ls=ARD[:2], active_dims=TWO),
        pair(oracle.expquad, ARD[:2], columns=TWO),
        SMOOTH,
    ),
    "matern52": (cov.Matern52(3, ls=ARD), MATERN52, 2),
    "matern52 columns": (
        cov.Matern52(3, ls=0.8, active_dims=TWO),
        pair(oracle.matern52, 0.8, columns=TWO),
        2,
    ),
    "matern32": (cov.Matern32(3, ls_inv=1 / ARD), pair(oracle.matern32, ARD), 1),
    "matern32 isotropic": (cov.Matern32(3, ls=1.1), pair(oracle.matern32, 1.1), 1),
    "matern12": (cov.Matern12(3, ls=ARD), pair(oracle.matern12, ARD), 0),
    "exponential": (cov.Exponential(3, ls=ARD), pair(oracle.exponential, ARD), 0),
    "cosine": (
        cov.Cosine(3, ls=1.4, active_dims=[1]),
        pair(oracle.cosine, 1.4, columns=[1]),
        SMOOTH,
    ),
    "ratquad": (cov.RatQuad(3, alpha=0.6, ls=ARD), pair(oracle.ratquad, ARD, 0.6), SMOOTH),
    "ratquad, large alpha": (
        cov.RatQuad(3, alpha=1e5, ls=1.2),
        pair(oracle.ratquad, 1.2, 1e5),
        SMOOTH,
    ),
    "periodic": (
        cov.Periodic(3, period=np.array([1.7, 0.9, 3.0]), ls=ARD),
        pair(oracle.periodic, ARD, np.array([1.7, 0.9, 3.0])),
        SMOOTH,
    ),
    "wrapped periodic": (
        cov.WrappedPeriodic(cov.Matern52(3, ls=0.8, active_dims=TWO), period=2.5),
        pair(oracle.periodic_matern52, 0.8, 2.5, columns=TWO),
        2,
    ),
    "linear": (cov.Linear(3, c=CENTER), pair(oracle.linear, CENTER), SMOOTH),
    "linear columns": (
        cov.Linear(3, c=0.4, active_dims=TWO),
        pair(oracle.linear, 0.4, columns=TWO),
        SMOOTH,
    ),
    "polynomial": (
        cov.Polynomial(3, c=CENTER, d=3, offset=0.7),
        pair(oracle.polynomial, CENTER, 0.7, 3),
        SMOOTH,
    ),
    "polynomial of degree 1": (
        cov.Polynomial(3, c=0.0, d=1.0, offset=0.0),
        pair(oracle.linear, 0.0),
        SMOOTH,
    ),
    "sum": (
        cov.ExpQuad(3, ls=ARD)
        + 0.3 * cov.Matern52(3, ls=0.8, active_dims=TWO)
        + cov.Linear(3, c=0.4),
        plus(
            EXPQUAD,
            times(pair(oracle.constant, 0.3), pair(oracle.matern52, 0.8, columns=TWO)),
            pair(oracle.linear, 0.4),
        ),
        2,
    ),
    "product": (
        cov.ExpQuad(3, ls=ARD) * cov.Linear(3, c=CENTER) * cov.Matern32(3, ls=1.1, active_dims=TWO),
        times(EXPQUAD, pair(oracle.linear, CENTER), pair(oracle.matern32, 1.1, columns=TWO)),
        1,
    ),
    "product of sums": (
        (cov.Matern52(3, ls=ARD) + 0.5) * (cov.Linear(3, c=CENTER) + cov.Constant(1.5)) * 2.0,
        times(
            plus(MATERN52, pair(oracle.constant, 0.5)),
            plus(pair(oracle.linear, CENTER), pair(oracle.constant, 1.5)),
            pair(oracle.constant, 2.0),
        ),
        2,
    ),
    "power": (cov.Matern52(3, ls=ARD) ** 2.5, power(MATERN52, 2.5), 2),
    "gibbs": (
        cov.Gibbs(3, lengthscale, active_dims=[1]),
        pair(oracle.gibbs, lengthscale, columns=[1]),
        SMOOTH,
    ),
    "scaled": (
        cov.ScaledCov(3, cov.ExpQuad(3, ls=ARD), lengthscale),
        lambda x, xs, m=np: lengthscale(x) * lengthscale(xs) * EXPQUAD(x, xs, m),
        2,
    ),
    "warped": (
        warped_input(cov.ExpQuad(2, ls=ARD[:2])),
        warped(pair(oracle.expquad, ARD[:2])),
        SMOOTH,
    ),
    "warped matern52 of one column": (
        0.5 * warped_input(cov.Matern52(2, ls=0.9, active_dims=[1])),
        times(pair(oracle.constant, 0.5), warped(pair(oracle.matern52, 0.9, columns=[1]))),
        2,
    ),
    "warped linear": (warped_input(cov.Linear(2, c=0.2)), warped(pair(oracle.linear, 0.2)), SMOOTH),
}
SLOW = ("warped matern52 of one column", "warped linear")
every_case = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in CASES]
)


@functools.cache
def compiled(name):
    """Everything a kernel gives for rows x and rows xs, by one compiled function."""
    kernel, _, smoothness = from_pymc(CASES[name][0]), *CASES[name][1:]
    x, xs = (pt.tensor(label, shape=(None, 3)) for label in ("x", "xs"))
    outputs = {"gram": kernel.gram(x), "value": kernel.value(x, xs), "diag": kernel.diag(x)}
    outputs |= {o: kernel.derivative(x, xs, *o) for o in ORDERS if max(o) <= smoothness}
    function = pytensor.function([x, xs], list(outputs.values()), mode=MODE)
    return lambda X, Xs: dict(zip(outputs, function(X, Xs), strict=True))


def points(name, n):
    return np.random.default_rng(sum(map(ord, name))).normal(size=(n, 3))


def awkward_pairs(name):
    """Separated, coincident and nearly coincident points; the last two lie at 1e6."""
    x = points(name, 6)
    step = points(name + "step", 6)
    xs = x + np.array([0.3, 1.0, 0.0, 1e-9, 0.3, 0.0])[:, None] * step
    x[4:] += 1e6
    xs[4:] += 1e6
    if "warped" in name:
        return x[:4], xs[:4]
    return x, xs


@every_case
def test_smoothness(name):
    assert from_pymc(CASES[name][0]).smoothness == CASES[name][2]


@every_case
def test_derivatives_are_those_of_the_oracle(name):
    x, xs = awkward_pairs(name)
    results = compiled(name)(x, xs)
    for order in [o for o in [(0, 0), (1, 0), (1, 1), (2, 0)] if o in results]:
        truth = np.array(
            [oracle.derivative(CASES[name][1], *p, *order) for p in zip(x, xs, strict=True)]
        )
        axes = tuple(range(1, truth.ndim))
        # 1e-14 of the size of the entries: at the same pair, or where coordinates are of order 1
        size = np.maximum(abs(truth).max(axis=axes, keepdims=True), abs(truth[:4]).max())
        error = abs(results[order] - truth)
        assert (error <= 1e-14 * size).all(), (order, error)


@every_case
def test_exchanging_the_points_transposes(name):
    x, xs = awkward_pairs(name)
    there, back = compiled(name)(x, xs), compiled(name)(xs, x)
    for i, j in [o for o in [(1, 0), (0, 1), (1, 1), (2, 0), (0, 2)] if o in there]:
        swapped = back[j, i].swapaxes(-1, -2) if i + j == 2 else back[j, i]
        scale = abs(there[i, j]).max()
        np.testing.assert_allclose(there[i, j], swapped, rtol=1e-13, atol=1e-13 * scale)


@every_case
def test_matrices_of_values(name):
    X = points(name, 12) + (0.0 if "warped" in name else 100.0)
    X[7] = X[2]
    X[8] = X[3] + 1e-9
    Xs = X[:5] + 0.1
    results = compiled(name)(np.concatenate([X, Xs]), np.concatenate([X, Xs]))
    every = np.concatenate([X, Xs])
    truth = CASES[name][1](every[:, None], every[None])
    # distances by inner products: 1e-13 in s^2, hence 3e-7 in s, which only Matern12 feels
    tolerance = 1e-6 if CASES[name][2] == 0 else 2e-12
    for result in (results["gram"], results["value"]):
        np.testing.assert_allclose(result, truth, rtol=0, atol=tolerance * abs(truth).max())
    np.testing.assert_allclose(results["diag"], np.diag(truth), rtol=1e-14)
    np.testing.assert_allclose(np.diag(results["gram"]), np.diag(truth), rtol=1e-14)


@every_case
def test_joint_covariance_of_function_and_gradient_is_positive(name):
    n = 9
    X = points(name, n)
    first, second = np.divmod(np.arange(n * n), n)
    results = compiled(name)(X[first], X[second])
    joint = results[0, 0].reshape((n, n))
    if (1, 1) in results:
        left = results[1, 0].reshape((n, n, 3)).swapaxes(1, 2).reshape((3 * n, n))
        right = results[0, 1].reshape((n, 3 * n))
        both = results[1, 1].reshape((n, n, 3, 3)).swapaxes(1, 2).reshape((3 * n, 3 * n))
        joint = np.block([[joint, right], [left.reshape((n, 3, n)).reshape((3 * n, n)), both]])
    np.testing.assert_allclose(joint, joint.T, rtol=0, atol=1e-13 * abs(joint).max())
    eigenvalues = np.linalg.eigvalsh(joint)
    assert eigenvalues[0] > -1e-12 * eigenvalues[-1]
    gram = compiled(name)(X, X)["gram"]
    assert np.linalg.eigvalsh(gram)[0] > -1e-12 * abs(gram).max()


def test_gram_is_exact_on_the_diagonal():
    X = points("diagonal", 30) * 40.0 + 1e4
    for name in ("expquad", "matern52", "matern32", "matern12", "ratquad", "periodic", "gibbs"):
        assert np.array_equal(np.diag(compiled(name)(X, X)["gram"]), np.ones(30))


@pytest.mark.parametrize(
    "cov_func",
    [
        CASES["sum"][0],
        cov.Constant(2.0),
        pytest.param(CASES["linear"][0], marks=pytest.mark.slow),
        pytest.param(CASES["gibbs"][0], marks=pytest.mark.slow),
    ],
    ids=["sum", "constant", "linear", "gibbs"],
)
def test_points_broadcast(cov_func):
    X, Xs = points("left", 4), points("right", 3)
    first, second = np.divmod(np.arange(12), 3)
    kernel = from_pymc(cov_func)
    outputs = [kernel.derivative(X[:, None], Xs[None], *order) for order in ORDERS]
    outputs += [kernel.derivative(X[first], Xs[second], *order) for order in ORDERS]
    outputs += [kernel.derivative(X[0], Xs[1], *order) for order in ORDERS]
    results = pytensor.function([], outputs, mode=MODE)()
    for order, grid, row, one in zip(ORDERS, results, results[6:], results[12:], strict=False):
        assert grid.shape == (4, 3, *[3] * sum(order))
        np.testing.assert_allclose(grid.reshape(row.shape), row, rtol=1e-13)
        np.testing.assert_allclose(row[1], one, rtol=1e-13)


def test_number_of_columns_may_be_unknown_and_larger():
    cov_func = 2.0 * cov.Matern52(3, ls=0.8, active_dims=TWO)
    kernel = from_pymc(cov_func)
    x, xs = pt.matrix("x"), pt.matrix("xs")
    outputs = [kernel.gram(x), *(kernel.derivative(x, xs, *order) for order in ORDERS)]
    function = pytensor.function([x, xs], outputs, mode=MODE)
    X, Xs = (np.random.default_rng(seed).normal(size=(6, 5)) for seed in (1, 2))
    narrow = compiled("matern52 columns")(X[:, :3], Xs[:, :3])
    gram, *jets = function(X, Xs)
    np.testing.assert_allclose(gram, 2.0 * narrow["gram"], rtol=1e-14)
    for order, jet in zip(ORDERS, jets, strict=True):
        seen = jet[(slice(None), *[slice(3)] * sum(order))]
        np.testing.assert_allclose(seen, 2.0 * narrow[order], rtol=1e-14)
        assert np.count_nonzero(jet) == np.count_nonzero(seen)


# ---- hyperparameters ----

LS = pt.vector("ls", shape=(3,))
SHAPE = pt.scalar("shape")
TWICE = [(1, 1), (2, 0)]
HYPERPARAMETERS = {
    "expquad": (cov.ExpQuad(3, ls=LS), TWICE),
    "matern52": (SHAPE**2 * cov.Matern52(3, ls=LS), TWICE),
    "matern32": (
        cov.Matern32(3, ls=LS, active_dims=[2, 0, 1]) + SHAPE * cov.Linear(3, c=0.1),
        [(1, 1)],
    ),
    "matern12": (cov.Matern12(3, ls=LS), []),
    "cosine": (cov.Cosine(3, ls=SHAPE, active_dims=[1]), TWICE),
    "ratquad": (cov.RatQuad(3, alpha=SHAPE, ls=LS), TWICE),
    "periodic": (cov.Periodic(3, period=SHAPE, ls=LS), TWICE),
    "polynomial": (cov.Polynomial(3, c=LS, d=2.0, offset=SHAPE), TWICE),
    "product": (cov.Matern32(3, ls=LS) * cov.RatQuad(3, alpha=SHAPE, ls=0.9) + SHAPE, [(1, 1)]),
    "gibbs": (cov.Gibbs(3, lambda x, a: a + x[:, 0] ** 2, args=(SHAPE,), active_dims=[1]), []),
}


@pytest.mark.parametrize("name", HYPERPARAMETERS)
def test_gradients_of_hyperparameters(name):
    """Of the matrices and of derivatives, with duplicated rows and points far from 0."""
    cov_func, orders = HYPERPARAMETERS[name]
    kernel, rng = from_pymc(cov_func), np.random.default_rng(3)
    X = rng.normal(size=(8, 3)) + (100.0 if name != "polynomial" else 0.0)
    if name != "matern12":  # whose values between duplicates are uncertain by 1e-8
        X[5:7] = X[1:3] + np.array([[0.0], [1e-9]])
    outputs = [kernel.gram(pt.as_tensor(X)), kernel.value(pt.as_tensor(X), pt.as_tensor(X[:5]))]
    for order in orders:
        outputs.append(kernel.derivative(X[:, None], X[None, :4], *order))
    shapes = pytensor.function(
        [LS, SHAPE],
        [output.shape for output in outputs],
        mode=MODE,
        on_unused_input="ignore",
    )(ARD, 0.8)
    weights = [rng.normal(size=shape) for shape in shapes]
    total = sum((output * weight).sum() for output, weight in zip(outputs, weights, strict=True))
    gradients = pt.grad(total, [LS, SHAPE], disconnected_inputs="ignore")
    function = pytensor.function(
        [LS, SHAPE], [total, *gradients], mode=MODE, on_unused_input="ignore"
    )
    _, by_ls, by_shape = function(ARD, 0.8)
    step = 1e-5
    for a in range(3):
        move = step * np.eye(3)[a]
        slope = (function(ARD + move, 0.8)[0] - function(ARD - move, 0.8)[0]) / (2 * step)
        np.testing.assert_allclose(by_ls[a], slope, rtol=1e-6, atol=1e-6 * abs(by_ls).max())
    slope = (function(ARD, 0.8 + step)[0] - function(ARD, 0.8 - step)[0]) / (2 * step)
    np.testing.assert_allclose(by_shape, slope, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["expquad", "matern52", "matern32", "ratquad", "periodic"])
def test_every_operation_on_matrices_is_a_numpy_ufunc(name):
    """Others fall to a Python loop over the entries in the Python linker."""
    X = pt.tensor("X", shape=(None, 3))
    gram = from_pymc(HYPERPARAMETERS[name][0]).gram(X)
    outputs = [gram, *pt.grad(pt.sqr(gram).sum(), [LS, SHAPE], disconnected_inputs="ignore")]
    function = pytensor.function([X, LS, SHAPE], outputs, mode=MODE, on_unused_input="ignore")
    slow = [
        node
        for node in function.maker.fgraph.apply_nodes
        if isinstance(node.op, Elemwise)
        and node.outputs[0].type.broadcastable == (False, False)
        and node.op.nfunc_spec is None
    ]
    assert not slow


def test_random_variables_scale_and_shape_a_kernel():
    with pm.Model():
        ls = pm.Gamma("ls", 4.0, 4.0, shape=3)
        eta = pm.HalfNormal("eta")
        slope = pm.HalfNormal("slope", shape=1)
        kernel = from_pymc(eta**2 * cov.Matern52(3, ls=ls) + slope * cov.Linear(3, c=0.2))
    X = points("random", 5)
    outputs = [ls, eta, slope, kernel.gram(X), kernel.derivative(X, X[::-1], 1, 1)]
    ls, eta, slope, gram, mixed = pm.draw(outputs, random_seed=1, mode=MODE)
    truth = plus(
        times(pair(oracle.constant, eta**2), pair(oracle.matern52, ls)),
        times(pair(oracle.constant, slope[0]), pair(oracle.linear, 0.2)),
    )
    np.testing.assert_allclose(gram, truth(X[:, None], X[None]), rtol=1e-12)
    for x, xs, jet in zip(X, X[::-1], mixed, strict=True):
        np.testing.assert_allclose(jet, oracle.derivative(truth, x, xs, 1, 1), rtol=1e-12)


@pytest.mark.parametrize(
    "cov_func",
    [
        cov.ExpQuad(3, ls=ARD) * np.float64(3.0),
        cov.ExpQuad(3, ls=ARD) * np.array([3.0]),
        cov.ExpQuad(3, ls=ARD) * pytensor.shared(np.array(3.0)),
        cov.Constant(3) * cov.ExpQuad(3, ls=ARD),
        cov.ExpQuad(3, ls=ARD) * pt.constant([[3.0]]),
        1 * cov.ExpQuad(3, ls=ARD) + 2 * cov.ExpQuad(3, ls=ARD),
    ],
)
def test_multiples(cov_func):
    X = points("multiples", 4)
    gram = from_pymc(cov_func).gram(X).eval(mode=MODE)
    np.testing.assert_allclose(gram, 3.0 * oracle.expquad(X, X, ARD), rtol=1e-13)


def test_whole_numbers():
    """PyTensor keeps 20 in eight bits, where 20 squared is -112."""
    X = np.array([[1, 2, 30], [4, 1, 2]])
    kernel = from_pymc(100 * cov.ExpQuad(3, ls=20) * 2)
    gram, mixed = pytensor.function(
        [], [kernel.gram(X), kernel.derivative(X, X, 1, 1)], mode=MODE
    )()
    np.testing.assert_allclose(gram, 200 * oracle.expquad(X, X, 20.0), rtol=1e-13)
    np.testing.assert_allclose(mixed, 200 * np.array([np.eye(3)] * 2) / 400, rtol=1e-14)


# ---- covariance functions written by the user ----


@pytest.mark.parametrize("columns", [1, 2])
def test_a_function_of_points_may_return_one_column(columns):
    """For one feature, and for a scale of two: slopes against central differences."""
    reach = lambda x: 0.5 + 0.2 * x[:, :1] ** 2  # noqa: E731
    scaled = cov.ScaledCov(columns, cov.ExpQuad(columns, ls=0.7), reach)
    kernel = from_pymc(cov.Gibbs(1, reach) * scaled if columns == 1 else scaled)
    x, xs = pt.dmatrices("x", "xs")
    outputs = [kernel.value(x, xs), kernel.derivative(x, xs, 1, 0)]
    found = pytensor.function([x, xs], outputs, mode=MODE)
    A, B = np.random.default_rng(3).normal(size=(2, 4, columns))
    slopes = found(A, A)[1]
    for j, e in enumerate(1e-5 * np.eye(columns)):
        ahead, behind = found(A + e, A)[0], found(A - e, A)[0]
        np.testing.assert_allclose(slopes[..., j], np.diag(ahead - behind) / 2e-5, atol=1e-8)
