"""Streaming softmax attention over an interval of keys for each row, on every backend, against the dense formula."""

import numpy as np
import pytest
from kernel_calls import call_on, cases_for

from nlattn.kernels.softmax_attention import softmax_attention
from nlattn.testing import assert_close, dense_attention

rng = np.random.default_rng(0)


def intervals(b, h, length, s):
    """Start and stop of every sort: empty, reversed, single, whole."""
    start, stop = np.sort(rng.integers(0, s + 1, (2, b, h, length)), axis=0)
    start[:, :, ::7], stop[:, :, ::7] = 0, s
    start[:, :, 1::7] = stop[:, :, 1::7]
    flip = stop[:, :, 2::7].copy()
    stop[:, :, 2::7], start[:, :, 2::7] = start[:, :, 2::7], flip
    return start, stop


def heads(length, s, e=8, ev=6, dtype="float64"):
    return (rng.standard_normal((2, n, m, d)).astype(dtype) for n, m, d in ((4, length, e), (2, s, e), (2, s, ev)))


def seen_by(start, stop, s):
    return (np.arange(s) >= start[..., None]) & (np.arange(s) < stop[..., None])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", ["plain", "mask", "bias", "mask and bias", "key weights"])
def test_against_the_dense_formula(backend, dtype, kind):
    # Several tiles of keys, one row, and several blocks of rows.
    for length, s in cases_for(backend, [(70, 300), (1, 9), (530, 70)]):
        q, k, v = heads(length, s, dtype=dtype)
        start, stop = intervals(2, 4, length, s)
        allowed, scores, options = seen_by(start, stop, s), np.zeros((2, 4, length, s)), {}
        if "mask" in kind:
            options["mask"] = rng.random((2, 1, length, s)) < 0.6
            allowed = allowed & options["mask"]
        if "bias" in kind or "weights" in kind:
            shape = (1, 4, 1, s) if "weights" in kind else (1, 4, length, s)
            options["bias"] = np.where(rng.random(shape) < 0.8, rng.standard_normal(shape), -np.inf).astype(dtype)
            scores = scores + options["bias"]
        out, lse = call_on(backend, softmax_attention, q, k, v, start, stop, scale=0.3, **options)
        wanted = dense_attention(q, k, v, np.where(allowed, scores, -np.inf), scale=0.3)
        tight = 1e-11 if dtype == "float64" else 2e-5
        assert out.dtype == lse.dtype == np.dtype(dtype)
        assert_close(out.astype(float), wanted.out, rtol=tight, atol=tight)
        assert_close(lse.astype(float), wanted.lse, rtol=tight, atol=tight)
        assert np.all(out[~allowed.any(-1)] == 0)


@pytest.mark.parametrize("axes", [(0, 1, 2, 3), (0, 1), (2, 3), (0, 1, 2), (1, 2, 3)])
def test_masks_broadcast(backend, axes):
    shape = [1 if axis in axes else n for axis, n in enumerate((2, 4, 9, 70))]
    q, k, v = heads(9, 70)
    start, stop = np.zeros((2, 4, 9), np.int64), np.full((2, 4, 9), 70)
    mask, bias = rng.random(shape) < 0.7, rng.standard_normal(shape)
    out, _ = call_on(backend, softmax_attention, q, k, v, start, stop, scale=0.3, mask=mask, bias=bias)
    assert_close(out, dense_attention(q, k, v, np.where(mask, bias, -np.inf), scale=0.3).out, rtol=1e-11, atol=1e-13)


def test_keys_that_no_row_may_see_are_not_read(backend):
    """Keys outside of every interval are not even read into a product."""
    q, k, v = (rng.standard_normal((1, 1, n, 8)) for n in (40, 600, 600))
    start, stop = np.full((1, 1, 40), 300), np.full((1, 1, 40), 512)
    stop[..., 5] = 300
    wanted = dense_attention(q, k[:, :, 300:512], v[:, :, 300:512], np.arange(40)[:, None] != 5, scale=1.0)
    k[:, :, :300] = k[:, :, 512:] = 1e200
    v[:, :, :300] = v[:, :, 512:] = 1e200
    out, lse = call_on(backend, softmax_attention, q, k, v, start, stop, scale=1.0)
    assert_close(out, wanted.out, rtol=1e-11, atol=1e-13)
    assert_close(lse, wanted.lse, rtol=1e-11)


@pytest.mark.parametrize("kind", ["plain", "masked"])
def test_nan_stays_in_its_rows(kind):
    """Of either sign; rows that do not see the key are finite, and a hidden key may hold anything."""
    q, k, v = (rng.standard_normal((1, 1, 30, 8)) for _ in range(3))
    start, stop = np.zeros((1, 1, 30), np.int64), np.arange(30)[None, None] + 1
    options = {} if kind == "plain" else {"mask": np.ones((1, 1, 1, 30), bool)}
    for nan in (np.nan, -np.nan):
        broken = k.copy()
        broken[0, 0, 20] = nan
        out, lse = softmax_attention(q, broken, v, start, stop, scale=1.0, **options)
        assert np.all(np.isfinite(out[:, :, :20]))
        assert np.all(np.isnan(out[:, :, 20:]))
        assert np.all(np.isnan(lse[:, :, 20:]))


def test_gradients():
    torch = pytest.importorskip("torch")
    start, stop = (torch.tensor(x) for x in intervals(1, 2, 5, 4))
    shapes = (1, 2, 5, 3), (1, 1, 4, 3), (1, 1, 4, 2), (1, 1, 5, 4)
    tensors = tuple(torch.tensor(rng.standard_normal(shape), requires_grad=True) for shape in shapes)

    def attend(q, k, v, bias):
        out, lse = softmax_attention(q, k, v, start, stop, scale=0.5, bias=bias)
        return out, torch.where(torch.isfinite(lse), lse, torch.zeros_like(lse))

    assert torch.autograd.gradcheck(attend, tensors)
