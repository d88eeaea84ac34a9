"""Projective dependency trees: every word has a head, and no two arcs cross (Eisner's algorithm).

    potentials (..., N + 1, N + 1): [h, m] scores the arc from head h to modifier m; words are 1..N, 0 is the root

Column 0 and the diagonal are never read. A structure is 0/1 in the same shape, one arc per word. With a single root
(the usual convention of treebanks) exactly one word depends on 0 and there are C(3n − 2, n − 1) / n trees over n words;
otherwise any number of words may, and there are C(3n, n) / (2n + 1). The recursion runs bottom up; R[s, t] is s with
modifiers to its right that cover s..t, L[s, t] is t with modifiers to its left, both complete; B is both halves under
an arc that joins s and t, whichever of them is the head:

    B[s, t] = max_Ω over s ≤ k < t of (R[s, k] + L[k + 1, t])              R[s, s] = L[s, s] = 0
    R[s, t] = max_Ω over s < k ≤ t of (θ[s, k] + B[s, k] + R[k, t])
    L[s, t] = max_Ω over s ≤ k < t of (L[s, k] + B[k, t] + θ[t, k])

and the value is R[0, n]; where the root is single, B[0, k] is L[1, k] alone. Each tree has one derivation. Ties go to
the lowest k. Eisner, COLING 1996; Mensch & Blondel, ICML 2018.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from omegamax.inference.hypergraphs.lattice import Lattice
from omegamax.inference.hypergraphs.topology import Topology
from omegamax.inference.hypergraphs.tree_program import tree_program
from omegamax.inference.program import Program
from omegamax.kernels.structures.omega import Omega
from omegamax.kernels.structures.sparsemap import CompiledOracle
from omegamax.kernels.structures.trees import OMEGAS, PROJECTIVE
from omegamax.structures.dependency import DependencyTrees
from omegamax.structures.dynamic_program import DynamicProgram
from omegamax.structures.problem import Problem, Sizes


@dataclass(frozen=True)
class ProjectiveTree(DependencyTrees, DynamicProgram):
    """Projective dependency trees over N words. Under Shannon `argmax` gives the probabilities of arcs.

    Arguments:
        single_root: whether exactly one word depends on the root

    >>> tree = ProjectiveTree(single_root=True)
    >>> arcs = torch.zeros(4, 4)
    >>> arcs[0, 2] = arcs[2, 1] = arcs[2, 3] = 1.0
    >>> tree.heads(tree.map(arcs))
    tensor([2, 0, 2])
    """

    single_root: bool = True

    compiled_omegas = OMEGAS

    def build(self, sizes: Sizes) -> Lattice:
        """Node 0 is the leaf; then R, then L, then B of every s < t, each by s and then t."""
        size = sizes[0][0]
        place = np.arange(size)
        first, last = np.nonzero(place[:, None] < place)
        right = np.zeros((size, size), dtype=np.int64)  # where s = t: the leaf
        right[first, last] = 1 + np.arange(len(first))
        left, both = right + len(first), right + 2 * len(first)
        left[place, place] = 0
        levels = np.concatenate([[0], *([2 * (last - first) + more for more in (1, 1, 0)])])

        s, t, step = np.nonzero(
            (place[:, None, None] < place[:, None]) & (place < place[:, None] - place[:, None, None])
        )
        before, after = s + step, s + step + 1  # k of B and L, and of R
        root = s == 0
        under_arc = np.where(root & self.single_root, left[np.minimum(1, after), after], both[s, after])
        joined = ~root if self.single_root else np.ones_like(root)
        heads = np.concatenate([right[s, t], both[s, t][joined], left[s, t][~root]])
        tails = np.concatenate(
            [
                np.stack([under_arc, right[after, t]], 1),
                np.stack([right[s, before], left[after, t]], 1)[joined],
                np.stack([left[s, before], both[before, t]], 1)[~root],
            ]
        )
        parts = np.concatenate([s * size + after, np.full(joined.sum(), -1), (t * size + before)[~root]])
        topology = Topology.from_edges(levels, heads, tails, leaves=[0])
        return Lattice.from_parts(topology, [parts], [size * size])

    def goals(self, sizes: Sizes, lengths: tuple[Tensor, ...]) -> Tensor:
        """An item ends in R of (0, n), which is number n, because those of the root come first."""
        return lengths[0]

    def oracle(self, problem: Problem) -> CompiledOracle | None:
        return PROJECTIVE.oracle(problem.sizes[0][0], problem.lengths[0], option=int(self.single_root))

    def compiled_for(self, problem: Problem, omega: Omega) -> Program | None:
        option = int(self.single_root)
        return tree_program(PROJECTIVE, option, problem.parts, problem.lengths[0], omega)
