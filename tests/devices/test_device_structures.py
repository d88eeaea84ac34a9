"""Where structures make the host wait for a device: dynamic programs nowhere, searches once for a batch."""

import dataclasses

import pytest
import structure_cases
import torch
from devices.host_reads import devices, fake, fake_cuda, host_reads, standing_in_for_a_device
from structure_cases import like, parts_of

import omegamax as om
from omegamax.inference.hypergraphs.lattice_program import LatticeProgram
from omegamax.kernels.structures.host import to_device, to_host

REGULARIZERS = {"Shannon": om.Shannon(), "SquaredNorm": om.SquaredNorm(), "Tsallis": om.Tsallis(1.5), "Hard": om.Hard()}
PROGRAMS = [(case, name) for case in structure_cases.CASES for name in REGULARIZERS]
SEARCHES = structure_cases.ORACLE_CASES


def leaves_of(case):
    return [part.requires_grad_() for part in parts_of(case.potentials())]


def value_marginals_and_product(case, regularizer):
    """The three sweeps: the value and its gradient, the marginals and theirs."""
    potentials = case.potentials()

    def run(*leaves):
        given = like(potentials, leaves)
        value = case.structure.max(given, regularizer, **case.options())
        torch.autograd.grad(value.sum(), leaves, allow_unused=True)
        found = parts_of(case.structure.argmax(given, regularizer, **case.options()))
        torch.autograd.grad(sum(part.square().sum() for part in found), leaves, allow_unused=True)

    return run


@pytest.mark.parametrize(("case", "name"), PROGRAMS, ids=lambda each: str(each))
@pytest.mark.thinned(3)
def test_dynamic_programs_read_nothing(case, name, monkeypatch):
    leaves = leaves_of(case)
    with standing_in_for_a_device(monkeypatch):
        assert host_reads(value_marginals_and_product(case, REGULARIZERS[name]), *leaves) == {}


@pytest.mark.parametrize(("case", "name"), PROGRAMS, ids=lambda each: str(each))
@pytest.mark.thinned(3)
def test_programs_stay_on_cuda(case, name):
    """Value, marginals and Hessian product, called as autograd would call them."""
    structure = case.structure
    if isinstance(structure, om.Subset | om.Budget) and name == "Hard":
        return  # not a dynamic program then
    problem = structure.bind(case.potentials(), **case.options())
    regularizer = REGULARIZERS[name]
    lattice, goals = problem.lattice, problem.goals
    with fake_cuda():
        parts = tuple(map(fake, problem.parts))
        program = LatticeProgram(_on_cuda(lattice), regularizer, fake(goals))
        value, state = program.value(parts)
        found = program.marginals(parts, state)
        moved = program.tangent(parts, (*state, *found.state), parts)
        assert devices((value, state, found.parts, moved.parts)) == {"cuda"}
        assert [part.shape for part in moved.parts] == [part.shape for part in parts]


def _on_cuda(lattice):
    """The lattice with its indices copied to the device, which a fake device cannot do."""
    device = fake(lattice.topology.tails).device
    indices = fake(lattice.topology.tails), torch.empty(lattice.topology.n_edges, dtype=torch.int64, device=device)
    topology = dataclasses.replace(lattice.topology, _on_device={device: indices})
    copied = tuple(
        type(each)(*(fake(field) if isinstance(field, torch.Tensor) else field for field in each))
        for each in lattice.components
    )
    return dataclasses.replace(lattice, topology=topology, _on_device={device: copied})


@pytest.mark.parametrize("case", structure_cases.CASES, ids=str)
@pytest.mark.thinned(3)
def test_the_same_marginals_as_on_the_host(case, monkeypatch):
    potentials = case.potentials()
    here = case.structure.argmax(potentials, om.SquaredNorm(), **case.options())
    with standing_in_for_a_device(monkeypatch):
        there = case.structure.argmax(potentials, om.SquaredNorm(), **case.options())
    for own, other in zip(parts_of(here), parts_of(there)):
        torch.testing.assert_close(other, own, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("case", SEARCHES, ids=str)
def test_searches_copy_once(case, monkeypatch):
    potentials, leaves = case.potentials(), leaves_of(case)

    def best(*leaves):
        case.structure.max(like(potentials, leaves), om.Hard(), **case.options())

    with standing_in_for_a_device(monkeypatch):
        found = host_reads(best, *leaves)
    assert list(found.values()) == [1], found
    assert all("to_host" in read for read in found)


@pytest.mark.parametrize("case", [*structure_cases.CASES[:1], *SEARCHES], ids=str)
def test_sparsemap_copies_its_scores_once(case, monkeypatch):
    """Its list of structures is as long as the data say, so the host reads that as well, once the search is over."""
    potentials, leaves = case.potentials(), leaves_of(case)

    def mean(*leaves):
        found = case.structure.sparsemap(like(potentials, leaves), **case.options()).marginals
        sum(part.sum() for part in parts_of(found)).backward()

    with standing_in_for_a_device(monkeypatch):
        found = host_reads(mean, *leaves)
    copies = {read: count for read, count in found.items() if "to_host" in read}
    if isinstance(case.structure, om.FactorGraph):  # once there for the search, once for the product
        assert list(copies.values()) == [2]
    else:
        assert list(copies.values()) == [1]
        # The search itself is on the host, which the CPU that stands in for a device cannot tell from the device.
        rest = [read for read in found if read not in copies and "face_search.py" not in read]
        assert all("structures/sparsemap.py" in read for read in rest), found


def test_copies_keep_shapes_and_types(monkeypatch):
    tensors = torch.randn(2, 3), torch.randn(2), torch.randn(0, 4, dtype=torch.float64)
    with standing_in_for_a_device(monkeypatch):
        found = to_host(*tensors)
    for own, copy in zip(tensors, found):
        assert copy.dtype is own.dtype
        torch.testing.assert_close(copy, own)
    moved = to_device((tensors[0], (tensors[1],)), torch.device("meta"))
    assert devices(moved) == {"meta"} and isinstance(moved[1], tuple)


# ------------------------------------------------ the sweeps as programs that torch.compile can fuse

SIZES = {  # structure, event shape for n words or places
    "chain": (om.Chain(), lambda n: (n, 3, 3)),
    "alignment": (om.Alignment(), lambda n: (n, n)),
    "constituency tree": (om.ConstituencyTree(), lambda n: (n, n, 2)),
    "projective tree": (om.ProjectiveTree(), lambda n: (n + 1, n + 1)),
}


def program_of(name, regularizer, n):
    structure, shape = SIZES[name]
    potentials = torch.randn(2, *shape(n), dtype=torch.float64)
    problem = structure.bind(potentials)
    return LatticeProgram(problem.lattice, regularizer, problem.goals), problem.parts


@pytest.mark.parametrize("name", SIZES)
def test_sweeps_advance_by_diagonals(name):
    """A stage holds nodes that do not wait for each other: twice the length means twice as many steps, and no more."""
    short, long = (program_of(name, om.Shannon(), n)[0].lattice.topology for n in (8, 16))
    assert len(long.stages) <= 2.5 * len(short.stages)
    assert len(long.stages) <= 6 * 16
    if name != "chain":
        assert long.n_nodes > 3 * short.n_nodes  # of which there are as many as spans or cells


@pytest.mark.parametrize(
    ("name", "regularizer"),
    [("chain", om.Tsallis(1.5)), ("alignment", om.Shannon()), ("constituency tree", om.SquaredNorm())],
    ids=str,
)
@pytest.mark.slow
def test_one_graph(name, regularizer):
    """All three sweeps in one graph of torch.compile."""
    program, parts = program_of(name, regularizer, 2)

    def sweeps(*parts):
        value, state = program.value(parts)
        found = program.marginals(parts, state)
        return value, found.parts, program.tangent(parts, (*state, *found.state), parts).parts

    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(sweeps, fullgraph=True, backend="eager")(*parts), sweeps(*parts))
