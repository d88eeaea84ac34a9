"""Sparse attention as a registered operator, which graphs of `torch.compile` can hold and dispatch modes can see.

    omegamax::sparse_attention(query, key, value, ...) -> output
    omegamax::sparse_attention_gradient(grad_output, query, key, value, ...) -> five gradients

A graph needs to know the size of every tensor it keeps, and how many weights are not zero depends on the data. So the
graph keeps the inputs only, and the gradient computes the support again: memory stays linear, and the backward pass
takes the time of one more forward pass. The seed of dropout is a tensor, so both passes drop the same weights.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from omegamax.attention.sparse_attention_function import ONCE, Settings, forward_pass, gradients
from omegamax.attention.top_k import TopK
from omegamax.kernels.sparse_attention import Support
from omegamax.operators.regularizer import RowOperator
from omegamax.operators.torch_operators import rebuild

_TENSORS = "Tensor query, Tensor key, Tensor value, Tensor? parameter, Tensor? bias"
_OTHERS = (
    "Tensor? lengths, Tensor? mask, Tensor? seed, str leaf, float[] numbers, float scale, bool causal, bool relative, "
    "float dropout"
)
_LIBRARY = torch.library.Library("omegamax", "FRAGMENT")
_TAGS = (torch.Tag.pt2_compliant_tag,)
_LIBRARY.define(f"sparse_attention({_TENSORS}, {_OTHERS}) -> Tensor", tags=_TAGS)
_LIBRARY.define(
    f"sparse_attention_gradient(Tensor grad_output, {_TENSORS}, {_OTHERS}, bool[] wanted)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    tags=_TAGS,
)
_N_TENSORS = 5  # queries, keys, values, the parameter and the bias


class _Others(NamedTuple):
    """All arguments of the operator but the tensors that may learn."""

    lengths: Tensor | None
    mask: Tensor | None
    seed: Tensor | None
    leaf: str
    numbers: list[float]
    scale: float
    causal: bool
    relative: bool
    dropout: float

    def settings(self, parameter: Tensor | None) -> Settings:
        operator: Any
        if self.leaf == TopK.__name__:
            operator = TopK(int(self.numbers[0]))
        else:
            operator = rebuild(self.leaf, self.numbers, parameter)
        lengths, mask = (None if x is None else x.contiguous() for x in (self.lengths, self.mask))
        seed = 0 if self.seed is None else int(self.seed)
        return Settings(operator, self.scale, self.causal, lengths, mask, self.relative, self.dropout, seed)


def recorded(settings: Settings, *inputs: Any) -> Tensor:
    """Computes the output (batch, heads, Q, features) by the registered operator, from inputs of `SparseAttention`."""
    operator = settings.operator
    leaf, numbers = operator.spec() if isinstance(operator, RowOperator) else (TopK.__name__, [float(operator.k)])  # type: ignore[union-attr]
    seed = settings.seed if isinstance(settings.seed, Tensor) else None
    if seed is None and settings.dropout > 0:
        seed = torch.tensor(settings.seed)
    others = _Others(
        settings.lengths, settings.mask, seed, leaf, numbers, settings.scale, settings.causal, settings.relative,
        settings.dropout,
    )  # fmt: skip
    return torch.ops.omegamax.sparse_attention(*inputs, *others)


def _dense_inputs(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Makes the tensors contiguous: a compiler may have changed their strides."""
    return tuple(None if x is None else x.detach().contiguous() for x in given[:_N_TENSORS])


def _attend(*given: Any) -> Tensor:
    inputs, others = _dense_inputs(given), _Others(*given[_N_TENSORS:])
    with torch.no_grad():
        return forward_pass(others.settings(inputs[3]), *inputs, wants_support=False).output


def _attend_fake(query: Tensor, key: Tensor, value: Tensor, *_: Any) -> Tensor:
    return query.new_empty(*query.shape[:3], value.shape[-1])


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    others = _Others(*inputs[_N_TENSORS:])
    ctx.others = others
    ctx.save_for_backward(*inputs[:_N_TENSORS], *others[:3])


def _backward(ctx: Any, grad_output: Tensor) -> tuple[Any, ...]:
    saved = ctx.saved_tensors
    inputs, others = saved[:_N_TENSORS], _Others(*saved[_N_TENSORS:], *ctx.others[3:])
    wanted = list(ctx.needs_input_grad[:_N_TENSORS])
    found = torch.ops.omegamax.sparse_attention_gradient(grad_output, *inputs, *others, wanted)
    kept = (grad if asked and x is not None else None for grad, x, asked in zip(found, inputs, wanted))
    return (*kept, *(None,) * len(others))


def _gradient(grad_output: Tensor, *given: Any) -> tuple[Tensor, ...]:
    *given, wanted = given  # type: ignore[assignment]
    inputs, others = _dense_inputs(tuple(given)), _Others(*given[_N_TENSORS:])
    with torch.no_grad():
        again = forward_pass(others.settings(inputs[3]), *inputs, wants_support=True)
        assert isinstance(again.support, Support)
        found = gradients(again.settings, inputs, again.refused, again.support, grad_output.detach(), wanted=wanted)
    return tuple(inputs[0].new_empty(0) if grad is None else grad.contiguous() for grad in found)


def _gradient_fake(grad_output: Tensor, *given: Any) -> tuple[Tensor, ...]:
    inputs, wanted = given[:_N_TENSORS], (True, True, True, *given[-1][3:])
    return tuple(
        x.new_empty(x.shape) if asked and x is not None else inputs[0].new_empty(0) for x, asked in zip(inputs, wanted)
    )


def _refuse_second(ctx: Any, *grads: Any) -> tuple[Any, ...]:
    raise RuntimeError(ONCE)


_LIBRARY.impl("sparse_attention", _attend, "CPU")
_LIBRARY.impl("sparse_attention_gradient", _gradient, "CPU")
torch.library.register_fake("omegamax::sparse_attention", _attend_fake, lib=_LIBRARY)
torch.library.register_fake("omegamax::sparse_attention_gradient", _gradient_fake, lib=_LIBRARY)
torch.library.register_autograd("omegamax::sparse_attention", _backward, setup_context=_setup, lib=_LIBRARY)
torch.library.register_autograd("omegamax::sparse_attention_gradient", _refuse_second, lib=_LIBRARY)
