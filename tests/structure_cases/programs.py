"""The compiled program of a structure beside the generic one, which shares no code with it."""

from __future__ import annotations

import torch

from omegamax.inference.hypergraphs.lattice_program import LatticeProgram


def sweeps(program, parts, direction):
    """Value, marginals and Hessian product along a direction, of a program with one component."""
    value, state = program.value(parts)
    found = program.marginals(parts, state)
    product = program.tangent(parts, (*state, *found.state), (direction,))
    return value, found.parts[0], product.parts[0]


def compiled_and_generic(kind, structure, potentials, omega, **options):
    """The three results of the compiled program, which must be of this kind, and of the generic one."""
    problem = structure.bind(potentials, **options)
    compiled = problem.program(omega)
    assert isinstance(compiled, kind)
    generic = LatticeProgram(problem.lattice, omega, problem.goals)
    direction = torch.randn_like(problem.parts[0])
    return [sweeps(program, problem.parts, direction) for program in (compiled, generic)]
