"""Models of every structure and functions of every kind, small and seeded: the matrix of all calls.

A cell is a model and a function. `cell` returns its numbers by name, or the error that refuses it.
``python tests/reference/matrix_of_calls.py`` stores two numbers for each array beside this script.
Do this only after a change that is meant to change numbers; a refactoring leaves them alone.
"""

import json
import sys
import warnings
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

import bayes_gpx as bx

STORED = Path(__file__).with_suffix(".json")

N, QUIET = 24, {"progressbar": False}
SUMMARY = QUIET | {"keep": "summary"}
DRAWN = QUIET | {"draws": 20, "seed": 1}


@cache
def rows():
    """Features, f, a response, labels of three classes, counts and groups."""
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.normal(size=(N, 2)), columns=["a", "b"])
    f = np.sin(2 * X["a"]) + X["b"]
    y = (f + 0.3 * rng.normal(size=N)).rename("y")
    label, counts = np.digitize(f, [-0.7, 0.7]), rng.poisson(np.exp(f / 2))
    Z = pd.DataFrame(rng.normal(size=(N, 2)), columns=["u", "v"])
    return X, f, y, label, counts, Z, np.arange(N) % 4


def mixed():
    """A number, a category and a date."""
    X = rows()[0]
    return pd.DataFrame(
        {
            "a": X["a"],
            "kind": pd.Categorical(np.resize(["red", "green", "blue"], N)),
            "day": pd.date_range("2024-01-01", periods=N, freq="7D"),
        }
    )


def additive(d):
    """Interactions of two features."""
    return bx.Additive(d, ls=np.linspace(0.8, 1.4, d), order=2, base=pm.gp.cov.Matern52)


def orthogonal(d):
    """The same with components that are orthogonal under a standard normal."""
    return bx.Additive(d, ls=np.linspace(0.8, 1.4, d), order=2, measure="gaussian")


def own(d):
    """A callable kernel, with a hyperparameter of its own."""
    return pm.HalfNormal("size") ** 2 * pm.gp.cov.Matern52(d, ls=1.5)


def labelled():
    """A covariance between six objects."""
    rng = np.random.default_rng(7)
    roots = rng.normal(size=(6, 9))
    K = pd.DataFrame(roots @ roots.T / 9, index=list("pqrstu"), columns=list("pqrstu"))
    return pd.DataFrame({"object": np.resize(list("pqrstu"), N)}), bx.Precomputed(K)


def builders():
    """Functions that build a model each, by its name."""
    X, f, y, label, counts, Z, groups = rows()
    up = label > 0
    table = pd.DataFrame({"y": y, "z": f - X["a"]})
    table.iloc[3, 1] = np.nan
    exposure = np.linspace(1.0, 2.0, N)
    objects, known = labelled()
    increasing = bx.constraints.Increasing("b", at=X[:3])
    found = {f"GP {k}": partial(bx.GP, X, y, kernel=k) for k in KERNELS}
    found |= {
        "GP, one lengthscale": partial(bx.GP, X, y, ard=False),
        "GP of units": partial(bx.GP, X, y, scale=False),
        "GP additive": partial(bx.GP, X, y, kernel=additive),
        "GP orthogonal": partial(bx.GP, X, y, kernel=orthogonal),
        "GP of a user's kernel": partial(bx.GP, X, y, kernel=own),
        "GP of objects": partial(bx.GP, objects, y, kernel=known),
        "GP of categories": partial(bx.GP, mixed(), y),
        "GP student": partial(bx.GP, X, y, likelihood="student_t"),
        "GP labels": partial(bx.GP, X, up, likelihood="bernoulli"),
        "GP probit": partial(bx.GP, X, up, likelihood="bernoulli", link="probit"),
        "GP classes": partial(bx.GP, X, label, likelihood="categorical"),
        "GP correlated": partial(bx.GP, X, label, likelihood="categorical", correlation=1),
        "GP counts": partial(bx.GP, X, counts, likelihood="poisson", exposure=exposure),
        "GP overdispersed": partial(bx.GP, X, counts, likelihood="negative_binomial"),
        "GP inducing": partial(bx.GP, X, y, approximation=bx.Inducing(8)),
        "GP waves": partial(bx.GP, X, y, approximation=bx.HSGP([4, 4], 2.0)),
        "GP features": partial(bx.GP, X, y, approximation=bx.RandomFeatures(16, seed=2)),
        "GP labels inducing": partial(
            bx.GP, X, up, likelihood="bernoulli", approximation=bx.Inducing(8)
        ),
        "GP counts waves": partial(
            bx.GP, X, counts, likelihood="poisson", approximation=bx.HSGP([4, 4], 2.0)
        ),
        "GP groups": partial(bx.GP, X, y, groups=groups),
        "GP labels groups": partial(bx.GP, X, up, likelihood="bernoulli", groups=groups),
        "GP outputs": partial(bx.GP, X, table),
        "GP outputs shared": partial(bx.GP, X, table, correlation=1),
        "GP constrained": partial(bx.GP, X, y, constraints=[increasing]),
        "GPX": partial(bx.GPX, X, y),
        "GPX by place": partial(bx.GPX, X, y, Z, intercept=True),
        "GPX per feature": partial(bx.GPX, X, y, weight_prior="per_feature"),
        "GPX horseshoe": partial(bx.GPX, X, y, weight_prior="horseshoe"),
        "GPX labels": partial(bx.GPX, X, up, likelihood="bernoulli"),
        "GPX classes": partial(bx.GPX, X, label, likelihood="categorical"),
        "GPX inducing": partial(bx.GPX, X, y, approximation=bx.Inducing(8)),
        "GPX waves": partial(bx.GPX, X, y, approximation=bx.HSGP([4, 4], 2.0)),
        "GPX counts inducing": partial(
            bx.GPX, X, counts, likelihood="poisson", approximation=bx.Inducing(8)
        ),
        "GPX groups": partial(bx.GPX, X, y, groups=groups),
    }
    waves, few = bx.HSGP([4, 4], 2.0), bx.Inducing(8)
    counted = pd.DataFrame({"y": counts, "z": counts[::-1]})
    found |= {
        "GP groups waves": partial(bx.GP, X, y, groups=groups, approximation=waves),
        "GP labels groups inducing": partial(
            bx.GP, X, up, likelihood="bernoulli", groups=groups, approximation=few
        ),
        "GP classes groups waves": partial(
            bx.GP, X, label, likelihood="categorical", groups=groups, approximation=waves
        ),
        "GP correlated groups": partial(
            bx.GP, X, label, likelihood="categorical", correlation=1, groups=groups
        ),
        "GP groups constrained": partial(bx.GP, X, y, groups=groups, constraints=[increasing]),
        "GP constrained inducing": partial(
            bx.GP, X, y, constraints=[increasing], approximation=few
        ),
        "GP counts constrained waves": partial(
            bx.GP, X, counts, likelihood="poisson", constraints=[increasing], approximation=waves
        ),
        "GP student constrained inducing": partial(
            bx.GP, X, y, likelihood="student_t", constraints=[increasing], approximation=few
        ),
        "GP groups constrained waves": partial(
            bx.GP, X, y, groups=groups, constraints=[increasing], approximation=waves
        ),
        "GP outputs groups": partial(bx.GP, X, table, correlation=1, groups=groups),
        "GP outputs groups waves": partial(
            bx.GP, X, table, correlation=1, groups=groups, approximation=waves
        ),
        "GP counts outputs": partial(bx.GP, X, counted, likelihood="poisson", correlation=1),
        "GPX groups inducing": partial(bx.GPX, X, y, groups=groups, approximation=few),
        "GPX outputs": partial(bx.GPX, X, table, correlation=1),
        "GPX outputs waves": partial(bx.GPX, X, table, Z, approximation=waves),
        "GPX sparse": partial(bx.GPX, X, y, (Z * (Z > 0)).astype(pd.SparseDtype(float, 0.0))),
        "GP amounts": partial(bx.GP, X, np.exp(y), likelihood="gamma", exposure=exposure),
        "GP proportions": partial(bx.GP, X, 1.0 / (1.0 + np.exp(-y)), likelihood="beta"),
        "GP many zeros": partial(bx.GP, X, counts, likelihood="zero_inflated_poisson"),
        "GP two processes": partial(
            bx.GP, X, counts.astype(float), likelihood="heteroscedastic_normal"
        ),
        "GP two processes inducing": partial(
            bx.GP, X, y, likelihood="heteroscedastic_normal", approximation=few
        ),
        "GP two processes waves": partial(
            bx.GP, X, y, likelihood="heteroscedastic_normal", approximation=waves
        ),
        "GP quantile": partial(bx.GP, X, y, likelihood="asymmetric_laplace"),
    }
    return found


KERNELS = (
    "expquad",
    "matern52",
    "matern32",
    "ratquad",
    "periodic",
    "linear",
    "polynomial",
    "matern52 + linear",
    "expquad * linear",
)


@cache
def model(name):
    """A model and hyperparameters, the same for all models that have them."""
    built, theta = builders()[name](), {}
    for variable in built.hyperparameters:
        if variable in built.fixed:
            continue
        size = {"factor": 1, "component": 1}
        dims = built.dims_of(variable)
        shape = tuple(size.get(d) or len(built.pymc.coords[built.in_model(d)]) for d in dims)
        values = 0.8 + 0.2 * np.cos(np.arange(np.prod(shape, dtype=int))).reshape(shape)
        theta[variable] = values * SIZES.get(variable, 1.0)
    return built, theta


SIZES = {"sigma": 0.4, "sigma_w": 0.2, "nu": 6.0, "dispersion": 3.0, "group_amplitude": 0.5}
SIZES |= {"shape": 4.0, "precision": 9.0, "inflation": 0.2}
"""Typical sizes of hyperparameters that are not about 1."""


def new_rows(built):
    """Where a call explains: three of the training rows, moved a little."""
    X = pd.DataFrame(rows()[0][:3] * 0.9 + 0.05)
    source = built.training.X
    if source.levels or getattr(source, "origins", None):
        X = mixed()[:3]
    if built.specification.levels is not None:
        X = labelled()[0][:3]
    found = {"X_new": X}
    if built.training.Z is not None and not built.training.tied:
        found["Z_new"] = rows()[5][:3] + 0.1
    if built.training.groups is not None:
        found["groups_new"] = [1, 2, 9]
    return found


def asked(function, built, theta, **options):
    """Call a function of the package at the new rows."""
    return getattr(bx, function)(built, theta, **new_rows(built), **options)


def trained(function, built, theta, **options):
    """Call a function of the package at the training rows."""
    return getattr(bx, function)(built, theta, **options)


def density(built, theta):
    """Log density of the hyperparameters and its gradient, at the start."""
    objective = built.objective
    point = objective.initial_point()
    value, slope = objective.compile_logp()(point), objective.compile_dlogp()(point)
    return {"value": np.asarray(value), "slope": np.asarray(slope)}


def fitted(built, theta, method, **options):
    """A fit, from these hyperparameters."""
    return built.fit(method, start=theta, **options, **QUIET)


def compared(built, theta, **options):
    """Comparisons of two values of the first column."""
    first = built.training.X.sources[0]
    values = ("p", "q") if first == "object" else (-0.5, 0.5)
    return asked("comparisons", built, theta, variables={first: values}, **options)


def weighed(function, built, theta, **options):
    """Explain the weight of the first column of Z."""
    columns = ["a"] if built.training.Z is None else built.training.Z.columns
    return asked(function, built, theta, of=("weight", columns[0]), **options)


def worth(built, theta):
    """What new rows are worth for the attributions of the same rows."""
    rows, names = new_rows(built), {"Z_new": "Z_candidates", "groups_new": "groups_candidates"}
    beside = {names[name]: values for name, values in rows.items() if name in names}
    options = {"question": "attributions", **beside, **rows, **QUIET}
    return bx.next_rows(built, theta, rows["X_new"], **options)


def treated(built, theta, **options):
    """Effects of the first column, per unit, and their averages."""
    first = built.training.X.sources[0]
    return asked("treatment_effects", built, theta, treatment=first, **options)


def drawn_functions(built, theta):
    """Predictions and slopes of functions drawn from the posterior."""
    functions = bx.sample_functions(built, theta, draws=3, seed=1, **QUIET)
    return functions.predictions(**new_rows(built))


FUNCTIONS = {
    "density": density,
    "predictions": partial(asked, "predictions", seed=1, draws=20, **SUMMARY),
    "predictions latent": partial(asked, "predictions", on="latent", **SUMMARY),
    "predictions of joint draws": partial(asked, "predictions", joint=True, **DRAWN),
    "derivatives": partial(asked, "derivatives", draws=20, seed=1, **SUMMARY),
    "derivatives latent": partial(asked, "derivatives", on="latent", covariance=True, **SUMMARY),
    "second derivatives": partial(asked, "derivatives", on="latent", order=2, **SUMMARY),
    "second derivatives of the response": partial(
        asked, "derivatives", order=2, draws=20, seed=1, **SUMMARY
    ),
    "slopes": partial(asked, "slopes", **DRAWN),
    "path_slopes": partial(asked, "path_slopes", obs=[0], on="latent", **DRAWN),
    "attributions": partial(asked, "attributions", draws=20, seed=1, **SUMMARY),
    "attributions latent": partial(asked, "attributions", on="latent", covariance=True, **SUMMARY),
    "attributions from zero": partial(
        asked, "attributions", on="latent", baseline="zero", **SUMMARY
    ),
    "shapley_values": partial(asked, "shapley_values", draws=20, seed=1, **SUMMARY),
    "attributions of the log variance": partial(
        asked, "attributions", of="log_variance", **SUMMARY
    ),
    "shapley_values of the log variance": partial(
        asked, "shapley_values", of="log_variance", on="latent", baseline="median", **SUMMARY
    ),
    "weights": partial(asked, "weights", draws=20, seed=1, **SUMMARY),
    "smooth weights": partial(
        asked, "weights", smooth=True, units="original", covariance=True, **SUMMARY
    ),
    "contributions": partial(asked, "contributions", on="latent", **SUMMARY),
    "attributions of a weight": partial(weighed, "attributions", covariance=True, **SUMMARY),
    "components": partial(asked, "components", on="latent", **SUMMARY),
    "sobol_indices": partial(trained, "sobol_indices", **QUIET),
    "relevance": partial(asked, "relevance", **QUIET),
    "relevance of the mixture": partial(asked, "relevance", over="mixture", **QUIET),
    "interactions": partial(asked, "interactions", **QUIET),
    "importances": partial(asked, "importances", draws=3, seed=1, **QUIET),
    "partial_dependence": partial(asked, "partial_dependence", steps=4, **DRAWN),
    "comparisons": partial(compared, **DRAWN),
    "average comparisons": partial(compared, by=True, on="latent", covariance=True, **DRAWN),
    "treatment_effects": partial(treated, on="latent", **SUMMARY),
    "log_likelihood": partial(trained, "log_likelihood", **QUIET),
    "loo_predictions": partial(trained, "loo_predictions", seed=1, **QUIET),
    "loo_predictions of groups": partial(
        trained, "loo_predictions", groups=np.arange(N) % 6, seed=1, **QUIET
    ),
    "predictive_checks": partial(trained, "predictive_checks", seed=1, **QUIET),
    "sample_posterior_predictive": partial(asked, "sample_posterior_predictive", seed=1, **QUIET),
    "sample_functions": drawn_functions,
    "next_rows": worth,
    "fit by map": partial(fitted, method="map"),
}


def numbers(found):
    """Arrays of numbers in a result."""
    if isinstance(found, dict):
        return found
    if isinstance(found, xr.DataTree):
        nodes = [node for node in found.subtree if node.name != "starts"]
        return {f"{n.path}/{k}": v.values for n in nodes for k, v in n.data_vars.items() if real(v)}
    return {k: v.values for k, v in found.data_vars.items() if real(v)}


def real(variable):
    """Whether a variable has real numbers."""
    return variable.dtype.kind == "f"


def cell(name, function):
    """Numbers of one function of one model, by name; of a refusal its text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return numbers(FUNCTIONS[function](*model(name)))
    except (ValueError, TypeError, NotImplementedError) as refused:
        return f"{type(refused).__name__}: {refused}"


def prints(found):
    """Two numbers for each array: its size, and its sum with signs that differ by position."""
    if isinstance(found, str):
        return found
    short = {}
    for name, values in found.items():
        values = np.nan_to_num(np.asarray(values, float).ravel(), posinf=0.0, neginf=0.0)
        signs = np.cos(1.0 + np.arange(len(values)))
        sums = np.abs(values).sum(), values @ signs
        short[name] = [float(f"{one:.10g}") for one in sums]
    return short


def differs(name, function, expected):
    """How a cell differs from its stored numbers, in words; nothing where it does not.

    Fits agree to the tolerance of their optimizers, and all other numbers to 1e-7 of the sum of
    absolute values, as on other processors. Residuals are round-off themselves, and small.
    """
    got = prints(cell(name, function))
    if isinstance(expected, str) or isinstance(got, str):
        same = isinstance(expected, str) and isinstance(got, str)
        return "" if same else f"{got} was {expected}"
    if set(got) != set(expected):
        return f"{sorted(set(got) ^ set(expected))} were added or removed"
    tolerance = 1e-3 if function.startswith("fit") else 1e-7
    least = {key: 0.1 if "residual" in key else 1e-6 for key in expected}
    wrong = [
        f"{key}: {got[key]} was {value}"
        for key, value in expected.items()
        if np.abs(np.subtract(got[key], value)).max() > tolerance * (value[0] + least[key])
    ]
    return "; ".join(wrong)


def _lines(found):
    """A JSON text with one line for each cell, so that changes can be read."""
    models = []
    for name, cells in found.items():
        lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in cells.items()]
        models.append(f"{json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(models) + "\n}\n"


def main():
    """Compute all cells, or those of the models named, and store them."""
    found = json.loads(STORED.read_text()) if STORED.exists() else {}
    for name in sys.argv[1:] or builders():
        found[name] = {function: prints(cell(name, function)) for function in FUNCTIONS}
        refused = [f for f, value in found[name].items() if isinstance(value, str)]
        print(f"{name}: {len(FUNCTIONS) - len(refused)} functions; refused: {refused}", flush=True)
        STORED.write_text(_lines(found))


if __name__ == "__main__":
    main()
