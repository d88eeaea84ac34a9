"""Translation: tokens, models, outputs, what a search proves, unknown words, likelihoods, metrics, settings."""

import dataclasses
import json
import math

import pytest
import torch

pytest.importorskip("sacrebleu")
pytest.importorskip("safetensors")

from omegamax.data.small_language import generate_sentences
from omegamax.data.vocabulary import END, START, UNKNOWN
from omegamax.models import LSTMEncoderDecoder, TransformerEncoderDecoder
from omegamax.recipes import load
from omegamax.recipes.decoding import Hypothesis, search_outputs
from omegamax.recipes.metrics import translation_scores
from omegamax.recipes.settings import SummarizeSettings, TranslateSettings
from omegamax.recipes.summarize import Summarize
from omegamax.recipes.text_to_text import TextPair
from omegamax.recipes.translate import Translate
from omegamax.training.loop import train
from omegamax.training.progress import Silent
from omegamax.training.runs import RunDirectory
from omegamax.training.settings import TrainingSettings, from_dict, to_dict

SMALL = {
    "examples": 60,
    "level": "word",
    "embedding_size": 8,
    "hidden_size": 16,
    "n_heads": 2,
    "feed_forward_size": 16,
    "dropout": 0.0,
    "max_length": 40,
}


def translate(**options):
    return Translate.prepare(TranslateSettings(**{**SMALL, **options}))


def with_settings(task, **changes):
    return Translate.restore(dataclasses.replace(task.settings, **changes), task.assets())


def learn(task, model, n_steps, learning_rate=1e-2):
    batch, losses = task.collate(task.examples("train")[:20]), []
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    for _ in range(n_steps):
        total, n_items = task.loss(model, batch)
        losses.append(total.item() / n_items)
        optimizer.zero_grad()
        (total / n_items).backward()
        optimizer.step()
    model.eval()
    return losses


@pytest.mark.parametrize("output", ["softmax", "entmax15", "sparsemax"])
@pytest.mark.parametrize("model", ["lstm", "transformer"])
def test_the_loss_falls(model, output):
    task = translate(model=model, output=output, attention="fusedmax", level="subword", max_tokens=300)
    losses = learn(task, task.model(), 8)
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.slow
def test_a_toy_is_learned():
    task = translate(attention="sparsemax", hidden_size=48, embedding_size=32, label_smoothing=0.0)
    model = task.model()
    learn(task, model, 120)
    seen = task.examples("train")[:20]
    with torch.no_grad():
        scores = task.score(seen, task.predict(model, seen))
    assert scores["exact_match"] > 0.9 and scores["bleu"] > 90 and scores["chrf"] > 90


@pytest.mark.parametrize("level", ["char", "word", "subword"])
@pytest.mark.parametrize("vocabulary", ["separate", "joint"])
def test_tokens_are_kept_in_a_checkpoint(level, vocabulary):
    task = translate(level=level, vocabulary=vocabulary, max_tokens=300, max_length=200)
    again = Translate.restore(task.settings, json.loads(json.dumps(task.assets())))
    assert again.examples("train") == task.examples("train") and again.examples("test") == task.examples("test")
    example = task.examples("train")[0]
    assert again.target_tokens.join(again.target_tokens.split([example.target])[0]) == example.target
    batches = [each.collate(task.examples("dev")[:3]) for each in (task, again)]
    assert all(torch.equal(*sides) for sides in zip(*batches))
    assert (task.source == task.target) == (vocabulary == "joint")
    if level == "subword":
        assert UNKNOWN not in batches[0].source and len(task.source) <= 300


def test_directions_and_columns(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text("".join(f"{n}\teins {n}\tone {n}\n" for n in range(80)))
    task = translate(data=str(path), source="3", target="2")
    assert task.examples("train")[0].source[0] == "one" and task.examples("train")[0].target.startswith("eins")
    assert task.read(["one 7\tignored"]) == [TextPair(("one", "7"), "")]


@pytest.mark.parametrize("level", ["subword", "char"])
def test_lines_are_read_as_files_are(tmp_path, level):
    """Spaces of any kind are single ones in training, so also in what is translated later."""
    (tmp_path / "t.tsv").write_text("".join(f"one  {n}\u00a0.\teins {n} .\n" for n in range(60)))
    task = translate(data=str(tmp_path / "t.tsv"), level=level, max_tokens=300)
    (wanted,) = task.read(["one 7 ."])
    assert task.read([" one  7\u00a0.\t"]) == [wanted] and wanted in [
        pair._replace(target="") for pairs in task._splits.values() for pair in pairs
    ]
    (scored,) = task.read_scored(["one  7 .\teins  7\t."])
    assert scored == wanted._replace(target="eins 7 .")


@pytest.mark.parametrize("options", [{"model": "lstm"}, {"model": "transformer", "vocabulary": "joint"}])
def test_a_run_can_be_loaded_and_asked(tmp_path, options):
    task = translate(attention="sparsemax", level="subword", max_tokens=280, max_length=90, **options)
    settings = TrainingSettings(epochs=1, batch_size=30, threads=1, device="cpu")
    task._splits = {name: pairs[:60] for name, pairs in task._splits.items()}
    assert train(task, settings, RunDirectory(tmp_path / "run"), progress=Silent()).outcome == "finished"
    loaded = load(tmp_path / "run")
    assert loaded.task.assets() == task.assets() and loaded.task.settings == task.settings
    short = with_settings(loaded.task, max_length=8)
    with torch.no_grad():
        examples = short.read(["the old fox sees a bird", "", "☃ unseen"])
        assert len(short.predict(loaded.model, examples)) == 3
        maps = short.attend(loaded.model, examples)
    assert [len(each.columns) for each in maps] == [len(each.source) or 1 for each in examples]
    assert all(each.weights.shape[-2:] == (len(each.rows), len(each.columns)) for each in maps)


@pytest.mark.slow
def test_sparse_outputs_are_searched_completely_and_that_is_said():
    """With sparsemax on the output few continuations are possible: a beam that holds them all has proved it."""
    task = translate(output="sparsemax", label_smoothing=0.0, max_length=12, beam=30, n_best=3)
    model = task.model()
    learn(task, model, 60, learning_rate=2e-2)
    examples = task.examples("train")[:6]
    with torch.no_grad():
        found = [json.loads(line) for line in task.predict(model, examples)]
        plain = with_settings(task, n_best=0).predict(model, examples)
    assert [each["outputs"][0]["text"] for each in found] == plain
    assert any(each["complete"] for each in found)
    for each in found:
        scores = [output["score"] for output in each["outputs"]]
        assert scores == sorted(scores, reverse=True) and len(scores) <= 3
        assert each["optimal"] or not each["complete"]


def test_a_score_is_the_likelihood_of_the_text_it_belongs_to():
    task = translate(beam=3, n_best=2, length_penalty=0.0, max_length=60)
    model = task.model()
    learn(task, model, 30)
    examples = task.examples("dev")[:4]
    with torch.no_grad():
        found = [json.loads(line)["outputs"][0] for line in task.predict(model, examples)]
        pairs = task.read_scored([f"{' '.join(e.source)}\t{each['text']}" for e, each in zip(examples, found)])
        totals = task.log_likelihood(model, pairs)
    for each, (total, n_tokens) in zip(found, totals):
        assert each["score"] == pytest.approx(total, rel=1e-4) and n_tokens == len(each["text"].split()) + 1
    with pytest.raises(ValueError, match="line 2: expected a source, a tab and a target, got no tab"):
        task.read_scored(["a\tb", "a"])


def test_unknown_words_are_replaced_by_the_source_word_with_the_most_attention():
    task = translate()
    model = task.model().eval()
    example = task.examples("dev")[0]._replace(source=("the", "zebra", "sees", "a", "quagga"))
    known = task.target.to_json()[5]
    output = Hypothesis([5, UNKNOWN, UNKNOWN], True, 0.0)
    with torch.no_grad():
        weights = task.attention_weights(model, [example], [output])[0]
        (text,) = task.write_texts(model, [example], [output])
    places = weights.argmax(-1).tolist()
    assert text == f"{known} {example.source[places[1]]} {example.source[places[2]]}"
    assert UNKNOWN in with_settings(task, unknown="forbid").search_options()["forbidden"]
    assert UNKNOWN not in task.search_options()["forbidden"]


class TwoWays(torch.nn.Module):
    """Token 4 then attends to the first source token twice, 5 to both; 4 is a little likelier."""

    def encode(self, source, lengths):
        return (source,)

    def start(self, encoded):
        return torch.zeros(len(encoded[0]), 1)

    def step(self, token, state, encoded):
        n = len(token)
        weights = torch.tensor([[1.0, 0.0]]).expand(n, 2).clone()
        weights[token == 5] = torch.tensor([0.0, 1.0])
        log_probs = torch.full((n, 6), -math.inf)
        begins = token == START
        log_probs[:, 4] = torch.where(begins, math.log(0.55), -math.inf)
        log_probs[:, 5] = torch.where(begins, math.log(0.45), -math.inf)
        log_probs[:, END] = torch.where(begins, -math.inf, 0.0)
        return log_probs, state, weights


def test_coverage_prefers_outputs_that_read_the_whole_source():
    source, lengths = torch.tensor([[7, 8]]), torch.tensor([2])
    for coverage, best in ((0.0, 4), (1.0, 5)):
        (found,) = search_outputs(
            TwoWays(), source, lengths, n_beams=2, max_length=5, length_penalty=0.0, coverage_penalty=coverage
        )
        assert found.hypotheses[0].tokens == [best] and found.complete
    expected = math.log(0.45)  # 5 covers both tokens, so it costs nothing more
    assert found.hypotheses[0].score == pytest.approx(expected, abs=1e-5)
    assert found.hypotheses[1].score == pytest.approx(math.log(0.55) + math.log(1e-3), abs=1e-4)


def test_an_output_that_can_go_on_with_forbidden_tokens_only_ends():
    (found,) = search_outputs(
        TwoWays(), torch.tensor([[7, 8]]), torch.tensor([2]), n_beams=1, max_length=5, forbidden=(4, 5)
    )
    assert found.hypotheses == [Hypothesis([], True, 0.0)]


def test_models_are_those_of_the_settings():
    assert isinstance(translate().model(), LSTMEncoderDecoder)
    model = translate(model="transformer", attention="sparsemax", self_attention="entmax15").model()
    assert isinstance(model, TransformerEncoderDecoder)
    layer = model.transformer.decoder.layers[0]
    assert "SquaredNorm" in repr(layer.multihead_attn.normalizer) and "Tsallis" in repr(layer.self_attn.normalizer)
    assert "Tsallis" in repr(model.transformer.encoder.layers[0].self_attn.normalizer)
    task = translate(attention="none")
    with torch.no_grad():
        assert task.attend(task.model(), task.examples("dev")[:2]) == []


def test_scores_are_sacrebleu_s():
    import sacrebleu

    predictions, references = ["the cat sat on the mat", "a dog"], [["the cat sat on a mat"], ["a dog", "one dog"]]
    found = translation_scores(predictions, references)
    columns = [["the cat sat on a mat", "a dog"], [None, "one dog"]]
    assert found.bleu == sacrebleu.BLEU().corpus_score(predictions, columns).score
    assert found.chrf == sacrebleu.CHRF().corpus_score(predictions, columns).score
    assert "nrefs:var" in found.signatures["bleu"] and "version:" in found.signatures["chrf"]
    task = translate()
    assert "nrefs:1" in task.signatures(task.examples("test"))["bleu"]
    same = [example.target for example in task.examples("test")]
    assert task.score(task.examples("test"), same) == pytest.approx({"bleu": 100, "chrf": 100, "exact_match": 1})


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"attention": "hard"}, "attention must be one of .* got 'hard'; train seq2seq with it"),
        ({"attention": "none", "model": "transformer"}, "attention none is for the lstm"),
        ({"self_attention": "xyz", "model": "transformer"}, "self_attention must be one of .* got 'xyz'"),
        ({"self_attention": "sparsemax"}, "self_attention is the transformer's, got the model lstm"),
        ({"model": "transformer", "n_heads": 3}, "n_heads must be a divisor of the hidden size, 16, got 3"),
        ({"n_best": 2}, "n_best must be at most --beam, which is 1, got 2"),
        ({"label_smoothing": 1.0}, "label_smoothing must be at least 0 and below 1"),
        ({"output": "fusedmax"}, "output must be one of softmax, entmax15, sparsemax"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(options, complaint):
    with pytest.raises(ValueError, match=complaint) as error:
        translate(**options)
    assert "\n" not in str(error.value)


def test_the_generated_language_has_one_translation_for_each_sentence():
    pairs = list(generate_sentences(3000, "train"))
    assert pairs == list(generate_sentences(3000, "train")) and pairs != list(generate_sentences(3000, "dev"))
    assert len(dict(pairs)) == len(set(pairs)) > 2500
    words = [{word for pair in pairs for word in pair[side].split()} for side in (0, 1)]
    assert not words[0] & words[1] and len(words[0]) < 60


def test_scores_of_the_lstm_are_scaled_but_not_in_older_checkpoints():
    pytest.importorskip("rouge_score")
    for task, kind in ((Translate, TranslateSettings), (Summarize, SummarizeSettings)):
        older = to_dict(kind(**SMALL))
        assert older.pop("score") == "scaled"
        assert task.prepare(kind(**SMALL)).model().score_scale == 1 / math.sqrt(SMALL["hidden_size"])
        assert task.prepare(from_dict(kind, older)).model().score_scale == 1
    pointer = Summarize.prepare(SummarizeSettings(**SMALL, vocabulary="joint", copy="pointer", score="general"))
    assert pointer.model().score_scale == 1
