"""Without compiled kernels everything is slow: a warning says so once, at the first call, unless the user chose it."""

import os
import subprocess
import sys
import warnings

import pytest
from cases import normal

import omegamax as om
from omegamax import routing
from omegamax.warning import SlowKernelsWarning

CALLS = {
    "rows": lambda: om.sparsemax(normal(3)),
    "rows with gradients": lambda: om.fusedmax(normal(3).requires_grad_()),
    "chains": lambda: om.Chain().max(normal(1, 3, 2, 2), om.Shannon()),
    "matchings": lambda: om.Matching().map(normal(3, 3)),
    "SparseMAP": lambda: om.Matching().sparsemap(normal(3, 3)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_the_first_slow_call_says_so_once(call, monkeypatch):
    monkeypatch.setattr(routing, "native", None)
    monkeypatch.setattr(routing, "slowness_reported", False)
    with pytest.warns(
        SlowKernelsWarning, match=r"kernels are expected, got none.*C\+\+17 compiler.*pip install"
    ) as caught:
        call()
    assert len(caught) == 1 and caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call()


PROGRAM = """
import sys, warnings
sys.modules["omegamax._native"] = None  # as if it had not been built
import torch, omegamax as om
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    om.sparsemax(torch.zeros(3))
    om.softmax(torch.zeros(3))
print([w.category.__name__ for w in caught])
"""


@pytest.mark.slow
@pytest.mark.parametrize("chosen, expected", [("", "['SlowKernelsWarning']"), ("reference", "[]")])
def test_who_asked_for_the_reference_is_not_warned(chosen, expected):
    environment = {**os.environ, "OMEGAMAX_KERNELS": chosen}
    run = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == expected
