"""loki_attention against dense attention over keys chosen by scores in few dimensions, computed here."""

import numpy as np
import pytest

import nlattn
from nlattn.testing import dense_attention


def draw(length, s, seed=0):
    rng = np.random.default_rng(seed)
    shape = np.array([4, 3, 2, 1, 1, 0.5, 0.5, 0.2])
    return (
        rng.standard_normal((4, length, 8)) * shape,
        rng.standard_normal((2, s, 8)) + 3,
        rng.standard_normal((2, s, 5)),
    )


def few_scores(q, k, rank, basis):
    """The best approximation of rank `rank` of q (k - mean)^T, or its projection on the principal directions of k."""
    q, k = q * 8**-0.5, np.repeat(k, 2, axis=0)
    scores = []
    for own, keys in zip(q, k, strict=True):
        mean = keys.mean(0)
        if basis == "balanced":
            u, s, vt = np.linalg.svd(own @ (keys - mean).T, full_matrices=False)
            few = (u[:, :rank] * s[:rank]) @ vt[:rank]
        else:
            vt = np.linalg.svd(keys - mean)[2][:rank]
            few = own @ vt.T @ vt @ (keys - mean).T
        scores.append(few + (own @ mean)[:, None])
    return np.stack(scores)


def chosen(scores, n):
    rank = np.argsort(np.argsort(-scores, axis=-1, kind="stable"), axis=-1)
    return (rank < n) & (scores > -np.inf)


def exact_scores(q, k):
    return 8**-0.5 * q @ np.swapaxes(np.repeat(k, 2, axis=0), -1, -2)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("basis", ["balanced", "keys"])
@pytest.mark.parametrize("form", ["selected", "fused"])
@pytest.mark.parametrize(("length", "s", "n", "rank"), [(60, 60, 7, 3), (20, 90, 30, 1), (90, 30, 10, 6)])
def test_is_attention_by_these_scores(is_causal, basis, form, length, s, n, rank):
    q, k, v = draw(length, s)
    few = few_scores(q, k, rank, basis)
    future = np.arange(s) > np.arange(length)[:, None] + s - length if is_causal else np.zeros((length, s), bool)
    kept = chosen(np.where(future, -np.inf, few), n)
    exact = exact_scores(q, k)
    scores = np.where(kept, exact, -np.inf if form == "selected" else few)
    scores = np.where(future, -np.inf, scores)
    wanted = dense_attention(0 * q, k, v, scores)
    out, lse = nlattn.loki_attention(q, k, v, n, rank, form=form, basis=basis, is_causal=is_causal, return_lse=True)
    np.testing.assert_allclose(out, wanted.out, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(lse, wanted.lse, rtol=1e-8, atol=1e-10)


def test_all_directions_are_exact():
    q, k, v = draw(50, 60)
    exact = nlattn.exact_attention(q, k, v, is_causal=True)
    top = nlattn.topk_attention(q, k, v, 9, is_causal=True)
    for rank in (8, 100):
        assert np.array_equal(nlattn.loki_attention(q, k, v, 9, rank, is_causal=True), top)
        fused = nlattn.loki_attention(q, k, v, 9, rank, form="fused", is_causal=True)
        np.testing.assert_allclose(fused, exact, rtol=1e-12, atol=1e-14)
    low = nlattn.loki_attention(q, k[..., :] * [1, 1, 1, 0, 0, 0, 0, 0], v, 9, 3, form="fused")
    np.testing.assert_allclose(low, nlattn.exact_attention(q, k * [1, 1, 1, 0, 0, 0, 0, 0], v), rtol=1e-9, atol=1e-11)


def test_masks_with_a_bias():
    q, k, v = draw(40, 50)
    rng = np.random.default_rng(1)
    mask = np.where(rng.random((4, 40, 50)) < 0.6, rng.standard_normal((4, 40, 50)), -np.inf)
    few = few_scores(q, k, 3, "balanced") + mask
    kept = chosen(few, 6)
    scores = np.where(kept, exact_scores(q, k) + mask, few)
    wanted = dense_attention(0 * q, k, v, scores).out
    out = nlattn.loki_attention(q, k, v, 6, 3, form="fused", attn_mask=mask)
    np.testing.assert_allclose(out, wanted, rtol=1e-8, atol=1e-10)


def test_error_of_a_score_from_the_keys():
    """|s - s'| <= scale |q - q'| |k - k'| for orthogonal projections, which is attained for one direction left out."""
    q, k, _ = draw(40, 50)
    for rank in (2, 7):
        difference = np.abs(few_scores(q, k, rank, "keys") - exact_scores(q, k))
        for h in range(4):
            keys = k[h // 2] - k[h // 2].mean(0)
            rest = np.linalg.svd(keys)[2][rank:]
            bound = 8**-0.5 * np.outer(np.linalg.norm(q[h] @ rest.T, axis=-1), np.linalg.norm(keys @ rest.T, axis=-1))
            assert np.all(difference[h] <= bound * (1 + 1e-9) + 1e-12)
            if rank == 7:
                np.testing.assert_allclose(difference[h], bound, rtol=1e-6, atol=1e-10)


def test_the_balanced_basis_chooses_better_on_a_causal_model():
    q, k, v, scale, is_causal = nlattn.datasets.load("smollm2")[:5]
    exact = nlattn.exact_attention(q, k, v, is_causal=is_causal, scale=scale)
    errors = {}
    for options in ({"basis": "keys"}, {"basis": "balanced"}, {"form": "fused"}):
        out = nlattn.loki_attention(q, k, v, 128, 16, is_causal=is_causal, scale=scale, **options)
        errors[next(iter(options.values()))] = float(np.linalg.norm(out - exact) / np.linalg.norm(exact))
    assert 2 * errors["balanced"] < errors["keys"]
    assert errors["fused"] < errors["balanced"]


def test_few_queries_and_equal_keys():
    q, k, v = draw(2, 40)
    for array in (k, 0 * k + 1):
        out = nlattn.loki_attention(q, array, v, 39, 4)
        assert np.linalg.norm(out - nlattn.exact_attention(q, array, v)) < 0.5
    with pytest.raises(ValueError, match="basis must be one of 'balanced', 'keys', got 'pca'"):
        nlattn.loki_attention(q, k, v, basis="pca")
    with pytest.raises(ValueError, match="form must be one of"):
        nlattn.loki_attention(q, k, v, form="both")
