"""Compiled selection and sweeps over counts equal the generic engine; the edge cases of kernels."""

from __future__ import annotations

import pytest
import torch
from structure_cases.programs import compiled_and_generic
from threads import marginals_and_product, same_with_any_threads

import omegamax as om
from omegamax import routing
from omegamax.inference.selections.budget_program import BudgetProgram
from omegamax.inference.selections.selection_program import SelectionProgram
from omegamax.kernels.structures.selections import best_selection

pytestmark = [
    pytest.mark.skipif(routing.native is None, reason="needs the native kernels"),
    pytest.mark.thinned(3),  # the full round takes all
]

STRUCTURES = [
    om.Subset(1),
    om.Subset(3),
    om.Subset(9),
    om.Subset(20),
    om.Budget(0, 2),
    om.Budget(2, 17),
    om.Budget(5, 99),
]
structures = pytest.mark.parametrize("structure", STRUCTURES, ids=str)
OMEGAS = [om.Hard(), om.Shannon(), om.SquaredNorm()]
omegas = pytest.mark.parametrize("omega", OMEGAS, ids=lambda omega: type(omega).__name__)


def both(structure, potentials, omega, **options):
    kind = SelectionProgram if isinstance(omega, om.Hard) else BudgetProgram
    return compiled_and_generic(kind, structure, potentials, omega, **options)


@structures
@omegas
@pytest.mark.parametrize("n", [20, 45])
@pytest.mark.thinned(5)
def test_equals_the_generic_engine(structure, omega, n, arch):
    lengths = torch.tensor([n, 1, n // 2, n - 1, 9])
    potentials = torch.randn(5, n, dtype=torch.float64)
    for ours, expected in zip(*both(structure, potentials, omega, lengths=lengths)):
        torch.testing.assert_close(ours, expected, rtol=1e-11, atol=1e-11)
    for ours, expected in zip(*both(structure, potentials.float(), omega, lengths=lengths)):
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4, check_dtype=False)  # values may be double


@structures
@omegas
def test_masks(structure, omega, arch):
    potentials = torch.randn(24, 21, dtype=torch.float64)
    keep = torch.rand_like(potentials) < torch.linspace(0.02, 1, 24, dtype=torch.float64).unsqueeze(1)
    native, generic = both(structure, potentials, omega, mask=keep)
    for ours, expected in zip(native, generic):
        torch.testing.assert_close(ours, expected, rtol=1e-11, atol=1e-11)
    empty = native[0] == -torch.inf
    assert (native[1][empty] == 0).all() and (native[2][empty] == 0).all() and not native[1].isnan().any()


@structures
@omegas
def test_ties_and_signed_zeros(structure, omega, arch):
    potentials = torch.randn(12, 22, dtype=torch.float64).round()
    potentials[:3] = 0
    potentials[1] *= -1
    native, generic = both(structure, potentials, omega)
    for ours, expected in zip(native[:2], generic[:2]):
        torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)


@structures
@omegas
@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
def test_poison(structure, omega, poison, arch):
    """Beyond the length it does not matter; within it spoils its item."""
    potentials, lengths = torch.randn(3, 24, dtype=torch.float64), torch.tensor([24, 20, 22])
    clean = structure.max(potentials, omega, lengths=lengths), structure.argmax(potentials, omega, lengths=lengths)
    beyond = potentials.clone()
    beyond[1, 20:] = poison
    assert torch.equal(structure.max(beyond, omega, lengths=lengths), clean[0])
    assert torch.equal(structure.argmax(beyond, omega, lengths=lengths), clean[1])
    within = potentials.clone()
    within[1, 3] = poison
    value, marginals = (f(within, omega, lengths=lengths) for f in (structure.max, structure.argmax))
    assert value[1].isnan() and marginals[1, :20].isnan().all()
    for item in (0, 2):
        assert torch.equal(value[item], clean[0][item]) and torch.equal(marginals[item], clean[1][item])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [1, 5, 32, 33, 100, 1000])
def test_selection_equals_its_twin(n, dtype, arch):
    scores = torch.randn(40, n, dtype=dtype)
    scores[10:20] = scores[10:20].round()
    scores[20:25] = torch.where(torch.rand(5, n) < 0.5, -torch.inf, scores[20:25])
    scores[25] = 0
    scores[26] *= 1e30
    scores[27] = scores[27].abs()
    lengths = torch.randint(1, n + 1, (40,))
    for lo, hi in [(0, 1), (1, 1), (3, 3), (0, n), (2, 40), (n, n), (n // 2, n // 2 + 1)]:
        native = SelectionProgram(lengths, lo, hi).value((scores,))
        value, chosen = best_selection.reference(scores, lengths, lo=lo, hi=hi)
        assert torch.equal(native[1][0], chosen)
        torch.testing.assert_close(native[0], value)


@structures
@omegas
def test_threads_and_memory(structure, omega, arch):
    potentials, lengths = torch.randn(33, 25, dtype=torch.float64, requires_grad=True), torch.arange(33) % 25 + 1
    found, _ = same_with_any_threads(lambda: marginals_and_product(structure, potentials, omega, lengths))
    spread = potentials.detach().mT.contiguous().mT
    assert torch.equal(structure.argmax(spread, omega, lengths=lengths), found)


def test_transforms(arch):
    structure, potentials = om.Budget(1, 3), torch.randn(2, 6, dtype=torch.float64)

    def loss(potentials):
        return structure.argmax(2 * potentials).square().sum() + structure.max(potentials).sum()

    leaf = potentials.clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss(leaf), leaf)
    torch.testing.assert_close(torch.func.grad(loss)(potentials), expected)
