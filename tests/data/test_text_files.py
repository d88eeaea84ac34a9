"""Running text from files: which lines belong to which split, and what is refused."""

import gzip
import lzma

import pytest

from omegamax.data.text_files import read_lines, text_splits
from omegamax.data.tsv import SPLITS

TEXT = "".join(f"line {number}\n" for number in range(40))


def contents(path, column=0):
    return {split: list(lines()) for split, lines in text_splits(path, column).items()}


def test_a_text_is_divided_in_order(tmp_path):
    (tmp_path / "book.txt").write_text(TEXT)
    found = contents(tmp_path / "book.txt")
    assert [line for split in SPLITS for line in found[split]] == TEXT.splitlines()
    assert [len(found[split]) for split in SPLITS] == [32, 4, 4]


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_compressed_files_read_alike(tmp_path, ending):
    path = tmp_path / f"book.txt{ending}"
    write = {"": lambda p, d: p.write_bytes(d), ".gz": lambda p, d: p.write_bytes(gzip.compress(d))}
    write.get(ending, lambda p, d: p.write_bytes(lzma.compress(d)))(path, TEXT.encode())
    assert list(read_lines(path)) == TEXT.splitlines()


def test_a_directory_and_a_common_beginning_name_three_files(tmp_path):
    for split in SPLITS:
        (tmp_path / f"{split}.txt").write_text(f"text of {split}\n")
        (tmp_path / f"en-de.{split}.tsv.gz").write_bytes(gzip.compress(f"one {split}\tzwei {split}\n".encode()))
    assert contents(tmp_path) == {split: [f"text of {split}"] for split in SPLITS}
    assert contents(tmp_path / "en-de", 2) == {split: [f"zwei {split}"] for split in SPLITS}


def test_rows_of_a_table_are_divided_by_their_text(tmp_path):
    rows = [f"{number}\tword {number % 30}\n" for number in range(90)]
    (tmp_path / "t.tsv").write_text("\n".join(rows))  # with blank lines between them
    found = contents(tmp_path / "t.tsv", 2)
    assert sum(map(len, found.values())) == 90
    assert not set(found["train"]) & set(found["test"]) and not set(found["train"]) & set(found["dev"])


def test_line_ends_marks_and_tabs(tmp_path):
    (tmp_path / "t.txt").write_bytes("\ufeffa\tb\r\n\nc\u2028d".encode())
    assert list(read_lines(tmp_path / "t.txt")) == ["a b", "", "c\u2028d"]


@pytest.mark.parametrize(
    ("name", "content", "column", "complaint"),
    [
        ("t.txt", b"good\nb\xffd\n", 0, "t.txt, line 2: not UTF-8 .byte 0xff.; convert"),
        ("t.txt.gz", b"no gzip", 0, "t.txt.gz: not a whole .gz file"),
        ("t.txt.xz", lzma.compress(b"a\n" * 1000)[:-20], 0, "t.txt.xz: not a whole .xz file"),
        ("t.tsv", b"a\tb\nc\n", 2, "t.tsv, line 2: expected at least 2 columns separated by tabs, got 1"),
        ("t.txt", b"one line\n", 0, "the train split has no lines; add some"),
        ("t.txt", b"", 0, "the train split has no lines"),
    ],
)
def test_bad_files_are_refused_in_one_sentence(tmp_path, name, content, column, complaint):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=complaint) as error:
        contents(tmp_path / name, column)
    assert "\n" not in str(error.value)


def test_what_is_not_there_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no such file or directory; give a text file"):
        text_splits(tmp_path / "nowhere")
    (tmp_path / "train.txt").write_text("a\n")
    with pytest.raises(FileNotFoundError, match=r"no dev\.txt or dev\.tsv"):
        text_splits(tmp_path)


def test_endless_lines_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("omegamax.data.text_files._LINE_BYTES", 10)
    (tmp_path / "t.txt").write_text("a\nb\n" + "x" * 20)
    with pytest.raises(ValueError, match="line 3: expected at most 10 bytes, got more"):
        list(read_lines(tmp_path / "t.txt"))
    monkeypatch.setattr("omegamax.data.text_files._MAX_BYTES", 3)
    with pytest.raises(ValueError, match="of text, got more; divide the file"):
        list(read_lines(tmp_path / "t.txt"))
