"""`omegamax train`: settings from flags and files, what it writes, and how it refuses."""

import json
import subprocess
import sys

import pytest
from cli.conftest import SMALL

from omegamax.cli.settings_options import chosen_settings
from omegamax.data.date_patterns import babel_locale
from omegamax.recipes import TASKS


def test_a_run_has_its_files(trained):
    assert {"config.json", "metrics.jsonl", "checkpoints", "evaluation.json"} <= {
        path.name for path in trained.iterdir()
    }
    record = json.loads((trained / "evaluation.json").read_text())
    assert set(record["evaluation"]) == {"dev", "test"}
    assert record["settings"]["attention"] == "sparsemax" and record["training"]["seed"] == 0
    assert {"omegamax", "torch", "python"} == set(record["versions"])


def test_an_existing_run_is_never_clobbered(command, trained):
    before = {path: path.stat().st_mtime_ns for path in trained.rglob("*") if path.is_file()}
    code, _, err = command("train", "dates", "--attention", "sparsemax", *SMALL, "--out", trained)
    assert code == 2 and "--resume" in err and "--overwrite" in err and err.count("\n") == 1
    assert before == {path: path.stat().st_mtime_ns for path in trained.rglob("*") if path.is_file()}


def test_a_finished_run_is_resumed_in_no_time(command, trained):
    code, out, _ = command("train", "dates", "--out", trained, "--resume")  # settings are those of the run
    assert code == 0 and "finished after 1 epochs" in out
    code, _, err = command("train", "seq2seq", "--out", trained, "--resume")
    assert code == 2 and "is a run of dates" in err
    code, _, err = command("train", "dates", "--attention", "softmax", *SMALL, "--out", trained, "--resume")
    assert code == 2 and "attention" in err and "'sparsemax'" in err


def options(command, *arguments):
    from omegamax import cli

    return cli._parser().parse_args([str(each) for each in arguments])


def test_flags_overrule_the_file_which_overrules_the_task(command, tmp_path):
    file = tmp_path / "dates.toml"
    file.write_text('learning-rate = 1\nepochs = 7\nattention = "fusedmax"\nhidden_size = 64\n')
    given = options(command, "train", "dates", "--config", file, "--epochs", 9, "--strength", 0.3)
    settings, training = chosen_settings("dates", given)
    assert (training.learning_rate, training.epochs) == (1.0, 9)
    assert training.batch_size == TASKS["dates"].training["batch_size"]
    assert (settings.attention, settings.strength, settings.hidden_size) == ("fusedmax", 0.3, 64)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("epochs = ", "not TOML"),
        ("epoch = 3", "did you mean epochs?"),
        ('epochs = "three"', "must be of type int"),
        ("epochs = true", "must be of type int"),
        ("[training]\nepochs = 3", "no option training"),
        ("epochs = [1, 2]", "must be one value"),
        ("batch-size = 0", "at least 1"),
    ],
)
def test_a_wrong_file_is_refused(command, tmp_path, text, said):
    file = tmp_path / "wrong.toml"
    file.write_text(text)
    code, _, err = command("train", "dates", "--config", file, "--out", tmp_path / "run")
    assert code == 2 and said in err and err.count("\n") == 1
    assert "wrong.toml" in err or said == "at least 1"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["dats"], "did you mean dates?"),
        (["dates", "--epoch", "3"], "did you mean --epochs?"),
        (["dates", "--epochs", "three"], "--epochs"),
        (["dates", "--epochs", "-1"], "0 or more"),
        (["dates", "--schedule", "cosin"], "did you mean cosine?"),
        (["dates", "--attention", "sparsmax"], "did you mean sparsemax"),
        (["dates", "--attention", "softmax", "--strength", "1"], "takes no strength"),
        (["dates", "--attention", "fusedmax", "--strength", "-1"], "strength"),
        (["dates", "--config", "nowhere.toml"], "cannot read nowhere.toml"),
        (["dates", "--locales", "xx_YY"], "xx_YY"),
        (["seq2seq"], "--data"),
        (["seq2seq", "--data", "nowhere.tsv"], "nowhere.tsv"),
        (["dates", "--resume", "--overwrite"], "not allowed with"),
    ],
)
def test_mistakes_get_one_sentence_and_code_2(command, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    code, out, err = command("train", *arguments)
    assert (code, out) == (2, "") and said in err and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("missing", "arguments", "said"),
    [
        ("sacrebleu", ["train", "dates", *SMALL], "omegamax[nlp]"),
        ("babel", ["train", "dates", *SMALL], "omegamax[nlp]"),
        ("safetensors.torch", ["train", "dates", *SMALL], "omegamax[nlp]"),
    ],
)
def test_what_is_not_installed_is_missed_before_training(command, tmp_path, monkeypatch, missing, arguments, said):
    if missing == "babel":
        babel_locale.cache_clear()
    monkeypatch.setitem(sys.modules, missing, None)
    code, out, err = command(*arguments, "--out", tmp_path / "out")
    assert (code, out) == (2, "") and said in err and err.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_comparison_without_matplotlib_does_not_begin(tmp_path):
    arguments = ["compare", "dates", "--attention", "none", *SMALL, "--out", str(tmp_path / "out")]
    script = f"import sys; sys.modules['matplotlib'] = None; from omegamax.cli import main; sys.exit(main({arguments}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 2 and 'pip install ".[plot]"' in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_malformed_line_is_named(command, tmp_path):
    table = tmp_path / "pairs.tsv"
    table.write_text("".join(f"one {n}\ttwo\n" for n in range(100)) + "only one column\n")
    code, _, err = command("train", "seq2seq", "--data", table, "--out", tmp_path / "run")
    assert code == 2 and "line 101" in err and str(table) in err
    assert not (tmp_path / "run").exists()


def test_a_place_that_cannot_be_written(command, tmp_path):
    (tmp_path / "file").write_text("in the way")
    code, _, err = command("train", "dates", *SMALL, "--out", tmp_path / "file")
    assert code == 2 and "is a file" in err
    code, _, err = command("train", "dates", *SMALL, "--out", tmp_path / "file" / "below")
    assert code == 2 and err.count("\n") == 1
    assert (tmp_path / "file").read_text() == "in the way"
