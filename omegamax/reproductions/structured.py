"""Compares statements of the SparseMAP presentation with all structures of small problems."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

import omegamax as om
from omegamax.reproductions.claim import Outcome, Published, at_least, at_most, finds, near, same, shown
from omegamax.reproductions.numerical_checks import largest, normal

# η on the slide that compares MAP and marginal inference of matchings, read row by row.
_ETA = torch.tensor([[0.3, 0.8, -0.5], [0.2, -0.1, -0.2], [0.7, 0.6, 0.1]], dtype=torch.float64)


def _permutations(n: int) -> Tensor:
    """Returns all n! matchings of n rows with n columns, (n!, n, n)."""
    return torch.stack([torch.eye(n, dtype=torch.float64)[list(order)] for order in itertools.permutations(range(n))])


def _trees(n_words: int) -> Tensor:
    """Returns all arborescences over n words with one or more roots, by trying every choice of heads."""
    found = []
    for heads in itertools.product(range(n_words + 1), repeat=n_words):
        if all(_reaches_root(heads, word) for word in range(n_words)):
            tree = torch.zeros(n_words + 1, n_words + 1, dtype=torch.float64)
            tree[list(heads), list(range(1, n_words + 1))] = 1
            found.append(tree)
    return torch.stack(found)


def _reaches_root(heads: tuple[int, ...], word: int) -> bool:
    at = word + 1
    for _ in heads:
        at = heads[at - 1]
        if at == 0:
            return True
    return False


def factored_scores(published: Published) -> Outcome:
    """Checks x = Aᵀη and μ = A p: choosing among structures is choosing a point of M, with far fewer numbers."""
    rows = []
    for name, structure, columns, eta in (
        ("matchings of 5 and 5", om.Matching(), _permutations(5), normal(5, 5)),
        ("trees over 4 words", om.Arborescence(single_root=False), _trees(4), normal(5, 5, seed=1)),
    ):
        scores = (columns * eta).sum((-2, -1))  # x = Aᵀη
        rows.append(
            same(f"{name}: argmax <x, p> and argmax <η, μ>", largest(columns[scores.argmax()] - structure.map(eta)))
        )
        rows.append(
            at_least(f"{name}: structures for each part, k / d", 1, len(columns) / int((columns.amax(0) > 0).sum()))
        )
    return Outcome(rows)


def map_oracles(published: Published) -> Outcome:
    """Maximum spanning trees by Chu-Liu/Edmonds, matchings by the Hungarian method: the best of all."""
    rows = []
    for name, structure, columns, size in (
        ("Chu-Liu/Edmonds, 4 words", om.Arborescence(single_root=False), _trees(4), 5),
        ("matching, 5 and 5", om.Matching(), _permutations(5), 5),
    ):
        worst = 0.0
        for seed in range(20):
            eta = normal(size, size, seed=seed)
            worst = max(worst, abs(float((structure.map(eta) * eta).sum() - (columns * eta).sum((-2, -1)).max())))
        rows.append(same(f"{name}: score found and best of {len(columns)}", worst))
    return Outcome(rows)


def marginals(published: Published) -> Outcome:
    """Computes sums over trees by the matrix-tree theorem; sums over matchings are permanents, which are #P-hard."""
    trees, eta = _trees(4), normal(5, 5)
    weights = (trees * eta).sum((-2, -1)).softmax(0)
    expected = (weights.reshape(-1, 1, 1) * trees).sum(0)
    try:
        om.Matching().argmax(_ETA, om.Shannon())
        refused = "computed"
    except ValueError as error:
        refused = "refused: #P" if "#P" in str(error) else "refused"
    return Outcome(
        [
            same(
                "matrix-tree marginals and the sum over all trees",
                largest(om.Arborescence(single_root=False).argmax(eta) - expected),
            ),
            finds("entropy marginals of matchings", "#P-complete", refused, refused == "refused: #P"),
        ]
    )


def slide_example(published: Published) -> Outcome:
    """MAP and SparseMAP of the η printed on the slide, as a matching of three and three."""
    permutations = _permutations(3)
    scores = (permutations * _ETA).sum((-2, -1))
    best = om.Matching().map(_ETA)
    found = om.Matching().sparsemap(_ETA)
    listed = ", ".join(f"{p:.2f}" for p in found.probabilities.tolist())
    return Outcome(
        [
            same("MAP and the best of 6 matchings", largest(best - permutations[scores.argmax()])),
            shown("score of the best, and of the next", ", ".join(f"{s:.1f}" for s in scores.topk(2).values.tolist())),
            finds(
                "SparseMAP: probabilities of its matchings",
                "at most dim M + 1 = 5 of 6",
                listed,
                len(found.probabilities) <= 5,
            ),
            at_most("duality gap of SparseMAP", 0, float(found.gap), 1e-12),
        ],
        lambda: _draw_matchings(best, found.marginals),
    )


def _draw_matchings(best: Tensor, sparse: Tensor) -> object:
    from omegamax import plots

    names = ("1", "2", "3")
    soft = om.Matching().sinkhorn(_ETA, gamma=0.3)
    return plots.attention_maps({"MAP": best, "Sinkhorn": soft, "SparseMAP": sparse}, rows=names, columns=names)


def table_of_problems(published: Published) -> Outcome:
    """argmax, softmax, sparsemax over structures and MAP, marginals, SparseMAP over M; ½‖Ap‖² is not ½‖p‖²."""
    columns, eta = _permutations(3), normal(3, 3)
    scores = (columns * eta).sum((-2, -1))
    found = om.Matching().sparsemap(eta)
    value = (eta * found.marginals).sum() - 0.5 * found.marginals.square().sum()
    other = (om.sparsemax(scores).reshape(-1, 1, 1) * columns).sum(0)
    points = _mixtures(columns, 3000)
    best_point = ((points * eta).sum((-2, -1)) - 0.5 * points.square().sum((-2, -1))).max()
    simplex = om.Subset(1).sparsemap(normal(6, seed=3)).marginals
    return Outcome(
        [
            at_least("objective of SparseMAP − that of 3000 other points of M", 0, float(value - best_point)),
            same("SparseMAP on the simplex and sparsemax", largest(simplex - om.sparsemax(normal(6, seed=3)))),
            at_least(
                "SparseMAP and sparsemax over the list of structures: largest difference",
                0.01,
                largest(found.marginals - other),
            ),
        ]
    )


def _mixtures(columns: Tensor, n: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    gaps = torch.rand(n, len(columns), dtype=torch.float64, generator=generator).pow(4)
    return torch.einsum("nk,kij->nij", gaps / gaps.sum(-1, keepdim=True), columns)


def printed_points(published: Published) -> Outcome:
    """The points (.6, .4, 0) and (.5, .3, .2) are printed beside the two polytopes."""
    edge, inner = (torch.tensor(point, dtype=torch.float64) for point in ([0.6, 0.4, 0.0], [0.5, 0.3, 0.2]))
    rows = [same(f"sparsemax of {tuple(p.tolist())} and itself", largest(om.sparsemax(p) - p)) for p in (edge, inner)]
    rows.append(same("softmax of log (.5, .3, .2) and (.5, .3, .2)", largest(om.softmax(inner.log()) - inner)))
    least = float(om.softmax(normal(5000, 3, scale=5)).min())
    rows.append(
        finds("softmax on the edge of (.6, .4, 0)", "never", f"least weight of 5000 draws {least:.1e}", least > 0)
    )
    return Outcome(rows)


def active_set(published: Published) -> Outcome:
    """The active set method calls only MAP, finitely often, and its optimum is exact."""
    asked = 0

    def oracle(scores: Tensor) -> Tensor:
        nonlocal asked
        asked += 1
        return om.Matching().map(scores)

    eta = normal(6, 6, scale=0.5)
    found = om.Polytope.from_oracle(oracle, event_ndim=2).sparsemap(eta)
    larger = normal(12, 12, scale=0.3)
    calls = [int(om.Matching().sparsemap(larger, atol=atol).n_iterations) for atol in (1.0, 0.1, 0.01, 0.0)]
    needed = ", ".join(map(str, calls))
    return Outcome(
        [
            at_most("calls of MAP, of 720 matchings", 719, asked, 0),
            at_most("duality gap at the end", 0, float(found.gap), 1e-12),
            at_most("matchings selected, at most d + 1", 37, len(found.probabilities), 0),
            finds("12 × 12: calls for a gap of 1, 0.1, 0.01, 0", "finite", needed, calls == sorted(calls)),
        ]
    )


def backward_work(published: Published) -> Outcome:
    """The Jacobian is the projector onto the span of the selected structures: it needs d × k numbers only."""
    eta = normal(5, 5, scale=0.5)
    found = om.Matching().sparsemap(eta)
    spanned = (found.structures - found.structures[:1]).flatten(1)
    projector = spanned.T @ torch.linalg.pinv(spanned.T)
    jacobian = torch.autograd.functional.jacobian(lambda scores: om.Matching().sparsemap(scores).marginals, eta)
    return Outcome(
        [
            same(
                "∂μ/∂η and the projector made of the selected matchings", largest(jacobian.reshape(25, 25) - projector)
            ),
            near(
                "rank of ∂μ/∂η and of the selected matchings",
                float(torch.linalg.matrix_rank(spanned)),
                float(torch.linalg.matrix_rank(jacobian.reshape(25, 25), atol=1e-8)),
                0,
            ),
            finds(
                "numbers it takes, of 120 · 25 for all matchings",
                "d · k",
                f"25 · {len(found.structures)}",
                len(found.structures) < 120,
            ),
        ]
    )
