"""Covariance functions as values and derivatives that are exact at equal points too."""
