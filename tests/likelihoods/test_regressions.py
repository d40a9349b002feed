"""Linear kernels with a wide prior: the coefficients of statsmodels' regressions."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit

import bayes_gpx as bx

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(17)
X = pd.DataFrame(RNG.normal(size=(120, 2)), columns=["dose", "age"])
WITH_ONES = X.assign(intercept=1.0)
F = 0.6 + 0.5 * X["dose"] - 0.4 * X["age"]
TRIALS = RNG.integers(1, 9, 120)


def of_gamma():
    import statsmodels.api as sm

    y = np.random.default_rng(17).gamma(3.0, np.exp(F) / 3.0)
    fit = sm.GLM(y, WITH_ONES, family=sm.families.Gamma(sm.families.links.Log())).fit(tol=1e-12)
    observed = WITH_ONES.T @ WITH_ONES.mul(y / fit.fittedvalues / fit.scale, axis=0)
    errors = pd.Series(np.sqrt(np.diag(np.linalg.inv(observed))))  # theirs have the expected one
    return y, fit.params, errors, {"shape": 1.0 / fit.scale}, {}


def of_binomial():
    import statsmodels.api as sm

    y = np.random.default_rng(17).binomial(TRIALS, expit(F))
    both = np.column_stack([y, TRIALS - y])
    fit = sm.GLM(both, WITH_ONES, family=sm.families.Binomial()).fit(tol=1e-12)
    return y, fit.params, fit.bse, {}, {"trials": TRIALS}


def of_beta():
    from statsmodels.othermod.betareg import BetaModel

    y = np.random.default_rng(17).beta(12.0 * expit(F), 12.0 * expit(-F))
    fit = BetaModel(y, WITH_ONES).fit(disp=0, maxiter=500)
    return y, fit.params[:3], fit.bse[:3], {"precision": np.exp(fit.params.iloc[3])}, {}


def of_negative_binomial():
    from statsmodels.discrete.discrete_model import NegativeBinomial

    y = np.random.default_rng(17).negative_binomial(2.0, 2.0 / (2.0 + np.exp(F)))
    fit = NegativeBinomial(y, WITH_ONES).fit(disp=0, method="bfgs", gtol=1e-9, maxiter=500)
    return y, fit.params[:3], fit.bse[:3], {"dispersion": 1.0 / fit.params.iloc[3]}, {}


REGRESSIONS = {
    "gamma": of_gamma,
    "binomial": of_binomial,
    "beta": of_beta,
    "negative_binomial": of_negative_binomial,
}


@pytest.mark.parametrize("name", REGRESSIONS)
def test_a_linear_kernel_gives_coefficients_of_statsmodels(name):
    """With the dispersion that statsmodels found."""
    y, coefficients, errors, held, more = REGRESSIONS[name]()
    priors = {"amplitude": 1e4, **held}
    options = {"kernel": "linear", "likelihood": name, "scale": False, "priors": priors}
    model = bx.GP(WITH_ONES, pd.Series(y, name="y"), **options, **more)
    found = bx.derivatives(model, {}, obs=[0], on="latent", keep="summary", progressbar=False)
    off = (found["derivative_mean"].values[0] - coefficients.to_numpy())[:2]
    assert np.abs(off / errors.to_numpy()[:2]).max() < 1e-4
    # Those of statsmodels include the error of the dispersion.
    assert_allclose(found["derivative_sd"].values[0, :2], errors[:2], rtol=0.05)


def of_ordered():
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    y = np.digitize(F + np.random.default_rng(17).logistic(size=120), [-0.5, 0.5, 1.5])
    fit = OrderedModel(y, X, distr="logit").fit(method="bfgs", disp=0, gtol=1e-9)
    return y, fit.params.iloc[:2], fit.bse.iloc[:2]


@pytest.mark.parametrize("name", ["gamma", "beta", "negative_binomial", "ordinal"])
def test_estimated_dispersions_hardly_change_the_coefficients(name):
    """A fit learns the dispersion, or the cutpoints, from its prior and the marginal likelihood.

    Those of statsmodels have the highest likelihood, given the coefficients.
    """
    given = of_ordered() if name == "ordinal" else REGRESSIONS[name]()
    y, coefficients, errors = given[:3]
    table = X if name == "ordinal" else WITH_ONES  # cutpoints are intercepts
    priors = {"amplitude": 1e3}
    options = {"kernel": "linear", "likelihood": name, "scale": False, "priors": priors}
    model = bx.GP(table, pd.Series(y, name="y"), **options)
    idata = model.fit("map", seed=1, progressbar=False)
    found = bx.derivatives(model, idata, obs=[0], on="latent", keep="summary", progressbar=False)
    off = found["derivative_mean"].values[0, :2] - coefficients.to_numpy()[:2]
    assert np.abs(off / errors.to_numpy()[:2]).max() < 0.1


@pytest.mark.filterwarnings("ignore::FutureWarning:statsmodels")
@pytest.mark.parametrize("amplitude", [100.0, 1000.0])
def test_a_linear_kernel_gives_coefficients_of_a_multinomial_regression(amplitude):
    """Log odds of two classes are differences of their f; conjugate gradients alone fail here."""
    import statsmodels.api as sm

    odds = np.column_stack([np.zeros(120), F, -X["age"]])
    y = (odds + np.random.default_rng(17).gumbel(size=(120, 3))).argmax(axis=1)
    fit = sm.MNLogit(y, WITH_ONES).fit(disp=0, method="newton", tol=1e-12)
    options = {"kernel": "linear", "scale": False, "priors": {"amplitude": amplitude}}
    model = bx.GP(WITH_ONES, np.array(["a", "b", "c"])[y], likelihood="categorical", **options)
    found = bx.derivatives(model, {}, obs=[0], on="latent", keep="summary", progressbar=False)
    slopes = found["derivative_mean"].transpose("obs", "feature", "class").values[0]
    assert found.attrs["relative_jitter"] == 0.0
    off = (slopes[:, 1:] - slopes[:, :1] - fit.params.to_numpy())[:2]
    assert np.abs(off / fit.bse.to_numpy()[:2]).max() < 1e-4 * (1000.0 / amplitude)
