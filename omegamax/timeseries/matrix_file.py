"""A matrix in a file that is computed block by block, and continued after the process was killed.

    out.npy              the numbers, mapped into memory
    out.npy.begun.json   what is computed: a key of the series and options
    out.npy.done         one byte per block: 1 if it is in the file

The two small files are written whole or not at all, the second only after the blocks that it names are on the disk.
Both are deleted when the matrix is complete.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from omegamax.data.files import write_user_file

_FORMAT = 1


class MatrixFile:
    """A new or continued matrix of a shape and type in a file.

    Arguments:
        path: ends in .npy
        shape: of the matrix
        dtype: of its numbers
        key: a text that is the same for the same series and options only
        n_blocks: how many blocks there are
        overwrite: whether to begin again in a file that is there
    """

    def __init__(
        self, path: Any, *, shape: tuple[int, ...], dtype: Any, key: str, n_blocks: int, overwrite: bool
    ) -> None:
        self.path = Path(path)
        self._begun = self.path.with_name(self.path.name + ".begun.json")
        self._done = self.path.with_name(self.path.name + ".done")
        if self.path.suffix != ".npy":
            raise ValueError(f"cdist: out must be the name of a .npy file, got {self.path.name!r}; add .npy")
        if not self.path.parent.is_dir():
            raise ValueError(f"cdist: the folder of out must exist, got {self.path.parent}; make it first")
        about = {
            "format": _FORMAT,
            "key": key,
            "n_blocks": n_blocks,
            "shape": list(shape),
            "dtype": str(np.dtype(dtype)),
        }
        if overwrite:
            for old in (self._begun, self._done, self.path):
                old.unlink(missing_ok=True)
        if self._begun.exists():
            self._continue(about)
        elif self.path.exists():
            raise ValueError(f"cdist: out must be a new file, got {self.path.name}, which exists; say overwrite=True")
        else:
            self._begin(about, shape, np.dtype(dtype), n_blocks)

    def is_done(self, block: int) -> bool:
        """Says whether a block is in the file."""
        return bool(self.done[block])

    def save(self, blocks: list[int]) -> None:
        """Brings the matrix to the disk, then notes that these blocks are there."""
        self.matrix.flush()
        self.done[blocks] = 1
        write_user_file(self._done, self.done.tobytes())

    def finish(self) -> np.ndarray:
        """Deletes the notes and returns the matrix, mapped into memory."""
        self.matrix.flush()
        self._begun.unlink()
        self._done.unlink(missing_ok=True)
        return self.matrix

    def _begin(self, about: dict[str, Any], shape: tuple[int, ...], dtype: np.dtype, n_blocks: int) -> None:
        needed, free = int(np.prod(shape)) * dtype.itemsize, shutil.disk_usage(self.path.parent).free
        if needed > free:
            raise ValueError(
                f"cdist: out needs {needed / 1e9:.1f} GB, but {free / 1e9:.1f} GB are free on its disk; choose another "
                'disk, dtype="float32" or condensed=True'
            )
        # The note comes first: a file without it would look like somebody's finished matrix.
        write_user_file(self._begun, json.dumps(about).encode())
        self.matrix = np.lib.format.open_memmap(self.path, mode="w+", dtype=dtype, shape=shape)
        self.done = np.zeros(n_blocks, dtype=np.uint8)

    def _continue(self, about: dict[str, Any]) -> None:
        try:
            before = json.loads(self._begun.read_text())
        except ValueError:
            before = None
        if before != about:
            raise ValueError(
                f"cdist: {self.path.name} was begun with other series or options, and is not finished; choose another "
                "out, or say overwrite=True"
            )
        shape, dtype, n_blocks = tuple(about["shape"]), np.dtype(about["dtype"]), about["n_blocks"]
        try:
            self.matrix = np.lib.format.open_memmap(self.path, mode="r+")
            self.done = np.frombuffer(self._done.read_bytes(), dtype=np.uint8).copy()
            whole = self.matrix.shape == shape and self.matrix.dtype == dtype and self.done.shape == (n_blocks,)
        except (OSError, ValueError):
            whole = False
        if not whole:  # killed before the first block was there
            self.matrix = np.lib.format.open_memmap(self.path, mode="w+", dtype=dtype, shape=shape)
            self.done = np.zeros(n_blocks, dtype=np.uint8)
