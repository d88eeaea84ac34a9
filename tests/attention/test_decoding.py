"""Decoding with a cache of keys gives what the whole sequence at once gives, token by token."""

import pytest
import torch
from sparse_cases import needs_native

import omegamax as om
from omegamax.attention.transformer import past

NORMALIZERS = {
    "sparsemax": om.SquaredNorm(),
    "entmax15": om.Tsallis(1.5),
    "per head": om.Entmax(alpha=om.Above(1.0, start=1.7, shape=(2, 1, 1))),
    "fusedmax": om.Fused(0.05),
    "top-3": om.attention.TopK(3),
}


@pytest.fixture(autouse=True)
def any_past(monkeypatch):
    monkeypatch.setattr(past, "FEWEST_KEYS", 1)


def model_with(normalizer, dtype=torch.float64):
    torch.manual_seed(0)
    model = om.CausalTransformer(30, 16, n_heads=2, n_layers=2, hidden_size=24, normalizer=normalizer)
    return model.to(dtype).eval()


def decode(model, prompt, n_steps, **options):
    """Greedy decoding; returns the tokens, the last step and the logits of all steps."""
    stepped = model.step(prompt, **options)
    tokens, logits = prompt, [stepped.output[:, -1:]]
    for _ in range(n_steps):
        tokens = torch.cat([tokens, logits[-1].argmax(-1)], 1)
        stepped = model.step(tokens[:, -1:], stepped.cache, **options)
        logits.append(stepped.output)
    return tokens, stepped, torch.cat(logits, 1)


@needs_native
@pytest.mark.parametrize("name", NORMALIZERS)
@torch.no_grad()
@pytest.mark.thinned(3)
def test_greedy_decoding_token_by_token(name):
    model, prompt = model_with(NORMALIZERS[name]), torch.randint(30, (3, 5))
    tokens, stepped, logits = decode(model, prompt, 70)
    assert all(isinstance(layer.past, om.attention.KeyCache) for layer in stepped.cache.layers)
    expected = prompt
    for n in range(5, 75):  # the sequence so far, from the start, for every token
        found = model(expected).logits[:, -1:]
        torch.testing.assert_close(logits[:, n - 5 : n - 4], found)
        expected = torch.cat([expected, found.argmax(-1)], 1)
    assert torch.equal(tokens, expected)


@needs_native
@torch.no_grad()
def test_chunks_beams_and_branches():
    model, tokens = model_with(om.SquaredNorm()), torch.randint(30, (2, 40))
    first = model.step(tokens[:, :10])
    second = model.step(tokens[:, 10:30], first.cache)
    third = model.step(tokens[:, 30:], second.cache)
    torch.testing.assert_close(third.output, model(tokens).logits[:, 30:])
    index = torch.tensor([1, 1, 0])
    chosen, other = tokens[index], torch.randint(30, (3, 6))
    beams = model.step(other, second.cache.select(index))
    torch.testing.assert_close(beams.output, model(torch.cat([chosen[:, :30], other], 1)).logits[:, 30:])
    again = model.step(tokens[:, 30:], second.cache)  # caches are never changed
    torch.testing.assert_close(again.output, third.output, rtol=0, atol=1e-12)
    dense = model.step(tokens[:, 30:], second.cache, need_weights=True)
    torch.testing.assert_close(dense.output, third.output)
    assert dense.self_weights[0].shape == (2, 2, 10, 40)


@needs_native
def test_a_gradient_takes_dense_scores():
    model, tokens = model_with(om.SquaredNorm()), torch.randint(30, (2, 12))
    with torch.no_grad():
        early = model.step(tokens[:, :6])
        early = model.step(tokens[:, 6:8], early.cache)
    stepped = model.step(tokens[:, 8:], early.cache)
    assert all(layer.past is None for layer in stepped.cache.layers)
    torch.testing.assert_close(stepped.output, model(tokens).logits[:, 8:])
    stepped.output.sum().backward()
    assert any(parameter.grad.any() for parameter in model.parameters() if parameter.grad is not None)


@torch.no_grad()
def test_the_translator_steps_too():
    torch.manual_seed(0)
    model = om.Transformer(30, 16, n_heads=2, n_layers=1, hidden_size=24, normalizer=om.SquaredNorm()).double().eval()
    source, target = torch.randint(30, (2, 6)), torch.randint(30, (2, 9))
    cache = model.start(source, source_lengths=torch.tensor([6, 2]))
    for n in range(9):
        stepped = model.step(target[:, n : n + 1], cache)
        cache = stepped.cache
    whole = model(source, target, source_lengths=torch.tensor([6, 2]))
    torch.testing.assert_close(stepped.output, whole.logits[:, -1:])


@needs_native
@torch.no_grad()
def test_softmax_keeps_its_keys_as_they_were():
    model, prompt = model_with(om.Shannon()), torch.randint(30, (1, 4))
    _, stepped, _ = decode(model, prompt, 2)
    assert all(layer.past is None and layer.key.shape == (1, 6, 16) for layer in stepped.cache.layers)
