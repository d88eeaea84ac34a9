"""Networks with a memory: losses that fall, batches that change nothing, metrics by hand, traces, a whole run."""

import math

import pytest
import torch

pytest.importorskip("safetensors")

from omegamax.models.memory_trace import trace_memory
from omegamax.recipes import load
from omegamax.recipes.memory import MemoryTask
from omegamax.recipes.settings import MEMORY_TASKS, MemorySettings
from omegamax.training.loop import train
from omegamax.training.prediction import evaluate
from omegamax.training.progress import Silent
from omegamax.training.runs import RunDirectory
from omegamax.training.settings import TrainingSettings

SMALL = {
    "sequences": 40,
    "bits": 3,
    "max_length": 2,
    "test_length": "2,3",
    "n_slots": 6,
    "width": 5,
    "hidden_size": 16,
    "max_times": 2,
    "test_times": 2,
}
VARIANTS = [
    {"model": "ntm"},
    {"model": "ntm", "attention": "sparsemax", "n_reads": 2},
    {"model": "dnc", "attention": "entmax15", "task": "recall"},
    {"model": "dnc", "task": "sort", "n_reads": 2},
    {"model": "lstm", "task": "repeat-copy"},
]


def memory(**options):
    return MemoryTask.prepare(MemorySettings(**{**SMALL, **options}))


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_the_loss_falls(options):
    torch.manual_seed(0)
    task = memory(**options)
    model, examples, losses = task.model(), task.examples("train")[:8], []
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    for _ in range(25):
        total, n_items = task.loss(model, task.collate(examples))
        losses.append(total.item() / n_items)
        optimizer.zero_grad()
        (total / n_items).backward()
        optimizer.step()
    assert losses[0] == pytest.approx(math.log(2), rel=0.1)  # of a bit that nothing is known of
    assert losses[-1] < 0.85 * losses[0]


@torch.no_grad()
@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_a_sequence_does_not_depend_on_its_batch(options):
    torch.manual_seed(0)
    task = memory(**options)
    model, examples = task.model().eval(), task.examples("test")[95:105]  # of two lengths
    alone = [task.loss(model, task.collate([example])) for example in examples]
    together = task.loss(model, task.collate(examples))
    torch.testing.assert_close(together.total, sum(each.total for each in alone), rtol=1e-5, atol=1e-5)
    assert together.n_items == sum(each.n_items for each in alone)
    assert task.predict(model, examples) == [task.predict(model, [example])[0] for example in examples]


def test_metrics_by_hand():
    task = memory()
    examples = [each._replace(length=n) for each, n in zip(task.read(["010 111", "000 110", "101"]), (2, 2, 1))]
    scores = task.score(examples, ['010 101\t{"cost": 3}', '000 110\t{"cost": 1}', '010\t{"cost": 8}'])
    assert scores["bit_accuracy"] == pytest.approx((5 / 6 + 1 + 0) / 3) and scores["cost"] == 4
    assert scores["sequence_accuracy"] == pytest.approx(1 / 3) and scores["sequence_accuracy_2"] == 0.5
    assert scores["bit_accuracy_2"] == pytest.approx(11 / 12) and scores["cost_1"] == 8
    assert scores["log_likelihood"] == pytest.approx(-(3 + 1 + 8) / 15)  # of 15 bits


def test_of_two_models_without_mistakes_the_surer_one_is_the_best():
    task = memory()
    examples = task.read(["010 111"])
    unsure, sure = (task.score(examples, [f'010 111\t{{"cost": {cost}}}']) for cost in (2.5, 0.1))
    assert unsure["bit_accuracy"] == sure["bit_accuracy"] == 1 and sure[task.metric] > unsure[task.metric]


@torch.no_grad()
def test_the_cost_is_that_of_the_model():
    torch.manual_seed(1)
    task = memory(task="repeat-copy", model="dnc")
    model, examples = task.model().eval(), task.examples("dev")[:5]
    nats = 0.0
    for example in examples:
        inputs, answer = example.problem
        outputs = model(torch.from_numpy(inputs).unsqueeze(0)).outputs[0, -len(answer) :]
        right = torch.from_numpy(answer)
        nats -= (right * outputs.sigmoid().log() + (1 - right) * (-outputs).sigmoid().log()).sum().item()
    assert evaluate(task, model, examples, batch_size=2)["cost"] == pytest.approx(nats / math.log(2) / 5, rel=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("options", [VARIANTS[1], VARIANTS[2], VARIANTS[3]], ids=str)
def test_traces_and_maps(options):
    torch.manual_seed(0)
    task = memory(**options)
    model, example = task.model().eval(), task.examples("test")[-1]
    batch = task.collate([example])
    trace = trace_memory(model, batch.inputs)
    torch.testing.assert_close(trace.outputs, model(batch.inputs).outputs)
    (found,) = task.attend(model, [example])
    n_steps, n_reads = task.length(example), task.settings.n_reads
    assert found.weights.shape == ((1 + n_reads) * n_steps, 6) == (len(found.rows), len(found.columns))
    torch.testing.assert_close(found.weights[:n_steps], trace.writes[0, :, 0])
    torch.testing.assert_close(found.weights[-n_steps:], trace.reads[0, :, -1])
    said = [row.partition("→")[2] for row in found.rows if row.startswith("write →")]
    assert " ".join(said) == task.predict(model, [example])[0]
    if options["model"] == "ntm":
        torch.testing.assert_close(found.weights.sum(-1), torch.ones(len(found.rows)))


def test_lengths_of_the_splits():
    task = memory(test_length="2,5", task="recall", min_length=1, bits=4)
    assert {each.length for each in task.examples("train")} == {2}  # recall needs two items
    assert [sum(each.length == n for each in task.examples("test")) for n in (2, 5)] == [100, 100]
    assert task.examples("train")[:5] != task.examples("dev")[:5]


def test_wrong_settings():
    with pytest.raises(ValueError, match="test_length must be numbers up to 1000"):
        MemorySettings(test_length="5,x")
    with pytest.raises(ValueError, match="min_length must be at most max_length"):
        MemorySettings(min_length=6, max_length=5)
    with pytest.raises(ValueError, match="bits must be enough for 20 different items"):
        MemorySettings(task="recall", bits=4)
    with pytest.raises(ValueError, match="2 or more items for recall"):
        MemorySettings(task="recall", test_length="1,5")
    for task in MEMORY_TASKS:
        assert MemorySettings(task=task).variant == f"{task}-ntm-softmax"


def test_a_run_and_its_pictures(tmp_path):
    task = memory(attention="sparsemax")
    settings = TrainingSettings(epochs=1, batch_size=16, learning_rate=1e-2, threads=1)
    train(task, settings, RunDirectory(tmp_path / "run"), progress=Silent())
    found = load(tmp_path / "run")
    examples = found.task.read(["010 111 000"])
    with torch.no_grad():
        (line,) = found.task.predict(found.model, examples)
        (figure,) = found.task.draw(found.model, examples)
        assert len(line.split()) == 3 and len(figure.axes) >= 2
        assert "sequence_accuracy_3" in evaluate(found.task, found.model, found.task.examples("test"))
    plain = memory(model="lstm")
    assert plain.attend(plain.model(), examples) == [] == plain.draw(plain.model(), examples)
