"""Memories against plain loops over their published formulas, and by what makes them memories."""

import itertools
import math
import runpy
from pathlib import Path

import pytest
import torch
from torch import nn

import omegamax as om
from omegamax.attention import addressing, dnc_memory

ROOT = Path(__file__).parent.parent.parent
NORMALIZERS = [om.Shannon(), om.SquaredNorm(), om.Tsallis(1.5)]


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def distribution(*shape):
    return normal(*shape).softmax(-1)


def one_hot(place, n):
    return torch.eye(n, dtype=torch.float64)[place]


class TestAddressing:
    @pytest.mark.parametrize("normalizer", NORMALIZERS, ids=str)
    def test_content(self, normalizer):
        memory, key = normal(5, 3), normal(2, 3)
        weights = addressing.content_weights(memory, key, 4.0, normalizer=normalizer)
        scores = torch.empty(2, 5, dtype=torch.float64)
        for h in range(2):
            for i in range(5):
                scores[h, i] = 4 * key[h] @ memory[i] / (key[h].norm() * memory[i].norm())
        torch.testing.assert_close(weights, normalizer.argmax(scores), atol=1e-4, rtol=0)
        mask = torch.tensor([True, False, True, True, False])
        masked = addressing.content_weights(memory, key, 4.0, normalizer=normalizer, mask=mask)
        kept = addressing.content_weights(memory[mask], key, 4.0, normalizer=normalizer)
        torch.testing.assert_close(masked[:, mask], kept)
        assert not masked[:, ~mask].any()

    def test_shift_is_a_circular_convolution(self):
        weights, shifts = distribution(2, 6), distribution(2, 5)
        shifted = addressing.circular_shift(weights, shifts)
        for b in range(2):
            for i in range(6):
                expected = sum(weights[b, (i - offset) % 6] * shifts[b, offset + 2] for offset in range(-2, 3))
                torch.testing.assert_close(shifted[b, i], expected)

    @pytest.mark.parametrize("place", range(4))
    @pytest.mark.parametrize("offset", [-1, 0, 1])
    def test_the_shift_of_a_one_hot_is_a_one_hot(self, place, offset):
        shifted = addressing.circular_shift(one_hot(place, 4), one_hot(offset + 1, 3))
        assert torch.equal(shifted, one_hot((place + offset) % 4, 4))

    def test_shifts_around_few_slots(self):
        assert torch.equal(addressing.circular_shift(torch.ones(1), torch.tensor([0.2, 0.5, 0.3])), torch.ones(1))
        assert addressing.circular_shift(torch.zeros(0), torch.tensor([0.2, 0.5, 0.3])).shape == (0,)
        with pytest.raises(ValueError, match="an odd number of them, got 2"):
            addressing.circular_shift(torch.ones(3), torch.ones(2))

    def test_sharpen(self):
        weights, power = distribution(2, 5), torch.tensor([[1.0], [3.0]], dtype=torch.float64)
        expected = torch.stack([w**g / (w**g).sum() for w, g in zip(weights, power)])
        torch.testing.assert_close(addressing.sharpen(weights, power), expected)
        torch.testing.assert_close(addressing.sharpen(weights, 1.0), weights)
        tiny = torch.tensor([1e-20, 2e-20, 0.0], requires_grad=True)
        sharp = addressing.sharpen(tiny, 30.0)
        assert sharp.sum().item() == pytest.approx(1) and sharp[1] > 0.99
        assert not addressing.sharpen(torch.zeros(3), 2.0).any()
        assert addressing.sharpen(torch.zeros(2, 0), 2.0).shape == (2, 0)

    def test_erase_and_add(self):
        memory, weights = normal(4, 3), distribution(2, 4)
        erase, add = normal(2, 3).sigmoid(), normal(2, 3)
        expected = memory.clone()
        for i in range(4):
            for c in range(3):
                for h in range(2):
                    expected[i, c] = expected[i, c] * (1 - weights[h, i] * erase[h, c])
                expected[i, c] += sum(weights[h, i] * add[h, c] for h in range(2))
        torch.testing.assert_close(addressing.erase_and_add(memory, weights, erase, add), expected)
        written = addressing.erase_and_add(memory, one_hot([2], 4), torch.ones(1, 3).double(), add[:1])
        torch.testing.assert_close(written[2], add[0])
        assert torch.equal(written[[0, 1, 3]], memory[[0, 1, 3]])

    @pytest.mark.parametrize("normalizer", NORMALIZERS, ids=str)
    def test_head_is_the_four_steps(self, normalizer):
        head = om.NTMHead(4, 3, n_heads=2, normalizer=normalizer).double()
        controller, memory, before = normal(4), normal(6, 3), distribution(2, 6)
        weights = head(controller, memory, before)
        key, sharpness, gate, shifts, power = head.address(controller)
        assert (sharpness > 0).all() and (power > 1).all() and ((gate > 0) & (gate < 1)).all()
        for h in range(2):
            cosine = nn.functional.cosine_similarity(key[h].expand(6, 3), memory, dim=-1)
            w = normalizer.argmax(sharpness[h] * cosine)
            w = gate[h] * w + (1 - gate[h]) * before[h]
            w = torch.stack([sum(w[(i - o) % 6] * shifts[h, o + 1] for o in (-1, 0, 1)) for i in range(6)])
            w = w ** power[h]
            torch.testing.assert_close(weights[h], w / w.sum(), atol=1e-5, rtol=0)
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, dtype=torch.float64))

    def test_gradients(self):
        inputs = normal(5, 3), normal(2, 3), distribution(2, 5), normal(2, 1), normal(2, 3), normal(2, 1)

        def whole(memory, key, before, gate, shifts, power):
            weights = addressing.content_weights(memory, key, 2.0)
            weights = addressing.interpolate(weights, before, gate.sigmoid())
            return addressing.sharpen(addressing.circular_shift(weights, shifts.softmax(-1)), 1 + power.exp())

        assert torch.autograd.gradcheck(whole, tuple(x.requires_grad_() for x in inputs))


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
        memory = om.DNCMemory(6, n_slots=4, width=3, n_reads=2, normalizer=normalizer).double()
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


MEMORIES = [
    om.TuringMemory(5, n_slots=6, width=3, n_reads=2, n_writes=2, normalizer=om.SquaredNorm()),
    om.TuringMemory(5, n_slots=6, width=3, shift_normalizer=om.SquaredNorm()),
    om.DNCMemory(5, n_slots=6, width=3, n_reads=2, normalizer=om.Tsallis(1.5)),
]


@pytest.mark.parametrize("memory", MEMORIES, ids=lambda m: type(m).__name__)
class TestControllers:
    def test_batch_and_continuation(self, memory):
        model = om.MemoryController(4, 2, memory).double()
        inputs = normal(3, 7, 4)
        whole = model(inputs)
        assert whole.outputs.shape == (3, 7, 2)
        first = model(inputs[:, :4])
        torch.testing.assert_close(model(inputs[:, 4:], first.state).outputs, whole.outputs[:, 4:])
        torch.testing.assert_close(model(inputs[1:2]).outputs, whole.outputs[1:2])
        assert model(inputs[:, :0]).outputs.shape == (3, 0, 2)

    def test_gradients(self, memory):
        model = om.MemoryController(4, 2, memory).double()
        inputs = normal(2, 3, 4).requires_grad_()
        assert torch.autograd.gradcheck(lambda x: model(x).outputs, (inputs,), atol=1e-5)

    def test_other_types(self, memory):
        model = om.MemoryController(4, 2, memory).float()
        inputs = torch.randn(2, 3, 4)
        with torch.autocast("cpu", torch.bfloat16):
            outputs = model(inputs).outputs
        assert outputs.isfinite().all()
        outputs.float().sum().backward()
        assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


def test_a_step_of_a_turing_machine():
    """Writes where the writing head points, then reads where the reading head points now."""
    memory = om.TuringMemory(5, n_slots=4, width=3, n_reads=2).double()
    state = om.TuringState(normal(4, 3), distribution(2, 4), distribution(1, 4))
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


def test_a_tape_holds_what_was_written():
    """Weights that are set by hand: write at the first slots one after the other, then read them back."""
    memory = torch.zeros(5, 2)
    at, written = torch.eye(5)[:1], torch.randn(3, 2)
    for vector in written:
        memory = addressing.erase_and_add(memory, at, torch.ones(1, 2), vector[None])
        at = addressing.circular_shift(at, torch.tensor([[0.0, 0.0, 1.0]]))
    at = torch.eye(5)[:1]
    for vector in written:
        torch.testing.assert_close((at @ memory)[0], vector)
        at = addressing.circular_shift(at, torch.tensor([[0.0, 0.0, 1.0]]))


class TestKeyValue:
    @pytest.mark.parametrize("normalizer", NORMALIZERS, ids=str)
    def test_hops(self, normalizer):
        model = om.KeyValueMemory(3, n_hops=2, normalizer=normalizer).double()
        nn.init.normal_(model.update[1].weight)
        query, key, value = normal(2, 3), normal(5, 3), normal(5, 3)
        output, weights = model(query, key, value)
        assert weights.shape == (2, 2, 5)
        for q in range(2):
            question = query[q]
            for hop in range(2):
                p = normalizer.argmax(torch.stack([question @ key[i] for i in range(5)]))
                torch.testing.assert_close(weights[hop, q], p)
                question = model.update[hop].weight @ (question + sum(p[i] * value[i] for i in range(5)))
            torch.testing.assert_close(output[q], question)
        inputs = tuple(x.requires_grad_() for x in (query, key, value))
        assert torch.autograd.gradcheck(lambda *x: model(*x).output, inputs, atol=1e-5)

    def test_lengths(self):
        model = om.KeyValueMemory(3, n_hops=3)
        query, key, value = torch.randn(2, 1, 3), torch.randn(2, 5, 3), torch.randn(2, 5, 3)
        output = model(query, key, value, lengths=torch.tensor([5, 2])).output
        torch.testing.assert_close(output[1], model(query[1], key[1, :2], value[1, :2]).output)
        masked = model(query, key, value, mask=torch.zeros(2, 1, 5, dtype=torch.bool)).output
        torch.testing.assert_close(masked, query)  # nothing to find: the question stays


EMBEDDINGS = [om.AdjacentEmbeddings, om.LayerWiseEmbeddings]


@pytest.mark.parametrize("kind", EMBEDDINGS)
class TestMemoryNetwork:
    story = torch.tensor([[[1, 2, 3], [4, 5, 0], [6, 0, 0]], [[2, 2, 0], [7, 1, 3], [0, 0, 0]]])
    question = torch.tensor([[3, 1, 0], [5, 0, 0]])

    @pytest.mark.parametrize("encoding", [om.PositionEncoding(), om.BagOfWords()], ids=str)
    @pytest.mark.parametrize("normalizer", NORMALIZERS, ids=str)
    def test_published_formula(self, kind, encoding, normalizer):
        tables = kind(8, 4, n_hops=3, max_sentences=5).double()
        for parameter in tables.parameters():
            nn.init.normal_(parameter)
        scores, weights = om.MemoryNetwork(tables, encoding=encoding, normalizer=normalizer)(self.story, self.question)
        adjacent = kind is om.AdjacentEmbeddings

        def encode(sentence, table):
            words = [int(w) for w in sentence if w != 0]
            total = torch.zeros(4, dtype=torch.float64)
            for j, word in enumerate(words, 1):
                for k in range(1, 5):
                    ratio = j / len(words)
                    plain = isinstance(encoding, om.BagOfWords)
                    weight = 1 if plain else (1 - ratio) - (k / 4) * (1 - 2 * ratio)
                    total[k - 1] += weight * table[word, k - 1]
            return total

        for b in range(2):
            sentences = [s for s in self.story[b] if s.any()]
            u = encode(self.question[b], tables.words[0] if adjacent else tables.question_words)
            for hop in range(3):
                a, c = (
                    (tables.words[hop], tables.words[hop + 1])
                    if adjacent
                    else (tables.input_words, tables.output_words)
                )
                t, s = (
                    (tables.times[hop], tables.times[hop + 1])
                    if adjacent
                    else (tables.input_times, tables.output_times)
                )
                ago = [len(sentences) - 1 - i for i in range(len(sentences))]
                m = torch.stack([encode(x, a) + t[n] for x, n in zip(sentences, ago)])
                o = torch.stack([encode(x, c) + s[n] for x, n in zip(sentences, ago)])
                p = normalizer.argmax(m @ u)
                torch.testing.assert_close(weights[b, hop, : len(sentences)], p)
                assert not weights[b, hop, len(sentences) :].any()
                u = (u if adjacent else tables.update.weight @ u) + p @ o
            w = tables.words[3] if adjacent else tables.answer_words
            torch.testing.assert_close(scores[b], w @ u)

    def test_shares_and_edges(self, kind):
        tables = kind(8, 4, n_hops=3, max_sentences=5)
        n_parameters = sum(p.numel() for p in tables.parameters())
        assert n_parameters == (4 * (8 + 5) * 4 if kind is om.AdjacentEmbeddings else (4 * 8 + 2 * 5) * 4 + 16)
        model = om.MemoryNetwork(tables)
        assert model(self.story[:, :0], self.question).scores.isfinite().all()
        silence = model(torch.zeros(2, 2, 3, dtype=torch.long), self.question)
        assert not silence.weights.any() and silence.scores.isfinite().all()
        with pytest.raises(ValueError, match="may have 5 sentences, got 6"):
            model(torch.ones(1, 6, 2, dtype=torch.long), self.question[:1])

    def test_learns_where_someone_is(self, kind):
        """'person place' sentences; the question is a person, the answer the last place that was said of them."""
        torch.manual_seed(1)
        model = om.MemoryNetwork(kind(9, 12, n_hops=1, max_sentences=3))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
        for _ in range(150):
            people = torch.rand(64, 4).argsort(-1)[:, :3] + 1  # three different people of four
            places = torch.randint(5, 9, (64, 3))
            story, asked = torch.stack([people, places], -1), torch.randint(0, 3, (64, 1))
            answer, _ = model(story, people.gather(1, asked))
            loss = nn.functional.cross_entropy(answer, places.gather(1, asked).squeeze(1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert (answer.argmax(-1) == places.gather(1, asked).squeeze(1)).float().mean() > 0.95


@pytest.mark.parametrize(("name", "arguments"), [("memory_tasks", (2, 2)), ("hard_attention", (3,))])
def test_examples_start(name, arguments, capsys):
    n_threads = torch.get_num_threads()
    try:
        runpy.run_path(str(ROOT / "examples" / f"{name}.py"))["main"](*arguments)
    finally:
        torch.set_num_threads(n_threads)
    assert len(capsys.readouterr().out.splitlines()) > 5
