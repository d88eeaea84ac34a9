"""How a structure is chosen: `Program` is the interface, and each room below holds one kind of algorithm."""
