"""Reads the sparse weights of `sparse_attention_with_weights`; only what is drawn becomes dense."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from omegamax.attention.sparse_attention_output import SparseAttentionOutput


def one_map(who: str, given: Any) -> Any:
    """Returns the sparse weights (Q, K) of an output with one item and one head; anything else is returned unchanged.

    Arguments:
        who: the name that speaks in the error
        given: what is to be drawn
    """
    if not isinstance(given, SparseAttentionOutput):
        return given
    if math.prod(given.output.shape[:-2]) != 1:
        raise ValueError(
            f"{who}: weights must be those of one item and one head, got {tuple(given.output.shape[:-2])} of them; "
            "pick one, as in found.head(0, 1)"
        )
    return given.weights


def all_heads(who: str, given: SparseAttentionOutput) -> list[Tensor]:
    """Returns the sparse weights (Q, K) of each head of one item.

    Arguments:
        who: the name that speaks in the error
        given: what is to be drawn
    """
    shape = given.output.shape
    n_heads = shape[-3] if len(shape) > 2 else 1
    if math.prod(shape[:-2]) != n_heads:
        raise ValueError(
            f"{who}: weights must be those of one item, got batch axes {tuple(shape[:-3])}; attend for one item at a "
            "time"
        )
    if len(shape) == 2:
        return [given.head()]
    return [given.head(*(0,) * (len(shape) - 3), head) for head in range(n_heads)]


def support_sizes(weights: Tensor) -> Tensor:
    """Counts the weights above zero of each row of a sparse CSR matrix that has any."""
    above = torch.nn.functional.pad((weights.values() > 0).cumsum(0), (1, 0))
    counts = above[weights.crow_indices()].diff()
    return counts[counts > 0]


def heaviest_of_blocks(weights: Tensor, size: tuple[int, int]) -> Tensor:
    """Returns the largest weight of each block of a sparse CSR matrix, as `adaptive_max_pool2d` does of a dense one.

    Arguments:
        weights: sparse CSR, (Q, K)
        size: how many blocks there are, down and across
    """
    counts = weights.crow_indices().diff()
    row = torch.repeat_interleave(torch.arange(len(counts)), counts)
    values = weights.values().double()
    found = torch.zeros(size, dtype=torch.float64)
    for down, in_row in _blocks_around(row, weights.shape[0], size[0]):
        for across, in_column in _blocks_around(weights.col_indices().long(), weights.shape[1], size[1]):
            inside = in_row & in_column
            place = (down * size[1] + across)[inside]
            found.view(-1).scatter_reduce_(0, place, values[inside], "amax")
    return found


def _blocks_around(place: Tensor, length: int, n_blocks: int) -> list[tuple[Tensor, Tensor]]:
    """Returns the blocks that may hold each place, and whether they do; neighbouring blocks overlap by one place."""
    blocks = []
    for step in (-1, 0, 1):
        block = place * n_blocks // length + step
        first, end = block * length // n_blocks, -((-(block + 1) * length) // n_blocks)
        blocks.append((block, (block >= 0) & (block < n_blocks) & (first <= place) & (place < end)))
    return blocks
