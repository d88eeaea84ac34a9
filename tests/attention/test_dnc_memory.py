"""The memory of a differentiable neural computer, against plain loops over its published formulas."""

import itertools
import math

import pytest
import torch
from draws import NORMALIZERS, distribution, normal
from torch import nn

import omegamax as om
from omegamax.attention.memories import dnc_memory


class TestDNC:
    def test_usage(self):
        usage, write, read, free = normal(4).sigmoid(), distribution(4), distribution(2, 4), normal(2).sigmoid()
        found = dnc_memory.update_usage(usage, write, read, free)
        for i in range(4):
            retention = math.prod(1 - free[r] * read[r, i] for r in range(2))
            torch.testing.assert_close(found[i], (usage[i] + write[i] - usage[i] * write[i]) * retention)

    def test_allocation(self):
        usage = normal(3, 5).sigmoid()
        found = dnc_memory.allocation(usage)
        for b in range(3):
            order = sorted(range(5), key=lambda i: usage[b, i])
            for j, slot in enumerate(order):
                expected = (1 - usage[b, slot]) * math.prod(usage[b, order[i]] for i in range(j))
                torch.testing.assert_close(found[b, slot], expected)
        assert torch.autograd.gradcheck(dnc_memory.allocation, (usage.requires_grad_(),))

    def test_allocation_picks_free_slots(self):
        usage, taken = torch.tensor([1.0, 0.0, 1.0, 0.0, 1.0]), []
        for _ in range(2):
            write = dnc_memory.allocation(usage)
            taken.append(int(write.argmax()))
            assert write.sum() == 1
            usage = dnc_memory.update_usage(usage, write, torch.zeros(1, 5), torch.zeros(1))
        assert taken == [1, 3]
        assert not dnc_memory.allocation(usage).any()  # full: nowhere to write
        usage = dnc_memory.update_usage(usage, torch.zeros(5), torch.eye(5)[4:], torch.ones(1))  # slot 4 is given back
        assert dnc_memory.allocation(usage).tolist() == [0, 0, 0, 0, 1]

    def test_links(self):
        links, precedence, write = normal(4, 4).sigmoid() / 4, distribution(4) * 0.9, distribution(4) * 0.7
        links.fill_diagonal_(0)
        found = dnc_memory.update_links(links, precedence, write)
        for i in range(4):
            for j in range(4):
                expected = (
                    (1 - write[i] - write[j]) * links[i, j] + write[i] * precedence[j] if i != j else 0 * write[0]
                )
                torch.testing.assert_close(found.links[i, j], expected)
            torch.testing.assert_close(found.precedence[i], (1 - write.sum()) * precedence[i] + write[i])

    def test_links_recall_the_order_of_writing(self):
        links, precedence = torch.zeros(5, 5), torch.zeros(5)
        order = [3, 1, 4, 0]
        for slot in order:
            links, precedence = dnc_memory.update_links(links, precedence, torch.eye(5)[slot])
        for before, after in itertools.pairwise(order):
            assert torch.equal(links @ torch.eye(5)[before], torch.eye(5)[after])  # onward
            assert torch.equal(links.T @ torch.eye(5)[after], torch.eye(5)[before])  # backward
        assert torch.equal(precedence, torch.eye(5)[0])

    @pytest.mark.parametrize("normalizer", NORMALIZERS, ids=str)
    def test_a_step_is_the_published_one(self, normalizer):
        memory = om.attention.DNCMemory(6, n_slots=4, width=3, n_reads=2, normalizer=normalizer).double()
        state = memory.initial(like=normal(1))
        for _ in range(3):
            controller = 2 * normal(6)
            recalled = memory(controller, state)
            self.check(memory, controller, state, recalled, normalizer)
            state = recalled.state

    def check(self, memory, controller, old, recalled, normalizer):
        new, reads = recalled.state, recalled.reads
        raw, per_read = memory.of_write(controller), memory.of_reads(controller).reshape(2, 8)
        key, sharpness, erase = raw[:3], 1 + nn.functional.softplus(raw[3]), raw[4:7].sigmoid()
        add, allocation_gate, write_gate = raw[7:10], raw[10].sigmoid(), raw[11].sigmoid()

        def content(contents, key, sharpness):
            cosine = contents @ key / ((contents.square().sum(-1) + 1e-6).sqrt() * (key.square().sum() + 1e-6).sqrt())
            return normalizer.argmax(sharpness * cosine)

        free = per_read[:, 4].sigmoid()
        usage = dnc_memory.update_usage(old.usage, old.write_weights, old.read_weights, free)
        write = write_gate * (
            allocation_gate * dnc_memory.allocation(usage) + (1 - allocation_gate) * content(old.memory, key, sharpness)
        )
        contents = old.memory * (1 - torch.outer(write, erase)) + torch.outer(write, add)
        links, precedence = dnc_memory.update_links(old.links, old.precedence, write)
        for r in range(2):
            backward, onward = links.T @ old.read_weights[r], links @ old.read_weights[r]
            modes = per_read[r, 5:].softmax(-1)
            found = content(contents, per_read[r, :3], 1 + nn.functional.softplus(per_read[r, 3]))
            weights = modes[0] * backward + modes[1] * found + modes[2] * onward
            torch.testing.assert_close(new.read_weights[r], weights)
            torch.testing.assert_close(reads[r], weights @ contents)
        torch.testing.assert_close(new[:4], (contents, usage, links, precedence))
        assert (links.sum(0) <= 1 + 1e-9).all() and (links.sum(1) <= 1 + 1e-9).all()
