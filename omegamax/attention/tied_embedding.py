"""One matrix E for tokens at both ends: vectors √d E x on the way in, logits E h on the way out.

Vaswani et al., "Attention is all you need", NeurIPS 2017, section 3.4; Press & Wolf, EACL 2017.
"""

from __future__ import annotations

import math

from torch import Tensor, nn


class TiedEmbedding(nn.Embedding):
    """Entries of variance 1/d: after the factor √d the vectors have that of the positions, and logits stay moderate."""

    def __init__(self, vocabulary_size: int, size: int) -> None:
        super().__init__(vocabulary_size, size)
        nn.init.normal_(self.weight, std=size**-0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        """Vectors (..., N, size) of tokens (..., N)."""
        return super().forward(tokens) * math.sqrt(self.embedding_dim)

    def logits(self, output: Tensor) -> Tensor:
        """Scores (..., N, vocabulary) of the next tokens."""
        return nn.functional.linear(output, self.weight)
