"""Labels of arcs: each arc of a dependency tree chooses one of L, independently of the others."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax import functional


def best_labels(scores: Tensor) -> Tensor:
    """Returns the best label of every arc, 0/1 as `scores` (..., N, N, L); ties go to the lowest."""
    return functional.hardmax(scores.detach())


def draw_labels(arcs: Tensor, scores: Tensor) -> Tensor:
    """Draws a label for every arc (n, batch, N, N) that is there; returns (n, batch, N, N, L)."""
    chances = functional.softmax(scores.detach()).expand(*arcs.shape, scores.shape[-1])
    used = arcs > 0.5
    found = torch.zeros_like(chances)
    rows = chances[used]
    if len(rows):
        label = torch.multinomial(rows, 1).squeeze(-1)
        found[used] = torch.nn.functional.one_hot(label, scores.shape[-1]).to(scores.dtype)
    return found


def label_lists(trees: Tensor, values: Tensor, scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Finds the k best labelled trees among the labellings of `trees` (batch, k, N, N), whose best ones score `values`.

    Returns 0/1 trees (batch, k, N, N, L) and their scores (batch, k), −inf where there are fewer.
    """
    n_labels = scores.shape[-1]
    structures = scores.new_zeros(len(trees), k, *scores.shape[1:])
    best = scores.new_full((len(trees), k), -torch.inf)
    for item in range(len(trees)):
        totals, labelled = [], []
        for tree, value in zip(trees[item], values[item]):
            if value == -torch.inf:
                continue
            heads, modifiers = (tree > 0.5).nonzero(as_tuple=True)
            score, labels = _best_sums(scores[item, heads, modifiers], k)
            hot = torch.nn.functional.one_hot(labels, n_labels).to(scores.dtype)
            found = scores.new_zeros(len(score), *scores.shape[1:])
            found[:, heads, modifiers] = hot
            totals.append(score)
            labelled.append(found)
        if totals:
            ranked = torch.cat(totals).sort(descending=True, stable=True)
            kept = (ranked.values > -torch.inf).nonzero().squeeze(-1)[:k]
            best[item, : len(kept)] = ranked.values[kept]
            structures[item, : len(kept)] = torch.cat(labelled)[ranked.indices[kept]]
    return structures, best


def _best_sums(choices: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Finds the k best sums of one number per row of (n, L); returns sums (found,) and columns (found, n)."""
    sums, columns = choices.new_zeros(1), torch.zeros(1, 0, dtype=torch.long, device=choices.device)
    for row in choices:
        together = (sums.unsqueeze(-1) + row).flatten()
        sums, place = together.topk(min(k, len(together)))
        before, label = place // len(row), place % len(row)
        columns = torch.cat([columns[before], label.unsqueeze(-1)], -1)
    return sums, columns
