"""Missing inputs: refused with the cure, and the cure integrates over what is not known."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from scipy.stats import norm

import bayes_gpx as bx

THETA = {"lengthscale": [0.7, 1.1], "amplitude": 1.0, "sigma": 0.2}
OPTIONS = {"draws": 200, "progressbar": False}
GAP = 4


@pytest.fixture(scope="module")
def gappy():
    rng = np.random.default_rng(11)
    X = pd.DataFrame(rng.normal(size=(16, 2)), columns=["a", "b"])
    y = np.sin(2 * X["a"]) + 0.5 * X["b"] + rng.normal(0, 0.2, 16)
    return X, y, pd.DataFrame([[0.3, -0.5], [X["a"][GAP] + 0.1, 1.0]], columns=["a", "b"])


def k(x, xs):
    return np.exp(-0.5 * (((x[:, None] - xs[None]) / THETA["lengthscale"]) ** 2).sum(axis=-1))


def completed(X, entry):
    return X.assign(b=X["b"].where(X.index != GAP, entry))


def test_the_message_says_what_to_do(gappy):
    X, y, _ = gappy
    with pytest.raises(ValueError, match=r"'b'.*row 4.*Drop.*IterativeImputer.*bx\.combined"):
        bx.GP(completed(X, np.nan), y)


@pytest.mark.slow
def test_the_mixture_is_the_integral_over_the_missing_entry(gappy):
    """p(f* | y) = int p(f* | y, x) p(x | y) dx, by quantiles of the missing x's posterior."""
    X, y, new = gappy
    grid = np.linspace(-5, 5, 2001)
    density = []
    for entry in grid:
        x = completed(X, entry).to_numpy()
        root = np.linalg.cholesky(k(x, x) + 0.04 * np.eye(16))
        whitened = np.linalg.solve(root, y)
        density.append(-0.5 * whitened @ whitened - np.log(np.diag(root)).sum())
    density = np.exp(np.array(density) - np.max(density)) * norm.pdf(grid)
    share = (np.cumsum(density) - 0.5 * density) / density.sum()
    entries = np.interp((np.arange(200) + 0.5) / 200, share, grid)
    results, means, variances = [], [], []
    for i, entry in enumerate(entries):
        model = bx.GP(completed(X, entry), y, scale=False)
        results.append(bx.predictions(model, THETA, new, seed=i, **OPTIONS))
    for entry in grid:
        x = completed(X, entry).to_numpy()
        inner, across = k(x, x) + 0.04 * np.eye(16), k(x, new.to_numpy())
        means.append(across.T @ np.linalg.solve(inner, y))
        variances.append(1 - (across * np.linalg.solve(inner, across)).sum(axis=0))
    weight = density / density.sum()
    mean = weight @ np.array(means)
    variance = weight @ (np.array(variances) + (np.array(means) - mean) ** 2)
    found = bx.combined(results)
    assert_allclose(found["f_mean"], mean, atol=2e-4)
    assert_allclose(found["f_sd"], np.sqrt(variance), rtol=2e-3)
    assert found["f"].sizes["chain"] == 200
    noise = np.sqrt(variance / found["f"].sizes["chain"] / 200)
    assert (np.abs(found["f"].mean(["chain", "draw"]) - mean) < 4 * noise).all()
    assert_allclose(found["f"].std(["chain", "draw"]), np.sqrt(variance), rtol=0.03)


def test_moments_of_attributions_are_those_of_all_draws_together(gappy):
    X, y, new = gappy
    models = [bx.GP(completed(X, entry), y) for entry in (-1.5, 0.0, 0.4, 2.0)]
    asked = {"covariance": True, "baseline": [0.0, 0.0], "seed": 1, "draws": 20000}
    results = [bx.attributions(m, THETA, new, progressbar=False, **asked) for m in models]
    found = bx.combined(results)
    drawn = found["attribution"].stack(sample=["chain", "draw"])
    assert_allclose(drawn.mean("sample"), found["attribution_mean"], atol=0.01)
    assert_allclose(drawn.std("sample"), found["attribution_sd"], rtol=0.02)
    for i in range(2):
        cov = np.cov(drawn.isel(obs=i).transpose("feature", "sample"))
        assert_allclose(cov, found["attribution_cov"].isel(obs=i), atol=0.005)
    assert_allclose(found["attribution_mean"].sum("feature"), found["difference_mean"], atol=1e-6)
    total = found["attribution_cov"].sum(["feature", "feature_bis"])
    assert_allclose(total, found["difference_sd"] ** 2, rtol=1e-6)
    within = np.sqrt(np.mean([r["attribution_sd"] ** 2 for r in results], axis=0))
    assert (found["attribution_sd"].values > within).all()
    worst = np.max([r["completeness_residual"] for r in results], axis=0)
    assert_allclose(found["completeness_residual"], worst)
    assert found.attrs["imputations"] == 4
    assert len(bx.to_pandas(found)) == 4
    bx.plot_attributions(found, backend="none")


@pytest.mark.parametrize(
    ("function", "asked", "name"),
    [
        (bx.predictions, {"by": np.repeat(["low", "high"], 8)}, "f"),
        (bx.comparisons, {"X_new": [[0.3, -0.5]]}, "comparison"),
    ],
)
def test_covariances_between_groups_and_contrasts_are_total_ones(function, asked, name, gappy):
    """By the law of total covariance, from each result's moments."""
    X, y, _ = gappy
    models = [bx.GP(completed(X, entry), y, scale=False) for entry in (-1.5, 2.0)]
    options = {"covariance": True, "seed": 1, "progressbar": False, **asked}
    results = [function(m, THETA, **options) for m in models]
    means = np.array([found[f"{name}_mean"].values.squeeze() for found in results])
    within = np.mean([found[f"{name}_cov"].values.squeeze() for found in results], axis=0)
    expected = within + np.cov(means.T, bias=True)
    assert_allclose(bx.combined(results)[f"{name}_cov"].squeeze(), expected, atol=1e-12)


def test_what_is_not_known_stays_unknown(gappy):
    """An expected log variance has no sd, so neither has the mixture of two."""
    X, y, new = gappy
    models = [bx.GP(completed(X, entry), y) for entry in (-1.5, 2.0)]
    asked = {"of": "log_variance", "progressbar": False}
    found = bx.combined([bx.attributions(m, THETA, new, **asked) for m in models])
    assert found["attribution_sd"].isnull().all()
    assert found["attribution_mean"].notnull().all()


@pytest.mark.parametrize("likelihood", ["bernoulli", "poisson"])
def test_every_sd_is_that_of_all_draws_together(gappy, likelihood):
    X, y, new = gappy
    response = (y > 0.3).astype(int) + (y > 1.2) * (likelihood == "poisson")
    theta = {"lengthscale": [0.7, 1.1], "amplitude": 1.0}
    models = [bx.GP(completed(X, at), response, likelihood=likelihood) for at in (-1.5, 0.2, 1.8)]
    results = [bx.predictions(m, theta, new, draws=4000, seed=1, progressbar=False) for m in models]
    found, sample = bx.combined(results), ["chain", "draw"]
    mean = "probability" if likelihood == "bernoulli" else "rate"
    for name in ("f", mean):
        assert_allclose(found[f"{name}_sd"], found[name].std(sample), rtol=0.05)
        assert_allclose(found[f"{name}_mean"], found[name].mean(sample), atol=0.05)
    assert_allclose(found["response_sd"], found[f"{mean}_sd"])


def test_one_result_is_itself_and_draws_are_not_needed(gappy):
    X, y, new = gappy
    model = bx.GP(X, y)
    one = bx.derivatives(model, THETA, new, seed=1, **OPTIONS)
    expected = one.drop_vars(["chain", "draw", "derivative_interval"])
    found = bx.combined([one])
    assert not found["derivative_between"].any()
    xr.testing.assert_allclose(found.drop_vars(["draw", "derivative_between"]), expected)
    bare = bx.derivatives(model, THETA, new, keep="summary")
    assert_allclose(bx.combined([bare, bare])["derivative_sd"], bare["derivative_sd"])


def test_different_baselines_are_refused(gappy):
    X, y, new = gappy
    model = bx.GP(completed(X, 0.0), y)
    each = [
        bx.attributions(model, THETA, new, baseline=name, **OPTIONS) for name in ("mean", "zero")
    ]
    with pytest.raises(ValueError, match="Result 1 has the baseline 'zero'"):
        bx.combined(each)
    rows = [1, 0], [2, 0]
    given = [bx.attributions(model, THETA, new, baseline=row, **OPTIONS) for row in rows]
    assert bx.combined([given[0], given[0]]).attrs["baseline"] == "given"
    with pytest.raises(ValueError, match=r"Result 1 has the baseline array\(\[2., 0.\]\)"):
        bx.combined(given)


def test_scikit_learn_imputes_and_every_fit_takes_part(gappy):
    pytest.importorskip("sklearn")
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    X, y, new = gappy
    together = completed(X, np.nan).assign(y=y)
    results = []
    for seed in range(3):
        imputer = IterativeImputer(sample_posterior=True, random_state=seed)
        whole = imputer.set_output(transform="pandas").fit_transform(together)
        model = bx.GP(whole[["a", "b"]], y)
        idata = model.fit("map", start=THETA, progressbar=False)
        results.append(bx.attributions(model, idata, new, seed=seed, **OPTIONS))
    found = bx.combined(results)
    assert found["attribution"].shape == (3, 200, 2, 2)
    assert_allclose(found["value"], new)


def test_what_does_not_belong_together_is_refused(gappy):
    X, y, new = gappy
    model = bx.GP(X, y)
    ask = lambda rows, **more: bx.attributions(model, THETA, rows, **{**OPTIONS, **more})  # noqa: E731
    one = ask(new)
    with pytest.raises(ValueError, match="empty"):
        bx.combined([])
    with pytest.raises(ValueError, match="Result 1 has.*'draw': 100"):
        bx.combined([one, ask(new, draws=100)])
    with pytest.raises(ValueError, match="Result 1 has other labels along 'obs'"):
        bx.combined([one, ask(new.set_axis([7, 8]))])
    bands = bx.slopes(model, THETA, new, **OPTIONS)
    with pytest.raises(ValueError, match="band_.* cannot be combined to a mixture"):
        bx.combined([bands, bands])
