"""Weights and bounds of out-of-core rows: the numbers of the same rows in memory."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx.numerics.compile_modes import MODE

RNG = np.random.default_rng(4)
N = 50
FRAME = pd.DataFrame({"a": RNG.normal(size=N), "b": RNG.uniform(size=N)})
F = np.sin(FRAME["a"]) + FRAME["b"]
FRAME["amount"] = np.exp(F) * RNG.gamma(3.0, 1 / 3.0, size=N)
FRAME["count"] = RNG.poisson(np.exp(F)) * 1.0
FRAME["value"] = F + 0.3 * RNG.normal(size=N)
FRAME["weight"] = RNG.integers(1, 4, size=N) / 2.0
FRAME["known"] = RNG.choice(["none", "right", "left"], size=N, p=[0.6, 0.3, 0.1])
FRAME["upper"] = FRAME["value"] + 0.4
X = FRAME[["a", "b"]]
APPROXIMATIONS = {"HSGP": bx.HSGP(4), "Inducing": bx.Inducing(RNG.uniform(size=(8, 2)))}
CASES = {
    "normal": ("value", {"weights": "weight"}),
    "normal with bounds": ("value", {"censoring": "known", "weights": "weight"}),
    "poisson": ("count", {"weights": "weight"}),
    "gamma": ("amount", {"censoring": "known"}),
    "weibull": ("amount", {"censoring": "known", "weights": "weight"}),
}
QUIET = {"keep": "summary", "progressbar": False}


def parts(frame):
    return [frame[:9], frame[9:10], frame[10:]]


def both(case, approximation, **options):
    """The model of out-of-core rows, and of the same rows in memory."""
    y, named = CASES[case]
    options |= {"likelihood": case.split()[0], "approximation": APPROXIMATIONS[approximation]}
    own = FRAME[["a", "b", y, *named.values()]]
    streamed = bx.GP(parts(own), y, **named, **options)
    values = {option: FRAME[column] for option, column in named.items()}
    return streamed, bx.GP(X, FRAME[y], **values, **options)


def theta(model):
    values = dict.fromkeys(model.hyperparameters, 0.7)
    return values | {"lengthscale": [0.9, 1.3]}


@pytest.mark.filterwarnings("ignore:weights have a mean")
@pytest.mark.parametrize("approximation", APPROXIMATIONS)
@pytest.mark.parametrize("case", CASES)
def test_density_and_explanations_are_those_of_rows_in_memory(case, approximation):
    models = both(case, approximation)
    for name in ("mean", "sd", "low", "high", "weight"):
        own, whole = (getattr(m.training.moments, name) for m in models)
        assert own is whole is None or np.allclose(own, whole, rtol=1e-12)
    given = theta(models[0])
    found = [bx.attributions(m, given, X[:4], on="latent", **QUIET) for m in models]
    for name in ("attribution_mean", "attribution_sd"):
        assert_allclose(found[0][name], found[1][name], rtol=1e-7, atol=1e-9)
    points = [m.objective.initial_point() for m in models]
    densities = [
        m.objective.compile_logp(mode=MODE)(p) for m, p in zip(models, points, strict=True)
    ]
    assert_allclose(*densities, rtol=1e-8)


@pytest.mark.filterwarnings("ignore:weights have a mean")
@pytest.mark.parametrize("approximation", APPROXIMATIONS)
def test_weighted_rows_deviate_as_rows_in_memory_do(approximation):
    frame = FRAME[["a", "b", "value", "weight"]]
    options = {"approximation": APPROXIMATIONS[approximation]}
    streamed = bx.GPX(parts(frame), "value", weights="weight", **options)
    whole = bx.GPX(X, FRAME["value"], weights=FRAME["weight"], **options)
    point = whole.objective.initial_point()
    densities = [m.objective.compile_logp(mode=MODE)(point) for m in (streamed, whole)]
    assert_allclose(*densities, rtol=1e-8)
    found = [bx.weights(m, theta(m), X[:4], smooth=True, **QUIET) for m in (streamed, whole)]
    for name in ("weight_mean", "weight_sd"):
        assert_allclose(found[0][name], found[1][name], rtol=1e-7, atol=1e-9)


def test_intervals_have_two_columns():
    frame = FRAME[["a", "b", "value", "upper"]].assign(known="interval")
    options = {"approximation": bx.HSGP(4)}
    streamed = bx.GP(parts(frame), ["value", "upper"], censoring="known", **options)
    whole = bx.GP(X, frame[["value", "upper"]], censoring=frame["known"], **options)
    assert streamed.training.censored == N
    given = theta(streamed)
    found = [bx.predictions(m, given, X[:4], **QUIET) for m in (streamed, whole)]
    assert_allclose(found[0]["f_mean"], found[1]["f_mean"], rtol=1e-8)


def test_an_upper_bound_is_the_second_column():
    """A lower end may be missing there; where both ends are known, they may not differ."""
    low = FRAME["value"].where(FRAME["known"] != "left", -np.inf)
    high = FRAME["upper"].where(FRAME["known"] != "none", low)
    kinds = FRAME["known"].replace("right", "interval")
    frame = X.assign(low=low, high=high, known=kinds)
    options = {"approximation": bx.HSGP(4)}
    streamed = bx.GP(parts(frame), ["low", "high"], censoring="known", **options)
    whole = bx.GP(X, frame[["low", "high"]], censoring=kinds, **options)
    found = [bx.predictions(m, theta(streamed), X[:4], **QUIET) for m in (streamed, whole)]
    assert_allclose(found[0]["y_mean"], found[1]["y_mean"], rtol=1e-8)
    with pytest.raises(ValueError, match="censoring is 'none' at position"):
        bx.GP(parts(frame.assign(high=99.0)), ["low", "high"], censoring="known", **options)
    for y in ([], ["low"]):
        with pytest.raises(ValueError, match="name of a column|two names"):
            bx.GP(parts(frame), y, censoring="known", **options)


@pytest.mark.filterwarnings("ignore:weights have a mean")
def test_a_saved_fit_explains_new_rows(tmp_path):
    model = both("weibull", "HSGP")[0]
    idata = model.fit("map", start=theta(model), progressbar=False)
    bx.save(model, idata, tmp_path / "fit.zip")
    again = bx.load(tmp_path / "fit.zip")
    found = [bx.predictions(*pair, X[:4], **QUIET) for pair in ((model, idata), again)]
    assert_allclose(found[0]["f_mean"], found[1]["f_mean"], rtol=1e-10)
    assert again[0].training.totals == model.training.totals
    assert model.training.censored == (FRAME["known"] != "none").sum()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"weights": FRAME["weight"]}, "weights is a Series"),
        ({"weights": "value"}, "weights names 'value'"),
        ({"censoring": "weight"}, "Frame 0: censoring is"),
        ({"weights": "wait"}, r"lacks the columns \['wait'\]"),
    ],
)
def test_columns_have_names_and_right_values(options, said):
    with pytest.raises(ValueError, match=said):
        frame = FRAME.drop(columns="known")
        bx.GP(parts(frame), "value", approximation=bx.HSGP(4), **options)
