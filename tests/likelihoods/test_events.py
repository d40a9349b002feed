"""Probabilities of events of y, explained: against SciPy's distributions and draws of y."""

import json
import pickle

import mpmath
import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from scipy import integrate, stats
from scipy.special import expit, gamma

import bayes_gpx as bx
import lifelines_values
from bayes_gpx.draws import results
from bayes_gpx.likelihoods import named
from bayes_gpx.likelihoods.events import Event
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.numerics.special import log_gammaincc
from bayes_gpx.plots.selection import at_baseline
from known_draws import known, scattered

QUIET = {"progressbar": False}
rng = np.random.default_rng(sum(map(ord, "events")))
X = pd.DataFrame(rng.normal(size=(40, 2)), columns=["age", "dose"])
TIMES = 30.0 * np.exp(0.5 * X["age"].to_numpy()) * rng.weibull(2.0, 40)
KERNEL = {"lengthscale": [1.5, 1.5], "amplitude": 0.8}
FAMILIES = {  # with the distribution of y given f
    "weibull": (
        {"shape": 2.0},
        lambda f: stats.weibull_min(2.0, scale=np.exp(f) / gamma(1.5)),
    ),
    "lognormal": ({"sigma": 0.6}, lambda f: stats.lognorm(0.6, scale=np.exp(f - 0.18))),
    "gamma": ({"shape": 2.5}, lambda f: stats.gamma(2.5, scale=np.exp(f) / 2.5)),
    "loglogistic": ({"shape": 3.0}, lambda f: stats.fisk(3.0, scale=np.exp(f))),
    "normal": ({"sigma": 0.5}, lambda f: stats.norm(f, 0.5 * TIMES.std(ddof=0))),
    "student_t": (
        {"sigma": 0.5, "nu": 4.0},
        lambda f: stats.t(4.0, f, 0.5 * TIMES.std(ddof=0)),
    ),
    "asymmetric_laplace": (
        {"sigma": 0.3},
        lambda f: stats.laplace(f, 0.6 * TIMES.std(ddof=0)),
    ),
}
WITHOUT_HAZARDS = "student_t", "asymmetric_laplace"
ALL = pytest.mark.parametrize("name", FAMILIES)
AT = 25.0


def of(name):
    return bx.GP(X, TIMES, likelihood=name).of_event("survival", AT), KERNEL | FAMILIES[name][0]


@ALL
def test_predictions_are_integrals_over_f(name):
    model, theta = of(name)
    found = bx.predictions(model, theta, X.iloc[:3] + 0.1, draws=50, seed=1, **QUIET)
    assert_allclose(found["survival"], FAMILIES[name][1](found["f"].values).sf(AT), rtol=1e-8)
    for row in found.transpose("obs", ...).obs.values[:2]:
        one = found.sel(obs=row)
        f = stats.norm(one["f_mean"].item(), one["f_sd"].item())

        def weighed(v, f=f):
            return f.pdf(v) * FAMILIES[name][1](v).sf(AT)

        ends, options = f.interval(1 - 1e-13), {"epsabs": 1e-12, "limit": 200}
        assert_allclose(
            one["survival_mean"], integrate.quad(weighed, *ends, **options)[0], rtol=1e-6
        )


@ALL
def test_attributions_of_survival_add_up(name):
    model, theta = of(name)
    rows = X.iloc[:3]
    found = bx.attributions(model, theta, rows, draws=100, seed=1, **QUIET)
    assert_allclose(found["attribution"].sum("feature"), found["difference"], atol=1e-6)
    assert_allclose(found["attribution_mean"].sum("feature"), found["difference_mean"], atol=1e-6)
    assert found.attrs["units"] == "probability that y > 25"
    start = pd.DataFrame([X.mean()])
    at, base = (
        bx.predictions(model, theta, where, keep="summary", **QUIET)["survival_mean"].values
        for where in (rows, start)
    )
    assert_allclose(found["difference_mean"], at - base, atol=1e-6)


def _zero_inflated(counts, inflation=0.25):
    return lambda f: (1.0 - inflation) * counts(np.exp(f) / (1.0 - inflation)).sf(2.0)


PROBABILITIES = {  # of more than a value: hyperparameters, the value, the probability given f
    "student_t": ({"sigma": 0.5, "nu": 4.0}, 1.0, lambda f: stats.t(4.0, f, 0.5).sf(1.0)),
    "beta": ({"precision": 5.0}, 0.4, lambda f: stats.beta(5 * expit(f), 5 * expit(-f)).sf(0.4)),
    "zero_inflated_poisson": ({"inflation": 0.25}, 2.0, _zero_inflated(stats.poisson)),
    "zero_inflated_negative_binomial": (
        {"inflation": 0.25, "dispersion": 3.0},
        2.0,
        _zero_inflated(lambda rate: stats.nbinom(3.0, 3.0 / (3.0 + rate))),
    ),
    "poisson": ({}, 2.0, lambda f: stats.poisson(np.exp(f)).sf(2.0)),
    "weibull": (
        {"shape": 2.0},
        1.5,
        lambda f: stats.weibull_min(2.0, scale=np.exp(f) / gamma(1.5)).sf(1.5),
    ),
}


@pytest.mark.parametrize("name", PROBABILITIES)
def test_slopes_of_a_probability_are_its_differences_wherever_f_is(name):
    """Also at f = 1, the value itself, where a Student-t integral has no slope, and far away."""
    values, at, probability = PROBABILITIES[name]
    f, theta = pt.dmatrix(), {key: pt.dvector() for key in values}
    event = Event(named(name), "survival", at)
    outputs = [*event.response(f, None, {key: v[:, None] for key, v in theta.items()})]
    outputs.append(pt.grad(outputs[2].sum(), f))
    slopes = pytensor.function([f, *theta.values()], outputs, mode=MODE)
    points = np.array([[-40.0, -8.0, -1.0, 0.0, 0.3], [1.0, 2.0, 4.0, 12.0, 40.0]])
    known, h = [np.full(2, v) for v in values.values()], 1e-4
    found, after, before = (slopes(points + step, *known) for step in (0.0, h, -h))
    assert_allclose(found[0], probability(points), rtol=1e-9, atol=1e-14)
    for k in range(3):
        assert_allclose(found[k + 1], (after[k] - before[k]) / (2 * h), rtol=1e-5, atol=1e-6)


def test_other_functions_explain_survival():
    model, theta = of("weibull")
    at, h = X.iloc[:1], 1e-4
    moved = [at.assign(age=at["age"] + s * h) for s in (1.0, -1.0)]
    up, down = (
        bx.predictions(model, theta, rows, keep="summary", **QUIET)["survival_mean"].item()
        for rows in moved
    )
    slope = bx.derivatives(model, theta, at, seed=1, **QUIET)["derivative_mean"]
    assert_allclose(slope.sel(feature="age"), (up - down) / (2 * h), rtol=1e-5)
    new = at.assign(age=at["age"] + 1.0)
    apart = np.diff([
        bx.predictions(model, theta, rows, keep="summary", **QUIET)["survival_mean"].item()
        for rows in (at, new)
    ])  # fmt: skip
    options = {"draws": 20_000, "seed": 1, **QUIET}
    contrast = bx.comparisons(model, theta, at, variables={"age": "+1"}, **options)
    assert_allclose(contrast["comparison_mean"].values.ravel(), apart, atol=0.01)
    curve = bx.partial_dependence(model, theta, features=["age"], steps=3, draws=20, **QUIET)
    assert ((curve["partial_dependence"] > 0) & (curve["partial_dependence"] < 1)).all()
    shares = bx.shapley_values(model, theta, at, seed=1, **QUIET)
    assert_allclose(shares["attribution_mean"].sum("feature"), shares["difference_mean"], atol=1e-9)


def test_survival_is_the_share_of_longer_times():
    model, theta = of("weibull")
    found = bx.predictions(model, theta, obs=[0, 1, 2], draws=40_000, seed=1, **QUIET)
    share = (found["y"] > AT).mean(("chain", "draw"))
    assert_allclose(share, found["survival_mean"], atol=0.015)


def test_probabilities_of_counts_and_categories_add_up_to_one():
    counts = bx.GP(X, rng.poisson(2.0, 40), likelihood="poisson", scale=False)
    stars = bx.GP(X, 1 + rng.integers(4, size=40), likelihood="ordinal")
    theta = KERNEL | {"cutpoint": [-1.0, 0.0, 1.0]}
    for model, fixed, values in ((counts, KERNEL, range(30)), (stars, theta, range(1, 5))):
        each = [
            bx.predictions(model.of_event("probability", k), fixed, obs=[0, 1], seed=1, **QUIET)
            for k in values
        ]
        for name in ("probability", "probability_mean"):
            assert_allclose(sum(one[name].values for one in each), 1.0, atol=1e-7)


def test_each_draw_has_its_own_shape():
    model = bx.GP(X, TIMES, likelihood="weibull")
    idata = known(model, scattered(KERNEL | {"shape": 2.0}, 20))
    asked = model.of_event("survival", AT)
    found = bx.predictions(asked, idata, X.iloc[:2], seed=1, **QUIET)
    shape = idata["posterior"]["shape"].values[:, :, None]
    exact = stats.weibull_min(shape, scale=np.exp(found["f"].values) / gamma(1 + 1 / shape))
    assert_allclose(found["survival"], exact.sf(AT), rtol=1e-8, atol=1e-14)
    shares = bx.attributions(asked, idata, X.iloc[:2], seed=1, **QUIET)
    assert_allclose(shares["attribution"].sum("feature"), shares["difference"], atol=1e-6)
    apart = shares["attribution"] - shares["attribution_mean"]
    assert abs(apart.mean(("chain", "draw"))).max() < 0.1


def test_the_model_of_an_event_is_the_same_otherwise():
    model, theta = of("weibull")
    copy = pickle.loads(pickle.dumps(model))
    asked = (theta, X.iloc[:2])
    found, expected = (bx.predictions(m, *asked, seed=1, **QUIET) for m in (copy, model))
    xr.testing.assert_allclose(found, expected)
    plain = bx.predictions(bx.GP(X, TIMES, likelihood="weibull"), *asked, seed=1, **QUIET)
    assert_allclose(plain["f_mean"], found["f_mean"])


@pytest.mark.parametrize(
    "likelihood, asked, said",
    [
        ("weibull", ("survivor", 1.0), "of: unknown 'survivor'"),
        ("weibull", ("survival", -1.0), r"at is -1.0, but .* no such value"),
        ("weibull", ("probability", 1.0), "y is no whole number"),
        ("poisson", ("probability", 1.5), "no such value"),
    ],
)
def test_other_events_are_refused(likelihood, asked, said):
    y = TIMES if likelihood == "weibull" else TIMES.round()
    with pytest.raises(ValueError, match=said):
        bx.GP(X, y, likelihood=likelihood).of_event(*asked)


def test_a_probability_without_a_second_derivative_is_refused():
    own = bx.likelihoods.custom(
        lambda f, exposure: pm.Beta.dist(5.0 * pm.math.sigmoid(f), 5.0 * pm.math.sigmoid(-f)),
        mean=lambda f, exposure: pm.math.sigmoid(f),
        support="unit",
    )
    model = bx.GP(X, rng.uniform(size=40), likelihood=own)
    with pytest.raises(ValueError, match="as of pm.Beta. Take a share of draws of y"):
        bx.attributions(model, KERNEL, X[:2], of="survival", at=0.5, seed=1, **QUIET)


def test_a_store_of_one_event_is_not_continued_by_another(tmp_path, monkeypatch):
    model, theta = of("weibull")
    asked = {"path": tmp_path / "store", "draws": 30, "seed": 1, **QUIET}
    sample = results.Result.sample

    def stopped(self, *arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(results.Result, "sample", stopped)
    with pytest.raises(KeyboardInterrupt):
        bx.predictions(model, theta, X.iloc[:3], **asked)
    monkeypatch.setattr(results.Result, "sample", sample)
    other = bx.GP(X, TIMES, likelihood="weibull").of_event("survival", 2 * AT)
    with pytest.raises(ValueError, match="unfinished store of other arguments"):
        bx.predictions(other, theta, X.iloc[:3], **asked)
    found = bx.predictions(model, theta, X.iloc[:3], **asked)
    del asked["path"]
    alone = bx.predictions(model, theta, X.iloc[:3], **asked)
    assert_allclose(found["survival"], alone["survival"], rtol=1e-12)


def test_base_values_are_at_an_exposure_of_one():
    known = np.linspace(1.0, 3.0, 40)
    model = bx.GP(X, TIMES, likelihood="weibull", exposure=known).of_event("survival", AT)
    theta, rows = KERNEL | {"shape": 2.0}, X.iloc[:2]
    found = bx.attributions(model, theta, rows, seed=1, **QUIET)
    at_one = bx.predictions(model, theta, rows, seed=1, **QUIET)
    base = at_baseline(found, at_one)
    assert_allclose(base, at_one["survival_mean"] - found["difference_mean"], rtol=1e-9)
    elsewhere = bx.predictions(model, theta, rows, exposure=[2.0, 3.0], seed=1, **QUIET)
    with pytest.raises(ValueError, match="at an exposure other than 1"):
        at_baseline(found, elsewhere)


def test_events_of_rows_with_numbers_of_their_own_are_refused():
    with pytest.raises(ValueError, match=r"has trials=.* depends on that of each new row"):
        bx.GP(X, np.ones(40), likelihood="binomial", trials=np.full(40, 3)).of_event("survival", 1)
    with pytest.raises(ValueError, match=r"has noise_sd="):
        bx.GP(X, TIMES, noise_sd=np.full(40, 3.0)).of_event("survival", 1)


@pytest.mark.parametrize(
    "event", [pytest.param(("survival", AT), marks=pytest.mark.slow), ("quantile", 0.9)]
)
def test_events_of_an_uncorrelated_output_are_those_of_a_model_of_it(event):
    """Whose noise is the last of its own; also for functions at many rows."""
    alone, theta = bx.GP(X, TIMES), KERNEL | {"sigma": 0.5}
    both = bx.GP(X, pd.DataFrame({"time": TIMES[::-1] / 60.0, "other": TIMES}))
    pairs = {name: np.array([value, value]) for name, value in theta.items()}
    pairs["sigma"] = np.array([2.0, 0.5])
    asked = (alone.of_event(*event), theta), (both.of_output("other").of_event(*event), pairs)
    for function in (bx.predictions, bx.derivatives, bx.attributions):
        pair = [function(*one, obs=[0, 5], seed=1, draws=50, **QUIET) for one in asked]
        for name in pair[0].data_vars:
            if not name.startswith("completeness"):
                assert_allclose(pair[1][name], pair[0][name], rtol=1e-6, atol=1e-6)
    options = {"features": ["age"], "steps": 3, "draws": 1000, "seed": 1, **QUIET}
    curves = [bx.partial_dependence(*one, **options) for one in asked]
    means, sds = (
        [curve[f"partial_dependence_{part}"].values for curve in curves] for part in ("mean", "sd")
    )
    assert (abs(np.subtract(*means)) < 5.0 * np.hypot(*sds) / 1000**0.5).all()


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in WITHOUT_HAZARDS])
def test_hazards_and_quantiles_are_those_of_the_distribution(name):
    """By an option of the function, at several values at once."""
    model, theta = bx.GP(X, TIMES, likelihood=name), KERNEL | FAMILIES[name][0]
    times, levels = [10.0, AT], [0.1, 0.9]
    rows = X.iloc[:3] + 0.1
    options = {"draws": 50, "seed": 1, **QUIET}
    hazard = bx.predictions(model, theta, rows, of="hazard", at=times, **options)
    quantile = bx.predictions(model, theta, rows, of="quantile", at=levels, **options)
    for t, p in zip(times, levels, strict=True):
        given = FAMILIES[name][1](hazard["f"].values)
        expected = given.pdf(t) / given.sf(t)
        assert_allclose(hazard["hazard"].sel(at=t), expected, rtol=1e-7)
        assert_allclose(quantile["quantile"].sel(at=p), given.ppf(p), rtol=1e-8)
    again = bx.predictions(model.of_event("hazard", AT), theta, rows, **options)
    assert_allclose(hazard["hazard_mean"].sel(at=AT), again["hazard_mean"], rtol=1e-12)


@pytest.mark.parametrize("a", [0.1, 1.0, 8.0, 300.0, 1e4])
def test_log_survival_of_a_gamma_keeps_its_digits(a):
    """On both sides of where the continued fraction begins, and where probabilities underflow."""
    x = np.array([0.3, 0.9, 1.05, 1.5, 2.5, 40.0]) * (a + 20.0)
    found = log_gammaincc(np.float64(a), pt.as_tensor(x)).eval(mode=MODE)
    expected = [float(mpmath.log(mpmath.gammainc(a, v, regularized=True))) for v in x]
    assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("function", [bx.attributions, bx.shapley_values])
def test_shares_of_a_quantile_add_up(function):
    model, theta = bx.GP(X, TIMES, likelihood="weibull"), KERNEL | {"shape": 2.0}
    found = function(model, theta, X.iloc[:2], of="quantile", at=0.9, draws=20, **QUIET)
    assert_allclose(found["attribution_mean"].sum("feature"), found["difference_mean"], atol=1e-6)
    assert found.attrs["units"] == "quantile 0.9 of y"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"of": "survival"}, "at is missing"),
        ({"at": 3.0}, "of is 'value'"),
        ({"of": "quantile", "at": 3.0}, "between 0 and 1"),
        ({"of": "hazard", "at": 3.0, "likelihood": "student_t"}, "does not have"),
        ({"of": "survival", "at": [1.0, 2.0], "path": "x.zarr"}, "several values of at"),
        ({"of": "survival", "at": -5.0}, "at is -5.0, but likelihood='weibull' has no such value"),
    ],
)
def test_an_event_that_cannot_be_explained_is_refused(options, message):
    model = bx.GP(X, TIMES, likelihood=options.pop("likelihood", "weibull"))
    with pytest.raises(ValueError, match=message):
        bx.predictions(model, KERNEL | {"shape": 2.0}, **options, **QUIET)


def test_an_event_of_a_model_that_is_not_one_is_refused():
    model = bx.GP(X, TIMES, likelihood="weibull")
    with pytest.raises(ValueError, match="model is a dict. Pass a bx.GP or bx.GPX"):
        bx.predictions(KERNEL, X, of="survival", at=3.0)
    with pytest.raises(ValueError, match="model and idata are swapped"):
        bx.predictions(KERNEL, model, of="survival", at=3.0)


def test_concordance_is_that_of_lifelines():
    frame, time, known_end = lifelines_values.rows()
    expected = frame["dose"].round(1).to_numpy()
    found = xr.Dataset({"response_mean": ("obs", expected)}, {"obs": frame.index})
    stored = json.loads(lifelines_values.STORED.read_text())["concordance"]
    assert_allclose(bx.metrics.concordance(found, time, known_end), stored, rtol=1e-12)


def test_brier_scores_are_those_of_whole_durations():
    """Without bounds the mean square; with bounds, the same in expectation."""
    random, n, at = np.random.default_rng(8), 40_000, np.array([5.0, 20.0])
    time, end = random.exponential(15.0, n), random.exponential(20.0, n)
    survival = np.exp(-at / random.uniform(10.0, 20.0, (n, 1)))
    found = xr.Dataset({"survival_mean": (("obs", "at"), survival)}, {"obs": range(n), "at": at})
    whole = bx.metrics.brier_score(found, time, np.ones(n, bool))
    square = ((time[:, None] > at) - survival) ** 2
    assert_allclose(whole, square.mean(axis=0), rtol=1e-12)
    bounded = bx.metrics.brier_score(found, np.minimum(time, end), time < end)
    weighted_error = 3.0 * square.std(axis=0) * np.sqrt(np.exp(at / 20.0) / n)
    assert (np.abs(bounded - whole) < weighted_error).all()
    for wrong, message in ((found.drop_vars("at"), "no survival"), (found, "True or False")):
        with pytest.raises(ValueError, match=message):
            bx.metrics.brier_score(wrong.isel(at=0) if wrong is not found else found, time, time)


def test_brier_scores_do_not_depend_on_ties():
    """In whole months, where many rows end as others are lost: the scores of all durations."""
    random, n, at = np.random.default_rng(3), 40_000, np.array([2.0, 3.0, 4.0])
    time, lost = random.integers(1, 7, n), random.integers(1, 7, n)
    survival = np.tile([0.9, 0.6, 0.2], (n, 1))
    found = xr.Dataset({"survival_mean": (("obs", "at"), survival)}, {"obs": range(n), "at": at})
    square = ((time[:, None] > at) - survival) ** 2
    bounded = bx.metrics.brier_score(found, np.minimum(time, lost), time <= lost)
    weighted_error = 3.0 * square.std(axis=0) * np.sqrt(2.0 / n)
    assert (np.abs(bounded - square.mean(axis=0)) < weighted_error).all()


def test_results_say_which_event_they_are_of():
    model, theta = bx.GP(X, TIMES, likelihood="weibull"), KERNEL | {"shape": 2.0}
    options = {"obs": X.index[:3], "seed": 1, **QUIET}
    one, other = (
        bx.predictions(model, theta, of="survival", at=at, **options) for at in (AT, 40.0)
    )
    both = bx.predictions(model, theta, of="survival", at=[AT, 40.0], **options)
    event = "probability that y > 25"
    assert one.attrs["event"] == event
    assert f"{event}, at x (unit: probability)" in bx.describe(one, obs=0)
    assert "y > 40, at x (unit: probability)" in bx.describe(both.sel(at=40.0), obs=0)
    said = json.loads(bx.to_json(one))
    assert said["units"]["response"] == event
    assert said["estimands"]["response"] == f"the {event}, at x"
    assert said["estimands"]["f"].startswith("f(x)")
    shares = bx.attributions(model, theta, of="survival", at=AT, **options)
    assert f", where the response is the {event}" in bx.describe(shares, obs=0)
    steep = bx.slopes(model, theta, of="survival", at=[40.0, AT], **options)
    later = "probability that y > `at` per unit of the feature"
    assert steep.attrs["units"] == steep["average_slope"].attrs.get("units", later) == later
    assert f"(unit: {event} per unit" in bx.describe(steep.sel(at=AT))
    assert "probability that y > 40 per unit" in bx.describe(steep.sel(at=40.0))
    shares = bx.attributions(model, theta, of="survival", at=[40.0, AT], **options)
    drawn = bx.plot_waterfall(shares.sel(at=AT), obs=0, backend="matplotlib")
    assert any(event in axes.get_xlabel() for axes in drawn.viz["figure"].item().axes)
    with pytest.raises(ValueError, match="is of probability that y > 40, but the first of"):
        bx.combined([one, other])
    with pytest.raises(ValueError, match="several values of at"):
        bx.metrics.concordance(both, TIMES[:3], np.ones(3, bool))
    with pytest.raises(ValueError, match="at is 'long'. Pass a number"):
        bx.predictions(model, theta, of="survival", at="long", **options)


def test_predictions_of_an_event_are_drawn():
    model, theta = bx.GP(X, TIMES, likelihood="weibull"), KERNEL | {"shape": 2.0}
    options = {"of": "survival", "obs": X.index[:3], "seed": 1, **QUIET}
    found = bx.predictions(model, theta, at=[AT, 40.0], **options)
    pc = bx.plot_predictions(found.sel(at=40.0), backend="none")
    assert "new_response" not in pc.viz.children
    with pytest.raises(ValueError, match="y was given with predictions of the probability"):
        bx.plot_predictions(found.sel(at=AT), TIMES[:3], backend="none")


@pytest.mark.parametrize("at", [[AT], [1e4, 2e4]])
def test_what_depends_on_numbers_has_their_dim_whatever_its_values(at):
    """Also of a single number, and where all probabilities are 0."""
    model, theta = bx.GP(X, TIMES, likelihood="weibull"), KERNEL | {"shape": 2.0}
    options = {"of": "survival", "obs": X.index[:3], "seed": 1, **QUIET}
    found = bx.predictions(model, theta, at=at, **options)
    shares = bx.attributions(model, theta, at=at, **options)
    assert found["survival"].dims == ("chain", "draw", "obs", "at")
    assert found["survival_mean"].dims == found["response_mean"].dims == ("obs", "at")
    assert shares["attribution_mean"].dims == ("obs", "feature", "at")
    assert "at" not in found["f_mean"].dims and "at" not in shares["value"].dims
    bx.plot_predictions(found, backend="none")


def test_an_event_at_several_numbers_is_drawn_as_a_curve_for_each_row():
    model, theta = bx.GP(X, TIMES, likelihood="weibull"), KERNEL | {"shape": 2.0}
    options = {"of": "survival", "obs": X.index[:2], "seed": 1, **QUIET}
    found = bx.predictions(model, theta, at=[40.0, AT, 90.0], **options)
    pc = bx.plot_predictions(found, ci_prob=0.5, backend="matplotlib")
    ends = found["survival"].quantile([0.25, 0.75], ["chain", "draw"])
    for row in found["obs"].values:
        line, band = (
            pc.viz[name]["response"].sel(row=row).item() for name in ("point_estimate", "interval")
        )
        own = found["survival_mean"].sel(obs=row).sortby("at")
        assert_allclose(line.get_xydata(), np.column_stack([own["at"], own]))
        corners = band.get_paths()[0].vertices
        for bound in ends.sel(obs=row).transpose("quantile", "at").values:
            gaps = np.abs(corners[None] - np.column_stack([found["at"], bound])[:, None])
            assert_allclose(gaps.max(axis=2).min(axis=1), 0.0, atol=1e-12)
    with pytest.raises(ValueError, match="3 values of at for 2 rows. Choose one"):
        bx.plot_predictions(found, along="x0", backend="none")
    many = found.isel(obs=np.zeros(25, int))
    with pytest.raises(ValueError, match="for 25 rows. Choose one .* of at most 24 rows"):
        bx.plot_predictions(many, backend="none")


def test_the_center_of_medians_does_not_follow_one_long_duration():
    far = np.append(TIMES[1:], 1e9)
    near, shifted = (named("loglogistic").center(y) for y in (TIMES, far))
    assert_allclose(near, np.median(np.log(TIMES)))
    assert abs(shifted - near) < 0.2
    assert_allclose(named("loglogistic").center(3.0 * TIMES, np.full(40, 3.0)), near)
    weights = np.arange(40) % 3
    repeated = named("loglogistic").center(np.repeat(TIMES, weights))
    assert_allclose(named("loglogistic").center(TIMES, None, weights), repeated)
    X, size = np.arange(40.0), pd.Series(weights + 1.0, name="size")
    frame = pd.DataFrame({"x": X, "y": TIMES, "size": size})
    inducing = bx.Inducing(5)
    known = bx.GP(frame[["x"]], TIMES, likelihood="loglogistic", weights=size)
    for parts in ([frame], [frame[:30], frame[30:]]):
        model = bx.GP(parts, "y", likelihood="loglogistic", weights="size", approximation=inducing)
        assert model.training.y_scaling.center == known.training.y_scaling.center


def test_predictions_of_another_event_have_no_waterfall():
    model, theta = bx.GP(X, TIMES, likelihood="weibull"), KERNEL | {"shape": 2.0}
    asked = {"obs": [2], "draws": 5, "seed": 1, **QUIET}
    above = [{"of": "survival", "at": value, **asked} for value in (AT, 40.0)]
    shares = bx.attributions(model, theta, **above[0])
    several = bx.predictions(model, theta, **asked | {"of": "survival", "at": [AT, 40.0]})
    bx.plot_waterfall(shares, predictions=several.sel(at=AT), backend="matplotlib")
    for other, said in ((asked, "the mean response"), (above[1], "probability that y > 40")):
        wrong = bx.predictions(model, theta, **other)
        with pytest.raises(ValueError, match=f"are of {said}, and .* of probability that y > 25"):
            bx.plot_waterfall(shares, predictions=wrong)
