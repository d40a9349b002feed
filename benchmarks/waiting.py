"""How long a user waits: cold processes, empty compilation caches, diabetes (n = 353, d = 10).

Each row runs in its own process with a new and empty compilation folder. `python
benchmarks/waiting.py` prints the table of waiting.csv.
"""

import os
import subprocess
import sys
import tempfile
import time
import warnings


def model():
    import bayes_gpx as bx

    data = bx.datasets.load("diabetes")
    return bx.GPX(data.X[:353], data.y[:353]), data.X[353:]


THETA = {"lengthscale": 4.0, "amplitude": 0.16, "sigma_w": 0.05, "sigma": 0.7}


def seconds(task):
    start = time.perf_counter()
    result = task()
    return time.perf_counter() - start, result


def importing():
    return {"s": seconds(lambda: __import__("bayes_gpx"))[0]}


def building():
    return {"s": seconds(model)[0]}


def fit_map():
    gpx, _ = model()
    return {"s": seconds(lambda: gpx.fit("map", progressbar=False))[0]}


def first_nuts_draw():
    gpx, _ = model()
    warnings.simplefilter("ignore")
    task = lambda: gpx.fit("nuts", draws=4, tune=1, chains=2, seed=1, progressbar=False)  # noqa: E731
    return {"s": seconds(task)[0]}


def first_verb():
    import bayes_gpx as bx

    gpx, X_new = model()
    task = lambda: bx.contributions(gpx, THETA, X_new, draws=1000, progressbar=False)  # noqa: E731
    return {"s": seconds(task)[0]}


def next_verb():
    import bayes_gpx as bx

    gpx, X_new = model()
    bx.weights(gpx, THETA, X_new, draws=1000, progressbar=False)
    task = lambda: bx.contributions(gpx, THETA, X_new[:40], progressbar=False)  # noqa: E731
    return {"s": seconds(task)[0]}


def plain_script():
    """A collapsed GPX by hand: PyMC, MAP, two draws by NUTS, one weight's posterior mean."""
    import numpy as np
    import pymc as pm
    import pytensor.tensor as pt
    from sklearn.datasets import load_diabetes

    warnings.simplefilter("ignore")
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:353] / X.std(axis=0), (y[:353] - y[:353].mean()) / y[:353].std()
    with pm.Model():
        lengthscale = pm.LogNormal("lengthscale", 1.0, 1.0, shape=10)
        amplitude, sigma_w, sigma = (pm.HalfNormal(n) for n in ("amplitude", "sigma_w", "sigma"))
        k = amplitude**2 * pm.gp.cov.ExpQuad(10, ls=lengthscale)
        C = (k(X) + sigma_w**2 * np.eye(353)) * (X @ X.T) + sigma**2 * np.eye(353)
        pm.MvNormal("y", pt.zeros(353), C, observed=y)
        pm.find_MAP(progressbar=False, maxeval=100)
        fit = pm.sample(2, tune=2, chains=2, random_seed=1, progressbar=False)
        pm.Deterministic("w", (k(X) * X[:, 0]) @ pt.linalg.solve(C, y, assume_a="pos"))
        pm.sample_posterior_predictive(fit, var_names=["w"], progressbar=False)


def evaluation(mode):
    """Compile the log density and its gradient, and time one evaluation."""
    import numpy as np
    from threadpoolctl import threadpool_limits

    from bayes_gpx.inference.log_density import Density

    gpx, _ = model()
    with threadpool_limits(1):
        many = mode == "numba"
        compiled, density = seconds(lambda: Density(gpx.objective, jacobian=True, long_run=many))
        function, x = density.value_and_slope(), density.unconstrain({})
        first, _ = seconds(lambda: function(x))
        each = min(seconds(lambda: [function(x) for _ in range(20)])[0] / 20 for _ in range(5))
    return {"s": compiled + first, "ms": np.round(1e3 * each, 1)}


def explanation(mode):
    """Compile contributions, and time one hyperparameter draw of 89 rows and 10 features."""
    import numpy as np
    from pytensor.compile.mode import get_mode

    import bayes_gpx as bx
    from bayes_gpx.draws import graphs

    if mode == "numba":
        graphs.MODE = get_mode("NUMBA").excluding("inplace")
    gpx, X_new = model()
    options = {"keep": "summary", "covariance": True, "progressbar": False}
    compiled, _ = seconds(lambda: bx.contributions(gpx, THETA, X_new, **options))
    each = min(
        seconds(lambda: [bx.contributions(gpx, THETA, X_new, **options) for _ in range(20)])[0]
        for _ in range(3)
    )
    return {"s": compiled, "ms": np.round(1e3 * each / 20, 1)}


ROWS = {
    "import bayes_gpx": importing,
    "first model, with the import of PyMC": building,
    "fit('map'), five starts": fit_map,
    "fit('nuts') to the first draws, two chains": first_nuts_draw,
    "first verb, 89 rows": first_verb,
    "another verb, other rows": next_verb,
    "all of it in a plain PyMC script": lambda: {"s": seconds(plain_script)[0]},
    "log density and gradient, Python linker": lambda: evaluation("python"),
    "log density and gradient, numba": lambda: evaluation("numba"),
    "contributions of one draw, Python linker": lambda: explanation("python"),
    "contributions of one draw, numba": lambda: explanation("numba"),
}


def main():
    print("| what | seconds until done, cold | ms for each further one |\n|---|---|---|")
    for name in ROWS:
        with tempfile.TemporaryDirectory() as folder:
            environment = os.environ | {"PYTENSOR_FLAGS": f"base_compiledir={folder}"}
            command = [sys.executable, __file__, name]
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=True
            )
        result = dict(pair.split("=") for pair in done.stdout.split())
        print(f"| {name} | {float(result['s']):.1f} | {result.get('ms', '')} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(" ".join(f"{key}={value}" for key, value in ROWS[sys.argv[1]]().items()))
    else:
        main()
