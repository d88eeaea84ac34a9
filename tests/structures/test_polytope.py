"""SparseMAP from a user's own oracle, and how the solver behaves at the edges."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import vertex_qp

import omegamax as om
from omegamax.inference.sparsemap.active_set import Ending
from omegamax.structures import sparsemap as sparsemap_module


def corner(scores):
    return torch.nn.functional.one_hot(scores.argmax(), len(scores))


def best_of(vertices):
    """The oracle of a polytope whose vertices are written out."""
    return lambda scores: vertices[int((vertices @ scores).argmax())]


SIMPLEX = om.Polytope.from_oracle(corner)


@pytest.mark.usefixtures("backend")
class TestOnTheSimplex:
    @given(st.integers(1, 8), st.integers(0, 10_000), st.sampled_from([0.1, 1.0, 10.0]))
    def test_equals_sparsemax(self, n, seed, scale):
        scores = scale * torch.randn(3, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        found = SIMPLEX.sparsemap(scores)
        torch.testing.assert_close(found.marginals, om.sparsemax(scores), atol=1e-14, rtol=1e-14)
        torch.testing.assert_close(om.SparseMAP(SIMPLEX).max(scores), om.SquaredNorm().max(scores) - 0.5)

    def test_so_do_its_derivatives(self):
        scores = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
        direction = torch.randn(4, 6, dtype=torch.float64)
        ours, theirs = (
            torch.autograd.grad((f(scores) * direction).sum(), scores)[0]
            for f in (om.SparseMAP(SIMPLEX).argmax, om.sparsemax)
        )
        torch.testing.assert_close(ours, theirs)

    def test_constant_scores(self):
        scores = torch.zeros(2, 5, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(om.SparseMAP(SIMPLEX).argmax, scores)

    def test_masked(self):
        scores = torch.randn(3, 5, dtype=torch.float64)
        mask = torch.tensor([[True, False, True, True, False]]).expand(3, 5)
        found = om.SparseMAP(SIMPLEX).argmax(scores, mask=mask)
        torch.testing.assert_close(found, om.sparsemax(scores, mask=mask))


@pytest.mark.usefixtures("backend")
def test_any_polytope_against_the_quadratic_program():
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        vertices = torch.randint(-1, 3, (12, 4), generator=generator).double()
        polytope = om.Polytope.from_oracle(best_of(vertices))
        scores = torch.randn(4, generator=generator, dtype=torch.float64)
        expected = vertex_qp.solve(vertices.numpy(), (vertices @ scores).numpy())
        np.testing.assert_allclose(polytope.sparsemap(scores).marginals.numpy(), expected, atol=1e-9)


@pytest.mark.usefixtures("backend")
def test_the_jacobian_of_a_square_at_its_centre():
    """Two corners can carry the centre, but the derivative there is that of the plane."""
    square = om.Polytope.from_oracle(lambda scores: torch.where(scores > 0, 1.0, -1.0))
    jacobian = torch.autograd.functional.jacobian(om.SparseMAP(square).argmax, torch.zeros(2, dtype=torch.float64))
    torch.testing.assert_close(jacobian, torch.eye(2, dtype=torch.float64))


@pytest.mark.usefixtures("backend")
def test_extra_scores_are_not_regularised():
    pairs = torch.tensor([[0.0, 0], [0, 1], [1, 0], [1, 1]], dtype=torch.float64)
    both = torch.tensor([0.0, 0, 0, 1], dtype=torch.float64)  # the extra part: both are on

    def best(scores, extra):
        number = int((pairs @ scores + both * extra[0]).argmax())
        return pairs[number], both[number : number + 1]

    polytope = om.Polytope.from_oracle(best)
    scores, extra = torch.tensor([0.3, -0.2], dtype=torch.float64), torch.tensor([0.7], dtype=torch.float64)
    found = polytope.sparsemap(scores, extra=extra)
    expected = vertex_qp.solve(pairs.numpy(), (pairs @ scores + both * extra).numpy())
    np.testing.assert_allclose(found.marginals.scores.numpy(), expected, atol=1e-12)
    inputs = (scores.requires_grad_(), extra.requires_grad_())
    assert torch.autograd.gradcheck(lambda s, e: tuple(polytope.sparsemap(s, extra=e).marginals), inputs)


def test_probabilities_differentiate():
    scores = torch.tensor([0.5, 0.3, 0.1, -2.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: SIMPLEX.sparsemap(s).probabilities, scores)


@pytest.mark.usefixtures("backend")
class TestEdges:
    def test_stopped_early_says_so(self):
        with pytest.warns(UserWarning, match=r"max_iter=3 calls with a gap of .* tolerance 0 .*raise max_iter"):
            found = SIMPLEX.sparsemap(torch.zeros(6), max_iter=3)
        assert found.gap > 0.1 and found.n_iterations == 3
        assert found.marginals.sum() == pytest.approx(1)

    def test_a_tolerance_stops_early_in_silence(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = SIMPLEX.sparsemap(torch.zeros(6, dtype=torch.float64), atol=0.3)
        assert 0 < found.gap <= 0.3 and found.n_iterations < 6

    def test_a_bad_oracle_is_found_out(self):
        answers = iter([1, 2, 0, 0, 0])
        wrong = om.Polytope.from_oracle(lambda scores: torch.eye(3)[next(answers)])
        with pytest.raises(ValueError, match="must return a best structure"):
            wrong.sparsemap(torch.tensor([0.0, 5.0, 1.0]))

    def test_an_oracle_that_repeats_itself_ends(self):
        stuck = om.Polytope.from_oracle(lambda scores: torch.tensor([0.0, 1.0, 0.0]))
        assert stuck.sparsemap(torch.tensor([3.0, 0.0, 0.0])).n_iterations == 2

    def test_no_vertex(self):
        never = om.Polytope.from_oracle(lambda scores: None)
        scores = torch.zeros(2, 3, requires_grad=True)
        value = om.SparseMAP(never).max(scores)
        assert (value == -torch.inf).all()
        assert not om.SparseMAP(never).argmax(scores).any()
        assert never.sparsemap(scores).structures.shape == (2, 1, 3)

    def test_empty_batch(self):
        assert SIMPLEX.sparsemap(torch.zeros(0, 3)).marginals.shape == (0, 3)

    def test_no_batch_and_many(self):
        scores = torch.randn(2, 3, 4, dtype=torch.float64)
        many = SIMPLEX.sparsemap(scores)
        one = SIMPLEX.sparsemap(scores[1, 2])
        torch.testing.assert_close(many.marginals[1, 2], one.marginals)
        assert many.gap.shape == (2, 3) and one.gap.shape == ()

    def test_torch_func(self):
        scores = torch.randn(4, dtype=torch.float64)
        value = om.SparseMAP(SIMPLEX).max
        torch.testing.assert_close(torch.func.grad(value)(scores), om.sparsemax(scores))
        direction = torch.arange(4.0, dtype=torch.float64)
        product = torch.func.jvp(om.SparseMAP(SIMPLEX).argmax, (scores,), (direction,))[1]
        weights = om.sparsemax(scores)
        torch.testing.assert_close(product, om.SquaredNorm().hessian_product((weights,), direction))
        with pytest.raises(RuntimeError, match="vmap"):
            torch.func.vmap(value)(torch.randn(2, 4))


class TestErrors:
    def test_kinds(self):
        with pytest.raises(TypeError, match="must be callable"):
            om.Polytope.from_oracle(3)
        with pytest.raises(ValueError, match="got Shannon; a best vertex"):
            SIMPLEX.max(torch.zeros(3), om.Shannon())
        with pytest.raises(TypeError, match="what sparsemap returned"):
            SIMPLEX.sparsemap(torch.zeros(3), start=torch.zeros(3))
        with pytest.raises(ValueError, match="max_iter"):
            SIMPLEX.sparsemap(torch.zeros(3), max_iter=0)

    def test_atol(self):
        with pytest.raises(ValueError, match="atol must be at least 0, got -1"):
            SIMPLEX.sparsemap(torch.zeros(3), atol=-1.0)

    def test_what_the_oracle_returns(self):
        with pytest.raises(ValueError, match="not its index"):
            om.Polytope.from_oracle(lambda scores: scores.argmax()).map(torch.zeros(3))
        with pytest.raises(ValueError, match="finite"):
            om.Polytope.from_oracle(lambda scores: scores / 0).map(torch.ones(3))

    def test_start_of_another_shape(self):
        before = SIMPLEX.sparsemap(torch.zeros(2, 3))
        with pytest.raises(ValueError, match="start anew"):
            SIMPLEX.sparsemap(torch.zeros(4, 3), start=before)

    def test_extra_where_there_is_none(self):
        with pytest.raises(ValueError, match="has no scores that are not regularised"):
            om.ProjectiveTree().sparsemap(torch.zeros(3, 3), extra=torch.zeros(2))


@pytest.mark.usefixtures("backend")
def test_scores_that_are_only_rounding():
    """Seen along a line between two vertices the cube is a hexagon around a point: of zeros, but for rounding."""
    cube = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=torch.float64)] * 3)
    for i, j in torch.combinations(torch.arange(8)).tolist():
        along = torch.nn.functional.normalize(cube[j] - cube[i], dim=0)
        shadow = cube - (cube @ along).unsqueeze(-1) * along
        others = shadow[[k for k in range(8) if k not in (i, j)]]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = om.Polytope.from_oracle(best_of(others)).sparsemap(shadow[i])
        away = shadow[i] - found.marginals  # of a projection, which has every vertex on its other side
        assert float(((others - found.marginals) @ away).max()) < 1e-14


def scaled_polytope(vertices, scale):
    return om.Polytope.from_oracle(best_of(scale * vertices))


@pytest.mark.usefixtures("backend")
class TestUnitsOfTheVertices:
    """conv(c · Y) at scores c · θ has the solution c · μ, and the derivative of μ does not see c."""

    @pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e-3, 1e3, 1e8])
    def test_solutions_scale(self, scale):
        generator = torch.Generator().manual_seed(1)
        for _ in range(3):
            vertices = torch.randint(-1, 3, (14, 5), generator=generator).double()
            scores = torch.randn(5, generator=generator, dtype=torch.float64)
            expected = vertex_qp.solve(vertices.numpy(), (vertices @ scores).numpy())
            found = scaled_polytope(vertices, scale).sparsemap(scale * scores)
            np.testing.assert_allclose(found.marginals.numpy() / scale, expected, atol=1e-9)
            assert float(found.gap) <= 1e-12 * scale**2

    @pytest.mark.parametrize("scale", [1e-9, 1e6])
    def test_derivatives_do_not(self, scale):
        vertices = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]]).double()
        scores, direction = (
            torch.tensor([[0.6, 0.5, 0.1], [0.0, 0.0, 0.0]]).double(),
            torch.tensor([1.0, -2, 0.5]).double(),
        )
        tangents = []
        for c in (1.0, scale):
            argmax = om.SparseMAP(scaled_polytope(vertices, c)).argmax
            tangents.append(torch.func.jvp(argmax, (c * scores,), (direction.expand(2, 3),))[1])
        torch.testing.assert_close(tangents[1], tangents[0], atol=1e-8, rtol=0)

    @pytest.mark.parametrize("thin", [1e-6, 1e-4, 1e2])
    def test_a_box_with_a_thin_side(self, thin):
        """Its projection is known for each side by itself."""
        vertices = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]]).double()
        vertices = torch.cat([vertices, vertices + torch.tensor([0.0, 0, 1])]) * torch.tensor([1.0, 1, thin]).double()
        box = om.Polytope.from_oracle(best_of(vertices))
        for scores in ([0.3, 0.8, 0.4 * thin], [0.3, 2.0, 2 * thin], [-1.0, 0.5, 0.25 * thin]):
            scores = torch.tensor(scores).double()
            expected = scores.clamp(min=0).minimum(torch.tensor([1.0, 1, thin]).double())
            found = box.sparsemap(scores).marginals
            torch.testing.assert_close(found / vertices.amax(0), expected / vertices.amax(0), atol=1e-9, rtol=0)

    @pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
    def test_extra_scores_of_any_unit(self, unit):
        """Extra scores choose among vertices; measured in another unit they choose the same."""
        generator = torch.Generator().manual_seed(2)
        vertices = torch.randint(0, 2, (12, 4), generator=generator).double()
        more = torch.randint(0, 3, (12, 3), generator=generator).double()
        scores, extra = torch.randn(4, generator=generator).double(), torch.randn(3, generator=generator).double()

        def best(unit):
            def choose(s, e):
                at = int((vertices @ s + unit * (more @ e)).argmax())
                return vertices[at], unit * more[at]

            return om.Polytope.from_oracle(choose)

        one = best(1.0).sparsemap(scores, extra=extra).marginals.scores
        other = best(unit).sparsemap(scores, extra=extra / unit).marginals.scores
        torch.testing.assert_close(other, one, atol=1e-9, rtol=0)


@pytest.mark.parametrize("answer", ["first", ["a", "b", "c"], object(), {0: 1}], ids=["text", "list", "object", "dict"])
def test_an_oracle_that_returns_no_numbers(answer):
    with pytest.raises(
        TypeError, match=f"Polytope: the oracle must return a vertex as a tensor.*{type(answer).__name__}"
    ):
        om.Polytope.from_oracle(lambda scores: answer).sparsemap(torch.zeros(3))


@pytest.mark.parametrize("answer", ["ab", torch.zeros(3), (torch.zeros(3),)], ids=["str", "tensor", "one"])
def test_an_oracle_that_forgets_the_extra(answer):
    with pytest.raises(TypeError, match="must return a pair"):
        om.Polytope.from_oracle(lambda scores, extra: answer).sparsemap(torch.zeros(3), extra=torch.zeros(2))


def test_the_warning_counts_the_calls(monkeypatch):
    """A search whose value no longer rises ends before max_iter, and the warning says when."""
    real = sparsemap_module.solve_sparsemap

    def ends_early(*arguments):
        found = real(*arguments)
        changes = {"endings": torch.tensor([int(Ending.NOT_CONVERGED)]), "n_calls": torch.tensor([69])}
        return found._replace(certificate=found.certificate._replace(**changes))

    monkeypatch.setattr(sparsemap_module, "solve_sparsemap", ends_early)
    with pytest.warns(UserWarning, match=r"stopped after 69 calls with a gap of .*no longer rises.*atol"):
        SIMPLEX.sparsemap(torch.zeros(3), max_iter=500)


@pytest.mark.usefixtures("backend")
def test_no_gap_is_negative():
    for seed in range(20):
        scores = torch.randn(8, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        assert (SIMPLEX.sparsemap(scores).gap >= 0).all()
