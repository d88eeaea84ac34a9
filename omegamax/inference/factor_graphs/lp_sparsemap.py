"""LP-SparseMAP with its derivatives, and LP-MAP as a program.

Outputs are affine in the scores as long as no face changes, so the derivative of the marginals is a linear map that is
its own transpose and its own derivative. The faces that the solver ended on give all derivatives, in both modes.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from omegamax import checks, routing
from omegamax.inference.factor_graphs.agreement import Agreement, Faces
from omegamax.inference.factor_graphs.local_problem import RowsFace, SpanFace
from omegamax.inference.factor_graphs.oracle_problem import OracleProblem
from omegamax.inference.factor_graphs.solve_graph import LpSolution, solve_graph
from omegamax.inference.program import Parts, Program, State, SweepResult
from omegamax.kernels.structures.host import to_host


class Stopping(NamedTuple):
    """The rule by which the iterations stop."""

    max_iter: int
    atol: float  # of both residuals, the dual one relative to the scores


class GraphSolution(NamedTuple):
    """The solution of LP-SparseMAP for a batch."""

    parts: Parts  # μ, and ν where there are factor scores
    value: Tensor  # (batch,)
    primal: Tensor  # (batch,) float64
    dual: Tensor  # (batch,) float64
    n_iterations: Tensor  # (batch,)
    converged: Tensor  # (batch,)


def lp_sparsemap(agreement: Agreement, parts: Parts, stopping: Stopping) -> GraphSolution:
    """Solves LP-SparseMAP for variable scores (batch, entries) and, if there are any, factor scores."""
    value, *found = _Solve.apply(agreement, stopping, *parts)
    n = len(parts)
    return GraphSolution(tuple(found[:n]), value, *found[n : n + 4])


def warn_if_stopped(who: str, found: GraphSolution | LpSolution, stopping: Stopping) -> None:
    """Warns, once for the batch, where iterations ended before they converged."""
    stopped = ~found.converged
    if bool(stopped.any()):
        checks.warn(
            f"{who}: stopped after max_iter={stopping.max_iter} iterations with a primal residual of "
            f"{float(found.primal[stopped].max()):.3g} and a dual residual of {float(found.dual[stopped].max()):.3g}, "
            f"tolerance {stopping.atol:.3g}; raise max_iter or atol",
        )


class _Solve(torch.autograd.Function):
    """Returns the value, the marginals, four numbers per item, and the tensors of the faces, which are constants."""

    @staticmethod
    def forward(agreement: Agreement, stopping: Stopping, *parts: Tensor) -> tuple[Tensor, ...]:
        found, value, marginals = _solved(agreement, stopping, parts, quadratic=True)
        device = parts[0].device
        rest = (found.primal, found.dual, found.n_iterations, found.converged, *_face_tensors(found.faces))
        return (value, *marginals, *(tensor.to(device) for tensor in rest))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.agreement, _, *parts = inputs
        ctx.n = len(parts)
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*output[1 + ctx.n :])
        kept = (*output[1 : 1 + ctx.n], *output[5 + ctx.n :])
        ctx.save_for_backward(*kept)
        ctx.save_for_forward(*kept)
        ctx.n_outputs = len(output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        marginals, faces = ctx.saved_tensors[: ctx.n], ctx.saved_tensors[ctx.n :]
        found: list[Any] = [None] * ctx.n
        along = grads[1 : 1 + ctx.n]
        if any(grad is not None for grad in along):
            direction = [torch.zeros_like(m) if g is None else g for m, g in zip(marginals, along)]
            found = list(_Move.apply(ctx.agreement, ctx.n, *direction, *faces))
        if grads[0] is not None:
            per_item = grads[0].unsqueeze(1)
            found = [per_item * m if f is None else f + per_item * m for f, m in zip(found, marginals)]
        return (None, None, *found)

    @staticmethod
    def jvp(ctx: Any, _: None, __: None, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
        with routing.outer_forward_mode():
            saved = tuple(map(routing.without_tangent, ctx.saved_tensors))
            marginals, faces = saved[: ctx.n], saved[ctx.n :]
            direction = [torch.zeros_like(m) if t is None else t for m, t in zip(marginals, tangents)]
            value = sum(torch.where(m == 0, 0, m * d).sum(1) for m, d in zip(marginals, direction))
            moved = _Move.apply(ctx.agreement, ctx.n, *direction, *faces)
        return (value, *moved, *(None for _ in range(ctx.n_outputs - 1 - ctx.n)))  # type: ignore[return-value]

    @staticmethod
    def vmap(info: Any, in_dims: Any, *inputs: Any) -> Any:
        raise RuntimeError(
            "FactorGraph.sparsemap: torch.vmap cannot batch a solver whose number of steps depends on the data, got a "
            "call inside vmap; put the batch into the leading axes of the scores"
        )


class _Move(torch.autograd.Function):
    """Multiplies the Jacobian, which is linear and symmetric, with a direction."""

    @staticmethod
    def forward(agreement: Agreement, n: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        direction, faces = tensors[:n], tensors[n:]
        rows = [part.double() for part in to_host(*direction)]
        rows = [torch.where(row.isfinite(), row, 0) if row.isinf().any() else row for row in rows]
        scores = rows[1] if n > 1 else rows[0].new_zeros(rows[0].shape[0], agreement.n_scores)
        moved = _faces_from(agreement, tuple(face.cpu() for face in faces)).jacobian_product(rows[0], scores)
        return tuple(m.to(part.device, part.dtype) for m, part in zip(moved, direction))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.agreement, ctx.n, *tensors = inputs
        ctx.n_faces = len(tensors) - ctx.n
        ctx.save_for_backward(*tensors[ctx.n :])
        ctx.save_for_forward(*tensors[ctx.n :])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        moved = _Move.apply(ctx.agreement, ctx.n, *grads, *ctx.saved_tensors)
        return (None, None, *moved, *(None for _ in range(ctx.n_faces)))

    @staticmethod
    def jvp(ctx: Any, _: None, __: None, *tangents: Tensor | None) -> tuple[Tensor, ...]:
        with routing.outer_forward_mode():
            faces = map(routing.without_tangent, ctx.saved_tensors)
            return _Move.apply(ctx.agreement, ctx.n, *tangents[: ctx.n], *faces)

    @staticmethod
    def vmap(info: Any, in_dims: Any, agreement: Agreement, n: int, *tensors: Tensor) -> Any:
        moved = []
        for number in range(info.batch_size):
            chosen = [t if d is None else t.select(d, number) for t, d in zip(tensors, in_dims[2:])]
            moved.append(_Move.apply(agreement, n, *chosen))
        return tuple(torch.stack(each) for each in zip(*moved)), (0,) * n


for _function in (_Solve, _Move):  # PyTorch reads the signature in every call
    _function.forward.__signature__ = inspect.signature(_function.forward)  # type: ignore[union-attr]


def _solved(
    agreement: Agreement, stopping: Stopping, parts: Parts, *, quadratic: bool
) -> tuple[LpSolution, Tensor, Parts]:
    """Runs the solver in float64 on the CPU; an item with NaN or +inf is NaN, and no other."""
    rows = [part.double() for part in to_host(*parts)]
    scores, extra = rows[0], rows[1] if len(rows) > 1 else rows[0].new_zeros(rows[0].shape[0], agreement.n_scores)
    bad = ~((scores < torch.inf).all(1) & (extra < torch.inf).all(1))
    scores, extra = (torch.where(bad.unsqueeze(1), 0, part) for part in (scores, extra))
    found = solve_graph(agreement, scores, extra, quadratic=quadratic, atol=stopping.atol, max_iter=stopping.max_iter)
    value = _inner(found.marginals, scores) + _inner(found.extra, extra)
    if quadratic:
        value = value - 0.5 * found.marginals.square().sum(1)
    value = torch.where(found.feasible, value, -torch.inf)
    value = torch.where(bad, torch.nan, value)
    marginals = [torch.where(bad.unsqueeze(1), torch.nan, m) for m in (found.marginals, found.extra)[: len(parts)]]
    found = found._replace(
        primal=torch.where(bad, torch.nan, found.primal), dual=torch.where(bad, torch.nan, found.dual)
    )
    like = parts[0]
    return found, value.to(like.device, like.dtype), tuple(m.to(like.device, like.dtype) for m in marginals)


def _inner(weights: Tensor, scores: Tensor) -> Tensor:
    return torch.where(weights == 0, 0, weights * torch.where(weights == 0, 0, scores)).sum(1)


def _face_tensors(faces: Faces) -> tuple[Tensor, ...]:
    return (faces.free, *(tensor for face in faces.faces for tensor in face.tensors()))


def _faces_from(agreement: Agreement, tensors: tuple[Tensor, ...]) -> Faces:
    free, *rest = tensors
    kinds = [SpanFace if isinstance(group, OracleProblem) else RowsFace for group in agreement.groups]
    return Faces(agreement, tuple(kind(*rest[3 * i : 3 * i + 3]) for i, kind in enumerate(kinds)), free)


@dataclass(frozen=True, eq=False)
class LpMapProgram(Program):
    """Solves LP-MAP: the value of the relaxation and its marginals, which are fractional where it is not tight."""

    agreement: Agreement
    n_parts: int
    stopping: Stopping

    def value(self, parts: Parts) -> tuple[Tensor, State]:
        """Returns an upper bound of the best assignment's score; the state is the marginals."""
        found, value, marginals = _solved(self.agreement, self.stopping, parts, quadratic=False)
        warn_if_stopped("FactorGraph.map", found, self.stopping)
        return value, marginals

    def marginals(self, parts: Parts, state: State) -> SweepResult:
        return SweepResult(tuple(part.clone() for part in state), (), ())

    def tangent(self, parts: Parts, state: State, direction: Parts) -> SweepResult:
        return SweepResult(tuple(torch.zeros_like(part) for part in state), (), ())
