"""The parser as a task: training, valid trees, byte for byte CoNLL-U, lists of trees, mistakes in one sentence."""

import gzip
import json
from dataclasses import replace

import pytest
import torch

pytest.importorskip("safetensors")

from omegamax.cli import main
from omegamax.data.conllu import parse_conllu, sentence_of_words
from omegamax.data.dependency_checks import is_projective, tree_problem
from omegamax.data.treebank import generate_treebank
from omegamax.errors import CheckpointError, DataError
from omegamax.recipes import Parser, load
from omegamax.recipes.parser import ParserTask
from omegamax.recipes.parser_data_check import check_parser_data
from omegamax.recipes.parser_losses import arc_loss
from omegamax.recipes.settings import PARSER_LOSSES, ParserPrediction, ParserSettings
from omegamax.training.loop import train
from omegamax.training.prediction import evaluate, predict
from omegamax.training.progress import Silent
from omegamax.training.runs import RunDirectory
from omegamax.training.settings import TrainingSettings, from_dict, to_dict

SMALL = {"hidden_size": 32, "n_layers": 1, "word_size": 16, "character_size": 8, "arc_size": 24, "label_size": 8}
QUICK = {"sentences": 150, "dropout": 0.1, "word_dropout": 0.05, "min_count": 1, **SMALL}


def learn(task, model, n_steps, batch_size=16):
    examples, losses = task.examples("train"), []
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(n_steps):
        some = [examples[(step * batch_size + at) % len(examples)] for at in range(batch_size)]
        total, n_items = task.loss(model, task.collate(some))
        losses.append(total.item() / n_items)
        optimizer.zero_grad()
        (total / n_items).backward()
        optimizer.step()
    return losses


@pytest.mark.parametrize("loss", PARSER_LOSSES)
def test_every_loss_decreases_and_trees_are_valid(loss):
    torch.manual_seed(0)
    task = ParserTask.prepare(ParserSettings(loss=loss, tags="upos", **QUICK))
    model = task.model().train()
    losses = learn(task, model, 12)
    assert sum(losses[-3:]) < 0.8 * sum(losses[:3])
    parses = task.parse(model.eval(), task.examples("dev")[:40])
    for parse in parses:
        assert tree_problem(parse.heads) is None
        assert [name == "root" for name in parse.relations] == [head == 0 for head in parse.heads]


@pytest.mark.parametrize("loss", ["sparsemap", "margin-sparsemap", "crf"])
def test_a_temperature_divides_the_scores_of_sparsemap_alone(loss):
    torch.manual_seed(0)
    tasks = {t: ParserTask.prepare(ParserSettings(loss=loss, temperature=t, **QUICK)) for t in (1.0, 4.0)}
    model = tasks[1.0].model().eval()
    learn(tasks[1.0], model, 2)
    examples = tasks[1.0].examples("dev")[:6]
    batch = tasks[1.0].collate(examples)
    with torch.no_grad():
        total = tasks[4.0].loss(model, batch).total
        arcs = tasks[4.0].parse(model, examples, ParserPrediction(probabilities=True))
        for weight in (model.arc.weight, model.arc.head_weight):
            weight.mul_(1.0 if loss == "crf" else 0.25)
        scores = model(batch.words, batch.pieces, batch.tags, batch.lengths, batch.heads)
        trees = arc_loss(loss, scores.arcs, batch.heads, batch.lengths)
        rest = tasks[1.0].loss(model, batch).total - trees
        torch.testing.assert_close(total, (1 if loss == "crf" else 4) * trees + rest)
        for found, same in zip(arcs, tasks[1.0].parse(model, examples, ParserPrediction(probabilities=True))):
            assert found.heads == same.heads
            torch.testing.assert_close(found.arcs, same.arcs, atol=1e-5, rtol=1e-4)


def test_checkpoints_from_before_the_temperature_have_none():
    values = to_dict(ParserSettings(loss="sparsemap"))
    del values["temperature"]
    assert from_dict(ParserSettings, values).temperature == 1.0
    assert ParserSettings().temperature > 1


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A parser that has learned the small grammar, with SparseMAP."""
    path = tmp_path_factory.mktemp("runs") / "parser"
    settings = ParserSettings(loss="sparsemap", **{**QUICK, "sentences": 400, "hidden_size": 64})
    training = TrainingSettings(epochs=5, batch_size=16, learning_rate=8e-3, warmup=20, threads=1)
    torch.set_num_threads(1)
    train(ParserTask.prepare(settings), training, RunDirectory(path), progress=Silent())
    return path


def test_a_trained_parser_knows_where_it_cannot_know(run):
    parser = Parser.load(run)
    scores = evaluate(parser.task, parser.model, parser.task.examples("test"))
    assert scores["uas"] > 90 and scores["las"] > 90 and scores["trees"] >= 1
    assert scores["one_tree"] > 25
    clear, unclear = parser.predict(
        ["she saw the man with the hat .", ["she", "saw", "the", "man", "with", "the", "telescope", "."]],
        probabilities=True,
        trees=True,
    )
    assert clear.heads == (2, 0, 4, 2, 7, 7, 4, 2)
    assert unclear.words[-2] == "telescope"
    for parse in (clear, unclear):
        torch.testing.assert_close(parse.arcs[:, 1:].sum(0), torch.ones(8))
        assert sum(tree.probability for tree in parse.trees) == pytest.approx(1, abs=1e-5)
        assert all(tree_problem(tree.heads) is None for tree in parse.trees)
        by_hand = torch.zeros(9, 9)
        for tree in parse.trees:
            for word, head in enumerate(tree.heads, start=1):
                by_hand[head, word] += tree.probability
        torch.testing.assert_close(by_hand, parse.arcs, atol=1e-5, rtol=0)


def test_predictions_do_not_depend_on_the_batch(run):
    parser = Parser.load(run)
    sentences = [list(each.forms) for each in parser.task.examples("dev")[:12]]
    together = parser.predict(sentences, probabilities=True)
    for words, parse in zip(sentences, together):
        (alone,) = parser.predict([words], probabilities=True)
        assert alone.heads == parse.heads and alone.relations == parse.relations
        torch.testing.assert_close(alone.arcs, parse.arcs, atol=1e-3, rtol=0)


TEXT = (
    "# sent_id = 1\r\n1-2\tgonna\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No\r\n1\tshe\t_\tX\tY\tB=1|A=2\t_\t_\t2:x\t_\r\n"
    "2\tleft\t_\t_\t_\t_\t_\t_\t_\t_\r\n2.1\tghost\t_\t_\t_\t_\t_\t_\t_\t_\r\n\r\n\n"
    "# last\n1\tgo\t_\t_\t_\t_\t_\t_\t_\t_\n\n"
)


@pytest.mark.parametrize("packed", [False, True])
def test_the_command_changes_heads_and_relations_alone(run, tmp_path, packed):
    source = tmp_path / ("in.conllu.gz" if packed else "in.conllu")
    source.write_bytes(gzip.compress(TEXT.encode()) if packed else TEXT.encode())
    assert main(["predict", str(run), "--input", str(source), "--out", str(tmp_path / "out"), "--threads", "1"]) == 0
    written = (tmp_path / "out").read_bytes().decode()
    before, after = TEXT.split("\n"), written.split("\n")
    assert len(before) == len(after)
    for old, new in zip(before, after):
        old_cells, new_cells = old.split("\t"), new.split("\t")
        if len(old_cells) == 10 and old_cells[0].isdecimal():
            assert new_cells[6].isdecimal() and new_cells[7] != "_"
            new_cells[6:8] = ["_", "_"]
        assert old_cells == new_cells
    assert next(parse_conllu(written, "again", check_trees=False)).forms == ("she", "left")


def test_lists_of_trees_in_both_formats(run, tmp_path, capsys):
    (tmp_path / "in.txt").write_text("she saw the man with the telescope .\n\nBo slept today .\n")
    command = ["predict", str(run), "--input", str(tmp_path / "in.txt"), "--threads", "1"]
    assert main([*command, "--trees", "--probabilities"]) == 0
    copies = list(parse_conllu(capsys.readouterr().out, "out"))
    assert all("HeadProbability=" in each.lines[each.places[0]] for each in copies)
    assert main([*command, "--trees", "--probabilities", "--output-format", "jsonl"]) == 0
    objects = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(objects) == 2 and sum(len(each["trees"]) for each in objects) == len(copies)
    assert [tuple(tree["heads"]) for each in objects for tree in each["trees"]] == [each.heads for each in copies]
    assert sum(objects[0]["head_probabilities"][6].values()) == pytest.approx(1, abs=1e-3)
    assert main([*command, "--k-best", "3", "--decoding", "projective", "--output-format", "jsonl"]) == 0
    ranked = [json.loads(line)["trees"] for line in capsys.readouterr().out.splitlines()]
    assert all(len(trees) == 3 for trees in ranked)
    assert all(trees[0]["score"] >= trees[1]["score"] >= trees[2]["score"] for trees in ranked)


@pytest.mark.parametrize(
    ("options", "content", "says"),
    [
        (["--k-best", "2"], "a b\n", "known for projective trees only"),
        (["--k-best", "2", "--trees"], "a b\n", "k_best must be 0 together with --trees"),
        (["--ranked"], "a b\n", "without --ranked"),
        ([], "1\ta\t_\t_\t_\t_\t_\t_\t_\t_\n2\tb\n", "input, line 2: expected 10 columns separated by tabs, got 2"),
        ([], "a " * 1_000_000, "expected at most"),
        ([], "a " * 300_000, "input, line 1: expected at most 2000 words in a sentence, got 300000"),
    ],
)
def test_wrong_input_is_one_sentence_and_writes_nothing(run, tmp_path, capsys, options, content, says):
    (tmp_path / "in.txt").write_text(content)
    out = tmp_path / "out"
    assert main(["predict", str(run), "--input", str(tmp_path / "in.txt"), "--out", str(out), *options]) == 2
    message = capsys.readouterr().err.strip()
    assert says in message and "\n" not in message and not out.exists()


def test_no_input_gives_no_output(run, tmp_path, capsys):
    (tmp_path / "in.txt").write_text("")
    assert main(["predict", str(run), "--input", str(tmp_path / "in.txt")]) == 0
    assert capsys.readouterr().out == ""


def test_evaluate_prints_one_object(run, capsys):
    assert main(["evaluate", str(run), "--json", "--threads", "1"]) == 0
    scores = json.loads(capsys.readouterr().out)
    for name in ("uas", "las", "uas_without_punctuation", "exact_trees", "trees", "one_tree", "examples_per_second"):
        assert scores[name] >= 0
    assert main(["evaluate", str(run), "--json", "--decoding", "projective", "--threads", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["uas"] != scores["uas"]


def test_projective_decoding_never_crosses(run):
    found = load(run)
    projective = ParserTask.restore(replace(found.task.settings, decoding="projective"), found.task.assets())
    examples = found.task.examples("test")
    free = [is_projective(parse.heads) for parse in found.task.parse(found.model, examples)]
    assert not all(free)  # one sentence in twelve has crossing arcs
    assert all(is_projective(parse.heads) for parse in projective.parse(found.model, examples))


def test_pictures(run, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    out = tmp_path / "arcs.png"
    assert main(["attend", str(run), "she saw the man with the telescope .", "--out", str(out)]) == 0
    assert out.stat().st_size > 5000
    (attention,) = load(run).task.attend(load(run).model, [sentence_of_words(["she", "slept"])])
    assert attention.columns == ["ROOT", "she", "slept"] and attention.weights.shape == (2, 3)


def test_a_relation_that_training_never_showed(run, tmp_path):
    """It counts as wrong, and nothing fails."""
    parser = Parser.load(run)
    text = "1\tshe\t_\t_\t_\t_\t2\tnsubj\t_\t_\n2\tleft\t_\t_\t_\t_\t0\tweird:one\t_\t_\n\n"
    sentences = list(parse_conllu(text, "x"))
    assert parser.task.collate(sentences).relations[0, 1] == -100
    assert evaluate(parser.task, parser.model, sentences)["las"] <= 50
    assert parser.task.loss(parser.model, parser.task.collate(sentences)).total.isfinite()


def test_the_python_interface_says_what_is_wrong(run, tmp_path):
    parser = Parser.load(run)
    with pytest.raises(TypeError, match="put it into a list"):
        parser.predict("she left .")
    for wrong in ("", ["a\tb"], [""]):
        with pytest.raises(ValueError, match="sentence 0 must have words without tabs"):
            parser.predict([wrong])
    with pytest.raises(ValueError, match="at most 2000 words"):
        parser.predict([["a"] * 3000])
    with pytest.raises(DataError, match="train with another --loss"):
        margin = ParserTask.prepare(ParserSettings(loss="margin", **QUICK))
        margin.parse(margin.model().eval(), margin.examples("dev")[:1], ParserPrediction(probabilities=True))
    assert parser.predict([]) == []
    (tmp_path / "a.conllu").write_text(TEXT)
    assert [each.forms for each in Parser.read(tmp_path / "a.conllu")] == [("she", "left"), ("go",)]
    assert len(Parser.read(TEXT)) == 2
    parsed = parser.predict(Parser.read(TEXT))
    assert "".join(parse.to_conllu() for parse in parsed).count("ghost") == 1


def test_another_task_is_no_parser(tmp_path):
    from omegamax.recipes.dates import Dates
    from omegamax.recipes.settings import DatesSettings

    pytest.importorskip("babel")
    settings = DatesSettings(examples=100, locales="en", hidden_size=4, embedding_size=4)
    train(Dates.prepare(settings), TrainingSettings(epochs=0), RunDirectory(tmp_path / "d"), progress=Silent())
    with pytest.raises(CheckpointError, match="is a run of dates, not of a parser"):
        Parser.load(tmp_path / "d")


def test_a_resumed_run_and_restored_tags(tmp_path):
    settings = ParserSettings(
        tags="upos,xpos,feats", decoding="projective", characters="cnn", **{**QUICK, "sentences": 40}
    )
    path = tmp_path / "run"
    training = TrainingSettings(epochs=1, batch_size=8, threads=1)
    train(ParserTask.prepare(settings), training, RunDirectory(path), progress=Silent())
    found = load(path)
    assert found.task.settings.tag_kinds == ("upos", "xpos", "feats")
    lines = predict(found.task, found.model, found.task.examples("test")[:5])
    again = load(path)
    assert lines == predict(again.task, again.model, again.task.examples("test")[:5])
    with pytest.raises(ValueError, match="tags must be a list of upos, xpos, feats"):
        ParserSettings(tags="upos,lemma")


def bank(path, **texts):
    for split in ("train", "dev", "test"):
        text = texts.get(split, "".join(each.text for each in generate_treebank(30, split)))
        (path / f"{split}.conllu").write_text(text)
    return str(path)


BROKEN = {
    "cycle": ("2\tb\t_\t_\t_\t_\t1\tx\t_\t_", "form a cycle"),
    "two roots": ("2\tb\t_\t_\t_\t_\t0\tx\t_\t_", "expected one root, got 2"),
    "no tree": ("2\tb\t_\t_\t_\t_\t_\t_\t_\t_", "words without a head"),
    "columns": ("2\tb", "expected 10 columns"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_training_refuses_broken_trees_with_file_and_line(tmp_path, capsys, kind):
    row, says = BROKEN[kind]
    first = "1\ta\t_\t_\t_\t_\t2\tx\t_\t_" if kind == "cycle" else "1\ta\t_\t_\t_\t_\t0\tx\t_\t_"
    data = bank(tmp_path, dev=f"# one\n{first}\n{row}\n\n")
    out = tmp_path / "run"
    assert main(["train", "parser", "--data", data, "--out", str(out)]) == 2
    message = capsys.readouterr().err.strip()
    assert "dev.conllu, line" in message and says in message and "\n" not in message
    assert not out.exists()


def test_an_empty_file_and_only_long_sentences(tmp_path):
    with pytest.raises(ValueError, match=r"test.conllu: expected sentences, got an empty file"):
        ParserTask.prepare(ParserSettings(data=bank(tmp_path, test="")))
    with pytest.raises(ValueError, match="no training sentence has at most 2 words; raise --max-length"):
        ParserTask.prepare(ParserSettings(data=bank(tmp_path), max_length=2))


def test_check_data_counts_and_warns(tmp_path, capsys):
    shared = generate_treebank(3, "train")
    wrong = (
        "1\ta\t_\t_\t_\t_\t2\tx\t_\t_\n2\tb\t_\t_\t_\t_\t1\tx\t_\t_\n\n"
        "1\ta\t_\t_\t_\t_\t0\tx\t_\t_\n2\tb\t_\t_\t_\t_\t0\tx\t_\t_\n\n"
        "1\ta\t_\t_\t_\t_\t0\n\n"
        "1\ta\t_\t_\t_\t_\t_\t_\t_\t_\n\n"
    )
    data = bank(tmp_path, dev=wrong + "".join(each.text for each in shared))
    report = check_parser_data(ParserSettings(data=data))
    dev = report.counts["dev"]
    assert dev["sentences"] == 6 and dev["sentences with a cycle"] == 1 and dev["sentences with two roots"] == 1
    assert dev["sentences without heads"] == 1 and report.counts["train"]["sentences with a cycle"] == 0
    said = "\n".join(report.warnings)
    assert "dev.conllu, line 7: expected 10 columns" in said
    assert "training has no relation '_' or 'x'" in said
    assert "3 different sentences are in both train and dev" in said
    assert main(["check-data", "parser", data, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["dev"]["sentences"] == 6
    assert main(["check-data", "parser", data]) == 0
    assert "two roots" in capsys.readouterr().out
