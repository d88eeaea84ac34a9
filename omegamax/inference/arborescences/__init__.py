"""Non-projective trees: the best one, sums over all of them, random ones."""
