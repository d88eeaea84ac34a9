"""Factor graphs: LP-SparseMAP against one SparseMAP call on the same polytope, where there is one; growth; backward.

A matching as xor factors has the polytope of `Matching`; a chain as a sequence factor that of `Chain`. The ratio says
what agreement between factors costs. Times are for a batch, float64.
"""

from __future__ import annotations

import argparse

import torch
from timing import Section, fastest, run

import omegamax as om


def matching(n: int) -> om.FactorGraph:
    builder = om.FactorGraphBuilder()
    x = builder.binary("x", (n, n))
    for line in (*x, *x.T):
        builder.xor(line)
    return builder.build()


def tagging(n: int, c: int, budget: int | None) -> om.FactorGraph:
    builder = om.FactorGraphBuilder()
    tags = builder.variable("tag", c, n)
    builder.sequence(tags, name="chain")
    if budget is not None:
        builder.budget([tag[1] for tag in tags], 0, budget)
    return builder.build()


def parsing(n: int) -> om.FactorGraph:
    """A projective tree in which no word has more than two modifiers on its right."""
    builder = om.FactorGraphBuilder()
    arcs = builder.binary("arcs", (n + 1, n + 1))
    builder.tree(arcs)
    for head in range(1, n - 1):
        builder.budget(arcs[head, head + 1 :], 0, 2)
    return builder.build()


def potentials(graph: om.FactorGraph, batch: int) -> object:
    variables = torch.randn(batch, graph.n_entries, dtype=torch.float64)
    if not graph.n_scores:
        return variables
    return om.structures.FactorGraphScores(variables, torch.randn(batch, graph.n_scores, dtype=torch.float64))


def forward_and_backward(graph: om.FactorGraph, given: object) -> tuple:
    parts = (given,) if isinstance(given, torch.Tensor) else tuple(given)
    leaves = [part.clone().requires_grad_() for part in parts]
    argument = leaves[0] if len(leaves) == 1 else om.structures.FactorGraphScores(*leaves)

    def forward() -> torch.Tensor:
        found = graph.sparsemap(argument).marginals
        return (found if isinstance(found, torch.Tensor) else found.variables).square().sum()

    def both() -> None:
        torch.autograd.grad(forward(), leaves)

    return forward, both


def direct(name: str, graph: om.FactorGraph, given: object, size: tuple[int, ...]):
    """The same polytope as one structure, or None."""
    if name == "matching" and hasattr(om, "Matching"):
        scores = given.reshape(-1, *size)
        return lambda: om.Matching().sparsemap(scores)
    if name == "chain":
        named = graph.named(given)
        chain = om.structures.FactoredChain(
            named["tag"], *(named[f"chain.{part}"] for part in ("transitions", "start", "end"))
        )
        return lambda: om.Chain().sparsemap(chain)
    return None


def rows(seconds: float, batch: int) -> list[list[object]]:
    graphs = {
        ("matching", (5, 5)): matching(5),
        ("matching", (10, 10)): matching(10),
        ("matching", (20, 20)): matching(20),
        ("chain", (20, 5)): tagging(20, 5, None),
        ("chain, budget", (20, 5)): tagging(20, 5, 3),
        ("chain, budget", (50, 10)): tagging(50, 10, 3),
        ("tree, budgets", (10,)): parsing(10),
    }
    table = []
    for (name, size), graph in graphs.items():
        torch.manual_seed(0)
        given = potentials(graph, batch)
        forward, both = forward_and_backward(graph, given)
        runs = {"forward": forward, "both": both}
        peer = direct(name, graph, given, size)
        if peer is not None:
            runs["direct"] = peer
        times = fastest(runs, seconds=seconds, least=3)
        found = graph.sparsemap(given)
        table.append(
            [
                f"{name} {'×'.join(map(str, size))}",
                f"{1e3 * times['forward']:.1f}",
                f"{times['both'] / times['forward']:.2f}",
                f"{times['forward'] / times['direct']:.1f}" if peer is not None else "–",
                f"{found.n_iterations.double().mean():.0f}",
                int(found.n_iterations.max()),
                f"{found.primal_residual.max():.0e}",
            ]
        )
    return table


def sections(options: argparse.Namespace) -> list[Section]:
    header = [
        "graph",
        "forward, ms",
        "both ways / forward",
        "forward / one SparseMAP",
        "iterations",
        "most",
        "residual",
    ]
    return [(f"LP-SparseMAP, batch of {options.batch}", header, rows(options.seconds, options.batch))]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--batch", type=int, default=32, help="items (default %(default)s)")


if __name__ == "__main__":
    run("factor_graphs", "Factor graphs", __doc__, sections, add_options=add_options)
