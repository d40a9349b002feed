"""Numbers of another package, lifelines: running this script rewrites them.

lifelines fits accelerated failure time models to right-censored durations. It is no dependency, and
needs an older pandas: install ``lifelines==0.30.3`` in an environment of its own. The values are
stored beside this script.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd

STORED = Path(__file__).with_suffix(".json")


def rows():
    """Features, durations, and whether each is known or only its lower bound."""
    rng = np.random.default_rng(21)
    frame = pd.DataFrame({"dose": rng.normal(size=90), "age": 3.0 + 2.0 * rng.normal(size=90)})
    log_scale = 1.0 + 0.8 * frame["dose"] - 0.3 * frame["age"]
    time = np.exp(log_scale) * rng.weibull(1.6, size=90)
    limit = rng.uniform(0.5, 6.0, size=90)
    return frame, np.minimum(time, limit).to_numpy(), (time < limit).to_numpy()


def main():
    """Compute all values and store them."""
    import lifelines

    X, time, known = rows()
    found = {}
    for name, place, shape in (("Weibull", "lambda_", "rho_"), ("LogLogistic", "alpha_", "beta_")):
        model = getattr(lifelines, f"{name}AFTFitter")()
        options = {"ftol": 1e-14, "gtol": 1e-9}
        frame = X.assign(time=time, known=known)
        fit = model.fit(frame, "time", "known", fit_options=options)
        found[name.lower()] = {
            "slopes": fit.params_[place][["dose", "age"]].to_list(),
            "errors": fit.standard_errors_[place][["dose", "age"]].to_list(),
            "shape": float(np.exp(fit.params_[shape].iloc[0])),
            "log_likelihood": float(fit.log_likelihood_),
        }
    expected = X["dose"].round(1)  # with ties
    found["concordance"] = lifelines.utils.concordance_index(time, expected, known)
    STORED.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
