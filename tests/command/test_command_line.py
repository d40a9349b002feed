"""How the command line reads what a user types, and what it says of mistakes."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayes_gpx as bx
from bayes_gpx import cli, demo
from bayes_gpx.cli_arguments import FLAGS

ROOT = Path(__file__).parents[2]


def test_help_teaches_and_nonsense_is_refused(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--help"])
    assert stop.value.code == 0
    assert "demo" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        cli.main(["demonstrate"])
    assert stop.value.code == 2


def test_both_front_doors_know_the_version(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"bayes-gpx {bx.__version__}\n"
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert declared == bx.__version__


def test_the_command_is_installed(command):
    done = subprocess.run([command, "demo", "--help"], capture_output=True, text=True, check=True)
    assert "--seed" in done.stdout


@pytest.mark.parametrize("command", ["fit", "explain", "report", "datasets", "demo"])
def test_help_teaches(command, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main([command, "--help"])
    said = capsys.readouterr().out
    assert stop.value.code == 0 and "Usage: bayes-gpx" in said
    assert command == "demo" or f"bayes-gpx {command}" in said.partition("Options")[0]


def test_help_is_quick():
    code = "import sys; import bayes_gpx.cli; print({'pymc', 'arviz', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_reader_that_has_seen_enough_is_no_error(command):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [command, "datasets"], stdout=write, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(write)
    assert done.stderr == "" and done.returncode == 1


def test_data_sets_are_listed_and_written(tmp_path, capsys):
    assert cli.main(["datasets"]) == 0
    assert "diabetes" in capsys.readouterr().out
    assert cli.main(["datasets", "diabetes", "--out", str(tmp_path / "d.csv")]) == 0
    assert "mg/dl" in capsys.readouterr().out
    written = pd.read_csv(tmp_path / "d.csv")
    assert written.shape == (442, 11) and written.columns[-1] == "progression"


def test_what_is_wrong_is_said_with_its_cure(folder, tmp_path, monkeypatch, refused):
    fit = ["fit", folder / "data.csv", "--out", tmp_path / "run", "--target"]
    explain = ["explain", "--out", tmp_path / "e.csv"]
    options = ["--target", "price", "--out", tmp_path / "run", "--features", "a"]
    cases = [
        (1, "'pricee' (did you mean 'price'?)", [*fit, "pricee", "--features", "a"]),
        (1, "'price_' (did you mean 'price'?)", [*fit, "a", "--features", "b", "price_"]),
        (1, "'kind' holds words, such as 'dear' in row 1: --categorical kind", [*fit, "price"]),
        (2, "both the target and a feature", [*fit, "a", "--features", "a", "c"]),
        (2, "does not exist", ["fit", tmp_path / "no.csv", "--target", "a", "--out", tmp_path]),
        (2, "Missing option '--target'", ["fit", folder / "data.csv", "--out", tmp_path]),
        (2, "holds no fit.nc", [*explain, tmp_path, folder / "new.csv"]),
        (1, "Pass one of", ["datasets", "diabetis"]),
        (2, "no file of that name", ["report", folder / "run", "--baseline", "avg"]),
        (1, "--kernel: unknown 'rbf'", [*fit, "price", "--features", "a", "--kernel", "rbf"]),
        (2, "Did you mean 'nuts'?", [*fit, "price", "--method", "mcmc"]),
        (2, "needs --inducing M", [*fit, "price", "--features", "a", "--method", "SVGP"]),
        (
            2,
            "new.csv is a file. Pass the folder",
            [*explain, folder / "new.csv", folder / "run"],
        ),
        (1, "names no files that end in .parquet", ["fit", folder / "run", *options]),
        (1, "Join CSV files into one", ["fit", folder / "*.csv", *options]),
        (2, "names several files, which only fit", [*explain, folder / "run", "rides/*.parquet"]),
        (2, "Put it first: --features takes", ["fit", *options, folder / "data.csv"]),
    ]
    for code, message, words in cases:
        stopped, said = refused(*words)
        assert stopped == code and message in said, (words, said)
    (tmp_path / "empty.csv").write_text("")
    words = ["fit", tmp_path / "empty.csv", "--target", "a", "--out", tmp_path / "run"]
    assert "cannot be read as a table" in refused(*words)[1]
    assert not (tmp_path / "run").exists()

    def absent(*_):
        raise ImportError("no pyarrow")

    monkeypatch.setattr(pd, "read_parquet", absent)
    code, said = refused(*explain, folder / "run", folder / "new.parquet")
    assert code == 1 and "pip install pyarrow, or save it as CSV" in said


def test_gaps_are_refused_with_their_row(folder, tmp_path, capsys, refused):
    frame = pd.read_csv(folder / "new.csv")
    frame.loc[1, "c"] = np.nan
    frame.to_csv(tmp_path / "gaps.csv", index=False)
    words = ["explain", folder / "run", tmp_path / "gaps.csv", "--out", tmp_path / "e.csv"]
    code, said = refused(*words)
    assert code == 1 and "'c' lacks 1 value, the first in row 2: --drop-missing" in said
    assert cli.main([*map(str, words), "--drop-missing"]) == 0
    assert "Left out 1 of 3 rows" in capsys.readouterr().out
    whole = pd.read_csv(tmp_path / "e.csv")
    assert whole["row"].unique().tolist() == [1, 3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,c,price\n1,2,3,4\n5,6,7,8\n9,1,2,3\n", "more fields than the 3 names"),
        ("a,c,price\n1,2,3,4,5\n5,6,7,8,9\n9,1,2,3,4\n", "more fields than the 3 names"),
        ("a,price,price\n1,2,3\n5,6,7\n9,1,2\n", r"repeated column names ['price']"),
        ("a,c,a.1,a,price\n1,2,3,4,5\n5,6,7,8,9\n9,1,2,3,4\n", r"repeated column names ['a']"),
    ],
    ids=["one more", "two more", "target twice", "feature twice"],
)
def test_tables_whose_names_do_not_fit_are_refused(text, message, tmp_path, refused):
    (tmp_path / "odd.csv").write_text(text)
    words = ["fit", tmp_path / "odd.csv", "--target", "price", "--out", tmp_path / "run"]
    code, said = refused(*words, "--method", "map")
    assert code == 1 and "odd.csv" in said and message in said
    assert not (tmp_path / "run").exists()


@pytest.fixture
def quick(monkeypatch):
    """The demonstration with short chains."""
    monkeypatch.setattr(demo, "TUNE", 30)
    monkeypatch.setattr(demo, "DRAWS", 30)
    monkeypatch.setattr(demo, "CHAINS", 2)


@pytest.mark.slow
def test_demo_predicts_explains_and_keeps(quick, tmp_path, capsys):
    assert cli.main(["demo", "--out", str(tmp_path / "run"), "--seed", "1"]) == 0
    said = capsys.readouterr().out
    assert "R-hat" in said and "coverage of 90% intervals" in said
    assert said.count("Patient ") == 3
    written = {p.name for p in (tmp_path / "run").iterdir()}
    assert written == {
        "contributions.png", "weights.png", "trace.png", "posterior_predictive.png", "gpx.nc",
    }  # fmt: skip
    assert all(f"wrote {tmp_path / 'run' / name}" in said for name in written)
    kept = xr.open_datatree(tmp_path / "run" / "gpx.nc", engine="h5netcdf")
    assert kept["posterior"].sizes["draw"] == 30
    kept.close()


@pytest.fixture(scope="module")
def strings():
    """Every string of the package's code but those of the command line itself."""
    package = Path(cli.__file__).parent
    trees = [ast.parse(file.read_text()) for file in package.rglob("*.py") if file.stem != "cli"]
    return [
        node.value
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


@pytest.mark.parametrize("python", FLAGS)
def test_what_is_translated_for_the_command_line_is_said_somewhere(python, strings):
    assert any(re.search(python, one) for one in strings if one not in FLAGS)
