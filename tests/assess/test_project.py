"""Projection: the closest submodels, their scores without each fold, and what is suggested."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.stats import beta, binom, nbinom, t as student

import bayes_gpx as bx
from bayes_gpx.assess import projection as room
from bayes_gpx.assess.project import _constant, project
from bayes_gpx.assess.projection import Reference, project_to, thinned
from bayes_gpx.explain.conditional_variance import conditional_variance
from bayes_gpx.inference.optimise import ascend
from bayes_gpx.model.model import Model
from known_draws import known, scattered
from oracle import expquad

rng = np.random.default_rng(21)
N = 16
X = rng.normal(size=(N, 3))
y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=N)
THETA = {"lengthscale": np.array([0.9, 1.5, 4.0]), "amplitude": 1.2, "sigma": 0.3}
QUIET = {"progressbar": False}


def covariance(A, B, theta):
    return theta["amplitude"] ** 2 * expquad(A, B, np.asarray(theta["lengthscale"]))


def predicted(A, z, B, theta):
    """Mean and variance of responses at B given z at A, from kriging formulas."""
    C = covariance(A, A, theta) + theta["sigma"] ** 2 * np.eye(len(A))
    gain = np.linalg.solve(C, covariance(A, B, theta)).T
    own = theta["amplitude"] ** 2 + theta["sigma"] ** 2
    return gain @ z, own - (gain * covariance(B, A, theta)).sum(axis=1)


def left_out(A, z, theta):
    """Mean and variance of each response, of a process that was conditioned on the others."""
    each = []
    for i in range(len(z)):
        others = np.arange(len(z)) != i
        each.append(predicted(A[others], z[others], A[[i]], theta))
    mean, variance = np.array(each)[:, :, 0].T
    return mean, variance


def log_density(z, mean, variance):
    return -0.5 * ((z - mean) ** 2 / variance + np.log(2 * np.pi * variance))


def divergence(one, other):
    (m, v), (a, b) = one, other
    return np.mean(0.5 * (v / b - 1 + np.log(b / v) + (m - a) ** 2 / b))


@pytest.fixture(scope="module")
def gp():
    return bx.GP(X, y, scale=False)


@pytest.fixture(scope="module")
def reference(gp):
    return Reference.of(gp, known(gp, scattered(THETA, 3)))


def draw_of(idata, k):
    posterior = idata["posterior"].isel(chain=0, draw=k)
    return {name: posterior[name].values for name in THETA}


def test_divergence_is_that_of_refits_without_each_row(reference):
    submodel, idata = project_to(reference, ["x0", "x1"])
    for k, theta in enumerate(scattered(THETA, 3)):
        aim = left_out(X, y, theta)
        assert_allclose(reference.mean[k], aim[0], rtol=1e-9, atol=1e-12)
        assert_allclose(reference.predictive(k).variance.value, aim[1], rtol=1e-9)
        found = left_out(X[:, :2], y, draw_of(idata, k))
        kl = idata["sample_stats"]["kl"].values[0, k]
        assert_allclose(kl, divergence(aim, found), rtol=1e-7)
    assert submodel.training.X.columns == ("x0", "x1")


def test_projection_is_the_closest_submodel(reference):
    """No other search, from other starts and without gradients, comes closer."""
    _, idata = project_to(reference, ["x0", "x1"])
    aim = left_out(X, y, scattered(THETA, 3)[1])

    def apart(logs):
        a, b, amplitude, sigma = np.exp(np.clip(logs, -8, 8))
        theta = {"lengthscale": np.array([a, b]), "amplitude": amplitude, "sigma": sigma}
        return divergence(aim, left_out(X[:, :2], y, theta))

    starts = np.log([[1.0, 1.0, 1.0, 0.5], [0.5, 3.0, 1.5, 0.2]])
    options = {"maxfev": 1000, "xatol": 1e-6, "fatol": 1e-10}
    found = [minimize(apart, s, method="Nelder-Mead", options=options).fun for s in starts]
    kl = idata["sample_stats"]["kl"].values[0, 1]
    assert kl < min(found) + 1e-7
    assert_allclose(kl, min(found), rtol=1e-3)


def test_slopes_of_the_divergence_are_finite_differences(gp, reference, monkeypatch):
    """Of columns with a number each, and of indicators that share one."""
    climbed = []

    def recorded(climb, *options):
        climbed.append(climb)
        return ascend(climb, *options)

    monkeypatch.setattr(room, "ascend", recorded)
    project_to(reference, ["x0", "x1"])
    frame = pd.DataFrame(X, columns=["u", "v", "w"])
    frame["colour"] = pd.Categorical(["red", "green", "blue", "red"] * 4)
    theta = {**THETA, "lengthscale": [0.9, 1.5, 4.0, 2.0]}
    project_to(Reference.of(bx.GP(frame, y), theta), ["colour", "u"])
    for climb in (climbed[0], climbed[-1]):
        evaluate, x = climb.value_and_slope(), climb.unconstrain({}) + 0.3
        assert len(x) == 4
        steps = 1e-5 * np.eye(4)
        slope = [(evaluate(x + e)[0] - evaluate(x - e)[0]) / 2e-5 for e in steps]
        assert_allclose(evaluate(x)[1], slope, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("likelihood", ["normal", "poisson"])
def test_a_row_that_hardly_counts_has_no_part_in_the_divergence(likelihood):
    """Neither of a submodel, nor of one distribution for all rows."""
    response = y if likelihood == "normal" else np.round(np.exp(y))
    weights = np.where(np.arange(N) == 3, 1e-9, 1.0)
    theta = {k: v for k, v in THETA.items() if likelihood == "normal" or k != "sigma"}
    options = {"likelihood": likelihood, "scale": False}
    kept = np.arange(N) != 3
    both = (
        bx.GP(X, response, weights=weights, **options),
        bx.GP(X[kept], response[kept], weights=weights[kept], **options),
    )
    kls = []
    for model in both:
        reference = Reference.of(model, theta)
        _, idata = project_to(reference, ["x0", "x1"])
        kls.append([idata["sample_stats"]["kl"].values.item(), _constant(reference)[1]])
    assert_allclose(*kls, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:weights have a mean of")
def test_scores_of_weighted_rows_are_theirs_left_out():
    """With a fold for each row, and all features."""
    model = bx.GP(X, y, weights=np.resize([1.0, 3.0, 0.5], N), scale=False)
    table = project(model, THETA, folds=N, seed=1, **QUIET).table
    expected = bx.loo_predictions(model, THETA, **QUIET)["elpd"].sum()
    assert_allclose(table["elpd"].iloc[-1], expected, rtol=1e-6)


def test_with_all_features_a_draw_is_its_own_projection(reference):
    _, idata = project_to(reference, ["x0", "x1", "x2"])
    assert_allclose(idata["sample_stats"]["kl"], 0.0, atol=1e-13)
    for k, theta in enumerate(scattered(THETA, 3)):
        for name, value in draw_of(idata, k).items():
            assert_allclose(value, theta[name], rtol=1e-12)


def test_scores_are_of_rows_that_were_held_out():
    """Each row is a fold: all steps written anew, but for the projection itself."""
    A, z = X[:7], y[:7]
    model = bx.GP(A, z, scale=False)
    found = project(model, THETA, path=["x1", "x0", "x2"], sizes=[3, 0, 2], folds=7, **QUIET)
    assert found.table.index.tolist() == [0, 2, 3]
    scores = []
    for i in range(7):
        others = np.arange(7) != i
        mean, variance = left_out(A[others], z[others], THETA)
        constant = mean.mean(), (variance + mean**2).mean() - mean.mean() ** 2
        fewer = model.of_rows(model.training.rows(np.flatnonzero(others)))
        _, idata = project_to(Reference.of(fewer, THETA), ["x0", "x1"])
        small = predicted(A[others, :2], z[others], A[[i], :2], draw_of(idata, 0))
        whole = predicted(A[others], z[others], A[[i]], THETA)
        both = [log_density(z[i], *(v.item() for v in moments)) for moments in (small, whole)]
        scores.append([log_density(z[i], *constant), *both])
    scores = np.array(scores)
    apart = scores - scores[:, -1:]
    assert_allclose(found.table["elpd"], scores.sum(axis=0), rtol=1e-7)
    assert_allclose(found.table["elpd_diff"], apart.sum(axis=0), rtol=1e-6, atol=1e-9)
    assert_allclose(found.table["se"], np.sqrt(7) * apart.std(axis=0, ddof=1), atol=1e-7)
    mean, variance = left_out(A, z, THETA)
    constant = mean.mean(), (variance + mean**2).mean() - mean.mean() ** 2
    assert_allclose(found.table["kl"][0], divergence((mean, variance), constant), rtol=1e-8)
    assert found.table["feature"].tolist() == ["", "x0", "x2"]
    assert (found.inclusion.sel(feature="x1") == 1).all()


@pytest.fixture(scope="module")
def recovered():
    """Two features of six, with a fit and what is found of it."""
    own = np.random.default_rng(3)
    frame = pd.DataFrame(own.normal(size=(70, 6)), columns=list("abcdef"))
    response = 10.0 * (np.sin(2.0 * frame["d"]) + frame["b"]) + 1.5 * own.normal(size=70)
    model = bx.GP(frame, response.rename("yield"))
    idata = model.fit("map", **QUIET)
    return model, idata, project(model, idata, sizes=range(4), folds=2, seed=1, **QUIET)


def test_the_true_features_are_found(recovered):
    model, _, found = recovered
    assert found.suggested == 2
    assert set(found.path[:2]) == {"b", "d"}
    assert (found.inclusion.sel(feature=["b", "d"]) <= 2).all()
    assert (found.table["elpd_diff"][:2] < -3 * found.table["se"][:2]).all()
    assert (found.table["kl"].diff().dropna() < 1e-6).all()
    said = repr(found)
    assert "suggested size 2" in said and "elpd_diff" in said
    with pytest.raises(ValueError, match="without features|have features"):
        found.submodel(0)


def test_features_come_in_by_the_variance_of_the_mean(recovered):
    model, idata, _ = recovered
    found = project(model, idata, path="variance", sizes=[2], folds=2, seed=1, **QUIET)
    varied = conditional_variance(model, idata, **QUIET).mean(axis=0)
    assert found.path == [model.training.X.sources[k] for k in np.argsort(-varied)]
    assert set(found.path[:2]) == {"b", "d"}
    few, theta = bx.GP(rng.normal(size=(8, 6)), y[:8]), THETA | {"lengthscale": np.ones(6)}
    with pytest.raises(ValueError, match="6 columns and 4 rows without a fold"):
        project(few, theta, path="variance", folds=2, **QUIET)


def test_a_submodel_is_a_model_for_all_verbs(recovered, tmp_path):
    model, _, found = recovered
    submodel, idata = found.submodel(2)
    X_new = model.training.X.values[:4]
    frame = pd.DataFrame(X_new, columns=list("abcdef"))
    said = bx.predictions(submodel, idata, frame, seed=1, **QUIET)
    assert abs(said["f_mean"] - model.training.y[:4]).max() < 9.0
    assert bx.relevance(submodel, idata, **QUIET)["feature"].values.tolist() == ["b", "d"]
    bx.save(submodel, idata, tmp_path / "small.nc")
    again = bx.predictions(*bx.load(tmp_path / "small.nc"), frame, seed=1, **QUIET)
    assert_allclose(again["y_mean"], said["y_mean"])


def test_an_executor_changes_nothing(gp):
    options = {"sizes": [0, 1], "folds": 2, "seed": 1, **QUIET}
    one_by_one = project(gp, THETA, **options)
    with ThreadPoolExecutor(2) as executor:
        again = project(gp, THETA, executor=executor, **options)
    pd.testing.assert_frame_equal(one_by_one.table, again.table)


def test_folds_are_refitted_as_the_reference_was(gp, monkeypatch):
    """By the same method, with as many draws, each from a seed of its own."""
    idata, seen = known(gp, scattered(THETA, 3)), []

    def fit(self, **options):
        seen.append((self.training.n, options))
        return known(self, scattered(THETA, 3))

    monkeypatch.setattr(Model, "fit", fit)
    for method, expected in (("laplace", "laplace"), (None, "nuts")):
        idata["posterior"].attrs = {"inference_method": method} if method else {}
        seen.clear()
        project(gp, idata, sizes=[0], folds=2, seed=1, **QUIET)
        assert [n for n, _ in seen] == [8, 8]
        seeds = [options.pop("seed") for _, options in seen]
        assert len(set(seeds)) == 2
        for _, options in seen:
            size = {"draws": 3, "chains": 1}
            assert options == {"method": expected, "progressbar": False, **size}


def test_nothing_is_suggested_where_no_size_predicts_as_well(gp):
    found = project(gp, THETA, path=["x2", "x1"], sizes=[0, 1], folds=2, seed=1, **QUIET)
    assert found.suggested is None
    assert "no size" in repr(found)
    assert "suggested" not in bx.plot_project(found, backend="none").viz.children


def test_columns_that_share_a_number_share_it_in_the_projection():
    """Indicators of one column; and all features, of a prior without dims."""
    frame = pd.DataFrame(X, columns=["u", "v", "w"])
    frame["colour"] = pd.Categorical(rng.choice(["red", "green", "blue"], N))
    model = bx.GP(frame, y)
    theta = {"lengthscale": [0.9, 1.5, 4.0, 2.0], "amplitude": 1.2, "sigma": 0.3}
    submodel, idata = project_to(Reference.of(model, theta), ["colour", "u"])
    assert submodel.training.X.sources == ("u", "colour")
    assert idata["posterior"]["lengthscale"].shape == (1, 1, 2)
    assert idata["sample_stats"]["converged"].all()
    bx.predictions(submodel, idata, **QUIET)
    shared = bx.GP(frame, y, priors={"lengthscale": lambda name: pm.HalfNormal(name, 2.0)})
    _, idata = project_to(Reference.of(shared, theta), ["colour", "u"])
    assert idata["posterior"]["lengthscale"].shape == (1, 1)
    fixed = bx.GP(frame, y, priors={"lengthscale": theta["lengthscale"]})
    submodel, idata = project_to(Reference.of(fixed, {"amplitude": 1.2, "sigma": 0.3}), ["v", "w"])
    assert_allclose(submodel.fixed["lengthscale"], [1.5, 4.0])
    assert set(idata["posterior"]) == {"amplitude", "sigma"}


def test_draws_are_thinned_over_all_chains(gp):
    idata = known(gp, scattered(THETA, 12))
    posterior = idata["posterior"].to_dataset()
    two = posterior.isel(draw=slice(6)).assign_coords(draw=np.arange(6))
    rest = posterior.isel(draw=slice(6, 12)).assign_coords(draw=np.arange(6), chain=[1])
    idata["posterior"] = xr.DataTree(xr.concat([two, rest], "chain"))
    some = thinned(idata, 3)["posterior"]
    assert_allclose(some["amplitude"].values[0], posterior["amplitude"].values[0, [0, 6, 11]])
    assert thinned(idata, 100)["posterior"].sizes["draw"] == 12


REFUSED = [
    ({"path": "importance"}, "relevance"),
    ({"path": ["x0", "x7"]}, "x7"),
    ({"path": ["x0", "x0"]}, "different"),
    ({"sizes": [4]}, "from 0 to 3"),
    ({"sizes": []}, "from 0 to 3"),
    ({"sizes": 2}, "a list of whole numbers"),
    ({"sizes": [-1]}, "at least 0"),
    ({"path": ["x0"], "sizes": [2]}, "from 0 to 1"),
    ({"folds": 1}, "at least 2"),
    ({"folds": N + 1}, "at most one fold for each row"),
    ({"clusters": 0}, "at least 1"),
    ({"seed": -1}, "seed"),
    ({"executor": 4}, "executor"),
]


@pytest.mark.parametrize(("options", "said"), REFUSED)
def test_bad_options_are_refused_before_any_fit(gp, monkeypatch, options, said):
    monkeypatch.setattr(Model, "fit", lambda *_, **__: pytest.fail("the fit began"))
    monkeypatch.setattr("bayes_gpx.assess.project.project_to", lambda *_: pytest.fail("began"))
    with pytest.raises(ValueError, match=said):
        project(gp, known(gp, scattered(THETA, 3)), **options, **QUIET)


LABELS = np.digitize(y, [-0.5, 0.5])
COUNTS = rng.poisson(np.exp(0.5 * y + 1.0))
EXPOSURE = np.linspace(1.0, 2.0, N)
TRIALS = np.arange(N) % 3 + 4
HYPER = {"lengthscale": THETA["lengthscale"], "amplitude": 1.2}
GPX_HYPER = HYPER | {"amplitude": 0.7, "sigma_w": 0.2, "sigma": 0.3}


def of_normal(model, theta):
    found = bx.loo_predictions(model, theta, seed=1, **QUIET)
    return found["y_mean"].values, found["y_sd"].values ** 2


def of_mean(name):
    return lambda model, theta: (bx.loo_predictions(model, theta, seed=1, **QUIET)[name].values,)


def between_labels(one, other):
    (p,), (q,) = one, other
    if p.ndim == 1:
        p, q = np.stack([p, 1 - p], axis=1), np.stack([q, 1 - q], axis=1)
    return np.mean((p * np.log(p / q)).sum(axis=1))


def between_counts(one, other):
    (a,), (b,) = one, other
    return np.mean(a * np.log(a / b) - a + b)


def between_negative_binomials(one, other, size=3.0):
    grid = np.arange(400)
    p, q = (nbinom.pmf(grid, size, size / (size + m[0][:, None])) for m in (one, other))
    return np.mean((p * np.log(p / q)).sum(axis=1))


def between_binomials(one, other):
    """By the definition, a sum over all numbers of successes."""
    successes = np.arange(TRIALS.max() + 1)
    p, q = (
        binom.pmf(successes, TRIALS[:, None], m[0][:, None] / TRIALS[:, None]) for m in (one, other)
    )
    gaps = np.log(np.where(p > 0, p, 1.0) / np.where(p > 0, q, 1.0))
    return np.mean((p * gaps).sum(axis=1))


def between_betas(one, other, precision=5.0):
    grid = (np.arange(100_000) + 0.5) / 100_000
    logs = [
        beta.logpdf(grid, *(precision * v[:, None] for v in (m, 1 - m))) for (m,) in (one, other)
    ]
    return np.mean((np.exp(logs[0]) * (logs[0] - logs[1])).mean(axis=1))


def of_student(model, theta):
    """Mean of f, and squared scale: the variance of f and sigma^2."""
    mean, variance = of_normal(model, theta)
    nu, sigma = theta["nu"], theta["sigma"]
    return mean, variance - sigma**2 * nu / (nu - 2) + sigma**2


def between_students(one, other, nu=6.0):
    grid = np.linspace(-60.0, 60.0, 60_001)
    logs = [student.logpdf(grid, nu, m[:, None], np.sqrt(v)[:, None]) for m, v in (one, other)]
    return np.mean((np.exp(logs[0]) * (logs[0] - logs[1])).sum(axis=1)) * (grid[1] - grid[0])


OTHERS = {
    "logit": (
        lambda: bx.GP(X, LABELS > 0, likelihood="bernoulli", scale=False),
        HYPER,
        of_mean("probability_mean"),
        between_labels,
    ),
    "classes": (
        lambda: bx.GP(X, LABELS, likelihood="categorical", scale=False),
        HYPER,
        of_mean("probability_mean"),
        between_labels,
    ),
    "poisson": (
        lambda: bx.GP(X, COUNTS, likelihood="poisson", exposure=EXPOSURE),
        HYPER,
        of_mean("rate_mean"),
        between_counts,
    ),
    "negative_binomial": (
        lambda: bx.GP(X, COUNTS, likelihood="negative_binomial"),
        HYPER | {"dispersion": 3.0},
        of_mean("rate_mean"),
        between_negative_binomials,
    ),
    "binomial": (
        lambda: bx.GP(X, np.minimum(COUNTS, TRIALS), likelihood="binomial", trials=TRIALS),
        HYPER,
        of_mean("rate_mean"),
        between_binomials,
    ),
    "beta": (
        lambda: bx.GP(X, 1 / (1 + np.exp(-y)), likelihood="beta"),
        HYPER | {"precision": 5.0},
        of_mean("mean_mean"),
        between_betas,
    ),
    "student_t": (
        lambda: bx.GP(X, y, likelihood="student_t", scale=False),
        THETA | {"nu": 6.0},
        of_student,
        between_students,
    ),
    "processes": (
        lambda: bx.GP(X, y, likelihood="heteroscedastic_normal"),
        {"lengthscale": [THETA["lengthscale"], [2.0, 3.0, 2.5]], "amplitude": [0.5, 0.3]},
        of_normal,
        divergence,
    ),
    "inducing": (
        lambda: bx.GP(X, y, approximation=bx.Inducing(8), scale=False),
        THETA,
        of_normal,
        divergence,
    ),
    "waves": (
        lambda: bx.GP(X, y, approximation=bx.HSGP([4, 5, 3], 2.0), scale=False),
        THETA,
        of_normal,
        divergence,
    ),
    "GPX": (lambda: bx.GPX(X, y, intercept=True, scale=False), GPX_HYPER, of_normal, divergence),
    "GPX by place": (
        lambda: bx.GPX(X, y, X[:, :1] + 1, scale=False),
        GPX_HYPER,
        of_normal,
        divergence,
    ),
    "GPX per feature": (
        lambda: bx.GPX(X, y, weight_prior="per_feature", scale=False),
        GPX_HYPER | {"amplitude": [0.5, 0.9, 0.7]},
        of_normal,
        divergence,
    ),
    "GPX labels": (
        lambda: bx.GPX(X, LABELS > 0, likelihood="bernoulli", scale=False),
        {k: v for k, v in GPX_HYPER.items() if k != "sigma"},
        of_mean("probability_mean"),
        between_labels,
    ),
}
"""Models, hyperparameters, leave-one-out predictions, and their divergence."""


QUICK = {"logit", "binomial", "classes", "negative_binomial", "student_t", "inducing", "GPX"}


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=() if k in QUICK else pytest.mark.slow) for k in OTHERS]
)
def test_any_response_and_a_gpx_are_projected(kind):
    """The divergence is of leave-one-out predictions, and no neighbor comes closer."""
    build, theta, predict, apart = OTHERS[kind]
    model = build()
    submodel, idata = project_to(Reference.of(model, theta), ["x0", "x1"])
    assert submodel.training.X.columns == ("x0", "x1")
    aim = predict(model, theta)
    found = {n: idata["posterior"][n].values[0, 0] for n in submodel.hyperparameters}
    kl = idata["sample_stats"]["kl"].item()
    assert_allclose(kl, apart(aim, predict(submodel, found)), rtol=1e-5, atol=1e-9)
    assert idata["sample_stats"]["converged"].all() and kl > 1e-5
    for name in set(found) - {"dispersion", "nu", "precision"}:
        for place in np.ndindex(found[name].shape):
            for factor in (0.9, 1.1):
                moved = {key: np.array(value) for key, value in found.items()}
                moved[name][place] *= factor
                assert apart(aim, predict(submodel, moved)) > kl - 1e-6 * (1 + kl)


def test_a_sigma_w_of_zero_stays_zero():
    """As if it were fixed; and submodels keep their columns of given inducing points."""
    theta = {key: value for key, value in GPX_HYPER.items() if key != "sigma_w"}
    points = bx.Inducing(X[:8])
    free = bx.GPX(X, y, approximation=points)
    fixed = bx.GPX(X, y, approximation=points, priors={"sigma_w": 0.0})
    both = [
        project_to(Reference.of(model, given), ["x0", "x2"])
        for model, given in ((free, theta | {"sigma_w": 0.0}), (fixed, theta))
    ]
    assert both[0][1]["posterior"]["sigma_w"].item() == 0.0
    kl = [idata["sample_stats"]["kl"].item() for _, idata in both]
    assert_allclose(*kl, rtol=1e-4)
    for name in ("U", "U_Z"):
        assert_allclose(both[0][0].inducing[name], free.inducing[name][:, [0, 2]])


def test_scores_of_labels_are_of_rows_that_were_held_out():
    """Log probabilities of each fold's labels, by refits of the search without the fold."""
    model = OTHERS["logit"][0]()
    found = project(model, HYPER, path=["x0", "x1", "x2"], sizes=[0, 2], folds=2, seed=3, **QUIET)
    own = np.random.default_rng(np.random.SeedSequence(3)).permutation(N) % 2
    scores = np.empty((3, N))
    for fold in range(2):
        rows, kept = np.flatnonzero(own == fold), np.flatnonzero(own != fold)
        fewer = model.of_rows(model.training.rows(kept))
        small = project_to(Reference.of(fewer, HYPER), ["x0", "x1"])
        constant = bx.loo_predictions(fewer, HYPER, seed=1, **QUIET)["probability_mean"].mean()
        asked = {"draws": 2, "keep": "summary", **QUIET}
        p = np.stack(
            [
                np.full(len(rows), constant),
                bx.predictions(*small, X[rows, :2], **asked)["probability_mean"],
                bx.predictions(fewer, HYPER, X[rows], **asked)["probability_mean"],
            ]
        )
        scores[:, rows] = np.log(np.where(LABELS[rows] > 0, p, 1 - p))
    assert_allclose(found.table["elpd"], scores[:2].sum(axis=1), rtol=1e-6)
    apart = scores[:2] - scores[2]
    assert_allclose(found.table["elpd_diff"], apart.sum(axis=1), rtol=1e-5, atol=1e-7)
    p = bx.loo_predictions(model, HYPER, seed=1, **QUIET)["probability_mean"].values
    kl = between_labels((p,), (np.full(N, p.mean()),))
    assert_allclose(found.table["kl"][0], kl, rtol=1e-5)


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("classes", "variance"),
        ("GPX", "relevance"),
        pytest.param("student_t", "variance", marks=pytest.mark.slow),
        pytest.param("negative_binomial", "relevance", marks=pytest.mark.slow),
    ],
)
def test_projections_of_any_model_have_a_table(kind, path):
    build, theta, *_ = OTHERS[kind]
    found = project(build(), theta, path=path, sizes=[0, 1], folds=2, seed=1, **QUIET)
    assert np.isfinite(found.table[["elpd", "elpd_diff", "se", "kl"]]).all(axis=None)
    assert found.table["kl"][0] > 0
    submodel, idata = found.submodel(1)
    (name,) = submodel.training.X.sources
    new = pd.DataFrame(X[:2], columns=["x0", "x1", "x2"])[[name]]
    assert bx.predictions(submodel, idata, new, draws=5, seed=1, **QUIET).sizes["obs"] == 2


def test_models_that_cannot_be_projected(gp):
    with pm.Model():
        joined = bx.GP(X, y)
    for model in (
        bx.GP(X, y, representation="hierarchy"),
        bx.GP(X, y, kernel=lambda d: pm.gp.cov.ExpQuad(d, ls=1.0)),
    ):
        with pytest.raises(ValueError, match="Pass a model with a kernel by name"):
            project(model, THETA, **QUIET)
    with pytest.raises(ValueError, match="larger pm.Model"):
        project(joined, THETA, **QUIET)
    with pytest.raises(ValueError, match="another model"):
        project(bx.GP(X[:, :2], y), known(gp, scattered(THETA, 3)), **QUIET)
    with pytest.raises(ValueError, match="swapped"):
        project(known(gp, scattered(THETA, 3)), gp, **QUIET)


def test_the_plot_shows_the_table(recovered):
    *_, found = recovered
    pc = bx.plot_project(found, backend="none")
    drawn = pc.viz["point_estimate"]
    assert drawn is not None
    with pytest.raises(ValueError, match="Projection"):
        bx.plot_project(found.table)
