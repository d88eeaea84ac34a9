"""Dropout that draws 16 bits for an element.

    y = x ∘ m / (1 − p),      m = 1 with probability 1 − p, else 0

On a CPU PyTorch draws a number of 53 bits for each element, one after the other, which took a fifth of a training step
of a small Transformer. Here a generator's 64 bits decide about four elements, so p is rounded to a multiple of 2^-16.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from omegamax import routing
from omegamax.routing import Context

_LEVELS = 1 << 16
_LOWEST = -(1 << 15)  # of a signed number of 16 bits
_EAGER = (Context.NATIVE, Context.PLAIN, Context.AUTOGRAD)


def dropout(values: Tensor, probability: float, training: bool = True) -> Tensor:
    """Sets each value to zero with a probability, and divides the others by 1 − p, in training.

    Transforms, graphs and other devices get `torch.nn.functional.dropout`, with other random numbers.
    """
    dropped = round(probability * _LEVELS)
    if not training or probability == 0:
        return values
    if not 0 < dropped < _LEVELS or not values.is_cpu or routing.context(values) not in _EAGER:
        return nn.functional.dropout(values, probability)
    n = values.numel()
    bits = torch.empty(-(-n // 4), dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
    kept = (bits[:n] >= _LOWEST + dropped).view(values.shape)
    return values * kept.to(values.dtype).mul_(_LEVELS / (_LEVELS - dropped))


class Dropout(nn.Dropout):
    """`torch.nn.Dropout` by the function `dropout`."""

    def forward(self, input: Tensor) -> Tensor:
        return dropout(input, self.p, self.training)
