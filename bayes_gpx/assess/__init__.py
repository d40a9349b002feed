"""Compare, calibrate and simplify models, and check explanations."""
