"""SMYRF is softmax attention over the pairs that meet in some round."""

import numpy as np
import pytest
from hashed_pairs import dropped_mass, paired, weighted_attention

import nlattn
from nlattn.methods.sparse.smyrf import _in_units_of_the_longest
from nlattn.testing import to_numpy


def draw(length, s, seed=0, size=1.0):
    rng = np.random.default_rng(seed)
    return size * rng.standard_normal((length, 6)), size * rng.standard_normal((s, 6)), rng.standard_normal((s, 3))


def meetings(q, k, size, rounds, seed, valid=None):
    """How often each pair meets: augmented in one coordinate each, projected, sorted, cut and paired by rank."""
    valid = np.ones(len(k), bool) if valid is None else valid
    q = q / np.linalg.norm(q, axis=1).max()
    k = k / np.linalg.norm(k[valid], axis=1).max()
    f = np.column_stack([q, np.zeros(len(q)), np.sqrt(2 - (q * q).sum(1))])
    g = np.column_stack([k, np.sqrt(np.maximum(2 - (k * k).sum(1), 0)), np.zeros(len(k))])
    directions = np.random.default_rng(seed).spawn(1)[0].standard_normal((1, rounds, q.shape[1] + 2))[0]
    count = np.zeros((len(q), len(k)), dtype=int)
    for a in directions:
        keys = [x if m else None for x, m in zip(g @ a, valid, strict=True)]
        count += paired(list(f @ a), keys, size, False, "rank")
    return count


@pytest.mark.parametrize("multiplicity", ["unique", "sum"])
@pytest.mark.parametrize(("length", "s", "size"), [(40, 40, 8), (33, 50, 7), (50, 33, 5), (3, 40, 8)])
@pytest.mark.parametrize("masked", [False, True])
def test_is_attention_over_what_meets(backend, multiplicity, length, s, size, masked):
    q, k, v = draw(length, s)
    valid = np.random.default_rng(5).random(s) < (0.6 if masked else 1.1)
    options = {"attn_mask": backend.array(valid, "bool")} if masked else {}
    arrays = [backend.array(x) for x in (q, k, v)]
    out, lse = nlattn.smyrf_attention(*arrays, size, 3, multiplicity=multiplicity, rng=4, return_lse=True, **options)
    count = meetings(q, k, size, 3, 4, valid)
    assert count.max() > 1
    wanted = weighted_attention(q, k, v, count > 0 if multiplicity == "unique" else count)
    np.testing.assert_allclose(to_numpy(out), wanted[0], atol=1e-12)
    np.testing.assert_allclose(to_numpy(lse), wanted[1], atol=1e-12)


def test_log_weights(backend):
    q, k, v = draw(40, 50)
    bias = np.random.default_rng(6).standard_normal(50)
    bias[7] = -np.inf
    arrays = [backend.array(x) for x in (q, k, v)]
    out = nlattn.smyrf_attention(*arrays, 8, 3, attn_mask=backend.array(bias), rng=4)
    weights = (meetings(q, k, 8, 3, 4, bias > -np.inf) > 0) * np.exp(bias)
    np.testing.assert_allclose(to_numpy(out), weighted_attention(q, k, v, weights)[0], atol=1e-12)


def test_dropped_mass():
    q, k, v = draw(60, 60)
    exact = nlattn.exact_attention(q, k, v, return_lse=True)
    last = -np.inf
    for rounds in (1, 2, 4, 8):
        out, lse = nlattn.smyrf_attention(q, k, v, 10, rounds, rng=1, return_lse=True)
        wanted, inside = dropped_mass(q, k, v, meetings(q, k, 10, rounds, 1) > 0)
        np.testing.assert_allclose(out, wanted, atol=1e-12)
        np.testing.assert_allclose(np.exp(lse - exact.lse), inside, atol=1e-12)
        assert np.all(lse >= last - 1e-12)  # the first rounds are the same
        assert np.all(lse <= exact.lse + 1e-12)
        last = lse


def test_augmented_vectors_keep_inner_products(backend):
    q, k, _ = draw(30, 40)
    units = [_in_units_of_the_longest(backend.array(x)[None, None, ...]) for x in (1e20 * q, 1e-20 * k)]
    f, g = (to_numpy(x)[0, 0] for x in nlattn.cluster.augment_for_inner_products(*units, kind="xbox+"))
    longest = np.linalg.norm(q, axis=1).max() * np.linalg.norm(k, axis=1).max()
    np.testing.assert_allclose(f @ g.T, q @ k.T / longest, atol=1e-14)
    for x in (f, g):
        np.testing.assert_allclose(np.sum(x * x, axis=1), 2, atol=1e-14)


def test_similar_pairs_meet_more_often():
    q, k, _ = draw(64, 64, size=2.0)
    count = sum(meetings(q, k, 8, 4, seed) for seed in range(40))
    scores = q @ k.T
    near, far = scores > np.quantile(scores, 0.9), scores < np.quantile(scores, 0.1)
    assert count[near].mean() > 2 * count[far].mean()


def test_units_do_not_matter():
    q, k, v = draw(50, 70)
    first = nlattn.smyrf_attention(q, k, v, 8, scale=0.4, rng=0)
    np.testing.assert_allclose(nlattn.smyrf_attention(1e3 * q, k / 10, v, 8, scale=0.004, rng=0), first, rtol=1e-9)
    np.testing.assert_allclose(nlattn.smyrf_attention(-q, k, v, 8, scale=-0.4, rng=0), first, rtol=1e-9)


@pytest.mark.parametrize("multiplicity", ["unique", "sum"])
def test_the_past_does_not_depend_on_future_keys(multiplicity):
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, 300, 8)) for _ in range(3))

    def call(k, v):
        return nlattn.smyrf_attention(q, k, v, 16, 2, multiplicity=multiplicity, is_causal=True, rng=3)

    first = call(k, v)
    for now in (1, 37, 150, 299):
        k2, v2 = k.copy(), v.copy()
        k2[:, now:], v2[:, now:] = 5 * rng.standard_normal((2, 300 - now, 8)), 1e3
        changed = call(k2, v2)
        assert np.array_equal(changed[:, :now], first[:, :now])
        assert np.abs(changed[:, now:] - first[:, now:]).min(-1).max() > 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cluster_size": 0}, "cluster_size must be at least 1, got 0"),
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"multiplicity": "ht"}, "multiplicity must be one of 'unique', 'sum', got 'ht'"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(ValueError, match=words):
        nlattn.smyrf_attention(*draw(9, 9), **options)


def test_on_real_heads():
    sample = nlattn.datasets.load("minilm")
    exact = nlattn.exact_attention(sample.query, sample.key, sample.value)
    errors = [
        np.linalg.norm(nlattn.smyrf_attention(*sample[:3], size, 4, rng=0) - exact) / np.linalg.norm(exact)
        for size in (16, 64, 256)
    ]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.2
