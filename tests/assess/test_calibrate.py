"""Simulation-based calibration: truths that belong together, ranks that are uniform, summaries."""

from concurrent.futures import ThreadPoolExecutor

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy.stats import kstest

import bayes_gpx as bx
import oracle
from bayes_gpx.assess import calibrate as room
from bayes_gpx.assess.replicates import Replicates, _given, _twice, rank
from bayes_gpx.draws.hyperparameter_draws import hyperparameter_draws

rng = np.random.default_rng(9)
N = 7
X = rng.uniform(-1.0, 1.0, size=(N, 2))
Z = rng.normal(size=(N, 3))
y = X[:, 0] + 0.3 * rng.normal(size=N)
ROWS = np.array([0, 3])
FIXED = {"lengthscale": np.array([0.8, 1.1]), "sigma": 0.3}
FEW = {"method": "laplace", "draws": 9, "seed": 1, "progressbar": False}

pytestmark = [
    pytest.mark.filterwarnings("ignore:The posterior is far from its Laplace"),
    pytest.mark.filterwarnings("ignore:Laplace"),
]


@pytest.fixture(scope="module")
def gp():
    return bx.GP(X, y, scale=False, priors=FIXED)


def test_ranks_of_a_draw_among_draws_are_uniform():
    """Of real numbers, and of counts with many ties."""
    for drawn in (rng.normal(size=(4000, 10)), rng.poisson(1.0, size=(4000, 10))):
        ranks = [rank(row[1:], row[0], rng) for row in drawn]
        assert kstest(ranks, "uniform").pvalue > 1e-3
        assert 0.0 < min(ranks) and max(ranks) < 1.0


def test_slopes_of_truths_are_those_of_their_functions(gp):
    """The joint prior moments of f and of its gradient, by derivatives of the kernel."""
    replicates = Replicates(gp, "laplace", ROWS)
    hyper = hyperparameter_draws(gp, {"amplitude": 1.3}, None)
    mean, cov = replicates._joint(hyper, replicates._asked["derivative"].operator)
    assert not mean.any()
    K = 1.69 * oracle.expquad(X, X, FIXED["lengthscale"])
    np.testing.assert_allclose(cov[:N, :N], K, atol=1e-12)
    step = 1e-5
    for i, row in enumerate(ROWS):
        for j in range(2):
            e = step * np.eye(2)[j]
            ends = X[[row]] + e, X[[row]] - e
            above, below = (oracle.expquad(end, X, FIXED["lengthscale"]) for end in ends)
            slope = 1.69 * (above - below)[0] / (2 * step)
            np.testing.assert_allclose(cov[N + 2 * i + j, :N], slope, atol=1e-8)


def test_what_is_drawn_given_f_has_the_joint_distribution():
    """Means and covariances of 4,000 draws within five standard errors."""
    factor = rng.normal(size=(4, 6))
    cov, mean = factor.T @ factor, rng.normal(size=6)  # of rank 4: f tells some of the rest
    root = np.linalg.cholesky(cov[:2, :2])
    draws = []
    for _ in range(4_000):
        f = mean[:2] + root @ rng.standard_normal(2)
        draws.append(np.concatenate([f, _given(f, mean, cov, rng)]))
    found = np.cov(np.array(draws).T)
    spread = np.sqrt((np.outer(np.diag(cov), np.diag(cov)) + cov**2) / 4_000)
    assert (np.abs(found - cov) < 5 * spread).all()
    assert (np.abs(np.mean(draws, axis=0) - mean) < 5 * np.sqrt(np.diag(cov) / 4_000)).all()


def test_truths_are_in_the_units_of_their_verbs():
    """On data of odd scales: contributions add up to f, and y lies around it by the noise."""
    far, of_y = 1e3 + 50.0 * Z, 200.0 + 30.0 * y
    own = {"sigma_w": 0.2, "lengthscale": 1.0, "sigma": 0.1}
    model = bx.GPX(5.0 + 0.01 * X, of_y, far, priors=own)
    every = np.arange(N)
    replicates = Replicates(model, "laplace", every)
    truths = [replicates.truth(rng, k) for k in range(40)]
    for truth in truths:
        given = truth.values["contribution"].sum(axis=1) + of_y.mean()
        np.testing.assert_allclose(given, truth.values["f"], atol=1e-5 * of_y.std())
    apart = np.array([(t.values["y"] - t.values["f"], t.replicate - t.values["f"]) for t in truths])
    share = apart.std() / (0.1 * of_y.std())
    assert abs(share - 1.0) < 5 / np.sqrt(2 * apart.size)
    # Weights themselves, by the prior's standard deviation in units of y per unit of z.
    sizes = np.array([t.values["weight"] / np.hypot(t.theta["amplitude"], 0.2) for t in truths])
    expected = of_y.std() / far.std(axis=0)
    spread = np.sqrt((sizes**2).mean(axis=(0, 1)))
    np.testing.assert_allclose(spread / expected, 1.0, atol=5 / np.sqrt(2 * 40))


def test_runs_are_kept_and_go_on(gp, tmp_path, monkeypatch):
    alone = bx.calibrate(gp, runs=1, path=tmp_path / "runs", **FEW)
    run, called = Replicates.run, []

    def counted(self, entropy, number):
        called.append(number)
        return run(self, entropy, number)

    monkeypatch.setattr(Replicates, "run", counted)
    more = bx.calibrate(gp, runs=2, path=tmp_path / "runs", **FEW)
    assert called == [1]
    with ThreadPoolExecutor(2) as executor:
        threads = bx.calibrate(gp, runs=1, executor=executor, **FEW)
    for fewer in (alone, threads):
        own = fewer["prior_sbc"].to_dataset()
        first = more["prior_sbc"].to_dataset().isel(draw=slice(own.sizes["draw"]))
        xr.testing.assert_identical(first, own)
    names = {"f", "y", "derivative", "attribution", "relevance", "amplitude", "log_likelihood"}
    assert set(first) == names
    assert first["derivative"].dims == ("chain", "draw", "row", "column")
    assert "too few" in more.attrs["summary"]
    az.plot_ecdf_pit(more, group="prior_sbc", var_names=["amplitude"], backend="none")
    other = bx.GP(X, y, scale=False, priors=FIXED | {"amplitude": pm.HalfNormal.dist(3.0)})
    for model, options in ((gp, {"draws": 8}), (other, {}), (gp, {"quantities": print})):
        with pytest.raises(ValueError, match="another calibration"):
            bx.calibrate(model, runs=3, path=tmp_path / "runs", **FEW | options)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "note.txt").write_text("kept")
    with pytest.raises(ValueError, match="not empty"):
        bx.calibrate(gp, runs=3, path=tmp_path / "mine", **FEW)


def test_runs_of_another_function_of_quantities_are_not_taken(gp, tmp_path):
    def of_amplitude(factor):
        def quantities(model, idata):
            known = idata if isinstance(idata, dict) else idata["posterior"]
            values = np.reshape(np.asarray(known["amplitude"]), (1, -1))
            return xr.Dataset({"own": (("chain", "draw"), factor * values)})

        return quantities

    options = FEW | {"runs": 1, "path": tmp_path / "runs"}
    bx.calibrate(gp, quantities=of_amplitude(2.0), **options)
    bx.calibrate(gp, quantities=of_amplitude(2.0), **options)
    with pytest.raises(ValueError, match="another calibration"):
        bx.calibrate(gp, quantities=of_amplitude(3.0), **options)


@pytest.mark.slow
def test_weights_and_labels_and_quantities_of_a_user():
    own = {"sigma_w": 0.1, "lengthscale": 1.0, "sigma": 0.3}
    gpx = bx.GPX(X, y, Z, scale=False, priors=own)

    def doubled(model, idata):
        known = idata if isinstance(idata, dict) else idata["posterior"]
        values = np.reshape(np.asarray(known["amplitude"]), (1, -1))
        return xr.Dataset({"doubled": (("chain", "draw"), 2.0 * values)})

    found = bx.calibrate(gpx, runs=1, quantities=doubled, **FEW)
    pit = found["prior_sbc"].to_dataset()
    assert pit["weight"].dims == ("chain", "draw", "row", "z_feature")
    assert {"contribution", "doubled"} <= set(pit)
    truth = found["truth"].to_dataset()
    np.testing.assert_allclose(truth["doubled"], 2.0 * truth["amplitude"])
    contribution = truth["contribution"].values[0, 0]
    np.testing.assert_allclose(contribution.sum(axis=1), truth["f"].values[0, 0], atol=1e-6)
    given = {"likelihood": "categorical", "priors": {"lengthscale": 1.0}}
    labels = bx.GP(X, np.array(list("abcabca")), **given)
    found = bx.calibrate(labels, runs=1, **FEW)["prior_sbc"].to_dataset()
    assert found["f"].dims == ("chain", "draw", "row", "class")
    assert found["y"].dims == ("chain", "draw", "row")


@pytest.mark.slow
def test_categories_have_no_slopes_and_cutpoints_have_names():
    mixed = pd.DataFrame(X, columns=["a", "b"])
    mixed["kind"] = pd.Categorical(np.resize(["p", "q", "r"], len(X)))
    model = bx.GP(mixed, 1 + np.arange(len(X)) % 3, likelihood="ordinal", ard=False)
    found = bx.calibrate(model, runs=1, **FEW)["prior_sbc"].to_dataset()
    assert found["derivative"].dims[2:] == ("row", "number")
    assert found["number"].values.tolist() == ["a", "b"]
    assert found["attribution"]["feature"].values.tolist() == ["a", "b", "kind"]
    assert found["between"].values.tolist() == ["1|2", "2|3"]


@pytest.mark.slow
def test_truths_from_a_posterior_are_draws_of_it(gp):
    """Means of 150 functions and of what the fit says, within five standard errors."""
    idata = gp.fit("laplace", draws=400, seed=1, progressbar=False)
    replicates = Replicates(gp, "laplace", ROWS, posterior=idata)
    truths = [replicates.truth(rng, k) for k in range(150)]
    known = bx.predictions(gp, idata, obs=ROWS, keep="summary", progressbar=False)
    values = np.array([truth.values["f"] for truth in truths])
    error = known["f_sd"].values / np.sqrt(150)
    assert (np.abs(values.mean(axis=0) - known["f_mean"].values) < 5 * error).all()
    slopes = bx.derivatives(gp, idata, obs=ROWS, keep="summary", progressbar=False)
    values = np.array([truth.values["derivative"] for truth in truths])
    error = slopes["derivative_sd"].values / np.sqrt(150)
    assert (np.abs(values.mean(axis=0) - slopes["derivative_mean"].values) < 5 * error).all()
    model, offset = replicates.refitted_model(truths[0].replicate)
    assert offset == N and model.training.n == 2 * N
    np.testing.assert_array_equal(model.training.y[:N], y)
    np.testing.assert_array_equal(_twice(gp.training, y).X.values, np.vstack([X, X]))


def test_summaries_name_what_is_not_uniform():
    good = rng.uniform(size=(1, 200, 3))
    bad = np.clip(0.5 + 0.2 * rng.normal(size=(1, 200)), 0.0, 1.0)
    dims = ("chain", "draw", "row")
    found, summary = room._uniformity(xr.Dataset({"f": (dims, good), "sigma": (dims[:2], bad)}))
    assert summary.startswith("Not calibrated: sigma (p =")
    assert float(found["p_holm"].sel(quantity="sigma")) < 0.01
    assert float(found["p_holm"].sel(quantity="f")) > 0.01
    _, summary = room._uniformity(xr.Dataset({"f": (dims, good)}))
    assert summary.startswith("No quantity of 1")


def test_replicates_are_observed_until_their_times():
    """A refit knows which responses are larger than their times, and the values of others."""
    times = np.array([0.5, np.inf, 1.0, 2.0, 0.1, np.inf, 0.7])
    known = np.where(times < 0.6, "right", "none")
    model = bx.GP(X, np.exp(y), likelihood="weibull", censoring=known, scale=False)
    replicates = Replicates(model, "laplace", ROWS, times=times)
    drawn = np.array([0.6, 9.0, 0.2, 2.5, 0.05, 0.3, 0.7])
    refitted, _ = replicates.refitted_model(drawn)
    expected = np.where(drawn > times, "right", "none")
    same = bx.GP(X, np.minimum(drawn, times), likelihood="weibull", censoring=expected, scale=False)
    theta = {**FIXED, "amplitude": 1.1, "shape": 2.0}
    del theta["sigma"]
    one, other = (
        bx.log_likelihood(m, theta, progressbar=False)["log_marginal_likelihood"].item()
        for m in (refitted, same)
    )
    assert one == other
    with pytest.raises(ValueError, match="Pass censoring_times="):
        bx.calibrate(model, method="laplace")
    for wrong in (times[1:], np.where(times > 1.5, np.nan, times)):
        with pytest.raises(ValueError, match=r"censoring_times has shape .* or missing values"):
            bx.calibrate(model, method="laplace", censoring_times=wrong)


@pytest.mark.slow
def test_survival_of_censored_durations_is_calibrated(tmp_path):
    """Few runs: every rank lies within (0, 1), and the probability is among the quantities."""
    model = bx.GP(X, np.exp(y), likelihood="weibull", scale=False)

    def survival(model, idata):
        options = {"of": "survival", "at": 1.0, "num_draws": 9, "progressbar": False}
        return bx.predictions(model, idata, **options)[["survival"]].isel(obs=0, drop=True)

    options = FEW | {"censoring_times": np.full(N, 2.0), "quantities": survival}
    ranks = bx.calibrate(model, runs=2, path=tmp_path / "runs", **options)["prior_sbc"]
    assert "survival" in ranks.data_vars
    assert all((0 < v).all() and (v < 1).all() for v in ranks.to_dataset().data_vars.values())
    with pytest.raises(ValueError, match="another calibration"):
        changed = options | {"censoring_times": np.full(N, 3.0)}
        bx.calibrate(model, runs=2, path=tmp_path / "runs", **changed)


def test_models_without_slopes_are_calibrated_in_the_rest():
    words = list("abcdefg")
    between = pd.DataFrame(np.exp(-0.3 * abs(np.subtract.outer(range(N), range(N)))), words, words)
    precomputed = bx.GP(words, y, kernel=bx.Precomputed(between))
    levels = bx.GP(pd.DataFrame({"kind": pd.Categorical(list("uvwuvwu"))}), y)
    options = {"runs": 1, "method": "laplace", "draws": 9, "seed": 1, "progressbar": False}
    ranked = [set(bx.calibrate(one, **options)["prior_sbc"]) for one in (precomputed, levels)]
    assert ranked[0] >= {"f", "y", "amplitude", "sigma"} and not ranked[0] & {"derivative"}
    assert ranked[1] - ranked[0] == {"attribution", "lengthscale"}


def test_refuses(gp):
    with pytest.raises(ValueError, match="does not support censored rows"):
        labels = bx.GP(X, y > np.median(y), likelihood="bernoulli")
        bx.calibrate(labels, censoring_times=np.ones(N))
    with pytest.raises(ValueError, match="unknown 'map'"):
        bx.calibrate(gp, method="map")
    with pytest.raises(ValueError, match="runs"):
        bx.calibrate(gp, runs=0)
    frame = pd.DataFrame({"a": X[:, 0], "y": y})
    streamed = bx.GP([frame], "y", approximation=bx.HSGP(3))
    with pytest.raises(ValueError, match="out-of-core data"):
        bx.calibrate(streamed)
    labels = bx.GP(X, np.array(list("abcabca")), likelihood="categorical")
    with pytest.raises(ValueError, match="several classes"):
        bx.calibrate(labels, method="laplace", posterior=labels.fit("map", progressbar=False))
    weighs = bx.GPX(X, y, approximation=bx.HSGP(3))
    with pytest.raises(ValueError, match="a GPX with an approximation"):
        bx.calibrate(weighs, method="laplace", posterior=weighs.fit("map", progressbar=False))


@pytest.mark.parametrize(
    "options",
    [
        {"likelihood": "heteroscedastic_normal", "approximation": bx.Inducing(N)},
        {"likelihood": "categorical", "correlation": 1},
    ],
)
def test_truths_of_classes_are_drawn_together(options):
    """Functions with kernels of their own, or that correlate, have a joint covariance."""
    response = np.array(list("abcabca")) if options["likelihood"] == "categorical" else y
    near = {
        "lengthscale": 1.0,
        "amplitude": lambda name, dims: pm.Uniform(name, 0.5, 0.501, dims=dims),
    }
    model = bx.GP(X, response, priors=near, **options)
    truth = Replicates(model, "laplace", ROWS).truth(np.random.default_rng(1), 1)
    classes = model.specification.classes
    assert truth.values["f"].shape == (len(ROWS), classes)
    assert truth.values["attribution"].shape == (len(ROWS), X.shape[1], classes)
    if options["likelihood"] == "categorical":
        return
    centers = model.specification.observation.centers
    draws = [
        Replicates(model, "laplace", ROWS).truth(np.random.default_rng(k), 1).values["f"][0]
        for k in range(60)
    ]
    apart, sd = np.mean(draws, axis=0) - centers, np.array([0.5 * y.std(), np.hypot(0.5, 1.5)])
    assert (np.abs(apart) < 4.0 * sd / np.sqrt(60)).all()
    np.testing.assert_allclose(np.std(draws, axis=0), sd, rtol=4.0 / np.sqrt(120))
    assert abs(np.corrcoef(np.transpose(draws))[0, 1]) < 4.0 / np.sqrt(60)


GROUPS = np.array(list("aabbcca"))


def test_truths_of_rows_in_one_group_share_its_level():
    model = bx.GP(X, y, groups=GROUPS, scale=False, priors=FIXED)
    replicates = Replicates(model, "laplace", ROWS)
    hyper = hyperparameter_draws(model, {"amplitude": 1.3, "group_amplitude": 0.7}, None)
    _, cov = replicates._joint(hyper, replicates._asked["f"].operator)
    K = 1.69 * oracle.expquad(X, X, FIXED["lengthscale"])
    K += 0.49 * np.equal.outer(GROUPS, GROUPS)
    np.testing.assert_allclose(cov[:N, :N], K, atol=1e-12)
    np.testing.assert_allclose(cov[N:, :N], K[ROWS], atol=1e-12)
    twice = _twice(model.training, y)
    np.testing.assert_array_equal(twice.groups.codes, np.tile(model.training.groups.codes, 2))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [bx.GP, bx.GPX])
def test_models_with_groups_are_calibrated(kind):
    model = kind(X, y, groups=GROUPS, scale=False)
    fit = model.fit("laplace", draws=50, seed=1, progressbar=False)
    for group, options in {"prior_sbc": {"runs": 2}, "posterior_sbc": {"posterior": fit}}.items():
        ranks = bx.calibrate(model, **{"runs": 1} | options, **FEW)[group].to_dataset()
        assert {"group_amplitude", "attribution", "relevance"} <= set(ranks.data_vars)
        assert all((0 < v).all() and (v < 1).all() for v in ranks.data_vars.values())
