"""What sections of a report say of rows that were held out, places, levels and chains."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx.explain.weights import deviation_sds
from bayes_gpx.inference.diagnostics import Diagnosis
from bayes_gpx.reporting import results
from bayes_gpx.reporting.page import number
from bayes_gpx.reporting.results import Findings
from bayes_gpx.reporting.sections.card import CARD, CITING
from bayes_gpx.reporting.sections.cautions import CAUTIONS
from bayes_gpx.reporting.sections.checks import CHECKS
from bayes_gpx.reporting.sections.observations import OBSERVATIONS
from bayes_gpx.reporting.sections.ranks import RANKS
from bayes_gpx.reporting.sections.slopes import SLOPES
from bayes_gpx.reporting.sections.summary import SUMMARY
from frame_parts import Frames
from known_draws import known, scattered

OPTIONS = {"obs": None, "baseline": "mean", "seed": 3, "null": False}
THETA = {"lengthscale": [1.0, 1.5], "amplitude": 1.0, "sigma": 0.3}


def told(section, findings):
    """Texts of a section's parts."""
    parts = []
    for part in (part for make in section.makers for part in make(findings)):
        parts += (
            [own for _, each in part.options for own in each] if part.kind == "choice" else [part]
        )
    texts = []
    for part in parts:
        if part.kind == "prose":
            texts.append(part.text)
        elif part.kind == "points":
            texts += [part.heading, *part.sentences]
        elif part.kind == "table":
            texts.append(part.caption)
    return parts, " ".join(texts)


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sections say the same of few random functions."""
    monkeypatch.setattr(results, "LATENT_DRAWS", 100)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.normal(size=(40, 2)), columns=["dose", "age"])
    y = 10 + 2 * X["dose"] + X["age"] + 0.3 * rng.normal(size=40)
    return X, y.rename("pressure")


def test_rows_that_were_held_out_are_the_headline(data):
    X, y = data
    model, new, y_new = bx.GP(X[:25], y[:25]), X[25:], y[25:]
    findings = Findings(model, THETA, new, None, y_new=y_new, **OPTIONS)
    parts, text = told(CHECKS, findings)
    predicted = bx.predictions(model, THETA, new, draws=100, seed=3, progressbar=False)
    covered = 100 * bx.metrics.coverage(predicted, y_new, [0.5, 0.8, 0.9, 0.95]).values
    assert [row[1] for row in parts[0].rows] == covered.tolist()
    error = np.sqrt(np.mean((y_new - predicted["y_mean"].values) ** 2))
    assert f"error of 15 observations that were held out is {number(error)};" in text
    assert "leave-one-out" not in text
    with pytest.raises(ValueError, match="without X_new"):
        Findings(model, THETA, None, None, y_new=y_new, **OPTIONS)
    with pytest.raises(ValueError, match="one value for each"):
        Findings(model, THETA, new, None, y_new=y_new[:3], **OPTIONS)


def test_labels_that_were_held_out_are_scored(data):
    X, y = data
    labels = pd.Series(np.where(y > y.median(), "high", "low"), index=y.index)
    model = bx.GP(X[:25], labels[:25], likelihood="bernoulli")
    theta = {k: v for k, v in THETA.items() if k != "sigma"}
    findings = Findings(model, theta, X[25:], None, y_new=labels[25:], **OPTIONS)
    parts, text = told(CHECKS, findings)
    predicted = bx.predictions(model, theta, X[25:], seed=3, keep="summary", progressbar=False)
    low = predicted["probability_mean"].values > 0.5  # of "low", the second label
    right = (low == (labels[25:] == "low")).mean()
    assert (
        f"most probable label is right for {right:.1%} of 15 observations that were held out."
        in text
    )
    assert sum(row[1] for row in parts[0].rows) == 15


def test_weighed_features_explain_what_happens_at_a_place(data):
    X, y = data
    rng = np.random.default_rng(6)
    places = pd.DataFrame(rng.uniform(size=(40, 2)), columns=["east", "north"], index=X.index)
    model = bx.GPX(places, y, X, intercept=True)
    findings = Findings(model, THETA | {"sigma_w": 0.1}, None, None, y_new=None, **OPTIONS)
    parts, text = told(OBSERVATIONS, findings)
    assert "dose is" in text and "The intercept, the level of the response at this place: " in text
    assert "east" not in text and "baseline" not in text
    found = findings.explained
    f = bx.predictions(
        model, findings.idata, obs=findings.chosen, keep="summary", progressbar=False
    )
    whole = found["offset"] + found["contribution_mean"].sum("feature")
    assert np.allclose(whole, f["f_mean"])
    assert number(found["contribution_mean"].sel(obs=findings.chosen[0]).sum()) in text
    about = [part.option for part in parts if part.kind == "figure"]
    assert about == [str(label) for label in findings.chosen]
    captions = [part.caption for make in SLOPES.makers for part in make(findings)]
    assert any("at their places" in caption for caption in captions)
    assert not any("baseline" in text for text in told(CAUTIONS, findings)[1:])


def test_the_features_that_make_weights_vary_are_named(data):
    X, y = data
    rng = np.random.default_rng(6)
    places = pd.DataFrame(rng.uniform(size=(40, 2)), columns=["east", "north"], index=X.index)
    y = y + 5.0 * places["north"] * X["dose"]
    findings = Findings(
        bx.GPX(places, y, X), THETA | {"sigma_w": 0.1}, None, None, y_new=None, **OPTIONS
    )
    parts, _ = told(SLOPES, findings)
    (table,) = [p for p in parts if p.kind == "table" and "largest weights" in p.caption]
    assert table.rows[0][:2] == ["dose", "north"]
    for weight, feature, size, sure in table.rows:
        found = findings.driven(weight).sel(feature=feature)
        low, high = found["attribution_interval"].transpose("ci_bound", "obs").values
        assert size == pytest.approx(np.mean(np.abs(found["attribution_mean"].values)))
        assert sure == pytest.approx(100 * np.mean((low > 0) | (high < 0)))
    captions = [part.caption for part in parts if part.kind == "figure"]
    assert "What makes the weight of dose vary over the map." in captions


def test_baselines_that_no_row_has_are_told_by_their_shares(data):
    X, y = data
    levels = pd.Categorical(np.where(X["age"] > 0.6, "a", "b"))
    X = pd.DataFrame({"dose": X["dose"], "kind": levels, "code": np.where(X["age"] > 0.0, 5, 2)})
    model, theta = bx.GP(X, y), THETA | {"lengthscale": [1.0, 1.5, 2.0]}
    findings = Findings(model, theta, None, None, y_new=None, **OPTIONS)
    text = told(OBSERVATIONS, findings)[1]
    a = (levels == "a").mean()
    assert f"rather than a mixture (a {a:.0%}, b {1 - a:.0%}): " in text
    assert f"rather than a mixture ({(X['code'] == 5).mean():.0%} at 5): " in text
    assert text.startswith(
        "The observations below have the lowest, a middle and the highest prediction"
    )
    row = X.iloc[[7]].assign(code=3.0)
    findings = Findings(model, theta, None, None, y_new=None, **OPTIONS | {"baseline": row})
    text = told(OBSERVATIONS, findings)[1]
    assert "rather than a mixture (33% at 5): " in text and "mixture (a" not in text
    findings = Findings(model, theta, None, None, y_new=None, **OPTIONS | {"obs": [3]})
    assert told(OBSERVATIONS, findings)[1].startswith(
        "The observations below were chosen by whoever"
    )


def test_slopes_are_drawn_only_of_many_values(data):
    X, y = data
    X = X.assign(few=np.arange(40) % 3)
    theta = THETA | {"lengthscale": [1.0, 1.5, 2.0]}
    findings = Findings(bx.GP(X, y), theta, None, None, y_new=None, **OPTIONS)
    assert findings.curves["feature"].values.tolist() == ["dose", "age", "few"]
    captions = [p.caption for make in SLOPES.makers for p in make(findings) if p.kind == "figure"]
    assert captions[0].startswith("Average prediction along each feature")
    assert captions[1].startswith("Each slope against the value of its feature, of features with ")
    only = bx.GP(X[["few"]], y), THETA | {"lengthscale": 1.0}
    findings = Findings(*only, None, None, y_new=None, **OPTIONS)
    captions = [p.caption for make in SLOPES.makers for p in make(findings) if p.kind == "figure"]
    assert len(captions) == 1


def test_the_table_of_weights_is_about_the_weight_functions(data):
    """Deviations hide effects that the sentences on single rows find clear; they stand beside."""
    X, y = data
    model, theta = bx.GPX(X, y), THETA | {"lengthscale": 3.0, "sigma_w": 0.9}
    findings = Findings(model, theta, None, None, y_new=None, **OPTIONS)
    table = next(SLOPES.makers[0](findings))
    options = {"draws": 500, "progressbar": False}
    g = bx.weights(model, theta, smooth=True, **options)
    own = bx.weights(model, theta, **options)
    low, high = (g["weight_interval"].sel(ci_bound=end) for end in ("lower", "upper"))
    columns = np.array([row[1:] for row in table.rows])
    assert_allclose(columns[:, 0], g["weight_mean"].mean("obs"))
    assert_allclose(columns[:, 3], 100 * (low > 0).mean("obs"))
    assert_allclose(columns[:, 4], 100 * (high < 0).mean("obs"))
    hidden = (own["weight_interval"].sel(ci_bound="lower") > 0).mean("obs").values
    assert columns[0, 3] > 80 > 100 * hidden[0]
    new = bx.weights(model, theta, X, **options)
    assert_allclose(columns[:, 5] ** 2, (new["weight_sd"] ** 2 - g["weight_sd"] ** 2).mean("obs"))


def test_relevance_stands_beside_that_of_permuted_columns(data):
    X, y = data
    model = bx.GP(X.assign(noise=np.random.default_rng(3).normal(size=40)), y)
    idata = model.fit("map", seed=1, progressbar=False)
    findings = Findings(model, idata, None, None, y_new=None, **OPTIONS | {"null": 4})
    parts, text = told(RANKS, findings)
    found = bx.relevance(model, idata, keep="summary", null=4, seed=3, progressbar=False)
    table = next(part for part in parts if part.kind == "table")
    assert table.columns == ["feature", "relevance", "reference, 95%", "p"]
    for name, relevance, high, p in table.rows:
        one = found.sel(feature=name)
        expected = (
            one["average_relevance"],
            one["relevance_null"].quantile(0.95),
            one["relevance_p"],
        )
        assert_allclose([relevance, high, p], [float(np.squeeze(v)) for v in expected])
    assert "never 0, not even for noise" in text and "in 4 refits" in text
    assert "Not distinguished from no effect (p > 0.05): dose, age, noise" in text
    without = Findings(model, idata, None, None, y_new=None, **OPTIONS)
    assert "No reference was computed" in told(RANKS, without)[1]


@pytest.mark.parametrize("prior", ["shared", "per_feature", "horseshoe"])
def test_deviations_are_what_a_new_samples_weight_has_beside_its_function(data, prior):
    model = bx.GPX(*data, weight_prior=prior)
    by_feature = model.hyperparameters["amplitude"] == 1
    theta = THETA | {"sigma_w": 0.4, "amplitude": [0.7, 1.6] if by_feature else 0.7}
    idata = known(model, scattered(theta, 5))
    new, g = (
        bx.weights(model, idata, data[0].iloc[:3], smooth=smooth, keep="summary", progressbar=False)
        for smooth in (False, True)
    )
    apart = np.sqrt(new["weight_sd"] ** 2 - g["weight_sd"] ** 2)
    found = deviation_sds(model, idata).broadcast_like(apart).transpose(*apart.dims)
    assert_allclose(apart, found, rtol=1e-6)


def test_a_difference_is_divided_by_shapley_values_where_asked(data):
    model = bx.GP(*data)
    findings = Findings(model, THETA, None, None, y_new=None, attribution="shapley", **OPTIONS)
    _, text = told(OBSERVATIONS, findings)
    assert "by Shapley values" in text
    options = {"obs": findings.chosen, "baseline": findings.baseline, "keep": "summary"}
    found = bx.shapley_values(model, THETA, progressbar=False, **options)
    for mean in found["attribution_mean"].values.ravel():
        assert number(abs(mean)) in text
    _, cited = told(CITING, findings)
    assert "n-person games" in cited and "integrated gradients" not in cited


def test_levels_have_predictions_in_place_of_slopes(data):
    X, y = data
    kinds = pd.DataFrame({"kind": pd.Categorical(np.resize(["a", "b", "c"], 40))})
    model = bx.GP(kinds, y)
    findings = Findings(model, THETA | {"lengthscale": 1.0}, None, None, y_new=None, **OPTIONS)
    parts, _ = told(SLOPES, findings)
    assert ["along each feature" in part.caption for part in parts] == [True]


@pytest.mark.parametrize(
    ("diagnosis", "tone"),
    [
        (Diagnosis(1.003, 900.0, 800.0, 0, 4000), None),
        (Diagnosis(1.02, 900.0, 800.0, 1, 4000), "note"),
        (Diagnosis(1.2, 20.0, 30.0, 0, 4000), "bad"),
    ],
)
def test_a_convergence_summary_is_a_caution(data, diagnosis, tone):
    X, y = data
    findings = Findings(bx.GP(X, y), THETA, None, None, y_new=None, **OPTIONS)
    findings.diagnosis = diagnosis
    cautions = [part for part in CAUTIONS.makers[0](findings)]
    assert [part.tone for part in cautions] == ([] if tone is None else [tone])
    assert all(part.text == diagnosis.summary for part in cautions)


def test_every_label_has_its_weights(data):
    X, y = data
    labels = pd.Series(np.digitize(y, [9.0, 11.0]).astype(str))
    model = bx.GPX(X, labels, likelihood="categorical")
    theta = {"lengthscale": 1.0, "amplitude": 1.0, "sigma_w": 0.2}
    parts, text = told(SLOPES, Findings(model, theta, None, None, y_new=None, **OPTIONS))
    for label in "012":
        assert f"Weight functions of label {label} at 40 observations" in text
    captions = [part.caption for part in parts if part.kind == "figure"]
    assert sum("of label 1" in caption for caption in captions) == 3


def test_counts_with_an_exposure_are_not_scored_at_another(data):
    X, y = data
    options = {"likelihood": "poisson", "exposure": np.linspace(1.0, 3.0, 40)}
    model = bx.GP(X, y.round().clip(0), **options)
    theta = {"lengthscale": 1.0, "amplitude": 1.0}
    with pytest.raises(ValueError, match=r"no exposure of new observations.*exposure="):
        Findings(model, theta, X[:3], None, y_new=y[:3].round().clip(0), **OPTIONS)


def test_components_are_drawn_where_f_is_a_sum(data):
    X, y = data
    theta = {"linear_amplitude": 1.0, "expquad_lengthscale": [1.0, 1.5], "expquad_amplitude": 1.0}
    model = bx.GP(X, y, kernel="linear + expquad")
    findings = Findings(model, theta | {"sigma": 0.3}, None, None, y_new=None, **OPTIONS)
    parts, text = told(SLOPES, findings)
    found = bx.components(model, theta | {"sigma": 0.3}, keep="summary", progressbar=False)
    table = next(p for p in parts if p.kind == "table" and p.columns[0] == "component")
    assert [row[0] for row in table.rows] == ["linear", "expquad", "constant"]
    assert [row[1] for row in table.rows] == pytest.approx(100 * found["share"].values)
    assert "Components over 40 observations, pressure." in text
    alone = Findings(bx.GP(X, y), THETA, None, None, y_new=None, **OPTIONS)
    assert not alone.summed


def test_rows_of_known_and_new_groups_are_explained_as_such():
    own = np.random.default_rng(2)
    X = pd.DataFrame({"a": own.normal(size=20), "b": own.normal(size=20)})
    groups = np.array(list("pqrs") * 5)
    model = bx.GP(X, X["a"] + (groups == "p"), groups=groups, scale=False)
    theta = {"lengthscale": [1.0, 1.0], "amplitude": 1.0, "group_amplitude": 1.0, "sigma": 0.3}
    new = ["p", "q", "r", "s", "someone else"]
    found = Findings(model, theta, X[:5], None, groups_new=new, y_new=None, **OPTIONS)
    expected = bx.predictions(model, theta, X[:5], groups_new=new, seed=1, progressbar=False)
    assert_allclose(found.predicted["f_mean"], expected["f_mean"])
    assert "within the observed range" in told(CAUTIONS, found)[1]
    with pytest.raises(ValueError, match="pass groups_new"):
        Findings(model, theta, X[:5], None, y_new=None, **OPTIONS)


@pytest.mark.parametrize("labelled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_rows_in_parts_are_described_by_all_of_them(labelled, data, tmp_path, monkeypatch):
    monkeypatch.setattr(results, "LATENT_DRAWS", 20)  # neither the card nor warnings show draws
    X, y = data
    X = X.assign(kind=pd.Categorical(np.where(X["age"] > 0.3, "a", "b")))
    y = pd.Series(np.where(y > y.median(), "high", "low"), name="pressure") if labelled else y
    how = {"approximation": bx.Inducing(8), "likelihood": "bernoulli" if labelled else "normal"}
    streamed = bx.GP(Frames(X.assign(pressure=y)), "pressure", **how)
    idata = streamed.fit("map", seed=1, progressbar=False)
    bx.save(streamed, idata, tmp_path / "fit.nc")
    whole, described = bx.GP(X, y, **how), []
    for model in (whole, streamed, bx.load(tmp_path / "fit.nc")[0]):
        findings = Findings(model, idata, X[:5], None, y_new=None, **OPTIONS)
        parts = [part for make in CARD.makers[:2] for part in make(findings)]
        tables = [part.rows for part in parts if part.kind == "table"]
        described.append((dict(parts[0].rows)["Response"], *tables))
        text = told(CAUTIONS, findings)[1]
        assert "lies within the observed range of every feature" in text
        assert "No training observation is near the baseline" not in text
    (response, *tables), *others = described
    for said, *same in others:
        assert said == ("pressure, labels high, low" if labelled else response)
        for rows, exact in zip(same, tables, strict=True):
            assert_allclose([row[2:] for row in rows], [row[2:] for row in exact], rtol=1e-12)


def test_values_that_were_filled_in_are_a_caution(data):
    model = bx.GP(*data)
    idata = known(model, [THETA])
    idata.attrs["imputed"] = "Filled in 3 values.\nFilled in 1 value of new.csv."
    _, text = told(CAUTIONS, Findings(model, idata, None, None, y_new=None, **OPTIONS))
    assert "Filled in 3 values. Intervals do not include" in text
    assert "Filled in 1 value of new.csv. Intervals do not include" in text


def test_sentences_say_which_values_were_filled_in(data):
    model = bx.GP(*data)
    idata, (first, other) = known(model, [THETA]), model.training.X.index[:2].tolist()
    name = model.training.X.columns[0]
    idata.attrs["imputed_cells"] = json.dumps({str(first): [name]})
    options = OPTIONS | {"obs": [first, other]}
    _, text = told(OBSERVATIONS, Findings(model, idata, None, None, y_new=None, **options))
    own, others = text.split(f"Observation {other}: ")
    assert re.search(rf"{name} is \S+ \(missing, so filled in\) rather than ", own)
    assert own.count("filled in") == 1 and "filled in" not in others


def test_a_first_rank_that_is_not_clear_is_no_statement(data):
    X, y = data
    model = bx.GP(X, y)
    close = known(model, [THETA, THETA | {"lengthscale": [1.5, 1.0]}])
    findings = Findings(model, close, None, None, y_new=None, **OPTIONS)
    first = float(findings.ranked["probability_rank"].sel(rank=1).max())
    _, text = told(RANKS, findings)
    clear = "The most relevant feature is" in text
    assert clear == (first >= 0.9) and ("No feature is clearly the most relevant" in text) != clear


def test_categories_that_have_weights_at_a_place_are_told_by_their_shares(data):
    X, y = data
    places = pd.DataFrame({"east": np.linspace(0.0, 1.0, 40)}, X.index)
    kind = pd.Categorical(np.resize(["a", "b", "b", "b"], 40))
    model = bx.GPX(places, y, X[["dose"]].assign(kind=kind))
    theta = THETA | {"lengthscale": 1.0, "sigma_w": 0.1}
    _, text = told(OBSERVATIONS, Findings(model, theta, None, None, y_new=None, **OPTIONS))
    assert "rather than a mixture (a 25%, b 75%): " in text


def test_columns_that_hold_the_same_are_a_caution(data):
    X, y = data
    with pytest.warns(UserWarning, match="hold the same values"):
        model = bx.GP(X.assign(months=12.0 * X["age"]), y)
    theta = THETA | {"lengthscale": [1.0, 1.5, 1.5]}
    _, text = told(CAUTIONS, Findings(model, theta, None, None, y_new=None, **OPTIONS))
    assert "X has columns that hold the same values, perhaps in other units: 'age' and" in text


def test_dates_are_written_as_dates(data):
    X, y = data
    days = pd.date_range("2024-03-01", periods=40).to_series(index=X.index)
    model = bx.GP(X.assign(day=days), y)
    theta = THETA | {"lengthscale": [1.0, 1.5, 1.5]}
    findings = Findings(model, theta, None, None, y_new=None, **OPTIONS | {"obs": [0]})
    _, text = told(OBSERVATIONS, findings)
    assert "day is 2024-03-01 rather than 2024-03-20" in text
    parts, _ = told(CARD, findings)
    (table,) = (part for part in parts if getattr(part, "columns", None) and "mean" in part.columns)
    (day,) = (row for row in table.rows if row[0] == "day")
    assert day[2:] == [
        "2024-03-20",
        f"{number(days.diff().iloc[1].days * np.arange(40).std())} days",
        "2024-03-01",
        "2024-04-09",
    ]


def test_times_of_one_day_stay_apart(data):
    X, y = data
    times = pd.date_range("2024-03-01", periods=40, freq="30min").to_series(index=X.index)
    model = bx.GP(X.assign(at=times), y)
    theta = THETA | {"lengthscale": [1.0, 1.5, 1.5]}
    findings = Findings(model, theta, None, None, y_new=None, **OPTIONS | {"obs": [0]})
    _, text = told(OBSERVATIONS, findings)
    assert "at is 2024-03-01 00:00 rather than 2024-03-01 09:45" in text


def test_a_value_near_the_baseline_is_not_called_equal(data):
    X, y = data
    years = 2000.0 + np.arange(40) % 16
    model = bx.GP(X[["dose"]].assign(year=years), y)
    findings = Findings(model, THETA, None, None, y_new=None, **OPTIONS | {"obs": [7, 8]})
    text = told(OBSERVATIONS, findings)[1]
    assert years.mean() == 2006.7
    assert "year is 2007 rather than 2006.7: " in text
    assert "as in the baseline" not in text


def test_rows_of_two_processes_are_explained_by_the_mean_and_by_the_sd(data):
    X, y = data
    model = bx.GP(X, y, likelihood="heteroscedastic_normal")
    theta = {"lengthscale": [[1.0, 1.5], [2.0, 2.5]], "amplitude": [1.0, 0.5]}
    options = {"baseline": "mean", "seed": 3, "null": False, "obs": [4]}
    findings = Findings(model, theta, None, None, y_new=None, **options)
    parts, text = told(OBSERVATIONS, findings)
    found, predicted = findings.attributed.isel(obs=0), findings.predicted_chosen.isel(obs=0)
    points = [part for part in parts if part.kind == "points"]
    for own, name, said in zip(points, ["mean", "sd"], ["prediction", "sd"], strict=True):
        of_y = predicted["sd_mean" if name == "sd" else "y_mean"].item()
        shares = found["attribution_mean"].sel({"class": name}).sortby("feature").values
        assert own.heading.startswith(f"Observation 4: {said} {number(of_y)} [")
        assert {float(re.search(r": (\S+) \[", one)[1]) for one in own.sentences[-2:]} == {
            float(number(share)) for share in shares
        }
    pc = bx.plot_waterfall(
        found.sel({"class": "sd"}).expand_dims("obs"),
        predictions=predicted.expand_dims("obs"),
        backend="matplotlib",
    )
    first, *_, last = pc.viz["figure"].item().axes[0].get_yticklabels()
    before = predicted["sd_mean"] - found["difference_mean"].sel({"class": "sd"})
    assert first.get_text() == f"baseline: {before.item():.4g}"
    assert last.get_text() == f"prediction: {predicted['sd_mean'].item():.4g}"
    assert "Strongest effects on pressure, on average over 40" in told(SUMMARY, findings)[1]
    assert "relative error of" in told(CAUTIONS, findings)[1]


def test_means_beyond_the_longest_duration_are_pointed_out():
    X = pd.DataFrame({"dose": np.linspace(-1.0, 1.0, 20)})
    weeks = pd.Series(np.where(X["dose"] > 0.5, 52.0, 10.0 + 20.0 * (X["dose"] + 1.0)), name="week")
    theta = {"lengthscale": [2.0], "amplitude": 1.0, "shape": 2.0}
    said = []
    for kinds in (np.where(X["dose"] > 0.5, "right", "none"), None):
        model = bx.GP(X, weeks, likelihood="weibull", censoring=kinds)
        findings = Findings(model, theta, None, None, **OPTIONS, y_new=None)
        _, text = told(CAUTIONS, findings)
        said.append("There the tail of the distribution decides" in text)
        mean = bx.predictions(model, theta, keep="summary", progressbar=False)["response_mean"]
        reached = f"Expected values of week reach {number(mean.max().item())}, beyond the largest"
        assert (reached in text) == said[-1] == (kinds is not None)
