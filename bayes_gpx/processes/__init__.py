"""Prior processes, and the covariances of all linear operators on them."""
