"""`omegamax` on a tagger: --quick, evaluation as JSON, predictions in and out, pictures, check-data, bad input."""

import io
import json

import pytest

from omegamax import cli
from omegamax.data.conll import read_conll

SMALL = ["--sentences", "200", "--word-size", "8", "--hidden-size", "16", "--character-size", "6", "--affix-size", "4"]
TEXT = "Ada Velmora flew to New Tarin on Monday."


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "tagger"
    quick = ["--quick", "--loss", "l2", *SMALL, "--learning-rate", "0.01", "--epochs", "5", "--threads", "1"]
    assert cli.main(["train", "tagger", *quick, "--out", str(out)]) == 0
    return out


@pytest.fixture
def data(tmp_path):
    rows = {
        "train": "Ada\tB-PER\nran\tO\n\nBo\tB-PER\n",
        "dev": "Cleo\tI-PER\n\nEva\tB-LOC\n",
        "test": "Ada\tB-PER\nran\tO\n",
    }
    for split, text in rows.items():
        (tmp_path / f"{split}.conll").write_text(text)
    return tmp_path


@pytest.fixture
def predict(command, tagger, monkeypatch):
    def call(text, *options, code=0):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8"))
        found, out, err = command("predict", tagger, *options)
        assert found == code, err
        return out if code == 0 else err

    return call


def test_the_run_is_named_after_the_loss(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = command("train", "tagger", "--quick", "--loss", "softmax", *SMALL, "--epochs", 1, "--threads", 1)
    assert code == 0 and (tmp_path / "runs" / "tagger-softmax" / "evaluation.json").exists() and "f1_person" in out


@pytest.mark.slow
def test_evaluation_is_one_json_object_with_calibration(command, tagger, tmp_path):
    code, out, _ = command("evaluate", tagger, "--json", "--pictures", tmp_path / "pictures")
    metrics = json.loads(out)
    stored = json.loads((tagger / "evaluation.json").read_text())["evaluation"]["test"]
    assert code == 0 and out.count("\n") == 1 and metrics.items() >= stored.items()
    assert metrics["examples_per_second"] > 0 and {"entity_ece", "expected_f1", "single_answer"} <= metrics.keys()
    assert (tmp_path / "pictures" / "reliability.png").read_bytes()[:4] == b"\x89PNG"
    code, _, err = command("evaluate", tagger, "--pictures", tmp_path / "pictures")
    assert code == 2 and "exists; say --overwrite" in err


def test_texts_become_json_lines(predict):
    first, second = map(json.loads, predict(f"{TEXT}\n\n").splitlines())
    assert (
        first["text"] == TEXT
        and first["words"][:2] == ["Ada", "Velmora"]
        and set(first)
        == {
            "text",
            "words",
            "tags",
            "entities",
        }
    )
    assert all(TEXT[each["start"] : each["end"]] == each["text"] for each in first["entities"])
    assert second == {"text": "", "words": [], "tags": [], "entities": []}


def test_probabilities_and_ranked_answers(predict):
    record = json.loads(predict("Ada met.", "--probabilities", "--ranked"))  # so short that all answers are listed
    assert record["complete"] and sum(each["probability"] for each in record["answers"]) == pytest.approx(1, abs=1e-4)
    assert all(0 <= each["probability"] <= 1.0001 for each in record["entities"] + record["candidates"])
    two = json.loads(predict(TEXT, "--k-best", "2"))
    assert len(two["answers"]) == 2 and two["answers"][0]["score"] >= two["answers"][1]["score"]


def test_columns_in_and_out(predict, tmp_path):
    out = predict("Ada\tO\nran\tO\n\nBo\tO\n", "--input-format", "conll", "--output-format", "conll")
    (tmp_path / "a.conll").write_text(out)
    assert [each.words for each in read_conll(tmp_path / "a.conll")] == [("Ada", "ran"), ("Bo",)]
    out = predict("Ada ran\n", "--input-format", "tokens", "--output-format", "conll", "--ranked", "--probabilities")
    (tmp_path / "b.conll").write_text(out)
    answers = list(read_conll(tmp_path / "b.conll"))
    assert len(answers) == out.count("# answer") and {each.words for each in answers} == {("Ada", "ran")}


def test_the_lattice_is_drawn_and_printed(command, tagger, tmp_path):
    code, out, _ = command("attend", tagger, TEXT)
    assert code == 0 and "Velmora" in out and "\n" in out
    for form in ([], ["--form", "map"], ["--form", "structure"]):
        file = tmp_path / f"{len(form)}{form[-1:]}.png"
        code, _, err = command("attend", tagger, TEXT, "--out", file, *form)
        assert code == 0 and file.read_bytes()[:4] == b"\x89PNG", err


def test_options_of_other_tasks_are_refused(command, trained, tagger):
    code, _, err = command("predict", trained, "--probabilities")
    assert code == 2 and "is a task without --probabilities; leave it out" in err
    code, _, err = command("predict", tagger, "--temperature", 0.5)
    assert code == 2 and "is a task without --temperature" in err
    code, _, err = command("attend", trained, "3 May", "--form", "structure", "--out", "a.png")
    assert code == 2 and "is a task without a picture of its own" in err
    code, _, err = command("compare", "tagger")
    assert code == 2 and "there is no task 'tagger'" in err


def test_check_data_counts_and_warns(command, data):
    code, out, _ = command("check-data", "tagger", data)
    assert code == 0 and "sentences" in out
    for sentence in (
        "the type PER is in train less than 5 times",
        "the type LOC is in dev but never in train; all 1 will count as missed",
        "1 different sentences are in both train and test, such as 'Ada ran'",
    ):
        assert sentence in out
    code, out, _ = command("check-data", "tagger", data, "--json")
    report = json.loads(out)
    assert code == 0 and report["scheme"] == "IOB2" and report["counts"]["train"]["words"] == 3
    assert report["types"]["train"] == {"PER": 2} and report["shared_sentences"] == {"train and test": 1}


def test_tags_that_break_the_scheme_are_counted(command, data):
    (data / "dev.conll").write_text("Cleo\tB-PER\n\nEva\tI-PER\n")
    _, out, _ = command("check-data", "tagger", data, "--json")
    warnings = [each for each in json.loads(out)["warnings"] if "cannot follow" in each]
    assert len(warnings) == 1 and "dev.conll: 1 tags" in warnings[0] and "(lines 3)" in warnings[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tO\n" * 1233 + "a\n", "train.conll, line 1234: expected 2 columns as in line 1, got 1"),
        ("", "train.conll: expected sentences for the split train, got none"),
        ("a\tO\n" * 1_000_000, "train.conll, line 1: expected a sentence of at most 20000 words, got more"),
        ("a\tPER\n", "train.conll, line 1: expected a tag such as O, B-PER or I-PER, got 'PER'"),
    ],
)
def test_bad_files_are_one_sentence(command, data, tmp_path, text, message):
    (data / "train.conll").write_text(text)
    for name in ("train", "check-data"):
        options = ["--data", data, "--out", tmp_path / "run"] if name == "train" else [data]
        code, _, err = command(name, "tagger", *options)
        assert code == 2 and message in err and err.count("\n") == 1
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_a_million_words_in_a_line_are_one_sentence(predict):
    assert "expected a sentence of at most 20000 words" in predict("a " * 100_000, code=2)
    assert "expected at most 1048576 bytes in a line" in predict("a " * 1_000_000, code=2)


def test_evaluation_on_other_data_with_unknown_types(command, tagger, data):
    code, out, _ = command("evaluate", tagger, "--data", data, "--json")
    assert code == 0 and json.loads(out)["recall"] == 0
