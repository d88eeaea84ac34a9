"""Oscarmax without a strength: min(0.01, 1/d) for the d positions of a row that are not masked, everywhere the same."""

import numpy as np
import pytest
import torch
from cases import normal
from oracles import exact_rows

import omegamax as om
from omegamax import losses
from omegamax.kernels.oscarmax import default_strength
from omegamax.registry import regularizer


@pytest.mark.parametrize("columns", [1, 7, 99, 100, 101, 250, 1500])
def test_the_rule(backend, columns):
    scores = normal(4, columns)
    expected = om.oscarmax(scores, strength=min(0.01, 1 / columns))
    assert default_strength(columns) == min(0.01, 1 / columns)
    assert torch.equal(om.oscarmax(scores), expected)
    for smooth in (om.Oscar(), regularizer("oscarmax")):
        assert torch.equal(smooth.argmax(scores), expected)
        assert torch.equal(smooth.max(scores), om.Oscar(min(0.01, 1 / columns)).max(scores))
        assert torch.equal(smooth.omega(expected), om.Oscar(min(0.01, 1 / columns)).omega(expected))
    assert torch.equal(om.Oscarmax()(scores), expected)
    assert torch.equal(om.Oscarmax(0)(scores.t().contiguous()).t(), expected)


@pytest.mark.parametrize("columns", [120, 1000, 5000])
def test_long_rows_do_not_collapse(backend, columns):
    weights = om.oscarmax(normal(8, columns))
    assert ((weights > 0).sum(-1) < columns / 10).all()
    assert (om.oscarmax(normal(8, columns), strength=1.0) == 1 / columns).all()


@pytest.mark.parametrize("kept", [3, 100, 160])
def test_masking_is_removing(backend, kept):
    scores, mask = normal(3, 300, scale=0.2), torch.zeros(300, dtype=torch.bool)
    mask[torch.randperm(300)[:kept]] = True
    smooth = om.Oscar()
    torch.testing.assert_close(smooth.argmax(scores, mask=mask)[:, mask], smooth.argmax(scores[:, mask]))
    torch.testing.assert_close(smooth.max(scores, mask=mask), smooth.max(scores[:, mask]))
    weights = smooth.argmax(scores, mask=mask)
    torch.testing.assert_close(smooth.omega_without(weights, ~mask), smooth.omega(weights[:, mask]))
    value = (weights * scores).sum(-1) - smooth.omega_without(weights, ~mask)
    torch.testing.assert_close(smooth.max(scores, mask=mask), value)
    exact = exact_rows.oscarmax(list(scores[0, mask].numpy()), min(0.01, 1 / kept))
    torch.testing.assert_close(weights[0, mask], torch.tensor(exact, dtype=torch.float64))


def test_derivatives(backend):
    scores = normal(2, 130, scale=0.1).requires_grad_()
    smooth = om.Oscar()
    assert torch.autograd.gradcheck(smooth.max, (scores,))
    weights = smooth.argmax(scores)
    (gradient,) = torch.autograd.grad(smooth.max(scores).sum(), scores)
    torch.testing.assert_close(gradient, weights)
    assert torch.autograd.gradcheck(smooth.argmax, (normal(1, 6).requires_grad_(),))


def test_losses_attention_and_graphs():
    scores, target = normal(3, 200), torch.tensor([0, 5, 199])
    explicit = losses.OscarmaxLoss(1 / 200)(scores, target)
    assert torch.equal(losses.OscarmaxLoss()(scores, target), explicit)
    assert torch.equal(
        om.losses.oscarmax_loss(scores, target), om.losses.oscarmax_loss(scores, target, strength=1 / 200)
    )
    query, key = normal(1, 2, 4), normal(1, 200, 4, seed=1)
    attention = om.Attention(normalizer=om.Oscar())(query, key, key)
    assert torch.equal(attention.weights, om.Attention(normalizer=om.Oscar(1 / 200))(query, key, key).weights)
    leaf = om.Oscar.from_spec(om.Oscar().spec()[1], None)
    assert leaf.strength is None and om.Oscar.from_spec(om.Oscar(0.3).spec()[1], None).strength == 0.3
    compiled = torch.export.export(om.Oscarmax(), (scores,)).module()
    assert torch.equal(compiled(scores), om.oscarmax(scores))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_flat_rows_equal_the_sorted_solution(backend, dtype):
    """Rows around the place where all weights become equal; the answer must not depend on how it was recognised."""
    for columns in (5, 64, 130, 400):
        ulps = 128 if backend == "native" else 128 + 2 * columns  # where the sum of the weights is 1 to that much
        x = (normal(12, columns) * torch.linspace(0.02, 0.4, 12, dtype=torch.float64)[:, None]).to(dtype)
        x[3, ::3] = -torch.inf
        for strength in (1 / columns, 0.3 / columns, 3 / columns):
            weights = om.oscarmax(x, strength=strength)
            values = om.Oscar(strength).max(x)
            for row, p, value in zip(x.numpy().astype(np.longdouble), weights.numpy(), values.numpy()):
                kept = row[row > -np.inf]
                exact = np.array(exact_rows.oscarmax(list(kept), np.longdouble(strength)))
                assert np.abs(p[row > -np.inf] - exact).max() < 16 * torch.finfo(dtype).eps
                pairs = np.arange(len(kept))[::-1] @ np.sort(exact)[::-1]
                best = exact @ kept - (exact @ exact - 1) / 2 - np.longdouble(strength) * pairs
                assert abs(value - best) < ulps * torch.finfo(dtype).eps


def test_a_wrong_strength_is_refused():
    with pytest.raises(ValueError, match="Oscar: strength must be non-negative"):
        om.Oscar(-0.1)
    with pytest.raises(TypeError, match="oscarmax: strength"):
        om.oscarmax(torch.zeros(3), strength="auto")
