"""Log-mel features of sound: how much of each band of frequencies there is, every hundredth of a second."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

_LEAST = 1e-6  # of the energy of a band: silence has a logarithm too


class LogMel(nn.Module):
    """Maps samples (..., n) to features (..., frames, n_bands): logarithms of the energy in bands of the mel scale.

        mel(f) = 2595 log₁₀(1 + f / 700)

    A frame has `width` samples under a Hann window, and the next begins `hop` samples later. Bands are triangles that
    overlap by half, evenly spaced in mel from 0 to half the rate.

    Arguments:
        rate: samples per second
        width: samples of a frame
        hop: samples from a frame to the next
        n_bands: features of a frame
    """

    window: Tensor
    bands: Tensor

    def __init__(self, rate: int = 8000, *, width: int = 200, hop: int = 80, n_bands: int = 40) -> None:
        super().__init__()
        self.width, self.hop = width, hop
        self.n_fft = 1 << (width - 1).bit_length()
        self.register_buffer("window", torch.hann_window(width), persistent=False)
        self.register_buffer("bands", mel_bands(n_bands, self.n_fft, rate), persistent=False)

    def extra_repr(self) -> str:
        return f"width={self.width}, hop={self.hop}, n_bands={self.bands.shape[-1]}"

    def n_frames(self, n_samples: int) -> int:
        """Returns how many frames so many samples have: at least one."""
        return 1 + max(0, n_samples - self.width) // self.hop

    def forward(self, samples: Tensor) -> Tensor:
        """Computes the features.

        Arguments:
            samples: (..., n); fewer than one frame are filled up with silence
        """
        missing = max(0, self.width - samples.shape[-1])
        frames = nn.functional.pad(samples, (0, missing)).unfold(-1, self.width, self.hop)  # (..., frames, width)
        spectrum = torch.fft.rfft(frames * self.window, self.n_fft)
        return (spectrum.abs().square() @ self.bands).clamp(min=_LEAST).log()


def mel_bands(n_bands: int, n_fft: int, rate: int) -> Tensor:
    """Returns the weight (n_fft / 2 + 1, n_bands) of each frequency of a spectrum in each band.

    Arguments:
        n_bands: how many bands
        n_fft: samples of the transform
        rate: samples per second
    """
    top = 2595 * math.log10(1 + rate / 2 / 700)
    edges = 700 * (10 ** (torch.linspace(0, top, n_bands + 2, dtype=torch.float64) / 2595) - 1)
    frequency = torch.arange(n_fft // 2 + 1, dtype=torch.float64).unsqueeze(-1) * rate / n_fft
    rising = (frequency - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - frequency) / (edges[2:] - edges[1:-1])
    return torch.minimum(rising, falling).clamp(min=0).float()
