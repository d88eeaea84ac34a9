"""One step of decoding over a `KeyCache` against F.scaled_dot_product_attention (softmax) over the same keys.

A cell is time relative to PyTorch's fused softmax attention with one query; all take turns. Below 1 is faster. Keys are
random, in clusters (pages of neighbours lie close together), and those of a small model trained here to repeat what it
has read. More tables show the share of pages whose keys were read and the bytes per key that a step reads, and the
time of appending a key.
"""

from __future__ import annotations

import argparse
import sys
import time

import timing
import torch
from timing import fastest, write
from torch import Tensor

import omegamax as om

SIZE = 64
NORMALIZERS = {
    "sparsemax": om.SquaredNorm(),
    "entmax15": om.Tsallis(1.5),
    "top-32": om.attention.TopK(32),
    "fusedmax(0.1)": om.Fused(0.1),
}


def random_keys(length: int, n_heads: int) -> list[Tensor]:
    """Query, key and value of standard normal numbers."""
    return [torch.randn(1, n_heads, n, SIZE) for n in (1, length, length)]


def clustered_keys(length: int, n_heads: int) -> list[Tensor]:
    """Neighbours lie around a centre; the query looks for one of the centres."""
    n_centres = max(1, length // 256)
    centres = torch.randn(1, n_heads, n_centres, SIZE)
    key = centres.repeat_interleave(-(-length // n_centres), 2)[:, :, :length]
    key = key + 0.2 * torch.randn(1, n_heads, length, SIZE)
    query = centres[:, :, n_centres // 2 : n_centres // 2 + 1] * 3
    return [query, key, torch.randn(1, n_heads, length, SIZE)]


class TrainedKeys:
    """Keys of a model with one layer, trained to repeat a sequence of random tokens."""

    def __init__(self, n_steps: int) -> None:
        torch.manual_seed(0)
        self.model = om.CausalTransformer(
            256, 2 * SIZE, n_heads=2, n_layers=1, hidden_size=256, dropout=0.0, normalizer=om.SquaredNorm()
        )
        adam = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        for _ in range(n_steps):
            tokens = torch.randint(256, (16, 48)).repeat(1, 2)
            logits = self.model(tokens[:, :-1]).logits[:, 47:]
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 48:].flatten())
            adam.zero_grad()
            loss.backward()
            adam.step()

    @torch.no_grad()
    def __call__(self, length: int, n_heads: int) -> list[Tensor]:
        """The last query, and all keys and values, of one head after the other."""
        stack = self.model.stack
        x = stack.positions(self.model.embedding(torch.randint(256, (1, length))))
        attention = stack.layers[0].self_attn
        query, key, value = (y.unflatten(-1, (2, SIZE)).transpose(1, 2) for y in attention._project(x, x, x))
        heads = torch.arange(n_heads) % 2
        return [query[:, heads, -1:], key[:, heads].contiguous(), value[:, heads].contiguous()]


def measured(tensors: list[Tensor], names: list[str], seconds: float, least: int) -> tuple[dict[str, float], list]:
    """Seconds of a step; and for each normalizer the share of pages that were read."""
    query, key, value = tensors
    cache = om.attention.KeyCache(capacity=key.shape[2])
    cache.append(key, value)
    runs = {"torch": lambda: torch.nn.functional.scaled_dot_product_attention(query, key, value)}
    shares = []
    for name in names:
        runs[name] = lambda normalizer=NORMALIZERS[name]: cache.attend(query, normalizer)
        runs[name]()
        shares.append(cache.share_read)
    return fastest(runs, seconds=seconds, least=least), shares


def seconds_per_append(length: int, n_new: int = 1000) -> float:
    """Of one key, with its copy in 8 bits, to a cache that long with room for it; copies of doublings are not in it."""
    cache = om.attention.KeyCache(capacity=length)
    cache.append(*(torch.randn(1, 1, length - n_new, SIZE) for _ in range(2)))
    new = [torch.randn(1, 1, 1, SIZE) for _ in range(2)]
    query = new[0]
    cache.attend(query, om.SquaredNorm())
    start = timing.clock()
    for _ in range(n_new):
        cache.append(*new)
        cache._storage.quantise()
    return (timing.clock() - start) / n_new


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.5, help="per contestant and cell (default %(default)s)")
    parser.add_argument("--least", type=int, default=5, help="rounds at least (default %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="threads for torch and omegamax (default %(default)s)")
    parser.add_argument("--heads", type=int, nargs="+", default=[1, 2], help="heads (default %(default)s)")
    parser.add_argument("--lengths", type=int, nargs="+", default=[2**14, 2**16, 2**18, 2**20])
    parser.add_argument("--normalizers", nargs="+", default=list(NORMALIZERS), choices=NORMALIZERS)
    parser.add_argument("--training", type=int, default=300, help="steps of training (default %(default)s)")
    parser.add_argument("--clock", choices=["perf_counter", "process_time"], default="perf_counter")
    arguments = parser.parse_args()
    timing.clock = getattr(time, arguments.clock)
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    names = arguments.normalizers
    kinds = {"random": random_keys, "clustered": clustered_keys}
    if arguments.training:
        kinds["trained"] = TrainedKeys(arguments.training)
    torch.set_grad_enabled(False)
    rows, reads = [], []
    for length in arguments.lengths:
        for n_heads in arguments.heads:
            for kind, draw in kinds.items():
                spent, shares = measured(draw(length, n_heads), names, arguments.seconds, arguments.least)
                ratios = [spent[name] / spent["torch"] for name in names]
                rows.append([length, n_heads, kind, spent["torch"] * 1e3, *ratios])
                # A page has 64 · (SIZE + 8) bytes, and its ball SIZE + 16, which every step reads.
                reads.append(
                    [length, n_heads, kind, *(f"{s:.0%}, {s * (SIZE + 8) + (SIZE + 16) / 64:.0f}" for s in shares)]
                )
                print(length, n_heads, kind, dict(zip(names, ratios)), file=sys.stderr, flush=True)
    appends = [[length, seconds_per_append(length) * 1e6] for length in arguments.lengths]
    sections = [
        (
            "Time of a step relative to F.scaled_dot_product_attention",
            ["keys", "heads", "kind", "softmax (ms)", *names],
            rows,
        ),
        (
            f"Pages read, and bytes per key (softmax reads {8 * SIZE})",
            ["keys", "heads", "kind", *names],
            reads,
        ),
        ("Appending a key (µs)", ["keys", "µs"], appends),
    ]
    arch = "" if om.routing.native.arch() == om.routing.native.supported_archs()[0] else f"_{om.routing.native.arch()}"
    write(f"decoding{arch}", "Decoding over a key cache", sections)


if __name__ == "__main__":
    main()
