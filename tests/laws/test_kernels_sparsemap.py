"""The compiled SparseMAP solver against its specification, with every compiled oracle and instruction set."""

from __future__ import annotations

import pytest
import structure_cases
import torch
from structure_cases import like, parts_of
from structure_cases.laws import scaled

import omegamax as om
from omegamax import routing
from omegamax.structures.dynamic_program import DynamicProgram

pytestmark = pytest.mark.skipif(routing.native is None, reason="compares with the compiled solver")

CASES = [
    case
    for case in (*structure_cases.CASES, *structure_cases.ORACLE_CASES)
    if not isinstance(case.structure, om.FactorGraph)
]
structures = pytest.mark.parametrize("case", CASES, ids=str)


@structures
@pytest.mark.parametrize("scale", [0.0, 0.3, 3.0])
@pytest.mark.thinned(3)
def test_equals_the_reference(case, scale, arch, monkeypatch):
    """Marginals are unique; probabilities are not where structures tie."""
    potentials = scaled(case, scale)
    found = case.structure.sparsemap(potentials, **case.options())
    monkeypatch.setattr(routing, "native", None)
    expected = case.structure.sparsemap(potentials, **case.options())
    n = case.structure.n_regularized
    for a, b in zip(parts_of(found.marginals)[:n], parts_of(expected.marginals)[:n]):
        torch.testing.assert_close(a, b, atol=1e-7, rtol=0)


@structures
@pytest.mark.thinned(3)
def test_derivatives_equal_the_reference(case, arch, monkeypatch):
    potentials = scaled(case, 0.5, seed=1)
    first, *rest = parts_of(potentials)
    direction = torch.sin(torch.arange(first.numel(), dtype=first.dtype)).reshape(first.shape)

    def along():
        smooth = om.SparseMAP(case.structure)
        f = lambda x: parts_of(smooth.argmax(like(potentials, [x, *rest]), **case.options()))[0]  # noqa: E731
        return torch.func.jvp(f, (first,), (direction,))[1]

    found = along()
    monkeypatch.setattr(routing, "native", None)
    torch.testing.assert_close(found, along(), atol=1e-8, rtol=0)


@pytest.mark.parametrize("structure", [om.Chain(), om.ProjectiveTree(), om.ConstituencyTree(), om.Subset(2)], ids=str)
def test_compiled_oracles_agree_with_the_hypergraph(structure, arch, monkeypatch):
    shape = {om.Chain: (5, 3, 3), om.ProjectiveTree: (6, 6), om.ConstituencyTree: (5, 5, 2), om.Subset: (5,)}
    potentials = torch.randn(3, *shape[type(structure)], dtype=torch.float64)
    lengths = torch.tensor([5, 3, 2])
    found = structure.sparsemap(potentials, lengths=lengths)
    monkeypatch.setattr(type(structure), "oracle", DynamicProgram.oracle)
    generic = structure.sparsemap(potentials, lengths=lengths)
    torch.testing.assert_close(found.marginals, generic.marginals)
    torch.testing.assert_close(found.probabilities, generic.probabilities)


def test_hundreds_of_members(arch):
    """The factor grows, shrinks and is rotated many times, and the gap still ends at rounding."""
    scores = 0.05 * torch.randn(2, 12, 12, dtype=torch.float64)
    found = om.Matching().sparsemap(scores)
    assert found.probabilities.shape[-1] > 60 and found.gap.max() < 1e-12
    torch.testing.assert_close(found.marginals.sum(-1), torch.ones(2, 12, dtype=torch.float64))
