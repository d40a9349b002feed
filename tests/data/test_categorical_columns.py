"""Categorical columns: an exchangeable kernel over levels, whatever they are called."""

import arviz as az
import numpy as np
import pandas as pd
import polars as pl
import pymc as pm
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from scipy.optimize import brentq
from scipy.stats import multivariate_normal, norm

import bayes_gpx as bx
from bayes_gpx import cli
from bayes_gpx.numerics.compile_modes import MODE
from known_draws import known, scattered

COLOURS = ["red", "green", "blue"]
THETA = {"lengthscale": [0.8, 1.3], "amplitude": 1.1, "sigma": 0.3}
OPTIONS = {"seed": 1, "progressbar": False}
PROFILES = {
    "expquad": lambda s: np.exp(-0.5 * s**2),
    "matern32": lambda s: (1 + np.sqrt(3) * s) * np.exp(-np.sqrt(3) * s),
    "ratquad": lambda s: (1 + 0.5 * s**2 / 1.7) ** -1.7,
}


def with_colours(rows, seed):
    rng = np.random.default_rng(seed)
    colour = rng.permutation(np.resize(COLOURS, rows))
    frame = pd.DataFrame({"age": rng.normal(40, 9, rows), "colour": colour})
    return frame.astype({"colour": pd.CategoricalDtype(COLOURS)})


@pytest.fixture(scope="module")
def data():
    X = with_colours(25, 3)
    effect = X["colour"].map({"red": 2.0, "green": -1.0, "blue": 0.5}).astype(float)
    y = effect + np.sin(X["age"] / 9) + np.random.default_rng(4).normal(0, 0.2, 25)
    return X, y.rename("price"), with_colours(7, 5)


def distances(X, X_new, theta=THETA):
    """Scaled distances of a standardised number and of levels, sqrt(2) over their spread apart."""
    center, scale = X["age"].mean(), X["age"].std(ddof=0)
    age, age_new = ((frame["age"].to_numpy() - center) / scale for frame in (X, X_new))
    shares = X["colour"].astype(str).value_counts(normalize=True).to_numpy()
    spread = 1 - (shares**2).sum()
    differs = X["colour"].to_numpy()[:, None] != X_new["colour"].to_numpy()[None]
    one, other = theta["lengthscale"]
    squares = ((age[:, None] - age_new[None]) / one) ** 2 + 2 * differs / (spread * other**2)
    return np.sqrt(squares)


@pytest.mark.parametrize("kernel", PROFILES)
def test_predictions_are_those_of_a_dense_exchangeable_kernel(data, kernel):
    X, y, new = data
    theta = THETA | ({"alpha": 1.7} if kernel == "ratquad" else {})
    model = bx.GP(X, y, kernel=kernel)
    found = bx.predictions(model, theta, new, keep="summary")
    k = lambda a, b: 1.1**2 * PROFILES[kernel](distances(X, b)) if a is X else None  # noqa: E731
    inner, across = k(X, X) + 0.3**2 * np.eye(25), k(X, new)
    response = (y - y.mean()) / y.std(ddof=0)
    mean = y.mean() + y.std(ddof=0) * across.T @ np.linalg.solve(inner, response)
    variance = 1.1**2 - (across * np.linalg.solve(inner, across)).sum(axis=0)
    assert_allclose(found["f_mean"], mean, rtol=1e-7)
    assert_allclose(found["f_sd"], y.std(ddof=0) * np.sqrt(variance), rtol=1e-6)


def test_the_density_is_that_of_one_lengthscale_for_each_column(data):
    X, y, _ = data
    model = bx.GP(X, y)
    assert list(model.pymc.coords["feature"]) == ["age", "colour"]
    point = {"lengthscale": [0.8, 1.3], "amplitude": 1.1, "sigma": 0.3}
    given = {f"{name}_log__": np.log(value) for name, value in point.items()}
    density = model.pymc.compile_logp(vars=model.pymc.observed_RVs, mode=MODE)(given)
    K = 1.1**2 * PROFILES["expquad"](distances(X, X)) + 0.3**2 * np.eye(25)
    expected = multivariate_normal(y.mean() + np.zeros(25), y.var(ddof=0) * K).logpdf(y)
    assert_allclose(density, expected, rtol=1e-8)


def told_in_other_words(frame):
    return frame.assign(colour=frame["colour"].cat.rename_categories(["zinc", "ash", "moss"]))


def in_another_order(frame):
    return frame.assign(colour=frame["colour"].cat.reorder_categories(["blue", "red", "green"]))


def with_a_level_that_no_row_has(frame):
    return frame.assign(colour=frame["colour"].cat.add_categories(["violet"]))


@pytest.mark.parametrize(
    "changed",
    [
        told_in_other_words,
        in_another_order,
        pytest.param(with_a_level_that_no_row_has, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("family", [pytest.param("GP", marks=pytest.mark.slow), "GPX"])
def test_neither_names_nor_order_of_levels_matter(data, family, changed):
    X, y, new = data
    build, theta = getattr(bx, family), THETA | ({"sigma_w": 0.2} if family == "GPX" else {})
    first, second = (build(frame, y) for frame in (X, changed(X)))
    one = bx.attributions(first, theta, new, baseline=new.iloc[0], **OPTIONS)
    two = bx.attributions(second, theta, changed(new), baseline=changed(new).iloc[0], **OPTIONS)
    assert one["feature"].values.tolist() == ["age", "colour"]
    for name in ("attribution_mean", "attribution_sd", "difference_mean"):
        assert_allclose(two[name], one[name], rtol=1e-6, atol=1e-9)
    start = {"start": THETA, "progressbar": False}
    if family == "GP":
        fits = [model.fit("map", **start)["posterior"] for model in (first, second)]
        for name in ("lengthscale", "sigma"):
            assert_allclose(*(fit[name] for fit in fits), rtol=1e-4)


def test_a_model_equals_the_one_encoded_by_hand(data):
    X, y, new = data
    model = bx.GP(X, y)
    scale, center = X["age"].std(ddof=0), X["age"].mean()
    dummies = [pd.get_dummies(frame["colour"]).to_numpy(float) for frame in (X, new)]
    spread = np.sqrt((dummies[0].std(axis=0) ** 2).sum())
    by_hand = [
        np.column_stack([(frame["age"] - center) / scale, dummy / spread])
        for frame, dummy in zip((X, new), dummies, strict=True)
    ]
    encoded = bx.GP(by_hand[0], (y - y.mean()) / y.std(ddof=0), scale=False)
    each = THETA | {"lengthscale": [0.8, 1.3, 1.3, 1.3]}
    found = bx.predictions(model, THETA, new, keep="summary")
    expected = bx.predictions(encoded, each, by_hand[1], keep="summary")
    assert_allclose(found["f_mean"], y.mean() + y.std(ddof=0) * expected["f_mean"], rtol=1e-8)
    whole = bx.attributions(model, THETA, new, covariance=True, **OPTIONS)
    center = by_hand[0].mean(axis=0)
    parts = bx.attributions(encoded, each, by_hand[1], baseline=center, covariance=True, **OPTIONS)
    share = parts["attribution_mean"].values[:, 1:].sum(axis=1) * y.std(ddof=0)
    assert_allclose(whole["attribution_mean"].sel(feature="colour"), share, rtol=1e-7)
    variance = parts["attribution_cov"].values[:, 1:, 1:].sum(axis=(1, 2)) * y.var(ddof=0)
    assert_allclose(whole["attribution_sd"].sel(feature="colour") ** 2, variance, rtol=1e-7)
    across = parts["attribution_cov"].values[:, 0, 1:].sum(axis=1) * y.var(ddof=0)
    cov = whole["attribution_cov"].sel(feature="age", feature_bis="colour")
    assert_allclose(cov, across, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("family", ["GP", "GPX"])
def test_intervals_of_columns_are_quantiles_of_the_mixture_over_draws(data, family):
    """Those of the sums over indicators, by root finding, draw by draw in an encoded model."""
    X, y, new = data
    theta = {"lengthscale": [0.8, 1.3], "amplitude": 1.1, "sigma": 0.3, "sigma_w": 0.2}
    model = getattr(bx, family)(X, y)
    theta = {name: theta[name] for name in model.hyperparameters}
    thetas = scattered(theta, 12)
    verb, name = (
        (bx.attributions, "attribution") if family == "GP" else (bx.contributions, "contribution")
    )
    found = verb(model, known(model, thetas), new, keep="summary", progressbar=False)
    dummies = [pd.get_dummies(frame, columns=["colour"], dtype=float) for frame in (X, new)]
    scale = dummies[0].std(ddof=0)
    scale.iloc[1:] = np.sqrt((scale.iloc[1:] ** 2).sum())
    encoded = [((frame - dummies[0].mean()) / scale).to_numpy() for frame in dummies]
    by_hand = getattr(bx, family)(encoded[0], (y - y.mean()) / y.std(ddof=0), scale=False)
    means, sds = [], []
    for t in thetas:
        each = t | {"lengthscale": t["lengthscale"][[0, 1, 1, 1]]}
        one = verb(by_hand, each, encoded[1], covariance=True, keep="summary", progressbar=False)
        means.append(one[f"{name}_mean"].values[:, 1:].sum(axis=1))
        sds.append(np.sqrt(one[f"{name}_cov"].values[:, 1:, 1:].sum(axis=(1, 2))))
    means, sds = y.std(ddof=0) * np.array(means), y.std(ddof=0) * np.array(sds)
    prob = found.attrs["ci_prob"]
    for bound, share in (("lower", 0.5 - prob / 2), ("upper", 0.5 + prob / 2)):
        ends = found[f"{name}_interval"].sel(feature="colour", ci_bound=bound).values
        expected = [quantile(m, s, share) for m, s in zip(means.T, sds.T, strict=True)]
        assert_allclose(ends, expected, rtol=1e-6)


def quantile(means, sds, share):
    """Of equally weighed normals, by root finding."""
    ends = means.min() - 10 * sds.max(), means.max() + 10 * sds.max()
    return brentq(lambda x: norm.cdf(x, means, sds).mean() - share, *ends, xtol=1e-12)


def test_weights_are_of_levels_and_contributions_of_columns(data):
    X, y, new = data
    Z = X[["colour"]]
    model = bx.GPX(X[["age"]], y, Z, intercept=True)
    theta = THETA | {"lengthscale": [0.8], "sigma_w": 0.0}
    levels = [f"colour={level}" for level in COLOURS]
    w = bx.weights(model, theta, new[["age"]], **OPTIONS)
    assert w["feature"].values.tolist() == [*levels, "intercept"]
    asked = new[["age"]], new[["colour"]]
    found = bx.contributions(model, theta, *asked, covariance=True, **OPTIONS)
    assert found["feature"].values.tolist() == ["colour", "intercept"]
    center = pd.get_dummies(X["colour"]).mean().to_numpy()
    own = pd.get_dummies(new["colour"]).to_numpy() - center
    expected = (w["weight_mean"].sel(feature=levels) * own).sum("feature")
    assert_allclose(found["contribution_mean"].sel(feature="colour"), expected, rtol=1e-8)
    f = bx.predictions(model, theta, *asked, **OPTIONS)
    total = found["contribution_mean"].sum("feature") + found["offset"]
    assert_allclose(total, f["f_mean"], rtol=1e-8)
    variance = found["contribution_cov"].sum(["feature", "feature_bis"])
    assert_allclose(np.sqrt(variance), f["f_sd"], rtol=1e-7)
    assert found["level"].sel(feature="colour").values.tolist() == new["colour"].tolist()


@pytest.mark.parametrize("family", ["GP", "GPX"])
def test_attributions_of_columns_add_up_and_vanish_between_equal_levels(data, family):
    X, y, new = data
    model = getattr(bx, family)(X, y)
    theta = THETA | ({"sigma_w": 0.2} if family == "GPX" else {})
    start = new.iloc[0]
    found = bx.attributions(model, theta, new, baseline=start, covariance=True, **OPTIONS)
    assert_allclose(found["attribution_mean"].sum("feature"), found["difference_mean"], atol=1e-9)
    variance = found["attribution_cov"].sum(["feature", "feature_bis"])
    assert_allclose(variance, found["difference_sd"] ** 2, rtol=1e-6, atol=1e-9)
    assert_allclose(found["attribution"].sum("feature"), found["difference"], atol=1e-9)
    spread = found["attribution"].std(["chain", "draw"], ddof=1)
    assert_allclose(spread, found["attribution_sd"], rtol=0.12, atol=1e-9)  # of 1000 draws
    same = (new["colour"] == start["colour"]).to_numpy()
    colour = found["attribution_sd"].sel(feature="colour")
    assert (colour[same] < 1e-9).all() and (colour[~same] > 0.05).all()
    assert found["value"].sel(feature="colour").values.tolist() == new["colour"].cat.codes.tolist()
    some = bx.attributions(model, theta, new, baseline=start, features=["colour"], **OPTIONS)
    assert_allclose(some["attribution_sd"], found["attribution_sd"].sel(feature=["colour"]))
    assert bx.to_pandas(found)["level"].iloc[:2].tolist() == ["", new["colour"].iloc[0]]


@pytest.mark.parametrize("weighed", [False, True])
def test_the_median_is_a_row_with_the_most_frequent_level(data, weighed):
    """Indicators have medians of 0 where no level has half of the rows."""
    X, y, new = data
    weights = np.where(X["colour"] == "blue", 1.4, 0.8) if weighed else None
    often = "blue" if weighed else X["colour"].mode()[0]
    row = pd.DataFrame({"age": [X["age"].median()], "colour": [often]}).astype(X.dtypes)
    model = bx.GP(X, y, weights=weights)
    found = bx.attributions(model, THETA, new, baseline="median", **OPTIONS)
    assert found["baseline"].values[1] == COLOURS.index(often)
    if not weighed:
        expected = bx.attributions(model, THETA, new, baseline=row, **OPTIONS)
        assert_allclose(found["attribution_mean"], expected["attribution_mean"], rtol=1e-10)
    with pytest.raises(ValueError, match=r"baseline is 'zero'.*\['colour'\] have no level"):
        bx.attributions(model, THETA, new, baseline="zero", **OPTIONS)


def test_the_empty_text_is_no_level(data):
    X, y, _ = data
    empty = X["colour"].cat.rename_categories({"red": ""})
    with pytest.raises(ValueError, match=r"'colour' has the empty text as a level"):
        bx.GP(X.assign(colour=empty), y)


@pytest.mark.parametrize(
    "likelihood", [pytest.param("bernoulli", marks=pytest.mark.slow), "categorical", "poisson"]
)
def test_the_response_of_labels_and_counts_is_attributed_too(data, likelihood):
    X, y, new = data
    cut = {"bernoulli": [-9, 0, 9], "categorical": [-9, 0, 1.5, 9], "poisson": [-9, 0, 1.5, 9]}
    model = bx.GP(X, pd.cut(y, cut[likelihood], labels=False), likelihood=likelihood)
    theta = {"lengthscale": [0.8, 1.3], "amplitude": 1.1}
    found = bx.attributions(model, theta, new, baseline=new.iloc[0], draws=50, **OPTIONS)
    assert found["feature"].values.tolist() == ["age", "colour"]
    total = found["attribution"].sum("feature")
    assert_allclose(total, found["difference"], atol=1e-5)


def test_a_fit_comes_back_from_its_file(data, tmp_path):
    X, y, new = data
    model = bx.GPX(X, y, intercept=True)
    idata = model.fit("map", start=THETA | {"sigma_w": 0.2}, progressbar=False)
    assert idata["posterior"]["lengthscale"]["feature"].values.tolist() == ["age", "colour"]
    bx.save(model, idata, tmp_path / "fit.nc")
    again, draws = bx.load(tmp_path / "fit.nc")
    assert again.training.X.levels == {"colour": tuple(COLOURS)}
    for verb in (bx.predictions, bx.contributions):
        first, second = (verb(m, i, new, **OPTIONS) for m, i in ((model, idata), (again, draws)))
        for name in first:
            assert_allclose(first[name], second[name]) if name != "level" else None
    warm = again.fit("map", start=draws, progressbar=False)
    assert_allclose(warm["posterior"]["sigma"], idata["posterior"]["sigma"], rtol=1e-3)


def test_levels_are_matched_by_name_whatever_the_table(data):
    X, y, new = data
    model = bx.GP(X, y)
    expected = bx.predictions(model, THETA, new, keep="summary")["f_mean"]
    words = new.assign(colour=new["colour"].astype(str))
    other = words.astype({"colour": pd.CategoricalDtype(["blue", "grey", "green", "red"])})
    enum = pl.Enum(COLOURS[::-1])
    told = pd.get_dummies(words, columns=["colour"], prefix_sep="=", dtype=float)
    for given in (
        words[["colour", "age"]],
        other,
        pl.from_pandas(words),
        pl.from_pandas(words).with_columns(pl.col("colour").cast(enum)),
        words.to_numpy(),
        told,
        told[list(model.training.X.columns)].to_numpy(),
    ):
        found = bx.predictions(model, THETA, given, keep="summary")["f_mean"]
        assert_allclose(found, expected, rtol=1e-12)
    polars = pl.from_pandas(X.assign(colour=X["colour"].astype(str)))
    for kind, levels in ((enum, COLOURS[::-1]), (pl.Categorical, sorted(COLOURS))):
        again = bx.GP(polars.with_columns(pl.col("colour").cast(kind)), y.to_numpy())
        assert again.training.X.levels == {"colour": tuple(levels)}
        found = bx.predictions(again, THETA, new, keep="summary")["f_mean"]
        assert_allclose(found, expected, rtol=1e-8)


@pytest.mark.parametrize("levels", [[0, 1], [0.0, 1.0]])
def test_levels_that_are_numbers_are_matched_as_numbers(levels):
    zone = pd.Series(np.tile([0, 1, 1], 4), dtype=pd.CategoricalDtype(levels))
    model = bx.GP(pd.DataFrame({"zone": zone}), np.arange(12.0))
    assert model.training.X.levels == {"zone": ("0", "1")}
    theta = {"lengthscale": np.ones(1), "amplitude": 1.0, "sigma": 0.5}
    expected = bx.predictions(model, theta, keep="summary")["f_mean"][:3].values
    for new in ([0, 1, 1], [0.0, 1.0, 1.0], ["0", "1", "1"]):
        found = bx.predictions(model, theta, pd.DataFrame({"zone": new}), keep="summary")
        assert_allclose(found["f_mean"], expected)
    contrast = bx.comparisons(model, theta, variables={"zone": (0.0, 1.0)}, progressbar=False)
    assert contrast["contrast"].values.tolist() == ["zone 0 → 1"]
    with pytest.raises(ValueError, match="missing or infinite values, at row 2"):
        bx.GP(pd.DataFrame({"zone": zone.where(zone.index != 2)}), np.arange(12.0))


def test_a_declared_level_without_rows_is_as_uncertain_as_the_prior_of_a_new_one(data):
    X, y, _ = data
    wide = X.assign(colour=X["colour"].cat.add_categories(["violet"]))
    model = bx.GP(wide, y)
    new = wide.iloc[:4].assign(colour=pd.Categorical(["violet"] * 4, [*COLOURS, "violet"]))
    unseen, seen = (bx.predictions(model, THETA, rows, keep="summary") for rows in (new, wide[:4]))
    assert (unseen["f_sd"] > 2 * seen["f_sd"]).all()


def test_inducing_points_at_all_rows_change_nothing(data):
    X, y, new = data
    exact, sparse = (bx.GP(X, y, approximation=a) for a in (None, bx.Inducing(25)))
    one, other = (bx.predictions(m, THETA, new, keep="summary") for m in (exact, sparse))
    assert_allclose(other["f_mean"], one["f_mean"], rtol=1e-4)


def test_one_prior_for_each_column(data):
    X, y, _ = data
    made = []
    prior = lambda name, dims: made.append((name, dims)) or pm.HalfNormal(name, dims=dims)  # noqa: E731
    model = bx.GP(X, y, priors={"lengthscale": prior})
    assert made == [("lengthscale", "feature")]
    assert model.pymc["lengthscale"].eval(mode=MODE).shape == (2,)
    fixed = bx.GP(X, y, priors={"lengthscale": [0.8, 1.3]})
    assert fixed.fixed["lengthscale"].tolist() == [0.8, 1.3, 1.3, 1.3]
    fixed.fit("map", progressbar=False)


REFUSED = {
    "a new level": (lambda X: X.assign(colour=["gren"] * len(X)), r"'gren'.*row 0.*mean 'green'"),
    "a gap": (lambda X: X.assign(colour=X["colour"].where(X.index != 2)), r"'colour', has 1 miss"),
    "another column": (lambda X: X.rename(columns={"colour": "color"}), r"lacks.*'colour'"),
    "a narrow array": (lambda X: X.to_numpy()[:, :1], "1 columns, but must have 2"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_new_samples(data, name):
    X, y, new = data
    change, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        bx.predictions(bx.GP(X, y), THETA, change(new))


def test_training_samples(data):
    X, y, _ = data
    with pytest.raises(ValueError, match=r"'colour'.*'(red|green|blue)' \(str\).*'category'"):
        bx.GP(X.astype({"colour": object}), y)
    with pytest.raises(ValueError, match=r"'colour', has 1 missing"):
        bx.GP(X.assign(colour=X["colour"].where(X.index != 2)), y)
    with pytest.raises(ValueError, match=r"repeated column names \['colour=red'\]"):
        bx.GP(X.assign(**{"colour=red": X["age"]}), y)
    alone = pd.Categorical(["red"] * len(X))
    with pytest.raises(ValueError, match=r"constant columns \['colour=red'\]"):
        bx.GP(X.assign(colour=alone), y)


@pytest.mark.parametrize("family", [pytest.param("gp", marks=pytest.mark.slow), "gpx"])
def test_the_command_line_takes_them(data, tmp_path, family, capsys):
    X, y, new = data
    X.assign(price=y).to_csv(tmp_path / "data.csv", index=False)
    new.to_csv(tmp_path / "new.csv", index=False)
    told = ["fit", f"{tmp_path}/data.csv", "--target", "price", "--method", "map", "--quiet"]
    told += ["--model", family, "--out", f"{tmp_path}/run"]
    with pytest.raises(SystemExit):
        cli.main(told)
    assert "--categorical" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main([*told, "--features", "age", "--categorical", "colour"])
    assert "colour is categorical but no feature" in capsys.readouterr().err
    cli.main([*told, "--categorical", "colour"])
    out = ["--out", f"{tmp_path}/out.csv", "--quiet"]
    cli.main(["explain", f"{tmp_path}/run", f"{tmp_path}/new.csv", *out])
    frame = pd.read_csv(tmp_path / "out.csv", keep_default_na=False, na_values=[""])
    model, idata = bx.load(tmp_path / "run" / "fit.nc")
    found = bx.attributions(model, idata, new, **OPTIONS)
    ours = frame[frame["feature"] == "colour"]
    assert_allclose(ours["attribution_mean"], found["attribution_mean"].sel(feature="colour"))
    assert ours["value"].tolist() == new["colour"].tolist()
    assert frame["feature"].nunique() == 2


@pytest.mark.filterwarnings("ignore:The posterior is far from its Laplace")
def test_a_fit_is_drawn_and_summarised_by_arviz(data):
    X, y, _ = data
    idata = bx.GP(X, y).fit("laplace", draws=20, seed=1, progressbar=False)
    assert idata["posterior"]["lengthscale"].sizes["feature"] == 2
    rows = az.summary(idata, kind="stats").index
    assert [row for row in rows if "lengthscale" in row] == [
        "lengthscale[age]",
        "lengthscale[colour]",
    ]
    for plot in (az.plot_forest, az.plot_trace_dist, az.plot_ridge):
        plot(idata, backend="none")


def test_fits_with_a_lengthscale_for_each_indicator_are_read(data):
    """Version 0.1 wrote them so."""
    X, y, new = data
    model = bx.GP(X, y)
    idata = model.fit("map", start=THETA, progressbar=False)
    expected = bx.predictions(model, idata, new, keep="summary")
    own = idata["posterior"].to_dataset()
    each = (
        own["lengthscale"]
        .isel(feature=[0, 1, 1, 1])
        .assign_coords(feature=[*model.training.X.columns])
    )
    older = xr.DataTree.from_dict({"posterior": own.drop_dims("feature").assign(lengthscale=each)})
    found = bx.predictions(model, older, new, keep="summary")
    assert_allclose(found["f_mean"], expected["f_mean"])


@pytest.mark.parametrize("function", [bx.derivatives, bx.slopes])
def test_there_is_no_slope_along_a_level(function, data):
    X, y, _ = data
    model = bx.GP(X, y)
    for name in ("colour", model.training.X.columns[1]):
        with pytest.raises(ValueError, match="categorical, and there is no slope"):
            function(model, THETA, features=["age", name], progressbar=False)


def test_levels_of_baselines_are_named_for_each(data):
    X, y, new = data
    model, one, other = bx.GP(X, y), X.iloc[[0]], X[X["colour"] != X["colour"].iloc[0]].iloc[[0]]
    options = {"keep": "summary", "progressbar": False}
    named = {"one": one, "mixture": "mean", "other": other}
    found = bx.attributions(model, THETA, new, baseline=named, **options)
    levels = found["baseline_level"].sel(feature="colour").to_series().to_dict()
    assert levels == {"one": one["colour"].item(), "mixture": "", "other": other["colour"].item()}
    assert (found["baseline_level"].sel(feature="age") == "").all()
    assert "baseline_level" not in bx.to_pandas(found)  # as the baseline itself
    ages = found["baseline_value"].sel(feature="age", baseline=["one", "other"])
    assert_allclose(ages, [one["age"].item(), other["age"].item()])
    rows = pd.concat([one, other])
    each = bx.attributions(model, THETA, new, baseline=rows, **options)["baseline_level"]
    assert each.sel(feature="colour").values.tolist() == rows["colour"].tolist()
