"""Linear start: scores as they are, then weights; counted in rows, kept in checkpoints. Noise of times."""

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
    with pytest.raises(ValueError, match="time_noise must be a probability"):
        MemoryNetwork(AdjacentEmbeddings(5, 4), time_noise=1.5)


def test_time_noise_makes_sentences_older_in_training_only():
    torch.manual_seed(0)
    network = MemoryNetwork(AdjacentEmbeddings(9, 4, max_sentences=12), time_noise=0.5)
    spoken = torch.tensor([[True] * 8 + [False] * 2]).expand(200, -1)
    plain = network.eval()._times(spoken)
    assert plain[0, :8].tolist() == [7, 6, 5, 4, 3, 2, 1, 0]
    noisy = network.train()._times(spoken)
    assert (noisy[:, :8] >= plain[:, :8]).all() and (noisy[:, 7] == 0).all()
    assert int(noisy.max()) == 11  # the table has no older time
    steps = noisy[:, 5:7] - noisy[:, 6:8]  # one, or two with an empty sentence between them
    assert set(steps.flatten().tolist()) == {1, 2} and steps.double().mean() == pytest.approx(1.5, abs=0.1)
    always = MemoryNetwork(AdjacentEmbeddings(9, 4, max_sentences=50), time_noise=1.0)
    assert always._times(spoken)[0, :8].tolist() == [14, 12, 10, 8, 6, 4, 2, 0]
