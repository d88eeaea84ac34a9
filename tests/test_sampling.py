"""Drawing positions, and perturbed argmaxes."""

import pytest
import torch
from cases import CASES, generator, normal

import omegamax as om

close = torch.testing.assert_close


def spread(probability, n):
    """Five standard deviations of a frequency."""
    return 5 * (probability * (1 - probability) / n).sqrt() + 1e-9


def test_frequencies_tend_to_the_weights():
    weights = om.sparsemax(normal(3, 6, scale=0.5))
    draws = om.sample(weights, 20000, generator=generator(1))
    assert draws.shape == (20000, 3, 6) and draws.dtype is weights.dtype
    assert bool((draws.sum(-1) == 1).all()) and set(draws.unique().tolist()) == {0.0, 1.0}
    assert bool(((draws.mean(0) - weights).abs() <= spread(weights, 20000)).all())
    assert bool((draws[:, weights == 0] == 0).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_zeros_are_never_drawn_not_even_at_the_ends(dtype):
    weights = torch.tensor([[0, 0.5, 0, 0.5, 0], [0, 0, 1, 0, 0]], dtype=dtype)
    draws = om.sample(weights, 5000, generator=generator(2))
    assert bool((draws[:, weights == 0] == 0).all()) and bool((draws.sum(-1) == 1).all())


def test_weights_need_not_be_normalised():
    draws = om.sample(torch.tensor([3.0, 1.0, 0.0]), 20000, generator=generator(3)).mean(0)
    close(draws, torch.tensor([0.75, 0.25, 0.0]), atol=0.02, rtol=0)


def test_empty_and_undefined_rows():
    weights = torch.tensor([[0.0, 0, 0], [torch.nan, 0.5, 0.5], [0, 1, 0]])
    draws = om.sample(weights, 4)
    assert bool((draws[:, 0] == 0).all()) and bool(draws[:, 1].isnan().all()) and bool((draws[:, 2, 1] == 1).all())
    assert bool(om.sample(torch.tensor([torch.inf, 1.0]), 2).isnan().all())
    assert om.sample(torch.ones(2, 3), 0).shape == (0, 2, 3)
    assert om.sample(torch.ones(0, 3), 2).shape == (2, 0, 3)


def test_rounding_never_passes_the_last_position():
    """Half of the smallest number and more is rounded to it."""
    assert om.sample(torch.tensor([0.0, 1e-45, 0.0]), 20).tolist() == [[0, 1, 0]] * 20


@pytest.mark.parametrize("draw", [om.gumbel_argmax, om.straight_through_argmax])
def test_noise_draws_nothing_that_is_masked(draw):
    mask = torch.tensor([False, True, True, False])
    weights = draw(torch.tensor([9.0, 0.0, 0.0, 9.0]).expand(50, 4), om.SquaredNorm(), mask=mask)
    close(weights.sum(-1), torch.ones(50))
    assert bool((weights[:, ~mask] == 0).all())


def test_rows_of_vmap_draw_apart():
    weights = torch.full((2, 50), 0.02)
    for draw in (
        lambda w: om.sample(w, 1)[0],
        lambda w: om.gumbel_argmax(w, om.Hard()),
        lambda w: om.straight_through_argmax(w, om.Shannon()),
    ):
        rows = torch.func.vmap(draw, randomness="different")(weights)
        assert rows.shape == (2, 50) and rows.sum(-1).tolist() == [1, 1] and not torch.equal(*rows)


def test_a_generator_repeats():
    weights, scores = torch.rand(4, 5), normal(4, 5)
    draws = {
        "sample": lambda g: om.sample(weights, 50, generator=g),
        "gumbel": lambda g: om.gumbel_argmax(scores, om.Shannon(), generator=g),
        "straight": lambda g: om.straight_through_argmax(scores, om.Shannon(), generator=g),
    }
    for draw in draws.values():
        assert torch.equal(draw(generator(7)), draw(generator(7)))
        assert not torch.equal(draw(generator(7)), draw(generator(8)))
    torch.manual_seed(3)
    first = om.sample(weights, 50)
    torch.manual_seed(3)
    assert torch.equal(om.sample(weights, 50), first)


def test_the_gumbel_trick_samples_softmax():
    scores = normal(5)
    draws = om.gumbel_argmax(scores.expand(40000, 5), om.Hard(), generator=generator(4))
    expected = scores.softmax(-1)
    assert bool((draws.sum(-1) == 1).all())
    assert bool(((draws.mean(0) - expected).abs() <= spread(expected, 40000)).all())


@pytest.mark.parametrize("case", [c for c in CASES if c.registered != "groupmax"], ids=str)
def test_relaxed_samples_are_weights_and_differentiable(case):
    scores = normal(50, 6).requires_grad_()
    mask = torch.ones(50, 6, dtype=torch.bool)
    mask[:, 4] = False
    weights = om.gumbel_argmax(scores, case.regularizer(6), gamma=0.5, mask=mask, generator=generator(5))
    close(weights.sum(-1), torch.ones(50).double())
    assert bool((weights[:, 4] == 0).all())
    weights.square().sum().backward()
    assert bool(scores.grad.isfinite().all())
    assert (case.name == "hardmax") != bool((scores.grad != 0).any())


def test_a_sparse_relaxation_is_often_exactly_one_hot():
    weights = om.gumbel_argmax(normal(500, 6, scale=3), om.SquaredNorm(), gamma=0.5, generator=generator(6))
    share = float((weights.amax(-1) == 1).float().mean())
    assert 0.3 < share < 1


def test_straight_through_has_the_value_of_one_and_the_gradient_of_the_other():
    values, gradients = [], []
    direction = normal(30, 6, seed=1)
    for run in (
        lambda x: om.straight_through_argmax(x, om.Tsallis(1.3), gamma=0.7, generator=generator(9)),
        lambda x: om.gumbel_argmax(x, om.Hard(), gamma=0.7, generator=generator(9)),
        lambda x: om.gumbel_argmax(x, om.Tsallis(1.3), gamma=0.7, generator=generator(9)),
    ):
        x = normal(30, 6).requires_grad_()
        weights = run(x)
        values.append(weights.detach())
        gradients.append(torch.autograd.grad((weights * direction).sum(), x)[0])
    assert torch.equal(values[0], values[1])  # exactly one-hot, not 1 − 1e-17
    close(gradients[0], gradients[2], atol=1e-14, rtol=1e-13)
    assert not torch.allclose(gradients[0], gradients[1])


def test_dims_and_half_types():
    scores = normal(5, 4, dtype=torch.bfloat16)
    weights = om.gumbel_argmax(scores, om.SquaredNorm(), 0, generator=generator(1))
    assert weights.dtype is torch.bfloat16
    close(weights.float().sum(0), torch.ones(4), atol=0.02, rtol=0)
    straight = om.straight_through_argmax(scores, om.SquaredNorm(), 0, generator=generator(1))
    assert straight.dtype is torch.bfloat16 and bool((straight.float().sum(0) == 1).all())


def test_noise_never_reaches_infinity():
    """Even over many draws the noise is finite: no NaN rows."""
    weights = om.gumbel_argmax(torch.zeros(2000, 500), om.Shannon(), generator=generator(11))
    assert bool(weights.isfinite().all())
