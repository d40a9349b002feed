"""Normal noise with a sd that is a process: mathematics by other means, and what users see."""

import mpmath
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, optimize, stats

import bayes_gpx as bx
from bayes_gpx.likelihoods.heteroscedastic import HeteroscedasticNormal
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.posteriors.evidence.processes import Fisher, processes_laplace, processes_mode

RNG = np.random.default_rng(3)
LIKELIHOOD = HeteroscedasticNormal(log_sd=-0.7, y_mean=3.0, y_sd=2.0)
CENTERS = np.array([3.0, np.log(2.0) - 0.7])
N = 15
X = np.sort(RNG.uniform(-2.0, 2.0, size=(N, 1)), axis=0)
Y = 3.0 + 2.0 * (np.sin(2.0 * X[:, 0]) + np.exp(X[:, 0] / 2.0 - 1.5) * RNG.normal(size=N))


def kernel(left, right, lengthscale, amplitude):
    """A squared exponential of one column."""
    return amplitude**2 * np.exp(-0.5 * ((left[:, None, 0] - right[:, 0]) / lengthscale) ** 2)


def prior(lengthscales=(0.8, 1.7), amplitudes=(2.0, 0.6)):
    """Covariances of both processes, (2, n, n), with the intercept of the log sd."""
    K = np.stack([kernel(X, X, *own) for own in zip(lengthscales, amplitudes, strict=True)])
    return K + np.array([0.0, 1.5**2])[:, None, None] + 1e-6 * np.eye(N)


def log_joint(f, K):
    """Log p(y | f) - f' K^-1 f / 2, f (n, 2)."""
    m, s = (f + CENTERS).T
    quadratic = sum(f[:, c] @ np.linalg.solve(K[c], f[:, c]) for c in range(2))
    return stats.norm.logpdf(Y, m, np.exp(s)).sum() - 0.5 * quadratic


def dense(K):
    """Log evidence, the mode (n, 2) and posterior covariances (2, n, n), by a general optimizer."""
    roots = np.linalg.cholesky(K)

    def f_of(white):
        return np.stack([R @ w for R, w in zip(roots, white.reshape((2, N)), strict=True)], axis=1)

    options = {"gtol": 1e-10, "maxiter": 2000}
    found = optimize.minimize(
        lambda white: -log_joint(f_of(white), K), np.zeros(2 * N), method="BFGS", options=options
    )
    f = f_of(found.x)
    W = np.stack([np.exp(-2.0 * (f[:, 1] + CENTERS[1])), np.full(N, 2.0)])
    cov = np.stack([np.linalg.inv(np.linalg.inv(K[c]) + np.diag(W[c])) for c in range(2)])
    logs = sum(np.linalg.slogdet(np.eye(N) + W[c][:, None] * K[c])[1] for c in range(2))
    return log_joint(f, K) - 0.5 * logs, f, cov


def compiled():
    K = pt.dtensor3("K")
    found = processes_laplace(LIKELIHOOD, K, Y)
    outputs = [*found, pt.grad(found[0], K), *processes_mode(LIKELIHOOD, K, Y)]
    return pytensor.function([K], outputs, mode=MODE)


FUNCTION = compiled()


def test_evidence_and_mode_are_those_of_a_general_optimizer():
    K = prior()
    logp, f, alpha, W, variance, left, _, again, slope, W_again = FUNCTION(K)
    evidence, mode, cov = dense(K)
    assert_allclose(logp, evidence, rtol=1e-7)  # to which the optimizer finds the mode
    assert_allclose(f, mode, atol=1e-4)
    assert_allclose(np.stack([K[c] @ alpha[:, c] for c in range(2)], axis=1), f, atol=1e-10)
    precision = np.exp(-2.0 * (f[:, 1] + CENTERS[1]))
    assert_allclose(W, np.stack([precision, np.full(N, 2.0)], axis=1), rtol=1e-12)
    own = np.diagonal(cov, axis1=1, axis2=2).T
    assert_allclose(variance, own, rtol=1e-4)
    assert_allclose(left, 1.0 - W * variance, atol=1e-10)
    assert_allclose(again, logp, rtol=1e-14)
    assert_allclose([slope, W_again], [alpha, W], rtol=1e-12)


@pytest.mark.parametrize("amplitudes", [(2.0, 0.6), (6.0, 2.0)])
def test_gradient_follows_the_mode(amplitudes):
    K, root = prior(amplitudes=amplitudes), np.linalg.cholesky(prior(amplitudes=amplitudes))
    way = RNG.normal(size=K.shape)
    way = 1e-4 * root @ (way + way.transpose(0, 2, 1)) @ root.transpose(0, 2, 1)  # K stays positive
    ends = [FUNCTION(K + t * way)[0] for t in (-2.0, -1.0, 1.0, 2.0)]
    difference = (ends[0] - 8.0 * ends[1] + 8.0 * ends[2] - ends[3]) / 12.0
    assert_allclose((FUNCTION(K)[6] * way).sum(), difference, rtol=1e-7)


def test_derivatives_are_those_of_exact_arithmetic():
    f, y = np.array([[0.4, -0.9], [-1.2, 0.3]]), np.array([4.1, 0.2])
    symbol = pt.dmatrix("f")
    outputs = [LIKELIHOOD.logp(symbol, y), *LIKELIHOOD.derivatives(symbol, y)]
    logp, slope, hessian = pytensor.function([symbol], outputs, mode=MODE)(f)

    def exact(i):
        def at(m, s):
            sd = mpmath.exp(s + CENTERS[1])
            z = (y[i] - m - CENTERS[0]) / sd
            return -(z**2) / 2 - mpmath.log(sd) - mpmath.log(2 * mpmath.pi) / 2

        return at

    for i in range(2):
        at, here = exact(i), tuple(f[i])
        assert_allclose(logp[i], float(at(*here)), rtol=1e-14)
        for c in range(2):
            order = tuple(int(c == k) for k in range(2))
            assert_allclose(slope[i, c], float(mpmath.diff(at, here, order)), rtol=1e-10)
            for k in range(2):
                both = tuple(int(c == j) + int(k == j) for j in range(2))
                expected = -float(mpmath.diff(at, here, both))
                assert_allclose(hessian[i, c, k], expected, rtol=1e-8)


def test_the_search_is_short_where_noise_differs_by_factors_of_a_million(monkeypatch):
    """With the preconditioner of earlier noise it needs 495 products."""
    products, solved = [], Fisher.solved

    def counted(self, v):
        products.append(len(v))
        return solved(self, v)

    monkeypatch.setattr(Fisher, "solved", counted)
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(-2.0, 2.0, size=40))
    y = np.sin(2.0 * x) + np.exp(3.0 * x - 3.0) * rng.normal(size=40)
    model = bx.GP(x[:, None], y, likelihood="heteroscedastic_normal")
    theta = {"lengthscale": [[1.0], [2.0]], "amplitude": [1.0, 3.0]}
    found = bx.log_likelihood(model, theta, progressbar=False)
    assert np.isfinite(found["log_marginal_likelihood"]).all()
    assert 0 < len(products) < 200


def test_fisher_is_the_expected_information():
    f = np.array([[0.4, -0.9]])
    m, s = f[0] + CENTERS
    symbol, y = pt.dmatrix("f"), pt.dvector("y")
    outputs = [LIKELIHOOD.derivatives(symbol, y)[1], LIKELIHOOD.fisher(symbol)]
    function = pytensor.function([symbol, y], outputs, mode=MODE)
    z, weights = np.polynomial.hermite_e.hermegauss(20)
    at = np.repeat(f, len(z), axis=0)
    hessians, fisher = function(at, m + np.exp(s) * z)
    expected = np.tensordot(weights / weights.sum(), hessians, 1)
    assert_allclose(fisher[0], expected, atol=1e-10)
    assert_allclose(fisher[0], np.diag([np.exp(-2.0 * s), 2.0]), rtol=1e-14)


def test_predictive_density_and_probability_are_integrals():
    """Of correlated m and s, by quadrature over y's conditional density."""
    mean, root = np.array([[0.3, -0.4]]), np.array([[[0.7, 0.0], [0.3, 0.5]]])
    cov, y = root[0] @ root[0].T, np.array([4.4])
    given = pt.dvector("y"), pt.dmatrix("mean"), pt.dtensor3("root")
    outputs = [LIKELIHOOD.log_predictive(*given), LIKELIHOOD.cumulative_predictive(*given)]
    log_density, at_most = pytensor.function(given, outputs, mode=MODE)(y, mean, root)

    def over_s(of_y):
        """Of y given s, which is normal with the variance of m given s."""
        slope, left = cov[0, 1] / cov[1, 1], cov[0, 0] - cov[0, 1] ** 2 / cov[1, 1]

        def at(s):
            center = CENTERS[0] + mean[0, 0] + slope * (s - mean[0, 1])
            sd = np.sqrt(left + np.exp(2.0 * (s + CENTERS[1])))
            return of_y(y[0], center, sd) * stats.norm.pdf(s, mean[0, 1], np.sqrt(cov[1, 1]))

        return integrate.quad(at, -6.0, 6.0, epsabs=1e-13)[0]

    assert_allclose(np.exp(log_density[0]), over_s(stats.norm.pdf), rtol=1e-9)
    assert_allclose(at_most[0], over_s(stats.norm.cdf), rtol=1e-9)


def test_moments_of_y_and_of_its_sd():
    mean, cov = np.array([2.0, -0.3]), np.array([[0.5, 0.2], [0.2, 0.4]])
    found = LIKELIHOOD.moments(mean, cov)
    f = np.random.default_rng(0).multivariate_normal(mean, cov, size=400_000)
    y = f[:, 0] + np.exp(f[:, 1]) * np.random.default_rng(1).normal(size=len(f))
    for own, draws in zip(np.transpose(found), (y, np.exp(f[:, 1])), strict=True):
        error = draws.std() / np.sqrt(len(draws))
        assert abs(own[0] - draws.mean()) < 4.0 * error
        square = (draws - draws.mean()) ** 2
        assert abs(own[1] - square.mean()) < 4.0 * square.std() / np.sqrt(len(draws))


THETA = {"lengthscale": [[0.8], [1.7]], "amplitude": [1.0, 0.6]}
QUIET = {"keep": "summary", "progressbar": False}


@pytest.fixture(scope="module")
def model():
    return bx.GP(X, Y, likelihood="heteroscedastic_normal")


@pytest.fixture(
    scope="module",
    params=[None, bx.HSGP(30, 3.0), bx.Inducing(10), bx.RandomFeatures(40)],
    ids=["all rows", "HSGP", "Inducing", "RandomFeatures"],
)
def any_model(request):
    """By Laplace's approximation, and through coefficients."""
    options = {"approximation": request.param}
    return bx.GP(X, Y, likelihood="heteroscedastic_normal", **options)


def scaled_prior(left, right):
    """Prior covariances (2, k, n) in user units of the model at `THETA`."""
    left, right = ((v - X.mean()) / X.std() for v in (left, right))
    own = zip(THETA["lengthscale"], (Y.std(), 0.6), strict=True)
    K = np.stack([kernel(left, right, *one) for one in own])
    return K + np.array([0.0, 1.5**2])[:, None, None]


def test_predictions_are_those_of_dense_algebra(model):
    new = np.array([[-1.0], [0.3], [2.5]])
    found = bx.predictions(model, THETA, new, **QUIET)
    likelihood = HeteroscedasticNormal(y_mean=Y.mean(), y_sd=Y.std())
    K = pt.dtensor3("K")
    _, alpha, W = pytensor.function([K], processes_mode(likelihood, K, Y), mode=MODE)(
        scaled_prior(X, X)
    )
    across, own = scaled_prior(new, X), scaled_prior(new, new)
    means, variances = [], []
    for c, center in enumerate((Y.mean(), np.log(Y.std()) - 1.0)):
        C = np.linalg.inv(scaled_prior(X, X)[c] + np.diag(1.0 / W[:, c]))
        means.append(center + across[c] @ alpha[:, c])
        variances.append(np.diag(own[c] - across[c] @ C @ across[c].T))
    assert_allclose(found["f_mean"].values.T, means, rtol=1e-8)
    assert_allclose(found["f_sd"].values.T ** 2, variances, rtol=1e-7)
    sd = np.exp(means[1] + variances[1] / 2.0)
    assert_allclose(found["sd_mean"], sd, rtol=1e-8)
    assert_allclose(found["y_mean"], means[0], rtol=1e-8)
    assert_allclose(found["y_sd"] ** 2, variances[0] + sd**2 * np.exp(variances[1]), rtol=1e-7)


def test_explanations_name_processes_and_parameters(model):
    for on, labels in (("latent", ["mean", "log_sd"]), ("response", ["mean", "sd"])):
        found = bx.derivatives(model, THETA, X[:2], on=on, **QUIET)
        assert found["class"].values.tolist() == labels


@pytest.mark.parametrize("on", ["latent", "response"])
@pytest.mark.parametrize("function", [bx.attributions, bx.shapley_values])
def test_attributions_add_up(function, on, any_model):
    found = function(any_model, THETA, X[::5], on=on, **QUIET)
    ends = [bx.predictions(any_model, THETA, at, **QUIET) for at in (X[::5], [[X.mean()]])]
    if on == "latent":
        here, there = (end["f_mean"].values for end in ends)
    else:
        names = ("y_mean", "sd_mean")
        here, there = (np.stack([end[name] for name in names], axis=1) for end in ends)
    assert_allclose(found["attribution_mean"].sum("feature"), here - there, atol=1e-6)
    assert found["completeness_residual"].max() < 1e-6


def test_derivatives_of_the_sd_are_differences_of_predictions(any_model):
    step, at = 1e-4, np.array([[0.4]])
    found = bx.derivatives(any_model, THETA, at, **QUIET)["derivative_mean"].values[0, 0]
    up, down = (bx.predictions(any_model, THETA, at + t, **QUIET) for t in (step, -step))
    for k, name in enumerate(("y_mean", "sd_mean")):
        difference = (up[name] - down[name]).item() / (2.0 * step)
        assert_allclose(found[k], difference, rtol=1e-6)


def test_components_are_those_of_dense_algebra(model):
    """At the mode, alpha is the slope of log p(y | f), and the information is Fisher's."""
    new = np.array([[-1.0], [0.3], [2.5]])
    found = bx.components(model, THETA, new, **QUIET)
    assert found["component"].values.tolist() == ["expquad", "constant"]
    m, s = bx.predictions(model, THETA, **QUIET)["f_mean"].values.T
    miss, precision = Y - m, np.exp(-2.0 * s)
    alpha = miss * precision, miss**2 * precision - 1.0
    centers = Y.mean(), np.log(Y.std()) - 1.0
    level = np.array([0.0, 1.5**2])
    K, across, above = (scaled_prior(*at) for at in ((X, X), (new, X), (new, new)))
    for c, W in enumerate((precision, np.full(N, 2.0))):
        C = np.linalg.inv(K[c] + np.diag(1.0 / W))
        parts = (across[c] - level[c], above[c] - level[c]), (level[c] * np.ones((3, N)), level[c])
        for name, center, (part, own) in zip(
            ("expquad", "constant"), (0.0, centers[c]), parts, strict=True
        ):
            one = found.isel({"class": c}).sel(component=name)
            assert_allclose(one["component_mean"], center + part @ alpha[c], atol=1e-7)
            variance = np.diag(own - part @ C @ part.T)
            assert_allclose(one["component_sd"] ** 2, variance, atol=1e-9)


def test_components_add_up(any_model):
    found = bx.components(any_model, THETA, X[::5], **QUIET)
    f = bx.predictions(any_model, THETA, X[::5], **QUIET)
    assert_allclose(found["component_mean"].sum("component"), f["f_mean"], atol=1e-9)
    assert_allclose(found["f_sd"], f["f_sd"], rtol=1e-9)
    assert found["completeness_residual"].max() < 1e-9


def test_constant_log_sd_is_normal_noise(model):
    """With an amplitude of 0 the posterior of the mean is a GP's at the mode of the noise sd."""
    theta = THETA | {"amplitude": [1.0, 1e-6]}
    found = bx.predictions(model, theta, X[:4] + 0.1, **QUIET)
    s = found["f_mean"].sel({"class": "log_sd"}).values
    assert np.ptp(s) < 1e-9
    normal = {"lengthscale": [0.8], "amplitude": 1.0, "sigma": np.exp(s[0]) / Y.std()}
    expected = bx.predictions(bx.GP(X, Y), normal, X[:4] + 0.1, **QUIET)
    for part in ("mean", "sd"):
        own = found[f"f_{part}"].sel({"class": "mean"})
        assert_allclose(own, expected[f"f_{part}"], rtol=1e-6)
    alone = optimize.minimize_scalar(
        lambda s: -_evidence_of_noise(s, normal) + ((s - np.log(Y.std()) + 1.0) / 1.5) ** 2 / 2.0,
        bracket=(-2.0, 0.0, 2.0),
        tol=1e-10,
    )
    assert_allclose(s[0], alone.x, atol=1e-4)


def _evidence_of_noise(s, normal):
    """Log p(y, m | s) at the best m, as Laplace's joint mode has it."""
    K = scaled_prior(X, X)[0]
    residual = np.linalg.solve(K + np.exp(2.0 * s) * np.eye(N), Y - Y.mean())
    return -0.5 * (Y - Y.mean()) @ residual - N * s


def test_left_out_rows_are_those_of_the_cavity(model):
    """Of a row whose site is removed by dense algebra."""
    found = bx.loo_predictions(model, THETA, progressbar=False, seed=1)
    likelihood = HeteroscedasticNormal(y_mean=Y.mean(), y_sd=Y.std())
    K = pt.dtensor3("K")
    prior_K = scaled_prior(X, X)
    _, f, alpha, W, *_ = pytensor.function([K], processes_laplace(likelihood, K, Y), mode=MODE)(
        prior_K
    )
    moments = []
    for c in range(2):
        cov = np.linalg.inv(np.linalg.inv(prior_K[c] + 1e-10 * np.eye(N)) + np.diag(W[:, c]))
        variance = 1.0 / (1.0 / np.diag(cov) - W[:, c])
        moments.append((f[:, c] - variance * alpha[:, c], variance))
    (m, V), (s, U) = moments
    s, m = s + np.log(Y.std()) - 1.0, m + Y.mean()
    assert_allclose(found["y_mean"], m, rtol=1e-4)
    assert_allclose(found["y_sd"] ** 2, V + np.exp(2.0 * s + 2.0 * U), rtol=1e-4)
    z, weights = np.polynomial.hermite_e.hermegauss(60)
    sds = np.sqrt(V[:, None] + np.exp(2.0 * (s[:, None] + np.sqrt(U)[:, None] * z)))
    density = stats.norm.pdf(Y[:, None], m[:, None], sds) @ (weights / weights.sum())
    assert_allclose(found["elpd"], np.log(density), atol=1e-4)


@pytest.mark.parametrize(
    ("wrong", "cure"),
    [
        ({"groups": np.arange(N) % 3}, "no groups"),
        ({"representation": "hierarchy"}, "representation='collapsed'"),
        ({"correlation": 1}, "correlation=0"),
        ({"kernel": lambda d: None}, "a kernel by its name"),
        ({"constraints": [bx.constraints.Increasing("x0")]}, "."),
    ],
)
def test_other_settings_are_refused(wrong, cure):
    with pytest.raises(ValueError, match=cure):
        bx.GP(X, Y, likelihood="heteroscedastic_normal", **wrong)


def test_a_fit_of_few_rows_needs_sampled_latent_values():
    model = bx.GP(X, Y, likelihood="heteroscedastic_normal")
    for method in ("map", "laplace", "nuts"):
        with pytest.raises(ValueError, match="latent='sample'"):
            model.fit(method, progressbar=False)


def test_a_gpx_and_several_outputs_are_refused():
    with pytest.raises(ValueError, match=r"bx\.GP"):
        bx.GPX(X, Y, likelihood="heteroscedastic_normal")
    with pytest.raises(ValueError, match="one response|one column|shape"):
        bx.GP(X, np.stack([Y, Y], axis=1), likelihood="heteroscedastic_normal")


@pytest.fixture(scope="module")
def fitted():
    """Of many rows: the sd grows with one feature, and the mean varies with the other."""
    rng = np.random.default_rng(5)
    x = rng.uniform(-1.5, 1.5, size=(120, 2))
    y = 10.0 * np.sin(1.5 * x[:, 0]) + np.exp(0.8 * x[:, 1] + 0.5) * rng.normal(size=120)
    model = bx.GP(x, y, likelihood="heteroscedastic_normal")
    start = {"lengthscale": [[0.8, 5.0], [5.0, 2.0]], "amplitude": [1.0, 1.0]}
    with pytest.warns(bx.FitWarning, match="latent='sample'"):
        return model, x, model.fit("map", start=start, progressbar=False)


def test_both_functions_are_recovered(fitted):
    model, x, idata = fitted
    assert idata["posterior"]["lengthscale"].dims == ("chain", "draw", "process", "feature")
    assert idata["posterior"]["process"].values.tolist() == ["mean", "log_sd"]
    found = bx.predictions(model, idata, **QUIET)
    truth = np.stack([10.0 * np.sin(1.5 * x[:, 0]), 0.8 * x[:, 1] + 0.5], axis=1)
    apart = found["f_mean"].values - truth
    assert (np.abs(apart) < 1.645 * found["f_sd"].values).mean(axis=0)[0] > 0.75
    assert np.corrcoef(found["f_mean"].values[:, 1], truth[:, 1])[0, 1] > 0.9
    assert abs(apart[:, 1].mean()) < 0.3  # Laplace's log sd is too low on average
    attributed = bx.attributions(model, idata, x[::6], **QUIET)["attribution_mean"]
    size = np.abs(attributed).mean("obs")
    assert size.sel({"class": "mean"}).values.argmax() == 0
    assert size.sel({"class": "sd"}).values.argmax() == 1


def test_save_and_load(fitted, tmp_path):
    model, x, idata = fitted
    bx.save(model, idata, tmp_path / "model.zip")
    again, kept = bx.load(tmp_path / "model.zip")
    found = [bx.predictions(*pair, x[:3], **QUIET) for pair in ((model, idata), (again, kept))]
    for name in ("f_mean", "y_sd", "sd_mean"):
        assert_allclose(found[1][name], found[0][name], rtol=1e-12)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Weights of 20 draws are not smoothed")
def test_sampled_latent_values():
    """The posterior mean of f is the mean of f given each draw of whitened values."""
    model = bx.GP(X, Y, likelihood="heteroscedastic_normal", priors=THETA)
    options = {"draws": 500, "tune": 500, "chains": 2, "seed": 1, "progressbar": False}
    idata = model.fit("nuts", latent="sample", **options)
    white = idata["posterior"]["y_white"].values.reshape((-1, N, 2))
    K = scaled_prior(X, X)
    own = 1e-8 * np.diagonal(K, axis1=1, axis2=2).mean(axis=1)[:, None, None] * np.eye(N)
    roots = np.linalg.cholesky(K + own)
    f = np.stack([white[:, :, c] @ roots[c].T for c in range(2)], axis=2).mean(axis=0)
    f = np.stack([K[c] @ np.linalg.solve(K[c] + own[c], f[:, c]) for c in range(2)], axis=1)
    centers = [Y.mean(), np.log(Y.std()) - 1.0]
    found = bx.predictions(model, idata, on="latent", **QUIET)
    assert_allclose(found["f_mean"], f + centers, atol=1e-7)
    laplace = bx.predictions(model, THETA, on="latent", **QUIET)
    apart = ((laplace["f_mean"] - found["f_mean"]) / found["f_sd"]).values
    assert np.abs(apart[:, 0]).max() < 0.5
    assert (-1.5 < apart[:, 1]).all()
    assert (apart[:, 1] < 0.0).all()  # Laplace's log sd is too low
    bx.loo_predictions(model, idata, num_draws=20, progressbar=False)


@pytest.mark.slow
def test_a_report_is_written(fitted, tmp_path):
    model, _, idata = fitted
    bx.report(model, idata, path=tmp_path / "report.html")
    assert "log_sd" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_comparisons_are_of_the_mean_and_the_sd(model):
    options = {"variables": {"x0": (-0.5, 0.8)}, "draws": 4000, "seed": 1, "progressbar": False}
    found = bx.comparisons(model, THETA, X[:1], on="response", **options)
    ends = [bx.predictions(model, THETA, [[at]], **QUIET) for at in (-0.5, 0.8)]
    for label, name in (("mean", "y_mean"), ("sd", "sd_mean")):
        draws = found["comparison"].sel({"class": label}).values.ravel()
        expected = (ends[1][name] - ends[0][name]).item()
        assert abs(draws.mean() - expected) < 4.0 * draws.std() / np.sqrt(len(draws))


def test_density_of_responses_given_functions(model):
    functions = bx.sample_functions(model, THETA, draws=2, seed=1, progressbar=False)
    f = functions.predictions()["f"].values
    found = functions.log_likelihood().values
    assert_allclose(found, stats.norm.logpdf(Y, f[..., 0], np.exp(f[..., 1])), rtol=1e-8)


def test_random_functions_have_the_posterior_s_moments(any_model):
    exact = bx.predictions(any_model, THETA, X[::4], on="latent", **QUIET)
    functions = bx.sample_functions(any_model, THETA, draws=600, seed=2, progressbar=False)
    f = functions.predictions(X[::4])["f"].values[0]
    mean, sd = exact["f_mean"].values, exact["f_sd"].values
    assert (np.abs(f.mean(axis=0) - mean) < 4.5 * sd / np.sqrt(len(f))).all()
    assert_allclose(f.std(axis=0), sd, rtol=4.5 / np.sqrt(2 * len(f)))


def test_a_quantile_is_explained_by_its_two_parts(model):
    """Attributions of m + z sd, from draws of both, are those of random functions."""
    z, rows = stats.norm.ppf(0.9), X[::5]
    options = {"draws": 1000, "seed": 1, "progressbar": False}
    parts = bx.attributions(model, THETA, rows, **options)["attribution"]
    ours = (parts.sel({"class": "mean"}) + z * parts.sel({"class": "sd"})).values[0, :, :, 0]
    functions = bx.sample_functions(model, THETA, draws=1000, seed=2, progressbar=False)
    f = functions.predictions(np.vstack([rows, [[X.mean()]]]))["f"].values[0]
    quantiles = f[..., 0] + z * np.exp(f[..., 1])
    expected = quantiles[:, :-1] - quantiles[:, -1:]  # one feature has all of the difference
    apart = ours.mean(axis=0) - expected.mean(axis=0)
    assert (np.abs(apart) < 4.5 * expected.std(axis=0) * np.sqrt(2 / 1000)).all()
    for p in (0.1, 0.5, 0.9):
        found, known = (np.quantile(v, p, axis=0) for v in (ours, expected))
        assert_allclose(found, known, atol=0.1 * expected.std(axis=0).max())


def test_relevance_is_of_the_normal_distribution_with_the_moments_of_y(any_model):
    """KL-diff and KL-diff^2 by differences of the mean and variance that predictions have."""
    at, step = np.array([[0.4], [1.1]]), 1e-3

    def moments(rows):
        found = bx.predictions(any_model, THETA, rows, **QUIET)
        return found["y_mean"].values, found["y_sd"].values ** 2

    (m, V), up, down = (moments(at + shift) for shift in (0.0, step, -step))
    rates = [(a - b) / (2.0 * step) for a, b in zip(up, down, strict=True)]
    expected = np.sqrt(rates[0] ** 2 / V + 0.5 * (rates[1] / V) ** 2)
    for over in ("draws", "mixture"):
        found = bx.relevance(any_model, THETA, at, over=over, progressbar=False)
        assert_allclose(found["relevance"].values.ravel(), expected, rtol=1e-5)


def test_interactions_are_of_the_mean_and_the_variance_of_y():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(25, 2))
    y = X[:, 0] * X[:, 1] + np.exp(X[:, 1] / 2.0) * rng.normal(size=25)
    model = bx.GP(X, y, likelihood="heteroscedastic_normal", scale=False)
    theta = {"lengthscale": [[0.9, 1.3], [1.7, 1.1]], "amplitude": [1.0, 0.6]}
    at, step = np.array([0.4, -0.2]), 1e-2
    corners = np.array([[a, b] for a in (-1, 1) for b in (-1, 1)])
    rows = np.vstack([at, at + step * corners])
    found = bx.predictions(model, theta, rows, **QUIET)
    moments = found["y_mean"].values, found["y_sd"].values ** 2
    rates = [v[1:] @ corners.prod(axis=1) / (4.0 * step**2) for v in moments]
    V = moments[1][0]
    expected = np.sqrt(rates[0] ** 2 / V + 0.5 * (rates[1] / V) ** 2)
    pair = bx.interactions(model, theta, [at], progressbar=False)["interaction"]
    assert_allclose(pair.values.ravel()[1], expected, rtol=1e-3)


def test_the_log_variance_of_y_is_refused(model):
    with pytest.raises(ValueError, match="Leave `of` out"):
        bx.attributions(model, THETA, of="log_variance", progressbar=False)


@pytest.mark.parametrize("unit", [1e-8, 1e8])
def test_units_of_y_do_not_matter(unit, any_model):
    expected = bx.predictions(any_model, THETA, X[:3], **QUIET)
    options = {"approximation": any_model.specification.approximation}
    other = bx.GP(X, unit * Y, likelihood="heteroscedastic_normal", **options)
    found = bx.predictions(other, THETA, X[:3], **QUIET)
    for name in ("y_mean", "y_sd", "sd_mean", "sd_sd"):
        assert_allclose(found[name], unit * expected[name], rtol=1e-9)


def test_events_are_refused(model):
    with pytest.raises(ValueError, match=r"draws of y from bx\.predictions"):
        model.of_event("survival", 3.0)


def test_predictions_are_plotted_on_the_scale_of_y(model):
    found = bx.predictions(model, THETA, draws=50, seed=1, progressbar=False)
    plotted = bx.plot_predictions(found, Y, backend="none")
    assert "observed" in plotted.viz


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The largest Pareto k")  # of few draws
def test_noise_that_varies_predicts_better_than_noise_that_does_not(fitted):
    model, x, _ = fitted
    options = {"draws": 100, "seed": 1, "progressbar": False}
    models = {"varies": model, "constant": bx.GP(x, model.training.y)}
    with pytest.warns(bx.FitWarning, match="too low"):
        fits = {name: (own, own.fit("laplace", **options)) for name, own in models.items()}
    found = bx.compare(fits)
    assert found.index[0] == "varies"
    assert found.loc["constant", "elpd_diff"] < -10.0
