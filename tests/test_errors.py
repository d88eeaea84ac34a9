"""Each error says four things in one sentence: who speaks, what was expected, what came, what to do."""

# ruff: noqa: E501

import pytest
import torch
from cases import CASES

import omegamax as om
from omegamax.registry import regularizer

X = torch.zeros(2, 3)
FLAT = om.Differentiable(lambda p: p)

# (call, type, who, expected, got, fix)
ERRORS = {
    "a list": (lambda: om.sparsemax([1.0, 2.0]), TypeError, "sparsemax", "Tensor", "list", "torch.tensor"),
    "integers": (lambda: om.softmax(X.long()), TypeError, "softmax", "floating point", "torch.int64", ".float()"),
    "sparse": (lambda: om.softmax(X.to_sparse()), TypeError, "softmax", "dense", "sparse", "to_dense"),
    "0-d": (lambda: om.fusedmax(torch.tensor(1.0)), ValueError, "fusedmax", "axis", "0-d", "reshape"),
    "dim too large": (lambda: om.entmax15(X, 2), ValueError, "entmax15", "dim", "got 2", "dim=-1"),
    "dim not an int": (lambda: om.entmax15(X, 1.0), TypeError, "entmax15", "int", "float", "axis"),
    "a mask of another shape": (
        lambda: om.sparsemax(X, mask=torch.ones(2, 4, dtype=torch.bool)),
        ValueError, "sparsemax", "broadcast to scores (2, 3)", "(2, 4)", "True marks",
    ),
    "a mask with more axes": (
        lambda: om.sparsemax(X, mask=torch.ones(5, 2, 3, dtype=torch.bool)),
        ValueError, "sparsemax", "broadcast", "(5, 2, 3)", "True marks",
    ),
    "an additive mask": (lambda: om.oscarmax(X, mask=X), TypeError, "oscarmax", "boolean", "torch.float32", "-inf"),
    "a mask list": (lambda: om.oscarmax(X, mask=[True]), TypeError, "oscarmax", "boolean Tensor", "list", "torch.tensor"),
    "gamma zero": (lambda: om.softmax(X, gamma=0.0), ValueError, "softmax", "gamma must be positive", "0.0", "hard maximum"),
    "gamma negative": (lambda: om.softmax(X, gamma=-1), ValueError, "softmax", "positive", "-1", "smaller"),
    "gamma nan": (lambda: om.softmax(X, gamma=float("nan")), ValueError, "softmax", "positive", "nan", "smaller"),
    "gamma inf": (lambda: om.softmax(X, gamma=float("inf")), ValueError, "softmax", "finite", "inf", "smaller"),
    "gamma a string": (lambda: om.softmax(X, gamma="hot"), TypeError, "softmax", "number or a Tensor", "str", "smaller"),
    "gamma tensor negative": (
        lambda: om.softmax(X, gamma=torch.tensor([[1.0], [-2.0]])),
        ValueError, "softmax", "positive", "-2.0", "smaller",
    ),
    "gamma of another shape": (
        lambda: om.softmax(X, gamma=torch.ones(2)), ValueError, "gamma", "size 1 along the row", "(2,)", "shape",
    ),
    "alpha below one": (lambda: om.entmax(X, alpha=0.5), ValueError, "entmax", "at least 1", "0.5", "softmax"),
    "alpha tensor below one": (
        lambda: om.entmax(X, alpha=torch.tensor([0.9])), ValueError, "entmax", "at least 1", "0.8999", "softmax",
    ),
    "alpha of integers": (
        lambda: om.entmax(X, alpha=torch.tensor([2])), TypeError, "entmax", "floating point", "int64", ".float()",
    ),
    "alpha nan": (lambda: om.entmax(X, alpha=torch.tensor(float("nan"))), ValueError, "entmax", "at least 1", "nan", "1.5"),
    "alpha infinite": (
        lambda: om.entmax(X, alpha=torch.tensor([[2.0], [float("inf")]])), ValueError, "entmax", "finite", "entry inf", "softmax",
    ),
    "gamma tensor infinite": (
        lambda: om.softmax(X, gamma=torch.tensor(float("inf"))), ValueError, "softmax", "finite", "entry inf", "smaller",
    ),
    "alpha along the row": (
        lambda: om.entmax(X, alpha=torch.full((2, 3), 1.5)),
        ValueError, "alpha", "size 1 along the row", "(2, 3)", "(heads, 1, 1)",
    ),
    "Tsallis below one": (lambda: om.Tsallis(0.0), ValueError, "Tsallis", "at least 1", "0.0", "softmax"),
    "p of one": (lambda: om.sqpnormmax(X, p=1.0), ValueError, "sqpnormmax", "(1, 2]", "1.0", "sparsemax"),
    "p above two": (lambda: om.SquaredPNorm(2.5), ValueError, "SquaredPNorm", "(1, 2]", "2.5", "sparsemax"),
    "p a tensor": (lambda: om.sqpnormmax(X, p=torch.tensor(1.5)), TypeError, "sqpnormmax", "p must be a number, got", "Tensor", "1.5"),
    "fused strength": (lambda: om.fusedmax(X, strength=-0.1), ValueError, "fusedmax", "non-negative", "-0.1", "0 switches"),
    "oscar strength": (lambda: om.oscarmax(X, strength=-1), ValueError, "oscarmax", "non-negative", "-1", "0 switches"),
    "group strength": (
        lambda: om.groupmax(X, groups=[0, 0, 1], strength=-2.0), ValueError, "groupmax", "non-negative", "-2.0", "0 switches",
    ),
    "a projection of integers": (
        lambda: om.project_simplex(X.int()), TypeError, "project_simplex", "x must be floating", "int32", "x.float()",
    ),
    "an antitonic list": (
        lambda: om.isotonic_regression([1.0], increasing=False), TypeError, "isotonic_regression", "x must be a", "list", "tensor",
    ),
    "prox strength": (lambda: om.prox_tv1d(X, -1.0), ValueError, "prox_tv1d", "non-negative", "-1.0", "0 switches"),
    "prox strength along the row": (
        lambda: om.prox_group(X, [0, 0, 1], torch.ones(3)),
        ValueError, "prox_group", "broadcast against x (2, 3) with size 1 along the row", "(3,)", "shape",
    ),
    "groups too few": (lambda: om.groupmax(X, groups=[0, 1]), ValueError, "", "partition a row of 3", "2 positions", "once"),
    "groups overlap": (
        lambda: om.groupmax(X, groups=[[0, 1], [1, 2]]), ValueError, "", "partition", "[[0, 1], [1, 2]]", "exactly once",
    ),
    "groups with a hole": (
        lambda: om.GroupLasso([[0], [2]]), ValueError, "GroupLasso", "partition", "[[0], [2]]", "exactly once",
    ),
    "groups negative": (lambda: om.GroupLasso([0, -1, 0]), ValueError, "GroupLasso", "from 0", "-1", "number"),
    "groups of floats": (
        lambda: om.GroupLasso(torch.zeros(3)), TypeError, "GroupLasso", "integer Tensor", "float32", "number of its group",
    ),
    "groups a number": (lambda: om.groupmax(X, groups=3), TypeError, "groupmax", "sequence", "int", "number of its group"),
    "groups of letters": (lambda: om.GroupLasso("aab"), TypeError, "GroupLasso", "hold ints", "'a'", "its group's number"),
    "groups of two kinds": (lambda: om.GroupLasso([[0], 1, 2]), TypeError, "GroupLasso", "hold ints", "(0,)", "number"),
    "no regularizer": (lambda: om.smooth_max(X, "sparsemax"), TypeError, "smooth_max", "SmoothMax", "the string", "om.SquaredNorm()"),
    "a function": (lambda: om.smooth_argmax(X, torch.sum), TypeError, "smooth_argmax", "SmoothMax", "got", "Differentiable"),
    "gate of integers": (lambda: om.gate(X.int(), om.Shannon()), TypeError, "gate", "floating point", "int32", ".float()"),
    "lengths of floats": (
        lambda: om.Shannon().max(X, lengths=torch.ones(2)), TypeError, "Shannon", "integer Tensor", "float32", "torch.tensor",
    ),
    "lengths beyond the row": (
        lambda: om.Shannon().max(X, lengths=torch.tensor([1, 9])), ValueError, "Shannon", "lengths", "9", "count the scores",
    ),
    "lengths of another shape": (
        lambda: om.Shannon().max(X, lengths=torch.ones(3, dtype=torch.int64)),
        ValueError, "Shannon", "(2,)", "(3,)", "one length per batch item",
    ),
    "owl weights that rise": (
        lambda: om.prox_owl(X, torch.tensor([0.0, 1.0, 2.0])), ValueError, "prox_owl", "non-increasing", "[0.0, 1.0, 2.0]", "sort",
    ),
    "owl weights below zero": (
        lambda: om.prox_owl(X, torch.tensor([1.0, 0.0, -1.0])), ValueError, "prox_owl", "non-negative", "-1.0", "sort",
    ),
    "owl weights too few": (lambda: om.prox_owl(X, torch.ones(2)), ValueError, "prox_owl", "(3,)", "(2,)", "one weight per rank"),
    "owl weights that learn": (
        lambda: om.prox_owl(X, torch.ones(3, requires_grad=True)), ValueError, "prox_owl", "gradient", "requires_grad", "detach",
    ),
    "samples": (lambda: om.sample(X, -1), ValueError, "sample", "non-negative int", "-1", "how many"),
    "gamma a boolean": (lambda: om.sparsemax(X, gamma=True), TypeError, "sparsemax", "gamma must be a number", "bool", "hard maximum"),
    "gamma a boolean elsewhere": (
        lambda: om.smooth_max(X, om.Shannon(), gamma=True), TypeError, "smooth_max", "gamma must be a number", "bool", "hard maximum",
    ),
    "gamma of a CRF a boolean": (
        lambda: om.CRFLoss(om.Chain(), gamma=True), TypeError, "CRFLoss", "gamma must be a number", "bool", "hard maximum",
    ),
    "samples a boolean": (lambda: om.sample(X, True), TypeError, "sample", "non-negative int", "bool", "how many"),
    "margin a boolean": (
        lambda: om.MarginLoss(om.Hard(), margin=True), TypeError, "MarginLoss", "margin must be a number", "bool", "costs",
    ),
    "scale a boolean": (
        lambda: om.ScaledDotProduct(scale=True), TypeError, "ScaledDotProduct", "scale must be a number", "bool", "leave it out",
    ),
    "noise a boolean": (
        lambda: om.attention.MonotonicAttention(noise=True), TypeError, "MonotonicAttention", "noise must be a number", "bool", "switches",
    ),
    "sampling scores": (lambda: om.sample(X - 1, 2), ValueError, "sample", "non-negative", "-1.0", "normalise"),
    "Above its bound": (lambda: om.Above(1.0, start=1.0), ValueError, "Above", "exceed 1.0", "got 1.0", "above"),
    "fn of another shape": (
        lambda: FLAT.argmax(X), ValueError, "Differentiable", "(2, 3) to (2,)", "got (2, 3)", "sum over the last axis",
    ),
    "Above all numbers": (lambda: om.Above(0.0, float("inf")), ValueError, "Above", "start must be finite", "inf", "bound"),
    "Above words": (lambda: om.Above(0.0, "one"), TypeError, "Above", "start must be a number", "str", "bound"),
    "fn of another kind": (lambda: om.Differentiable(3), TypeError, "Differentiable", "function", "int", "lambda p"),
    "fn that is constant": (
        lambda: om.Differentiable(lambda p: p.detach().sum(-1)).argmax(X),
        ValueError, "Differentiable", "differentiable in the weights", "does not depend", "without detaching",
    ),
    "rtol negative": (
        lambda: om.Differentiable(abs, rtol=-1.0), ValueError, "Differentiable", "rtol must be positive", "-1.0", "leave it out",
    ),
    "max_iter zero": (lambda: om.Differentiable(abs, max_iter=0), ValueError, "Differentiable", "at least 1", "got 0", "ask"),
    "module alpha": (lambda: om.Entmax(alpha=0.2), ValueError, "Entmax", "at least 1", "0.2", "softmax"),
    "module gamma": (lambda: om.Sparsemax(gamma=0), ValueError, "Sparsemax", "positive", "0", "smaller"),
    "Scaled gamma": (lambda: om.Scaled(om.Shannon(), -1.0), ValueError, "Scaled", "positive", "-1.0", "smaller"),
    "registry": (lambda: regularizer("topk"), ValueError, "regularizer", "sparsemax", "'topk'", "choose"),
}  # fmt: skip


@pytest.mark.parametrize("call, kind, who, expected, got, fix", ERRORS.values(), ids=ERRORS.keys())
def test_error_says_who_expected_got_and_what_to_do(call, kind, who, expected, got, fix):
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    message = str(caught.value)
    speaker, colon, rest = message.partition(": ")
    assert colon and speaker.isidentifier() and who in message
    for part in (expected, got, fix):
        assert part in rest
    assert "\n" not in message and "; " in rest and not message.endswith(".")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_operator_checks_at_the_door(case):
    """The speaker is the function the user called."""
    name = case.functional.__name__
    with pytest.raises(TypeError, match=f"^{name}: scores must be floating point"):
        case(X.int())
    with pytest.raises(ValueError, match=f"^{name}: mask must broadcast"):
        case(X, mask=torch.ones(7, dtype=torch.bool))
    with pytest.raises(ValueError, match=f"^{name}: gamma must be positive"):
        case(X, gamma=-1.0)
    with pytest.raises(ValueError, match=f"^{name}: dim must lie in"):
        case.functional(X, 5, **case.arguments(3))


GROUPS = [0, 0, 1, 1]


@pytest.mark.parametrize(
    "call",
    [
        lambda x, v: om.entmax(x, alpha=1 + v),
        lambda x, v: om.sparsemax(x, gamma=v),
        lambda x, v: om.fusedmax(x, strength=v),
        lambda x, v: om.oscarmax(x, strength=v),
        lambda x, v: om.groupmax(x, groups=GROUPS, strength=v),
        lambda x, v: om.prox_tv1d(x, v),
        lambda x, v: om.prox_oscar(x, v),
        lambda x, v: om.prox_group(x, GROUPS, v),
        lambda x, v: om.prox_owl(x, v.expand(4)),
    ],
    ids="entmax gamma fusedmax oscarmax groupmax tv1d oscar group owl".split(),  # noqa: SIM905
)
def test_a_bad_entry_of_a_traced_parameter_spoils_its_own_row(call):
    """Where values cannot be read for free, an invalid entry makes its row NaN and no other."""
    weights = torch.func.vmap(call)(torch.randn(3, 4), torch.tensor([0.5, -0.5, 1.0]))
    assert weights.isnan().all(-1).tolist() == [False, True, False]
