"""Data from outside: safe files, printable text, readers of formats, vocabularies, batches, and generated data.

Nothing here depends on models or on training. `omegamax.data.tsv` reads tables, `omegamax.data.dates` generates dates.
"""
