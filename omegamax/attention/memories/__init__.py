"""Memories that attention reads and writes: Turing machines, DNCs, key-value memories, memory networks, Hopfield."""
