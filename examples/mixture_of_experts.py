"""Conditional computation: a mixture of experts that runs only the experts with weight.

    output(x) = sum over experts e with weight_e(x) > 0 of  weight_e(x) * expert_e(x)

Under softmax every expert has weight, so all of them run for every input. Under sparsemax and entmax most weights are
exactly zero: skipping those experts changes nothing in the output or in the gradient. The same with one switch per
expert instead of a shared simplex is `om.gate`, whose weights can be exactly 0 or 1.

    python examples/mixture_of_experts.py
"""

import torch
from torch import Tensor, nn

import omegamax as om

EXPERTS, WIDTH, STEPS = 8, 32, 250


class Mixture(nn.Module):
    """Small networks, and a router that weighs them for each input."""

    def __init__(self, regularizer: om.SmoothMax | None) -> None:
        super().__init__()
        self.regularizer = regularizer  # None: one sparse gate per expert
        self.router = nn.Sequential(nn.Linear(1, WIDTH), nn.Tanh(), nn.Linear(WIDTH, EXPERTS))
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(1, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1)) for _ in range(EXPERTS)
        )
        self.runs = 0  # how many (input, expert) pairs were computed

    def forward(self, x: Tensor) -> Tensor:
        """Predictions (batch, 1) for inputs (batch, 1)."""
        scores = self.router(x)  # (batch, experts)
        if self.regularizer is None:
            weights = om.gate(scores - 0.5, om.SquaredNorm())
        else:
            weights = om.smooth_argmax(scores, self.regularizer)
        output = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            (chosen,) = torch.nonzero(weights[:, number], as_tuple=True)  # the inputs that need this expert
            if len(chosen):
                part = weights[chosen, number, None] * expert(x[chosen])
                output = output.index_add(0, chosen, part)
            self.runs += len(chosen)
        return output


def target(x: Tensor) -> Tensor:
    """A function with four regimes: each needs another expert."""
    regime = torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0]))
    shapes = torch.stack((torch.sin(6 * x), x**2, -x, torch.cos(4 * x)), 0)
    return shapes.gather(0, regime.unsqueeze(0)).squeeze(0)


def train(model: Mixture, generator: torch.Generator) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        x = 4 * torch.rand(256, 1, generator=generator) - 2
        loss = (model(x) - target(x)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main() -> None:
    torch.set_num_threads(1)  # the tensors are tiny: threads would only wait for each other
    routers = {
        "softmax": om.Shannon(),
        "entmax15": om.Tsallis(1.5),
        "sparsemax": om.SquaredNorm(),
        "sparse gates": None,
    }
    x = torch.linspace(-2, 2, 1000).unsqueeze(-1)
    print(f"{'router':<14} {'test error':>10}   experts run per input, of {EXPERTS}")
    for name, regularizer in routers.items():
        torch.manual_seed(0)
        model = Mixture(regularizer)
        train(model, torch.Generator().manual_seed(0))
        model.runs = 0
        with torch.no_grad():
            error = (model(x) - target(x)).square().mean()
        print(f"{name:<14} {error.item():>10.4f}   {model.runs / len(x):.2f}")


if __name__ == "__main__":
    main()
