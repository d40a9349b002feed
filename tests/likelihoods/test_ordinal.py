"""Ordered categories, against statsmodels, two classes, and the density of shares."""

import json

import mpmath
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from scipy import integrate, stats
from scipy.special import expit

import bayes_gpx as bx
from bayes_gpx.cli import main
from bayes_gpx.draws.points import read_observed
from bayes_gpx.likelihoods.classification import Logit, Probit
from bayes_gpx.likelihoods.ordinal import Ordinal
from bayes_gpx.numerics.compile_modes import MODE

QUIET = {"progressbar": False}
LINKS = {"logit": (Logit(), stats.logistic), "probit": (Probit(), stats.norm)}
BOTH = pytest.mark.parametrize("link", LINKS)
rng = np.random.default_rng(sum(map(ord, "ordinal")))
X = pd.DataFrame(rng.normal(size=(80, 2)), columns=["price", "service"])
SEEN = X["service"] - 0.5 * X["price"] + rng.logistic(size=80)
STARS = pd.Series(1 + np.digitize(SEEN, [-1.5, 0.0, 1.0]), name="stars")
THETA = {"lengthscale": [1.5, 1.5], "amplitude": 1.2, "cutpoint": [-1.5, 0.0, 1.0]}


@pytest.fixture(scope="module")
def model():
    return bx.GP(X, STARS, likelihood="ordinal")


@BOTH
def test_narrow_categories_keep_their_digits_in_the_tails(link):
    """Derivatives of mpmath's probabilities, far from the category."""
    cdf = mpmath.ncdf if link == "probit" else (lambda z: 1 / (1 + mpmath.exp(-z)))
    likelihood, cut = Ordinal(LINKS[link][0], first=0, count=3), [-0.01, 0.02]
    f = np.array([-9.0, -3.0, 0.1, 4.0, 9.0])
    theta = {"cutpoint": pm.math.stack([pm.math.constant(c) for c in cut])}
    symbol = pm.math.constant(f)
    found = pm.draw(
        likelihood.derivatives(symbol, pm.math.constant(0.0 * f + 1.0), theta), mode=MODE
    )
    with mpmath.workdps(60):
        for k, value in enumerate(f):

            def log_p(v):
                return mpmath.log(cdf(mpmath.mpf(cut[1]) - v) - cdf(mpmath.mpf(cut[0]) - v))

            exact = [float(mpmath.diff(log_p, mpmath.mpf(value), n)) for n in (1, 2, 3)]
            assert_allclose([part[k] for part in found], exact, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("link", ["logit", pytest.param("probit", marks=pytest.mark.slow)])
def test_two_categories_are_two_classes(link):
    labels = (STARS > 2).astype(int)
    theta = THETA | {"cutpoint": [0.0]}
    options = {"link": link, "scale": False}
    ordinal = bx.GP(X, labels, likelihood="ordinal", **options)
    binary = bx.GP(X, labels, likelihood="bernoulli", **options)
    plain = {name: theta[name] for name in ("lengthscale", "amplitude")}
    new, asked = X.iloc[:4] + 0.2, {"seed": 1, **QUIET}
    for function, name, other in (
        (bx.predictions, "mean_mean", "probability_mean"),
        (bx.attributions, "attribution_mean", "attribution_mean"),
        (bx.shapley_values, "attribution", "attribution"),
        (bx.derivatives, "derivative_mean", "derivative_mean"),
    ):
        found = function(ordinal, theta, new, **asked)[name]
        expected = function(binary, plain, new, **asked)[other]
        assert_allclose(found, expected, rtol=1e-7, atol=1e-10)
    found = bx.loo_predictions(ordinal, theta, **asked)["elpd"]
    assert_allclose(found, bx.loo_predictions(binary, plain, **asked)["elpd"], rtol=1e-7)


@pytest.mark.slow
@BOTH
def test_a_linear_kernel_gives_statsmodels_coefficients(link):
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    reference = OrderedModel(STARS, X, distr=LINKS[link][1]).fit(method="bfgs", gtol=1e-8, disp=0)
    cutpoints = reference.model.transform_threshold_params(reference.params.to_numpy())[1:-1]
    priors = {"cutpoint": cutpoints, "amplitude": 1e4}
    options = {"likelihood": "ordinal", "link": link, "scale": False, "priors": priors}
    linear = bx.GP(X, STARS, kernel="linear", **options)
    found = bx.derivatives(linear, {}, obs=[0], on="latent", **QUIET)
    off = found["derivative_mean"].values[0] - reference.params[:2]
    assert np.abs(off / reference.bse[:2]).max() < 1e-4
    # with the thresholds held, as the sds here are
    held = np.linalg.inv(reference.model.hessian(reference.params.to_numpy())[:2, :2] * -1.0)
    assert_allclose(found["derivative_sd"].values[0], np.sqrt(np.diag(held)), rtol=0.02)


def test_every_division_into_shares_is_as_probable():
    made = bx.GP(X, STARS, likelihood="ordinal")
    cutpoints = made.variables["cutpoint"]
    drawn = pm.draw(cutpoints, 4000, random_seed=1, mode=MODE)
    assert (np.diff(drawn) > 0).all()
    shares = np.diff(np.hstack([np.zeros((4000, 1)), expit(drawn), np.ones((4000, 1))]))
    for k in range(4):  # each is Beta(1, 3)
        assert stats.kstest(shares[:, k], stats.beta(1, 3).cdf).pvalue > 1e-3
    point = np.array([-1.0, 0.3, 1.1])
    slope = expit(point) * expit(-point)
    log_density = np.log(6.0) + np.log(slope).sum()
    assert_allclose(pm.logp(cutpoints, point).eval(mode=MODE), log_density, rtol=1e-10)


@pytest.mark.slow
def test_cutpoints_are_learned_in_order():
    made = bx.GP(X, STARS, likelihood="ordinal", ard=False)
    idata = made.fit("laplace", draws=50, seed=1, **QUIET)
    cutpoints = idata["posterior"]["cutpoint"]
    assert cutpoints.dims == ("chain", "draw", "between")
    assert cutpoints["between"].values.tolist() == ["1|2", "2|3", "3|4"]
    assert (cutpoints.diff("between") > 0).all()
    # The response depends on each draw's own cutpoints.
    one = idata.isel(draw=[7])
    theta = {name: one["posterior"][name].values[0, 0] for name in made.hyperparameters}
    alone = bx.predictions(made, theta, X.iloc[:3], keep="summary", **QUIET)["mean_mean"]
    found = bx.predictions(made, one, X.iloc[:3], keep="summary", **QUIET)["mean_mean"]
    assert_allclose(found, alone, rtol=1e-9)
    each = bx.predictions(made, idata, X.iloc[:3], seed=1, **QUIET)
    above = expit(each["f"].values[..., None] - cutpoints.values[:, :, None])
    assert_allclose(each["mean"], 1.0 + above.sum(axis=-1), rtol=1e-9)
    shares = bx.attributions(made, idata, X.iloc[:3], seed=1, **QUIET)
    assert_allclose(shares["attribution"].sum("feature"), shares["difference"], atol=1e-6)
    apart = (
        each["mean_mean"]
        - bx.predictions(made, idata, pd.DataFrame([X.mean()]), seed=1, **QUIET)["mean_mean"].item()
    )
    assert_allclose(shares["difference_mean"], apart, rtol=1e-6)


def test_the_expected_category_is_an_integral_over_f(model):
    found = bx.predictions(model, THETA, X.iloc[:3] + 0.1, keep="summary", **QUIET)
    for mean, sd, stars in zip(found["f_mean"], found["f_sd"], found["mean_mean"], strict=True):
        f = stats.norm(mean.item(), sd.item())

        def weighed(v, f=f):
            return f.pdf(v) * (1 + expit(v - np.array(THETA["cutpoint"])).sum())

        assert_allclose(stars, integrate.quad(weighed, *f.interval(1 - 1e-14))[0], rtol=1e-8)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"approximation": bx.Inducing(8)}, id="inducing"),
        pytest.param({"approximation": bx.HSGP(6, 2.0)}, id="hsgp", marks=pytest.mark.slow),
        pytest.param({"groups": STARS % 2}, id="groups"),
    ],
)
def test_other_models_take_ordered_categories(options):
    made = bx.GP(X, STARS, likelihood="ordinal", **options)
    idata = made.fit("map", **QUIET)
    found = bx.attributions(made, idata, obs=[0, 1], **QUIET)
    assert_allclose(found["attribution_mean"].sum("feature"), found["difference_mean"], atol=1e-5)


NAMES = ["poor", "fair", "good", "great"]
GRADES = pd.Series(pd.Categorical.from_codes(STARS - 1, NAMES, ordered=True), name="grade")


@pytest.fixture(scope="module")
def named():
    return bx.GP(X, GRADES, likelihood="ordinal")


def test_categories_may_have_names(model, named):
    assert_allclose(named.training.y, STARS - 1)
    assert named.pymc.coords["between"] == ("poor|fair", "fair|good", "good|great")
    plain, other = (bx.predictions(m, THETA, seed=1, **QUIET) for m in (model, named))
    assert_allclose(plain["f_mean"], other["f_mean"])
    assert other.attrs["categories"] == NAMES
    both, one = (
        bx.predictions(named, THETA, X[:3], of="probability", at=at, seed=1, **QUIET)
        for at in (["poor", "good"], "good")
    )
    assert both["at"].values.tolist() == ["poor", "good"]
    assert one.attrs["event"] == "probability that grade = good"
    options = {"of": "probability", "at": [1, 3], "seed": 1, **QUIET}
    found = bx.predictions(model, THETA, X[:3], **options)["probability_mean"]
    assert_allclose(both["probability_mean"], found)
    with pytest.raises(ValueError, match=r"at: unknown 'god'.*Did you mean 'good'"):
        named.of_event("probability", "god")


@pytest.mark.parametrize("unnamed", [False, True], ids=["categorical", "words"])
def test_new_responses_are_read_by_the_names_of_their_categories(named, unnamed):
    """Not by codes of their own, which differ if a category is missing or the order is another."""
    few = GRADES[GRADES.isin(["good", "great"])]
    own = few.cat.remove_unused_categories().cat.reorder_categories(["great", "good"])
    new, rows = own.astype(object) if unnamed else own, X.loc[few.index]
    read = named.training.read_observed(rows, None, new, named.specification.observation)
    assert_allclose(read.y, STARS[few.index] - 1)
    found = bx.predictions(named, THETA, rows, seed=1, **QUIET)
    assert_allclose(read_observed(found, new), STARS[few.index] - 1)
    with pytest.raises(ValueError, match="y: unknown 'odd'"):
        bx.metrics.coverage(found, ["odd"] * len(few))


def test_categories_of_whole_numbers_are_numbers():
    stars = pd.Series(pd.Categorical(STARS, [1, 2, 3, 4], ordered=True))
    assert_allclose(bx.GP(X, stars, likelihood="ordinal").training.y, STARS)
    wide = pd.Series(pd.cut(SEEN, [-20, -1.5, 0, 1, 20]))
    between = bx.GP(X, wide, likelihood="ordinal").pymc.coords["between"]
    assert between[0] == "(-20.0, -1.5]|(-1.5, 0.0]"


def test_out_of_core_rows_have_all_categories():
    """The sample in memory may lack rare ones, at the ends."""
    y = np.full(20_002, 2)
    y[[5, 20_001]] = 1, 4
    frame = pd.DataFrame({"x": np.linspace(0.0, 1.0, len(y)), "y": y})
    model = bx.GP(
        [frame[:9_000], frame[9_000:]], "y", likelihood="ordinal", approximation=bx.HSGP(3)
    )
    observation = model.specification.observation
    assert (observation.first, observation.count) == (1, 4)


def test_a_saved_model_keeps_its_categories(named, tmp_path):
    idata = named.fit("map", **QUIET)
    bx.save(named, idata, tmp_path / "fit.nc")
    again, kept = bx.load(tmp_path / "fit.nc")
    assert again.specification.observation == named.specification.observation
    found, expected = (
        bx.predictions(*both, X.iloc[:2], seed=1, **QUIET)
        for both in ((again, kept), (named, idata))
    )
    xr.testing.assert_identical(found, expected)
    coverage = bx.metrics.coverage(found, GRADES[:2])
    assert coverage == bx.metrics.coverage(expected, GRADES[:2])
    assert json.loads(bx.to_json(found))["units"]["response"] == "grade"


@pytest.mark.parametrize(
    "y, said",
    [
        (STARS + 0.5, r"y is [\d.]+ at position 0, but ordered categories are whole numbers"),
        (pd.Series(pd.Categorical(STARS.astype(str))), "categories without an order"),
        (STARS.astype(str) + " stars", "categories without an order"),
        (100 * STARS, "goes from 100 to 400, but ordered categories are between 2 and 100"),
        (0 * STARS, "goes from 0 to 0"),
    ],
)
def test_other_responses_are_refused(y, said):
    with pytest.raises(ValueError, match=said):
        bx.GP(X, y, likelihood="ordinal")


def test_parts_may_have_one_rating_each():
    frame = X.assign(stars=STARS)
    parts = [frame[frame["stars"] == star] for star in np.unique(STARS)]
    options = {"likelihood": "ordinal", "approximation": bx.HSGP(4)}
    model = bx.GP(parts, "stars", **options)
    whole = bx.GP(X, STARS, **options)
    assert model.specification.observation == whole.specification.observation
    with pytest.raises(ValueError, match="goes from 2 to 2"):
        bx.GP([part.assign(stars=2) for part in parts], "stars", **options)


def test_the_command_takes_ratings(tmp_path):
    X.assign(stars=STARS).to_csv(tmp_path / "data.csv", index=False)
    words = ["fit", f"{tmp_path}/data.csv", "--target", "stars", "--model", "gp", "--method", "map"]
    assert main([*words, "--likelihood", "ordinal", "--out", f"{tmp_path}/run", "--quiet"]) == 0
    told = f"{tmp_path}/told.csv"
    assert (
        main(["explain", f"{tmp_path}/run", f"{tmp_path}/data.csv", "--out", told, "--quiet"]) == 0
    )
    told = pd.read_csv(told)
    assert {"price", "service"} <= set(told["feature"])


def test_relevance_is_of_all_categories(model):
    """The information about a step along a feature, from probabilities of the categories."""
    row, h, options = X.iloc[:1] + 0.1, 1e-3, {"keep": "summary", "seed": 1, **QUIET}
    found = bx.relevance(model, THETA, row, **QUIET)["relevance_mean"].sel(feature="service")
    each = [model.of_event("probability", k) for k in range(1, 5)]
    below, here, above = (
        np.array([bx.predictions(m, THETA, at, **options)["probability_mean"].item() for m in each])
        for at in (row.assign(service=row["service"] + step) for step in (-h, 0.0, h))
    )
    rate = (above - below) / (2 * h)
    assert_allclose(found.item(), np.sqrt((rate**2 / here).sum()), rtol=1e-4)


def test_the_pymc_model_has_the_same_categories(model):
    """Draws of the prior, and a fit of sampled latent values, which is that of this model."""
    prior = pm.sample_prior_predictive(
        20, model=model.pymc, random_seed=1, compile_kwargs={"mode": MODE}
    )
    assert set(np.unique(prior["prior_predictive"]["y"])) == {1, 2, 3, 4}
    assert_allclose(prior["observed_data"]["y"], STARS)
    point = model.pymc.copy().initial_point()  # which PyMC refuses for initial values of ours
    log_p = model.pymc.compile_logp(model.pymc["y"], mode=MODE)(point)
    even = stats.logistic.ppf([0.25, 0.5, 0.75])
    made = np.diff(np.concatenate([[0.0], expit(even), [1.0]]))  # f is 0 there
    assert_allclose(log_p, np.log(made[STARS - 1]).sum(), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Not converged")
def test_sampled_latent_values_are_explained(model):
    options = {"latent": "sample", "draws": 30, "tune": 50, "chains": 2, "seed": 1}
    idata = model.fit("nuts", **options, **QUIET)
    found = bx.attributions(model, idata, obs=[0, 1], seed=1, **QUIET)
    assert_allclose(found["attribution"].sum("feature"), found["difference"], atol=1e-6)
