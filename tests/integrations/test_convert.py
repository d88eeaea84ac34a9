"""PyTorch's attention converted in place: the same numbers under Shannon, all else kept, wherever models run."""

import copy
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import omegamax as om
from omegamax import registry
from omegamax.integrations import convert

# PyTorch's own encoder, with which ours is compared, makes nested tensors in eval
pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")

KINDS = [
    {},
    {"batch_first": True},
    {"bias": False},
    {"add_bias_kv": True},
    {"add_zero_attn": True},
    {"kdim": 5, "vdim": 7},
    {"dtype": torch.float64},
    {"dropout": 0.3},
]
ROWS = {name: smooth for name, smooth in registry.lineup(0).items() if name != "groupmax"}
every_row = pytest.mark.parametrize("normalizer", ROWS.values(), ids=ROWS)


def encoder(layers=2):
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


class TestConvert:
    @pytest.mark.parametrize("kind", KINDS, ids=str)
    @pytest.mark.parametrize("training", [True, False])
    def test_everything_is_kept(self, kind, training):
        attention = nn.MultiheadAttention(8, 2, **kind)
        model = nn.ModuleDict({"a": attention, "b": nn.ModuleList([nn.Linear(3, 3)])}).train(training)
        before, parameters = copy.deepcopy(attention), dict(model.named_parameters())
        calls = []
        attention.register_forward_hook(lambda *_: calls.append(1))
        assert convert(model, om.Shannon()) == ["a"]
        assert model["a"] is attention and type(attention) is om.MultiheadAttention
        assert all(p is parameters[name] for name, p in model.named_parameters())
        assert list(attention.state_dict()) == list(before.state_dict())
        assert attention.training == training
        for name in ("embed_dim", "num_heads", "head_dim", "kdim", "vdim", "dropout", "batch_first", "add_zero_attn"):
            assert getattr(attention, name) == getattr(before, name)
        sizes = [(3, 4, 8), (3, 6, kind.get("kdim", 8)), (3, 6, kind.get("vdim", 8))]
        given = [torch.randn(*size, dtype=kind.get("dtype")) for size in sizes]
        if not kind.get("batch_first"):
            given = [x.transpose(0, 1) for x in given]
        if not (training and kind.get("dropout")):
            for a, b in zip(attention(*given), before(*given)):
                torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)
            assert calls

    def test_a_new_one_of_our_own_has_nothing_more(self):
        """What conversion sets is all that the constructor sets."""
        converted = nn.MultiheadAttention(8, 2)
        convert(converted, om.SquaredNorm())
        made = om.MultiheadAttention(8, 2, normalizer=om.SquaredNorm())
        assert set(vars(converted)) == set(vars(made))
        assert converted._qkv_same_embed_dim == made._qkv_same_embed_dim

    @pytest.mark.parametrize("training", [True, False])
    def test_a_transformer(self, training):
        model = nn.Transformer(16, 4, 2, 2, 32, dropout=0.0, batch_first=True).train(training)
        before = copy.deepcopy(model)
        names = convert(model, om.Shannon())
        assert len(names) == 6 and names[0] == "encoder.layers.0.self_attn"
        source, target = torch.randn(2, 5, 16), torch.randn(2, 4, 16)
        padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
        options = {"src_key_padding_mask": padding, "memory_key_padding_mask": padding}
        with torch.set_grad_enabled(training):
            found, expected = (m(source, target, **options) for m in (model, before))
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
            assert convert(model, om.SquaredNorm()) == names  # again, with another Ω
            assert not torch.allclose(model(source, target, **options), expected, atol=1e-3)

    def test_a_nested_encoder_in_eval(self):
        """Built to turn padded batches into nested tensors, as PyTorch's fused softmax reads them."""
        model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2).eval()
        before = copy.deepcopy(model)
        convert(model, om.Shannon())
        x, padding = torch.randn(2, 5, 16), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
        with torch.no_grad():
            found, expected = (m(x, src_key_padding_mask=padding) for m in (model, before))
        torch.testing.assert_close(found[~padding], expected[~padding], atol=1e-5, rtol=1e-4)
        convert(before.layers, om.Shannon())  # without the encoder around them
        with torch.no_grad():
            found = before(x, src_key_padding_mask=padding)
        torch.testing.assert_close(found[~padding], expected[~padding], atol=1e-5, rtol=1e-4)

    def test_shared_attention_is_converted_once(self):
        attention = nn.MultiheadAttention(8, 2)
        model = nn.ModuleList([attention, attention])
        assert convert(model, om.SquaredNorm()) == ["0"]
        assert type(model[1]) is om.MultiheadAttention

    def test_a_layer_is_copied_for_each(self):
        model = encoder()
        shared = om.Entmax(alpha=om.Above(1.0, start=1.5, shape=(4, 1, 1)))
        names = convert(model.eval(), shared)
        own = [model.get_submodule(name).normalizer for name in names]
        assert own[0] is not own[1] and shared not in own and not own[0].training
        model(torch.randn(2, 5, 16)).square().sum().backward()
        assert all(each.alpha.raw.grad.abs().min() > 0 for each in own) and shared.alpha.raw.grad is None

    def test_devices(self):
        with torch.device("meta"):
            model = encoder()
        convert(model, om.Entmax(alpha=om.Above(1.0, start=1.5)))
        assert all(parameter.is_meta for parameter in model.parameters())

    def test_nothing_to_convert(self):
        with pytest.raises(ValueError, match=r"got Linear, which has none; replace its attention by om\.Multihead"):
            convert(nn.Linear(2, 2), om.SquaredNorm())

    def test_what_may_compute_something_else(self):
        class Mine(nn.MultiheadAttention):
            pass

        with pytest.warns(UserWarning, match="got Mine, which may compute something else"):
            assert convert(nn.ModuleList([Mine(8, 2), nn.MultiheadAttention(8, 2)]), om.SquaredNorm()) == ["1"]

    def test_wrong_arguments(self):
        with pytest.raises(TypeError, match="convert: normalizer must be"):
            convert(encoder(), om.SquaredNorm)
        with pytest.raises(TypeError, match=r"module must be an nn\.Module, got list"):
            convert([], om.SquaredNorm())


class TestCompiled:
    @every_row
    @pytest.mark.slow
    def test_attention(self, normalizer):
        query, key = torch.randn(2, 4, 8, requires_grad=True), torch.randn(2, 6, 8)
        lengths = torch.tensor([6, 4])

        def run(attention):
            output = attention(query, key, lengths=lengths).output
            return output, *torch.autograd.grad(output.square().sum(), query)

        attention = om.Attention(normalizer=normalizer)
        compiled = torch.compile(attention, fullgraph=True, backend="aot_eager")
        for found, expected in zip(run(compiled), run(attention)):
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "normalizer", [om.SquaredNorm(), om.Entmax(alpha=om.Above(1.0, start=1.5, shape=(4, 1, 1)))]
    )
    def test_a_converted_encoder(self, normalizer):
        model = encoder(1)
        convert(model, normalizer)
        x = torch.randn(2, 5, 16)
        found = torch.compile(model, fullgraph=True, backend="aot_eager")(x)
        torch.testing.assert_close(found, model(x), atol=1e-5, rtol=1e-4)

    @pytest.mark.slow
    def test_with_generated_code(self):
        model = om.MultiheadAttention(16, 4, batch_first=True, normalizer=om.SquaredNorm())
        x = torch.randn(2, 5, 16)
        found = torch.compile(model, fullgraph=True)(x, x, x)[0]
        torch.testing.assert_close(found, model(x, x, x)[0], atol=1e-5, rtol=1e-4)


class TestAutocast:
    """Types come out as from PyTorch's attention, and numbers as in float32 to the precision of bfloat16."""

    @every_row
    def test_attention(self, normalizer):
        query, key, value = (torch.randn(2, n, 8) for n in (4, 6, 6))
        attention = om.Attention(normalizer=normalizer)
        with torch.autocast("cpu", torch.bfloat16):
            found = attention(query, key, value)
            expected = nn.functional.scaled_dot_product_attention(query, key, value)
        assert found.output.dtype == found.weights.dtype == expected.dtype == torch.bfloat16
        if not isinstance(normalizer, om.Hard):
            close = {"atol": 0.05, "rtol": 0.05}
            torch.testing.assert_close(found.output.float(), attention(query, key, value).output, **close)

    @every_row
    def test_multihead(self, normalizer):
        theirs = nn.MultiheadAttention(16, 4, batch_first=True)
        ours = copy.deepcopy(theirs)
        convert(ours, normalizer)
        x = torch.randn(2, 5, 16)
        with torch.autocast("cpu", torch.bfloat16):
            found, expected = ours(x, x, x), theirs(x, x, x)
        assert found[0].dtype == expected[0].dtype == torch.bfloat16
        found[0].float().square().sum().backward()
        assert all(p.grad.dtype == torch.float32 and p.grad.isfinite().all() for p in ours.parameters())

    def test_half_weights_without_autocast(self):
        model = encoder(1).to(torch.bfloat16)
        convert(model, om.SquaredNorm())
        assert model(torch.randn(2, 5, 16, dtype=torch.bfloat16)).dtype == torch.bfloat16


@pytest.mark.slow
@pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="needs the gloo backend of torch.distributed")
def test_two_processes():
    """DDP and FSDP2, three steps: the parameters of one process; see distributed_steps.py."""
    script = Path(__file__).with_name("distributed_steps.py")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", str(script)]
    done = subprocess.run(launch, capture_output=True, text=True, timeout=300, env=_environment())
    assert done.returncode == 0, done.stderr[-3000:]
    assert sorted(done.stdout.split()) == ["ddp-0", "ddp-1", "fsdp2-0", "fsdp2-1"]


def _environment():
    paths = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    return {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
