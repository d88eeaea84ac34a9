"""These tests run in Triton's interpreter, on tensors of the CPU: `make test-triton`, in a process of its own."""

import os

import numpy as np
import pytest
import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
collect_ignore_glob = [] if INTERPRETED else ["test_*.py"]  # they import Triton, which `make test` does not need

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _without_numpy_warnings():
    """The interpreter computes with NumPy both branches of `tl.where`, also the one that is not taken."""
    with np.errstate(all="ignore"):
        yield
