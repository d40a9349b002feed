"""The documentation is true: code runs, links lead somewhere, nothing public is left out."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

import bayes_gpx as bx

ROOT = Path(__file__).resolve().parents[2]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
DOCS = [page for page in DOCS if "_build" not in page.parts and "generated" not in page.parts]
READMES = [ROOT / "benchmarks" / "README.md", *(ROOT / "models").rglob("*.md")]
PAGES = [ROOT / "README.md", *sorted(READMES), *DOCS]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
BUILT = (".md", ".ipynb")
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]*)(#[^)\s]*)?\)")


def without_code(page):
    return re.sub(r"(```|\$\$).*?\1|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)


def blocks_of(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_to_files(page):
    for target, anchor in LINK.findall(without_code(page)):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        found = (page.parent / target) if target else page
        assert found.is_file(), f"{page.name} links to {target}, which is no file"
        if anchor:
            titles = re.findall(r"^#+ (.*)$", found.read_text(), flags=re.MULTILINE)
            slugs = {re.sub(r"[^\w -]", "", t).strip().lower().replace(" ", "-") for t in titles}
            assert anchor[1:] in slugs, f"{page.name} links to {anchor}, which is no heading"


def test_links_are_seen():
    assert LINK.findall("see [this](a/b.md#there) and [that](c.md)") == [
        ("a/b.md", "#there"),
        ("c.md", ""),
    ]
    assert sum(len(LINK.findall(without_code(page))) for page in PAGES) > 50


def test_every_public_name_is_in_the_reference():
    reference = (ROOT / "docs" / "api.md").read_text()
    names = [name for name in bx.__all__ if name not in ("operators", "posteriors", "likelihoods")]
    missing = [name for name in names if not re.search(rf"^\s*{name}\b", reference, re.MULTILINE)]
    assert missing == []


def test_every_plot_is_in_the_gallery():
    gallery = (ROOT / "docs" / "gallery.md").read_text()
    plots = [name for name in bx.__all__ if name.startswith("plot_")]
    assert plots and [name for name in plots if f"bx.{name}(" not in gallery] == []


def test_every_page_is_in_a_table_of_contents():
    index = (ROOT / "docs" / "index.md").read_text()
    listed = {
        line.strip()
        for tree in re.findall(r"```{toctree}(.*?)```", index, re.DOTALL)
        for line in tree.splitlines()
    }
    pages = {str(page.relative_to(ROOT / "docs").with_suffix("")) for page in DOCS}
    pages |= {str(page.relative_to(ROOT).with_suffix("")) for page in NOTEBOOKS}
    assert pages - listed == {"index"}


def test_old_addresses_lead_to_pages():
    text = (ROOT / "docs" / "conf.py").read_text()
    moved = ast.literal_eval(re.search(r"^REDIRECTS = ({.*?^})", text, re.DOTALL | re.MULTILINE)[1])
    pages = {str(page.relative_to(ROOT / "docs").with_suffix("")) for page in DOCS}
    pages |= {f"notebooks/{page.stem}" for page in NOTEBOOKS}
    assert set(moved.values()) <= pages and pages.isdisjoint(moved)


@pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(ROOT)))
def test_shown_code_is_narrow(page):
    cells = re.findall(
        r"^```{code-cell}[^\n]*\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE
    )
    assert [line for cell in cells for line in cell.splitlines() if len(line) > 80] == []


def test_errata_have_their_evidence():
    papers = ROOT / "models" / "papers"
    command = [sys.executable, papers / "errata.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    page = (papers / "errata.md").read_text().splitlines()
    assert len(rows) >= 24 and [row for row in rows if row not in page] == []


def test_the_installation_page_runs(capsys):
    (block,) = blocks_of(ROOT / "docs" / "installation.md")
    exec(block, {})
    scores = capsys.readouterr().out.strip(" []\n").split()
    # The first three patients scored 151, 75 and 141; the standard deviation of scores is 77.
    assert [float(score) for score in scores] == pytest.approx([151, 75, 141], abs=77)


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.filterwarnings("ignore:About this fit")
def test_houses_in_taipei_have_the_numbers_of_their_page():
    page = ROOT / "docs" / "howto" / "effect-size.md"
    space = {"bx": bx}
    (block,) = blocks_of(page)
    exec(block, space)
    plt.close("all")
    said = re.search(r"weight there is ([\d.]+) .*\n([\d.]+) on average", page.read_text()).groups()
    options = {"smooth": True, "keep": "summary", "progressbar": False}
    stores = bx.weights(space["local"], space["fit"], **options)["weight_mean"]
    stores = stores.sel(feature="n_convenience_stores")
    assert [f"{stores.sel(obs=276):.1f}", f"{stores.mean():.1f}"] == [*said]
    found = space["drivers"].sel(obs=276)
    low, high = found.sel(feature="latitude")["attribution_interval"].values
    mean = found["attribution_mean"].sel(feature="latitude")
    assert f"latitude is +{mean:.1f} [{low:.1f}, {high:.1f}]" in page.read_text()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The largest Pareto k")  # of twelve rows
def test_the_page_on_constraints_runs():
    page = (ROOT / "docs" / "howto" / "constraints.md").read_text()
    blocks = re.findall(r"```(?:python|{code-cell} ipython3)\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == page.count("```") // 2
    space = {}
    for block in blocks:
        exec(block, space)
    assert set(space["fits"]) == {"without", "rising", "falling"}


@pytest.mark.slow
def test_the_readme_runs(monkeypatch, tmp_path):
    """Its picture is the one that the page shows, and its sentence has the picture's numbers."""
    monkeypatch.chdir(tmp_path)
    space, page = {}, (ROOT / "README.md").read_text()
    for block in blocks_of(ROOT / "README.md"):
        exec(block, space)
    plt.close("all")
    shown = plt.imread(ROOT / "docs" / "_static" / "readme_waterfall.png")[..., :3]
    drawn = bx.plot_waterfall(space["explained"], predictions=space["predicted"])
    drawn.savefig(tmp_path / "again.png", dpi=130)  # as docs/pictures.py draws it
    assert (tmp_path / "why.png").stat().st_size > 10_000
    again = plt.imread(tmp_path / "again.png")[..., :3]
    assert again.shape == shown.shape and abs(again - shown).mean() < 0.01
    said = re.search(
        r"score of (\d+) for patient 428, and (\d+) for an average patient. A body mass index of "
        r"34.6\naccounts for \+(\d+) of the difference, with a 90% interval from (\d+) to (\d+)",
        page,
    )
    explained, score = space["explained"].isel(obs=0), space["predicted"]["y_mean"].item()
    bmi = explained.sel(feature="bmi")
    found = [score, score - explained["difference_mean"].item(), bmi["attribution_mean"].item()]
    found += bmi["attribution_interval"].values.tolist()
    assert [float(number) for number in said.groups()] == pytest.approx(found, abs=1.0)


def test_the_readme_is_short():
    text = (ROOT / "README.md").read_text()
    words = [word for word in text.split() if re.search(r"\w", word)]
    targets = set(re.findall(r"\]\(([^)]*)\)", text))
    pictures = {target for target in targets if target.endswith(".png")}
    assert len(words) <= 600 and len(pictures) == 6 and len(targets - pictures) == 7


def test_all_say_the_same_version():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.M)[1] == version
