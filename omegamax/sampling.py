"""Draws from a row's distribution, and perturbs scores so that an argmax becomes a sample.

Random numbers come from an explicit `torch.Generator` (or PyTorch's default one), so runs can be repeated.
"""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax import checks
from omegamax.operators.hard import Hard
from omegamax.operators.standard_form import argmax_along, checked_smooth
from omegamax.smoothmax import SmoothMax


def sample(weights: Tensor, n_samples: int, *, generator: torch.Generator | None = None) -> Tensor:
    """Draws positions from the distribution in each row: one-hot rows of shape (n_samples, *weights.shape).

    A row of zeros (nothing was allowed) gives rows of zeros; a row with NaN or an infinity gives NaN. The mean over
    samples tends to the weights, and positions of weight zero are never drawn.

    Arguments:
        weights: (..., n), rows that sum to one
        n_samples: how many are drawn from each row
        generator: the source of random numbers; None is PyTorch's own

    >>> sample(torch.tensor([0.0, 1.0, 0.0]), 2)
    tensor([[0., 1., 0.],
            [0., 1., 0.]])
    """
    checks.check_scores("sample", weights, name="weights")
    if not isinstance(n_samples, int) or isinstance(n_samples, bool):
        kind = type(n_samples).__name__
        raise TypeError(f"sample: n_samples must be a non-negative int, got {kind}; say how many to draw")
    if n_samples < 0:
        raise ValueError(f"sample: n_samples must be a non-negative int, got {n_samples!r}; say how many to draw")
    single = weights.detach().float() if weights.dtype in (torch.float16, torch.bfloat16) else weights.detach()
    if single.numel() and checks.is_readable(single) and bool((single < 0).any()):
        raise ValueError(
            f"sample: weights must be non-negative, got an entry {single.min().item()}; normalise scores first"
        )
    if n_samples == 0 or weights.numel() == 0:
        return weights.new_zeros((n_samples, *weights.shape))
    cumulative = single.cumsum(-1)
    total = cumulative[..., -1:]
    uniform = torch.rand(
        (n_samples, *weights.shape[:-1], 1), dtype=single.dtype, device=weights.device, generator=generator
    )
    # The first position whose cumulative weight exceeds u · total has positive weight itself, since u · total < total;
    # if rounding leads beyond the last supported position, that position is taken.
    position = torch.arange(weights.shape[-1], device=weights.device)
    last = torch.where(single > 0, position, 0).amax(-1, keepdim=True)
    index = torch.searchsorted(cumulative.expand(n_samples, *weights.shape).contiguous(), uniform * total, right=True)
    draws = (position == torch.minimum(index, last)).to(weights.dtype)
    draws = torch.where(total == 0, 0, draws)
    return torch.where(total.isfinite(), draws, torch.nan)


def gumbel_argmax(
    scores: Tensor,
    regularizer: SmoothMax,
    dim: int = -1,
    *,
    gamma: float | Tensor = 1.0,
    mask: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """argmax_Ω of scores with Gumbel noise: a relaxed, differentiable sample from softmax(scores).

        argmax_{p in simplex}  <p, scores + G> - gamma * Ω(p)        G_i independent standard Gumbel

    With `Hard()` it is an exact sample (the Gumbel trick); with Shannon the concrete distribution; with a sparse Ω many
    relaxed samples are exactly one-hot. Maddison, Mnih & Teh (2017); Jang, Gu & Poole (2017).

    Arguments:
        scores: a floating tensor with any axes; −inf takes an entry out of its row
        regularizer: Ω, such as `SquaredNorm()`
        dim: the axis of the rows
        gamma: the temperature: a positive number, or a tensor with size 1 along `dim`, which may learn
        mask: boolean, broadcasts to the scores; True means "may receive weight"
        generator: the source of random numbers; None is PyTorch's own

    Returns weights shaped as the scores.
    """
    checks.check_scores("gumbel_argmax", scores)
    noisy = scores + _gumbel_like(scores, generator)
    return argmax_along("gumbel_argmax", checked_smooth("gumbel_argmax", regularizer), noisy, dim, gamma, mask)


def straight_through_argmax(
    scores: Tensor,
    regularizer: SmoothMax,
    dim: int = -1,
    *,
    gamma: float | Tensor = 1.0,
    mask: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """A one-hot sample from softmax(scores) in the forward pass, with the gradient of the relaxed sample.

    The value is hardmax(scores + G), the derivative that of argmax_Ω(scores + G) (Bengio et al., 2013).

    Arguments:
        scores: a floating tensor with any axes; −inf takes an entry out of its row
        regularizer: Ω of the relaxed sample, such as `SquaredNorm()`
        dim: the axis of the rows
        gamma: the temperature: a positive number, or a tensor with size 1 along `dim`, which may learn
        mask: boolean, broadcasts to the scores; True means "may receive weight"
        generator: the source of random numbers; None is PyTorch's own

    Returns one-hot rows shaped as the scores.
    """
    checks.check_scores("straight_through_argmax", scores)
    noisy = scores + _gumbel_like(scores, generator)
    regularizer = checked_smooth("straight_through_argmax", regularizer)
    soft = argmax_along("straight_through_argmax", regularizer, noisy, dim, gamma, mask)
    hard = argmax_along("straight_through_argmax", Hard(), noisy.detach(), dim, 1.0, mask)
    return hard + (soft - soft.detach())


def _gumbel_like(scores: Tensor, generator: torch.Generator | None) -> Tensor:
    wide = torch.float64 if scores.dtype is torch.float64 else torch.float32
    empty = torch.empty_like(scores.detach(), dtype=wide, memory_format=torch.contiguous_format)
    exponential = empty.exponential_(generator=generator)
    return -exponential.clamp(min=torch.finfo(wide).tiny).log().to(scores.dtype)
