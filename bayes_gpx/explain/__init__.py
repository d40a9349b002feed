"""The verbs: each takes a model and its idata and returns a Dataset."""

from bayes_gpx.explain.attributions import attributions
from bayes_gpx.explain.derivatives import derivatives, slopes
from bayes_gpx.explain.functions import RandomFunctions, sample_functions
from bayes_gpx.explain.log_likelihood import log_likelihood
from bayes_gpx.explain.predictions import predictions
from bayes_gpx.explain.weights import contributions, weights

__all__ = [
    "RandomFunctions",
    "attributions",
    "contributions",
    "derivatives",
    "log_likelihood",
    "predictions",
    "sample_functions",
    "slopes",
    "weights",
]
