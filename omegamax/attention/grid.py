"""Soft attention over an image: a grid of annotation vectors, of which each query takes an average.

    weights = argmax_Ω(score(query, annotations))   on the simplex over the whole grid
    output  = Σ_ij weights_ij · annotation_ij

Xu et al., "Show, attend and tell", ICML 2015. With `GridTV` the weights are equal on connected regions of the image.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from omegamax import checks
from omegamax.attention.attention import AttentionOutput, ScoredAttention
from omegamax.attention.masking import average, check_averageable, zero_idle, zero_unread
from omegamax.attention.normalizers import Normalizer, normalize
from omegamax.attention.scores import Score
from omegamax.operators.shannon import Shannon
from omegamax.smoothmax import SmoothMax

_SHANNON = Shannon()


class GridAttention(ScoredAttention):
    """Attention to the cells of a grid with any score function and any normalizer.

    Queries (..., Q, dq) and annotations (..., H, W, features) share their batch axes, or broadcast; the output is
    (..., Q, features) and the weights are (..., Q, H, W). A regularizer, or a layer, sees the cells of the grid as one
    row, row after row; a smoothed maximum of two axes, such as `GridTV`, sees the grid of each query.

    Arguments:
        score: how queries meet keys: `DotProduct()`, `Additive(...)`, ...; None is the scaled dot product
        normalizer: what turns scores into weights: a regularizer, a structured SmoothMax or a layer such as `Entmax()`;
            over a row of cells, or over the grid
        dropout: the share of weights that training drops

    >>> attention = GridAttention(DotProduct(), normalizer=GridTV(strength=0.2))
    >>> annotations = torch.tensor([[[1.0], [0.9], [0.0]], [[0.8], [0.9], [0.1]]])
    >>> attention(torch.tensor([[1.0]]), annotations).weights
    tensor([[[0.2500, 0.2500, 0.0000],
             [0.2500, 0.2500, 0.0000]]])
    """

    def __init__(self, score: Score | None = None, *, normalizer: Normalizer = _SHANNON, dropout: float = 0.0) -> None:
        super().__init__(score, normalizer, dropout=dropout)

    def forward(
        self,
        query: Tensor,
        annotations: Tensor,
        values: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        sizes: Tensor | None = None,
        need_weights: bool = True,
    ) -> AttentionOutput:
        """Averages the values (..., H, W, features), by default the annotations.

        `mask` is boolean and broadcasts to (..., Q, H, W): True means "may attend"; `sizes` (*batch, 2) counts the rows
        and columns of each image of the batch. A value that no query may attend to may be anything, NaN too. A
        query that may attend to nothing gets zeros.
        """
        values = annotations if values is None else values
        if annotations.dim() < 3 or values.shape[-3:-1] != annotations.shape[-3:-1]:
            raise ValueError(
                "GridAttention: annotations and values must be (..., H, W, features) over one grid, got "
                f"{tuple(annotations.shape)} and {tuple(values.shape)}; move the channels to the last axis"
            )
        check_averageable("GridAttention", "values", values)
        grid = annotations.shape[-3:-1]
        shape = (*torch.broadcast_shapes(query.shape[:-2], annotations.shape[:-3]), query.shape[-2], *grid)
        allowed = _allowed(query.new_zeros(()).expand(shape), mask, sizes)
        cells = _as_rows(allowed, grid)
        seen = zero_unread(annotations.flatten(-3, -2), cells, query.shape[-2])
        scores = self.score(zero_idle(query, cells, seen.shape[-2]), seen).unflatten(-1, grid)  # (..., Q, H, W)
        weights = self._normalize(scores, allowed)
        dropped = nn.functional.dropout(weights, self.dropout, self.training)
        output = average(dropped.flatten(-2), values.flatten(-3, -2), cells)
        return AttentionOutput(output, weights if need_weights else None)

    def _normalize(self, scores: Tensor, allowed: Tensor | None) -> Tensor:
        if isinstance(self.normalizer, SmoothMax) and self.normalizer.event_ndim == 2:
            return self.normalizer.argmax(scores, mask=allowed)
        grid = scores.shape[-2:]
        return normalize(self.normalizer, scores.flatten(-2), _as_rows(allowed, grid)).unflatten(-1, grid)


def _as_rows(allowed: Tensor | None, grid: torch.Size) -> Tensor | None:
    """Flattens a mask (..., Q or 1, H or 1, W or 1) to (..., Q or 1, cells)."""
    return None if allowed is None else allowed.expand(*allowed.shape[:-2], *grid).flatten(-2)


def _allowed(scores: Tensor, mask: Tensor | None, sizes: Tensor | None) -> Tensor | None:
    """Combines `mask` and `sizes` into one mask of at least three axes for scores (..., Q, H, W), or None."""
    if mask is not None:
        checks.check_mask("GridAttention", scores, mask, fix="a mask per image (batch, H, W) needs mask.unsqueeze(-3)")
        mask = mask.reshape((1,) * max(0, 3 - mask.dim()) + tuple(mask.shape))
    if sizes is None:
        return mask
    batch = tuple(scores.shape[:-3])
    if sizes.is_floating_point() or sizes.shape[-1:] != (2,) or tuple(sizes.shape[:-1]) != batch[: sizes.dim() - 1]:
        raise ValueError(
            f"GridAttention: sizes must be integers, rows and columns for each of the batch {batch}, got {sizes.dtype} "
            f"of shape {tuple(sizes.shape)}; use torch.tensor([[height, width], ...])"
        )
    checks.check_counts("GridAttention", "rows in sizes", sizes[..., 0], scores.shape[-2], "annotations have no more")
    checks.check_counts(
        "GridAttention", "columns in sizes", sizes[..., 1], scores.shape[-1], "annotations have no more"
    )
    sizes = sizes.to(scores.device)
    tall, wide = sizes.reshape(*sizes.shape[:-1], *(1,) * (scores.dim() - sizes.dim() + 1), 2).unbind(-1)
    rows = torch.arange(scores.shape[-2], device=scores.device).unsqueeze(-1)
    within = (rows < tall) & (torch.arange(scores.shape[-1], device=scores.device) < wide)
    return within if mask is None else mask & within
