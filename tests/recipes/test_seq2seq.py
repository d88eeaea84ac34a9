"""The sequence-to-sequence recipe and the dates: batches, losses, outputs, metrics, attention, settings."""

import dataclasses
import json

import pytest
import torch

pytest.importorskip("babel")
pytest.importorskip("sacrebleu")

from omegamax import operator_table
from omegamax.data.vocabulary import END, PADDING, START, UNKNOWN
from omegamax.recipes import TASKS
from omegamax.recipes.dates import Dates
from omegamax.recipes.metrics import corpus_bleu, edit_distances, exact_match
from omegamax.recipes.seq2seq import SequenceToSequence
from omegamax.recipes.settings import DatesSettings, Seq2SeqSettings
from omegamax.recipes.text_to_text import TextPair
from omegamax.training.settings import TrainingSettings

ATTENTIONS = [*(facts.function for facts in operator_table.for_attention()), "hard", "none"]
SMALL = {"embedding_size": 16, "hidden_size": 32, "dropout": 0.0}


def dates(**options):
    return Dates.prepare(DatesSettings(**{**SMALL, "examples": 60, "locales": "fr,en", **options}))


@pytest.fixture
def words(tmp_path):
    """Copies a word of two: the second, told by the first word."""
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"word {n}, number {n % 7}!\tHere: {n % 7}.\n" for n in range(120)))
    return path


def learn(task, model, n_steps, learning_rate=1e-2):
    batch, losses = task.collate(task.examples("train")[:40]), []
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    for _ in range(n_steps):
        total, n_items = task.loss(model, batch)
        losses.append(total.item() / n_items)
        optimizer.zero_grad()
        (total / n_items).backward()
        optimizer.step()
    return losses


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.thinned(9)
def test_the_loss_falls(attention):
    task = dates(attention=attention)
    losses = learn(task, task.model(), 12)
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.slow
@pytest.mark.parametrize("attention", ["softmax", "fusedmax", "hard"])
def test_a_toy_is_learned(attention):
    task = dates(attention=attention, locales="en", hidden_size=48)
    model = task.model()
    learn(task, model, 150)
    seen = task.examples("train")[:40]
    with torch.no_grad():
        assert task.score(seen, task.predict(model.eval(), seen))["exact_match"] > 0.95


def test_batches_hold_numbers_and_padding():
    task = dates()
    batch = task.collate([TextPair(("<fr>", "3", "☃"), "2017"), TextPair((), "")])
    assert batch.lengths.tolist() == [3, 1]
    assert batch.source[0, 2] == UNKNOWN and batch.source[1].tolist() == [UNKNOWN, PADDING, PADDING]
    assert batch.target[0, 0] == START and batch.target[0, 5] == END and (batch.target[1, 2:] == PADDING).all()


def test_the_loss_counts_tokens_and_parts_add_up():
    task = dates(attention="sparsemax")
    model, examples = task.model(), task.examples("train")[:10]
    whole = task.loss(model, task.collate(examples))
    parts = [task.loss(model, task.collate(examples[place::2])) for place in range(2)]
    assert whole.n_items == 11 * 10 == sum(part.n_items for part in parts)
    torch.testing.assert_close(whole.total, parts[0].total + parts[1].total)


def test_short_texts_have_a_bleu():
    assert corpus_bleu(["a", "b"], ["a", "b"]) == pytest.approx(100)  # though they have no pairs of words
    assert 0 < corpus_bleu(["a", "c"], ["a", "b"]) < 100
    long = ["the cat sat on the mat", "a dog"]
    assert corpus_bleu(long, long[::-1]) < 10 and corpus_bleu(long, long) == pytest.approx(100)


def test_a_default_locale_is_one_of_the_locales():
    assert dates(locales="de,fr").read(["3. Mai"])[0].source[0] == "<de>"
    assert dates(locales="de,en").read(["3 May"])[0].source[0] == "<en>"
    with pytest.raises(ValueError, match="locale 'it' is not among"):
        dates(locales="de,en", default_locale="it")


def test_other_texts_of_the_same_length_are_other_data():
    task = dates()
    assert task.fingerprint(TextPair(("a", "b"), "x")) != task.fingerprint(TextPair(("a", "c"), "x"))


def test_locales_are_one_token_each():
    task = dates()
    assert task.source.to_json()[4:6] == ["<fr>", "<en>"]
    assert all(
        example.source[0] in ("<fr>", "<en>") for split in ("train", "dev", "test") for example in task.examples(split)
    )
    assert all(len(example.target) == 10 for example in task.examples("dev"))
    assert [len(task.examples(split)) for split in ("train", "dev", "test")] == [60, 100, 100]


def test_what_users_type_is_read():
    task = dates(default_locale="fr")
    first, second, third = task.read(
        ["en-US\t3/4/17\n".replace("-US", ""), "3\u00a0mars  2017\n", "fr\t3 mars\t2017-03-03"]
    )
    assert first == TextPair(("<en>", *"3/4/17"), "") and second == TextPair(("<fr>", *"3 mars 2017"), "")
    assert third.source == ("<fr>", *"3 mars")
    with pytest.raises(ValueError, match=r"locale 'frr' is not among .*; did you mean fr\?"):
        task.read(["frr\t3 mars 2017"])
    with pytest.raises(ValueError, match="unknown locale 'xx_YY'"):
        dates(locales="fr,xx_YY")


def test_assets_make_the_same_task_again():
    task = dates(attention="fusedmax", locales="fr,ja,ar-EG")
    assets = json.loads(json.dumps(task.assets()))
    again = Dates.restore(task.settings, assets)
    torch.manual_seed(0)
    model = task.model()
    torch.manual_seed(0)
    twin = again.model()
    examples = task.read(["fr\t3 mars 2017", "ja\t2017年3月3日", "ar_EG\t٣/٣/٢٠١٧"])
    with torch.no_grad():
        assert task.predict(model, examples) == again.predict(twin, examples)
    assert again.examples("test") == task.examples("test")


def test_outputs_do_not_depend_on_their_batch():
    task = dates(attention="oscarmax", max_length=12)
    model, examples = task.model().eval(), task.examples("dev")[:7]
    learn(task, model, 5)
    with torch.no_grad():
        together = task.predict(model, examples)
        assert together == [task.predict(model, [example])[0] for example in examples]


def test_more_beams_are_never_worse_here():
    """The likelihood per token of what is written, under the model."""
    task = dates(max_length=12)
    model, examples = task.model(), task.examples("dev")[:20]
    learn(task, model, 8)
    wide = Dates.restore(dataclasses.replace(task.settings, beam=6), task.assets())
    likelihood = []
    with torch.no_grad():
        for each in (task, wide):
            written = [example._replace(target=text) for example, text in zip(examples, each.predict(model, examples))]
            total, n_items = each.loss(model, each.collate(written))
            likelihood.append(-total.item() / n_items)
    assert likelihood[1] >= likelihood[0]


@pytest.mark.parametrize("attention", ["softmax", "fusedmax", "hard"])
def test_attention_maps_have_a_row_for_each_token_written(attention):
    task = dates(attention=attention, max_length=12)
    model = task.model()
    learn(task, model, 3)
    model.eval()
    examples = task.examples("dev")[:3]
    with torch.no_grad():
        maps, outputs = task.attend(model, examples), task.predict(model, examples)
    for found, example, output in zip(maps, examples, outputs):
        assert list(found.columns) == list(example.source)
        assert len(output) == 12 and "".join(found.rows) == output  # cut: it has no end
        assert found.weights.shape == (len(found.rows), len(found.columns))
        torch.testing.assert_close(found.weights.sum(-1), torch.ones(len(found.rows)))


def test_only_an_output_that_has_ended_shows_its_end():
    task = dates(attention="softmax", max_length=12)
    model = task.model()
    learn(task, model, 3)
    model.eval()
    example = task.examples("dev")[:1]
    for bias, ended in ((1e3, True), (-1e3, False)):
        with torch.no_grad():
            model.out.bias[3] = bias  # of the end token
            (found,) = task.attend(model, example)
        assert ("</s>" in found.rows, len(found.rows)) == ((True, 1) if ended else (False, 12))
        assert found.weights.shape == (len(found.rows), len(found.columns))


def test_many_beams_are_searched_in_parts_with_the_same_result(monkeypatch):
    task = dates(attention="softmax", max_length=12, beam=3)
    model = task.model()
    learn(task, model, 3)
    model.eval()
    examples = task.examples("dev")[:5]
    with torch.no_grad():
        whole = task.predict(model, examples)
        monkeypatch.setattr("omegamax.recipes.text_to_text._MAX_CHOICES", 2 * 3 * len(task.target))
        assert task.predict(model, examples) == whole


def test_a_beam_that_no_memory_holds_is_refused(monkeypatch):
    monkeypatch.setattr("omegamax.recipes.text_to_text._MAX_CHOICES", 100)
    with pytest.raises(ValueError, match=r"beam must be at most \d+ with a vocabulary of .* tokens, got 90"):
        dates(beam=90)


def test_a_model_whose_numbers_are_nan_writes_nothing():
    task = dates()
    model = task.model().eval()
    for parameter in model.parameters():
        parameter.data.fill_(torch.nan)
    examples = task.examples("dev")[:2]
    assert task.predict(model, examples) == ["", ""]
    assert len(task.attend(model, examples)) == 2


def test_a_text_that_is_too_long_is_refused_by_its_line():
    task = dates(attention="none", max_length=12)
    with pytest.raises(ValueError, match=r"line 2 \('<en>x.* …\): expected at most 20000 tokens, got 20002; shorten"):
        task.read(["3 May", "x" * 20_001])


def test_without_attention_there_is_nothing_to_show():
    task = dates(attention="none")
    with torch.no_grad():
        assert task.attend(task.model(), task.examples("dev")[:2]) == []


@pytest.mark.slow
def test_words_of_a_table(words):
    task = SequenceToSequence.prepare(Seq2SeqSettings(data=str(words), **SMALL))
    assert task.metric == "bleu"
    assert "number" in task.source and "￭," in task.source and "￭:" in task.target
    assert sum(len(task.examples(split)) for split in ("train", "dev", "test")) == 120
    assert task.read(["a b\tc"]) == [TextPair(("a", "b"), "")]
    model = task.model()
    losses = learn(task, model, 60)
    assert losses[-1] < 0.1 * losses[0]
    with torch.no_grad():
        output = task.predict(model.eval(), task.examples("train")[:1])[0]
    assert output.startswith("Here: ")


def test_characters_of_a_table_and_long_rows_left_out(words):
    task = SequenceToSequence.prepare(Seq2SeqSettings(data=str(words), level="char", max_length=17, **SMALL))
    assert task.examples("train") and all(len(pair.source) <= 17 for pair in task.examples("train"))
    assert any(len(pair.source) > 17 for pair in task.examples("test") + task.examples("dev"))
    with pytest.raises(ValueError, match="no training example has at most 3 tokens on both sides; raise max_length"):
        SequenceToSequence.prepare(Seq2SeqSettings(data=str(words), max_length=3))


def test_dates_of_a_table(tmp_path):
    path = tmp_path / "dates.tsv"
    path.write_text(
        "".join(f"fr\t{day} mars {year}\t{year}-03-{day:02}\n" for day in range(1, 29) for year in (1999, 2000))
    )
    task = dates(data=str(path))
    assert task.examples("test")[0].source[0] == "<fr>"
    good = path.read_text()
    for line, complaint in (
        ("fr\t3 mars 2017\t3/3/17", "expected a date such as 2017-03-03, got '3/3/17'"),
        ("fr\t3 mars 2017\t20170303", "expected a date such as 2017-03-03, got '20170303'"),
        ("de\t3. März 2017\t2017-03-03", "locale 'de' is not among those of the settings; use one of fr, en"),
    ):
        path.write_text(good + line + "\n")
        with pytest.raises(ValueError, match=rf"dates\.tsv, line 57: {complaint}"):
            dates(data=str(path))


def test_missing_data_is_said():
    with pytest.raises(ValueError, match=r"seq2seq: data is missing; give a TSV file .*--data"):
        SequenceToSequence.prepare(Seq2SeqSettings())


@pytest.mark.parametrize(
    "options, complaint",
    [
        ({"attention": "sofmax"}, "got 'sofmax'; did you mean softmax"),
        ({"attention": "xyz"}, "must be one of softmax, .* got 'xyz'; choose one of these"),
        (
            {"attention": "softmax", "strength": 0.1},
            "softmax takes no strength, got 0.1; leave it out, or choose fusedmax",
        ),
        ({"attention": "fusedmax", "alpha": 1.5}, "fusedmax takes no alpha, got 1.5; leave it out, or choose entmax"),
        ({"attention": "none", "gamma": 2.0}, "none takes no gamma"),
        ({"attention": "fusedmax", "strength": -1.0}, "strength must be non-negative"),
        ({"attention": "hard", "gamma": 0.0}, "gamma must be positive"),
        ({"hidden_size": 31}, "hidden_size must be even and at least 2"),
        ({"level": "line"}, "level must be one of char, word, got 'line'; change it with --level"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1"),
        ({"beam": 0}, "beam must be at least 1"),
        ({"typos": 1.5}, "typos must be a probability"),
        ({"max_tokens": 5}, "max_size must exceed the 6 reserved tokens"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(options, complaint):
    with pytest.raises(ValueError, match=complaint) as error:
        dates(**options)
    assert "\n" not in str(error.value)


def test_the_table_of_tasks_has_training_settings():
    for entry in TASKS.values():
        TrainingSettings(**entry.training)


@pytest.mark.slow
def test_metrics():
    assert exact_match(["a", "b"], ["a", "c"]) == 0.5
    assert edit_distances(["", "abc", "x" * 300], ["ab", "abc", "x" * 299 + "y"]) == [2, 0, 1]
    assert edit_distances([["a", "long", "word"]], [["a", "word"]]) == [1]
    assert corpus_bleu(["the cat sat on the mat"], ["the cat sat on the mat"]) == pytest.approx(100)
    scores = dates().score([TextPair((), "2017-03-03"), TextPair((), "2017-03-04")], ["2017-03-03", "2017-03-14"])
    assert next(iter(scores)) == "exact_match" and scores["exact_match"] == 0.5
    assert scores["edit_distance"] == 0.5 and scores["edit_rate"] == 0.05 and 0 < scores["bleu"] < 100
