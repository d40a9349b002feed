"""The check of prose finds the habits that it names, and nothing in plain sentences."""

import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).parents[2] / "docs" / "prose.py"
PLAIN = "Fit the model first. For counts, the result contains the mean rate of each row.\n"
BROKEN = {
    "'what' as a noun": "Read in the table what users want.",
    "a pronoun for a noun": "The intervals are those of the draws.",
    "a preposition with 'which'": "Take the kernel of which this is a sum.",
    "'whose'": "Take the feature whose name comes first.",
    "a late subject": "Of counts the mean is exact.",
    "'so that'": "Scale the columns, so that numbers agree.",
    "'beside'": "Put the table beside the picture.",
    "a word of our own": "The verdict is good.",
}


def checked(folder, name, text):
    (folder / name).write_text(text, encoding="utf-8")
    command = [sys.executable, CHECK, folder / name]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_plain_sentences_pass(tmp_path):
    run = checked(tmp_path, "plain.md", PLAIN + "```\nCode, what is it?\n```\n| what is | it |\n")
    assert run.returncode == 0 and ": 0.0 habits" in run.stdout


@pytest.mark.parametrize("habit", BROKEN)
def test_each_habit_is_found_by_its_name(tmp_path, habit):
    run = checked(tmp_path, "page.md", PLAIN + BROKEN[habit])
    assert run.returncode == 1
    counts = [line.split(maxsplit=1) for line in run.stdout.splitlines()[1:]]
    assert counts == [["1", habit]]


def test_docstrings_are_read_and_comments_are_not(tmp_path):
    code = f'"""{PLAIN}"""\n\n\ndef f():\n    """A column whose name is long."""  # whose\n'
    assert "1  'whose'" in checked(tmp_path, "code.py", code).stdout
