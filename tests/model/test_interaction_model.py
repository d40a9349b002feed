"""The model of chosen interactions: its covariance by hand, and what it leaves out."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx
import oracle
from known_draws import known

QUIET = {"progressbar": False}
SHAPES = {"expquad": oracle.expquad, "matern52": oracle.matern52, "matern32": oracle.matern32}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(7)
    X = pd.DataFrame(rng.normal(2.0, 3.0, (30, 3)), columns=list("abc"))
    f = np.sin(X["a"]) + 0.1 * X["a"] * X["b"] + 0.3 * X["c"]
    return X, pd.Series(f + 0.1 * rng.normal(size=30), name="y")


@pytest.mark.parametrize("kernel", SHAPES)
def test_predictions_are_those_of_the_sum_of_kernels(kernel, data):
    X, y = data
    model = bx.interaction_model(bx.GP(X, y, kernel=kernel, scale=False), [("c", "a")])
    theta = {
        "lengthscale": [2.0, 3.0, 4.0],
        "amplitude": [0.5, 0.7, 0.9],
        "pair_lengthscale": [[2.5, 5.0]],
        "pair_amplitude": [1.1],
        "sigma": 0.3,
    }
    new = X.iloc[:4] + 0.5

    def k(A, B):
        found = np.zeros((len(A), len(B)))
        for p, a in enumerate(A):
            for q, b in enumerate(B):
                for j in range(3):
                    one = SHAPES[kernel].pair(a[[j]], b[[j]], [theta["lengthscale"][j]])
                    found[p, q] += theta["amplitude"][j] ** 2 * one
                both = SHAPES[kernel].pair(a[[0, 2]], b[[0, 2]], theta["pair_lengthscale"][0])
                found[p, q] += 1.1**2 * both
        return found

    C = k(X.values, X.values) + 0.09 * np.eye(30)
    expected = k(new.values, X.values) @ np.linalg.solve(C, y)
    found = bx.predictions(model, theta, new, keep="summary", **QUIET)
    assert_allclose(found["f_mean"], expected, rtol=1e-8)


def test_a_categorical_column_is_one_feature(data):
    """Predictions equal those of the sum of kernels of scaled distances, by hand."""
    numbers, y = data
    rng = np.random.default_rng(3)
    X = numbers[["a"]].assign(kind=pd.Categorical(rng.choice(["oak", "elm", "fir"], 30)))
    X["c"] = numbers["c"]
    model = bx.interaction_model(bx.GP(X, y, kernel="matern52"), [("c", "kind"), ("a", "c")])
    assert list(model.pymc.coords["feature"]) == ["a", "kind", "c"]
    assert list(model.pymc.coords["pair"]) == ["kind : c", "a : c"]
    theta = {
        "lengthscale": [0.7, 1.2, 1.6],
        "amplitude": [0.5, 0.7, 0.9],
        "pair_lengthscale": [[0.9, 2.0], [1.5, 0.8]],
        "pair_amplitude": [1.1, 0.6],
        "sigma": 0.3,
    }
    new = X.iloc[:5].assign(kind=X["kind"].iloc[5:10].to_numpy())
    shares = X["kind"].value_counts(normalize=True)
    apart = {"kind": 2 / (1 - (shares**2).sum())}  # squared distance of two levels

    def squares(A, B, name):
        if name in apart:
            return apart[name] * (A[name].to_numpy()[:, None] != B[name].to_numpy()[None])
        return (A[name].to_numpy()[:, None] - B[name].to_numpy()[None]) ** 2 / X[name].var(ddof=0)

    effects = [(0.5, {"a": 0.7}), (0.7, {"kind": 1.2}), (0.9, {"c": 1.6})]
    effects += [(1.1, {"kind": 0.9, "c": 2.0}), (0.6, {"a": 1.5, "c": 0.8})]
    shape = lambda r: oracle.matern52.pair(np.array([r]), np.zeros(1), [1.0])  # noqa: E731

    def k(A, B):
        found = np.zeros((len(A), len(B)))
        for amplitude, lengths in effects:
            r = np.sqrt(sum(squares(A, B, name) / ls**2 for name, ls in lengths.items()))
            found += amplitude**2 * np.vectorize(shape)(r)
        return found

    C = k(X, X) + 0.09 * np.eye(30)
    expected = y.mean() + k(new, X) @ np.linalg.solve(C, y - y.mean())
    found = bx.predictions(model, theta, new, keep="summary", **QUIET)
    assert_allclose(found["f_mean"], expected, rtol=1e-8)


def test_only_the_given_pair_interacts_once_fitted(data):
    X, y = data
    model = bx.interaction_model(bx.GP(X, y, priors={"sigma": 0.05}), [("a", "b")])
    assert model.fixed["sigma"] == 0.05
    idata = model.fit("map", seed=0, **QUIET)
    assert list(idata["posterior"].coords["pair"].values) == ["a : b"]
    assert idata["posterior/lengthscale"].dims == ("chain", "draw", "feature")
    bends = bx.derivatives(model, idata, order=2, keep="summary", **QUIET)
    bends = abs(bends["second_derivative_mean"]).mean("obs")
    assert bends.sel(feature="a", feature_bis="b") > 0.05
    for pair in (("a", "c"), ("b", "c")):
        assert_allclose(bends.sel(feature=pair[0], feature_bis=pair[1]), 0.0, atol=1e-12)


def test_a_fit_comes_back_with_the_kernel(data, tmp_path):
    X, y = data
    model = bx.interaction_model(bx.GP(X, y, kernel="matern52"), [("a", "c")])
    theta = {"lengthscale": [2.0, 3.0, 4.0], "amplitude": [0.5, 0.7, 0.9], "sigma": 0.3}
    theta |= {"pair_lengthscale": [[2.0, 3.0]], "pair_amplitude": [0.4]}
    idata = known(model, [theta])
    bx.save(model, idata, tmp_path / "fit.nc")
    with pytest.raises(ValueError, match="holds its kernel"):
        bx.load(tmp_path / "fit.nc", kernel=model.specification.kernel)
    again, draws = bx.load(tmp_path / "fit.nc")
    expected, found = (
        bx.predictions(m, i, X, keep="summary", **QUIET)
        for m, i in ((model, idata), (again, draws))
    )
    assert_allclose(found["f_mean"], expected["f_mean"])


def test_fits_of_other_pairs_are_refused(data, tmp_path):
    X, y = data
    whole = bx.GP(X, y)
    models = [bx.interaction_model(whole, [("a", own)]) for own in "bc"]
    models.append(bx.interaction_model(bx.GP(X, y, kernel="matern32"), [("a", "b")]))
    theta = {"lengthscale": [2.0, 3.0, 4.0], "amplitude": [0.5, 0.7, 0.9], "sigma": 0.3}
    idata = known(models[0], [theta | {"pair_lengthscale": [[1.0, 1.0]], "pair_amplitude": [1.0]}])
    idata.attrs[models[0].signature_key] = models[0].signature
    bx.predictions(models[0], idata, X, **QUIET)
    for other in models[1:]:
        with pytest.raises(ValueError, match=r"its kernel is 'interaction_model\(expquad"):
            bx.predictions(other, idata, X, **QUIET)


def test_other_likelihoods_and_no_pairs(data):
    X, _ = data
    rng = np.random.default_rng(1)
    counts = rng.poisson(2.0 * np.exp(0.2 * X["a"]))
    model = bx.GP(X, counts, likelihood="poisson", exposure=np.full(30, 2.0))
    alone = bx.interaction_model(model, [])
    assert set(alone.hyperparameters) == {"lengthscale", "amplitude"}
    assert (alone.training.exposure == 2.0).all()
    found = bx.predictions(alone, alone.fit("map", seed=0, **QUIET), draws=10, seed=0, **QUIET)
    assert float(abs(found["rate_mean"] - 2.0 * np.exp(0.2 * X["a"].values)).mean()) < 1.0


def test_refusals(data):
    X, y = data
    model = bx.GP(X, y)
    for pairs, message in (
        ([("a", "a")], "is no pair. Pass two different names"),
        ([("a", "what")], "pairs: unknown 'what'"),
        ([("a", "b"), ("b", "a")], "list of different pairs"),
    ):
        with pytest.raises(ValueError, match=message):
            bx.interaction_model(model, pairs)
    for other in (
        bx.GPX(X, y),
        bx.GP(X, y, kernel="linear"),
        bx.GP(X, y, approximation=bx.Inducing(5)),
    ):
        with pytest.raises(ValueError, match="Pass a bx.GP without an approximation"):
            bx.interaction_model(other, [])
