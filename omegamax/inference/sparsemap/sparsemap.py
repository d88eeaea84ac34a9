"""SparseMAP over a batch, and its derivatives.

    max_{μ in conv(Y)}  <θ, μ> + <η, ν> − ½ ‖μ‖²

The solver ends on a face: vertices m_y, affinely independent, with probabilities p. As long as the face stays the same
p is an affine function of the scores s_y = <m_y, (θ, η)> of its vertices,

    p(s) = p* + Z (s − s*)        Z = G⁻¹ − u uᵀ / <1, u>,   G = A Aᵀ + c 1 1ᵀ,   u = G⁻¹ 1,

(c > 0 changes G and not Z: the solver takes a squared norm of the vertices), and μ = Σ p_y m_y, the value and the
probabilities follow from it by sums. So they are written as these few operations, and PyTorch differentiates them any
number of times, in both modes: J is constant on a face, and costs (vertices · entries + vertices²) to apply.

Niculae, Martins, Blondel & Cardie, "SparseMAP: differentiable sparse structured inference", ICML 2018.
"""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import torch
from torch import Tensor

from omegamax import routing
from omegamax.inference.sparsemap.active_set import Ending
from omegamax.inference.sparsemap.face_search import find
from omegamax.inference.sparsemap.oracle import Oracle
from omegamax.kernels.structures.host import to_host
from omegamax.kernels.structures.sparsemap import Certificate, Options, Start


class DifferentiableSolution(NamedTuple):
    """The solution of SparseMAP, differentiable."""

    marginals: Tensor  # (batch, parts): μ and then the expected extra parts
    value: Tensor  # (batch,)
    probabilities: Tensor  # (batch, width)
    certificate: Certificate


def solve_sparsemap(
    oracle: Oracle, scores: Tensor, options: Options, start: Start | None = None
) -> DifferentiableSolution:
    """Solves SparseMAP for scores (batch, parts) in float64; differentiable."""
    recorded = routing.needs_grad(scores) or routing.dual_level_active() or routing.transforms_active()
    certificate = Certificate(*_Search.apply(oracle, options, start, recorded, scores.detach()))
    endings, _, _, n_vertices, known, places, values, owners, factor = certificate
    endings = endings.to(scores.device, non_blocking=True)
    n_items, n_parts = scores.shape
    along = scores.reshape(-1).index_select(0, places) * values
    vertex_scores = scores.new_zeros(known.numel()).index_add(0, owners, along).reshape(known.shape)
    probabilities = known
    if recorded:
        present = (torch.arange(known.shape[1], device=known.device) < n_vertices.unsqueeze(1)).to(known.dtype)
        probabilities = known + _move(factor, present, vertex_scores - vertex_scores.detach())
    spread = probabilities.reshape(-1).index_select(0, owners) * values
    marginals = scores.new_zeros(scores.numel()).index_add(0, places, spread).reshape(n_items, n_parts)
    norm = marginals[:, : oracle.n_regularized].square().sum(1)
    value = (probabilities * vertex_scores).sum(1) - 0.5 * norm
    value = torch.where(endings == Ending.INFEASIBLE, -torch.inf, value)
    is_nan = endings == Ending.NOT_A_NUMBER
    value = torch.where(is_nan, torch.nan, value)
    marginals = torch.where(is_nan.unsqueeze(1), torch.nan, marginals)
    return DifferentiableSolution(marginals, value, probabilities, certificate)


def _move(factor: Tensor, present: Tensor, change: Tensor) -> Tensor:
    """Computes Z · change, per item.

    The factor is passed as an upper one, because LAPACK reads that memory without a copy.
    """
    both = torch.cholesky_solve(torch.stack([present, change], -1), factor.mT, upper=True)
    ones, found = both.unbind(-1)
    total = torch.where(present.any(1), ones.sum(1), 1)
    return found - ones * (found.sum(1) / total).unsqueeze(1)


_N_ON_HOST = 3  # the endings, the gaps and the numbers of calls


class _Search(torch.autograd.Function):
    """Runs the solver, whose results are constants; a Function, so that transforms pass it plain tensors."""

    @staticmethod
    def forward(
        oracle: Oracle, options: Options, start: Start | None, wants_face: bool, scores: Tensor
    ) -> tuple[Tensor, ...]:
        device = scores.device
        (plain,) = (part.contiguous() for part in to_host(scores))
        if not routing.is_concrete(plain):
            raise RuntimeError(
                f"SparseMAP: scores must hold numbers that the solver can read, got a {type(plain).__name__}; leave "
                "this call out of what runs on fake tensors"
            )
        found = find(oracle, options, start, wants_face, plain)
        # How each search ended stays on the host, where it is read.
        return (*found[:_N_ON_HOST], *(tensor.to(device, non_blocking=True) for tensor in found[_N_ON_HOST:]))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[None, ...]:
        return (None,) * 5

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> tuple[None, ...]:
        return (None,) * len(Certificate._fields)

    @staticmethod
    def vmap(info: Any, in_dims: Any, *inputs: Any) -> Any:
        raise RuntimeError(
            "SparseMAP: torch.vmap cannot batch a solver whose number of steps depends on the data, got a call inside "
            "vmap; put the batch into the leading axes of the scores"
        )


_Search.forward.__signature__ = inspect.signature(_Search.forward)  # type: ignore[attr-defined]
