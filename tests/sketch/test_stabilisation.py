"""Exponentials of log-features."""

import numpy as np
import pytest

from nlattn.sketch import (
    hyperbolic_log_features,
    orthogonal_projection,
    stabilised_features,
)
from nlattn.testing import assert_close, assert_same_kind

rng = np.random.default_rng(0)


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_denominators_are_at_least_one(backend, scale, dtype):
    x, y = ((scale * rng.standard_normal((2, n, 6))).astype(dtype) for n in (9, 12))
    W = orthogonal_projection(8, 6, rng=0)
    a, b = (hyperbolic_log_features(backend.array(p), backend.array(W)) for p in (x, y))
    query, key, shift = stabilised_features(a, b)
    assert_same_kind(query, a)
    query, key, shift, a, b = (backend.to_numpy(p).astype(float) for p in (query, key, shift, a, b))
    assert query.max() <= 1
    assert key.max() <= 1
    assert np.all(query.max(axis=-1) == 1)
    assert np.all(key.max(axis=-2) == 1)
    products = query @ np.swapaxes(key, -1, -2)
    denominators = products.sum(axis=-1)
    assert denominators.min() >= 1
    # The attention weights are those of the unscaled features, and the shift restores the kernel.
    logs = np.logaddexp.reduce(a[..., :, None, :] + b[..., None, :, :], axis=-1)
    weights = np.exp(logs - np.logaddexp.reduce(logs, axis=-1, keepdims=True))
    tight = 1e-10 if dtype == "float64" else 1e-3
    assert_close(products / denominators[..., None], weights, rtol=tight, atol=1e-30 if dtype == "float64" else 1e-6)
    likely = weights > 1e-6
    np.testing.assert_allclose(
        (shift[..., None] + np.log(np.where(likely, products, 1)))[likely], logs[likely], atol=tight
    )


def test_keys_left_out(backend):
    a, b = rng.standard_normal((3, 4)), rng.standard_normal((5, 4))
    b[1], b[3, 2] = -np.inf, -np.inf
    query, key, _ = stabilised_features(backend.array(a), backend.array(b))
    fewer = stabilised_features(backend.array(a), backend.array(np.delete(b, 1, axis=0)))
    assert_close(query, fewer.query, rtol=0)
    assert_close(backend.to_numpy(key)[[0, 2, 3, 4]], backend.to_numpy(fewer.key), rtol=0)
    assert np.all(backend.to_numpy(key)[1] == 0)
    b[:, 2] = -np.inf  # a feature that no key has
    query, key, _ = (backend.to_numpy(p) for p in stabilised_features(backend.array(a), backend.array(b)))
    assert np.all(key[:, 2] == 0)
    assert (query @ key.sum(axis=0)).min() >= 1
    for nothing in (b[:0], np.full((5, 4), -np.inf)):
        query, key, shift = (backend.to_numpy(p) for p in stabilised_features(backend.array(a), backend.array(nothing)))
        assert not query.any()
        assert not key.any()
        assert not shift.any()


def test_bad_log_features():
    a = np.zeros((2, 3))
    with pytest.raises(ValueError, match="log_query contains NaN or inf"):
        stabilised_features(a - np.inf, a)
    for bad in (np.inf, np.nan):
        with pytest.raises(ValueError, match=r"log_key contains NaN or \+inf"):
            stabilised_features(a, a + bad)
    with pytest.raises(ValueError, match="log_query and log_key must agree in their last axis"):
        stabilised_features(a, a[:, :2])
    with pytest.raises(ValueError, match="log_query must hold at least one feature"):
        stabilised_features(a[:, :0], a[:, :0])
