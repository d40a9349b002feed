"""Posteriors of posteriordb, coefficients that NIST certifies, and values of tinygp."""

import json
import os
from functools import cache
from pathlib import Path

import arviz as az
import numpy as np
import pymc as pm
import pytest
from numpy.polynomial import legendre

import bayes_gpx as bx
import nist
import tinygp_values

QUANTILES = {"q025": 0.025, "q05": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95}
QUANTILES["q975"] = 0.975
PRIORS = {"lengthscale": pm.Gamma.dist(25.0, beta=4.0), "amplitude": pm.HalfNormal.dist(2.0)}
QUIET = {"progressbar": False}


@cache
def reference(name):
    """Data, and moments and quantiles of each parameter from ten long chains of Stan."""
    folder = Path(os.environ["BAYES_GPX_DATA"]) / "posteriordb"
    found = json.loads((folder / f"{name}.json").read_text())
    return found["data"], found["parameters"]


def of_variance(name):
    """Stan's program calls the variance of the noise sigma."""
    return pm.Deterministic(name, pm.math.sqrt(pm.HalfNormal("variance", sigma=1.0)))


@cache
def regression():
    data, known = reference("gp_pois_regr-gp_regr")
    X = np.array(data["x"], float)[:, None]
    model = bx.GP(X, np.array(data["y"]), scale=False, priors=PRIORS | {"sigma": of_variance})
    return model, dict(zip(("lengthscale", "amplitude", "variance"), known.values(), strict=True))


@cache
def counts():
    data, known = reference("gp_pois_regr-gp_pois_regr")
    X = np.array(data["x"], float)[:, None]
    options = {"scale": False, "priors": PRIORS, "likelihood": "poisson"}
    f = [known[f"f[{i}]"] for i in range(1, len(X) + 1)]
    return bx.GP(X, np.array(data["k"]), **options), known, f


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
    model, _, f = counts()
    idata = model.fit("laplace", draws=300, seed=1, **QUIET)
    found = bx.predictions(model, idata, on="latent", keep="summary", **QUIET)
    apart = found["f_mean"] - [one["mean"] for one in f]
    assert (np.abs(apart) < 0.15 * np.array([one["sd"] for one in f])).all()


def agrees(draws, known):
    """Whether means agree within three joint Monte Carlo errors."""
    error = np.hypot(float(az.mcse(draws)), known["mcse_mean"])
    assert abs(float(draws.mean()) - known["mean"]) < 3 * error


@pytest.mark.data
@pytest.mark.slow
def test_nuts_of_a_regression_has_the_means_of_posteriordb():
    model, known = regression()
    idata = model.fit("nuts", draws=2000, seed=1, cores=1, **QUIET)
    for name, expected in known.items():
        agrees(idata["posterior"][name].squeeze(), expected)


@pytest.mark.data
@pytest.mark.slow
def test_sampled_functions_of_counts_have_the_means_of_posteriordb():
    model, known, f = counts()
    idata = model.fit("nuts", latent="sample", draws=2000, seed=1, cores=1, **QUIET)
    agrees(idata["posterior"]["lengthscale"].squeeze(), known["rho"])
    agrees(idata["posterior"]["amplitude"], known["alpha"])
    found = bx.predictions(model, idata, on="latent", **QUIET)["f"]
    for row, expected in enumerate(f):
        agrees(found.isel(obs=row), expected)


@pytest.mark.data
def test_a_linear_kernel_is_the_regression_of_kilpisjarvi():
    """Stan's sigma has a flat prior; draws by importance weights integrate over it."""
    data, known = reference("kilpisjarvi_mod-kilpisjarvi")
    x, y = np.array(data["x"], float)[:, None], np.array(data["y"])

    def line(d):
        level = pm.gp.cov.Constant(data["psalpha"] ** 2)
        return data["psbeta"] ** 2 * pm.gp.cov.Linear(d, c=0.0) + level

    options = {"scale": False, "resolution": 0.0, "priors": {"sigma": pm.Uniform.dist(0.0, 20.0)}}
    model = bx.GP(x, y - data["pmualpha"], kernel=line, **options)
    idata = model.fit("laplace", draws=4000, seed=1, **QUIET)
    agrees(idata["posterior"]["sigma"], known["sigma"])
    found = bx.derivatives(model, idata, obs=[0], **QUIET)["derivative"].isel(obs=0, feature=0)
    agrees(found, known["beta"])
    np.testing.assert_allclose(found.std(), known["beta"]["sd"], rtol=0.05)


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
