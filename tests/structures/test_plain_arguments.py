"""Lengths as lists and NumPy arrays, wherever lengths are taken; and what comes second in `sample` and `topk`."""

import numpy as np
import pytest
import torch

import omegamax as om
from omegamax.attention import MonotonicAttention
from omegamax.models import RecurrentEncoder

FORMS = [list, tuple, np.array, torch.tensor]
SIZES = [4, 2]


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def paired(lengths):
    return lengths, lengths


CALLS = {
    "chain": lambda n: om.Chain().max(normal(2, 4, 3, 3), lengths=n),
    "marginals": lambda n: om.Chain().argmax(normal(2, 4, 3, 3), lengths=n),
    "factored": lambda n: om.Chain().map(om.Chain.from_emissions(normal(2, 4, 3), normal(3, 3)), lengths=n).emissions,
    "topk": lambda n: om.Chain().topk(normal(2, 4, 3, 3), 2, lengths=n).scores,
    "sparsemap": lambda n: om.Chain().sparsemap(normal(2, 4, 3, 3), lengths=n).marginals,
    "alignment": lambda n: om.Alignment().max(normal(2, 4, 4), lengths=paired(n)),
    "matching": lambda n: om.Matching().map(normal(2, 4, 4), lengths=paired(n)),
    "tree": lambda n: om.ProjectiveTree().max(normal(2, 5, 5), lengths=n),
    "arborescence": lambda n: om.Arborescence().max(normal(2, 5, 5), lengths=n),
    "soft_dtw": lambda n: om.soft_dtw(normal(2, 4, 1), normal(2, 4, 1), lengths=paired(n)),
    "soft_dtw_divergence": lambda n: om.soft_dtw_divergence(normal(2, 4, 1), normal(2, 4, 1), lengths=paired(n)),
    "edit_distance": lambda n: om.edit_distance(*paired(torch.zeros(2, 4).long()), lengths=paired(n)),
    "from_tags": lambda n: om.Chain.from_tags(torch.ones(2, 4).long(), 3, lengths=n),
    "factored_from_tags": lambda n: om.Chain.factored_from_tags(torch.ones(2, 4).long(), 3, lengths=n).end,
    "from_heads": lambda n: om.ProjectiveTree.from_heads(torch.zeros(2, 4).long(), n),
    "barycenter": lambda n: om.soft_dtw_barycenter(normal(2, 4, 1), lengths=n, max_iter=2),
    "rows": lambda n: om.SquaredNorm().argmax(normal(2, 4), lengths=n),
    "losses": lambda n: om.SparsemaxLoss().forward(normal(2, 4), torch.zeros(2).long(), lengths=n),
    "structured loss": lambda n: om.CRFLoss(om.Chain())(
        normal(2, 4, 3, 3), om.Chain.from_tags(torch.ones(2, 4).long(), 3, lengths=n), lengths=n
    ),
    "ctc": lambda n: om.ctc_loss(normal(4, 2, 3).log_softmax(-1), torch.ones(2, 1).long(), n, [1, 1]),
    "attention": lambda n: om.Attention(om.DotProduct())(normal(2, 3, 5), normal(2, 4, 5), lengths=n).output,
    "monotonic": lambda n: MonotonicAttention(om.DotProduct())(normal(2, 3, 5), normal(2, 4, 5), lengths=n)[0],
    "encoder": lambda n: RecurrentEncoder(3, 4)(normal(2, 4, 3).float(), n).states,
}


@pytest.mark.filterwarnings("ignore:soft_dtw_barycenter")
@pytest.mark.parametrize("name", CALLS)
def test_lengths_in_every_form(name):
    found = []
    for form in FORMS:
        torch.manual_seed(0)
        found.append(CALLS[name](form(SIZES)))
    for other in found[:-1]:
        torch.testing.assert_close(other, found[-1])


def test_a_number_without_a_batch():
    potentials = normal(4, 3, 3)
    torch.testing.assert_close(om.Chain().max(potentials, lengths=2), om.Chain().max(potentials[:2]))
    scores = normal(4, 5)
    torch.testing.assert_close(om.Alignment().max(scores, lengths=(2, 3)), om.Alignment().max(scores[:2, :3]))


def test_several_batch_axes():
    potentials = normal(2, 2, 4, 3, 3)
    lengths = [[4, 2], [1, 3]]
    expected = om.Chain().max(potentials, lengths=torch.tensor(lengths))
    torch.testing.assert_close(om.Chain().max(potentials, lengths=lengths), expected)
    torch.testing.assert_close(om.Chain().max(potentials, lengths=(torch.tensor(lengths),)), expected)


@pytest.mark.parametrize("wrong", [[1.5, 2.0], ["a", "b"], [[1], [2, 3]], [True, False]], ids=str)
def test_what_is_no_length(wrong):
    for call in (
        lambda: om.Chain().max(normal(2, 4, 3, 3), lengths=wrong),
        lambda: om.SquaredNorm().argmax(normal(2, 4), lengths=wrong),
    ):
        with pytest.raises(TypeError, match="lengths must be an integer Tensor or a list of integers"):
            call()


class TestWhatComesSecond:
    def generator(self):
        return torch.Generator().manual_seed(3)

    @pytest.mark.parametrize("structure", [om.Chain(), om.Arborescence()], ids=str)
    def test_a_number_is_how_many(self, structure):
        potentials = normal(2, 4, 4, 4) if isinstance(structure, om.Chain) else normal(2, 4, 4)
        found = structure.sample(potentials, 5, generator=self.generator())
        expected = structure.sample(potentials, om.Shannon(), n_samples=5, generator=self.generator())
        assert found.shape[0] == 5 and torch.equal(found, expected)
        assert structure.sample(potentials).shape[0] == 1

    def test_as_in_topk(self):
        potentials = normal(2, 4, 3, 3)
        assert om.Chain().topk(potentials, 5).scores.shape[-1] == om.Chain().sample(potentials, 5).shape[0]

    def test_errors(self):
        potentials = normal(4, 3, 3)
        with pytest.raises(TypeError, match=r"Chain.sample: the number of samples must be given once, got 5 and"):
            om.Chain().sample(potentials, 5, n_samples=2)
        with pytest.raises(ValueError, match=r"Chain.sample: n_samples must be at least 1, got 0"):
            om.Chain().sample(potentials, 0)
        with pytest.raises(TypeError, match=r"regularizer must be a Regularizer, got int; .* by their names"):
            om.Chain().support(potentials, 5)
