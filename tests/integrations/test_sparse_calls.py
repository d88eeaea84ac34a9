"""Hugging Face models without `output_attentions` take sparse attention, and compute what they compute with weights."""

import pytest

pytest.importorskip("transformers")

import torch
from small_models import MODELS, built

from omegamax import routing
from omegamax.attention import sparse_layers
from omegamax.attention.masking import causal_mask
from omegamax.integrations.attention_call import read_mask
from omegamax.integrations.transformers import register
from omegamax.kernels import sparse_attention as kernel

LEAST = torch.finfo(torch.float32).min


@pytest.fixture
def calls(monkeypatch):
    """Notes what each native forward pass was given; short sequences take the sparse way too."""
    if routing.native is None:
        pytest.skip("the compiled kernels are not there")
    register()
    seen = []
    forward = kernel.forward
    monkeypatch.setattr(kernel, "forward", lambda *a, **o: (seen.append(a[4]), forward(*a, **o))[1])
    monkeypatch.setattr(sparse_layers, "_FEWEST_KEYS", 1)
    monkeypatch.setattr(sparse_layers, "_FEWEST_QUERIES", 1)
    return seen


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("kind", MODELS)
def test_logits_and_gradients_are_those_of_dense_scores(kind, side, calls):
    model = built(kind, "entmax15")
    words = {
        "input_ids": torch.arange(40).reshape(2, 20) % 38 + 2,
        "attention_mask": torch.ones(2, 20, dtype=torch.long),
    }
    words["attention_mask"][1, slice(14, None) if side == "right" else slice(6)] = 0
    if model.config.is_encoder_decoder:
        words["decoder_input_ids"] = words["input_ids"].flip(1)
    both = []
    for needed in (True, False):
        model.zero_grad()
        logits = model(**words, output_attentions=needed).logits
        assert bool(calls) is not needed
        counted = logits if model.config.is_encoder_decoder else logits[words["attention_mask"].bool()]
        counted.square().mean().backward()
        both.append([counted, *(p.grad.clone() for p in model.parameters() if p.grad is not None)])
    torch.testing.assert_close(both[1], both[0], atol=1e-4, rtol=1e-3)
    assert all(rows.mask is None for rows in calls) or side == "left"  # padding on the right travels as lengths
    assert any(rows.causal for rows in calls) == (kind != "bert")


def test_reading_masks():
    causal, keys = causal_mask(4, 6), torch.tensor([1, 1, 0, 1, 1, 1], dtype=torch.bool)

    def added(allowed, other=0.0):
        return torch.where(allowed, other, LEAST)[None, None]

    assert read_mask(None, 6) == (None, False, None)
    assert read_mask(added(causal), 6) == (None, True, None)
    assert read_mask(causal[None, None], 6) == (None, True, None)
    allowed, is_causal, bias = read_mask(added(causal & keys), 6)
    assert allowed.flatten().equal(keys) and is_causal and bias is None
    allowed, is_causal, bias = read_mask(added(keys.expand(4, 6)), 6)
    assert allowed.flatten().equal(keys) and not is_causal and bias is None
    other = causal.clone()
    other[3, 1] = False  # one pair more
    allowed, is_causal, bias = read_mask(added(other), 6)
    assert allowed.equal(other[None, None]) and not is_causal and bias is None
    allowed, is_causal, bias = read_mask(added(causal, 0.5), 6)
    assert allowed is None and is_causal and bias.equal(torch.where(causal, 0.5, 0.0)[None, None])
    longer = torch.cat([causal, torch.zeros(4, 3, dtype=torch.bool)], 1)  # a static cache
    assert read_mask(added(longer), 6) == (None, True, None)


def test_a_mask_that_changed_is_read_again():
    mask = torch.zeros(1, 1, 3, 3)
    assert read_mask(mask, 3) == (None, False, None)
    mask[..., 2] = LEAST
    assert read_mask(mask, 3).allowed.flatten().tolist() == [True, True, False]
    assert read_mask(mask, 2) == (None, False, None)
