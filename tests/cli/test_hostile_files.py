"""Absurd options and files of strangers: one sentence and exit code 2, no traceback, no waiting."""

import hashlib
import io
import json
import os
import shutil

import pytest
from cli.conftest import SMALL

from omegamax.training.checkpoints import CARD_FILE
from omegamax.training.runs import list_checkpoints

ODD = "\x1b[31m\x07\u202eodd"
DIGITS = "9" * 5000


def refused(result, *words):
    code, out, err = result
    assert (code, out) == (2, ""), err[-300:]
    assert err.count("\n") == 1 and len(err) < 3000
    assert all(letter.isprintable() for letter in err[:-1])
    for word in words:
        assert word in err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--threads", "3000000000"], "threads must be at most 1024, got 3000000000"),
        (["--hidden-size", "1000000000000"], "hidden_size must be at most 65536"),
        (["--embedding-size", "9" * 300], "embedding_size must be at most 65536"),
        (["--hidden-size", "65536"], "must fit into the memory of this machine"),
        (["--seed", "9" * 300], "seed must be at most"),
        (["--epochs", DIGITS], "--epochs: invalid int value"),
        (["--learning-rate", "1e400"], "learning_rate must be at most"),
        (["--gamma", "nan"], "gamma must be a number"),
        (["--config", "/dev/zero"], "larger than 1 MiB"),
        (["--data", "/dev/zero"], "not a regular file"),
        (["--data", "pipe"], "not a regular file"),
        (["--data", "bomb.tsv.gz"], "once decompressed"),
        (["--data", "long.tsv"], "line 1: expected at most 1000000 characters"),
    ],
)
def test_absurd_options(command, tmp_path, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("omegamax.training.resources._memory", lambda: 1 << 33)
    monkeypatch.setattr("omegamax.data.tsv.MAX_BYTES", 1 << 22)
    os.mkfifo("pipe")
    import gzip

    (tmp_path / "bomb.tsv.gz").write_bytes(gzip.compress(b"a" * (1 << 23)))
    (tmp_path / "long.tsv").write_text("en\t" + "x" * 1_000_001 + "\t2001-01-01\n")
    refused(command("train", "dates", *SMALL, *options, "--out", tmp_path / "run"), said)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "text",
    [
        f"patience = {DIGITS}",
        f"patience = 0x{'f' * 5000}",
        f"learning-rate = {'9' * 400}",
        f"gamma = 0x{'f' * 5000}",
        "epochs = " + "[" * 100_000,
        "a = " + "{b = " * 5000 + "1" + "}" * 5000,
        '"\\u001b[31m\\u0007\\u202eodd" = 3',  # an unknown setting named ODD; TOML refuses it unless it is escaped
        f'schedule = "{"x" * 100_000}"',
    ],
)
def test_odd_toml(command, tmp_path, text):
    (tmp_path / "odd.toml").write_text(text)
    refused(command("train", "dates", *SMALL, "--config", tmp_path / "odd.toml", "--out", tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def change_config(run, change):
    config = json.loads((run / "config.json").read_text())
    change(config)
    (run / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    "change",
    [
        lambda config: config.update(settings=[]),
        lambda config: config.update(training=None),
        lambda config: config.update(task=ODD),
        lambda config: config["training"].update({ODD: 3}),
        lambda config: config["training"].update(epochs=10**400),
        lambda config: config["training"].update(learning_rate=10**400),
        lambda config: config["training"].update(patience=10**400),
        lambda config: config["settings"].update(data=ODD),
    ],
)
def test_a_strange_config_is_not_resumed(command, trained, tmp_path, change):
    shutil.copytree(trained, tmp_path / "run")
    change_config(tmp_path / "run", change)
    refused(command("train", "dates", "--out", tmp_path / "run", "--resume"))
    options = ["--epochs", 4, "--learning-rate", 0.1, "--patience", 3]
    refused(command("train", "dates", *options, "--out", tmp_path / "run", "--resume"))


@pytest.fixture
def tampered(trained, tmp_path):
    """Changes the card of a checkpoint as someone would who knows the format, checksums and all."""

    def act(change):
        shutil.copytree(trained, tmp_path / "run")
        card = list_checkpoints(tmp_path / "run")[-1] / CARD_FILE
        content = json.loads(card.read_text())["content"]
        change(content)
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        card.write_text(json.dumps({"sha256": hashlib.sha256(text.encode()).hexdigest(), "content": content}))
        return tmp_path / "run"

    return act


def setting(name, value):
    return lambda content: content["settings"].update({name: value})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (setting("max_length", 10**7), "max_length must be at most 10000"),
        (setting("beam", 10**7), "beam must be at most 1000"),
        (setting("gamma", 10**400), "a number must be at most"),
        (setting("examples", 10**9), "examples must be at most"),
        (setting("attention", ODD), "attention must be one of"),
        (lambda content: content.update(task=ODD), "is of the task"),
        (lambda content: content.update(n_processes=10**9), "n_processes must be from 1 to"),
        (lambda content: content["assets"]["target"].__setitem__(5, "a\nb"), "must not hold a newline"),
        (lambda content: content["assets"]["target"].__setitem__(5, content["assets"]["target"][6]), "twice"),
    ],
)
def test_a_strangers_checkpoint_is_refused(command, tampered, change, said):
    refused(command("evaluate", tampered(change)), said)


@pytest.mark.parametrize("path", ["/dev/zero", "pipe", f"no{ODD}file", "nul\0byte"])
def test_a_strangers_data_is_not_read_for_ever(command, tampered, tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    refused(command("evaluate", tampered(setting("data", path))))


def test_a_strangers_vocabulary_is_shown_with_escapes(command, tampered, tmp_path):
    def change(content):
        for side in ("source", "target"):
            tokens = content["assets"][side]
            tokens[:] = [token if token.startswith("<") else token + ODD for token in tokens]

    run = tampered(change)
    code, out, _ = command("attend", run, f"3 {ODD} May")
    assert code == 0 and "\\x1b[31m\\x07\\u202eodd" in out
    assert all(letter.isprintable() for letter in out.replace("\n", ""))
    code, out, _ = command("attend", run, "3 May", "--json")
    assert code == 0 and out.isascii() and any(ODD in row for row in json.loads(out)["rows"])


class Terminal(io.TextIOWrapper):
    def isatty(self):
        return True


def test_predictions_are_escaped_on_a_terminal_only(command, tampered, tmp_path, monkeypatch):
    run = tampered(
        lambda content: content["assets"].update(
            target=[
                *content["assets"]["target"][:4],
                *(f"{number}{ODD}" for number in range(len(content["assets"]["target"]) - 4)),
            ]
        )
    )
    (tmp_path / "in").write_text("3 May\n")
    code, out, _ = command("predict", run, "--input", tmp_path / "in")
    assert code == 0 and ODD in out
    stream = Terminal(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr("sys.stdout", stream)
    command("predict", run, "--input", tmp_path / "in")
    shown = stream.buffer.getvalue().decode()
    assert "\\u202eodd" in shown and shown[:-1].isprintable()


def test_a_line_without_end_is_refused(command, trained):
    refused(command("predict", trained, "--input", "/dev/zero"), "line 1: expected at most 1048576 bytes")
    refused(command("attend", trained, "--file", "/dev/zero"), "line 1: expected at most 1048576 bytes")


def test_a_line_that_is_too_long(command, trained, tmp_path):
    (tmp_path / "long").write_text("x" * ((1 << 20) + 1) + "\n")
    code, out, err = command("predict", trained, "--input", tmp_path / "long")
    assert (code, out) == (2, "\n") and "line 1: expected at most 1048576 bytes" in err
    refused(command("attend", trained, "--file", tmp_path / "long"), "line 1: expected at most 1048576 bytes")


@pytest.mark.parametrize(
    "arguments",
    [
        ["evaluate", "RUN", "--threads", "3000000000"],
        ["predict", "RUN", "--beam", DIGITS],
        ["predict", "RUN", "--batch-size", "9" * 300],
        ["evaluate", "RUN", "--data", "x" * 20_000],
        ["bench", "--rows", "9" * 300],
        ["bench", "--seconds", "inf"],
        ["bench", "--spread", "nan"],
        ["attend", "RUN"],
        ["evaluate", f"no{ODD}where"],
        ["plot", "curves", f"no{ODD}where"],
        [ODD],
        ["train", "dates", f"--{ODD}"],
        ["compare", "dates", "--attention", ODD],
        ["compare", "dates", "--attention", f"fusedmax({DIGITS}{DIGITS})"],
        ["reproduce", ODD],
    ],
)
def test_absurd_arguments_of_other_commands(command, trained, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    refused(command(*[trained if each == "RUN" else each for each in arguments]))


HUGE = "1" + 400 * "0"  # a whole number that no float can hold


@pytest.mark.parametrize(
    "line",
    [
        '{"event": "epoch"}',
        "[]",
        '{"event": "epoch", "metrics": {"exact_match": "x"}}',
        f'{{"event": "epoch", "metrics": {{"exact_match": {HUGE}}}}}',
        "[" * 100_000,
        "\x1b",
    ],
)
def test_strange_metrics_are_not_drawn(command, trained, tmp_path, line):
    shutil.copytree(trained, tmp_path / "run")
    (tmp_path / "run" / "metrics.jsonl").write_text(line + "\n")
    refused(command("plot", "curves", tmp_path / "run", "--out", tmp_path / "curves.png"), "is damaged")


@pytest.mark.parametrize("score", [HUGE, f"-{HUGE}", "NaN", "true", '"x"'])
def test_strange_comparisons_are_not_drawn(command, tmp_path, score):
    written = f'{{"metric": "bleu", "models": [{{"name": "softmax", "by_length": {{"1–2": {score}}}}}]}}'
    (tmp_path / "comparison.json").write_text(written)
    refused(command("plot", "lengths", tmp_path, "--out", tmp_path / "lengths.png"), "is not a comparison")


def test_memory_that_runs_out_is_said(command, trained, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: 9 bytes")

    monkeypatch.setattr("omegamax.training.prediction.assess", fail)
    monkeypatch.setattr("omegamax.training.prediction.inspect", fail)  # which the quick inspections of a task call
    refused(command("evaluate", trained), "must fit into memory")
