"""Non-projective trees: programs for the best one and for sums over all of them, and random ones."""
