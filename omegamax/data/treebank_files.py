"""The splits of a treebank: a directory, three files, or one file that is divided.

A directory has one file for each of train, dev and test: `train.conllu`, or a name that ends so, as those of Universal
Dependencies do (`en_ewt-ud-train.conllu`), also compressed (.gz, .xz). Three paths are written with commas between
them. The sentences of a single file are divided by a hash of their words, so that equal sentences are in the same
split.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from omegamax.data.conllu import MAX_WORDS, ConlluSentence, read_conllu
from omegamax.data.tsv import SPLITS, split_of

_ENDINGS = (".conllu", ".conllu.gz", ".conllu.xz")


def read_treebank(
    path: str | Path, *, on_error: Callable[[str], None] | None = None, check_trees: bool = True
) -> dict[str, list[ConlluSentence]]:
    """Reads the sentences of "train", "dev" and "test", in the order of the files.

    Arguments:
        path: a directory, a file, or three files with commas between them
        on_error: called with the message of each mistake, after which reading goes on; None raises ValueError
        check_trees: whether the heads of each sentence must be a tree with one root
    """

    def sentences(file: Path) -> list[ConlluSentence]:
        found = read_conllu(file, on_error=on_error, check_trees=check_trees)
        if not found and on_error is None:
            raise ValueError(f"{file}: expected sentences, got an empty file; check the path")
        return found

    files = treebank_files(path)
    if isinstance(files, dict):
        return {split: sentences(file) for split, file in files.items()}
    divided: dict[str, list[ConlluSentence]] = {split: [] for split in SPLITS}
    for sentence in sentences(files):
        divided[split_of(" ".join(sentence.forms))].append(sentence)
    for split, found in divided.items():
        if not found and on_error is None:
            raise ValueError(
                f"{path}: no sentence of the file fell to the {split} split; add sentences, or give three files"
            )
    return divided


def check_lengths(sentences: list[ConlluSentence], name: str) -> None:
    """Raises ValueError for a sentence with too many words to parse in reasonable time and memory.

    Arguments:
        sentences: to look at
        name: of the file, in the message
    """
    for sentence in sentences:
        if len(sentence.forms) > MAX_WORDS:
            raise ValueError(
                f"{name}, line {sentence.line}: expected at most {MAX_WORDS} words in a sentence, "
                f"got {len(sentence.forms)}; divide the sentence"
            )


def treebank_files(path: str | Path) -> dict[str, Path] | Path:
    """Returns the files of the three splits, or the single file."""
    named = [Path(part.strip()) for part in str(path).split(",")]
    if len(named) > 1 and not Path(path).exists():
        if len(named) != len(SPLITS):
            raise ValueError(f"{path}: expected three files, {', '.join(SPLITS)}, got {len(named)}; give all three")
        return dict(zip(SPLITS, named))
    path = Path(path)
    if not path.is_dir():
        if not path.exists():
            raise FileNotFoundError(
                f"{path}: no such file or directory; give a .conllu file, or a directory with train.conllu, dev.conllu "
                "and test.conllu"
            )
        return path
    return {split: _file_of(path, split) for split in SPLITS}


def _file_of(directory: Path, split: str) -> Path:
    for ending in _ENDINGS:
        if (directory / f"{split}{ending}").is_file():
            return directory / f"{split}{ending}"
    found = sorted(
        file
        for ending in _ENDINGS
        for sign in "-_."
        for file in directory.glob(f"*{sign}{split}{ending}")
        if file.is_file()
    )
    if len(found) != 1:
        came = "none" if not found else f"{len(found)}, such as {found[0].name} and {found[1].name}"
        raise FileNotFoundError(
            f"{directory}: expected one file whose name ends in {split}.conllu, also with .gz or .xz, got {came}; "
            "name the three files with commas between them"
        )
    return found[0]
