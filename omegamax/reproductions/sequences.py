"""Computes attention, denoising, alignments and losses of sequences, as the tutorial states them."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

import omegamax as om
from omegamax.reproductions.claim import Outcome, Published, at_least, finds, near, same
from omegamax.reproductions.numerical_checks import differences, largest, normal

_TAGS = ["O", *(f"{place}-{kind}" for kind in ("LOC", "ORG", "PER", "MISC") for place in "SBIE")]
_EXAMPLE = "S-ORG O B-PER E-PER O O O O S-LOC"


def attention_step(published: Published) -> Outcome:
    """θ = H q, p = softmax(θ), a = pᵀ H, and the softmax formula."""
    states, query = normal(7, 5), normal(1, 5, seed=1)
    scores = states @ query[0]
    by_hand = scores.exp() / scores.exp().sum()
    attended = om.Attention(om.DotProduct())(query, states)
    return Outcome(
        [
            same("softmax and exp(θ) / Σ exp(θ)", largest(om.softmax(scores) - by_hand)),
            same("attention weights of om.Attention", largest(attended.weights[0] - by_hand)),
            same("aggregated vector of om.Attention and pᵀ H", largest(attended.output[0] - by_hand @ states)),
        ]
    )


def one_hot(published: Published) -> Outcome:
    """The argmax over corners is the argmax over the simplex."""
    scores = normal(100, 6)
    corners = torch.eye(6, dtype=torch.float64)
    best = corners[(scores @ corners).argmax(-1)]
    near_hard = om.sparsemax(scores, gamma=1e-6)
    return Outcome(
        [
            same("hardmax and the best corner", largest(om.hardmax(scores) - best)),
            same("sparsemax over the simplex as γ → 0 and the best corner", largest(near_hard - best)),
        ]
    )


def table_of_regularizers(published: Published) -> Outcome:
    """softmax, sparsemax, fusedmax are argmax_Ω of the entropy, the squared norm, the squared norm + fused lasso."""
    p, scores = normal(20, 6).softmax(-1), normal(20, 6, seed=1)
    square = 0.5 * p.square().sum(-1)
    by_hand = {
        "softmax": (om.Shannon(), om.softmax, (p * p.log()).sum(-1)),
        "sparsemax": (om.SquaredNorm(), om.sparsemax, square - 0.5),
        "fusedmax": (om.Fused(0.1), om.fusedmax, square - 0.5 + 0.1 * p.diff(dim=-1).abs().sum(-1)),
    }
    rows = []
    for name, (smooth, function, omega) in by_hand.items():
        rows.append(same(f"{name}: Ω (up to the constant ½)", largest(smooth.omega(p) - omega)))
        rows.append(same(f"{name}: the function and argmax_Ω", largest(function(scores) - smooth.argmax(scores))))
    return Outcome(rows)


def total_variation(published: Published) -> Outcome:
    """prox_TV as the tutorial displays it, without the factor ½: its λ is twice the paper's."""
    x, strength = normal(200, 12), 0.6

    def displayed(y: Tensor) -> Tensor:
        return (x - y).square().sum(-1) + strength * y.diff(dim=-1).abs().sum(-1)

    ours = om.prox_tv1d(x, strength / 2)
    others = torch.stack(
        [displayed(ours + step * normal(200, 12, seed=7 + i)) for i, step in enumerate((0.3, 0.03, 0.003))]
    )
    worse = displayed(om.prox_tv1d(x, strength)) - displayed(ours)
    truth, noisy = _steps()
    result = om.prox_tv1d(noisy, 2.5)
    error = {name: float((signal - truth).square().mean()) for name, signal in (("noisy", noisy), ("denoised", result))}

    def draw() -> object:
        from omegamax import plots

        return plots.denoising(noisy, 2.5, truth=truth)

    return Outcome(
        [
            at_least(
                "displayed objective elsewhere − at prox_tv1d(x, λ/2)", 0, float((others - displayed(ours)).min())
            ),
            at_least("the same at prox_tv1d(x, λ), mean", 1e-3, float(worse.mean())),
            finds(
                "200 noisy points: jumps after denoising",
                "piecewise constant",
                f"{int((result.diff() != 0).sum())} jumps",
                int((result.diff() != 0).sum()) < 20,
            ),
            at_least("squared error: noisy / denoised", 3, error["noisy"] / error["denoised"]),
        ],
        draw,
    )


def _steps() -> tuple[Tensor, Tensor]:
    levels = torch.tensor([0.0, 1.5, 1.0, -0.8, 0.4], dtype=torch.float64)
    truth = levels.repeat_interleave(torch.tensor([45, 35, 40, 30, 50]))
    return truth, truth + normal(200, scale=0.35)


def alignments(published: Published) -> Outcome:
    """DTW's path, the expected alignment of soft-DTW, and the sparse one of the squared norm."""
    time = torch.linspace(0, 1, 30, dtype=torch.float64)
    x, y = (6 * time).sin().unsqueeze(-1), (6 * time[:24] ** 1.4).sin().unsqueeze(-1)
    rows = []
    for name, omega, dense in (
        ("hard", om.Hard(), False),
        ("entropy", om.Shannon(), True),
        ("squared norm", om.SquaredNorm(), False),
    ):
        expected = om.soft_dtw_alignment(x, y, 0.1, regularizer=omega)
        share = float((expected == 0).double().mean())
        rows.append(
            finds(
                f"{name}: cells of weight 0",
                "none" if dense else "most",
                f"{100 * share:.0f} %",
                share == 0 if dense else share > 0.5,
            )
        )
        rows.append(same(f"{name}: weight of both ends and 1", largest(expected[[0, -1], [0, -1]] - 1)))
    costs = om.structures.squared_euclidean(x.unsqueeze(1), y)
    gradient = differences(
        lambda flat: om.structures.soft_dtw_from_costs(flat.reshape(costs.shape), 0.1), costs.flatten()
    )
    ours = om.soft_dtw_alignment(x, y, 0.1)
    rows.append(
        same(
            "soft-DTW: gradient in the costs, by differences, and the expected alignment",
            largest(gradient.reshape(costs.shape) - ours),
            1e-6,
        )
    )
    rows.append(
        same(
            "soft-DTW at γ = 10⁻⁶ and DTW",
            abs(float(om.soft_dtw(x, y, 1e-6) - om.soft_dtw(x, y, regularizer=om.Hard()))),
            1e-4,
        )
    )

    def draw() -> object:
        from omegamax import plots

        return plots.alignment_comparison(x.squeeze(-1), y.squeeze(-1), gamma=0.1)

    return Outcome(rows, draw)


def losses(published: Published) -> Outcome:
    """DP(θ) − <θ, y> is the perceptron's, DP_Ω(θ) − <θ, y> with the entropy the CRF's, with ½‖·‖² a third."""
    chain, theta = om.Chain(), normal(5, 3, 3)
    gold = chain.from_tags(torch.tensor([0, 2, 1, 1, 0]), 3, dtype=torch.float64)
    score = (gold * theta).sum()
    perceptron = om.PerceptronLoss(chain)(theta, gold)
    crf = om.CRFLoss(chain)(theta, gold)
    sparse = om.FenchelYoungLoss(om.Smoothed(chain, om.SquaredNorm()))(theta, gold)
    sure = om.FenchelYoungLoss(om.Smoothed(chain, om.SquaredNorm()))(4 * gold, gold)
    return Outcome(
        [
            same(
                "structured perceptron and max <θ, y> − <θ, y_true>",
                abs(float(perceptron - (chain.max(theta, om.Hard()) - score))),
            ),
            same("entropy: DP_Ω(θ) − <θ, y_true> and −log p(y_true)", abs(float(crf + chain.log_prob(theta, gold)))),
            same(
                "squared norm: loss and DP_Ω(θ) − <θ, y_true>",
                abs(float(sparse - (chain.max(theta, om.SquaredNorm()) - score))),
            ),
            near("squared norm: loss where the gold path leads by enough (a CRF's is never 0)", 0, float(sure), 0),
            at_least("CRF loss there", 1e-6, float(om.CRFLoss(chain)(4 * gold, gold))),
        ]
    )


def deciding(published: Published) -> Outcome:
    """A decision can be the best path, the expected path or, where that is sparse, all paths sorted by probability."""
    chain, theta = om.Chain(), normal(6, 4, 4, scale=0.6)
    found = chain.support(theta, om.SquaredNorm())
    falls = bool((found.probabilities.diff() <= 0).all())
    expected = (found.probabilities.reshape(-1, 1, 1, 1) * found.structures).sum(0)
    return Outcome(
        [
            finds(
                "paths with probability above 0",
                "few of 4096",
                str(len(found.probabilities)),
                len(found.probabilities) < 200,
            ),
            finds("in order of probability", "yes", "yes" if falls else "no", falls),
            near("sum of their probabilities", 1, float(found.probabilities.sum()), 1e-9),
            same("their mean and the expected path", largest(expected - chain.argmax(theta, om.SquaredNorm()))),
        ]
    )


def entity_tags(published: Published) -> Outcome:
    """There are 4 kinds × 4 places of tags, and O; the example is a valid sequence of whole entities."""
    allowed = om.allowed_transitions(_TAGS, "BIOES")
    tags = [_TAGS.index(tag) for tag in _EXAMPLE.split()]
    valid = bool(
        allowed.start[tags[0]] and allowed.end[tags[-1]] and all(allowed.transitions[a, b] for a, b in pairwise(tags))
    )
    return Outcome(
        [
            near("tags: 4 kinds × 4 places", 16, len(_TAGS) - 1, 0),
            near(
                "tags of the example",
                len(["Apple", "CEO", "Tim", "Cook", "introduces", "new", "iphone", "in", "Cupertino."]),
                len(tags),
                0,
            ),
            finds(f"{_EXAMPLE}", "valid", "valid" if valid else "not valid", valid),
        ]
    )
