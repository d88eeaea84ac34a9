"""Five estimators of the gradient through a choice, and how noisy each is.

A query looks at one of eight places (sparsemax gives a few of them a probability) and a small network says how likely
the right answer is from what it sees there. The gradient of  L_s = Σ_s p(s) log p(y | s)  with respect to the query is
estimated many times, and compared with the true one, which is found by going through all places.

    python examples/hard_attention.py [number of estimates]
"""

import sys

import torch
from torch import nn

import omegamax as om

KEYS, SIZE, CLASSES = 8, 6, 4


def gradients(attention, query, key, network, target, n_draws, generator):
    """Estimates (n_draws, SIZE) of the gradient of L_s, and the number of places that each looked at."""
    found = []
    for _ in range(n_draws):
        glimpses = attention(query, key, generator=generator)
        log_likelihood = network(glimpses.output).log_softmax(-1)[..., target]  # (n, 1)
        objective = attention.objective(log_likelihood, glimpses).sum()
        found.append(torch.autograd.grad(objective, query)[0][0])
    return torch.stack(found), len(glimpses.output)


def main(n_draws: int = 1000) -> None:
    torch.set_num_threads(1)  # the tensors are tiny: threads would only wait for each other
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    network = nn.Sequential(nn.Linear(SIZE, 16), nn.Tanh(), nn.Linear(16, CLASSES))
    query = torch.randn(1, SIZE, requires_grad=True)
    key, target = 2 * torch.randn(KEYS, SIZE), 2
    sparse = om.Scaled(om.SquaredNorm(), 2.0)

    weights = om.Attention(normalizer=sparse)(query, key).weights
    each = network(key).log_softmax(-1)[:, target]  # log p(y | s), every place
    (exact,) = torch.autograd.grad((weights * each).sum(), query)
    print("probabilities of the places:", [round(p, 3) for p in weights[0].tolist()])
    print(f"bound L_s = {(weights * each).sum():.4f}  ≤  log p(y) = {(weights[0] * each.exp()).sum().log():.4f}")
    print(f"length of the true gradient: {exact.norm():.4f}\n")

    estimators = {
        "REINFORCE": om.attention.Reinforce(),
        "with a moving average": om.attention.Reinforce(baseline=om.attention.MovingAverage()),
        "and half of it soft": om.attention.SometimesSoft(
            om.attention.Reinforce(baseline=om.attention.MovingAverage())
        ),
        "straight-through": om.attention.StraightThrough(),
        "marginalised": om.attention.Marginalize(),
    }
    print("estimator                 places seen    variance        bias")
    for name, estimator in estimators.items():
        attention = om.HardAttention(normalizer=sparse, estimator=estimator)
        gradients(attention, query, key, network, target, min(50, n_draws), generator)  # the baseline settles
        found, n_seen = gradients(attention, query, key, network, target, n_draws, generator)
        variance = found.var(0, unbiased=False).sum()
        bias = (found.mean(0) - exact[0]).norm()
        print(f"{name:24s} {n_seen:9d}       {variance:9.5f}   {bias:9.5f}")
    print("\nREINFORCE has no bias: what is shown is chance. Mixing and straight-through have one.")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
