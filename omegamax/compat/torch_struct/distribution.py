"""What all distributions share: a structure of ours, its potentials, and the two ways between events and structures."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from omegamax import checks
from omegamax.operators.hard import Hard
from omegamax.structures.structure import Structure

_HARD = Hard()


class StructDistribution(Distribution):
    """A distribution over structures, p(z) ∝ exp <z, log_potentials>.

    Arguments:
        log_potentials: scores (*batch, *event); −inf forbids a part
        lengths: how many positions each item has, (*batch)
        args: not needed
    """

    arg_constraints: dict[str, Any] = {}  # noqa: RUF012
    event_ndim: int
    struct: Any  # reads and writes the short form of structures: `parts.py`

    def __init__(self, log_potentials: Tensor, lengths: Any = None, args: Any = None) -> None:
        checks.check_floating(type(self).__name__, log_potentials, name="log_potentials")
        if log_potentials.dim() < self.event_ndim:
            raise ValueError(
                f"{type(self).__name__}: log_potentials must have at least {self.event_ndim} axes, got "
                f"{tuple(log_potentials.shape)}; batch axes come first"
            )
        self.log_potentials, self.lengths, self.args = log_potentials, lengths, args or {}
        split = log_potentials.dim() - self.event_ndim
        super().__init__(log_potentials.shape[:split], log_potentials.shape[split:], validate_args=False)

    # What a subclass describes.

    def structure(self) -> Structure:
        """Returns the structure of ours."""
        raise NotImplementedError

    def potentials(self) -> Tensor:
        """Returns the potentials in our form."""
        return self.log_potentials

    def as_event(self, structures: Tensor) -> Tensor:
        """Turns `structures` in our form (..., *ours) into events (..., *event)."""
        return structures

    def as_structure(self, event: Tensor) -> Tensor:
        """Turns an `event` (..., *event) into structures in our form."""
        return event

    # What users call.

    @property
    def log_partition(self) -> Tensor:
        """The log-partition (*batch); its gradient is `marginals`."""
        return self.structure().max(self.potentials(), lengths=self.lengths)

    @property
    def partition(self) -> Tensor:
        """The log-partition (*batch), under the name that torch-struct gives it."""
        return self.log_partition

    @property
    def marginals(self) -> Tensor:
        """How likely each part is, (*batch, *event); differentiable."""
        return self.as_event(self.structure().argmax(self.potentials(), lengths=self.lengths))

    @property
    def max(self) -> Tensor:
        """The score of the best structure, (*batch)."""
        return self.structure().max(self.potentials(), _HARD, lengths=self.lengths)

    @property
    def argmax(self) -> Tensor:
        """The best structure, 0/1, (*batch, *event)."""
        return self.as_event(self.structure().map(self.potentials(), lengths=self.lengths))

    @property
    def mode(self) -> Tensor:
        """The best structure, as `argmax`."""
        return self.argmax

    def topk(self, k: int) -> Tensor:
        """Finds the `k` best structures, (k, *batch, *event); zeros where there are fewer."""
        found = self._best(k).structures
        return self.as_event(found).movedim(len(self.batch_shape), 0)

    def kmax(self, k: int) -> Tensor:
        """Finds the scores of the `k` best structures, (k, *batch); −inf where there are fewer. No gradient."""
        return self._best(k).scores.movedim(-1, 0)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws structures (*sample_shape, *batch, *event), 0/1."""
        shape = torch.Size([sample_shape] if isinstance(sample_shape, int) else sample_shape)
        drawn = self.structure().sample(self.potentials(), n_samples=shape.numel(), lengths=self.lengths)  # type: ignore[attr-defined]
        return self.as_event(drawn).reshape(*shape, *self.batch_shape, *self.event_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Computes the log-probability of events `value` (*sample_shape, *batch, *event)."""
        structures = self.as_structure(value.to(self.log_potentials.dtype))
        return self.structure().log_prob(self.potentials(), structures, lengths=self.lengths)

    @property
    def entropy(self) -> Tensor:  # type: ignore[override]
        """How uncertain the structure is, −E log p, (*batch); differentiable."""
        return self.structure().entropy(self.potentials(), lengths=self.lengths)

    def kl(self, other: StructDistribution) -> Tensor:
        """Computes KL(self ‖ `other`), (*batch); the lengths are those of the first."""
        return self.structure().kl(self.potentials(), other.potentials(), lengths=self.lengths)

    def cross_entropy(self, other: StructDistribution) -> Tensor:
        """Computes −E log p of the `other`, (*batch), where structures are drawn from this one."""
        return self.entropy + self.kl(other)

    @property
    def count(self) -> Tensor:
        """How many structures have a score above −inf, (*batch)."""
        counts = self.structure().count(self.potentials(), lengths=self.lengths)  # type: ignore[attr-defined]
        found = torch.tensor(counts, dtype=self.log_potentials.dtype, device=self.log_potentials.device)
        return found.reshape(self.batch_shape)

    def to_event(self, sequence: Tensor, extra: Any, lengths: Any = None) -> Tensor:
        """Makes an event from its short form `sequence`, with what is `extra` and the `lengths`."""
        return self.struct.to_parts(sequence, extra, lengths)

    def from_event(self, event: Tensor) -> Any:
        """Reads the short form of an `event` (b, *event), and what is extra."""
        return self.struct.from_parts(event)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(log_potentials: {tuple(self.log_potentials.shape)})"

    def _best(self, k: int) -> Any:
        return self.structure().topk(self.potentials(), k, lengths=self.lengths)  # type: ignore[attr-defined]
