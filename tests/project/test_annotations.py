"""Public functions, and those that another wing imports, have all their types written down."""

import ast
import inspect
from pathlib import Path

import pytest

import bayes_gpx as bx

PACKAGE = Path(bx.__file__).parent
TREES = {
    file.relative_to(PACKAGE).with_suffix("").as_posix(): ast.parse(file.read_text())
    for file in PACKAGE.rglob("*.py")
}


def untyped(function):
    """What a function's syntax leaves without a type."""
    given = function.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    lacks = [a.arg for a in named if a and a.annotation is None and a.arg not in ("self", "cls")]
    return lacks + ([] if function.returns or function.name == "__init__" else ["return"])


def test_functions_that_cross_a_wing_are_typed():
    crossing = set()
    for file, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bayes_gpx."):
                source = node.module.removeprefix("bayes_gpx.").replace(".", "/")
                if source in TREES and source.split("/")[0] != file.split("/")[0]:
                    crossing |= {(source, alias.name) for alias in node.names}
    assert len(crossing) > 150
    found = {
        f"{source}.{node.name}": untyped(node)
        for source, name in sorted(crossing)
        for node in TREES[source].body
        if isinstance(node, ast.FunctionDef) and node.name == name
    }
    assert {name: lacks for name, lacks in found.items() if lacks} == {}


@pytest.mark.parametrize("name", [n for n in bx.__all__ if callable(getattr(bx, n))])
def test_public_names_are_typed(name):
    signature = inspect.signature(getattr(bx, name))
    lacks = [k for k, p in signature.parameters.items() if p.annotation is p.empty]
    assert lacks == []
