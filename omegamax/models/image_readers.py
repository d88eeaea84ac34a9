"""Ways to read an image through attention: a retina at a place, a grid of features, or DRAW's window.

    Retina        relu(W₁ conv(patches) + W₂ place), of patches around one place: costs the same in an image of any size
    GridReader    Σ_ij p_ij a_ij, an average of the features of a small convolutional network, which sees every pixel
    WindowReader  relu(W₁ F_Y x F_Xᵀ + W₂ window), a patch of Gaussian filters, each of which sees every pixel

Mnih et al., NIPS 2014; Xu et al., ICML 2015; Gregor et al., ICML 2015.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from omegamax.attention.draw import DrawAttention
from omegamax.attention.glimpse import GlimpseSensor
from omegamax.attention.grid import GridAttention
from omegamax.attention.normalizers import Normalizer
from omegamax.attention.scores import Additive

_CHANNELS = (16, 32)  # of the convolutions of a patch


class Reading(NamedTuple):
    """What was read from each image, and where."""

    features: Tensor  # (B, features)
    place: Tensor  # (B, 2), the centre, as (x, y) from −1 to 1
    shares: Tensor  # (B, rows, columns) of a grid over the image: how much of what was read is from each cell


class Retina(nn.Module):
    """Features of a glimpse: what the patches show, and where they are.

    Each patch is read by the same two convolutions; in the paper by one layer of all its pixels, which learns slower.

    Arguments:
        out_features: of a glimpse
        patch_size: pixels of a patch, up and across
        n_scales: patches, each twice as wide as the one before
    """

    def __init__(self, out_features: int, *, patch_size: int, n_scales: int) -> None:
        super().__init__()
        self.sensor = GlimpseSensor(patch_size=patch_size, n_scales=n_scales)
        self.convolutions = nn.Sequential(
            nn.Conv2d(1, _CHANNELS[0], 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(*_CHANNELS, 3, stride=2, padding=1),
            nn.ReLU(),
        )
        self.what = nn.Linear(n_scales * _CHANNELS[1] * ((patch_size + 3) // 4) ** 2, out_features)
        self.where = nn.Linear(2, out_features)
        self.norm = nn.LayerNorm(out_features)  # most pixels are dark: without it learning starts slowly
        self.both = nn.Sequential(nn.Linear(out_features, out_features), nn.LayerNorm(out_features))

    @property
    def n_numbers(self) -> int:
        """Says how many numbers a glimpse has."""
        return self.sensor.n_scales * self.sensor.patch_size**2

    def forward(self, images: Tensor, place: Tensor) -> Tensor:
        """Reads images (B, H, W) at places (..., B, 2): features (..., B, out_features)."""
        patches = self.sensor(images.unsqueeze(-3), place)  # (..., B, scales, 1, N, N)
        maps = self.convolutions(patches.flatten(0, -4)).unflatten(0, patches.shape[:-3])
        return self.both(self.norm(self.what(maps.flatten(-4)) + self.where(place)).relu()).relu()

    def shares(self, images: Tensor, place: Tensor) -> Tensor:
        """Computes how much of a glimpse is from each pixel (B, H, W), a mean over the patches; the rest is outside."""
        _, height, width = images.shape
        x, y = place.unbind(-1)
        total = images.new_zeros(images.shape)
        for scale in range(self.sensor.n_scales):
            wide = self.sensor.patch_size * 2**scale
            down, across = _overlap(y, height, wide), _overlap(x, width, wide)
            total += down.unsqueeze(-1) * across.unsqueeze(-2) / wide**2
        return total / self.sensor.n_scales

    def view(self, image: Tensor, place: Tensor) -> Tensor:
        """Shows what a glimpse at a place (2,) saw of an image (H, W): sharp in the middle, black where it is blind."""
        n, seen = self.sensor.patch_size, torch.zeros_like(image)
        patches = self.sensor(image.unsqueeze(0), place).squeeze(1)
        for scale in reversed(range(self.sensor.n_scales)):  # the finest last, over the others
            cells = [_cell_of(where, size, n, 2**scale) for where, size in zip(place.flip(-1), image.shape)]
            down, across = (cell.clamp(0, n - 1) for cell in cells)
            inside_down, inside_across = ((cell >= 0) & (cell < n) for cell in cells)
            seen = torch.where(inside_down.unsqueeze(-1) & inside_across, patches[scale][down][:, across], seen)
        return seen


def _cell_of(centre: Tensor, size: int, n: int, zoom: int) -> Tensor:
    """Computes in which cell of a patch each pixel (size,) is, along one axis; outside below 0 or from n on."""
    middle = ((centre + 1) * size - 1) / 2
    pixel = torch.arange(size, dtype=centre.dtype, device=centre.device)
    return ((pixel - middle) / zoom + n / 2).floor().long()


def _overlap(centre: Tensor, size: int, wide: int) -> Tensor:
    """Computes how much of each pixel (B, size) is within a patch, along one axis."""
    middle = ((centre + 1) * size - 1).unsqueeze(-1) / 2
    pixel = torch.arange(size, dtype=centre.dtype, device=centre.device)
    low = torch.maximum(pixel - 0.5, middle - wide / 2)
    high = torch.minimum(pixel + 0.5, middle + wide / 2)
    return (high - low).clamp(min=0)


class GridReader(nn.Module):
    """A grid of features of the image, and attention over its cells.

    Three convolutions with stride 2 make a cell of 8 × 8 pixels. A cell knows its place.

    Arguments:
        hidden_size: features of the state that asks
        channels: of the first two convolutions; a cell has twice as many features
        out_features: of what is read
        normalizer: over a row of cells, or over the grid
    """

    def __init__(self, hidden_size: int, channels: int, out_features: int, *, normalizer: Normalizer) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(1, channels, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1),
        )
        self.where = nn.Linear(2, 2 * channels)
        self.norm = nn.LayerNorm(2 * channels)
        self.attention = GridAttention(Additive(hidden_size, 2 * channels), normalizer=normalizer)
        self.out = nn.Linear(2 * channels, out_features)

    def encode(self, images: Tensor) -> Tensor:
        """Computes the features of the cells, (B, rows, columns, 2 channels)."""
        cells = self.convolutions(images.unsqueeze(1)).movedim(1, -1)
        return self.norm(cells + self.where(_centres(*cells.shape[1:3]).to(cells))).relu()

    def read(self, images: Tensor, encoded: Tensor, hidden: Tensor) -> Reading:
        """Reads the average that the states (B, hidden_size) ask for."""
        found = self.attention(hidden.unsqueeze(1), encoded)
        assert found.weights is not None
        shares = found.weights.squeeze(1)
        place = torch.einsum("bij,ijd->bd", shares, _centres(*shares.shape[1:]).to(shares))
        return Reading(self.out(found.output.squeeze(1)).relu(), place, shares)

    def n_numbers(self, height: int, width: int) -> int:
        """Says how many pixels are read: all, once."""
        return height * width


def _centres(rows: int, columns: int) -> Tensor:
    """Returns the centres (rows, columns, 2) of the cells of a grid, as (x, y) from −1 to 1."""
    y, x = ((2 * torch.arange(n) + 1) / n - 1 for n in (rows, columns))
    return torch.stack([x.expand(rows, -1), y.unsqueeze(-1).expand(-1, columns)], -1)


class WindowReader(nn.Module):
    """DRAW's window: features of the patch that it reads, and of where it is.

    Arguments:
        hidden_size: features of the state that places the window
        out_features: of what is read
        patch_size: filters, up and across
    """

    def __init__(self, hidden_size: int, out_features: int, *, patch_size: int) -> None:
        super().__init__()
        self.draw = DrawAttention(hidden_size, patch_size=patch_size)
        with torch.no_grad():  # every look begins with the whole image: a window beside it has no way back
            self.draw.of_hidden.weight *= 0.1
            self.draw.of_hidden.bias.zero_()
        self.what = nn.Linear(patch_size**2, out_features)
        self.where = nn.Linear(5, out_features)
        self.norm = nn.LayerNorm(out_features)
        self.both = nn.Sequential(nn.Linear(out_features, out_features), nn.LayerNorm(out_features))

    def encode(self, images: Tensor) -> Tensor:
        """Returns the images, which need no preparation."""
        return images

    def read(self, images: Tensor, encoded: Tensor, hidden: Tensor) -> Reading:
        """Reads the patch at the window that the states (B, hidden_size) place."""
        height, width = images.shape[1:]
        window = self.draw.window(hidden, height, width)
        patch = self.draw.read(images.unsqueeze(1), window).flatten(1)
        place = torch.stack([2 * window.x / (width + 1) - 1, 2 * window.y / (height + 1) - 1], -1)
        scales = torch.stack([window.stride.log(), window.variance.log(), window.intensity.log()], -1)
        features = self.both(self.norm(self.what(patch) + self.where(torch.cat([place, scales], -1))).relu()).relu()
        rows, columns = window.filters(self.draw.patch_size, height, width)
        return Reading(features, place, rows.mean(-2).unsqueeze(-1) * columns.mean(-2).unsqueeze(-2))

    def n_numbers(self, height: int, width: int) -> int:
        """Says how many pixels are read by one window: all, because a Gaussian ends nowhere."""
        return height * width
