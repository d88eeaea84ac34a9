"""Data from outside: safe files, printable text, readers of formats, vocabularies, batches, and generated data.

Nothing here knows of models or of training. `omegamax.data.tsv` reads tables, `omegamax.data.dates` generates dates.
"""
