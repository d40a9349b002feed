"""Time partial dependence with intervals of 1,000 draws, compared with two other ways.

The first way asks for average predictions at one place after the other, in this package, with the
same posterior standard deviations. The second is scikit-learn's `partial_dependence` of a Gaussian
process with one draw's hyperparameters: the means alone, times the number of draws. The first two
ways have equal numbers, which the script checks. CPU seconds of the second of two calls.

    python benchmarks/curves.py
"""

import time

import numpy as np
import xarray as xr
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.inspection import partial_dependence

import bayes_gpx as bx

DRAWS, STEPS, FEATURES = 1000, 20, ("bmi", "blood_pressure", "hdl", "log_triglycerides")
FEW = 50
"""Draws of the slow ways, whose time is in proportion."""


def seconds(task):
    task()
    begun = time.process_time()
    found = task()
    return found, time.process_time() - begun


def posterior():
    """Draws around a plausible point, equal for all ways."""
    rng = np.random.default_rng(0)
    lengthscales = 3.0 * np.exp(0.1 * rng.normal(size=(1, DRAWS, len(FEATURES))))
    numbers = {"amplitude": 0.7, "sigma": 0.7}
    draws = {"lengthscale": (("chain", "draw", "feature"), lengthscales)}
    draws |= {
        name: (("chain", "draw"), value * np.exp(0.1 * rng.normal(size=(1, DRAWS))))
        for name, value in numbers.items()
    }
    labels = {"feature": list(FEATURES)}
    return xr.DataTree.from_dict({"posterior": xr.Dataset(draws, labels)})


def main():
    print("| rows | bayes_gpx, s | one place at a time, s | scikit-learn, means alone, s |")
    print("|---|---|---|---|", flush=True)
    for n in (100, 200):
        data = bx.datasets.load("diabetes")
        X, y = data.X[list(FEATURES)].iloc[:n], data.y.iloc[:n]
        model, idata = bx.GP(X, y), posterior()
        options = {"keep": "summary", "progressbar": False}

        def whole(model=model, idata=idata, options=options):
            return bx.partial_dependence(model, idata, steps=STEPS, **options)

        found, own = seconds(whole)

        def by_hand(model=model, idata=idata, options=options, X=X, found=found):
            places = found["value"].sel(feature="bmi").values
            each = [
                bx.predictions(model, idata, X.assign(bmi=v), by=True, num_draws=FEW, **options)
                for v in places
            ]
            return np.array([[e["f_mean"].item(), e["f_sd"].item()] for e in each])

        def few(model=model, idata=idata, options=options):
            return bx.partial_dependence(
                model, idata, features=["bmi"], steps=STEPS, num_draws=FEW, **options
            )

        curve, slow = seconds(by_hand)
        same = few().sel(feature="bmi")
        moments = [same[f"partial_dependence_{part}"].values for part in ("mean", "sd")]
        np.testing.assert_allclose(curve, np.transpose(moments), rtol=1e-6)
        slow *= len(FEATURES) * DRAWS / FEW

        scaled, center = (X - X.mean()) / X.std(ddof=0), y - y.mean()
        kernel = ConstantKernel(0.5) * RBF([3.0] * len(FEATURES))
        peer = GaussianProcessRegressor(kernel, alpha=0.5, optimizer=None)

        def means(peer=peer, scaled=scaled, center=center):
            peer.fit(scaled, center)
            for k in range(len(FEATURES)):
                partial_dependence(peer, scaled, [k], grid_resolution=STEPS, method="brute")

        _, theirs = seconds(means)
        print(f"| {n} | {own:.1f} | {slow:.0f} | {theirs * DRAWS:.0f} |", flush=True)


if __name__ == "__main__":
    main()
