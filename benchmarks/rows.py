"""Many rows with a Gaussian likelihood: `HSGP` by sufficient statistics, and `pm.gp.HSGP` by
nutpie.

There are two features and 20 x 20 sines. Each case runs in its own process with an empty folder of
compiled code. The first table ends at a million rows. The second contains the bulk effective draws
per second of the worst hyperparameter, for a thousand rows too, where the peer finishes in time.
Our rate includes the whole fit; the peer's rate includes only sampling after compilation. Kernel,
basis functions, priors and standardized data are equal. A peer is stopped after ten minutes, and
its draws count if tuning is complete.
"""

import os
import subprocess
import sys
import tempfile
import time

import numpy as np

SIZES = (1_000, 10_000, 100_000, 1_000_000)
PEER_SIZES = (1_000, 10_000)
FORMS = ("noncentered", "centered")
SINES, REACH, CHAINS, DRAWS, LIMIT = 20, 1.5, 4, 500, 600.0
HYPERPARAMETERS = ("lengthscale", "amplitude", "sigma")
START = ([0.8, 1.0], 1.8, 0.65)
"""Start of the peer's chains near the mode; its centered form fails from the prior's center."""


def simulated(n):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    f = np.sin(2.0 * X[:, 0]) * np.cos(1.5 * X[:, 1]) + 0.3 * X[:, 0]
    return X, f + 0.5 * rng.normal(size=n)


def priors():
    import pymc as pm

    return {
        "lengthscale": lambda name, dims=None, shape=None: pm.LogNormal(
            name, 0.85, 1.0, dims=dims, shape=shape
        ),
        "amplitude": lambda name, dims=None: pm.HalfNormal(name, 2.0),
        "sigma": lambda name, dims=None: pm.HalfNormal(name, 1.0),
    }


def ours(n):
    import bayes_gpx as bx

    X, y = simulated(n)
    before, begun = memory("VmRSS"), time.perf_counter()
    model = bx.GP(X, y, approximation=bx.HSGP(SINES, c=REACH), priors=priors())
    built = time.perf_counter()
    model.fit("map", seed=0, progressbar=False)
    found = time.perf_counter()
    idata = model.fit("nuts", draws=DRAWS, tune=DRAWS, chains=CHAINS, seed=0, progressbar=False)
    sampled, cpu = time.perf_counter(), time.process_time()
    beside = memory("VmHWM") - before
    seconds = f"{built - begun:.1f} | {found - built:.1f} | {sampled - found:.0f} | {cpu:.0f}"
    print(f"| {n} | {seconds} | {beside:.2f} |")
    print(f"| {n} | bayes_gpx, HSGP | {of_draws(idata, sampled - found)} |")


def peer(n, form):
    import nutpie
    import pymc as pm

    X, y = simulated(n)
    X, y = ((v - v.mean(axis=0)) / v.std(axis=0) for v in (X, y))
    prior = priors()
    with pm.Model() as model:
        lengthscale = prior["lengthscale"]("lengthscale", shape=2)
        amplitude, sigma = (prior[name](name) for name in ("amplitude", "sigma"))
        cov = amplitude**2 * pm.gp.cov.ExpQuad(2, ls=lengthscale)
        gp = pm.gp.HSGP(m=[SINES] * 2, c=REACH, cov_func=cov, parametrization=form)
        pm.Normal("y", gp.prior("f", X), sigma, observed=y)
    start = {name: np.array(value) for name, value in zip(HYPERPARAMETERS, START, strict=True)}
    compiled = nutpie.compile_pymc_model(
        model, initial_points=start, jitter_rvs={model[name] for name in HYPERPARAMETERS}
    )
    begun = time.perf_counter()
    sampler = nutpie.sample(
        compiled,
        draws=DRAWS,
        tune=DRAWS,
        chains=CHAINS,
        cores=2,
        seed=0,
        progress_bar=False,
        store_mass_matrix=False,
        blocking=False,
    )
    try:
        idata, stopped = sampler.wait(timeout=LIMIT), ""
    except TimeoutError:
        idata, stopped = sampler.abort(), ", stopped"
    seconds = time.perf_counter() - begun
    print(f"| {n} | pm.gp.HSGP, {form}{stopped} | {of_draws(idata, seconds)} |")


def of_draws(idata, seconds):
    import arviz as az

    names = list(HYPERPARAMETERS)
    posterior = idata["posterior"].to_dataset()[names].dropna("draw")
    kept = f"{posterior.sizes['chain']} x {posterior.sizes['draw']}"
    if posterior.sizes["draw"] < 4:
        return f"{seconds:.0f} | {kept} | | | |"
    steps = idata["sample_stats"]["n_steps"].mean().item()
    ess, r_hat = az.ess(posterior), az.rhat(posterior)
    least = min(float(ess[name].min()) for name in names)
    worst = max(float(r_hat[name].max()) for name in names)
    return (
        f"{seconds:.0f} | {kept} | {steps:.0f} | {worst:.3f} | {least:.0f} | {least / seconds:.3g}"
    )


def memory(name):
    """GB of this process, by the kernel's name: VmRSS now, VmHWM at most so far."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith(name))
    return float(line.split()[1]) / 1e6


def run(*case):
    """Printed lines of a case, run in its own process with an empty folder of compiled code."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {
            "PYTENSOR_FLAGS": f"base_compiledir={folder}/pytensor",
            "NUMBA_CACHE_DIR": f"{folder}/numba",
        }
        command = [sys.executable, "-W", "ignore", __file__, *map(str, case)]
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
    return done.stdout.splitlines()


def main():
    print("| rows | model, s | MAP, s | NUTS, s | CPU s | GB beside the data |")
    print("|---|---|---|---|---|---|")
    sampled = []
    for n in SIZES:
        waits, draws = run(n)
        print(waits, flush=True)
        sampled.append(draws)
    print("\n| rows | sampler | s | draws | steps per draw | R-hat | least ESS | ESS per s |")
    print("|---|---|---|---|---|---|---|---|")
    print(*sampled, sep="\n", flush=True)
    for n in PEER_SIZES:
        found = []
        for form in FORMS:
            found += run(n, form)
            print(found[-1], flush=True)
        if all("stopped" in line for line in found):
            break


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    elif len(sys.argv) == 2:
        ours(int(sys.argv[1]))
    else:
        peer(int(sys.argv[1]), sys.argv[2])
