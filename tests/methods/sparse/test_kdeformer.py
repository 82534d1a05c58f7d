"""KDEformer: HyperAttention's blocks, with keys drawn by the norms of their values."""

import math

import numpy as np
import pytest
from hashed_pairs import weighted_attention
from sampled_weights import draw, estimated_weights

import nlattn
from nlattn.testing import to_numpy


def relative_norms(v, valid):
    return np.sqrt(1 + (v * v).sum(1) / (v[valid] ** 2).sum(1).mean())


def official(v, valid):
    rows = np.column_stack([v, np.ones(len(v))])
    largest = np.linalg.norm(rows[valid], 2) ** 2
    return np.linalg.norm(rows, axis=1) / largest + 1 / valid.sum()


@pytest.mark.parametrize(("variant", "probability"), [("nlattn", relative_norms), ("paper", official)])
@pytest.mark.parametrize(("length", "s", "size"), [(40, 40, 8), (33, 50, 7), (50, 33, 5)])
@pytest.mark.parametrize("masked", [False, True])
def test_is_weighted_attention(backend, variant, probability, length, s, size, masked):
    q, k, v = draw(length, s)
    v = 5 * v * np.linspace(0, 1, s)[:, None]
    valid = np.random.default_rng(5).random(s) < (0.6 if masked else 1.1)
    options = {"attn_mask": backend.array(valid, "bool")} if masked else {}
    options |= {"variant": variant, "return_lse": True, "bits": 5, "rng": 4}
    out, lse = nlattn.kdeformer_attention(*(backend.array(x) for x in (q, k, v)), size, 9, **options)
    weights = estimated_weights(
        q, k, v, size, 9, 4, bits=5, variant=variant, probability=probability, valid=valid
    ) * valid  # fmt: skip
    wanted = weighted_attention(q, k, v, weights)
    np.testing.assert_allclose(to_numpy(out), wanted[0], atol=1e-12)
    np.testing.assert_allclose(to_numpy(lse), wanted[1], atol=1e-12)


@pytest.mark.parametrize("variant", ["nlattn", "paper"])
@pytest.mark.parametrize("is_causal", [False, True])
def test_sums_are_unbiased(variant, is_causal):
    n, draws = 44, 3000
    q, k, v = draw(n, n)
    v = v * np.linspace(0, 3, n)[:, None]
    many = [np.broadcast_to(x, (draws, 1, n, x.shape[1])) for x in (q, k, v)]
    options = {"variant": variant, "is_causal": is_causal, "rng": 0, "return_lse": True, "bits": 3}
    out, lse = nlattn.kdeformer_attention(*many, 6, 5, **options)
    exact = nlattn.exact_attention(q, k, v, is_causal=is_causal, return_lse=True)
    ratio = np.exp(lse[:, 0] - exact.lse)
    for sample, mean in ((ratio, 1.0), (ratio[..., None] * out[:, 0], exact.out)):
        error = sample.std(0) / math.sqrt(draws)
        assert np.all(np.abs(sample.mean(0) - mean) < 4.5 * error + 1e-9)
        assert np.all(error < 0.2)


def test_the_unit_of_the_values_matters_to_the_official_formula_alone():
    q, k, v = draw(60, 60)
    v = 5 * v * np.linspace(0, 1, 60)[:, None]
    for factor in (1e-30, 1e-3, 1e3, 1e200):
        change = nlattn.kdeformer_attention(q, k, factor * v, 8, 16, rng=0) / factor - nlattn.kdeformer_attention(
            q, k, v, 8, 16, rng=0
        )
        assert np.abs(change).max() < 1e-10
    change = nlattn.kdeformer_attention(q, k, 1e3 * v, 8, 16, variant="paper", rng=0) / 1e3
    assert np.abs(change - nlattn.kdeformer_attention(q, k, v, 8, 16, variant="paper", rng=0)).max() > 0.01


def test_no_sample_weighs_more_than_it_says():
    """Drawn keys weigh at most 2^(1/2) S / samples, however the norms of the values differ."""
    q, k, v = draw(50, 50)
    v = v * np.exp(3 * v[:, :1])
    _, lse = nlattn.kdeformer_attention(0 * q, 0 * k, v, 10, 1, rng=0, return_lse=True)
    masses = np.exp(lse) - 10
    drawn = masses > 1e-9
    assert 0 < drawn.sum() <= 50
    assert np.all(masses[drawn] <= math.sqrt(2) * 50 * (1 + 1e-12))


def test_values_that_are_zero_are_drawn_equally():
    q, k, v = draw(40, 40)
    got = nlattn.kdeformer_attention(q, k, 0 * v, 6, 5, rng=0, return_lse=True)
    np.testing.assert_allclose(got.lse, nlattn.hyper_attention(q, k, v, 6, 5, rng=0, return_lse=True).lse)


def test_the_past_does_not_depend_on_future_values():
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, 300, 8)) for _ in range(3))
    first = nlattn.kdeformer_attention(q, k, v, 16, 16, is_causal=True, rng=3)
    for now in (1, 37, 150, 299):
        k2, v2 = k.copy(), v.copy()
        k2[:, now:], v2[:, now:] = 5 * rng.standard_normal((2, 300 - now, 8)), 1e3
        assert np.array_equal(nlattn.kdeformer_attention(q, k2, v2, 16, 16, is_causal=True, rng=3)[:, :now],
                              first[:, :now])  # fmt: skip


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bucket_size": 0}, "bucket_size must be at least 1, got 0"),
        ({"samples": 0}, "samples must be at least 1, got 0"),
        ({"bits": 0}, "bits must be at least 1, got 0"),
        ({"variant": "vit"}, "variant must be one of 'nlattn', 'paper', got 'vit'"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(ValueError, match=words):
        nlattn.kdeformer_attention(*draw(9, 9), **options)
