"""The package has a size, which grows only by a decision."""

import ast
import io
import tokenize
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "bayes_gpx"

LIMITS = {"tokens": 484_050, "code lines": 43_560, "files": 309}

LONGEST = 500
"""Lines of a file: what is longer is two things."""

LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def size(source: str) -> tuple[int, int]:
    """Tokens and lines of code in a source text, without comments, docstrings and layout."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        text = node.value if isinstance(node, ast.Expr) else None
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            docstrings.update(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    tokens, lines = 0, set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT and token.start[0] not in docstrings:
            tokens += 1
            lines.update(range(token.start[0], token.end[0] + 1))
    return tokens, len(lines)


def test_the_package_is_no_larger_than_decided() -> None:
    """Growth is a decision: change a limit only with a reason in the commit.

    The goal of the design is 240,000 tokens, 22,500 code lines and 190 files.
    """
    sizes = [size(file.read_text(encoding="utf-8")) for file in PACKAGE.rglob("*.py")]
    tokens, lines = map(sum, zip(*sizes, strict=True))
    found = {"tokens": tokens, "code lines": lines, "files": len(sizes)}
    assert {name: n for name, n in found.items() if n > LIMITS[name]} == {}


def test_no_file_is_too_long() -> None:
    texts = {str(file): file.read_text(encoding="utf-8") for file in PACKAGE.rglob("*.py")}
    long = {path: n for path, text in texts.items() if (n := len(text.splitlines())) > LONGEST}
    assert long == {}


def test_only_code_is_counted() -> None:
    lines = ('"""Module."""', "x = 1  # comment", "def f():", '    """Say', '    more."""')
    source = "\n".join([*lines, '    return """a', 'b"""', ""])
    assert size(source) == (10, 4)
