"""Tables: what is read, how one file is divided, and what is said of a bad one."""

import gzip
import lzma
import re

import pytest

from omegamax.data.tsv import read_rows, read_splits, split_of

COLUMNS = ("source", "target")


def table(n_rows):
    return "".join(f"eins {row}\tone {row}\n" for row in range(n_rows))


def test_rows_in_order_with_blank_lines_crlf_and_byte_order_mark(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_bytes("\ufeffà\tb\r\n\r\n c \td e\n\n".encode())
    assert read_rows(path, COLUMNS) == [("à", "b"), ("c", "d e")]


def test_other_line_separators_are_text(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text("a\u2028b\tc\x0bd\n", encoding="utf-8")
    assert read_rows(path, COLUMNS) == [("a\u2028b", "c\x0bd")]


def test_a_directory_has_three_files_compressed_or_not(tmp_path):
    (tmp_path / "train.tsv").write_text("a\tb\n")
    (tmp_path / "dev.tsv.gz").write_bytes(gzip.compress(b"c\td\n"))
    (tmp_path / "test.tsv").write_text("e\tf\n")
    assert read_splits(tmp_path, COLUMNS) == {"train": [("a", "b")], "dev": [("c", "d")], "test": [("e", "f")]}


def test_one_file_is_divided_by_what_its_inputs_are(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text(table(2000))
    splits = read_splits(path, COLUMNS)
    assert [len(splits[name]) for name in ("dev", "test")] == pytest.approx([200, 200], abs=50)
    assert sorted(row for rows in splits.values() for row in rows) == sorted(read_rows(path, COLUMNS))
    path.write_text(table(1000) + table(10))  # fewer rows, and some twice
    for name, rows in read_splits(path, COLUMNS).items():
        assert {row[0] for row in rows} <= {row[0] for row in splits[name]}
        assert all(split_of(row[0]) == name for row in rows)


@pytest.mark.parametrize(
    "content, complaint",
    [
        (b"a\tb\nc\n", r"t\.tsv, line 2: expected 2 columns separated by tabs \(source, target\), got 1; correct or"),
        (b"a\tb\n\nc\td\te\n", r"line 3: expected 2 columns .* got 3"),
        (b"a\tb\nc\t \n", r"line 2: the column target is empty; fill it in or remove the line"),
        (b"a\tb\n\xff\tc\n", r"line 2: not UTF-8 \(byte 0xff\); convert the file to UTF-8"),
        (b"a\tb\n", r"the \w+ split is empty, because none .*; add rows, or give a directory"),
        (b"", r"the train split is empty"),
    ],
)
def test_bad_files_are_refused_in_one_sentence(tmp_path, content, complaint):
    path = tmp_path / "t.tsv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=complaint) as error:
        read_splits(path, COLUMNS)
    assert str(error.value).startswith(str(path)) and "\n" not in str(error.value)


def test_a_malformed_line_is_named_by_its_number(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text(table(1233) + "no tab here\n" + table(10))
    with pytest.raises(ValueError, match=re.escape(f"{path}, line 1234: expected 2 columns")):
        read_splits(path, COLUMNS)


def test_missing_and_damaged_files(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no such file or directory; give a \.tsv file"):
        read_splits(tmp_path / "nowhere.tsv", COLUMNS)
    with pytest.raises(FileNotFoundError, match="no such file; check the path"):
        read_rows(tmp_path / "nowhere.tsv", COLUMNS)
    (tmp_path / "train.tsv").write_text("a\tb\n")
    with pytest.raises(FileNotFoundError, match=r"no dev\.tsv, dev\.tsv\.gz or dev\.tsv\.xz; there must be"):
        read_splits(tmp_path, COLUMNS)
    for module, ending in ((gzip, "gz"), (lzma, "xz")):
        for damaged in (b"something else", module.compress(table(50).encode())[:-20]):
            (tmp_path / f"t.tsv.{ending}").write_bytes(damaged)
            with pytest.raises(ValueError, match=f"not a whole .{ending} file"):
                read_splits(tmp_path / f"t.tsv.{ending}", COLUMNS)


def test_an_empty_file_of_a_directory(tmp_path):
    for name, content in (("train", "a\tb\n"), ("dev", "c\td\n"), ("test", "\n")):
        (tmp_path / f"{name}.tsv").write_text(content)
    with pytest.raises(ValueError, match="the test split is empty, because its file has no rows"):
        read_splits(tmp_path, COLUMNS)


def test_files_may_share_a_beginning(tmp_path):
    (tmp_path / "en-de.train.tsv.xz").write_bytes(lzma.compress(b"a\tb\n"))
    (tmp_path / "en-de.dev.tsv.gz").write_bytes(gzip.compress(b"c\td\n"))
    (tmp_path / "en-de.test.tsv").write_text("e\tf\n")
    (tmp_path / "en-fr.train.tsv").write_text("x\ty\n")
    found = read_splits(tmp_path / "en-de", COLUMNS)
    assert found == {"train": [("a", "b")], "dev": [("c", "d")], "test": [("e", "f")]}
    with pytest.raises(FileNotFoundError, match=r"en-fr: no dev\.tsv"):
        read_splits(tmp_path / "en-fr", COLUMNS)
