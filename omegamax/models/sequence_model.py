"""The interface of models that read one sequence and write another: the same for recurrent ones and Transformers.

Whatever searches for outputs, draws attention or exports a model needs three functions: the source is encoded once, the
decoder has a first state, and a step takes one token of each output. Training sees all target tokens at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from torch import Tensor, nn


class DecoderStep(NamedTuple):
    """The next log-probabilities, and the state after one more token."""

    log_probs: Tensor  # (B, target tokens), of the next token; -inf where its probability is exactly zero
    state: Any  # a tensor with B rows, a tuple of states, or an object with `select(rows)`
    weights: Tensor | None = None  # (B, K), of the source tokens in this step; None without attention


class SequenceModel(nn.Module, ABC):
    """Reads source tokens (B, K) with lengths (B,) and writes target tokens, which begin with a start token."""

    @abstractmethod
    def forward(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """Computes what training maximises for each token of `target` (B, T + 1) after the first, (B, T).

        It is the log-likelihood, or minus the loss where a model has another one.
        """

    @abstractmethod
    def log_likelihood(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """Computes log p(y_t | y_<t, x) of each token of `target` (B, T + 1) after the first, (B, T)."""

    @abstractmethod
    def encode(self, source: Tensor, lengths: Tensor | None) -> Any:
        """Encodes `source` into tensors with B rows each, a NamedTuple of them; decoding never changes it.

        `lengths` is None if no source has padding: then nothing depends on values of tensors, and a graph can be
        exported.
        """

    @abstractmethod
    def start(self, encoded: Any) -> Any:
        """Computes the decoder's first state, with B rows; `encoded` is what `encode` returned."""

    @abstractmethod
    def step(self, token: Tensor, state: Any, encoded: Any) -> DecoderStep:
        """Takes one `token` (B,) of each output and predicts the next, from the `state` and what was `encoded`."""

    @abstractmethod
    def attend(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor | None:
        """Computes the weights (B, T, K), or (B, heads, T, K), behind each token of `target` after the first.

        None without attention.
        """


def repeat_rows(encoded: Any, count: int) -> Any:
    """Repeats each row of tensors, in tuples of any depth, `count` times in a row: one for each hypothesis."""
    if encoded is None or isinstance(encoded, Tensor):
        return encoded if encoded is None or count == 1 else encoded.repeat_interleave(count, 0)
    parts = [repeat_rows(part, count) for part in encoded]
    return type(encoded)(*parts) if hasattr(encoded, "_fields") else tuple(parts)
