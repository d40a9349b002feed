"""One probability of intervals for all of the package, which can be set everywhere."""

import arviz as az
import numpy as np
import pytest
from scipy.stats import norm

import bayes_gpx as bx
from bayes_gpx.draws.intervals import interval_of, interval_probability

X = np.linspace(-1.0, 1.0, 9)[:, None]
THETA = {"lengthscale": [0.8], "amplitude": 1.0}
QUIET = {"progressbar": False}
COUNTS = bx.GP(X, [0, 1, 0, 2, 1, 3, 2, 4, 3], likelihood="poisson")


def test_it_is_90_percent_unless_a_user_changed_that_of_arviz():
    assert interval_probability(None) == 0.9
    with az.rc_context({"stats.ci_prob": 0.5}):
        assert interval_probability(None) == 0.5
        assert interval_probability(0.8) == 0.8
    model = bx.GP(X, X[:, 0] ** 2)
    found = bx.predictions(model, THETA | {"sigma": 0.1}, X, ci_prob=0.7, **QUIET)
    assert interval_probability(None, found) == 0.7
    half = found["f_interval"].diff("ci_bound").squeeze() / 2
    np.testing.assert_allclose(half, norm.ppf(0.85) * found["f_sd"])


@pytest.mark.parametrize(
    "ask",
    [
        lambda **own: bx.attributions(COUNTS, THETA, X[:2], draws=20, **own),
        lambda **own: bx.derivatives(COUNTS, THETA, X[:2], draws=20, **own),
        lambda **own: bx.shapley_values(COUNTS, THETA, X[:2], draws=20, **own),
        lambda **own: bx.comparisons(
            COUNTS, THETA, X[:2], variables={"x0": (0, 1)}, draws=20, **own
        ),
        lambda **own: bx.attributions(COUNTS, THETA, X[:2], on="latent", of="log_variance", **own),
    ],
    ids=["attributions", "derivatives", "shapley", "comparisons", "log_variance"],
)
def test_it_is_taken_for_responses_too(ask):
    default, narrow = ask(**QUIET), ask(ci_prob=0.5, **QUIET)
    assert (default.attrs["ci_prob"], narrow.attrs["ci_prob"]) == (0.9, 0.5)
    assert len(bx.to_pandas(narrow)) == 2
    with pytest.raises(ValueError, match="ci_prob is 2"):
        ask(ci_prob=2, **QUIET)


def test_draws_give_the_intervals_that_a_dataset_does_not_have():
    found = bx.attributions(COUNTS, THETA, X[:2], seed=1, **QUIET)
    drawn = found["attribution"].values[0]
    ends = interval_of(found, "attribution", 0.9).transpose("ci_bound", "obs", "feature")
    np.testing.assert_allclose(ends, np.quantile(drawn, [0.05, 0.95], axis=0))
