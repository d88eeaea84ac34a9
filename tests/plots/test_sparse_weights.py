"""Sparse weights are drawn as the dense ones are, and only what is drawn becomes dense."""

import pytest
import torch

import omegamax as om

plots = pytest.importorskip("omegamax.plots")

from omegamax.plots.sparse_weights import heaviest_of_blocks, support_sizes  # noqa: E402


def attended(*lead, n_queries=7, n_keys=9):
    query, key = torch.randn(*lead, n_queries, 4), torch.randn(*lead, n_keys, 4)
    found = om.sparse_attention_with_weights(query, key, key, om.SquaredNorm())
    return found, om.sparsemax(query @ key.mT / 2)


def drawn(figure):
    figure.canvas.draw()
    return [image.get_array() for axes in figure.axes for image in axes.get_images()]


def assert_same(ours, theirs):
    assert len(ours) == len(theirs) > 0
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(
            torch.tensor(a.filled(-1)).double(), torch.tensor(b.filled(-1)).double(), atol=1e-5, rtol=0
        )


def test_a_head_of_an_item():
    found, dense = attended(2, 3)
    for item in range(2):
        for head in range(3):
            map_ = found.head(item, head)
            assert map_.layout is torch.sparse_csr
            torch.testing.assert_close(map_.to_dense(), dense[item, head], atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(found.head(-1, -1).to_dense(), found.head(1, 2).to_dense())
    for wrong in ((), (0,), (2, 0), (0, 3), (0, 0, 0)):
        with pytest.raises(ValueError, match="count from 0"):
            found.head(*wrong)


def test_maps():
    found, dense = attended(2, 3)
    one, flat = attended()
    assert_same(drawn(plots.attention_map(found.head(1, 2))), drawn(plots.attention_map(dense[1, 2])))
    assert_same(drawn(plots.attention_map(one)), drawn(plots.attention_map(flat)))
    both = {"a": one, "b": found.head(0, 0)}
    assert_same(drawn(plots.attention_maps(both)), drawn(plots.attention_maps({"a": flat, "b": dense[0, 0]})))
    with pytest.raises(ValueError, match=r"found.head\(0, 1\)"):
        plots.attention_map(found)


def test_lines():
    found, dense = attended(1, 3, n_queries=4, n_keys=5)
    ours, theirs = (plots.attention_lines(x, list("abcd"), list("efghi")) for x in (found, dense[0]))
    for a, b in zip(ours.axes, theirs.axes, strict=True):
        assert len(a.collections[0].get_segments()) == len(b.collections[0].get_segments()) > 0
    with pytest.raises(ValueError, match="one item"):
        plots.attention_lines(attended(2, 3)[0], [], [])


@pytest.mark.parametrize("shape", [(7, 9), (130, 200), (97, 40)], ids=str)
def test_an_overview(shape):
    layers = [attended(1, 2, n_queries=shape[0], n_keys=shape[1]) for _ in range(2)]
    ours = plots.attention_overview([found for found, _ in layers])
    theirs = plots.attention_overview([dense[0] for _, dense in layers])
    assert_same(drawn(ours), drawn(theirs))
    assert ours.get_size_inches().tolist() == theirs.get_size_inches().tolist()


def test_supports():
    found, dense = attended(2, 3)
    counts = support_sizes(found.weights)
    assert counts.tolist() == (dense > 0).sum(-1).flatten().tolist() == found.support_sizes.flatten().tolist()
    heights = []
    for weights in (found, found.weights, dense):
        (axes,) = plots.support_histograms({"sparsemax": weights}).axes
        heights.append([patch.get_height() for patch in axes.patches])
    assert heights[0] == heights[1] == heights[2]


@pytest.mark.parametrize("size", [(5, 6), (7, 9), (1, 1), (3, 9)])
def test_blocks_are_those_of_pooling(size):
    found, dense = attended()
    pooled = torch.nn.functional.adaptive_max_pool2d(dense[None].double(), size)[0]
    torch.testing.assert_close(heaviest_of_blocks(found.weights, size), pooled, atol=1e-6, rtol=1e-5)


def test_a_long_sequence_is_never_dense(monkeypatch):
    """A few thousand weights of 20000 keys, in 96 blocks."""
    query = torch.randn(1, 1, 20000, 4) * 20
    found = om.sparse_attention_with_weights(query[:, :, :50], query, query, om.SquaredNorm())
    monkeypatch.setattr(torch.Tensor, "to_dense", None)
    (image,) = drawn(plots.attention_overview([found]))
    assert image.shape == (50, 96) and 0 < (~image.mask).sum() < 50 * 96
