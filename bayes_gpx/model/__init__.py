"""Data, kernel and likelihood become a plain `pymc.Model`; fitted, saved and loaded."""
