"""CoNLL-U: what is read is written back byte for byte, and a mistake is named with its line."""

import gzip
import itertools
import lzma
import random

import pytest

from omegamax.data.conllu import (
    looks_like_conllu,
    parse_conllu,
    read_conllu,
    sentence_of_words,
)
from omegamax.data.dependency_checks import find_cycle, is_projective, tree_problem
from omegamax.data.treebank import generate_treebank
from omegamax.data.treebank_files import check_lengths, read_treebank

ROW = "{}\t{}\t_\t{}\t_\t_\t{}\t{}\t_\t_"


def block(*heads, ids=None):
    rows = [ROW.format(word, f"w{word}", "X", head, "dep") for word, head in enumerate(heads, start=1)]
    return "\n".join(rows) + "\n\n"


ODD = (
    "\n# newdoc\n# text = a b\u2028c \n1-2\tab\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No\n"
    "1\ta\ta\tDET\tDT\tB=1|A=2\t2\tdet\t2:det|0.1:x\tz=1\n2\tb\u2028c\t_\tNOUN\t_\t_\t0\troot\t_\t_\n"
    "2.1\tghost\t_\t_\t_\t_\t_\t_\t1:nsubj\t_\n\n\n\r\n# second, with other line ends\r\n"
    "1\tGo\t_\t_\t_\t_\t0\troot\t_\t_\r\n\r\n# the last, unfinished\n1\tx y\t_\t_\t_\t_\t_\t_\t_\t_"
)


def test_the_texts_of_all_sentences_are_the_text_of_the_file():
    sentences = list(parse_conllu(ODD, "odd", check_trees=False))
    assert "".join(each.text for each in sentences) == ODD
    assert [each.forms for each in sentences] == [("a", "b\u2028c"), ("Go",), ("x y",)]
    assert [each.heads for each in sentences] == [(2, 0), (0,), None]
    assert sentences[0].upos == ("DET", "NOUN") and sentences[0].feats == ("B=1|A=2", "_")
    assert [each.line for each in sentences] == [1, 11, 14]


def test_only_heads_and_relations_change():
    first = next(parse_conllu(ODD, "odd", check_trees=False))
    changed = first.with_tree([0, 1], ["root", "obj"])
    pairs = [(old, new) for old, new in zip(first.lines, changed.lines, strict=True) if old != new]
    assert len(pairs) == 2
    for old, new in pairs:
        assert [at for at, (a, b) in enumerate(zip(old.split("\t"), new.split("\t"), strict=True)) if a != b] == [6, 7]
    assert first.with_tree(first.heads, first.relations).text == first.text
    noted = first.with_tree([0, 1], ["root", "obj"], ["P=1", "P=2"])
    assert "\tz=1|P=1\n" in noted.text and "\tP=2\n" in noted.text
    with pytest.raises(ValueError, match="each of 2 words, got 1 and 1"):
        first.with_tree([0], ["root"])
    commented = first.with_comments(["tree = 1"])
    assert commented.text.replace("# tree = 1\n", "") == first.text
    assert next(parse_conllu(commented.text, "again", check_trees=False)).forms == first.forms
    assert commented.with_tree([0, 1], ["root", "obj"]).text.count("root") == 1


@pytest.mark.parametrize("pack", [lambda data: data, gzip.compress, lzma.compress], ids=["plain", "gz", "xz"])
def test_files_may_be_compressed(tmp_path, pack):
    path = tmp_path / {gzip.compress: "a.conllu.gz", lzma.compress: "a.conllu.xz"}.get(pack, "a.conllu")
    path.write_bytes(pack(block(2, 0, 2).encode()))
    assert [each.heads for each in read_conllu(path)] == [(2, 0, 2)]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("1\ta\tb", "line 1234: expected 10 columns separated by tabs, got 3"),
        (ROW.format(2, "a", "X", 0, "root"), "line 1234: expected the ID 1"),
        (ROW.format("1-x", "a", "X", 0, "root"), "line 1234: expected the ID 1"),
        (ROW.format(1, "a", "X", "two", "root"), "line 1234: expected a HEAD from 0"),
        (ROW.format(1, "a", "X", 7, "root"), "line 1234: expected a HEAD from 0 .the root. to 1"),
        (ROW.format(1, "a", "X", -1, "root"), "line 1234: expected a HEAD"),
        (ROW.format(1, "", "X", 0, "root"), "line 1234: the column FORM is empty"),
        (ROW.format(1, "a", "X", 1, "dep"), "line 1234: the heads of the words 1 form a cycle"),
        (ROW.format("1-2", "a", "X", "_", "_"), "line 1234: expected words, got only comments"),
        (block(0, 0).rstrip(), "line 1235: expected one root, got 2, the words 1, 2"),
        (block(2, 3, 1, 0).rstrip(), "line 1234: the heads of the words 1, 2, 3 form a cycle"),
        (ROW.format(1, "a", "X", "_", "_"), "line 1234: the sentence has words without a head"),
    ],
)
def test_a_mistake_is_named_with_file_and_line_and_the_rest_is_kept(tmp_path, wrong, says):
    good = block(2, 0)  # three lines
    path = tmp_path / "bank.conllu"
    path.write_text(good * 411 + wrong + "\n\n" + good)
    with pytest.raises(ValueError, match=f"bank.conllu, {says}"):
        read_conllu(path)
    messages = []
    assert len(read_conllu(path, on_error=messages.append)) == 412
    assert len(messages) == 1 and "\n" not in messages[0]


def test_comments_without_words_belong_to_the_next_sentence():
    text = block(0) + "# alone\n\n" + block(0)
    assert "".join(each.text for each in parse_conllu(text, "x")) == text
    with pytest.raises(ValueError, match="x, line 3: expected words, got only comments"):
        list(parse_conllu(block(0) + "# cut off\n", "x"))


def test_words_and_detection():
    sentence = sentence_of_words(["Go", "!"])
    assert sentence.forms == ("Go", "!") and sentence.heads is None
    assert looks_like_conllu(["# c", "", ROW.format(1, "a", "X", 0, "root")])
    assert not looks_like_conllu(["Go !"]) and not looks_like_conllu([])


def trees(n):
    """All heads of n words, by trying each."""
    return itertools.product(range(n + 1), repeat=n)


def reaches_root(heads, word):
    for _ in range(len(heads) + 1):
        if word == 0:
            return True
        word = heads[word - 1]
    return False


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_trees_by_brute_force(n):
    n_trees = n_projective = 0
    for heads in trees(n):
        right = heads.count(0) == 1 and all(reaches_root(heads, word) for word in range(1, n + 1))
        assert (tree_problem(heads) is None) == right
        assert bool(find_cycle(heads)) == (not all(reaches_root(heads, word) for word in range(1, n + 1)))
        n_trees += right
        arcs = [tuple(sorted((word, head))) for word, head in enumerate(heads, start=1)]
        crossing = any(a < c < b < d for a, b in arcs for c, d in arcs)
        assert is_projective(heads) == (not crossing)
        n_projective += right and not crossing
    assert n_trees == n ** (n - 1)  # single-root trees
    assert n_projective == [1, 2, 7, 30][n - 1]  # C(3n − 2, n − 1) / n


def test_the_generated_treebank_is_deterministic_and_ambiguous():
    train = generate_treebank(600, "train", seed=3)
    assert [each.text for each in train] == [each.text for each in generate_treebank(600, "train", seed=3)]
    assert [each.text for each in train] != [each.text for each in generate_treebank(600, "dev", seed=3)]
    assert all(tree_problem(each.heads) is None for each in train)
    crossing = sum(not is_projective(each.heads) for each in train)
    assert 600 / 24 < crossing < 600 / 6
    tools = {"telescope", "camera", "ladder", "lens", "torch", "microphone"}
    relations = [r for each in train for w, r in zip(each.forms, each.relations) if w in tools]
    assert min(relations.count("obl"), relations.count("nmod")) > len(relations) / 4  # no parser can know


def test_splits_of_a_treebank(tmp_path):
    for split, text in {"train": block(0), "dev": block(0, 1), "test": block(2, 0)}.items():
        (tmp_path / f"xx_bank-ud-{split}.conllu").write_text(text)
    found = read_treebank(tmp_path)
    assert {split: each[0].heads for split, each in found.items()} == {"train": (0,), "dev": (0, 1), "test": (2, 0)}
    three = ",".join(str(tmp_path / f"xx_bank-ud-{split}.conllu") for split in ("train", "dev", "test"))
    assert {split: each[0].heads for split, each in read_treebank(three).items()} == {
        split: each[0].heads for split, each in found.items()
    }
    (tmp_path / "yy-train.conllu").write_text(block(0))
    with pytest.raises(FileNotFoundError, match=r"ends in train\.conllu.*got 2"):
        read_treebank(tmp_path)
    with pytest.raises(FileNotFoundError, match="no such file or directory"):
        read_treebank(tmp_path / "none")
    (tmp_path / "empty.conllu").write_text("")
    with pytest.raises(ValueError, match=r"empty.conllu: expected sentences, got an empty file"):
        read_treebank(tmp_path / "empty.conllu")
    with pytest.raises(ValueError, match="expected three files"):
        read_treebank("a,b")


def test_one_file_is_divided_by_its_words(tmp_path):
    random.seed(0)
    text = "".join(each.text for each in generate_treebank(300, "train"))
    (tmp_path / "one.conllu").write_text(text)
    found = read_treebank(tmp_path / "one.conllu")
    words = {split: {each.forms for each in sentences} for split, sentences in found.items()}
    assert sum(map(len, found.values())) == 300
    assert not words["train"] & words["dev"] and not words["train"] & words["test"]


@pytest.mark.slow
def test_a_million_words_are_refused_in_one_sentence():
    sentence = sentence_of_words(["word"] * 1_000_000)
    with pytest.raises(
        ValueError, match="file, line 1: expected at most 2000 words in a sentence, got 1000000; divide"
    ):
        check_lengths([sentence], "file")
