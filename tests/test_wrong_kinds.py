"""A name, a class or a function where an object belongs is refused when it is given, and the message has the object."""

import inspect

import pytest
import torch
from public_names import public_names
from torch import nn

import omegamax as om
from omegamax import registry, wrong_kinds

ROWS, SERIES = torch.zeros(2, 3), torch.zeros(1, 2, 1)
CHAIN = torch.zeros(3, 2, 2)
TAGS = ["O", "B-x"]
ONE = torch.zeros(1, 1)
TAKES_NORMALIZER = {
    "sparse_attention": lambda n: om.sparse_attention(ONE, ONE, ONE, n),
    "sparse_attention_with_weights": lambda n: om.sparse_attention_with_weights(ONE, ONE, ONE, n),
    "sharded_attention": lambda n: om.attention.sharded_attention(ONE, ONE, ONE, n),
    "attention_over_heads": lambda n: om.attention.attention_over_heads(ONE, ONE, ONE, n),
    "Attention": lambda n: om.Attention(om.DotProduct(), normalizer=n),
    "RowAligner": lambda n: om.models.RowAligner(n),
    "WordByWordLSTM": lambda n: om.models.WordByWordLSTM(4, 3, normalizer=n),
    "CopyHead": lambda n: om.attention.CopyHead(4, 4, 4, 5, normalizer=n),
    "CoverageAttention": lambda n: om.attention.CoverageAttention(4, 4, 4, normalizer=n),
    "DNCMemory": lambda n: om.attention.DNCMemory(4, n_slots=4, width=4, normalizer=n),
    "GaussianMixtureAttention": lambda n: om.attention.GaussianMixtureAttention(4, 2, normalizer=n),
    "GridAttention": lambda n: om.attention.GridAttention(om.DotProduct(), normalizer=n),
    "HardAttention": lambda n: om.HardAttention(om.DotProduct(), normalizer=n),
    "HopfieldMemory": lambda n: om.attention.HopfieldMemory(normalizer=n),
    "KeyValueMemory": lambda n: om.attention.KeyValueMemory(4, normalizer=n),
    "LengthScaled": lambda n: om.attention.LengthScaled(n),
    "LinearStart": lambda n: om.attention.LinearStart(n, 10),
    "LocationAware": lambda n: om.attention.LocationAware(4, 4, 4, normalizer=n),
    "MemoryNetwork": lambda n: om.attention.MemoryNetwork(om.attention.LayerWiseEmbeddings(5, 4), normalizer=n),
    "MixedAttention": lambda n: om.attention.MixedAttention(
        om.DotProduct(), om.attention.GaussianMixtureAttention(4, 2), normalizer=n
    ),
    "MultiheadAttention": lambda n: om.MultiheadAttention(4, 2, normalizer=n),
    "NTMHead": lambda n: om.attention.NTMHead(4, 4, normalizer=n),
    "PointerHead": lambda n: om.attention.PointerHead(om.DotProduct(), normalizer=n),
    "TuringMemory": lambda n: om.attention.TuringMemory(4, n_slots=4, width=4, normalizer=n),
}
TAKES_REGULARIZER = {
    "CRF": lambda n: om.CRF(3, regularizer=n),
    "ChainNormalizer": lambda n: om.attention.ChainNormalizer(n),
    "CTCHead": lambda n: om.attention.CTCHead(4, 5, regularizer=n),
    "CTCLoss": lambda n: om.CTCLoss(regularizer=n),
    "FenchelYoungClassifier": lambda n: om.estimators.FenchelYoungClassifier(n).fit([[0.0], [1.0]], [0, 1]),
    "FenchelYoungLoss": lambda n: om.FenchelYoungLoss(n),
    "MarginLoss": lambda n: om.MarginLoss(n),
    "PartialLoss": lambda n: om.PartialLoss(n),
    "MonotonicAttention": lambda n: om.attention.MonotonicAttention(om.DotProduct(), regularizer=n),
    "Scaled": lambda n: om.Scaled(n),
    "Smoothed": lambda n: om.Smoothed(om.Chain(), n),
    "SoftDTWLoss": lambda n: om.SoftDTWLoss(regularizer=n),
    "ctc_loss": lambda n: om.ctc_loss(torch.zeros(4, 1, 3), torch.tensor([[1]]), (4,), (1,), regularizer=n),
    "edit_distance": lambda n: om.edit_distance(torch.tensor([[1]]), torch.tensor([[1]]), regularizer=n),
    "fenchel_young_loss": lambda n: om.fenchel_young_loss(ROWS, torch.tensor([0, 1]), n),
    "gate": lambda n: om.gate(ROWS, n),
    "gumbel_argmax": lambda n: om.gumbel_argmax(ROWS, n),
    "smooth_argmax": lambda n: om.smooth_argmax(ROWS, n),
    "smooth_max": lambda n: om.smooth_max(ROWS, n),
    "soft_quantile": lambda n: om.soft_quantile(ROWS, 0.5, regularizer=n),
    "soft_rank": lambda n: om.soft_rank(ROWS, regularizer=n),
    "soft_sort": lambda n: om.soft_sort(ROWS, regularizer=n),
    "soft_topk_mask": lambda n: om.soft_topk_mask(ROWS, 1, regularizer=n),
    "soft_dtw": lambda n: om.soft_dtw(SERIES, SERIES, regularizer=n),
    "soft_dtw_alignment": lambda n: om.soft_dtw_alignment(SERIES, SERIES, regularizer=n),
    "soft_dtw_barycenter": lambda n: om.soft_dtw_barycenter(torch.zeros(3, 2, 1), regularizer=n),
    "soft_dtw_divergence": lambda n: om.soft_dtw_divergence(SERIES, SERIES, regularizer=n),
    "soft_dtw_from_costs": lambda n: om.structures.soft_dtw_from_costs(torch.zeros(1, 2, 2), regularizer=n),
    "span_probabilities": lambda n: om.spans.span_probabilities(CHAIN, om.spans.TagReader(TAGS), n),
    "straight_through_argmax": lambda n: om.straight_through_argmax(ROWS, n),
    "Chain.max": lambda n: om.Chain().max(CHAIN, n),
    "Chain.argmax": lambda n: om.Chain().argmax(CHAIN, n),
    "Chain.sample": lambda n: om.Chain().sample(CHAIN, n),
    "Chain.support": lambda n: om.Chain().support(CHAIN, n),
    "Chain.log_prob": lambda n: om.Chain().log_prob(CHAIN, CHAIN, n),
}
TAKES_STRUCTURE = {
    "CRFLoss": om.CRFLoss,
    "PerceptronLoss": om.PerceptronLoss,
    "SparseMAPLoss": om.SparseMAPLoss,
    "MarginSparseMAPLoss": om.MarginSparseMAPLoss,
    "SparseMAP": om.SparseMAP,
    "Smoothed": lambda s: om.Smoothed(s, om.Shannon()),
}
GIVEN = {
    "sparsemax": "om.SquaredNorm()",
    "Fusedmax": "om.Fused(strength)",
    "soft_max": "om.Shannon()",
    om.sparsemax: "om.SquaredNorm()",
    torch.softmax: "om.Shannon()",
    om.Tsallis: "om.Tsallis(...)",
}


@pytest.mark.parametrize("name", [*TAKES_NORMALIZER, *TAKES_REGULARIZER])
@pytest.mark.parametrize("given", GIVEN, ids=lambda given: getattr(given, "__name__", given))
def test_the_message_names_the_object(name, given):
    make = {**TAKES_NORMALIZER, **TAKES_REGULARIZER}[name]
    with pytest.raises(TypeError) as caught:
        make(given)
    assert f"use {GIVEN[given]}" in str(caught.value)
    kind = f"string {given!r}" if isinstance(given, str) else given.__name__
    assert kind in str(caught.value)


def test_layers_of_pytorch():
    with pytest.raises(TypeError, match=r"got Softmax; use om\.Shannon\(\)"):
        om.Attention(normalizer=nn.Softmax(-1))
    with pytest.raises(TypeError, match=r"got NoneType; use for example om\.SquaredNorm\(\)"):
        om.Attention(normalizer=None)


@pytest.mark.parametrize("name", TAKES_STRUCTURE)
def test_structures(name):
    make = TAKES_STRUCTURE[name]
    with pytest.raises(TypeError, match=r"structure must be a Structure, got the string 'chain'; use for example om"):
        make("chain")
    with pytest.raises(TypeError, match=r"structure must be a Structure, got the class Chain; use om\.Chain\(\.\.\.\)"):
        make(om.Chain)
    with pytest.raises(TypeError, match="TreeNormalizer: smooth must be over ProjectiveTree or Arborescence, got the"):
        om.attention.TreeNormalizer("sparsemax")


def test_every_public_taker_is_in_the_table():
    for argument, table in (("normalizer", TAKES_NORMALIZER), ("regularizer", TAKES_REGULARIZER)):
        for name, thing in public_names().items():
            if (
                not callable(thing)
                or inspect.isabstract(thing)
                or (isinstance(thing, type) and issubclass(thing, tuple))
            ):
                continue
            if argument in inspect.signature(thing).parameters:
                assert name.rpartition(".")[2] in table, name


def test_the_objects_are_those_of_the_names():
    stand_in = {"alpha": 1.3, "p": 1.5, "strength": 0.1, "groups": [0, 1], "om": om}
    assert set(wrong_kinds.OBJECTS) == set(registry.OPERATORS)
    for name, code in wrong_kinds.OBJECTS.items():
        options = {"groups": [0, 1]} if name == "groupmax" else {}
        assert type(eval(code, stand_in)) is type(registry.regularizer(name, **options))
