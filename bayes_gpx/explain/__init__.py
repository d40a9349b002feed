"""Explanation functions: each takes a model and its idata and returns a Dataset."""

from bayes_gpx.draws.leave_one_out import log_likelihood
from bayes_gpx.explain.attributions import attributions
from bayes_gpx.explain.comparisons import comparisons
from bayes_gpx.explain.components import components
from bayes_gpx.explain.derivatives import derivatives
from bayes_gpx.explain.group_differences import group_differences
from bayes_gpx.explain.importances import importances
from bayes_gpx.explain.loo_predictions import loo_predictions
from bayes_gpx.explain.next_rows import next_rows
from bayes_gpx.explain.partial_dependence import partial_dependence
from bayes_gpx.explain.predictions import predictions
from bayes_gpx.explain.propensity import with_propensity
from bayes_gpx.explain.ranking import ranking
from bayes_gpx.explain.reasons import reasons
from bayes_gpx.explain.relevance import interactions, relevance
from bayes_gpx.explain.sample_functions import RandomFunctions, sample_functions
from bayes_gpx.explain.shapley_values import shapley_values
from bayes_gpx.explain.slopes import path_slopes, slopes
from bayes_gpx.explain.sobol import sobol_indices
from bayes_gpx.explain.treatment_effects import treatment_effects
from bayes_gpx.explain.weights import contributions, weights

__all__ = [
    "RandomFunctions",
    "attributions",
    "comparisons",
    "components",
    "contributions",
    "derivatives",
    "group_differences",
    "importances",
    "interactions",
    "log_likelihood",
    "loo_predictions",
    "next_rows",
    "partial_dependence",
    "path_slopes",
    "predictions",
    "ranking",
    "reasons",
    "relevance",
    "sample_functions",
    "shapley_values",
    "slopes",
    "sobol_indices",
    "treatment_effects",
    "weights",
    "with_propensity",
]
