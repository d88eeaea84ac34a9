"""A linear-chain CRF as a layer: a network scores each word and tag, and the layer learns how tags follow each other.

    score(y) = start[y_1] + Σ_n emissions[n, y_n] + Σ_n transitions[y_{n−1}, y_n] + end[y_N]

Under Shannon's Ω the loss is the negative log-likelihood (Lafferty, McCallum & Pereira, ICML 2001); under another Ω it
is that Ω's Fenchel–Young loss, and marginals may be sparse (Mensch & Blondel, ICML 2018).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from omegamax.losses.evaluation import loss_of
from omegamax.losses.partial import UNKNOWN, check_faces, partial_losses
from omegamax.losses.reduction import check_reduction, reduced
from omegamax.module_repr import shown
from omegamax.operators.shannon import Shannon
from omegamax.smoothmax import SmoothMax
from omegamax.structures.chain import Chain, FactoredChain
from omegamax.structures.smoothed import Smoothed
from omegamax.structures.smoothing import smoothing_of
from omegamax.structures.tagging_scheme import AllowedTransitions

_CHAIN = Chain()
_SHANNON = Shannon()


class CRF(nn.Module):
    """A CRF over sequences of tags that owns its transition, start and end scores, all zero at first.

    Arguments:
        n_tags: the number C of tags
        regularizer: Ω; `Shannon()` gives the log-likelihood, `SquaredNorm()` a sparse loss and sparse marginals
        allowed: which tags may follow, begin and end, from `allowed_transitions(names, "BIO")`; None allows all

    Methods take `emissions` (..., N, C), and either `lengths` (...), integers, or `mask` (..., N), True at positions
    that exist. A position that is masked is left out: its neighbours become adjacent, so that a mask may also skip the
    later pieces of a word. Sequences without any position cost nothing and have no gradient.

    Calling the layer gives the potentials, for every method of `Chain`: `Chain().topk(crf(emissions), 5)`.

    >>> crf = CRF(2)
    >>> emissions, tags = torch.tensor([[[2.0, 0.0], [0.0, 1.0]]]), torch.tensor([[0, 1]])
    >>> crf.loss(emissions, tags), crf.decode(emissions)
    (tensor(0.4402, grad_fn=<DivBackward0>), tensor([[0, 1]]))
    """

    def __init__(
        self, n_tags: int, *, regularizer: SmoothMax = _SHANNON, allowed: AllowedTransitions | None = None
    ) -> None:
        super().__init__()
        if isinstance(n_tags, bool) or not isinstance(n_tags, int) or n_tags < 1:
            raise ValueError(f"CRF: n_tags must be a positive int, got {n_tags!r}; count the tags")
        smoothing_of("CRF", regularizer)
        self._smooth = Smoothed(_CHAIN, regularizer)
        self.n_tags, self.regularizer = n_tags, regularizer
        self.transitions = nn.Parameter(torch.zeros(n_tags, n_tags))
        self.start = nn.Parameter(torch.zeros(n_tags))
        self.end = nn.Parameter(torch.zeros(n_tags))
        shapes = ((n_tags, n_tags), (n_tags,), (n_tags,))
        for name, shape, rule in zip(AllowedTransitions._fields, shapes, allowed or (None, None, None)):
            if rule is not None and (tuple(rule.shape) != shape or rule.dtype is not torch.bool):
                raise ValueError(
                    f"CRF: allowed.{name} must be boolean of shape {shape}, got {rule.dtype} of {tuple(rule.shape)}; "
                    "use allowed_transitions(names, scheme) with one name per tag"
                )
            self.register_buffer(f"allowed_{name}", rule, persistent=False)

    def forward(self, emissions: Tensor, *unexpected: Any) -> FactoredChain:
        """Makes the potentials of a chain: emissions (..., N, C) and the layer's own scores, −inf where not allowed.

        Anything `unexpected` raises: in other libraries a call with tags is the log-likelihood, in some the loss.
        """
        if unexpected:
            raise TypeError(
                f"CRF: a call must have emissions alone, got {len(unexpected)} more; use crf.loss(emissions, tags), "
                "which is to be minimised, or crf.log_prob(emissions, tags)"
            )
        self._check(emissions)
        dtype = torch.promote_types(emissions.dtype, self.transitions.dtype)  # float32 under autocast
        own = []
        for name in AllowedTransitions._fields:
            score, rule = getattr(self, name).to(dtype), getattr(self, f"allowed_{name}")
            own.append(score if rule is None else torch.where(rule, score, -torch.inf))
        return _CHAIN.from_emissions(emissions.to(dtype), *own)

    def loss(
        self,
        emissions: Tensor,
        tags: Tensor,
        *,
        lengths: Any = None,
        mask: Tensor | None = None,
        reduction: str = "mean",
    ) -> Tensor:
        """Computes the Fenchel–Young loss of gold tags, to be minimised; under Shannon the negative log-likelihood.

        Arguments:
            emissions: scores (..., N, C)
            tags: integers (..., N); what is beyond the lengths or masked may be anything
            lengths: the number of positions of each sequence, (...)
            mask: which positions exist, (..., N), instead of lengths
            reduction: "mean" over sequences, "sum" or "none"
        """
        check_reduction("CRF.loss", reduction)
        kept = self._kept(emissions, lengths, mask)
        tags = kept.zero_if_empty(self._checked_tags("loss", emissions, tags))
        potentials = self(kept.zero_if_empty(emissions))
        losses = loss_of("CRF.loss", self._smooth, potentials, tags, reduction="none", **kept.options)
        return reduced(kept.zero_if_empty(losses), reduction)

    def partial_loss(
        self,
        emissions: Tensor,
        allowed: Tensor,
        *,
        lengths: Any = None,
        mask: Tensor | None = None,
        reduction: str = "mean",
    ) -> Tensor:
        """Computes the loss where tags are known in part; under Shannon −log of the probability of what is allowed.

        Arguments:
            emissions: scores (..., N, C)
            allowed: boolean (..., N, C), True for every tag that may be right; or tags, integers (..., N), of which
                −100 is unknown
            lengths: the number of positions of each sequence, (...)
            mask: which positions exist, (..., N), instead of lengths
            reduction: "mean" over sequences, "sum" or "none"
        """
        check_reduction("CRF.partial_loss", reduction)
        check_faces("CRF.partial_loss", self._smooth)
        kept = self._kept(emissions, lengths, mask)
        if isinstance(allowed, Tensor):
            allowed = kept.filled_if_empty(allowed, True if allowed.dtype is torch.bool else UNKNOWN)
        potentials = self(kept.zero_if_empty(emissions))
        losses = partial_losses("CRF.partial_loss", self._smooth, potentials, allowed, **kept.options)
        return reduced(kept.zero_if_empty(losses), reduction)

    def log_prob(self, emissions: Tensor, tags: Tensor, *, lengths: Any = None, mask: Tensor | None = None) -> Tensor:
        """Computes the log-probability of tags, (...); −inf where a sparse Ω gives none. Arguments as in `loss`."""
        kept = self._kept(emissions, lengths, mask)
        potentials = self(kept.zero_if_empty(emissions))
        tags = kept.zero_if_empty(self._checked_tags("log_prob", emissions, tags))
        gold = _CHAIN.target_from(tags, potentials, **kept.options)
        return kept.zero_if_empty(_CHAIN.log_prob(potentials, gold, self.regularizer, **kept.options))

    def decode(self, emissions: Tensor, *, lengths: Any = None, mask: Tensor | None = None) -> Tensor:
        """Finds the best tags (..., N) of emissions (..., N, C) by Viterbi; −1 beyond `lengths` or outside `mask`."""
        kept = self._kept(emissions, lengths, mask)
        best = _CHAIN.tags(_CHAIN.map(self(kept.zero_if_empty(emissions)), **kept.options))
        return kept.filled_if_empty(best, -1)

    def marginals(self, emissions: Tensor, *, lengths: Any = None, mask: Tensor | None = None) -> Tensor:
        """Computes how likely each tag is at each position, (..., N, C), from emissions of that shape; differentiable.

        They are zero beyond `lengths` and outside of `mask`; under a sparse Ω many others are exactly zero too.
        """
        kept = self._kept(emissions, lengths, mask)
        found = _CHAIN.argmax(self(kept.zero_if_empty(emissions)), self.regularizer, **kept.options)
        return kept.zero_if_empty(found.emissions)

    def extra_repr(self) -> str:
        return shown(n_tags=self.n_tags, regularizer=self.regularizer, allowed=self.allowed_transitions)

    def _check(self, emissions: Any) -> None:
        if not isinstance(emissions, Tensor) or not emissions.is_floating_point():
            kind = emissions.dtype if isinstance(emissions, Tensor) else type(emissions).__name__
            raise TypeError(f"CRF: emissions must be a floating-point Tensor, got {kind}; pass a network's scores")
        if emissions.dim() < 2 or emissions.shape[-1] != self.n_tags:
            raise ValueError(
                f"CRF: emissions must be (..., N, {self.n_tags}), got {tuple(emissions.shape)}; the last axis is that "
                "of the tags, and batch axes come first"
            )

    def _checked_tags(self, method: str, emissions: Tensor, tags: Any) -> Tensor:
        if not isinstance(tags, Tensor) or tags.is_floating_point() or tags.dtype is torch.bool:
            kind = tags.dtype if isinstance(tags, Tensor) else type(tags).__name__
            raise TypeError(f"CRF.{method}: tags must be an integer Tensor, got {kind}; use torch.tensor([...])")
        if tags.shape != emissions.shape[:-1]:
            raise ValueError(
                f"CRF.{method}: tags must have the shape {tuple(emissions.shape[:-1])} of the emissions without the "
                f"last axis, got {tuple(tags.shape)}; give one tag per position"
            )
        return tags.to(emissions.device)

    def _kept(self, emissions: Tensor, lengths: Any, mask: Tensor | None) -> _Kept:
        self._check(emissions)
        shape, device = emissions.shape[:-1], emissions.device
        if lengths is not None and mask is not None:
            raise ValueError("CRF: give lengths or mask, got both; a mask says which positions exist")
        if lengths is None and mask is None:
            return _Kept({}, None)
        if mask is None:
            lengths = torch.as_tensor(lengths, device=device)
            if lengths.is_floating_point() or lengths.shape != shape[:-1]:
                raise ValueError(
                    f"CRF: lengths must be integers of shape {tuple(shape[:-1])}, got {lengths.dtype} of "
                    f"{tuple(lengths.shape)}; give one per sequence"
                )
            if bool(((lengths < 0) | (lengths > shape[-1])).any()):
                raise ValueError(
                    f"CRF: lengths must lie between 0 and {shape[-1]}, got {int(lengths.min())} to "
                    f"{int(lengths.max())}; count the positions of each sequence"
                )
            return _Kept.of({"lengths": lengths.clamp(min=1)}, lengths == 0)
        if not isinstance(mask, Tensor) or mask.shape != shape:
            given = tuple(mask.shape) if isinstance(mask, Tensor) else type(mask).__name__
            raise ValueError(
                f"CRF: mask must have the shape {tuple(shape)} of the tags, got {given}; True marks a position that "
                "exists"
            )
        mask = mask.to(device) != 0
        empty = ~mask.any(-1)
        first = torch.arange(shape[-1], device=device) == 0
        return _Kept.of({"positions": mask | (first & empty.unsqueeze(-1))}, empty)


class _Kept(NamedTuple):
    """Which positions exist, as a chain takes them. A chain has at least one, so an empty sequence keeps its first."""

    options: dict[str, Tensor]  # lengths or positions
    empty: Tensor | None  # (...): the sequences without any position; None where all have some

    @classmethod
    def of(cls, options: dict[str, Tensor], empty: Tensor) -> _Kept:
        return cls(options, empty if bool(empty.any()) else None)

    def zero_if_empty(self, values: Tensor) -> Tensor:
        """Replaces what empty sequences have in values (..., *any) by 0."""
        return self.filled_if_empty(values, 0)

    def filled_if_empty(self, values: Tensor, fill: int) -> Tensor:
        """Replaces what empty sequences have in values (..., *any)."""
        if self.empty is None:
            return values
        return torch.where(
            self.empty.reshape(*self.empty.shape, *(1,) * (values.dim() - self.empty.dim())), fill, values
        )
