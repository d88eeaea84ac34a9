"""Losses against torch.nn.functional.cross_entropy and the entmax package, forward and backward; memory; structures.

Everything is the mean over rows of class scores and its gradient, float32, contestants in turn in one run.
"""

from __future__ import annotations

import argparse
import warnings

import torch
from timing import Section, both_ways, fastest, run
from torch.nn.functional import cross_entropy

import omegamax as om

SHAPES = [(4096, 1000), (4096, 50), (512, 32000), (32, 10)]


def on_target(loss, scores: torch.Tensor, target):
    return both_ways(lambda x: loss(x, target), scores)


def contestants() -> dict:
    found = {
        "cross_entropy": cross_entropy,
        "SoftmaxLoss": om.SoftmaxLoss(),
        "SparsemaxLoss": om.SparsemaxLoss(),
        "Entmax15Loss": om.Entmax15Loss(),
        "EntmaxLoss(1.3)": om.EntmaxLoss(1.3),
        "MarginLoss(SquaredNorm())": om.MarginLoss(om.SquaredNorm()),
    }
    try:
        import entmax
    except ImportError:
        return found
    return {
        **found,
        "entmax.sparsemax_loss": lambda x, y: entmax.sparsemax_loss(x, y).mean(),
        "entmax.entmax15_loss": lambda x, y: entmax.entmax15_loss(x, y).mean(),
    }


def against_cross_entropy(seconds: float) -> list[list[object]]:
    table = []
    for n_rows, n_classes in SHAPES:
        scores, target = torch.randn(n_rows, n_classes), torch.randint(n_classes, (n_rows,))
        runs = {name: on_target(loss, scores, target) for name, loss in contestants().items()}
        best = fastest(runs, seconds=seconds)
        for name, time in best.items():
            table.append([f"{n_rows}×{n_classes}", name, time * 1e6, time / best["cross_entropy"]])
            print(*table[-1], flush=True)
    return table


def soft_targets(seconds: float) -> list[list[object]]:
    scores = torch.randn(4096, 1000)
    target = torch.randn(4096, 1000).softmax(-1)
    losses = {"cross_entropy": cross_entropy, "SoftmaxLoss": om.SoftmaxLoss(), "SparsemaxLoss": om.SparsemaxLoss()}
    best = fastest({name: on_target(loss, scores, target) for name, loss in losses.items()}, seconds=seconds)
    return [[name, time * 1e6, time / best["cross_entropy"]] for name, time in best.items()]


class _Held(torch.utils._python_dispatch.TorchDispatchMode):
    """Bytes of new tensors that PyTorch's operations return, in units of the scores."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        given = {t.untyped_storage().data_ptr() for t in torch.utils._pytree.tree_leaves(args) if torch.is_tensor(t)}
        found = function(*args, **(kwargs or {}))
        for tensor in torch.utils._pytree.tree_leaves(found):
            if torch.is_tensor(tensor) and tensor.untyped_storage().data_ptr() not in given:
                self.bytes += tensor.untyped_storage().nbytes()
        return found


def memory() -> list[list[object]]:
    """Matrices of the size of the scores that are made in one forward and backward pass, and that are kept between."""
    scores, target = torch.randn(256, 1000), torch.randint(1000, (256,))
    table = []
    for name, loss in list(contestants().items())[:4]:
        leaf = scores.clone().requires_grad_()
        with _Held() as made:
            value = loss(leaf, target)
            forward = made.bytes
            saved = _saved(value.grad_fn)
            kept = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in saved}
            value.backward()
        unit = scores.untyped_storage().nbytes()
        kept.pop(leaf.untyped_storage().data_ptr(), None)
        table.append([name, forward / unit, made.bytes / unit, sum(kept.values()) / unit])
    return table


def _saved(node) -> list[torch.Tensor]:
    """Tensors that a graph keeps for its backward pass."""
    found, stack, seen = [], [node], set()
    while stack:
        current = stack.pop()
        if current is None or current in seen:
            continue
        seen.add(current)
        for name in dir(current):
            if name.startswith("_saved_") or name == "saved_tensors":
                value = getattr(current, name)
                found += [t for t in torch.utils._pytree.tree_leaves(value) if torch.is_tensor(t)]
        stack += [parent for parent, _ in current.next_functions]
    return found


def structures(seconds: float) -> list[list[object]]:
    """What a loss costs above its smoothed maximum, with the check of the gold structures and without."""
    chain, tree = om.Chain(), om.ProjectiveTree()
    tags, heads = torch.randint(20, (32, 50)), torch.arange(30).expand(16, -1)
    cases = {
        "chain 32×50×20": (chain, torch.randn(32, 50, 20, 20), chain.from_tags(tags, 20)),
        "projective tree 16×30": (tree, torch.randn(16, 31, 31), tree.from_heads(heads)),
    }
    table = []
    for name, (structure, potentials, gold) in cases.items():
        runs = {
            "log-partition": on_target(lambda x, _: structure.max(x).mean(), potentials, gold),
            "CRFLoss, unchecked": on_target(om.CRFLoss(structure, check=False), potentials, gold),
            "CRFLoss": on_target(om.CRFLoss(structure), potentials, gold),
            "PerceptronLoss": on_target(om.PerceptronLoss(structure), potentials, gold),
            "MarginLoss": on_target(om.MarginLoss(structure), potentials, gold),
        }
        best = fastest(runs, seconds=seconds)
        table += [[name, run, time * 1e6, time / best["log-partition"]] for run, time in best.items()]
    return table


def sections(options: argparse.Namespace) -> list[Section]:
    warnings.filterwarnings("ignore")
    seconds = options.seconds
    return [
        (
            "Classes: forward and backward",
            ["rows × classes", "loss", "µs", "× cross_entropy"],
            against_cross_entropy(seconds),
        ),
        ("Distributions, 4096×1000", ["loss", "µs", "× cross_entropy"], soft_targets(seconds)),
        (
            "Memory, in matrices of the size of the scores",
            ["loss", "made forward", "made forward and backward", "kept between"],
            memory(),
        ),
        ("Structures", ["structure", "loss", "µs", "× log-partition"], structures(seconds)),
    ]


if __name__ == "__main__":
    run("losses", "Losses", __doc__, sections)
