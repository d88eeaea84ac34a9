"""The traits of every normalizer agree with its weights."""

import pytest
import torch

import omegamax as om

ROWS = {
    "Shannon": om.Shannon(),
    "SquaredNorm": om.SquaredNorm(),
    "Tsallis": om.Tsallis(1.3),
    "Fused": om.Fused(0.1),
    "Oscar": om.Oscar(0.1),
    "Hard": om.Hard(),
    "Scaled": om.Scaled(om.SquaredNorm(), 0.5),
    "Entmax": om.Entmax(),
    "Fusedmax": om.Fusedmax(),
    "LengthScaled": om.attention.LengthScaled(om.SquaredNorm()),
}
OTHERS = {
    "Subset": om.SparseMAP(om.Subset(2)),
    "Scaled Subset": om.Scaled(om.SparseMAP(om.Subset(2)), 0.5),
    "Matching": om.SparseMAP(om.Matching()),
    "Sinkhorn": om.Sinkhorn(),
    "GridTV": om.GridTV(0.1),
    "Scaled GridTV": om.Scaled(om.GridTV(0.1), 0.5),
    "ChainNormalizer": om.attention.ChainNormalizer(),
    "LengthScaled Subset": om.attention.LengthScaled(om.SparseMAP(om.Subset(2))),
}


def normalized(normalizer, scores):
    output = om.Attention(om.DotProduct(), normalizer=normalizer)(torch.eye(len(scores)), scores.T.contiguous())
    return output.weights


@pytest.mark.parametrize("name", ROWS | OTHERS)
def test_rows_sum_to_one_exactly_where_the_trait_says_so(name):
    normalizer = (ROWS | OTHERS)[name]
    torch.manual_seed(0)
    sums = normalized(normalizer, torch.randn(5, 3)).sum(-1)  # more queries than keys
    assert normalizer.rows_sum_to_one == torch.allclose(sums, torch.ones(5), atol=1e-5)


@pytest.mark.parametrize("name", ROWS | OTHERS)
def test_rows_depend_on_each_other_exactly_where_the_event_has_two_axes(name):
    normalizer = (ROWS | OTHERS)[name]
    torch.manual_seed(0)
    scores = 0.3 * torch.randn(3, 4)
    before = normalized(normalizer, scores)[1:]
    same = True
    for column in range(4):
        moved = scores.clone()
        moved[0, column] += 1
        same = same and torch.allclose(normalized(normalizer, moved)[1:], before, atol=1e-6)
    assert same == (normalizer.event_ndim == 1)


@pytest.mark.parametrize("name", OTHERS)
def test_hard_attention_refuses_rows_that_are_no_distributions(name):
    with pytest.raises(TypeError, match="every row a distribution"):
        om.HardAttention(normalizer=OTHERS[name])


@pytest.mark.parametrize("name", ROWS)
def test_hard_attention_takes_rows_that_are_distributions(name):
    assert om.HardAttention(normalizer=ROWS[name]).normalizer is ROWS[name]
