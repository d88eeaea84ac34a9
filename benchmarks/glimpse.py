"""Images in a few looks: accuracy of hard and soft attention, the variance of gradients, and what a larger image costs.

A cell is one run of `omegamax train glimpse` with the defaults of the recipe, or one measurement of variance or of
cost. A cell that is finished is kept in results/glimpse_cells.jsonl and not computed again, and a run that was
interrupted is resumed, so the benchmark can be stopped at any time.

    python benchmarks/glimpse.py --runs runs/glimpse                                    every cell
    python benchmarks/glimpse.py --runs runs/glimpse --variants retina soft --seeds 1
    python benchmarks/glimpse.py --runs runs/glimpse --variants fashion-soft --fashion fashion_mnist
    python benchmarks/glimpse.py --report                               only writes the tables of what is there

The variance needs the runs of `sparse` and `retina`: it is that of the gradient of the parameters that choose places,
over draws, for the same images and the same parameters.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import timing
import torch
from recipe_cells import arguments, compute, spread

from omegamax.attention import Marginalize, MovingAverage, Reinforce
from omegamax.recipes import load
from omegamax.recipes.glimpse import Glimpse
from omegamax.recipes.settings import GLIMPSE_MODELS, GlimpseSettings

MODELS = {name: ["--model", name] for name in GLIMPSE_MODELS}
CLUTTERED = {f"cluttered-{name}": [*some, "--clutter", "4"] for name, some in MODELS.items()}
FASHION = {f"fashion-{name}": some for name, some in MODELS.items()}  # needs --fashion
# REINFORCE learns slower than what has a derivative.
LONG = {
    "retina-long": [*MODELS["retina"], "--epochs", "40"],
    "cluttered-retina-long": [*CLUTTERED["cluttered-retina"], "--epochs", "40"],
    "fashion-retina-long": [*FASHION["fashion-retina"], "--epochs", "40"],
}
OTHER = {"retina-no-baseline": ["--baseline", "no"], "retina-all-answers": ["--discount", "1"]}
OTHER = {name: ["--model", "retina", *some] for name, some in OTHER.items()}
VARIANTS = {**MODELS, **CLUTTERED, **FASHION, **LONG, **OTHER}
SIDES = (30, 60, 120, 240)
N_DRAWS, N_IMAGES = 100, 64


def measure_variance(options: argparse.Namespace, seed: int) -> None:
    """Draws gradients of the parameters that choose places: how far are they from their mean?"""
    torch.set_num_threads(options.threads)
    done = [cell for cell in timing.read_cells("glimpse") if cell["kind"] == "variance" and cell["seed"] == seed]
    for name, looks in itertools.product(("sparse", "retina"), (2, 6)):
        run = Path(options.runs) / f"{name}-{seed}"
        if any(cell["model"] == name and cell["looks"] == looks for cell in done) or not run.exists():
            continue
        found = load(run)
        model, task = found.model, found.task
        batch = task.collate(task.examples("test")[:N_IMAGES])
        model.train()
        model.n_glimpses, model.entropy_bonus, model.reward_scale = looks, 0.0, 1.0
        parts = ("keys", "query") if name == "sparse" else ("location",)
        parameters = [each for key, each in model.named_parameters() if key.split(".")[0] in parts]
        numbers = {}
        for estimator in ("exact", "reinforce, baseline", "reinforce") if name == "sparse" else _OF_RETINA:
            if name == "sparse":
                baseline = MovingAverage() if "baseline" in estimator else None
                model.attention.estimator = Marginalize() if estimator == "exact" else Reinforce(baseline=baseline)
            elif estimator == "reinforce":
                model.baseline = None
            torch.manual_seed(seed)
            for _ in range(20 if "baseline" in estimator and name == "sparse" else 0):  # the average settles
                with torch.no_grad():
                    model(*batch)
            gradients = []
            for _ in range(N_DRAWS):
                loss = model(*batch).mean()
                gradients.append(torch.cat([x.flatten() for x in torch.autograd.grad(loss, parameters)]))
            drawn = torch.stack(gradients).double()
            numbers[estimator] = {
                "variance": drawn.var(0).sum().item(),
                "squared_mean": drawn.mean(0).square().sum().item(),
            }
        base = {"kind": "variance", "seed": seed, "model": name, "looks": looks, "draws": N_DRAWS, "images": N_IMAGES}
        timing.add_cell("glimpse", {**base, "date": datetime.date.today().isoformat(), "numbers": numbers})


_OF_RETINA = ("reinforce, baseline", "reinforce")


def measure_cost(options: argparse.Namespace, seed: int) -> None:
    """Measures the processor time of six looks at images of several sizes, without learning; weights are new."""
    torch.set_num_threads(options.threads)
    done = [cell for cell in timing.read_cells("glimpse") if cell["kind"] == "cost" and cell["seed"] == seed]
    for side, name in itertools.product(SIDES, ("retina", "soft")):
        if any(cell["side"] == side and cell["model"] == name for cell in done):
            continue
        torch.manual_seed(seed)
        task = Glimpse.prepare(GlimpseSettings(model=name, side=side, images=100))
        model, images = task.model().eval(), task.collate(task.examples("test")[:32]).images
        times = []
        with torch.no_grad():
            for _ in range(15):
                before = time.process_time()
                model.answers(images)
                times.append((time.process_time() - before) / len(images))
        pixels = side**2
        if name == "retina":  # patches between pixels need one more row and column
            sizes = [min(side, task.settings.patch_size * 2**k + 1) for k in range(task.settings.scales)]
            pixels = task.settings.glimpses * sum(size**2 for size in sizes)
        cell = {"kind": "cost", "seed": seed, "side": side, "model": name, "seconds": min(times), "pixels": pixels}
        cell |= {"numbers": model.numbers_read(side, side), "date": datetime.date.today().isoformat()}
        timing.add_cell("glimpse", cell)


def sections(cells: list[dict[str, Any]]) -> list[timing.Section]:
    trained = [cell for cell in cells if cell["kind"] == "train" and not cell["more"]]
    groups = {name: [cell for cell in trained if cell["variant"] == name] for name in VARIANTS}
    groups = {name: some for name, some in groups.items() if some}
    how = sorted({(" ".join(cell["options"]), cell["date"]) for some in groups.values() for cell in some})
    header = ["variant", "seeds", "accuracy, %", "after the first look, %", "attention on the object, %"]
    header += ["if it were even, %", "last look to the object, pixels", "numbers read", "minutes of processor time"]
    rows: list[list[object]] = []
    for name, some in groups.items():
        values = [spread(some, "accuracy", 100, 1), spread(some, "first_look_accuracy", 100, 1)]
        values += [spread(some, "on_object", 100, 1), spread(some, "even_attention", 100, 1)]
        values += [spread(some, "distance", 1, 1), spread(some, "numbers_read", 1, 0)]
        times = [cell["seconds"] / 60 for cell in some if cell["seconds"] is not None]
        seeds = ", ".join(str(cell["seed"]) for cell in some)
        rows.append([name, seeds, *values, f"{statistics.mean(times):.1f}" if times else "–"])
    found: list[timing.Section] = [
        ("How", ["options beside the defaults", "date"], [[f"`{given}`", date] for given, date in how]),
        ("Test scores: mean over seeds, and the largest distance from it", header, rows),
    ]
    rows = []
    for cell in cells:
        for estimator, numbers in cell["numbers"].items() if cell["kind"] == "variance" else ():
            ratio = numbers["variance"] / max(numbers["squared_mean"], 1e-300)
            values = [f"{numbers['variance']:.3g}", f"{numbers['squared_mean']:.3g}", f"{ratio:.3g}"]
            rows.append([cell["model"], cell["looks"], estimator, cell["seed"], *values])
    header = ["parameters of", "looks", "estimator", "seed", "variance", "squared length of the mean", "their ratio"]
    found.append((f"Variance of the gradient, {N_DRAWS} draws for the same {N_IMAGES} images", header, rows))
    costs = sorted((cell for cell in cells if cell["kind"] == "cost"), key=lambda cell: (cell["model"], cell["side"]))
    rows = [
        [
            cell["model"],
            f"{cell['side']} × {cell['side']}",
            cell["pixels"],
            cell["numbers"],
            f"{1e3 * cell['seconds']:.2f}",
        ]
        for cell in costs
    ]
    header = ["model", "image", "pixels read", "numbers for the network", "processor time, ms per image"]
    found.append(("Cost of an image, 32 in a batch, best of 15", header, rows))
    return found


def main() -> None:
    parser = arguments(__doc__, VARIANTS, [*MODELS, *CLUTTERED])
    parser.add_argument("--fashion", help="folder of Fashion-MNIST, for the variants that begin with fashion")
    options = parser.parse_args()
    if not options.report and not options.runs:
        parser.error("--runs must name a directory for the runs, got none; or add --report")
    if not options.report and not options.fashion and any(_needs_fashion(name) for name in options.variants):
        parser.error("--fashion must name the folder of Fashion-MNIST, got none; or leave these variants out")
    for seed in [] if options.report else options.seeds:
        measure_cost(options, seed)
        for variant in options.variants:
            wanted = {"kind": "train", "variant": variant, "seed": seed}
            given = [*VARIANTS[variant], *(["--data", options.fashion] if _needs_fashion(variant) else [])]
            test = compute("glimpse", wanted, given, options)["test"]
            note = f"accuracy {test['accuracy']:.3f}, on the object {test['on_object']:.3f}"
            print(f"{variant}, seed {seed}: {note}", file=sys.stderr, flush=True)
            write_tables()  # after each cell: nothing is lost
        measure_variance(options, seed)
    write_tables()


def _needs_fashion(variant: str) -> bool:
    return variant.startswith("fashion")


def write_tables() -> None:
    cells = timing.read_cells("glimpse")
    if not cells:
        raise SystemExit("glimpse: no cell is finished yet; leave out --report")
    timing.write("glimpse", "Images in a few looks", sections(cells), peers=())


if __name__ == "__main__":
    main()
