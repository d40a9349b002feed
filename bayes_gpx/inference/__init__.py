"""Inference from a `pymc.Model` to a DataTree of draws, independent of data and explanations."""
