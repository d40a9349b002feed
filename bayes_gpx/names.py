"""Names from other packages and misspellings, with the names here, for unknown attributes."""

import difflib
from importlib import import_module

FUNCTIONS = {
    "predict": "predictions(model, idata, X_new)",
    "predict_proba": "predictions(model, idata, X_new)",
    "forecast": "predictions(model, idata, X_new)",
    "posterior_predictive": "sample_posterior_predictive(model, idata)",
    "sample_posterior": "sample_functions(model, idata)",
    "explain": "attributions(model, idata, X_new)",
    "integrated_gradients": "attributions(model, idata, X_new)",
    "shap": "shapley_values(model, idata, X_new)",
    "shap_values": "shapley_values(model, idata, X_new)",
    "feature_importances": "importances(model, idata)",
    "feature_importance": "importances(model, idata)",
    "gradients": "derivatives(model, idata, X_new)",
    "marginal_effects": "slopes(model, idata)",
    "coefficients": "weights(model, idata)",
    "loo": "loo_predictions(model, idata)",
    "pdp": "partial_dependence(model, idata)",
    "plot": "plot_predictions(bx.predictions(model, idata))",
    "fit": "GP(X, y).fit()",
    "sample": "GP(X, y).fit('nuts')",
    "gaussianprocessregressor": "GP(X, y)",
    "gpr": "GP(X, y)",
}
"""Functions of the package by names that are used elsewhere, in lower case."""

CALLS = {
    "bayes_gpx.explain": "(model, idata)",
    "bayes_gpx.plots": "(dataset)",
    "ranking": "(bx.relevance(model, idata))",
}
"""Arguments of a function, or of the functions of a subpackage."""


def no_attribute(owner: str, name: str) -> AttributeError:
    """The error of an unknown name, with the function of the package that was meant.

    Examples
    --------
    >>> no_attribute("'GP' object", "predict")
    AttributeError("'GP' object has no attribute 'predict'. Did you mean \
bx.predictions(model, idata, X_new)?")
    """
    if name.startswith("_"):
        return AttributeError(f"{owner} has no attribute {name!r}")
    targets = import_module("bayes_gpx")._MAP
    said = name.lower()
    public = {known.lower(): known for known in targets}
    near = difflib.get_close_matches(said, public, 1, cutoff=0.75)
    call = FUNCTIONS.get(said)
    if call is None:
        known = next(
            (own for own in (said, f"{said}s", f"plot_{said}", *near) if own in public), ""
        )
        module = targets[public[known]].partition(":")[0] if known else ""
        call = known and public[known] + CALLS.get(known, CALLS.get(module, ""))
    hint = f". Did you mean bx.{call}?" if call else ""
    return AttributeError(f"{owner} has no attribute {name!r}{hint}")
