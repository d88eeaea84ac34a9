"""The cells of benchmarks are commands that `omegamax train` accepts: a mistake would show only after hours."""

import importlib.util
import sys
from pathlib import Path

import pytest

from omegamax import cli
from omegamax.cli.settings_options import chosen_settings
from omegamax.recipes.sequence_models import check_model

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def translate_cells():
    if not BENCHMARKS.is_dir():
        pytest.skip("the benchmarks are not installed")
    spec = importlib.util.spec_from_file_location("translate_cells", BENCHMARKS / "translate_cells.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["translate_cells"] = module  # NamedTuple looks its own module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["translate_cells"]


def test_cells_have_names_of_their_own_and_settings_that_fit(translate_cells):
    cells = list(translate_cells.cells(lambda group: ("fusedmax", "sparsemax")))
    assert len({cell.name for cell in cells}) == len(cells) > 60
    parser = cli._parser()
    for cell in cells:
        _, task, source, target = translate_cells.TASKS[cell.task]
        given = ["train", task, "--source", source, "--target", target, *cell.options]
        settings, _ = chosen_settings(task, parser.parse_args(given))
        check_model(settings)
        assert settings.source == source and settings.variant


def test_the_two_best_are_repeated_and_softmax_once(translate_cells):
    repeated = [
        cell.name for cell in translate_cells.cells(lambda group: ("softmax", "fusedmax")) if cell.group == "seeds"
    ]
    wanted = [f"{name}-{seed}" for name in ("softmax", "fusedmax") for seed in "12"]
    assert [name.rpartition("/")[2] for name in repeated if "/en-de/" in name] == wanted
    assert not [cell for cell in translate_cells.cells() if "fusedmax-1" in cell.name]
