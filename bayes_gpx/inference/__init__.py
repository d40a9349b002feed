"""From a `pymc.Model` to a DataTree of draws; knows no data and no verb."""
