"""How a fit became a Gaussian posterior over values: one file per kind."""

from bayes_gpx.posteriors.exact import exact

__all__ = ["exact"]
