"""Answers of other packages, at the settings that their documentation recommends.

pygam and marginaleffects need older versions of packages than this project, so `apart.py` runs in
an environment of its own, which uv makes.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import statsmodels.api as sm
from answer import Answer
from scipy.special import ndtr
from truths import NAMES

BOOTSTRAPS = {"trees": 50, "gp": 20}


def ebm(data):
    """Explainable boosting machines: bars of one standard deviation of bags, here 1.645 of them."""
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    options = {"n_jobs": 1, "random_state": 1}  # 14 bags, and interactions after the curves
    if data.family == "bernoulli":
        model = ExplainableBoostingClassifier(**options)
    else:
        loss = {"normal": "rmse", "poisson": "poisson_deviance"}[data.family]
        model = ExplainableBoostingRegressor(objective=loss, **options)
    model.fit(data.X, data.y)
    mean, sd, sizes = [], [], []
    for j in range(len(NAMES)):
        edges = model.bins_[j][0]
        at = np.digitize(data.grid[j], edges) + 1
        mean.append(model.term_scores_[j][at])
        sd.append(model.standard_deviations_[j][at])
        own = np.digitize(data.X.iloc[:, j], edges) + 1
        sizes.append(np.abs(model.bagged_scores_[j][:, own]).mean(axis=1))
    yield Answer.of_normal("curve", "centered curve", np.array(mean), np.array(sd))
    yield Answer.of_sizes("mean absolute curve", np.array(sizes).T)


def bart(data):
    """Bayesian additive regression trees of stochtree: 500 draws after 10 from the root."""
    from stochtree import BARTModel, OutcomeModel

    if data.family == "poisson":
        return
    general = {"random_seed": 1, "num_threads": 1}
    if data.family == "bernoulli":
        general["outcome_model"] = OutcomeModel(outcome="binary", link="probit")
    model = BARTModel()
    model.sample(
        X_train=data.X.to_numpy(),
        y_train=data.y,
        num_gfr=10,
        num_burnin=0,
        num_mcmc=500,
        general_params=general,
    )

    def mean(rows):
        found = model.predict(rows, terms="y_hat").T
        return ndtr(found) if data.family == "bernoulli" else found

    curves = []
    rows = data.background.to_numpy()
    for j, values in enumerate(data.grid):
        moved = np.tile(rows, (len(values), 1))
        moved[:, j] = np.repeat(values, len(rows))
        curves.append(mean(moved).reshape(-1, len(values), len(rows)).mean(axis=-1))
    yield Answer.of_draws("curve", "response curve", np.stack(curves, axis=1))
    yield Answer.of_draws("average effect", "average effect", contrast(mean, data.X).mean(axis=1))
    yield Answer.of_draws("effect", "response effect", contrast(mean, data.new))


def contrast(mean, rows):
    """Draws (draw, row) of the difference between t = 1 and t = 0."""
    with_t, without = (rows.assign(t=value).to_numpy(float) for value in (1, 0))
    return mean(with_t) - mean(without)


def tree_shap(data):
    """TreeSHAP of LightGBM, with percentiles of refits to bootstrap samples."""
    import lightgbm
    import shap

    kinds = {
        "normal": lambda: lightgbm.LGBMRegressor(n_jobs=1, verbose=-1),
        "poisson": lambda: lightgbm.LGBMRegressor(objective="poisson", n_jobs=1, verbose=-1),
        "bernoulli": lambda: lightgbm.LGBMClassifier(n_jobs=1, verbose=-1),
    }
    rng, draws = np.random.default_rng(1), []
    for _ in range(BOOTSTRAPS["trees"]):
        picked = rng.integers(len(data.X), size=len(data.X))
        model = kinds[data.family]().fit(data.X.iloc[picked], data.y[picked])
        explainer = shap.TreeExplainer(model, data.background)
        draws.append(explainer.shap_values(data.new, check_additivity=False))
    draws = np.array(draws)
    yield Answer.of_draws("Shapley value", "Shapley value", draws)
    yield Answer.of_sizes("mean absolute Shapley value", np.abs(draws[..., :4]).mean(axis=1))


def kernel_shap(data):
    """KernelSHAP of scikit-learn's Gaussian process, with percentiles of bootstrap refits."""
    import shap
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    if data.family != "normal":
        return
    kernel = ConstantKernel(1.0) * RBF(np.ones(data.X.shape[1])) + WhiteKernel(0.1)
    options = {"normalize_y": True, "random_state": 1}
    first = GaussianProcessRegressor(kernel, n_restarts_optimizer=2, **options)
    kernel = first.fit(data.X.to_numpy(), data.y).kernel_
    rng, draws, starts = np.random.default_rng(1), [], data.background.to_numpy()
    for _ in range(BOOTSTRAPS["gp"]):
        picked = rng.integers(len(data.X), size=len(data.X))
        model = GaussianProcessRegressor(kernel, **options)
        model.fit(data.X.to_numpy()[picked], data.y[picked])
        explainer = shap.KernelExplainer(model.predict, starts)
        draws.append(explainer.shap_values(data.new.to_numpy(), silent=True))
    yield Answer.of_draws("Shapley value", "Shapley value", np.array(draws))


def linear(data):
    """Least squares with robust standard errors (HC3)."""
    if data.family != "normal":
        return
    fit = sm.OLS(data.y, sm.add_constant(data.X)).fit(cov_type="HC3")
    slope, sd = fit.params[data.X.columns], fit.bse[data.X.columns]
    own = slope[NAMES].to_numpy(), sd[NAMES].to_numpy()
    yield Answer.of_normal("average slope", "average slope", *own)
    rows = np.ones((len(data.new), 1))
    yield Answer.of_normal("slope", "slope", *(rows * values for values in own))
    steps = (data.new - data.baseline.iloc[0]).to_numpy()
    values = steps * slope.to_numpy(), np.abs(steps) * sd.to_numpy()
    yield Answer.of_normal("attribution", "attribution", *values)
    yield Answer.of_normal("average effect", "average effect", slope["t"], sd["t"])
    yield Answer.of_normal("effect", "effect", *(rows[:, 0] * v for v in (slope["t"], sd["t"])))


def apart(data):
    """Answers of pygam and marginaleffects, by method, each with its seconds."""
    script = Path(__file__).with_name("apart.py")
    asked = {"X": data.X.to_dict("list"), "y": list(data.y), "new": data.new.to_dict("list")}
    asked |= {"grid": data.grid.tolist(), "family": data.family}
    uv = shutil.which("uv") or str(script.parents[2] / ".uv" / "bin" / "uv")
    done = subprocess.run(
        [uv, "run", "--quiet", "--python", sys.executable, "--script", str(script)],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        env={k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL"))},
    )
    if done.returncode:
        raise RuntimeError(f"apart.py failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout)
