"""Evidence for the errata, one file per paper; bayes_gpx is not imported."""
