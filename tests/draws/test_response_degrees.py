"""Paths are taken for polynomials of the degree that they need, and of no higher one."""

from collections import Counter
from itertools import batched
from types import SimpleNamespace

import numpy as np
import xarray as xr

import bayes_gpx as bx
from bayes_gpx.draws.points import Points
from bayes_gpx.draws.views import ByChainRule

FUNCTIONS, ROUGH = 40, 5
"""How many there are, and the one that needs more than others; degrees are not tried on it."""

NEEDED = {False: np.array([8, 8, 16]), True: np.array([8, 32, 16])}
"""Degree by which shares add up in each of three rows, of any function and of the rough one."""


def test_each_row_of_each_function_has_the_degree_that_it_needs():
    asked, answered = Counter(), []

    def ask(quantities, numbers):
        wanted = sorted(range(FUNCTIONS) if numbers is None else numbers)
        for k, one in enumerate(quantities):
            rows = one.where.X[:, 0].astype(int)
            asked.update((number, one.degree, tuple(rows.tolist())) for number in wanted)
            for some in batched(wanted, 7):
                enough = np.stack([one.degree >= NEEDED[n == ROUGH][rows] for n in some])
                yield (
                    np.array(some),
                    k,
                    slice(None),
                    [enough[..., None] * 1.0, np.ones(enough.shape)],
                )

    X = np.arange(3.0)[:, None]
    where = Points({"X": X}, X, None, np.arange(3))
    whole = ByChainRule(SimpleNamespace(total=("difference", None)), where, None)
    for numbers, rows, (shares, difference) in whole.answers(ask, FUNCTIONS):
        assert (shares[..., 0] == difference).all()
        answered += [(number, row) for number in numbers.tolist() for row in rows.tolist()]
    assert sorted(answered) == [(number, row) for number in range(FUNCTIONS) for row in range(3)]
    tried = {number for number, _, rows in asked if rows == (0, 1, 2)}
    assert 2 < len(tried) < 10 and ROUGH not in tried
    again = {(ROUGH, 16, (1,)), (ROUGH, 32, (1,))}
    of_all = {(n, *part) for n in range(FUNCTIONS) for part in ((8, (0, 1)), (16, (2,)))}
    assert set(asked) == of_all | again | {(n, 8, (0, 1, 2)) for n in tried}
    assert asked.total() == len(of_all) + len(again) + 2 * len(tried)


def test_a_rough_function_among_smooth_ones_is_followed_again_by_itself():
    rng = np.random.default_rng(1)
    X, new = rng.normal(size=(20, 2)), rng.normal(size=(4, 2))
    model = bx.GP(X, np.where(X[:, 0] > 0, "high", "low"), likelihood="bernoulli")
    lengthscale = np.ones((1, 22, 2))
    lengthscale[0, 5] = 0.15  # degrees are tried on draws 0, 3, 6 and so on
    values = {
        "lengthscale": (("chain", "draw", "feature"), lengthscale),
        "amplitude": (("chain", "draw"), np.full((1, 22), 2.0)),
    }
    posterior = xr.Dataset(values, {"feature": ["x0", "x1"]})
    idata = xr.DataTree.from_dict({"posterior": posterior})
    found = bx.attributions(model, idata, new, seed=1, progressbar=False)
    assert np.isfinite(found["attribution"]).all()
    missed = np.abs(found["attribution"].sum("feature") - found["difference"])
    assert missed.max() < 1e-6 * np.abs(found["difference"]).max()
