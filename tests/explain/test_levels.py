"""What is explained of categorical columns as a whole: contrasts between their levels."""

import itertools

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx

QUIET = {"progressbar": False}
COLOURS, SITES = ["red", "green", "blue"], ["north", "south"]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(4)
    X = pd.DataFrame(
        {
            "age": rng.normal(40, 9, 24),
            "colour": pd.Categorical(
                rng.permutation(np.resize([*COLOURS[:2], *COLOURS], 24)), COLOURS
            ),
            "site": pd.Categorical(rng.permutation(np.resize(SITES + SITES[:1], 24)), SITES),
            "dose": rng.uniform(0, 3, 24),
        }
    )
    effect = X["colour"].map({"red": 0.0, "green": 2.0, "blue": -1.0}).astype(float)
    return X, effect * X["dose"] + 0.1 * X["age"] + (X["site"] == "south")


THETA = {"lengthscale": [2.0, 1.3, 1.6, 1.9], "amplitude": 1.1}
LIKELIHOODS = {
    "normal": (lambda y: y, {"sigma": 0.3}),
    "bernoulli": (lambda y: y > y.mean(), {}),
    "poisson": (lambda y: np.round(np.exp(0.2 * (y - y.min()))), {}),
}


def fitted(data, likelihood="normal", family="GP"):
    X, y = data
    respond, more = LIKELIHOODS[likelihood]
    model = getattr(bx, family)(X, respond(y), likelihood=likelihood)
    return model, THETA | more | ({"sigma_w": 0.2} if family == "GPX" else {})


def moments(model, theta, rows):
    """Mean and variance of a new y, or the probability or rate that stands for both."""
    found = bx.predictions(model, theta, rows, keep="summary", on="latent", **QUIET)
    return found["f_mean"].values, found["f_sd"].values ** 2


def at_level(rows, column, level):
    levels = rows[column].cat.categories
    return rows.assign(**{column: pd.Categorical([level] * len(rows), levels)})


def shares(X, column, own):
    """Weights of the levels other than a row's own."""
    each = X[column].value_counts(normalize=True).drop(own)
    return each / each.sum()


def spread(X, column):
    return np.sqrt((1 - (X[column].value_counts(normalize=True) ** 2).sum()) / 2)


@pytest.mark.parametrize("column", ["colour", "site"])
def test_relevance_compares_the_predictions_at_levels(data, column):
    X, _ = data
    (model, theta), rows = fitted(data), X.iloc[:5]
    found = bx.relevance(model, theta, rows, features=["age", column], **QUIET)
    noise = (0.3 * model.training.y_scaling.scale) ** 2
    m, v = moments(model, theta, rows)
    v = v + noise
    expected = np.zeros(5)
    for i, own in enumerate(rows[column]):
        for level, weight in shares(X, column, own).items():
            there, other = moments(model, theta, at_level(rows.iloc[[i]], column, level))
            other = other + noise
            kl = 0.5 * (np.log(other / v[i]) + (v[i] + (there - m[i]) ** 2) / other - 1)
            expected[i] += (weight * 2 * kl).item()
    assert_allclose(found["relevance_mean"].sel(feature=column), np.sqrt(expected), rtol=1e-7)
    assert_allclose(
        found["relevance_scaled_mean"].sel(feature=column), np.sqrt(expected) * spread(X, column)
    )
    assert found["level"].sel(feature=column).values.tolist() == rows[column].tolist()


def test_two_levels_spread_as_their_code_does(data):
    X, _ = data
    assert_allclose(spread(X, "site"), (X["site"] == "south").std(ddof=0))


@pytest.mark.parametrize("family", ["GP", pytest.param("GPX", marks=pytest.mark.slow)])
@pytest.mark.parametrize("likelihood", ["normal", pytest.param("poisson", marks=pytest.mark.slow)])
def test_interactions_are_contrasts_of_slopes_and_of_contrasts(data, likelihood, family):
    """Mixed differences of the predictive mean and variance, by moving rows."""
    X, _ = data
    (model, theta), rows, h = fitted(data, likelihood, family), X.iloc[[3]], 1e-3
    found = bx.interactions(model, theta, rows, factor=2, **QUIET)["interaction_mean"].isel(obs=0)
    names = list(X)
    assert found["feature"].values.tolist() == names

    def parameters(row):
        m, v = moments(model, theta, row)
        if likelihood == "poisson":
            return [(np.exp(m + v / 2), np.exp(-m - v / 2))]
        noisy = v + (0.3 * model.training.y_scaling.scale) ** 2
        return [(m, 1 / noisy), (noisy, 0.5 / noisy**2)]

    def changes(column):
        """A derivative, or all contrasts: weights, and moves of a row with what each counts."""
        if column in ("age", "dose"):
            up, down = (lambda row, s=s: row.assign(**{column: row[column] + s}) for s in (h, -h))
            return [(1.0, [(up, 0.5 / h), (down, -0.5 / h)])]
        others = shares(X, column, rows[column].item())
        return [
            (weight, [(lambda row, to=to: at_level(row, column, to), 1.0), (lambda row: row, -1.0)])
            for to, weight in others.items()
        ]

    information = np.array([known for _, known in parameters(rows)])
    for a, b in itertools.combinations(names, 2):
        expected = 0.0
        for (one, first), (other, second) in itertools.product(changes(a), changes(b)):
            apart = sum(
                share * part * np.array([value for value, _ in parameters(there(move(rows)))])
                for (move, share), (there, part) in itertools.product(first, second)
            )
            expected += one * other * (information * apart**2).sum()
        assert_allclose(found.sel(feature=a, feature_bis=b), np.sqrt(2 * expected), rtol=2e-4)
        assert found.sel(feature=a, feature_bis=b) == found.sel(feature=b, feature_bis=a)


def test_only_the_pairs_that_are_asked_for(data):
    model, theta = fitted(data)
    for pairs in ([("colour", "dose")], [("site", "colour")], [("age", "dose")], "screened"):
        found = bx.interactions(model, theta, obs=[0], pairs=pairs, **QUIET)["interaction_mean"]
        known = {
            (a, b)
            for a, b in itertools.product(found["feature"].values, repeat=2)
            if np.isfinite(found.sel(obs=0, feature=a, feature_bis=b))
        }
        assert len(known) == 2


def test_mixtures_and_finite_differences_know_levels(data):
    model, theta = fitted(data, "bernoulli")
    options = {"obs": [0, 1], **QUIET}
    exact = bx.relevance(model, theta, **options)
    steps = bx.relevance(model, theta, method="finite_difference", **options)
    assert_allclose(steps["relevance_mean"], exact["relevance_mean"], rtol=1e-3)
    mixture = bx.relevance(model, theta, over="mixture", **options)
    assert_allclose(mixture["relevance"], exact["relevance_mean"], rtol=1e-9)


@pytest.mark.parametrize(("repeats", "places"), [(2, [1.0, 2.0, 5.0]), (1, [1.0, 3.0, 5.0])])
def test_partial_dependence_is_at_numbers_that_repeat(data, repeats, places):
    X, _ = data
    model, theta = fitted(data)
    rows = X[: 3 * repeats].assign(dose=[1.0, 2.0, 5.0] * repeats)
    options = {"draws": 20, "seed": 1, "steps": 3, "features": ["dose"], **QUIET}
    found = bx.partial_dependence(model, theta, rows, **options)
    assert found["value"].sel(feature="dose").values.tolist() == places


def test_partial_dependence_is_at_levels(data):
    X, _ = data
    model, theta = fitted(data)
    options = {"draws": 200, "seed": 1, "steps": 2, "keep": "draws", **QUIET}
    found = bx.partial_dependence(model, theta, X[:6], features=["colour", "dose"], **options)
    assert found["level"].sel(feature="colour").values.tolist() == COLOURS
    assert found["level"].sel(feature="dose").values.tolist() == ["", "", ""]
    assert np.isnan(found["partial_dependence_mean"].sel(feature="dose", step=2))
    for k, level in enumerate(COLOURS):
        m, v = moments(model, theta, at_level(X[:6], "colour", level))
        ice = found["ice_mean"].sel(feature="colour", step=k)
        assert (np.abs(ice.values - m) < 5 * np.sqrt(v / 200)).all()
    measures = ["mean_absolute_derivative", "mean_squared_derivative"]
    chosen = {"draws": 200, "seed": 1, "measures": measures, **QUIET}
    summed = bx.importances(model, theta, X[:6], **chosen)
    assert summed["feature"].values.tolist() == list(X)
    f = found["ice"].sel(feature="colour").values[0]
    own = X["colour"][:6].cat.codes.to_numpy()
    expected = np.zeros((2, 200))
    for i, level in enumerate(X["colour"][:6]):
        for other, weight in shares(X, "colour", level).items():
            apart = (f[:, i, COLOURS.index(other)] - f[:, i, own[i]]) * spread(X, "colour")
            expected += weight / 6 * np.array([np.abs(apart), apart**2])
    for name, wanted in zip(measures, expected, strict=True):
        assert_allclose(summed[name].sel(feature="colour").values[0], wanted, rtol=1e-9)


def test_shares_of_the_variance_of_columns(data):
    """An additive function: a column's share is the variance of its own part."""
    X, _ = data
    parts = {
        "colour": X["colour"].map({"red": 0.0, "green": 2.0, "blue": -1.0}).astype(float),
        "site": 1.5 * (X["site"] == "south"),
        "dose": X["dose"],
    }
    y = sum(parts.values())
    model = bx.GP(X[["colour", "site", "dose"]], y, kernel="linear", ard=False)
    theta = {"amplitude": 3.0, "sigma": 1e-3} | {
        h: 1.0 for h in model.hyperparameters if h not in ("amplitude", "sigma")
    }
    found = bx.importances(
        model, theta, measures=["sobol_first", "sobol_total"], draws=2, seed=1, **QUIET
    )
    whole = sum(part.var(ddof=0) for part in parts.values())
    for name in ("sobol_first", "sobol_total"):
        for column, part in parts.items():
            error = found[f"{name}_mc_error"].sel(feature=column).max().item()
            share = found[name].sel(feature=column).mean().item()
            assert abs(share - part.var(ddof=0) / whole) < 5 * error + 1e-3


def test_derivatives_are_those_of_numbers(data):
    model, theta = fitted(data)
    options = {"obs": [0, 1], "draws": 5, "seed": 1, **QUIET}
    for verb in (bx.derivatives, bx.slopes):
        assert verb(model, theta, **options)["feature"].values.tolist() == ["age", "dose"]
        with pytest.raises(ValueError, match=r"'colour'.*categorical.*bx\.comparisons"):
            verb(model, theta, features=["colour"], **options)
    path = bx.path_slopes(model, theta, obs=[0], seed=1, draws=5, **QUIET)
    assert path["feature"].values.tolist() == ["age", "dose"]


def test_a_level_that_no_row_has_counts_for_nothing(data):
    X, y = data
    wide = X.assign(colour=X["colour"].cat.add_categories(["violet"]))
    theta = THETA | {"sigma": 0.3}
    one, other = (bx.relevance(bx.GP(frame, y), theta, obs=[0, 1], **QUIET) for frame in (X, wide))
    assert_allclose(other["relevance_mean"], one["relevance_mean"], rtol=1e-7)


def test_plots_have_the_names_of_levels(data):
    model, theta = fitted(data)
    rows = {"draws": 5, "seed": 1, **QUIET}
    dependence = bx.partial_dependence(model, theta, features=["dose", "colour"], **rows)
    found = bx.attributions(model, theta, keep="summary", **QUIET)
    for plot in (
        bx.plot_partial_dependence(dependence, backend="matplotlib"),
        bx.plot_dependence(found, features=["dose", "colour"], backend="matplotlib"),
    ):
        _, panel = plot.viz["plot"].values.ravel()
        assert [text.get_text() for text in panel.get_xticklabels()] == COLOURS
    swarm = bx.plot_beeswarm(found, features=["dose", "colour"], backend="matplotlib")
    points = swarm.viz["plot"].item().collections
    hollow, filled = points
    drawn = np.concatenate([hollow.get_edgecolors(), filled.get_facecolors()])[:, :3].round(3)
    rows = np.concatenate([p.get_offsets()[:, 1].round() for p in points])
    dose, colour = (len(set(map(tuple, drawn[rows == k]))) for k in (0, 1))
    assert dose > 15 and colour == 1
