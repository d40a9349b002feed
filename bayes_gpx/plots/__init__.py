"""Plots of the verbs' results; each computes nothing and returns a PlotCollection."""

from bayes_gpx.plots.contributions import plot_contributions
from bayes_gpx.plots.weights import plot_weights

__all__ = ["plot_contributions", "plot_weights"]
