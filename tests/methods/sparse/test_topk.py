"""topk_attention against dense attention over the largest scores, chosen by NumPy."""

import numpy as np
import pytest

import nlattn
from nlattn.testing import dense_attention


def scores_of(q, k, mask=None, is_causal=False):
    k = np.repeat(k, q.shape[-3] // k.shape[-3], axis=-3)
    scores = q @ np.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    if is_causal:
        length, s = scores.shape[-2:]
        scores = np.where(np.arange(s) <= np.arange(length)[:, None] + s - length, scores, -np.inf)
    return scores


def chosen(scores, n):
    order = np.argsort(-scores, axis=-1, kind="stable")
    rank = np.argsort(order, axis=-1, kind="stable")
    return (rank < n) & (scores > -np.inf)


def draw(length, s, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((2, 4, length, 8)), *(rng.standard_normal((2, 2, s, d)) for d in (8, 5))


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("length", "s", "n"), [(60, 60, 1), (60, 60, 7), (20, 90, 70), (90, 20, 19), (1, 50, 5)])
@pytest.mark.parametrize("kind", [None, "bool", "bias", "key"])
def test_is_attention_over_the_largest_scores(is_causal, length, s, n, kind):
    q, k, v = draw(length, s)
    rng = np.random.default_rng(1)
    mask = None if kind is None else rng.random((4, 1 if kind == "key" else length, s)) < 0.5
    if kind == "bias":
        mask = np.where(mask, 2 * rng.standard_normal(mask.shape), -np.inf)
    scores = scores_of(q, k, mask, is_causal)
    wanted = dense_attention(
        q, k, v, np.where(chosen(scores, n), 0.0 if mask is None or mask.dtype == bool else mask, -np.inf)
    )
    out, lse = nlattn.topk_attention(q, k, v, n, attn_mask=mask, is_causal=is_causal, return_lse=True)
    np.testing.assert_allclose(out, wanted.out, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(lse, wanted.lse, rtol=1e-10, atol=1e-12)


def test_equal_scores_go_to_the_first_keys():
    q, k, v = draw(10, 40)
    k[...] = k[:, :, :1]
    out = nlattn.topk_attention(q, k, v, 6)
    np.testing.assert_allclose(
        out, np.repeat(v[:, :, :6].mean(-2, keepdims=True), 2, axis=1) + 0 * q[..., :5], rtol=1e-12
    )


def test_dropped_mass_is_the_error():
    """out - exact = eps (out - out of the dropped), and no other choice of 8 keys drops less."""
    q, k, v = draw(30, 50)
    part = nlattn.topk_attention(q, k, v, 8, return_lse=True)
    scores = scores_of(q, k)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    kept = chosen(scores, 8)
    eps = np.where(kept, 0, weights).sum(-1)
    exact = nlattn.exact_attention(q, k, v, return_lse=True)
    np.testing.assert_allclose(eps, 1 - np.exp(part.lse - exact.lse), rtol=1e-9)
    dropped = nlattn.exact_attention(q, k, v, ~kept)
    np.testing.assert_allclose(part.out - exact.out, eps[..., None] * (part.out - dropped), atol=1e-13)
    np.testing.assert_allclose(1 - eps, np.sort(weights, axis=-1)[..., -8:].sum(-1), rtol=1e-12)


def test_tiles_are_joined(monkeypatch):
    q, k, v = draw(70, 50)
    whole = nlattn.topk_attention(q, k, v, 9, is_causal=True)
    monkeypatch.setattr("nlattn.problem.scores.TILE_NUMBERS", 8 * 50 * 3)
    np.testing.assert_allclose(nlattn.topk_attention(q, k, v, 9, is_causal=True), whole, rtol=1e-12, atol=1e-14)


def test_nan_shows_where_it_is_let_through():
    q, k, v = draw(12, 30)
    q[0, 1, 3, 2] = np.nan
    out = nlattn.topk_attention(q, k, v, 5, check_finite=False)
    assert np.all(np.isnan(out[0, 1, 3]))
    assert np.isnan(out).any(-1).sum() == 1
