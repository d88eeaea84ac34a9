"""`omegamax evaluate`, `predict` and `attend` on a trained model."""

import io
import json
import os

import pytest
import torch

from omegamax.cli.attend import format_map
from omegamax.recipes import load
from omegamax.recipes.dates import Dates
from omegamax.recipes.settings import TranslateSettings
from omegamax.recipes.translate import Translate
from omegamax.training import RunDirectory, Silent, TrainingSettings, train
from omegamax.training.prediction import predict


def test_evaluation_repeats_what_training_found(command, trained):
    code, out, _ = command("evaluate", trained, "--json")
    assert code == 0
    record = json.loads((trained / "evaluation.json").read_text())
    metrics = json.loads(out)
    assert metrics.pop("tokens_per_second") > 0 and metrics.pop("examples_per_second") > 0
    attention = {name: metrics.pop(name) for name in ("zeros", "support", "segments", "long_segments")}
    assert metrics == record["evaluation"]["test"]
    assert 0 < attention["zeros"] < 1 <= attention["segments"] <= attention["support"]
    code, out, _ = command("evaluate", trained, "--split", "dev", "--beam", 2)
    assert code == 0 and "exact_match" in out and "dev" in out


def typed(text):
    return io.TextIOWrapper(io.BytesIO(text.encode()), encoding="ascii")  # a terminal that does not know of UTF-8


def test_predictions_come_in_order(command, trained, tmp_path, monkeypatch):
    lines = ["3 March 2017", "fr\tvendredi 3 mars 2017", "a", "fr\t1/2/03"]
    monkeypatch.setattr("sys.stdin", typed("".join(f"{line}\n" for line in lines)))
    code, out, _ = command("predict", trained, "--batch-size", 2)
    found = load(trained)
    expected = predict(found.task, found.model, found.task.read(lines))
    assert code == 0 and out.splitlines() == expected
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("".join(f"{line}\n" for line in lines))
    assert command("predict", trained, "--input", source, "--out", target)[0] == 0
    assert target.read_text().splitlines() == expected
    code, _, err = command("predict", trained, "--input", source, "--out", target)
    assert code == 2 and "--overwrite" in err
    assert target.read_text().splitlines() == expected


def test_an_output_has_no_more_tokens_than_learned_positions(command, tmp_path, monkeypatch):
    small = {"level": "word", "hidden_size": 8, "n_heads": 2, "feed_forward_size": 8, "max_length": 20}
    task = Translate.prepare(TranslateSettings(examples=100, model="transformer", positions="learned", **small))
    train(task, TrainingSettings(epochs=1, threads=1), RunDirectory(tmp_path / "run"), progress=Silent())
    monkeypatch.setattr("sys.stdin", typed("the cat\n"))
    code, _, err = command("predict", tmp_path / "run", "--max-length", 1024)
    assert code == 2 and "max_length must be at most 1023, because the model has learned 1024 positions" in err
    assert command("predict", tmp_path / "run", "--max-length", 5)[0] == 0


def test_nothing_in_nothing_out(command, trained, tmp_path):
    (tmp_path / "empty").write_text("")
    assert command("predict", trained, "--input", tmp_path / "empty") == (0, "", "")


def test_attention_is_printed_with_dots_for_zeros():
    weights = torch.tensor([[0.0, 0.3, 0.7], [1.0, 0.0, 0.0]])
    assert format_map(["out", "</s>"], ["a", "b", "word"], weights).splitlines() == [
        "      a b word",
        " out  · ▒ ▓▓▓▓",
        "</s>  █ · ····",
    ]


@pytest.mark.parametrize(
    ("weight", "shade"),
    [(0, "·"), (1e-9, "░"), (0.25, "░"), (0.26, "▒"), (0.5, "▒"), (0.75, "▓"), (1, "█"), (1.0000001, "█")],
)
def test_shades_reach_up_to_quarters(weight, shade):
    """Four equal weights are a quarter each, exactly."""
    assert format_map(["a"], ["b"], torch.tensor([[weight]], dtype=torch.float64)).splitlines()[1] == f"a  {shade}"


def test_wide_letters_take_two_places():
    weights = torch.tensor([[1.0, 0.0, 0.3]])
    assert format_map(["年"], ["年", "e\u0301", "x"], weights).splitlines() == ["    年 e\u0301 x", "年  ██ · ▒"]


def test_a_dot_is_no_weight_of_softmax():
    weights = torch.tensor([[1.0, 0.0]])
    assert format_map(["a"], ["b", "c"], weights, exact_zeros=False).splitlines()[1] == "a  █ ░"


@pytest.mark.slow
def test_attention_is_printed_and_drawn(command, trained, tmp_path):
    code, out, _ = command("attend", trained, "3 March 2017")
    assert code == 0 and "</s>" in out and "·" in out  # sparsemax has zeros
    path = tmp_path / "map.png"
    for form in ("map", "lines"):
        code, out, err = command(
            "attend", trained, "3 May", "fr\t3 mai 2001", "--out", path, "--form", form, "--overwrite"
        )
        assert (code, err) == (0, "")
        assert [p.name for p in sorted(tmp_path.iterdir())] == ["map-1.png", "map-2.png"]
    code, _, err = command("attend", trained, "3 May", "4 May", "--out", path)
    assert code == 2 and "map-1.png exists" in err


@pytest.mark.slow
def test_a_model_without_attention_has_none_to_show(command, compared):
    code, _, err = command("attend", compared / "runs" / "none", "3 March 2017")
    assert code == 2 and "no attention" in err


@pytest.mark.parametrize("name", ["evaluate", "predict"])
def test_what_is_no_run_is_refused(command, tmp_path, name):
    code, _, err = command(name, tmp_path / "nowhere")
    assert code == 2 and "nowhere is not a directory" in err and err.count("\n") == 1
    code, _, err = command(name, tmp_path)
    assert code == 2 and "no checkpoint" in err and err.count("\n") == 1


def test_wrong_input_is_named(command, trained, tmp_path):
    code, _, err = command("predict", trained, "--input", tmp_path / "nowhere.txt")
    assert code == 2 and "nowhere.txt" in err
    (tmp_path / "latin").write_bytes("3 März".encode("latin-1"))
    code, _, err = command("predict", trained, "--input", tmp_path / "latin")
    assert code == 2 and "not UTF-8" in err
    code, _, err = command("attend", trained, "xx\t3 mars")
    assert code == 2 and "locale 'xx'" in err
    code, _, err = command("evaluate", trained, "--data", tmp_path / "nowhere.tsv")
    assert code == 2 and "nowhere.tsv" in err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["evaluate", "--beam", "0"], "--beam: must be a whole number of at least 1, got '0'"),
        (["evaluate", "--batch-size", "-3"], "--batch-size: must be"),
        (["predict", "--threads", "-1"], "--threads: must be"),
        (["evaluate", "--device", "abacus"], "got 'abacus'; choose it with --device"),
        (["evaluate", "--device", "meta"], "got 'meta'"),
        (["predict", "--out", "."], "is a directory"),
        (["predict", "--out", "nowhere/out.txt"], "nowhere is not a directory; make it"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(command, trained, tmp_path, monkeypatch, arguments, reason):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", typed(""))
    name, *options = arguments
    code, out, err = command(name, trained, *options)
    assert (code, out) == (2, "") and reason in err and err.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("out", ["map.xyz", "map", "", "nowhere/map.png"])
def test_pictures_are_refused_before_any_is_drawn(command, trained, tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    code, _, err = command("attend", trained, "3 May", "4 May", "--out", out)
    assert code == 2 and "--out" in err and err.count("\n") == 1
    code, _, err = command("plot", "figure2", "--out", out)
    assert code == 2 and "--out" in err and err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_one_line_out_for_each_line_in(command, trained, monkeypatch):
    lines = ["3 March 2017", "", "3\u2028March\x0b2017\x85", "a\0b", "3 March 2017\r", "x" * 10_000, ""]
    monkeypatch.setattr("sys.stdin", typed("\n".join(lines) + "\n"))
    code, out, _ = command("predict", trained)
    written = out.split("\n")
    assert code == 0 and len(written) == len(lines) + 1
    assert written[0] == written[4]  # a carriage return before the line feed is part of the end
    monkeypatch.setattr("sys.stdin", typed("3 March 2017\nxx\t3 mars\n"))
    code, out, err = command("predict", trained)
    assert (code, out) == (2, f"{written[0]}\n\n") and "line 2: locale 'xx'" in err and "its output is empty" in err


def test_bad_lines_are_reported_and_survived(command, trained, tmp_path, monkeypatch):
    """Two lines are read at a time; lines keep their numbers, and the others have the outputs that they have alone."""
    monkeypatch.setattr("omegamax.cli.lines._BATCHES", 1)
    good = b"3 March 2017\n"
    monkeypatch.setattr("omegamax.cli.lines._MAX_LINE", 40)
    content = good + b"xx\t3 mars\n" + good + b"\xff\xfe\n" + good + b"3 " * 100 + b"\n" + good + b"4 " * 21
    (tmp_path / "in").write_bytes(content)
    code, out, err = command("predict", trained, "--input", tmp_path / "in", "--batch-size", 2)
    first, *rest = out.split("\n")
    assert code == 2 and first and rest == ["", first, "", first, "", first, "", ""]
    reports = err.splitlines()
    wanted = ["line 2: locale 'xx'", "line 4: not UTF-8", "line 6: expected at most 40 bytes", "line 8: expected at"]
    assert len(reports) == 4 and all(part in report for part, report in zip(wanted, reports))
    (tmp_path / "in").write_bytes(good + b"3 " * 100)
    code, _, err = command("attend", trained, "--file", tmp_path / "in")
    assert code == 2 and "line 2: expected at most 40 bytes in a line" in err


@pytest.mark.slow
def test_memory_does_not_grow_with_the_input(command, trained, tmp_path, monkeypatch):
    """No call of the model sees more than a few batches, however many lines there are."""
    seen = []
    read = Dates.read
    monkeypatch.setattr(Dates, "read", lambda self, lines: seen.append(len(lines)) or read(self, lines))
    (tmp_path / "in").write_text("3 May\n" * 500)
    code, out, _ = command("predict", trained, "--input", tmp_path / "in", "--batch-size", 4)
    assert code == 0 and len(out.splitlines()) == 500 and max(seen) == 64 and sum(seen) == 500


def test_given_pairs_have_log_probabilities(command, trained, tmp_path, monkeypatch):
    lines = ["fr\t3 mars 2017\t2017-03-03", "en\t3 May 2001\t2001-05-03"]
    monkeypatch.setattr("sys.stdin", typed("\n".join(lines) + "\n"))
    code, out, _ = command("score", trained)
    found = load(trained)
    pairs = found.task.read_scored(lines)
    loss = [found.task.loss(found.model, found.task.collate([pair])) for pair in pairs]
    assert code == 0
    for line, (total, n_items) in zip(out.splitlines(), loss, strict=True):
        value, count = line.split("\t")
        assert float(value) == pytest.approx(-total.item(), abs=1e-4) and int(count) == n_items == 11
    monkeypatch.setattr("sys.stdin", typed("fr\t3 mars 2017\n"))
    code, out, err = command("score", trained)
    assert (code, out) == (2, "\n") and "line 1: expected a date such as" in err


def test_a_terminal_without_shades_gets_plain_signs(command, trained, monkeypatch):
    monkeypatch.setattr("omegamax.cli.attend._can_show", lambda text: False)
    code, out, _ = command("attend", trained, "3 March 2017")
    assert code == 0 and out.isascii() and "-" in out


def test_a_pipe_is_not_replaced_by_a_file(command, trained, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    code, _, err = command("predict", trained, "--out", tmp_path / "pipe", "--overwrite")
    assert code == 2 and "is not a file" in err
    assert (tmp_path / "pipe").is_fifo()


def test_what_a_link_names_is_replaced_and_not_the_link(command, trained, tmp_path):
    (tmp_path / "lines").write_text("3 March 2017\n")
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    assert command("predict", trained, "--input", tmp_path / "lines", "--out", link, "--overwrite")[0] == 0
    assert link.is_symlink() and target.read_text() != "old"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["elsewhere", "lines", "link", "target"]
