"""What is listed is documented, tested and has the defaults of the paper."""

import inspect
import re
import subprocess
import sys

import cases
import pytest
import torch
from public_names import public_names

import omegamax as om
from omegamax import registry

PUBLIC = [name for name in om.__all__ if not inspect.ismodule(getattr(om, name))]
ALL = public_names()  # those of the rooms too
EXPECTED = """
    smooth_max smooth_argmax gate Differentiable Scaled Regularizer GridTV
    SmoothMax project_simplex prox_tv1d prox_oscar prox_owl prox_group isotonic_regression
    sample gumbel_argmax straight_through_argmax Above soft_sort soft_rank soft_topk_mask soft_quantile
    Structure Smoothed SparseMAP Polytope CRF Chain CTC Dag Hypergraph HypergraphBuilder ctc_loss soft_dtw
    FactorGraph FactorGraphBuilder soft_dtw_barycenter
    FenchelYoungLoss PerceptronLoss CRFLoss SparseMAPLoss MarginLoss MarginSparseMAPLoss CTCLoss SoftDTWLoss
    fenchel_young_loss
    Attention MultiheadAttention HardAttention Additive DotProduct ScaledDotProduct
    Transformer CausalTransformer TransformerEncoder TransformerDecoder
""".split()  # noqa: SIM905
EXPECTED_IN_ROOMS = """
    operators.Solution structures.DynamicProgram structures.SparseMAPSolution structures.WithExtra
    losses.sparsemax_loss losses.entmax15_loss losses.entmax_loss
    attention.Reinforce attention.StraightThrough attention.Marginalize attention.KeyValueMemory
    attention.MemoryNetwork attention.TuringMemory attention.DNCMemory attention.NTMHead attention.PointerHead
    attention.CopyHead attention.CTCHead attention.SinusoidalPositions attention.LearnedPositions attention.PreNorm
    attention.PostNorm attention.GaussianMixtureAttention attention.LocationAware attention.MonotonicAttention
    attention.MixedAttention attention.CoverageAttention attention.coverage_loss attention.GridAttention
    attention.DrawAttention attention.DrawWindow attention.GlimpseSensor attention.AttentionOutput
    attention.sharded_attention attention.attention_over_heads
""".split()  # noqa: SIM905


def test_the_promised_names_are_there():
    assert set(EXPECTED) <= set(PUBLIC)
    assert set(EXPECTED_IN_ROOMS) <= set(ALL)


def test_the_face_is_small():
    """Users meet about a hundred names first, and no two classes differ in their capital letters only."""
    assert len(PUBLIC) <= 120
    classes = [name.lower() for name in PUBLIC if inspect.isclass(getattr(om, name))]
    assert len(set(classes)) == len(classes)


def test_a_name_of_a_room_is_answered_with_the_room():
    with pytest.raises(AttributeError, match=r"no attribute 'DrawAttention'; it is omegamax\.attention\.DrawAttention"):
        om.DrawAttention  # noqa: B018


@pytest.mark.slow
def test_names_come_when_they_are_asked_for():
    script = (
        "import sys, omegamax\n"
        "assert 'torch' not in sys.modules and omegamax.softmax.__module__ == 'omegamax.functional'\n"
        "assert 'omegamax.structures' not in sys.modules\n"
        "assert omegamax.Chain.__module__ == 'omegamax.structures.chain' and 'Attention' in dir(omegamax)\n"
        "names = {}\n"
        "exec('from omegamax import *', names)\n"
        "assert names['CRFLoss'] is omegamax.CRFLoss and not hasattr(omegamax, 'nothing')\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("name", ALL)
def test_every_public_name_is_documented(name):
    thing = ALL[name]
    text = thing.__doc__ or ""
    assert len(text) > 20 and not text.startswith(f"{thing.__name__}(")  # not the line a dataclass writes for itself
    if inspect.isclass(thing) and not issubclass(thing, tuple):
        for method, function in vars(thing).items():
            if inspect.isfunction(function) and not method.startswith("_"):
                assert inspect.getdoc(function), f"{name}.{method}"


def test_every_registered_name_has_a_row():
    assert {case.registered for case in cases.CASES} == set(registry.OPERATORS)
    for case in cases.CASES:
        options = {} if case.registered == "entmax15" else case.arguments(6)
        scores = cases.normal(3, 6)
        smooth = registry.regularizer(case.registered, gamma=0.5, **options)
        assert torch.equal(smooth.argmax(scores), case(scores, gamma=0.5))


def test_every_regularizer_has_a_row():
    exempt = {om.Regularizer, om.Differentiable}  # abstract; tested in test_differentiable
    leaves = {getattr(om, n) for n in PUBLIC if inspect.isclass(getattr(om, n))}
    leaves = {leaf for leaf in leaves if issubclass(leaf, om.Regularizer)} - exempt
    assert {type(case.regularizer(6)) for case in cases.CASES} == leaves


def test_traits_agree_with_the_classes():
    for case in cases.CASES:
        assert case.regularizer(6).symmetric == case.symmetric
        if case.learnable:
            assert case.regularizer(6).learnable == case.learnable


@pytest.mark.parametrize("name", [case.functional.__name__ for case in cases.ONE_EACH])
def test_signatures_are_alike(name):
    parameters = inspect.signature(getattr(om, name)).parameters
    assert list(parameters)[:2] == ["scores", "dim"] and parameters["dim"].default == -1
    assert parameters["gamma"].default == 1.0 and parameters["mask"].default is None
    for later in list(parameters)[2:]:
        assert parameters[later].kind is inspect.Parameter.KEYWORD_ONLY


def test_defaults_are_the_papers():
    for name, value in (("fusedmax", 0.1), ("sqpnormmax", 1.5), ("oscarmax", None)):  # oscarmax: see below
        assert registry.OPERATORS[name].default == value
    assert om.Scaled(om.Hard()).gamma == 1.0
    scores = torch.randn(4, 100)  # oscarmax's 0.01, up to the lengths of the paper
    assert torch.equal(om.oscarmax(scores), om.oscarmax(scores, strength=0.01))


def test_regularizers_are_frozen():
    for case in cases.CASES:
        with pytest.raises(AttributeError):
            case.regularizer(6).something = 1


def test_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", om.__version__)


@pytest.mark.slow
def test_importing_brings_nothing_heavy():
    """Torch and numpy at most: no scipy, matplotlib, onnx, no compiler."""
    program = (
        "import torch, sys; before = set(sys.modules); import omegamax; omegamax.sparsemax; "
        "print([m for m in set(sys.modules) - before if m.split('.')[0] not in ('omegamax', 'torch', 'numpy')])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    heavy = {"scipy", "matplotlib", "onnx", "onnxscript", "pandas", "sklearn", "transformers"}
    assert not heavy & {module.split(".")[0].strip("'[] ") for module in found.split(",")}
