"""Normalizers turn scores into weights: a smoothed maximum, or a layer that holds one with learnable parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from omegamax.attention.whole_sequence import check_whole_sequence
from omegamax.modules import ArgmaxModule
from omegamax.smoothmax import SmoothMax
from omegamax.wrong_kinds import instead_of, kind_of


class NormalizerModule(nn.Module, ABC):
    """A normalizer with parameters of its own: it maps scores (..., Q, K) and a mask to weights of the same shape."""

    event_ndim: ClassVar[int] = 1  # 1 where the weights of a row depend on its scores alone, 2 on the whole matrix
    rows_sum_to_one: ClassVar[bool] = True  # every row sums to one

    @abstractmethod
    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        """Turns scores into weights; True in mask marks what may receive weight."""


Normalizer = SmoothMax | ArgmaxModule | NormalizerModule


def check_normalizer(who: str, normalizer: Any) -> None:
    """Raises unless the normalizer is a SmoothMax of one or two event axes, or a layer along the last axis.

    Arguments:
        who: the name at the beginning of the error
        normalizer: what was given
    """
    if isinstance(normalizer, ArgmaxModule):
        if normalizer.dim != -1:
            raise ValueError(
                f"{who}: normalizer must act along dim=-1, the keys, got dim={normalizer.dim}; leave it out"
            )
        return
    if isinstance(normalizer, NormalizerModule):
        return
    if not isinstance(normalizer, SmoothMax):
        raise TypeError(
            f"{who}: normalizer must be a regularizer, a structured SmoothMax or a layer such as om.Entmax(), got "
            f"{kind_of(normalizer)}; {instead_of(normalizer, 'om.SquaredNorm()')}"
        )
    if normalizer.event_ndim > 2:
        raise ValueError(
            f"{who}: normalizer must act on rows or on a (queries, keys) matrix, got {type(normalizer).__name__} over "
            f"{normalizer.event_ndim} axes; wrap it so that it takes a matrix of scores and gives one of weights"
        )


def normalize(normalizer: Normalizer, scores: Tensor, mask: Tensor | None) -> Tensor:
    """Turns scores (..., Q, K) into weights: row by row, or the whole matrix if the normalizer has two event axes.

    Arguments:
        normalizer: what turns scores into weights: a regularizer, a structured SmoothMax or a layer such as `Entmax()`
        scores: (..., Q, K)
        mask: boolean, broadcasts to the scores; True means "may receive weight"
    """
    check_whole_sequence("omegamax.attention")
    if scores.numel() == 0:  # no keys, no queries or no items, which structures refuse
        return scores
    if isinstance(normalizer, nn.Module):
        return normalizer(scores, mask)
    if normalizer.event_ndim == 2 and mask is not None:
        mask = mask.expand(torch.broadcast_shapes(mask.shape, scores.shape))
    return normalizer.argmax(scores, mask=mask)
