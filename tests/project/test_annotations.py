"""Every function of the package has all its types written down: of its arguments and its result.

So have private functions, those inside others, and methods that override one with types.
"""

import ast
from pathlib import Path

import bayes_gpx as bx

PACKAGE = Path(bx.__file__).parent
TREES = {
    file.relative_to(PACKAGE).as_posix(): ast.parse(file.read_text())
    for file in PACKAGE.rglob("*.py")
}


def untyped(function):
    """What a function leaves without a type: names of arguments, and "return"."""
    own = function.args
    some = [*own.posonlyargs, *own.args, *own.kwonlyargs, own.vararg, own.kwarg]
    lacks = [v.arg for v in some if v and v.annotation is None and v.arg not in ("self", "cls")]
    said = function.returns is not None or function.name == "__init__"
    return lacks + ([] if said else ["return"])


def lacking(file, tree):
    """What functions of a file leave without a type, by place and name."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    each = {f"{file}:{node.lineno} {node.name}": untyped(node) for node in functions}
    return {place: lacks for place, lacks in each.items() if lacks}


def test_every_function_is_typed():
    assert {file.split("/")[0] for file in TREES} >= {"model", "posteriors", "processes"}
    assert {k: v for file, tree in TREES.items() for k, v in lacking(file, tree).items()} == {}


def test_what_lacks_a_type_is_found():
    source = """
class Own:
    def __init__(self, x):
        self.x = x

    @property
    def kept(self):
        return self.x

    def typed(self, x: int, *more: int, **options: int) -> int:
        def inner(y, /, *more, z=0, **options) -> int:
            return y

        return inner(x)
"""
    lacks = {
        "own.py:3 __init__": ["x"],
        "own.py:7 kept": ["return"],
        "own.py:11 inner": ["y", "z", "more", "options"],
    }
    assert lacking("own.py", ast.parse(source)) == lacks
