"""How data become a posterior: each strategy joins a geometry, and how sites of rows are found.

Geometries are all rows (`on_rows`), shared coefficients (`through_coefficients`) and those of
groups (`by_group`). Normal noise gives the sites; others are found by Newton's steps (`laplace`),
expectation propagation (`propagation`) or natural gradients (`variational`). Latent values may be
sampled instead.
"""
