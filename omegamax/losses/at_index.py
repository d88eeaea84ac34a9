"""The loss at a class, where Ω vanishes at the corners of the simplex.

    L(θ; y) = max_Ω(θ) − θ_y          ∇L = argmax_Ω(θ) − e_y

One solve in the forward pass; the backward pass scales the weights and subtracts at one place per row, so that no
one-hot matrix is ever made. The row's maximum is taken off first: the loss of large scores is as exact as that of
small ones.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from omegamax import checks, routing
from omegamax.operators.shannon import Shannon
from omegamax.smoothmax import Pulled, SmoothMax, pull_back


def losses_at_index(smooth: SmoothMax, scores: Tensor, index: Tensor, kept: Tensor | None) -> Tensor:
    """Losses (...) of scores (..., C) in float32 or float64 at classes (...); zero where not kept."""
    parameters = smooth.parameters()
    for parameter in parameters:
        checks.check_row_parameter(type(smooth).__name__, "parameter", parameter, scores)
    eager = not (routing.is_compiling() or routing.is_tracing() or routing.transforms_active())
    if eager and routing.is_concrete(scores) and not routing.dual_level_active():
        return _AtIndex.apply(smooth, scores, index, kept, *parameters)[0]
    if kept is not None:
        scores = torch.where(kept.unsqueeze(-1), scores, 0)
    losses = _raised(smooth, scores, index)
    return losses if kept is None else torch.where(kept, losses, 0)


def centred(scores: Tensor) -> Tensor:
    """Scores minus the largest of their row, which cancels in every loss; rows without a finite one as they are."""
    top = scores.detach().amax(-1, keepdim=True)
    return scores - torch.where(top.abs() < torch.inf, top, 0)


def non_negative(losses: Tensor) -> Tensor:
    """Rounding below zero becomes zero, and the derivative stays."""
    return losses - losses.detach().clamp(max=0)


def _raised(smooth: SmoothMax, scores: Tensor, index: Tensor) -> Tensor:
    """The same numbers, in operations that transforms and compilers can see through."""
    scores = centred(scores)
    value = smooth.weigh(scores).value
    chosen = scores.gather(-1, index.unsqueeze(-1)).squeeze(-1)
    return torch.where(value == -torch.inf, torch.inf, non_negative(value - chosen))


class _AtIndex(torch.autograd.Function):
    """Losses, and the weights, whose derivative makes the second one."""

    @staticmethod
    def forward(
        ctx: Any, smooth: SmoothMax, scores: Tensor, index: Tensor, kept: Tensor | None, *parameters: Tensor
    ) -> tuple[Tensor, ...]:
        at = index.unsqueeze(-1)
        if isinstance(smooth, Shannon):  # −log p_y is exact without a shift, until p_y is too small to have digits
            weights, value, certificate = smooth.solve(scores)
            likelihood = weights.gather(-1, at).squeeze(-1)
            losses = torch.where(likelihood > 1e-30, -likelihood.log(), value - scores.gather(-1, at).squeeze(-1))
        else:
            shifted = centred(scores)
            weights, value, certificate = smooth.solve(shifted)
            losses = value - shifted.gather(-1, at).squeeze(-1)
        possible = value != -torch.inf
        losses = torch.where(possible, losses.clamp_(min=0), torch.inf)
        live = possible if kept is None else possible & kept
        ctx.smooth, ctx.n_certificate = smooth, len(certificate)
        ctx.all_live = live.is_cpu and bool(live.all())
        ctx.mark_non_differentiable(*certificate[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(at, live, *certificate, *parameters)
        return (losses if kept is None else torch.where(kept, losses, 0), weights, *certificate[1:])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        at, live, *saved = ctx.saved_tensors
        certificate, parameters = tuple(saved[: ctx.n_certificate]), tuple(saved[ctx.n_certificate :])
        smooth = ctx.smooth.with_parameters(parameters) if parameters else ctx.smooth
        grad_losses, grad_weights, *_ = grads
        nothing = (None,) * (4 + len(parameters))
        if grad_losses is None and grad_weights is None:
            return nothing
        wanted = parameters if any(ctx.needs_input_grad[4:]) else ()
        pulled = None
        if grad_weights is not None and wanted:
            pulled = smooth.pull(certificate, grad_weights)
        elif grad_weights is not None:
            pulled = Pulled(smooth.hessian_product(certificate, grad_weights), ())
        per_row = None
        if grad_losses is not None:
            per_row = grad_losses if ctx.all_live else torch.where(live, grad_losses, 0)
        to_scores, *to_parameters = pull_back(smooth, certificate, wanted, pulled, per_row)
        if per_row is not None and to_scores is not None:
            away = -per_row.unsqueeze(-1)
            recorded = torch.is_grad_enabled()  # else the product is ours alone
            to_scores = to_scores.scatter_add(-1, at, away) if recorded else to_scores.scatter_add_(-1, at, away)
            if not ctx.all_live:  # NaN scores of a row that is not kept stay where they are
                to_scores = torch.where(live.unsqueeze(-1), to_scores, 0)
        return (None, to_scores, None, None, *to_parameters, *nothing[4 + len(to_parameters) :])
