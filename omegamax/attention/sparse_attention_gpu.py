"""Sparse attention by Triton kernels, under autograd: what they take, and the gradient of a bias."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from omegamax import routing
from omegamax.attention.sparse_attention_function import ONCE, Settings
from omegamax.kernels import gpu
from omegamax.operators.evaluation import once
from omegamax.operators.squared_norm import SquaredNorm
from omegamax.operators.tsallis import Tsallis

if TYPE_CHECKING:
    from omegamax.attention.row_normalizer import RowNormalizer

_MAX_SIZE = 256  # features of a key or a value, of which a tile holds all


def runs_on_gpu(tensors: Sequence[Tensor], parts: RowNormalizer, value_size: int) -> bool:
    """Says whether the Triton kernels take these tensors and this normalizer, and nothing but reverse mode records.

    A temperature that is a tensor takes dense scores: whether it is safe would have to be read from the device.
    """
    if tensors[0].device.type not in gpu.DEVICES or not gpu.are_on_gpu(tensors):
        return False
    if max(tensors[0].shape[-1], value_size) > _MAX_SIZE or any(isinstance(x, Tensor) for x in parts.gammas):
        return False
    operator = parts.operator
    if type(operator) is not SquaredNorm and not (type(operator) is Tsallis and gpu.has_order(operator.alpha)):
        return False
    if any(x.is_floating_point() and x.dtype != torch.float32 for x in tensors):
        return False
    return routing.context(*tensors) in (routing.Context.PLAIN, routing.Context.AUTOGRAD)


class GpuSparseAttention(torch.autograd.Function):
    """Computes the output of sparse attention, which can be differentiated once."""

    @staticmethod
    def forward(
        ctx: Any,
        settings: Settings,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        parameter: Tensor | None,
        bias: Tensor | None,
    ) -> Tensor:
        """Computes the output, and saves the inputs, three numbers per row and the active blocks."""
        kernel = importlib.import_module("omegamax.kernels.triton.attention_forward")
        query, key, value = query.contiguous(), key.contiguous(), value.contiguous()
        operator, rows = _problem(settings, query, key, bias)
        output, *state = kernel.forward(query, key, value, operator.parameter, rows)
        ctx.settings = settings
        ctx.save_for_backward(query, key, value, bias, *state)
        return output

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Computes the gradients, which raise where they are differentiated again."""
        kernel = importlib.import_module("omegamax.kernels.triton.attention_backward")
        query, key, value, bias, *state = ctx.saved_tensors
        wants_bias = bias is not None and ctx.needs_input_grad[5]
        with torch.no_grad():
            operator, rows = _problem(ctx.settings, query, key, bias)
            found = kernel.backward(
                query, key, value, grads[0], kernel.AttentionState(None, *state), operator.parameter, rows,
                wants_scores=wants_bias,
            )  # fmt: skip
            grad_bias = _bias_gradient(found.scores, bias, relative=ctx.settings.relative) if wants_bias else None
        origins = grads[0], query, key, value, *(() if bias is None else (bias,))
        of_inputs = (once(ONCE, grad, *origins) for grad in found[:3])
        return None, *of_inputs, None, None if grad_bias is None else once(ONCE, grad_bias, *origins)


def _problem(settings: Settings, query: Tensor, key: Tensor, bias: Tensor | None) -> tuple[Any, Any]:
    shape = (*query.shape[:3], key.shape[2])
    return settings.row_operator(None, query.shape), settings.rows(shape, bias)


def _bias_gradient(scores: Tensor, bias: Tensor, *, relative: bool) -> Tensor:
    """Adds up the gradients (batch, heads, Q, K) of the scores that share a number of the bias."""
    if not relative:
        return scores.sum_to_size(bias.shape)
    # From the last query to the first, each row moves one place to the right; then distances are columns.
    *lead, n_queries, n_keys = scores.shape
    wide = torch.nn.functional.pad(scores.flip(-2), (0, n_queries)).reshape(*lead, n_queries * (n_keys + n_queries))
    by_distance = wide[..., : n_queries * (n_keys + n_queries - 1)].reshape(*lead, n_queries, n_keys + n_queries - 1)
    return by_distance.sum(-2).sum_to_size(bias.shape)
