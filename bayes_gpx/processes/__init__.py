"""Prior processes, and the covariances of everything that is asked of them."""
