"""Path integrals of kernels against mpmath and finite differences."""

import mpmath as mp
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.linalg import norm
from numpy.polynomial.legendre import leggauss
from numpy.testing import assert_allclose

import oracle
from bayes_gpx.kernels.from_pymc import from_pymc
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.numerics.quadrature import gauss_legendre, rule
from bayes_gpx.processes import expected_gradients, integrated_gradients

D = 3
ALPHA = 0.7
mp.mp.dps = 30
ROOT_3, ROOT_5 = mp.sqrt(3), mp.sqrt(5)
PROFILES = {
    "ExpQuad": (lambda s: mp.exp(-(s**2) / 2), lambda s: mp.exp(-(s**2) / 2)),
    "Matern52": (
        lambda s: mp.mpf(5) / 3 * (1 + ROOT_5 * s) * mp.exp(-ROOT_5 * s),
        lambda s: mp.mpf(25) / 3 * mp.exp(-ROOT_5 * s),
    ),
    "Matern32": (
        lambda s: 3 * mp.exp(-ROOT_3 * s),
        lambda s: 3 * ROOT_3 * mp.exp(-ROOT_3 * s) / s,
    ),
    "RatQuad": (
        lambda s: (1 + s**2 / (2 * mp.mpf(ALPHA))) ** (-mp.mpf(ALPHA) - 1),
        lambda s: (
            (mp.mpf(ALPHA) + 1)
            / mp.mpf(ALPHA)
            * (1 + s**2 / (2 * mp.mpf(ALPHA))) ** (-mp.mpf(ALPHA) - 2)
        ),
    ),
}
ACCURACY = {"ExpQuad": 1e-10, "Matern52": 1e-8, "Matern32": 1e-8, "RatQuad": 1e-8}
"""Of cross covariances, relative to the integral of the absolute value."""


def precise(*arrays):
    return [[mp.mpf(float(v)) for v in array] for array in arrays]


def true_cross(name, x, baseline, other, lengthscale):
    """Attributions' covariance with one value, and the same with absolute values inside."""
    x, baseline, other, lengthscale = precise(x, baseline, other, lengthscale)
    P = [(b - o) / ls for b, o, ls in zip(baseline, other, lengthscale, strict=True)]
    way = [(a - b) / ls for a, b, ls in zip(x, baseline, lengthscale, strict=True)]
    a = sum(v**2 for v in way)
    breaks = [mp.mpf(i) / 16 for i in range(17)]
    if a:
        foot = -sum(p * v for p, v in zip(P, way, strict=True)) / a
        breaks += [foot + s * k / mp.sqrt(a) for k in (0, 0.3, 1, 3, 8, 20) for s in (-1, 1)]
    breaks = sorted({t for t in breaks if 0 <= t <= 1})

    def slope(t):
        return PROFILES[name][0](
            mp.sqrt(sum((p + t * v) ** 2 for p, v in zip(P, way, strict=True)))
        )

    early = mp.quad(lambda t: (1 - t) * slope(t), breaks)
    late = mp.quad(lambda t: t * slope(t), breaks)
    ends = [(p, p + v) for p, v in zip(P, way, strict=True)]
    value = [-v * (p * early + q * late) for v, (p, q) in zip(way, ends, strict=True)]
    size = [abs(v) * (abs(p) * early + abs(q) * late) for v, (p, q) in zip(way, ends, strict=True)]
    return np.array(value, float), np.array(size, float)


def true_block(name, x, baseline, lengthscale):
    x, baseline, lengthscale = precise(x, baseline, lengthscale)
    way = [(a - b) / ls for a, b, ls in zip(x, baseline, lengthscale, strict=True)]
    r = mp.sqrt(sum(v**2 for v in way))
    if not r:
        return np.zeros((D, D))
    breaks = sorted({mp.mpf(0), mp.mpf(1), *[k / r for k in (0.1, 1, 3, 8, 20, 60) if k < r]})
    first, second = PROFILES[name]
    straight = 2 * mp.quad(lambda t: (1 - t) * first(r * t), breaks)
    bent = 2 * mp.quad(lambda t: (1 - t) * t**2 * second(r * t), breaks)
    return np.array(
        [
            [way[i] * way[j] * ((i == j) * straight - way[i] * way[j] * bent) for j in range(D)]
            for i in range(D)
        ],
        float,
    )


def compiled(kernel, *names):
    """Functions of x, baseline, xs and lengthscale."""
    x, xs = (pt.tensor(n, dtype="float64", shape=(None, D)) for n in ("x", "xs"))
    baseline, lengthscale = (pt.tensor(n, dtype="float64", shape=(D,)) for n in ("b", "ls"))
    k = from_pymc(kernel(lengthscale))
    built = {
        "cross": lambda: integrated_gradients.cross(k, x, baseline, xs),
        "block": lambda: integrated_gradients.block(k, x, baseline),
        "between": lambda: integrated_gradients.between(k, x, xs, baseline),
    }
    return pytensor.function(
        [x, baseline, xs, lengthscale],
        [built[name]() for name in names],
        mode=MODE,
        on_unused_input="ignore",
    )


def named(name):
    extra = {"alpha": ALPHA} if name == "RatQuad" else {}
    return lambda ls: getattr(pm.gp.cov, name)(D, ls=ls, **extra)


HEAVY = ("RatQuad", "Matern52", "ExpQuad")


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("Matern32", (0.05,)),
        pytest.param("Matern32", (1e-3, 1.0, 1e3), marks=pytest.mark.slow),
        *(pytest.param(name, (1e-3, 0.05, 1.0, 1e3), marks=pytest.mark.slow) for name in HEAVY),
    ],
)
def test_integrals_agree_with_mpmath(rng, name, sizes):
    function = compiled(named(name), "cross", "block")
    for size in sizes:
        lengthscale = size * rng.uniform(0.5, 2, D)
        baseline, far = rng.normal(size=(2, D))
        x = np.stack([baseline, baseline + 0.1 * size * far, far, baseline + [1, 0, 0]])
        halfway, beyond = (baseline + far) / 2, 2 * far - baseline
        near = halfway + 0.02 * size * rng.normal(size=D)
        xs = np.stack([baseline, far, halfway, beyond, near, rng.normal(size=D)])
        cross, block = function(x, baseline, xs, lengthscale)
        for i, point in enumerate(x):
            assert_allclose(
                block[i], true_block(name, point, baseline, lengthscale), rtol=1e-12, atol=1e-290
            )
            for j, other in enumerate(xs):
                value, scale = true_cross(name, point, baseline, other, lengthscale)
                # What has decayed by 26 orders of magnitude is held to the kernel's own size.
                allowed = ACCURACY[name] * np.maximum(scale, 1e-26 * np.abs(x[i] - baseline))
                assert (np.abs(cross[i, :, j] - value) <= allowed + 1e-290).all()


def test_a_kernel_times_a_linear_one_is_its_dense_quadrature(rng):
    """Closed forms, whose digits are few on short paths and on long ones."""
    kernel = lambda ls: pm.gp.cov.ExpQuad(D, ls=ls) * pm.gp.cov.Linear(D, c=np.zeros(D))  # noqa: E731
    function, scale = compiled(kernel, "cross"), rng.uniform(0.5, 2.0, D)
    baseline, way = rng.normal(size=(2, D))
    others = baseline + scale * rng.normal(size=(4, D))
    x = baseline + scale * way * np.array([[1e-3], [0.49], [0.51], [2.0], [30.0]]) / norm(way)
    (cross,) = function(x, baseline, others, scale)
    nodes, weights = leggauss(20)
    t = ((np.arange(200)[:, None] + 0.5 + 0.5 * nodes) / 200).ravel()
    dt = np.tile(weights / 400, 200)
    points = baseline + t[:, None] * (x - baseline)[:, None]  # (path, node, feature)
    apart = (points[:, :, None] - others) / scale
    linear = (points @ others.T)[..., None]
    slopes = np.exp(-0.5 * (apart**2).sum(-1, keepdims=True)) * (others - apart / scale * linear)
    parts = dt[:, None, None] * slopes * (x - baseline)[:, None, None]
    size = np.abs(parts).sum(axis=1).transpose(0, 2, 1)
    assert (np.abs(cross - parts.sum(axis=1).transpose(0, 2, 1)) <= 2e-13 * size).all()


KERNELS = {name: named(name) for name in PROFILES} | {
    "Periodic": lambda ls: pm.gp.cov.Periodic(D, period=2.7, ls=ls),
    "Linear": lambda ls: pm.gp.cov.Linear(D, c=0.3 * ls),
    "Polynomial": lambda ls: pm.gp.cov.Polynomial(D, c=0.1 * ls, d=3, offset=0.5),
    "sum on columns": lambda ls: (
        2.0 * pm.gp.cov.ExpQuad(D, ls=ls[:2], active_dims=[0, 2])
        + pm.gp.cov.Matern32(D, ls=1.1, active_dims=[1])
        + pm.gp.cov.Constant(0.4)
    ),
    "product": lambda ls: pm.gp.cov.Matern52(D, ls=ls) * pm.gp.cov.ExpQuad(D, ls=1.2),
    "times linear": lambda ls: (
        pm.gp.cov.Matern32(D, ls=ls[:2], active_dims=[0, 1])
        * pm.gp.cov.Linear(D, c=np.ones(1), active_dims=[2])
    ),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=pytest.mark.slow if n in ("product", "Periodic") else ())
        for n in KERNELS
    ],
)
def test_attributions_are_complete(rng, name):
    """Sums over features are differences of the kernel's own values."""
    function = compiled(KERNELS[name], "cross", "block")
    baseline, x, xs = rng.normal(size=D), rng.normal(size=(4, D)), rng.normal(size=(5, D))
    x[0], lengthscale = baseline, np.array([0.8, 1.5, 1.0])
    cross, block = function(x, baseline, xs, lengthscale)
    points = np.vstack([x, baseline, xs])
    kernel = from_pymc(KERNELS[name](pt.as_tensor(lengthscale)))
    K = kernel.gram(pt.as_tensor(points)).eval(mode=MODE)
    there, start, rest = slice(0, 4), 4, slice(5, None)
    assert_allclose(cross.sum(axis=1), K[there, rest] - K[start, rest], atol=2e-8)
    own = K.diagonal()[there] + K[start, start] - 2 * K[there, start]
    assert_allclose(block.sum(axis=(1, 2)), own, atol=2e-8)
    assert_allclose(block, block.transpose(0, 2, 1), atol=1e-14)
    assert (np.linalg.eigvalsh(block) > -1e-9).all()
    assert (block[0] == 0).all() and (cross[0] == 0).all()


@pytest.mark.parametrize("name", PROFILES)
def test_long_paths_end_and_pass_near_other_points(rng, name):
    """Over 1e6 lengthscales: sums over features are differences of values, here by differences."""
    function = compiled(named(name), "cross")
    lengthscale, alpha = np.array([0.8, 1.5, 1.0]), [ALPHA] * (name == "RatQuad")
    baseline, way = rng.normal(size=D), 1e6 * np.array([1.0, 0.5, -0.25])
    x = baseline + way + rng.normal(size=(4, D))
    xs = np.vstack([baseline + rng.normal(size=(5, D)), x + 0.1, baseline + way / 2])
    (cross,) = function(x, baseline, xs, lengthscale)
    K = getattr(oracle, name.lower())(np.vstack([x, baseline]), xs, lengthscale, *alpha)
    # Rules of 24 to 48 nodes leave 1e-9, of the rational quadratic's long tails 4e-8.
    assert_allclose(cross.sum(axis=1), K[:4] - K[4], atol=1e-7 if alpha else 1e-8)


AMONG = [*PROFILES, "Linear", "sum on columns", "times linear"]


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow if n != "ExpQuad" else ()) for n in AMONG],
)
def test_covariance_between_points(rng, name):
    """It holds each point's own block, is symmetric, and sums to that of differences."""
    function = compiled(KERNELS[name], "block", "between")
    baseline, x, lengthscale = rng.normal(size=D), rng.normal(size=(4, D)), np.array([0.8, 1.5, 1])
    x[1] = baseline + 0.4 * (x[0] - baseline)
    block, between = function(x, baseline, x, lengthscale)
    assert_allclose(between, between.transpose(2, 3, 0, 1), atol=1e-11)
    for i in range(4):
        assert_allclose(between[i, :, i], block[i], atol=1e-9)
    kernel = from_pymc(KERNELS[name](pt.as_tensor(lengthscale)))
    K = kernel.gram(pt.as_tensor(np.vstack([x, baseline]))).eval(mode=MODE)
    gained = np.hstack([np.eye(4), -np.ones((4, 1))])
    assert_allclose(between.sum(axis=(1, 3)), gained @ K @ gained.T, atol=1e-9)


@pytest.mark.parametrize("foot", [0.0, 0.3, 1.0])
def test_nodes_around_a_foot_are_a_rule_for_the_unit_interval(foot):
    nodes = [pt.as_tensor(part) for part in gauss_legendre(6)]
    t, w = (
        part.eval(mode=MODE)[:, 0, 0, 0]
        for part in integrated_gradients._to_foot(nodes, pt.as_tensor([[[foot]]]))
    )
    for power in range(6):
        assert_allclose(w @ t**power, 1 / (power + 1), rtol=1e-12)
    assert_allclose(w @ abs(t - foot) ** 0.5, (foot**1.5 + (1 - foot) ** 1.5) / 1.5, rtol=1e-12)


def test_nodes_between_points_give_the_closed_form(rng):
    """What kernels without a closed form go by, on one that has it."""
    k = from_pymc(pm.gp.cov.ExpQuad(D, ls=np.array([0.8, 1.5, 1.0])))
    x, baseline, xs = (pt.as_tensor(rng.normal(size=shape)) for shape in ((2, D), (D,), (2, D)))
    closed = integrated_gradients.between(k, x, xs, baseline)
    by_nodes = integrated_gradients._between_by_nodes(k, x, xs, baseline, None)
    assert_allclose(by_nodes.eval(mode=MODE), closed.eval(mode=MODE), atol=1e-9)


@pytest.mark.parametrize(
    ("base", "columns", "shared"),
    [
        (pm.gp.cov.ExpQuad, ([0, 1], [2, 3]), True),
        (pm.gp.cov.ExpQuad, ([0, 1, 3], [1, 2, 3]), False),
        pytest.param(pm.gp.cov.Matern52, ([0, 1], [2, 3]), False, marks=pytest.mark.slow),
        pytest.param(pm.gp.cov.RatQuad, ([0, 1], [2, 3]), True, marks=pytest.mark.slow),
    ],
)
def test_moments_between_points_are_those_of_nodes(base, columns, shared, rng):
    """Of a kernel times a linear one, as of a GPX: both places of each move along the paths.

    Their sums are covariances of differences, which need no quadrature; nodes miss kinks by 1e-6.
    """
    own, weighed = columns
    more = {"alpha": 0.7} if base is pm.gp.cov.RatQuad else {}
    product = base(4, **more, ls=np.array([0.8, 1.5, 1.1])[: len(own)], active_dims=own)
    center = np.array([0.3, -0.5, 0.2])[: len(weighed)]
    product *= pm.gp.cov.Linear(4, c=center, active_dims=weighed)
    x, xs = (pt.constant(rng.normal(size=(3, 4))) for _ in range(2))
    xs = x if shared else xs
    baseline, k = pt.constant(rng.normal(size=4)), from_pymc(1.7 * product)
    closed = integrated_gradients.between(k, x, xs, baseline).eval(mode=MODE)
    by_nodes = integrated_gradients._between_by_nodes(k, x, xs, baseline, None).eval(mode=MODE)
    assert_allclose(closed, by_nodes, atol=1e-5 if base is pm.gp.cov.Matern52 else 1e-8)
    K = k.gram(pt.concatenate([x, xs, baseline[None]])).eval(mode=MODE)
    gained = np.hstack([np.eye(6), -np.ones((6, 1))])
    assert_allclose(closed.sum(axis=(1, 3)), (gained @ K @ gained.T)[:3, 3:], atol=1e-10)


def test_many_nodes_of_each_path_are_paired(rng):
    """More than are compiled one by one, between paths and for all paths to a point."""
    x, xs, starts = rng.normal(size=(2, 2)), rng.normal(size=(3, 2)), rng.normal(size=(2, 2))
    smooth, nodes = from_pymc(pm.gp.cov.ExpQuad(2, ls=[1.0, 1.4])), gauss_legendre(30)
    arguments = smooth, pt.constant(x), pt.constant(xs), pt.constant(starts[0])
    closed = integrated_gradients.between(*arguments).eval(mode=MODE)
    found = integrated_gradients.between(*arguments, nodes).eval(mode=MODE)
    assert_allclose(found, closed, atol=1e-10)
    season = from_pymc(pm.gp.cov.Periodic(2, period=3.0, ls=[1.0, 1.4]))
    block = expected_gradients.block(season, pt.constant(x), pt.constant(starts), nodes)
    K = season.gram(pt.constant(np.vstack([x, starts]))).eval(mode=MODE)
    gained = np.hstack([np.eye(2), np.full((2, 2), -0.5)])
    whole = np.diag(gained @ K @ gained.T)
    assert_allclose(block.eval(mode=MODE).sum(axis=(1, 2)), whole, atol=1e-10)


def test_exchanging_ends_flips_the_sign(rng):
    function = compiled(named("Matern52"), "cross")
    baseline, x, xs = rng.normal(size=D), rng.normal(size=(1, D)), rng.normal(size=(5, D))
    (there,) = function(x, baseline, xs, np.ones(D))
    (back,) = function(baseline[None], x[0], xs, np.ones(D))
    assert_allclose(there, -back, atol=1e-12)


@pytest.mark.parametrize(("method", "order"), [("right", 1), ("trapezoid", 2), ("simpson", 4)])
def test_rules_of_the_papers_converge_at_their_order(method, order):
    def error(steps):
        nodes = rule(method, steps)
        return abs((nodes.w * np.exp(nodes.t)).sum() - (np.e - 1))

    assert abs(np.log2(error(16) / error(32)) - order) < 0.1


def test_gauss_legendre_integrates_polynomials():
    nodes = gauss_legendre(4, panels=3)
    assert_allclose((nodes.w * nodes.t**7).sum(), 1 / 8)


@pytest.mark.parametrize("steps", [0, -1, 2.5, True, None])
def test_steps_are_whole_and_positive(steps):
    with pytest.raises(ValueError, match="steps"):
        rule("right", steps)


def test_unknown_rules_and_odd_simpson_are_refused():
    with pytest.raises(ValueError, match="middle"):
        rule("middle", 3)
    with pytest.raises(ValueError, match="even"):
        rule("simpson", 3)
