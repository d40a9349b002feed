"""Modes of many counts, and of many labels of ten classes: seconds from the data to the fit.

The counts are the doctor visits of 20,190 people (RAND health insurance experiment, from
statsmodels). Their model has nine features, a negative binomial likelihood and 100 inducing points,
and is fitted from the package's five starting points. The labels belong to 1437 images of digits.
Their model has independent latent functions and Laplace's approximation of all 14,370 latent
values, and is fitted from one starting point.
"""

import resource
import time

import numpy as np
from sklearn.datasets import load_digits
from statsmodels.datasets import randhie

import bayes_gpx as bx

POINTS, IMAGES = 100, 1437


def visits():
    data = randhie.load_pandas()
    options = {"likelihood": "negative_binomial", "approximation": bx.Inducing(POINTS)}
    return bx.GP(data.exog, data.endog, **options), None


def digits():
    X, y = load_digits(return_X_y=True)
    X, y = X[:IMAGES] / 16, y[:IMAGES].astype(str)
    model = bx.GP(X, y, likelihood="categorical", ard=False, scale=False)
    return model, {"lengthscale": 2.0, "amplitude": 1.0}


def used():
    """Seconds, and processor seconds."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return np.array([time.perf_counter(), usage.ru_utime + usage.ru_stime])


def main():
    print("| fit | rows | seconds | CPU s | log density |")
    print("|---|---|---|---|---|")
    for name, made in {"visits": visits, "ten digits": digits}.items():
        begun = used()
        model, start = made()
        idata = model.fit("map", start=start, seed=0, progressbar=False)
        seconds, processor = used() - begun
        density = float(idata["sample_stats"]["lp"].max())
        print(
            f"| {name} | {model.training.n} | {seconds:.0f} | {processor:.0f} | {density:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
