"""What a report says of several models: their scores, and what each explains."""

import numpy as np
import pandas as pd
import pytest
from test_report_sections import told

import bayes_gpx as bx
from bayes_gpx.reporting.results import OWN, Findings
from bayes_gpx.reporting.sections import MODELS

QUIET = {"progressbar": False, "seed": 1}
OPTIONS = {"baseline": "mean", "seed": 3}
N = 30

pytestmark = pytest.mark.filterwarnings("ignore:The posterior is far from its Laplace")


def table(parts, start):
    (found,) = [part for part in parts if part.kind == "table" and part.caption.startswith(start)]
    return found


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    X = pd.DataFrame({"x": np.linspace(-2.0, 3.0, N), "z": rng.normal(size=N)})
    y = pd.Series(X["x"] ** 2 + 0.2 * rng.normal(size=N), name="y")
    y.attrs["units"] = "mm"
    return X, y


@pytest.fixture(scope="module")
def fits(data):
    models = {name: bx.GP(*data, kernel=name) for name in ("expquad", "linear")}
    return {name: (m, m.fit("laplace", draws=40, **QUIET)) for name, m in models.items()}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The largest Pareto k")
def test_scores_and_shares_are_those_of_the_verbs(fits):
    own, line = fits["expquad"], fits["linear"]
    findings = Findings(*own, None, None, y_new=None, obs=[0, 4], others={"line": line}, **OPTIONS)
    parts, text = told(MODELS, findings)
    frame = bx.compare({OWN: own, "line": line})
    scores = table(parts, "Log predictive densities")
    assert [row[0] for row in scores.rows] == frame.index.tolist()
    assert [row[1] for row in scores.rows] == frame["elpd"].tolist()
    assert [row[4] for row in scores.rows] == frame["weight"].round(3).tolist()
    assert all(f"{name}: {note}." in text for name, note in frame["note"].items())
    options = {"obs": [0, 4], "keep": "summary", "progressbar": False}
    each = [bx.attributions(*fit, **options) for fit in (own, line)]
    both = bx.combined(each, [frame["weight"].round(3)[name] for name in (OWN, "line")])
    rows = table(parts, "The attributions of each model").rows
    assert len(rows) == 4
    for label, feature, *numbers in rows:
        at = {"obs": int(label), "feature": feature}
        expected = [float(found["attribution_mean"].sel(at)) for found in each]
        expected += [float(both[f"attribution_{end}"].sel(at)) for end in ("mean", "sd", "between")]
        np.testing.assert_allclose(numbers, expected)
    # At the left end a parabola is above its value at the mean, and the line below.
    means = [float(found["attribution_mean"].sel(obs=0, feature="x")) for found in each]
    assert means[0] > 0 > means[1]
    assert (
        "disagree on the sign of attributions" in text
        and "on different sides of 0: x in observation 0" in text
    )
    share = (both["attribution_between"] ** 2).sum() / (both["attribution_sd"] ** 2).sum()
    assert f"{float(share):.0%} is between the models;" in text


def test_single_draws_count_equally_and_agreement_is_said(data):
    model, other = (bx.GP(*data, kernel=name) for name in ("expquad", "matern52"))
    own, like = ((m, m.fit("map", **QUIET)) for m in (model, other))
    findings = Findings(*own, None, None, y_new=None, obs=[0], others={"rough": like}, **OPTIONS)
    parts, text = told(MODELS, findings)
    assert "count equally" in text and "equal weights" in text
    row = table(parts, "The attributions of each model").rows[0]
    np.testing.assert_allclose(row[4], (row[2] + row[3]) / 2)
    assert row[1] == "x"
    assert "No attribution has opposite signs" in text
    assert (
        "In each observation the largest attribution is of the same feature in all models" in text
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["labels", "places"])
def test_labels_and_weights_at_places_have_their_own_shares(data, kind):
    X, y = data
    if kind == "labels":
        labels = pd.Series(np.array(["a", "b", "c"])[np.digitize(y, [0.5, 3.0])], name="y")
        models = [
            bx.GP(X, labels, likelihood="categorical", kernel=k) for k in ("expquad", "linear")
        ]
    else:
        models = [bx.GPX(X[["x"]], y, X[["z"]], kernel=k) for k in ("expquad", "matern52")]
    own, other = ((m, m.fit("map", **QUIET)) for m in models)
    findings = Findings(*own, None, None, y_new=None, obs=None, others={"other": other}, **OPTIONS)
    parts, _ = told(MODELS, findings)
    rows = table(parts, f"The {findings.share_name}s of each model").rows
    verb = bx.attributions if kind == "labels" else bx.contributions
    found = verb(*own, obs=findings.chosen, keep="summary", progressbar=False)
    for label, feature, mean, *_ in rows:
        one = found.sel(obs=int(label), feature=feature)
        if kind == "labels":
            likely = findings.predicted_chosen["probability_mean"].sel(obs=int(label))
            one = one.sel({"class": likely["class"][int(likely.argmax("class"))]})
        np.testing.assert_allclose(mean, one[f"{findings.share_name}_mean"])


@pytest.mark.slow
def test_the_page_has_the_section_where_there_are_others(fits, tmp_path, monkeypatch):
    monkeypatch.setattr("bayes_gpx.reporting.report.SECTIONS", [])
    path, others = tmp_path / "report.html", {"line": fits["linear"]}
    bx.report(*fits["expquad"], path=path, seed=1, others=others, obs=[0])
    page = path.read_text()
    assert MODELS.title in page and "could not be made" not in page
    bx.report(*fits["expquad"], path=path, seed=1)
    assert MODELS.title not in path.read_text()


@pytest.mark.slow
def test_refuses_models_that_explain_something_else(data, fits, tmp_path):
    narrow = bx.GP(data[0][["x"]], data[1], priors={"lengthscale": 1.0, "amplitude": 1.0})
    alone = narrow, narrow.fit("laplace", draws=20, **QUIET)
    mode = fits["linear"][0], fits["linear"][0].fit("map", **QUIET)
    for others, message in (
        ({OWN: fits["linear"]}, "no name 'this model'"),
        ([fits["linear"]], "Pass a dict of"),
        ({"narrow": alone}, "same columns"),
        ({"mode": mode}, "Use the same method"),
        ({"theta": (fits["linear"][0], {"sigma": 1.0})}, "without a group `posterior`"),
    ):
        with pytest.raises(ValueError, match=message):
            bx.report(*fits["expquad"], path=tmp_path / "report.html", others=others)
