"""Non-projective dependency trees: every word has a head, and following heads leads to the root (arborescences).

    potentials (..., N + 1, N + 1): [h, m] scores the arc from head h to modifier m; words are 1..N, 0 is the root

Column 0 and the diagonal are never read. A structure is 0/1 in the same shape, one arc per word; arcs may cross. With
a single root (the usual convention of treebanks) exactly one word depends on 0 and there are n^(n − 1) trees over n
words; otherwise any number of words may, and there are (n + 1)^(n − 1). No dynamic program sums over them. The best
tree is found as by Chu & Liu (1965) and Edmonds (1967) in O(n²), with a single root too (Gabow & Tarjan 1984; Zmigrod
et al., EMNLP 2020); sums over all trees as by the matrix-tree theorem (Koo et al., EMNLP 2007) in O(n³).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from omegamax.inference.arborescences.best_arborescence import BestArborescenceProgram
from omegamax.inference.arborescences.matrix_tree import MatrixTreeProgram
from omegamax.inference.arborescences.wilson import sample_heads
from omegamax.inference.program import Program
from omegamax.kernels.structures.sparsemap import CompiledOracle, OracleKind
from omegamax.operators.hard import Hard
from omegamax.operators.regularizer import Regularizer
from omegamax.operators.shannon import Shannon
from omegamax.smoothmax import SmoothMax
from omegamax.structures.dependency import DependencyTrees
from omegamax.structures.problem import Problem
from omegamax.structures.smoothing import count_samples

_SHANNON = Shannon()


@dataclass(frozen=True)
class Arborescence(DependencyTrees):
    """Dependency trees over N words whose arcs may cross. Under Shannon `argmax` gives the probabilities of arcs.

    Arguments:
        single_root: whether exactly one word depends on the root

    >>> tree = Arborescence(single_root=True)
    >>> arcs = torch.zeros(5, 5)
    >>> arcs[0, 2] = arcs[2, 4] = arcs[4, 1] = arcs[1, 3] = 1.0
    >>> tree.heads(tree.map(arcs))
    tensor([4, 0, 1, 2])
    """

    single_root: bool = True

    def program(self, problem: Problem, regularizer: Regularizer) -> Program:
        """Uses Chu-Liu/Edmonds for Hard and the matrix-tree theorem for Shannon.

        Another Ω has no recursion to smooth.
        """
        if isinstance(regularizer, Hard):
            return BestArborescenceProgram(self.single_root, problem.lengths[0])
        if isinstance(regularizer, Shannon):
            return MatrixTreeProgram(self.single_root, problem.lengths[0])
        raise ValueError(
            f"Arborescence: regularizer must be Shannon or Hard, got {type(regularizer).__name__}; non-projective "
            "trees have no recursion that another Ω could smooth: for sparse expected trees use sparsemap"
        )

    def oracle(self, problem: Problem) -> CompiledOracle | None:
        sizes = [problem.sizes[0][0], int(self.single_root)]
        return CompiledOracle(OracleKind.ARBORESCENCE, sizes, [problem.lengths[0].long().contiguous()])

    @torch.no_grad()
    def sample(
        self,
        potentials: Any,
        regularizer: SmoothMax | int = _SHANNON,
        *,
        n_samples: int | None = None,
        generator: torch.Generator | None = None,
        lengths: Any = None,
        mask: Any = None,
    ) -> Any:
        """Draws random trees (n_samples, *batch, N + 1, N + 1), 0/1, from the Gibbs distribution.

        Their mean is `argmax`.
        """
        regularizer, n_samples = count_samples("Arborescence.sample", regularizer, n_samples)
        problem = self._bind_shannon("sample", potentials, regularizer, lengths, mask)
        program = MatrixTreeProgram(self.single_root, problem.lengths[0])
        heads = sample_heads(program, problem.parts[0], n_samples, generator)
        arcs = self.from_heads(heads[:, 1:], dtype=problem.parts[0].dtype)
        marginals = program.marginals(problem.parts, program.value(problem.parts)[1]).parts[0]
        arcs = torch.where(marginals.isnan().repeat(n_samples, 1, 1), torch.nan, arcs)
        return problem.in_user_shape((arcs,), before=(n_samples,))
