"""Numerical tools without Gaussian processes: linear algebra, quadrature, compilation."""
