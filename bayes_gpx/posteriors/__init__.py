"""How a fit became a Gaussian posterior over values: one file per kind."""

from bayes_gpx.posteriors.exact import exact
from bayes_gpx.posteriors.laplace import laplace

__all__ = ["exact", "laplace"]
