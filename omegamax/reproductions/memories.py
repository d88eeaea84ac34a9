"""A memory beside a network: heads that are set by hand copy vectors, exactly or with blur."""

from __future__ import annotations

import torch
from torch import Tensor

import omegamax as om
from omegamax.attention.memories.addressing import circular_shift, erase_and_add, sharpen
from omegamax.reproductions.claim import Outcome, Published, near, shown
from omegamax.reproductions.numerical_checks import normal

_BITS, _SLOTS = 8, 128
_SCORES = torch.tensor([0.0, 0.0, 4.0], dtype=torch.float64)  # of a move back, of staying, of a move on


def tape(published: Published) -> Outcome:
    """Writes vectors to one slot after the other, goes back, reads; under sparsemax length makes no difference."""
    vectors = normal(int(published["NTM tested up to"]), _BITS).sign()
    rows = []
    for n_vectors in (int(published["NTM trained up to"]), len(vectors)):
        right, wrong = _copied(vectors[:n_vectors], om.sparsemax(_SCORES), 1.0)
        rows.append(near(f"{n_vectors} vectors, shifts by sparsemax: wrong bits", 0, wrong, 0))
        rows.append(near(f"{n_vectors} vectors, sparsemax: last weight on the right slot", 1, right, 0))
        for power in (1.0, 2.0):
            right, wrong = _copied(vectors[:n_vectors], om.softmax(_SCORES), power)
            name = f"{n_vectors} vectors, softmax of the same scores, sharpened to the power {power:g}"
            rows.append(shown(f"{name}: wrong bits of {n_vectors * _BITS}", str(wrong)))
            rows.append(shown(f"{name}: last weight on the right slot", f"{right:.4f}"))
    return Outcome(rows)


def _copied(vectors: Tensor, shifts: Tensor, power: float) -> tuple[float, int]:
    """Copies vectors (n, bits) of −1 and 1; returns the last weight on the right slot, and the number of wrong bits."""
    begin = torch.zeros(1, _SLOTS, dtype=vectors.dtype)
    begin[0, 0] = 1
    memory, erase = torch.zeros(_SLOTS, _BITS, dtype=vectors.dtype), torch.ones(1, _BITS, dtype=vectors.dtype)
    weights = begin
    for vector in vectors:
        memory = erase_and_add(memory, weights, erase, vector.unsqueeze(0))
        weights = sharpen(circular_shift(weights, shifts), power)
    weights, wrong, right = begin, 0, 1.0
    for slot, vector in enumerate(vectors):
        right = float(weights[0, slot])
        wrong += int(((weights @ memory).squeeze(0).sign() != vector).sum())
        weights = sharpen(circular_shift(weights, shifts), power)
    return right, wrong
