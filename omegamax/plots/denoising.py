"""Draws total-variation denoising, the prox inside fusedmax, on a signal."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from torch import Tensor

from omegamax.plots.arrays import to_cpu_tensor, to_float_tensor
from omegamax.plots.style import INK, colour, figure_style
from omegamax.proximal import prox_tv1d


def denoising(noisy: Tensor | None = None, strength: float = 2.5, *, truth: Tensor | None = None) -> Figure:
    """Draws a noisy signal, and the piecewise constant signal that total-variation denoising makes of it.

        argmin_y  1/2 ||y - noisy||^2 + strength * sum |y_{i+1} - y_i|

    Without a signal it draws an example of its own: `steps()`, with normal noise.
    """
    if noisy is None:
        truth, noisy = steps()
    signal, truth = to_float_tensor(noisy), to_cpu_tensor(truth)
    if not isinstance(signal, Tensor) or signal.dim() != 1:
        came = tuple(signal.shape) if isinstance(signal, Tensor) else type(signal).__name__
        raise ValueError(f"denoising: noisy must be one signal of numbers, got {came}; pick a row")
    if truth is not None and (not isinstance(truth, Tensor) or truth.shape != signal.shape):
        came = tuple(truth.shape) if isinstance(truth, Tensor) else type(truth).__name__
        raise ValueError(f"denoising: truth must be a signal like noisy, {tuple(signal.shape)}, got {came}; match them")
    result = prox_tv1d(signal, strength)
    where = torch.arange(signal.numel())
    with figure_style():
        figure = Figure(figsize=(5.0, 2.4), layout="constrained")
        axes = figure.subplots()
        axes.plot(where, signal, ".", color="#9A9A9A", markersize=3, label="noisy signal")
        if truth is not None:
            axes.plot(where, truth, color=INK, linewidth=0.9, linestyle="--", label="signal")
        axes.step(where, result, where="mid", color=colour("fusedmax"), linewidth=1.6, label=f"prox, λ = {strength:g}")
        axes.set(xlabel="position", xlim=(-2, signal.numel() + 1))
        figure.legend(loc="outside upper center", ncols=3, handlelength=1.8, columnspacing=1.5)
    return figure


def steps(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Returns a piecewise constant signal of 200 points, and the same with normal noise of deviation 0.35."""
    generator = torch.Generator().manual_seed(seed)
    levels = torch.tensor([0.0, 1.5, 1.0, -0.8, 0.4])
    lengths = torch.tensor([45, 35, 40, 30, 50])
    truth = levels.repeat_interleave(lengths)
    return truth, truth + 0.35 * torch.randn(truth.shape, generator=generator)
