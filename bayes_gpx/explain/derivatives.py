"""Derivatives: how the function changes with each feature, point by point."""

from bayes_gpx.arguments import points
from bayes_gpx.draws import explain
from bayes_gpx.operators import gradient
from bayes_gpx.quantities import Quantity, features_along


def _gradient(s):
    return gradient(s.X_new, s.Z_new)


def _tied_gradient(s):
    return gradient(s.X_new, features_along(s), tied=True)


def derivatives(model, idata, X_new=None, Z_new=None, *, obs=None, **options):
    """Posterior of the derivative of f in each feature, at each observation.

    Parameters
    ----------
    model : GP or GPX
        In a GPX the derivative is that of the smooth part z' g(x): in X's features with z held
        where Z was given, else with z = x changing too.
    idata : xarray.DataTree or dict
        What ``model.fit`` returned, or a dict of fixed hyperparameters on the model's scale.
    X_new, Z_new : frame or array (m, d), (m, p), optional
        New samples; None for the training samples.
    obs : label or list of labels, optional
        Only these observations.
    **options
        draws, num_draws, features, covariance, joint, keep, path, seed, progressbar: see
        `bayes_gpx.draws.explain`.

    Returns
    -------
    xarray.Dataset
        `derivative` (chain, draw, obs, feature), `derivative_mean`, `derivative_sd`
        (obs, feature), `derivative_cov` (obs, feature, feature_bis) with ``covariance=True``;
        `value`. In units of y per unit of x.

    Raises
    ------
    ValueError
        If the kernel's process is not differentiable (such as a Matern 1/2), or if samples or
        idata do not fit the model.

    References
    ----------
    Seitz, "Gradient-based explanations for Gaussian process regression and classification
    models" (2022), equations 9 to 12.
    """
    training = model.training
    quantity = Quantity(
        name="derivative",
        operator=_tied_gradient if training.tied else _gradient,
        components=training.X.columns,
        factor=training.y_scaling.scale / training.X_scaling.scale,
        units=f"{training.y_name} per unit of the feature",
        samples=SMOOTH,
    )
    return explain(model, idata, quantity, points(model, X_new, Z_new, obs=obs), **options)


SMOOTH = "of the smooth function, without eps_w"
