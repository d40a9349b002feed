"""Coalitions of random orders against all coalitions."""

import numpy as np
from numpy.testing import assert_allclose

from bayes_gpx.numerics.coalitions import Orders, all_coalitions, coalitions

PLAYERS = ((0, 3), (1,), (2,), (4,), (5,))
FIRST = [0, 1, 2, 4, 5]
WORTH = np.random.default_rng(0).normal(size=2**5) ** 3


def worth(masks):
    return WORTH[masks[:, FIRST] @ 2 ** np.arange(5)]


def test_random_orders_give_shapley_values_with_their_error():
    every = all_coalitions(PLAYERS)
    exact = (every.shares @ worth(every.masks))[FIRST]
    missed, errors = [], []
    for seed in range(1000):
        some = coalitions(PLAYERS, Orders(20, seed))
        assert some.before.shape == some.after.shape == (20, 5)
        values = worth(some.masks)
        shares = some.shares @ values
        assert shares[3] == 0.0
        missed.append(shares[FIRST] - exact)
        errors.append(some.errors(values))
    missed, errors = np.array(missed), np.array(errors)
    assert_allclose(missed.mean(axis=0) / (missed.std(axis=0) / 1000**0.5), 0.0, atol=4.0)
    assert_allclose((missed**2).mean(axis=0) / (errors**2).mean(axis=0), 1.0, atol=0.2)


def test_each_order_shares_what_all_players_are_worth_together():
    some = coalitions(PLAYERS, Orders(8, 1))
    values = worth(some.masks)
    gains = values[some.after] - values[some.before]
    assert_allclose(gains.sum(axis=1), WORTH[-1] - WORTH[0], atol=1e-12)
    assert_allclose(gains.mean(axis=0), (some.shares @ values)[FIRST], atol=1e-12)
