"""Plots of the verbs' results; each computes nothing and returns a PlotCollection."""

from bayes_gpx.plots.shares import plot_attributions, plot_contributions
from bayes_gpx.plots.weights import plot_weights

__all__ = ["plot_attributions", "plot_contributions", "plot_weights"]
