"""Linear start: the first part of training runs without the normalizer (Sukhbaatar et al., NIPS 2015)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from omegamax import checks
from omegamax.attention.normalizers import Normalizer, NormalizerModule, check_normalizer, normalize
from omegamax.module_repr import shown


class LinearStart(NormalizerModule):
    """A normalizer that lets scores through as they are until training has shown it a number of rows.

        argmax_p  <p, θ> − ½ ‖p‖²  = θ        first, over all p: no simplex
        argmax_Ω(θ)                           then, and always outside of training

    A memory network whose attention is linear at the beginning finds the facts it needs more often: attention that is
    almost one-hot too early gets no gradient for the sentences that it leaves out. The number of rows left is a buffer,
    so that a checkpoint continues where it was.

    Arguments:
        normalizer: what follows: a regularizer, a structured SmoothMax or a layer such as `Entmax()`
        n_rows: rows of scores, over all calls in training, that stay linear
    """

    rows_sum_to_one: ClassVar[bool] = False  # not while it is linear
    rows_left: Tensor

    def __init__(self, normalizer: Normalizer, n_rows: int) -> None:
        super().__init__()
        check_normalizer("LinearStart", normalizer)
        checks.check_count("LinearStart", "n_rows", n_rows)
        self.normalizer = normalizer
        self.register_buffer("rows_left", torch.tensor(n_rows))

    def extra_repr(self) -> str:
        return shown(normalizer=self.normalizer, rows_left=int(self.rows_left))

    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        """Returns the scores, zero where the mask is False, while rows are left; then weights.

        Arguments:
            scores: (..., Q, K)
            mask: boolean, broadcasts to the scores; True means "may receive weight"
        """
        if not self.training or int(self.rows_left) <= 0:
            return normalize(self.normalizer, scores, mask)
        self.rows_left -= scores[..., 0].numel() if scores.shape[-1] else 0
        return scores if mask is None else torch.where(mask, scores, 0)
