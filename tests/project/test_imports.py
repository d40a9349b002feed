"""Names load late, and all of them load; what an editor is shown is what there is."""

import ast
import subprocess
import sys
from pathlib import Path

import bayes_gpx as bx

PACKAGE = Path(bx.__file__).parent
EAGER = """
import bayes_gpx as bx, importlib, pathlib
for name in bx.__all__:
    getattr(bx, name)
for file in pathlib.Path(bx.__file__).parent.rglob("*.py"):
    parts = file.relative_to(pathlib.Path(bx.__file__).parent).with_suffix("").parts
    importlib.import_module(".".join(["bayes_gpx", *(p for p in parts if p != "__init__")]))
"""


def test_every_name_and_file_loads_in_a_fresh_process():
    subprocess.run([sys.executable, "-W", "error", "-c", EAGER], check=True)


def test_editors_see_the_public_names_where_they_are():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    (shown,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {}
    for node in shown.body:
        for name in node.names:
            assert name.name == name.asname
            seen[name.name] = node.module
    targets = {}
    for name, target in bx._MAP.items():
        module, _, member = target.partition(":")
        targets[name] = module if member else module.rpartition(".")[0]
    assert {name: seen[name] for name in targets if name in seen} == {
        name: module for name, module in targets.items() if name in seen
    }
    assert set(seen) == {t.rpartition(".")[2] if ":" not in t else n for n, t in bx._MAP.items()}
