"""How a structure is chosen: sweeps of a dynamic program, k-best, random walks, counting. Works on hypergraphs."""
