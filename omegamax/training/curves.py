"""Curves for TensorBoard, where that is installed; where it is not, nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Curves:
    """Every number of metrics.jsonl, over steps."""

    def __init__(self, directory: Path, *, step: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            self._writer: Any = None
        else:  # a resumed run hides what its predecessor wrote after the checkpoint
            self._writer = SummaryWriter(str(directory), purge_step=step + 1 if step else None)

    def add(self, record: Mapping[str, Any]) -> None:
        """The numbers of one line."""
        if self._writer is None:
            return
        room = "train" if record["event"] == "step" else "epoch"
        numbers = {f"{room}/{name}": value for name, value in record.items()}
        numbers |= {f"dev/{name}": value for name, value in record.get("metrics", {}).items()}
        for name, value in numbers.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool) and not name.endswith("/step"):
                self._writer.add_scalar(name, value, record["step"])

    def close(self) -> None:
        """Writes what is still in memory."""
        if self._writer is not None:
            self._writer.close()
