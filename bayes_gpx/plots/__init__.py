"""Plots of the verbs' results; each computes nothing and returns a PlotCollection."""

from bayes_gpx.plots.derivatives import plot_derivatives
from bayes_gpx.plots.shares import plot_attributions, plot_contributions
from bayes_gpx.plots.weights import plot_weights

__all__ = ["plot_attributions", "plot_contributions", "plot_derivatives", "plot_weights"]
