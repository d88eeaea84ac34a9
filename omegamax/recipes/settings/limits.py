"""The largest values of settings that several tasks share."""

MAX_LENGTH = 10_000  # tokens of an output: one that never ends still takes seconds, not days
MAX_BEAM = 1000
