"""A network with a memory learns to copy a sequence, and to recall what came after something.

Copy: a few vectors of bits are shown, then a signal; after it they must be said again, in order. Associative recall: a
few vectors are shown, then one of them again with the signal; the answer is the one that followed it. Nothing in the
network says how: it learns where to write and where to read from the error of the answers alone. Slots are found by
entmax, so a head that is sure looks at one slot only.

    python examples/memory_tasks.py [steps of copy] [steps of recall]
"""

import sys
import time

import torch
from torch import nn

import omegamax as om

BITS, SHORT, LONG, BATCH = 4, 2, 5, 32
LR = 0.01
SPARSE = om.Tsallis(1.5)


def copy(generator: torch.Generator, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs (batch, T, BITS + 1), the last channel being the signal, and the bits to be said at the last steps."""
    bits = torch.randint(0, 2, (BATCH, length, BITS), generator=generator).float()
    inputs = torch.zeros(BATCH, 2 * length + 1, BITS + 1)
    inputs[:, :length, :BITS] = bits
    inputs[:, length, BITS] = 1
    return inputs, bits


def recall(generator: torch.Generator, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The same; the vectors of a sequence differ, so that there is one answer."""
    numbers = torch.rand(BATCH, 2**BITS, generator=generator).argsort(-1)[:, :length]
    bits = (numbers.unsqueeze(-1) >> torch.arange(BITS) & 1).float()
    asked = torch.randint(0, length - 1, (BATCH,), generator=generator)
    inputs = torch.zeros(BATCH, length + 2, BITS + 1)
    inputs[:, :length, :BITS] = bits
    inputs[:, length, :BITS] = bits[torch.arange(BATCH), asked]
    inputs[:, length, BITS] = 1
    return inputs, bits[torch.arange(BATCH), asked + 1].unsqueeze(1)


def train(task, model: nn.Module, n_steps: int, generator: torch.Generator) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    slower = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, n_steps)  # or what was learned is lost again
    began = time.perf_counter()
    for step in range(1, n_steps + 1):
        length = int(torch.randint(SHORT, LONG + 1, (), generator=generator))
        inputs, target = task(generator, length)
        answer = model(inputs).outputs[:, -target.shape[1] :]
        loss = nn.functional.binary_cross_entropy_with_logits(answer, target)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
        slower.step()
        if step % max(1, n_steps // 5) == 0:
            print(f"  step {step:5d}   loss {loss.item():.4f}   {time.perf_counter() - began:5.1f} s")


@torch.no_grad()
def right(task, model: nn.Module, generator: torch.Generator, length: int) -> float:
    """The share of sequences without a wrong bit."""
    hits = []
    for _ in range(10):
        inputs, target = task(generator, length)
        hits.append(((model(inputs).outputs[:, -target.shape[1] :] > 0) == (target > 0.5)).flatten(1).all(-1))
    return torch.cat(hits).float().mean().item()


def main(n_copy: int = 1600, n_recall: int = 1400) -> None:
    torch.set_num_threads(1)  # the tensors are tiny: threads would only wait for each other
    for name, task, n_steps, kind in (
        ("copy, with the memory of a neural Turing machine", copy, n_copy, om.attention.TuringMemory),
        ("associative recall, with that of a differentiable neural computer", recall, n_recall, om.attention.DNCMemory),
    ):
        print(name)
        torch.manual_seed(0)
        generator = torch.Generator().manual_seed(0)
        memory = kind(32, n_slots=12, width=8, normalizer=SPARSE)
        model = om.attention.MemoryController(BITS + 1, BITS, memory)
        train(task, model, n_steps, generator)
        scores = "   ".join(
            f"{length}: {right(task, model, generator, length):.3f}" for length in range(SHORT, LONG + 3)
        )
        print(f"  sequences all right, by length (trained on {SHORT} to {LONG})   {scores}\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
