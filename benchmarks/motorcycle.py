"""Mean and log sd of accelerations of a helmet: two approximations against samples.

The data and the reference are `mcycle_gp-accel_gp` of posteriordb. The reference has means of the
parameters, but no draws, so its model is sampled again here, and its parameters are compared. Our
model has the same priors of kernels, but exact kernels and another prior of the mean's intercept.
Rows of `map` and `laplace` are of Laplace's approximation for f; those that begin with "inducing"
are of the best Gaussian posterior of f at `POINTS` inducing points, nearly as many as different
times.
"""

import csv
import json
import os
import sys
from pathlib import Path
from time import process_time

import numpy as np
import pymc as pm

import bayes_gpx as bx
from bayes_gpx.likelihoods.heteroscedastic import HeteroscedasticNormal

DATA = Path(os.environ["BAYES_GPX_DATA"]) / "posteriordb" / "mcycle_gp-accel_gp.json"
TABLE = Path(__file__).with_suffix(".csv")
RUN = {"draws": 1000, "tune": 1000, "chains": 4, "random_seed": 1, "progressbar": False}
POINTS = 90
SHAPE, SCALE = 1.124909, 0.0177


def reference(data, basis, published):
    """Draws of the reference's model: f, log sd, and hyperparameters.

    Chains begin at the published means, since others may end where all noise is in a few rows.
    """
    with pm.Model():
        found = []
        for kind, sd in (("", 36.0), ("_sigma", 10.0)):
            frequencies = np.ravel(data[f"slambda{kind}_1"])
            center = -13.0 if kind == "" else 0.0
            intercept = pm.StudentT(f"Intercept{kind}", nu=3, mu=center, sigma=sd)
            amplitude = pm.HalfStudentT(f"sdgp{kind}_1", nu=3, sigma=36.0)
            lengthscale = pm.InverseGamma(f"lscale{kind}_1", alpha=SHAPE, beta=SCALE)
            decay = pm.math.exp(-(lengthscale**2) * frequencies**2 / 4.0)
            scales = amplitude * pm.math.sqrt(np.sqrt(2.0 * np.pi) * lengthscale) * decay
            z = pm.Normal(f"z{kind}", shape=len(frequencies))
            f = intercept + pm.math.dot(np.array(basis[f"Xgp{kind}_1"]), scales * z)
            found.append(pm.Deterministic(f"f{kind}", f))
        pm.Normal("y", found[0], pm.math.exp(found[1]), observed=data["Y"])
        begun = {name: value["mean"] for name, value in published.items() if "zgp" not in name}
        for kind in ("", "_sigma"):
            names = [f"zgp{kind}_1[{j + 1}]" for j in range(len(data[f"slambda{kind}_1"]))]
            begun[f"z{kind}"] = np.array([published[name]["mean"] for name in names])
        idata = pm.sample(initvals=begun, target_accept=0.95, **RUN)
    return idata["posterior"].to_dataset()


def times(data, basis):
    """The times as the reference scales them, from its first two basis functions."""
    first, second = np.array(basis["Xgp_1"])[:, :2].T
    step = np.ravel(data["slambda_1"])[0]
    return np.arctan2(first, second / (2.0 * first)) / step


def model_of(x, y, approximation=None):
    """Our model with the reference's priors, on the scale of standardized data."""
    unit = 1.0 / x.std()
    priors = {
        "lengthscale": pm.InverseGamma.dist(SHAPE, SCALE * unit),
        "amplitude": lambda name, dims: pm.HalfStudentT(
            name, nu=3, sigma=[36.0 / y.std(), 36.0], dims=dims
        ),
    }
    likelihood = HeteroscedasticNormal(log_sd=-np.log(y.std()), log_sd_sd=10.0)
    options = {"likelihood": likelihood, "approximation": approximation}
    return bx.GP(x[:, None], y, priors=priors, **options)


def parameters(found, known):
    """Differences from the published means, in published standard deviations."""
    for name in (name for name in known if "zgp" not in name):
        own = (found[name].values.mean() - known[name]["mean"]) / known[name]["sd"]
        yield {"fit": "reference", "quantity": name, "mean": own}


def apart(fit, found, f, s):
    """Differences of row means from the reference in its sds, and ratios of sds."""
    for name, label, true in (("f", "mean", f), ("log_sd", "log_sd", s)):
        mean, sd = (found[f"f_{part}"].sel({"class": label}).values for part in ("mean", "sd"))
        away = (mean - true.mean(axis=0)) / true.std(axis=0)
        yield {
            "fit": fit,
            "quantity": name,
            "mean": away.mean(),
            "root_mean_square": np.sqrt((away**2).mean()),
            "largest": np.abs(away).max(),
            "ratio_of_sds": (sd / true.std(axis=0)).mean(),
        }


def main():
    """Write the table."""
    known = json.loads(DATA.read_text())
    data, basis = known["data"], known["basis"]
    x, y = times(data, basis), np.array(data["Y"], "float64")
    posterior = reference(data, basis, known["parameters"])
    f, s = (posterior[name].values.reshape((-1, len(y))) for name in ("f", "f_sigma"))
    rows = [*parameters(posterior, known["parameters"])]
    for name, approximation in (("", None), ("inducing, ", bx.Inducing(POINTS))):
        model = model_of(x, y, approximation)
        for fit in ("map", "laplace"):
            begin = process_time()
            idata = model.fit(fit, seed=1, progressbar=False)
            found = bx.predictions(model, idata, on="latent", keep="summary", progressbar=False)
            seconds, each = process_time() - begin, apart(name + fit, found, f, s)
            rows += [{**row, "seconds": seconds} for row in each]
    names = ["fit", "quantity", "mean", "root_mean_square", "largest", "ratio_of_sds", "seconds"]
    with TABLE.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            text = {k: f"{v:.3g}" if isinstance(v, float) else v for k, v in row.items()}
            writer.writerow(text)
            print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
