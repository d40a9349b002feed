"""Tables for people who write no Python."""

import csv
import io

import pandas as pd

from bayes_gpx.export import tables


def test_spreadsheets_find_no_formulas_in_what_is_written():
    names = ["=1+1", "+a", "-a", "@a", "\ta", "\ra", "a=1"]
    frame = pd.DataFrame([names, names], columns=names).assign(
        kind=pd.Categorical(["=a", "b"]), mean=[-1.5, 2.0], row=[-1, 1]
    )
    told = tables.as_csv(frame).decode()
    for cell in next(csv.reader([told.splitlines()[0]])):
        assert not cell.startswith(tables.FORMULA)
    read = pd.read_csv(io.BytesIO(tables.as_csv(frame)))
    assert read["a=1"].tolist() == ["a=1", "a=1"] and read["kind"].tolist() == ["'=a", "b"]
    for name in names[:-1]:
        assert read[f"'{name}"].tolist() == [f"'{n}" for n in [name] * 2]
    assert read["mean"].tolist() == [-1.5, 2.0] and read["row"].tolist() == [-1, 1]
