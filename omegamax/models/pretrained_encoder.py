"""A local Hugging Face model that reads words: one state per word, that of its first word-piece.

    state(word n) = hidden state of the last layer at the first piece of word n

Devlin et al., NAACL 2019. The model is read from a directory and trained further; it can be built again from its
configuration alone, so that a trained tagger or parser needs neither the directory nor a network.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from omegamax.extras import how_to_install


class PieceBatch(NamedTuple):
    """The word-pieces of some sentences. A long sentence fills several of the W windows."""

    pieces: Tensor  # (W, L): numbers of pieces
    mask: Tensor  # (W, L): True where there is a piece
    first: Tensor  # (B, N): where the first piece of each word is among the W · L places; 0 beyond the length


class PretrainedEncoder(nn.Module):
    """The states of the words of some sentences, from a Hugging Face model.

    Arguments:
        model: a model that takes `input_ids` and `attention_mask`
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        if getattr(model, "pooler", None) is not None:
            model.pooler = None  # type: ignore[assignment]  # it reads whole sentences, and would never be trained
        self.model = model
        self.size = int(model.config.hidden_size)  # type: ignore[union-attr, arg-type]

    @classmethod
    def from_directory(cls, path: str | Path) -> PretrainedEncoder:
        """Reads configuration and weights from the directory `path` of `save_pretrained`; nothing is downloaded."""
        transformers = _transformers()
        read_config(path)
        try:
            with _without_bars(transformers):
                model = transformers.AutoModel.from_pretrained(str(path), local_files_only=True)
        except (OSError, ValueError, RuntimeError) as error:
            raise ValueError(f"{path}: no Hugging Face model can be read there ({_first_line(error)})") from error
        return cls(model.float())

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> PretrainedEncoder:
        """Makes the model of a configuration `config`, as config.json has it, with random weights."""
        transformers = _transformers()
        kind, rest = config.get("model_type", ""), {k: v for k, v in config.items() if k != "model_type"}
        return cls(transformers.AutoModel.from_config(transformers.AutoConfig.for_model(kind, **rest)).float())

    def forward(self, batch: PieceBatch) -> Tensor:
        """Computes the states (B, N, size) of the words of a `batch`."""
        found = self.model(input_ids=batch.pieces, attention_mask=batch.mask.to(torch.int64))
        return found.last_hidden_state.flatten(0, 1)[batch.first]


def read_config(path: str | Path) -> dict[str, Any]:
    """Reads config.json of the directory of a Hugging Face model."""
    file = Path(path) / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(
            f"{path}: expected the directory of a Hugging Face model with config.json, tokenizer.json and weights, "
            f"got {error.strerror or 'something else'}; give such a directory with --encoder"
        ) from error
    except ValueError as error:
        raise ValueError(f"{file}: expected JSON ({error}); download the model again") from error
    if not isinstance(config, dict) or "model_type" not in config or "hidden_size" not in config:
        raise ValueError(f"{file}: expected model_type and hidden_size, got neither or one; choose an encoder model")
    return config


def _transformers() -> Any:
    try:
        import transformers
    except ImportError:
        raise ImportError(f"a pretrained encoder needs transformers; {how_to_install('hf')}") from None
    return transformers


@contextmanager
def _without_bars(transformers: Any) -> Iterator[None]:
    """Hides the progress bars of transformers: reading a file takes a moment."""
    logging = transformers.utils.logging
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
