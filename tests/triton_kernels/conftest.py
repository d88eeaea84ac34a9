"""These tests run in Triton's interpreter, on tensors of the CPU: `make test-triton`, in a process of its own."""

import os

import numpy as np
import pytest
import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
collect_ignore_glob = [] if INTERPRETED else ["test_*.py"]  # they import Triton, which `make test` does not need

torch.set_num_threads(1)


def pytest_collection_modifyitems(items):
    """Leaves the tests out where Triton is not interpreted, also those named on the command line."""
    for item in items:
        if not INTERPRETED and "tests/triton_kernels/" in str(item.path).replace(os.sep, "/"):
            item.add_marker(pytest.mark.skip(reason="set TRITON_INTERPRET=1 before Python starts, as make test-triton"))


@pytest.fixture(autouse=True)
def _without_numpy_warnings():
    """The interpreter computes with NumPy both branches of `tl.where`, also the one that is not taken."""
    with np.errstate(all="ignore"):
        yield
