"""Sheets: every column that cannot be used is named at once, with its cure in flags."""

import json

import numpy as np
import pandas as pd
import pytest

from bayes_gpx.data.gaps import WAYS, Imputation
from bayes_gpx.data.sheets import Wanted, columns_of, numbers_rows, read_sheet


@pytest.fixture
def sheet(tmp_path):
    """Read a table as the command does, from CSV."""

    def read(**columns):
        pd.DataFrame(columns).to_csv(tmp_path / "s.csv", index=False)
        return read_sheet(tmp_path / "s.csv")

    return read


def refusal(frame, *wanted, **options):
    with pytest.raises(ValueError) as refused:
        columns_of(frame, wanted, "s.csv", **options)
    return str(refused.value)


def fitted(name, kind="numbers", **how):
    return Wanted(name, kind, fitted=True, **how)


FAULTS = {
    "words": ["red", "blue", "red", "red"],
    "mixed": [1.0, "unknown", 3.0, 4.0],
    "dates": ["03/04/2020", "03/05/2020", "13/06/2020", "03/04/2020"],
    "zones": ["2020-01-01T00:00Z", "2020-01-02T00:00Z", "2020-02-01T00:00Z", "2020-03-01T00:00Z"],
    "times": ["10:30", "10:31", "11:00", "12:00"],
    "gaps": [1.0, None, 3.0, None],
    "same": [2.0, 2.0, 2.0, 2.0],
    "nothing": [None, None, None, None],
    "endless": [1.0, 2.0, np.inf, 3.0],
}
SAID = {
    "words": "'words' holds words, such as 'red' in row 1: --categorical words",
    "mixed": "'mixed' holds 'unknown' in row 2, among numbers",
    "dates": "'dates' holds dates, such as 03/04/2020 in row 1: write them year first",
    "zones": "'zones' holds dates, such as 2020-01-01T00:00Z in row 1: write them year first",
    "times": "'times' holds dates, such as 10:30 in row 1",
    "gaps": "'gaps' lacks 2 values, the first in row 2: --drop-missing",
    "same": "'same' is 2.0 in every row: leave it out by --exclude same",
    "nothing": "'nothing' is empty: leave it out by --exclude nothing",
    "endless": "'endless' holds inf in row 3",
}


def test_every_bad_column_is_said_at_once_and_no_good_one(sheet):
    frame = sheet(fine=[1, 2, 3, 4], **FAULTS)
    said = refusal(frame, *(fitted(name) for name in frame), fitted("gap"))
    for message in SAID.values():
        assert said.count(message) == 1
    assert "no column 'gap' (did you mean 'gaps'?)" in said and "'fine'" not in said
    assert said.count("\n- ") == len(SAID) + 1


def test_dates_that_are_written_year_first_are_read(sheet):
    days = ["1400-02-28", None, "2020-01-01 06:00", "2020-01-03T12:30:15"]
    frame = sheet(day=days)
    expected = np.array([day or "NaT" for day in days], dtype="datetime64[us]")
    for wanted in (fitted("day", filled=True), Wanted("day", "dates", filled=True)):
        table, _ = columns_of(frame, [wanted], "s.csv")
        np.testing.assert_array_equal(table["day"].to_numpy(), expected)
    same = sheet(day=["2020-01-01"] * 3)
    assert "is 2020-01-01 in every row: leave it out" in refusal(same, fitted("day"))
    assert "expected numbers, as in the training" in refusal(same, Wanted("day"))
    assert "write them as numbers" in refusal(same, fitted("day", target=True))
    numbers = sheet(day=[1, 2])
    assert "'day' holds 1 in row 1: expected dates" in refusal(numbers, Wanted("day", "dates"))


def test_an_id_names_one_row(sheet):
    said = refusal(sheet(case=["a", "b", "a"]), Wanted("case", "id"))
    assert "'case' holds a in rows 1 and 3: an id names one row; --groups case" in said
    read, _ = columns_of(sheet(case=[7, 3, 9]), [Wanted("case", "id")], "s.csv")
    assert read["case"].tolist() == [7, 3, 9]
    assert "--id name names rows by them" in refusal(sheet(name=list("xyz")), fitted("name"))


@pytest.mark.parametrize(
    ("name", "values", "numbered"),
    [
        ("patient", [1, 2, 3, 4], True),
        ("patient", [11, 20, 35, 36], True),
        ("patient", [2, 1, 3, 4], False),
        ("patient", [1.0, 2.5, 3.0, 4.0], False),
        ("patient", [1, 2, 2, 3], False),
        ("ID", [5, 1, 5, 2], True),
        ("patient_id", [5, 1, 5, 2], True),
        ("patientId", [5, 1, 5, 2], True),
        ("humid", [5, 1, 5, 2], False),
        ("PAID", [5, 1, 5, 2], False),
    ],
)
def test_columns_that_number_rows_are_recognised(name, values, numbered):
    assert numbers_rows(pd.Series(values, name=name)) == numbered


@pytest.mark.parametrize("how", WAYS)
def test_gaps_are_filled_in_by_what_training_rows_hold(how, sheet):
    frame = sheet(
        size=[1.0, None, 4.0, 100.0],
        kind=["b", "b", None, "a"],
        day=["2020-01-01", "2020-01-02", None, "2020-01-09"],
        whole=[1.0, 2.0, 3.0, 4.5],
    )
    wanted = [fitted(k, "category" if k == "kind" else "numbers", filled=True) for k in frame]
    table, _ = columns_of(frame, wanted, "s.csv")
    learned = Imputation.read(json.loads(json.dumps(Imputation.learned(table, how).kept())))
    filled = learned.filled(table)
    assert filled["size"].tolist() == [1.0, 4.0, 4.0, 100.0]
    assert filled["kind"].tolist() == ["b", "b", "b", "a"]
    assert filled["day"].tolist()[2] == pd.Timestamp("2020-01-02")
    marked = {name: filled[f"{name}_missing"].tolist() for name in learned.marked}
    rows = {"size": [0, 1, 0, 0], "kind": [0, 0, 1, 0], "day": [0, 0, 1, 0]}
    assert marked == (rows if how == "indicator" else {})
    said = learned.told(table.isna(), "s.csv")
    assert "3 missing values in 2 of 4 rows of s.csv" in said
    assert "1 in size (4), 1 in kind (b), 1 in day (2020-01-02)" in said
    assert learned.told(table.isna()[:1], "s.csv") is None
    new, _ = columns_of(
        sheet(size=[None], kind=[None], day=[None], whole=[None]),
        [
            Wanted(k, {"kind": "category", "day": "dates"}.get(k, "numbers"), filled=True)
            for k in frame
        ],
        "new.csv",
    )
    row = learned.filled(new).iloc[0]
    assert [row["size"], row["kind"], row["day"], row["whole"]] == [
        4.0, "b", pd.Timestamp("2020-01-02"), 2.5,
    ]  # fmt: skip
    assert (
        "Not marked, because no training row lacks it: whole" in learned.told(new.isna(), "new")
    ) == (how == "indicator")


def test_new_rows_may_have_one_label(sheet):
    for kind in ("labels", "two labels"):
        assert "at least two" in refusal(sheet(y=list("aaa")), fitted("y", kind, target=True))
        read, _ = columns_of(sheet(y=list("aaa")), [Wanted("y", kind, target=True)], "s.csv")
        assert read["y"].tolist() == list("aaa")


def test_an_indicator_needs_a_name_of_its_own(sheet):
    table = sheet(a=[1.0, None], a_missing=[1, 2])
    with pytest.raises(ValueError, match="adds columns named a_missing"):
        Imputation.learned(table, "indicator")


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        (list("abab"), "numbers", "--likelihood bernoulli predicts two labels"),
        (list("abca"), "numbers", "--likelihood categorical predicts its 3 labels"),
        (list("abca"), "two labels", "has 3 labels, a, b, c: --likelihood bernoulli expects two"),
        ([0.0, 1.0, 0.5, 1.0], "labels", "holds 0.5 in row 3, which is no label"),
        (list("aaaa"), "labels", "is a in every row: expected at least two labels"),
        ([0, 3, 1.5, 2], "counts", "holds 1.5 in row 3, which is no count"),
        ([0, 3, -1, 2], "counts", "holds -1 in row 3, which is no count"),
        ([7, 7, 7, 7], "numbers", "is 7 in every row: expected a target that varies"),
        ([None] * 4, "numbers", "is empty: expected a target with entries"),
    ],
)
def test_a_target_is_refused_with_the_likelihood_that_takes_it(values, kind, message, sheet):
    frame = sheet(y=values, other=[1, 2, 3, 4])
    said = refusal(frame, fitted("y", kind, target=True))
    assert f"'y' {message}" in said or (message in said and said.count("\n- ") == 1)


def test_rows_with_gaps_are_left_out_and_counted(sheet):
    frame = sheet(
        a=[1, None, 3, 4, 5], b=[1, None, None, 2, 3], kind=[0, 1, 1, None, 1], c=[None] * 5
    )
    wanted = [Wanted("b"), Wanted("a"), Wanted("kind", "category")]
    table, dropped = columns_of(frame, wanted, "s.csv", drop_missing=True)
    assert table.index.tolist() == [1, 5] and list(table) == ["b", "a", "kind"]
    assert table[["b", "a"]].to_numpy().tolist() == [[1.0, 1.0], [3.0, 5.0]]
    # Gaps made floats of whole numbers; levels are those of a sheet without gaps.
    assert table["kind"].cat.categories.tolist() == [0, 1]
    assert dropped == (
        "Left out 3 of 5 rows of s.csv, with missing values: 2 in b, 1 in a, 1 in kind."
    )
    whole, none = columns_of(frame[:1], wanted, "s.csv", drop_missing=True)
    assert len(whole) == 1 and none is None


def test_what_varies_in_dropped_rows_alone_is_constant(sheet):
    frame = sheet(a=[1, 1, 1, 2], b=[1, 2, 3, None])
    said = refusal(frame, fitted("a"), fitted("b"), drop_missing=True)
    assert "'a' is 1 in every row" in said and "'b'" not in said
    frame = sheet(a=[1, None, 2, None], b=[None, 2, None, 4])
    assert "No rows remain" in refusal(frame, fitted("a"), fitted("b"), drop_missing=True)


def test_levels_that_a_fit_has_not_seen_are_named(sheet):
    frame = sheet(kind=["red", "bleu", "red"])
    said = refusal(frame, Wanted("kind", "category", levels=("red", "blue")))
    assert "'kind' holds 'bleu' (did you mean 'blue'?) in row 2" in said and "red, blue" in said
    assert "kind" in columns_of(frame, [Wanted("kind", "category")], "s.csv")[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a;b\n1,5;2\n", "';' between its fields instead of commas"),
        (b"\x89HDF\r\n\x1a\n\xff\xfe", "it is not text in UTF-8"),
        (b"", "cannot be read as a table"),
    ],
)
def test_other_files_are_refused(text, message, tmp_path):
    (tmp_path / "s.csv").write_bytes(text)
    with pytest.raises(ValueError, match=message):
        read_sheet(tmp_path / "s.csv")


def test_a_sheet_without_rows_is_refused(sheet):
    assert "has names but no rows" in refusal(sheet(a=[]), Wanted("a"))


def test_commas_at_the_ends_of_rows_shift_nothing(tmp_path):
    (tmp_path / "odd.csv").write_text("a,c,price\n1,2,3,\n5,6,7,\n")
    assert read_sheet(tmp_path / "odd.csv").to_dict("list") == {
        "a": [1, 5], "c": [2, 6], "price": [3, 7],
    }  # fmt: skip
