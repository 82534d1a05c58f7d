"""HyperAttention: exact within blocks, an unbiased sample of the rest."""

import math

import numpy as np
import pytest
from hashed_pairs import weighted_attention
from sampled_weights import draw, estimated_weights

import nlattn
from nlattn.testing import to_numpy


def by_values(v, valid):
    squares = np.where(valid, (v * v).sum(1), 0)
    return 0.5 * squares / squares.sum() + 0.5 / valid.sum()


@pytest.mark.parametrize("sampling", ["uniform", "values"])
@pytest.mark.parametrize("variant", ["nlattn", "paper"])
@pytest.mark.parametrize(("length", "s", "size"), [(40, 40, 8), (33, 50, 7), (50, 33, 5), (3, 40, 8)])
@pytest.mark.parametrize("masked", [False, True])
def test_is_weighted_attention(backend, sampling, variant, length, s, size, masked):
    q, k, v = draw(length, s)
    valid = np.random.default_rng(5).random(s) < (0.6 if masked else 1.1)
    options = {"sampling": sampling, "variant": variant, "return_lse": True, "bits": 4}
    if masked:
        options["attn_mask"] = backend.array(np.where(valid, np.linspace(-1, 1, s), -np.inf))
    out, lse = nlattn.hyper_attention(*(backend.array(x) for x in (q, k, v)), size, 9, rng=4, **options)
    weights = estimated_weights(
        q,
        k,
        v,
        size,
        9,
        4,
        bits=4,
        variant=variant,
        valid=valid,
        probability=by_values if sampling == "values" else None,
    )
    if masked:
        weights = weights * np.where(valid, np.exp(np.linspace(-1, 1, s)), 0)
    wanted = weighted_attention(q, k, v, weights)
    np.testing.assert_allclose(to_numpy(out), wanted[0], atol=1e-12)
    np.testing.assert_allclose(to_numpy(lse), wanted[1], atol=1e-12)


@pytest.mark.parametrize("sampling", ["uniform", "values"])
@pytest.mark.parametrize("is_causal", [False, True])
def test_sums_are_unbiased(sampling, is_causal):
    """The mean of denominator and numerator over 3000 draws, in units of their standard error."""
    n, draws = 44, 3000
    q, k, v = draw(n, n)
    v = v * np.linspace(0, 3, n)[:, None]
    many = [np.broadcast_to(x, (draws, 1, n, x.shape[1])) for x in (q, k, v)]
    options = {"sampling": sampling, "is_causal": is_causal, "rng": 0, "return_lse": True, "bits": 3}
    out, lse = nlattn.hyper_attention(*many, 6, 5, **options)
    exact = nlattn.exact_attention(q, k, v, is_causal=is_causal, return_lse=True)
    ratio = np.exp(lse[:, 0] - exact.lse)
    for sample, mean in ((ratio, 1.0), (ratio[..., None] * out[:, 0], exact.out)):
        error = sample.std(0) / math.sqrt(draws)
        assert np.all(np.abs(sample.mean(0) - mean) < 4.5 * error + 1e-9)
        assert np.all(error < 0.2)
    assert np.max(ratio.std(0)) > 0.2  # it is an estimate


def test_variance_of_the_denominator():
    """(N sum A^2 - (sum A)^2) / m over the keys outside of the block, here always the same."""
    n, draws, m = 40, 4000, 7
    rng = np.random.default_rng(0)
    # Points on a line: the hash is their sign, and a block holds those of one sign.
    sign = np.where(np.arange(n) < 20, -1.0, 1.0)[:, None]
    q, k = (sign * (1 + rng.random((n, 1))) for _ in range(2))
    q, k = (x - x.mean() for x in (q, k))
    many = [np.broadcast_to(x, (draws, 1, n, 1)) for x in (q, k, k)]
    lse = nlattn.hyper_attention(*many, 20, m, scale=1.0, rng=0, return_lse=True)[1][:, 0]
    masses = np.exp(q @ k.T)
    light = np.where(sign == sign.T, 0, masses)
    variance = (n * (light**2).sum(1) - light.sum(1) ** 2) / m
    np.testing.assert_allclose(np.exp(lse).var(0), variance, rtol=0.1)


def test_more_samples_than_keys():
    q, k, v = draw(30, 30)
    exact = nlattn.exact_attention(q, k, v)
    out = nlattn.hyper_attention(q, k, v, 8, 100_000, rng=0)
    assert np.linalg.norm(out - exact) < 0.03 * np.linalg.norm(exact)
    mask = np.zeros(30, bool)
    mask[[4, 9]] = True  # fewer keys than a block
    out = nlattn.hyper_attention(q, k, v, 8, 100, attn_mask=mask, rng=0)
    np.testing.assert_allclose(out, nlattn.exact_attention(q, k, v, mask), atol=1e-14)


def test_values_that_are_zero_are_drawn_equally():
    q, k, v = draw(40, 40)
    for options in ({}, {"is_causal": True}):
        options |= {"rng": 0, "return_lse": True}
        got = nlattn.hyper_attention(q, k, 0 * v, 6, 5, sampling="values", **options)
        assert np.all(got.out == 0)
        np.testing.assert_allclose(got.lse, nlattn.hyper_attention(q, k, 0 * v, 6, 5, **options).lse)


def test_the_past_does_not_depend_on_future_keys():
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, 300, 8)) for _ in range(3))

    def call(k, v):
        return nlattn.hyper_attention(q, k, v, 16, 16, sampling="values", is_causal=True, rng=3)

    first = call(k, v)
    for now in (1, 37, 150, 299):
        k2, v2 = k.copy(), v.copy()
        k2[:, now:], v2[:, now:] = 5 * rng.standard_normal((2, 300 - now, 8)), 1e3
        changed = call(k2, v2)
        assert np.array_equal(changed[:, :now], first[:, :now])
        assert np.abs(changed[:, now:] - first[:, now:]).min(-1).max() > 1


def test_heads_of_a_causal_call_draw_for_themselves():
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, 3, 200, 4)) for _ in range(3))
    whole = nlattn.hyper_attention(q, k, v, 8, 8, is_causal=True, rng=np.random.default_rng(1))
    generator = np.random.default_rng(1)
    for b, h in np.ndindex(2, 3):
        out = nlattn.hyper_attention(q[b, h], k[b, h], v[b, h], 8, 8, is_causal=True, rng=generator)
        np.testing.assert_allclose(out, whole[b, h], atol=1e-13)


def test_exact_stretches_of_a_causal_call():
    q, k, v = draw(300, 300)
    out = nlattn.hyper_attention(q, k, v, 16, 16, is_causal=True, rng=0)
    exact = nlattn.exact_attention(q, k, v, is_causal=True)
    error = np.abs(out - exact).max(-1)
    assert np.all(error[:38] < 1e-14)  # 300 / 8 keys
    assert np.all(error[38:] > 1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bucket_size": 0}, "bucket_size must be at least 1, got 0"),
        ({"samples": 0}, "samples must be at least 1, got 0"),
        ({"bits": 63}, r"bits must be at most 62 \(the bits of an int64\), got 63"),
        ({"sampling": "norms"}, "sampling must be one of 'uniform', 'values', got 'norms'"),
        ({"variant": "triton"}, "variant must be one of 'nlattn', 'paper', got 'triton'"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(ValueError, match=words):
        nlattn.hyper_attention(*draw(9, 9), **options)


def test_on_real_heads():
    sample = nlattn.datasets.load("dinov2")
    exact = nlattn.exact_attention(*sample[:3], scale=sample.scale)
    errors = [
        np.linalg.norm(nlattn.hyper_attention(*sample[:3], n, n, scale=sample.scale, rng=0) - exact)
        / np.linalg.norm(exact)
        for n in (32, 128, 512)
    ]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.1
