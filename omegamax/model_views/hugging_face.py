"""The attention of a Hugging Face model, under its own normalizer or under several of ours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from omegamax.errors import DataError
from omegamax.extras import how_to_install
from omegamax.model_views.encoding import AttentionLayers, rounds_to_zero
from omegamax.model_views.sources import ModelAttention, Source

_MAX_BYTES = 2 << 30  # of the dense weights of all layers and heads, which the model returns at once
_MAX_NEW_TOKENS = 128  # that an encoder-decoder writes
_NO_LIMIT = 1_000_000  # a tokenizer without a limit names a huge number


class _Loaded(NamedTuple):
    model: Any
    tokenizer: Any
    path: Path


class HuggingFaceSource(Source):
    """A model under one normalizer. `load_hugging_face` makes them.

    Arguments:
        loaded: the model, which all sources of one folder share
        attention: the `attn_implementation`
        normalizer: its name on the page
    """

    def __init__(self, loaded: _Loaded, attention: str, normalizer: str) -> None:
        self._loaded, self._attention = loaded, attention
        self.name, self.normalizer = loaded.path.resolve().name, normalizer

    def attend(self, lines: Sequence[str]) -> list[ModelAttention]:
        """Returns the attention on each line; a tab divides the two sentences of a pair."""
        self._loaded.model.set_attn_implementation(self._attention)
        with torch.no_grad():
            return [self._attend(line) for line in lines]

    def attend_to_examples(self) -> list[ModelAttention]:
        """Raises DataError: a model of Hugging Face comes without data."""
        raise DataError(f"{self.name}: expected an input, got none, and the folder has no data; write a text")

    def _attend(self, line: str) -> ModelAttention:
        model, tokenizer, _ = self._loaded
        texts = [text.strip() for text in line.split("\t", 1)]
        if not any(texts):
            raise DataError(f"{self.name}: expected some text, got none; write some")
        limit = _max_tokens(model, tokenizer)
        whole = tokenizer(*texts, verbose=False)["input_ids"]  # it would warn of long ones
        inputs = tokenizer(*texts, truncation=True, max_length=limit, return_tensors="pt")
        tokens = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0].tolist())
        _check_size(model.config, len(tokens), self.name)
        note = ""
        if len(whole) > len(tokens):
            note = f"the model reads {limit} tokens, so {len(whole) - len(tokens)} of {len(whole)} were left out"
        inputs = {name: tensor.to(model.device) for name, tensor in inputs.items()}
        if model.config.is_encoder_decoder:
            return ModelAttention(line, self._both_parts(inputs, tokens), note)
        output = model(**inputs, output_attentions=True)
        return ModelAttention(line, [self._layers("", tokens, tokens, output.attentions)], note)

    def _both_parts(self, inputs: dict[str, Tensor], tokens: Sequence[str]) -> list[AttentionLayers]:
        """Lets the model write, then reads its attention while it writes that text."""
        model, tokenizer, _ = self._loaded
        written = model.generate(**inputs, max_new_tokens=_MAX_NEW_TOKENS, do_sample=False, num_beams=1)
        output = model(**inputs, decoder_input_ids=written[:, :-1], output_attentions=True)
        seen = tokenizer.convert_ids_to_tokens(written[0, :-1].tolist())
        outputs = tokenizer.convert_ids_to_tokens(written[0, 1:].tolist())
        return [
            self._layers("from outputs to inputs", outputs, tokens, output.cross_attentions),
            self._layers("among inputs", tokens, tokens, output.encoder_attentions),
            self._layers("among outputs", outputs, seen, output.decoder_attentions),
        ]

    def _layers(self, title: str, rows: Sequence[str], columns: Sequence[str], weights: Any) -> AttentionLayers:
        if not weights or any(each is None for each in weights):
            raise DataError(
                f"{self.name}: expected attention weights from the model, got none; its architecture does not return "
                "them, so choose another model"
            )
        stack = torch.stack([each[0].float().cpu() for each in weights])
        exact = self.normalizer != "softmax" or not rounds_to_zero(stack)
        return AttentionLayers(title, rows, columns, stack, exact)


def load_hugging_face(path: Path | str, normalizers: Sequence[str] = ()) -> list[Source]:
    """Reads the model of a local folder, and returns a source for each normalizer.

    Nothing is downloaded, and no code of the folder is run.

    Arguments:
        path: a folder with config.json, weights and a tokenizer
        normalizers: names of operators, such as "sparsemax"; without any, the one that the folder was saved with
    """
    folder = Path(path)
    if not (folder / "config.json").is_file():
        raise DataError(
            f"{folder}: expected the folder of a Hugging Face model, got one without config.json; name another"
        )
    try:
        import transformers
    except ImportError:
        raise ImportError(f"explore: a model of Hugging Face needs transformers; {how_to_install('hf')}") from None
    from omegamax.integrations import transformers as hf

    known = hf.register()
    for name in normalizers:
        if name not in known:
            raise DataError(f"{folder}: expected a normalizer among {', '.join(known)}, got {name!r}; choose one")
    transformers.utils.logging.disable_progress_bar()
    try:
        config = transformers.AutoConfig.from_pretrained(str(folder), local_files_only=True)
        kind = transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder else transformers.AutoModel
        model = kind.from_pretrained(str(folder), local_files_only=True)
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    except (OSError, ValueError, RuntimeError, KeyError, ImportError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(f"{folder}: no Hugging Face model can be read there ({reason})") from error
    loaded = _Loaded(model.float().eval(), tokenizer, folder)
    own = str(model.config._attn_implementation)
    if not normalizers:
        ours = own in known or own.removeprefix("omegamax.") in hf._NORMALIZERS
        return [HuggingFaceSource(loaded, own if ours else "eager", own if ours else "softmax")]
    _check_that_it_is_used(model, normalizers, folder, hf)
    return [HuggingFaceSource(loaded, name, name) for name in normalizers]


def _check_that_it_is_used(model: nn.Module, normalizers: Sequence[str], folder: Path, hf: Any) -> None:
    """Raises DataError for an architecture that computes softmax whatever it is told."""
    model.set_attn_implementation(normalizers[0])  # type: ignore[operator]
    try:
        hf.check(model)
    except ValueError as error:
        raise DataError(f"{folder}: {error}") from error


def _max_tokens(model: Any, tokenizer: Any) -> int:
    limits = [int(tokenizer.model_max_length), int(getattr(model.config, "max_position_embeddings", 0) or _NO_LIMIT)]
    return min(limits)


def _check_size(config: Any, n_tokens: int, name: str) -> None:
    """Raises DataError before weights are computed that would not fit into memory."""
    n_maps = int(getattr(config, "num_hidden_layers", 1)) * int(getattr(config, "num_attention_heads", 1))
    if 4 * n_maps * n_tokens**2 > _MAX_BYTES:
        most = int((_MAX_BYTES / 4 / n_maps) ** 0.5)
        raise DataError(
            f"{name}: the weights of {n_maps} heads must fit into {_MAX_BYTES >> 30} GiB, which {n_tokens} tokens do "
            f"not; give a text of at most {most} tokens"
        )
