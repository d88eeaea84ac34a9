"""The soft-DTW mean of series: a stationary point, better than the Euclidean mean."""

import pytest
import torch
from oracles.finite_difference import derivative

import omegamax as om


def bumps(dtype=torch.float64):
    """The same bump, early and late, in series of different lengths."""
    found = []
    for n, centre in ((20, 5), (25, 16), (17, 9)):
        t = torch.arange(n, dtype=dtype)
        found.append(torch.stack([torch.exp(-0.5 * ((t - centre) / 2) ** 2), 0.1 * t / n], -1))
    return found


def objective(z, series, weights, gamma):
    return sum(w * om.soft_dtw(z, x, gamma) for w, x in zip(weights, series))


def test_it_is_stationary_and_beats_the_mean():
    series, weights = bumps(), [0.5, 0.2, 0.3]
    found = om.soft_dtw_barycenter(series, [5, 2, 3], gamma=0.1, tol=1e-12, max_iter=500)
    assert found.converged and found.series.shape == (25, 2)
    assert (found.losses.diff() <= 0).all()
    at = objective(found.series, series, weights, 0.1)
    torch.testing.assert_close(at, found.losses[-1])
    assert at < found.losses[0] - 0.05
    for place in range(0, 25, 3):  # finite differences of the objective vanish
        unit = torch.zeros(25, 2).double()
        unit[place] = 1

        def along(t, unit=unit):
            return float(objective(found.series + t * unit, series, weights, 0.1))

        assert abs(derivative(along, 0.0)) < 1e-4


def test_padding_and_lists_agree():
    series = bumps()
    padded = torch.nn.utils.rnn.pad_sequence(series, batch_first=True, padding_value=7.0)
    lengths = torch.tensor([len(one) for one in series])
    a = om.soft_dtw_barycenter(series, length=12, max_iter=500)
    b = om.soft_dtw_barycenter(padded, lengths=lengths, length=12, max_iter=500)
    assert torch.equal(a.series, b.series) and torch.equal(a.losses, b.losses)
    assert a.series.shape == (12, 2)


def test_one_series_is_its_own_mean_under_hard_alignment():
    (x, *_) = bumps()
    found = om.soft_dtw_barycenter([x, x], regularizer=om.Hard())
    torch.testing.assert_close(found.series, x)


def test_init_weights_types_and_gradients_off():
    series = bumps(torch.float32)
    init = torch.zeros(10, 2)
    with torch.no_grad():
        found = om.soft_dtw_barycenter(series, [1.0, 0.0, 0.0], 0.01, init=init, max_iter=500)
    alone = om.soft_dtw_barycenter(series[:1], gamma=0.01, init=init, max_iter=500)
    torch.testing.assert_close(found.series, alone.series)
    half = om.soft_dtw_barycenter([one.half() for one in series], max_iter=500, tol=1e-4)
    assert half.series.dtype is torch.float16 and not init.any()


def test_it_searches_in_inference_mode_too():
    expected = om.soft_dtw_barycenter(bumps(), tol=1e-3)
    with torch.inference_mode():  # in which the clones are tensors that cannot be saved for a backward pass
        found = om.soft_dtw_barycenter([one.clone() for one in bumps()], tol=1e-3)
    torch.testing.assert_close(found.series, expected.series)
    assert not found.series.requires_grad and not found.losses.requires_grad


def test_stopping_early_warns():
    with pytest.warns(UserWarning, match=r"stopped after 2 iterations, .*tolerance"):
        found = om.soft_dtw_barycenter(bumps(), max_iter=2, tol=1e-12)
    assert not found.converged and found.losses.shape == (3,)


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        (([],), {}, "at least one"),
        ((torch.zeros(3, 4),), {}, "K, N, D"),
        (([torch.zeros(3, 1), torch.zeros(3, 2)],), {}, "each of the series"),
        (([torch.zeros(3, 1)], [-1.0]), {}, "non-negative"),
        (([torch.zeros(3, 1)], [1.0, 2.0]), {}, "1 non-negative"),
        (([torch.zeros(3, 1)],), {"length": 0}, "length must be at least 1"),
        (([torch.zeros(3, 1)],), {"init": torch.zeros(3, 2)}, "init"),
        (([torch.zeros(3, 1)],), {"max_iter": 0}, "max_iter must be at least 1"),
        (([torch.zeros(3, 1), torch.tensor([[1.0], [torch.nan]])],), {}, "finite at the start, got nan"),
        (([torch.tensor([[1.0], [torch.inf]])],), {"init": torch.zeros(2, 1)}, "finite at the start, got inf"),
    ],
)
def test_refuses(arguments, options, said):
    with pytest.raises(ValueError, match=said):
        om.soft_dtw_barycenter(*arguments, **options)
