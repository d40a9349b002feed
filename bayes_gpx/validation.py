"""Checks of arguments; each message names the problem, the value and the fix."""

import difflib
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Executor
from functools import wraps
from inspect import signature
from itertools import islice
from numbers import Real
from typing import Any

import numpy as np


def names_among(what: str, given: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Check that `given` is a list of different column names, and return it as a list."""
    if isinstance(given, str) or not len(given) or len(set(given)) < len(given):
        raise ValueError(f"{what} is {given!r}. Pass a list of different names.")
    for name in given:
        one_of(what, name, columns)
    return list(given)


def read_pairs(pairs: Iterable[Sequence[str]], columns: Sequence[str]) -> list[frozenset[int]]:
    """Positions of pairs of names; raises for repeated or invalid pairs."""
    found = []
    for pair in pairs:
        if isinstance(pair, str) or len(pair) != 2 or len(set(pair)) != 2:
            raise ValueError(f"pairs: {pair!r} is no pair. Pass two different names.")
        found.append(frozenset(columns.index(name) for name in names_among("pairs", pair, columns)))
    if len(set(found)) < len(found):
        raise ValueError(f"pairs is {pairs!r}. Pass a list of different pairs of names.")
    return found


def probability(ci_prob: float | None, default: float) -> float:
    """Check the probability of an interval, and return it; None stands for the default."""
    prob = default if ci_prob is None else ci_prob
    if not (isinstance(prob, Real) and 0 < prob < 1):
        raise ValueError(f"ci_prob is {prob!r}. Pass a probability between 0 and 1.")
    return prob


def count(argument: str, value: Any, least: int = 1) -> None:
    """Raise unless value is a whole number of at least `least`."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least:
        raise ValueError(f"{argument} is {value!r}. Pass a whole number of at least {least}.")


def one_output(found: Any) -> None:
    """Raise for a Dataset of several outputs, naming them."""
    if "output" in found.dims:
        names = found["output"].values.tolist()
        raise ValueError(
            f"The dataset has the outputs {names}. Choose one of them: "
            f"dataset.sel(output={names[0]!r})."
        )


def known_executor(executor: Executor | None) -> None:
    """Raise ValueError for what cannot run tasks."""
    if not isinstance(executor, Executor | None):
        raise ValueError(
            f"executor is a {type(executor).__name__}. Pass one of concurrent.futures, or for Dask "
            "client.get_executor()."
        )


MOST_LISTED = 100
"""So many choices are listed."""


def one_of(argument: str, value: Any, choices: Collection[str]) -> None:
    """Raise unless value is among the choices, naming them and the one that was meant."""
    if not isinstance(value, str) or value not in choices:
        hint = meant(argument, value, choices)
        listed = list(islice(choices, MOST_LISTED))
        more = f" and {len(choices) - MOST_LISTED} more" if len(choices) > MOST_LISTED else ""
        raise ValueError(f"{argument}: unknown {value!r}. Pass one of {listed}{more}.{hint}")


def options_named[**P, T](function: Callable[P, T]) -> Callable[P, T]:
    """Have a function answer an unknown option with those that it has, and the one meant."""
    known = [name for name in signature(function).parameters if name != "self"]

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        for name in kwargs:
            if name not in known:
                kind = type(args[0]).__name__
                hint = meant("option", name, known)
                raise TypeError(f"{kind} has no option {name!r}; it has {', '.join(known)}.{hint}")
        return function(*args, **kwargs)

    return called


def meant(argument: str, value: Any, choices: Collection[str]) -> str:
    """Ask whether a choice was meant by an unknown name; "" where none is near.

    Examples
    --------
    >>> meant("kernel", "RBF", ["expquad", "matern52"])
    " Did you mean 'expquad'?"
    """
    said = str(value).lower().replace("-", "_").replace(" ", "_")
    known = SYNONYMS.get(argument, {}).get(said, said)
    if "=" in known:
        return f" Did you mean {known}?"
    choice, space, note = known.partition(" ")
    if choice in choices:
        return f" Did you mean {choice!r}{space}{note}?"
    near = difflib.get_close_matches(str(value), choices, 1)
    return f" Did you mean {near[0]!r}?" if near else ""


_HYPERPARAMETERS = {
    "ls": "lengthscale",
    "length_scale": "lengthscale",
    "eta": "amplitude",
    "outputscale": "amplitude (the square root of a variance)",
    "variance": "amplitude (its square root)",
    "noise": "sigma (a standard deviation)",
}

_OPTIONS = {
    **{
        said: f"priors={{{name.partition(' ')[0]!r}: ...}}{name.removeprefix(name.split()[0])}"
        for said, name in _HYPERPARAMETERS.items()
    },
    **{name: f"priors={{{name!r}: ...}}" for name in ("lengthscale", "amplitude", "sigma")},
    "noise_sd": "priors={'sigma': ...}",
    "alpha": "priors={'sigma': ...} (a standard deviation)",
    "family": "likelihood",
    "cov": "kernel",
    "cov_func": "kernel",
    "covariance": "kernel",
    "normalize": "scale",
    "normalize_y": "scale",
    "standardize": "scale",
    "standardise": "scale",
    "inducing": "approximation=bx.Inducing(m)",
    "n_inducing": "approximation=bx.Inducing(m)",
    "offset": "exposure",
    "n_trials": "trials",
    "yerr": "noise_sd",
    "group": "groups",
}

SYNONYMS = {
    "option": _OPTIONS,
    "priors": _HYPERPARAMETERS,
    "hyperparameters": _HYPERPARAMETERS,
    "backend": {"mpl": "matplotlib"},
    "kernel": {
        "rbf": "expquad",
        "gaussian": "expquad",
        "squared_exponential": "expquad",
        "se": "expquad",
        "matern": "matern52",
        "matern_52": "matern52",
        "matern5/2": "matern52",
        "matern_32": "matern32",
        "matern3/2": "matern32",
        "rq": "ratquad",
        "rational_quadratic": "ratquad",
        "exp_sine_squared": "periodic",
        "dot_product": "linear",
    },
    "likelihood": {
        "gaussian": "normal",
        "gauss": "normal",
        "t": "student_t",
        "studentt": "student_t",
        "binary": "bernoulli",
        "ordered_logit": "ordinal",
        "cumulative": "ordinal",
        "logistic": "bernoulli",
        "multinomial": "categorical",
        "softmax": "categorical",
        "multiclass": "categorical",
        "counts": "poisson",
        "nbinom": "negative_binomial",
        "negbin": "negative_binomial",
        "quantile": "asymmetric_laplace",
    },
    "fit": {
        "random_seed": "seed",
        "random_state": "seed",
        "num_samples": "draws",
        "num_warmup": "tune",
        "warmup": "tune",
        "num_chains": "chains",
        "progress_bar": "progressbar",
    },
    "method": {
        "mcmc": "nuts",
        "hmc": "nuts",
        "sample": "nuts",
        "mle": "map",
        "ml": "map",
        "advi": "laplace (draws around the mode)",
        "vi": "svgp (variational, with approximation=bx.Inducing(m))",
        "svi": "svgp (variational, with approximation=bx.Inducing(m))",
    },
}
"""Names from other packages, by argument, with the name here and, in brackets, a remark.

They are compared in lower case, with underscores.
"""
