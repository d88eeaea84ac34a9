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
        height, width = image.shape[-2:]
        if not height * width:  # nothing to read
            batch = torch.broadcast_shapes(image.shape[:-3], location.shape[:-1])
            return image.new_zeros(*batch, self.n_scales, image.shape[-3], self.patch_size, self.patch_size)
        x, y = location.unbind(-1)
        glimpses = []
        for k in range(self.n_scales):
            zoom = self.scale**k
            down, rows = self._samples(y, height, zoom)
            right, columns = self._samples(x, width, zoom)
            seen = _window(image, down, right)
            glimpses.append(rows.to(image.dtype).unsqueeze(-3) @ seen @ columns.to(image.dtype).unsqueeze(-3).mT)
        return torch.stack(glimpses, -4)

    def _samples(self, where: Tensor, size: int, zoom: int) -> tuple[Tensor | None, Tensor]:
        """Computes which pixels (..., P) of an axis a patch reads, and how much (..., N, P) of each is in each cell.

        The pixels are None if the axis is so short that all of it is read: P = size.
        """
        n = self.patch_size * zoom
        offset = torch.arange(n, dtype=where.dtype, device=where.device) - (n - 1) / 2
        at = ((where + 1) * size - 1).unsqueeze(-1) / 2 + offset  # pixels are counted from 0
        pixel = torch.arange(size, dtype=where.dtype, device=where.device)
        if n + 1 >= size:
            return None, self._cells(at, pixel)
        pixel = at[..., :1].detach().floor() + torch.arange(n + 1, dtype=where.dtype, device=where.device)
        inside = (pixel >= 0) & (pixel < size)
        return torch.where(inside, pixel, 0).long(), inside.unsqueeze(-2) * self._cells(at, pixel.unsqueeze(-2))

    def _cells(self, at: Tensor, pixel: Tensor) -> Tensor:
        tent = (1 - (at.unsqueeze(-1) - pixel).abs()).clamp(min=0)  # linear interpolation, and 0 outside
        return tent.unflatten(-2, (self.patch_size, at.shape[-1] // self.patch_size)).mean(-2)

    def extra_repr(self) -> str:
        return f"patch_size={self.patch_size}, n_scales={self.n_scales}, scale={self.scale}"


def _window(image: Tensor, down: Tensor | None, right: Tensor | None) -> Tensor:
    """Takes the rows `down` (..., P) and the columns `right` (..., P) of an image (..., channels, H, W).

    Other pixels are not touched, so that a glimpse costs the same in an image of any size.
    """
    height, width = image.shape[-2:]
    if down is None and right is None:
        return image
    rows = torch.arange(height, device=image.device) if down is None else down
    columns = torch.arange(width, device=image.device) if right is None else right
    places = rows.unsqueeze(-1) * width + columns.unsqueeze(-2)  # (..., P, P) in the flattened image
    flat, index = image.flatten(-2), places.flatten(-2).unsqueeze(-2)
    batch = torch.broadcast_shapes(flat.shape[:-1], index.shape[:-1])
    seen = flat.expand(*batch, -1).gather(-1, index.expand(*batch, -1))
    return seen.unflatten(-1, places.shape[-2:])
