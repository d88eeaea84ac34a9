"""Which Ω runs compiled: every spelling of one Ω is the same program, and equals the generic engine."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import omegamax as om
from omegamax import routing
from omegamax.inference.compiled_omega import compiled_omega
from omegamax.inference.hypergraphs.lattice_program import LatticeProgram
from omegamax.kernels.structures.omega import Omega

STRUCTURES = [
    (om.Chain(), (4, 3, 3)),
    (om.Alignment(), (4, 5)),
    (om.ProjectiveTree(), (5, 5)),
    (om.ConstituencyTree(), (4, 4, 2)),
    (om.Budget(1, 3), (6,)),
]
SPELLINGS = [(om.Tsallis(1.0), om.Shannon()), (om.Tsallis(2.0), om.SquaredNorm())]


def test_numbers():
    """csrc has the same numbers."""
    assert [compiled_omega(omega) for omega in (om.Hard(), om.Shannon(), om.SquaredNorm(), om.Tsallis(1.5))] == [
        0,
        1,
        2,
        3,
    ]
    assert list(Omega) == [0, 1, 2, 3]
    assert compiled_omega(om.Tsallis(1.3)) is None and compiled_omega(om.Oscar(0.1)) is None
    assert compiled_omega(om.Tsallis(torch.tensor(2.0))) is None  # it has a derivative that sweeps do not compute


@pytest.mark.skipif(routing.native is None, reason="needs the native kernels")
@pytest.mark.parametrize("structure, event", STRUCTURES, ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("omega, same", SPELLINGS, ids=str)
def test_another_spelling_of_an_omega_is_compiled_too(structure, event, omega, same):
    potentials = torch.randn(2, *event, dtype=torch.float64)
    problem = structure.bind(potentials)
    assert structure.compiled_program(problem, omega) is not None
    generic = LatticeProgram(problem.lattice, omega, problem.goals)
    value, state = generic.value(problem.parts)
    (marginals,) = generic.marginals(problem.parts, state).parts
    torch.testing.assert_close(structure.max(potentials, omega), value)
    torch.testing.assert_close(structure.argmax(potentials, omega), marginals)
    assert torch.equal(structure.argmax(potentials, omega), structure.argmax(potentials, same))


def test_only_kernels_call_the_native_module():
    root = Path(om.__file__).parent
    rest = [
        path for path in root.rglob("*.py") if path.relative_to(root).parts[0] not in ("kernels", "cli", "routing.py")
    ]
    assert not [path for path in rest if "routing.native" in path.read_text(encoding="utf-8")]
