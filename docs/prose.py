"""Count habits that make readers stumble, and fail where a folder has more of them than it may.

`docs/contributing.md` has the rules. The check reads pages, notebooks, docstrings, and every string
in the package that looks like a sentence: errors, warnings, help texts, attributes of results, and
sentences of reports. A count cannot judge a text: rewrite the paragraph from its meaning.

    python docs/prose.py [--worst 10] [FILE OR FOLDER ...]

Without arguments it checks `LIMITS`, and exits with 1 if a rate is above its limit.
"""

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

HABITS = {
    "'what' as a noun": r"(?<=[a-z,] )what (?!if\b|about\b)\w+(?![^.!?]*\?)",
    "a pronoun for a noun": r"\bth(?:at|ose) (?:of|from|in|with|by|on|at|for) ",
    "a preposition with 'which'": r"\b(?:of|by|in|from|with|on|to|for|at) which\b",
    "'whose'": r"\bwhose\b",
    "a late subject": r"(?:^|(?<=[.!?:;] ))(?:Of|Where|Beyond|Beside|Beneath) ",
    "'so that'": r"\bso that\b",
    "'beside'": r"\bbeside\b",
    "a fragment in an error": r"; expected\b",
    "a word of our own": (
        r"\b(?:verdicts?|rows in parts|(?:told|tells?) (?:from|apart)|another road|by sums alone"
        r"|is to be had|(?:knows|says|asks|tells) (?:of|nothing|no)|all the same|beforehand"
        r"|cures?)\b"
    ),
}
"""Patterns of habits, each of which has a rule in docs/contributing.md."""

LIMITS = {
    "README.md": 3.0,
    "CHANGELOG.md": 3.0,
    ".github": 3.0,
    "docs": 3.0,
    "notebooks": 3.0,
    "models": 3.0,
    "bayes_gpx": 3.0,
}
"""Most habits in 1000 words. A rewrite lowers them; the goal is 3 everywhere, 5 in the package."""

NOT_PROSE = re.compile(
    r"\A---\n.*?\n---\n|```.*?```|^\s*>>>.*?(?=^\s*$|\Z)|\$\$.*?\$\$|^\|[^\n]*$|^:::[^\n]*$"
    r"|^\s*[\w*`, ]+ : [^\n]*$|^\s*[-=~ ]{3,}$|\{%.*?%\}|<style.*?</style>|<script.*?</script>",
    re.DOTALL | re.MULTILINE,
)
CODE = re.compile(r"``[^`]*``|`[^`]*`|\$[^$]*\$|https?://\S+|\{\{.*?\}\}|\]\([^)]*\)|<[^>]+>")


def paragraphs(path: Path) -> Iterator[tuple[int, str]]:
    """Line or cell, and text, of each paragraph of a file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = enumerate(json.loads(text)["cells"])
        blocks = [(k, "".join(c["source"])) for k, c in cells if c["cell_type"] == "markdown"]
    elif path.suffix == ".py":
        blocks = list(_strings(ast.parse(text), path.parts[0] == "bayes_gpx"))
    else:
        blocks = [(1, text)]
    for line, block in blocks:
        block = NOT_PROSE.sub(lambda match: "\n" * match[0].count("\n"), block)
        for paragraph in re.split(r"(\n\s*\n)", block):
            if path.suffix != ".ipynb":
                line += paragraph.count("\n")
            if paragraph.strip():
                yield line, " ".join(CODE.sub("X", paragraph).split())


def _strings(tree: ast.AST, everything: bool) -> Iterator[tuple[int, str]]:
    """Docstrings; with `everything` also other strings of at least five words."""
    joined = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    inside = {id(part) for node in joined for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            if isinstance(node.value.value, str):
                inside.add(id(node.value))
                yield node.lineno, node.value.value
        elif everything and isinstance(node, ast.JoinedStr):
            parts = [p.value if isinstance(p, ast.Constant) else "X" for p in node.values]
            text = "".join(map(str, parts))
            if len(text.split()) >= 5:
                yield node.lineno, text
        elif everything and isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in inside and len(node.value.split()) >= 5:
                yield node.lineno, node.value


def files(path: Path) -> list[Path]:
    """The files of a folder that have prose, without what is built."""
    if path.is_file():
        return [path]
    found = [f for ending in ("md", "ipynb", "py", "j2") for f in path.rglob(f"*.{ending}")]
    return sorted(f for f in found if not {"_build", "generated"} & set(f.parts))


def rate(path: Path) -> tuple[float, dict[str, int], list[tuple[int, str, str]]]:
    """Habits in 1000 words, the count of each, and the paragraphs that have any."""
    words, counts, worst = 0, dict.fromkeys(HABITS, 0), []
    for file in files(path):
        for line, text in paragraphs(file):
            words += len(text.split())
            each = {name: len(re.findall(pattern, text)) for name, pattern in HABITS.items()}
            for name, count in each.items():
                counts[name] += count
            if any(each.values()):
                worst.append((sum(each.values()), f"{file}:{line}", text))
    return 1000 * sum(counts.values()) / max(words, 1), counts, worst


def main() -> int:
    """Print the rate of each path; 1 if one is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--worst", type=int, default=0, help="show so many paragraphs of each path")
    given = parser.parse_args()
    failed = False
    for path in given.paths or map(Path, LIMITS):
        found, counts, worst = rate(path)
        limit = LIMITS.get(str(path), 3.0)
        failed |= found > limit
        print(f"{path}: {found:.1f} habits in 1000 words, at most {limit:g}")
        if found > limit or given.worst:
            for name, count in sorted(counts.items(), key=lambda item: -item[1]):
                if count:
                    print(f"    {count:5d}  {name}")
        for _, where, text in sorted(worst, key=lambda item: -item[0])[: given.worst]:
            print(f"  {where}: {text[:300]}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
