"""The table of recipes; functions that find a recipe by its name, prepare its data, or load a trained model.

The table holds strings, so that reading it loads no PyTorch and `--help` is quick. A new recipe is one file, one row
here and one file in settings/; see CONTRIBUTING.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from omegamax.data.printable import short_repr
from omegamax.errors import CheckpointError, DataError

if TYPE_CHECKING:
    import torch

    from omegamax.data.data_report import DataReport
    from omegamax.training.prediction import SavedModel, TrainedModel
    from omegamax.training.task import Task


class TaskEntry(NamedTuple):
    """A row of the table. `task` and `settings` are classes as "module:name"; the settings' module loads no PyTorch."""

    summary: str
    task: str
    settings: str
    training: Mapping[str, Any] = MappingProxyType({})  # defaults of TrainingSettings that suit the task better
    quick: Mapping[str, Any] = MappingProxyType({})  # settings with which --quick ends within a minute
    prediction: str = ""  # the class of Task.prediction, in the module of the settings, if the task has one
    check_data: str = ""  # a function of settings that looks for mistakes in data, for `omegamax check-data`
    reading: Sequence[str] = ()  # settings that say how a data file is read

    def task_class(self) -> type[Task]:
        """Imports the class of the task."""
        return _import(self.task)

    def settings_class(self) -> type:
        """Imports the class of the task's settings."""
        return _import(self.settings)

    def prediction_class(self) -> type | None:
        """Imports the class of the options of predictions; None if the task has none."""
        return _import(self.prediction) if self.prediction else None

    def data_check(self) -> Callable[[Any], DataReport]:
        """Imports the function that looks for mistakes in data."""
        return _import(self.check_data)


# A small model of words, for --quick of `translate` and `summarize`.
_QUICK_SEQUENCES = {
    "level": "word",
    "embedding_size": 64,
    "hidden_size": 64,
    "feed_forward_size": 128,
    "dropout": 0.1,
    "label_smoothing": 0.0,
    "batch_size": 32,
    "learning_rate": 8e-3,
    "warmup": 50,
    "threads": 1,
}

TASKS: dict[str, TaskEntry] = {
    "babi": TaskEntry(
        "answer questions about stories with a memory network (generated stories, or the files of bAbI)",
        "omegamax.recipes.babi:StoryQuestions",
        "omegamax.recipes.settings:BabiSettings",
        # The authors' 0.01 and 40 are for sums over a batch, the loop has means. In bAbI 30 leaves no smaller batch, in
        # which an example would count for more. Adam learns two-fact tasks worse.
        MappingProxyType(
            {
                "optimizer": "sgd",
                "epochs": 120,
                "batch_size": 30,
                "learning_rate": 0.3,
                "schedule": "pieces",
                "pieces": "0.5x20,1x25,0.5x25,0.25x25,0.125x25",
                "clip": 1.3333,
                "threads": 1,
            }
        ),
        MappingProxyType({"questions": 1500, "epochs": 30, "linear_start": 0, "schedule": "cosine"}),
    ),
    "caption": TaskEntry(
        "describe pictures with attention over a grid, soft, hard or none (generated digits, or pictures of formulas)",
        "omegamax.recipes.caption:Caption",
        "omegamax.recipes.settings:CaptionSettings",
        MappingProxyType(
            {"epochs": 8, "batch_size": 32, "learning_rate": 5e-3, "warmup": 50, "schedule": "linear", "threads": 1}
        ),
        MappingProxyType({"pictures": 1600, "max_columns": 1, "epochs": 5, "soft_start": 4000}),
    ),
    "dates": TaskEntry(
        "normalise dates written in many languages to ISO form (generated data)",
        "omegamax.recipes.dates:Dates",
        "omegamax.recipes.settings:DatesSettings",
        # So small a model gains little from a second thread, and loses much where the cores are busy.
        MappingProxyType({"epochs": 3, "batch_size": 128, "learning_rate": 5e-3, "warmup": 50, "threads": 1}),
        MappingProxyType({"examples": 6000, "locales": "en,fr", "epochs": 2}),
    ),
    "glimpse": TaskEntry(
        "say what is in a large image after a few looks, with a retina, soft or sparse attention, or DRAW's window",
        "omegamax.recipes.glimpse:Glimpse",
        "omegamax.recipes.settings:GlimpseSettings",
        MappingProxyType(
            {"epochs": 10, "batch_size": 32, "learning_rate": 2e-3, "warmup": 50, "schedule": "linear", "threads": 1}
        ),
        MappingProxyType({"images": 3000, "epochs": 5}),
    ),
    "handwriting": TaskEntry(
        "write texts by hand: letters become strokes of a pen, with a sliding window over the text (generated data)",
        "omegamax.recipes.handwriting:Handwriting",
        "omegamax.recipes.settings:HandwritingSettings",
        MappingProxyType(
            {
                "epochs": 8,
                "batch_size": 32,
                "learning_rate": 5e-3,
                "warmup": 50,
                "schedule": "linear",
                "clip": 10.0,
                "threads": 1,
            }
        ),
        MappingProxyType({"writings": 600, "max_length": 4, "hidden_size": 64, "epochs": 8, "letters": "abcdefgh "}),
        "omegamax.recipes.settings:HandwritingPrediction",
    ),
    "language": TaskEntry(
        "predict the next token of a text with a Transformer (generated text, or files)",
        "omegamax.recipes.language:Language",
        "omegamax.recipes.settings:LanguageSettings",
        MappingProxyType({"epochs": 3, "batch_size": 16, "learning_rate": 3e-3, "warmup": 50}),
        MappingProxyType({"stories": 1500, "level": "word", "block_length": 128, "size": 64, "hidden_size": 128}),
    ),
    "memory": TaskEntry(
        "copy, repeat, recall and sort bits with a neural Turing machine or a differentiable neural computer",
        "omegamax.recipes.memory:MemoryTask",
        "omegamax.recipes.settings:MemorySettings",
        MappingProxyType({"epochs": 3, "batch_size": 32, "learning_rate": 1e-2, "clip": 1.0, "threads": 1}),
        MappingProxyType({"sequences": 8000, "bits": 4, "max_length": 3, "test_length": "3,6", "epochs": 2}),
    ),
    "parser": TaskEntry(
        "find the head and the relation of every word (CoNLL-U files, or a generated treebank)",
        "omegamax.recipes.parser:ParserTask",
        "omegamax.recipes.settings:ParserSettings",
        MappingProxyType({"epochs": 20, "batch_size": 32, "learning_rate": 3e-3, "warmup": 100}),
        MappingProxyType(
            {
                "sentences": 800,
                "hidden_size": 64,
                "character_size": 32,
                "batch_size": 16,
                "learning_rate": 5e-3,
                "epochs": 6,
            }
        ),
        "omegamax.recipes.settings:ParserPrediction",
        "omegamax.recipes.parser_data_check:check_parser_data",
    ),
    "nli": TaskEntry(
        "say whether one sentence follows from another: entailment, neutral, contradiction (generated data, or files)",
        "omegamax.recipes.nli:Entailment",
        "omegamax.recipes.settings:NLISettings",
        MappingProxyType({"epochs": 10, "batch_size": 32, "learning_rate": 3e-3}),
        MappingProxyType({"pairs": 3000, "epochs": 5, "hidden_size": 64, "word_size": 50}),
    ),
    "seq2seq": TaskEntry(
        "any two-column TSV: translation, transliteration, summarization of short texts",
        "omegamax.recipes.seq2seq:SequenceToSequence",
        "omegamax.recipes.settings:Seq2SeqSettings",
    ),
    "speech": TaskEntry(
        "write down strings of spoken words, by CTC or by attention (synthesised sounds, or recordings)",
        "omegamax.recipes.speech:Speech",
        "omegamax.recipes.settings:SpeechSettings",
        MappingProxyType({"epochs": 15, "batch_size": 16, "learning_rate": 3e-3, "warmup": 100}),
        MappingProxyType(
            {
                "strings": 500,
                "max_words": 3,
                "hidden_size": 48,
                "n_layers": 1,
                "epochs": 10,
                "batch_size": 8,
                "learning_rate": 5e-3,
                "warmup": 50,
                "threads": 1,
            }
        ),
    ),
    "tagger": TaskEntry(
        "find people, places, diseases ... in sentences, with exact probabilities (generated data, or files)",
        "omegamax.recipes.tagger:TaggerTask",
        "omegamax.recipes.settings:TaggerSettings",
        MappingProxyType({"epochs": 30, "batch_size": 16, "learning_rate": 2e-3, "clip": 5.0}),
        MappingProxyType(
            {
                "sentences": 600,
                "epochs": 3,
                "learning_rate": 5e-3,
                "hidden_size": 64,
                "word_size": 32,
                "character_size": 24,
            }
        ),
        "omegamax.recipes.settings:TaggerPrediction",
        "omegamax.recipes.tagger_data_check:check_tagger_data",
        ("word_column", "tag_column"),
    ),
    "summarize": TaskEntry(
        "summarize texts with an LSTM or a Transformer (generated reports, or files)",
        "omegamax.recipes.summarize:Summarize",
        "omegamax.recipes.settings:SummarizeSettings",
        MappingProxyType({"epochs": 10, "batch_size": 32, "learning_rate": 1e-3, "warmup": 100, "save_every": 1000}),
        MappingProxyType({**_QUICK_SEQUENCES, "examples": 2000, "epochs": 4}),
    ),
    "translate": TaskEntry(
        "translate texts with an LSTM or a Transformer (a generated language, or files)",
        "omegamax.recipes.translate:Translate",
        "omegamax.recipes.settings:TranslateSettings",
        MappingProxyType({"epochs": 10, "batch_size": 64, "learning_rate": 1e-3, "warmup": 100, "save_every": 1000}),
        MappingProxyType({**_QUICK_SEQUENCES, "examples": 3000, "epochs": 5}),
    ),
    "video": TaskEntry(
        "describe clips of moving digits, with attention over frames, a 3-D convolution, both or neither",
        "omegamax.recipes.video:Video",
        "omegamax.recipes.settings:VideoSettings",
        MappingProxyType(
            {"epochs": 8, "batch_size": 32, "learning_rate": 5e-3, "warmup": 50, "schedule": "linear", "threads": 1}
        ),
        MappingProxyType({"clips": 1200, "epochs": 5, "learning_rate": 6e-3}),
    ),
}


def _import(reference: str) -> Any:
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


def prepare_task(name: str, settings: Any) -> Task:
    """Makes a task with its data; raises DataError for a file or a setting that is wrong."""
    with _as_data_errors():
        return TASKS[name].task_class().prepare(settings)


def check_data(name: str, settings: Any) -> DataReport:
    """Looks for mistakes in the data that the settings of a task name; raises DataError for a file that is wrong."""
    with _as_data_errors():
        return TASKS[name].data_check()(settings)


def read_examples(task: Task, lines: Sequence[str]) -> list[Any]:
    """Makes examples of lines that a user wrote; raises DataError for a line that is wrong."""
    with _as_data_errors():
        return task.read(lines)


def read_scored_examples(task: Any, lines: Sequence[str]) -> list[Any]:
    """Makes examples of lines with sources and targets; raises DataError for a line that is wrong."""
    with _as_data_errors():
        return task.read_scored(lines)


def read_split(task: Task, split: str) -> Sequence[Any]:
    """Returns the examples of a split, and reads them if they were not read before."""
    with _as_data_errors():
        examples = task.examples(split)
    if not len(examples):
        raise DataError(f"the split {split} has no examples; choose another one, or other data with --data")
    return examples


@contextmanager
def _as_data_errors() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise DataError(str(error)) from error


def load(
    path: Path | str,
    *,
    which: str = "best",
    average: int = 1,
    task: type[Task] | None = None,
    device: str | torch.device = "cpu",
) -> TrainedModel:
    """Reads a run's best or latest checkpoint, or the checkpoint at a path; or the mean of the `average` latest.

    `task` is the class of a task that is not one of omegamax's own recipes. It must be given, because a checkpoint
    alone may not decide which code is imported.
    """
    from omegamax.training.prediction import read_saved_model, restore_model

    saved = read_saved_model(Path(path), which, average=average)
    return restore_model(saved, task or _recipe_of(saved), device)


def _recipe_of(saved: SavedModel) -> type[Task]:
    name = saved.card.task
    if name not in TASKS:
        raise CheckpointError(
            f"{saved.path} is of the task {short_repr(name)}, which is not one of {', '.join(TASKS)}; "
            "load it in Python with load(path, task=ItsClass)"
        )
    return TASKS[name].task_class()
