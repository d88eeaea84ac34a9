"""The compiled sweeps of trees: they use charts of spans instead of a hypergraph, and memory quadratic in the sentence.

The specification is the generic engine (`inference/hypergraphs/sweeps.py`) on the hypergraphs of `ProjectiveTree` and
`ConstituencyTree`: the charts group edges into local problems exactly as these do, so they are equal to rounding. The
sweeps are in csrc/trees/. Hard, Shannon and SquaredNorm are compiled.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax.kernels.structures.omega import Omega
from omegamax.kernels.structures.sparsemap import CompiledOracle, OracleKind
from omegamax.kernels.structures.structure_kernel import launch

OMEGAS = frozenset({Omega.HARD, Omega.SHANNON, Omega.SQUARED_NORM})
_SLACK = 16  # numbers behind each row of a chart, as in csrc/trees/charts.hpp


@dataclass(frozen=True, eq=False)
class ChartSweeps:
    """The three sweeps of one kind of tree. Scores are (batch, size, size) or (batch, size, size, labels)."""

    name: str  # of the native entries
    n_charts: int  # arrays (size, size + slack) per item that the value leaves
    n_visits: int  # and that the marginals leave
    reads_scores: bool  # whether the later sweeps read the scores again
    kind: OracleKind

    def value(self, scores: Tensor, lengths: Tensor, *, option: int, omega: Omega) -> tuple[Tensor, Tensor]:
        """Computes DP_Ω (batch,), and the charts. `option` is single_root, or the number of labels."""
        charts, value = self._room(scores, self.n_charts), scores.new_empty(scores.shape[0])
        self._launch("value", scores, (scores, lengths), (option, omega), (charts, value))
        return value, charts

    def marginals(
        self, scores: Tensor, lengths: Tensor, charts: Tensor, *, option: int, omega: Omega
    ) -> tuple[Tensor, Tensor]:
        """Computes ∇ DP_Ω, shaped as the scores, and the visits of nodes."""
        visits, marginals = self._room(scores, self.n_visits), torch.empty_like(scores)
        again = (scores,) if self.reads_scores else ()
        self._launch("marginals", scores, (*again, lengths, charts), (option, omega), (visits, marginals))
        return marginals, visits

    def tangent(
        self,
        scores: Tensor,
        lengths: Tensor,
        charts: Tensor,
        visits: Tensor,
        direction: Tensor,
        *,
        option: int,
        omega: Omega,
    ) -> Tensor:
        """Computes ∇² DP_Ω · direction, shaped as the scores."""
        product = torch.empty_like(scores)
        again = (scores,) if self.reads_scores else ()
        self._launch("tangent", scores, (*again, lengths, charts, visits, direction), (option, omega), (product,))
        return product

    def oracle(self, size: int, lengths: Tensor, *, option: int) -> CompiledOracle:
        """Returns the same chart under the hard maximum, as an oracle for SparseMAP."""
        sizes = [size, option, self.n_charts, self.n_visits, _SLACK]
        return CompiledOracle(self.kind, sizes, [lengths.long().contiguous()])

    def _room(self, scores: Tensor, n_arrays: int) -> Tensor:
        size = scores.shape[1]
        return scores.new_empty(scores.shape[0], n_arrays, size, size + _SLACK)

    def _launch(
        self,
        sweep: str,
        scores: Tensor,
        known: tuple[Tensor, ...],
        settings: tuple[int, Omega],
        results: tuple[Tensor, ...],
    ) -> None:
        n_items, size = scores.shape[:2]
        entry = f"{self.name}_{sweep}"
        itemsize = scores.element_size()
        launch(entry, *known, size, *settings, *results, itemsize=itemsize, n_items=n_items, cost=size**3)


PROJECTIVE = ChartSweeps("projective", 10, 4, False, OracleKind.PROJECTIVE)
CONSTITUENCY = ChartSweeps("constituency", 5, 1, True, OracleKind.CONSTITUENCY)
