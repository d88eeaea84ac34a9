"""The biaffine parser: scores by loops, padding that is never read, gradients for every parameter."""

import pytest
import torch
from torch import nn

from omegamax.models.biaffine import ArcLabels, Biaffine, BiaffineParser
from omegamax.models.bidirectional_lstm import BidirectionalLSTM, reversed_positions
from omegamax.models.sequence_tagger import WordReader
from omegamax.models.word_features import N_AFFIXES, CharacterLSTM, WordBatch, WordFeatures


def words(lengths, n, n_words=20):
    torch.manual_seed(1)
    numbers = torch.randint(4, n_words, (len(lengths), n))
    letters = torch.randint(4, 9, (n_words, 5))
    spelled = torch.full((n_words,), 5)
    affixes = torch.randint(0, 2048, (n_words, N_AFFIXES))
    return WordBatch(numbers, numbers, letters, spelled, affixes, torch.tensor(lengths))


def parser(**options):
    torch.manual_seed(0)
    features = WordFeatures(20, 6, characters=CharacterLSTM(10, 4), affix_size=3)
    sizes = {"hidden_size": 8, "arc_size": 5, "label_size": 3, "tag_size": 4, "dropout": 0.2}
    model = BiaffineParser(WordReader(features, n_layers=0, dropout=0.0), 7, **{**sizes, **options})
    for each in (model.arc, model.label):
        for parameter in each.parameters():
            nn.init.normal_(parameter)
    return model


def test_arc_scores_by_loops():
    score = Biaffine(3)
    nn.init.normal_(score.weight)
    nn.init.normal_(score.head_weight)
    heads, modifiers = torch.randn(2, 4, 3), torch.randn(2, 5, 3)
    found = score(heads, modifiers)
    for b in range(2):
        for h in range(4):
            for m in range(5):
                by_hand = heads[b, h] @ score.weight @ modifiers[b, m] + heads[b, h] @ score.head_weight
                torch.testing.assert_close(found[b, h, m], by_hand)


def test_label_scores_by_loops():
    score = ArcLabels(3, 4)
    nn.init.normal_(score.weight)
    heads, modifiers = torch.randn(2, 5, 3), torch.randn(2, 5, 3)
    found = score(heads, modifiers)
    tensor = score.weight.reshape(3, 4, 3)
    for b in range(2):
        for m in range(5):
            for label in range(4):
                bilinear = heads[b, m] @ tensor[:, label] @ modifiers[b, m]
                linear = score.linear.weight[label] @ torch.cat([heads[b, m], modifiers[b, m]])
                torch.testing.assert_close(found[b, m, label], bilinear + linear + score.linear.bias[label])


@pytest.mark.parametrize("n_layers", [1, 2])
def test_the_lstm_equals_pytorchs_on_each_sequence(n_layers):
    torch.manual_seed(0)
    ours, theirs = BidirectionalLSTM(3, 4, n_layers=n_layers), nn.LSTM(3, 4, n_layers, bidirectional=True)
    for layer in range(n_layers):
        for name, parameter in theirs.named_parameters():
            which, _, rest = name.partition(f"_l{layer}")
            if rest in ("", "_reverse") and f"_l{layer}" in name:
                own = (ours.backwards if rest else ours.forwards)[layer]
                parameter.data.copy_(getattr(own, f"{which}_l0"))
    inputs, lengths = torch.randn(3, 6, 3), [6, 1, 4]
    found = ours(inputs, torch.tensor(lengths))
    for row, length in enumerate(lengths):
        torch.testing.assert_close(found[row, :length], theirs(inputs[row, :length])[0])
    assert found.shape == (3, 6, ours.out_features)


def test_reversing_twice_changes_nothing():
    lengths = torch.tensor([4, 1, 3])
    positions = reversed_positions(lengths, 4)
    assert positions.gather(1, positions).tolist() == [[0, 1, 2, 3]] * 3


def test_padding_and_other_sentences_change_nothing():
    model = parser(n_tags=[6, 5]).eval()
    lengths = [5, 2, 3]
    batch, tags = words(lengths, 5), torch.randint(0, 5, (3, 5, 2))
    heads = torch.randint(0, 3, (3, 5))
    scores = model(batch, None, tags, torch.tensor(lengths), heads)
    for row, n in enumerate(lengths):
        alone = batch._replace(
            words=batch.words[row : row + 1, :n], spelling=batch.spelling[row : row + 1, :n], lengths=torch.tensor([n])
        )
        one = model(alone, None, tags[row : row + 1, :n], torch.tensor([n]), heads[row : row + 1, :n])
        torch.testing.assert_close(one.arcs[0], scores.arcs[row, : n + 1, : n + 1])
        torch.testing.assert_close(one.labels[0], scores.labels[row, :n])


@pytest.mark.parametrize("n_layers", [0, 1])
def test_every_parameter_has_a_gradient(n_layers):
    model = parser(n_tags=[6], n_layers=n_layers).train()
    scores = model(words([3, 2], 3), None, torch.ones(2, 3, 1).long(), torch.tensor([3, 2]), torch.zeros(2, 3).long())
    (scores.arcs.sum() + scores.labels.sum()).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
