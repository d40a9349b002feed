"""Models of several classes: every verb, by limits, sums and independent draws."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

import bayes_gpx as bx

RNG = np.random.default_rng(2)
N = 45
X = RNG.normal(size=(N, 2))
F = np.stack([2 * np.sin(1.5 * X[:, 0]), X[:, 1], np.zeros(N)], axis=1)
LABELS = np.array(["ash", "beech", "cedar"])[np.argmax(F + RNG.gumbel(size=(N, 3)), axis=1)]
NEW = np.array([[-1.0, 0.3], [0.8, -0.5], [0.1, 1.2]])
THETA = {"lengthscale": [0.9, 1.3], "amplitude": 1.4}
OWN = THETA | {"sigma_w": 0.2}
QUIET = {"progressbar": False}
ROADS = [None, bx.Inducing(12), bx.HSGP(7, 2.5)]


VERBS = [(bx.GP, None)] + [
    pytest.param(bx.GP, ROADS[2], marks=pytest.mark.slow),
    pytest.param(bx.GP, ROADS[1], marks=pytest.mark.slow),
    *(pytest.param(bx.GPX, road, marks=pytest.mark.slow) for road in ROADS),
]


def model_of(family=bx.GP, approximation=None, **options):
    return family(X, LABELS, likelihood="categorical", approximation=approximation, **options)


@pytest.mark.parametrize(("family", "approximation"), VERBS)
def test_every_verb_has_classes(family, approximation):
    model = model_of(family, approximation)
    theta = OWN if family is bx.GPX else THETA
    asked = {"draws": 40, "seed": 1, **QUIET}
    found = bx.predictions(model, theta, NEW, **asked)
    assert found["probability"].dims == ("chain", "draw", "obs", "class")
    assert found["class"].values.tolist() == ["ash", "beech", "cedar"]
    assert_allclose(found["probability"].sum("class"), 1.0)
    assert_allclose(found["probability_mean"].sum("class"), 1.0)
    assert set(np.unique(found["y"])) <= {0, 1, 2}
    shares = bx.attributions(model, theta, NEW, **asked)
    assert shares["attribution"].dims == ("chain", "draw", "obs", "feature", "class")
    assert_allclose(shares["attribution"].sum("class"), 0.0, atol=1e-9)
    assert_allclose(shares["attribution"].sum("feature"), shares["difference"], atol=1e-6)
    slopes = bx.derivatives(model, theta, NEW, **asked)
    assert_allclose(slopes["derivative"].sum("class"), 0.0, atol=1e-9)
    latent = bx.attributions(model, theta, NEW, on="latent", **asked)
    assert latent["attribution_mean"].dims == ("obs", "feature", "class")
    assert latent["completeness_residual"].max() < 1e-6
    if family is bx.GPX:
        added = bx.contributions(model, theta, NEW, **asked)
        f = bx.predictions(model, theta, NEW, on="latent", **asked)
        assert_allclose(added["contribution_mean"].sum("feature"), f["f_mean"], atol=1e-8)
        assert bx.weights(model, theta, **asked)["weight"].sizes["obs"] == N


@pytest.mark.parametrize(
    "approximation",
    [*(pytest.param(road, marks=pytest.mark.slow) for road in ROADS[:-1]), ROADS[-1]],
    ids=str,
)
def test_functions_are_draws_of_the_posterior_of_all_classes(approximation):
    model, draws = model_of(approximation=approximation), 1000
    functions = bx.sample_functions(model, THETA, draws=draws, waves=128, seed=0, **QUIET)
    f = functions.predictions(NEW)["f"].values[0]
    exact = bx.predictions(model, THETA, NEW, on="latent", draws=draws, seed=3, **QUIET)
    sd = exact["f_sd"].values
    assert_allclose(f.mean(axis=0), exact["f_mean"], atol=5 * sd.max() / np.sqrt(draws))
    assert_allclose(f.std(axis=0), sd, rtol=5 / np.sqrt(2 * draws) + 0.02)
    for at in range(len(NEW)):
        ours, theirs = (np.cov(v[:, at].T) for v in (f, exact["f"].values[0]))
        assert_allclose(ours, theirs, atol=7 * sd[at].max() ** 2 / np.sqrt(draws))
    slopes = functions.derivatives(NEW, on="latent")["derivative"].values[0]
    exact = bx.derivatives(model, THETA, NEW, on="latent", keep="summary", **QUIET)
    sd = exact["derivative_sd"].values
    assert_allclose(slopes.mean(0), exact["derivative_mean"], atol=5 * sd.max() / np.sqrt(draws))
    assert_allclose(slopes.std(axis=0), sd, rtol=0.1)


def test_slopes_of_probabilities_are_differences_along_the_same_functions():
    functions = bx.sample_functions(model_of(), THETA, draws=5, seed=0, **QUIET)
    slopes = functions.derivatives(NEW, on="response")["derivative"].values

    def probability(points):
        f = functions.predictions(points)["f"].values
        return np.exp(f) / np.exp(f).sum(-1, keepdims=True)

    for k in range(2):
        way = 1e-5 * np.eye(2)[k]
        difference = (probability(NEW + way) - probability(NEW - way)) / 2e-5
        assert_allclose(slopes[:, :, :, k], difference, atol=1e-7)


def test_two_classes_are_told_apart_as_by_a_logit():
    labels = np.where(LABELS == "ash", "ash", "other")
    two = bx.GP(X, labels, likelihood="categorical")
    one = bx.GP(X, labels, likelihood="bernoulli")
    wide = THETA | {"amplitude": np.sqrt(2) * THETA["amplitude"]}
    asked = {"draws": 50, "seed": 0, **QUIET}
    theirs = bx.predictions(one, wide, NEW, **asked)
    ours = bx.predictions(two, THETA, NEW, **asked)
    difference = ours["f_mean"].values @ [-1.0, 1.0]
    assert_allclose(difference, theirs["f_mean"], atol=1e-8)
    ours = ours["probability_mean"].sel({"class": "other"}, drop=True)
    assert_allclose(ours, theirs["probability_mean"], atol=3e-3)
    terms = [bx.log_likelihood(m, t, **QUIET) for m, t in ((two, THETA), (one, wide))]
    for name, most in (("log_marginal_likelihood", 1e-8), ("log_likelihood", 5e-3)):
        assert_allclose(terms[0][name], terms[1][name], atol=most)


@pytest.mark.parametrize(("approximation", "most"), [(None, 0.03), (bx.Inducing(12), 0.1)])
def test_leave_one_out_terms_are_those_of_models_without_the_row(approximation, most):
    model = model_of(approximation=approximation, scale=False)
    terms = bx.log_likelihood(model, THETA, **QUIET)["log_likelihood"].values[0, 0]
    missed = []
    for i in (0, 7, 20):
        kept = np.arange(N) != i
        road = approximation
        if approximation is not None:
            road = bx.Inducing(tuple(map(tuple, model.inducing["U"])))
        rest = bx.GP(
            X[kept], LABELS[kept], likelihood="categorical", approximation=road, scale=False
        )
        asked = {"draws": 10, "seed": 0, **QUIET}
        found = bx.predictions(rest, THETA, X[[i]], **asked)["probability_mean"]
        truth = np.log(found.sel({"class": LABELS[i]}).values[0])
        assert_allclose(terms[i], truth, atol=most)
        whole = bx.predictions(model, THETA, X[[i]], **asked)["probability_mean"]
        seen = np.log(whole.sel({"class": LABELS[i]}).values[0])
        missed.append([abs(terms[i] - truth), abs(seen - truth)])
    left_out, left_in = np.sum(missed, axis=0)
    assert left_out < 0.5 * left_in


@pytest.mark.parametrize("method", ["map", pytest.param("laplace", marks=pytest.mark.slow)])
def test_a_fit_is_kept(method, tmp_path):
    model = model_of(ard=False)
    start = dict.fromkeys(model.hyperparameters, 1.0)
    idata = model.fit(method, draws=100, seed=0, start=start, **QUIET)
    bx.save(model, idata, tmp_path / "fit.nc")
    loaded, kept = bx.load(tmp_path / "fit.nc")
    asked = {"num_draws": 10, "seed": 0, **QUIET} if method == "laplace" else {"seed": 0, **QUIET}
    ours = bx.predictions(model, idata, NEW, **asked)
    assert_allclose(bx.predictions(loaded, kept, NEW, **asked)["probability"], ours["probability"])
    if method == "laplace":
        terms = idata["log_likelihood"]["y"]
    else:
        theta = {name: idata["posterior"][name].values[0, 0] for name in model.hyperparameters}
        terms = bx.log_likelihood(model, theta, **QUIET)["log_likelihood"]
    assert -N * np.log(3) < terms.mean(("chain", "draw")).sum() < 0
    right = bx.predictions(model, idata, **asked)["probability_mean"].idxmax("class") == LABELS
    assert right.mean() > 0.6


def test_what_cannot_be_done_is_said(tmp_path):
    with pytest.raises(ValueError, match="one class only"):
        bx.GP(X, np.repeat("ash", N), likelihood="categorical")
    with pytest.raises(ValueError, match="softmax"):
        model_of(link="logit")
    with pytest.raises(ValueError, match="path"):
        bx.derivatives(model_of(), THETA, NEW, on="latent", path=tmp_path / "x.zarr", **QUIET)


@pytest.mark.parametrize(
    ("family", "approximation"),
    [pytest.param(bx.GP, None, marks=pytest.mark.slow), (bx.GPX, bx.Inducing(8))],
)
def test_joint_predictions_have_the_moments_of_each_row_and_of_functions(family, approximation):
    model = model_of(family, approximation)
    theta = OWN if family is bx.GPX else THETA
    near = NEW[[0, 0, 1]] + [[0.0, 0.0], [0.1, 0.0], [0.0, 0.0]]
    asked = {"draws": 4000, "seed": 0, **QUIET}
    apart = bx.predictions(model, theta, near, **asked)
    joint = bx.predictions(model, theta, near, joint=True, **asked)
    for name in ("f_mean", "f_sd", "probability_mean"):
        assert_allclose(joint[name], apart[name], atol=1e-8)
    f = joint["f"].values[0]
    assert_allclose(f.std(axis=0), joint["f_sd"], rtol=0.05)
    if family is bx.GPX:
        return
    smooth = bx.sample_functions(model, theta, **asked).predictions(near)["f"].values[0]
    ours, theirs = (np.cov(v.reshape((len(v), -1)).T) for v in (f, smooth))
    assert_allclose(ours, theirs, atol=7 * joint["f_sd"].max() ** 2 / np.sqrt(4000))
    assert ours[0, 3] > 0.8 * ours[0, 0]
    bx.predictive_checks(model, theta, joint=True, **QUIET)


def test_classes_are_named_by_their_labels_everywhere():
    codes = np.unique(LABELS, return_inverse=True)[1] + 3
    model = bx.GP(X, codes, likelihood="categorical", approximation=bx.Inducing(5))
    asked = {"draws": 5, "seed": 0, **QUIET}
    for verb in (bx.predictions, bx.derivatives, bx.attributions):
        found = verb(model, THETA, NEW, **asked)
        assert found.sel({"class": 4}).sizes["obs"] == 3
    start = {"lengthscale": 1.0, "amplitude": 1.0}
    kept = model.fit("svgp", start=start, **QUIET)["variational"]
    assert kept["class"].values.tolist() == [3, 4, 5]


@pytest.mark.parametrize("on", ["response", "latent"])
def test_bands_of_each_class_are_those_of_its_draws(on):
    model, asked = model_of(), {"on": on, "draws": 100, "seed": 0, **QUIET}
    draws = bx.derivatives(model, THETA, NEW, joint=True, **asked)
    found = bx.slopes(model, THETA, NEW, **asked)
    assert found["average_slope_mean"].dims == ("feature", "class")
    sd, each = draws["derivative_sd"], ["chain", "draw"]
    far = np.abs((draws["derivative"] - draws["derivative_mean"]) / sd)
    for name, worst in {
        "band_pointwise": far,
        "band_simultaneous": far.max("obs"),
        "band_simultaneous_features": far.max("feature"),
    }.items():
        wide = found[name].sel(ci_bound="upper") - found["derivative_mean"]
        wanted = sd * worst.quantile(found.attrs["ci_prob"], each, keep_attrs=False)
        if on == "latent" and name == "band_pointwise":  # that of one normal
            wanted = sd * norm.ppf((1 + found.attrs["ci_prob"]) / 2)
        assert_allclose(*(v.transpose("obs", "feature", "class") for v in (wide, wanted)))
    path = bx.path_slopes(model, THETA, NEW[:1], steps=20, **asked)
    share = bx.attributions(model, THETA, NEW[:1], on=on, draws=100, seed=0, **QUIET)
    exact = share["attribution_mean"].isel(obs=0).transpose("feature", "class")
    assert_allclose(path["attribution_mean"], exact, atol=0.1 if on == "response" else 1e-3)


def test_numbers_that_are_not_there_for_classes_are_refused_by_name():
    model, asked = model_of(), {"draws": 5, **QUIET}
    with pytest.raises(ValueError, match="f has no features"):
        bx.predictions(model, THETA, NEW, covariance=True, **asked)
    with pytest.raises(ValueError, match="taylor.*categorical"):
        bx.attributions(model, THETA, NEW, method="taylor", **QUIET)
    with pytest.raises(ValueError, match="not positive definite"):
        bx.predictions(model, THETA | {"amplitude": 1e10}, NEW, **asked)


def test_probabilities_of_classes_with_periods_are_explained():
    model, theta = model_of(kernel="periodic"), THETA | {"period": 3.0}
    shares = bx.attributions(model, theta, NEW, draws=5, **QUIET)
    assert 0.0 < shares["completeness_residual"].max() < 1e-6
    assert_allclose(shares["attribution"].sum("class"), 0.0, atol=1e-9)


def test_plots_have_panels_for_classes_or_ask_for_one():
    model, asked = model_of(bx.GPX), {"draws": 20, "seed": 0, **QUIET}
    latent = {"on": "latent", **asked}
    shares = bx.attributions(model, OWN, NEW, **latent)
    slopes = bx.slopes(model, OWN, NEW, **latent)
    path = bx.path_slopes(model, OWN, NEW[:1], steps=4, **latent)
    weights = bx.weights(model, OWN, NEW, **asked)
    added = bx.contributions(model, OWN, NEW, **asked)
    for plot, found in (
        (bx.plot_attributions, shares),
        (bx.plot_slopes, slopes),
        (bx.plot_derivatives, slopes),
        (bx.plot_path, path),
        (bx.plot_contributions, added),
    ):
        plot(found, backend="none")
    for plot, found in ((bx.plot_waterfall, shares), (bx.plot_weights, weights)):
        with pytest.raises(ValueError, match=r"dataset\.sel\(\{'class': \.\.\.\}\)"):
            plot(found)
    bx.plot_slopes(slopes.sel({"class": "ash"}))
    bx.plot_attributions(shares.sel({"class": "ash"}))
