"""How data become a posterior: twelve strategies, each final, on rows or through coefficients.

On rows, the n latent values at the observations are conditioned on. Through coefficients, of basis
functions or of inducing values, there are M of them; see `bayes_gpx.posteriors.low_rank`.
"""
