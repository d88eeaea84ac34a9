"""Models that read and write: teacher forcing is decoding step by step, padding changes nothing, losses are exact."""

import numpy as np
import pytest
import torch

import omegamax as om
from omegamax.models import CopyingLSTM, LSTMEncoderDecoder, TokenDistribution, TransformerEncoderDecoder, beam_search
from omegamax.models.sequence_model import repeat_rows

PADDING = 0
SPARSE = TokenDistribution(om.SquaredNorm())
MODELS = {
    "lstm": lambda **o: LSTMEncoderDecoder(9, 7, embedding_size=5, hidden_size=6, **o),
    "deep lstm": lambda **o: LSTMEncoderDecoder(9, 7, embedding_size=5, hidden_size=6, n_layers=3, **o),
    "copying": lambda distribution=None, **o: CopyingLSTM(9, embedding_size=5, hidden_size=6, **o),
    "transformer": lambda **o: transformer(9, 7, n_layers=2, **o),
    "shared": lambda **o: transformer(None, 9, n_layers=1, **o),
}


def transformer(n_source, n_target, *, normalizer=None, **options):
    """`normalizer` is that of the attention to the source, as the LSTM's is; self-attention has another one."""
    sizes = {"size": 8, "n_heads": 2, "hidden_size": 6, "normalizer": om.Tsallis(1.5)}
    return TransformerEncoderDecoder(n_source, n_target, cross_normalizer=normalizer, **sizes, **options)


@pytest.fixture(params=MODELS)
def make(request):
    return lambda **options: MODELS[request.param](**options).double().eval()


def batch():
    source, lengths = torch.randint(1, 9, (3, 5)), torch.tensor([5, 2, 4])
    target = torch.randint(1, 7, (3, 4))
    target[1, 3:] = PADDING
    return source, lengths, target


@pytest.mark.parametrize("distribution", [TokenDistribution(), SPARSE, TokenDistribution(om.Tsallis(1.5))], ids=str)
def test_teacher_forcing_is_decoding_step_by_step(make, distribution):
    model = make(normalizer=om.Fused(0.1), distribution=distribution)
    source, lengths, target = batch()
    together = model.log_likelihood(source, lengths, target)
    weights = model.attend(source, lengths, target)
    encoded = model.encode(source, lengths)
    state = model.start(encoded)
    for place in range(3):
        log_probs, state, looked = model.step(target[:, place], state, encoded)
        torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(3).double())
        torch.testing.assert_close(log_probs.gather(1, target[:, place + 1 : place + 2]).squeeze(1), together[:, place])
        last = weights[:, place] if weights.dim() == 3 else weights[:, -2:, place].mean(1)  # heads of the last layer
        torch.testing.assert_close(looked, last)
        torch.testing.assert_close(looked.sum(-1), torch.ones(3).double())


def test_padding_changes_nothing(make):
    model = make(normalizer=om.Oscar(0.05), distribution=SPARSE)
    source, lengths, target = batch()
    together = model(source, lengths, target)
    assert together[1, 2] == 0  # padding costs nothing
    weights = model.attend(source, lengths, target)
    wild = torch.where(torch.arange(5) < lengths[:, None], source, 8)
    torch.testing.assert_close(model(wild, lengths, target), together, rtol=0, atol=0)
    for row, (length, size) in enumerate(zip(lengths.tolist(), (4, 3, 4))):
        alone = [source[row : row + 1, :length], lengths[row : row + 1], target[row : row + 1, :size]]
        torch.testing.assert_close(model(*alone), together[row : row + 1, : size - 1])
        assert (weights[row, ..., length:] == 0).all()


def test_gradients_reach_every_parameter(make):
    model = make(normalizer=om.Shannon()).train()
    (-model(*batch()).sum()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


def test_rows_of_a_state_are_taken_by_a_beam_search(make):
    """Three beams find what each item's own search finds, and the best is at least as likely as the greedy one."""
    model = make(normalizer=om.SquaredNorm())
    source, lengths, _ = batch()
    found = {n: search(model, source, lengths, n) for n in (1, 3)}
    assert (found[3].scores[:, 0] >= found[1].scores[:, 0] - 1e-9).all()
    for row, length in enumerate(lengths.tolist()):
        alone = search(model, source[row : row + 1, :length], lengths[row : row + 1], 3)
        assert torch.equal(alone.tokens[0], found[3].tokens[row])
        torch.testing.assert_close(alone.scores[0], found[3].scores[row])
    for row in range(3):  # a score is the log-likelihood of its tokens
        n = int(found[3].lengths[row, 0])
        target = torch.tensor([[1, *found[3].tokens[row, 0, :n].tolist(), *([2] if n < 6 else [])]])
        total = model.log_likelihood(source[row : row + 1], lengths[row : row + 1], target).sum()
        assert total.item() == pytest.approx(found[3].scores[row, 0].item(), rel=1e-5)


def search(model, source, lengths, n_beams):
    with torch.no_grad():
        encoded = model.encode(source, lengths)
        repeated = repeat_rows(encoded, n_beams)
        return beam_search(
            lambda token, state: model.step(token, state, repeated),
            model.start(encoded),
            n_items=len(source),
            n_beams=n_beams,
            start=1,
            end=2,
            max_length=6,
            length_penalty=0.0,
        )


def numpy_lstm_step(model, token, fed, hidden, cell, states, length, divisor):
    """One step of the decoder as the paper writes it, for one item, without anything of ours but parameters."""

    def value(name):
        return model.get_parameter(name).detach().numpy()

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    embedded = value("target_embedding.weight")[token]
    inputs = np.concatenate([fed, hidden])
    gates = value("cells.0.linear.weight") @ inputs + value("cells.0.linear.bias") + value("of_token.weight") @ embedded
    enter, forget, new, leave = np.split(gates, 4)
    cell = sigmoid(forget) * cell + sigmoid(enter) * np.tanh(new)
    hidden = sigmoid(leave) * np.tanh(cell)
    scores = states[:length] @ value("key.weight").T @ hidden / divisor
    weights = np.exp(scores - scores.max())
    weights /= weights.sum()
    fed = np.tanh(value("combine.weight") @ np.concatenate([weights @ states[:length], hidden]))
    logits = value("out.weight") @ fed + value("out.bias")
    return logits - np.log(np.exp(logits).sum()), fed, hidden, cell


@pytest.mark.parametrize("scaled", [True, False])
def test_the_decoder_is_luong_s_with_input_feeding(scaled):
    model = MODELS["lstm"](scaled=scaled).double().eval()
    divisor = 6**0.5 if scaled else 1
    source, lengths, target = batch()
    together = model.log_likelihood(source, lengths, target).detach().numpy()
    encoded = model.encode(source, lengths)
    for row in range(3):
        states, hidden, cell = (x[row].detach().numpy() for x in (encoded.states, encoded.hidden[0], encoded.cell[0]))
        fed = np.zeros(6)
        for place in range(3):
            token = int(target[row, place])
            log_probs, fed, hidden, cell = numpy_lstm_step(
                model, token, fed, hidden, cell, states, int(lengths[row]), divisor
            )
            assert together[row, place] == pytest.approx(log_probs[int(target[row, place + 1])])


def test_the_encoder_ends_where_the_text_does():
    """The last state of each direction: that of the last token forward, of the first token backward."""
    model = MODELS["lstm"]().double().eval()
    source, lengths, _ = batch()
    encoded = model.encode(source, lengths)
    for row, length in enumerate(lengths.tolist()):
        forward, backward = encoded.states[row, length - 1, :3], encoded.states[row, 0, 3:]
        torch.testing.assert_close(encoded.hidden[0][row], torch.cat([forward, backward]))


def test_a_copying_model_mixes_generating_and_copying_and_costs_looking_twice():
    """By hand from the weights and the gate: what is copied is the attention of all places with that token."""
    model = CopyingLSTM(9, embedding_size=5, hidden_size=6, coverage_loss=0.5, label_smoothing=0.1).double().eval()
    source, lengths, target = batch()
    source[:, 1] = source[:, 0]  # a token that stands twice
    encoded = model.encode(source, lengths)
    fed, weights, embedded = model._decode(target[:, :-1], encoded)
    context = weights @ encoded.states
    gate = torch.sigmoid(model.head.generates(torch.cat([context, fed, embedded], -1)))
    generated = model.head.vocabulary(torch.cat([fed, context], -1)).softmax(-1)
    together, likelihood = model(source, lengths, target), model.log_likelihood(source, lengths, target)
    for row in range(3):
        for place in range(3):
            copied = torch.zeros(9).double()
            for at in range(int(lengths[row])):
                copied[source[row, at]] += weights[row, place, at]
            p = gate[row, place] * generated[row, place] + (1 - gate[row, place]) * copied
            token = target[row, place + 1]
            torch.testing.assert_close(likelihood[row, place], p[token].log())
            looked = sum((weights[row, before] for before in range(place)), torch.zeros(5).double())
            again = torch.minimum(weights[row, place], looked).sum()
            expected = 0.9 * p[token].log() + 0.1 * p.log().mean() - 0.5 * again
            torch.testing.assert_close(
                together[row, place], expected if token != PADDING else torch.zeros_like(expected)
            )
    with pytest.raises(ValueError, match="normalizer must be one, got None"):
        CopyingLSTM(9, normalizer=None)


def test_without_attention_only_the_last_state_is_read():
    model = MODELS["lstm"](normalizer=None).double().eval()
    source, lengths, target = batch()
    assert model.attend(source, lengths, target) is None
    encoded = model.encode(source, lengths)
    scrambled = encoded._replace(states=torch.randn_like(encoded.states), keys=torch.randn_like(encoded.keys))
    first = [model.step(target[:, 0], model.start(each), each).log_probs for each in (encoded, scrambled)]
    torch.testing.assert_close(*first)


@pytest.mark.parametrize("smooth", [om.Shannon(), om.SquaredNorm(), om.Tsallis(1.5)], ids=str)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_gradient_of_the_loss_is_the_error_of_the_probabilities(smooth, smoothing):
    distribution = TokenDistribution(smooth, smoothing)
    scores, tokens = torch.randn(4, 6, dtype=torch.float64, requires_grad=True), torch.tensor([0, 5, 2, 2])
    distribution.loss(scores, tokens).sum().backward()
    wanted = (1 - smoothing) * torch.nn.functional.one_hot(tokens, 6) + smoothing / 6
    torch.testing.assert_close(scores.grad, distribution.log_probs(scores).exp().detach() - wanted)
    likelihood = distribution.log_likelihood(scores, tokens)
    assert likelihood.tolist() == [distribution.log_probs(scores)[row, token] for row, token in enumerate(tokens)]


def test_sparse_outputs_have_exact_zeros():
    log_probs = SPARSE.log_probs(torch.tensor([3.0, 2.5, -1.0]))
    assert log_probs[2] == -torch.inf and log_probs[:2].exp().sum() == pytest.approx(1)


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="hidden_size must be even, half for each direction, got 5; use 6"):
        LSTMEncoderDecoder(9, 7, hidden_size=5)
    with pytest.raises(ValueError, match=r"label_smoothing must lie in \[0, 1\), got 1"):
        TokenDistribution(label_smoothing=1.0)
