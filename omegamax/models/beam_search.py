"""Beam search: the likeliest sequences that a step function can write, found by keeping a few at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from omegamax import checks

# Tokens (B·n,) and their state to log-probabilities of the next token (B·n, V), the new state, and perhaps more, which
# is not looked at. A state is a tensor (B·n, ...), an object with a method `select(rows)`, or a tuple of states.
State = Any
Step = Callable[[Tensor, State], tuple[Any, ...]]


class BeamSearchResult(NamedTuple):
    """The n best sequences of each item, best first."""

    tokens: Tensor  # (B, n, T): without the end token, and `end` beyond the length
    lengths: Tensor  # (B, n): without the end token
    scores: Tensor  # (B, n): log-probability / (number of tokens, end token included) ^ length_penalty; -inf: no more
    bounds: Tensor  # (B,): no sequence that the search gave up has a higher score; -inf where it gave up none

    @property
    def complete(self) -> Tensor:
        """Whether the search of each item looked at every sequence of non-zero probability, (B,)."""
        return self.bounds == -torch.inf

    @property
    def optimal(self) -> Tensor:
        """Whether the first sequence of each item is proved to be the best of all, (B,)."""
        return (self.scores[:, 0] >= self.bounds) & (self.scores[:, 0] > -torch.inf)


class _Candidates(NamedTuple):
    """Sequences that are one token longer than before, best first."""

    tokens: Tensor  # (B, m, t)
    log_prob: Tensor  # (B, m); -inf where there are fewer
    parent: Tensor  # (B, m): the row of the state that each came from


class _Continuations(NamedTuple):
    """The best continuations of a step, and the log-probability (B, 1) of the best one that is left out."""

    kept: _Candidates
    left_out: Tensor


def beam_search(
    step: Step,
    state: State,
    *,
    n_items: int,
    n_beams: int,
    start: int,
    end: int,
    max_length: int,
    length_penalty: float = 1.0,
    penalty: Callable[[State], Tensor] | None = None,
) -> BeamSearchResult:
    """Finds the likeliest sequences of at most `max_length` tokens; one that has not ended by then is cut there.

    `state` has n_items rows; `step` sees n_beams copies of each, one after the other. An output has ended when an end
    token is among the n_beams best continuations; an item is done when n_beams outputs have ended. One beam is greedy
    search. Among equals the older hypothesis wins, then the lower token.

    A sequence is given up when it is not among the best n_beams, or when its item is done before it has ended. What is
    given up is bounded: log-probabilities only fall as a sequence grows. So the result says whether its best sequence
    is proved to be the best there is. Where most tokens have probability zero (sparsemax), often nothing is given up.

    Arguments:
        step: from last tokens and states to log-probabilities and states
        state: before the first token
        n_items: how many searches run side by side
        n_beams: how many hypotheses each keeps
        start: the token that begins a sequence
        end: the token that ends one
        max_length: how many tokens a sequence has at most
        length_penalty: the power of the length that scores are divided by; 0 compares sums
        penalty: from the state after a sequence's last token to what is added to its score, (B·n,), at most 0

    >>> def step(token, state):                        # after 0 comes 1, then 2, which ends
    ...     return torch.eye(3)[(token + 1).clamp(max=2)].log(), state
    >>> beam_search(step, torch.zeros(1), n_items=1, n_beams=1, start=0, end=2, max_length=5).tokens
    tensor([[[1, 2, 2, 2, 2]]])
    """
    for name, count in (("n_items", n_items), ("n_beams", n_beams), ("max_length", max_length)):
        checks.check_count("beam_search", name, count)
    device = _device_of(state)
    rows = torch.arange(n_items, device=device).repeat_interleave(n_beams)
    state = _rows_of(state, rows)
    nowhere = torch.full((n_items, n_beams), -torch.inf, device=device)
    only_the_first = nowhere.clone()  # copies of the start cannot be chosen
    only_the_first[:, 0] = 0
    beam = _Candidates(torch.full((n_items, n_beams, 1), start, device=device), only_the_first, rows)
    nothing = torch.zeros_like(nowhere).long()
    bounds = nowhere[:, 0].clone()
    ended = BeamSearchResult(nothing.unsqueeze(-1)[..., :0], nothing, nowhere, bounds)  # as long as the longest of them
    for length in range(1, max_length + 1):
        log_probs, state = step(beam.tokens[:, :, -1].flatten(), state)[:2]
        candidates, left_out = _continuations(beam, log_probs)
        is_end = candidates.tokens[:, :, -1] == end
        busy = ended.scores[:, -1:] == -torch.inf  # from an item that is done, nothing more is taken
        ends = busy & (is_end | (length == max_length))
        ends[:, n_beams:] = False
        scores = candidates.log_prob / length**length_penalty
        if penalty is not None:
            scores = scores + penalty(state)[candidates.parent]
        ended = _merged(ended, candidates, torch.where(ends, scores, -torch.inf), is_end, end)
        beam = _alive(candidates, is_end, n_beams)
        unfinished = ended.scores[:, -1:] == -torch.inf
        goes_on = unfinished & ~is_end & ((~is_end).cumsum(-1) <= n_beams) & (length < max_length)
        given_up = torch.where(ends | goes_on, -torch.inf, candidates.log_prob)
        given_up = torch.where(busy, torch.cat([given_up, left_out], -1), -torch.inf).amax(-1)
        bounds = torch.maximum(bounds, _bound(given_up, length, max_length, length_penalty))
        if not (unfinished & (beam.log_prob > -torch.inf)).any():
            break
        state = _rows_of(state, beam.parent.flatten())
    return ended._replace(tokens=_filled(ended.tokens, max_length, end), bounds=bounds)


def _bound(log_prob: Tensor, length: int, max_length: int, length_penalty: float) -> Tensor:
    """The highest score of a sequence that begins with `length` tokens of this log-probability."""
    return torch.maximum(log_prob / length**length_penalty, log_prob / max_length**length_penalty)


def _device_of(state: State) -> torch.device:
    return state.device if isinstance(state, Tensor) else _device_of(state[0])


def _rows_of(state: State, rows: Tensor) -> State:
    if isinstance(state, Tensor):
        return state[rows]
    if hasattr(state, "select"):
        return state.select(rows)
    parts = [_rows_of(part, rows) for part in state]
    return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)


def _continuations(beam: _Candidates, log_probs: Tensor) -> _Continuations:
    """Takes the best 2n of the n·V continuations: at most n of them end, so that n can go on."""
    (n_items, n_beams, _), n_tokens = beam.tokens.shape, log_probs.shape[-1]
    log_probs = torch.where(log_probs.isnan(), -torch.inf, log_probs).to(beam.log_prob)  # NaN is never the best
    scores = (beam.log_prob.unsqueeze(-1) + log_probs.view(n_items, n_beams, n_tokens)).flatten(1)  # (B, n·V)
    place = _largest(scores, min(2 * n_beams + 1, scores.shape[-1]))
    left_out = torch.nn.functional.pad(scores.gather(1, place[:, 2 * n_beams :]), (0, 1), value=-torch.inf)[:, :1]
    place = place[:, : 2 * n_beams]
    parent, token = place // n_tokens, place % n_tokens
    rows = parent + n_beams * torch.arange(n_items, device=place.device).unsqueeze(-1)
    tokens = torch.cat([_pick(beam.tokens, parent), token.unsqueeze(-1)], -1)
    return _Continuations(_Candidates(tokens, scores.gather(1, place), rows), left_out)


def _merged(
    ended: BeamSearchResult, candidates: _Candidates, scores: Tensor, is_end: Tensor, end: int
) -> BeamSearchResult:
    """Merges sequences that ended before with those that end now, whose scores are not -inf, and keeps the best."""
    length = candidates.tokens.shape[-1] - 1  # without the start token
    tokens = torch.cat([_filled(ended.tokens, length, end), candidates.tokens[:, :, 1:]], 1)
    scores = torch.cat([ended.scores, scores], 1)
    lengths = torch.cat([ended.lengths, length - is_end.long()], 1)
    best = _largest(scores, ended.scores.shape[1])
    return ended._replace(tokens=_pick(tokens, best), lengths=lengths.gather(1, best), scores=scores.gather(1, best))


def _filled(tokens: Tensor, length: int, end: int) -> Tensor:
    """Pads sequences with end tokens up to a length."""
    return torch.nn.functional.pad(tokens, (0, length - tokens.shape[-1]), value=end)


def _alive(candidates: _Candidates, is_end: Tensor, n_beams: int) -> _Candidates:
    """Takes the best n candidates that have not ended."""
    log_prob = torch.where(is_end, -torch.inf, candidates.log_prob)
    best = _largest(log_prob, n_beams)
    return _Candidates(_pick(candidates.tokens, best), log_prob.gather(1, best), candidates.parent.gather(1, best))


def _pick(tokens: Tensor, place: Tensor) -> Tensor:
    return tokens.gather(1, place.unsqueeze(-1).expand(-1, -1, tokens.shape[-1]))


def _largest(scores: Tensor, count: int) -> Tensor:
    """Finds the places of the largest of each row, in order; among equals the first ones (`topk` promises no order)."""
    smallest = scores.topk(count, -1).values[:, -1:]
    above, equal = scores > smallest, scores == smallest
    wanted = above | (equal & (equal.cumsum(-1) <= count - above.sum(-1, keepdim=True)))
    place = wanted.nonzero()[:, 1].view(len(scores), count)
    order = scores.gather(1, place).sort(dim=-1, descending=True, stable=True).indices
    return place.gather(1, order)
