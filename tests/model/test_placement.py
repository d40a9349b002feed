"""Inducing points that were moved: the bound grows, and few points come near the exact evidence."""

import numpy as np
import pytest

import bayes_gpx as bx
import oracle

RNG = np.random.default_rng(2)
X = np.sort(RNG.uniform(0, 10, size=(80, 1)), axis=0)
Y = np.sin(1.5 * X[:, 0]) + 0.1 * RNG.normal(size=80)
THETA = {"lengthscale": [0.5], "amplitude": 1.0, "sigma": 0.2}


def bound(model, theta):
    return bx.log_likelihood(model, theta, progressbar=False)["log_marginal_likelihood"].item()


def test_the_bound_grows_towards_the_evidence():
    model = bx.GP(X, Y, approximation=bx.Inducing(9))
    points = bx.optimise_inducing(model, THETA)
    moved = bx.GP(X, Y, approximation=points)
    x, y = (X - X.mean()) / X.std(), (Y - Y.mean()) / Y.std()
    C = oracle.expquad(x, x, np.array([0.5])) + 0.2**2 * np.eye(80)
    evidence = oracle.log_normal(y, C) - 80 * np.log(Y.std())
    assert bound(model, THETA) < bound(moved, THETA) <= evidence
    assert evidence - bound(moved, THETA) < 0.2 * (evidence - bound(model, THETA))


def test_no_small_move_does_better():
    points = bx.optimise_inducing(bx.GP(X, Y, approximation=bx.Inducing(5)), THETA, steps=500)
    best = bound(bx.GP(X, Y, approximation=points), THETA)
    for i in range(5):
        for step in (-0.05, 0.05):
            near = np.array(points.m)
            near[i] += step
            assert bound(bx.GP(X, Y, approximation=bx.Inducing(near)), THETA) < best + 1e-6


@pytest.mark.parametrize("apart", [False, True])
def test_points_of_a_gpx_move_in_all_their_columns(apart):
    wide, Z = RNG.normal(size=(40, 2)), RNG.normal(size=(40, 3))
    weighed = Z if apart else wide
    y = (weighed[:, :2] * np.sin(wide)).sum(axis=1)
    options = {"Z": Z} if apart else {"intercept": True}
    theta = {"lengthscale": [1.0, 1.0], "amplitude": 1.0, "sigma": 0.1, "sigma_w": 0.1}
    model = bx.GPX(wide, y, approximation=bx.Inducing(8), **options)
    points = bx.optimise_inducing(model, theta, steps=15)
    assert np.array(points.m).shape == (8, 5 if apart else 2)
    moved = bx.GPX(wide, y, approximation=points, **options)
    assert bound(moved, theta) > bound(model, theta) + 1.0


def test_a_fit_is_taken_too_and_nonsense_is_refused():
    model = bx.GP(X, Y, approximation=bx.Inducing(6))
    idata = model.fit("map", start=THETA, progressbar=False)
    points = bx.optimise_inducing(model, idata)
    better = bx.GP(X, Y, approximation=points).fit("map", start=idata, progressbar=False)
    assert better["sample_stats"]["lp"] > idata["sample_stats"]["lp"]
    with pytest.raises(ValueError, match="approximation is None. Use bx.Inducing"):
        bx.optimise_inducing(bx.GP(X, Y), THETA)
    with pytest.raises(ValueError, match="steps is 0"):
        bx.optimise_inducing(model, THETA, steps=0)
