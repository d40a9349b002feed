"""A report says what the verbs say, in one file that needs nothing else."""

import base64
import re
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import bayes_gpx as bx
from bayes_gpx.export import tables
from bayes_gpx.reporting import sections
from bayes_gpx.reporting.page import number
from bayes_gpx.reporting.results import Findings
from bayes_gpx.reporting.sections import observations
from bayes_gpx.reporting.sections.slopes import SLOPES

SEED = 3
HOSTILE = "dose/day <b> & co/"
TITLES = [section.title for section in sections.SECTIONS]


class Document(HTMLParser):
    """Addresses, text of the body, and images of a page."""

    def __init__(self, path):
        super().__init__()
        self.source = path.read_text(encoding="utf-8")
        self.loaded, self.text, self.images, self.cells, self._in = [], "", [], [], None
        self.feed(self.source)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag == "img":
            self.images.append(attrs["src"])
        self.loaded += [attrs[k] for k in ("src", "href", "srcset", "data") if k in attrs]
        if "data-value" in attrs:
            self.cells.append(float(attrs["data-value"]))
        self._in = tag

    def handle_data(self, data):
        if self._in not in ("style", "script"):
            self.text += data


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(8)
    X = pd.DataFrame(rng.normal([5.0, -2.0], [2.0, 0.3], (20, 2)), columns=["age", HOSTILE])
    y = pd.Series(100 + 12 * np.sin(X["age"]) + rng.normal(0, 2, 20), name="pressure")
    X.attrs["units"], y.attrs["units"] = {"age": "years"}, "mmHg"
    return X, y


@pytest.fixture(scope="module")
def fitted(data):
    model = bx.GP(*data)
    return model, model.fit("map", seed=4, progressbar=False)


@pytest.fixture(scope="module")
def page(fitted, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    assert bx.report(*fitted, path=path, seed=SEED) == path
    return Document(path)


def test_every_section_is_there_and_whole(page):
    assert [page.text.count(title) >= 2 for title in TITLES] == [True] * len(TITLES)
    assert "could not be made" not in page.text and "incomplete" not in page.text
    for image in page.images:
        kind, _, png = image.partition(",")
        assert kind == "data:image/png;base64"
        assert base64.b64decode(png, validate=True).startswith(b"\x89PNG")
    # Prior, calibration, replications, ranks, pairs, curves, slopes, three observations.
    assert len(page.images) == 10


@pytest.mark.parametrize("prob", [None, 0.5])
def test_text_picture_and_csv_have_the_same_intervals(fitted, tmp_path, monkeypatch, prob):
    """Of the attributions of one row; they are the mixture's own, not those of its draws."""
    drawn, told = [], []
    waterfall, sentences = observations.plot_waterfall, observations._sentences

    def seen(found, **options):
        drawn.append(waterfall(found, **options))
        return drawn[-1]

    def heard(findings, found):
        told.extend(sentences(findings, found))
        return iter(())

    monkeypatch.setattr(observations, "plot_waterfall", seen)
    monkeypatch.setattr(observations, "_sentences", heard)
    few = [s for s in sections.SECTIONS if s.key == "observations"]
    monkeypatch.setattr("bayes_gpx.reporting.report.SECTIONS", few)
    model, idata = fitted
    X = pd.DataFrame(model.training.X.values[[4]], ["q"], model.training.X.columns)
    bx.report(model, idata, X, path=tmp_path / "r.html", seed=SEED, obs="q", ci_prob=prob)
    given = {} if prob is None else {"ci_prob": prob}
    exact = bx.attributions(model, idata, X, keep="summary", progressbar=False, **given)
    assert exact.attrs["ci_prob"] == (prob or 0.9)
    beside = tables.Beside()
    ((csv, _),) = tables.explained(model, idata, X, beside, baseline="mean", seed=9, **given)
    ends = exact["attribution_interval"].isel(obs=0).transpose("feature", "ci_bound").values
    np.testing.assert_allclose(csv[["attribution_lower", "attribution_upper"]], ends)
    order = np.argsort(-np.abs(exact["attribution_mean"].values[0]))
    zero, intervals = (line.get_xdata() for line in drawn[0].viz["plot"].item().lines[-2:])
    shown = intervals.reshape((-1, 3))[:, :2] - zero[0]
    np.testing.assert_allclose(shown, ends[order], rtol=1e-9, atol=1e-9)
    for k, i in enumerate(order):
        low, high = ends[i]
        sizes = ends[i] if low <= 0 <= high else np.sort(np.abs(ends[i]))
        assert ", ".join(map(number, sizes)) in told[k]


def test_nothing_is_fetched(page):
    assert [a for a in page.loaded if not a.startswith(("data:", "#"))] == []
    assert not re.search(r"url\(|@import|https?:|fetch\(", page.source)


def test_names_cannot_break_the_page(page):
    assert "<b>" not in page.source and HOSTILE in unescape(page.source)


def test_the_card_says_what_was_fitted(page, fitted):
    for told in ("expquad", "LogNormal(0.847, 1)", "Seed of the fit", "mmHg", "years", "pymc 6"):
        assert told in page.text
    posterior = fitted[1]["posterior"]
    for name in ("lengthscale", "amplitude", "sigma"):
        for value in posterior[name].values.ravel():
            assert value in page.cells


def test_what_a_map_hides_is_said(page):
    assert "as if they were known" in page.text
    assert "Leave-one-out checks need 100 draws" in page.text
    assert "uncertainty of relevances, interactions and ranks is unknown" in page.text
    assert "how probable each rank is" not in page.text


@pytest.mark.slow
def test_a_slash_in_a_name_costs_no_section(data, tmp_path):
    X, y = data
    model = bx.GP(X.set_axis(["km/h", "a/b/"], axis=1), y.rename("kg/l"))
    idata = model.fit("laplace", draws=20, seed=1, progressbar=False)
    path = bx.report(model, idata, path=tmp_path / "r.html", seed=1, obs=[0])
    assert "could not be made" not in Document(path).text


def test_words_agree_with_the_verbs(page, fitted):
    predicted = bx.predictions(*fitted, seed=SEED, progressbar=False)
    order = np.argsort(predicted["y_mean"].values)
    chosen = predicted["obs"].values[order[[0, 10, -1]]]
    options = {"num_draws": 200, "draws": 1000, "seed": SEED, "progressbar": False}
    found = bx.attributions(*fitted, obs=chosen, **options)
    for label in chosen:
        one = found.sel(obs=label)
        mean = number(predicted["y_mean"].sel(obs=label))
        assert f"Observation {label}: prediction {mean} [" in page.text
        assert f"difference from the baseline is {number(one['difference_mean'])} [" in page.text
        age = one.sel(feature="age")
        low, high = age["attribution_interval"].values
        share = float(age["attribution_mean"])
        sign = "+" if share > 0 else ""
        assert low * high > 0
        assert (
            f"age is {number(age['value'])} rather than {number(age['baseline'])} years: "
            f"{sign}{number(share)} [{number(low)}, {number(high)}]." in page.text
        )
    assert "because" not in page.text
    assert "the lowest, a middle and the highest prediction among" in page.text


def test_tables_agree_with_the_verbs(page, fitted):
    relevant = bx.relevance(*fitted, progressbar=False)["average_relevance"].values
    for value in relevant.ravel():
        assert np.isclose(page.cells, value, rtol=1e-10).any()
    sloped = bx.slopes(*fitted, seed=SEED, progressbar=False)["average_slope_mean"].values
    for value in sloped:
        assert np.isclose(page.cells, value, rtol=1e-10).any()


@pytest.mark.slow
def test_every_label_has_its_average_slopes(data):
    X = data[0][:9]
    labels = pd.Series(np.repeat(["low", "mid", "high"], 3), name="grade")
    model, theta = (
        bx.GP(X, labels, likelihood="categorical"),
        {"lengthscale": 1.0, "amplitude": 1.0},
    )
    options = {"y_new": None, "obs": None, "baseline": "mean", "seed": SEED}
    findings = Findings(model, theta, None, None, **options)
    parts = [part for make in SLOPES.makers for part in make(findings)]
    tables = [part for part in parts if part.kind == "table"]
    expected = bx.slopes(model, theta, seed=SEED, progressbar=False)["average_slope_mean"]
    for table, label in zip(tables, ["high", "low", "mid"], strict=True):
        said = f"Average slopes of label {label} over 9 observations, probability of grade per unit"
        assert table.caption.startswith(said)
        found = [row[1] for row in table.rows]
        assert np.allclose(found, expected.sel({"class": label}), rtol=1e-10)


def test_a_section_that_fails_says_so_and_the_others_stand(fitted, tmp_path, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("no picture today")

    monkeypatch.setattr(observations, "plot_waterfall", broken)
    few = [s for s in sections.SECTIONS if s.key in ("card", "observations", "citing")]
    monkeypatch.setattr("bayes_gpx.reporting.report.SECTIONS", few)
    with pytest.warns(UserWarning, match="could not be made, under 'Why these predictions\\?'. It"):
        bx.report(*fitted, path=tmp_path / "r.html", seed=SEED, obs=[3])
    text = Document(tmp_path / "r.html").text
    assert "This part could not be made. RuntimeError: no picture today" in text
    assert "Observation 3: prediction" in text and "Please cite" in text and "(incomplete)" in text


def test_an_interruption_keeps_what_is_done(fitted, tmp_path, monkeypatch):
    def stopped(_):
        raise KeyboardInterrupt
        yield

    few = [s for s in sections.SECTIONS if s.key in ("card", "citing")]
    few.insert(1, sections.SECTIONS[1].__class__("checks", "Checks", (stopped,)))
    monkeypatch.setattr("bayes_gpx.reporting.report.SECTIONS", few)
    with pytest.raises(KeyboardInterrupt):
        bx.report(*fitted, path=tmp_path / "r.html", seed=SEED)
    text = Document(tmp_path / "r.html").text
    assert "Model card" in text and text.count("was interrupted before this") == 2


def test_a_baseline_far_from_the_data_is_warned_of(fitted, tmp_path, monkeypatch):
    few = [s for s in sections.SECTIONS if s.key == "warnings"]
    monkeypatch.setattr("bayes_gpx.reporting.report.SECTIONS", few)
    X_new = fitted[0].training.X.values[:3] + [[0.0, 9.0]]
    bx.report(*fitted, X_new, path=tmp_path / "r.html", seed=SEED, baseline=[40.0, -2.0])
    text = Document(tmp_path / "r.html").text
    assert "outside the training data in age" in text and "No training observation is near" in text
    assert f"3 of 3 rows leave the training data: {HOSTILE} in 3, as far as " in text


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"path": "nowhere/at/all.html"}, "in a folder that exists"),
        ({"obs": [99]}, "no rows labelled"),
        ({"baseline": "average"}, "unknown 'average'"),
        ({"attribution": "permutations"}, "'permutations'. Pass one of"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_what_does_not_fit_is_refused_at_once(fitted, tmp_path, wrong, match):
    options = {"path": tmp_path / "r.html", **wrong}
    with pytest.raises(ValueError, match=match):
        bx.report(*fitted, **options)
    assert not list(tmp_path.iterdir())


def test_numbers_in_words():
    told = {
        296.4: "296",
        0.4249: "0.425",
        -0.04: "-0.04",
        0.0: "0",
        1234.5: "1234",
        1e9: "1.00e+09",
    }
    assert {value: number(value) for value in told} == told
    assert number(-0.0) == "0" and number(float("nan")) == "not finite"
