"""The captioner: receptive fields, padding, steps against teacher forcing, sums over cells, gradients of REINFORCE."""

import copy
import itertools

import pytest
import torch

from omegamax.attention.estimators import (
    Marginalize,
    MovingAverage,
    OthersMean,
    Reinforce,
    SoftStart,
    SometimesSoft,
)
from omegamax.models.captioner import STRIDE, Captioner, GridEncoder
from omegamax.operators import GridTV, Shannon, SquaredNorm

READINGS = {
    "none": (None, None),
    "soft": (Shannon(), None),
    "soft sparse": (SquaredNorm(), None),
    "soft grid": (GridTV(0.01), None),
    "exact": (Shannon(), Marginalize()),
    "exact sparse": (SquaredNorm(), Marginalize()),
    "reinforce": (Shannon(), Reinforce()),
}
SIZES = {"embedding_size": 4, "hidden_size": 7}


def captioner(reading, **options):
    torch.manual_seed(0)
    normalizer, estimator = copy.deepcopy(READINGS[reading])
    model = Captioner(GridEncoder(8), 9, normalizer=normalizer, estimator=estimator, **{**SIZES, **options})
    for name, buffer in model.named_buffers():
        if name.endswith("running_var"):
            buffer.uniform_(0.5, 2)
    return model.eval()


def test_a_cell_sees_17_pixels_around_it():
    torch.manual_seed(0)
    encoder = GridEncoder(8).eval()
    for layer in encoder.layers:
        layer.weight.data.abs_()  # so that no unit is off
        layer.bias.data.abs_()
    picture = torch.rand(1, 48, 40, requires_grad=True)
    cells, sizes = encoder(picture, torch.tensor([[48, 40]]))
    assert cells.shape == (1, 12, 10, 8) and sizes.tolist() == [[12, 10]]
    cells[0, 6, 5].sum().backward()
    seen = picture.grad[0].abs() > 0
    rows, columns = seen.any(1).nonzero().flatten(), seen.any(0).nonzero().flatten()
    assert (rows[0], rows[-1], columns[0], columns[-1]) == (6 * STRIDE - 8, 6 * STRIDE + 8, 12, 28)


@torch.no_grad()
@pytest.mark.parametrize("reading", READINGS)
def test_padding_changes_nothing(reading):
    model = captioner(reading)
    pictures, sizes = torch.rand(2, 16, 20), torch.tensor([[16, 20], [9, 14]])
    target = torch.randint(4, 9, (2, 5))
    together = model(pictures, sizes, target)
    pictures[1, 9:], pictures[1, :, 14:] = 0.5, 0.5
    torch.testing.assert_close(model(pictures, sizes, target), together)
    torch.testing.assert_close(model(pictures[1:, :9, :14], sizes[1:], target[1:]), together[1:])
    torch.testing.assert_close(model(pictures[:1], None, target[:1]), together[:1])
    weights = model.attend(pictures, sizes, target)
    assert (weights is None) == (reading == "none")
    if weights is not None:
        assert weights.shape == (2, 4, 4, 5) and not weights[1, :, 3:].any() and not weights[1, :, :, 4:].any()
        torch.testing.assert_close(weights.sum((-2, -1)), torch.ones(2, 4))


@torch.no_grad()
@pytest.mark.parametrize("reading", READINGS)
def test_steps_are_those_of_teacher_forcing(reading):
    model = captioner(reading)
    pictures, sizes, target = torch.rand(2, 9, 13), torch.tensor([[9, 13], [8, 8]]), torch.randint(4, 9, (2, 5))
    encoded = model.encode(pictures, sizes)
    state, values = model.start(encoded), []
    for place in range(4):
        log_probs, state, _ = model.step(target[:, place], state, encoded)
        torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(2))
        values.append(log_probs.gather(1, target[:, place + 1 : place + 2]).squeeze(1))
    torch.testing.assert_close(torch.stack(values, 1), model.log_likelihood(pictures, sizes, target))


@torch.no_grad()
@pytest.mark.parametrize("reading", ["exact", "exact sparse"])
def test_exact_is_the_sum_over_cells(reading):
    """The first word's probability, cell by cell: the model is made to read one cell, and the answers are averaged."""
    model = captioner(reading)
    pictures, sizes, target = torch.rand(1, 8, 12), torch.tensor([[8, 12]]), torch.randint(4, 9, (1, 3))
    encoded, weights = model.encode(pictures, sizes), model.attend(pictures, sizes, target)[0]
    state, total = model.start(encoded), torch.zeros(9)
    for place in range(2):
        embedded = model.embedding(target[:, place])
        hidden, _ = model.cell(torch.cat([embedded, state.read], -1), (state.hidden, state.cell))
        vectors = encoded.vectors[0].flatten(0, 1)
        total = torch.zeros(9)
        for share, vector in zip(weights[place].flatten(), vectors):
            scores = model.out(torch.tanh(model.combine(torch.cat([vector, hidden[0]]))))
            total += share * scores.softmax(-1)
        found, state, _ = model.step(target[:, place], state, encoded)
        torch.testing.assert_close(found[0].exp(), total)
        torch.testing.assert_close(state.read[0], weights[place].flatten() @ vectors)
        torch.testing.assert_close(state.hidden, hidden)


@pytest.mark.parametrize("n_samples", [1, 4])
@pytest.mark.parametrize("rewards_rest", [False, True])
def test_reinforce_is_right_on_average(rewards_rest, n_samples):
    """The mean over many draws is the derivative of the bound, summed over all pairs of cells of a caption's words."""
    sizes = {"embedding_size": 2, "hidden_size": 3, "n_samples": n_samples, "rewards_rest": rewards_rest}
    model = captioner("reinforce", **sizes).double().train()
    model.estimator.baseline = OthersMean()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.eval()
    pictures, target = torch.rand(1, 4, 8).double(), torch.tensor([[2, 5, 6]])  # two cells, two words
    encoded = model.encode(pictures, None)
    vectors = encoded.vectors.flatten(1, 2)

    def given(cells):
        """Returns log p(cells) and log p(words | cells)."""
        state, prior, words = model.start(encoded), 0.0, 0.0
        hidden, cell, read = state
        for place, chosen in enumerate(cells):
            embedded = model.embedding(target[:, place])
            hidden, cell = model.cell(torch.cat([embedded, read], -1), (hidden, cell))
            scores = encoded.keys.flatten(1, 2) @ hidden[0]
            prior = prior + scores.log_softmax(-1)[0, chosen]
            read = vectors[:, chosen]
            said = model.out(torch.tanh(model.combine(torch.cat([read, hidden], -1)))).log_softmax(-1)
            words = words + said[0, target[0, place + 1]]
        return prior, words

    pairs = [given(cells) for cells in itertools.product(range(2), repeat=2)]
    bound = sum(prior.exp() * words for prior, words in pairs)
    parameters = [model.key.weight, model.cell.weight_ih, model.out.weight]
    wanted = torch.cat([each.flatten() for each in torch.autograd.grad(bound, parameters)])
    n_draws = 1500 // n_samples
    many = (pictures.expand(n_draws, -1, -1), torch.tensor([[4, 8]]).expand(n_draws, 2), target.expand(n_draws, -1))
    torch.manual_seed(0)
    objective = model(*many).sum() / n_draws
    torch.testing.assert_close(objective, bound, atol=0.02, rtol=0.02)
    found = torch.cat([each.flatten() for each in torch.autograd.grad(objective, parameters)])
    assert (found - wanted).norm() < 0.1 * wanted.norm()


@pytest.mark.parametrize("rewards_rest", [False, True])
def test_padding_has_no_reward(rewards_rest):
    torch.manual_seed(0)
    estimator = SometimesSoft(Reinforce(baseline=MovingAverage(), entropy_bonus=0.1))
    model = Captioner(GridEncoder(8), 9, normalizer=Shannon(), estimator=estimator, rewards_rest=rewards_rest, **SIZES)
    pictures, sizes = torch.rand(2, 8, 8), torch.tensor([[8, 8], [8, 8]])
    results = []
    for target in (torch.tensor([[2, 5, 3], [2, 6, 3]]), torch.tensor([[2, 5, 3, 0, 0], [2, 6, 3, 0, 0]])):
        torch.manual_seed(1)
        estimator.estimator.baseline.value.zero_()
        # Steps beyond the end draw too, but later, so that the first steps draw the same cells.
        results.append(model(pictures, sizes, target)[:, :2])
    torch.testing.assert_close(*results)


def test_rewards_of_the_rest_have_less_variance():
    variances = []
    for rewards_rest in (False, True):
        model = captioner("reinforce", rewards_rest=rewards_rest).train()
        pictures, target = torch.rand(2, 16, 16), torch.tensor([[2, 5, 6, 7, 5, 8], [2, 8, 8, 5, 6, 7]])
        gradients = []
        for seed in range(40):
            torch.manual_seed(seed)
            model.zero_grad()
            model(pictures, None, target).sum().backward()
            gradients.append(model.key.weight.grad.flatten())
        variances.append(float(torch.stack(gradients).var(0).sum()))
    assert variances[1] < 0.7 * variances[0]


def test_a_soft_start_is_soft_attention():
    torch.manual_seed(0)
    pictures, sizes, target = torch.rand(2, 8, 8), torch.tensor([[8, 8], [8, 8]]), torch.tensor([[2, 5, 3], [2, 6, 3]])
    model = captioner("soft").train()
    estimator = SoftStart(Reinforce(baseline=OthersMean()), 3)
    other = Captioner(GridEncoder(8), 9, normalizer=Shannon(), estimator=estimator, n_samples=4, **SIZES).train()
    other.load_state_dict({**model.state_dict(), "estimator.items_left": torch.tensor(3)})
    torch.testing.assert_close(other(pictures, sizes, target), model(pictures, sizes, target))
    other(pictures, sizes, target)
    assert int(estimator.items_left) == -1  # an item is a caption
    drawn = other(pictures, sizes, target)
    assert not torch.allclose(drawn, other(pictures, sizes, target))


def test_no_estimator_without_attention():
    with pytest.raises(ValueError, match="estimator must be None without attention, got Reinforce"):
        Captioner(GridEncoder(8), 9, normalizer=None, estimator=Reinforce())
