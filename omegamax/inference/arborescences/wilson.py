"""Random arborescences, drawn by Wilson's algorithm (`kernels/structures/arborescence_samples.py`)."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax.inference.arborescences.matrix_tree import MatrixTreeProgram
from omegamax.inference.hypergraphs.random_walk import draw
from omegamax.kernels.structures.arborescence_samples import random_heads
from omegamax.kernels.structures.host import to_host
from omegamax.kernels.structures.matrix_tree import allowed_arcs


def max_steps(size: int) -> int:
    """Returns how many steps a sample may walk: about as many as drawing one head after the other costs."""
    return 4 * size * size


def sample_heads(
    program: MatrixTreeProgram, scores: Tensor, n_samples: int, generator: torch.Generator | None
) -> Tensor:
    """Draws heads (n_samples · batch, N + 1) of trees with probability ∝ exp(score); −1 where an item has no tree."""
    batch, size = scores.shape[:2]
    value, state = program.value((scores,))
    feasible = value > -torch.inf
    if program.single_root:  # the child of the root is drawn first, and the walks end in it
        (marginals,) = program.marginals((scores,), state).parts
        roots = draw(marginals[:, 0].repeat(n_samples, 1), generator)
    else:
        roots = torch.zeros(n_samples * batch, dtype=torch.int64, device=scores.device)
    roots = torch.where(feasible.repeat(n_samples), roots, -1)
    seeds = torch.randint(torch.iinfo(torch.int64).max, (n_samples * batch,), generator=generator, device=scores.device)
    # Each walk goes where its numbers lead, so the host walks: scores in one copy, integers in another.
    host, sums = (each.contiguous() for each in to_host(scores, _cumulative(scores, program)))
    roots, seeds = (each.contiguous() for each in to_host(roots, seeds))
    heads = random_heads(host, program.lengths, sums, roots, seeds, max_steps=max_steps(size))
    if program.single_root:
        rows = (roots >= 0).nonzero().squeeze(1)
        heads[rows, roots[rows]] = 0
    return heads.to(scores.device)


def _cumulative(scores: Tensor, program: MatrixTreeProgram) -> Tensor:
    """Returns, per modifier, the cumulative weights of its heads: (batch, N + 1, N + 1), [modifier, head]."""
    lengths = program.lengths.to(scores.device)
    level = torch.where(allowed_arcs(lengths, scores.shape[1]), scores.double(), -torch.inf)
    if program.single_root:
        level[:, 0] = -torch.inf
    top = level.amax(1, keepdim=True)
    weights = (level - torch.where(top == -torch.inf, 0, top)).exp()
    return weights.cumsum(1).transpose(1, 2)
