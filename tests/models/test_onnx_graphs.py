"""ONNX graphs of sequence models: a whole greedy output by ONNX Runtime, and operators that ONNX does not have."""

import types

import numpy as np
import pytest
import torch

import omegamax as om
from omegamax.models import CopyingLSTM, LSTMEncoderDecoder, TransformerEncoderDecoder
from omegamax.models import onnx_graphs as exporter
from omegamax.models.onnx_graphs import ONNXGraphs, onnx_graphs

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

MODELS = {
    "lstm": lambda: LSTMEncoderDecoder(12, 9, normalizer=om.Shannon(), embedding_size=4, hidden_size=6),
    "transformer": lambda: TransformerEncoderDecoder(
        12, 9, cross_normalizer=om.SquaredNorm(), size=4, n_heads=2, n_layers=1, hidden_size=8
    ),
    "clusters": lambda: LSTMEncoderDecoder(12, 9, normalizer=om.Oscar(0.1), embedding_size=4, hidden_size=6),
    "pointer": lambda: CopyingLSTM(12, normalizer=om.SquaredNorm(), embedding_size=4, hidden_size=6),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_graphs_write_what_the_model_writes(name, capfd):
    model = MODELS[name]().float().eval()
    graphs = onnx_graphs(model)
    encoder, decoder = (onnxruntime.InferenceSession(graph) for graph in graphs[:2])
    source = torch.randint(12, (1, 20))
    with torch.no_grad():
        encoded = model.encode(source, torch.tensor([20]))  # lengths are given here, and not to the graph
        state, token = model.start(encoded), torch.tensor([2])
        names = graphs.names["encoder"]["outputs"]
        kept = dict(zip(names, encoder.run(names, {"source": source.numpy()})))
        for _ in range(6):
            step = model.step(token, state, encoded)
            wanted = [each.name for each in decoder.get_inputs() if each.name != "token"]
            outputs = graphs.names["decoder"]["outputs"]
            given = {"token": token.numpy(), **{name: kept[name] for name in wanted}}
            found = dict(zip(outputs, decoder.run(outputs, given)))
            np.testing.assert_allclose(found["log_probs"], step.log_probs.numpy(), atol=1e-5)
            np.testing.assert_allclose(found["weights"], step.weights.numpy(), atol=1e-5)
            kept |= {f"state.{each[5:]}": value for each, value in found.items() if each.startswith("next.")}
            state, token = step.state, step.log_probs.argmax(-1)
    assert "does not match actual shape" not in capfd.readouterr().err


@pytest.mark.slow
def test_fusedmax_is_refused_with_a_reason():
    model = LSTMEncoderDecoder(12, 9, normalizer=om.Fused(0.1), embedding_size=4, hidden_size=6).float().eval()
    with pytest.raises(ValueError, match=r"LSTMEncoderDecoder: ONNX export needs operators that ONNX has, got .*Fused"):
        onnx_graphs(model)


def test_a_failure_of_the_runtime_is_one_sentence(monkeypatch):
    class Session:
        def __init__(self, graph, providers):
            pass

        def get_inputs(self):
            return []

        def run(self, names, given):
            raise RuntimeError("Shape mismatch")

    monkeypatch.setattr(exporter, "_import_tools", lambda: types.SimpleNamespace(InferenceSession=Session))
    graphs = ONNXGraphs(b"", b"", {"encoder": {"outputs": []}, "decoder": {"outputs": []}})
    with torch.no_grad(), pytest.raises(ValueError, match=r"failed for 1 sources of 2 tokens \(RuntimeError: Shape"):
        exporter._check(MODELS["lstm"]().float().eval(), graphs, 1, 2)
