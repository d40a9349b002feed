"""Where compiled code goes on a machine without a home folder to write to."""

import os
import subprocess
import sys

import pytest

from bayes_gpx.system import caches

SETTLED = "import bayes_gpx, pytensor; print(pytensor.config.base_compiledir)"


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """A home that nobody can write to, and a folder of one's own for temporary files."""
    for name in (caches.FLAGS, "PYTENSORRC"):
        monkeypatch.setenv(name, "")  # so that what a test leaves there is taken away again
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", "/dev/null")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def test_without_a_home_compiled_code_is_kept_elsewhere_and_said_so(nowhere):
    done = subprocess.run([sys.executable, "-c", SETTLED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(nowhere / f"bayes_gpx-{os.getuid()}")
    assert done.stderr.count("UserWarning") == 1
    assert "/dev/null/.pytensor cannot be written" in done.stderr
    assert "set the environment variable PYTENSOR_FLAGS=base_compiledir=" in done.stderr


def test_a_choice_of_ones_own_is_kept(nowhere, monkeypatch):
    monkeypatch.setenv(caches.FLAGS, "base_compiledir=/somewhere")
    caches.use_writable_folder()
    assert os.environ[caches.FLAGS] == "base_compiledir=/somewhere"
    monkeypatch.setenv(caches.FLAGS, "floatX=float64")
    with pytest.warns(UserWarning, match="cannot be written"):
        caches.use_writable_folder()
    own = nowhere / f"bayes_gpx-{os.getuid()}"
    assert os.environ[caches.FLAGS] == f"floatX=float64,base_compiledir={own}"


def test_a_folder_that_others_write_to_is_not_trusted(nowhere):
    own = nowhere / f"bayes_gpx-{os.getuid()}"
    own.mkdir()
    own.chmod(0o777)
    with pytest.warns(UserWarning, match="cannot be written"):
        caches.use_writable_folder()
    chosen = os.environ[caches.FLAGS].removeprefix("base_compiledir=")
    assert chosen != str(own) and os.stat(chosen).st_mode & 0o077 == 0


def test_a_home_that_can_be_made_is_left_alone(nowhere, monkeypatch):
    monkeypatch.setenv("HOME", str(nowhere / "to" / "be" / "made"))
    caches.use_writable_folder()
    assert caches.FLAGS not in os.environ and not list(nowhere.iterdir())
