"""Which function works with which model: tables made of the stored matrix of all calls.

`docs/conf.py` calls `write` in each build of the documentation. The matrix is computed by
`tests/reference/matrix_of_calls.py`, and tests compare the package with it.
"""

import json
import re
import runpy
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

MATRIX = Path(__file__).resolve().parents[1] / "tests" / "reference" / "matrix_of_calls.json"


def reason(cell: str) -> str:
    """First sentence of the message that refuses a call."""
    message = cell.partition(": ")[2]
    return re.split(r"(?<=[.?!]) (?=[A-Z]|bx\.)", message)[0]


def reasons(matrix: dict[str, dict[str, Any]]) -> dict[str, int]:
    """Number of each reason, the most frequent one first."""
    cells = (cell for row in matrix.values() for cell in row.values())
    counts = Counter(reason(cell) for cell in cells if isinstance(cell, str))
    return {text: k for k, (text, _) in enumerate(counts.most_common(), start=1)}


def refused(matrix: dict[str, dict[str, Any]]) -> dict[str, bool]:
    """Whether a function refuses any model, by its name."""
    functions = next(iter(matrix.values()))
    return {f: any(isinstance(row[f], str) for row in matrix.values()) for f in functions}


def everywhere(matrix: dict[str, dict[str, Any]]) -> str:
    """Names of the functions that work with every model."""
    return ", ".join(f"`{name}`" for name, any_ in refused(matrix).items() if not any_) + ".\n"


def table(matrix: dict[str, dict[str, Any]]) -> str:
    """Markdown table of models by the other functions: a check mark, or the reason's number."""
    number = reasons(matrix)
    functions = [name for name, any_ in refused(matrix).items() if any_]
    rows = [["Model", *functions], ["---"] * (len(functions) + 1)]
    for model, cells in matrix.items():
        shown = [cells[name] for name in functions]
        told = [number[reason(cell)] if isinstance(cell, str) else 0 for cell in shown]
        rows.append([model, *(f'<a href="#reason-{k}">{k}</a>' if k else "✓" for k in told)])
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(["```{table}", ":class: matrix", "", *lines, "```", ""])


def listed(matrix: dict[str, dict[str, Any]]) -> str:
    """Markdown list of the reasons, in the order of their numbers."""
    lines = [f'{k}. <span id="reason-{k}"></span>{_escaped(r)}' for r, k in reasons(matrix).items()]
    return "\n".join([*lines, ""])


def calls(builders: dict[str, partial]) -> str:
    """Markdown table of the call that makes each model; Y is a table of several outputs."""
    lines = ["| Model | Call |", "|---|---|"]
    for name, builder in builders.items():
        y = "Y" if hasattr(builder.args[1], "columns") else "y"
        data = ["X", y, "Z"][: len(builder.args)]
        options = [f"{k}={_written(v)}" for k, v in builder.keywords.items()]
        call = f"bx.{builder.func.__name__}({', '.join([*data, *options])})"
        lines.append(f"| {name} | `{call}` |")
    return "\n".join([*lines, ""])


def _escaped(text: str) -> str:
    """A message as Markdown text: names with underscores and brackets are not markup."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", text)


def _written(value: Any) -> str:
    """A value of an argument: functions by their names, and data as three dots."""
    if isinstance(value, str | int | float | bool):
        return json.dumps(value) if isinstance(value, str) else repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    kind = type(value)
    module = "bx.constraints." if "constraints" in kind.__module__ else "bx."
    known = kind.__module__.startswith("bayes_gpx")
    return f"{module}{kind.__name__}(...)" if known else getattr(value, "__name__", "...")


def write(folder: Path) -> None:
    """Write the tables and the list into a folder."""
    folder.mkdir(exist_ok=True)
    matrix = json.loads(MATRIX.read_text(encoding="utf-8"))
    defined = runpy.run_path(str(MATRIX.with_suffix(".py")))
    texts = {
        "everywhere": everywhere(matrix),
        "matrix": table(matrix),
        "reasons": listed(matrix),
        "models": calls(defined["builders"]()),
    }
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
