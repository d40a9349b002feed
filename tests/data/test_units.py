"""Units of columns and of the response reach results, plots, tables and files."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayes_gpx as bx
from bayes_gpx.draws.naming import units_of_result

N = 9
QUIET = {"draws": 10, "seed": 1, "progressbar": False}
THETA = {"lengthscale": [1.0, 1.0], "amplitude": 1.0, "sigma": 0.3}


@pytest.fixture(scope="module")
def cars():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.uniform(1, 2, (N, 3)), columns=["weight", "power", "mpg"])
    frame.attrs["units"] = {"weight": "lb", "power": "hp", "mpg": "miles per gallon"}
    return frame


def test_units_of_a_frame_reach_the_parts_of_a_model(cars):
    model = bx.GP(cars[["power", "weight"]], cars["mpg"])
    found = bx.attributions(model, THETA, **QUIET)
    assert found.attrs["units"] == "miles per gallon"
    assert found["unit"].to_series().to_dict() == {"power": "hp", "weight": "lb"}
    slopes = bx.derivatives(model, THETA, **QUIET)
    assert slopes.attrs["units"] == "miles per gallon per unit of the feature"
    assert (bx.to_pandas(found)["unit"].to_numpy().reshape(N, 2) == ["hp", "lb"]).all()


def test_transformed_columns_of_a_data_set_lose_their_units():
    """pandas passes attributes on to a logarithm, which is in another unit."""
    data = bx.datasets.load("diabetes")
    X, y = data.X[["age", "bmi"]][:40], data.y[:40]
    assert bx.GP(X, y).training.units == {n: data.units[n] for n in ("age", "bmi", "progression")}
    scaled = bx.GP(X.assign(bmi=X["bmi"] / 1000), np.log(y))
    assert scaled.training.units == {"age": data.units["age"]}
    labelled = X.assign(bmi=pd.cut(X["bmi"], 3, labels=["low", "mid", "high"]))
    assert "bmi" not in bx.GP(labelled, y).training.units


def test_models_without_units_have_the_name_of_the_response(cars):
    plain = cars.copy()
    plain.attrs = {}
    found = bx.attributions(bx.GP(plain[["power", "weight"]], plain["mpg"]), THETA, **QUIET)
    assert found.attrs["units"] == "mpg" and "unit" not in found.coords
    assert "unit" not in bx.to_pandas(found)


@pytest.mark.parametrize("told", ["text", "coordinate"])
def test_units_of_xarray(told):
    rng = np.random.default_rng(2)
    X = xr.DataArray(rng.normal(size=(N, 2)), dims=("obs", "band"), coords={"band": ["a", "b"]})
    y = xr.DataArray(rng.normal(size=N), dims="obs", name="flux", attrs={"units": "W/m²"})
    known = {"a": "m", "b": "m" if told == "text" else "s"}
    if told == "text":
        X.attrs["units"] = "m"
    else:
        X = X.assign_coords(unit=("band", ["m", "s"]))
    found = bx.attributions(bx.GP(X, y), THETA, **QUIET)
    assert found.attrs["units"] == "W/m²"
    assert found["unit"].to_series().to_dict() == known


def test_units_that_are_no_text_are_left_alone(cars):
    odd = cars.copy()
    odd.attrs["units"] = 3
    assert dict(bx.GP(odd[["power"]], odd["mpg"]).training.units) == {}


@pytest.mark.parametrize(
    ("likelihood", "latent", "response"),
    [
        ("normal", "miles per gallon", "miles per gallon"),
        (
            "lognormal",
            "log mean of mpg in miles per gallon",
            "mean of mpg in miles per gallon",
        ),
    ],
)
def test_units_of_f_name_the_response_where_f_has_none(cars, likelihood, latent, response):
    model = bx.GP(cars[["power", "weight"]], cars["mpg"], likelihood=likelihood)
    theta = THETA
    for on, expected in (("latent", latent), ("response", response)):
        found = bx.predictions(model, theta, on=on, **QUIET)
        units = bx.attributions(model, theta, on=on, **QUIET).attrs["units"]
        assert units == expected
        assert found.attrs["units"] in (latent, response)


def test_units_name_the_class_that_a_probability_is_of(cars):
    kind = pd.Series(
        np.where(cars["weight"] > cars["weight"].median(), "big", "small"), name="kind"
    )
    X, theta = cars[["power", "weight"]], {k: v for k, v in THETA.items() if k != "sigma"}
    model = bx.GP(X, kind, likelihood="bernoulli")
    found = bx.attributions(model, theta, obs=X.index[:1], **QUIET)
    assert found.attrs["units"] == "probability that kind = small"
    compared = bx.comparisons(model, theta, X[:1], **QUIET)
    assert compared.attrs["units"] == found.attrs["units"] and compared.attrs["scale"] == "response"
    assert "difference of mean response(x)" in bx.describe(compared)
    several = bx.GP(X, kind, likelihood="categorical")
    shares = bx.attributions(several, theta, obs=X.index[:1], **QUIET).sel({"class": "big"})
    assert units_of_result(shares) == "probability of kind: big"


def test_each_output_has_its_unit(cars):
    Y = cars[["mpg", "power"]]
    model = bx.GP(cars[["weight"]], Y)
    assert model.of_output("power").training.said_of_y("{y}") == "hp"
    theta = {"lengthscale": [[1.0], [1.0]], "amplitude": [1.0, 1.0], "sigma": [0.3, 0.3]}
    found = bx.derivatives(model, theta, **QUIET)
    assert found["units"].values.tolist() == [
        "miles per gallon per unit of the feature",
        "hp per unit of the feature",
    ]


def test_units_are_saved(cars, tmp_path):
    model = bx.GPX(cars[["power"]], cars["mpg"], cars[["weight"]], intercept=True)
    idata = model.fit("map", progressbar=False)
    bx.save(model, idata, tmp_path / "fit.nc")
    again, fit = bx.load(tmp_path / "fit.nc")
    assert dict(again.training.units) == cars.attrs["units"]
    found = bx.weights(again, fit, **QUIET)
    assert found["unit"].to_series().to_dict() == {"weight": "lb", "intercept": ""}


def test_plots_name_units(cars):
    model = bx.GP(cars[["power", "weight"]], cars["mpg"])
    found = bx.attributions(model, THETA, obs=[0], **QUIET)
    predicted = bx.predictions(model, THETA, obs=[0], **QUIET)
    axes = bx.plot_waterfall(found, predictions=predicted).viz["figure"].item().axes[0]
    assert axes.get_xlabel().startswith("f [miles per gallon]")
    names = [label.get_text() for label in axes.get_yticklabels()]
    values = {name: cars[name].iloc[0] for name in ("power", "weight")}
    expected = {
        f"power = {values['power']:.4g} hp",
        f"weight = {values['weight']:.4g} lb",
    }
    assert expected <= set(names)
    rows = pd.DataFrame({"power": np.linspace(1, 2, 5), "weight": 1.5})
    slopes = bx.slopes(model, THETA, rows, features=["power"], **QUIET)
    titles = [panel.get_title() for panel in bx.plot_derivatives(slopes).viz["figure"].item().axes]
    titles += [panel.get_xlabel() for panel in plt.gcf().axes]
    assert any("power [hp]" in title for title in titles)
    plt.close("all")


def test_bundled_data_know_their_units():
    data = bx.datasets.load("diabetes")
    model = bx.GP(data.X[["bmi", "age"]].iloc[:20], data.y.iloc[:20])
    assert dict(model.training.units) == {
        name: data.units[name] for name in ("bmi", "age", "progression")
    }


@pytest.mark.parametrize(
    ("gdp", "text"), [(12570.4, "12570"), (1639131.0, "1639131"), (3.5, "3.5")]
)
def test_large_values_are_written_in_full(cars, gdp, text):
    X = cars[["power"]].rename(columns={"power": "gdp"})
    X.attrs = {}
    X.loc[0, "gdp"] = gdp
    theta = THETA | {"lengthscale": [1.0]}
    found = bx.attributions(bx.GP(X, cars["mpg"]), theta, obs=[0], **QUIET)
    axes = bx.plot_waterfall(found).viz["figure"].item().axes[0]
    assert f"gdp = {text}" in [label.get_text() for label in axes.get_yticklabels()]
    plt.close("all")
