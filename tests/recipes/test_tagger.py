"""The tagger: losses, distributions against enumeration, metrics against seqeval, runs, predictions."""

import dataclasses
import itertools
import json
import math
from functools import cache

import pytest
import torch

pytest.importorskip("safetensors")

from omegamax.data.tagged_sentences import from_text, from_words
from omegamax.models.crf import CRF
from omegamax.operators import Shannon, SquaredNorm
from omegamax.recipes import Tagger, load
from omegamax.recipes.settings import LOSSES, TaggerPrediction, TaggerSettings
from omegamax.recipes.tag_distribution import TagDistribution
from omegamax.recipes.tagger import TaggerTask
from omegamax.recipes.tagger_losses import tagger_loss
from omegamax.recipes.tagger_output import write_tagging
from omegamax.recipes.tagger_scores import best_f1_threshold, calibration_error, entity_f1, reliability
from omegamax.spans import Span, TagReader, choose_spans, write_tags
from omegamax.structures import Chain
from omegamax.structures.tagging_scheme import allowed_transitions
from omegamax.training.loop import train
from omegamax.training.prediction import evaluate
from omegamax.training.progress import Silent
from omegamax.training.runs import RunDirectory
from omegamax.training.settings import TrainingSettings

SMALL = {"sentences": 60, "word_size": 8, "character_size": 6, "affix_size": 4, "hidden_size": 16, "min_count": 1}
TAGS = ["O", "B-a", "I-a", "E-a", "S-a", "B-b", "I-b", "E-b", "S-b"]
SPARSE = [name for name in LOSSES if name not in ("crf", "softmax")]


def tagger(**options):
    return TaggerTask.prepare(TaggerSettings(**{**SMALL, **options}))


def learn(task, model, n_steps, n_sentences=16):
    examples, losses = task.examples("train"), []
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(n_steps):
        places = [(step * n_sentences + place) % len(examples) for place in range(n_sentences)]
        total, n_items = task.loss(model, task.collate([examples[at] for at in places]))
        losses.append(total.item() / n_items)
        optimizer.zero_grad()
        (total / n_items).backward()
        assert all(p.grad is not None for p in model.parameters() if p.requires_grad)
        optimizer.step()
    return losses


@pytest.mark.parametrize("loss", LOSSES)
def test_the_loss_decreases_and_tags_are_valid(loss):
    torch.manual_seed(0)
    task = tagger(loss=loss, dropout=0.2)
    model = task.model()
    losses = learn(task, model, 30)
    assert sum(losses[-5:]) < 0.7 * sum(losses[:5])
    rules = allowed_transitions(task.tags, "BIOES")
    with torch.no_grad():
        found = list(task._distributions(model.eval(), task.examples("dev")))
    for example, tags, _ in found:
        assert len(tags) == len(example.words) and rules.start[tags[0]] and rules.end[tags[-1]]
        assert all(rules.transitions[i, j] for i, j in itertools.pairwise(tags))
    assert set(evaluate(task, model, task.examples("dev"))) >= {"f1", "precision", "recall", "f1_person"}


# Distributions, against enumeration


@cache
def valid_sequences(n_words):
    rules = allowed_transitions(TAGS)
    found = []
    for tags in itertools.product(range(len(TAGS)), repeat=n_words):
        if (
            rules.start[tags[0]]
            and rules.end[tags[-1]]
            and all(rules.transitions[i, j] for i, j in itertools.pairwise(tags))
        ):
            found.append(tags)
    return found


def distribution(loss, n_words=3, scale=1.0, seed=0):
    torch.manual_seed(seed)
    crf = CRF(len(TAGS), allowed=allowed_transitions(TAGS)).double()
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.normal_(std=scale)
        return TagDistribution(
            crf(scale * torch.randn(n_words, len(TAGS)).double()), tagger_loss(loss), TagReader(TAGS)
        )


def score(found, tags):
    emissions, transitions, start, end = found.potentials
    total = start[tags[0]] + end[tags[-1]] + sum(emissions[n, tag] for n, tag in enumerate(tags))
    return float(total + sum(transitions[i, j] for i, j in itertools.pairwise(tags)))


def probabilities(found):
    """Every valid sequence with its probability, by the recursion's definition or by the sequences of SparseMAP."""
    sequences = valid_sequences(found.potentials.emissions.shape[0])
    scores = torch.tensor([score(found, tags) for tags in sequences])
    if isinstance(found.loss.regularizer, Shannon):
        return dict(zip(sequences, scores.double().softmax(0).tolist()))
    if found.loss.regularizer is None:
        solution = Chain().sparsemap(found.potentials)
        rows = Chain.tags(solution.structures).tolist()
        listed = zip(map(tuple, rows), solution.probabilities.tolist())
        return {**dict.fromkeys(sequences, 0.0), **{tags: p for tags, p in listed if p > 0}}
    n_tags = len(TAGS)
    structures = Chain.factored_from_tags(torch.tensor(sequences), n_tags, dtype=torch.float64)
    many = type(found.potentials)(*(part.expand(len(sequences), *part.shape) for part in found.potentials))
    return dict(zip(sequences, Chain().prob(many, structures, found.loss.regularizer).tolist()))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_words", [1, 3])
def test_entities_marginals_and_answers_are_sums_over_sequences(loss, n_words):
    found = distribution(loss, n_words)
    known = probabilities(found)
    assert sum(known.values()) == pytest.approx(1)
    marginals = torch.zeros(n_words, len(TAGS)).double()
    spans = {}
    for tags, p in known.items():
        for place, tag in enumerate(tags):
            marginals[place, tag] += p
        for span in found.reader.spans(tags):
            spans[span] = spans.get(span, 0.0) + p
    torch.testing.assert_close(found.marginals(), marginals, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(found.edges().sum(-2), marginals, atol=1e-6, rtol=1e-6)
    listed = found.entities(1e-9, n_words)
    assert {span[:3] for span in listed} == {span for span, p in spans.items() if p > 1e-9}
    assert all(span.probability == pytest.approx(spans[span[:3]], abs=1e-6) for span in listed)
    assert [span.probability for span in listed] == sorted((span.probability for span in listed), reverse=True)
    ranked = found.ranked(10_000)
    positive = {tags: p for tags, p in known.items() if p > 0}
    assert ranked.complete and {each.tags for each in ranked.sequences} == set(positive)
    for each in ranked.sequences:
        assert each.probability == pytest.approx(positive[each.tags], abs=1e-6)
        assert each.score == pytest.approx(score(found, each.tags), abs=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_k_best_are_the_best_of_all(loss):
    found = distribution(loss, seed=1)
    known = probabilities(found)
    by_score = sorted(known, key=lambda tags: -score(found, tags))
    best = found.best(5)
    assert [each.tags for each in best.sequences] == by_score[:5] and not best.complete
    assert [each.probability for each in best.sequences] == pytest.approx([known[t] for t in by_score[:5]], abs=1e-6)


def test_a_sparse_loss_leaves_few_answers():
    assert len(distribution("l2", scale=3.0).ranked(1000).sequences) < len(valid_sequences(3)) / 10
    cut = distribution("l2", scale=0.1).ranked(2)
    assert len(cut.sequences) == 2 and not cut.complete


# Metrics


def test_f1_is_that_of_seqeval():
    seqeval = pytest.importorskip("seqeval.metrics")
    torch.manual_seed(0)
    kinds, found, wanted, rows = ["per", "loc", "org"], [], [], ([], [])
    for _ in range(60):
        for several, tags in zip((found, wanted), rows):
            spans, place = [], 0
            while place < 9:
                length = int(torch.randint(1, 4, ()))
                if torch.rand(()) < 0.5:
                    spans.append((place, place + length, kinds[int(torch.randint(3, ()))]))
                place += length
            several.append(spans)
            tags.append(write_tags(spans, 12, "IOB2"))
    scores = entity_f1(found, wanted)
    report = seqeval.classification_report(rows[1], rows[0], output_dict=True)
    assert scores["f1"] == pytest.approx(seqeval.f1_score(rows[1], rows[0]))
    assert scores["precision"] == pytest.approx(seqeval.precision_score(rows[1], rows[0]))
    assert scores["recall"] == pytest.approx(seqeval.recall_score(rows[1], rows[0]))
    assert all(scores[f"f1_{kind}"] == pytest.approx(report[kind]["f1-score"]) for kind in kinds)


def test_f1_by_hand_and_without_entities():
    scores = entity_f1([[(0, 1, "a"), (2, 4, "b")], []], [[(0, 1, "a"), (2, 3, "b")], [(1, 2, "a")]])
    assert scores["f1"] == pytest.approx(2 / 5) and scores["precision"] == 0.5
    assert scores["recall"] == pytest.approx(1 / 3) and scores["f1_b"] == 0
    assert entity_f1([[]], [[]]) == {"f1": 0, "precision": 0, "recall": 0}


def test_calibration_by_hand():
    bins = reliability([(0.05, False), (0.31, True), (0.39, False), (1.0, True)])
    assert [each.n_entities for each in bins] == [1, 2, 1] and bins[1].probability == pytest.approx(0.35)
    assert calibration_error(bins) == pytest.approx((0.05 + 2 * 0.15 + 0) / 4)
    assert calibration_error([]) == 0


def test_the_best_threshold_is_that_of_all_thresholds():
    likely = [
        [Span(0, 1, "a", 0.6), Span(2, 4, "b", 0.32), Span(3, 4, "b", 0.12)],
        [Span(1, 2, "a", 0.28), Span(0, 2, "b", 0.08)],
        [],
    ]
    gold = [[(0, 1, "a"), (2, 4, "b")], [(1, 2, "b")], [(0, 1, "a")]]
    found = best_f1_threshold(likely, gold)
    values = {
        t: entity_f1([{span[:3] for span in choose_spans(spans, t)} for spans in likely], gold)["f1"]
        for t in [n / 1000 for n in range(1, 1000)]
    }
    assert found == 0.3 and values[found] == max(values.values())
    assert best_f1_threshold([[]], [[]]) == 0.02  # any is as good


def test_boundaries_count_without_types():
    task = TaggerTask.prepare(TaggerSettings(**SMALL))
    sentence = from_words(("a", "b", "c"))._replace(spans=((0, 1, "person"), (1, 3, "place")))
    line = json.dumps({"spans": [(0, 1, "firm"), (1, 2, "place")]})
    scores = task.score([sentence], [line])
    assert scores["f1"] == 0 and scores["boundary_f1"] == 0.5


@pytest.mark.parametrize("loss", ["crf", "l2"])
@pytest.mark.slow
def test_inspection_says_how_sure_the_tagger_is(loss):
    torch.manual_seed(0)
    task = tagger(loss=loss)
    model = task.model()
    learn(task, model, 20)
    examples = task.examples("dev")
    with torch.no_grad():
        lines = task.inspect(model.eval(), examples)
        brief = task.assess(model, examples)
    assert [json.loads(line)["spans"] for line in lines] == [json.loads(line)["spans"] for line in brief]
    scores = task.score(examples, lines)
    assert scores.items() >= task.score(examples, brief).items()
    assert 0 <= scores["entity_ece"] <= 1 and 0 < scores["expected_threshold"] < 0.5
    assert ("single_answer" in scores) == (loss == "l2")
    if loss == "l2":
        assert 0 <= scores["single_answer"] <= 1 <= scores["mean_answers"]


# Runs


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("tagger") / "run"
    settings = TrainingSettings(epochs=4, batch_size=8, learning_rate=1e-2, threads=1)
    train(tagger(loss="l2", sentences=200), settings, RunDirectory(path), progress=Silent())
    return path


def test_a_run_is_restored(run):
    trained = load(run)
    task = tagger(loss="l2", sentences=200)
    assert trained.task.tags == task.tags and trained.task.longest == task.longest
    before = evaluate(task, trained.model, task.examples("dev"))
    assert before == evaluate(trained.task, trained.model, trained.task.examples("dev"))
    assert before["f1"] == pytest.approx(trained.card.state["best_value"]) and before["f1"] > 0.3


def test_predictions_have_offsets_probabilities_and_answers(run):
    text = "Ada Velmora  flew to New Tarin."
    (found,) = Tagger.load(run).predict([text], probabilities=True, ranked=True)
    assert found.text == text and found.words == from_text(text).words and len(found.tags) == len(found.words)
    for entity in (*found.entities, *found.candidates):
        assert text[entity.start : entity.end] == entity.text and 0 <= entity.probability <= 1 + 1e-6
    assert found.complete and sum(answer.probability for answer in found.answers) == pytest.approx(1, abs=1e-4)
    assert found.candidates == tuple(sorted(found.candidates, key=lambda entity: -entity.probability))
    assert all(entity.probability > 0.01 for entity in found.candidates)
    sums = {}
    for answer in found.answers:
        for entity in answer.entities:
            sums[entity] = sums.get(entity, 0.0) + answer.probability
    for entity in found.candidates:
        assert entity.probability == pytest.approx(sums[entity._replace(probability=None)], abs=1e-4)


def test_k_best_words_and_empty_texts(run):
    trained = Tagger.load(run)
    words, empty = trained.predict([["Ada", "met", "Velmora"], ""], k_best=3)
    assert words.words == ("Ada", "met", "Velmora") and len(words.answers) == 3
    assert words.answers[0].tags == words.tags
    assert empty.words == () and empty.entities == () and empty.answers == ()
    assert trained.types == ["firm", "person", "place"] and trained.task.prediction == TaggerPrediction()
    with pytest.raises(TypeError, match=r"write predict\(\[text\]\)"):
        trained.predict("Ada")
    with pytest.raises(ValueError, match="text 0 must have at most 20000 words, got 20001"):
        trained.predict(["a " * 20_001])


def test_columns_and_json_say_the_same(run):
    trained = Tagger.load(run)
    (found,) = trained.predict(["Ada flew to New Tarin."], probabilities=True, k_best=2)
    columns = write_tagging(found, TaggerPrediction(output_format="conll"))
    assert [line.split("\t") for line in columns.splitlines() if line[0] != "#"] == [
        list(pair) for pair in zip(found.words, found.tags)
    ]
    record = json.loads(write_tagging(found, TaggerPrediction(probabilities=True, k_best=2)))
    assert record["tags"] == list(found.tags) and len(record["answers"]) == 2
    assert [entity["text"] for entity in record["entities"]] == [entity.text for entity in found.entities]
    both = write_tagging(found, TaggerPrediction(output_format="conll", k_best=2))
    assert both.count("# answer") == 2 and math.isfinite(float(both.split("probability ")[1].split(",")[0]))


def test_a_threshold_finds_every_entity_above_it(run):
    trained = load(run)
    settings = dataclasses.replace(trained.task.settings, entity_threshold=0.2)
    task = TaggerTask.restore(settings, trained.task.assets())
    task.prediction = TaggerPrediction(probabilities=True)
    examples = task.examples("dev")
    with torch.no_grad():
        found = task.tag(trained.model, examples)
        lines = task.assess(trained.model, examples)
    assert [json.loads(line)["spans"] for line in lines] == [
        [[e.first_word, e.last_word + 1, e.label] for e in each.entities] for each in found
    ]
    for each in found:
        assert all(entity.probability > 0.2 for entity in each.entities)
        covered = [place for e in each.entities for place in range(e.first_word, e.last_word + 1)]
        assert len(covered) == len(set(covered))
        for other in each.candidates:  # nothing likely is left out, unless something overlaps it
            places = set(range(other.first_word, other.last_word + 1))
            assert other.probability <= 0.2 or other in each.entities or places & set(covered)


def test_another_task_is_no_tagger(run):
    with pytest.raises(TypeError, match="must be a run of the task tagger"):
        Tagger(load(run)._replace(task=None))


def test_types_that_training_never_showed_count_as_missed(tmp_path):
    for name, tag in (("train", "B-PER"), ("dev", "B-PER"), ("test", "B-NEW")):
        (tmp_path / f"{name}.conll").write_text(f"Ada\t{tag}\nran\tO\n")
    task = tagger(data=str(tmp_path))
    (example,) = task.examples("test")
    assert task.collate([example]).tags.tolist() == [[0, 0]]
    scores = task.score([example], [json.dumps({"spans": []})])
    assert scores["recall"] == 0 and scores["f1_NEW"] == 0


def test_data_without_entities_is_refused(tmp_path):
    for name in ("train", "dev", "test"):
        (tmp_path / f"{name}.conll").write_text("Ada\tO\n")
    with pytest.raises(ValueError, match="expected entities in the training data, got none"):
        tagger(data=str(tmp_path))


def test_vectors_fill_the_table(tmp_path):
    file = tmp_path / "vectors.txt"
    file.write_text("met 1 2 3\nzebra 4 5 6\n")
    for name, word in (("train", "met"), ("dev", "zebra"), ("test", "ran")):
        (tmp_path / f"{name}.conll").write_text(f"Ada\tB-PER\n{word}\tO\n")
    task = tagger(data=str(tmp_path), vectors=str(file))
    table = task.model().reader.features.words.weight
    numbers = task.inputs.words.words.numbers(["met", "zebra", "ran"])
    assert table.shape[1] == 3 and numbers[2] == 1
    assert table[numbers[:2]].tolist() == [[1, 2, 3], [4, 5, 6]]
    restored = TaggerTask.restore(task.settings, json.loads(json.dumps(task.assets())))
    assert restored.model().reader.features.words.weight.shape == table.shape
    file.unlink()
    restored.model()


def test_the_encoder_learns_more_slowly():
    task = tagger()
    assert task.rate_factor("reader.encoder.model.x") == task.settings.encoder_rate
    assert task.rate_factor("emissions.weight") == 1


def test_words_of_a_column_file_are_read_for_prediction():
    task = tagger()
    task.prediction = TaggerPrediction(input_format="conll")
    assert [each.words for each in task.read(["Ada", "met", "", "Bo"])] == [("Ada", "met"), ("Bo",)]
    task.prediction = TaggerPrediction(input_format="tokens")
    assert task.read(["it's  5 p.m."])[0] == from_words(("it's", "5", "p.m."))
    task.prediction = TaggerPrediction(input_format="jsonl")
    assert task.read(['{"text": "it ran"}'])[0].words == ("it", "ran")


def test_l2_and_crf_smooth_the_same_chain():
    assert isinstance(tagger_loss("crf").regularizer, Shannon) and isinstance(
        tagger_loss("l2").regularizer, SquaredNorm
    )
    assert [tagger_loss(name).sparse for name in LOSSES] == [name in SPARSE for name in LOSSES]
