"""Cases of attention over several processes: the whole problem, the same in every process, and how it is cut."""

import functools
from dataclasses import dataclass, field
from typing import Any

import torch

import omegamax as om
from omegamax.attention.relative_bias import RelativeBias, alibi
from omegamax.attention.top_k import TopK

EVEN, UNEVEN = (6, 6, 6, 6), (9, 0, 14, 1)


@dataclass(frozen=True)
class Case:
    """One problem. Options and the normalizer are made by functions, so that every process makes its own."""

    name: str
    normalizer: Any  # without arguments
    options: Any  # of the number of queries and of keys
    queries: tuple[int, ...] = UNEVEN
    keys: tuple[int, ...] = UNEVEN
    heads: tuple[int, int] = (4, 2)
    lead: tuple[int, ...] = (2,)
    dtype: torch.dtype = torch.float64
    spread: float = 1.5
    change: Any = field(default=lambda query, key, value: None)  # makes inputs special, in place
    any_normalizer: bool = False  # for `attention_over_heads` alone

    def counts(self, size):
        """How many queries, and how many keys, each of `size` processes has."""
        per = 4 // size
        return [[sum(c[r * per : (r + 1) * per]) for r in range(size)] for c in (self.queries, self.keys)]

    def inputs(self):
        torch.manual_seed(5)
        n, m = sum(self.queries), sum(self.keys)
        heads, kv_heads = self.heads
        shapes = (heads, n, 8), (kv_heads, m, 8), (kv_heads, m, 5)
        query, key, value = (torch.randn(*self.lead, *shape, dtype=torch.float64) for shape in shapes)
        query *= self.spread
        self.change(query, key, value)
        return [x.to(self.dtype) for x in (query, key, value)]

    def close_to(self, expected):
        """What `assert_close` allows: a share of the largest number of the whole result."""
        share = {torch.float64: 1e-12, torch.float32: 1e-6, torch.bfloat16: 1e-2}[self.dtype]
        finite = expected.detach()[expected.isfinite()].abs()
        largest = max(1.0, float(finite.max())) if finite.numel() else 1.0
        return {"atol": share * largest, "rtol": 0, "equal_nan": True}


def learnt_order():
    return om.Entmax(
        alpha=om.Above(1.0, start=1.5, shape=(4, 1, 1)), gamma=om.Above(0.0, start=0.8, shape=(4, 1, 1))
    ).double()


def one_order():
    return om.Entmax(alpha=om.Above(1.0, start=1.5)).double()


def order_of_each_query():
    return om.Tsallis(torch.linspace(1.2, 2.3, sum(UNEVEN), dtype=torch.float64).unsqueeze(-1).requires_grad_())


def masked(n, m):
    torch.manual_seed(6)
    mask = torch.rand(2, 1, n, m) < 0.5
    mask[0, :, 3] = False  # this query sees nothing
    mask[..., 2] = False  # nothing sees this key
    return {"mask": mask}


def hide_nan(query, key, value):
    key[..., 2, :] = torch.nan
    value[..., 2, :] = torch.inf


def late_nan(query, key, value):
    key[0, :, -4, 1] = torch.nan
    query[1, 1, 5] = torch.nan


def tie(query, key, value):
    for x in (query, key):
        x.copy_(x.round())


def biased(kind):
    def options(n, m):
        torch.manual_seed(7)
        if kind == "keys":
            return {"bias": torch.randn(1, m, dtype=torch.float64).requires_grad_()}
        if kind == "all":
            return {"bias": torch.randn(2, 4, n, m, dtype=torch.float64).requires_grad_()}
        slopes = torch.tensor([0.5, 0.25, 0.1, 0.05], dtype=torch.float64)
        return {"bias": RelativeBias(alibi(slopes, n, m).table.requires_grad_()), "causal": True}

    return options


SPARSEMAX, ENTMAX15 = om.SquaredNorm, functools.partial(om.Tsallis, 1.5)


def causal(n, m):
    return {"causal": True}


def causal_and_exact(n, m):
    return {"causal": True, "scale": 0.25}  # products of integers are exact, so ties are ties in any order of sums


def lengths(n, m):
    return {"lengths": torch.tensor([m - 3, 0])}


def nothing(n, m):
    return {}


CASES = [
    Case("sparsemax", SPARSEMAX, nothing),
    Case("sparsemax causal", SPARSEMAX, causal, queries=EVEN, keys=EVEN),
    Case("sparsemax causal, uneven parts", SPARSEMAX, causal),
    Case("entmax15 float32", ENTMAX15, causal, dtype=torch.float32),
    Case("sparsemax float32", SPARSEMAX, nothing, dtype=torch.float32),
    Case("bfloat16", SPARSEMAX, causal, dtype=torch.bfloat16),
    Case("learnt order and temperature", learnt_order, causal),
    Case("an order for each query", order_of_each_query, nothing),
    Case("order 2.6", functools.partial(om.Tsallis, 2.6), nothing),
    Case("flat", SPARSEMAX, nothing, spread=0.0),
    Case("huge", SPARSEMAX, causal, spread=1e30),
    Case("colder", functools.partial(om.Scaled, om.SquaredNorm(), 0.5), causal),
    Case("top 3 with ties", functools.partial(TopK, 3), causal_and_exact, change=tie),
    Case("fewer queries than keys", ENTMAX15, causal, queries=(3, 0, 2, 4)),
    Case("more queries than keys", SPARSEMAX, causal, keys=(0, 3, 2, 4)),
    Case("no queries", SPARSEMAX, causal, queries=(0, 0, 0, 0)),
    Case("no keys", SPARSEMAX, nothing, keys=(0, 0, 0, 0)),
    Case("masked", SPARSEMAX, masked, change=hide_nan),
    Case("lengths", ENTMAX15, lengths),
    Case("bias of keys", SPARSEMAX, biased("keys")),
    Case("bias of pairs", SPARSEMAX, biased("all")),
    Case("bias by distance", ENTMAX15, biased("distance")),
    Case("NaN", SPARSEMAX, causal, change=late_nan),
    Case("one head of keys", SPARSEMAX, causal, heads=(3, 1)),
    Case("one head", SPARSEMAX, nothing, heads=(1, 1), lead=()),
    Case("one head that learns", one_order, causal, heads=(1, 1)),
    Case("softmax", om.Shannon, causal, any_normalizer=True),
    Case("fusedmax", functools.partial(om.Fused, 0.1), causal, any_normalizer=True),
    Case("oscarmax, five heads", om.Oscar, nothing, heads=(5, 5), any_normalizer=True),
    Case("matchings", lambda: om.SparseMAP(om.Matching()), nothing, queries=(2, 1, 0, 2), keys=(2, 1, 0, 2),
         any_normalizer=True),
]  # fmt: skip
