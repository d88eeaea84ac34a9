"""What may turn scores into weights: a smoothed maximum, or a layer that holds one with learnable parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from omegamax.modules import ArgmaxModule
from omegamax.operators.scaled import Scaled
from omegamax.smoothmax import SmoothMax
from omegamax.structures.smoothed import Smoothed
from omegamax.structures.sparsemap import SparseMAP


class NormalizerModule(nn.Module, ABC):
    """A normalizer with parameters of its own: scores (..., Q, K) and a mask to weights of the same shape."""

    event_ndim: ClassVar[int] = 1  # 1 where the weights of a row depend on its scores alone, 2 on the whole matrix
    makes_distributions: ClassVar[bool] = True  # every row sums to one

    @abstractmethod
    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        """Weights; True in mask marks what may receive weight."""


Normalizer = SmoothMax | ArgmaxModule | NormalizerModule


def check_normalizer(who: str, normalizer: Any) -> None:
    """A SmoothMax of one or two event axes, or a layer along the last axis."""
    if isinstance(normalizer, ArgmaxModule):
        if normalizer.dim != -1:
            raise ValueError(
                f"{who}: normalizer must act along dim=-1, the keys, got dim={normalizer.dim}; leave it out"
            )
        return
    if isinstance(normalizer, NormalizerModule):
        return
    if not isinstance(normalizer, SmoothMax):
        kind = f"the class {normalizer.__name__}" if isinstance(normalizer, type) else type(normalizer).__name__
        raise TypeError(
            f"{who}: normalizer must be a regularizer, a structured SmoothMax or a layer such as om.Entmax(), got "
            f"{kind}; use for example om.SquaredNorm()"
        )
    if normalizer.event_ndim > 2:
        raise ValueError(
            f"{who}: normalizer must act on rows or on a (queries, keys) matrix, got {type(normalizer).__name__} over "
            f"{normalizer.event_ndim} axes; wrap it so that it takes a matrix of scores and gives one of weights"
        )


def makes_distributions(normalizer: Normalizer) -> bool:
    """Whether every row of weights sums to one, as those of structures need not."""
    if isinstance(normalizer, NormalizerModule):
        return normalizer.makes_distributions
    if isinstance(normalizer, Scaled):
        return makes_distributions(normalizer.inner)
    return not isinstance(normalizer, (Smoothed, SparseMAP))


def normalize(normalizer: Normalizer, scores: Tensor, mask: Tensor | None) -> Tensor:
    """Weights with the shape of scores (..., Q, K): of each row, or of the whole matrix where the event has two."""
    if scores.numel() == 0:  # no keys, no queries or no items, which structures refuse
        return scores
    if isinstance(normalizer, nn.Module):
        return normalizer(scores, mask)
    if normalizer.event_ndim == 2 and mask is not None:
        mask = mask.expand(torch.broadcast_shapes(mask.shape, scores.shape))
    return normalizer.argmax(scores, mask=mask)
