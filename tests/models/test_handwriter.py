"""Networks that write and read: writing agrees with the densities, padding changes nothing, the window ends a text."""

import pytest
import torch

from omegamax.models.handwriter import Handwriter, PenReader
from omegamax.models.text_readers import ContentText, FixedText, WindowText
from omegamax.operators.shannon import Shannon
from omegamax.operators.squared_norm import SquaredNorm

TEXTS = {
    "window": lambda: WindowText(5, 8, n_components=2, rate=0.2),
    "content": lambda: ContentText(5, 8, normalizer=Shannon()),
    "sparse": lambda: ContentText(5, 8, normalizer=SquaredNorm()),
    "none": lambda: FixedText(5),
}
LETTERS, COUNTS = torch.tensor([[1, 2, 3, 1], [4, 0, 0, 0], [2, 2, 0, 0]]), torch.tensor([4, 1, 2])


def handwriter(text):
    torch.manual_seed(1)
    return Handwriter(5, TEXTS[text](), letter_size=5, hidden_size=8, n_components=3).eval()


def draws(size):
    return torch.cat([torch.rand(3, size, 3), torch.randn(3, size, 2)], -1)


@torch.no_grad()
@pytest.mark.parametrize("text", TEXTS)
def test_what_is_written_is_a_sample_of_the_densities(text):
    model, noise = handwriter(text), draws(9)
    model.out.bias[-1] = -9.0  # no end
    written = model.write(LETTERS, COUNTS, noise)
    predictions = model(LETTERS, COUNTS, written.points)
    torch.testing.assert_close(predictions.density.sample(noise), written.points)
    if text == "none":
        assert written.scores is None is predictions.scores
    else:
        torch.testing.assert_close(predictions.scores, written.scores)


@torch.no_grad()
@pytest.mark.parametrize("text", TEXTS)
def test_a_text_does_not_depend_on_its_batch(text):
    model, noise = handwriter(text), draws(12)
    together = model.write(LETTERS, COUNTS, noise)
    for item in range(3):
        alone = model.write(LETTERS[item : item + 1, : COUNTS[item]], COUNTS[item : item + 1], noise[item : item + 1])
        length = int(together.lengths[item])
        assert int(alone.lengths) == length
        torch.testing.assert_close(alone.points[0, :length], together.points[item, :length])


@torch.no_grad()
def test_the_last_point_or_the_window_ends_a_writing():
    for text in ("content", "sparse", "none"):
        model = handwriter(text)
        model.out.bias[-1] = 50.0
        assert model.write(LETTERS, COUNTS, draws(6)).lengths.tolist() == [1, 1, 1]
    model = handwriter("window")
    model.out.bias[-1] = 50.0  # nobody asks it
    window = model.text.attention.of_query
    window.weight.zero_()
    window.bias.zero_()
    window.bias[4:] = torch.tensor(0.25).log()  # both centres move by a quarter of a letter from 1/2
    # After t points the centres are at 1/2 + t/4; they are nearer to U + 1 than to U once that is above U + 1/2.
    model.out.bias[-2] = 50.0  # the pen is lifted after every point
    assert model.write(LETTERS, COUNTS, draws(40)).lengths.tolist() == [4 * count for count in COUNTS.tolist()]
    model.out.bias[-2] = -50.0  # never: the stroke is not finished
    assert model.write(LETTERS, COUNTS, draws(30)).lengths.tolist() == [30, 30, 30]


@torch.no_grad()
def test_the_window_reads_the_published_formula():
    model = handwriter("window")
    reader = model.text(model.embedding(LETTERS), COUNTS)
    query = torch.randn(3, 8)
    seen, _, _ = reader.read(query)
    heights, widths, steps = model.text.attention.of_query(query).exp().chunk(3, -1)
    for item in range(3):
        by_hand = torch.zeros(5)
        for place in range(int(COUNTS[item])):
            weight = (heights[item] * (-widths[item] * (0.5 + steps[item] - (place + 1)).square()).exp()).sum()
            by_hand += weight * model.embedding(LETTERS[item, place])
        torch.testing.assert_close(seen[item], by_hand)


@torch.no_grad()
def test_the_reader_does_not_see_padding():
    torch.manual_seed(0)
    model, points, lengths = PenReader(4, hidden_size=6).eval(), torch.randn(3, 9, 4), torch.tensor([9, 4, 7])
    heard, n_pairs = model(points, lengths)
    assert n_pairs.tolist() == [5, 2, 4]
    for item, length in enumerate(lengths.tolist()):
        alone, _ = model(points[item : item + 1, :length], lengths[item : item + 1])
        torch.testing.assert_close(alone[0], heard[item, : n_pairs[item]])
    assert [len(row) <= 5 for row in model.read(points, lengths)] == [True] * 3
