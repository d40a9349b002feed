"""Means of derivatives and attributions of probabilities and rates, by other roads.

The oracle finds the mode by scipy, has dense covariances, integrates over f by a fine trapezoid and
takes derivatives by differences.
"""

import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import expit, gammaln, log_ndtr, ndtr
from scipy.stats import norm

import bayes_gpx as bx
import oracle
from bayes_gpx.draws import scales

RNG = np.random.default_rng(6)
N = 25
X = RNG.normal(size=(N, 2))
F = 2 * np.sin(1.5 * X[:, 0])
LABELS = (F + RNG.logistic(size=N) > 0).astype(int)
EXPOSURE = RNG.uniform(0.5, 2, size=N)
COUNTS = RNG.poisson(EXPOSURE * np.exp(F))
NEW, START = np.array([[0.4, -0.3], [1.5, 0.8], [-1.2, 1.0]]), np.array([-0.6, 0.2])
DRAWS = [
    {"lengthscale": np.array([0.8, 1.3]), "amplitude": 1.5},
    {"lengthscale": np.array([1.4, 0.9]), "amplitude": 2.5},
]
A = 1.7
"""Dispersion."""
QUIET = {"progressbar": False}
SIGN = 2 * LABELS - 1
KINDS = {
    "logit": (LABELS, {"likelihood": "bernoulli"}, expit, lambda f: -np.logaddexp(0, -SIGN * f)),
    "probit": (
        LABELS,
        {"likelihood": "bernoulli", "link": "probit"},
        ndtr,
        lambda f: log_ndtr(SIGN * f),
    ),
    "poisson": (
        COUNTS,
        {"likelihood": "poisson", "exposure": EXPOSURE},
        np.exp,
        lambda f: COUNTS * f - EXPOSURE * np.exp(f),
    ),
    "negative_binomial": (
        COUNTS,
        {"likelihood": "negative_binomial", "exposure": EXPOSURE},
        np.exp,
        lambda f: COUNTS * f - (A + COUNTS) * np.log(A + EXPOSURE * np.exp(f)) + gammaln(A),
    ),
}


class Oracle:
    """Dense Laplace posterior of one draw: mean and variance of the smooth f, anywhere."""

    def __init__(self, theta, logp, family):
        self.theta, self.family = theta, family
        K = self.cov(X, X)
        if family is bx.GPX:
            K = K + theta["sigma_w"] ** 2 * np.diag((X**2).sum(axis=1))
        K = K + 1e-12 * np.eye(N)
        root = np.linalg.cholesky(K)

        def slope(f, h=1e-4):
            return (logp(f + h) - logp(f - h)) / (2 * h)

        def objective(white):
            f = root @ white
            return 0.5 * white @ white - logp(f).sum(), white - root.T @ slope(f)

        options = {"gtol": 1e-9, "maxiter": 3000}
        found = minimize(objective, np.zeros(N), jac=True, method="BFGS", options=options)
        self.f = root @ found.x
        W = -(logp(self.f + 1e-3) - 2 * logp(self.f) + logp(self.f - 1e-3)) / 1e-6
        self.alpha, self.C = np.linalg.solve(K, self.f), np.linalg.inv(K + np.diag(1 / W))

    def cov(self, x, xs):
        K = self.theta["amplitude"] ** 2 * oracle.expquad(x, xs, self.theta["lengthscale"])
        return K * (x @ xs.T) if self.family is bx.GPX else K

    def moments(self, x):
        k = self.cov(x, X)
        prior = np.array([self.cov(row[None], row[None])[0, 0] for row in x])
        return k @ self.alpha, prior - np.einsum("mi,ij,mj->m", k, self.C, k)


def expected(oracles, S, x):
    """E S(f) over draws, at rows x."""
    z = np.linspace(-12, 12, 1601)
    total = 0.0
    for one in oracles:
        m, V = one.moments(np.atleast_2d(x))
        total = total + (S(m[:, None] + np.sqrt(V)[:, None] * z) * norm.pdf(z)).sum(1) * 0.015
    return total / len(oracles)


def slope(oracles, S, x, d, h=2e-4):
    move = h * np.eye(2)[d]
    return (expected(oracles, S, x + move) - expected(oracles, S, x - move)) / (2 * h)


def posed(kind, family=bx.GP):
    y, options, S, logp = KINDS[kind]
    more = {"dispersion": A} if kind == "negative_binomial" else {}
    more |= {"sigma_w": 0.3} if family is bx.GPX else {}
    draws = [theta | more for theta in DRAWS]
    model = family(X, y, scale=False, **options)
    values = {
        name: (("chain", "draw", *["feature"] * np.ndim(draws[0][name])), [stacked])
        for name in draws[0]
        for stacked in [np.stack([theta[name] for theta in draws])]
    }
    coords = {"chain": [0], "draw": [0, 1], "feature": ["x0", "x1"]}
    idata = xr.DataTree.from_dict({"posterior": xr.Dataset(values, coords)})
    return model, idata, [Oracle(theta, logp, family) for theta in draws], S


CASES = [(kind, bx.GP) for kind in KINDS] + [
    ("poisson", bx.GPX),
    pytest.param("logit", bx.GPX, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("kind", "family"), CASES)
def test_means_are_those_of_the_dense_posterior(kind, family):
    """Of derivatives, and of attributions by scipy's quadrature along the path."""
    model, idata, oracles, S = posed(kind, family)
    found = bx.derivatives(model, idata, NEW, seed=0, keep="summary", **QUIET)
    truth = np.stack([slope(oracles, S, NEW, d) for d in range(2)], axis=1)
    size = np.abs(truth).max()
    assert_allclose(found["derivative_mean"], truth, atol=2e-6 * size)
    assert found.attrs["moments"].startswith("means exact")
    shares = bx.attributions(model, idata, NEW, baseline=START, seed=0, keep="summary", **QUIET)
    for i, x in enumerate(NEW[:1]):
        way = x - START
        for d in range(2):
            along = quad(lambda t, d=d, w=way: slope(oracles, S, START + t * w, d)[0], 0, 1)[0]
            mean = shares["attribution_mean"].values[i, d]
            assert_allclose(mean, way[d] * along, atol=3e-6 * size)
    total = expected(oracles, S, NEW) - expected(oracles, S, START)
    assert_allclose(shares["difference_mean"], total, atol=2e-6 * np.abs(total).max())


def bend(oracles, S, x, d, e, h=1e-3):
    """Second derivative of the expected response, by differences of fourth order."""
    one, other = np.eye(2)[d], np.eye(2)[e]
    steps, weights = np.array([-2, -1, 1, 2]) * h, np.array([1, -8, 8, -1]) / (12 * h)
    return sum(
        a * b * expected(oracles, S, x + s * one + t * other)
        for s, a in zip(steps, weights, strict=True)
        for t, b in zip(steps, weights, strict=True)
    )


@pytest.mark.parametrize(("kind", "family"), CASES)
def test_second_derivatives_are_those_of_the_dense_posterior(kind, family):
    model, idata, oracles, S = posed(kind, family)
    found = bx.derivatives(model, idata, NEW, order=2, seed=0, keep="summary", **QUIET)
    mean = found["second_derivative_mean"].transpose("obs", "feature", "feature_bis").values
    truth = np.empty((3, 2, 2))
    for d in range(2):
        for e in range(2):
            truth[:, d, e] = bend(oracles, S, NEW, d, e)
    assert_allclose(mean, truth, atol=1e-5 * np.abs(truth).max())
    assert found.attrs["moments"].startswith("means exact")
    name = model.specification.observation.mean_name
    per_unit = "per unit of the feature and of feature_bis"
    of_y = "that y = 1" if name == "probability" else "of y"
    assert found.attrs["units"] == f"{name} {of_y} {per_unit}"
    assert found.attrs["scale"] == "response"


@pytest.mark.parametrize(
    "kind", ["logit", "probit", "poisson", pytest.param("classes", marks=pytest.mark.slow)]
)
def test_second_derivatives_of_functions_are_differences_of_their_responses(kind):
    """Of each random function; their average over functions is near the exact mean."""
    if kind == "classes":
        model = bx.GP(X, np.digitize(F, [-0.5, 0.5]), likelihood="categorical", scale=False)
    else:
        model = posed(kind)[0]
    theta = {name: DRAWS[0][name] for name in model.hyperparameters}
    options = {"draws": 50, "seed": 4, **QUIET}
    functions = bx.sample_functions(model, theta, **options)

    def responses(x):
        f = functions.predictions(x)["f"].values[0]
        if kind == "classes":
            return np.exp(f - np.logaddexp.reduce(f, axis=-1, keepdims=True))
        return KINDS[kind][2](f)

    found = functions.derivatives(NEW, order=2, on="response")
    drawn = found["second_derivative"].values[0]
    h, size = 3e-4, np.abs(drawn).max()
    for d in range(2):
        for e in range(2):
            one, other = h * np.eye(2)[[d, e]]
            ends = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
            four = [a * b * responses(NEW + a * one + b * other) for a, b in ends]
            assert_allclose(drawn[:, :, d, e], sum(four) / (4 * h**2), atol=2e-5 * size)
    exact = bx.derivatives(model, theta, NEW, order=2, joint=True, **options)
    assert_allclose(exact["second_derivative"].values[0], drawn, atol=1e-10 * size)
    error = drawn.mean(axis=0) - exact["second_derivative_mean"]
    assert np.all(np.abs(error) < 5 * exact["second_derivative_sd"] / np.sqrt(50))
    options |= {"features": ["x1"], "joint": True}
    one = bx.derivatives(model, theta, NEW, order=2, **options)
    for part in ("", "_mean", "_sd"):
        whole = exact[f"second_derivative{part}"].sel(feature=["x1"], feature_bis=["x1"])
        assert_allclose(one[f"second_derivative{part}"], whole, rtol=1e-9)


def test_second_derivatives_of_classes_are_differences_of_predictions():
    """Of probabilities by the same quasi-random points."""
    labels = np.digitize(F, [-0.5, 0.5])
    model = bx.GP(X, labels, likelihood="categorical", correlation=1, scale=False)
    theta = DRAWS[0] | {"loading": np.array([[0.9], [-0.7], [0.2]])}
    options = {"draws": 2, "keep": "summary", "seed": 0, **QUIET}
    found = bx.derivatives(model, theta, NEW, order=2, **options)["second_derivative_mean"]
    h = 2e-3

    def at(x):
        return bx.predictions(model, theta, x, **options)["probability_mean"].values

    steps, weights = np.array([-2, -1, 1, 2]) * h, np.array([1, -8, 8, -1]) / (12 * h)
    one, other = np.eye(2)
    both = list(zip(steps, weights, strict=True))
    pairs = [(s, a, t, b) for s, a in both for t, b in both]
    truth = sum(a * b * at(NEW + s * one + t * other) for s, a, t, b in pairs)
    mean = found.sel(feature="x0", feature_bis="x1").transpose("obs", "class").values
    assert_allclose(mean, truth, atol=1e-5 * np.abs(truth).max())


def test_random_functions_agree_with_the_exact_means():
    model, idata, _, _ = posed("logit")
    theta = DRAWS[0]
    found = bx.attributions(model, theta, NEW, baseline=START, draws=400, seed=3, **QUIET)
    error = found["attribution"].mean(("chain", "draw")) - found["attribution_mean"]
    assert np.all(np.abs(error) < 5 * found["attribution_sd"] / np.sqrt(400))
    assert np.any(np.abs(error) > 0)


def test_means_are_kept_wherever_the_draws_go(tmp_path):
    model, idata, _, _ = posed("poisson")
    options = {"baseline": START, "seed": 1, **QUIET}
    whole = bx.attributions(model, idata, NEW, **options)
    kept = bx.attributions(model, idata, NEW, path=tmp_path / "store", **options)
    stored = xr.open_zarr(tmp_path / "store", chunks=None)
    one = bx.attributions(model, idata, NEW, features=["x1"], **options)
    for name in ("attribution_mean", "difference_mean"):
        assert_allclose(kept[name], whole[name], rtol=1e-12)
        assert_allclose(stored[name], whole[name], rtol=1e-12)
    assert_allclose(kept["attribution"], whole["attribution"], rtol=1e-10)
    assert_allclose(one["attribution_mean"][:, 0], whole["attribution_mean"][:, 1], rtol=1e-12)
    thinned = bx.attributions(model, idata, NEW, num_draws=1, **options)
    first = bx.attributions(model, idata.isel(draw=[0]), NEW, draws=3, **options)
    assert_allclose(thinned["attribution_mean"], first["attribution_mean"], rtol=1e-12)


def test_long_and_steep_paths_are_given_what_they_need():
    """Paths of 1 and of 12 lengthscales, on which the rate or probability climbs and falls."""
    steep = {"lengthscale": np.array([0.4, 0.4]), "amplitude": 8.0}
    model = bx.GP(X, LABELS, likelihood="bernoulli", scale=False)
    ends = np.array([[-0.5, 0.1], [3.0, 3.0]])
    found = bx.attributions(model, steep, ends, baseline=START, draws=30, seed=0, **QUIET)
    assert found["completeness_residual"].max() < 1e-7
    both = bx.predictions(
        model, steep, np.vstack([ends, START]), draws=10, keep="summary", **QUIET
    )["probability_mean"].values
    assert_allclose(found["difference_mean"], both[:2] - both[2], atol=1e-9)


def test_taylor_is_the_corrected_formula():
    """S(m) + V / 2 S''(m) along x, by differences; and near the exact mean where V is small."""
    model, idata, oracles, S = posed("logit")
    found = bx.attributions(model, idata, NEW, baseline=START, method="taylor", **QUIET)

    def expanded(x, h=1e-3):
        total = 0.0
        for one in oracles:
            m, V = one.moments(np.atleast_2d(x))
            total = total + S(m) + 0.5 * V * (S(m + h) - 2 * S(m) + S(m - h)) / h**2
        return total / len(oracles)

    difference = expanded(NEW) - expanded(START)
    assert_allclose(found["difference_mean"], difference, atol=1e-6)
    assert_allclose(found["attribution_mean"].sum("feature"), difference, atol=1e-6)
    way = NEW[0] - START
    for d in range(2):
        move = 1e-4 * np.eye(2)[d]

        t, w = np.polynomial.legendre.leggauss(40)
        x = START + 0.5 * (t[:, None] + 1) * way
        rate = (expanded(x + move) - expanded(x - move)) / 2e-4
        share = way[d] * 0.5 * w @ rate
        assert_allclose(found["attribution_mean"][0, d], share, atol=1e-6)
    assert "attribution" not in found and found.attrs["method"] == "taylor"


def test_the_error_of_taylor_is_of_second_order_in_the_variance():
    """Of the response alone, with a tenth of the variance 100 times less."""
    observation = bx.GP(X, LABELS, likelihood="bernoulli").specification.observation
    m, errors = np.array([0.6, -1.0]), []
    for V in (0.01, 0.001):
        exact, taylor = (scales._response(observation, t)[1](m, np.full(2, V)) for t in (0, 1))
        errors.append(np.abs(exact[0] - taylor[0]))
    assert_allclose(errors[0] / errors[1], 100, rtol=0.03)


def test_slopes_of_a_rate_are_averages_over_joint_functions():
    model, idata, oracles, S = posed("poisson")
    theta, options = DRAWS[0], {"draws": 1000, "seed": 5, **QUIET}
    found = bx.slopes(model, theta, NEW, **options)
    truth = np.mean([[slope(oracles[:1], S, NEW, d) for d in range(2)]], axis=(0, 2))
    assert_allclose(found["average_slope_mean"], truth, rtol=1e-5)
    error = found["average_slope"].mean(("chain", "draw")) - truth
    assert np.all(np.abs(error) < 5 * found["average_slope_sd"] / np.sqrt(1000))
    assert found.attrs["units"] == "rate of y per unit of the feature"
    band = found["band_simultaneous"]
    drawn = bx.derivatives(model, theta, NEW, joint=True, **options)["derivative"]
    low, high = band.sel(ci_bound="lower"), band.sel(ci_bound="upper")
    inside = ((drawn >= low) & (drawn <= high)).all("obs").mean(("chain", "draw"))
    assert_allclose(inside, found.attrs["ci_prob"], atol=1e-3)
    latent = bx.slopes(model, theta, NEW, on="latent", **options)
    assert np.all(np.abs(latent["average_slope_mean"] - truth) > 1e-3)


def test_slopes_along_a_path_integrate_to_the_attribution():
    model, idata, _, _ = posed("logit")
    options = {"baseline": START, "seed": 2, **QUIET}
    path = bx.path_slopes(model, idata, NEW[:1], **options)
    shares = bx.attributions(model, idata, NEW[:1], joint=True, **options)
    assert_allclose(path["attribution_mean"], shares["attribution_mean"][0], atol=1e-5)
    assert_allclose(path["attribution"], shares["attribution"][:, :, 0], atol=1e-4)
    assert path.attrs["units"] == "probability that y = 1 per unit of the feature"


def test_what_taylor_is_not_for():
    model, idata, _, _ = posed("logit")
    taylor = {"method": "taylor", **QUIET}
    normal = bx.GP(X, F, scale=False)
    with pytest.raises(ValueError, match="likelihood='normal'.*Use method='exact'"):
        bx.attributions(normal, DRAWS[0] | {"sigma": 0.1}, NEW, **taylor)
    with pytest.raises(ValueError, match="on='latent'"):
        bx.attributions(model, idata, NEW, on="latent", **taylor)
    with pytest.raises(ValueError, match="means alone, without .'covariance'"):
        bx.attributions(model, idata, NEW, covariance=True, **taylor)
    with pytest.raises(ValueError, match="3 baseline rows"):
        bx.attributions(model, idata, NEW, baseline=NEW, **taylor)
    with pytest.raises(ValueError, match="dict of baselines"):
        bx.attributions(model, idata, NEW, baseline={"a": START}, **taylor)
    with pytest.raises(ValueError, match="unknown 'x9'|x9"):
        bx.attributions(model, idata, NEW, features=["x9"], **taylor)
    with pytest.raises(ValueError, match="steps was given"):
        bx.attributions(model, idata, NEW, steps=5, **taylor)


@pytest.mark.parametrize("likelihood", ["bernoulli", "categorical"])
def test_a_path_of_no_length_has_nothing_to_explain(likelihood):
    model = bx.GP(X, LABELS, likelihood=likelihood)
    for start in X[:3]:
        options = {"baseline": start, "draws": 10, "seed": 0, **QUIET}
        found = bx.attributions(model, DRAWS[0], start[None], **options)
        for name in ("attribution", "attribution_mean", "difference", "difference_mean"):
            assert not found[name].values.any()
