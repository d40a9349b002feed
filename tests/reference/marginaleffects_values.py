"""Numbers of another package, marginaleffects: running this script rewrites them.

marginaleffects (GPL) averages slopes, comparisons and predictions of a linear regression that
statsmodels fits by least squares. Neither is a dependency: install ``marginaleffects==0.6.1``, with
``polars<2`` and ``statsmodels``, in an environment of its own. The values are stored beside this
script.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd

STORED = Path(__file__).with_suffix(".json")


def rows():
    """Features, a response and a group of each row."""
    rng = np.random.default_rng(12)
    frame = pd.DataFrame({"dose": rng.normal(size=30), "age": 3.0 + 2.0 * rng.normal(size=30)})
    y = 1.0 + 2.0 * frame["dose"] - 0.5 * frame["age"] + 0.7 * rng.normal(size=30)
    return frame, y, np.resize(["north", "south", "west"], 30)


def main():
    """Compute all values and store them."""
    import marginaleffects
    import statsmodels.formula.api as smf

    X, y, region = rows()
    fit = smf.ols("y ~ dose + age", X.assign(y=y, region=pd.Categorical(region))).fit()
    tables = {
        "slopes": marginaleffects.avg_slopes(fit, variables=["dose", "age"]).sort("term"),
        "slopes by region": marginaleffects.avg_slopes(fit, variables="dose", by="region"),
        "comparison": marginaleffects.avg_comparisons(fit, variables={"dose": [-1, 2]}),
        "predictions": marginaleffects.avg_predictions(fit, by="region").sort("region"),
    }
    found = {
        name: {part: table[part].to_list() for part in ("estimate", "std_error")}
        for name, table in tables.items()
    }
    STORED.write_text(json.dumps(found | {"sigma": float(np.sqrt(fit.scale))}, indent=1) + "\n")


if __name__ == "__main__":
    main()
