"""torch.compile, torch.export and ONNX, against the eager answer."""

import io

import numpy as np
import pytest
import torch
from cases import CASES, ENTMAX13, FUSED, GROUP, HARD, LEARNABLE, ONE_EACH, OSCAR, SPARSEMAX, normal
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.flop_counter import FlopCounterMode

import omegamax as om

every = pytest.mark.parametrize("case", CASES, ids=str)
one_each = pytest.mark.parametrize("case", ONE_EACH, ids=str)
close = torch.testing.assert_close
# Tracers warn about their own use of deprecated functions.
pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore:.*torch.*:UserWarning"
)


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch.compiler.reset()


class Both(torch.nn.Module):
    """A module whose output depends on weights, value, mask and temperature."""

    def __init__(self, case, columns):
        super().__init__()
        self.smooth, self.argmax = case.regularizer(columns), case.module(gamma=0.5, **case.arguments(columns))

    def forward(self, scores, mask):
        return self.argmax(scores, mask), om.smooth_max(scores, self.smooth)


def inputs():
    mask = torch.ones(4, 6, dtype=torch.bool)
    mask[1, 2:4] = mask[2] = False
    return normal(4, 6).requires_grad_(), mask


def gradient(outputs, scores):
    weights, value = outputs
    total = (weights * normal(*weights.shape, seed=1)).sum() + value.square().sum()
    return torch.autograd.grad(total, scores)[0]


def same_answers(run, case):
    scores, mask = inputs()
    eager = Both(case, 6)
    for actual, expected in zip(run(scores, mask), eager(scores, mask)):
        close(actual, expected, atol=1e-14, rtol=1e-13)
    close(gradient(run(scores, mask), scores), gradient(eager(scores, mask), scores), atol=1e-13, rtol=1e-12)


# ---------------------------------------------------------------- torch.compile


@pytest.mark.slow
@every
def test_compile_without_graph_breaks(case):
    same_answers(torch.compile(Both(case, 6), fullgraph=True, backend="aot_eager"), case)


def test_compile_in_the_quick_round():
    same_answers(torch.compile(Both(FUSED, 6), fullgraph=True, backend="aot_eager"), FUSED)


@pytest.mark.slow
@pytest.mark.parametrize("case", [SPARSEMAX, OSCAR], ids=str)
def test_compile_with_inductor(case):
    same_answers(torch.compile(Both(case, 6), fullgraph=True), case)


@pytest.mark.slow
@pytest.mark.parametrize("case", [SPARSEMAX, ENTMAX13, GROUP], ids=str)
def test_compile_with_changing_shapes_and_types(case):
    compiled = torch.compile(case.regularizer(6).argmax, fullgraph=True, backend="aot_eager", dynamic=True)
    for shape in ((4, 6), (7, 6), (2, 3, 6), (0, 6)):
        scores = normal(*shape)
        close(compiled(scores), case.regularizer(6).argmax(scores), atol=1e-14, rtol=1e-13)
    for dtype in (torch.float32, torch.bfloat16):
        scores = normal(4, 6, dtype=dtype)
        compiled_once = torch.compile(case.regularizer(6).argmax, fullgraph=True, backend="aot_eager")
        assert torch.equal(compiled_once(scores), case.regularizer(6).argmax(scores))


@pytest.mark.slow
@pytest.mark.parametrize("case", LEARNABLE, ids=str)
def test_compile_with_a_learnable_parameter(case):
    def loss(scores, value):
        smooth = case.regularizer(6, **{case.learnable: value})
        return smooth.argmax(scores).square().sum() + smooth.max(scores).sum()

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    gradients = []
    for function in (loss, compiled):
        scores = normal(4, 6).requires_grad_()
        value = torch.full((4, 1), case.options[case.learnable], dtype=torch.float64, requires_grad=True)
        gradients.append(torch.autograd.grad(function(scores, value), (scores, value)))
    for actual, expected in zip(*gradients):
        close(actual, expected, atol=1e-13, rtol=1e-12)


@pytest.mark.slow
def test_torch_func_inside_compile_says_what_to_do():
    function, row = torch.func.grad(lambda x: om.sparsemax(x).square().sum()), normal(5)
    with pytest.raises(Exception, match=r"torch\.compiler\.disable"):
        torch.compile(function, fullgraph=True, backend="aot_eager")(row)
    close(torch.compile(function, backend="aot_eager")(row), function(row))  # left out of the graph, and right


@pytest.mark.slow
def test_torch_func_beside_a_compiled_graph():
    """The advice of that message works."""
    row, function = normal(5), torch.func.grad(lambda x: om.sparsemax(x).square().sum())
    disabled = torch.compiler.disable(function)
    compiled = torch.compile(lambda x: disabled(2 * x) + 1, backend="aot_eager")
    close(compiled(row), function(2 * row) + 1)


# ---------------------------------------------------------------- modes that watch every operation


@every
@pytest.mark.parametrize("mode", ["real", "symbolic"])
@pytest.mark.thinned(6)
def test_make_fx_records_the_operator_and_not_its_answer(case, mode):
    options = case.arguments(6)

    def slope(x):
        x = x.detach().requires_grad_()
        weights = case.functional(x, **options)
        return weights, torch.autograd.grad((weights * x.detach()).sum(), x)[0]

    recorded = make_fx(slope, tracing_mode=mode)(normal(3, 6))
    for actual, expected in zip(recorded(normal(3, 6, seed=1)), slope(normal(3, 6, seed=1))):
        close(actual, expected, atol=1e-14, rtol=1e-13)


@every
def test_real_tensors_in_a_fake_world(case):
    """Tensors that a kernel allocates there have no memory."""
    scores, options = normal(3, 6), case.arguments(6)
    if case.learnable:
        options[case.learnable] = torch.tensor(options[case.learnable])
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert isinstance(case(scores), FakeTensor)
        assert isinstance(case.functional(scores.requires_grad_(), **options), FakeTensor)


def test_a_counter_of_operations_changes_nothing():
    ridge = om.Differentiable(lambda p: 0.5 * p.square().sum(-1))
    for smooth in (om.SquaredNorm(), om.Fused(), ridge, om.GridTV(0.1)):
        scores = normal(3, 6).requires_grad_()
        with FlopCounterMode(display=False):
            watched = smooth.argmax(scores)
            torch.autograd.grad(watched.square().sum(), scores)
        assert torch.equal(watched, smooth.argmax(scores))


@pytest.mark.filterwarnings("ignore")  # of the tracer, which is deprecated
def test_jit_trace_records_no_loop_of_its_example():
    """The number of rounds of pooling depends on the data: one example needs none, the other several."""
    smooth = om.Oscar(0.5)
    example = torch.tensor([[9.0, 5.0, 1.0, -5.0]], dtype=torch.float64)
    traced = torch.jit.trace(smooth.argmax, (example,), check_trace=False)
    scores = normal(20, 4)
    close(traced(scores), smooth.argmax(scores), atol=1e-14, rtol=1e-13)


# ---------------------------------------------------------------- torch.export


@pytest.mark.slow
@every
@pytest.mark.parametrize("strict", [False, True])
def test_export_and_its_backward(case, strict):
    program = torch.export.export(Both(case, 6), inputs(), strict=strict)
    same_answers(program.module(), case)


@pytest.mark.slow
def test_export_survives_saving_and_a_dynamic_batch():
    batch = torch.export.Dim("batch", min=1, max=64)
    shapes = {"scores": {0: batch}, "mask": {0: batch}}
    program = torch.export.export(Both(FUSED, 6), inputs(), dynamic_shapes=shapes)
    saved = io.BytesIO()
    torch.export.save(program, saved)
    saved.seek(0)
    loaded = torch.export.load(saved).module()
    scores, mask = normal(9, 6, seed=3), torch.ones(9, 6, dtype=torch.bool)
    for actual, expected in zip(loaded(scores, mask), Both(FUSED, 6)(scores, mask)):
        close(actual, expected, atol=1e-14, rtol=1e-13)


def test_second_derivative_through_an_exported_graph():
    program = torch.export.export(torch.nn.Sequential(om.Sparsemax()), (normal(3, 5),)).module()
    scores = normal(3, 5).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: program(x).square().sum(), (scores,))


# ---------------------------------------------------------------- ONNX


def to_onnx(module, scores, dynamic=True):
    pytest.importorskip("onnxscript")
    shapes = ({0: torch.export.Dim("batch", min=1, max=4096)},) if dynamic else None
    # The exporter's optimizer takes a minute over unrolled iterations.
    return torch.onnx.export(module, (scores,), dynamo=True, dynamic_shapes=shapes, verbose=False, optimize=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case, dtype",
    [*((c, torch.float32) for c in ONE_EACH if c.exported), (SPARSEMAX, torch.float64), (OSCAR, torch.float64)],
    ids=str,
)
def test_onnx_runs_in_onnxruntime(case, dtype):
    onnxruntime = pytest.importorskip("onnxruntime")
    module = case.module(gamma=0.7, **case.arguments(6)).eval()
    program = to_onnx(module, normal(4, 6, dtype=dtype))
    saved = io.BytesIO()
    program.save(saved)
    session = onnxruntime.InferenceSession(saved.getvalue(), providers=["CPUExecutionProvider"])
    for rows in (1, 4, 11):
        scores = normal(rows, 6, seed=rows, dtype=dtype)
        scores[0, 2:4] = -torch.inf
        if rows > 1:
            scores[1] = 1.0  # ties
            scores[2] = -torch.inf
        (actual,) = session.run(None, {session.get_inputs()[0].name: scores.numpy()})
        np.testing.assert_allclose(actual, module(scores).numpy(), atol=1e-6, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "module",
    [om.Fusedmax(), om.Groupmax(groups=[0, 0, 1, 1, 2, 2]), "differentiable"],
    ids=["fusedmax", "groupmax", "differentiable"],
)
def test_onnx_export_is_refused_with_a_reason(module):
    if module == "differentiable":

        class Module(torch.nn.Module):
            def forward(self, scores):
                return om.smooth_argmax(scores, om.Differentiable(lambda p: 0.5 * p.square().sum(-1)))

        module = Module()
    with pytest.raises(Exception) as caught:
        to_onnx(module.eval(), normal(4, 6), dynamic=False)
    chain, error = [], caught.value
    while error is not None:
        chain.append(str(error))
        error = error.__cause__ or error.__context__
    assert any("ONNX export" in message and "export softmax" in message for message in chain)


@pytest.mark.slow
def test_differentiable_is_left_out_of_a_compiled_graph():
    smooth = om.Differentiable(lambda p: 0.5 * p.square().sum(-1))
    compiled = torch.compile(lambda x: smooth.argmax(2 * x) + 1, backend="aot_eager")
    scores = normal(4, 6)
    close(compiled(scores), smooth.argmax(2 * scores) + 1)


def test_hardmax_exports_without_a_gradient():
    program = torch.export.export(torch.nn.Sequential(om.Hardmax()), (normal(3, 5),)).module()
    assert torch.equal(program(normal(3, 5, seed=2)), HARD(normal(3, 5, seed=2)))
