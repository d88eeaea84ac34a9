"""SparseMAP as an output layer: its loss, what training does to it, and readings of a sentence."""

from __future__ import annotations

import torch

import omegamax as om
from omegamax.reproductions.claim import Outcome, Published, at_least, finds, near, same, shown
from omegamax.reproductions.numerical_checks import normal


def margin_loss(published: Published) -> Outcome:
    """max_μ <η, μ> − ½‖μ‖² + ρ(μ, μ̄), less <η, μ̄> − ½‖μ̄‖²: a Fenchel–Young loss."""
    matching, eta = om.Matching(), normal(4, 4)
    gold = torch.eye(4, dtype=torch.float64)[[2, 0, 1, 3]]
    found = matching.sparsemap(eta + (1 - gold))  # ρ counts wrong parts: linear in μ
    printed = (
        (eta * found.marginals).sum() - 0.5 * found.marginals.square().sum() + ((1 - gold) * found.marginals).sum()
    )
    loss = om.MarginSparseMAPLoss(matching)(eta, gold)
    reference = (eta * gold).sum() - 0.5 * gold.square().sum()
    sure = om.MarginSparseMAPLoss(matching)(5 * gold, gold)
    crf, svm = om.CRFLoss(om.Chain()), om.MarginLoss(om.Smoothed(om.Chain(), om.Hard()))
    family = all(isinstance(kind, om.losses.Loss) for kind in (crf, svm, om.MarginSparseMAPLoss(matching)))
    return Outcome(
        [
            same(
                "om.MarginSparseMAPLoss and the printed maximum − <η, μ̄> + ½‖μ̄‖²",
                abs(float(loss - (printed - reference))),
            ),
            near("loss where the gold matching leads by the margin", 0, float(sure), 1e-12),
            finds(
                "CRF, structured SVM and SparseMAP losses",
                "one family",
                "one class, om.losses.Loss" if family else "no",
                family,
            ),
        ]
    )


def training_sparsifies(published: Published) -> Outcome:
    """As models train, inference gets sparser: a linear arc scorer on made-up sentences, SparseMAP loss."""
    generator = torch.Generator().manual_seed(0)
    n, features = 7, 12
    inputs = torch.randn(25, n + 1, n + 1, features, dtype=torch.float64, generator=generator)
    truth = torch.randn(features, dtype=torch.float64, generator=generator)
    tree = om.ProjectiveTree()
    gold = tree.map(inputs @ truth)
    weight = torch.zeros(features, dtype=torch.float64, requires_grad=True)
    optimizer, loss = torch.optim.Adam([weight], lr=0.1), om.SparseMAPLoss(tree)
    sizes = {}
    for step in range(41):
        if step in (5, 15, 40):
            found = tree.sparsemap((inputs @ weight).detach())
            sizes[step] = float((found.probabilities > 0).sum(-1).double().mean())
        optimizer.zero_grad()
        loss(inputs @ weight, gold).backward()
        optimizer.step()
    right = float((tree.map(inputs @ weight.detach()) * gold).sum((-2, -1)).mean()) / n
    said = ", ".join(f"{size:.1f}" for size in sizes.values())
    return Outcome(
        [
            finds(
                "trees selected per sentence after 5, 15, 40 steps",
                "falls",
                said,
                list(sizes.values()) == sorted(sizes.values(), reverse=True),
            ),
            at_least("share of arcs found, after training", 0.9, right),
        ]
    )


def ambiguity(published: Published) -> Outcome:
    """A sentence with two readings: MAP hides one, SparseMAP lists both, the entropy gives every arc a share."""
    words = ("she", "saw", "the", "man", "with", "a", "telescope")
    arcs = {(0, 2): 4.0, (2, 1): 4.0, (2, 4): 4.0, (4, 3): 4.0, (2, 5): 2.3, (4, 5): 2.0, (5, 7): 4.0, (7, 6): 4.0}
    scores = torch.zeros(8, 8, dtype=torch.float64)
    for (head, modifier), score in arcs.items():
        scores[head, modifier] = score
    tree = om.ProjectiveTree()
    found, dense = tree.sparsemap(scores), tree.argmax(scores)

    def draw() -> object:
        from omegamax import plots

        trees = {
            "MAP": tree.map(scores),
            "entropy": dense,
            f"SparseMAP, {len(found.probabilities)} trees": found.marginals,
        }
        return plots.dependency_arcs(trees, words)

    return Outcome(
        [
            near("readings that SparseMAP lists", 2, len(found.probabilities), 0),
            shown("their probabilities", ", ".join(f"{p:.2f}" for p in found.probabilities.tolist())),
            near("arcs with probability, SparseMAP (8 with both readings)", 8, float((found.marginals > 0).sum()), 0),
            at_least("arcs with probability, entropy", 40, float((dense > 0).sum())),
        ],
        draw,
    )
