"""The state of every random generator that a model or a task may use, as tensors: PyTorch's, Python's and NumPy's."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

NAMES = ("torch", "cuda", "python", "python_gauss", "numpy", "numpy_gauss")


def seed_all(*entropy: int) -> None:
    """Seeds every generator from a few integers, mixed so that neighbouring seeds give unrelated numbers."""
    mixed = np.random.SeedSequence(entropy).generate_state(4, dtype=np.uint32).tolist()
    torch.manual_seed((mixed[1] << 31) ^ mixed[0])  # also of every GPU
    random.seed(mixed[2])
    np.random.seed(mixed[3])  # noqa: NPY002  (tasks may use the old interface)


def capture() -> dict[str, Tensor]:
    """Returns the state of every generator."""
    _, words, gauss = random.getstate()
    legacy: Any = np.random.get_state()  # noqa: NPY002
    _, keys, at, has_gauss, cached = legacy
    state = {
        "torch": torch.get_rng_state(),
        "python": torch.tensor(words, dtype=torch.int64),
        "python_gauss": torch.tensor([] if gauss is None else [gauss], dtype=torch.float64),
        "numpy": torch.tensor([*keys.tolist(), at, has_gauss], dtype=torch.int64),
        "numpy_gauss": torch.tensor([cached], dtype=torch.float64),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def restore(state: Mapping[str, Tensor]) -> None:
    """Restores the state that `capture` returned; raises ValueError for anything that `capture` cannot return."""
    try:
        torch.set_rng_state(state["torch"])
        gauss = state["python_gauss"].tolist()
        random.setstate((3, tuple(state["python"].tolist()), gauss[0] if gauss else None))
        *keys, at, has_gauss = state["numpy"].tolist()
        if len(keys) != 624 or not 0 <= at <= 624:  # NumPy would read beyond its memory
            raise ValueError("NumPy's generator has 624 words and a position among them")
        cached = state["numpy_gauss"].item()
        np.random.set_state(("MT19937", np.array(keys, dtype=np.uint32), at, has_gauss, cached))  # noqa: NPY002
        if "cuda" in state and torch.cuda.is_available():
            torch.cuda.set_rng_state(state["cuda"])
    except (LookupError, TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ValueError(f"the state of the random numbers is not one that was saved ({error})") from error


@contextlib.contextmanager
def isolated(*entropy: int) -> Iterator[None]:
    """Returns a context with random numbers of its own: draws inside do not change later draws."""
    before = capture()
    seed_all(*entropy)
    try:
        yield
    finally:
        restore(before)
