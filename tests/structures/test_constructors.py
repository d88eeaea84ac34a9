"""Gold structures from what a treebank or an annotator gives: tags, heads, spans, segments, paths, frames."""

import numpy as np
import pytest
import torch

import omegamax as om


def test_tags_beyond_the_length_may_be_anything():
    tags, n = torch.tensor([[1, 0, 2], [2, -100, -100]]), torch.tensor([3, 1])
    gold = om.Chain.from_tags(tags, 3, lengths=n)
    assert om.Chain.tags(gold).tolist() == [[1, 0, 2], [2, -1, -1]]
    factored = om.Chain.factored_from_tags(tags, 3, lengths=n)
    assert om.Chain.tags(factored).tolist() == [[1, 0, 2], [2, -1, -1]]
    with pytest.raises(ValueError, match="between 0 and 2, got -100 to 2"):
        om.Chain.from_tags(tags, 3)


@pytest.mark.parametrize("make", [lambda given: om.Chain.from_tags(given, 3), om.ProjectiveTree.from_heads])
def test_indices_are_whole_numbers_in_a_tensor(make):
    with pytest.raises(TypeError, match="must be an integer Tensor, got list"):
        make([0, 1])
    with pytest.raises(TypeError, match=r"must be integers, got torch\.float32"):
        make(torch.tensor([0.0, 1.0]))
    with pytest.raises(ValueError, match="got a single number"):
        make(torch.tensor(0))


@pytest.mark.parametrize(
    "structure",
    [
        om.Alignment(),
        om.Alignment(steps=((1, 1, 2.0), (1, 0, 1.0), (0, 1, 1.0))),
        om.Alignment(steps=((1, 1, 1.0), (1, 2, 1.5))),
    ],
)
def test_paths_of_alignments(structure):
    scores = torch.randn(6, 7, dtype=torch.float64) if len(structure.steps) == 3 else torch.randn(4, 6).double()
    for one in structure.topk(scores, 4).structures:
        assert torch.equal(structure.from_path(structure.path(one), *scores.shape, dtype=torch.float64), one)


def test_paths_in_batches():
    paths = [[(0, 0), (1, 1)], [(0, 0), (0, 1), (1, 1), (2, 1)]]
    batch = om.Alignment().from_path(paths, 3, 2)
    assert batch.shape == (2, 3, 2) and batch.sum((1, 2)).tolist() == [2, 4]
    with pytest.raises(ValueError, match=r"got \(1, 2\) after \(0, 0\)"):
        om.Alignment().from_path([(0, 0), (1, 2)], 3, 3)
    with pytest.raises(ValueError, match=r"got \(1, 1\) after None"):
        om.Alignment().from_path([(1, 1)], 3, 3)


def test_segmentations():
    structure = om.SemiMarkov(3)
    scores = torch.randn(2, 5, 3, 2, 2)
    n = torch.tensor([5, 3])
    best = structure.map(scores, lengths=n)
    assert torch.equal(structure.from_segmentation(structure.segments(best), 5, 2), best)
    for wrong in ([(1, 2, 0)], [(0, 3, 0)], [(0, 0, 5)], [(0, 0, 0), (2, 2, 0)]):
        with pytest.raises(ValueError, match=r"SemiMarkov\.from_segmentation: segments must follow each other"):
            structure.from_segmentation(wrong, 5, 2)


def test_paths_of_graphs():
    graph = om.Dag.from_edges([(0, 3), (0, 1), (3, 1), (1, 2), (0, 1)], goal=2)
    assert graph.from_path([0, 3, 1, 2]).tolist() == [1, 0, 1, 1, 0]
    assert graph.from_path([[0, 1, 2], [0, 3, 1, 2]]).tolist() == [[0, 1, 0, 1, 0], [1, 0, 1, 1, 0]]
    om.PerceptronLoss(graph)(torch.randn(5), graph.from_path(torch.tensor([0, 1, 2])))
    with pytest.raises(ValueError, match=r"no edge \(0, 2\)"):
        graph.from_path([0, 2])
    for wrong in ([0, 1], [3, 1, 2], [2], []):
        with pytest.raises(ValueError, match=r"from the source 0 to the goal 2, got .*; let it begin and end there"):
            graph.from_path(wrong)


def listed(kind, *rows):
    """Rows of numbers, as a list of lists of NumPy's numbers, as an array or as a tensor."""
    if kind == "tensor":
        return torch.tensor(rows)
    return [list(row) for row in np.array(rows)] if kind == "numbers" else np.array(rows)


@pytest.mark.parametrize("kind", ["numbers", "array", "tensor"])
def test_structures_from_arrays(kind):
    cells, segments, spans = [(0, 0), (1, 1)], [(0, 1, 0), (2, 2, 1)], [(0, 0, 0), (0, 1, 0), (1, 1, 0)]
    alignment, segmental, tree = om.Alignment(), om.SemiMarkov(2), om.ConstituencyTree()
    graph = om.Dag.from_edges(listed(kind, (0, 1), (1, 2)), goal=np.int64(2))
    assert torch.equal(alignment.from_path(listed(kind, *cells), 2, 2), torch.eye(2))
    assert torch.equal(
        segmental.from_segmentation(listed(kind, *segments), 3, 2), segmental.from_segmentation(segments, 3, 2)
    )
    assert torch.equal(tree.from_spans(listed(kind, *spans), 2, 1), tree.from_spans(spans, 2, 1))
    assert graph.from_path(listed(kind, 0, 1, 2) if kind == "tensor" else np.arange(3)).tolist() == [1, 1]
    assert graph.from_path(range(3)).tolist() == [1, 1]


def test_a_list_that_topk_filled_goes_back():
    """Where there are fewer than k structures the others are zeros, and their lists empty."""
    structure = om.SemiMarkov(2)
    for fewer in (structure.topk(torch.zeros(1, 2, 1, 1), 3).structures, torch.zeros(2, 1, 2, 1, 1)):
        assert torch.equal(structure.from_segmentation(structure.segments(fewer), 1, 1), fewer)
    assert om.Alignment().from_path([[], [(0, 0)]], 1, 1).flatten().tolist() == [0, 1]


def test_graphs_need_edges_between_numbers():
    with pytest.raises(ValueError, match=r"Dag\.from_edges: there must be at least one edge"):
        om.Dag.from_edges([])
    builder = om.HypergraphBuilder()
    with pytest.raises(ValueError, match="HypergraphBuilder: there must be at least one edge"):
        builder.build(goal=builder.leaf())
    with pytest.raises(TypeError):
        om.Dag.from_edges([(0.5, 1)])


def test_frames():
    log_probs = torch.randn(8, 3, 4).log_softmax(-1)
    targets, sizes = torch.tensor([[1, 1, 2], [3, 0, 0], [2, 3, 0]]), torch.tensor([3, 1, 2])
    n = torch.tensor([8, 4, 6])
    potentials = om.CTC.from_log_probs(log_probs, targets, sizes)
    best = om.CTC().map(potentials, lengths=n)
    frames = om.CTC.frames(best, targets, sizes)
    for part, expected in zip(om.CTC.from_frames(frames, targets, sizes), best):
        assert torch.equal(part, expected)
    loss = om.CRFLoss(om.CTC())(potentials, om.CTC.from_frames(frames, targets, sizes), lengths=n)
    assert loss > 0
    one = om.CTC.from_frames(torch.tensor([0, 1, 1, 0, 2]), torch.tensor([1, 2]))
    assert one.emissions.argmax(-1).tolist() == [0, 1, 1, 2, 3] and one.ends.tolist() == [0, 0, 0, 1, 0]
    assert om.CTC.from_frames(torch.tensor([1, 2]), torch.tensor([1, 2])).skips.tolist() == [0, 0, 0, 1, 0]
    for wrong in ([1, 1, 2], [0, 0, 0], [1, 2, 1], [2, 1]):
        with pytest.raises(ValueError, match="must spell the targets"):
            om.CTC.from_frames(torch.tensor(wrong), torch.tensor([1, 1] if wrong == [1, 1, 2] else [1, 2]))
