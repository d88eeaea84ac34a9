"""The drop-in for nn.MultiheadAttention: the same numbers under Shannon, the same state_dict, in PyTorch's layers."""

import copy
import math

import pytest
import torch
from draws import NORMALIZERS, normal
from torch import nn

import omegamax as om

KINDS = [
    {},
    {"batch_first": True},
    {"bias": False},
    {"add_bias_kv": True},
    {"add_zero_attn": True},
    {"kdim": 5, "vdim": 7},
    {"add_bias_kv": True, "add_zero_attn": True, "batch_first": True},
]


def pair(**kind):
    theirs = nn.MultiheadAttention(8, 2, **kind)
    ours = om.MultiheadAttention(8, 2, **kind)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def inputs(kind):
    shapes = [(3, 4, 8), (3, 6, kind.get("kdim", 8)), (3, 6, kind.get("vdim", 8))]
    tensors = [torch.randn(*shape) for shape in shapes]
    return tensors if kind.get("batch_first") else [x.transpose(0, 1) for x in tensors]


def masks():
    padding = torch.zeros(3, 6, dtype=torch.bool)
    padding[1, 4:] = True
    ahead = torch.zeros(4, 6, dtype=torch.bool)
    ahead[0, 3:] = True
    return [
        {},
        {"key_padding_mask": padding},
        {"attn_mask": ahead},
        {"key_padding_mask": padding, "attn_mask": ahead},
        {"attn_mask": torch.randn(6, 4, 6)},
        {"key_padding_mask": torch.where(padding, -torch.inf, 0.0)},
        {"key_padding_mask": padding, "average_attn_weights": False},
        {"need_weights": False},
    ]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("options", masks(), ids=lambda o: ",".join(o) or "plain")
@pytest.mark.thinned(3)
def test_shannon_equals_torch(kind, options):
    theirs, ours = pair(**kind)
    given = inputs(kind)
    expected, found = theirs(*given, **options), ours(*given, **options)
    for a, b in zip(found, expected):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("options", masks(), ids=lambda o: ",".join(o) or "plain")
@pytest.mark.thinned(3)
def test_gradients_equal_those_of_torch(kind, options):
    found = []
    layers = pair(**kind)
    given = inputs(kind)
    for layer in layers:
        leaves = [x.clone().requires_grad_() for x in given]
        layer(*leaves, **options)[0].square().sum().backward()
        found.append([x.grad for x in leaves] + [parameter.grad for parameter in layer.parameters()])
    torch.testing.assert_close(found[1], found[0], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("itself", ["everything", "query and key"])
def test_self_attention_equals_torch(batch_first, itself):
    """It does at padded places too, which are queries as well."""
    theirs, ours = pair(batch_first=batch_first)
    x, padding = torch.randn(3, 3, 8), torch.tensor([[False, False, True]]).expand(3, 3)
    value = x if itself == "everything" else torch.randn(3, 3, 8)
    options = {"key_padding_mask": padding, "attn_mask": torch.ones(3, 3).triu(1).bool(), "is_causal": True}
    for a, b in zip(ours(x, x, value, **options), theirs(x, x, value, **options)):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


def test_self_attention_is_one_product(monkeypatch):
    seen = []
    linear = nn.functional.linear
    monkeypatch.setattr(nn.functional, "linear", lambda x, *by: (seen.append(x), linear(x, *by))[1])
    for layer, x in (
        (om.MultiheadAttention(8, 2), torch.randn(3, 2, 8)),
        (om.MultiheadAttention(8, 2, batch_first=True), torch.randn(2, 3, 8)),
        (om.MultiheadAttention(8, 2), torch.randn(3, 8)),
    ):
        seen.clear()
        layer(x, x, x)
        assert len(seen) == 2  # queries, keys and values in one; the output


def test_dropout_falls_where_that_of_torch_does():
    theirs, ours = pair(dropout=0.5, batch_first=True)
    x = torch.randn(2, 5, 8)
    found = []
    for layer in (theirs, ours):
        torch.manual_seed(1)
        found.append(layer(x, x, x))
    torch.testing.assert_close(found[1], found[0], atol=1e-6, rtol=1e-5)


def unbatched_masks():
    padding = torch.tensor([False, False, True, False, True, False])
    return [
        {},
        {"key_padding_mask": padding},
        {"key_padding_mask": torch.where(padding, -torch.inf, 0.0), "attn_mask": torch.randn(4, 6)},
        {"attn_mask": torch.randn(2, 4, 6), "average_attn_weights": False},
        {"attn_mask": torch.ones(4, 6).triu(1).bool(), "need_weights": False},
    ]


@pytest.mark.parametrize("kind", [{}, {"batch_first": True}, {"add_bias_kv": True, "add_zero_attn": True}], ids=str)
@pytest.mark.parametrize("options", unbatched_masks(), ids=lambda o: ",".join(o) or "plain")
def test_unbatched(kind, options):
    theirs, ours = pair(**kind)
    query, key = torch.randn(4, 8), torch.randn(6, 8)
    for a, b in zip(ours(query, key, key, **options), theirs(query, key, key, **options)):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


def test_state_dict_both_ways():
    theirs, ours = pair(add_bias_kv=True)
    assert list(theirs.state_dict()) == list(ours.state_dict())
    theirs.load_state_dict(ours.state_dict())


@pytest.mark.parametrize("training", [True, False])
def test_inside_an_encoder_layer(training):
    """The fast path of eval without gradients would use softmax without a warning."""
    theirs = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    ours = copy.deepcopy(theirs)
    ours.self_attn = om.MultiheadAttention(8, 2, batch_first=True)
    ours.self_attn.load_state_dict(theirs.self_attn.state_dict())
    theirs.train(training), ours.train(training)
    x, padding = torch.randn(2, 5, 8), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.set_grad_enabled(training):
        found, expected = (layer(x, src_key_padding_mask=padding) for layer in (ours, theirs))
        torch.testing.assert_close(found[0], expected[0], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(found[1, :3], expected[1, :3], atol=1e-5, rtol=1e-5)
        ours.self_attn.normalizer = om.SquaredNorm()
        assert not torch.allclose(ours(x)[0], expected[0], atol=1e-3)


def test_inside_a_stack_and_a_decoder_layer():
    for make in (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), 2),
        lambda: nn.TransformerDecoderLayer(8, 2, 16, 0.0, batch_first=True),
    ):
        theirs = make().eval()
        ours = copy.deepcopy(theirs)
        for parent in list(ours.modules()):
            for name, child in list(parent.named_children()):
                if type(child) is nn.MultiheadAttention:
                    twin = om.MultiheadAttention(8, 2, batch_first=True)
                    twin.load_state_dict(child.state_dict())
                    setattr(parent, name, twin.eval())
        x = torch.randn(2, 5, 8)
        arguments = (x, x) if isinstance(theirs, nn.TransformerDecoderLayer) else (x,)
        with torch.no_grad():
            torch.testing.assert_close(ours(*arguments), theirs(*arguments), atol=1e-5, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("whole", [nn.TransformerEncoder, nn.Transformer], ids=lambda kind: kind.__name__)
def test_inside_an_encoder_that_makes_nested_tensors(whole):
    """Encoders built with PyTorch's own layers make them in eval, where there is padding."""
    if whole is nn.Transformer:
        theirs = nn.Transformer(8, 2, 2, 1, 16, 0.0, batch_first=True).eval()
    else:
        theirs = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), 2).eval()
    ours = copy.deepcopy(theirs)
    for layer in (ours.encoder if whole is nn.Transformer else ours).layers:
        twin = om.MultiheadAttention(8, 2, batch_first=True)
        twin.load_state_dict(layer.self_attn.state_dict())
        layer.self_attn = twin.eval()
    x, padding = torch.randn(2, 5, 8), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    inputs = (x, x) if whole is nn.Transformer else (x,)
    with torch.no_grad():
        found, expected = (model(*inputs, src_key_padding_mask=padding) for model in (ours, theirs))
    torch.testing.assert_close(found[~padding], expected[~padding], atol=1e-5, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_nested_tensor():
    layer = om.MultiheadAttention(8, 2, batch_first=True, normalizer=om.SquaredNorm())
    items = [torch.randn(3, 8), torch.randn(2, 8)]
    nested = torch.nested.nested_tensor(items)
    output, weights = layer(nested, nested, nested)
    assert weights.shape == (2, 3, 3)
    for found, item in zip(output.unbind(), items):
        torch.testing.assert_close(found, layer(item, item, item)[0])
    with pytest.raises(ValueError, match="query, key and value in one"):
        layer(nested, nested, nested, attn_mask=torch.zeros(3, 3))


def test_it_says_what_it_is():
    assert "8, 2, normalizer=SquaredNorm()" in repr(om.MultiheadAttention(8, 2, normalizer=om.SquaredNorm()))


def test_an_order_per_head_learns():
    normalizer = om.Entmax(alpha=om.Above(1.0, start=1.5, shape=(2, 1, 1)))
    layer = om.MultiheadAttention(8, 2, batch_first=True, normalizer=normalizer)
    x = torch.randn(3, 5, 8)
    layer(x, x, x)[0].square().sum().backward()
    assert normalizer.alpha.raw.grad.abs().min() > 0
    assert "normalizer.alpha.raw" in layer.state_dict()


def test_nothing_allowed_gives_zeros_not_nan():
    layer = om.MultiheadAttention(8, 2, batch_first=True, normalizer=om.SquaredNorm())
    x = torch.randn(1, 4, 8)
    _, weights = layer(x, x, x, key_padding_mask=torch.ones(1, 4, dtype=torch.bool))
    assert not weights.any()


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"key_padding_mask": torch.ones(3, 4).bool()}, ValueError, r"key_padding_mask must have the shape \(3, 6\)"),
        ({"key_padding_mask": torch.ones(3, 9).bool()}, ValueError, r"got \(3, 9\); there are 4 queries and 6 keys"),
        ({"key_padding_mask": torch.ones(3, 6).long()}, TypeError, r"boolean .* got torch\.int64"),
        ({"attn_mask": torch.ones(4, 5).bool()}, ValueError, r"attn_mask must have the shape \(4, 6\) or \(6, 4, 6\)"),
        ({"attn_mask": torch.ones(3, 4, 6).bool()}, ValueError, r"got \(3, 4, 6\)"),
    ],
)
def test_a_mask_of_another_size_is_refused(options, kind, message):
    """If it were padded or cut, hidden keys could get weight."""
    layer = om.MultiheadAttention(8, 2, batch_first=True)
    query, key = torch.zeros(3, 4, 8), torch.zeros(3, 6, 8)
    with pytest.raises(kind, match=message):
        layer(query, key, key, **options)
    with pytest.raises(ValueError, match="one value per key"):
        layer(query, key, key[:, :5])


def test_is_causal_needs_its_mask():
    layer = om.MultiheadAttention(8, 2)
    with pytest.raises(ValueError, match="pass the mask itself"):
        layer(torch.zeros(3, 1, 8), torch.zeros(3, 1, 8), torch.zeros(3, 1, 8), is_causal=True)


@pytest.mark.parametrize("normalizer", NORMALIZERS, ids=str)
def test_heads_against_loops(normalizer):
    """Loops over heads, over queries and over the keys that each may see give the same."""
    layer = om.MultiheadAttention(4, 2, batch_first=True, normalizer=normalizer).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    query, key = normal(2, 3, 4), normal(2, 5, 4)
    hidden = torch.rand(4, 3, 5) < 0.3  # for every item and head
    hidden[..., 0] = False
    output, weights = layer(query, key, key, attn_mask=hidden, average_attn_weights=False)
    (of_query, of_key, of_value), (b_query, b_key, b_value) = layer.in_proj_weight.chunk(3), layer.in_proj_bias.chunk(3)
    for item in range(2):
        for i in range(3):
            heads = []
            for head in range(2):
                rows = slice(2 * head, 2 * head + 2)
                seen = [j for j in range(5) if not hidden[2 * item + head, i, j]]
                asked = of_query[rows] @ query[item, i] + b_query[rows]
                keys = torch.stack([of_key[rows] @ key[item, j] + b_key[rows] for j in seen])
                values = torch.stack([of_value[rows] @ key[item, j] + b_value[rows] for j in seen])
                p = normalizer.argmax(keys @ asked / math.sqrt(2))
                torch.testing.assert_close(weights[item, head, i, seen], p)
                assert weights[item, head, i].count_nonzero() == p.count_nonzero()
                heads.append(p @ values)
            expected = layer.out_proj.weight @ torch.cat(heads) + layer.out_proj.bias
            torch.testing.assert_close(output[item, i], expected)


@pytest.mark.parametrize("normalizer", NORMALIZERS, ids=str)
@pytest.mark.thinned(4)
def test_gradcheck(normalizer):
    layer = om.MultiheadAttention(4, 2, batch_first=True, normalizer=normalizer).double()
    padding = torch.tensor([[False] * 4, [False] * 2 + [True] * 2])
    given = tuple(x.requires_grad_() for x in (normal(2, 3, 4), normal(2, 4, 4), *layer.parameters()))
    names = [name for name, _ in layer.named_parameters()]

    def run(query, key, *parameters):
        replaced = dict(zip(names, parameters))
        return torch.func.functional_call(layer, replaced, (query, key, key, padding))[0]

    assert torch.autograd.gradcheck(run, given, atol=1e-5)
