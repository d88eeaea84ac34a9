"""CTC: the ways to stretch a target over time, with blanks in between.

    potentials  emissions (..., T, 2S + 1): score of being, at time t, in state s of  blank y₁ blank y₂ ... y_S blank
                skips (..., 2S + 1): 0 where state s may follow s − 2 (a label unlike the one before), else −inf
                ends (..., 2S + 1): 0 where a path may end (the last label and the last blank), else −inf

`CTC.from_log_probs` makes them from what `torch.nn.functional.ctc_loss` takes. A structure is 0/1 in the same shapes:
the state at every time, the skips and the end it uses. Under Shannon `max` is the log-probability of the targets.

Graves, Fernández, Gomez & Schmidhuber, "Connectionist temporal classification", ICML 2006.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from omegamax import checks, routing
from omegamax.inference.hypergraphs.lattice import Lattice
from omegamax.inference.hypergraphs.topology import Topology
from omegamax.operators.shannon import Shannon
from omegamax.smoothmax import SmoothMax
from omegamax.structures.dynamic_program import DynamicProgram
from omegamax.structures.problem import Sizes


class CtcPotentials(NamedTuple):
    """Potentials of a CTC lattice, and weights in the same form."""

    emissions: Tensor  # (..., T, 2S + 1)
    skips: Tensor  # (..., 2S + 1)
    ends: Tensor  # (..., 2S + 1)


@dataclass(frozen=True)
class CTC(DynamicProgram):
    """Alignments of a target with a longer sequence of frames; `lengths` are those of the frames."""

    event_ndim = 2
    n_regularized = 1

    @staticmethod
    def from_log_probs(
        log_probs: Tensor, targets: Tensor, target_lengths: Any = None, *, blank: int = 0
    ) -> CtcPotentials:
        """Makes potentials from log-probabilities (T, batch, classes) and targets (batch, S), in PyTorch's conventions.

        Targets may also be concatenated, (sum of target_lengths,); without a batch they are (T, classes) and (S,).

        Arguments:
            log_probs: (T, batch, classes)
            targets: integers (batch, S)
            target_lengths: how many labels each target has
            blank: which class is the blank
        """
        log_probs, padded, lengths = _read(log_probs, targets, target_lengths, blank)
        states = _states(padded, blank)  # (batch, 2S + 1)
        emissions = log_probs.movedim(-2, 0) if log_probs.dim() == 3 else log_probs.unsqueeze(0)
        emissions = emissions.gather(-1, states.unsqueeze(1).expand(-1, emissions.shape[1], -1))
        place = torch.arange(states.shape[1], device=states.device)
        is_label = place % 2 == 1
        differs = torch.zeros_like(states, dtype=torch.bool)
        differs[:, 2:] = states[:, 2:] != states[:, :-2]
        last = 2 * lengths.unsqueeze(1)
        ends = (place == last) | ((place == last - 1) & is_label)
        skips, ends = (torch.where(kept, 0.0, -torch.inf).to(emissions.dtype) for kept in (is_label & differs, ends))
        if log_probs.dim() == 2:
            return CtcPotentials(emissions[0], skips[0], ends[0])
        return CtcPotentials(emissions, skips, ends)

    @staticmethod
    def from_frames(frames: Tensor, targets: Tensor, target_lengths: Any = None, *, blank: int = 0) -> CtcPotentials:
        """Makes a structure from labels of frames (T,) or (batch, T) that spell the targets; −1 beyond the length.

        The inverse of `frames`. Raises for frames that spell something else.

        Arguments:
            frames: integers (T,) or (batch, T)
            targets: integers (S,) or (batch, S)
            target_lengths: how many labels each target has
            blank: which class is the blank
        """
        padded = _padded("CTC.from_frames", targets, target_lengths)
        lengths = torch.full((len(padded),), padded.shape[1]) if target_lengths is None else target_lengths
        rows = frames.unsqueeze(0) if frames.dim() == 1 else frames
        n_frames, n_states = rows.shape[1], 2 * padded.shape[1] + 1
        found = CtcPotentials(
            *(torch.zeros(len(rows), *size) for size in ((n_frames, n_states), (n_states,), (n_states,)))
        )
        sizes = torch.as_tensor(lengths).reshape(-1).tolist()
        for item, (labels, states) in enumerate(zip(rows.tolist(), _states(padded, blank).tolist())):
            at, last = -1, 2 * sizes[item]
            for time, label in enumerate(label for label in labels if label >= 0):
                skips = at >= 0 and at + 2 <= last and states[at + 2] not in (blank, states[at])
                after = [at + 1, at + 2] if at < 0 else [at, at + 1, *([at + 2] if skips else [])]
                onward = next((s for s in after if s <= last and states[s] == label), None)
                if onward is None:
                    at = -2
                    break
                found.skips[item, onward] += at >= 0 and onward == at + 2
                found.emissions[item, time, onward] = 1
                at = onward
            if at < max(0, last - 1):
                raise ValueError(
                    f"CTC.from_frames: frames must spell the targets {states[1:last:2]}, blanks and repetitions apart, "
                    f"got {labels} in item {item}; take them from CTC.frames"
                )
            found.ends[item, at] = 1
        return CtcPotentials(*(part[0] for part in found)) if frames.dim() == 1 else found

    @staticmethod
    def frames(
        structure: CtcPotentials,
        targets: Tensor,
        target_lengths: Any = None,
        *,
        blank: int = 0,
        dim: int | None = None,
    ) -> Tensor:
        """Reads the label of every frame (..., T), −1 beyond, from a structure of `map`, `sample`, `topk` or `support`.

        `dim` is the axis of the batch among the leading axes of the structure: 0 in what `map`, `topk` and `support`
        return, 1 in samples. It may be left out where only one axis has the size of the batch.

        Arguments:
            structure: from `map`, `sample`, `topk` or `support`
            targets: integers (S,) or (batch, S)
            target_lengths: how many labels each target has
            blank: which class is the blank
            dim: the axis of the batch
        """
        states = _states(_padded("CTC.frames", targets, target_lengths), blank).to(structure.emissions.device)
        lead = tuple(structure.emissions.shape[:-2])
        shape = [1] * len(lead)
        if states.shape[0] > 1 or dim is not None:
            shape[_batch_axis(lead, states.shape[0], dim)] = states.shape[0]
        states = states.reshape(*shape, 1, -1).expand(structure.emissions.shape)
        best = structure.emissions.argmax(-1, keepdim=True)
        return torch.where(structure.emissions.sum(-1) > 0.5, states.gather(-1, best).squeeze(-1), -1)

    def components(self, potentials: Any) -> tuple[tuple[Tensor, int], ...]:
        if not isinstance(potentials, CtcPotentials):
            raise TypeError(
                f"CTC: potentials must be CtcPotentials, got {type(potentials).__name__}; use CTC.from_log_probs"
            )
        emissions, skips, ends = potentials
        n_states = emissions.shape[-1] if isinstance(emissions, Tensor) and emissions.dim() else 0
        checks.check_event("CTC", "emissions", emissions, (None, n_states), "(..., T, 2S + 1)")
        checks.check_event("CTC", "skips", skips, (n_states,), "(..., 2S + 1)")
        checks.check_event("CTC", "ends", ends, (n_states,), "(..., 2S + 1)")
        return (emissions, 2), (skips, 1), (ends, 1)

    def limits(self, sizes: Sizes) -> tuple[int, ...]:
        return (sizes[0][0],)

    def build(self, sizes: Sizes) -> Lattice:
        """Node 0 is the start; then T·(2S+1) nodes (t, s); then T ends, one per possible length."""
        t, n = sizes[0]
        state, time = np.arange(n), np.arange(1, t)
        begin = state[:2]
        # The edges into (t, s) come from s, then s − 1, then s − 2: ties go to the path that stays in s.
        heads, tails, emissions, skips = [1 + begin], [0 * begin], [begin], [np.full(len(begin), -1)]
        for back in (0, 1, 2):
            at, into = (grid.ravel() for grid in np.meshgrid(time, state[back:], indexing="ij"))
            heads.append(1 + at * n + into)
            tails.append(1 + (at - 1) * n + into - back)
            emissions.append(at * n + into)
            skips.append(into if back == 2 else np.full(into.size, -1))
        length, last = (grid.ravel() for grid in np.meshgrid(np.arange(1, t + 1), state, indexing="ij"))
        n_inner = sum(len(part) for part in heads)
        heads.append(t * n + length)
        tails.append(1 + (length - 1) * n + last)
        none = np.full(last.size, -1)
        emission, skip = np.concatenate([*emissions, none]), np.concatenate([*skips, none])
        end = np.concatenate([np.full(n_inner, -1), last])
        levels = np.concatenate([[0], np.repeat(np.arange(1, t + 1), n), np.arange(2, t + 2)])
        topology = Topology.from_edges(levels, np.concatenate(heads), np.concatenate(tails)[:, None], leaves=[0])
        return Lattice.from_parts(topology, [emission, skip, end], [t * n, n, n])

    def goals(self, sizes: Sizes, lengths: tuple[Tensor, ...]) -> Tensor:
        """An item ends in the end that belongs to its number of frames."""
        t, n = sizes[0]
        return t * n + lengths[0]


def _batch_axis(lead: tuple[int, ...], n_items: int, dim: int | None) -> int:
    """Returns which of the leading axes of structures is that of the batch."""
    fitting = [axis for axis, size in enumerate(lead) if size == n_items]
    if dim is None and len(fitting) == 1:
        return fitting[0]
    if dim is not None and -len(lead) <= dim < len(lead) and dim % len(lead) in fitting:
        return dim % len(lead)
    found = "none" if not fitting else f"{len(fitting)} of them" if dim is None else f"dim={dim}"
    raise ValueError(
        f"CTC.frames: one leading axis of the structures {lead} must be that of the {n_items} targets, got {found}; "
        "pass dim=0 for map, topk and support, dim=1 for samples"
    )


@routing.in_float32
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
    *,
    regularizer: SmoothMax | None = None,
) -> Tensor:
    """`torch.nn.functional.ctc_loss` for any Ω: minus DP_Ω over the alignments of each target.

    Under Shannon (the default) it has PyTorch's values, and PyTorch's gradients with respect to logits; with respect
    to raw log-probabilities its gradient is the derivative of its value. A target that does not fit costs inf, and has
    zero gradient; `zero_infinity` makes the cost zero too. `reduction="mean"` divides by the target lengths first.

    Arguments:
        log_probs: (T, batch, classes) or (T, classes)
        targets: (batch, S), or concatenated
        input_lengths: how many frames each item has
        target_lengths: how many labels each target has
        blank: which class is the blank
        reduction: "mean", "sum" or "none"
        zero_infinity: whether a target that does not fit costs 0
        regularizer: Ω of the recursion; None is Shannon
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(
            f"ctc_loss: reduction must be 'mean', 'sum' or 'none', got {reduction!r}; the default is 'mean'"
        )
    potentials = CTC.from_log_probs(log_probs, targets, target_lengths, blank=blank)
    frames = _whole("ctc_loss", "input_lengths", input_lengths)
    if log_probs.dim() == 2:
        frames = frames.reshape(())
    silent = (frames == 0).to(log_probs.device)  # zero frames spell the empty target only
    omega = Shannon() if regularizer is None else regularizer
    losses = -CTC().max(potentials, omega, lengths=torch.where(frames == 0, 1, frames))
    if bool(silent.any()):
        empty = torch.as_tensor(target_lengths, device=losses.device).reshape(losses.shape) == 0
        losses = torch.where(silent, torch.where(empty, 0.0, torch.inf).to(losses.dtype), losses)
    if zero_infinity:
        losses = torch.where(losses == torch.inf, 0, losses)
    if reduction == "mean":
        sizes = torch.as_tensor(target_lengths, device=losses.device).reshape(losses.shape)
        return (losses / sizes.clamp(min=1).to(losses.dtype)).mean()
    return losses.sum() if reduction == "sum" else losses


def _read(log_probs: Tensor, targets: Tensor, target_lengths: Any, blank: int) -> tuple[Tensor, Tensor, Tensor]:
    """Checks log-probabilities, targets (batch, S) and their lengths (batch,)."""
    who = "CTC.from_log_probs"
    checks.check_floating(who, log_probs)
    if log_probs.dim() not in (2, 3) or 0 in log_probs.shape:
        raise ValueError(
            f"{who}: log_probs must have the shape (T, batch, classes) or (T, classes), no size zero, got "
            f"{tuple(log_probs.shape)}; transpose (batch, T, classes) with .movedim(1, 0)"
        )
    n_classes = log_probs.shape[-1]
    if not 0 <= blank < n_classes:
        raise ValueError(f"{who}: blank must be one of the {n_classes} classes, got {blank}; it is 0 by default")
    n_items = log_probs.shape[1] if log_probs.dim() == 3 else 1
    padded = _padded(who, targets, target_lengths).to(log_probs.device)
    if padded.shape[0] != n_items:
        raise ValueError(f"{who}: targets must be for {n_items} items, got {padded.shape[0]}; pad them to (batch, S)")
    longest = padded.shape[1]
    lengths = torch.full((n_items,), longest)
    if target_lengths is not None:
        lengths = _whole(who, "target_lengths", target_lengths).reshape(-1)
    if len(lengths) != n_items or bool(((lengths < 0) | (lengths > longest)).any()):
        raise ValueError(
            f"{who}: target_lengths must be {n_items} numbers from 0 to {longest}, got {lengths.tolist()}; give one "
            "per item"
        )
    lengths = lengths.to(log_probs.device)
    within = torch.arange(padded.shape[1], device=padded.device) < lengths.unsqueeze(1)
    wrong = within & ((padded < 0) | (padded >= n_classes) | (padded == blank))
    if bool(wrong.any()):
        raise ValueError(
            f"{who}: targets must be classes from 0 to {n_classes - 1} other than the blank {blank}, got "
            f"{int(padded[wrong][0])}; renumber them"
        )
    return log_probs, torch.where(within, padded, blank), lengths


def _whole(who: str, name: str, lengths: Any) -> Tensor:
    """Reads lengths as integers from a Tensor, a list, a tuple or a number."""
    found = torch.as_tensor(lengths)
    if found.is_floating_point() or found.dtype is torch.bool:
        raise TypeError(f"{who}: {name} must be integers, got {found.dtype}; count the places of each item")
    return found.long()


def _padded(who: str, targets: Tensor, target_lengths: Any) -> Tensor:
    """Returns targets (batch, S), from padded or concatenated ones."""
    if not isinstance(targets, Tensor) or targets.is_floating_point() or targets.dim() not in (1, 2):
        kind = tuple(targets.shape) if isinstance(targets, Tensor) else type(targets).__name__
        raise TypeError(
            f"{who}: targets must be an integer Tensor (batch, S) or (total,), got {kind}; use torch.tensor"
        )
    if targets.dim() == 2:
        return targets.long()
    sizes = [targets.shape[0]]
    if target_lengths is not None:
        sizes = _whole(who, "target_lengths", target_lengths).reshape(-1).tolist()
    if sum(sizes) != targets.shape[0]:
        raise ValueError(
            f"{who}: concatenated targets must be as many as the target_lengths together, {sum(sizes)}, got "
            f"{targets.shape[0]}; or pad them to (batch, S)"
        )
    rows = targets.long().split(sizes)
    return (
        torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True)
        if max(sizes)
        else targets.new_zeros(len(sizes), 0)
    )


def _states(padded: Tensor, blank: int) -> Tensor:
    """Returns the states blank y₁ blank y₂ ... y_S blank, (batch, 2S + 1)."""
    states = padded.new_full((padded.shape[0], 2 * padded.shape[1] + 1), blank)
    states[:, 1::2] = padded
    return states
