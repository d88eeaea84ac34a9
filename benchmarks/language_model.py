"""A Transformer language model with softmax (PyTorch's fused attention), sparsemax and entmax15: whole training steps.

The models have the same shape, seed and batches, and take their steps in turns in one process, so that a busy moment
hits all of them. A step is what `omegamax train language` does: forward, backward, clipping, AdamW. The text is
generated unless --data names a file; numbers of the first steps are shown apart, since attention gets sparser while a
model learns.

    python benchmarks/language_model.py --data corpus/en-de --column 1

--picture draws the losses of all steps. --tensors saves queries, keys and values of the trained models' heads for one
block of held-out text, which `sparse_attention.py --trained` times.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from itertools import pairwise
from pathlib import Path

import timing
import torch
from torch.profiler import ProfilerActivity, profile

from omegamax.data.batches import epoch_batches
from omegamax.recipes.language import Language
from omegamax.recipes.settings import LanguageSettings
from omegamax.training import random_state
from omegamax.training.optimization import adamw, learning_rate, take_step
from omegamax.training.prediction import evaluate
from omegamax.training.processes import SINGLE_PROCESS
from omegamax.training.settings import TrainingSettings

FUSED = "aten::scaled_dot_product_attention"
N_PARTS = 4  # of the steps, for the table of speeds over time
WARM_UP = 2  # steps that are not timed


def settings_of(options: argparse.Namespace, attention: str) -> LanguageSettings:
    return LanguageSettings(
        attention=attention,
        data=options.data,
        column=options.column,
        level=options.level,
        max_tokens=options.max_tokens,
        block_length=options.length,
        size=options.size,
        n_layers=options.layers,
        n_heads=options.size // 64,
        hidden_size=4 * options.size,
        stories=40_000,
    )


class Contestant:
    """A model, its optimizer, and what its steps took."""

    def __init__(self, task: Language, training: TrainingSettings) -> None:
        self.task, self.training = task, training
        random_state.seed_all(training.seed, 0)
        self.model = task.model().train()
        self.optimizer = adamw(self.model, training)
        self.seconds: list[float] = []
        self.losses: list[float] = []

    def step(self, batch: list[int], number: int, n_steps: int) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.training, step=number, n_steps=n_steps)
        before = timing.clock()
        found = take_step(
            self.task,
            self.model,
            self.optimizer,
            self.task.examples("train"),
            batch,
            settings=self.training,
            processes=SINGLE_PROCESS,
            stop_requested=False,
        )
        self.seconds.append(timing.clock() - before)
        self.losses.append(found.loss / found.n_items)


def uses_fused_attention(contestant: Contestant) -> bool:
    batch = contestant.task.collate(contestant.task.examples("train")[:1])
    with torch.no_grad(), profile(activities=[ProfilerActivity.CPU]) as found:
        contestant.task.loss(contestant.model, batch)
    return any(event.key == FUSED for event in found.key_averages())


def shares(contestant: Contestant, batch: list[int], n_steps: int) -> dict[str, float]:
    """The share of a step's processor time in attention, matrix products, the rest; by one profiled step."""
    seconds, losses = contestant.seconds[:], contestant.losses[:]
    with profile(activities=[ProfilerActivity.CPU]) as found:
        contestant.step(batch, n_steps, n_steps + 1)
    contestant.seconds, contestant.losses = seconds, losses
    kinds = {"attention": 0.0, "matrix products": 0.0, "the rest": 0.0}
    for event in found.key_averages():
        name = event.key
        if "scaled_dot_product" in name or "SparseAttention" in name:
            kinds["attention"] += event.self_cpu_time_total
        elif name in ("aten::mm", "aten::addmm", "aten::bmm"):
            kinds["matrix products"] += event.self_cpu_time_total
        else:
            kinds["the rest"] += event.self_cpu_time_total
    total = sum(kinds.values())
    return {kind: each / total for kind, each in kinds.items()}


@torch.no_grad()
def heads_of(contestant: Contestant) -> list[torch.Tensor]:
    """Queries, keys and values of all layers' heads, (1, layers · heads, N, size), on the first block of dev."""
    found: list[list[torch.Tensor]] = []
    layers = [layer.self_attn for layer in contestant.model.stack.layers]
    for layer in layers:

        def attend(*given, layer=layer, **named):
            found.append([x.unflatten(-1, (layer.num_heads, -1)).transpose(1, 2) for x in given[:3]])
            return type(layer)._attend(layer, *given, **named)

        layer._attend = attend
    contestant.model.eval()(contestant.task.collate(contestant.task.examples("dev")[:1]).tokens)
    contestant.model.train()
    for layer in layers:
        del layer._attend
    return [torch.cat(each, 1).contiguous() for each in zip(*found)]


def draw_losses(contestants: dict[str, Contestant], path: Path) -> None:
    """Training losses side by side, each the mean of 10 steps."""
    from omegamax.plots.learning import learning_curves

    curves = {
        name: [statistics.fmean(each.losses[at : at + 10]) for at in range(0, len(each.losses) - 9, 10)]
        for name, each in contestants.items()
    }
    learning_curves(curves, metric="training loss", unit="ten steps").savefig(path)


def measure(options: argparse.Namespace) -> list[timing.Section]:
    training = TrainingSettings(
        batch_size=options.batch, learning_rate=options.learning_rate, warmup=20, epochs=1, seed=options.seed
    )
    first = Language.prepare(settings_of(options, options.attention[0]))
    contestants = {}
    for name in options.attention:  # the text is read and encoded once
        task = Language(settings_of(options, name), first.tokens)
        task._blocks = first._blocks
        first.examples("train"), first.examples("dev")
        contestants[name] = Contestant(task, training)
    if "softmax" in contestants and not uses_fused_attention(contestants["softmax"]):
        raise SystemExit(
            "language_model: softmax must use F.scaled_dot_product_attention, and does not: not comparable"
        )
    n_blocks = len(first.examples("train"))
    batches = epoch_batches([0] * n_blocks, batch_size=options.batch, seed=options.seed, epoch=0)
    n_steps = min(options.steps, len(batches))
    for number, batch in enumerate(batches[:n_steps]):
        for contestant in contestants.values():
            contestant.step(batch, number, n_steps)
        if number % 10 == 9:
            now = {name: f"{each.losses[-1]:.3f} {each.seconds[-1]:.2f} s" for name, each in contestants.items()}
            print(number + 1, now, file=sys.stderr, flush=True)
    if options.picture is not None:
        draw_losses(contestants, options.picture)
    if options.tensors is not None:
        torch.save({name: heads_of(each) for name, each in contestants.items()}, options.tensors)
    return sections(options, contestants, batches[0], n_steps)


def sections(
    options: argparse.Namespace, contestants: dict[str, Contestant], batch: list[int], n_steps: int
) -> list[timing.Section]:
    n_tokens = options.batch * options.length
    reference = next(iter(contestants.values())).seconds
    speeds, parts, curves, profiles = [], [], [], []
    for name, each in contestants.items():
        timed = each.seconds[WARM_UP:]
        ratios = [one / other for one, other in zip(reference[WARM_UP:], timed)]
        dev = each.task.examples("dev")[:16]
        found = evaluate(each.task, each.model, dev, batch_size=4)
        row = [name, round(n_tokens / statistics.median(timed)), statistics.median(ratios)]
        speeds.append([*row, f"{found['loss']:.3f}", f"{100 * found['zeros']:.1f} %"])
        cuts = [round(place * len(ratios) / N_PARTS) for place in range(N_PARTS + 1)]
        parts.append([name, *(statistics.median(ratios[a:b] or [float("nan")]) for a, b in pairwise(cuts))])
        marks = [round((place + 1) * n_steps / 8) for place in range(8)]
        curves.append([name, *(f"{statistics.fmean(each.losses[max(0, m - 10) : m]):.3f}" for m in marks)])
        profiles.append([name, *(f"{100 * share:.0f} %" for share in shares(each, batch, n_steps).values())])
    vocabulary = len(next(iter(contestants.values())).task.tokens.vocabulary)
    shape = (
        f"N = {options.length}, batch {options.batch}, {options.layers} layers of size {options.size}, heads of 64, "
        f"{vocabulary} tokens ({options.level}), {'generated text' if options.data is None else 'text of a file'}"
    )
    quarters = [f"quarter {number + 1}" for number in range(N_PARTS)]
    first = next(iter(contestants))
    return [
        (
            f"Whole training steps, median of {n_steps - WARM_UP} in turns: {shape}",
            ["attention", "tokens/s", f"× {first}", "dev loss", "zeros"],
            speeds,
        ),
        (f"Speed relative to {first} over the steps", ["attention", *quarters], parts),
        (
            "Training loss, mean of 10 steps up to step",
            ["attention", *(str(round((place + 1) * n_steps / 8)) for place in range(8))],
            curves,
        ),
        (
            "Share of a step, by a profile at the end",
            ["attention", "attention", "matrix products", "the rest"],
            profiles,
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="text, as for omegamax train language (default: generated)")
    parser.add_argument("--column", type=int, default=0)
    parser.add_argument("--level", default="subword", choices=["char", "word", "subword"])
    parser.add_argument("--max-tokens", type=int, default=2048)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--size", type=int, default=256, help="a multiple of 64")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--attention", nargs="+", default=["softmax", "sparsemax", "entmax15"])
    parser.add_argument("--threads", type=int, default=2, help="threads for torch and omegamax (default %(default)s)")
    parser.add_argument("--seconds", type=float, help="ignored: --steps says how long it takes")
    parser.add_argument("--save-as", default="language_model", help="name of the results (default %(default)s)")
    parser.add_argument("--picture", type=Path, help="of the losses, for example docs/images/language_losses.png")
    parser.add_argument("--tensors", type=Path, help="a file for queries, keys and values of the trained models")
    parser.add_argument("--clock", choices=["perf_counter", "process_time"], default="perf_counter")
    options = parser.parse_args()
    timing.clock = getattr(time, options.clock)
    torch.set_num_threads(options.threads)
    timing.write(options.save_as, "Language model", measure(options))


if __name__ == "__main__":
    main()
