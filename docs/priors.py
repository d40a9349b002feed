"""Make the pictures of docs/priors.md and the tables of docs/priors_*.csv.

`.venv/bin/python docs/priors.py` takes five to ten minutes, mostly for three NUTS runs, which
`--no-experiment` skips. It prints the tables in Markdown and writes docs/_static/priors_*.png.
"""

import sys
from pathlib import Path

import arviz as az
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
from PIL import Image

import bayes_gpx as bx

SEED = 20
FIGURES = Path(__file__).parent / "_static"
KERNELS = ("expquad", "matern52", "matern32", "ratquad", "periodic", "linear", "polynomial")
DIMENSIONS = (1, 2, 5, 10, 50)
FIXED = (0.0, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2)
EXPERIMENT = {
    "default: HalfNormal(0.158)": None,
    "wide: HalfNormal(1)": lambda name: pm.HalfNormal(name, sigma=1.0),
    "away from 0: LogNormal(log 0.16, 0.5)": lambda name: pm.LogNormal(
        name, mu=np.log(0.16), sigma=0.5
    ),
}


def prior_draws(model, draws):
    """Draw the model's hyperparameters, and y, from the prior."""
    return pm.sample_prior_predictive(
        draws, model=model.pymc, random_seed=SEED, compile_kwargs={"mode": "FAST_COMPILE"}
    )


def table(title, frame):
    """Print a frame as a Markdown table, with its index as the first column."""
    print(f"\n{title}\n")
    columns = [str(frame.index.name or ""), *map(str, frame.columns)]
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for label, row in zip(frame.index, frame.to_numpy(), strict=True):
        print("| " + " | ".join([str(label), *map(str, row)]) + " |")


def keep(figure, name):
    """Save a figure with 64 colors to keep the file small."""
    figure.canvas.draw()
    image = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())).convert("RGB")
    image.quantize(64).save(FIGURES / f"priors_{name}.png", optimize=True)
    plt.close(figure)


def functions(axes, x, values, title):
    """Plot prior functions and their central 90% interval."""
    low, high = np.quantile(values, [0.05, 0.95], axis=0)
    axes.fill_between(x, low, high, color="0.9", linewidth=0)
    axes.plot(x, values[:12].T, linewidth=1.0)
    axes.set_title(title)


def gp_functions():
    """Prior functions of one standardized feature, for every named kernel."""
    figure, panels = plt.subplots(
        2, 4, figsize=(11, 5), sharex=True, sharey=True, layout="constrained"
    )
    x = np.linspace(-3, 3, 121)
    for axes, kernel in zip(panels.flat, KERNELS, strict=False):
        # Without scaling and almost without noise, y is the function itself.
        model = bx.GP(x[:, None], x, kernel=kernel, scale=False, priors={"sigma": 1e-3})
        y = prior_draws(model, 400)["prior_predictive"]["y"].values[0]
        functions(axes, x, y, kernel)
        axes.set_ylim(-6, 6)
    panels.flat[-1].set_visible(False)
    figure.supxlabel("x, standardised")
    figure.supylabel("f(x), in sd of y")
    keep(figure, "gp")


def weight_functions():
    """One weight function of ten along its own feature, without and with eps_w."""
    x, features = np.linspace(-3, 3, 121), 10
    X, Z = np.zeros((len(x), features)), np.zeros((len(x), features))
    X[:, 0], Z[:, 0] = x, 1.0  # z selects the first weight, so y is this weight
    figure, panels = plt.subplots(
        1, 3, figsize=(11, 3.4), sharex=True, sharey=True, layout="constrained"
    )
    settings = {
        "g, shared or per_feature": ({"sigma_w": 0.0}, "shared"),
        "w = g + eps_w, shared": ({}, "shared"),
        "g, horseshoe": ({"sigma_w": 0.0}, "horseshoe"),
    }
    for axes, (title, (fixed, weight_prior)) in zip(panels, settings.items(), strict=True):
        priors = {"sigma": 1e-3, **fixed}
        model = bx.GPX(X, x, Z, scale=False, priors=priors, weight_prior=weight_prior)
        y = prior_draws(model, 400)["prior_predictive"]["y"].values[0]
        functions(axes, x, y, title)
    panels[0].set_ylim(-2, 2)
    panels[0].set_ylabel("weight, in sd of y per sd of z")
    figure.supxlabel("the weight's own feature, standardised")
    keep(figure, "weight")


def share_of_eps_w():
    """Proportion of the prior variance of f from eps_w, for each kind of weight prior."""
    rng = np.random.default_rng(SEED)
    figure, panels = plt.subplots(1, 3, figsize=(11, 2.8), sharex=True, layout="constrained")
    rows = {}
    for axes, weight_prior in zip(panels, ("shared", "per_feature", "horseshoe"), strict=True):
        for features in (2, 10, 50):
            X, y = rng.standard_normal((4, features)), rng.standard_normal(4)
            prior = prior_draws(bx.GPX(X, y, weight_prior=weight_prior), 4000)["prior"]
            squares = np.atleast_2d((prior["amplitude"].values[0] ** 2).T).T
            noise = prior["sigma_w"].values[0][:, None] ** 2
            # At z with every z_l^2 = 1. In the horseshoe sigma_w is relative to the amplitude.
            own = noise * squares if weight_prior == "horseshoe" else noise + 0 * squares
            share = own.sum(1) / (own + squares).sum(1)
            axes.hist(share, bins=40, range=(0, 1), histtype="step", label=f"p = {features}")
            low, middle, high = np.quantile(share, [0.05, 0.5, 0.95])
            rows[f"{weight_prior}, p = {features}"] = [
                f"{low:.4f}",
                f"{middle:.3f}",
                f"{high:.2f}",
                f"{share.mean():.2f}",
            ]
        axes.set_title(weight_prior)
        axes.set_yscale("log")
        axes.legend()
    panels[0].set_ylabel("prior draws of 4000")
    figure.supxlabel("share of eps_w in the prior variance of f")
    keep(figure, "share")
    frame = pd.DataFrame(rows, ["5%", "median", "95%", "mean"]).T.rename_axis("share of eps_w")
    table("Share of eps_w in the prior variance of f", frame)


def size_by_kernel():
    """Prior sd of f at a typical observation of d standardized features."""
    rows = {}
    for kernel in KERNELS:
        row = []
        for d in (1, 10):
            X = np.outer([1.0, -1.0, 1.0], np.ones(d))
            model = bx.GP(X, [0.0, 1.0, 2.0], kernel=kernel, scale=False, priors={"sigma": 1e-3})
            y = prior_draws(model, 4000)["prior_predictive"]["y"].values[0, :, 0]
            low, high = np.quantile(y, [0.05, 0.95])
            row.append(f"{low:.1f} to {high:.1f}")
        rows[kernel] = row
    frame = pd.DataFrame(rows, ["d = 1", "d = 10"]).T.rename_axis("kernel")
    table("Prior of f at a sample with every x = 1, in sd of y: 5% to 95%", frame)


def correlation_by_dimension():
    """Prior correlation of f between two observations of d standardized features."""
    rng = np.random.default_rng(SEED)
    rows = {}
    for d in DIMENSIONS:
        X, y = rng.standard_normal((4, d)), rng.standard_normal(4)
        row = []
        for ard in (True, False):
            prior = prior_draws(bx.GP(X, y, ard=ard), 4000)["prior"]
            lengthscale = np.atleast_2d(prior["lengthscale"].values[0].T).T
            apart = rng.standard_normal((4000, d)) - rng.standard_normal((4000, d))
            correlation = np.exp(-0.5 * ((apart / lengthscale) ** 2).sum(axis=1))
            low, middle, high = np.quantile(correlation, [0.05, 0.5, 0.95])
            row.append(f"{middle:.2f} ({low:.2f} to {high:.2f})")
        rows[d] = row
    frame = pd.DataFrame(rows, ["ard=True", "ard=False"]).T.rename_axis("features d")
    table("Prior correlation of f between two samples: median (5% to 95%)", frame)


def split():
    """Diabetes: X, y, X_test, y_test with 353 patients for the fit and 89 held out."""
    data = bx.datasets.load("diabetes")
    rows = np.random.default_rng(SEED).permutation(len(data.y))
    train, test = np.sort(rows[89:]), np.sort(rows[:89])
    return (a.iloc[r] for r in (train, test) for a in (data.X, data.y))


def effects(model, idata, X_test, y_test):
    """Weight of bmi at training patients, and held-out error, for one fit."""
    quiet = {"keep": "summary", "progressbar": False}
    options = {"features": ["bmi"], "num_draws": 300, **quiet}
    own = bx.weights(model, idata, **options)
    smooth = bx.weights(model, idata, smooth=True, **options)
    predicted = bx.predictions(model, idata, X_test, **quiet)
    error = np.sqrt(np.mean((predicted["y_mean"] - y_test.to_numpy()) ** 2))
    return {
        "sd of w": f"{own['weight_sd'].mean().item():.2f}",
        "sd of g": f"{smooth['weight_sd'].mean().item():.2f}",
        "spread of w": f"{own['weight_mean'].std().item():.2f}",
        "RMSE": f"{error.item():.1f}",
    }


def profile():
    """Fit by MAP for fixed values of sigma_w to show what the data determine."""
    X, y, X_test, y_test = split()
    found = {}
    for sigma_w in FIXED:
        model = bx.GPX(X, y, priors={"sigma_w": sigma_w})
        mode = model.fit("map", progressbar=False)["posterior"]
        theta = {name: value.to_numpy()[0, 0] for name, value in mode.items()}
        evidence = bx.log_likelihood(model, theta, progressbar=False)["log_marginal_likelihood"]
        found[sigma_w] = {
            "log evidence": evidence.item(),
            "sigma": f"{theta['sigma']:.2f}",
            **effects(model, theta, X_test, y_test),
        }
    frame = pd.DataFrame(found).T.rename_axis("sigma_w held at")
    frame["log evidence"] = [
        f"{v - frame['log evidence'].max():.1f}" for v in frame["log evidence"]
    ]
    table("sigma_w held, the rest by MAP", frame)


def experiment():
    """Posterior of sigma_w, and of training weights, under three priors of sigma_w."""
    X, y, X_test, y_test = split()
    sampling = {"draws": 700, "tune": 500, "chains": 2, "target_accept": 0.9}
    models, fits, found, drawn = {}, {}, {}, {}
    for label, prior in EXPERIMENT.items():
        model = bx.GPX(X, y, priors={} if prior is None else {"sigma_w": prior})
        idata = model.fit("nuts", seed=SEED, progressbar=False, **sampling)
        print(f"\n{label}. {idata.attrs['convergence_summary']}", flush=True)
        posterior = idata["posterior"]
        sigma_w, sigma = posterior["sigma_w"].values.ravel(), posterior["sigma"].values.ravel()
        own_variance = X.shape[1] * sigma_w**2
        own_part = own_variance / (own_variance + sigma**2)
        low, high = np.quantile(sigma_w, [0.05, 0.95])
        found[label] = {
            "posterior mean of sigma_w": f"{sigma_w.mean():.3f}",
            "90% interval": f"{low:.3f} to {high:.3f}",
            "own part of noise": f"{own_part.mean():.0%}",
            **effects(model, idata, X_test, y_test),
        }
        models[label], fits[label], drawn[label] = model, idata, sigma_w
    compared = az.compare(fits, round_to="none")
    for label in found:
        row = compared.loc[label]
        found[label]["elpd difference"] = f"{row['elpd_diff']:.1f} ± {row['dse']:.1f}"
    table("Three priors of sigma_w", pd.DataFrame(found).rename_axis(""))
    figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
    for label, sigma_w in drawn.items():
        axes.hist(sigma_w, bins=40, range=(0, 0.2), histtype="step", density=True, label=label)
    axes.set(xlabel="sigma_w, in sd of y per sd of z", yticks=[], title="posterior of sigma_w")
    axes.legend()
    keep(figure, "sigma_w")
    sensitivity(models, fits)


def sensitivity(models, fits):
    """Power-scaling of sigma_w's prior: sigma, sigma_w, and the weight of bmi at one patient."""
    options = {"obs": [0], "features": ["bmi"], "seed": SEED, "progressbar": False}
    for label, model in models.items():
        own = bx.weights(model, fits[label], **options)
        smooth = bx.weights(model, fits[label], smooth=True, **options)
        tree = bx.power_scaling(model, fits[label], own, smooth.rename(weight="smooth_weight"))
        summary = az.psense_summary(tree, prior_var_names=["sigma_w"])
        shown = ["sigma", "sigma_w", "weight[0, bmi]", "smooth_weight[0, bmi]"]
        table(f"Power-scaling, {label}", summary.loc[shown])


if __name__ == "__main__":
    matplotlib.use("Agg")
    FIGURES.mkdir(exist_ok=True)
    gp_functions()
    weight_functions()
    size_by_kernel()
    share_of_eps_w()
    correlation_by_dimension()
    profile()
    if "--no-experiment" not in sys.argv[1:]:
        experiment()
