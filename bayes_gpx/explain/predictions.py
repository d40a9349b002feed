"""Predictions: the function's value, and a new response."""

from bayes_gpx import questions
from bayes_gpx.arguments import points
from bayes_gpx.draws import explain


def predictions(model, idata, X_new=None, Z_new=None, *, obs=None, **options):
    """Posterior of f(x) and of a response y at each observation.

    Parameters
    ----------
    model : GP or GPX
    idata : xarray.DataTree or dict
        What ``model.fit`` returned, or a dict of fixed hyperparameters on the model's scale.
    X_new, Z_new : frame or array (m, d), (m, p), optional
        New samples, with fresh `eps_w` in GPX; None for the training samples themselves, with
        their own. Z_new is needed where the model was given Z.
    obs : label or list of labels, optional
        Only these observations.
    **options
        draws, num_draws, covariance, joint, keep, path, seed, progressbar: see
        `bayes_gpx.draws.explain`.

    Returns
    -------
    xarray.Dataset
        `f` and `y` (chain, draw, obs), one draw for each hyperparameter draw; `f_mean`,
        `f_sd`, `y_mean`, `y_sd` (obs), exact moments of the mixture over hyperparameter
        draws; `value` (obs, feature). In units of y.

    Raises
    ------
    ValueError
        If new samples lack columns or hold anything but finite numbers, or if `idata` belongs
        to another model.

    References
    ----------
    Yoshikawa and Iwata, IEEE TNNLS 34 (2023), equation 14 for GPX.
    """
    return explain(
        model, idata, questions.value(model), points(model, X_new, Z_new, obs=obs), **options
    )
