"""Log-mel features against sums written out; bands where they belong; silence and short sounds."""

import math

import pytest
import torch

from omegamax.models.log_mel import LogMel, mel_bands


def test_a_frame_against_the_sums():
    torch.manual_seed(0)
    layer = LogMel(8000, width=20, hop=8, n_bands=4)
    samples = torch.randn(44, dtype=torch.float64)
    found = layer.double()(samples)
    assert found.shape == (4, 4) and layer.n_frames(44) == 4 and layer.n_fft == 32
    frame = [float(samples[8 + k]) * 0.5 * (1 - math.cos(2 * math.pi * k / 20)) for k in range(20)]  # the second one
    mel = [2595 * math.log10(1 + f / 700) for f in (0.0, 4000.0)]
    edges = [700 * (10 ** (mel[1] * k / 5 / 2595) - 1) for k in range(6)]
    for band in range(4):
        energy = 0.0
        for bin_ in range(17):
            real = sum(value * math.cos(2 * math.pi * bin_ * k / 32) for k, value in enumerate(frame))
            imaginary = sum(value * math.sin(2 * math.pi * bin_ * k / 32) for k, value in enumerate(frame))
            low, middle, high = edges[band : band + 3]
            frequency = 8000 * bin_ / 32
            weight = max(0.0, min((frequency - low) / (middle - low), (high - frequency) / (high - middle)))
            energy += weight * (real**2 + imaginary**2)
        assert float(found[1, band]) == pytest.approx(math.log(max(energy, 1e-6)), rel=1e-5)


def test_a_tone_is_in_its_band():
    layer = LogMel()
    for tone in (300.0, 1000.0, 3000.0):
        features = layer(torch.sin(2 * math.pi * tone * torch.arange(4000) / 8000)).mean(0)
        bands = mel_bands(40, layer.n_fft, 8000)
        nearest = bands[round(tone * layer.n_fft / 8000)].argmax()
        assert abs(int(features.argmax()) - int(nearest)) <= 1


def test_silence_and_short_sounds():
    layer = LogMel()
    assert layer(torch.zeros(2, 1000)).eq(math.log(1e-6)).all()
    assert layer(torch.ones(3)).shape == (1, 40) and layer.n_frames(3) == 1
    assert not list(layer.state_dict())  # the window and the bands follow from the arguments
