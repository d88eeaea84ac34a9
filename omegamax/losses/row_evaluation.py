"""The loss on rows without Ω(y), at classes, at smoothed classes or at distributions.

    L(θ; y) − Ω(y) = max_Ω(θ) − <θ, y>          its gradient is argmax_Ω(θ) − y
    <θ, y> = (1 − ε) θ_c + ε mean(θ)            for y = (1 − ε) e_c + ε u, a class c with label smoothing

The forward pass solves once. The backward pass scales the weights and subtracts the target, at one place per row if it
is a class, so that no matrix of targets is ever made. The row's maximum is subtracted first, so that the loss of large
scores is as exact as that of small ones.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from omegamax import routing
from omegamax.operators.evaluation import pull_back
from omegamax.operators.operator import Operator
from omegamax.operators.shannon import Shannon
from omegamax.operators.solution import Pullback
from omegamax.routing import Context

_RECORDED_BY_AUTOGRAD = (Context.NATIVE, Context.PLAIN, Context.AUTOGRAD, Context.WATCHED)


def loss_without_omega(smooth: Operator, scores: Tensor, target: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Computes max_Ω(θ) − <θ, y>, (...), for float32 or float64 scores (..., C) and classes (...) or distributions.

    It is infinite where the target, or the whole row, is masked. `smoothing` spreads that share of a class over all
    classes, whose scores are then finite.
    """
    parameters = smooth.parameters()
    smooth.check_fit(scores)
    if routing.context(scores, *parameters) not in _RECORDED_BY_AUTOGRAD or routing.needs_grad(target):
        scores = centred(scores)
        value, score = smooth.max(scores), _inner(scores, target)
        score = (1 - smoothing) * score + smoothing * scores.mean(-1) if smoothing else score
        return torch.where(value == -torch.inf, torch.inf, value - score)
    return _LossWithoutOmega.apply(smooth, scores, target, smoothing, *parameters)[0]


def centred(scores: Tensor) -> Tensor:
    """Subtracts the largest score of each row, which cancels in every loss; a row whose largest is infinite stays."""
    top = scores.detach().amax(-1, keepdim=True)
    return scores - torch.where(top.abs() < torch.inf, top, 0)


def non_negative(losses: Tensor) -> Tensor:
    """Raises losses that rounding made negative to zero, and keeps their derivative."""
    return losses - losses.detach().clamp(max=0)


def _inner(scores: Tensor, target: Tensor) -> Tensor:
    """Computes <θ, y> per row, with 0 · −inf = 0."""
    if not target.is_floating_point():
        return scores.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    used = target != 0
    return torch.where(used, target * torch.where(used, scores, 0), 0).sum(-1)


class _LossWithoutOmega(torch.autograd.Function):
    """Computes max_Ω(θ) − <θ, y> and the weights, whose derivative gives the second derivative of the loss."""

    @staticmethod
    def forward(
        ctx: Any, smooth: Operator, scores: Tensor, target: Tensor, smoothing: float, *parameters: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.soft, ctx.smoothing = target.is_floating_point(), smoothing
        target = target if ctx.soft else target.unsqueeze(-1)
        if isinstance(smooth, Shannon) and not ctx.soft and not smoothing:
            weights, value, certificate = smooth.solve(scores)
            likelihood = weights.gather(-1, target)
            found = -likelihood.log()  # exact without a shift, until the likelihood is too small to have digits
            found = torch.where(likelihood > 1e-30, found, value.unsqueeze(-1) - scores.gather(-1, target)).squeeze(-1)
        else:
            shifted = centred(scores)
            weights, value, certificate = smooth.solve(shifted)
            score = torch.linalg.vecdot(shifted, target) if ctx.soft else shifted.gather(-1, target).squeeze(-1)
            if ctx.soft and not (routing.on_host(score) and not bool(score.isnan().any())):  # 0 · −inf, perhaps
                score = _inner(shifted, target)
            if smoothing:
                score = (1 - smoothing) * score + smoothing * shifted.mean(-1)
            found = value - score
        ctx.smooth, ctx.n_certificate = smooth, len(certificate)
        live = value != -torch.inf
        ctx.all_live = routing.on_host(live) and bool(live.all())
        if not ctx.all_live:
            found = torch.where(live, found, torch.inf)
        ctx.mark_non_differentiable(*certificate[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(target, live, *certificate, *parameters)
        return (found, weights, *certificate[1:])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        target, live, *saved = ctx.saved_tensors
        certificate, parameters = tuple(saved[: ctx.n_certificate]), tuple(saved[ctx.n_certificate :])
        smooth = ctx.smooth.with_parameters(parameters) if parameters else ctx.smooth
        grad_found, grad_weights, *_ = grads
        nothing = (None,) * (4 + len(parameters))
        if grad_found is None and grad_weights is None:
            return nothing
        wanted = parameters if any(ctx.needs_input_grad[4:]) else ()
        pulled = None
        if grad_weights is not None and wanted:
            pulled = smooth.pull_back(certificate, grad_weights)
        elif grad_weights is not None:
            pulled = Pullback(smooth.hessian_product(certificate, grad_weights), ())
        per_row = None
        if grad_found is not None:
            per_row = grad_found if ctx.all_live else torch.where(live, grad_found, 0)
        to_scores, *to_parameters = pull_back(smooth, certificate, wanted, pulled, per_row)
        if per_row is not None and to_scores is not None:
            to_scores = _minus(to_scores, per_row.unsqueeze(-1), target, ctx.soft, ctx.smoothing)
        return (None, to_scores, None, None, *to_parameters, *nothing[4 + len(to_parameters) :])


def _minus(gradient: Tensor, per_row: Tensor, target: Tensor, soft: bool, smoothing: float) -> Tensor:
    """Subtracts per_row · y from the gradient; in place if autograd does not record, because nothing else holds it."""
    recorded = torch.is_grad_enabled()
    if soft:
        return gradient - per_row * target if recorded else gradient.addcmul_(per_row, target, value=-1)
    if smoothing:
        even = per_row * (smoothing / gradient.shape[-1])
        gradient = gradient - even if recorded else gradient.sub_(even)
        per_row = (1 - smoothing) * per_row
    return gradient.scatter_add(-1, target, -per_row) if recorded else gradient.scatter_add_(-1, target, -per_row)
