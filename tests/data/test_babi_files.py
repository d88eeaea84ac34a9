"""Questions about stories: the format of bAbI, its errors, and generated stories against a slow reader of them."""

import gzip

import pytest

from omegamax.data.babi import StoryQuestion, parse_stories, read_babi, words_of
from omegamax.data.errands import ONE_FACT, PEOPLE, PLACES, THINGS, TWO_FACTS, generate_errands

TEXT = """\
1 Mary moved to the bathroom.
2 John went to the hallway.
3 Where is Mary? \tbathroom\t1
4 John took the milk.
5 Where is the milk? \thallway\t4 2
1 Daniel's dog ran north-east.
2 How do you go? \tn,E\t1
"""


def parse(text, **options):
    return [
        question for each in parse_stories(enumerate(text.splitlines(), 1), "x.txt", **options) for question in each
    ]


def test_words():
    assert words_of("Where is Mary? ") == ("where", "is", "mary")
    assert words_of("Daniel's dog ran north-east.") == ("daniel's", "dog", "ran", "north-east")


def test_stories_questions_and_facts():
    first, second, third = parse(TEXT, task=7)
    assert first.story == (("mary", "moved", "to", "the", "bathroom"), ("john", "went", "to", "the", "hallway"))
    assert first.question == ("where", "is", "mary") and first.target == "bathroom" and first.facts == (0,)
    assert len(second.story) == 3 and second.facts == (2, 1)  # line 4 is the third sentence: line 3 is a question
    assert third.story == (("daniel's", "dog", "ran", "north-east"),) and third.target == "n,e"
    assert {each.task for each in (first, second, third)} == {7}


def test_lines_without_numbers_and_answers():
    found = parse("Ada took the lamp.\nAda went out.\nWhere is the lamp?\n\nBo came.\nWho came?\n")
    assert [len(each.story) for each in found] == [2, 1]
    assert all(each.target == "" and each.facts == () for each in found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 Where is Mary?\tbathroom\t1\n", r"x.txt, line 1: expected a sentence before the first question"),
        ("1 A b.\n2 Where?\ta\t5\n", r"x.txt, line 2: expected the numbers of sentences before the question, got '5'"),
        ("1 A b.\n2 Where?\ta\tone\n", r"line 2: expected the numbers of sentences.*got 'one'"),
        ("1 A b.\n2 ...\n", r"line 2: expected 1 to 1000 words, got 0"),
        ("1 " + "a " * 1001 + ".\n", r"line 1: expected 1 to 1000 words, got 1001"),
    ],
)
def test_wrong_lines_are_named(text, message):
    with pytest.raises(ValueError, match=message):
        parse(text)


def write_tasks(folder, n_stories=20):
    for number in (1, 2):
        for split in ("train", "test"):
            text = "".join(f"1 Mary is in room{k}.\n2 Where is Mary?\troom{k}\t1\n" for k in range(n_stories))
            with gzip.open(folder / f"qa{number}_where_{split}.txt.gz", "wt", encoding="utf-8") as file:
                file.write(text)


def test_a_directory_has_three_splits(tmp_path):
    write_tasks(tmp_path)
    splits = read_babi(tmp_path)
    assert {split: len(some) for split, some in splits.items()} == {"train": 36, "dev": 4, "test": 40}
    assert {each.task for each in splits["dev"]} == {1, 2}
    assert [each.target for each in splits["dev"] if each.task == 1] == ["room18", "room19"]
    assert {each.task for each in read_babi(tmp_path, [2])["train"]} == {2}


def test_wrong_directories_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such directory"):
        read_babi(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="no file such as qa1_NAME_train"):
        read_babi(tmp_path)
    write_tasks(tmp_path)
    with pytest.raises(ValueError, match=r"expected qa5_NAME_train\.txt and qa5_NAME_test\.txt.*got neither"):
        read_babi(tmp_path, [5])
    (tmp_path / "qa2_where_test.txt.gz").unlink()
    with pytest.raises(ValueError, match="got train; choose"):
        read_babi(tmp_path)
    (tmp_path / "qa3_x_train.txt").write_text("1 A b.\n2 Where?\n1 A b.\n2 Where?\ta\n")
    (tmp_path / "qa3_x_test.txt").write_text("1 A b.\n2 Where?\ta\n")
    with pytest.raises(ValueError, match="expected an answer after a tab"):
        read_babi(tmp_path, [3])


def slow_answer(example: StoryQuestion) -> tuple[str, set[int]]:
    """Finds the answer by reading the story backwards from its end."""
    *_, asked = example.question
    facts = set()
    if asked in THINGS:
        place = max(k for k, sentence in enumerate(example.story) if sentence[-1] == asked)
        facts.add(place)
        asked = example.story[place][0]
    for place in reversed(range(len(example.story))):
        if example.story[place][0] == asked and example.story[place][-1] in PLACES:
            return example.story[place][-1], facts | {place}
    raise AssertionError("the story does not say it")


def test_generated_answers_follow_from_their_facts():
    examples = list(generate_errands(300, "train", seed=3))
    assert len(examples) == 300
    for example in examples:
        answer, facts = slow_answer(example)
        assert example.target == answer and set(example.facts) == facts
        assert example.task == (ONE_FACT if example.question[-1] in PEOPLE else TWO_FACTS) == len(example.facts)
        assert 1 <= len(example.story) <= 8
    assert examples == list(generate_errands(300, "train", seed=3))
    assert not set(examples) & set(generate_errands(300, "test", seed=3)) or len(set(examples)) > 250
