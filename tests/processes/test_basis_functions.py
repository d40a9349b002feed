"""Basis functions: their products are the kernel, their slopes those of differences."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy.integrate import quad

import bayes_gpx as bx
from bayes_gpx.kernels.from_pymc import from_pymc
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.numerics.special import gamma_quantile
from bayes_gpx.processes import basis_functions

rng = np.random.default_rng(5)
X = rng.uniform(-1.0, 1.5, size=(30, 3))
x = rng.uniform(-0.8, 1.2, size=(6, 3))
baseline = rng.uniform(-0.5, 0.5, size=3)
x[0] = baseline
ls = np.array([0.7, 1.1, 0.9])
cov = pm.gp.cov
KERNELS = {
    "ExpQuad": cov.ExpQuad(3, ls=ls),
    "Matern52": 1.7 * cov.Matern52(3, ls=ls),
    "Matern32": cov.Matern32(3, ls=0.8),
    "RatQuad": cov.RatQuad(3, ls=ls, alpha=1.3),
    "sum": cov.ExpQuad(3, ls=ls) + 0.3 * cov.Linear(3, c=0.2) + cov.Constant(0.4),
    "columns": 0.5 * cov.Matern52(3, ls=0.6, active_dims=[2, 0]) + cov.Linear(3, 0.0, [1]),
}
APPROXIMATIONS = {"waves": bx.RandomFeatures(64, seed=3), "sines": bx.HSGP(5, 1.4)}
SPECTRA = {
    "ExpQuad": lambda w, ls: np.sqrt(2 * np.pi) * ls * np.exp(-0.5 * (w * ls) ** 2),
    "Matern52": lambda w, ls: 16 / 3 * (5**0.5 / ls) ** 5 / (5 / ls**2 + w**2) ** 3,
    "Matern32": lambda w, ls: 4 * (3**0.5 / ls) ** 3 / (3 / ls**2 + w**2) ** 2,
}
QUICK = dict(zip(KERNELS, ["waves", "sines"] * 3, strict=True))
CASES = [
    pytest.param(k, a, marks=() if QUICK[k] == a else pytest.mark.slow)
    for k in KERNELS
    for a in APPROXIMATIONS
]


def compiled(name, approximation, wanted=("value", "gradient", "hessian", "attribution")):
    points, start = pt.tensor("x", shape=(None, 3)), pt.tensor("b", shape=(3,))
    train = pt.tensor("X", shape=(None, 3))
    basis = basis_functions.basis_of(from_pymc(KERNELS[name]), approximation, train)
    outputs = {
        "value": basis.value(points),
        "gradient": basis.gradient(points),
        "hessian": basis.hessian(points),
        "attribution": basis.attribution(points, start),
    }
    outputs = {name: graph for name, graph in outputs.items() if name in wanted}
    function = pytensor.function(
        [points, start, train], list(outputs.values()), mode=MODE, on_unused_input="ignore"
    )
    return lambda points: dict(zip(outputs, function(points, baseline, X), strict=True))


def differences(function, points, step):
    """Central differences along each column, (m, d, ...)."""
    moves = step * np.eye(points.shape[1])
    slopes = [(function(points + move) - function(points - move)) / (2 * step) for move in moves]
    return np.stack(slopes, axis=1)


@pytest.mark.parametrize("name, approximation", CASES)
def test_slopes_are_those_of_differences(name, approximation):
    found = compiled(name, APPROXIMATIONS[approximation])
    slope = differences(lambda points: found(points)["value"], x, 1e-5)
    bend = differences(lambda points: found(points)["gradient"], x, 1e-5)
    scale = abs(slope).max()
    np.testing.assert_allclose(found(x)["gradient"], slope, atol=1e-8 * scale)
    np.testing.assert_allclose(found(x)["hessian"], bend, atol=1e-8 * abs(bend).max() + 1e-9)


@pytest.mark.parametrize("name, approximation", [("columns", "waves"), ("sum", "sines")])
def test_slopes_of_weighed_sums_are_sums_of_slopes(name, approximation):
    points, train = (pt.tensor(letter, shape=(None, 3)) for letter in "xX")
    shared, own = (pt.tensor("weights", shape=(rows, None)) for rows in (1, None))
    basis = basis_functions.basis_of(from_pymc(KERNELS[name]), APPROXIMATIONS[approximation], train)
    slopes = [basis.slope(points, weights) for weights in (shared, own)]
    outputs = [*slopes, basis.gradient(points)]
    inputs = [points, shared, own, train]
    function = pytensor.function(inputs, outputs, mode=MODE, on_unused_input="ignore")
    count = compiled(name, APPROXIMATIONS[approximation], ("value",))(x)["value"].shape[1]
    w = rng.normal(size=(1, count)), rng.normal(size=(len(x), count))
    *found, each = function(x, *w, X)
    for slope, weights in zip(found, w, strict=True):
        expected = np.einsum("mdk,mk->md", each, np.broadcast_to(weights, (len(x), count)))
        np.testing.assert_allclose(slope, expected, atol=1e-12 * abs(expected).max())


@pytest.mark.parametrize("name, approximation", CASES)
def test_attributions_are_integrals_of_slopes(name, approximation):
    found = compiled(name, APPROXIMATIONS[approximation])
    t, w = np.polynomial.legendre.leggauss(60)
    delta = x - baseline
    parts = [
        0.5 * v * found(baseline + 0.5 * (1 + s) * delta)["gradient"]
        for s, v in zip(t, w, strict=True)
    ]
    expected = delta[:, :, None] * sum(parts)
    results = found(x)
    np.testing.assert_allclose(results["attribution"], expected, atol=1e-12 * abs(expected).max())
    total = results["value"] - found(baseline[None])["value"]
    np.testing.assert_allclose(results["attribution"].sum(axis=1), total, atol=1e-12)
    assert not results["attribution"][0].any()


@pytest.mark.parametrize(
    "m",
    [
        (3, 1, 2, 2, 1, 2),
        pytest.param((1, 1, 90, 1, 1), marks=pytest.mark.slow),
        pytest.param((2,) * 9, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_attributions_to_many_columns_are_integrals_of_slopes(m):
    """From corner to corner of the box, where the fastest product turns most often."""
    d = len(m)
    corners = 0.5 * np.array([-np.ones(d), np.ones(d)])
    points, start = pt.tensor("x", shape=(None, d)), pt.tensor("b", shape=(d,))
    box = bx.HSGP(m, 1.2)
    basis = basis_functions.basis_of(from_pymc(cov.ExpQuad(d, ls=0.8)), box, pt.constant(corners))
    outputs = [basis.value(points), basis.gradient(points), basis.attribution(points, start)]
    of = pytensor.function([points, start], outputs, mode=MODE, on_unused_input="ignore")
    low, high = 1.2 * corners[0], np.stack([1.2 * corners[1], np.linspace(-0.6, 0.5, d)])
    t, w = np.polynomial.legendre.leggauss(400)
    shares = of(high, low)[2]
    for row, end in enumerate(high):
        way = end - low
        slopes = of(low + 0.5 * (1.0 + t)[:, None] * way, low)[1]
        expected = way[:, None] * np.einsum("t,tdM->dM", 0.5 * w, slopes)
        np.testing.assert_allclose(shares[row], expected, atol=1e-12 * abs(slopes).max())
        values = of(np.stack([low, end]), low)[0]
        np.testing.assert_allclose(shares[row].sum(axis=0), np.diff(values, axis=0)[0], atol=1e-12)


@pytest.mark.parametrize("name", KERNELS)
def test_many_waves_make_the_kernel(name):
    phi = compiled(name, bx.RandomFeatures(200_000), ["value"])(X)["value"]
    gram = from_pymc(KERNELS[name]).gram(pt.as_tensor(X)).eval(mode=MODE)
    np.testing.assert_allclose(phi @ phi.T, gram, atol=5 * gram.max() / np.sqrt(100_000))


@pytest.mark.parametrize("name", ["ExpQuad", "Matern52", "Matern32"])
def test_many_sines_make_the_kernel(name):
    """Up to what the spectral density holds beyond the fastest sine."""
    one = getattr(cov, name)(1, ls=0.7)
    points = X[:, :1]
    basis = basis_functions.basis_of(
        from_pymc(one), bx.HSGP(400, 6.0), pt.specify_shape(pt.as_tensor(points), (30, 1))
    )
    phi = basis.value(pt.as_tensor(points)).eval(mode=MODE)
    expected = from_pymc(one).gram(pt.as_tensor(points)).eval(mode=MODE)
    rate = 400 * np.pi / (6.0 * np.ptp(points))
    left_out = quad(lambda w: SPECTRA[name](w, 0.7) / np.pi, rate, np.inf)[0]
    np.testing.assert_allclose(phi @ phi.T, expected, atol=2.0 * left_out + 1e-13)


def test_hsgp_is_that_of_pymc():
    known = cov.Matern52(3, ls=ls)
    gp = pm.gp.HSGP(m=[5, 5, 5], c=1.4, cov_func=known)
    phi, root_psd = gp.prior_linearized(pt.as_tensor(X))
    theirs = (phi * root_psd).eval(mode=MODE)
    basis = basis_functions.basis_of(
        from_pymc(known), bx.HSGP(5, 1.4), pt.specify_shape(pt.as_tensor(X), (30, 3))
    )
    ours = basis.value(pt.as_tensor(X)).eval(mode=MODE)
    np.testing.assert_allclose(ours @ ours.T, theirs @ theirs.T, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("p", [3, 4])
def test_functions_times_features_are_their_products(p):
    """With p = d + 1 the last feature is an intercept, 1 everywhere."""
    basis = basis_functions.basis_of(from_pymc(KERNELS["ExpQuad"]), bx.HSGP(2, 1.4), pt.constant(X))
    points = pt.tensor("x", shape=(None, 3))
    times = basis_functions.TimesFeatures(basis, p)
    outputs = [times.value(points), times.gradient(points), basis.value(points)]
    function = pytensor.function([points], outputs, mode=MODE)
    value, slope, each = function(x)
    z = np.hstack([x, np.ones((6, 1))])[:, :p]
    np.testing.assert_allclose(value, (z[:, :, None] * each[:, None]).reshape((6, -1)), rtol=1e-13)
    expected = differences(lambda points: function(points)[0], x, 1e-5)
    np.testing.assert_allclose(slope, expected, atol=1e-8)


def test_frequencies_of_ratquad_are_differentiable_in_alpha():
    alpha = pt.dscalar("alpha")
    quantile = gamma_quantile(alpha, np.array([0.1, 0.5, 0.9]))
    each = [pt.grad(quantile[k], alpha) for k in range(3)]
    slopes = pytensor.function([alpha], pt.stack(each), mode=MODE)
    value = pytensor.function([alpha], quantile, mode=MODE)
    step = 1e-5
    expected = (value(1.3 + step) - value(1.3 - step)) / (2 * step)
    np.testing.assert_allclose(slopes(1.3), expected, rtol=1e-6)


@pytest.mark.parametrize(
    "kernel", [cov.Periodic(1, period=1.0, ls=1.0), cov.ExpQuad(1, 1.0) * cov.Linear(1, 0.0)]
)
def test_kernels_without_basis_functions_are_refused(kernel):
    with pytest.raises(ValueError, match="no basis functions"):
        basis_functions.basis_of(
            from_pymc(kernel), bx.RandomFeatures(10), pt.matrix(shape=(None, 1))
        )
