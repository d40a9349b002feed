"""The layers of the package, drawn from its imports, and the table of its files.

`docs/conf.py` calls `write` in each build of the documentation, so both agree with the code.
"""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import matplotlib

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "bayes_gpx"
COMMAND = "command line"
"""Box of the files of the command line, which are not in a folder."""


def files() -> dict[str, Path]:
    """Files of the package by their paths in it."""
    return {f.relative_to(PACKAGE).as_posix(): f for f in sorted(PACKAGE.rglob("*.py"))}


def layer_of(path: str) -> str:
    """The layer of a file: its subpackage, or the file itself if it is in none."""
    first = path.split("/")[0].removesuffix(".py")
    return COMMAND if first.split("_")[0] == "cli" else first


def imports() -> dict[str, set[str]]:
    """The other layers from which each layer imports, also inside functions; without the root."""
    layers: dict[str, set[str]] = {layer_of(path): set() for path in files()}
    for path, file in files().items():
        modules = []
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "bayes_gpx":
                modules += [f"bayes_gpx.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                modules.append(node.module or "")
            elif isinstance(node, ast.Import):
                modules += [alias.name for alias in node.names]
        names = [name.split(".") for name in modules]
        used = {layer_of(name[1]) for name in names if name[0] == "bayes_gpx" and len(name) > 1}
        layers[layer_of(path)] |= used & set(layers)
    del layers["__init__"]
    return {name: used - {name, "__init__"} for name, used in layers.items()}


def heights(layers: dict[str, set[str]]) -> dict[str, int]:
    """Height of each layer: 0 for the lowest, and above all layers that it imports."""

    @cache
    def lowest(name: str) -> int:
        return 1 + max(map(lowest, layers[name]), default=-1)

    @cache
    def highest(name: str) -> int:
        # Just below the first layer that imports it, so arrows are short.
        users = [other for other, used in layers.items() if name in used]
        return min((highest(other) - 1 for other in users), default=lowest(name))

    return {name: highest(name) for name in layers}


def arrows(layers: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Imports between layers, without those that also lead through another layer."""

    @cache
    def below(name: str) -> set[str]:
        return layers[name].union(*map(below, layers[name]))

    return [
        (name, used)
        for name in layers
        for used in sorted(layers[name])
        if not any(used in below(other) for other in layers[name])
    ]


def draw(file: Path) -> None:
    """Draw the layers, the lowest at the bottom, with an arrow to each layer that is imported."""
    from matplotlib.figure import Figure

    layers, counts = imports(), defaultdict(int)
    for path in files():
        counts[layer_of(path)] += 1
    height, links = heights(layers), arrows(layers)
    place, middle = {}, ""
    for level in range(max(height.values()), -1, -1):
        # A layer that the middle one above imports is in the middle; others are right and left.
        row = [name for name in layers if height[name] == level]
        row.sort(key=lambda n: ((middle, n) not in links, -sum(n in k for k in links), -counts[n]))
        middle = row[0]
        order = sorted(range(len(row)), key=lambda k: k if k % 2 else -k)
        for k, column in enumerate(order):
            place[row[column]] = (k - order.index(0), level)
    across = [x for x, _ in place.values()]
    tall = max(height.values()) + 1
    size = (2.0 * (max(across) - min(across) + 1), 0.7 * tall)
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "layers"}):
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.add_subplot()
        axes.set(xlim=(min(across) - 0.5, max(across) + 0.5), ylim=(-0.5, tall - 0.5))
        axes.axis("off")
        for name, used in links:
            (x, y), (to_x, to_y) = place[name], place[used]
            arrow = {"arrowstyle": "-|>", "color": "0.45", "linewidth": 1.0, "shrinkA": 0}
            axes.annotate("", (to_x, to_y + 0.31), (x, y - 0.31), arrowprops=arrow, zorder=1)
        for name, (x, y) in place.items():
            count = f"{counts[name]} file" + "s" * (counts[name] > 1)
            box = {"boxstyle": "round,pad=0.35", "facecolor": "#e8f0fa", "edgecolor": "#3b6ea5"}
            label = f"{name}\n{count}"
            axes.text(x, y, label, ha="center", va="center", fontsize=9, bbox=box, zorder=2)
        figure.savefig(file, metadata={"Date": None})


def sentence(file: Path) -> str:
    """First line of a module's docstring, without its final period."""
    doc = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    if not doc:
        raise ValueError(f"{file.name} has no docstring. Write one: it is the file's table entry.")
    return doc.splitlines()[0].removesuffix(".").replace("|", "\\|")


def table() -> str:
    """Markdown table of all files, the highest layer last; the lines in bold are subpackages."""
    height, lines = heights(imports()), ["| File of `bayes_gpx/` | Content |", "|---|---|"]
    found = {path: file for path, file in files().items() if path != "__init__.py"}

    def place(path: str) -> tuple:
        layer = layer_of(path)
        return height[layer], layer, not path.endswith(f"{layer}/__init__.py"), path

    for path in sorted(found, key=place):
        text = sentence(found[path])
        folder = path.removesuffix("__init__.py")
        lines.append(
            f"| **`{folder}`** | **{text}** |" if folder != path else f"| `{path}` | {text} |"
        )
    return "\n".join([*lines, ""])


def write(folder: Path) -> None:
    """Write the drawing and the table into a folder."""
    folder.mkdir(exist_ok=True)
    draw(folder / "layers.svg")
    (folder / "files.md").write_text(table(), encoding="utf-8")


if __name__ == "__main__":
    print(table())
