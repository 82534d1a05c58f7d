"""Attention of blocks of rows over ranges of keys, on every backend, against the dense formula."""

import numpy as np
import pytest
from kernel_calls import call_on, cases_for

import nlattn
from nlattn.kernels.block_attention import block_attention
from nlattn.testing import assert_close, dense_attention

rng = np.random.default_rng(0)


def case(length, s, size, widest, ranges=3, dtype="float64", e=8, ev=6):
    """Arrays, disjoint ranges of every sort, and the pairs (row, key) that meet."""
    b, h, g = 2, 4, 2
    q, k, v = (rng.standard_normal((b, n, m, d)).astype(dtype) for n, m, d in ((h, length, e), (g, s, e), (g, s, ev)))
    blocks = -(-length // size)
    cuts = np.sort(rng.integers(0, s + 1, (b, h, blocks, 2 * ranges)), axis=-1)
    begin, end = cuts[..., ::2].copy(), cuts[..., 1::2].copy()
    end = np.minimum(end, begin + widest)
    begin[:, :, ::4, 0], end[:, :, ::4, 0] = end[:, :, ::4, 0], begin[:, :, ::4, 0]  # empty or reversed
    begin[:, :, 1::4], end[:, :, 1::4] = 0, 0  # nothing at all
    meets = np.zeros((b, h, length, s), bool)
    for at in np.ndindex(b, h, blocks):
        for lo, hi in zip(begin[at], end[at], strict=True):
            meets[at[0], at[1], at[2] * size : (at[2] + 1) * size, lo:hi] = True
    return q, k, v, begin, end, meets


def options_for(kind, q, k, meets):
    """Options of one kind, and the pairs and log-weights that they leave."""
    (b, h, length), (g, s) = q.shape[:3], k.shape[1:3]
    options, scores = {}, np.zeros(meets.shape)
    if "position" in kind:
        position = rng.permuted(np.broadcast_to(np.arange(s), (b, g, s)), axis=-1)
        start = rng.integers(0, s // 2, (b, h, length))
        stop = rng.integers(0, s + 1, (b, h, length))
        options |= {"position": position, "start": start, "stop": stop}
        there = np.repeat(position, h // g, axis=1)[:, :, None, :]
        meets = meets & (there >= start[..., None]) & (there < stop[..., None])
    if "weight" in kind:
        weight = np.where(rng.random((b, g, s)) < 0.8, rng.standard_normal((b, g, s)), -np.inf).astype(q.dtype)
        options["weight"] = weight
        scores = scores + np.repeat(weight, h // g, axis=1)[:, :, None, :]
    if "met" in kind:
        ours, theirs = rng.integers(0, 6, (b, h, length, 3)), rng.integers(0, 6, (b, g, s, 3))
        options["met"] = (ours, theirs)
        meets = meets & ~(ours[..., None, :] == np.repeat(theirs, h // g, axis=1)[:, :, None]).any(-1)
    return options, np.where(meets, scores, -np.inf)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", ["", "position", "weight", "met", "position weight met initial", "initial"])
def test_against_the_dense_formula(backend, dtype, kind):
    # Several blocks, tiles of two sizes, several tiles of rows a block and of keys a range, and blocks of one row.
    sizes = [(70, 300, 16), (5, 9, 4), (200, 900, 128), (33, 40, 1)]
    for length, s, size in cases_for(backend, sizes):
        q, k, v, begin, end, meets = case(length, s, size, widest=max(4, s // 2), dtype=dtype)
        options, scores = options_for(kind, q, k, meets)
        wanted = dense_attention(q, k, v, scores, scale=0.3)
        if "initial" in kind:
            before = dense_attention(q, k + 1, v - 1, rng.random((length, s)) < 0.1, scale=0.3)
            options["initial"] = tuple(x.astype(dtype) for x in before[:2])
            wanted = nlattn.merge_partials(nlattn.Partial(*before[:2]), nlattn.Partial(*wanted[:2]))
        out, lse = call_on(backend, block_attention, q, k, v, begin, end, scale=0.3, size=size, **options)
        assert out.dtype == lse.dtype == np.dtype(dtype)
        tight = 1e-11 if dtype == "float64" else 3e-5
        assert_close(out.astype(float), wanted[0], rtol=tight, atol=tight)
        assert_close(lse.astype(float), wanted[1], rtol=tight, atol=tight)
        assert not np.any(out[wanted[1] == -np.inf])


def test_a_key_in_two_ranges_counts_twice(backend):
    q, k, v = (rng.standard_normal((1, 1, n, 3)) for n in (5, 20, 20))
    begin, end = (np.broadcast_to(np.array(x), (1, 1, 2, 2)) for x in ([0, 5], [10, 20]))
    out, _ = call_on(backend, block_attention, q, k, v, begin, end, scale=1.0, size=3)
    twice = np.where((np.arange(20) >= 5) & (np.arange(20) < 10), np.log(2.0), 0.0)
    assert_close(out, dense_attention(q, k, v, twice[None], scale=1.0).out, rtol=1e-12)


def test_extremes(backend):
    """Logits of thousands, nothing to see, no rows, no keys."""
    q, k, v, begin, end, meets = case(70, 300, 16, widest=80)
    out, _ = call_on(backend, block_attention, 1e3 * q, k, v, begin, end, scale=3.0, size=16)
    assert_close(out, dense_attention(1e3 * q, k, v, meets, scale=3.0).out, rtol=1e-8, atol=1e-9)
    for length, s in ((0, 5), (5, 0)):
        arrays = q[:, :, :length], k[:, :, :s], v[:, :, :s], 0 * begin[:, :, :1], 0 * end[:, :, :1]
        out, lse = call_on(backend, block_attention, *arrays, scale=1.0, size=16)
        assert out.shape == (2, 4, length, 6)
        assert np.all(lse == -np.inf)


def test_contract_at_its_edges(backend):
    """A hidden key may hold anything; stops beyond 32 bits; narrow integers; sizes beyond L; initial rows of none."""
    q, k, v = (rng.standard_normal((1, 1, n, 3)) for n in (10, 20, 20))
    begin, end = np.zeros((1, 1, 1, 1), np.int16), np.full((1, 1, 1, 1), 20, np.int16)
    wanted = dense_attention(q, k, v, np.arange(20)[None] != 3, scale=1.0)
    weight = np.where(np.arange(20) == 3, -np.inf, 0.0)[None, None]
    k[:, :, 3] = np.nan
    blind = (np.full((1, 1, 10, 3), np.nan), np.full((1, 1, 10), -np.inf))
    stop = np.where(np.arange(10) % 2, 20, 1 << 40)[None, None]
    hidden = {"position": np.arange(20)[None, None], "start": np.zeros_like(stop), "stop": stop, "weight": weight}
    out, lse = call_on(backend, block_attention, q, k, v, begin, end, initial=blind, **hidden, scale=1.0, size=1 << 40)
    assert_close(out, wanted.out, rtol=1e-12)
    assert_close(lse, wanted.lse, rtol=1e-12)
    out, lse = call_on(backend, block_attention, q, k, v, end, end, initial=blind, scale=1.0, size=10)
    assert not np.any(out)
    assert np.all(lse == -np.inf)
