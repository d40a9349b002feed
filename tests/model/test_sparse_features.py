"""A sparse Z: the numbers of the dense matrix, and memory for the entries alone."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sps
from numpy.testing import assert_allclose

import bayes_gpx as bx
from known_draws import known

N, D, P = 24, 2, 40
TRAINED = slice(0, 20)
THETA = {"lengthscale": np.array([0.9, 1.4]), "amplitude": 0.8, "sigma_w": 0.3, "sigma": 0.5}
OTHER = {"lengthscale": np.array([1.2, 0.7]), "amplitude": 0.5, "sigma_w": 0.6, "sigma": 0.4}
OPTIONS = {"progressbar": False, "keep": "summary"}
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


@pytest.fixture(scope="module")
def rows():
    """X, a sparse Z with a row of no entries, and y."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, D))
    Z = sps.random_array((N, P), density=0.3, format="lil", rng=rng)
    Z[0, :], Z[1, :] = rng.uniform(0.5, 1.0, P), 0.0  # no column is empty, and one row is
    return X, Z.tocsr(), rng.normal(size=N)


def trained(rows, kind=sps.csr_array, **options):
    """A model of the first rows, with Z converted by `kind`."""
    X, Z, y = rows
    options = {"scale": False, **options}
    return bx.GPX(X[TRAINED], y[TRAINED], kind(Z[TRAINED]), **options)


def dense(Z):
    """The array of a sparse matrix."""
    return Z.toarray()


def covariance(X, Z, theta):
    """Prior covariance of y at the training rows: k(x, x') z'z' + sigma_w^2 z'z + sigma^2."""
    scaled = X / theta["lengthscale"]
    squares = ((scaled[:, None] - scaled[None]) ** 2).sum(axis=-1)
    K = theta["amplitude"] ** 2 * np.exp(-0.5 * squares) * (Z @ Z.T)
    return K + np.diag(theta["sigma_w"] ** 2 * (Z**2).sum(axis=1) + theta["sigma"] ** 2)


def test_the_density_is_that_of_the_products_of_rows(rows):
    X, Z, y = (part[TRAINED] for part in rows)
    C = covariance(X, Z.toarray(), THETA)
    expected = -0.5 * (y @ np.linalg.solve(C, y) + np.linalg.slogdet(2 * np.pi * C)[1])
    found = bx.log_likelihood(trained(rows), THETA, progressbar=False)
    assert_allclose(found["log_marginal_likelihood"], expected, rtol=1e-12)


def test_a_weight_is_the_regression_on_its_column(rows):
    """E w_l(x) = sum_j (k(x, x_j) + sigma_w^2 [x is row j]) z_jl alpha_j, at training rows."""
    X, Z, y = (part[TRAINED] for part in rows)
    z = Z.toarray()
    alpha = np.linalg.solve(covariance(X, z, THETA), y)
    ones = np.ones((len(X), 1))
    base = covariance(X, ones, THETA) - THETA["sigma"] ** 2 * np.eye(len(X))
    expected = np.einsum("ij,jl,j->il", base, z, alpha)
    found = bx.weights(trained(rows), THETA, **OPTIONS)
    assert_allclose(found["weight_mean"], np.where(z != 0, expected, np.nan), **CLOSE)


@pytest.mark.parametrize("likelihood", ["normal", "bernoulli"])
@pytest.mark.parametrize("new", [False, True])
def test_numbers_are_those_of_the_dense_matrix(rows, likelihood, new):
    X, Z, y = rows
    y = y if likelihood == "normal" else (y > 0).astype(int)
    models = [trained((X, Z, y), kind, likelihood=likelihood) for kind in (sps.csr_array, dense)]
    names = list(models[0].hyperparameters)
    thetas = [{name: theta[name] for name in names} for theta in (THETA, OTHER)]
    idata = known(models[0], thetas)
    chosen = slice(20, None) if new else slice(0, 6)
    asked = [(X[chosen], kind(Z[chosen])) if new else () for kind in (sps.csr_matrix, dense)]
    options = OPTIONS | ({} if new else {"obs": np.arange(6)})
    latent = options | {"on": "latent", "covariance": True}
    present = Z[chosen].toarray() != 0
    own = present.any(axis=0)
    for function in (bx.weights, bx.contributions):
        ours, theirs = (
            function(m, idata, *a, **latent) for m, a in zip(models, asked, strict=True)
        )
        name = ours.attrs.get("name") or function.__name__.removesuffix("s")
        assert [*ours["feature"].values] == [f"z{j}" for j in np.flatnonzero(own)]
        for part in (f"{name}_mean", f"{name}_sd", f"{name}_interval", "value"):
            expected = theirs[part].values[:, own]
            expected[~present[:, own]] = np.nan
            assert_allclose(ours[part].values, expected, err_msg=part, **CLOSE)
        cov = theirs[f"{name}_cov"].values[:, own][:, :, own]
        both = present[:, own, None] & present[:, None, own]
        assert_allclose(ours[f"{name}_cov"].values, np.where(both, cov, np.nan), **CLOSE)
    smooth = options | {"on": "latent"}
    functions = (bx.predictions, options), (bx.derivatives, smooth), (bx.comparisons, smooth)
    for function, given in functions:
        ours, theirs = (
            function(m, idata, *a, seed=1, **given) for m, a in zip(models, asked, strict=True)
        )
        for part in theirs.data_vars:
            assert_allclose(ours[part].values, theirs[part].values, err_msg=part, **CLOSE)


@pytest.mark.parametrize(
    "options", [{"groups": np.arange(20) % 4}, {"kernel": "expquad + matern52"}], ids=str
)
def test_weights_of_other_models_are_those_of_the_dense_matrix(rows, options):
    models = [trained(rows, kind, **options) for kind in (sps.csc_array, dense)]
    theta = {
        name: np.full(D if name.endswith("lengthscale") else (), 0.7)
        for name in models[0].hyperparameters
    }
    ours, theirs = (bx.weights(m, theta, obs=[0, 1, 2], **OPTIONS) for m in models)
    present = ours["value"].notnull()
    for part in ("weight_mean", "weight_sd"):
        expected = theirs[part].sel(feature=ours["feature"]).where(present)
        assert_allclose(ours[part], expected, **CLOSE)


@pytest.mark.filterwarnings("ignore:Weights of .+ draws are not smoothed")
def test_leave_one_out_is_that_of_the_dense_matrix(rows):
    models = [trained(rows), trained(rows, dense)]
    idata = known(models[0], [THETA, OTHER])
    ours, theirs = (bx.log_likelihood(m, idata, progressbar=False) for m in models)
    for name in ours.data_vars:
        assert_allclose(ours[name], theirs[name], **CLOSE)
    ours, theirs = (bx.loo_predictions(m, idata, seed=1, progressbar=False) for m in models)
    assert_allclose(ours["y_mean"], theirs["y_mean"], **CLOSE)


def test_the_pymc_model_and_its_mode_are_those_of_the_dense_matrix(rows):
    models = [trained(rows), trained(rows, dense)]
    point = models[0].pymc.initial_point()
    ours, theirs = (m.pymc.compile_logp(mode="FAST_COMPILE")(point) for m in models)
    assert_allclose(ours, theirs, rtol=1e-12)


def test_draws_have_the_moments_of_the_rows_features(rows):
    model = trained(rows)
    found = bx.contributions(model, THETA, obs=[0, 1, 2], draws=4000, seed=1, progressbar=False)
    draws = found["contribution"]
    assert draws.dims == ("chain", "draw", "obs", "feature")
    assert draws.sel(obs=1).isnull().all()  # a row of no entries
    error = (draws.mean(("chain", "draw")) - found["contribution_mean"]) / found["contribution_sd"]
    assert float(np.abs(error).max()) < 5 / np.sqrt(4000)  # five standard errors


def test_contributions_sum_to_the_prediction(rows):
    model = trained(rows, scale=True, intercept=True)
    theta = {name: np.asarray(value) for name, value in THETA.items()}
    found = bx.contributions(model, theta, **OPTIONS)
    f = bx.predictions(model, theta, **OPTIONS)["f_mean"]
    total = found["contribution_mean"].sum("feature") + found["offset"]
    assert_allclose(total, f, **CLOSE)
    assert (found["center"] == 0.0).all()
    assert found["contribution_mean"].sel(feature="intercept").notnull().all()


def test_scaling_divides_by_the_root_mean_square(rows):
    X, Z, y = rows
    part = Z[TRAINED].toarray()
    sizes = np.sqrt((part**2).mean(axis=0))
    xs = (X - X[TRAINED].mean(axis=0)) / X[TRAINED].std(axis=0)
    ys = (y - y[TRAINED].mean()) / y[TRAINED].std()
    model = trained(rows, scale=True)
    by_hand = bx.GPX(xs[TRAINED], ys[TRAINED], part / sizes, scale=False)
    ours = bx.weights(model, THETA, X[20:], Z[20:], **OPTIONS)
    theirs = bx.weights(by_hand, THETA, xs[20:], Z[20:].toarray() / sizes, **OPTIONS)
    theirs = theirs.sel(feature=ours["feature"])
    expected = theirs["weight_mean"] * y[TRAINED].std()
    expected = expected / sizes_of(sizes, theirs["feature"])
    assert_allclose(ours["weight_mean"], expected.where(ours["value"].notnull()), **CLOSE)


def sizes_of(sizes, features):
    """Sizes of the columns of these names."""
    return sizes[[int(name[1:]) for name in features.values]]


def test_a_frame_gives_names_and_new_columns_may_come_in_any_order(rows):
    X, Z, y = rows
    words = [f"word{j}" for j in range(P)]
    frame = pd.DataFrame.sparse.from_spmatrix(sps.csr_matrix(Z), columns=words)
    model = bx.GPX(X[TRAINED], y[TRAINED], frame[TRAINED], scale=False)
    shuffled = frame[20:][words[::-1]]
    ours = bx.weights(model, THETA, X[20:], shuffled, **OPTIONS)
    plain = bx.weights(trained(rows), THETA, X[20:], Z[20:], **OPTIONS)
    assert_allclose(ours["weight_mean"], plain["weight_mean"], **CLOSE)
    assert ours["feature"].values[0] in words
    with pytest.raises(ValueError, match=r"lacks the columns \['word3'\]"):
        bx.weights(model, THETA, X[20:], shuffled.drop(columns="word3"), **OPTIONS)


def test_chosen_features_are_those_that_come_back(rows):
    model, Z = trained(rows), rows[1][TRAINED].toarray()
    found = bx.weights(model, THETA, features=["z7", "z2"], **OPTIONS)
    every = bx.weights(model, THETA, **OPTIONS)
    assert found["feature"].values.tolist() == ["z7", "z2"]
    expected = every["weight_mean"].sel(feature=["z7", "z2"])
    assert_allclose(found["weight_mean"], expected, **CLOSE)
    assert (found["weight_mean"].notnull().values == (Z[:, [7, 2]] != 0)).all()


def test_a_fit_survives_a_file_and_is_no_fit_of_another_z(rows, tmp_path):
    X, Z, y = rows
    model = trained(rows, intercept=True, scale=True)
    idata = model.fit("map", progressbar=False)
    bx.save(model, idata, tmp_path / "fit.nc")
    again, read = bx.load(tmp_path / "fit.nc")
    assert sps.issparse(again.training.Z.values)
    both = (model, idata), (again, read)
    first, second = (bx.contributions(*fit, X[20:], Z[20:], **OPTIONS) for fit in both)
    assert_allclose(first["contribution_mean"], second["contribution_mean"], rtol=1e-14)
    other = trained((X, 2.0 * Z, y), intercept=True, scale=True)
    with pytest.raises(ValueError, match="Z"):
        bx.predictions(other, idata, **OPTIONS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight_prior": "per_feature"}, "weight_prior"),
        ({"approximation": bx.Inducing(5)}, "approximation"),
        ({"representation": "hierarchy"}, "representation"),
        ({"constraints": [bx.constraints.Weight("z0", low=0.0, high=np.inf)]}, "constraints"),
    ],
)
def test_models_that_need_a_dense_matrix_are_refused(rows, options, message):
    with pytest.raises(ValueError, match=rf"Z is sparse, .*{message}"):
        trained(rows, **options)


def test_questions_that_need_a_dense_matrix_are_refused(rows):
    X, Z, _ = rows
    model = trained(rows)
    for function, options, message in (
        (bx.weights, {"units": "original"}, "units"),
        (bx.weights, {"by": True}, "by"),
        (bx.contributions, {"joint": True}, "joint"),
        (bx.weights, {"features": ["z99"]}, "z99"),
    ):
        with pytest.raises(ValueError, match=message):
            function(model, THETA, **OPTIONS, **options)
    with pytest.raises(ValueError, match="Z_new"):
        bx.weights(model, THETA, X[20:], **OPTIONS)
    with pytest.raises(ValueError, match="39 columns, but must have 40"):
        bx.predictions(model, THETA, X[20:], Z[20:, :39], **OPTIONS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda Z: Z * np.nan, "missing or infinite"),
        (lambda Z: sps.hstack([Z, sps.csr_array((20, 1))]), r"without entries, such as 'z40'"),
        (lambda Z: Z[:19], "rows"),
        (lambda Z: Z.astype(complex), "complex"),
    ],
)
def test_a_wrong_z_is_refused(rows, change, message):
    X, Z, y = rows
    with pytest.raises(ValueError, match=message):
        bx.GPX(X[TRAINED], y[TRAINED], change(Z[TRAINED]))


def test_x_is_not_sparse(rows):
    X, Z, y = rows
    with pytest.raises(ValueError, match="X is sparse"):
        bx.GPX(Z, y)


def peak(p):
    """Largest memory, in bytes, of a model with p columns and of contributions of two rows."""
    n, each = 200, 5
    rng = np.random.default_rng(0)
    columns = rng.integers(0, p, size=(n, each)).ravel()
    entries = np.ones(n * each), (np.repeat(np.arange(n), each), columns)
    Z, X = sps.coo_array(entries, shape=(n, p)).tocsr(), rng.normal(size=(n, D))
    tracemalloc.start()
    try:
        model = bx.GPX(X, X[:, 0], Z, scale=False)
        found = bx.contributions(model, THETA, obs=[0, 1], draws=10, progressbar=False)
        bx.predictions(model, THETA, X[:2], Z[:2], **OPTIONS)
        return tracemalloc.get_traced_memory()[1], found.sizes["feature"]
    finally:
        tracemalloc.stop()


@pytest.mark.filterwarnings("ignore:Z has columns that hold the same")
def test_memory_is_not_rows_times_columns():
    """Forty thousand columns need their names and sizes, some hundred bytes each, not rows."""
    peak(1_000)  # which compiles
    (few, _), (many, features) = peak(1_000), peak(41_000)
    assert features <= 10
    # Two hundred dense rows would take 1600 bytes for each column.
    assert many - few < 200 * 40_000
