"""Log densities of the response with all but hyperparameters integrated out, as Ops."""
