"""Numerical tools that know no Gaussian process: linear algebra, quadrature, compilation."""
