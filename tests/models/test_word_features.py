"""Features of words: padding changes nothing, and every part is where it should be."""

import pytest
import torch

from omegamax.models import CharacterCNN, CharacterLSTM, WordFeatures
from omegamax.models.sequence_tagger import SequenceTagger, SharedDropout, WordReader
from omegamax.models.word_features import AFFIX_ROWS, N_AFFIXES, word_affixes
from omegamax.recipes.word_inputs import WordInputs
from omegamax.structures.tagging_scheme import allowed_transitions

SENTENCES = [("Ada", "met", "a", "extraordinarily", "Bo"), ("Bo",), (), ("unknown",)]


@pytest.fixture(params=["lstm", "cnn", "none"])
def features(request):
    torch.manual_seed(0)
    inputs = WordInputs.of(SENTENCES[:2])
    kinds = {"lstm": CharacterLSTM, "cnn": CharacterCNN}
    characters = kinds[request.param](len(inputs.letters), 6) if request.param in kinds else None
    return inputs, WordFeatures(len(inputs.words), 5, characters=characters, affix_size=4, word_dropout=0.5).double()


def test_a_word_has_the_same_features_in_any_batch(features):
    inputs, model = features
    model.eval()
    together = model(inputs.batch(SENTENCES))
    assert together.shape == (4, 5, model.size)
    for place, sentence in enumerate(SENTENCES):
        alone = model(inputs.batch([sentence]))[0]
        torch.testing.assert_close(together[place, : len(alone)], alone)


def test_words_are_forgotten_in_training_only(features):
    inputs, model = features
    batch = inputs.batch([("Ada",) * 200])
    torch.manual_seed(1)
    forgotten = (model.train()(batch)[0, :, :5] == model.words.weight[1]).all(-1).double().mean()
    assert 0.35 < forgotten < 0.65
    assert not (model.eval()(batch)[0, :, :5] == model.words.weight[1]).all(-1).any()


def test_vectors_are_copied_into_the_table(features):
    _, model = features
    model.load_vectors(torch.tensor([4, 5]), torch.ones(2, 5))
    assert (model.words.weight[4:6] == 1).all() and not (model.words.weight[6] == 1).any()
    with pytest.raises(ValueError, match="vectors have 3 features, but there is 5 features"):
        model.load_vectors(torch.tensor([4]), torch.ones(1, 3))


def test_affixes_are_the_same_on_every_machine():
    assert word_affixes("Rain") == [1884, 1825, 575, 1111, 1919, 299]
    rows = [word_affixes(word) for word in ("", "a", "Ω", "\ud800", "x" * 1000)]
    assert all(len(row) == N_AFFIXES and 0 <= min(row) <= max(row) < AFFIX_ROWS for row in rows)
    assert word_affixes("Rain")[0] == word_affixes("rail")[0] and word_affixes("Rain")[4] != word_affixes("rain")[4]


def test_shared_dropout_leaves_out_whole_features():
    torch.manual_seed(0)
    layer = SharedDropout(0.5)
    states = layer(torch.ones(40, 7, 30))
    assert (states == states[:, :1]).all() and set(states.unique().tolist()) == {0.0, 2.0}
    assert abs(states.mean() - 1) < 0.1
    assert (layer.eval()(torch.ones(2, 3, 4)) == 1).all()


@pytest.mark.parametrize("n_layers", [0, 2])
def test_a_tagger_scores_each_sentence_by_itself(n_layers):
    inputs = WordInputs.of(SENTENCES)
    features = WordFeatures(len(inputs.words), 5, characters=CharacterCNN(len(inputs.letters), 6))
    reader = WordReader(features, hidden_size=8, n_layers=n_layers)
    tags = ["O", "B-x", "I-x"]
    tagger = SequenceTagger(reader, 3, allowed=allowed_transitions(tags, "BIO")).double().eval()
    batch = inputs.batch(SENTENCES[:2])
    together = tagger(batch, None, batch.lengths)
    one = inputs.batch(SENTENCES[1:2])
    torch.testing.assert_close(together.emissions[1, :1], tagger(one, None, one.lengths).emissions[0])
    assert together.transitions[0, 2] == -torch.inf and together.start[2] == -torch.inf


def test_wrong_sizes_are_named():
    with pytest.raises(ValueError, match="CharacterLSTM: size must be even"):
        CharacterLSTM(5, 3)
    with pytest.raises(ValueError, match="CharacterCNN: size must be at least 3"):
        CharacterCNN(5, 2)
    with pytest.raises(ValueError, match="features or encoder must be given"):
        WordReader(None)
