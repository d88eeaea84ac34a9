"""The command `omegamax`: what it prints, what it draws, and how it refuses."""

import os
import re
import subprocess
import sys

import pytest
import torch

import omegamax
from omegamax import cli, routing
from omegamax.cli import operator_table


def run(capsys, *arguments):
    try:
        code = cli.main(arguments)
    except SystemExit as stop:
        code = stop.code
    return code, *capsys.readouterr()


def test_help_teaches_with_examples(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert "omegamax operators" in out
    assert run(capsys)[:2] == (0, out)  # no command: the same


def test_info_names_versions_and_kernels(capsys):
    code, out, _ = run(capsys, "info")
    assert code == 0
    assert omegamax.__version__ in out
    assert torch.__version__ in out
    assert ("native" if routing.native else "pure PyTorch") in out


def test_info_says_when_nothing_is_compiled(capsys, monkeypatch):
    monkeypatch.setattr(routing, "native", None)
    monkeypatch.delenv("OMEGAMAX_KERNELS", raising=False)
    assert "pure PyTorch (no compiled kernels; install a C++ compiler and reinstall)" in run(capsys, "info")[1]
    monkeypatch.setenv("OMEGAMAX_KERNELS", "reference")
    assert "asked for by OMEGAMAX_KERNELS" in run(capsys, "info")[1]


@pytest.mark.slow
def test_operators_prints_the_table_and_draws(capsys, tmp_path):
    code, out, err = run(capsys, "operators", "--out", str(tmp_path / "new" / "directory"))
    assert (code, err) == (0, "")
    pictures = sorted(path.name for path in (tmp_path / "new" / "directory").iterdir())
    assert pictures == ["alignments.png", "denoising.png", "figure2.png", "losses.png", "operators.png", "trees.png"]
    assert all(f"{name}.png" in out for name in ("alignments", "denoising", "figure2", "operators"))


def test_table_has_a_line_per_operator():
    lines = operator_table.table().splitlines()
    titles = list(operator_table.operators())
    assert [line[:16].strip() for line in lines[3:]] == titles
    numbers = {title: line[16:].split() for title, line in zip(titles, lines[3:])}
    n = len(operator_table.WORDS)
    assert numbers["hardmax"][n:-1] == ["1", "1", "1"]
    assert numbers["softmax"][n] == str(n)
    fused, sparse = numbers["fusedmax (0.1)"], numbers["sparsemax"]
    assert int(fused[n + 1]) < int(sparse[n + 1])  # fewer segments


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [(["dance"], "dance"), (["operators", "--paint"], "--paint"), (["operators", "--out"], "--out")],
)
def test_mistakes_get_one_sentence_and_code_2(capsys, arguments, reason):
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert reason in err
    assert err.count("\n") == 1


def test_unwritable_directory(capsys, tmp_path):
    (tmp_path / "file").write_text("in the way")
    code, out, err = run(capsys, "operators", "--out", str(tmp_path / "file"))
    assert (code, out) == (2, "")
    assert err.startswith("omegamax operators: cannot write to") and err.count("\n") == 1


@pytest.mark.slow
def test_runs_as_a_module():
    environment = {**os.environ, "OMEGAMAX_KERNELS": "reference"}
    command = [sys.executable, "-m", "omegamax", "info"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert "pure PyTorch (asked for by OMEGAMAX_KERNELS)" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(routing.native is None, reason="nothing is compiled")
def test_info_counts_the_kernels():
    """In a process of its own, which has loaded none of them yet."""
    done = subprocess.run([sys.executable, "-m", "omegamax", "info"], capture_output=True, text=True, check=True)
    native, known = map(int, re.search(r"(\d+) of (\d+) kernels compiled", done.stdout).groups())
    assert 15 < native <= known


@pytest.mark.slow
def test_help_loads_nothing_heavy():
    for arguments in ([], ["train"], ["train", "dates"], ["compare", "dates"], ["predict"], ["reproduce"], ["plot"]):
        script = (
            "import sys; sys.argv = ['omegamax']\n"
            "from omegamax.cli import main\n"
            "try:\n"
            f"    main({[*arguments, '--help']})\n"
            "except SystemExit:\n"
            "    pass\n"
            "heavy = {'torch', 'numpy', 'matplotlib', 'babel'} & set(sys.modules)\n"
            "assert not heavy, heavy"
        )
        subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


@pytest.mark.slow
def test_the_command_still_gives_the_public_names():
    script = "import sys; sys.argv = ['omegamax']; import omegamax as om; om.sparsemax; om.checks; om.Attention"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_every_command_teaches(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for names in ([], *([name] for name in cli.COMMANDS), ["train", "dates"], ["compare", "seq2seq"]):
        code, out, _ = run(capsys, *names, "--help")
        assert code == 0 and " ".join(["omegamax", *names]) in out and "example" in out
        assert max(map(len, out.splitlines())) <= 80


def test_commands_stand_beside_their_help(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = run(capsys, "--help")[1]
    for name, module in cli.COMMANDS.items():
        assert any(line.split()[:2] == [name, module.HELP.split()[0]] for line in out.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["operators"], ["plot", "--list"], ["reproduce", "--list"]])
def test_a_terminal_of_ascii_is_no_reason_to_crash(arguments, tmp_path):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "omegamax", *arguments]
    done = subprocess.run(command, capture_output=True, env=environment, cwd=tmp_path, check=True)
    assert done.stdout.isascii() and b"\\u03a9" in done.stdout and not done.stderr


@pytest.mark.slow
def test_a_reader_may_stop_reading():
    command = [sys.executable, "-m", "omegamax", "reproduce", "--list"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b"" and process.wait() == 141


def test_pictures_are_not_replaced_unasked(capsys, tmp_path):
    (tmp_path / "trees.png").write_text("mine")
    code, _, err = run(capsys, "operators", "--out", str(tmp_path))
    assert code == 2 and "trees.png exists; say --overwrite" in err
    assert (tmp_path / "trees.png").read_text() == "mine"


def test_the_version_is_told(capsys):
    assert run(capsys, "--version") == (0, f"omegamax {omegamax.__version__}\n", "")


def test_tables_fit_the_terminal():
    wide, narrow = operator_table.table(), operator_table.table(80)
    assert max(map(len, wide.splitlines())) > 80 >= max(map(len, narrow.splitlines()))
    assert sorted(set(wide.split()) - {"-" * 112}) == sorted(word for word in set(narrow.split()) if "---" not in word)
