"""Public functions, and those that another wing imports, have all their types written down.

So have the public methods of such classes, once: where a base of the package declares a method's
types, the methods that override it need not repeat them.
"""

import ast
import functools
import inspect
from importlib import import_module
from pathlib import Path

import pytest

import bayes_gpx as bx
from bayes_gpx.explain.sample_functions import RandomFunctions

PACKAGE = Path(bx.__file__).parent
TREES = {
    file.relative_to(PACKAGE).with_suffix("").as_posix(): ast.parse(file.read_text())
    for file in PACKAGE.rglob("*.py")
}


def crossing():
    """Files of the package and the names in them that files of another wing import."""
    found = set()
    for file, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bayes_gpx."):
                source = node.module.removeprefix("bayes_gpx.").replace(".", "/")
                if source in TREES and source.split("/")[0] != file.split("/")[0]:
                    found |= {(source, alias.name) for alias in node.names}
    return sorted(found)


CROSSING = {
    f"{source}.{name}": getattr(import_module(f"bayes_gpx.{source.replace('/', '.')}"), name, None)
    for source, name in crossing()
}


def public():
    """What users call, by name: the package's names, and those of the modules among them."""
    found = {"RandomFunctions": RandomFunctions}
    for name in bx.__all__:
        value = getattr(bx, name)
        if not inspect.ismodule(value):
            found[name] = value
            continue
        for inner in getattr(value, "__all__", None) or vars(value):
            member = getattr(value, inner)
            own = getattr(member, "__module__", "").startswith(value.__name__)
            if own and callable(member) and not inner.startswith("_"):
                found[f"{name}.{inner}"] = member
    return found


PUBLIC = public()


KINDS = {
    property: "fget",
    functools.cached_property: "func",
    classmethod: "__func__",
    staticmethod: "__func__",
}
"""Where each kind of method holds its function."""


def functions_of(member):
    """List the function behind a method, a property or a cached property, or nothing."""
    for kind, inner in KINDS.items():
        member = getattr(member, inner) if isinstance(member, kind) else member
    return [member] if inspect.isfunction(member) else []


def untyped(function):
    """What a function leaves without a type: names of arguments, and "return"."""
    signature = inspect.signature(function)
    lacks = [
        name
        for name, parameter in signature.parameters.items()
        if parameter.annotation is parameter.empty and name not in ("self", "cls")
    ]
    said = signature.return_annotation is not signature.empty or function.__name__ == "__init__"
    return lacks + ([] if said else ["return"])


def untyped_methods(kind):
    """What public methods leave without a type, where no base of the package declares it."""
    own = [base for base in kind.__mro__ if base.__module__.startswith("bayes_gpx")]
    found = {}
    for name in dict.fromkeys(name for base in own for name in vars(base)):
        if name.startswith("_") and name != "__init__":
            continue
        declared = [f for base in own if name in vars(base) for f in functions_of(vars(base)[name])]
        lacks = [untyped(f) for f in declared if f.__module__.startswith("bayes_gpx")]
        if lacks and all(lacks):
            found[f"{kind.__name__}.{name}"] = lacks[0]
    return found


def lacking(members):
    """What functions, and the methods of classes, leave without a type."""
    found = {}
    for name, member in members.items():
        if inspect.isclass(member):
            found |= untyped_methods(member)
        elif callable(member) and inspect.isfunction(inspect.unwrap(member)):
            lacks = untyped(inspect.unwrap(member))
            found |= {name: lacks} if lacks else {}
    return found


def test_what_crosses_a_wing_is_typed():
    assert len(CROSSING) > 150
    assert lacking(CROSSING) == {}


@pytest.mark.parametrize("name", PUBLIC)
def test_what_users_call_is_typed(name):
    assert lacking({name: PUBLIC[name]}) == {}


def test_what_lacks_a_type_is_found():
    class Base:
        def declared(self, x: int) -> int:
            return x

    class Own(Base):
        def __init__(self, x):
            self.x = x

        def declared(self, x):
            return x

        @functools.cached_property
        def kept(self):
            return self.x

        def undeclared(self, x, *, y: int) -> int:
            return y

    for kind in (Base, Own):
        kind.__module__ = "bayes_gpx.here"
        for member in vars(kind).values():
            for function in functions_of(member):
                function.__module__ = kind.__module__
    lacks = {"Own.__init__": ["x"], "Own.kept": ["return"], "Own.undeclared": ["x"]}
    assert untyped_methods(Own) == lacks
