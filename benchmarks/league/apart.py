# /// script
# requires-python = ">=3.12"
# dependencies = ["pygam==0.10.1", "marginaleffects==0.6.1", "polars<2", "statsmodels>=0.14"]
# ///
"""Answers of pygam and marginaleffects to a data set from standard input, as JSON."""

import json
import sys
import time
import warnings

import marginaleffects
import numpy as np
import pandas as pd
import polars as pl
import pygam
import statsmodels.api as sm
import statsmodels.formula.api as smf

NAMES = list("abcd")


def gam(asked, X, y, new):
    """Splines with penalties by grid search; pygam's own intervals of terms."""
    kind = {"normal": pygam.LinearGAM, "bernoulli": pygam.LogisticGAM, "poisson": pygam.PoissonGAM}
    terms = pygam.s(0) + pygam.s(1) + pygam.s(2) + pygam.s(3) + pygam.f(4)
    model = kind[asked["family"]](terms).gridsearch(X.to_numpy(float), y, progress=False)
    middle, ends = [], []
    for j, values in enumerate(asked["grid"]):
        rows = np.tile(X.to_numpy(float).mean(axis=0), (len(values), 1))
        rows[:, j] = values
        found, interval = model.partial_dependence(term=j, X=rows, width=0.9)
        own, _ = model.partial_dependence(term=j, X=X.to_numpy(float), width=0.9)
        middle.append(found - own.mean())
        ends.append(interval - own.mean())
    low, high = np.moveaxis(np.array(ends), -1, 0)
    yield "curve", "centered curve", np.array(middle), low, high


def spline_glm(asked, X, y, new):
    """A generalized linear model of cubic splines with a knot at 0; of lines for few rows.

    The splines are truncated powers, because marginaleffects finds no variables in `bs(a)`.
    """
    rows = X.assign(y=y)
    families = {
        "normal": None,
        "bernoulli": sm.families.Binomial(),
        "poisson": sm.families.Poisson(),
    }
    spline = "{0} + I({0}**2) + I({0}**3) + I(np.maximum({0}, 0)**3)"
    smooth = " + ".join((spline if len(X) > 100 else "{0}").format(name) for name in NAMES)
    family, robust = families[asked["family"]], "HC3"
    if family is None:
        fit = smf.ols(f"y ~ {smooth} + t", rows).fit()
    else:
        fit, robust = smf.glm(f"y ~ {smooth} + t", rows, family=family).fit(), True
    options = {"vcov": robust, "conf_level": 0.9}
    here = pl.from_pandas(new.assign(y=0.0))
    found = marginaleffects.avg_slopes(fit, variables=NAMES, **options)
    yield "average slope", "average slope", *table(found, NAMES)
    if family is None:
        found = marginaleffects.slopes(fit, variables=NAMES, newdata=here, **options)
        yield "slope", "slope", *(v.reshape(4, -1).T for v in table(found))
    found = marginaleffects.avg_comparisons(fit, variables={"t": [0, 1]}, **options)
    yield "average effect", "average effect", *(v[0] for v in table(found))
    found = marginaleffects.comparisons(fit, variables={"t": [0, 1]}, newdata=here, **options)
    yield "effect", "response effect", *table(found)


def table(found, names=None):
    """Estimates and ends of intervals, in the order of the names of terms."""
    data = found.data if hasattr(found, "data") else found
    data = data.to_pandas()
    if names is not None:
        data = data.set_index("term").loc[names]
    elif "rowid" in data and data["term"].nunique() > 1:
        data = data.sort_values(["term", "rowid"])
    return [data[name].to_numpy(float) for name in ("estimate", "conf_low", "conf_high")]


def main():
    warnings.simplefilter("ignore")
    asked = json.load(sys.stdin)
    X, new, y = pd.DataFrame(asked["X"]), pd.DataFrame(asked["new"]), np.array(asked["y"])
    said = {}
    for name, ask in (("pygam", gam), ("marginaleffects, spline GLM", spline_glm)):
        began = time.process_time()
        found = [
            [estimand, truth, *(np.asarray(v).tolist() for v in values)]
            for estimand, truth, *values in ask(asked, X, y, new)
        ]
        said[name] = {"seconds": time.process_time() - began, "answers": found}
    json.dump(said, sys.stdout)


if __name__ == "__main__":
    main()
