"""Writes a trained model as a folder to give away: `omegamax export RUN DIR`. `load` reads it back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegamax.data.files import read_regular_file
from omegamax.errors import CheckpointError, DataError
from omegamax.models import SequenceModel
from omegamax.recipes.model_card import model_card
from omegamax.recipes.tasks import TASKS, load
from omegamax.training import exports
from omegamax.training.checkpoints import Card
from omegamax.training.prediction import TrainedModel
from omegamax.training.runs import EVALUATION

_MAX_SCORES = 1 << 24  # bytes of evaluation.json


def export_model(
    run: Path | str,
    out: Path | str,
    *,
    which: str = "best",
    average: int = 1,
    name: str | None = None,
    licence: str | None = None,
    data: str | None = None,
    scores: Mapping[str, Mapping[str, Any]] | None = None,
    onnx: bool = False,
    overwrite: bool = False,
) -> Path:
    """Writes the model of a run as a folder: config.json, model.safetensors, assets.json, README.md.

    Models of texts with sub-words add a tokenizer.json for each side, which the package `tokenizers` reads.

    Arguments:
        run: a run directory, or a checkpoint
        out: the folder; its parent must exist
        which: "best" or "latest" of the run's checkpoints
        average: how many of the latest checkpoints are averaged
        name: of the model, in the model card; that of the folder if left out
        licence: of the model, such as "cc-by-2.0"
        data: what it was trained on, in words
        scores: metrics by split, for the model card; those of the run's evaluation.json if left out
        onnx: whether the encoder and a step of the decoder are written as ONNX graphs too
        overwrite: whether a model that is there is replaced
    """
    run, out = Path(run), Path(out)
    exports.check_place(out, overwrite=overwrite)
    found = load(run, which=which, average=average)
    if found.card.task not in TASKS:  # its card could name no command
        raise CheckpointError(f"{run} is of a task that is not one of {', '.join(TASKS)}; export one of those")
    if scores is None and which == "best" and average == 1:
        scores = _stored_scores(run, found.card)
    more = dict(found.task.tokenizer_files())
    names: dict[str, Any] = {}
    if onnx:
        graphs, names = _onnx_files(found)
        more |= graphs
    readme = model_card(
        name or out.resolve().name,
        found.card,
        scores or {},
        n_parameters=sum(each.numel() for each in found.model.parameters()),
        average=average,
        licence=licence,
        data=data,
        onnx=onnx,
    )
    more[exports.README_FILE] = readme.encode()
    exports.write_export(
        out,
        found.card,
        found.model.state_dict(),
        architecture=type(found.model).__name__,
        more=more,
        onnx=names,
        overwrite=overwrite,
    )
    return out


def _stored_scores(run: Path, card: Card) -> Mapping[str, Mapping[str, Any]]:
    """Returns the metrics of evaluation.json if they are of this run; else those of dev that the checkpoint has."""
    try:
        record = json.loads(read_regular_file(run / EVALUATION, _MAX_SCORES))
        if record["settings"] == card.settings and record["training"] == card.training:
            return {split: dict(metrics) for split, metrics in record["evaluation"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    dev = card.state.get("best_metrics")
    return {"dev": dev} if isinstance(dev, dict) and dev else {}


def _onnx_files(found: TrainedModel) -> tuple[dict[str, bytes], dict[str, Any]]:
    if not isinstance(found.model, SequenceModel):
        raise DataError(
            f"export: ONNX graphs are those of models that write texts (translate, summarize, seq2seq, dates), got "
            f"{found.card.task}; leave --onnx out"
        )
    from omegamax.models.onnx_graphs import onnx_graphs

    try:
        graphs = onnx_graphs(found.model)
    except ValueError as error:
        raise DataError(str(error)) from error
    return {"encoder.onnx": graphs.encoder, "decoder.onnx": graphs.decoder}, graphs.names
