"""A covariance between labelled objects as the kernel: words, by the substrings that they share."""

import numpy as np
import pandas as pd
import pytest

import bayes_gpx as bx

TRAINED = 14
"""Of the words, the first ones have a response."""

HYPER = {"amplitude": 0.7, "sigma": 0.4}


@pytest.fixture(scope="module")
def words():
    """Twenty different words of three letters."""
    rng = np.random.default_rng(sum(map(ord, "words")))
    made = dict.fromkeys("".join(w) for w in rng.choice(list("abc"), size=(60, 5)))
    return list(made)[:20]


@pytest.fixture(scope="module")
def K(words):  # noqa: N802
    """The 2-spectrum kernel: how often each pair of letters is in both words."""
    table = np.array(
        [[sum(a == b for a in _pairs(v) for b in _pairs(w)) for v in words] for w in words]
    )
    return pd.DataFrame(table, words, words)


def _pairs(word):
    return [word[i : i + 2] for i in range(len(word) - 1)]


@pytest.fixture(scope="module")
def y(words):
    """A response of the words that are trained on, one of them twice."""
    rng = np.random.default_rng(sum(map(ord, "y")))
    return rng.normal(size=TRAINED + 1) + [w.count("ab") for w in _rows(words)]


def _rows(words):
    return [*words[:TRAINED], words[0]]


@pytest.fixture(scope="module")
def gp(words, K, y):
    """The words of the training rows are a series with an index of its own."""
    series = pd.Series(_rows(words), index=[f"row{i}" for i in range(len(y))], name="word")
    return bx.GP(series, y, kernel=bx.Precomputed(K))


def dense(K, words, y, theta):
    """C, the inverse covariance of the training rows, from K alone; and y standardised."""
    own = theta["amplitude"] ** 2 * K.loc[_rows(words), _rows(words)].to_numpy()
    return np.linalg.inv(own + theta["sigma"] ** 2 * np.eye(len(y))), (y - y.mean()) / y.std()


@pytest.mark.parametrize("form", ["list", "frame", "series", "array"])
def test_predictions_are_those_of_the_dense_posterior(gp, words, K, y, form):
    new = words[TRAINED - 2 :][::-1]
    forms = {
        "list": new,
        "frame": pd.DataFrame({"other": 1.0, "word": new}),
        "series": pd.Series(new),
        "array": np.array(new)[:, None],
    }
    found = bx.predictions(gp, HYPER, forms[form], keep="summary", progressbar=False)
    C, standardised = dense(K, words, y, HYPER)
    cross = HYPER["amplitude"] ** 2 * K.loc[new, _rows(words)].to_numpy()
    variance = HYPER["amplitude"] ** 2 * np.diag(K.loc[new, new]) - np.einsum(
        "mi,ij,mj->m", cross, C, cross
    )
    mean = y.mean() + y.std() * cross @ C @ standardised
    np.testing.assert_allclose(found["f_mean"], mean, rtol=1e-10)
    np.testing.assert_allclose(found["f_sd"], y.std() * np.sqrt(variance), rtol=1e-8)


def test_leave_one_out_is_that_of_k(gp, words, K, y):
    _, standardised = dense(K, words, y, HYPER)
    loo = bx.loo_predictions(gp, HYPER, progressbar=False)
    means = []
    for i in range(len(y)):
        rest = np.delete(np.arange(len(y)), i)
        own = HYPER["amplitude"] ** 2 * K.loc[_rows(words), _rows(words)].to_numpy()
        noisy = own[np.ix_(rest, rest)] + HYPER["sigma"] ** 2 * np.eye(len(rest))
        means.append(own[i, rest] @ np.linalg.solve(noisy, standardised[rest]))
    np.testing.assert_allclose(loo["y_mean"], y.mean() + y.std() * np.array(means), rtol=1e-9)


def test_weights_and_contributions_of_z_are_those_of_the_dense_posterior(words, K, y, tmp_path):
    rng = np.random.default_rng(sum(map(ord, "weights")))
    Z, Z_new = rng.normal(size=(len(y), 2)), rng.normal(size=(6, 2))
    model = bx.GPX(_rows(words), y, Z, kernel=bx.Precomputed(K), scale=False, priors=HYPER)
    idata = model.fit("map", progressbar=False)
    bx.save(model, idata, tmp_path / "words.nc")
    model, idata = bx.load(tmp_path / "words.nc")
    own = idata["posterior"]["sigma_w"].item() ** 2
    a2, noise = HYPER["amplitude"] ** 2, HYPER["sigma"] ** 2
    prior = a2 * K.loc[_rows(words), _rows(words)].to_numpy() + own * np.eye(len(y))
    C = np.linalg.inv(prior * (Z @ Z.T) + noise * np.eye(len(y)))
    new = words[TRAINED:]
    cross = a2 * K.loc[new, _rows(words)].to_numpy()[:, None] * Z.T
    mean, k_new = cross @ C @ y, a2 * np.diag(K.loc[new, new]) + own
    sd = np.sqrt(k_new[:, None] - np.einsum("mli,ij,mlj->ml", cross, C, cross))
    options = {"keep": "summary", "progressbar": False}
    weights = bx.weights(model, idata, new, Z_new, **options)
    np.testing.assert_allclose(weights["weight_mean"], mean, rtol=1e-9)
    np.testing.assert_allclose(weights["weight_sd"], sd, rtol=1e-9)
    parts = bx.contributions(model, idata, new, Z_new, **options)
    np.testing.assert_allclose(parts["contribution_mean"], Z_new * mean, rtol=1e-9)
    np.testing.assert_allclose(parts["contribution_sd"], abs(Z_new) * sd, rtol=1e-9)


def test_inducing_points_at_all_words_are_exact(gp, words, K, y):
    kernel = bx.Precomputed(K + np.eye(len(K)))
    options = {"keep": "summary", "progressbar": False}
    both = [
        bx.predictions(
            bx.GP(_rows(words), y, kernel=kernel, approximation=approximation),
            HYPER,
            words[TRAINED:],
            **options,
        )
        for approximation in (None, bx.Inducing(TRAINED))
    ]
    np.testing.assert_allclose(both[1]["f_mean"], both[0]["f_mean"], rtol=1e-6)
    np.testing.assert_allclose(both[1]["f_sd"], both[0]["f_sd"], rtol=1e-6)


def test_random_functions_have_the_covariance_of_the_dense_posterior(gp, words, K, y):
    """Values of all words, for 4000 functions."""
    options = {"draws": 4000, "seed": 1, "progressbar": False}
    functions = bx.sample_functions(gp, HYPER, **options)
    assert not functions.joint
    drawn = functions.predictions(words)["f"].values[0] / y.std()
    C, standardised = dense(K, words, y, HYPER)
    cross = HYPER["amplitude"] ** 2 * K.loc[words, _rows(words)].to_numpy()
    mean = cross @ C @ standardised + y.mean() / y.std()
    covariance = HYPER["amplitude"] ** 2 * K.to_numpy() - cross @ C @ cross.T
    sd = np.sqrt(np.diag(covariance))
    np.testing.assert_array_less(abs(drawn.mean(axis=0) - mean), 5 * sd / np.sqrt(4000))
    error = np.sqrt((covariance**2 + np.outer(sd, sd) ** 2) / 4000)
    np.testing.assert_array_less(abs(np.cov(drawn.T) - covariance), 5 * error)
    again = functions.predictions(words[:3])["f"].values[0] / y.std()
    np.testing.assert_allclose(again, drawn[:, :3], rtol=1e-10)


def test_labels_of_objects_are_compared_on_the_scale_of_the_response(words, K, y):
    """Probabilities of a Laplace posterior, with the dense mode by Newton's method."""
    rows, labels = _rows(words), (y > np.median(y)).astype(float)
    model = bx.GP(rows, labels > 0, likelihood="bernoulli", kernel=bx.Precomputed(K))
    own = 0.49 * K.loc[rows, rows].to_numpy()
    f = np.zeros(len(rows))
    for _ in range(50):
        p = 1 / (1 + np.exp(-f))
        W = p * (1 - p)
        inverse = np.linalg.inv(np.eye(len(f)) + own * W)
        f = inverse @ own @ (W * f + labels - p)
    p = 1 / (1 + np.exp(-f))
    W = np.diag(p * (1 - p))
    pair = [words[3], words[-1]]
    cross = 0.49 * K.loc[pair, rows].to_numpy()
    mean = cross @ (labels - p)
    taken = W @ np.linalg.inv(np.eye(len(f)) + own @ W)
    covariance = 0.49 * K.loc[pair, pair].to_numpy() - cross @ taken @ cross.T
    options = {"draws": 3000, "seed": 2, "progressbar": False}
    name = model.training.X.sources[0]
    theta = {"amplitude": 0.7}
    found = bx.comparisons(model, theta, [words[0]], variables={name: tuple(pair)}, **options)
    values = np.random.default_rng(0).multivariate_normal(mean, covariance, 400_000)
    first, second = (1 / (1 + np.exp(-values))).T
    drawn = found["comparison"].values.ravel()
    apart = second - first
    assert abs(drawn.mean() - apart.mean()) < 5 * apart.std() / np.sqrt(3000)
    np.testing.assert_allclose(drawn.std(), apart.std(), rtol=0.06)
    curve = bx.partial_dependence(model, theta, features=[name], **options)
    assert np.isfinite(curve["partial_dependence_mean"]).all()
    found = bx.importances(model, theta, draws=50, seed=1, progressbar=False)
    assert (found["mean_absolute_derivative"] > 0).all()


def test_the_amplitudes_prior_knows_the_size_of_k(gp, K):
    deviation = np.sqrt(np.mean(np.diag(K)))
    sigma = gp.variables["amplitude"].owner.inputs[-1].eval()
    np.testing.assert_allclose(sigma, 2.0 / deviation)


def test_a_label_that_k_does_not_know_is_named(gp, words, y, K):
    with pytest.raises(ValueError, match="'abx'.*label of bx.Precomputed"):
        bx.predictions(gp, HYPER, ["abx"])
    with pytest.raises(ValueError, match="'abx'"):
        bx.GP(["abx", *_rows(words)[1:]], y, kernel=bx.Precomputed(K))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda K: K.to_numpy(), "is a ndarray. Pass a pandas DataFrame"),
        (lambda K: K.iloc[:, ::-1], "index and the columns of K differ"),
        (lambda K: K.iloc[:, :-1], "index and the columns of K differ"),
        (lambda K: K.iloc[[0, 0, 1], [0, 0, 1]], "repeated labels"),
        (lambda K: K.iloc[:0, :0], "repeated labels"),
        (lambda K: K.astype(str) + "x", "does not hold numbers"),
        (lambda K: K.where(np.eye(len(K)) == 0), "nan at"),
        (lambda K: K + np.triu(np.ones(K.shape), 1), "not symmetric"),
        (lambda K: K - 2.0 * np.eye(len(K)), "eigenvalues from -"),
        (lambda K: 0.0 * K, "eigenvalues from 0"),
    ],
)
def test_what_is_no_covariance_is_refused(K, change, message):
    with pytest.raises(ValueError, match=message):
        bx.Precomputed(change(K))


def test_what_labels_cannot_have_is_refused(gp, words, K, y):
    kernel, rows = bx.Precomputed(K), _rows(words)
    with pytest.raises(ValueError, match="no slope from one level"):
        bx.derivatives(gp, HYPER)
    with pytest.raises(ValueError, match="known at its labels and not between"):
        bx.attributions(gp, HYPER)
    with pytest.raises(ValueError, match="the features to weigh as Z"):
        bx.GPX(rows, y, kernel=kernel)
    for approximation in (bx.HSGP(5, 1.5), bx.RandomFeatures(10, 1)):
        with pytest.raises(ValueError, match="Pass None or bx.Inducing"):
            bx.GP(rows, y, kernel=kernel, approximation=approximation)
    with pytest.raises(ValueError, match="Pass one column with the kernel's labels"):
        bx.GP(np.c_[rows, rows], y, kernel=kernel)
    with pytest.raises(ValueError, match="kernel is a DataFrame. .*bx.Precomputed"):
        bx.GP(rows, y, kernel=K)
