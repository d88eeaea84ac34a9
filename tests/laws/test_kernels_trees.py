"""The native charts equal the generic engine: value, marginals, Hessian product; and the edge cases of kernels."""

from __future__ import annotations

import functools

import pytest
import torch
from structure_cases.programs import compiled_and_generic
from threads import marginals_and_product, same_with_any_threads

import omegamax as om
from omegamax import routing
from omegamax.inference.hypergraphs.lattice_program import LatticeProgram
from omegamax.inference.hypergraphs.tree_program import TreeProgram

pytestmark = [
    pytest.mark.skipif(routing.native is None, reason="needs the native kernels"),
    pytest.mark.thinned(3),  # the full round takes all
]

OMEGAS = [om.Hard(), om.Shannon(), om.SquaredNorm()]
omegas = pytest.mark.parametrize("omega", OMEGAS, ids=lambda omega: type(omega).__name__)
TREES = {
    "single root": (om.ProjectiveTree(), lambda b, n: torch.randn(b, n + 1, n + 1, dtype=torch.float64)),
    "any roots": (
        om.ProjectiveTree(single_root=False),
        lambda b, n: torch.randn(b, n + 1, n + 1, dtype=torch.float64),
    ),
    "spans": (om.ConstituencyTree(), lambda b, n: torch.randn(b, n, n, 1, dtype=torch.float64)),
    "labelled spans": (om.ConstituencyTree(), lambda b, n: torch.randn(b, n, n, 5, dtype=torch.float64)),
}
trees = pytest.mark.parametrize("kind", TREES)


both = functools.partial(compiled_and_generic, TreeProgram)


def assert_equal(structure, potentials, omega, tolerance, **options):
    for ours, expected in zip(*both(structure, potentials, omega, **options)):
        torch.testing.assert_close(ours, expected, rtol=tolerance, atol=tolerance)


@trees
@omegas
@pytest.mark.parametrize("n", [1, 2, 3, 9, 18, 35])
@pytest.mark.thinned(5)
def test_equals_the_generic_engine(kind, omega, n, arch):
    structure, draw = TREES[kind]
    lengths = torch.tensor([n, 1, max(1, n // 2), max(1, n - 1)])
    potentials = draw(4, n)
    assert_equal(structure, potentials, omega, 1e-11, lengths=lengths)
    assert_equal(structure, potentials.float(), omega, 5e-4, lengths=lengths)


@trees
@omegas
def test_masks(kind, omega, arch):
    """Forbidden parts at random, up to items that have nothing left."""
    structure, draw = TREES[kind]
    potentials = draw(24, 6)
    keep = torch.rand_like(potentials) < torch.linspace(0.1, 1, 24, dtype=torch.float64).reshape(
        -1, *(1,) * (potentials.dim() - 1)
    )
    native, generic = both(structure, potentials, omega, mask=keep)
    for ours, expected in zip(native, generic):
        torch.testing.assert_close(ours, expected, rtol=1e-11, atol=1e-11)
    empty = native[0] == -torch.inf
    assert empty.any() and not empty.all()
    assert (native[1][empty] == 0).all() and (native[2][empty] == 0).all()


@trees
@omegas
def test_ties_go_to_the_same_edge(kind, omega, arch):
    structure, draw = TREES[kind]
    assert_equal(structure, torch.zeros_like(draw(2, 7)), omega, 1e-12)
    native, generic = both(structure, draw(8, 7).round(), omega)
    for ours, expected in zip(native[:2], generic[:2]):  # at a tie the squared norm's marginals have no derivative
        torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)


@trees
@omegas
@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
def test_what_is_not_read_does_not_matter(kind, omega, poison, arch):
    structure, draw = TREES[kind]
    potentials, lengths = draw(3, 6), torch.tensor([4, 6, 1])
    size = potentials.shape[1]
    h, m = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    projective = isinstance(structure, om.ProjectiveTree)
    outside = (h == m) | (m == 0) if projective else h > m
    beyond = torch.stack([(h >= n + projective) | (m >= n + projective) for n in lengths.tolist()]) | outside
    beyond = beyond.reshape(3, size, size, *(1,) * (potentials.dim() - 3))
    garbage = torch.where(beyond, poison, potentials)
    for clean, spoiled in zip(
        both(structure, potentials, omega, lengths=lengths)[0],
        both(structure, garbage, omega, lengths=lengths)[0],
    ):
        assert not spoiled.isnan().any()
        if clean.dim() == 1:
            assert torch.equal(clean, spoiled)
    first = structure.argmax(potentials, omega, lengths=lengths)
    assert torch.equal(first, structure.argmax(garbage, omega, lengths=lengths))


@trees
@omegas
@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
def test_not_a_number_stays_in_its_item(kind, omega, poison, arch):
    structure, draw = TREES[kind]
    potentials = draw(3, 5)
    spoiled = potentials.clone()
    spoiled[1, 0, 2] = poison  # an arc from the root, a span of the first word
    value, marginals = structure.max(spoiled, omega), structure.argmax(spoiled, omega)
    assert value[1].isnan() and marginals[1].isnan().any()
    for item in (0, 2):
        assert torch.equal(value[item], structure.max(potentials, omega)[item])
        assert torch.equal(marginals[item], structure.argmax(potentials, omega)[item])


@trees
@omegas
def test_large_scores(kind, omega, arch):
    """In float32 weights still sum to one where scores of 1e4 add up to 1e5."""
    structure, draw = TREES[kind]
    potentials = (1e4 * draw(2, 12)).float()
    value = structure.max(potentials, omega)
    torch.testing.assert_close(value.double(), structure.max(potentials.double(), omega), rtol=1e-6, atol=0.1)
    marginals = structure.argmax(potentials, omega)
    n_parts = 12 if isinstance(structure, om.ProjectiveTree) else 23
    torch.testing.assert_close(marginals.flatten(1).sum(1), torch.full((2,), float(n_parts)), rtol=1e-5, atol=1e-4)


@trees
@omegas
def test_memory_in_any_order(kind, omega):
    structure, draw = TREES[kind]
    potentials = draw(3, 6)
    expected = structure.argmax(potentials, omega)
    turned = potentials.transpose(0, 1).contiguous().transpose(0, 1)
    assert torch.equal(structure.argmax(turned, omega), expected)
    spread = potentials[:1].expand(4, *potentials.shape[1:])
    assert torch.equal(structure.argmax(spread, omega)[3], expected[0])
    wide = torch.stack([potentials, potentials], -1)[..., 0]
    assert torch.equal(structure.argmax(wide, omega), expected)
    assert structure.argmax(potentials[:0], omega).shape == potentials[:0].shape
    assert structure.max(potentials.reshape(1, 3, 1, *potentials.shape[1:]), omega).shape == (1, 3, 1)


@trees
@omegas
def test_threads_do_not_matter(kind, omega, arch):
    structure, draw = TREES[kind]
    potentials, lengths = draw(33, 9).requires_grad_(), torch.arange(33) % 9 + 1
    same_with_any_threads(lambda: marginals_and_product(structure, potentials, omega, lengths))


@trees
def test_other_omegas_take_the_generic_engine(kind):
    structure, draw = TREES[kind]
    problem = structure.bind(draw(2, 4))
    assert isinstance(problem.program(om.Tsallis(1.5)), LatticeProgram)


@trees
def test_transforms(kind):
    """Inside a transform the tensors have no memory: the generic engine takes over."""
    structure, draw = TREES[kind]
    potentials = draw(2, 4).requires_grad_()

    def loss(potentials):
        return structure.argmax(2 * potentials).square().sum() + structure.max(potentials).sum()

    (expected,) = torch.autograd.grad(loss(potentials), potentials)
    torch.testing.assert_close(torch.func.grad(loss)(potentials.detach()), expected)
    direction = torch.randn_like(expected)
    _, along = torch.func.jvp(loss, (potentials.detach(),), (direction,))
    torch.testing.assert_close(along, (expected * direction).sum())
