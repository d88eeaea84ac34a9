"""Turns tokens into vectors: one matrix E for both ends of a model, and positions.

    x = √d E token + PE,      logits = E h
    PE(pos, 2i) = sin(pos / 10000^(2i/d)),      PE(pos, 2i + 1) = cos(pos / 10000^(2i/d))

Attention ignores order, so positions are added to the vectors: as sines and cosines, or as a table that is learned.
Vaswani et al., "Attention is all you need", NeurIPS 2017, sections 3.4 and 3.5; Press & Wolf, EACL 2017.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn


class TiedEmbedding(nn.Embedding):
    """One matrix E for vectors and logits. Entries have variance 1/d, so that √d E x has that of the positions."""

    def __init__(self, vocabulary_size: int, size: int) -> None:
        super().__init__(vocabulary_size, size)
        nn.init.normal_(self.weight, std=size**-0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        """Looks up vectors (..., N, size) of tokens (..., N)."""
        return super().forward(tokens) * math.sqrt(self.embedding_dim)

    def logits(self, output: Tensor) -> Tensor:
        """Computes logits (..., N, vocabulary) of the next tokens."""
        return nn.functional.linear(output, self.weight)


class Positions(nn.Module, ABC):
    """Adds an encoding of their positions to vectors `x` (..., N, size); the first one stands at `start`."""

    @abstractmethod
    def forward(self, x: Tensor, *, start: int = 0) -> Tensor:
        """Returns vectors with their positions added; the first one stands at `start`."""


class SinusoidalPositions(Positions):
    """Adds sines and cosines of geometrically growing wavelengths, from 2π to `wavelength` · 2π; it has no parameters.

    A shift by k positions is a rotation, the same everywhere: what a head learns at one distance holds at any place.

    >>> SinusoidalPositions()(torch.zeros(2, 4))
    tensor([[0.0000, 1.0000, 0.0000, 1.0000],
            [0.8415, 0.5403, 0.0100, 0.9999]])
    """

    def __init__(self, wavelength: float = 10000.0) -> None:
        super().__init__()
        self.wavelength = wavelength

    def forward(self, x: Tensor, *, start: int = 0) -> Tensor:
        """Computes in float64, because float32 has no accurate sine of an angle of many thousands."""
        n, size = x.shape[-2:]
        even = torch.arange(0, size, 2, device=x.device).double()
        position = torch.arange(start, start + n, device=x.device).double()
        angle = position.unsqueeze(-1) / self.wavelength ** (even / max(1, size))
        waves = torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)  # (N, size), or one more where size is odd
        return x + waves[:, :size].to(x.dtype)

    def extra_repr(self) -> str:
        return "" if self.wavelength == 10000.0 else f"wavelength={self.wavelength}"


class LearnedPositions(Positions):
    """Adds a learned vector for each of the first `max_length` positions.

    Arguments:
        max_length: how many positions there are
        size: features of a position
    """

    def __init__(self, max_length: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_length, size))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, x: Tensor, *, start: int = 0) -> Tensor:
        stop = start + x.shape[-2]
        if stop > len(self.weight):
            raise ValueError(
                f"LearnedPositions: there are {len(self.weight)} positions, got a sequence that ends at {stop}; make "
                "max_length larger, or use SinusoidalPositions, which have no end"
            )
        return x + self.weight[start:stop].to(x.dtype)

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, {self.weight.shape[1]}"
