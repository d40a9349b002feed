"""Evidence for the errata of docs/errata.md, one file for each paper; no import of bayes_gpx."""
