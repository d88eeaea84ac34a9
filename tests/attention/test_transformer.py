"""The Transformer's stacks: PyTorch's numbers under Shannon, steps equal to the whole, masks, any normalizer."""

import pytest
import torch
from torch import nn

import omegamax as om

SMALL = {"n_heads": 2, "n_layers": 2, "hidden_size": 16}
PLACEMENTS = [
    om.attention.PostNorm(),
    om.attention.PreNorm(),
    om.attention.PostNorm(final=True),
    om.attention.PreNorm(final=False),
]
NORMALIZERS = [
    om.Shannon(),
    om.SquaredNorm(),
    om.Fused(0.1),
    om.Entmax(alpha=om.Above(1.0, start=1.5, shape=(2, 1, 1))),
]


def torchs(kind, placement):
    """PyTorch's stack of the same sizes, and the function it has inside."""
    layer = getattr(nn, f"Transformer{kind}Layer")(
        8, 2, 16, dropout=0.0, batch_first=True, norm_first=isinstance(placement, om.attention.PreNorm)
    )
    more = {"enable_nested_tensor": False} if kind == "Encoder" else {}
    return getattr(nn, f"Transformer{kind}")(layer, 2, nn.LayerNorm(8) if placement.final else None, **more)


def close(found, expected):
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def shuffled(model):
    """Norms and biases away from ones and zeros, so that every parameter matters."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize("placement", PLACEMENTS, ids=str)
class TestShannonEqualsTorch:
    def test_encoder(self, placement):
        theirs = shuffled(torchs("Encoder", placement))
        ours = om.TransformerEncoder(8, **SMALL, dropout=0.0, placement=placement)
        ours.load_state_dict(theirs.state_dict())
        x, lengths = torch.randn(3, 5, 8), torch.tensor([5, 2, 4])
        padding = torch.arange(5) >= lengths[:, None]
        ahead = torch.ones(5, 5, dtype=torch.bool).triu(1)
        close(ours(x).output, theirs(x))
        close(ours(x, causal=True).output, theirs(x, mask=ahead))
        close(ours(x, lengths=lengths).output, theirs(x, src_key_padding_mask=padding))
        close(ours(x[0]).output, theirs(x[0]))

    def test_decoder(self, placement):
        theirs = shuffled(torchs("Decoder", placement))
        ours = om.TransformerDecoder(8, **SMALL, dropout=0.0, placement=placement)
        ours.load_state_dict(theirs.state_dict())
        x, memory = torch.randn(3, 4, 8), torch.randn(3, 5, 8)
        lengths, memory_lengths = torch.tensor([4, 2, 3]), torch.tensor([5, 2, 4])
        ahead = torch.ones(4, 4, dtype=torch.bool).triu(1)
        expected = theirs(
            x,
            memory,
            tgt_mask=ahead,
            tgt_key_padding_mask=torch.arange(4) >= lengths[:, None],
            memory_key_padding_mask=torch.arange(5) >= memory_lengths[:, None],
        )
        close(ours(x, memory, lengths=lengths, memory_lengths=memory_lengths).output, expected)
        close(ours(x, memory, causal=False).output, theirs(x, memory))
        mask = torch.rand(4, 5) > 0.3
        mask[:, 0] = True
        close(ours(x, memory, memory_mask=mask).output, theirs(x, memory, tgt_mask=ahead, memory_mask=~mask))


def test_the_whole_of_torch_s_transformer():
    theirs = shuffled(nn.Transformer(8, 2, 2, 2, 16, dropout=0.0, batch_first=True))
    encoder = om.TransformerEncoder(8, **SMALL, dropout=0.0, placement=om.attention.PostNorm(final=True))
    decoder = om.TransformerDecoder(8, **SMALL, dropout=0.0, placement=om.attention.PostNorm(final=True))
    encoder.load_state_dict(theirs.encoder.state_dict())
    decoder.load_state_dict(theirs.decoder.state_dict())
    source, target = torch.randn(2, 5, 8), torch.randn(2, 4, 8)
    found = decoder(target, encoder(source).output).output
    close(found, theirs(source, target, tgt_mask=torch.ones(4, 4, dtype=torch.bool).triu(1)))


def model(normalizer=None, **options):
    options = {**SMALL, **options}
    given = {} if normalizer is None else {"normalizer": normalizer}
    return shuffled(om.Transformer(11, 8, **options, **given)).eval()


@pytest.mark.parametrize("placement", PLACEMENTS[:2], ids=str)
@pytest.mark.parametrize("normalizer", NORMALIZERS, ids=lambda n: type(n).__name__)
def test_steps_equal_the_whole(normalizer, placement):
    transformer = model(normalizer, placement=placement, positions=om.attention.LearnedPositions(6, 8))
    source, target = torch.randint(11, (3, 5)), torch.randint(11, (3, 6))
    lengths = torch.tensor([5, 2, 4])
    whole = transformer(source, target, source_lengths=lengths, need_weights=True)
    cache = transformer.start(source, source_lengths=lengths)
    for i in range(6):
        logits, cache, own, cross = transformer.step(target[:, i : i + 1], cache, need_weights=True)
        torch.testing.assert_close(logits, whole.logits[:, i : i + 1], atol=1e-6, rtol=1e-5)
        for layer in range(2):
            expected = whole.self_weights[layer][:, :, i : i + 1, : i + 1]
            torch.testing.assert_close(own[layer], expected, atol=1e-6, rtol=1e-5)
            torch.testing.assert_close(cross[layer], whole.cross_weights[layer][:, :, i : i + 1], atol=1e-6, rtol=1e-5)
    assert cache.n_positions == 6
    cache = transformer.start(source, source_lengths=lengths)
    for part in target.split([3, 1, 2], 1):  # a prompt at once, and pieces
        logits, cache, *_ = transformer.step(part, cache)
    torch.testing.assert_close(logits, whole.logits[:, 4:], atol=1e-6, rtol=1e-5)


def test_a_beam_takes_its_items_along():
    transformer = model(om.SquaredNorm())
    source, target, lengths = torch.randint(11, (3, 5)), torch.randint(11, (3, 2)), torch.tensor([5, 2, 4])
    _, cache, *_ = transformer.step(target, transformer.start(source, source_lengths=lengths))
    index = torch.tensor([2, 2, 0, 1])
    token = torch.randint(11, (4, 1))
    found = transformer.step(token, cache.select(index)).output
    whole = transformer(source[index], torch.cat([target[index], token], 1), source_lengths=lengths[index])
    torch.testing.assert_close(found, whole.logits[:, -1:], atol=1e-6, rtol=1e-5)


def test_separate_normalizers():
    transformer = model(om.SquaredNorm(), cross_normalizer=om.Shannon(), n_layers=1)
    translated = transformer(torch.randint(11, (4, 9)), torch.randint(11, (4, 9)), need_weights=True)
    assert (translated.cross_weights[0] > 0).all()
    assert (translated.encoder_weights[0] == 0).any()
    past = translated.self_weights[0][..., torch.ones(9, 9, dtype=torch.bool).tril()]
    assert (past == 0).any()
    for weights in translated[1:]:
        torch.testing.assert_close(weights[0].sum(-1), torch.ones(4, 2, 9))


def test_every_layer_learns_its_own_order():
    normalizer = om.Entmax(alpha=om.Above(1.0, start=1.5, shape=(2, 1, 1)))
    transformer = model(normalizer, positions=om.attention.SinusoidalPositions()).train()
    transformer(torch.randint(11, (2, 5)), torch.randint(11, (2, 4))).logits.square().sum().backward()
    orders = [p for name, p in transformer.named_parameters() if "alpha" in name]
    assert len(orders) == 2 + 2 * 2
    assert all(p.grad.abs().sum() > 0 for p in orders) and normalizer.alpha.raw.grad is None


def test_gradients():
    encoder = om.TransformerEncoder(4, n_heads=2, n_layers=1, hidden_size=3, dropout=0.0, normalizer=om.SquaredNorm())
    decoder = om.TransformerDecoder(
        4, n_heads=2, n_layers=1, hidden_size=3, dropout=0.0, placement=om.attention.PreNorm(), activation=torch.tanh
    )
    encoder, decoder = shuffled(encoder).double(), shuffled(decoder).double()
    x, memory = (torch.randn(2, n, 4, dtype=torch.float64, requires_grad=True) for n in (3, 2))
    lengths = torch.tensor([3, 1])
    assert torch.autograd.gradcheck(lambda x: encoder(x, lengths=lengths).output, (x,))
    assert torch.autograd.gradcheck(lambda x, m: decoder(x, m, lengths=lengths).output, (x, memory))


class TestMasks:
    def test_padding_is_never_read(self):
        transformer = model(om.Tsallis(1.5))
        source, target = torch.randint(11, (2, 5)), torch.randint(11, (2, 4))
        lengths = torch.tensor([5, 3])
        found = transformer(source, target, source_lengths=lengths, target_lengths=torch.tensor([4, 2]))
        alone = transformer(source[1:, :3], target[1:, :2])
        close(found.logits[1:, :2], alone.logits)

    def test_the_future_is_never_read(self):
        transformer = model(om.Fused(0.1))
        source, target = torch.randint(11, (2, 5)), torch.randint(11, (2, 4))
        other = target.clone()
        other[:, 2:] = (other[:, 2:] + 1) % 11
        close(transformer(source, other).logits[:, :2], transformer(source, target).logits[:, :2])

    def test_a_mask_per_item(self):
        encoder = om.TransformerEncoder(8, **SMALL).eval()
        x = torch.randn(2, 5, 8)
        mask = torch.rand(2, 5, 5) > 0.4
        weights = encoder(x, mask=mask, need_weights=True).weights
        assert all((w[~mask.unsqueeze(1).expand_as(w)] == 0).all() for w in weights)
        close(encoder(x, mask=mask).output[1], encoder(x[1], mask=mask[1]).output)

    def test_nothing_to_attend_to(self):
        transformer = model(om.SquaredNorm())
        source, target = torch.randint(11, (2, 5)), torch.randint(11, (2, 4))
        lengths = torch.tensor([5, 0])
        translated = transformer(source, target, source_lengths=lengths, need_weights=True)
        assert translated.logits.isfinite().all() and not translated.cross_weights[0][1].any()
        translated.logits.sum().backward()
        assert all(p.grad is None or p.grad.isfinite().all() for p in transformer.parameters())


class TestShapes:
    def test_batch_axes(self):
        transformer = model(om.SquaredNorm())
        source, target = torch.randint(11, (2, 3, 5)), torch.randint(11, (2, 3, 4))
        lengths = torch.randint(1, 6, (2, 3))
        found = transformer(source, target, source_lengths=lengths, need_weights=True)
        assert found.cross_weights[0].shape == (2, 3, 2, 4, 5)
        close(found.logits[1, 2], transformer(source[1, 2, : lengths[1, 2]], target[1, 2]).logits)
        cache = transformer.start(source, source_lengths=lengths)
        close(transformer.step(target, cache).output, found.logits)

    @pytest.mark.parametrize("batch, n, m", [(0, 4, 5), (2, 0, 5), (2, 4, 0), (1, 1, 1)])
    def test_sizes_of_nothing_and_one(self, batch, n, m):
        transformer = model()
        source, target = torch.zeros(batch, m, dtype=torch.int64), torch.zeros(batch, n, dtype=torch.int64)
        assert transformer(source, target).logits.shape == (batch, n, 11)
        assert transformer.step(target, transformer.start(source)).output.shape == (batch, n, 11)

    def test_two_vocabularies(self):
        transformer = om.Transformer(11, 8, source_vocabulary_size=30, **SMALL)
        assert transformer(torch.full((1, 3), 29), torch.full((1, 2), 10)).logits.shape == (1, 2, 11)
        assert sum("embedding" in name for name, _ in transformer.named_parameters()) == 2
        assert sum("embedding" in name for name, _ in model().named_parameters()) == 1

    def test_key_size(self):
        """Heads whose queries and keys are smaller than their values: the paper's rows (B)."""
        attention = om.MultiheadAttention(8, 2, batch_first=True, key_size=3)
        x = torch.randn(2, 5, 8)
        q, k, v = x @ attention.q_proj_weight.T, x @ attention.k_proj_weight.T, x @ attention.v_proj_weight.T
        head = [
            torch.softmax(q[..., 3 * h : 3 * h + 3] @ k[..., 3 * h : 3 * h + 3].mT / 3**0.5, -1)
            @ v[..., 4 * h : 4 * h + 4]
            for h in range(2)
        ]
        close(attention(x, x, x)[0], attention.out_proj(torch.cat(head, -1)))
        with pytest.raises(ValueError, match="key_size must be positive"):
            om.MultiheadAttention(8, 2, key_size=0)

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_autocast(self, dtype):
        transformer = model(om.SquaredNorm())
        source, target = torch.randint(11, (2, 5)), torch.randint(11, (2, 4))
        expected = transformer(source, target).logits
        with torch.autocast("cpu", dtype):
            found = transformer(source, target).logits
            stepped = transformer.step(target, transformer.start(source)).output
        torch.testing.assert_close(found.float(), expected, atol=0.1, rtol=0.1)
        torch.testing.assert_close(stepped, found, atol=0.05, rtol=0.05)


class TestErrors:
    def test_causal_needs_rows(self):
        matching = om.SparseMAP(om.Matching())
        for normalizers in ({"normalizer": matching}, {"cross_normalizer": matching}):
            decoder = om.TransformerDecoder(8, **SMALL, **normalizers)
            with pytest.raises(ValueError, match=r"TransformerDecoder: causal .* got SparseMAP"):
                decoder(torch.zeros(1, 3, 8), torch.zeros(1, 3, 8))
            with pytest.raises(ValueError, match="normalizer of rows"):
                decoder.start(torch.zeros(1, 3, 8))
            assert decoder(torch.zeros(1, 3, 8), torch.zeros(1, 3, 8), causal=False).output.shape == (1, 3, 8)
        with pytest.raises(ValueError, match="got TreeNormalizer"):
            om.TransformerEncoder(8, **SMALL, normalizer=om.attention.TreeNormalizer())(
                torch.zeros(1, 3, 8), causal=True
            )

    def test_shapes_must_agree(self):
        decoder = om.TransformerDecoder(8, **SMALL)
        with pytest.raises(ValueError, match=r"\(2, 3, 8\) and \(1, 3, 8\)"):
            decoder(torch.zeros(2, 3, 8), torch.zeros(1, 3, 8))
        with pytest.raises(ValueError, match=r"memory must be \(\.\.\., N, 8\), got \(2, 3, 7\)"):
            decoder.start(torch.zeros(2, 3, 7))
        with pytest.raises(ValueError, match=r"batch axes of the cache, \(2,\), got \(3,\)"):
            decoder.step(torch.zeros(3, 1, 8), decoder.start(torch.zeros(2, 3, 8)))
        with pytest.raises(ValueError, match="size must be a multiple of n_heads, got 8 and 3"):
            om.TransformerEncoder(8, n_heads=3)
        with pytest.raises(ValueError, match="TransformerEncoder: lengths must lie between 0 and 3, got 2 to 4"):
            om.TransformerEncoder(8, **SMALL)(torch.zeros(2, 3, 8), lengths=torch.tensor([2, 4]))


def test_dropout_only_in_training():
    transformer = model(dropout=0.5)
    source, target = torch.randint(11, (2, 5)), torch.randint(11, (2, 4))
    assert torch.equal(transformer(source, target).logits, transformer(source, target).logits)
    transformer.train()
    assert not torch.equal(transformer(source, target).logits, transformer(source, target).logits)
    assert transformer(source, target).encoder_weights is None


def test_a_structured_encoder():
    """Every head reads the head of its word in a tree."""
    encoder = om.TransformerEncoder(8, **SMALL, normalizer=om.attention.TreeNormalizer(), dropout=0.0)
    output, weights = encoder(torch.randn(2, 5, 8), need_weights=True)
    output.sum().backward()
    torch.testing.assert_close(weights[0].sum((-1, -2)), torch.full((2, 2), 4.0))
    assert all(layer.self_attn.normalizer.root.grad is not None for layer in encoder.layers)
