"""DRAW's window: a grid of Gaussian filters that reads a patch of an image, and writes one.

    F_X[i, a] ∝ exp(−(a − μ_i)² / 2σ²),  Σ_a F_X[i, a] = 1,     μ_i = g_X + (i − N/2 − ½) δ,   i = 1 … N
    read(x)  = γ F_Y x F_Xᵀ             N × N from H × W
    write(w) = (1/γ) F_Yᵀ w F_X         H × W from N × N

The window, its centre (g_X, g_Y), stride δ, variance σ² and intensity γ, is differentiable in all of them: it can move,
zoom and sharpen. Pixels are counted from 1, as in the paper. Gregor, Danihelka, Graves, Rezende & Wierstra, "DRAW: a
recurrent neural network for image generation", ICML 2015.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from omegamax.attention.masking import check_averageable


class DrawWindow(NamedTuple):
    """The position, scale and intensity of a window; each field has the shape of the batch."""

    x: Tensor  # the centre's column, 1 … W inside the image
    y: Tensor  # the centre's row, 1 … H
    stride: Tensor  # δ, between neighbouring filters, in pixels
    variance: Tensor  # σ²
    intensity: Tensor  # γ

    def filters(self, patch_size: int, height: int, width: int) -> tuple[Tensor, Tensor]:
        """Computes F_Y (..., N, height) and F_X (..., N, width); every row sums to one."""
        return (
            _filters(self.y, self.stride, self.variance, patch_size, height),
            _filters(self.x, self.stride, self.variance, patch_size, width),
        )


def _filters(centre: Tensor, stride: Tensor, variance: Tensor, patch_size: int, size: int) -> Tensor:
    step = torch.arange(1, patch_size + 1, dtype=centre.dtype, device=centre.device) - patch_size / 2 - 0.5
    mean = centre.unsqueeze(-1) + step * stride.unsqueeze(-1)  # (..., N)
    pixel = torch.arange(1, size + 1, dtype=centre.dtype, device=centre.device)
    exponent = -(pixel - mean.unsqueeze(-1)).square() / (2 * variance[..., None, None])
    return exponent.softmax(-1)  # a filter far outside puts its weight on the nearest pixels; nothing is divided by 0


class DrawAttention(nn.Module):
    """Reads and writes N × N patches through a window that a linear map of the hidden state places.

    Images are (..., channels, H, W), hidden states (..., hidden_size). Calling the module reads; `window`, `read` and
    `write` are the parts. DRAW reads the image and the error with one window (put both in the channels), and writes
    with another: use a second `DrawAttention`.

    Arguments:
        hidden_size: features of the hidden state
        patch_size: N, the rows and columns of a patch

    >>> draw = DrawAttention(8, patch_size=3)
    >>> window = draw.window(torch.zeros(8), 28, 28)
    >>> draw.read(torch.rand(1, 28, 28), window).shape, draw.write(torch.rand(1, 3, 3), window, 28, 28).shape
    (torch.Size([1, 3, 3]), torch.Size([1, 28, 28]))
    """

    def __init__(self, hidden_size: int, *, patch_size: int) -> None:
        super().__init__()
        if not isinstance(patch_size, int) or patch_size < 1:
            raise ValueError(
                f"DrawAttention: patch_size must be a positive int, got {patch_size}; the paper uses 2 to 12"
            )
        self.patch_size = patch_size
        self.of_hidden = nn.Linear(hidden_size, 5)

    def window(self, hidden: Tensor, height: int, width: int) -> DrawWindow:
        """Computes (g̃_X, g̃_Y, log σ², log δ̃, log γ) = W h and scales it: zeros give a window over the whole image.

        Arguments:
            hidden: (..., hidden_size)
            height: rows of the image
            width: columns of the image
        """
        numbers = self.of_hidden(hidden)
        if numbers.dtype in (torch.float16, torch.bfloat16):  # too coarse for positions
            numbers = numbers.float()
        x, y, log_variance, log_stride, log_intensity = numbers.unbind(-1)
        extent = (max(height, width) - 1) / max(self.patch_size - 1, 1)  # one filter has no stride
        return DrawWindow(
            (width + 1) / 2 * (x + 1),
            (height + 1) / 2 * (y + 1),
            extent * log_stride.exp(),
            log_variance.exp(),
            log_intensity.exp(),
        )

    def forward(self, image: Tensor, hidden: Tensor) -> Tensor:
        """Reads the patch (..., channels, N, N) at the window of the hidden state."""
        return self.read(image, self.window(hidden, image.shape[-2], image.shape[-1]))

    def read(self, image: Tensor, window: DrawWindow) -> Tensor:
        """Computes γ F_Y x F_Xᵀ, (..., channels, N, N)."""
        check_averageable("DrawAttention", "image", image)
        rows, columns = window.filters(self.patch_size, image.shape[-2], image.shape[-1])
        rows = window.intensity[..., None, None] * rows
        return rows.to(image.dtype).unsqueeze(-3) @ image @ columns.to(image.dtype).unsqueeze(-3).mT

    def write(self, patch: Tensor, window: DrawWindow, height: int, width: int) -> Tensor:
        """Computes F_Yᵀ w F_X / γ, (..., channels, height, width), zero outside the window."""
        if patch.shape[-2:] != (self.patch_size, self.patch_size):
            raise ValueError(
                f"DrawAttention: a patch must be (..., channels, {self.patch_size}, {self.patch_size}), got "
                f"{tuple(patch.shape)}; it has the size that read gives"
            )
        check_averageable("DrawAttention", "patch", patch)
        rows, columns = window.filters(self.patch_size, height, width)
        rows = rows / window.intensity[..., None, None]
        return rows.to(patch.dtype).unsqueeze(-3).mT @ patch @ columns.to(patch.dtype).unsqueeze(-3)

    def extra_repr(self) -> str:
        return f"patch_size={self.patch_size}"
