"""Comparisons by groups and by what comes later, against dense NumPy and refits on a grid."""

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import bayes_gpx as bx
import oracle
from bayes_gpx.assess.compare import scores
from bayes_gpx.draws.left_out_together import densities_in_order

rng = np.random.default_rng(9)
N = 24
TIME = np.sort(rng.uniform(0.0, 6.0, N))
X = pd.DataFrame({"time": TIME, "dose": rng.normal(size=N)})
y = np.sin(2.0 * TIME) + 0.5 * X["dose"].to_numpy() + 0.2 * rng.normal(size=N)
GROUPS = pd.Series(np.repeat(list("abcdef"), 4))
SHUFFLED = rng.permutation(N)
QUIET = {"progressbar": False, "seed": 1}
THETA = {"lengthscale": [0.9, 2.0], "amplitude": 1.2, "sigma": 0.3}

pytestmark = [
    pytest.mark.filterwarnings("ignore:The posterior is far from its Laplace"),
    pytest.mark.filterwarnings("ignore:The largest Pareto k"),
    pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto"),
]


@pytest.fixture(scope="module")
def models():
    found = {}
    for kernel in ("expquad", "linear"):
        model = bx.GP(X, y, kernel=kernel)
        found[kernel] = model, model.fit("laplace", draws=60, **QUIET)
    return found


def test_scores_of_groups_are_those_of_leaving_each_out(models):
    frame = bx.compare(models, groups=GROUPS)
    for name, fitted in models.items():
        found = bx.loo_predictions(*fitted, groups=GROUPS, progressbar=False)
        elpd, khat = found["elpd_group"], float(found["pareto_k"].max())
        np.testing.assert_allclose(frame.loc[name, "elpd"], elpd.sum(), rtol=1e-10)
        np.testing.assert_allclose(frame.loc[name, "se"], np.sqrt(6) * elpd.std(ddof=1), rtol=1e-10)
        np.testing.assert_allclose(frame.loc[name, "khat"], khat)
        said = f"Pareto k is {khat:.1f}, so refit without the groups to be sure"
        assert (said in frame.loc[name, "note"]) == (khat > 0.7)
    assert "with 6 groups" in frame.iloc[1]["note"] or "no telling" in frame.iloc[1]["note"]
    az.plot_compare(frame, backend="none")


def covariance(model):
    scaled = model.training.scaled()["X"]
    return 1.2**2 * oracle.expquad(scaled, scaled, np.array([0.9, 2.0])) + 0.3**2 * np.eye(N)


@pytest.mark.filterwarnings("ignore:weights have a mean of 2")
def test_terms_in_order_of_weighted_rows_are_those_of_repeated_rows():
    times, theta = SHUFFLED % 3 + 1, THETA
    when = pd.Series(SHUFFLED)
    rows = np.repeat(np.arange(N), times)
    again = X.iloc[rows].reset_index(drop=True)
    scaled = {"scale": False, "resolution": 0.0}
    weighted = bx.GP(X, y, weights=times, **scaled)
    repeated = bx.GP(again, y[rows], **scaled)
    known = int(times[SHUFFLED < 6].sum())
    later = when[rows].reset_index(drop=True)
    found = densities_in_order(weighted, theta, when, 6, progressbar=False)
    expected = densities_in_order(repeated, theta, later, known, progressbar=False)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours.values, theirs.values, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("step", [1, 3])
def test_terms_in_order_are_densities_given_all_before(step):
    """Of rows in no order, by conditioning on those before in dense NumPy, three at a time too."""
    table, response = X.iloc[SHUFFLED].reset_index(drop=True), y[SHUFFLED]
    model = bx.GP(table, response)
    when = pd.Series(pd.Timestamp("2026-01-01") + pd.to_timedelta(SHUFFLED // step, unit="D"))
    terms, later = densities_in_order(model, THETA, when, 6, progressbar=False)
    C, scaled = covariance(model), model.training.scaled()["y"]
    unit = np.log(response.std())
    place, expected, rest = np.argsort(SHUFFLED), [], []
    for begin in range(6, N, step):
        before, now, on = place[:begin], place[begin : begin + step], place[begin:]
        for rows, found in ((now, expected), (on, rest)):
            gain = np.linalg.solve(C[np.ix_(before, before)], C[np.ix_(before, rows)]).T
            mean = gain @ scaled[before]
            cov = C[np.ix_(rows, rows)] - gain @ C[np.ix_(before, rows)]
            joint = stats.multivariate_normal.logpdf(scaled[rows], mean, cov)
            found.append(joint - len(rows) * unit)
    np.testing.assert_allclose(terms.values[0, 0], expected, rtol=1e-9)
    np.testing.assert_allclose(later.values[0, 0], rest, rtol=1e-9)
    whole, _ = densities_in_order(model, THETA, when, 0, progressbar=False)
    evidence = bx.log_likelihood(model, THETA, progressbar=False)["log_marginal_likelihood"]
    np.testing.assert_allclose(whole.sum("time"), evidence, rtol=1e-12)


def test_draws_forget_all_that_comes_later(models):
    """Their weights are p(y_<t) / p(y), so that the score is an average over p(theta | y_<t)."""
    frame = bx.compare(models, order="time", start=18)
    for name, (model, idata) in models.items():
        terms, later = densities_in_order(model, idata, "time", 18, progressbar=False)
        assert later.sizes["time"] == 6
        log_weights, khat = later.azstats.psislw(dim=["chain", "draw"])
        weights = np.exp(log_weights - log_weights.max(["chain", "draw"]))
        weights = weights / weights.sum(["chain", "draw"])
        elpd = np.log((weights * np.exp(terms)).sum(["chain", "draw"]))
        np.testing.assert_allclose(frame.loc[name, "elpd"], elpd.sum(), rtol=1e-10)
        np.testing.assert_allclose(frame.loc[name, "khat"], khat.max())
        one = bx.loo_predictions(model, idata, progressbar=False)["elpd"].values[-1]
        np.testing.assert_allclose(elpd[-1], one, rtol=1e-2)  # weights of the same ratios
        assert ("refit without the times" in frame.loc[name, "note"]) == bool(khat.max() > 0.7)
    half = bx.compare(models, order=X["time"])
    assert not np.allclose(half["elpd"], frame["elpd"])


@pytest.mark.slow
def test_a_score_in_order_is_that_of_a_refit():
    """Averaged over p(sigma | y_<t), which numbers on a grid are, from dense NumPy."""
    times = TIME[:, None]
    priors = {"lengthscale": 0.6, "amplitude": 1.0, "sigma": pm.HalfNormal.dist(1.0)}
    model = bx.GP(times, y, priors=priors, scale=False)
    idata = model.fit("laplace", draws=2000, **QUIET)
    found = scores(model, idata, None, TIME, 18).elpd_i.values
    K, grid = oracle.expquad(times, times, np.array([0.6])), np.linspace(0.02, 3.0, 120)
    for place, t in enumerate(range(18, N)):
        past, ahead = [], []
        for sigma in grid:
            C = K[: t + 1, : t + 1] + sigma**2 * np.eye(t + 1)
            gain = np.linalg.solve(C[:t, :t], C[:t, t])
            spread = np.sqrt(C[t, t] - gain @ C[:t, t])
            ahead.append(stats.norm.pdf(y[t], gain @ y[:t], spread))
            known = stats.multivariate_normal.logpdf(y[:t], np.zeros(t), C[:t, :t])
            past.append(known + stats.halfnorm.logpdf(sigma))
        share = np.exp(np.array(past) - max(past))
        refit = np.log(share @ ahead / share.sum())
        assert abs(found[place] - refit) < 0.02  # 2000 draws, with weights


def refused(models, message, **options):
    with pytest.raises(ValueError, match=message):
        bx.compare(models, **options)


def test_refuses_what_is_left_out_differently(models):
    refused(models, "both given", groups=GROUPS, order="time")
    refused(models, "start was given without order", start=3)
    refused(models, "at least two to score, of 24 times", order="time", start=23)
    refused(models, "Pass numbers or dates", order=GROUPS)
    refused(models, "no column 'day'", order="day")
    pair = models["expquad"]
    fixed = {"lengthscale": 1.0, "amplitude": 1.0}
    other = bx.GP(X.assign(time=X["time"].to_numpy()[::-1]), y, priors=fixed)
    fits = {"a": pair, "b": (other, other.fit("laplace", draws=20, **QUIET))}
    refused(fits, "order 'time' of 'a' and 'b' are not the same", order="time")
    modes = {}
    for name, (model, idata) in models.items():
        first = idata["posterior"].to_dataset().isel(draw=[0])
        modes[name] = model, xr.DataTree.from_dict({"posterior": first})
    of_modes = bx.compare(modes, groups=GROUPS)
    assert of_modes["khat"].isna().all() and of_modes["note"].str.contains("too high").all()
    counts = bx.GP(X, np.arange(N) % 3, likelihood="poisson")
    with pytest.raises(ValueError, match="order needs normal noise on all rows"):
        theta = {k: v for k, v in THETA.items() if k != "sigma"}
        densities_in_order(counts, theta, "time", progressbar=False)
