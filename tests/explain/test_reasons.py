"""Reasons of single rows: ranks of attributions, against counting and against exact integrals."""

import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal

import bayes_gpx as bx

RNG = np.random.default_rng(4)
FEATURES = ["a", "b", "c"]
MEAN = np.array([[1.0, -2.0, 0.3], [-0.5, -0.4, 0.0]])
ROOT = RNG.normal(size=(2, 3, 3))
COV = ROOT @ ROOT.swapaxes(1, 2)


def result(draws=None, **attrs):
    """A result with these moments, and draws (draw, obs, feature) of them if there are any."""
    dims = ("obs", "feature")
    variables = {
        "attribution_mean": (dims, MEAN),
        "attribution_sd": (dims, np.sqrt(np.einsum("oii->oi", COV))),
        "attribution_cov": ((*dims, "feature_bis"), COV),
    }
    coords = {"obs": ["p", "q"], "feature": FEATURES, "feature_bis": FEATURES}
    if draws is not None:
        variables["attribution"] = ("chain", "draw", *dims), draws[None]
        coords |= {"chain": [0], "draw": np.arange(len(draws))}
    return xr.Dataset(variables, coords, {"units": "mg", **attrs})


def counted(draws, score, k):
    """Proportion of draws with each feature among the first k, by sorting each draw."""
    total = np.zeros(draws.shape[1:])
    for draw in draws:
        for o, values in enumerate(draw):
            first = sorted(range(3), key=lambda j, v=values: -score(v[j]))[:k]
            for j in first:
                total[o, j] += score is abs or score(values[j]) > 0
    return total / len(draws)


SCORES = {"either": abs, "positive": lambda v: v, "negative": lambda v: -v}


@pytest.mark.parametrize("sign", SCORES)
def test_probabilities_are_proportions_of_draws(sign):
    draws = MEAN + np.einsum("oij,soj->soi", ROOT, RNG.normal(size=(300, 2, 3)))
    found = bx.reasons(result(draws), size=2, sign=sign)
    for k in (1, 2):
        expected = counted(draws, SCORES[sign], k)
        assert_allclose(found["probability_top"].sel(rank=k), expected)
    for o in range(2):
        order = sorted(range(3), key=lambda j, o=o: -SCORES[sign](MEAN[o, j]))[:2]
        for rank, j in enumerate(order):
            own = found.isel(obs=o, rank=rank)
            if sign != "either" and SCORES[sign](MEAN[o, j]) <= 0:
                assert own["reason"].item() == "" and np.isnan(own["reason_mean"])
                continue
            assert own["reason"].item() == FEATURES[j]
            assert own["reason_mean"].item() == MEAN[o, j]
            assert own["reason_probability"].item() == pytest.approx(expected[o, j])
            ends = np.quantile(draws[:, o, j], [0.05, 0.95])
            assert_allclose(own["reason_interval"], ends)


def test_without_draws_probabilities_are_those_of_the_normal():
    """That feature a is the most negative: a < 0, a < b and a < c, an orthant probability."""
    found = bx.reasons(result(), size=1, sign="negative")
    for o in range(2):
        for j in range(3):
            rows = np.zeros((3, 3))
            rows[:, j] = 1.0
            others = [k for k in range(3) if k != j]
            for row, k in enumerate(others):
                rows[row, k] = -1.0
            normal = multivariate_normal(
                rows @ MEAN[o], rows @ COV[o] @ rows.T, allow_singular=True
            )
            exact = normal.cdf(np.zeros(3))
            assert found["probability_top"].values[o, j, 0] == pytest.approx(exact, abs=0.011)


def test_draws_and_normals_agree_for_a_model():
    X = RNG.normal(size=(40, 3))
    model = bx.GP(X, X[:, 0] - 0.8 * X[:, 1] + 0.3 * RNG.normal(size=40), scale=False)
    theta = {"lengthscale": [2.0, 2.0, 2.0], "amplitude": 2.0, "sigma": 0.3}
    options = {"covariance": True, "draws": 4000, "seed": 1, "progressbar": False}
    found = bx.attributions(model, theta, X[:3], **options)
    drawn, normal = bx.reasons(found), bx.reasons(found.drop_vars("attribution"))
    assert_array_equal(drawn["reason"], normal["reason"])
    assert_allclose(drawn["probability_top"], normal["probability_top"], atol=0.04)
    assert_allclose(drawn["probability_top"].sel(rank=3), 1.0)
    first, sure = drawn["reason"].values[0, 0], drawn["reason_probability"].values[0, 0]
    assert f"Observation 0: {first} (among the first 3: probability {sure:.0%})" in bx.describe(
        drawn
    )


def test_classes_and_groups_have_reasons():
    draws = RNG.normal(size=(50, 2, 3))
    one = result(draws).drop_vars(["attribution_cov", "feature_bis"])
    both = xr.concat([one, -one], xr.Variable("class", ["u", "v"])).transpose(..., "class")
    found = bx.reasons(both, size=2)
    for label, own in (("u", one), ("v", -one)):
        expected = bx.reasons(own, size=2)
        for name in expected:
            assert_array_equal(found[name].sel({"class": label}), expected[name])
    assert found["probability_top"].dims == ("obs", "feature", "rank", "class")
    by = bx.reasons(one.rename(obs="by"), size=2)
    assert by["reason"].dims == ("by", "rank")


def test_other_results_are_refused():
    with pytest.raises(ValueError, match="neither draws nor covariances"):
        bx.reasons(result().drop_vars("attribution_cov"))
    with pytest.raises(ValueError, match="Pass the result of bx.attributions"):
        bx.reasons(xr.Dataset({"f_mean": 1.0}))
    with pytest.raises(ValueError, match="size"):
        bx.reasons(result(), size=0)
    with pytest.raises(ValueError, match="sign"):
        bx.reasons(result(), sign="up")


@pytest.mark.parametrize("sign", ["either", "positive"])
def test_features_that_a_row_lacks_are_no_reasons(sign):
    """Of a sparse Z, contributions of absent features are missing: others keep their places."""
    draws = RNG.multivariate_normal(np.zeros(6), np.eye(6), 400).reshape(400, 2, 3) + MEAN
    lacking = draws.copy()
    lacking[:, 0, 1] = np.nan
    mean = result(lacking).assign(attribution_mean=(("obs", "feature"), lacking.mean(axis=0)))
    found = bx.reasons(mean, size=3, sign=sign)
    score = abs if sign == "either" else float
    pair = draws[:, :1][..., [0, 2]]
    for k in (1, 2, 3):
        own = [sorted((0, 1), key=lambda j, v=v: -score(v[j]))[:k] for v in pair[:, 0]]
        counted_here = [
            np.mean(
                [
                    j in o and (score is abs or v[j] > 0)
                    for o, v in zip(own, pair[:, 0], strict=True)
                ]
            )
            for j in (0, 1)
        ]
        assert_allclose(found["probability_top"].values[0, [0, 2], k - 1], counted_here)
    assert (found["probability_top"].values[0, 1] == 0.0).all()
    assert "b" not in found["reason"].values[0]
    whole = bx.reasons(result(draws), size=3, sign=sign)
    assert_allclose(found["probability_top"][1], whole["probability_top"][1])
