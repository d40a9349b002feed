"""Tables in: features, responses and real data sets, checked, scaled and named."""
