"""Figures of structures and models: what has probability is drawn, what is exactly zero is not."""

from itertools import combinations, permutations

import pytest
import torch

import omegamax as om
from omegamax import plots
from omegamax.plots.polytope import edges_of


def part(axes, gid):
    (found,) = [collection for collection in axes.collections if collection.get_gid() == gid]
    return found


@pytest.mark.parametrize("omega", [om.Shannon(), om.SquaredNorm(), om.Hard()], ids=str)
def test_lattice_has_the_steps_above_zero(omega, tmp_path):
    edges = om.Chain().argmax(torch.randn(5, 3, 3), omega)
    figure = plots.tag_lattice({"tags": edges}, list("vwxyz"), ["A", "B", "C"])
    axes = figure.axes[0]
    drawn = {tuple(tuple(map(round, end)) for end in line) for line in part(axes, "steps").get_segments()}
    assert drawn == {((n, i), (n + 1, j)) for n, i, j in (edges[1:] > 0).nonzero().tolist()}
    assert axes.get_title(loc="left") == f"tags: {len(drawn)} steps"
    rings = sum(line.get_markerfacecolor() == "white" for line in axes.lines)
    assert rings == int((edges.sum(-2) == 0).sum())
    figure.savefig(tmp_path / "lattice.png")


def test_lattice_beyond_a_length_and_of_one_word():
    edges = om.Chain().argmax(torch.randn(1, 4, 2, 2), lengths=torch.tensor([2]))[0]
    axes = plots.tag_lattice({"": edges}, list("abcd"), ["A", "B"]).axes[0]
    assert len(part(axes, "steps").get_segments()) == 4
    plots.tag_lattice({"": om.Chain().map(torch.randn(1, 2, 2))}, ["a"], ["A", "B"]).draw_without_rendering()
    with pytest.raises(ValueError, match=r"over 2 words and 2 tags, \(2, 2, 2\), got \(3, 2, 2\)"):
        plots.tag_lattice({"tags": torch.zeros(3, 2, 2)}, ["a", "b"], ["A", "B"])


def test_matchings(tmp_path):
    scores = torch.randn(4, 6)
    marginals = om.Matching().sparsemap(scores).marginals
    figure = plots.matching_maps({"best": om.Matching().map(scores), "few": marginals}, list("abcd"), list("uvwxyz"))
    first, second = figure.axes
    assert not first.texts  # nothing but zeros and ones
    assert first.get_title(loc="left") == "best: 4 pairs"
    written = {(round(text.get_position()[1]), round(text.get_position()[0])) for text in second.texts}
    assert written == {(i, j) for i, j in ((marginals > 0) & (marginals < 1)).nonzero().tolist()}
    (image,) = second.images
    assert torch.equal(torch.as_tensor(image.get_array().mask), marginals == 0)
    figure.savefig(tmp_path / "matchings.png")
    with pytest.raises(ValueError, match="of one shape"):
        plots.matching_maps({"a": torch.eye(2), "b": torch.eye(3)})


def test_alignments_of_ones_own():
    x, y = torch.randn(5, 2), torch.randn(7, 2)
    weights = om.soft_dtw_alignment(x, y, regularizer=om.SquaredNorm())
    figure = plots.alignment_matrices({"mine": weights.requires_grad_()}, x, y)
    (image,) = figure.axes[-1].images
    assert torch.equal(torch.as_tensor(image.get_array().mask), weights == 0)
    assert sum(len(axes.lines) for axes in figure.axes) == 4  # two series of two dimensions
    with pytest.raises(ValueError, match=r"'mine' must align x with y, \(5, 7\), got \(7, 5\)"):
        plots.alignment_matrices({"mine": weights.mT}, x, y)


def test_supports():
    weights = torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.6, 0.4]])
    figure = plots.support_histograms({"mine": weights, "nothing": torch.zeros(2, 3)})
    first, second = figure.axes
    assert [bar.get_height() for bar in first.patches] == [pytest.approx(1 / 3), pytest.approx(2 / 3)]
    assert first.get_title(loc="left") == "mine: 1.7 on average"
    assert second.get_title(loc="left") == "nothing: no rows"
    figure.draw_without_rendering()
    with pytest.raises(ValueError, match="tensors"):
        plots.support_histograms({})


def test_lines_by_head(tmp_path):
    weights = om.sparsemax(torch.randn(5, 4, 6))
    figure = plots.attention_lines(weights, list("abcd"), list("uvwxyz"))
    assert [axes.get_title() for axes in figure.axes] == [f"head {head}" for head in range(1, 6)]
    for axes, matrix in zip(figure.axes, weights):
        ends = {(round(line[0][1] - 1), round(line[1][1])) for line in part(axes, "lines").get_segments()}
        assert ends == {(q, k) for q, k in (matrix > 0).nonzero().tolist()}  # four words are centred beside six
    figure.savefig(tmp_path / "lines.png")
    assert len(plots.attention_lines(weights[0], list("abcd"), list("uvwxyz")).axes) == 1
    with pytest.raises(ValueError, match=r"got \(2, 5, 4, 6\); pick one item"):
        plots.attention_lines(weights.expand(2, 5, 4, 6), list("abcd"), list("uvwxyz"))


def test_positions():
    table = om.attention.SinusoidalPositions()(torch.zeros(12, 8))
    left, right = plots.positional_encodings(table).axes[:2]
    torch.testing.assert_close(torch.as_tensor(left.images[0].get_array().data), table.double())
    cosines = torch.as_tensor(right.images[0].get_array().data)
    torch.testing.assert_close(cosines.diagonal(), torch.ones(12, dtype=torch.float64))
    torch.testing.assert_close(cosines.diagonal(3), cosines[0, 3].expand(9), rtol=0, atol=1e-6)  # distances alone
    plots.positional_encodings(torch.zeros(3, 2)).draw_without_rendering()
    with pytest.raises(ValueError, match=r"got \(3,\)"):
        plots.positional_encodings(torch.zeros(3))


def test_edges_of_known_polytopes():
    corners = [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1]]
    cube = torch.tensor(corners, dtype=torch.float64)
    assert edges_of(cube) == [(i, j) for i, j in combinations(range(8), 2) if (cube[i] != cube[j]).sum() == 1]
    pairs = torch.tensor([[i in pair for i in range(4)] for pair in combinations(range(4), 2)], dtype=torch.float64)
    assert len(edges_of(pairs)) == 12  # an octahedron
    birkhoff = torch.stack([torch.eye(3)[list(order)].flatten() for order in permutations(range(3))]).double()
    assert len(edges_of(birkhoff)) == 15  # every two matchings of three are neighbours
    assert edges_of(torch.eye(2, dtype=torch.float64)) == [(0, 1)]


def test_polytope_has_the_points_of_the_structure(tmp_path):
    chain, potentials = om.Chain(), torch.randn(3, 2, 2, dtype=torch.float64)
    potentials[0, 1] = 0  # not read
    figure = plots.polytope(chain.enumerate(potentials), potentials)
    axes = figure.axes[0]
    drawn = {line.get_label(): torch.tensor(line.get_xydata()[0]) for line in axes.lines if line.get_label()[0] != "_"}
    vertices = torch.as_tensor(axes.lines[0].get_xydata())
    places = chain.enumerate(potentials).flatten(1)
    # The view is affine: find it from the vertices, then ask where the structure's own answers lie in it.
    ones = torch.ones(len(places), 1, dtype=torch.float64)
    affine = torch.linalg.lstsq(torch.cat((places, ones), 1), vertices, driver="gelsd").solution
    answers = {
        "MAP": chain.map(potentials),
        "marginal": chain.argmax(potentials),
        "SparseMAP": chain.sparsemap(potentials).marginals,
    }
    for name, answer in answers.items():
        seen = torch.cat((answer.flatten(), ones[0])) @ affine
        torch.testing.assert_close(drawn[name], seen, rtol=0, atol=1e-5)
    figure.savefig(tmp_path / "polytope.png")


def test_polytope_refuses():
    plots.polytope(torch.eye(2), torch.tensor([0.1, 0.2])).draw_without_rendering()
    with pytest.raises(ValueError, match=r"got \(3, 3\) and \(2,\); enumerate"):
        plots.polytope(torch.eye(3), torch.zeros(2))
    with pytest.raises(ValueError, match="at most 40"):
        plots.polytope(torch.eye(41), torch.zeros(41))


def test_draw_window_shows_what_is_read(tmp_path):
    draw, image = om.attention.DrawAttention(4, patch_size=3), torch.rand(2, 12, 16)
    window = om.attention.DrawWindow(*(field.detach() for field in draw.window(torch.randn(4), 12, 16)))
    figure = plots.draw_window(image, window, patch_size=3)
    left, right = figure.axes
    read = draw.read(image, window).mean(0).detach().double()
    torch.testing.assert_close(torch.as_tensor(right.images[0].get_array().data), read, rtol=1e-4, atol=1e-5)
    assert len(left.patches) == 9  # a ring for each filter
    assert left.patches[4].center == (pytest.approx(float(window.x) - 1), pytest.approx(float(window.y) - 1))
    figure.savefig(tmp_path / "window.png")
    plots.draw_window(torch.rand(3, 8, 8), window, patch_size=2).draw_without_rendering()
    with pytest.raises(ValueError, match="one item"):
        plots.draw_window(image, draw.window(torch.randn(2, 4), 12, 16), patch_size=3)
    with pytest.raises(ValueError, match="pick one item"):
        plots.draw_window(image[None], window, patch_size=3)


def test_simplex_dots_are_the_weights(tmp_path):
    scores = torch.tensor([0.9, 0.5, 0.0], dtype=torch.float64)
    operators = {"softmax": om.Shannon(), "sparsemax": om.SquaredNorm()}
    figure = plots.simplex_levels(scores, regularizers=operators, names=list("abc"))
    corners = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.5, 0.75**0.5]], dtype=torch.float64)
    for axes, smooth in zip(figure.axes, operators.values()):
        dot = torch.tensor(axes.lines[0].get_xydata()[0])
        torch.testing.assert_close(dot, smooth.argmax(scores) @ corners)
        assert f"{float(smooth.max(scores)):.2f}" in axes.get_title()
    figure.savefig(tmp_path / "simplex.png")
    with pytest.raises(ValueError, match="three finite numbers"):
        plots.simplex_levels(torch.zeros(4))


def test_surfaces():
    figure = plots.argmax_surfaces({"sparsemax": om.SquaredNorm(), "mine": om.Shannon()}, component=2, reach=1.0)
    assert [axes.get_title() for axes in figure.axes] == ["sparsemax", "mine"]
    figure.draw_without_rendering()
    with pytest.raises(ValueError, match="component must be 1, 2 or 3, got 0"):
        plots.argmax_surfaces(component=0)
    with pytest.raises(ValueError, match="reach"):
        plots.argmax_surfaces(reach=0.0)


def test_arcs_of_ones_own_words():
    tree = om.ProjectiveTree()
    scores = torch.randn(4, 4, dtype=torch.float64)
    marginals = tree.argmax(scores)
    axes = plots.dependency_arcs({"all": marginals}, ["日本", "$", "c"]).axes[0]
    assert len(axes.patches) == int((marginals[1:] > 0).sum())
    tops = [arc.get_height() for arc in axes.patches]
    assert len(set(tops)) == 4  # two spans, and of opposite arcs one is higher
    plots.dependency_arcs({"one": tree.map(torch.randn(2, 2))}, ["a"]).draw_without_rendering()


@pytest.mark.parametrize("n_words", [1, 40, 90])
@pytest.mark.thinned(3)
def test_arcs_of_long_sentences_have_room(n_words):
    chain = torch.zeros(n_words + 1, n_words + 1)
    chain[range(n_words), range(1, n_words + 1)] = 1
    axes = plots.dependency_arcs({"a": chain}, ["x"] * n_words).axes[0]
    axes.figure.draw_without_rendering()  # warns where there is none
    (root,) = [text for text in axes.texts if text.get_text() == "root"]
    assert root.get_position()[1] <= axes.get_ylim()[1]


def test_probabilities_rounded_beyond_their_bounds():
    plots.dependency_arcs({"a": torch.full((3, 3), 1 + 1e-6)}, ["x", "y"]).draw_without_rendering()
    plots.tag_lattice({"a": torch.full((2, 1, 1), 1 + 1e-6)}, ["x", "y"], ["A"]).draw_without_rendering()
    plots.tag_lattice({"a": torch.full((2, 1, 1), -1e-9)}, ["x", "y"], ["A"]).draw_without_rendering()


def test_figures_of_nothing_are_refused():
    with pytest.raises(ValueError, match="dependency_arcs: trees and words are needed, got 0 and 1"):
        plots.dependency_arcs({}, ["x"])
    with pytest.raises(ValueError, match="dependency_arcs: trees and words are needed, got 1 and 0"):
        plots.dependency_arcs({"a": torch.ones(1, 1)}, [])
    with pytest.raises(ValueError, match="tag_lattice: marginals, words and tags are needed, got 0, 1 and 1"):
        plots.tag_lattice({}, ["x"], ["A"])
    with pytest.raises(ValueError, match="simplex_levels: regularizers must name at least one"):
        plots.simplex_levels(regularizers={})
    with pytest.raises(ValueError, match="argmax_surfaces: regularizers must name at least one"):
        plots.argmax_surfaces({})


def test_a_row_with_nothing_allowed():
    plots.row_comparison(torch.full((3,), -torch.inf), regularizers={"softmax": om.Shannon()}).draw_without_rendering()
