"""The methods of inference by name."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayes_gpx.inference.base import Method

METHODS = {
    "auto": "bayes_gpx.inference.automatic:Automatic",
    "map": "bayes_gpx.inference.optimise:Maximum",
    "laplace": "bayes_gpx.inference.laplace:WeightedLaplace",
    "nuts": "bayes_gpx.inference.nuts:NUTS",
    "svgp": "bayes_gpx.inference.stochastic:SVGP",
}
"""Each method's class, or "module:class", imported when it is asked for: PyMC takes seconds."""


def method_named(name: str) -> "Method":
    """Return a method of inference by its name."""
    from bayes_gpx.validation import one_of  # the command line reads the names without NumPy

    one_of("method", name, METHODS)
    kind = METHODS[name]
    if isinstance(kind, str):
        module, _, member = kind.partition(":")
        kind = getattr(import_module(module), member)
    return kind()
