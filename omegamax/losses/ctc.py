"""CTC as a module: `torch.nn.CTCLoss` for any Ω."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from omegamax.losses.reduction import check_reduction
from omegamax.module_repr import shown
from omegamax.smoothmax import SmoothMax
from omegamax.structures.ctc import ctc_loss
from omegamax.structures.smoothing import smoothing_of


class CTCLoss(nn.Module):
    """Minus DP_Ω over the alignments of each target; constructed and called as `torch.nn.CTCLoss`.

    Under Shannon (the default) it has PyTorch's values, and PyTorch's gradients through `log_softmax`. Takes
    log-probabilities (T, N, C) or (T, C), targets padded (N, S) or concatenated, lengths as tensors, lists or tuples.

    Arguments:
        blank: which class is the blank
        reduction: "mean" (over target lengths first), "sum" or "none"
        zero_infinity: whether a target that does not fit costs 0 instead of inf
        regularizer: Ω of the recursion; None is Shannon

    >>> log_probs = torch.zeros(4, 1, 3).log_softmax(-1)
    >>> CTCLoss()(log_probs, torch.tensor([[1, 2]]), (4,), (2,))
    tensor(0.8432)
    """

    def __init__(
        self,
        blank: int = 0,
        reduction: str = "mean",
        zero_infinity: bool = False,
        *,
        regularizer: SmoothMax | None = None,
    ) -> None:
        super().__init__()
        check_reduction("CTCLoss", reduction)
        if regularizer is not None:
            smoothing_of("CTCLoss", regularizer)
        self.blank, self.reduction, self.zero_infinity = blank, reduction, zero_infinity
        self.regularizer = regularizer

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        """Computes the loss of frames against targets.

        Arguments:
            log_probs: (T, batch, classes) or (T, classes)
            targets: (batch, S), or concatenated
            input_lengths: how many frames each item has
            target_lengths: how many labels each target has
        """
        return ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            self.blank,
            self.reduction,
            self.zero_infinity,
            regularizer=self.regularizer,
        )

    def extra_repr(self) -> str:
        return shown(
            blank=self.blank,
            reduction=self.reduction,
            zero_infinity=self.zero_infinity,
            regularizer=self.regularizer,
        )
