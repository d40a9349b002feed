"""How far can an explanation be trusted? Attributions where the truth is known.

A function of two features is sampled at 500 random places with noise, and what a Gaussian process
makes of it is explained along the diagonal of its square, against the origin:

    K. Butler, G. Feng and P. M. Djuric, "Explainable learning with Gaussian processes" (2024),
    section 5.1 and Figure 3.

The noise is the same everywhere; the uncertainty of the attributions isn't. It is 0 at the
baseline and grows along the way, since what is known badly anywhere on the path adds up, and at the
corner of the square, where the data end, it shoots up. The sum of the attributions, f(x) -
f(baseline), is known far better than either of them: their errors cancel.

The paper prints the function sin(x1) sin(2 x2); its figure shows sin(x1) sin(1.5 x2), so both are
here (`attributions_figure`, `attributions_text`). The 500 places are the authors', the noise is of
`--seed`. The dashed lines, the attributions of the true function, are not in the paper.
"""

import butler
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import script

import bayes_gpx as bx

FREQUENCIES = {"figure": 1.5, "text": 2.0}
SIDE, ROWS, NOISE = 10.0, 500, 0.5
FEATURES = ["x1", "x2"]


def main(arguments=None):
    run = script.Run(
        "gp_simulated_attributions", __doc__, arguments, data=None, method="nuts", draws=200
    )
    # A folder of results has one fit: that of the function in the paper's figure.
    model, idata = None, None
    for which, frequency in FREQUENCIES.items():
        X, y = simulate(frequency, run.seed)
        best = butler.climb(X, y)
        print(f"\nsin(x1) sin({frequency} x2), plug-in: {best.describe(X.columns)}")
        model = butler.uncentred(X, y)
        idata = run.fit(model, name=f"fit_{which}")
        line = pd.DataFrame(np.linspace(0, SIDE, 101)[:, None].repeat(2, 1), columns=FEATURES)
        options = {"baseline": "zero", "keep": "summary"}
        found = bx.attributions(model, idata, line, num_draws=200, seed=run.seed, **options)
        table = tabulate(found, frequency)
        run.table(table, f"attributions_{which}")
