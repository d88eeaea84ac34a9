"""Centring: exact weights for scores so large that a double has no digits left for the small ones beside them.

For any numbers h of the nodes, the scores

    θ'_e = θ_e + Σ h_tail − h_head

have the local weights q of θ, and values v' = v − h. With h the best score of each node, found in sums of two doubles,
the values that matter are small, and the sweeps lose nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from omegamax import routing
from omegamax.inference.hypergraphs.topology import Topology

_LARGE = 2.0**26  # above this a sum of doubles has fewer than eight digits behind the point


class CentredScores(NamedTuple):
    """Scores relative to the best value of each node."""

    scores: Tensor  # (batch, edges): θ'
    best: Tensor | None  # (batch, nodes + 1): h; None where the scores were not changed


def centred(topology: Topology, scores: Tensor) -> CentredScores:
    """Subtracts the best values from large scores (batch, edges); differentiable as θ is.

    On a device the sweep for the best values costs less than to wait until the host knows whether it is needed.
    """
    if routing.transforms_active():  # transforms cannot read numbers
        return CentredScores(scores, None)
    with torch.no_grad():
        known = scores.detach()
        may_look = routing.on_host(known) and not routing.is_compiling()  # elsewhere all are centred
        if may_look and not bool(((known.abs() > _LARGE) & known.isfinite()).any()):
            return CentredScores(scores, None)
        best = _best(topology, known)
        heads = topology.heads_on(scores.device)
        over = _plus_tails(topology, best, known, slice(None))
        # The numbers are close, so the first difference is exact. What is not a number stays as it is.
        relative = (over.high - best.high[:, heads]) + (over.low - best.low[:, heads])
        relative = torch.where(relative.isfinite(), relative, known)
    if scores.requires_grad or routing.dual_level_active():
        relative = relative + torch.where(known.isfinite(), scores - known, 0)
    return CentredScores(relative, best.high)


class _Pair(NamedTuple):
    """A sum of two doubles, the second of which holds what the first has rounded away."""

    high: Tensor
    low: Tensor

    def plus(self, high: Tensor, low: Tensor | float) -> _Pair:
        """Adds two sums; infinities have no second part."""
        total = self.high + high
        part = total - self.high
        lost = (self.high - (total - part)) + (high - part) + (self.low + low)
        lost = torch.where(total.isfinite(), lost, 0)
        rounded = total + lost
        return _Pair(rounded, torch.where(total.isfinite(), lost - (rounded - total), 0))


def _best(topology: Topology, scores: Tensor) -> _Pair:
    """Returns the best score of each node, (batch, nodes + 1)."""
    high = scores.new_zeros(scores.shape[0], topology.n_nodes + 1)
    high[:, topology.n_leaves : topology.first_head] = -torch.inf
    values = _Pair(high, torch.zeros_like(high))
    for stage in topology.stages:
        rows = _plus_tails(topology, values, scores, stage.edges)
        shape = (stage.n_nodes, stage.degree)
        high, low = rows.high.unflatten(1, shape), rows.low.unflatten(1, shape)
        top = high.amax(-1)
        values.high[:, stage.nodes] = top
        rest = torch.where(high == top.unsqueeze(-1), low, -torch.inf).amax(-1)
        values.low[:, stage.nodes] = torch.where(rest.isfinite(), rest, 0)
    return values


def _plus_tails(topology: Topology, values: _Pair, scores: Tensor, edges: slice) -> _Pair:
    """Computes θ_e + Σ v_tail."""
    here = scores[:, edges]
    total = _Pair(here, torch.zeros_like(here))
    for tail in topology.tails_on(scores.device):
        total = total.plus(values.high[:, tail[edges]], values.low[:, tail[edges]])
    return total
