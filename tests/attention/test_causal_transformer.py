"""A stack without a memory, used causally: PyTorch's numbers, steps equal to the whole, and a language model of it."""

import pytest
import torch
from torch import nn

import omegamax as om

SMALL = {"n_heads": 2, "n_layers": 2, "hidden_size": 16}
NORMALIZERS = [om.Shannon(), om.SquaredNorm(), om.Entmax(alpha=om.Above(1.0, start=1.5, shape=(2, 1, 1)))]


def model(normalizer=None, **options):
    given = {} if normalizer is None else {"normalizer": normalizer}
    made = om.CausalTransformer(11, 8, **{**SMALL, **options}, **given).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return made


def test_it_is_torch_s_encoder_with_a_mask_between_one_matrix():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    theirs = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    ours = om.CausalTransformer(11, 8, **SMALL, dropout=0.0, positions=None)
    ours.stack.load_state_dict(theirs.state_dict())
    tokens = torch.randint(11, (3, 5))
    vectors = ours.embedding.weight[tokens] * 8**0.5
    expected = theirs(vectors, mask=torch.ones(5, 5, dtype=torch.bool).triu(1)) @ ours.embedding.weight.T
    torch.testing.assert_close(ours(tokens).logits, expected, atol=1e-5, rtol=1e-5)


def test_no_parameter_waits_for_a_memory():
    """Every one gets a gradient, so that DistributedDataParallel need not look for idle ones."""
    language = model(om.SquaredNorm())
    language(torch.randint(11, (3, 5))).logits.square().sum().backward()
    assert all(parameter.grad is not None for parameter in language.parameters())
    assert not any("multihead_attn" in name or "norm3" in name for name, _ in language.named_parameters())


@pytest.mark.parametrize("placement", [om.attention.PostNorm(), om.attention.PreNorm()], ids=str)
@pytest.mark.parametrize("normalizer", NORMALIZERS, ids=lambda n: type(n).__name__)
def test_steps_equal_the_whole(normalizer, placement):
    language = model(normalizer, placement=placement, positions=om.attention.LearnedPositions(6, 8))
    tokens = torch.randint(11, (3, 6))
    whole = language(tokens, need_weights=True)
    cache = None
    for i in range(6):
        logits, cache, own, cross = language.step(tokens[:, i : i + 1], cache, need_weights=True)
        torch.testing.assert_close(logits, whole.logits[:, i : i + 1], atol=1e-6, rtol=1e-5)
        for layer in range(2):
            expected = whole.weights[layer][:, :, i : i + 1, : i + 1]
            torch.testing.assert_close(own[layer], expected, atol=1e-6, rtol=1e-5)
        assert cross is None and cache.n_positions == i + 1
    stepped = language.step(tokens[:, :4])  # a prompt at once
    assert stepped.self_weights is None
    stepped = language.step(tokens[:, 4:], stepped.cache)
    torch.testing.assert_close(stepped.output, whole.logits[:, 4:], atol=1e-6, rtol=1e-5)


def test_a_beam_takes_its_items_along():
    language = model(om.SquaredNorm())
    tokens, index, token = torch.randint(11, (3, 4)), torch.tensor([2, 2, 0, 1]), torch.randint(11, (4, 1))
    cache = language.step(tokens).cache.select(index)
    found = language.step(token, cache).output
    torch.testing.assert_close(
        found, language(torch.cat([tokens[index], token], 1)).logits[:, -1:], atol=1e-6, rtol=1e-5
    )
    with pytest.raises(ValueError, match=r"TransformerEncoder: x must have the batch axes of the cache, \(4,\), got"):
        language.step(token[:2], cache)


def test_neither_the_future_nor_padding_is_read():
    language = model(om.Fused(0.1))
    tokens = torch.randint(11, (2, 6))
    other = tokens.clone()
    other[:, 3:] = (other[:, 3:] + 1) % 11
    torch.testing.assert_close(language(other).logits[:, :3], language(tokens).logits[:, :3])
    assert not torch.equal(language(other).logits[:, 3:], language(tokens).logits[:, 3:])
    cut = language(tokens, lengths=torch.tensor([6, 2]), need_weights=True)
    torch.testing.assert_close(cut.logits[1, :2], language(tokens[1, :2]).logits, atol=1e-6, rtol=1e-5)
    assert not cut.weights[0][1, ..., 2:].any()


@pytest.mark.parametrize("shape", [(4,), (2, 3, 4), (0, 4), (2, 0), (1, 1)], ids=str)
def test_shapes(shape):
    language, tokens = model(), torch.zeros(shape, dtype=torch.int64)
    assert language(tokens).logits.shape == (*shape, 11)
    assert language.step(tokens).output.shape == (*shape, 11)


def test_steps_need_a_normalizer_of_rows():
    language = model(om.SparseMAP(om.Matching()))
    with pytest.raises(ValueError, match=r"causal attention needs a normalizer of rows, got SparseMAP"):
        language.step(torch.zeros(1, 2, dtype=torch.int64))


@pytest.mark.slow
def test_it_learns_to_count():
    torch.manual_seed(0)
    language = om.CausalTransformer(
        6, 16, n_heads=2, n_layers=1, hidden_size=32, dropout=0.0, normalizer=om.Tsallis(1.5)
    )
    optimizer = torch.optim.Adam(language.parameters(), lr=0.01)
    tokens = (torch.arange(6).unsqueeze(-1) + torch.arange(8)) % 6
    for _ in range(40):
        loss = nn.functional.cross_entropy(language(tokens[:, :-1]).logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    said, cache = tokens[:1, :1], None
    with torch.no_grad():
        for _ in range(7):
            logits, cache, *_ = language.eval().step(said[:, -1:], cache)
            said = torch.cat([said, logits.argmax(-1)], 1)
    assert torch.equal(said, tokens[:1])
