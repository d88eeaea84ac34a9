"""The three sweeps of a differentiable dynamic program, on any hypergraph and for any symmetric regularizer.

    value      v_i = max_Ω over edges e into i of (θ_e + Σ v_tail)       with local weights q_e
    marginals  e_e = q_e · ē_head,   ē_tail += e_e                       = ∇ DP_Ω: the expected structure
    tangent    v̇, q̇, ė along a direction                                 = the Hessian product

Mensch & Blondel, "Differentiable dynamic programming for structured prediction and attention", ICML 2018.
Shapes: scores, q, e are (batch, edges); v, ē are (batch, nodes + 1), the last one standing for a missing tail.
Scores are float64, whatever the type of the potentials: values grow with the structure, and weights are made of their
differences.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from omegamax.inference.hypergraphs.centring import centred
from omegamax.inference.hypergraphs.topology import Stage, Topology
from omegamax.operators.regularizer import Regularizer


class Inside(NamedTuple):
    """The result of the first sweep."""

    values: Tensor  # (batch, nodes + 1)
    backpointers: Tensor  # (batch, edges): q
    constants: Tensor | None  # (batch, edges): the locally constant part of the local certificates


class Outside(NamedTuple):
    """The result of the second sweep."""

    edges: Tensor  # (batch, edges): the expected structure
    visits: Tensor  # (batch, nodes + 1): how often a random structure visits a node
    slopes: tuple[Tensor, ...]  # (batch,) per parameter φ of Ω: ∂ DP_Ω / ∂φ


class Tangent(NamedTuple):
    """The result of the third sweep."""

    edges: Tensor  # (batch, edges): the derivative of the expected structure
    slopes: tuple[Tensor, ...]  # (batch,) per parameter φ of Ω: the derivative of ∂ DP_Ω / ∂φ


def inside(topology: Topology, scores: Tensor, regularizer: Regularizer) -> Inside:
    """Computes values and local weights, bottom up."""
    scores, best = centred(topology, scores)
    tails = topology.tails_on(scores.device)
    values = scores.new_zeros(scores.shape[0], topology.n_nodes + 1)
    values[:, topology.n_leaves : topology.first_head] = -torch.inf
    backpointers = torch.empty_like(scores)
    constants = None if regularizer.constants is None else torch.empty_like(scores, dtype=regularizer.constants)
    for stage in topology.stages:
        rows = _rows(scores[:, stage.edges] + _over_tails(values, tails, stage), stage)
        weights, value, certificate = regularizer.solve(rows)
        values[:, stage.nodes] = value
        backpointers[:, stage.edges] = weights.flatten(1)
        if constants is not None:
            constants[:, stage.edges] = certificate[1].flatten(1)
    return Inside(_absolute(values, best), backpointers, constants)


def outside(
    topology: Topology, backpointers: Tensor, constants: Tensor | None, regularizer: Regularizer, goals: Tensor
) -> Outside:
    """Computes marginals, top down from each item's goal. An item without any structure has only zeros."""
    tails = topology.tails_on(backpointers.device)
    visits = backpointers.new_zeros(backpointers.shape[0], topology.n_nodes + 1)
    visits.scatter_(1, goals.unsqueeze(1), 1)
    edges = torch.empty_like(backpointers)
    learns = bool(regularizer.parameters())
    slope = visits.new_zeros(visits.shape[0])
    for stage in reversed(topology.stages):
        here = visits[:, stage.nodes].unsqueeze(-1)
        local = _rows(backpointers[:, stage.edges], stage)
        flow = torch.where(here == 0, 0, local * here).flatten(1)  # NaN in what is never visited stays there
        edges[:, stage.edges] = flow
        for tail in tails:
            visits.index_add_(1, tail[stage.edges], flow)
        if learns:
            (found,) = regularizer.slopes(_certificate(local, constants, stage))
            slope -= torch.where(here == 0, 0, here * found.omega).sum((1, 2))
    return Outside(edges, visits, (slope,) if learns else ())


def tangent(
    topology: Topology,
    backpointers: Tensor,
    constants: Tensor | None,
    visits: Tensor,
    regularizer: Regularizer,
    direction: Tensor,
) -> Tangent:
    """Computes the derivative of the marginals along a direction of the scores: once up, once down."""
    tails = topology.tails_on(backpointers.device)
    values = torch.zeros_like(visits)
    pointers = torch.empty_like(backpointers)
    for stage in topology.stages:
        rows = _rows(direction[:, stage.edges] + _over_tails(values, tails, stage), stage)
        local = _rows(backpointers[:, stage.edges], stage)
        values[:, stage.nodes] = torch.where(local == 0, 0, local * rows).sum(-1)
        moved = regularizer.hessian_product(_certificate(local, constants, stage), rows)
        pointers[:, stage.edges] = moved.flatten(1)
    learns = bool(regularizer.parameters())
    edges = torch.empty_like(backpointers)
    moved_visits = torch.zeros_like(visits)
    slope = visits.new_zeros(visits.shape[0])
    for stage in reversed(topology.stages):
        here, moved_here = visits[:, stage.nodes].unsqueeze(-1), moved_visits[:, stage.nodes].unsqueeze(-1)
        local, moved = _rows(backpointers[:, stage.edges], stage), _rows(pointers[:, stage.edges], stage)
        flow = torch.where(here == 0, 0, moved * here + local * moved_here).flatten(1)
        edges[:, stage.edges] = flow
        for tail in tails:
            moved_visits.index_add_(1, tail[stage.edges], flow)
        if learns:
            (found,) = regularizer.slopes(_certificate(local, constants, stage))
            along = moved_here * found.omega + here * (found.gradient * moved).sum(-1, keepdim=True)
            slope -= torch.where(here == 0, 0, along).sum((1, 2))
    return Tangent(edges, (slope,) if learns else ())


def differentiable_inside(topology: Topology, scores: Tensor, regularizer: Regularizer) -> Inside:
    """Computes `inside` in operations that autograd records: for functions of q itself, such as a log-probability."""
    scores, best = centred(topology, scores)
    tails = topology.tails_on(scores.device)
    values = scores.new_zeros(scores.shape[0], topology.n_nodes + 1)
    values[:, topology.n_leaves : topology.first_head] = -torch.inf
    found = []
    for stage in topology.stages:
        rows = _rows(scores[:, stage.edges] + _over_tails(values, tails, stage), stage)
        value, weights = regularizer.max_and_argmax(rows)
        numbers = torch.arange(stage.nodes.start, stage.nodes.stop, device=scores.device)
        values = values.index_copy(1, numbers, value)
        found.append(weights.flatten(1))
    return Inside(_absolute(values, best), torch.cat(found, 1) if found else scores, None)


def _absolute(values: Tensor, best: Tensor | None) -> Tensor:
    """Adds the best values back; what is infinite or not a number is so in both."""
    return values if best is None else values + torch.where(best.isfinite(), best, 0)


def _over_tails(values: Tensor, tails: Tensor, stage: Stage) -> Tensor:
    """Sums v_tail for the edges of a stage."""
    total = values.index_select(1, tails[0, stage.edges])
    return total if len(tails) == 1 else total + values.index_select(1, tails[1, stage.edges])


def _rows(edges: Tensor, stage: Stage) -> Tensor:
    return edges.unflatten(1, (stage.n_nodes, stage.degree))


def _certificate(local: Tensor, constants: Tensor | None, stage: Stage) -> tuple[Tensor, ...]:
    return (local,) if constants is None else (local, _rows(constants[:, stage.edges], stage))
