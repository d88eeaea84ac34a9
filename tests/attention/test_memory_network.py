"""End-to-end memory networks against plain loops over sentences, words and features; and that they learn."""

import pytest
import torch
from draws import NORMALIZERS
from torch import nn

import omegamax as om

ENCODINGS = [om.attention.PositionEncoding(), om.attention.CentredPositionEncoding(), om.attention.BagOfWords()]
EMBEDDINGS = [om.attention.AdjacentEmbeddings, om.attention.LayerWiseEmbeddings]


@pytest.mark.parametrize("kind", EMBEDDINGS)
class TestMemoryNetwork:
    story = torch.tensor([[[1, 2, 3], [4, 5, 0], [6, 0, 0]], [[2, 2, 0], [7, 1, 3], [0, 0, 0]]])
    question = torch.tensor([[3, 1, 0], [5, 0, 0]])

    @pytest.mark.parametrize("encoding", ENCODINGS, ids=str)
    @pytest.mark.parametrize("empty_slots", [False, True])
    @pytest.mark.parametrize("normalizer", NORMALIZERS, ids=str)
    def test_published_formula(self, kind, encoding, empty_slots, normalizer):
        tables = kind(8, 4, n_hops=3, max_sentences=5).double()
        for parameter in tables.parameters():
            nn.init.normal_(parameter)
        network = om.attention.MemoryNetwork(tables, encoding=encoding, normalizer=normalizer, empty_slots=empty_slots)
        scores, weights = network(self.story, self.question)
        adjacent = kind is om.attention.AdjacentEmbeddings

        def encode(sentence, table):
            words = [int(w) for w in sentence if w != 0]
            total = torch.zeros(4, dtype=torch.float64)
            for j, word in enumerate(words, 1):
                for k in range(1, 5):
                    ratio = j / len(words)
                    weight = 1.0
                    if isinstance(encoding, om.attention.PositionEncoding):
                        weight = (1 - ratio) - (k / 4) * (1 - 2 * ratio)
                    elif isinstance(encoding, om.attention.CentredPositionEncoding):
                        from_middle = (k - 2.5) / 4, (j - (len(words) + 1) / 2) / len(words)
                        weight = 1 + 4 * from_middle[0] * from_middle[1]
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
                slots = torch.cat([m @ u, torch.zeros(5 - len(sentences))]) if empty_slots else m @ u
                p = normalizer.argmax(slots)[: len(sentences)]
                torch.testing.assert_close(weights[b, hop, : len(sentences)], p)
                assert not weights[b, hop, len(sentences) :].any()
                u = (u if adjacent else tables.update.weight @ u) + p @ o
            w = tables.words[3] if adjacent else tables.answer_words
            torch.testing.assert_close(scores[b], w @ u)

    @pytest.mark.parametrize("normalizer", NORMALIZERS, ids=str)
    @pytest.mark.thinned(5)
    def test_gradients(self, kind, normalizer):
        tables = kind(8, 2, n_hops=2, max_sentences=3).double()
        for parameter in tables.parameters():
            nn.init.normal_(parameter)
        model = om.attention.MemoryNetwork(tables, normalizer=normalizer)
        names = [name for name, _ in model.named_parameters()]

        def run(*parameters):
            return torch.func.functional_call(model, dict(zip(names, parameters)), (self.story, self.question)).scores

        assert torch.autograd.gradcheck(run, tuple(model.parameters()), atol=1e-5)

    def test_shares_and_edges(self, kind):
        tables = kind(8, 4, n_hops=3, max_sentences=5)
        n_parameters = sum(p.numel() for p in tables.parameters())
        assert n_parameters == (
            4 * (8 + 5) * 4 if kind is om.attention.AdjacentEmbeddings else (4 * 8 + 2 * 5) * 4 + 16
        )
        model = om.attention.MemoryNetwork(tables)
        assert model(self.story[:, :0], self.question).scores.isfinite().all()
        silence = model(torch.zeros(2, 2, 3, dtype=torch.long), self.question)
        assert not silence.weights.any() and silence.scores.isfinite().all()
        nothing = om.attention.MemoryNetwork(tables, empty_slots=True)(
            torch.zeros(2, 2, 3, dtype=torch.long), self.question
        )
        torch.testing.assert_close(nothing.scores, silence.scores)
        with pytest.raises(ValueError, match="may have 5 sentences, got 6"):
            model(torch.ones(1, 6, 2, dtype=torch.long), self.question[:1])

    @pytest.mark.thinned(3)
    def test_learns_where_someone_is(self, kind):
        """'person place' sentences; the question is a person, the answer the last place that was said of them."""
        torch.manual_seed(1)
        model = om.attention.MemoryNetwork(kind(9, 12, n_hops=1, max_sentences=3))
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
