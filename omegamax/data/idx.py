"""Reads IDX files, the format of MNIST and Fashion-MNIST: a header of sizes, then bytes; may be compressed by gzip."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np

from omegamax.data.printable import short_repr

_BYTES = 0x08  # the code of unsigned bytes, which all files of pictures and labels have
_TRAINING, _TEST = ("train",), ("test", "t10k")  # how the names of files begin
_MAX_BYTES = 2**31


def read_idx(path: str | Path) -> np.ndarray:
    """Reads an array of unsigned bytes from an IDX file, plain or compressed.

    Arguments:
        path: of the file; compression is seen from its content
    """
    content = Path(path).read_bytes()
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{path}: expected an IDX file, got a broken gzip file: {error}; copy it again") from None
    if len(content) < 4 or content[:3] != bytes([0, 0, _BYTES]) or len(content) < 4 + 4 * content[3]:
        raise ValueError(
            f"{path}: expected an IDX file of unsigned bytes, which begins with 0 0 8, got {short_repr(content[:4])}; "
            "use files such as train-images-idx3-ubyte.gz"
        )
    shape = struct.unpack(f">{content[3]}I", content[4 : 4 + 4 * content[3]])
    values = content[4 + 4 * content[3] :]
    if math.prod(shape) != len(values) or len(values) > _MAX_BYTES:
        raise ValueError(
            f"{path}: expected {math.prod(shape)} bytes for the shape {shape} of its header, got {len(values)}; "
            "copy the file again"
        )
    return np.frombuffer(values, np.uint8).reshape(shape)


def read_idx_folder(folder: str | Path, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Reads the pictures (n, rows, columns) and the labels (n,) of one kind from a folder of IDX files.

    Arguments:
        folder: with files such as train-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte
        kind: "train" or "test"
    """
    starts = _TRAINING if kind == "train" else _TEST
    images, labels = (_find(Path(folder), starts, part) for part in ("images", "labels"))
    pixels, numbers = read_idx(images), read_idx(labels)
    if pixels.ndim != 3 or numbers.shape != pixels.shape[:1] or not pixels.size:
        raise ValueError(
            f"{folder}: expected pictures (n, rows, columns) and as many labels (n,), got {pixels.shape} in "
            f"{images.name} and {numbers.shape} in {labels.name}; take both files from one data set"
        )
    return pixels, numbers


def _find(folder: Path, starts: tuple[str, ...], part: str) -> Path:
    if not folder.is_dir():
        raise ValueError(f"{folder}: expected a folder with IDX files, got none; give the folder of the data set")
    found = [path for path in sorted(folder.iterdir()) if path.name.startswith(starts) and f"{part}-idx" in path.name]
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise ValueError(
            f"{folder}: expected one file such as {starts[-1]}-{part}-idx{3 if part == 'images' else 1}-ubyte.gz, got "
            f"{names}; leave one there"
        )
    return found[0]
