"""One step: the same gradient however the batch is cut, and nothing changed when it is not a number."""

import copy

import pytest
import torch
from toy_task import Sums, SumsSettings

from omegamax.errors import DivergedError
from omegamax.training.optimization import load_optimizer, make_optimizer, optimizer_tensors, take_step
from omegamax.training.processes import Processes
from omegamax.training.settings import TrainingSettings
from omegamax.training.task import Loss

STILL = SumsSettings(dropout=0.0, noise=0.0)


def step(task, model, batch, **settings):
    settings = TrainingSettings(**{"clip": 0.0, **settings})
    optimizer = make_optimizer(model, settings)
    done = take_step(
        task,
        model,
        optimizer,
        task.examples("train"),
        batch,
        settings=settings,
        processes=Processes(),
        stop_requested=False,
    )
    return done, optimizer


@pytest.fixture
def task():
    return Sums.prepare(STILL)


def gradients(model):
    return {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("accumulate", [2, 3, 5, 100])
def test_parts_give_the_gradient_of_one_pass(task, accumulate):
    whole = task.model()
    cut = copy.deepcopy(whole)
    batch = list(range(11))
    one, _ = step(task, whole, batch)
    many, _ = step(task, cut, batch, accumulate=accumulate)
    assert many.n_items == one.n_items
    assert many.loss == pytest.approx(one.loss)
    for name, gradient in gradients(whole).items():
        torch.testing.assert_close(gradients(cut)[name], gradient, rtol=1e-5, atol=1e-7)


def test_the_gradient_is_that_of_the_mean_over_items(task):
    model = task.model()
    by_hand = copy.deepcopy(model)
    batch = list(range(11))
    done, _ = step(task, model, batch)
    loss = task.loss(by_hand, task.collate([task.examples("train")[at] for at in batch]))
    (loss.total / loss.n_items).backward()
    norm = torch.cat([gradient.flatten() for gradient in gradients(by_hand).values()]).norm()
    assert done.gradient_norm == pytest.approx(norm.item(), rel=1e-5)
    for name, gradient in gradients(by_hand).items():
        torch.testing.assert_close(gradients(model)[name], gradient)


def test_clipping_keeps_the_direction_and_bounds_the_norm(task):
    free = task.model()
    bound = copy.deepcopy(free)
    step(task, free, [0, 1, 2])
    done, _ = step(task, bound, [0, 1, 2], clip=0.01)
    assert done.gradient_norm > 0.01
    factor = 0.01 / done.gradient_norm
    for name, gradient in gradients(free).items():
        torch.testing.assert_close(gradients(bound)[name], gradient * factor, rtol=1e-3, atol=1e-8)


def test_decay_shrinks_matrices_only(task):
    groups = make_optimizer(task.model(), TrainingSettings(weight_decay=0.3)).param_groups
    assert {(group["weight_decay"], parameter.dim() > 1) for group in groups for parameter in group["params"]} == {
        (0.3, True),
        (0.0, False),
    }


def test_bfloat16_computes_scores_in_bfloat16_and_keeps_parameters(task):
    class Watching(Sums):
        def loss(self, model, batch):
            self.seen = model(batch.symbols).dtype
            return super().loss(model, batch)

    watching = Watching.prepare(STILL)
    model = watching.model()
    step(watching, model, [0, 1, 2], precision="bfloat16")
    assert watching.seen is torch.bfloat16
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


@pytest.mark.parametrize("factor", [float("nan"), float("inf")])
def test_what_is_no_number_changes_nothing(task, factor):
    class Broken(Sums):
        def loss(self, model, batch):
            loss = super().loss(model, batch)
            return Loss(loss.total * factor, loss.n_items)

    model = task.model()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(DivergedError, match=r"loss is (nan|inf)"):
        step(Broken.prepare(STILL), model, [0, 1])
    for name in ("embed.weight", "out.bias"):
        assert torch.equal(model.state_dict()[name], before[name])


def test_a_finite_loss_with_an_infinite_gradient_changes_nothing(task):
    class Steep(Sums):
        def loss(self, model, batch):
            loss = super().loss(model, batch)
            return Loss(loss.total + (loss.total * 0).abs().sqrt(), loss.n_items)  # slope 1/0 at 0

    with pytest.raises(DivergedError, match="gradient has norm nan"):
        step(Steep.prepare(STILL), task.model(), [0, 1])


def test_the_state_of_the_optimiser_comes_back(task):
    model = task.model()
    _, optimizer = step(task, model, [0, 1, 2])
    tensors = optimizer_tensors(model, optimizer)
    assert len(tensors) == 3 * len(list(model.parameters()))
    other = make_optimizer(model, TrainingSettings())
    load_optimizer(model, other, {name: tensor.clone() for name, tensor in tensors.items()})
    for name, tensor in optimizer_tensors(model, other).items():
        assert torch.equal(tensor, tensors[name])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda tensors: tensors.pop("optimizer.step.out.bias"),
        lambda tensors: tensors.update({"optimizer.exp_avg.out.bias": torch.zeros(99)}),
        lambda tensors: tensors.update({"optimizer.exp_avg.nothing": torch.zeros(1)}),
    ],
)
def test_a_state_that_does_not_fit_is_refused(task, spoil):
    model = task.model()
    _, optimizer = step(task, model, [0, 1, 2])
    tensors = optimizer_tensors(model, optimizer)
    spoil(tensors)
    with pytest.raises(ValueError, match=r"must have shape|unknown tensor"):
        load_optimizer(model, make_optimizer(model, TrainingSettings()), tensors)


def test_plain_descent_is_the_gradient_times_the_rate(task):
    torch.manual_seed(0)
    model = task.model()
    other = copy.deepcopy(model)
    _, optimizer = step(task, model, [0, 1, 2], optimizer="sgd", learning_rate=0.1)
    total, n_items = task.loss(other, task.collate([task.examples("train")[at] for at in [0, 1, 2]]))
    (total / n_items).backward()
    for mine, theirs in zip(model.parameters(), other.parameters()):
        torch.testing.assert_close(mine, theirs - 0.1 * theirs.grad)
    assert optimizer_tensors(model, optimizer) == {}
    load_optimizer(model, optimizer, {})
    with pytest.raises(ValueError, match=r"the optimiser has no state, but there is a tensor 'optimizer\.step\.x'"):
        load_optimizer(model, optimizer, {"optimizer.step.x": torch.zeros(())})
