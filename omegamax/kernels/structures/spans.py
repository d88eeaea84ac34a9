"""The mass of every span: a product along it of the probabilities to begin, to go on, and to end.

    mass[n, l, t] = Σ over tags c of type t, one per position, of
                    begin[n, t, c_0] · Π_k go_on[n + k, t, c_{k−1}, c_k] · end[n + l, t, c_l]

A type has few tags (two in BIO, four in BIOES), so that this takes N · L · T steps for N positions, spans of up to L
positions and T types. All tensors are contiguous: begin and end (batch, N, T, K), go_on (batch, N, T, K, K), mass
(batch, N, L, T). A span that would pass position N has no mass.
"""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax.kernels.structures.structure_kernel import launch, structure_kernel


@structure_kernel
def span_mass(begin: Tensor, go_on: Tensor, end: Tensor, *, max_length: int) -> Tensor:
    """The mass (batch, N, L, T) of every span; one step for all positions at once."""
    masses, unfinished = [], begin
    for length in range(max_length):
        if length:
            step = _shifted(go_on, length)
            unfinished = (unfinished.unsqueeze(-1) * step).sum(-2)
        masses.append((unfinished * _shifted(end, length)).sum(-1))
    return torch.stack(masses, 2) if masses else begin.new_zeros(*begin.shape[:2], 0, begin.shape[2])


@span_mass.twin
def _(begin: Tensor, go_on: Tensor, end: Tensor, *, max_length: int) -> Tensor:
    mass = begin.new_empty(*begin.shape[:2], max_length, begin.shape[2])
    _launch("span_mass", (begin, go_on, end), max_length, (mass,))
    return mass


@structure_kernel
def span_mass_gradient(begin: Tensor, go_on: Tensor, end: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of begin, go_on and end, from that of the mass (batch, N, L, T)."""
    with torch.enable_grad():
        given = [tensor.detach().requires_grad_() for tensor in (begin, go_on, end)]
        mass = span_mass.reference(*given, max_length=grad.shape[2])
        begin, go_on, end = torch.autograd.grad(mass, given, grad, materialize_grads=True)
    return begin, go_on, end


@span_mass_gradient.twin
def _(begin: Tensor, go_on: Tensor, end: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    found = torch.empty_like(begin), torch.empty_like(go_on), torch.empty_like(end)
    _launch("span_mass_gradient", (begin, go_on, end, grad), grad.shape[2], found)
    return found


def _launch(entry: str, known: tuple[Tensor, ...], max_length: int, results: tuple[Tensor, ...]) -> None:
    n_items, n_places, n_types, width = known[0].shape
    extent = {
        "itemsize": known[0].element_size(),
        "n_items": n_items,
        "cost": n_places * max_length * n_types * width * width,
    }
    launch(entry, *known, n_places, max_length, n_types, width, *results, **extent)


def _shifted(tensor: Tensor, by: int) -> Tensor:
    """What stands `by` positions later; zero beyond the end."""
    rest = tensor[:, by:]
    return torch.cat([rest, rest.new_zeros(rest.shape[0], min(by, tensor.shape[1]), *rest.shape[2:])], 1)
