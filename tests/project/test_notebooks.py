"""Notebooks, and pages with code, run from top to bottom; notebooks are stored without outputs."""

import re
from pathlib import Path

import nbclient
import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PAGES = [
    page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if "_build" not in page.parts and "file_format: mystnb" in page.read_text()
]
CELL = re.compile(r"^```\{code-cell\}.*\n(?::.*\n)*((?:.*\n)*?)```$", re.MULTILINE)
"""A cell of a page, without its options."""


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return nbformat.read(request.param, as_version=4)


def test_notebooks_are_short_and_stored_without_outputs(notebook):
    assert 20 <= len(notebook.cells) <= 30
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code and all(cell.outputs == [] and cell.execution_count is None for cell in code)
    nbformat.validate(notebook)


def test_notebooks_end_in_a_conclusion(notebook):
    headings = re.findall(
        r"^## (.*)$",
        "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown"),
        flags=re.MULTILINE,
    )
    assert set(headings[-2:]) & {"Conclusion", "Conclusions"}


def test_every_notebook_is_in_the_table_of_contents():
    listed = re.findall(r"^notebooks/(.*)$", (ROOT / "docs" / "index.md").read_text(), re.MULTILINE)
    assert sorted(listed) == [path.stem for path in NOTEBOOKS]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Jupyter's own; the kernel has filters of its own
def test_notebooks_run(notebook, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    said = [
        output.text
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "stream" and output.name == "stderr"
    ]
    assert [text for text in said if re.search(r"(Convergence|Completeness)Warning: ", text)] == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_run(page, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    cells = [nbformat.v4.new_code_cell(code) for code in CELL.findall(page.read_text())]
    assert len(cells) == page.read_text().count("```{code-cell}")
    where = {"metadata": {"path": str(page.parent)}}
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", resources=where).execute()
