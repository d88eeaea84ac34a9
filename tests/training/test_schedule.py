"""Learning rates against closed forms, and the plateau's count."""

import math

import pytest

from omegamax.training.optimization import Plateau, learning_rate
from omegamax.training.settings import TrainingSettings


def rates(schedule, n_steps=40, warmup=0, plateau_factor=1.0):
    settings = TrainingSettings(learning_rate=0.5, schedule=schedule, warmup=warmup)
    return [
        learning_rate(settings, step=step, n_steps=n_steps, plateau_factor=plateau_factor) for step in range(n_steps)
    ]


def test_constant():
    assert rates("constant") == [0.5] * 40


def test_cosine():
    assert rates("cosine") == pytest.approx([0.5 * math.cos(math.pi * step / 80) ** 2 for step in range(40)])


def test_linear():
    assert rates("linear") == pytest.approx([0.5 * (40 - step) / 40 for step in range(40)])


@pytest.mark.parametrize("schedule", ["constant", "cosine", "linear", "plateau"])
def test_warmup_rises_to_the_full_rate_and_the_schedule_follows(schedule):
    warm = rates(schedule, n_steps=50, warmup=10)
    assert warm[:10] == pytest.approx([0.05 * (step + 1) for step in range(10)])
    assert warm[10:] == pytest.approx(rates(schedule, n_steps=40))


def test_no_step_has_rate_zero():
    assert min(rates("linear", n_steps=3) + rates("cosine", n_steps=3) + rates("linear", n_steps=5, warmup=5)) > 0


def test_plateau_halves_after_waiting_and_waits_again():
    plateau, factors = Plateau(), []
    for better in [True, False, False, False, True, False, False, False, False, False]:
        plateau = plateau.after_epoch(better, wait=2)
        factors.append(plateau.factor)
    assert factors == [1, 1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.125, 0.125]
    assert rates("plateau", plateau_factor=plateau.factor) == [0.5 / 8] * 40


def test_pieces_have_one_factor_for_some_epochs_and_the_last_goes_on():
    settings = TrainingSettings(
        learning_rate=0.5, schedule="pieces", pieces="0.5x2, 1x3,0.25x1", epochs=8
    )  # five steps an epoch
    found = [learning_rate(settings, step=step, n_steps=40) for step in range(40)]
    assert found == [0.25] * 10 + [0.5] * 15 + [0.125] * 15


@pytest.mark.parametrize("pieces", ["", "1", "x", "1x0", "0x5", "1x2,", "nanx3", "infx3", "1x2.5", "-1x3"])
def test_wrong_pieces(pieces):
    with pytest.raises(ValueError, match="pieces must be a list of factors and epochs"):
        TrainingSettings(schedule="pieces", pieces=pieces)
    assert TrainingSettings(pieces="1x2").schedule == "cosine"  # a list that is not used
    if pieces:
        with pytest.raises(ValueError, match="pieces must be a list"):
            TrainingSettings(pieces=pieces)
