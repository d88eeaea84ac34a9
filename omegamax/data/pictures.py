"""Reads pictures: PNG files and arrays of NumPy, as grey levels from 0 (black) to 1 (white)."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import numpy as np

from omegamax.extras import how_to_install

MAX_PIXELS = 1 << 22  # of one picture


def read_picture(path: str | Path) -> np.ndarray:
    """Reads a picture as grey levels (H, W), float32, from 0 to 1.

    Arguments:
        path: of a .png file, or of a .npy file with numbers from 0 to 1 or whole numbers up to 255
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; give the path of a .png or .npy file")
    if path.suffix.lower() != ".npy":
        with path.open("rb") as file:
            return read_png(file, str(path))
    try:
        found = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path}: expected an array of NumPy, got {error}; save it with numpy.save") from None
    if not isinstance(found, np.ndarray) or found.dtype.kind not in "iuf":
        raise ValueError(f"{path}: expected an array of numbers, got something else; save it with numpy.save")
    return _grey(found / np.float32(255) if found.dtype.kind in "iu" else found, str(path))


def read_png(file: BinaryIO, name: str) -> np.ndarray:
    """Reads a PNG file as grey levels (H, W), float32, from 0 to 1; what is transparent is white.

    Arguments:
        file: an open file
        name: of the file, for errors
    """
    try:
        from matplotlib.image import imread
    except ImportError:
        raise ImportError(f"PNG files need Matplotlib; {how_to_install('plot')}") from None
    try:
        found = imread(file, format="png")
    except (OSError, SyntaxError, ValueError) as error:
        raise ValueError(f"{name}: expected a PNG file, got {error}; convert it") from None
    if found.ndim == 3 and found.shape[-1] in (2, 4):
        colours, there = found[..., :-1], found[..., -1:]
        found = colours * there + (1 - there)
    return _grey(found.mean(-1) if found.ndim == 3 else found, name)


def _grey(found: np.ndarray, name: str) -> np.ndarray:
    if found.ndim != 2 or not 1 <= found.size <= MAX_PIXELS:
        raise ValueError(
            f"{name}: expected a picture (H, W) of at most {MAX_PIXELS} pixels, got {found.shape}; cut or average it"
        )
    if not ((found >= 0) & (found <= 1)).all():
        raise ValueError(f"{name}: expected numbers from 0 to 1, or whole ones from 0 to 255, got others; scale them")
    return found.astype(np.float32)


def shrink(picture: np.ndarray, factor: int) -> np.ndarray:
    """Averages squares of pixels; at the edges the picture is continued with zeros.

    Arguments:
        picture: (H, W)
        factor: pixels of a square, up and across

    >>> shrink(np.array([[1.0, 0.0, 1.0], [1.0, 0.0, 1.0]]), 2).tolist()
    [[0.5, 0.5]]
    """
    tall, wide = (-size % factor for size in picture.shape)
    whole = np.pad(picture, ((0, tall), (0, wide)))
    rows, columns = (size // factor for size in whole.shape)
    return whole.reshape(rows, factor, columns, factor).mean((1, 3), dtype=np.float32)
