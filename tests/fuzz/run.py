"""Runs the fuzzers: random and adversarial inputs against slow oracles, for a bounded time, from a seed.

    python tests/fuzz/run.py [rows] [structures] [files] --seed 0 --seconds 60

Every module of this folder is a fuzzer if it has

    def fuzz(seed: int, seconds: float) -> list[str]

which tries cases for about that many seconds and returns one string per failure: what differs, and what is needed to
see it again. A module that keeps the number of its cases in a global `n_cases` gets it printed. Without names, all
fuzzers run, each for the given time. The exit code is 1 if any case failed.
"""

import argparse
import importlib.util
import os
import pathlib
import sys
import time
from types import ModuleType

FOLDER = pathlib.Path(__file__).resolve().parent
SHOWN = 10  # failures printed in full for each fuzzer


def names() -> list[str]:
    """The fuzzers in this folder."""
    return sorted(
        path.stem for path in FOLDER.glob("*.py") if path != pathlib.Path(__file__).resolve() and path.stem[0] != "_"
    )


def load(name: str) -> ModuleType:
    """The module of one fuzzer. It can import what the tests import (`cases`, `oracles`)."""
    spec = importlib.util.spec_from_file_location(f"fuzz_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def run(name: str, seed: int, seconds: float) -> bool:
    """Runs one fuzzer, prints its summary and its failures, and says whether all cases passed."""
    module = load(name)
    begin = time.monotonic()
    failures = module.fuzz(seed, seconds)
    tried = getattr(module, "n_cases", None)
    summary = f"{len(failures)} failed" if tried is None else f"{tried} cases, {len(failures)} failed"
    print(f"{name}: {summary}, seed {seed}, {time.monotonic() - begin:.0f} s", flush=True)
    for failure in failures[:SHOWN]:
        print(f"  {failure}")
    if len(failures) > SHOWN:
        print(f"  and {len(failures) - SHOWN} more")
    if failures:
        print(f"  again: python tests/fuzz/run.py {name} --seed {seed} --seconds {seconds:g}", flush=True)
    return not failures


def main(arguments: list[str] | None = None) -> int:
    """Parses the command line and runs the chosen fuzzers."""
    parser = argparse.ArgumentParser(description="Runs the fuzzers against slow oracles, for a bounded time.")
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"of {', '.join(names())}; all of them if none is given"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each fuzzer")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(names()):
        parser.error(f"no fuzzer is called {', '.join(sorted(unknown))}; choose among {', '.join(names())}")
    sys.path[:0] = [str(FOLDER.parent), str(FOLDER.parent.parent)]
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    passed = [run(name, options.seed, options.seconds) for name in options.names or names()]
    return int(not all(passed))


if __name__ == "__main__":
    sys.exit(main())
