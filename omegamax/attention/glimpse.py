"""A glimpse sensor: patches around one location, sharp in the middle and coarse around it.

Patches of N, sN, s²N, ... pixels around one location are each brought down to N × N by averaging. Together they have
k N² numbers whatever the size of the image. Mnih, Heess, Graves & Kavukcuoglu, "Recurrent models of visual attention",
NIPS 2014.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from omegamax.attention.masking import check_averageable


class GlimpseSensor(nn.Module):
    """Multi-resolution patches around a location.

    Images (..., channels, H, W) and locations (..., 2) give (..., n_scales, channels, N, N). A location is (x, y), from
    (−1, −1), the top left corner, to (1, 1); (0, 0) is the centre. Pixels outside the image are 0. Between pixels the
    image is interpolated linearly, so glimpses are continuous in the location and have a derivative there except
    where a sample falls on a pixel; in the image they are linear.

    Arguments:
        patch_size: N, the rows and columns of a patch
        n_scales: how many patches there are, each coarser than the one before
        scale: how much larger each patch is than the one before

    >>> glimpse = GlimpseSensor(patch_size=2, n_scales=2)
    >>> image = torch.arange(16.0).reshape(1, 4, 4)
    >>> glimpse(image, torch.zeros(2))
    tensor([[[[ 5.0000,  6.0000],
              [ 9.0000, 10.0000]]],
    <BLANKLINE>
    <BLANKLINE>
            [[[ 2.5000,  4.5000],
              [10.5000, 12.5000]]]])
    """

    def __init__(self, *, patch_size: int, n_scales: int = 3, scale: int = 2) -> None:
        super().__init__()
        for name, number in (("patch_size", patch_size), ("n_scales", n_scales), ("scale", scale)):
            if not isinstance(number, int) or number < 1:
                raise ValueError(
                    f"GlimpseSensor: {name} must be a positive int, got {number}; the paper uses 8, 3 and 2"
                )
        self.patch_size, self.n_scales, self.scale = patch_size, n_scales, scale

    def forward(self, image: Tensor, location: Tensor) -> Tensor:
        """Takes the patches of the image at the location."""
        if image.dim() < 3 or location.shape[-1:] != (2,):
            raise ValueError(
                "GlimpseSensor: image must be (..., channels, H, W) and location (..., 2), got "
                f"{tuple(image.shape)} and {tuple(location.shape)}; a grey image has one channel"
            )
        check_averageable("GlimpseSensor", "image", image)
        if location.dtype in (torch.float16, torch.bfloat16):  # too coarse for positions
            location = location.float()
        x, y = location.unbind(-1)
        height, width = image.shape[-2:]
        glimpses = []
        for k in range(self.n_scales):
            zoom = self.scale**k
            rows, columns = self._samples(y, height, zoom), self._samples(x, width, zoom)
            glimpses.append(rows.to(image.dtype).unsqueeze(-3) @ image @ columns.to(image.dtype).unsqueeze(-3).mT)
        return torch.stack(glimpses, -4)

    def _samples(self, where: Tensor, size: int, zoom: int) -> Tensor:
        """Computes (..., N, size): how much of each pixel is in each cell of the patch, along one axis."""
        n = self.patch_size * zoom
        offset = torch.arange(n, dtype=where.dtype, device=where.device) - (n - 1) / 2
        at = ((where + 1) * size - 1).unsqueeze(-1) / 2 + offset  # pixels are counted from 0
        pixel = torch.arange(size, dtype=where.dtype, device=where.device)
        tent = (1 - (at.unsqueeze(-1) - pixel).abs()).clamp(min=0)  # linear interpolation, and 0 outside
        return tent.unflatten(-2, (self.patch_size, zoom)).mean(-2)

    def extra_repr(self) -> str:
        return f"patch_size={self.patch_size}, n_scales={self.n_scales}, scale={self.scale}"
