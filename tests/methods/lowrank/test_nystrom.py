"""Nystrom attention against the plain formula, and what its parts claim."""

from itertools import pairwise

import numpy as np
import pytest

import nlattn
from nlattn.linalg._pseudo_inverse import iterated_inverse, solve_truncated
from nlattn.testing import dense_attention


def softmax(x):
    p = np.exp(x - x.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def plain(q, k, v, m, rcond=1e-3, scale=None):
    """The formula for lengths that m divides, one matrix at a time, in float64."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    out = np.empty((*q.shape[:-1], v.shape[-1]))
    for i in np.ndindex(q.shape[:-2]):
        qm, km = (x[i].reshape(m, -1, x.shape[-1]).mean(1) for x in (q, k))
        core = softmax(scale * qm @ km.T)
        right = softmax(scale * qm @ k[i].T) @ v[i]
        out[i] = softmax(scale * q[i] @ km.T) @ np.linalg.pinv(core, rcond=rcond) @ right
    return out


@pytest.fixture
def minilm():
    q, k, v, scale = nlattn.datasets.load("minilm", np.float64)[:4]
    return q, k, v, scale


@pytest.mark.parametrize("rcond", [1e-2, 1e-3, 1e-5, 1e-8])
def test_is_the_formula(minilm, rcond):
    q, k, v, scale = minilm
    desired = plain(q, k, v, 64, rcond, scale)
    out = nlattn.nystrom_attention(q, k, v, 64, rcond=rcond, scale=scale)
    assert np.linalg.norm(out - desired) <= 1e-6 * np.linalg.norm(desired)


def test_cut_off_beats_the_baseline_where_the_converged_inverse_does_not(minilm):
    q, k, v, scale = minilm
    exact = dense_attention(q, k, v, scale=scale)[0]
    mean = np.linalg.norm(v.mean(-2, keepdims=True) - exact, axis=(-2, -1))

    def error(rcond):
        out = nlattn.nystrom_attention(q, k, v, 64, scale=scale, rcond=rcond)
        return np.linalg.norm(out - exact, axis=(-2, -1)) / mean

    assert np.max(error(1e-3)) < 0.5
    assert np.median(error(1e-12)) > 0.9


def test_float32_loses_nothing_that_counts(minilm):
    q, k, v, scale = minilm
    single = (x.astype(np.float32) for x in (q, k, v))
    wide = nlattn.nystrom_attention(q, k, v, scale=scale)
    out = nlattn.nystrom_attention(*single, scale=scale)
    assert np.linalg.norm(out - wide) <= 1e-3 * np.linalg.norm(wide)


def test_rank_is_that_of_the_core(minilm):
    q, k, v, scale = minilm
    _, rank = nlattn.nystrom_attention(q, k, v, 64, scale=scale, return_rank=True)
    qm, km = (x.reshape(12, 64, 8, -1).mean(2) for x in (q, k))
    values = np.linalg.svd(softmax(scale * qm @ np.swapaxes(km, -1, -2)), compute_uv=False)
    assert np.array_equal(rank, (values > 1e-3 * values[:, :1]).sum(-1))


def test_uneven_segments_put_the_shorter_ones_first():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 1, 11, 3))
    from nlattn.problem.arguments import checked_problem
    from nlattn.select.landmarks import segment_landmarks

    q, used, _, _ = segment_landmarks(checked_problem("test", x, x, x), 4, None)
    ends = [0, 2, 5, 8, 11]
    desired = np.stack([x[0, 0, a:b].mean(0) for a, b in pairwise(ends)])
    assert used.all()
    np.testing.assert_allclose(q[0, 0], desired, rtol=1e-12)


@pytest.mark.parametrize("floating", [False, True])
def test_masked_tokens_change_nothing(floating):
    """Padding anywhere, also more than a segment of it, gives the result of the sequence without it."""
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((2, 3, 90, 8)) for _ in range(3))
    keep = np.sort(rng.choice(160, 90, replace=False))
    keep[45:] = np.arange(160 - 45, 160)  # a gap of many segments
    keep[:45] = np.arange(45)
    long = []
    for x in (q, k, v):
        padded = np.full((2, 3, 160, 8), 1e3)
        padded[..., keep, :] = x
        long.append(padded)
    mask = np.zeros(160, dtype=bool)
    mask[keep] = True
    attn_mask = np.where(mask, 0.0, -np.inf) if floating else mask
    out = nlattn.nystrom_attention(*long, 20, attn_mask=attn_mask)[..., keep, :]
    np.testing.assert_allclose(out, nlattn.nystrom_attention(q, k, v, 20), rtol=1e-7, atol=1e-9)


def test_fewer_visible_tokens_than_landmarks():
    rng = np.random.default_rng(2)
    q, k, v = (rng.standard_normal((1, 64, 8)) for _ in range(3))
    mask = np.arange(64) < 5
    out, rank = nlattn.nystrom_attention(q, k, v, 16, attn_mask=mask, return_rank=True)
    assert rank == 5
    # Landmarks are the tokens themselves: exact in the rows of these tokens.
    np.testing.assert_allclose(out[:, :5], dense_attention(q, k, v, mask)[0][:, :5], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("selection", ["random", "kmeans"])
def test_drawn_landmarks(minilm, selection):
    q, k, v, scale = minilm
    exact = dense_attention(q, k, v, scale=scale)[0]
    a, b, c = (nlattn.nystrom_attention(q, k, v, 64, scale=scale, selection=selection, rng=s) for s in (0, 0, 1))
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)
    assert np.linalg.norm(a - exact) < 0.5 * np.linalg.norm(exact)


def test_drawn_landmarks_are_visible_tokens():
    rng = np.random.default_rng(3)
    from nlattn.problem.arguments import checked_problem
    from nlattn.select.landmarks import random_landmarks

    x = rng.standard_normal((2, 4, 50, 3))
    mask = rng.random((2, 1, 1, 50)) < 0.6
    q, q_used, k, k_used = random_landmarks(
        checked_problem("test", x, x[:, :2], x[:, :2], attn_mask=mask, masks="keys"), 20, np.random.default_rng(0)
    )
    assert q_used.all()
    assert k_used.all()
    for b, h in np.ndindex(2, 4):
        allowed = x[b, h][mask[b, 0, 0]]
        assert all((row == allowed).all(1).any() for row in q[b, h])
        assert len(np.unique(q[b, h], axis=0)) == 20
    for b, g in np.ndindex(2, 2):
        assert all((row == x[b, g][mask[b, 0, 0]]).all(1).any() for row in k[b, g])


def test_iteration_obeys_its_recursion():
    """E = I - A Z goes to (3 E^3 + E^4) / 4."""
    rng = np.random.default_rng(4)
    a = softmax(rng.standard_normal((12, 12)) + 4 * np.eye(12))
    eye = np.eye(12)
    for iterations in range(1, 6):
        before, after = (eye - a @ iterated_inverse(a, i) for i in (iterations - 1, iterations))
        desired = (3 * np.linalg.matrix_power(before, 3) + np.linalg.matrix_power(before, 4)) / 4
        np.testing.assert_allclose(after, desired, atol=1e-12)


def test_iteration_is_the_papers_for_one_matrix(minilm):
    q, k, v, scale = (x[:1] if np.ndim(x) else x for x in minilm)
    qm, km = (x.reshape(1, 64, 8, -1).mean(2) for x in (q, k))
    core = softmax(scale * qm @ np.swapaxes(km, -1, -2))[0]
    z = core.T / (np.abs(core).sum(0).max() * np.abs(core).sum(1).max())
    eye = np.eye(64)
    for _ in range(6):
        x = core @ z
        z = 0.25 * z @ (13 * eye - x @ (15 * eye - x @ (7 * eye - x)))
    desired = softmax(scale * q @ np.swapaxes(km, -1, -2)) @ z @ (softmax(scale * qm @ np.swapaxes(k, -1, -2)) @ v)
    out = nlattn.nystrom_attention(q, k, v, scale=scale, pinv="iter")
    np.testing.assert_allclose(out, desired, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("pinv", ["svd", "iter"])
def test_heads_and_batch_elements_do_not_meet(pinv):
    rng = np.random.default_rng(5)
    q, k, v = (rng.standard_normal((2, 3, 96, 8)) for _ in range(3))
    before = nlattn.nystrom_attention(q, k, v, 16, pinv=pinv)
    q[1, 2] *= 50
    k[1, 2] -= 7
    after = nlattn.nystrom_attention(q, k, v, 16, pinv=pinv)
    same = np.ones((2, 3), dtype=bool)
    same[1, 2] = False
    np.testing.assert_allclose(after[same], before[same], rtol=1e-12)
    assert not np.allclose(after[1, 2], before[1, 2])


@pytest.mark.parametrize("rcond", [1e-3, 1e-9])
def test_solve_of_a_singular_core(rcond):
    rng = np.random.default_rng(6)
    core = np.zeros((2, 8, 8))
    core[0] = np.outer(rng.random(8), rng.random(8))
    right = rng.standard_normal((2, 8, 3))
    solved, rank = solve_truncated(core, right, rcond)
    np.testing.assert_allclose(solved[0], np.linalg.pinv(core[0], rcond=rcond) @ right[0], rtol=1e-8)
    assert rank.tolist() == [1, 0]
    assert np.all(solved[1] == 0)


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"pinv": "qr"}, ValueError, "pinv must be one of 'svd', 'iter', got 'qr'"),
        ({"selection": "best"}, ValueError, "selection must be one of"),
        ({"rcond": 0.0}, ValueError, "rcond must lie between 0 and 1"),
        ({"pinv": "iter", "iterations": 15}, ValueError, "iterations must be at most 14"),
        ({"pinv": "iter", "iterations": 0}, ValueError, "iterations must be at least 1"),
        ({"is_causal": True}, NotImplementedError, "nystrom_attention has no causal form"),
    ],
)
def test_refusals(options, error, sentence):
    x = np.ones((32, 4), dtype=np.float32)
    with pytest.raises(error, match=sentence):
        nlattn.nystrom_attention(x, x, x, 8, **options)
