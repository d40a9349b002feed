"""Plots of explanations and predictions; they compute nothing and return a PlotCollection."""

from bayes_gpx.plots.attributions import plot_attributions, plot_contributions, plot_waterfall
from bayes_gpx.plots.beeswarm import plot_beeswarm
from bayes_gpx.plots.derivatives import plot_derivatives, plot_path, plot_slopes
from bayes_gpx.plots.effects import (
    plot_components,
    plot_dependence,
    plot_partial_dependence,
    plot_weights,
)
from bayes_gpx.plots.images import plot_heatmap, plot_image, plot_map
from bayes_gpx.plots.predictions import plot_comparisons, plot_predictions
from bayes_gpx.plots.relevance import (
    plot_importances,
    plot_interactions,
    plot_project,
    plot_relevance,
)

__all__ = [
    "plot_attributions",
    "plot_beeswarm",
    "plot_comparisons",
    "plot_components",
    "plot_contributions",
    "plot_dependence",
    "plot_derivatives",
    "plot_heatmap",
    "plot_image",
    "plot_importances",
    "plot_interactions",
    "plot_map",
    "plot_partial_dependence",
    "plot_path",
    "plot_predictions",
    "plot_project",
    "plot_relevance",
    "plot_slopes",
    "plot_waterfall",
    "plot_weights",
]
