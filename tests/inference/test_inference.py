"""MAP, Laplace and NUTS on models whose posterior is known, and on small real ones."""

import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import bayes_gpx as bx
from bayes_gpx.draws import leave_one_out
from bayes_gpx.inference import automatic, laplace, nuts
from bayes_gpx.inference.automatic import Automatic
from bayes_gpx.inference.base import Method
from bayes_gpx.inference.datatree import as_tree
from bayes_gpx.inference.diagnostics import NOT_CONVERGED, ConvergenceWarning, Diagnosis, diagnose
from bayes_gpx.inference.laplace import WeightedLaplace, resampled, weighted_draws
from bayes_gpx.inference.log_density import Density
from bayes_gpx.inference.methods import METHODS
from bayes_gpx.inference.nuts import NUTS
from bayes_gpx.inference.optimise import Maximum, climb
from bayes_gpx.model import fitting
from bayes_gpx.system.tasks import using_cores
from executors import Sent


@pytest.fixture(scope="module")
def gamma():
    """A model whose posterior is known: y ~ Poisson(rate), rate ~ Gamma(3, 2)."""
    with pm.Model(coords={"group": ["a", "b"]}) as model:
        rate = pm.Gamma("rate", 3.0, 2.0, dims="group")
        pm.Deterministic("total", rate.sum())
        pm.Poisson("y", rate, observed=np.array([4, 0]), dims="group")
    return model, np.array([7.0, 3.0]), 3.0


def test_the_first_step_of_an_optimiser_has_a_length_of_at_most_one(monkeypatch):
    """However long the gradient is: here 17,000, as it may be with many rows."""
    with pm.Model() as model:
        location = pm.Normal("location", 0.0, 1.0, shape=3)
        pm.Normal("y", location[0] + 0.1 * location[1:].sum(), 0.01, observed=np.ones(200))
    density, asked = Density(model, jacobian=False), []
    evaluate = density.value_and_slope()

    def recorded(x):
        asked.append(x.copy())
        return evaluate(x)

    monkeypatch.setattr(density, "value_and_slope", lambda: recorded)
    monkeypatch.setattr("bayes_gpx.inference.optimise.foretell", lambda *_: None)
    start = {"location": np.array([0.99, 0.0, 0.0])}
    (end,) = climb(density, [start], progressbar=False)
    lengths = [np.linalg.norm(x - asked[0]) for x in asked]
    assert np.linalg.norm(evaluate(asked[0])[1]) > 1e4
    assert 1e-3 < next(length for length in lengths if length > 0.0) <= 1.0 + 1e-9
    assert end.converged


@pytest.mark.parametrize("jacobian", [True, False])
def test_map_is_the_mode_of_logs_or_of_the_hyperparameters_themselves(gamma, jacobian):
    """With a density proportional to r^(a-1) e^(-br), that of log r is to r^a e^(-br)."""
    model, shape, rate = gamma
    starts = [{}, {"rate": np.array([0.1, 9.0])}]
    idata = Maximum().fit(model, starts, progressbar=False, jacobian=jacobian)
    shape = shape if jacobian else shape - 1
    # L-BFGS with gtol 1e-4.
    assert_allclose(idata["posterior"]["rate"].values[0, 0], shape / rate, rtol=1e-4)
    assert_allclose(idata["posterior"]["total"].item(), shape.sum() / rate, rtol=1e-4)
    assert idata["posterior"]["rate"].dims == ("chain", "draw", "group")
    assert idata["starts"].sizes["start"] == 2
    assert idata["starts"]["converged"].all()
    assert_array_equal(idata["observed_data"]["y"], [4, 0])


def test_noise_stays_away_from_0_in_logs_where_the_density_itself_is_highest_there(rng):
    """Few rows, many features: sigma to 0 is the mode, though the posterior hardly goes there."""
    X, y = rng.normal(size=(12, 6)), rng.normal(size=12)
    found = {}
    for jacobian in (True, False):
        fit = bx.GP(X, y).fit("map", progressbar=False, jacobian=jacobian)
        found[jacobian] = fit["posterior"]["sigma"].item()
    assert found[False] < 1e-3 and found[True] > 0.1


@pytest.mark.parametrize("patience, used", [(300.0, "nuts"), (0.0, "laplace")])
def test_a_fit_without_a_method_is_by_nuts_where_laplace_is_too_far_off(
    gamma, monkeypatch, patience, used
):
    model, shape, rate = gamma
    near = Automatic().fit(model, [{}], draws=100, seed=1, progressbar=False)
    assert near["posterior"].attrs["inference_method"] == "laplace"
    own = WeightedLaplace().fit(model, [{}], draws=100, seed=1, progressbar=False)
    assert_array_equal(near["posterior"]["rate"], own["posterior"]["rate"])

    def far(*arguments):
        return weighted_draws(*arguments)._replace(far="Far off.")

    monkeypatch.setattr(automatic, "weighted_draws", far)
    monkeypatch.setattr(automatic, "PATIENCE", patience)
    told = pytest.warns(ConvergenceWarning, match=r"Far off. fit\('nuts'\) would take")
    with nullcontext() if patience else told:
        fit = Automatic().fit(model, [{}], draws=1000, chains=2, seed=1, progressbar=False)
    assert fit["posterior"].attrs["inference_method"] == used
    assert fit["posterior"].sizes["chain"] == (2 if used == "nuts" else 1)
    assert_allclose(fit["posterior"]["rate"].mean(("chain", "draw")), shape / rate, rtol=0.1)


def test_borderline_chains_are_reported_where_nuts_was_not_chosen(gamma, monkeypatch):
    monkeypatch.setattr(
        automatic, "weighted_draws", lambda *a: weighted_draws(*a)._replace(far="Far off.")
    )
    monkeypatch.setattr("bayes_gpx.inference.diagnostics.FEWEST_EFFECTIVE", 10**9)
    with pytest.warns(ConvergenceWarning, match="Borderline, .* below 1000000000: draw more"):
        fit = Automatic().fit(gamma[0], [{}], draws=1000, chains=2, seed=1, progressbar=False)
    assert fit.attrs["convergence"] == "borderline"


def test_nuts_is_stopped_where_it_takes_much_longer_than_expected(gamma, monkeypatch):
    model, *_ = gamma
    with pytest.raises(TimeoutError):
        NUTS().fit(model, [{}], draws=20_000, seed=1, longest=1e-3, progressbar=False)
    monkeypatch.setattr(
        automatic, "weighted_draws", lambda *a: weighted_draws(*a)._replace(far="Far off.")
    )
    monkeypatch.setattr(automatic, "SHORT", 0.0)
    monkeypatch.setattr(automatic, "LATE", 1e-6)
    with pytest.warns(ConvergenceWarning, match="Far off. NUTS was stopped after 0 seconds"):
        fit = Automatic().fit(model, [{}], draws=1000, seed=1, progressbar=False)
    assert fit["posterior"].attrs["inference_method"] == "laplace"
    assert fit["posterior"].sizes["draw"] == 1000


def test_draws_around_the_mode_are_kept_where_nuts_is_interrupted(gamma, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(
        automatic, "weighted_draws", lambda *a: weighted_draws(*a)._replace(far="Far off.")
    )
    monkeypatch.setattr(NUTS, "fit", interrupted)
    with pytest.warns(ConvergenceWarning, match="Interrupted before NUTS had any draws"):
        fit = Automatic().fit(gamma[0], [{}], draws=100, seed=1, progressbar=False)
    assert fit["posterior"].sizes["draw"] == 100


@pytest.mark.parametrize("draws", [2_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_laplace_draws_are_the_posterior_though_it_is_skewed(gamma, draws):
    """A normal approximation of log(rate) has its 5 % tails at .112 and .017 (shape 3)."""
    model, shape, rate = gamma
    idata = WeightedLaplace().fit(model, [{}], draws=draws, seed=1, progressbar=False)
    found = idata["posterior"]["rate"].values[0]
    for tail in (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99):
        below = stats.gamma.cdf(np.quantile(found, tail, axis=0), shape, scale=1 / rate)
        # Standard error of an importance sample with at least a third of the draws effective.
        assert_allclose(below, tail, atol=5 * np.sqrt(tail * (1 - tail) / (draws / 3)))
    assert idata.attrs["khat"] < 0.5


def test_more_rounds_of_proposals_find_a_posterior_far_from_normal(monkeypatch):
    """A funnel: log variances are normal with a sd of 2; two rounds leave most of one tail out."""
    with pm.Model() as model:
        log_variance = pm.Normal("log_variance", 0.0, 2.0)
        pm.Normal("x", 0.0, pm.math.exp(log_variance / 2.0))
        pm.Normal("y", 0.0, 1.0, observed=[0.0])
    fit = partial(WeightedLaplace().fit, model, [{}], draws=2_000, seed=0, progressbar=False)
    found = fit()
    assert found.attrs["khat"] < 0.7
    tails = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    below = stats.norm.cdf(np.quantile(found["posterior"]["log_variance"], tails), 0.0, 2.0)
    # Standard errors with a fifth of the draws effective.
    assert (np.abs(below - tails) < 4.0 * np.sqrt(tails * (1.0 - tails) / 400)).all()
    monkeypatch.setitem(laplace.ROUNDS, NOT_CONVERGED, 2)
    with pytest.warns(ConvergenceWarning, match=r"k of the weights is 0.82 .* worth \d+ draws"):
        fit()


def test_laplace_keeps_both_log_densities(gamma):
    model, shape, rate = gamma
    idata = WeightedLaplace().fit(model, [{}], draws=50, seed=2, progressbar=False)
    again = WeightedLaplace().fit(model, [{}], draws=50, seed=2, progressbar=False)
    assert_array_equal(again["posterior"]["rate"], idata["posterior"]["rate"])
    log_rate = np.log(idata["posterior"]["rate"].values[0])
    # Unnormalised by the probability of y.
    constant = stats.nbinom.logpmf([4, 0], 3.0, 2.0 / 3.0).sum()
    density = stats.gamma.logpdf(np.exp(log_rate), shape, scale=1 / rate) + log_rate
    kept = idata["sample_stats"]
    # PyMC's own Gamma density is off by 4e-9.
    assert_allclose(kept["lp"].values[0], density.sum(axis=1) + constant, atol=1e-8)
    # Half of the proposals lie around the mode.
    z = (log_rate - np.log(shape / rate)) * np.sqrt(shape)
    first = stats.multivariate_t.logpdf(z, df=5, shape=np.eye(2)) + np.log(shape).sum() / 2
    second = np.exp(kept["lp_approximation"].values[0]) - np.exp(first) / 2
    assert (second > 0).all() and (second < np.sqrt(shape.prod()) / 2).all()


def test_resampled_draws_have_their_weights(rng):
    weights = rng.gamma(0.3, size=40)
    times = np.bincount(resampled(weights, 1000, rng), minlength=40)
    assert (np.abs(times - 1000 * weights / weights.sum()) < 1).all()


@pytest.mark.parametrize("nuts_sampler", ["nutpie", pytest.param("pymc", marks=pytest.mark.slow)])
def test_nuts_draws_from_the_posterior(gamma, nuts_sampler):
    model, shape, rate = gamma
    options = {"draws": 1000, "tune": 500, "chains": 2, "seed": 3, "target_accept": 0.95}
    with using_cores(1):
        idata = NUTS().fit(model, [{}], nuts_sampler=nuts_sampler, progressbar=False, **options)
    mean = idata["posterior"]["rate"].mean(["chain", "draw"]).values
    # Effective sample size above 400: 5 standard errors.
    assert_allclose(mean, shape / rate, atol=(5 * np.sqrt(shape) / rate / 20).max())
    assert idata.attrs["r_hat_max"] < 1.05
    assert idata.attrs["convergence"] == "converged"


@pytest.mark.slow
def test_correlation_costs_nuts_no_steps():
    """Of sd 1 along two diagonals and .02 across them: unrotated, a draw takes dozens of steps."""
    sds, turn = np.diag([1.0, 0.02, 1.0]), np.linalg.qr(np.arange(9.0).reshape(3, 3) % 4)[0]
    covariance = turn @ sds**2 @ turn.T
    with pm.Model() as model:
        pm.MvNormal("x", np.arange(3.0), covariance)
    with using_cores(1):
        idata = NUTS().fit(model, [{}], draws=1000, tune=300, chains=2, seed=1, progressbar=False)
    draws = idata["posterior"]["x"].values.reshape(-1, 3)
    assert idata["sample_stats"]["n_steps"].mean() < 6
    # Monte Carlo errors of at least 300 effective draws, in units of sd.
    standard = (draws - np.arange(3.0)) @ turn / np.diag(sds)
    assert_allclose(standard.mean(axis=0), 0.0, atol=4 / np.sqrt(300))
    assert_allclose(np.cov(standard.T), np.eye(3), atol=4 * np.sqrt(2 / 300))


@pytest.mark.parametrize("sd", [100.0, 1e6])
def test_a_flat_direction_is_named_if_no_round_finds_its_width(sd):
    with pm.Model() as model:
        pm.Normal("free", 0.0, sd)
        pm.Normal("x", observed=1.0)
    told = pytest.warns(ConvergenceWarning, match="far .* nearly flat in some direction")
    with nullcontext() if sd == 100.0 else told:
        idata = WeightedLaplace().fit(model, [{}], draws=1000, seed=1, progressbar=False)
    # The first proposals have a sd of 5; each round's weights lead the next to the posterior.
    if sd == 100.0:
        assert_allclose(idata["posterior"]["free"].std(), sd, rtol=0.1)
    assert (idata.attrs["convergence"] == "converged") == (sd == 100.0)


def test_an_optimiser_that_does_not_arrive_says_so():
    with pm.Model() as model:
        pm.Flat("endless")
        pm.Potential("slope", 1e4 * model["endless"])
        pm.Normal("x", observed=1.0)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        idata = Maximum().fit(model, [{}], progressbar=False)
    assert idata.attrs["convergence"] == "not converged"
    assert "did not converge" in idata.attrs["convergence_summary"]


def test_no_finite_start_is_refused():
    with pm.Model() as model:
        scale = pm.HalfNormal("scale")
        pm.Potential("impossible", -np.inf * scale)
        pm.Normal("x", observed=1.0)
    with pytest.raises(ValueError, match="not finite at any start.*priors"):
        Maximum().fit(model, [{}], progressbar=False)


def test_diagnosis_reads_chains():
    rng = np.random.default_rng(1)
    stuck = rng.normal(size=(4, 200)) + np.arange(4)[:, None]

    def read(values, divergences):
        diverging = np.zeros(values.shape, bool)
        diverging[0, :divergences] = True
        groups = {
            "posterior": xr.Dataset({"a": (("chain", "draw"), values)}),
            "sample_stats": xr.Dataset({"diverging": (("chain", "draw"), diverging)}),
        }
        return diagnose(xr.DataTree.from_dict(groups))

    good = read(rng.normal(size=(4, 200)), 0)
    assert not good.complaints and good.summary.startswith("Converged")
    draws, tails = np.random.default_rng(2).normal(size=(2, 150)), set()
    for prob in (0.5, 0.89, 0.94):
        with az.rc_context({"stats.ci_prob": prob}):
            tails.add(read(draws, 0).ess_tail)
    assert len(tails) == 1
    bad = read(stuck, 3)
    assert bad.divergences == 3 and bad.r_hat > 1.5 and bad.convergence == "not converged"
    assert len(bad.complaints) == 3 and "R-hat" in bad.summary
    alone = read(stuck[:1], 0)
    assert any("no R-hat" in complaint for complaint in alone.complaints)


@pytest.mark.parametrize(
    ("changes", "convergence"),
    [
        ({}, "converged"),
        ({"divergences": 1}, "borderline"),
        ({"divergences": 51}, "not converged"),
        ({"r_hat": 1.011}, "borderline"),
        ({"r_hat": 1.2}, "not converged"),
        ({"r_hat": np.nan}, "not converged"),
        ({"ess_tail": 300.0}, "borderline"),
        ({"ess_bulk": 90.0}, "not converged"),
        ({"bfmi": 0.2}, "borderline"),
    ],
)
def test_convergence_has_three_grades(changes, convergence):
    fine = Diagnosis(1.005, 2000.0, 1500.0, 0, 50_000, 0.9)
    found = fine._replace(**changes)
    assert found.convergence == convergence
    assert len(found.complaints) == len(changes)


@pytest.fixture(scope="module")
def fitted(regression):
    X, Z, y, _, _ = regression
    model = bx.GPX(X, y, Z, ard=False)
    with pytest.warns(ConvergenceWarning, match="do not trust"):
        idata = model.fit("nuts", draws=50, tune=30, chains=2, seed=1, progressbar=False)
    return model, idata


def test_short_chains_are_called_short(fitted):
    _, idata = fitted
    assert idata.attrs["convergence"] == "not converged"
    assert idata.attrs["convergence_summary"].startswith("Not converged")
    assert idata["posterior"].sizes == {"chain": 2, "draw": 50}


def test_arviz_takes_what_fit_returns(fitted, regression):
    model, idata = fitted
    table = az.summary(idata)
    assert set(table.index) == {"lengthscale", "amplitude", "sigma_w", "sigma"}
    for plot in (az.plot_trace_dist, az.plot_forest):
        plot(idata, backend="none")
    verb = bx.log_likelihood(model, idata)["log_likelihood"]
    assert_allclose(idata["log_likelihood"]["y"], verb, rtol=1e-8)
    az.summary(model.fit("map", progressbar=False), kind="stats")


def test_models_are_compared_by_leave_one_out(rng):
    X = rng.uniform(-2, 2, (40, 1))
    y = np.sin(2 * X[:, 0]) + rng.normal(0, 0.1, 40)
    fits = {
        kernel: bx.GP(X, y, kernel=kernel).fit("laplace", draws=200, seed=1, progressbar=False)
        for kernel in ("expquad", "linear")
    }
    loo = az.loo(fits["expquad"], pointwise=True)
    assert loo.n_data_points == 40 and (loo.pareto_k < loo.good_k).all()
    table = az.compare(fits)
    assert table.index[0] == "expquad"


def test_same_seed_same_posterior(regression, fitted):
    model, idata = fitted
    with pytest.warns(ConvergenceWarning):
        again = model.fit("nuts", draws=50, tune=30, chains=2, seed=1, progressbar=False)
    assert_array_equal(again["posterior"]["sigma"], idata["posterior"]["sigma"])


def test_the_best_of_several_starts_is_kept(rng):
    """Weak signal, where a start at large noise ends at the mean of y."""
    X = rng.normal(size=(60, 3))
    y = np.sin(3 * X[:, 0]) * X[:, 1] + rng.normal(0, 0.1, 60)
    idata = bx.GPX(X, y).fit("map", progressbar=False)
    starts = idata["starts"]
    assert starts.sizes["start"] == 5
    assert idata["sample_stats"]["lp"].item() == starts["log_density"].max()
    assert float(idata["posterior"]["sigma"].squeeze()) < 0.5


@pytest.mark.parametrize("columns", ["time", "time and another", "another alone"])
def test_a_season_is_found_in_a_column_that_rows_are_ordered_by(columns, rng):
    """Ten waves, whose top no other start reaches; it is compared with a climb from beside it."""
    time = np.arange(100.0) / 10.0
    y = np.sin(2.0 * np.pi * time) + 0.5 * rng.normal(size=100)
    frame = pd.DataFrame({"time": time, "noise": rng.normal(size=100)})
    names = {"time": ["time"], "time and another": ["noise", "time"], "another alone": ["noise"]}
    X = frame[names[columns]]
    found = bx.GP(X, y).fit("map", progressbar=False)
    if columns == "another alone":
        assert found["posterior"]["sigma"].item() > 0.5
        return
    lengths = [5.0] * (X.shape[1] - 1) + [0.08]
    start = {"lengthscale": lengths, "amplitude": 1.0, "sigma": 0.5}
    beside = bx.GP(X, y).fit("map", start=start, progressbar=False)
    assert_allclose(found["sample_stats"]["lp"], beside["sample_stats"]["lp"], atol=1e-3)
    assert found["posterior"]["lengthscale"].values.ravel()[-1] < 0.2


def test_the_highest_end_alone_is_climbed_to_its_top():
    """Of two curved ridges, whose tops at (-1, 1) and (2, 4) have log densities of 0 and 1."""
    with pm.Model() as model:
        x, y = pm.Flat("x"), pm.Flat("y")
        ridge = pt.minimum((x + 1.0) ** 2, (x - 2.0) ** 2 - 1.0) + 30.0 * (y - x**2) ** 2
        pm.Potential("height", -ridge)
    density = Density(model, jacobian=False)
    starts = [{"x": np.array(a), "y": np.array(b)} for a, b in ((-3.0, 5.0), (3.5, 5.0))]
    low, high = climb(density, starts, progressbar=False)
    assert_allclose(high.x, [2.0, 4.0], atol=1e-4)
    assert_allclose(high.log_density, 1.0, atol=1e-8)
    assert_allclose(low.log_density, 0.0, atol=0.01)
    assert low.converged and high.converged
    assert [low.evaluations, high.evaluations] == [len(low.trace), len(high.trace)]
    (alone,) = climb(density, starts[:1], progressbar=False)
    assert alone.evaluations > low.evaluations
    assert_allclose(alone.log_density, 0.0, atol=1e-8)


@pytest.mark.parametrize("likelihood", ["normal", pytest.param("poisson", marks=pytest.mark.slow)])
def test_many_rows_begin_where_a_sample_of_them_ends(likelihood, rng, monkeypatch):
    """And find the same mode, with fewer evaluations of the density of all."""
    X = rng.uniform(-2.0, 2.0, (120, 1))
    y = rng.poisson(np.exp(np.sin(2.0 * X[:, 0])))
    options = {"likelihood": likelihood, "approximation": bx.Inducing(X[:8])}
    everywhere = bx.GP(X, y, **options).fit("map", progressbar=False)
    monkeypatch.setattr(fitting, "SAMPLE", 50)
    monkeypatch.setattr(fitting, "MANY", 2)
    idata = bx.GP(X, y, **options).fit("map", progressbar=False)
    ends, all_ends = (fit["starts"].to_dataset() for fit in (idata, everywhere))
    assert (ends.sizes["start"], all_ends.sizes["start"]) == (2, 6)
    for name, value in everywhere["posterior"].items():
        assert_allclose(idata["posterior"][name], value, rtol=1e-3)
    assert ends["evaluations"].sum() < all_ends["evaluations"].sum() / 2
    other = bx.GP(X, y, **options).fit("map", start=everywhere, progressbar=False)
    assert other["starts"].sizes["start"] == 1
    sent = bx.GP(X, y, **options).fit("map", executor=Sent(), progressbar=False)
    xr.testing.assert_allclose(sent["starts"].to_dataset(), ends)


def test_which_fits_begin_with_a_sample(rng, monkeypatch):
    monkeypatch.setattr(fitting, "SAMPLE", 50)
    monkeypatch.setattr(fitting, "MANY", 2)
    X = rng.uniform(-2.0, 2.0, (120, 1))
    y, labels = X[:, 0] + rng.normal(size=120), np.where(np.arange(120) == 7, "rare", "common")
    points, counts = bx.Inducing(X[:8]), {"likelihood": "poisson"}
    some = {"constraints": [bx.constraints.Increasing("x0")], "approximation": bx.HSGP(5)}
    worth = fitting._worth_sampling
    assert worth(bx.GP(X, y, approximation=points))
    assert worth(bx.GP(X, y > 0, approximation=bx.HSGP(5), likelihood="bernoulli"))
    assert not worth(bx.GP(X, y))
    assert not worth(bx.GP(X[:90], y[:90], approximation=points))
    assert not worth(bx.GP(X, y, approximation=bx.HSGP(5)))  # by sums
    assert not worth(bx.GP(X, y, approximation=bx.Inducing(X[:30])))
    assert not worth(bx.GP(X, y, **some))
    with pm.Model():
        assert not worth(bx.GP(X, y.round() ** 2, approximation=points, **counts))
    classes = {"likelihood": "categorical", "approximation": points}
    known = {"priors": {"lengthscale": 1.0}}
    rare = bx.GP(X, np.where(X[:, 0] > 1, "third", labels), **classes, **known)
    assert rare.fit("map", progressbar=False)["starts"].sizes["start"] == 2

    def nowhere(*_):
        raise fitting.NowhereFinite

    monkeypatch.setattr(fitting, "_mode", nowhere)
    found = bx.GP(X, y, approximation=points).fit("map", progressbar=False)
    assert found["starts"].sizes["start"] == 6


@pytest.mark.parametrize("inner", [pytest.param(False, marks=pytest.mark.slow), True])
def test_functions_of_threads_do_not_disturb_each_other(regression, inner):
    """Also where an operation keeps one inner function for all its copies."""
    X, _, y, _, _ = regression
    model = bx.GP(X, y, kernel="matern52")._pymc
    if inner:
        with model:
            pm.Potential("extra", -pt.diag(model["lengthscale"] ** 2).sum())
    density = Density(model, jacobian=True)
    x = density.unconstrain({})
    points = [x + 0.05 * i for i in range(40)]
    expected = [density.value_and_slope()(p)[0] for p in points]

    def work(_):
        function = density.value_and_slope()
        return [function(p)[0] for p in points * 5]

    with ThreadPoolExecutor(4) as pool:
        for values in pool.map(work, range(4)):
            assert_array_equal(values, expected * 5)


@pytest.mark.parametrize("long_run", [False, True])
def test_a_parameter_without_meaning_has_no_density(long_run):
    with pm.Model() as model:
        a = pm.Normal("a")
        pm.Bernoulli("y", p=pm.math.sqrt(a), observed=[1])
    density = Density(model, jacobian=True, long_run=long_run)
    for x, finite in ((0.5, True), (-1.0, False)):
        value, slope = density.value_and_slope()(np.array([x]))
        assert np.isfinite(value) == finite == np.isfinite(density.height(np.array([x])))
        assert np.isfinite(slope).all()


def of_two_outputs(X, y):
    gaps = np.where(np.arange(len(y)) % 3, y**2 - y, np.nan)
    return bx.GP(X, pd.DataFrame({"a": y, "b": gaps}))


def by_the_verb(*_, **__):
    raise AssertionError("the verb was called")


@pytest.mark.parametrize(
    "family", [bx.GP, bx.GPX, pytest.param(of_two_outputs, marks=pytest.mark.slow)]
)
def test_the_sampler_leaves_out_rows_as_the_verb_does(regression, monkeypatch, family):
    X, _, y, *_ = regression
    model = family(X, y)
    monkeypatch.setattr(nuts, "WORTHWHILE", 0)
    monkeypatch.setattr(fitting, "of_responses", by_the_verb)
    left_out, known = Density.left_out, []

    def watched(density):
        evaluate = left_out(density)
        return lambda x: known.append(x.tobytes() in density._visited) or evaluate(x)

    monkeypatch.setattr(Density, "left_out", watched)
    with pytest.warns(ConvergenceWarning, match="do not trust"):
        idata = model.fit("nuts", draws=60, tune=30, chains=2, seed=1, progressbar=False)
    expected = leave_one_out.of_responses(model, idata, progressbar=False)
    xr.testing.assert_allclose(idata["log_likelihood"]["y"], expected.rename("y"), rtol=1e-8)
    assert "left_out" not in idata
    assert len(known) > 120 and sum(known) >= len(known) - 1  # one is an example, at the mode


@pytest.mark.parametrize(
    ("options", "jitter", "term", "taken"),
    [
        ({}, 0.0, 1.5, True),
        ({}, 1e-8, 1.5, False),
        ({}, 0.0, np.nan, False),
        ({"constraints": [bx.constraints.Increasing("dose", at=3)]}, 0.0, 1.5, False),
        ({"approximation": bx.Inducing(8)}, 0.0, 1.5, False),
    ],
)
def test_the_samplers_terms_are_taken_where_they_are_the_verbs(
    regression, options, jitter, term, taken
):
    X, _, y, *_ = regression
    terms = np.full((1, 1, len(y)), term)
    found = xr.Dataset({"terms": (("chain", "draw", "response"), terms)})
    idata = xr.DataTree.from_dict({"left_out": found})
    idata.attrs["relative_jitter"] = jitter
    own = fitting._terms_of_sampler(bx.GP(X, y, **options), idata)
    assert (own is not None) is taken
    assert "left_out" not in idata


def test_draws_are_kept_where_leave_one_out_fails(regression, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    X, Z, y, *_ = regression
    model = bx.GPX(X, y, Z)
    monkeypatch.setattr("bayes_gpx.model.fitting.of_responses", stopped)
    with pytest.warns(ConvergenceWarning, match="no leave-one-out terms .KeyboardInterrupt"):
        idata = model.fit("laplace", draws=120, seed=1, progressbar=False)
    assert idata["posterior"].sizes["draw"] == 120 and "log_likelihood" not in idata


@dataclass(frozen=True)
class Start(Method):
    """Take the first start for the answer."""

    gives = "mode"
    takes = ("seed",)

    def fit(self, model, starts, *, seed, progressbar):
        density = Density(model, jacobian=False)
        values = density.expand()(density.unconstrain(starts[0]))
        draws = {k: v[None, None] for k, v in values.items()}
        return as_tree(model, draws, {"lp": np.zeros((1, 1))}, [])


def test_a_method_of_somebody_elses_is_a_class_and_a_name(regression, monkeypatch):
    monkeypatch.setitem(METHODS, "start", f"{__name__}:Start")
    X, _, y, *_ = regression
    model, given = bx.GP(X, y), {"lengthscale": 2.0, "amplitude": 1.5, "sigma": 0.5}
    idata = model.fit("start", start=given, seed=1, progressbar=False)
    assert idata["posterior"].attrs["inference_method"] == "start"
    assert_allclose(idata["posterior"]["lengthscale"].values[0, 0], 2.0)
    with pytest.raises(
        TypeError, match=r"'start' does not take .*'draws_of'.*Pass some of \['seed'\]"
    ):
        model.fit("start", start=given, draws_of=1)
    with pytest.raises(TypeError, match=r"'svgp' does not take .*'batch'.*'minibatch', 'steps'"):
        model.fit("svgp", batch=10)
    with pytest.raises(ValueError, match=r"method: unknown 'stat'.* Did you mean 'start'"):
        model.fit("stat")


def test_draws_that_an_interruption_left_are_whole():
    values = np.arange(24.0).reshape((3, 8))
    values[0, 5:], values[1, 6:], values[2] = np.nan, np.nan, np.nan
    both = np.stack([values, values], axis=-1)
    both[1, 5:, 0] = np.nan
    posterior = xr.Dataset({"a": (("chain", "draw"), values), "b": (("chain", "draw", "k"), both)})
    tree = xr.DataTree.from_dict({"posterior": posterior, "sample_stats": posterior[["a"]]})
    with pytest.warns(ConvergenceWarning, match="5 of 8 draws are kept, of 2 of 3 chains"):
        kept = nuts._drawn(tree, 8)
    for group in ("posterior", "sample_stats"):
        assert np.array_equal(kept[group]["a"], values[:2, :5])
    with pytest.raises(KeyboardInterrupt):
        nuts._drawn(tree.isel(chain=[2]), 8)


@pytest.mark.parametrize(
    "method, options",
    [
        ("laplace", {"draws": 100}),
        pytest.param("nuts", {"draws": 20, "tune": 50, "chains": 3}, marks=pytest.mark.slow),
    ],
)
@pytest.mark.filterwarnings("ignore:Not converged")
def test_the_number_of_cores_changes_no_bit_of_a_fit(method, options, regression, monkeypatch):
    X, _, y, *_ = regression
    model = bx.GP(X, np.where(y > np.median(y), "a", "b"), likelihood="bernoulli", ard=False)
    monkeypatch.setattr("bayes_gpx.numerics.threads.PARALLEL_FROM", 1)
    alone, *others = (
        model.fit(method, cores=k, seed=1, progressbar=False, **options) for k in (1, 2, 3)
    )
    groups = {"posterior"} if method == "nuts" else {"posterior", "starts", "sample_stats"}
    for found in others:
        for group in groups:
            xr.testing.assert_equal(found[group].to_dataset(), alone[group].to_dataset())


def test_densities_of_threads_that_begin_together_are_those_of_one(regression, monkeypatch):
    """Each time compiled anew: none of the threads loses the mode that it goes on from."""
    X, _, y, *_ = regression
    model = bx.GP(X, np.where(y > np.median(y), "a", "b"), likelihood="bernoulli", ard=False)
    points = 0.5 * np.random.default_rng(1).normal(size=(80, 2))
    found = []
    for k in (1, 3, 3):
        monkeypatch.setattr(laplace, "_workers", lambda _, k=k: k)
        found.append(laplace._heights(Density(model.objective, jacobian=True), points, False))
    assert_array_equal(found[1:], found[:1] * 2)


def test_starts_run_by_an_executor_end_where_threads_end(regression):
    X, _, y, _, _ = regression
    model, options = bx.GP(X, y), {"draws": 10, "seed": 1, "progressbar": False}
    found, expected = (model.fit("laplace", **options, **o) for o in ({"executor": Sent()}, {}))
    for group in ("starts", "posterior"):
        xr.testing.assert_equal(found[group].to_dataset(), expected[group].to_dataset())
    with pytest.raises(ValueError, match=r"Pass one of concurrent\.futures"):
        model.fit("map", executor=3)


class Patient(ThreadPoolExecutor):
    """Threads that are waited for some time, and not for ever."""

    def submit(self, fn, /, *args, **kwargs):
        future = super().submit(fn, *args, **kwargs)
        future.result = partial(future.result, timeout=30)
        return future


@pytest.mark.filterwarnings("ignore::bayes_gpx.inference.diagnostics.ConvergenceWarning")
@pytest.mark.parametrize("method", ["map", pytest.param("laplace", marks=pytest.mark.slow), "nuts"])
def test_starts_run_by_threads_of_a_process_whose_fit_holds_the_model(regression, method):
    X, _, y, _, _ = regression
    options = {"draws": 20, "tune": 20, "chains": 2, "seed": 1, "progressbar": False}
    fit = partial(bx.GP(X, y).fit, method, **options)
    with Patient(2) as executor:
        found, expected = fit(executor=executor), fit()
    xr.testing.assert_equal(found["starts"].to_dataset(), expected["starts"].to_dataset())


def test_tasks_have_the_jitter_of_their_fit(regression):
    X, _, y, _, _ = regression
    model = bx.GP(X, y)
    start = model.starts()[0]

    def height(objective):
        density = Density(objective, jacobian=False)
        return density.height(density.unconstrain(start))

    without = height(model.objective)
    own = fitting._objective(model, 0.5)
    assert height(model.objective) == without  # what others hold is not touched
    with model.jittered(0.5):
        expected = height(model.objective)
    assert height(own) == expected != without


class Client:
    """As Dask's client: the result of a task is held where tasks run, which are sent its name."""

    def __init__(self):
        self.held = []

    def submit(self, fn, shared, *, pure):
        assert not pure  # equal objects of two calls are not one
        self.held.append(fn(pickle.loads(pickle.dumps(shared))))
        return "held"


class OnCluster(Sent):
    """As Dask's executor."""

    def __init__(self):
        self._client, self.tasks = Client(), 0

    def submit(self, fn, shared, /, *args):
        assert shared == "held"
        self.tasks += 1
        return super().submit(partial(fn, self._client.held[0]), *args)


def test_starts_get_the_model_once(regression):
    X, _, y, _, _ = regression
    model, executor = bx.GP(X, y), OnCluster()
    found = model.fit("map", executor=executor, progressbar=False)
    assert len(executor._client.held) == 1 < executor.tasks == found["starts"].sizes["start"]


@pytest.mark.slow
def test_starts_run_in_other_processes(regression):
    X, _, y, _, _ = regression
    model = bx.GP(X, y > y.mean(), likelihood="bernoulli")
    expected = model.fit("map", progressbar=False)["posterior"].to_dataset()
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        found = model.fit("map", executor=executor, progressbar=False)
    xr.testing.assert_allclose(found["posterior"].to_dataset(), expected, rtol=1e-6)


@pytest.mark.parametrize("count", [3, 20, 200])
def test_equal_weights_are_converged_however_few(count):
    """Their tail tells nothing, and together they are worth as many draws as there are."""
    log_weights, khat = laplace.smoothed(np.zeros(count))
    assert_allclose(np.exp(log_weights), 1.0 / count)
    told = laplace.diagnosed(log_weights, khat, count)
    assert told["convergence"] == "converged"
    assert f"worth {count} draws" in told["convergence_summary"]
    one = np.append(0.0, np.full(count, 800.0))  # one of them has all of the weight
    told = laplace.diagnosed(*laplace.smoothed(one), count)
    assert told["convergence"] == ("not converged" if count > 3 else "borderline")
    assert "worth 1 draws" in told["convergence_summary"]
