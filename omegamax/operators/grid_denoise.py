"""Total variation denoising on a grid, to a certified duality gap.

    argmin_y  ½‖y − x‖² + strength · (Σ |y_{i,j+1} − y_{ij}| + Σ |y_{i+1,j} − y_{ij}|)

Along rows only, or columns only, `prox_tv1d` is exact. The dual problem is to find r and c, each in the ball of its
direction, with ½‖x − r − c‖² least; then y = x − r − c. Projecting on one ball and on the other, with momentum,
converges like 1/k² (Chambolle & Pock, SMAI J. Comput. Math. 2015); restarts make it faster (O'Donoghue & Candès, 2015).

An iterate within √(2 gap) of the solution says which neighbours may be equal. Given those components the values have a
closed form, and what is left of the dual is a flow inside the components, found by conjugate gradients. If its gap is
small, the components and the values are exact, not an approximation.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from omegamax.kernels.tv1d import prox_tv1d

_FIRST_CHECK = 16  # iterations before the first gap, which costs as much as dozens of them; twice as many for the next
# Relative to 1 + the spread of x:
_ACCURACY = 1e-10  # of the values; ½‖y − y*‖² is at most the gap
_ROUNDING = 1e-13  # what a sum over a line may lose


class Denoised(NamedTuple):
    """The solution for grids (B, H, W), and how good it is."""

    values: Tensor  # (B, H, W), equal within a component
    labels: Tensor  # (B, H, W): the component of each cell, named after its first cell; -1 where it is removed
    gap: Tensor  # (B,)
    tolerance: Tensor  # (B,)


class Neighbours(NamedTuple):
    """The edges from each cell to the next kept one in its row and in its column, or to itself where there is none."""

    target: Tensor  # (B, 2, cells)
    exists: Tensor  # (B, 2, cells)

    def jump(self, y: Tensor) -> Tensor:
        """D y: y at the target minus y at the source, for cells (B, cells)."""
        y = y.unsqueeze(-2).expand(self.target.shape)
        return y.gather(-1, self.target) - y

    def spread(self, flow: Tensor) -> Tensor:
        """D' u: what flows into each cell minus what flows out of it."""
        return torch.zeros_like(flow).scatter_add(-1, self.target, flow).sub(flow).sum(-2)


def neighbours(kept: Tensor) -> Neighbours:
    """Returns the edges of grids (B, H, W) from which cells are taken out: those on either side become adjacent."""
    rows, columns = kept.shape[-2:]
    cell = torch.arange(rows * columns, device=kept.device).reshape(rows, columns)
    right, down = _next(kept, columns), _next(kept.mT, rows).mT
    target = torch.stack([cell[:, :1] + right, down * columns + cell[:1]], -3)
    source = cell.expand_as(target)
    target = torch.where(kept.unsqueeze(-3) & (torch.stack([right < columns, down < rows], -3)), target, source)
    return Neighbours(target.flatten(-2), (target != source).flatten(-2))


def _next(kept: Tensor, size: int) -> Tensor:
    """Returns the next kept place strictly after each place of the last axis; `size` where there is none."""
    place = torch.where(kept, torch.arange(size, device=kept.device), size)
    here_or_after = place.flip(-1).cummin(-1).values.flip(-1)
    return torch.nn.functional.pad(here_or_after[..., 1:], (0, 1), value=size)


def denoise_grid(x: Tensor, kept: Tensor, strength: Tensor, *, max_iter: int) -> Denoised:
    """Solves grids (B, H, W) in double precision; x is finite, and 0 where it is not kept. strength is (B,)."""
    batch = x.shape[0]
    values, gap = torch.zeros_like(x), x.new_zeros(batch)
    labels = torch.full_like(x, -1, dtype=torch.int64)
    spread = torch.where(kept, x, -torch.inf).amax((-2, -1)) - torch.where(kept, x, torch.inf).amin((-2, -1))
    scale = 1 + spread.clamp(min=0)
    tolerance = 0.5 * (_ACCURACY * scale).square()
    left = torch.arange(batch, device=x.device)  # problems without a certificate yet
    search = _Search(x, kept, strength)
    check = _FIRST_CHECK
    for iteration in range(1, max_iter + 1):
        y, along_rows, along_columns = search.step()
        if iteration != check and iteration != max_iter:
            continue
        check *= 2
        found, component, found_gap = _values_and_gap(search, y, along_rows, along_columns, scale[left])
        values[left], labels[left], gap[left] = found, component, found_gap
        wanting = found_gap > tolerance[left]
        if not bool(wanting.any()):
            break
        left = left[wanting]
        search.keep_only(wanting)
    return Denoised(values, torch.where(kept, labels, -1), gap, tolerance)


class _Search:
    """Accelerated alternating projections, problems side by side."""

    def __init__(self, x: Tensor, kept: Tensor, strength: Tensor) -> None:
        self.x, self.kept, self.strength = x, kept, strength
        self.columns = torch.zeros_like(x)  # c, the part of x in the ball of the columns
        self.ahead = self.columns  # c with momentum
        self.momentum = torch.ones_like(strength)
        self._prepare()

    def _prepare(self) -> None:
        self.of_rows, self.of_columns = _Lines(self.kept, self.strength), _Lines(self.kept.mT, self.strength)

    def step(self) -> tuple[Tensor, Tensor, Tensor]:
        """Projects on each ball once; returns y, r and c, with y = x − r − c."""
        rest = self.x - self.ahead
        smooth = self.of_rows.denoise(rest)
        rows = rest - smooth
        y = self.of_columns.denoise((self.ahead + smooth).mT).mT
        columns = self.ahead + smooth - y
        move = columns - self.columns
        turned = ((self.ahead - columns) * move).sum((-2, -1)) > 0  # momentum points uphill: restart
        following = torch.where(turned, 1, 0.5 + (0.25 + self.momentum.square()).sqrt())
        share = torch.where(turned, 0, (self.momentum - 1) / following)
        self.columns, self.momentum = columns, following
        self.ahead = columns + share[:, None, None] * move
        return y, rows, columns

    def keep_only(self, wanted: Tensor) -> None:
        """Goes on with some of the problems."""
        if bool(wanted.all()):
            return
        self.x, self.kept, self.strength = self.x[wanted], self.kept[wanted], self.strength[wanted]
        self.columns, self.ahead, self.momentum = self.columns[wanted], self.ahead[wanted], self.momentum[wanted]
        self._prepare()


class _Lines:
    """`prox_tv1d` of lines from which places are taken out: lines with as many kept places are solved together."""

    def __init__(self, kept: Tensor, strength: Tensor) -> None:
        lines = kept.flatten(0, 1)
        self.strength = strength.repeat_interleave(kept.shape[-2]).unsqueeze(-1)
        self.whole = bool(kept.all())
        if not self.whole:
            self.order = (~lines).to(torch.uint8).argsort(dim=-1, stable=True)
            self.place = self.order.argsort(-1)
            count = lines.sum(-1)
            self.groups = [(n, (count == n).nonzero().squeeze(-1)) for n in count.unique().tolist() if n > 1]

    def denoise(self, x: Tensor) -> Tensor:
        lines = x.reshape(-1, x.shape[-1])
        if self.whole:
            return prox_tv1d(lines, self.strength)[0].reshape(x.shape)
        packed = lines.gather(-1, self.order)
        for size, which in self.groups:
            packed[which, :size] = prox_tv1d(packed[which, :size], self.strength[which])[0]
        return packed.gather(-1, self.place).reshape(x.shape)


def _values_and_gap(
    search: _Search, y: Tensor, rows: Tensor, columns: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the exact values on the components that y suggests, the components, and the gap of those values."""
    shape, strength = y.shape, search.strength[:, None, None]
    edges = neighbours(search.kept)
    x, y = search.x.flatten(-2), y.flatten(-2)
    # The flow along a line is what has to be carried past each cell. Where it is at its bound, its rounding error is
    # removed, because the gap would contain it.
    flow = -torch.stack([rows.cumsum(-1), columns.cumsum(-2)], -3).flatten(-2)
    full = flow.abs() >= strength - _ROUNDING * scale[:, None, None]
    flow = torch.where(edges.exists, torch.where(full, strength * flow.sign(), flow), 0)
    jump = edges.jump(y)
    distance = 2 * _gap(x, y, flow, jump, strength, edges)  # at least ‖y − y*‖²
    joined = edges.exists & (jump.abs() <= 2 * distance.sqrt()[:, None, None]) & (strength > 0)
    labels = components(edges, joined)
    inside = edges.exists & (edges.jump(labels) == 0) & (strength > 0)
    # Across a border the flow is at its bound, so the mean over a component is known.
    border = torch.where(edges.exists & ~inside, strength * jump.sign(), 0)
    values = component_mean(x - edges.spread(border), labels)
    flow = border + torch.where(inside, flow, 0)
    near = (values - y).square().sum(-1) <= distance + (_ROUNDING * scale).square() * y.shape[-1]
    need = torch.where(near[:, None], x - values - edges.spread(flow), 0)  # no search where the components are wrong
    flow = flow + _carry(edges, inside, labels, need, _ROUNDING * scale)
    flow = flow.clamp(-strength, strength)
    gap = _gap(x, values, flow, edges.jump(values), strength, edges)
    return values.reshape(shape), labels.reshape(shape), gap


def _gap(x: Tensor, y: Tensor, flow: Tensor, jump: Tensor, strength: Tensor, edges: Neighbours) -> Tensor:
    """½‖y − (x − D'u)‖² + Σ (strength |Dy| − u Dy): no term is negative, so nothing cancels."""
    misfit = 0.5 * (x - y - edges.spread(flow)).square().sum(-1)
    return misfit + (strength * jump.abs() - flow * jump).clamp(min=0).sum((-2, -1))


def components(edges: Neighbours, joined: Tensor) -> Tensor:
    """Finds the smallest cell number (B, cells) that each cell reaches over joined edges."""
    cells = joined.shape[-1]
    label = torch.arange(cells, device=joined.device).expand(joined.shape[0], cells)
    target = torch.where(joined, edges.target, torch.arange(cells, device=joined.device)).flatten(-2)
    while True:
        both = label.repeat(1, 2)
        lower = label.scatter_reduce(-1, target, both, "amin")  # along an edge
        lower = lower.gather(-1, target).unflatten(-1, (2, cells)).amin(-2).minimum(lower)  # and against it
        lower = lower.gather(-1, lower)  # a label is a cell of the component: take its label
        if torch.equal(lower, label):
            return label
        label = lower


def component_mean(x: Tensor, labels: Tensor, n_labels: int | None = None) -> Tensor:
    """Replaces each entry of the last axis by the mean over its component; labels, by default cells, broadcast to x."""
    labels = labels.expand_as(x)
    zeros = x.new_zeros((*x.shape[:-1], x.shape[-1] if n_labels is None else n_labels))
    size = zeros.scatter_add(-1, labels, torch.ones_like(x))
    return (zeros.scatter_add(-1, labels, x) / size.clamp(min=1)).gather(-1, labels)


def _carry(edges: Neighbours, inside: Tensor, labels: Tensor, need: Tensor, atol: Tensor) -> Tensor:
    """Finds the least flow over inner edges with D'u = need, by conjugate gradients: u = Dφ, D'Dφ = need.

    What is needed sums to zero on each component. The code enforces it, or rounding would enter the null space of D'D.
    """
    carried = torch.zeros(inside.shape, dtype=need.dtype, device=need.device)
    rest = need - component_mean(need, labels)
    direction, size = rest, rest.square().sum(-1, keepdim=True)
    goal = atol.square().unsqueeze(-1)
    for _ in range(2 * need.shape[-1]):
        active = size > goal
        if not bool(active.any()):
            break
        flow = torch.where(inside, edges.jump(direction), 0)
        image = edges.spread(flow)
        curvature = flow.square().sum((-2, -1)).unsqueeze(-1)
        length = torch.where(active & (curvature > 0), size / torch.where(curvature > 0, curvature, 1), 0)
        carried = carried + length.unsqueeze(-1) * flow
        rest = rest - length * image
        rest = rest - component_mean(rest, labels)
        before, size = size, rest.square().sum(-1, keepdim=True)
        direction = rest + size / torch.where(before > 0, before, 1) * direction
    return carried
