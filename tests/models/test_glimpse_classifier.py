"""Classifiers that look: gradients against enumeration of the choices, readings by loops, shares that sum to one."""

import itertools

import numpy as np
import pytest
import torch

from omegamax.attention.estimators import Reinforce
from omegamax.models.glimpse_classifier import DifferentiableClassifier, RetinaClassifier, SparseClassifier
from omegamax.models.image_readers import GridReader, Retina, WindowReader
from omegamax.operators import GridTV, Shannon, SquaredNorm

SIZES = {"feature_size": 5, "hidden_size": 6}


def retina(side=4):
    return Retina(5, patch_size=side, n_scales=2)


def sparse(n_glimpses, **options):
    torch.manual_seed(0)
    options = {"normalizer": SquaredNorm(), "n_positions": 3, "n_glimpses": n_glimpses, **SIZES, **options}
    return SparseClassifier(3, retina(), **options).double()


def reinforced(n_glimpses, **options):
    torch.manual_seed(0)
    return RetinaClassifier(3, retina(), n_glimpses=n_glimpses, **{**SIZES, **options}).double()


def gradient(loss, model):
    found = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True, materialize_grads=True)
    return torch.cat([each.flatten() for each in found])


IMAGES, LABELS = torch.rand(2, 12, 10, dtype=torch.float64), torch.tensor([2, 0])


@pytest.mark.parametrize("normalizer", [SquaredNorm(), Shannon()], ids=str)
def test_the_sum_over_the_support_is_the_expectation(normalizer):
    """With two looks there is one choice: enumerate all nine places, one image at a time."""
    model = sparse(2, normalizer=normalizer)
    model.keys.data *= 5  # so that the support is smaller than nine
    expected = torch.zeros((), dtype=torch.float64)
    for image, label in zip(IMAGES, LABELS):
        first = model.core(model.retina(image[None], torch.zeros(1, 2).double()))
        weights = model.weights(first[0])[0]
        by_hand = model.answer(first[0]).log_softmax(-1)[0, label]
        for place, weight in zip(model.positions, weights):
            hidden, _ = model.core(model.retina(image[None], place[None].double()), first)
            by_hand = by_hand + weight * model.answer(hidden).log_softmax(-1)[0, label]
        expected = expected - by_hand / 2
    found = model(IMAGES, LABELS).sum()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradient(found, model), gradient(expected, model))


@pytest.mark.slow
def test_reinforce_has_the_same_gradient_on_average():
    exact, sampled = sparse(2), sparse(2, estimator=Reinforce(n_samples=6000))
    found = gradient(sampled(IMAGES, LABELS).sum(), sampled)
    wanted = gradient(exact(IMAGES, LABELS).sum(), exact)
    assert (found - wanted).norm() < 0.1 * wanted.norm()


@pytest.mark.slow
@pytest.mark.parametrize("baseline", [True, False])
def test_the_gradient_of_the_retina_is_right_on_average(baseline):
    """Against central differences of the expectation, which a fine grid computes for one choice."""
    model = reinforced(2, baseline=baseline)
    model.location[-1].weight.data[:2] *= 10
    model.retina.where.weight.data *= 5  # so that the place matters
    model.answer[-1].weight.data *= 10
    nodes = np.linspace(-5, 5, 101)  # glimpses are not smooth in the place, so that the rule must be fine
    shares = np.exp(-0.5 * nodes**2)
    shares = shares / shares.sum()

    def expectation():
        first = model.core(model.retina(IMAGES[:1], torch.zeros(1, 2).double()))
        mean, log_deviation = model._policy(first[0])
        grid = torch.tensor(list(itertools.product(nodes, nodes)))
        places = (mean + log_deviation.exp() * grid).clamp(-1, 1)
        images = IMAGES[:1].expand(len(places), -1, -1)
        hidden, _ = model.core(model.retina(images, places), tuple(each.expand(len(places), -1) for each in first))
        likelihood = model.answer(hidden).log_softmax(-1)[:, LABELS[0]]
        return (likelihood * torch.tensor(np.outer(shares, shares).ravel())).sum() / 2

    parameter, differences = model.location[-1].bias, []
    with torch.no_grad():
        for place in range(4):
            ends = []
            for step in (1e-3, -1e-3):
                parameter[place] += step
                ends.append(expectation())
                parameter[place] -= step
            differences.append((ends[0] - ends[1]) / 2e-3)
    n, rounds = 3000, 8
    found = torch.stack(
        [
            torch.autograd.grad(-model(IMAGES[:1].expand(n, -1, -1), LABELS[:1].expand(n)).mean(), parameter)[0]
            for _ in range(rounds)
        ]
    )
    error = found.std(0) / rounds**0.5 + 1e-5
    assert ((found.mean(0) - torch.stack(differences)).abs() < 5 * error).all()
    assert (error < 0.5 * torch.stack(differences).abs().max()).all()  # it could have failed


def test_the_baseline_changes_only_its_own_gradient_and_the_variance():
    """The value of the loss without the error of the baseline is the likelihood of what was drawn."""
    model = reinforced(3, entropy_bonus=0.0)
    torch.manual_seed(1)
    with_error = model(IMAGES, LABELS)
    model.baseline = None
    torch.manual_seed(1)
    without = model(IMAGES, LABELS)
    assert (with_error > without).all()
    assert reinforced(1)(IMAGES, LABELS).shape == sparse(1)(IMAGES, LABELS).shape == (2,)


def test_the_score_is_multiplied_by_what_the_choice_gained():
    """Against the sums written out: what each choice gained over the answer before it, after later ones a little."""
    model, n, discount = reinforced(4, entropy_bonus=0.0, discount=0.3, reward_scale=2.0), 4, 0.3
    places, reads = [], model.retina.forward
    model.retina.forward = lambda images, place: places.append(place) or reads(images, place)
    torch.manual_seed(1)
    loss = model(IMAGES, LABELS)
    parameter = model.location[-1].bias
    (found,) = torch.autograd.grad(loss.sum(), parameter, retain_graph=True)
    state, answers, scores = model._start(IMAGES), [], []
    for step, place in enumerate(places):
        if step:
            mean, log_deviation = model._policy(state.hidden)
            scores.append((-0.5 * ((place - mean) / log_deviation.exp()).square() - log_deviation).sum(-1))
        state = type(state)(*model.core(reads(IMAGES, place), state))
        answers.append(model._log_likelihood(state.hidden, LABELS))
    assert all((place.abs() < 1).all() for place in places)  # none was moved to the edge: what was drawn is known
    wanted = 0
    for choice, score in enumerate(scores):
        later = range(choice + 1, n)
        gain = sum(
            discount ** (k - choice - 1) * (answers[k] - answers[choice]) / n for k in later
        )  # the map is new: 0
        wanted = wanted - 2.0 * (gain.detach() * score).sum()
    torch.testing.assert_close(found, torch.autograd.grad(wanted, parameter)[0])


def test_deviations_stay_between_bounds_and_can_come_back():
    model = reinforced(2, deviation=0.2)
    bias = model.location[-1].bias
    hidden = torch.randn(5, 6, dtype=torch.float64)
    assert model._policy(hidden)[1].exp().detach().numpy() == pytest.approx(0.03 * (0.2 / 0.03) ** 0.9)
    for value, bound in ((-30, 0.03), (30, 0.2)):
        bias.data[2:] = value
        assert model._policy(hidden)[1].exp().detach().numpy() == pytest.approx(bound)
    bias.data[2:] = 5
    assert (torch.autograd.grad(model._policy(hidden)[1].sum(), bias)[0][2:] > 0).all()


CLASSIFIERS = {
    "retina": lambda: reinforced(3),
    "sparse": lambda: sparse(3),
    "soft": lambda: DifferentiableClassifier(
        3, GridReader(6, 4, 5, normalizer=Shannon()), n_glimpses=3, **SIZES
    ).double(),
    "grid-tv": lambda: DifferentiableClassifier(
        3, GridReader(6, 4, 5, normalizer=GridTV()), n_glimpses=3, **SIZES
    ).double(),
    "draw": lambda: DifferentiableClassifier(3, WindowReader(6, 5, patch_size=4), n_glimpses=3, **SIZES).double(),
}


@torch.no_grad()
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_looks(name):
    model = CLASSIFIERS[name]()
    looks = model.look(IMAGES)
    torch.testing.assert_close(looks.log_probs.exp().sum(-1), torch.ones(2, 3).double())
    assert looks.places.shape == (2, 3, 2) and (looks.shares >= 0).all()
    torch.testing.assert_close(model.answers(IMAGES), looks.log_probs[:, -1])
    alone = model.look(IMAGES[1:])
    for together, one in zip(looks, alone):
        torch.testing.assert_close(together[1:], one)
    if name in ("soft", "grid-tv", "draw"):
        torch.testing.assert_close(looks.shares.sum((-2, -1)), torch.ones(2, 3).double())
        assert model.numbers_read(12, 10) == 120
        torch.testing.assert_close(model(IMAGES, LABELS).detach()[0], -looks.log_probs[0, :, 2].mean())
    else:
        assert model.numbers_read(12, 10) == model.numbers_read(1200, 1000) == 3 * 2 * 4 * 4


@torch.no_grad()
def test_shares_of_the_retina_are_what_its_patches_sum():
    """The mean of all numbers of a patch is the sum of shares times pixels, and shares are cut off by the edges."""
    eye, image = retina().double(), torch.rand(12, 10, dtype=torch.float64)
    for place in ([0.0, 0.0], [0.2, -0.5], [0.8, 0.75]):
        place = torch.tensor(place, dtype=torch.float64)
        pixel_aligned = torch.round((place + 1) * torch.tensor([10, 12]) / 2) * 2 / torch.tensor([10, 12]) - 1
        shares = eye.shares(image[None], pixel_aligned[None])[0]
        means = eye.sensor(image[None], pixel_aligned).mean((-2, -1))
        torch.testing.assert_close((shares * image).sum(), means.mean())
    torch.testing.assert_close(eye.shares(image[None], torch.zeros(1, 2).double()).sum(), torch.tensor(1.0).double())


@torch.no_grad()
def test_a_view_is_sharp_in_the_middle_and_black_where_the_eye_is_blind():
    eye, image = retina().double(), 0.5 + 0.5 * torch.rand(12, 10, dtype=torch.float64)
    view = eye.view(image, torch.zeros(2).double())
    torch.testing.assert_close(view[4:8, 3:7], image[4:8, 3:7])
    coarse = torch.nn.functional.avg_pool2d(image[None, 2:10, 1:9], 2)[0].repeat_interleave(2, 0)
    torch.testing.assert_close(view[2:4, 1:9], coarse.repeat_interleave(2, 1)[:2])
    assert not view[:2].any() and not view[:, 9:].any()


@torch.no_grad()
def test_the_grid_and_the_window_know_their_places():
    grid = GridReader(6, 4, 5, normalizer=Shannon()).double()
    encoded = grid.encode(IMAGES)
    reading = grid.read(IMAGES, encoded, torch.zeros(2, 6).double())
    rows, columns = reading.shares.shape[1:]
    by_hand = sum(
        reading.shares[0, i, j] * torch.tensor([(2 * j + 1) / columns - 1, (2 * i + 1) / rows - 1])
        for i in range(rows)
        for j in range(columns)
    )
    torch.testing.assert_close(reading.place[0], by_hand.double())
    window = WindowReader(6, 5, patch_size=4).double()
    window.draw.of_hidden.weight.zero_()
    window.draw.of_hidden.bias.copy_(torch.tensor([0.5, -0.5, -4.0, -1.0, 0.0]))
    found = window.read(IMAGES, IMAGES, torch.zeros(2, 6).double())
    torch.testing.assert_close(found.place[0], torch.tensor([0.5, -0.5]).double())
    pixels = torch.stack(torch.meshgrid(torch.arange(12.0), torch.arange(10.0), indexing="ij")).double()
    centre = (found.shares[0] * pixels).sum((1, 2))  # (row, column) from 0
    torch.testing.assert_close(
        (2 * centre + 1) / torch.tensor([12, 10]) - 1, torch.tensor([-0.5, 0.5]).double(), atol=0.05, rtol=0
    )
