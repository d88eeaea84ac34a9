"""LP-SparseMAP and LP-MAP on factor graphs: alternating directions over local problems."""
