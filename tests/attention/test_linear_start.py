"""Linear start: scores as they are, then weights; counted in rows, kept in checkpoints. Noise of times."""

from collections import Counter
from itertools import combinations

import pytest
import torch

import omegamax as om
from omegamax.attention import AdjacentEmbeddings, LinearStart, MemoryNetwork


def test_scores_pass_until_the_rows_are_used_up():
    layer = LinearStart(om.SquaredNorm(), 8)
    scores, mask = torch.randn(2, 2, 5), torch.tensor([True, True, True, False, True])
    for _ in range(2):  # four rows each
        torch.testing.assert_close(layer(scores, mask), scores * mask)
    weights = layer(scores, mask)
    torch.testing.assert_close(weights, om.sparsemax(scores, mask=mask))
    torch.testing.assert_close(layer(scores), om.sparsemax(scores))


def test_evaluation_is_never_linear_and_counts_nothing():
    layer = LinearStart(om.Shannon(), 100).eval()
    scores = torch.randn(3, 4)
    torch.testing.assert_close(layer(scores), scores.softmax(-1))
    assert int(layer.rows_left) == 100


def test_a_masked_infinity_does_not_pass():
    layer = LinearStart(om.Shannon(), 100)
    scores = torch.tensor([[1.0, -torch.inf]], requires_grad=True)
    out = layer(scores, torch.tensor([[True, False]]))
    assert out.tolist() == [[1.0, 0.0]]
    out.sum().backward()
    assert scores.grad.tolist() == [[1.0, 0.0]]


def test_the_count_is_saved():
    layer = LinearStart(om.Shannon(), 10)
    layer(torch.randn(4, 3))
    other = LinearStart(om.Shannon(), 99)
    other.load_state_dict(layer.state_dict())
    assert int(other.rows_left) == 6


def test_wrong_arguments():
    with pytest.raises(ValueError, match="LinearStart: n_rows must be at least 1"):
        LinearStart(om.Shannon(), 0)
    with pytest.raises(TypeError, match="LinearStart: normalizer must be"):
        LinearStart("softmax", 3)
    with pytest.raises(ValueError, match="time_noise must be a share"):
        MemoryNetwork(AdjacentEmbeddings(5, 4), time_noise=1.5)


def test_time_noise_puts_every_number_and_order_of_empty_sentences_equally_often():
    torch.manual_seed(0)
    network = MemoryNetwork(AdjacentEmbeddings(9, 4, max_sentences=12), time_noise=1.0)
    spoken = torch.tensor([[True] * 3 + [False] * 2]).expand(30_000, -1)
    assert network.eval()._times(spoken)[0, :3].tolist() == [2, 1, 0]
    found = Counter(map(tuple, network.train()._times(spoken)[:, :3].tolist()))
    expected: Counter[tuple[int, ...]] = Counter()
    for n_empty in range(3):  # below the number of sentences
        orders = list(combinations(range(3 + n_empty), 3))
        expected.update({order[::-1]: 10_000 / len(orders) for order in orders})
    assert found.keys() == expected.keys()
    for times, count in expected.items():
        assert abs(found[times] - count) < 5 * count**0.5


def test_time_noise_is_a_share_of_each_story_and_ends_with_the_table():
    torch.manual_seed(0)
    network = MemoryNetwork(AdjacentEmbeddings(9, 4, max_sentences=22), time_noise=0.1)
    lengths = torch.tensor([10, 20, 21, 0]).repeat(500)
    times = network._times(torch.arange(21) < lengths.unsqueeze(-1))
    oldest = times[:, 0].view(500, 4)
    assert set(oldest[:, 0].tolist()) == {9}  # one empty sentence would be the most: there is none
    assert set(oldest[:, 1].tolist()) == {19, 20} and set(oldest[:, 2].tolist()) == {20, 21}
    assert times.max() == 21 and times.min() == 0  # 22 is beyond the table
    young = MemoryNetwork(AdjacentEmbeddings(9, 4, max_sentences=4), time_noise=0.5)
    assert int(young._times(torch.ones(50, 10, dtype=torch.bool)).max()) == 3
