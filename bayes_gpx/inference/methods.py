"""The methods of inference by name."""

from importlib import import_module

from bayes_gpx.validation import one_of

METHODS = {
    "map": "bayes_gpx.inference.optimise:Maximum",
    "laplace": "bayes_gpx.inference.laplace:WeightedLaplace",
    "nuts": "bayes_gpx.inference.nuts:NUTS",
    "svgp": "bayes_gpx.inference.stochastic:SVGP",
}
"""Each method's class, or where that is; then it is loaded when it is asked for, since PyMC takes
seconds to import."""


def method_named(name: str):
    """Return a method of inference, a `bayes_gpx.inference.base.Method`, by its name."""
    one_of("method", name, METHODS)
    kind = METHODS[name]
    if isinstance(kind, str):
        module, _, member = kind.partition(":")
        kind = getattr(import_module(module), member)
    return kind()
