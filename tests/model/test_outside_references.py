"""Posteriors of posteriordb, coefficients that NIST certifies, and values of tinygp."""

import json
from functools import cache

import numpy as np
import pytest
from numpy.polynomial import legendre

import bayes_gpx as bx
import nist
import posteriordb
import tinygp_values

QUANTILES = {"q025": 0.025, "q05": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95}
QUANTILES["q975"] = 0.975
QUIET = {"progressbar": False}


regression, counts = cache(posteriordb.regression), cache(posteriordb.counts)


def marginals(model, ranges, nodes):
    """Cumulative distribution functions by Gauss-Legendre quadrature of the log density.

    They are integrals of the Legendre series through the marginal density at the nodes.
    """
    logp = model.pymc.compile_logp(jacobian=False)
    at, weights = legendre.leggauss(nodes)
    axes = {k: low + (high - low) * (at + 1) / 2 for k, (low, high) in ranges.items()}
    values = np.empty([nodes] * len(axes))
    for place in np.ndindex(values.shape):
        point = {
            variable.name: np.full(variable.type.shape, np.log(axes[name][i]))
            for (name, i), variable in zip(
                zip(axes, place, strict=True), model.pymc.value_vars, strict=True
            )
        }
        values[place] = logp(point)
    density = np.exp(values - values.max())
    for axis, (name, (low, high)) in enumerate(ranges.items()):
        others = [a for a in range(values.ndim) if a != axis]
        marginal = np.moveaxis(density, axis, 0)
        for _ in others:
            marginal = marginal @ weights
        series = np.polynomial.Legendre.fit(at, marginal, nodes - 1, domain=[-1, 1])
        integral = series.integ(lbnd=-1.0)
        yield name, lambda x, f=integral, a=low, b=high: f(2 * (x - a) / (b - a) - 1) / f(1.0)


@pytest.mark.data
def test_the_density_of_a_regression_has_the_quantiles_of_posteriordb():
    """Within three Monte Carlo errors of the share of 10,000 draws below each of them."""
    model, known = regression()
    ranges = {"lengthscale": (2.0, 14.0), "amplitude": (0.3, 9.0), "variance": (0.1, 5.5)}
    for name, cdf in marginals(model, ranges, 20):
        for quantile, share in QUANTILES.items():
            error = np.sqrt(share * (1 - share) / known[name]["ess"])
            assert abs(cdf(known[name][quantile]) - share) < 3 * error


@pytest.mark.data
def test_laplace_of_counts_is_near_the_functions_of_posteriordb():
    model, known = counts()
    f = [value for name, value in known.items() if name.startswith("f[")]
    idata = model.fit("laplace", draws=300, seed=1, **QUIET)
    found = bx.predictions(model, idata, on="latent", keep="summary", **QUIET)
    apart = found["f_mean"] - [one["mean"] for one in f]
    assert (np.abs(apart) < 0.15 * np.array([one["sd"] for one in f])).all()


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:About this fit")
@pytest.mark.filterwarnings("ignore::bayes_gpx.ExtrapolationWarning")  # of the intercept
def test_nuts_samples_the_posteriors_of_posteriordb():
    """Errors of 57 quantities have the sizes that Monte Carlo says, and none is too large."""
    z = posteriordb.scores(draws=2000, seed=1)["z"]
    assert len(z) == 57 and np.abs(z).max() < 4.0
    assert 0.6 < np.sqrt(np.mean(z**2)) < 1.5


@pytest.mark.data
def test_a_linear_kernel_is_the_regression_of_kilpisjarvi():
    """Stan's sigma has a flat prior; draws by importance weights integrate over it."""
    model, known = posteriordb.line()
    idata = model.fit("laplace", draws=4000, seed=1, **QUIET)
    slope = bx.derivatives(model, idata, obs=[0], **QUIET)["derivative"].isel(obs=0, feature=0)
    for draws, name in ((idata["posterior"]["sigma"], "sigma"), (slope, "beta")):
        _, estimate, expected, *errors = next(posteriordb.compared(draws, known[name]))
        assert abs(float(estimate) - expected) < 3 * np.hypot(*map(float, errors))
    np.testing.assert_allclose(slope.std(), known["beta"]["sd"], rtol=0.05)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "correct"),
    [
        ("longley", 3.0),  # of coefficients that the file states to three digits
        ("noint1", 7.5),
        ("noint2", 6.5),
        ("norris", 5.0),
        ("pontius", 3.0),
        ("wampler1", 5.5),
        ("wampler2", 9.5),
    ],
)
def test_slopes_have_the_digits_that_nist_certifies(name, correct):
    assert nist.by_slopes(name, 100.0) > correct


def test_digits_are_counted():
    assert nist.digits(np.array([1.0, 2.002]), np.array([1.0, 2.0])) == pytest.approx(3.0)


@pytest.mark.data
def test_filip_is_beyond_double_precision():
    """Its columns are dependent to rounding, for `lstsq` with its usual tolerance too."""
    assert nist.by_slopes("filip", 100.0) < 1.0 and nist.by_lstsq("filip") < 1.0


@pytest.mark.parametrize("kernel", tinygp_values.KERNELS)
def test_kernels_give_the_numbers_of_tinygp(kernel):
    """Their slopes and attributions by JAX and quadrature; ours in closed form."""
    X, y, new = tinygp_values.rows()
    theta = tinygp_values.THETA | tinygp_values.KERNELS[kernel]
    expected = json.loads(tinygp_values.STORED.read_text())[kernel]
    model = bx.GP(X, y, kernel=kernel, scale=False, priors=theta)
    found = {"log_likelihood": float(model.pymc.compile_logp()({}))}
    options = {"keep": "summary", **QUIET}
    for explained in (
        bx.predictions(model, {}, new, **options),
        bx.derivatives(model, {}, new, **options),
        bx.attributions(model, {}, new, baseline="zero", **options),
    ):
        found |= {name: explained[name].values for name in expected if name in explained}
    assert set(found) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-8, atol=1e-9, err_msg=name)
