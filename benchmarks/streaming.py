"""Attributions of 4000 draws x 1000 rows x 20 features: time, and peak memory next to the result.

Results are streamed to a zarr store, or summarized without keeping draws.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import xarray as xr

import bayes_gpx as bx

CHAINS, DRAWS, ROWS, FEATURES, LEARNT = 4, 1000, 1000, 20, 200


def main(keep):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(LEARNT, FEATURES))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=LEARNT)
    model = bx.GP(X, y)
    shape = (CHAINS, DRAWS)
    lengthscale = 4.0 * np.exp(0.1 * rng.normal(size=(*shape, FEATURES)))
    posterior = {
        "lengthscale": (("chain", "draw", "feature"), lengthscale),
        "amplitude": (("chain", "draw"), np.exp(0.1 * rng.normal(size=shape))),
        "sigma": (("chain", "draw"), 0.3 * np.exp(0.1 * rng.normal(size=shape))),
    }
    coords = {"feature": list(model.training.X.columns)}
    idata = xr.DataTree.from_dict({"posterior": xr.Dataset(posterior, coords)})
    X_new = rng.normal(size=(ROWS, FEATURES))
    before, begun = peak(), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "draws.zarr" if keep == "draws" else None
        bx.attributions(model, idata, X_new, keep=keep, path=path, seed=0, progressbar=False)
        seconds = time.perf_counter() - begun
        size = sum(f.stat().st_size for f in Path(folder).rglob("*") if f.is_file()) / 1e6
    print(f"| {keep} | {seconds:.0f} | {before:.2f} | {peak():.2f} | {size:.0f} |", flush=True)


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        print(
            "| keep | seconds | GB before | peak GB | MB on disk |\n|---|---|---|---|---|",
            flush=True,
        )
        for keep in ("draws", "summary"):
            subprocess.run([sys.executable, __file__, keep], check=True)
