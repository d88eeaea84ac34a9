"""The corner of the simplex with the largest score."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax.kernels.kernel import solver


@solver()
def hardmax(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Writes one at the largest entry of each row, the first where they tie, zero elsewhere; also returns that entry.

    A row of nothing but -inf gives zeros and -inf; a row with NaN or +inf gives NaN.
    """
    if rows.shape[-1] == 0:
        return torch.zeros_like(rows), rows.new_full(rows.shape[:-1], -torch.inf)
    value, index = rows.max(-1)
    undefined = value.isnan() | (value == torch.inf)
    top = (value > -torch.inf).to(rows.dtype).unsqueeze(-1)  # 0 where nothing is allowed
    weights = torch.zeros_like(rows).scatter(-1, index.unsqueeze(-1), top)
    return weights.masked_fill(undefined.unsqueeze(-1), torch.nan), value.masked_fill(undefined, torch.nan)
