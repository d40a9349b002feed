"""What a release consists of: its wheel, its list of changes, and its workflow."""

import re
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

import bayes_gpx as bx
import wheel_contents

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "bayes_gpx"
WORDS = 450
"""As many as people read in two minutes."""


@pytest.fixture
def wheel(tmp_path):
    """Pack a wheel like the project's, with files added or left out."""

    def pack(added=(), without=(), version=None):
        version = wheel_contents.version() if version is None else version
        code = [f.relative_to(ROOT).as_posix() for f in PACKAGE.rglob("*.py")]
        data = [f"bayes_gpx/{name}" for name in wheel_contents.DATA]
        about = [f"bayes_gpx-{version}.dist-info/{name}" for name in ("METADATA", "RECORD")]
        path = tmp_path / "bayes_gpx.whl"
        with ZipFile(path, "w") as archive:
            for name in [*code, *data, *about, *added]:
                if name not in without:
                    archive.writestr(name, "")
        return path

    return pack


def test_a_wheel_of_the_package_has_no_faults(wheel):
    assert wheel_contents.faults(wheel()) == []
    assert wheel_contents.faults(wheel(), tag=f"v{wheel_contents.version()}") == []


def test_every_data_file_of_the_package_is_known():
    other = {f.relative_to(PACKAGE).as_posix() for f in PACKAGE.rglob("*") if f.is_file()}
    assert {name for name in other if not name.endswith((".py", ".pyc"))} == wheel_contents.DATA


@pytest.mark.parametrize(
    "change, said",
    [
        ({"added": ["tests/test_a.py"]}, ["tests/test_a.py is no file of the package"]),
        ({"added": ["bayes_gpx/cells.csv"]}, ["bayes_gpx/cells.csv is superfluous"]),
        ({"without": ["bayes_gpx/schema.json"]}, ["bayes_gpx/schema.json is missing"]),
        ({"without": ["bayes_gpx/cli.py"]}, ["bayes_gpx/cli.py is missing"]),
    ],
)
def test_a_wheel_with_more_or_less_is_refused(wheel, change, said):
    assert wheel_contents.faults(wheel(**change)) == said


def test_a_wheel_of_another_version_or_tag_is_refused(wheel):
    assert any("METADATA is missing" in said for said in wheel_contents.faults(wheel(version="9")))
    (said,) = wheel_contents.faults(wheel(), tag="v9.9.9")
    assert said.startswith("the tag is v9.9.9")


def test_a_large_wheel_is_refused(wheel, monkeypatch):
    monkeypatch.setattr(wheel_contents, "LARGEST", 1000)
    (said,) = wheel_contents.faults(wheel())
    assert "more than 1000" in said


def test_changes_begin_with_this_version_and_end_with_the_first():
    text = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## (\S+)", text, re.M)
    assert versions[0] == wheel_contents.version() and versions[-1] == "0.2.0"
    newest = text.split("\n## ")[1]
    assert len(newest.split()) <= WORDS


def test_changes_name_only_what_there_is():
    names = re.findall(r"`bx\.(\w+)", (ROOT / "CHANGELOG.md").read_text())
    assert names and [name for name in names if not hasattr(bx, name)] == []


def test_the_wheel_is_tested_on_every_python_that_the_project_supports():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    supported = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    for name in ("ci", "release"):
        workflow = (ROOT / ".github" / "workflows" / f"{name}.yml").read_text()
        (pythons,) = re.findall(r"python: \[(.*)\]", workflow)
        assert re.findall(r"3\.\d+", pythons) == supported
