"""IDX files: what is written by hand is read, compressed or not; broken files and folders."""

import gzip
import struct

import numpy as np
import pytest

from omegamax.data.idx import read_idx, read_idx_folder


def content(values):
    return struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape) + values.tobytes()


@pytest.fixture
def folder(tmp_path):
    pixels, labels = np.arange(24, dtype=np.uint8).reshape(4, 2, 3), np.array([3, 0, 1, 3], np.uint8)
    for start in ("train", "t10k"):
        (tmp_path / f"{start}-images-idx3-ubyte.gz").write_bytes(gzip.compress(content(pixels)))
        (tmp_path / f"{start}-labels-idx1-ubyte").write_bytes(content(labels))
    return tmp_path


def test_files_and_folders(folder):
    np.testing.assert_array_equal(read_idx(folder / "train-images-idx3-ubyte.gz"), np.arange(24).reshape(4, 2, 3))
    for kind in ("train", "test"):
        pixels, labels = read_idx_folder(folder, kind)
        assert pixels.shape == (4, 2, 3) and labels.tolist() == [3, 0, 1, 3]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (b"", "expected an IDX file of unsigned bytes"),
        (b"\0\0\x0d\1\0\0\0\0", "expected an IDX file of unsigned bytes"),  # floats
        (b"\0\0\x08\3\0\0\0\1", "expected an IDX file of unsigned bytes"),  # the header ends early
        (struct.pack(">BBBBI", 0, 0, 8, 1, 5) + b"1234", r"expected 5 bytes for the shape \(5,\) of its header, got 4"),
        (gzip.compress(b"something", mtime=0)[:-6], "got a broken gzip file"),
    ],
)
def test_broken_files(tmp_path, wrong, message):
    (tmp_path / "a").write_bytes(wrong)
    with pytest.raises(ValueError, match=message):
        read_idx(tmp_path / "a")


def test_wrong_folders(folder, tmp_path):
    with pytest.raises(ValueError, match="expected a folder with IDX files"):
        read_idx_folder(folder / "none", "train")
    (folder / "t10k-labels-idx1-ubyte").write_bytes(content(np.zeros(3, np.uint8)))
    with pytest.raises(ValueError, match="as many labels"):
        read_idx_folder(folder, "test")
    (folder / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(ValueError, match=r"expected one file such as t10k-labels-idx1-ubyte\.gz, got none"):
        read_idx_folder(folder, "test")
