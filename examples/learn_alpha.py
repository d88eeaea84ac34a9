"""One learned alpha per attention head (Correia, Niculae & Martins, 2019), on a toy where two heads need opposites.

Every input is a row of 16 numbers, each with a key. Head 0 must return the mean of all of them, head 1 the one whose
key is largest. Softmax (alpha = 1) is right for the first, a very sparse entmax for the second. The model is not told:
both orders start at 1.5 and are learned from the error alone.

    python examples/learn_alpha.py
"""

import torch
from torch import nn

import omegamax as om

HEADS, KEYS = 2, 16


class Heads(nn.Module):
    """Attention over numbers: scores are a learned multiple of the key, weights are entmax with one order per head."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(HEADS, 1))
        self.normalize = om.Entmax(alpha=om.Above(1.0, start=1.5, shape=(HEADS, 1)))

    def forward(self, keys: torch.Tensor) -> torch.Tensor:
        """Weights (batch, heads, keys) from keys (batch, keys)."""
        return self.normalize(self.scale * keys.unsqueeze(1))


def batch(generator: torch.Generator, size: int = 128) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Keys, numbers, and what the two heads should return."""
    keys = torch.randn(size, KEYS, generator=generator)
    numbers = torch.randn(size, KEYS, generator=generator)
    best = numbers.gather(-1, keys.argmax(-1, keepdim=True)).squeeze(-1)
    return keys, numbers, torch.stack((numbers.mean(-1), best), -1)  # (batch, heads)


def main() -> None:
    torch.set_num_threads(1)  # the tensors are tiny: threads would only wait for each other
    generator = torch.Generator().manual_seed(0)
    model = Heads()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    print("step    error    alpha per head    weights that are not zero, per head")
    for step in range(401):
        keys, numbers, target = batch(generator)
        weights = model(keys)
        answer = (weights * numbers.unsqueeze(1)).sum(-1)
        loss = (answer - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 80 == 0:
            alphas = "   ".join(f"{alpha:.3f}" for alpha in model.normalize.alpha().flatten().tolist())
            support = "   ".join(f"{size:4.1f}" for size in (weights > 0).sum(-1).float().mean(0).tolist())
            print(f"{step:4d}   {loss.item():.4f}    {alphas}     {support}")
    print(f"\nscales of the scores, per head: {[round(s, 2) for s in model.scale.flatten().tolist()]}")


if __name__ == "__main__":
    main()
