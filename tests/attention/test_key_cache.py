"""The key cache against dense attention over all keys: growth, masks, beams, and keys made to break its bounds."""

import copy
import math
import pickle
import threading

import hypothesis
import hypothesis.strategies as st
import pytest
import sparse_cases
import torch
from sparse_cases import TOLERANCES, draw, needs_native
from threads import same_with_any_threads

import omegamax as om
from omegamax import routing
from omegamax.attention import KeyCache, TopK, alibi
from omegamax.attention.masking import causal_mask
from omegamax.kernels import key_cache as kernel

NORMALIZERS = {**sparse_cases.NORMALIZERS, "top-100": TopK(100)}


def by_hand(query, key, value, normalizer, *, mask=None, scale=None):
    """Dense attention in double precision; queries are the last positions."""
    allowed = causal_mask(query.shape[-2], key.shape[-2])
    allowed = allowed if mask is None else allowed & mask
    inputs = (x.double() for x in (query, key, value))
    return sparse_cases.by_hand(*inputs, normalizer, mask=allowed, scale=scale)


def filled(key, value, **options):
    cache = KeyCache(**options)
    cache.append(key, value)
    return cache


def assert_same(found, expected, dtype=torch.float64):
    tolerance = TOLERANCES[dtype]
    torch.testing.assert_close(found.double(), expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("name", NORMALIZERS)
def test_equals_dense_attention(name, dtype, backend):
    for n, spread in [(1, 1.0), (64, 3.0), (150, 0.05), (150, 3.0)] + [(5000, 1.0)] * (backend == "native"):
        query, key, value = draw(2, 4, 3, 20, spread=spread), draw(2, 2, n, 20), draw(2, 2, n, 9)
        cache = filled(key.to(dtype), value.to(dtype))
        found = cache.attend(query.to(dtype), NORMALIZERS[name])
        assert found.dtype is dtype
        assert_same(found, by_hand(query, key, value, NORMALIZERS[name]), dtype)


@needs_native
@pytest.mark.parametrize("name", [name for name in NORMALIZERS if name != "softmax"])
def test_reads_the_copy_in_8_bits(name, monkeypatch):
    calls = []
    decode = kernel.decode
    monkeypatch.setattr(kernel, "decode", lambda *args, **options: calls.append(1) or decode(*args, **options))
    filled(draw(1, 2, 300, 8), draw(1, 2, 300, 8)).attend(draw(1, 2, 1, 8), NORMALIZERS[name])
    assert calls == [1]


@pytest.mark.parametrize("name", ["sparsemax", "entmax15", "top-4", "fusedmax"])
def test_grows_key_by_key_across_pages_and_capacities(name, backend):
    key, value, query = draw(1, 2, 300, 6), draw(1, 2, 300, 5), draw(300, 1, 2, 1, 6)
    cache = KeyCache(capacity=1)
    capacities = set()
    for n in range(300):
        cache.append(key[:, :, n : n + 1], value[:, :, n : n + 1])
        assert len(cache) == n + 1
        capacities.add(cache._storage.capacity)
        if n % (7 if backend == "native" else 60) == 0 or n in (63, 64, 65, 127):
            found = cache.attend(query[n], NORMALIZERS[name])
            assert_same(found, by_hand(query[n], key[:, :, : n + 1], value[:, :, : n + 1], NORMALIZERS[name]))
    assert capacities == {64, 128, 256, 512}
    assert torch.equal(cache.key, key) and torch.equal(cache.value, value)


@pytest.mark.parametrize("n_queries", [2, 5, 16, 17])
def test_chunks_are_causal_among_themselves(n_queries, backend):
    key, value = draw(2, 1, 200, 7), draw(2, 1, 200, 4)
    query = draw(2, 3, n_queries, 7, spread=2.0)
    cache = filled(key, value)
    for name in ("sparsemax", "entmax(1.3)", "softmax"):
        assert_same(cache.attend(query, NORMALIZERS[name]), by_hand(query, key, value, NORMALIZERS[name]))
    free = cache.attend(query, om.SquaredNorm(), causal=False)
    assert_same(free, om.sparse_attention(query, key, value, om.SquaredNorm()))


def test_parameters_of_each_head(backend):
    query, key, value = draw(2, 4, 2, 8, spread=2.0), draw(2, 2, 150, 8), draw(2, 2, 150, 3)
    alpha = torch.tensor([1.2, 1.5, 2.0, 3.0], dtype=torch.float64).reshape(4, 1, 1)
    gamma = torch.tensor([0.3, 1.0, 2.0, 5.0], dtype=torch.float64).reshape(4, 1, 1)
    cache = filled(key, value)
    for normalizer in (om.Tsallis(alpha), om.Scaled(om.Tsallis(alpha), gamma), om.Scaled(om.Oscar(), gamma)):
        assert_same(cache.attend(query, normalizer), by_hand(query, key, value, normalizer))
    scaled = om.attention.LengthScaled(om.SquaredNorm(), om.attention.LogLength(n_heads=4)).double()
    with torch.no_grad():
        assert_same(cache.attend(query, scaled), by_hand(query, key, value, scaled))
    layer = om.Entmax(alpha=om.Above(1.0, start=1.5, shape=(4, 1, 1))).double()
    with torch.no_grad():
        found = cache.attend(query, layer)
    assert_same(found, by_hand(query, key, value, layer).detach())


def test_a_temperature_by_length_counts_all_keys(backend):
    query, key, value = draw(2, 3, 8), draw(2, 40, 8), draw(2, 40, 5)
    normalizer = om.attention.LengthScaled(om.SquaredNorm(), om.attention.LogLength()).double()
    expected = om.sparse_attention(query, key, value, normalizer, causal=True)
    assert_same(filled(key, value).attend(query, normalizer), expected)


@needs_native
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
def test_half_types_are_computed_in_float(dtype):
    query, key, value = (x.to(dtype) for x in (draw(1, 2, 1, 20, spread=3.0), draw(1, 2, 400, 20), draw(1, 2, 400, 9)))
    key[0, 0, 3, :4] = torch.tensor([6e-8, -3e-7, 0.0, 1e-5])  # denormal in float16
    for name in ("sparsemax", "entmax15", "top-4", "fusedmax"):
        found = filled(key, value).attend(query, NORMALIZERS[name])
        assert found.dtype is dtype
        expected = by_hand(query, key, value, NORMALIZERS[name])
        torch.testing.assert_close(found, expected.to(dtype), atol=1e-2, rtol=1e-2)


def test_items_of_different_lengths(backend):
    key, value, more_key, more_value = draw(3, 2, 90, 6), draw(3, 2, 90, 4), draw(3, 2, 2, 6), draw(3, 2, 2, 4)
    lengths = torch.tensor([90, 1, 64])
    new = torch.tensor([2, 1, 2])
    query = draw(3, 2, 2, 6, spread=3.0)
    for name in ("sparsemax", "oscarmax", "fusedmax", "softmax"):
        cache = KeyCache()
        cache.append(key, value, lengths=lengths)
        cache.append(more_key, more_value, lengths=new)
        assert cache.lengths.tolist() == [92, 2, 66]
        assert len(cache) == 92
        found = cache.attend(query, NORMALIZERS[name], lengths=new)
        for item in range(3):
            n, m = lengths[item], int(new[item])
            keys = torch.cat([key[item, :, :n], more_key[item, :, :m]], -2)
            values = torch.cat([value[item, :, :n], more_value[item, :, :m]], -2)
            assert_same(found[item, :, :m], by_hand(query[item, :, :m], keys, values, NORMALIZERS[name]))
            assert not found[item, :, m:].any()


@pytest.mark.parametrize("name", NORMALIZERS)
def test_masks(name, backend):
    query, key, value = draw(2, 2, 2, 6, spread=3.0), draw(2, 1, 150, 6), draw(2, 1, 150, 4)
    cache = filled(key, value)
    for mask in (torch.rand(2, 1, 1, 150) < 0.5, torch.rand(2, 2, 2, 150) < 0.1, torch.arange(150) > 80):
        assert_same(
            cache.attend(query, NORMALIZERS[name], mask=mask), by_hand(query, key, value, NORMALIZERS[name], mask=mask)
        )
    assert not cache.attend(query, NORMALIZERS[name], mask=torch.zeros(1, 150, dtype=torch.bool)).any()


def test_a_bias_by_distance(backend):
    query, key, value = draw(1, 2, 3, 6), draw(1, 2, 100, 6), draw(1, 2, 100, 4)
    bias = alibi(torch.tensor([0.1, 0.5]), 3, 100)
    found = filled(key, value).attend(query, om.SquaredNorm(), bias=bias)
    assert_same(found, om.sparse_attention(query, key, value, om.SquaredNorm(), causal=True, bias=bias))


@pytest.mark.parametrize("name", NORMALIZERS)
def test_not_a_number_and_infinities(name, backend):
    query, key, value = draw(1, 2, 1, 6), draw(1, 2, 200, 6), draw(1, 2, 200, 4)
    key[0, 0, 70, 2] = math.nan
    cache = filled(key, value)
    found = cache.attend(query, NORMALIZERS[name])
    assert found[0, 0].isnan().all()
    assert_same(found[:, 1:], by_hand(query[:, 1:], key[:, 1:], value[:, 1:], NORMALIZERS[name]))
    mask = torch.arange(200) != 70
    clean = by_hand(query, key.nan_to_num(0.0), value, NORMALIZERS[name], mask=mask)
    assert_same(cache.attend(query, NORMALIZERS[name], mask=mask), clean)
    assert cache.attend(torch.full_like(query, math.nan), NORMALIZERS[name]).isnan().all()


@needs_native
@pytest.mark.parametrize("name", [name for name in NORMALIZERS if name != "softmax"])
def test_values_without_weight_may_hold_anything(name):
    """The largest score by far belongs to one key; the others hold NaN, on a page of wild keys too."""
    query, key, value = torch.ones(1, 1, 1, 4), -torch.ones(1, 1, 200, 4), torch.full((1, 1, 200, 3), math.nan)
    key[..., 100:, :] = -1e20
    key[..., 33, :] = 100.0
    value[..., 33, :] = 2.0
    normalizer = om.Fused(0.1) if name == "fusedmax" else NORMALIZERS[name]
    if name in ("top-4", "top-100"):
        value[:] = 2.0
    found = filled(key, value).attend(query, normalizer)
    torch.testing.assert_close(found, torch.full_like(found, 2.0))


@pytest.mark.parametrize("name", ["sparsemax", "entmax15", "top-4", "fusedmax"])
def test_huge_tiny_and_equal_scores(name, backend):
    for spread in (0.0, 1e-30, 1e-12, 1e6, 1e15):
        query, key, value = draw(1, 1, 1, 8, spread=spread), draw(1, 1, 150, 8), draw(1, 1, 150, 4)
        expected = by_hand(query, key, value, NORMALIZERS[name])
        assert_same(filled(key, value).attend(query, NORMALIZERS[name]), expected)
    key = torch.ones(1, 1, 200, 8, dtype=torch.float64)
    value = draw(1, 1, 200, 3)
    assert_same(
        filled(key, value).attend(key[..., :1, :], NORMALIZERS[name]),
        by_hand(key[..., :1, :], key, value, NORMALIZERS[name]),
    )


def test_no_keys(backend):
    with pytest.raises(ValueError, match="must have seen keys"):
        KeyCache().attend(draw(1, 1, 4), om.SquaredNorm())
    cache = filled(draw(2, 1, 0, 4), draw(2, 1, 0, 3))
    assert len(cache) == 0 and cache
    assert torch.equal(cache.attend(draw(2, 2, 1, 4), om.SquaredNorm()), torch.zeros(2, 2, 1, 3, dtype=torch.float64))
    cache.append(draw(2, 1, 1, 4), torch.ones(2, 1, 1, 3, dtype=torch.float64))
    assert torch.equal(cache.attend(draw(2, 2, 1, 4), om.SquaredNorm()), torch.ones(2, 2, 1, 3, dtype=torch.float64))


# Bounds


@needs_native
@pytest.mark.parametrize("arch", routing.native.supported_archs() if routing.native else [])
@pytest.mark.parametrize("vnni", [True, False])
def test_every_instruction_set(arch, vnni):
    query, key, value = draw(2, 4, 2, 33, spread=2.0), draw(2, 2, 5000, 33), draw(2, 2, 5000, 9)
    cache = filled(key, value)
    routing.native.use_arch(arch)
    routing.native.allow_vnni(vnni)
    try:
        for name in ("sparsemax", "entmax15", "top-4", "fusedmax"):
            assert_same(cache.attend(query, NORMALIZERS[name]), by_hand(query, key, value, NORMALIZERS[name]))
    finally:
        routing.native.use_arch("auto")
        routing.native.allow_vnni(True)


def clusters(n, size, radius):
    """Keys in pages of 64 around centres that lie far apart."""
    centres = torch.nn.functional.normalize(draw(-(-n // 64), size), dim=-1) * 20
    return (centres.repeat_interleave(64, 0)[:n] + draw(n, size, spread=radius)).reshape(1, 1, n, size)


@needs_native
@pytest.mark.parametrize("name", ["sparsemax", "entmax15", "top-4", "fusedmax", "oscarmax"])
def test_pages_far_from_the_query_are_not_read(name):
    key, value = clusters(64 * 300, 16, 0.3), draw(1, 1, 64 * 300, 5)
    query = key[:, :, 6400:6401] + 0.1
    cache = filled(key, value)
    assert_same(cache.attend(query, NORMALIZERS[name]), by_hand(query, key, value, NORMALIZERS[name]))
    assert cache.share_read < 0.1


@needs_native
@hypothesis.given(
    seed=st.integers(0, 10**6),
    size=st.sampled_from([1, 3, 4, 8, 64, 65]),
    log_radius=st.floats(-8, 1),
    log_scale=st.floats(-3, 3),
    name=st.sampled_from(["sparsemax", "entmax15", "entmax(1.3)", "top-4", "fusedmax", "oscarmax"]),
)
@hypothesis.settings(max_examples=40, deadline=None)
def test_pages_at_the_edge_of_the_window(seed, size, log_radius, log_scale, name):
    """Pages whose best score lies just inside or just outside the window, in the direction of the query."""
    torch.manual_seed(seed)
    n, scale = 64 * 12, 10**log_scale
    key = draw(12, 1, size).repeat(1, 64, 1) + draw(12, 64, size, spread=10**log_radius)
    query = draw(1, 1, 1, size)
    along = (key @ query.reshape(size)).amax(1)
    window = {"sparsemax": 1.0, "entmax15": 2.0, "entmax(1.3)": 1 / 0.3, "fusedmax": 1.4}.get(name, 1.0) / scale
    target = -window + torch.randn(12) * 10 ** (log_radius - 2)  # of the page's best score
    target[0] = 0.0
    key = key + ((target - along) / query.square().sum()).reshape(12, 1, 1) * query.reshape(1, 1, size)
    key, value = key.reshape(1, 1, n, size), draw(1, 1, n, 3)
    found = filled(key, value).attend(query, NORMALIZERS[name], scale=scale)
    torch.testing.assert_close(found, by_hand(query, key, value, NORMALIZERS[name], scale=scale), atol=1e-8, rtol=1e-8)


@needs_native
@pytest.mark.parametrize("name", ["sparsemax", "entmax15", "top-4"])
def test_keys_that_8_bits_cannot_tell_apart(name):
    """One large feature makes the levels coarse, and the scores differ only below them."""
    key = draw(1, 1, 700, 16, spread=1e-3)
    key[..., 0] = 127.0
    query = draw(1, 1, 1, 16)
    query[..., 0] = 0.003
    value = draw(1, 1, 700, 4)
    for scale in (1.0, 30.0, 1000.0):
        found = filled(key, value).attend(query, NORMALIZERS[name], scale=scale)
        assert_same(found, by_hand(query, key, value, NORMALIZERS[name], scale=scale))


@needs_native
@pytest.mark.parametrize("name", ["sparsemax", "entmax15", "entmax(1.3)", "top-4", "oscarmax", "fusedmax"])
@pytest.mark.thinned(3)
def test_the_number_of_threads_changes_no_bit(name):
    query, key, value = torch.randn(1, 6, 2, 16), torch.randn(1, 2, 40000, 16), torch.randn(1, 2, 40000, 5)
    same_with_any_threads(lambda: (filled(key, value).attend(query, NORMALIZERS[name]),), numbers=(1, 2, 4, 4, 4))


# What else a cache does


@pytest.mark.parametrize("name", ["sparsemax", "fusedmax", "top-4", "softmax"])
def test_weights(name, backend):
    query, key, value = draw(2, 4, 2, 6, spread=3.0), draw(2, 2, 200, 6), draw(2, 2, 200, 4)
    cache = filled(key, value)
    output, weights, sizes = cache.attend_with_weights(query, NORMALIZERS[name])
    assert_same(output, cache.attend(query, NORMALIZERS[name]))
    dense = weights.to_dense().reshape(2, 4, 2, 200)
    assert_same(dense @ value.repeat_interleave(2, 1), output)
    assert torch.equal((dense != 0).sum(-1), sizes)


def test_beams(backend):
    key, value, query = draw(3, 2, 150, 6), draw(3, 2, 150, 4), draw(4, 2, 1, 6, spread=3.0)
    cache = filled(key, value)
    cache.attend(draw(3, 2, 1, 6), om.SquaredNorm())
    index = torch.tensor([2, 0, 0, 1])
    cache.reorder(index)
    more_key, more_value = draw(4, 2, 1, 6), draw(4, 2, 1, 4)
    cache.append(more_key, more_value)
    keys, values = torch.cat([key[index], more_key], -2), torch.cat([value[index], more_value], -2)
    assert_same(cache.attend(query, om.SquaredNorm()), by_hand(query, keys, values, om.SquaredNorm()))
    cache.reorder(torch.zeros(2, 3, dtype=torch.int64))
    assert cache.batch == (2, 3) and cache.key.shape == (2, 3, 2, 151, 6)
    with pytest.raises(ValueError, match="indices must lie in"):
        cache.reorder(torch.tensor([6]))


def test_cropped_keys_are_gone(backend):
    key, value, query = draw(1, 1, 200, 6), draw(1, 1, 200, 4), draw(1, 1, 1, 6)
    key[..., 150, :] = math.nan
    cache = filled(key, value)
    assert cache.attend(query, om.SquaredNorm()).isnan().all()
    cache.crop(140)
    assert len(cache) == 140
    assert_same(
        cache.attend(query, om.SquaredNorm()), by_hand(query, key[:, :, :140], value[:, :, :140], om.SquaredNorm())
    )
    more_key, more_value = draw(1, 1, 100, 6), draw(1, 1, 100, 4)
    cache.append(more_key, more_value)
    keys, values = torch.cat([key[:, :, :140], more_key], -2), torch.cat([value[:, :, :140], more_value], -2)
    assert_same(cache.attend(query, om.SquaredNorm()), by_hand(query, keys, values, om.SquaredNorm()))


def test_clones_go_their_own_way(backend):
    """They share memory until both have appended; the first to do so goes on in it."""
    key, value, query = draw(1, 1, 100, 6), draw(1, 1, 100, 4), draw(1, 1, 1, 6)
    first = filled(key, value)
    first.attend(query, om.SquaredNorm())
    second, third = first.clone(), first.clone()
    keys, values = {}, {}
    for name, cache in (("first", first), ("second", second)):
        keys[name], values[name] = draw(1, 1, 30, 6), draw(1, 1, 30, 4)
        cache.append(keys[name], values[name])
    for name, cache in (("first", first), ("second", second)):
        own = torch.cat([key, keys[name]], -2), torch.cat([value, values[name]], -2)
        assert torch.equal(cache.key, own[0])
        assert_same(cache.attend(query, om.SquaredNorm()), by_hand(query, *own, om.SquaredNorm()))
    assert torch.equal(third.key, key)
    third.crop(50)
    third.append(key[:, :, :1], value[:, :, :1])
    assert torch.equal(first.key[:, :, :100], key) and len(third) == 51
    assert_same(third.attend(query, om.SquaredNorm()), by_hand(query, third.key, third.value, om.SquaredNorm()))


def test_clones_in_threads():
    key, value = torch.randn(1, 1, 64, 6), torch.randn(1, 1, 64, 4)
    shared, failures = filled(key, value), []

    def go_on(mark):
        own = shared.clone()
        for _ in range(30):
            own.append(torch.full((1, 1, 1, 6), mark), torch.full((1, 1, 1, 4), mark))
        if not bool((own.key[:, :, 64:] == mark).all()) or len(own) != 94:
            failures.append(mark)

    threads = [threading.Thread(target=go_on, args=(float(mark),)) for mark in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and torch.equal(shared.key, key)


def test_saving_and_copying(tmp_path, backend):
    cache = KeyCache()
    cache.append(draw(2, 1, 80, 6), draw(2, 1, 80, 4), lengths=torch.tensor([80, 3]))
    query = draw(2, 1, 1, 6)
    expected = cache.attend(query, om.SquaredNorm())
    torch.save(cache.state_dict(), tmp_path / "cache.pt")
    loaded = KeyCache()
    loaded.load_state_dict(torch.load(tmp_path / "cache.pt"))
    for other in (loaded, copy.deepcopy(cache), pickle.loads(pickle.dumps(cache))):
        assert other.lengths.tolist() == [80, 3]
        assert torch.equal(other.attend(query, om.SquaredNorm()), expected)
        other.append(draw(2, 1, 1, 6), draw(2, 1, 1, 4))
    assert len(cache) == 80
    with pytest.raises(ValueError, match="state must have key, value and lengths"):
        loaded.load_state_dict({"key": cache.key})


def test_inference_mode_and_outside():
    key, value, query = torch.randn(1, 1, 70, 6), torch.randn(1, 1, 70, 4), torch.randn(1, 1, 1, 6)
    with torch.inference_mode():
        cache = filled(key + 0, value + 0)
        inside = cache.attend(query, om.SquaredNorm())
    cache.append(key[:, :, :1], value[:, :, :1])
    cache.crop(70)
    assert torch.equal(cache.attend(query, om.SquaredNorm()), inside)


def test_gradients_reach_the_query_and_are_refused_for_keys():
    key, value = draw(1, 1, 30, 6), draw(1, 1, 30, 4)
    query = draw(1, 1, 1, 6).requires_grad_()
    cache = filled(key, value)
    (found,) = torch.autograd.grad(cache.attend(query, om.SquaredNorm()).sum(), query)
    (expected,) = torch.autograd.grad(by_hand(query, key, value, om.SquaredNorm()).sum(), query)
    assert_same(found, expected)
    with pytest.raises(ValueError, match="no gradient through a cache"):
        cache.append(key.requires_grad_(), value)
    with torch.no_grad():
        cache.append(key, value)


def test_repr_and_bad_input():
    cache = KeyCache()
    assert repr(cache) == "KeyCache()"
    cache.append(torch.randn(2, 4, 17, 8), torch.randn(2, 4, 17, 5))
    assert repr(cache) == (
        "KeyCache(batch=(2,), kv_heads=4, keys=17, size=8, features=5, capacity=256, dtype=torch.float32, device='cpu')"
    )
    query = torch.randn(2, 8, 1, 8)
    wrong = {
        "key must have the shape": lambda: cache.append(torch.randn(2, 4, 1, 9), torch.randn(2, 4, 1, 5)),
        "value must have the shape": lambda: cache.append(torch.randn(2, 4, 1, 8), torch.randn(2, 4, 1, 6)),
        "must agree in all but": lambda: cache.append(torch.randn(2, 4, 1, 8), torch.randn(2, 4, 2, 5)),
        r"must have the shape \(\.\.\., kv heads": lambda: cache.append(torch.randn(1, 8), torch.randn(1, 5)),
        "query must have the shape": lambda: cache.attend(torch.randn(2, 3, 1, 8), om.SquaredNorm()),
        "length must be a count": lambda: cache.crop(-1),
        "mask must broadcast": lambda: cache.attend(query, om.SquaredNorm(), mask=torch.ones(3, dtype=torch.bool)),
        "scale must be": lambda: cache.attend(query, om.SquaredNorm(), scale=math.nan),
        "lengths": lambda: cache.attend(query, om.SquaredNorm(), lengths=torch.tensor([2, 1])),
    }
    for message, call in wrong.items():
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="dtype and device"):
        cache.append(torch.randn(2, 4, 1, 8).double(), torch.randn(2, 4, 1, 5).double())
    with pytest.raises(TypeError, match="dtype and device"):
        cache.attend(query.double(), om.SquaredNorm())
    with pytest.raises(TypeError, match="normalizer must be"):
        cache.attend(query, "sparsemax")
