"""Hostile and damaged files against the commands: every one must end with a sentence, soon, and write nowhere else.

A small run is trained once. Each case copies it, spoils something (a checkpoint with right checksums, config.json, the
log, links and pipes in the directory, a TOML file, a table, an input), and calls a command on it in a child process
with limits. A case fails if the command dies by a signal, runs out of time, shows a traceback, ends with another
code than 0 or 2, prints a control character, or changes a file outside of the run directory.
"""

import contextlib
import hashlib
import io
import json
import os
import random
import resource
import shlex
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

n_cases = 0

_MEMORY = 6 << 30  # bytes; PyTorch alone reserves some
SECONDS = 20  # for a case; more than any takes on a busy machine
SMALL = ["--examples", "60", "--locales", "en,fr", "--epochs", "1", "--hidden-size", "8", "--embedding-size", "8"]
SMALL += ["--max-length", "12", "--threads", "1"]
ODD_TEXTS = ["", "\x1b[2J", "a\nb", "\u202e", "\x07", "\ud800", "\0", "x" * 300, "../" * 40, "/dev/zero", "PIPE", "."]
ODD_NUMBERS = [0, -1, 1, 10**7, 10**9, 2**63, 10**30, 10**300, 10**400, 0.5, 1e308, float("nan"), float("inf"), True]
ODD_VALUES = [*ODD_TEXTS, *ODD_NUMBERS, None, [], {}, [[]], {"a": None}, [None] * 3]

Case = tuple[str, Callable[[], list[str]]]


def fuzz(seed: int, seconds: float) -> list[str]:
    """Tries cases for about that many seconds; returns a description of each that failed."""
    global n_cases
    n_cases = 0
    failures: list[str] = []
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        made = _train(Path(folder) / "made")
        while time.monotonic() < end or n_cases == 0:
            number = f"{seed}-{n_cases}"
            complaint = _try(number, made, Path(folder) / "case")
            if complaint:
                failures.append(f"case {number}: {complaint}")
            n_cases += 1
    return failures


def _train(path: Path) -> Path:
    from omegamax.cli import main

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert main(["train", "dates", *SMALL, "--out", str(path)]) == 0
    return path


def _try(number: str, made: Path, folder: Path) -> str:
    rng = random.Random(number)
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "outside").mkdir(parents=True)
    (folder / "outside" / "precious").write_text("12345678\n")
    shutil.copytree(made, folder / "run")
    spoil = rng.choice(SPOILERS)
    try:
        what, arguments = spoil(rng, folder)
    except (OSError, ValueError) as error:  # the system has no such name
        return "" if isinstance(error, (OSError, UnicodeError)) or "null byte" in str(error) else repr(error)
    before = _outside(folder)
    complaint = _run(arguments, folder)
    if not complaint and _outside(folder) != before:
        complaint = "it changed something outside of the run directory"
    return f"{spoil.__name__[1:]}, {what}, omegamax {shlex.join(arguments)!a}: {complaint}" if complaint else ""


def _outside(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in sorted((folder / "outside").rglob("*")):
        found[str(path)] = path.read_bytes() if path.is_file() else "directory"
    return found


def _run(arguments: list[str], folder: Path) -> str:
    """Calls the command in a forked child; returns what is wrong with how it ended, or nothing."""
    out, err = folder / "stdout", folder / "stderr"
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = _child(arguments, folder, out, err)
        except BaseException:
            with err.open("a", errors="backslashreplace") as stream:
                traceback.print_exc(file=stream)
        os._exit(code)
    status = _wait(child)
    said = err.read_text(errors="replace") if err.exists() else ""
    shown = out.read_text(errors="replace") if out.exists() else ""
    if status is None:
        return f"it did not end within {SECONDS} s"
    if os.WIFSIGNALED(status):
        return f"it died by signal {os.WTERMSIG(status)}"
    code = os.WEXITSTATUS(status)
    if "Traceback" in said or code not in (0, 2):
        return f"it ended with code {code} and said {said[-400:]!r}"
    if code == 2 and said.splitlines() and len(said.splitlines()[-1]) < 20:
        return f"its last words are {said[-100:]!r}"
    if code == 2 and not said:
        return "it refused without a message"
    odd = [letter for letter in said + shown if letter != "\n" and not letter.isprintable()]
    return f"it printed {odd[0]!r}" if odd else ""


def _child(arguments: list[str], folder: Path, out: Path, err: Path) -> int:
    os.chdir(folder)
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 26, 1 << 26))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for stream, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), encoding="utf-8", write_through=True)
    sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), encoding="utf-8", errors="backslashreplace")
    sys.stdin = io.TextIOWrapper(io.BytesIO(b"3 May 2001\n"))
    from omegamax.cli import main

    try:
        code = main(arguments)
    except SystemExit as stop:
        code = int(stop.code or 0)
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _wait(child: int) -> int | None:
    """The child's status; None if it had to be killed."""
    end = time.monotonic() + 3 * SECONDS
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _command(rng: random.Random, run: str = "run") -> list[str]:
    """Any command that reads a run directory."""
    words = rng.choice(
        [
            ["evaluate", run, "--threads", "1"],
            ["evaluate", run, "--split", "dev", "--json", "--threads", "1"],
            ["predict", run, "--threads", "1", "--out", "predictions"],
            ["attend", run, "3 May 2001", "--threads", "1"],
            ["attend", run, "3 May 2001", "--json", "--threads", "1"],
            ["train", "dates", "--out", run, "--resume"],
            ["train", "dates", *SMALL, "--out", run, "--overwrite"],
            ["plot", "curves", run, "--out", "curves.png"],
        ]
    )
    return list(words)


def _pick(rng: random.Random, folder: Path) -> Any:
    value = rng.choice(ODD_VALUES)
    if value == "PIPE":
        pipe = folder / "pipe"
        if not pipe.exists():
            os.mkfifo(pipe)
        return str(pipe)
    return value


def _place(rng: random.Random, content: Any) -> tuple[Any, Any]:
    """A container somewhere in a JSON value, and a key of it."""
    holder, key = None, None
    while isinstance(content, (dict, list)) and content:
        holder, key = content, rng.choice(list(content) if isinstance(content, dict) else range(len(content)))
        if rng.random() < 0.2:
            break
        content = content[key]
    return holder, key


def _change(rng: random.Random, folder: Path, content: Any) -> str:
    holder, key = _place(rng, content)
    if holder is None:
        return "nothing"
    how = rng.choice(["set", "set", "set", "delete", "add"])
    if how == "delete":
        del holder[key]
        return f"without {key!r:.60}"
    value = _pick(rng, folder)
    if how == "add" and isinstance(holder, dict):
        key = rng.choice(ODD_TEXTS)
    holder[key] = value
    return f"{key!r:.60} = {ascii(value)[:80]}" if not isinstance(value, int) else f"{key!r:.60} = a whole number"


def _card(folder: Path) -> Path:
    return next((folder / "run" / "checkpoints").iterdir()) / "checkpoint.json"


def _sealed_checkpoint(rng: random.Random, folder: Path) -> tuple[str, list[str]]:
    """Changes the card of a checkpoint, and writes the checksum that fits it."""
    card = _card(folder)
    content = json.loads(card.read_text())["content"]
    what = "; ".join(_change(rng, folder, content) for _ in range(rng.choice([1, 1, 2])))
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    card.write_text(json.dumps({"sha256": hashlib.sha256(text.encode()).hexdigest(), "content": content}))
    return what, _command(rng)


def _settings_of_checkpoint(rng: random.Random, folder: Path) -> tuple[str, list[str]]:
    """One setting of a sealed checkpoint."""
    card = _card(folder)
    content = json.loads(card.read_text())["content"]
    room = content[rng.choice(["settings", "training", "state"])]
    name, value = rng.choice(list(room)), _pick(rng, folder)
    room[name] = value
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    card.write_text(json.dumps({"sha256": hashlib.sha256(text.encode()).hexdigest(), "content": content}))
    shown = "a whole number" if isinstance(value, int) else ascii(value)[:80]
    return f"{name} = {shown}", _command(rng)


def _vocabulary(rng: random.Random, folder: Path) -> tuple[str, list[str]]:
    """Odd tokens in a sealed checkpoint."""
    card = _card(folder)
    content = json.loads(card.read_text())["content"]
    tokens = content["assets"][rng.choice(["source", "target"])]
    tokens[rng.randrange(len(tokens))] = rng.choice(ODD_TEXTS) + str(rng.random())
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    card.write_text(json.dumps({"sha256": hashlib.sha256(text.encode()).hexdigest(), "content": content}))
    return "an odd token", _command(rng)


def _tensors(rng: random.Random, folder: Path) -> tuple[str, list[str]]:
    """Odd tensors in a sealed checkpoint."""
    import torch
    from safetensors.torch import load, save

    card = _card(folder)
    content = json.loads(card.read_text())["content"]
    file = card.with_name(rng.choice(["model.safetensors", "training.safetensors"]))
    tensors = load(file.read_bytes())
    name = rng.choice(sorted(tensors))
    old = tensors[name]
    how = rng.choice(["nan", "huge", "integers", "double", "longer", "empty", "gone", "renamed", "bytes"])
    if how in ("gone", "renamed"):
        del tensors[name]
    changed = {
        "nan": lambda: torch.full_like(old.float(), torch.nan),
        "huge": lambda: torch.full_like(old.float(), 3e38),
        "integers": lambda: old.long(),
        "double": lambda: old.double(),
        "longer": lambda: torch.cat([old.flatten(), old.flatten()]),
        "empty": lambda: old.flatten()[:0].clone(),
        "bytes": lambda: torch.full_like(old, 255, dtype=torch.uint8),
        "renamed": lambda: old,
    }
    if how in changed:
        tensors[name + rng.choice(ODD_TEXTS[1:4]) if how == "renamed" else name] = changed[how]()
    data = save(tensors)
    file.write_bytes(data)
    content["files"][file.name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    card.write_text(json.dumps({"sha256": hashlib.sha256(text.encode()).hexdigest(), "content": content}))
    longer = ["train", "dates", "--out", "run", "--resume", "--schedule", "constant", "--epochs", "2"]
    if rng.random() < 0.5:
        config = json.loads((folder / "run" / "config.json").read_text())
        config["training"]["schedule"] = "constant"
        (folder / "run" / "config.json").write_text(json.dumps(config))
        return f"{name} {how}", longer
    return f"{name} {how}", _command(rng)


def _comparison(rng: random.Random, folder: Path) -> tuple[str, list[str]]:
    """comparison.json with something else in it."""
    model = {"name": "softmax", "by_length": {"1–2": 0.5, "3": 0.7}}
    content = {"metric": "exact_match", "models": [model, {**model, "name": "fusedmax"}]}
    what = _change(rng, folder, content)
    (folder / "comparison.json").write_text(json.dumps(content))
    return what, ["plot", "lengths", ".", "--out", "lengths.png"]


def _config(rng: random.Random, folder: Path) -> tuple[str, list[str]]:
    """config.json with something else in it."""
    file = folder / "run" / "config.json"
    content = json.loads(file.read_text())
    what = _change(rng, folder, content)
    file.write_text(json.dumps(content))
    return what, _command(rng)


def _bytes(rng: random.Random, folder: Path) -> tuple[str, list[str]]:
    """A file of the run with bytes flipped, cut, repeated or replaced."""
    files = sorted(path for path in (folder / "run").rglob("*") if path.is_file())
    file = rng.choice(files)
    data = bytearray(file.read_bytes())
    how = rng.choice(["flip", "cut", "double", "nesting", "empty", "digits"])
    if how == "flip" and data:
        for _ in range(rng.choice([1, 8])):
            data[rng.randrange(len(data))] = rng.randrange(256)
    elif how == "cut":
        del data[rng.randrange(len(data) + 1) :]
    elif how == "double":
        data = data * 2
    else:
        data = bytearray({"nesting": b"[" * 100_000, "empty": b"", "digits": b"9" * 5000}.get(how, bytes(data)))
    file.write_bytes(bytes(data))
    return f"{file.relative_to(folder)} ({how})", _command(rng)


def _links(rng: random.Random, folder: Path) -> tuple[str, list[str]]:
    """A link, a pipe or a directory in place of a file of the run."""
    names = ["lock", "config.json", "metrics.jsonl", "evaluation.json", "checkpoints", "tensorboard", ".unfinished-1"]
    checkpoint = _card(folder).parent
    chosen = rng.choice([*(folder / "run" / name for name in names), checkpoint, checkpoint / "model.safetensors"])
    outside = folder / "outside"
    if chosen.is_dir():
        shutil.move(chosen, outside / "moved")
        (outside / "moved" / ".unfinished-notes").write_text("mine")
    elif chosen.exists():
        shutil.move(chosen, outside / "moved")
    how = rng.choice(["moved", "precious", "new", "zero", "pipe", "directory", "loop"])
    targets = {"moved": outside / "moved", "precious": outside / "precious", "new": outside / "new", "loop": chosen}
    if how == "pipe":
        os.mkfifo(chosen)
    elif how == "directory":
        chosen.mkdir()
    else:
        chosen.symlink_to(targets.get(how, Path("/dev/zero")))
    return f"{chosen.name} is {how}", _command(rng)


def _toml(rng: random.Random, folder: Path) -> tuple[str, list[str]]:
    """Options from a file."""
    names = [
        "epochs",
        "learning-rate",
        "seed",
        "threads",
        "data",
        "beam",
        "gamma",
        "dropout",
        "locales",
        "attention",
        "x",
    ]
    values = ["0x" + "f" * 4000, "9" * 400, "9" * 5000, "nan", "inf", "-inf", "1e400", "[[[]]]", "{a = 1}", "true"]
    values += [
        "1979-05-27",
        '"\\u001b[2J"',
        '"/dev/zero"',
        '""',
        "[" * 50_000,
        "''''''",
        "-1",
        "0",
        '"' + "x" * 20_000 + '"',
    ]
    lines = [f"{rng.choice(names)} = {rng.choice(values)}" for _ in range(rng.choice([1, 2]))]
    (folder / "odd.toml").write_text("\n".join(lines))
    what = "; ".join(line[:60] for line in lines)
    return what, ["train", "dates", *SMALL, "--config", "odd.toml", "--out", "new"]


def _table(rng: random.Random, folder: Path) -> tuple[str, list[str]]:
    """A table of pairs, damaged or odd."""
    cells = [*ODD_TEXTS, "plain", "two words", "￭", "\u2028", "\x85", "\x1c", "é" * 50]
    rows = ["\t".join(rng.choice(cells) for _ in range(rng.choice([2, 2, 2, 1, 3]))) for _ in range(30)]
    text = rng.choice(["\n", "\r\n", "\r"]).join([*rows, *(f"one {n}\ttwo" for n in range(60))])
    data = text.encode("utf-8", "surrogatepass" if rng.random() < 0.3 else "replace")
    name = rng.choice(["pairs.tsv", "pairs.tsv.gz", "pairs.tsv.xz", "odd\x1b\u202e.tsv"])
    (folder / name).write_bytes(data)
    level = rng.choice(["word", "char"])
    sizes = ["--epochs", "1", "--hidden-size", "8", "--embedding-size", "8", "--max-length", "12", "--threads", "1"]
    return f"{name!a}, {level}", ["train", "seq2seq", "--data", name, "--level", level, *sizes, "--out", "new"]


def _inputs(rng: random.Random, folder: Path) -> tuple[str, list[str]]:
    """What a user may give to predict and attend."""
    lines = [
        rng.choice([*ODD_TEXTS, "3 May", "fr\t3 mai", "xx\t3", "\t", "x" * 30_000]) for _ in range(rng.choice([1, 5]))
    ]
    data = "\n".join(lines).encode("utf-8", "surrogatepass" if rng.random() < 0.3 else "replace")
    (folder / "inputs").write_bytes(data[: rng.choice([len(data), rng.randrange(len(data) + 1)])])
    where = rng.choice(["inputs", "inputs", "/dev/zero", "nowhere\x1b", "."])
    words = rng.choice(
        [["predict", "run", "--input", where, "--out", "predictions"], ["attend", "run", "--file", where]]
    )
    return f"{len(lines)} lines", [*words, "--threads", "1"]


def _numbers(rng: random.Random, folder: Path) -> tuple[str, list[str]]:
    """Absurd numbers on the command line."""
    numbers = ["-1", "0", "3000000000", "9" * 300, "9" * 5000, "nan", "inf", "1e400", "x\x1b", "", "1_0", "٣"]
    training = ["threads", "hidden-size", "embedding-size", "batch-size", "learning-rate", "seed", "beam", "examples"]
    training += ["epochs", "clip", "gamma", "dropout", "max-length", "max-tokens", "warmup", "data-seed", "typos"]
    value = rng.choice(numbers)
    if rng.random() < 0.5:
        words = ["train", "dates", *SMALL, f"--{rng.choice(training)}={value}", "--out", "new"]
    else:
        words = [*rng.choice([["evaluate", "run"], ["predict", "run"]])]
        words += [f"--{rng.choice(['beam', 'batch-size', 'threads'])}={value}"]
    return value[:20].encode("unicode_escape").decode(), words


SPOILERS = [
    _sealed_checkpoint,
    _settings_of_checkpoint,
    _vocabulary,
    _tensors,
    _comparison,
    _config,
    _bytes,
    _links,
    _toml,
    _table,
    _inputs,
    _numbers,
]
