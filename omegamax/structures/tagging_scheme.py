"""Which tags may follow each other in a tagging scheme, so that every chain is a list of whole segments.

    BIO (IOB2)      B-x begins a segment, I-x continues one of the same type, O is outside
    BIOES (IOBES)   besides, E-x ends a segment of several tags and S-x is one of a single tag

Masks for `Chain.from_emissions`: True means allowed. Ramshaw & Marcus, 1995; Ratinov & Roth, CoNLL 2009.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

_SCHEMES = {"BIO": "BIO", "IOB2": "BIO", "BIOES": "BIOES", "IOBES": "BIOES"}
_ENDS_OPEN = {"BIO": "", "BIOES": "BI"}  # prefixes that must be continued
_MAY_CONTINUE = {"BIO": "BI", "BIOES": "BI"}  # prefixes that may be continued
_CONTINUES = {"BIO": "I", "BIOES": "IE"}  # prefixes that need something to continue


class AllowedTransitions(NamedTuple):
    """Says which tags may follow, begin and end; True means allowed."""

    transitions: Tensor  # (C, C): [i, j] = tag j after tag i
    start: Tensor  # (C,)
    end: Tensor  # (C,)


def allowed_transitions(tags: Sequence[str], scheme: str = "BIOES") -> AllowedTransitions:
    """Returns the rules of a scheme over tags such as "O", "B-PER", "I-PER".

    Arguments:
        tags: the name of every tag, in the order of their numbers
        scheme: "BIO" (or "IOB2") or "BIOES" (or "IOBES")

    Returns boolean masks of transitions (C, C), start (C,) and end (C,), True where allowed.

    >>> allowed = allowed_transitions(["O", "B-PER", "I-PER"], "BIO")
    >>> allowed.start
    tensor([ True,  True, False])
    >>> transitions = torch.zeros(3, 3).masked_fill(~allowed.transitions, -torch.inf)
    """
    if scheme not in _SCHEMES:
        raise ValueError(
            f"allowed_transitions: scheme must be one of {sorted(_SCHEMES)}, got {scheme!r}; rename the tags to one"
        )
    scheme = _SCHEMES[scheme]
    pairs = [_split(tag, scheme) for tag in tags]
    outside = ("O", "")  # before the first tag and after the last
    rule = [[_may_follow(before, after, scheme) for after in [*pairs, outside]] for before in [*pairs, outside]]
    allowed = torch.tensor(rule, dtype=torch.bool)
    return AllowedTransitions(allowed[:-1, :-1].clone(), allowed[-1, :-1].clone(), allowed[:-1, -1].clone())


def _split(tag: str, scheme: str) -> tuple[str, str]:
    prefix, _, kind = tag.partition("-")
    if tag != "O" and (len(prefix) != 1 or prefix == "O" or prefix not in scheme or not kind):
        raise ValueError(
            f"allowed_transitions: a tag of {scheme} is 'O' or one of {', '.join(p for p in scheme if p != 'O')}, a "
            f"hyphen and a type, got {tag!r}; rename it, or name another scheme"
        )
    return prefix, kind


def _may_follow(before: tuple[str, str], after: tuple[str, str], scheme: str) -> bool:
    if after[0] in _CONTINUES[scheme]:
        return before[0] in _MAY_CONTINUE[scheme] and before[1] == after[1]
    return before[0] not in _ENDS_OPEN[scheme]
