"""Parsers trained with several losses on a generated treebank: SparseMAP's chart of accuracies, in small.

The network is an embedding, a bidirectional LSTM and a biaffine scorer of arcs (Dozat & Manning, 2017); only the loss
differs. The treebank is that of `omegamax train parser`: some of its sentences have two readings that no parser can
tell apart.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

import omegamax as om
from omegamax.data.conllu import ConlluSentence
from omegamax.data.treebank import generate_treebank
from omegamax.models.biaffine import Biaffine
from omegamax.models.bidirectional_lstm import BidirectionalLSTM
from omegamax.reproductions.claim import Outcome, Published, at_most, finds, shown

_TREES = om.Arborescence()
_LOSSES = ("crf", "margin", "sparsemap", "margin-sparsemap")
_N_TRAIN, _N_TEST, _EPOCHS, _BATCH = 400, 100, 4, 20
_WITHIN = 2.0  # points of UAS


class _Batch(NamedTuple):
    words: Tensor  # (B, N + 1): numbers of words; the first is the root
    heads: Tensor  # (B, N); −1 beyond the length
    lengths: Tensor  # (B,)


class _Trained(NamedTuple):
    uas: float  # percent, of the test sentences
    trees_by_epoch: list[float]  # mean number of trees that SparseMAP keeps
    one_tree: float  # percent of sentences with a single one, after training
    uas_one_tree: float  # percent, of those
    uas_several_trees: float


class _Network(nn.Module):
    """Scores (B, N + 1, N + 1) of arcs for sentences of numbered words."""

    def __init__(self, n_words: int) -> None:
        super().__init__()
        self.words = nn.Embedding(n_words, 32)
        self.lstm = BidirectionalLSTM(32, 32, n_layers=1, dropout=0.0)
        self.heads, self.modifiers = (nn.Linear(self.lstm.out_features, 32) for _ in range(2))
        self.arcs = Biaffine(32)

    def forward(self, batch: _Batch) -> Tensor:
        states = self.lstm(self.words(batch.words), batch.lengths + 1)
        scores: Tensor = self.arcs(self.heads(states).relu(), self.modifiers(states).relu())
        return scores


@cache
def _train(loss_name: str) -> _Trained:
    """Trains a parser with one of the losses, from the same beginning and in the same order as the others."""
    train, test = _batches()
    loss = _loss(loss_name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = _Network(1 + max(int(batch.words.max()) for batch in (*train, test)))
        optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
        sizes = []
        for _ in range(_EPOCHS):
            for batch in train:
                optimizer.zero_grad()
                (loss(network(batch), batch.heads, lengths=batch.lengths) / len(batch.heads)).backward()
                optimizer.step()
            if loss_name == "sparsemap":
                sizes.append(float(_n_trees(network, test).double().mean()))
    with torch.no_grad():
        best = _TREES.heads(_TREES.map(network(test), lengths=test.lengths))
    right, n_words = ((best == test.heads) & (test.heads >= 0)).sum(-1), test.lengths
    one = _n_trees(network, test) == 1
    shares = [100 * float(right[kept].sum() / n_words[kept].sum()) for kept in (one | True, one, ~one)]
    return _Trained(shares[0], sizes, 100 * float(one.double().mean()), shares[1], shares[2])


def _loss(name: str) -> nn.Module:
    # A new network scores all trees alike, where SparseMAP's exact mean is one of very many trees: a small gap is near.
    near = om.SparseMAP(_TREES, atol=0.01)
    losses: dict[str, nn.Module] = {
        "crf": om.CRFLoss(_TREES, reduction="sum"),
        "margin": om.MarginLoss(_TREES, reduction="sum"),
        "sparsemap": om.FenchelYoungLoss(near, reduction="sum"),
        "margin-sparsemap": om.MarginLoss(near, reduction="sum"),
    }
    return losses[name]


def _n_trees(network: _Network, test: _Batch) -> Tensor:
    with torch.no_grad():
        return (_TREES.sparsemap(network(test), lengths=test.lengths).probabilities > 0).sum(-1)


@cache
def _batches() -> tuple[tuple[_Batch, ...], _Batch]:
    """Generates the treebank; returns the batches of training and one of test."""
    train = generate_treebank(_N_TRAIN, "train")
    known = {word: number for number, word in enumerate(sorted({w for s in train for w in s.forms}), start=2)}
    parts = [train[start : start + _BATCH] for start in range(0, len(train), _BATCH)]
    return tuple(_batch(part, known) for part in parts), _batch(generate_treebank(_N_TEST, "test"), known)


def _batch(sentences: list[ConlluSentence], known: dict[str, int]) -> _Batch:
    words = [torch.tensor([0, *(known.get(word, 1) for word in sentence.forms)]) for sentence in sentences]
    heads = [torch.tensor(sentence.heads) for sentence in sentences]
    lengths = torch.tensor([len(sentence.forms) for sentence in sentences])
    return _Batch(
        pad_sequence(words, batch_first=True), pad_sequence(heads, batch_first=True, padding_value=-1), lengths
    )


def losses_side_by_side(published: Published) -> Outcome:
    """All losses reach a similar accuracy, SparseMAP too."""
    found = {name: _train(name).uas for name in _LOSSES}
    rows = [shown(f"UAS, {name}, generated treebank", f"{uas:.1f}") for name, uas in found.items()]
    best = max(found.values())
    return Outcome([*rows, at_most("points from SparseMAP to the best loss", _WITHIN, best - found["sparsemap"])])


def inference_gets_sparser(published: Published) -> Outcome:
    """As a parser trains with SparseMAP, fewer trees are left; where one is left, it is more often right."""
    found = _train("sparsemap")
    sizes = found.trees_by_epoch
    return Outcome(
        [
            finds(
                f"mean number of trees after each of {_EPOCHS} epochs",
                "falls",
                ", ".join(f"{size:.1f}" for size in sizes),
                sizes == sorted(sizes, reverse=True),
            ),
            shown("sentences with one tree after training, percent", f"{found.one_tree:.0f}"),
            finds(
                "UAS where one tree is left, where several are",
                "higher where one is left",
                f"{found.uas_one_tree:.1f}, {found.uas_several_trees:.1f}",
                found.uas_one_tree > found.uas_several_trees,
            ),
        ]
    )
