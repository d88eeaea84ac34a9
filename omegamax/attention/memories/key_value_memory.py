"""A memory of key-value pairs that is read several times: what was read changes the next question.

    p = argmax_Ω(score(q, key)),     o = Σ_i p_i value_i,     q ← R_j (q + o)          for hops j = 1 ... H

Miller et al., "Key-value memory networks for directly reading documents", EMNLP 2016.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from omegamax import checks
from omegamax.attention.attention import Attention
from omegamax.attention.normalizers import Normalizer
from omegamax.attention.scores import DotProduct, Score
from omegamax.module_repr import shown
from omegamax.operators.shannon import Shannon

_SHANNON = Shannon()


class KeyValueMemoryOutput(NamedTuple):
    """The question after the last hop, and the weights of every hop."""

    output: Tensor  # (..., Q, size), the question after the last hop
    weights: Tensor  # (..., hops, Q, K)


class KeyValueMemory(nn.Module):
    """Reads pairs in several hops: questions (..., Q, size), keys (..., K, size) and values (..., K, size).

    R_j are learned matrices, identities at first. Masks are those of `Attention`.

    Arguments:
        size: features of questions, keys and values
        n_hops: how often the memory is read
        score: how questions meet keys; None is the dot product
        normalizer: what turns scores into weights: a regularizer, a structured SmoothMax or a layer such as `Entmax()`
    """

    def __init__(
        self, size: int, *, n_hops: int = 1, score: Score | None = None, normalizer: Normalizer = _SHANNON
    ) -> None:
        super().__init__()
        checks.check_count("KeyValueMemory", "n_hops", n_hops)
        self.attention = Attention(DotProduct() if score is None else score, normalizer=normalizer)
        self.update = nn.ModuleList(nn.Linear(size, size, bias=False) for _ in range(n_hops))
        for layer in self.update:
            nn.init.eye_(layer.weight)  # type: ignore[arg-type]

    def extra_repr(self) -> str:
        return shown(n_hops=len(self.update))

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor | None = None, lengths: Tensor | None = None
    ) -> KeyValueMemoryOutput:
        """Returns the question after all hops, and the weights of each hop.

        Arguments:
            query: (..., Q, size)
            key: (..., K, size)
            value: (..., K, size)
            mask: boolean, broadcasts to (..., Q, K); True means "may attend"
            lengths: how many pairs each item has
        """
        seen = []
        for update in self.update:
            found, weights = self.attention(query, key, value, mask=mask, lengths=lengths)
            query = update(query + found)
            seen.append(weights)
        return KeyValueMemoryOutput(query, torch.stack(seen, -3))
