"""The density of a pen's next point: SciPy's Gaussians, sums by hand, moments of samples, extreme numbers."""

import numpy as np
import pytest
import torch

from omegamax.models.pen_density import PenDensity, log_bivariate_gaussian


@pytest.fixture(autouse=True)
def double_precision():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def test_scipy_has_the_same_density():
    stats = pytest.importorskip("scipy.stats")
    torch.manual_seed(0)
    points, means, log_deviations, twists = torch.randn(8, 2), torch.randn(8, 2), torch.randn(8, 2), 2 * torch.randn(8)
    found = log_bivariate_gaussian(points, means, log_deviations, twists)
    for item in range(8):
        (across, down), correlation = log_deviations[item].exp().tolist(), float(twists[item].tanh())
        covariance = [[across**2, correlation * across * down], [correlation * across * down, down**2]]
        by_hand = stats.multivariate_normal(means[item].numpy(), covariance).logpdf(points[item].numpy())
        assert float(found[item]) == pytest.approx(by_hand, rel=1e-9)


def test_the_log_density_sums_over_gaussians_and_coins():
    torch.manual_seed(0)
    density = PenDensity.of(torch.randn(5, 6 * 3 + 2), 3)
    points = torch.cat([torch.randn(5, 2), torch.tensor([[0.0, 0], [0, 1], [1, 0], [1, 1], [0, 0]])], 1)
    found = density.log_prob(points)
    for item in range(5):
        total = sum(
            float(density.log_shares[item, k].exp())
            * float(
                log_bivariate_gaussian(
                    points[item, :2], density.means[item, k], density.log_deviations[item, k], density.twists[item, k]
                ).exp()
            )
            for k in range(3)
        )
        for logit, came in zip((density.up[item], density.end[item]), points[item, 2:]):
            chance = 1 / (1 + np.exp(-float(logit)))
            total *= chance if came else 1 - chance
        assert float(found[item]) == pytest.approx(np.log(total), rel=1e-9)


def test_samples_have_the_moments_of_the_density():
    torch.manual_seed(0)
    features = torch.tensor([0.3, -0.5, 1.0, -1.0, 0.5, 2.0, -0.3, 0.2, -0.7, 0.1, 0.8, -0.6, 0.4, -1.5])
    density = PenDensity.of(features, 2)
    n = 200_000
    noise = torch.cat([torch.rand(n, 3), torch.randn(n, 2)], 1)
    drawn = PenDensity.of(features.expand(n, -1), 2).sample(noise)
    shares, deviations = density.log_shares.exp(), density.log_deviations.exp()
    mean = (shares[:, None] * density.means).sum(0)
    torch.testing.assert_close(drawn[:, :2].mean(0), mean, atol=0.02, rtol=0)
    covariance = torch.zeros(2, 2)
    for k in range(2):
        across, down = deviations[k]
        both = density.twists[k].tanh() * across * down
        apart = density.means[k] - mean
        covariance += shares[k] * (torch.stack([across**2, both, both, down**2]).reshape(2, 2) + apart.outer(apart))
    torch.testing.assert_close(drawn[:, :2].T.cov(), covariance, atol=0.04, rtol=0.03)
    torch.testing.assert_close(
        drawn[:, 2:].mean(0), torch.stack([density.up, density.end]).sigmoid(), atol=0.01, rtol=0
    )


def test_bias_prefers_the_likeliest():
    features = torch.tensor([0.3, -0.5, 1.0, -1.0, 0.5, 2.0, -0.3, 0.2, -0.7, 0.1, 0.8, -0.6, 0.4, -1.5])
    density = PenDensity.of(features, 2)
    for same, other in zip(density, density.biased(0.0)):
        torch.testing.assert_close(same, other)
    noise = torch.cat([torch.rand(500, 3), torch.randn(500, 2)], 1)
    neat = PenDensity.of(features.expand(500, -1), 2).biased(50.0).sample(noise)
    best = torch.cat([density.means[0], torch.tensor([1.0, 0.0])])
    torch.testing.assert_close(neat, best.expand(500, -1), atol=1e-6, rtol=0)


def test_extreme_features_stay_finite():
    features = torch.tensor([[100.0], [-100.0], [0.0]]).expand(3, 8).clone().float().requires_grad_()
    found = PenDensity.of(features, 1).log_prob(torch.tensor([[0.5, -0.5, 1.0, 0.0]] * 3).float())
    (gradient,) = torch.autograd.grad(found.sum(), features)
    assert found.isfinite().all() and gradient.isfinite().all()


def test_gradients():
    torch.manual_seed(0)
    points = torch.cat([torch.randn(4, 2), torch.ones(4, 2)], 1)
    assert torch.autograd.gradcheck(
        lambda features: PenDensity.of(features, 2).log_prob(points), torch.randn(4, 14).requires_grad_()
    )
