"""A network with a memory beside it: batches, continuation, lengths, slots that are not there, gradients."""

import pytest
import torch
from draws import distribution, normal

import omegamax as om

MEMORIES = [
    om.attention.TuringMemory(5, n_slots=6, width=3, n_reads=2, n_writes=2, normalizer=om.SquaredNorm()),
    om.attention.TuringMemory(5, n_slots=6, width=3, shift_normalizer=om.SquaredNorm()),
    om.attention.DNCMemory(5, n_slots=6, width=3, n_reads=2, normalizer=om.Tsallis(1.5)),
]


every = pytest.mark.parametrize("memory", MEMORIES, ids=lambda m: type(m).__name__)


@every
class TestControllers:
    def test_batch_and_continuation(self, memory):
        model = om.attention.MemoryController(4, 2, memory).double()
        inputs = normal(3, 7, 4)
        whole = model(inputs)
        assert whole.outputs.shape == (3, 7, 2)
        first = model(inputs[:, :4])
        torch.testing.assert_close(model(inputs[:, 4:], first.state).outputs, whole.outputs[:, 4:])
        torch.testing.assert_close(model(inputs[1:2]).outputs, whole.outputs[1:2])
        assert model(inputs[:, :0]).outputs.shape == (3, 0, 2)

    @pytest.mark.thinned(3)
    def test_gradients(self, memory):
        model = om.attention.MemoryController(4, 2, memory).double()
        inputs = normal(2, 3, 4).requires_grad_()
        assert torch.autograd.gradcheck(lambda x: model(x).outputs, (inputs,), atol=1e-5)

    def test_other_types(self, memory):
        model = om.attention.MemoryController(4, 2, memory).float()
        inputs = torch.randn(2, 3, 4)
        with torch.autocast("cpu", torch.bfloat16):
            outputs = model(inputs).outputs
        assert outputs.isfinite().all()
        outputs.float().sum().backward()
        assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


@every
class TestLengths:
    lengths = torch.tensor([5, 2, 0])

    def test_a_shorter_item_is_as_it_is_alone(self, memory):
        model = om.attention.MemoryController(4, 2, memory).double()
        inputs = normal(3, 5, 4)
        spoilt = torch.where(torch.arange(5)[:, None] < self.lengths[:, None, None], inputs, torch.nan)
        outputs, state = model(spoilt, lengths=self.lengths)
        for b, n in enumerate(self.lengths.tolist()):
            alone = model(inputs[b : b + 1, :n])
            torch.testing.assert_close(outputs[b : b + 1, :n], alone.outputs)
            assert not outputs[b, n:].any()
            for found, expected in zip(state[:3] + state.memory, alone.state[:3] + alone.state.memory):
                if expected is not None:
                    torch.testing.assert_close(found[b : b + 1], expected)

    def test_items_go_on_from_where_they_ended(self, memory):
        model = om.attention.MemoryController(4, 2, memory).double()
        inputs, more = normal(2, 5, 4), normal(2, 3, 4)
        state = model(inputs, lengths=torch.tensor([5, 2])).state
        expected = model(torch.cat([inputs[1:, :2], more[1:]], 1)).outputs[:, 2:]
        torch.testing.assert_close(model(more, state).outputs[1:], expected)

    @pytest.mark.thinned(3)
    def test_padding_has_no_gradient(self, memory):
        model = om.attention.MemoryController(4, 2, memory).double()
        inputs = normal(2, 4, 4)
        inputs[1, 2:] = torch.nan
        model(inputs, lengths=torch.tensor([4, 2])).outputs.sum().backward()
        assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
        inputs = normal(2, 3, 4).requires_grad_()
        assert torch.autograd.gradcheck(lambda x: model(x, lengths=torch.tensor([3, 1])).outputs, (inputs,), atol=1e-5)


@every
class TestSlots:
    def test_masking_is_removing(self, memory):
        """A batch of memories of different sizes, each as if it were alone."""
        model = om.attention.MemoryController(4, 2, memory).double()
        inputs = normal(3, 5, 4)
        mask = torch.tensor([[True] * 6, [True, False, True, False, False, True], [False] * 2 + [True] * 4])
        outputs, state = model(inputs, model.initial(3, like=inputs, mask=mask))
        assert not state.memory.memory[~mask].any()
        assert not state.memory.read_weights.transpose(1, 2)[~mask].any()
        n_slots = memory.n_slots
        try:
            for b in range(3):
                memory.n_slots = int(mask[b].sum())  # no parameter depends on it
                torch.testing.assert_close(outputs[b : b + 1], model(inputs[b : b + 1]).outputs)
        finally:
            memory.n_slots = n_slots

    def test_no_slot_at_all(self, memory):
        model = om.attention.MemoryController(4, 2, memory).double()
        inputs = normal(2, 3, 4).requires_grad_()
        state = model.initial(2, like=inputs, mask=torch.tensor([[True], [False]]))
        outputs, state = model(inputs, state)
        assert not state.reads[1].any() and outputs.isfinite().all()
        outputs.sum().backward()
        assert inputs.grad.isfinite().all()

    def test_errors(self, memory):
        model, like = om.attention.MemoryController(4, 2, memory).double(), normal(1)
        with pytest.raises(ValueError, match=r"slots of every item \(2, 6\), got \(2, 5\); True marks"):
            model.initial(2, like=like, mask=torch.ones(2, 5, dtype=torch.bool))
        with pytest.raises(ValueError, match=r"inputs must be \(batch, T, 4\), got \(7, 4\)"):
            model(normal(7, 4))
        with pytest.raises(ValueError, match="MemoryController: lengths must lie between 0 and 7, got 3 to 8"):
            model(normal(2, 7, 4), lengths=torch.tensor([3, 8]))


def test_sizes():
    for kind in (om.attention.TuringMemory, om.attention.DNCMemory):
        for options, name in (({"n_slots": 0, "width": 2}, "n_slots"), ({"n_slots": 2, "width": 0}, "width")):
            with pytest.raises(ValueError, match=f"{kind.__name__}: {name} must be at least 1, got 0"):
                kind(4, **options)
        model = om.attention.MemoryController(3, 2, kind(4, n_slots=1, width=1))
        assert model(torch.ones(1, 2, 3)).outputs.isfinite().all()
    with pytest.raises(ValueError, match="max_shift must be non-negative, got -1"):
        om.attention.TuringMemory(4, n_slots=3, width=2, max_shift=-1)


def test_a_step_of_a_turing_machine():
    """Writes where the writing head points, then reads where the reading head points now."""
    memory = om.attention.TuringMemory(5, n_slots=4, width=3, n_reads=2).double()
    state = om.attention.TuringState(normal(4, 3), distribution(2, 4), distribution(1, 4))
    controller = normal(5)
    reads, new = memory(controller, state)
    write = memory.writing(controller, state.memory, state.write_weights)
    erase, add = memory.content(controller).reshape(2, 3)
    expected = torch.empty(4, 3, dtype=torch.float64)
    for i in range(4):
        for c in range(3):
            expected[i, c] = state.memory[i, c] * (1 - write[0, i] * erase[c].sigmoid()) + write[0, i] * add[c].tanh()
    torch.testing.assert_close(new.memory, expected)
    read = memory.reading(controller, expected, state.read_weights)
    torch.testing.assert_close((new.read_weights, new.write_weights), (read, write))
    for r in range(2):
        torch.testing.assert_close(reads[r], sum(read[r, i] * expected[i] for i in range(4)))
