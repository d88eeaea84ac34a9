"""Non-projective trees: matrix-tree sums against a bare `torch.linalg.slogdet`, the best tree against other searches.

`slogdet` gets a Laplacian that is ready: the time of exponentials and of the Laplacian is in our numbers only. The
searches are checked to find trees of the same score.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import torch
from timing import Section, both_ways, fastest, run

import omegamax as om

SHAPES = [(32, 20), (32, 60), (32, 100), (1, 60)]
ROOTS = {"any roots": om.Arborescence(single_root=False), "one root": om.Arborescence()}


def laplacian(potentials: torch.Tensor, single_root: bool) -> torch.Tensor:
    """Returns the Laplacian of Koo et al. (2007)."""
    weights = potentials.exp()
    words = weights[:, 1:, 1:] * (1 - torch.eye(potentials.shape[-1] - 1, dtype=potentials.dtype))
    matrix = torch.diag_embed(words.sum(1)) - words
    root = weights[:, 0, 1:]
    if not single_root:
        return matrix + torch.diag_embed(root)
    return torch.cat([root.unsqueeze(1), matrix[:, 1:]], 1)


def logdet(matrix: torch.Tensor) -> torch.Tensor:
    return torch.linalg.slogdet(matrix).logabsdet


def sums(seconds: float) -> list[list[object]]:
    table = []
    for dtype in (torch.float32, torch.float64):
        for batch, n in SHAPES:
            potentials = torch.randn(batch, n + 1, n + 1, dtype=dtype)
            for name, tree in ROOTS.items():
                matrix = laplacian(potentials, tree.single_root)
                torch.testing.assert_close(tree.max(potentials), logdet(matrix), rtol=1e-4, atol=1e-3)

                def plain(x: torch.Tensor) -> torch.Tensor:
                    return logdet(laplacian(x, tree.single_root))

                best = fastest(
                    {
                        "om": lambda: tree.max(potentials),
                        "slogdet": lambda: logdet(matrix),
                        "far": lambda: tree.max(1000 * potentials),
                        "gradient": both_ways(tree.max, potentials),
                        "plain gradient": both_ways(plain, potentials),
                        **torch_struct(potentials, tree.single_root),
                    },
                    seconds=seconds,
                )
                peer = best["torch-struct"] / best["gradient"] if "torch-struct" in best else "not installed"
                table.append(
                    [
                        f"{batch}×{n}",
                        str(dtype)[6:],
                        name,
                        best["om"] * 1e6,
                        best["om"] / best["slogdet"],
                        best["far"] / best["om"],
                        best["gradient"] * 1e6,
                        best["gradient"] / best["plain gradient"],
                        peer,
                    ]
                )
                print(*table[-1], flush=True)
    return table


def torch_struct(potentials: torch.Tensor, single_root: bool) -> dict:
    """The same number by torch-struct, whose root arcs lie on the diagonal."""
    try:
        from torch_struct import NonProjectiveDependencyCRF
    except ImportError:
        return {}
    n = potentials.shape[-1] - 1
    scores = potentials[:, 1:, 1:].clone()
    scores[:, range(n), range(n)] = potentials[:, 0, 1:]
    return {
        "torch-struct": both_ways(
            lambda x: NonProjectiveDependencyCRF(x * 1, multiroot=not single_root).partition, scores
        )
    }


def plain_search(scores: np.ndarray) -> list[int]:
    """Chu-Liu/Edmonds as it is usually written: recursion on contracted graphs. scores [head, modifier], root 0."""
    size = len(scores)
    inward = scores.copy()
    np.fill_diagonal(inward, -np.inf)
    inward[:, 0] = -np.inf
    heads = inward.argmax(0)
    cycle = _cycle(heads)
    if not cycle:
        return heads.tolist()
    rest = [node for node in range(size) if node not in cycle]
    inside = np.array(cycle)
    smaller = np.full((len(rest) + 1, len(rest) + 1), -np.inf)
    smaller[:-1, :-1] = inward[np.ix_(rest, rest)]
    gain = inward[np.ix_(rest, cycle)] - inward[heads[inside], inside]
    smaller[:-1, -1] = gain.max(1)
    smaller[-1, :-1] = inward[np.ix_(cycle, rest)].max(0)
    found = plain_search(smaller)
    result = heads.copy()
    for place, node in enumerate(rest[1:], 1):
        head = found[place]
        result[node] = rest[head] if head < len(rest) else cycle[int(inward[inside, node].argmax())]
    enter = found[-1]
    result[cycle[int(gain[enter].argmax())]] = rest[enter]
    return result.tolist()


def _cycle(heads: np.ndarray) -> list[int]:
    seen = np.zeros(len(heads), dtype=int)
    for start in range(1, len(heads)):
        node = start
        while node and not seen[node]:
            seen[node] = start
            node = heads[node]
        if node and seen[node] == start:
            cycle, at = [node], heads[node]
            while at != node:
                cycle.append(int(at))
                at = heads[at]
            return [int(c) for c in cycle]
    return []


def searches(seconds: float) -> list[list[object]]:
    table = []
    for batch, n in SHAPES:
        potentials = torch.randn(batch, n + 1, n + 1, dtype=torch.float64)
        numbers = potentials.numpy()
        runs = {
            "om": lambda: ROOTS["any roots"].map(potentials),
            "one root": lambda: ROOTS["one root"].map(potentials),
            "NumPy": lambda: [plain_search(scores) for scores in numbers],
        }
        ours = ROOTS["any roots"].max(potentials, om.Hard())
        theirs = [scores[plain_search(scores)[1:], range(1, n + 1)].sum() for scores in numbers]
        torch.testing.assert_close(ours, torch.tensor(theirs, dtype=torch.float64))
        try:
            from ufal.chu_liu_edmonds import chu_liu_edmonds

            turned = [_for_ufal(scores) for scores in numbers]
            theirs = [scores[chu_liu_edmonds(t)[0][1:], range(1, n + 1)].sum() for t, scores in zip(turned, numbers)]
            torch.testing.assert_close(ours, torch.tensor(theirs, dtype=torch.float64))
            runs["ufal"] = lambda: [chu_liu_edmonds(t) for t in turned]
        except ImportError:
            pass
        best = fastest(runs, seconds=seconds, least=2)
        ufal = best["ufal"] / best["om"] if "ufal" in best else "not installed"
        table.append(
            [f"{batch}×{n}", best["om"] * 1e6, best["one root"] / best["om"], best["NumPy"] / best["om"], ufal]
        )
        print(*table[-1], flush=True)
    return table


def _for_ufal(scores: np.ndarray) -> np.ndarray:
    """[modifier, head], NaN where there is no arc."""
    turned = scores.T.copy()
    np.fill_diagonal(turned, np.nan)
    turned[0] = np.nan
    return turned


def samples(seconds: float) -> list[list[object]]:
    table = []
    for name, tree in ROOTS.items():
        for scale in (1.0, 5.0):
            potentials = scale * torch.randn(32, 61, 61)
            best = fastest({"om": lambda: tree.sample(potentials, n_samples=10)}, seconds=seconds)["om"]
            table.append([name, scale, best / 320 * 1e6])
    return table


def sections(options: argparse.Namespace) -> list[Section]:
    warnings.filterwarnings("ignore")
    seconds = options.seconds
    return [
        (
            "Log-partition and its gradient",
            [
                "batch × words",
                "type",
                "roots",
                "value, µs",
                "/ bare slogdet",
                "scores ×1000 / value",
                "gradient, µs",
                "/ slogdet of the scores and its gradient",
                "times faster than torch-struct",
            ],
            sums(seconds),
        ),
        (
            "The best tree, float64",
            ["batch × words", "µs", "one root / any roots", "times faster than NumPy", "than ufal.chu_liu_edmonds"],
            searches(seconds),
        ),
        ("Samples, 32×60, ten of each", ["roots", "scale of the scores", "µs per sample"], samples(seconds)),
    ]


if __name__ == "__main__":
    run("arborescences", "Non-projective trees", __doc__, sections)
