"""What-if contrasts are differences of predictions at changed rows."""

from datetime import date, datetime

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx

QUIET = {"progressbar": False}
COLOURS = ["red", "green", "blue"]
THETA = {"lengthscale": [2.0, 1.3], "amplitude": 1.1, "sigma": 0.3}
VARIABLES = {"dose": (1.0, 2.5), "colour": COLOURS}
LABELS = ["dose 1 → 2.5", "colour red → green", "colour red → blue"]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(4)
    colour = pd.Categorical(rng.permutation(COLOURS * 8), COLOURS)
    X = pd.DataFrame({"colour": colour, "dose": rng.uniform(0, 3, 24)})
    effect = X["colour"].map({"red": 0.0, "green": 2.0, "blue": -1.0}).astype(float)
    return X, 3.0 + effect * X["dose"] + 0.1 * rng.normal(size=24)


def changed(rows, name, value):
    every = [value] * len(rows)
    return rows.assign(**{name: pd.Categorical(every, COLOURS) if name == "colour" else every})


def ends(rows):
    """Rows at both ends of every contrast."""
    for name, (first, *others) in VARIABLES.items():
        for other in others:
            yield changed(rows, name, first), changed(rows, name, other)


@pytest.mark.parametrize(
    "family", ["GP", pytest.param("GPX", marks=pytest.mark.slow), "GPX by place"]
)
def test_contrasts_of_f_are_exact(data, family):
    """Against joint predictions at both ends: a GPX's without its own deviations."""
    X, y = data
    Z = None
    if family == "GPX by place":
        Z = pd.DataFrame({"z": np.cos(np.arange(24.0))})
    model = bx.GP(X, y) if family == "GP" else bx.GPX(X, y, Z, intercept=Z is None)
    theta = THETA if family == "GP" else THETA | {"sigma_w": 1e-8}
    rows, Z_rows = X[:3], None if Z is None else Z[:3]
    found = bx.comparisons(
        model, theta, rows, Z_rows, variables=VARIABLES, keep="summary", covariance=True, **QUIET
    )
    assert found["contrast"].values.tolist() == LABELS
    assert found["high"].values.tolist() == ["2.5", "green", "blue"]
    for label, (low, high) in zip(LABELS, ends(rows), strict=True):
        both = pd.concat([low, high], ignore_index=True)
        Z_both = None if Z is None else pd.concat([Z_rows, Z_rows], ignore_index=True)
        f = bx.predictions(model, theta, both, Z_both, keep="summary", **QUIET)["f_mean"].values
        one = found.sel(contrast=label)
        assert_allclose(one["comparison_mean"], f[3:] - f[:3], rtol=1e-6, atol=1e-9)
        drawn = bx.predictions(model, theta, both, Z_both, joint=True, draws=4000, seed=1, **QUIET)
        apart = (drawn["f"].values[0, :, 3:] - drawn["f"].values[0, :, :3]).std(axis=0)
        assert_allclose(one["comparison_sd"], apart, rtol=0.06)
    variance = np.einsum("oaa->oa", found["comparison_cov"].values)
    assert_allclose(found["comparison_sd"], np.sqrt(variance), rtol=1e-7)


def test_averages_are_over_joint_draws(data):
    X, y = data
    model = bx.GP(X, y)
    options = {"variables": VARIABLES, "draws": 2000, "seed": 1, **QUIET}
    by_row = bx.comparisons(model, THETA, X[:5], **options)
    found = bx.comparisons(model, THETA, X[:5], by=True, **options)
    assert found["comparison"].dims == ("chain", "draw", "by", "contrast")
    found = found.squeeze("by")
    averages = by_row["comparison"].mean("obs")
    assert_allclose(found["comparison_sd"], averages.std(["chain", "draw"]), rtol=0.06)
    assert_allclose(found["comparison_mean"], by_row["comparison_mean"].mean("obs"), rtol=1e-9)
    alone = by_row["comparison_sd"].mean("obs")
    assert (found["comparison_sd"] < alone).all()
    assert_allclose(
        found["comparison"].mean(["chain", "draw"]), found["comparison_mean"], atol=0.05
    )
    assert (found["comparison_interval"].isel(ci_bound=0) < found["comparison_mean"]).all()


@pytest.mark.parametrize("on", ["response", "latent"])
def test_summaries_of_averages_hold_no_draws(data, on):
    X, y = data
    model = bx.GP(X, y > y.median(), likelihood="bernoulli")
    theta = {k: v for k, v in THETA.items() if k != "sigma"}
    options = {"variables": VARIABLES, "on": on, "by": True, "draws": 50, "seed": 1, **QUIET}
    found = bx.comparisons(model, theta, X[:3], keep="summary", **options)
    drawn = bx.comparisons(model, theta, X[:3], **options)
    assert "comparison" in drawn
    assert not {"comparison", "chain", "draw"} & {*found.variables, *found.dims}
    assert found.identical(drawn.drop_dims(["chain", "draw"]))
    with pytest.raises(ValueError, match="'summaries'"):
        bx.comparisons(model, theta, X[:3], keep="summaries", **options)


def test_labels_hold_every_digit():
    seconds = 1_700_000_000 + 1000 * np.arange(8)
    X = pd.DataFrame({"t": seconds, "x": np.cos(seconds)})
    values = [1_700_000_000, 1_700_001_000, np.int64(1_700_002_000), 1_700_003_000.0, 1.7e9 + 0.1]
    found = bx.comparisons(
        bx.GP(X, np.sin(seconds)),
        THETA,
        variables={"t": values, "x": (0.1 + 0.2, -0.5)},
        by=True,
        **QUIET,
    )
    assert found["contrast"].values.tolist() == [
        "t 1700000000 → 1700001000",
        "t 1700000000 → 1700002000",
        "t 1700000000 → 1700003000",
        "t 1700000000 → 1700000000.1",
        "x 0.30000000000000004 → -0.5",
    ]
    low = [float(text) for text in found["low"].values]
    assert low == [values[0]] * 4 + [0.1 + 0.2]


DATES = pd.date_range("1400-02-25 06:00", periods=8, freq="36h", unit="s")
ENDS = {
    "text": ("1400-02-26", "1400-03-02T18:00"),
    "datetime": (date(1400, 2, 26), datetime(1400, 3, 2, 18)),
    "pandas": (pd.Timestamp("1400-02-26"), pd.Timestamp("1400-03-02 18:00")),
    "NumPy": np.array(["1400-02-26", "1400-03-02T18:00"], dtype="datetime64[m]"),
}


@pytest.fixture(scope="module")
def dated():
    X = pd.DataFrame({"day": DATES, "x": np.cos(np.arange(8.0))})
    return X, bx.GP(X, np.arange(8.0))


@pytest.mark.parametrize("form", ENDS)
def test_dates_are_compared(dated, form):
    X, model = dated
    options = {"keep": "summary", **QUIET}
    found = bx.comparisons(model, THETA, X[:2], variables={"day": ENDS[form]}, **options)
    assert found["contrast"].item() == "day 1400-02-26 → 1400-03-02T18:00:00"
    at = [X[:2].assign(day=pd.Timestamp(end)) for end in ENDS["text"]]
    low, high = (bx.predictions(model, THETA, rows, **options)["f_mean"].values for rows in at)
    assert_allclose(found["comparison_mean"].values[:, 0], high - low, atol=1e-9)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"day": ("1400-02-26", "soon")}, "'soon'. Pass a date"),
        ({"day": ("1400-02-26", "1400-02-30")}, "'1400-02-30'. Pass a date"),
        ({"day": ("1400-02-26", pd.NaT)}, "NaT. Pass a date"),
        ({"day": ("1400-02-26", "1400-03-02T18:00Z")}, "time zone UTC"),
        ({"x": (0, np.datetime64("2011-03-01", "ns"))}, "Pass a finite number"),
        ({"x": (0, "2011-03-01")}, "Pass a finite number"),
    ],
)
def test_what_is_no_date_is_refused(dated, variables, said):
    X, model = dated
    with pytest.raises(ValueError, match=said):
        bx.comparisons(model, THETA, X[:2], variables=variables, **QUIET)


def test_contrasts_of_probabilities_are_on_their_scale(data):
    X, y = data
    model = bx.GP(X, y > y.median(), likelihood="bernoulli")
    theta = {k: v for k, v in THETA.items() if k != "sigma"}
    options = {"variables": VARIABLES, "draws": 400, "seed": 1, **QUIET}
    found = bx.comparisons(model, theta, X[:3], **options)
    assert found["comparison"].sizes == {"chain": 1, "draw": 400, "obs": 3, "contrast": 3}
    for label, (low, high) in zip(LABELS, ends(X[:3]), strict=True):
        p = [
            bx.predictions(model, theta, rows, keep="summary", **QUIET)["probability_mean"]
            for rows in (low, high)
        ]
        one = found.sel(contrast=label)
        error = one["comparison_sd"].values / np.sqrt(400)
        assert (np.abs(one["comparison_mean"].values - (p[1] - p[0]).values) < 5 * error).all()
    latent = bx.comparisons(model, theta, X[:3], on="latent", keep="summary", **options)
    f = [
        bx.predictions(model, theta, r, keep="summary", **QUIET)["f_mean"]
        for r in next(ends(X[:3]))
    ]
    assert_allclose(latent["comparison_mean"][:, 0], (f[1] - f[0]).values, rtol=1e-6)
    assert (np.abs(found["comparison"]) <= 1.0).all()


def test_names_and_words_stand_for_values(data):
    X, y = data
    model = bx.GP(X, y)
    low, high = float(X["dose"].min()), float(X["dose"].max())
    quartiles = [float(q) for q in np.quantile(X["dose"], [0.25, 0.75])]
    spread = X["dose"].std(ddof=0)
    meant = {
        "colour red → green": {"colour": ("red", "green")},
        "colour green → blue": {"colour": ("green", "blue")},
        f"dose {low!r} → {high!r}": {"dose": (low, high)},
        f"dose {quartiles[0]!r} → {quartiles[1]!r}": {"dose": quartiles},
    }
    options = {"keep": "summary", **QUIET}
    for word in ({"colour": "pairwise"}, {"dose": "minmax"}, {"dose": "iqr"}):
        found = bx.comparisons(model, THETA, X[:4], variables=word, **options)
        for label in set(found["contrast"].values) & set(meant):
            expected = bx.comparisons(model, THETA, X[:4], variables=meant.pop(label), **options)
            for part in ("comparison_mean", "comparison_sd"):
                assert_allclose(
                    found[part].sel(contrast=label), expected[part].squeeze("contrast"), rtol=1e-10
                )
    assert meant == {}
    found = bx.comparisons(model, THETA, X[:4], variables={"colour": "pairwise"}, **options)
    assert found.sizes["contrast"] == 3
    found = bx.comparisons(model, THETA, X[:4], **options)
    everything = ["colour red → green", "colour red → blue", "dose +1 sd"]
    assert found["contrast"].values.tolist() == everything
    for step, label in ((spread, "+sd"), (1.0, "+1"), (-0.5, "-0.5")):
        moved = bx.comparisons(model, THETA, X[:4], variables={"dose": label}, **options)
        rows = X[:4].assign(dose=X["dose"][:4] + step)
        at, before = (
            bx.predictions(model, THETA, r, keep="summary", **QUIET)["f_mean"]
            for r in (rows, X[:4])
        )
        assert_allclose(moved["comparison_mean"].squeeze("contrast"), at - before, atol=1e-9)
        if label == "+sd":
            one = found.sel(contrast="dose +1 sd")
            assert_allclose(one["comparison_mean"], moved["comparison_mean"].squeeze("contrast"))
            by_name = bx.comparisons(model, THETA, X[:4], variables="dose", **options)
            assert_allclose(by_name["comparison_sd"], moved["comparison_sd"], rtol=1e-12)


def test_a_column_of_two_values_is_compared_at_them():
    """One sd above the larger one there are no rows."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"treated": rng.random(30) > 0.6, "dose": rng.uniform(0, 3, 30)})
    model = bx.GP(X, X["dose"] + X["treated"])
    theta = {"lengthscale": [1.0, 1.0], "amplitude": 1.0, "sigma": 0.3}
    found = bx.comparisons(model, theta, keep="summary", **QUIET)
    assert found["contrast"].values.tolist() == ["treated 0 → 1", "dose +1 sd"]


def test_ratios_and_lifts_are_those_of_joint_draws():
    """The log ratio of rates is the difference of f, which has exact moments."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"dose": rng.uniform(0, 3, 30)})
    model = bx.GP(X, rng.poisson(np.exp(np.sin(X["dose"]))), likelihood="poisson")
    theta = {"lengthscale": 1.0, "amplitude": 0.7}
    options = {"variables": {"dose": (0.5, 2.0)}, "draws": 4000, "seed": 1, **QUIET}
    exact = bx.comparisons(model, theta, X[:1], on="latent", **options)
    ratio = bx.comparisons(model, theta, X[:1], comparison="ratio", **options)
    logs = np.log(ratio["comparison"].values.ravel())
    sd = exact["comparison_sd"].item()
    assert abs(logs.mean() - exact["comparison_mean"].item()) < 4 * sd / np.sqrt(4000)
    assert_allclose(logs.std(), sd, rtol=0.06)
    options["draws"] = 50
    ratio, lift = (
        bx.comparisons(model, theta, X[:1], comparison=name, **options)
        for name in ("ratio", "lift")
    )
    assert_allclose(lift["comparison"], ratio["comparison"] - 1.0, rtol=1e-9)
    assert ratio.attrs["units"] == "ratio" and lift.attrs["comparison"] == "lift"
    panel = (
        bx.plot_comparisons(
            bx.comparisons(model, theta, X, comparison="ratio", by=True, **options),
            backend="matplotlib",
        )
        .viz["plot"]
        .item()
    )
    assert panel.get_xlabel() == "average ratio"
    assert 1.0 in panel.lines[0].get_xdata()


def test_quartiles_of_dates_are_dates():
    days = pd.date_range("2024-01-01", periods=9)
    X = pd.DataFrame({"day": days, "size": np.arange(9.0) % 4})
    model = bx.GP(X, np.arange(9.0))
    theta = {"lengthscale": 1.0, "amplitude": 1.0, "sigma": 0.2}
    words = {"day": "iqr"}
    found = bx.comparisons(model, theta, variables=words, keep="summary", **QUIET)
    assert found["contrast"].item() == "day 2024-01-03 → 2024-01-07"
    values = {"day": ("2024-01-03", "2024-01-07")}
    same = bx.comparisons(model, theta, variables=values, keep="summary", **QUIET)
    assert_allclose(found["comparison_mean"], same["comparison_mean"], rtol=1e-12)


REFUSED = {
    "an unknown variable": ({"does": (1, 2)}, "'does'.*dose"),
    "an unknown level": ({"colour": ("red", "gren")}, "'gren'.*green"),
    "one value": ({"dose": (1.0,)}, "two values"),
    "a number": ({"dose": 1.0}, "two values"),
    "no number": ({"dose": (1.0, "much")}, "'much'. Pass a finite number"),
    "nothing": ({}, "or a dict of two values"),
    "a list": (["dose", "does"], "'does'.*dose"),
    "a word": ({"dose": "+much"}, r"a step such as '\+1'"),
    "a number in a word": ({"dose": "1"}, r"a step such as '\+1'"),
    "a step without end": ({"dose": "+inf"}, r"a step such as '\+1'"),
    "a step of a category": ({"colour": "+1"}, "Pass 'pairwise'"),
    "pairs of numbers": ({"dose": "pairwise"}, "Pass one of"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_compared_is_refused(data, case):
    X, y = data
    variables, said = REFUSED[case]
    with pytest.raises(ValueError, match=said):
        bx.comparisons(bx.GP(X, y), THETA, variables=variables, **QUIET)


def test_plots_by_row_and_on_average(data):
    X, y = data
    model = bx.GP(X, y)
    options = {"variables": VARIABLES, "draws": 50, "seed": 1, **QUIET}
    by_row, average = (bx.comparisons(model, THETA, by=a, **options) for a in (None, True))
    panels = bx.plot_comparisons(by_row, backend="matplotlib").viz["plot"]
    assert panels.sizes == {"contrast": 3}
    panel = bx.plot_comparisons(average, backend="matplotlib").viz["plot"].item()
    assert [tick.get_text() for tick in panel.get_yticklabels()] == LABELS
    with pytest.raises(ValueError, match=r"bx\.comparisons"):
        bx.plot_comparisons(by_row.rename(comparison_mean="f_mean"))


def test_values_far_from_the_data_are_reported(data):
    X, y = data
    far = {"variables": {"dose": (1.0, 40.0)}, "keep": "summary", **QUIET}
    with pytest.warns(bx.ExtrapolationWarning, match=r"dose 1 → 40: .* leave the training data"):
        bx.comparisons(bx.GP(X, y), THETA, X[:3], **far)


def test_a_single_row_is_plotted_like_an_average(data):
    X, y = data
    found = bx.comparisons(bx.GP(X, y), THETA, X[:1], variables=VARIABLES, draws=50, **QUIET)
    panel = bx.plot_comparisons(found, backend="matplotlib").viz["plot"].item()
    assert [tick.get_text() for tick in panel.get_yticklabels()] == LABELS
    assert panel.get_xlabel() == "change [y]"


def test_values_outside_of_a_box_are_refused(data):
    X, y = data
    model = bx.GP(X[["dose"]], y, approximation=bx.HSGP([8], 1.5))
    theta = {"lengthscale": 1.0, "amplitude": 1.0, "sigma": 0.3}
    with pytest.raises(ValueError, match=r"variables, dose 1 → 30.*HSGP's box"):
        bx.comparisons(model, theta, variables={"dose": (1.0, 30.0)}, **QUIET)
