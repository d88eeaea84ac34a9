"""Pairs of sentences in files, against files written by hand."""

import gzip
import json
import lzma

import pytest

from omegamax.data.sentence_pairs import SentencePair, make_pair, read_pair_splits, read_pairs

DOG = SentencePair(("A", "dog", "runs", "."), ("An", "animal", "moves"), "entailment")
CAT = SentencePair(("A", "cat", "."), ("No", "cat"), "contradiction")

SNLI_TXT = (
    "gold_label\tsentence1_binary_parse\tsentence1\tsentence2\tcaptionID\tlabel1\tlabel2\n"
    "entailment\t( A ( dog ) )\tA dog runs.\tAn animal moves\t1.jpg#1\tentailment\n"
    "-\t( x )\tSomething.\tElse.\t2.jpg\tneutral\tentailment\n"
    "contradiction\t( A )\tA cat.\tNo cat\t3.jpg\tcontradiction\tneutral\n"
)


def json_lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", SNLI_TXT),
        (
            "a.tsv",
            "sentence1\tsentence2\tgold_label\n"
            "A dog runs.\tAn animal moves\tentailment\nA cat.\tNo cat\tcontradiction\n",
        ),
        (
            "a.tsv",
            "\ufeffHypothesis\tLabel\tPremise\r\n"
            "An animal moves\tentailment\tA dog runs .\r\n\r\nNo cat\tcontradiction\tA cat.\r\n",
        ),
        (
            "a.jsonl",
            json_lines(
                {"gold_label": "entailment", "sentence1": "A dog runs.", "sentence2": "An animal moves", "pairID": 3},
                {"gold_label": "-", "sentence1": "x", "sentence2": "y"},
                {"gold_label": "contradiction", "sentence1": "A cat.", "sentence2": "No cat"},
            ),
        ),
    ],
)
@pytest.mark.parametrize("packed", ["", ".gz", ".xz"])
def test_every_form_is_read(tmp_path, name, text, packed):
    path = tmp_path / (name + packed)
    path.write_bytes({"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[packed](text.encode()))
    found = read_pairs(path)
    assert found.pairs == [DOG, CAT]
    assert found.n_unlabelled == text.count('"-"') + text.count("-\t")


def test_numbers_as_labels(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json_lines(*({"label": n, "premise": "a b", "hypothesis": "c"} for n in (0, 2, -1, 1))))
    found = read_pairs(path)
    assert [pair.target for pair in found.pairs] == ["0", "2", "1"] and found.n_unlabelled == 1


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", "entailment\tA\tB\n", r"line 1: expected a column sentence1 or premise or text for the premise, got"),
        ("a.tsv", "label\tpremise\nx\ty\n", r"line 1: expected a column sentence2 or hypothesis"),
        (
            "a.tsv",
            "label\tpremise\thypothesis\nx\ty\n",
            r"line 2: expected 3 columns separated by tabs, as in the header, got 2",
        ),
        ("a.tsv", "label\tpremise\thypothesis\nx\t \ty\n", r"line 2: the premise has no words, got ''"),
        (
            "a.tsv",
            "label\tpremise\thypothesis\nx\ty\t" + "w " * 1001 + "\n",
            r"line 2: the hypothesis must have at most 1000 words, got 1001",
        ),
        ("a.jsonl", "{}\n", r"line 1: expected a column sentence1"),
        ("a.jsonl", "[1]\n", r"line 1: expected an object, got \[1\]"),
        ("a.jsonl", "{,}\n", r"line 1: not JSON"),
        (
            "a.jsonl",
            json_lines({"label": "x", "premise": None, "hypothesis": "b"}),
            r"premise must be a text, got None",
        ),
        ("a.jsonl", json_lines({"label": True, "premise": "a", "hypothesis": "b"}), r"label must be a text, got True"),
        (
            "a.jsonl",
            json_lines({"label": "x", "premise": "a \ud83d", "hypothesis": "b"}),
            r"line 1: the premise has half of a surrogate pair",
        ),
        ("a.tsv.gz", "not compressed", r"not a whole .gz file"),
    ],
)
def test_bad_files_are_named(tmp_path, name, text, message):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as error:
        read_pairs(path)
    assert str(path) in str(error.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_pairs(tmp_path / "none.tsv")
    with pytest.raises(FileNotFoundError, match=r"no file for dev, such as dev\.tsv"):
        (tmp_path / "train.tsv").write_text("x")
        read_pair_splits(tmp_path)
    with pytest.raises(ValueError, match="got 4"):
        read_pair_splits("a,b,c,d")


def table(path, n, label="neutral", start=0):
    rows = [f"{label}\tpremise number {n_pair // 3} .\thypothesis {n_pair}" for n_pair in range(start, start + n)]
    path.write_text("\n".join(["gold_label\tsentence1\tsentence2", *rows]))
    return path


def test_a_directory_has_a_file_for_each_split(tmp_path):
    table(tmp_path / "snli_1.0_train.txt", 9)
    table(tmp_path / "snli_1.0_dev.txt", 3)
    table(tmp_path / "test.tsv", 6)
    (tmp_path / "snli_1.0_train.jsonl").write_text(
        json_lines(
            {"gold_label": "x", "sentence1": "a", "sentence2": "b"},
            {"gold_label": "-", "sentence1": "a", "sentence2": "b"},
        )
    )
    splits, n_unlabelled = read_pair_splits(tmp_path)
    assert {split: len(pairs) for split, pairs in splits.items()} == {"train": 1, "dev": 3, "test": 6}
    assert n_unlabelled == {"train": 1, "dev": 0, "test": 0}
    table(tmp_path / "mnli_train.jsonl", 1)
    with pytest.raises(ValueError, match=r"one file for train, got mnli_train\.jsonl, snli_1\.0_train\.jsonl"):
        read_pair_splits(tmp_path)


def test_one_file_is_divided_by_its_premises(tmp_path):
    path = table(tmp_path / "all.tsv", 300)
    splits, _ = read_pair_splits(path)
    premises = [{pair.premise for pair in pairs} for pairs in splits.values()]
    assert sum(map(len, splits.values())) == 300 and sum(map(len, premises)) == 100
    assert len(splits["train"]) > 200


def test_two_files_are_train_and_test(tmp_path):
    first, second = table(tmp_path / "a.tsv", 300), table(tmp_path / "b.tsv", 30, start=1000)
    splits, _ = read_pair_splits(f"{first},{second}")
    assert len(splits["test"]) == 30 and len(splits["train"]) + len(splits["dev"]) == 300
    assert 0 < len(splits["dev"]) < 80
    one, _ = read_pair_splits(first)
    assert splits["dev"] == one["dev"]  # the tenth that was for testing is now for training
    three, _ = read_pair_splits(f"{first},{second},{second}")
    assert [len(pairs) for pairs in three.values()] == [300, 30, 30]


def test_texts_and_tokens_give_the_same_words():
    assert (
        make_pair("Two dogs aren't asleep.", "It's 5.30!")[:2]
        == make_pair("Two dogs are n't asleep .", "It 's 5.30 !")[:2]
    )
