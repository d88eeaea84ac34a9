"""Models of sentence pairs: plain attention by hand, padding, removed words, gradients."""

import pytest
import torch

import omegamax as om
from omegamax.models import (
    ESIM,
    AttentiveLSTM,
    DecomposableAttention,
    MatchingAligner,
    PairBatch,
    PairClassifier,
    RowAligner,
    SequenceAligner,
    WordBatch,
    WordByWordLSTM,
    WordFeatures,
)
from omegamax.models.sequence_tagger import WordReader

ALIGNERS = {
    "softmax": lambda **options: RowAligner(om.Shannon(), **options),
    "fusedmax": lambda **options: RowAligner(om.Fused(0.1), **options),
    "matching": lambda **options: MatchingAligner(**options),
    "sequence": lambda **options: SequenceAligner(**options),
}
MODELS = {
    "lstm": lambda: AttentiveLSTM(
        5, 3, attention=om.Attention(om.Additive(6, 6), normalizer=om.SquaredNorm()), hidden_size=6
    ),
    "word by word": lambda: WordByWordLSTM(5, 3, normalizer=om.SquaredNorm(), hidden_size=6),
    "lstm none": lambda: AttentiveLSTM(5, 3, attention=None, hidden_size=6),
    **{
        f"{kind.__name__} {name} {options}": lambda kind=kind, name=name, options=options: kind(
            5, 3, aligner=ALIGNERS[name](**options), hidden_size=6
        )
        for kind in (DecomposableAttention, ESIM)
        for name in ALIGNERS
        for options in ({}, {"null": True, "both_ways": False})
    },
}


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]().double().eval()


def pairs():
    return (
        torch.randn(3, 6, 5).double(),
        torch.randn(3, 4, 5).double(),
        torch.tensor([6, 2, 5]),
        torch.tensor([1, 4, 3]),
    )


def test_padding_changes_nothing(model):
    premise, hypothesis, p, h = pairs()
    logits, alignment = model(premise, hypothesis, p, h)
    wild = [premise.clone(), hypothesis.clone()]
    for words, lengths in zip(wild, (p, h)):
        for row, length in zip(words, lengths):
            row[length:] = 1e3
    torch.testing.assert_close(model(*wild, p, h).logits, logits)
    for item in range(3):
        one = slice(item, item + 1)
        alone = model(premise[one, : p[item]], hypothesis[one, : h[item]], p[one], h[one])
        torch.testing.assert_close(alone.logits[0], logits[item])
        if alignment is not None:
            weights = alignment.hypothesis.weights[item]
            assert not weights[:, p[item] :].any()
            torch.testing.assert_close(alone.alignment.hypothesis.weights[0], weights[: h[item], : p[item]])


def test_gradients_reach_every_parameter(model):
    logits, _ = model(*pairs())
    for name, parameter in model.named_parameters():
        assert logits.dtype == torch.float64 and parameter.requires_grad, name
    torch.nn.functional.cross_entropy(logits, torch.tensor([0, 1, 2])).backward()
    assert all(parameter.grad is not None and bool(parameter.grad.isfinite().all()) for parameter in model.parameters())


def test_the_attentive_lstm_by_hand():
    attention = om.Attention(om.Additive(6, 6), normalizer=om.Shannon())
    model = AttentiveLSTM(5, 3, attention=attention, hidden_size=6).double()
    premise, hypothesis = torch.randn(1, 4, 5).double(), torch.randn(1, 3, 5).double()
    found = model(premise, hypothesis, torch.tensor([4]), torch.tensor([3]))
    states, last = model.of_premise(premise)
    query = model.of_hypothesis(hypothesis, last)[0][0, -1]
    score = attention.score
    scores = torch.stack([score.out((score.of_query(query) + score.of_key(state)).tanh())[0] for state in states[0]])
    weights = scores.softmax(0)
    read = sum(weight * state for weight, state in zip(weights, states[0]))
    logits = model.out(model.combine(torch.cat([read, query])).tanh())
    torch.testing.assert_close(found.alignment.hypothesis.weights[0, 0], weights)
    torch.testing.assert_close(found.logits[0], logits)


def test_word_by_word_attention_by_hand():
    model = WordByWordLSTM(5, 3, normalizer=om.SquaredNorm(), hidden_size=6).double().eval()
    premise, hypothesis = torch.randn(1, 4, 5).double(), torch.randn(1, 3, 5).double()
    logits, alignment = model(premise, hypothesis, torch.tensor([4]), torch.tensor([3]))
    states, last = model.of_premise(premise[0])
    others, _ = model.of_hypothesis(hypothesis[0], last)
    read = torch.zeros(6).double()
    for place in range(3):
        scores = []
        for state in states:
            inside = model.key(state) + model.query.weight @ others[place] + model.read.weight @ read
            scores.append(model.score.weight[0] @ inside.tanh())
        weights = om.sparsemax(torch.stack(scores))
        torch.testing.assert_close(alignment.hypothesis.weights[0, place], weights)
        read = sum(w * s for w, s in zip(weights, states)) + (model.carry.weight @ read).tanh()
    expected = model.out(model.combine(torch.cat([read, others[-1]])).tanh())
    torch.testing.assert_close(logits[0], expected)


def test_decomposable_attention_by_hand():
    model = DecomposableAttention(5, 3, aligner=RowAligner(om.Shannon()), hidden_size=6).double().eval()
    premise, hypothesis = torch.randn(1, 4, 5).double(), torch.randn(1, 3, 5).double()
    found = model(premise, hypothesis, torch.tensor([4]), torch.tensor([3]))
    p, h = model.project(premise[0]), model.project(hypothesis[0])
    scores = torch.stack([torch.stack([model.attend(i) @ model.attend(j) for j in p]) for i in h])
    v1 = sum(model.compare(torch.cat([h[i], scores[i].softmax(0) @ p])) for i in range(3))
    v2 = sum(model.compare(torch.cat([p[j], scores[:, j].softmax(0) @ h])) for j in range(4))
    torch.testing.assert_close(found.logits[0], model.aggregate(torch.cat([v1, v2])))


def test_esim_by_hand():
    model = ESIM(5, 3, aligner=RowAligner(om.Shannon()), hidden_size=6).double().eval()
    premise, hypothesis = torch.randn(1, 4, 5).double(), torch.randn(1, 3, 5).double()
    found = model(premise, hypothesis, torch.tensor([4]), torch.tensor([3]))
    p, h = model.encoder(premise)[0][0], model.encoder(hypothesis)[0][0]
    scores = h @ p.T
    pooled = []
    for words, read in ((p, scores.T.softmax(1) @ h), (h, scores.softmax(1) @ p)):
        compared = model.compare(torch.cat([words, read, words - read, words * read], -1)).relu()
        states = model.composer(compared.unsqueeze(0))[0][0]
        pooled += [states.mean(0), states.max(0).values]
    torch.testing.assert_close(found.logits[0], model.out(model.hidden(torch.cat(pooled)).tanh()))
    torch.testing.assert_close(found.alignment.premise.weights[0], scores.T.softmax(1))


def test_an_odd_size_is_refused():
    with pytest.raises(ValueError, match="ESIM: hidden_size must be even, half for each direction, got 7; use 8"):
        ESIM(5, 3, aligner=MatchingAligner(), hidden_size=7)


def test_the_classifier_splits_premises_from_hypotheses():
    reader = WordReader(WordFeatures(9, 4, affix_size=0), n_layers=0, dropout=0.0)
    model = PairClassifier(reader, AttentiveLSTM(4, 3, attention=None, hidden_size=6)).eval()
    words = torch.randint(2, 9, (4, 5))
    lengths = torch.tensor([5, 3, 2, 4])
    words[torch.arange(5) >= lengths.unsqueeze(1)] = 0
    nothing = torch.zeros(0, dtype=torch.long)
    batch = PairBatch(
        WordBatch(words, words, nothing, nothing, nothing, lengths),
        None,
        lengths[:2],
        lengths[2:],
        torch.zeros(2).long(),
    )
    features = model.norm(reader.features.words(words))
    expected = model.classifier(features[:2], features[2:, :4], lengths[:2], lengths[2:])
    torch.testing.assert_close(model(batch).logits, expected.logits)
