"""Writes the pages for the checks of the attention view, and what they must show.

`cases.py` calls `write_pages`. Run as a program, this file is the server for the checks of `--serve`: it prints its
address, answers a text with its letters, and runs until its standard input is closed.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import omegamax as om
from omegamax.errors import DataError
from omegamax.explorer import explorer_page
from omegamax.model_views.attention import collect_attention
from omegamax.model_views.encoding import AttentionLayers, encode
from omegamax.model_views.sources import ModelAttention, Source

ROWS = ["שלום", "the", "</script><img src=x onerror=alert(1)>", " ", "👩‍👩‍👧", "مرحبا"]
COLUMNS = ["a", "b‮c", "<b>d</b>", "e", "ف", "中文", "g", "h"]
N_LONG = 3000


def model(name: str, normalizer: str, *parts: AttentionLayers, max_weights: int = 1_000_000) -> dict[str, Any]:
    encoded = [encode(part, max_weights) for part in parts]
    return {"name": name, "normalizer": normalizer, "note": "", "parts": encoded}


def page(*inputs: dict[str, Any]) -> str:
    return explorer_page({"view": "attention", "attention": {"inputs": list(inputs)}})


def numbers(weights: Tensor) -> list[Any]:
    found: list[Any] = weights.float().tolist()
    return found


def small() -> tuple[str, dict[str, Any]]:
    """Two models of two layers and three heads; a second input with other tokens, a cut, and a weight that is NaN."""
    scores = 2 * torch.randn(2, 3, len(ROWS), len(COLUMNS), generator=torch.Generator().manual_seed(0))
    sparse, dense = om.sparsemax(scores), om.softmax(scores)
    first = {
        "text": "<i>a text</i> שלום",
        "models": [
            model("run-1", "softmax", AttentionLayers("", ROWS, COLUMNS, dense, False)),
            model("run-2", "sparsemax", AttentionLayers("", ROWS, COLUMNS, sparse, True)),
        ],
    }
    strange = torch.softmax(torch.arange(16.0).reshape(1, 1, 4, 4) % 5, -1)
    strange[0, 0, 1, 2] = float("nan")
    parts = [AttentionLayers(title, "wxyz", "wxyz", strange, True) for title in ("from outputs", "among inputs")]
    second = {"text": "cut", "models": [model("run-3", "", *parts, max_weights=8)]}
    expected = {"sparse": numbers(sparse), "dense": numbers(dense), "mean": numbers(sparse.mean((0, 1)))}
    expected["cut"] = second["models"][0]["parts"][0]["cut"]
    return page(first, second), expected


def long() -> str:
    """Three thousand tokens, eight of which have weight in each row."""
    generator = torch.Generator().manual_seed(0)
    weights = torch.zeros(1, 2, N_LONG, N_LONG)
    near = torch.arange(N_LONG)[:, None] + torch.randint(-30, 30, (N_LONG, 8), generator=generator)
    weights[0].scatter_(2, near.clamp(0, N_LONG - 1).expand(2, -1, -1), torch.rand(2, N_LONG, 8, generator=generator))
    weights /= weights.sum(-1, keepdim=True)
    tokens = [f"word{place}" for place in range(N_LONG)]
    layers = AttentionLayers("", tokens, tokens, weights, True)
    return page({"text": "long", "models": [model("long", "sparsemax", layers)]})


def write_pages(directory: Path) -> None:
    """Writes the pages, and attention.json with what they hold."""
    text, expected = small()
    expected["python"], expected["server"] = sys.executable, str(Path(__file__).resolve())
    broken = {"attention": {"inputs": [{"text": "", "models": [{"name": "x"}]}]}, "view": "attention"}
    pages = {"attention.html": text, "attention_long.html": long(), "attention_broken.html": explorer_page(broken)}
    for name, content in pages.items():
        (directory / name).write_text(content, encoding="utf-8")
    (directory / "attention.json").write_text(json.dumps(expected))


class Letters(Source):
    """A model whose every letter attends to itself."""

    name, normalizer = "letters", "sparsemax"

    def attend(self, lines: Any) -> list[ModelAttention]:
        if "bad" in lines:
            raise DataError("letters: expected good letters, got bad ones; write others")
        eyes = {line: torch.eye(len(line))[None, None] for line in lines}
        return [ModelAttention(line, [AttentionLayers("", line, line, eye, True)]) for line, eye in eyes.items()]

    def attend_to_examples(self) -> list[ModelAttention]:
        return []


def serve() -> None:
    from omegamax.model_views.server import Limits
    from omegamax.model_views.serving import make_server, open_socket

    data = {"view": "attention", "attention": {"inputs": [], "serve": {"max_characters": 20_000}}}
    listening = open_socket()
    server, address = make_server(
        explorer_page(data), lambda text: collect_attention([Letters()], text.split("\n")), listening, Limits()
    )

    def stop_at_end() -> None:
        sys.stdin.read()
        server.should_exit = True

    threading.Thread(target=stop_at_end, daemon=True).start()
    print(address, flush=True)
    server.run(sockets=[listening])


if __name__ == "__main__":
    serve()
