"""The encoder-decoder: teacher forcing is what decoding does, padding changes nothing, gradients reach everything."""

import pytest
import torch

import omegamax as om
from omegamax import operator_table
from omegamax.models import EncoderDecoder, FixedReader, HardReader, RecurrentEncoder, SoftReader
from omegamax.registry import regularizer

NORMALIZERS = {
    **{facts.function: regularizer(facts.function) for facts in operator_table.for_attention()},
    "warm": om.Scaled(om.SquaredNorm(), 2.0),
}
READERS = {
    **{name: lambda score, n=n: SoftReader(om.Attention(score, normalizer=n)) for name, n in NORMALIZERS.items()},
    "marginalize": lambda score: HardReader(
        om.HardAttention(score, normalizer=om.SquaredNorm(), estimator=om.attention.Marginalize())
    ),
    "reinforce": lambda score: HardReader(
        om.HardAttention(
            score,
            estimator=om.attention.Reinforce(n_samples=3, baseline=om.attention.MovingAverage(), entropy_bonus=0.01),
        )
    ),
    "fixed": lambda score: FixedReader(),
}
SOFT = [name for name in READERS if name not in ("marginalize", "reinforce")]


@pytest.fixture(params=READERS)
def name(request):
    return request.param


def make(name, **options):
    options = {"embedding_size": 5, "hidden_size": 6, **options}
    return EncoderDecoder(9, 7, reader=READERS[name](om.Additive(6, 6)), **options).double()


def batch():
    source, lengths = torch.randint(9, (3, 5)), torch.tensor([5, 2, 4])
    return source, lengths, torch.randint(7, (3, 4))


@pytest.mark.parametrize("name", SOFT)
def test_teacher_forcing_is_decoding_step_by_step(name):
    model = make(name)
    source, lengths, target = batch()
    together = model(source, lengths, target)
    encoded = model.encode(source, lengths)
    state = model.start(encoded)
    for place in range(3):
        log_probs, state, _ = model.step(target[:, place], state, encoded)
        torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(3).double())
        torch.testing.assert_close(log_probs.gather(1, target[:, place + 1 : place + 2]).squeeze(1), together[:, place])


def test_padding_changes_nothing(name):
    model = make(name).eval()
    source, lengths, target = batch()
    weights = model.attend(source, lengths, target)
    torch.manual_seed(1)
    together = model(source, lengths, target)
    wild = source.clone()
    for row, length in enumerate(lengths.tolist()):
        wild[row, length:] = 8
    torch.manual_seed(1)
    torch.testing.assert_close(model(wild, lengths, target), together, rtol=0, atol=0)
    for row, length in enumerate(lengths.tolist()):
        alone = [source[row : row + 1, :length], lengths[row : row + 1], target[row : row + 1]]
        if name != "reinforce":  # its draws depend on the batch
            torch.testing.assert_close(model(*alone), together[row : row + 1])
        if weights is not None:
            assert (weights[row, :, length:] == 0).all()
            torch.testing.assert_close(model.attend(*alone), weights[row : row + 1, :, :length])


def test_gradients_reach_every_parameter(name):
    model = make(name)
    model(*batch()).sum().backward()
    for parameter, tensor in model.named_parameters():
        assert tensor.grad is not None and tensor.grad.abs().sum() > 0, parameter


def test_without_attention_there_is_none():
    model = make("fixed")
    assert model.attend(*batch()) is None
    assert not list(model.reader.parameters())
    source, lengths, target = batch()
    encoded = model.encode(source, lengths)
    scrambled = encoded._replace(states=torch.randn_like(encoded.states))
    token, state = target[:, 0], model.start(encoded)
    torch.testing.assert_close(model.step(token, state, encoded), model.step(token, state, scrambled))


def test_hard_attention_predicts_from_one_place():
    model = make("marginalize")
    weights = model.attend(*batch())
    assert ((weights == 0) | (weights == 1)).all() and (weights.sum(-1) == 1).all()


def test_marginalized_choices_bound_the_soft_likelihood_of_each_choice():
    """L_s is the average of log p(y | s) over places, each computed by its own pass."""
    model = make("marginalize")
    source, lengths, target = batch()
    encoded = model.encode(source, lengths)
    states = model.decoder(model.target_embedding(target[:, :-1]), model.start(encoded).unsqueeze(0))[0]
    weights = om.Attention(model.reader.attention.score, normalizer=om.SquaredNorm())(
        states, encoded.states, lengths=lengths
    ).weights
    total = 0
    for place in range(source.shape[1]):
        context = encoded.states[:, place : place + 1].expand(-1, 3, -1)
        log_probs = model.out(model.combine(torch.cat([context, states], -1)).tanh()).log_softmax(-1)
        total = total + weights[:, :, place] * log_probs.gather(-1, target[:, 1:, None]).squeeze(-1)
    torch.testing.assert_close(model(source, lengths, target), total)


def test_states_are_named_once():
    """A tensor with two names could not be saved."""
    for name in READERS:
        state = make(name).state_dict()
        assert len({tensor.data_ptr() for tensor in state.values()}) == len(state)


def test_odd_sizes_are_refused():
    with pytest.raises(ValueError, match="hidden_size must be even"):
        RecurrentEncoder(3, 5)


def test_dropout_is_off_in_eval_mode():
    model = make("softmax", dropout=0.5)
    inputs = batch()
    assert not torch.equal(model(*inputs), model(*inputs))
    model.eval()
    assert torch.equal(model(*inputs), model(*inputs))
