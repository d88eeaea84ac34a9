"""Tensors of any type and with gradients, arrays and lists give the same figure."""

import numpy as np
import pytest
import torch

import omegamax as om
from omegamax import plots

MATRIX = [[0.5, 0.5, 0.0], [0.0, 0.25, 0.75]]
KINDS = [
    MATRIX,
    np.array(MATRIX),
    np.array(MATRIX, dtype=np.float32),
    torch.tensor(MATRIX, requires_grad=True),
    torch.tensor(MATRIX, dtype=torch.bfloat16),
    torch.tensor(MATRIX, dtype=torch.float16),
]


@pytest.mark.parametrize("given", KINDS, ids=lambda given: f"{type(given).__name__} {getattr(given, 'dtype', '')}")
@pytest.mark.thinned(5)
def test_any_kind_of_array(given):
    clusters = plots.clusters_of(given)
    assert clusters.tolist() == [[1, 1, 0], [0, 0, 0]]
    figures = [
        plots.attention_map(given, clusters=clusters),
        plots.attention_maps({"a": given}),
        plots.attention_lines(given, ["a", "b"], ["x", "y", "z"]),
        plots.matching_maps({"a": given}),
        plots.alignment_matrices({"a": given}, given[0][:2], given[0]),
    ]
    for figure in figures:
        figure.draw_without_rendering()
    shown = figures[0].axes[0].images[0].get_array()
    assert shown.filled(0).tolist() == MATRIX
    plots.attention_bars({"a": given[0]}).draw_without_rendering()
    plots.support_histograms({"a": given}).draw_without_rendering()
    plots.positional_encodings(given).draw_without_rendering()


def test_lists_of_structures():
    edges = om.Chain().map(torch.randn(2, 2, 2))
    plots.tag_lattice({"a": edges.tolist()}, ["x", "y"], ["A", "B"]).draw_without_rendering()
    plots.polytope(np.eye(3), np.array([0.3, 0.2, 0.1])).draw_without_rendering()
    plots.dependency_arcs(
        {"a": om.ProjectiveTree().map(torch.randn(3, 3)).numpy()}, ["x", "y"]
    ).draw_without_rendering()


@pytest.mark.parametrize("given", [[[0.5, 0.5], [1.0]], "weights", None, [["a"]]])
def test_what_is_no_matrix_is_refused(given):
    with pytest.raises(ValueError, match="attention_map: weights must be one matrix"):
        plots.attention_map(given)


READ_ONLY = np.array(MATRIX)
READ_ONLY.setflags(write=False)


@pytest.mark.parametrize(
    "given",
    [READ_ONLY, np.array(MATRIX[::-1])[::-1], list(torch.tensor(MATRIX, requires_grad=True))],
    ids=["read-only", "backwards", "list of tensors"],
)
def test_arrays_that_pytorch_does_not_take(given):
    shown = plots.attention_map(given).axes[0].images[0].get_array()
    assert shown.filled(0).tolist() == MATRIX


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
@pytest.mark.thinned(3)
def test_whole_numbers_of_any_kind_are_computed_with(kind):
    plots.row_comparison(kind([3, 1, 2]), regularizers={"sparsemax": om.SquaredNorm()}).draw_without_rendering()
    plots.denoising(kind([3, 1, 2]), truth=kind([2, 2, 2])).draw_without_rendering()
    plots.alignment_comparison(kind([3, 1, 2]), kind([1, 2])).draw_without_rendering()


def test_signals_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="denoising: noisy must be one signal"):
        plots.denoising([[1.0, 2.0]])
    with pytest.raises(ValueError, match=r"denoising: truth must be a signal like noisy, \(3,\), got \(2,\)"):
        plots.denoising([1.0, 2.0, 3.0], truth=[1.0, 2.0])
