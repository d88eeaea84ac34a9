"""One small attention task learned with each normalizer, and the weights that each one ends with.

Every input is a row of 24 numbers, each with a noisy key. A few neighbours in the row carry keys like the query, and
the answer is the mean of their numbers: attention must find the segment and weigh it evenly. Only the score function
learns, a bilinear form, from the error of the answer.

    python examples/attention_toy.py
"""

import time
from pathlib import Path
from typing import NamedTuple

import torch

import omegamax as om

KEYS, SIZE, STEPS = 24, 8, 1000
NORMALIZERS = {
    "softmax": om.Shannon(),
    "entmax15": om.Tsallis(1.5),
    "sparsemax": om.SquaredNorm(),
    "sqpnormmax": om.SquaredPNorm(1.5),
    "oscarmax": om.Oscar(0.02),
    "fusedmax": om.Fused(0.2),
}


class Batch(NamedTuple):
    """Rows of numbers with their keys, and where to look."""

    query: torch.Tensor  # (items, 1, size)
    keys: torch.Tensor  # (items, keys, size)
    numbers: torch.Tensor  # (items, keys, 1)
    inside: torch.Tensor  # (items, 1, keys): the segment

    @property
    def answer(self) -> torch.Tensor:
        """The mean over the segment."""
        share = self.inside / self.inside.sum(-1, keepdim=True)
        return share @ self.numbers


def batch(generator: torch.Generator, items: int = 64) -> Batch:
    length = torch.randint(3, 9, (items, 1), generator=generator)
    start = (torch.rand(items, 1, generator=generator) * (KEYS - length + 1)).long()
    place = torch.arange(KEYS)
    inside = (place >= start) & (place < start + length)
    query, noise, other = (torch.randn(items, n, SIZE, generator=generator) for n in (1, KEYS, KEYS))
    keys = torch.where(inside.unsqueeze(-1), query, other) + 0.5 * noise
    return Batch(query, keys, torch.randn(items, KEYS, 1, generator=generator), inside.unsqueeze(1).float())


def trained(normalizer: om.SmoothMax) -> om.Attention:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    attention = om.Attention(om.Bilinear(SIZE, SIZE), normalizer=normalizer)
    torch.nn.init.normal_(attention.score.weight, std=0.01)  # even weights: what starts at zero weight learns nothing
    optimizer = torch.optim.Adam(attention.parameters(), lr=0.003)
    for _ in range(STEPS):
        data = batch(generator)
        output, _ = attention(data.query, data.keys, data.numbers)
        loss = (output - data.answer).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return attention


def main() -> None:
    torch.set_num_threads(1)  # the tensors are tiny: threads would only wait for each other
    test = batch(torch.Generator().manual_seed(1), 1000)
    weights = {}
    print("normalizer    error    weight inside    zeros outside    different weights inside    seconds")
    for name, normalizer in NORMALIZERS.items():
        start = time.perf_counter()
        attention = trained(normalizer)
        with torch.no_grad():
            output, weights[name] = attention(test.query, test.keys, test.numbers)
        error = (output - test.answer).square().mean()
        found = (weights[name] * test.inside).sum(-1).mean()
        zeros = ((weights[name] == 0) * (1 - test.inside)).sum() / (1 - test.inside).sum()
        levels = sum(row[inside > 0].unique().numel() for row, inside in zip(weights[name], test.inside)) / 1000
        seconds = time.perf_counter() - start
        print(f"{name:10s}   {error:.4f}    {found:13.3f}    {zeros:13.3f}    {levels:24.2f}    {seconds:7.1f}")
    try:
        from omegamax.plots import attention_maps
    except ImportError:
        print('for a picture: pip install ".[plot]" in the clone of omegamax')
        return
    path = Path("report") / "attention.png"
    path.parent.mkdir(exist_ok=True)
    shown = {name: matrix[:12, 0] for name, matrix in weights.items()}  # twelve items, a line each
    attention_maps(shown, marked=test.inside[:12, 0] > 0).savefig(path)
    print(f"picture: {path}")


if __name__ == "__main__":
    main()
