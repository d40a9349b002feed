"""A rough surface of two features: this package next to gpboost, where local methods win.

The surface has a Matern-1/2 covariance with a lengthscale of 1/50 of the range and a standard
deviation of 1; noise has a standard deviation of 0.5. It is drawn exactly, by circulant embedding
on a grid of 2048 x 2048 places, and rows are random places. Each case has the true kernel (`HSGP`
its roughest one, Matern-3/2), fits its hyperparameters at their mode and predicts 5,000 held-out
places, in its own process with one thread. Columns: CPU seconds of all of this, the root mean
square error of f, the negative log density of y, the fitted lengthscale, and memory in addition to
the data. gpboost has its own defaults: Vecchia's approximation with 20 neighbors in random order,
and 40 neighbors for predictions. The "exact" case fits 2,000 rows, and conditions on all rows at
these hyperparameters, which needs too much memory for 100,000 rows. A case is stopped after ten
minutes. `python benchmarks/rough.py 10000` runs only this size.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from rows import memory

SIZES, HELD_OUT, FEW, LIMIT = (10_000, 100_000), 5_000, 2_000, 600
SIDE, REACH, NOISE = 2048, 1.0 / 50.0, 0.5
THREADS = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
QUIET = {"progressbar": False}


def surface(rng):
    """Draw the surface at all places of a grid on the unit square, (SIDE, SIDE)."""
    # The covariance of a torus twice as wide agrees with the surface's within the square; its
    # Fourier transform are the variances of waves, positive up to rounding for a short lengthscale.
    steps = np.minimum(np.arange(2 * SIDE), 2 * SIDE - np.arange(2 * SIDE)) / SIDE
    spectrum = np.fft.fft2(np.exp(-np.hypot(steps[:, None], steps) / REACH)).real
    white = rng.standard_normal((2, *spectrum.shape))
    waves = np.sqrt(np.maximum(spectrum, 0.0) / spectrum.size) * (white[0] + 1j * white[1])
    return np.fft.fft2(waves).real[:SIDE, :SIDE]


def rows(n):
    """Training rows, and held-out places with their f and y."""
    rng = np.random.default_rng(0)
    f = surface(rng).ravel()
    chosen = rng.choice(f.size, n + HELD_OUT, replace=False)
    X = np.stack(np.divmod(chosen, SIDE), axis=1) / SIDE
    y = f[chosen] + NOISE * rng.normal(size=len(chosen))
    return {"X": X[:n], "y": y[:n], "new": X[n:], "f": f[chosen[n:]], "y_new": y[n:]}


def ours(approximation, few=None, kernel="matern12"):
    """A case of this package: the mode from `few` rows or all, and predictions given all rows."""

    def case(X, y, new):
        import pymc as pm

        import bayes_gpx as bx
        from bayes_gpx.model.named_kernels import KERNELS, NamedKernel, lengthscale

        KERNELS["matern12"] = NamedKernel(
            lambda d, lengthscale: pm.gp.cov.Matern12(d, ls=lengthscale),
            {"lengthscale": lengthscale},
        )
        # All cases have the scale of the places, so hyperparameters mean the same for any rows.
        options = {"kernel": kernel, "ard": False, "scale": False}
        options["priors"] = {"lengthscale": pm.LogNormal.dist(np.log(0.1), 2.0)}
        center = y.mean()
        some = slice(few)
        model = bx.GP(X[some], y[some] - center, approximation=approximation(bx), **options)
        idata = model.fit("map", seed=0, **QUIET)
        theta = {name: v.values[0, 0] for name, v in idata["posterior"].items()}
        if few is not None:
            model = bx.GP(X, y - center, **options)
            idata = {name: theta[name] for name in model.hyperparameters}
        found = bx.predictions(model, idata, new, keep="summary", **QUIET)
        return center + found["f_mean"].values, found["y_sd"].values, float(theta["lengthscale"])

    return case


def gpboost(X, y, new):
    """The peer, with its own defaults of Vecchia's approximation."""
    import gpboost as gpb

    model = gpb.GPModel(gp_coords=X, cov_function="matern", cov_fct_shape=0.5, gp_approx="vecchia")
    model.fit(y=y - y.mean())
    found = model.predict(gp_coords_pred=new, predict_var=True, predict_response=True)
    reach = np.ravel(model.get_cov_pars())[-1]
    return y.mean() + found["mu"], np.sqrt(found["var"]), float(reach)


CASES = {
    "gpboost, Vecchia": gpboost,
    "bayes_gpx, HSGP(40) of Matern-3/2": ours(lambda bx: bx.HSGP(40, c=1.2), kernel="matern32"),
    "bayes_gpx, 500 inducing points": ours(lambda bx: bx.Inducing(500)),
    "bayes_gpx, exact": ours(lambda bx: None, few=FEW),
}


def run(name, path):
    """Print the numbers of a case; a file has its rows."""
    with np.load(path) as held:
        X, y, new, f, y_new = (held[key] for key in ("X", "y", "new", "f", "y_new"))
    before, begun = memory("VmRSS"), time.process_time()
    mean, sd, reach = CASES[name](X, y, new)
    seconds = time.process_time() - begun
    error = np.sqrt(np.mean((np.ravel(mean) - f) ** 2))
    apart = (y_new - np.ravel(mean)) / np.ravel(sd)
    density = np.mean(0.5 * apart**2 + np.log(np.ravel(sd)) + 0.5 * np.log(2.0 * np.pi))
    beside = memory("VmHWM") - before
    print(f"found: {seconds:.0f} {error:.3f} {density:.3f} {reach:.4f} {beside:.2f}")


COLUMNS = "CPU s", "error of f", "negative log density of y", "lengthscale", "GB beside the data"


def main(sizes):
    """Print the table, and store it next to this script."""
    table = []
    for n in sizes:
        cases = [name for name in CASES if n <= SIZES[0] or not name.endswith("exact")]
        with TemporaryDirectory() as folder:
            path = str(Path(folder, "rows.npz"))
            np.savez(path, **rows(n))
            for name in cases:
                table.append({"rows": n, "by": name, **found(name, path)})
                print(table[-1], flush=True)
    written = pd.DataFrame(table).fillna("")
    print(written.to_string(index=False))
    if tuple(sizes) == SIZES:
        written.to_csv(Path(__file__).with_suffix(".csv"), index=False)


def found(name, path):
    """The numbers of a case by their names, from its own process."""
    command = [sys.executable, "-W", "ignore", __file__, name, path]
    options = {"env": os.environ | THREADS, "stdout": subprocess.PIPE, "text": True}
    try:
        done = subprocess.run(command, timeout=LIMIT, check=True, **options)
    except subprocess.TimeoutExpired:
        return {COLUMNS[0]: f"more than {LIMIT}"}
    line = next(line for line in done.stdout.splitlines() if line.startswith("found:"))
    return dict(zip(COLUMNS, line.split()[1:], strict=True))


if __name__ == "__main__":
    if len(sys.argv) == 3 and not sys.argv[2].isdigit():
        run(*sys.argv[1:])
    else:
        main([int(size) for size in sys.argv[1:]] or SIZES)
