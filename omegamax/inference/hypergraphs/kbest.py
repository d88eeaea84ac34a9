"""The k best derivations of every item of a batch."""

from __future__ import annotations

from torch import Tensor

from omegamax.inference.hypergraphs.sweeps import inside
from omegamax.inference.hypergraphs.topology import Topology
from omegamax.kernels.structures.kbest import RankedDerivations, best_derivations
from omegamax.operators.hard import Hard


class Ranking:
    """Ranks the derivations of each item's goal. Scores are compared in float64."""

    def __init__(self, topology: Topology, scores: Tensor, goals: Tensor) -> None:
        self._topology = topology
        self._scores = scores.detach().double().cpu().contiguous()
        self._values = inside(topology, self._scores, Hard()).values
        self._tails = topology.tails.contiguous().numpy()
        self._first = topology.first_edges().numpy()
        self._goals = goals.tolist()

    @property
    def values(self) -> Tensor:
        """The best score of every node, (batch, nodes + 1)."""
        return self._values

    def top(self, item: int, k: int) -> RankedDerivations:
        """Finds the k best derivations of one item."""
        scores, values = self._scores[item].numpy(), self._values[item].numpy()
        n_leaves, goal = self._topology.n_leaves, self._goals[item]
        return best_derivations(self._tails, self._first, scores, values, n_leaves=n_leaves, goal=goal, k=k)
