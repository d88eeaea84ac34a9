"""Attention to a grid of annotations, against loops over its cells."""

import pytest
import torch
from cases import normal
from torch.autograd import gradcheck

import omegamax as om

NORMALIZERS = {
    "softmax": om.Shannon(),
    "sparsemax": om.SquaredNorm(),
    "fusedmax": om.Fused(0.1),
    "GridTV": om.GridTV(0.1),
    "Scaled GridTV": om.Scaled(om.GridTV(0.1), 0.5),
    "Entmax": om.Entmax(alpha=1.5),
}
every = pytest.mark.parametrize("normalizer", NORMALIZERS.values(), ids=NORMALIZERS)


def by_loops(query, annotations, weigh):
    """Show, attend and tell: e_ij = q · a_ij, weights over the grid, z = Σ α_ij a_ij."""
    height, width, _ = annotations.shape
    outputs, weights = [], []
    for q in query:
        scores = torch.stack([torch.stack([q @ annotations[i, j] for j in range(width)]) for i in range(height)])
        alpha = weigh(scores)
        outputs.append(sum(alpha[i, j] * annotations[i, j] for i in range(height) for j in range(width)))
        weights.append(alpha)
    return torch.stack(outputs), torch.stack(weights)


def weigher(normalizer):
    if isinstance(normalizer, torch.nn.Module):
        return lambda grid: normalizer(grid.flatten()).reshape(grid.shape)
    if normalizer.event_ndim == 2:
        return normalizer.argmax
    return lambda grid: normalizer.argmax(grid.flatten()).reshape(grid.shape)


@every
def test_the_formula(normalizer):
    query, annotations = normal(2, 3, 5, scale=0.5), normal(2, 4, 6, 5, seed=1)
    output, weights = om.attention.GridAttention(om.DotProduct(), normalizer=normalizer)(query, annotations)
    assert output.shape == (2, 3, 5) and weights.shape == (2, 3, 4, 6)
    for b in range(2):
        expected = by_loops(query[b], annotations[b], weigher(normalizer))
        torch.testing.assert_close((output[b], weights[b]), expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("score", [om.Additive(3, 5), om.Bilinear(3, 5)], ids=["additive", "bilinear"])
def test_scores_with_parameters_and_other_values(score):
    attention = om.attention.GridAttention(score.double(), normalizer=om.SquaredNorm())
    query, annotations, values = normal(2, 4, 3), normal(2, 3, 4, 5, seed=1), normal(2, 3, 4, 2, seed=2)
    flat = om.Attention(score, normalizer=om.SquaredNorm())(query, annotations.flatten(-3, -2), values.flatten(-3, -2))
    output, weights = attention(query, annotations, values)
    torch.testing.assert_close(output, flat.output)
    torch.testing.assert_close(weights.flatten(-2), flat.weights)


@every
def test_masks_and_sizes(normalizer):
    attention = om.attention.GridAttention(om.DotProduct(), normalizer=normalizer)
    query, annotations = normal(2, 3, 5, scale=0.5), normal(2, 4, 6, 5, seed=1)
    sizes = torch.tensor([[3, 6], [4, 2]])
    unread = annotations.clone()
    unread[0, 3], unread[1, :, 2:] = torch.nan, torch.nan
    unread_scores = attention(query, annotations, unread, sizes=sizes)
    for b, (height, width) in enumerate(sizes.tolist()):
        smaller = attention(query[b], annotations[b, :height, :width])
        torch.testing.assert_close(unread_scores.output[b], smaller.output, atol=1e-12, rtol=0)
        torch.testing.assert_close(unread_scores.weights[b, :, :height, :width], smaller.weights, atol=1e-12, rtol=0)
        assert float(unread_scores.weights[b].sum((-2, -1)).sub(1).abs().max()) < 1e-12
    leaf = query.clone().requires_grad_()
    attention(leaf, unread, sizes=sizes).output.sum().backward()
    assert leaf.grad.isfinite().all()
    within = torch.zeros(2, 1, 4, 6, dtype=torch.bool)
    within[0, :, :3], within[1, :, :, :2] = True, True
    by_mask = attention(query, annotations, mask=within)
    torch.testing.assert_close(by_mask.weights, unread_scores.weights, atol=1e-15, rtol=0)
    both = attention(query, annotations, mask=torch.zeros(4, 6).bool(), sizes=sizes)
    assert bool((both.output == 0).all()) and bool((both.weights == 0).all())


@pytest.mark.parametrize("normalizer", [om.Shannon(), om.GridTV(0.05)], ids=["softmax", "GridTV"])
def test_gradcheck(normalizer):
    query, annotations = (
        normal(1, 2, 2, scale=0.4, seed=4).requires_grad_(),
        normal(1, 2, 3, 2, seed=5).requires_grad_(),
    )
    attention = om.attention.GridAttention(om.DotProduct(), normalizer=normalizer)
    mask = torch.tensor([[1, 1, 1], [1, 0, 1]]).bool()
    assert gradcheck(lambda q, a: attention(q, a, mask=mask).output, (query, annotations))


def test_attended_regions_are_contiguous():
    """What sparsemax scatters over a noisy object, GridTV joins."""
    annotations = 0.15 * normal(9, 9, 1)
    annotations[3:6, 2:7] += 1
    query = torch.ones(1, 1, dtype=torch.float64)
    scattered = om.attention.GridAttention(om.DotProduct(), normalizer=om.SquaredNorm())(query, annotations).weights[0]
    joined = om.attention.GridAttention(om.DotProduct(), normalizer=om.GridTV(0.3))(query, annotations).weights[0]
    assert len(joined[joined > 0].unique()) < len(scattered[scattered > 0].unique())
    region = torch.zeros(9, 9, dtype=torch.bool)
    region[3:6, 2:7] = True
    assert torch.equal(joined > 0, region) and not torch.equal(scattered > 0, region)


def test_half_precision_dropout_and_need_weights():
    query, annotations = normal(2, 3, 4).float(), normal(2, 3, 3, 4).float()
    attention = om.attention.GridAttention(normalizer=om.GridTV(0.1), dropout=0.5)
    assert attention.eval()(query, annotations, need_weights=False).weights is None
    with torch.autocast("cpu", torch.bfloat16):
        half = attention(query, annotations)
    torch.testing.assert_close(half.output.float(), attention(query, annotations).output, atol=5e-2, rtol=0)
    weights = attention(query, annotations).weights
    torch.testing.assert_close(attention.train()(query, annotations).weights, weights)
    assert "GridTV" in repr(attention) and "dropout" in repr(attention)


def test_empty_grids():
    attention = om.attention.GridAttention(om.DotProduct())
    output, weights = attention(torch.ones(2, 3), torch.ones(0, 4, 3))
    assert torch.equal(output, torch.zeros(2, 3)) and weights.shape == (2, 0, 4)
    assert attention(torch.ones(0, 3), torch.ones(2, 4, 3)).weights.shape == (0, 2, 4)


def test_errors():
    attention = om.attention.GridAttention()
    with pytest.raises(ValueError, match="over one grid"):
        attention(torch.ones(1, 3), torch.ones(4, 3))
    with pytest.raises(TypeError, match="mask must be boolean"):
        attention(torch.ones(1, 3), torch.ones(2, 2, 3), mask=torch.ones(2, 2))
    with pytest.raises(ValueError, match=r"mask\.unsqueeze"):
        attention(torch.ones(5, 4, 3), torch.ones(5, 2, 2, 3), mask=torch.ones(5, 2, 2).bool())
    with pytest.raises(ValueError, match="sizes must be integers"):
        attention(torch.ones(5, 4, 3), torch.ones(5, 2, 2, 3), sizes=torch.ones(5).long())
    with pytest.raises(ValueError, match="rows in sizes must lie between 0 and 2, got 1 to 3"):
        attention(torch.ones(2, 4, 3), torch.ones(2, 2, 2, 3), sizes=torch.tensor([[1, 2], [3, 2]]))
    with pytest.raises(TypeError, match=r"values must be floating point, got torch\.int64"):
        attention(torch.ones(1, 3), torch.ones(2, 2, 3), torch.ones(2, 2, 3).long())
    with pytest.raises(ValueError, match="dropout"):
        om.attention.GridAttention(dropout=1.0)
    with pytest.raises(TypeError, match="normalizer must be"):
        om.attention.GridAttention(normalizer=om.GridTV)
