"""Settings: they check themselves, and come back from JSON as they were or not at all."""

import json
from dataclasses import dataclass, fields

import pytest

from omegamax.recipes.settings import DatesSettings, Seq2SeqSettings
from omegamax.training.settings import TrainingSettings, from_dict, option, to_dict


@pytest.mark.parametrize("kind", [TrainingSettings, Seq2SeqSettings, DatesSettings])
def test_they_come_back_from_json(kind):
    assert from_dict(kind, json.loads(json.dumps(to_dict(kind())))) == kind()


@pytest.mark.parametrize("kind", [TrainingSettings, Seq2SeqSettings, DatesSettings])
def test_every_setting_has_help(kind):
    assert all(each.metadata["help"] for each in fields(kind))


@pytest.mark.parametrize(
    "values",
    [
        {"batch_size": 0},
        {"epochs": -1},
        {"learning_rate": 0.0},
        {"schedule": "step"},
        {"precision": "float16"},
        {"sharding": "none"},
        {"save_every": 0},
        {"seed": -1},
        {"threads": 3_000_000_000},
        {"epochs": 10**300},
        {"learning_rate": float("nan")},
        {"learning_rate": float("inf")},
        {"clip": 10**400},
        {"device": "x" * 100_000},
    ],
)
def test_what_cannot_be_is_refused_with_the_option_to_change(values):
    (name,) = values
    with pytest.raises(
        ValueError, match=rf"TrainingSettings: {name} must be .*; change it with --{name.replace('_', '-')}"
    ):
        TrainingSettings(**values)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"surprise": 1}, "unknown setting 'surprise'"),
        ({"epochs": "3"}, "epochs must be of type"),
        ({"epochs": 3.0}, "epochs must be of type"),
        ({"epochs": True}, "epochs must be of type"),
        ({"learning_rate": None}, "learning_rate must be of type"),
    ],
)
def test_values_of_another_type_are_refused(change, reason):
    with pytest.raises(ValueError, match=reason):
        from_dict(TrainingSettings, {**to_dict(TrainingSettings()), **change})


@dataclass(frozen=True)
class Grown:
    """Settings to which an option was added."""

    size: int = option(8, "features", least=1, most=100)
    added: float = option(0.5, "a share", least=0, most=1, before=0.0)


def test_an_option_that_was_added_means_what_older_files_did():
    assert from_dict(Grown, {"size": 4}) == Grown(4, added=0.0)
    assert from_dict(Grown, {"size": 4, "added": 0.25}) == Grown(4, added=0.25)
    assert Grown().added == 0.5
    with pytest.raises(ValueError, match="missing setting 'size'"):
        from_dict(Grown, {"added": 0.25})
    with pytest.raises(ValueError, match="unknown setting 'other'"):
        from_dict(Grown, {"size": 4, "other": 1})


def test_missing_values_are_refused_and_whole_numbers_are_fine():
    values = to_dict(TrainingSettings())
    assert from_dict(TrainingSettings, {**values, "clip": 1}).clip == 1
    del values["clip"]
    with pytest.raises(ValueError, match="missing setting 'clip'"):
        from_dict(TrainingSettings, values)
    assert from_dict(Seq2SeqSettings, {**to_dict(Seq2SeqSettings()), "strength": 0.1, "data": "x.tsv"}).strength == 0.1


@pytest.mark.parametrize("kind", [TrainingSettings, DatesSettings])
def test_every_number_has_a_largest_value(kind):
    """A stranger's file must not start a run that never ends."""
    bounded_otherwise = {"dropout", "typos"}
    for each in fields(kind):
        if each.type in ("int", "float", "float | None") and each.name not in bounded_otherwise:
            assert each.metadata["most"] is not None, each.name
            with pytest.raises(ValueError, match=f"{each.name} must be at most|a number must be at most"):
                from_dict(kind, {**to_dict(kind()), each.name: 10**400})


@pytest.mark.parametrize(
    ("name", "value"), [("max_length", 10**7), ("beam", 10**7), ("hidden_size", 10**12), ("examples", 10**9)]
)
def test_what_would_never_end_is_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} must be at most"):
        from_dict(DatesSettings, {**to_dict(DatesSettings()), name: value})
