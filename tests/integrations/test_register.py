"""What is registered, what is refused, which models use it, and the attention function itself against plain loops."""

import os

import pytest
import torch
from torch import nn

import omegamax as om
from omegamax import registry
from omegamax.integrations import transformers as hf

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers", reason="needs the extra hf: pip install omegamax[hf]")
transformers.logging.set_verbosity_error()
from small_models import IGNORING, MODELS, NAMES, PAIRS, attentions, batch, built  # noqa: E402

# The library's own, of itself and of PyTorch
pytestmark = [pytest.mark.filterwarnings(f"ignore::{kind}") for kind in ("DeprecationWarning", "FutureWarning")]

every_model = pytest.mark.parametrize("kind", MODELS)


@pytest.fixture(autouse=True, scope="module")
def registered():
    assert hf.register() == NAMES


class TestCheck:
    @every_model
    def test_counts_calls(self, kind):
        model = built(kind, "sparsemax").train()
        names = hf.check(model)
        assert len(names) == (6 if kind in PAIRS else 2)
        assert all(isinstance(model.get_submodule(name), nn.Module) for name in names)
        assert model.training

    def test_images_and_own_inputs(self):
        model = built("vit", "sparsemax")
        assert len(hf.check(model)) == len(hf.check(model, pixel_values=torch.zeros(2, 3, 16, 16))) == 2

    @pytest.mark.parametrize("kind", IGNORING)
    def test_models_that_ignore_it(self, kind):
        with pytest.raises(ValueError, match=r"no call and \d softmax of its own"):
            hf.check(built(kind, "sparsemax"))

    def test_a_model_that_listens_in_part(self):
        class Both(nn.Module):
            def __init__(self):
                super().__init__()
                self.one, self.other = built("bert", "sparsemax"), built("bert", "eager")
                self.config, self.device = self.one.config, torch.device("cpu")
                self.dummy_inputs = self.one.dummy_inputs

            def forward(self, **inputs):
                return self.one(**inputs), self.other(**inputs)

        with pytest.warns(UserWarning, match="2 calls beside 2 softmax"):
            assert hf.check(Both()) == tuple(f"one.bert.encoder.layer.{i}.attention.self" for i in (0, 1))

    def test_a_model_that_was_not_asked(self):
        with pytest.raises(ValueError, match=r"got eager; call register\(\)"):
            hf.check(built("bert", "eager"))

    def test_nothing_stays_behind_when_the_model_fails(self):
        model = built("bert", "sparsemax")
        with pytest.raises(ValueError, match="exactly one of input_ids"):
            hf.check(model, attention_mask=torch.ones(1, 3))
        interface = transformers.AttentionInterface()
        assert all(interface[name] is hf._REGISTERED[name] for name in NAMES)


class TestRegister:
    def test_every_operator_but_groupmax(self):
        assert {*NAMES, "groupmax"} == set(registry.OPERATORS)

    def test_a_normalizer_of_ones_own(self):
        assert hf.register("mine", om.Scaled(om.SquaredNorm(), 1e-4)) == ("mine",)
        inputs = batch("bert")
        sharp, hard = (
            attentions(built("bert", name)(**inputs, output_attentions=True))[0] for name in ("mine", "hardmax")
        )
        torch.testing.assert_close(sharp, hard)
        hf.register("mine", om.Shannon())  # and another one under the same name
        assert attentions(built("bert", "mine")(**inputs, output_attentions=True))[0].min(-1).values[0].min() > 0

    def test_a_structure_over_the_whole_matrix(self):
        hf.register("matching", om.SparseMAP(om.Matching()))
        inputs = {"input_ids": batch("bert")["input_ids"]}
        weights = attentions(built("bert", "matching")(**inputs, output_attentions=True))[0]
        for axis in (-1, -2):
            torch.testing.assert_close(weights.sum(axis), torch.ones(2, 4, 7), atol=1e-5, rtol=0)

    def test_an_order_per_head_that_learns(self):
        model = built("llama", "entmax")
        for layer in model.model.layers:
            layer.self_attn.normalizer = om.Entmax(alpha=om.Above(1.0, start=1.5, shape=(4, 1, 1)))
        model(**batch("llama")).logits.square().sum().backward()
        gradients = [p.grad for name, p in model.named_parameters() if "normalizer" in name]
        assert len(gradients) == 2 and all(gradient.abs().min() > 0 for gradient in gradients)

    def test_a_temperature_by_length_counts_what_the_mask_allows(self):
        """Padding is not counted, each causal row has its number, and a cache changes nothing; it learns."""
        model = built("llama", "sparsemax").eval()
        for layer in model.model.layers:
            scale = om.attention.LogLength(4, s=0.5)
            layer.self_attn.normalizer = om.attention.LengthScaled(om.SquaredNorm(), scale)
        words = torch.tensor([[3, 4, 5, 6, 7]])
        alone = model(words).logits
        padded = {"input_ids": nn.functional.pad(words, (3, 0)), "attention_mask": torch.tensor([[0] * 3 + [1] * 5])}
        positions = torch.tensor([[0, 0, 0, 0, 1, 2, 3, 4]])
        torch.testing.assert_close(model(**padded, position_ids=positions).logits[:, 3:], alone, atol=1e-5, rtol=1e-5)
        begun = model(words[:, :4], use_cache=True)
        last = model(words[:, 4:], past_key_values=begun.past_key_values).logits
        torch.testing.assert_close(last, alone[:, 4:], atol=1e-5, rtol=1e-5)
        alone.square().sum().backward()
        gradients = [p.grad for name, p in model.named_parameters() if "normalizer" in name]
        assert len(gradients) == 2 and all(gradient.abs().min() > 0 for gradient in gradients)

    @pytest.mark.parametrize("name", ["eager", "my_sdpa", "flash", "a|b", "org/kernel", ""])
    def test_names_that_mean_something_else(self, name):
        with pytest.raises(ValueError, match="register: name must be a word without"):
            hf.register(name, om.SquaredNorm())

    def test_names_of_others(self):
        transformers.AttentionInterface.register("theirs", lambda *_: None)
        with pytest.raises(ValueError, match="must be free, got 'theirs'"):
            hf.register("theirs", om.SquaredNorm())

    def test_convert_names_the_right_call(self):
        with pytest.raises(ValueError, match=r"register\(\) and model\.set_attn_implementation"):
            om.integrations.convert(built("bert", "eager"), om.SquaredNorm())

    def test_wrong_arguments(self):
        with pytest.raises(ValueError, match="must be one of hardmax"):
            hf.register("unheard_of")
        with pytest.raises(TypeError, match="got the class SquaredNorm"):
            hf.register("mine", om.SquaredNorm)
        with pytest.raises(TypeError, match="must have a name"):
            hf.register(normalizer=om.SquaredNorm())


class TestAttention:
    """The function itself, against plain loops."""

    def call(self, query, key, value, mask=None, name="sparsemax", **options):
        return transformers.AttentionInterface()[name](nn.Identity().eval(), query, key, value, mask, **options)

    @pytest.mark.parametrize("kv_heads", [4, 2, 1])
    def test_against_loops(self, kv_heads):
        query, key, value = torch.randn(2, 4, 3, 8), torch.randn(2, kv_heads, 5, 8), torch.randn(2, kv_heads, 5, 6)
        bias, added = torch.randn(1, 4, 3, 5), torch.zeros(2, 1, 3, 5)
        added[1, ..., 3:] = torch.finfo(torch.float32).min
        output, weights = self.call(query, key, value, added, scaling=0.7, position_bias=bias, softcap=2.0)
        assert output.shape == (2, 3, 4, 6) and output.is_contiguous()
        for b in range(2):
            for h in range(4):
                shared = h * kv_heads // 4
                for i in range(3):
                    n_keys = 5 if b == 0 else 3
                    scores = 0.7 * key[b, shared, :n_keys] @ query[b, h, i] + bias[0, h, i, :n_keys]
                    expected = om.sparsemax(2 * torch.tanh(scores / 2))
                    torch.testing.assert_close(weights[b, h, i, :n_keys], expected, atol=1e-6, rtol=1e-5)
                    assert not weights[b, h, i, n_keys:].any()
                    torch.testing.assert_close(
                        output[b, i, h], expected @ value[b, shared, :n_keys], atol=1e-5, rtol=1e-5
                    )

    @pytest.mark.parametrize("least", [torch.finfo(torch.float32).min, -torch.inf, None])
    def test_a_row_with_nothing_allowed_is_zero(self, least):
        query, key = torch.randn(1, 2, 3, 4, requires_grad=True), torch.randn(1, 2, 5, 4)
        allowed = torch.ones(1, 1, 3, 5, dtype=torch.bool)
        allowed[..., 1, :] = False
        mask = allowed if least is None else torch.where(allowed, 0.0, least)
        for name in NAMES:
            output, weights = self.call(query, key, key, mask, name)
            assert not weights[:, :, 1].any() and not output[:, 1].any()
            torch.testing.assert_close(weights[:, :, 0].sum(-1), torch.ones(1, 2))
            (gradient,) = torch.autograd.grad(output.sum(), query)
            assert gradient.isfinite().all()

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
    def test_dtypes(self, dtype):
        query, key = torch.randn(1, 4, 3, 8), torch.randn(1, 2, 5, 8)
        mask = torch.zeros(1, 1, 3, 5)
        mask[..., 4] = torch.finfo(torch.float32).min
        expected = self.call(query, key, key, mask)
        mask = torch.zeros_like(mask, dtype=dtype).masked_fill(mask < 0, torch.finfo(dtype).min)
        found = self.call(query.to(dtype), key.to(dtype), key.to(dtype), mask)
        for a, b in zip(found, expected):
            assert a.dtype == dtype
            torch.testing.assert_close(a.float(), b, atol=0.03, rtol=0.03)

    def test_sizes_that_are_zero_or_one(self):
        for n_queries, n_keys in ((1, 1), (0, 3), (2, 0)):
            query, key = torch.randn(2, 4, n_queries, 8), torch.randn(2, 2, n_keys, 8)
            output, weights = self.call(query, key, key)
            assert output.shape == (2, n_queries, 4, 8) and weights.shape == (2, 4, n_queries, n_keys)

    def test_dropout_in_training_only(self):
        query, key = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 5, 4)
        attend = transformers.AttentionInterface()["softmax"]
        dropped = attend(nn.Identity().train(), query, key, key, None, dropout=0.5)[1]
        assert (dropped == 0).any() and (self.call(query, key, key, name="softmax", dropout=0.5)[1] > 0).all()

    def test_no_paged_cache(self):
        query = torch.randn(1, 2, 3, 4)
        with pytest.raises(ValueError, match=r"continuous batching; use model\.generate"):
            self.call(query, query, query, cache=object())
