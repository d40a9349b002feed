"""`make check` runs what did not pass at this commit, and its ledger tells what did."""

import csv
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "check"))
import check  # noqa: E402


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    """Lines of the ledger of a folder of its own, at a commit."""
    monkeypatch.setattr(check, "FOLDER", tmp_path)
    monkeypatch.setattr(check, "ROOT", tmp_path)
    monkeypatch.setattr(check, "LEDGER", tmp_path / "ledger.csv")
    monkeypatch.setattr(check, "commit", lambda: "abc")

    def lines():
        with (tmp_path / "ledger.csv").open(newline="") as file:
            return sorted(
                (line["commit"], line["part"], line["outcome"]) for line in csv.DictReader(file)
            )

    return lines


@pytest.fixture
def told(monkeypatch):
    """Commands by parts, which write what they did into files."""

    def tell(**codes):
        parts = [(k, [sys.executable, "-c", f"raise SystemExit({v})"]) for k, v in codes.items()]
        monkeypatch.setattr(check, "parts", lambda marks: parts)

    return tell


def test_a_part_that_passed_is_repeated_only_at_another_commit(ledger, told, monkeypatch):
    told(good=0, bad=1)
    assert check.main([]) == 1
    assert ledger() == [("abc", "bad", "failed"), ("abc", "good", "passed")]
    told(good=1, bad=0)
    assert check.main([]) == 0
    assert ledger() == [
        ("abc", "bad", "failed"),
        ("abc", "bad", "passed"),
        ("abc", "good", "passed"),
    ]
    monkeypatch.setattr(check, "commit", lambda: "def")
    assert check.main([]) == 1
    assert ("def", "good", "failed") in ledger()
    monkeypatch.setattr(check, "commit", lambda: "abc")
    assert check.main(["--again"]) == 1


def test_changed_files_match_no_commit(ledger, told, monkeypatch):
    monkeypatch.setattr(check, "commit", lambda: f"abc{check.CHANGED}")
    told(good=0)
    check.main([])
    check.main([])
    assert len(ledger()) == 2


def test_parts_are_chosen_by_the_beginning_of_their_names(ledger, told, capsys):
    told(docs=0, faults=1)
    assert check.main(["docs"]) == 0
    assert ledger() == [("abc", "docs", "passed")]
    assert check.main(["--list"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()[-2:]] == [
        ["passed", "docs"],
        ["to", "run", "faults"],
    ]


def test_no_part_begins_after_the_end(ledger, told, capsys):
    told(docs=0)
    assert check.main(["--hours", "0"]) == 0
    assert "Parts left: 1" in capsys.readouterr().out
    assert not check.LEDGER.exists()


def test_every_slow_test_belongs_to_a_part():
    paths = [ROOT / "tests" / path for path in check.slow()]
    files = {p for path in paths for p in ([path] if path.suffix else path.rglob("test_*.py"))}
    assert {p for p in (ROOT / "tests").rglob("test_*.py") if "mark.slow" in p.read_text()} <= files
    names = [name for name, _ in check.parts("slow")]
    assert len(set(names)) == len(names)
    assert {name.partition("/")[0] for name in names} == {
        "tests", "examples", "docs", "benchmarks", "faults", "mutants"
    }  # fmt: skip
