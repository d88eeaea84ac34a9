"""Soft attention as the lecture defines it: scores, windows, complexity, and the bridge from gated recurrence."""

from __future__ import annotations

import itertools

import torch
from torch import nn

import omegamax as om
from omegamax.reproductions.claim import Outcome, Published, at_most, finds, near, same, shown
from omegamax.reproductions.numerical_checks import largest, normal, seeded


def additive(published: Published) -> Outcome:
    """Checks e = vᵀ tanh(W s + U h), α = softmax(e), c = Σ α h; one score for every pair."""
    with seeded():
        score = om.Additive(4, 5, hidden_size=6).double()
    queries, keys = normal(3, 4), normal(7, 5, seed=1)
    with torch.no_grad():
        attended = om.Attention(score)(queries, keys)
        v, bias = score.out.weight[0], score.of_query.bias
        of_query, of_key = score.of_query.weight, score.of_key.weight
        e = torch.stack([torch.stack([v @ (of_query @ s + of_key @ h + bias).tanh() for h in keys]) for s in queries])
    counted = {n: int(om.Attention(om.DotProduct())(normal(n, 4), normal(n, 4)).weights.numel()) for n in (10, 20)}
    return Outcome(
        [
            same("weights and softmax of vᵀ tanh(W s + U h)", largest(attended.weights - e.softmax(-1))),
            same("context and Σ α h", largest(attended.output - e.softmax(-1) @ keys)),
            near("scores for 20 and 20 over those for 10 and 10 (quadratic)", 4, counted[20] / counted[10], 0),
        ]
    )


def score_functions(published: Published) -> Outcome:
    """Dot products grow with √d; divided by it they do not; they have no parameters and need equal sizes."""
    rows = []
    for d in (16, 256, 1024):
        q, k = normal(400, d), normal(400, d, seed=1)
        rows.append(near(f"d = {d}: spread of q·k", d**0.5, float(om.DotProduct()(q, k).std()), 0.05 * d**0.5))
        rows.append(near(f"d = {d}: spread of q·k / √d", 1, float(om.ScaledDotProduct()(q, k).std()), 0.05))
    with seeded():
        bilinear = om.Bilinear(3, 4).double()
    q, k = normal(2, 3), normal(5, 4)
    rows.append(same("bilinear score and qᵀ W k", largest(bilinear(q, k) - q @ bilinear.weight @ k.T)))
    rows.append(near("parameters of the dot product", 0, sum(1 for _ in om.DotProduct().parameters()), 0))
    try:
        om.DotProduct()(q, k)
        said = "accepted"
    except ValueError:
        said = "refused"
    rows.append(finds("dot product of sizes 3 and 4", "sizes must agree", said, said == "refused"))
    return Outcome(rows)


def gaussian_windows(published: Published) -> Outcome:
    """φ(t, u) = Σ α exp(−β (κ − u)²), κ_t = κ_{t−1} + exp(κ̂_t): the window only moves on."""
    with seeded():
        layer = om.attention.GaussianMixtureAttention(3, n_components=2).double()
    query, value = normal(4, 3), normal(7, 5, seed=1)
    with torch.no_grad():
        located = layer(query, value)
        log_alpha, log_beta, log_step = layer.of_query(query).chunk(3, -1)
        locations = layer.window(query, 7).locations
    kappa, phi = torch.zeros(2, dtype=torch.float64), torch.zeros(4, 7, dtype=torch.float64)
    for t in range(4):
        kappa = kappa + log_step[t].exp()
        for u in range(1, 8):
            phi[t, u - 1] = (log_alpha[t].exp() * torch.exp(-log_beta[t].exp() * (kappa - u) ** 2)).sum()
    return Outcome(
        [
            same("weights of om.attention.GaussianMixtureAttention and φ(t, u)", largest(located.weights - phi)),
            same("its output and Σ φ(t, u) c_u", largest(located.output - phi @ value)),
            finds(
                "steps of κ",
                "all forward",
                f"least {locations.diff(dim=0).min():.2g}",
                bool((locations.diff(dim=0) > 0).all()),
            ),
        ]
    )


def ctc(published: Published) -> Outcome:
    """p(l | x) sums over all labellings that collapse to l: all of them, against the dynamic program."""
    labels, n_frames, blank = [1, 2, 2], 6, 0
    log_probs = normal(n_frames, 3).log_softmax(-1)
    total, n_paths = torch.zeros(()).double(), 0
    for path in itertools.product(range(3), repeat=n_frames):
        collapsed = [label for label, group in itertools.groupby(path) if label != blank]
        if collapsed == labels:
            total, n_paths = total + log_probs[range(n_frames), list(path)].sum().exp(), n_paths + 1
    lengths = torch.tensor([n_frames]), torch.tensor([3])
    loss = om.ctc_loss(log_probs.unsqueeze(1), torch.tensor([labels]), *lengths, reduction="sum")
    potentials = om.CTC.from_log_probs(log_probs.unsqueeze(1), torch.tensor([labels]))
    return Outcome(
        [
            same("−log p(l | x) and the sum over labellings", abs(float(loss + total.log()))),
            near("labellings that collapse to l", n_paths, om.CTC().count(potentials)[0], 0),
            shown("labellings tried", f"3⁶ = {3**6}"),
        ]
    )


def unrolled_gru(published: Published) -> Outcome:
    """h_T as a weighted sum of candidates: with the printed products, and with those that unrolling gives."""
    printed, right = 0.0, 0.0
    for t in (1, 2, 3, 5):
        u, candidates = normal(t, seed=t).sigmoid(), normal(t, seed=10 + t)
        state = torch.zeros(()).double()
        for i in range(t):
            state = u[i] * state + (1 - u[i]) * candidates[i]
        as_printed = sum(
            u[i - 1 : t - i + 1].prod() * (1 - u[: i - 1]).prod() * candidates[i - 1] for i in range(1, t + 1)
        )
        unrolled = sum((1 - u[i]) * u[i + 1 :].prod() * candidates[i] for i in range(t))
        printed, right = max(printed, abs(float(state - as_printed))), max(right, abs(float(state - unrolled)))
    return Outcome(
        [
            same("h_t and Σ (Π_{j=i}^{t−i+1} u_j)(Π_{k<i} (1 − u_k)) h̃_i, as printed", printed),
            same("h_t and Σ (1 − u_i)(Π_{j>i} u_j) h̃_i", right),
        ]
    )


def long_dependencies(published: Published) -> Outcome:
    """A product of 50 Jacobians vanishes below singular value 1, explodes above, and spreads if it is random."""
    rows = []
    turn = torch.linalg.qr(normal(8, 8)).Q
    for value in (0.9, 1.1):
        size = float(torch.linalg.matrix_norm(torch.linalg.matrix_power(value * turn, 50), 2))
        rows.append(near(f"singular values {value}: norm of the product, over {value}⁵⁰", 1, size / value**50, 1e-6))
    spreads = []
    for steps in (10, 20, 40):
        product = torch.eye(8, dtype=torch.float64).expand(200, 8, 8)
        for step in range(steps):
            product = product @ normal(200, 8, 8, seed=step)
        spreads.append(float(product.var()))
    said = ", ".join(f"{spread:.1e}" for spread in spreads)
    rows.append(
        finds(
            "normal Jacobians: variance after 10, 20, 40 steps",
            "grows exponentially",
            said,
            spreads[1] / spreads[0] > 1e6 and spreads[2] / spreads[1] > 1e12,
        )
    )
    return Outcome(rows)


def geometric_mean(published: Published) -> Outcome:
    """NWGM of softmaxes = softmax of the expected logits, which approximates the expected softmax."""
    logits, weights = normal(200, 5, 8), om.sparsemax(normal(200, 5, seed=1))
    geometric = (logits.exp() ** weights.unsqueeze(-1)).prod(1)
    geometric = geometric / geometric.sum(-1, keepdim=True)
    expected = om.softmax((weights.unsqueeze(-1) * logits).sum(1))
    mean = (weights.unsqueeze(-1) * logits.softmax(-1)).sum(1)
    return Outcome(
        [
            same("NWGM[p(y = k | a)] and the softmax of E[n]", largest(geometric - expected)),
            at_most(
                "NWGM ≈ E[p(y = k | a)]: mean distance, total variation",
                0.2,
                float(0.5 * (geometric - mean).abs().sum(-1).mean()),
            ),
        ]
    )


def expected_state(published: Published) -> Outcome:
    """Compares the mean of h over the choices of hard attention with h of the mean context, in an LSTM cell."""
    with seeded():
        cell = nn.LSTMCell(4, 6).double()
    annotations, weights = normal(5, 4, scale=2), om.softmax(normal(5, seed=1))
    with torch.no_grad():
        each = cell(annotations)[0]
        once = cell((weights @ annotations).unsqueeze(0))[0][0]
        small = cell((weights @ (0.01 * annotations)).unsqueeze(0))[0][0] - weights @ cell(0.01 * annotations)[0]
    return Outcome(
        [
            same("E[h] and h of the expected context", largest(weights @ each - once)),
            at_most("the same with a hundredth of the context (a first-order approximation)", 1e-4, largest(small)),
        ]
    )


def grid_annotations(published: Published) -> Outcome:
    """A grid of 14 × 14 × 512 is 196 × 512 annotations (L × D); grid attention reads them."""
    grid = normal(14, 14, 512, scale=0.1)
    attended = om.attention.GridAttention()(normal(1, 512, scale=0.1), grid)
    return Outcome(
        [
            near("L", published["L"], grid.flatten(0, 1).shape[0], 0),
            near("D", published["D"], grid.shape[-1], 0),
            near("sum of the weights over the 14 × 14 places", 1, float(attended.weights.sum()), 1e-9),
            same("context and Σ α a", largest(attended.output[0] - attended.weights.flatten() @ grid.flatten(0, 1))),
        ]
    )


def lstm_with_context(published: Published) -> Outcome:
    """Equations (1) to (3): gates of [E y; h; ẑ], c = f ⊙ c + i ⊙ g, h = o ⊙ tanh(c), against PyTorch's cell."""
    with seeded():
        cell = nn.LSTMCell(3 + 4, 5).double()
    word, context, hidden, memory = normal(3), normal(4, seed=1), normal(5, seed=2), normal(5, seed=3)
    with torch.no_grad():
        both = torch.cat([cell.weight_ih, cell.weight_hh], 1)
        affine = both @ torch.cat([word, context, hidden]) + cell.bias_ih + cell.bias_hh
        theirs = cell(torch.cat([word, context]).unsqueeze(0), (hidden.unsqueeze(0), memory.unsqueeze(0)))
    i, f, g, o = affine.chunk(4)
    c = f.sigmoid() * memory + i.sigmoid() * g.tanh()
    h = o.sigmoid() * c.tanh()
    return Outcome(
        [same("c and that of an LSTM cell", largest(theirs[1][0] - c)), same("h", largest(theirs[0][0] - h))]
    )
