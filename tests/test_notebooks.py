"""Notebooks: stored without outputs, of a readable length, and each runs from top to bottom."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


@each
def test_it_is_stored_without_outputs_and_ends_in_a_conclusion(path):
    cells = nbformat.read(path, 4).cells
    assert 20 <= len(cells) <= 30
    assert cells[0].source.startswith("# ") and "Author" in cells[0].source
    assert "## Conclusion" in cells[-1].source
    code = [cell for cell in cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)


@pytest.mark.slow
@each
def test_it_runs(path):
    notebook = nbformat.read(path, 4)
    resources = {"metadata": {"path": FOLDER}}
    NotebookClient(notebook, timeout=900, kernel_name="python3", resources=resources).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert any("image/png" in output.get("data", ()) for output in outputs)
