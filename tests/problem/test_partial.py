"""Merging partial attentions."""

from functools import reduce
from itertools import pairwise

import numpy as np
import pytest

from nlattn import Partial, exact_attention, merge_partials, streaming_attention
from nlattn.testing import assert_close, assert_same_kind, dense_attention, to_numpy


def problem(length=30, s=50, heads=2, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((heads, n, e)) for n, e in ((length, 8), (s, 8), (s, 5))]


def part(backend, q, k, v, keys, mask=None, dtype="float64"):
    """Attention over some of the keys."""
    arrays = [backend.array(x, dtype) for x in (q, k[:, keys], v[:, keys])]
    attn_mask = None if mask is None else backend.array(mask[..., keys])
    return Partial(*exact_attention(*arrays, attn_mask, return_lse=True))


@pytest.mark.parametrize("cuts", [[25], [0, 50], [1, 2, 3], [10, 20, 30, 40], [50]])
def test_parts_make_the_whole(backend, cuts):
    q, k, v = problem()
    mask = np.random.default_rng(1).random((30, 50)) < 0.3
    mask[4] = False
    mask[::2, :10] = False  # rows for which the first part is empty
    edges = [0, *cuts, 50]
    parts = [part(backend, q, k, v, slice(a, b), mask) for a, b in pairwise(edges)]
    merged = merge_partials(*parts)
    wanted = dense_attention(q, k, v, mask)
    assert isinstance(merged, Partial)
    assert_close(merged.out, wanted.out, rtol=1e-12, atol=1e-14, like=parts[0].out)
    assert_close(merged.lse, wanted.lse, rtol=1e-12, atol=1e-13, like=parts[0].lse)
    assert np.all(to_numpy(merged.out)[:, 4] == 0)
    assert_close(reduce(merge_partials, parts[::-1]).out, merged.out, rtol=1e-12, atol=1e-14)


def test_any_disjoint_subsets(backend):
    q, k, v = problem()
    order = np.random.default_rng(2).permutation(50)
    merged = merge_partials(*(part(backend, q, k, v, order[i::3]) for i in range(3)))
    assert_close(to_numpy(merged.out), dense_attention(q, k, v).out, rtol=1e-12)


def test_masses_far_apart(backend):
    """A part with e^-2000 of the mass has no weight, and nothing overflows."""
    q, k, v = problem()
    parts = [part(backend, q, k, v, keys) for keys in (slice(0, 20), slice(20, 50))]
    for shift in (2000.0, -2000.0):
        merged = merge_partials(parts[0], Partial(parts[1].out, parts[1].lse + shift))
        heavy = parts[1] if shift > 0 else parts[0]
        assert_close(merged.out, heavy.out, rtol=1e-15)
        assert_close(to_numpy(merged.lse), to_numpy(heavy.lse) + max(shift, 0.0), rtol=1e-15)


def test_all_empty(backend):
    q, k, v = problem()
    empty = part(backend, q, k, v, slice(0, 10), np.zeros((30, 50), dtype=bool))
    none = part(backend, q, k, v, slice(0, 0))
    for merged in (merge_partials(empty, empty), merge_partials(none, empty, none)):
        assert np.all(to_numpy(merged.out) == 0)
        assert np.all(to_numpy(merged.lse) == -np.inf)
    full = part(backend, q, k, v, slice(0, 50))
    merged = merge_partials(none, full, empty)
    assert_close(merged.out, full.out, rtol=1e-15)
    assert_close(merged.lse, full.lse, rtol=1e-15)


def test_log_weights(backend):
    """A key that is met in c parts with the log-weight -log c counts once."""
    q, k, v = problem()
    count = np.full(50, 1)
    count[10:30] = 2
    bias = -np.log(count)[None]
    parts = []
    for keys in (slice(0, 30), slice(10, 50)):
        arrays = [backend.array(x) for x in (q, k[:, keys], v[:, keys], bias[:, keys])]
        parts.append(Partial(*exact_attention(*arrays, return_lse=True)))
    assert_close(to_numpy(merge_partials(*parts).out), dense_attention(q, k, v).out, rtol=1e-12)


def test_causal_by_halving(backend):
    """Causal attention is causal attention on the halves and the full attention of the later on the earlier one."""

    def causal(q, k, v):
        n = q.shape[1]
        if n <= 4:
            return Partial(*exact_attention(q, k, v, is_causal=True, return_lse=True))
        h = n // 2
        first = causal(q[:, :h, :], k[:, :h, :], v[:, :h, :])
        second = causal(q[:, h:, :], k[:, h:, :], v[:, h:, :])
        across = Partial(*exact_attention(q[:, h:, :], k[:, :h, :], v[:, :h, :], return_lse=True))
        second = merge_partials(second, across)
        return Partial(*(_concat(a, b) for a, b in zip(first, second, strict=True)))

    def _concat(a, b):
        from array_api_compat import array_namespace

        return array_namespace(a).concat([a, b], axis=1)

    q, k, v = problem(41, 41)
    out = causal(*(backend.array(x) for x in (q, k, v))).out
    assert_close(to_numpy(out), dense_attention(q, k, v, is_causal=True).out, rtol=1e-12, atol=1e-14)


def test_low_precision(backend):
    """Parts of float16 outputs and float32 masses merge in float32."""
    q, k, v = problem()
    for dtype in backend.dtypes:
        merged = merge_partials(*(part(backend, q, k, v, keys, dtype=dtype) for keys in (slice(0, 9), slice(9, 50))))
        wide = "float64" if dtype == "float64" else "float32"
        assert_same_kind(merged.lse, backend.array(q, wide))
        tolerance = {"float64": 1e-12, "float32": 1e-5, "float16": 5e-3, "bfloat16": 5e-2}[dtype]
        assert_close(to_numpy(merged.out).astype(float), dense_attention(q, k, v).out, rtol=tolerance, atol=tolerance)


def test_of_another_method(backend):
    q, k, v = problem(50, 50)
    arrays = [backend.array(x) for x in (q, k, v)]
    near = Partial(*streaming_attention(*arrays, window=6, sinks=0, is_causal=True, return_lse=True))
    distance = np.arange(50)[:, None] - np.arange(50)
    far = Partial(*exact_attention(*arrays, backend.array(distance >= 6), return_lse=True))
    wanted = dense_attention(q, k, v, is_causal=True)
    assert_close(to_numpy(merge_partials(near, far).out), wanted.out, rtol=1e-12, atol=1e-14)


def test_inputs_stay(backend):
    q, k, v = problem()
    parts = [part(backend, q, k, v, keys) for keys in (slice(0, 20), slice(20, 50))]
    before = [to_numpy(x).copy() for p in parts for x in p]
    merge_partials(*parts)
    assert all(np.array_equal(a, to_numpy(b)) for a, b in zip(before, (x for p in parts for x in p), strict=True))


def test_one_part_is_itself():
    one = Partial(np.ones((3, 2)), np.zeros(3))
    assert merge_partials(one) == one
    assert merge_partials(one)._fields == ("out", "lse")


def test_refusals():
    one = Partial(np.ones((2, 3, 5)), np.zeros((2, 3)))
    with pytest.raises(ValueError, match="at least one Partial, got none"):
        merge_partials()
    for other in (Partial(np.ones((2, 3, 4)), np.zeros((2, 3))), Partial(np.ones((2, 3, 5)), np.zeros((2, 4)))):
        with pytest.raises(ValueError, match="parts must share one shape"):
            merge_partials(one, other)
    with pytest.raises(ValueError, match="parts must share one shape"):
        merge_partials(Partial(np.ones((3, 5)), np.zeros((3, 1))))


def test_gradient_of_empty_parts():
    """Zero, not NaN: for one part that is empty, and for rows where all are."""
    torch = pytest.importorskip("torch")
    out = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    mass = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    lse = torch.where(torch.tensor([[True, False, True, False], [True, True, False, False]]), mass, -torch.inf)
    merged = merge_partials(Partial(out[0], lse[0]), Partial(out[1], lse[1]))
    seen = torch.isfinite(merged.lse)
    assert seen.tolist() == [True, True, True, False]
    (merged.out.square().sum() + merged.lse[seen].sum()).backward()
    assert bool(torch.isfinite(out.grad).all())
    assert bool(torch.isfinite(mass.grad).all())
    assert mass.grad[:, 3].tolist() == [0.0, 0.0]
    assert out.grad[:, 3].abs().sum() == 0
    torch.testing.assert_close(out.grad[0, 2], 2 * out[0, 2].detach())  # alone in its row
