"""Attention against PyTorch's, against its definition, and at the edges."""

import math

import pytest
import torch
from torch import nn

import omegamax as om


def drawn(*batch, queries=3, keys=5, size=4, features=2):
    return (
        torch.randn(*batch, n, d, dtype=torch.float64) for n, d in ((queries, size), (keys, size), (keys, features))
    )


NORMALIZERS = [
    om.Shannon(),
    om.SquaredNorm(),
    om.Tsallis(1.5),
    om.Fused(0.1),
    om.Oscar(0.05),
    om.Scaled(om.SquaredNorm(), 0.5),
    om.Entmax(alpha=om.Above(1.0, start=1.5)).double(),
]


@pytest.mark.parametrize("causal", [False, True])
def test_shannon_equals_torch(causal):
    query, key, value = drawn(2, 3, queries=5)
    expected = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
    torch.testing.assert_close(om.Attention()(query, key, value, causal=causal).output, expected)
    mask = torch.rand(2, 1, 5, 5) > 0.3
    mask[..., 0] = True
    expected = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    torch.testing.assert_close(om.Attention()(query, key, value, mask=mask).output, expected)


@pytest.mark.parametrize("normalizer", NORMALIZERS, ids=lambda n: type(n).__name__)
class TestEveryNormalizer:
    def test_weights_are_those_of_the_scores(self, normalizer):
        query, key, value = drawn(2)
        output, weights = om.Attention(om.DotProduct(), normalizer=normalizer)(query, key, value)
        scores = query @ key.transpose(-1, -2)
        expected = normalizer(scores) if isinstance(normalizer, nn.Module) else normalizer.argmax(scores)
        torch.testing.assert_close(weights, expected)
        torch.testing.assert_close(output, expected @ value)
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, dtype=torch.float64))

    def test_masked_keys_are_removed(self, normalizer):
        query, key, value = drawn(2)
        attention = om.Attention(normalizer=normalizer)
        lengths = torch.tensor([5, 3])
        spoilt = value.clone()
        spoilt[1, 3:] = torch.nan
        output = attention(query, key, spoilt, lengths=lengths).output
        expected = attention(query[1], key[1, :3], value[1, :3]).output
        torch.testing.assert_close(output[1], expected)

    def test_padding_may_be_nan_and_has_no_gradient(self, normalizer):
        query, key, _ = drawn(2)
        spoilt = key.clone()
        spoilt[1, 3:] = torch.nan
        found = []
        for keys in (key, spoilt):
            leaf = query.clone().requires_grad_()
            om.Attention(normalizer=normalizer)(leaf, keys, lengths=torch.tensor([5, 3])).output.sum().backward()
            found.append(leaf.grad)
        torch.testing.assert_close(found[1], found[0])

    def test_gradients(self, normalizer):
        query, key, value = (x.requires_grad_() for x in drawn(1))
        attention = om.Attention(normalizer=normalizer)
        assert torch.autograd.gradcheck(lambda *x: attention(*x).output, (query, key, value), atol=1e-5)

    def test_nothing_allowed(self, normalizer):
        query, key, value = (x.requires_grad_() for x in drawn(2))
        mask = torch.ones(2, 3, 5, dtype=torch.bool)
        mask[0, 1] = False
        output, weights = om.Attention(normalizer=normalizer)(query, key, value, mask=mask)
        assert not weights[0, 1].any() and not output[0, 1].any()
        output.sum().backward()
        assert query.grad.isfinite().all()


class TestScores:
    def test_additive_is_a_layer_on_both(self):
        """w₂ᵀ tanh(W₁ [q; k]), as the lecture writes it."""
        query, key = torch.randn(3, 4), torch.randn(5, 6)
        score = om.Additive(4, 6, 7)
        joined = torch.cat([score.of_query.weight, score.of_key.weight], 1)  # W₁
        for i in range(3):
            for j in range(5):
                hidden = torch.tanh(joined @ torch.cat([query[i], key[j]]) + score.of_query.bias)
                torch.testing.assert_close(score(query, key)[i, j], score.out.weight[0] @ hidden)

    def test_bilinear_and_cosine(self):
        query, key = torch.randn(3, 4), torch.randn(5, 6)
        score = om.Bilinear(4, 6)
        torch.testing.assert_close(score(query, key), torch.einsum("ia,ab,jb->ij", query, score.weight, key))
        key = torch.randn(5, 4)
        expected = nn.functional.cosine_similarity(query[:, None], key[None], dim=-1)
        torch.testing.assert_close(om.Cosine(3.0)(query, key), 3 * expected)
        assert not om.Cosine()(torch.zeros(1, 4), key).any()

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
    def test_the_cosine_of_nothing(self, dtype):
        """Zero, with no gradient, in every type; and long vectors of half types do not overflow."""
        query = torch.zeros(1, 4, dtype=dtype, requires_grad=True)
        key = torch.randn(5, 4).to(dtype)
        scores = om.Cosine()(query, key)
        assert scores.dtype is dtype and not scores.any()
        scores.sum().backward()
        assert not query.grad.any()
        torch.testing.assert_close(om.Cosine()(300 * key[:1], key), om.Cosine()(key[:1], key), atol=1e-2, rtol=0)
        pair = tuple(x.double().requires_grad_() for x in (torch.randn(2, 3), torch.randn(4, 3)))
        assert torch.autograd.gradcheck(om.Cosine(2.0), pair)

    def test_the_spread_of_scaled_products_does_not_grow(self):
        spreads = [om.ScaledDotProduct()(torch.randn(200, d), torch.randn(200, d)).std() for d in (4, 64, 1024)]
        assert all(0.9 < spread < 1.1 for spread in spreads)
        assert om.DotProduct()(torch.randn(200, 1024), torch.randn(200, 1024)).std() > 25

    def test_the_lecture_s_example(self):
        """Scores 112/8 and 96/8 give 0.88 and 0.12; under sparsemax 1 and 0."""
        query, keys = torch.ones(1, 64), torch.tensor([[112.0 / 64], [96.0 / 64]]).expand(2, 64)
        weights = om.Attention()(query, keys).weights
        torch.testing.assert_close(weights, torch.tensor([[0.8808, 0.1192]]), atol=1e-4, rtol=0)
        weights = om.Attention(normalizer=om.SquaredNorm())(query, keys).weights
        assert weights.tolist() == [[1.0, 0.0]]

    def test_sizes_must_agree(self):
        with pytest.raises(ValueError, match="one size, got 4 and 6; project"):
            om.DotProduct()(torch.zeros(3, 4), torch.zeros(5, 6))


class TestStructured:
    def test_matching(self):
        query, key, value = drawn(2, queries=4, keys=4)
        attention = om.Attention(normalizer=om.SparseMAP(om.Matching()))
        weights = attention(query, key, value).weights
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, dtype=torch.float64))
        torch.testing.assert_close(weights.sum(-2), torch.ones(2, 4, dtype=torch.float64))

    def test_subsets_select_k_keys(self):
        query, key, value = drawn(2)
        weights = om.Attention(normalizer=om.SparseMAP(om.Subset(2)))(query, key, value).weights
        torch.testing.assert_close(weights.sum(-1), torch.full((2, 3), 2.0, dtype=torch.float64))
        assert weights.max() <= 1 + 1e-12

    @pytest.mark.parametrize("regularizer", [om.Shannon(), om.SquaredNorm(), None])
    def test_a_chain_without_transitions_is_a_sigmoid_each(self, regularizer):
        scores = torch.randn(2, 3, 5, dtype=torch.float64)
        weights = om.attention.ChainNormalizer(regularizer).double()(scores)
        if isinstance(regularizer, om.Shannon):
            torch.testing.assert_close(weights, scores.sigmoid())
        else:
            torch.testing.assert_close(weights, om.sparsemax(torch.stack([scores, 0 * scores], -1))[..., 0])

    def test_a_chain_that_holds_together(self):
        normalizer = om.attention.ChainNormalizer().double()
        with torch.no_grad():
            normalizer.transitions.copy_(torch.tensor([[2.0, -2.0], [-2.0, 2.0]]))
        scores = torch.tensor([[-1.0, 2.0, -0.2, 2.0, -1.0]], dtype=torch.float64)
        loose = torch.sigmoid(scores)
        assert normalizer(scores)[0, 2] > loose[0, 2] + 0.2

    @pytest.mark.parametrize("regularizer", [om.Shannon(), None])
    def test_a_masked_key_is_taken_out_of_the_chain(self, regularizer):
        normalizer = om.attention.ChainNormalizer(regularizer).double()
        with torch.no_grad():
            normalizer.transitions.copy_(torch.tensor([[1.0, -0.5], [-1.0, 0.7]]))
        scores = torch.randn(2, 3, 5, dtype=torch.float64)
        kept = [0, 2, 3]
        mask = torch.zeros(2, 1, 5, dtype=torch.bool)
        mask[..., kept] = True
        mask[1] = False
        found = normalizer(scores, mask)
        torch.testing.assert_close(found[0][:, kept], normalizer(scores[0][:, kept]))
        assert not found[0][:, [1, 4]].any() and not found[1].any()

    @pytest.mark.parametrize(
        "normalizer", [om.attention.ChainNormalizer(), om.attention.TreeNormalizer()], ids=lambda n: type(n).__name__
    )
    def test_minus_infinity_means_masked(self, normalizer):
        normalizer = normalizer.double()
        with torch.no_grad():
            for parameter in normalizer.parameters():
                parameter.copy_(torch.randn_like(parameter))
        scores = torch.randn(2, 5, 5, dtype=torch.float64)
        mask = torch.ones(2, 5, 5, dtype=torch.bool)
        mask[0, :, 2], mask[1, 1, 3] = False, False
        found = normalizer(torch.where(mask, scores, -torch.inf))
        torch.testing.assert_close(found, normalizer(scores, mask))
        assert not found[~mask].any()

    @pytest.mark.parametrize(
        "normalizer",
        [
            om.attention.ChainNormalizer(),
            om.attention.TreeNormalizer(),
            om.SparseMAP(om.Matching()),
            om.Smoothed(om.Subset(2), om.Shannon()),
        ],
        ids=lambda n: type(n).__name__,
    )
    def test_nothing_at_all(self, normalizer):
        attention = om.Attention(normalizer=normalizer)
        for batch, n in ((2, 0), (0, 3)):
            x = torch.ones(batch, n, 4, requires_grad=True)
            output, weights = attention(x, x)
            assert output.shape == (batch, n, 4) and weights.shape == (batch, n, n)
            output.sum().backward()

    def test_padding_is_taken_out_of_the_tree(self):
        normalizer = om.attention.TreeNormalizer().double()
        scores = torch.randn(2, 5, 5, dtype=torch.float64)
        mask = (torch.arange(5) < torch.tensor([3, 5]).unsqueeze(-1)).unsqueeze(-2)  # keys within the length
        found = normalizer(scores, mask)
        torch.testing.assert_close(found[0, :3, :3], normalizer(scores[0, :3, :3]))
        torch.testing.assert_close(found[1], normalizer(scores[1]))
        assert not found[0, 3:].any() and not found[0, :, 3:].any()

    def test_tree_marginals(self):
        scores = torch.randn(2, 4, 4, dtype=torch.float64)
        weights = om.attention.TreeNormalizer().double()(scores)
        assert (weights.diagonal(dim1=-2, dim2=-1) == 0).all()  # no word is its own head
        torch.testing.assert_close(weights.sum((-1, -2)), torch.full((2,), 3.0, dtype=torch.float64))  # one root
        arcs = torch.zeros(2, 5, 5, dtype=torch.float64)
        arcs[:, 1:, 1:] = scores.transpose(-1, -2)
        expected = om.ProjectiveTree().argmax(arcs)[:, 1:, 1:].transpose(-1, -2)
        torch.testing.assert_close(weights, expected)
        with pytest.raises(ValueError, match="square"):
            om.attention.TreeNormalizer()(torch.zeros(2, 3))


class TestErrors:
    def test_normalizer(self):
        with pytest.raises(TypeError, match="got the class SquaredNorm"):
            om.Attention(normalizer=om.SquaredNorm)
        with pytest.raises(ValueError, match="over 3 axes"):
            om.Attention(normalizer=om.SparseMAP(om.Chain()))
        with pytest.raises(ValueError, match="dim=-1"):
            om.Attention(normalizer=om.Softmax(0))

    def test_values(self):
        with pytest.raises(ValueError, match="one value per key, got 3 values and 4 keys"):
            om.Attention()(torch.zeros(2, 4), torch.zeros(4, 4), torch.zeros(3, 4))
        with pytest.raises(TypeError, match=r"Attention: value must be floating point, got torch\.int64"):
            om.Attention()(torch.zeros(2, 4), torch.zeros(3, 4), torch.zeros(3, 4).long())
        with pytest.raises(ValueError, match="dropout"):
            om.Attention(dropout=1.5)

    def test_scores_and_masks(self):
        with pytest.raises(TypeError, match=r"score must be .* got SquaredNorm; .* normalizer="):
            om.Attention(om.SquaredNorm())
        with pytest.raises(TypeError, match="got the class DotProduct"):
            om.attention.MonotonicAttention(om.DotProduct)
        x = torch.zeros(2, 3, 4)
        with pytest.raises(ValueError, match="PointerHead: lengths must lie between 0 and 3, got 1 to 4"):
            om.attention.PointerHead()(x, x, lengths=torch.tensor([1, 4]))
        with pytest.raises(ValueError, match=r"Attention: mask must broadcast to scores \(2, 3, 3\), got \(2, 3\)"):
            om.Attention()(x, x, mask=torch.ones(2, 3).bool())
        with pytest.raises(TypeError, match="LocationAware: mask must be boolean"):
            om.attention.LocationAware(4, 4)(x, x, mask=torch.ones(2, 3, 3))


def test_dropout_only_in_training():
    query, key, value = drawn(1)
    attention = om.Attention(dropout=0.5)
    torch.manual_seed(0)
    assert not torch.equal(attention(query, key, value).output, attention.eval()(query, key, value).output)
    assert attention(query, key, value, need_weights=False).weights is None


def test_scale():
    query, key, value = drawn(1)
    halved = om.Attention(om.ScaledDotProduct(0.5))(query, key, value).weights
    torch.testing.assert_close(halved, om.softmax(query @ key.transpose(-1, -2) / 2))
    assert math.isclose(om.ScaledDotProduct()(torch.ones(1, 16), torch.ones(1, 16)).item(), 4)
