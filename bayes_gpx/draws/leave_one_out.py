"""Log densities of the training response, for comparing models."""

import numpy as np
import xarray as xr

from bayes_gpx.draws.evaluate import scalars


def _left_out(draw):
    found = draw.strategy.leave_one_out(draw.given)
    return [found.evidence, found.terms]


def log_likelihood(model, idata, *, num_draws=None, progressbar=True):
    """Leave-one-out predictive log densities, and the log marginal likelihood, of y.

    The observations of a Gaussian process are correlated, so the terms that `arviz.loo`
    needs are ``log p(y_i | y_-i, theta)``, in closed form for each hyperparameter draw theta. With
    an approximation they are those of the approximate process, with inducing points plus the
    variance that these leave; the log marginal likelihood is then Titsias' lower bound on it. Where
    noise is not normal both are Laplace's, each observation taken out at the mode, or the
    variational bound's; where latent values were sampled, ``log p(y_i | f_-i, theta)``, which is
    integrated over f_i given the other latent values, and ``log p(y | f)``.

    Parameters
    ----------
    model : GP or GPX
    idata : xarray.DataTree or dict
        A fit by "laplace" or "nuts"; or a dict of fixed hyperparameters.
    num_draws : int, optional
        Thin the hyperparameter draws evenly to at most this many.
    progressbar : bool

    Returns
    -------
    xarray.Dataset
        `log_likelihood` (chain, draw, obs) and `log_marginal_likelihood` (chain, draw), of y
        in user units.

    Raises
    ------
    ValueError
        If `idata` holds a single draw, as from MAP: importance weights need a posterior.

    References
    ----------
    Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006), equations 5.10
    to 5.12; Vehtari et al., "Bayesian leave-one-out cross-validation approximations for Gaussian
    latent variable models" (2016), section 3.3.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.linspace(0.0, 3.0, 20)[:, None]
    >>> model = bx.GP(X, np.sin(X[:, 0]), scale=False)
    >>> theta = {"lengthscale": [1.0], "amplitude": 1.0, "sigma": 0.01}
    >>> found = bx.log_likelihood(model, theta, progressbar=False)
    >>> found["log_likelihood"].dims
    ('chain', 'draw', 'obs')
    """
    if not isinstance(idata, dict) and "posterior" in getattr(idata, "children", {}):
        if idata["posterior"].sizes["chain"] * idata["posterior"].sizes["draw"] == 1:
            raise ValueError(
                "idata holds one draw, as from fit('map'), but leave-one-out comparison needs "
                "draws of the posterior. Fit with method='laplace' or method='nuts'."
            )
    (logp, terms), hyper, jitter = scalars(
        model, idata, _left_out, num_draws=num_draws, progressbar=progressbar
    )
    log_scale = np.log(model.training.y_scaling.scale) if model.training.scales_y else 0.0
    lead = ("chain", "draw")
    return xr.Dataset(
        {
            "log_likelihood": ((*lead, "obs"), terms - log_scale),
            "log_marginal_likelihood": (lead, logp - model.training.n * log_scale),
        },
        coords={"chain": hyper.chain, "draw": hyper.draw, "obs": model.training.X.index},
        attrs={"relative_jitter": jitter, "units": f"log density of {model.training.y_name}"},
    )
