"""The command line, as a user types it."""

import subprocess
import sys
from pathlib import Path

import pytest
import xarray as xr

from bayes_gpx import cli, demo


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


def test_help_teaches_and_nonsense_is_refused(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--help"])
    assert stop.value.code == 0
    assert "demo" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        cli.main(["demonstrate"])
    assert stop.value.code == 2


def test_the_command_is_installed():
    command = [Path(sys.executable).parent / "bayes-gpx", "demo", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "--seed" in done.stdout
