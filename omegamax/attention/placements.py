"""Where a Transformer's layer normalization stands: around each residual sum, or inside it.

PostNorm   x ← norm(x + f(x))        Vaswani et al., NeurIPS 2017
PreNorm    x ← x + f(norm(x))        Xiong et al., "On layer normalization in the Transformer architecture", ICML 2020
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor, nn


class NormPlacement(ABC):
    """Two moments of a residual block; a norm acts at one of them."""

    final: bool  # whether a stack of layers ends in one more norm

    @abstractmethod
    def before(self, norm: nn.Module, x: Tensor) -> Tensor:
        """What the block f sees of x."""

    @abstractmethod
    def after(self, norm: nn.Module, x: Tensor) -> Tensor:
        """What becomes of x + f(...)."""


@dataclass(frozen=True)
class PostNorm(NormPlacement):
    """norm(x + f(x)), as in the paper. `final=True` adds a norm at the end, as `torch.nn.Transformer` does."""

    final: bool = False

    def before(self, norm: nn.Module, x: Tensor) -> Tensor:
        """As it is."""
        return x

    def after(self, norm: nn.Module, x: Tensor) -> Tensor:
        """Normalized."""
        return norm(x)


@dataclass(frozen=True)
class PreNorm(NormPlacement):
    """x + f(norm(x)): nothing stands on the way of the gradient, so the sum needs one norm at the end.

    Arguments:
        final: whether there is a norm after the last layer
    """

    final: bool = True

    def before(self, norm: nn.Module, x: Tensor) -> Tensor:
        """Normalized."""
        return norm(x)

    def after(self, norm: nn.Module, x: Tensor) -> Tensor:
        """As it is."""
        return x
