"""prescored_attention against dense attention over keys that are chosen here."""

import numpy as np
import pytest

import nlattn
from nlattn.testing import dense_attention


def draw(length, s, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((4, length, 6)), rng.standard_normal((2, s, 6)), rng.standard_normal((2, s, 5))


def kept_by_weights(q, k, v, *args, **options):
    """Which keys have weight, from outputs for v = I."""
    eye = np.broadcast_to(np.eye(k.shape[-2]), (*k.shape[:-1], k.shape[-2]))
    return nlattn.prescored_attention(q, k, eye, *args, **options) > 0


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("length", "s", "keep"), [(40, 60, 7), (60, 60, 2), (60, 40, 39), (1, 50, 1)])
def test_leverage(is_causal, length, s, keep):
    q, k, v = draw(length, s)
    scores = np.stack([np.square(np.linalg.qr(x)[0]).sum(-1) for x in k])
    sets = np.zeros((4, 1, s), bool)
    for h in range(4):
        sets[h, 0, np.argsort(-scores[h // 2], kind="stable")[:keep]] = True
    wanted = dense_attention(q, k, v, sets, is_causal=is_causal)
    options = {"score": "leverage", "is_causal": is_causal}
    out, lse = nlattn.prescored_attention(q, k, v, keep, return_lse=True, **options)
    met = wanted.lse > -np.inf
    np.testing.assert_allclose(out[met], wanted.out[met], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(lse[met], wanted.lse[met], rtol=1e-10, atol=1e-12)
    for h, i in np.argwhere(~met):
        own = i + s - length
        if own >= 0:  # no kept key yet: its own
            np.testing.assert_allclose(out[h, i], v[h // 2, own], rtol=1e-12)


def test_kmeans_keeps_outliers_of_each_key_head():
    rng = np.random.default_rng(1)
    q, k, v = draw(30, 400)
    k *= 0.05
    k[:, :200] += 3
    far = [rng.choice(400, 12, replace=False) for _ in range(2)]
    for g in range(2):
        k[g, far[g]] += 8 * rng.standard_normal((12, 6))
    for seed in range(3):
        kept = kept_by_weights(q * 0.01, k, v, 40, rng=seed)
        for h in range(4):
            assert np.all(kept[h].sum(-1) == 40)
            assert np.all(kept[h][:, far[h // 2]])
    with pytest.raises(ValueError, match="score must be one of 'kmeans', 'leverage', got 'norm'"):
        nlattn.prescored_attention(q, k, v, score="norm")


def test_the_share_of_a_key_in_its_cluster():
    from nlattn.problem.arguments import checked_problem
    from nlattn.select.key_scores import _clusters, distance_scores

    q, k, v = draw(10, 90)
    k[:, 7] = 50.0  # alone in its cluster
    problem = checked_problem("x", q, k, v)
    _, labels, centres, _ = _clusters(problem, 24, np.random.default_rng(3))
    scores = distance_scores(problem, 24, np.random.default_rng(3))
    for g in range(2):
        distance = np.linalg.norm(k[g] - centres[0, g][labels[0, g]], axis=-1)
        for c in range(6):
            own = labels[0, g] == c
            if distance[own].sum() > 1e-9:
                np.testing.assert_allclose(scores[0, g][own], distance[own] / distance[own].sum(), rtol=1e-9)
    # The official code gives such a key 0.
    k[:] = np.arange(90)[:, None] // 89 * 50.0
    assert np.all(distance_scores(checked_problem("x", q, k, v), 24, np.random.default_rng(0))[0, :, 89] == 1)


@pytest.mark.parametrize("score", ["kmeans", "leverage"])
def test_hidden_keys_are_not_kept(score):
    q, k, v = draw(30, 60)
    mask = np.arange(60) % 4 == 0
    k[:, ~mask] *= 100
    kept = kept_by_weights(0.001 * q, k, v, 12, score=score, attn_mask=mask[None], rng=0)
    assert np.all(kept.sum(-1) == 12)
    assert not np.any(kept[..., ~mask])
    few = np.arange(60) < 3
    out = nlattn.prescored_attention(q, k, v, 12, score=score, attn_mask=few[None], rng=0)
    np.testing.assert_allclose(out, dense_attention(q, k, v, few[None]).out, rtol=1e-9, atol=1e-12)
