"""The public functions reach the Triton kernels, for tensors that pretend to be on a GPU."""

import pytest
import torch

import omegamax as om
from omegamax import routing
from omegamax.attention import RelativeBias
from omegamax.kernels import gpu
from omegamax.kernels.triton import attention_backward, attention_forward, row_products, rows


@pytest.fixture
def calls(monkeypatch):
    """Lets tensors of the CPU take the way of a GPU, and notes which kernels run."""
    noted = []

    def note(module, name):
        function = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *args, **options: (noted.append(name), function(*args, **options))[1])

    monkeypatch.setattr(routing, "native", None)
    monkeypatch.setattr(gpu, "DEVICES", {"cuda", "cpu"})
    for name in ("sparsemax", "entmax"):
        note(rows, name)
    for name in ("sparsemax_product", "entmax_product", "fusedmax_product"):
        note(row_products, name)
    note(attention_forward, "forward")
    note(attention_backward, "backward")
    for module in (attention_forward, attention_backward):
        monkeypatch.setattr(module, "tile_sizes", lambda size, value_size: (16, 16))
    return noted


OPERATORS = {
    "sparsemax": (om.sparsemax, ["sparsemax", "entmax", "sparsemax_product", "entmax_product"]),
    "entmax15": (om.entmax15, ["entmax", "entmax_product"]),
    "entmax": (lambda x, mask: om.entmax(x, alpha=1.3, mask=mask), ["entmax", "entmax_product"]),
    "fusedmax": (lambda x, mask: om.fusedmax(x, strength=0.3, mask=mask), ["sparsemax", "entmax", "fusedmax_product"]),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_and_their_gradients_come_from_triton(name, calls):
    function, expected_calls = OPERATORS[name]
    mask = torch.rand(3, 20) < 0.8
    x = torch.randn(3, 20)
    direction = torch.randn(3, 20)
    found = x.clone().requires_grad_()
    weights = function(found, mask=mask)
    weights.backward(direction)
    assert calls == expected_calls
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu, "DEVICES", {"cuda"})
        wide = x.double().requires_grad_()
        expected = function(wide, mask=mask)
        expected.backward(direction.double())
    torch.testing.assert_close(weights.double(), expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(found.grad.double(), wide.grad, atol=1e-5, rtol=1e-4)


def test_values_and_second_derivatives_are_right(calls):
    x = torch.randn(1, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: om.smooth_max(s, om.Tsallis(1.5)), (x,))
    assert torch.autograd.gradgradcheck(lambda s: om.entmax15(s), (x,))
    assert "entmax" in calls


def test_what_the_kernels_do_not_take_goes_to_the_reference(calls):
    x = torch.randn(2, 6)
    om.entmax(x, alpha=torch.tensor([[1.5], [1.2]]))
    om.entmax(x, alpha=2.5)
    om.entmax(x, alpha=1.01)
    om.softmax(x)
    assert calls == []


def attention_arguments():
    query, key = (torch.randn(2, heads, n, 4) for heads, n in ((2, 7), (1, 18)))
    value = torch.randn(2, 1, 18, 3)
    return query, key, value, {
        "mask": torch.rand(2, 1, 7, 18) < 0.8, "causal": True, "lengths": torch.tensor([18, 9]),
    }  # fmt: skip


@pytest.mark.parametrize("bias", ["none", "dense", "relative"])
def test_sparse_attention_comes_from_triton(bias, calls):
    query, key, value, options = attention_arguments()
    numbers = torch.randn(2, 24) if bias == "relative" else torch.randn(2, 1, 18)
    results = []
    for dtype, devices in ((torch.float32, {"cuda", "cpu"}), (torch.float64, {"cuda"})):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(gpu, "DEVICES", devices)
            leaves = [x.to(dtype, copy=True).requires_grad_() for x in (query, key, value, numbers)]
            added = {"none": None, "dense": leaves[3]}.get(bias) if bias != "relative" else RelativeBias(leaves[3])
            output = om.sparse_attention(*leaves[:3], om.Scaled(om.Tsallis(1.5), 0.5), bias=added, **options)
            output.square().sum().backward()
            results.append((output.detach(), *(x.grad for x in leaves[: 3 if bias == "none" else 4])))
    assert calls == ["forward", "backward"]
    for found, expected in zip(*results):
        torch.testing.assert_close(found.double(), expected, atol=2e-5, rtol=1e-4)


def test_sparse_attention_is_differentiated_once(calls):
    query, key, value, _ = attention_arguments()
    query.requires_grad_()
    output = om.sparse_attention(query, key, value, om.SquaredNorm())
    (grad,) = torch.autograd.grad(output.square().sum(), query, create_graph=True)
    with pytest.raises(RuntimeError, match="can be taken once"):
        grad.sum().backward()


def test_other_calls_of_sparse_attention_take_dense_scores(calls):
    query, key, value, _ = attention_arguments()
    om.sparse_attention(query, key, value, om.Tsallis(1.5), dropout=0.5)
    om.sparse_attention(query.double(), key.double(), value.double(), om.SquaredNorm())
    om.sparse_attention(query, key, value, om.Oscar())
    om.sparse_attention_with_weights(query, key, value, om.SquaredNorm())
    assert "forward" not in calls
