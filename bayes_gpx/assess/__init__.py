"""What explanations and intervals are held to."""
