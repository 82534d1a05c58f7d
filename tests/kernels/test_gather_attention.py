"""Attention over lists of keys, against dense formulas on every backend."""

import numpy as np
import pytest
from kernel_calls import call_on, cases_for

from nlattn.dispatch import use_backend
from nlattn.kernels.gather_attention import gather_attention
from nlattn.testing import assert_close, dense_attention

rng = np.random.default_rng(0)


def case(length, s, m, dtype="float64", e=8, ev=6):
    q, k, v = (rng.standard_normal((2, h, n, d)).astype(dtype) for h, n, d in ((4, length, e), (2, s, e), (2, s, ev)))
    index = rng.integers(0, s, (2, 4, length, m))
    bias = np.where(rng.random(index.shape) < 0.3, -np.inf, rng.standard_normal(index.shape)).astype(dtype)
    bias[:, :, ::5] = -np.inf
    return q, k, v, index, bias


def weights_of(index, bias, s):
    """log of the sum of exp(bias) over the places that name each key."""
    total = np.zeros((*index.shape[:-1], s))
    np.add.at(total, (*np.indices(index.shape)[:-1], index), np.exp(bias.astype(float)))
    with np.errstate(divide="ignore"):
        return np.log(total)


def call(backend, *arrays, scale=0.4, **options):
    return call_on(backend, gather_attention, *arrays, scale=scale, **options)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("has_bias", [False, True])
def test_against_the_dense_formula(backend, dtype, has_bias):
    for length, s, m in cases_for(backend, [(33, 30, 17), (1, 1, 1), (130, 40, 64)]):
        q, k, v, index, bias = case(length, s, m, dtype)
        weights = weights_of(index, bias if has_bias else 0 * index, s)
        wanted = dense_attention(q, k, v, weights, scale=0.4)
        out, lse = call(backend, q, k, v, index, bias=bias if has_bias else None)
        assert out.dtype == lse.dtype == np.dtype(dtype)
        tight = 1e-12 if dtype == "float64" else 2e-5
        assert_close(out.astype(float), wanted.out, rtol=tight, atol=tight)
        assert_close(lse.astype(float), wanted.lse, rtol=tight, atol=tight)
        if has_bias:
            assert np.all(out[:, :, ::5] == 0)
            assert np.all(lse[:, :, ::5] == -np.inf)


def test_edges(backend):
    q, k, v, index, _ = case(9, 20, 4)
    for sizes in ((0, 20, 4), (9, 20, 0), (9, 0, 0)):
        length, s, m = sizes
        out, lse = call(backend, q[:, :, :length], k[:, :, :s], v[:, :, :s], index[:, :, :length, :m])
        assert out.shape == (2, 4, length, 6)
        assert np.all(out == 0)
        assert np.all(lse == -np.inf)
    assert call(backend, q, k, v[..., :0], index)[0].shape == (2, 4, 9, 0)
    out, _ = call(backend, 1e4 * q, k, v, index)  # logits of thousands
    wanted = dense_attention(1e4 * q, k, v, weights_of(index, 0 * index, 20), scale=0.4)
    assert_close(out, wanted.out, rtol=1e-9, atol=1e-9)
    low = np.full(index.shape, np.finfo("float64").min)
    assert_close(call(backend, q, k, 0 * v + 1, index, bias=low)[0], np.ones((2, 4, 9, 6)), rtol=1e-12)


def test_layouts_and_shared_heads():
    q, k, v, index, bias = case(50, 40, 12)
    wanted = gather_attention(q, k, v, index, scale=0.4, bias=bias)
    strided = [np.repeat(x, 2, axis=-1)[..., ::2] for x in (q, k, v, index, bias)]
    for x in strided:
        x.flags.writeable = False
    q2, k2, v2, index2, bias2 = strided
    for got, x in zip(gather_attention(q2, k2, v2, index2, scale=0.4, bias=bias2), wanted, strict=True):
        assert np.array_equal(got, x)
    shared = np.broadcast_to(k[:1, :1], k.shape), np.broadcast_to(v[:, :1], v.shape)
    copies = [x.copy() for x in shared]
    once, again = (gather_attention(q, *pair, index, scale=0.4) for pair in (shared, copies))
    assert all(np.array_equal(x, y) for x, y in zip(once, again, strict=True))
    with use_backend("generic"):
        half = gather_attention(*(x.astype("float16") for x in (q, k, v)), index, scale=0.4)
    ours = gather_attention(*(x.astype("float16") for x in (q, k, v)), index, scale=0.4)
    assert ours[0].dtype == half[0].dtype == np.float32
    assert_close(ours[0].astype(float), half[0].astype(float), rtol=1e-5, atol=1e-5)


def test_wrong_places_are_refused_and_nan_shows():
    q, k, v, index, _ = case(9, 20, 4)
    for wrong in (-1, 20):
        with pytest.raises(IndexError, match="index must lie between 0 and 19"):
            gather_attention(q, k, v, np.where(index == index[0, 0, 0, 0], wrong, index), scale=1.0)
    for number in (np.nan, -np.nan):
        k[0, 0, index[0, 0, 0, 0], 3] = number
        out, lse = gather_attention(q, k, v, index, scale=1.0)
        assert np.all(np.isnan(out[0, 0, 0]))
        assert np.isnan(lse[0, 0, 0])
        assert np.all(np.isfinite(out[1]))


def test_threads_do_not_matter(monkeypatch):
    q, k, v, index, bias = case(700, 300, 50, "float32", e=32)
    results = []
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("NLATTN_NUM_THREADS", threads)
        results.append(gather_attention(q, k, v, index, scale=0.2, bias=bias))
    for other in results[1:]:
        assert all(np.array_equal(x, y) for x, y in zip(results[0], other, strict=True))
