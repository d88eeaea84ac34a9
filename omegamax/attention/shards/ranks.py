"""The processes that share a sequence, and what they send each other: all of it is flat tensors, all to all."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class Ranks:
    """The processes of a group, as one of them sees them. Without torch.distributed there is one.

    Every method but the first is called by all ranks at once.

    Arguments:
        who: the name that speaks in errors
        group: a process group; None takes all processes
    """

    def __init__(self, who: str, group: dist.ProcessGroup | None) -> None:
        self.rank, self.size, self.group = 0, 1, group
        self.device = torch.device("cpu")
        if group is None and not (dist.is_available() and dist.is_initialized()):
            return
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        if self.rank < 0:
            raise ValueError(f"{who}: this process must belong to the group, got another group; pass one that holds it")
        if dist.get_backend(group) == "nccl":
            self.device = torch.device("cuda", torch.cuda.current_device())

    def exchange(self, parts: Sequence[Tensor], counts: Sequence[int]) -> list[Tensor]:
        """Sends a flat tensor to each rank, and returns what they sent: `counts` says how many elements each did."""
        if self.size == 1:
            return [parts[0]]
        sent = torch.cat(list(parts)).contiguous()
        received = sent.new_empty(sum(counts))
        dist.all_to_all_single(received, sent, list(counts), [part.numel() for part in parts], group=self.group)
        return list(received.split(list(counts)))

    def gather(self, x: Tensor, counts: Sequence[int]) -> Tensor:
        """Joins tensors (batch, heads, length, features) of all ranks along their lengths, which are `counts`."""
        batch, heads, _, features = x.shape
        sizes = [batch * heads * count * features for count in counts]
        parts = self.exchange([x.reshape(-1)] * self.size, sizes)
        return torch.cat([part.view(batch, heads, n, features) for part, n in zip(parts, counts)], 2)

    def sum_to_owners(self, x: Tensor, counts: Sequence[int]) -> Tensor:
        """Adds tensors (batch, heads, sum of counts, features) of all ranks, in their order, and keeps the own part."""
        batch, heads, _, features = x.shape
        own = (batch, heads, counts[self.rank], features)
        parts = [part.reshape(-1) for part in x.split(list(counts), 2)]
        total, *others = self.exchange(parts, [own[0] * own[1] * own[2] * own[3]] * self.size)
        for other in others:
            total = total + other
        return total.view(own)

    def largest(self, x: Tensor) -> Tensor:
        """Returns the largest of each element over all ranks."""
        if self.size > 1:
            dist.all_reduce(x, op=dist.ReduceOp.MAX, group=self.group)
        return x

    def agree(self, who: str, facts: Any, numbers: Sequence[int], error: Exception | None) -> list[list[int]]:
        """Returns the numbers of all ranks; all of them raise where one had an error, or where their facts differ."""
        if error is not None and self.size == 1:
            raise error
        if self.size == 1:
            return [list(numbers)]
        own = [int(error is not None), zlib.crc32(repr(facts).encode()), *numbers]
        found = [torch.empty(len(own), dtype=torch.long, device=self.device) for _ in range(self.size)]
        dist.all_gather(found, torch.tensor(own, device=self.device), group=self.group)
        rows = [row.tolist() for row in found]
        if error is not None:
            raise error
        failed = [rank for rank, row in enumerate(rows) if row[0]]
        if failed:
            raise ValueError(
                f"{who}: every rank must be given valid arguments, got an error on rank {failed[0]}; read its message"
            )
        if len({row[1] for row in rows}) > 1:
            every: list[Any] = [None] * self.size
            dist.all_gather_object(every, facts, group=self.group)
            raise ValueError(f"{who}: all ranks must be given the same problem, got {_difference(every)}; {_SAME}")
        return [row[2:] for row in rows]


_SAME = "only the lengths of query, key and value may differ between ranks"


def _difference(every: list[dict[str, Any]]) -> str:
    """Says in what the facts of two ranks differ."""
    for rank, facts in enumerate(every):
        for name, fact in facts.items():
            if fact != every[0][name]:
                return f"{name} {every[0][name]} on rank 0 and {fact} on rank {rank}"
    return "facts that only look alike"
