"""How many rows does it take until explanations are certain, chosen by `bx.next_rows` or a rival?

`python benchmarks/next_rows.py` runs all parts, or those that are named:

- `speed`: seconds for 100,000 candidates;
- `known`: hyperparameters are given; 40 of 2,000 candidates for 30 attributions, 8 runs;
- `peer`: ALC next to BoTorch's integrated posterior variance;
- `stopped`: rows are added until all signs are known; do 90% intervals hold the truth then?
- `learned`: hyperparameters are fitted anew for every 5 rows, or are those of the whole pool, on
  functions and on pools of real rows (`learned 20` for 20 runs, `learned map` for one fit);
- `stopped_functions`: as `stopped`, on the functions of `learned`;
- `maximum`: expected improvement next to BoTorch on Branin and Hartmann's function of 6 variables
  (`maximum 20`).

Runs of the last three are kept as lines of `next_rows_*_cells.csv`, and a later call continues.
"""

import csv
import gzip
import json
import os
import sys
import warnings
from functools import cache
from itertools import product
from pathlib import Path
from time import perf_counter

import numpy as np
from scipy.spatial.distance import cdist
from scipy.stats import qmc

import bayes_gpx as bx
from next_rows_problems import FUNCTIONS, SOUGHT

QUIET = {"progressbar": False}
HERE = Path(__file__).parent
D, START, CHOSEN, POOL = 6, 15, 40, 2000
THETA = {"lengthscale": np.geomspace(0.8, 4.0, D), "amplitude": 1.0, "sigma": 0.1}


def write(name, rows):
    with (HERE / f"next_rows_{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def read(name):
    path = HERE / f"next_rows_{name}.csv"
    return list(csv.DictReader(path.open())) if path.exists() else []


def by_variance(model, theta, candidates, size):
    """The candidates where f is most uncertain, one given the expected responses before."""
    X, y, chosen = model.training.X.values, model.training.y, []
    given = theta if isinstance(theta, dict) else fixed_at(model, theta)
    for _ in range(size):
        found = bx.predictions(model, given, candidates, keep="summary", **QUIET)
        sd = found["f_sd"].values
        sd[chosen] = -1.0
        chosen.append(int(sd.argmax()))
        X, y = np.vstack([X, candidates[chosen[-1]]]), np.append(y, found["f_mean"][chosen[-1]])
        model = bx.GP(X, y, scale=theta is not given)
    return chosen


def fixed_at(model, idata):
    """The mean hyperparameters of a fit."""
    means = idata["posterior"].to_dataset().mean(["chain", "draw"])
    names = [name for name in model.hyperparameters if name not in model.fixed]
    return {name: means[name].values for name in names}


def choose(method, model, theta, candidates, rows, size, rng):
    """Positions of `size` candidates."""
    if method == "attributions":
        options = {"X_new": rows, "baseline": np.zeros(rows.shape[1]), "question": method}
    elif method == "ALC":  # the average variance of predictions over the candidates
        some = rng.choice(len(candidates), min(200, len(candidates)), replace=False)
        options = {"X_new": candidates[some], "question": "predictions", "scale": [1.0]}
    elif method == "variance":
        return by_variance(model, theta, candidates, size)
    else:
        return rng.choice(len(candidates), size, replace=False).tolist()
    found = bx.next_rows(model, theta, candidates, size=size, **options, **QUIET)
    return [int(k) for k in found["selected"].values]


METHODS = "attributions", "ALC", "variance", "random"


def known(runs=8):
    """Mean posterior sd of 30 attributions after each number of rows, hyperparameters given."""
    curves = {method: np.empty((runs, CHOSEN + 1)) for method in METHODS}
    for run in range(runs):
        for method, curve in curves.items():
            rng = np.random.default_rng(run)
            X, pool, rows = (rng.uniform(-1, 1, (n, D)) for n in (START, POOL, 5))
            model = bx.GP(X, np.zeros(START), scale=False)
            chosen = choose(method, model, THETA, pool, rows, CHOSEN, rng)
            for k in range(CHOSEN + 1):
                now = bx.GP(np.vstack([X, pool[chosen[:k]]]), np.zeros(START + k), scale=False)
                options = {"baseline": np.zeros(D), "keep": "summary", **QUIET}
                sd = bx.attributions(now, THETA, rows, **options)["attribution_sd"]
                curve[run, k] = sd.values.mean()
    ours, found = curves["attributions"].mean(axis=0), []
    for method, curve in curves.items():
        last = curve[:, -1].mean()
        reached = int(np.flatnonzero(ours <= last)[0])
        row = {"method": method, "mean sd before": f"{curve[:, 0].mean():.4f}"}
        row |= {f"mean sd after {CHOSEN}": f"{last:.4f}", "rows that attributions need": reached}
        found.append(row)
        print(row, flush=True)
    write("known", found)


def peer():
    """Does ALC choose as BoTorch's qNegIntegratedPosteriorVariance, hyperparameters given?"""
    import torch
    from botorch.acquisition.active_learning import qNegIntegratedPosteriorVariance
    from botorch.models import SingleTaskGP
    from gpytorch.kernels import RBFKernel, ScaleKernel
    from gpytorch.means import ZeroMean

    rng = np.random.default_rng(1)
    X, pool, points = (rng.uniform(-1, 1, (n, D)) for n in (START, 100, 200))
    y, tensor = rng.normal(size=START), lambda a: torch.tensor(a, dtype=torch.float64)
    kernel = ScaleKernel(RBFKernel(ard_num_dims=D)).double()
    kernel.base_kernel.lengthscale, kernel.outputscale = tensor(THETA["lengthscale"]), 1.0
    model = SingleTaskGP(
        tensor(X), tensor(y)[:, None], tensor(np.full((START, 1), 0.01)),
        mean_module=ZeroMean(), covar_module=kernel, outcome_transform=None,
    )  # fmt: skip
    score = qNegIntegratedPosteriorVariance(model, tensor(points))(tensor(pool)[:, None])
    options = {"question": "predictions", "X_new": points, "scale": [1.0], **QUIET}
    ours = bx.next_rows(bx.GP(X, y, scale=False), THETA, pool, **options)
    expected = ours["score"].values / len(points) - (ours["sd_before"].values ** 2).mean()
    apart = np.abs(score.detach().numpy() - expected).max()
    row = {"candidates": 100, "largest difference": f"{apart:.1e}"}
    row["same choice"] = bool(score.argmax().item() == ours["position"].item())
    print(row, flush=True)
    write("peer", [row])


WAVES = 2000


class Function:
    """A function from the prior with the given lengthscales, and its attributions from 0."""

    def __init__(self, rng, lengthscale):
        self.waves = rng.normal(size=(WAVES, len(lengthscale))) / lengthscale
        self.phases = rng.uniform(0, 2 * np.pi, WAVES)
        self.heights = np.sqrt(2 / WAVES) * rng.normal(size=WAVES)

    def __call__(self, X):
        return np.cos(X @ self.waves.T + self.phases) @ self.heights

    def gradient(self, X):
        return -(np.sin(X @ self.waves.T + self.phases) * self.heights) @ self.waves


def attributions(gradient, rows, start):
    """Integrated gradients by Gauss and Legendre's rule with 64 nodes."""
    nodes, weights = np.polynomial.legendre.leggauss(64)
    way = rows - start
    parts = [
        w * gradient(start + t * way) for t, w in zip((nodes + 1) / 2, weights / 2, strict=True)
    ]
    return way * np.sum(parts, axis=0)


def stopped(runs=500, d=2, most=40):
    """Coverage of attributions when rows were added until all signs were known with 95%."""
    theta = {"lengthscale": np.full(d, 0.7), "amplitude": 1.0, "sigma": 0.2}
    inside, counts, settled = [], [], 0
    for run in range(runs):
        rng = np.random.default_rng(run)
        function = Function(rng, theta["lengthscale"])
        X, pool, rows = (rng.uniform(-1, 1, (n, d)) for n in (5, 200, 2))
        y = function(X) + 0.2 * rng.normal(size=len(X))
        options = {"baseline": np.zeros(d), **QUIET}
        while True:
            model = bx.GP(X, y, scale=False)
            found = bx.next_rows(model, theta, pool, question="attributions", X_new=rows, **options)
            if found.attrs["signs_known"] or len(X) == most:
                break
            row = pool[found["selected"].item()]
            X, y = np.vstack([X, row]), np.append(y, function(row[None]) + 0.2 * rng.normal())
        final = bx.attributions(model, theta, rows, keep="summary", **options)
        truth = attributions(function.gradient, rows, np.zeros(d))
        bounds = final["attribution_interval"].values
        inside.append(((bounds[..., 0] <= truth) & (truth <= bounds[..., 1])).mean())
        counts.append(len(X))
        settled += bool(found.attrs["signs_known"])
    row = {"runs": runs, "signs known": settled, "median rows": int(np.median(counts))}
    row["share of truths in 90% intervals"] = f"{np.mean(inside):.3f}"
    row["standard error"] = f"{np.std(inside) / np.sqrt(runs):.3f}"
    print(row, flush=True)
    write("stopped", [row])


POOLS = "yacht", "concrete"
STEPS, BATCH = 8, 5


def slopes_of(function):
    """Gradients by central differences."""

    def gradient(X, h=1e-5):
        steps = h * np.eye(X.shape[1])
        return np.stack([(function(X + s) - function(X - s)) / (2 * h) for s in steps], axis=1)

    return gradient


@cache
def problem(name, run):
    """Candidates with their responses, rows of interest and the attributions that are sought."""
    rng = np.random.default_rng(run)
    if name in FUNCTIONS:
        function, d = FUNCTIONS[name]
        pool, rows = rng.uniform(0, 1, (1000, d)), rng.uniform(0, 1, (5, d))
        f = function(pool)
        truth = attributions(slopes_of(function), rows, np.full(d, 0.5)) / f.std()
        y = (f - f.mean()) / f.std() + 0.05 * rng.normal(size=len(f))
        return pool - 0.5, y, rows - 0.5, truth
    path = Path(os.environ["BAYES_GPX_DATA"]) / "uci_splits" / f"{name}.json.gz"
    data = json.load(gzip.open(path))
    X, y = (np.array(data[key], dtype=float) for key in "Xy")
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y.ravel() - y.mean()) / y.std()
    rows = X[rng.choice(len(X), 5, replace=False)]
    model = bx.GP(X, y)
    options = {"baseline": np.zeros(X.shape[1]), "keep": "summary", **QUIET}
    whole = bx.attributions(model, model.fit("map", **QUIET), rows, **options)
    return X, y, rows, whole["attribution_mean"].values


@cache
def given(name):
    """Hyperparameters of a fit to the whole pool."""
    pool, y, *_ = problem(name, 0)
    model = bx.GP(pool, y, scale=False)
    return fixed_at(model, model.fit("map", **QUIET))


def fitted(fit, name, X, y):
    if fit == "given":
        return bx.GP(X, y, scale=False), given(name)
    model = bx.GP(X, y)
    return model, model.fit(fit, **FITS[fit], **QUIET)


def evenly(pool, taken, run):
    """The candidates nearest to Sobol's scrambled sequence, without repetition."""
    low, high = pool.min(axis=0), pool.max(axis=0)
    points = qmc.Sobol(pool.shape[1], rng=run).random(64)
    apart = cdist(points, (pool - low) / (high - low))
    apart[:, taken] = np.inf
    chosen = []
    for row in apart[: STEPS * BATCH]:
        row[chosen] = np.inf
        chosen.append(int(row.argmin()))
    return chosen


def within(answer, truth):
    bounds = answer["attribution_interval"].values
    return ((bounds[..., 0] <= truth) & (truth <= bounds[..., 1])).mean()


def errors(fit, name, method, run):
    """Root mean square error of attributions after each batch, and the share in 90% intervals."""
    pool, y, rows, truth = problem(name, run)
    rng = np.random.default_rng(1000 + run)
    taken = rng.choice(len(pool), START, replace=False).tolist()
    spread = evenly(pool, taken, run) if method == "Sobol" else []
    found = []
    for step in range(STEPS + 1):
        model, idata = fitted(fit, name, pool[taken], y[taken])
        options = {"baseline": np.zeros(pool.shape[1]), "keep": "summary", **QUIET}
        answer = bx.attributions(model, idata, rows, **options)
        found.append(np.sqrt(np.mean((answer["attribution_mean"].values - truth) ** 2)))
        if step < STEPS and method == "Sobol":
            taken += spread[BATCH * step : BATCH * (step + 1)]
        elif step < STEPS:
            left = np.setdiff1d(np.arange(len(pool)), taken)
            chosen = choose(method, model, idata, pool[left], rows, BATCH, rng)
            taken += left[chosen].tolist()
    return found, within(answer, truth)


FITS = {"given": {}, "map": {}, "laplace": {"draws": 200, "seed": 1}}
RIVALS = (*METHODS, "Sobol")


def cells_of(part, keys, compute):
    """The cells of a part: those of its file, and the others of `keys`, computed."""
    cells = read(f"{part}_cells")
    done = {tuple(cell[name] for name in keys[0]) for cell in cells} if keys else set()
    for key in keys:
        if tuple(map(str, key.values())) not in done:
            cells.append({k: str(v) for k, v in (key | compute(*key.values())).items()})
            write(f"{part}_cells", cells)
    return cells


def learned(runs=20, fits=tuple(FITS)):
    """Errors of attributions where hyperparameters are fitted after every 5 rows, or given."""

    def cell(*key):
        found, held = errors(*key)
        curve = {str(START + BATCH * k): f"{e:.5f}" for k, e in enumerate(found)}
        return {"held": f"{held:.3f}"} | curve

    every = product(fits, range(runs), (*FUNCTIONS, *POOLS), RIVALS)
    keys = [{"fit": f, "problem": p, "method": m, "run": r} for f, r, p, m in every]
    cells = cells_of("learned", keys, cell)
    there = [fit for fit in FITS if any(cell["fit"] == fit for cell in cells)]
    write("learned", [summary(*key, cells) for key in product(there, (*FUNCTIONS, *POOLS))])


def summary(fit, name, cells):
    """Mean errors after the last batch, and how many rows ours needs for the best rival's.

    Over the runs that all methods have.
    """
    counts = [START + BATCH * k for k in range(STEPS + 1)]
    own = {
        method: {c["run"]: c for c in cells if [fit, name, method] == [*c.values()][:3]}
        for method in RIVALS
    }
    runs = sorted(set.intersection(*map(set, own.values())))
    curves = {
        method: np.mean([[float(of[run][str(n)]) for n in counts] for run in runs], axis=0)
        for method, of in own.items()
    }
    best = min(curves[method][-1] for method in RIVALS[1:])
    reached = np.flatnonzero(curves["attributions"] <= best)
    row = {"fit": fit, "problem": name, "runs": len(runs), "before": f"{curves['ALC'][0]:.3f}"}
    row |= {method: f"{curve[-1]:.3f}" for method, curve in curves.items()}
    row["rows added for the best rival's error"] = (
        counts[reached[0]] - START if len(reached) else ""
    )
    held = [float(own["attributions"][run]["held"]) for run in runs]
    row["share in 90% intervals"] = f"{np.mean(held):.2f}"
    print(row, flush=True)
    return row


def stopped_functions(runs=20):
    """Coverage where rows were added by 5, with a new fit, until all signs were known."""

    def cell(fit, name, run):
        pool, y, rows, truth = problem(name, run)
        taken = np.random.default_rng(1000 + run).choice(len(pool), START, replace=False).tolist()
        options = {"baseline": np.zeros(pool.shape[1]), **QUIET}
        while True:
            model, idata = fitted(fit, name, pool[taken], y[taken])
            left = np.setdiff1d(np.arange(len(pool)), taken)
            asked = options | {"question": "attributions", "X_new": rows, "size": BATCH}
            found = bx.next_rows(model, idata, pool[left], **asked)
            if found.attrs["signs_known"] or len(taken) >= START + STEPS * BATCH:
                break
            taken += left[[int(k) for k in found["selected"].values]].tolist()
        answer = bx.attributions(model, idata, rows, keep="summary", **options)
        known = int(found.attrs["signs_known"])
        return {"rows": len(taken), "known": known, "held": f"{within(answer, truth):.3f}"}

    every = product(FITS, range(runs), FUNCTIONS)
    keys = [{"fit": fit, "problem": name, "run": run} for fit, run, name in every]
    cells, found = cells_of("stopped_functions", keys, cell), []
    for fit, name in product(FITS, FUNCTIONS):
        own = [cell for cell in cells if (cell["fit"], cell["problem"]) == (fit, name)]
        rows, known, held = (
            np.array([float(cell[key]) for cell in own]) for key in ("rows", "known", "held")
        )
        row = {"fit": fit, "problem": name, "runs": len(own), "signs known": int(known.sum())}
        row |= {"median rows": int(np.median(rows))}
        row["share of truths in 90% intervals"] = f"{held.mean():.3f}"
        row["standard error"] = f"{held.std(ddof=1) / np.sqrt(len(own)):.3f}"
        print(row, flush=True)
        found.append(row)
    write("stopped_functions", found)


def ours_next(X, y, candidates, seed, kernel="expquad", method="map", **options):
    model = bx.GP(X, y, kernel=kernel)
    idata = model.fit(method, seed=seed, **options, **QUIET)
    found = bx.next_rows(model, idata, candidates, question="maximum", seed=seed, **QUIET)
    return candidates[found["selected"].item()]


def ours_rough(*arguments):
    """With a rougher kernel, and draws of the hyperparameters."""
    return ours_next(*arguments, kernel="matern52", method="laplace", draws=200)


def botorch_next(X, y, candidates, seed):
    """BoTorch's single-task model with its defaults, and LogEI over the same candidates."""
    import torch
    from botorch.acquisition import LogExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Standardize
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.manual_seed(seed)
    tensors = torch.tensor(X), torch.tensor(y)[:, None]
    model = SingleTaskGP(*tensors, outcome_transform=Standardize(1))
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    best = model.posterior(tensors[0]).mean.max()
    score = LogExpectedImprovement(model, best)(torch.tensor(candidates)[:, None])
    return candidates[int(score.argmax())]


CHOOSERS = {
    "matern52, laplace": ours_rough,
    "expquad, map": ours_next,
    "BoTorch": botorch_next,
    "random": None,
}


def maximum(runs=20):
    """Distance to the maximum (simple regret) after 10 random rows and 20 chosen ones."""

    def cell(name, label, run):
        (function, d, best), method = SOUGHT[name], CHOOSERS[label]
        rng = np.random.default_rng(run)
        X = rng.uniform(0, 1, (10, d))
        y = function(X)
        for step in range(20):
            candidates = rng.uniform(0, 1, (2000, d))
            near = np.clip(X[y.argmax()] + 0.05 * rng.normal(size=(500, d)), 0, 1)
            candidates = np.vstack([candidates, near])
            x = candidates[0] if method is None else method(X, y, candidates, step)
            X, y = np.vstack([X, x]), np.append(y, function(x[None]))
        return {"regret": f"{best - y.max():.6f}"}

    every = product(range(runs), SOUGHT, CHOOSERS)
    keys = [{"function": name, "method": label, "run": run} for run, name, label in every]
    cells, found = cells_of("maximum", keys, cell), []
    for name, label in product(SOUGHT, CHOOSERS):
        own = [cell for cell in cells if (cell["function"], cell["method"]) == (name, label)]
        regrets = np.array([float(cell["regret"]) for cell in own])
        row = {"function": name, "method": label, "runs": len(own)}
        row |= {"median regret": f"{np.median(regrets):.3g}"}
        row["mean regret"] = f"{regrets.mean():.3g}"
        row["standard error"] = f"{regrets.std() / np.sqrt(len(own)):.2g}"
        print(row, flush=True)
        found.append(row)
    write("maximum", found)


def speed():
    """Seconds for 100,000 candidates and 30 attributions, 200 training rows."""
    rng = np.random.default_rng(0)
    X, pool, rows = (rng.uniform(-1, 1, (n, D)) for n in (200, 100_000, 5))
    model = bx.GP(X, np.sin(3 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=200), scale=False)
    options = {"question": "attributions", "X_new": rows, "baseline": np.zeros(D), **QUIET}
    found = []
    bx.next_rows(model, THETA, pool[:2000], **options)  # compiles
    ten = model.fit("laplace", draws=10, seed=1, **QUIET)
    for idata, draws, size in ((THETA, 1, 1), (ten, 10, 1), (THETA, 1, 5)):
        started = perf_counter()
        bx.next_rows(model, idata, pool, size=size, **options)
        row = {"draws": draws, "rows chosen": size}
        found.append(row | {"seconds": f"{perf_counter() - started:.2g}"})
        print(found[-1], flush=True)
    write("speed", found)


PARTS = {
    "speed": speed,
    "known": known,
    "peer": peer,
    "stopped": stopped,
    "learned": learned,
    "stopped_functions": stopped_functions,
    "maximum": maximum,
}


def main(words):
    warnings.simplefilter("ignore", bx.ExtrapolationWarning)
    warnings.simplefilter("ignore", bx.FitWarning)
    names = [word for word in words if word in PARTS] or [*PARTS]
    runs = [int(word) for word in words if word.isdigit()]
    fits = {"fits": fits} if (fits := [word for word in words if word in FITS]) else {}
    for name in names:
        PARTS[name](*runs, **fits)


if __name__ == "__main__":
    main(sys.argv[1:])
