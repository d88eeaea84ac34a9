"""THE TABLE of structures; one file of rows per kind."""

from structure_cases import (
    alignments,
    chains,
    ctc,
    factor_graphs,
    graphs,
    matchings,
    non_projective,
    polytopes,
    subsets,
    trees,
)
from structure_cases.case import OracleCase as OracleCase
from structure_cases.case import StructureCase as StructureCase
from structure_cases.case import like as like
from structure_cases.case import parts_of as parts_of

CASES = [
    *chains.CASES,
    *alignments.CASES,
    *ctc.CASES,
    *trees.CASES,
    *graphs.CASES,
    *subsets.CASES,
    *factor_graphs.CASES,
]
# Searched by a MAP oracle, not by a dynamic program.
ORACLE_CASES: list[OracleCase] = [
    *non_projective.CASES,
    *matchings.CASES,
    *polytopes.CASES,
    *factor_graphs.ORACLE_CASES,
]
