"""The directory of a run, and the checkpoints in it.

config.json       the task, its settings, versions
metrics.jsonl     one JSON object per line: losses every few steps, metrics after every epoch
checkpoints/      the latest (`keep` of them), and the best by the task's metric; each a directory (see checkpoints.py)
tensorboard/      curves, if TensorBoard is installed
evaluation.json   metrics of the best model, once training has ended
lock              held by the process that writes

A link among them is refused, because writing to it would write outside the directory.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from omegamax.data.files import (
    FileLock,
    is_unfinished,
    make_directory,
    read_regular_file,
    refuse_link,
    refuse_links,
    remove_directory,
    remove_unfinished,
    write_file,
)
from omegamax.data.printable import short_repr
from omegamax.errors import CheckpointError, RunDirectoryError, os_error_text
from omegamax.training import checkpoints
from omegamax.training.checkpoints import Card
from omegamax.training.metrics_log import METRICS, MetricsLog, TensorBoardCurves
from omegamax.training.training_state import TrainingState

CONFIG, CHECKPOINTS, CURVES, LOCK = "config.json", "checkpoints", "tensorboard", "lock"
EVALUATION = "evaluation.json"
_MAX_CONFIG = 1 << 20  # bytes of config.json
_FORMAT = "omegamax run 1"
_CHECKPOINT_NAME = re.compile(r"epoch-(\d{5,})-step-(\d{9,})")
# Settings that may change when a run is resumed: they say where and how it is computed, but not what.
_CHANGEABLE = {"threads", "device", "sharding", "save_every", "keep", "log_every"}


@dataclass(frozen=True)
class RunDirectory:
    """Where a run writes, and what happens to a run that is there already: "refuse", "overwrite" or "resume"."""

    path: Path
    existing: str = "refuse"

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))
        if self.existing not in ("refuse", "overwrite", "resume"):
            raise ValueError(f"RunDirectory: existing must be refuse, overwrite or resume, got {self.existing!r}")

    def check(self) -> None:
        """Raises RunDirectoryError, before any work is done, for a directory that `open` would refuse."""
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise RunDirectoryError(f"{self.path} is a file; choose a directory with --out")
        self._refuse_links()
        config = read_run_config(self.path)
        if config is not None and self.existing == "refuse":
            raise RunDirectoryError(
                f"{self.path} holds a run already; continue it with --resume, replace it with --overwrite, "
                "or choose another directory with --out"
            )
        if config is None:  # a process that was killed before it wrote config.json leaves a lock and unfinished files
            foreign = [p.name for p in self.path.iterdir() if p.name != LOCK and not is_unfinished(p)]
            if foreign:
                raise RunDirectoryError(
                    f"{self.path} holds something else than a run ({min(foreign)}); choose another directory with --out"
                )

    def _refuse_links(self) -> None:
        refuse_links(self.path / name for name in (LOCK, CONFIG, METRICS, EVALUATION, CHECKPOINTS, CURVES))
        if (self.path / CHECKPOINTS).is_dir():
            refuse_links((self.path / CHECKPOINTS).iterdir())

    def open(self, config: Mapping[str, Any], *, added: Mapping[str, Mapping[str, Any]] | None = None) -> RunFiles:
        """Locks the directory and writes the configuration of a run to it.

        `added` has, for the groups of settings, the values that a run means that began before an option was there.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.path / LOCK)
        except OSError as error:
            raise RunDirectoryError(
                f"cannot write to {self.path} ({os_error_text(error)}); choose another directory with --out"
            ) from error
        try:
            self.check()
            stored = read_run_config(self.path)
            run = self._write_config(stored, config, added or {})
            files = RunFiles(self.path, lock, run, config.get("training", {}).get("keep", 1))
            if stored is not None and run != stored["run"]:
                for old in list_checkpoints(self.path):  # of the run that this one replaces
                    remove_directory(old)
            return files
        except OSError as error:
            lock.release()
            raise RunDirectoryError(f"cannot write to {self.path} ({os_error_text(error)})") from error
        except BaseException:
            lock.release()
            raise

    def _write_config(
        self, stored: Mapping[str, Any] | None, config: Mapping[str, Any], added: Mapping[str, Mapping[str, Any]]
    ) -> str:
        """Writes config.json, which is when an old run is replaced; returns the random name of the run."""
        if stored is not None and self.existing == "resume":
            meant = {group: {**values, **stored[group]} for group, values in added.items()}
            _check_same_settings(self.path, {**stored, **meant}, config)
            run = str(stored["run"])
        else:
            run = secrets.token_hex(8)
        content = {"format": _FORMAT, "run": run, **config, "versions": checkpoints.versions()}
        if stored != content:
            write_file(self.path / CONFIG, (json.dumps(content, indent=2) + "\n").encode())
        return run


class RunFiles:
    """The files of a run directory that rank 0 has open."""

    def __init__(self, path: Path, lock: FileLock, run: str, n_kept: int = 1) -> None:
        self.path, self.run, self.n_kept, self._lock = path, run, n_kept, lock
        self.checkpoints = path / CHECKPOINTS
        make_directory(self.checkpoints)
        for directory in (path, self.checkpoints):
            remove_unfinished(directory)
        self._curves: TensorBoardCurves | None = None
        self._metrics: MetricsLog | None = None

    def latest_checkpoint(self) -> Path | None:
        """Returns the checkpoint to resume from; deletes those that a replaced run left behind."""
        for path in reversed(list_checkpoints(self.path)):
            try:
                card, _ = checkpoints.read_card(path)
            except CheckpointError as error:
                raise CheckpointError(f"{error}; delete {path} to resume from the checkpoint before it") from error
            if card.run == self.run:
                return path
            remove_directory(path)
        return None

    def open_logs(self, state: TrainingState) -> int:
        """Removes what was logged after the checkpoint of this state; returns how many lines were logged before."""
        with self._explain_errors():
            self._remove_old_checkpoints(state)  # a process that was killed after its last checkpoint did not
            self._metrics = MetricsLog(self.path / METRICS, state.n_lines)
            if state.step == 0:
                shutil.rmtree(self.path / CURVES, ignore_errors=True)  # of a run that this one replaced
            refuse_link(self.path / CURVES)
            self._curves = TensorBoardCurves(self.path / CURVES, step=state.step)
        return self._metrics.n_lines

    def log(self, record: Mapping[str, Any]) -> None:
        """Writes one line of metrics.jsonl."""
        assert self._metrics is not None and self._curves is not None
        with self._explain_errors():
            self._metrics.write(record)
            self._curves.write(record)

    def save_checkpoint(
        self, state: TrainingState, card: Card, model: Mapping[str, Tensor], training: Mapping[str, Tensor]
    ) -> None:
        """Writes a checkpoint, and then deletes those that are neither among the latest nor the best."""
        path = self.checkpoints / _checkpoint_name(state.epoch, state.step)
        with self._explain_errors():
            if self._metrics is not None:  # lines that the checkpoint counts must be on the disk before it
                self._metrics.sync()
            if not path.exists():  # otherwise nothing has happened since
                checkpoints.write_checkpoint(path, card, model, training)
            self._remove_old_checkpoints(state)

    def _remove_old_checkpoints(self, state: TrainingState) -> None:
        latest, best = (state.epoch, state.step), (state.best_epoch, state.best_step)
        for old in list_checkpoints(self.path)[: -self.n_kept]:
            if old.name not in (_checkpoint_name(*latest), _checkpoint_name(*best)):
                remove_directory(old)

    def close(self) -> None:
        """Closes the files and releases the lock."""
        with suppress(OSError):  # a full disk was reported when it was met
            if self._metrics is not None:
                self._metrics.close()
            if self._curves is not None:
                self._curves.close()
        self._lock.release()

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        """Turns an OSError into a RunDirectoryError that says which checkpoint is left."""
        try:
            yield
        except OSError as error:
            left = list_checkpoints(self.path)
            last = f"the checkpoint {left[-1].name} is whole" if left else "there is no checkpoint yet"
            raise RunDirectoryError(
                f"cannot write to {self.path} ({os_error_text(error)}); {last}: "
                "make room there and continue with --resume"
            ) from error


def read_run_config(path: Path) -> dict[str, Any] | None:
    """Reads the config.json of a run directory; returns None if there is none."""
    file = Path(path) / CONFIG
    try:
        config = json.loads(read_regular_file(file, _MAX_CONFIG))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunDirectoryError(
            f"cannot read {file} ({os_error_text(error)}); choose another directory with --out"
        ) from error
    except (ValueError, RecursionError):
        config = None
    kinds = {"run": str, "task": str, "metric": str, "settings": dict, "training": dict}
    ours = isinstance(config, dict) and config.get("format") == _FORMAT
    if not ours or not all(isinstance(config.get(name), kind) for name, kind in kinds.items()):
        raise RunDirectoryError(f"{file} is not a run's; choose another directory with --out")
    return config


def list_checkpoints(path: Path) -> list[Path]:
    """Lists the complete checkpoints of a run directory, oldest first."""
    directory = Path(path) / CHECKPOINTS
    found = directory.iterdir() if directory.is_dir() else ()
    named = {each: match for each in found if (match := _CHECKPOINT_NAME.fullmatch(each.name)) and each.is_dir()}
    return sorted(named, key=lambda each: (int(named[each][2]), int(named[each][1])))


def best_checkpoint(path: Path) -> Path | None:
    """Returns the best checkpoint, or the latest if none was evaluated yet; None if there is no checkpoint."""
    found = list_checkpoints(path)
    if not found:
        return None
    state = checkpoints.read_card(found[-1])[0].state
    epoch, step = state.get("best_epoch"), state.get("best_step")
    if not (isinstance(epoch, int) and isinstance(step, int) and epoch > 0):
        return found[-1]
    return Path(path) / CHECKPOINTS / _checkpoint_name(epoch, step)


def _checkpoint_name(epoch: int, step: int) -> str:
    return f"epoch-{epoch:05d}-step-{step:09d}"


def _check_same_settings(path: Path, stored: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    """Raises RunDirectoryError if a resumed run has other settings than it began with."""
    if stored.get("task") != config["task"]:
        raise RunDirectoryError(f"{path} is a run of {stored.get('task')}, not of {config['task']}")
    for group in ("settings", "training"):
        before, now = stored.get(group, {}), config[group]
        for name in sorted({*before, *now}):
            old, new = before.get(name), now.get(name)
            if old != new and not (group == "training" and _may_change(name, old, new, now)):
                raise RunDirectoryError(
                    f"{path} began with {name} = {short_repr(old)}, which cannot become {short_repr(new)} "
                    "when it is resumed; leave it, or start again with --overwrite"
                )


def _may_change(name: str, old: Any, new: Any, training: Mapping[str, Any]) -> bool:
    """Returns whether a run that had the new value from the beginning would have come to the same point."""
    if name in _CHANGEABLE:
        return True
    if name == "epochs":
        return training["schedule"] in ("constant", "plateau", "pieces") and type(old) is int and new > old
    if name == "patience" and type(old) is int:
        return new == 0 or (0 < old < new)
    return False
