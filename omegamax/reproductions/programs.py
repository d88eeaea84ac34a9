"""Differentiable dynamic programming: the second part of the tutorial, against all paths of small graphs."""

from __future__ import annotations

import math

import torch
from torch import Tensor

import omegamax as om
from omegamax.reproductions.claim import (
    Outcome,
    Published,
    Row,
    at_least,
    at_most,
    finds,
    near,
    same,
    short,
    shown,
)
from omegamax.reproductions.numerical_checks import differences, largest, normal

_N, _C = 4, 3  # positions and tags: 81 paths
_OMEGAS: dict[str, om.SmoothMax] = {"entropy": om.Shannon(), "squared norm": om.SquaredNorm()}


def _chain(seed: int = 0, scale: float = 1.0) -> Tensor:
    return normal(_N, _C, _C, seed=seed, scale=scale)


def _paths(potentials: Tensor) -> tuple[Tensor, Tensor]:
    """Returns every path (number, N, C, C) of a chain, by counting in base C, and its score."""
    n, c = potentials.shape[0], potentials.shape[-1]
    tags = torch.cartesian_prod(*[torch.arange(c)] * n)
    paths = om.Chain.from_tags(tags, c, dtype=potentials.dtype)
    return paths, (paths * potentials).sum((-3, -2, -1))


def paths(published: Published) -> Outcome:
    """Each path is one tag sequence, or one monotonic alignment."""
    chain = om.Chain()
    rows = [
        near(f"paths for {n} words and {c} tags", c**n, chain.count(torch.zeros(n, c, c)), 0)
        for n, c in ((3, 3), (9, 17))
    ]
    alignment = om.Alignment()
    rows += [
        near(f"alignments of {m} and {n} frames", _delannoy(m - 1, n - 1), alignment.count(torch.zeros(m, n)), 0)
        for m, n in ((4, 4), (6, 9))
    ]
    listed, _ = _paths(_chain())
    rows.append(near("different paths among the 81 tag sequences", 81, len(listed.flatten(1).unique(dim=0)), 0))
    return Outcome(rows)


def _delannoy(m: int, n: int) -> int:
    """Counts the ways from one corner of a grid to the other by steps right, down and diagonal."""
    return sum(math.comb(m, k) * math.comb(n, k) * 2**k for k in range(min(m, n) + 1))


def bellman(published: Published) -> Outcome:
    """The recursion gives the score of the best path, backtracking the path; the path jumps."""
    chain, worst, wrong = om.Chain(), 0.0, 0
    for seed in range(20):
        potentials = _chain(seed)
        listed, scores = _paths(potentials)
        worst = max(worst, abs(float(chain.max(potentials, om.Hard()) - scores.max())))
        wrong += not torch.equal(chain.map(potentials), listed[scores.argmax()])
    tied = torch.zeros(1, 2, 2, dtype=torch.float64)
    sides = [chain.map(tied + torch.tensor([[[0.0, side], [0.0, 0.0]]])) for side in (-1e-9, 1e-9)]
    return Outcome(
        [
            same("DP(θ) and the best of 81 paths (20 draws)", worst),
            near("backtracked paths that are not the best", 0, wrong, 0),
            near("jump of MAP(θ) when a score moves by 2·10⁻⁹", 1, largest(sides[1] - sides[0]), 0),
        ]
    )


def gibbs(published: Published) -> Outcome:
    """Marginals of the Gibbs distribution by sums: the same programs with (+, ×) for (max, +); never zero."""
    cases: dict[str, tuple[om.structures.DynamicProgram, Tensor]] = {
        "Viterbi → forward–backward": (om.Chain(), _chain()),
        "CKY → inside–outside": (om.ConstituencyTree(), normal(5, 5, 1)),
        "DTW → soft-DTW": (om.Alignment(), normal(4, 4)),
    }
    rows = []
    for name, (structure, potentials) in cases.items():
        listed = structure.enumerate(potentials)
        scores = _inner(listed, potentials)
        expected = (scores.softmax(0).reshape(-1, *[1] * potentials.dim()) * listed).sum(0)
        ours = structure.argmax(potentials)
        rows.append(same(f"{name}: marginals and the sum over {len(listed)} structures", largest(ours - expected)))
        used = listed.amax(0) > 0
        inside = bool((ours[used] > 0).all())
        rows.append(
            finds(
                f"{name}: marginals of parts that some structure uses",
                "all > 0",
                f"least {ours[used].min():.1e}",
                inside,
            )
        )
    return Outcome(rows)


def _inner(listed: Tensor, potentials: Tensor) -> Tensor:
    """Returns <y, θ> of every structure; parts that no structure uses may score −inf."""
    return torch.where(listed > 0, listed * potentials, 0).flatten(1).sum(-1)


def over_all_structures(published: Published) -> Outcome:
    """marginal_Ω with ½‖p‖² is not a change of semiring, and can be computed exactly all the same."""
    rows, chain = [], om.Chain()
    error, differ, most = 0.0, 0.0, 0
    for seed in range(10):
        potentials = _chain(seed)
        listed, scores = _paths(potentials)
        weights = om.sparsemax(scores)
        expected = (weights.reshape(-1, 1, 1, 1) * listed).sum(0)
        found = chain.marginal(potentials, om.SquaredNorm())
        error = max(error, largest(found.weights - expected))
        differ = max(differ, largest(found.weights - chain.argmax(potentials, om.SquaredNorm())))
        most = max(most, int((weights > 0).sum()))
    rows.append(same("marginal_Ω by lazy k-best and by all 81 paths", error))
    rows.append(at_least("largest difference between marginal_Ω and ∇DP_Ω (no semiring)", 0.01, differ))
    rows.append(at_most("most paths with weight, of 81", 80, most, 0))
    return Outcome(rows)


def random_walk(published: Published) -> Outcome:
    """Probabilistic backpointers are one transition matrix for each step; they define a distribution over paths."""
    chain, rows = om.Chain(), []
    for name, omega in _OMEGAS.items():
        potentials = _chain()
        listed, _ = _paths(potentials)
        probabilities = chain.prob(potentials, listed, omega)
        matrices = chain.transition_matrices(potentials, omega)[0]
        rows.append(near(f"{name}: sum of the probabilities of all paths", 1, float(probabilities.sum()), 1e-9))
        rows.append(
            same(f"{name}: sums of the columns of {len(matrices)} matrices and 1", largest(matrices.sum(-2) - 1))
        )
        rows.append(
            near(
                f"{name}: paths of probability 0", 0, float((probabilities == 0).sum()), 0 if name == "entropy" else 80
            )
        )
    return Outcome(rows)


def expected_path(published: Published) -> Outcome:
    """∇DP_Ω(θ) = E_p[Y], the mean path of the walk, which lies in the hull."""
    chain, rows = om.Chain(), []
    for name, omega in _OMEGAS.items():
        potentials = _chain()
        listed, scores = _paths(potentials)
        mean = (chain.prob(potentials, listed, omega).reshape(-1, 1, 1, 1) * listed).sum(0)
        gradient = differences(lambda flat: chain.max(flat.reshape(_N, _C, _C), omega), potentials.flatten())  # noqa: B023
        ours = chain.argmax(potentials, omega)
        rows.append(
            same(f"{name}: ∇DP_Ω by differences and E_p[Y]", largest(gradient.reshape(mean.shape) - mean), 1e-7)
        )
        rows.append(same(f"{name}: argmax and E_p[Y]", largest(ours - mean)))
        if name == "entropy":
            gibbs_mean = (scores.softmax(0).reshape(-1, 1, 1, 1) * listed).sum(0)
            rows.append(same("entropy: ∇DP_Ω and Σ exp<y, θ> y / Z", largest(ours - gibbs_mean)))
    return Outcome(rows)


def convexity(published: Published) -> Outcome:
    """DP_Ω is convex, because max_Ω is increasing."""
    chain, rows = om.Chain(), []
    first, second = (normal(500, _N, _C, _C, seed=seed, scale=2) for seed in (0, 1))
    for name, omega in _OMEGAS.items():
        values = [chain.max(potentials, omega) for potentials in (first, second, (first + second) / 2)]
        rows.append(
            at_least(
                f"{name}: least of ½DP(θ) + ½DP(θ′) − DP(½θ + ½θ′), 500 pairs",
                0,
                float(((values[0] + values[1]) / 2 - values[2]).min()),
            )
        )
        x = normal(500, 5)
        gain = omega.max(x + normal(500, 5, seed=1).abs()) - omega.max(x)
        rows.append(at_least(f"{name}: least of max_Ω(y) − max_Ω(x) where x ≤ y", 0, float(gain.min())))
    return Outcome(rows)


def approximation(published: Published) -> Outcome:
    """(N − 1) L ≤ DP_Ω − DP ≤ (N − 1) U with L ≤ 0 ≤ U and L ≤ −Ω ≤ U on the simplex, N the nodes of the graph."""
    chain, rows = om.Chain(), []
    nodes, heads = _N * _C + 2, _N + 1  # with a source and a sink; every path takes five maxima, one of a single edge
    potentials = torch.cat([normal(200, _N, _C, _C, seed=i, scale=s) for i, s in enumerate((0.0, 0.1, 1.0, 10.0))])
    hard = chain.max(potentials, om.Hard())
    # Ω as the tutorial writes it, Σ p log p and ½‖p‖². Ours is ½(‖p‖² − 1): the value is higher by ½ at each maximum.
    for name, low, high, shift in (("entropy", 0.0, math.log(_C), 0.0), ("squared norm", -0.5, -0.5 / _C, -0.5)):
        gap = chain.max(potentials, _OMEGAS[name]) - hard + shift * heads
        rows.append(at_least(f"{name}: least of DP_Ω − DP, N = {nodes}", (nodes - 1) * low, float(gap.min())))
        rows.append(at_most(f"{name}: largest of DP_Ω − DP", (nodes - 1) * max(high, 0.0), float(gap.max())))
    said = f"no: {short((nodes - 1) * high)} < {short(float(gap.max()))}"
    rows.append(shown(f"squared norm with the tight U = {short(high)}: is (N − 1) U a bound?", said))
    return Outcome(rows)


def associativity(published: Published) -> Outcome:
    """max_Ω(x, max_Ω(y, z)) = max_Ω(max_Ω(x, y), z) and DP_Ω = max_Ω over all paths: for the entropy alone."""
    x, y, z = normal(3, 500)
    potentials = _chain(scale=0.3)
    _, scores = _paths(potentials)
    rows: list[Row] = []
    for name, omega in {
        **_OMEGAS,
        "Tsallis, α = 1.5": om.Tsallis(1.5),
        "½‖p‖_p², p = 1.5": om.SquaredPNorm(1.5),
    }.items():

        def pair(a: Tensor, b: Tensor, omega: om.SmoothMax = omega) -> Tensor:
            return omega.max(torch.stack([a, b], -1))

        sides = largest(pair(x, pair(y, z)) - pair(pair(x, y), z))
        whole = abs(float(om.Chain().max(potentials, omega) - omega.max(scores)))
        for what, difference in (("two ways to bracket", sides), ("DP_Ω and max_Ω of 81 paths", whole)):
            if name == "entropy":
                rows.append(same(f"{name}: {what}", difference))
            else:
                rows.append(finds(f"{name}: {what}", "not equal", f"differ by {difference:.1e}", difference > 1e-6))
    return Outcome(rows)


def sparse_and_stable(published: Published) -> Outcome:
    """DP_Ω works on any DAG, is sparse under the squared norm, and stays finite for huge scores."""
    edges = [(i, j) for i in range(7) for j in range(i + 1, 7) if (i + j) % 5 != 4]
    graph = om.Dag.from_edges(edges)
    scores = normal(len(edges))
    listed = graph.enumerate(scores)
    values = listed @ scores
    dense, sparse = graph.argmax(scores), graph.argmax(scores, om.SquaredNorm())
    huge = om.Chain().max(1e4 * torch.randn(50, 5, 5, generator=torch.Generator().manual_seed(0)))
    exponential = float(torch.tensor(1e4).exp())
    return Outcome(
        [
            same(
                f"a DAG of {len(edges)} edges: DP_Ω (entropy) and log Σ over {len(listed)} paths",
                abs(float(graph.max(scores) - values.logsumexp(0))),
            ),
            near("edges of weight 0, entropy", 0, float((dense == 0).sum()), 0),
            at_least("edges of weight 0, squared norm", 1, float((sparse == 0).sum())),
            finds(
                "float32, scores of size 10⁴: DP_Ω (exp of a score is " + f"{exponential:g})",
                "finite",
                f"{float(huge):.6g}",
                bool(huge.isfinite()),
            ),
        ]
    )


def chain_attention(published: Published) -> Outcome:
    """The marginals of a chain with two tags say which words of a sentence are attended to."""
    emissions = torch.stack([torch.zeros(500, 20).double(), normal(500, 20)], -1)
    potentials = om.Chain.from_emissions(emissions, torch.tensor([[0.5, 0.0], [0.0, 0.5]], dtype=torch.float64))
    weights = om.Chain().argmax(potentials).emissions[..., 1]
    equal = sum(row.unique().numel() < 20 for row in weights)
    sparse = om.fusedmax(normal(500, 20))
    return Outcome(
        [
            near("marginals of exactly 0, of 10 000", 0, float((weights == 0).sum()), 0),
            near("rows with two equal marginals, of 500", 0, equal, 0),
            at_least("fusedmax: rows with zeros, of 500", 500, float((sparse == 0).any(-1).sum())),
        ]
    )
