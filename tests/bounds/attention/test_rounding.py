"""Rounding errors of softmax means."""

import numpy as np
import pytest

from nlattn import Partial, exact_attention, merge_partials, use_backend
from nlattn.bounds import merge_rounding, online_softmax_rounding


@pytest.mark.parametrize("seed", range(20))
def test_merge_in_half_precision(seed):
    """merge_rounding in float16, whose unit of 2^-11 makes the errors large enough to see."""
    rng = np.random.default_rng(seed)
    outs = rng.standard_normal((6, 1, 8)).astype(np.float16)
    lses = rng.standard_normal((6, 1)).astype(np.float16)
    merged = merge_partials(*(Partial(o, lse) for o, lse in zip(outs, lses, strict=True))).out
    assert merged.dtype == np.float16
    weights = np.exp(lses.astype(float) - np.max(lses.astype(float)))
    exact = np.sum(weights[..., None] * outs, axis=0) / np.sum(weights)
    error = np.max(np.abs(merged - exact))
    assert 0 < error <= merge_rounding(outs.astype(float), 2.0**-11)


def test_entropy_bound():
    """merge_rounding does not depend on the masses: parts may differ by a factor of e^100, as here."""
    outs = np.asarray([[[1.0]], [[-1.0]], [[0.5]]], np.float32)
    lses = np.asarray([[60.0], [-40.0], [59.0]], np.float32)
    merged = merge_partials(*(Partial(o, lse) for o, lse in zip(outs, lses, strict=True))).out
    exact = (1.0 + 0.5 * np.exp(-1.0)) / (1 + np.exp(-1.0))
    assert abs(merged[0, 0] - exact) <= merge_rounding(outs, 2.0**-24)
    p = np.random.default_rng(0).dirichlet(np.ones(7))
    assert -np.sum(p * np.log(p / p.max())) <= np.log(7)


@pytest.mark.parametrize("name", ["generic", "numba_cpu"])
@pytest.mark.parametrize("spread", [1.0, 30.0, 1e4])
def test_streaming_backends_and_huge_scores(name, spread):
    """online_softmax_rounding holds on both backends, whose blocks have 64 to 1024 keys."""
    rng = np.random.default_rng(0)
    keys = (spread * rng.standard_normal((3000, 1))).astype(np.float32)
    values = rng.standard_normal((3000, 4)).astype(np.float32)
    with use_backend(name):
        out = exact_attention(np.ones((1, 1), np.float32), keys, values, scale=1.0)
    weights = np.exp(keys[:, 0].astype(float) - keys.max())
    error = np.max(np.abs(out - weights @ values / weights.sum()))
    assert error <= online_softmax_rounding(values, 1024, 3000 // 64 + 1, 2.0**-24)
    assert online_softmax_rounding(values, 256, 12, 2.0**-24) < 3e-4


def test_too_many_operations():
    """Beyond c = 1/50 products of errors are not paid for: merge_rounding and online_softmax_rounding are inf."""
    z = 1 / 100 + 1 / 51
    assert np.expm1(z) <= 1.02 * z < 1.02 * 0.03
    assert merge_rounding(np.ones((29, 1)), 2.0**-11) < np.inf == merge_rounding(np.ones((40, 1)), 2.0**-11)
    values = np.ones((20, 1))
    assert online_softmax_rounding(values, 10, 2, 2.0**-11) < np.inf == online_softmax_rounding(values, 20, 9, 2.0**-11)
