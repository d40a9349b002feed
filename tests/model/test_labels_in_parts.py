"""Labels, counts and outliers of data in parts: the numbers of a table in memory."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.spatial.distance import cdist
from scipy.special import gammaln

import bayes_gpx as bx
from bayes_gpx.data import training
from bayes_gpx.inference.log_density import Density
from bayes_gpx.numerics import row_sums
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.posteriors.evidence import variational
from frame_parts import Frames

rng = np.random.default_rng(sum(map(ord, "labels in parts")))
N = 90
X = pd.DataFrame({"far": 1e3 + rng.normal(size=N), "b": rng.uniform(size=N)})
TIME = pd.Series(rng.uniform(0.5, 3.0, N), name="time")
SIGNAL = np.sin(X["far"] - 1e3) + X["b"]
COUNTS = rng.poisson(TIME * np.exp(SIGNAL))
POINTS = X.values[::9]
RESPONSES = {
    "bernoulli": np.where(rng.logistic(size=N) < SIGNAL, "yes", "no"),
    "poisson": COUNTS,
    "negative_binomial": COUNTS,
    "student_t": SIGNAL + 0.1 * rng.standard_t(4, N),
    "categorical": np.digitize(SIGNAL + 0.3 * rng.logistic(size=N), [0.0, 1.0]),
}
APPROXIMATIONS = {
    "bernoulli": bx.Inducing(POINTS),
    "poisson": bx.Inducing(POINTS),
    "negative_binomial": bx.HSGP(3, 1.5),
    "student_t": bx.RandomFeatures(10),
    "categorical": bx.Inducing(POINTS),
}
THETA = {"lengthscale": [0.7, 1.1], "amplitude": 1.2}
QUIET = {"progressbar": False, "draws": 3, "seed": 1}


@pytest.fixture(autouse=True, scope="module")
def few_rows_in_a_block():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_sums, "ROWS", 16)
        yield


def frame_of(likelihood):
    exposure = {"time": TIME} if COUNTS is RESPONSES[likelihood] else {}
    return X.assign(**exposure, y=RESPONSES[likelihood])


def parts_of(likelihood, **options):
    frame = frame_of(likelihood)
    given = {"likelihood": likelihood, "approximation": APPROXIMATIONS[likelihood]}
    if "time" in frame:
        given["exposure"] = "time"
    return bx.GP(Frames(frame), "y", **given | options)


def table_of(likelihood, **options):
    frame = frame_of(likelihood)
    given = {"likelihood": likelihood, "approximation": APPROXIMATIONS[likelihood]}
    if "time" in frame:
        given["exposure"] = frame["time"]
    return bx.GP(X, frame["y"], **given | options)


@pytest.fixture(scope="module")
def labels():
    return parts_of("bernoulli"), table_of("bernoulli")


@pytest.fixture(scope="module")
def counts():
    return parts_of("poisson"), table_of("poisson")


@pytest.fixture(scope="module")
def classes():
    return parts_of("categorical"), table_of("categorical")


def agree(one, other, tolerance=1e-9, names=("_mean", "_sd", "_interval")):
    for name in one.data_vars:
        if name.endswith(names):
            np.testing.assert_allclose(one[name], other[name], rtol=tolerance, atol=tolerance)


def density_of(model):
    """Function to log density and slopes, and a point."""
    density = Density(model.objective, jacobian=True)
    return density.value_and_slope(), density.unconstrain({"amplitude": 1.2, "lengthscale": 0.8})


def same_density(one, other):
    found, expected = (evaluate(at) for evaluate, at in (one, other))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-9)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-9, atol=1e-8)


def test_densities_and_slopes_of_labels_are_those_of_a_table(labels):
    same_density(*map(density_of, labels))


@pytest.mark.slow
def test_densities_and_slopes_of_counts_are_those_of_a_table():
    likelihood = "negative_binomial"
    same_density(density_of(parts_of(likelihood)), density_of(table_of(likelihood)))


def test_densities_with_outliers_are_those_of_a_table_to_the_bit_for_any_threads(monkeypatch):
    """Where a search always begins at the prior; of rows that are held and that are read again."""
    model, found, passes = parts_of("student_t"), [], []
    evaluate, at = density_of(model)
    same_density((evaluate, at), density_of(table_of("student_t")))
    source = model.training.beyond.source.iterable
    for threads, held in ((1, 2**20), (3, 2**20), (2, 0)):
        monkeypatch.setattr("os.cpu_count", lambda threads=threads: threads)
        monkeypatch.setattr("bayes_gpx.numerics.threads._Limit.threads", threads)
        monkeypatch.setattr(training, "HELD", held)
        before = source.passes
        found.append(evaluate(at))
        passes.append(source.passes - before)
    for value, slopes in found[1:]:
        assert value == found[0][0]
        assert np.array_equal(slopes, found[0][1])
    assert passes[:2] == [0, 0]
    assert passes[2] > 4  # each step of the search, the bound and its slopes


def test_densities_of_classes_are_those_of_a_table_by_conjugate_gradients(classes, monkeypatch):
    """And the rows are read once for a step, not for each product with the curvature."""
    monkeypatch.setattr(variational, "PAIRED", 0)
    monkeypatch.setattr(training, "HELD", 0)
    model, table = classes
    evaluate, at = density_of(model)
    same_density((evaluate, at), density_of(table))
    before = model.training.beyond.source.iterable.passes
    evaluate(at + 0.1)
    assert model.training.beyond.source.iterable.passes - before < 20


def test_few_coefficients_of_a_table_take_their_curvature_as_a_matrix(classes, monkeypatch):
    evaluate, at = density_of(classes[1])
    few = evaluate(at)
    monkeypatch.setattr(variational, "PAIRED", 0)
    same_density((evaluate, at), (lambda _: few, at))


def test_the_density_is_the_highest_bound(counts):
    """By closed forms of the Poisson likelihood, at a posterior that no step improves."""
    scales = X.std(ddof=0).values * THETA["lengthscale"]

    def k(one, other):
        return 1.44 * np.exp(-0.5 * cdist(one / scales, other / scales, "sqeuclidean"))

    root = np.linalg.cholesky(k(POINTS, POINTS) + 1e-10 * 1.44 * np.eye(len(POINTS)))
    F = np.linalg.solve(root, k(POINTS, X.values)).T
    rest, time = 1.44 - (F**2).sum(axis=1), TIME.values * COUNTS.sum() / TIME.sum()
    m, V = np.zeros(len(POINTS)), np.eye(len(POINTS))
    for _ in range(50):
        mean, variance = F @ m, np.einsum("nm,mk,nk->n", F, V, F) + rest
        rate = time * np.exp(mean + variance / 2)
        V = np.linalg.inv(np.eye(len(m)) + (F.T * rate) @ F)
        m = m + V @ (F.T @ (COUNTS - rate) - m)
    terms = COUNTS * (mean + np.log(time)) - rate - gammaln(COUNTS + 1)
    gap = m @ m + np.trace(V) - len(m) - np.linalg.slogdet(V)[1]
    (potential,) = counts[0].pymc.potentials
    given = {counts[0].variables[name]: np.array(value) for name, value in THETA.items()}
    np.testing.assert_allclose(potential.eval(given, mode=MODE), terms.sum() - gap / 2, rtol=1e-8)


VERBS = [bx.predictions, bx.derivatives, bx.attributions]


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_say_of_labels_what_they_say_of_a_table(labels, verb):
    one, other = (verb(model, THETA, X[:4], **QUIET) for model in labels)
    assert one.attrs["likelihood"] == "bernoulli"
    agree(one, other, names=("", "_mean"))  # draws too
    options = {"keep": "summary", "on": "latent", **QUIET}
    whole, rows = (verb(model, THETA, **options) for model in labels)
    assert whole.sizes["obs"] == N
    agree(whole, rows, 1e-8)


@pytest.mark.parametrize("verb", [bx.predictions, bx.attributions])
def test_verbs_say_of_classes_what_they_say_of_a_table(classes, verb):
    one, other = (verb(model, THETA, X[:4], **QUIET) for model in classes)
    assert one["class"].values.tolist() == [0, 1, 2]
    agree(one, other, names="_mean")
    agree(one, other, 1e-7, names="")  # a factor of a covariance has half of its digits
    options = {"keep": "summary", "on": "latent", **QUIET}
    whole, rows = (verb(model, THETA, **options) for model in classes)
    assert whole.sizes["obs"] == N
    agree(whole, rows, 1e-8)


def test_random_functions_of_labels(labels):
    functions = [bx.sample_functions(m, THETA, draws=2, seed=3, progressbar=False) for m in labels]
    one, other = (drawn.predictions(X[:3]) for drawn in functions)
    agree(one, other, 1e-7, names="f")


@pytest.mark.slow
def test_relevance_of_features_for_labels(labels):
    one, other = (bx.relevance(model, THETA, X[:5], progressbar=False) for model in labels)
    agree(one, other, 1e-7, names="")


def test_training_rows_keep_their_exposure(counts):
    whole, rows = (bx.predictions(m, THETA, keep="summary", **QUIET) for m in counts)
    agree(whole, rows, names=("f_mean", "f_sd", "rate_mean"))
    one, other = (bx.predictions(m, THETA, X[:4], **QUIET) for m in counts)
    agree(one, other, names="")


def test_weights_that_make_labels():
    """Without deviations, which only rows in memory learn."""
    points = X[["b", "far"]].values[::9]  # the columns of X, then those of Z
    options = {"approximation": bx.Inducing(points), "intercept": True}
    options |= {"likelihood": "bernoulli", "link": "probit", "priors": {"sigma_w": 0.0}}
    frame = frame_of("bernoulli")
    model = bx.GPX(Frames(frame), "y", ["far"], **options)
    table = bx.GPX(X[["b"]], frame["y"], X[["far"]], **options)
    theta = {"lengthscale": [1.1], "amplitude": 1.2}
    new = X[["b"]][:4], X[["far"]][:4]
    for verb in (bx.contributions, bx.predictions):
        agree(*(verb(m, theta, *new, **QUIET) for m in (model, table)), 1e-8)
        asked = QUIET | {"keep": "summary", "on": "latent"}
        agree(*(verb(m, theta, **asked) for m in (model, table)), 1e-8)


@pytest.mark.slow
def test_fits_of_both_agree(counts):
    found, expected = (m.fit("map", progressbar=False, start=THETA) for m in counts)
    for name, value in expected["posterior"].items():
        np.testing.assert_allclose(found["posterior"][name], value, rtol=1e-4)


def made_up(number):
    """A fit with so many draws."""
    values = {
        name: (("chain", "draw", "feature")[: np.ndim(value)], value)
        for name, fixed in THETA.items()
        for value in [np.multiply.outer(rng.uniform(0.8, 1.2, (1, number)), fixed)]
    }
    coords = {"chain": [0], "draw": range(number), "feature": ["far", "b"]}
    return xr.DataTree.from_dict({"posterior": xr.Dataset(values, coords)})


@pytest.mark.parametrize("kind", ["labels", "counts", "classes"])
def test_files_hold_what_the_rows_say_but_no_rows(kind, request, tmp_path):
    model, _ = request.getfixturevalue(kind)
    idata = made_up(2)
    bx.save(model, idata, tmp_path / "fit.nc")
    again, kept = bx.load(tmp_path / "fit.nc")
    assert again.training.X.values.shape == (1, 2)
    assert again.training.labels == model.training.labels
    options = {"progressbar": False, "seed": 1}
    known = bx.predictions(model, idata, X[:4], **options)
    assert bx.predictions(again, kept, X[:4], **options).equals(known)
    with pytest.raises(ValueError, match="not saved with the fit"):
        bx.predictions(again, THETA, X[:4], **QUIET)


def test_parts_need_not_have_all_labels(labels):
    frame = frame_of("bernoulli").assign(y=RESPONSES["bernoulli"] == "yes")
    parts, new = [frame[frame["y"]], frame[~frame["y"]]], X[:4]
    model = bx.GP(parts, "y", likelihood="bernoulli", approximation=bx.Inducing(POINTS))
    assert [*model.training.labels] == [False, True]
    table = bx.predictions(labels[1], THETA, new, **QUIET)
    agree(bx.predictions(model, THETA, new, **QUIET), table)


FRAME = frame_of("bernoulli")
INDUCING = {"approximation": bx.Inducing(5)}


@pytest.mark.parametrize(
    "frames, options, message",
    [
        ([FRAME.assign(y="no")], {"likelihood": "bernoulli"}, "one class only, 'no'"),
        (
            [FRAME, FRAME.assign(y="maybe")],
            {"likelihood": "bernoulli"},
            r"3 different labels \('maybe', 'no', 'yes'\)",
        ),
        (
            [FRAME, FRAME.assign(y=1)],
            {"likelihood": "bernoulli"},
            "y holds 1 in Frame 1 and 'no' in Frame 0, but class labels must be of one kind",
        ),
        ([FRAME.assign(y=0.5)], {"likelihood": "bernoulli"}, "Frame 0: y holds 0.5, but class lab"),
        (
            [FRAME.assign(y=1), FRAME.assign(y=0.5)],
            {"likelihood": "poisson"},
            "Frame 1: y is fractional at position 0",
        ),
        ([FRAME.assign(y=0)], {"likelihood": "poisson"}, "y is 0 everywhere"),
        (
            [FRAME.assign(y=1)],
            {"likelihood": "poisson", "exposure": TIME},
            "exposure is a Series.* pass the name of a column",
        ),
        (
            [FRAME.assign(y=1)],
            {"likelihood": "poisson", "exposure": "y"},
            "exposure names 'y', as y, Z or another option does",
        ),
        (
            [FRAME.assign(y=1)],
            {"likelihood": "poisson", "exposure": "time"},
            r"Frame 0: The data set lacks the columns \['time'\]",
        ),
        (
            [FRAME.assign(y=1, time=1.0), FRAME.assign(y=1, time=0.0)],
            {"likelihood": "poisson", "exposure": "time"},
            "Frame 1: exposure is 0 at position 0, but must be above 0",
        ),
        ([FRAME], {"likelihood": "bernoulli", "exposure": "time"}, "is used only with"),
    ],
)
def test_refuses(frames, options, message):
    with pytest.raises(ValueError, match=message):
        bx.GP(frames, "y", **INDUCING, **options)


def test_what_needs_rows_at_hand_is_refused(labels):
    model, _ = labels
    with pytest.raises(ValueError, match="leaving one out needs all others"):
        bx.log_likelihood(model, THETA, progressbar=False)
    with pytest.raises(ValueError, match="minibatch is 5, .*out-of-core data. Leave minibatch out"):
        model.fit("svgp", minibatch=5, progressbar=False)
    with pytest.raises(ValueError, match="latent values are not stored. Pass latent='marginal'"):
        model.fit("nuts", latent="sample", progressbar=False)
