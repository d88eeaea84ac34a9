"""Random arborescences: loop-erased walks (Wilson 1996), and one head after the other where those take too long.

The native sampler is in csrc/wilson.hpp, where it is explained why the two together are exact. The twin here draws the
same numbers.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from omegamax import routing
from omegamax.inference.matrix_tree import MatrixTreeProgram, allowed_arcs
from omegamax.inference.random_walk import draw

_MASK = (1 << 64) - 1


def max_steps(size: int) -> int:
    """How far a sample may walk: about as long as the other way takes."""
    return 4 * size * size


def sample_heads(
    program: MatrixTreeProgram, scores: Tensor, n_samples: int, generator: torch.Generator | None
) -> Tensor:
    """Heads (n_samples · batch, N + 1) of trees drawn with probability ∝ exp(score); −1 where there is none."""
    batch, size = scores.shape[:2]
    value, state = program.value((scores,))
    feasible = value > -torch.inf
    if program.single_root:  # its child comes first; then the walks end there
        (marginals,) = program.marginals((scores,), state).parts
        roots = draw(marginals[:, 0].repeat(n_samples, 1), generator)
    else:
        roots = torch.zeros(n_samples * batch, dtype=torch.int64, device=scores.device)
    roots = torch.where(feasible.repeat(n_samples), roots, -1)
    seeds = torch.randint(torch.iinfo(torch.int64).max, (n_samples * batch,), generator=generator, device=scores.device)
    levels = _cumulative(scores, program)
    heads = torch.empty(n_samples * batch, size, dtype=torch.int64)
    roots, seeds, own = roots.cpu().contiguous(), seeds.cpu().contiguous(), scores.contiguous()
    if routing.in_native_memory(own):
        lengths = program.lengths.contiguous()
        routing.native.arborescence_sample(
            own.element_size(),
            *(routing.address(tensor) for tensor in (own, lengths, levels, roots, seeds, heads)),
            size,
            batch,
            max_steps(size),
            n_samples * batch,
            32 * size,  # the cost of a sample
            torch.get_num_threads(),
        )
    else:
        numbers = own.detach().double().cpu()
        for sample, (root, seed) in enumerate(zip(roots.tolist(), seeds.tolist())):
            item = sample % batch
            n = int(program.lengths[item])
            heads[sample] = _twin(numbers[item], levels[item].numpy(), n, root, seed)
    if program.single_root:
        rows = (roots >= 0).nonzero().squeeze(1)
        heads[rows, roots[rows]] = 0
    return heads.to(scores.device)


def _cumulative(scores: Tensor, program: MatrixTreeProgram) -> Tensor:
    """Per modifier, the sums of the probabilities of its heads: (batch, N + 1, N + 1), [modifier, head]."""
    lengths = program.lengths.to(scores.device)
    level = torch.where(allowed_arcs(lengths, scores.shape[1]), scores.double(), -torch.inf)
    if program.single_root:
        level[:, 0] = -torch.inf
    top = level.amax(1, keepdim=True)
    weights = (level - torch.where(top == -torch.inf, 0, top)).exp()
    return weights.cumsum(1).transpose(1, 2).cpu().contiguous()


def _twin(scores: Tensor, sums: np.ndarray, n: int, root: int, seed: int) -> Tensor:
    heads = [-1] * scores.shape[0]
    if root >= 0:
        stream = _Stream(seed)
        found = _walk(sums, n, root, max_steps(len(heads)), stream)
        heads[: n + 1] = _draw_in_turn(scores, n, root, stream) if found is None else found
    return torch.tensor(heads)


class _Stream:
    """Random numbers from a seed (splitmix64)."""

    def __init__(self, seed: int) -> None:
        self.state = seed & _MASK

    def uniform(self) -> float:
        """In [0, 1)."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & _MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return ((z ^ (z >> 31)) >> 11) * 2.0**-53


def _place_of(sums: np.ndarray, level: float) -> int:
    """The first place where the sums exceed `level` of their total: never one that adds nothing."""
    return min(int(np.searchsorted(sums, level * sums[-1], side="right")), len(sums) - 1)


def _walk(sums: np.ndarray, n: int, root: int, steps: int, stream: _Stream) -> list[int] | None:
    heads, following = [-1] * (n + 1), [-1] * (n + 1)
    for start in range(1, n + 1):
        at = start
        while at != root and heads[at] < 0:
            if steps <= 0:
                return None
            steps -= 1
            following[at] = _place_of(sums[at, : n + 1], stream.uniform())
            at = following[at]
        at = start
        while at != root and heads[at] < 0:
            heads[at] = following[at]
            at = following[at]
    return heads


def _draw_in_turn(scores: Tensor, n: int, root: int, stream: _Stream) -> list[int]:
    """Each head from its distribution given those before; the nodes are numbered anew, the root first."""
    names = [root, *(m for m in range(1, n + 1) if m != root)]
    heads = [-1] * (n + 1)
    levels = [stream.uniform() for _ in names[1:]]
    graph = scores[names][:, names].unsqueeze(0)
    program = MatrixTreeProgram(False, torch.tensor([len(names) - 1]))
    for word, level in enumerate(levels, 1):
        (p,) = program.marginals((graph,), program.value((graph,))[1]).parts
        head = _place_of(p[0, :, word].cumsum(0).numpy(), level)
        heads[names[word]] = names[head]
        graph = graph.clone()
        graph[0, [h for h in range(len(names)) if h != head], word] = -torch.inf
    return heads
