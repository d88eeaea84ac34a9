"""Pictures from PNG files and arrays, smaller ones, folders of formulas, and files that are wrong."""

import io
import tarfile

import numpy as np
import pytest

from omegamax.data.formula_pictures import ink_of, read_formulas, split_formula
from omegamax.data.pictures import read_picture, shrink

GREY = np.array([[0, 51, 255], [102, 204, 0]], np.uint8)


def save_png(path, pixels):
    image = pytest.importorskip("matplotlib.image")
    image.imsave(path, pixels, cmap="gray", vmin=0, vmax=255, format="png")


def test_arrays(tmp_path):
    np.save(tmp_path / "a.npy", GREY)
    np.save(tmp_path / "b.npy", GREY / 255)
    for name in ("a.npy", "b.npy"):
        found = read_picture(tmp_path / name)
        np.testing.assert_allclose(found, GREY / 255, atol=1e-7)
        assert found.dtype == np.float32


def test_png_files(tmp_path):
    save_png(tmp_path / "grey.png", GREY)
    np.testing.assert_allclose(read_picture(tmp_path / "grey.png"), GREY / 255, atol=1e-6)
    colours = np.zeros((1, 3, 4), np.uint8)
    colours[0, 0] = (255, 0, 0, 255)  # a third of the light
    colours[0, 1] = (0, 0, 0, 0)  # transparent: white
    colours[0, 2] = (0, 0, 0, 255)
    save_png(tmp_path / "colours.png", colours)
    np.testing.assert_allclose(read_picture(tmp_path / "colours.png"), [[1 / 3, 1, 0]], atol=1e-6)


def test_wrong_pictures(tmp_path):
    for wrong, message in (
        (GREY[0], r"expected a picture \(H, W\)"),
        (GREY[:0], r"expected a picture \(H, W\)"),
        (2.0 * GREY, "expected numbers from 0 to 1"),
        (GREY * np.nan, "expected numbers from 0 to 1"),
        (GREY.astype(object), "expected an array of NumPy"),
        (GREY.astype(str), "expected an array of numbers"),
    ):
        np.save(tmp_path / "wrong.npy", wrong)
        with pytest.raises(ValueError, match=message):
            read_picture(tmp_path / "wrong.npy")
    pytest.importorskip("matplotlib")
    (tmp_path / "text.png").write_text("a picture")
    with pytest.raises(ValueError, match=r"text\.png: expected a PNG file"):
        read_picture(tmp_path / "text.png")
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_picture(tmp_path / "none.png")


def test_smaller_pictures():
    picture = np.random.default_rng(0).random((7, 5))
    found = shrink(picture, 3)
    assert found.shape == (3, 2)
    np.testing.assert_allclose(found[0, 0], picture[:3, :3].mean(), rtol=1e-6)
    np.testing.assert_allclose(found[2, 1], picture[6:, 3:].sum() / 9, rtol=1e-6)
    assert ink_of(np.ones((4, 4)), 2).tolist() == [[0, 0], [0, 0]] and ink_of(np.zeros((2, 2)), 2).tolist() == [[255]]


def test_formulas_are_split():
    assert split_formula(r"x^{2}\, \leq\alpha \\ \label{eq:1}") == [*"x^{2}", r"\,", r"\leq", r"\alpha", r"\\"]


@pytest.mark.parametrize("packed", [True, False])
def test_a_folder_of_formulas(tmp_path, packed):
    pytest.importorskip("matplotlib")
    for number, split in enumerate(("train", "dev", "test")):
        (tmp_path / f"{split}.tsv").write_text(f"image\tformula\n{split}.png\tx_{number}\nempty.png\t\\label{{a}}\n")
        (tmp_path / "images").mkdir(exist_ok=True)
        save_png(tmp_path / "images" / f"{split}.png", np.full((4, 6), 85 * number, np.uint8))
    if packed:
        with tarfile.open(tmp_path / "images.tar", "w") as files:
            for path in sorted((tmp_path / "images").iterdir()):
                files.add(path, path.name)
                path.unlink()
    found = read_formulas(tmp_path, factor=2)
    assert [each.tokens for split in found.values() for each in split] == [("x", "_", str(n)) for n in range(3)]
    assert [each.ink.tolist() for (each,) in found.values()] == [[[255 - 85 * n] * 3] * 2 for n in range(3)]
    (tmp_path / "dev.tsv").write_text("image\tformula\nother.png\tx\n")
    with pytest.raises(ValueError, match=r"expected the picture 'other\.png' in images\.tar or images/"):
        read_formulas(tmp_path, factor=2)


def test_wrong_folders(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such directory"):
        read_formulas(tmp_path / "none", factor=2)
    with pytest.raises(FileNotFoundError, match=r"train\.tsv: no such file"):
        read_formulas(tmp_path, factor=2)
    (tmp_path / "train.tsv").write_text("image\tformula\na.png x\n")
    with pytest.raises(ValueError, match=r"line 2 must be a picture's name, a tab and its formula"):
        read_formulas(tmp_path, factor=2)
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.tsv").write_text("image\tformula\n../a.png\tx\n")
    with pytest.raises(ValueError, match="expected the picture"):
        read_formulas(tmp_path, factor=2)
    (tmp_path / "images.tar").write_bytes(io.BytesIO(b"no archive" * 100).getvalue())
    with pytest.raises(ValueError, match="expected a tar archive"):
        read_formulas(tmp_path, factor=2)
