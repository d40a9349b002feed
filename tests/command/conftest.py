"""A table, a fit of it by the real command, and what a refused command says."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayes_gpx import cli

COMMAND = str(Path(sys.executable).parent / "bayes-gpx")


@pytest.fixture(scope="session")
def command():
    """The installed command."""
    return COMMAND


@pytest.fixture
def refused(capsys):
    """Run a command that is refused; returns its exit code and message."""

    def run(*words):
        with pytest.raises(SystemExit) as stop:
            cli.main([str(word) for word in words])
        return stop.value.code, capsys.readouterr().err

    return run


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A table of 24 rows, its first 3 rows as Parquet too, and a fit by the real command."""
    rng = np.random.default_rng(3)
    folder = tmp_path_factory.mktemp("typed")
    frame = pd.DataFrame(rng.normal([5, -2, 1], [2, 0.3, 1], (24, 3)), columns=list("abc"))
    frame["price"] = 10 + 3 * np.sin(frame["a"]) + rng.normal(0, 0.3, 24)
    frame["kind"] = np.where(frame["price"] > 10, "dear", "cheap")
    frame.to_csv(folder / "data.csv", index=False)
    frame[["c", "a"]][:3].to_csv(folder / "new.csv", index=False)
    frame[["a", "c"]][:3].to_parquet(folder / "new.parquet")
    options = ("--target", "price", "--features", "a", "c", "--method", "map", "--seed", "5")
    done = subprocess.run(
        [COMMAND, "fit", folder / "data.csv", *options, "--out", folder / "run"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "24 rows, 2 features: a, c." in done.stdout
    return folder
