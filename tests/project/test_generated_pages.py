"""Pages that are made from the code agree with it, and name files that exist."""

import ast
import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "bayes_gpx"
PAGE = ROOT / "docs" / "architecture.md"


@pytest.fixture(scope="module")
def architecture() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "architecture.py"))


@pytest.fixture(scope="module")
def supported() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "supported.py"))


def test_the_table_has_a_line_for_each_file(architecture: dict[str, Any]) -> None:
    rows = re.findall(r"^\| (?:\*\*)?`(.*?)`(?:\*\*)? \| (.*) \|$", architecture["table"](), re.M)
    names = [f"{name}__init__.py" if name.endswith("/") else name for name, _ in rows]
    files = {file.relative_to(PACKAGE).as_posix() for file in PACKAGE.rglob("*.py")}
    assert sorted([*names, "__init__.py"]) == sorted(files)
    doc = ast.get_docstring(ast.parse((PACKAGE / "kernels" / "base.py").read_text()))
    assert dict(rows)["kernels/base.py"] + "." == doc.splitlines()[0]


def test_each_layer_is_above_those_that_it_imports(architecture: dict[str, Any]) -> None:
    layers = architecture["imports"]()
    height, arrows = architecture["heights"](layers), architecture["arrows"](layers)
    assert all(height[name] > height[used] for name in layers for used in layers[name])
    assert ("model", "draws") in arrows and ("explain", "draws") not in arrows
    assert "draws" in layers["explain"] and "explain" not in layers["draws"]
    folders = {file.parent.name for file in PACKAGE.glob("*/__init__.py")}
    assert folders <= set(layers)


def test_imports_between_layers_without_their_detours(architecture: dict[str, Any]) -> None:
    layers = {"top": {"middle", "low"}, "middle": {"low"}, "low": set(), "beside": {"low"}}
    arrows = {("top", "middle"), ("middle", "low"), ("beside", "low")}
    assert set(architecture["arrows"](layers)) == arrows
    assert architecture["heights"](layers) == {"top": 2, "middle": 1, "low": 0, "beside": 1}


def test_the_layers_are_drawn(architecture: dict[str, Any], tmp_path: Path) -> None:
    architecture["draw"](tmp_path / "layers.svg")
    drawn = (tmp_path / "layers.svg").read_text()
    assert all(f">{name}<" in drawn for name in architecture["imports"]())


def test_files_on_the_page_exist() -> None:
    text = re.sub(r"```.*?```", "", PAGE.read_text(), flags=re.DOTALL)
    paths = re.findall(r"`([\w/]+(?:/|\.py|\.md))`", text)
    roots = ROOT, PACKAGE
    assert len(paths) > 60
    assert [path for path in paths if not any((root / path).exists() for root in roots)] == []


def test_names_on_the_page_are_in_their_files() -> None:
    """A row of a table names a file, and then functions, classes and tables in it."""
    rows = re.findall(r"^\| `([\w/]+\.py)`[^|]*\|([^|]*)\|$", PAGE.read_text(), re.MULTILINE)
    found = [(path, name) for path, text in rows for name in re.findall(r"`(\w+)`", text)]
    assert len(found) > 10
    missing = []
    for path, name in found:
        file = next(root / path for root in (PACKAGE, ROOT) if (root / path).exists())
        missing += [(path, name)] if name not in file.read_text() else []
    assert missing == []


def test_the_matrix_has_a_row_for_each_model(supported: dict[str, Any]) -> None:
    matrix = json.loads(supported["MATRIX"].read_text())
    lines = [line for line in supported["table"](matrix).splitlines() if line.startswith("| ")]
    assert [line.split(" | ")[0][2:] for line in lines[2:]] == list(matrix)
    functions = lines[0].strip("| ").split(" | ")[1:]
    assert sorted([*functions, *re.findall("`(.*?)`", supported["everywhere"](matrix))]) == sorted(
        next(iter(matrix.values()))
    )
    works = [not isinstance(row[name], str) for row in matrix.values() for name in functions]
    assert sum(line.count("✓") for line in lines) == sum(works)


def test_a_refused_call_leads_to_its_reason(supported: dict[str, Any]) -> None:
    matrix = {
        "GP": {"weights": "ValueError: A GP has no weights. Pass a GPX.", "slopes": {}, "f": {}},
        "GPX": {"weights": {}, "slopes": "ValueError: No f_mean for 0.5 of y. bx.f is.", "f": {}},
        "other": {"weights": "TypeError: A GP has no weights. Other.", "slopes": {}, "f": {}},
    }
    assert supported["reasons"](matrix) == {"A GP has no weights.": 1, "No f_mean for 0.5 of y.": 2}
    assert supported["everywhere"](matrix) == "`f`.\n"
    assert '| GP | <a href="#reason-1">1</a> | ✓ |' in supported["table"](matrix)
    assert '2. <span id="reason-2"></span>No f\\_mean for 0.5 of y.' in supported["listed"](matrix)


def test_calls_of_models_are_written(supported: dict[str, Any]) -> None:
    builders = runpy.run_path(str(supported["MATRIX"].with_suffix(".py")))["builders"]()
    calls = supported["calls"](builders)
    assert calls.count("\n") == len(builders) + 2
    assert '| `bx.GP(X, y, likelihood="bernoulli", link="probit")` |' in calls
    assert "| GP outputs | `bx.GP(X, Y)` |" in calls
