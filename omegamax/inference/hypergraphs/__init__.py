"""Dynamic programs on hypergraphs: sweeps, the k best derivations, random walks, compiled programs."""
