"""Cheaper approximations are cheaper by the measured table."""

import csv
from pathlib import Path

import numpy as np
import pytest

import bayes_gpx as bx
from bayes_gpx.model import fitting as room
from bayes_gpx.model.fitting import cheaper

TABLE = Path(__file__).parents[2] / "benchmarks" / "scaling.csv"
X = np.random.default_rng(0).normal(size=(30, 3))


@pytest.mark.parametrize(
    ("what", "measured"),
    [
        ("density, exact", room.EXACT),
        ("density, Inducing(100), normal", room.INDUCING),
        ("density, HSGP(20), normal", room.SINES),
    ],
)
def test_numbers_are_those_of_the_table(what, measured):
    with TABLE.open() as file:
        (row,) = (
            row
            for row in csv.DictReader(file)
            if (row["what"], row["grows with"]) == (what, "rows n")
        )
    last, at_last = (row[name].split(" to ")[1].replace(",", "") for name in ("sizes", "seconds"))
    assert (int(last), float(at_last), float(row["exponent"])) == measured


def of(columns, **options):
    return bx.GP(X[:, :columns], X[:, 0], **options).specification


def test_many_rows_have_something_cheaper():
    name, share = cheaper(of(2), 3_000, 2)
    assert name == "bx.HSGP(20)"
    exact, points, sines = room.EXACT, room.INDUCING, room.SINES
    now = exact[1] * (3_000 / exact[0]) ** exact[2]
    assert share == pytest.approx(sines[1] * (3_000 / sines[0]) ** sines[2] / now)
    name, share = cheaper(of(3), 3_000, 3)
    assert name == "bx.Inducing(100)"
    assert share == pytest.approx(points[1] * (3_000 / points[0]) ** points[2] / now)
    assert cheaper(of(3), 30_000, 3)[1] == pytest.approx(share * 10 ** (points[2] - exact[2]))
    assert cheaper(of(2, approximation=bx.Inducing(5)), 10**5, 2)[0] == "bx.HSGP(20)"


def test_others_have_nothing_cheaper():
    assert cheaper(of(2), 2_000, 2) is None
    assert cheaper(of(2, approximation=bx.HSGP(5)), 10**6, 2) is None
    assert cheaper(of(3, approximation=bx.Inducing(5)), 10**6, 3) is None
    assert cheaper(of(2, likelihood="student_t"), 10**5, 2) is None
    assert cheaper(of(2, constraints=[bx.constraints.Increasing("x0")]), 10**5, 2) is None
