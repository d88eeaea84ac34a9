"""The two graphs of a sequence model in ONNX: one that encodes a source, and one that takes a step of the decoder.

    encoder   source (batch, length)                  ->  memory.*, state.*
    decoder   token (batch,), memory.*, state.*       ->  log_probs (batch, tokens), weights (batch, length), next.*

Each tensor of what the model keeps has a name of its own, such as `state.hidden.0`; `next.hidden.0` is what the next
step takes as `state.hidden.0`. Sources of one batch have the same length. Both graphs are run and compared with PyTorch
before they are returned. Normalizers whose operators ONNX does not have, such as fusedmax, are refused.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from omegamax.attention.transformer.stack import DecoderCache
from omegamax.extras import how_to_install
from omegamax.models.sequence_model import DecoderStep, SequenceModel

_ATOL = 1e-4  # of log-probabilities, between ONNX Runtime and PyTorch in float32
_BATCH, _LENGTH = 2, 5  # of the examples that are traced; what changes with them is dynamic
_OTHER_BATCH, _OTHER_LENGTH = 3, 7


class ONNXGraphs(NamedTuple):
    """The bytes of both graphs, and the names of their inputs and outputs."""

    encoder: bytes
    decoder: bytes
    names: dict[str, dict[str, list[str]]]  # of "encoder" and "decoder": "inputs", "outputs"


class _Encoder(nn.Module):
    def __init__(self, model: SequenceModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor) -> tuple[Tensor, ...]:
        encoded = self.model.encode(source, None)
        # Copies, because an output of a graph must not be an input, and no two outputs may be one.
        return tuple(tensor.clone() for tensor in (*_tensors(encoded), *_tensors(self.model.start(encoded))))


class _Decoder(nn.Module):
    def __init__(self, model: SequenceModel, encoded: Any, state: Any) -> None:
        super().__init__()
        self.model, self._encoded, self._state = model, encoded, state

    def forward(self, token: Tensor, memory: list[Tensor], state: list[Tensor]) -> tuple[Tensor, ...]:
        encoded = _rebuilt(self._encoded, iter(memory))
        step = self.model.step(token, _rebuilt_state(self._state, state, token), encoded)
        weights = () if step.weights is None else (step.weights,)
        return (step.log_probs, *weights, *_tensors(step.state))


def onnx_graphs(model: SequenceModel) -> ONNXGraphs:
    """Exports a sequence model to ONNX and checks the graphs with ONNX Runtime.

    Arguments:
        model: in eval mode, on the CPU

    Raises ValueError for a model with an operator that ONNX does not have.
    """
    _import_tools()
    with torch.no_grad():
        small, large = _example(model, _BATCH, _LENGTH), _example(model, _OTHER_BATCH, _OTHER_LENGTH)
        names = _names(small)
        shapes = (
            {0: "batch"},
            [_dynamic_axes(a, b) for a, b in zip(_tensors(small.encoded), _tensors(large.encoded))],
            [_dynamic_axes(a, b) for a, b in zip(_tensors(small.step.state), _tensors(large.later.state))],
        )
        # The decoder first: it is the one whose operators ONNX may lack.
        decoder = _export(
            _Decoder(model, small.encoded, small.step.state),
            (small.token, list(_tensors(small.encoded)), list(_tensors(small.step.state))),
            shapes,
            names["decoder"],
            type(model).__name__,
        )
        encoder = _export(
            _Encoder(model),
            (small.source,),
            ({0: "batch", 1: "length"},),
            names["encoder"],
            type(model).__name__,
            [_shape(a, b) for a, b in zip(_encoder_outputs(model, small), _encoder_outputs(model, large))],
        )
        graphs = ONNXGraphs(encoder, decoder, names)
        for batch, length in ((1, 1), (2, 9)):
            _check(model, graphs, batch, length)
    return graphs


class _Example(NamedTuple):
    """Some steps of a model on random tokens."""

    source: Tensor
    encoded: Any
    token: Tensor
    step: DecoderStep  # after one token
    later: DecoderStep  # after three tokens


def _example(model: SequenceModel, batch: int, length: int) -> _Example:
    tokens = torch.arange(batch * length).reshape(batch, length) % 4  # the special tokens, which every model has
    encoded = model.encode(tokens, None)
    step = model.step(tokens[:, 0], model.start(encoded), encoded)
    later = model.step(tokens[:, 0], model.step(tokens[:, 0], step.state, encoded).state, encoded)
    token = tokens[:, 0].contiguous()  # as it comes in use: the stride of a column would be part of the graph
    return _Example(tokens, encoded, token, step, later)


def _names(example: _Example) -> dict[str, dict[str, list[str]]]:
    memory = [f"memory.{name}" for name, _ in _named(example.encoded)]
    state = [name for name, _ in _named(example.step.state)]
    weights = [] if example.step.weights is None else ["weights"]
    states = [f"state.{name}" for name in state]
    return {
        "encoder": {"inputs": ["source"], "outputs": [*memory, *states]},
        "decoder": {
            "inputs": ["token", *memory, *states],
            "outputs": ["log_probs", *weights, *(f"next.{name}" for name in state)],
        },
    }


def _named(value: Any, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yields the tensors in tuples of any depth, with names of their places."""
    if isinstance(value, Tensor):
        yield prefix or "value", value
    elif isinstance(value, tuple):
        parts = value._fields if hasattr(value, "_fields") else range(len(value))
        for part, inner in zip(parts, value):
            yield from _named(inner, f"{prefix}.{part}" if prefix else str(part))


def _tensors(value: Any) -> Iterator[Tensor]:
    return (tensor for _, tensor in _named(value))


def _rebuilt(value: Any, tensors: Iterator[Tensor]) -> Any:
    """Returns the same tuples with other tensors."""
    if isinstance(value, Tensor):
        return next(tensors)
    if isinstance(value, tuple):
        parts = [_rebuilt(inner, tensors) for inner in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def _rebuilt_state(value: Any, tensors: Sequence[Tensor], token: Tensor) -> Any:
    state = _rebuilt(value, iter(tensors))
    if isinstance(state, DecoderCache):  # its sizes are numbers, which depend on the tensors
        assert state.layers[0].key is not None
        state = state._replace(n_positions=state.layers[0].key.shape[1], batch=(token.shape[0],))
    return state


def _dynamic_axes(small: Tensor, large: Tensor) -> dict[int, str]:
    names = {(_BATCH, _OTHER_BATCH): "batch", (_LENGTH, _OTHER_LENGTH): "length", (1, 3): "position"}
    sizes = zip(small.shape, large.shape)
    return {axis: names[(a, b)] for axis, (a, b) in enumerate(sizes) if a != b}


def _encoder_outputs(model: SequenceModel, example: _Example) -> tuple[Tensor, ...]:
    return (*_tensors(example.encoded), *_tensors(model.start(example.encoded)))


def _shape(small: Tensor, large: Tensor) -> list[int | str]:
    axes = _dynamic_axes(small, large)
    return [axes.get(axis, size) for axis, size in enumerate(small.shape)]


def _import_tools() -> Any:
    try:
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ImportError(f"ONNX needs {error.name}; {how_to_install('export')}") from None
    return onnxruntime


def _export(
    module: nn.Module,
    example: tuple[Any, ...],
    shapes: Any,
    names: dict[str, list[str]],
    who: str,
    output_shapes: Sequence[list[int | str]] = (),
) -> bytes:
    talk = logging.getLogger("torch.onnx")
    level = talk.level
    try:
        talk.setLevel(logging.ERROR)  # it warns of packages that are not needed
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch's and onnxscript's own, about their own code
            program = torch.onnx.export(
                module.eval(),
                example,
                dynamo=True,
                dynamic_shapes=shapes,
                input_names=names["inputs"],
                output_names=names["outputs"],
                verbose=False,
                optimize=False,
            )
            saved = io.BytesIO()
            assert program is not None
            if output_shapes:  # the exporter writes LSTMs down as of fixed length, and what follows from them
                for node in program.model.graph:
                    for value in node.outputs:
                        value.shape = None
            for output, shape in zip(program.model.graph.outputs, output_shapes):
                output.shape = import_module("onnx_ir").Shape(shape)
            program.save(saved)  # type: ignore[arg-type]  # it writes to any file
    except Exception as error:  # torch.onnx has many types of its own
        raise ValueError(
            f"{who}: ONNX export needs operators that ONNX has, got {_reason(error)}; train with softmax, sparsemax, "
            "entmax15 or oscarmax, or export without ONNX"
        ) from error
    finally:
        talk.setLevel(level)
    return saved.getvalue()


def _reason(error: BaseException | None) -> str:
    """Returns our own sentence about an operator in a chain of errors, or else the error that began it in short."""
    chain = []
    while error is not None:
        chain.append(error)
        error = error.__cause__ or error.__context__
    ours = [str(each) for each in chain if "ONNX export" in str(each)]
    shown = ours[-1] if ours else f"{type(chain[-1]).__name__}: {chain[-1]}"
    return " ".join(shown.split())[:300]


def _check(model: SequenceModel, graphs: ONNXGraphs, batch: int, length: int) -> None:
    """Raises ValueError unless three steps by ONNX Runtime have the log-probabilities of PyTorch."""
    runtime = _import_tools()
    sessions = [runtime.InferenceSession(graph, providers=["CPUExecutionProvider"]) for graph in graphs[:2]]

    def run(session: Any, given: dict[str, Any]) -> list[Any]:
        try:
            return session.run(None, given)
        except Exception as error:  # ONNX Runtime has many types of its own
            raise ValueError(
                f"{type(model).__name__}: ONNX Runtime must run the graph, and failed for {batch} sources of {length} "
                f"tokens ({_reason(error)}); export without ONNX, and report this"
            ) from error

    generator = torch.Generator().manual_seed(0)
    source = torch.randint(4, (batch, length), generator=generator)
    encoded = model.encode(source, None)
    state = model.start(encoded)
    found = dict(zip(graphs.names["encoder"]["outputs"], run(sessions[0], {"source": source.numpy()})))
    wanted = {each.name for each in sessions[1].get_inputs()}
    for _ in range(3):
        token = torch.randint(4, (batch,), generator=generator)
        step = model.step(token, state, encoded)
        given = {name: value for name, value in {**found, "token": token.numpy()}.items() if name in wanted}
        stepped = dict(zip(graphs.names["decoder"]["outputs"], run(sessions[1], given)))
        ours, theirs = step.log_probs, torch.from_numpy(stepped["log_probs"])
        if not torch.allclose(ours, theirs, atol=_ATOL, rtol=1e-4):
            off = (ours - theirs).abs().nan_to_num(torch.inf).max().item()
            raise ValueError(
                f"{type(model).__name__}: the ONNX graph must have PyTorch's log-probabilities within {_ATOL}, got "
                f"{off:.3g} for {batch} sources of {length} tokens; export without ONNX, and report this"
            )
        state = step.state
        found |= {f"state.{name[5:]}": value for name, value in stepped.items() if name.startswith("next.")}
