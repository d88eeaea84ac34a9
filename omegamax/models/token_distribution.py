"""How scores of all tokens become the distribution of the next one, and the loss that belongs to it.

    p = argmax_Ω(scores),      loss = max_Ω(scores) + Ω(y) − <scores, y>,      y = (1 − ε) e_token + ε uniform

Ω = Shannon gives softmax and cross entropy. SquaredNorm (sparsemax) and Tsallis(1.5) give most tokens probability zero
(Peters, Niculae & Martins, "Sparse sequence-to-sequence models", ACL 2019). ε is label smoothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax.losses.fenchel_young import FenchelYoungLoss
from omegamax.operators.shannon import Shannon
from omegamax.smoothmax import SmoothMax

_SHANNON = Shannon()


@dataclass(frozen=True)
class TokenDistribution:
    """The output of a decoder: probabilities from scores (..., V), and losses.

    Arguments:
        smooth: Ω
        label_smoothing: ε, the share of the target that training spreads over all tokens

    >>> TokenDistribution(SquaredNorm()).log_probs(torch.tensor([1.0, 0.5, -1.0])).exp()
    tensor([0.7500, 0.2500, 0.0000])
    """

    smooth: SmoothMax = _SHANNON
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(
                f"TokenDistribution: label_smoothing must lie in [0, 1), got {self.label_smoothing}; 0 switches it off"
            )

    def loss(self, scores: Tensor, tokens: Tensor) -> Tensor:
        """Computes the loss (N,), in float32 at least, of scores (N, V) where the tokens (N,) are right."""
        loss = FenchelYoungLoss(self.smooth, reduction="none", label_smoothing=self.label_smoothing)
        return loss(scores.to(torch.promote_types(scores.dtype, torch.float32)), tokens)

    def log_probs(self, scores: Tensor) -> Tensor:
        """Computes log-probabilities of scores (..., V), -inf for tokens of probability zero."""
        return scores.log_softmax(-1) if isinstance(self.smooth, Shannon) else self.smooth.argmax(scores).log()

    def log_likelihood(self, scores: Tensor, tokens: Tensor) -> Tensor:
        """Computes the log-probability (...) that scores (..., V) give to tokens (...)."""
        return self.log_probs(scores).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)


def of_written(values: Tensor, written: Tensor) -> Tensor:
    """Puts the values (N,) of the tokens that are there into a matrix (B, T) with zeros elsewhere.

    `written` (B, T) is boolean and has N entries that are True.
    """
    return torch.zeros_like(written, dtype=values.dtype).masked_scatter(written, values)
