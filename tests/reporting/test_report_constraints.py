"""Constraints in a report: probabilities, violations, and conflicts with the data."""

import numpy as np
import pandas as pd
import pytest

import bayes_gpx as bx
from bayes_gpx.draws.constraints_met import constraints_met
from bayes_gpx.model.constraints import Decreasing, Increasing, Value
from bayes_gpx.reporting.page import number
from bayes_gpx.reporting.results import Findings
from bayes_gpx.reporting.sections import CONSTRAINTS, SECTIONS
from bayes_gpx.reporting.sections.cautions import contradicted

OPTIONS = {"y_new": None, "obs": None, "baseline": "mean", "seed": 3}
THETA = {"lengthscale": [1.5], "amplitude": 1.0, "sigma": 0.3}


def findings_of(constraints):
    rng = np.random.default_rng(5)
    X = pd.DataFrame({"dose": rng.uniform(0, 10, 15)})
    y = (X["dose"] + rng.normal(0, 1, 15)).rename("effect")
    model = bx.GP(X, y, constraints=constraints(X, y))
    return Findings(model, THETA, None, None, **OPTIONS)


def told(findings):
    parts = [part for make in CONSTRAINTS.makers for part in make(findings)]
    table = next(part for part in parts if part.kind == "table")
    return table.rows, " ".join(part.text for part in parts if part.kind == "prose")


def test_constraints_that_hold_are_told_with_their_probabilities():
    findings = findings_of(lambda X, y: [Increasing("dose", at=3), Value(X[:2], y[:2], 1.0)])
    rows, text = told(findings)
    found = constraints_met(findings.model, THETA, progressbar=False)
    own = found["constraint_of_statement"] == "Increasing dose"
    lowest = [
        100 * found[f"{stage}_probability"].values[own].min()
        for stage in ("prior", "data", "posterior")
    ]
    assert rows[0] == ["Increasing dose", 3, *lowest, 100 * found["violation"].values[0]]
    assert rows[0][2] == pytest.approx(50.0)  # a slope has either sign before the data
    assert rows[1][:2] == ["Value", 2] and rows[1][5] == ""
    assert "The data contradict no constraint" in text
    assert "truncated='sample'" not in text
    assert not list(contradicted(findings))


def test_a_constraint_that_the_data_contradict_is_told_twice():
    findings = findings_of(lambda X, y: [Decreasing("dose", at=4)])
    _, text = told(findings)
    said = "The data contradict a constraint: alone, they give Decreasing dose a probability"
    assert said in text
    (warned,) = contradicted(findings)
    assert warned.tone == "bad" and warned.text.startswith(said)
    assert "no constraint" not in text


def test_many_bounds_want_samples():
    """Which are draws of the values that are bounded, not of hyperparameters."""
    findings = findings_of(lambda X, y: [Increasing("dose", at=7)])
    assert f"There are {number(7)} points with bounds" in told(findings)[1]
    model = findings.model
    idata = model.fit("map", draws=20, truncated="sample", seed=1, progressbar=False)
    sampled = Findings(model, idata, None, None, **OPTIONS)
    assert "points with bounds" not in told(sampled)[1]
    assert sampled.alone and not sampled.hyper.alone


def test_models_without_constraints_have_no_such_section(tmp_path, monkeypatch):
    few = [section for section in SECTIONS if section.key in ("warnings", "citing")]
    monkeypatch.setattr("bayes_gpx.reporting.report.SECTIONS", few)
    for constraints, there in (([Increasing("dose", at=2)], True), ([], False)):
        findings = findings_of(lambda X, y, own=constraints: own)
        path = bx.report(findings.model, THETA, path=tmp_path / "r.html", seed=1)
        assert (CONSTRAINTS.title in path.read_text()) == there
