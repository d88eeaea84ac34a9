"""What `omegamax bench --device` measures: rows and attention on one device, beside the peers that run there."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import quantiles
from typing import Any, NamedTuple

from omegamax.cli.errors import CommandError
from omegamax.cli.output import check_absent
from omegamax.cli.tables import aligned, number, terminal_width
from omegamax.data.files import write_user_file

_WARM_UP = 3  # calls before the clock starts: compilation, autotuning, the allocator
_FEWEST, _MOST = 5, 1000  # timed calls
_MIB = 2.0**20
_PEERS = ("torch", "triton", "adasplash")


class Contestant(NamedTuple):
    """A function of tensors to be timed, forwards and with its gradient."""

    task: str
    name: str
    function: Callable[..., Any]
    inputs: tuple[Any, ...]


def run(options: argparse.Namespace) -> None:
    """Measures everything, prints a table, and writes it as JSON if that is wanted."""
    import torch

    from omegamax.cli.info import describe

    if options.json is not None:
        check_absent([options.json], overwrite=options.overwrite)
    device = _device(options.device)
    clock = _Clock(device)
    chosen = _rows(options, device) + _attention(options, device)
    seconds = options.seconds / (2 * len(chosen))
    cells = [_measured(each, clock, seconds) for each in chosen]
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "the processor below"
    print(f"{describe()}\n{'device':<17} {device} ({name})")
    print("".join(f"{peer:<17} {_version(peer)}\n" for peer in _PEERS[1:]))
    print(f"rows: {options.rows} x {options.columns}, float32, spread {options.spread:g}")
    print(f"attention: {_shape(options)} (batch x heads x queries and keys x size), {options.dtype}\n")
    print(aligned(_table(cells), terminal_width()))
    for cell in cells:
        if cell["failed"]:
            print(f"{cell['name']}: {cell['failed']}")
    if options.json is not None:
        settings = {
            each: getattr(options, each)
            for each in ("rows", "columns", "spread", "batch", "heads", "sequence", "head_size", "dtype", "seconds")
        }
        found = {
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "device": str(device),
            "device_name": name if device.type == "cuda" else None,
            "versions": {"omegamax": _version("omegamax")} | {peer: _version(peer) for peer in _PEERS},
            "settings": settings,
            "cells": cells,
        }
        write_user_file(Path(options.json), (json.dumps(found, indent=1) + "\n").encode())


def _device(name: str) -> Any:
    """Returns the device, or says in one sentence that it is not there."""
    import torch

    try:
        device = torch.device(name)
    except RuntimeError:
        raise CommandError(f"--device must name a device of PyTorch, got {name!r}; try cuda or cpu") from None
    known = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not known.get(device.type, False):
        raise CommandError(
            f"--device {name} needs a device that PyTorch {torch.__version__} can use, got none; install a PyTorch for "
            "your GPU and its driver, or give --device cpu"
        )
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise CommandError(
            f"--device {name} must be below cuda:{torch.cuda.device_count()}, got {name}; see nvidia-smi"
        )
    return device


def _rows(options: argparse.Namespace, device: Any) -> list[Contestant]:
    import torch

    from omegamax import registry

    scores = _drawn((options.rows, options.columns), device, torch.float32, options.spread)
    task = "rows"
    found = [Contestant(task, "torch.softmax", lambda x: torch.softmax(x, -1), (scores,))]
    lineup = registry.lineup(options.columns)
    return found + [Contestant(task, name, operator.argmax, (scores,)) for name, operator in lineup.items()]


def _attention(options: argparse.Namespace, device: Any) -> list[Contestant]:
    import torch

    import omegamax as om

    shape = (options.batch, options.heads, options.sequence, options.head_size)
    inputs = tuple(_drawn(shape, device, getattr(torch, options.dtype), 1.0, seed) for seed in range(3))
    sdpa = torch.nn.functional.scaled_dot_product_attention
    task = "attention"
    found = [Contestant(task, "SDPA (softmax)", sdpa, inputs)]
    for name, normalizer in {"sparsemax": om.SquaredNorm(), "entmax15": om.Tsallis(1.5)}.items():
        found.append(
            Contestant(
                task, name, lambda q, k, v, normalizer=normalizer: om.sparse_attention(q, k, v, normalizer), inputs
            )
        )
    if device.type == "cuda" and _version("adasplash") != "not installed":
        found.append(Contestant(task, "AdaSplash (entmax15)", _adasplash, inputs))
    return found


def _adasplash(query: Any, key: Any, value: Any) -> Any:
    from adasplash import adasplash

    return adasplash(query, key, value, alpha=1.5)


def _drawn(shape: tuple[int, ...], device: Any, dtype: Any, spread: float, seed: int = 0) -> Any:
    """Draws on the host, so that the numbers are the same on every device."""
    import torch

    try:
        generator = torch.Generator().manual_seed(seed)
        return (spread * torch.randn(*shape, generator=generator)).to(device, dtype)
    except (RuntimeError, MemoryError) as error:  # PyTorch has no type of its own for this
        raise CommandError(
            f"tensors of {' x '.join(map(str, shape))} do not fit into memory; give a smaller size"
        ) from error


def _measured(contestant: Contestant, clock: _Clock, seconds: float) -> dict[str, Any]:
    """Times one contestant. One that fails leaves its cells empty and says why; the others go on."""
    import torch

    leaves = [each.clone().requires_grad_() for each in contestant.inputs]
    cell: dict[str, Any] = {"task": contestant.task, "name": contestant.name, "failed": ""}

    def forward() -> None:
        with torch.no_grad():
            contestant.function(*contestant.inputs)

    def both() -> None:
        output = contestant.function(*leaves)
        torch.autograd.grad(output, leaves, torch.ones_like(output))

    for name, call in {"forward": forward, "forward_and_backward": both}.items():
        try:
            cell[name] = clock.milliseconds(call, seconds)
            cell[f"{name}_bytes"] = clock.peak(call)
        except Exception as error:  # whatever a peer raises on this device
            cell[name] = cell[f"{name}_bytes"] = None
            first = (str(error).strip().splitlines() or [""])[0]
            cell["failed"] = f"{name.replace('_', ' ')} failed with {type(error).__name__}: {first[:200]}"
    return cell


class _Clock:
    """Times calls on a device: by its own events on CUDA, elsewhere by the host's clock once all work is done."""

    def __init__(self, device: Any) -> None:
        self.device = device

    def milliseconds(self, call: Callable[[], None], seconds: float) -> dict[str, float]:
        """Returns the quartiles of the times of single calls, and their number."""
        for _ in range(_WARM_UP):
            call()
        self._wait()
        end, found = time.perf_counter() + seconds, list[float]()
        while len(found) < _FEWEST or (time.perf_counter() < end and len(found) < _MOST):
            found.append(self._once(call))
        low, middle, high = quantiles(found, n=4)
        return {"low": low, "median": middle, "high": high, "calls": len(found)}

    def peak(self, call: Callable[[], None]) -> int | None:
        """Returns the bytes that a call takes beside its inputs at most; None where the device does not say."""
        import torch

        if self.device.type != "cuda":
            return None
        self._wait()
        before = torch.cuda.memory_allocated(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        call()
        self._wait()
        return int(torch.cuda.max_memory_allocated(self.device) - before)

    def _once(self, call: Callable[[], None]) -> float:
        import torch

        if self.device.type == "cuda":
            with torch.cuda.device(self.device):
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                call()
                end.record()
                end.synchronize()
                return float(start.elapsed_time(end))
        begin = time.perf_counter()
        call()
        self._wait()
        return 1e3 * (time.perf_counter() - begin)

    def _wait(self) -> None:
        import torch

        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        elif self.device.type == "mps":
            torch.mps.synchronize()


def _table(cells: list[dict[str, Any]]) -> list[list[str]]:
    rows = [["", "forward", "forward + backward", "memory", "ratio"]]
    first: dict[str, float] = {}
    for cell in cells:
        both = cell["forward_and_backward"]
        if both is not None:
            first.setdefault(cell["task"], both["median"])
        share = both["median"] / first[cell["task"]] if both is not None else None
        memory = cell["forward_and_backward_bytes"]
        rows.append([
            f"{cell['task']}, {cell['name']}", _shown(cell["forward"]), _shown(both),
            "–" if memory is None else f"{memory / _MIB:.1f} MiB", number(share),
        ])  # fmt: skip
    if all(row[3] == "–" for row in rows[1:]):  # only CUDA says what a call takes
        rows = [[*row[:3], row[4]] for row in rows]
    return rows


def _shown(times: dict[str, float] | None) -> str:
    if times is None:
        return "failed"
    return f"{times['median']:.4g} ± {(times['high'] - times['low']) / 2:.2g} ms"


def _shape(options: argparse.Namespace) -> str:
    return f"{options.batch} x {options.heads} x {options.sequence} x {options.head_size}"


def _version(package: str) -> str:
    import omegamax

    if package == "omegamax":
        return omegamax.__version__
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
