"""Niculae & Blondel, "A regularized framework for sparse and structured neural attention", NIPS 2017: the theory."""

from __future__ import annotations

from omegamax.reproductions.claim import Claim

_SMOOTH, _REGULARIZERS, _PROXIMAL = (
    f"tests/laws/test_{name}.py::" for name in ("smoothmax", "regularizers", "proximal")
)


def _claim(id: str, where: str, statement: str, run: str = "", **rest: object) -> Claim:
    return Claim(id, "paper", where, statement, run=run, **rest)  # type: ignore[arg-type]


CLAIMS = [
    _claim(
        "max-corner",
        "§2.1",
        "The maximum is the supremum of a linear form over the simplex, reached at a corner; as a mapping to weights "
        "it jumps: for [t, 0] it is a Heaviside step.",
        "smoothing:maximum",
        tests=("tests/laws/test_edges.py::test_hard_ties_go_to_the_lowest_index",),
    ),
    _claim(
        "max-conjugate",
        "§2.2",
        "The convex conjugate of the maximum is 0 on the simplex and infinite elsewhere.",
        "smoothing:conjugate",
    ),
    _claim(
        "gradient-map",
        "§2.2, equation (1)",
        "max_Ω is differentiable, and Π_Ω, the argument of its supremum, is its gradient.",
        "smoothing:gradient_map",
        tests=(
            _SMOOTH + "test_gradient_of_max_is_argmax",
            _SMOOTH + "test_gradcheck",
            _SMOOTH + "test_weights_and_value_agree_with_an_oracle",
        ),
    ),
    _claim(
        "smoothness",
        "§2.2, §2.3, §3.1",
        "For a β-strongly convex Ω, max_Ω is 1/(γβ)-smooth and Π_Ω is 1/(γβ)-Lipschitz in the dual norm: 1/γ for "
        "softmax (∞-norm) and sparsemax (2-norm), 1/(γ(p − 1)) for squared p-norms (q-norm).",
        "smoothing:smoothness",
        tests=(_REGULARIZERS + "test_lipschitz_bounds",),
    ),
    _claim(
        "softmax-case",
        "§2.3",
        "With the negative entropy max_Ω is γ log-sum-exp(x/γ) and Π_Ω the softmax with temperature γ; for [t, 0] they "
        "are softplus and sigmoid.",
        "smoothing:softmax",
        tests=(
            _SMOOTH + "test_softmax_is_torch_softmax",
            _REGULARIZERS + "test_two_scores_give_softplus_and_sigmoid",
        ),
    ),
    _claim(
        "sparsemax-case",
        "§2.3",
        "With ½‖y‖² Π_Ω is the Euclidean projection of x/γ onto the simplex; γ controls sparsity: the smaller, the "
        "sparser.",
        "smoothing:sparsemax",
        tests=(
            _SMOOTH + "test_weights_and_value_agree_with_an_oracle",
            _REGULARIZERS + "test_a_smaller_gamma_never_enlarges_the_support_of_sparsemax",
        ),
    ),
    _claim(
        "sparsemax-jacobian",
        "§2.3",
        "The Jacobian of sparsemax is (diag(s) − s sᵀ/‖s‖₁)/γ, where s marks the support.",
        "jacobians:sparsemax",
        tests=(_SMOOTH + "test_jacobian_is_symmetric_positive_semidefinite_and_centred",),
    ),
    _claim(
        "clarke",
        "§2.3, §3.2",
        "Where Π_Ω is not differentiable, an element of Clarke's generalized Jacobian can be taken.",
        "jacobians:at_kinks",
        tests=(_REGULARIZERS + "test_at_ties_and_thresholds_the_derivative_is_finite",),
    ),
    _claim(
        "fig1-properties",
        "figure 1, caption",
        "All rows sum to 1; exact zeros are never reached by softmax; contiguous segments of equal weight occur with "
        "fusedmax and never with softmax and sparsemax.",
        "fusion:segments",
        tests=("tests/laws/test_edges.py::test_ties_are_equal_to_the_bit",),
    ),
    _claim(
        "fig2",
        "figure 2",
        "max_Ω([t, 0]) is a ReLU-like and Π_Ω([t, 0])₁ a sigmoid-like function; all but softmax reach 0 and 1 exactly; "
        "oscarmax is equivalent to fusedmax in two dimensions.",
        "smoothing:figure_2",
        remark="Equivalent with twice the strength: on two weights |p − q| = 2 max(p, q) − 1.",
        tests=(
            _REGULARIZERS + "test_figure_2_of_the_paper",
            _REGULARIZERS + "test_fused_is_oscar_of_twice_the_strength_on_two_scores",
            "tests/plots/test_plots.py::test_figure2_shows_five_operators_and_a_zoom",
        ),
        draws=True,
    ),
    _claim(
        "prop1",
        "Proposition 1",
        "For a differentiable Ω the Jacobian J of Π_Ω solves (I + A(B − I)) J = A, with A the Jacobian of the "
        "projection at y* − γ∇Ω(y*) + x and B = γ H_Ω(y*); it follows from the fixed point y* = P(y* − ∇f(y*)).",
        "jacobians:proposition_1",
        tests=(
            _SMOOTH + "test_jacobian_solves_the_equation_of_proposition_1",
            "tests/test_differentiable.py::test_backward_is_proposition_1",
        ),
    ),
    _claim(
        "any-solver",
        "§3.1",
        "For any differentiable Ω, Π_Ω can be computed globally by an off-the-shelf solver over the simplex.",
        tests=(
            "tests/test_differentiable.py::test_reproduces_the_dedicated_operator",
            "tests/test_differentiable.py::test_the_gap_bounds_the_loss",
        ),
    ),
    _claim(
        "pnorm",
        "§3.1, squared p-norms",
        "Gradient and Hessian (a diagonal plus u uᵀ) of ½‖y‖_p²; p = 2 recovers sparsemax; p between 1 and 2 also "
        "gives zeros, with a smoother transition.",
        "jacobians:squared_p_norms",
        tests=(_REGULARIZERS + "test_family_members_that_coincide",),
    ),
    _claim(
        "pnorm-display",
        "§3.1, squared p-norms",
        "½‖y‖_p² = (Σ y_i^p)^(2/p) on the simplex.",
        "jacobians:printed_p_norm",
        holds=False,
        remark="The display lacks the factor ½ on its right: at (½, ½) with p = 1.5 the sides are 0.315 and 0.63. The "
        "gradient and the Hessian below it are those of ½‖y‖_p².",
    ),
    _claim(
        "prop2-fusedmax",
        "Proposition 2",
        "fusedmax is the projection onto the simplex of the total-variation prox of x/γ.",
        "fusion:proposition_2_fusedmax",
        tests=(_SMOOTH + "test_weights_and_value_agree_with_an_oracle", _PROXIMAL + "test_total_variation"),
    ),
    _claim(
        "prop2-oscarmax",
        "Proposition 2",
        "oscarmax is the projection onto the simplex of the OSCAR prox of x/γ.",
        "fusion:proposition_2_oscarmax",
        holds=False,
        remark="The OSCAR prox ranks by |x| and clips at zero, which a problem on the simplex does not: at (0.5, −0.5, "
        "0) with λ = 0.25 the composition reaches 0.1302 where 0.1458 is possible, and at λ = 0.1 it is suboptimal in "
        "59 % of normal draws of six. omegamax solves the problem itself.",
        tests=(_REGULARIZERS + "test_the_published_composition_is_not_oscarmax",),
    ),
    _claim(
        "prox-of-sum",
        "§3.2, after Proposition 2",
        "The prox of a sum is not in general the composition of the proxes.",
        "fusion:not_in_general",
        tests=(_REGULARIZERS + "test_projecting_the_group_prox_is_not_groupmax",),
    ),
    _claim(
        "groups-fusedmax",
        "§3.2, groups",
        "Since the projection is max(z − θ, 0), fusedmax shifts the common value of a group or sets all of it to zero.",
        "fusion:groups_of_fusedmax",
        tests=("tests/laws/test_kernels_clustered.py::test_ties_are_equal_to_the_bit",),
    ),
    _claim(
        "groups-oscarmax",
        "§3.2, groups",
        "The same of oscarmax, whose groups are the indices of equal |z|.",
        "fusion:groups_of_oscarmax",
        holds=False,
        remark="Entries of equal |z| and opposite sign have no common value: the projection tears them apart. In the "
        "exact solution groups are of equal weight.",
    ),
    _claim(
        "strength",
        "§3.2",
        "λ trades off between no fusion (sparsemax) and all elements in one trivial group.",
        "fusion:strengths",
        tests=(_REGULARIZERS + "test_a_great_strength_gives_uniform_weights",),
    ),
    _claim(
        "defaults",
        "§2.3, §3.1, §3.2",
        "γ = 1, p = 1.5, λ = 0.1 (fusedmax) and 0.01 (oscarmax) are sensible defaults.",
        "fusion:defaults",
        published={"γ": 1.0, "sq-pnorm-max p": 1.5, "fusedmax λ": 0.1, "oscarmax λ": 0.01},
        remark="They are our defaults, for oscarmax in rows of up to 100 positions: beyond that, 0.01 makes all "
        "weights equal, and the default is 1/d. That they work well across tasks is for the recipes to show.",
        tests=("tests/test_public_api.py::test_defaults_are_the_papers",),
    ),
    _claim(
        "prop3",
        "Proposition 3",
        "The Jacobian of P_TV is 1/|G_i| within groups of equal neighbours; that of P_OSC is sign(z_i z_j)/|G_i| "
        "within groups of equal absolute value, 0 where z is 0.",
        "jacobians:proposition_3",
        tests=(
            _PROXIMAL + "test_total_variation_jacobian_is_proposition_3",
            _PROXIMAL + "test_oscar_jacobian_is_proposition_3_with_its_signs",
        ),
    ),
    _claim(
        "jacobian-fusedmax",
        "§3.2, backward computation",
        "The Jacobian of fusedmax follows by the chain rule from those of the projection and of P_TV.",
        "jacobians:chain_rule_fusedmax",
        tests=(_SMOOTH + "test_gradcheck",),
    ),
    _claim(
        "jacobian-oscarmax",
        "§3.2, backward computation",
        "The Jacobian of oscarmax follows in the same way from that of P_OSC.",
        "jacobians:chain_rule_oscarmax",
        holds=False,
        remark="It is the Jacobian of the composition, which is not oscarmax (prop2-oscarmax). That of the exact "
        "solution is a mean over groups of equal weight, less the mean over the support.",
        tests=(_SMOOTH + "test_gradcheck",),
    ),
    _claim(
        "backward-cost",
        "§3.2, after Proposition 3",
        "The structure of these Jacobians permits efficient products with vectors, without solving a system.",
        "costs:of_operators",
        timed=True,
        benchmark="benchmarks/rows.py",
    ),
    _claim(
        "marginals-dense",
        "§5",
        "Attention by the posterior marginals of a conditional random field is generally dense, with all weights "
        "different.",
        "programs:chain_attention",
        tests=("tests/attention/test_attention.py::test_a_chain_that_holds_together",),
    ),
    _claim(
        "drop-in",
        "§5, §6",
        "The mappings are deterministic drop-in replacements of softmax, also to sample from and to build memories "
        "with.",
        tests=(
            "tests/attention/test_attention.py::test_shannon_equals_torch",
            "tests/integrations/test_convert.py::test_everything_is_kept",
            "tests/test_sampling.py::test_relaxed_samples_are_weights_and_differentiable",
            "tests/attention/test_dnc_memory.py::test_a_step_is_the_published_one",
        ),
    ),
    _claim(
        "future-dnc",
        "§6, last sentences",
        "The framework will be useful for differentiable neural computers.",
        tests=("tests/attention/test_memories_in_numpy.py::test_a_sequence",),
        benchmark="benchmarks/memory.py",
        recipe="memory",
        remark="The paper has no experiment. docs/memory_tasks.md compares addressing by sparsemax with softmax.",
    ),
]
