"""`generate` of Hugging Face models with our cache gives the tokens of the library's own."""

import pytest

pytest.importorskip("transformers")

import torch
import transformers
from small_models import MODELS, built

from omegamax import routing
from omegamax.attention.transformer import past
from omegamax.integrations.transformers import generation_cache, register
from omegamax.kernels import key_cache as kernel

KINDS = [kind for kind in MODELS if kind not in ("bert", "t5")]


@pytest.fixture
def steps(monkeypatch):
    """Counts the calls that read a cache in 8 bits."""
    if routing.native is None:
        pytest.skip("the compiled kernels are not there")
    register()
    seen = []
    decode = kernel.decode
    monkeypatch.setattr(kernel, "decode", lambda *a, **o: (seen.append(1), decode(*a, **o))[1])
    monkeypatch.setattr(past, "FEWEST_KEYS", 1)
    return seen


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_tokens(kind, beams, steps):
    model = built(kind, "sparsemax").eval()
    words = {
        "input_ids": torch.arange(20).reshape(2, 10) % 17 + 3,
        "attention_mask": torch.ones(2, 10, dtype=torch.long),
    }
    words["attention_mask"][1, :4] = 0  # padding on the left
    options = {"max_new_tokens": 12, "do_sample": False, "num_beams": beams, "pad_token_id": 0, "eos_token_id": None}
    expected = model.generate(**words, **options)
    assert not steps
    cache = generation_cache()
    if model.config.is_encoder_decoder:
        cache = transformers.EncoderDecoderCache(cache, generation_cache())
    found = model.generate(**words, **options, past_key_values=cache)
    assert torch.equal(found, expected)
    assert steps


def test_cropping_and_choosing(steps):
    model = built(KINDS[0], "entmax15").eval()
    tokens = torch.arange(24).reshape(2, 12) % 17 + 3
    cache = generation_cache()
    with torch.no_grad():
        model(tokens, past_key_values=cache)
        cache.crop(-4)
        assert cache.get_seq_length() == 8
        cache.batch_select_indices(torch.tensor([1]))
        cache.batch_repeat_interleave(2)
        more = torch.tensor([[5, 6], [7, 8]])
        found = model(more, past_key_values=cache).logits
        whole = model(torch.cat([tokens[1:, :8].expand(2, -1), more], 1)).logits[:, 8:]
    torch.testing.assert_close(found, whole, atol=1e-5, rtol=1e-4)
