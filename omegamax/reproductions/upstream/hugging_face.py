"""Models of Hugging Face whose attention is replaced."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from omegamax.reproductions.upstream.case import Finding, find


def _model(attention: str) -> Any:
    from transformers import LlamaConfig, LlamaModel

    config = LlamaConfig(
        vocab_size=20,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        attn_implementation=attention,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return LlamaModel(config).eval()


@torch.no_grad()
def _leak(attention: str) -> float:
    """How much the first positions change with the last token: nothing, if the model is causal."""
    model = _model(attention)
    tokens = torch.tensor([[1, 2, 3, 4], [1, 2, 3, 9]])
    output: Tensor = model(tokens).last_hidden_state[:, :3]
    return float((output[0] - output[1]).abs().max())


def vanished_mask() -> list[Finding]:
    """A function that does what the library's own eager attention does, registered as its documentation shows first."""

    def theirs() -> float:
        from transformers import AttentionInterface

        def plain(module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **rest: Any) -> Any:
            scores = query @ key.transpose(-1, -2) * rest["scaling"]
            scores = scores if attention_mask is None else scores + attention_mask
            return (scores.softmax(-1) @ value).transpose(1, 2), None

        AttentionInterface.register("omegamax_upstream_plain", plain)
        return _leak("omegamax_upstream_plain")

    def ours() -> float:
        from omegamax.integrations.transformers import register

        (name, *_) = register("softmax")
        return _leak(name)

    def show(found: float) -> str:
        return f"{found:.4f}"

    return [find("change of position 3 with token 4", "0", theirs, ours, lambda found: found < 1e-6, show)]
