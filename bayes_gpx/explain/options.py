"""Options that explanation functions share: one text for each, shown on every help page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import getdoc, signature
from typing import Any

from bayes_gpx.draws.evaluate import evaluate

SHARED = {
    "draws": """int
    Number of conditional draws if `idata` has a single hyperparameter draw. Otherwise each
    hyperparameter draw gives one.""",
    "num_draws": """int, optional
    Thin the hyperparameter draws evenly to at most this many.""",
    "features": """list of str, optional
    Only these features.""",
    "covariance": """bool
    Add covariances within an observation, named `_cov`.""",
    "by": """True, str, list of str, series or frame, optional
    Explain averages over rows instead: of all rows; of rows with equal values in a column, or in
    several; with equal labels (m,); or sums by the weights in a frame (m, groups), used as given.
    Linear in f, so exact; draws are joint over groups, and the dim `by` replaces `obs`. For
    probabilities and rates pass ``on="latent"``.""",
    "joint": """bool
    Draw all observations jointly, at most 5000 quantities.""",
    "keep": """{"draws", "summary"}
    Return draws and moments, or moments alone.""",
    "on": """{"response", "latent"}
    Explain the mean response or f. They are equal for a Gaussian likelihood.""",
    "path": """str or path, optional
    Stream the draws to a new zarr store. A repeated call continues an interrupted one.""",
    "executor": """concurrent.futures.Executor, optional
    Its workers share the draws, or chunks of more than 16,384 rows, whose draws need a `path`.""",
    "seed": """int, optional
    Seed of the draws.""",
    "progressbar": """bool
    Show progress.""",
    "ci_prob": """float, optional
    Probability of the intervals, 90% by default.""",
}
"""Type and meaning of each option, as numpydoc writes them."""

DEFAULTS = {
    name: parameter.default
    for name, parameter in signature(evaluate).parameters.items()
    if name in SHARED
}


def documented[Function: Callable](function: Function) -> Function:
    """Add the shared options that a docstring leaves out to the end of its parameters."""
    doc = getdoc(function) or ""
    names = [name for name in signature(function).parameters if name in SHARED]
    missing = [name for name in names if f"\n{name} : " not in doc]
    text = "".join(f"{name} : {SHARED[name]}\n" for name in missing)
    function.__doc__ = doc.replace("\n\nReturns\n-------", f"\n{text}\nReturns\n-------", 1)
    return function


def chosen(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The shared options among a function's arguments that differ from their defaults.

    Methods that cannot use an option refuse it, and must not see one that the user left out.
    """
    return {
        name: arguments[name]
        for name, default in DEFAULTS.items()
        if name in arguments and arguments[name] != default
    }
