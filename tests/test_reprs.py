"""What a layer or a loss prints is what it holds: sizes, normalizer, structure, whatever was chosen."""

import inspect

import pytest
import torch
from public_names import public_names
from torch import nn

import omegamax as om

FUSED, OSCAR = om.Fused(strength=0.37), om.Oscar(strength=0.53)
TSALLIS = om.Tsallis(alpha=1.7)
STACK = {"n_layers": 2, "n_heads": 3, "hidden_size": 19, "normalizer": FUSED}

# How each is made, and what must be seen in its repr.
MODULES = {
    "Additive": (lambda: om.Additive(5, 7, 11), "5 7 11"),
    "AdjacentEmbeddings": (
        lambda: om.attention.AdjacentEmbeddings(31, 7, n_hops=5, max_sentences=13),
        "31 7 n_hops=5 13",
    ),
    "Attention": (lambda: om.Attention(om.Bilinear(5, 7), normalizer=FUSED, dropout=0.2), "Bilinear(5, 7 0.37 0.2"),
    "Bilinear": (lambda: om.Bilinear(5, 7), "5 7"),
    "CausalTransformer": (lambda: om.CausalTransformer(31, 6, **STACK), "31 6 3 19 0.37"),
    "ChainNormalizer": (lambda: om.attention.ChainNormalizer(TSALLIS), "Chain() 1.7"),
    "CopyHead": (lambda: om.attention.CopyHead(5, 7, 11, 31, hidden_size=13, normalizer=FUSED), "5 7 31 13 0.37"),
    "Cosine": (lambda: om.Cosine(2.5), "2.5"),
    "CoverageAttention": (
        lambda: om.attention.CoverageAttention(5, 7, 11, max_fertility=2.5, normalizer=FUSED),
        "5 7 11 2.5 0.37",
    ),
    "CTCHead": (lambda: om.attention.CTCHead(5, 31, blank=3, regularizer=TSALLIS), "5 31 blank=3 1.7"),
    "DNCMemory": (
        lambda: om.attention.DNCMemory(5, n_slots=11, width=7, n_reads=2, normalizer=FUSED),
        "5 11 7 n_reads=2 0.37",
    ),
    "DotProduct": (om.DotProduct, "DotProduct"),
    "DrawAttention": (lambda: om.attention.DrawAttention(11, patch_size=7), "11 7"),
    "GaussianMixtureAttention": (lambda: om.attention.GaussianMixtureAttention(5, 7, normalizer=FUSED), "5 7 0.37"),
    "GlimpseSensor": (lambda: om.attention.GlimpseSensor(patch_size=7, n_scales=5, scale=3), "7 5 3"),
    "GridAttention": (
        lambda: om.attention.GridAttention(om.Bilinear(5, 7), normalizer=FUSED, dropout=0.2),
        "5 7 0.37 0.2",
    ),
    "HardAttention": (
        lambda: om.HardAttention(om.Bilinear(5, 7), normalizer=FUSED, estimator=om.attention.Reinforce(n_samples=13)),
        "5 7 0.37 13",
    ),
    "KeyValueMemory": (
        lambda: om.attention.KeyValueMemory(7, n_hops=5, score=om.Cosine(2.5), normalizer=FUSED),
        "7 n_hops=5 2.5 0.37",
    ),
    "LayerWiseEmbeddings": (
        lambda: om.attention.LayerWiseEmbeddings(31, 7, n_hops=5, max_sentences=13),
        "31 7 n_hops=5 13",
    ),
    "AdaptiveLogLength": (
        lambda: om.attention.AdaptiveLogLength(3, beta=0.2, delta=0.7),
        "exponent=<(3, 1, 1)> delta=0.7 beta Above",
    ),
    "LengthScaled": (
        lambda: om.attention.LengthScaled(FUSED, om.attention.LogLength(3)),
        "0.37 scale LogLength (3, 1, 1)",
    ),
    "LogLength": (lambda: om.attention.LogLength(s=0.25), "s=0.25"),
    "LearnedPositions": (lambda: om.attention.LearnedPositions(31, 7), "31 7"),
    "LocationAware": (
        lambda: om.attention.LocationAware(5, 7, 11, n_filters=13, width=17, normalizer=FUSED),
        "5 7 11 13 17 0.37",
    ),
    "LinearStart": (lambda: om.attention.LinearStart(FUSED, 23), "0.37 23"),
    "HopfieldMemory": (
        lambda: om.attention.HopfieldMemory(normalizer=FUSED, gamma=0.3, n_steps=7),
        "0.37 gamma=0.3 n_steps=7",
    ),
    "Marginalize": (om.attention.Marginalize, "Marginalize"),
    "MemoryController": (
        lambda: om.attention.MemoryController(5, 7, om.attention.TuringMemory(9, n_slots=11, width=13)),
        "5 7 9 11 13",
    ),
    "MemoryNetwork": (
        lambda: om.attention.MemoryNetwork(
            om.attention.LayerWiseEmbeddings(31, 7), encoding=om.attention.PositionEncoding(), normalizer=FUSED
        ),
        "31 7 PositionEncoding 0.37",
    ),
    "MixedAttention": (
        lambda: om.attention.MixedAttention(
            om.Bilinear(5, 7), om.attention.GaussianMixtureAttention(5, 3), normalizer=FUSED
        ),
        "5 7 3 0.37",
    ),
    "MonotonicAttention": (
        lambda: om.attention.MonotonicAttention(om.Bilinear(5, 7), regularizer=TSALLIS, noise=0.3),
        "5 7 1.7 0.3",
    ),
    "MovingAverage": (lambda: om.attention.MovingAverage(0.73), "0.73"),
    "MultiheadAttention": (lambda: om.MultiheadAttention(6, 3, normalizer=FUSED), "6 3 0.37"),
    "NTMHead": (
        lambda: om.attention.NTMHead(5, 7, n_heads=2, max_shift=3, normalizer=FUSED, shift_normalizer=OSCAR),
        "5 7 n_heads=2 max_shift=3 0.37 0.53",
    ),
    "OthersMean": (lambda: om.attention.OthersMean(), "OthersMean()"),
    "PointerHead": (lambda: om.attention.PointerHead(om.Bilinear(5, 7), normalizer=FUSED), "5 7 0.37"),
    "Reinforce": (lambda: om.attention.Reinforce(n_samples=7, reward_scale=0.3, entropy_bonus=0.7), "7 0.3 0.7"),
    "ScaledDotProduct": (lambda: om.ScaledDotProduct(0.3), "0.3"),
    "SinusoidalPositions": (lambda: om.attention.SinusoidalPositions(123.0), "123"),
    "SoftStart": (lambda: om.attention.SoftStart(om.attention.Reinforce(n_samples=7), 23), "7 23"),
    "SometimesSoft": (
        lambda: om.attention.SometimesSoft(om.attention.StraightThrough(n_samples=7), probability=0.3),
        "7 0.3",
    ),
    "StraightThrough": (lambda: om.attention.StraightThrough(n_samples=7), "7"),
    "Transformer": (
        lambda: om.Transformer(31, 6, source_vocabulary_size=37, cross_normalizer=OSCAR, **STACK),
        "31 37 6 3 19 0.37 0.53",
    ),
    "TransformerDecoder": (lambda: om.TransformerDecoder(6, cross_normalizer=OSCAR, **STACK), "6 3 19 0.37 0.53"),
    "TransformerEncoder": (lambda: om.TransformerEncoder(6, **STACK), "6 3 19 0.37"),
    "TreeNormalizer": (lambda: om.attention.TreeNormalizer(om.SparseMAP(om.Arborescence())), "SparseMAP Arborescence"),
    "TuringMemory": (
        lambda: om.attention.TuringMemory(
            5, n_slots=11, width=7, n_reads=2, n_writes=3, max_shift=4, normalizer=FUSED, shift_normalizer=OSCAR
        ),
        "5 11 7 n_reads=2 n_writes=3 max_shift=4 0.37 0.53",
    ),
    "CRFLoss": (lambda: om.CRFLoss(om.Chain(), "sum", gamma=0.3), "Chain() 'sum' gamma=0.3"),
    "CTCLoss": (lambda: om.CTCLoss(3, "sum", True, regularizer=TSALLIS), "3 'sum' True 1.7"),
    "Entmax15Loss": (lambda: om.Entmax15Loss(reduction="sum", gamma=0.3), "'sum' gamma=0.3"),
    "EntmaxLoss": (lambda: om.EntmaxLoss(1.7, gamma=0.3, ignore_index=-7), "alpha=1.7 gamma=0.3 ignore_index=-7"),
    "FenchelYoungLoss": (
        lambda: om.FenchelYoungLoss(FUSED, "sum", dim=1, label_smoothing=0.2),
        "0.37 'sum' dim=1 label_smoothing=0.2",
    ),
    "FusedmaxLoss": (lambda: om.FusedmaxLoss(0.37, reduction="sum"), "strength=0.37 'sum'"),
    "GroupmaxLoss": (lambda: om.GroupmaxLoss([0, 0, 1], 0.37), "strength=0.37 (0, 0, 1)"),
    "MarginLoss": (lambda: om.MarginLoss(om.Smoothed(om.Chain(), TSALLIS), margin=0.3), "Chain() 1.7 margin=0.3"),
    "PartialLoss": (lambda: om.PartialLoss(om.Smoothed(om.Chain(), TSALLIS), "sum"), "Chain() 1.7 'sum'"),
    "MarginSparseMAPLoss": (lambda: om.MarginSparseMAPLoss(om.Matching(), margin=0.3), "Matching() margin=0.3"),
    "OscarmaxLoss": (lambda: om.OscarmaxLoss(0.53), "strength=0.53"),
    "PerceptronLoss": (lambda: om.PerceptronLoss(om.Chain(), "sum"), "Chain() 'sum'"),
    "SoftDTWDivergenceLoss": (
        lambda: om.SoftDTWDivergenceLoss(0.3, "sum", band=om.structures.SakoeChiba(5)),
        "gamma=0.3 'sum' SakoeChiba(width=5)",
    ),
    "SoftDTWLoss": (
        lambda: om.SoftDTWLoss(0.3, "sum", regularizer=TSALLIS, band=om.structures.SakoeChiba(5)),
        "gamma=0.3 'sum' 1.7 SakoeChiba(width=5)",
    ),
    "SoftmaxLoss": (lambda: om.SoftmaxLoss(gamma=0.3, weight=torch.ones(5)), "gamma=0.3 weight=<(5,)>"),
    "SparseMAPLoss": (lambda: om.SparseMAPLoss(om.Matching(), "sum"), "Matching() 'sum'"),
    "SparsemaxLoss": (lambda: om.SparsemaxLoss(gamma=0.3), "gamma=0.3"),
    "NormmaxLoss": (lambda: om.NormmaxLoss(1.7), "alpha=1.7"),
    "SqPNormMaxLoss": (lambda: om.SqPNormMaxLoss(1.7), "p=1.7"),
    "CRF": (lambda: om.CRF(7, regularizer=TSALLIS), "7 1.7"),
    "Above": (lambda: om.Above(1.0, start=1.5, shape=(4, 1, 1)), "1.0 (4, 1, 1)"),
    "Entmax": (lambda: om.Entmax(1, alpha=1.7, gamma=0.3), "dim=1 1.7 0.3"),
    "Entmax15": (lambda: om.Entmax15(1, gamma=0.3), "dim=1 0.3"),
    "Fusedmax": (lambda: om.Fusedmax(strength=0.37, gamma=0.3), "0.37 0.3"),
    "Groupmax": (lambda: om.Groupmax(groups=[0, 0, 1], strength=0.37), "0.37 (0, 0, 1)"),
    "Hardmax": (lambda: om.Hardmax(1), "dim=1"),
    "Oscarmax": (lambda: om.Oscarmax(strength=0.53), "0.53"),
    "Softmax": (lambda: om.Softmax(1, gamma=0.3), "dim=1 0.3"),
    "Sparsemax": (lambda: om.Sparsemax(1, gamma=0.3), "dim=1 0.3"),
    "Normmax": (lambda: om.Normmax(alpha=1.7), "1.7"),
    "SqPNormMax": (lambda: om.SqPNormMax(p=1.7), "1.7"),
}


def pieces(text):
    """Words, where brackets and quotes keep what is inside together."""
    found, depth, word = [], 0, ""
    for letter in text + " ":
        depth += (letter in "([") - (letter in ")]")
        if letter == " " and depth <= 0:
            found.append(word)
            word, depth = "", 0
        else:
            word += letter
    return found


@pytest.mark.parametrize("name", MODULES)
def test_repr_shows_what_it_holds(name):
    make, seen = MODULES[name]
    text = repr(make())
    missing = [piece for piece in pieces(seen) if piece not in text]
    assert not missing, f"{missing} not in\n{text}"


def test_every_public_module_is_in_the_table():
    layers = {
        name.rpartition(".")[2]
        for name, thing in public_names().items()
        if inspect.isclass(thing) and issubclass(thing, nn.Module) and not inspect.isabstract(thing)
        if not name.startswith("models.")
    }
    assert set(MODULES) == layers


def test_what_is_built_of_much_is_shown_in_few_words():
    edges = [(tail, tail + 1) for tail in range(200)]
    assert repr(om.Dag.from_edges(edges)) == "Dag(n_nodes=201, n_edges=200, goal=200)"
    builder = om.FactorGraphBuilder()
    builder.xor(builder.binary("x", 30))
    assert repr(builder.build()) == "FactorGraph(x: 30 variables, 1 factors)"
    attention = om.Attention(normalizer=om.GroupLasso([0] * 1000))
    assert "GroupLasso(groups=(0, 0" in repr(attention) and len(repr(attention)) < 400
