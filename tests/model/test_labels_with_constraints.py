"""Labels and counts with constraints: all that is asked of a model knows them, and refits agree."""

import numpy as np
import pandas as pd
import pytensor
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import bayes_gpx as bx
from bayes_gpx.draws.constraints_met import ConstraintConflictWarning, constraints_met
from bayes_gpx.draws.left_out_together import densities_of_groups
from bayes_gpx.model.constraints import Decreasing, Increasing, Slope, Value, Weight
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.reporting.results import Findings
from bayes_gpx.reporting.sections import CONSTRAINTS

QUIET = {"progressbar": False, "seed": 1}
FIXED = {"lengthscale": [1.2, 1.6], "amplitude": 1.1}
LABELS = {"likelihood": "bernoulli", "link": "probit"}
COUNTS = {"likelihood": "poisson"}
RISING = [Increasing("dose", at=3), Slope("age", mean=0.02, sd=0.02, at=1)]


@pytest.fixture
def table():
    rng = np.random.default_rng(4)
    X = pd.DataFrame({"dose": rng.uniform(0, 10, 9), "age": rng.uniform(20, 70, 9)})
    f = 0.2 * X["dose"] - 0.02 * X["age"]
    cured = pd.Series(np.where(f + rng.normal(0, 1, 9) > 0, "yes", "no"), name="cured")
    return X, cured, pd.Series(rng.poisson(np.exp(1 + f)), name="events")


def model_of(table, kind, constraints=RISING, **options):
    X, cured, events = table
    return bx.GP(X, cured if kind is LABELS else events, constraints=constraints, **kind, **options)


@pytest.mark.parametrize("kind", [LABELS, COUNTS])
def test_slopes_are_those_of_the_constraints(table, kind):
    """In all that is asked: derivatives, functions, attributions, predictions, relevance."""
    X, *_ = table
    plain, model = model_of(table, kind, ()), model_of(table, kind)
    before = bx.derivatives(plain, FIXED, X, on="latent", **QUIET).sel(feature="dose")
    after = bx.derivatives(model, FIXED, X, on="latent", **QUIET).sel(feature="dose")
    assert before["derivative_mean"].min() < after["derivative_mean"].min()
    assert (after["derivative_mean"] > 0).all()
    assert (after["derivative_sd"] < before["derivative_sd"]).all()
    ends = X.iloc[[0, 0]].assign(dose=[X["dose"].min(), X["dose"].max()])
    name = "probability" if kind is LABELS else "rate"
    predicted = bx.predictions(model, FIXED, ends, **QUIET)[f"{name}_mean"].values
    assert predicted[1] > predicted[0]
    divided = bx.attributions(model, FIXED, ends[1:], baseline=ends[:1], on="latent", **QUIET)
    assert_allclose(
        divided["attribution_mean"].sel(feature="dose"),
        np.diff(bx.predictions(model, FIXED, ends, **QUIET)["f_mean"]),
        rtol=1e-6,
    )
    functions = bx.sample_functions(model, FIXED, draws=300, **QUIET)
    slopes = functions.derivatives(X, on="latent")["derivative"].sel(feature="dose").values
    mean, sd = after["derivative_mean"].values, after["derivative_sd"].values
    assert (np.abs(slopes.reshape((300, -1)).mean(axis=0) - mean) < 4 * sd / np.sqrt(300)).all()
    relevance = bx.relevance(model, FIXED, progressbar=False)["relevance_mean"]
    assert (relevance > 0).all()


@pytest.mark.parametrize(("kind", "error"), [(LABELS, 0.01), (COUNTS, 0.03)])
def test_rows_left_out_are_as_after_refits(table, kind, error):
    """But for sites, which stay what all rows made them; of one row, and of two together."""
    X, cured, events = table
    y = cured if kind is LABELS else events
    at = pd.DataFrame({"dose": [1.0, 5.0, 9.0], "age": [30.0, 50.0, 40.0]})
    constraints = [Increasing("dose", at=at, strength=0.1), Value(at[:1], 0.0, 0.3)]
    options = {**kind, "constraints": constraints, "scale": False}
    theta = {"lengthscale": [3.0, 20.0], "amplitude": 1.0}
    model = bx.GP(X, y, **options)
    whole = bx.log_likelihood(model, theta, progressbar=False)
    groups = np.array([0, 0, 1, 1, 1, 2, 2, 2, 2])
    together = densities_of_groups(model, theta, groups, progressbar=False).values.ravel()
    evidence = whole["log_marginal_likelihood"].item()
    for left in ([0], [4], [0, 1]):
        kept = np.delete(np.arange(9), left)
        fewer = bx.GP(X.iloc[kept], y.iloc[kept], **options)
        rest = bx.log_likelihood(fewer, theta, progressbar=False)["log_marginal_likelihood"]
        own = whole["log_likelihood"].values.ravel()[left[0]] if len(left) == 1 else together[0]
        assert_allclose(own, evidence - rest.item(), atol=error)


def test_a_fit_is_kept_and_reported(table, tmp_path):
    model = model_of(table, LABELS, priors={"lengthscale": [1.2, 1.6]})
    idata = model.fit("map", progressbar=False)
    found = idata["constraints"].to_dataset()
    slopes = found.isel(statement=slice(3))
    assert (slopes["posterior_probability"] > slopes["data_probability"]).all()
    assert (slopes["posterior_sd"] < slopes["data_sd"]).all()
    bx.save(model, idata, tmp_path / "m.nc")
    loaded, again = bx.load(tmp_path / "m.nc")
    expected = bx.predictions(model, idata, **QUIET)["probability_mean"]
    assert_array_equal(bx.predictions(loaded, again, **QUIET)["probability_mean"], expected)
    options = {"y_new": None, "obs": None, "baseline": "mean", "seed": 3}
    findings = Findings(model, idata, None, None, **options)
    said = " ".join(
        p.text for make in CONSTRAINTS.makers for p in make(findings) if p.kind == "prose"
    )
    assert "The data contradict no constraint" in said


def test_a_conflict_with_counts_is_reported(table):
    X, *_ = table
    events = pd.Series(np.round(np.exp(0.4 * X["dose"])), name="events")
    model = bx.GP(X, events, constraints=[Decreasing("dose")], likelihood="poisson")
    with pytest.warns(
        ConstraintConflictWarning, match=r"The data alone give \['Decreasing dose'\]"
    ):
        found = constraints_met(model, FIXED, progressbar=False)
    assert found["data_probability"].min() < 0.01


def test_units_are_those_of_f(table):
    X, _, events = table
    constraints = [Slope("dose", mean=0.2, sd=0.1, at=X[:1]), Value(X[:1], 1.5, 0.2)]
    constraints.append(Increasing("dose", at=X[:1], strength=0.05))
    model = bx.GP(X, events, constraints=constraints, likelihood="poisson")
    sd, center = X["dose"].std(ddof=0), np.log(events.mean())
    found = [(s.low, s.high, s.sd) for s in model.specification.constraints.statements]
    expected = [(0.2 * sd, 0.2 * sd, 0.1 * sd), (1.5 - center, 1.5 - center, 0.2)]
    assert_allclose(found, [*expected, (0.0, np.inf, 0.05)], rtol=1e-12)


def test_weights_of_a_gpx_know_the_constraints(table):
    X, cured, _ = table
    theta = {**FIXED, "sigma_w": 0.2}
    model = bx.GPX(X, cured, constraints=[Weight("dose", low=0.0, at=3)], **LABELS)
    found = bx.weights(model, theta, X, smooth=True, **QUIET).sel(feature="dose")
    plain = bx.weights(bx.GPX(X, cured, **LABELS), theta, X, smooth=True, **QUIET)
    assert (found["weight_mean"] > 0).all()
    assert (found["weight_sd"] < plain["weight_sd"].sel(feature="dose")).all()


def test_density_of_hyperparameters_is_the_evidence(table):
    model = model_of(table, LABELS)
    pymc = model.objective
    assert [rv.name for rv in pymc.free_RVs] == ["lengthscale", "amplitude"]
    point = [np.log(FIXED[rv.name]) for rv in pymc.free_RVs]
    logp = pytensor.function(pymc.value_vars, pymc.logp(vars=[pymc["y"]]), mode=MODE)
    found = bx.log_likelihood(model, FIXED, progressbar=False)
    assert_allclose(found["log_marginal_likelihood"].item(), logp(*point), rtol=1e-9)


def test_several_classes_refuse_constraints(table):
    X, cured, _ = table
    with pytest.raises(ValueError, match="with likelihood='categorical'. Use a likelihood of one"):
        bx.GP(X, cured, constraints=RISING, likelihood="categorical")


@pytest.mark.parametrize("kind", [LABELS, COUNTS])
def test_values_between_bounds_are_not_drawn_apart(table, kind):
    with pytest.raises(ValueError, match=r"fit\('nuts', latent='sample'\) samples f"):
        model_of(table, kind).fit("map", truncated="sample", **QUIET)


@pytest.mark.slow
@pytest.mark.parametrize("representation", ["collapsed", "hierarchy"])
def test_sampled_latent_values_agree_with_expectation_propagation(table, representation):
    """NUTS over f and constrained quantities, which is exact, of hyperparameters given."""
    X, *_ = table
    constraints = [Increasing("dose", at=3, strength=0.3), Slope("age", mean=0.02, sd=0.02, at=1)]
    priors = {"lengthscale": [1.2, 1.6], "amplitude": 1.1}
    model = model_of(table, LABELS, constraints, priors=priors, representation=representation)
    idata = model.fit("nuts", latent="sample", draws=2000, tune=500, chains=2, **QUIET)
    assert "constrained_white" in idata["posterior"]
    for ask, name in ((bx.predictions, "f"), (bx.derivatives, "derivative")):
        options = {} if name == "f" else {"on": "latent"}
        new = X[:4] + 0.5  # at rows themselves a draw leaves nothing uncertain
        one = ask(model, idata, new, keep="summary", **options, **QUIET)
        two = ask(model, FIXED, new, keep="summary", **options, **QUIET)
        sd = one[f"{name}_sd"].values
        assert (np.abs(one[f"{name}_mean"] - two[f"{name}_mean"]) < 0.1 * sd).all()
        assert_allclose(two[f"{name}_sd"], sd, rtol=0.08)
    sampled = idata["constraints"].to_dataset()
    ep = constraints_met(model, FIXED, progressbar=False)
    assert_allclose(sampled["data_mean"], ep["data_mean"], rtol=1e-6)
    bounded = [s["posterior_probability"].values[:3] for s in (sampled, ep)]
    assert_allclose(*bounded, atol=0.05)
