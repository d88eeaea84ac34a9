"""`compat.torch_struct` against all structures written out, and against torch-struct where it is installed."""

import itertools

import pytest
import torch

from omegamax.compat import torch_struct as ours

C, K, N = 2, 3, 4


def is_tree(heads):
    """Heads of words 1.. with 0 for the root: does every word reach the root?"""
    for word in range(1, len(heads) + 1):
        seen = set()
        while word:
            if word in seen:
                return False
            seen.add(word)
            word = heads[word - 1]
    return True


def crosses(heads):
    arcs = [(min(h, m), max(h, m)) for m, h in enumerate(heads, 1)]
    return any(a < c < b < d for a, b in arcs for c, d in arcs)


def chains(n, shape):
    for tags in itertools.product(range(C), repeat=n):
        event = torch.zeros(shape)
        for place, (before, tag) in enumerate(itertools.pairwise(tags)):
            event[place, tag, before] = 1
        yield event


def walks(n, shape):
    for cut in itertools.product([False, True], repeat=n - 1):
        places = [0, *(p for p in range(1, n) if cut[p - 1])]
        if places[-1] != n - 1 or any(b - a >= K for a, b in itertools.pairwise(places)):
            continue
        for tags in itertools.product(range(C), repeat=len(places)):
            event = torch.zeros(shape)
            for (a, b), (before, tag) in zip(itertools.pairwise(places), itertools.pairwise(tags)):
                event[a, b - a, tag, before] = 1
            yield event


def dependencies(n, shape, *, projective, multiroot):
    for heads in itertools.product(range(n + 1), repeat=n):
        if not is_tree(heads) or (projective and crosses(heads)) or not (multiroot or heads.count(0) == 1):
            continue
        labels = range(shape[2]) if len(shape) == 3 else [None]
        for chosen in itertools.product(labels, repeat=n):
            event = torch.zeros(shape)
            for m, (h, label) in enumerate(zip(heads, chosen)):
                cell = (m if h == 0 else h - 1, m)
                event[cell if label is None else (*cell, label)] = 1
            yield event


def spans(n, shape):
    def trees(i, j):
        if i == j:
            yield [(i, j)]
        for k in range(i, j):
            for left, right in itertools.product(list(trees(i, k)), list(trees(k + 1, j))):
                yield [(i, j), *left, *right]

    for tree in trees(0, n - 1):
        for labels in itertools.product(range(shape[-1]), repeat=len(tree)):
            event = torch.zeros(shape)
            for (i, j), label in zip(tree, labels):
                event[i, j, label] = 1
            yield event


def alignments(n, shape, *, local=False, max_gap=None):
    m = shape[1]

    def paths(i, j):
        if max_gap is not None and abs(i - j) > max_gap:
            return
        if (local or (i, j) == (0, 0)) and i >= 0 and j >= 0:
            yield [(i, j, 1)]
        for op, (di, dj) in enumerate([(0, 1), (1, 1), (1, 0)]):
            if i >= di and j >= dj:
                for path in paths(i - di, j - dj):
                    yield [*path, (i, j, op)]

    for i, j in itertools.product(range(n), range(m)) if local else [(n - 1, m - 1)]:
        for path in paths(i, j):
            event = torch.zeros(shape)
            for cell in path:
                event[cell] = 1
            yield event


CASES = {
    "LinearChainCRF": (ours.LinearChainCRF, (N - 1, C, C), chains, {}),
    "SemiMarkovCRF": (ours.SemiMarkovCRF, (N - 1, K, C, C), walks, {}),
    "TreeCRF": (ours.TreeCRF, (3, 3, 2), spans, {}),
    "AlignmentCRF": (ours.AlignmentCRF, (3, 3, 3), alignments, {}),
    "AlignmentCRF, local": (ours.AlignmentCRF, (2, 3, 3), alignments, {"local": True}),
    "AlignmentCRF, near": (ours.AlignmentCRF, (3, 3, 3), alignments, {"max_gap": 1}),
}
for multiroot, labels in itertools.product([True, False], [(), (2,)]):
    shape, name = (3, 3, *labels), f"{'many' if multiroot else 'one'}{', labels' if labels else ''}"
    for kind, projective in ((ours.DependencyCRF, True), (ours.NonProjectiveDependencyCRF, False)):

        def listed(n, shape, *, multiroot, projective=projective):
            return dependencies(n, shape, projective=projective, multiroot=multiroot)

        CASES[f"{kind.__name__}, {name}"] = (kind, shape, listed, {"multiroot": multiroot})
PLAIN = ["LinearChainCRF", "SemiMarkovCRF", "TreeCRF", "DependencyCRF, many", "DependencyCRF, one"]


def full(kind, shape):
    return shape[0] + 1 if kind in (ours.LinearChainCRF, ours.SemiMarkovCRF) else shape[0]


def case(name, seed=0):
    """The distribution of two items, the second shorter, and all structures of each."""
    kind, shape, list_all, options = CASES[name]
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(2, *shape, dtype=torch.double, generator=generator)
    n = full(kind, shape)
    lengths = torch.tensor([n, n - 1])
    every = [torch.stack(list(list_all(length, shape, **options))).double() for length in (n, n - 1)]
    return kind, scores, lengths, options, every


@pytest.mark.parametrize("name", CASES)
def test_sums_over_all_structures(name):
    kind, scores, lengths, options, every = case(name)
    dist, other = kind(scores, lengths=lengths, **options), kind(scores.flip(0) * 0.5, lengths=lengths, **options)
    axes = tuple(range(1, scores.dim()))
    log_z = []
    for b, events in enumerate(every):
        values = (events * scores[b]).sum(axes)
        assert dist.count[b] == len(events)
        log_z.append(values.logsumexp(0))
        chances = values.softmax(0)
        other_values = (events * other.log_potentials[b]).sum(axes)
        marginals = (chances.reshape(-1, *(1,) * len(axes)) * events).sum(0)
        torch.testing.assert_close(dist.marginals[b], marginals)
        torch.testing.assert_close(dist.max[b], values.max())
        torch.testing.assert_close(dist.argmax[b], events[values.argmax()])
        entropy = -(chances * chances.log()).sum()
        torch.testing.assert_close(dist.entropy[b], entropy)
        cross = -(chances * other_values.log_softmax(0)).sum()
        torch.testing.assert_close(dist.cross_entropy(other)[b], cross)
        torch.testing.assert_close(dist.kl(other)[b], cross - entropy)
        both = torch.stack([events, events], 1)
        torch.testing.assert_close(dist.log_prob(both)[:, b], values - log_z[-1])
    torch.testing.assert_close(dist.log_partition, torch.stack(log_z))
    torch.testing.assert_close(dist.partition, dist.log_partition)
    torch.testing.assert_close(dist.mode, dist.argmax)
    leaf = scores.clone().requires_grad_()
    (grad,) = torch.autograd.grad(kind(leaf, lengths=lengths, **options).partition.sum(), leaf)
    torch.testing.assert_close(grad, dist.marginals)


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("Non")])
def test_the_best_in_order(name):
    kind, scores, lengths, options, every = case(name)
    dist = kind(scores, lengths=lengths, **options)
    structures, values = dist.topk(4), dist.kmax(4)
    assert structures.shape == (4, *scores.shape) and values.shape == (4, 2)
    axes = tuple(range(1, scores.dim()))
    for b, events in enumerate(every):
        ranked = (events * scores[b]).sum(axes).sort(descending=True)
        n = min(4, len(events))
        torch.testing.assert_close(values[:n, b], ranked.values[:n])
        torch.testing.assert_close(structures[:n, b], events[ranked.indices[:n]])
        assert (values[n:, b] == -torch.inf).all() and (structures[n:, b] == 0).all()


@pytest.mark.parametrize("name", CASES)
def test_samples_are_structures_with_the_right_mean(name):
    kind, scores, lengths, options, every = case(name)
    dist = kind(scores, lengths=lengths, **options)
    drawn = dist.sample((400,))
    assert drawn.shape == (400, *scores.shape)
    torch.testing.assert_close(drawn.mean(0), dist.marginals, atol=0.12, rtol=0)
    for b, events in enumerate(every):
        distance = (drawn[:20, b, None] - events).flatten(2).abs().sum(-1)
        assert (distance.min(1).values == 0).all()
    assert dist.sample((2, 3)).shape == (2, 3, *scores.shape) and dist.sample().shape == scores.shape


def test_non_projective_trees_have_no_list():
    with pytest.raises(NotImplementedError, match="use argmax, sample"):
        ours.NonProjectiveDependencyCRF(torch.zeros(1, 3, 3)).topk(2)


@pytest.mark.parametrize("name", PLAIN)
def test_short_forms_come_back(name):
    kind, scores, lengths, options, _ = case(name)
    dist = kind(scores, lengths=lengths, **options)
    for event in (dist.argmax, *dist.topk(2)):
        short, extra = dist.from_event(event)
        torch.testing.assert_close(dist.to_event(short, extra, lengths).double(), event)
        again, _ = dist.struct.from_parts(dist.struct.to_parts(short, extra, lengths))
        torch.testing.assert_close(again, short)


@pytest.mark.parametrize("name", CASES)
def test_marginals_differentiate(name):
    kind, scores, lengths, options, _ = case(name)
    some = torch.randn(scores.shape, dtype=torch.double, generator=torch.Generator().manual_seed(9))
    leaf = scores.clone().requires_grad_()
    check = lambda s: (kind(s, lengths=lengths, **options).marginals * some).sum()  # noqa: E731
    assert torch.autograd.gradcheck(check, (leaf,), fast_mode=True)


def test_edges():
    chain = ours.LinearChainCRF(torch.zeros(2, 1, 3, 3), lengths=torch.tensor([2, 1]))
    torch.testing.assert_close(chain.partition, torch.tensor([9.0, 3.0]).log())
    torch.testing.assert_close(chain.log_prob(chain.argmax), -chain.partition)
    assert chain.sample((2,))[:, 1].sum() == 0 and chain.count.tolist() == [9, 3]
    alone = ours.SemiMarkovCRF(torch.zeros(1, 0, 3, 2, 2))
    torch.testing.assert_close(alone.partition, torch.tensor([2.0]).log())
    torch.testing.assert_close(alone.log_prob(alone.argmax), -alone.partition)
    forbidden = torch.full((1, 2, 2), -torch.inf)
    assert ours.DependencyCRF(forbidden).partition == -torch.inf
    assert ours.DependencyCRF(forbidden).marginals.sum() == 0
    batch = ours.TreeCRF(torch.zeros(2, 3, 4, 4, 1))
    assert batch.batch_shape == (2, 3) and batch.count.tolist() == [[5] * 3] * 2
    assert repr(batch) == "TreeCRF(log_potentials: (2, 3, 4, 4, 1))"
    with pytest.raises(ValueError, match="at least 3 axes"):
        ours.LinearChainCRF(torch.zeros(2, 2))
    with pytest.raises(ValueError, match="scores of roots are on the diagonal"):
        ours.DependencyCRF(torch.zeros(1, 3, 4))
    with pytest.raises(ValueError, match="must be a tag"):
        ours.SemiMarkov.to_parts(torch.tensor([[-1, 0]]), (2, 3))
    with pytest.raises(ValueError, match="below K = 2"):
        ours.SemiMarkov.to_parts(torch.tensor([[0, -1, 1]]), (2, 2))


def test_a_hidden_markov_model_sums_over_its_states():
    generator = torch.Generator().manual_seed(0)
    transition, emission, init = (
        torch.randn(shape, generator=generator, dtype=torch.double) for shape in ((2, 2), (5, 2), (2,))
    )
    seen = torch.tensor([[0, 3, 4]])
    values = [
        init[z[0]] + sum(emission[o, s] for o, s in zip(seen[0], z)) + transition[z[1], z[0]] + transition[z[2], z[1]]
        for z in itertools.product(range(2), repeat=3)
    ]
    torch.testing.assert_close(
        ours.HMM(transition, emission, init, seen).partition[0], torch.stack(values).logsumexp(0)
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PLAIN)
def test_against_the_package(name):
    theirs = pytest.importorskip("torch_struct")
    kind, scores, _, options, _ = case(name)
    mine, other = kind(scores, **options), getattr(theirs, kind.__name__)(scores.clone().requires_grad_(), **options)
    for attribute in ("partition", "marginals", "max", "argmax"):
        torch.testing.assert_close(getattr(mine, attribute), getattr(other, attribute).detach(), msg=attribute)
    torch.testing.assert_close(mine.log_prob(mine.argmax), other.log_prob(mine.argmax).detach())
    torch.testing.assert_close(mine.kmax(2), other.kmax(2).detach())
    if name in ("LinearChainCRF", "SemiMarkovCRF"):
        torch.testing.assert_close(mine.entropy, other.entropy.detach())
        short, extra = other.struct.from_parts(mine.argmax)
        torch.testing.assert_close(mine.from_event(mine.argmax)[0], short)
        torch.testing.assert_close(mine.struct.to_parts(short, extra), other.struct.to_parts(short, extra))
