"""Sparse attention inside graphs and under dispatch modes: the registered operator gives what eager mode gives."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import omegamax as om
from omegamax import routing
from omegamax.attention.relative_bias import alibi
from omegamax.attention.sparse_attention import sparse_attention, sparse_attention_with_weights

pytestmark = pytest.mark.skipif(routing.native is None, reason="the compiled kernels are not there")

N = 60
MASK = torch.rand(N, N, generator=torch.Generator().manual_seed(0)) > 0.2
PADDING = (torch.arange(N) < torch.tensor([[30], [N]]))[:, None, None]
CASES = {  # each a function of queries, keys, values and perhaps one more tensor that learns
    "sparsemax, causal": lambda *x: sparse_attention(*x, om.SquaredNorm(), causal=True),
    "oscarmax, lengths": lambda *x: sparse_attention(*x, om.Oscar(), lengths=torch.tensor([30, N])),
    "fusedmax, mask": lambda *x: sparse_attention(*x, om.Fused(0.1), mask=MASK),
    "top-k, padding": lambda *x: sparse_attention(*x, om.attention.TopK(3), mask=PADDING),
    "entmax, flat": lambda q, k, v: sparse_attention(1e-3 * q, k, v, om.Scaled(om.Tsallis(1.5), 0.5), scale=0.7),
    "order": lambda *x: sparse_attention(*x[:3], om.Tsallis(1 + x[3].exp().reshape(2, 1, 1))),
    "slopes": lambda *x: sparse_attention(*x[:3], om.Tsallis(1.5), bias=alibi(x[3].exp(), N, N)),
    "bias of keys": lambda *x: sparse_attention(*x[:3], om.SquaredNorm(), bias=x[3].reshape(2, 1, 1)),
}


class Operators(TorchDispatchMode):
    """Notes the operators that are called."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.name())
        return func(*args, **(kwargs or {}))


def inputs_of(name, dtype=torch.float64):
    inputs = [torch.randn(2, 2, N, 8, dtype=dtype) for _ in range(3)]
    if name in ("order", "slopes", "bias of keys"):
        inputs.append(torch.randn(2, dtype=dtype))
    return [x.requires_grad_() for x in inputs]


def results(run, inputs):
    output = run(*inputs)
    return [output, *torch.autograd.grad(output.sin().sum(), inputs)]


@pytest.mark.parametrize("name", CASES)
def test_a_dispatch_mode_sees_the_operator_and_changes_nothing(name):
    inputs = inputs_of(name)
    expected = results(CASES[name], inputs)
    with Operators() as seen:
        found = results(CASES[name], inputs)
    assert {"omegamax::sparse_attention", "omegamax::sparse_attention_gradient"} <= set(seen.names)
    torch.testing.assert_close(found, expected, atol=0, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_torch_compile_keeps_the_operator_in_one_graph(name):
    inputs, called = inputs_of(name), []

    def backend(graph, example):
        called.extend(str(node.target) for node in graph.graph.nodes)
        return graph

    torch._dynamo.reset()
    compiled = torch.compile(CASES[name], fullgraph=True, backend=backend)
    torch.testing.assert_close(results(compiled, inputs), results(CASES[name], inputs), atol=1e-12, rtol=1e-12)
    assert any("omegamax.sparse_attention" in target for target in called)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sparsemax, causal", "order"])
def test_a_compiled_backward_pass(name):
    torch._dynamo.reset()
    inputs = inputs_of(name)
    compiled = torch.compile(CASES[name], fullgraph=True, backend="aot_eager", dynamic=True)
    torch.testing.assert_close(results(compiled, inputs), results(CASES[name], inputs), atol=1e-12, rtol=1e-12)


@pytest.mark.slow
def test_compiled_dropout_drops_the_same_weights_in_both_passes():
    torch._dynamo.reset()
    inputs = inputs_of("")
    compiled = torch.compile(
        lambda *x: sparse_attention(*x, om.SquaredNorm(), dropout=0.5), fullgraph=True, backend="aot_eager"
    )
    output = compiled(*inputs)
    (grad,) = torch.autograd.grad(output.sum(), inputs[2])
    torch.testing.assert_close((grad * inputs[2]).sum(), output.sum())  # the output is linear in the values
    assert (compiled(*inputs) - output).abs().max() > 0.1


@pytest.mark.parametrize("name", ["sparsemax, causal", "order"])
def test_opcheck(name):
    inputs = inputs_of(name, torch.float32)
    called = []

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func.name() == "omegamax::sparse_attention":
                called.append(args)
            return func(*args, **(kwargs or {}))

    with Recorder():
        CASES[name](*inputs)
    (args,) = called
    tensors = [x.detach().clone().requires_grad_() if isinstance(x, torch.Tensor) else x for x in args[:5]]
    torch.library.opcheck(torch.ops.omegamax.sparse_attention.default, (*tensors, *args[5:]))


def test_a_second_derivative_raises_here_too():
    inputs = inputs_of("")
    with Operators():
        output = sparse_attention(*inputs, om.SquaredNorm())
        (grad,) = torch.autograd.grad(output.square().sum(), inputs[:1], create_graph=True)
        with pytest.raises(RuntimeError, match="need_weights=True"):
            torch.autograd.grad(grad.sum(), inputs[0])


@pytest.mark.slow
def test_weights_and_learned_temperatures_take_dense_scores():
    """In graphs only: how many weights there are, and how small a temperature is, is not known there."""
    inputs = [x.detach() for x in inputs_of("")]
    with Operators() as seen:
        sparse_attention_with_weights(*inputs, om.SquaredNorm())
    assert "omegamax::sparse_attention" not in seen.names
    torch._dynamo.reset()
    layer = om.Sparsemax(gamma=om.Above(0.0, start=0.5)).double()
    compiled = torch.compile(lambda *x: sparse_attention(*x, layer), fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(*inputs), sparse_attention(*inputs, layer))


def test_export_holds_no_sparse_attention():
    class Model(torch.nn.Module):
        def forward(self, *x):
            return sparse_attention(*x, om.SquaredNorm())

    inputs = tuple(x.detach() for x in inputs_of(""))
    exported = torch.export.export(Model(), inputs)
    assert not any("sparse_attention" in str(node.target) for node in exported.graph.nodes)
    torch.testing.assert_close(exported.module()(*inputs), Model()(*inputs))
