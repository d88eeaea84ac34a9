"""Two trees of this library against each other: the time of a call after a change, over the time before it.

    python benchmarks/before_after.py OLD NEW

OLD and NEW are checkouts with a `.venv`, or Python interpreters. Each round starts a process for each of them, and the
two take turns at every cell (old, new, new, old), so that a busy moment hits both. A cell of the table shows the ratio
of the fastest calls of all rounds, and the quartiles of the ratios of the single rounds. A cell looks slower where the
first ratio and the middle quartile are both above the limit. Such cells are measured in as many rounds again, twice; if
they still look slower, the exit status is 1.

On a machine that others keep busy, `--threads 1 --clock process_time` measures processor time.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

CELLS = Path(__file__).with_name("before_after_cells.py")
IMPORT = "import time, torch; before = time.{clock}(); import omegamax; print(time.{clock}() - before)"
COMMANDS = ["import omegamax, after torch", "omegamax --help"]


class Tree:
    """One of the two contestants, with the times of each round."""

    def __init__(self, given: str, options: argparse.Namespace) -> None:
        path = Path(given).absolute()
        self.python = str(path / ".venv/bin/python" if path.is_dir() else path)
        self.options = options
        self.times: dict[str, list[float | None]] = {}

    def start(self) -> None:
        options = self.options
        command = [self.python, str(CELLS), f"--threads={options.threads}", f"--seconds={options.seconds}"]
        self.worker = subprocess.Popen(
            [*command, f"--clock={options.clock}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, line: str) -> object:
        self.worker.stdin.write(line + "\n")
        self.worker.stdin.flush()
        answer = self.worker.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self.python} ended while it measured {line!r}")
        return json.loads(answer)

    def stop(self) -> None:
        self.worker.stdin.close()
        self.worker.wait()

    def measure(self, cell: str) -> float | None:
        return self.command(cell) if cell in COMMANDS else self.ask(cell)

    def command(self, cell: str) -> float:
        """Seconds of a process of its own, in an empty folder, where no source tree can be imported by accident."""
        clock = self.options.clock
        with tempfile.TemporaryDirectory() as folder:
            if cell == COMMANDS[0]:
                program = [self.python, "-c", IMPORT.format(clock=clock)]
                return float(subprocess.check_output(program, cwd=folder))
            before = _seconds(clock)
            subprocess.check_output([self.python, "-m", "omegamax", "--help"], cwd=folder)
            return _seconds(clock) - before


def _seconds(clock: str) -> float:
    if clock == "perf_counter":
        return time.perf_counter()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)  # of the children that have ended
    return used.ru_utime + used.ru_stime


def one_round(trees: list[Tree], wanted: Callable[[str], object]) -> None:
    for tree in trees:
        tree.start()
    for cell in filter(wanted, [*trees[0].ask("list"), *COMMANDS]):
        visits = [(tree, tree.measure(cell)) for tree in (*trees, *reversed(trees))]
        for tree in trees:
            found = [seconds for owner, seconds in visits if owner is tree]
            tree.times.setdefault(cell, []).append(None if None in found else min(found))
    for tree in trees:
        tree.stop()


def table(old: Tree, new: Tree, limit: float) -> tuple[list[str], list[str]]:
    """Lines of Markdown, and the cells that became slower."""
    lines = ["| cell | old, µs | new, µs | new / old | quartiles of the rounds |", "|---|---|---|---|---|"]
    slower = []
    for cell, before in old.times.items():
        after = new.times[cell]
        if None in before or None in after:
            lines.append(f"| {cell} | – | – | not in both trees | – |")
            continue
        ratio = min(after) / min(before)
        rounds = [b / a for a, b in zip(before, after)]
        low, middle, high = statistics.quantiles(rounds, n=4, method="inclusive") if len(rounds) > 1 else rounds * 3
        mark = ""
        if ratio > limit and middle > limit:
            slower.append(cell)
            mark = " **slower**"
        numbers = f"{min(before) * 1e6:.1f} | {min(after) * 1e6:.1f} | {ratio:.3f}{mark}"
        lines.append(f"| {cell} | {numbers} | {low:.3f} {middle:.3f} {high:.3f} |")
    return lines, slower


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="a checkout with a .venv, or a Python interpreter")
    parser.add_argument("new", help="the same, after the change")
    parser.add_argument("--rounds", type=int, default=10, help="processes of each tree (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=0.02, help="per visit of a cell (default %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="threads for torch and omegamax (default %(default)s)")
    parser.add_argument("--clock", choices=["perf_counter", "process_time"], default="perf_counter")
    parser.add_argument("--limit", type=float, default=1.03, help="ratios above it are slower (default %(default)s)")
    parser.add_argument("--only", default="", help="a regular expression: only the cells whose names it matches")
    options = parser.parse_args()
    old, new = Tree(options.old, options), Tree(options.new, options)
    wanted: Callable[[str], object] = re.compile(options.only).search
    for again in range(3):
        for number in range(options.rounds):
            one_round([old, new] if number % 2 == 0 else [new, old], wanted)
            print(f"round {number + 1} of {options.rounds}, {again} times again", file=sys.stderr, flush=True)
        lines, slower = table(old, new, options.limit)
        if not slower:
            break
        wanted = set(slower).__contains__
    print(
        f"{options.rounds} rounds, {options.threads} threads, {options.clock}; old {options.old}, new {options.new}\n"
    )
    print("\n".join(lines))
    print(f"\n{len(slower)} of {len(lines) - 2} cells became slower than {options.limit} times.", *slower, sep="\n")
    sys.exit(bool(slower))


if __name__ == "__main__":
    main()
