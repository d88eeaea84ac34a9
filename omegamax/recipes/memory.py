"""Learns to copy, to repeat, to recall and to sort with a memory that is read and written by attention.

    omegamax train memory --task copy --model ntm --attention sparsemax
    omegamax train memory --task recall --model dnc --test-length 5,10,20
    echo '011010 101101 000111' | omegamax predict runs/memory-copy-ntm-sparsemax

These are the tasks of neural Turing machines (Graves, Wayne & Danihelka, 2014). Short sequences are learned, longer
ones are tested: a network that has learned the algorithm, and not the sequences, goes on. Its heads address slots with
any normalizer; a sparse one can give a slot the weight zero, and leaves it alone then.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from omegamax.attention import DNCMemory, MemoryController, TuringMemory
from omegamax.data.memory_tasks import N_EXTRA, BitProblem, draw_line, read_line, write_vectors
from omegamax.models.memory_trace import trace_memory
from omegamax.models.plain_controller import PlainController
from omegamax.recipes.normalizers import make_normalizer
from omegamax.recipes.settings import MemorySettings
from omegamax.training.task import AttentionMap, Loss, Task

_MIN_SEQUENCES = 100  # of dev, and of each test length
_SPLITS = ("train", "dev", "test")


class BitExample(NamedTuple):
    """A line, what it means, and how many vectors or items it was drawn with."""

    line: str
    problem: BitProblem
    length: int
    target: str  # the answer, as `predict` writes it


class BitBatch(NamedTuple):
    """Inputs of several problems, and what has to be said at some of their steps."""

    inputs: Tensor  # (batch, steps, bits + 2)
    targets: Tensor  # (batch, steps, outputs), zeros and ones
    answered: Tensor  # (batch, steps), True at the steps of the answer


class BitScore(NamedTuple):
    """How good the answer to one problem is."""

    bit_accuracy: float
    sequence_accuracy: float
    cost: float  # bits
    n_bits: int


class MemoryTask(Task):
    """Learns an algorithm on sequences of bits."""

    name: ClassVar[str] = "memory"
    metric: ClassVar[str] = "log_likelihood"  # bits are soon all right, and it still rises
    settings_type: ClassVar[type] = MemorySettings
    settings: MemorySettings

    def __init__(self, settings: MemorySettings) -> None:
        self._normalizer = make_normalizer(settings)
        self.settings = settings
        self._splits: dict[str, list[BitExample]] = {}

    @classmethod
    def prepare(cls, settings: MemorySettings) -> MemoryTask:
        """Makes the task; sequences are drawn when they are asked for."""
        return cls(settings)

    @classmethod
    def restore(cls, settings: MemorySettings, assets: Mapping[str, Any]) -> MemoryTask:
        """Makes the task of a checkpoint."""
        return cls(settings)

    def assets(self) -> dict[str, Any]:
        return {}

    def examples(self, split: str) -> Sequence[BitExample]:
        """Returns the sequences of a split. Those of test have the lengths of `test_length`, as many of each."""
        if split not in self._splits:
            self._splits[split] = self._draw(split)
        return self._splits[split]

    def _draw(self, split: str) -> list[BitExample]:
        settings, found = self.settings, []
        draw = np.random.default_rng([abs(settings.data_seed), settings.data_seed < 0, _SPLITS.index(split)])
        count = settings.sequences if split == "train" else max(_MIN_SEQUENCES, settings.sequences // 100)
        if split == "test":
            lengths = np.repeat(settings.test_lengths, count)
            times = np.full(len(lengths), settings.test_times)
        else:
            lengths = draw.integers(settings.shortest, settings.max_length + 1, size=count)
            times = draw.integers(1, settings.max_times + 1, size=count)
        for length, often in zip(lengths.tolist(), times.tolist()):
            line = draw_line(
                settings.task, length, draw, bits=settings.bits, times=often, item_length=settings.item_length
            )
            found.append(self._example(line, length))
        return found

    def read(self, lines: Iterable[str]) -> list[BitExample]:
        """Makes an example of each line, which is written as the task of the settings has it."""
        return [self._example(line, 0) for line in lines]

    def _example(self, line: str, length: int) -> BitExample:
        problem = read_line(self.settings.task, line, bits=self.settings.bits)
        return BitExample(line, problem, length, write_vectors(problem.answer))

    def length(self, example: BitExample) -> int:
        """Returns the number of steps."""
        return len(example.problem.inputs)

    def fingerprint(self, example: BitExample) -> str:
        """Returns the line, which the answer follows from."""
        return example.line

    def model(self) -> nn.Module:
        """Returns the network that the settings name."""
        settings = self.settings
        input_size = settings.bits + N_EXTRA
        output_size = settings.bits + (settings.task == "repeat-copy")
        if settings.model == "lstm":
            return PlainController(input_size, output_size, hidden_size=settings.hidden_size)
        sizes = {"n_slots": settings.n_slots, "width": settings.width, "n_reads": settings.n_reads}
        if settings.model == "ntm":
            memory: Any = TuringMemory(
                settings.hidden_size, **sizes, normalizer=self._normalizer, shift_normalizer=self._normalizer
            )
        else:
            memory = DNCMemory(settings.hidden_size, **sizes, normalizer=self._normalizer)
        return MemoryController(input_size, output_size, memory)

    def collate(self, examples: Sequence[BitExample]) -> BitBatch:
        problems = [example.problem for example in examples]
        n_steps = max(len(each.inputs) for each in problems)
        inputs = np.zeros((len(problems), n_steps, problems[0].inputs.shape[1]), np.float32)
        targets = np.zeros((len(problems), n_steps, problems[0].answer.shape[1]), np.float32)
        answered = np.zeros((len(problems), n_steps), bool)
        for item, (shown, answer) in enumerate(problems):  # padding comes last, where nothing depends on it
            inputs[item, : len(shown)] = shown
            targets[item, len(shown) - len(answer) : len(shown)] = answer
            answered[item, len(shown) - len(answer) : len(shown)] = True
        return BitBatch(torch.from_numpy(inputs), torch.from_numpy(targets), torch.from_numpy(answered))

    def loss(self, model: nn.Module, batch: BitBatch) -> Loss:
        """Computes the negative log-likelihood of the bits of the answers, in nats."""
        costs = self._costs(model(batch.inputs).outputs, batch)
        return Loss(costs.sum(), int(batch.answered.sum()) * batch.targets.shape[-1])

    def _costs(self, outputs: Tensor, batch: BitBatch) -> Tensor:
        """Returns the cost of each bit (batch, steps, outputs), zero where no answer is wanted."""
        costs = nn.functional.binary_cross_entropy_with_logits(outputs, batch.targets, reduction="none")
        return torch.where(batch.answered.unsqueeze(-1), costs, 0)

    def predict(self, model: nn.Module, examples: Sequence[BitExample]) -> list[str]:
        """Returns the answer to each line: vectors with spaces between them."""
        batch = self.batch_for(model, examples)
        return _written(model(batch.inputs).outputs, batch)

    def assess(self, model: nn.Module, examples: Sequence[BitExample]) -> list[str]:
        """Returns for each line the answer, a tab, and its cost in bits as JSON."""
        batch = self.batch_for(model, examples)
        outputs = model(batch.inputs).outputs
        costs = self._costs(outputs, batch).double().sum((1, 2)) / math.log(2)
        found = zip(_written(outputs, batch), costs.tolist())
        return [f"{answer}\t{json.dumps({'cost': cost})}" for answer, cost in found]

    def score(self, examples: Sequence[BitExample], predictions: Sequence[str]) -> dict[str, float]:
        """Computes the likelihood of a bit, and the shares of right bits and sequences and the cost, also by length."""
        by_length: dict[int, list[BitScore]] = defaultdict(list)
        for example, line in zip(examples, predictions):
            answer, _, rest = line.partition("\t")
            wanted = example.target
            n_bits = max(1, len(wanted) - wanted.count(" "))
            n_wrong = sum(map(str.__ne__, answer, wanted))
            by_length[example.length].append(
                BitScore(1 - n_wrong / n_bits, answer == wanted, json.loads(rest)["cost"], n_bits)
            )
        everything = [score for some in by_length.values() for score in some]
        n_all_bits = max(1, sum(score.n_bits for score in everything))
        scores = {"log_likelihood": -sum(score.cost for score in everything) / n_all_bits, **_means(everything, "")}
        if len(by_length) > 1:
            for length, some in sorted(by_length.items()):
                scores |= _means(some, f"_{length}")
        return scores

    def attend(self, model: nn.Module, examples: Sequence[BitExample]) -> list[AttentionMap]:
        """Returns how much each step writes to each slot, and then how much it reads of each slot.

        A row is named by what the step saw, or by what it said; columns are slots.
        """
        maps = []
        for example, trace in self._traces(model, examples):
            steps = _steps(example, trace.outputs)
            kinds = {"write": trace.writes, "read": trace.reads}
            rows = [f"{kind} {step}" for kind, w in kinds.items() for _ in range(w.shape[1]) for step in steps]
            weights = torch.cat([head for each in kinds.values() for head in each.unbind(1)])  # (heads · T, slots)
            slots = [str(slot) for slot in range(weights.shape[-1])]
            maps.append(AttentionMap(rows, slots, weights, self._normalizer.always_positive))
        return maps

    def draw(self, model: nn.Module, examples: Sequence[BitExample]) -> list[Any]:
        """Returns a figure for each line: slots from top to bottom, time from left to right, writes above reads."""
        from omegamax.plots import attention_maps

        figures = []
        for example, trace in self._traces(model, examples):
            maps = {}
            for kind, weights in (("writes", trace.writes), ("reads", trace.reads)):
                for head, each in enumerate(weights.unbind(1)):
                    maps[f"{kind} {head + 1}" if weights.shape[1] > 1 else kind] = each.T
            figures.append(
                attention_maps(
                    maps,
                    [str(slot) for slot in range(trace.reads.shape[-1])],
                    _steps(example, trace.outputs),
                    exact_zeros=not self._normalizer.always_positive,
                    across=1,
                )
            )
        return figures

    def _traces(self, model: nn.Module, examples: Sequence[BitExample]) -> list[tuple[BitExample, Any]]:
        """Returns each example with what its steps say, read and write; nothing if there is no memory."""
        if not isinstance(model, MemoryController):
            return []
        trace = trace_memory(model, self.batch_for(model, examples).inputs)
        cut = [
            type(trace)(*(each[item, : self.length(one)].cpu() for each in trace)) for item, one in enumerate(examples)
        ]
        return list(zip(examples, cut))


def _means(scores: Sequence[BitScore], ending: str) -> dict[str, float]:
    names = ("bit_accuracy", "sequence_accuracy", "cost")
    return {f"{name}{ending}": sum(column) / max(1, len(scores)) for name, column in zip(names, zip(*scores))}


def _written(outputs: Tensor, batch: BitBatch) -> list[str]:
    said = (outputs > 0).float().cpu()
    return [write_vectors(row[answered].numpy()) for row, answered in zip(said, batch.answered.cpu())]


def _steps(example: BitExample, outputs: Tensor) -> list[str]:
    """Names each step by the bits that it saw, or with an arrow by those that it said; | is a mark alone."""
    shown, answer = example.problem
    bits = shown.shape[1] - N_EXTRA
    n_seen = len(shown) - len(answer)
    said = write_vectors((outputs[n_seen:] > 0).float().numpy()).split()
    seen = write_vectors(shown[:n_seen, :bits]).split()
    if "?" not in example.line:  # all tasks but recall show a mark alone before the answer
        seen[-1] = "|"
    return [*seen, *(f"→{vector}" for vector in said)]
