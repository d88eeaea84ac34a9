"""Tagging schemes against a checker that reads a sequence from left to right."""

import itertools

import pytest
import torch

import omegamax as om

TAGS = {
    "BIO": ["O", "B-x", "I-x", "B-y", "I-y"],
    "BIOES": ["O", "B-x", "I-x", "E-x", "S-x", "B-y", "E-y"],
}


def is_valid(sequence, scheme):
    """Reads segments: `inside` is the type of the segment that is open."""
    inside = None
    for tag in sequence:
        prefix, kind = tag[0], tag[2:]
        if prefix in "IE":
            if inside != kind:
                return False
        elif inside is not None and scheme == "BIOES":
            return False  # an open segment must be ended
        inside = kind if prefix in "BI" else None
    return inside is None or scheme == "BIO"


@pytest.mark.parametrize("name, scheme", [("BIO", "BIO"), ("IOB2", "BIO"), ("BIOES", "BIOES"), ("IOBES", "BIOES")])
def test_against_all_sequences(name, scheme):
    tags = TAGS[scheme]
    allowed = om.allowed_transitions(tags, name)
    potentials = om.Chain.from_emissions(
        torch.zeros(4, len(tags)), *(torch.zeros(m.shape).masked_fill(~m, -torch.inf) for m in allowed)
    )
    expected = {s for s in itertools.product(tags, repeat=4) if is_valid(s, scheme)}
    found = om.Chain.tags(om.Chain().enumerate(potentials))
    assert {tuple(tags[i] for i in row) for row in found.tolist()} == expected
    assert om.Chain().count(potentials) == len(expected)


@pytest.mark.parametrize("tag", ["E-x", "x", "B", "B-", "OB-x"])
def test_unknown_tags_raise(tag):
    with pytest.raises(ValueError, match=r"allowed_transitions: a tag of BIO is"):
        om.allowed_transitions(["O", tag], "BIO")


def test_unknown_scheme_raises():
    with pytest.raises(ValueError, match="scheme must be one of"):
        om.allowed_transitions(["O"], "BILOU")
