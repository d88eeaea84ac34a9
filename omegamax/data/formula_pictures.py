r"""Pictures of formulas and the LaTeX that they were made from, as in the sample of im2latex (Deng et al., ICML 2017).

    a folder    train.tsv, dev.tsv and test.tsv, each with a header and lines of a file name, a tab and a formula;
                and the pictures, black on white, in images.tar or in a folder images
    a formula   "\alpha_1^2" is the tokens \alpha _ 1 ^ 2

Labels are left out, because they cannot be seen, and so are lines without a formula.
"""

from __future__ import annotations

import re
import tarfile
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import numpy as np

from omegamax.data.pictures import read_picture, read_png, shrink
from omegamax.data.printable import short_repr

_LABEL = re.compile(r"\\label\s*\{[^}]*\}")
_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|\S")
_MAX_FILES = 1_000_000


class FormulaPicture(NamedTuple):
    """A formula and its picture."""

    tokens: tuple[str, ...]
    name: str  # of the file
    ink: np.ndarray  # (H, W), bytes: 0 is white, 255 black

    def __repr__(self) -> str:
        return f"FormulaPicture({self.tokens!r}, {self.name!r}, {self.ink.shape}, {int(self.ink.sum())})"


def split_formula(text: str) -> list[str]:
    r"""Splits LaTeX into commands and single characters.

    >>> split_formula(r"\alpha_1 \, x\label{a}")
    ['\\alpha', '_', '1', '\\,', 'x']
    """
    return _TOKEN.findall(_LABEL.sub("", text))


def ink_of(grey: np.ndarray, factor: int) -> np.ndarray:
    """Returns how black a picture on white is, made smaller, as bytes.

    Arguments:
        grey: (H, W), from 0 (black) to 1 (white)
        factor: how many times smaller
    """
    return np.rint(255 * shrink(1 - grey, factor)).astype(np.uint8)


def read_formulas(folder: str | Path, *, factor: int) -> dict[str, list[FormulaPicture]]:
    """Reads the formulas of each split, in the order of the tables.

    Arguments:
        folder: with the tables and the pictures
        factor: how many times smaller the pictures become
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: no such directory; give one with train.tsv and images.tar")
    tables = {split: _read_table(folder / f"{split}.tsv") for split in ("train", "dev", "test")}
    pictures = _read_pictures(folder, {name for rows in tables.values() for name, _ in rows}, factor)
    return {
        split: [FormulaPicture(tuple(split_formula(text)), name, pictures[name]) for name, text in rows]
        for split, rows in tables.items()
    }


def _read_table(path: Path) -> list[tuple[str, str]]:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; write lines of a picture's name, a tab and its formula")
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").rstrip("\n").split("\n")[1:], 2):
        name, tab, formula = line.partition("\t")
        if not tab:
            raise ValueError(
                f"{path}: line {number} must be a picture's name, a tab and its formula, got {short_repr(line)}; fix it"
            )
        if split_formula(formula):  # im2latex has pages without any
            rows.append((name, formula))
    return rows


def _read_pictures(folder: Path, names: set[str], factor: int) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    archive = folder / "images.tar"
    if archive.is_file():
        try:
            with tarfile.open(archive) as files:
                for count, member in enumerate(files):
                    if count > _MAX_FILES:
                        raise ValueError(f"{archive}: expected at most {_MAX_FILES} files, got more; divide it")
                    name = Path(member.name).name
                    opened = files.extractfile(member) if name in names and member.isfile() else None
                    if opened is not None:
                        found[name] = ink_of(read_png(cast(BinaryIO, opened), f"{archive}: {name}"), factor)
        except tarfile.TarError as error:
            raise ValueError(f"{archive}: expected a tar archive, got {error}; pack it again") from None
    for name in names - found.keys():
        if Path(name).name != name or not (folder / "images" / name).is_file():
            raise ValueError(f"{folder}: expected the picture {short_repr(name)} in images.tar or images/; add it")
        found[name] = ink_of(read_picture(folder / "images" / name), factor)
    return found
