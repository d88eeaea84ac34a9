"""Taggers trained with several losses on generated sentences: the tutorial's table of named entities, in small.

The network is an embedding, a bidirectional LSTM and a chain of tags; only the loss differs. The sentences are those of
`omegamax train tagger`. Every word that training shows less than twice is unknown, as most names of the test data are.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

import omegamax as om
from omegamax.data.entity_sentences import generate_entity_sentences
from omegamax.data.tagged_sentences import TaggedSentence
from omegamax.models.bidirectional_lstm import BidirectionalLSTM
from omegamax.reproductions.claim import Outcome, Published, at_least, at_most, finds, shown
from omegamax.spans import TagReader, write_tags
from omegamax.structures.chain import FactoredChain
from omegamax.structures.tagging_scheme import allowed_transitions

_TAGS = ["O", *(f"{place}-{kind}" for kind in ("person", "place", "firm") for place in "BIES")]
_LOSSES = ("crf", "l2", "perceptron")
_REGULARIZERS = {"crf": om.Shannon(), "l2": om.SquaredNorm(), "perceptron": om.Hard()}
_N_TRAIN, _N_TEST, _EPOCHS, _BATCH = 500, 200, 6, 25
_GOOD = 90  # percent, F1
_MOST = 200  # answers of a sentence that are counted


class _Batch(NamedTuple):
    words: Tensor  # (B, N)
    tags: Tensor  # (B, N)
    lengths: Tensor  # (B,)


class _Trained(NamedTuple):
    f1_by_epoch: list[float]  # percent, of entities of the test sentences
    answers: list[int]  # sequences of tags with a probability, of each test sentence
    right: list[bool]  # whether the best sequence is the gold one


class _Network(nn.Module):
    """Scores of a chain of tags for sentences of numbered words."""

    def __init__(self, n_words: int) -> None:
        super().__init__()
        self.words = nn.Embedding(n_words, 32)
        self.lstm = BidirectionalLSTM(32, 32, n_layers=1, dropout=0.0)
        self.emissions = nn.Linear(self.lstm.out_features, len(_TAGS))
        self.crf = om.models.CRF(len(_TAGS), allowed=allowed_transitions(_TAGS, "BIOES"))

    def forward(self, batch: _Batch) -> FactoredChain:
        potentials: FactoredChain = self.crf(self.emissions(self.lstm(self.words(batch.words), batch.lengths)))
        return potentials


@cache
def _train(loss_name: str) -> _Trained:
    """Trains a tagger with one of the losses, from the same beginning and in the same order as the others."""
    train, test = _batches()
    regularizer = _REGULARIZERS[loss_name]
    loss = om.FenchelYoungLoss(om.Smoothed(om.Chain(), regularizer), reduction="sum")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = _Network(1 + max(int(batch.words.max()) for batch in (*train, test)))
        optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
        curve = []
        for _ in range(_EPOCHS):
            for batch in train:
                optimizer.zero_grad()
                (loss(network(batch), batch.tags, lengths=batch.lengths) / len(batch.tags)).backward()
                optimizer.step()
            curve.append(_f1(network, test))
    with torch.no_grad():
        potentials = network(test)
    best = om.Chain().tags(om.Chain().map(potentials, lengths=test.lengths))
    within = torch.arange(test.tags.shape[1]) < test.lengths.unsqueeze(-1)
    right = ((best == test.tags) | ~within).all(-1).tolist()
    answers = [] if loss_name == "crf" else _answers(potentials, test.lengths, regularizer)
    return _Trained(curve, answers, right)


def _answers(potentials: FactoredChain, lengths: Tensor, regularizer: om.SmoothMax) -> list[int]:
    found = []
    for place, length in enumerate(lengths.tolist()):
        one = potentials._replace(emissions=potentials.emissions[place, :length])
        found.append(int((om.Chain().support(one, regularizer, limit=_MOST).probabilities > 0).sum()))
    return found


def _f1(network: _Network, test: _Batch) -> float:
    """Computes F1 of whole entities in percent."""
    with torch.no_grad():
        best = om.Chain().tags(om.Chain().map(network(test), lengths=test.lengths)).tolist()
    reader, n_found, n_gold, n_right = TagReader(_TAGS), 0, 0, 0
    for tags, gold, length in zip(best, test.tags.tolist(), test.lengths.tolist()):
        found, wanted = set(reader.spans(tags[:length])), set(reader.spans(gold[:length]))
        n_found, n_gold, n_right = n_found + len(found), n_gold + len(wanted), n_right + len(found & wanted)
    return 200 * n_right / max(1, n_found + n_gold)


@cache
def _batches() -> tuple[tuple[_Batch, ...], _Batch]:
    """Generates the sentences; returns the batches of training and one of test."""
    train = list(generate_entity_sentences(_N_TRAIN, "train"))
    counts = Counter(word for sentence in train for word in sentence.words)
    known = {word: number for number, word in enumerate((w for w, n in counts.items() if n > 1), start=1)}
    parts = [train[start : start + _BATCH] for start in range(0, len(train), _BATCH)]
    test = list(generate_entity_sentences(_N_TEST, "test"))
    return tuple(_batch(part, known) for part in parts), _batch(test, known)


def _batch(sentences: list[TaggedSentence], known: dict[str, int]) -> _Batch:
    words = [torch.tensor([known.get(word, 0) for word in sentence.words]) for sentence in sentences]
    tags = [
        torch.tensor([_TAGS.index(tag) for tag in write_tags(each.spans, len(each.words), "BIOES")])
        for each in sentences
    ]
    lengths = torch.tensor([len(sentence.words) for sentence in sentences])
    return _Batch(pad_sequence(words, batch_first=True), pad_sequence(tags, batch_first=True), lengths)


def table_of_losses(published: Published) -> Outcome:
    """F1 of the squared norm is near that of the CRF loss, in the tutorial's table and here."""
    found = {name: _train(name).f1_by_epoch[-1] for name in ("crf", "l2")}
    languages = [name.partition(", ")[2] for name in published if name.startswith("squared norm")]
    apart = max(abs(published[f"squared norm, {at}"] - published[f"CRF loss (entropy), {at}"]) for at in languages)
    return Outcome(
        [
            shown("F1 with the CRF loss, generated sentences", f"{found['crf']:.2f}"),
            shown("F1 with the squared norm", f"{found['l2']:.2f}"),
            at_most(
                "points between the two losses (published: the largest of four languages)",
                apart,
                abs(found["crf"] - found["l2"]),
            ),
        ]
    )


def convergence(published: Published) -> Outcome:
    """Smooth losses need fewer epochs than the perceptron, and the squared norm leaves few answers."""
    found = {name: _train(name) for name in _LOSSES}
    epochs = {name: _epochs_to(_GOOD, each.f1_by_epoch) for name, each in found.items()}
    sparse = found["l2"]
    one = [right for n, right in zip(sparse.answers, sparse.right) if n == 1]
    several = [right for n, right in zip(sparse.answers, sparse.right) if n > 1]
    accuracy = [100 * sum(part) / max(1, len(part)) for part in (one, several)]
    return Outcome(
        [
            finds(
                f"epochs until F1 reaches {_GOOD}: CRF, squared norm, perceptron",
                "fewer with smooth losses",
                ", ".join(map(str, epochs.values())),
                max(epochs["crf"], epochs["l2"]) < epochs["perceptron"],
            ),
            at_least("share of sentences with one answer left, squared norm", 0.2, len(one) / len(sparse.answers)),
            at_most("mean number of answers left", 20, sum(sparse.answers) / len(sparse.answers)),
            finds(
                "sentences without a mistake where one answer is left, where several are (percent)",
                "more where one is left",
                f"{accuracy[0]:.1f}, {accuracy[1]:.1f}",
                accuracy[0] > accuracy[1],
            ),
        ]
    )


def _epochs_to(f1: float, curve: list[float]) -> int:
    """Returns after how many epochs a curve reaches `f1`; one more than there are if it does not."""
    return next((epoch for epoch, value in enumerate(curve, start=1) if value >= f1), len(curve) + 1)
