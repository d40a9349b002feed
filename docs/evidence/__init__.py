"""Evidence for the errata of docs/errata.md, one file per paper; bayes_gpx is not imported."""
