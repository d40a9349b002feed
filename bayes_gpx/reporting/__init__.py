"""Reports: one HTML file with the explanations of a model."""
