"""The directory of a run.

config.json       the task, its settings, versions
metrics.jsonl     one JSON object per line: losses every few steps, metrics after every epoch
checkpoints/      the latest, and the best by the task's metric; each a directory (see checkpoint.py)
tensorboard/      curves, if TensorBoard is installed
evaluation.json   metrics of the best model, once training has ended
lock              held by the process that writes

A link among them is refused, since what is written there would be written elsewhere.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from omegamax.data import atomic
from omegamax.data.files import make_directory, open_inside, read_regular, refuse_link, refuse_links
from omegamax.data.lock import Lock
from omegamax.data.printable import quoted
from omegamax.errors import CheckpointError, RunDirectoryError, reason
from omegamax.training import checkpoints as checkpoint
from omegamax.training.checkpoints import Card
from omegamax.training.curves import Curves
from omegamax.training.metrics_log import METRICS
from omegamax.training.training_state import TrainingState

CONFIG, CHECKPOINTS, CURVES, LOCK = "config.json", "checkpoints", "tensorboard", "lock"
EVALUATION = "evaluation.json"
_MAX_CONFIG = 1 << 20  # bytes of config.json
_FORMAT = "omegamax run 1"
_NAME = re.compile(r"epoch-(\d{5,})-step-(\d{9,})")
# What may differ from the settings of the run that is resumed: where and how it is computed, but not what.
_FREE = {"threads", "device", "sharding", "save_every", "log_every"}


@dataclass(frozen=True)
class RunDirectory:
    """Where a run writes, and what becomes of a run that is there already: "refuse", "overwrite" or "resume"."""

    path: Path
    existing: str = "refuse"

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))
        if self.existing not in ("refuse", "overwrite", "resume"):
            raise ValueError(f"RunDirectory: existing must be refuse, overwrite or resume, got {self.existing!r}")

    def check(self) -> None:
        """Refuses, before any work is done, a directory that `open` would refuse."""
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise RunDirectoryError(f"{self.path} is a file; choose a directory with --out")
        self._refuse_links()
        config = stored_config(self.path)
        if config is not None and self.existing == "refuse":
            raise RunDirectoryError(
                f"{self.path} holds a run already; continue it with --resume, replace it with --overwrite, "
                "or choose another directory with --out"
            )
        if config is None:  # ours are left by a process that was killed before it wrote config.json
            foreign = [p.name for p in self.path.iterdir() if p.name != LOCK and not atomic.is_unfinished(p)]
            if foreign:
                raise RunDirectoryError(
                    f"{self.path} holds something else than a run ({min(foreign)}); choose another directory with --out"
                )

    def _refuse_links(self) -> None:
        refuse_links(self.path / name for name in (LOCK, CONFIG, METRICS, EVALUATION, CHECKPOINTS, CURVES))
        if (self.path / CHECKPOINTS).is_dir():
            refuse_links((self.path / CHECKPOINTS).iterdir())

    def open(self, config: Mapping[str, Any]) -> RunFiles:
        """Takes the directory, for a run that this configuration describes."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = Lock(self.path / LOCK)
        except OSError as error:
            raise RunDirectoryError(
                f"cannot write to {self.path} ({reason(error)}); choose another directory with --out"
            ) from error
        try:
            self.check()
            stored = stored_config(self.path)
            run = self._settle(stored, config)
            files = RunFiles(self.path, lock, run)
            if stored is not None and run != stored["run"]:
                for old in list_checkpoints(self.path):  # of the run that this one replaces
                    atomic.remove_directory(old)
            return files
        except OSError as error:
            lock.release()
            raise RunDirectoryError(f"cannot write to {self.path} ({reason(error)})") from error
        except BaseException:
            lock.release()
            raise

    def _settle(self, stored: Mapping[str, Any] | None, config: Mapping[str, Any]) -> str:
        """Writes config.json, the moment at which an old run is replaced; returns the run's name for itself."""
        if stored is not None and self.existing == "resume":
            _compare(self.path, stored, config)
            run = str(stored["run"])
        else:
            run = secrets.token_hex(8)
        content = {"format": _FORMAT, "run": run, **config, "versions": checkpoint.versions()}
        if stored != content:
            atomic.write_file(self.path / CONFIG, (json.dumps(content, indent=2) + "\n").encode())
        return run


class RunFiles:
    """An open run directory, of one process."""

    def __init__(self, path: Path, lock: Lock, run: str) -> None:
        self.path, self.run, self._lock = path, run, lock
        self.checkpoints = path / CHECKPOINTS
        make_directory(self.checkpoints)
        for directory in (path, self.checkpoints):
            atomic.sweep(directory)
        self._curves: Curves | None = None
        self._metrics: Any = None

    def latest(self) -> Path | None:
        """The checkpoint to go on from; those that a replaced run left behind are deleted."""
        for path in reversed(list_checkpoints(self.path)):
            try:
                card, _ = checkpoint.read_card(path)
            except CheckpointError as error:
                raise CheckpointError(f"{error}; delete {path} to resume from the checkpoint before it") from error
            if card.run == self.run:
                return path
            atomic.remove_directory(path)
        return None

    def begin(self, state: TrainingState) -> int:
        """Forgets what was logged after the checkpoint; returns how many lines from before it are there."""
        with self._writing():
            self._prune(state)  # a process killed after its last checkpoint did not
            n_kept = self._open_metrics(state.n_lines)
            if state.step == 0:
                shutil.rmtree(self.path / CURVES, ignore_errors=True)  # of a run that this one replaced
            refuse_link(self.path / CURVES)
            self._curves = Curves(self.path / CURVES, step=state.step)
        return n_kept

    def _open_metrics(self, n_lines: int) -> int:
        """Cuts metrics.jsonl to its first whole lines, ready for more; returns how many there are."""
        path = self.path / METRICS
        file = os.fdopen(open_inside(path, os.O_RDWR | os.O_CREAT), "r+b")
        lines = file.read().splitlines(keepends=True)
        kept = [line for line in lines[:n_lines] if line.endswith(b"\n")]
        if os.fstat(file.fileno()).st_nlink > 1:  # the other name, of a copy made by hard links, keeps its lines
            file.close()
            atomic.write_file(path, b"".join(kept))
            file = os.fdopen(open_inside(path, os.O_RDWR), "r+b")
        elif len(lines) != len(kept):
            os.ftruncate(file.fileno(), sum(map(len, kept)))
        file.seek(0, os.SEEK_END)
        self._metrics = file
        return len(kept)

    def log(self, record: Mapping[str, Any]) -> None:
        """One line of metrics.jsonl."""
        assert self._curves is not None
        with self._writing():
            self._metrics.write((json.dumps(record, allow_nan=False) + "\n").encode())
            self._metrics.flush()
            self._curves.add(record)

    def save(
        self, state: TrainingState, card: Card, model: Mapping[str, Tensor], training: Mapping[str, Tensor]
    ) -> None:
        """Writes a checkpoint, and then deletes those that are neither the latest nor the best."""
        path = self.checkpoints / _name(state.epoch, state.step)
        with self._writing():
            if self._metrics is not None:  # lines that the checkpoint counts must not be lost after it
                atomic.sync_file(self._metrics)
            if not path.exists():  # else nothing has happened since
                checkpoint.save(path, card, model, training)
            self._prune(state)

    def _prune(self, state: TrainingState) -> None:
        keep = {_name(state.epoch, state.step), _name(state.best_epoch, state.best_step)}
        for old in list_checkpoints(self.path):
            if old.name not in keep:
                atomic.remove_directory(old)

    def close(self) -> None:
        """Lets others write."""
        with suppress(OSError):  # a full disk was reported when it was met
            if self._metrics is not None:
                self._metrics.close()
            if self._curves is not None:
                self._curves.close()
        self._lock.release()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Says what is left when the system refuses to write."""
        try:
            yield
        except OSError as error:
            left = list_checkpoints(self.path)
            last = f"the checkpoint {left[-1].name} is whole" if left else "there is no checkpoint yet"
            raise RunDirectoryError(
                f"cannot write to {self.path} ({reason(error)}); {last}: make room there and continue with --resume"
            ) from error


def stored_config(path: Path) -> dict[str, Any] | None:
    """The config.json of a run directory; None if there is none."""
    file = Path(path) / CONFIG
    try:
        config = json.loads(read_regular(file, _MAX_CONFIG))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunDirectoryError(f"cannot read {file} ({reason(error)}); choose another directory with --out") from error
    except (ValueError, RecursionError):
        config = None
    kinds = {"run": str, "task": str, "metric": str, "settings": dict, "training": dict}
    ours = isinstance(config, dict) and config.get("format") == _FORMAT
    if not ours or not all(isinstance(config.get(name), kind) for name, kind in kinds.items()):
        raise RunDirectoryError(f"{file} is not a run's; choose another directory with --out")
    return config


def list_checkpoints(path: Path) -> list[Path]:
    """The complete checkpoints of a run directory, oldest first."""
    directory = Path(path) / CHECKPOINTS
    found = directory.iterdir() if directory.is_dir() else ()
    named = {each: match for each in found if (match := _NAME.fullmatch(each.name)) and each.is_dir()}
    return sorted(named, key=lambda each: (int(named[each][2]), int(named[each][1])))


def best_checkpoint(path: Path) -> Path | None:
    """The best so far, or the latest before the first evaluation; None if there is no checkpoint yet."""
    found = list_checkpoints(path)
    if not found:
        return None
    state = checkpoint.read_card(found[-1])[0].state
    epoch, step = state.get("best_epoch"), state.get("best_step")
    if not (isinstance(epoch, int) and isinstance(step, int) and epoch > 0):
        return found[-1]
    return Path(path) / CHECKPOINTS / _name(epoch, step)


def _name(epoch: int, step: int) -> str:
    return f"epoch-{epoch:05d}-step-{step:09d}"


def _compare(path: Path, stored: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    """Refuses to go on with other settings than the run began with."""
    if stored.get("task") != config["task"]:
        raise RunDirectoryError(f"{path} is a run of {stored.get('task')}, not of {config['task']}")
    for room in ("settings", "training"):
        before, now = stored.get(room, {}), config[room]
        for name in sorted({*before, *now}):
            old, new = before.get(name), now.get(name)
            if old != new and not (room == "training" and _harmless(name, old, new, now)):
                raise RunDirectoryError(
                    f"{path} began with {name} = {quoted(old)}, which cannot become {quoted(new)} when it is resumed; "
                    "leave it, or start again with --overwrite"
                )


def _harmless(name: str, old: Any, new: Any, training: Mapping[str, Any]) -> bool:
    """Whether a run that had the new value from the beginning would have come to the same point."""
    if name in _FREE:
        return True
    if name == "epochs":
        return training["schedule"] in ("constant", "plateau") and type(old) is int and new > old
    if name == "patience" and type(old) is int:
        return new == 0 or (0 < old < new)
    return False
