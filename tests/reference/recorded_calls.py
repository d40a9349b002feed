"""Numbers of every verb, likelihood and approximation, for two versions of the package to compare.

``python tests/reference/recorded_calls.py record FILE`` writes them, ``... compare BEFORE AFTER``
lists the calls whose numbers differ, relative to the largest of each array, and by how much. Of a
change that moves code all numbers are the same; of one that rearranges sums they agree to 1e-12,
and fits (whose names begin so) as well as an optimiser finds its optimum.
"""

import pickle
import sys
import tempfile
import warnings
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

import bayes_gpx as bx
from bayes_gpx.cli import main
from concurrent_calls import QUIET, call, calls, models

N, NEW = 24, 3


def numbers(found):
    """Arrays of numbers in a Dataset, DataTree or frame."""
    if isinstance(found, xr.DataTree):
        return {
            f"{node.path}/{k}": v.values
            for node in found.subtree
            for k, v in node.data_vars.items()
            if v.dtype.kind == "f"
        }
    if isinstance(found, pd.DataFrame):
        return {str(k): found[k].to_numpy() for k in found.select_dtypes("number")}
    return {k: v.values for k, v in found.data_vars.items() if v.dtype.kind == "f"}


def data(d=2, seed=5):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(N, d)), columns=list("abcd")[:d])
    f = np.sin(2 * X["a"]) + X["b"]
    return X, f + 0.3 * rng.normal(size=N), np.digitize(f, [-0.7, 0.7]), rng


def densities():
    """Log density and gradient of each structure at its starting point."""
    for name, (model, _) in models().items():
        if name.endswith("0"):
            point = model.pymc.initial_point()
            value, slope = (
                f(point) for f in (model.pymc.compile_logp(), model.pymc.compile_dlogp())
            )
            yield f"density {name}", {"value": np.asarray(value), "slope": np.asarray(slope)}


def three_by_two(d):
    """An additive kernel of two by two of the features."""
    return bx.Additive(d, ls=np.array([1.1, 0.9, 2.0]), order=2, base=pm.gp.cov.Matern52)


def kernels():
    """Derivatives, attributions, functions and relevance of kernels that differ in kind."""
    X, y, *_ = data(3)
    cases = {
        "matern52": bx.GP(X, y, kernel="matern52"),
        "matern32": bx.GP(X, y, kernel="matern32", ard=False),
        "ratquad": bx.GP(X, y, kernel="ratquad"),
        "periodic": bx.GP(X, y, kernel="periodic"),
        "polynomial": bx.GP(X, y, kernel="polynomial", ard=False),
        "sum": bx.GP(X, y, kernel="matern52 + linear"),
        "product": bx.GP(X, y, kernel="expquad * linear"),
        "additive": bx.GP(X, y, kernel=three_by_two),
        "weights by place": bx.GPX(X[["a", "b"]], y, X),
        "inducing": bx.GP(X, y, approximation=bx.Inducing(8)),
        "inducing weights": bx.GPX(X, y, approximation=bx.Inducing(8)),
        "waves": bx.GP(X, y, kernel="matern52", approximation=bx.HSGP([3, 3, 3], 2.0)),
        "features": bx.GPX(X, y, kernel="matern32", approximation=bx.RandomFeatures(16, seed=2)),
    }
    for name, model in cases.items():
        theta = {}
        for variable in model.hyperparameters:
            shape = model.pymc[variable].shape.eval() if variable in model.pymc.named_vars else ()
            theta[variable] = 1.2 - 0.2 * np.arange(np.prod(shape, dtype=int)).reshape(shape)
        yield name, model, theta | {k: 2.0 for k in theta if k == "degree"}


def of_kernels():
    for name, model, theta in kernels():
        new = model.training.X.first(NEW).values
        rows = {"obs": [0, 1]} | QUIET
        drawn = rows | {"draws": 20, "seed": 1}
        asked = {
            "log_likelihood": QUIET,
            "predictions": drawn,
            "derivatives": drawn,
            "derivatives twice": drawn | {"order": 2},
            "attributions": drawn,
            "attributions over rows": drawn | {"baseline": new},
            "relevance": rows,
            "interactions": rows,
            "sample_functions": {"draws": 3, "seed": 1} | QUIET,
        }
        for verb, options in asked.items():
            yield f"{verb} of {name}", partial(explained, model, theta, verb.split()[0], options)


def explained(model, theta, verb, options):
    found = getattr(bx, verb)(model, theta, **options)
    return found.predictions(obs=[0, 1]) if verb == "sample_functions" else found


def others():
    """Latent values sampled, several fits, surrogates, files and the command line."""
    X, y, label, rng = data()
    theta = {"lengthscale": [0.9, 1.2], "amplitude": 1.1}
    normal = bx.GP(X, y)
    labels = bx.GP(X, label > 0, likelihood="bernoulli")
    classes = bx.GP(X, label, likelihood="categorical")
    counts = bx.GP(X, rng.poisson(2.0, N), likelihood="poisson", approximation=bx.Inducing(6))
    chains = {"draws": 20, "tune": 30, "chains": 2, "cores": 1, "seed": 1} | QUIET
    ignoring = warnings.catch_warnings()
    with ignoring:
        warnings.simplefilter("ignore")
        fits = {
            "laplace": normal.fit("laplace", draws=30, seed=1, **QUIET),
            "nuts": normal.fit("nuts", **chains),
            "latent": labels.fit("nuts", latent="sample", **chains),
            "latent classes": classes.fit("nuts", latent="sample", **chains),
            "svgp": counts.fit("svgp", **QUIET),
            "minibatch": counts.fit("svgp", minibatch=8, steps=40, seed=1, **QUIET),
        }
    for name, idata in fits.items():
        yield f"fit {name}", lambda idata=idata: idata
    fixed = theta | {"sigma": 0.4}
    for model, name in ((labels, "latent"), (classes, "latent classes")):
        for verb in ("predictions", "derivatives", "attributions", "loo_predictions"):
            where = {} if verb == "loo_predictions" else {"obs": [0, 1], "draws": 20}
            yield (
                f"fit {name} {verb}",
                lambda model=model, name=name, verb=verb, where=where: getattr(bx, verb)(
                    model, fits[name], **where, seed=1, **QUIET
                ),
            )
    yield "slopes by path", lambda: bx.path_slopes(normal, fixed, obs=[0], seed=1, **QUIET)
    yield (
        "ranking",
        lambda: bx.ranking(bx.relevance(normal, fixed, **QUIET)),
    )
    yield (
        "several baselines",
        lambda: bx.attributions(
            normal, fixed, obs=[0], baseline={"low": [-1, -1], "high": [1, 1]}, seed=1, **QUIET
        ),
    )
    yield (
        "combined",
        lambda: bx.combined(
            [
                bx.predictions(normal, fixed | {"sigma": s}, obs=[0, 1], seed=1, **QUIET)
                for s in (0.3, 0.5)
            ]
        ),
    )
    fewer = bx.interaction_model(normal, [("a", "b")])
    yield (
        "fit surrogate",
        lambda: bx.predictions(fewer, fewer.fit("map", **QUIET), obs=[0, 1], seed=1, **QUIET),
    )
    yield (
        "shap",
        lambda: {"values": bx.to_shap(bx.attributions(normal, fixed, seed=1, **QUIET)).values},
    )
    yield "frame", lambda: bx.to_pandas(bx.attributions(normal, fixed, obs=[0, 1], seed=1, **QUIET))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kept.nc"
        bx.save(classes, fits["latent classes"], path)
        model, idata = bx.load(path)
        yield (
            "fit latent classes kept",
            lambda: bx.predictions(model, idata, obs=[0, 1], seed=1, draws=20, **QUIET),
        )
        pd.concat([X, y.rename("y")], axis=1).to_csv(Path(folder) / "rows.csv", index=False)

        def command():
            run = Path(folder) / "run"
            fit = ["fit", f"{folder}/rows.csv", "--target", "y", "--method", "map", "--seed", "1"]
            main([*fit, "--out", str(run), "--quiet"])
            out = Path(folder) / "explained.csv"
            main(
                [
                    "explain",
                    str(run),
                    f"{folder}/rows.csv",
                    "--out",
                    str(out),
                    "--seed",
                    "1",
                    "--quiet",
                ]
            )
            return pd.read_csv(out)

        yield "fit by command", command


def recorded():
    """All numbers by the name of their call; a call that raises is recorded by what it raises."""
    built = models()
    found = dict(densities())
    asked = {f"{verb} of {name}": (name, verb) for name, verb in calls() if name.endswith("0")}
    rest = {k: lambda v=v: call(*built[v[0]], v[1]) for k, v in asked.items()}
    for name, ask in chain(rest.items(), of_kernels(), others()):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                value = ask()
            found[name] = value if isinstance(value, dict) else numbers(value)
        except Exception as raised:  # a refusal is a result too
            found[name] = {f"raised {type(raised).__name__}: {raised}": np.zeros(1)}
    return found


def compare(before, after):
    """Print each call whose numbers differ, with the largest relative difference."""
    worst = []
    for name, expected in before.items():
        got = after.get(name, {})
        if set(expected) != set(got):
            worst.append((np.inf, name, f"{sorted(expected)} is {sorted(got)}"))
            continue
        for key, a in expected.items():
            a, b = np.asarray(a, float), np.asarray(got[key], float)
            if a.shape != b.shape or not np.array_equal(np.isnan(a), np.isnan(b)):
                worst.append((np.inf, name, f"{key}: {a.shape} is {b.shape}, or NaN"))
            elif not np.array_equal(a, b, equal_nan=True):
                gap = np.nanmax(np.abs(a - b)) / np.nanmax(np.abs(a))
                worst.append((gap, name, key))
    raised = [(k, *v) for k, v in after.items() if any(key.startswith("raised") for key in v)]
    print(*(f"{name} {what}" for name, what in raised), sep="\n")
    for gap, name, key in sorted(worst, reverse=True, key=lambda entry: entry[0]):
        print(f"{gap:9.1e}  {name}: {key}")
    print(f"{len(before)} calls, {len(worst)} arrays differ")


if __name__ == "__main__":
    task, *files = sys.argv[1:]
    if task == "record":
        with open(files[0], "wb") as file:
            pickle.dump(recorded(), file)
    else:
        compare(*(pickle.loads(Path(file).read_bytes()) for file in files))
