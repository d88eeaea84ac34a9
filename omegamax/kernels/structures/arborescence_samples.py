"""Random arborescences: loop-erased walks (Wilson 1996), and one head after the other where those take too long.

csrc/arborescences/wilson.hpp explains why the two together are exact. The reference draws the same numbers.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from omegamax.kernels.structures.matrix_tree import arc_probabilities, log_sum_of_trees
from omegamax.kernels.structures.structure_kernel import launch, structure_kernel

_MASK = (1 << 64) - 1


@structure_kernel
def random_heads(
    scores: Tensor, lengths: Tensor, sums: Tensor, roots: Tensor, seeds: Tensor, *, max_steps: int
) -> Tensor:
    """Draws heads (samples, N + 1) of random trees, int64 on the CPU; sample s is of item s modulo the batch.

    `sums` (batch, N + 1, N + 1) float64 holds, per modifier, the cumulative weights of its heads. `roots` (samples,) is
    the node in which the walks of a sample end; −1 where there is no tree, for which all heads are −1. A sample that
    walks more than `max_steps` draws its heads one after the other instead.
    """
    batch, size = scores.shape[:2]
    heads = torch.empty(len(roots), size, dtype=torch.int64)
    numbers = scores.detach().double().cpu()
    for sample, (root, seed) in enumerate(zip(roots.tolist(), seeds.tolist())):
        item = sample % batch
        heads[sample] = _random_tree(numbers[item], sums[item].numpy(), int(lengths[item]), root, seed, max_steps)
    return heads


@random_heads.twin
def _(scores: Tensor, lengths: Tensor, sums: Tensor, roots: Tensor, seeds: Tensor, *, max_steps: int) -> Tensor:
    scores, lengths = scores.contiguous(), lengths.contiguous()
    batch, size = scores.shape[:2]
    heads = torch.empty(len(roots), size, dtype=torch.int64)
    launch(
        "arborescence_sample",
        scores,
        lengths,
        sums,
        roots,
        seeds,
        size,
        batch,
        max_steps,
        heads,
        itemsize=scores.element_size(),
        n_items=len(roots),
        cost=32 * size,
    )
    return heads


def _random_tree(scores: Tensor, sums: np.ndarray, n: int, root: int, seed: int, max_steps: int) -> Tensor:
    heads = [-1] * scores.shape[0]
    if root >= 0:
        stream = _Stream(seed)
        found = _walk(sums, n, root, max_steps, stream)
        heads[: n + 1] = _draw_in_turn(scores, n, root, stream) if found is None else found
    return torch.tensor(heads)


class _Stream:
    """Random numbers from a seed (splitmix64)."""

    def __init__(self, seed: int) -> None:
        self.state = seed & _MASK

    def uniform(self) -> float:
        """Draws a number in [0, 1)."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & _MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return ((z ^ (z >> 31)) >> 11) * 2.0**-53


def _place_of(sums: np.ndarray, level: float) -> int:
    """Returns the first place where the sums exceed `level` of their total: never one of weight zero."""
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
    """Draws each head from its distribution given those before; the nodes are renumbered, the root first."""
    names = [root, *(m for m in range(1, n + 1) if m != root)]
    heads = [-1] * (n + 1)
    levels = [stream.uniform() for _ in names[1:]]
    graph = scores[names][:, names].unsqueeze(0)
    lengths = torch.tensor([len(names) - 1])
    for word, level in enumerate(levels, 1):
        value = log_sum_of_trees(graph, lengths, single_root=False)
        p = arc_probabilities(graph, lengths, value, single_root=False)
        head = _place_of(p[0, :, word].cumsum(0).numpy(), level)
        heads[names[word]] = names[head]
        graph = graph.clone()
        graph[0, [h for h in range(len(names)) if h != head], word] = -torch.inf
    return heads
