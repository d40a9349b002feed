"""KL-diff and KL-diff^2 against the divergence itself, differentiated with 50 digits."""

import mpmath
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from scipy.stats import norm, poisson

import bayes_gpx as bx
import oracle
from bayes_gpx.draws import each_draw, evaluate
from bayes_gpx.draws.hyperparameter_draws import hyperparameter_draws
from bayes_gpx.draws.points import points

QUIET = {"progressbar": False}
LENGTHS, AMPLITUDE, SIGMA, SIGMA_W = [0.9, 1.7], 0.8, 0.4, 0.3
PAIRS = {"expquad": oracle.expquad, "matern52": oracle.matern52, "matern32": oracle.matern32}
SETTINGS = ("GP", "Z held", "Z is X", "Z is X, intercept")
H = mpmath.mpf(10) ** -12
"""Of central differences with 50 digits; their error is below 1e-11 even at Matern 3/2's kink."""


@pytest.fixture(autouse=True)
def digits():
    with mpmath.workdps(50):
        yield


def exactly(values):
    return np.vectorize(mpmath.mpf, otypes=[object])(np.asarray(values, float))


class Dense:
    """Predictive mean and variance of a new sample's y, on the model's scale, by mpmath."""

    def __init__(self, model, kernel, setting):
        data = model.training.scaled()
        self.x, self.pair, self.setting = exactly(data["X"]), PAIRS[kernel].pair, setting
        self.own = self._features(self.x, data.get("Z"))
        y = exactly(data["y"])
        n = len(y)
        C = mpmath.matrix(n, n)
        for i in range(n):
            for j in range(n):
                C[i, j] = self._covariance(self.x[i], self.own[i], self.x[j], self.own[j])
            noise = mpmath.mpf(SIGMA_W) ** 2 if setting != "GP" else 0
            C[i, i] += mpmath.mpf(SIGMA) ** 2 + noise * (self.own[i] ** 2).sum()
        self.inverse = C**-1
        self.alpha = self.inverse * mpmath.matrix(list(y))

    def _features(self, x, Z):
        if self.setting == "GP":
            return exactly(np.ones((len(x), 1)))
        if self.setting == "Z held":
            return exactly(Z)
        return np.hstack([x, exactly(np.ones((len(x), int(self.setting.endswith("intercept")))))])

    def _covariance(self, x, z, xs, zs):
        k = self.pair(x, xs, exactly(LENGTHS), m=mpmath)
        return mpmath.mpf(AMPLITUDE) ** 2 * k * (z * zs).sum()

    def moments(self, x, z=None):
        z = self._features(x[None], None if z is None else z[None])[0]
        n = len(self.x)
        k = [self._covariance(x, z, self.x[i], self.own[i]) for i in range(n)]
        k = mpmath.matrix(k)
        variance = self._covariance(x, z, x, z) + mpmath.mpf(SIGMA) ** 2
        if self.setting != "GP":
            variance += mpmath.mpf(SIGMA_W) ** 2 * (z**2).sum()
        return (k.T * self.alpha)[0], variance - (k.T * self.inverse * k)[0]

    def differentiated(self, x, z=None):
        """Moments, and their first and second derivatives, by central differences."""
        d = len(x)
        eye = exactly(np.eye(d))

        def at(step):
            return np.array(self.moments(x + H * step, z), dtype=object)

        first = [(at(eye[i]) - at(-eye[i])) / (2 * H) for i in range(d)]
        second = [
            [
                (at(a + b) - at(a - b) - at(b - a) + at(-a - b)) / (4 * H**2)
                if a is not b
                else (at(a) - 2 * at(0 * a) + at(-a)) / H**2
                for b in eye
            ]
            for a in eye
        ]
        return at(0 * x), first, second


def divergence(here, there):
    (m, v), (moved, w) = here, there
    return (mpmath.log(w / v) + (v + (m - moved) ** 2) / w - 1) / 2


def build(setting, kernel, regression, **options):
    X, Z, y, X_new, Z_new = regression
    X, Z, y = X[:8], Z[:8], y[:8]
    theta = {"lengthscale": LENGTHS, "amplitude": AMPLITUDE, "sigma": SIGMA}
    if setting == "GP":
        return bx.GP(X, y, kernel=kernel, **options), theta, (X_new,)
    theta["sigma_w"] = SIGMA_W
    if setting == "Z held":
        return bx.GPX(X, y, Z, kernel=kernel, **options), theta, (X_new, Z_new)
    intercept = setting.endswith("intercept")
    return bx.GPX(X, y, kernel=kernel, intercept=intercept, **options), theta, (X_new,)


def among(names, fast):
    """All pairs of settings and names, those that are not `fast` marked as slow."""
    return [
        pytest.param(s, n, marks=() if (s, n) in fast else pytest.mark.slow)
        for s in SETTINGS
        for n in names
    ]


FAST = [("GP", "matern52"), ("Z held", "expquad"), ("Z is X", "matern32")]


@pytest.mark.parametrize(("setting", "kernel"), among(PAIRS, FAST))
def test_all_is_what_the_divergence_says(setting, kernel, regression):
    """At new points and at a training point, where Matern kernels have their kink."""
    model, theta, new = build(setting, kernel, regression)
    truth = Dense(model, kernel, setting)
    for asked, obs in ((new, [0, 2]), ((), [3])):
        where = points(model, *asked, obs=obs)
        hyper = hyperparameter_draws(model, theta)
        ((_, _, *jets, _),) = evaluate.jets(model, hyper, where, 2, **QUIET)
        near = bx.relevance(model, theta, *asked, obs=obs, **QUIET)
        pairs = bx.interactions(model, theta, *asked, obs=obs, factor=2, **QUIET)
        for i, row in enumerate(where.X):
            x = exactly(row)
            z = exactly(where.inputs["Z"][i]) if setting == "Z held" else None
            value, first, second = truth.differentiated(x, z)
            noise = SIGMA**2 * np.array([0.0, 1.0])
            for jet, k in zip(jets, (0, 1), strict=True):
                assert_allclose(jet.value[i] + noise[k], float(value[k]), rtol=1e-9, atol=1e-10)
                slopes = [float(part[k]) for part in first]
                assert_allclose(jet.first[i], slopes, rtol=1e-9, atol=1e-9)
                bends = [[float(part[k]) for part in parts] for parts in second]
                assert_allclose(jet.second[i], bends, rtol=1e-9, atol=1e-8)
            for j, name in enumerate(model.training.X.columns):
                step = H * exactly(np.eye(2)[j])
                both = [divergence(value, truth.moments(x + s * step, z)) for s in (1, -1)]
                rate = float(mpmath.sqrt(sum(both)) / H)
                scaled = near["relevance_scaled"].sel(feature=name).values[0, 0, i]
                assert_allclose(scaled, rate, rtol=1e-8)
                one = near["relevance"].sel(feature=name).values[0, 0, i]
                assert_allclose(one * model.training.X.values[:, j].std(), rate, rtol=1e-8)
            m, v = value
            information = [
                mpmath.diff(lambda t, m=m, v=v: divergence((m, v), (t, v)), m, 2),
                mpmath.diff(lambda t, m=m, v=v: divergence((m, v), (m, t)), v, 2),
            ]
            mixed = mpmath.diff(lambda s, t, m=m, v=v: divergence((m, v), (s, t)), (m, v), (1, 1))
            assert abs(mixed) < 1e-12
            total = sum(i * p**2 for i, p in zip(information, second[0][1], strict=True))
            found = pairs["interaction_scaled"].values[0, 0, i]
            assert_allclose(found[0, 1], float(mpmath.sqrt(2 * total)), rtol=1e-8)
            assert found[0, 1] == found[1, 0]
            assert np.isnan(np.diag(found)).all()


def test_a_pure_interaction_is_the_root_of_the_fourth_derivative():
    """f = w x_0 x_1 at 0, where nothing else changes the prediction."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(9, 2))
    y = 0.7 * X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=9)

    def product(d):
        one, other = (pm.gp.cov.Linear(2, c=0.0, active_dims=[i]) for i in range(2))
        return one * other

    model, zero = bx.GP(X, y, kernel=product, scale=False), np.zeros((1, 2))
    found = bx.interactions(model, {"sigma": 0.3}, zero, factor=2, **QUIET)
    u = X[:, 0] * X[:, 1]
    v = 1 / (1 + u @ u / 0.09)
    w = v * u @ y / 0.09

    def moved(a, b):
        return divergence((0, 0.09), (w * a * b, 0.09 + v * a**2 * b**2))

    fourth = mpmath.diff(moved, (0, 0), (2, 2))
    values = found["interaction"].values[0, 0, 0]
    assert_allclose(values[0, 1], float(mpmath.sqrt(fourth)), rtol=1e-8)
    half = bx.interactions(model, {"sigma": 0.3}, zero, **QUIET)["interaction"]
    assert_allclose(half[0, 0, 0, 0, 1] * np.sqrt(2), values[0, 1], rtol=1e-12)
    assert_allclose(bx.relevance(model, {"sigma": 0.3}, zero, **QUIET)["relevance"], 0.0)


def test_a_linear_model_has_its_slopes_in_standard_deviations(rng):
    X, beta = rng.normal(size=(400, 3)), np.array([1.0, -0.5, 0.0])
    y = X @ beta + 0.4 * rng.normal(size=400)
    model, theta = bx.GP(X, y, kernel="linear", scale=False), {"amplitude": 10.0, "sigma": 0.4}
    S = np.linalg.inv(X.T @ X / 0.16 + np.eye(3) / 100)
    b, new = S @ X.T @ y / 0.16, X[:20]
    V = (0.16 + (new @ S * new).sum(axis=1))[:, None]
    found = bx.relevance(model, theta, new, **QUIET)["relevance"][0, 0]
    assert_allclose(found, np.sqrt(b**2 / V + (2 * new @ S) ** 2 / (2 * V**2)), rtol=1e-8)
    assert_allclose(found, np.tile(abs(beta) / 0.4, (20, 1)), rtol=0.05, atol=0.1)
    pairs = bx.interactions(model, theta, new, **QUIET)["interaction"][0, 0]
    expected = abs(2 * S) / (np.sqrt(2) * V[..., None])
    off = ~np.eye(3, dtype=bool)
    assert_allclose(pairs.values[:, off], expected[:, off], rtol=1e-6)


# Divergences D(p, q), as functions of p (m, grid) and of u = q / p - 1, and the factors of their
# curvatures at q = p: F''(1) of sums of p F(q / p), and the order of Renyi's.
SMOOTH_DIVERGENCES = [
    (lambda p, u: (p * (u - np.log1p(u))).sum(axis=1), 1.0),  # Kullback-Leibler
    (lambda p, u: (p * ((1 + u) * np.log1p(u) - u)).sum(axis=1), 1.0),  # the same of q from p
    (lambda p, u: (p * u**2).sum(axis=1), 2.0),  # chi-square
    (lambda p, u: (p * (np.sqrt(1 + u) - 1) ** 2).sum(axis=1), 0.5),  # squared Hellinger
    (
        lambda p, u: 0.5 * (p * ((1 + u) * np.log1p(u) - (2 + u) * np.log1p(u / 2))).sum(axis=1),
        0.25,
    ),  # Jensen-Shannon
    (lambda p, u: np.log1p((p * ((1 + u) ** 3 - 1 - 3 * u)).sum(axis=1)) / 2, 3.0),  # Renyi's of 3
]


@pytest.mark.parametrize("likelihood", ["normal", "bernoulli", "poisson"])
def test_every_smooth_divergence_has_the_same_curvature_up_to_a_factor(likelihood, regression):
    """Divergences between predictions that are a small step apart, summed over y."""
    X, _, y, X_new, _ = regression
    seen = {"normal": y, "bernoulli": y > y.median(), "poisson": np.arange(14) % 5}[likelihood]
    theta = {"lengthscale": LENGTHS, "amplitude": AMPLITUDE}
    theta |= {"sigma": SIGMA} if likelihood == "normal" else {}
    model = bx.GP(X, seen, likelihood=likelihood)

    def weights(moved):
        """Probabilities of y on a grid, (m, grid)."""
        found = bx.predictions(model, theta, moved, draws=2, keep="summary", **QUIET)
        mean = found["response_mean"].values[:, None]
        if likelihood == "normal":
            grid = np.linspace(y.min() - 5 * y.std(), y.max() + 5 * y.std(), 2001)
            return norm.pdf(grid, mean, found["y_sd"].values[:, None]) * (grid[1] - grid[0])
        if likelihood == "poisson":
            return poisson.pmf(np.arange(60), mean)
        return np.hstack([mean, 1 - mean])

    found, here = bx.relevance(model, theta, X_new, **QUIET), weights(X_new)
    for j, name in enumerate(X):
        step = 1e-4 * X[name].std(ddof=0)
        there = []
        for sign in (1, -1):
            moved = X_new.copy()
            moved.iloc[:, j] += sign * step
            there.append(weights(moved))
        relevance = found["relevance"].sel(feature=name).values[0, 0]
        for divergence_of, factor in SMOOTH_DIVERGENCES:
            both = sum(divergence_of(here, (q - here) / here) for q in there)
            rate = np.sqrt(both / factor) / step
            assert_allclose(rate, relevance, rtol=1e-5, atol=1e-4 * relevance.max())


APPROXIMATIONS = {
    "inducing": bx.Inducing(5),
    "features": bx.RandomFeatures(40, 1),
    "hsgp": bx.HSGP(6, 3.0),
}


def differences(moments, X, j, i):
    """Derivatives of arrays `moments(X)` in features j and i (None: in j alone)."""
    step = 1e-3 * X.std().values

    def at(a, b=0.0):
        moved = X.copy()
        moved.iloc[:, j] += a * step[j]
        if i is not None:
            moved.iloc[:, i] += b * step[i]
        return moments(moved)

    if i is None:
        return (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * step[j])
    return (at(1, 1) - at(1, -1) - at(-1, 1) + at(-1, -1)) / (4 * step[j] * step[i])


def from_predictions(model, idata, X, *Z):
    """KL-diff and KL-diff^2 by differences of the moments of predictions."""

    def moments(moved):
        found = bx.predictions(model, idata, moved, *Z, keep="summary", **QUIET)
        return np.stack([found["y_mean"], found["y_sd"] ** 2])

    V = moments(X)[1]

    def rate(j, i=None):
        m_, v_ = differences(moments, X, j, i)
        return np.sqrt(m_**2 / V + v_**2 / (2 * V**2))

    return np.stack([rate(0), rate(1)], axis=1), rate(0, 1)


NEAR = [("GP", "hsgp"), ("Z held", "features"), ("Z is X", "inducing")]


@pytest.mark.parametrize(("setting", "name"), among(APPROXIMATIONS, NEAR))
def test_approximations_answer_for_their_own_predictions(setting, name, regression):
    model, theta, new = build(setting, "expquad", regression, approximation=APPROXIMATIONS[name])
    first, second = from_predictions(model, theta, *new)
    found = bx.relevance(model, theta, *new, **QUIET)["relevance"]
    pairs = bx.interactions(model, theta, *new, **QUIET)["interaction"]
    assert_allclose(found[0, 0], first, rtol=1e-7, atol=1e-8)
    assert_allclose(pairs[0, 0, :, 0, 1], second, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("kernel", "points", "rtol"),
    [
        pytest.param("expquad", "all rows", 1e-5, marks=pytest.mark.slow),
        ("matern32", "all rows", 1e-6),
        ("expquad", bx.HSGP(30, 4.0), 1e-6),
        pytest.param("linear", bx.RandomFeatures(2), 1e-8, marks=pytest.mark.slow),
    ],
)
def test_approximations_meet_the_exact_answer_where_they_are_exact(
    kernel, points, rtol, regression
):
    X, _, y, X_new, _ = regression
    approximation = bx.Inducing(X) if points == "all rows" else points
    theta = {"lengthscale": LENGTHS, "amplitude": AMPLITUDE, "sigma": SIGMA}
    theta = {"amplitude": 0.8, "sigma": 0.4} if kernel == "linear" else theta
    both = [bx.GP(X, y, kernel=kernel, approximation=a) for a in (None, approximation)]
    for verb, name in ((bx.relevance, "relevance"), (bx.interactions, "interaction")):
        exact, near = (verb(model, theta, X_new, **QUIET)[name] for model in both)
        assert_allclose(near, exact, rtol=rtol, atol=rtol * float(np.nanmax(exact)))


@pytest.fixture(scope="module")
def several():
    """A posterior of 2 x 3 draws that no sampler had to make."""
    spread = np.exp(np.random.default_rng(4).normal(0, 0.3, (2, 3)))
    posterior = xr.Dataset(
        {
            "lengthscale": (("chain", "draw", "feature"), spread[..., None] * LENGTHS),
            "amplitude": (("chain", "draw"), AMPLITUDE * spread),
            "sigma_w": (("chain", "draw"), SIGMA_W / spread),
            "sigma": (("chain", "draw"), SIGMA * spread),
        },
        {"chain": range(2), "draw": range(3), "feature": ["age", "dose"]},
    )
    return xr.DataTree.from_dict({"posterior": posterior})


@pytest.mark.parametrize("setting", ["Z held", pytest.param("Z is X", marks=pytest.mark.slow)])
def test_the_mixture_is_differentiated_as_a_whole(setting, several, regression):
    model, _, new = build(setting, "expquad", regression)
    first, second = from_predictions(model, several, *new)
    found = bx.relevance(model, several, *new, over="mixture", **QUIET)
    pairs = bx.interactions(model, several, *new, over="mixture", **QUIET)
    assert found["relevance"].dims == ("obs", "feature")
    assert_allclose(found["relevance"], first, rtol=1e-7)
    assert_allclose(pairs["interaction"][:, 0, 1], second, rtol=1e-4)
    assert_allclose(found["average_relevance"], found["relevance_scaled"].mean("obs"))
    steps = bx.relevance(
        model, several, *new, over="mixture", method="finite_difference", step=1e-5, **QUIET
    )
    assert_allclose(steps["relevance"], first, rtol=1e-3)


def test_each_draw_is_explained_by_itself(several, regression):
    model, _, new = build("Z held", "expquad", regression)
    for verb, name in ((bx.relevance, "relevance"), (bx.interactions, "interaction")):
        found = verb(model, several, *new, **QUIET)
        singles = []
        for chain in range(2):
            for draw in range(3):
                one = several["posterior"].isel(chain=chain, draw=draw)
                theta = {key: value.values for key, value in one.data_vars.items()}
                singles.append(verb(model, theta, *new, **QUIET)[name].values[0, 0])
        values = found[name].values
        assert_allclose(values.reshape((6, *values.shape[2:])), singles, rtol=1e-9)
        for moment, suffix in ((np.mean, "mean"), (np.std, "sd")):
            expected = moment(np.array(singles), axis=0)
            assert_allclose(found[f"{name}_{suffix}"], expected, rtol=1e-8, atol=1e-14)
        average = found[f"{name}_scaled"].mean("obs", skipna=False)
        assert_allclose(found[f"average_{name}"], average, rtol=1e-12)
        summary = verb(model, several, *new, keep="summary", **QUIET)
        assert name not in summary
        for kept in (f"{name}_mean", f"{name}_scaled_sd", f"average_{name}"):
            assert_allclose(summary[kept], found[kept], rtol=1e-12)
        thin = verb(model, several, *new, num_draws=2, **QUIET)
        assert_allclose(thin[name], found[name][:, [0]], rtol=1e-12)


def test_finite_differences_err_with_their_step(regression):
    model, theta, new = build("Z is X", "expquad", regression)
    exact = bx.relevance(model, theta, *new, **QUIET)["relevance"]
    errors = []
    for step in (1e-2, 1e-3, 1e-4):
        near = bx.relevance(model, theta, *new, method="finite_difference", step=step, **QUIET)
        errors.append(float(abs(near["relevance"] / exact - 1).max()))
    assert_allclose([errors[0] / errors[1], errors[1] / errors[2]], 10.0, rtol=0.1)
    assert near.attrs["step"] == 1e-4


@pytest.mark.slow
def test_blocks_of_rows_change_nothing(regression, monkeypatch):
    model, theta, _ = build("Z is X", "matern52", regression)
    whole = bx.interactions(model, theta, **QUIET)
    seen = []
    inner = evaluate.each_draw

    def spied(*given, **options):
        for found in inner(*given, **options):
            seen.append(found[2])
            yield found

    monkeypatch.setattr(each_draw, "BLOCK_BYTES", 3 * 8 * 8 * 4)
    monkeypatch.setattr(evaluate, "each_draw", spied)
    parts = bx.interactions(model, theta, **QUIET)
    assert [rows.stop - rows.start for rows in seen] == [3, 3, 2]
    assert_allclose(parts["interaction"], whole["interaction"], rtol=1e-9)


def test_a_constant_feature_has_no_relevance(rng):
    X = np.column_stack([rng.normal(size=12), np.full(12, 0.1), rng.normal(size=12)])
    y = np.sin(X[:, 0]) * X[:, 2]
    theta = {"lengthscale": [1.0, 1.0, 1.0], "amplitude": 1.0, "sigma": 0.1}
    model = bx.GP(X, y, kernel="matern32", scale=False)
    for over in ("draws", "mixture"):
        found = bx.relevance(model, theta, over=over, **QUIET)
        for name in ("relevance", "relevance_scaled"):
            values = found[name].values
            assert (values[..., 1] == 0.0).all()
            assert (values[..., [0, 2]] > 0.0).all()
        pairs = bx.interactions(model, theta, over=over, **QUIET)["interaction"].values
        assert (pairs[..., 0, 1] == 0.0).all()
        assert (pairs[..., 0, 2] > 0.0).all()
