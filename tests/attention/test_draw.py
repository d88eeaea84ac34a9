"""DRAW's window against the formulas of the paper, one number at a time."""

import math

import pytest
import torch
from cases import normal
from torch.autograd import gradcheck

import omegamax as om
from omegamax.attention import DrawWindow


def make(hidden_size=4, patch_size=3):
    torch.manual_seed(0)
    return om.attention.DrawAttention(hidden_size, patch_size=patch_size).double()


def filter_by_loops(centre, stride, variance, n, size):
    """Equations 19 to 26 for one axis."""
    table = torch.zeros(n, size, dtype=torch.float64)
    for i in range(1, n + 1):
        mean = centre + (i - n / 2 - 0.5) * stride
        row = [math.exp(-((a - mean) ** 2) / (2 * variance)) for a in range(1, size + 1)]
        table[i - 1] = torch.tensor([value / sum(row) for value in row], dtype=torch.float64)
    return table


@pytest.mark.parametrize("patch_size", [1, 2, 5])
def test_read_and_write_are_the_papers(patch_size):
    draw, hidden = make(patch_size=patch_size), normal(4)
    image, patch = normal(2, 6, 8), normal(2, patch_size, patch_size, seed=1)
    width, height, n = 8, 6, patch_size
    gx, gy, log_variance, log_stride, log_gamma = draw.of_hidden(hidden).tolist()
    stride = (max(width, height) - 1) / max(n - 1, 1) * math.exp(log_stride)
    columns = filter_by_loops((width + 1) / 2 * (gx + 1), stride, math.exp(log_variance), n, width)
    rows = filter_by_loops((height + 1) / 2 * (gy + 1), stride, math.exp(log_variance), n, height)
    gamma = math.exp(log_gamma)
    window = draw.window(hidden, height, width)
    for c in range(2):
        torch.testing.assert_close(draw(image, hidden)[c], gamma * rows @ image[c] @ columns.T)
        written = draw.write(patch, window, height, width)[c]
        torch.testing.assert_close(written, rows.T @ patch[c] @ columns / gamma)


def test_a_delta_image_gives_the_filters_patch():
    """One bright pixel (b, a): the patch is γ F_Y[:, b] F_X[:, a]ᵀ."""
    draw, hidden = make(), normal(4, seed=3)
    window = draw.window(hidden, 5, 7)
    rows, columns = window.filters(3, 5, 7)
    torch.testing.assert_close(rows.sum(-1), torch.ones(3).double())
    for b in range(5):
        for a in range(7):
            delta = torch.zeros(1, 5, 7).double()
            delta[0, b, a] = 1
            expected = window.intensity * rows[:, b].unsqueeze(-1) * columns[:, a]
            torch.testing.assert_close(draw.read(delta, window)[0], expected)


def test_a_sharp_window_of_stride_one_copies_pixels():
    number = torch.tensor
    window = DrawWindow(
        *(number(v, dtype=torch.float64) for v in (4.0, 3.0, 1.0, 1e-3, 1.0))
    )  # column 4, row 3, from 1
    image = normal(1, 6, 8)
    draw = make()
    patch = draw.read(image, window)
    torch.testing.assert_close(patch, image[:, 1:4, 2:5])
    back = draw.write(patch, window, 6, 8)
    expected = torch.zeros_like(image)
    expected[:, 1:4, 2:5] = patch
    torch.testing.assert_close(back, expected)


def test_zeros_look_at_the_whole_image_from_its_centre():
    draw = make(patch_size=5)
    torch.nn.init.zeros_(draw.of_hidden.weight)
    torch.nn.init.zeros_(draw.of_hidden.bias)
    window = draw.window(torch.zeros(4).double(), 9, 9)
    assert [float(v.detach()) for v in window] == [5.0, 5.0, 2.0, 1.0, 1.0]


def test_write_is_the_adjoint_of_read_but_for_the_intensity():
    draw, hidden = make(), normal(3, 4)
    image, patch = normal(3, 2, 6, 8), normal(3, 2, 3, 3, seed=1)
    window = draw.window(hidden, 6, 8)
    squared = window.intensity.square()[:, None, None, None]
    ahead, back = (draw.read(image, window) * patch), (squared * draw.write(patch, window, 6, 8) * image)
    torch.testing.assert_close(ahead.sum((-3, -2, -1)), back.sum((-3, -2, -1)))


def test_shapes_and_batches():
    draw, hidden = make(), normal(2, 5, 4)
    image = normal(2, 5, 3, 6, 8)
    window = draw.window(hidden, 6, 8)
    patch = draw.read(image, window)
    assert patch.shape == (2, 5, 3, 3, 3) and draw.write(patch, window, 6, 8).shape == image.shape
    torch.testing.assert_close(draw(image[1, 2], hidden[1, 2]), patch[1, 2])
    assert draw(image[:0], hidden[:0]).shape == (0, 5, 3, 3, 3)


def test_gradcheck():
    draw = make(patch_size=2)
    image, patch = normal(1, 4, 5).requires_grad_(), normal(1, 2, 2, seed=1).requires_grad_()
    hidden = normal(4).requires_grad_()
    assert gradcheck(lambda x, h: draw(x, h), (image, hidden))
    assert gradcheck(lambda w, h: draw.write(w, draw.window(h, 4, 5), 4, 5), (patch, hidden))


def test_far_outside_is_finite():
    """Every Gaussian underflows there; the filter still sums to one."""
    window = DrawWindow(*(torch.tensor(v) for v in (1e4, -1e4, 1.0, 0.1, 1.0)))
    for table in window.filters(3, 5, 7):
        torch.testing.assert_close(table.sum(-1), torch.ones(3))


def test_half_precision():
    draw = om.attention.DrawAttention(4, patch_size=3)
    image, hidden = normal(2, 1, 8, 8).float(), normal(2, 4).float()
    exact = draw(image, hidden)
    with torch.autocast("cpu", torch.bfloat16):
        half = draw(image, hidden)
    torch.testing.assert_close(half.float(), exact, atol=0.1, rtol=0.1)
    whole = draw.bfloat16()(image.bfloat16(), hidden.bfloat16())
    assert whole.dtype is torch.bfloat16


def test_errors():
    with pytest.raises(ValueError, match="patch_size must be a positive int"):
        om.attention.DrawAttention(4, patch_size=0)
    draw = make()
    with pytest.raises(ValueError, match="a patch must be"):
        draw.write(normal(1, 2, 2), draw.window(normal(4), 5, 5), 5, 5)
    with pytest.raises(TypeError, match=r"image must be floating point, got torch\.uint8"):
        draw(torch.ones(1, 5, 5, dtype=torch.uint8), normal(4))
    with pytest.raises(TypeError, match=r"patch must be floating point, got torch\.int64"):
        draw.write(torch.ones(1, 3, 3).long(), draw.window(normal(4), 5, 5), 5, 5)
    assert "patch_size=3" in repr(draw)
