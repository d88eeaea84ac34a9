"""Total-variation denoising with `prox_tv1d`, and learning how strongly to denoise.

    argmin_y  1/2 ||y - noisy||^2 + strength * sum |y_{i+1} - y_i|

The prox is differentiable in the signal and in the strength, so the strength can be learned from clean examples.

    python examples/denoise.py
"""

from pathlib import Path

import torch

import omegamax as om


def signals(count: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Piecewise constant signals of 200 points, and noisy copies."""
    jumps = torch.rand(count, 200, generator=generator) < 0.03
    clean = (jumps * torch.randn(count, 200, generator=generator)).cumsum(-1)
    return clean, clean + 0.3 * torch.randn(clean.shape, generator=generator)


def main() -> None:
    torch.set_num_threads(1)  # the tensors are tiny: threads would only wait for each other
    generator = torch.Generator().manual_seed(0)
    clean, noisy = signals(64, generator)

    strength = om.Above(0.0, start=0.1)  # a positive number that learns
    optimizer = torch.optim.Adam(strength.parameters(), lr=0.1)
    for step in range(60):
        denoised = om.prox_tv1d(noisy, strength())
        loss = (denoised - clean).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step:2d}   strength {strength().item():.3f}   mean squared error {loss.item():.4f}")

    clean, noisy = signals(64, generator)  # signals that were not seen
    with torch.no_grad():
        denoised = om.prox_tv1d(noisy, strength())
    segments = 1 + (denoised.diff() != 0).sum(-1)
    print(f"\nlearned strength {strength().item():.3f}")
    print(f"mean squared error: noisy {(noisy - clean).square().mean():.4f}", end=", ")
    print(f"denoised {(denoised - clean).square().mean():.4f}")
    print(f"a denoised signal has {segments.float().mean():.1f} segments on average, a noisy one 200")

    try:
        from omegamax.plots import denoising
    except ImportError:
        print('for a picture: pip install ".[plot]" in the clone of omegamax')
        return
    path = Path("report") / "denoise.png"
    path.parent.mkdir(exist_ok=True)
    denoising(noisy[0], strength().item(), truth=clean[0]).savefig(path)
    print(f"picture: {path}")


if __name__ == "__main__":
    main()
