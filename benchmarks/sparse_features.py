"""A sparse Z of words: time and memory, next to the same numbers as an array.

The first case has the 405 reviews of papers as in `models/papers` (Z indicates 3,085 words, X has
100 components of tf-idf), the second case 2,000 made-up rows of 60 words among 50,000. Each kind of
Z runs in its own process. Columns: CPU seconds for the model, for one log density with its
gradient, and for contributions of some rows (each the second call), and the peak of memory in
addition to imports and the sparse data. The last column is the largest difference of the log
density, and of the mean and sd of contributions and predictions, from the numbers of the array,
relative to the largest number of each. Set the number of BLAS threads to 1.
"""

import os
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import scipy.sparse as sps

N, P, WORDS = 2_000, 50_000, 60
ROWS = {"reviews": 20, "made up": 2}
"""Number of rows with contributions; an array takes half a minute for each."""

QUIET = {"progressbar": False, "keep": "summary"}
CASES = "reviews", "made up"
KINDS = "array", "sparse"


def reviews():
    """X and Z of the reviews of papers, and their evaluation."""
    sys.path.append(str(Path(__file__).resolve().parents[1] / "models" / "shared"))
    import gpx_data

    rows = gpx_data.problem("paper", os.environ["BAYES_GPX_DATA"]).rows
    return rows.X, sps.csr_array(rows.Z), rows.y


def made_up(n, p):
    """Rows of words that are as frequent as the inverse of their rank."""
    rng = np.random.default_rng(0)
    share = np.cumsum(1.0 / (np.arange(p) + 10.0))
    words = np.searchsorted(share / share[-1], rng.uniform(size=n * WORDS))
    entries = np.ones(n * WORDS), (np.repeat(np.arange(n), WORDS), words)
    Z = sps.coo_array(entries, shape=(n, p)).tocsr()
    Z.data[:] = 1.0
    X = rng.normal(size=(n, 5))
    return X, Z, X[:, 0] * Z[:, [3]].toarray().ravel() + rng.normal(size=n)


def seconds(call):
    """CPU seconds of the second call, which compiles nothing, and its result."""
    call()
    started = time.process_time()
    found = call()
    return time.process_time() - started, found


def measured(case, kind, quick, path):
    """Print seconds and memory of a case, and store its numbers."""
    import bayes_gpx as bx
    from bayes_gpx.inference.log_density import Density

    warnings.simplefilter("ignore")  # of words that occur in the same rows
    X, Z, y = made_up(200, 2_000) if quick else reviews() if case == "reviews" else made_up(N, P)
    d = X.shape[1]
    bx.GPX(X[:20, :2], y[:20], scale=False)  # which imports the rest
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    given = Z if kind == "sparse" else Z.toarray()
    started = time.process_time()
    model = bx.GPX(X, y, given, scale=False, ard=False)
    built = time.process_time() - started
    theta = {"lengthscale": np.sqrt(d), "amplitude": 0.2, "sigma_w": 0.05, "sigma": 0.7}
    density = Density(model.objective, jacobian=True)
    at = density.unconstrain({name: np.asarray(value) for name, value in theta.items()})
    of_density, (logp, _) = seconds(lambda: density.value_and_slope()(at))
    obs = np.arange(ROWS[case])
    of_rows, found = seconds(lambda: bx.contributions(model, theta, obs=obs, **QUIET))
    new = slice(0, 200)
    predicted = bx.predictions(model, theta, X[new] + 0.1, given[new], **QUIET)
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e6
    print(built, of_density, of_rows, peak)
    present = Z[obs].toarray() != 0.0
    own = present.any(axis=0)
    numbers = {"density": np.array([logp])}
    for name in ("contribution_mean", "contribution_sd"):
        values = found[name].values if kind == "sparse" else found[name].values[:, own]
        numbers[name] = values[present[:, own]]
    numbers |= {name: predicted[name].values for name in ("y_mean", "y_sd")}
    np.savez(path, **numbers)


def main(quick=False):
    """Print the table, and store it next to this script."""
    table = []
    for case in CASES[1:] if quick else CASES:
        found = {}
        for kind in KINDS:
            with TemporaryDirectory() as folder:
                path = str(Path(folder, "numbers.npz"))
                command = [sys.executable, __file__, case, kind, str(int(quick)), path]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                with np.load(path) as numbers:
                    found[kind] = dict(numbers)
            columns = ("model, s", "density, s", "contributions, s", "memory, GB")
            values = map(float, done.stdout.split()[-4:])
            of_case = {"case": case, "rows": ROWS[case], "Z": kind}
            table.append(of_case | dict(zip(columns, values, strict=True)))
        apart = max(
            np.abs(found["sparse"][name] - values).max() / np.abs(values).max()
            for name, values in found["array"].items()
        )
        table[-1]["difference"] = f"{apart:.0e}"
    written = pd.DataFrame(table).round(3).fillna("")
    print(written.to_string(index=False))
    if not quick:
        written.to_csv(Path(__file__).with_suffix(".csv"), index=False)


if __name__ == "__main__":
    if len(sys.argv) > 4:
        measured(sys.argv[1], sys.argv[2], sys.argv[3] == "1", sys.argv[4])
    else:
        main("--quick" in sys.argv)
