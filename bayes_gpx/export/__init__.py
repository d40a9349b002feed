"""Results as other packages' own types."""
