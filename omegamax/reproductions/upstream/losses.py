"""CTC: second derivatives, targets that do not fit, and the gradient in log-probabilities."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from omegamax.reproductions.upstream.case import Finding, find
from omegamax.structures import ctc_loss


def _scores() -> Tensor:
    return torch.randn(5, 1, 3, generator=torch.Generator().manual_seed(0), dtype=torch.double)


def _loss(function: Any, log_probs: Tensor, n_labels: int = 2) -> Tensor:
    return function(log_probs, torch.tensor([[1, 2, 1, 2, 1, 2]])[:, :n_labels], [len(log_probs)], [n_labels])


def ctc_double_backward() -> list[Finding]:
    """The norm of the gradient, differentiated, beside finite differences."""

    def of_logits(function: Any, scores: Tensor) -> Tensor:
        (grad,) = torch.autograd.grad(_loss(function, scores.log_softmax(-1)), scores, create_graph=True)
        return grad.square().sum()

    def error(function: Any) -> float:
        scores = _scores().requires_grad_()
        (grad,) = torch.autograd.grad(of_logits(function, scores), scores)
        step, worst = 1e-5, 0.0
        for place in range(scores.numel()):
            ends = []
            for sign in (1, -1):
                moved = scores.detach().clone().flatten()
                moved[place] += sign * step
                ends.append(of_logits(function, moved.reshape(scores.shape).requires_grad_()).detach())
            worst = max(worst, float(abs((ends[0] - ends[1]) / (2 * step) - grad.flatten()[place])))
        return worst

    return [
        find(
            "error of the second derivative",
            "0",
            lambda: error(F.ctc_loss),
            lambda: error(ctc_loss),
            lambda found: found < 1e-6,
            lambda found: "below 1e-06" if found < 1e-6 else f"{found:.1e}",
        )
    ]


def ctc_infeasible() -> list[Finding]:
    """Six labels for five frames."""

    def nan(function: Any) -> int:
        scores = _scores().requires_grad_()
        _loss(function, scores.log_softmax(-1), 6).backward()
        return int(scores.grad.isnan().sum())  # type: ignore[union-attr]

    def value(function: Any) -> float:
        return float(_loss(function, _scores().log_softmax(-1), 6))

    return [
        find("loss", "inf", lambda: value(F.ctc_loss), lambda: value(ctc_loss), lambda found: found == torch.inf),
        find("NaN in the gradient", "0", lambda: nan(F.ctc_loss), lambda: nan(ctc_loss), lambda found: found == 0),
    ]


def ctc_wrong_gradient() -> list[Finding]:
    """The derivative in one log-probability, of a class that the target does not have."""
    log_probs = _scores().log_softmax(-1)

    def gradient(function: Any) -> float:
        leaf = log_probs.clone().requires_grad_()
        _loss(function, leaf, 1).backward()
        return float(leaf.grad[2, 0, 2])  # type: ignore[index]

    return [
        find(
            "∂ loss / ∂ log_probs of a class outside the target",
            "0",
            lambda: gradient(F.ctc_loss),
            lambda: gradient(ctc_loss),
            lambda found: abs(found) < 1e-9,
            lambda found: f"{found:.4f}",
        )
    ]
