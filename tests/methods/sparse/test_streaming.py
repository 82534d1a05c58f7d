"""Streaming attention is exact attention under its mask."""

import numpy as np
import pytest

import nlattn
from nlattn.testing import dense_attention


def window_mask(length, s, window, sinks, is_causal):
    i = np.arange(length)[:, None] + s - length
    j = np.arange(s)
    near = (i - j < window) & (j - i < (1 if is_causal else window))
    return near | ((j < sinks) & ((j <= i) | (not is_causal)))


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("window", "sinks"), [(1, 0), (1, 3), (7, 0), (7, 4), (30, 2), (60, 3)])
@pytest.mark.parametrize(("length", "s"), [(64, 64), (20, 64), (64, 20), (1, 64), (600, 600)])
def test_is_masked_attention(is_causal, window, sinks, length, s):
    rng = np.random.default_rng(length * s)
    q, k, v = rng.standard_normal((2, length, 8)), rng.standard_normal((2, s, 8)), rng.standard_normal((2, s, 5))
    out, lse = nlattn.streaming_attention(q, k, v, window, sinks, is_causal=is_causal, return_lse=True)
    exact_from = window + sinks >= s
    mask = None if exact_from else window_mask(length, s, window, sinks, is_causal)
    desired, desired_lse, _ = dense_attention(q, k, v, mask, is_causal=is_causal)
    np.testing.assert_allclose(out, desired, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(lse, desired_lse, rtol=1e-10, atol=1e-12)


def test_mask_is_joined_by_and():
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((3, 50, 8)) for _ in range(3))
    mask = rng.random((3, 50, 50)) < 0.3
    out = nlattn.streaming_attention(q, k, v, 9, 2, attn_mask=mask, is_causal=True)
    desired = dense_attention(q, k, v, mask & window_mask(50, 50, 9, 2, True))[0]
    np.testing.assert_allclose(out, desired, rtol=1e-10, atol=1e-12)


def test_on_a_causal_model():
    q, k, v, scale, is_causal = nlattn.datasets.load("smollm2")[:5]
    exact = dense_attention(q, k, v, is_causal=is_causal, scale=scale)[0]
    errors = []
    for window in (64, 256, 1024):
        out = nlattn.streaming_attention(q, k, v, window, is_causal=is_causal, scale=scale)
        errors.append(np.linalg.norm(out - exact) / np.linalg.norm(exact))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.1
    without = nlattn.streaming_attention(q, k, v, 256, 0, is_causal=is_causal, scale=scale)
    assert np.linalg.norm(without - exact) / np.linalg.norm(exact) > 2 * errors[1]  # the sinks matter
