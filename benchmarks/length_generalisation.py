"""Length generalisation: small causal Transformers, trained on at most 64 tokens and tested on more.

Six tasks × softmax, sparsemax and entmax15 × with and without a temperature that depends on the length. Every cell is
saved by itself in the folder --out, and skipped where it is already there, so a run that was stopped goes on; the
trained model lies beside it. When all cells are there, the table and the picture are made.

    python benchmarks/length_generalisation.py --out build/length_generalisation

Positions are biases by distance (ALiBi) in half of the heads, and none in the other half, for all normalizers alike.
The length-dependent factor multiplies queries, as published, and not the biases. Softmax has the scale of
Scalable-Softmax, s log n; the others that of Adaptive-Scalable Entmax, δ + β (log n)^γ.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from timing import write
from torch import Tensor, nn

import omegamax as om
from omegamax.data.sequence_tasks import IGNORED, SEQUENCE_TASKS, SequenceTask

NORMALIZERS = {"softmax": om.Shannon(), "sparsemax": om.SquaredNorm(), "entmax15": om.Tsallis(1.5)}
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
STEPS = {"two-back": 400, "flip-flop": 400, "recall": 1000, "copy": 1200, "sort": 1500, "reverse": 2500}
QUERY_BLOCK = 512  # queries at a time in tests: softmax would need the whole matrix


@dataclass(frozen=True)
class Settings:
    """What all cells share; every task has its number of steps."""

    size: int = 64
    n_heads: int = 4
    n_layers: int = 3
    hidden_size: int = 128
    slopes: tuple[float, ...] = (1.0, 0.25, 0.0, 0.0)  # of the biases by distance
    steps: int = 0
    batch: int = 32
    longest: int = 64
    rate: float = 2e-3
    warmup: int = 100
    decay: float = 0.01
    tested_tokens: int = 32768  # examples × length of a test


class CausalLayer(nn.Module):
    """Attention and a feed-forward network, each after a norm and added to its input."""

    def __init__(self, settings: Settings, normalizer: om.SmoothMax, scale: om.attention.LengthScale | None) -> None:
        super().__init__()
        size = settings.size
        self.n_heads, self.normalizer, self.scale = settings.n_heads, normalizer, scale
        self.norms = nn.ModuleList([nn.LayerNorm(size), nn.LayerNorm(size)])
        self.project, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.network = nn.Sequential(
            nn.Linear(size, settings.hidden_size), nn.GELU(), nn.Linear(settings.hidden_size, size)
        )
        self.register_buffer("slopes", torch.tensor(settings.slopes))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.out(self._attend(self.project(self.norms[0](x))))
        return x + self.network(self.norms[1](x))

    def _attend(self, projected: Tensor) -> Tensor:
        query, key, value = projected.unflatten(-1, (3, self.n_heads, -1)).permute(2, 0, 3, 1, 4)
        n = query.shape[-2]
        if self.scale is not None:
            query = query * self.scale(torch.arange(1, n + 1).unsqueeze(-1))
        block = n if self.training else QUERY_BLOCK
        outputs = []
        for end in range(min(block, n), n + block, block):
            rows, end = slice(end - block if end > block else 0, min(end, n)), min(end, n)
            bias = om.attention.alibi(self.slopes, rows.stop - rows.start, end)
            outputs.append(
                om.sparse_attention(
                    query[..., rows, :], key[..., :end, :], value[..., :end, :], self.normalizer, causal=True, bias=bias
                )
            )
        return torch.cat(outputs, -2).transpose(1, 2).flatten(-2)


def build(settings: Settings, task: SequenceTask, normalizer: str, scaled: bool) -> nn.Sequential:
    """Embeddings, causal layers, a norm and logits."""

    def scale() -> om.attention.LengthScale | None:
        if not scaled:
            return None
        kind = om.attention.LogLength if normalizer == "softmax" else om.attention.AdaptiveLogLength
        return kind(settings.n_heads)

    layers = [CausalLayer(settings, NORMALIZERS[normalizer], scale()) for _ in range(settings.n_layers)]
    embedding = nn.Embedding(task.vocabulary_size, settings.size)
    return nn.Sequential(
        embedding, *layers, nn.LayerNorm(settings.size), nn.Linear(settings.size, task.vocabulary_size)
    )


def train(model: nn.Module, task: SequenceTask, settings: Settings, seed: int) -> list[float]:
    """Trains on lengths drawn evenly up to the longest, one for each batch; returns the mean losses of 50 steps."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), settings.rate, weight_decay=settings.decay, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, settings.rate, total_steps=settings.steps, pct_start=min(0.3, settings.warmup / settings.steps)
    )
    losses = []
    model.train()
    for _ in range(settings.steps):
        length = 2 * int(torch.randint(4, settings.longest // 2 + 1, (), generator=generator))
        n_examples = settings.batch * settings.longest // length  # every batch has as many tokens
        tokens, targets = task.draw(n_examples, length, generator)
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return [sum(losses[i : i + 50]) / len(losses[i : i + 50]) for i in range(0, len(losses), 50)]


@torch.no_grad()
def test(model: nn.Module, task: SequenceTask, settings: Settings, length: int) -> dict[str, float]:
    """Shares of sequences without a mistake and of right tokens, where every token is predicted from the right past.

    The first is also the share that greedy decoding writes without a mistake.
    """
    generator = torch.Generator().manual_seed(1_000_003 + length)  # the same examples for all models
    n_examples = min(256, max(4, settings.tested_tokens // length))
    at_once = max(1, 4096 // length)
    model.eval()
    exact, right, all_tokens = 0, 0, 0
    for start in range(0, n_examples, at_once):
        tokens, targets = task.draw(min(at_once, n_examples - start), length, generator)
        wanted = targets != IGNORED
        good = (model(tokens).argmax(-1) == targets) | ~wanted
        exact += int(good.all(-1).sum())
        right += int((good & wanted).sum())
        all_tokens += int(wanted.sum())
    return {"examples": n_examples, "exact": exact / n_examples, "tokens": right / all_tokens}


def run_cell(out: Path, settings: Settings, cell: tuple[str, str, bool, int], lengths: list[int]) -> dict:
    """Trains and tests one model, or reads what an earlier run saved; tests lengths that are missing."""
    task_name, normalizer, scaled, seed = cell
    name = f"{task_name}-{normalizer}-{'scaled' if scaled else 'plain'}-{seed}"
    task, path = SEQUENCE_TASKS[task_name], out / f"{name}.json"
    found = json.loads(path.read_text()) if path.exists() else None
    if found is not None and found["settings"] == json.loads(json.dumps(asdict(settings))):
        if all(str(length) in found["tests"] for length in lengths):
            return found
        model = build(settings, task, normalizer, scaled)
        model.load_state_dict(torch.load(out / f"{name}.pt", weights_only=True))
    else:
        torch.manual_seed(seed)
        model = build(settings, task, normalizer, scaled)
        begin = time.process_time()
        losses = train(model, task, settings, seed)
        found = {
            "task": task_name,
            "normalizer": normalizer,
            "scaled": scaled,
            "seed": seed,
            "settings": asdict(settings),
            "losses": losses,
            "seconds": time.process_time() - begin,
            "tests": {},
        }
        torch.save(model.state_dict(), out / f"{name}.pt")
    for length in lengths:
        if str(length) not in found["tests"]:
            found["tests"][str(length)] = test(model, task, settings, length)
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps(found, indent=1))
    partial.replace(path)
    exact = " ".join(f"{length}:{found['tests'][str(length)]['exact']:.2f}" for length in lengths)
    print(f"{name}: loss {found['losses'][-1]:.4f}, {found['seconds']:.0f} s of training; exact {exact}", flush=True)
    return found


def table(cells: list[dict], lengths: list[int]) -> list[list[object]]:
    """A row for each task, normalizer and temperature: right tokens / right sequences by length, means over seeds."""
    rows: list[list[object]] = []
    for (task, normalizer, scaled), runs in _by_model(cells).items():
        row: list[object] = [task, normalizer, _temperature(normalizer) if scaled else "1"]
        for length in lengths:
            tests = [run["tests"][str(length)] for run in runs]
            tokens, exact = (sum(t[metric] for t in tests) / len(tests) for metric in ("tokens", "exact"))
            row.append(f"{100 * tokens:.1f} / {100 * exact:.0f}")
        rows.append(row)
    return rows


def _by_model(cells: list[dict]) -> dict[tuple[str, str, bool], list[dict]]:
    found: dict[tuple[str, str, bool], list[dict]] = {}
    for cell in cells:
        found.setdefault((cell["task"], cell["normalizer"], cell["scaled"]), []).append(cell)
    return found


def _temperature(normalizer: str) -> str:
    return "s log n" if normalizer == "softmax" else "δ + β (log n)^γ"


def picture(cells: list[dict], lengths: list[int], path: Path) -> None:
    """The share of right tokens by length, a panel for each task; dashed lines have the length-scaled temperature."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from omegamax.plots.learning import draw_grid_lines
    from omegamax.plots.style import INK, colour, figure_style

    tasks = list(dict.fromkeys(cell["task"] for cell in cells))
    with figure_style():
        figure = Figure(figsize=(7.2, 4.4), layout="constrained")
        panels = figure.subplots(2, -(-len(tasks) // 2), sharex=True, sharey=True, squeeze=False).flatten()
        for axes, task in zip(panels, tasks):
            for (of, normalizer, scaled), runs in _by_model(cells).items():
                if of == task:
                    tests = [[run["tests"][str(length)]["tokens"] for run in runs] for length in lengths]
                    means = [sum(shares) / len(shares) for shares in tests]
                    axes.plot(lengths, means, "--" if scaled else "-", color=colour(normalizer), linewidth=1.3)
            axes.axvspan(lengths[0] / 1.5, lengths[0], color="#F2F2F2", zorder=0)  # lengths of the training
            axes.set_xscale("log", base=2)
            axes.set_xticks(lengths, [str(length) for length in lengths], rotation=45, minor=False)
            axes.set(title=task, xlim=(lengths[0] / 1.5, lengths[-1] * 1.15), ylim=(-0.03, 1.03))
            draw_grid_lines(axes)
        for axes in panels[len(tasks) :]:
            axes.set_visible(False)
        figure.supxlabel("tokens of the sequence (training: at most 64)", fontsize=9)
        figure.supylabel("right tokens", fontsize=9)
        lines = [Line2D([], [], color=colour(name)) for name in NORMALIZERS]
        lines += [Line2D([], [], color=INK, linestyle=style) for style in ("-", "--")]
        names = [*NORMALIZERS, "as it is", "temperature by length"]
        figure.legend(lines, names, loc="outside upper center", ncols=5, handlelength=2.2)
        figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/length_generalisation"), help="folder of the cells")
    parser.add_argument("--tasks", nargs="+", default=list(STEPS), choices=STEPS)
    parser.add_argument("--normalizers", nargs="+", default=list(NORMALIZERS), choices=NORMALIZERS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--steps", type=int, help="of training; each task has its own number")
    parser.add_argument("--lengths", type=int, nargs="+", default=list(LENGTHS))
    parser.add_argument("--threads", type=int, default=1, help="for torch and omegamax (default %(default)s)")
    parser.add_argument("--picture", type=Path, help="the picture, for example docs/images/length_generalisation.png")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    options.out.mkdir(parents=True, exist_ok=True)
    settings = Settings()

    def with_steps(task: str) -> Settings:
        return replace(settings, steps=STEPS[task] if options.steps is None else options.steps)

    cells = [
        run_cell(options.out, with_steps(task), (task, normalizer, scaled, seed), options.lengths)
        for seed in options.seeds
        for task in options.tasks
        for normalizer in options.normalizers
        for scaled in (False, True)
    ]
    heading = f"Right tokens / sequences without a mistake (%), by tokens of the sequence; seeds {options.seeds}"
    described = {**asdict(settings), "steps": {task: with_steps(task).steps for task in options.tasks}}
    header = ["task", "normalizer", "scores ×", *map(str, options.lengths)]
    write(
        "length_generalisation",
        f"Length generalisation, trained on at most {settings.longest} tokens",
        [
            (heading, header, table(cells, options.lengths)),
            ("Settings", ["setting", "value"], [[name, str(value)] for name, value in described.items()]),
        ],
    )
    if options.picture is not None:
        picture(cells, options.lengths, options.picture)


if __name__ == "__main__":
    main()
