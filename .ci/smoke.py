"""A short trial of an installed wheel: run it with the interpreter of an environment that holds nothing else.

Only what the wheel requires is installed, so this fails when the library imports something that it does not require,
when a file is missing in the wheel, and when the wheel has no compiled kernels.
"""

import importlib.metadata
import subprocess
import sys
import sysconfig
from pathlib import Path

import torch

import omegamax as om

torch.manual_seed(0)
installed = Path(sysconfig.get_path("platlib"))
assert Path(om.__file__).is_relative_to(installed), f"omegamax comes from {om.__file__}, not from {installed}"
assert importlib.metadata.version("omegamax") == om.__version__
assert (installed / "omegamax" / "py.typed").exists()
importlib.import_module("omegamax._native")

# An operator and its gradient. On the support S of its weights, sparsemax moves by v_S - mean(v_S).
scores = torch.tensor([1.0, 0.8, -1.0], requires_grad=True)
weights = om.sparsemax(scores)
torch.testing.assert_close(weights, torch.tensor([0.6, 0.4, 0.0]))
weights[0].backward()
torch.testing.assert_close(scores.grad, torch.tensor([0.5, -0.5, 0.0]))

# A chain of three places and two tags: its log-partition, by counting all eight paths.
emissions, transitions = torch.randn(1, 3, 2), torch.randn(2, 2)
paths = torch.cartesian_prod(*[torch.arange(2)] * 3)
by_hand = emissions[0, torch.arange(3), paths].sum(-1)
by_hand += transitions[paths[:, 0], paths[:, 1]] + transitions[paths[:, 1], paths[:, 2]]
found = om.Chain().max(om.Chain.from_emissions(emissions, transitions), om.Shannon())
torch.testing.assert_close(found, by_hand.logsumexp(0, keepdim=True))

# The command, as installed, says that the kernels are native.
command = Path(sysconfig.get_path("scripts")) / "omegamax"
shown = subprocess.run([command, "info"], capture_output=True, text=True, check=True).stdout
assert om.__version__ in shown and "native" in shown, shown
print(f"omegamax {om.__version__} works, alone in {sys.prefix}")
