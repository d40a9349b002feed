"""Labels and counts that are hard to fit: a clear answer or a clear error, and no NaN."""

import numpy as np
import pytest

import bayes_gpx as bx
from bayes_gpx.inference import optimise
from bayes_gpx.inference.diagnostics import ConvergenceWarning
from bayes_gpx.inference.log_density import Density

RNG = np.random.default_rng(31)
QUIET = {"progressbar": False}
X = np.concatenate([RNG.uniform(-2, -0.5, 20), RNG.uniform(0.5, 2, 20)])[:, None]
APART = np.where(X[:, 0] > 0, "right", "left")


@pytest.mark.parametrize("link", ["logit", pytest.param("probit", marks=pytest.mark.slow)])
def test_separable_labels_have_bounded_probabilities(link):
    """Their likelihood alone has no maximum; the prior of the amplitude holds it."""
    model = bx.GP(X, APART, likelihood="bernoulli", link=link)
    idata = model.fit("map", **QUIET)
    posterior = idata["posterior"].to_dataset()
    assert all(np.isfinite(v).all() for v in posterior.data_vars.values())
    found = bx.predictions(model, idata, np.array([[-1.2], [0.0], [1.2]]), draws=50, **QUIET)
    left, middle, right = found["probability_mean"].values
    assert 0 < left < 0.15 and 0.3 < middle < 0.7 and 0.85 < right < 1
    shares = bx.attributions(model, idata, X[:3], draws=20, **QUIET)
    assert (
        np.isfinite(shares["attribution"]).all() and np.isfinite(shares["attribution_mean"]).all()
    )


@pytest.mark.parametrize("amplitude", [30.0, 1e4])
def test_separable_labels_under_a_huge_prior(amplitude):
    model = bx.GP(X, APART, likelihood="bernoulli", scale=False)
    theta = {"lengthscale": [1.0], "amplitude": amplitude}
    found = bx.log_likelihood(model, theta, **QUIET)
    assert np.isfinite(found["log_marginal_likelihood"]).all()
    assert (found["log_likelihood"] <= 0).all()
    new = np.array([[-1.2], [1.2]])
    p = bx.predictions(model, theta, new, draws=20, **QUIET)["probability_mean"].values
    assert 0 <= p[0] <= 0.5 <= p[1] + 0.01 <= 1.01
    slopes = bx.derivatives(model, theta, new, draws=20, **QUIET)
    assert np.isfinite(slopes["derivative_mean"]).all()


def test_one_label_alone_is_refused():
    with pytest.raises(ValueError, match="left"):
        bx.GP(X, np.repeat("left", 40), likelihood="bernoulli")


@pytest.mark.parametrize("likelihood", ["poisson", "negative_binomial"])
def test_counts_that_are_none(likelihood):
    counts = RNG.poisson(3, size=40).astype(float)
    for bad, said in ((counts + 0.5, "fractional"), (counts - 9, "negative|below 0")):
        with pytest.raises(ValueError, match=said):
            bx.GP(X, bad, likelihood=likelihood)
    with pytest.raises(ValueError, match="0 everywhere.*scale=False"):
        bx.GP(X, 0 * counts, likelihood=likelihood)


@pytest.mark.parametrize(
    ("likelihood", "link"), [("poisson", "logit"), ("bernoulli", "log"), ("normal", "probit")]
)
def test_a_link_of_another_likelihood(likelihood, link):
    y = {"bernoulli": APART}.get(likelihood, RNG.poisson(3, size=40))
    with pytest.raises(ValueError, match=f"link is '{link}'; likelihood='{likelihood}' expects"):
        bx.GP(X, y, likelihood=likelihood, link=link)


def test_constant_counts():
    model = bx.GP(X, np.full(40, 7), likelihood="poisson")
    idata = model.fit("map", **QUIET)
    rate = bx.predictions(model, idata, X[:3], draws=20, **QUIET)["rate_mean"]
    assert np.all(np.abs(rate - 7) < 1)


def test_a_failed_optimiser_keeps_the_best_state_and_says_so(monkeypatch):
    """One that wanders off at last, after it was somewhere better."""
    model, whole, seen = bx.GP(X, APART, likelihood="bernoulli"), optimise.minimize, []
    density = Density(model.objective, jacobian=True)

    def wandering(objective, x0, **options):
        options["options"] |= {"maxfun": 4}
        result = whole(objective, x0, **options)
        seen.append(density.height(result.x))
        result.x = x0 + 3.0
        result.fun, result.jac = objective(result.x)
        result.success = False
        return result

    monkeypatch.setattr(optimise, "minimize", wandering)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        idata = model.fit("map", **QUIET)
    ends = idata["starts"]
    assert not ends["converged"].values[ends["log_density"].values.argmax()]
    assert idata["sample_stats"]["lp"].item() == pytest.approx(max(seen))
    monkeypatch.undo()
    found = bx.predictions(model, idata, X[:2], draws=10, **QUIET)
    assert np.isfinite(found["probability_mean"]).all()
