"""The retina against crops and means by loops."""

import pytest
import torch
from cases import normal
from torch.autograd import gradcheck

import omegamax as om


def pixel(image, row, column):
    inside = 0 <= row < image.shape[-2] and 0 <= column < image.shape[-1]
    return image[:, row, column] if inside else torch.zeros_like(image[:, 0, 0])


def interpolated(image, row, column):
    """Linear between the four pixels around."""
    r, c = int(row // 1), int(column // 1)
    down, right = row - r, column - c
    return (
        (1 - down) * (1 - right) * pixel(image, r, c)
        + (1 - down) * right * pixel(image, r, c + 1)
        + down * (1 - right) * pixel(image, r + 1, c)
        + down * right * pixel(image, r + 1, c + 1)
    )


def by_loops(image, location, n, n_scales, scale):
    channels, height, width = image.shape
    centre_x, centre_y = ((float(location[0]) + 1) * width - 1) / 2, ((float(location[1]) + 1) * height - 1) / 2
    result = torch.zeros(n_scales, channels, n, n, dtype=image.dtype)
    for k in range(n_scales):
        zoom = scale**k
        for i in range(n):
            for j in range(n):
                for a in range(zoom):
                    for b in range(zoom):
                        row = centre_y + i * zoom + a - (n * zoom - 1) / 2
                        column = centre_x + j * zoom + b - (n * zoom - 1) / 2
                        result[k, :, i, j] += interpolated(image, row, column) / zoom**2
    return result


@pytest.mark.parametrize("sizes", [(1, 1, 2), (2, 3, 2), (3, 2, 3)], ids=str)
def test_every_scale_is_a_mean_of_pixels(sizes):
    n, n_scales, scale = sizes
    sensor = om.attention.GlimpseSensor(patch_size=n, n_scales=n_scales, scale=scale)
    image = normal(2, 7, 9)
    for location in ([0.0, 0.0], [-1.0, 1.0], [0.3, -0.7], [3.0, 0.0]):
        location = torch.tensor(location, dtype=torch.float64)
        torch.testing.assert_close(sensor(image, location), by_loops(image, location, n, n_scales, scale))


def test_the_first_scale_is_a_crop_and_the_next_its_surroundings_pooled():
    image = normal(1, 28, 28)
    sensor = om.attention.GlimpseSensor(patch_size=8)
    glimpse = sensor(image, torch.zeros(2).double())
    torch.testing.assert_close(glimpse[0], image[:, 10:18, 10:18])
    torch.testing.assert_close(glimpse[1], torch.nn.functional.avg_pool2d(image[:, 6:22, 6:22], 2))
    padded = torch.nn.functional.pad(image, (2, 2, 2, 2))
    torch.testing.assert_close(glimpse[2], torch.nn.functional.avg_pool2d(padded, 4))


@pytest.mark.parametrize("location", [[0.1, -0.4], [-1.0, 0.9], [1.5, -1.2], [0.0, 0.0]], ids=str)
def test_in_a_large_image_it_reads_the_same(location):
    image, location = normal(2, 31, 24), torch.tensor(location, dtype=torch.float64)
    sensor = om.attention.GlimpseSensor(patch_size=3, n_scales=3)
    torch.testing.assert_close(sensor(image, location), by_loops(image, location, 3, 3, 2))
    many = sensor(image, location.expand(4, 2))  # one image, several places
    torch.testing.assert_close(many, sensor(image, location).expand(4, -1, -1, -1, -1))
    wide = normal(2, 6, 40)  # only one axis is cut
    torch.testing.assert_close(sensor(wide, location), by_loops(wide, location, 3, 3, 2))


def test_gradcheck_in_a_large_image():
    sensor = om.attention.GlimpseSensor(patch_size=2, n_scales=2)
    image, location = normal(1, 9, 10).requires_grad_(), torch.tensor([0.93, -0.27]).double().requires_grad_()
    assert gradcheck(sensor, (image, location))


def test_other_pixels_are_not_read():
    sensor = om.attention.GlimpseSensor(patch_size=4, n_scales=2)
    image = torch.full((1, 40, 50), torch.nan)
    image[:, 15:25, 20:30] = 1.0
    torch.testing.assert_close(sensor(image, torch.tensor([0.01, 0.01])), torch.ones(2, 1, 4, 4))


def test_outside_the_image_is_zero():
    sensor = om.attention.GlimpseSensor(patch_size=4, n_scales=1)
    corner = sensor(torch.ones(1, 6, 6), torch.tensor([-1.0, -1.0]))[0, 0]
    expected = torch.zeros(4, 4)
    expected[2:, 2:] = 1
    torch.testing.assert_close(corner, expected)
    assert float(sensor(torch.ones(1, 6, 6), torch.tensor([5.0, 0.0])).abs().max()) == 0


def test_moving_the_image_is_moving_the_eye():
    image = torch.nn.functional.pad(normal(1, 6, 6), (5, 5, 5, 5))
    sensor = om.attention.GlimpseSensor(patch_size=3, n_scales=2)
    moved = image.roll((1, 2), (-2, -1))
    step = torch.tensor([2 * 2 / 16, 2 * 1 / 16], dtype=torch.float64)  # (x, y), an image being 2 wide
    at = torch.tensor([0.1, -0.15], dtype=torch.float64)
    torch.testing.assert_close(sensor(moved, at + step), sensor(image, at))


def test_shapes_and_batches():
    sensor = om.attention.GlimpseSensor(patch_size=3, n_scales=2)
    image, location = normal(2, 5, 1, 6, 8), 0.5 * normal(2, 5, 2)
    glimpses = sensor(image, location)
    assert glimpses.shape == (2, 5, 2, 1, 3, 3)
    torch.testing.assert_close(glimpses[1, 3], sensor(image[1, 3], location[1, 3]))
    assert sensor(image[:0], location[:0]).shape == (0, 5, 2, 1, 3, 3)
    assert bool((sensor(torch.ones(1, 0, 4), torch.zeros(2)) == 0).all())
    assert sensor(image.bfloat16(), location.float()).dtype is torch.bfloat16


def test_half_locations_are_not_rounded_to_pixels():
    sensor, image = om.attention.GlimpseSensor(patch_size=1, n_scales=1), torch.arange(900.0).reshape(1, 1, 900)
    where = torch.tensor([0.333, 0.0]).bfloat16()  # coarse itself, but no place between pixels is lost after that
    torch.testing.assert_close(sensor(image, where), sensor(image, where.float()))


def test_gradcheck():
    sensor = om.attention.GlimpseSensor(patch_size=2, n_scales=2)
    image, location = normal(1, 5, 6).requires_grad_(), torch.tensor([0.13, -0.27]).double().requires_grad_()
    assert gradcheck(sensor, (image, location))


def test_errors():
    with pytest.raises(ValueError, match="n_scales must be a positive int"):
        om.attention.GlimpseSensor(patch_size=3, n_scales=0)
    with pytest.raises(ValueError, match="a grey image has one channel"):
        om.attention.GlimpseSensor(patch_size=3)(torch.ones(4, 4), torch.zeros(2))
    with pytest.raises(TypeError, match=r"image must be floating point, got torch\.uint8"):
        om.attention.GlimpseSensor(patch_size=3)(torch.ones(1, 4, 4, dtype=torch.uint8), torch.zeros(2))
    assert "patch_size=3" in repr(om.attention.GlimpseSensor(patch_size=3))
