"""How a fit became a Gaussian posterior over values: one file per kind."""

from bayes_gpx.posteriors.exact import exact
from bayes_gpx.posteriors.laplace import laplace
from bayes_gpx.posteriors.latent import latent
from bayes_gpx.posteriors.low_rank import basis, sparse

__all__ = ["basis", "exact", "laplace", "latent", "sparse"]
