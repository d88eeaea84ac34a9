"""Writes what the page must compute: inputs, and the results of the library in Python, as JSON.

`python tests/browser/cases.py DIRECTORY` writes cases.json and page.html there; tests/browser/run.mjs reads them.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import torch
from attention_cases import write_pages
from torch import Tensor

import omegamax as om
from omegamax import plots
from omegamax.explorer import explorer_page

PARAMETERS: dict[str, list[dict[str, Any]]] = {
    "hardmax": [{}],
    "softmax": [{}],
    "sparsemax": [{}],
    "entmax": [{"alpha": 1.0}, {"alpha": 1.5}, {"alpha": 1.2}, {"alpha": 2.0}, {"alpha": 3.5}],
    "sqpnormmax": [{"p": 1.05}, {"p": 1.5}, {"p": 2.0}],
    "normmax": [{"alpha": 1.1}, {"alpha": 2.0}, {"alpha": 5.0}],
    "fusedmax": [{"strength": 0.0}, {"strength": 0.1}, {"strength": 0.8}],
    "oscarmax": [{"strength": 0.0}, {"strength": 0.05}, {"strength": 0.4}],
    "groupmax": [{"strength": 0.1}, {"strength": 1.2}],
}
REGULARIZERS: dict[str, Any] = {
    "hardmax": lambda: om.Hard(),
    "softmax": lambda: om.Shannon(),
    "sparsemax": lambda: om.SquaredNorm(),
    "entmax": lambda alpha: om.Tsallis(alpha),
    "sqpnormmax": lambda p: om.SquaredPNorm(p),
    "normmax": lambda alpha: om.NormEntropy(alpha),
    "fusedmax": lambda strength: om.Fused(strength),
    "oscarmax": lambda strength: om.Oscar(strength),
    "groupmax": lambda strength, groups: om.GroupLasso(groups, strength),
}
OMEGAS = {"hard": om.Hard(), "shannon": om.Shannon(), "squared": om.SquaredNorm()}


def numbers(tensor: Tensor) -> list[float | None]:
    """Returns all entries in order; JSON has no infinity, so -inf is None."""
    return [None if number == -torch.inf else number for number in tensor.double().reshape(-1).tolist()]


def score_rows(generator: torch.Generator) -> list[Tensor]:
    draws = [torch.randn(n, generator=generator) for n in (1, 2, 3, 7, 16, 33, 200)]
    masked = torch.randn(9, generator=generator)
    masked[[0, 4, 5, 8]] = -torch.inf
    only_one = torch.full((4,), -torch.inf)
    only_one[2] = 0.3
    return [
        *draws,
        masked,
        only_one,
        torch.zeros(6),
        torch.tensor([0.5, 0.5, 0.5, -1.0, 0.5]),
        8 * torch.randn(12, generator=generator),
        0.01 * torch.randn(12, generator=generator),
        torch.tensor([0.10, 0.62, 0.66, -0.60, 0.20, 0.98, 0.64, 0.95, -0.90, 0.40]),
    ]


def row_cases() -> list[dict[str, Any]]:
    generator = torch.Generator().manual_seed(0)
    rows = score_rows(generator)
    cases = []
    for name, settings in PARAMETERS.items():
        for parameters, (row, scores) in itertools.product(settings, enumerate(rows)):
            gamma = (1.0, 0.3, 2.5)[row % 3]
            groups = [i // 3 for i in range(len(scores))]
            given = {**parameters, "groups": groups} if name == "groupmax" else parameters
            smooth = om.Scaled(REGULARIZERS[name](**given), gamma)
            leaf = scores.clone().requires_grad_()
            value, weights = smooth.max_and_argmax(leaf)
            direction = torch.randn(len(scores), generator=generator)
            product = (
                torch.autograd.grad(weights, leaf, direction)[0] if name != "hardmax" else torch.zeros_like(scores)
            )
            target = int((scores > -torch.inf).nonzero()[-1])
            loss = om.FenchelYoungLoss(smooth, reduction="none")(scores[None], torch.tensor([target]))
            case = {
                "target": target,
                "loss": loss.item(),
                "operator": {"name": name, "parameter": next(iter(parameters.values()), 0), "gamma": gamma},
                "scores": numbers(scores),
                "direction": numbers(direction),
                "weights": numbers(weights),
                "value": value.item(),
                "product": numbers(product),
            }
            if name == "groupmax":
                case["operator"]["groups"] = groups
            cases.append(case)
    return cases


def structure_case(kind: str, arguments: list[Any], structure: Any, potentials: Any, parts: Any) -> dict[str, Any]:
    """Solves a structure in every mode that it has; `parts` puts scores, or a structure, in the order of the page."""
    modes = {}
    for mode, omega in OMEGAS.items():
        value, marginals = structure.max(potentials, omega), structure.argmax(potentials, omega)
        modes[mode] = {"value": value.item(), "marginals": numbers(parts(marginals))}
    found = structure.sparsemap(potentials)
    modes["sparsemap"] = {"marginals": numbers(parts(found.marginals))}
    case = {"kind": kind, "arguments": arguments, "scores": numbers(parts(potentials)), "modes": modes}
    if hasattr(structure, "support"):
        support = structure.support(potentials, om.SquaredNorm(), limit=1000)
        case["ranked"] = sorted((p for p in numbers(support.probabilities) if p), reverse=True)[:8]
    return case


def structure_cases() -> list[dict[str, Any]]:
    generator = torch.Generator().manual_seed(1)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    cases = []
    for n, c in ((1, 3), (5, 4), (8, 2)):
        potentials = om.Chain.from_emissions(draw(n, c), draw(c, c))
        cases.append(
            structure_case(
                "chain", [n, c], om.Chain(), potentials, lambda p: torch.cat([p[0].reshape(-1), p[1].reshape(-1)])
            )
        )
    for m, n in ((1, 1), (4, 6), (9, 9)):
        cases.append(structure_case("alignment", [m, n], om.Alignment(), draw(m, n), lambda p: p))
    for n in (1, 2, 5):
        cases.append(structure_case("tree", [n], om.ProjectiveTree(), draw(n + 1, n + 1), _without_unread))
    edges = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (2, 4), (3, 4), (0, 4)]
    text = "\n".join(f"{tail} {head} 0" for tail, head in edges)
    cases.append(structure_case("graph", [text], om.Dag.from_edges(edges), draw(len(edges)), lambda p: p))
    return [*cases, *(matching_case(draw(n, n)) for n in (1, 4, 6))]


def _without_unread(arcs: Tensor) -> Tensor:
    """Scores of the first column and of the diagonal are never read, so the page need not know them."""
    arcs = arcs.clone()
    arcs[:, 0] = 0
    arcs.diagonal().zero_()
    return arcs


def matching_case(scores: Tensor) -> dict[str, Any]:
    """The best matching and SparseMAP by the library; the expected one by listing all matchings."""
    n = len(scores)
    everyone = torch.stack(
        [torch.eye(n, dtype=torch.float64)[list(order)] for order in itertools.permutations(range(n))]
    )
    totals = (everyone * scores).sum((1, 2))
    expected = (totals.softmax(0)[:, None, None] * everyone).sum(0)
    matching = om.Matching()
    modes = {
        "hard": {"value": matching.max(scores, om.Hard()).item(), "marginals": numbers(matching.map(scores))},
        "shannon": {"value": totals.logsumexp(0).item(), "marginals": numbers(expected)},
        "sparsemap": {"marginals": numbers(matching.sparsemap(scores).marginals)},
    }
    return {"kind": "matching", "arguments": [n], "scores": numbers(scores), "modes": modes}


def main(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    cases = {"rows": row_cases(), "structures": structure_cases()}
    (directory / "cases.json").write_text(json.dumps(cases))
    (directory / "page.html").write_text(explorer_page(), encoding="utf-8")
    hostile = {"view": "row", "state": "t=</script><img src=x onerror=alert(1)>", "note": "</script><b>\u2028&"}
    (directory / "hostile.html").write_text(explorer_page(hostile), encoding="utf-8")
    frame = plots.explore_row([0.5, -torch.inf, 1.0], ["one", "two", "three"], operators=["softmax", "sparsemax"])
    (directory / "notebook.html").write_text(f"<!DOCTYPE html><p>A notebook</p>{frame._repr_html_()}", encoding="utf-8")
    write_pages(directory)
    print(f"{len(cases['rows'])} rows and {len(cases['structures'])} structures in {directory}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
