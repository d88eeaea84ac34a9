"""Attention over keys of all ranks under autograd.

Forward:
1. Every rank gets all queries, and finds the support of its own part of each row, with scores (`local_support`).
2. The ranks exchange the largest score of each row. Entries below it by more than the window 1/(α − 1) are dropped.
3. The scores that are left go to the rank that owns the query. It solves the whole row, exactly, and sends the weights
   back. A threshold per row would do for entmax, but it would go to every rank for every row, whether it has entries
   there or not; weights take traffic for entries only, and come from the solver that one process uses.
4. Every rank averages its values with its weights; the owner of the query adds these up, in the order of ranks.

Backward: the same with directions (products of output gradients and values) in place of scores, and products with the
Jacobian in place of weights. Gradients of keys and values stay where they are, those of queries are added up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from omegamax.attention.shards.entries import Entries, Sizes, flat_rows, sampled_products, weighted_sums
from omegamax.attention.shards.local_support import LocalScores
from omegamax.attention.shards.owned_rows import OwnedRows
from omegamax.attention.shards.ranks import Ranks
from omegamax.attention.top_k import TopK
from omegamax.operators.evaluation import once
from omegamax.operators.operator import Operator

_ONCE = (
    "sharded_attention: the gradient can be taken once, got a second differentiation; use attention_over_heads with "
    "dense scores, or one process"
)


@dataclass(frozen=True, eq=False)
class ShardSettings:
    """All arguments of a call but the tensors that learn."""

    ranks: Ranks
    operator: Operator | TopK
    scale: float
    limit: int | None  # how many of the own keys the first of all queries sees, where attention is causal
    lengths: Tensor | None  # (batch · heads,): how many of the own keys each item has
    mask: Tensor | None  # (batch or 1, heads or 1, queries or 1, own keys or 1)
    query_counts: list[int]  # of each rank

    def operator_of(self, parameter: Tensor | None, rows: Tensor) -> Operator | TopK:
        """Returns the operator of some rows; `parameter` (rows, 1) has a number for each of all rows."""
        if parameter is None or isinstance(self.operator, TopK):
            return self.operator
        return self.operator.with_parameters((parameter[rows],))

    def own(self, x: Tensor) -> Tensor:
        """Takes what belongs to the own queries of a tensor (batch, heads, queries of all ranks, features)."""
        first = sum(self.query_counts[: self.ranks.rank])
        return x[:, :, first : first + self.query_counts[self.ranks.rank]]

    def window(self, parameter: Tensor | None) -> float | Tensor:
        """Returns how far below the largest score of its row a key can be and have weight; for each row, or for all."""
        if isinstance(self.operator, TopK):
            return torch.inf
        alpha = getattr(self.operator, "alpha", 2.0) if parameter is None else parameter.reshape(-1)
        return 1 / (alpha - 1)


class ShardedAttention(torch.autograd.Function):
    """Computes the output for the own queries, differentiable once. All ranks run both passes together."""

    @staticmethod
    def forward(
        ctx: Any,
        settings: ShardSettings,
        anchor: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        parameter: Tensor | None,
        bias: Tensor | None,
    ) -> Tensor:
        """Computes the output; saves weights of the own keys for all queries, and of all keys for the own queries."""
        ranks, counts = settings.ranks, settings.query_counts
        everyone = ranks.gather(query, counts)
        alpha = None if parameter is None else parameter.expand(*everyone.shape[:3], 1)
        scores = LocalScores(
            everyone,
            key,
            settings.operator,
            alpha,
            settings.scale,
            settings.limit,
            settings.lengths,
            settings.mask,
            bias,
        )
        sizes = scores.sizes
        found = _within_window(scores.candidates(), settings.window(alpha), sizes, ranks)
        routes = _Routes(found.rows, sizes, counts)
        owned = OwnedRows(routes.exchange_counts(ranks))
        received = owned.merged(ranks.exchange(routes.split(found.numbers), owned.rank_counts))
        own_alpha = None if alpha is None else settings.own(alpha).reshape(-1, 1)

        def solve(rows: Tensor, padded: Tensor) -> Tensor:
            return settings.operator_of(own_alpha, rows).solve_certificate(padded)[0]

        own_weights = owned.solve([received], solve, [-torch.inf])
        weights = routes.joined(ranks.exchange(owned.split(own_weights), routes.counts))
        support = Entries(found.rows, found.keys, weights).kept(weights != 0)
        output = weighted_sums(support.numbers, flat_rows(value), support.keys, support.rows, sizes.n_rows)
        keep = own_weights != 0
        ctx.settings, ctx.sizes = settings, sizes
        ctx.save_for_backward(
            query, key, value, parameter, bias, everyone, *support, own_weights[keep], owned.kept(keep).counts
        )
        return ranks.sum_to_owners(output.view(*everyone.shape[:3], value.shape[-1]), counts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Computes the gradients, which raise where they are differentiated again."""
        saved = ctx.saved_tensors  # read once: under checkpointing each reading computes them again
        with torch.no_grad():
            found = _gradients(ctx, saved, grads[0])
        origins = grads[0], *(tensor for tensor in saved[:5] if tensor is not None)
        return None, None, *(None if grad is None else once(_ONCE, grad, *origins) for grad in found)


def _within_window(found: Entries, window: float | Tensor, sizes: Sizes, ranks: Ranks) -> Entries:
    """Drops entries that other ranks' scores leave without weight. What is NaN stays, and makes its row NaN."""
    scores = found.numbers
    top = scores.new_full((sizes.n_rows,), -torch.inf)
    top.scatter_reduce_(0, found.rows, torch.where(scores.isnan(), torch.inf, scores), "amax")
    floor = ranks.largest(top) - window
    return found.kept(~(scores < floor.to(scores.dtype)[found.rows]))


def _gradients(ctx: Any, saved: tuple[Any, ...], grad_output: Tensor) -> tuple[Tensor | None, ...]:
    """Computes the gradients of queries, keys, values, the parameter and the bias."""
    settings, sizes = ctx.settings, ctx.sizes
    ranks, counts = settings.ranks, settings.query_counts
    query, key, value, parameter, bias, everyone, *entries, own_weights, own_counts = saved
    support = Entries(*entries)
    grad_output = flat_rows(ranks.gather(grad_output.contiguous(), counts))
    direction = sampled_products(grad_output, flat_rows(value), support.rows, support.keys)
    routes, owned = _Routes(support.rows, sizes, counts), OwnedRows(own_counts)
    received = owned.merged(ranks.exchange(routes.split(direction), owned.rank_counts))
    product, grad_parameter = _jacobian_product(settings, parameter, query.shape, owned, own_weights, received)
    grad_scores = routes.joined(ranks.exchange(owned.split(product), routes.counts))

    of_queries = weighted_sums(grad_scores, flat_rows(key), support.keys, support.rows, sizes.n_rows)
    grad_query = ranks.sum_to_owners(of_queries.view_as(everyone) * settings.scale, counts)
    order = support.keys.argsort(stable=True)
    keys, rows, n_keys = support.keys[order], support.rows[order], key.shape[:3].numel()
    grad_key = weighted_sums(grad_scores[order], flat_rows(everyone), rows, keys, n_keys) * settings.scale
    grad_value = weighted_sums(support.numbers[order], grad_output, rows, keys, n_keys)
    grad_bias = None
    if bias is not None and ctx.needs_input_grad[6]:
        places = sizes.bias_places(bias, support.rows, support.keys % max(1, sizes.keys))
        grad_bias = torch.zeros_like(bias).view(-1).index_add_(0, places, grad_scores).view(bias.shape)
    return grad_query, grad_key.view_as(key), grad_value.view_as(value), grad_parameter, grad_bias


def _jacobian_product(
    settings: ShardSettings,
    parameter: Tensor | None,
    shape: torch.Size,
    owned: OwnedRows,
    weights: Tensor,
    direction: Tensor,
) -> tuple[Tensor, Tensor | None]:
    """Computes J v for entries of the own rows, and the gradient of α that these rows have."""
    own_alpha = along = None
    if parameter is not None:
        everyone = parameter.expand(*shape[:2], sum(settings.query_counts), 1)
        own_alpha = settings.own(everyone).reshape(-1, 1)
        along = torch.zeros_like(own_alpha)

    def multiply(rows: Tensor, padded: Tensor, padded_direction: Tensor) -> Tensor:
        operator = settings.operator_of(own_alpha, rows)
        if along is None or not isinstance(operator, Operator):
            return operator.hessian_product((padded,), padded_direction)
        product, slopes = operator.pull_back((padded,), padded_direction)
        along[rows] = slopes[0].to(along.dtype)
        return product

    product = owned.solve([weights, direction], multiply, [0.0, 0.0])
    if along is None or parameter is None:
        return product, None
    grad = torch.zeros(*shape[:2], sum(settings.query_counts), 1, dtype=along.dtype, device=along.device)
    settings.own(grad).copy_(along.view(*shape[:3], 1))
    return product, -grad.sum_to_size(parameter.shape)


class _Routes:
    """Knows which rank each entry goes to: the one that has the query."""

    def __init__(self, rows: Tensor, sizes: Sizes, query_counts: list[int]) -> None:
        ends = torch.tensor(query_counts, device=rows.device).cumsum(0)
        owner = torch.bucketize(rows % max(1, sizes.queries), ends, right=True)
        self.order = owner.argsort(stable=True)
        self.counts = torch.bincount(owner, minlength=len(query_counts)).tolist()
        per_row = torch.bincount(rows, minlength=sizes.n_rows).view(sizes.batch, sizes.heads, sizes.queries)
        self.row_counts = [part.reshape(-1).int() for part in per_row.split(query_counts, 2)]

    def split(self, numbers: Tensor) -> list[Tensor]:
        """Splits the numbers of the entries by rank."""
        return list(numbers[self.order].split(self.counts))

    def joined(self, parts: list[Tensor]) -> Tensor:
        """Puts the numbers of the entries together from what each rank sent; undoes `split`."""
        joined = torch.cat(parts)
        return torch.empty_like(joined).index_copy_(0, self.order, joined)

    def exchange_counts(self, ranks: Ranks) -> Tensor:
        """Asks how many entries of each own row each rank has, (ranks, rows)."""
        received = ranks.exchange(self.row_counts, [self.row_counts[ranks.rank].numel()] * ranks.size)
        return torch.stack(received).long()
